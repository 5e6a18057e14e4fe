/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A third, very small provider: FI_HOOK=zip, for programs that insist on a core's own name.
 *
 * libfabric hands every fabric that is opened to the provider called "ofi_hook_zip" (fi_provider(7), FI_HOOK). A shared object holds
 * one provider, so this one passes the call on to ofi_zip, which stands beside it and is loaded as well.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "zipfi_hook.h"
#include "zipfi_lf.h"

static int zipfi_hook_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

static void zipfi_hook_cleanup(void)
{
}

static struct fi_provider zipfi_hook_prov = {
	.name = "ofi_hook_zip",
	.version = FI_VERSION(0, 1),
	.fabric = zipfi_hook_fabric,
	.cleanup = zipfi_hook_cleanup,
};

/* The function of the ofi_zip beside this file, NULL when libfabric has not loaded it. */
static zipfi_wrap_fn *zipfi_hook_find(void)
{
	zipfi_wrap_fn *wrap = NULL;
	char path[PATH_MAX];
	Dl_info here;
	void *handle, *symbol;
	int n;

	if (!dladdr(&zipfi_hook_prov, &here) || !here.dli_fname)
		return NULL;
	n = (int)(strrchr(here.dli_fname, '/') ? strrchr(here.dli_fname, '/') - here.dli_fname + 1 : 0);
	if (snprintf(path, sizeof(path), "%.*s%s", n, here.dli_fname, "libzip-fi.so") >= (int)sizeof(path))
		return NULL;
	handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	symbol = dlsym(handle, ZIPFI_WRAP_SYMBOL);
	memcpy(&wrap, &symbol, sizeof(wrap));
	dlclose(handle); /* libfabric keeps it */
	return wrap;
}

static int zipfi_hook_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	zipfi_wrap_fn *wrap = zipfi_hook_find();

	if (!wrap) {
		FI_WARN(&zipfi_hook_prov, FI_LOG_FABRIC, "libzip-fi.so is not loaded from the folder of libzip_hook-fi.so: no compression\n");
		return -FI_ENOSYS;
	}
	return wrap(attr->fabric, context, fabric);
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	if (zipfi_lf_open(__builtin_return_address(0)))
		return NULL;
	zipfi_hook_prov.fi_version = fi_version();
	return &zipfi_hook_prov;
}
