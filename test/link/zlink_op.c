/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: where they come from, how their data is copied, how they end. */
#include <stdlib.h>
#include <string.h>

#include "zlink.h"

static int zlink_op_grow(struct zlink_domain *domain)
{
	struct zlink_op *slab;
	unsigned int i;

	if (domain->slabs == ZLINK_SLABS)
		return -FI_EAGAIN;
	slab = calloc(ZLINK_SLAB, sizeof(*slab));
	if (!slab)
		return -FI_ENOMEM;
	for (i = 0; i < ZLINK_SLAB; i++) {
		slab[i].id = (uint64_t)domain->slabs * ZLINK_SLAB + i;
		zipc_list_append(&domain->ops, &slab[i].link);
	}
	domain->slab[domain->slabs++] = slab;
	return 0;
}

struct zlink_op *zlink_op_get(struct zlink_domain *domain, enum zlink_kind kind, struct zlink_ep *ep)
{
	struct zlink_op *op;
	uint64_t id;

	if (zipc_list_empty(&domain->ops) && zlink_op_grow(domain))
		return NULL;
	op = zlink_of(zipc_list_pop(&domain->ops), zlink_op, link);
	id = op->id + (1ULL << 32); /* what names it from before is void */
	memset(op, 0, offsetof(struct zlink_op, pkt));
	op->pkt.type = op->pkt.flags = 0;
	op->pkt.status = 0;
	op->pkt.count = 0;
	op->pkt.src[0] = 0;
	op->id = id;
	op->kind = kind;
	op->ep = ep;
	op->addr = FI_ADDR_NOTAVAIL;
	op->dev = domain->host;
	zipc_list_init(&op->link);
	return op;
}

void zlink_op_put(struct zlink_domain *domain, struct zlink_op *op)
{
	zipc_list_remove(&op->link);
	if (op->buf)
		zlink_buf_put(domain->copier, op->buf);
	op->buf = NULL;
	op->kind = ZLINK_FREE;
	zipc_list_append(&domain->ops, &op->link);
}

static struct zlink_op *zlink_op_at(struct zlink_domain *domain, uint64_t i)
{
	return &domain->slab[i / ZLINK_SLAB][i % ZLINK_SLAB];
}

struct zlink_op *zlink_op_find(struct zlink_domain *domain, uint64_t id)
{
	uint64_t i = id & 0xffffffffu;
	struct zlink_op *op;

	if (i >= (uint64_t)domain->slabs * ZLINK_SLAB)
		return NULL;
	op = zlink_op_at(domain, i);
	return op->id == id && op->kind != ZLINK_FREE && !op->over ? op : NULL;
}

int zlink_op_copy(struct zlink_op *op, enum zlink_dir dir, size_t offset, void *host, size_t bytes, struct zlink_ticket *ticket)
{
	const struct zlink_copy_ops *ops = zlink_dev_ops(op->dev);
	size_t i, n, at = 0;
	int ret = 0;

	ticket->dev = NULL;
	for (i = 0; i < op->niov && bytes && !ret; i++) {
		if (offset >= at + op->iov[i].iov_len) {
			at += op->iov[i].iov_len;
			continue;
		}
		n = at + op->iov[i].iov_len - offset;
		n = n < bytes ? n : bytes;
		ret = ops->start(op->dev, dir, (char *)op->iov[i].iov_base + (offset - at), host, n);
		at += op->iov[i].iov_len;
		offset += n;
		host = (char *)host + n;
		bytes -= n;
	}
	return ret ? ret : ops->mark(op->dev, dir, ticket);
}

void zlink_op_event(struct zlink_ep *ep, uint64_t data, size_t len)
{
	struct zlink_op *op = zlink_op_get(ep->domain, ZLINK_EVENT, ep);

	if (!op) {
		ZLINK_WARN(EP_DATA, "no memory: immediate data of a write is lost\n");
		return;
	}
	op->flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE;
	op->data = data;
	op->msg_len = len;
	op->report = true;
	zlink_cq_done(ep->domain, op);
}

static void zlink_count(struct zlink_ep *ep, int which, int err)
{
	struct zlink_cntr *cntr = ep ? ep->cntr[which] : NULL;

	if (cntr)
		atomic_fetch_add(err ? &cntr->errors : &cntr->value, 1);
}

/* The target tells the initiator, then whoever is to know here. */
static void zlink_target_done(struct zlink_domain *domain, struct zlink_op *op)
{
	bool write = op->kind == ZLINK_TARGET_WRITE;

	if ((write || op->err) && op->rx)
		zlink_tx_control(domain, op->rx, ZLINK_PKT_ACK, 0, op->peer_op, 0, op->err);
	if (op->ep && !op->err) {
		zlink_count(op->ep, write ? ZLINK_CNTR_REMOTE_WRITE : ZLINK_CNTR_REMOTE_READ, 0);
		if (write && op->pkt.flags & ZLINK_F_DATA)
			zlink_op_event(op->ep, op->data, op->total);
	}
	zlink_op_put(domain, op);
}

/* A multi-receive goes back to the user with the last of its pieces. */
static void zlink_piece_done(struct zlink_domain *domain, struct zlink_op *op)
{
	struct zlink_op *multi = op->multi;

	if (--multi->pieces || !multi->over)
		return;
	op->flags |= FI_MULTI_RECV;
	zlink_op_put(domain, multi);
}

