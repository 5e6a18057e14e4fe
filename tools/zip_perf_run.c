/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One round, the same code on both sides. Message n uses slot n modulo the window (to send from) or the depth (to land in),
 * and is posted when that slot is free.
 *
 * A round ends in band: the client says so when its operations are complete, the server answers when all that it waits for
 * is there. So the clock stops when the last byte is where it belongs, not when it has left.
 */
#include "zip_perf.h"
#include "zipt_util.h"

#include <sched.h>
#include <string.h>

#define WATCH_POLLS 256        /* empty looks between two at the clock and at the other connection */

struct round {
	struct perf_run *run;
	const struct perf_order *order;
	void *door;
	uint64_t sends, recvs, events;   /* operations started here, messages received, and puts with data that arrive */
	struct perf_events done;
	uint64_t next_send, next_recv;
	int end_posted, end_recv_posted;
	uint64_t moved_ns;               /* when something was last found to have happened; 0: just now */
	unsigned idle;
};

static enum perf_kind kind_of(const struct perf_plan *plan)
{
	switch (plan->op) {
	case PERF_WRITE: return PERF_PUT;
	case PERF_WRITEDATA: return PERF_PUT_DATA;
	case PERF_READ: return PERF_GET;
	default: return PERF_SEND;
	}
}

static int two_sided(const struct perf_plan *plan)
{
	return plan->op == PERF_TAGGED || plan->op == PERF_MSG;
}

/* Posts, or leaves it for later: 1. */
static int post(struct round *r, const struct perf_post *p)
{
	int rc;

	p->work->busy = 1;
	p->work->kind = p->kind;
	rc = r->run->ops->post(r->door, p);
	if (rc)
		p->work->busy = 0;
	return rc;
}

static int post_sends(struct round *r)
{
	const struct perf_memory *memory = r->run->memory;
	size_t size = (size_t)r->order->size;

	while (r->next_send < r->sends) {
		uint64_t n = r->next_send, here = n % memory->window * size, there = n % memory->depth * size;
		struct perf_work *work = &r->run->tx_work[n % memory->window];
		struct perf_post p = { kind_of(r->run->plan), n, here, size, there, work };
		int rc;

		if (work->busy)
			return 0;
		if (p.kind == PERF_GET) { /* from their slot for sending into ours for receiving */
			p.offset = there;
			p.remote_offset = here;
		}
		rc = post(r, &p);
		if (rc)
			return rc < 0 ? -1 : 0;
		r->next_send++;
	}
	return 0;
}

static int post_recvs(struct round *r)
{
	const struct perf_memory *memory = r->run->memory;
	size_t size = (size_t)r->order->size;
	struct perf_post end = { PERF_END_RECV, 0, 0, 0, 0, &r->run->end_rx };
	int rc;

	while (r->next_recv < r->recvs) {
		uint64_t n = r->next_recv;
		struct perf_work *work = &r->run->rx_work[n % memory->depth];
		const struct perf_post p = { PERF_RECV, n, n % memory->depth * size, size, 0, work };

		if (work->busy)
			return 0;
		rc = post(r, &p);
		if (rc)
			return rc < 0 ? -1 : 0;
		r->next_recv++;
	}
	/* Without tags messages are taken in the order of the receives: the end is the last. */
	if (r->end_recv_posted)
		return 0;
	rc = post(r, &end);
	r->end_recv_posted = rc == 0;
	return rc < 0 ? -1 : 0;
}

void perf_work_done(struct perf_work *work, struct perf_events *events)
{
	work->busy = 0;
	if (work->kind == PERF_RECV)
		events->received++;
	else if (work->kind != PERF_END_SEND && work->kind != PERF_END_RECV)
		events->sent++;
}

/* Nothing to do: leave the processor to others, and look now and then whether anybody is still there. */
static int idle(struct round *r)
{
	struct perf_run *run = r->run;
	uint64_t now;

	sched_yield();
	if (++r->idle % WATCH_POLLS)
		return 0;
	if (perf_oob_check(run->oob))
		return -1;
	now = zipt_now_ns();
	if (!r->moved_ns)
		r->moved_ns = now;
	if (now - r->moved_ns < (uint64_t)run->plan->timeout_s * 1000000000u)
		return 0;
	perf_fail("nothing has moved for %u seconds (--timeout): %llu of %llu sends and %llu of %llu receives are complete",
		  run->plan->timeout_s, (unsigned long long)r->done.sent, (unsigned long long)r->sends,
		  (unsigned long long)r->done.received, (unsigned long long)r->recvs);
	return -1;
}

