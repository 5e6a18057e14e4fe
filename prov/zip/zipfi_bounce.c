/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of device memory that a core takes and gives in host memory only.
 *
 * Sending: the message is copied into a landing, then posted from there. Sends that come meanwhile must not overtake it: those of device
 * memory line up behind it, others are told to try again. Receiving: the core fills a landing, and the completion waits for the copy.
 * A copy goes through windows of pinned memory, piece by piece, because a landing is ordinary memory: it may be as large as the message.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "zipfi_hmem.h"

#define ZIPFI_LANDING_LEAST 4096u
#define ZIPFI_LANDING_KEEP (1u << 20)  /* pages of a larger one go back to the system */
#define ZIPFI_INJECT_MS 2000
#define ZIPFI_COPY_CLOSE_MS 5000

/* ---- landings: by powers of two, kept once made */

struct zipfi_landing *zipfi_landing_get(struct zipfi_ep *ep, size_t bytes)
{
	struct zipfi_ep_hmem *hmem = ep->hmem;
	struct zipfi_landing *landing;
	struct zipc_list *entry;
	unsigned class = 0;

	while (((size_t)ZIPFI_LANDING_LEAST << class) < bytes)
		class++;
	zipfi_spin_lock(ep->domain, &ep->rec_lock);
	entry = zipc_list_pop(&hmem->landings[class]);
	zipfi_spin_unlock(ep->domain, &ep->rec_lock);
	if (entry)
		return zipfi_of(entry, zipfi_landing, link);
	landing = calloc(1, sizeof(*landing));
	if (!landing)
		return NULL;
	landing->class = class;
	landing->bytes = (size_t)ZIPFI_LANDING_LEAST << class;
	landing->memory = mmap(NULL, landing->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (landing->memory == MAP_FAILED)
		goto err_free;
	if ((ep->domain->mr_mode & FI_MR_LOCAL) && fi_mr_reg(ep->domain->core, landing->memory, landing->bytes, FI_SEND | FI_RECV, 0,
							    (uint64_t)(uintptr_t)landing->memory, 0, &landing->mr, NULL))
		goto err_map;
	zipc_list_init(&landing->link);
	zipfi_spin_lock(ep->domain, &ep->rec_lock);
	landing->next = hmem->all_landings;
	hmem->all_landings = landing;
	zipfi_spin_unlock(ep->domain, &ep->rec_lock);
	return landing;

err_map:
	munmap(landing->memory, landing->bytes);
err_free:
	free(landing);
	return NULL;
}

void zipfi_landing_put(struct zipfi_ep *ep, struct zipfi_landing *landing, size_t used)
{
	if (used > ZIPFI_LANDING_KEEP)
		madvise(landing->memory, landing->bytes, MADV_DONTNEED);
	zipfi_spin_lock(ep->domain, &ep->rec_lock);
	zipc_list_append(&ep->hmem->landings[landing->class], &landing->link);
	zipfi_spin_unlock(ep->domain, &ep->rec_lock);
}

void *zipfi_landing_desc(const struct zipfi_landing *landing)
{
	return landing->mr ? fi_mr_desc(landing->mr) : NULL;
}

void zipfi_landings_close(struct zipfi_ep *ep)
{
	struct zipfi_landing *landing;

	while ((landing = ep->hmem->all_landings)) {
		ep->hmem->all_landings = landing->next;
		if (landing->mr)
			fi_close(&landing->mr->fid);
		munmap(landing->memory, landing->bytes);
		free(landing);
	}
}

/* ---- copies; under ep->lock */

static void zipfi_copy_end(struct zipfi_copy *copy, int status)
{
	if (copy->window)
		copy->dev->free_windows[copy->dev->nfree++] = copy->window;
	copy->window = NULL;
	zipc_list_remove(&copy->link);
	copy->done(copy, status);
}

/* Starts the next piece. 1: no window, or the device takes no more for now. */
static int zipfi_copy_piece(struct zipfi_copy *copy)
{
	struct zipfi_ep_dev *dev = copy->dev;
	struct iovec pieces[ZIPC_COPIES_MAX];
	struct zipc_copy copies[ZIPC_COPIES_MAX];
	unsigned i, n;
	size_t at = 0;
	int ret;

	if (!copy->window && !dev->nfree)
		return 1;
	if (!copy->window)
		copy->window = dev->free_windows[--dev->nfree];
	copy->n = copy->nbytes - copy->at < ZIPFI_WINDOW_BYTES ? copy->nbytes - copy->at : ZIPFI_WINDOW_BYTES;
	if (copy->to_device)
		memcpy(copy->window, copy->host + copy->at, copy->n);
	n = zipc_iov_pieces(copy->iov, copy->niov, copy->at, copy->n, pieces);
	for (i = 0; i < n; at += pieces[i].iov_len, i++) {
		char *here = (char *)copy->window + at;

		copies[i] = copy->to_device ? (struct zipc_copy){pieces[i].iov_base, here, pieces[i].iov_len}
					    : (struct zipc_copy){here, pieces[i].iov_base, pieces[i].iov_len};
	}
	ret = dev->ops->copy(dev->ops_dev, copies, n, &copy->job);
	if (ret)
		copy->job = NULL;
	return ret == ZIPC_ERR_AGAIN ? 1 : ret;
}

static void zipfi_copy_step(struct zipfi_copy *copy)
{
	struct zipfi_ep_dev *dev = copy->dev;
	int over = 0, ret;

	do {
		if (copy->job) {
			ret = dev->ops->poll(dev->ops_dev, copy->job, &over);
			if (ret >= 0 && !over)
				return;
			dev->ops->release(dev->ops_dev, copy->job);
			copy->job = NULL;
			if (ret < 0) {
				zipfi_copy_end(copy, ret);
				return;
			}
			if (!copy->to_device)
				memcpy(copy->host + copy->at, copy->window, copy->n);
			copy->at += copy->n;
		}
		if (copy->at == copy->nbytes) {
			zipfi_copy_end(copy, 0);
			return;
		}
		ret = zipfi_copy_piece(copy);
		if (ret < 0)
			zipfi_copy_end(copy, ret);
	} while (!ret);
}

/* `copy` is filled in but for its state. */
static void zipfi_copy_start(struct zipfi_ep *ep, struct zipfi_copy *copy)
{
	copy->at = copy->n = 0;
	copy->window = copy->job = NULL;
	zipc_list_append(&ep->hmem->copies, &copy->link);
	zipfi_ep_set_busy(ep, true);
	zipfi_copy_step(copy);
}

bool zipfi_copies_progress(struct zipfi_ep *ep)
{
	struct zipc_list *entry, *next;

	for (entry = ep->hmem->copies.next; entry != &ep->hmem->copies; entry = next) {
		next = entry->next;
		zipfi_copy_step(zipfi_of(entry, zipfi_copy, link));
	}
	return !zipc_list_empty(&ep->hmem->copies) || !zipc_list_empty(&ep->hmem->held);
}

/* ---- sending */

static void zipfi_held_copied(struct zipfi_copy *copy, int status)
{
	struct zipfi_held *held = zipfi_of(copy, zipfi_held, copy);

	held->copied = true;
	held->status = status;
}

/* NULL: there are enough. */
static struct zipfi_held *zipfi_held_get(struct zipfi_ep *ep)
{
	struct zipc_list *entry;

