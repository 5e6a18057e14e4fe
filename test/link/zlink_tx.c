/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending side of a link. A slot is reserved, its data copied, and when the copy has come it is stamped and published, in order.
 *
 *     queue --> packet slot --> published --> on the wire (leaving) --> completion, or wait for the peer's answer
 *     bulk  --> chunk slots --> published -->        "
 */
#include <stdlib.h>
#include <string.h>

#include "zlink.h"

static struct zlink_tx *zlink_tx_find(struct zlink_domain *domain, const char *to)
{
	struct zipc_list *entry;

	for (entry = domain->txs.next; entry != &domain->txs; entry = entry->next) {
		struct zlink_tx *tx = zlink_of(entry, zlink_tx, link);

		if (!tx->dead && !strcmp(tx->to, to))
			return tx;
	}
	return NULL;
}

int zlink_tx_get(struct zlink_domain *domain, const char *to, struct zlink_tx **tx_p)
{
	struct zlink_tx *tx = zlink_tx_find(domain, to);
	int ret;

	*tx_p = tx;
	if (tx)
		return 0;
	tx = calloc(1, sizeof(*tx));
	if (!tx)
		return -FI_ENOMEM;
	tx->domain = domain;
	strcpy(tx->to, to);
	zipc_list_init(&tx->queue);
	zipc_list_init(&tx->bulk);
	zipc_list_init(&tx->leaving[0]);
	zipc_list_init(&tx->leaving[1]);
	ret = zlink_map_create(domain->id, to, &tx->map);
	if (ret)
		goto err_free;
	ret = zlink_copier_pin(domain->copier, tx->map.shm, tx->map.bytes);
	if (ret)
		goto err_unmap;
	ret = zlink_call(domain->id, to);
	if (ret)
		goto err_unpin;
	zipc_list_append(&domain->txs, &tx->link);
	*tx_p = tx;
	return 0;

err_unpin:
	zlink_copier_unpin(domain->copier, tx->map.shm);
err_unmap:
	zlink_map_close(&tx->map);
	zlink_map_unlink(domain->id, to);
err_free:
	free(tx);
	return ret;
}

void zlink_tx_post(struct zlink_tx *tx, struct zlink_op *op)
{
	op->tx = tx;
	op->pkt.op = op->pkt.type == ZLINK_PKT_ABORT ? op->pkt.op : op->id;
	zipc_list_append(&tx->queue, &op->link);
}

void zlink_tx_bulk(struct zlink_tx *tx, struct zlink_op *op)
{
	op->tx = tx;
	zipc_list_remove(&op->link);
	zipc_list_append(&tx->bulk, &op->link);
}

void zlink_tx_control(struct zlink_domain *domain, struct zlink_rx *rx, uint32_t type, uint64_t op_id, uint64_t peer_op, uint64_t len,
		      int status)
{
	struct zlink_op *op;
	struct zlink_tx *tx;

	if (rx->dying || zlink_tx_get(domain, rx->from, &tx))
		return; /* it is gone: nobody waits */
	op = zlink_op_get(domain, ZLINK_CONTROL, NULL);
	if (!op) {
		ZLINK_WARN(EP_CTRL, "no memory: a peer is not answered\n");
		return;
	}
	op->pkt.type = type;
	op->pkt.peer_op = peer_op;
	op->pkt.len = len;
	op->pkt.status = status;
	zlink_tx_post(tx, op);
	op->pkt.op = op_id;
}

/* ---- the wire */

