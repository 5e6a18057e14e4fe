/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: what passes through to the lower endpoint, requests that wait, errors.
 *
 * Nothing passes while requests wait or a fence holds: it would overtake them.
 */
#include <stdlib.h>
#include <string.h>

#include "zipu.h"

/* ---- active messages */

/* The header in front of a user's message with our id. */
static uint64_t zipu_user_hdr(void)
{
	struct zipu_hdr hdr = {.type = ZIPU_MSG_USER, .version = ZIPU_WIRE_VERSION};
	uint64_t word;

	_Static_assert(sizeof(word) == ZIPU_USER_HDR, "the header is what am_short takes as its own");
	memcpy(&word, &hdr, sizeof(word));
	return word;
}

/* The handles of the lower domain in place of ours. Returns the array to use, which may be `iov` itself. */
static const uct_iov_t *zipu_translate(const struct zipu_iface *iface, const uct_iov_t *iov, size_t iovcnt, uct_iov_t *room)
{
	size_t i;

	if (!iface->translate)
		return iov;
	for (i = 0; i < iovcnt && i < ZIPU_IOV_MAX; i++) {
		room[i] = iov[i];
		if (iov[i].memh != UCT_MEM_HANDLE_NULL)
			room[i].memh = ((struct zipu_mem *)iov[i].memh)->lower;
	}
	return room;
}

ucs_status_t zipu_ep_am_short(uct_ep_h handle, uint8_t id, uint64_t header, const void *payload, unsigned length)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	uint64_t hdr = zipu_user_hdr();
	uct_iov_t iov[3] = {
		{.buffer = &hdr, .length = sizeof(hdr), .count = 1},
		{.buffer = &header, .length = sizeof(header), .count = 1},
		{.buffer = (void *)(uintptr_t)payload, .length = length, .count = 1},
	};

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (ucs_likely(id != ZIPU_AM_ID))
		return uct_ep_am_short(ep->lower, id, header, payload, length);
	return uct_ep_am_short_iov(ep->lower, id, iov, 3);
}

ucs_status_t zipu_ep_am_short_iov(uct_ep_h handle, uint8_t id, const uct_iov_t *iov, size_t iovcnt)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	uint64_t hdr = zipu_user_hdr();
	uct_iov_t with_hdr[ZIPU_IOV_MAX + 1] = {{.buffer = &hdr, .length = sizeof(hdr), .count = 1}};

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (ucs_likely(id != ZIPU_AM_ID))
		return uct_ep_am_short_iov(ep->lower, id, iov, iovcnt);
	if (iovcnt > ZIPU_IOV_MAX)
		return UCS_ERR_INVALID_PARAM;
	memcpy(&with_hdr[1], iov, iovcnt * sizeof(*iov));
	return uct_ep_am_short_iov(ep->lower, id, with_hdr, iovcnt + 1);
}

struct zipu_pack {
	uct_pack_callback_t pack;
	void *arg;
};

static size_t zipu_pack_user(void *dest, void *arg)
{
	const struct zipu_pack *user = arg;
	uint64_t hdr = zipu_user_hdr();

	memcpy(dest, &hdr, sizeof(hdr));
	return sizeof(hdr) + user->pack((char *)dest + sizeof(hdr), user->arg);
}

ssize_t zipu_ep_am_bcopy(uct_ep_h handle, uint8_t id, uct_pack_callback_t pack, void *arg, unsigned flags)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	struct zipu_pack user = {pack, arg};
	ssize_t len;

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (ucs_likely(id != ZIPU_AM_ID))
		return uct_ep_am_bcopy(ep->lower, id, pack, arg, flags);
	len = uct_ep_am_bcopy(ep->lower, id, zipu_pack_user, &user, flags);
	return len < 0 ? len : len - (ssize_t)ZIPU_USER_HDR;
}

