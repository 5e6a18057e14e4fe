/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer engine over a network that reorders, refuses, fails and dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "fake_net.h"
#include "zipc_engine_priv.h"
#include "zipt_data.h"

#define MESSAGES 12
#define MOST_BYTES 70000

static const struct zipc_engine_attr usual = {.policy = ZIPC_POLICY_ALWAYS};
/* Two slots for each direction. */
static const struct zipc_engine_attr tight = {.policy = ZIPC_POLICY_ALWAYS, .staging = 2 * 12288};

/* One message from one node to another. */
struct transfer {
	int from, to;
	size_t len, room;
	uint8_t *out, *in;
	struct fake_msg send, recv;
};

static void open_met(struct fake_world *w, uint64_t seed, const struct zipc_engine_attr *attr)
{
	int a, b;

	fake_open(w, seed, FAKE_NODES, attr);
	for (a = 0; a < FAKE_NODES; a++)
		for (b = 0; b < a; b++)
			fake_meet(w, a, b);
	fake_run(w);
	for (a = 0; a < FAKE_NODES; a++)
		for (b = 0; b < FAKE_NODES; b++)
			assert_int_equal(zipc_peer_ready(fake_peer(w, a, b)), a != b);
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
		/* Only a peer that was given up, or took a fault for granted, sends chunks that nobody waits for. */
		assert_true(!w->node[a].stray || w->faulty);
	}
}

static void transfer_init(struct transfer *t, int from, int to, size_t len, unsigned seed)
{
	memset(t, 0, sizeof(*t));
	t->from = from;
	t->to = to;
	t->len = t->room = len;
	t->out = malloc(len);
	t->in = malloc(len + 1);
	assert_true(t->out && t->in);
	zipt_fill(t->out, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, seed);
	memset(t->in, 0xee, len + 1);
}

static void transfer_send(struct fake_world *w, struct transfer *t, uint64_t tag, unsigned flags)
{
	unsigned tries = 0;

	while (!fake_send(w, t->from, t->to, t->out, t->len, tag, ZIPC_SEND_TAGGED | flags, &t->send)) {
		fake_step(w);
		assert_true(++tries < 100000);
	}
}

static void transfer_recv(struct fake_world *w, struct transfer *t, uint64_t tag)
{
	fake_recv(w, t->to, t->from, t->in, t->room, tag, &t->recv);
}

static bool is_posted(const struct fake_msg *msg)
{
	return msg->link.next && msg->link.next != &msg->link;
}

static void transfer_check(const struct transfer *t)
{
	size_t kept = t->room < t->len ? t->room : t->len;

	assert_true(t->send.done && t->recv.done);
	assert_int_equal(t->send.status, 0);
	assert_int_equal(t->recv.status, t->room < t->len ? ZIPC_ERR_TRUNC : 0);
	assert_int_equal(t->recv.kept, kept);
	assert_int_equal(t->recv.nbytes, t->len);
	assert_memory_equal(t->in, t->out, kept);
	assert_int_equal(t->in[kept], 0xee);
}

static void transfer_free(struct transfer *t)
{
	free(t->out);
	free(t->in);
}

/* ---- traffic: messages among all, started in a random order, each end at its own time */

struct traffic {
	struct transfer t[MESSAGES];
	bool sent[MESSAGES], received[MESSAGES];
	uint64_t tag;
};

static void traffic_init(struct traffic *tr, struct fake_world *w, uint64_t tag)
{
	int i, from;

	memset(tr, 0, sizeof(*tr));
	tr->tag = tag;
	for (i = 0; i < MESSAGES; i++) {
		from = (int)fake_random(w, FAKE_NODES);
		transfer_init(&tr->t[i], from, (from + 1 + i % 2) % FAKE_NODES, 256 + fake_random(w, i % 4 ? 9000 : MOST_BYTES), i);
	}
}

static void traffic_free(struct traffic *tr)
{
	int i;

	for (i = 0; i < MESSAGES; i++)
		transfer_free(&tr->t[i]);
}

/* Starts one more end, or takes a step. Ends at dead nodes are not started. Returns false when all were started. */
static bool traffic_step(struct traffic *tr, struct fake_world *w)
{
	int i = (int)fake_random(w, MESSAGES), n;

	fake_step(w);
	for (n = 0; n < MESSAGES; n++, i = (i + 1) % MESSAGES) {
		struct transfer *t = &tr->t[i];

		if (tr->sent[i] && tr->received[i])
			continue;
		if (!tr->sent[i] && (tr->received[i] || fake_random(w, 2))) {
			if (w->node[t->from].engine)
				transfer_send(w, t, tr->tag + i, i % 5 == 0 ? ZIPC_SEND_DELIVERY : 0);
			tr->sent[i] = true;
		} else {
			if (w->node[t->to].engine)
				transfer_recv(w, t, tr->tag + i);
			tr->received[i] = true;
		}
		return true;
	}
	return false;
}

