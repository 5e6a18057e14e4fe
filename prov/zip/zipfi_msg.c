/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_msg and fi_tagged: sending. A message that is too small to be worth it costs one comparison and a record; any other
 * is offered to the engine first.
 */
#include <string.h>

#include "zipfi_hmem.h"

#define ZIPFI_ANNOUNCE_MS 100

static struct zipfi_ep *zipfi_ep_of(struct fid_ep *fid)
{
	return zipfi_of(fid, zipfi_ep, fid);
}

/* Copies the first `len` bytes of the segments. */
static void zipfi_iov_head(const struct iovec *iov, size_t niov, uint8_t *out, size_t len)
{
	size_t i, n;

	for (i = 0; i < niov && len; i++) {
		n = iov[i].iov_len < len ? iov[i].iov_len : len;
		memcpy(out, iov[i].iov_base, n);
		out += n;
		len -= n;
	}
}

static bool zipfi_wants_report(bool selective, uint64_t flags)
{
	return !selective || (flags & FI_COMPLETION);
}

static struct zipfi_rec *zipfi_send_rec(struct zipfi_ep *ep, void *context, uint64_t kind, uint64_t flags)
{
	struct zipfi_rec *rec = zipfi_rec_get(ep);

	if (!rec)
		return NULL;
	rec->kind = ZIPFI_REC_SEND;
	rec->context = context;
	rec->op_flags = kind | FI_SEND;
	rec->report = zipfi_wants_report(ep->tx_selective, flags);
	return rec;
}

/* The same with what only sends in their long form have. */
static struct zipfi_rec *zipfi_out_rec(struct zipfi_ep *ep, const struct zipfi_out *out)
{
	struct zipfi_rec *rec = zipfi_send_rec(ep, out->context, out->kind, out->flags);

	if (!rec)
		return NULL;
	rec->landing = out->landing;
	rec->total = out->total;
	rec->report = rec->report && !out->silent;
	return rec;
}

/* ---- the way through the engine */

/* A peer that did not answer yet is told again, but not with every message. */
static void zipfi_reannounce(struct zipfi_ep *ep, const struct zipfi_addr *addr)
{
	uint64_t now = zipc_now_ms();

	if (now - ep->announced_ms < ZIPFI_ANNOUNCE_MS)
		return;
	ep->announced_ms = now;
	zipfi_beacon_announce(ep, addr);
}

struct zipc_peer *zipfi_peer(struct zipfi_ep *ep, const struct zipfi_addr *addr)
{
	struct zipc_peer *peer = zipc_peer_find(ep->engine, addr->main, addr->main_len);

	if (zipc_peer_ready(peer))
		return peer;
	if (addr->comp_len && !peer) {
		zipc_peer_meet(ep->engine, addr->main, addr->main_len, addr->comp, addr->comp_len);
		peer = zipc_peer_find(ep->engine, addr->main, addr->main_len);
		zipfi_comp_progress(ep);
	} else if (!addr->comp_len) {
		zipfi_reannounce(ep, addr);
	}
	return peer;
}

ssize_t zipfi_fence(struct zipfi_ep *ep, fi_addr_t dest)
{
	struct zipfi_addr addr;
	unsigned outstanding = 0;

	if (!ep->engine || zipfi_av_lookup_main(ep->av, dest, &addr))
		return 0;
	zipfi_ep_progress(ep, NULL);
	zipfi_lock(ep->domain, &ep->lock);
	if (ep->engine)
		outstanding = zipc_peer_outstanding(zipc_peer_find(ep->engine, addr.main, addr.main_len));
	zipfi_unlock(ep->domain, &ep->lock);
	return outstanding ? -FI_EAGAIN : 0;
}

void zipfi_fence_begin(struct zipfi_rec *rec)
{
	rec->fence = true;
	atomic_fetch_add(&rec->ep->fences, 1);
}

