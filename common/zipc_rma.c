/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory: transfers that no receive of the application's is matched with.
 *
 *   write: WRITE -> the target opens its memory -> from there on as any inbound transfer; FIN: the data is in place
 *   read:  READ -> the target opens its memory -> REPLY -> an outbound transfer of the target's, which the reader grants chunks
 */
#include <stdatomic.h>
#include <string.h>

#include "zipc_engine_priv.h"

int zipc_peer_rma(const struct zipc_peer *peer)
{
	return zipc_peer_ready(peer) && (peer->flags & ZIPC_HELLO_RMA);
}

unsigned zipc_peer_outstanding(const struct zipc_peer *peer)
{
	return peer ? peer->nsends - peer->nreplies + peer->nreads : 0;
}

/* 1 if there are such segments and together they have this length. */
static int zipc_segs_fit(const struct zipc_rma_seg *segs, size_t nsegs, uint64_t nbytes)
{
	uint64_t left = nbytes;
	size_t i;

	if (!nsegs || nsegs > ZIPC_RMA_SEGS || !nbytes)
		return 0;
	for (i = 0; i < nsegs; i++) {
		if (segs[i].len > left || segs[i].addr > UINT64_MAX - segs[i].len)
			return 0;
		left -= segs[i].len;
	}
	return !left;
}

/* ---- the initiator */

/* A last chunk of less than the tail would let bytes of the tail come early. */
static void zipc_write_fit_tail(struct zipc_send *send)
{
	uint64_t rest;

	while (send->chunk > ZIPC_MIN_CHUNK && send->nbytes > send->chunk && (rest = send->nbytes % send->chunk) &&
	       rest < ZIPC_RMA_TAIL)
		send->chunk -= ZIPC_MIN_CHUNK;
	send->nchunks = (uint32_t)((send->nbytes - 1) / send->chunk) + 1;
}

static void zipc_write_fill(struct zipc_send *send, const struct zipc_rma_seg *segs, size_t nsegs, uint64_t data, unsigned flags)
{
	struct zipc_write_v1 *write = &send->msg.write;

	memset(write, 0, sizeof(*write));
	zipc_ctl_header(send->engine, &write->hdr, ZIPC_CTL_WRITE, sizeof(*write));
	write->sender_xfer = send->id;
	write->chunk = send->chunk;
	write->nbytes = send->nbytes;
	write->data = flags & ZIPC_RMA_DATA ? data : 0;
	write->flags = flags;
	write->nsegs = (uint32_t)nsegs;
	memcpy(write->segs, segs, nsegs * sizeof(*segs));
}

int zipc_write_begin(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov,
		     const struct zipc_rma_seg *segs, size_t nsegs, uint64_t data, unsigned flags, void *cookie,
		     struct zipc_send **send_p)
{
	const unsigned kind = ZIPC_SEND_WRITE | ZIPC_SEND_DELIVERY;
	size_t nbytes = niov <= ZIPC_IOV_MAX ? zipc_iov_total(iov, niov) : 0;
	enum zipc_dtype dtype = ZIPC_DTYPE_RAW;
	enum zipc_mode mode = ZIPC_MODE_ZIP;
	struct zipc_send *send;
	int ret;

	if (!zipc_segs_fit(segs, nsegs, nbytes))
		return 1 + ZIPC_RAW_SMALL;
	ret = zipc_send_choose(engine, peer, iov, niov, nbytes, kind, &dtype, &mode);
	if (ret)
		return ret;
	ret = zipc_send_new(peer, iov, niov, nbytes, kind, peer->max_chunk, &send);
	if (ret) {
		zipc_send_unchoose(engine, peer, nbytes, kind, mode);
		return ret == ZIPC_ERR_AGAIN ? ret : 1 + ZIPC_RAW_SMALL;
	}
	send->dtype = mode == ZIPC_MODE_PROBE ? ZIPC_DTYPE_RAW : dtype;
	send->mode = mode;
	send->cookie = cookie;
	if (flags & ZIPC_RMA_POLL)
		zipc_write_fit_tail(send);
	zipc_write_fill(send, segs, nsegs, data, flags & (ZIPC_RMA_DATA | ZIPC_RMA_POLL));
	*send_p = send;
	return 0;
}

