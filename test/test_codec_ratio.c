/* SPDX-License-Identifier: BSD-3-Clause */
/* What the codecs must reach, and what zipc_sample must find out. */
#include "test_codec_util.h"

#include <stdio.h>

#define NBYTES ((size_t)1 << 19)

static uint8_t *src, *frame;

static int setup(void **state)
{
	(void)state;
	src = malloc(NBYTES + 16);
	frame = malloc(zipc_frame_bound(NBYTES));
	return src && frame ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(src);
	free(frame);
	return 0;
}

static double ratio(enum zipc_dtype dtype, enum zipc_codec codec, enum zipt_dist dist, double sigma)
{
	size_t size = 0;

	zipt_fill(src, NBYTES, dtype, dist, sigma, 42);
	assert_int_equal(zipc_encode(frame, zipc_frame_bound(NBYTES), src, NBYTES, dtype, codec, &size), 0);
	return (double)size / (double)NBYTES;
}

static void expect_at_most(enum zipc_dtype dtype, enum zipc_codec codec, enum zipt_dist dist, double sigma, double limit)
{
	double found = ratio(dtype, codec, dist, sigma);

	if (found > limit)
		fail_msg("%s %s %s sigma %g: ratio %.4f above %.4f", zipc_dtype_name(dtype), zipc_codec_name(codec),
			 zipt_dist_name(dist), sigma, found, limit);
}

static void test_codec_ratio_gauss(void **state)
{
	/* The last four are where seven neighbouring exponents cover least: 3 % escape. */
	static const double sigmas[] = { 0.0007, 0.0145, 0.02, 0.024, 0.3, 1, 0.013, 0.0264, 0.028, 7 };

	(void)state;
	for (size_t i = 0; i < sizeof(sigmas) / sizeof(sigmas[0]); i++) {
		expect_at_most(ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, sigmas[i], 0.670);
		expect_at_most(ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, ZIPT_DIST_GAUSS, sigmas[i], 0.705);
		expect_at_most(ZIPC_DTYPE_FP16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, sigmas[i], 0.86);
		expect_at_most(ZIPC_DTYPE_FP32, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, sigmas[i], 0.84);
		expect_at_most(ZIPC_DTYPE_FP32, ZIPC_CODEC_ENTROPY, ZIPT_DIST_UPCAST, sigmas[i], 0.34);
		expect_at_most(ZIPC_DTYPE_E5M2, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, sigmas[i], 0.707);
	}
}

/* Within 2 % of what the entropy of the exponents, here counted, allows. */
static void test_codec_ratio_e4m3(void **state)
{
	static const double limits[][2] = { { 0.02, 0.6764 * 1.02 }, { 0.1, 0.7876 * 1.02 }, { 1, 0.8152 * 1.02 } };

	(void)state;
	for (int i = 0; i < 3; i++)
		expect_at_most(ZIPC_DTYPE_E4M3, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, limits[i][0], limits[i][1]);
}

static void test_codec_ratio_other(void **state)
{
	(void)state;
	expect_at_most(ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_UNIFORM, 0.02, 0.637);
	expect_at_most(ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_STEPS, 0.02, 0.676);
	expect_at_most(ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_HALF_ZEROS, 0.02, 0.66);
	/* 69 % of it are not zero, and five blocks are half and half. */
	expect_at_most(ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_PADDING, 0.02, 0.51);
}

static void test_codec_ratio_constant(void **state)
{
	(void)state;
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (int codec = 1; codec < ZIPC_CODEC_COUNT; codec++) {
			expect_at_most((enum zipc_dtype)dtype, (enum zipc_codec)codec, ZIPT_DIST_ZEROS, 0.02, 0.02);
			expect_at_most((enum zipc_dtype)dtype, (enum zipc_codec)codec, ZIPT_DIST_CONSTANT, 0.02, 0.02);
		}
}

static void test_codec_ratio_random(void **state)
{
	(void)state;
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (int codec = 1; codec < ZIPC_CODEC_COUNT; codec++)
			expect_at_most((enum zipc_dtype)dtype, (enum zipc_codec)codec, ZIPT_DIST_RANDOM, 0.02, 1.001);
}

