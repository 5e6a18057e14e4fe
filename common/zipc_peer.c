/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: who runs an engine, how to reach it, and whether it lives.
 *
 * Three hellos at most bring two engines together. Each carries the id (epoch) of its sender and echoes that of the
 * engine spoken to, if it is known. An engine is ready to send transfers to a peer once it has seen its own id echoed:
 * then the peer will know the sender of a placeholder. A new id at a known address is a restart.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zipc_engine_priv.h"
#include "zipc_proc.h"

static struct zipc_peer **zipc_addr_bucket(struct zipc_engine *engine, const void *addr, size_t len)
{
	return &engine->by_addr[XXH3_64bits(addr, len) % ZIPC_HASH];
}

struct zipc_peer *zipc_peer_find(struct zipc_engine *engine, const void *main_addr, size_t main_len)
{
	struct zipc_peer *peer = *zipc_addr_bucket(engine, main_addr, main_len);

	while (peer && (peer->main_len != main_len || memcmp(peer->main_addr, main_addr, main_len)))
		peer = peer->by_addr;
	return peer;
}

struct zipc_peer *zipc_peer_by_epoch(struct zipc_engine *engine, uint64_t epoch)
{
	struct zipc_peer *peer = engine->by_epoch[epoch % ZIPC_HASH];

	while (peer && peer->epoch != epoch)
		peer = peer->by_epoch;
	return peer;
}

int zipc_peer_ready(const struct zipc_peer *peer)
{
	return peer && peer->state == ZIPC_PEER_READY && !peer->self && !peer->forgotten;
}

unsigned zipc_peer_active(const struct zipc_peer *peer)
{
	return peer ? peer->nsends + peer->nrecvs : 0;
}

static struct zipc_peer *zipc_peer_create(struct zipc_engine *engine, const void *main_addr, size_t main_len)
{
	struct zipc_peer **bucket = zipc_addr_bucket(engine, main_addr, main_len);
	struct zipc_peer *peer = engine->npeers < ZIPC_PEERS_MAX ? calloc(1, sizeof(*peer)) : NULL;

	if (!peer)
		return NULL;
	peer->engine = engine;
	peer->state = ZIPC_PEER_MEETING;
	peer->main_len = (uint16_t)main_len;
	memcpy(peer->main_addr, main_addr, main_len);
	zipc_list_init(&peer->sends);
	zipc_list_init(&peer->recvs);
	zipc_list_init(&peer->reads);
	zipc_list_init(&peer->want);
	zipc_list_init(&peer->want_link);
	zipc_list_append(&engine->peers, &peer->link);
	engine->npeers++;
	peer->by_addr = *bucket;
	*bucket = peer;
	return peer;
}

static int zipc_peer_set_companion(struct zipc_peer *peer, const void *comp_addr, size_t comp_len)
{
	struct zipc_engine *engine = peer->engine;
	zipc_addr_t handle;
	int ret;

	if (peer->has_handle && peer->comp_len == comp_len && !memcmp(peer->comp_addr, comp_addr, comp_len))
		return 0;
	ret = engine->net_ops->addr_insert(engine->net, comp_addr, comp_len, &handle);
	if (ret)
		return ret;
	/* The old handle stays inserted: operations to it may still be in flight. */
	peer->handle = handle;
	peer->has_handle = 1;
	peer->comp_len = (uint16_t)comp_len;
	memcpy(peer->comp_addr, comp_addr, comp_len);
	return 0;
}

static void zipc_peer_say_hello(struct zipc_peer *peer);

static void zipc_hello_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status)
{
	struct zipc_peer *peer = zipc_container(ctl, struct zipc_peer, hello);

	(void)engine;
	if (!status && peer->hello_again)
		zipc_peer_say_hello(peer);
	peer->hello_again = 0;
}

