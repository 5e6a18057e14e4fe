/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queue. The core's CQ below it speaks of records; what it says is turned into the application's completions
 * and parked in order on `ready` or `errors`, linked through the records themselves, until it is read.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "zipfi_hmem.h"
#include "zipfi_no.h"

/* Room for the error entry of a newer libfabric, which is longer than the one this is built with. */
union zipfi_err_room {
	struct fi_cq_err_entry err;
	uint8_t room[256];
};

struct zipfi_cq *zipfi_rec_cq(const struct zipfi_rec *rec, bool is_send)
{
	return is_send ? rec->ep->tx_cq : rec->ep->rx_cq;
}

/* Under cq->lock, or with nobody else about: readers only look, so no locked instruction is needed. */
static void zipfi_count(atomic_uint *count, int step)
{
	unsigned value = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, value + (unsigned)step, memory_order_relaxed);
}

static bool zipfi_is_nth(atomic_uint *count, unsigned n)
{
	zipfi_count(count, 1);
	return atomic_load_explicit(count, memory_order_relaxed) % n == 0;
}

static void zipfi_cq_park(struct zipfi_cq *cq, struct zipfi_rec *rec)
{
	zipfi_spin_lock(cq->domain, &cq->lock);
	zipc_list_append(rec->err ? &cq->errors : &cq->ready, &rec->link);
	zipfi_count(rec->err ? &cq->nerrors : &cq->nready, 1);
	zipfi_spin_unlock(cq->domain, &cq->lock);
	zipfi_wait_signal(&cq->wait);
}

/* The counter of ours that an operation belongs to; raw RMA and atomics are counted by the core's. */
static struct zipfi_cntr *zipfi_rec_cntr(const struct zipfi_rec *rec, bool is_send)
{
	const struct zipfi_ep *ep = rec->ep;

	if (rec->op_flags & (FI_MSG | FI_TAGGED))
		return is_send ? ep->tx_cntr : ep->rx_cntr;
	return rec->op_flags & FI_WRITE ? ep->wr_cntr : rec->op_flags & FI_READ ? ep->rd_cntr : NULL;
}

void zipfi_complete(struct zipfi_rec *rec, bool is_send)
{
	struct zipfi_ep *ep = rec->ep;
	struct zipfi_cq *cq = is_send ? ep->tx_cq : ep->rx_cq;
	struct zipfi_cntr *cntr = zipfi_rec_cntr(rec, is_send);

	rec->done.op_context = rec->context;
	if (rec->landing)
		zipfi_landing_put(ep, rec->landing, is_send ? rec->total : rec->done.len);
	rec->landing = NULL;
	if (cntr) {
		atomic_fetch_add(rec->err ? &cntr->error : &cntr->success, 1);
		zipfi_wait_signal(&cntr->wait);
	}
	if (cq && (rec->report || rec->err))
		zipfi_cq_park(cq, rec);
	else
		zipfi_rec_put(rec);
}

int zipfi_errno(int status)
{
	switch (status) {
	case 0: return 0;
	case ZIPC_ERR_TRUNC: return FI_ETRUNC;
	case ZIPC_ERR_NOMEM: return FI_ENOMEM;
	case ZIPC_ERR_CANCELED: return FI_ECANCELED;
	case ZIPC_ERR_PEER: return FI_ECONNABORTED;
	case ZIPC_ERR_KEY: return FI_EKEYREJECTED;
	case ZIPC_ERR_ACCES: return FI_EACCES;
	case ZIPC_ERR_INVAL: return FI_EINVAL;
	default: return FI_EIO;
	}
}

/* ---- events of the core */

void zipfi_cq_park_copy(struct zipfi_cq *cq, const struct fi_cq_tagged_entry *entry, fi_addr_t src,
			const struct fi_cq_err_entry *err, void *context)
{
	struct zipfi_rec *rec;

	if (!cq)
		return;
	while (!(rec = calloc(1, sizeof(*rec))))
		sched_yield();
	zipc_list_init(&rec->link);
	rec->kind = ZIPFI_REC_REMOTE;
	if (entry)
		rec->done = *entry;
	if (err) {
		rec->done.flags = err->flags;
		rec->done.len = err->len;
		rec->done.buf = err->buf;
		rec->done.data = err->data;
		rec->done.tag = err->tag;
		rec->err = err->err;
		rec->prov_errno = err->prov_errno;
		rec->olen = err->olen;
	}
	rec->done.op_context = context;
	rec->src = src;
	zipfi_cq_park(cq, rec);
}

