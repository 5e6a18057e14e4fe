/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outbound transfers of device memory.
 *
 *   commit -> (sample) -> chunks are encoded, some ahead of credit -> each is taken when its turn has come
 *
 * Encoding starts when the message is posted, so that the match hides it. What was encoded without credit can be taken back when
 * a transfer that has credit needs the staging: so nothing waits for a receive that may never be posted.
 */
#include <string.h>

#include "zipc_accel_priv.h"

static size_t zipc_chunk_bytes(const struct zipc_send *send, uint32_t chunk)
{
	uint64_t offset = (uint64_t)chunk * send->chunk;

	return send->nbytes - offset < send->chunk ? (size_t)(send->nbytes - offset) : send->chunk;
}

/* ---- choice */

/* What a look at the data means for frames. 0: they would not shrink. */
static int zipc_plan_settle(const struct zipc_engine *engine, const struct zipc_peer *peer, const struct zipc_sample *sample,
			    struct zipc_plan *plan)
{
	enum zipc_codec codec = sample->sparse ? ZIPC_CODEC_ENTROPY : engine->attr.codec;
	float ratio = codec == ZIPC_CODEC_FIXED ? sample->ratio_fixed : sample->ratio_entropy;

	plan->settled = 1;
	plan->codec = codec;
	plan->dtype = ZIPC_DTYPE_RAW;
	plan->sparse = 0;
	if (sample->dtype == ZIPC_DTYPE_RAW || (ratio > ZIPC_RATIO_WORTH && engine->attr.policy != ZIPC_POLICY_ALWAYS))
		return 0;
	if (!(peer->dtypes >> sample->dtype & 1) || !(peer->codecs >> codec & 1))
		return 0;
	plan->dtype = sample->dtype;
	plan->sparse = (uint8_t)!!sample->sparse;
	return 1;
}

/* -1: worth encoding, as far as is known; else the reason why not. */
static int zipc_accel_reason(struct zipc_accel *accel, struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes,
			     struct zipc_plan *plan)
{
	const struct zipc_engine *engine = accel->engine;
	struct zipc_region *region;

	if (engine->attr.codec == ZIPC_CODEC_RAW)
		return ZIPC_RAW_OFF;
	if (nbytes < ZIPC_MIN_CHUNK)
		return engine->attr.policy == ZIPC_POLICY_ALWAYS ? -1 : ZIPC_RAW_DATA;
	if (engine->attr.policy == ZIPC_POLICY_AUTO && zipc_policy_raw(&peer->accel_judge, nbytes))
		return ZIPC_RAW_SLOW;
	region = zipc_region_find(accel, zipc_iov_largest(iov, niov));
	plan->settled = region != NULL;
	if (region && !zipc_plan_settle(engine, peer, &region->sample, plan) && engine->attr.policy != ZIPC_POLICY_ALWAYS)
		return ZIPC_RAW_DATA;
	if (engine->attr.policy != ZIPC_POLICY_AUTO)
		return -1;
	plan->mode = zipc_policy_choose(&peer->accel_judge, nbytes);
	if (plan->mode == ZIPC_MODE_RAW)
		return ZIPC_RAW_SLOW;
	plan->unmeasured = 0;
	if (plan->mode == ZIPC_MODE_PROBE) {
		plan->settled = 1;
		plan->dtype = ZIPC_DTYPE_RAW;
	}
	return -1;
}

int zipc_accel_choose(struct zipc_accel *accel, struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes,
		      unsigned flags, struct zipc_plan *plan)
{
	struct zipc_engine *engine = accel->engine;
	int reason;

	*plan = (struct zipc_plan){.mode = ZIPC_MODE_ZIP, .codec = engine->attr.codec, .settled = 1, .unmeasured = 1};
	if (nbytes < engine->attr.min_size && !(flags & ZIPC_SEND_FORCE))
		return 1 + ZIPC_RAW_SMALL;
	if (!zipc_peer_ready(peer))
		return 1 + ZIPC_RAW_PEER;
	if ((!(flags & ZIPC_SEND_TAGGED) && !(peer->flags & ZIPC_HELLO_UNTAGGED)) || accel->dead ||
	    zipc_pool_usable(&accel->send_pool) * 2 <= accel->send_pool.count)
		return 1 + ZIPC_RAW_OFF;
	if (flags & ZIPC_SEND_FORCE)
		return 0;
	reason = zipc_accel_reason(accel, peer, iov, niov, nbytes, plan);
	if (reason < 0)
		return 0;
	if (accel->attr.direct)
		return 1 + reason;
	/* The network cannot take it as it is: raw frames. */
	zipc_engine_count_raw(engine, peer, (enum zipc_raw_reason)reason, nbytes);
	*plan = (struct zipc_plan){.mode = ZIPC_MODE_PROBE, .settled = 1, .unmeasured = 1};
	return 0;
}

