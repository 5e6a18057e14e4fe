/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_msg and fi_tagged: receiving. A receive goes to the core as it is, but for the tag bit that it ignores; what arrives
 * is either the message or a placeholder, which the engine then matches with the same buffers.
 */
#include <string.h>

#include "zipfi_hmem.h"

#define ZIPFI_PEEK_MS 1000 /* a control record follows its placeholder; after this long the peer is taken for gone */

struct zipfi_in {
	const struct iovec *iov;
	void **desc;
	size_t niov;
	fi_addr_t src;
	uint64_t tag, ignore, flags, kind;
	void *context;
	bool defaults;
};

static struct zipfi_ep *zipfi_ep_of(struct fid_ep *fid)
{
	return zipfi_of(fid, zipfi_ep, fid);
}

/* ---- posting */

/* What the core gets: the start of a message goes to the record, the rest to the application's buffers. */
struct zipfi_spread {
	struct iovec iov[ZIPFI_IOV_MAX + 1];
	void *desc[ZIPFI_IOV_MAX + 1];
	size_t niov;
};

static void zipfi_spread_fill(const struct zipfi_ep *ep, struct zipfi_rec *rec, void **desc, struct zipfi_spread *spread)
{
	size_t i, skip = sizeof(rec->bounce);

	spread->iov[0] = (struct iovec){rec->bounce, sizeof(rec->bounce)};
	spread->desc[0] = ep->recs_desc;
	spread->niov = 1;
	for (i = 0; i < rec->niov; i++) {
		if (rec->iov[i].iov_len <= skip) {
			skip -= rec->iov[i].iov_len;
			continue;
		}
		spread->iov[spread->niov].iov_base = (char *)rec->iov[i].iov_base + skip;
		spread->iov[spread->niov].iov_len = rec->iov[i].iov_len - skip;
		spread->desc[spread->niov++] = desc ? desc[i] : NULL;
		skip = 0;
	}
}

/* A message of any kind fits there whole, or else would not fit the buffers. */
static void zipfi_spread_landing(struct zipfi_rec *rec, struct zipfi_spread *spread)
{
	size_t bytes = rec->total < sizeof(rec->bounce) ? sizeof(rec->bounce) : rec->total;

	spread->iov[0] = (struct iovec){rec->landing->memory, bytes};
	spread->desc[0] = zipfi_landing_desc(rec->landing);
	spread->niov = 1;
}

static ssize_t zipfi_core_recv(struct zipfi_ep *ep, const struct zipfi_in *in, struct zipfi_rec *rec)
{
	uint64_t flags = in->flags | FI_COMPLETION;
	bool instead = rec->bounced || rec->landing;
	struct zipfi_spread spread;

	if (rec->landing)
		zipfi_spread_landing(rec, &spread);
	else if (rec->bounced)
		zipfi_spread_fill(ep, rec, in->desc, &spread);
	if (in->kind == FI_TAGGED) {
		const struct fi_msg_tagged msg = {
			.msg_iov = instead ? spread.iov : in->iov, .desc = instead ? spread.desc : in->desc,
			.iov_count = instead ? spread.niov : in->niov, .addr = in->src, .tag = in->tag,
			.ignore = in->ignore | (ep->engine ? ep->zbit : 0), .context = rec,
		};

		return fi_trecvmsg(ep->core, &msg, flags);
	}
	const struct fi_msg msg = {
		.msg_iov = instead ? spread.iov : in->iov, .desc = instead ? spread.desc : in->desc,
		.iov_count = instead ? spread.niov : in->niov, .addr = in->src, .context = rec,
	};

	return fi_recvmsg(ep->core, &msg, flags);
}

