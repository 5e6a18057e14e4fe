/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for CUDA's driver library, for tests of the link on machines without a GPU: what zlink_copy.c calls, and memory. It is strict:
 * device addresses cannot be touched by the CPU, a copy is made only when an event behind it was queried several times, host memory must
 * be registered, and a context must be current. What breaks a rule ends the process.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define RANGES 4096
#define COPIES 4096
#define PATIENCE 3 /* queries until what is before an event is done */
#define NOT_READY 600

#define MUST(condition)                                                                                      \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "fake_cuda: %s:%d: broken rule: %s\n", __func__, __LINE__, #condition); \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

struct range {
	char *base;   /* as the program knows it */
	char *alias;  /* of device memory: where it can be touched */
	size_t bytes;
};

struct copy {
	char *dst;
	const char *src;
	size_t bytes;
};

struct stream {
	struct copy copy[COPIES];
	uint64_t begun, done;
};

struct event {
	struct stream *stream;
	uint64_t after;   /* copies that must be done */
	unsigned int asked;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range device[RANGES], pinned[RANGES];
static __thread int depth;
static int context;

static struct range *find(struct range *ranges, const void *ptr, size_t bytes)
{
	for (int i = 0; i < RANGES; i++)
		if (ranges[i].base && (const char *)ptr >= ranges[i].base && (const char *)ptr + bytes <= ranges[i].base + ranges[i].bytes)
			return &ranges[i];
	return NULL;
}

static struct range *add(struct range *ranges, char *base, char *alias, size_t bytes)
{
	for (int i = 0; i < RANGES; i++) {
		if (ranges[i].base)
			continue;
		ranges[i] = (struct range){ base, alias, bytes };
		return &ranges[i];
	}
	MUST(!"room for one more range");
	return NULL;
}

static char *touchable(uint64_t address, size_t bytes)
{
	struct range *range = find(device, (void *)(uintptr_t)address, bytes);

	MUST(range);
	return range->alias + ((char *)(uintptr_t)address - range->base);
}

EXPORT int cuInit(unsigned int flags);
EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGet(int *dev, int ordinal);
EXPORT int cuDevicePrimaryCtxRetain(void **ctx, int dev);
EXPORT int cuDevicePrimaryCtxRelease_v2(int dev);
EXPORT int cuCtxPushCurrent_v2(void *ctx);
EXPORT int cuCtxPopCurrent_v2(void **ctx);
EXPORT int cuStreamCreate(void **stream, unsigned int flags);
EXPORT int cuStreamDestroy_v2(void *stream);
EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuEventCreate(void **event, unsigned int flags);
EXPORT int cuEventDestroy_v2(void *event);
EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuEventQuery(void *event);
EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream);
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream);
EXPORT int cuMemHostRegister_v2(void *base, size_t bytes, unsigned int flags);
EXPORT int cuMemHostUnregister(void *base);
EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t ptr);
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
EXPORT int cuMemFree_v2(uint64_t address);
EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes);
EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes);

int cuInit(unsigned int flags)
{
	return flags ? 1 : 0;
}

int cuDeviceGetCount(int *count)
{
	*count = 1;
	return 0;
}

int cuDeviceGet(int *dev, int ordinal)
{
	*dev = ordinal;
	return ordinal ? 101 : 0;
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
	*ctx = &context;
	return dev ? 101 : 0;
}

int cuDevicePrimaryCtxRelease_v2(int dev)
{
	return dev ? 101 : 0;
}

int cuCtxPushCurrent_v2(void *ctx)
{
	MUST(ctx == &context);
	depth++;
	return 0;
}

int cuCtxPopCurrent_v2(void **ctx)
{
	MUST(depth > 0);
	depth--;
	*ctx = &context;
	return 0;
}

int cuStreamCreate(void **stream, unsigned int flags)
{
	MUST(depth && flags == 1);
	*stream = calloc(1, sizeof(struct stream));
	return *stream ? 0 : 2;
}

/* Under the lock. */
static void run(struct stream *stream, uint64_t until)
{
	for (; stream->done < until; stream->done++) {
		struct copy *copy = &stream->copy[stream->done % COPIES];

		memcpy(copy->dst, copy->src, copy->bytes);
	}
}