/* What the data looks like is for the target to see: here only the link and the settings count. */
static int zipc_read_choose(struct zipc_engine *engine, struct zipc_peer *peer, size_t nbytes, enum zipc_mode *mode)
{
	*mode = ZIPC_MODE_ZIP;
	if (nbytes < engine->attr.min_size)
		return 1 + ZIPC_RAW_SMALL;
	if (!zipc_peer_rma(peer))
		return 1 + ZIPC_RAW_PEER;
	if (!engine->attr.host || engine->attr.codec == ZIPC_CODEC_RAW ||
	    zipc_pool_usable(&engine->recv_pool) * 2 <= engine->recv_pool.count)
		return 1 + ZIPC_RAW_OFF;
	if (engine->attr.policy == ZIPC_POLICY_AUTO && zipc_policy_raw(&peer->read_judge, nbytes))
		*mode = ZIPC_MODE_RAW;
	else if (engine->attr.policy == ZIPC_POLICY_AUTO)
		*mode = zipc_policy_choose(&peer->read_judge, nbytes);
	return *mode == ZIPC_MODE_RAW ? 1 + ZIPC_RAW_SLOW : 0;
}

static void zipc_read_fill(struct zipc_recv *recv, const struct zipc_rma_seg *segs, size_t nsegs)
{
	struct zipc_read_v1 *read = &recv->msg.read;

	memset(read, 0, sizeof(*read));
	zipc_ctl_header(recv->engine, &read->hdr, ZIPC_CTL_READ, sizeof(*read));
	read->reader_xfer = recv->id;
	read->max_chunk = (uint32_t)recv->engine->attr.chunk;
	read->nbytes = recv->nbytes;
	read->flags = recv->mode == ZIPC_MODE_PROBE ? ZIPC_READ_PROBE : 0;
	read->nsegs = (uint32_t)nsegs;
	memcpy(read->segs, segs, nsegs * sizeof(*segs));
}

int zipc_read_begin(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov,
		    const struct zipc_rma_seg *segs, size_t nsegs, unsigned flags, void *cookie, struct zipc_recv **recv_p)
{
	size_t nbytes = niov <= ZIPC_IOV_MAX ? zipc_iov_total(iov, niov) : 0;
	struct zipc_recv *recv;
	enum zipc_mode mode;
	int ret;

	(void)flags;
	if (!zipc_segs_fit(segs, nsegs, nbytes))
		return 1 + ZIPC_RAW_SMALL;
	ret = zipc_read_choose(engine, peer, nbytes, &mode);
	if (ret)
		return ret;
	recv = peer->nreads < ZIPC_READS_PER_PEER ? zipc_recv_new(engine, peer) : NULL;
	if (!recv) {
		zipc_policy_undo(&peer->read_judge, nbytes, mode);
		return ZIPC_ERR_AGAIN;
	}
	recv->kind = ZIPC_RECV_READ;
	recv->begun = recv->matched = 1;
	recv->nbytes = recv->keep = nbytes;
	recv->mode = mode;
	memcpy(recv->iov, iov, niov * sizeof(*iov));
	recv->niov = (uint32_t)niov;
	recv->cookie = cookie;
	peer->nreads++;
	zipc_read_fill(recv, segs, nsegs);
	*recv_p = recv;
	return 0;
}

void zipc_read_drop(struct zipc_recv *recv)
{
	zipc_policy_undo(&recv->peer->read_judge, recv->nbytes, recv->mode);
	zipc_recv_close(recv);
}

void zipc_read_commit(struct zipc_recv *recv)
{
	struct zipc_peer *peer = recv->peer;

	recv->begun = 0;
	if (peer->state == ZIPC_PEER_LOST) {
		zipc_recv_lost(recv, ZIPC_ERR_PEER);
		return;
	}
	if (zipc_peer_active(peer) == 1)
		peer->heard_ms = zipc_now_ms(); /* silence is counted from here */
	zipc_list_append(&peer->reads, &recv->read);
	zipc_ctl_send(recv->engine, &recv->ctl, peer, &recv->msg.read, sizeof(recv->msg.read), zipc_recv_ctl_done);
}

void zipc_read_cancel(struct zipc_recv *recv)
{
	zipc_recv_cancel(recv);
	zipc_recv_fail(recv, ZIPC_ERR_CANCELED);
}

void zipc_read_over(struct zipc_recv *recv)
{
	struct zipc_judge *judge = &recv->peer->read_judge;

	if (recv->status || !recv->start_ns)
		zipc_policy_lost(judge, recv->nbytes, recv->mode);
	else
		zipc_policy_done(judge, recv->nbytes, recv->mode, recv->start_ns, zipc_now_ns());
}

