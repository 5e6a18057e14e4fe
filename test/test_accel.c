/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers that start or end in the memory of a device that is late, refuses, fails and dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "fake_net.h"
#include "zipc_accel_priv.h"
#include "zipt_data.h"

#define MESSAGES 14

static const struct zipc_engine_attr usual = {.policy = ZIPC_POLICY_ALWAYS};

/* What a world is like. */
struct how {
	unsigned devices;  /* bit n: node n has one, and all its buffers are there */
	unsigned slots;
	bool visible, direct;
	struct fake_accel fake;
};

static void open_met(struct fake_world *w, uint64_t seed, const struct zipc_engine_attr *attr, const struct how *how)
{
	struct fake_accel fake = how->fake;
	int a, b;

	fake_open(w, seed, FAKE_NODES, attr);
	for (a = 0; a < FAKE_NODES; a++) {
		fake.seed = seed + (unsigned)a;
		if (how->devices >> a & 1)
			fake_attach(w, a, &fake, how->slots ? how->slots : 24, how->visible, how->direct);
		for (b = 0; b < a; b++)
			fake_meet(w, a, b);
	}
	fake_run(w);
}

/* One message from one node to another. The buffers are gone as soon as they may be. */
struct transfer {
	int from, to;
	size_t len, room;
	uint8_t *want, *out, *in;
	struct fake_msg send, recv;
	bool sent, received, checked;
};

static void *there(const struct fake_world *w, int node, void *ptr)
{
	return w->node[node].accel ? fake_device(ptr) : ptr;
}

static void transfer_init(struct transfer *t, int from, int to, size_t len, enum zipt_dist dist, unsigned seed)
{
	memset(t, 0, sizeof(*t));
	t->from = from;
	t->to = to;
	t->len = t->room = len;
	t->want = malloc(len);
	t->out = malloc(len);
	t->in = malloc(len + 1);
	assert_true(t->want && t->out && t->in);
	zipt_fill(t->want, len, ZIPC_DTYPE_BF16, dist, 0.02, seed);
	memcpy(t->out, t->want, len);
	memset(t->in, 0xee, len + 1);
}

static void transfer_send(struct fake_world *w, struct transfer *t, uint64_t tag, unsigned flags)
{
	unsigned tries = 0;

	while (!fake_send(w, t->from, t->to, there(w, t->from, t->out), t->len, tag, ZIPC_SEND_TAGGED | flags, &t->send)) {
		fake_step(w);
		assert_true(++tries < 100000);
	}
	t->sent = true;
}

static void transfer_recv(struct fake_world *w, struct transfer *t, uint64_t tag)
{
	fake_recv(w, t->to, t->from, there(w, t->to, t->in), t->room, tag, &t->recv);
	t->received = true;
}

/* Once an end is reported its buffer is nobody's but the application's: it is looked at and freed at once. */
static void transfer_look(struct transfer *t)
{
	size_t kept = t->room < t->len ? t->room : t->len;

	if (t->send.done) {
		free(t->out);
		t->out = NULL;
	}
	if (!t->recv.done || t->checked)
		return;
	t->checked = true;
	if (!t->recv.status || t->recv.status == ZIPC_ERR_TRUNC) {
		assert_int_equal(t->recv.status, t->room < t->len ? ZIPC_ERR_TRUNC : 0);
		assert_int_equal(t->recv.kept, kept);
		assert_memory_equal(t->in, t->want, kept);
		assert_int_equal(t->in[kept], 0xee);
	}
	free(t->in);
	t->in = NULL;
}

static void transfer_end(struct transfer *t)
{
	assert_true(t->send.done && t->recv.done);
	transfer_look(t);
	assert_int_equal(t->send.status, 0);
	assert_true(!t->recv.status || t->recv.status == ZIPC_ERR_TRUNC);
	free(t->want);
}

static void transfer_free(struct transfer *t)
{
	free(t->want);
	free(t->out);
	free(t->in);
}

