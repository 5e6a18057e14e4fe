/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets: as transfers of the engine where that pays, by the lower transport where it can revoke a key, else by active
 * messages of our own, whose target checks the key.
 */
#include <stdlib.h>
#include <string.h>

#include "zipu.h"

/* 1 if the lower transport does this kind of operation for us. */
static int zipu_below(const struct zipu_iface *iface, uint64_t flag, const struct zipu_rkey *rkey)
{
	return iface->md->lower_rma && (iface->lower_attr.cap.flags & flag) && rkey->component;
}

/* The link to the peer, ready for a message. */
static ucs_status_t zipu_rma_link(struct zipu_ep *ep, struct zipu_link **link_p)
{
	struct zipu_link *link = *link_p = zipu_ep_peer(ep);
	ucs_status_t status;

	if (!link)
		return ep->blocked & ZIPU_BLOCKED_FAILED ? ep->error : UCS_ERR_NO_MEMORY;
	status = zipu_link_ready(link);
	/* Behind what is queued already. */
	return status == UCS_OK && !zipc_list_empty(&link->tx) ? UCS_ERR_NO_RESOURCE : status;
}

/* ---- put, small */

struct zipu_pack_put {
	struct zipu_msg_put msg;
	uct_pack_callback_t pack;
	void *arg;
	const void *buffer; /* without a callback */
	size_t length;
};

static size_t zipu_pack_put(void *dest, void *arg)
{
	struct zipu_pack_put *put = arg;
	char *data = (char *)dest + sizeof(put->msg);

	if (put->pack)
		put->length = put->pack(data, put->arg);
	else
		memcpy(data, put->buffer, put->length);
	memcpy(dest, &put->msg, sizeof(put->msg));
	return sizeof(put->msg) + put->length;
}

/* One message that holds all of the data. Returns its bytes or an error. */
static ssize_t zipu_put_small(struct zipu_ep *ep, struct zipu_pack_put *put, uint64_t address, const struct zipu_rkey *rkey)
{
	struct zipu_iface *iface = zipu_ep_iface(ep);
	struct zipu_link *link;
	struct zipu_op *op;
	ucs_status_t status = zipu_rma_link(ep, &link);
	ssize_t ret;

	if (status != UCS_OK)
		return status;
	op = zipu_op_alloc(ep, ZIPU_OP_PUT, NULL);
	if (!op)
		return UCS_ERR_NO_RESOURCE;
	op->total = 0; /* what the answer is checked against: nothing is left to be sent */
	zipu_hdr_fill(iface, &put->msg.hdr, ZIPU_MSG_PUT, op->id);
	put->msg.address = address;
	put->msg.key = rkey->key;
	put->msg.last = 1;
	ret = uct_ep_am_bcopy(link->ep, ZIPU_AM_ID, zipu_pack_put, put, 0);
	if (ret < 0) {
		zipu_op_drop(op);
		return ret;
	}
	iface->raw_puts++;
	return (ssize_t)put->length;
}

ucs_status_t zipu_ep_put_short(uct_ep_h handle, const void *buffer, unsigned length, uint64_t remote_addr, uct_rkey_t handle_rkey)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	const struct zipu_rkey *rkey = (const struct zipu_rkey *)handle_rkey;
	struct zipu_pack_put put = {.buffer = buffer, .length = length};
	ssize_t ret;

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (zipu_below(zipu_ep_iface(ep), UCT_IFACE_FLAG_PUT_SHORT, rkey))
		return uct_ep_put_short(ep->lower, buffer, length, remote_addr, rkey->lower.rkey);
	ret = zipu_put_small(ep, &put, remote_addr, rkey);
	return ret < 0 ? (ucs_status_t)ret : UCS_OK;
}

