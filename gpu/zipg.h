/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The codec on GPUs. A device is opened once (its kernels are loaded and all memory is taken then); after that nothing here allocates,
 * blocks, synchronises a device or uses its default stream. Frames are those of common/zipc_codec.h.
 *
 * Backends: "cuda" and "hip" open the vendor's driver library at run time; "emu" runs the same kernels on the CPU, inside the call, and takes
 * host memory as device memory as well: for tests. Functions are thread-safe; an operation is used by one thread at a time. Sizes are bytes
 * unless a name says otherwise. Functions return 0 or ZIPC_ERR_*.
 */
#ifndef ZIPG_H
#define ZIPG_H

#include <stddef.h>
#include <stdint.h>

#include "zipc_codec.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ZIPG_FRAMES_MAX 1024u  /* frames of one operation */
#define ZIPG_FRAME_ALIGN 16u   /* of every frame in memory */

enum zipg_memory {
	ZIPG_MEMORY_HOST,
	ZIPG_MEMORY_PINNED,    /* host memory that the device reads and writes */
	ZIPG_MEMORY_MANAGED,
	ZIPG_MEMORY_DEVICE
};

struct zipg_pointer {
	enum zipg_memory memory;
	const char *backend;   /* NULL for host memory no backend knows */
	int ordinal;           /* of the device the memory is on; -1 for host memory */
};

struct zipg_config {
	unsigned int share;    /* encoders use only so many multiprocessors; 0: all */
	unsigned int width;    /* emu: wavefront, 32 or 64; 0: 32 */
	int backwards;         /* emu: order in which threads run */
};

struct zipg_info {
	char name[96];
	const char *backend;
	int driver;            /* version as the driver gives it */
	unsigned int multiprocessors;
	size_t footprint;      /* device memory taken through this device: its own and that of zipg_alloc() */
	size_t pinned;         /* host memory likewise */
};

struct zipg_device;
struct zipg_op;

/* Devices a backend can open; 0 when its library, its kernels or its hardware are missing. `why` (may be NULL) says so. */
int zipg_count(const char *backend, const char **why);

/* Where ptr points to. Asks only drivers that a device was opened with, so it never starts one. */
void zipg_classify(const void *ptr, struct zipg_pointer *pointer);

/* config may be NULL. *dev_p is set on success only. All operations must be released before zipg_close(). */
int zipg_open(const char *backend, int ordinal, const struct zipg_config *config, struct zipg_device **dev_p);
void zipg_close(struct zipg_device *dev);
void zipg_get_info(struct zipg_device *dev, struct zipg_info *info);

/* Staging: memory DEVICE or PINNED, aligned to 256. Not for the data path. `bytes` of the release are those of the allocation. */
int zipg_alloc(struct zipg_device *dev, enum zipg_memory memory, size_t bytes, void **ptr_p);
void zipg_release(struct zipg_device *dev, enum zipg_memory memory, size_t bytes, void *ptr);

/* Distance of frames in staging: room for a frame of `chunk` bytes of input, a multiple of 256. */
size_t zipg_frame_step(size_t chunk);

enum zipg_parts {
	ZIPG_PARTS_ALL,
	ZIPG_PARTS_PLANES,     /* planes and tail only: they can go first. Dense codecs only. */
	ZIPG_PARTS_REST        /* what is left, with the header */
};

/*
 * Encode `nbytes` at `src` (any alignment) as frames of `chunk` bytes of input each (the last may be shorter), frame i at
 * frames + i * step. `chunk` is a multiple of 8192; one frame may have any chunk >= nbytes.
 */
struct zipg_encode {
	const void *src;
	size_t nbytes;
	size_t chunk;
	void *frames;
	size_t step;           /* at least zipg_frame_step(chunk); not looked at for one frame */
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	int sparse;            /* entropy: planes or blocks are constant (zipc_sample.sparse) */
	enum zipg_parts parts;
	int progress;          /* zipg_op_progress() counts frames while others are still encoded; costs speed */
};

/* The reverse. All frames have the given dtype, codec and flag, except that short or unshrinkable ones may be raw: say so by raw[i]. */
struct zipg_decode {
	void *dst;
	size_t nbytes;
	size_t chunk;
	const void *frames;
	size_t step;
	const size_t *frame_bytes; /* received, one a frame; read inside the call */
	const unsigned char *raw;  /* 1: frame i is a raw frame. NULL: none */
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	int sparse;
};

/* Between any two of device and pinned memory. */
struct zipg_copy {
	void *dst;
	const void *src;
	size_t nbytes;
};

/* Start an operation. ZIPC_ERR_AGAIN when too many are pending. The memory named must stay as it is until it is finished. */
int zipg_encode_start(struct zipg_device *dev, const struct zipg_encode *req, struct zipg_op **op_p);
int zipg_decode_start(struct zipg_device *dev, const struct zipg_decode *req, struct zipg_op **op_p);
/* A look at a tensor in device memory, as zipc_sample() does for host memory. */
int zipg_sample_start(struct zipg_device *dev, const void *src, size_t nbytes, enum zipc_dtype hint, struct zipg_op **op_p);

/* `n` copies, with the copy engines. `copies` is read inside the call. */
int zipg_copy_start(struct zipg_device *dev, const struct zipg_copy *copies, unsigned int n, struct zipg_op **op_p);

/*
 * Poll: 0 while the operation runs, 1 when it is finished and everything it wrote is visible to host, NIC and other streams,
 * ZIPC_ERR_* when the device failed. Costs a read of host memory, and for frames that do not shrink a launch that copies them.
 */
int zipg_op_test(struct zipg_op *op);

/* Frames of the operation, and how many of them, counted from the first, are finished. */
unsigned int zipg_op_frames(const struct zipg_op *op);
unsigned int zipg_op_progress(struct zipg_op *op);

struct zipg_frame {
	int status;            /* decode: 0 or ZIPC_ERR_* */
	size_t frame_bytes;
	int raw;               /* encode: it is a raw frame because it would not have shrunk */
};

/* Of a frame that progress or test has counted. */
void zipg_op_frame(const struct zipg_op *op, unsigned int i, struct zipg_frame *frame);
/* Of a finished sample. */
void zipg_op_sample(const struct zipg_op *op, struct zipc_sample *sample);

/* Give the operation back, finished or not; an unfinished one is waited for by later polls of the device, not here. */
void zipg_op_release(struct zipg_op *op);

#ifdef __cplusplus
}
#endif
#endif
