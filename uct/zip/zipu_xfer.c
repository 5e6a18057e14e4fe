/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets as transfers of the engine, and the engine's view of our memory. */
#include <stdlib.h>
#include <string.h>

#include "zipu.h"

#define ZIPU_LINGER_MS 2000
#define ZIPU_LAST_WORDS_MS 200

/* A transfer of a peer's into or out of memory of ours. */
struct zipu_target {
	struct zipc_list link; /* iface->targets */
	size_t count;
	struct zipu_mem *mem[ZIPC_RMA_SEGS];
};

ucs_status_t zipu_status(int status)
{
	switch (status) {
	case 0: return UCS_OK;
	case ZIPC_ERR_AGAIN: return UCS_ERR_NO_RESOURCE;
	case ZIPC_ERR_PEER:
	case ZIPC_ERR_NET: return UCS_ERR_CONNECTION_RESET;
	case ZIPC_ERR_NOMEM: return UCS_ERR_NO_MEMORY;
	case ZIPC_ERR_CANCELED: return UCS_ERR_CANCELED;
	default: return UCS_ERR_IO_ERROR;
	}
}

/* ---- the initiator */

static void zipu_xfer_done(struct zipu_op *op, int status)
{
	op->send = NULL;
	op->recv = NULL;
	if (op->over) /* given up by us */
		return;
	if (status)
		zipu_op_reject(op, zipu_status(status));
	else
		zipu_op_finish(op, UCS_OK);
}

static void zipu_send_done(void *ctx, void *cookie, int status)
{
	(void)ctx;
	zipu_xfer_done(cookie, status);
}

static void zipu_recv_done(void *ctx, void *cookie, int status, size_t kept, size_t nbytes)
{
	(void)ctx;
	(void)kept;
	(void)nbytes;
	zipu_xfer_done(cookie, status);
}

/* The peer's engine; greeted when it is not known, or was lost. */
static struct zipc_peer *zipu_xfer_peer(struct zipu_iface *iface, struct zipu_link *link)
{
	struct zipc_peer *peer = zipc_peer_find(iface->engine, &link->id, sizeof(link->id));

	if (zipc_peer_rma(peer))
		return peer;
	zipc_peer_meet(iface->engine, &link->id, sizeof(link->id), link->address, link->address_len);
	if (!link->met_ms)
		link->met_ms = zipc_now_ms();
	return zipc_peer_find(iface->engine, &link->id, sizeof(link->id));
}

/* Raw, for this reason; or not at all yet. */
static ucs_status_t zipu_xfer_raw(struct zipu_iface *iface, const struct zipu_link *link, struct zipc_peer *peer,
				  enum zipc_raw_reason reason, size_t nbytes)
{
	/* The first words take a moment, for which it is worth to wait. To itself an interface does not speak. */
	if (reason == ZIPC_RAW_PEER && !zipc_peer_rma(peer) && link->id != iface->id && zipc_now_ms() - link->met_ms < ZIPU_MEET_MS)
		return UCS_ERR_NO_RESOURCE;
	zipc_engine_count_raw(iface->engine, peer, reason, nbytes);
	return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t zipu_xfer_begun(struct zipu_op *op)
{
	if (op->kind == ZIPU_OP_WRITE)
		zipc_send_commit(op->send);
	else
		zipc_read_commit(op->recv);
	return UCS_INPROGRESS;
}

ucs_status_t zipu_xfer_start(struct zipu_ep *ep, bool put, const struct iovec *iov, size_t niov, size_t total,
			     uint64_t address, uint64_t key, uct_completion_t *comp)
{
	struct zipu_iface *iface = zipu_ep_iface(ep);
	struct zipu_link *link = zipu_ep_peer(ep);
	struct zipc_rma_seg seg = {.addr = address, .len = total, .key = key};
	struct zipc_peer *peer;
	struct zipu_op *op;
	ucs_status_t status;
	int ret;

	if (!link)
		return ep->blocked & ZIPU_BLOCKED_FAILED ? ep->error : UCS_ERR_NO_MEMORY;
	status = zipu_link_ready(link);
	if (status != UCS_OK)
		return status;
	op = zipu_op_alloc(ep, put ? ZIPU_OP_WRITE : ZIPU_OP_READ, comp);
	if (!op)
		return UCS_ERR_NO_RESOURCE;
	peer = zipu_xfer_peer(iface, link);
	if (!peer)
		ret = 1 + ZIPC_RAW_PEER;
	else if (put)
		ret = zipc_write_begin(iface->engine, peer, iov, niov, &seg, 1, 0, 0, op, &op->send);
	else
		ret = zipc_read_begin(iface->engine, peer, iov, niov, &seg, 1, 0, op, &op->recv);
	if (!ret)
		return zipu_xfer_begun(op);
	zipu_op_drop(op);
	return ret > 0 ? zipu_xfer_raw(iface, link, peer, (enum zipc_raw_reason)(ret - 1), total) : zipu_status(ret);
}

void zipu_xfer_cancel(struct zipu_op *op)
{
	struct zipc_send *send = op->send;
	struct zipc_recv *recv = op->recv;

	op->over = true; /* what the engine tells now is not for the user */
	op->send = NULL;
	op->recv = NULL;
	if (send)
		zipc_send_lost(op->iface->engine, zipc_send_id(send));
	if (recv)
		zipc_read_cancel(recv);
	op->over = false;
}

/* ---- the target */

static int zipu_rma_open(void *ctx, struct zipc_peer *peer, int write, const struct zipc_rma_seg *segs, size_t nsegs,
			 struct iovec *iov, size_t *niov, void **target_p)
{
	struct zipu_iface *iface = ctx;
	struct zipu_target *target = calloc(1, sizeof(*target));
	unsigned access = write ? UCT_MD_MEM_ACCESS_REMOTE_PUT : UCT_MD_MEM_ACCESS_REMOTE_GET;

