/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes to and reads from remote memory, over a network that reorders, refuses, fails and dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_net.h"
#include "zipc_engine_priv.h"
#include "zipt_data.h"

#define OPS 14
#define SLOT 70000 /* of a region, for each operation: most of it is used, with something before and after */

static uint64_t clock_ahead_ms;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = (int)syscall(SYS_clock_gettime, id, ts);

	ts->tv_sec += (time_t)(clock_ahead_ms / 1000);
	return ret;
}

static const struct zipc_engine_attr usual = {.policy = ZIPC_POLICY_ALWAYS};
/* Two slots for each direction. */
static const struct zipc_engine_attr tight = {.policy = ZIPC_POLICY_ALWAYS, .staging = 2 * 12288};

/* One write or read of node `from` at node `to`, whose memory is cut into segments and ours into pieces at random. */
struct access {
	int from, to;
	bool write;
	unsigned flags;
	size_t len, niov, nsegs;
	uint8_t *local, *remote, *want; /* remote: SLOT bytes of a region; the access is at `at` of them */
	size_t at;
	struct iovec iov[3];
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS];
	struct fake_msg msg;
	int begun;
};

/* Every node's memory: region 0 may be written and read, 1 only read, 2 only written. */
static uint8_t *memory[FAKE_NODES];

static void add_regions(struct fake_world *w, int n)
{
	struct fake_region *region = w->node[n].region;
	int i;

	for (i = 0; i < 3; i++)
		region[i] = (struct fake_region){.base = memory[n], .len = OPS * SLOT, .write = i != 1, .read = i != 2};
}

static void open_met(struct fake_world *w, uint64_t seed, const struct zipc_engine_attr *attr)
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

/* Not more than `wait` seconds may pass before everything has an end. */
static void run_for(struct fake_world *w, int wait)
{
	int i;

	fake_run(w);
	for (i = 0; i < wait; i++) {
		clock_ahead_ms += 1000;
		fake_run(w);
	}
}

static void check_idle(struct fake_world *w)
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

static void access_init(struct access *a, struct fake_world *w, int from, int to, bool write, size_t len, int slot)
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

static void access_free(struct access *a)
{
	free(a->local);
	free(a->want);
}

static int access_begin(struct fake_world *w, struct access *a)
{
	a->begun = 1;
	return a->write ? fake_write(w, a->from, a->to, a->iov, a->niov, a->segs, a->nsegs, 0x1234567890 + a->len, a->flags, &a->msg) :
			  fake_read(w, a->from, a->to, a->iov, a->niov, a->segs, a->nsegs, &a->msg);
}

static void access_start(struct fake_world *w, struct access *a)
{
	unsigned tries = 0;
	int ret;

	while ((ret = access_begin(w, a)) == ZIPC_ERR_AGAIN) {
		fake_step(w);
		assert_true(++tries < 100000);
	}
	assert_int_equal(ret, 0);
}

/* Nothing but what was to be written is written. */
static void access_check_bounds(const struct access *a)
{
	size_t i;

	assert_int_equal(a->local[a->len], 0xee);
	for (i = 0; i < SLOT; i++)
		if (i < a->at || i >= a->at + a->len)
			assert_int_equal(a->remote[i], 0xee);
}

static void access_check(const struct access *a)
{
	assert_true(a->msg.done);
	assert_int_equal(a->msg.status, 0);
	assert_memory_equal(a->remote + a->at, a->want, a->len);
	assert_memory_equal(a->local, a->want, a->len);
	access_check_bounds(a);
}

/* ---- what is done when nothing goes wrong */

static void test_rma_sizes(void **state)
{
	static const size_t sizes[] = {256, 257, 8191, 8192, 8193, 8192 + 127, 8192 + 128, 16384, 16385, 40000, 65536, 65537};
	struct fake_world w;
	struct access a;
	unsigned i, n;

	(void)state;
	open_met(&w, 1, &usual);
	for (i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
		access_init(&a, &w, 0, 1, i & 1, sizes[i / 2], 0);
		n = a.segs[0].key - 1;
		access_start(&w, &a);
		assert_int_equal(zipc_peer_outstanding(fake_peer(&w, 0, 1)), 1);
		assert_int_equal(zipc_peer_outstanding(fake_peer(&w, 1, 0)), 0);
		assert_false(a.msg.done);
		fake_run(&w);
		access_check(&a);
		assert_int_equal(w.node[1].region[n].status, 0);
		assert_int_equal(w.node[1].region[n].nbytes, a.len);
		assert_int_equal(w.node[1].region[n].flags, a.write ? a.flags : 0);
		assert_int_equal(w.node[1].region[n].data,
				 a.write && (a.flags & ZIPC_RMA_DATA) ? 0x1234567890 + a.len : 0);
		access_free(&a);
	}
	check_idle(&w);
	fake_close(&w);
}

