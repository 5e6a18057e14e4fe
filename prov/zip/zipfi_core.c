/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second, very small provider: the way from a utility provider below us to the core below it.
 *
 * FI_PROVIDER="zip;verbs" hides every core but one called "zip" from libfabric's own queries. ofi_zip asks for hidden
 * ones explicitly, but ofi_rxm, which it finds over verbs (or, before libfabric 1.18, over tcp), does not when it opens:
 * it would not find its core. So there is a core called "zip". It answers utility providers only, with what the hidden
 * core answers, and opens that core's own fabric: nothing is wrapped, and nothing of it remains once a fabric is open.
 */
#include <stdlib.h>
#include <string.h>

#include "zipfi_lf.h"

#define ZIPFI_GETINFO_HIDDEN (1ULL << 60) /* see zipfi.h */
#define ZIPFI_CORE_PROV_ONLY (1ULL << 59)

static __thread int zipfi_core_depth;

/* The core that FI_PROVIDER puts under "zip"; malloc'ed, NULL when there is none. */
static char *zipfi_core_hidden(void)
{
	const char *text = getenv("FI_PROVIDER");

	while (text && *text && *text != '^') {
		if (!strncasecmp(text, "zip;", 4))
			return strndup(text + 4, strcspn(text + 4, ";,"));
		text += strcspn(text, ",");
		text += *text == ',';
	}
	return NULL;
}

static int zipfi_core_query(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints, char *core, struct fi_info **info)
{
	struct fi_info *inner = fi_dupinfo(hints), *each;
	int ret;

	if (!inner)
		return -FI_ENOMEM;
	if (!inner->fabric_attr)
		inner->fabric_attr = calloc(1, sizeof(*inner->fabric_attr));
	if (!inner->fabric_attr) {
		fi_freeinfo(inner);
		return -FI_ENOMEM;
	}
	free(inner->fabric_attr->prov_name);
	inner->fabric_attr->prov_name = strdup(core);
	inner->fabric_attr->fabric = NULL;
	zipfi_core_depth++;
	ret = fi_getinfo(version, node, service, flags | ZIPFI_GETINFO_HIDDEN, inner, info);
	zipfi_core_depth--;
	fi_freeinfo(inner);
	for (each = ret ? NULL : *info; each; each = each->next) {
		free(each->fabric_attr->prov_name); /* libfabric puts our name there */
		each->fabric_attr->prov_name = NULL;
	}
	return ret;
}

static int zipfi_core_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			      const struct fi_info *hints, struct fi_info **info)
{
	char *core;
	int ret;

	if (!(flags & ZIPFI_CORE_PROV_ONLY) || zipfi_core_depth)
		return -FI_ENODATA;
	core = zipfi_core_hidden();
	if (!core)
		return -FI_ENODATA;
	ret = zipfi_core_query(version, node, service, flags, hints, core, info);
	free(core);
	return ret;
}

static int zipfi_core_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fi_fabric_attr inner = *attr;
	int ret;

	inner.prov_name = zipfi_core_hidden();
	if (!inner.prov_name)
		return -FI_ENODATA;
	ret = fi_fabric(&inner, fabric, context);
	free(inner.prov_name);
	return ret;
}

static void zipfi_core_cleanup(void)
{
}

static struct fi_provider zipfi_core_prov = {
	.name = "zip",
	.version = FI_VERSION(0, 1),
	.getinfo = zipfi_core_getinfo,
	.fabric = zipfi_core_fabric,
	.cleanup = zipfi_core_cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

/* FI_HOOK=zip asks for a provider called "zip" before one called "ofi_hook_zip": this one must not stand in the way. */
static int zipfi_core_hook_wanted(void)
{
	const char *text = getenv("FI_HOOK");

	while (text && *text) {
		size_t n = strcspn(text, ";");

		if (n == 3 && !strncasecmp(text, "zip", n))
			return 1;
		text += n + (text[n] == ';');
	}
	return 0;
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	if (zipfi_core_hook_wanted() || zipfi_lf_open(__builtin_return_address(0)))
		return NULL;
	zipfi_core_prov.fi_version = fi_version();
	return &zipfi_core_prov;
}
