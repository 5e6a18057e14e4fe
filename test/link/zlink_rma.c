/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting writes and reads. A write completes when the target says that it is in place. */
#include <string.h>

#include "zlink.h"

static ssize_t zlink_post_rma(struct fid_ep *fid, enum zlink_kind kind, const struct iovec *iov, void **desc, size_t count,
			      const struct fi_rma_iov *rma, size_t rma_count, uint64_t data, fi_addr_t peer_addr, void *context,
			      uint64_t flags)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid);
	struct zlink_domain *domain = ep->domain;
	struct zlink_av_entry *peer;
	struct zlink_op *op;
	size_t i, len = 0;
	ssize_t ret;

	if (!rma_count || rma_count > ZLINK_RMA_IOV)
		return -FI_EINVAL;
	for (i = 0; i < rma_count; i++)
		len += rma[i].len;
	zlink_lock(domain);
	ret = zlink_av_peer(ep->av, peer_addr, &peer);
	if (!ret)
		ret = zlink_ep_op(ep, kind, iov, desc, count, context, flags, &op);
	if (ret)
		goto out;
	op->flags = FI_RMA | (kind == ZLINK_WRITE ? FI_WRITE : FI_READ);
	op->pkt.type = kind == ZLINK_WRITE ? ZLINK_PKT_WRITE : ZLINK_PKT_READ;
	op->pkt.flags = (flags & FI_REMOTE_CQ_DATA ? ZLINK_F_DATA : 0) |
			(kind == ZLINK_WRITE && op->len <= peer->tx->map.eager ? ZLINK_F_INLINE : 0);
	op->pkt.data = data;
	op->pkt.dst_ep = peer->ep;
	op->pkt.len = op->len;
	op->pkt.count = rma_count;
	memcpy(op->pkt.rma, rma, rma_count * sizeof(*rma));
	op->total = op->len;
	if (len != op->len) {
		ep->tx_pending--;
		zlink_op_put(domain, op);
		ret = -FI_EINVAL;
		goto out;
	}
	zlink_tx_post(peer->tx, op);
out:
	if (ret == -FI_EAGAIN)
		zlink_domain_progress(domain);
	else if (!ret)
		zlink_tx_progress(peer->tx, zlink_now());
	zlink_unlock(domain);
	return ret;
}

static size_t zlink_iov_len(const struct iovec *iov, size_t count)
{
	size_t i, len = 0;

	for (i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

static uint64_t zlink_flags(struct fid_ep *fid)
{
	return zlink_of(fid, zlink_ep, fid)->tx_flags;
}

static ssize_t zlink_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t addr,
			   uint64_t key, void *context)
{
	struct fi_rma_iov rma = { addr, zlink_iov_len(iov, count), key };

	return zlink_post_rma(fid, ZLINK_READ, iov, desc, count, &rma, 1, 0, src, context, zlink_flags(fid) & ~FI_INJECT);
}

static ssize_t zlink_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr, uint64_t key,
			  void *context)
{
	struct iovec iov = { buf, len };

	return zlink_readv(fid, &iov, &desc, 1, src, addr, key, context);
}

static ssize_t zlink_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return zlink_post_rma(fid, ZLINK_READ, msg->msg_iov, msg->desc, msg->iov_count, msg->rma_iov, msg->rma_iov_count, 0, msg->addr,
			      msg->context, flags & ~FI_INJECT);
}

static ssize_t zlink_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, uint64_t addr,
			    uint64_t key, void *context)
{
	struct fi_rma_iov rma = { addr, zlink_iov_len(iov, count), key };

	return zlink_post_rma(fid, ZLINK_WRITE, iov, desc, count, &rma, 1, 0, dest, context, zlink_flags(fid));
}

static ssize_t zlink_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t addr, uint64_t key,
			   void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_writev(fid, &iov, &desc, 1, dest, addr, key, context);
}

static ssize_t zlink_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return zlink_post_rma(fid, ZLINK_WRITE, msg->msg_iov, msg->desc, msg->iov_count, msg->rma_iov, msg->rma_iov_count, msg->data,
			      msg->addr, msg->context, flags);
}

static ssize_t zlink_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct fi_rma_iov rma = { addr, len, key };

	return zlink_post_rma(fid, ZLINK_WRITE, &iov, &desc, 1, &rma, 1, data, dest, context, zlink_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t zlink_inject_flags(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
				  uint64_t key, uint64_t flags)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct fi_rma_iov rma = { addr, len, key };

	return zlink_post_rma(fid, ZLINK_WRITE, &iov, NULL, 1, &rma, 1, data, dest, NULL, flags | FI_INJECT | ZLINK_SILENT);
}

static ssize_t zlink_inject_write(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	return zlink_inject_flags(fid, buf, len, 0, dest, addr, key, 0);
}

static ssize_t zlink_inject_writedata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
				      uint64_t key)
{
	return zlink_inject_flags(fid, buf, len, data, dest, addr, key, FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma zlink_rma_ops = {
	.size = sizeof(struct fi_ops_rma), .read = zlink_read, .readv = zlink_readv, .readmsg = zlink_readmsg, .write = zlink_write,
	.writev = zlink_writev, .writemsg = zlink_writemsg, .inject = zlink_inject_write, .writedata = zlink_writedata,
	.injectdata = zlink_inject_writedata,
};
