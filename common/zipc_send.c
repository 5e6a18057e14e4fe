/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outbound transfers.
 *
 *   begin -> (placeholder posted) -> commit: RTS queued -> CREDIT: chunks are encoded and sent -> FIN: gone
 *
 * The application's completion comes when the last chunk has left (or at FIN for delivery complete). The transfer
 * itself stays until FIN, so that a late message about it finds it.
 */
#include <stdlib.h>
#include <string.h>

#include "zipc_accel_priv.h"

#define ZIPC_SEND_INDEX_BITS 20
#define ZIPC_SEND_INDEX_MASK ((1u << ZIPC_SEND_INDEX_BITS) - 1)
#define ZIPC_SEND_SLAB 64u

/* Adds a slab of transfers to the free list. */
static int zipc_sends_grow(struct zipc_engine *engine)
{
	uint32_t i, count = engine->send_count;
	struct zipc_send **table;
	struct zipc_send *slab;

	if (count + ZIPC_SEND_SLAB > ZIPC_SEND_INDEX_MASK + 1)
		return ZIPC_ERR_AGAIN;
	table = realloc(engine->send_table, (count + ZIPC_SEND_SLAB) * sizeof(struct zipc_send *));
	if (!table)
		return ZIPC_ERR_AGAIN;
	engine->send_table = table;
	slab = calloc(ZIPC_SEND_SLAB, sizeof(*slab));
	if (!slab)
		return ZIPC_ERR_AGAIN;
	for (i = 0; i < ZIPC_SEND_SLAB; i++) {
		slab[i].engine = engine;
		slab[i].id = count + i;
		zipc_list_init(&slab[i].ready);
		zipc_list_init(&slab[i].holder);
		zipc_list_init(&slab[i].encoded);
		zipc_list_append(&engine->free_sends, &slab[i].link);
		table[count + i] = &slab[i];
	}
	engine->send_count += ZIPC_SEND_SLAB;
	return 0;
}

void zipc_sends_close(struct zipc_engine *engine)
{
	uint32_t i;

	for (i = 0; i < engine->send_count; i += ZIPC_SEND_SLAB)
		free(engine->send_table[i]); /* the first of a slab is the slab */
	free(engine->send_table);
}

static struct zipc_send *zipc_send_alloc(struct zipc_engine *engine)
{
	struct zipc_list *entry = zipc_list_pop(&engine->free_sends);
	struct zipc_send *send;

	if (!entry && !zipc_sends_grow(engine))
		entry = zipc_list_pop(&engine->free_sends);
	if (!entry)
		return NULL;
	send = zipc_container(entry, struct zipc_send, link);
	/* A new generation: what a peer still says about the last use no longer fits. */
	send->id += 1u << ZIPC_SEND_INDEX_BITS;
	return send;
}

/* Gives back the slots of chunks that were encoded and will not be sent. */
static void zipc_send_unstage(struct zipc_send *send)
{
	if (send->staged)
		zipc_pool_put(send->staged);
	send->staged = NULL;
	if (send->accel)
		zipc_accel_send_stop(send);
}

static void zipc_send_release(struct zipc_send *send)
{
	struct zipc_peer *peer = send->peer;

	if (!send->measured && send->state == ZIPC_SEND_BEGUN)
		zipc_policy_undo(send->judge, send->nbytes, send->mode);
	else if (!send->measured)
		zipc_policy_lost(send->judge, send->nbytes, send->mode);
	zipc_send_unstage(send);
	zipc_list_remove(&send->ready);
	zipc_list_remove(&send->link);
	peer->nsends--;
	peer->nreplies -= !!(send->flags & ZIPC_SEND_REPLY);
	send->state = ZIPC_SEND_FREE;
	send->engine->active--;
	zipc_list_append(&send->engine->free_sends, &send->link);
}

void zipc_send_report(struct zipc_send *send, int status)
{
	struct zipc_engine *engine = send->engine;

	if (send->state != ZIPC_SEND_OPEN)
		return;
	send->state = ZIPC_SEND_REPORTED;
	if (status)
		ZIPC_COUNT(send->peer, errors, 1);
	if (!(send->flags & ZIPC_SEND_REPLY))
		engine->cb->send_done(engine->ctx, send->cookie, status);
	else if (send->niov) /* else it was refused */
		engine->cb->rma_done(engine->ctx, send->cookie, status, 0, 0, send->nbytes);
}