static void zipfi_recv_fill(struct zipfi_ep *ep, struct zipfi_rec *rec, const struct zipfi_in *in)
{
	size_t i;

	rec->kind = in->flags & FI_MULTI_RECV ? ZIPFI_REC_MULTI : ZIPFI_REC_RECV;
	rec->context = in->context;
	rec->op_flags = in->kind | FI_RECV;
	rec->report = !ep->rx_selective || (in->flags & FI_COMPLETION);
	rec->discard = !!(in->flags & FI_DISCARD);
	rec->niov = (uint8_t)in->niov;
	rec->total = 0;
	for (i = 0; i < in->niov; i++) {
		rec->iov[i] = in->iov[i];
		rec->total += in->iov[i].iov_len;
	}
	/*
	 * A placeholder must arrive whole however short the buffer is, and be there when it is looked at: an application
	 * may post several receives with one buffer.
	 */
	rec->bounced = ep->engine && rec->kind == ZIPFI_REC_RECV && !rec->discard &&
		       (rec->total <= sizeof(rec->bounce) || in->niov < ep->info->rx_attr->iov_limit);
}

/* Where the buffers are; those of a device that the core cannot write to get a landing. */
static int zipfi_recv_memory(struct zipfi_ep *ep, struct zipfi_rec *rec, const struct zipfi_in *in)
{
	int ret = zipfi_hmem_find(ep, in->iov, in->niov, &rec->dev);

	if (ret || !rec->dev)
		return ret;
	/* A placeholder must be readable. */
	if (rec->dev->direct && (rec->bounced || rec->kind == ZIPFI_REC_MULTI || rec->discard))
		return 0;
	rec->bounced = false;
	if (rec->kind == ZIPFI_REC_MULTI) {
		ZIPFI_WARN(EP_DATA, "this core has no multi-receive buffers in device memory\n");
		return -FI_EOPNOTSUPP;
	}
	rec->landing = zipfi_landing_get(ep, rec->total < sizeof(rec->bounce) ? sizeof(rec->bounce) : rec->total);
	return rec->landing ? 0 : -FI_ENOMEM;
}

/* The core has not taken the receive. */
static void zipfi_recv_undo(struct zipfi_ep *ep, struct zipfi_rec *rec)
{
	if (rec->landing)
		zipfi_landing_put(ep, rec->landing, 0);
	rec->landing = NULL;
}

/* The record of a message that was claimed with this context. */
static struct zipfi_rec *zipfi_find_claimed(struct zipfi_ep *ep, const void *context)
{
	size_t i;

	for (i = 0; i < ep->recs_used; i++)
		if (ep->recs[i].busy && ep->recs[i].kind == ZIPFI_REC_CLAIMED && ep->recs[i].context == context)
			return &ep->recs[i];
	return NULL;
}

static ssize_t zipfi_recv_claimed(struct zipfi_ep *ep, const struct zipfi_in *in)
{
	struct zipfi_rec *rec = zipfi_find_claimed(ep, in->context);
	struct zipc_recv *claimed;
	ssize_t ret;

	if (!rec)
		return -FI_EINVAL;
	claimed = rec->claimed;
	zipfi_recv_fill(ep, rec, in);
	rec->err = 0;
	ret = ep->hmem ? zipfi_recv_memory(ep, rec, in) : 0;
	if (!ret)
		ret = zipfi_core_recv(ep, in, rec);
	if (ret) {
		zipfi_recv_undo(ep, rec);
		rec->kind = ZIPFI_REC_CLAIMED;
		return ret;
	}
	if (rec->discard && claimed) {
		zipfi_lock(ep->domain, &ep->lock);
		zipc_recv_drop(claimed);
		zipfi_comp_progress(ep);
		zipfi_unlock(ep->domain, &ep->lock);
	}
	return 0;
}

static ssize_t zipfi_recv_any(struct zipfi_ep *ep, struct zipfi_in *in)
{
	struct zipfi_rec *rec;
	ssize_t ret;

	if (in->niov > ZIPFI_IOV_MAX)
		return -FI_EINVAL;
	if (in->defaults)
		in->flags |= ep->rx_flags;
	if ((in->flags & FI_MULTI_RECV) && ep->engine && !ep->multi_recv)
		return -FI_EOPNOTSUPP; /* not among the capabilities of this endpoint */
	if ((in->flags & FI_CLAIM) && !(in->flags & FI_PEEK))
		return zipfi_recv_claimed(ep, in);
	/* ofi_rxm before 1.18 does not say how long a message was that it has thrown away: without a tag bit nothing tells a placeholder. */
	if ((in->flags & FI_PEEK) && (in->flags & FI_DISCARD) && ep->domain->fabric->hooked && FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)))
		return -FI_EOPNOTSUPP;
	rec = zipfi_rec_get(ep);
	if (!rec)
		return -FI_EAGAIN;
	zipfi_recv_fill(ep, rec, in);
	if (in->flags & FI_PEEK) {
		rec->kind = ZIPFI_REC_PEEK;
		rec->bounced = false;
		rec->op_flags |= in->flags & (FI_CLAIM | FI_DISCARD);
		rec->src = ep->info->caps & FI_DIRECTED_RECV ? in->src : FI_ADDR_UNSPEC;
	}
	ret = ep->hmem && rec->kind != ZIPFI_REC_PEEK ? zipfi_recv_memory(ep, rec, in) : 0;
	if (!ret)
		ret = zipfi_core_recv(ep, in, rec);
	if (ret) {
		zipfi_recv_undo(ep, rec);
		zipfi_rec_put(rec);
	}
	return ret;
}

