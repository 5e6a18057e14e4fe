/* SPDX-License-Identifier: BSD-3-Clause */
/* fi_rma: to the core as it is, with a record as context. */
#include "zipfi.h"

static struct zipfi_rec *zipfi_rma_rec(struct zipfi_ep *ep, void *context, uint64_t flags)
{
	struct zipfi_rec *rec = zipfi_rec_get(ep);

	if (!rec)
		return NULL;
	rec->kind = ZIPFI_REC_SEND;
	rec->context = context;
	rec->op_flags = FI_RMA; /* counted by the core's counter */
	rec->report = !ep->tx_selective || (flags & FI_COMPLETION);
	return rec;
}

/* Takes the record back when the core did not accept the operation. */
static ssize_t zipfi_rma_done(struct zipfi_rec *rec, ssize_t ret)
{
	if (ret)
		zipfi_rec_put(rec);
	return ret;
}

#define ZIPFI_RMA_BEGIN(flags)                                             \
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid);                \
	struct zipfi_rec *rec = zipfi_rma_rec(ep, context, flags);         \
	if (!rec)                                                          \
		return -FI_EAGAIN

static ssize_t zipfi_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr, uint64_t key,
			  void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_read(ep->core, buf, len, desc, src, addr, key, rec));
}

static ssize_t zipfi_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t addr,
			   uint64_t key, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_readv(ep->core, iov, desc, count, src, addr, key, rec));
}

static ssize_t zipfi_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_rma copy = *msg;
	ZIPFI_RMA_BEGIN(flags);

	copy.context = rec;
	return zipfi_rma_done(rec, fi_readmsg(ep->core, &copy, flags | FI_COMPLETION));
}

static ssize_t zipfi_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t addr,
			   uint64_t key, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_write(ep->core, buf, len, desc, dest, addr, key, rec));
}

static ssize_t zipfi_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
			    uint64_t addr, uint64_t key, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_writev(ep->core, iov, desc, count, dest, addr, key, rec));
}

static ssize_t zipfi_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_rma copy = *msg;
	ZIPFI_RMA_BEGIN(flags);

	copy.context = rec;
	return zipfi_rma_done(rec, fi_writemsg(ep->core, &copy, flags | FI_COMPLETION));
}

static ssize_t zipfi_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t addr, uint64_t key, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_writedata(ep->core, buf, len, desc, data, dest, addr, key, rec));
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
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_atomic(ep->core, buf, count, desc, dest, addr, key, datatype, op, rec));
}

static ssize_t zipfi_atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest,
				   uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_atomicv(ep->core, iov, desc, count, dest, addr, key, datatype, op, rec));
}

static ssize_t zipfi_atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_atomic copy = *msg;
	ZIPFI_RMA_BEGIN(flags);

	copy.context = rec;
	return zipfi_rma_done(rec, fi_atomicmsg(ep->core, &copy, flags | FI_COMPLETION));
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
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_fetch_atomic(ep->core, buf, count, desc, result, result_desc, dest, addr, key, datatype, op,
						   rec));
}

static ssize_t zipfi_atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				       struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
				       uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_fetch_atomicv(ep->core, iov, desc, count, resultv, result_desc, result_count, dest, addr,
						    key, datatype, op, rec));
}

static ssize_t zipfi_atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
					 void **result_desc, size_t result_count, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_atomic copy = *msg;
	ZIPFI_RMA_BEGIN(flags);

	copy.context = rec;
	return zipfi_rma_done(rec, fi_fetch_atomicmsg(ep->core, &copy, resultv, result_desc, result_count, flags | FI_COMPLETION));
}

static ssize_t zipfi_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, const void *compare,
				      void *compare_desc, void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
				      uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_compare_atomic(ep->core, buf, count, desc, compare, compare_desc, result, result_desc, dest,
						     addr, key, datatype, op, rec));
}

static ssize_t zipfi_atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
				       const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
				       struct fi_ioc *resultv, void **result_desc, size_t result_count, fi_addr_t dest,
				       uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	ZIPFI_RMA_BEGIN(ep->tx_flags);
	return zipfi_rma_done(rec, fi_compare_atomicv(ep->core, iov, desc, count, comparev, compare_desc, compare_count, resultv,
						      result_desc, result_count, dest, addr, key, datatype, op, rec));
}

static ssize_t zipfi_atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
					 void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
					 size_t result_count, uint64_t flags)
{
	void *context = msg->context;
	struct fi_msg_atomic copy = *msg;
	ZIPFI_RMA_BEGIN(flags);

	copy.context = rec;
	return zipfi_rma_done(rec, fi_compare_atomicmsg(ep->core, &copy, comparev, compare_desc, compare_count, resultv,
							result_desc, result_count, flags | FI_COMPLETION));
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