static void traffic_check(const struct traffic *tr)
{
	int i;

	for (i = 0; i < MESSAGES; i++)
		transfer_check(&tr->t[i]);
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

static void traffic_run(struct fake_world *w, uint64_t tag)
{
	struct traffic tr;

	traffic_init(&tr, w, tag);
	while (traffic_step(&tr, w))
		;
	fake_run(w);
	traffic_check(&tr);
	traffic_free(&tr);
}

/*
 * After a fault of node `bad`: every operation has ended, those without it well. What waits for a message that was never
 * sent may wait.
 */
static void traffic_check_fault(const struct traffic *tr, const struct fake_world *w, int bad)
{
	int i;

	for (i = 0; i < MESSAGES; i++) {
		const struct transfer *t = &tr->t[i];

		if (t->from != bad && t->to != bad) {
			transfer_check(t);
			continue;
		}
		if (t->from != bad || w->node[bad].engine)
			assert_true(t->send.done || !tr->sent[i]);
		if (t->to != bad)
			assert_true(t->recv.done || is_posted(&t->recv) || !tr->received[i]);
		if (t->to != bad && t->recv.done && !t->recv.status)
			assert_memory_equal(t->in, t->out, t->len);
	}
}

static void test_engine_traffic(void **state)
{
	struct fake_world w;
	unsigned seed;

	(void)state;
	for (seed = 1; seed <= 36; seed++) {
		open_met(&w, seed, seed % 3 ? &usual : &tight);
		w.again = seed % 2 ? 0 : 150;
		w.ordered = seed & 4;
		w.late_commit = seed & 8;
		traffic_run(&w, 100);
		traffic_run(&w, 200);
		check_idle(&w);
		fake_close(&w);
	}
}

/* The smaller chunk of the two counts, whoever sends. */
static void test_engine_other_limits(void **state)
{
	struct fake_world w;
	unsigned i;

	(void)state;
	for (i = 0; i < 4; i++) {
		fake_open(&w, 1 + i, 0, &usual);
		w.node[i % 3].attr.chunk = 65536;
		w.node[i % 3].attr.staging = 2 * 69632;
		w.node[(i + 1) % 3].attr.chunk = 16384;
		w.node[(i + 1) % 3].attr.staging = 20480;
		for (int n = 0; n < FAKE_NODES; n++)
			fake_start(&w, n);
		fake_meet(&w, 0, 1);
		fake_meet(&w, 2, 0);
		fake_meet(&w, 2, 1);
		fake_run(&w);
		traffic_run(&w, 1);
		check_idle(&w);
		fake_close(&w);
	}
}

/* Receives posted in the reverse order of the sends; what is unmatched holds no staging. */
static void test_engine_reverse(void **state)
{
	struct transfer t[64];
	struct zipc_stats stats;
	struct fake_world w;
	int i;

	(void)state;
	open_met(&w, 3, &tight);
	for (i = 0; i < 64; i++) {
		transfer_init(&t[i], i & 1, !(i & 1), 20000, i);
		transfer_send(&w, &t[i], i, 0);
	}
	fake_run(&w);
	for (i = 0; i < 2; i++) {
		zipc_engine_stats(w.node[i].engine, &stats);
		assert_int_equal(stats.staging_bytes, 0);
	}
	for (i = 63; i >= 0; i--)
		transfer_recv(&w, &t[i], i);
	fake_run(&w);
	for (i = 0; i < 64; i++) {
		transfer_check(&t[i]);
		transfer_free(&t[i]);
	}
	check_idle(&w);
	fake_close(&w);
}

static void test_engine_truncation(void **state)
{
	static const size_t rooms[] = {0, 1, 58, 8191, 8192, 8193, 16384, 39999, 40000};
	struct fake_world w;
	struct transfer t;
	unsigned i;

	(void)state;
	open_met(&w, 4, &usual);
	for (i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
		transfer_init(&t, 0, 1, 40000, i);
		t.room = rooms[i];
		transfer_recv(&w, &t, i);
		transfer_send(&w, &t, i, i % 2 ? ZIPC_SEND_DELIVERY : 0);
		fake_run(&w);
		transfer_check(&t);
		transfer_free(&t);
	}
	check_idle(&w);
	fake_close(&w);
}

/* A measurement that a truncated message cannot give is given up, or that way would never be measured again. */
static void test_engine_truncation_measured(void **state)
{
	const struct zipc_engine_attr attr = {.policy = ZIPC_POLICY_AUTO};
	struct fake_world w;
	struct transfer t;
	int i;

	(void)state;
	open_met(&w, 4, &attr);
	for (i = 0; i < 2; i++) {
		transfer_init(&t, 0, 1, 60000, 1);
		t.room = 20000;
		transfer_recv(&w, &t, 1);
		transfer_send(&w, &t, 1, 0);
		fake_run(&w);
		transfer_check(&t);
		transfer_free(&t);
		assert_int_equal(fake_peer(&w, 0, 1)->judge.classes[0].under_way, 0);
	}
	check_idle(&w);
	fake_close(&w);
}

static void test_engine_peek_claim_discard(void **state)
{
	struct zipc_recv *first, *second;
	struct fake_packet *packet;
	struct transfer t[3];
	struct fake_world w;
	size_t nbytes;
	int i;

	(void)state;
	open_met(&w, 5, &usual);
	assert_null(zipc_recv_peek(w.node[1].engine, NULL, 7, 0, &nbytes));
	for (i = 0; i < 3; i++) {
		transfer_init(&t[i], 0, 1, 10000 + i, i);
		transfer_send(&w, &t[i], 7, 0);
	}
	fake_run(&w);
	first = zipc_recv_peek(w.node[1].engine, NULL, 7, 0, &nbytes);
	assert_true(first && nbytes == 10000);
	assert_ptr_equal(zipc_recv_peek(w.node[1].engine, NULL, 7, 1, &nbytes), first);
	second = zipc_recv_peek(w.node[1].engine, NULL, 7, 1, &nbytes);
	assert_true(second && second != first && nbytes == 10001);
	packet = fake_take(&w, 1, 7); /* the first is received after all */
	assert_non_null(packet);
	t[0].recv.link.next = NULL;
	assert_int_equal(zipc_recv_match(w.node[1].engine, packet->data,
					 &(struct iovec){t[0].in, t[0].len}, 1, &t[0].recv), 0);
	fake_packet_free(packet);
	packet = fake_take(&w, 1, 7); /* the second is dropped by the core */
	zipc_recv_drop(second);
	fake_packet_free(packet);
	packet = fake_take(&w, 1, 7); /* the third by its placeholder */
	assert_int_equal(zipc_recv_discard(w.node[1].engine, packet->data), 0);
	fake_packet_free(packet);
	fake_run(&w);
	transfer_check(&t[0]);
	for (i = 0; i < 3; i++) {
		assert_true(t[i].send.done && !t[i].send.status);
		transfer_free(&t[i]);
	}
	check_idle(&w);
	fake_close(&w);
}

/* Messages of two peers with one tag: who is asked for decides whose length is told. */
static void test_engine_peek_peer(void **state)
{
	struct zipc_recv *recv;
	struct transfer t[2];
	struct fake_world w;
	size_t nbytes;
	int i;

	(void)state;
	open_met(&w, 6, &usual);
	for (i = 0; i < 2; i++) {
		transfer_init(&t[i], i, 2, 10000 + i, i);
		transfer_send(&w, &t[i], 7, 0);
	}
	fake_run(&w);
	for (i = 1; i >= 0; i--) {
		recv = zipc_recv_peek(w.node[2].engine, fake_peer(&w, 2, i), 7, 1, &nbytes);
		assert_true(recv && nbytes == 10000 + (size_t)i);
		assert_null(zipc_recv_peek(w.node[2].engine, fake_peer(&w, 2, i), 7, 0, &nbytes));
		zipc_recv_drop(recv);
	}
	assert_null(zipc_recv_peek(w.node[2].engine, NULL, 7, 0, &nbytes));
	fake_run(&w);
	for (i = 0; i < 2; i++) {
		fake_packet_free(fake_take(&w, 2, 7));
		assert_true(t[i].send.done && !t[i].send.status);
		transfer_free(&t[i]);
	}
	check_idle(&w);
	fake_close(&w);
}

/* ---- faults, at every point at which there can be one */

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
			assert_int_equal(zipc_peer_ready(fake_peer(w, a, b)), a != b);
	traffic_run(w, 5000);
	check_idle(w);
}

