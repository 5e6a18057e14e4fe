/* SPDX-License-Identifier: BSD-3-Clause */
/* The cuda and hip backends: one text for both drivers, see zipg_driver.h. The HIP half was compiled but never ran on hardware. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zipc_error.h"
#include "zipg_driver.h"
#include "zipg_image.h"
#include "zipg_priv.h"
#include "zipg_tables.h"

#define STREAM_NON_BLOCKING 1u
#define HOST_PORTABLE_MAPPED 3u
#define ATTRIBUTE_DYNAMIC_SHARED 8
#define POINTER_MEMORY_TYPE 2
#define POINTER_IS_MANAGED 8
#define POINTER_ORDINAL 9
#define ERROR_NOT_READY 600
#define ERROR_OUT_OF_MEMORY 2

struct vendor {
	const char *backend;
	const char *library;
	int attribute_multiprocessors;
	int memory_host, memory_device;  /* values of the pointer attribute */
	const void *(*image)(size_t *bytes);
	pthread_mutex_t lock;
	const char *problem;             /* why it cannot be used */
	int opened;                      /* the library is there and initialised */
	struct zipg_driver driver;
};

struct zipg_hw {
	struct vendor *vendor;
	const struct zipg_driver *drv;
	int device;
	int ordinal;
	void *ctx;
	void *module;
	void *stream[ZIPG_STREAMS];
	void *function[ZIPG_KIND_COUNT][ZIPC_DTYPE_COUNT];
	int resident[ZIPG_KIND_COUNT][ZIPC_DTYPE_COUNT]; /* thread blocks that fit on the device */
	int multiprocessors;
	void *time[2];         /* events of zipg_hw_time() */
	struct zipg_again *last;
};

static struct vendor vendors[2] = {
	{ "cuda", "libcuda.so.1", 16, 1, 2, zipg_image_cuda, PTHREAD_MUTEX_INITIALIZER, NULL, 0, { NULL } },
	{ "hip", "libamdhip64.so", 63, 0, 1, zipg_image_hip, PTHREAD_MUTEX_INITIALIZER, NULL, 0, { NULL } },
};

/* dlsym() gives an object pointer; copying its bytes is how POSIX says to make a function pointer of it. */
static int load_symbols(struct vendor *v, void *library)
{
	int hip = v == &vendors[1];
	const char *name;
	void *symbol;

#define LOAD(member, cuda_name, hip_name, parameters)                            \
	name = hip ? hip_name : cuda_name;                                       \
	symbol = *name ? dlsym(library, name) : NULL;                            \
	if (*name && !symbol)                                                    \
		return -1;                                                       \
	memcpy(&v->driver.member, &symbol, sizeof(symbol));
	ZIPG_DRIVER_CALLS(LOAD)
#undef LOAD
	return 0;
}

