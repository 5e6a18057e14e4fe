/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoint: life, binding, names, options, progress. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fi_ext_zip.h"
#include "zipfi_hmem.h"
#include "zipfi_no.h"

#define ZIPFI_SETTLE_ROUNDS 1024
/* FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES, which libfabric 1.17 does not know: whole lines of a write are polled for. */
#define ZIPFI_OPT_WRITE_IN_ORDER (-(0xefa << 16) + 6)
/* FI_OPT_CUDA_API_PERMITTED, which it does not know either. */
#define ZIPFI_OPT_CUDA_API_PERMITTED 10

/* ---- progress */

void zipfi_ep_set_busy(struct zipfi_ep *ep, bool busy)
{
	atomic_store_explicit(&ep->busy, busy, memory_order_relaxed);
	if (!busy)
		return; /* each CQ finds that out when it next looks */
	if (ep->tx_cq)
		atomic_store_explicit(&ep->tx_cq->busy, true, memory_order_relaxed);
	if (ep->rx_cq)
		atomic_store_explicit(&ep->rx_cq->busy, true, memory_order_relaxed);
}

static void zipfi_ep_drain(struct zipfi_ep *ep, const struct zipfi_cq *except)
{
	if (ep->tx_cq && ep->tx_cq != except)
		zipfi_cq_drain(ep->tx_cq->core, ep->tx_cq, ZIPFI_CQ_BATCH);
	if (ep->rx_cq && ep->rx_cq != except && ep->rx_cq != ep->tx_cq)
		zipfi_cq_drain(ep->rx_cq->core, ep->rx_cq, ZIPFI_CQ_BATCH);
	if (ep->tx_hidden)
		zipfi_cq_drain(ep->tx_hidden, NULL, ZIPFI_CQ_BATCH);
	if (ep->rx_hidden)
		zipfi_cq_drain(ep->rx_hidden, NULL, ZIPFI_CQ_BATCH);
}

/* Without an engine there is nothing else that keeps an endpoint busy. */
static void zipfi_copies_alone(struct zipfi_ep *ep)
{
	bool work = zipfi_copies_progress(ep);

	atomic_store_explicit(&ep->work, work, memory_order_relaxed);
	zipfi_ep_set_busy(ep, work);
}

void zipfi_ep_progress(struct zipfi_ep *ep, const struct zipfi_cq *except)
{
	if (!ep->enabled)
		return;
	zipfi_ep_drain(ep, except);
	if (ep->hmem)
		zipfi_held_progress(ep);
	if ((!ep->engine && !ep->hmem) || !zipfi_trylock(ep->domain, &ep->lock))
		return;
	if (ep->engine) /* another thread may be closing the endpoint */
		zipfi_comp_progress(ep);
	else if (ep->hmem)
		zipfi_copies_alone(ep);
	zipfi_unlock(ep->domain, &ep->lock);
}

static int zipfi_core_trywait(struct zipfi_fabric *fabric, struct fid *core)
{
	int ret = core ? fi_trywait(fabric->core, &core, 1) : 0;

	return ret == -FI_EAGAIN ? ret : 0;
}

/* Agreement of one endpoint that a thread sleeps. */
static int zipfi_ep_trywait(struct zipfi_fabric *fabric, struct zipfi_ep *ep)
{
	int ret = 0;

	zipfi_ep_progress(ep, NULL);
	if (ep->beacon_fd >= 0 && zipfi_trylock(ep->domain, &ep->lock)) {
		if (ep->engine)
			zipfi_beacon_poll(ep, true); /* it would wake the sleeper again at once */
		zipfi_unlock(ep->domain, &ep->lock);
	}
	if (atomic_load(&ep->work))
		return -FI_EAGAIN;
	/* Only of queues that were opened to be waited on: a core does not look whether there is something to ask. */
	if (ep->tx_cq && ep->tx_cq->wait.epfd >= 0)
		ret |= zipfi_core_trywait(fabric, &ep->tx_cq->core->fid);
	if (ep->rx_cq && ep->rx_cq != ep->tx_cq && ep->rx_cq->wait.epfd >= 0)
		ret |= zipfi_core_trywait(fabric, &ep->rx_cq->core->fid);
	if (ep->comp_cq && ep->comp_has_fd)
		ret |= zipfi_core_trywait(fabric, &ep->comp_cq->fid);
	return ret ? -FI_EAGAIN : 0;
}

