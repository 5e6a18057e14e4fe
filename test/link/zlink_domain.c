/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabric, domain with its progress, memory regions. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "zlink.h"
#include "zipfi_no.h"

#define ZLINK_LOOK_NS 100000000ull /* between two looks whether peers live */
#define ZLINK_DRAIN_NS 2000000000ull

uint64_t zlink_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- progress */

static void zlink_hear_bells(struct zlink_domain *domain)
{
	unsigned int rung = atomic_load(&domain->node->bells), i;

	if (rung == domain->bells)
		return;
	domain->bells = rung;
	for (i = 0; i < ZLINK_CALLS; i++) {
		char from[ZLINK_ID_MAX];

		if (atomic_load(&domain->node->calls[i].state) != 2)
			continue;
		memcpy(from, domain->node->calls[i].from, sizeof(from));
		from[ZLINK_ID_MAX - 1] = 0;
		atomic_store(&domain->node->calls[i].state, 0);
		zlink_rx_open(domain, from);
	}
}

/* Whether the peer may still have said something that was not looked at. */
static bool zlink_hears_from(const struct zlink_domain *domain, const char *id)
{
	struct zipc_list *entry;

	for (entry = domain->rxs.next; entry != &domain->rxs; entry = entry->next)
		if (!strcmp(zlink_of(entry, zlink_rx, link)->from, id))
			return true;
	return false;
}

static void zlink_look_after(struct zlink_domain *domain)
{
	struct zipc_list *entry;
	bool swept = false;

	for (entry = domain->txs.next; entry != &domain->txs; entry = entry->next) {
		struct zlink_tx *tx = zlink_of(entry, zlink_tx, link);

		if (tx->dead || tx->gone || zlink_alive(tx->to))
			continue;
		tx->gone = true;
		if (!swept)
			zlink_sweep();
		swept = true;
	}
	for (entry = domain->rxs.next; entry != &domain->rxs; entry = entry->next) {
		struct zlink_rx *rx = zlink_of(entry, zlink_rx, link);

		rx->dying = rx->dying || !zlink_alive(rx->from);
	}
}

static void zlink_copying_progress(struct zlink_domain *domain)
{
	struct zipc_list *entry = domain->copying.next, *next;
	int ret;

	for (; entry != &domain->copying; entry = next) {
		struct zlink_op *op = zlink_of(entry, zlink_op, link);

		next = entry->next;
		ret = zlink_ticket_test(&op->ticket);
		if (ret)
			zlink_op_finish(domain, op, ret < 0 ? FI_EIO : 0);
	}
}

void zlink_domain_progress(struct zlink_domain *domain)
{
	struct zipc_list *entry, *next;
	uint64_t now = zlink_now();

	zlink_hear_bells(domain);
	for (entry = domain->rxs.next; entry != &domain->rxs; entry = next) {
		next = entry->next;
		zlink_rx_progress(zlink_of(entry, zlink_rx, link), now);
	}
	for (entry = domain->txs.next; entry != &domain->txs; entry = next) {
		struct zlink_tx *tx = zlink_of(entry, zlink_tx, link);

		next = entry->next;
		/* Its last words come first, they may be the answers that are waited for: so not in the round that finds it gone. */
		if (tx->gone && !zlink_hears_from(domain, tx->to))
			zlink_tx_fail(tx, FI_ECONNABORTED);
		tx->gone = tx->gone || atomic_load_explicit(&tx->map.shm->rx_closed, memory_order_acquire);
		zlink_tx_progress(tx, now);
		if (tx->dead && zlink_tx_idle(tx))
			zlink_tx_close(tx);
	}
	zlink_copying_progress(domain);
	if (now - domain->looked_ns > ZLINK_LOOK_NS) {
		domain->looked_ns = now;
		zlink_look_after(domain);
	}
}

/* ---- memory regions */

struct zlink_mr *zlink_mr_find(struct zlink_domain *domain, uint64_t key)
{
	struct zipc_list *entry;

