/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counter: messages and RMA transfers are counted here, when the application's operation is complete (the core would count
 * placeholders); raw RMA, atomics and a target's events of them by the core's counter. A value is the sum.
 */
#include <stdlib.h>

#include "zipfi.h"
#include "zipfi_no.h"

static void zipfi_cntr_progress(struct zipfi_cntr *cntr)
{
	size_t i;

	if (atomic_load(&cntr->mrs))
		zipfi_domain_round(cntr->domain);
	if (!zipfi_trylock(cntr->domain, &cntr->ep_lock))
		return;
	for (i = 0; i < cntr->neps; i++)
		zipfi_ep_progress(cntr->eps[i], NULL);
	zipfi_unlock(cntr->domain, &cntr->ep_lock);
}

static uint64_t zipfi_cntr_read(struct fid_cntr *fid)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid);

	zipfi_wait_clear(&cntr->wait);
	zipfi_cntr_progress(cntr);
	return fi_cntr_read(cntr->core) + atomic_load(&cntr->success);
}

static uint64_t zipfi_cntr_readerr(struct fid_cntr *fid)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid);

	return fi_cntr_readerr(cntr->core) + atomic_load(&cntr->error);
}

static int zipfi_cntr_add(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&zipfi_of(fid, zipfi_cntr, fid)->success, value);
	zipfi_wait_signal(&zipfi_of(fid, zipfi_cntr, fid)->wait);
	return 0;
}

static int zipfi_cntr_set(struct fid_cntr *fid, uint64_t value)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid);

	/* Wraps around where the core has counted more: the sum is right all the same. */
	atomic_store(&cntr->success, value - fi_cntr_read(cntr->core));
	zipfi_wait_signal(&cntr->wait);
	return 0;
}

static int zipfi_cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&zipfi_of(fid, zipfi_cntr, fid)->error, value);
	zipfi_wait_signal(&zipfi_of(fid, zipfi_cntr, fid)->wait);
	return 0;
}

static int zipfi_cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid);

	atomic_store(&cntr->error, value - fi_cntr_readerr(cntr->core));
	zipfi_wait_signal(&cntr->wait);
	return 0;
}

static int zipfi_cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid);
	uint64_t start = zipc_now_ms(), errors = zipfi_cntr_readerr(fid);
	unsigned spins = 0;

	if (cntr->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	for (;;) {
		if (zipfi_cntr_read(fid) >= threshold)
			return 0;
		if (zipfi_cntr_readerr(fid) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && zipc_now_ms() - start >= (uint64_t)timeout)
			return -FI_ETIMEDOUT;
		/* The core's counter has no fd we could rely on: look often at first, then with naps. */
		if (++spins > 1000)
			zipfi_wait_sleep(&cntr->wait, 1);
	}
}

static int zipfi_cntr_close(struct fid *fid)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid.fid);
	int ret;

	if (atomic_load(&cntr->ref))
		return -FI_EBUSY;
	ret = fi_close(&cntr->core->fid);
	if (ret)
		return ret;
	zipfi_wait_close(&cntr->wait);
	pthread_mutex_destroy(&cntr->ep_lock);
	free(cntr->eps);
	free(cntr);
	return 0;
}

static int zipfi_cntr_control(struct fid *fid, int command, void *arg)
{
	struct zipfi_cntr *cntr = zipfi_of(fid, zipfi_cntr, fid.fid);

	if (command == FI_GETWAIT || command == FI_GETWAITOBJ)
		return zipfi_wait_get(&cntr->wait, command, arg);
	return -FI_ENOSYS;
}

static struct fi_ops zipfi_cntr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_cntr_close,
	.bind = zipfi_no_bind,
	.control = zipfi_cntr_control,
};

bool zipfi_cntr_is(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CNTR && fid->ops == &zipfi_cntr_fi_ops;
}

static struct fi_ops_cntr zipfi_cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = zipfi_cntr_read,
	.readerr = zipfi_cntr_readerr,
	.add = zipfi_cntr_add,
	.set = zipfi_cntr_set,
	.wait = zipfi_cntr_wait,
	.adderr = zipfi_cntr_adderr,
	.seterr = zipfi_cntr_seterr,
};

int zipfi_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr_p, void *context)
{
	struct zipfi_cntr *cntr = calloc(1, sizeof(*cntr));
	struct fi_cntr_attr core_attr = *attr;
	int ret;

	if (!cntr)
		return -FI_ENOMEM;
	cntr->domain = zipfi_of(fid, zipfi_domain, fid);
	/* An fd that wakes for the core's own events would be needed for these: what waits here looks instead. */
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_YIELD) {
		free(cntr);
		return -FI_ENOSYS;
	}
	core_attr.wait_obj = FI_WAIT_NONE;
	core_attr.wait_set = NULL;
	ret = fi_cntr_open(cntr->domain->core, &core_attr, &cntr->core, cntr);
	if (!ret)
		ret = zipfi_wait_open(&cntr->wait, attr->wait_obj == FI_WAIT_NONE ? FI_WAIT_NONE : FI_WAIT_YIELD);
	if (ret) {
		free(cntr);
		return ret;
	}
	pthread_mutex_init(&cntr->ep_lock, NULL);
	cntr->fid.fid.fclass = FI_CLASS_CNTR;
	cntr->fid.fid.context = context;
	cntr->fid.fid.ops = &zipfi_cntr_fi_ops;
	cntr->fid.ops = &zipfi_cntr_ops;
	*cntr_p = &cntr->fid;
	return 0;
}

int zipfi_cntr_attach(struct zipfi_cntr *cntr, struct zipfi_ep *ep)
{
	struct zipfi_ep **eps;
	size_t i;

	pthread_mutex_lock(&cntr->ep_lock);
	for (i = 0; i < cntr->neps && cntr->eps[i] != ep; i++)
		;
	eps = i < cntr->neps ? cntr->eps : realloc(cntr->eps, (cntr->neps + 1) * sizeof(struct zipfi_ep *));
	if (eps && i == cntr->neps) {
		cntr->eps = eps;
		cntr->eps[cntr->neps++] = ep;
		atomic_fetch_add(&cntr->ref, 1);
	}
	pthread_mutex_unlock(&cntr->ep_lock);
	return eps ? 0 : -FI_ENOMEM;
}

void zipfi_cntr_detach(struct zipfi_cntr *cntr, struct zipfi_ep *ep)
{
	size_t i;

	pthread_mutex_lock(&cntr->ep_lock);
	for (i = 0; i < cntr->neps; i++) {
		if (cntr->eps[i] != ep)
			continue;
		cntr->eps[i] = cntr->eps[--cntr->neps];
		atomic_fetch_sub(&cntr->ref, 1);
		break;
	}
	pthread_mutex_unlock(&cntr->ep_lock);
}

void zipfi_cntr_bind_mr(struct zipfi_cntr *cntr)
{
	atomic_fetch_add(&cntr->mrs, 1);
	atomic_fetch_add(&cntr->ref, 1);
}

void zipfi_cntr_unbind_mr(struct zipfi_cntr *cntr)
{
	atomic_fetch_sub(&cntr->mrs, 1);
	atomic_fetch_sub(&cntr->ref, 1);
}