static struct zipc_recv *zipc_read_lookup(struct zipc_peer *peer, uint32_t id)
{
	struct zipc_list *entry;

	for (entry = peer->reads.next; entry != &peer->reads; entry = entry->next) {
		struct zipc_recv *recv = zipc_container(entry, struct zipc_recv, read);

		if (recv->id == id)
			return recv;
	}
	return NULL;
}

/* The read ends without a transfer. */
static void zipc_read_refused(struct zipc_recv *recv, int status)
{
	zipc_log(recv->engine, ZIPC_LOG_WARN, "read %#x refused: %s", recv->id, zipc_strerror(status));
	recv->fin_sent = recv->rts_seen = 1;
	if (recv->done)
		zipc_recv_announce(recv);
	else
		zipc_recv_finish(recv, status);
}

void zipc_rma_reply(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_reply_v1 *msg)
{
	struct zipc_recv *recv = zipc_read_lookup(peer, msg->reader_xfer);

	if (!recv) {
		zipc_log(engine, ZIPC_LOG_WARN, "reply ignored: no read %#x", msg->reader_xfer);
		return;
	}
	zipc_list_remove(&recv->read);
	if (msg->status) {
		zipc_read_refused(recv, msg->status > 0 || msg->status == ZIPC_ERR_AGAIN ? ZIPC_ERR_PROTO : msg->status);
		return;
	}
	if (msg->nbytes != recv->nbytes || !zipc_recv_possible(engine, msg->nbytes, msg->chunk) ||
	    zipc_recv_lookup(engine, peer->epoch, msg->sender_xfer)) {
		zipc_log(engine, ZIPC_LOG_WARN, "reply with a bad field: transfer %#x, %llu bytes, chunk %u", msg->sender_xfer,
			 (unsigned long long)msg->nbytes, msg->chunk);
		zipc_read_refused(recv, ZIPC_ERR_PROTO);
		return;
	}
	zipc_recv_number(recv, msg->sender_xfer);
	recv->rts_seen = 1;
	recv->chunk = msg->chunk;
	recv->start_ns = zipc_now_ns();
	if (recv->done) /* given up meanwhile: the sender is told now */
		zipc_recv_announce(recv);
	else if (!zipc_pool_usable(&engine->recv_pool))
		zipc_recv_finish(recv, ZIPC_ERR_NOMEM);
	else
		zipc_recv_start(recv);
}

/* ---- the target */

static int zipc_rma_open(struct zipc_engine *engine, struct zipc_peer *peer, int write, const struct zipc_rma_seg *wire,
			 uint32_t nsegs, uint64_t nbytes, struct iovec *iov, size_t *niov, void **target)
{
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS];

	*niov = ZIPC_IOV_MAX;
	if (nsegs > ZIPC_RMA_SEGS || nbytes > SIZE_MAX / 2)
		return ZIPC_ERR_INVAL;
	memcpy(segs, wire, nsegs * sizeof(*segs));
	if (!zipc_segs_fit(segs, nsegs, nbytes))
		return ZIPC_ERR_INVAL;
	if (!engine->cb->rma_open)
		return ZIPC_ERR_ACCES;
	return engine->cb->rma_open(engine->ctx, peer, write, segs, nsegs, iov, niov, target);
}

static int zipc_write_open(struct zipc_recv *recv, const struct zipc_write_v1 *msg)
{
	struct zipc_engine *engine = recv->engine;
	size_t niov;
	int ret;

	if ((msg->flags & ~(uint32_t)(ZIPC_RMA_DATA | ZIPC_RMA_POLL)) || !zipc_recv_possible(engine, msg->nbytes, msg->chunk))
		return ZIPC_ERR_INVAL;
	if (!zipc_pool_usable(&engine->recv_pool))
		return ZIPC_ERR_NOMEM;
	ret = zipc_rma_open(engine, recv->peer, 1, msg->segs, msg->nsegs, msg->nbytes, recv->iov, &niov, &recv->cookie);
	recv->niov = ret ? 0 : (uint32_t)niov;
	return ret;
}

