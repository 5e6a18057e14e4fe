/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipg_service.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zipc_error.h"
#include "zipg_accel.h"

#define SERVICE_JOBS 128u
#define SERVICE_FRAMES 64u
/* Looks without finding anything after which the thread sleeps between them. */
#define SERVICE_SPINS 20000u

enum service_kind { SERVICE_ENCODE, SERVICE_DECODE, SERVICE_SAMPLE, SERVICE_COPY };

enum service_state {
	SERVICE_FREE,
	SERVICE_TAKEN,     /* by a caller that is writing what is to be done */
	SERVICE_ASKED,     /* for the thread */
	SERVICE_RUNNING,   /* the thread has started it */
	SERVICE_OVER,
};

struct service_job {
	_Atomic enum service_state state;
	atomic_bool released;    /* the caller does not ask any more */
	atomic_uint frames;      /* finished */
	int failed;              /* ZIPC_ERR_* */
	bool dead;               /* and so the device is */
	enum service_kind kind;
	void *job;               /* the device's; the thread's alone */
	unsigned count;          /* frames of it */
	struct zipc_work work;
	size_t frame_bytes[SERVICE_FRAMES];
	uint8_t raw[SERVICE_FRAMES];
	struct zipc_coded coded[SERVICE_FRAMES];
	const void *src;
	size_t nbytes;
	enum zipc_dtype hint;
	struct zipc_sample sample;
	struct zipc_copy copies[ZIPC_COPIES_MAX];
	unsigned ncopies;
};

struct zipg_service {
	struct zipg_device *dev;
	pthread_t thread;
	pthread_mutex_t lock;    /* taking a free job; sleeping */
	pthread_cond_t wake;
	bool asleep, stop;
	atomic_uint asked;       /* jobs that the thread has to look at */
	struct service_job job[SERVICE_JOBS];
};

/* ---- the thread */

static int start_job(struct zipg_service *service, struct service_job *j)
{
	switch (j->kind) {
	case SERVICE_ENCODE: return zipg_accel_ops.encode(service->dev, &j->work, &j->job);
	case SERVICE_DECODE: return zipg_accel_ops.decode(service->dev, &j->work, &j->job);
	case SERVICE_SAMPLE: return zipg_accel_ops.sample(service->dev, j->src, j->nbytes, j->hint, &j->job);
	default: return zipg_accel_ops.copy(service->dev, j->copies, j->ncopies, &j->job);
	}
}

/* Of the two that have to be done with a job, thread and caller, the second frees it. */
static void free_job(struct service_job *j)
{
	enum service_state over = SERVICE_OVER;

	atomic_compare_exchange_strong(&j->state, &over, SERVICE_FREE);
}

static void end_job(struct zipg_service *service, struct service_job *j, int failed)
{
	j->dead = failed && j->job;
	j->failed = failed;
	if (j->job)
		zipg_accel_ops.release(service->dev, j->job);
	j->job = NULL;
	atomic_fetch_sub(&service->asked, 1);
	atomic_store(&j->state, SERVICE_OVER);
	if (atomic_load(&j->released))
		free_job(j);
}

static int move_job(struct zipg_service *service, struct service_job *j)
{
	unsigned done = atomic_load_explicit(&j->frames, memory_order_relaxed), i;
	int over = 0, n;

	if (atomic_load(&j->state) == SERVICE_ASKED) {
		n = start_job(service, j);
		if (n == ZIPC_ERR_AGAIN)
			return 0;
		if (n)
			end_job(service, j, n);
		else
			atomic_store(&j->state, SERVICE_RUNNING);
		return 1;
	}
	n = zipg_accel_ops.poll(service->dev, j->job, &over);
	if (n < 0) {
		end_job(service, j, n);
		return 1;
	}
	for (i = done; i < (unsigned)n && i < j->count; i++)
		zipg_accel_ops.coded(service->dev, j->job, i, &j->coded[i]);
	if (i > done)
		atomic_store_explicit(&j->frames, i, memory_order_release);
	if (over && j->kind == SERVICE_SAMPLE)
		zipg_accel_ops.sampled(service->dev, j->job, &j->sample);
	if (over)
		end_job(service, j, 0);
	return over || i > done;
}

static int look(struct zipg_service *service)
{
	int moved = 0;

	for (unsigned i = 0; i < SERVICE_JOBS; i++) {
		enum service_state state = atomic_load(&service->job[i].state);

		if (state == SERVICE_ASKED || state == SERVICE_RUNNING)
			moved |= move_job(service, &service->job[i]);
	}
	return moved;
}

/* Until there is something to do. Returns 0 when it is time to end. */
static int wait_for_work(struct zipg_service *service)
{
	int go;

	pthread_mutex_lock(&service->lock);
	service->asleep = true;
	while (!service->stop && !atomic_load(&service->asked))
		pthread_cond_wait(&service->wake, &service->lock);
	service->asleep = false;
	go = !service->stop || atomic_load(&service->asked);
	pthread_mutex_unlock(&service->lock);
	return go;
}

static void *serve(void *arg)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	struct zipg_service *service = arg;
	unsigned idle = 0;

	while (atomic_load(&service->asked) || wait_for_work(service)) {
		idle = look(service) ? 0 : idle + 1;
		if (idle > SERVICE_SPINS)
			nanosleep(&nap, NULL);
	}
	return NULL;
}

/* ---- the callers */