static uint64_t zlink_wire_time(size_t bytes)
{
	return zlink_param.rate > 0 ? (uint64_t)((double)bytes / zlink_param.rate) : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* When the wire has taken a packet: it goes between chunks, which then come later. */
static uint64_t zlink_wire_pkt(struct zlink_tx *tx, size_t bytes, uint64_t now)
{
	uint64_t takes = zlink_wire_time(bytes);

	tx->pkt_wire = later(tx->pkt_wire, now) + takes;
	tx->chunk_wire = later(tx->chunk_wire, now) + takes;
	return tx->pkt_wire;
}

static uint64_t zlink_wire_chunk(struct zlink_tx *tx, size_t bytes, uint64_t now)
{
	tx->chunk_wire = later(tx->chunk_wire, now) + zlink_wire_time(bytes);
	return tx->chunk_wire;
}

static void zlink_tx_leave(struct zlink_tx *tx, struct zlink_op *op, int lane, uint64_t when)
{
	op->depart_ns = when;
	zipc_list_remove(&op->link);
	zipc_list_append(&tx->leaving[lane], &op->link);
}

static void zlink_tx_left(struct zlink_tx *tx, uint64_t now)
{
	int lane;

	for (lane = 0; lane < 2; lane++) {
		while (!zipc_list_empty(&tx->leaving[lane])) {
			struct zlink_op *op = zlink_of(tx->leaving[lane].next, zlink_op, link);

			if (op->depart_ns > now)
				break;
			zlink_op_finish(tx->domain, op, 0);
		}
	}
}

/* ---- packets */

/* What comes after its packet is on the wire. */
static void zlink_pkt_sent(struct zlink_tx *tx, struct zlink_op *op, uint64_t number, uint64_t when)
{
	if (op->over)
		return;
	if (op->kind == ZLINK_CONTROL)
		zlink_op_finish(tx->domain, op, 0);
	else if (op->pkt.type == ZLINK_PKT_EAGER && !(op->pkt.flags & ZLINK_F_ACK))
		zlink_tx_leave(tx, op, 0, when);
	else if (op->kind == ZLINK_WRITE && !(op->pkt.flags & ZLINK_F_INLINE)) {
		op->after_pkt = number;
		zlink_tx_bulk(tx, op);
	}
}

static bool zlink_pkt_has_data(const struct zlink_pkt *pkt)
{
	return pkt->type == ZLINK_PKT_EAGER || (pkt->type == ZLINK_PKT_WRITE && pkt->flags & ZLINK_F_INLINE);
}

static int zlink_pkt_start(struct zlink_tx *tx, struct zlink_op *op)
{
	struct zlink_slot *slot = &tx->pkt_slot[tx->pkt_next % ZLINK_PKTS];
	struct zlink_pkt *pkt = zlink_map_pkt(&tx->map, tx->pkt_next);
	size_t inside = zlink_pkt_has_data(&op->pkt) ? op->len : 0;
	int ret = 0;

	memcpy(pkt, &op->pkt, offsetof(struct zlink_pkt, src));
	if (op->pkt.type == ZLINK_PKT_EAGER || op->pkt.type == ZLINK_PKT_RTS)
		strcpy(pkt->src, op->pkt.src);
	else
		memcpy(pkt->rma, op->pkt.rma, sizeof(pkt->rma[0]) * op->pkt.count);
	slot->ticket.dev = NULL;
	if (inside)
		ret = zlink_op_copy(op, ZLINK_OUT, 0, pkt + 1, inside, &slot->ticket);
	if (ret)
		return ret;
	slot->op = op;
	slot->bytes = ZLINK_HEADER + inside;
	op->inflight++;
	tx->pkt_next++;
	return 0;
}

static void zlink_pkts_start(struct zlink_tx *tx)
{
	uint64_t cons = atomic_load_explicit(&tx->map.shm->pkts.cons, memory_order_acquire);
	struct zlink_op *op;

	while (!zipc_list_empty(&tx->queue) && tx->pkt_next - cons < ZLINK_PKTS && zlink_copier_room(tx->domain->copier)) {
		op = zlink_of(zipc_list_pop(&tx->queue), zlink_op, link);
		if (zlink_pkt_start(tx, op))
			zlink_op_finish(tx->domain, op, FI_EIO);
	}
}

static void zlink_pkts_publish(struct zlink_tx *tx)
{
	struct zlink_lane *lane = &tx->map.shm->pkts;
	uint64_t i = atomic_load_explicit(&lane->prod, memory_order_relaxed), when;

	for (; i < tx->pkt_next; i++) {
		struct zlink_slot *slot = &tx->pkt_slot[i % ZLINK_PKTS];
		struct zlink_op *op = slot->op;
		int ret = zlink_ticket_test(&slot->ticket);

		if (!ret)
			break;
		if (ret < 0)
			zlink_op_finish(tx->domain, op, FI_EIO);
		when = zlink_wire_pkt(tx, slot->bytes, zlink_now());
		zlink_map_pkt(&tx->map, i)->visible_ns = when + zlink_param.latency_ns;
		if (ret < 0) /* the peer passes over it */
			zlink_map_pkt(&tx->map, i)->type = 0;
		atomic_store_explicit(&lane->prod, i + 1, memory_order_release);
		zlink_pkt_sent(tx, op, i + 1, when);
		zlink_op_release(tx->domain, op);
	}
}

/* ---- chunks */

static int zlink_chunk_start(struct zlink_tx *tx, struct zlink_op *op)
{
	struct zlink_slot *slot = &tx->chunk_slot[tx->chunk_next % tx->map.depth];
	struct zlink_chunk *chunk = &tx->map.shm->chunk[tx->chunk_next % tx->map.depth];
	size_t n = op->total - op->issued < tx->map.chunk_bytes ? op->total - op->issued : tx->map.chunk_bytes;
	int ret;

	ret = zlink_op_copy(op, ZLINK_OUT, op->issued, zlink_map_chunk(&tx->map, tx->chunk_next), n, &slot->ticket);
	if (ret)
		return ret;
	chunk->reading = op->kind == ZLINK_TARGET_READ;
	chunk->op = chunk->reading ? op->peer_op : op->id;
	chunk->after_pkt = op->after_pkt;
	chunk->offset = op->issued;
	chunk->len = n;
	slot->op = op;
	slot->bytes = n;
	op->inflight++;
	op->issued += n;
	tx->chunk_next++;
	return 0;
}

static void zlink_chunk_sent(struct zlink_tx *tx, struct zlink_op *op, uint64_t when)
{
	if (op->over || op->moved < op->total)
		return;
	/* A write waits for its answer, and so does a send that asked for one. */
	if (op->kind == ZLINK_TARGET_READ || (op->kind == ZLINK_SEND && !(op->pkt.flags & ZLINK_F_ACK)))
		zlink_tx_leave(tx, op, 1, when);
}

static void zlink_chunks_publish(struct zlink_tx *tx)
{
	struct zlink_lane *lane = &tx->map.shm->chunks;
	uint64_t i = atomic_load_explicit(&lane->prod, memory_order_relaxed), when;

	for (; i < tx->chunk_next; i++) {
		struct zlink_slot *slot = &tx->chunk_slot[i % tx->map.depth];
		struct zlink_chunk *chunk = &tx->map.shm->chunk[i % tx->map.depth];
		struct zlink_op *op = slot->op;
		int ret = zlink_ticket_test(&slot->ticket);

		if (!ret)
			break;
		if (ret < 0) {
			chunk->len = 0;
			zlink_op_finish(tx->domain, op, FI_EIO);
		}
		when = zlink_wire_chunk(tx, slot->bytes, zlink_now());
		chunk->visible_ns = when + zlink_param.latency_ns;
		atomic_store_explicit(&lane->prod, i + 1, memory_order_release);
		op->moved += slot->bytes;
		zlink_chunk_sent(tx, op, when);
		zlink_op_release(tx->domain, op);
	}
}

static void zlink_chunks_start(struct zlink_tx *tx)
{
	uint64_t cons = atomic_load_explicit(&tx->map.shm->chunks.cons, memory_order_acquire);

	while (!zipc_list_empty(&tx->bulk) && tx->chunk_next - cons < tx->map.depth && zlink_copier_room(tx->domain->copier)) {
		struct zlink_op *op = zlink_of(tx->bulk.next, zlink_op, link);

		if (zlink_chunk_start(tx, op)) {
			zlink_op_finish(tx->domain, op, FI_EIO);
			continue;
		}
		if (op->issued == op->total)
			zipc_list_remove(&op->link);
		zlink_chunks_publish(tx); /* host memory is copied by now: it need not wait for the next */
	}
}

/* ---- life */

void zlink_tx_progress(struct zlink_tx *tx, uint64_t now)
{
	if (!tx->dead)
		zlink_pkts_start(tx);
	zlink_pkts_publish(tx);
	if (!tx->dead)
		zlink_chunks_start(tx);
	zlink_chunks_publish(tx);
	zlink_tx_left(tx, now);
}

/* The node is gone. */
void zlink_tx_fail(struct zlink_tx *tx, int err)
{
	struct zipc_list *entry;
	size_t i;

	if (tx->dead)
		return;
	tx->dead = true;
	for (entry = tx->domain->avs.next; entry != &tx->domain->avs; entry = entry->next) {
		struct zlink_av *av = zlink_of(entry, zlink_av, link);

		for (i = 0; i < av->count; i++)
			if (av->entry[i].tx == tx)
				av->entry[i].tx = NULL;
	}
	zlink_op_end_all(tx->domain, NULL, tx, NULL, NULL, err);
}

/* Whether everything that was begun is published. */
bool zlink_tx_idle(const struct zlink_tx *tx)
{
	return (tx->dead || (zipc_list_empty(&tx->queue) && zipc_list_empty(&tx->bulk))) &&
	       atomic_load_explicit(&tx->map.shm->pkts.prod, memory_order_relaxed) == tx->pkt_next &&
	       atomic_load_explicit(&tx->map.shm->chunks.prod, memory_order_relaxed) == tx->chunk_next;
}

void zlink_tx_close(struct zlink_tx *tx)
{
	struct zlink_domain *domain = tx->domain;

	zlink_tx_fail(tx, FI_ECONNABORTED);
	atomic_store(&tx->map.shm->tx_closed, 1);
	zipc_list_remove(&tx->link);
	zlink_copier_unpin(domain->copier, tx->map.shm);
	/* Who has not seen the link yet may still want what is in it. */
	if (!atomic_load(&tx->map.shm->attached) && !zlink_alive(tx->to))
		zlink_map_unlink(domain->id, tx->to);
	zlink_map_close(&tx->map);
	free(tx);
}