/* ---- starting and stopping */

void zipc_accel_send_init(struct zipc_accel *accel, struct zipc_send *send, const struct zipc_plan *plan)
{
	send->accel = accel;
	send->pool = &accel->send_pool;
	send->judge = &send->peer->accel_judge;
	send->codec = plan->codec;
	send->sparse = plan->sparse;
	send->settled = plan->settled;
	send->measured = plan->unmeasured;
	send->encode_next = send->sampling = 0;
	send->failing = 0;
}

void zipc_accel_send_start(struct zipc_send *send)
{
	zipc_list_append(&send->accel->sends, &send->holder);
}

static void zipc_encoded_drop(struct zipc_slot *slot)
{
	zipc_list_remove(&slot->link);
	slot->coding = 0;
	zipc_pool_put(slot);
}

void zipc_accel_send_stop(struct zipc_send *send)
{
	struct zipc_accel *accel = send->accel;
	struct zipc_list *entry, *next;

	zipc_list_remove(&send->holder);
	for (entry = accel->jobs.next; send->jobs && entry != &accel->jobs; entry = entry->next) {
		struct zipc_job *job = zipc_container(entry, struct zipc_job, link);

		if (job->send == send)
			job->dropped = 1;
	}
	/* The others are a job's, and go when it has done with them. */
	for (entry = send->encoded.next; entry != &send->encoded; entry = next) {
		struct zipc_slot *slot = zipc_container(entry, struct zipc_slot, link);

		next = entry->next;
		if (slot->bytes)
			zipc_encoded_drop(slot);
	}
}

struct zipc_slot *zipc_accel_take(struct zipc_send *send)
{
	struct zipc_slot *slot;

	if (zipc_list_empty(&send->encoded))
		return NULL;
	slot = zipc_container(send->encoded.next, struct zipc_slot, link);
	if (!slot->bytes)
		return NULL;
	zipc_list_remove(&slot->link);
	slot->coding = 0;
	return slot;
}

/* ---- jobs */

/* The first failure is the transfer's end, with the next pass. */
static void zipc_send_job_failed(struct zipc_send *send, int status)
{
	if (send->over || send->failing)
		return;
	zipc_log(send->engine, ZIPC_LOG_WARN, "transfer %#x cannot be encoded: %s", send->id, zipc_strerror(status));
	send->failing = status;
}

/* Ends those that have failed. The peer is told of one at a time: a second word would end all that is between us. */
static void zipc_encode_end(struct zipc_accel *accel)
{
	struct zipc_list *entry, *next;

	for (entry = accel->sends.next; entry != &accel->sends; entry = next) {
		struct zipc_send *send = zipc_container(entry, struct zipc_send, holder);

		next = entry->next;
		if (accel->dead)
			zipc_send_job_failed(send, ZIPC_ERR_NET);
		if (send->failing && !send->peer->abort.busy)
			zipc_send_break(send, send->failing);
	}
}

static void zipc_send_job_over(struct zipc_accel *accel, struct zipc_job *job, int status)
{
	struct zipc_send *send = job->send;
	int dropped = job->dropped;

	if (job->handle)
		accel->attr.ops->release(accel->attr.dev, job->handle);
	if (accel->gather == job)
		accel->gather = NULL;
	zipc_job_free(accel, job);
	send->jobs--;
	if (status && !dropped)
		zipc_send_job_failed(send, status);
	/* Its end may be all that the transfer waits for: nothing may touch it after this. */
	zipc_send_settle(send);
}

static void zipc_sample_over(struct zipc_accel *accel, struct zipc_job *job, int status)
{
	struct zipc_send *send = job->send;
	struct zipc_plan plan = {0};
	struct zipc_sample sample;

	send->sampling = 0;
	if (!status && !job->dropped) {
		accel->attr.ops->sampled(accel->attr.dev, job->handle, &sample);
		zipc_region_learn(accel, zipc_iov_largest(send->iov, send->niov), &sample);
		if (!zipc_plan_settle(accel->engine, send->peer, &sample, &plan) && !send->measured) {
			/* How long raw frames took says nothing about compressed ones. */
			zipc_policy_lost(send->judge, send->nbytes, send->mode);
			send->measured = 1;
		}
		send->settled = 1;
		send->dtype = plan.dtype;
		send->codec = plan.codec;
		send->sparse = plan.sparse;
	}
	zipc_send_job_over(accel, job, status);
}

/* The slots of a job that ends early. */
static void zipc_job_drop_slots(struct zipc_job *job)
{
	for (; job->done < job->count; job->done++)
		zipc_encoded_drop(job->slot + job->done);
}