	zipfi_lock(ep->domain, &ep->lock);
	entry = zipc_list_pop(&ep->hmem->free_held);
	zipfi_unlock(ep->domain, &ep->lock);
	return entry ? zipfi_of(entry, zipfi_held, link) : NULL;
}

static void zipfi_held_fill(struct zipfi_held *held, const struct zipfi_out *out, struct zipfi_landing *landing)
{
	memcpy(held->from, out->iov, out->niov * sizeof(*out->iov));
	held->landing = landing;
	held->copied = false;
	held->status = 0;
	held->iov = (struct iovec){landing->memory, out->total};
	held->desc = zipfi_landing_desc(landing);
	held->out = *out;
	held->out.iov = &held->iov;
	held->out.desc = &held->desc;
	held->out.niov = 1;
	held->out.dev = NULL;
	held->out.landing = landing;
	held->out.defaults = false;
	/* It is ours until it has left. */
	held->out.flags &= ~FI_INJECT;
	held->copy = (struct zipfi_copy){
		.dev = out->dev, .iov = held->from, .niov = out->niov, .host = (uint8_t *)landing->memory, .nbytes = out->total,
		.done = zipfi_held_copied,
	};
}

ssize_t zipfi_bounce_send(struct zipfi_ep *ep, const struct zipfi_out *out, bool wait)
{
	uint64_t start = zipc_now_ms();
	struct zipfi_landing *landing;
	struct zipfi_held *held;

	if (out->niov > ZIPFI_IOV_MAX)
		return -FI_EINVAL;
	held = zipfi_held_get(ep);
	if (!held)
		return -FI_EAGAIN;
	landing = zipfi_landing_get(ep, out->total ? out->total : 1);
	if (!landing) {
		zipfi_lock(ep->domain, &ep->lock);
		zipc_list_append(&ep->hmem->free_held, &held->link);
		zipfi_unlock(ep->domain, &ep->lock);
		return -FI_ENOMEM;
	}
	zipfi_held_fill(held, out, landing);
	zipfi_lock(ep->domain, &ep->lock);
	zipc_list_append(&ep->hmem->held, &held->link);
	atomic_fetch_add(&ep->hmem->nheld, 1);
	zipfi_copy_start(ep, &held->copy);
	while (wait && !held->copied && zipc_now_ms() - start < ZIPFI_INJECT_MS)
		zipfi_copies_progress(ep);
	zipfi_unlock(ep->domain, &ep->lock);
	zipfi_held_progress(ep);
	return 0;
}

/* The first of those held, if its copy is done and nobody else is at it. */
static struct zipfi_held *zipfi_held_first(struct zipfi_ep *ep)
{
	struct zipfi_ep_hmem *hmem = ep->hmem;
	struct zipfi_held *held = NULL;

