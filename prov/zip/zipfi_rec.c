/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of an endpoint: one for each operation that the core has. */
#include <sys/mman.h>

#include "zipfi.h"

#define ZIPFI_RECS_MIN 1024u
#define ZIPFI_RECS_MAX 131072u

struct zipfi_rec *zipfi_rec_get(struct zipfi_ep *ep)
{
	struct zipfi_rec *rec = NULL;
	struct zipc_list *entry;

	zipfi_spin_lock(ep->domain, &ep->rec_lock);
	entry = zipc_list_pop(&ep->free_recs);
	if (entry)
		rec = zipfi_of(entry, zipfi_rec, link);
	else if (ep->recs_used < ep->nrecs)
		rec = &ep->recs[ep->recs_used++];
	zipfi_spin_unlock(ep->domain, &ep->rec_lock);
	if (!rec)
		return NULL;
	rec->ep = ep;
	rec->busy = true;
	rec->err = 0;
	rec->bounced = rec->discard = rec->fence = false;
	rec->dev = NULL;
	rec->landing = NULL;
	rec->src = FI_ADDR_NOTAVAIL;
	zipc_list_init(&rec->link);
	return rec;
}

/* The one used last is used next: its cache lines are warm. */
void zipfi_rec_put(struct zipfi_rec *rec)
{
	struct zipfi_ep *ep = rec->ep;

	rec->busy = false;
	zipfi_spin_lock(ep->domain, &ep->rec_lock);
	rec->link.prev = &ep->free_recs;
	rec->link.next = ep->free_recs.next;
	ep->free_recs.next->prev = &rec->link;
	ep->free_recs.next = &rec->link;
	zipfi_spin_unlock(ep->domain, &ep->rec_lock);
}

int zipfi_recs_open(struct zipfi_ep *ep)
{
	size_t want = ep->info->tx_attr->size + ep->info->rx_attr->size;
	struct fid_domain *core = ep->domain->core;

	want *= 2; /* cores take more than their attribute says, and placeholders need a record too */
	if (want < ZIPFI_RECS_MIN)
		want = ZIPFI_RECS_MIN;
	if (want > ZIPFI_RECS_MAX)
		want = ZIPFI_RECS_MAX;
	ep->nrecs = want;
	ep->recs_bytes = want * sizeof(*ep->recs);
	ep->recs = mmap(NULL, ep->recs_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ep->recs == MAP_FAILED) {
		ep->recs = NULL;
		return -FI_ENOMEM;
	}
	if (!(ep->domain->mr_mode & FI_MR_LOCAL))
		return 0;
	if (fi_mr_reg(core, ep->recs, ep->recs_bytes, FI_SEND | FI_RECV, 0, (uint64_t)(uintptr_t)ep->recs, 0, &ep->recs_mr, NULL))
		return -FI_ENOMEM;
	ep->recs_desc = fi_mr_desc(ep->recs_mr);
	return 0;
}
