/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface: opens the lower one, says what the two can do together, and drives the work of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "zipu.h"

/*
 * What UCP's choice of lanes goes by. More bandwidth than the lower transport has, which is what compression makes of it: big
 * buffers go here. More latency: active messages stay with the lower transport where that is listed too, and it is not taken for
 * a worse copy of this one.
 */
#define ZIPU_BANDWIDTH_GAIN 1.4
#define ZIPU_MORE_LATENCY 1e-6
#define ZIPU_SHORT_MAX 256u
/*
 * tcp makes a system call to see whether something has come. Beside a tcp interface of the user's own, which does it too, that would
 * be felt by each small message: after so many calls for nothing it is called every so many times only.
 */
#define ZIPU_QUIET 256u
#define ZIPU_QUIET_SKIP 4u

/* What the lower transport may do for the user and we pass through. */
#define ZIPU_PASSED_FLAGS                                                                                                   \
	(UCT_IFACE_FLAG_AM_SHORT | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY | UCT_IFACE_FLAG_ERRHANDLE_SHORT_BUF |    \
	 UCT_IFACE_FLAG_ERRHANDLE_BCOPY_BUF | UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF | UCT_IFACE_FLAG_ERRHANDLE_AM_ID |            \
	 UCT_IFACE_FLAG_ERRHANDLE_BCOPY_LEN | UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE | UCT_IFACE_FLAG_EP_CHECK |                \
	 UCT_IFACE_FLAG_EP_KEEPALIVE | UCT_IFACE_FLAG_AM_DUP | UCT_IFACE_FLAG_CB_SYNC)
#define ZIPU_LOWER_RMA_FLAGS                                                                                                \
	(UCT_IFACE_FLAG_GET_SHORT | UCT_IFACE_FLAG_ATOMIC_CPU | UCT_IFACE_FLAG_ATOMIC_DEVICE | UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM)
#define ZIPU_OWN_FLAGS                                                                                                      \
	(UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |      \
	 UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_BCOPY | UCT_IFACE_FLAG_GET_ZCOPY)

/* ---- attributes */

static void zipu_iface_query_am(const struct zipu_iface *iface, uct_iface_attr_t *attr)
{
	attr->cap.am = iface->lower_attr.cap.am;
	/* Our header goes in front of messages with one of the ids. */
	attr->cap.am.max_short -= ZIPU_USER_HDR;
	attr->cap.am.max_bcopy -= ZIPU_USER_HDR;
	attr->cap.am.max_hdr -= attr->cap.am.max_hdr > ZIPU_USER_HDR ? ZIPU_USER_HDR : attr->cap.am.max_hdr;
	if (attr->cap.am.max_zcopy)
		attr->cap.am.max_zcopy -= ZIPU_USER_HDR;
	if (attr->cap.am.max_iov > ZIPU_IOV_MAX)
		attr->cap.am.max_iov = ZIPU_IOV_MAX;
}

static void zipu_iface_query_rma(const struct zipu_iface *iface, uct_iface_attr_t *attr)
{
	const uct_iface_attr_t *lower = &iface->lower_attr;

	attr->cap.put.max_short = ZIPU_SHORT_MAX;
	attr->cap.put.max_bcopy = iface->frag_bcopy;
	attr->cap.put.max_zcopy = SIZE_MAX / 2;
	attr->cap.put.opt_zcopy_align = 1;
	attr->cap.put.align_mtu = 1;
	attr->cap.put.max_iov = iface->max_iov;
	attr->cap.get.max_bcopy = iface->frag_bcopy;
	attr->cap.get.max_zcopy = SIZE_MAX / 2;
	attr->cap.get.opt_zcopy_align = 1;
	attr->cap.get.align_mtu = 1;
	attr->cap.get.max_iov = iface->max_iov;
	if (!iface->md->lower_rma)
		return;
	/* What stays raw goes to the lower transport, where it can do it. */
	attr->cap.flags |= lower->cap.flags & ZIPU_LOWER_RMA_FLAGS;
	attr->cap.get.max_short = lower->cap.get.max_short;
	attr->cap.atomic32 = lower->cap.atomic32;
	attr->cap.atomic64 = lower->cap.atomic64;
	if (lower->cap.flags & UCT_IFACE_FLAG_PUT_SHORT)
		attr->cap.put.max_short = lower->cap.put.max_short;
	if (lower->cap.flags & UCT_IFACE_FLAG_PUT_BCOPY)
		attr->cap.put.max_bcopy = lower->cap.put.max_bcopy;
	if (lower->cap.flags & UCT_IFACE_FLAG_GET_BCOPY)
		attr->cap.get.max_bcopy = lower->cap.get.max_bcopy;
	if (lower->cap.flags & UCT_IFACE_FLAG_PUT_ZCOPY)
		attr->cap.put.max_zcopy = lower->cap.put.max_zcopy;
	if (lower->cap.flags & UCT_IFACE_FLAG_GET_ZCOPY) {
		attr->cap.get.max_zcopy = lower->cap.get.max_zcopy;
		attr->cap.get.min_zcopy = lower->cap.get.min_zcopy;
	}
}

