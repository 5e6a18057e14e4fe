/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_rma: writes and reads that are large enough are offered to the engine first; all others go to the core as they are, with a
 * record as context. So do fi_atomic's.
 */
#include "zipfi.h"

/* Flags that a transfer can honour. */
#define ZIPFI_RMA_FLAGS (FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | \
			 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

/* A write or a read in one form, whichever call it came by. */
struct zipfi_rma {
	const struct iovec *iov;
	size_t niov, total;
	fi_addr_t peer;
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS];
	size_t nsegs;
	uint64_t data, flags;
	bool write;
	void *context;
};

static struct zipfi_rec *zipfi_rma_rec(struct zipfi_ep *ep, void *context, uint64_t flags)
{
	struct zipfi_rec *rec = zipfi_rec_get(ep);

	if (!rec)
		return NULL;
	rec->kind = ZIPFI_REC_SEND;
	rec->context = context;
	rec->op_flags = FI_RMA; /* counted by the core's counter */
	rec->report = !ep->tx_selective || (flags & FI_COMPLETION);
	if (flags & FI_FENCE)
		zipfi_fence_begin(rec);
	return rec;
}

/* Takes the record back when the core did not accept the operation. `raw`: 1 + why it was not a transfer. */
static ssize_t zipfi_rma_done_raw(struct zipfi_rec *rec, ssize_t ret, ssize_t raw, size_t nbytes)
{
	if (ret) {
		zipfi_fence_end(rec);
		zipfi_rec_put(rec);
	} else if (raw != 1 + ZIPC_RAW_SMALL) {
		zipfi_count_raw(rec->ep, NULL, (enum zipc_raw_reason)(raw - 1), nbytes);
	}
	return ret;
}

/* ---- the way through the engine */

/*
 * A target that is told of a write (by a completion, or by its initiator, who knows when it is in place) is not in a hurry.
 * Any other may poll its memory: that is worth a transfer only where a lot is written.
 */
static bool zipfi_rma_is_polled(const struct zipfi_rma *op)
{
	return op->write && !(op->flags & (FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE));
}

/* 0 when it may be a transfer, else 1 + reason. */
static int zipfi_rma_may(const struct zipfi_ep *ep, const struct zipfi_rma *op)
{
	bool polled = zipfi_rma_is_polled(op);

	if (polled && op->total < ZIPFI_RMA_POLLED && zipfi_param.policy != ZIPC_POLICY_ALWAYS)
		return 1 + ZIPC_RAW_SMALL;
	if (ep->rma_raw || (op->flags & ~ZIPFI_RMA_FLAGS) || (polled && ep->in_order) || atomic_load(&ep->fences))
		return 1 + ZIPC_RAW_OFF;
	return 0;
}

/* Begins a transfer and commits it. Under ep->lock. */
static int zipfi_rma_start(struct zipfi_ep *ep, const struct zipfi_rma *op, const struct zipfi_addr *addr, struct zipfi_rec *rec)
{
	unsigned flags = (op->flags & FI_REMOTE_CQ_DATA ? ZIPC_RMA_DATA : 0) | (zipfi_rma_is_polled(op) ? ZIPC_RMA_POLL : 0);
	struct zipc_peer *peer = zipfi_peer(ep, addr);
	struct zipc_send *send;
	struct zipc_recv *recv;
	int ret;

	if (op->write) {
		ret = zipc_write_begin(ep->engine, peer, op->iov, op->niov, op->segs, op->nsegs, op->data, flags, rec, &send);
		if (!ret)
			zipc_send_commit(send);
	} else {
		ret = zipc_read_begin(ep->engine, peer, op->iov, op->niov, op->segs, op->nsegs, 0, rec, &recv);
		if (!ret)
			zipc_read_commit(recv);
	}
	if (!ret)
		zipfi_comp_progress(ep);
	return ret;
}

