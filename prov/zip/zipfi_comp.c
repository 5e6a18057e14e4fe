/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The companion: a core endpoint of our own beside the application's, and the engine's network on it.
 *
 * Control messages are untagged and pass through buffers of ours, those for receiving kept posted; chunks are tagged
 * and land where the engine has posted a receive. Every context the core is given here is a struct zipc_op.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zipfi_hmem.h"

/* Kinds of struct zipc_op that the engine does not know. */
#define ZIPFI_OP_CONTROL_RECV 100
#define ZIPFI_OP_CONTROL_SEND 101
#define ZIPFI_COMP_CQ 4096
#define ZIPFI_LINGER_MS 2000
/* A core may take it ill when a peer speaks to an endpoint that is closed (shm 1.17 crashes in one process): worth some waiting. */
#define ZIPFI_LAST_WORDS_MS 200

struct zipfi_ctl_buf {
	struct zipc_op op;        /* first */
	struct zipc_op *engine_op; /* sending: whose message it is */
	struct zipc_list link;
	uint8_t msg[(ZIPC_CONTROL_MAX + 63) / 64 * 64];
};

/* ---- the engine's network */

static int zipfi_net_status(ssize_t ret)
{
	if (!ret)
		return 0;
	return ret == -FI_EAGAIN ? ZIPC_ERR_AGAIN : ZIPC_ERR_NET;
}

static int zipfi_net_addr_insert(void *net, const void *addr, size_t len, zipc_addr_t *handle)
{
	struct zipfi_ep *ep = net;
	/* Aligned, and nothing but zeros behind it, whatever the peer has said. */
	_Alignas(16) uint8_t copy[ZIPC_ADDR_MAX + 16] = {0};
	fi_addr_t fi_addr;

	memcpy(copy, addr, len);
	/* The peer says how long its address is: the core will not ask, so it must be what this format has. */
	if (zipfi_addr_size(ep->domain->addr_format, copy) != len || fi_av_insert(ep->comp_av, copy, 1, &fi_addr, 0, NULL) != 1)
		return ZIPC_ERR_NET;
	*handle = fi_addr;
	return 0;
}

static void zipfi_net_addr_remove(void *net, zipc_addr_t handle)
{
	struct zipfi_ep *ep = net;
	fi_addr_t fi_addr = handle;

	fi_av_remove(ep->comp_av, &fi_addr, 1, 0);
}

/* The memory descriptor for staging memory, where the core wants one. */
static void *zipfi_net_desc(struct zipfi_ep *ep, const void *buf)
{
	int i;

	for (i = 0; i < ZIPFI_STAGES; i++)
		if (ep->stage_mr[i] && (const char *)buf >= ep->stage_base[i] &&
		    (const char *)buf < ep->stage_base[i] + ep->stage_len[i])
			return fi_mr_desc(ep->stage_mr[i]);
	return ep->hmem ? zipfi_hmem_desc(ep, buf) : NULL;
}

static int zipfi_net_send_control(void *net, zipc_addr_t peer, const void *msg, size_t len, struct zipc_op *op)
{
	struct zipfi_ep *ep = net;
	struct zipc_list *entry = zipc_list_pop(&ep->ctl_free);
	struct zipfi_ctl_buf *buf;
	ssize_t ret;

	if (!entry)
		return ZIPC_ERR_AGAIN;
	buf = zipfi_of(entry, zipfi_ctl_buf, link);
	buf->engine_op = op;
	memcpy(buf->msg, msg, len);
	ret = fi_send(ep->comp, buf->msg, len, ep->ctl_mr ? fi_mr_desc(ep->ctl_mr) : NULL, peer, &buf->op);
	if (ret)
		zipc_list_append(&ep->ctl_free, &buf->link);
	return zipfi_net_status(ret);
}

static int zipfi_net_send_bulk(void *net, zipc_addr_t peer, uint64_t tag, const void *buf, size_t len, struct zipc_op *op)
{
	struct zipfi_ep *ep = net;

	return zipfi_net_status(fi_tsend(ep->comp, buf, len, zipfi_net_desc(ep, buf), peer, tag, op));
}