int zipfi_may_sleep(struct zipfi_fabric *fabric, struct zipfi_wait *wait, struct zipfi_domain *domain,
		    struct zipfi_ep **const *eps, const size_t *neps, pthread_mutex_t *ep_lock, struct fid *core, atomic_uint *nready, atomic_uint *nerrors)
{
	size_t i;
	int ret = 0;

	zipfi_lock(domain, ep_lock);
	for (i = 0; i < *neps && !ret; i++)
		ret = zipfi_ep_trywait(fabric, (*eps)[i]);
	zipfi_unlock(domain, ep_lock);
	if (!ret && wait->epfd >= 0)
		ret = zipfi_core_trywait(fabric, core);
	if ((nready && atomic_load(nready)) || (nerrors && atomic_load(nerrors)) || atomic_load(&wait->signaled))
		ret = -FI_EAGAIN;
	return ret;
}

/* ---- binding and enabling */

static int zipfi_bind_cq(struct zipfi_ep *ep, struct zipfi_cq *cq, uint64_t flags)
{
	int ret;

	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
		return -FI_EBADFLAGS;
	if ((flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	/* Every operation reports to us; what the application wants to see is decided here. */
	ret = fi_ep_bind(ep->core, &cq->core->fid, flags & ~FI_SELECTIVE_COMPLETION);
	if (!ret)
		ret = zipfi_cq_attach(cq, ep);
	if (ret)
		return ret;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = !!(flags & FI_SELECTIVE_COMPLETION);
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = !!(flags & FI_SELECTIVE_COMPLETION);
	}
	return 0;
}

static int zipfi_bind_cntr(struct zipfi_ep *ep, struct zipfi_cntr *cntr, uint64_t flags)
{
	uint64_t core_flags = flags & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
	int ret = core_flags ? fi_ep_bind(ep->core, &cntr->core->fid, core_flags) : 0;

	if (!ret)
		ret = zipfi_cntr_attach(cntr, ep);
	if (ret)
		return ret;
	if (flags & FI_SEND)
		ep->tx_cntr = cntr;
	if (flags & FI_RECV)
		ep->rx_cntr = cntr;
	if (flags & FI_WRITE)
		ep->wr_cntr = cntr;
	if (flags & FI_READ)
		ep->rd_cntr = cntr;
	if (flags & FI_REMOTE_WRITE)
		ep->remote_wr_cntr = cntr;
	if (flags & FI_REMOTE_READ)
		ep->remote_rd_cntr = cntr;
	return 0;
}

static int zipfi_bind_av(struct zipfi_ep *ep, struct zipfi_av *av, uint64_t flags)
{
	int ret;

	if (ep->av)
		return -FI_EINVAL;
	ret = fi_ep_bind(ep->core, &av->core->fid, flags);
	if (!ret)
		ret = zipfi_av_attach(av, ep);
	if (!ret)
		ep->av = av;
	return ret;
}

static int zipfi_ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);

	switch (bfid->fclass) {
	case FI_CLASS_CQ:
		return zipfi_bind_cq(ep, zipfi_of(bfid, zipfi_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return zipfi_bind_cntr(ep, zipfi_of(bfid, zipfi_cntr, fid.fid), flags);
	case FI_CLASS_AV:
		return zipfi_bind_av(ep, zipfi_of(bfid, zipfi_av, fid.fid), flags);
	case FI_CLASS_EQ:
		return fi_ep_bind(ep->core, zipfi_eq_core(ep->domain->fabric, bfid), flags);
	default:
		return -FI_EINVAL;
	}
}

/* Where only a counter is bound, completions still have to be seen. */
static int zipfi_bind_hidden(struct zipfi_ep *ep, uint64_t flags, size_t size, struct fid_cq **hidden)
{
	struct fi_cq_attr attr = {.size = size, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	int ret = fi_cq_open(ep->domain->core, &attr, hidden, NULL);

	return ret ? ret : fi_ep_bind(ep->core, &(*hidden)->fid, flags);
}

static void zipfi_ep_name(struct zipfi_ep *ep)
{
	ep->name_len = sizeof(ep->name);
	if (fi_getname(&ep->core->fid, ep->name, &ep->name_len))
		ep->name_len = 0;
}

static int zipfi_enable(struct zipfi_ep *ep)
{
	int ret = 0;

	if (ep->enabled)
		return 0;
	if (!ep->tx_cq && (ep->tx_cntr || ep->wr_cntr || ep->rd_cntr))
		ret = zipfi_bind_hidden(ep, FI_TRANSMIT, ep->info->tx_attr->size, &ep->tx_hidden);
	if (!ret && !ep->rx_cq && ep->rx_cntr)
		ret = zipfi_bind_hidden(ep, FI_RECV, ep->info->rx_attr->size, &ep->rx_hidden);
	if (!ret)
		ret = zipfi_recs_open(ep);
	if (!ret)
		ret = fi_enable(ep->core);
	if (ret)
		return ret;
	zipfi_ep_name(ep);
	if (zipfi_comp_open(ep))
		ZIPFI_INFO(EP_CTRL, "no companion over this core: messages go to it as they are\n");
	ret = zipfi_ep_hmem_open(ep);
	if (ret)
		return ret;
	ep->enabled = true;
	if (ep->engine)
		zipfi_av_greet_all(ep->av, ep);
	return zipfi_domain_start_thread(ep->domain);
}

static int zipfi_ep_control(struct fid *fid, int command, void *arg)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);

	switch (command) {
	case FI_ENABLE:
		return zipfi_enable(ep);
	case FI_GETOPSFLAG:
		*(uint64_t *)arg = *(uint64_t *)arg & FI_TRANSMIT ? ep->tx_flags : ep->rx_flags;
		return 0;
	case FI_SETOPSFLAG:
		if (*(uint64_t *)arg & FI_TRANSMIT)
			ep->tx_flags = *(uint64_t *)arg & ~(FI_TRANSMIT | FI_RECV);
		else if (*(uint64_t *)arg & FI_RECV)
			ep->rx_flags = *(uint64_t *)arg & ~(FI_TRANSMIT | FI_RECV);
		else
			return -FI_EINVAL;
		return fi_control(&ep->core->fid, command, arg);
	case FI_ALIAS:
		return -FI_ENOSYS;
	default:
		return fi_control(&ep->core->fid, command, arg);
	}
}

