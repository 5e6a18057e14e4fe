/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of zip_perf, and what its server believes of a client. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zip_perf.h"
#include "zipt_util.h"

static uint64_t sizes[PERF_SIZES_MAX];
static const char *why;

static void test_perf_sizes_lists(void **state)
{
	(void)state;
	assert_int_equal(perf_sizes_parse("1", sizes, &why), 1);
	assert_int_equal(sizes[0], 1);
	assert_int_equal(perf_sizes_parse("64K,1M,3", sizes, &why), 3);
	assert_true(sizes[0] == 65536 && sizes[1] == 1 << 20 && sizes[2] == 3);
	assert_int_equal(perf_sizes_parse("64K:64M", sizes, &why), 11);
	assert_true(sizes[0] == 65536 && sizes[1] == 131072 && sizes[10] == 64u << 20);
	assert_int_equal(perf_sizes_parse("64K:64M:4,1G", sizes, &why), 7);
	assert_true(sizes[1] == 262144 && sizes[5] == 64u << 20 && sizes[6] == 1u << 30);
	assert_int_equal(perf_sizes_parse("1000:5000", sizes, &why), 3);
	assert_true(sizes[2] == 4000);
	assert_int_equal(perf_sizes_parse("7:7", sizes, &why), 1);
	assert_int_equal(perf_sizes_parse("1:64G", sizes, &why), 37);
	assert_int_equal(sizes[36], (uint64_t)64 << 30);
	assert_int_equal(perf_sizes_parse("64G:64G:1000000", sizes, &why), 1);
}

static void test_perf_sizes_refused(void **state)
{
	static const char *const texts[] = {
		"", "0", "K", "-1", "1,", ",1", "1,,2", "1T", "1KK", "65G", "18446744073709551615", "99999999999999999999999", "64M:64K", "1:4:1",
		"1:4:0", "1:4:-2", "1:4:2:3", "1:", ":4", "1:4:", "1 ", " 1", "0x10", "1:64G,1:64G",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		why = NULL;
		assert_int_equal(perf_sizes_parse(texts[i], sizes, &why), -1);
		assert_non_null(why);
	}
}

static void test_perf_size_numbers(void **state)
{
	(void)state;
	assert_int_equal(zipt_parse_size("0"), 0);
	assert_int_equal(zipt_parse_size("17"), 17);
	assert_int_equal(zipt_parse_size("1k"), 1024);
	assert_true(zipt_parse_size("16G") == (size_t)16 << 30);
	assert_int_equal(zipt_parse_size("17179869184G"), 0);
	assert_int_equal(zipt_parse_size("+1"), 0);
	assert_int_equal(zipt_parse_size("1M2"), 0);
}

static char *argument(const char *text)
{
	return (char *)(uintptr_t)(text ? text : "--json");
}

static void parse(struct perf_options *options, const char *a, const char *b, const char *c)
{
	char *argv[] = {argument("zip_perf"), argument(a), argument(b), argument(c), NULL};

	perf_options_parse(options, 4, argv);
}

static void test_perf_defaults(void **state)
{
	struct perf_options o;

	(void)state;
	unsetenv("FI_PROVIDER");
	parse(&o, NULL, NULL, NULL);
	assert_null(o.host);
	assert_true(o.json && o.timed && o.rounds == 5);
	assert_int_equal(o.plan.op, PERF_TAGGED);
	assert_int_equal(o.plan.window, 8);
	assert_int_equal(o.plan.nsizes, 11);
	assert_true(o.plan.check && !o.plan.bidirectional && !o.plan.breakdown);
	assert_string_equal(o.plan.provider, "tcp");
	assert_string_equal(o.plan.dtype, "bf16");
	assert_null(perf_plan_fault(&o.plan));
}

static void test_perf_options(void **state)
{
	struct perf_options o;

	(void)state;
	parse(&o, "host", "--op=writedata", "--sizes=1M");
	assert_string_equal(o.host, "host");
	assert_int_equal(o.plan.op, PERF_WRITEDATA);
	assert_int_equal(o.plan.nsizes, 1);
	parse(&o, "-b", "--window=4", "--iters=10");
	assert_true(o.plan.bidirectional && o.plan.window == 4 && !o.timed && o.iters == 10);
	parse(&o, "--file=x", "--no-check", "--memory=cuda");
	assert_string_equal(o.plan.dtype, "");
	assert_true(!o.plan.check && o.plan.memory == PERF_CUDA);
	parse(&o, "--local", "--time=1.5", "--dtype=fp32");
	assert_true(o.local && o.timed && o.seconds == 1.5);
	assert_string_equal(o.plan.dtype, "fp32");
}

