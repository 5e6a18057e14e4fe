/* SPDX-License-Identifier: BSD-3-Clause */
/* What differs between UCX versions: see compat.h. The version in which each thing changed stands beside it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "zipu.h"

static struct zipu_md *zipu_md_of(uct_md_h md)
{
	return zipu_of(md, zipu_md, super);
}

/* ---- the memory domain */

static void zipu_op_md_close(uct_md_h md)
{
	zipu_md_close(zipu_md_of(md));
}

#if ZIPU_UCX_AT_LEAST(1, 14)
static ucs_status_t zipu_op_md_query(uct_md_h md, uct_md_attr_v2_t *out)
{
	uint64_t field_mask = out->field_mask;
	struct zipu_md_attr attr;

	zipu_md_query(zipu_md_of(md), &attr);
	memset(out, 0, sizeof(*out));
	out->field_mask = field_mask;
#if ZIPU_UCX_AT_LEAST(1, 16)
	out->reg_alignment = 1;
#endif
	out->max_reg = attr.max_reg;
	out->flags = attr.flags;
	out->reg_mem_types = attr.reg_mem_types;
	out->detect_mem_types = attr.detect_mem_types;
	out->access_mem_types = attr.access_mem_types;
	out->reg_cost = attr.reg_cost;
	out->rkey_packed_size = attr.rkey_size;
	out->local_cpus = attr.local_cpus;
	return UCS_OK;
}

ucs_status_t zipu_lower_md_query(uct_md_h md, struct zipu_md_attr *attr)
{
	uct_md_attr_v2_t in = {
		.field_mask = UCT_MD_ATTR_FIELD_MAX_REG | UCT_MD_ATTR_FIELD_FLAGS | UCT_MD_ATTR_FIELD_REG_MEM_TYPES |
			      UCT_MD_ATTR_FIELD_DETECT_MEM_TYPES | UCT_MD_ATTR_FIELD_ACCESS_MEM_TYPES | UCT_MD_ATTR_FIELD_REG_COST |
			      UCT_MD_ATTR_FIELD_RKEY_PACKED_SIZE | UCT_MD_ATTR_FIELD_LOCAL_CPUS,
	};
	ucs_status_t status = uct_md_query_v2(md, &in);

	*attr = (struct zipu_md_attr){
		.flags = in.flags, .reg_mem_types = in.reg_mem_types, .access_mem_types = in.access_mem_types,
		.detect_mem_types = in.detect_mem_types, .max_reg = in.max_reg, .rkey_size = in.rkey_packed_size,
		.reg_cost = in.reg_cost, .local_cpus = in.local_cpus,
	};
	return status;
}

static ucs_status_t zipu_op_mem_reg(uct_md_h md, void *address, size_t length, const uct_md_mem_reg_params_t *params,
				    uct_mem_h *memh)
{
	uint64_t flags = params->field_mask & UCT_MD_MEM_REG_FIELD_FLAGS ? params->flags : 0;

	return zipu_md_reg(zipu_md_of(md), address, length, flags, memh);
}
#else
static ucs_status_t zipu_op_md_query(uct_md_h md, uct_md_attr_t *out)
{
	struct zipu_md_attr attr;

	zipu_md_query(zipu_md_of(md), &attr);
	memset(out, 0, sizeof(*out));
	out->cap.max_reg = attr.max_reg;
	out->cap.flags = attr.flags;
	out->cap.reg_mem_types = attr.reg_mem_types;
	out->cap.detect_mem_types = attr.detect_mem_types;
	out->cap.access_mem_types = attr.access_mem_types;
	out->reg_cost = attr.reg_cost;
	out->rkey_packed_size = attr.rkey_size;
	out->local_cpus = attr.local_cpus;
	return UCS_OK;
}

ucs_status_t zipu_lower_md_query(uct_md_h md, struct zipu_md_attr *attr)
{
	uct_md_attr_t in = {0};
	ucs_status_t status = uct_md_query(md, &in);

	*attr = (struct zipu_md_attr){
		.flags = in.cap.flags, .reg_mem_types = in.cap.reg_mem_types, .access_mem_types = in.cap.access_mem_types,
		.detect_mem_types = in.cap.detect_mem_types, .max_reg = in.cap.max_reg, .rkey_size = in.rkey_packed_size,
		.reg_cost = in.reg_cost, .local_cpus = in.local_cpus,
	};
	return status;
}

