/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU as a device: launches run inside the call. Kernels take host memory too, wherever it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zipc_error.h"
#include "zipg_emu.h"
#include "zipg_emu_memory.h"
#include "zipg_priv.h"
#include "zipg_tables.h"

struct zipg_hw {
	unsigned int width;
	int backwards;
};

static int emu_count(const char **why)
{
	*why = "the CPU plays the device";
	return 1;
}

static int emu_open(int ordinal, const struct zipg_config *config, struct zipg_hw **hw_p)
{
	struct zipg_hw *hw;

	if (ordinal)
		return ZIPC_ERR_INVAL;
	hw = calloc(1, sizeof(*hw));
	if (!hw)
		return ZIPC_ERR_NOMEM;
	hw->width = config->width ? config->width : 32;
	hw->backwards = config->backwards;
	*hw_p = hw;
	return 0;
}

static void emu_close(struct zipg_hw *hw)
{
	free(hw);
}

static void emu_quiesce(struct zipg_hw *hw)
{
	(void)hw;
}

static void emu_info(struct zipg_hw *hw, struct zipg_info *info)
{
	snprintf(info->name, sizeof(info->name), "emulation, wavefront of %u", hw->width);
	info->multiprocessors = 8;
}

static int emu_alloc(struct zipg_hw *hw, enum zipg_memory memory, size_t bytes, void **ptr_p, uint64_t *dev_p)
{
	void *p = memory == ZIPG_MEMORY_DEVICE ? zipg_emu_alloc(bytes) : aligned_alloc(256, (bytes + 255) & ~(size_t)255);

	(void)hw;
	if (!p)
		return ZIPC_ERR_NOMEM;
	*ptr_p = p;
	*dev_p = (uintptr_t)zipg_emu_reach(p);
	return 0;
}

static void emu_release(struct zipg_hw *hw, enum zipg_memory memory, size_t bytes, void *ptr)
{
	(void)hw;
	if (memory == ZIPG_MEMORY_DEVICE)
		zipg_emu_free(ptr, bytes);
	else
		free(ptr);
}

static int emu_upload(struct zipg_hw *hw, uint64_t dst, const void *src, size_t bytes)
{
	(void)hw;
	if (src)
		memcpy((void *)(uintptr_t)dst, src, bytes);
	else
		memset((void *)(uintptr_t)dst, 0, bytes);
	return 0;
}

static int emu_launch(struct zipg_hw *hw, unsigned int stream, enum zipg_kernel_kind kind, enum zipc_dtype dtype, uint32_t grid,
		      const struct zipg_job *job)
{
	void (*kernel)(const struct zipg_job job) = zipg_emu_kernel(kind, dtype);
	struct zipg_job there = *job;

	(void)stream;
	if (!kernel)
		return ZIPC_ERR_INVAL;
	if (job->share && grid > 11)
		grid = 11;
	there.item.plain = (uintptr_t)zipg_emu_reach((const void *)(uintptr_t)job->item.plain);
	there.item.frame = (uintptr_t)zipg_emu_reach((const void *)(uintptr_t)job->item.frame);
	return zipg_emu_run(kernel, grid, zipg_kernel_shared(kind, dtype), &there, hw->width, hw->backwards) ? ZIPC_ERR_NOMEM : 0;
}

static int emu_copy(struct zipg_hw *hw, unsigned int stream, void *dst, const void *src, size_t bytes)
{
	(void)hw;
	(void)stream;
	memcpy(zipg_emu_reach(dst), zipg_emu_reach(src), bytes);
	return 0;
}

static int emu_signal(struct zipg_hw *hw, unsigned int stream, uint32_t *word, uint64_t dev, uint32_t value)
{
	(void)hw;
	(void)stream;
	(void)dev;
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return 0;
}

static int emu_query(struct zipg_hw *hw, unsigned int stream)
{
	(void)hw;
	(void)stream;
	return 0;
}

static int emu_classify(const void *ptr, struct zipg_pointer *pointer)
{
	if (!zipg_emu_owns(ptr))
		return -1;
	*pointer = (struct zipg_pointer){ ZIPG_MEMORY_DEVICE, "emu", 0 };
	return 0;
}

const struct zipg_backend zipg_emu_backend = {
	.name = "emu",
	.count = emu_count,
	.open = emu_open,
	.close = emu_close,
	.quiesce = emu_quiesce,
	.info = emu_info,
	.alloc = emu_alloc,
	.release = emu_release,
	.upload = emu_upload,
	.launch = emu_launch,
	.copy = emu_copy,
	.signal = emu_signal,
	.query = emu_query,
	.classify = emu_classify,
};