int cuStreamSynchronize(void *ptr)
{
	struct stream *stream = ptr;

	pthread_mutex_lock(&lock);
	run(stream, stream->begun);
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuStreamDestroy_v2(void *stream)
{
	MUST(depth);
	cuStreamSynchronize(stream);
	free(stream);
	return 0;
}

int cuEventCreate(void **event, unsigned int flags)
{
	MUST(depth && flags == 2);
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : 2;
}

int cuEventDestroy_v2(void *event)
{
	free(event);
	return 0;
}

int cuEventRecord(void *ptr, void *stream)
{
	struct event *event = ptr;

	MUST(depth && stream);
	event->stream = stream;
	event->after = event->stream->begun;
	event->asked = 0;
	return 0;
}

int cuEventQuery(void *ptr)
{
	struct event *event = ptr;

	MUST(depth && event->stream);
	if (event->stream->done < event->after && ++event->asked < PATIENCE)
		return NOT_READY;
	pthread_mutex_lock(&lock);
	run(event->stream, event->after);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int enqueue(struct stream *stream, char *dst, const char *src, size_t bytes)
{
	MUST(depth && stream && stream->begun - stream->done < COPIES);
	stream->copy[stream->begun++ % COPIES] = (struct copy){ dst, src, bytes };
	return 0;
}

int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t bytes, void *stream)
{
	int ret;

	pthread_mutex_lock(&lock);
	MUST(find(pinned, dst, bytes));
	ret = enqueue(stream, dst, touchable(src, bytes), bytes);
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t bytes, void *stream)
{
	int ret;

	pthread_mutex_lock(&lock);
	MUST(find(pinned, src, bytes));
	ret = enqueue(stream, touchable(dst, bytes), src, bytes);
	pthread_mutex_unlock(&lock);
	return ret;
}

int cuMemHostRegister_v2(void *base, size_t bytes, unsigned int flags)
{
	MUST(depth && flags == 1);
	pthread_mutex_lock(&lock);
	MUST(!find(pinned, base, 1));
	add(pinned, base, base, bytes);
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuMemHostUnregister(void *base)
{
	struct range *range;

	MUST(depth);
	pthread_mutex_lock(&lock);
	range = find(pinned, base, 1);
	MUST(range && range->base == base);
	range->base = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t ptr)
{
	unsigned int type = 2;
	int ordinal = 0;
	struct range *range;

	pthread_mutex_lock(&lock);
	range = find(device, (void *)(uintptr_t)ptr, 1);
	pthread_mutex_unlock(&lock);
	if (!range)
		return 1;
	if (attribute == 2)
		memcpy(value, &type, sizeof(type));
	else if (attribute == 9)
		memcpy(value, &ordinal, sizeof(ordinal));
	else
		return 1;
	return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	size_t whole = (bytes + 4095) / 4096 * 4096;
	char *base, *alias;
	int fd = memfd_create("fake_cuda", 0);

	if (fd < 0 || ftruncate(fd, (off_t)whole))
		return 2;
	base = mmap(NULL, whole, PROT_NONE, MAP_SHARED, fd, 0);
	alias = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (base == MAP_FAILED || alias == MAP_FAILED)
		return 2;
	pthread_mutex_lock(&lock);
	add(device, base, alias, bytes);
	pthread_mutex_unlock(&lock);
	*address = (uint64_t)(uintptr_t)base;
	return 0;
}

int cuMemFree_v2(uint64_t address)
{
	struct range *range;
	size_t whole;

	pthread_mutex_lock(&lock);
	range = find(device, (void *)(uintptr_t)address, 1);
	MUST(range && range->base == (char *)(uintptr_t)address);
	whole = (range->bytes + 4095) / 4096 * 4096;
	munmap(range->base, whole);
	munmap(range->alias, whole);
	range->base = NULL;
	pthread_mutex_unlock(&lock);
	return 0;
}

int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t bytes)
{
	memcpy(touchable(dst, bytes), src, bytes);
	return 0;
}

int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t bytes)
{
	memcpy(dst, touchable(src, bytes), bytes);
	return 0;
}
