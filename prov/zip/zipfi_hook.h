/* SPDX-License-Identifier: BSD-3-Clause */
/* What the hook (zipfi_hook.c, a module of its own) asks of ofi_zip. */
#ifndef ZIPFI_HOOK_H
#define ZIPFI_HOOK_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

/*
 * Wraps a core's fabric that is open. `prov`: the core's struct fi_provider, or NULL; it is only asked for its name. 0, or a negative
 * fi_errno: `core` is then as it was. The wrapper owns `core`.
 */
typedef int zipfi_wrap_fn(struct fid_fabric *core, const struct fi_provider *prov, struct fid_fabric **fabric);

#define ZIPFI_WRAP_SYMBOL "zipfi_fabric_wrap"
__attribute__((visibility("default"))) zipfi_wrap_fn zipfi_fabric_wrap;

#endif