static int zipfi_net_recv_bulk(void *net, zipc_addr_t peer, uint64_t tag, void *buf, size_t len, struct zipc_op *op)
{
	struct zipfi_ep *ep = net;
	/* Only the peer of the transfer may answer, if the core can tell. */
	fi_addr_t src = ep->comp_info->caps & FI_DIRECTED_RECV ? peer : FI_ADDR_UNSPEC;

	return zipfi_net_status(fi_trecv(ep->comp, buf, len, zipfi_net_desc(ep, buf), src, tag, 0, op));
}

static void zipfi_net_cancel_recv(void *net, struct zipc_op *op)
{
	struct zipfi_ep *ep = net;

	fi_cancel(&ep->comp->fid, op);
}

static uint64_t zipfi_net_key(const void *base)
{
	return (uint64_t)(uintptr_t)base;
}

static int zipfi_net_stage_register(void *net, void *base, size_t len)
{
	struct zipfi_ep *ep = net;
	int i = 0;

	while (i < ZIPFI_STAGES - 1 && ep->stage_base[i])
		i++;
	ep->stage_base[i] = base;
	ep->stage_len[i] = len;
	if (!(ep->domain->mr_mode & FI_MR_LOCAL))
		return 0;
	return fi_mr_reg(ep->domain->core, base, len, FI_SEND | FI_RECV, 0, zipfi_net_key(base), 0, &ep->stage_mr[i], NULL)
		       ? ZIPC_ERR_NOMEM
		       : 0;
}

static const struct zipc_net_ops zipfi_net_ops = {
	.addr_insert = zipfi_net_addr_insert,
	.addr_remove = zipfi_net_addr_remove,
	.send_control = zipfi_net_send_control,
	.send_bulk = zipfi_net_send_bulk,
	.recv_bulk = zipfi_net_recv_bulk,
	.cancel_recv = zipfi_net_cancel_recv,
	.stage_register = zipfi_net_stage_register,
};

/* ---- events of the companion */

static int zipfi_ctl_post(struct zipfi_ep *ep, struct zipfi_ctl_buf *buf)
{
	ssize_t ret;

	ret = fi_recv(ep->comp, buf->msg, sizeof(buf->msg), ep->ctl_mr ? fi_mr_desc(ep->ctl_mr) : NULL, FI_ADDR_UNSPEC, &buf->op);
	if (ret && ret != -FI_EAGAIN)
		ZIPFI_WARN(EP_CTRL, "a buffer for control messages could not be posted: %s\n", fi_strerror((int)-ret));
	return (int)ret;
}

static void zipfi_comp_event(struct zipfi_ep *ep, struct zipc_op *op, int status, size_t bytes)
{
	struct zipfi_ctl_buf *buf;

	switch (op->kind) {
	case ZIPFI_OP_CONTROL_RECV:
		buf = zipfi_of(op, zipfi_ctl_buf, op);
		if (!status)
			zipc_engine_control(ep->engine, buf->msg, bytes);
		if (zipfi_ctl_post(ep, buf) == -FI_EAGAIN)
			zipc_list_append(&ep->ctl_repost, &buf->link);
		break;
	case ZIPFI_OP_CONTROL_SEND:
		buf = zipfi_of(op, zipfi_ctl_buf, op);
		zipc_list_append(&ep->ctl_free, &buf->link);
		zipc_engine_op_done(ep->engine, buf->engine_op, status, 0);
		break;
	default:
		zipc_engine_op_done(ep->engine, op, status, bytes);
		break;
	}
}

static void zipfi_comp_error(struct zipfi_ep *ep)
{
	union {
		struct fi_cq_err_entry err;
		uint8_t room[256];
	} entry;
	struct zipc_op *op;

	memset(&entry, 0, sizeof(entry));
	if (fi_cq_readerr(ep->comp_cq, &entry.err, 0) <= 0 || !entry.err.op_context)
		return;
	op = entry.err.op_context;
	if (entry.err.err != FI_ECANCELED)
		ZIPFI_INFO(EP_DATA, "companion: %s\n", fi_strerror(entry.err.err));
	zipfi_comp_event(ep, op, entry.err.err == FI_ECANCELED ? ZIPC_ERR_CANCELED : ZIPC_ERR_NET, 0);
}