/* The shortest way, for one buffer and the endpoint's own flags. */
static ssize_t zipfi_recv_one(struct zipfi_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag,
			      uint64_t ignore, uint64_t kind, void *context)
{
	const struct iovec iov = {buf, len};
	struct zipfi_in in = {
		.iov = &iov, .desc = &desc, .niov = 1, .src = src, .tag = tag, .ignore = ignore, .kind = kind,
		.context = context, .flags = ep->rx_flags,
	};
	struct zipfi_rec *rec;
	ssize_t ret;

	if ((ep->rx_flags & FI_MULTI_RECV) || ep->hmem)
		return zipfi_recv_any(ep, &in);
	rec = zipfi_rec_get(ep);
	if (!rec)
		return -FI_EAGAIN;
	zipfi_recv_fill(ep, rec, &in);
	if (rec->bounced && rec->total > sizeof(rec->bounce)) {
		struct zipfi_spread spread;

		zipfi_spread_fill(ep, rec, in.desc, &spread);
		if (kind == FI_TAGGED)
			ret = ep->core->tagged->recvv(ep->core, spread.iov, spread.desc, spread.niov, src, tag, ignore | ep->zbit, rec);
		else
			ret = ep->core->msg->recvv(ep->core, spread.iov, spread.desc, spread.niov, src, rec);
	} else {
		if (rec->bounced) {
			buf = rec->bounce;
			len = sizeof(rec->bounce);
			desc = ep->recs_desc;
		}
		if (kind == FI_TAGGED)
			ret = ep->core->tagged->recv(ep->core, buf, len, desc, src, tag, ignore | (ep->engine ? ep->zbit : 0), rec);
		else
			ret = ep->core->msg->recv(ep->core, buf, len, desc, src, rec);
	}
	if (ret)
		zipfi_rec_put(rec);
	return ret;
}

ssize_t zipfi_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	return zipfi_recv_one(zipfi_ep_of(fid), buf, len, desc, src, 0, 0, FI_MSG, context);
}

ssize_t zipfi_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
		    void *context)
{
	return zipfi_recv_one(zipfi_ep_of(fid), buf, len, desc, src, tag, ignore, FI_TAGGED, context);
}

ssize_t zipfi_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, void *context)
{
	struct zipfi_in in = {
		.iov = iov, .desc = desc, .niov = count, .src = src, .kind = FI_MSG, .context = context, .defaults = true,
	};

	return zipfi_recv_any(zipfi_ep_of(fid), &in);
}

ssize_t zipfi_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t tag,
		     uint64_t ignore, void *context)
{
	struct zipfi_in in = {
		.iov = iov, .desc = desc, .niov = count, .src = src, .tag = tag, .ignore = ignore, .kind = FI_TAGGED,
		.context = context, .defaults = true,
	};

	return zipfi_recv_any(zipfi_ep_of(fid), &in);
}

ssize_t zipfi_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct zipfi_in in = {
		.iov = msg->msg_iov, .desc = msg->desc, .niov = msg->iov_count, .src = msg->addr, .flags = flags,
		.kind = FI_MSG, .context = msg->context,
	};

	return zipfi_recv_any(zipfi_ep_of(fid), &in);
}

