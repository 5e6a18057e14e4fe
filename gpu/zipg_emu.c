/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipg_emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "kernels/zipg_port.cuh"

#define STACK_BYTES (64u << 10)

struct warp {
	uint32_t generation;
	uint32_t arrived;
	uint32_t value[2][32]; /* two, so that a lane may run ahead while others still read */
};

struct fiber {
	ucontext_t context;
	const uint32_t *wait;  /* runs when *wait differs from `was` */
	uint32_t was;
	int done;
};

struct block {
	struct fiber fiber[ZIPG_THREADS];
	struct warp warp[ZIPG_WARPS];
	uint32_t generation;
	uint32_t arrived;
	uint32_t left;
	int backwards;
	ucontext_t home;
	void (*kernel)(const struct zipg_job job);
	const struct zipg_job *job;
};

_Thread_local struct zipg_emu_thread zipg_emu_self;
static _Thread_local struct block *self_block;

/* Switch to the next fiber that can run; `tid` is the one that stops. */
static void next_fiber(uint32_t tid)
{
	struct block *b = self_block;

	for (uint32_t i = 1; i <= ZIPG_THREADS; i++) {
		uint32_t t = (b->backwards ? tid - i : tid + i) % ZIPG_THREADS;
		struct fiber *f = &b->fiber[t];

		if (f->done || (f->wait && *f->wait == f->was))
			continue;
		f->wait = NULL;
		if (t == tid)
			return;
		zipg_emu_self.tid = t;
		swapcontext(&b->fiber[tid].context, &f->context);
		return;
	}
	if (b->left) {
		fprintf(stderr, "zipg_emu: thread block %u is stuck\n", zipg_emu_self.bid);
		abort();
	}
	swapcontext(&b->fiber[tid].context, &b->home);
}

static void wait_for(uint32_t tid, const uint32_t *word, uint32_t was)
{
	struct fiber *f = &self_block->fiber[tid];

	f->wait = word;
	f->was = was;
	next_fiber(tid);
}

const uint32_t *zipg_emu_exchange(uint32_t v)
{
	uint32_t tid = zipg_emu_self.tid;
	struct warp *w = &self_block->warp[tid >> 5];
	uint32_t generation = w->generation;
	uint32_t *value = w->value[generation & 1];

	value[tid & 31] = v;
	if (++w->arrived == 32) {
		w->arrived = 0;
		w->generation++;
	} else {
		wait_for(tid, &w->generation, generation);
	}
	return value;
}

void zipg_emu_barrier(void)
{
	struct block *b = self_block;
	uint32_t tid = zipg_emu_self.tid;
	uint32_t generation = b->generation;

	if (++b->arrived == ZIPG_THREADS) {
		b->arrived = 0;
		b->generation++;
	} else {
		wait_for(tid, &b->generation, generation);
	}
}

static void fiber_main(void)
{
	struct block *b = self_block;
	uint32_t tid;

	b->kernel(*b->job);
	tid = zipg_emu_self.tid;
	b->fiber[tid].done = 1;
	b->left--;
	next_fiber(tid);
}

/* On its own, so that no variable lives across getcontext, which returns twice for all the compiler knows. */
static void fiber_make(struct fiber *f, char *stack)
{
	f->done = 0;
	f->wait = NULL;
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = stack;
	f->context.uc_stack.ss_size = STACK_BYTES;
	f->context.uc_link = NULL;
	makecontext(&f->context, fiber_main, 0);
}

static void run_block(struct block *b, char *stacks, int order)
{
	uint32_t first = order ? ZIPG_THREADS - 1 : 0;

	memset(b->warp, 0, sizeof(b->warp));
	b->generation = 0;
	b->arrived = 0;
	b->left = ZIPG_THREADS;
	for (uint32_t t = 0; t < ZIPG_THREADS; t++)
		fiber_make(&b->fiber[t], stacks + (size_t)t * STACK_BYTES);
	zipg_emu_self.tid = first;
	swapcontext(&b->home, &b->fiber[first].context);
}

int zipg_emu_run(void (*kernel)(const struct zipg_job job), uint32_t grid, size_t shared_bytes,
		 const struct zipg_job *job, uint32_t width, int order)
{
	struct block *b = calloc(1, sizeof(*b));
	char *stacks = malloc((size_t)ZIPG_THREADS * STACK_BYTES);
	void *shared = aligned_alloc(64, (shared_bytes + 127) / 64 * 64);
	int rc = -1;

	if (!b || !stacks || !shared)
		goto out;
	b->kernel = kernel;
	b->job = job;
	b->backwards = order;
	self_block = b;
	zipg_emu_self.grid = grid;
	zipg_emu_self.width = width;
	zipg_emu_self.shared = shared;
	for (uint32_t i = 0; i < grid; i++) {
		/* What the block before left there must not be relied on. */
		memset(shared, 0xa5, shared_bytes);
		zipg_emu_self.bid = i;
		run_block(b, stacks, order);
	}
	self_block = NULL;
	rc = 0;
out:
	free(shared);
	free(stacks);
	free(b);
	return rc;
}
