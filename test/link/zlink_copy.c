/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between the user's memory and the links: memcpy for host memory, the copy engines for CUDA devices, behind one small table.
 *
 * On a device each direction has a stream of its own, so that both directions of PCIe are busy at once. After the copies of a packet or a
 * chunk an event is recorded; the oldest is queried whenever somebody asks. Nothing here waits for a device while data moves; the
 * driver's allocating and registering calls are made when objects are opened. The driver library is opened at run time.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "zlink.h"

#define STREAM_NON_BLOCKING 1u
#define EVENT_NO_TIMING 2u
#define HOST_PORTABLE 1u
#define POINTER_MEMORY_TYPE 2
#define POINTER_ORDINAL 9
#define MEMORY_DEVICE 2u
#define CUDA_NOT_READY 600
#define EVENTS 512u  /* copies that may be under way in one direction */
#define ROOM 8u      /* of them kept for what is begun already */
#define DEVICES 16
#define BUFS 128u    /* buffers taken at once */

/* X(member, symbol, parameters): results are ints, 0 is success */
#define ZLINK_CUDA_CALLS(X)                                                                             \
	X(init, "cuInit", (unsigned int flags))                                                         \
	X(count, "cuDeviceGetCount", (int *count))                                                      \
	X(device, "cuDeviceGet", (int *device, int ordinal))                                            \
	X(retain, "cuDevicePrimaryCtxRetain", (void **ctx, int device))                                 \
	X(release, "cuDevicePrimaryCtxRelease_v2", (int device))                                        \
	X(push, "cuCtxPushCurrent_v2", (void *ctx))                                                     \
	X(pop, "cuCtxPopCurrent_v2", (void **ctx))                                                      \
	X(stream_open, "cuStreamCreate", (void **stream, unsigned int flags))                           \
	X(stream_close, "cuStreamDestroy_v2", (void *stream))                                           \
	X(stream_wait, "cuStreamSynchronize", (void *stream))                                           \
	X(event_open, "cuEventCreate", (void **event, unsigned int flags))                              \
	X(event_close, "cuEventDestroy_v2", (void *event))                                              \
	X(event_record, "cuEventRecord", (void *event, void *stream))                                   \
	X(event_query, "cuEventQuery", (void *event))                                                   \
	X(download, "cuMemcpyDtoHAsync_v2", (void *dst, uint64_t src, size_t bytes, void *stream))      \
	X(upload, "cuMemcpyHtoDAsync_v2", (uint64_t dst, const void *src, size_t bytes, void *stream))  \
	X(pin, "cuMemHostRegister_v2", (void *base, size_t bytes, unsigned int flags))                  \
	X(unpin, "cuMemHostUnregister", (void *base))                                                   \
	X(pointer, "cuPointerGetAttribute", (void *value, int attribute, uint64_t ptr))

struct zlink_cuda {
#define ZLINK_MEMBER(member, symbol, parameters) int (*member) parameters;
	ZLINK_CUDA_CALLS(ZLINK_MEMBER)
#undef ZLINK_MEMBER
	int state;  /* 0: not tried yet, 1: there, -1: not there */
};

static struct zlink_cuda cuda;
static pthread_mutex_t cuda_lock = PTHREAD_MUTEX_INITIALIZER;

struct zlink_queue {
	void *stream;
	void *event[EVENTS];
	uint64_t marked, reached;   /* events recorded, and known to have come, all time */
	int failed;
};

struct zlink_dev {
	const struct zlink_copy_ops *ops;
	int device;
	void *ctx;
	struct zlink_queue queue[2]; /* by direction */
};

struct zlink_buf {
	struct zlink_buf *next;
};

struct zlink_slab {
	struct zlink_slab *next;
	char *base;
};

struct zlink_copier {
	bool cuda;
	void *ctx;                  /* of the first device: registers memory for all of them */
	int device;
	struct zlink_dev host;
	struct zlink_dev *devs[DEVICES];
	struct zlink_buf *bufs;     /* free */
	struct zlink_slab *slabs;
	size_t buf_bytes;
};

const struct zlink_copy_ops *zlink_dev_ops(const struct zlink_dev *dev)
{
	return dev->ops;
}

/* ---- host */

static int host_start(struct zlink_dev *dev, enum zlink_dir dir, void *user, void *host, size_t bytes)
{
	(void)dev;
	if (dir == ZLINK_OUT)
		memcpy(host, user, bytes);
	else
		memcpy(user, host, bytes);
	return 0;
}

static int host_mark(struct zlink_dev *dev, enum zlink_dir dir, struct zlink_ticket *ticket)
{
	(void)dev;
	(void)dir;
	ticket->dev = NULL;
	return 0;
}

static int host_test(const struct zlink_ticket *ticket)
{
	(void)ticket;
	return 1;
}

static const struct zlink_copy_ops host_ops = { .start = host_start, .mark = host_mark, .test = host_test };

/* ---- CUDA */

