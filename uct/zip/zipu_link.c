/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: a lower endpoint to another interface, for messages of our own. Made when a put, a get or a peer's hello needs one; both
 * directions have their own.
 *
 * The first message on a link says hello, so that the other side can answer whatever follows. What cannot be sent at once is
 * queued and goes in order.
 */
#include <stdlib.h>
#include <string.h>

#include "zipu.h"

#define ZIPU_ACKS_FIRST 64u
#define ZIPU_COMP_COUNT (1 << 30) /* never reached: see struct zipu_tx */

static struct zipu_link **zipu_link_bucket(struct zipu_iface *iface, uint64_t id)
{
	return &iface->by_id[id % ZIPU_LINK_HASH];
}

struct zipu_link *zipu_link_find(struct zipu_iface *iface, uint64_t id)
{
	struct zipu_link *link = *zipu_link_bucket(iface, id);

	while (link && (link->id != id || link->failed))
		link = link->hash;
	return link;
}

/* ---- life */

/* 1 if an address, which may be a peer's own word, has the form that this interface uses. */
static int zipu_address_fits(const struct zipu_iface *iface, const struct zipu_address *address, size_t len)
{
	return len >= sizeof(*address) && address->device_len == iface->lower_attr.device_addr_len &&
	       address->iface_len == iface->lower_attr.iface_addr_len &&
	       len == sizeof(*address) + address->device_len + address->iface_len && address->id;
}

/* 1 if a peer's hello may be believed: nobody else has said to be this peer, and it is not us. */
static int zipu_hello_credible(struct zipu_iface *iface, const struct zipu_link *known, const struct zipu_address *address,
			       size_t len)
{
	uint8_t own[ZIPU_ADDRESS_MAX];

	if (address->id == iface->id)
		return zipu_own_address(iface, own) == len && !memcmp(own, address, len);
	return !known || (known->address_len == len && !memcmp(known->address, address, len));
}

struct zipu_link *zipu_link_get(struct zipu_iface *iface, const struct zipu_address *address, size_t len, bool users)
{
	struct zipu_link *link;

	if (!zipu_address_fits(iface, address, len))
		return NULL;
	link = zipu_link_find(iface, address->id);
	if (!users && !zipu_hello_credible(iface, link, address, len))
		return NULL;
	if (link && (link->address_len != len || memcmp(link->address, address, len))) {
		ucs_warn("zip: two peers say to be one: the link to the one that came by itself is given up");
		zipu_link_fail(link);
		link = NULL;
	}
	if (link) {
		link->refs++;
		return link;
	}
	link = iface->nlinks < ZIPU_LINKS_MAX ? calloc(1, sizeof(*link)) : NULL;
	if (!link)
		return NULL;
	link->address = malloc(len);
	if (!link->address) {
		free(link);
		return NULL;
	}
	memcpy(link->address, address, len);
	link->address_len = len;
	link->iface = iface;
	link->id = address->id;
	link->refs = 1;
	zipc_list_init(&link->sending);
	zipc_list_init(&link->tx);
	zipc_list_init(&link->sent);
	zipc_list_append(&iface->links, &link->link);
	link->hash = *zipu_link_bucket(iface, link->id);
	*zipu_link_bucket(iface, link->id) = link;
	iface->nlinks++;
	return link;
}

static void zipu_link_close_ep(struct zipu_link *link)
{
	if (!link->ep)
		return;
	/* The lower endpoint tells what it will not send any more, before it goes. */
	uct_ep_flush(link->ep, UCT_FLUSH_FLAG_CANCEL, NULL);
	uct_ep_destroy(link->ep);
	link->ep = NULL;
}

/* A link that has failed lets go of everything. */
static void zipu_link_drain(struct zipu_link *link)
{
	struct zipc_list *entry;

	zipu_link_close_ep(link);
	while ((entry = zipc_list_pop(&link->sent))) {
		struct zipu_tx *tx = zipu_of(entry, zipu_tx, link);

		tx->end(link, tx, UCS_ERR_CONNECTION_RESET);
	}
}