static void test_engine_failing_calls(void **state)
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
			traffic_init(&tr, &w, 100);
			while (traffic_step(&tr, &w))
				;
			run_for(&w, 3);
			last = w.node[0].calls > last ? w.node[0].calls : last;
			traffic_check_fault(&tr, &w, 0);
			for (int n = 0; n < FAKE_NODES; n++)
				while (zipc_list_pop(&w.node[n].posted))
					;
			check_recovers(&w);
			traffic_free(&tr);
			fake_close(&w);
		}
		last = last > 30 ? 30 : last;
	}
	assert_true(last > 20);
}

static void kill_or_restart(unsigned seed, unsigned at, bool restart)
{
	struct fake_world w;
	struct traffic tr;
	unsigned step;

	open_met(&w, seed, seed & 1 ? &tight : &usual);
	w.ordered = seed & 2;
	w.late_commit = seed & 4;
	traffic_init(&tr, &w, 100);
	for (step = 0; step < at; step++)
		if (!traffic_step(&tr, &w) && !fake_step(&w))
			break;
	fake_kill(&w, 1);
	w.faulty = true;
	if (restart) {
		fake_start(&w, 1);
		fake_meet(&w, 1, 0);
		fake_meet(&w, 1, 2);
		fake_run(&w);
	}
	for (step = 0; step < MESSAGES; step++) /* what was not started between 1 and others will not be */
		if (tr.t[step].from == 1 || tr.t[step].to == 1)
			tr.sent[step] = tr.received[step] = true;
	while (traffic_step(&tr, &w))
		;
	run_for(&w, 4);
	for (step = 0; step < MESSAGES; step++)
		if (tr.t[step].from == 1 && !restart)
			tr.sent[step] = false;
	for (step = 0; step < MESSAGES; step++) {
		const struct transfer *t = &tr.t[step];

		if (t->from != 1 && t->to != 1)
			transfer_check(t);
		if (t->to == 1 && t->send.done == 0)
			assert_null(t->send.link.next); /* never begun: begun ones have ended */
		if (t->from == 1 && t->recv.done && !t->recv.status)
			assert_memory_equal(t->in, t->out, t->len);
	}
	if (restart) {
		for (int n = 0; n < FAKE_NODES; n++)
			while (zipc_list_pop(&w.node[n].posted))
				;
		check_recovers(&w);
	}
	check_idle(&w);
	traffic_free(&tr);
	fake_close(&w);
}

