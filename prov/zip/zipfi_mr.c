/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions: the core's key and descriptor in a wrapper, so that our counters and endpoints can be bound to them, and the
 * domain's table of them, in which peers' transfers look keys up. What goes to the core as it is the core checks itself.
 */
#include <sched.h>
#include <stdlib.h>

#include "zipfi_hmem.h"

/* A region that closes waits for transfers that move, and for so long for those that do not. */
#define ZIPFI_MR_PATIENCE_MS 2000

static struct zipfi_domain *zipfi_mr_domain(struct fid *fid)
{
	return zipfi_of(fid, zipfi_domain, fid.fid);
}

/* ---- the table */

static struct zipc_list *zipfi_mr_bucket(struct zipfi_domain *domain, uint64_t key)
{
	return &domain->mrs[(key * 0x9e3779b97f4a7c15u) >> (64 - ZIPFI_MR_BITS)];
}

/* Under mr_lock. */
static struct zipfi_mr *zipfi_mr_find(struct zipfi_domain *domain, uint64_t key)
{
	struct zipc_list *head = zipfi_mr_bucket(domain, key), *entry;

	for (entry = head->next; entry != head; entry = entry->next) {
		struct zipfi_mr *mr = zipfi_of(entry, zipfi_mr, link);

		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

/* Takes over what the core has made; some cores choose the key when the region is enabled. */
static void zipfi_mr_publish(struct zipfi_mr *mr)
{
	struct zipfi_domain *domain = mr->domain;

	zipfi_lock(domain, &domain->mr_lock);
	zipc_list_remove(&mr->link);
	if (mr->core) {
		mr->fid.key = mr->core->key;
		mr->fid.mem_desc = mr->core->mem_desc;
	}
	if (mr->enabled && mr->fid.key != FI_KEY_NOTAVAIL)
		zipc_list_append(zipfi_mr_bucket(domain, mr->fid.key), &mr->link);
	zipfi_unlock(domain, &domain->mr_lock);
}

/* The segment's pieces of memory are added to iov. Under mr_lock. */
static int zipfi_mr_map(const struct zipfi_mr *mr, const struct zipc_rma_seg *seg, struct iovec *iov, size_t *niov, size_t most)
{
	uint64_t base = mr->domain->mr_virtual ? (uintptr_t)mr->iov[0].iov_base : 0, at, left = seg->len;
	size_t i, n;

	if (seg->addr < base || seg->addr - base > mr->total || seg->len > mr->total - (seg->addr - base))
		return ZIPC_ERR_INVAL;
	at = seg->addr - base;
	for (i = 0; i < mr->niov && left; i++) {
		if (at >= mr->iov[i].iov_len) {
			at -= mr->iov[i].iov_len;
			continue;
		}
		n = mr->iov[i].iov_len - at < left ? (size_t)(mr->iov[i].iov_len - at) : (size_t)left;
		if (*niov == most)
			return ZIPC_ERR_INVAL;
		iov[(*niov)++] = (struct iovec){(char *)mr->iov[i].iov_base + at, n};
		left -= n;
		at = 0;
	}
	return 0;
}

/* Under mr_lock. */
static int zipfi_mr_check(struct zipfi_ep *ep, const struct zipc_rma_seg *seg, bool write, struct zipfi_mr **mr_p)
{
	struct zipfi_mr *mr = zipfi_mr_find(ep->domain, seg->key);

	if (!mr || (mr->ep && mr->ep != ep))
		return ZIPC_ERR_KEY;
	if (!(mr->access & (write ? FI_REMOTE_WRITE : FI_REMOTE_READ)) || !mr->niov)
		return ZIPC_ERR_ACCES;
	*mr_p = mr;
	return 0;
}

static struct zipfi_access *zipfi_access_get(struct zipfi_ep *ep)
{
	struct zipc_list *entry = zipc_list_pop(&ep->free_accesses);
	struct zipfi_access *access = entry ? zipfi_of(entry, zipfi_access, link) : calloc(1, sizeof(*access));

	if (!access)
		return NULL;
	access->ep = ep;
	access->nmr = 0;
	zipc_list_append(&ep->accesses, &access->link);
	return access;
}

/* Lets go of the regions, and of the access. */
static void zipfi_access_put(struct zipfi_access *access)
{
	struct zipfi_domain *domain = access->ep->domain;
	unsigned i;

	zipfi_lock(domain, &domain->mr_lock);
	for (i = 0; i < access->nmr; i++)
		access->mr[i]->open--;
	zipfi_unlock(domain, &domain->mr_lock);
	zipc_list_remove(&access->link);
	zipc_list_append(&access->ep->free_accesses, &access->link);
}

int zipfi_rma_open(void *ctx, struct zipc_peer *peer, int write, const struct zipc_rma_seg *segs, size_t nsegs,
		   struct iovec *iov, size_t *niov, void **target)
{
	struct zipfi_ep *ep = ctx;
	struct zipfi_domain *domain = ep->domain;
	struct zipfi_access *access = zipfi_access_get(ep);
	size_t i, most = *niov;
	int ret = 0;

	(void)peer;
	if (!access)
		return ZIPC_ERR_NOMEM;
	*niov = 0;
	access->write = write;
	zipfi_lock(domain, &domain->mr_lock);
	for (i = 0; i < nsegs && !ret; i++) {
		ret = zipfi_mr_check(ep, &segs[i], write, &access->mr[i]);
		if (ret)
			break;
		access->mr[i]->open++;
		access->nmr++;
		ret = zipfi_mr_map(access->mr[i], &segs[i], iov, niov, most);
	}
	zipfi_unlock(domain, &domain->mr_lock);
	if (ret)
		zipfi_access_put(access);
	else
		*target = access;
	return ret;
}

/* The completion that a core gives for a remote write with immediate data. */
static void zipfi_rma_remote_entry(struct zipfi_ep *ep, uint64_t data, size_t nbytes)
{
	const struct fi_cq_tagged_entry entry = {
		.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .len = nbytes, .data = data,
	};
	struct zipfi_rec *rec = zipfi_rec_get(ep);

	if (!rec) {
		zipfi_cq_park_copy(ep->rx_cq, &entry, FI_ADDR_NOTAVAIL, NULL, NULL);
		return;
	}
	rec->kind = ZIPFI_REC_REMOTE;
	rec->context = NULL;
	rec->op_flags = FI_RMA | FI_REMOTE_WRITE;
	rec->report = true;
	rec->done = entry;
	zipfi_complete(rec, false);
}

static void zipfi_rma_count(struct zipfi_cntr *cntr, int status)
{
	if (!cntr)
		return;
	atomic_fetch_add(status ? &cntr->error : &cntr->success, 1);
	zipfi_wait_signal(&cntr->wait);
}

void zipfi_rma_done(void *ctx, void *target, int status, uint64_t data, unsigned flags, size_t nbytes)
{
	struct zipfi_access *access = target;
	struct zipfi_ep *ep = ctx;
	unsigned i, n;

	/* A transfer that failed was none, as with the core: only who started it is told. */
	if (!status) {
		if ((flags & ZIPC_RMA_DATA) && ep->rx_cq)
			zipfi_rma_remote_entry(ep, data, nbytes);
		zipfi_rma_count(access->write ? ep->remote_wr_cntr : ep->remote_rd_cntr, 0);
		for (i = 0; i < access->nmr; i++) {
			for (n = 0; n < i && access->mr[n] != access->mr[i]; n++)
				;
			if (n == i) /* once for each region */
				zipfi_rma_count(access->write ? access->mr[i]->wr_cntr : access->mr[i]->rd_cntr, 0);
		}
	}
	zipfi_access_put(access);
}

void zipfi_accesses_close(struct zipfi_ep *ep)
{
	struct zipc_list *entry;

	while (!zipc_list_empty(&ep->accesses))
		zipfi_access_put(zipfi_of(ep->accesses.next, zipfi_access, link));
	while ((entry = zipc_list_pop(&ep->free_accesses)))
		free(zipfi_of(entry, zipfi_access, link));
}

/* ---- closing */

/* What tells that transfers move. */
static uint64_t zipfi_domain_moved(struct zipfi_domain *domain)
{
	struct zipc_list *entry;
	struct zipc_stats stats;
	uint64_t moved = 0;

	pthread_mutex_lock(&domain->lock);
	for (entry = domain->eps.next; entry != &domain->eps; entry = entry->next) {
		struct zipfi_ep *ep = zipfi_of(entry, zipfi_ep, domain_link);

		zipfi_lock(domain, &ep->lock);
		if (ep->engine) {
			zipc_engine_stats(ep->engine, &stats);
			moved += stats.wire_bytes + stats.recv_wire_bytes;
		}
		zipfi_unlock(domain, &ep->lock);
	}
	pthread_mutex_unlock(&domain->lock);
	return moved;
}

static void zipfi_ep_revoke(struct zipfi_ep *ep, const struct zipfi_mr *mr)
{
	struct zipc_list *entry, *next;
	unsigned i;

	for (entry = ep->accesses.next; entry != &ep->accesses; entry = next) {
		struct zipfi_access *access = zipfi_of(entry, zipfi_access, link);

		next = entry->next;
		for (i = 0; i < access->nmr && access->mr[i] != mr; i++)
			;
		if (i < access->nmr)
			zipc_rma_revoke(ep->engine, access, ZIPC_ERR_KEY);
	}
}

/* Ends all transfers into and out of the region; not all may end at once. */
static void zipfi_domain_revoke(struct zipfi_domain *domain, const struct zipfi_mr *mr)
{
	struct zipc_list *entry;

	pthread_mutex_lock(&domain->lock);
	for (entry = domain->eps.next; entry != &domain->eps; entry = entry->next) {
		struct zipfi_ep *ep = zipfi_of(entry, zipfi_ep, domain_link);

		zipfi_lock(domain, &ep->lock);
		if (ep->engine)
			zipfi_ep_revoke(ep, mr);
		zipfi_unlock(domain, &ep->lock);
	}
	pthread_mutex_unlock(&domain->lock);
}

static unsigned zipfi_mr_open_count(struct zipfi_mr *mr)
{
	unsigned open;

	zipfi_lock(mr->domain, &mr->domain->mr_lock);
	open = mr->open;
	zipfi_unlock(mr->domain, &mr->domain->mr_lock);
	return open;
}

/* No transfer finds the region any more; those that have it come to their end, or are brought to it. */
static void zipfi_mr_drain(struct zipfi_mr *mr)
{
	struct zipfi_domain *domain = mr->domain;
	uint64_t since = zipc_now_ms(), moved = 0, now_moved;

	zipfi_lock(domain, &domain->mr_lock);
	zipc_list_remove(&mr->link);
	zipfi_unlock(domain, &domain->mr_lock);
	while (zipfi_mr_open_count(mr)) {
		zipfi_domain_round(domain);
		now_moved = zipfi_domain_moved(domain);
		if (now_moved != moved)
			since = zipc_now_ms();
		moved = now_moved;
		if (zipc_now_ms() - since > ZIPFI_MR_PATIENCE_MS)
			zipfi_domain_revoke(domain, mr);
		sched_yield();
	}
}

static void zipfi_mr_unbind(struct zipfi_mr *mr)
{
	if (mr->wr_cntr)
		zipfi_cntr_unbind_mr(mr->wr_cntr);
	if (mr->rd_cntr)
		zipfi_cntr_unbind_mr(mr->rd_cntr);
}

static int zipfi_mr_close(struct fid *fid)
{
	struct zipfi_mr *mr = zipfi_of(fid, zipfi_mr, fid.fid);
	int ret;

	zipfi_mr_drain(mr);
	ret = mr->core ? fi_close(&mr->core->fid) : 0;
	if (ret) {
		zipfi_mr_publish(mr);
		return ret;
	}
	if (mr->base)
		zipfi_hmem_remove(mr->domain->hmem, mr->base, mr->base_len);
	zipfi_mr_unbind(mr);
	free(mr);
	return 0;
}

/* ---- binding and registering */

static int zipfi_mr_bind_cntr(struct zipfi_mr *mr, struct zipfi_cntr *cntr, uint64_t flags)
{
	int ret = mr->core ? fi_mr_bind(mr->core, &cntr->core->fid, flags) : 0;

	if (ret)
		return ret;
	if ((flags & FI_REMOTE_WRITE) && !mr->wr_cntr) {
		mr->wr_cntr = cntr;
		zipfi_cntr_bind_mr(cntr);
	}
	if ((flags & FI_REMOTE_READ) && !mr->rd_cntr) {
		mr->rd_cntr = cntr;
		zipfi_cntr_bind_mr(cntr);
	}
	return 0;
}

static int zipfi_mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct zipfi_mr *mr = zipfi_of(fid, zipfi_mr, fid.fid);
	struct zipfi_ep *ep;
	int ret;

	switch (bfid->fclass) {
	case FI_CLASS_EP:
		ep = zipfi_of(bfid, zipfi_ep, fid.fid);
		ret = mr->core ? fi_mr_bind(mr->core, &ep->core->fid, flags) : 0;
		if (!ret)
			mr->ep = ep;
		return ret;
	case FI_CLASS_CNTR:
		return zipfi_mr_bind_cntr(mr, zipfi_of(bfid, zipfi_cntr, fid.fid), flags);
	default:
		return -FI_EINVAL;
	}
}

static int zipfi_mr_control(struct fid *fid, int command, void *arg)
{
	struct zipfi_mr *mr = zipfi_of(fid, zipfi_mr, fid.fid);
	int ret = mr->core ? fi_control(&mr->core->fid, command, arg) : command == FI_ENABLE ? 0 : -FI_ENOSYS;

	if (!ret && command == FI_ENABLE)
		mr->enabled = true;
	zipfi_mr_publish(mr);
	return ret;
}

static struct fi_ops zipfi_mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_mr_close,
	.bind = zipfi_mr_bind,
	.control = zipfi_mr_control,
};