static void zipu_link_free(struct zipu_link *link)
{
	struct zipu_link **at = zipu_link_bucket(link->iface, link->id);

	zipu_link_drain(link);
	while (*at != link)
		at = &(*at)->hash;
	*at = link->hash;
	zipc_list_remove(&link->sending);
	zipc_list_remove(&link->link);
	link->iface->nlinks--;
	free(link->acks);
	free(link->address);
	free(link);
}

void zipu_link_put(struct zipu_link *link)
{
	if (--link->refs)
		return;
	/* One that works stays until the interface closes: its peer may speak to us still. */
	if (link->failed)
		zipu_link_wake(link);
}

void zipu_links_close(struct zipu_iface *iface)
{
	while (!zipc_list_empty(&iface->links)) {
		struct zipu_link *link = zipu_of(iface->links.next, zipu_link, link);

		zipu_link_fail(link);
		zipu_link_free(link);
	}
}

void zipu_link_wake(struct zipu_link *link)
{
	if (zipc_list_empty(&link->sending))
		zipc_list_append(&link->iface->sending, &link->sending);
}

void zipu_link_fail(struct zipu_link *link)
{
	struct zipu_iface *iface = link->iface;
	struct zipc_list *entry;

	if (link->failed)
		return;
	link->failed = true;
	link->ack_count = 0;
	while (!zipc_list_empty(&link->tx))
		zipu_link_unqueue(link, zipu_of(link->tx.next, zipu_tx, link));
	zipu_net_link_failed(link);
	for (entry = iface->eps.next; entry != &iface->eps; entry = entry->next) {
		struct zipu_ep *ep = zipu_of(entry, zipu_ep, link);

		if (ep->peer == link)
			zipu_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
	}
	zipu_link_wake(link); /* its endpoint is closed in progress: we may be inside a call of it */
}

/* ---- sending */

void zipu_hdr_fill(const struct zipu_iface *iface, struct zipu_hdr *hdr, enum zipu_msg_type type, uint32_t op)
{
	*hdr = (struct zipu_hdr){.type = (uint8_t)type, .version = ZIPU_WIRE_VERSION, .op = op, .sender = iface->id};
}

struct zipu_pack_msg {
	const void *hdr;
	size_t hdr_len, offset, len;
	const struct iovec *iov;
	size_t niov;
};

static size_t zipu_pack_msg(void *dest, void *arg)
{
	const struct zipu_pack_msg *msg = arg;
	size_t i, n, offset = msg->offset, left = msg->len;
	char *out = dest;

	memcpy(out, msg->hdr, msg->hdr_len);
	out += msg->hdr_len;
	for (i = 0; i < msg->niov && left; i++) {
		if (offset >= msg->iov[i].iov_len) {
			offset -= msg->iov[i].iov_len;
			continue;
		}
		n = msg->iov[i].iov_len - offset < left ? msg->iov[i].iov_len - offset : left;
		memcpy(out, (const char *)msg->iov[i].iov_base + offset, n);
		out += n;
		left -= n;
		offset = 0;
	}
	return (size_t)(out - (char *)dest);
}

/* The part [offset, offset + len) of the segments. Returns the number of its segments. */
static size_t zipu_cut(const struct iovec *iov, size_t niov, size_t offset, size_t len, uct_mem_h memh, uct_iov_t *out)
{
	size_t i, n, count = 0;

	for (i = 0; i < niov && len; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		n = iov[i].iov_len - offset < len ? iov[i].iov_len - offset : len;
		out[count++] = (uct_iov_t){.buffer = (char *)iov[i].iov_base + offset, .length = n, .memh = memh, .count = 1};
		len -= n;
		offset = 0;
	}
	return count;
}

ucs_status_t zipu_link_send(struct zipu_link *link, const void *hdr, size_t hdr_len, const struct iovec *iov, size_t niov,
			    size_t offset, size_t len, uct_mem_h memh, struct zipu_tx *tx)
{
	struct zipu_pack_msg msg = {hdr, hdr_len, offset, len, iov, niov};
	uct_iov_t cut[ZIPU_IOV_MAX];
	ucs_status_t status;
	size_t count;
	ssize_t ret;

	if (tx) {
		count = zipu_cut(iov, niov, offset, len, memh, cut);
		status = uct_ep_am_zcopy(link->ep, ZIPU_AM_ID, hdr, (unsigned)hdr_len, cut, count, 0, &tx->comp);
		tx->started += status == UCS_INPROGRESS;
		return status == UCS_INPROGRESS ? UCS_OK : status;
	}
	ret = uct_ep_am_bcopy(link->ep, ZIPU_AM_ID, zipu_pack_msg, &msg, 0);
	return ret < 0 ? (ucs_status_t)ret : UCS_OK;
}

