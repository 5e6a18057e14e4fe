/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's frame: opening, control messages, progress. Transfers are in zipc_send.c and zipc_recv.c. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zipc_engine_priv.h"
#include "zipc_proc.h"

uint64_t zipc_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The count of lines of one kind: of one format string. */
static struct zipc_log_kind *zipc_log_kind(struct zipc_engine *engine, const char *fmt)
{
	struct zipc_log_kind *kind = engine->log_kinds;

	while (kind < engine->log_kinds + ZIPC_LOG_KINDS - 1 && kind->fmt && kind->fmt != fmt)
		kind++;
	kind->fmt = fmt;
	return kind;
}

void zipc_log(struct zipc_engine *engine, enum zipc_log_level level, const char *fmt, ...)
{
	struct zipc_log_kind *kind;
	uint64_t now = zipc_now_ms();
	char text[256];
	va_list args;
	int n;

	if (!engine->cb->log)
		return;
	kind = zipc_log_kind(engine, fmt);
	if (now - kind->ms < 1000 && ++kind->lines > ZIPC_LOG_LINES)
		return;
	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (now - kind->ms >= 1000) {
		if (kind->lines > ZIPC_LOG_LINES && n >= 0 && n < (int)sizeof(text))
			snprintf(text + n, sizeof(text) - (size_t)n, " (%u like this left out)", kind->lines - ZIPC_LOG_LINES);
		kind->ms = now;
		kind->lines = 1;
	}
	engine->cb->log(engine->ctx, level, text);
}

/* Processes for which this value is equal can look each other's pids up. */
static uint64_t zipc_host_id(void)
{
	char text[128] = "";
	uint64_t ns = zipc_process_namespace();
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

	if (!file)
		return 0;
	if (!fgets(text, sizeof(text) - 32, file))
		text[0] = 0;
	fclose(file);
	if (!text[0] || !ns)
		return 0;
	snprintf(text + strlen(text), 32, "%llx", (unsigned long long)ns);
	return XXH3_64bits(text, strlen(text));
}

static int zipc_engine_setup(struct zipc_engine *engine, const struct zipc_engine_attr *attr)
{
	engine->attr = *attr;
	memcpy(engine->main_addr, attr->main_addr, attr->main_len);
	memcpy(engine->comp_addr, attr->comp_addr, attr->comp_len);
	engine->attr.main_addr = engine->main_addr;
	engine->attr.comp_addr = engine->comp_addr;
	engine->epoch = attr->epoch;
	while (!engine->epoch)
		if (getrandom(&engine->epoch, sizeof(engine->epoch), 0) != sizeof(engine->epoch))
			return ZIPC_ERR_NOMEM;
	/* Not from 0: a bulk message of an earlier life must not find a receive of this one. */
	engine->next_recv_id = (uint32_t)XXH3_64bits(&engine->epoch, sizeof(engine->epoch));
	engine->host = zipc_host_id();
	zipc_list_init(&engine->peers);
	zipc_list_init(&engine->ctl_queue);
	zipc_list_init(&engine->send_ready);
	zipc_list_init(&engine->recv_want);
	zipc_list_init(&engine->decode_queue);
	zipc_list_init(&engine->free_sends);
	zipc_list_init(&engine->accels);
	return 0;
}

int zipc_engine_open(const struct zipc_engine_attr *attr, const struct zipc_net_ops *net_ops, void *net,
		     const struct zipc_device_ops *dev_ops, void *dev, const struct zipc_engine_cb *cb, void *ctx,
		     struct zipc_engine **engine_p)
{
	struct zipc_engine *engine;
	size_t slot = zipc_frame_bound(attr->chunk);
	int ret;