static void run_looking(struct fake_world *w, struct transfer *t, unsigned n)
{
	unsigned steps, i, quiet = 0;

	for (steps = 0; quiet < 300 && steps < 2000000; steps++) {
		quiet = fake_step(w) ? 0 : quiet + 1;
		for (i = 0; i < n; i++)
			transfer_look(&t[i]);
	}
	assert_true(quiet >= 300);
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
		for (b = 0; b < FAKE_NODES; b++)
			assert_int_equal(zipc_peer_active(fake_peer(w, a, b)), 0);
		assert_int_equal(zipc_engine_busy(w->node[a].engine), 0);
		assert_int_equal(w->node[a].fake.jobs, 0);
	}
}

static const enum zipt_dist dists[] = {ZIPT_DIST_GAUSS, ZIPT_DIST_RANDOM, ZIPT_DIST_ZEROS, ZIPT_DIST_GAUSS};

static void traffic_init(struct transfer *t, struct fake_world *w)
{
	int i, from;

	for (i = 0; i < MESSAGES; i++) {
		from = (int)fake_random(w, FAKE_NODES);
		transfer_init(&t[i], from, (from + 1 + i % 2) % FAKE_NODES, 256 + fake_random(w, i % 3 ? 20000 : 300000), dists[i % 4],
			      (unsigned)i);
	}
}

/* All messages, their ends started in any order. */
static void traffic_start(struct transfer *t, struct fake_world *w)
{
	unsigned left = 2 * MESSAGES, i;

	while (left) {
		i = fake_random(w, MESSAGES);
		fake_step(w);
		transfer_look(&t[i]);
		if (!t[i].sent && (t[i].received || fake_random(w, 2)))
			transfer_send(w, &t[i], i, i % 5 ? 0 : ZIPC_SEND_DELIVERY);
		else if (!t[i].received)
			transfer_recv(w, &t[i], i);
		else
			continue;
		left--;
	}
}

static void traffic(struct fake_world *w)
{
	struct transfer t[MESSAGES];
	int i;

	traffic_init(t, w);
	traffic_start(t, w);
	run_looking(w, t, MESSAGES);
	for (i = 0; i < MESSAGES; i++)
		transfer_end(&t[i]);
}

/* Every combination of memory at the ends, staging that can be read and not, devices that are in time, late and busy. */
static void test_accel_traffic(void **state)
{
	struct fake_world w;
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 64; seed++) {
		struct how how = {
			.devices = seed & 7, .slots = seed % 3 ? 24 : 2, .visible = seed & 8, .direct = seed & 16,
			.fake = {.slow = seed & 32 ? 12 : seed % 2, .again = seed % 5 ? 0 : 100},
		};

		open_met(&w, seed, &usual, &how);
		w.again = seed % 4 ? 0 : 120;
		w.late_commit = seed & 4;
		traffic(&w);
		traffic(&w);
		check_idle(&w);
		fake_close(&w);
	}
}

/* A large message is encoded in few jobs and from before there is credit; a buffer is looked at once. */
static void test_accel_streams(void **state)
{
	struct how how = {.devices = 3, .slots = 40, .visible = true, .fake = {.slow = 3}};
	struct fake_world w;
	struct transfer t;
	unsigned i;

	(void)state;
	open_met(&w, 5, &(struct zipc_engine_attr){.policy = ZIPC_POLICY_RATIO}, &how);
	transfer_init(&t, 0, 1, 80 * 8192, ZIPT_DIST_GAUSS, 1);
	transfer_send(&w, &t, 1, 0);
	for (i = 0; i < 1000; i++)
		fake_step(&w);
	assert_int_equal(w.node[0].fake.samples, 1);
	assert_true(w.node[0].fake.encodes >= 1 && w.node[0].fake.encodes <= 2);
	assert_int_equal(w.node[0].fake.most_frames, 16);
	transfer_recv(&w, &t, 1);
	run_looking(&w, &t, 1);
	assert_true(w.node[0].fake.encodes <= 14);
	assert_true(w.node[1].fake.decodes < 80);
	transfer_end(&t);
	check_idle(&w);
	fake_close(&w);
}

