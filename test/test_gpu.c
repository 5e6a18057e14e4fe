/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels, on the emulation, against the host codec: what one writes the other reads, bit for bit. */
#include "test_gpu_util.h"

static struct zipg_device *wide, *narrow, *shared;

static int open_devices(void **state)
{
	(void)state;
	narrow = gpu_open(32, 0, 0);
	wide = gpu_open(64, 1, 0);
	shared = gpu_open(32, 1, 3);
	return 0;
}

static int close_devices(void **state)
{
	(void)state;
	zipg_close(narrow);
	zipg_close(wide);
	zipg_close(shared);
	return 0;
}

/* Encode with `dev`, decode with host and device; encode with the host, decode with the device. */
static void both_ways(struct zipg_device *dev, size_t nbytes, size_t off, enum zipc_dtype dtype, enum zipc_codec codec, int sparse,
		      enum zipt_dist dist)
{
	uint8_t *src = gpu_tensor(nbytes, off), *back = gpu_tensor(nbytes, (off * 7 + 3) % 16);
	uint8_t *frame = gpu_frames(zipc_frame_bound(nbytes));
	struct zipc_frame_info info;
	size_t size;

	zipt_fill(src, nbytes, dtype, dist, 0.02, nbytes + (size_t)dist);
	size = gpu_encode(dev, frame, src, nbytes, dtype, codec, sparse);
	assert_int_equal(zipc_frame_parse(frame, size, &info), 0);
	memset(back, 0xa5, nbytes);
	assert_int_equal(zipc_decode(back, nbytes, frame, size), 0);
	assert_memory_equal(back, src, nbytes);
	memset(back, 0x5a, nbytes);
	assert_int_equal(gpu_decode(dev, back, nbytes, frame, size, &info), 0);
	assert_memory_equal(back, src, nbytes);

	assert_int_equal(zipc_encode(frame, zipc_frame_bound(nbytes), src, nbytes, dtype, codec, &size), 0);
	assert_int_equal(zipc_frame_parse(frame, size, &info), 0);
	memset(back, 0xa5, nbytes);
	assert_int_equal(gpu_decode(dev, back, nbytes, frame, size, &info), 0);
	assert_memory_equal(back, src, nbytes);
	free(src - off);
	free(back - (off * 7 + 3) % 16);
	free(frame);
}

static void test_gpu_every_distribution(void **state)
{
	struct zipg_device *const devs[] = { narrow, wide, shared };
	unsigned int n = 0;

	(void)state;
	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		for (int dist = 0; dist < ZIPT_DIST_COUNT; dist++, n++) {
			both_ways(devs[n % 3], 65536 + 8192 * (n % 4), 0, dtype, ZIPC_CODEC_FIXED, 0, dist);
			both_ways(devs[(n + 1) % 3], 65536 + 8192 * (n % 3), 0, dtype, ZIPC_CODEC_ENTROPY, 0, dist);
			both_ways(devs[(n + 2) % 3], 8192 * (1 + n % 10), 0, dtype, ZIPC_CODEC_ENTROPY, 1, dist);
		}
	}
}

static void test_gpu_every_size(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 33, 511, 8191, 8192, 8193, 16383, 16384, 16385, 65535, 65536, 65537, 131072 + 8191 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (int dtype = ZIPC_DTYPE_RAW; dtype < ZIPC_DTYPE_COUNT; dtype++) {
			both_ways(i % 2 ? wide : shared, sizes[i], 0, dtype, ZIPC_CODEC_FIXED, 0, ZIPT_DIST_GAUSS);
			both_ways(i % 2 ? narrow : wide, sizes[i], 0, dtype, ZIPC_CODEC_ENTROPY, i % 3 == 0, ZIPT_DIST_GAUSS);
		}
	}
}