	(void)peer;
	if (!target)
		return ZIPC_ERR_NOMEM;
	for (target->count = 0; target->count < nsegs; target->count++) {
		const struct zipc_rma_seg *seg = &segs[target->count];
		struct zipu_mem *mem = zipu_mem_get(iface->md, seg->key, seg->addr, seg->len, access);

		if (!mem)
			goto err;
		target->mem[target->count] = mem;
		iov[target->count] = (struct iovec){(void *)(uintptr_t)seg->addr, seg->len};
	}
	*niov = nsegs;
	zipc_list_append(&iface->targets, &target->link);
	*target_p = target;
	return 0;

err:
	while (target->count)
		zipu_mem_put(iface->md, target->mem[--target->count]);
	free(target);
	return ZIPC_ERR_KEY;
}

static void zipu_target_close(struct zipu_iface *iface, struct zipu_target *target)
{
	while (target->count)
		zipu_mem_put(iface->md, target->mem[--target->count]);
	zipc_list_remove(&target->link);
	free(target);
}

static void zipu_rma_done(void *ctx, void *target, int status, uint64_t data, unsigned flags, size_t nbytes)
{
	(void)status;
	(void)data;
	(void)flags;
	(void)nbytes;
	zipu_target_close(ctx, target);
}

static int zipu_target_dead(const struct zipu_target *target)
{
	size_t i;

	for (i = 0; i < target->count; i++)
		if (target->mem[i]->dead)
			return 1;
	return 0;
}

void zipu_targets_revoke(struct zipu_iface *iface)
{
	unsigned deaths = __atomic_load_n(&iface->md->deaths, __ATOMIC_RELAXED);
	struct zipc_list *entry, *next;
	int left = 0;

	for (entry = iface->targets.next; entry != &iface->targets; entry = next) {
		struct zipu_target *target = zipu_of(entry, zipu_target, link);

		next = entry->next;
		if (zipu_target_dead(target))
			left |= zipc_rma_revoke(iface->engine, target, ZIPC_ERR_KEY);
	}
	if (!left)
		iface->deaths = deaths;
}

/* ---- the device: the host's, with a look at whose memory it is */

struct zipu_dev {
	struct zipu_iface *iface;
	void *host;
};

static int zipu_mem_holds(const struct zipu_mem *mem, const void *address)
{
	return (uintptr_t)address >= mem->address && (uintptr_t)address - mem->address < mem->length;
}

/*
 * Keeps memory registered until unlock. 0: it belongs to a target that is gone, and is not to be touched. Such a target is
 * revoked in the next progress; what is looked for here are calls that come before.
 */
static int zipu_dev_lock(struct zipu_iface *iface, const struct iovec *iov)
{
	struct zipc_list *entry;
	int dead = 0, live = 0;
	size_t i;

	pthread_rwlock_rdlock(&iface->md->lock);
	if (ucs_likely(!iface->md->dead))
		return 1;
	for (entry = iface->targets.next; entry != &iface->targets; entry = entry->next) {
		const struct zipu_target *target = zipu_of(entry, zipu_target, link);

		for (i = 0; i < target->count; i++) {
			if (!zipu_mem_holds(target->mem[i], iov->iov_base))
				continue;
			dead |= target->mem[i]->dead;
			live |= !target->mem[i]->dead;
		}
	}
	if (!dead || live)
		return 1;
	pthread_rwlock_unlock(&iface->md->lock);
	return 0;
}

static int zipu_dev_encode(void *arg, void *frame, size_t frame_size, const struct iovec *iov, size_t niov, size_t offset,
			   size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes)
{
	struct zipu_dev *dev = arg;
	int ret;

	if (!zipu_dev_lock(dev->iface, iov))
		return ZIPC_ERR_KEY;
	ret = zipc_host_ops.encode(dev->host, frame, frame_size, iov, niov, offset, nbytes, dtype, codec, frame_bytes);
	pthread_rwlock_unlock(&dev->iface->md->lock);
	return ret;
}

static int zipu_dev_decode(void *arg, const struct iovec *iov, size_t niov, size_t offset, size_t nbytes, size_t keep,
			   const void *frame, size_t frame_bytes)
{
	struct zipu_dev *dev = arg;
	int ret;

	if (!zipu_dev_lock(dev->iface, iov))
		return ZIPC_ERR_KEY;
	ret = zipc_host_ops.decode(dev->host, iov, niov, offset, nbytes, keep, frame, frame_bytes);
	pthread_rwlock_unlock(&dev->iface->md->lock);
	return ret;
}

static const struct zipc_device_ops zipu_dev_ops = {
	.name = "host",
	.encode = zipu_dev_encode,
	.decode = zipu_dev_decode,
};

/* ---- life */

static void zipu_log(void *ctx, enum zipc_log_level level, const char *text)
{
	(void)ctx;
	if (level == ZIPC_LOG_WARN)
		ucs_warn("zip: %s", text);
	else
		ucs_debug("zip: %s", text);
}

static const struct zipc_engine_cb zipu_engine_cb = {
	.send_done = zipu_send_done,
	.recv_done = zipu_recv_done,
	.rma_open = zipu_rma_open,
	.rma_done = zipu_rma_done,
	.log = zipu_log,
};

/* The settings that UCX cannot check for us. */
static int zipu_config_allowed(const struct zipu_iface_config *config)
{
	if (config->chunk < 8192 || config->chunk > 64u << 20 || config->chunk % 8192)
		ucs_error("UCX_ZIP_CHUNK=%zu is not allowed: 8192 to 67108864, a multiple of 8192", config->chunk);
	else if (config->staging < 2 * config->chunk || config->staging > SIZE_MAX / 4)
		ucs_error("UCX_ZIP_STAGING=%zu is not allowed: two chunks (UCX_ZIP_CHUNK) at least", config->staging);
	else if (!config->min_size)
		ucs_error("UCX_ZIP_MIN_SIZE=0 is not allowed: 1 byte at least");
	else
		return 1;
	return 0;
}

static ucs_status_t zipu_dev_open(struct zipu_iface *iface, const struct zipu_iface_config *config)
{
	struct zipu_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return UCS_ERR_NO_MEMORY;
	dev->iface = iface;
	dev->host = zipc_host_open(config->chunk, config->verify);
	if (!dev->host) {
		free(dev);
		return UCS_ERR_NO_MEMORY;
	}
	iface->dev = dev;
	return UCS_OK;
}

static void zipu_dev_close(struct zipu_iface *iface)
{
	struct zipu_dev *dev = iface->dev;
	int i;

	zipc_host_close(dev->host);
	free(dev);
	for (i = 0; i < ZIPU_STAGES; i++)
		if (iface->stage_memh[i] != UCT_MEM_HANDLE_NULL)
			uct_md_mem_dereg(iface->md->lower, iface->stage_memh[i]);
}

ucs_status_t zipu_engine_open(struct zipu_iface *iface, const struct zipu_iface_config *config)
{
	uint8_t own[ZIPU_ADDRESS_MAX];
	struct zipc_engine_attr attr = {
		.min_size = config->min_size, .chunk = config->chunk, .staging = config->staging,
		.codec = (enum zipc_codec)config->codec, .dtype = (enum zipc_dtype)config->dtype, .host = config->host,
		.policy = (enum zipc_policy)config->policy, .verify = config->verify,
		.timing = config->stats, .untagged = 1,
		.main_addr = &iface->id, .main_len = sizeof(iface->id),
		.comp_addr = own, .comp_len = zipu_own_address(iface, own),
	};
	ucs_status_t status;
	int ret;

	if (!zipu_config_allowed(config))
		return UCS_ERR_INVALID_PARAM;
	status = zipu_dev_open(iface, config);
	if (status != UCS_OK)
		return status;
	ret = zipc_engine_open(&attr, &zipu_net_ops, iface, &zipu_dev_ops, iface->dev, &zipu_engine_cb, iface, &iface->engine);
	if (ret) {
		ucs_error("zip: no engine: %s", zipc_strerror(ret));
		zipu_dev_close(iface);
		return zipu_status(ret);
	}
	iface->min_size = config->min_size;
	iface->stats = config->stats;
	iface->staging = config->staging;
	iface->deaths = __atomic_load_n(&iface->md->deaths, __ATOMIC_RELAXED);
	return UCS_OK;
}

void zipu_engine_leave(struct zipu_iface *iface)
{
	uint64_t start = zipc_now_ms(), patience;
	enum zipc_leaving leaving;

	do {
		leaving = zipc_engine_leave(iface->engine);
		if (!zipc_list_empty(&iface->sending))
			leaving = ZIPC_LEAVING_FLUSHING;
		patience = leaving == ZIPC_LEAVING_FLUSHING ? ZIPU_LINGER_MS : ZIPU_LAST_WORDS_MS;
		if (leaving != ZIPC_LEAVING_DONE)
			uct_iface_progress(&iface->super.super);
	} while (leaving != ZIPC_LEAVING_DONE && zipc_now_ms() - start < patience);
}

void zipu_engine_close(struct zipu_iface *iface)
{
	zipc_engine_close(iface->engine);
	while (!zipc_list_empty(&iface->targets))
		zipu_target_close(iface, zipu_of(iface->targets.next, zipu_target, link));
	zipu_dev_close(iface);
}