static ucs_status_t zipu_link_open_ep(struct zipu_link *link)
{
	const char *addrs = (const char *)(link->address + 1);
	uct_ep_params_t params = {
		.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR,
		.iface = link->iface->lower,
		.dev_addr = (const void *)addrs,
		.iface_addr = (const void *)(addrs + link->address->device_len),
	};

	if (!uct_iface_is_reachable(link->iface->lower, params.dev_addr, params.iface_addr))
		return UCS_ERR_UNREACHABLE;
	return uct_ep_create(&params, &link->ep);
}

size_t zipu_own_address(struct zipu_iface *iface, uint8_t *out)
{
	struct zipu_address address = {
		.id = iface->id,
		.device_len = (uint8_t)iface->lower_attr.device_addr_len,
		.iface_len = (uint8_t)iface->lower_attr.iface_addr_len,
	};
	size_t at = sizeof(address);

	memcpy(out, &address, sizeof(address));
	uct_iface_get_device_address(iface->lower, (void *)(out + at));
	at += address.device_len;
	uct_iface_get_address(iface->lower, (void *)(out + at));
	return at + address.iface_len;
}

static ucs_status_t zipu_link_say_hello(struct zipu_link *link)
{
	uint8_t own[ZIPU_ADDRESS_MAX];
	struct iovec iov = {own, zipu_own_address(link->iface, own)};
	struct zipu_hdr hdr;

	zipu_hdr_fill(link->iface, &hdr, ZIPU_MSG_HELLO, 0);
	return zipu_link_send(link, &hdr, sizeof(hdr), &iov, 1, 0, iov.iov_len, NULL, NULL);
}

ucs_status_t zipu_link_ready(struct zipu_link *link)
{
	ucs_status_t status = UCS_OK;

	if (link->failed)
		return UCS_ERR_CONNECTION_RESET;
	if (ucs_likely(link->hello_sent))
		return UCS_OK;
	if (!link->ep)
		status = zipu_link_open_ep(link);
	if (status == UCS_OK)
		status = zipu_link_say_hello(link);
	if (status == UCS_OK)
		link->hello_sent = true;
	else if (status != UCS_ERR_NO_RESOURCE)
		zipu_link_fail(link);
	return status;
}

static void zipu_tx_fragment_done(uct_completion_t *comp)
{
	(void)comp; /* the count never comes to 0 */
}

static int zipu_tx_drained(const struct zipu_tx *tx)
{
	return ZIPU_COMP_COUNT - tx->comp.count >= (int)tx->started;
}

/* All is sent, or no more will be. */
static void zipu_link_sent(struct zipu_link *link, struct zipu_tx *tx)
{
	zipc_list_remove(&tx->link);
	if (zipu_tx_drained(tx))
		tx->end(link, tx, link->failed ? UCS_ERR_CONNECTION_RESET : tx->comp.status);
	else
		zipc_list_append(&link->sent, &tx->link);
}

void zipu_link_unqueue(struct zipu_link *link, struct zipu_tx *tx)
{
	zipu_link_sent(link, tx);
}

void zipu_link_queue(struct zipu_link *link, struct zipu_tx *tx)
{
	tx->comp = (uct_completion_t){.func = zipu_tx_fragment_done, .count = ZIPU_COMP_COUNT, .status = UCS_OK};
	tx->started = 0;
	zipc_list_append(&link->tx, &tx->link);
	zipu_link_wake(link);
}

/* ---- acknowledgements */

