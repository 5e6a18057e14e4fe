/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions: the core's key and descriptor in a wrapper, so that our counters and endpoints can be bound to them. */
#include <stdlib.h>

#include "zipfi.h"

static struct fid_domain *zipfi_mr_domain(struct fid *fid)
{
	return zipfi_of(fid, zipfi_domain, fid.fid)->core;
}

static int zipfi_mr_close(struct fid *fid)
{
	struct zipfi_mr *mr = zipfi_of(fid, zipfi_mr, fid.fid);
	int ret = fi_close(&mr->core->fid);

	if (!ret)
		free(mr);
	return ret;
}

static int zipfi_mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct zipfi_mr *mr = zipfi_of(fid, zipfi_mr, fid.fid);
	struct fid *core;

	switch (bfid->fclass) {
	case FI_CLASS_EP:
		core = &zipfi_of(bfid, zipfi_ep, fid.fid)->core->fid;
		break;
	case FI_CLASS_CNTR:
		core = &zipfi_of(bfid, zipfi_cntr, fid.fid)->core->fid;
		break;
	default:
		return -FI_EINVAL;
	}
	return fi_mr_bind(mr->core, core, flags);
}

static int zipfi_mr_control(struct fid *fid, int command, void *arg)
{
	struct zipfi_mr *mr = zipfi_of(fid, zipfi_mr, fid.fid);
	int ret = fi_control(&mr->core->fid, command, arg);

	/* Some cores choose the key when the region is enabled. */
	mr->fid.key = mr->core->key;
	mr->fid.mem_desc = mr->core->mem_desc;
	return ret;
}

static struct fi_ops zipfi_mr_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_mr_close,
	.bind = zipfi_mr_bind,
	.control = zipfi_mr_control,
};

static struct zipfi_mr *zipfi_mr_alloc(void *context)
{
	struct zipfi_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = context;
	mr->fid.fid.ops = &zipfi_mr_fi_ops;
	return mr;
}

static int zipfi_mr_done(struct zipfi_mr *mr, int ret, struct fid_mr **mr_p)
{
	if (ret) {
		free(mr);
		return ret;
	}
	mr->fid.key = mr->core->key;
	mr->fid.mem_desc = mr->core->mem_desc;
	*mr_p = &mr->fid;
	return 0;
}

static int zipfi_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key,
			uint64_t flags, struct fid_mr **mr_p, void *context)
{
	struct zipfi_mr *mr = zipfi_mr_alloc(context);

	if (!mr)
		return -FI_ENOMEM;
	return zipfi_mr_done(mr, fi_mr_reg(zipfi_mr_domain(fid), buf, len, access, offset, requested_key, flags, &mr->core, mr),
			     mr_p);
}

static int zipfi_mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
			 uint64_t requested_key, uint64_t flags, struct fid_mr **mr_p, void *context)
{
	struct zipfi_mr *mr = zipfi_mr_alloc(context);

	if (!mr)
		return -FI_ENOMEM;
	return zipfi_mr_done(mr, fi_mr_regv(zipfi_mr_domain(fid), iov, count, access, offset, requested_key, flags, &mr->core, mr),
			     mr_p);
}

static int zipfi_mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr_p)
{
	struct zipfi_mr *mr = zipfi_mr_alloc(attr->context);

	if (!mr)
		return -FI_ENOMEM;
	/* The attributes may be longer than ours know them: they go on as they are, with the application's context. */
	return zipfi_mr_done(mr, fi_mr_regattr(zipfi_mr_domain(fid), attr, flags, &mr->core), mr_p);
}

struct fi_ops_mr zipfi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = zipfi_mr_reg,
	.regv = zipfi_mr_regv,
	.regattr = zipfi_mr_regattr,
};
