/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inbound transfers into device memory: chunks that have arrived are decoded, in one job as many as lie in a row in staging and in the
 * buffer. What the device does with the buffer must have ended before the application hears that the transfer has.
 */
#include <string.h>

#include "zipc_accel_priv.h"

/* What the frame in a slot is taken for. */
struct zipc_frame_kind {
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	int sparse;
	uint8_t raw;
};

static size_t zipc_slot_input(const struct zipc_recv *recv, const struct zipc_slot *slot)
{
	uint64_t offset = (uint64_t)slot->chunk * recv->chunk;

	return recv->nbytes - offset < recv->chunk ? (size_t)(recv->nbytes - offset) : recv->chunk;
}

static int zipc_slot_read(const struct zipc_slot *slot, size_t nbytes, struct zipc_frame_kind *kind)
{
	struct zipc_frame_info info;
	int ret = zipc_frame_parse(slot->buf, slot->bytes, &info);

	if (ret)
		return ret;
	if (info.nbytes != nbytes || info.frame_bytes != slot->bytes)
		return ZIPC_ERR_SIZE;
	*kind = (struct zipc_frame_kind){info.dtype, info.codec, info.sparse, info.codec == ZIPC_CODEC_RAW};
	return 0;
}

#define ZIPC_GUESSES (3u * (ZIPC_DTYPE_COUNT - 1))

/*
 * Staging that the host cannot read. A frame is of the kind that the sender has announced, or that the last one had; raw, which its
 * size tells but for a coincidence; or sparse. If nothing is known all kinds are tried: the device refuses one that is another.
 */
static int zipc_slot_guess(const struct zipc_recv *recv, const struct zipc_slot *slot, size_t nbytes, struct zipc_frame_kind *kind)
{
	unsigned guess = slot->guess;

	*kind = (struct zipc_frame_kind){recv->frame_kind & 7, recv->frame_kind >> 3 & 3, recv->frame_kind >> 5 & 1, 0};
	if (slot->bytes == zipc_frame_bound(nbytes) && !guess--) {
		kind->raw = 1;
		return 0;
	}
	if (recv->frame_kind && !guess--)
		return 0;
	if (guess >= ZIPC_GUESSES)
		return ZIPC_ERR_CODEC;
	/* The announced type first. */
	kind->dtype = (enum zipc_dtype)(1 + ((recv->frame_kind ? (recv->frame_kind & 7u) - 1 : 0) + guess / 3) % (ZIPC_DTYPE_COUNT - 1));
	kind->codec = guess % 3 == 2 ? ZIPC_CODEC_FIXED : ZIPC_CODEC_ENTROPY;
	kind->sparse = guess % 3 == 1;
	return 0;
}

static int zipc_slot_kind(const struct zipc_accel *accel, const struct zipc_recv *recv, const struct zipc_slot *slot,
			  struct zipc_frame_kind *kind)
{
	size_t nbytes = zipc_slot_input(recv, slot);

	if (slot->bytes < ZIPC_FRAME_HEADER || slot->bytes > zipc_frame_bound(nbytes))
		return ZIPC_ERR_SIZE;
	return accel->attr.visible ? zipc_slot_read(slot, nbytes, kind) : zipc_slot_guess(recv, slot, nbytes, kind);
}

void zipc_accel_arrived(struct zipc_recv *recv, struct zipc_slot *slot)
{
	slot->guess = 0;
	slot->guess_of = recv->frame_kind;
	zipc_list_append(&recv->arrived, &slot->link);
	if (zipc_list_empty(&recv->holder))
		zipc_list_append(&recv->accel->recvs, &recv->holder);
}

/* The next kind to take it for. What others of the transfer have turned out to be meanwhile comes first. Returns 0, or that none is left. */
static int zipc_slot_guess_again(const struct zipc_accel *accel, const struct zipc_recv *recv, struct zipc_slot *slot)
{
	struct zipc_frame_kind kind;

	if (slot->guess_of == recv->frame_kind)
		slot->guess++;
	else
		slot->guess = slot->bytes == zipc_frame_bound(zipc_slot_input(recv, slot)); /* not raw: that was tried */
	slot->guess_of = recv->frame_kind;
	return zipc_slot_kind(accel, recv, slot, &kind);
}

