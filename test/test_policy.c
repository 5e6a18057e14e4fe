/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice between raw and compressed: the faster one, looked at again, and never stuck on a measurement that does not
 * come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "zipc_engine_priv.h"

#define BYTES (1u << 20)
#define WINDOW_MOST 64u

/* A link that serves one message after the other, and an application that keeps some in flight. */
struct world {
	struct zipc_judge judge;
	uint64_t ns[2];         /* that a message takes the link: compressed, and not */
	unsigned window;        /* 0: 1 */
	uint64_t now, free;     /* free: when the link has served all that was posted */
	unsigned count[3];      /* by mode */
	unsigned bunch;         /* ends are seen in groups of so many; 0: each at once */
	struct flight {
		enum zipc_mode mode;
		uint64_t nbytes, start, end;
	} flights[WINDOW_MOST];
	unsigned nflights;
};

static enum zipc_mode choose(struct world *w, uint64_t nbytes)
{
	enum zipc_mode mode = zipc_policy_raw(&w->judge, nbytes) ? ZIPC_MODE_RAW : zipc_policy_choose(&w->judge, nbytes);

	assert_in_range(mode, ZIPC_MODE_ZIP, ZIPC_MODE_RAW);
	return mode;
}

/* The oldest `n` have ended. */
static void retire(struct world *w, unsigned n)
{
	unsigned i;

	if (n > w->nflights)
		n = w->nflights;
	if (n && w->now < w->flights[n - 1].end)
		w->now = w->flights[n - 1].end;
	for (i = 0; i < n; i++) {
		const struct flight *f = &w->flights[i];

		if (f->mode != ZIPC_MODE_RAW)
			zipc_policy_done(&w->judge, f->nbytes, f->mode, f->start, w->now);
	}
	w->nflights -= n;
	memmove(w->flights, w->flights + n, w->nflights * sizeof(*w->flights));
}

static enum zipc_mode post(struct world *w, uint64_t nbytes)
{
	enum zipc_mode mode;
	uint64_t begin;

	if (w->nflights == (w->window ? w->window : 1))
		retire(w, w->bunch ? w->bunch : 1);
	mode = choose(w, nbytes);
	w->count[mode]++;
	begin = w->now > w->free ? w->now : w->free;
	w->free = begin + w->ns[mode == ZIPC_MODE_ZIP ? 0 : 1];
	w->flights[w->nflights++] = (struct flight){mode, nbytes, w->now, w->free};
	return mode;
}

/* As many messages, all of which have ended at the end. */
static void run(struct world *w, unsigned n, uint64_t nbytes)
{
	memset(w->count, 0, sizeof(w->count));
	while (n--)
		post(w, nbytes);
	retire(w, w->nflights);
}

static void test_policy_picks_the_faster(void **state)
{
	struct world w = {.ns = {500, 1000}}, v = {.ns = {1000, 500}};

	(void)state;
	run(&w, 1000, BYTES);
	assert_true(w.count[ZIPC_MODE_ZIP] > 970 && !w.count[ZIPC_MODE_RAW]);
	run(&v, 1000, BYTES);
	assert_true(v.count[ZIPC_MODE_RAW] > 900);
	assert_true(v.count[ZIPC_MODE_ZIP] >= 1 && v.count[ZIPC_MODE_PROBE] >= 1);
}

/* However many messages the application keeps in flight, and though each waits for those before it. */
static void test_policy_windows(void **state)
{
	unsigned window;

	(void)state;
	for (window = 1; window <= WINDOW_MOST; window++) {
		const unsigned least = window <= 8 ? 1850 : 1600;
		struct world w = {.ns = {700, 1000}, .window = window}, v = {.ns = {1000, 700}, .window = window};

		run(&w, 2000, BYTES);
		run(&w, 2000, BYTES);
		assert_true(w.count[ZIPC_MODE_ZIP] > least && !w.count[ZIPC_MODE_RAW]);
		run(&v, 2000, BYTES);
		run(&v, 2000, BYTES);
		assert_true(v.count[ZIPC_MODE_RAW] > least - 100);
	}
}

/* Raw messages ahead of a measured one make it look slow: an answer that has become wrong is mended all the same. */
static void test_policy_raw_ahead(void **state)
{
	unsigned window;

	(void)state;
	for (window = 1; window <= WINDOW_MOST; window *= 2) {
		struct world w = {.ns = {1000, 700}, .window = window};

		run(&w, 500, BYTES);
		assert_int_equal(w.judge.classes[zipc_size_class(BYTES)].best, ZIPC_MODE_RAW);
		w.ns[0] = 600;
		run(&w, 3000, BYTES);
		run(&w, 1000, BYTES);
		assert_true(w.count[ZIPC_MODE_ZIP] > 950 && !w.count[ZIPC_MODE_RAW]);
	}
}