ssize_t zipu_ep_put_bcopy(uct_ep_h handle, uct_pack_callback_t pack, void *arg, uint64_t remote_addr, uct_rkey_t handle_rkey)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	const struct zipu_rkey *rkey = (const struct zipu_rkey *)handle_rkey;
	struct zipu_pack_put put = {.pack = pack, .arg = arg};

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (zipu_below(zipu_ep_iface(ep), UCT_IFACE_FLAG_PUT_BCOPY, rkey))
		return uct_ep_put_bcopy(ep->lower, pack, arg, remote_addr, rkey->lower.rkey);
	return zipu_put_small(ep, &put, remote_addr, rkey);
}

/* ---- put, large */

static ucs_status_t zipu_put_step(struct zipu_link *link, struct zipu_tx *tx)
{
	struct zipu_op *op = zipu_of(tx, zipu_op, tx);
	struct zipu_iface *iface = link->iface;
	size_t most = op->zcopy ? iface->frag_zcopy : iface->frag_bcopy;
	struct zipu_msg_put msg = {.key = op->key};
	ucs_status_t status;
	size_t n;

	zipu_hdr_fill(iface, &msg.hdr, ZIPU_MSG_PUT, op->id);
	do {
		n = op->total - op->at < most ? op->total - op->at : most;
		msg.address = op->address + op->at;
		msg.last = op->at + n == op->total;
		status = zipu_link_send(link, &msg, sizeof(msg), op->iov, op->niov, op->at, n, op->memh,
					op->zcopy && n ? tx : NULL);
		if (status != UCS_OK)
			return status;
		op->at += n;
	} while (op->at < op->total);
	return UCS_OK;
}

static void zipu_put_sent(struct zipu_link *link, struct zipu_tx *tx, ucs_status_t status)
{
	struct zipu_op *op = zipu_of(tx, zipu_op, tx);

	op->sending = false;
	if (link->failed || status != UCS_OK)
		zipu_op_finish(op, UCS_ERR_CONNECTION_RESET);
	zipu_op_settle(op);
}

/* An operation of a put or get of these segments by messages, ready to be filled in further. */
static struct zipu_op *zipu_op_for(struct zipu_ep *ep, enum zipu_op_kind kind, const struct iovec *iov, size_t niov, size_t total,
				   uint64_t address, uint64_t key, uct_completion_t *comp)
{
	struct zipu_op *op = zipu_op_alloc(ep, kind, comp);

	if (!op)
		return NULL;
	if (niov)
		memcpy(op->iov, iov, niov * sizeof(*iov));
	op->niov = niov;
	op->total = total;
	op->address = address;
	op->key = key;
	return op;
}

/* UCT's segments as ours. Returns their sum; *niov: their number. */
static size_t zipu_iov(const uct_iov_t *in, size_t count, struct iovec *out, size_t *niov)
{
	size_t i, total = 0, n = 0;

	for (i = 0; i < count; i++) {
		size_t len = in[i].length * in[i].count;

		if (!len)
			continue;
		out[n++] = (struct iovec){in[i].buffer, len};
		total += len;
	}
	*niov = n;
	return total;
}

/* How the data of a put by messages leaves: in place, if the lower transport can, and one handle of its domain is enough. */
static void zipu_put_set_zcopy(const struct zipu_iface *iface, struct zipu_op *op, const uct_iov_t *iov, size_t count)
{
	op->zcopy = iface->frag_zcopy && (!iface->translate || (count == 1 && iov[0].memh != UCT_MEM_HANDLE_NULL));
	op->memh = op->zcopy && iface->translate ? ((const struct zipu_mem *)iov[0].memh)->lower : UCT_MEM_HANDLE_NULL;
}

static void zipu_lower_iov(const uct_iov_t *iov, size_t count, uct_iov_t *out)
{
	size_t i;

	for (i = 0; i < count; i++) {
		out[i] = iov[i];
		if (iov[i].memh != UCT_MEM_HANDLE_NULL)
			out[i].memh = ((const struct zipu_mem *)iov[i].memh)->lower;
	}
}