static bool zipfi_is_remote(uint64_t flags)
{
	return flags & (FI_REMOTE_READ | FI_REMOTE_WRITE);
}

/* An operation of an endpoint that is closed. What was received may be a placeholder, or in parts in the record: it is canceled. */
static void zipfi_event_late(struct zipfi_cq *cq, const struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, fi_addr_t src)
{
	const struct fi_cq_err_entry canceled = {.flags = entry->flags, .err = FI_ECANCELED, .prov_errno = -FI_ECANCELED};

	if (rec->kind == ZIPFI_REC_SEND) {
		if (rec->report)
			zipfi_cq_park_copy(cq, entry, src, NULL, rec->context);
	} else if (rec->kind != ZIPFI_REC_PLACEHOLDER) {
		zipfi_cq_park_copy(cq, NULL, FI_ADDR_NOTAVAIL, &canceled, rec->context);
	}
}

static void zipfi_event(struct zipfi_cq *cq, const struct fi_cq_tagged_entry *entry, fi_addr_t src)
{
	struct zipfi_rec *rec = entry->op_context;

	if (zipfi_is_remote(entry->flags) || !rec) {
		zipfi_cq_park_copy(cq, entry, src, NULL, NULL);
		return;
	}
	if (rec->ep->closed) {
		zipfi_event_late(cq, rec, entry, src);
		return;
	}
	zipfi_fence_end(rec);
	switch (rec->kind) {
	case ZIPFI_REC_SEND:
		rec->done = *entry;
		rec->src = src;
		zipfi_complete(rec, true);
		break;
	case ZIPFI_REC_PLACEHOLDER:
		zipfi_rec_put(rec);
		break;
	case ZIPFI_REC_PEEK:
		zipfi_peek_arrived(rec, entry, src);
		break;
	default:
		zipfi_recv_arrived(rec, entry, src);
		break;
	}
}

static void zipfi_error(struct zipfi_cq *cq, const struct fi_cq_err_entry *err)
{
	struct zipfi_rec *rec = err->op_context;
	struct zipfi_ep *ep;

	if (zipfi_is_remote(err->flags) || !rec || rec->ep->closed) {
		zipfi_cq_park_copy(cq, NULL, FI_ADDR_NOTAVAIL, err,
				   rec && !zipfi_is_remote(err->flags) ? rec->context : NULL);
		return;
	}
	ep = rec->ep;
	zipfi_fence_end(rec);
	switch (rec->kind) {
	case ZIPFI_REC_PLACEHOLDER:
		ZIPFI_WARN(EP_DATA, "a placeholder was not delivered: %s\n", fi_strerror(err->err));
		zipfi_lock(ep->domain, &ep->lock);
		if (ep->engine)
			zipc_send_lost(ep->engine, rec->send_id);
		zipfi_unlock(ep->domain, &ep->lock);
		zipfi_rec_put(rec);
		break;
	case ZIPFI_REC_SEND:
		rec->done = (struct fi_cq_tagged_entry){.flags = err->flags, .len = err->len, .data = err->data, .tag = err->tag};
		rec->err = err->err;
		rec->prov_errno = err->prov_errno;
		rec->olen = err->olen;
		zipfi_complete(rec, true);
		break;
	default:
		zipfi_recv_error(rec, err);
		break;
	}
}

int zipfi_cq_drain(struct fid_cq *core, struct zipfi_cq *cq, size_t count)
{
	struct fi_cq_tagged_entry entries[ZIPFI_CQ_BATCH];
	fi_addr_t src[ZIPFI_CQ_BATCH];
	union zipfi_err_room room;
	ssize_t ret, i;

	if (count > ZIPFI_CQ_BATCH)
		count = ZIPFI_CQ_BATCH;
	if (cq && cq->source)
		ret = core->ops->readfrom(core, entries, count, src);
	else
		ret = core->ops->read(core, entries, count);
	if (ret > 0) {
		for (i = 0; i < ret; i++)
			zipfi_event(cq, &entries[i], cq && cq->source ? src[i] : FI_ADDR_NOTAVAIL);
		return (int)ret;
	}
	if (ret != -FI_EAVAIL)
		return 0;
	memset(&room, 0, sizeof(room));
	if (fi_cq_readerr(core, &room.err, 0) <= 0)
		return 0;
	zipfi_error(cq, &room.err);
	return 1;
}