static void zipc_peer_say_hello(struct zipc_peer *peer)
{
	struct zipc_engine *engine = peer->engine;
	struct zipc_hello_v1 hello = {0};
	uint8_t *out = peer->hello_msg;
	size_t len = sizeof(hello) + engine->attr.main_len + engine->attr.comp_len;

	if (peer->hello.busy) { /* its buffer is with the network */
		peer->hello_again = 1;
		return;
	}
	zipc_ctl_header(engine, &hello.hdr, ZIPC_CTL_HELLO, len);
	hello.echo = peer->epoch;
	hello.host = engine->host;
	hello.pid = (uint32_t)getpid();
	hello.flags = (engine->attr.untagged ? ZIPC_HELLO_UNTAGGED : 0) | (engine->cb->rma_open ? ZIPC_HELLO_RMA : 0);
	hello.dtypes = (1u << ZIPC_DTYPE_COUNT) - 1;
	hello.codecs = (1u << ZIPC_CODEC_COUNT) - 1;
	hello.max_chunk = (uint32_t)engine->attr.chunk;
	hello.main_len = (uint16_t)engine->attr.main_len;
	hello.comp_len = (uint16_t)engine->attr.comp_len;
	memcpy(out, &hello, sizeof(hello));
	memcpy(out + sizeof(hello), engine->attr.main_addr, engine->attr.main_len);
	memcpy(out + sizeof(hello) + engine->attr.main_len, engine->attr.comp_addr, engine->attr.comp_len);
	zipc_ctl_send(engine, &peer->hello, peer, out, len, zipc_hello_done);
}

int zipc_peer_meet(struct zipc_engine *engine, const void *main_addr, size_t main_len,
		   const void *comp_addr, size_t comp_len)
{
	struct zipc_peer *peer = zipc_peer_find(engine, main_addr, main_len);
	int ret, again;

	if (!main_len || !comp_len || main_len > ZIPC_ADDR_MAX || comp_len > ZIPC_ADDR_MAX)
		return ZIPC_ERR_INVAL;
	again = !peer || peer->state == ZIPC_PEER_LOST ||
		peer->comp_len != comp_len || memcmp(peer->comp_addr, comp_addr, comp_len);
	if (!again) {
		peer->forgotten = 0;
		return 0;
	}
	if (!peer)
		peer = zipc_peer_create(engine, main_addr, main_len);
	if (!peer)
		return ZIPC_ERR_NOMEM;
	ret = zipc_peer_set_companion(peer, comp_addr, comp_len);
	if (ret)
		return ret;
	peer->state = ZIPC_PEER_MEETING;
	peer->forgotten = 0;
	zipc_peer_say_hello(peer);
	return 0;
}

void zipc_peer_forget(struct zipc_engine *engine, const void *main_addr, size_t main_len)
{
	struct zipc_peer *peer = zipc_peer_find(engine, main_addr, main_len);

	if (peer)
		peer->forgotten = 1;
}

static void zipc_peer_set_epoch(struct zipc_peer *peer, uint64_t epoch)
{
	struct zipc_engine *engine = peer->engine;
	struct zipc_peer **link = &engine->by_epoch[peer->epoch % ZIPC_HASH];

	if (peer->epoch) {
		while (*link != peer)
			link = &(*link)->by_epoch;
		*link = peer->by_epoch;
		engine->retired[engine->nretired++ % ZIPC_RETIRED] = peer->epoch;
	}
	peer->epoch = epoch;
	peer->by_epoch = engine->by_epoch[epoch % ZIPC_HASH];
	engine->by_epoch[epoch % ZIPC_HASH] = peer;
}

int zipc_peer_retired(const struct zipc_engine *engine, uint64_t epoch)
{
	unsigned i;

	for (i = 0; i < ZIPC_RETIRED; i++)
		if (epoch && engine->retired[i] == epoch)
			return 1;
	return 0;
}