static int zipfi_comp_read(struct zipfi_ep *ep)
{
	struct fi_cq_tagged_entry entries[ZIPFI_CQ_BATCH];
	ssize_t i, n = ep->comp_cq->ops->read(ep->comp_cq, entries, ZIPFI_CQ_BATCH);

	for (i = 0; i < n; i++)
		zipfi_comp_event(ep, entries[i].op_context, 0, entries[i].len);
	if (n == -FI_EAVAIL)
		zipfi_comp_error(ep);
	return n > 0 || n == -FI_EAVAIL;
}

static void zipfi_comp_repost(struct zipfi_ep *ep)
{
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(&ep->ctl_repost))) {
		struct zipfi_ctl_buf *buf = zipfi_of(entry, zipfi_ctl_buf, link);

		if (zipfi_ctl_post(ep, buf) != -FI_EAGAIN)
			continue;
		zipc_list_append(&ep->ctl_repost, &buf->link);
		return;
	}
}

void zipfi_comp_progress(struct zipfi_ep *ep)
{
	bool work;

	zipfi_comp_read(ep);
	zipfi_beacon_poll(ep, false);
	if (!zipc_list_empty(&ep->ctl_repost))
		zipfi_comp_repost(ep);
	work = zipc_engine_progress(ep->engine);
	if (ep->hmem)
		work |= zipfi_copies_progress(ep);
	if (ep->paged)
		zipfi_page_update(ep);
	if (!zipc_list_empty(&ep->peeks)) {
		zipfi_peek_progress(ep);
		work = true;
	}
	atomic_store_explicit(&ep->work, work, memory_order_relaxed);
	zipfi_ep_set_busy(ep, zipc_engine_busy(ep->engine) || work);
}

void zipfi_comp_linger(struct zipfi_ep *ep)
{
	uint64_t start = zipc_now_ms();
	uint64_t patience;
	enum zipc_leaving leaving;

	do {
		zipfi_lock(ep->domain, &ep->lock);
		leaving = ep->engine ? zipc_engine_leave(ep->engine) : ZIPC_LEAVING_DONE;
		zipfi_unlock(ep->domain, &ep->lock);
		if (leaving == ZIPC_LEAVING_DONE && ep->hmem && zipfi_is_holding(ep->hmem))
			leaving = ZIPC_LEAVING_FLUSHING;
		patience = leaving == ZIPC_LEAVING_FLUSHING ? ZIPFI_LINGER_MS : ZIPFI_LAST_WORDS_MS;
		/* Who has the last word may be an endpoint of this very domain, which nobody else drives meanwhile. */
		if (leaving != ZIPC_LEAVING_DONE)
			zipfi_domain_round(ep->domain);
	} while (leaving != ZIPC_LEAVING_DONE && zipc_now_ms() - start < patience);
}

void zipfi_ep_greet(struct zipfi_ep *ep, const struct zipfi_addr *addr)
{
	zipfi_lock(ep->domain, &ep->lock);
	if (ep->engine) {
		if (addr->comp_len)
			zipc_peer_meet(ep->engine, addr->main, addr->main_len, addr->comp, addr->comp_len);
		else
			zipfi_beacon_announce(ep, addr);
		zipfi_comp_progress(ep);
	}
	zipfi_unlock(ep->domain, &ep->lock);
}

/* ---- life */

static struct fi_info *zipfi_comp_make_info(struct zipfi_ep *ep)
{
	struct fi_info *info = fi_dupinfo(ep->info);
	uint64_t caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV;
	uint8_t addr[ZIPC_ADDR_MAX];
	size_t len;

	if (!info)
		return NULL;
	caps |= info->caps & (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV);
	info->caps = caps;
	info->tx_attr->caps = caps & (FI_MSG | FI_TAGGED | FI_SEND);
	info->rx_attr->caps = caps & (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV);
	info->tx_attr->msg_order = info->rx_attr->msg_order = FI_ORDER_SAS;
	info->tx_attr->op_flags = info->rx_attr->op_flags = 0;
	free(info->dest_addr);
	info->dest_addr = NULL;
	info->dest_addrlen = 0;
	if (ep->domain->addr_format != FI_ADDR_STR && info->src_addr &&
	    !zipfi_addr_companion(ep->domain->addr_format, info->src_addr, info->src_addrlen, addr, &len))
		memcpy(info->src_addr, addr, len);
	return info;
}