ssize_t zipfi_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct zipfi_in in = {
		.iov = msg->msg_iov, .desc = msg->desc, .niov = msg->iov_count, .src = msg->addr, .tag = msg->tag,
		.ignore = msg->ignore, .flags = flags, .kind = FI_TAGGED, .context = msg->context,
	};

	return zipfi_recv_any(zipfi_ep_of(fid), &in);
}

ssize_t zipfi_cancel(fid_t fid, void *context)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);
	size_t i;

	/* What has met its placeholder already is under way, and no longer to be had back. */
	for (i = 0; i < ep->recs_used; i++) {
		struct zipfi_rec *rec = &ep->recs[i];

		if (rec->busy && rec->context == context && (rec->kind == ZIPFI_REC_RECV || rec->kind == ZIPFI_REC_MULTI))
			return fi_cancel(&ep->core->fid, rec);
	}
	return -FI_ENOENT;
}

/* ---- arriving */

void zipfi_rec_fail(struct zipfi_rec *rec, int err)
{
	rec->err = err;
	rec->prov_errno = -err;
	rec->olen = 0;
	zipfi_complete(rec, false);
}

/* Copies the start of a message from the record to the application's buffers. */
static void zipfi_unbounce_head(struct zipfi_rec *rec, size_t head)
{
	size_t i, n, at = 0;

	for (i = 0; i < rec->niov && at < head; i++) {
		n = rec->iov[i].iov_len < head - at ? rec->iov[i].iov_len : head - at;
		memcpy(rec->iov[i].iov_base, rec->bounce + at, n);
		at += n;
	}
}

/* What the core did not put into the buffers itself goes there; what does not fit them is truncation. Completes the receive. */
static void zipfi_unbounce(struct zipfi_rec *rec, size_t len)
{
	size_t fit = len < rec->total ? len : rec->total, head = fit < sizeof(rec->bounce) ? fit : sizeof(rec->bounce);

	rec->done.len = fit;
	if (len > rec->total) {
		rec->prov_errno = rec->err ? rec->prov_errno : FI_ETRUNC;
		rec->err = FI_ETRUNC;
		rec->olen = len - rec->total;
	}
	if (rec->landing) {
		zipfi_bounce_recv(rec, rec->landing->memory, fit);
	} else if (rec->dev) {
		zipfi_bounce_recv(rec, rec->bounce, head);
	} else {
		zipfi_unbounce_head(rec, head);
		zipfi_complete(rec, false);
	}
}

static bool zipfi_gather_placeholder(const struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, uint8_t *head)
{
	size_t i, n, at = 0;

	if (rec->ep->zbit && (entry->flags & FI_TAGGED) && !(entry->tag & rec->ep->zbit))
		return false;
	/* No peer sends untagged ones to an endpoint that does not welcome them: a message that looks like one is the application's. */
	if (rec->ep->multi_recv && (rec->op_flags & FI_MSG))
		return false;
	if (rec->bounced || rec->landing) {
		memcpy(head, rec->landing ? (uint8_t *)rec->landing->memory : rec->bounce, ZIPC_PLACEHOLDER_BYTES);
		return zipc_looks_like_placeholder(head, ZIPC_PLACEHOLDER_BYTES);
	}
	for (i = 0; i < rec->niov && at < ZIPC_PLACEHOLDER_BYTES; i++) {
		n = ZIPC_PLACEHOLDER_BYTES - at < rec->iov[i].iov_len ? ZIPC_PLACEHOLDER_BYTES - at : rec->iov[i].iov_len;
		memcpy(head + at, rec->iov[i].iov_base, n);
		at += n;
	}
	return at == ZIPC_PLACEHOLDER_BYTES && zipc_looks_like_placeholder(head, ZIPC_PLACEHOLDER_BYTES);
}