/* Memory that a transfer cannot reach from here: it keeps its key, and peers' transfers are refused. */
static bool zipfi_mr_is_opaque(uint64_t flags)
{
#if FI_VERSION_GE(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 20))
	if (flags & FI_MR_DMABUF)
		return true;
#endif
	(void)flags;
	return false;
}

static struct zipfi_mr *zipfi_mr_alloc(struct zipfi_domain *domain, const struct iovec *iov, size_t count, uint64_t access,
				       uint64_t flags, void *context)
{
	struct zipfi_mr *mr;
	size_t i;

	if (zipfi_mr_is_opaque(flags))
		count = 0;
	mr = calloc(1, sizeof(*mr) + count * sizeof(*iov));
	if (!mr)
		return NULL;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &zipfi_mr_fi_ops;
	mr->domain = domain;
	mr->access = access;
	mr->niov = count;
	for (i = 0; i < count; i++) {
		mr->iov[i] = iov[i];
		mr->total += iov[i].iov_len;
	}
	/* Where regions are to be bound first, the key is good for nothing before they are enabled. */
	mr->enabled = !(domain->mr_mode & FI_MR_ENDPOINT) && !((domain->mr_mode & FI_MR_RMA_EVENT) && (flags & FI_RMA_EVENT));
	zipc_list_init(&mr->link);
	return mr;
}

