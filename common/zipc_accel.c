/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: their staging, the jobs that are under way, and what is remembered of buffers.
 *
 * Every pass of progress asks each job once how far it is, and then starts what can be started: chunks to encode, as many in one job as
 * lie in a row in the buffer and in staging, and chunks to decode, as many as have arrived in a row.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zipc_accel_priv.h"

size_t zipc_accel_slot(const struct zipc_engine *engine)
{
	return zipc_pool_slot_bytes(zipc_frame_bound(engine->attr.chunk));
}

int zipc_accel_dead(const struct zipc_accel *accel)
{
	return accel->dead;
}

/* ---- segments */

size_t zipc_iov_run(const struct iovec *iov, size_t niov, size_t offset, void **at)
{
	size_t i;

	for (i = 0; i < niov; i++) {
		if (offset < iov[i].iov_len) {
			*at = (char *)iov[i].iov_base + offset;
			return iov[i].iov_len - offset;
		}
		offset -= iov[i].iov_len;
	}
	*at = NULL;
	return 0;
}

unsigned zipc_iov_pieces(const struct iovec *iov, size_t niov, size_t offset, size_t nbytes, struct iovec *pieces)
{
	unsigned n = 0;

	while (nbytes && n < ZIPC_COPIES_MAX) {
		size_t run = zipc_iov_run(iov, niov, offset, &pieces[n].iov_base);

		if (!run)
			break;
		pieces[n].iov_len = run < nbytes ? run : nbytes;
		offset += pieces[n].iov_len;
		nbytes -= pieces[n].iov_len;
		n++;
	}
	return n;
}

/* ---- what buffers are like */

static struct zipc_region *zipc_region_of(struct zipc_accel *accel, const struct iovec *iov)
{
	uint64_t h = ((uint64_t)(uintptr_t)iov->iov_base ^ (uint64_t)iov->iov_len << 20) * 0x9e3779b97f4a7c15u;

	return &accel->region[(h >> 40) % ZIPC_REGIONS];
}

/* NULL: nothing is known, or it is time to look again. */
struct zipc_region *zipc_region_find(struct zipc_accel *accel, const struct iovec *iov)
{
	struct zipc_region *region = zipc_region_of(accel, iov);

	if (region->base != iov->iov_base || region->nbytes != iov->iov_len || ++region->uses > region->recheck)
		return NULL;
	return region;
}

/* Looked at ever more seldom, the longer the answer stays the same. */
void zipc_region_learn(struct zipc_accel *accel, const struct iovec *iov, const struct zipc_sample *sample)
{
	struct zipc_region *region = zipc_region_of(accel, iov);
	int same = region->base == iov->iov_base && region->nbytes == iov->iov_len && region->sample.dtype == sample->dtype;

	region->recheck = same && region->recheck * 2 <= ZIPC_RESAMPLE_MOST ? region->recheck * 2 : same ? region->recheck : ZIPC_RESAMPLE;
	region->base = iov->iov_base;
	region->nbytes = iov->iov_len;
	region->sample = *sample;
	region->uses = 0;
}

/* ---- jobs */

struct zipc_job *zipc_job_get(struct zipc_accel *accel)
{
	struct zipc_list *entry = accel->dead ? NULL : zipc_list_pop(&accel->free_jobs);
	struct zipc_job *job = entry ? zipc_container(entry, struct zipc_job, link) : NULL;

	if (!job)
		return NULL;
	memset(job, 0, sizeof(*job));
	zipc_list_init(&job->link);
	return job;
}

void zipc_job_free(struct zipc_accel *accel, struct zipc_job *job)
{
	zipc_list_remove(&job->link);
	zipc_list_append(&accel->free_jobs, &job->link);
}

void zipc_accel_fail(struct zipc_accel *accel, int status)
{
	if (!accel->dead)
		zipc_log(accel->engine, ZIPC_LOG_WARN, "device %s has failed: %s", accel->attr.ops->name, zipc_strerror(status));
	accel->dead = 1;
}

static void zipc_job_poll(struct zipc_accel *accel, struct zipc_job *job)
{
	/* Without a handle: the device had no room for the job's second half. */
	int over = !job->handle, n = over ? 0 : accel->attr.ops->poll(accel->attr.dev, job->handle, &over);

	if (n < 0 && !over)
		zipc_accel_fail(accel, n);
	else if (n >= 0 && !over && (unsigned)n == job->done)
		return;
	if (job->send)
		zipc_accel_send_job(accel, job, n < 0 ? 0 : (unsigned)n, over || n < 0, n < 0 ? n : 0);
	else
		zipc_accel_recv_job(accel, job, n < 0 ? 0 : (unsigned)n, over || n < 0, n < 0 ? n : 0);
}