	for (entry = domain->mrs.next; entry != &domain->mrs; entry = entry->next) {
		struct zlink_mr *mr = zlink_of(entry, zlink_mr, link);

		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

static int zlink_mr_close(struct fid *fid)
{
	struct zlink_mr *mr = zlink_of(fid, zlink_mr, fid.fid);
	struct zlink_domain *domain = mr->domain;
	uint64_t end = zlink_now() + ZLINK_DRAIN_NS;

	zlink_lock(domain);
	zipc_list_remove(&mr->link);
	zlink_op_end_all(domain, NULL, NULL, NULL, mr, FI_ENOKEY);
	while (zlink_op_inflight(domain, NULL, mr) && zlink_now() < end)
		zlink_domain_progress(domain);
	zlink_unlock(domain);
	atomic_fetch_sub(&domain->ref, 1);
	free(mr);
	return 0;
}

static struct fi_ops zlink_mr_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_mr_close, .bind = zipfi_no_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

/* Which device the memory is on. -1: the host */
static int zlink_mr_ordinal(struct zlink_domain *domain, const struct fi_mr_attr *attr, int *ordinal)
{
	switch (attr->iface) {
	case FI_HMEM_SYSTEM: /* a caller may not know better */
		*ordinal = zlink_copier_classify(domain->copier, attr->mr_iov[0].iov_base);
		return 0;
	case FI_HMEM_CUDA:
		*ordinal = attr->device.cuda;
		return *ordinal < 0 || !zlink_copier_cuda(domain->copier) ? -FI_EOPNOTSUPP : 0;
	default:
		return -FI_EOPNOTSUPP;
	}
}

static int zlink_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
	struct zlink_domain *domain = zlink_of(fid, zlink_domain, fid.fid);
	bool own_key = domain->mr_mode & FI_MR_PROV_KEY;
	struct zlink_mr *mr;
	int ret, ordinal;

	if (attr->iov_count != 1 || flags & (1ULL << 40) /* FI_MR_DMABUF */)
		return attr->iov_count == 1 ? -FI_EOPNOTSUPP : -FI_EINVAL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	zlink_lock(domain);
	ret = zlink_mr_ordinal(domain, attr, &ordinal);
	if (!ret)
		ret = zlink_copier_dev(domain->copier, ordinal, &mr->dev);
	if (!ret && !own_key && zlink_mr_find(domain, attr->requested_key))
		ret = -FI_ENOKEY;
	if (ret) {
		zlink_unlock(domain);
		free(mr);
		return ret;
	}
	mr->domain = domain;
	mr->base = attr->mr_iov[0].iov_base;
	mr->len = attr->mr_iov[0].iov_len;
	mr->access = attr->access;
	mr->offset = domain->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)mr->base : 0;
	mr->fid.key = own_key ? ++domain->next_key : attr->requested_key;
	mr->fid.mem_desc = mr;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = attr->context;
	mr->fid.fid.ops = &zlink_mr_fi_ops;
	zipc_list_append(&domain->mrs, &mr->link);
	zlink_unlock(domain);
	atomic_fetch_add(&domain->ref, 1);
	*mr_p = &mr->fid;
	return 0;
}

static int zlink_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key,
			 uint64_t flags, struct fid_mr **mr_p, void *context)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov, .iov_count = count, .access = access, .offset = offset, .requested_key = key, .context = context,
		.iface = FI_HMEM_SYSTEM,
	};

	return zlink_mr_regattr(fid, &attr, flags, mr_p);
}

static int zlink_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
			struct fid_mr **mr_p, void *context)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return zlink_mr_regv(fid, &iov, 1, access, offset, key, flags, mr_p, context);
}

struct fi_ops_mr zlink_mr_ops = {
	.size = sizeof(struct fi_ops_mr), .reg = zlink_mr_reg, .regv = zlink_mr_regv, .regattr = zlink_mr_regattr,
};

/* ---- domain */

/* What was taken to be sent is published before the links go. */
static void zlink_domain_drain(struct zlink_domain *domain)
{
	uint64_t end = zlink_now() + ZLINK_DRAIN_NS;
	struct zipc_list *entry;
	bool busy;

	do {
		zlink_domain_progress(domain);
		busy = false;
		for (entry = domain->txs.next; entry != &domain->txs; entry = entry->next)
			busy |= !zlink_tx_idle(zlink_of(entry, zlink_tx, link));
	} while (busy && zlink_now() < end);
}

static void zlink_domain_free(struct zlink_domain *domain)
{
	unsigned int i;

	if (domain->node)
		zlink_node_close(domain->id, domain->node);
	if (domain->copier)
		zlink_copier_close(domain->copier);
	for (i = 0; i < domain->slabs; i++)
		free(domain->slab[i]);
	pthread_mutex_destroy(&domain->lock);
	free(domain);
}

static int zlink_domain_close(struct fid *fid)
{
	struct zlink_domain *domain = zlink_of(fid, zlink_domain, fid.fid);

	if (atomic_load(&domain->ref))
		return -FI_EBUSY;
	zlink_lock(domain);
	zlink_domain_drain(domain);
	while (!zipc_list_empty(&domain->rxs))
		zlink_rx_close(zlink_of(domain->rxs.next, zlink_rx, link));
	while (!zipc_list_empty(&domain->txs))
		zlink_tx_close(zlink_of(domain->txs.next, zlink_tx, link));
	zlink_unlock(domain);
	atomic_fetch_sub(&domain->fabric->ref, 1);
	zlink_domain_free(domain);
	return 0;
}

