/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_side.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


int side_number;

uint64_t side_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static ucs_status_t side_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
	struct side *side = arg;

	(void)ep;
	side->errors++;
	side->error = status;
	return UCS_OK;
}

/* Opens the domain if it has the transport on the device. */
static bool side_try_md(struct side *side, uct_component_h component, const char *md_name, const char *tl, const char *device)
{
	uct_tl_resource_desc_t *resources;
	uct_md_config_t *config;
	unsigned i, count;
	bool found = false;

	SIDE_OK(uct_md_config_read(component, NULL, NULL, &config));
	if (uct_md_open(component, md_name, config, &side->md) != UCS_OK) {
		uct_config_release(config);
		return false;
	}
	uct_config_release(config);
	SIDE_OK(uct_md_query_tl_resources(side->md, &resources, &count));
	for (i = 0; i < count; i++)
		found |= !strcmp(resources[i].tl_name, tl) && !strcmp(resources[i].dev_name, device);
	uct_release_tl_resource_list(resources);
	if (!found)
		uct_md_close(side->md);
	side->component = component;
	return found;
}

static bool side_find(struct side *side, const char *tl, const char *device)
{
	uct_component_h *components;
	unsigned i, j, count;
	bool found = false;

	SIDE_OK(uct_query_components(&components, &count));
	for (i = 0; i < count && !found; i++) {
		uct_md_resource_desc_t domains[32];
		uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

		SIDE_OK(uct_component_query(components[i], &attr));
		if (!attr.md_resource_count || attr.md_resource_count > 32)
			continue;
		attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
		attr.md_resources = domains;
		SIDE_OK(uct_component_query(components[i], &attr));
		for (j = 0; j < attr.md_resource_count && !found; j++)
			found = side_try_md(side, components[i], domains[j].md_name, tl, device);
	}
	uct_release_component_list(components);
	return found;
}

void side_open(struct side *side, int socket, const char *tl, const char *device)
{
	uct_iface_params_t params = {
		.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE | UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
			      UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS |
			      UCT_IFACE_PARAM_FIELD_RX_HEADROOM,
		.open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
		.mode.device = {.tl_name = tl, .dev_name = device},
		.err_handler = side_error,
		.err_handler_arg = side,
	};
	uct_iface_config_t *config;

	memset(side, 0, sizeof(*side));
	side->socket = socket;
	SIDE_CHECK(side_find(side, tl, device), "no transport %s on device %s", tl, device);
	SIDE_OK(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &side->async));
	SIDE_OK(uct_worker_create(side->async, UCS_THREAD_MODE_SINGLE, &side->worker));
	SIDE_OK(uct_md_iface_config_read(side->md, tl, NULL, NULL, &config));
	SIDE_OK(uct_iface_open(side->md, side->worker, &params, config, &side->iface));
	uct_config_release(config);
	uct_iface_progress_enable(side->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
	SIDE_OK(uct_iface_query(side->iface, &side->attr));
	SIDE_CHECK(side->attr.device_addr_len <= SIDE_ADDR_MAX && side->attr.iface_addr_len <= SIDE_ADDR_MAX, "address length");
}

static void side_talk(struct side *side, const void *out, void *in, size_t len)
{
	SIDE_CHECK(write(side->socket, out, len) == (ssize_t)len, "write: %s", strerror(errno));
	SIDE_CHECK(recv(side->socket, in, len, MSG_WAITALL) == (ssize_t)len, "the other side is gone");
}

void side_meet(struct side *side, size_t length)
{
	struct side_card ours = {.length = length};
	uct_md_attr_t md_attr = {0};

	SIDE_OK(uct_md_query(side->md, &md_attr));
	SIDE_CHECK(md_attr.rkey_packed_size <= SIDE_KEY_MAX, "key of %zu bytes", md_attr.rkey_packed_size);
	side->length = length;
	side->memory = malloc(length);
	SIDE_CHECK(side->memory, "no memory");
	memset(side->memory, 0, length);
	if (md_attr.cap.flags & UCT_MD_FLAG_REG) {
		SIDE_OK(uct_md_mem_reg(side->md, side->memory, length, UCT_MD_MEM_ACCESS_ALL, &side->memh));
		SIDE_OK(uct_md_mkey_pack(side->md, side->memh, ours.key));
	}
	ours.address = (uintptr_t)side->memory;
	SIDE_OK(uct_iface_get_device_address(side->iface, (void *)ours.device));
	SIDE_OK(uct_iface_get_address(side->iface, (void *)ours.iface));
	side_talk(side, &ours, &side->theirs, sizeof(ours));
	if (md_attr.cap.flags & UCT_MD_FLAG_NEED_RKEY)
		SIDE_OK(uct_rkey_unpack(side->component, side->theirs.key, &side->rkey));
	side_connect(side);
}

