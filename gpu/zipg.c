/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: what is taken when one is opened. zipg_op.c has the operations. */
#include "zipg_device.h"

#include <stdlib.h>
#include <string.h>

#include "zipc_error.h"
#include "zipg_tables.h"

static const struct zipg_backend *const backends[] = { &zipg_cuda_backend, &zipg_hip_backend, &zipg_emu_backend };
#define BACKENDS (sizeof(backends) / sizeof(backends[0]))

static const struct zipg_backend *find_backend(const char *name)
{
	for (size_t i = 0; i < BACKENDS; i++) {
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	}
	return NULL;
}

int zipg_count(const char *backend, const char **why)
{
	const struct zipg_backend *be = find_backend(backend);
	const char *unused;

	if (!why)
		why = &unused;
	*why = "unknown backend";
	return be ? be->count(why) : 0;
}

void zipg_classify(const void *ptr, struct zipg_pointer *pointer)
{
	for (size_t i = 0; i < BACKENDS; i++) {
		if (backends[i]->classify(ptr, pointer) == 0)
			return;
	}
	*pointer = (struct zipg_pointer){ ZIPG_MEMORY_HOST, NULL, -1 };
}

/* Device memory of our own is one piece: tables, counters of all frames, queues. */
static int take_memory(struct zipg_device *dev)
{
	size_t states = ZIPG_OPS * ZIPG_FRAMES_MAX * sizeof(struct zipg_state), queues = ZIPG_OPS * sizeof(struct zipg_queue);
	struct zipg_tables *tables;
	void *ptr;
	int ret;

	dev->own_bytes = (sizeof(*tables) + states + queues + 255) & ~(size_t)255;
	ret = dev->be->alloc(dev->hw, ZIPG_MEMORY_DEVICE, dev->own_bytes, &ptr, &dev->tables);
	if (ret)
		return ret;
	dev->own = ptr;
	dev->states = dev->tables + sizeof(*tables);
	dev->queues = dev->states + states;
	tables = malloc(sizeof(*tables));
	if (!tables)
		return ZIPC_ERR_NOMEM;
	zipg_tables_init(tables);
	ret = dev->be->upload(dev->hw, dev->tables, tables, sizeof(*tables));
	free(tables);
	if (!ret)
		ret = dev->be->upload(dev->hw, dev->states, NULL, states + queues);
	if (ret)
		return ret;

	dev->pinned_bytes = sizeof(struct zipg_pinned);
	return dev->be->alloc(dev->hw, ZIPG_MEMORY_PINNED, dev->pinned_bytes, (void **)&dev->pinned, &dev->pinned_dev);
}

static void give_memory(struct zipg_device *dev)
{
	if (dev->pinned)
		dev->be->release(dev->hw, ZIPG_MEMORY_PINNED, dev->pinned_bytes, dev->pinned);
	if (dev->own)
		dev->be->release(dev->hw, ZIPG_MEMORY_DEVICE, dev->own_bytes, dev->own);
}

int zipg_open(const char *backend, int ordinal, const struct zipg_config *config, struct zipg_device **dev_p)
{
	static const struct zipg_config defaults;
	const struct zipg_backend *be = find_backend(backend);
	struct zipg_device *dev;
	int ret;

	if (!be)
		return ZIPC_ERR_INVAL;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return ZIPC_ERR_NOMEM;
	dev->be = be;
	dev->config = config ? *config : defaults;
	pthread_mutex_init(&dev->lock, NULL);
	ret = be->open(ordinal, &dev->config, &dev->hw);
	if (ret)
		goto err_free;
	ret = take_memory(dev);
	if (ret)
		goto err_memory;
	memset(dev->pinned, 0, sizeof(*dev->pinned));
	for (unsigned int i = 0; i < ZIPG_OPS; i++) {
		dev->ops[i].dev = dev;
		dev->ops[i].number = i;
	}
	*dev_p = dev;
	return 0;

err_memory:
	give_memory(dev);
	be->close(dev->hw);
err_free:
	pthread_mutex_destroy(&dev->lock);
	free(dev);
	return ret;
}

void zipg_close(struct zipg_device *dev)
{
	if (!dev)
		return;
	/* The backend waits for its streams first: nothing may run in memory that is given back. */
	dev->be->quiesce(dev->hw);
	give_memory(dev);
	dev->be->close(dev->hw);
	pthread_mutex_destroy(&dev->lock);
	free(dev);
}

void zipg_get_info(struct zipg_device *dev, struct zipg_info *info)
{
	memset(info, 0, sizeof(*info));
	info->backend = dev->be->name;
	dev->be->info(dev->hw, info);
	pthread_mutex_lock(&dev->lock);
	info->footprint = dev->own_bytes + dev->staged[0];
	info->pinned = dev->pinned_bytes + dev->staged[1];
	pthread_mutex_unlock(&dev->lock);
}

static void account(struct zipg_device *dev, enum zipg_memory memory, size_t add)
{
	pthread_mutex_lock(&dev->lock);
	dev->staged[memory == ZIPG_MEMORY_PINNED] += add;
	pthread_mutex_unlock(&dev->lock);
}

int zipg_alloc(struct zipg_device *dev, enum zipg_memory memory, size_t bytes, void **ptr_p)
{
	uint64_t unused;
	int ret;

	if (memory != ZIPG_MEMORY_DEVICE && memory != ZIPG_MEMORY_PINNED)
		return ZIPC_ERR_INVAL;
	ret = dev->be->alloc(dev->hw, memory, bytes, ptr_p, &unused);
	if (!ret)
		account(dev, memory, bytes);
	return ret;
}

void zipg_release(struct zipg_device *dev, enum zipg_memory memory, size_t bytes, void *ptr)
{
	if (!ptr)
		return;
	dev->be->release(dev->hw, memory, bytes, ptr);
	account(dev, memory, (size_t)0 - bytes);
}

size_t zipg_frame_step(size_t chunk)
{
	return (zipc_frame_bound(chunk) + 255) & ~(size_t)255;
}

struct zipg_hw *zipg_device_hw(struct zipg_device *dev)
{
	return dev->hw;
}

const struct zipg_backend *zipg_device_backend(struct zipg_device *dev)
{
	return dev->be;
}