/* Random bits do not shrink, and go in raw frames where the network cannot take them as they are. A buffer is looked at once. */
static void test_accel_remembers(void **state)
{
	struct how how = {.devices = 3, .visible = true};
	uint8_t *out = malloc(100000), *in = malloc(100000);
	struct fake_msg send, recv;
	struct zipc_stats stats;
	struct fake_world w;
	unsigned i;

	(void)state;
	open_met(&w, 5, &(struct zipc_engine_attr){.policy = ZIPC_POLICY_RATIO}, &how);
	zipt_fill(out, 100000, ZIPC_DTYPE_BF16, ZIPT_DIST_RANDOM, 1, 1);
	for (i = 0; i < 10; i++) {
		fake_recv(&w, 1, 0, fake_device(in), 100000, i, &recv);
		assert_true(fake_send(&w, 0, 1, fake_device(out), 100000, i, ZIPC_SEND_TAGGED, &send));
		fake_run(&w);
		assert_true(send.done && recv.done && !send.status && !recv.status);
		assert_memory_equal(in, out, 100000);
	}
	zipc_engine_stats(w.node[0].engine, &stats);
	assert_int_equal(stats.sends, 10);
	assert_int_equal(stats.raw[ZIPC_RAW_DATA], 9);
	assert_int_equal(w.node[0].fake.samples, 1);
	assert_true(stats.wire_bytes >= stats.send_bytes && stats.wire_bytes < stats.send_bytes + stats.send_bytes / 64);
	free(out);
	free(in);
	check_idle(&w);
	fake_close(&w);
}

/* Where the network takes device memory itself, what does not shrink is raw from the second time on. */
static void test_accel_direct(void **state)
{
	struct how how = {.devices = 3, .direct = true};
	struct zipc_stats stats;
	struct fake_world w;
	uint8_t *out = malloc(100000), *in = malloc(100000);
	struct fake_msg send, recv;
	unsigned i;

	(void)state;
	open_met(&w, 5, &(struct zipc_engine_attr){.policy = ZIPC_POLICY_RATIO}, &how);
	zipt_fill(out, 100000, ZIPC_DTYPE_BF16, ZIPT_DIST_RANDOM, 1, 1);
	for (i = 0; i < 10; i++) {
		fake_recv(&w, 1, 0, fake_device(in), 100000, i, &recv);
		assert_true(fake_send(&w, 0, 1, fake_device(out), 100000, i, ZIPC_SEND_TAGGED, &send));
		fake_run(&w);
		assert_true(send.done && recv.done && !send.status && !recv.status);
		assert_memory_equal(in, out, 100000);
	}
	zipc_engine_stats(w.node[0].engine, &stats);
	assert_int_equal(stats.sends, 1);
	assert_int_equal(stats.raw[ZIPC_RAW_DATA], 9);
	assert_int_equal(w.node[0].fake.samples, 1);
	free(out);
	free(in);
	check_idle(&w);
	fake_close(&w);
}

/* Receives posted in the reverse order of the sends, both ways, with staging for a small part of it. */
static void test_accel_reverse(void **state)
{
	struct transfer t[40];
	struct fake_world w;
	int i, round;

	(void)state;
	for (round = 0; round < 6; round++) {
		struct how how = {.devices = round % 3 + 1, .slots = 3 + (unsigned)round, .visible = round & 1, .fake = {.slow = 4}};

		open_met(&w, 3 + (unsigned)round, &usual, &how);
		for (i = 0; i < 40; i++) {
			transfer_init(&t[i], i & 1, !(i & 1), 60000, ZIPT_DIST_GAUSS, (unsigned)i);
			transfer_send(&w, &t[i], (uint64_t)i, 0);
		}
		fake_run(&w);
		for (i = 39; i >= 0; i--)
			transfer_recv(&w, &t[i], (uint64_t)i);
		run_looking(&w, t, 40);
		for (i = 0; i < 40; i++)
			transfer_end(&t[i]);
		check_idle(&w);
		fake_close(&w);
	}
}