void zipc_send_settle(struct zipc_send *send)
{
	int sent = send->next == send->nchunks && !send->in_flight;

	if (send->jobs) /* a device still reads the buffer */
		return;
	if (send->over && !send->in_flight)
		zipc_send_report(send, send->status);
	else if (sent && !(send->flags & ZIPC_SEND_DELIVERY))
		zipc_send_report(send, 0);
	if (send->over && !send->in_flight && !send->ctl.busy && send->state == ZIPC_SEND_REPORTED)
		zipc_send_release(send);
}

/* ---- begin */

static uint32_t zipc_chunk_for(const struct zipc_engine *engine, size_t max_chunk, size_t nbytes)
{
	size_t most = engine->attr.chunk < max_chunk ? engine->attr.chunk : max_chunk;
	/* Four chunks or more let coding and sending overlap; a chunk of less than 128 KiB costs more than it gains. */
	size_t chunk = nbytes / 4 < 131072 ? 131072 : nbytes / 4;

	if (chunk > most)
		chunk = most;
	return (uint32_t)(chunk / ZIPC_MIN_CHUNK * ZIPC_MIN_CHUNK);
}

static void zipc_send_fill(struct zipc_send *send, const struct iovec *iov, size_t niov, unsigned flags)
{
	size_t i, at = 0;

	if (flags & ZIPC_SEND_COPY) {
		for (i = 0; i < niov; at += iov[i].iov_len, i++)
			memcpy(send->copy + at, iov[i].iov_base, iov[i].iov_len);
		send->iov[0] = (struct iovec){send->copy, at};
		send->niov = 1;
		return;
	}
	if (niov)
		memcpy(send->iov, iov, niov * sizeof(*iov));
	send->niov = (uint32_t)niov;
}

static void zipc_placeholder_fill(const struct zipc_send *send, struct zipc_placeholder_v1 *ph)
{
	memset(ph, 0, sizeof(*ph));
	memcpy(ph->magic, ZIPC_PLACEHOLDER_MAGIC, sizeof(ph->magic));
	ph->sender = send->engine->epoch;
	ph->sender_xfer = send->id;
	ph->chunk = send->chunk;
	ph->nbytes = send->nbytes;
	ph->tag = send->tag;
	ph->version = ZIPC_WIRE_VERSION;
	if (send->flags & ZIPC_SEND_TAGGED)
		ph->flags |= ZIPC_PH_TAGGED;
	if (send->flags & ZIPC_SEND_DELIVERY)
		ph->flags |= ZIPC_PH_DELIVERY;
}

int zipc_send_new(struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes, unsigned flags,
		  size_t max_chunk, struct zipc_send **send_p)
{
	struct zipc_engine *engine = peer->engine;
	uint32_t chunk = zipc_chunk_for(engine, max_chunk, nbytes);
	struct zipc_send *send;

	if ((nbytes - 1) / chunk >= UINT32_MAX)
		return ZIPC_ERR_SIZE;
	if (!(flags & ZIPC_SEND_REPLY) && peer->nsends - peer->nreplies >= ZIPC_SENDS_PER_PEER)
		return ZIPC_ERR_AGAIN;
	send = zipc_send_alloc(engine);
	if (!send)
		return ZIPC_ERR_AGAIN;
	send->chunk = chunk;
	send->nchunks = (uint32_t)((nbytes - 1) / chunk) + 1;
	send->peer = peer;
	send->state = ZIPC_SEND_BEGUN;
	send->flags = flags;
	send->nbytes = nbytes;
	send->tag = 0;
	send->credit = send->next = send->in_flight = 0;
	send->over = send->told = 0;
	send->measured = !zipc_send_asks(engine, flags);
	send->staged = NULL;
	send->start_ns = 0;
	send->status = 0;
	send->judge = &peer->judge;
	send->pool = &engine->send_pool;
	send->accel = NULL;
	send->jobs = 0;
	zipc_send_fill(send, iov, niov, flags);
	zipc_list_append(&peer->sends, &send->link);
	peer->nsends++;
	peer->nreplies += !!(flags & ZIPC_SEND_REPLY);
	engine->active++;
	*send_p = send;
	return 0;
}

int zipc_send_begin(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov,
		    size_t nbytes, uint64_t tag, unsigned flags, void *cookie, struct zipc_send **send_p,
		    struct zipc_placeholder_v1 *placeholder)
{
	return zipc_send_begin_on(engine, NULL, peer, iov, niov, nbytes, tag, flags, cookie, send_p, placeholder);
}