	if (attr->chunk < ZIPC_MIN_CHUNK || attr->chunk % ZIPC_MIN_CHUNK || attr->chunk > UINT32_MAX / 2 ||
	    attr->main_len > ZIPC_ADDR_MAX || attr->comp_len > ZIPC_ADDR_MAX)
		return ZIPC_ERR_INVAL;
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return ZIPC_ERR_NOMEM;
	engine->net_ops = net_ops;
	engine->net = net;
	engine->dev_ops = dev_ops;
	engine->dev = dev;
	engine->cb = cb;
	engine->ctx = ctx;
	ret = zipc_engine_setup(engine, attr);
	if (ret)
		goto err_free;
	ret = zipc_pool_open(&engine->send_pool, attr->staging, slot, ZIPC_OP_BULK_SEND);
	if (ret)
		goto err_free;
	ret = zipc_pool_open(&engine->recv_pool, attr->staging, slot, ZIPC_OP_BULK_RECV);
	if (ret)
		goto err_send_pool;
	if (net_ops->stage_register) {
		ret = net_ops->stage_register(net, engine->send_pool.memory, engine->send_pool.count * engine->send_pool.slot_bytes);
		if (!ret)
			ret = net_ops->stage_register(net, engine->recv_pool.memory,
						      engine->recv_pool.count * engine->recv_pool.slot_bytes);
	}
	if (ret)
		goto err_recv_pool;
	*engine_p = engine;
	return 0;

err_recv_pool:
	zipc_pool_close(&engine->recv_pool);
err_send_pool:
	zipc_pool_close(&engine->send_pool);
err_free:
	free(engine);
	return ret;
}

void zipc_engine_close(struct zipc_engine *engine)
{
	if (!engine)
		return;
	zipc_peers_close(engine);
	zipc_sends_close(engine);
	zipc_accels_close(engine);
	zipc_pool_close(&engine->send_pool);
	zipc_pool_close(&engine->recv_pool);
	free(engine);
}

uint64_t zipc_engine_epoch(const struct zipc_engine *engine)
{
	return engine->epoch;
}

void zipc_engine_stats(const struct zipc_engine *engine, struct zipc_stats *stats)
{
	const struct zipc_list *entry;
	size_t accel_bytes;

	*stats = engine->stats;
	zipc_accels_in_use(engine, &accel_bytes);
	stats->staging_bytes = accel_bytes + engine->send_pool.in_use * engine->send_pool.slot_bytes +
			       engine->recv_pool.in_use * engine->recv_pool.slot_bytes;
	for (entry = engine->peers.next; entry != &engine->peers; entry = entry->next)
		stats->peers_ready += zipc_peer_ready(zipc_container(entry, struct zipc_peer, link));
}

void zipc_engine_count_raw(struct zipc_engine *engine, struct zipc_peer *peer, enum zipc_raw_reason reason, size_t nbytes)
{
	if (reason == ZIPC_RAW_SMALL)
		return;
	engine->stats.raw[reason]++;
	engine->stats.raw_bytes += nbytes;
	if (!peer)
		return;
	peer->stats.raw[reason]++;
	peer->stats.raw_bytes += nbytes;
}

size_t zipc_engine_see_peers(const struct zipc_engine *engine, size_t most,
			     void (*see)(void *ctx, size_t index, const struct zipc_peer_view *peer), void *ctx)
{
	const struct zipc_list *entry;
	size_t n = 0;

	for (entry = engine->peers.next; entry != &engine->peers && n < most; entry = entry->next) {
		const struct zipc_peer *peer = zipc_container(entry, struct zipc_peer, link);
		const struct zipc_peer_view view = {
			.main_addr = peer->main_addr, .main_len = peer->main_len, .ready = zipc_peer_ready(peer),
			.active = zipc_peer_active(peer), .stats = peer->stats,
		};

		see(ctx, n++, &view);
	}
	return engine->npeers;
}

/* ---- control messages */

void zipc_ctl_header(const struct zipc_engine *engine, struct zipc_control_v1 *hdr, enum zipc_control_type type, size_t len)
{
	hdr->magic = ZIPC_CONTROL_MAGIC;
	hdr->version = ZIPC_WIRE_VERSION;
	hdr->type = (uint8_t)type;
	hdr->length = (uint32_t)len;
	hdr->sender = engine->epoch;
}

void zipc_ctl_send(struct zipc_engine *engine, struct zipc_ctl *ctl, struct zipc_peer *peer, const void *msg, size_t len,
		   void (*done)(struct zipc_engine *, struct zipc_ctl *, int))
{
	ctl->op.kind = ZIPC_OP_CONTROL;
	ctl->peer = peer;
	ctl->epoch = peer->epoch;
	ctl->msg = msg;
	ctl->len = (uint32_t)len;
	ctl->done = done;
	ctl->busy = 1;
	zipc_list_append(&engine->ctl_queue, &ctl->link);
	engine->ctl_pending++;
}