/* The initiator's completion comes after the target's, and after the last byte. */
static void test_rma_write_visible(void **state)
{
	struct fake_world w;
	struct access a;
	unsigned seed;

	(void)state;
	for (seed = 1; seed < 40; seed++) {
		open_met(&w, seed, seed & 1 ? &usual : &tight);
		access_init(&a, &w, 0, 1, true, 60000, 0);
		access_start(&w, &a);
		while (!a.msg.done)
			fake_step(&w);
		assert_int_equal(w.node[1].region[0].done + w.node[1].region[2].done, 1);
		access_check(&a);
		access_free(&a);
		fake_run(&w);
		check_idle(&w);
		fake_close(&w);
	}
}

/* Where the target polls the last byte, all others are in place when it changes. */
static void test_rma_poll(void **state)
{
	static const size_t sizes[] = {1000, 8192, 8193, 8192 + 127, 16384, 50000, 65536 + 100, 5 * 8192 + 8};
	struct fake_world w;
	struct access a;
	unsigned seed;
	bool early = false, seen;

	(void)state;
	for (seed = 0; seed < 160; seed++) {
		open_met(&w, seed + 1, &usual);
		access_init(&a, &w, 0, 1, true, sizes[seed % 8], 0);
		a.want[a.len - 1] = a.local[a.len - 1] = 0xdd;
		a.flags = seed & 8 ? ZIPC_RMA_POLL : 0;
		w.loose = true;
		access_start(&w, &a);
		for (seen = false; !a.msg.done; fake_step(&w)) {
			if (seen || a.remote[a.at + a.len - 1] != 0xdd)
				continue;
			seen = true;
			if (a.flags)
				assert_memory_equal(a.remote + a.at, a.want, a.len);
			else
				early |= !!memcmp(a.remote + a.at, a.want, a.len);
		}
		fake_run(&w);
		access_check(&a);
		access_free(&a);
		check_idle(&w);
		fake_close(&w);
	}
	assert_true(early); /* or this test would show nothing */
}