/* ---- jobs */

static void zipc_slot_done(struct zipc_recv *recv, struct zipc_slot *slot)
{
	zipc_list_remove(&slot->link);
	slot->coding = 0;
	recv->in_flight--;
	zipc_pool_put(slot);
}

static void zipc_recv_job_over(struct zipc_accel *accel, struct zipc_job *job, uint32_t decoded, int status)
{
	struct zipc_recv *recv = job->recv;

	if (job->handle)
		accel->attr.ops->release(accel->attr.dev, job->handle);
	if (accel->scatter == job)
		accel->scatter = NULL;
	zipc_job_free(accel, job);
	recv->jobs--;
	if (status && !recv->done && !recv->ending)
		zipc_log(accel->engine, ZIPC_LOG_WARN, "transfer %#x cannot be decoded: %s", recv->sender_xfer, zipc_strerror(status));
	zipc_recv_decoded(recv, decoded, status);
}

/* A frame that may be of another kind is tried as that. A device says of a wrong one what it comes upon first. */
static int zipc_recv_try_again(struct zipc_accel *accel, struct zipc_recv *recv, struct zipc_slot *slot)
{
	if (accel->attr.visible || recv->done || recv->ending || zipc_slot_guess_again(accel, recv, slot))
		return 0;
	slot->coding = 0;
	zipc_list_append(&recv->arrived, &slot->link);
	if (zipc_list_empty(&recv->holder))
		zipc_list_append(&accel->recvs, &recv->holder);
	return 1;
}

static void zipc_decode_over(struct zipc_accel *accel, struct zipc_job *job, int status)
{
	struct zipc_recv *recv = job->recv;
	struct zipc_coded coded = {0};
	uint32_t i, decoded = 0;

	for (i = 0; i < job->count; i++) {
		struct zipc_slot *slot = job->slot + i;

		if (!status)
			accel->attr.ops->coded(accel->attr.dev, job->handle, i, &coded);
		if (!status && coded.status && zipc_recv_try_again(accel, recv, slot))
			continue;
		if (!status && !coded.status && (slot->guess || !recv->frame_kind) && job->codec != ZIPC_CODEC_RAW)
			recv->frame_kind = zipc_kind(job->dtype, job->codec, job->sparse);
		ZIPC_COUNT(recv->peer, recv_wire_bytes, slot->bytes);
		if (!status)
			status = coded.status;
		decoded += !status;
		zipc_slot_done(recv, slot);
	}
	zipc_recv_job_over(accel, job, decoded, status);
}

/* Copies what fits from scratch to where it belongs. */
static int zipc_start_scatter(struct zipc_accel *accel, struct zipc_job *job)
{
	struct zipc_recv *recv = job->recv;
	uint64_t offset = (uint64_t)job->slot->chunk * recv->chunk;
	struct iovec pieces[ZIPC_COPIES_MAX];
	struct zipc_copy copies[ZIPC_COPIES_MAX];
	size_t keep = recv->keep - offset < recv->chunk ? (size_t)(recv->keep - offset) : recv->chunk, at = 0;
	unsigned i, n = zipc_iov_pieces(recv->iov, recv->niov, (size_t)offset, keep, pieces);

	for (i = 0; i < n; at += pieces[i].iov_len, i++)
		copies[i] = (struct zipc_copy){pieces[i].iov_base, (char *)accel->recv_scratch + at, pieces[i].iov_len};
	job->kind = ZIPC_JOB_SCATTER;
	return accel->attr.ops->copy(accel->attr.dev, copies, n, &job->handle);
}

static void zipc_unpack_over(struct zipc_accel *accel, struct zipc_job *job, int status)
{
	struct zipc_coded coded = {0};

	if (job->handle && !status) {
		accel->attr.ops->coded(accel->attr.dev, job->handle, 0, &coded);
		status = coded.status;
	}
	if (status || job->recv->done || job->recv->ending) {
		if (job->handle && status == coded.status)
			zipc_decode_over(accel, job, 0); /* it reads the status again */
		else
			zipc_decode_over(accel, job, status ? status : ZIPC_ERR_CANCELED);
		return;
	}
	if (job->handle)
		accel->attr.ops->release(accel->attr.dev, job->handle);
	job->handle = NULL;
	status = zipc_start_scatter(accel, job);
	if (!status)
		return;
	job->handle = NULL;
	job->kind = ZIPC_JOB_UNPACK; /* asked again with the next pass */
	if (status != ZIPC_ERR_AGAIN)
		zipc_decode_over(accel, job, status);
}