ucs_status_t zipu_ep_am_zcopy(uct_ep_h handle, uint8_t id, const void *header, unsigned header_length, const uct_iov_t *iov,
			      size_t iovcnt, unsigned flags, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	struct zipu_iface *iface = zipu_ep_iface(ep);
	uct_iov_t room[ZIPU_IOV_MAX];
	uint64_t hdr = zipu_user_hdr();
	char *with_hdr;

	if (ucs_unlikely(ep->blocked))
		return zipu_ep_blocked(ep);
	if (iovcnt > ZIPU_IOV_MAX)
		return UCS_ERR_INVALID_PARAM;
	iov = zipu_translate(iface, iov, iovcnt, room);
	if (ucs_likely(id != ZIPU_AM_ID))
		return uct_ep_am_zcopy(ep->lower, id, header, header_length, iov, iovcnt, flags, comp);
	if (header_length + ZIPU_USER_HDR > iface->lower_attr.cap.am.max_hdr)
		return UCS_ERR_INVALID_PARAM;
	with_hdr = ucs_alloca(header_length + ZIPU_USER_HDR);
	memcpy(with_hdr, &hdr, ZIPU_USER_HDR);
	memcpy(with_hdr + ZIPU_USER_HDR, header, header_length);
	return uct_ep_am_zcopy(ep->lower, id, with_hdr, header_length + ZIPU_USER_HDR, iov, iovcnt, flags, comp);
}

/* ---- what only the lower transport can do */

static uct_rkey_t zipu_lower_rkey(uct_rkey_t rkey)
{
	return ((const struct zipu_rkey *)rkey)->lower.rkey;
}

ucs_status_t zipu_ep_get_short(uct_ep_h handle, void *buffer, unsigned length, uint64_t remote_addr, uct_rkey_t rkey)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep) : uct_ep_get_short(ep->lower, buffer, length, remote_addr, zipu_lower_rkey(rkey));
}

ucs_status_t zipu_ep_atomic_cswap64(uct_ep_h handle, uint64_t compare, uint64_t swap, uint64_t remote_addr, uct_rkey_t rkey,
				    uint64_t *result, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep)
			   : uct_ep_atomic_cswap64(ep->lower, compare, swap, remote_addr, zipu_lower_rkey(rkey), result, comp);
}

ucs_status_t zipu_ep_atomic_cswap32(uct_ep_h handle, uint32_t compare, uint32_t swap, uint64_t remote_addr, uct_rkey_t rkey,
				    uint32_t *result, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep)
			   : uct_ep_atomic_cswap32(ep->lower, compare, swap, remote_addr, zipu_lower_rkey(rkey), result, comp);
}

ucs_status_t zipu_ep_atomic32_post(uct_ep_h handle, unsigned opcode, uint32_t value, uint64_t remote_addr, uct_rkey_t rkey)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep)
			   : ep->lower->iface->ops.ep_atomic32_post(ep->lower, opcode, value, remote_addr, zipu_lower_rkey(rkey));
}

ucs_status_t zipu_ep_atomic64_post(uct_ep_h handle, unsigned opcode, uint64_t value, uint64_t remote_addr, uct_rkey_t rkey)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep)
			   : ep->lower->iface->ops.ep_atomic64_post(ep->lower, opcode, value, remote_addr, zipu_lower_rkey(rkey));
}

ucs_status_t zipu_ep_atomic32_fetch(uct_ep_h handle, unsigned opcode, uint32_t value, uint32_t *result, uint64_t remote_addr,
				    uct_rkey_t rkey, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep)
			   : ep->lower->iface->ops.ep_atomic32_fetch(ep->lower, opcode, value, result, remote_addr,
								     zipu_lower_rkey(rkey), comp);
}

ucs_status_t zipu_ep_atomic64_fetch(uct_ep_h handle, unsigned opcode, uint64_t value, uint64_t *result, uint64_t remote_addr,
				    uct_rkey_t rkey, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	return ep->blocked ? zipu_ep_blocked(ep)
			   : ep->lower->iface->ops.ep_atomic64_fetch(ep->lower, opcode, value, result, remote_addr,
								     zipu_lower_rkey(rkey), comp);
}