/* Hands a placeholder to the engine. Returns false if it is none after all. */
static bool zipfi_match(struct zipfi_rec *rec, const uint8_t *placeholder)
{
	struct zipfi_ep *ep = rec->ep;
	bool mine;
	int ret = 0;

	zipfi_lock(ep->domain, &ep->lock);
	mine = ep->engine && zipc_is_placeholder(ep->engine, placeholder, ZIPC_PLACEHOLDER_BYTES);
	if (mine) {
		rec->kind = ZIPFI_REC_XFER;
		rec->done.tag &= ~ep->zbit;
		zipfi_recv_undo(ep, rec); /* the landing has served */
		ret = zipc_recv_match_on(ep->engine, rec->dev ? rec->dev->accel : NULL, placeholder, rec->iov, rec->niov, rec);
		zipfi_comp_progress(ep);
	}
	zipfi_unlock(ep->domain, &ep->lock);
	if (ret)
		zipfi_rec_fail(rec, zipfi_errno(ret));
	return mine;
}

/* One of several messages in a multi-receive buffer: it gets a record of its own, as the buffer's stays with the core. */
static void zipfi_multi_arrived(struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, fi_addr_t src)
{
	struct zipfi_rec *one = entry->flags & FI_MULTI_RECV ? rec : zipfi_rec_get(rec->ep);

	if (!one) { /* out of records: the message was received, and only its report is in danger */
		ZIPFI_WARN(EP_DATA, "no record left for a message in a multi-receive buffer\n");
		return;
	}
	one->kind = ZIPFI_REC_RECV;
	one->context = rec->context;
	one->op_flags = rec->op_flags;
	one->report = rec->report || (entry->flags & FI_MULTI_RECV);
	one->done = *entry;
	one->src = src;
	zipfi_complete(one, false);
}

void zipfi_recv_arrived(struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, fi_addr_t src)
{
	uint8_t head[ZIPC_PLACEHOLDER_BYTES];

	if (rec->kind == ZIPFI_REC_MULTI) {
		zipfi_multi_arrived(rec, entry, src);
		return;
	}
	rec->done = *entry;
	rec->src = src;
	if (rec->ep->engine && entry->len == ZIPC_PLACEHOLDER_BYTES && !rec->discard &&
	    zipfi_gather_placeholder(rec, entry, head) && zipfi_match(rec, head))
		return;
	if (rec->bounced || rec->landing)
		zipfi_unbounce(rec, entry->len);
	else
		zipfi_complete(rec, false);
}

void zipfi_recv_error(struct zipfi_rec *rec, const struct fi_cq_err_entry *err)
{
	rec->done = (struct fi_cq_tagged_entry){.flags = err->flags, .len = err->len, .buf = err->buf, .data = err->data,
						.tag = rec->ep->engine ? err->tag & ~rec->ep->zbit : err->tag};
	rec->err = err->err < 0 ? -err->err : err->err; /* shm 1.17 gives it negative */
	rec->prov_errno = err->prov_errno;
	rec->olen = err->olen;
	if ((rec->bounced || rec->landing) && rec->err == FI_ETRUNC) {
		/* Where the core had more room than the application gave, the message is measured against that. */
		size_t room = rec->total < sizeof(rec->bounce) ? sizeof(rec->bounce) : rec->total;

		zipfi_unbounce(rec, room + err->olen);
		return;
	}
	zipfi_complete(rec, false);
}

/* ---- peeking */

/* Answers a peek: with `nbytes`, or with an error. */
static void zipfi_peek_done(struct zipfi_rec *rec, size_t nbytes, int err)
{
	rec->done.tag &= ~rec->ep->zbit;
	rec->done.len = nbytes;
	rec->err = err;
	rec->prov_errno = -err;
	rec->olen = 0;
	if (!err && (rec->op_flags & FI_CLAIM) && !(rec->op_flags & FI_DISCARD)) {
		rec->kind = ZIPFI_REC_CLAIMED;
		rec->report = true;
	}
	zipfi_complete(rec, false);
}

/* Looks for the transfer that a found placeholder stands for. Under ep->lock. */
static bool zipfi_peek_try(struct zipfi_rec *rec)
{
	struct zipfi_ep *ep = rec->ep;
	int claim = !!(rec->op_flags & (FI_CLAIM | FI_DISCARD));
	size_t nbytes = 0;

	rec->claimed = zipc_recv_peek(ep->engine, rec->peek_peer, rec->done.tag & ~ep->zbit, claim, &nbytes);
	if (!rec->claimed)
		return false;
	if (rec->op_flags & FI_DISCARD)
		zipc_recv_drop(rec->claimed);
	zipfi_peek_done(rec, nbytes, 0);
	return true;
}