/*
 * What put_zcopy and get_zcopy have in common. *op_p is NULL when there is nothing more to do: the status is then the user's. Else it is
 * an operation of our own messages, to be started on *link_p.
 */
static ucs_status_t zipu_zcopy_begin(struct zipu_ep *ep, bool put, const uct_iov_t *uct_iov, size_t iovcnt, uint64_t remote_addr,
				     const struct zipu_rkey *rkey, uct_completion_t *comp, struct zipu_link **link_p,
				     struct zipu_op **op_p)
{
	struct zipu_iface *iface = zipu_ep_iface(ep);
	uct_iov_t lower[ZIPU_IOV_MAX];
	struct iovec iov[ZIPU_IOV_MAX];
	size_t niov, total;
	ucs_status_t status;

	*op_p = NULL;
	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (iovcnt > ZIPU_IOV_MAX)
		return UCS_ERR_INVALID_PARAM;
	total = zipu_iov(uct_iov, iovcnt, iov, &niov);
	if (total >= iface->min_size) {
		status = zipu_xfer_start(ep, put, iov, niov, total, remote_addr, rkey->key, comp);
		if (status != UCS_ERR_UNSUPPORTED)
			return status;
	}
	if (zipu_below(iface, put ? UCT_IFACE_FLAG_PUT_ZCOPY : UCT_IFACE_FLAG_GET_ZCOPY, rkey)) {
		zipu_lower_iov(uct_iov, iovcnt, lower);
		return put ? uct_ep_put_zcopy(ep->lower, lower, iovcnt, remote_addr, rkey->lower.rkey, comp) :
			     uct_ep_get_zcopy(ep->lower, lower, iovcnt, remote_addr, rkey->lower.rkey, comp);
	}
	status = zipu_rma_link(ep, link_p);
	if (status != UCS_OK)
		return status;
	*op_p = zipu_op_for(ep, put ? ZIPU_OP_PUT : ZIPU_OP_GET, iov, niov, total, remote_addr, rkey->key, comp);
	return *op_p ? UCS_OK : UCS_ERR_NO_RESOURCE;
}

ucs_status_t zipu_ep_put_zcopy(uct_ep_h handle, const uct_iov_t *uct_iov, size_t iovcnt, uint64_t remote_addr,
			       uct_rkey_t handle_rkey, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	struct zipu_iface *iface = zipu_ep_iface(ep);
	struct zipu_link *link;
	struct zipu_op *op;
	ucs_status_t status;

	status = zipu_zcopy_begin(ep, true, uct_iov, iovcnt, remote_addr, (const struct zipu_rkey *)handle_rkey, comp, &link, &op);
	if (!op)
		return status;
	zipu_put_set_zcopy(iface, op, uct_iov, iovcnt);
	op->sending = true;
	op->tx.step = zipu_put_step;
	op->tx.end = zipu_put_sent;
	zipu_link_queue(link, &op->tx);
	iface->raw_puts++;
	return UCS_INPROGRESS;
}

/* A put of a peer's has arrived, or a part of one. */
void zipu_rma_put(struct zipu_link *link, const struct zipu_msg_put *msg, const void *data, size_t len)
{
	struct zipu_md *md = link->iface->md;
	int known = zipu_mem_lock(md, msg->key, msg->address, len, UCT_MD_MEM_ACCESS_REMOTE_PUT);

	if (known) {
		memcpy((void *)(uintptr_t)msg->address, data, len);
		zipu_mem_unlock(md);
	} else {
		ucs_warn("zip: put of %zu bytes to %llx refused: the key is not known, or not for these bytes", len,
			 (unsigned long long)msg->address);
	}
	if (!known || msg->last)
		zipu_link_ack(link, msg->hdr.op, known ? UCS_OK : UCS_ERR_REJECTED);
}

