/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that the lower transport knows nothing of, and their order.
 *
 * An endpoint lists them as they were issued. A flush or a fence that finds some puts a mark behind them; it passes when all in
 * front of it are over. The end of an operation is told from progress, never from inside a call of the user's or the engine's.
 */
#include <stdlib.h>

#include "zipu.h"

#define ZIPU_OP_SLAB 64u
#define ZIPU_OP_INDEX_BITS 14
#define ZIPU_OP_INDEX_MASK ((1u << ZIPU_OP_INDEX_BITS) - 1)

_Static_assert(ZIPU_OPS_MAX <= ZIPU_OP_INDEX_MASK + 1, "the index of an operation fits its number");

/* ---- the table */

static void zipu_ops_grow(struct zipu_iface *iface)
{
	struct zipu_op **table, *slab;
	uint32_t i;

	if (iface->nops + ZIPU_OP_SLAB > ZIPU_OPS_MAX)
		return;
	table = realloc(iface->ops, (iface->nops + ZIPU_OP_SLAB) * sizeof(struct zipu_op *));
	if (!table)
		return;
	iface->ops = table;
	slab = calloc(ZIPU_OP_SLAB, sizeof(*slab));
	if (!slab)
		return;
	for (i = 0; i < ZIPU_OP_SLAB; i++) {
		slab[i].iface = iface;
		slab[i].id = iface->nops + i;
		zipc_list_init(&slab[i].done);
		zipc_list_init(&slab[i].tx.link);
		zipc_list_append(&iface->free_ops, &slab[i].link);
		table[iface->nops + i] = &slab[i];
	}
	iface->nops += ZIPU_OP_SLAB;
}

struct zipu_op *zipu_op_alloc(struct zipu_ep *ep, enum zipu_op_kind kind, uct_completion_t *comp)
{
	struct zipu_iface *iface = zipu_ep_iface(ep);
	struct zipc_list *entry = zipc_list_pop(&iface->free_ops);
	struct zipu_op *op;

	if (!entry) {
		zipu_ops_grow(iface);
		entry = zipc_list_pop(&iface->free_ops);
	}
	if (!entry)
		return NULL;
	op = zipu_of(entry, zipu_op, link);
	/* A new generation: an answer to what the number stood for before does not fit any more. */
	op->id += 1u << ZIPU_OP_INDEX_BITS;
	op->kind = kind;
	op->ep = ep;
	op->peer = ep->peer;
	op->comp = comp;
	op->status = UCS_OK;
	op->over = false;
	op->sending = false;
	op->at = 0;
	op->unpack = NULL;
	op->send = NULL;
	op->recv = NULL;
	zipc_list_append(&ep->ops, &op->link);
	iface->busy++;
	return op;
}

static void zipu_op_free(struct zipu_op *op)
{
	op->kind = ZIPU_OP_FREE;
	op->ep = NULL;
	op->comp = NULL;
	op->iface->busy--;
	zipc_list_remove(&op->tx.link);
	zipc_list_remove(&op->done);
	zipc_list_remove(&op->link);
	zipc_list_append(&op->iface->free_ops, &op->link);
}

void zipu_op_drop(struct zipu_op *op)
{
	zipu_op_free(op);
}

struct zipu_op *zipu_op_lookup(struct zipu_iface *iface, uint32_t id, enum zipu_op_kind kind)
{
	uint32_t index = id & ZIPU_OP_INDEX_MASK;
	struct zipu_op *op = index < iface->nops ? iface->ops[index] : NULL;

	return op && op->id == id && op->kind == kind && !op->over ? op : NULL;
}

void zipu_ops_close(struct zipu_iface *iface)
{
	unsigned i;

	for (i = 0; i < iface->nops; i += ZIPU_OP_SLAB)
		free(iface->ops[i]); /* the first of a slab is the slab */
	free(iface->ops);
}

/* ---- the end of an operation */

void zipu_op_settle(struct zipu_op *op)
{
	/* What the lower transport still reads or writes stays the user's until it is done with it. */
	if (op->over && !op->sending && zipc_list_empty(&op->done))
		zipc_list_append(&op->iface->done, &op->done);
}

void zipu_op_finish(struct zipu_op *op, ucs_status_t status)
{
	if (op->over)
		return;
	op->over = true;
	op->status = status;
	if (op->sending)
		zipu_link_unqueue(op->peer, &op->tx); /* settles it */
	else
		zipu_op_settle(op);
}

void zipu_op_reject(struct zipu_op *op, ucs_status_t status)
{
	struct zipu_ep *ep = op->ep;

	zipu_op_finish(op, status);
	if (ep)
		zipu_ep_fail(ep, status);
}

/* A flush has come to the head of the list: the lower endpoint's operations are what is left. */
static ucs_status_t zipu_op_flush_lower(struct zipu_op *op)
{
	ucs_status_t status = uct_ep_flush(op->ep->lower, op->flags, op->comp);

	if (status == UCS_INPROGRESS)
		op->comp = NULL; /* the lower endpoint tells */
	return status;
}

