/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiving side of a link: looks at what has become visible, copies it, gives slots back in order. */
#include <stdlib.h>
#include <string.h>

#include "zlink.h"

void zlink_rx_open(struct zlink_domain *domain, const char *from)
{
	struct zlink_rx *rx = calloc(1, sizeof(*rx));

	if (!rx || zlink_map_attach(from, domain->id, &rx->map)) {
		free(rx);
		return; /* who called is gone again */
	}
	rx->domain = domain;
	strcpy(rx->from, from);
	zipc_list_init(&rx->active);
	if (zlink_copier_pin(domain->copier, rx->map.shm, rx->map.bytes)) {
		atomic_store(&rx->map.shm->rx_closed, 1); /* the peer's operations end with an error */
		zlink_map_close(&rx->map);
		free(rx);
		return;
	}
	zipc_list_append(&domain->rxs, &rx->link);
}

/* ---- slots */

/* A copy into the op's memory has come, or failed. */
static void zlink_landed(struct zlink_rx *rx, struct zlink_op *op, size_t bytes, int ret)
{
	op->moved += bytes;
	if (ret < 0)
		zlink_op_finish(rx->domain, op, FI_EIO);
	else if (op->moved == op->total)
		zlink_op_finish(rx->domain, op, 0);
	zlink_op_release(rx->domain, op);
}

/* Gives back slots from the oldest on, as far as their copies have come. */
static void zlink_free_slots(struct zlink_rx *rx, struct zlink_lane *lane, uint64_t next, struct zlink_slot *slots, size_t count)
{
	uint64_t i = atomic_load_explicit(&lane->cons, memory_order_relaxed);
	int ret;

	for (; i < next; i++) {
		struct zlink_slot *slot = &slots[i % count];

		if (slot->op) {
			ret = zlink_ticket_test(&slot->ticket);
			if (!ret)
				break;
			zlink_landed(rx, slot->op, slot->bytes, ret);
			slot->op = NULL;
		}
		atomic_store_explicit(&lane->cons, i + 1, memory_order_release);
	}
}

/* Data in a slot goes to the op's memory. */
static void zlink_land(struct zlink_rx *rx, struct zlink_slot *slot, struct zlink_op *op, size_t offset, void *from, size_t bytes)
{
	op->inflight++;
	slot->bytes = bytes;
	if (zlink_op_copy(op, ZLINK_IN, offset, from, bytes, &slot->ticket)) {
		zlink_op_finish(rx->domain, op, FI_EIO);
		zlink_op_release(rx->domain, op);
		return;
	}
	slot->op = op;
}

/* ---- packets */

static struct zlink_op *zlink_rx_op(struct zlink_rx *rx, uint64_t peer_op)
{
	struct zipc_list *entry;

	for (entry = rx->active.next; entry != &rx->active; entry = entry->next) {
		struct zlink_op *op = zlink_of(entry, zlink_op, link);

		if (op->peer_op == peer_op)
			return op;
	}
	return NULL;
}

/* Fills in where the target's data is; a status for the initiator. */
static int zlink_rma_open(struct zlink_rx *rx, struct zlink_op *op, const struct zlink_pkt *pkt, uint64_t access)
{
	struct fi_rma_iov seg;
	struct zlink_mr *mr;
	uint64_t at;
	size_t i, n = pkt->count;

	if (!n || n > ZLINK_RMA_IOV)
		return FI_EINVAL;
	for (i = 0; i < n; i++) {
		memcpy(&seg, &pkt->rma[i], sizeof(seg)); /* once: the peer may change it */
		mr = zlink_mr_find(rx->domain, seg.key);
		if (!mr)
			return FI_ENOKEY;
		if (!(mr->access & access))
			return FI_EACCES;
		at = seg.addr - mr->offset;
		if (at > mr->len || seg.len > mr->len - at)
			return FI_EINVAL;
		if (i && mr->dev != op->dev)
			return FI_EOPNOTSUPP;
		op->dev = mr->dev;
		op->mr[i] = mr;
		op->iov[i] = (struct iovec){ mr->base + at, seg.len };
		op->len += seg.len;
	}
	op->niov = n;
	op->total = op->len;
	return op->total == pkt->len ? 0 : FI_EINVAL;
}