/* Returns 1 + reason when the operation is to go to the core as it is, 0 when a transfer was started, else an error. */
static ssize_t zipfi_rma_try(struct zipfi_ep *ep, const struct zipfi_rma *op)
{
	uint64_t kind = FI_RMA | (op->write ? FI_WRITE : FI_READ);
	struct zipfi_addr addr;
	struct zipfi_rec *rec;
	int ret = zipfi_rma_may(ep, op);

	if (ret)
		return ret;
	if (zipfi_av_lookup_main(ep->av, op->peer, &addr))
		return 1 + ZIPC_RAW_PEER;
	rec = zipfi_rma_rec(ep, op->context, op->flags);
	if (!rec)
		return -FI_EAGAIN;
	rec->kind = ZIPFI_REC_XFER;
	rec->op_flags = kind;
	rec->done = (struct fi_cq_tagged_entry){.flags = kind, .len = op->total};
	zipfi_lock(ep->domain, &ep->lock);
	ret = zipfi_rma_start(ep, op, &addr, rec);
	zipfi_unlock(ep->domain, &ep->lock);
	if (ret)
		zipfi_rec_put(rec);
	return ret == ZIPC_ERR_AGAIN ? -FI_EAGAIN : ret;
}

/* As above, for one piece of memory at the other side. */
static ssize_t zipfi_rma_offer(struct zipfi_ep *ep, bool write, const struct iovec *iov, size_t niov, fi_addr_t peer, uint64_t addr,
			       uint64_t key, uint64_t data, uint64_t flags, void *context)
{
	struct zipfi_rma op = {
		.iov = iov, .niov = niov, .peer = peer, .nsegs = 1, .data = data, .flags = flags, .write = write, .context = context,
	};
	size_t i;

	if (!ep->engine || ep->hmem) /* with device memory about, remote memory is the core's alone */
		return 1 + ZIPC_RAW_SMALL;
	for (i = 0; i < niov; i++)
		op.total += iov[i].iov_len;
	if (op.total < zipfi_param.min_size || niov > ZIPFI_IOV_MAX)
		return 1 + ZIPC_RAW_SMALL;
	op.segs[0] = (struct zipc_rma_seg){addr, op.total, key};
	return zipfi_rma_try(ep, &op);
}

static ssize_t zipfi_rma_offer_msg(struct zipfi_ep *ep, bool write, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct zipfi_rma op = {
		.iov = msg->msg_iov, .niov = msg->iov_count, .peer = msg->addr, .nsegs = msg->rma_iov_count, .data = msg->data,
		.flags = flags, .write = write, .context = msg->context,
	};
	size_t i;

	if (!ep->engine || ep->hmem) /* with device memory about, remote memory is the core's alone */
		return 1 + ZIPC_RAW_SMALL;
	for (i = 0; i < op.niov; i++)
		op.total += op.iov[i].iov_len;
	if (op.total < zipfi_param.min_size || op.niov > ZIPFI_IOV_MAX || op.nsegs > ZIPC_RMA_SEGS)
		return 1 + ZIPC_RAW_SMALL;
	for (i = 0; i < op.nsegs; i++)
		op.segs[i] = (struct zipc_rma_seg){msg->rma_iov[i].addr, msg->rma_iov[i].len, msg->rma_iov[i].key};
	return zipfi_rma_try(ep, &op);
}

/* ---- calls */

/* Declares ep, rec and raw, and returns unless the operation is to go to the core. */
#define ZIPFI_RMA_BEGIN(flags, peer, offer)                                \
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid);                \
	struct zipfi_rec *rec;                                             \
	ssize_t raw;                                                       \
	if (((flags) & FI_FENCE) && zipfi_fence(ep, peer))                 \
		return -FI_EAGAIN;                                         \
	raw = (offer);                                                     \
	if (raw <= 0)                                                      \
		return raw;                                                \
	rec = zipfi_rma_rec(ep, context, flags);                           \
	if (!rec)                                                          \
		return -FI_EAGAIN

/* The same for an atomic operation, which never is a transfer. */
#define ZIPFI_ATOMIC_BEGIN(flags, peer) ZIPFI_RMA_BEGIN(flags, peer, 1 + ZIPC_RAW_SMALL)

