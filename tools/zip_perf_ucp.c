/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door to UCP: two contexts in one process, one with the provider's transports, one with zip's before them. The zip
 * transport must be loaded into the process, as for any program (UCX_PLUGIN_PATH or LD_PRELOAD).
 */
#include "zip_perf.h"
#include "zipc_page.h"
#include "zipt_util.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define END_TAG ((ucp_tag_t)1 << 40) /* above all numbers of messages */
#define CLOSE_POLLS 100000
#define PAGES 16              /* of this process that are looked at */
#define PAGE_NS 120000000u    /* counters are not older than this */

struct door {
	const struct perf_plan *plan;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	ucp_mem_h tx_mem, rx_mem;
	ucp_rkey_h peer_tx, peer_rx;
	uint64_t peer_tx_base, peer_rx_base;
	uint8_t *tx, *rx;
	char name[96];               /* the transports */
	struct perf_events events;   /* since the last poll */
	int completions;
	ucs_status_t failed;
	struct perf_work *ending;    /* an end that waits for earlier puts to be in place */
	uint64_t end_bytes[2];       /* sent, received */
};

static int fail_ucs(const char *call, ucs_status_t status)
{
	perf_fail("%s: %s", call, ucs_status_string(status));
	return -1;
}

static int is_rma(const struct perf_plan *plan)
{
	return plan->op == PERF_WRITE || plan->op == PERF_READ;
}

/* ---- life */

/* 1 if the context has a transport of zip's. */
static int has_zip(ucp_context_h context)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	int found;

	if (!file)
		return 0;
	ucp_context_print_info(context, file);
	fclose(file);
	found = text && strstr(text, "zip") != NULL;
	free(text);
	return found;
}

static int open_context(struct door *d, enum perf_stack stack)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG | (is_rma(d->plan) ? UCP_FEATURE_RMA : 0),
	};
	ucp_config_t *config;
	ucs_status_t status = ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return fail_ucs("ucp_config_read", status);
	snprintf(d->name, sizeof(d->name), "%s%s,self", stack == PERF_ZIP ? "zip," : "", d->plan->provider);
	status = ucp_config_modify(config, "TLS", d->name);
	if (status == UCS_OK)
		status = ucp_init(&params, config, &d->context);
	ucp_config_release(config);
	if (status != UCS_OK) {
		perf_fail("UCX with UCX_TLS=%s: %s", d->name, ucs_status_string(status));
		return -1;
	}
	if (stack == PERF_ZIP && !has_zip(d->context)) {
		perf_fail("UCX does not know a transport \"zip\": load libuct_zip.so of this UCX version into both sides with "
			  "LD_PRELOAD, or with UCX_PLUGIN_PATH from UCX 1.22 on; `ucx_info -d` shows whether it is there");
		return -1;
	}
	return 0;
}

static int map_memory(struct door *d, void *base, size_t bytes, ucp_mem_h *mem)
{
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH, .address = base, .length = bytes,
	};
	ucs_status_t status = bytes ? ucp_mem_map(d->context, &params, mem) : UCS_OK;

	return status == UCS_OK ? 0 : fail_ucs("ucp_mem_map", status);
}

/* Both sides close at about the same time: what is under way is given a while. */
static void close_ep(struct door *d)
{
	const ucp_request_param_t param = { .op_attr_mask = 0 };
	ucs_status_ptr_t request = ucp_ep_close_nbx(d->ep, &param);

	if (!UCS_PTR_IS_PTR(request))
		return;
	for (int i = 0; i < CLOSE_POLLS && ucp_request_check_status(request) == UCS_INPROGRESS; i++)
		ucp_worker_progress(d->worker);
	ucp_request_free(request);
}

static void door_close(void *door)
{
	struct door *d = door;

	if (d->peer_tx)
		ucp_rkey_destroy(d->peer_tx);
	if (d->peer_rx)
		ucp_rkey_destroy(d->peer_rx);
	if (d->ep)
		close_ep(d);
	if (d->tx_mem)
		ucp_mem_unmap(d->context, d->tx_mem);
	if (d->rx_mem)
		ucp_mem_unmap(d->context, d->rx_mem);
	if (d->worker)
		ucp_worker_destroy(d->worker);
	if (d->context)
		ucp_cleanup(d->context);
	free(d);
}

static int open_all(struct door *d, enum perf_stack stack, const struct perf_memory *memory)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucs_status_t status;

	if (d->plan->op != PERF_TAGGED && !is_rma(d->plan)) {
		perf_fail("--op %s: not with --api ucp; there are tagged, write and read", perf_op_names[d->plan->op]);
		return -1;
	}
	if (open_context(d, stack))
		return -1;
	status = ucp_worker_create(d->context, &params, &d->worker);
	if (status != UCS_OK)
		return fail_ucs("ucp_worker_create", status);
	d->tx = memory->tx;
	d->rx = memory->rx;
	if (!is_rma(d->plan))
		return 0;
	return map_memory(d, memory->tx, memory->tx_bytes, &d->tx_mem) ||
	       map_memory(d, memory->rx, memory->rx_bytes, &d->rx_mem);
}