static int cuda_load(void)
{
	void *library = dlopen(zlink_param.cuda, RTLD_NOW | RTLD_LOCAL), *symbol;
	int count = 0;

	if (!library)
		return -1;
	/* Copying the bytes is how POSIX says to make a function pointer of what dlsym() returns. */
#define ZLINK_LOAD(member, name, parameters)            \
	symbol = dlsym(library, name);                  \
	if (!symbol)                                    \
		goto err_close;                         \
	memcpy(&cuda.member, &symbol, sizeof(symbol));
	ZLINK_CUDA_CALLS(ZLINK_LOAD)
#undef ZLINK_LOAD
	if (cuda.init(0) || cuda.count(&count) || !count)
		goto err_close;
	return 1;

err_close:
	dlclose(library);
	return -1;
}

bool zlink_cuda_there(void)
{
	pthread_mutex_lock(&cuda_lock);
	if (!cuda.state)
		cuda.state = cuda_load();
	pthread_mutex_unlock(&cuda_lock);
	return cuda.state > 0;
}

static void enter(void *ctx)
{
	cuda.push(ctx);
}

static void leave(void)
{
	void *ctx;

	cuda.pop(&ctx);
}

static int cuda_failed(struct zlink_queue *queue, const char *what, int result)
{
	if (!queue->failed)
		ZLINK_WARN(EP_DATA, "%s failed: CUDA's error %d\n", what, result);
	queue->failed = 1;
	return -FI_EIO;
}

static int cuda_start(struct zlink_dev *dev, enum zlink_dir dir, void *user, void *host, size_t bytes)
{
	struct zlink_queue *queue = &dev->queue[dir];
	uint64_t address = (uint64_t)(uintptr_t)user;
	int ret;

	enter(dev->ctx);
	if (dir == ZLINK_OUT)
		ret = cuda.download(host, address, bytes, queue->stream);
	else
		ret = cuda.upload(address, host, bytes, queue->stream);
	leave();
	return ret ? cuda_failed(queue, dir == ZLINK_OUT ? "a copy from the device" : "a copy to the device", ret) : 0;
}

static int cuda_mark(struct zlink_dev *dev, enum zlink_dir dir, struct zlink_ticket *ticket)
{
	struct zlink_queue *queue = &dev->queue[dir];
	int ret;

	if (queue->failed || queue->marked - queue->reached >= EVENTS)
		return cuda_failed(queue, "recording an event", 0);
	enter(dev->ctx);
	ret = cuda.event_record(queue->event[queue->marked % EVENTS], queue->stream);
	leave();
	if (ret)
		return cuda_failed(queue, "recording an event", ret);
	*ticket = (struct zlink_ticket){ .dev = dev, .dir = dir, .number = ++queue->marked };
	return 0;
}

/* Events of a stream come in order: the oldest tells. */
static void cuda_look(struct zlink_dev *dev, struct zlink_queue *queue)
{
	int ret = 0;

	if (queue->failed || queue->reached == queue->marked)
		return;
	enter(dev->ctx);
	while (!ret && queue->reached < queue->marked) {
		ret = cuda.event_query(queue->event[queue->reached % EVENTS]);
		queue->reached += !ret;
	}
	leave();
	if (ret && ret != CUDA_NOT_READY)
		cuda_failed(queue, "an event", ret);
}

static int cuda_test(const struct zlink_ticket *ticket)
{
	struct zlink_queue *queue = &ticket->dev->queue[ticket->dir];

	if (queue->reached < ticket->number)
		cuda_look(ticket->dev, queue);
	if (queue->reached >= ticket->number)
		return 1;
	return queue->failed ? -FI_EIO : 0;
}

static const struct zlink_copy_ops cuda_ops = { .start = cuda_start, .mark = cuda_mark, .test = cuda_test };

static void queue_close(struct zlink_queue *queue)
{
	unsigned int i;

	if (queue->stream)
		cuda.stream_wait(queue->stream);
	for (i = 0; i < EVENTS; i++)
		if (queue->event[i])
			cuda.event_close(queue->event[i]);
	if (queue->stream)
		cuda.stream_close(queue->stream);
}

static int queue_open(struct zlink_queue *queue)
{
	unsigned int i;
	int ret = cuda.stream_open(&queue->stream, STREAM_NON_BLOCKING);

	for (i = 0; i < EVENTS && !ret; i++)
		ret = cuda.event_open(&queue->event[i], EVENT_NO_TIMING);
	return ret;
}

static void dev_close(struct zlink_dev *dev)
{
	enter(dev->ctx);
	queue_close(&dev->queue[ZLINK_OUT]);
	queue_close(&dev->queue[ZLINK_IN]);
	leave();
	cuda.release(dev->device);
	free(dev);
}

static int dev_open(int ordinal, struct zlink_dev **dev_p)
{
	struct zlink_dev *dev = calloc(1, sizeof(*dev));
	int ret;

	if (!dev)
		return -FI_ENOMEM;
	dev->ops = &cuda_ops;
	if (cuda.device(&dev->device, ordinal) || cuda.retain(&dev->ctx, dev->device)) {
		free(dev);
		return -FI_ENODEV;
	}
	enter(dev->ctx);
	ret = queue_open(&dev->queue[ZLINK_OUT]);
	if (!ret)
		ret = queue_open(&dev->queue[ZLINK_IN]);
	leave();
	if (ret) {
		ZLINK_WARN(DOMAIN, "streams and events of device %d: CUDA's error %d\n", ordinal, ret);
		dev_close(dev);
		return -FI_ENOMEM;
	}
	*dev_p = dev;
	return 0;
}

