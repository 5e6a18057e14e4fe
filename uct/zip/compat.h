/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What differs between UCX versions, together with compat.c. A transport is built against headers that are not installed and
 * that change from release to release: everything that depends on the release is in these two files, the rest of the adapter
 * uses the types here and the public UCT API.
 */
#ifndef ZIPU_COMPAT_H
#define ZIPU_COMPAT_H

#include <uct/api/uct.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/api/version.h>
#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <ucs/config/parser.h>
#include <ucs/config/types.h>
#include <ucs/debug/log.h>
#include <ucs/sys/string.h>

/* The version that this is built for, from configure: ZIPU_UCX_MAJOR, ZIPU_UCX_MINOR. */
#define ZIPU_UCX_AT_LEAST(major, minor) \
	(ZIPU_UCX_MAJOR > (major) || (ZIPU_UCX_MAJOR == (major) && ZIPU_UCX_MINOR >= (minor)))

/* What the adapter says of its memory domain, and asks of the one below. */
struct zipu_md_attr {
	uint64_t flags;          /* UCT_MD_FLAG_*; ZIPU_MD_INVALIDATE in its place */
	uint64_t reg_mem_types;  /* bit sets of ucs_memory_type_t */
	uint64_t access_mem_types, detect_mem_types;
	size_t max_reg;
	size_t rkey_size;        /* bytes of a packed key */
	ucs_linear_func_t reg_cost;
	ucs_cpu_set_t local_cpus;
};

#if ZIPU_UCX_AT_LEAST(1, 15)
#define ZIPU_MD_INVALIDATE UCT_MD_FLAG_INVALIDATE_RMA
#define ZIPU_PACK_INVALIDATE UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA
#else
#define ZIPU_MD_INVALIDATE UCT_MD_FLAG_INVALIDATE
#define ZIPU_PACK_INVALIDATE UCT_MD_MKEY_PACK_FLAG_INVALIDATE
#endif

struct zipu_iface;
struct zipu_ep;

/* ---- implemented by compat.c */

extern uct_component_t zipu_component;
extern uct_md_ops_t zipu_md_ops;

ucs_status_t zipu_lower_md_query(uct_md_h md, struct zipu_md_attr *attr);
ucs_status_t zipu_lower_pack(uct_md_h md, uct_mem_h memh, void *address, size_t length, unsigned flags, void *rkey_buffer);
/* UCX's own part of an interface and an endpoint. */
ucs_status_t zipu_base_iface_init(struct zipu_iface *iface, uct_iface_ops_t *ops, uct_md_h md, uct_worker_h worker,
				  const uct_iface_params_t *params, const uct_iface_config_t *config);
void zipu_base_iface_cleanup(struct zipu_iface *iface);
/*
 * Takes the progress of a lower interface, which was enabled, out of the worker's list, so that we can call it as often as it
 * pays. Returns 1 if that was done, 0 if the worker goes on calling it.
 */
int zipu_lower_progress_take(uct_iface_h lower, unsigned flags);
/* The lower interface's address in place of ours. */
void zipu_lower_ep_params(uct_ep_params_t *params);
ucs_status_t zipu_base_ep_init(struct zipu_ep *ep, struct zipu_iface *iface);
void zipu_base_ep_cleanup(struct zipu_ep *ep);
/* Is the UCX that has loaded us the one that this is built for? Says so once if not. */
int zipu_check_version(void);

#endif
