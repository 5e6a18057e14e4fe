/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: posted receives against messages, in order; unexpected messages, peeks and claims. */
#include <string.h>

#include "zlink.h"

static bool zlink_matches(const struct zlink_op *op, const struct zlink_pkt *pkt)
{
	const char *name;

	if (pkt->flags & ZLINK_F_TAGGED && (op->tag ^ pkt->tag) & ~op->ignore)
		return false;
	if (op->addr == FI_ADDR_UNSPEC)
		return true;
	name = zlink_av_name(op->ep->av, op->addr);
	return name && !strcmp(name, pkt->src);
}

/* The part of a multi-receive that a message gets. */
static struct zlink_op *zlink_take_piece(struct zlink_op *multi, size_t len)
{
	struct zlink_domain *domain = multi->ep->domain;
	struct zlink_op *op = zlink_op_get(domain, ZLINK_RECV, multi->ep);
	size_t left = multi->len - multi->issued;

	if (!op)
		return NULL;
	len = len < left ? len : left;
	op->context = multi->context;
	op->flags = multi->flags;
	op->report = multi->report;
	op->dev = multi->dev;
	op->multi = multi;
	op->iov[0] = (struct iovec){ (char *)multi->iov[0].iov_base + multi->issued, len };
	op->niov = 1;
	op->len = len;
	multi->pieces++;
	multi->issued += len;
	if (multi->len - multi->issued < multi->ep->min_multi) {
		zipc_list_remove(&multi->link);
		multi->over = true;
	}
	return op;
}

/* The receive that is used for a message: it, or a piece of it. */
static struct zlink_op *zlink_take(struct zlink_op *op, size_t len)
{
	if (op->multi_recv)
		return zlink_take_piece(op, len);
	zipc_list_remove(&op->link);
	return op;
}

static void zlink_fill(struct zlink_op *op, struct zlink_rx *rx, const struct zlink_pkt *pkt)
{
	op->rx = rx;
	op->peer_op = pkt->op;
	op->msg_len = pkt->len;
	op->tag = pkt->tag;
	op->data = pkt->data;
	op->pkt.type = pkt->type;
	op->pkt.flags = pkt->flags;
	op->total = op->msg_len < op->len ? op->msg_len : op->len;
	if (pkt->flags & ZLINK_F_DATA)
		op->flags |= FI_REMOTE_CQ_DATA;
	op->addr = op->ep->caps & FI_SOURCE ? zlink_av_find(op->ep->av, pkt->src) : FI_ADDR_NOTAVAIL;
}

/* A large message has met its receive. */
static void zlink_grant(struct zlink_rx *rx, struct zlink_op *op)
{
	zlink_tx_control(rx->domain, rx, ZLINK_PKT_CTS, op->id, op->peer_op, op->total, 0);
	if (op->total)
		zipc_list_append(&rx->active, &op->link);
	else
		zlink_op_finish(rx->domain, op, 0);
}

static void zlink_keep(struct zlink_rx *rx, struct zlink_ep *ep, const struct zlink_pkt *pkt, const void *inside)
{
	struct zlink_op *op = zlink_op_get(rx->domain, ZLINK_UNEXPECTED, ep);

	if (op && pkt->type == ZLINK_PKT_EAGER && pkt->len) {
		op->buf = zlink_buf_get(rx->domain->copier);
		if (op->buf)
			memcpy(op->buf, inside, pkt->len);
	}
	if (!op || (pkt->type == ZLINK_PKT_EAGER && pkt->len && !op->buf)) {
		ZLINK_WARN(EP_DATA, "no memory: an unexpected message is lost\n");
		if (op)
			zlink_op_put(rx->domain, op);
		return;
	}
	op->rx = rx;
	op->peer_op = pkt->op;
	op->pkt = *pkt;
	zipc_list_append(&ep->unexpected[!!(pkt->flags & ZLINK_F_TAGGED)], &op->link);
}

struct zlink_op *zlink_match_arrived(struct zlink_rx *rx, struct zlink_ep *ep, const struct zlink_pkt *pkt, const void *inside)
{
	struct zipc_list *list = &ep->posted[!!(pkt->flags & ZLINK_F_TAGGED)], *entry;
	struct zlink_op *op;

	for (entry = list->next; entry != list; entry = entry->next) {
		op = zlink_of(entry, zlink_op, link);
		if (!zlink_matches(op, pkt))
			continue;
		op = zlink_take(op, pkt->len);
		if (!op)
			break;
		zlink_fill(op, rx, pkt);
		if (pkt->type == ZLINK_PKT_EAGER)
			return op;
		zlink_grant(rx, op);
		return NULL;
	}
	zlink_keep(rx, ep, pkt, inside);
	return NULL;
}