static ssize_t zipfi_post_placeholder(struct zipfi_ep *ep, const struct zipfi_out *out, struct zipfi_rec *rec)
{
	struct iovec iov = {rec->bounce, ZIPC_PLACEHOLDER_BYTES};
	uint64_t flags = (out->flags & (FI_REMOTE_CQ_DATA | FI_FENCE)) | FI_COMPLETION;

	if (out->kind == FI_TAGGED) {
		const struct fi_msg_tagged msg = {
			.msg_iov = &iov, .desc = &ep->recs_desc, .iov_count = 1, .addr = out->dest,
			.tag = out->tag | ep->zbit, .context = rec, .data = out->data,
		};

		return fi_tsendmsg(ep->core, &msg, flags);
	}
	const struct fi_msg msg = {
		.msg_iov = &iov, .desc = &ep->recs_desc, .iov_count = 1, .addr = out->dest, .context = rec, .data = out->data,
	};

	return fi_sendmsg(ep->core, &msg, flags);
}

/* Posts the placeholder of a transfer that has been begun, and commits or drops the transfer. */
static ssize_t zipfi_start_transfer(struct zipfi_ep *ep, const struct zipfi_out *out, struct zipc_send *send,
				    struct zipfi_rec *placeholder)
{
	ssize_t ret;

	placeholder->kind = ZIPFI_REC_PLACEHOLDER;
	placeholder->context = NULL;
	placeholder->send_id = zipc_send_id(send);
	if (out->flags & FI_FENCE)
		zipfi_fence_begin(placeholder);
	ret = zipfi_post_placeholder(ep, out, placeholder);
	zipfi_lock(ep->domain, &ep->lock);
	if (ret) {
		zipc_send_drop(send);
	} else {
		zipc_send_commit(send);
		zipfi_comp_progress(ep);
	}
	zipfi_unlock(ep->domain, &ep->lock);
	if (ret) {
		zipfi_fence_end(placeholder);
		zipfi_rec_put(placeholder);
	}
	return ret;
}

static unsigned zipfi_send_flags(const struct zipfi_out *out, bool copy, bool force)
{
	unsigned flags = 0;

	if (out->kind == FI_TAGGED)
		flags |= ZIPC_SEND_TAGGED;
	if (out->flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_COMMIT_COMPLETE))
		flags |= ZIPC_SEND_DELIVERY;
	if (copy)
		flags |= ZIPC_SEND_COPY;
	if (force)
		flags |= ZIPC_SEND_FORCE;
	return flags;
}

/* Returns 1 + reason when the message is to go to the core as it is, 0 when a transfer was started, else an error. */
static ssize_t zipfi_try_transfer(struct zipfi_ep *ep, struct zipfi_out *out, bool copy, bool force)
{
	struct zipfi_rec *rec = NULL, *placeholder = NULL;
	struct zipfi_addr addr;
	struct zipc_send *send;
	int ret;

	if (zipfi_av_lookup_main(ep->av, out->dest, &addr) || out->niov > ZIPFI_IOV_MAX)
		return 1 + ZIPC_RAW_PEER;
	rec = zipfi_out_rec(ep, out);
	placeholder = rec ? zipfi_rec_get(ep) : NULL;
	if (!placeholder) {
		ret = ZIPC_ERR_AGAIN;
		goto out_recs;
	}
	rec->kind = ZIPFI_REC_XFER;
	rec->report = rec->report && !(copy && !out->context);
	rec->done = (struct fi_cq_tagged_entry){.flags = out->kind | FI_SEND, .len = out->total, .tag = out->tag};
	zipfi_lock(ep->domain, &ep->lock);
	if (ep->order_raw && !force) {
		ret = 1 + ZIPC_RAW_OFF;
	} else {
		out->peer = zipfi_peer(ep, &addr);
		ret = zipc_send_begin_on(ep->engine, out->dev ? out->dev->accel : NULL, out->peer, out->iov, out->niov, out->total,
					 out->tag, zipfi_send_flags(out, copy, force), rec, &send,
					 (struct zipc_placeholder_v1 *)placeholder->bounce);
	}
	zipfi_unlock(ep->domain, &ep->lock);
	if (!ret) {
		ssize_t posted = zipfi_start_transfer(ep, out, send, placeholder);

		if (posted)
			zipfi_rec_put(rec);
		return posted;
	}
out_recs:
	if (placeholder)
		zipfi_rec_put(placeholder);
	if (rec)
		zipfi_rec_put(rec);
	return ret == ZIPC_ERR_AGAIN ? -FI_EAGAIN : ret;
}

/*
 * An application's own message that could be taken for a placeholder must not arrive as such. A tagged one cannot where a bit
 * of the tag says what it is.
 */