static struct service_job *take(struct zipg_service *service, enum service_kind kind)
{
	struct service_job *j = NULL;

	pthread_mutex_lock(&service->lock);
	for (unsigned i = 0; i < SERVICE_JOBS && !j; i++) {
		if (atomic_load(&service->job[i].state) == SERVICE_FREE)
			j = &service->job[i];
	}
	if (j) {
		j->kind = kind;
		j->job = NULL;
		j->count = 0;
		atomic_store_explicit(&j->frames, 0, memory_order_relaxed);
		atomic_store(&j->released, false);
		atomic_store(&j->state, SERVICE_TAKEN);
	}
	pthread_mutex_unlock(&service->lock);
	return j;
}

static void ask(struct zipg_service *service, struct service_job *j, void **job_p)
{
	*job_p = j;
	atomic_fetch_add(&service->asked, 1);
	atomic_store(&j->state, SERVICE_ASKED);
	pthread_mutex_lock(&service->lock);
	if (service->asleep)
		pthread_cond_signal(&service->wake);
	pthread_mutex_unlock(&service->lock);
}

static int service_code(struct zipg_service *service, enum service_kind kind, const struct zipc_work *work, void **job_p)
{
	unsigned count = (unsigned)((work->nbytes - 1) / work->chunk + 1);
	struct service_job *j = count <= SERVICE_FRAMES ? take(service, kind) : NULL;

	if (!j)
		return count <= SERVICE_FRAMES ? ZIPC_ERR_AGAIN : ZIPC_ERR_INVAL;
	j->work = *work;
	j->count = count;
	if (kind == SERVICE_DECODE) {
		memcpy(j->frame_bytes, work->frame_bytes, count * sizeof(*j->frame_bytes));
		memcpy(j->raw, work->raw, count);
		j->work.frame_bytes = j->frame_bytes;
		j->work.raw = j->raw;
	}
	ask(service, j, job_p);
	return 0;
}

static int service_encode(void *dev, const struct zipc_work *work, void **job_p)
{
	return service_code(dev, SERVICE_ENCODE, work, job_p);
}

static int service_decode(void *dev, const struct zipc_work *work, void **job_p)
{
	return service_code(dev, SERVICE_DECODE, work, job_p);
}

static int service_sample(void *dev, const void *src, size_t nbytes, enum zipc_dtype hint, void **job_p)
{
	struct service_job *j = take(dev, SERVICE_SAMPLE);

	if (!j)
		return ZIPC_ERR_AGAIN;
	j->src = src;
	j->nbytes = nbytes;
	j->hint = hint;
	ask(dev, j, job_p);
	return 0;
}

static int service_copy(void *dev, const struct zipc_copy *copies, unsigned n, void **job_p)
{
	struct service_job *j = n <= ZIPC_COPIES_MAX ? take(dev, SERVICE_COPY) : NULL;

	if (!j)
		return n <= ZIPC_COPIES_MAX ? ZIPC_ERR_AGAIN : ZIPC_ERR_INVAL;
	memcpy(j->copies, copies, n * sizeof(*copies));
	j->ncopies = n;
	ask(dev, j, job_p);
	return 0;
}

static int service_poll(void *dev, void *job, int *over)
{
	struct service_job *j = job;

	(void)dev;
	*over = atomic_load(&j->state) == SERVICE_OVER;
	if (*over && j->failed) {
		*over = !j->dead;
		return j->failed;
	}
	return (int)atomic_load_explicit(&j->frames, memory_order_acquire);
}

static void service_coded(void *dev, void *job, unsigned i, struct zipc_coded *coded)
{
	struct service_job *j = job;

	(void)dev;
	*coded = j->coded[i];
}

static void service_sampled(void *dev, void *job, struct zipc_sample *sample)
{
	struct service_job *j = job;

	(void)dev;
	*sample = j->sample;
}

static void service_release(void *dev, void *job)
{
	struct service_job *j = job;

	(void)dev;
	atomic_store(&j->released, true);
	free_job(j);
}

const struct zipc_accel_ops zipg_service_ops = {
	.name = "gpu, by a thread of its own",
	.encode = service_encode,
	.decode = service_decode,
	.sample = service_sample,
	.copy = service_copy,
	.poll = service_poll,
	.coded = service_coded,
	.sampled = service_sampled,
	.release = service_release,
};

/* ---- life */

int zipg_service_open(struct zipg_device *dev, struct zipg_service **service_p)
{
	struct zipg_service *service = calloc(1, sizeof(*service));

	if (!service)
		return ZIPC_ERR_NOMEM;
	service->dev = dev;
	pthread_mutex_init(&service->lock, NULL);
	pthread_cond_init(&service->wake, NULL);
	if (pthread_create(&service->thread, NULL, serve, service)) {
		pthread_cond_destroy(&service->wake);
		pthread_mutex_destroy(&service->lock);
		free(service);
		return ZIPC_ERR_NOMEM;
	}
	*service_p = service;
	return 0;
}

void zipg_service_close(struct zipg_service *service)
{
	if (!service)
		return;
	pthread_mutex_lock(&service->lock);
	service->stop = true;
	pthread_cond_signal(&service->wake);
	pthread_mutex_unlock(&service->lock);
	pthread_join(service->thread, NULL);
	pthread_cond_destroy(&service->wake);
	pthread_mutex_destroy(&service->lock);
	free(service);
}
