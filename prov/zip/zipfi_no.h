/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an object answers that cannot do something: -FI_ENOSYS. libfabric calls through these tables without a look, so that none of
 * their entries may be empty. Also those of test/link.
 */
#ifndef ZIPFI_NO_H
#define ZIPFI_NO_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

int zipfi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int zipfi_no_control(struct fid *fid, int command, void *arg);
/* What an operation set does with a wrapped fid is unknown, so none is handed through. */
int zipfi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int zipfi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep, void *context);
int zipfi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep, void *context);
int zipfi_no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen);
int zipfi_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
int zipfi_no_listen(struct fid_pep *pep);
int zipfi_no_accept(struct fid_ep *ep, const void *param, size_t paramlen);
int zipfi_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
int zipfi_no_shutdown(struct fid_ep *ep, uint64_t flags);
int zipfi_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context);
int zipfi_no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);
int zipfi_no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context);
int zipfi_no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context);
int zipfi_no_query_collective(struct fid_domain *domain, enum fi_collective_op coll, struct fi_collective_attr *attr, uint64_t flags);
int zipfi_no_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context);

#endif
