/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inbound transfers.
 *
 *   RTS and placeholder arrive in any order -> matched by a receive -> chunks are granted as slots are free, oldest
 *   match first -> they arrive, are decoded into the buffer -> recv_done, FIN
 *
 * An unmatched transfer holds a record and no staging.
 */
#include <stdlib.h>
#include <string.h>

#include "zipc_accel_priv.h"

static struct zipc_recv **zipc_recv_bucket(struct zipc_engine *engine, uint64_t epoch, uint32_t sender_xfer)
{
	uint64_t h = (epoch ^ sender_xfer) * 0x9e3779b97f4a7c15u;

	return &engine->by_xfer[(h >> 32) % ZIPC_HASH];
}

struct zipc_recv *zipc_recv_lookup(struct zipc_engine *engine, uint64_t epoch, uint32_t sender_xfer)
{
	struct zipc_recv *recv = *zipc_recv_bucket(engine, epoch, sender_xfer);

	while (recv && (recv->epoch != epoch || recv->sender_xfer != sender_xfer))
		recv = recv->hash;
	return recv;
}

struct zipc_recv *zipc_recv_new(struct zipc_engine *engine, struct zipc_peer *peer)
{
	struct zipc_recv *recv;

	if (peer->nrecvs >= ZIPC_RECVS_PER_PEER)
		return NULL;
	recv = calloc(1, sizeof(*recv));
	if (!recv)
		return NULL;
	recv->engine = engine;
	recv->peer = peer;
	recv->id = engine->next_recv_id++;
	recv->pool = &engine->recv_pool;
	zipc_list_init(&recv->want);
	zipc_list_init(&recv->read);
	zipc_list_init(&recv->last);
	zipc_list_init(&recv->holder);
	zipc_list_init(&recv->arrived);
	zipc_list_append(&peer->recvs, &recv->link);
	peer->nrecvs++;
	engine->active++;
	return recv;
}

void zipc_recv_number(struct zipc_recv *recv, uint32_t sender_xfer)
{
	struct zipc_recv **bucket = zipc_recv_bucket(recv->engine, recv->peer->epoch, sender_xfer);

	recv->epoch = recv->peer->epoch;
	recv->sender_xfer = sender_xfer;
	recv->hashed = 1;
	recv->hash = *bucket;
	*bucket = recv;
}

struct zipc_recv *zipc_recv_create(struct zipc_engine *engine, struct zipc_peer *peer, uint32_t sender_xfer)
{
	struct zipc_recv *recv = zipc_recv_new(engine, peer);

	if (recv)
		zipc_recv_number(recv, sender_xfer);
	return recv;
}

/* No more chunks are to be granted. */
static void zipc_recv_unwant(struct zipc_recv *recv)
{
	zipc_list_remove(&recv->want);
	if (zipc_list_empty(&recv->peer->want))
		zipc_list_remove(&recv->peer->want_link);
}

void zipc_recv_start(struct zipc_recv *recv)
{
	struct zipc_peer *peer = recv->peer;

	recv->nwant = (uint32_t)((recv->keep + recv->chunk - 1) / recv->chunk);
	zipc_list_append(&peer->want, &recv->want);
	if (zipc_list_empty(&peer->want_link))
		zipc_list_append(&recv->engine->recv_want, &peer->want_link);
}

/* Frees the record; its links must be gone or about to go. */
void zipc_recv_close(struct zipc_recv *recv)
{
	struct zipc_recv **link = zipc_recv_bucket(recv->engine, recv->epoch, recv->sender_xfer);

	while (recv->hashed && *link != recv)
		link = &(*link)->hash;
	if (recv->hashed)
		*link = recv->hash;
	zipc_list_remove(&recv->read);
	zipc_recv_unwant(recv);
	zipc_list_remove(&recv->holder);
	zipc_list_remove(&recv->link);
	recv->peer->nrecvs--;
	recv->peer->nreads -= recv->kind == ZIPC_RECV_READ;
	recv->engine->active--;
	free(recv);
}

