/* SPDX-License-Identifier: BSD-3-Clause */
/* Inbound messages until they are transfers: placeholders and requests to send, in any order, peeks. zipc_recv.c has the rest. */
#include <string.h>

#include "zipc_accel_priv.h"

int zipc_looks_like_placeholder(const void *msg, size_t len)
{
	return len == ZIPC_PLACEHOLDER_BYTES && !memcmp(msg, ZIPC_PLACEHOLDER_MAGIC, 16);
}

int zipc_is_placeholder(struct zipc_engine *engine, const void *msg, size_t len)
{
	struct zipc_placeholder_v1 ph;

	if (!zipc_looks_like_placeholder(msg, len))
		return 0;
	memcpy(&ph, msg, sizeof(ph));
	return zipc_peer_by_epoch(engine, ph.sender) || zipc_peer_retired(engine, ph.sender);
}

int zipc_recv_possible(const struct zipc_engine *engine, uint64_t nbytes, uint32_t chunk)
{
	return chunk >= ZIPC_MIN_CHUNK && chunk <= engine->attr.chunk && nbytes && nbytes <= SIZE_MAX / 2 &&
	       (nbytes - 1) / chunk < UINT32_MAX;
}

/* Returns the name of the first field that cannot be, or NULL. */
static const char *zipc_placeholder_fault(const struct zipc_engine *engine, const struct zipc_placeholder_v1 *ph)
{
	size_t i;

	if (ph->version != ZIPC_WIRE_VERSION)
		return "version";
	if (ph->flags & ~(ZIPC_PH_TAGGED | ZIPC_PH_DELIVERY))
		return "flags";
	for (i = 0; i < sizeof(ph->zero); i++)
		if (ph->zero[i])
			return "zero";
	return zipc_recv_possible(engine, ph->nbytes, ph->chunk) ? NULL : "chunk or nbytes";
}

size_t zipc_iov_total(const struct iovec *iov, size_t niov)
{
	size_t i, total = 0;

	for (i = 0; i < niov; i++)
		total += iov[i].iov_len;
	return total;
}

/* What a control record and a placeholder say about the same transfer. */
static int zipc_recv_agrees(const struct zipc_recv *recv, uint64_t nbytes, uint32_t chunk, uint64_t tag, uint32_t flags)
{
	return recv->nbytes == nbytes && recv->chunk == chunk && recv->tag == tag && recv->flags == flags;
}

void zipc_recv_refuse(struct zipc_recv *recv, int status)
{
	recv->matched = 1;
	recv->discard = 1;
	recv->keep = 0;
	zipc_recv_finish(recv, status);
}

/* Finds or makes the record that a placeholder speaks of. */
static int zipc_recv_open(struct zipc_engine *engine, const void *placeholder, struct zipc_recv **recv_p)
{
	struct zipc_placeholder_v1 ph;
	struct zipc_peer *peer;
	struct zipc_recv *recv;
	const char *fault;

	memcpy(&ph, placeholder, sizeof(ph));
	recv = zipc_recv_lookup(engine, ph.sender, ph.sender_xfer);
	peer = zipc_peer_by_epoch(engine, ph.sender);
	if (!peer) { /* its sender was restarted since */
		if (recv)
			zipc_recv_close(recv);
		return ZIPC_ERR_PEER;
	}
	fault = zipc_placeholder_fault(engine, &ph);
	if (fault) {
		zipc_log(engine, ZIPC_LOG_WARN, "placeholder with a bad field: %s", fault);
		return ZIPC_ERR_PROTO;
	}
	if (recv && (recv->matched || !zipc_recv_agrees(recv, ph.nbytes, ph.chunk, ph.tag, ph.flags))) {
		zipc_log(engine, ZIPC_LOG_WARN, "placeholder of transfer %#x does not fit its control record", ph.sender_xfer);
		if (!recv->matched)
			zipc_recv_refuse(recv, ZIPC_ERR_PROTO);
		return ZIPC_ERR_PROTO;
	}
	if (!recv)
		recv = zipc_recv_create(engine, peer, ph.sender_xfer);
	if (!recv) {
		zipc_log(engine, ZIPC_LOG_WARN, "no room for another transfer from this peer");
		return ZIPC_ERR_NOMEM;
	}
	if (zipc_peer_active(peer) == 1)
		peer->heard_ms = zipc_now_ms();
	recv->nbytes = ph.nbytes;
	recv->chunk = ph.chunk;
	recv->tag = ph.tag;
	recv->flags = ph.flags;
	recv->matched = 1;
	*recv_p = recv;
	return 0;
}

int zipc_recv_match(struct zipc_engine *engine, const void *placeholder, const struct iovec *iov, size_t niov, void *cookie)
{
	return zipc_recv_match_on(engine, NULL, placeholder, iov, niov, cookie);
}