static void zipc_ctl_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status)
{
	struct zipc_peer *peer = ctl->peer;
	uint64_t epoch = ctl->epoch;

	ctl->busy = 0;
	engine->ctl_pending--;
	ctl->done(engine, ctl, status);
	if (status && epoch == peer->epoch) /* else it was for the one before a restart */
		zipc_peer_lose(peer, ZIPC_ERR_NET);
}

static void zipc_ctl_flush(struct zipc_engine *engine)
{
	struct zipc_list *entry, *next;
	int ret;

	engine->pass++;
	for (entry = engine->ctl_queue.next; entry != &engine->ctl_queue; entry = next) {
		struct zipc_ctl *ctl = zipc_container(entry, struct zipc_ctl, link);

		next = entry->next;
		/* One that was refused holds back all later ones to the same peer: they stay in order. */
		if (ctl->peer->blocked == engine->pass)
			continue;
		zipc_list_remove(entry);
		ret = engine->net_ops->send_control(engine->net, ctl->peer->handle, ctl->msg, ctl->len, &ctl->op);
		if (ret == ZIPC_ERR_AGAIN) {
			ctl->peer->blocked = engine->pass;
			ctl->link.prev = next->prev;
			ctl->link.next = next;
			next->prev->next = &ctl->link;
			next->prev = &ctl->link;
		} else if (ret) {
			zipc_ctl_done(engine, ctl, ret);
			return; /* the queue may have changed under us: the rest at the next progress */
		}
	}
}

static void zipc_control_dispatch(struct zipc_engine *engine, struct zipc_peer *peer, unsigned type, const uint8_t *msg)
{
	union {
		struct zipc_rts_v1 rts;
		struct zipc_credit_v1 credit;
		struct zipc_fin_v1 fin;
		struct zipc_abort_v1 abort;
		struct zipc_write_v1 write;
		struct zipc_read_v1 read;
		struct zipc_reply_v1 reply;
	} copy;

	switch (type) {
	case ZIPC_CTL_RTS:
		memcpy(&copy.rts, msg, sizeof(copy.rts));
		zipc_recv_rts(engine, peer, &copy.rts);
		break;
	case ZIPC_CTL_CREDIT:
		memcpy(&copy.credit, msg, sizeof(copy.credit));
		zipc_send_credit(engine, peer, &copy.credit);
		break;
	case ZIPC_CTL_FIN:
		memcpy(&copy.fin, msg, sizeof(copy.fin));
		zipc_send_fin(engine, peer, &copy.fin);
		break;
	case ZIPC_CTL_ABORT:
		memcpy(&copy.abort, msg, sizeof(copy.abort));
		zipc_recv_abort(engine, peer, &copy.abort);
		break;
	case ZIPC_CTL_WRITE:
		memcpy(&copy.write, msg, sizeof(copy.write));
		zipc_rma_write(engine, peer, &copy.write);
		break;
	case ZIPC_CTL_READ:
		memcpy(&copy.read, msg, sizeof(copy.read));
		zipc_rma_read(engine, peer, &copy.read);
		break;
	case ZIPC_CTL_REPLY:
		memcpy(&copy.reply, msg, sizeof(copy.reply));
		zipc_rma_reply(engine, peer, &copy.reply);
		break;
	default:
		break;
	}
}

/* Returns the least length of a message of this type, 0 for an unknown type. */
static size_t zipc_control_size(unsigned type)
{
	switch (type) {
	case ZIPC_CTL_HELLO: return sizeof(struct zipc_hello_v1);
	case ZIPC_CTL_RTS: return sizeof(struct zipc_rts_v1);
	case ZIPC_CTL_CREDIT: return sizeof(struct zipc_credit_v1);
	case ZIPC_CTL_FIN: return sizeof(struct zipc_fin_v1);
	case ZIPC_CTL_ABORT: return sizeof(struct zipc_abort_v1);
	case ZIPC_CTL_PING: return sizeof(struct zipc_control_v1);
	case ZIPC_CTL_WRITE: return sizeof(struct zipc_write_v1);
	case ZIPC_CTL_READ: return sizeof(struct zipc_read_v1);
	case ZIPC_CTL_REPLY: return sizeof(struct zipc_reply_v1);
	default: return 0;
	}
}