static void test_gpu_every_alignment(void **state)
{
	static const enum zipt_dist dists[] = { ZIPT_DIST_GAUSS, ZIPT_DIST_HALF_ZEROS, ZIPT_DIST_MIXED, ZIPT_DIST_PADDING };

	(void)state;
	for (size_t off = 0; off < 16; off++) {
		for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
			both_ways(narrow, 8192 * 3 + off, off, dtype, ZIPC_CODEC_FIXED, 0, dists[off % 4]);
			both_ways(wide, 8192 * 9 + off, off, dtype, ZIPC_CODEC_ENTROPY, 0, dists[(off + 1) % 4]);
			both_ways(wide, 8192 * 2 + off, off, dtype, ZIPC_CODEC_ENTROPY, 1, dists[(off + 2) % 4]);
		}
	}
}

/* Many frames of one operation, the last shorter; some do not shrink. */
static void check_chunks(struct zipg_device *dev, enum zipc_codec codec, int progress, enum zipt_dist dist)
{
	size_t chunk = 73728, nbytes = 5 * chunk + 12345, step = zipg_frame_step(chunk), bytes[6];
	uint8_t *src = gpu_tensor(nbytes, 2), *back = gpu_tensor(nbytes, 6), *frames = gpu_frames(6 * step);
	unsigned char raw[6];
	struct zipg_encode enc = {
		.src = src, .nbytes = nbytes, .chunk = chunk, .frames = frames, .step = step, .dtype = ZIPC_DTYPE_BF16, .codec = codec,
		.progress = progress,
	};
	struct zipg_decode dec = {
		.dst = back, .nbytes = nbytes, .chunk = chunk, .frames = frames, .step = step, .frame_bytes = bytes, .raw = raw,
		.dtype = ZIPC_DTYPE_BF16, .codec = codec,
	};
	struct zipg_frame got;
	struct zipg_op *op;

	zipt_fill(src, nbytes, ZIPC_DTYPE_BF16, dist, 0.02, 5);
	zipt_fill(src + 2 * chunk, chunk, ZIPC_DTYPE_BF16, ZIPT_DIST_RANDOM, 0.02, 6);
	assert_int_equal(zipg_encode_start(dev, &enc, &op), 0);
	assert_int_equal(zipg_op_frames(op), 6);
	gpu_finish(op);
	for (unsigned int i = 0; i < 6; i++) {
		size_t n = i < 5 ? chunk : 12345;

		zipg_op_frame(op, i, &got);
		bytes[i] = got.frame_bytes;
		raw[i] = (unsigned char)got.raw;
		assert_int_equal(raw[i], i == 2);
		assert_int_equal(zipc_decode(back + i * chunk, n, frames + i * step, bytes[i]), 0);
	}
	assert_memory_equal(back, src, nbytes);
	zipg_op_release(op);

	memset(back, 0, nbytes);
	assert_int_equal(zipg_decode_start(dev, &dec, &op), 0);
	gpu_finish(op);
	for (unsigned int i = 0; i < 6; i++) {
		zipg_op_frame(op, i, &got);
		assert_int_equal(got.status, 0);
	}
	assert_memory_equal(back, src, nbytes);
	zipg_op_release(op);

	/* A frame of another size than was received is an error of that frame only. */
	bytes[1] -= 16;
	assert_int_equal(zipg_decode_start(dev, &dec, &op), 0);
	gpu_finish(op);
	zipg_op_frame(op, 0, &got);
	assert_int_equal(got.status, 0);
	zipg_op_frame(op, 1, &got);
	assert_int_not_equal(got.status, 0);
	zipg_op_release(op);
	free(src - 2);
	free(back - 6);
	free(frames);
}

static void test_gpu_chunks(void **state)
{
	(void)state;
	check_chunks(narrow, ZIPC_CODEC_FIXED, 0, ZIPT_DIST_GAUSS);
	check_chunks(wide, ZIPC_CODEC_FIXED, 1, ZIPT_DIST_GAUSS);
	check_chunks(shared, ZIPC_CODEC_ENTROPY, 1, ZIPT_DIST_STEPS);
	check_chunks(narrow, ZIPC_CODEC_ENTROPY, 0, ZIPT_DIST_HALF_ZEROS);
}

