/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where zip_codec_bench runs the codec. A device that is not the host adds one file with its table, listed in
 * bench_devices below, and nothing else.
 */
#ifndef ZIP_CODEC_BENCH_H
#define ZIP_CODEC_BENCH_H

#include "zipc_codec.h"

struct bench_device {
	const char *name;

	/*
	 * Take the device and its buffers for inputs up to max_bytes. Returns 0 and a handle, or -1 after a message on stderr,
	 * or 1 when this machine does not have the device.
	 */
	int (*open)(void **handle, size_t max_bytes);
	void (*close)(void *handle);

	/* Bring the input to the device; src is host memory. Not timed. */
	int (*load)(void *handle, const void *src, size_t nbytes);

	/*
	 * Encode the loaded input, decode the last frame: everything a transfer would wait for is inside *seconds.
	 * Return 0 or ZIPC_ERR_*.
	 */
	int (*encode)(void *handle, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes, double *seconds);
	int (*decode)(void *handle, double *seconds);

	/* Fill the output with junk, so that a decode that does nothing is noticed. */
	int (*poison)(void *handle);

	/* Does the output equal src? */
	int (*check)(void *handle, const void *src, size_t nbytes);
};

extern const struct bench_device bench_device_host;
extern const struct bench_device bench_device_cuda, bench_device_cuda_graph, bench_device_cuda_share, bench_device_hip; /* bench_device.c */
extern const struct bench_device bench_device_nvcomp;                                                                  /* bench_nvcomp.c */

#endif
