/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine's network on links: control messages as they are, chunks in fragments that are put together where the engine has
 * posted a receive. What has happened is told to the engine from progress only. The handle of an address is the peer's id.
 */
#include <string.h>

#include "zipu.h"

/* What we keep in zipc_op.net. */
struct zipu_net_op {
	union {                 /* first */
		struct zipc_list event; /* iface->events, when it is over */
		struct zipu_tx tx;      /* a chunk that is sent */
		struct {                /* a chunk that is received */
			struct zipc_list event;
			struct zipc_op *hash;
			uint32_t total;
		} rx;
	};
	uint64_t peer, tag;
	char *buf;
	uint32_t len, at;       /* bytes of a chunk that is sent, room for one that is received; and how far it has come */
	int status;
};

_Static_assert(sizeof(struct zipu_net_op) <= sizeof(((struct zipc_op *)0)->net), "it fits what the engine lends");

static struct zipu_net_op *zipu_net_of(struct zipc_op *op)
{
	return (void *)op->net;
}

static struct zipc_op *zipu_net_op_of(struct zipu_net_op *own)
{
	return zipu_of(own, zipc_op, net);
}

static struct zipu_net_op *zipu_net_init(struct zipc_op *op, uint64_t peer)
{
	struct zipu_net_op *own = zipu_net_of(op);

	memset(own, 0, sizeof(*own));
	own->peer = peer;
	zipc_list_init(&own->event);
	return own;
}

static void zipu_net_event(struct zipu_iface *iface, struct zipu_net_op *own, int status)
{
	own->status = status;
	zipc_list_append(&iface->events, &own->event);
}

void zipu_net_events(struct zipu_iface *iface)
{
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(&iface->events))) {
		struct zipu_net_op *own = zipu_of(entry, zipu_net_op, event);

		zipc_engine_op_done(iface->engine, zipu_net_op_of(own), own->status, own->at);
	}
}

/* ---- addresses */

static int zipu_net_addr_insert(void *net, const void *addr, size_t len, zipc_addr_t *handle)
{
	uint8_t copy[ZIPU_ADDRESS_MAX];
	struct zipu_link *link;

	if (len > sizeof(copy))
		return ZIPC_ERR_INVAL;
	memcpy(copy, addr, len);
	link = zipu_link_get(net, (const struct zipu_address *)(const void *)copy, len, false);
	if (!link)
		return ZIPC_ERR_NET;
	*handle = link->id;
	zipu_link_put(link); /* it stays until the interface closes */
	return 0;
}

static void zipu_net_addr_remove(void *net, zipc_addr_t handle)
{
	(void)net;
	(void)handle;
}

static int zipu_net_status(ucs_status_t status)
{
	if (status == UCS_OK)
		return 0;
	return status == UCS_ERR_NO_RESOURCE ? ZIPC_ERR_AGAIN : ZIPC_ERR_NET;
}

/* ---- control messages */

static int zipu_net_send_control(void *net, zipc_addr_t peer, const void *msg, size_t len, struct zipc_op *op)
{
	struct zipu_link *link = zipu_link_find(net, peer);
	struct iovec iov = {(void *)(uintptr_t)msg, len};
	struct zipu_hdr hdr;
	ucs_status_t status;

	if (!link)
		return ZIPC_ERR_NET;
	status = zipu_link_ready(link);
	if (status == UCS_OK) {
		zipu_hdr_fill(net, &hdr, ZIPU_MSG_CONTROL, 0);
		status = zipu_link_send(link, &hdr, sizeof(hdr), &iov, 1, 0, len, NULL, NULL);
	}
	if (status == UCS_OK)
		zipu_net_event(net, zipu_net_init(op, peer), 0);
	return zipu_net_status(status);
}

/* ---- chunks to be sent */

static void zipu_bulk_sent(struct zipu_link *link, struct zipu_tx *tx, ucs_status_t status)
{
	zipu_net_event(link->iface, zipu_of(tx, zipu_net_op, tx), status == UCS_OK ? 0 : ZIPC_ERR_NET);
}

static ucs_status_t zipu_bulk_step(struct zipu_link *link, struct zipu_tx *tx)
{
	struct zipu_net_op *own = zipu_of(tx, zipu_net_op, tx);
	struct zipu_iface *iface = link->iface;
	size_t most = iface->frag_zcopy ? iface->frag_zcopy : iface->frag_bcopy;
	struct iovec iov = {own->buf, own->len};
	struct zipu_msg_bulk msg = {.tag = own->tag, .total = own->len};
	uct_mem_h memh = zipu_stage_memh(iface, own->buf);
	ucs_status_t status;
	size_t n;

	zipu_hdr_fill(iface, &msg.hdr, ZIPU_MSG_BULK, 0);
	while (own->at < own->len) {
		msg.offset = own->at;
		n = own->len - own->at < most ? own->len - own->at : most;
		status = zipu_link_send(link, &msg, sizeof(msg), &iov, 1, own->at, n, memh, iface->frag_zcopy ? tx : NULL);
		if (status != UCS_OK)
			return status;
		own->at += (uint32_t)n;
	}
	return UCS_OK;
}