static int zipu_acks_grow(struct zipu_link *link)
{
	unsigned room = link->ack_room ? 2 * link->ack_room : ZIPU_ACKS_FIRST, i;
	struct zipu_ack *acks;

	if (link->ack_count >= ZIPU_REPLIES_MAX)
		return 0;
	acks = malloc(room * sizeof(*acks));
	if (!acks)
		return 0;
	for (i = 0; i < link->ack_count; i++)
		acks[i] = link->acks[(link->ack_first + i) % link->ack_room];
	free(link->acks);
	link->acks = acks;
	link->ack_first = 0;
	link->ack_room = room;
	return 1;
}

void zipu_link_ack(struct zipu_link *link, uint32_t op, ucs_status_t status)
{
	if (link->failed)
		return;
	if (link->ack_count == link->ack_room && !zipu_acks_grow(link)) {
		ucs_warn("zip: a peer asks for more than it may, or memory is out: the link to it is given up");
		zipu_link_fail(link);
		return;
	}
	link->acks[(link->ack_first + link->ack_count++) % link->ack_room] = (struct zipu_ack){.op = op, .status = status};
	zipu_link_wake(link);
}

static ucs_status_t zipu_link_send_acks(struct zipu_link *link)
{
	ucs_status_t status = UCS_OK;

	while (link->ack_count && status == UCS_OK) {
		struct zipu_ack *ack = &link->acks[link->ack_first];
		struct zipu_msg_ack msg = {.status = ack->status};

		zipu_hdr_fill(link->iface, &msg.hdr, ZIPU_MSG_ACK, ack->op);
		status = zipu_link_send(link, &msg, sizeof(msg), NULL, 0, 0, 0, NULL, NULL);
		if (status != UCS_OK)
			break;
		link->ack_first = (link->ack_first + 1) % link->ack_room;
		link->ack_count--;
	}
	return status;
}

/* ---- progress */

static void zipu_link_check_sent(struct zipu_link *link)
{
	struct zipc_list *entry, *next;

	for (entry = link->sent.next; entry != &link->sent; entry = next) {
		struct zipu_tx *tx = zipu_of(entry, zipu_tx, link);

		next = entry->next;
		if (zipu_tx_drained(tx))
			zipu_link_sent(link, tx);
	}
}

/* Moves what is queued. Returns 1 while something is left. */
static int zipu_link_step(struct zipu_link *link)
{
	ucs_status_t status = zipu_link_ready(link);

	zipu_link_check_sent(link);
	if (status == UCS_OK)
		status = zipu_link_send_acks(link);
	while (status == UCS_OK && !zipc_list_empty(&link->tx)) {
		struct zipu_tx *tx = zipu_of(link->tx.next, zipu_tx, link);

		status = tx->step(link, tx);
		if (status == UCS_OK)
			zipu_link_sent(link, tx);
	}
	if (status != UCS_OK && status != UCS_ERR_NO_RESOURCE)
		zipu_link_fail(link);
	return !link->failed && (status == UCS_ERR_NO_RESOURCE || !zipc_list_empty(&link->sent));
}

void zipu_links_progress(struct zipu_iface *iface)
{
	struct zipc_list *last = iface->sending.prev, *entry;

	while ((entry = zipc_list_pop(&iface->sending))) {
		struct zipu_link *link = zipu_of(entry, zipu_link, sending);

		if (!link->failed && zipu_link_step(link))
			zipu_link_wake(link);
		if (link->failed) {
			zipu_link_drain(link);
			if (!link->refs)
				zipu_link_free(link);
		}
		if (entry == last)
			break;
	}
}

/* ---- receiving */

static void zipu_receive_hello(struct zipu_iface *iface, const struct zipu_hdr *hdr, const void *data, size_t len)
{
	uint8_t copy[ZIPU_ADDRESS_MAX];
	const struct zipu_address *address = (const void *)copy;
	struct zipu_link *link = NULL;

	if (len <= sizeof(copy)) {
		memcpy(copy, data, len);
		if (zipu_address_fits(iface, address, len) && address->id == hdr->sender)
			link = zipu_link_get(iface, address, len, false);
	}
	if (link)
		zipu_link_put(link); /* it stays: there is no endpoint of ours to hold it */
	else
		ucs_warn("zip: hello of %zu bytes dropped: its address is not to be believed, or memory is out", len);
}