/* A late RTS must find the record, or it would look like a new transfer. */
void zipc_recv_settle(struct zipc_recv *recv)
{
	if (recv->fin_sent && recv->rts_seen && !recv->ctl.busy && !recv->in_flight && !recv->jobs)
		zipc_recv_close(recv);
}

void zipc_recv_ctl_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status)
{
	struct zipc_recv *recv = zipc_container(ctl, struct zipc_recv, ctl);

	(void)engine;
	if (status) /* the peer is lost, or was lost before */
		zipc_recv_settle(recv);
	else
		zipc_recv_announce(recv);
}

/* Says to the sender what it does not know yet: one message at a time, the latest state in it. */
void zipc_recv_announce(struct zipc_recv *recv)
{
	struct zipc_engine *engine = recv->engine;

	if (recv->ctl.busy || !zipc_list_empty(&recv->read)) /* a read that is still to be answered has nobody to speak to */
		return;
	if (recv->done && !recv->in_flight && !recv->fin_sent) {
		struct zipc_fin_v1 *fin = &recv->msg.fin;

		recv->fin_sent = 1;
		zipc_ctl_header(engine, &fin->hdr, ZIPC_CTL_FIN, sizeof(*fin));
		fin->sender_xfer = recv->sender_xfer;
		fin->status = recv->status;
		zipc_ctl_send(engine, &recv->ctl, recv->peer, fin, sizeof(*fin), zipc_recv_ctl_done);
	} else if (!recv->done && !recv->ending && recv->granted > recv->announced) {
		struct zipc_credit_v1 *credit = &recv->msg.credit;

		zipc_ctl_header(engine, &credit->hdr, ZIPC_CTL_CREDIT, sizeof(*credit));
		credit->sender_xfer = recv->sender_xfer;
		credit->receiver_xfer = recv->id;
		credit->first = recv->announced;
		credit->count = recv->granted - recv->announced;
		recv->announced = recv->granted;
		zipc_ctl_send(engine, &recv->ctl, recv->peer, credit, sizeof(*credit), zipc_recv_ctl_done);
	} else {
		zipc_recv_settle(recv);
	}
}

/* Tells whoever waits for it. */
static void zipc_recv_report(struct zipc_recv *recv)
{
	struct zipc_engine *engine = recv->engine;

	if (recv->kind == ZIPC_RECV_READ)
		zipc_read_over(recv);
	if (recv->discard)
		return;
	if (recv->kind == ZIPC_RECV_WRITE)
		engine->cb->rma_done(engine->ctx, recv->cookie, recv->status, recv->data, recv->rma_flags, recv->nbytes);
	else
		engine->cb->recv_done(engine->ctx, recv->cookie, recv->status, recv->keep, recv->nbytes);
}

/* Chunks from `first` on do not come: those that wait for decoding are dropped, and posted receives taken back. */
static void zipc_recv_take_back(struct zipc_recv *recv, uint32_t first)
{
	struct zipc_engine *engine = recv->engine;
	size_t i;

	for (i = 0; recv->in_flight && i < recv->pool->total; i++) {
		struct zipc_slot *slot = &recv->pool->slots[i];

		if (slot->xfer != recv || slot->coding || slot->chunk < first)
			continue;
		slot->xfer = NULL;
		recv->in_flight--;
		if (!zipc_list_empty(&slot->link)) { /* it waits for decoding, not for the network */
			zipc_list_remove(&slot->link);
			zipc_pool_put(slot);
		} else {
			engine->net_ops->cancel_recv(engine->net, &slot->op);
		}
	}
}

void zipc_recv_cancel(struct zipc_recv *recv)
{
	zipc_recv_take_back(recv, 0);
}