static int zipfi_mr_done(struct zipfi_mr *mr, int ret, struct fid_mr **mr_p)
{
	if (ret) {
		free(mr);
		return ret;
	}
	zipfi_mr_publish(mr);
	*mr_p = &mr->fid;
	return 0;
}

static int zipfi_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p);

/* Where device memory is expected, every way of registering looks at what it is given. */
static int zipfi_mr_regany(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
			   uint64_t requested_key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
	const struct fi_mr_attr attr = {
		.mr_iov = iov, .iov_count = count, .access = access, .offset = offset, .requested_key = requested_key, .context = context,
	};

	return zipfi_mr_regattr(fid, &attr, flags, mr_p);
}

static int zipfi_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key,
			uint64_t flags, struct fid_mr **mr_p, void *context)
{
	struct zipfi_domain *domain = zipfi_mr_domain(fid);
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct zipfi_mr *mr;

	if (domain->hmem)
		return zipfi_mr_regany(fid, &iov, 1, access, offset, requested_key, flags, mr_p, context);
	mr = zipfi_mr_alloc(domain, &iov, 1, access, flags, context);
	if (!mr)
		return -FI_ENOMEM;
	return zipfi_mr_done(mr, fi_mr_reg(domain->core, buf, len, access, offset, requested_key, flags, &mr->core, mr), mr_p);
}

