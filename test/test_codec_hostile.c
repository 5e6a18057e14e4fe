/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of a hostile peer: whatever they hold, the decoder stays inside its two buffers. Most useful under ASan and UBSan. */
#include "test_codec_util.h"

/* Inputs that between them use every mode: coded, escaped, raw and constant blocks, sparse planes, a tail. */
static const struct sample_input {
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	enum zipt_dist dist;
	unsigned blocks;
} inputs[] = {
	{ ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, ZIPT_DIST_GAUSS, 3 },     { ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, 9 },
	{ ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_ZEROS, 2 },   { ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_HALF_ZEROS, 2 },
	{ ZIPC_DTYPE_FP16, ZIPC_CODEC_FIXED, ZIPT_DIST_SPECIALS, 2 },  { ZIPC_DTYPE_FP16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_LAPLACE, 2 },
	{ ZIPC_DTYPE_FP32, ZIPC_CODEC_FIXED, ZIPT_DIST_GAUSS, 5 },     { ZIPC_DTYPE_FP32, ZIPC_CODEC_ENTROPY, ZIPT_DIST_UPCAST, 2 },
	{ ZIPC_DTYPE_E4M3, ZIPC_CODEC_FIXED, ZIPT_DIST_CONSTANT, 2 },  { ZIPC_DTYPE_E4M3, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, 2 },
	{ ZIPC_DTYPE_E5M2, ZIPC_CODEC_FIXED, ZIPT_DIST_MIXTURE, 2 },   { ZIPC_DTYPE_E5M2, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, 2 },
	{ ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_MIXED, 12 },  { ZIPC_DTYPE_BF16, ZIPC_CODEC_RAW, ZIPT_DIST_RANDOM, 1 },
};

#define INPUTS (sizeof(inputs) / sizeof(inputs[0]))

struct victim {
	uint8_t *frame, *copy, *out;
	size_t nbytes, size;
	struct zipc_layout layout;
	struct zipc_frame_info info;
};

/* Frame, copy and output are allocations of exact size, so that a sanitizer sees any step outside. */
static void victim_open(struct victim *v, const struct sample_input *input)
{
	uint8_t *src, *frame;

	v->nbytes = input->blocks * ZIPC_BLOCK + 61;
	src = malloc(v->nbytes);
	frame = malloc(zipc_frame_bound(v->nbytes));
	assert_true(src && frame);
	zipt_fill(src, v->nbytes, input->dtype, input->dist, 0.02, 5);
	assert_int_equal(zipc_encode(frame, zipc_frame_bound(v->nbytes), src, v->nbytes, input->dtype, input->codec, &v->size), 0);
	v->frame = malloc(v->size);
	v->copy = malloc(v->size);
	v->out = malloc(v->nbytes);
	assert_true(v->frame && v->copy && v->out);
	memcpy(v->frame, frame, v->size);
	memcpy(v->copy, frame, v->size);
	assert_int_equal(zipc_frame_parse(v->frame, v->size, &v->info), 0);
	if (v->info.codec != ZIPC_CODEC_RAW)
		zipc_layout_init(&v->layout, v->info.dtype, v->info.codec, v->info.sparse, v->nbytes);
	free(src);
	free(frame);
}

static void victim_close(struct victim *v)
{
	free(v->frame);
	free(v->copy);
	free(v->out);
}

/* Decode what the frame has become, then restore it. Returns the decoder's word. */
static int attack(struct victim *v)
{
	int ret = zipc_decode(v->out, v->nbytes, v->frame, v->size);

	assert_true(ret <= 0);
	memcpy(v->frame, v->copy, v->size);
	return ret;
}

static void for_each_victim(void (*test)(struct victim *))
{
	for (int impl = 0; impl < TEST_IMPLS; impl++)
		for (size_t i = 0; i < INPUTS && test_use(impl); i++) {
			struct victim v = { 0 };

			victim_open(&v, &inputs[i]);
			test(&v);
			victim_close(&v);
		}
}

static void attack_header(struct victim *v)
{
	for (unsigned at = 0; at < ZIPC_FRAME_HEADER; at++)
		for (unsigned x = 1; x < 256; x = x * 2 + (x == 128)) {
			v->frame[at] ^= (uint8_t)x;
			/* Dtypes, codecs and the sparse flag may turn into others that are just as good. */
			if (attack(v) == 0)
				assert_true(at >= 5 && at <= 7);
		}
}

static void test_codec_hostile_header(void **state)
{
	(void)state;
	for_each_victim(attack_header);
}

static void attack_length(struct victim *v)
{
	for (size_t size = 0; size < v->size; size += size < 200 ? 1 : 97) {
		uint8_t *cut = malloc(size + 1);

		assert_non_null(cut);
		memcpy(cut, v->frame, size);
		assert_true(zipc_decode(v->out, v->nbytes, cut, size) < 0);
		/* The same with a header that agrees to the new size. */
		if (size >= ZIPC_FRAME_HEADER) {
			zipc_store64(cut + 16, size);
			if (v->info.codec != ZIPC_CODEC_RAW && size >= v->layout.var)
				zipc_store64(cut + 24, size - v->layout.var);
			assert_true(zipc_decode(v->out, v->nbytes, cut, size) <= 0);
		}
		free(cut);
	}
	assert_int_equal(zipc_decode(v->out, v->nbytes - 1, v->frame, v->size), ZIPC_ERR_SIZE);
}

static void test_codec_hostile_length(void **state)
{
	(void)state;
	for_each_victim(attack_length);
}