static ssize_t zipfi_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr, uint64_t key,
			  void *context)
{
	const struct iovec iov = {buf, len};
	ZIPFI_RMA_BEGIN(ep->tx_flags, src, zipfi_rma_offer(ep, false, &iov, 1, src, addr, key, 0, ep->tx_flags, context));

	return zipfi_rma_done_raw(rec, fi_read(ep->core, buf, len, desc, src, addr, key, rec), raw, len);
}

static ssize_t zipfi_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t addr,
			   uint64_t key, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags, src, zipfi_rma_offer(ep, false, iov, count, src, addr, key, 0, ep->tx_flags, context));

	return zipfi_rma_done_raw(rec, fi_readv(ep->core, iov, desc, count, src, addr, key, rec), raw, zipfi_iov_total(iov, count));
}

static ssize_t zipfi_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_rma copy = *msg;
	ZIPFI_RMA_BEGIN(flags, msg->addr, zipfi_rma_offer_msg(ep, false, msg, flags));

	copy.context = rec;
	return zipfi_rma_done_raw(rec, fi_readmsg(ep->core, &copy, flags | FI_COMPLETION), raw,
				  zipfi_iov_total(msg->msg_iov, msg->iov_count));
}

static ssize_t zipfi_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t addr,
			   uint64_t key, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	ZIPFI_RMA_BEGIN(ep->tx_flags, dest, zipfi_rma_offer(ep, true, &iov, 1, dest, addr, key, 0, ep->tx_flags, context));

	return zipfi_rma_done_raw(rec, fi_write(ep->core, buf, len, desc, dest, addr, key, rec), raw, len);
}

static ssize_t zipfi_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
			    uint64_t addr, uint64_t key, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags, dest, zipfi_rma_offer(ep, true, iov, count, dest, addr, key, 0, ep->tx_flags, context));

	return zipfi_rma_done_raw(rec, fi_writev(ep->core, iov, desc, count, dest, addr, key, rec), raw, zipfi_iov_total(iov, count));
}

static ssize_t zipfi_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_rma copy = *msg;
	ZIPFI_RMA_BEGIN(flags, msg->addr, zipfi_rma_offer_msg(ep, true, msg, flags));

	copy.context = rec;
	return zipfi_rma_done_raw(rec, fi_writemsg(ep->core, &copy, flags | FI_COMPLETION), raw,
				  zipfi_iov_total(msg->msg_iov, msg->iov_count));
}

static ssize_t zipfi_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	ZIPFI_RMA_BEGIN(ep->tx_flags, dest, zipfi_rma_offer(ep, true, &iov, 1, dest, addr, key, data,
							    ep->tx_flags | FI_REMOTE_CQ_DATA, context));

	return zipfi_rma_done_raw(rec, fi_writedata(ep->core, buf, len, desc, data, dest, addr, key, rec), raw, len);
}

static ssize_t zipfi_inject_write(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	return fi_inject_write(zipfi_of(fid, zipfi_ep, fid)->core, buf, len, dest, addr, key);
}

static ssize_t zipfi_inject_writedata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest,
				      uint64_t addr, uint64_t key)
{
	return fi_inject_writedata(zipfi_of(fid, zipfi_ep, fid)->core, buf, len, data, dest, addr, key);
}

struct fi_ops_rma zipfi_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = zipfi_read,
	.readv = zipfi_readv,
	.readmsg = zipfi_readmsg,
	.write = zipfi_write,
	.writev = zipfi_writev,
	.writemsg = zipfi_writemsg,
	.inject = zipfi_inject_write,
	.writedata = zipfi_writedata,
	.injectdata = zipfi_inject_writedata,
};

/* ---- fi_atomic */

static ssize_t zipfi_atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc, fi_addr_t dest, uint64_t addr,
				  uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_ATOMIC_BEGIN(ep->tx_flags, dest);
	return zipfi_rma_done_raw(rec, fi_atomic(ep->core, buf, count, desc, dest, addr, key, datatype, op, rec), raw, 0);
}

static ssize_t zipfi_atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest,
				   uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_ATOMIC_BEGIN(ep->tx_flags, dest);
	return zipfi_rma_done_raw(rec, fi_atomicv(ep->core, iov, desc, count, dest, addr, key, datatype, op, rec), raw, 0);
}