void zipfi_cq_progress(struct zipfi_cq *cq)
{
	bool busy = false;
	size_t i;

	/* Another thread that is in here moves the same endpoints. */
	if (!zipfi_trylock(cq->domain, &cq->ep_lock))
		return;
	for (i = 0; i < cq->neps; i++) {
		zipfi_ep_progress(cq->eps[i], cq);
		busy |= atomic_load_explicit(&cq->eps[i]->busy, memory_order_relaxed);
	}
	atomic_store_explicit(&cq->busy, busy, memory_order_relaxed);
	zipfi_unlock(cq->domain, &cq->ep_lock);
}

/* ---- the application reads */

static size_t zipfi_cq_entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT: return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
	default: return sizeof(struct fi_cq_tagged_entry);
	}
}

/* Frees the record, unless it stands for a message that was claimed: then it waits for the receive. */
static void zipfi_cq_release(struct zipfi_rec *rec)
{
	if (!rec->ep)
		free(rec);
	else if (rec->kind != ZIPFI_REC_CLAIMED && rec->kind != ZIPFI_REC_MULTI)
		zipfi_rec_put(rec);
}

static struct zipfi_rec *zipfi_cq_pop(struct zipfi_cq *cq, struct zipc_list *list, atomic_uint *count)
{
	struct zipc_list *entry;

	zipfi_spin_lock(cq->domain, &cq->lock);
	entry = zipc_list_pop(list);
	if (entry)
		zipfi_count(count, -1);
	zipfi_spin_unlock(cq->domain, &cq->lock);
	return entry ? zipfi_of(entry, zipfi_rec, link) : NULL;
}

/* Each entry format is a prefix of the tagged one. */
static ssize_t zipfi_cq_take(struct zipfi_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	size_t n = 0, size = zipfi_cq_entry_size(cq->format);
	struct zipfi_rec *rec;

	while (n < count && (rec = zipfi_cq_pop(cq, &cq->ready, &cq->nready))) {
		memcpy((char *)buf + n * size, &rec->done, size);
		if (src)
			src[n] = rec->src;
		n++;
		zipfi_cq_release(rec);
	}
	return (ssize_t)n;
}

static ssize_t zipfi_cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct zipfi_cq *cq = zipfi_of(fid, zipfi_cq, fid);
	ssize_t n;

	if (cq->wait.evfd >= 0)
		zipfi_wait_clear(&cq->wait);
	if (!atomic_load_explicit(&cq->nready, memory_order_relaxed)) {
		zipfi_cq_drain(cq->core, cq, count ? count : 1);
		/* Idle endpoints are looked at now and then, or their peers could not reach them. */
		if (zipfi_is_nth(&cq->reads, ZIPFI_IDLE_READS) || atomic_load_explicit(&cq->busy, memory_order_relaxed))
			zipfi_cq_progress(cq);
		if (!atomic_load_explicit(&cq->nready, memory_order_relaxed))
			return atomic_load_explicit(&cq->nerrors, memory_order_relaxed) ? -FI_EAVAIL : -FI_EAGAIN;
	}
	n = zipfi_cq_take(cq, buf, count, src);
	/* The rest would otherwise lie there without a signal. */
	if (atomic_load_explicit(&cq->nready, memory_order_relaxed))
		zipfi_wait_signal(&cq->wait);
	if (n)
		return n;
	return atomic_load_explicit(&cq->nerrors, memory_order_relaxed) ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t zipfi_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return zipfi_cq_readfrom(fid, buf, count, NULL);
}

static ssize_t zipfi_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct zipfi_cq *cq = zipfi_of(fid, zipfi_cq, fid);
	struct zipfi_rec *rec = zipfi_cq_pop(cq, &cq->errors, &cq->nerrors);

	(void)flags;
	if (!rec)
		return -FI_EAGAIN;
	buf->op_context = rec->done.op_context;
	buf->flags = rec->done.flags;
	buf->len = rec->done.len;
	buf->buf = rec->done.buf;
	buf->data = rec->done.data;
	buf->tag = rec->done.tag;
	buf->olen = rec->olen;
	buf->err = rec->err;
	buf->prov_errno = rec->prov_errno;
	buf->err_data_size = 0;
	zipfi_cq_release(rec);
	return 1;
}