/* ---- names and options */

static int zipfi_getname(struct fid *fid, void *addr, size_t *len)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);
	size_t room = *len;

	if (!ep->enabled || !ep->name_len)
		return fi_getname(&ep->core->fid, addr, len);
	*len = ep->name_len;
	memcpy(addr, ep->name, room < ep->name_len ? room : ep->name_len);
	return room < ep->name_len ? -FI_ETOOSMALL : 0;
}

static int zipfi_setname(struct fid *fid, void *addr, size_t len)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);
	struct zipfi_addr plain;

	if (ep->enabled)
		return -FI_EBUSY;
	if (zipfi_addr_split(ep->domain->addr_format, addr, len, &plain))
		return -FI_EINVAL;
	return fi_setname(&ep->core->fid, plain.main, plain.main_len);
}

static int zipfi_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
	return fi_getopt(&zipfi_of(fid, zipfi_ep, fid.fid)->core->fid, level, name, value, len);
}

static int zipfi_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);
	int ret;

	if (level == FI_OPT_ENDPOINT && name == ZIPFI_OPT_CUDA_API_PERMITTED && ep->domain->hmem) {
		ret = len == sizeof(bool) ? zipfi_hmem_permit(ep, *(const bool *)value) : -FI_EINVAL;
		/* A core that will not promise it does not get to see device memory. */
		ep->core_blind = !ret && ep->cuda_forbidden && fi_setopt(&ep->core->fid, level, name, value, len);
		return ret;
	}
	ret = fi_setopt(&ep->core->fid, level, name, value, len);
	if (!ret && level == FI_OPT_ENDPOINT && name == ZIPFI_OPT_WRITE_IN_ORDER && len >= sizeof(bool))
		ep->in_order = *(const bool *)value;
	return ret;
}