static bool zipfi_peek_may_be_placeholder(const struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry)
{
	const struct zipfi_ep *ep = rec->ep;

	if (!ep->engine || (ep->zbit && !(entry->tag & ep->zbit)))
		return false;
	/* A core that has thrown the message away need not say how long it was. */
	return entry->len == ZIPC_PLACEHOLDER_BYTES || (ep->zbit && (rec->op_flags & FI_DISCARD));
}

void zipfi_peek_arrived(struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, fi_addr_t src)
{
	fi_addr_t from = rec->src == FI_ADDR_UNSPEC ? src : rec->src;
	struct zipfi_ep *ep = rec->ep;
	struct zipfi_addr addr;
	bool known;

	rec->done = *entry;
	rec->src = src;
	rec->claimed = NULL;
	if (!zipfi_peek_may_be_placeholder(rec, entry)) {
		zipfi_peek_done(rec, entry->len, 0);
		return;
	}
	known = from != FI_ADDR_NOTAVAIL && !zipfi_av_lookup_main(ep->av, from, &addr);
	zipfi_lock(ep->domain, &ep->lock);
	rec->peek_peer = known && ep->engine ? zipc_peer_find(ep->engine, addr.main, addr.main_len) : NULL;
	if (ep->engine && !zipfi_peek_try(rec)) {
		rec->deadline_ms = zipc_now_ms() + ZIPFI_PEEK_MS;
		zipc_list_append(&ep->peeks, &rec->link);
		zipfi_ep_set_busy(ep, true);
	}
	zipfi_unlock(ep->domain, &ep->lock);
}

void zipfi_peek_progress(struct zipfi_ep *ep)
{
	struct zipc_list *entry, *next;

	for (entry = ep->peeks.next; entry != &ep->peeks; entry = next) {
		struct zipfi_rec *rec = zipfi_of(entry, zipfi_rec, link);

		next = entry->next;
		zipc_list_remove(entry);
		if (zipfi_peek_try(rec))
			continue;
		if (zipc_now_ms() >= rec->deadline_ms) {
			if (rec->ep->zbit)
				ZIPFI_WARN(EP_DATA, "a peek found a placeholder whose control record did not come\n");
			/* Without the tag bit it is a plain message that happens to be as long. */
			zipfi_peek_done(rec, rec->ep->zbit ? 0 : rec->done.len, rec->ep->zbit ? FI_ENOMSG : 0);
			continue;
		}
		rec->link.prev = next->prev;
		rec->link.next = next;
		next->prev->next = &rec->link;
		next->prev = &rec->link;
	}
}

/* ---- the engine reports */

static void zipfi_send_done(void *ctx, void *cookie, int status)
{
	struct zipfi_rec *rec = cookie;

	(void)ctx;
	rec->err = zipfi_errno(status);
	rec->prov_errno = status;
	rec->olen = 0;
	zipfi_complete(rec, true);
}

static void zipfi_recv_done(void *ctx, void *cookie, int status, size_t kept, size_t nbytes)
{
	struct zipfi_rec *rec = cookie;

	(void)ctx;
	rec->done.len = kept;
	rec->err = zipfi_errno(status);
	rec->prov_errno = status;
	rec->olen = status == ZIPC_ERR_TRUNC ? nbytes - kept : 0;
	zipfi_complete(rec, rec->op_flags & FI_RMA);
}

static void zipfi_engine_log(void *ctx, enum zipc_log_level level, const char *text)
{
	(void)ctx;
	if (level == ZIPC_LOG_WARN)
		ZIPFI_WARN(EP_DATA, "%s\n", text);
	else
		ZIPFI_INFO(EP_DATA, "%s\n", text);
}

const struct zipc_engine_cb zipfi_engine_cb = {
	.send_done = zipfi_send_done,
	.recv_done = zipfi_recv_done,
	.rma_open = zipfi_rma_open,
	.rma_done = zipfi_rma_done,
	.log = zipfi_engine_log,
};

const struct zipc_engine_cb zipfi_engine_cb_no_rma = {
	.send_done = zipfi_send_done,
	.recv_done = zipfi_recv_done,
	.log = zipfi_engine_log,
};
