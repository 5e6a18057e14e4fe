/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <string.h>

#include "zipfi_lf.h"

struct zipfi_lf zipfi_lf;

/* ISO C has no conversion from an object pointer to a function pointer; POSIX promises that the bits are the same. */
static int zipfi_lf_symbol(void *handle, const char *name, void *function_p)
{
	void *symbol = dlsym(handle, name);

	memcpy(function_p, &symbol, sizeof(symbol));
	return symbol ? 0 : -FI_ENOSYS;
}

#define ZIPFI_SYMBOL(field, name) zipfi_lf_symbol(handle, name, &zipfi_lf.field)

int zipfi_lf_open(const void *caller)
{
	Dl_info where;
	void *handle = NULL;
	int ret;

	if (dladdr(caller, &where) && where.dli_fname)
		handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle) /* a libfabric linked into the program itself */
		handle = dlopen(NULL, RTLD_LAZY);
	if (!handle)
		return -FI_ENOSYS;
	ret = ZIPFI_SYMBOL(getinfo, "fi_getinfo") || ZIPFI_SYMBOL(freeinfo, "fi_freeinfo") ||
	      ZIPFI_SYMBOL(dupinfo, "fi_dupinfo") || ZIPFI_SYMBOL(fabric, "fi_fabric") ||
	      ZIPFI_SYMBOL(version, "fi_version") || ZIPFI_SYMBOL(strerror, "fi_strerror") ||
	      ZIPFI_SYMBOL(param_define, "fi_param_define") || ZIPFI_SYMBOL(param_get, "fi_param_get") ||
	      ZIPFI_SYMBOL(log_enabled, "fi_log_enabled") || ZIPFI_SYMBOL(log, "fi_log");
	/* The loader stays loaded as long as it has us loaded: the extra reference is not needed. */
	dlclose(handle);
	return ret ? -FI_ENOSYS : 0;
}