static int drive(struct round *r)
{
	struct perf_run *run = r->run;
	int n = run->ops->poll(r->door, &r->done);

	if (n < 0)
		return -1;
	if (n == 0)
		return idle(r);
	r->idle = 0;
	r->moved_ns = 0;
	return 0;
}

/* Says that this side is through, when it is. */
static int say_end(struct round *r)
{
	const struct perf_post end = { PERF_END_SEND, 0, 0, 0, 0, &r->run->end_tx };
	int heard = r->end_recv_posted && !r->run->end_rx.busy, rc;

	if (r->end_posted || r->done.sent < r->sends)
		return 0;
	if (r->run->role == PERF_SERVER && (!heard || r->done.received < r->recvs || r->done.arrived < r->events))
		return 0;
	rc = post(r, &end);
	r->end_posted = rc == 0;
	return rc < 0 ? -1 : 0;
}

static int over(const struct round *r)
{
	return r->end_posted && !r->run->end_tx.busy && r->end_recv_posted && !r->run->end_rx.busy && r->done.sent == r->sends &&
	       r->done.received == r->recvs && r->done.arrived >= r->events;
}

static int run_messages(struct round *r)
{
	while (!over(r))
		if (post_sends(r) || post_recvs(r) || say_end(r) || drive(r))
			return -1;
	return 0;
}

int perf_run_expect(struct perf_run *run, enum perf_stack stack, struct perf_events *events, enum perf_verb verb, void *payload,
		    size_t len)
{
	uint64_t start = zipt_now_ns();

	while (!perf_oob_pending(run->oob)) {
		int n = run->ops->poll(run->doors[stack], events);

		if (n < 0)
			return -1;
		if (!n)
			sched_yield();
		if (zipt_now_ns() - start > (uint64_t)run->plan->timeout_s * 1000000000u)
			break;
	}
	return perf_oob_expect(run->oob, verb, payload, len, 1);
}

/* Both sides stand ready, and the clock starts. */
static int start(struct round *r, uint64_t *start_ns)
{
	struct perf_run *run = r->run;
	enum perf_stack stack = (enum perf_stack)r->order->stack;

	if (post_recvs(r))
		return -1;
	if (run->role == PERF_SERVER) {
		if (perf_oob_send(run->oob, PERF_READY, NULL, 0))
			return -1;
		return run->plan->bidirectional ? perf_run_expect(run, stack, &r->done, PERF_GO, NULL, 0) : 0;
	}
	if (perf_oob_send(run->oob, PERF_ROUND, r->order, sizeof(*r->order)) ||
	    perf_run_expect(run, stack, &r->done, PERF_READY, NULL, 0))
		return -1;
	*start_ns = zipt_now_ns();
	return run->plan->bidirectional ? perf_oob_send(run->oob, PERF_GO, NULL, 0) : 0;
}

int perf_round(struct perf_run *run, const struct perf_order *order, uint64_t *ns, struct perf_side_result *result)
{
	const struct perf_plan *plan = run->plan;
	enum perf_role other = run->role == PERF_CLIENT ? PERF_SERVER : PERF_CLIENT;
	struct round r = { .run = run, .order = order, .door = run->doors[order->stack] };
	uint64_t theirs = perf_initiates(plan, other) ? order->iters : 0, start_ns = 0;
	size_t size = (size_t)order->size;

	r.sends = perf_initiates(plan, run->role) ? order->iters : 0;
	r.recvs = two_sided(plan) ? theirs : 0;
	r.events = plan->op == PERF_WRITEDATA ? theirs : 0;
	if (run->filled != size)
		perf_memory_fill(run->memory, size);
	run->filled = size;
	if (plan->check)
		perf_memory_poison(run->memory, size, order->iters);
	if (start(&r, &start_ns) || run_messages(&r))
		return -1;
	*ns = zipt_now_ns() - start_ns;
	memset(result, 0, sizeof(*result));
	if (plan->check)
		result->wrong = perf_memory_wrong(run->memory, size, order->iters);
	return 0;
}
