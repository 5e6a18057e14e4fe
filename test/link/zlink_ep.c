/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: life, names, options, and what all posts have in common. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlink.h"
#include "zipfi_no.h"

/* FI_OPT_CUDA_API_PERMITTED; headers before libfabric 1.18 have no name for it. */
#define ZLINK_OPT_CUDA_API (FI_OPT_FI_HMEM_P2P + 2)
#define ZLINK_FLUSH_NS 2000000000ull

struct zlink_ep *zlink_ep_find(struct zlink_domain *domain, uint32_t id)
{
	struct zipc_list *entry;

	for (entry = domain->eps.next; entry != &domain->eps; entry = entry->next) {
		struct zlink_ep *ep = zlink_of(entry, zlink_ep, link);

		if (ep->id == id && ep->slot >= 0)
			return ep;
	}
	return NULL;
}

/* ---- what all posts have in common */

/* All memory of an operation is of one kind: host, or one device. */
static int zlink_op_memory(struct zlink_op *op, const struct iovec *iov, void **desc, size_t count)
{
	struct zlink_dev *dev;
	size_t i;

	if (count > ZLINK_IOV)
		return -FI_EINVAL;
	for (i = 0; i < count; i++) {
		dev = desc && desc[i] ? ((struct zlink_mr *)desc[i])->dev : op->dev;
		if (i && dev != op->dev)
			return -FI_EINVAL;
		op->dev = dev;
		op->iov[i] = iov[i];
		op->len += iov[i].iov_len;
	}
	op->niov = count;
	return 0;
}

/* The data is kept here: the caller's memory is free again. */
static int zlink_op_inject(struct zlink_domain *domain, struct zlink_op *op)
{
	struct zlink_ticket ticket;

	if (op->len > ZLINK_INJECT || op->dev != domain->host)
		return -FI_EINVAL;
	if (!op->len)
		return 0;
	op->buf = zlink_buf_get(domain->copier);
	if (!op->buf)
		return -FI_EAGAIN;
	zlink_op_copy(op, ZLINK_OUT, 0, op->buf, op->len, &ticket);
	op->iov[0] = (struct iovec){ op->buf, op->len };
	op->niov = 1;
	return 0;
}

int zlink_ep_op(struct zlink_ep *ep, enum zlink_kind kind, const struct iovec *iov, void **desc, size_t count, void *context,
		uint64_t flags, struct zlink_op **op_p)
{
	bool recv = kind == ZLINK_RECV;
	bool selective = recv ? ep->rx_selective : ep->tx_selective;
	struct zlink_op *op;
	int ret;

	if (ep->slot < 0)
		return -FI_EOPBADSTATE;
	if (!recv && ep->tx_pending >= ZLINK_TX_SIZE)
		return -FI_EAGAIN;
	op = zlink_op_get(ep->domain, kind, ep);
	if (!op)
		return -FI_EAGAIN;
	op->context = context;
	op->report = !(flags & ZLINK_SILENT) && (!selective || flags & FI_COMPLETION);
	ret = zlink_op_memory(op, iov, desc, count);
	if (!ret && !recv && flags & FI_INJECT)
		ret = zlink_op_inject(ep->domain, op);
	if (ret) {
		zlink_op_put(ep->domain, op);
		return ret;
	}
	ep->tx_pending += !recv;
	*op_p = op;
	return 0;
}

static ssize_t zlink_cancel(fid_t fid, void *context)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);
	struct zipc_list *entry;
	int i;

	zlink_lock(ep->domain);
	for (i = 0; i < 2; i++) {
		for (entry = ep->posted[i].next; entry != &ep->posted[i]; entry = entry->next) {
			struct zlink_op *op = zlink_of(entry, zlink_op, link);

			if (op->context != context)
				continue;
			zlink_op_finish(ep->domain, op, FI_ECANCELED);
			zlink_unlock(ep->domain);
			return 0;
		}
	}
	zlink_unlock(ep->domain);
	return 0;
}

/* ---- options and names */

static int zlink_getopt(fid_t fid, int level, int name, void *val, size_t *len)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(size_t))
		return -FI_ETOOSMALL;
	memcpy(val, &ep->min_multi, sizeof(size_t));
	*len = sizeof(size_t);
	return 0;
}

static int zlink_setopt(fid_t fid, int level, int name, const void *val, size_t len)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);
	bool permitted;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_MIN_MULTI_RECV && len == sizeof(size_t)) {
		memcpy(&ep->min_multi, val, sizeof(size_t));
		return 0;
	}
	if (name == (int)ZLINK_OPT_CUDA_API && len >= sizeof(permitted)) {
		memcpy(&permitted, val, sizeof(permitted));
		if (!zlink_copier_cuda(ep->domain->copier))
			return -FI_EINVAL;
		return permitted ? 0 : -FI_EOPNOTSUPP;
	}
	return -FI_ENOPROTOOPT;
}