static ssize_t zipfi_atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_atomic copy = *msg;
	ZIPFI_ATOMIC_BEGIN(flags, msg->addr);

	copy.context = rec;
	return zipfi_rma_done_raw(rec, fi_atomicmsg(ep->core, &copy, flags | FI_COMPLETION), raw, 0);
}

static ssize_t zipfi_atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
				   enum fi_datatype datatype, enum fi_op op)
{
	return fi_inject_atomic(zipfi_of(fid, zipfi_ep, fid)->core, buf, count, dest, addr, key, datatype, op);
}

static ssize_t zipfi_atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
				      void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype datatype,
				      enum fi_op op, void *context)
{
	ZIPFI_ATOMIC_BEGIN(ep->tx_flags, dest);
	return zipfi_rma_done_raw(rec, fi_fetch_atomic(ep->core, buf, count, desc, result, result_desc, dest, addr, key, datatype, op,
						   rec), raw, 0);
}

static ssize_t zipfi_atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				       struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
				       uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_ATOMIC_BEGIN(ep->tx_flags, dest);
	return zipfi_rma_done_raw(rec, fi_fetch_atomicv(ep->core, iov, desc, count, resultv, result_desc, result_count, dest, addr,
						    key, datatype, op, rec), raw, 0);
}

static ssize_t zipfi_atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
					 void **result_desc, size_t result_count, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_atomic copy = *msg;
	ZIPFI_ATOMIC_BEGIN(flags, msg->addr);

	copy.context = rec;
	return zipfi_rma_done_raw(rec, fi_fetch_atomicmsg(ep->core, &copy, resultv, result_desc, result_count, flags | FI_COMPLETION), raw, 0);
}

static ssize_t zipfi_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compare,
				      void *compare_desc, void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
				      uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_ATOMIC_BEGIN(ep->tx_flags, dest);
	return zipfi_rma_done_raw(rec, fi_compare_atomic(ep->core, buf, count, desc, compare, compare_desc, result, result_desc, dest,
						     addr, key, datatype, op, rec), raw, 0);
}

static ssize_t zipfi_atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				       const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				       struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
				       uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_ATOMIC_BEGIN(ep->tx_flags, dest);
	return zipfi_rma_done_raw(rec, fi_compare_atomicv(ep->core, iov, desc, count, comparev, compare_desc, compare_count, resultv,
						      result_desc, result_count, dest, addr, key, datatype, op, rec), raw, 0);
}

static ssize_t zipfi_atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
					 void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
					 size_t result_count, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_atomic copy = *msg;
	ZIPFI_ATOMIC_BEGIN(flags, msg->addr);

	copy.context = rec;
	return zipfi_rma_done_raw(rec, fi_compare_atomicmsg(ep->core, &copy, comparev, compare_desc, compare_count, resultv,
							result_desc, result_count, flags | FI_COMPLETION), raw, 0);
}

static int zipfi_atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return fi_atomicvalid(zipfi_of(fid, zipfi_ep, fid)->core, datatype, op, count);
}

static int zipfi_atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return fi_fetch_atomicvalid(zipfi_of(fid, zipfi_ep, fid)->core, datatype, op, count);
}

static int zipfi_atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return fi_compare_atomicvalid(zipfi_of(fid, zipfi_ep, fid)->core, datatype, op, count);
}

struct fi_ops_atomic zipfi_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = zipfi_atomic_write,
	.writev = zipfi_atomic_writev,
	.writemsg = zipfi_atomic_writemsg,
	.inject = zipfi_atomic_inject,
	.readwrite = zipfi_atomic_readwrite,
	.readwritev = zipfi_atomic_readwritev,
	.readwritemsg = zipfi_atomic_readwritemsg,
	.compwrite = zipfi_atomic_compwrite,
	.compwritev = zipfi_atomic_compwritev,
	.compwritemsg = zipfi_atomic_compwritemsg,
	.writevalid = zipfi_atomic_writevalid,
	.readwritevalid = zipfi_atomic_readwritevalid,
	.compwritevalid = zipfi_atomic_compwritevalid,
};