/* The application looks at its queue now and then only, and many transfers seem to end at once. */
static void test_policy_bunches(void **state)
{
	unsigned bunch;

	(void)state;
	for (bunch = 2; bunch <= 8; bunch *= 2) {
		struct world w = {.ns = {700, 1000}, .window = 8, .bunch = bunch};
		struct world v = {.ns = {1000, 700}, .window = 8, .bunch = bunch};

		run(&w, 3000, BYTES);
		run(&w, 3000, BYTES);
		assert_true(w.count[ZIPC_MODE_ZIP] > 1500);
		run(&v, 3000, BYTES);
		run(&v, 3000, BYTES);
		assert_true(v.count[ZIPC_MODE_RAW] > 1500);
	}
}

/* A machine that stops for a moment does not change the answer. */
static void test_policy_hiccup(void **state)
{
	unsigned at, i;

	(void)state;
	for (at = 1; at < 200; at++) {
		struct world w = {.ns = {700, 1000}, .window = 2};

		for (i = 0; i < 300; i++) {
			w.ns[0] = i == at ? 20000 : 700;
			w.ns[1] = i == at ? 20000 : 1000;
			post(&w, BYTES);
		}
		assert_int_equal(w.judge.classes[zipc_size_class(BYTES)].best, ZIPC_MODE_ZIP);
	}
}

/* A time in which compressed messages are slow, and which is over soon. */
static void test_policy_doubt(void **state)
{
	struct world w = {.ns = {700, 1000}};
	unsigned i;

	(void)state;
	w.ns[0] = 5000 / 3; /* from the first message on */
	for (i = 0; i < 3; i++)
		post(&w, BYTES);
	w.ns[0] = 700;
	run(&w, 1000, BYTES);
	assert_int_equal(w.count[ZIPC_MODE_RAW], 0);
	while (w.judge.classes[zipc_size_class(BYTES)].phase == ZIPC_PHASE_DECIDED)
		post(&w, BYTES);
	w.ns[0] = 5000;
	for (i = 0; i < 7; i++)
		post(&w, BYTES);
	w.ns[0] = 700;
	run(&w, 1000, BYTES);
	assert_int_equal(w.count[ZIPC_MODE_RAW], 0);
	assert_true(w.count[ZIPC_MODE_ZIP] > 900);
}

/* Each size has an answer of its own. */
static void test_policy_sizes(void **state)
{
	static const uint64_t sizes[] = {65536, 300000, 1u << 20, 5u << 20, 17u << 20, UINT64_MAX};
	struct world w = {.ns = {500, 1000}};
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		assert_in_range(zipc_size_class(sizes[i]), 0, ZIPC_SIZE_CLASSES - 1);
	assert_int_equal(zipc_size_class(0), 0);
	assert_int_equal(zipc_size_class(262143), 0);
	assert_int_equal(zipc_size_class(262144), 1);
	run(&w, 300, 65536);
	assert_int_equal(post(&w, 65536), ZIPC_MODE_ZIP);
	w.ns[0] = 1000;
	w.ns[1] = 500;
	run(&w, 100, 17u << 20);
	assert_int_equal(post(&w, 17u << 20), ZIPC_MODE_RAW);
	assert_int_equal(post(&w, 65536), ZIPC_MODE_ZIP);
}

/* The link or the data changes: that is noticed, both ways. */
static void test_policy_rechecks(void **state)
{
	struct world w = {.ns = {1000, 500}};

	(void)state;
	run(&w, 500, BYTES);
	w.ns[ZIPC_MODE_ZIP] = 100;
	run(&w, 18000, BYTES);
	run(&w, 100, BYTES);
	assert_true(w.count[ZIPC_MODE_ZIP] >= 90);
	w.ns[ZIPC_MODE_ZIP] = 5000;
	run(&w, 18000, BYTES);
	run(&w, 100, BYTES);
	assert_true(w.count[ZIPC_MODE_RAW] >= 90);
}

/* What is in use and becomes slow is not waited for. */
static void test_policy_notices_slowness(void **state)
{
	struct world w = {.ns = {500, 1000}};

	(void)state;
	run(&w, 5000, BYTES);
	w.ns[ZIPC_MODE_ZIP] = 2000;
	run(&w, 150, BYTES);
	run(&w, 100, BYTES);
	assert_true(w.count[ZIPC_MODE_RAW] >= 70);
}

