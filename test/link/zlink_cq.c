/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues, counters, and an event queue in which nothing happens but what the user writes. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "zlink.h"
#include "zipfi_no.h"

/* ---- completion queues */

void zlink_cq_done(struct zlink_domain *domain, struct zlink_op *op)
{
	bool rx = op->kind == ZLINK_RECV || op->kind == ZLINK_EVENT;
	struct zlink_cq *cq = !op->ep || op->ep->closing ? NULL : rx ? op->ep->rx_cq : op->ep->tx_cq;

	if (!cq || (!op->report && !op->err)) {
		zlink_op_put(domain, op);
		return;
	}
	zipc_list_remove(&op->link);
	op->done = true;
	zipc_list_append(&cq->done, &op->link);
}

static size_t zlink_cq_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT: return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
	default: return sizeof(struct fi_cq_tagged_entry);
	}
}

static size_t zlink_entry_len(const struct zlink_op *op)
{
	if (op->kind == ZLINK_EVENT)
		return op->msg_len;
	if (op->kind != ZLINK_RECV)
		return 0;
	return op->msg_len < op->len ? op->msg_len : op->len;
}

static ssize_t zlink_cq_pop(struct zlink_cq *cq, char *buf, size_t count, fi_addr_t *src)
{
	size_t size = zlink_cq_size(cq->format), n = 0;

	for (; n < count && !zipc_list_empty(&cq->done); n++) {
		struct zlink_op *op = zlink_of(cq->done.next, zlink_op, link);
		struct fi_cq_tagged_entry entry = {
			.op_context = op->context, .flags = op->flags, .len = zlink_entry_len(op), .data = op->data, .tag = op->tag,
			.buf = op->multi ? op->iov[0].iov_base : NULL,
		};

		if (op->err)
			return n ? (ssize_t)n : -FI_EAVAIL;
		memcpy(buf + n * size, &entry, size);
		if (src)
			src[n] = op->addr;
		zlink_op_put(cq->domain, op);
	}
	return n ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t zlink_cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct zlink_cq *cq = zlink_of(fid, zlink_cq, fid);
	ssize_t ret;

	zlink_lock(cq->domain);
	zlink_domain_progress(cq->domain);
	ret = count ? zlink_cq_pop(cq, buf, count, src) : 0;
	zlink_unlock(cq->domain);
	return ret;
}

static ssize_t zlink_cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return zlink_cq_readfrom(fid, buf, count, NULL);
}

static ssize_t zlink_cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct zlink_cq *cq = zlink_of(fid, zlink_cq, fid);
	struct zlink_op *op;
	ssize_t ret = -FI_EAGAIN;

	(void)flags;
	zlink_lock(cq->domain);
	op = zipc_list_empty(&cq->done) ? NULL : zlink_of(cq->done.next, zlink_op, link);
	if (op && op->err) {
		buf->op_context = op->context;
		buf->flags = op->flags;
		buf->len = zlink_entry_len(op);
		buf->buf = op->multi ? op->iov[0].iov_base : NULL;
		buf->data = op->data;
		buf->tag = op->tag;
		buf->olen = op->msg_len > op->len ? op->msg_len - op->len : 0;
		buf->err = op->err;
		buf->prov_errno = -op->err;
		buf->err_data_size = 0;
		zlink_op_put(cq->domain, op);
		ret = 1;
	}
	zlink_unlock(cq->domain);
	return ret;
}

static ssize_t zlink_cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src, const void *cond, int timeout)
{
	struct zlink_cq *cq = zlink_of(fid, zlink_cq, fid);
	uint64_t start = zlink_now();
	ssize_t ret;

	(void)cond;
	if (!cq->waits)
		return -FI_EINVAL;
	for (;;) {
		ret = zlink_cq_readfrom(fid, buf, count, src);
		if (ret != -FI_EAGAIN || atomic_exchange(&cq->signaled, false) ||
		    (timeout >= 0 && zlink_now() - start >= (uint64_t)timeout * 1000000))
			return ret;
		sched_yield();
	}
}

static ssize_t zlink_cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return zlink_cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int zlink_cq_signal(struct fid_cq *fid)
{
	atomic_store(&zlink_of(fid, zlink_cq, fid)->signaled, true);
	return 0;
}

static const char *zlink_cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	const char *text = fi_strerror(-prov_errno);

	(void)fid;
	(void)err_data;
	if (buf && len) {
		strncpy(buf, text, len - 1);
		buf[len - 1] = 0;
	}
	return text;
}

static int zlink_cq_close(struct fid *fid)
{
	struct zlink_cq *cq = zlink_of(fid, zlink_cq, fid.fid);

	if (atomic_load(&cq->ref))
		return -FI_EBUSY;
	zlink_lock(cq->domain);
	while (!zipc_list_empty(&cq->done))
		zlink_op_put(cq->domain, zlink_of(cq->done.next, zlink_op, link));
	zlink_unlock(cq->domain);
	atomic_fetch_sub(&cq->domain->ref, 1);
	free(cq);
	return 0;
}

static struct fi_ops zlink_cq_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_cq_close, .bind = zipfi_no_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_cq zlink_cq_ops = {
	.size = sizeof(struct fi_ops_cq), .read = zlink_cq_read, .readfrom = zlink_cq_readfrom, .readerr = zlink_cq_readerr,
	.sread = zlink_cq_sread, .sreadfrom = zlink_cq_sreadfrom, .signal = zlink_cq_signal, .strerror = zlink_cq_strerror,
};