/* The length that a message of this type has at least, 0 for an unknown type. */
static size_t zipu_msg_size(unsigned type)
{
	switch (type) {
	case ZIPU_MSG_HELLO: return sizeof(struct zipu_hdr);
	case ZIPU_MSG_CONTROL: return sizeof(struct zipu_hdr);
	case ZIPU_MSG_BULK: return sizeof(struct zipu_msg_bulk);
	case ZIPU_MSG_PUT: return sizeof(struct zipu_msg_put);
	case ZIPU_MSG_GET: return sizeof(struct zipu_msg_get);
	case ZIPU_MSG_DATA: return sizeof(struct zipu_msg_data);
	case ZIPU_MSG_ACK: return sizeof(struct zipu_msg_ack);
	default: return 0;
	}
}

/* All that a link carries but hellos. */
static void zipu_receive_on_link(struct zipu_link *link, unsigned type, const void *data, size_t len)
{
	union {
		struct zipu_msg_put put;
		struct zipu_msg_get get;
		struct zipu_msg_data data;
		struct zipu_msg_ack ack;
	} msg;
	size_t size = zipu_msg_size(type);
	const char *rest = (const char *)data + size;

	memcpy(&msg, data, size < sizeof(msg) ? size : sizeof(msg));
	switch (type) {
	case ZIPU_MSG_PUT: zipu_rma_put(link, &msg.put, rest, len - size); break;
	case ZIPU_MSG_GET: zipu_rma_get(link, &msg.get); break;
	case ZIPU_MSG_DATA: zipu_rma_data(link, &msg.data, rest, len - size); break;
	case ZIPU_MSG_ACK: zipu_rma_ack(link, &msg.ack); break;
	default: break;
	}
}

static void zipu_receive(struct zipu_iface *iface, const void *data, size_t len)
{
	struct zipu_msg_bulk bulk;
	struct zipu_link *link;
	struct zipu_hdr hdr;
	size_t size;

	memcpy(&hdr, data, len < sizeof(hdr) ? len : sizeof(hdr));
	size = len < sizeof(hdr) ? 0 : zipu_msg_size(hdr.type);
	if (!size || hdr.version != ZIPU_WIRE_VERSION || hdr.zero || len < size) {
		ucs_warn("zip: message of %zu bytes dropped: type %u version %u", len, len ? hdr.type : 0, len > 1 ? hdr.version : 0);
		return;
	}
	if (hdr.type == ZIPU_MSG_HELLO) {
		zipu_receive_hello(iface, &hdr, (const char *)data + size, len - size);
		return;
	}
	link = zipu_link_find(iface, hdr.sender);
	if (!link) {
		ucs_debug("zip: message of type %u dropped: unknown sender %llx", hdr.type, (unsigned long long)hdr.sender);
		return;
	}
	if (hdr.type == ZIPU_MSG_CONTROL) {
		zipc_engine_control(iface->engine, (const char *)data + size, len - size);
	} else if (hdr.type == ZIPU_MSG_BULK) {
		memcpy(&bulk, data, sizeof(bulk));
		zipu_net_bulk(iface, &bulk, (const char *)data + size, len - size);
	} else {
		zipu_receive_on_link(link, hdr.type, data, len);
	}
}

ucs_status_t zipu_am_handler(void *arg, void *data, size_t length, unsigned flags)
{
	const struct zipu_am *am = arg;

	if (ucs_likely(am->id != ZIPU_AM_ID))
		return uct_iface_invoke_am(&am->iface->super, am->id, data, (unsigned)length, flags);
	if (length >= ZIPU_USER_HDR && *(const uint8_t *)data == ZIPU_MSG_USER) {
		/* The message does not start where the lower transport's descriptor says: it cannot be kept by the user. */
		return uct_iface_invoke_am(&am->iface->super, am->id, (char *)data + ZIPU_USER_HDR,
					   (unsigned)(length - ZIPU_USER_HDR), flags & ~(unsigned)UCT_CB_PARAM_FLAG_DESC);
	}
	zipu_receive(am->iface, data, length);
	return UCS_OK;
}
