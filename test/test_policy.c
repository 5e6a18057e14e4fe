/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between raw and compressed: the faster one, looked at again, and never stuck on a measurement that does not come. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "zipc_engine_priv.h"

#define BYTES (1u << 20)

/* Nanoseconds that each mode takes, in a world where the policy is told the truth. */
struct world {
	struct zipc_peer peer;
	uint64_t ns[2]; /* zip, and a probe */
	unsigned count[3];
};

/* One message: chosen, sent, told. */
static enum zipc_mode one(struct world *w, uint64_t nbytes)
{
	enum zipc_mode mode = zipc_policy_choose(w->peer.rates, nbytes);

	assert_in_range(mode, ZIPC_MODE_ZIP, ZIPC_MODE_RAW);
	w->count[mode]++;
	if (mode != ZIPC_MODE_RAW)
		zipc_policy_done(w->peer.rates, nbytes, mode, w->ns[mode], 1);
	return mode;
}

static void run(struct world *w, unsigned n, uint64_t nbytes)
{
	memset(w->count, 0, sizeof(w->count));
	while (n--)
		one(w, nbytes);
}

static void test_policy_picks_the_faster(void **state)
{
	struct world w = {.ns = {500, 1000}}, v = {.ns = {1000, 500}};

	(void)state;
	run(&w, 1000, BYTES);
	assert_true(w.count[ZIPC_MODE_ZIP] > 980 && !w.count[ZIPC_MODE_RAW]);
	run(&v, 1000, BYTES);
	assert_true(v.count[ZIPC_MODE_RAW] > 960);
	assert_true(v.count[ZIPC_MODE_ZIP] >= 1 && v.count[ZIPC_MODE_PROBE] >= 1);
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
	run(&w, 100, 65536);
	assert_int_equal(one(&w, 65536), ZIPC_MODE_ZIP);
	w.ns[0] = 1000;
	w.ns[1] = 500;
	run(&w, 100, 17u << 20);
	assert_int_equal(one(&w, 17u << 20), ZIPC_MODE_RAW);
	assert_int_equal(one(&w, 65536), ZIPC_MODE_ZIP);
}

/* The link or the data changes: that is noticed, both ways. */
static void test_policy_rechecks(void **state)
{
	struct world w = {.ns = {1000, 500}};

	(void)state;
	run(&w, 500, BYTES);
	w.ns[ZIPC_MODE_ZIP] = 100;
	run(&w, 9000, BYTES);
	run(&w, 100, BYTES);
	assert_true(w.count[ZIPC_MODE_ZIP] >= 98);
	w.ns[ZIPC_MODE_ZIP] = 5000;
	run(&w, 9000, BYTES);
	run(&w, 100, BYTES);
	assert_true(w.count[ZIPC_MODE_RAW] >= 95);
}

/* Measurements that never come: of what is under way nothing is known, and something is sent all the same. */
static void test_policy_pending(void **state)
{
	struct zipc_peer peer = {0};
	unsigned i;

	(void)state;
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_ZIP);
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_PROBE);
	for (i = 0; i < 100; i++)
		assert_in_range(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_ZIP, ZIPC_MODE_RAW);
	zipc_policy_lost(peer.rates, BYTES, ZIPC_MODE_ZIP);
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_ZIP);
	zipc_policy_lost(peer.rates, BYTES, ZIPC_MODE_PROBE);
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_PROBE);
}

/* Half of the transfers are lost, in every pattern of eight: the answer comes, and is right. */
static void test_policy_losses(void **state)
{
	unsigned pattern, i;

	(void)state;
	for (pattern = 0; pattern < 255; pattern++) {
		struct world w = {.ns = {300, 1000}};

		for (i = 0; i < 2000; i++) {
			enum zipc_mode mode = zipc_policy_choose(w.peer.rates, BYTES);

			if (mode == ZIPC_MODE_RAW)
				continue;
			if (pattern >> i % 8 & 1)
				zipc_policy_lost(w.peer.rates, BYTES, mode);
			else
				zipc_policy_done(w.peer.rates, BYTES, mode, w.ns[mode], 1);
		}
		run(&w, 100, BYTES);
		assert_true(w.count[ZIPC_MODE_ZIP] >= 98);
	}
}

/* Times of 0 and of ages, and no sharing known. */
static void test_policy_odd_measurements(void **state)
{
	struct world w = {.ns = {0, 0}};

	(void)state;
	run(&w, 200, BYTES);
	zipc_policy_done(w.peer.rates, BYTES, ZIPC_MODE_ZIP, 0, 0);
	zipc_policy_done(w.peer.rates, UINT64_MAX, ZIPC_MODE_ZIP, UINT64_MAX, 0);
	zipc_policy_done(w.peer.rates, 0, ZIPC_MODE_PROBE, 1, 4000000000u);
	w.ns[0] = w.ns[1] = UINT64_MAX;
	run(&w, 200, BYTES);
}

/* Transfers that share the link are slower each, not worse. */
static void test_policy_sharing(void **state)
{
	struct zipc_peer peer = {0};

	(void)state;
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_ZIP);
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_PROBE);
	zipc_policy_done(peer.rates, BYTES, ZIPC_MODE_ZIP, 8000, 8);
	zipc_policy_done(peer.rates, BYTES, ZIPC_MODE_PROBE, 2000, 1);
	assert_int_equal(zipc_policy_choose(peer.rates, BYTES), ZIPC_MODE_ZIP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_policy_picks_the_faster),
		cmocka_unit_test(test_policy_sizes),
		cmocka_unit_test(test_policy_rechecks),
		cmocka_unit_test(test_policy_pending),
		cmocka_unit_test(test_policy_losses),
		cmocka_unit_test(test_policy_odd_measurements),
		cmocka_unit_test(test_policy_sharing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