ucs_status_t zipu_ep_check(uct_ep_h handle, unsigned flags, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	if (ep->blocked & ZIPU_BLOCKED_FAILED)
		return UCS_OK; /* is being told already */
	if (ep->peer && ep->peer->ep && !ep->peer->failed)
		uct_ep_check(ep->peer->ep, flags, NULL);
	return uct_ep_check(ep->lower, flags, comp);
}

/* ---- requests that wait */

ucs_status_t zipu_ep_pending_add(uct_ep_h handle, uct_pending_req_t *req, unsigned flags)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	/* All wait here, none with the lower endpoint: two queues would not keep the order. */
	uct_pending_req_queue_push(&ep->pending, req);
	ep->blocked |= ZIPU_BLOCKED_PENDING;
	if (zipc_list_empty(&ep->waiting))
		zipc_list_append(&zipu_ep_iface(ep)->waiting, &ep->waiting);
	return UCS_OK;
}

static void zipu_ep_none_waits(struct zipu_ep *ep)
{
	ep->blocked &= ~(unsigned)ZIPU_BLOCKED_PENDING;
	ep->hold_each = false;
}

void zipu_ep_pending_purge(uct_ep_h handle, uct_pending_purge_callback_t cb, void *arg)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	while (!ucs_queue_is_empty(&ep->pending)) {
		uct_pending_req_priv_queue_t *priv;

		priv = ucs_queue_pull_elem_non_empty(&ep->pending, uct_pending_req_priv_queue_t, queue_elem);
		cb(ucs_container_of(priv, uct_pending_req_t, priv), arg);
	}
	zipu_ep_none_waits(ep);
	zipc_list_remove(&ep->waiting);
}

/* Calls the requests again, in order, as long as one gets somewhere. Returns how many were done with. */
static unsigned zipu_ep_dispatch(struct zipu_ep *ep)
{
	unsigned count = 0;

	while (!ucs_queue_is_empty(&ep->pending) && !(ep->blocked & ~(unsigned)ZIPU_BLOCKED_PENDING)) {
		uct_pending_req_priv_queue_t *priv;
		uct_pending_req_t *req;
		ucs_status_t status;

		priv = ucs_queue_pull_elem_non_empty(&ep->pending, uct_pending_req_priv_queue_t, queue_elem);
		req = ucs_container_of(priv, uct_pending_req_t, priv);
		ep->blocked &= ~(unsigned)ZIPU_BLOCKED_PENDING;
		status = req->func(req);
		if (status == UCS_OK) {
			count++;
			if (ep->hold_each)
				zipu_ep_hold(ep);
			continue;
		}
		ucs_queue_push_head(&ep->pending, &priv->queue_elem);
		if (UCS_STATUS_IS_ERR(status))
			break;
	}
	if (!ucs_queue_is_empty(&ep->pending))
		ep->blocked |= ZIPU_BLOCKED_PENDING;
	else
		zipu_ep_none_waits(ep);
	return count;
}

/* ---- errors */

void zipu_ep_fail(struct zipu_ep *ep, ucs_status_t status)
{
	struct zipu_iface *iface = zipu_ep_iface(ep);

	if (ep->blocked & ZIPU_BLOCKED_FAILED)
		return;
	ep->blocked |= ZIPU_BLOCKED_FAILED;
	ep->error = status;
	/* We may be inside of the engine, or of the lower transport: the rest is for progress. */
	zipc_list_append(&iface->failing, &ep->failing);
}

void zipu_eps_fail(struct zipu_iface *iface)
{
	struct zipc_list *entry;

	for (entry = iface->failing.next; entry != &iface->failing; entry = entry->next) {
		struct zipu_ep *ep = zipu_of(entry, zipu_ep, failing);

		zipu_ops_cancel(ep, ep->error);
	}
}

