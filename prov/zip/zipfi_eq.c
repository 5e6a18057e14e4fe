/* SPDX-License-Identifier: BSD-3-Clause */
/* Event queue: the core's, with the fids in its events turned into ours. */
#include <stdlib.h>

#include "zipfi.h"
#include "zipfi_no.h"

static int zipfi_eq_close(struct fid *fid)
{
	struct zipfi_eq *eq = zipfi_of(fid, zipfi_eq, fid.fid);
	int ret = fi_close(&eq->core->fid);

	if (!ret)
		free(eq);
	return ret;
}

/* Core objects that report events are opened with our object as context. */
static void zipfi_eq_translate(uint32_t event, void *buf, ssize_t len)
{
	struct fi_eq_entry *entry = buf;

	if (len >= (ssize_t)sizeof(*entry) && (event == FI_AV_COMPLETE || event == FI_MR_COMPLETE) && entry->fid &&
	    entry->fid->context)
		entry->fid = entry->fid->context;
}

static ssize_t zipfi_eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	ssize_t ret = fi_eq_read(zipfi_of(fid, zipfi_eq, fid)->core, event, buf, len, flags);

	zipfi_eq_translate(*event, buf, ret);
	return ret;
}

static ssize_t zipfi_eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	ssize_t ret = fi_eq_readerr(zipfi_of(fid, zipfi_eq, fid)->core, buf, flags);

	if (ret > 0 && buf->fid && (buf->fid->fclass == FI_CLASS_AV || buf->fid->fclass == FI_CLASS_MR) && buf->fid->context)
		buf->fid = buf->fid->context;
	return ret;
}

static ssize_t zipfi_eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	return fi_eq_write(zipfi_of(fid, zipfi_eq, fid)->core, event, buf, len, flags);
}

static ssize_t zipfi_eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	ssize_t ret = fi_eq_sread(zipfi_of(fid, zipfi_eq, fid)->core, event, buf, len, timeout, flags);

	zipfi_eq_translate(*event, buf, ret);
	return ret;
}

static const char *zipfi_eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	return fi_eq_strerror(zipfi_of(fid, zipfi_eq, fid)->core, prov_errno, err_data, buf, len);
}

static int zipfi_eq_control(struct fid *fid, int command, void *arg)
{
	return fi_control(&zipfi_of(fid, zipfi_eq, fid.fid)->core->fid, command, arg);
}

static struct fi_ops zipfi_eq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_eq_close,
	.bind = zipfi_no_bind,
	.control = zipfi_eq_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_eq zipfi_eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = zipfi_eq_read,
	.readerr = zipfi_eq_readerr,
	.write = zipfi_eq_write,
	.sread = zipfi_eq_sread,
	.strerror = zipfi_eq_strerror,
};

int zipfi_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context)
{
	struct zipfi_fabric *fabric = zipfi_of(fid, zipfi_fabric, fid);
	struct zipfi_eq *eq;
	int ret;

	if (fabric->hooked)
		return fi_eq_open(fabric->core, attr, eq_p, context);
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	ret = fi_eq_open(fabric->core, attr, &eq->core, context);
	if (ret) {
		free(eq);
		return ret;
	}
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &zipfi_eq_fi_ops;
	eq->fid.ops = &zipfi_eq_ops;
	*eq_p = &eq->fid;
	return 0;
}

struct fid *zipfi_eq_core(const struct zipfi_fabric *fabric, struct fid *eq)
{
	return fabric->hooked ? eq : &zipfi_of(eq, zipfi_eq, fid.fid)->core->fid;
}
