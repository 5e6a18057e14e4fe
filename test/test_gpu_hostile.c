/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that decode, against frames that a hostile peer may send: an error or other data, never a step outside of a buffer. */
#include "test_gpu_util.h"

#define BYTES (8192u * 9 + 100)
#define GUARD 64u

static struct zipg_device *dev;

static int open_device(void **state)
{
	(void)state;
	dev = gpu_open(64, 0, 0);
	return 0;
}

static int close_device(void **state)
{
	(void)state;
	zipg_close(dev);
	return 0;
}

/* Decode into a buffer between guards. The frame is in a piece of its own size. */
static int decode_guarded(const uint8_t *frame, size_t size, const struct zipc_frame_info *info)
{
	uint8_t *exact = gpu_frames(size), *dst = gpu_frames(BYTES + 2 * GUARD);
	int ret;

	memcpy(exact, frame, size);
	ret = gpu_decode(dev, dst + GUARD, BYTES, exact, size, info);
	for (size_t i = 0; i < GUARD; i++) {
		assert_int_equal(dst[i], 0xcd);
		assert_int_equal(dst[GUARD + BYTES + i], 0xcd);
	}
	free(exact);
	free(dst);
	return ret;
}

static size_t make_frame(uint8_t *frame, enum zipc_dtype dtype, enum zipc_codec codec, enum zipt_dist dist, struct zipc_frame_info *info)
{
	uint8_t *src = gpu_tensor(BYTES, 0);
	size_t size;

	zipt_fill(src, BYTES, dtype, dist, 0.02, 9);
	assert_int_equal(zipc_encode(frame, zipc_frame_bound(BYTES), src, BYTES, dtype, codec, &size), 0);
	assert_int_equal(zipc_frame_parse(frame, size, info), 0);
	free(src);
	return size;
}

/* Every bit of the header and many of the rest. Where the host decoder sees an error, so must the device. */
static void flip_bits(enum zipc_dtype dtype, enum zipc_codec codec, enum zipt_dist dist, unsigned int flips)
{
	uint8_t *frame = gpu_frames(zipc_frame_bound(BYTES)), *dst = gpu_frames(BYTES);
	struct zipc_frame_info info;
	size_t size = make_frame(frame, dtype, codec, dist, &info);
	uint64_t seed = 7 * (uint64_t)dtype + (uint64_t)codec;

	for (size_t bit = 0; bit < 512 + flips; bit += bit < 512 ? 5 : 1) {
		size_t at = bit;
		uint8_t was;

		if (bit >= 512)
			at = (size_t)(zipt_random(&seed) % (size * 8));
		/* Half of them in the last eighth, where directory and variable part are. */
		if (bit >= 512 && bit % 2)
			at = size * 8 - 1 - (size_t)(zipt_random(&seed) % size);
		was = frame[at / 8];
		frame[at / 8] ^= (uint8_t)(1u << at % 8);
		if (zipc_decode(dst, BYTES, frame, size)) {
			if (!decode_guarded(frame, size, &info))
				fail_msg("dtype %d codec %d: bit %zu passes on the device only", dtype, codec, at);
		} else {
			decode_guarded(frame, size, &info);
		}
		frame[at / 8] = was;
	}
	free(frame);
	free(dst);
}

static void test_gpu_hostile_flips(void **state)
{
	(void)state;
	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		flip_bits(dtype, ZIPC_CODEC_FIXED, ZIPT_DIST_GAUSS, 40);
		flip_bits(dtype, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, 60);
		flip_bits(dtype, ZIPC_CODEC_ENTROPY, ZIPT_DIST_PADDING, 40);
		flip_bits(dtype, ZIPC_CODEC_FIXED, ZIPT_DIST_MIXED, 30);
	}
}

/* Random bytes behind a good header. */
static void test_gpu_hostile_noise(void **state)
{
	uint8_t *frame = gpu_frames(zipc_frame_bound(BYTES));
	struct zipc_frame_info info;
	uint64_t seed = 3;

	(void)state;
	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		for (int codec = ZIPC_CODEC_FIXED; codec <= ZIPC_CODEC_ENTROPY; codec++) {
			for (int dist = 0; dist < 2; dist++) {
				size_t size = make_frame(frame, dtype, codec, dist ? ZIPT_DIST_ZEROS : ZIPT_DIST_GAUSS, &info);

				for (size_t i = ZIPC_FRAME_HEADER; i < size; i++)
					frame[i] = (uint8_t)zipt_random(&seed);
				assert_int_not_equal(decode_guarded(frame, size, &info), 0);
				memset(frame + ZIPC_FRAME_HEADER, 0xff, size - ZIPC_FRAME_HEADER);
				assert_int_not_equal(decode_guarded(frame, size, &info), 0);
			}
		}
	}
	free(frame);
}

/* Streams that never end, at every place in shared memory. */
static void test_gpu_hostile_streams(void **state)
{
	uint8_t *frame = gpu_frames(zipc_frame_bound(BYTES));
	struct zipc_frame_info info;

	(void)state;
	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		size_t size = make_frame(frame, dtype, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, &info), var = size;
		uint64_t var_bytes;

		memcpy(&var_bytes, frame + 24, sizeof(var_bytes));
		var -= (size_t)var_bytes;
		for (int byte = 0; byte < 256; byte += 51) {
			uint8_t *bad = gpu_frames(size);

			memcpy(bad, frame, size);
			/* Keep the lengths of the first block's lanes, and everything else is one byte. */
			memset(bad + var + 32, byte, (size_t)var_bytes - 32);
			assert_int_not_equal(decode_guarded(bad, size, &info), 0);
			free(bad);
		}
	}
	free(frame);
}

/* The frame is not what the receiver was told. */
static void test_gpu_hostile_told(void **state)
{
	uint8_t *frame = gpu_frames(zipc_frame_bound(BYTES));
	struct zipc_frame_info info, told;
	size_t size = make_frame(frame, ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, ZIPT_DIST_GAUSS, &info);

	(void)state;
	told = info;
	told.codec = ZIPC_CODEC_FIXED;
	assert_int_not_equal(decode_guarded(frame, size, &told), 0);
	told = info;
	told.sparse = 1;
	assert_int_not_equal(decode_guarded(frame, size, &told), 0);
	told = info;
	told.dtype = ZIPC_DTYPE_FP32;
	assert_int_not_equal(decode_guarded(frame, size, &told), 0);
	told = info;
	told.codec = ZIPC_CODEC_RAW;
	assert_int_not_equal(decode_guarded(frame, size, &told), 0);
	assert_int_not_equal(decode_guarded(frame, size - 16, &info), 0);
	assert_int_not_equal(decode_guarded(frame, size - 1, &info), 0);
	assert_int_not_equal(decode_guarded(frame, 64, &info), 0);
	assert_int_not_equal(decode_guarded(frame, 0, &info), 0);
	assert_int_equal(decode_guarded(frame, size, &info), 0);
	free(frame);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpu_hostile_flips),
		cmocka_unit_test(test_gpu_hostile_noise),
		cmocka_unit_test(test_gpu_hostile_streams),
		cmocka_unit_test(test_gpu_hostile_told),
	};

	return cmocka_run_group_tests(tests, open_device, close_device);
}
