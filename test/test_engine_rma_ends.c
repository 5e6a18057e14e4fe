/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes to and reads from remote memory that end early: dropped, revoked, over a network that fails and among nodes that die. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "test_rma_util.h"
#include "zipc_engine_priv.h"
#include "zipt_data.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rma_drop),
		cmocka_unit_test(test_rma_revoke),
		cmocka_unit_test(test_rma_failing_calls),
		cmocka_unit_test(test_rma_peer_dies),
		cmocka_unit_test(test_rma_peer_restarts),
		cmocka_unit_test(test_rma_leaves),
	};

	return cmocka_run_group_tests(tests, rma_setup, rma_teardown);
}