void zipc_rma_write(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_write_v1 *msg)
{
	struct zipc_recv *recv = zipc_recv_lookup(engine, peer->epoch, msg->sender_xfer);
	int ret;

	if (recv) {
		zipc_log(engine, ZIPC_LOG_WARN, "write ignored: transfer %#x is under way", msg->sender_xfer);
		return;
	}
	recv = zipc_recv_new(engine, peer);
	if (!recv) {
		zipc_log(engine, ZIPC_LOG_WARN, "no room for another write from this peer");
		zipc_peer_lose(peer, ZIPC_ERR_NOMEM);
		return;
	}
	zipc_recv_number(recv, msg->sender_xfer);
	recv->kind = ZIPC_RECV_WRITE;
	recv->rts_seen = recv->matched = 1;
	ret = zipc_write_open(recv, msg);
	if (ret) {
		zipc_log(engine, ZIPC_LOG_WARN, "write %#x refused: %s", msg->sender_xfer, zipc_strerror(ret));
		recv->discard = 1;
		zipc_recv_finish(recv, ret);
		return;
	}
	recv->nbytes = recv->keep = msg->nbytes;
	recv->chunk = msg->chunk;
	recv->data = msg->data;
	recv->rma_flags = msg->flags;
	zipc_recv_start(recv);
}

/* Answers a read that is refused, too: a transfer that is over before it has begun. */
static void zipc_read_answer(struct zipc_send *send, uint32_t reader_xfer, int status)
{
	struct zipc_reply_v1 *reply = &send->msg.reply;

	memset(reply, 0, sizeof(*reply));
	zipc_ctl_header(send->engine, &reply->hdr, ZIPC_CTL_REPLY, sizeof(*reply));
	reply->reader_xfer = reader_xfer;
	reply->status = status;
	if (!status) {
		reply->sender_xfer = send->id;
		reply->chunk = send->chunk;
		reply->nbytes = send->nbytes;
	}
	send->measured = 1; /* the reader does that */
	send->state = ZIPC_SEND_OPEN;
	send->over = !!status;
	send->status = status;
	zipc_send_announce(send, sizeof(*reply));
}

static enum zipc_dtype zipc_read_dtype(struct zipc_send *send, uint32_t flags)
{
	struct zipc_engine *engine = send->engine;
	enum zipc_dtype dtype;
	int worth;

	if ((flags & ZIPC_READ_PROBE) || send->nbytes < ZIPC_MIN_CHUNK || !engine->attr.host || engine->attr.codec == ZIPC_CODEC_RAW)
		return ZIPC_DTYPE_RAW;
	worth = zipc_send_worth(engine, send->iov, send->niov, &dtype);
	if ((!worth && engine->attr.policy != ZIPC_POLICY_ALWAYS) || !zipc_peer_decodes(engine, send->peer, dtype))
		return ZIPC_DTYPE_RAW;
	return dtype;
}

void zipc_rma_read(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_read_v1 *msg)
{
	struct iovec iov[ZIPC_IOV_MAX];
	struct zipc_send *send = NULL;
	size_t niov = 0;
	void *target;
	int ret, opened;

	if (peer->nreplies >= 2 * ZIPC_READS_PER_PEER) { /* one that keeps the rules has half as many */
		zipc_log(engine, ZIPC_LOG_WARN, "too many reads from this peer");
		zipc_peer_lose(peer, ZIPC_ERR_PROTO);
		return;
	}
	ret = (msg->flags & ~(uint32_t)ZIPC_READ_PROBE) || msg->max_chunk < ZIPC_MIN_CHUNK ? ZIPC_ERR_INVAL :
	      zipc_rma_open(engine, peer, 0, msg->segs, msg->nsegs, msg->nbytes, iov, &niov, &target);
	opened = !ret;
	if (opened) {
		ret = zipc_send_new(peer, iov, niov, msg->nbytes, ZIPC_SEND_REPLY | ZIPC_SEND_DELIVERY, msg->max_chunk, &send);
		if (ret)
			engine->cb->rma_done(engine->ctx, target, ZIPC_ERR_NOMEM, 0, 0, msg->nbytes);
	}
	if (!send) {
		zipc_log(engine, ZIPC_LOG_WARN, "read %#x refused: %s", msg->reader_xfer, zipc_strerror(ret));
		ret = ret == ZIPC_ERR_AGAIN ? ZIPC_ERR_NOMEM : ret;
		if (zipc_send_new(peer, NULL, 0, 1, ZIPC_SEND_REPLY | ZIPC_SEND_DELIVERY, ZIPC_MIN_CHUNK, &send)) {
			zipc_peer_lose(peer, ZIPC_ERR_NOMEM);
			return;
		}
	} else {
		send->cookie = target;
		send->dtype = zipc_read_dtype(send, msg->flags);
	}
	zipc_read_answer(send, msg->reader_xfer, ret);
}