static void zlink_rx_rma(struct zlink_rx *rx, struct zlink_slot *slot, struct zlink_pkt *pkt)
{
	bool write = pkt->type == ZLINK_PKT_WRITE;
	struct zlink_ep *ep = zlink_ep_find(rx->domain, pkt->dst_ep);
	struct zlink_op *op;
	struct zlink_tx *tx;
	uint64_t peer_op = pkt->op;
	int status;

	op = ep ? zlink_op_get(rx->domain, write ? ZLINK_TARGET_WRITE : ZLINK_TARGET_READ, ep) : NULL;
	if (!op) {
		zlink_tx_control(rx->domain, rx, ZLINK_PKT_ACK, 0, peer_op, 0, ep ? FI_ENOMEM : FI_EHOSTUNREACH);
		return;
	}
	op->rx = rx;
	op->peer_op = peer_op;
	op->pkt.flags = pkt->flags;
	op->data = pkt->data;
	status = zlink_rma_open(rx, op, pkt, write ? FI_REMOTE_WRITE : FI_REMOTE_READ);
	if (status) {
		ZLINK_INFO(EP_DATA, "remote access refused: %s\n", fi_strerror(status));
		zlink_op_finish(rx->domain, op, status);
	} else if (!op->total && write) {
		zlink_op_finish(rx->domain, op, 0);
	} else if (write && pkt->flags & ZLINK_F_INLINE && op->total <= rx->map.eager) {
		zlink_land(rx, slot, op, 0, pkt + 1, op->total);
	} else if (write) {
		zipc_list_append(&rx->active, &op->link);
	} else if (zlink_tx_get(rx->domain, rx->from, &tx)) {
		zlink_op_finish(rx->domain, op, FI_EHOSTUNREACH);
	} else if (!op->total) { /* an answer without data */
		op->err = 0;
		zlink_tx_control(rx->domain, rx, ZLINK_PKT_ACK, 0, peer_op, 0, 0);
		zlink_op_finish(rx->domain, op, 0);
	} else {
		zlink_tx_bulk(tx, op);
	}
}

/* The receiver of a large send is ready. */
static void zlink_rx_cts(struct zlink_rx *rx, const struct zlink_pkt *pkt)
{
	struct zlink_op *op = zlink_op_find(rx->domain, pkt->peer_op);
	uint64_t want = pkt->len;

	if (!op || op->kind != ZLINK_SEND || !op->tx || strcmp(op->tx->to, rx->from) || op->pkt.type != ZLINK_PKT_RTS || op->issued)
		return;
	op->total = want < op->len ? want : op->len;
	if (op->total)
		zlink_tx_bulk(op->tx, op);
	else if (!(op->pkt.flags & ZLINK_F_ACK))
		zlink_op_finish(rx->domain, op, 0);
}

static void zlink_rx_ack(struct zlink_rx *rx, const struct zlink_pkt *pkt)
{
	struct zlink_op *op = zlink_op_find(rx->domain, pkt->peer_op);
	int status = pkt->status;

	if (op && (op->kind == ZLINK_SEND || op->kind == ZLINK_WRITE || op->kind == ZLINK_READ) && op->tx &&
	    !strcmp(op->tx->to, rx->from))
		zlink_op_finish(rx->domain, op, status < 0 ? FI_EIO : status);
}

static void zlink_rx_abort(struct zlink_rx *rx, uint64_t peer_op)
{
	struct zlink_op *op = zlink_rx_op(rx, peer_op);

	if (op)
		zlink_op_finish(rx->domain, op, FI_ECONNABORTED);
	else
		zlink_match_abort(rx, peer_op);
}

static void zlink_rx_message(struct zlink_rx *rx, struct zlink_slot *slot, struct zlink_pkt *pkt)
{
	struct zlink_ep *ep = zlink_ep_find(rx->domain, pkt->dst_ep);
	struct zlink_op *op;

	pkt->src[ZLINK_NAME_MAX - 1] = 0;
	if (!ep) {
		zlink_tx_control(rx->domain, rx, ZLINK_PKT_ACK, 0, pkt->op, 0, FI_EHOSTUNREACH);
		return;
	}
	if (pkt->type == ZLINK_PKT_EAGER && pkt->len > rx->map.eager)
		pkt->len = rx->map.eager;
	op = zlink_match_arrived(rx, ep, pkt, pkt + 1);
	if (op && op->total)
		zlink_land(rx, slot, op, 0, pkt + 1, op->total);
	else if (op)
		zlink_op_finish(rx->domain, op, 0);
}

static void zlink_rx_pkt(struct zlink_rx *rx, struct zlink_slot *slot, struct zlink_pkt *pkt)
{
	slot->op = NULL;
	switch (pkt->type) {
	case ZLINK_PKT_EAGER:
	case ZLINK_PKT_RTS:
		zlink_rx_message(rx, slot, pkt);
		break;
	case ZLINK_PKT_CTS:
		zlink_rx_cts(rx, pkt);
		break;
	case ZLINK_PKT_WRITE:
	case ZLINK_PKT_READ:
		zlink_rx_rma(rx, slot, pkt);
		break;
	case ZLINK_PKT_ACK:
		zlink_rx_ack(rx, pkt);
		break;
	case ZLINK_PKT_ABORT:
		zlink_rx_abort(rx, pkt->op);
		break;
	default:
		break;
	}
}

