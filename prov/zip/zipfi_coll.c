/* SPDX-License-Identifier: BSD-3-Clause */
/* fi_collective: refused, from a full table, because its callers do not look whether a function is there. */
#include <rdma/fi_collective.h>

#include "zipfi.h"

/* The parameters have no names: none is looked at. C11 wants names in a definition, so they are spelled and unused. */
#define ZIPFI_UNUSED __attribute__((unused))

static ssize_t zipfi_barrier(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED fi_addr_t addr, ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_barrier2(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED fi_addr_t addr, ZIPFI_UNUSED uint64_t flags,
			      ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_broadcast(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED void *buf, ZIPFI_UNUSED size_t count,
			       ZIPFI_UNUSED void *desc, ZIPFI_UNUSED fi_addr_t coll, ZIPFI_UNUSED fi_addr_t root,
			       ZIPFI_UNUSED enum fi_datatype datatype, ZIPFI_UNUSED uint64_t flags, ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_alltoall(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED const void *buf, ZIPFI_UNUSED size_t count,
			      ZIPFI_UNUSED void *desc, ZIPFI_UNUSED void *result, ZIPFI_UNUSED void *result_desc,
			      ZIPFI_UNUSED fi_addr_t coll, ZIPFI_UNUSED enum fi_datatype datatype, ZIPFI_UNUSED uint64_t flags,
			      ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_allreduce(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED const void *buf, ZIPFI_UNUSED size_t count,
			       ZIPFI_UNUSED void *desc, ZIPFI_UNUSED void *result, ZIPFI_UNUSED void *result_desc,
			       ZIPFI_UNUSED fi_addr_t coll, ZIPFI_UNUSED enum fi_datatype datatype, ZIPFI_UNUSED enum fi_op op,
			       ZIPFI_UNUSED uint64_t flags, ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_reduce(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED const void *buf, ZIPFI_UNUSED size_t count,
			    ZIPFI_UNUSED void *desc, ZIPFI_UNUSED void *result, ZIPFI_UNUSED void *result_desc,
			    ZIPFI_UNUSED fi_addr_t coll, ZIPFI_UNUSED fi_addr_t root, ZIPFI_UNUSED enum fi_datatype datatype,
			    ZIPFI_UNUSED enum fi_op op, ZIPFI_UNUSED uint64_t flags, ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_scatter(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED const void *buf, ZIPFI_UNUSED size_t count,
			     ZIPFI_UNUSED void *desc, ZIPFI_UNUSED void *result, ZIPFI_UNUSED void *result_desc,
			     ZIPFI_UNUSED fi_addr_t coll, ZIPFI_UNUSED fi_addr_t root, ZIPFI_UNUSED enum fi_datatype datatype,
			     ZIPFI_UNUSED uint64_t flags, ZIPFI_UNUSED void *context)
{
	return -FI_ENOSYS;
}

static ssize_t zipfi_coll_msg(ZIPFI_UNUSED struct fid_ep *ep, ZIPFI_UNUSED const struct fi_msg_collective *msg,
			      ZIPFI_UNUSED struct fi_ioc *resultv, ZIPFI_UNUSED void **result_desc,
			      ZIPFI_UNUSED size_t result_count, ZIPFI_UNUSED uint64_t flags)
{
	return -FI_ENOSYS;
}

struct fi_ops_collective zipfi_collective_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = zipfi_barrier,
	.broadcast = zipfi_broadcast,
	.alltoall = zipfi_alltoall,
	.allreduce = zipfi_allreduce,
	.allgather = zipfi_alltoall,
	.reduce_scatter = zipfi_allreduce,
	.reduce = zipfi_reduce,
	.scatter = zipfi_scatter,
	.gather = zipfi_scatter,
	.msg = zipfi_coll_msg,
	.barrier2 = zipfi_barrier2,
};
