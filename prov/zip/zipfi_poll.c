/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll sets (fi_poll(3), deprecated): a list of CQs and counters, asked one after the other. */
#include <stdlib.h>

#include "zipfi.h"

#define ZIPFI_POLL_MAX 64

struct zipfi_poll {
	struct fid_poll fid;
	pthread_mutex_t lock;
	struct fid *fids[ZIPFI_POLL_MAX];
	uint64_t seen[ZIPFI_POLL_MAX]; /* last value of a counter */
	int count;
};

static int zipfi_poll_close(struct fid *fid)
{
	struct zipfi_poll *poll = zipfi_of(fid, zipfi_poll, fid.fid);

	pthread_mutex_destroy(&poll->lock);
	free(poll);
	return 0;
}

static bool zipfi_poll_ready(struct zipfi_poll *poll, int i)
{
	struct zipfi_cntr *cntr;
	struct zipfi_cq *cq;
	uint64_t value;

	if (poll->fids[i]->fclass == FI_CLASS_CQ) {
		cq = zipfi_of(poll->fids[i], zipfi_cq, fid.fid);
		zipfi_cq_progress(cq);
		zipfi_cq_drain(cq->core, cq, ZIPFI_CQ_BATCH);
		return atomic_load(&cq->nready) || atomic_load(&cq->nerrors);
	}
	cntr = zipfi_of(poll->fids[i], zipfi_cntr, fid.fid);
	value = fi_cntr_read(&cntr->fid) + fi_cntr_readerr(&cntr->fid);
	if (value == poll->seen[i])
		return false;
	poll->seen[i] = value;
	return true;
}

static int zipfi_poll_poll(struct fid_poll *fid, void **context, int count)
{
	struct zipfi_poll *poll = zipfi_of(fid, zipfi_poll, fid);
	int i, found = 0;

	pthread_mutex_lock(&poll->lock);
	for (i = 0; i < poll->count && found < count; i++)
		if (zipfi_poll_ready(poll, i))
			context[found++] = poll->fids[i]->context;
	pthread_mutex_unlock(&poll->lock);
	return found;
}

static int zipfi_poll_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct zipfi_poll *poll = zipfi_of(fid, zipfi_poll, fid);
	int ret = 0;

	if (flags || (event_fid->fclass != FI_CLASS_CQ && event_fid->fclass != FI_CLASS_CNTR))
		return -FI_EINVAL;
	pthread_mutex_lock(&poll->lock);
	if (poll->count == ZIPFI_POLL_MAX) {
		ret = -FI_ENOMEM;
	} else {
		poll->seen[poll->count] = 0;
		poll->fids[poll->count++] = event_fid;
	}
	pthread_mutex_unlock(&poll->lock);
	return ret;
}

static int zipfi_poll_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct zipfi_poll *poll = zipfi_of(fid, zipfi_poll, fid);
	int i, ret = -FI_EINVAL;

	(void)flags;
	pthread_mutex_lock(&poll->lock);
	for (i = 0; i < poll->count; i++) {
		if (poll->fids[i] != event_fid)
			continue;
		poll->count--;
		poll->fids[i] = poll->fids[poll->count];
		poll->seen[i] = poll->seen[poll->count];
		ret = 0;
		break;
	}
	pthread_mutex_unlock(&poll->lock);
	return ret;
}

static struct fi_ops zipfi_poll_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_poll_close,
};

static struct fi_ops_poll zipfi_poll_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = zipfi_poll_poll,
	.poll_add = zipfi_poll_add,
	.poll_del = zipfi_poll_del,
};

int zipfi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll_p)
{
	struct zipfi_poll *poll;

	(void)domain;
	if (attr && attr->flags)
		return -FI_EINVAL;
	poll = calloc(1, sizeof(*poll));
	if (!poll)
		return -FI_ENOMEM;
	pthread_mutex_init(&poll->lock, NULL);
	poll->fid.fid.fclass = FI_CLASS_POLL;
	poll->fid.fid.ops = &zipfi_poll_fi_ops;
	poll->fid.ops = &zipfi_poll_ops;
	*poll_p = &poll->fid;
	return 0;
}