static ssize_t zipfi_cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src, const void *cond, int timeout)
{
	struct zipfi_cq *cq = zipfi_of(fid, zipfi_cq, fid);
	uint64_t now, start = zipc_now_ms();
	int slice;
	ssize_t ret;

	(void)cond;
	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	for (;;) {
		ret = zipfi_cq_readfrom(fid, buf, count, src);
		if (ret != -FI_EAGAIN)
			return ret;
		if (atomic_exchange(&cq->signaled, false))
			return -FI_EAGAIN;
		now = zipc_now_ms();
		if (timeout >= 0 && now - start >= (uint64_t)timeout)
			return -FI_EAGAIN;
		/* A sleeper looks up now and then: silent peers are watched from here. */
		slice = 100;
		if (timeout >= 0 && (uint64_t)timeout - (now - start) < 100)
			slice = (int)((uint64_t)timeout - (now - start));
		if (!zipfi_may_sleep(cq->domain->fabric, &cq->wait, cq->domain, &cq->eps, &cq->neps, &cq->ep_lock, &cq->core->fid,
				     &cq->nready, &cq->nerrors))
			zipfi_wait_sleep(&cq->wait, slice);
	}
}

static ssize_t zipfi_cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return zipfi_cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int zipfi_cq_signal(struct fid_cq *fid)
{
	struct zipfi_cq *cq = zipfi_of(fid, zipfi_cq, fid);

	atomic_store(&cq->signaled, true);
	zipfi_wait_signal(&cq->wait);
	return 0;
}

static const char *zipfi_cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	return fi_cq_strerror(zipfi_of(fid, zipfi_cq, fid)->core, prov_errno, err_data, buf, len);
}

/* ---- life */

static void zipfi_cq_purge(struct zipfi_cq *cq, struct zipc_list *list)
{
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(list)))
		zipfi_cq_release(zipfi_of(entry, zipfi_rec, link));
	(void)cq;
}

static int zipfi_cq_close(struct fid *fid)
{
	struct zipfi_cq *cq = zipfi_of(fid, zipfi_cq, fid.fid);
	int ret;

	if (atomic_load(&cq->ref))
		return -FI_EBUSY;
	ret = fi_close(&cq->core->fid);
	if (ret)
		return ret;
	zipfi_cq_purge(cq, &cq->ready);
	zipfi_cq_purge(cq, &cq->errors);
	zipfi_wait_close(&cq->wait);
	pthread_spin_destroy(&cq->lock);
	pthread_mutex_destroy(&cq->ep_lock);
	free(cq->eps);
	free(cq);
	return 0;
}

static int zipfi_cq_control(struct fid *fid, int command, void *arg)
{
	struct zipfi_cq *cq = zipfi_of(fid, zipfi_cq, fid.fid);

	if (command == FI_GETWAIT || command == FI_GETWAITOBJ)
		return zipfi_wait_get(&cq->wait, command, arg);
	return fi_control(&cq->core->fid, command, arg);
}

static struct fi_ops zipfi_cq_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_cq_close,
	.bind = zipfi_no_bind,
	.control = zipfi_cq_control,
};

bool zipfi_cq_is(const struct fid *fid)
{
	return fid->fclass == FI_CLASS_CQ && fid->ops == &zipfi_cq_fi_ops;
}

static struct fi_ops_cq zipfi_cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = zipfi_cq_read,
	.readfrom = zipfi_cq_readfrom,
	.readerr = zipfi_cq_readerr,
	.sread = zipfi_cq_sread,
	.sreadfrom = zipfi_cq_sreadfrom,
	.signal = zipfi_cq_signal,
	.strerror = zipfi_cq_strerror,
};

