/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of old, kept in test/golden: the present decoder reads them, and the present encoder writes the same bytes. The second
 * half may change with a better encoder (then: --write), the first never.
 *
 * test_codec_golden --write DIR makes the frames anew and prints the hashes for golden/cases.h. Add cases, keep the old files.
 */
#include "test_codec_util.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zipc_tables.h"

#define GOLDEN_BYTES (ZIPC_BLOCK + 77)
#define GROUP_BYTES (9 * ZIPC_BLOCK + 3)
#define TABLES_HASH UINT64_C(0x7ecbb8c765b05c6d) /* of zipc_table_lengths: tables in use never change */

static const struct golden {
	const char *name;
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	enum zipt_dist dist;
	double sigma;
	uint64_t seed;
	size_t nbytes;
	uint64_t input; /* XXH64 of what zipt_fill makes */
	uint64_t frame; /* XXH64 of the frame */
} cases[] = {
#include "golden/cases.h"
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static void golden_path(char *path, size_t size, const char *dir, const struct golden *g)
{
	assert_true((size_t)snprintf(path, size, "%s/%s.zpf", dir, g->name) < size);
}

/* Input and frame as the present code makes them. */
static void golden_make(const struct golden *g, uint8_t *src, uint8_t *frame, size_t *size)
{
	zipt_fill(src, g->nbytes, g->dtype, g->dist, g->sigma, g->seed);
	assert_int_equal(zipc_encode(frame, zipc_frame_bound(g->nbytes), src, g->nbytes, g->dtype, g->codec, size), 0);
}

static size_t golden_read(const struct golden *g, uint8_t *frame, size_t room)
{
	const char *srcdir = getenv("srcdir");
	char dir[512], path[1024];
	size_t n;
	FILE *f;

	snprintf(dir, sizeof(dir), "%s/test/golden", srcdir ? srcdir : ".");
	golden_path(path, sizeof(path), dir, g);
	f = fopen(path, "rb");
	if (!f)
		fail_msg("%s is missing", path);
	n = fread(frame, 1, room, f);
	fclose(f);
	return n;
}

static void test_codec_golden_decode(void **state)
{
	uint8_t *src = malloc(GROUP_BYTES), *out = malloc(GROUP_BYTES), *frame = malloc(zipc_frame_bound(GROUP_BYTES));

	(void)state;
	assert_true(src && out && frame);
	for (size_t i = 0; i < CASES; i++) {
		size_t size = golden_read(&cases[i], frame, zipc_frame_bound(GROUP_BYTES));

		assert_int_equal(XXH64(frame, size, 0), cases[i].frame);
		zipt_fill(src, cases[i].nbytes, cases[i].dtype, cases[i].dist, cases[i].sigma, cases[i].seed);
		assert_int_equal(XXH64(src, cases[i].nbytes, 0), cases[i].input);
		for (int impl = 0; impl < TEST_IMPLS; impl++) {
			if (!test_use(impl))
				continue;
			memset(out, 0xcc, cases[i].nbytes);
			assert_int_equal(zipc_decode(out, cases[i].nbytes, frame, size), 0);
			assert_memory_equal(out, src, cases[i].nbytes);
		}
	}
	free(src);
	free(out);
	free(frame);
}

static void test_codec_golden_encode(void **state)
{
	uint8_t *src = malloc(GROUP_BYTES), *frame = malloc(zipc_frame_bound(GROUP_BYTES));

	(void)state;
	assert_true(src && frame);
	for (int impl = 0; impl < TEST_IMPLS; impl++)
		for (size_t i = 0; i < CASES && test_use(impl); i++) {
			size_t size;

			golden_make(&cases[i], src, frame, &size);
			if (XXH64(frame, size, 0) != cases[i].frame)
				fail_msg("%s is encoded to other bytes than before", cases[i].name);
		}
	free(src);
	free(frame);
}

/* Complete prefix codes of at most 12 bits, no code where there cannot be one, costs that agree with the lengths. */
static void test_codec_tables(void **state)
{
	(void)state;
	assert_true(ZIPC_TABLES <= 32 && ZIPC_TABLE_BITS == ZIPC_LUT_BITS);
	for (unsigned t = 0; t < ZIPC_TABLES; t++) {
		const struct zipc_table *table = zipc_table_get(t);
		unsigned kraft = 0;

		for (unsigned i = 0; i < 256; i++) {
			unsigned length = zipc_table_lengths[t][i];

			assert_true(length <= ZIPC_TABLE_BITS);
			assert_true(!length || i == ZIPC_TABLE_ESCAPE || ((i & 15) < 15 && i >> 4 < 15));
			kraft += length ? 1u << (ZIPC_TABLE_BITS - length) : 0;
			if (length) {
				uint32_t code = table->encode[i] & 0xfff, entry = table->decode[code];

				assert_int_equal(entry & 0xff, length);
				assert_int_equal(entry >> 24, i == ZIPC_TABLE_ESCAPE);
				if (i != ZIPC_TABLE_ESCAPE)
					assert_int_equal((entry >> 8 & 15) | (entry >> 12 & 0xf0), i);
			} else {
				assert_int_equal(table->encode[i], table->encode[ZIPC_TABLE_ESCAPE]);
			}
		}
		assert_int_equal(kraft, 1u << ZIPC_TABLE_BITS);
		assert_true(zipc_table_lengths[t][ZIPC_TABLE_ESCAPE] > 0);
		for (unsigned s = 0; s < ZIPC_TABLE_SYMBOLS; s++)
			assert_true(zipc_table_costs[t][s] <= zipc_table_costs[t][15] + 1);
	}
	assert_int_equal(XXH64(zipc_table_lengths, sizeof(zipc_table_lengths), 0), TABLES_HASH);
}

static int golden_write(const char *dir)
{
	uint8_t *src = malloc(GROUP_BYTES), *frame = malloc(zipc_frame_bound(GROUP_BYTES));

	if (!src || !frame)
		return 1;
	printf("/* tables %016llx */\n", (unsigned long long)XXH64(zipc_table_lengths, sizeof(zipc_table_lengths), 0));
	for (size_t i = 0; i < CASES; i++) {
		char path[1024];
		size_t size;
		FILE *f;

		golden_make(&cases[i], src, frame, &size);
		golden_path(path, sizeof(path), dir, &cases[i]);
		f = fopen(path, "wb");
		if (!f || fwrite(frame, 1, size, f) != size || fclose(f)) {
			perror(path);
			return 1;
		}
		printf("%s 0x%016llx 0x%016llx\n", cases[i].name, (unsigned long long)XXH64(src, cases[i].nbytes, 0),
		       (unsigned long long)XXH64(frame, size, 0));
	}
	free(src);
	free(frame);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_codec_golden_decode, test_teardown),
		cmocka_unit_test_teardown(test_codec_golden_encode, test_teardown),
		cmocka_unit_test(test_codec_tables),
	};

	if (argc == 3 && !strcmp(argv[1], "--write"))
		return golden_write(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