static void zipc_scatter_over(struct zipc_accel *accel, struct zipc_job *job, int status)
{
	struct zipc_recv *recv = job->recv;

	ZIPC_COUNT(recv->peer, recv_wire_bytes, job->slot->bytes);
	zipc_slot_done(recv, job->slot);
	zipc_recv_job_over(accel, job, !status, status);
}

void zipc_accel_recv_job(struct zipc_accel *accel, struct zipc_job *job, unsigned frames, int over, int status)
{
	(void)frames;
	if (!over)
		return;
	if (job->kind == ZIPC_JOB_UNPACK)
		zipc_unpack_over(accel, job, status);
	else if (job->kind == ZIPC_JOB_SCATTER)
		zipc_scatter_over(accel, job, status);
	else
		zipc_decode_over(accel, job, status);
}

/* ---- starting what can be started */

/* Frames that one job decodes. */
struct zipc_row {
	struct zipc_slot *slot;
	uint32_t count;
	struct zipc_frame_kind kind; /* of those that are not raw */
	void *at;                    /* where they go to; NULL: not to one place */
	size_t left;                 /* bytes in a row there, and wanted */
	size_t nbytes;
	size_t frame_bytes[ZIPC_JOB_FRAMES];
	uint8_t raw[ZIPC_JOB_FRAMES];
};

/* Adds the frame to the row if it goes with those that are there. A negative code: it is none. */
static int zipc_row_add(const struct zipc_accel *accel, const struct zipc_recv *recv, struct zipc_slot *slot, struct zipc_row *row)
{
	size_t nbytes = zipc_slot_input(recv, slot);
	struct zipc_frame_kind kind;
	int ret = zipc_slot_kind(accel, recv, slot, &kind);

	if (ret)
		return row->count ? 0 : ret;
	if (row->count && (row->left < row->nbytes + nbytes || slot->guess || (!kind.raw && !row->kind.raw &&
	    (kind.dtype != row->kind.dtype || kind.codec != row->kind.codec || kind.sparse != row->kind.sparse))))
		return 0;
	if (!row->count || row->kind.raw)
		row->kind = kind;
	row->frame_bytes[row->count] = slot->bytes;
	row->raw[row->count++] = kind.raw;
	row->nbytes += nbytes;
	return 1;
}

/* The chunk that has waited longest, and those that follow it. */
static int zipc_row_find(const struct zipc_accel *accel, struct zipc_recv *recv, struct zipc_row *row)
{
	struct zipc_slot *slot = zipc_container(recv->arrived.next, struct zipc_slot, link);
	const struct zipc_slot *end = accel->recv_pool.slots + accel->recv_pool.count;
	uint64_t offset = (uint64_t)slot->chunk * recv->chunk;
	size_t wanted = recv->keep - offset;
	int ret;

	row->slot = slot;
	row->count = 0;
	row->nbytes = 0;
	row->left = zipc_iov_run(recv->iov, recv->niov, (size_t)offset, &row->at);
	if (row->left > wanted)
		row->left = wanted;
	if (row->left < zipc_slot_input(recv, slot))
		row->at = NULL;
	do {
		ret = zipc_row_add(accel, recv, slot++, row);
	} while (ret > 0 && row->at && !row->slot->guess && row->count < ZIPC_JOB_FRAMES && slot < end && slot->xfer == recv &&
		 slot->chunk == row->slot->chunk + row->count && !slot->coding && !zipc_list_empty(&slot->link));
	return ret < 0 ? ret : 0;
}

