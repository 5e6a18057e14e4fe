/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loader sees. */
#include "zipfi.h"

static void zipfi_cleanup(void)
{
}

struct fi_provider zipfi_prov = {
	.name = ZIPFI_NAME,
	.version = ZIPFI_VERSION,
	.getinfo = zipfi_getinfo,
	.fabric = zipfi_fabric_open,
	.cleanup = zipfi_cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	if (zipfi_lf_open(__builtin_return_address(0)))
		return NULL;
	/* A provider older than the version an application asks for is skipped, and what we speak is what the loader speaks. */
	zipfi_prov.fi_version = fi_version();
	zipfi_param_define();
	return &zipfi_prov;
}