static void open_vendor(struct vendor *v)
{
	size_t bytes;
	void *library;

	if (v->opened || v->problem)
		return;
	v->problem = "built without its compiler: no kernels";
	if (!v->image(&bytes))
		return;
	v->problem = "its driver library is not there";
	library = dlopen(v->library, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	v->problem = "its driver library is too old";
	if (load_symbols(v, library))
		goto err_close;
	v->problem = "its driver does not start";
	if (v->driver.init(0))
		goto err_close;
	v->problem = NULL;
	v->opened = 1;
	return;

err_close:
	dlclose(library);
}

static int vendor_count(struct vendor *v, const char **why)
{
	int n = 0;

	pthread_mutex_lock(&v->lock);
	open_vendor(v);
	*why = v->problem ? v->problem : "";
	if (v->opened && v->driver.count(&n))
		n = 0;
	if (v->opened && !n)
		*why = "no device";
	pthread_mutex_unlock(&v->lock);
	return n;
}

const struct zipg_driver *zipg_hw_driver(struct zipg_hw *hw)
{
	return hw->drv;
}

void zipg_hw_enter(struct zipg_hw *hw)
{
	hw->drv->push(hw->ctx);
}

void zipg_hw_leave(struct zipg_hw *hw)
{
	void *ctx;

	hw->drv->pop(&ctx);
}

static int error_of(int result)
{
	return !result ? 0 : result == ERROR_OUT_OF_MEMORY ? ZIPC_ERR_NOMEM : ZIPC_ERR_NET;
}

/* All kernels are looked up and set up now, so that the first launch finds everything in place. */
static int load_kernel(struct zipg_hw *hw, unsigned int kind, unsigned int dtype)
{
	const struct zipg_driver *drv = hw->drv;
	size_t shared = zipg_kernel_shared((enum zipg_kernel_kind)kind, (enum zipc_dtype)dtype);
	char name[64];
	int blocks = 0, ret;

	if (!zipg_kernel_name((enum zipg_kernel_kind)kind, (enum zipc_dtype)dtype, name))
		return 0;
	ret = drv->function(&hw->function[kind][dtype], hw->module, name);
	if (!ret && drv->function_attribute)
		ret = drv->function_attribute(hw->function[kind][dtype], ATTRIBUTE_DYNAMIC_SHARED, (int)shared);
	if (!ret)
		ret = drv->occupancy(&blocks, hw->function[kind][dtype], (int)ZIPG_THREADS, shared);
	hw->resident[kind][dtype] = blocks * hw->multiprocessors;
	return error_of(ret);
}

static int load_module(struct zipg_hw *hw)
{
	size_t bytes;
	int ret = error_of(hw->drv->load(&hw->module, hw->vendor->image(&bytes)));

	for (unsigned int kind = 0; kind < ZIPG_KIND_COUNT && !ret; kind++) {
		for (unsigned int dtype = 0; dtype < ZIPC_DTYPE_COUNT && !ret; dtype++)
			ret = load_kernel(hw, kind, dtype);
	}
	return ret;
}

static int open_streams(struct zipg_hw *hw)
{
	int ret = 0;

	for (unsigned int i = 0; i < ZIPG_STREAMS && !ret; i++)
		ret = hw->drv->stream_open(&hw->stream[i], STREAM_NON_BLOCKING);
	return error_of(ret);
}

static void close_inside(struct zipg_hw *hw)
{
	for (unsigned int i = 0; i < ZIPG_STREAMS; i++) {
		if (hw->stream[i])
			hw->drv->stream_close(hw->stream[i]);
	}
	if (hw->module)
		hw->drv->unload(hw->module);
}

static int vendor_open(struct vendor *v, int ordinal, struct zipg_hw **hw_p)
{
	const char *why;
	struct zipg_hw *hw;
	int ret = ZIPC_ERR_INVAL;

	if (ordinal < 0 || ordinal >= vendor_count(v, &why))
		return ret;
	hw = calloc(1, sizeof(*hw) + sizeof(*hw->last));
	if (!hw)
		return ZIPC_ERR_NOMEM;
	hw->last = (struct zipg_again *)(hw + 1);
	hw->vendor = v;
	hw->drv = &v->driver;
	hw->ordinal = ordinal;
	if (hw->drv->device(&hw->device, ordinal) || hw->drv->retain(&hw->ctx, hw->device))
		goto err_free;
	zipg_hw_enter(hw);
	ret = error_of(hw->drv->attribute(&hw->multiprocessors, v->attribute_multiprocessors, hw->device));
	if (!ret)
		ret = load_module(hw);
	if (!ret)
		ret = open_streams(hw);
	if (ret)
		close_inside(hw);
	zipg_hw_leave(hw);
	if (ret)
		goto err_release;
	*hw_p = hw;
	return 0;

err_release:
	hw->drv->release(hw->device);
err_free:
	free(hw);
	return ret;
}

static void driver_close(struct zipg_hw *hw)
{
	zipg_hw_enter(hw);
	close_inside(hw);
	zipg_hw_leave(hw);
	hw->drv->release(hw->device);
	free(hw);
}

static void driver_quiesce(struct zipg_hw *hw)
{
	zipg_hw_enter(hw);
	for (unsigned int i = 0; i < ZIPG_STREAMS; i++)
		hw->drv->stream_wait(hw->stream[i]);
	zipg_hw_leave(hw);
}

static void driver_info(struct zipg_hw *hw, struct zipg_info *info)
{
	hw->drv->device_name(info->name, (int)sizeof(info->name), hw->device);
	hw->drv->version(&info->driver);
	info->multiprocessors = (unsigned int)hw->multiprocessors;
}

static int driver_alloc(struct zipg_hw *hw, enum zipg_memory memory, size_t bytes, void **ptr_p, uint64_t *dev_p)
{
	int ret;

	zipg_hw_enter(hw);
	if (memory == ZIPG_MEMORY_DEVICE) {
		ret = hw->drv->alloc(dev_p, bytes);
		if (!ret)
			*ptr_p = (void *)(uintptr_t)*dev_p;
	} else {
		ret = hw->drv->alloc_host(ptr_p, bytes, HOST_PORTABLE_MAPPED);
		if (!ret)
			ret = hw->drv->host_address(dev_p, *ptr_p, 0);
	}
	zipg_hw_leave(hw);
	return error_of(ret);
}

static void driver_release(struct zipg_hw *hw, enum zipg_memory memory, size_t bytes, void *ptr)
{
	(void)bytes;
	zipg_hw_enter(hw);
	if (memory == ZIPG_MEMORY_DEVICE)
		hw->drv->free((uintptr_t)ptr);
	else
		hw->drv->free_host(ptr);
	zipg_hw_leave(hw);
}

static int driver_upload(struct zipg_hw *hw, uint64_t dst, const void *src, size_t bytes)
{
	int ret;

	zipg_hw_enter(hw);
	ret = src ? hw->drv->upload(dst, src, bytes) : hw->drv->fill(dst, 0, bytes);
	zipg_hw_leave(hw);
	return error_of(ret);
}

static int driver_launch(struct zipg_hw *hw, unsigned int stream, enum zipg_kernel_kind kind, enum zipc_dtype dtype, uint32_t grid,
			 const struct zipg_job *job)
{
	void *function = hw->function[kind][dtype];
	struct zipg_job copy = *job;
	void *params[1] = { &copy };
	int ret;

	if (!function)
		return ZIPC_ERR_INVAL;
	if (job->share && grid > (uint32_t)hw->resident[kind][dtype])
		grid = (uint32_t)hw->resident[kind][dtype];
	zipg_hw_enter(hw);
	if (hw->time[0])
		hw->drv->event_record(hw->time[0], hw->stream[stream]);
	ret = hw->drv->launch(function, grid, 1, 1, ZIPG_THREADS, 1, 1, (unsigned int)zipg_kernel_shared(kind, dtype),
			      hw->stream[stream], params, NULL);
	if (hw->time[1]) {
		hw->drv->event_record(hw->time[1], hw->stream[stream]);
		hw->time[0] = NULL;
		*hw->last = (struct zipg_again){ kind, dtype, grid, *job };
	}
	zipg_hw_leave(hw);
	return error_of(ret);
}

/* Host memory here is pinned and has one address for both sides. */
static int driver_copy(struct zipg_hw *hw, unsigned int stream, void *dst, const void *src, size_t bytes)
{
	int ret;

	zipg_hw_enter(hw);
	ret = hw->drv->copy_any((uintptr_t)dst, (uintptr_t)src, bytes, hw->stream[stream]);
	zipg_hw_leave(hw);
	return error_of(ret);
}

void zipg_hw_time(struct zipg_hw *hw, void *start, void *stop)
{
	hw->time[0] = start;
	hw->time[1] = stop;
}

void zipg_hw_last(struct zipg_hw *hw, struct zipg_again *again)
{
	*again = *hw->last;
}

int zipg_hw_again(struct zipg_hw *hw, unsigned int stream, const struct zipg_again *again)
{
	return driver_launch(hw, stream, again->kind, again->dtype, again->grid, &again->job);
}

static int driver_signal(struct zipg_hw *hw, unsigned int stream, uint32_t *word, uint64_t dev, uint32_t value)
{
	int ret;

	(void)word;
	zipg_hw_enter(hw);
	ret = hw->drv->stream_write(hw->stream[stream], dev, value, 0);
	zipg_hw_leave(hw);
	return error_of(ret);
}

static int driver_query(struct zipg_hw *hw, unsigned int stream)
{
	int ret;

	zipg_hw_enter(hw);
	ret = hw->drv->stream_query(hw->stream[stream]);
	zipg_hw_leave(hw);
	return ret == ERROR_NOT_READY ? ZIPC_ERR_AGAIN : error_of(ret);
}

static void *driver_stream(struct zipg_hw *hw, unsigned int stream)
{
	return hw->stream[stream];
}

static int vendor_classify(struct vendor *v, const void *ptr, struct zipg_pointer *pointer)
{
	unsigned int managed = 0;
	int type = -1, ordinal = -1;

	if (!__atomic_load_n(&v->opened, __ATOMIC_ACQUIRE) || v->driver.pointer(&type, POINTER_MEMORY_TYPE, (uintptr_t)ptr))
		return -1;
	/* Each answer fills four bytes; managed memory is told by an attribute of its own. */
	v->driver.pointer(&managed, POINTER_IS_MANAGED, (uintptr_t)ptr);
	v->driver.pointer(&ordinal, POINTER_ORDINAL, (uintptr_t)ptr);
	pointer->backend = v->backend;
	pointer->ordinal = ordinal;
	pointer->memory = managed & 0xffu ? ZIPG_MEMORY_MANAGED : type == v->memory_device ? ZIPG_MEMORY_DEVICE : ZIPG_MEMORY_PINNED;
	if (pointer->memory == ZIPG_MEMORY_PINNED)
		pointer->ordinal = -1;
	return 0;
}

#define BACKEND(name_, index)                                                                                  \
	static int name_##_count(const char **why) { return vendor_count(&vendors[index], why); }              \
	static int name_##_open(int ordinal, const struct zipg_config *config, struct zipg_hw **hw_p)          \
	{                                                                                                      \
		(void)config;                                                                                  \
		return vendor_open(&vendors[index], ordinal, hw_p);                                            \
	}                                                                                                      \
	static int name_##_classify(const void *ptr, struct zipg_pointer *pointer)                             \
	{                                                                                                      \
		return vendor_classify(&vendors[index], ptr, pointer);                                         \
	}                                                                                                      \
	const struct zipg_backend zipg_##name_##_backend = {                                                   \
		.name = #name_,                                                                                \
		.count = name_##_count,                                                                        \
		.open = name_##_open,                                                                          \
		.close = driver_close,                                                                         \
		.quiesce = driver_quiesce,                                                                     \
		.info = driver_info,                                                                           \
		.alloc = driver_alloc,                                                                         \
		.release = driver_release,                                                                     \
		.upload = driver_upload,                                                                       \
		.launch = driver_launch,                                                                       \
		.copy = driver_copy,                                                                           \
		.signal = driver_signal,                                                                       \
		.query = driver_query,                                                                         \
		.classify = name_##_classify,                                                                  \
		.stream = driver_stream,                                                                       \
	}

BACKEND(cuda, 0);
BACKEND(hip, 1);