static ucs_status_t zipu_iface_query(uct_iface_h handle, uct_iface_attr_t *attr)
{
	struct zipu_iface *iface = zipu_iface_of(handle);
	const uct_iface_attr_t *lower = &iface->lower_attr;

	uct_base_iface_query(&iface->super, attr);
	attr->iface_addr_len = sizeof(struct zipu_iface_addr) + lower->iface_addr_len;
	attr->device_addr_len = lower->device_addr_len;
	attr->ep_addr_len = 0;
	attr->max_conn_priv = 0;
	attr->cap.flags = (lower->cap.flags & ZIPU_PASSED_FLAGS) | ZIPU_OWN_FLAGS;
	attr->cap.event_flags = lower->cap.event_flags;
	zipu_iface_query_am(iface, attr);
	zipu_iface_query_rma(iface, attr);
	attr->bandwidth.dedicated = lower->bandwidth.dedicated * ZIPU_BANDWIDTH_GAIN;
	attr->bandwidth.shared = lower->bandwidth.shared * ZIPU_BANDWIDTH_GAIN;
	attr->latency = lower->latency;
	attr->latency.c += ZIPU_MORE_LATENCY;
	attr->overhead = lower->overhead;
	attr->priority = lower->priority;
	attr->dev_num_paths = lower->dev_num_paths;
	return UCS_OK;
}

static ucs_status_t zipu_iface_get_device_address(uct_iface_h handle, uct_device_addr_t *addr)
{
	return uct_iface_get_device_address(zipu_iface_of(handle)->lower, addr);
}

static ucs_status_t zipu_iface_get_address(uct_iface_h handle, uct_iface_addr_t *addr)
{
	struct zipu_iface *iface = zipu_iface_of(handle);
	struct zipu_iface_addr ours = {.id = iface->id, .version = ZIPU_WIRE_VERSION};

	memcpy(addr, &ours, sizeof(ours));
	return uct_iface_get_address(iface->lower, (void *)((char *)addr + sizeof(ours)));
}

static int zipu_iface_is_reachable(const uct_iface_h handle, const uct_device_addr_t *device, const uct_iface_addr_t *addr)
{
	if (addr && !zipu_iface_addr_ours(addr))
		return 0;
	return uct_iface_is_reachable(zipu_iface_of(handle)->lower, device, addr ? zipu_iface_addr_lower(addr) : NULL);
}

/* ---- progress and events */

/* Our own work, beside the lower interface's. */
static unsigned zipu_iface_work(struct zipu_iface *iface)
{
	unsigned count = 0;

	if (iface->deaths != __atomic_load_n(&iface->md->deaths, __ATOMIC_RELAXED))
		zipu_targets_revoke(iface);
	if (zipc_list_empty(&iface->sending) && zipc_list_empty(&iface->events) && zipc_list_empty(&iface->done) &&
	    zipc_list_empty(&iface->waiting) && zipc_list_empty(&iface->failing) && !zipc_engine_busy(iface->engine))
		return 0;
	zipu_net_events(iface);
	iface->work = zipc_engine_progress(iface->engine);
	zipu_links_progress(iface);
	zipu_net_events(iface);
	zipu_eps_fail(iface);
	count += zipu_ops_progress(iface);
	count += zipu_eps_progress(iface);
	zipu_page_update(iface);
	return count;
}