void side_connect(struct side *side)
{
	uct_ep_params_t params = {
		.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR,
		.iface = side->iface,
		.dev_addr = (void *)side->theirs.device,
		.iface_addr = (void *)side->theirs.iface,
	};

	SIDE_CHECK(uct_iface_is_reachable(side->iface, params.dev_addr, params.iface_addr), "not reachable");
	SIDE_OK(uct_ep_create(&params, &side->ep));
}

void side_close(struct side *side)
{
	if (side->ep)
		uct_ep_destroy(side->ep);
	if (side->rkey.rkey)
		uct_rkey_release(side->component, &side->rkey);
	if (side->memh)
		SIDE_OK(uct_md_mem_dereg(side->md, side->memh));
	free(side->memory);
	uct_iface_close(side->iface);
	uct_worker_destroy(side->worker);
	ucs_async_context_destroy(side->async);
	uct_md_close(side->md);
}

char side_sync(struct side *side, char say)
{
	struct pollfd pollfd = {.fd = side->socket, .events = POLLIN};
	uint64_t end = side_now_ms() + SIDE_PATIENCE_MS;
	char heard = 0;

	SIDE_CHECK(write(side->socket, &say, 1) == 1, "write: %s", strerror(errno));
	while (poll(&pollfd, 1, 0) <= 0) {
		uct_worker_progress(side->worker);
		SIDE_CHECK(side_now_ms() < end, "the other side does not come");
	}
	SIDE_CHECK(read(side->socket, &heard, 1) == 1, "the other side is gone");
	return heard;
}

bool side_wait(struct side *side, const volatile int *done, int patience_ms)
{
	uint64_t end = side_now_ms() + (uint64_t)patience_ms;

	while (!*done) {
		uct_worker_progress(side->worker);
		if (side_now_ms() >= end)
			return false;
	}
	return true;
}

static void side_op_done(uct_completion_t *comp)
{
	((struct side_op *)(void *)comp)->done = 1;
}

void side_op_init(struct side_op *op)
{
	op->comp = (uct_completion_t){.func = side_op_done, .count = 1, .status = UCS_OK};
	op->done = 0;
}

ucs_status_t side_op_wait(struct side *side, struct side_op *op, ucs_status_t status)
{
	if (status != UCS_INPROGRESS)
		return status;
	SIDE_CHECK(side_wait(side, &op->done, SIDE_PATIENCE_MS), "an operation does not end");
	return op->comp.status;
}

ucs_status_t side_put(struct side *side, const void *buf, size_t len, uct_mem_h memh, uint64_t address, uct_rkey_t rkey)
{
	uct_iov_t iov = {.buffer = (void *)(uintptr_t)buf, .length = len, .memh = memh, .count = 1};
	struct side_op op;
	ucs_status_t status;

	side_op_init(&op);
	while ((status = uct_ep_put_zcopy(side->ep, &iov, 1, address, rkey, &op.comp)) == UCS_ERR_NO_RESOURCE)
		uct_worker_progress(side->worker);
	return side_op_wait(side, &op, status);
}

ucs_status_t side_get(struct side *side, void *buf, size_t len, uct_mem_h memh, uint64_t address, uct_rkey_t rkey)
{
	uct_iov_t iov = {.buffer = buf, .length = len, .memh = memh, .count = 1};
	struct side_op op;
	ucs_status_t status;

	side_op_init(&op);
	while ((status = uct_ep_get_zcopy(side->ep, &iov, 1, address, rkey, &op.comp)) == UCS_ERR_NO_RESOURCE)
		uct_worker_progress(side->worker);
	return side_op_wait(side, &op, status);
}

ucs_status_t side_flush(struct side *side, unsigned flags)
{
	struct side_op op;
	ucs_status_t status;

	side_op_init(&op);
	while ((status = uct_ep_flush(side->ep, flags, &op.comp)) == UCS_ERR_NO_RESOURCE)
		uct_worker_progress(side->worker);
	return side_op_wait(side, &op, status);
}

struct side_pack {
	const void *data;
	size_t len;
};

static size_t side_pack(void *dest, void *arg)
{
	const struct side_pack *pack = arg;

	memcpy(dest, pack->data, pack->len);
	return pack->len;
}

void side_am(struct side *side, uint8_t id, const void *data, size_t len)
{
	struct side_pack pack = {data, len};
	ssize_t ret;

	while ((ret = uct_ep_am_bcopy(side->ep, id, side_pack, &pack, 0)) == UCS_ERR_NO_RESOURCE)
		uct_worker_progress(side->worker);
	SIDE_CHECK(ret >= 0, "am_bcopy: %s", ucs_status_string((ucs_status_t)ret));
}
