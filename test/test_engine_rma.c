/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes to and reads from remote memory, over a network that reorders and refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "test_rma_util.h"
#include "zipc_engine_priv.h"
#include "zipt_data.h"

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
	};

	return cmocka_run_group_tests(tests, rma_setup, rma_teardown);
}