static void zlink_rx_pkts(struct zlink_rx *rx, uint64_t now)
{
	struct zlink_lane *lane = &rx->map.shm->pkts;
	uint64_t prod = atomic_load_explicit(&lane->prod, memory_order_acquire);
	uint64_t cons = atomic_load_explicit(&lane->cons, memory_order_relaxed);

	while (rx->pkt_next < prod && rx->pkt_next - cons < ZLINK_PKTS) {
		struct zlink_pkt *pkt = zlink_map_pkt(&rx->map, rx->pkt_next);

		if (pkt->visible_ns > now || !zlink_copier_room(rx->domain->copier))
			break;
		zlink_rx_pkt(rx, &rx->pkt_slot[rx->pkt_next % ZLINK_PKTS], pkt);
		rx->pkt_next++;
	}
	zlink_free_slots(rx, lane, rx->pkt_next, rx->pkt_slot, ZLINK_PKTS);
}

/* ---- chunks */

static void zlink_rx_chunk(struct zlink_rx *rx, struct zlink_slot *slot, const struct zlink_chunk *shared, char *data)
{
	struct zlink_chunk chunk = *shared;
	struct zlink_op *op;

	slot->op = NULL;
	if (chunk.reading) {
		op = zlink_op_find(rx->domain, chunk.op);
		if (op && (op->kind != ZLINK_READ || !op->tx || strcmp(op->tx->to, rx->from)))
			op = NULL;
	} else {
		op = zlink_rx_op(rx, chunk.op);
	}
	if (!op || !chunk.len) /* it was given up meanwhile */
		return;
	if (chunk.len > rx->map.chunk_bytes || chunk.offset > op->total || chunk.len > op->total - chunk.offset) {
		ZLINK_WARN(EP_DATA, "a chunk does not fit its message\n");
		zlink_op_finish(rx->domain, op, FI_EIO);
		return;
	}
	zlink_land(rx, slot, op, chunk.offset, data, chunk.len);
}

static void zlink_rx_chunks(struct zlink_rx *rx, uint64_t now)
{
	struct zlink_lane *lane = &rx->map.shm->chunks;
	uint64_t prod = atomic_load_explicit(&lane->prod, memory_order_acquire);
	uint64_t cons = atomic_load_explicit(&lane->cons, memory_order_relaxed);

	while (rx->chunk_next < prod && rx->chunk_next - cons < rx->map.depth) {
		struct zlink_chunk *chunk = &rx->map.shm->chunk[rx->chunk_next % rx->map.depth];

		if (chunk->visible_ns > now || chunk->after_pkt > rx->pkt_next || !zlink_copier_room(rx->domain->copier))
			break;
		zlink_rx_chunk(rx, &rx->chunk_slot[rx->chunk_next % rx->map.depth], chunk, zlink_map_chunk(&rx->map, rx->chunk_next));
		rx->chunk_next++;
	}
	zlink_free_slots(rx, lane, rx->chunk_next, rx->chunk_slot, rx->map.depth);
}

/* ---- life */

static bool zlink_rx_drained(const struct zlink_rx *rx)
{
	const struct zlink_link_shm *shm = rx->map.shm;

	return atomic_load(&shm->pkts.cons) == atomic_load(&shm->pkts.prod) &&
	       atomic_load(&shm->chunks.cons) == atomic_load(&shm->chunks.prod);
}

void zlink_rx_progress(struct zlink_rx *rx, uint64_t now)
{
	/* Looked at before the lanes: what was published before it closed is then seen. */
	bool closed = rx->dying || atomic_load_explicit(&rx->map.shm->tx_closed, memory_order_acquire);

	zlink_rx_pkts(rx, now);
	zlink_rx_chunks(rx, now);
	if (closed && zlink_rx_drained(rx))
		zlink_rx_close(rx);
}

/* Every copy into a slot's op has come, or the op does not care: waited for here, since the memory goes. */
static void zlink_rx_settle(struct zlink_rx *rx)
{
	uint64_t end = zlink_now() + 1000000000;

	while ((atomic_load(&rx->map.shm->pkts.cons) < rx->pkt_next || atomic_load(&rx->map.shm->chunks.cons) < rx->chunk_next) &&
	       zlink_now() < end) {
		zlink_free_slots(rx, &rx->map.shm->pkts, rx->pkt_next, rx->pkt_slot, ZLINK_PKTS);
		zlink_free_slots(rx, &rx->map.shm->chunks, rx->chunk_next, rx->chunk_slot, rx->map.depth);
	}
}

void zlink_rx_close(struct zlink_rx *rx)
{
	rx->dying = true;
	zlink_rx_settle(rx);
	zlink_op_end_all(rx->domain, NULL, NULL, rx, NULL, FI_ECONNABORTED);
	atomic_store(&rx->map.shm->rx_closed, 1);
	zipc_list_remove(&rx->link);
	zlink_copier_unpin(rx->domain->copier, rx->map.shm);
	zlink_map_close(&rx->map);
	free(rx);
}