int zipc_send_begin_on(struct zipc_engine *engine, struct zipc_accel *accel, struct zipc_peer *peer, const struct iovec *iov,
		       size_t niov, size_t nbytes, uint64_t tag, unsigned flags, void *cookie, struct zipc_send **send_p,
		       struct zipc_placeholder_v1 *placeholder)
{
	struct zipc_plan plan = {.codec = engine->attr.codec};
	struct zipc_send *send;
	int raw;

	if (!nbytes || niov > ZIPC_IOV_MAX || ((flags & ZIPC_SEND_COPY) && nbytes > sizeof(send->copy)))
		return 1 + ZIPC_RAW_SMALL;
	if (accel)
		raw = zipc_accel_choose(accel, peer, iov, niov, nbytes, flags, &plan);
	else
		raw = zipc_send_choose(engine, peer, iov, niov, nbytes, flags, &plan.dtype, &plan.mode);
	if (raw)
		return raw;
	raw = zipc_send_new(peer, iov, niov, nbytes, flags, peer->max_chunk, &send);
	if (raw) {
		if (accel && !plan.unmeasured)
			zipc_policy_undo(&peer->accel_judge, nbytes, plan.mode);
		else if (!accel)
			zipc_send_unchoose(engine, peer, nbytes, flags, plan.mode);
		return raw == ZIPC_ERR_AGAIN ? raw : 1 + ZIPC_RAW_SMALL;
	}
	send->dtype = plan.mode == ZIPC_MODE_PROBE ? ZIPC_DTYPE_RAW : plan.dtype;
	send->mode = plan.mode;
	if (accel)
		zipc_accel_send_init(accel, send, &plan);
	send->tag = tag;
	send->cookie = cookie;
	zipc_placeholder_fill(send, placeholder);
	*send_p = send;
	return 0;
}

void zipc_send_drop(struct zipc_send *send)
{
	zipc_send_release(send);
}

static void zipc_send_ctl_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status)
{
	(void)engine;
	(void)status; /* the peer is lost then, or was lost before */
	zipc_send_settle(zipc_container(ctl, struct zipc_send, ctl));
}

void zipc_send_announce(struct zipc_send *send, size_t len)
{
	struct zipc_engine *engine = send->engine;

	if (zipc_peer_active(send->peer) == 1)
		send->peer->heard_ms = zipc_now_ms(); /* silence is counted from here */
	if (!send->over) { /* else it only says why there is none */
		ZIPC_COUNT(send->peer, sends, 1);
		ZIPC_COUNT(send->peer, send_bytes, send->nbytes);
	}
	zipc_ctl_send(engine, &send->ctl, send->peer, &send->msg, len, zipc_send_ctl_done);
	if (send->accel && !send->over)
		zipc_accel_send_start(send);
	zipc_send_settle(send);
}

static size_t zipc_send_fill_rts(struct zipc_send *send)
{
	struct zipc_rts_v1 *rts = &send->msg.rts;

	memset(rts, 0, sizeof(*rts));
	zipc_ctl_header(send->engine, &rts->hdr, ZIPC_CTL_RTS, sizeof(*rts));
	rts->sender_xfer = send->id;
	rts->chunk = send->chunk;
	rts->nbytes = send->nbytes;
	rts->tag = send->tag;
	if (!send->accel || send->settled)
		rts->kind = zipc_kind(send->dtype, send->accel ? send->codec : send->engine->attr.codec, send->accel && send->sparse);
	rts->flags = (send->flags & ZIPC_SEND_TAGGED ? ZIPC_PH_TAGGED : 0) |
		     (send->flags & ZIPC_SEND_DELIVERY ? ZIPC_PH_DELIVERY : 0);
	return sizeof(*rts);
}

void zipc_send_commit(struct zipc_send *send)
{
	send->state = ZIPC_SEND_OPEN;
	if (send->over && send->status) /* failed before it was committed */
		zipc_send_settle(send);
	else
		zipc_send_announce(send, send->flags & ZIPC_SEND_WRITE ? sizeof(send->msg.write) : zipc_send_fill_rts(send));
}

void zipc_send_break(struct zipc_send *send, int status)
{
	struct zipc_peer *peer = send->peer;
	uint32_t id = send->id;

	if ((send->flags & ZIPC_SEND_REPLY) && send->ctl.busy && !zipc_list_empty(&send->ctl.link)) {
		/* The reader knows of nothing yet: it is refused. */
		send->msg.reply.status = status;
		send->over = 1;
		send->status = status;
		zipc_send_settle(send);
		return;
	}
	send->told = peer->state != ZIPC_PEER_LOST;
	zipc_send_fail(send, status);
	if (peer->state != ZIPC_PEER_LOST)
		zipc_peer_abort(peer, id, 1);
}