void zipc_recv_finish(struct zipc_recv *recv, int status)
{
	struct zipc_engine *engine = recv->engine;
	struct zipc_list *last;

	if (recv->done)
		return;
	zipc_recv_unwant(recv);
	if (recv->granted > recv->announced) /* nobody will hear that these are waited for */
		zipc_recv_take_back(recv, recv->announced);
	if (!recv->ending)
		recv->status = status;
	recv->ending = recv->jobs > 0;
	if (recv->ending) /* a device still writes to the buffer */
		return;
	recv->done = 1;
	status = recv->status;
	if (status && status != ZIPC_ERR_TRUNC)
		ZIPC_COUNT(recv->peer, errors, 1);
	if ((last = zipc_list_pop(&recv->last))) /* to be dropped */
		zipc_list_append(&engine->decode_queue, last);
	zipc_recv_report(recv);
	zipc_recv_announce(recv);
}

void zipc_recv_complete(struct zipc_recv *recv)
{
	ZIPC_COUNT(recv->peer, recvs, 1);
	ZIPC_COUNT(recv->peer, recv_bytes, recv->nbytes);
	zipc_recv_finish(recv, recv->keep < recv->nbytes && !recv->discard ? ZIPC_ERR_TRUNC : 0);
}

/* ---- chunks */

/* How granting went on. */
enum zipc_grant {
	ZIPC_GRANT_NEXT, /* all that this transfer may have for now: on to the next one */
	ZIPC_GRANT_PEER, /* nothing more for this peer */
	ZIPC_GRANT_LOST, /* the peer is lost, the transfer gone */
};

/* Staging for the next chunk. */
static struct zipc_slot *zipc_recv_slot(struct zipc_recv *recv)
{
	uint32_t n = 1;
	struct zipc_slot *slot;

	if (!recv->accel)
		return zipc_pool_get(recv->pool, &recv->peer->recv_slots);
	/* In a row with the one before, so that one job can decode both. */
	slot = zipc_pool_get_run(recv->pool, &recv->peer->accel_recv_slots, recv->last_slot, &n);
	if (slot)
		recv->last_slot = slot;
	return slot;
}

/* Posts receives for further chunks of one transfer. */
static enum zipc_grant zipc_recv_grant_one(struct zipc_engine *engine, struct zipc_recv *recv)
{
	struct zipc_peer *peer = recv->peer;

	while (recv->granted < recv->nwant && recv->in_flight < ZIPC_RECV_WINDOW) {
		struct zipc_slot *slot = zipc_recv_slot(recv);
		int ret;

		if (!slot) /* another kind of memory has staging of its own */
			return zipc_list_empty(&engine->accels) ? ZIPC_GRANT_PEER : ZIPC_GRANT_NEXT;
		slot->xfer = recv;
		slot->chunk = recv->granted;
		ret = engine->net_ops->recv_bulk(engine->net, peer->handle, zipc_bulk_tag(recv->id, recv->granted), slot->buf,
						 slot->pool->slot_bytes, &slot->op);
		if (!ret) {
			recv->granted++;
			recv->in_flight++;
			continue;
		}
		zipc_pool_put(slot);
		if (ret == ZIPC_ERR_AGAIN)
			return ZIPC_GRANT_PEER;
		zipc_log(engine, ZIPC_LOG_WARN, "transfer %#x: chunk %u cannot be received: %s", recv->sender_xfer,
			 recv->granted, zipc_strerror(ret));
		zipc_peer_lose(peer, ret);
		return ZIPC_GRANT_LOST;
	}
	return ZIPC_GRANT_NEXT;
}