/* An unexpected message goes to a receive. */
static void zlink_deliver(struct zlink_domain *domain, struct zlink_op *unexpected, struct zlink_op *op)
{
	int ret;

	zipc_list_remove(&unexpected->link);
	zlink_fill(op, unexpected->rx, &unexpected->pkt);
	if (unexpected->pkt.type == ZLINK_PKT_RTS) {
		zlink_grant(unexpected->rx, op);
	} else if (op->total) {
		op->buf = unexpected->buf;
		unexpected->buf = NULL;
		ret = zlink_op_copy(op, ZLINK_IN, 0, op->buf, op->total, &op->ticket);
		if (ret || !op->ticket.dev)
			zlink_op_finish(domain, op, ret ? FI_EIO : 0);
		else
			zipc_list_append(&domain->copying, &op->link);
	} else {
		zlink_op_finish(domain, op, 0);
	}
	zlink_op_put(domain, unexpected);
}

/* A message that nobody wants. */
static void zlink_drop(struct zlink_domain *domain, struct zlink_op *unexpected)
{
	struct zlink_rx *rx = unexpected->rx;

	if (rx && unexpected->pkt.type == ZLINK_PKT_RTS)
		zlink_tx_control(domain, rx, ZLINK_PKT_CTS, 0, unexpected->peer_op, 0, 0);
	if (rx && unexpected->pkt.flags & ZLINK_F_ACK)
		zlink_tx_control(domain, rx, ZLINK_PKT_ACK, 0, unexpected->peer_op, 0, 0);
	zlink_op_put(domain, unexpected);
}

static struct zlink_op *zlink_find_unexpected(struct zlink_ep *ep, const struct zlink_op *op)
{
	struct zipc_list *list = &ep->unexpected[!!(op->flags & FI_TAGGED)], *entry;

	for (entry = list->next; entry != list; entry = entry->next) {
		struct zlink_op *unexpected = zlink_of(entry, zlink_op, link);

		if (zlink_matches(op, &unexpected->pkt))
			return unexpected;
	}
	return NULL;
}

void zlink_match_post(struct zlink_ep *ep, struct zlink_op *op)
{
	struct zlink_op *unexpected, *taken;

	zipc_list_append(&ep->posted[!!(op->flags & FI_TAGGED)], &op->link);
	while (!op->over && (unexpected = zlink_find_unexpected(ep, op))) {
		taken = zlink_take(op, unexpected->pkt.len);
		if (taken)
			zlink_deliver(ep->domain, unexpected, taken);
		if (taken == op || !taken)
			return;
	}
}

int zlink_match_peek(struct zlink_ep *ep, struct zlink_op *op, uint64_t flags)
{
	struct zlink_op *unexpected = zlink_find_unexpected(ep, op);

	op->report = true;
	if (!unexpected) {
		op->err = FI_ENOMSG;
		zlink_cq_done(ep->domain, op);
		return 0;
	}
	zlink_fill(op, unexpected->rx, &unexpected->pkt);
	op->len = op->msg_len;
	if (flags & FI_CLAIM) {
		unexpected->context = op->context;
		zipc_list_remove(&unexpected->link);
		zipc_list_append(&ep->claimed, &unexpected->link);
	}
	if (flags & FI_DISCARD)
		zlink_drop(ep->domain, unexpected);
	zlink_cq_done(ep->domain, op);
	return 0;
}

int zlink_match_claimed(struct zlink_ep *ep, struct zlink_op *op, uint64_t flags)
{
	struct zipc_list *entry;

	for (entry = ep->claimed.next; entry != &ep->claimed; entry = entry->next) {
		struct zlink_op *unexpected = zlink_of(entry, zlink_op, link);

		if (unexpected->context != op->context)
			continue;
		if (!(flags & FI_DISCARD)) {
			zlink_deliver(ep->domain, unexpected, op);
			return 0;
		}
		zlink_fill(op, unexpected->rx, &unexpected->pkt);
		op->len = op->msg_len;
		zlink_drop(ep->domain, unexpected);
		zlink_cq_done(ep->domain, op);
		return 0;
	}
	return -FI_EINVAL;
}

static bool zlink_abort_in(struct zipc_list *list, struct zlink_rx *rx, uint64_t peer_op)
{
	struct zipc_list *entry;

	for (entry = list->next; entry != list; entry = entry->next) {
		struct zlink_op *op = zlink_of(entry, zlink_op, link);

		if (op->rx != rx || op->peer_op != peer_op || op->pkt.type != ZLINK_PKT_RTS)
			continue;
		zlink_op_put(rx->domain, op);
		return true;
	}
	return false;
}

void zlink_match_abort(struct zlink_rx *rx, uint64_t peer_op)
{
	struct zipc_list *entry;

	for (entry = rx->domain->eps.next; entry != &rx->domain->eps; entry = entry->next) {
		struct zlink_ep *ep = zlink_of(entry, zlink_ep, link);

		if (zlink_abort_in(&ep->unexpected[0], rx, peer_op) || zlink_abort_in(&ep->unexpected[1], rx, peer_op) ||
		    zlink_abort_in(&ep->claimed, rx, peer_op))
			return;
	}
}