/* Planes first, the rest later: together the same frame. */
static void test_gpu_split(void **state)
{
	size_t nbytes = 8192 * 19 + 77, size;

	(void)state;
	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		for (int codec = ZIPC_CODEC_FIXED; codec <= ZIPC_CODEC_ENTROPY; codec++) {
			uint8_t *src = gpu_tensor(nbytes, 4), *back = gpu_tensor(nbytes, 0), *frame = gpu_frames(zipc_frame_bound(nbytes));
			struct zipg_encode req = {
				.src = src, .nbytes = nbytes, .chunk = nbytes, .frames = frame, .dtype = dtype, .codec = codec,
				.parts = ZIPG_PARTS_PLANES,
			};
			struct zipg_frame got;
			struct zipg_op *op;

			zipt_fill(src, nbytes, dtype, ZIPT_DIST_GAUSS, 0.02, 3);
			assert_int_equal(zipg_encode_start(codec == ZIPC_CODEC_FIXED ? wide : shared, &req, &op), 0);
			gpu_finish(op);
			zipg_op_release(op);
			req.parts = ZIPG_PARTS_REST;
			assert_int_equal(zipg_encode_start(narrow, &req, &op), 0);
			gpu_finish(op);
			zipg_op_frame(op, 0, &got);
			assert_false(got.raw);
			size = got.frame_bytes;
			zipg_op_release(op);
			assert_int_equal(zipc_decode(back, nbytes, frame, size), 0);
			assert_memory_equal(back, src, nbytes);
			free(src - 4);
			free(back);
			free(frame);
		}
	}
}

static void test_gpu_ratio(void **state)
{
	static const struct {
		enum zipt_dist dist;
		enum zipc_codec codec;
		int sparse;
		double ratio;
	} cases[] = {
		{ ZIPT_DIST_GAUSS, ZIPC_CODEC_FIXED, 0, 0.705 },
		{ ZIPT_DIST_GAUSS, ZIPC_CODEC_ENTROPY, 0, 0.670 },
		{ ZIPT_DIST_UNIFORM, ZIPC_CODEC_ENTROPY, 0, 0.637 },
		{ ZIPT_DIST_STEPS, ZIPC_CODEC_ENTROPY, 0, 0.676 },
		{ ZIPT_DIST_HALF_ZEROS, ZIPC_CODEC_ENTROPY, 0, 0.660 },
		{ ZIPT_DIST_RANDOM, ZIPC_CODEC_ENTROPY, 0, 1.006 },
		{ ZIPT_DIST_RANDOM, ZIPC_CODEC_FIXED, 0, 1.006 },
		{ ZIPT_DIST_ZEROS, ZIPC_CODEC_ENTROPY, 1, 0.020 },
		{ ZIPT_DIST_CONSTANT, ZIPC_CODEC_ENTROPY, 1, 0.020 },
	};
	size_t nbytes = 8 << 17;
	uint8_t *src = gpu_tensor(nbytes, 0), *frame = gpu_frames(zipc_frame_bound(nbytes));

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size;

		zipt_fill(src, nbytes, ZIPC_DTYPE_BF16, cases[i].dist, 0.02, 11);
		size = gpu_encode(narrow, frame, src, nbytes, ZIPC_DTYPE_BF16, cases[i].codec, cases[i].sparse);
		if ((double)size / (double)nbytes > cases[i].ratio)
			fail_msg("%s: %.4f", zipt_dist_name(cases[i].dist), (double)size / (double)nbytes);
	}
	free(src);
	free(frame);
}