/* Oldest match first. */
static void zipc_recv_grant_peer(struct zipc_engine *engine, struct zipc_peer *peer)
{
	enum zipc_grant how = ZIPC_GRANT_NEXT;
	struct zipc_list *entry, *next;

	for (entry = peer->want.next; entry != &peer->want && how == ZIPC_GRANT_NEXT; entry = next) {
		struct zipc_recv *recv = zipc_container(entry, struct zipc_recv, want);

		next = entry->next;
		how = zipc_recv_grant_one(engine, recv);
		if (how == ZIPC_GRANT_LOST)
			return;
		if (recv->granted == recv->nwant)
			zipc_recv_unwant(recv);
		if (recv->granted > recv->announced)
			zipc_recv_announce(recv);
	}
}

/* Peers take turns, so that one with many transfers does not keep the slots from the others. */
void zipc_recv_grant(struct zipc_engine *engine)
{
	struct zipc_list *last = engine->recv_want.prev, *entry;

	if (zipc_list_empty(&engine->recv_want))
		return;
	do {
		if (engine->recv_pool.in_use >= zipc_pool_usable(&engine->recv_pool) && zipc_list_empty(&engine->accels))
			return;
		entry = zipc_list_pop(&engine->recv_want);
		zipc_list_append(&engine->recv_want, entry);
		zipc_recv_grant_peer(engine, zipc_container(entry, struct zipc_peer, want_link));
	} while (entry != last && !zipc_list_empty(&engine->recv_want));
}

void zipc_recv_bulk_done(struct zipc_engine *engine, struct zipc_slot *slot, int status, size_t bytes)
{
	struct zipc_recv *recv = slot->xfer;

	if (!recv) {
		zipc_pool_put(slot);
		return;
	}
	recv->peer->heard_ms = zipc_now_ms();
	if (status == ZIPC_ERR_CANCELED) /* not by us: the core has lost the connection */
		status = ZIPC_ERR_PEER;
	if (status || recv->done) {
		zipc_pool_put(slot);
		recv->in_flight--;
		if (status && !recv->done)
			zipc_recv_fail(recv, status);
		else
			zipc_recv_announce(recv);
		return;
	}
	slot->bytes = bytes;
	if ((recv->rma_flags & ZIPC_RMA_POLL) && slot->chunk == recv->nwant - 1 && recv->decoded < slot->chunk)
		zipc_list_append(&recv->last, &slot->link);
	else if (recv->accel)
		zipc_accel_arrived(recv, slot);
	else
		zipc_list_append(&engine->decode_queue, &slot->link);
}

/* Ends the transfer now, and tells the sender once nothing is in flight. */
void zipc_recv_fail(struct zipc_recv *recv, int status)
{
	if (recv->matched && !recv->done)
		zipc_recv_finish(recv, status);
}

void zipc_recv_lost(struct zipc_recv *recv, int status)
{
	if (recv->ctl.busy && !zipc_list_empty(&recv->ctl.link)) {
		zipc_list_remove(&recv->ctl.link);
		recv->ctl.busy = 0;
		recv->engine->ctl_pending--;
	}
	zipc_recv_cancel(recv);
	if (recv->begun)
		return; /* its owner drops or commits it */
	/* Nobody is left to tell. */
	zipc_list_remove(&recv->read);
	recv->fin_sent = 1;
	recv->rts_seen = 1;
	if (!recv->matched) {
		/* Its placeholder makes a new record, should it still be matched. The application may hold on to a claimed one. */
		if (!recv->claimed)
			zipc_recv_close(recv);
	} else if (!recv->done) {
		zipc_recv_finish(recv, status);
	} else {
		zipc_recv_settle(recv);
	}
}

void zipc_recvs_leave(struct zipc_peer *peer)
{
	struct zipc_list *entry, *next;

	for (entry = peer->recvs.next; entry != &peer->recvs; entry = next) {
		struct zipc_recv *recv = zipc_container(entry, struct zipc_recv, link);

		next = entry->next;
		if (recv->done || recv->begun)
			continue;
		zipc_recv_cancel(recv);
		if (recv->matched)
			zipc_recv_fail(recv, ZIPC_ERR_CANCELED);
		else
			zipc_recv_refuse(recv, ZIPC_ERR_CANCELED);
	}
}

