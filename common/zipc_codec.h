/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lossless codec for float tensors on the host: frames as doc/format.md describes them.
 *
 * All functions are thread-safe, allocate nothing and keep no state between calls. Sizes are bytes unless a name says otherwise.
 */
#ifndef ZIPC_CODEC_H
#define ZIPC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum zipc_dtype {
	ZIPC_DTYPE_RAW = 0,
	ZIPC_DTYPE_BF16 = 1,
	ZIPC_DTYPE_FP16 = 2,
	ZIPC_DTYPE_FP32 = 3,
	ZIPC_DTYPE_E4M3 = 4,
	ZIPC_DTYPE_E5M2 = 5,
	ZIPC_DTYPE_COUNT
};

enum zipc_codec {
	ZIPC_CODEC_RAW = 0,
	ZIPC_CODEC_FIXED = 1,
	ZIPC_CODEC_ENTROPY = 2,
	ZIPC_CODEC_COUNT
};

#define ZIPC_FRAME_HEADER 64u

/* What a frame's header says, after it was checked. */
struct zipc_frame_info {
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	int sparse;
	uint64_t nbytes;       /* bytes of input */
	uint64_t frame_bytes;  /* whole frame, header included */
};

/* What a look at a buffer found. */
struct zipc_sample {
	enum zipc_dtype dtype; /* the dtype that promises the smallest frame; RAW when none is worth it */
	int sparse;            /* constant planes or blocks were seen */
	float ratio_fixed;     /* predicted frame_bytes / nbytes, 1 when raw */
	float ratio_entropy;
};

/* The names users write: raw bf16 fp16 fp32 e4m3 e5m2; raw fixed entropy. Parsers return -1 for an unknown name. */
const char *zipc_dtype_name(enum zipc_dtype dtype);
const char *zipc_codec_name(enum zipc_codec codec);
int zipc_dtype_parse(const char *name);
int zipc_codec_parse(const char *name);

/* The most bytes that encoding `nbytes` of input can take: nbytes + ZIPC_FRAME_HEADER. */
size_t zipc_frame_bound(size_t nbytes);

/*
 * Encode `nbytes` at `src` (any alignment) as one frame at `dst`.
 * `dst_size` must be at least zipc_frame_bound(nbytes); dst and src do not overlap.
 * `dtype` and `codec` are a wish: what does not shrink becomes a raw frame, constant planes a sparse entropy frame.
 * Returns 0 and sets *frame_bytes; ZIPC_ERR_INVAL for a bad argument, ZIPC_ERR_SPACE when dst_size is too small.
 */
int zipc_encode(void *dst, size_t dst_size, const void *src, size_t nbytes,
		enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes);

/*
 * Check the header of the frame in the `size` bytes at `frame` and report it.
 * Returns 0 or ZIPC_ERR_* (MAGIC, VERSION, DTYPE, CODEC, FLAGS, SIZE, RESERVED); *info is set on success only.
 */
int zipc_frame_parse(const void *frame, size_t size, struct zipc_frame_info *info);

/*
 * Decode a frame that fills exactly the `size` bytes at `frame` into the `nbytes` bytes at `dst` (any alignment).
 * The frame may come from a hostile peer: whatever it holds, nothing outside the two ranges is touched, and after an
 * error the contents of dst are undefined. Returns 0 or ZIPC_ERR_*.
 */
int zipc_decode(void *dst, size_t nbytes, const void *frame, size_t size);

/*
 * Look at a few KiB spread over the buffer and say what it looks like. `hint` other than RAW limits the choice to
 * that dtype. Cost is bounded (a few microseconds) whatever nbytes is.
 */
void zipc_sample(const void *src, size_t nbytes, enum zipc_dtype hint, struct zipc_sample *sample);

#ifdef __cplusplus
}
#endif
#endif