static void attack_directory(struct victim *v)
{
	static const uint8_t values[] = { 0, 1, 0x1f, 0x20, 0x40, 0x60, 0x7f, 0x80, 0xfe, 0xff };

	if (v->info.codec == ZIPC_CODEC_RAW)
		return;
	for (uint64_t at = 0; at < v->layout.dir_bytes; at++)
		for (size_t i = 0; i < sizeof(values); i++) {
			v->frame[v->layout.dir + at] = values[i];
			attack(v);
		}
	for (uint64_t at = 0; at + 4 <= v->layout.dir_bytes; at += 4) {
		zipc_store32(v->frame + v->layout.dir + at, UINT32_MAX);
		attack(v);
		zipc_store32(v->frame + v->layout.dir + at, 0x0fffffff);
		attack(v);
		/* Just at the end of the variable part. */
		zipc_store32(v->frame + v->layout.dir + at, (uint32_t)((v->size - v->layout.var) / 16));
		attack(v);
	}
}

static void test_codec_hostile_directory(void **state)
{
	(void)state;
	for_each_victim(attack_directory);
}

/* Lane lengths, sparse headers, streams: the first bytes of the variable part and then some. */
static void attack_data(struct victim *v)
{
	static const uint8_t values[] = { 0, 1, 0x55, 0x7f, 0xfe, 0xff };

	if (v->info.codec == ZIPC_CODEC_RAW)
		return;
	for (uint64_t at = v->layout.var; at < v->size && at < v->layout.var + 100; at++)
		for (size_t i = 0; i < sizeof(values); i++) {
			v->frame[at] = values[i];
			attack(v);
		}
	memset(v->frame + v->layout.var, 0xff, v->size - (size_t)v->layout.var);
	attack(v);
	memset(v->frame + v->layout.var, 0, v->size - (size_t)v->layout.var);
	attack(v);
	for (uint64_t seed = 0; seed < 30; seed++) {
		zipt_fill(v->frame + v->layout.var, v->size - (size_t)v->layout.var, ZIPC_DTYPE_BF16, ZIPT_DIST_RANDOM, 1, seed);
		attack(v);
	}
}

static void test_codec_hostile_data(void **state)
{
	(void)state;
	for_each_victim(attack_data);
}

static void attack_bits(struct victim *v)
{
	uint64_t seed = v->size;

	for (int i = 0; i < 300; i++) {
		for (uint64_t n = 1 + zipt_random(&seed) % 4; n > 0; n--) {
			uint64_t r = zipt_random(&seed);
			/* Every other one in the directory and behind it, where it hurts. */
			uint64_t from = v->info.codec != ZIPC_CODEC_RAW && r >> 63 ? v->layout.dir : 0;

			v->frame[from + (r >> 3) % (v->size - from)] ^= (uint8_t)(1u << (r & 7));
		}
		attack(v);
	}
}

static void test_codec_hostile_bits(void **state)
{
	(void)state;
	for_each_victim(attack_bits);
}

/* Each rule of section 7 is enforced with its own error. */
static void test_codec_hostile_errors(void **state)
{
	struct victim v = { 0 };
	uint8_t *dir;

	(void)state;
	victim_open(&v, &inputs[1]);
	dir = v.frame + v.layout.dir;
	v.frame[0] ^= 1;
	assert_int_equal(attack(&v), ZIPC_ERR_MAGIC);
	v.frame[4] = 2;
	assert_int_equal(attack(&v), ZIPC_ERR_VERSION);
	v.frame[5] = 0;
	assert_int_equal(attack(&v), ZIPC_ERR_DTYPE);
	v.frame[5] = ZIPC_DTYPE_COUNT;
	assert_int_equal(attack(&v), ZIPC_ERR_DTYPE);
	v.frame[6] = ZIPC_CODEC_COUNT;
	assert_int_equal(attack(&v), ZIPC_ERR_CODEC);
	v.frame[7] = 2;
	assert_int_equal(attack(&v), ZIPC_ERR_FLAGS);
	v.frame[32] = 1;
	assert_int_equal(attack(&v), ZIPC_ERR_RESERVED);
	zipc_store32(dir, 0x1000000);
	assert_int_equal(attack(&v), ZIPC_ERR_OFFSET);
	zipc_store16(dir + 4, 0xffff);
	assert_int_equal(attack(&v), ZIPC_ERR_OFFSET);
	dir[7] |= 0x80;
	assert_int_equal(attack(&v), ZIPC_ERR_RESERVED);
	dir[7 + 8] ^= 1;
	assert_int_equal(attack(&v), ZIPC_ERR_TABLE);
	dir[6] = 255; /* symbols past 255 */
	assert_int_equal(attack(&v), ZIPC_ERR_SYMBOL);
	v.frame[v.layout.var] ^= 1; /* a lane's length */
	assert_int_equal(attack(&v), ZIPC_ERR_STREAM);
	victim_close(&v);

	victim_open(&v, &inputs[0]);
	dir = v.frame + v.layout.dir;
	dir[9] = 4;
	assert_int_equal(attack(&v), ZIPC_ERR_MODE);
	dir[10] ^= 1;
	assert_int_equal(attack(&v), ZIPC_ERR_STREAM);
	dir[40 + 8 + 4 * 4] = 1; /* an entry that pads the last group */
	assert_int_equal(attack(&v), ZIPC_ERR_RESERVED);
	victim_close(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_codec_hostile_header, test_teardown),
		cmocka_unit_test_teardown(test_codec_hostile_length, test_teardown),
		cmocka_unit_test_teardown(test_codec_hostile_directory, test_teardown),
		cmocka_unit_test_teardown(test_codec_hostile_data, test_teardown),
		cmocka_unit_test_teardown(test_codec_hostile_bits, test_teardown),
		cmocka_unit_test_teardown(test_codec_hostile_errors, test_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