static int zipfi_comp_open_objects(struct zipfi_ep *ep)
{
	struct fi_cq_attr cq_attr = {.size = ZIPFI_COMP_CQ, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	/* A domain that was asked for tables or maps opens no other: Open MPI asks for maps. */
	enum fi_av_type type = ep->info->domain_attr->av_type;
	struct fi_av_attr av_attr = {.type = type == FI_AV_UNSPEC ? FI_AV_TABLE : type};
	struct fid_domain *core = ep->domain->core;
	uint8_t name[ZIPC_ADDR_MAX];
	size_t len;
	int ret;

	if ((ep->tx_cq && ep->tx_cq->wait.epfd >= 0) || (ep->rx_cq && ep->rx_cq->wait.epfd >= 0))
		cq_attr.wait_obj = FI_WAIT_FD;
	ep->comp_has_fd = cq_attr.wait_obj == FI_WAIT_FD;
	ep->comp_info = zipfi_comp_make_info(ep);
	if (!ep->comp_info)
		return -FI_ENOMEM;
	ret = fi_cq_open(core, &cq_attr, &ep->comp_cq, NULL);
	if (ret)
		return ret;
	ret = fi_av_open(core, &av_attr, &ep->comp_av, NULL);
	if (ret)
		return ret;
	ret = fi_endpoint(core, ep->comp_info, &ep->comp, NULL);
	if (ret)
		return ret;
	if (ep->domain->addr_format == FI_ADDR_STR) {
		ret = zipfi_addr_companion(FI_ADDR_STR, ep->name, ep->name_len, name, &len);
		if (!ret)
			ret = fi_setname(&ep->comp->fid, name, len);
		if (ret)
			return ret;
	}
	ret = fi_ep_bind(ep->comp, &ep->comp_av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(ep->comp, &ep->comp_cq->fid, FI_TRANSMIT | FI_RECV);
	return ret ? ret : fi_enable(ep->comp);
}

static int zipfi_comp_post_buffers(struct zipfi_ep *ep)
{
	size_t i, bytes = 2 * ZIPFI_CTL_BUFS * sizeof(*ep->ctl_bufs);
	int ret;

	ep->ctl_bufs = calloc(2 * ZIPFI_CTL_BUFS, sizeof(*ep->ctl_bufs));
	if (!ep->ctl_bufs)
		return -FI_ENOMEM;
	if (ep->domain->mr_mode & FI_MR_LOCAL) {
		ret = fi_mr_reg(ep->domain->core, ep->ctl_bufs, bytes, FI_SEND | FI_RECV, 0, zipfi_net_key(ep->ctl_bufs), 0,
				&ep->ctl_mr, NULL);
		if (ret)
			return ret;
	}
	for (i = 0; i < ZIPFI_CTL_BUFS; i++) {
		struct zipfi_ctl_buf *send = &ep->ctl_bufs[ZIPFI_CTL_BUFS + i];

		send->op.kind = ZIPFI_OP_CONTROL_SEND;
		zipc_list_append(&ep->ctl_free, &send->link);
		ep->ctl_bufs[i].op.kind = ZIPFI_OP_CONTROL_RECV;
		ret = zipfi_ctl_post(ep, &ep->ctl_bufs[i]);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * Whether peers' writes and reads may be transfers. Memory of devices cannot be reached yet; keys that are mapped at the initiator
 * mean nothing here.
 */
static const struct zipc_engine_cb *zipfi_comp_cb(const struct zipfi_ep *ep)
{
	bool rma = zipfi_param.rma && (ep->info->caps & FI_RMA) && !ep->domain->hmem &&
		   !(ep->domain->mr_mode & FI_MR_RAW);

	return rma ? &zipfi_engine_cb : &zipfi_engine_cb_no_rma;
}

static int zipfi_comp_open_engine(struct zipfi_ep *ep)
{
	struct zipc_engine_attr attr = {
		.min_size = zipfi_param.min_size, .chunk = zipfi_param.chunk, .staging = zipfi_param.staging,
		.codec = zipfi_param.codec, .dtype = zipfi_param.dtype, .host = zipfi_param.host,
		.policy = zipfi_param.policy, .verify = zipfi_param.verify, .untagged = !ep->multi_recv,
		.timing = zipfi_param.stats != ZIPFI_STATS_OFF,
	};
	uint8_t comp[2 * ZIPC_ADDR_MAX];
	size_t comp_len = sizeof(comp);
	int ret;

	ret = fi_getname(&ep->comp->fid, comp, &comp_len);
	if (ret)
		return ret;
	attr.main_addr = ep->name;
	attr.main_len = ep->name_len;
	attr.comp_addr = comp;
	attr.comp_len = comp_len;
	ep->dev = zipc_host_open(zipfi_param.chunk, zipfi_param.verify);
	if (!ep->dev)
		return -FI_ENOMEM;
	if (zipc_engine_open(&attr, &zipfi_net_ops, ep, &zipc_host_ops, ep->dev, zipfi_comp_cb(ep), ep, &ep->engine))
		return -FI_ENOMEM;
	if (zipfi_addr_mark(ep->domain->addr_format, ep->name, ep->name_len, comp, comp_len) &&
	    zipfi_beacon_open(ep, comp, comp_len))
		ZIPFI_INFO(EP_CTRL, "no way to tell peers of the companion in this address format\n");
	return 0;
}

static void zipfi_comp_wait(struct zipfi_ep *ep)
{
	struct zipfi_cq *cqs[2] = {ep->tx_cq, ep->rx_cq};
	int i;

	for (i = 0; i < 2; i++) {
		if (!cqs[i])
			continue;
		zipfi_wait_add(&cqs[i]->wait, &ep->comp_cq->fid);
		zipfi_wait_add_fd(&cqs[i]->wait, ep->beacon_fd);
		/* What arrives on the other queue may be a placeholder, which this one's sleeper has to see. */
		if (cqs[1 - i] && cqs[1 - i] != cqs[i])
			zipfi_wait_add(&cqs[i]->wait, &cqs[1 - i]->core->fid);
	}
}

int zipfi_comp_open(struct zipfi_ep *ep)
{
	int ret;

	zipc_list_init(&ep->ctl_free);
	zipc_list_init(&ep->ctl_repost);
	ep->beacon_fd = -1;
	if (!ep->av || !ep->name_len || !(ep->info->caps & (FI_MSG | FI_TAGGED | FI_RMA)))
		return -FI_ENOSYS;
	ret = zipfi_comp_open_objects(ep);
	if (ret)
		ZIPFI_INFO(EP_CTRL, "the companion's endpoint could not be opened: %s\n", fi_strerror(-ret));
	if (!ret)
		ret = zipfi_comp_open_engine(ep);
	if (!ret)
		ret = zipfi_comp_post_buffers(ep);
	if (ret) {
		zipfi_comp_close(ep);
		return ret;
	}
	zipfi_page_attach(ep);
	zipfi_comp_wait(ep);
	return 0;
}

void zipfi_comp_close(struct zipfi_ep *ep)
{
	int i;

	zipfi_page_detach(ep);
	zipfi_beacon_close(ep);
	if (ep->comp)
		fi_close(&ep->comp->fid);
	/* Nothing is reported any more: what the engine holds can go. */
	if (ep->comp_cq) {
		for (i = 0; i < 2; i++) {
			struct zipfi_cq *cq = i ? ep->rx_cq : ep->tx_cq;

			if (cq)
				zipfi_wait_remove(&cq->wait, &ep->comp_cq->fid);
		}
		fi_close(&ep->comp_cq->fid);
		ep->comp_cq = NULL;
	}
	zipc_engine_close(ep->engine);
	ep->engine = NULL;
	zipfi_accesses_close(ep);
	if (ep->comp_av)
		fi_close(&ep->comp_av->fid);
	for (i = 0; i < ZIPFI_STAGES; i++)
		if (ep->stage_mr[i])
			fi_close(&ep->stage_mr[i]->fid);
	if (ep->ctl_mr)
		fi_close(&ep->ctl_mr->fid);
	free(ep->ctl_bufs);
	zipc_host_close(ep->dev);
	fi_freeinfo(ep->comp_info);
	ep->comp = NULL;
	ep->comp_av = NULL;
	ep->ctl_mr = NULL;
	memset(ep->stage_mr, 0, sizeof(ep->stage_mr));
	memset(ep->stage_base, 0, sizeof(ep->stage_base));
	ep->ctl_bufs = NULL;
	ep->dev = NULL;
	ep->comp_info = NULL;
}