static bool zipfi_must_escape(const struct zipfi_ep *ep, const struct zipfi_out *out)
{
	uint8_t head[ZIPC_PLACEHOLDER_BYTES];

	if ((out->kind == FI_TAGGED && ep->zbit) || out->total != ZIPC_PLACEHOLDER_BYTES)
		return false;
	/* What a device holds is not looked at: it may be one. Where it passes through host memory it is looked at there. */
	if (out->dev)
		return out->dev->direct && !(out->flags & FI_INJECT);
	zipfi_iov_head(out->iov, out->niov, head, sizeof(head));
	return zipc_looks_like_placeholder(head, sizeof(head));
}

static bool zipfi_is_candidate(const struct zipfi_ep *ep, size_t total)
{
	return ep->engine && (total >= zipfi_param.min_size || total == ZIPC_PLACEHOLDER_BYTES);
}

static ssize_t zipfi_offer(struct zipfi_ep *ep, struct zipfi_out *out)
{
	bool escape = zipfi_must_escape(ep, out);
	bool inject = out->flags & FI_INJECT;

	if (!escape && (out->total < zipfi_param.min_size || inject))
		return 1;
	return zipfi_try_transfer(ep, out, (inject || escape) && !out->dev, escape);
}

/* ---- msg calls */

static ssize_t zipfi_core_sendmsg(struct zipfi_ep *ep, const struct zipfi_out *out, struct zipfi_rec *rec)
{
	uint64_t flags = out->flags | FI_COMPLETION;

	if (out->kind == FI_TAGGED) {
		const struct fi_msg_tagged msg = {
			.msg_iov = out->iov, .desc = out->desc, .iov_count = out->niov, .addr = out->dest, .tag = out->tag,
			.context = rec, .data = out->data,
		};

		return fi_tsendmsg(ep->core, &msg, flags);
	}
	const struct fi_msg msg = {
		.msg_iov = out->iov, .desc = out->desc, .iov_count = out->niov, .addr = out->dest, .context = rec,
		.data = out->data,
	};

	return fi_sendmsg(ep->core, &msg, flags);
}

void zipfi_count_raw(struct zipfi_ep *ep, struct zipc_peer *peer, enum zipc_raw_reason reason, size_t nbytes)
{
	zipfi_lock(ep->domain, &ep->lock);
	if (ep->engine)
		zipc_engine_count_raw(ep->engine, peer, reason, nbytes);
	zipfi_unlock(ep->domain, &ep->lock);
}

/* Where the memory is, and whether the message has to wait for one before it. */
static int zipfi_send_memory(struct zipfi_ep *ep, struct zipfi_out *out)
{
	int ret = zipfi_hmem_find(ep, out->iov, out->niov, &out->dev);

	if (ret || !zipfi_is_holding(ep->hmem))
		return ret;
	/* Those that are copied first line up themselves. */
	if (out->dev && !out->dev->direct && (out->total < zipfi_param.min_size || !ep->engine))
		return 0;
	zipfi_ep_progress(ep, NULL);
	return zipfi_is_holding(ep->hmem) ? -FI_EAGAIN : 0;
}

ssize_t zipfi_send_any(struct zipfi_ep *ep, struct zipfi_out *out)
{
	struct zipfi_rec *rec;
	ssize_t ret, raw = 1 + ZIPC_RAW_SMALL;

	if (out->defaults)
		out->flags |= ep->tx_flags;
	if ((out->flags & FI_FENCE) && zipfi_fence(ep, out->dest))
		return -FI_EAGAIN;
	out->total = zipfi_iov_total(out->iov, out->niov);
	if (ep->hmem && !out->landing) {
		ret = zipfi_send_memory(ep, out);
		if (ret)
			return ret;
	}
	if (zipfi_is_candidate(ep, out->total)) {
		raw = zipfi_offer(ep, out);
		if (raw <= 0)
			return raw;
	}
	if (out->dev && !out->dev->direct) {
		ret = zipfi_bounce_send(ep, out, out->flags & FI_INJECT);
		if (!ret && raw != 1 + ZIPC_RAW_SMALL)
			zipfi_count_raw(ep, out->peer, (enum zipc_raw_reason)(raw - 1), out->total);
		return ret;
	}
	rec = zipfi_out_rec(ep, out);
	if (!rec)
		return -FI_EAGAIN;
	if (out->flags & FI_FENCE)
		zipfi_fence_begin(rec);
	ret = zipfi_core_sendmsg(ep, out, rec);
	if (ret)
		zipfi_fence_end(rec);
	if (ret)
		zipfi_rec_put(rec);
	else if (raw != 1 + ZIPC_RAW_SMALL)
		zipfi_count_raw(ep, out->peer, (enum zipc_raw_reason)(raw - 1), out->total);
	return ret;
}