static void test_accel_truncation(void **state)
{
	static const size_t rooms[] = {0, 1, 58, 8191, 8192, 8193, 16384, 39999, 40000, 50000};
	struct fake_world w;
	struct transfer t;
	unsigned i, k;

	(void)state;
	for (k = 0; k < 4; k++) {
		struct how how = {.devices = 3, .visible = k & 1, .fake = {.slow = k & 2 ? 5 : 0}};

		open_met(&w, 4, &usual, &how);
		for (i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
			transfer_init(&t, 0, 1, 40000, ZIPT_DIST_GAUSS, i);
			t.room = rooms[i];
			if (t.room > t.len) {
				t.in = realloc(t.in, t.room + 1);
				memset(t.in, 0xee, t.room + 1);
			}
			transfer_recv(&w, &t, i);
			transfer_send(&w, &t, i, i % 2 ? ZIPC_SEND_DELIVERY : 0);
			run_looking(&w, &t, 1);
			transfer_end(&t);
		}
		check_idle(&w);
		fake_close(&w);
	}
}

/* Segments that cut chunks in the middle, at both ends, and not at the same places. */
static void test_accel_segments(void **state)
{
	enum { LEN = 90001 };
	static const size_t cuts[][ZIPC_IOV_MAX - 1] = {
		{1, 2, 8191, 8193, 30000, 70000, 90000}, {8192, 16384, 16385, 16386, 24576, 40960, 81920}, {0, 0, 5, 60000, 60000, 90000, 90001},
	};
	struct fake_world w;
	unsigned round, i;

	(void)state;
	for (round = 0; round < 9; round++) {
		struct how how = {.devices = 3, .slots = 6, .visible = round & 1, .fake = {.slow = 3, .again = round & 2 ? 100 : 0}};
		uint8_t *out = malloc(LEN), *in = malloc(LEN);
		struct iovec from[ZIPC_IOV_MAX], to[2];
		struct fake_msg send, recv;
		size_t at = 0;

		zipt_fill(out, LEN, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, round);
		for (i = 0; i < ZIPC_IOV_MAX; i++) {
			size_t end = i == ZIPC_IOV_MAX - 1 ? LEN : cuts[round % 3][i];

			from[i] = (struct iovec){fake_device(out + at), end - at};
			at = end;
		}
		to[0] = (struct iovec){fake_device(in), cuts[round / 3][4]};
		to[1] = (struct iovec){fake_device(in + to[0].iov_len), LEN - to[0].iov_len};
		open_met(&w, round, &usual, &how);
		fake_recvv(&w, 1, 0, to, 2, 7, &recv);
		while (!fake_sendv(&w, 0, 1, from, ZIPC_IOV_MAX, 7, ZIPC_SEND_TAGGED, &send))
			fake_step(&w);
		run_looking(&w, NULL, 0);
		assert_true(send.done && recv.done && !send.status && !recv.status);
		assert_memory_equal(out, in, LEN);
		check_idle(&w);
		fake_close(&w);
		free(out);
		free(in);
	}
}

/* Everything has an end, and what has a good one is right. */
static void check_ends(struct transfer *t, const struct fake_world *w)
{
	int i;

	for (i = 0; i < MESSAGES; i++) {
		transfer_look(&t[i]);
		if (t[i].sent && w->node[t[i].from].engine && !t[i].send.done)
			fail_msg("message %d of %zu bytes, %d to %d, sent %d received %d: received %d", i, t[i].len, t[i].from, t[i].to,
				 t[i].sent, t[i].received, t[i].recv.done);
		if (t[i].sent && t[i].received && w->node[t[i].to].engine)
			assert_true(t[i].recv.done);
	}
}