static unsigned zipu_iface_drive(struct zipu_iface *iface)
{
	unsigned count;

	if (iface->quiet >= ZIPU_QUIET && ++iface->skipped < ZIPU_QUIET_SKIP && !iface->busy && !zipc_engine_busy(iface->engine))
		return 0;
	count = uct_iface_progress(iface->lower);
	iface->quiet = count ? 0 : iface->quiet + 1;
	iface->skipped = 0;
	return count;
}

/* What the worker calls. It calls the lower interface's progress by itself, or we do. */
static unsigned zipu_iface_progress_own(void *arg)
{
	struct zipu_iface *iface = arg;
	unsigned count = iface->driving ? zipu_iface_drive(iface) : 0;

	return count + zipu_iface_work(iface);
}

static unsigned zipu_iface_progress(uct_iface_h handle)
{
	struct zipu_iface *iface = zipu_iface_of(handle);

	return uct_iface_progress(iface->lower) + zipu_iface_work(iface);
}

static void zipu_iface_progress_enable(uct_iface_h handle, unsigned flags)
{
	struct zipu_iface *iface = zipu_iface_of(handle);

	uct_iface_progress_enable(iface->lower, flags);
	if (!strcmp(iface->md->tl_name, "tcp") && zipu_lower_progress_take(iface->lower, flags))
		iface->driving = true;
	uct_base_iface_progress_enable_cb(&iface->super, zipu_iface_progress_own, flags);
}

static void zipu_iface_progress_disable(uct_iface_h handle, unsigned flags)
{
	struct zipu_iface *iface = zipu_iface_of(handle);

	uct_base_iface_progress_disable(handle, flags);
	uct_iface_progress_disable(iface->lower, flags);
}

static ucs_status_t zipu_iface_event_fd_get(uct_iface_h handle, int *fd)
{
	return uct_iface_event_fd_get(zipu_iface_of(handle)->lower, fd);
}

static ucs_status_t zipu_iface_event_arm(uct_iface_h handle, unsigned events)
{
	struct zipu_iface *iface = zipu_iface_of(handle);

	/* Nothing wakes a sleeper for what is only queued here. */
	if (!zipc_list_empty(&iface->sending) || !zipc_list_empty(&iface->events) || !zipc_list_empty(&iface->done) ||
	    !zipc_list_empty(&iface->waiting) || !zipc_list_empty(&iface->failing) || iface->work)
		return UCS_ERR_BUSY;
	return uct_iface_event_arm(iface->lower, events);
}

/* ---- errors */

static ucs_status_t zipu_lower_error(void *arg, uct_ep_h lower, ucs_status_t status)
{
	struct zipu_iface *iface = arg;
	struct zipc_list *entry;

	for (entry = iface->links.next; entry != &iface->links; entry = entry->next) {
		struct zipu_link *link = zipu_of(entry, zipu_link, link);

		if (link->ep == lower) {
			zipu_link_fail(link);
			return UCS_OK;
		}
	}
	for (entry = iface->eps.next; entry != &iface->eps; entry = entry->next) {
		struct zipu_ep *ep = zipu_of(entry, zipu_ep, link);

		if (ep->lower == lower) {
			zipu_ep_fail(ep, status);
			return UCS_OK;
		}
	}
	return UCS_OK; /* of an endpoint that is being made, or is gone */
}

/* ---- life */

static void zipu_iface_close(uct_iface_h handle);