void zipu_rma_ack(struct zipu_link *link, const struct zipu_msg_ack *msg)
{
	struct zipu_op *op = zipu_op_lookup(link->iface, msg->hdr.op, ZIPU_OP_PUT);

	if (!op)
		op = zipu_op_lookup(link->iface, msg->hdr.op, ZIPU_OP_GET);
	if (!op || !op->peer || op->peer->id != link->id) {
		ucs_debug("zip: late acknowledgement of operation %#x", msg->hdr.op);
		return;
	}
	if (!msg->status && (op->kind == ZIPU_OP_GET || op->at < op->total)) {
		ucs_warn("zip: operation %#x acknowledged before its end", msg->hdr.op);
		zipu_link_fail(link);
		return;
	}
	if (msg->status)
		zipu_op_reject(op, UCS_ERR_IO_ERROR);
	else
		zipu_op_finish(op, UCS_OK);
}

/* ---- get */

static ucs_status_t zipu_get_start(struct zipu_ep *ep, struct zipu_link *link, struct zipu_op *op)
{
	struct zipu_msg_get msg = {.address = op->address, .key = op->key, .length = op->total};
	ucs_status_t status;

	zipu_hdr_fill(link->iface, &msg.hdr, ZIPU_MSG_GET, op->id);
	status = zipu_link_send(link, &msg, sizeof(msg), NULL, 0, 0, 0, NULL, NULL);
	if (status != UCS_OK) {
		zipu_op_drop(op);
		return status;
	}
	zipu_ep_iface(ep)->raw_gets++;
	return UCS_INPROGRESS;
}

ucs_status_t zipu_ep_get_bcopy(uct_ep_h handle, uct_unpack_callback_t unpack, void *arg, size_t length, uint64_t remote_addr,
			       uct_rkey_t handle_rkey, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	struct zipu_iface *iface = zipu_ep_iface(ep);
	const struct zipu_rkey *rkey = (const struct zipu_rkey *)handle_rkey;
	struct zipu_link *link;
	struct zipu_op *op;
	ucs_status_t status;

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (zipu_below(iface, UCT_IFACE_FLAG_GET_BCOPY, rkey))
		return uct_ep_get_bcopy(ep->lower, unpack, arg, length, remote_addr, rkey->lower.rkey, comp);
	if (length > iface->frag_bcopy)
		return UCS_ERR_INVALID_PARAM;
	status = zipu_rma_link(ep, &link);
	if (status != UCS_OK)
		return status;
	op = zipu_op_for(ep, ZIPU_OP_GET, NULL, 0, length, remote_addr, rkey->key, comp);
	if (!op)
		return UCS_ERR_NO_RESOURCE;
	op->unpack = unpack;
	op->unpack_arg = arg;
	return zipu_get_start(ep, link, op);
}

ucs_status_t zipu_ep_get_zcopy(uct_ep_h handle, const uct_iov_t *uct_iov, size_t iovcnt, uint64_t remote_addr,
			       uct_rkey_t handle_rkey, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	struct zipu_link *link;
	struct zipu_op *op;
	ucs_status_t status;

	status = zipu_zcopy_begin(ep, false, uct_iov, iovcnt, remote_addr, (const struct zipu_rkey *)handle_rkey, comp, &link, &op);
	return op ? zipu_get_start(ep, link, op) : status;
}

/* An answer that is owed to a peer. */
struct zipu_reply {
	struct zipu_tx tx;
	struct zipu_msg_get msg;
	uint64_t at;
	ucs_status_t status; /* not UCS_OK: it is refused */
};

static void zipu_reply_end(struct zipu_link *link, struct zipu_tx *tx, ucs_status_t status)
{
	struct zipu_reply *reply = zipu_of(tx, zipu_reply, tx);
	uint32_t op = reply->msg.hdr.op;

	if (status == UCS_OK)
		status = reply->status;
	link->replies--;
	free(reply);
	if (status != UCS_OK)
		zipu_link_ack(link, op, status);
}