uint32_t zipc_send_id(const struct zipc_send *send)
{
	return send->id;
}

void zipc_send_lost(struct zipc_engine *engine, uint32_t id)
{
	uint32_t index = id & ZIPC_SEND_INDEX_MASK;
	struct zipc_send *send = index < engine->send_count ? engine->send_table[index] : NULL;

	if (send && send->id == id && send->state != ZIPC_SEND_FREE)
		zipc_send_break(send, ZIPC_ERR_NET);
}

void zipc_sends_leave(struct zipc_peer *peer)
{
	struct zipc_list *entry, *next;

	for (entry = peer->sends.next; entry != &peer->sends; entry = next) {
		struct zipc_send *send = zipc_container(entry, struct zipc_send, link);

		next = entry->next;
		/* One whose chunks have all left arrives. */
		if (send->state != ZIPC_SEND_OPEN || send->over || send->next == send->nchunks)
			continue;
		if (peer->abort.busy)
			return; /* one word at a time: the others next time */
		zipc_send_break(send, ZIPC_ERR_CANCELED);
	}
}

/* ---- the receiver speaks */

static struct zipc_send *zipc_send_lookup(struct zipc_engine *engine, struct zipc_peer *peer, uint32_t id)
{
	uint32_t index = id & ZIPC_SEND_INDEX_MASK;
	struct zipc_send *send = index < engine->send_count ? engine->send_table[index] : NULL;

	/* BEGUN counts: the receiver may answer before the sender has come to commit. */
	if (!send || send->id != id || send->peer != peer || send->state == ZIPC_SEND_FREE || send->over)
		return NULL;
	return send;
}

/* 1 if it ended not long ago, and an abort is on its way. */
static int zipc_send_was_told(struct zipc_engine *engine, struct zipc_peer *peer, uint32_t id)
{
	uint32_t index = id & ZIPC_SEND_INDEX_MASK;
	const struct zipc_send *send = index < engine->send_count ? engine->send_table[index] : NULL;

	return send && send->id == id && send->peer == peer && send->told;
}

void zipc_send_credit(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_credit_v1 *msg)
{
	struct zipc_send *send = zipc_send_lookup(engine, peer, msg->sender_xfer);

	if (!send && zipc_send_was_told(engine, peer, msg->sender_xfer))
		return;
	if (!send || msg->first != send->credit || !msg->count || msg->count > send->nchunks - send->credit ||
	    (send->credit && msg->receiver_xfer != send->receiver_xfer)) {
		zipc_log(engine, ZIPC_LOG_WARN, "credit ignored: transfer %#x, chunks %u + %u, %s", msg->sender_xfer,
			 msg->first, msg->count, send ? "out of order" : "no such transfer");
		if (send)
			zipc_send_break(send, ZIPC_ERR_PROTO);
		else
			zipc_peer_abort(peer, msg->sender_xfer, 1);
		return;
	}
	if (!send->start_ns)
		send->start_ns = zipc_now_ns();
	send->receiver_xfer = msg->receiver_xfer;
	send->credit += msg->count;
	if (zipc_list_empty(&send->ready))
		zipc_list_append(&engine->send_ready, &send->ready);
}

/* What the receiver's last word means here. */
static int zipc_fin_status(const struct zipc_send *send, int status)
{
	int rma = send->flags & (ZIPC_SEND_WRITE | ZIPC_SEND_REPLY);

	/* The core reports a truncated message at the receiver only, and so does a transfer. */
	if (status == ZIPC_ERR_TRUNC && !rma)
		return 0;
	if (status > 0 || status == ZIPC_ERR_AGAIN || (!status && rma && send->next < send->nchunks))
		return ZIPC_ERR_PROTO;
	return status;
}

void zipc_send_fin(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_fin_v1 *msg)
{
	struct zipc_send *send = zipc_send_lookup(engine, peer, msg->sender_xfer);

	if (!send) {
		zipc_log(engine, ZIPC_LOG_WARN, "fin ignored: no transfer %#x", msg->sender_xfer);
		return;
	}
	send->over = 1;
	send->status = zipc_fin_status(send, msg->status);
	if (!msg->status && send->start_ns && !send->measured) {
		send->measured = 1;
		zipc_policy_done(send->judge, send->nbytes, send->mode, send->start_ns, zipc_now_ns());
	}
	if (send->status)
		zipc_log(engine, ZIPC_LOG_WARN, "transfer %#x failed at the receiver: %s", send->id,
			 zipc_strerror(send->status));
	zipc_list_remove(&send->ready);
	zipc_send_unstage(send);
	zipc_send_settle(send);
}

