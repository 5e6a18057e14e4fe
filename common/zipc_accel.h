/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accelerators: devices with memory of their own that encode and decode beside the engine. What they do is started, and asked
 * about later; the host (struct zipc_device_ops) does its work inside the call and needs none of this.
 *
 * Staging of a transfer that starts or ends in device memory is memory that the device reads and writes: device memory where the
 * network reads that too, else pinned host memory. Sizes are bytes.
 */
#ifndef ZIPC_ACCEL_H
#define ZIPC_ACCEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "zipc_codec.h"

struct zipc_engine;
struct zipc_accel;

/* Consecutive chunks of a buffer on the one side, their frames in staging on the other. */
struct zipc_work {
	void *plain;           /* device memory, any alignment */
	size_t nbytes;         /* of all chunks; the last may be shorter */
	size_t chunk;
	void *frames;          /* of chunk i at frames + i * step */
	size_t step;
	enum zipc_dtype dtype; /* RAW: raw frames */
	enum zipc_codec codec;
	int sparse;
	const size_t *frame_bytes; /* decoding: of each frame; read inside the call */
	const uint8_t *raw;        /* decoding: 1: that one is a raw frame; read inside the call */
};

/* Any two kinds of memory that the device reaches, or pinned and device memory. */
struct zipc_copy {
	void *dst;
	const void *src;
	size_t nbytes;
};

#define ZIPC_COPIES_MAX 9 /* of one job */

struct zipc_coded {
	int status;            /* decoding: 0 or ZIPC_ERR_* of this frame */
	size_t frame_bytes;    /* encoding */
};

/*
 * Calls that start a job return 0 and set *job_p, which is released later; ZIPC_ERR_AGAIN when too much is under way; any other code
 * is a failure of this job. What a job names stays untouched until it is finished. Called by one thread at a time for each engine.
 */
struct zipc_accel_ops {
	const char *name;
	int (*encode)(void *dev, const struct zipc_work *work, void **job_p);
	int (*decode)(void *dev, const struct zipc_work *work, void **job_p);
	int (*sample)(void *dev, const void *src, size_t nbytes, enum zipc_dtype hint, void **job_p);
	int (*copy)(void *dev, const struct zipc_copy *copies, unsigned n, void **job_p);
	/*
	 * How many frames, counted from the first, are finished, and in *over whether the whole job is (samples and copies have no
	 * frames). A negative code: this job has failed, if it is over, or else the device, for good.
	 */
	int (*poll)(void *dev, void *job, int *over);
	/* Of a frame that poll has counted. */
	void (*coded)(void *dev, void *job, unsigned i, struct zipc_coded *coded);
	void (*sampled)(void *dev, void *job, struct zipc_sample *sample);
	void (*release)(void *dev, void *job);
};

struct zipc_accel_attr {
	const struct zipc_accel_ops *ops; /* outlives the engine, as does dev */
	void *dev;
	/* Staging, the adapter's, until the engine is closed. Cut into slots of zipc_accel_slot() bytes; 2 slots or more each. */
	void *send_memory, *recv_memory;
	size_t send_bytes, recv_bytes;
	int visible;   /* the host may read staging */
	int direct;    /* the network takes the application's device memory as it is, so that messages can go raw */
};

/* The pieces of [offset, offset + nbytes) of the segments, at most ZIPC_COPIES_MAX. Returns how many. */
unsigned zipc_iov_pieces(const struct iovec *iov, size_t niov, size_t offset, size_t nbytes, struct iovec *pieces);

/* Bytes of a slot for the engine's chunk. */
size_t zipc_accel_slot(const struct zipc_engine *engine);

/* Tells the engine of a device, not on the data path. Closed with the engine. Returns 0 or ZIPC_ERR_*. */
int zipc_engine_attach(struct zipc_engine *engine, const struct zipc_accel_attr *attr, struct zipc_accel **accel_p);
/* 1 when the device has failed: nothing is started on it any more. */
int zipc_accel_dead(const struct zipc_accel *accel);

#endif