void zipc_recv_abort(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_abort_v1 *msg)
{
	struct zipc_recv *recv;

	if (!msg->scope) {
		zipc_log(engine, ZIPC_LOG_WARN, "the peer gave up all transfers");
		zipc_peer_lose(peer, ZIPC_ERR_PEER);
		return;
	}
	recv = zipc_recv_lookup(engine, peer->epoch, msg->sender_xfer);
	if (!recv) {
		zipc_log(engine, ZIPC_LOG_INFO, "abort ignored: no transfer %#x", msg->sender_xfer);
		return;
	}
	zipc_log(engine, ZIPC_LOG_WARN, "transfer %#x was given up by its sender", msg->sender_xfer);
	/* A request to send that did not come before this does not come any more. */
	recv->rts_seen = recv->aborted = 1;
	zipc_recv_cancel(recv);
	if (recv->matched && recv->done)
		zipc_recv_announce(recv);
	else
		zipc_recv_fail(recv, ZIPC_ERR_PEER);
}

/* Decodes what a slot holds. */
static int zipc_recv_decode(struct zipc_recv *recv, const struct zipc_slot *slot)
{
	struct zipc_engine *engine = recv->engine;
	size_t offset = (size_t)slot->chunk * recv->chunk;
	size_t n = recv->nbytes - offset < recv->chunk ? (size_t)(recv->nbytes - offset) : recv->chunk;
	size_t keep = recv->keep - offset < n ? (size_t)(recv->keep - offset) : n;

	ZIPC_COUNT(recv->peer, recv_wire_bytes, slot->bytes);
	if ((recv->rma_flags & ZIPC_RMA_POLL) && slot->chunk == recv->nwant - 1)
		return zipc_rma_decode_last(recv, offset, n, slot->buf, slot->bytes);
	return engine->dev_ops->decode(engine->dev, recv->iov, recv->niov, offset, n, keep, slot->buf, slot->bytes);
}

/* One chunk more is decoded. */
static void zipc_recv_step_done(struct zipc_recv *recv)
{
	struct zipc_list *last;

	if (++recv->decoded == recv->nwant) {
		zipc_recv_complete(recv);
		return;
	}
	if (recv->decoded == recv->nwant - 1 && (last = zipc_list_pop(&recv->last)))
		zipc_list_append(&recv->engine->decode_queue, last);
	zipc_recv_announce(recv);
}

void zipc_recv_decoded(struct zipc_recv *recv, uint32_t n, int status)
{
	recv->decoded += n;
	if (recv->ending)
		zipc_recv_finish(recv, recv->status);
	else if (status && !recv->done)
		zipc_recv_fail(recv, status);
	else if (!recv->done && n && recv->decoded == recv->nwant)
		zipc_recv_complete(recv);
	else
		zipc_recv_announce(recv);
}

int zipc_recv_step(struct zipc_engine *engine)
{
	struct zipc_list *entry = zipc_list_pop(&engine->decode_queue);
	struct zipc_slot *slot;
	struct zipc_recv *recv;
	uint64_t start;
	int ret = 0;

	if (!entry)
		return 0;
	slot = zipc_container(entry, struct zipc_slot, link);
	recv = slot->xfer;
	recv->in_flight--;
	if (!recv->done) {
		start = zipc_tick(engine);
		ret = zipc_recv_decode(recv, slot);
		engine->stats.decode_ns += zipc_tick(engine) - start;
	}
	zipc_pool_put(slot);
	if (ret) {
		zipc_log(engine, ZIPC_LOG_WARN, "transfer %#x: chunk %u is not a valid frame: %s", recv->sender_xfer, slot->chunk,
			 zipc_strerror(ret));
		zipc_recv_fail(recv, ret);
	} else if (!recv->done) {
		zipc_recv_step_done(recv);
	} else {
		zipc_recv_announce(recv);
	}
	return 1;
}