static int door_open(const struct perf_plan *plan, enum perf_stack stack, const char *address, const struct perf_memory *memory,
		    void **door)
{
	struct door *d = calloc(1, sizeof(*d));

	(void)address; /* UCX chooses among its devices: UCX_NET_DEVICES */
	if (!d)
		return fail_ucs("calloc", UCS_ERR_NO_MEMORY);
	d->plan = plan;
	if (open_all(d, stack, memory)) {
		door_close(d);
		return -1;
	}
	*door = d;
	return 0;
}

/* ---- meeting */

static int pack_key(struct door *d, ucp_mem_h mem, uint8_t *key, size_t room, uint32_t *len)
{
	ucs_status_t status;
	void *packed;
	size_t bytes;

	*len = 0;
	if (!mem)
		return 0;
	status = ucp_rkey_pack(d->context, mem, &packed, &bytes);
	if (status == UCS_OK && bytes > room)
		status = UCS_ERR_BUFFER_TOO_SMALL;
	else if (status == UCS_OK)
		memcpy(key, packed, bytes);
	if (status != UCS_OK)
		return fail_ucs("ucp_rkey_pack", status);
	*len = (uint32_t)bytes;
	ucp_rkey_buffer_release(packed);
	return 0;
}

static int door_card(void *door, struct perf_card *card)
{
	struct door *d = door;
	ucp_address_t *address;
	size_t len;
	ucs_status_t status = ucp_worker_get_address(d->worker, &address, &len);

	if (status != UCS_OK)
		return fail_ucs("ucp_worker_get_address", status);
	if (len <= sizeof(card->address))
		memcpy(card->address, address, len);
	ucp_worker_release_address(d->worker, address);
	if (len > sizeof(card->address)) {
		perf_fail("the UCP address is too long, %zu bytes: fewer devices, with UCX_NET_DEVICES", len);
		return -1;
	}
	card->address_len = (uint32_t)len;
	card->tx_base = (uint64_t)(uintptr_t)d->tx;
	card->rx_base = (uint64_t)(uintptr_t)d->rx;
	snprintf(card->name, sizeof(card->name), "ucx %s", d->name);
	return pack_key(d, d->tx_mem, card->tx_key, sizeof(card->tx_key), &card->tx_key_len) ||
	       pack_key(d, d->rx_mem, card->rx_key, sizeof(card->rx_key), &card->rx_key_len);
}

static int unpack_key(struct door *d, const uint8_t *key, uint32_t len, size_t room, ucp_rkey_h *rkey)
{
	ucs_status_t status = len > room ? UCS_ERR_INVALID_PARAM : UCS_OK;

	if (len && status == UCS_OK)
		status = ucp_ep_rkey_unpack(d->ep, key, rkey);
	return status == UCS_OK ? 0 : fail_ucs("ucp_ep_rkey_unpack", status);
}

static int door_meet(void *door, const struct perf_card *peer)
{
	struct door *d = door;
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (const ucp_address_t *)peer->address,
	};
	ucs_status_t status = UCS_ERR_INVALID_ADDR;

	if (peer->address_len <= sizeof(peer->address))
		status = ucp_ep_create(d->worker, &params, &d->ep);
	if (status != UCS_OK) {
		perf_fail("UCX with UCX_TLS=%s finds no way to the other side: %s", d->name, ucs_status_string(status));
		return -1;
	}
	d->peer_tx_base = peer->tx_base;
	d->peer_rx_base = peer->rx_base;
	return unpack_key(d, peer->tx_key, peer->tx_key_len, sizeof(peer->tx_key), &d->peer_tx) ||
	       unpack_key(d, peer->rx_key, peer->rx_key_len, sizeof(peer->rx_key), &d->peer_rx);
}

/* ---- operations */

static void complete(struct perf_work *work, ucs_status_t status)
{
	struct door *d = (struct door *)(uintptr_t)work->context[0];

	if (status != UCS_OK && d->failed == UCS_OK)
		d->failed = status;
	perf_work_done(work, &d->events);
	d->completions++;
}

static void send_done(void *request, ucs_status_t status, void *work)
{
	complete(work, status);
	ucp_request_free(request);
}

static void recv_done(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *work)
{
	(void)info;
	complete(work, status);
	ucp_request_free(request);
}

static ucp_request_param_t request_of(struct perf_work *work)
{
	return (ucp_request_param_t){
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = send_done, .user_data = work,
	};
}

/* What a call has returned: under way, complete at once, or an error. */
static int posted(ucs_status_ptr_t result, struct perf_work *work)
{
	if (UCS_PTR_IS_ERR(result))
		return fail_ucs("posting an operation", UCS_PTR_STATUS(result));
	if (!result)
		complete(work, UCS_OK);
	return 0;
}

static ucs_status_ptr_t end_send(struct door *d, const ucp_request_param_t *param)
{
	return ucp_tag_send_nbx(d->ep, &d->end_bytes[0], sizeof(d->end_bytes[0]), END_TAG, param);
}