/* Marks that have nothing in front of them any more pass. */
static void zipu_ep_pass(struct zipu_ep *ep)
{
	while (!zipc_list_empty(&ep->ops)) {
		struct zipu_op *op = zipu_of(ep->ops.next, zipu_op, link);

		if (op->over)
			return;
		if (op->kind == ZIPU_OP_FLUSH)
			zipu_op_finish(op, UCS_OK); /* it is told first, others behind it pass then */
		if (op->kind != ZIPU_OP_FENCE)
			return;
		zipu_op_free(op);
		if (!--ep->fences)
			ep->blocked &= ~(unsigned)ZIPU_BLOCKED_FENCE;
	}
}

/* Returns 0 if it could not be told yet. */
static int zipu_op_tell(struct zipu_op *op)
{
	uct_completion_t *comp;
	struct zipu_ep *ep = op->ep;
	ucs_status_t status = op->status;

	if (op->kind == ZIPU_OP_FLUSH && ep && status == UCS_OK) {
		status = zipu_op_flush_lower(op);
		if (status == UCS_ERR_NO_RESOURCE)
			return 0;
	}
	if (op->kind == ZIPU_OP_FENCE && ep && !--ep->fences)
		ep->blocked &= ~(unsigned)ZIPU_BLOCKED_FENCE;
	comp = op->comp;
	zipu_op_free(op);
	if (ep)
		zipu_ep_pass(ep);
	if (comp) /* last: the user may close the endpoint in it */
		uct_invoke_completion(comp, status);
	return 1;
}

unsigned zipu_ops_progress(struct zipu_iface *iface)
{
	unsigned count = 0;
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(&iface->done))) {
		struct zipu_op *op = zipu_of(entry, zipu_op, done);

		if (!zipu_op_tell(op)) {
			zipc_list_append(&iface->done, &op->done);
			break;
		}
		count++;
	}
	return count;
}

static void zipu_op_cancel(struct zipu_op *op, ucs_status_t status)
{
	if (op->over)
		return;
	if (op->kind == ZIPU_OP_WRITE || op->kind == ZIPU_OP_READ)
		zipu_xfer_cancel(op);
	zipu_op_finish(op, status);
}

void zipu_ops_cancel(struct zipu_ep *ep, ucs_status_t status)
{
	struct zipc_list *entry;

	for (entry = ep->ops.next; entry != &ep->ops; entry = entry->next)
		zipu_op_cancel(zipu_of(entry, zipu_op, link), status);
}

void zipu_ops_forget(struct zipu_ep *ep)
{
	struct zipc_list *entry;

	zipu_ops_cancel(ep, UCS_ERR_CANCELED);
	while ((entry = zipc_list_pop(&ep->ops))) {
		struct zipu_op *op = zipu_of(entry, zipu_op, link);

		op->ep = NULL;
		op->comp = NULL;
	}
}

/* ---- flush and fence */

ucs_status_t zipu_ep_flush(uct_ep_h handle, unsigned flags, uct_completion_t *comp)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	struct zipu_op *op;

	if (flags & UCT_FLUSH_FLAG_CANCEL)
		zipu_ops_cancel(ep, UCS_ERR_CANCELED);
	else if (ep->blocked & ZIPU_BLOCKED_PENDING) /* it waits behind the requests that wait */
		return UCS_ERR_NO_RESOURCE;
	if (zipc_list_empty(&ep->ops))
		return uct_ep_flush(ep->lower, flags, comp);
	if (!comp)
		return UCS_INPROGRESS;
	op = zipu_op_alloc(ep, ZIPU_OP_FLUSH, comp);
	if (!op)
		return UCS_ERR_NO_RESOURCE;
	op->flags = flags;
	return UCS_INPROGRESS;
}

ucs_status_t zipu_ep_hold(struct zipu_ep *ep)
{
	if (zipc_list_empty(&ep->ops))
		return UCS_OK;
	if (!zipu_op_alloc(ep, ZIPU_OP_FENCE, NULL))
		return UCS_ERR_NO_RESOURCE;
	ep->fences++;
	ep->blocked |= ZIPU_BLOCKED_FENCE;
	return UCS_OK;
}

ucs_status_t zipu_ep_fence(uct_ep_h handle, unsigned flags)
{
	struct zipu_ep *ep = zipu_ep_of(handle);
	ucs_status_t status = zipu_ep_hold(ep);

	if (status != UCS_OK)
		return status;
	if (ep->blocked & ZIPU_BLOCKED_PENDING)
		ep->hold_each = true;
	return uct_ep_fence(ep->lower, flags);
}

ucs_status_t zipu_iface_flush(uct_iface_h handle, unsigned flags, uct_completion_t *comp)
{
	struct zipu_iface *iface = zipu_iface_of(handle);

	if (iface->busy || !zipc_list_empty(&iface->waiting))
		return comp ? UCS_ERR_UNSUPPORTED : UCS_INPROGRESS;
	return uct_iface_flush(iface->lower, flags, comp);
}

ucs_status_t zipu_iface_fence(uct_iface_h handle, unsigned flags)
{
	struct zipu_iface *iface = zipu_iface_of(handle);
	struct zipc_list *entry;
	ucs_status_t status;

	for (entry = iface->eps.next; entry != &iface->eps; entry = entry->next) {
		status = zipu_ep_fence(&zipu_of(entry, zipu_ep, link)->super.super, flags);
		if (status != UCS_OK)
			return status;
	}
	return uct_iface_fence(iface->lower, flags);
}