/* FI_PROVIDER says which core; libfabric must not see it, or it would hide one of the two stacks. */
static void test_perf_environment(void **state)
{
	static const char *const texts[][2] = {
		{"zip;shm", "shm"}, {"tcp;ofi_zip", "tcp"}, {"zip;tcp;ofi_rxm", "tcp;ofi_rxm"}, {"efa", "efa"}, {"zip", "tcp"}, {"", "tcp"},
	};
	struct perf_options o;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		setenv("FI_PROVIDER", texts[i][0], 1);
		parse(&o, NULL, NULL, NULL);
		if (strcmp(texts[i][0], "zip"))
			assert_string_equal(o.plan.provider, texts[i][1]);
		assert_true(!texts[i][0][0] || !getenv("FI_PROVIDER"));
	}
	setenv("FI_PROVIDER", "zip;shm", 1);
	parse(&o, "--provider=tcp", NULL, NULL);
	assert_string_equal(o.plan.provider, "tcp");
	unsetenv("FI_PROVIDER");
}

static void test_perf_options_refused(void **state)
{
	static const char *const texts[] = {
		"--op=put", "--sizes=0", "--window=0", "--window=1025", "--window=x", "--provider=zip;tcp", "--api=uct", "--memory=disk",
		"--dtype=int8", "--dist=none", "--sigma=-1", "--rounds=0", "--rounds=1001", "--time=0", "--time=x", "--iters=0", "--timeout=0",
		"--nothing", "--provider=", "--local=1",
	};
	struct perf_options o;
	size_t i;
	int status;
	pid_t child;

	(void)state;
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		child = fork();
		if (!child) {
			int null = open("/dev/null", O_WRONLY);

			dup2(null, STDERR_FILENO);
			parse(&o, texts[i], NULL, NULL);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
	}
}

static void test_perf_hostile_plans(void **state)
{
	struct perf_options o;
	struct perf_plan good, p;
	size_t i;

	(void)state;
	parse(&o, NULL, NULL, NULL);
	good = o.plan;
#define REFUSED(change)                               \
	do {                                          \
		p = good;                             \
		change;                               \
		assert_non_null(perf_plan_fault(&p)); \
	} while (0)
	REFUSED(p.magic++);
	REFUSED(p.version++);
	REFUSED(p.bytes--);
	REFUSED(p.op = PERF_OPS);
	REFUSED(p.memory = PERF_MEMORY_KINDS);
	REFUSED(p.window = 0);
	REFUSED(p.window = PERF_WINDOW_MAX + 1);
	REFUSED(p.nsizes = 0);
	REFUSED(p.nsizes = PERF_SIZES_MAX + 1);
	REFUSED(p.timeout_s = 0);
	REFUSED(p.sizes[3] = 0);
	REFUSED(p.sizes[3] = UINT64_MAX);
	REFUSED(p.pool_bytes = UINT64_MAX);
	REFUSED(memset(p.provider, 'a', sizeof(p.provider)));
	REFUSED(memset(p.api, 'a', sizeof(p.api)));
	REFUSED(memset(p.dtype, 'a', sizeof(p.dtype)));
	REFUSED(memset(p.dist, 'a', sizeof(p.dist)));
	REFUSED(p.dist[0] = 'x');
	REFUSED(p.dtype[0] = 'x');
	for (i = 0; i < sizeof(p); i++) { /* whatever it says, asking is harmless */
		p = good;
		((uint8_t *)&p)[i] ^= 0xff;
		(void)perf_plan_fault(&p);
	}
	assert_null(perf_plan_fault(&good));
}

static void test_perf_median(void **state)
{
	double v[] = {3, 1, 2, 10}, one[] = {5};

	(void)state;
	assert_true(zipt_median(v, 0) == 0);
	assert_true(zipt_median(one, 1) == 5);
	assert_true(zipt_median(v, 3) == 2);
	assert_true(zipt_median(v, 4) == 2.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_perf_sizes_lists),
		cmocka_unit_test(test_perf_sizes_refused),
		cmocka_unit_test(test_perf_size_numbers),
		cmocka_unit_test(test_perf_defaults),
		cmocka_unit_test(test_perf_options),
		cmocka_unit_test(test_perf_environment),
		cmocka_unit_test(test_perf_options_refused),
		cmocka_unit_test(test_perf_hostile_plans),
		cmocka_unit_test(test_perf_median),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