	zipfi_lock(ep->domain, &ep->lock);
	if (!hmem->posting && !zipc_list_empty(&hmem->held)) {
		held = zipfi_of(hmem->held.next, zipfi_held, link);
		if (!held->copied)
			held = NULL;
	}
	hmem->posting |= held != NULL;
	zipfi_unlock(ep->domain, &ep->lock);
	return held;
}

/* Reports that a send which was accepted has failed. */
static void zipfi_held_fail(struct zipfi_ep *ep, const struct zipfi_held *held, int err)
{
	struct zipfi_rec *rec;

	ZIPFI_WARN(EP_DATA, "a message could not be sent from device memory: %s\n", fi_strerror(err));
	while (!(rec = zipfi_rec_get(ep)))
		sched_yield();
	rec->kind = ZIPFI_REC_SEND;
	rec->context = held->out.context;
	rec->op_flags = held->out.kind | FI_SEND;
	rec->done = (struct fi_cq_tagged_entry){.flags = held->out.kind | FI_SEND, .tag = held->out.tag};
	rec->err = err;
	rec->prov_errno = held->status ? held->status : -err;
	rec->olen = 0;
	zipfi_complete(rec, true);
}

void zipfi_held_progress(struct zipfi_ep *ep)
{
	struct zipfi_held *held;
	ssize_t ret;

	while (zipfi_is_holding(ep->hmem) && (held = zipfi_held_first(ep))) {
		ret = held->status ? -zipfi_errno(held->status) : zipfi_send_any(ep, &held->out);
		if (ret && ret != -FI_EAGAIN) {
			zipfi_held_fail(ep, held, (int)-ret);
			zipfi_landing_put(ep, held->landing, held->out.total);
		}
		zipfi_lock(ep->domain, &ep->lock);
		ep->hmem->posting = false;
		if (ret != -FI_EAGAIN) {
			zipc_list_remove(&held->link);
			zipc_list_append(&ep->hmem->free_held, &held->link);
			atomic_fetch_sub(&ep->hmem->nheld, 1);
		}
		zipfi_unlock(ep->domain, &ep->lock);
		if (ret == -FI_EAGAIN)
			return;
	}
}

/* ---- receiving */

static void zipfi_recv_copied(struct zipfi_copy *copy, int status)
{
	struct zipfi_rec *rec = zipfi_of(copy, zipfi_rec, copy);

	if (status) {
		rec->err = zipfi_errno(status);
		rec->prov_errno = status;
		rec->done.len = 0;
	}
	zipfi_complete(rec, false);
}

void zipfi_bounce_recv(struct zipfi_rec *rec, void *host, size_t nbytes)
{
	struct zipfi_ep *ep = rec->ep;

	if (!nbytes) {
		zipfi_complete(rec, false);
		return;
	}
	rec->copy = (struct zipfi_copy){
		.dev = rec->dev, .iov = rec->iov, .niov = rec->niov, .host = host, .nbytes = nbytes, .to_device = true,
		.done = zipfi_recv_copied,
	};
	zipfi_lock(ep->domain, &ep->lock);
	zipfi_copy_start(ep, &rec->copy);
	zipfi_unlock(ep->domain, &ep->lock);
}

/* ---- closing */

void zipfi_bounce_close(struct zipfi_ep *ep)
{
	const struct timespec nap = {.tv_nsec = 20000};
	uint64_t start = zipc_now_ms();
	struct zipc_list *entry;

	/* A device may still be at windows, and at the application's buffers. */
	while (zipfi_copies_progress(ep) && !zipc_list_empty(&ep->hmem->copies) && zipc_now_ms() - start < ZIPFI_COPY_CLOSE_MS)
		nanosleep(&nap, NULL);
	while ((entry = zipc_list_pop(&ep->hmem->held)))
		zipfi_held_fail(ep, zipfi_of(entry, zipfi_held, link), FI_ECANCELED);
}