/* Jobs that are started meanwhile are asked the next time. */
static void zipc_jobs_poll(struct zipc_accel *accel)
{
	struct zipc_list *last = accel->jobs.prev, *entry, *next;

	if (zipc_list_empty(&accel->jobs))
		return;
	for (entry = accel->jobs.next;; entry = next) {
		next = entry->next;
		zipc_job_poll(accel, zipc_container(entry, struct zipc_job, link));
		if (entry == last)
			return;
	}
}

int zipc_accels_step(struct zipc_engine *engine)
{
	struct zipc_list *entry;
	int work = 0;

	for (entry = engine->accels.next; entry != &engine->accels; entry = entry->next) {
		struct zipc_accel *accel = zipc_container(entry, struct zipc_accel, link);

		zipc_jobs_poll(accel);
		zipc_accel_encode(accel);
		zipc_accel_decode(accel);
		work |= !zipc_list_empty(&accel->jobs);
	}
	return work;
}

/* ---- life */

static int zipc_accel_open_pools(struct zipc_accel *accel)
{
	const struct zipc_accel_attr *attr = &accel->attr;
	size_t slot = zipc_accel_slot(accel->engine), nsend = attr->send_bytes / slot, nrecv = attr->recv_bytes / slot;
	int ret;

	if (nsend < 2 || nrecv < 2)
		return ZIPC_ERR_INVAL;
	ret = zipc_pool_open_at(&accel->send_pool, attr->send_memory, nsend - 1, slot, ZIPC_OP_BULK_SEND);
	if (ret)
		return ret;
	ret = zipc_pool_open_at(&accel->recv_pool, attr->recv_memory, nrecv - 1, slot, ZIPC_OP_BULK_RECV);
	if (ret) {
		zipc_pool_close(&accel->send_pool);
		return ret;
	}
	accel->send_scratch = (char *)attr->send_memory + (nsend - 1) * slot;
	accel->recv_scratch = (char *)attr->recv_memory + (nrecv - 1) * slot;
	return 0;
}

int zipc_engine_attach(struct zipc_engine *engine, const struct zipc_accel_attr *attr, struct zipc_accel **accel_p)
{
	struct zipc_accel *accel = calloc(1, sizeof(*accel));
	unsigned i;
	int ret;

	if (!accel)
		return ZIPC_ERR_NOMEM;
	accel->engine = engine;
	accel->attr = *attr;
	ret = zipc_accel_open_pools(accel);
	if (ret) {
		free(accel);
		return ret;
	}
	zipc_list_init(&accel->sends);
	zipc_list_init(&accel->recvs);
	zipc_list_init(&accel->jobs);
	zipc_list_init(&accel->free_jobs);
	for (i = 0; i < ZIPC_JOBS; i++)
		zipc_list_append(&accel->free_jobs, &accel->job[i].link);
	zipc_list_append(&engine->accels, &accel->link);
	*accel_p = accel;
	return 0;
}

/* Nothing may be in staging memory any more when it is given back. */
static void zipc_jobs_drain(struct zipc_accel *accel)
{
	const struct timespec nap = {.tv_nsec = 20000};
	uint64_t start = zipc_now_ms();
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(&accel->jobs))) {
		struct zipc_job *job = zipc_container(entry, struct zipc_job, link);
		int over = 0;

		if (!job->handle)
			continue;
		while (accel->attr.ops->poll(accel->attr.dev, job->handle, &over) >= 0 && !over &&
		       zipc_now_ms() - start < ZIPC_CLOSE_MS)
			nanosleep(&nap, NULL);
		accel->attr.ops->release(accel->attr.dev, job->handle);
	}
}

void zipc_accels_close(struct zipc_engine *engine)
{
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(&engine->accels))) {
		struct zipc_accel *accel = zipc_container(entry, struct zipc_accel, link);

		zipc_jobs_drain(accel);
		zipc_pool_close(&accel->send_pool);
		zipc_pool_close(&accel->recv_pool);
		free(accel);
	}
}

size_t zipc_accels_in_use(const struct zipc_engine *engine, size_t *bytes)
{
	const struct zipc_list *entry;
	size_t slots = 0, sum = 0;

	for (entry = engine->accels.next; entry != &engine->accels; entry = entry->next) {
		const struct zipc_accel *accel = zipc_container(entry, const struct zipc_accel, link);
		size_t n = accel->send_pool.in_use + accel->recv_pool.in_use;

		slots += n;
		sum += n * accel->send_pool.slot_bytes;
	}
	if (bytes)
		*bytes = sum;
	return slots;
}

void zipc_accels_lose(struct zipc_peer *peer)
{
	struct zipc_engine *engine = peer->engine;
	struct zipc_list *entry;

	for (entry = engine->accels.next; entry != &engine->accels; entry = entry->next) {
		struct zipc_accel *accel = zipc_container(entry, struct zipc_accel, link);

		zipc_pool_lose(engine, &accel->send_pool, &peer->accel_send_slots);
		zipc_pool_lose(engine, &accel->recv_pool, &peer->accel_recv_slots);
	}
}
