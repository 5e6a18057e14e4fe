/* SPDX-License-Identifier: BSD-3-Clause */
/* Round trips of the host codec: everything comes back bit for bit, nothing outgrows its bound or its buffer. */
#include "test_codec_util.h"

#define SIGMA 0.02

/* Encode src and decode it again, into guarded buffers at the given offsets; returns the frame's size. */
static size_t roundtrip(const uint8_t *src, size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec, size_t frame_offset,
			size_t out_offset)
{
	struct guarded frame = guarded_alloc(zipc_frame_bound(nbytes), frame_offset);
	struct guarded out = guarded_alloc(nbytes, out_offset);
	struct zipc_frame_info info;
	size_t size = 0;

	assert_int_equal(zipc_encode(frame.p, frame.size, src, nbytes, dtype, codec, &size), 0);
	assert_true(size <= zipc_frame_bound(nbytes));
	assert_int_equal(zipc_frame_parse(frame.p, size, &info), 0);
	assert_int_equal(info.nbytes, nbytes);
	assert_int_equal(info.frame_bytes, size);
	memset(out.p, 0x5a, nbytes);
	assert_int_equal(zipc_decode(out.p, nbytes, frame.p, size), 0);
	assert_memory_equal(out.p, src, nbytes);
	guarded_free(&out);
	guarded_free(&frame);
	return size;
}

/* All types and codecs with one input. */
static void roundtrip_all(const uint8_t *src, size_t nbytes, size_t frame_offset, size_t out_offset)
{
	for (int dtype = 0; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (int codec = 0; codec < ZIPC_CODEC_COUNT; codec++)
			roundtrip(src, nbytes, (enum zipc_dtype)dtype, (enum zipc_codec)codec, frame_offset, out_offset);
}

static void test_codec_sizes(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 15, 16, 17, 33, 511, 512, 4095, 8191, 8192, 8193, 16383, 16384, 16385, 24575,
					32767, 32769, 65535, 65536, 65537, 65536 + 8191, 65536 + 8192, 73729, 131071, 131073 };
	uint8_t *src = malloc(131073);

	(void)state;
	assert_non_null(src);
	for (int impl = 0; impl < TEST_IMPLS; impl++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && test_use(impl); i++) {
			zipt_fill(src, sizes[i], ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, SIGMA, i);
			roundtrip_all(src, sizes[i], 0, 0);
		}
	free(src);
}

static void test_codec_small_is_raw(void **state)
{
	uint8_t src[ZIPC_BLOCK - 1] = { 0 };

	(void)state;
	for (size_t n = 0; n < sizeof(src); n += 1021)
		assert_int_equal(roundtrip(src, n, ZIPC_DTYPE_FP32, ZIPC_CODEC_ENTROPY, 0, 0), n + ZIPC_FRAME_HEADER);
}

static void test_codec_offsets(void **state)
{
	const size_t nbytes = 3 * ZIPC_BLOCK + 5;
	uint8_t *space = malloc(nbytes + 16);

	(void)state;
	assert_non_null(space);
	for (int impl = 0; impl < TEST_IMPLS; impl++)
		for (size_t offset = 0; offset < 16 && test_use(impl); offset++)
			for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++) {
				zipt_fill(space + offset, nbytes, (enum zipc_dtype)dtype, ZIPT_DIST_PADDING, SIGMA, offset);
				roundtrip(space + offset, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_FIXED, 0, 15 - offset);
				roundtrip(space + offset, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_ENTROPY, offset, 0);
				roundtrip(space + offset, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_ENTROPY, 3, offset);
			}
	free(space);
}

static void test_codec_distributions(void **state)
{
	const size_t nbytes = 10 * ZIPC_BLOCK + 4099;
	uint8_t *src = malloc(nbytes);

	(void)state;
	assert_non_null(src);
	for (int dist = 0; dist < ZIPT_DIST_COUNT; dist++)
		for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++) {
			zipt_fill(src, nbytes, (enum zipc_dtype)dtype, (enum zipt_dist)dist, SIGMA, (uint64_t)dist + 1);
			for (int impl = 0; impl < TEST_IMPLS; impl++)
				if (test_use(impl)) {
					roundtrip(src, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_FIXED, 0, 0);
					roundtrip(src, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_ENTROPY, 0, 0);
				}
		}
	free(src);
}

static void test_codec_wrong_dtype(void **state)
{
	const size_t nbytes = 9 * ZIPC_BLOCK + 3;
	uint8_t *src = malloc(nbytes);

	(void)state;
	assert_non_null(src);
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (int dist = 0; dist < ZIPT_DIST_COUNT; dist += 2) {
			zipt_fill(src, nbytes, (enum zipc_dtype)dtype, (enum zipt_dist)dist, SIGMA, 99);
			roundtrip_all(src, nbytes, 0, 0);
		}
	free(src);
}

/* Every scale of every type: bases at both ends of the exponents' range, wrapped ones included. */
static void test_codec_scales(void **state)
{
	const size_t nbytes = 2 * ZIPC_BLOCK;
	uint8_t *src = malloc(nbytes);

	(void)state;
	assert_non_null(src);
	for (int impl = 0; impl < TEST_IMPLS; impl++)
		for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT && test_use(impl); dtype++)
			for (int e = -149; e < 127; e += dtype == ZIPC_DTYPE_BF16 ? 3 : 11) {
				double sigma = 1;

				for (int i = 0; i < (e < 0 ? -e : e); i++)
					sigma *= e < 0 ? 0.5 : 2;
				zipt_fill(src, nbytes, (enum zipc_dtype)dtype, ZIPT_DIST_GAUSS, sigma, 7);
				roundtrip(src, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_FIXED, 0, 0);
				roundtrip(src, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_ENTROPY, 0, 0);
			}
	free(src);
}