static int zipu_net_send_bulk(void *net, zipc_addr_t peer, uint64_t tag, const void *buf, size_t len, struct zipc_op *op)
{
	struct zipu_link *link = zipu_link_find(net, peer);
	struct zipu_net_op *own;

	if (!link)
		return ZIPC_ERR_NET;
	own = zipu_net_init(op, peer);
	own->tag = tag;
	own->buf = (void *)(uintptr_t)buf;
	own->len = (uint32_t)len;
	own->tx.step = zipu_bulk_step;
	own->tx.end = zipu_bulk_sent;
	zipu_link_queue(link, &own->tx);
	return 0;
}

/* ---- chunks to be received */

static struct zipc_op **zipu_tag_bucket(struct zipu_iface *iface, uint64_t tag)
{
	return &iface->by_tag[(tag ^ tag >> 32) % ZIPU_LINK_HASH];
}

static int zipu_net_recv_bulk(void *net, zipc_addr_t peer, uint64_t tag, void *buf, size_t len, struct zipc_op *op)
{
	struct zipu_net_op *own = zipu_net_init(op, peer);
	struct zipc_op **bucket = zipu_tag_bucket(net, tag);

	own->tag = tag;
	own->buf = buf;
	own->len = (uint32_t)len;
	own->rx.hash = *bucket;
	*bucket = op;
	return 0;
}

/* Takes a receive out of the table, and has its end told. */
static void zipu_bulk_end(struct zipu_iface *iface, struct zipc_op **at, int status)
{
	struct zipu_net_op *own = zipu_net_of(*at);

	*at = own->rx.hash;
	zipu_net_event(iface, own, status);
}

static void zipu_net_cancel_recv(void *net, struct zipc_op *op)
{
	struct zipc_op **at = zipu_tag_bucket(net, zipu_net_of(op)->tag);

	while (*at && *at != op)
		at = &zipu_net_of(*at)->rx.hash;
	if (*at) /* else it has ended already */
		zipu_bulk_end(net, at, ZIPC_ERR_CANCELED);
}

void zipu_net_bulk(struct zipu_iface *iface, const struct zipu_msg_bulk *msg, const void *data, size_t len)
{
	struct zipc_op **at = zipu_tag_bucket(iface, msg->tag);
	struct zipu_net_op *own;

	while (*at && (zipu_net_of(*at)->tag != msg->tag || zipu_net_of(*at)->peer != msg->hdr.sender))
		at = &zipu_net_of(*at)->rx.hash;
	if (!*at) {
		ucs_debug("zip: part of a chunk dropped: nobody waits for %llx", (unsigned long long)msg->tag);
		return;
	}
	own = zipu_net_of(*at);
	if (!own->at)
		own->rx.total = msg->total;
	if (!len || msg->offset != own->at || msg->total != own->rx.total || msg->total > own->len || len > msg->total - own->at) {
		ucs_warn("zip: a part of a chunk does not fit: %zu bytes at %u of %u, %u are there and %u fit", len, msg->offset,
			 msg->total, own->at, own->len);
		zipu_bulk_end(iface, at, ZIPC_ERR_PROTO);
		return;
	}
	memcpy(own->buf + own->at, data, len);
	own->at += (uint32_t)len;
	if (own->at == own->rx.total)
		zipu_bulk_end(iface, at, 0);
}

void zipu_net_link_failed(struct zipu_link *link)
{
	struct zipu_iface *iface = link->iface;
	unsigned i;

	for (i = 0; i < ZIPU_LINK_HASH; i++) {
		struct zipc_op **at = &iface->by_tag[i];

		while (*at) {
			if (zipu_net_of(*at)->peer == link->id)
				zipu_bulk_end(iface, at, ZIPC_ERR_NET);
			else
				at = &zipu_net_of(*at)->rx.hash;
		}
	}
}

/* ---- staging memory */

static int zipu_net_stage_register(void *net, void *base, size_t len)
{
	struct zipu_iface *iface = net;
	int i = 0;

	while (i < ZIPU_STAGES - 1 && iface->stage_base[i])
		i++;
	iface->stage_base[i] = base;
	iface->stage_len[i] = len;
	if (!iface->translate)
		return 0;
	return uct_md_mem_reg(iface->md->lower, base, len, UCT_MD_MEM_ACCESS_LOCAL_READ, &iface->stage_memh[i]) == UCS_OK
		       ? 0
		       : ZIPC_ERR_NOMEM;
}

uct_mem_h zipu_stage_memh(const struct zipu_iface *iface, const void *buf)
{
	int i;

	for (i = 0; i < ZIPU_STAGES; i++)
		if ((const char *)buf >= iface->stage_base[i] && (const char *)buf < iface->stage_base[i] + iface->stage_len[i])
			return iface->stage_memh[i];
	return UCT_MEM_HANDLE_NULL;
}

const struct zipc_net_ops zipu_net_ops = {
	.addr_insert = zipu_net_addr_insert,
	.addr_remove = zipu_net_addr_remove,
	.send_control = zipu_net_send_control,
	.send_bulk = zipu_net_send_bulk,
	.recv_bulk = zipu_net_recv_bulk,
	.cancel_recv = zipu_net_cancel_recv,
	.stage_register = zipu_net_stage_register,
};
