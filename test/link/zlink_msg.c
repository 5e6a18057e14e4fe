/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting sends and receives, tagged and not. */
#include <string.h>

#include "zlink.h"

/* All the ways to send end here. iov may lie in memory of ours when flags say FI_INJECT. */
static ssize_t zlink_post_send(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, uint64_t tag, uint64_t data,
			       fi_addr_t dest, void *context, uint64_t flags)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid);
	struct zlink_domain *domain = ep->domain;
	struct zlink_av_entry *peer;
	struct zlink_op *op;
	ssize_t ret;

	zlink_lock(domain);
	ret = zlink_av_peer(ep->av, dest, &peer);
	if (!ret)
		ret = zlink_ep_op(ep, ZLINK_SEND, iov, desc, count, context, flags, &op);
	if (ret)
		goto out;
	op->flags = FI_SEND | (flags & FI_TAGGED ? FI_TAGGED : FI_MSG);
	op->tag = op->pkt.tag = tag;
	op->pkt.type = op->len <= peer->tx->map.eager ? ZLINK_PKT_EAGER : ZLINK_PKT_RTS;
	op->pkt.flags = (flags & FI_TAGGED ? ZLINK_F_TAGGED : 0) | (flags & FI_REMOTE_CQ_DATA ? ZLINK_F_DATA : 0) |
			(flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE) ? ZLINK_F_ACK : 0);
	op->pkt.data = flags & FI_REMOTE_CQ_DATA ? data : 0;
	op->pkt.dst_ep = peer->ep;
	op->pkt.len = op->len;
	op->total = op->len;
	strcpy(op->pkt.src, ep->name);
	zlink_tx_post(peer->tx, op);
out:
	/* Also when it is to be tried again: that may be all that a caller does meanwhile. */
	if (ret == -FI_EAGAIN)
		zlink_domain_progress(domain);
	else if (!ret)
		zlink_tx_progress(peer->tx, zlink_now());
	zlink_unlock(domain);
	return ret;
}

static ssize_t zlink_post_recv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t tag,
			       uint64_t ignore, void *context, uint64_t flags)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid);
	struct zlink_domain *domain = ep->domain;
	struct zlink_op *op;
	ssize_t ret;

	if (flags & FI_PEEK)
		count = 0;
	zlink_lock(domain);
	ret = zlink_ep_op(ep, ZLINK_RECV, iov, desc, count, context, flags, &op);
	if (ret)
		goto out;
	op->flags = FI_RECV | (flags & FI_TAGGED ? FI_TAGGED : FI_MSG);
	op->tag = tag;
	op->ignore = ignore;
	op->addr = ep->caps & FI_DIRECTED_RECV ? src : FI_ADDR_UNSPEC;
	if (flags & FI_PEEK) {
		zlink_domain_progress(domain);
		ret = zlink_match_peek(ep, op, flags);
	} else if (flags & FI_CLAIM) {
		ret = zlink_match_claimed(ep, op, flags);
	} else if (flags & FI_MULTI_RECV && op->niov != 1) {
		ret = -FI_EINVAL;
	} else {
		op->multi_recv = !!(flags & FI_MULTI_RECV);
		zlink_match_post(ep, op);
	}
	if (ret)
		zlink_op_put(domain, op);
out:
	zlink_unlock(domain);
	return ret;
}

static uint64_t zlink_tx_flags(struct fid_ep *fid)
{
	return zlink_of(fid, zlink_ep, fid)->tx_flags;
}

static uint64_t zlink_rx_flags(struct fid_ep *fid)
{
	return zlink_of(fid, zlink_ep, fid)->rx_flags;
}

/* Injected by fi_inject: no completion. */
#define ZLINK_QUIET(fid) ((zlink_tx_flags(fid) & ~(FI_COMPLETION | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)) | FI_INJECT | ZLINK_SILENT)