static int zlink_domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid;
	(void)flags;
	return bfid->fclass == FI_CLASS_EQ ? 0 : -FI_EINVAL;
}

static int zlink_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset)
{
	(void)domain;
	(void)attr;
	(void)pollset;
	return -FI_ENOSYS;
}

static int zlink_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op, struct fi_atomic_attr *attr,
			      uint64_t flags)
{
	(void)domain;
	(void)datatype;
	(void)op;
	(void)attr;
	(void)flags;
	return -FI_EOPNOTSUPP;
}

static struct fi_ops zlink_domain_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_domain_close, .bind = zlink_domain_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_domain zlink_domain_ops = {
	.size = sizeof(struct fi_ops_domain), .av_open = zlink_av_open, .cq_open = zlink_cq_open, .endpoint = zlink_ep_open,
	.scalable_ep = zipfi_no_scalable_ep, .cntr_open = zlink_cntr_open, .poll_open = zlink_poll_open, .stx_ctx = zipfi_no_stx_ctx,
	.srx_ctx = zipfi_no_srx_ctx, .query_atomic = zlink_query_atomic, .query_collective = zipfi_no_query_collective,
};

static void zlink_domain_init(struct zlink_domain *domain, struct zlink_fabric *fabric, struct fi_info *info, void *context)
{
	domain->fabric = fabric;
	domain->mr_mode = info->domain_attr->mr_mode;
	pthread_mutex_init(&domain->lock, NULL);
	zipc_list_init(&domain->txs);
	zipc_list_init(&domain->rxs);
	zipc_list_init(&domain->eps);
	zipc_list_init(&domain->avs);
	zipc_list_init(&domain->mrs);
	zipc_list_init(&domain->copying);
	zipc_list_init(&domain->ops);
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &zlink_domain_fi_ops;
	domain->fid.ops = &zlink_domain_ops;
	domain->fid.mr = &zlink_mr_ops;
}

int zlink_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain_p, void *context)
{
	struct zlink_fabric *fabric = zlink_of(fid, zlink_fabric, fid);
	struct zlink_domain *domain;
	void *buf;
	int ret;

	if (!info || !info->domain_attr)
		return -FI_EINVAL;
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	zlink_domain_init(domain, fabric, info, context);
	zlink_sweep();
	ret = zlink_copier_open(info->caps & FI_HMEM && zlink_cuda_there(), &domain->copier);
	if (!ret)
		ret = zlink_id_make(domain->id);
	if (!ret)
		ret = zlink_node_create(domain->id, &domain->node);
	if (ret) {
		zlink_domain_free(domain);
		return ret;
	}
	domain->host = NULL;
	zlink_copier_dev(domain->copier, -1, &domain->host);
	buf = zlink_buf_get(domain->copier); /* the first buffers are pinned before any data moves */
	if (buf)
		zlink_buf_put(domain->copier, buf);
	atomic_fetch_add(&fabric->ref, 1);
	*domain_p = &domain->fid;
	return 0;
}

/* ---- fabric */

static int zlink_fabric_close(struct fid *fid)
{
	struct zlink_fabric *fabric = zlink_of(fid, zlink_fabric, fid.fid);

	if (atomic_load(&fabric->ref))
		return -FI_EBUSY;
	free(fabric);
	return 0;
}

static int zlink_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
	(void)fabric;
	(void)info;
	(void)pep;
	(void)context;
	return -FI_ENOSYS;
}

static int zlink_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
	(void)fabric;
	(void)attr;
	(void)waitset;
	return -FI_ENOSYS;
}

static int zlink_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	(void)fabric;
	(void)fids;
	(void)count;
	return -FI_ENOSYS;
}

static struct fi_ops zlink_fabric_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_fabric_close, .bind = zipfi_no_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_fabric zlink_fabric_ops = {
	.size = sizeof(struct fi_ops_fabric), .domain = zlink_domain_open, .passive_ep = zlink_passive_ep, .eq_open = zlink_eq_open,
	.wait_open = zlink_wait_open, .trywait = zlink_trywait,
};

int zlink_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
	struct zlink_fabric *fabric;
	int ret = zlink_param_read();

	(void)attr;
	if (ret)
		return ret;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &zlink_fabric_fi_ops;
	fabric->fid.ops = &zlink_fabric_ops;
	*fabric_p = &fabric->fid;
	return 0;
}
