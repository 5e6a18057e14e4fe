/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "test_rma_util.h"
#include "zipt_data.h"

const struct zipc_engine_attr usual = {.policy = ZIPC_POLICY_ALWAYS};
const struct zipc_engine_attr tight = {.policy = ZIPC_POLICY_ALWAYS, .staging = 2 * 12288};

uint8_t *memory[FAKE_NODES];

void add_regions(struct fake_world *w, int n)
{
	struct fake_region *region = w->node[n].region;
	int i;

	for (i = 0; i < 3; i++)
		region[i] = (struct fake_region){.base = memory[n], .len = OPS * SLOT, .write = i != 1, .read = i != 2};
}

void open_met(struct fake_world *w, uint64_t seed, const struct zipc_engine_attr *attr)
{
	int a, b;

	fake_open(w, seed, FAKE_NODES, attr);
	for (a = 0; a < FAKE_NODES; a++) {
		add_regions(w, a);
		for (b = 0; b < a; b++)
			fake_meet(w, a, b);
	}
	fake_run(w);
	for (a = 0; a < FAKE_NODES; a++)
		for (b = 0; b < FAKE_NODES; b++)
			assert_int_equal(zipc_peer_rma(fake_peer(w, a, b)), a != b);
}

void run_for(struct fake_world *w, int wait)
{
	int i;

	fake_run(w);
	for (i = 0; i < wait; i++) {
		clock_ahead_ms += 1000;
		fake_run(w);
	}
}

void check_idle(struct fake_world *w)
{
	struct zipc_stats stats;
	int a, b;

	for (a = 0; a < FAKE_NODES; a++) {
		if (!w->node[a].engine)
			continue;
		zipc_engine_stats(w->node[a].engine, &stats);
		assert_int_equal(stats.staging_bytes, 0);
		for (b = 0; b < FAKE_NODES; b++) {
			assert_int_equal(zipc_peer_active(fake_peer(w, a, b)), 0);
			assert_int_equal(zipc_peer_outstanding(fake_peer(w, a, b)), 0);
		}
		for (b = 0; b < FAKE_REGIONS; b++)
			assert_int_equal(w->node[a].region[b].opened, w->node[a].region[b].done);
		assert_int_equal(zipc_engine_busy(w->node[a].engine), 0);
		assert_true(!w->node[a].stray || w->faulty);
	}
}

void access_init(struct access *a, struct fake_world *w, int from, int to, bool write, size_t len, int slot)
{
	size_t i, left, n;
	uint64_t addr;

	memset(a, 0, sizeof(*a));
	a->from = from;
	a->to = to;
	a->write = write;
	a->len = len;
	a->at = 1 + fake_random(w, 60);
	assert_true(a->at + len < SLOT);
	a->local = malloc(len + 1);
	a->want = malloc(len);
	a->remote = memory[to] + (size_t)slot * SLOT;
	assert_true(a->local && a->want);
	zipt_fill(a->want, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, (unsigned)slot + 1);
	memset(a->local, 0xee, len + 1);
	memset(a->remote, 0xee, SLOT);
	memcpy(write ? a->local : a->remote + a->at, a->want, len);
	a->niov = 1 + fake_random(w, 3);
	a->nsegs = 1 + fake_random(w, ZIPC_RMA_SEGS);
	for (i = 0, left = len; i < a->niov; i++, left -= n) {
		n = i == a->niov - 1 ? left : fake_random(w, (uint32_t)left + 1);
		a->iov[i] = (struct iovec){a->local + len - left, n};
	}
	addr = (uintptr_t)(a->remote + a->at);
	for (i = 0, left = len; i < a->nsegs; i++, left -= n) {
		n = i == a->nsegs - 1 ? left : fake_random(w, (uint32_t)left + 1);
		a->segs[i] = (struct zipc_rma_seg){addr + (len - left), n, i % 2 ? 1 : write ? 3 : 2};
	}
	a->flags = fake_random(w, 4);
}

void access_free(struct access *a)
{
	free(a->local);
	free(a->want);
}

int access_begin(struct fake_world *w, struct access *a)
{
	a->begun = 1;
	return a->write ? fake_write(w, a->from, a->to, a->iov, a->niov, a->segs, a->nsegs, 0x1234567890 + a->len, a->flags, &a->msg) :
			  fake_read(w, a->from, a->to, a->iov, a->niov, a->segs, a->nsegs, &a->msg);
}

void access_start(struct fake_world *w, struct access *a)
{
	unsigned tries = 0;
	int ret;

	while ((ret = access_begin(w, a)) == ZIPC_ERR_AGAIN) {
		fake_step(w);
		assert_true(++tries < 100000);
	}
	assert_int_equal(ret, 0);
}

void access_check_bounds(const struct access *a)
{
	size_t i;

	assert_int_equal(a->local[a->len], 0xee);
	for (i = 0; i < SLOT; i++)
		if (i < a->at || i >= a->at + a->len)
			assert_int_equal(a->remote[i], 0xee);
}

void access_check(const struct access *a)
{
	assert_true(a->msg.done);
	assert_int_equal(a->msg.status, 0);
	assert_memory_equal(a->remote + a->at, a->want, a->len);
	assert_memory_equal(a->local, a->want, a->len);
	access_check_bounds(a);
}

void traffic_init(struct traffic *tr, struct fake_world *w)
{
	int i, from;

	memset(tr, 0, sizeof(*tr));
	for (i = 0; i < OPS; i++) {
		from = (int)fake_random(w, FAKE_NODES);
		access_init(&tr->a[i], w, from, (from + 1 + i % 2) % FAKE_NODES, fake_random(w, 2), 256 + fake_random(w, i % 4 ? 9000 : 69000),
			    i);
	}
}

void traffic_free(struct traffic *tr)
{
	int i;

	for (i = 0; i < OPS; i++)
		access_free(&tr->a[i]);
}

bool traffic_step(struct traffic *tr, struct fake_world *w)
{
	struct access *a = &tr->a[tr->begun];

	fake_step(w);
	if (tr->begun == OPS)
		return false;
	if (fake_random(w, 3))
		return true;
	tr->begun++;
	if (w->node[a->from].engine && zipc_peer_rma(fake_peer(w, a->from, a->to)))
		access_start(w, a);
	return true;
}

void traffic_run(struct fake_world *w)
{
	struct traffic tr;
	int i;

	traffic_init(&tr, w);
	while (traffic_step(&tr, w))
		;
	fake_run(w);
	for (i = 0; i < OPS; i++)
		access_check(&tr.a[i]);
	traffic_free(&tr);
}

int rma_setup(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < FAKE_NODES; i++)
		if (!(memory[i] = calloc(OPS, SLOT)))
			return -1;
	return 0;
}

int rma_teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < FAKE_NODES; i++)
		free(memory[i]);
	return 0;
}