static void zipc_encode_news(struct zipc_accel *accel, struct zipc_job *job, unsigned frames, int over, int status)
{
	struct zipc_coded coded;

	for (; job->done < frames && job->done < job->count; job->done++) {
		struct zipc_slot *slot = job->slot + job->done;

		accel->attr.ops->coded(accel->attr.dev, job->handle, job->done, &coded);
		slot->bytes = coded.frame_bytes;
		if (job->dropped)
			zipc_encoded_drop(slot);
	}
	if (!over)
		return;
	if (!status && job->done < job->count)
		status = ZIPC_ERR_NET;
	zipc_job_drop_slots(job);
	zipc_send_job_over(accel, job, status);
}

static void zipc_encode_fill(const struct zipc_send *send, const struct zipc_slot *slot, uint32_t n, void *plain, struct zipc_work *work)
{
	uint64_t offset = (uint64_t)slot->chunk * send->chunk, bytes = (uint64_t)n * send->chunk;

	*work = (struct zipc_work){
		.plain = plain, .nbytes = (size_t)(send->nbytes - offset < bytes ? send->nbytes - offset : bytes), .chunk = send->chunk,
		.frames = slot->buf, .step = slot->pool->slot_bytes, .dtype = send->dtype, .codec = send->codec, .sparse = send->sparse,
	};
}

/* The pieces are together in scratch: encode them. */
static void zipc_gather_over(struct zipc_accel *accel, struct zipc_job *job, int status)
{
	struct zipc_work work;

	if (job->handle)
		accel->attr.ops->release(accel->attr.dev, job->handle);
	job->handle = NULL;
	if (!status && !job->dropped) {
		zipc_encode_fill(job->send, job->slot, 1, accel->send_scratch, &work);
		status = accel->attr.ops->encode(accel->attr.dev, &work, &job->handle);
		if (status == ZIPC_ERR_AGAIN)
			return; /* asked again with the next pass */
		if (!status) {
			job->kind = ZIPC_JOB_ENCODE;
			return;
		}
	}
	zipc_job_drop_slots(job);
	zipc_send_job_over(accel, job, status);
}

void zipc_accel_send_job(struct zipc_accel *accel, struct zipc_job *job, unsigned frames, int over, int status)
{
	switch (job->kind) {
	case ZIPC_JOB_SAMPLE:
		if (over)
			zipc_sample_over(accel, job, status);
		break;
	case ZIPC_JOB_GATHER:
		if (over)
			zipc_gather_over(accel, job, status);
		break;
	default:
		zipc_encode_news(accel, job, frames, over, status);
		break;
	}
}

/* ---- starting what can be started */

enum zipc_started {
	ZIPC_STARTED,
	ZIPC_START_FULL,   /* no staging */
	ZIPC_START_NOT,    /* nothing to start, or the device takes nothing more for now */
	ZIPC_START_FAILED, /* the transfer ends */
};

/* The device has taken the job, or not. */
static enum zipc_started zipc_job_started(struct zipc_accel *accel, struct zipc_job *job, int ret)
{
	struct zipc_send *send = job->send;
	uint32_t i;

	if (!ret) {
		for (i = 0; i < job->count; i++)
			zipc_list_append(&send->encoded, &job->slot[i].link);
		zipc_list_append(&accel->jobs, &job->link);
		send->encode_next += job->count;
		send->jobs++;
		return ZIPC_STARTED;
	}
	for (i = 0; i < job->count; i++) {
		job->slot[i].coding = 0;
		zipc_pool_put(&job->slot[i]);
	}
	if (accel->gather == job)
		accel->gather = NULL;
	zipc_job_free(accel, job);
	if (ret == ZIPC_ERR_AGAIN)
		return ZIPC_START_NOT;
	zipc_send_job_failed(send, ret);
	return ZIPC_START_FAILED;
}

static enum zipc_started zipc_start_sample(struct zipc_accel *accel, struct zipc_send *send)
{
	const struct iovec *largest = zipc_iov_largest(send->iov, send->niov);
	struct zipc_job *job = send->sampling ? NULL : zipc_job_get(accel);
	enum zipc_started started;

	if (!job)
		return ZIPC_START_NOT;
	job->kind = ZIPC_JOB_SAMPLE;
	job->send = send;
	started = zipc_job_started(accel, job, accel->attr.ops->sample(accel->attr.dev, largest->iov_base, largest->iov_len,
								       accel->engine->attr.dtype, &job->handle));
	send->sampling = started == ZIPC_STARTED;
	return started;
}

/* A chunk that lies in several segments is put together first. */
static int zipc_start_gather(struct zipc_accel *accel, struct zipc_job *job)
{
	struct zipc_send *send = job->send;
	struct iovec pieces[ZIPC_COPIES_MAX];
	struct zipc_copy copies[ZIPC_COPIES_MAX];
	unsigned i, n = zipc_iov_pieces(send->iov, send->niov, (size_t)job->slot->chunk * send->chunk,
					zipc_chunk_bytes(send, job->slot->chunk), pieces);
	size_t at = 0;

	for (i = 0; i < n; at += pieces[i].iov_len, i++)
		copies[i] = (struct zipc_copy){(char *)accel->send_scratch + at, pieces[i].iov_base, pieces[i].iov_len};
	job->kind = ZIPC_JOB_GATHER;
	accel->gather = job;
	return accel->attr.ops->copy(accel->attr.dev, copies, n, &job->handle);
}