int zlink_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context)
{
	struct zlink_domain *domain = zlink_of(fid, zlink_domain, fid);
	struct zlink_cq *cq;

	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = domain;
	cq->format = attr->format ? attr->format : FI_CQ_FORMAT_CONTEXT;
	cq->waits = attr->wait_obj != FI_WAIT_NONE;
	attr->format = cq->format;
	zipc_list_init(&cq->done);
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &zlink_cq_fi_ops;
	cq->fid.ops = &zlink_cq_ops;
	atomic_fetch_add(&domain->ref, 1);
	*cq_p = &cq->fid;
	return 0;
}

/* ---- counters */

static void zlink_cntr_progress(struct zlink_cntr *cntr)
{
	zlink_lock(cntr->domain);
	zlink_domain_progress(cntr->domain);
	zlink_unlock(cntr->domain);
}

static uint64_t zlink_cntr_read(struct fid_cntr *fid)
{
	struct zlink_cntr *cntr = zlink_of(fid, zlink_cntr, fid);

	zlink_cntr_progress(cntr);
	return atomic_load(&cntr->value);
}

static uint64_t zlink_cntr_readerr(struct fid_cntr *fid)
{
	struct zlink_cntr *cntr = zlink_of(fid, zlink_cntr, fid);

	zlink_cntr_progress(cntr);
	return atomic_load(&cntr->errors);
}

static int zlink_cntr_add(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&zlink_of(fid, zlink_cntr, fid)->value, value);
	return 0;
}

static int zlink_cntr_set(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&zlink_of(fid, zlink_cntr, fid)->value, value);
	return 0;
}

static int zlink_cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	atomic_fetch_add(&zlink_of(fid, zlink_cntr, fid)->errors, value);
	return 0;
}

static int zlink_cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	atomic_store(&zlink_of(fid, zlink_cntr, fid)->errors, value);
	return 0;
}

static int zlink_cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct zlink_cntr *cntr = zlink_of(fid, zlink_cntr, fid);
	uint64_t start = zlink_now(), errors = atomic_load(&cntr->errors);

	for (;;) {
		zlink_cntr_progress(cntr);
		if (atomic_load(&cntr->value) >= threshold)
			return 0;
		if (atomic_load(&cntr->errors) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && zlink_now() - start >= (uint64_t)timeout * 1000000)
			return -FI_ETIMEDOUT;
		sched_yield();
	}
}

static int zlink_cntr_close(struct fid *fid)
{
	struct zlink_cntr *cntr = zlink_of(fid, zlink_cntr, fid.fid);

	if (atomic_load(&cntr->ref))
		return -FI_EBUSY;
	atomic_fetch_sub(&cntr->domain->ref, 1);
	free(cntr);
	return 0;
}

static struct fi_ops zlink_cntr_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_cntr_close, .bind = zipfi_no_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_cntr zlink_cntr_ops = {
	.size = sizeof(struct fi_ops_cntr), .read = zlink_cntr_read, .readerr = zlink_cntr_readerr, .add = zlink_cntr_add,
	.set = zlink_cntr_set, .wait = zlink_cntr_wait, .adderr = zlink_cntr_adderr, .seterr = zlink_cntr_seterr,
};

int zlink_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **cntr_p, void *context)
{
	struct zlink_domain *domain = zlink_of(fid, zlink_domain, fid);
	struct zlink_cntr *cntr;

	if (attr->events != FI_CNTR_EVENTS_COMP)
		return -FI_ENOSYS;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_YIELD)
		return -FI_ENOSYS;
	cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	cntr->domain = domain;
	cntr->fid.fid.fclass = FI_CLASS_CNTR;
	cntr->fid.fid.context = context;
	cntr->fid.fid.ops = &zlink_cntr_fi_ops;
	cntr->fid.ops = &zlink_cntr_ops;
	atomic_fetch_add(&domain->ref, 1);
	*cntr_p = &cntr->fid;
	return 0;
}

/* ---- event queue */

struct zlink_eq {
	struct fid_eq fid;
	struct zlink_fabric *fabric;
};

static ssize_t zlink_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	(void)eq;
	(void)event;
	(void)buf;
	(void)len;
	(void)flags;
	return -FI_EAGAIN;
}

static ssize_t zlink_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	(void)eq;
	(void)buf;
	(void)flags;
	return -FI_EAGAIN;
}

static ssize_t zlink_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	(void)eq;
	(void)event;
	(void)buf;
	(void)len;
	(void)flags;
	return -FI_ENOSYS;
}

static ssize_t zlink_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	(void)eq;
	(void)event;
	(void)buf;
	(void)len;
	(void)timeout;
	(void)flags;
	return -FI_ENOSYS;
}

static const char *zlink_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len)
{
	(void)eq;
	(void)err_data;
	(void)buf;
	(void)len;
	return fi_strerror(prov_errno);
}

static int zlink_eq_close(struct fid *fid)
{
	struct zlink_eq *eq = zlink_of(fid, zlink_eq, fid.fid);

	atomic_fetch_sub(&eq->fabric->ref, 1);
	free(eq);
	return 0;
}

static struct fi_ops zlink_eq_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_eq_close, .bind = zipfi_no_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_eq zlink_eq_ops = {
	.size = sizeof(struct fi_ops_eq), .read = zlink_eq_read, .readerr = zlink_eq_readerr, .write = zlink_eq_write,
	.sread = zlink_eq_sread, .strerror = zlink_eq_strerror,
};

/* Programs open one whether they need it or not. */
int zlink_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq_p, void *context)
{
	struct zlink_fabric *fabric = zlink_of(fid, zlink_fabric, fid);
	struct zlink_eq *eq = calloc(1, sizeof(*eq));

	(void)attr;
	if (!eq)
		return -FI_ENOMEM;
	eq->fabric = fabric;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &zlink_eq_fi_ops;
	eq->fid.ops = &zlink_eq_ops;
	atomic_fetch_add(&fabric->ref, 1);
	*eq_p = &eq->fid;
	return 0;
}