static ssize_t zipfi_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct zipfi_out out = {
		.iov = msg->msg_iov, .desc = msg->desc, .niov = msg->iov_count, .dest = msg->addr, .data = msg->data,
		.flags = flags, .kind = FI_MSG, .context = msg->context,
	};

	return zipfi_send_any(zipfi_ep_of(fid), &out);
}

static ssize_t zipfi_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct zipfi_out out = {
		.iov = msg->msg_iov, .desc = msg->desc, .niov = msg->iov_count, .dest = msg->addr, .tag = msg->tag,
		.data = msg->data, .flags = flags, .kind = FI_TAGGED, .context = msg->context,
	};

	return zipfi_send_any(zipfi_ep_of(fid), &out);
}

/* ---- plain calls */

/* Everything but the shortest way. */
static ssize_t zipfi_send_slow(struct zipfi_ep *ep, const struct iovec *iov, void **desc, size_t niov, uint64_t data,
			       uint64_t flags, fi_addr_t dest, uint64_t tag, uint64_t kind, void *context)
{
	struct zipfi_out out = {
		.iov = iov, .desc = desc, .niov = niov, .dest = dest, .tag = tag, .data = data, .flags = flags, .kind = kind,
		.context = context, .defaults = true,
	};

	return zipfi_send_any(ep, &out);
}

static ssize_t zipfi_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	struct zipfi_ep *ep = zipfi_ep_of(fid);
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct zipfi_rec *rec;
	ssize_t ret;

	if (zipfi_is_candidate(ep, len) || ep->hmem)
		return zipfi_send_slow(ep, &iov, &desc, 1, 0, 0, dest, 0, FI_MSG, context);
	rec = zipfi_send_rec(ep, context, FI_MSG, ep->tx_flags);
	if (!rec)
		return -FI_EAGAIN;
	ret = ep->core->msg->send(ep->core, buf, len, desc, dest, rec);
	if (ret)
		zipfi_rec_put(rec);
	return ret;
}

static ssize_t zipfi_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t tag,
			   void *context)
{
	struct zipfi_ep *ep = zipfi_ep_of(fid);
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct zipfi_rec *rec;
	ssize_t ret;

	if (zipfi_is_candidate(ep, len) || ep->hmem)
		return zipfi_send_slow(ep, &iov, &desc, 1, 0, 0, dest, tag, FI_TAGGED, context);
	rec = zipfi_send_rec(ep, context, FI_TAGGED, ep->tx_flags);
	if (!rec)
		return -FI_EAGAIN;
	ret = ep->core->tagged->send(ep->core, buf, len, desc, dest, tag, rec);
	if (ret)
		zipfi_rec_put(rec);
	return ret;
}

static ssize_t zipfi_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, void *context)
{
	return zipfi_send_slow(zipfi_ep_of(fid), iov, desc, count, 0, 0, dest, 0, FI_MSG, context);
}

static ssize_t zipfi_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
			    uint64_t tag, void *context)
{
	return zipfi_send_slow(zipfi_ep_of(fid), iov, desc, count, 0, 0, dest, tag, FI_TAGGED, context);
}

static ssize_t zipfi_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			      void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	return zipfi_send_slow(zipfi_ep_of(fid), &iov, &desc, 1, data, FI_REMOTE_CQ_DATA, dest, 0, FI_MSG, context);
}

static ssize_t zipfi_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t tag, void *context)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	return zipfi_send_slow(zipfi_ep_of(fid), &iov, &desc, 1, data, FI_REMOTE_CQ_DATA, dest, tag, FI_TAGGED, context);
}

/* ---- inject: no completion, so no record; counted here */

