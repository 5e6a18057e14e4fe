/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabric: opens the core's by name, or wraps one that is open (FI_HOOK=zip), and answers fi_trywait for objects of ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zipfi.h"
#include "zipfi_hook.h"
#include "zipfi_no.h"

/* Calls of our own to fi_fabric that are under way in this thread: what they open is not to be hooked. */
static __thread int zipfi_fabric_depth;

static int zipfi_fabric_close(struct fid *fid)
{
	struct zipfi_fabric *fabric = zipfi_of(fid, zipfi_fabric, fid.fid);
	int ret = fi_close(&fabric->core->fid);

	if (ret)
		return ret;
	free(fabric->core_name);
	free(fabric);
	return 0;
}

/* Connected endpoints belong to the core alone. Under the hook the core below one of libfabric's utility providers comes by here. */
static int zipfi_passive_ep(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **pep, void *context)
{
	struct zipfi_fabric *fabric = zipfi_of(fid, zipfi_fabric, fid);

	return fabric->hooked ? fi_passive_ep(fabric->core, info, pep, context) : -FI_ENOSYS;
}

static int zipfi_wait_set_open(struct fid_fabric *fid, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
	struct zipfi_fabric *fabric = zipfi_of(fid, zipfi_fabric, fid);

	return fabric->hooked ? fi_wait_open(fabric->core, attr, waitset) : -FI_ENOSYS;
}

static struct fi_ops zipfi_fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_fabric_close,
	.bind = zipfi_no_bind,
	.control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_fabric zipfi_fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = zipfi_domain_open,
	.passive_ep = zipfi_passive_ep,
	.eq_open = zipfi_eq_open,
	.wait_open = zipfi_wait_set_open,
	.trywait = zipfi_trywait,
};

static void zipfi_fabric_init(struct zipfi_fabric *fabric, uint32_t api_version, void *context)
{
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &zipfi_fabric_fi_ops;
	fabric->fid.ops = &zipfi_fabric_ops;
	fabric->fid.api_version = api_version;
}

int zipfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
	struct fi_fabric_attr core_attr = *attr;
	struct zipfi_fabric *fabric;
	char *util, *shadow = NULL;
	int ret;

	core_attr.prov_name = zipfi_resolve_core(attr->prov_name, attr->name, attr->api_version);
	if (!core_attr.prov_name) {
		ZIPFI_WARN(FABRIC, "provider name \"%s\" names no core to layer over; use for instance \"zip;tcp\"\n",
			   attr->prov_name);
		return -FI_EINVAL;
	}
	core_attr.fabric = NULL;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric) {
		free(core_attr.prov_name);
		return -FI_ENOMEM;
	}
	util = strchr(core_attr.prov_name, ';');
	/* A utility provider whose core is hidden finds it under our name (zipfi_core.c). */
	if (util && zipfi_core_is_hidden() && asprintf(&shadow, "zip%s", util) > 0) {
		free(core_attr.prov_name);
		core_attr.prov_name = shadow;
	}
	zipfi_fabric_depth++;
	ret = fi_fabric(&core_attr, &fabric->core, context);
	zipfi_fabric_depth--;
	fabric->core_name = core_attr.prov_name;
	if (ret) {
		free(fabric->core_name);
		free(fabric);
		return ret;
	}
	zipfi_fabric_init(fabric, attr->api_version, context);
	*fabric_p = &fabric->fid;
	return 0;
}

int zipfi_fabric_wrap(struct fid_fabric *core, const struct fi_provider *prov, struct fid_fabric **fabric_p)
{
	struct zipfi_fabric *fabric;
	int ret;

	if (zipfi_fabric_depth || core->fid.ops == &zipfi_fabric_fi_ops)
		return -FI_ENOSYS;
	ret = zipfi_param_read();
	if (ret)
		return ret;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->core_name = strdup(prov ? prov->name : "");
	if (!fabric->core_name) {
		free(fabric);
		return -FI_ENOMEM;
	}
	fabric->core = core;
	fabric->hooked = true;
	zipfi_fabric_init(fabric, core->api_version, core->fid.context);
	*fabric_p = &fabric->fid;
	return 0;
}

/* Whether a thread may sleep on the wait object of `fid`. */
static int zipfi_trywait_one(struct zipfi_fabric *fabric, struct fid *fid)
{
	struct zipfi_cq *cq;
	struct zipfi_cntr *cntr;
	struct fid *core;

	if (fabric->hooked && !zipfi_cq_is(fid) && !zipfi_cntr_is(fid)) /* the core's, opened through us */
		return fi_trywait(fabric->core, &fid, 1);
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		cq = zipfi_of(fid, zipfi_cq, fid.fid);
		return zipfi_may_sleep(fabric, &cq->wait, cq->domain, &cq->eps, &cq->neps, &cq->ep_lock, &cq->core->fid,
				       &cq->nready, &cq->nerrors);
	case FI_CLASS_CNTR:
		cntr = zipfi_of(fid, zipfi_cntr, fid.fid);
		return zipfi_may_sleep(fabric, &cntr->wait, cntr->domain, &cntr->eps, &cntr->neps, &cntr->ep_lock, NULL, NULL,
				       NULL);
	case FI_CLASS_EQ:
		core = zipfi_eq_core(fabric, fid);
		return fi_trywait(fabric->core, &core, 1);
	default:
		return -FI_EINVAL;
	}
}

int zipfi_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct zipfi_fabric *fabric = zipfi_of(fid, zipfi_fabric, fid);
	int i, ret;

	for (i = 0; i < count; i++) {
		ret = zipfi_trywait_one(fabric, fids[i]);
		if (ret)
			return ret;
	}
	return 0;
}