int zipc_recv_match_on(struct zipc_engine *engine, struct zipc_accel *accel, const void *placeholder, const struct iovec *iov,
		       size_t niov, void *cookie)
{
	struct zipc_recv *recv;
	size_t total = zipc_iov_total(iov, niov);
	int ret;

	if (niov > ZIPC_IOV_MAX)
		return ZIPC_ERR_INVAL;
	ret = zipc_recv_open(engine, placeholder, &recv);
	if (ret)
		return ret;
	memcpy(recv->iov, iov, niov * sizeof(*iov));
	recv->niov = (uint32_t)niov;
	recv->keep = recv->nbytes < total ? recv->nbytes : total;
	recv->cookie = cookie;
	recv->accel = accel;
	if (accel)
		recv->pool = &accel->recv_pool;
	if (recv->peer->state == ZIPC_PEER_LOST)
		zipc_recv_lost(recv, ZIPC_ERR_PEER);
	else if (recv->aborted)
		zipc_recv_fail(recv, ZIPC_ERR_PEER);
	else if (recv->keep && (!zipc_pool_usable(recv->pool) || (accel && accel->dead)))
		zipc_recv_fail(recv, ZIPC_ERR_NOMEM);
	else if (!recv->keep)
		zipc_recv_complete(recv);
	else
		zipc_recv_start(recv);
	return 0;
}

void zipc_recv_drop(struct zipc_recv *recv)
{
	if (recv->peer->state == ZIPC_PEER_LOST) { /* nobody is left to tell */
		zipc_recv_close(recv);
		return;
	}
	if (!recv->aborted) {
		ZIPC_COUNT(recv->peer, recvs, 1);
		ZIPC_COUNT(recv->peer, recv_bytes, recv->nbytes);
	}
	zipc_recv_refuse(recv, recv->aborted ? ZIPC_ERR_PEER : 0);
}

int zipc_recv_discard(struct zipc_engine *engine, const void *placeholder)
{
	struct zipc_recv *recv;
	int ret = zipc_recv_open(engine, placeholder, &recv);

	if (!ret)
		zipc_recv_drop(recv);
	return ret;
}

static int zipc_kind_fits(uint8_t kind)
{
	return (kind & 7) < ZIPC_DTYPE_COUNT && (kind >> 3 & 3) < ZIPC_CODEC_COUNT && !(kind >> 6) && (!kind || kind & 7);
}

void zipc_recv_rts(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_rts_v1 *msg)
{
	struct zipc_recv *recv = zipc_recv_lookup(engine, peer->epoch, msg->sender_xfer);
	struct zipc_placeholder_v1 ph = {
		.version = ZIPC_WIRE_VERSION, .chunk = msg->chunk, .nbytes = msg->nbytes, .flags = (uint8_t)msg->flags,
	};
	int zero = !msg->zero[0] && !msg->zero[1] && !msg->zero[2];
	const char *fault = msg->flags > UINT8_MAX                 ? "flags"
			    : !zero || !zipc_kind_fits(msg->kind) ? "kind"
								  : zipc_placeholder_fault(engine, &ph);

	if (fault || (recv && recv->rts_seen)) {
		zipc_log(engine, ZIPC_LOG_WARN, "request to send ignored: transfer %#x, %s", msg->sender_xfer,
			 fault ? fault : "seen before");
		return;
	}
	if (recv) { /* its placeholder was faster */
		recv->rts_seen = 1;
		recv->frame_kind = recv->frame_kind ? recv->frame_kind : msg->kind;
		if (zipc_recv_agrees(recv, msg->nbytes, msg->chunk, msg->tag, msg->flags)) {
			zipc_recv_settle(recv);
			return;
		}
		zipc_log(engine, ZIPC_LOG_WARN, "request to send of transfer %#x does not fit its placeholder", msg->sender_xfer);
		if (recv->done)
			zipc_recv_settle(recv);
		else
			zipc_recv_fail(recv, ZIPC_ERR_PROTO);
		return;
	}
	recv = zipc_recv_create(engine, peer, msg->sender_xfer);
	if (!recv) {
		zipc_log(engine, ZIPC_LOG_WARN, "request to send ignored: no room for another transfer from this peer");
		return;
	}
	recv->rts_seen = 1;
	recv->frame_kind = msg->kind;
	recv->nbytes = msg->nbytes;
	recv->chunk = msg->chunk;
	recv->tag = msg->tag;
	recv->flags = msg->flags;
}

static struct zipc_recv *zipc_recv_oldest(struct zipc_peer *peer, uint64_t tag)
{
	struct zipc_list *entry;

	for (entry = peer->recvs.next; entry != &peer->recvs; entry = entry->next) {
		struct zipc_recv *recv = zipc_container(entry, struct zipc_recv, link);

		if (!recv->matched && !recv->claimed && !recv->aborted && recv->rts_seen && recv->tag == tag)
			return recv;
	}
	return NULL;
}

struct zipc_recv *zipc_recv_peek(struct zipc_engine *engine, struct zipc_peer *peer, uint64_t tag, int claim, size_t *nbytes)
{
	struct zipc_recv *recv = peer ? zipc_recv_oldest(peer, tag) : NULL;
	struct zipc_list *entry;

	for (entry = engine->peers.next; entry != &engine->peers && !recv && !peer; entry = entry->next)
		recv = zipc_recv_oldest(zipc_container(entry, struct zipc_peer, link), tag);
	if (!recv)
		return NULL;
	*nbytes = recv->nbytes;
	recv->claimed |= claim;
	return recv;
}