/* The implementations write the same bytes, so a frame does not depend on the machine that made it. */
static void test_codec_same_bytes(void **state)
{
	const size_t nbytes = 11 * ZIPC_BLOCK + 100, bound = zipc_frame_bound(nbytes);
	uint8_t *src = malloc(nbytes), *one = malloc(bound), *two = malloc(bound);
	size_t one_size, two_size;

	(void)state;
	assert_true(src && one && two);
	if (!test_use(1))
		skip();
	for (int dist = 0; dist < ZIPT_DIST_COUNT; dist++)
		for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
			for (int codec = 1; codec < ZIPC_CODEC_COUNT; codec++) {
				zipt_fill(src, nbytes, (enum zipc_dtype)dtype, (enum zipt_dist)dist, 0.5, 3);
				test_use(0);
				assert_int_equal(zipc_encode(one, bound, src, nbytes, (enum zipc_dtype)dtype,
							     (enum zipc_codec)codec, &one_size), 0);
				test_use(1);
				memset(two, 0xee, bound);
				assert_int_equal(zipc_encode(two, bound, src, nbytes, (enum zipc_dtype)dtype,
							     (enum zipc_codec)codec, &two_size), 0);
				assert_int_equal(one_size, two_size);
				assert_memory_equal(one, two, one_size);
			}
	free(src);
	free(one);
	free(two);
}

/* Above the size from which buffers are written past the caches, with places that are and are not aligned for it. */
static void test_codec_large(void **state)
{
	const size_t nbytes = (16u << 20) + 12345, piece = 1u << 20;
	uint8_t *src = malloc(nbytes);

	(void)state;
	assert_non_null(src);
	zipt_fill(src, piece, ZIPC_DTYPE_BF16, ZIPT_DIST_MIXED, SIGMA, 1);
	for (size_t at = piece; at < nbytes; at += piece)
		memcpy(src + at, src, nbytes - at < piece ? nbytes - at : piece);
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		roundtrip(src, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_FIXED, 0, (size_t)dtype);
		roundtrip(src, nbytes, (enum zipc_dtype)dtype, ZIPC_CODEC_ENTROPY, (size_t)dtype * 3, 0);
	}
	free(src);
}

static void test_codec_arguments(void **state)
{
	uint8_t src[100] = { 0 }, dst[200];
	struct zipc_frame_info info;
	size_t size = 77;

	(void)state;
	assert_int_equal(zipc_encode(dst, 163, src, 100, ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, &size), ZIPC_ERR_SPACE);
	assert_int_equal(size, 77);
	assert_int_equal(zipc_encode(dst, 164, src, 100, ZIPC_DTYPE_COUNT, ZIPC_CODEC_FIXED, &size), ZIPC_ERR_INVAL);
	assert_int_equal(zipc_encode(dst, 164, src, 100, ZIPC_DTYPE_BF16, ZIPC_CODEC_COUNT, &size), ZIPC_ERR_INVAL);
	assert_int_equal(zipc_encode(NULL, 164, src, 100, ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, &size), ZIPC_ERR_INVAL);
	assert_int_equal(zipc_encode(dst, 164, NULL, 100, ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, &size), ZIPC_ERR_INVAL);
	assert_int_equal(zipc_encode(dst, 200, src, SIZE_MAX, ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, &size), ZIPC_ERR_INVAL);
	assert_int_equal(zipc_encode(dst, 164, src, 100, ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, &size), 0);
	assert_int_equal(size, 164);
	assert_int_equal(zipc_frame_parse(dst, 63, &info), ZIPC_ERR_SIZE);
	assert_int_equal(zipc_frame_parse(NULL, 164, &info), ZIPC_ERR_INVAL);
	assert_int_equal(zipc_decode(src, 99, dst, 164), ZIPC_ERR_SIZE);
	assert_int_equal(zipc_decode(src, 100, dst, 163), ZIPC_ERR_SIZE);
	assert_int_equal(zipc_decode(NULL, 100, dst, 164), ZIPC_ERR_INVAL);
}

static void test_codec_names(void **state)
{
	(void)state;
	for (int i = 0; i < ZIPC_DTYPE_COUNT; i++)
		assert_int_equal(zipc_dtype_parse(zipc_dtype_name((enum zipc_dtype)i)), i);
	for (int i = 0; i < ZIPC_CODEC_COUNT; i++)
		assert_int_equal(zipc_codec_parse(zipc_codec_name((enum zipc_codec)i)), i);
	assert_int_equal(zipc_dtype_parse("BF16"), -1);
	assert_int_equal(zipc_dtype_parse(NULL), -1);
	assert_int_equal(zipc_codec_parse(""), -1);
	assert_non_null(zipc_dtype_name((enum zipc_dtype)99));
	assert_string_equal(zipc_strerror(ZIPC_ERR_STREAM), "bit stream does not match its length");
	assert_string_equal(zipc_strerror(1), "unknown error");
	assert_string_equal(zipc_strerror(0), "success");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_codec_sizes, test_teardown),
		cmocka_unit_test_teardown(test_codec_small_is_raw, test_teardown),
		cmocka_unit_test_teardown(test_codec_offsets, test_teardown),
		cmocka_unit_test_teardown(test_codec_distributions, test_teardown),
		cmocka_unit_test_teardown(test_codec_wrong_dtype, test_teardown),
		cmocka_unit_test_teardown(test_codec_scales, test_teardown),
		cmocka_unit_test_teardown(test_codec_same_bytes, test_teardown),
		cmocka_unit_test_teardown(test_codec_large, test_teardown),
		cmocka_unit_test_teardown(test_codec_arguments, test_teardown),
		cmocka_unit_test_teardown(test_codec_names, test_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