static int zlink_setname(fid_t fid, void *addr, size_t len)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);

	if (ep->slot >= 0)
		return -FI_EBUSY;
	if (!len || strnlen(addr, len) == len || strnlen(addr, len) >= ZLINK_NAME_MAX)
		return -FI_EINVAL;
	strcpy(ep->name, addr);
	return 0;
}

static int zlink_getname(fid_t fid, void *addr, size_t *len)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);
	size_t need = strlen(ep->name) + 1, room = *len;

	*len = need;
	memcpy(addr, ep->name, need < room ? need : room);
	return need > room ? -FI_ETOOSMALL : 0;
}

static ssize_t zlink_rx_left(struct fid_ep *ep)
{
	(void)ep;
	return ZLINK_RX_SIZE;
}

static ssize_t zlink_tx_left_count(struct fid_ep *ep)
{
	return ZLINK_TX_SIZE - (ssize_t)zlink_of(ep, zlink_ep, fid)->tx_pending;
}

static struct fi_ops_ep zlink_ep_ops = {
	.size = sizeof(struct fi_ops_ep), .cancel = zlink_cancel, .getopt = zlink_getopt, .setopt = zlink_setopt,
	.tx_ctx = zipfi_no_tx_ctx, .rx_ctx = zipfi_no_rx_ctx, .rx_size_left = zlink_rx_left, .tx_size_left = zlink_tx_left_count,
};

static struct fi_ops_cm zlink_cm_ops = {
	.size = sizeof(struct fi_ops_cm), .setname = zlink_setname, .getname = zlink_getname, .getpeer = zipfi_no_getpeer,
	.connect = zipfi_no_connect, .listen = zipfi_no_listen, .accept = zipfi_no_accept, .reject = zipfi_no_reject,
	.shutdown = zipfi_no_shutdown, .join = zipfi_no_join,
};

/* ---- life */

static int zlink_bind_cq(struct zlink_ep *ep, struct zlink_cq *cq, uint64_t flags)
{
	if (!(flags & (FI_TRANSMIT | FI_RECV)) || flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = !!(flags & FI_SELECTIVE_COMPLETION);
		atomic_fetch_add(&cq->ref, 1);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = !!(flags & FI_SELECTIVE_COMPLETION);
		atomic_fetch_add(&cq->ref, 1);
	}
	return 0;
}

static int zlink_bind_cntr(struct zlink_ep *ep, struct zlink_cntr *cntr, uint64_t flags)
{
	static const uint64_t which[ZLINK_CNTRS] = { FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	int i;

	for (i = 0; i < ZLINK_CNTRS; i++) {
		if (!(flags & which[i]))
			continue;
		if (ep->cntr[i])
			atomic_fetch_sub(&ep->cntr[i]->ref, 1);
		ep->cntr[i] = cntr;
		atomic_fetch_add(&cntr->ref, 1);
	}
	return 0;
}

static int zlink_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);

	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return zlink_bind_cq(ep, zlink_of(bfid, zlink_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return zlink_bind_cntr(ep, zlink_of(bfid, zlink_cntr, fid.fid), flags);
	case FI_CLASS_AV:
		if (ep->av)
			return -FI_EINVAL;
		ep->av = zlink_of(bfid, zlink_av, fid.fid);
		atomic_fetch_add(&ep->av->ref, 1);
		return 0;
	case FI_CLASS_EQ:
		return 0;
	default:
		return -FI_EINVAL;
	}
}

static int zlink_ep_enable(struct zlink_ep *ep)
{
	struct zlink_domain *domain = ep->domain;
	char id[ZLINK_ID_MAX];
	uint32_t other;
	int i = 0;

	if (ep->slot >= 0)
		return 0;
	if (!ep->av)
		return -FI_EOPBADSTATE;
	if (!zlink_resolve(ep->name, id, &other))
		return -FI_EADDRINUSE;
	zlink_lock(domain);
	while (i < (int)ZLINK_EPS && atomic_load(&domain->node->eps[i].id))
		i++;
	if (i < (int)ZLINK_EPS) {
		ep->id = ++domain->next_ep;
		ep->slot = i;
		strcpy(domain->node->eps[i].name, ep->name);
		atomic_store_explicit(&domain->node->eps[i].id, ep->id, memory_order_release);
	}
	zlink_unlock(domain);
	return ep->slot < 0 ? -FI_ENOSPC : 0;
}