static void flushed(void *request, ucs_status_t status, void *arg)
{
	struct perf_work *work = arg;
	struct door *d = (struct door *)(uintptr_t)work->context[0];

	if (status != UCS_OK)
		complete(work, status);
	else
		d->ending = work; /* goes out with the next poll: not from inside of a callback */
	if (request)
		ucp_request_free(request);
}

/* Puts are complete here before they are complete there: the end waits for them. */
static int post_end(struct door *d, struct perf_work *work, const ucp_request_param_t *param)
{
	ucp_request_param_t flush = *param;
	ucs_status_ptr_t result;

	if (!is_rma(d->plan))
		return posted(end_send(d, param), work);
	flush.cb.send = flushed;
	result = ucp_ep_flush_nbx(d->ep, &flush);
	if (UCS_PTR_IS_ERR(result))
		return fail_ucs("ucp_ep_flush_nbx", UCS_PTR_STATUS(result));
	if (!result)
		flushed(NULL, UCS_OK, work);
	return 0;
}

static int door_post(void *door, const struct perf_post *p)
{
	struct door *d = door;
	uint64_t there = p->remote_offset + (p->kind == PERF_PUT ? d->peer_rx_base : d->peer_tx_base);
	ucp_request_param_t param = request_of(p->work);
	ucp_request_param_t recv = param;

	recv.cb.recv = recv_done;
	p->work->context[0] = (uint64_t)(uintptr_t)d;
	switch (p->kind) {
	case PERF_SEND:
		return posted(ucp_tag_send_nbx(d->ep, d->tx + p->offset, p->len, p->number, &param), p->work);
	case PERF_RECV:
		return posted(ucp_tag_recv_nbx(d->worker, d->rx + p->offset, p->len, p->number, ~(ucp_tag_t)0, &recv), p->work);
	case PERF_PUT:
		return posted(ucp_put_nbx(d->ep, d->tx + p->offset, p->len, there, d->peer_rx, &param), p->work);
	case PERF_GET:
		return posted(ucp_get_nbx(d->ep, d->rx + p->offset, p->len, there, d->peer_tx, &param), p->work);
	case PERF_END_SEND:
		return post_end(d, p->work, &param);
	case PERF_END_RECV:
		return posted(ucp_tag_recv_nbx(d->worker, &d->end_bytes[1], sizeof(d->end_bytes[1]), END_TAG, ~(ucp_tag_t)0, &recv),
			      p->work);
	default:
		return fail_ucs("posting an operation", UCS_ERR_UNSUPPORTED);
	}
}

static int door_poll(void *door, struct perf_events *events)
{
	struct door *d = door;
	struct perf_work *ending = d->ending;
	int n;

	ucp_worker_progress(d->worker);
	if (ending) {
		const ucp_request_param_t param = request_of(ending);

		d->ending = NULL;
		if (posted(end_send(d, &param), ending))
			return -1;
	}
	if (d->failed != UCS_OK)
		return fail_ucs(d->name, d->failed);
	events->sent += d->events.sent;
	events->received += d->events.received;
	n = d->completions;
	d->events = (struct perf_events){ 0 };
	d->completions = 0;
	return n;
}

/* The transport publishes its counters now and then while it is driven: a moment later they are all there. */
static void settle(struct door *d)
{
	uint64_t start = zipt_now_ns();

	while (zipt_now_ns() - start < PAGE_NS)
		ucp_worker_progress(d->worker);
}

/* From the pages of this process: UCP has no way to ask a transport. */
static int door_stats(void *door, struct perf_stats *stats)
{
	static struct zipc_page_v1 page;
	struct zipc_page_counts_v1 sum = { 0 }, total;
	int dir = open(ZIPC_PAGE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
	char name[64];

	settle(door);
	for (unsigned n = 0; dir >= 0 && n < PAGES; n++) {
		snprintf(name, sizeof(name), ZIPC_PAGE_PREFIX "%u.%u.%u", (unsigned)geteuid(), (unsigned)getpid(), n);
		if (zipc_page_read(dir, name, &page) != ZIPC_PAGE_GOOD || strcmp(page.door, "ucx"))
			continue;
		total = zipc_page_total(&page);
		zipc_page_add(&sum, &total);
		found = 1;
	}
	if (dir >= 0)
		close(dir);
	*stats = (struct perf_stats){
		.transfers = sum.sends, .bytes = sum.send_bytes, .wire_bytes = sum.send_wire_bytes,
		.raw = { sum.raw_peer, sum.raw_data, sum.raw_off, sum.raw_slow },
		.peers_ready = 1, /* not known */
	};
	return found ? 0 : -1;
}

const struct perf_door_ops perf_ucp_ops = {
	.name = "ucp",
	.open = door_open,
	.card = door_card,
	.meet = door_meet,
	.post = door_post,
	.poll = door_poll,
	.stats = door_stats,
	.close = door_close,
};