static void zlink_recv_done(struct zlink_domain *domain, struct zlink_op *op)
{
	if (op->multi_recv && op->pieces)
		return; /* the last of its pieces frees it */
	if (op->multi)
		zlink_piece_done(domain, op);
	if (!op->err && op->msg_len > op->len)
		op->err = FI_ETRUNC;
	if (op->pkt.flags & ZLINK_F_ACK && op->rx)
		zlink_tx_control(domain, op->rx, ZLINK_PKT_ACK, 0, op->peer_op, 0, 0);
	zlink_count(op->ep, ZLINK_CNTR_RECV, op->err);
	zlink_cq_done(domain, op);
}

static void zlink_op_complete(struct zlink_domain *domain, struct zlink_op *op)
{
	switch (op->kind) {
	case ZLINK_TARGET_WRITE:
	case ZLINK_TARGET_READ:
		zlink_target_done(domain, op);
		return;
	case ZLINK_RECV:
		zlink_recv_done(domain, op);
		return;
	case ZLINK_SEND:
	case ZLINK_READ:
	case ZLINK_WRITE:
		if (op->ep)
			op->ep->tx_pending--;
		zlink_count(op->ep, op->kind == ZLINK_SEND ? ZLINK_CNTR_SEND : op->kind == ZLINK_READ ? ZLINK_CNTR_READ : ZLINK_CNTR_WRITE,
			    op->err);
		zlink_cq_done(domain, op);
		return;
	default:
		zlink_op_put(domain, op);
		return;
	}
}

void zlink_op_finish(struct zlink_domain *domain, struct zlink_op *op, int err)
{
	if (op->over)
		return;
	zipc_list_remove(&op->link);
	op->over = true;
	op->err = err;
	if (!op->inflight)
		zlink_op_complete(domain, op);
}

void zlink_op_release(struct zlink_domain *domain, struct zlink_op *op)
{
	if (!--op->inflight && op->over)
		zlink_op_complete(domain, op);
}

static bool zlink_op_concerns(const struct zlink_op *op, const struct zlink_ep *ep, const struct zlink_tx *tx,
			      const struct zlink_rx *rx, const struct zlink_mr *mr)
{
	unsigned int i;

	if (op->kind == ZLINK_FREE || op->done)
		return false;
	for (i = 0; mr && i < ZLINK_RMA_IOV; i++)
		if (op->mr[i] == mr)
			return true;
	return (ep && op->ep == ep) || (tx && op->tx == tx) || (rx && op->rx == rx);
}

/* The peer of an operation that this endpoint gives up must not wait for it. */
static void zlink_op_tell(struct zlink_domain *domain, struct zlink_op *op)
{
	if ((op->kind == ZLINK_RECV || op->kind == ZLINK_UNEXPECTED) && op->rx && !op->rx->dying && !op->over)
		zlink_tx_control(domain, op->rx, ZLINK_PKT_ACK, 0, op->peer_op, 0, FI_ECONNABORTED);
	if ((op->kind == ZLINK_SEND || op->kind == ZLINK_WRITE) && op->tx && !op->tx->dead && !op->over && op->total) {
		struct zlink_op *abort = zlink_op_get(domain, ZLINK_CONTROL, NULL);

		if (!abort)
			return;
		abort->pkt.type = ZLINK_PKT_ABORT;
		abort->pkt.dst_ep = op->pkt.dst_ep;
		abort->pkt.op = op->id;
		zlink_tx_post(op->tx, abort);
	}
}

void zlink_op_end_all(struct zlink_domain *domain, struct zlink_ep *ep, struct zlink_tx *tx, struct zlink_rx *rx,
		      struct zlink_mr *mr, int err)
{
	uint64_t i, n = (uint64_t)domain->slabs * ZLINK_SLAB;

	for (i = 0; i < n; i++) {
		struct zlink_op *op = zlink_op_at(domain, i);

		if (!zlink_op_concerns(op, ep, tx, rx, mr))
			continue;
		if (rx && (op->buf || op->pkt.type == ZLINK_PKT_EAGER) && !op->inflight) {
			op->rx = NULL; /* its data is here already */
			continue;
		}
		if (ep)
			zlink_op_tell(domain, op);
		if (ep && op->kind != ZLINK_TARGET_WRITE && op->kind != ZLINK_TARGET_READ)
			op->report = false;
		zlink_op_finish(domain, op, err);
	}
}

unsigned int zlink_op_inflight(struct zlink_domain *domain, struct zlink_ep *ep, struct zlink_mr *mr)
{
	uint64_t i, n = (uint64_t)domain->slabs * ZLINK_SLAB;
	unsigned int found = 0;

	for (i = 0; i < n; i++) {
		struct zlink_op *op = zlink_op_at(domain, i);

		if (op->inflight && zlink_op_concerns(op, ep, NULL, NULL, mr))
			found++;
	}
	return found;
}

void zlink_op_disown(struct zlink_domain *domain, const struct zlink_ep *ep)
{
	uint64_t i, n = (uint64_t)domain->slabs * ZLINK_SLAB;

	for (i = 0; i < n; i++)
		if (zlink_op_at(domain, i)->ep == ep)
			zlink_op_at(domain, i)->ep = NULL;
}