/* The hello's fields that transfers rely on: what is missing or impossible makes a peer that gets plain messages. */
static int zipc_hello_usable(const struct zipc_hello_v1 *hello)
{
	return hello->max_chunk >= ZIPC_MIN_CHUNK && (hello->codecs & (1u << ZIPC_CODEC_RAW));
}

void zipc_peer_hello(struct zipc_engine *engine, const struct zipc_hello_v1 *hello, const uint8_t *addrs)
{
	struct zipc_peer *peer = zipc_peer_find(engine, addrs, hello->main_len);
	struct zipc_peer *namesake = zipc_peer_by_epoch(engine, hello->hdr.sender);
	int first;

	if (!zipc_hello_usable(hello)) {
		zipc_log(engine, ZIPC_LOG_WARN, "hello dropped: chunk %u, codecs %#x", hello->max_chunk, hello->codecs);
		return;
	}
	if (namesake && namesake != peer) {
		zipc_log(engine, ZIPC_LOG_WARN, "hello dropped: another peer has the id %llx",
			 (unsigned long long)hello->hdr.sender);
		return;
	}
	if (!peer)
		peer = zipc_peer_create(engine, addrs, hello->main_len);
	if (!peer || zipc_peer_set_companion(peer, addrs + hello->main_len, hello->comp_len)) {
		zipc_log(engine, ZIPC_LOG_WARN, "hello dropped: the companion's address is not usable");
		return;
	}
	if (peer->epoch && peer->epoch != hello->hdr.sender) {
		zipc_log(engine, ZIPC_LOG_INFO, "peer restarted");
		zipc_peer_lose(peer, ZIPC_ERR_PEER);
	}
	first = peer->epoch != hello->hdr.sender || peer->state == ZIPC_PEER_LOST;
	if (peer->epoch != hello->hdr.sender)
		zipc_peer_set_epoch(peer, hello->hdr.sender);
	peer->self = hello->hdr.sender == engine->epoch;
	peer->flags = hello->flags;
	peer->dtypes = hello->dtypes;
	peer->codecs = hello->codecs;
	peer->max_chunk = hello->max_chunk;
	peer->host_known = hello->host && hello->host == engine->host;
	peer->pid = hello->pid;
	peer->born = peer->host_known && peer->pid ? zipc_process_born(peer->pid) : 0;
	peer->heard_ms = zipc_now_ms();
	if (hello->echo == engine->epoch)
		peer->state = ZIPC_PEER_READY;
	else if (peer->state == ZIPC_PEER_LOST)
		peer->state = ZIPC_PEER_MEETING;
	if (first || hello->echo != engine->epoch)
		zipc_peer_say_hello(peer);
}

static void zipc_abort_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status)
{
	struct zipc_peer *peer = zipc_container(ctl, struct zipc_peer, abort);

	(void)engine;
	if (!status && peer->abort_all)
		zipc_peer_abort(peer, 0, 0);
}

void zipc_peer_abort(struct zipc_peer *peer, uint32_t sender_xfer, uint32_t scope)
{
	struct zipc_abort_v1 *msg = &peer->abort_msg;

	if (peer->abort.busy) { /* one at a time: a second one ends everything, on both sides */
		peer->abort_all = 1;
		if (scope)
			zipc_peer_lose(peer, ZIPC_ERR_PROTO);
		return;
	}
	peer->abort_all = 0;
	zipc_ctl_header(peer->engine, &msg->hdr, ZIPC_CTL_ABORT, sizeof(*msg));
	msg->sender_xfer = sender_xfer;
	msg->scope = scope;
	zipc_ctl_send(peer->engine, &peer->abort, peer, msg, sizeof(*msg), zipc_abort_done);
}

