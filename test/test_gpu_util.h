/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers and operations for the tests of the device codec. The emulation takes host memory as device memory. */
#ifndef TEST_GPU_UTIL_H
#define TEST_GPU_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "zipc_error.h"
#include "zipg.h"
#include "zipt_data.h"

static inline struct zipg_device *gpu_open(unsigned int width, int backwards, unsigned int share)
{
	struct zipg_config config = { .width = width, .backwards = backwards, .share = share };
	struct zipg_device *dev;

	assert_int_equal(zipg_open("emu", 0, &config, &dev), 0);
	return dev;
}

/* Exactly `bytes`, so that a sanitizer sees every step outside. */
static inline uint8_t *gpu_frames(size_t bytes)
{
	void *p = NULL;

	assert_int_equal(posix_memalign(&p, 64, bytes ? bytes : 1), 0);
	memset(p, 0xcd, bytes);
	return p;
}

/* A tensor whose address is `off` above a multiple of 64. Free tensor - off. */
static inline uint8_t *gpu_tensor(size_t bytes, size_t off)
{
	return gpu_frames(bytes + off) + off;
}

static inline void gpu_finish(struct zipg_op *op)
{
	int ret;

	while (!(ret = zipg_op_test(op)))
		;
	assert_int_equal(ret, 1);
	assert_int_equal(zipg_op_progress(op), zipg_op_frames(op));
}

/* One frame. Returns its size. */
static inline size_t gpu_encode(struct zipg_device *dev, uint8_t *frame, const uint8_t *src, size_t nbytes, enum zipc_dtype dtype,
				enum zipc_codec codec, int sparse)
{
	struct zipg_encode req = {
		.src = src, .nbytes = nbytes, .chunk = nbytes ? nbytes : 1, .frames = frame, .dtype = dtype, .codec = codec, .sparse = sparse,
	};
	struct zipg_frame got;
	struct zipg_op *op;

	assert_int_equal(zipg_encode_start(dev, &req, &op), 0);
	gpu_finish(op);
	zipg_op_frame(op, 0, &got);
	assert_int_equal(got.status, 0);
	assert_true(got.frame_bytes <= zipc_frame_bound(nbytes));
	zipg_op_release(op);
	return got.frame_bytes;
}

/* One frame, of the kind its header says. Returns the status. */
static inline int gpu_decode(struct zipg_device *dev, uint8_t *dst, size_t nbytes, const uint8_t *frame, size_t frame_bytes,
			     const struct zipc_frame_info *info)
{
	unsigned char raw = info->codec == ZIPC_CODEC_RAW;
	struct zipg_decode req = {
		.dst = dst, .nbytes = nbytes, .chunk = nbytes ? nbytes : 1, .frames = frame, .frame_bytes = &frame_bytes, .raw = &raw,
		.dtype = info->dtype, .codec = info->codec, .sparse = info->sparse,
	};
	struct zipg_frame got;
	struct zipg_op *op;
	int ret;

	ret = zipg_decode_start(dev, &req, &op);
	if (ret)
		return ret;
	gpu_finish(op);
	zipg_op_frame(op, 0, &got);
	zipg_op_release(op);
	return got.status;
}

#endif