static int zipfi_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
			 uint64_t requested_key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
	struct zipfi_domain *domain = zipfi_mr_domain(fid);
	struct zipfi_mr *mr;

	if (domain->hmem)
		return zipfi_mr_regany(fid, iov, count, access, offset, requested_key, flags, mr_p, context);
	mr = zipfi_mr_alloc(domain, iov, count, access, flags, context);
	if (!mr)
		return -FI_ENOMEM;
	return zipfi_mr_done(mr, fi_mr_regv(domain->core, iov, count, access, offset, requested_key, flags, &mr->core, mr), mr_p);
}

/* The device that the region is on; NULL: the host. Some callers register device memory as if it were the host's. */
static struct zipfi_device *zipfi_mr_device(struct zipfi_hmem *hmem, const struct fi_mr_attr *attr)
{
	if (!hmem || !attr->iov_count || !attr->mr_iov[0].iov_base)
		return NULL;
	if (attr->iface == FI_HMEM_SYSTEM)
		return zipfi_hmem_query(hmem, attr->mr_iov[0].iov_base);
	return zipfi_hmem_device(hmem, attr->iface, attr->iface == FI_HMEM_CUDA ? attr->device.cuda : (int)attr->device.reserved);
}

/* Endpoints get ready for the device now and not with the first message. */
static void zipfi_mr_prepare(struct zipfi_domain *domain, struct zipfi_device *device)
{
	struct zipc_list *entry;

	pthread_mutex_lock(&domain->lock);
	for (entry = domain->eps.next; entry != &domain->eps; entry = entry->next)
		zipfi_ep_hmem_prepare(zipfi_of(entry, zipfi_ep, domain_link), device);
	pthread_mutex_unlock(&domain->lock);
}