static uct_iface_ops_t zipu_iface_ops = {
	.ep_put_short = zipu_ep_put_short,
	.ep_put_bcopy = zipu_ep_put_bcopy,
	.ep_put_zcopy = zipu_ep_put_zcopy,
	.ep_get_short = zipu_ep_get_short,
	.ep_get_bcopy = zipu_ep_get_bcopy,
	.ep_get_zcopy = zipu_ep_get_zcopy,
	.ep_am_short = zipu_ep_am_short,
	.ep_am_short_iov = zipu_ep_am_short_iov,
	.ep_am_bcopy = zipu_ep_am_bcopy,
	.ep_am_zcopy = zipu_ep_am_zcopy,
	.ep_atomic_cswap64 = zipu_ep_atomic_cswap64,
	.ep_atomic_cswap32 = zipu_ep_atomic_cswap32,
	.ep_atomic32_post = zipu_ep_atomic32_post,
	.ep_atomic64_post = zipu_ep_atomic64_post,
	.ep_atomic32_fetch = zipu_ep_atomic32_fetch,
	.ep_atomic64_fetch = zipu_ep_atomic64_fetch,
	.ep_pending_add = zipu_ep_pending_add,
	.ep_pending_purge = zipu_ep_pending_purge,
	.ep_flush = zipu_ep_flush,
	.ep_fence = zipu_ep_fence,
	.ep_check = zipu_ep_check,
	.ep_create = zipu_ep_create,
	.ep_destroy = zipu_ep_destroy,
	.iface_flush = zipu_iface_flush,
	.iface_fence = zipu_iface_fence,
	.iface_progress_enable = zipu_iface_progress_enable,
	.iface_progress_disable = zipu_iface_progress_disable,
	.iface_progress = zipu_iface_progress,
	.iface_event_fd_get = zipu_iface_event_fd_get,
	.iface_event_arm = zipu_iface_event_arm,
	.iface_close = zipu_iface_close,
	.iface_query = zipu_iface_query,
	.iface_get_device_address = zipu_iface_get_device_address,
	.iface_get_address = zipu_iface_get_address,
	.iface_is_reachable = zipu_iface_is_reachable,
};

/* Opens the lower interface on the same device, with the user's own wishes. */
static ucs_status_t zipu_iface_open_lower(struct zipu_iface *iface, uct_worker_h worker, const uct_iface_params_t *params)
{
	uct_iface_params_t lower = *params;
	uct_iface_config_t *config;
	ucs_status_t status = uct_md_iface_config_read(iface->md->lower, iface->md->tl_name, NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	lower.mode.device.tl_name = iface->md->tl_name;
	lower.field_mask &= ~(uint64_t)(UCT_IFACE_PARAM_FIELD_HW_TM_EAGER_CB | UCT_IFACE_PARAM_FIELD_HW_TM_EAGER_ARG |
					UCT_IFACE_PARAM_FIELD_HW_TM_RNDV_CB | UCT_IFACE_PARAM_FIELD_HW_TM_RNDV_ARG);
	lower.field_mask |= UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
			    UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS;
	lower.err_handler = zipu_lower_error;
	lower.err_handler_arg = iface;
	lower.err_handler_flags = 0;
	status = uct_iface_open(iface->md->lower, worker, &lower, config, &iface->lower);
	uct_config_release(config);
	return status;
}

static ucs_status_t zipu_iface_check_lower(struct zipu_iface *iface)
{
	uct_iface_attr_t *attr = &iface->lower_attr;
	ucs_status_t status = uct_iface_query(iface->lower, attr);

	if (status != UCS_OK)
		return status;
	if (!ucs_test_all_flags(attr->cap.flags, UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_CB_SYNC) ||
	    attr->cap.am.max_bcopy < 2 * (ZIPU_MSG_MAX + ZIPC_CONTROL_MAX) ||
	    attr->device_addr_len + attr->iface_addr_len + sizeof(struct zipu_address) > ZIPU_ADDRESS_MAX) {
		ucs_diag("zip cannot stack on %s: it connects no interfaces, or has no active messages of a useful size",
			 iface->md->tl_name);
		return UCS_ERR_UNSUPPORTED;
	}
	iface->frag_bcopy = attr->cap.am.max_bcopy - ZIPU_MSG_MAX;
	if ((attr->cap.flags & UCT_IFACE_FLAG_AM_ZCOPY) && attr->cap.am.max_hdr >= ZIPU_MSG_MAX &&
	    attr->cap.am.max_zcopy > iface->frag_bcopy)
		iface->frag_zcopy = attr->cap.am.max_zcopy - ZIPU_MSG_MAX;
	iface->max_iov = ZIPU_IOV_MAX;
	if (iface->frag_zcopy && attr->cap.am.max_iov < iface->max_iov)
		iface->max_iov = attr->cap.am.max_iov;
	iface->translate = !!(iface->md->lower_attr.flags & UCT_MD_FLAG_NEED_MEMH);
	return UCS_OK;
}

/* All ids: the handlers that the user sets on us are found when a message comes. */
static ucs_status_t zipu_iface_set_handlers(struct zipu_iface *iface)
{
	ucs_status_t status = UCS_OK;
	unsigned id;

	for (id = 0; id < UCT_AM_ID_MAX && status == UCS_OK; id++) {
		iface->am[id] = (struct zipu_am){.iface = iface, .id = (uint8_t)id};
		status = uct_iface_set_am_handler(iface->lower, (uint8_t)id, zipu_am_handler, &iface->am[id], 0);
	}
	return status;
}

static void zipu_iface_init_lists(struct zipu_iface *iface)
{
	zipc_list_init(&iface->eps);
	zipc_list_init(&iface->waiting);
	zipc_list_init(&iface->failing);
	zipc_list_init(&iface->done);
	zipc_list_init(&iface->events);
	zipc_list_init(&iface->links);
	zipc_list_init(&iface->sending);
	zipc_list_init(&iface->targets);
	zipc_list_init(&iface->free_ops);
}

ucs_status_t zipu_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
			     const uct_iface_config_t *config, uct_iface_h *iface_p)
{
	struct zipu_iface *iface;
	ucs_status_t status;

	if (!(params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE))
		return UCS_ERR_UNSUPPORTED;
	iface = calloc(1, sizeof(*iface));
	if (!iface)
		return UCS_ERR_NO_MEMORY;
	iface->md = zipu_of(md, zipu_md, super);
	zipu_iface_init_lists(iface);
	status = UCS_ERR_IO_ERROR;
	if (getrandom(&iface->id, sizeof(iface->id), 0) != sizeof(iface->id))
		goto err_free;
	status = zipu_base_iface_init(iface, &zipu_iface_ops, md, worker, params, config);
	if (status != UCS_OK)
		goto err_free;
	status = zipu_iface_open_lower(iface, worker, params);
	if (status != UCS_OK)
		goto err_base;
	status = zipu_iface_check_lower(iface);
	if (status != UCS_OK)
		goto err_lower;
	status = zipu_engine_open(iface, (const struct zipu_iface_config *)(const void *)config);
	if (status != UCS_OK)
		goto err_lower;
	status = zipu_iface_set_handlers(iface);
	if (status != UCS_OK)
		goto err_engine;
	zipu_page_attach(iface, params->mode.device.dev_name);
	*iface_p = &iface->super.super;
	return UCS_OK;

err_engine:
	zipu_engine_close(iface);
err_lower:
	uct_iface_close(iface->lower);
err_base:
	zipu_base_iface_cleanup(iface);
err_free:
	free(iface);
	return status;
}