static ucs_status_t zipu_op_mem_reg(uct_md_h md, void *address, size_t length, unsigned flags, uct_mem_h *memh)
{
	return zipu_md_reg(zipu_md_of(md), address, length, flags, memh);
}
#endif

static ucs_status_t zipu_op_mem_dereg(uct_md_h md, const uct_md_mem_dereg_params_t *params)
{
	if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) || !params->memh)
		return UCS_ERR_INVALID_PARAM;
	return zipu_md_dereg(zipu_md_of(md), params->memh,
			     params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS ? params->flags : 0,
			     params->field_mask & UCT_MD_MEM_DEREG_FIELD_COMPLETION ? params->comp : NULL);
}

#if ZIPU_UCX_AT_LEAST(1, 16)
static ucs_status_t zipu_op_mkey_pack(uct_md_h md, uct_mem_h memh, void *address, size_t length,
				      const uct_md_mkey_pack_params_t *params, void *buffer)
{
#else
static ucs_status_t zipu_op_mkey_pack(uct_md_h md, uct_mem_h memh, const uct_md_mkey_pack_params_t *params, void *buffer)
{
	void *address = NULL;
	size_t length = 0;
#endif
	return zipu_md_pack(zipu_md_of(md), memh, address, length,
			    params->field_mask & UCT_MD_MKEY_PACK_FIELD_FLAGS ? params->flags : 0, buffer);
}

ucs_status_t zipu_lower_pack(uct_md_h md, uct_mem_h memh, void *address, size_t length, unsigned flags, void *rkey_buffer)
{
	uct_md_mkey_pack_params_t params = {.field_mask = UCT_MD_MKEY_PACK_FIELD_FLAGS, .flags = flags};

#if ZIPU_UCX_AT_LEAST(1, 16)
	return uct_md_mkey_pack_v2(md, memh, address, length, &params, rkey_buffer);
#else
	(void)address;
	(void)length;
	return uct_md_mkey_pack_v2(md, memh, &params, rkey_buffer);
#endif
}

#if ZIPU_UCX_AT_LEAST(1, 19)
static ucs_status_t zipu_op_mem_alloc(uct_md_h md, size_t *length, void **address, ucs_memory_type_t type,
				      ucs_sys_device_t device, unsigned flags, const char *name, uct_mem_h *memh)
#else
static ucs_status_t zipu_op_mem_alloc(uct_md_h md, size_t *length, void **address, ucs_memory_type_t type, unsigned flags,
				      const char *name, uct_mem_h *memh)
#endif
{
	return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t zipu_op_mem_free(uct_md_h md, uct_mem_h memh)
{
	return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t zipu_op_mem_advise(uct_md_h md, uct_mem_h memh, void *address, size_t length, unsigned advice)
{
	return UCS_ERR_UNSUPPORTED;
}

#if ZIPU_UCX_AT_LEAST(1, 22)
static ucs_status_t zipu_op_mem_query(uct_md_h md, const void *address, size_t length, uct_md_mem_attr_v2_t *attr)
#else
static ucs_status_t zipu_op_mem_query(uct_md_h md, const void *address, size_t length, uct_md_mem_attr_t *attr)
#endif
{
	return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t zipu_op_detect_memory_type(uct_md_h md, const void *address, size_t length, ucs_memory_type_t *type)
{
	return uct_md_detect_memory_type(zipu_md_of(md)->lower, address, length, type);
}

#if ZIPU_UCX_AT_LEAST(1, 14)
static ucs_status_t zipu_op_mem_attach(uct_md_h md, const void *buffer, uct_md_mem_attach_params_t *params, uct_mem_h *memh)
{
	return UCS_ERR_UNSUPPORTED;
}
#endif

#if !ZIPU_UCX_AT_LEAST(1, 16)
static int zipu_op_is_sockaddr_accessible(uct_md_h md, const ucs_sock_addr_t *sockaddr, uct_sockaddr_accessibility_t mode)
{
	return 0;
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 21)
static ucs_status_t zipu_op_mem_elem_pack(uct_md_h md, uct_mem_h memh, uct_rkey_t rkey, uct_device_mem_elem_t *element)
{
	return UCS_ERR_UNSUPPORTED;
}
#endif

uct_md_ops_t zipu_md_ops = {
	.close = zipu_op_md_close,
	.query = zipu_op_md_query,
	.mem_alloc = zipu_op_mem_alloc,
	.mem_free = zipu_op_mem_free,
	.mem_advise = zipu_op_mem_advise,
	.mem_reg = zipu_op_mem_reg,
	.mem_dereg = zipu_op_mem_dereg,
	.mem_query = zipu_op_mem_query,
	.mkey_pack = zipu_op_mkey_pack,
	.detect_memory_type = zipu_op_detect_memory_type,
#if ZIPU_UCX_AT_LEAST(1, 14)
	.mem_attach = zipu_op_mem_attach,
#endif
#if !ZIPU_UCX_AT_LEAST(1, 16)
	.is_sockaddr_accessible = zipu_op_is_sockaddr_accessible,
#endif
#if ZIPU_UCX_AT_LEAST(1, 21)
	.mem_elem_pack = zipu_op_mem_elem_pack,
#endif
};

/* ---- the component */

static ucs_status_t zipu_op_query_md_resources(uct_component_t *component, uct_md_resource_desc_t **resources, unsigned *count)
{
	return zipu_query_md_resources(resources, count);
}

static ucs_status_t zipu_op_md_open(uct_component_t *component, const char *name, const uct_md_config_t *config, uct_md_h *md_p)
{
	struct zipu_md *md;
	ucs_status_t status = zipu_md_open(name, config, &md);

	if (status != UCS_OK)
		return status;
	md->super.ops = &zipu_md_ops;
	md->super.component = component;
	*md_p = &md->super;
	return UCS_OK;
}

static ucs_status_t zipu_op_cm_open(uct_component_t *component, uct_worker_h worker, const uct_cm_config_t *config, uct_cm_h *cm)
{
	return UCS_ERR_UNSUPPORTED;
}

#if ZIPU_UCX_AT_LEAST(1, 19)
static ucs_status_t zipu_op_rkey_unpack(uct_component_t *component, const void *buffer, const uct_rkey_unpack_params_t *params,
					uct_rkey_t *rkey, void **handle)
#else
static ucs_status_t zipu_op_rkey_unpack(uct_component_t *component, const void *buffer, uct_rkey_t *rkey, void **handle)
#endif
{
	*handle = NULL;
	return zipu_rkey_unpack(buffer, rkey);
}

static ucs_status_t zipu_op_rkey_ptr(uct_component_t *component, uct_rkey_t rkey, void *handle, uint64_t address, void **local)
{
	return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t zipu_op_rkey_release(uct_component_t *component, uct_rkey_t rkey, void *handle)
{
	zipu_rkey_release(rkey);
	return UCS_OK;
}

#if ZIPU_UCX_AT_LEAST(1, 16)
static ucs_status_t zipu_op_rkey_compare(uct_component_t *component, uct_rkey_t rkey1, uct_rkey_t rkey2,
					 const uct_rkey_compare_params_t *params, int *result)
{
	uint64_t a = ((const struct zipu_rkey *)rkey1)->key, b = ((const struct zipu_rkey *)rkey2)->key;

	*result = a < b ? -1 : a > b;
	return UCS_OK;
}
#endif

static void zipu_op_md_vfs_init(uct_md_h md)
{
}

uct_component_t zipu_component = {
	.name = ZIPU_NAME,
	.query_md_resources = zipu_op_query_md_resources,
	.md_open = zipu_op_md_open,
	.cm_open = zipu_op_cm_open,
	.rkey_unpack = zipu_op_rkey_unpack,
	.rkey_ptr = zipu_op_rkey_ptr,
	.rkey_release = zipu_op_rkey_release,
#if ZIPU_UCX_AT_LEAST(1, 16)
	.rkey_compare = zipu_op_rkey_compare,
#endif
	.md_config = {
		.name = "zip memory domain",
		.prefix = "ZIP_",
		.table = zipu_md_config_table,
		.size = sizeof(struct zipu_md_config),
	},
	.cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
	.tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&zipu_component),
	.md_vfs_init = zipu_op_md_vfs_init,
};

/* ---- the interface and its endpoints */

static void zipu_op_vfs_refresh(uct_iface_h iface)
{
}

static ucs_status_t zipu_op_ep_query(uct_ep_h ep, uct_ep_attr_t *attr)
{
	return uct_ep_query(zipu_ep_of(ep)->lower, attr);
}

#if ZIPU_UCX_AT_LEAST(1, 21)
static ucs_status_t zipu_op_ep_invalidate(uct_ep_h ep, const uct_ep_invalidate_params_t *params)
{
	return uct_ep_invalidate(zipu_ep_of(ep)->lower, params);
}
#else
static ucs_status_t zipu_op_ep_invalidate(uct_ep_h ep, unsigned flags)
{
	return uct_ep_invalidate(zipu_ep_of(ep)->lower, flags);
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 14)
static ucs_status_t zipu_op_ep_connect_to_ep(uct_ep_h ep, const uct_device_addr_t *device, const uct_ep_addr_t *address,
					     const uct_ep_connect_to_ep_params_t *params)
{
	return UCS_ERR_UNSUPPORTED;
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 15)
static int zipu_op_is_reachable(const uct_iface_h iface, const uct_iface_is_reachable_params_t *params)
{
	uct_iface_is_reachable_params_t lower = *params;

	if (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR) {
		if (!zipu_iface_addr_ours(params->iface_addr))
			return 0;
		lower.iface_addr = zipu_iface_addr_lower(params->iface_addr);
	}
#if ZIPU_UCX_AT_LEAST(1, 18)
	if (params->field_mask & UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR_LENGTH)
		lower.iface_addr_length -= sizeof(struct zipu_iface_addr);
#endif
	return uct_iface_is_reachable_v2(zipu_iface_of(iface)->lower, &lower);
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 16)
static int zipu_op_ep_is_connected(uct_ep_h ep, const uct_ep_is_connected_params_t *params)
{
	uct_ep_is_connected_params_t lower = *params;

	if (params->field_mask & UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR) {
		if (!zipu_iface_addr_ours(params->iface_addr))
			return 0;
		lower.iface_addr = zipu_iface_addr_lower(params->iface_addr);
	}
	return uct_ep_is_connected(zipu_ep_of(ep)->lower, &lower);
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 20)
static ucs_status_t zipu_op_get_device_ep(uct_ep_h ep, uct_device_ep_h *device_ep)
{
	return UCS_ERR_UNSUPPORTED;
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 20) && !ZIPU_UCX_AT_LEAST(1, 21)
static ucs_status_t zipu_op_mem_element_pack(const uct_iface_h iface, uct_mem_h memh, uct_rkey_t rkey,
					     uct_device_mem_element_t *element)
{
	return UCS_ERR_UNSUPPORTED;
}
#endif

#if ZIPU_UCX_AT_LEAST(1, 22) || (ZIPU_UCX_AT_LEAST(1, 20) && !ZIPU_UCX_AT_LEAST(1, 21))
#define ZIPU_HAVE_QUERY_V2 1
#endif

#if ZIPU_UCX_AT_LEAST(1, 22)
static ucs_status_t zipu_op_put_sgl(uct_ep_h ep, void *const *buffers, const size_t *lengths, uct_mem_h const *memhs,
				    const uint64_t *addresses, uct_rkey_t const *rkeys, const size_t *counts, const size_t *strides,
				    size_t count, uct_completion_t *comp)
{
	return UCS_ERR_UNSUPPORTED;
}
#endif

static uct_iface_internal_ops_t zipu_internal_ops = {
	.iface_estimate_perf = uct_base_iface_estimate_perf,
	.iface_vfs_refresh = zipu_op_vfs_refresh,
	.ep_query = zipu_op_ep_query,
	.ep_invalidate = zipu_op_ep_invalidate,
#if ZIPU_UCX_AT_LEAST(1, 14)
	.ep_connect_to_ep_v2 = zipu_op_ep_connect_to_ep,
#endif
#if ZIPU_UCX_AT_LEAST(1, 15)
	.iface_is_reachable_v2 = zipu_op_is_reachable,
#endif
#if ZIPU_UCX_AT_LEAST(1, 16)
	.ep_is_connected = zipu_op_ep_is_connected,
#endif
#if ZIPU_UCX_AT_LEAST(1, 20)
	.ep_get_device_ep = zipu_op_get_device_ep,
#endif
#if ZIPU_UCX_AT_LEAST(1, 20) && !ZIPU_UCX_AT_LEAST(1, 21)
	.iface_mem_element_pack = zipu_op_mem_element_pack,
#endif
#ifdef ZIPU_HAVE_QUERY_V2
	.iface_query_v2 = uct_iface_base_query_v2,
#endif
#if ZIPU_UCX_AT_LEAST(1, 22)
	.ep_put_sgl_zcopy = zipu_op_put_sgl,
#endif
};

ucs_status_t zipu_base_iface_init(struct zipu_iface *iface, uct_iface_ops_t *ops, uct_md_h md, uct_worker_h worker,
				  const uct_iface_params_t *params, const uct_iface_config_t *config)
{
	return UCS_CLASS_INIT(uct_base_iface_t, &iface->super, ops, &zipu_internal_ops, md, worker, params, config
			      UCS_STATS_ARG(params->field_mask & UCT_IFACE_PARAM_FIELD_STATS_ROOT ? params->stats_root : NULL)
			      UCS_STATS_ARG(ZIPU_NAME));
}

void zipu_base_iface_cleanup(struct zipu_iface *iface)
{
	UCS_CLASS_CLEANUP(uct_base_iface_t, &iface->super);
}

void zipu_lower_ep_params(uct_ep_params_t *params)
{
	params->iface_addr = zipu_iface_addr_lower(params->iface_addr);
#if ZIPU_UCX_AT_LEAST(1, 18)
	if (params->field_mask & UCT_EP_PARAM_FIELD_IFACE_ADDR_LENGTH)
		params->iface_addr_length -= sizeof(struct zipu_iface_addr);
#endif
}

int zipu_lower_progress_take(uct_iface_h handle, unsigned flags)
{
#if ZIPU_UCX_AT_LEAST(1, 17)
	return 0;
#else
	uct_base_iface_t *lower = zipu_of(handle, uct_base_iface, super);
	ucs_callbackq_t *queue = &lower->worker->super.progress_q;

	if (lower->prog.id == UCS_CALLBACKQ_ID_NULL)
		return 0;
	if (flags & UCT_PROGRESS_THREAD_SAFE)
		ucs_callbackq_remove_safe(queue, lower->prog.id);
	else
		ucs_callbackq_remove(queue, lower->prog.id);
	lower->prog.id = UCS_CALLBACKQ_ID_NULL;
	return 1;
#endif
}

ucs_status_t zipu_base_ep_init(struct zipu_ep *ep, struct zipu_iface *iface)
{
	return UCS_CLASS_INIT(uct_base_ep_t, &ep->super, &iface->super);
}

void zipu_base_ep_cleanup(struct zipu_ep *ep)
{
	UCS_CLASS_CLEANUP(uct_base_ep_t, &ep->super);
}

/* ---- the version */

int zipu_check_version(void)
{
	static int known = -1;
	void (*get_version)(unsigned *, unsigned *, unsigned *);
	unsigned major, minor, release;

	if (known >= 0)
		return known;
	/* Only UCP tells its version, and who uses UCT alone has been linked with what he has. */
	*(void **)&get_version = dlsym(RTLD_DEFAULT, "ucp_get_version");
	known = 1;
	if (!get_version)
		return known;
	get_version(&major, &minor, &release);
	known = major == ZIPU_UCX_MAJOR && minor == ZIPU_UCX_MINOR;
	if (!known)
		fprintf(stderr, "zip: this libuct_zip.so is built for UCX %d.%d and stays out of UCX %u.%u\n", ZIPU_UCX_MAJOR,
			ZIPU_UCX_MINOR, major, minor);
	return known;
}