static int zlink_ep_control(struct fid *fid, int command, void *arg)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);
	uint64_t *flags = arg;

	switch (command) {
	case FI_ENABLE:
		return zlink_ep_enable(ep);
	case FI_GETOPSFLAG:
		*flags = *flags & FI_TRANSMIT ? ep->tx_flags : ep->rx_flags;
		return 0;
	case FI_SETOPSFLAG:
		if (*flags & FI_TRANSMIT)
			ep->tx_flags = *flags & ~(FI_TRANSMIT | FI_RECV);
		else if (*flags & FI_RECV)
			ep->rx_flags = *flags & ~(FI_TRANSMIT | FI_RECV);
		else
			return -FI_EINVAL;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

/* What fi_inject took has to go out; and no copy may be under way in memory that the user has back. */
static void zlink_ep_flush(struct zlink_ep *ep, bool begun)
{
	uint64_t end = zlink_now() + ZLINK_FLUSH_NS;
	struct zipc_list *entry;
	bool busy;

	do {
		zlink_domain_progress(ep->domain);
		busy = begun && zlink_op_inflight(ep->domain, ep, NULL);
		for (entry = ep->domain->txs.next; !begun && entry != &ep->domain->txs; entry = entry->next)
			busy |= !zlink_tx_idle(zlink_of(entry, zlink_tx, link));
	} while (busy && zlink_now() < end);
}

static int zlink_ep_close(struct fid *fid)
{
	struct zlink_ep *ep = zlink_of(fid, zlink_ep, fid.fid);
	struct zlink_domain *domain = ep->domain;
	int i;

	zlink_lock(domain);
	zlink_ep_flush(ep, false);
	ep->closing = true;
	if (ep->slot >= 0)
		atomic_store(&domain->node->eps[ep->slot].id, 0);
	ep->slot = -1;
	zlink_op_end_all(domain, ep, NULL, NULL, NULL, FI_ECANCELED);
	zlink_ep_flush(ep, true);
	zlink_op_disown(domain, ep);
	zipc_list_remove(&ep->link);
	zlink_domain_progress(domain);
	zlink_unlock(domain);
	if (ep->tx_cq)
		atomic_fetch_sub(&ep->tx_cq->ref, 1);
	if (ep->rx_cq)
		atomic_fetch_sub(&ep->rx_cq->ref, 1);
	for (i = 0; i < ZLINK_CNTRS; i++)
		if (ep->cntr[i])
			atomic_fetch_sub(&ep->cntr[i]->ref, 1);
	if (ep->av)
		atomic_fetch_sub(&ep->av->ref, 1);
	atomic_fetch_sub(&domain->ref, 1);
	free(ep);
	return 0;
}

static struct fi_ops zlink_ep_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_ep_close, .bind = zlink_ep_bind, .control = zlink_ep_control,
	.ops_open = zipfi_no_ops_open,
};

static void zlink_ep_init(struct zlink_ep *ep, struct zlink_domain *domain, struct fi_info *info, void *context)
{
	ep->domain = domain;
	ep->slot = -1;
	ep->caps = info->caps;
	ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->min_multi = 64;
	for (int i = 0; i < 2; i++) {
		zipc_list_init(&ep->posted[i]);
		zipc_list_init(&ep->unexpected[i]);
	}
	zipc_list_init(&ep->claimed);
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &zlink_ep_fi_ops;
	ep->fid.ops = &zlink_ep_ops;
	ep->fid.cm = &zlink_cm_ops;
	ep->fid.msg = &zlink_msg_ops;
	ep->fid.tagged = &zlink_tagged_ops;
	ep->fid.rma = &zlink_rma_ops;
}

int zlink_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep_p, void *context)
{
	struct zlink_domain *domain = zlink_of(fid, zlink_domain, fid);
	struct zlink_ep *ep;

	if (!info || !info->ep_attr || info->ep_attr->type != FI_EP_RDM)
		return -FI_EINVAL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -FI_ENOMEM;
	zlink_ep_init(ep, domain, info, context);
	zlink_lock(domain);
	if (info->src_addr && info->src_addrlen && strnlen(info->src_addr, info->src_addrlen) < ZLINK_NAME_MAX &&
	    strncmp(info->src_addr, ZLINK_AUTO, strlen(ZLINK_AUTO)))
		snprintf(ep->name, sizeof(ep->name), "%.*s", (int)info->src_addrlen, (const char *)info->src_addr);
	else
		snprintf(ep->name, sizeof(ep->name), ZLINK_AUTO "%s_%u", domain->id, domain->next_name++);
	zipc_list_append(&domain->eps, &ep->link);
	zlink_unlock(domain);
	atomic_fetch_add(&domain->ref, 1);
	*ep_p = &ep->fid;
	return 0;
}