static void test_gpu_sample(void **state)
{
	size_t nbytes = (1 << 20) + 100;
	uint8_t *src = gpu_tensor(nbytes, 2);
	struct zipc_sample device, host;
	struct zipg_op *op;

	(void)state;
	for (int dist = 0; dist < ZIPT_DIST_COUNT; dist++) {
		zipt_fill(src, nbytes, ZIPC_DTYPE_BF16, dist, 0.02, 1);
		assert_int_equal(zipg_sample_start(wide, src, nbytes, ZIPC_DTYPE_RAW, &op), 0);
		gpu_finish(op);
		zipg_op_sample(op, &device);
		zipg_op_release(op);
		zipc_sample(src, nbytes, ZIPC_DTYPE_RAW, &host);
		assert_int_equal(device.dtype, host.dtype);
		assert_int_equal(device.sparse, host.sparse);
	}
	assert_int_equal(zipg_sample_start(wide, src, 100, ZIPC_DTYPE_RAW, &op), 0);
	gpu_finish(op);
	zipg_op_sample(op, &device);
	assert_int_equal(device.dtype, ZIPC_DTYPE_RAW);
	zipg_op_release(op);
	free(src - 2);
}

static void test_gpu_api(void **state)
{
	struct zipg_encode req = { .chunk = 8192, .nbytes = 8192, .dtype = ZIPC_DTYPE_BF16, .codec = ZIPC_CODEC_FIXED };
	struct zipg_pointer pointer;
	struct zipg_op *ops[65], *op = NULL;
	struct zipg_info info;
	unsigned int n = 0;
	const char *why;
	void *p;

	(void)state;
	assert_int_equal(zipg_count("nobody", &why), 0);
	assert_string_equal(why, "unknown backend");
	assert_true(zipg_count("cuda", &why) >= 0 && why);
	assert_int_equal(zipg_open("emu", 1, NULL, &narrow), ZIPC_ERR_INVAL);
	zipg_classify(&info, &pointer);
	assert_int_equal(pointer.memory, ZIPG_MEMORY_HOST);

	zipg_get_info(narrow, &info);
	assert_true(info.footprint > 0 && info.footprint < 4 << 20);
	assert_int_equal(zipg_alloc(narrow, ZIPG_MEMORY_DEVICE, 1 << 20, &p), 0);
	req.src = req.frames = p;
	req.frames = (uint8_t *)p + (1 << 19);
	req.parts = ZIPG_PARTS_PLANES;
	for (; n < 65 && !zipg_encode_start(narrow, &req, &ops[n]); n++)
		;
	assert_int_equal(n, 64);
	assert_int_equal(zipg_encode_start(narrow, &req, &op), ZIPC_ERR_AGAIN);
	/* Released before it was seen to be finished: collected later. */
	zipg_op_release(ops[0]);
	assert_int_equal(zipg_encode_start(narrow, &req, &ops[0]), 0);
	for (unsigned int i = 0; i < n; i++)
		zipg_op_release(ops[i]);

	req.frames = (uint8_t *)p + (1 << 19) + 8;
	assert_int_equal(zipg_encode_start(narrow, &req, &op), ZIPC_ERR_INVAL);
	req.frames = (uint8_t *)p + (1 << 19);
	req.nbytes = 3 * 8192;
	req.step = 8192;
	assert_int_equal(zipg_encode_start(narrow, &req, &op), ZIPC_ERR_INVAL);
	req.sparse = 1;
	req.step = zipg_frame_step(8192);
	assert_int_equal(zipg_encode_start(narrow, &req, &op), ZIPC_ERR_INVAL);
	assert_null(op);
	zipg_release(narrow, ZIPG_MEMORY_DEVICE, 1 << 20, p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gpu_every_distribution),
		cmocka_unit_test(test_gpu_every_size),
		cmocka_unit_test(test_gpu_every_alignment),
		cmocka_unit_test(test_gpu_chunks),
		cmocka_unit_test(test_gpu_split),
		cmocka_unit_test(test_gpu_ratio),
		cmocka_unit_test(test_gpu_sample),
		cmocka_unit_test(test_gpu_api),
	};

	return cmocka_run_group_tests(tests, open_devices, close_devices);
}