int zipc_rma_revoke(struct zipc_engine *engine, const void *target, int status)
{
	struct zipc_list *at, *entry, *next;
	int left = 0;

	for (at = engine->peers.next; at != &engine->peers; at = at->next) {
		struct zipc_peer *peer = zipc_container(at, struct zipc_peer, link);

		for (entry = peer->sends.next; entry != &peer->sends; entry = next) {
			struct zipc_send *send = zipc_container(entry, struct zipc_send, link);

			next = entry->next;
			if (!(send->flags & ZIPC_SEND_REPLY) || !send->niov || send->cookie != target || send->over)
				continue;
			if (send->next == send->nchunks)
				zipc_send_report(send, 0); /* it has taken all that it needs of the memory */
			else if (peer->abort.busy)
				left = 1; /* one word at a time */
			else
				zipc_send_break(send, status);
		}
		for (entry = peer->recvs.next; entry != &peer->recvs; entry = next) {
			struct zipc_recv *recv = zipc_container(entry, struct zipc_recv, link);

			next = entry->next;
			if (recv->kind != ZIPC_RECV_WRITE || recv->discard || recv->done || recv->cookie != target)
				continue;
			zipc_recv_cancel(recv);
			zipc_recv_fail(recv, status);
		}
	}
	return left;
}

/* ---- memory that the target polls */

/* The pieces of [offset, offset + nbytes) of the segments; returns how many. */
static size_t zipc_iov_cut(struct iovec *out, const struct iovec *iov, size_t niov, size_t offset, size_t nbytes)
{
	size_t i, n, count = 0;

	for (i = 0; i < niov && nbytes; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		n = iov[i].iov_len - offset < nbytes ? iov[i].iov_len - offset : nbytes;
		out[count++] = (struct iovec){(char *)iov[i].iov_base + offset, n};
		nbytes -= n;
		offset = 0;
	}
	return count;
}

/* Writes `n` bytes that whoever polls sees at once, if they are aligned and as many as a store can write. */
static void zipc_store_flag(uint8_t *dst, const uint8_t *src, size_t n)
{
	uint64_t v64;
	uint32_t v32;

	if (n == 8) {
		memcpy(&v64, src, 8);
		__atomic_store_n((uint64_t *)(void *)dst, v64, __ATOMIC_RELEASE);
	} else if (n == 4) {
		memcpy(&v32, src, 4);
		__atomic_store_n((uint32_t *)(void *)dst, v32, __ATOMIC_RELEASE);
	} else {
		__atomic_store_n(dst, *src, __ATOMIC_RELEASE);
	}
}

/* All but the last word, a fence, the last word: who polls the last byte, or a flag in the last word, finds the rest in place. */
static void zipc_store_tail(const struct iovec *iov, size_t niov, const uint8_t *tail, size_t nbytes)
{
	uint8_t *last = (uint8_t *)iov[niov - 1].iov_base + iov[niov - 1].iov_len;
	size_t i, n, word = 8;

	while (word > 1 && (word == 2 || (uintptr_t)last % word || word > iov[niov - 1].iov_len))
		word /= 2;
	for (i = 0; i < niov; i++) {
		n = iov[i].iov_len - (i == niov - 1 ? word : 0);
		memcpy(iov[i].iov_base, tail, n);
		tail += n;
		nbytes -= n;
	}
	atomic_thread_fence(memory_order_seq_cst);
	zipc_store_flag(last - word, tail, nbytes);
}

int zipc_rma_decode_last(struct zipc_recv *recv, size_t offset, size_t nbytes, const void *frame, size_t frame_bytes)
{
	struct zipc_engine *engine = recv->engine;
	size_t tail = nbytes < ZIPC_RMA_TAIL ? nbytes : ZIPC_RMA_TAIL, n;
	struct iovec iov[ZIPC_IOV_MAX + 1];
	uint8_t bounce[ZIPC_RMA_TAIL];
	int ret;

	n = zipc_iov_cut(iov, recv->iov, recv->niov, offset, nbytes - tail);
	iov[n++] = (struct iovec){bounce, tail};
	ret = engine->dev_ops->decode(engine->dev, iov, n, 0, nbytes, nbytes, frame, frame_bytes);
	if (ret)
		return ret;
	n = zipc_iov_cut(iov, recv->iov, recv->niov, offset + nbytes - tail, tail);
	atomic_thread_fence(memory_order_seq_cst);
	zipc_store_tail(iov, n, bounce, tail);
	return 0;
}