/* ---- chunks */

void zipc_send_bulk_done(struct zipc_engine *engine, struct zipc_slot *slot, int status)
{
	struct zipc_send *send = slot->xfer;

	if (!--engine->wire_frames)
		engine->stats.wire_ns += zipc_tick(engine) - engine->wire_since_ns;
	zipc_pool_put(slot);
	if (!send)
		return;
	send->in_flight--;
	if (status)
		zipc_peer_lose(send->peer, ZIPC_ERR_NET);
	else
		zipc_send_settle(send);
}

/* Ends the transfer now: slots still with the network are left to themselves. */
void zipc_send_fail(struct zipc_send *send, int status)
{
	struct zipc_engine *engine = send->engine;
	size_t i;

	zipc_send_unstage(send);
	for (i = 0; send->in_flight && i < send->pool->total; i++)
		if (send->pool->slots[i].xfer == send)
			send->pool->slots[i].xfer = NULL;
	send->in_flight = 0;
	send->over = 1;
	send->status = status;
	zipc_list_remove(&send->ready);
	if (send->state == ZIPC_SEND_BEGUN)
		return; /* its owner drops or commits it */
	if (send->ctl.busy && !zipc_list_empty(&send->ctl.link)) { /* still queued: take it back */
		zipc_list_remove(&send->ctl.link);
		send->ctl.busy = 0;
		engine->ctl_pending--;
	}
	zipc_send_settle(send);
}

/* Encodes the next chunk into a slot, unless that was done already. 1: no slot; negative: it cannot be encoded. */
static int zipc_send_stage(struct zipc_engine *engine, struct zipc_send *send)
{
	size_t offset = (size_t)send->next * send->chunk;
	size_t n = send->nbytes - offset < send->chunk ? (size_t)(send->nbytes - offset) : send->chunk;
	struct zipc_slot *slot;
	uint64_t start;
	int ret;

	if (send->staged)
		return 0;
	if (send->accel) {
		send->staged = zipc_accel_take(send);
		return !send->staged;
	}
	slot = zipc_pool_get(&engine->send_pool, &send->peer->send_slots);
	if (!slot)
		return 1;
	start = zipc_tick(engine);
	ret = engine->dev_ops->encode(engine->dev, slot->buf, slot->pool->slot_bytes, send->iov, send->niov, offset, n,
				      send->dtype, engine->attr.codec, &slot->bytes);
	engine->stats.encode_ns += zipc_tick(engine) - start;
	if (ret) {
		zipc_pool_put(slot);
		return ret;
	}
	slot->chunk = send->next;
	send->staged = slot;
	return 0;
}

/* 1: sent, or the transfer failed; 0: nothing to do for now. */
static int zipc_send_chunk(struct zipc_engine *engine, struct zipc_send *send)
{
	struct zipc_peer *peer = send->peer;
	struct zipc_slot *slot;
	int ret = zipc_send_stage(engine, send);

	if (ret < 0) {
		zipc_log(engine, ZIPC_LOG_WARN, "transfer %#x: chunk %u cannot be encoded: %s", send->id, send->next,
			 zipc_strerror(ret));
		zipc_send_break(send, ret);
	}
	if (ret)
		return ret < 0;
	slot = send->staged;
	slot->xfer = send;
	ret = engine->net_ops->send_bulk(engine->net, peer->handle, zipc_bulk_tag(send->receiver_xfer, send->next), slot->buf,
					 slot->bytes, &slot->op);
	if (ret == ZIPC_ERR_AGAIN)
		return 0;
	if (ret) {
		zipc_log(engine, ZIPC_LOG_WARN, "transfer %#x: chunk %u not sent: %s", send->id, send->next, zipc_strerror(ret));
		zipc_peer_lose(peer, ret);
		return 1;
	}
	send->staged = NULL;
	ZIPC_COUNT(peer, wire_bytes, slot->bytes);
	if (!engine->wire_frames++)
		engine->wire_since_ns = zipc_tick(engine);
	send->in_flight++;
	if (++send->next == send->credit)
		zipc_list_remove(&send->ready);
	return 1;
}

int zipc_send_step(struct zipc_engine *engine)
{
	struct zipc_list *entry, *next;

	for (entry = engine->send_ready.next; entry != &engine->send_ready; entry = next) {
		next = entry->next;
		if (zipc_send_chunk(engine, zipc_container(entry, struct zipc_send, ready)))
			return 1;
	}
	return 0;
}