/* Callers of these do not look whether they are there. */
static ssize_t zipfi_rx_size_left(struct fid_ep *fid)
{
	return fi_rx_size_left(zipfi_of(fid, zipfi_ep, fid)->core);
}

static ssize_t zipfi_tx_size_left(struct fid_ep *fid)
{
	return fi_tx_size_left(zipfi_of(fid, zipfi_ep, fid)->core);
}

struct fi_ops_ep zipfi_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = zipfi_cancel,
	.getopt = zipfi_getopt,
	.setopt = zipfi_setopt,
	.tx_ctx = zipfi_no_tx_ctx,
	.rx_ctx = zipfi_no_rx_ctx,
	.rx_size_left = zipfi_rx_size_left,
	.tx_size_left = zipfi_tx_size_left,
};

struct fi_ops_cm zipfi_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = zipfi_setname,
	.getname = zipfi_getname,
	.getpeer = zipfi_no_getpeer,
	.connect = zipfi_no_connect,
	.listen = zipfi_no_listen,
	.accept = zipfi_no_accept,
	.reject = zipfi_no_reject,
	.shutdown = zipfi_no_shutdown,
	.join = zipfi_no_join,
};

/* ---- life */

void zipfi_ep_free(struct zipfi_ep *ep)
{
	if (ep->hmem) {
		free(ep->hmem->helds);
		free(ep->hmem);
	}
	if (ep->recs)
		munmap(ep->recs, ep->recs_bytes);
	pthread_spin_destroy(&ep->rec_lock);
	pthread_mutex_destroy(&ep->lock);
	fi_freeinfo(ep->info);
	free(ep);
}

static int zipfi_read_stats(struct fid *fid, struct fi_zip_stats *stats, size_t len)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);
	struct fi_zip_stats out;
	struct zipc_stats st = {0};
	size_t device_bytes, pinned_bytes;

	if (!ep->enabled)
		return -FI_EOPNOTSUPP;
	zipfi_lock(ep->domain, &ep->lock);
	if (ep->engine)
		zipc_engine_stats(ep->engine, &st);
	zipfi_hmem_memory(ep, &device_bytes, &pinned_bytes);
	zipfi_unlock(ep->domain, &ep->lock);
	out = (struct fi_zip_stats){
		.send_transfers = st.sends, .send_bytes = st.send_bytes, .send_wire_bytes = st.wire_bytes,
		.recv_transfers = st.recvs, .recv_bytes = st.recv_bytes, .recv_wire_bytes = st.recv_wire_bytes,
		.raw_peer = st.raw[ZIPC_RAW_PEER], .raw_data = st.raw[ZIPC_RAW_DATA], .raw_off = st.raw[ZIPC_RAW_OFF],
		.raw_slow = st.raw[ZIPC_RAW_SLOW], .errors = st.errors, .staging_bytes = st.staging_bytes,
		.peers_ready = st.peers_ready, .sample_ns = st.sample_ns, .encode_ns = st.encode_ns, .wire_ns = st.wire_ns,
		.decode_ns = st.decode_ns, .device_bytes = device_bytes, .pinned_bytes = pinned_bytes,
	};
	memcpy(stats, &out, len < sizeof(out) ? len : sizeof(out));
	return 0;
}

static struct fi_zip_ops zipfi_zip_ops = {
	.size = sizeof(struct fi_zip_ops),
	.read_stats = zipfi_read_stats,
};