static ssize_t zlink_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	struct iovec iov = { buf, len };

	return zlink_post_recv(fid, &iov, &desc, 1, src, 0, 0, context, zlink_rx_flags(fid));
}

static ssize_t zlink_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, void *context)
{
	return zlink_post_recv(fid, iov, desc, count, src, 0, 0, context, zlink_rx_flags(fid));
}

static ssize_t zlink_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return zlink_post_recv(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, 0, 0, msg->context, flags);
}

static ssize_t zlink_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, &desc, 1, 0, 0, dest, context, zlink_tx_flags(fid));
}

static ssize_t zlink_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, void *context)
{
	return zlink_post_send(fid, iov, desc, count, 0, 0, dest, context, zlink_tx_flags(fid));
}

static ssize_t zlink_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return zlink_post_send(fid, msg->msg_iov, msg->desc, msg->iov_count, 0, msg->data, msg->addr, msg->context, flags);
}

static ssize_t zlink_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, NULL, 1, 0, 0, dest, NULL, ZLINK_QUIET(fid));
}

static ssize_t zlink_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			      void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, &desc, 1, 0, data, dest, context, zlink_tx_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t zlink_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, NULL, 1, 0, data, dest, NULL, ZLINK_QUIET(fid) | FI_REMOTE_CQ_DATA);
}

struct fi_ops_msg zlink_msg_ops = {
	.size = sizeof(struct fi_ops_msg), .recv = zlink_recv, .recvv = zlink_recvv, .recvmsg = zlink_recvmsg, .send = zlink_send,
	.sendv = zlink_sendv, .sendmsg = zlink_sendmsg, .inject = zlink_inject, .senddata = zlink_senddata,
	.injectdata = zlink_injectdata,
};

static ssize_t zlink_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
			   void *context)
{
	struct iovec iov = { buf, len };

	return zlink_post_recv(fid, &iov, &desc, 1, src, tag, ignore, context, zlink_rx_flags(fid) | FI_TAGGED);
}

static ssize_t zlink_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t tag,
			    uint64_t ignore, void *context)
{
	return zlink_post_recv(fid, iov, desc, count, src, tag, ignore, context, zlink_rx_flags(fid) | FI_TAGGED);
}

static ssize_t zlink_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return zlink_post_recv(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, msg->tag, msg->ignore, msg->context,
			       flags | FI_TAGGED);
}

static ssize_t zlink_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t tag, void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, &desc, 1, tag, 0, dest, context, zlink_tx_flags(fid) | FI_TAGGED);
}

static ssize_t zlink_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, uint64_t tag,
			    void *context)
{
	return zlink_post_send(fid, iov, desc, count, tag, 0, dest, context, zlink_tx_flags(fid) | FI_TAGGED);
}

static ssize_t zlink_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	return zlink_post_send(fid, msg->msg_iov, msg->desc, msg->iov_count, msg->tag, msg->data, msg->addr, msg->context,
			       flags | FI_TAGGED);
}

static ssize_t zlink_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest, uint64_t tag)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, NULL, 1, tag, 0, dest, NULL, ZLINK_QUIET(fid) | FI_TAGGED);
}

static ssize_t zlink_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t tag, void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, &desc, 1, tag, data, dest, context, zlink_tx_flags(fid) | FI_TAGGED | FI_REMOTE_CQ_DATA);
}

static ssize_t zlink_tinjectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_post_send(fid, &iov, NULL, 1, tag, data, dest, NULL, ZLINK_QUIET(fid) | FI_TAGGED | FI_REMOTE_CQ_DATA);
}

struct fi_ops_tagged zlink_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged), .recv = zlink_trecv, .recvv = zlink_trecvv, .recvmsg = zlink_trecvmsg,
	.send = zlink_tsend, .sendv = zlink_tsendv, .sendmsg = zlink_tsendmsg, .inject = zlink_tinject, .senddata = zlink_tsenddata,
	.injectdata = zlink_tinjectdata,
};
