/* SPDX-License-Identifier: BSD-3-Clause */
/* Domain, and the thread that drives endpoints under FI_PROGRESS_AUTO. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zipfi_hmem.h"
#include "zipfi_no.h"

#define ZIPFI_MR_BASIC 1u /* FI_MR_BASIC, which newer libfabrics know no more */

static void zipfi_domain_stop_thread(struct zipfi_domain *domain)
{
	if (!domain->thread_running)
		return;
	atomic_store(&domain->thread_stop, true);
	pthread_join(domain->thread, NULL);
	domain->thread_running = false;
}

static int zipfi_domain_close(struct fid *fid)
{
	struct zipfi_domain *domain = zipfi_of(fid, zipfi_domain, fid.fid);
	struct zipc_list *entry;
	int ret;

	if (!zipc_list_empty(&domain->eps))
		return -FI_EBUSY;
	ret = fi_close(&domain->core->fid);
	if (ret)
		return ret;
	zipfi_domain_stop_thread(domain);
	zipfi_page_close(domain);
	while ((entry = zipc_list_pop(&domain->graveyard)))
		zipfi_ep_free(zipfi_of(entry, zipfi_ep, domain_link));
	zipfi_hmem_close(domain->hmem);
	pthread_mutex_destroy(&domain->lock);
	pthread_mutex_destroy(&domain->mr_lock);
	free(domain);
	return 0;
}

static int zipfi_domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct zipfi_domain *domain = zipfi_of(fid, zipfi_domain, fid.fid);

	if (bfid->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	return fi_domain_bind(domain->core, zipfi_eq_core(domain->fabric, bfid), flags);
}

static int zipfi_domain_control(struct fid *fid, int command, void *arg)
{
	return fi_control(&zipfi_of(fid, zipfi_domain, fid.fid)->core->fid, command, arg);
}

static int zipfi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
			      struct fi_atomic_attr *attr, uint64_t flags)
{
	return fi_query_atomic(zipfi_of(domain, zipfi_domain, fid)->core, datatype, op, attr, flags);
}

static struct fi_ops zipfi_domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_domain_close,
	.bind = zipfi_domain_bind,
	.control = zipfi_domain_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_domain zipfi_domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = zipfi_av_open,
	.cq_open = zipfi_cq_open,
	.endpoint = zipfi_ep_open,
	.scalable_ep = zipfi_no_scalable_ep,
	.cntr_open = zipfi_cntr_open,
	.poll_open = zipfi_poll_open,
	.stx_ctx = zipfi_no_stx_ctx,
	.srx_ctx = zipfi_no_srx_ctx,
	.query_atomic = zipfi_query_atomic,
	.query_collective = zipfi_no_query_collective,
};

int zipfi_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain_p, void *context)
{
	struct zipfi_fabric *fabric = zipfi_of(fid, zipfi_fabric, fid);
	struct zipfi_domain *domain;
	struct fi_info *core_info;
	int i, ret = -FI_ENOMEM;

	if (fabric->hooked && (!info->ep_attr || info->ep_attr->type != FI_EP_RDM))
		return fi_domain(fabric->core, info, domain_p, context);
	core_info = zipfi_core_info(info, fabric);
	domain = calloc(1, sizeof(*domain));
	if (!domain || !core_info)
		goto err_free;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &zipfi_domain_fi_ops;
	domain->fid.ops = &zipfi_domain_ops;
	domain->fid.mr = &zipfi_mr_ops;
	if (info->caps & FI_HMEM) {
		domain->core_hmem = zipfi_core_has_hmem(info, fabric);
		domain->hmem = zipfi_hmem_open();
		if (!domain->hmem)
			goto err_free;
	}
	if (!domain->core_hmem)
		zipfi_strip_hmem(core_info);
	ret = fi_domain(fabric->core, core_info, &domain->core, domain);
	if (ret)
		goto err_free;
	domain->fabric = fabric;
	domain->mr_mode = (uint64_t)info->domain_attr->mr_mode;
	domain->mr_virtual = domain->mr_mode == ZIPFI_MR_BASIC || (domain->mr_mode & FI_MR_VIRT_ADDR);
	domain->addr_format = info->addr_format;
	domain->auto_progress = info->domain_attr->data_progress == FI_PROGRESS_AUTO;
	domain->locking = domain->auto_progress || info->domain_attr->threading != FI_THREAD_DOMAIN;
	pthread_mutex_init(&domain->lock, NULL);
	pthread_mutex_init(&domain->mr_lock, NULL);
	for (i = 0; i < 1 << ZIPFI_MR_BITS; i++)
		zipc_list_init(&domain->mrs[i]);
	zipc_list_init(&domain->eps);
	zipc_list_init(&domain->graveyard);
	zipfi_page_open(domain, info);
	fi_freeinfo(core_info);
	*domain_p = &domain->fid;
	return 0;

err_free:
	if (core_info)
		fi_freeinfo(core_info);
	if (domain)
		zipfi_hmem_close(domain->hmem);
	free(domain);
	return ret;
}

bool zipfi_domain_round(struct zipfi_domain *domain)
{
	struct zipc_list *entry;
	bool busy = false;

	pthread_mutex_lock(&domain->lock);
	for (entry = domain->eps.next; entry != &domain->eps; entry = entry->next) {
		struct zipfi_ep *ep = zipfi_of(entry, zipfi_ep, domain_link);

		zipfi_ep_progress(ep, NULL);
		busy |= atomic_load_explicit(&ep->busy, memory_order_relaxed);
	}
	pthread_mutex_unlock(&domain->lock);
	return busy;
}

static void *zipfi_domain_thread(void *arg)
{
	struct zipfi_domain *domain = arg;
	/* An idle core is looked at often enough that a peer's request is not late, and seldom enough to cost nothing. */
	const struct timespec idle = {.tv_nsec = 200000}, busy = {.tv_nsec = 5000};

	while (!atomic_load_explicit(&domain->thread_stop, memory_order_relaxed))
		nanosleep(zipfi_domain_round(domain) ? &busy : &idle, NULL);
	return NULL;
}

int zipfi_domain_start_thread(struct zipfi_domain *domain)
{
	int ret = 0;

	pthread_mutex_lock(&domain->lock);
	if (domain->auto_progress && !domain->thread_running) {
		ret = -pthread_create(&domain->thread, NULL, zipfi_domain_thread, domain);
		domain->thread_running = !ret;
	}
	pthread_mutex_unlock(&domain->lock);
	return ret;
}