static void test_engine_peer_dies(void **state)
{
	unsigned at;

	(void)state;
	for (at = 0; at < 200; at += 5)
		kill_or_restart(at, at, false);
}

static void test_engine_peer_restarts(void **state)
{
	unsigned at;

	(void)state;
	for (at = 0; at < 200; at += 5)
		kill_or_restart(at, at, true);
}

/* An endpoint closes with transfers in any state: who had to do with it is told, and what it reported as sent arrives. */
static void test_engine_leaves(void **state)
{
	struct fake_world w;
	struct traffic tr;
	unsigned at, step;

	(void)state;
	for (at = 0; at < 120; at += 3) {
		open_met(&w, at, at & 1 ? &tight : &usual);
		w.ordered = true;
		w.faulty = true;
		traffic_init(&tr, &w, 100);
		for (step = 0; step < at && traffic_step(&tr, &w); step++)
			;
		for (step = 0; zipc_engine_leave(w.node[1].engine) != ZIPC_LEAVING_DONE; step++) {
			fake_step(&w);
			assert_true(step < 5000);
		}
		fake_kill(&w, 1);
		run_for(&w, 3);
		for (step = 0; step < MESSAGES; step++) {
			const struct transfer *t = &tr.t[step];

			assert_true(!tr.sent[step] || t->send.done);
			assert_true(!tr.received[step] || t->recv.done || is_posted(&t->recv) || t->to == 1);
			if (tr.sent[step] && tr.received[step] && !t->send.status && t->from == 1 && t->recv.done)
				assert_true(!t->recv.status && !memcmp(t->in, t->out, t->len));
		}
		check_idle(&w);
		traffic_free(&tr);
		fake_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engine_traffic),
		cmocka_unit_test(test_engine_other_limits),
		cmocka_unit_test(test_engine_reverse),
		cmocka_unit_test(test_engine_truncation),
		cmocka_unit_test(test_engine_truncation_measured),
		cmocka_unit_test(test_engine_peek_claim_discard),
		cmocka_unit_test(test_engine_peek_peer),
		cmocka_unit_test(test_engine_leaves),
		cmocka_unit_test(test_engine_failing_calls),
		cmocka_unit_test(test_engine_peer_dies),
		cmocka_unit_test(test_engine_peer_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