/* Chunks of the transfer from encode_next on, `most` at most, as many as lie in a row. */
static enum zipc_started zipc_start_encode(struct zipc_accel *accel, struct zipc_send *send, uint32_t most)
{
	uint64_t offset = (uint64_t)send->encode_next * send->chunk;
	struct zipc_job *job;
	struct zipc_work work;
	void *at;
	size_t row = zipc_iov_run(send->iov, send->niov, (size_t)offset, &at);
	int whole = row >= zipc_chunk_bytes(send, send->encode_next);
	uint32_t i, n = most < ZIPC_JOB_FRAMES ? most : ZIPC_JOB_FRAMES;

	if (row < send->nbytes - offset && row / send->chunk < n)
		n = whole ? (uint32_t)(row / send->chunk) : 1;
	if (!whole && accel->gather)
		return ZIPC_START_NOT;
	job = zipc_job_get(accel);
	if (!job)
		return ZIPC_START_NOT;
	job->slot = zipc_pool_get_run(&accel->send_pool, &send->peer->accel_send_slots, NULL, &n);
	if (!job->slot) {
		zipc_job_free(accel, job);
		return ZIPC_START_FULL;
	}
	job->send = send;
	job->count = n;
	for (i = 0; i < n; i++) {
		job->slot[i].chunk = send->encode_next + i;
		job->slot[i].coding = 1;
	}
	if (!whole)
		return zipc_job_started(accel, job, zipc_start_gather(accel, job));
	job->kind = ZIPC_JOB_ENCODE;
	zipc_encode_fill(send, job->slot, n, at, &work);
	return zipc_job_started(accel, job, accel->attr.ops->encode(accel->attr.dev, &work, &job->handle));
}

/* Up to how far the transfer is encoded for now. Not chunk by chunk: a launch is worth some. */
static uint32_t zipc_encode_limit(const struct zipc_send *send)
{
	uint32_t left = send->nchunks - send->credit, limit = send->credit + (left < ZIPC_AHEAD ? left : ZIPC_AHEAD);

	if (limit < send->nchunks && limit - send->encode_next < ZIPC_AHEAD / 2 && send->encode_next > send->next)
		return send->encode_next;
	return limit;
}

/* Either those that have credit for what is not encoded, or all. Returns ZIPC_START_FULL when one of them found no staging. */
static enum zipc_started zipc_encode_pass(struct zipc_accel *accel, int credited)
{
	struct zipc_list *entry, *next;
	enum zipc_started how, all = ZIPC_START_NOT;

	for (entry = accel->sends.next; entry != &accel->sends; entry = next) {
		struct zipc_send *send = zipc_container(entry, struct zipc_send, holder);
		uint32_t limit = zipc_encode_limit(send);

		next = entry->next;
		if (send->failing)
			continue;
		if (credited && send->encode_next >= send->credit)
			continue;
		if (!send->settled) {
			zipc_start_sample(accel, send);
			continue;
		}
		do {
			how = send->encode_next < limit ? zipc_start_encode(accel, send, limit - send->encode_next) : ZIPC_START_NOT;
		} while (how == ZIPC_STARTED);
		if (how == ZIPC_START_FULL)
			all = how; /* that may be true of one peer only */
	}
	return all;
}

/* Takes back what the youngest transfer has that nobody has asked for. */
static int zipc_encode_reclaim(struct zipc_accel *accel)
{
	struct zipc_list *entry;

	for (entry = accel->sends.prev; entry != &accel->sends; entry = entry->prev) {
		struct zipc_send *send = zipc_container(entry, struct zipc_send, holder);
		int n = 0;

		while (!zipc_list_empty(&send->encoded)) {
			struct zipc_slot *slot = zipc_container(send->encoded.prev, struct zipc_slot, link);

			if (!slot->bytes || slot->chunk < send->credit)
				break;
			send->encode_next = slot->chunk;
			zipc_encoded_drop(slot);
			n++;
		}
		if (n)
			return 1;
	}
	return 0;
}

void zipc_accel_encode(struct zipc_accel *accel)
{
	enum zipc_started how;

	zipc_encode_end(accel);
	if (accel->dead)
		return;
	do {
		how = zipc_encode_pass(accel, 1);
	} while (how == ZIPC_START_FULL && zipc_encode_reclaim(accel));
	if (how != ZIPC_START_FULL)
		zipc_encode_pass(accel, 0);
}