static ssize_t zipfi_injected(struct zipfi_ep *ep, ssize_t ret)
{
	if (!ret && ep->tx_cntr) {
		atomic_fetch_add(&ep->tx_cntr->success, 1);
		zipfi_wait_signal(&ep->tx_cntr->wait);
	}
	return ret;
}

/* Returns 1 if the message can go to the core: it is in host memory, or the core reads it itself. */
static ssize_t zipfi_inject_memory(struct zipfi_ep *ep, struct zipfi_out *out)
{
	int ret = zipfi_send_memory(ep, out);

	if (ret || !out->dev || out->dev->direct)
		return ret ? ret : 1;
	out->flags |= FI_INJECT;
	out->silent = true;
	return zipfi_bounce_send(ep, out, true);
}

/* Returns 1 unless the message had to be escaped, or is on a device. */
static ssize_t zipfi_inject_escape(struct zipfi_ep *ep, const void *buf, size_t len, uint64_t data, uint64_t flags, fi_addr_t dest,
				   uint64_t tag, uint64_t kind)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct zipfi_out out = {
		.iov = &iov, .niov = 1, .total = len, .dest = dest, .data = data, .flags = flags, .tag = tag, .kind = kind,
	};
	ssize_t ret = ep->hmem ? zipfi_inject_memory(ep, &out) : 1;

	if (ret <= 0)
		return ret;
	return ep->engine && zipfi_must_escape(ep, &out) ? zipfi_try_transfer(ep, &out, true, true) : 1;
}

static bool zipfi_inject_is_odd(const struct zipfi_ep *ep, size_t len)
{
	return len == ZIPC_PLACEHOLDER_BYTES || ep->hmem;
}

static ssize_t zipfi_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	struct zipfi_ep *ep = zipfi_ep_of(fid);
	ssize_t ret = zipfi_inject_is_odd(ep, len) ? zipfi_inject_escape(ep, buf, len, 0, 0, dest, 0, FI_MSG) : 1;

	return ret <= 0 ? ret : zipfi_injected(ep, fi_inject(ep->core, buf, len, dest));
}

static ssize_t zipfi_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
	struct zipfi_ep *ep = zipfi_ep_of(fid);
	ssize_t ret = 1;

	if (zipfi_inject_is_odd(ep, len))
		ret = zipfi_inject_escape(ep, buf, len, data, FI_REMOTE_CQ_DATA, dest, 0, FI_MSG);

	return ret <= 0 ? ret : zipfi_injected(ep, fi_injectdata(ep->core, buf, len, data, dest));
}

static ssize_t zipfi_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest, uint64_t tag)
{
	struct zipfi_ep *ep = zipfi_ep_of(fid);
	ssize_t ret = zipfi_inject_is_odd(ep, len) ? zipfi_inject_escape(ep, buf, len, 0, 0, dest, tag, FI_TAGGED) : 1;

	return ret <= 0 ? ret : zipfi_injected(ep, ep->core->tagged->inject(ep->core, buf, len, dest, tag));
}

static ssize_t zipfi_tinjectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag)
{
	struct zipfi_ep *ep = zipfi_ep_of(fid);
	ssize_t ret = 1;

	if (zipfi_inject_is_odd(ep, len))
		ret = zipfi_inject_escape(ep, buf, len, data, FI_REMOTE_CQ_DATA, dest, tag, FI_TAGGED);
	return ret <= 0 ? ret : zipfi_injected(ep, fi_tinjectdata(ep->core, buf, len, data, dest, tag));
}

struct fi_ops_msg zipfi_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = zipfi_recv,
	.recvv = zipfi_recvv,
	.recvmsg = zipfi_recvmsg,
	.send = zipfi_send,
	.sendv = zipfi_sendv,
	.sendmsg = zipfi_sendmsg,
	.inject = zipfi_inject,
	.senddata = zipfi_senddata,
	.injectdata = zipfi_injectdata,
};

struct fi_ops_tagged zipfi_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = zipfi_trecv,
	.recvv = zipfi_trecvv,
	.recvmsg = zipfi_trecvmsg,
	.send = zipfi_tsend,
	.sendv = zipfi_tsendv,
	.sendmsg = zipfi_tsendmsg,
	.inject = zipfi_tinject,
	.senddata = zipfi_tsenddata,
	.injectdata = zipfi_tinjectdata,
};