/* A last chunk that holds part of the tail only is avoided. */
static void test_rma_poll_chunks(void **state)
{
	struct zipc_engine_attr attr = usual;
	const struct zipc_rma_seg seg = {(uintptr_t)memory[1], 3 * 65536 + 8, 1};
	const struct iovec iov = {memory[0], 3 * 65536 + 8};
	struct zipc_send *send;
	struct fake_world w;

	(void)state;
	attr.chunk = 65536;
	attr.staging = 8 * 80000;
	open_met(&w, 1, &attr);
	memset(memory[0], 0, iov.iov_len);
	assert_int_equal(zipc_write_begin(w.node[0].engine, fake_peer(&w, 0, 1), &iov, 1, &seg, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(send->chunk, 65536);
	zipc_send_drop(send);
	assert_int_equal(zipc_write_begin(w.node[0].engine, fake_peer(&w, 0, 1), &iov, 1, &seg, 1, 0, ZIPC_RMA_POLL, NULL, &send), 0);
	assert_true(send->chunk < 65536 && send->nbytes % send->chunk >= ZIPC_RMA_TAIL);
	assert_int_equal(send->nchunks, (send->nbytes - 1) / send->chunk + 1);
	zipc_send_drop(send);
	check_idle(&w);
	fake_close(&w);
}

/* The tail's stores, at every alignment of its end and cut into pieces. */
static void test_rma_poll_tail(void **state)
{
	struct fake_world w;
	struct access a;
	unsigned i;

	(void)state;
	open_met(&w, 5, &usual);
	for (i = 0; i < 300; i++) {
		access_init(&a, &w, 0, 1, true, 8192 + 256 + i, 0);
		if (i % 3 == 0) { /* ends in pieces of a byte and a few */
			a.nsegs = ZIPC_RMA_SEGS;
			a.segs[0].len = a.len - 8 - i % 11;
			a.segs[1].len = i % 11;
			a.segs[2].len = 7;
			a.segs[3].len = 1;
			for (size_t n = 1; n < ZIPC_RMA_SEGS; n++) {
				a.segs[n].addr = a.segs[n - 1].addr + a.segs[n - 1].len;
				a.segs[n].key = 1;
			}
		}
		a.flags = ZIPC_RMA_POLL;
		access_start(&w, &a);
		fake_run(&w);
		access_check(&a);
		access_free(&a);
	}
	check_idle(&w);
	fake_close(&w);
}

/* ---- traffic: accesses among all, started at random times */

struct traffic {
	struct access a[OPS];
	unsigned begun;
};

static void traffic_init(struct traffic *tr, struct fake_world *w)
{
	int i, from;

	memset(tr, 0, sizeof(*tr));
	for (i = 0; i < OPS; i++) {
		from = (int)fake_random(w, FAKE_NODES);
		access_init(&tr->a[i], w, from, (from + 1 + i % 2) % FAKE_NODES, fake_random(w, 2), 256 + fake_random(w, i % 4 ? 9000 : 69000),
			    i);
	}
}

static void traffic_free(struct traffic *tr)
{
	int i;

	for (i = 0; i < OPS; i++)
		access_free(&tr->a[i]);
}

/* Starts one more, or takes a step. A peer that was lost is not written to. Returns false when all were started. */
static bool traffic_step(struct traffic *tr, struct fake_world *w)
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

static void traffic_run(struct fake_world *w)
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

static void test_rma_traffic(void **state)
{
	struct fake_world w;
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 60; seed++) {
		open_met(&w, seed, seed % 3 ? &usual : &tight);
		w.again = seed % 2 ? 0 : 150;
		w.ordered = seed & 4;
		w.late_commit = seed & 8;
		w.loose = seed & 16;
		traffic_run(&w);
		traffic_run(&w);
		check_idle(&w);
		fake_close(&w);
	}
}

/* Many to one, with little staging: all of them move on. */
static void test_rma_fair(void **state)
{
	static struct access a[2][OPS / 2];
	unsigned ended[2] = {0, 0};
	struct fake_world w;
	int i, n;

	(void)state;
	open_met(&w, 9, &tight);
	for (i = 0; i < 2; i++) {
		for (n = 0; n < OPS / 2; n++) {
			access_init(&a[i][n], &w, 1 + i, 0, n & 1, 60000, i * (OPS / 2) + n);
			access_start(&w, &a[i][n]);
		}
	}
	while (ended[0] < OPS / 2 && ended[1] < OPS / 2) {
		fake_step(&w);
		for (i = 0; i < 2; i++)
			for (n = 0, ended[i] = 0; n < OPS / 2; n++)
				ended[i] += !!a[i][n].msg.done;
	}
	assert_true(ended[0] > 1 && ended[1] > 1);
	fake_run(&w);
	for (i = 0; i < 2; i++) {
		for (n = 0; n < OPS / 2; n++) {
			access_check(&a[i][n]);
			access_free(&a[i][n]);
		}
	}
	check_idle(&w);
	fake_close(&w);
}

/* ---- what stays raw, what is refused */

static void test_rma_raw(void **state)
{
	struct zipc_engine_attr attr = usual;
	struct fake_world w;
	struct access a;
	int write;

	(void)state;
	fake_open(&w, 1, 1, &attr);
	w.no_rma = true;
	fake_start(&w, 1);
	fake_meet(&w, 0, 1);
	fake_run(&w);
	assert_true(zipc_peer_ready(fake_peer(&w, 0, 1)));
	assert_false(zipc_peer_rma(fake_peer(&w, 0, 1)));
	for (write = 0; write < 2; write++) {
		access_init(&a, &w, 0, 1, write, 10000, 0);
		assert_int_equal(access_begin(&w, &a), 1 + ZIPC_RAW_PEER);
		a.nsegs = 1; /* lengths that do not fit, none, too many */
		a.segs[0].len = a.len - 1;
		assert_int_equal(access_begin(&w, &a), 1 + ZIPC_RAW_SMALL);
		a.nsegs = 0;
		assert_int_equal(access_begin(&w, &a), 1 + ZIPC_RAW_SMALL);
		a.nsegs = ZIPC_RMA_SEGS + 1;
		assert_int_equal(access_begin(&w, &a), 1 + ZIPC_RAW_SMALL);
		access_free(&a);
		access_init(&a, &w, 0, 1, write, 255, 0);
		assert_int_equal(access_begin(&w, &a), 1 + ZIPC_RAW_SMALL);
		access_free(&a);
	}
	check_idle(&w);
	fake_close(&w);
}

/* Data that does not shrink is written raw; where it lies at the target, it comes in raw frames. */
static void test_rma_incompressible(void **state)
{
	struct zipc_engine_attr attr = {.policy = ZIPC_POLICY_RATIO};
	struct zipc_stats stats;
	struct fake_world w;
	struct access a;
	int write;

	(void)state;
	open_met(&w, 1, &attr);
	for (write = 0; write < 2; write++) {
		access_init(&a, &w, 0, 1, write, 60000, 0);
		zipt_fill(a.want, a.len, ZIPC_DTYPE_RAW, ZIPT_DIST_RANDOM, 0, 3);
		memcpy(write ? a.local : a.remote + a.at, a.want, a.len);
		assert_int_equal(access_begin(&w, &a), write ? 1 + ZIPC_RAW_DATA : 0);
		fake_run(&w);
		if (!write)
			access_check(&a);
		access_free(&a);
	}
	zipc_engine_stats(w.node[1].engine, &stats);
	assert_true(stats.wire_bytes > 60000 && stats.wire_bytes < 60000 + 9 * 64);
	check_idle(&w);
	fake_close(&w);
}

/* A read is measured by the reader, both ways. */
static void test_rma_read_measured(void **state)
{
	struct zipc_engine_attr attr = {.policy = ZIPC_POLICY_AUTO};
	struct fake_world w;
	struct access a;
	int i;

	(void)state;
	open_met(&w, 1, &attr);
	for (i = 0; i < 2; i++) {
		access_init(&a, &w, 0, 1, false, 60000, 0);
		access_start(&w, &a);
		fake_run(&w);
		access_check(&a);
		access_free(&a);
	}
	assert_true(fake_peer(&w, 0, 1)->read_judge.end_ns > 0);
	assert_true(fake_peer(&w, 0, 1)->read_judge.classes[0].sum.begun);
	assert_int_equal(fake_peer(&w, 1, 0)->judge.end_ns, 0);
	check_idle(&w);
	fake_close(&w);
}

static void test_rma_refused(void **state)
{
	static const struct {
		unsigned key, at, len; /* 0: as it is */
		int status;
	} cases[] = {
		{4, 0, 0, ZIPC_ERR_KEY}, {99, 0, 0, ZIPC_ERR_KEY}, {0x10001, 0, 0, ZIPC_ERR_KEY}, {2, 0, 0, ZIPC_ERR_ACCES},
		{1, OPS * SLOT - 9999, 0, ZIPC_ERR_INVAL}, {1, OPS * SLOT, 0, ZIPC_ERR_INVAL}, {1, 0x7fffffff, 0, ZIPC_ERR_INVAL},
	};
	struct fake_world w;
	struct access a;
	unsigned i;

	(void)state;
	open_met(&w, 1, &usual);
	for (i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		access_init(&a, &w, 0, 1, i & 1, 10000, 0);
		memset(a.remote, 0xee, SLOT);
		a.nsegs = 1;
		a.segs[0] = (struct zipc_rma_seg){(uintptr_t)memory[1] + cases[i / 2].at, 10000, cases[i / 2].key};
		if (cases[i / 2].key == 2 && !a.write)
			a.segs[0].key = 3;
		access_start(&w, &a);
		fake_run(&w);
		assert_true(a.msg.done);
		assert_int_equal(a.msg.status, cases[i / 2].status);
		memset(a.remote + a.at, 0xee, a.len); /* so that the check is that of an access to nothing */
		access_check_bounds(&a);
		access_free(&a);
		traffic_run(&w);
	}
	check_idle(&w);
	fake_close(&w);
}

/* ---- what ends early */

static void test_rma_drop(void **state)
{
	struct zipc_engine_attr attr = {.policy = ZIPC_POLICY_AUTO};
	struct zipc_send *send;
	struct zipc_recv *recv;
	struct fake_world w;
	struct access a;

	(void)state;
	open_met(&w, 1, &attr);
	access_init(&a, &w, 0, 1, true, 60000, 0);
	a.niov = 1;
	a.iov[0].iov_len = a.len;
	assert_int_equal(zipc_write_begin(w.node[0].engine, fake_peer(&w, 0, 1), a.iov, a.niov, a.segs, a.nsegs, 0, 0, NULL, &send), 0);
	zipc_send_drop(send);
	assert_int_equal(zipc_read_begin(w.node[0].engine, fake_peer(&w, 0, 1), a.iov, a.niov, a.segs, a.nsegs, 0, NULL, &recv), 0);
	zipc_read_drop(recv);
	assert_int_equal(fake_peer(&w, 0, 1)->judge.classes[0].under_way, 0);
	assert_int_equal(fake_peer(&w, 0, 1)->judge.classes[0].spent, 0);
	assert_int_equal(fake_peer(&w, 0, 1)->read_judge.classes[0].under_way, 0);
	assert_int_equal(fake_peer(&w, 0, 1)->read_judge.classes[0].spent, 0);
	fake_run(&w);
	access_free(&a);
	check_idle(&w);
	fake_close(&w);
}

/* A region goes away with transfers in any state: they end, and nothing touches it any more. */
static void test_rma_revoke(void **state)
{
	struct fake_region *region;
	struct fake_world w;
	struct access a[4];
	unsigned at, i, cut = 0;

	(void)state;
	for (at = 0; at < 150; at++) {
		open_met(&w, at + 1, at & 1 ? &usual : &tight);
		w.ordered = at & 2;
		w.faulty = true;
		w.again = at & 4 ? 100 : 0;
		region = w.node[1].region;
		for (i = 0; i < 4; i++) {
			access_init(&a[i], &w, i & 2, 1, i & 1, 30000 + 10000 * i, (int)i);
			a[i].segs[0].key = 1;
			access_start(&w, &a[i]);
		}
		for (i = 0; i < at; i++)
			fake_step(&w);
		region->base = NULL; /* no new ones */
		for (i = 0; zipc_rma_revoke(w.node[1].engine, region, ZIPC_ERR_KEY); i++) {
			fake_step(&w);
			assert_true(i < 1000);
		}
		assert_int_equal(region->opened, region->done);
		for (i = 0; i < 4; i++)
			memset(a[i].remote, 0x77, SLOT);
		fake_run(&w);
		for (i = 0; i < 4; i++) {
			assert_true(a[i].msg.done);
			if (a[i].msg.status)
				cut |= a[i].write ? 1 : 2;
			if (a[i].msg.status && a[i].write)
				assert_int_equal(a[i].msg.status, ZIPC_ERR_KEY);
			for (size_t n = 0; n < SLOT; n++)
				assert_int_equal(a[i].remote[n], 0x77);
			access_free(&a[i]);
		}
		w.again = 0;
		run_for(&w, 2);
		check_idle(&w);
		fake_close(&w);
	}
	assert_int_equal(cut, 3);
}

/* Whatever happened, after a new greeting everything works again. */
static void check_recovers(struct fake_world *w)
{
	int a, b;

	w->fail_at = w->again = 0;
	run_for(w, 3);
	check_idle(w);
	for (a = 0; a < FAKE_NODES; a++)
		for (b = 0; b < FAKE_NODES; b++)
			if (a != b)
				fake_meet(w, a, b);
	fake_run(w);
	for (a = 0; a < FAKE_NODES; a++)
		for (b = 0; b < FAKE_NODES; b++)
			assert_int_equal(zipc_peer_rma(fake_peer(w, a, b)), a != b);
	traffic_run(w);
	check_idle(w);
}

/* Every operation that was begun has ended, those that had nothing to do with node `bad` well. */
static void traffic_check_fault(const struct traffic *tr, const struct fake_world *w, int bad)
{
	int i;

	for (i = 0; i < OPS; i++) {
		const struct access *a = &tr->a[i];

		if (a->from != bad && a->to != bad)
			access_check(a);
		else if (a->begun && w->node[a->from].engine)
			assert_true(a->msg.done);
		if (a->begun && a->msg.done && !a->msg.status)
			access_check(a);
		else
			access_check_bounds(a);
	}
}

static void test_rma_failing_calls(void **state)
{
	unsigned at, i, last = 0;
	struct fake_world w;
	struct traffic tr;

	(void)state;
	for (at = 1; at <= last + 1; at++) {
		for (i = 0; i < 4; i++) {
			open_met(&w, 7 + i, i & 1 ? &tight : &usual);
			w.late_commit = i & 1;
			w.node[0].calls = 0;
			w.fail_at = at;
			w.faulty = true;
			w.fail_late = i & 2;
			traffic_init(&tr, &w);
			while (traffic_step(&tr, &w))
				;
			run_for(&w, 3);
			last = w.node[0].calls > last ? w.node[0].calls : last;
			traffic_check_fault(&tr, &w, 0);
			traffic_free(&tr);
			check_recovers(&w);
			fake_close(&w);
		}
		last = last > 40 ? 40 : last;
	}
	assert_true(last > 20);
}

static void kill_or_restart(unsigned seed, unsigned at, bool restart)
{
	struct fake_world w;
	struct traffic tr;
	unsigned step;
	int i;

	open_met(&w, seed, seed & 1 ? &tight : &usual);
	w.ordered = seed & 2;
	w.late_commit = seed & 4;
	traffic_init(&tr, &w);
	for (step = 0; step < at; step++)
		traffic_step(&tr, &w);
	fake_kill(&w, 1);
	w.faulty = true;
	for (i = 0; i < OPS; i++) /* what it had begun has nobody to be reported to */
		tr.a[i].begun = tr.a[i].begun && tr.a[i].from != 1;
	if (restart) {
		fake_start(&w, 1);
		add_regions(&w, 1);
		fake_meet(&w, 1, 0);
		fake_meet(&w, 1, 2);
		fake_run(&w);
	}
	while (traffic_step(&tr, &w))
		;
	run_for(&w, 4);
	traffic_check_fault(&tr, &w, 1);
	traffic_free(&tr);
	if (restart)
		check_recovers(&w);
	check_idle(&w);
	fake_close(&w);
}

static void test_rma_peer_dies(void **state)
{
	unsigned at;

	(void)state;
	for (at = 0; at < 200; at += 5)
		kill_or_restart(at, at, false);
}

static void test_rma_peer_restarts(void **state)
{
	unsigned at;

	(void)state;
	for (at = 0; at < 200; at += 5)
		kill_or_restart(at, at, true);
}

/* An endpoint closes with accesses in any state, ours and others': all end. */
static void test_rma_leaves(void **state)
{
	struct fake_world w;
	struct traffic tr;
	unsigned at, step, i;

	(void)state;
	for (at = 0; at < 120; at += 3) {
		open_met(&w, at, at & 1 ? &tight : &usual);
		w.ordered = w.faulty = true;
		traffic_init(&tr, &w);
		for (step = 0; step < at && traffic_step(&tr, &w); step++)
			;
		for (step = 0; zipc_engine_leave(w.node[1].engine) != ZIPC_LEAVING_DONE; step++) {
			fake_step(&w);
			assert_true(step < 5000);
		}
		for (i = 0; i < FAKE_REGIONS; i++)
			assert_int_equal(w.node[1].region[i].opened, w.node[1].region[i].done);
		for (i = 0; i < OPS; i++)
			assert_true(!tr.a[i].begun || tr.a[i].from != 1 || tr.a[i].msg.done);
		fake_kill(&w, 1);
		for (i = 0; i < OPS; i++)
			tr.a[i].begun = tr.a[i].begun && tr.a[i].from != 1;
		while (traffic_step(&tr, &w))
			;
		run_for(&w, 3);
		traffic_check_fault(&tr, &w, 1);
		check_idle(&w);
		traffic_free(&tr);
		fake_close(&w);
	}
}

static int setup(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < FAKE_NODES; i++)
		if (!(memory[i] = calloc(OPS, SLOT)))
			return -1;
	return 0;
}

static int teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < FAKE_NODES; i++)
		free(memory[i]);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rma_sizes),
		cmocka_unit_test(test_rma_write_visible),
		cmocka_unit_test(test_rma_poll),
		cmocka_unit_test(test_rma_poll_chunks),
		cmocka_unit_test(test_rma_poll_tail),
		cmocka_unit_test(test_rma_traffic),
		cmocka_unit_test(test_rma_fair),
		cmocka_unit_test(test_rma_raw),
		cmocka_unit_test(test_rma_incompressible),
		cmocka_unit_test(test_rma_read_measured),
		cmocka_unit_test(test_rma_refused),
		cmocka_unit_test(test_rma_drop),
		cmocka_unit_test(test_rma_revoke),
		cmocka_unit_test(test_rma_failing_calls),
		cmocka_unit_test(test_rma_peer_dies),
		cmocka_unit_test(test_rma_peer_restarts),
		cmocka_unit_test(test_rma_leaves),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