void zipc_engine_control(struct zipc_engine *engine, const void *msg, size_t len)
{
	struct zipc_control_v1 hdr;
	struct zipc_hello_v1 hello;
	struct zipc_peer *peer;
	size_t least;

	if (len < sizeof(hdr)) {
		zipc_log(engine, ZIPC_LOG_WARN, "control message of %zu bytes dropped: too short", len);
		return;
	}
	memcpy(&hdr, msg, sizeof(hdr));
	least = zipc_control_size(hdr.type);
	if (hdr.magic != ZIPC_CONTROL_MAGIC || hdr.version != ZIPC_WIRE_VERSION || !least || hdr.length != len ||
	    len < least || (hdr.type != ZIPC_CTL_HELLO && len != least)) {
		zipc_log(engine, ZIPC_LOG_WARN,
			 "control message dropped: magic %#x version %u type %u length %u, %zu bytes arrived",
			 hdr.magic, hdr.version, hdr.type, hdr.length, len);
		return;
	}
	if (hdr.type == ZIPC_CTL_HELLO) {
		memcpy(&hello, msg, sizeof(hello));
		if (!hello.hdr.sender || !hello.main_len || !hello.comp_len || hello.main_len > ZIPC_ADDR_MAX ||
		    hello.comp_len > ZIPC_ADDR_MAX || sizeof(hello) + hello.main_len + hello.comp_len != len) {
			zipc_log(engine, ZIPC_LOG_WARN, "hello dropped: addresses of %u and %u bytes in %zu", hello.main_len,
				 hello.comp_len, len);
			return;
		}
		zipc_peer_hello(engine, &hello, (const uint8_t *)msg + sizeof(hello));
		return;
	}
	peer = zipc_peer_by_epoch(engine, hdr.sender);
	if (!peer) {
		zipc_log(engine, ZIPC_LOG_WARN, "control message of type %u dropped: unknown sender %llx", hdr.type,
			 (unsigned long long)hdr.sender);
		return;
	}
	peer->heard_ms = zipc_now_ms();
	if (peer->state == ZIPC_PEER_LOST)
		return; /* what it says is about transfers that have ended; a hello brings it back */
	zipc_control_dispatch(engine, peer, hdr.type, msg);
}

void zipc_engine_op_done(struct zipc_engine *engine, struct zipc_op *op, int status, size_t bytes)
{
	switch (op->kind) {
	case ZIPC_OP_CONTROL:
		zipc_ctl_done(engine, zipc_container(op, struct zipc_ctl, op), status);
		break;
	case ZIPC_OP_BULK_SEND:
		zipc_send_bulk_done(engine, zipc_container(op, struct zipc_slot, op), status);
		break;
	default:
		zipc_recv_bulk_done(engine, zipc_container(op, struct zipc_slot, op), status, bytes);
		break;
	}
}

int zipc_engine_busy(const struct zipc_engine *engine)
{
	return engine->active || engine->ctl_pending;
}

enum zipc_leaving zipc_engine_leave(struct zipc_engine *engine)
{
	struct zipc_list *entry;
	unsigned sends = 0;

	for (entry = engine->peers.next; entry != &engine->peers; entry = entry->next) {
		struct zipc_peer *peer = zipc_container(entry, struct zipc_peer, link);

		if (peer->state == ZIPC_PEER_LOST)
			continue;
		zipc_sends_leave(peer);
		zipc_recvs_leave(peer);
		sends += peer->nsends;
	}
	if (engine->ctl_pending || engine->send_pool.in_use || zipc_accels_in_use(engine, NULL))
		return ZIPC_LEAVING_FLUSHING;
	return sends ? ZIPC_LEAVING_ANSWERS : ZIPC_LEAVING_DONE;
}

int zipc_engine_progress(struct zipc_engine *engine)
{
	int work;

	if (!zipc_engine_busy(engine))
		return 0;
	zipc_recv_grant(engine);
	if (!zipc_list_empty(&engine->ctl_queue))
		zipc_ctl_flush(engine);
	work = zipc_list_empty(&engine->accels) ? 0 : zipc_accels_step(engine);
	work |= zipc_send_step(engine);
	work |= zipc_recv_step(engine);
	zipc_peer_watch(engine);
	return work || !zipc_list_empty(&engine->ctl_queue);
}