static void zipfi_ep_unbind(struct zipfi_ep *ep)
{
	struct zipfi_cntr *cntrs[] = {ep->tx_cntr, ep->rx_cntr, ep->wr_cntr, ep->rd_cntr, ep->remote_wr_cntr, ep->remote_rd_cntr};
	size_t i;

	if (ep->tx_cq)
		zipfi_cq_detach(ep->tx_cq, ep);
	if (ep->rx_cq && ep->rx_cq != ep->tx_cq)
		zipfi_cq_detach(ep->rx_cq, ep);
	for (i = 0; i < sizeof(cntrs) / sizeof(*cntrs); i++)
		if (cntrs[i])
			zipfi_cntr_detach(cntrs[i], ep); /* harmless where it was already */
	if (ep->av)
		zipfi_av_detach(ep->av, ep);
}

/* What has arrived already is the application's, however soon it closes. */
static void zipfi_ep_settle(struct zipfi_ep *ep)
{
	struct zipfi_cq *cqs[2] = {ep->tx_cq, ep->rx_cq};
	int i, rounds;

	for (i = 0; i < 2; i++)
		for (rounds = 0; cqs[i] && rounds < ZIPFI_SETTLE_ROUNDS; rounds++)
			if (!zipfi_cq_drain(cqs[i]->core, cqs[i], ZIPFI_CQ_BATCH))
				break;
}

static int zipfi_ep_close(struct fid *fid)
{
	struct zipfi_ep *ep = zipfi_of(fid, zipfi_ep, fid.fid);
	struct zipfi_domain *domain = ep->domain;
	int ret;

	zipfi_comp_linger(ep);
	/* From here on neither the thread nor a reader of a CQ finds the endpoint. */
	pthread_mutex_lock(&domain->lock);
	zipc_list_remove(&ep->domain_link);
	pthread_mutex_unlock(&domain->lock);
	zipfi_ep_unbind(ep);
	zipfi_ep_settle(ep);
	zipfi_lock(domain, &ep->lock);
	zipfi_comp_close(ep);
	zipfi_ep_hmem_close(ep);
	zipfi_unlock(domain, &ep->lock);
	if (ep->tx_cq)
		zipfi_cq_disown(ep->tx_cq, ep);
	if (ep->rx_cq && ep->rx_cq != ep->tx_cq)
		zipfi_cq_disown(ep->rx_cq, ep);
	ep->closed = true;
	ep->enabled = false;
	ret = fi_close(&ep->core->fid);
	if (ep->tx_hidden)
		fi_close(&ep->tx_hidden->fid);
	if (ep->rx_hidden)
		fi_close(&ep->rx_hidden->fid);
	if (ep->recs_mr)
		fi_close(&ep->recs_mr->fid);
	if (ep->hmem)
		zipfi_landings_close(ep);
	/* The core's CQ may still name our records: they stay until the domain goes. */
	pthread_mutex_lock(&domain->lock);
	zipc_list_append(&domain->graveyard, &ep->domain_link);
	pthread_mutex_unlock(&domain->lock);
	return ret;
}

/* Only our own set: what another does with a wrapped fid is unknown. */
static int zipfi_ep_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid;
	(void)context;
	if (flags || strcmp(name, FI_ZIP_OPS))
		return -FI_ENOSYS;
	*ops = &zipfi_zip_ops;
	return 0;
}

static struct fi_ops zipfi_ep_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_ep_close,
	.bind = zipfi_ep_bind,
	.control = zipfi_ep_control,
	.ops_open = zipfi_ep_ops_open,
};

/*
 * The shm of libfabric 1.17 never finds an unexpected message by a tag of which some bits are to be ignored, unless these are
 * equal all the same.
 */
static bool zipfi_ignore_is_broken(const struct zipfi_domain *domain)
{
	return !strcmp(domain->fabric->core_name, "shm") && FI_VERSION_LT(fi_version(), FI_VERSION(1, 19));
}

/* Orders in which a write or read takes part: kept by the core alone. */
static void zipfi_ep_init_rma(struct zipfi_ep *ep, const struct fi_info *info)
{
	uint64_t asked = (info->tx_attr->msg_order | info->rx_attr->msg_order) & ZIPFI_ORDER_RMA;

	if (zipfi_param.relaxed)
		asked = 0;
	ep->rma_raw = !zipfi_param.rma || (ep->domain->mr_mode & FI_MR_RAW) || asked;
	if ((info->caps & FI_RMA) && zipfi_param.rma && asked)
		ZIPFI_INFO(EP_CTRL, "message order %#llx was asked for: writes and reads of this endpoint go to the core as they are\n",
			   (unsigned long long)asked);
}