static int zipc_row_start(struct zipc_accel *accel, struct zipc_recv *recv, const struct zipc_row *row)
{
	struct zipc_work work = {
		.plain = row->at ? row->at : accel->recv_scratch, .nbytes = row->nbytes, .chunk = recv->chunk, .frames = row->slot->buf,
		.step = accel->recv_pool.slot_bytes, .dtype = row->kind.dtype, .codec = row->kind.codec, .sparse = row->kind.sparse,
		.frame_bytes = row->frame_bytes, .raw = row->raw,
	};
	struct zipc_job *job;
	uint32_t i;
	int ret;

	if (!row->at && accel->scatter)
		return ZIPC_ERR_AGAIN;
	job = zipc_job_get(accel);
	if (!job)
		return ZIPC_ERR_AGAIN;
	job->kind = row->at ? ZIPC_JOB_DECODE : ZIPC_JOB_UNPACK;
	job->recv = recv;
	job->slot = row->slot;
	job->count = row->count;
	job->dtype = row->kind.dtype;
	job->codec = row->kind.raw ? ZIPC_CODEC_RAW : row->kind.codec;
	job->sparse = row->kind.sparse;
	ret = accel->attr.ops->decode(accel->attr.dev, &work, &job->handle);
	if (ret) {
		zipc_job_free(accel, job);
		return ret;
	}
	if (!row->at)
		accel->scatter = job;
	for (i = 0; i < row->count; i++) {
		zipc_list_remove(&row->slot[i].link);
		row->slot[i].coding = 1;
	}
	zipc_list_append(&accel->jobs, &job->link);
	recv->jobs++;
	return 0;
}

/* The device does not even start on frames of this kind and size: they may be of another. 0: none is left. */
static int zipc_row_try_again(const struct zipc_accel *accel, const struct zipc_recv *recv, const struct zipc_row *row)
{
	uint32_t i;
	int any = 0;

	for (i = 0; i < row->count && !accel->attr.visible; i++) {
		if (row->raw[i])
			continue;
		any = 1;
		if (zipc_slot_guess_again(accel, recv, &row->slot[i]))
			return 0;
	}
	return any;
}

/* Nobody waits for what has arrived. */
static void zipc_arrived_drop(struct zipc_recv *recv)
{
	while (!zipc_list_empty(&recv->arrived))
		zipc_slot_done(recv, zipc_container(recv->arrived.next, struct zipc_slot, link));
}

/* The first coded frame of which nothing is known is tried alone: what it is the others will be. */
static int zipc_recv_must_wait(const struct zipc_accel *accel, const struct zipc_recv *recv)
{
	const struct zipc_slot *slot;

	if (accel->attr.visible || recv->frame_kind || !recv->jobs || zipc_list_empty(&recv->arrived))
		return 0;
	slot = zipc_container(recv->arrived.next, struct zipc_slot, link);
	return slot->guess || slot->bytes != zipc_frame_bound(zipc_slot_input(recv, slot));
}

/* 1: the device takes nothing more for now. */
static int zipc_decode_recv(struct zipc_accel *accel, struct zipc_recv *recv)
{
	struct zipc_row row;
	int ret = accel->dead ? ZIPC_ERR_NET : 0;

	while (!ret && !recv->done && !recv->ending && !zipc_list_empty(&recv->arrived)) {
		if (zipc_recv_must_wait(accel, recv))
			return 0;
		ret = zipc_row_find(accel, recv, &row);
		if (ret)
			break;
		ret = zipc_row_start(accel, recv, &row);
		if ((ret == ZIPC_ERR_SIZE || ret == ZIPC_ERR_INVAL) && zipc_row_try_again(accel, recv, &row))
			ret = 0;
	}
	if (ret == ZIPC_ERR_AGAIN)
		return 1;
	zipc_list_remove(&recv->holder);
	if (!ret && zipc_list_empty(&recv->arrived))
		return 0;
	if (ret && !recv->done && !recv->ending)
		zipc_log(accel->engine, ZIPC_LOG_WARN, "transfer %#x cannot be decoded: %s", recv->sender_xfer, zipc_strerror(ret));
	zipc_arrived_drop(recv);
	zipc_recv_decoded(recv, 0, ret);
	return 0;
}

void zipc_accel_decode(struct zipc_accel *accel)
{
	struct zipc_list *entry, *next;

	for (entry = accel->recvs.next; entry != &accel->recvs; entry = next) {
		next = entry->next;
		if (zipc_decode_recv(accel, zipc_container(entry, struct zipc_recv, holder)))
			return;
	}
}