/* The type is found from the bytes alone, wherever they stand and however many there are. */
static void test_codec_sample_dtype(void **state)
{
	static const double sigmas[] = { 0.02, 0.1, 1 };
	struct zipc_sample sample;

	(void)state;
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (int i = 0; i < 3; i++)
			for (size_t n = NBYTES; n > 4 * ZIPC_BLOCK; n = n / 2 - 3) {
				zipt_fill(src + 3, n, (enum zipc_dtype)dtype, ZIPT_DIST_GAUSS, sigmas[i], n);
				zipc_sample(src + 3, n, ZIPC_DTYPE_RAW, &sample);
				assert_int_equal(sample.dtype, dtype);
				zipc_sample(src + 3, n, (enum zipc_dtype)dtype, &sample);
				assert_int_equal(sample.dtype, dtype);
			}
}

static void test_codec_sample_prediction(void **state)
{
	static const enum zipt_dist dists[] = { ZIPT_DIST_GAUSS, ZIPT_DIST_UNIFORM, ZIPT_DIST_STEPS, ZIPT_DIST_HALF_ZEROS,
						ZIPT_DIST_ZEROS, ZIPT_DIST_CONSTANT };
	struct zipc_sample sample;

	(void)state;
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < sizeof(dists) / sizeof(dists[0]); i++) {
			double entropy = ratio((enum zipc_dtype)dtype, ZIPC_CODEC_ENTROPY, dists[i], 0.02);
			double fixed = ratio((enum zipc_dtype)dtype, ZIPC_CODEC_FIXED, dists[i], 0.02);

			zipc_sample(src, NBYTES, (enum zipc_dtype)dtype, &sample);
			assert_int_equal(sample.dtype, dtype);
			assert_true(sample.ratio_entropy > entropy - 0.04 && sample.ratio_entropy < entropy + 0.04);
			assert_true(sample.ratio_fixed > fixed - 0.04 && sample.ratio_fixed < fixed + 0.04);
			assert_int_equal(sample.sparse, dists[i] == ZIPT_DIST_ZEROS || dists[i] == ZIPT_DIST_CONSTANT);
		}
}

static void test_codec_sample_random(void **state)
{
	struct zipc_sample sample;

	(void)state;
	for (uint64_t seed = 0; seed < 300; seed++) {
		size_t n = (size_t)(seed * 7919 % (20 * ZIPC_BLOCK));

		zipt_fill(src + seed % 16, n, ZIPC_DTYPE_BF16, ZIPT_DIST_RANDOM, 1, seed);
		for (int hint = 0; hint < ZIPC_DTYPE_COUNT; hint++) {
			zipc_sample(src + seed % 16, n, (enum zipc_dtype)hint, &sample);
			assert_int_equal(sample.dtype, ZIPC_DTYPE_RAW);
			assert_false(sample.sparse);
			assert_true(sample.ratio_fixed == 1 && sample.ratio_entropy == 1);
		}
	}
}

static void test_codec_sample_small(void **state)
{
	struct zipc_sample sample;

	(void)state;
	memset(src, 0, ZIPC_BLOCK);
	for (size_t n = 0; n < ZIPC_BLOCK; n += 117) {
		zipc_sample(src, n, ZIPC_DTYPE_RAW, &sample);
		assert_int_equal(sample.dtype, ZIPC_DTYPE_RAW);
	}
	zipc_sample(src, ZIPC_BLOCK, ZIPC_DTYPE_RAW, &sample);
	assert_int_not_equal(sample.dtype, ZIPC_DTYPE_RAW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codec_ratio_gauss),      cmocka_unit_test(test_codec_ratio_e4m3),
		cmocka_unit_test(test_codec_ratio_other),      cmocka_unit_test(test_codec_ratio_constant),
		cmocka_unit_test(test_codec_ratio_random),     cmocka_unit_test(test_codec_sample_dtype),
		cmocka_unit_test(test_codec_sample_prediction), cmocka_unit_test(test_codec_sample_random),
		cmocka_unit_test(test_codec_sample_small),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
