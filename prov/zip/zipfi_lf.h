/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric that loaded this provider.
 *
 * Several libfabrics live in one process in practice, and the loader's symbols need not be global. So the provider is not
 * linked with any: it looks the few functions it calls up in the library that called fi_prov_ini. After this header
 * the plain names (fi_getinfo, FI_WARN, ...) mean those functions.
 */
#ifndef ZIPFI_LF_H
#define ZIPFI_LF_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

struct zipfi_lf {
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
	uint32_t (*version)(void);
	const char *(*strerror)(int);
	int (*param_define)(const struct fi_provider *, const char *, enum fi_param_type, const char *, ...);
	int (*param_get)(struct fi_provider *, const char *, void *);
	int (*log_enabled)(const struct fi_provider *, enum fi_log_level, enum fi_log_subsys);
	void (*log)(const struct fi_provider *, enum fi_log_level, enum fi_log_subsys, const char *, int, const char *, ...);
};

extern struct zipfi_lf zipfi_lf;

/* Fills zipfi_lf from the library that holds the code address `caller`. Returns 0 or -FI_ENOSYS. */
int zipfi_lf_open(const void *caller);

#define fi_getinfo(...) zipfi_lf.getinfo(__VA_ARGS__)
#define fi_freeinfo(...) zipfi_lf.freeinfo(__VA_ARGS__)
#define fi_dupinfo(...) zipfi_lf.dupinfo(__VA_ARGS__)
#define fi_fabric(...) zipfi_lf.fabric(__VA_ARGS__)
#define fi_version(...) zipfi_lf.version(__VA_ARGS__)
#define fi_strerror(...) zipfi_lf.strerror(__VA_ARGS__)
#define fi_param_define(...) zipfi_lf.param_define(__VA_ARGS__)
#define fi_param_get(...) zipfi_lf.param_get(__VA_ARGS__)
#define fi_log_enabled(...) zipfi_lf.log_enabled(__VA_ARGS__)
#define fi_log(...) zipfi_lf.log(__VA_ARGS__)

#endif