/* Opens the core's CQ with an fd to wait on if it has one, and the wait object that follows from what it has. */
static int zipfi_cq_open_core(struct zipfi_cq *cq, const struct fi_cq_attr *asked)
{
	struct fi_cq_attr attr = *asked;
	int ret;

	attr.format = FI_CQ_FORMAT_TAGGED;
	attr.wait_set = NULL;
	attr.wait_cond = FI_CQ_COND_NONE;
	if (asked->wait_obj == FI_WAIT_SET || asked->wait_obj == FI_WAIT_MUTEX_COND)
		return -FI_ENOSYS;
	attr.wait_obj = asked->wait_obj == FI_WAIT_NONE || asked->wait_obj == FI_WAIT_YIELD ? FI_WAIT_NONE : FI_WAIT_FD;
	ret = fi_cq_open(cq->domain->core, &attr, &cq->core, cq);
	if (!ret)
		return zipfi_wait_open(&cq->wait, asked->wait_obj);
	/* A core without fds: who did not insist on one waits by looking. */
	if (attr.wait_obj == FI_WAIT_NONE || asked->wait_obj != FI_WAIT_UNSPEC)
		return ret;
	attr.wait_obj = FI_WAIT_NONE;
	ret = fi_cq_open(cq->domain->core, &attr, &cq->core, cq);
	return ret ? ret : zipfi_wait_open(&cq->wait, FI_WAIT_YIELD);
}

int zipfi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context)
{
	struct zipfi_cq *cq = calloc(1, sizeof(*cq));
	int ret;

	if (!cq)
		return -FI_ENOMEM;
	cq->domain = zipfi_of(fid, zipfi_domain, fid);
	cq->wait.epfd = cq->wait.evfd = -1;
	ret = zipfi_cq_open_core(cq, attr);
	if (ret)
		goto err;
	ret = zipfi_wait_add(&cq->wait, &cq->core->fid);
	if (ret)
		goto err;
	/* Who says nothing reads the smallest entry: writing more would go past the application's array. */
	cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
	zipc_list_init(&cq->ready);
	zipc_list_init(&cq->errors);
	pthread_spin_init(&cq->lock, PTHREAD_PROCESS_PRIVATE);
	pthread_mutex_init(&cq->ep_lock, NULL);
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &zipfi_cq_fi_ops;
	cq->fid.ops = &zipfi_cq_ops;
	*cq_p = &cq->fid;
	return 0;
err:
	if (cq->core)
		fi_close(&cq->core->fid);
	zipfi_wait_close(&cq->wait);
	free(cq);
	return ret;
}

int zipfi_cq_attach(struct zipfi_cq *cq, struct zipfi_ep *ep)
{
	struct zipfi_ep **eps;
	size_t i;

	pthread_mutex_lock(&cq->ep_lock);
	for (i = 0; i < cq->neps && cq->eps[i] != ep; i++)
		;
	eps = i < cq->neps ? cq->eps : realloc(cq->eps, (cq->neps + 1) * sizeof(struct zipfi_ep *));
	if (eps && i == cq->neps) {
		cq->eps = eps;
		cq->eps[cq->neps++] = ep;
		atomic_fetch_add(&cq->ref, 1);
	}
	cq->source |= !!(ep->info->caps & FI_SOURCE);
	pthread_mutex_unlock(&cq->ep_lock);
	return eps ? 0 : -FI_ENOMEM;
}

void zipfi_cq_detach(struct zipfi_cq *cq, struct zipfi_ep *ep)
{
	size_t i;

	pthread_mutex_lock(&cq->ep_lock);
	for (i = 0; i < cq->neps; i++) {
		if (cq->eps[i] != ep)
			continue;
		cq->eps[i] = cq->eps[--cq->neps];
		atomic_fetch_sub(&cq->ref, 1);
		break;
	}
	pthread_mutex_unlock(&cq->ep_lock);
}

static void zipfi_cq_disown_list(struct zipc_list *list, struct zipfi_ep *ep)
{
	struct zipc_list *entry, *next;

	for (entry = list->next; entry != list; entry = next) {
		struct zipfi_rec *rec = zipfi_of(entry, zipfi_rec, link), *copy;

		next = entry->next;
		if (rec->ep != ep)
			continue;
		while (!(copy = malloc(sizeof(*copy))))
			sched_yield();
		*copy = *rec;
		copy->ep = NULL;
		copy->link.prev->next = copy->link.next->prev = &copy->link;
	}
}

void zipfi_cq_disown(struct zipfi_cq *cq, struct zipfi_ep *ep)
{
	zipfi_spin_lock(cq->domain, &cq->lock);
	zipfi_cq_disown_list(&cq->ready, ep);
	zipfi_cq_disown_list(&cq->errors, ep);
	zipfi_spin_unlock(cq->domain, &cq->lock);
}