unsigned zipu_eps_progress(struct zipu_iface *iface)
{
	struct zipc_list *entry, *last;
	unsigned count = 0;

	while ((entry = zipc_list_pop(&iface->failing))) {
		struct zipu_ep *ep = zipu_of(entry, zipu_ep, failing);

		uct_iface_handle_ep_err(&iface->super.super, &ep->super.super, ep->error);
		count++;
	}
	/* Each that waits now has its turn once; one that still waits goes to the end. */
	last = iface->waiting.prev;
	while ((entry = zipc_list_pop(&iface->waiting))) {
		struct zipu_ep *ep = zipu_of(entry, zipu_ep, waiting);

		count += zipu_ep_dispatch(ep);
		if (!ucs_queue_is_empty(&ep->pending) && !(ep->blocked & ZIPU_BLOCKED_FAILED) && zipc_list_empty(&ep->waiting))
			zipc_list_append(&iface->waiting, &ep->waiting);
		if (entry == last)
			break;
	}
	return count;
}

/* ---- life */

struct zipu_link *zipu_ep_peer(struct zipu_ep *ep)
{
	if (ep->peer && ep->peer->failed)
		return NULL;
	if (!ep->peer)
		ep->peer = zipu_link_get(zipu_ep_iface(ep), (const struct zipu_address *)ep->address, ep->address_len,
					 true);
	return ep->peer;
}

static void zipu_ep_set_address(struct zipu_ep *ep, const struct zipu_iface *iface, const uct_ep_params_t *params)
{
	struct zipu_iface_addr theirs;
	struct zipu_address address = {
		.device_len = (uint8_t)iface->lower_attr.device_addr_len,
		.iface_len = (uint8_t)iface->lower_attr.iface_addr_len,
	};
	uint8_t *out = ep->address;

	memcpy(&theirs, params->iface_addr, sizeof(theirs));
	address.id = theirs.id;
	memcpy(out, &address, sizeof(address));
	out += sizeof(address);
	memcpy(out, params->dev_addr, address.device_len);
	out += address.device_len;
	memcpy(out, zipu_iface_addr_lower(params->iface_addr), address.iface_len);
	ep->address_len = sizeof(address) + address.device_len + address.iface_len;
}

ucs_status_t zipu_ep_create(const uct_ep_params_t *params, uct_ep_h *ep_p)
{
	struct zipu_iface *iface = zipu_iface_of(params->iface);
	uct_ep_params_t lower = *params;
	struct zipu_ep *ep;
	ucs_status_t status;

	if (!ucs_test_all_flags(params->field_mask, UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR))
		return UCS_ERR_UNSUPPORTED;
	if (!zipu_iface_addr_ours(params->iface_addr))
		return UCS_ERR_INVALID_ADDR;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return UCS_ERR_NO_MEMORY;
	status = zipu_base_ep_init(ep, iface);
	if (status != UCS_OK)
		goto err_free;
	lower.iface = iface->lower;
	zipu_lower_ep_params(&lower);
	status = uct_ep_create(&lower, &ep->lower);
	if (status != UCS_OK)
		goto err_base;
	zipu_ep_set_address(ep, iface, params);
	ucs_queue_head_init(&ep->pending);
	zipc_list_init(&ep->waiting);
	zipc_list_init(&ep->failing);
	zipc_list_init(&ep->ops);
	zipc_list_append(&iface->eps, &ep->link);
	*ep_p = &ep->super.super;
	return UCS_OK;

err_base:
	zipu_base_ep_cleanup(ep);
err_free:
	free(ep);
	return status;
}

void zipu_ep_destroy(uct_ep_h handle)
{
	struct zipu_ep *ep = zipu_ep_of(handle);

	zipu_ops_forget(ep);
	if (ep->peer)
		zipu_link_put(ep->peer);
	zipc_list_remove(&ep->waiting);
	zipc_list_remove(&ep->failing);
	zipc_list_remove(&ep->link);
	uct_ep_destroy(ep->lower);
	zipu_base_ep_cleanup(ep);
	free(ep);
}