/* Device memory that the core does not know how to register is ours alone: messages reach it, by way of staging. */
static int zipfi_mr_ours(struct zipfi_mr *mr, const struct fi_mr_attr *attr)
{
	static atomic_uint_fast64_t next;

	mr->fid.key = mr->domain->mr_mode & FI_MR_PROV_KEY ? 1ULL << 62 | atomic_fetch_add(&next, 1) : attr->requested_key;
	mr->fid.mem_desc = mr;
	return 0;
}

static int zipfi_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
	struct zipfi_domain *domain = zipfi_mr_domain(fid);
	struct zipfi_device *device = zipfi_mr_device(domain->hmem, attr);
	/* The field counts only where FI_HMEM was asked for. */
	bool far = device || (domain->hmem && attr->iface != FI_HMEM_SYSTEM);
	struct zipfi_mr *mr = zipfi_mr_alloc(domain, attr->mr_iov, far ? 0 : attr->iov_count, attr->access, flags, attr->context);
	int ret;

	if (!mr)
		return -FI_ENOMEM;
	/* The attributes may be longer than ours know them: they go on as they are, with the application's context. */
	ret = device && !domain->core_hmem ? -FI_ENOSYS : fi_mr_regattr(domain->core, attr, flags, &mr->core);
	if (ret && device) {
		mr->core = NULL;
		ret = zipfi_mr_ours(mr, attr);
	}
	ret = zipfi_mr_done(mr, ret, mr_p);
	if (ret || !domain->hmem || attr->iov_count != 1)
		return ret;
	if (!zipfi_hmem_add(domain->hmem, attr->mr_iov[0].iov_base, attr->mr_iov[0].iov_len, device)) {
		mr->base = attr->mr_iov[0].iov_base;
		mr->base_len = attr->mr_iov[0].iov_len;
	}
	if (device)
		zipfi_mr_prepare(domain, device);
	return 0;
}

struct fi_ops_mr zipfi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = zipfi_mr_reg,
	.regv = zipfi_mr_regv,
	.regattr = zipfi_mr_regattr,
};