/* Each start of a job fails in turn: one transfer ends with an error, the others well. */
static void test_accel_failing_starts(void **state)
{
	struct transfer t[MESSAGES];
	struct fake_world w;
	unsigned at, bad;
	int i;

	(void)state;
	for (at = 1; at <= 40; at++) {
		struct how how = {.devices = 7, .visible = at & 1, .fake = {.slow = at & 2 ? 6 : 0, .fail_start = at}};

		open_met(&w, at, &usual, &how);
		w.node[1].fake.fail_start = w.node[2].fake.fail_start = 0;
		traffic_init(t, &w);
		traffic_start(t, &w);
		run_looking(&w, t, MESSAGES);
		check_ends(t, &w);
		for (i = 0, bad = 0; i < MESSAGES; i++)
			bad += t[i].send.status || t[i].recv.status;
		assert_true(bad <= 1 && (bad || w.node[0].fake.starts < at));
		assert_true(!bad || w.node[0].logs);
		check_idle(&w);
		for (i = 0; i < MESSAGES; i++)
			transfer_free(&t[i]);
		fake_close(&w);
	}
}

/* The device dies at any time: what is on it ends with an error, other memory is not touched by that. */
static void test_accel_device_dies(void **state)
{
	struct transfer t[MESSAGES];
	struct fake_world w;
	unsigned at;
	int i;

	(void)state;
	for (at = 1; at <= 300; at += 7) {
		struct how how = {.devices = at % 2 ? 7 : 1, .visible = at & 4, .fake = {.slow = 4, .die_poll = at}};

		open_met(&w, at, &usual, &how);
		w.node[1].fake.die_poll = w.node[2].fake.die_poll = 0;
		traffic_init(t, &w);
		traffic_start(t, &w);
		run_looking(&w, t, MESSAGES);
		check_ends(t, &w);
		for (i = 0; i < MESSAGES; i++) {
			if (t[i].from && t[i].to)
				assert_true(!t[i].send.status && !t[i].recv.status);
			transfer_free(&t[i]);
		}
		assert_int_equal(zipc_accel_dead(w.node[0].accel), w.node[0].fake.polls >= at);
		check_idle(&w);
		fake_close(&w);
	}
}

/* A peer dies while devices read and write buffers: these are reported, and may go, only when the devices are done. */
static void test_accel_peer_dies(void **state)
{
	struct transfer t[MESSAGES];
	struct fake_world w;
	unsigned seed, step;
	int i;

	(void)state;
	for (seed = 1; seed <= 40; seed++) {
		struct how how = {.devices = 7, .slots = 8, .visible = seed & 1, .fake = {.slow = 30}};

		open_met(&w, seed, &usual, &how);
		traffic_init(t, &w);
		traffic_start(t, &w);
		for (step = 0; step < seed * 20; step++)
			fake_step(&w);
		fake_kill(&w, 2);
		for (i = 0; i < 4; i++) {
			run_looking(&w, t, MESSAGES);
			clock_ahead_ms += 1000;
		}
		check_ends(t, &w);
		for (i = 0; i < 2; i++)
			assert_int_equal(w.node[i].fake.jobs, 0);
		for (i = 0; i < MESSAGES; i++)
			transfer_free(&t[i]);
		fake_close(&w);
	}
}

/* A closing engine waits for its device; one that never ends is left after a while. */
static void test_accel_closes(void **state)
{
	struct transfer t[MESSAGES];
	struct fake_world w;
	unsigned seed, step;
	int i;

	(void)state;
	for (seed = 1; seed <= 10; seed++) {
		struct how how = {.devices = 7, .fake = {.slow = 20}};

		open_met(&w, seed, &usual, &how);
		traffic_init(t, &w);
		traffic_start(t, &w);
		for (step = 0; step < seed * 30; step++)
			fake_step(&w);
		fake_close(&w);
		for (i = 0; i < MESSAGES; i++)
			transfer_free(&t[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accel_traffic),
		cmocka_unit_test(test_accel_streams),
		cmocka_unit_test(test_accel_remembers),
		cmocka_unit_test(test_accel_direct),
		cmocka_unit_test(test_accel_reverse),
		cmocka_unit_test(test_accel_truncation),
		cmocka_unit_test(test_accel_segments),
		cmocka_unit_test(test_accel_failing_starts),
		cmocka_unit_test(test_accel_device_dies),
		cmocka_unit_test(test_accel_peer_dies),
		cmocka_unit_test(test_accel_closes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
