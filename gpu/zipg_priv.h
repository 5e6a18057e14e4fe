/* SPDX-License-Identifier: BSD-3-Clause */
/* The table behind which backends differ. Addresses are the device's, as 64-bit numbers. */
#ifndef ZIPG_PRIV_H
#define ZIPG_PRIV_H

#include "kernels/zipg_job.h"
#include "zipg.h"

#define ZIPG_STREAMS 4u

struct zipg_hw;

/* All return 0 or ZIPC_ERR_*. */
struct zipg_backend {
	const char *name;
	int (*count)(const char **why);
	int (*open)(int ordinal, const struct zipg_config *config, struct zipg_hw **hw_p);
	void (*close)(struct zipg_hw *hw);
	void (*info)(struct zipg_hw *hw, struct zipg_info *info);
	int (*alloc)(struct zipg_hw *hw, enum zipg_memory memory, size_t bytes, void **ptr_p, uint64_t *dev_p);
	void (*release)(struct zipg_hw *hw, enum zipg_memory memory, size_t bytes, void *ptr);
	int (*upload)(struct zipg_hw *hw, uint64_t dst, const void *src, size_t bytes); /* at open only; NULL src: zeros */
	/* job->share != 0: as many thread blocks as fit on the device; else one a unit. */
	int (*launch)(struct zipg_hw *hw, unsigned int stream, enum zipg_kernel_kind kind, enum zipc_dtype dtype, uint32_t grid,
		      const struct zipg_job *job);
	/* Between any two of device and pinned memory. */
	int (*copy)(struct zipg_hw *hw, unsigned int stream, void *dst, const void *src, size_t bytes);
	/* Write `value` to the pinned word at `dev` once all work before it in the stream is done. */
	int (*signal)(struct zipg_hw *hw, unsigned int stream, uint32_t *word, uint64_t dev, uint32_t value);
	/* ZIPC_ERR_AGAIN while the stream has work, 0, or another error when the device failed. */
	int (*query)(struct zipg_hw *hw, unsigned int stream);
	int (*classify)(const void *ptr, struct zipg_pointer *pointer); /* -1: not ours */

	void (*quiesce)(struct zipg_hw *hw); /* wait for all streams; at close only */

	/* For benches only. */
	void *(*stream)(struct zipg_hw *hw, unsigned int stream);
};

extern const struct zipg_backend zipg_cuda_backend, zipg_hip_backend, zipg_emu_backend;

/* For benches and tests. */
struct zipg_hw *zipg_device_hw(struct zipg_device *dev);
const struct zipg_backend *zipg_device_backend(struct zipg_device *dev);

#endif