/* ---- the copier */

int zlink_copier_open(bool with_cuda, struct zlink_copier **copier_p)
{
	struct zlink_copier *copier = calloc(1, sizeof(*copier));

	if (!copier)
		return -FI_ENOMEM;
	copier->host.ops = &host_ops;
	copier->buf_bytes = zlink_param.eager > ZLINK_INJECT ? zlink_param.eager : ZLINK_INJECT;
	copier->cuda = with_cuda;
	if (with_cuda && (!zlink_cuda_there() || cuda.device(&copier->device, 0) || cuda.retain(&copier->ctx, copier->device))) {
		free(copier);
		return -FI_ENODEV;
	}
	*copier_p = copier;
	return 0;
}

void zlink_copier_close(struct zlink_copier *copier)
{
	struct zlink_slab *slab;
	int i;

	for (i = 0; i < DEVICES; i++)
		if (copier->devs[i])
			dev_close(copier->devs[i]);
	while ((slab = copier->slabs)) {
		copier->slabs = slab->next;
		zlink_copier_unpin(copier, slab->base);
		free(slab->base);
		free(slab);
	}
	if (copier->cuda)
		cuda.release(copier->device);
	free(copier);
}

bool zlink_copier_cuda(const struct zlink_copier *copier)
{
	return copier->cuda;
}

int zlink_copier_dev(struct zlink_copier *copier, int ordinal, struct zlink_dev **dev_p)
{
	int ret = 0;

	if (ordinal < 0) {
		*dev_p = &copier->host;
		return 0;
	}
	if (!copier->cuda || ordinal >= DEVICES)
		return -FI_EOPNOTSUPP;
	if (!copier->devs[ordinal])
		ret = dev_open(ordinal, &copier->devs[ordinal]);
	*dev_p = copier->devs[ordinal];
	return ret;
}

int zlink_copier_classify(struct zlink_copier *copier, const void *ptr)
{
	unsigned int type = 0;
	int ordinal = -1, ret;

	if (!copier->cuda)
		return -1;
	enter(copier->ctx);
	ret = cuda.pointer(&type, POINTER_MEMORY_TYPE, (uint64_t)(uintptr_t)ptr);
	if (!ret && type == MEMORY_DEVICE)
		ret = cuda.pointer(&ordinal, POINTER_ORDINAL, (uint64_t)(uintptr_t)ptr);
	leave();
	return ret ? -1 : ordinal;
}

int zlink_copier_pin(struct zlink_copier *copier, void *base, size_t bytes)
{
	int ret;

	if (!copier->cuda)
		return 0;
	enter(copier->ctx);
	ret = cuda.pin(base, bytes, HOST_PORTABLE);
	leave();
	if (ret)
		ZLINK_WARN(DOMAIN, "%zu bytes of shared memory could not be registered: CUDA's error %d\n", bytes, ret);
	return ret ? -FI_ENOMEM : 0;
}

void zlink_copier_unpin(struct zlink_copier *copier, void *base)
{
	if (!copier->cuda)
		return;
	enter(copier->ctx);
	cuda.unpin(base);
	leave();
}

bool zlink_copier_room(struct zlink_copier *copier)
{
	int i, dir;

	for (i = 0; i < DEVICES && copier->cuda; i++) {
		for (dir = 0; copier->devs[i] && dir < 2; dir++) {
			struct zlink_queue *queue = &copier->devs[i]->queue[dir];

			if (queue->marked - queue->reached + ROOM > EVENTS)
				cuda_look(copier->devs[i], queue);
			if (!queue->failed && queue->marked - queue->reached + ROOM > EVENTS)
				return false;
		}
	}
	return true;
}

/* ---- buffers */

static int slab_add(struct zlink_copier *copier)
{
	size_t i, bytes = (BUFS * copier->buf_bytes + 4095) / 4096 * 4096;
	struct zlink_slab *slab = calloc(1, sizeof(*slab));

	if (!slab)
		return -FI_ENOMEM;
	slab->base = aligned_alloc(4096, bytes);
	if (!slab->base || zlink_copier_pin(copier, slab->base, bytes)) {
		free(slab->base);
		free(slab);
		return -FI_ENOMEM;
	}
	slab->next = copier->slabs;
	copier->slabs = slab;
	for (i = 0; i < BUFS; i++)
		zlink_buf_put(copier, slab->base + i * copier->buf_bytes);
	return 0;
}

void *zlink_buf_get(struct zlink_copier *copier)
{
	struct zlink_buf *buf;

	if (!copier->bufs && slab_add(copier))
		return NULL;
	buf = copier->bufs;
	copier->bufs = buf->next;
	return buf;
}

void zlink_buf_put(struct zlink_copier *copier, void *ptr)
{
	struct zlink_buf *buf = ptr;

	buf->next = copier->bufs;
	copier->bufs = buf;
}