/* The data is copied out under the key's protection, and the key looked up for every part: it may go in between. */
static ucs_status_t zipu_reply_part(struct zipu_link *link, struct zipu_reply *reply, size_t n)
{
	struct zipu_md *md = link->iface->md;
	struct zipu_msg_data msg = {.offset = reply->at};
	uint64_t address = reply->msg.address + reply->at;
	struct iovec iov = {(void *)(uintptr_t)address, n};
	ucs_status_t status;

	if (!zipu_mem_lock(md, reply->msg.key, address, n, UCT_MD_MEM_ACCESS_REMOTE_GET))
		return UCS_ERR_REJECTED;
	zipu_hdr_fill(link->iface, &msg.hdr, ZIPU_MSG_DATA, reply->msg.hdr.op);
	status = zipu_link_send(link, &msg, sizeof(msg), &iov, 1, 0, n, NULL, NULL);
	zipu_mem_unlock(md);
	return status;
}

static ucs_status_t zipu_reply_step(struct zipu_link *link, struct zipu_tx *tx)
{
	struct zipu_reply *reply = zipu_of(tx, zipu_reply, tx);
	size_t most = link->iface->frag_bcopy, n;
	ucs_status_t status;

	do {
		n = reply->msg.length - reply->at < most ? (size_t)(reply->msg.length - reply->at) : most;
		status = zipu_reply_part(link, reply, n);
		if (status == UCS_ERR_REJECTED)
			break;
		if (status != UCS_OK)
			return status;
		reply->at += n;
	} while (reply->at < reply->msg.length);
	reply->status = status;
	if (status != UCS_OK)
		ucs_warn("zip: get of %llu bytes at %llx refused: the key is not known, or not for these bytes",
			 (unsigned long long)reply->msg.length, (unsigned long long)reply->msg.address);
	return UCS_OK;
}

void zipu_rma_get(struct zipu_link *link, const struct zipu_msg_get *msg)
{
	struct zipu_reply *reply;

	if (link->replies >= ZIPU_REPLIES_MAX) {
		ucs_warn("zip: a peer asks for more than it may: the link to it is given up");
		zipu_link_fail(link);
		return;
	}
	reply = calloc(1, sizeof(*reply));
	if (!reply) {
		zipu_link_ack(link, msg->hdr.op, UCS_ERR_NO_MEMORY);
		return;
	}
	reply->msg = *msg;
	reply->tx.step = zipu_reply_step;
	reply->tx.end = zipu_reply_end;
	link->replies++;
	zipu_link_queue(link, &reply->tx);
}

static void zipu_scatter(const struct zipu_op *op, const void *data, size_t len)
{
	size_t i, n, offset = op->at;
	const char *in = data;

	for (i = 0; i < op->niov && len; i++) {
		if (offset >= op->iov[i].iov_len) {
			offset -= op->iov[i].iov_len;
			continue;
		}
		n = op->iov[i].iov_len - offset < len ? op->iov[i].iov_len - offset : len;
		memcpy((char *)op->iov[i].iov_base + offset, in, n);
		in += n;
		len -= n;
		offset = 0;
	}
}

void zipu_rma_data(struct zipu_link *link, const struct zipu_msg_data *msg, const void *data, size_t len)
{
	struct zipu_op *op = zipu_op_lookup(link->iface, msg->hdr.op, ZIPU_OP_GET);

	if (!op || !op->peer || op->peer->id != link->id) {
		ucs_debug("zip: late data for operation %#x", msg->hdr.op);
		return;
	}
	if (msg->offset != op->at || len > op->total - op->at || (!len && op->total) || (op->unpack && len != op->total)) {
		ucs_warn("zip: data for operation %#x does not fit: %zu bytes at %llu, %zu of %zu are there", msg->hdr.op, len,
			 (unsigned long long)msg->offset, op->at, op->total);
		zipu_link_fail(link);
		return;
	}
	if (op->unpack)
		op->unpack(op->unpack_arg, data, len);
	else
		zipu_scatter(op, data, len);
	op->at += len;
	if (op->at == op->total)
		zipu_op_finish(op, UCS_OK);
}