static void zipu_iface_print_stats(const struct zipu_iface *iface)
{
	struct zipc_stats st;

	zipc_engine_stats(iface->engine, &st);
	fprintf(stderr,
		"zip: sends %llu bytes %llu wire %llu, recvs %llu bytes %llu wire %llu, raw peer %llu data %llu off %llu "
		"slow %llu, errors %llu, plain puts %llu gets %llu\n",
		(unsigned long long)st.sends, (unsigned long long)st.send_bytes, (unsigned long long)st.wire_bytes,
		(unsigned long long)st.recvs, (unsigned long long)st.recv_bytes, (unsigned long long)st.recv_wire_bytes,
		(unsigned long long)st.raw[ZIPC_RAW_PEER], (unsigned long long)st.raw[ZIPC_RAW_DATA],
		(unsigned long long)st.raw[ZIPC_RAW_OFF], (unsigned long long)st.raw[ZIPC_RAW_SLOW], (unsigned long long)st.errors,
		(unsigned long long)iface->raw_puts, (unsigned long long)iface->raw_gets);
}

static void zipu_iface_close(uct_iface_h handle)
{
	struct zipu_iface *iface = zipu_iface_of(handle);
	unsigned id;

	zipu_engine_leave(iface);
	zipu_page_detach(iface);
	if (iface->stats)
		zipu_iface_print_stats(iface);
	uct_base_iface_progress_disable(handle, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
	for (id = 0; id < UCT_AM_ID_MAX; id++)
		uct_iface_set_am_handler(iface->lower, (uint8_t)id, NULL, NULL, 0);
	zipu_links_close(iface);
	zipu_engine_close(iface);
	uct_iface_close(iface->lower);
	zipu_ops_close(iface);
	zipu_base_iface_cleanup(iface);
	free(iface);
}