/* Measurements that never come: something is sent all the same, and no mode is stuck to. */
static void test_policy_pending(void **state)
{
	struct zipc_judge judge = {0};
	unsigned i, count[3] = {0};

	(void)state;
	for (i = 0; i < 20000; i++) {
		enum zipc_mode mode = zipc_policy_choose(&judge, BYTES);

		count[mode]++;
		if (i & 1)
			zipc_policy_lost(&judge, BYTES, mode);
	}
	assert_true(count[ZIPC_MODE_ZIP] > 10000 && count[ZIPC_MODE_PROBE] > 0);
}

/* A message that cannot be sent yet is offered again and again: that uses nothing up. */
static void test_policy_undo(void **state)
{
	struct world w = {.ns = {700, 1000}};
	unsigned i, n;

	(void)state;
	for (i = 0; i < 40; i++) {
		for (n = 0; n < 1000; n++)
			zipc_policy_undo(&w.judge, BYTES, choose(&w, BYTES));
		post(&w, BYTES);
	}
	assert_true(w.judge.classes[zipc_size_class(BYTES)].recheck > 0);
	assert_true(w.judge.classes[zipc_size_class(BYTES)].rate[ZIPC_MODE_PROBE] > 0);
	assert_int_equal(w.judge.classes[zipc_size_class(BYTES)].best, ZIPC_MODE_ZIP);
}

/* Half of the transfers are lost, in every pattern of eight: the answer comes, and is right. */
static void test_policy_losses(void **state)
{
	unsigned pattern, i;

	(void)state;
	for (pattern = 0; pattern < 255; pattern++) {
		struct world w = {.ns = {300, 1000}};

		for (i = 0; i < 2000; i++) {
			enum zipc_mode mode = choose(&w, BYTES);

			if (mode == ZIPC_MODE_RAW)
				continue;
			if (pattern >> i % 8 & 1) {
				zipc_policy_lost(&w.judge, BYTES, mode);
				continue;
			}
			zipc_policy_done(&w.judge, BYTES, mode, w.now, w.now + w.ns[mode]);
			w.now += w.ns[mode];
		}
		assert_int_equal(w.judge.classes[zipc_size_class(BYTES)].best, ZIPC_MODE_ZIP);
		assert_int_equal(w.judge.classes[zipc_size_class(BYTES)].under_way, 0);
	}
}

/* Times of 0 and of ages, ends before beginnings, and ends that nobody began. */
static void test_policy_odd_measurements(void **state)
{
	struct world w = {.ns = {0, 0}};

	(void)state;
	run(&w, 400, BYTES);
	zipc_policy_done(&w.judge, BYTES, ZIPC_MODE_ZIP, 5, 5);
	zipc_policy_done(&w.judge, UINT64_MAX, ZIPC_MODE_ZIP, UINT64_MAX, 0);
	zipc_policy_done(&w.judge, 0, ZIPC_MODE_PROBE, 0, UINT64_MAX);
	zipc_policy_lost(&w.judge, 0, ZIPC_MODE_PROBE);
	w.now = w.free = 0;
	w.ns[0] = w.ns[1] = UINT64_MAX / 2;
	run(&w, 400, BYTES);
}

/* On a fast link, where compressing would be slow, next to nothing is spent on finding that out again. */
static void test_policy_costs_little(void **state)
{
	struct world w = {.ns = {5000, 1000}, .window = 4};
	uint64_t start;

	(void)state;
	run(&w, 2000, BYTES);
	start = w.now;
	run(&w, 20000, BYTES);
	assert_true(w.now - start < 20000u * 1000u * 102 / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policy_picks_the_faster),
		cmocka_unit_test(test_policy_windows),
		cmocka_unit_test(test_policy_raw_ahead),
		cmocka_unit_test(test_policy_bunches),
		cmocka_unit_test(test_policy_hiccup),
		cmocka_unit_test(test_policy_doubt),
		cmocka_unit_test(test_policy_sizes),
		cmocka_unit_test(test_policy_rechecks),
		cmocka_unit_test(test_policy_notices_slowness),
		cmocka_unit_test(test_policy_pending),
		cmocka_unit_test(test_policy_undo),
		cmocka_unit_test(test_policy_losses),
		cmocka_unit_test(test_policy_odd_measurements),
		cmocka_unit_test(test_policy_costs_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