void zipc_peer_lose(struct zipc_peer *peer, int status)
{
	/* Only once, and not to a peer that is another one by now. */
	int tell = peer->state != ZIPC_PEER_LOST && peer->epoch && status != ZIPC_ERR_PEER;
	struct zipc_list *entry, *next;

	peer->state = ZIPC_PEER_LOST;
	if (tell)
		zipc_peer_abort(peer, 0, 0);
	/* For who waits for an operation it is the same whether the peer or the way to it is gone. */
	if (status == ZIPC_ERR_NET)
		status = ZIPC_ERR_PEER;
	for (entry = peer->sends.next; entry != &peer->sends; entry = next) {
		next = entry->next;
		zipc_send_fail(zipc_container(entry, struct zipc_send, link), status);
	}
	for (entry = peer->recvs.next; entry != &peer->recvs; entry = next) {
		next = entry->next;
		zipc_recv_lost(zipc_container(entry, struct zipc_recv, link), status);
	}
	zipc_pool_lose(peer->engine, &peer->engine->send_pool, &peer->send_slots);
	zipc_pool_lose(peer->engine, &peer->engine->recv_pool, &peer->recv_slots);
	zipc_accels_lose(peer);
}

static void zipc_ping_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status)
{
	(void)engine;
	(void)ctl;
	(void)status; /* zipc_ctl_done loses the peer when it failed */
}

/* A core over shared memory does not tell that a process is gone. */
static int zipc_peer_gone(const struct zipc_peer *peer)
{
	if (!peer->host_known || !peer->pid)
		return 0;
	if (kill((pid_t)peer->pid, 0) && errno == ESRCH)
		return 1;
	return peer->born && zipc_process_born(peer->pid) != peer->born;
}

static void zipc_peer_check(struct zipc_peer *peer, uint64_t now)
{
	struct zipc_engine *engine = peer->engine;

	if (peer->state == ZIPC_PEER_LOST || !zipc_peer_active(peer) || now - peer->heard_ms < ZIPC_PING_MS ||
	    now - peer->checked_ms < ZIPC_PING_MS)
		return;
	peer->checked_ms = now;
	if (zipc_peer_gone(peer)) {
		zipc_log(engine, ZIPC_LOG_WARN, "peer process %u is gone", peer->pid);
		zipc_peer_lose(peer, ZIPC_ERR_NET);
		return;
	}
	if (peer->ping.busy) {
		/* Still with us: a core that connects again and again to a dead machine says AGAIN for ever. */
		if (!peer->born && !zipc_list_empty(&peer->ping.link) && now - peer->ping_ms > ZIPC_DEAD_MS &&
		    now - peer->heard_ms > ZIPC_DEAD_MS) {
			zipc_log(engine, ZIPC_LOG_WARN, "peer does not take messages any more");
			zipc_peer_lose(peer, ZIPC_ERR_NET);
		}
		return;
	}
	peer->ping_ms = now;
	zipc_ctl_header(engine, &peer->ping_msg, ZIPC_CTL_PING, sizeof(peer->ping_msg));
	zipc_ctl_send(engine, &peer->ping, peer, &peer->ping_msg, sizeof(peer->ping_msg), zipc_ping_done);
}

void zipc_peer_watch(struct zipc_engine *engine)
{
	uint64_t now = zipc_now_ms();
	struct zipc_list *entry;

	if (now - engine->watch_ms < ZIPC_PING_MS / 4)
		return;
	engine->watch_ms = now;
	for (entry = engine->peers.next; entry != &engine->peers; entry = entry->next)
		zipc_peer_check(zipc_container(entry, struct zipc_peer, link), now);
}

void zipc_peers_close(struct zipc_engine *engine)
{
	struct zipc_list *entry, *inner;

	while ((entry = zipc_list_pop(&engine->peers))) {
		struct zipc_peer *peer = zipc_container(entry, struct zipc_peer, link);

		while ((inner = zipc_list_pop(&peer->recvs)))
			zipc_recv_close(zipc_container(inner, struct zipc_recv, link));
		if (peer->has_handle)
			engine->net_ops->addr_remove(engine->net, peer->handle);
		free(peer);
	}
}