static void zipfi_ep_init(struct zipfi_ep *ep, const struct fi_info *info, void *context)
{
	uint64_t rest;

	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &zipfi_ep_fi_ops;
	ep->fid.ops = &zipfi_ep_ops;
	ep->fid.cm = &zipfi_cm_ops;
	ep->fid.msg = &zipfi_msg_ops;
	ep->fid.tagged = &zipfi_tagged_ops;
	ep->fid.rma = &zipfi_rma_ops;
	ep->fid.atomic = &zipfi_atomic_ops;
	ep->fid.collective = &zipfi_collective_ops;
	ep->tx_flags = info->tx_attr->op_flags;
	ep->rx_flags = info->rx_attr->op_flags;
	ep->order_raw = !zipfi_param.relaxed && (info->tx_attr->msg_order & (FI_ORDER_RAS | FI_ORDER_WAS)) && (info->caps & FI_RMA);
	zipfi_ep_init_rma(ep, info);
	ep->multi_recv = !!((info->caps | info->rx_attr->caps) & FI_MULTI_RECV);
	/* The format that we gave out has lost its top bit; that bit is ours. */
	if (info->ep_attr->mem_tag_format < 1ULL << 16)
		ep->zbit = zipfi_tag_bit(0, &rest);
	else
		ep->zbit = zipfi_tag_bit(info->ep_attr->mem_tag_format, &rest) << 1;
	if (!ep->zbit)
		ep->zbit = 1ULL << 63;
	if (ep->domain->fabric->hooked || zipfi_ignore_is_broken(ep->domain))
		ep->zbit = 0;
	pthread_spin_init(&ep->rec_lock, PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_init(&ep->lock, NULL);
	zipc_list_init(&ep->free_recs);
	zipc_list_init(&ep->peeks);
	zipc_list_init(&ep->accesses);
	zipc_list_init(&ep->free_accesses);
	zipc_list_init(&ep->domain_link);
}

/* Names that the core makes up get their mark before anybody has seen them. */
static void zipfi_ep_rename(struct zipfi_ep *ep)
{
	char name[2 * ZIPC_ADDR_MAX];
	size_t len = sizeof(name);

	if (fi_getname(&ep->core->fid, name, &len) || zipfi_addr_rename(ep->domain->addr_format, name, &len, ZIPC_ADDR_MAX))
		return;
	if (fi_setname(&ep->core->fid, name, len))
		ZIPFI_INFO(EP_CTRL, "the core keeps its own name: peers do not find the companion\n");
}

int zipfi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep_p, void *context)
{
	struct zipfi_domain *domain = zipfi_of(fid, zipfi_domain, fid);
	struct zipfi_ep *ep = calloc(1, sizeof(*ep));
	int ret;

	if (!ep)
		return -FI_ENOMEM;
	ep->domain = domain;
	ep->beacon_fd = -1;
	ep->info = zipfi_core_info(info, domain->fabric);
	if (!ep->info) {
		free(ep);
		return -FI_ENOMEM;
	}
	if (!domain->core_hmem)
		zipfi_strip_hmem(ep->info);
	zipfi_ep_init(ep, info, context);
	/* All operations complete towards us. */
	ep->info->tx_attr->op_flags &= ~FI_COMPLETION;
	ep->info->rx_attr->op_flags &= ~FI_COMPLETION;
	ret = fi_endpoint(domain->core, ep->info, &ep->core, ep);
	if (ret) {
		zipfi_ep_free(ep);
		return ret;
	}
	zipfi_ep_rename(ep);
	pthread_mutex_lock(&domain->lock);
	zipc_list_append(&domain->eps, &ep->domain_link);
	pthread_mutex_unlock(&domain->lock);
	*ep_p = &ep->fid;
	return 0;
}
