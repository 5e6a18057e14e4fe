/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target of the codec. The input is taken twice: as a frame of a hostile peer, and as data that must survive a
 * round trip. Built by clang with -fsanitize=fuzzer,address,undefined:
 *
 *     fuzz_decode --seeds DIR    write a seed corpus: small frames of every type and mode
 *     fuzz_decode DIR            fuzz
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "zipc_codec.h"
#include "zipc_error.h"
#include "zipc_split.h"
#include "zipt_data.h"

/* More than this a frame of the fuzzer's size will not claim honestly, and a sparse frame must not make us allocate. */
#define MAX_OUTPUT (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static void decode_frame(const uint8_t *data, size_t size)
{
	struct zipc_frame_info info;
	uint8_t *out;

	if (zipc_frame_parse(data, size, &info) || info.nbytes > MAX_OUTPUT)
		return;
	out = malloc(info.nbytes ? (size_t)info.nbytes : 1);
	if (!out)
		abort();
	(void)zipc_decode(out, (size_t)info.nbytes, data, size);
	free(out);
}

/* The first byte picks type and codec. */
static void roundtrip(const uint8_t *data, size_t size)
{
	enum zipc_dtype dtype = (enum zipc_dtype)(data[0] % ZIPC_DTYPE_COUNT);
	enum zipc_codec codec = (enum zipc_codec)(data[0] / 8 % ZIPC_CODEC_COUNT);
	size_t nbytes = size - 1, bound = zipc_frame_bound(nbytes), frame_bytes = 0;
	uint8_t *frame = malloc(bound), *out = malloc(size);
	struct zipc_sample sample;

	if (!frame || !out)
		abort();
	zipc_sample(data + 1, nbytes, ZIPC_DTYPE_RAW, &sample);
	if (zipc_encode(frame, bound, data + 1, nbytes, dtype, codec, &frame_bytes) || frame_bytes > bound ||
	    zipc_decode(out, nbytes, frame, frame_bytes) || memcmp(out, data + 1, nbytes))
		abort();
	free(frame);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const impls[] = { "portable", "avx2" };

	for (int i = 0; i < 2; i++) {
		if (zipc_ops_force(impls[i]))
			continue;
		decode_frame(data, size);
		if (size)
			roundtrip(data, size);
	}
	return 0;
}

static int write_seed(const char *dir, enum zipc_dtype dtype, enum zipc_codec codec, enum zipt_dist dist)
{
	static uint8_t src[2 * 8192 + 40], frame[sizeof(src) + ZIPC_FRAME_HEADER];
	size_t size;
	char path[1024];
	FILE *f;
	int bad;

	zipt_fill(src, sizeof(src), dtype, dist, 0.02, 1);
	if (zipc_encode(frame, sizeof(frame), src, sizeof(src), dtype, codec, &size))
		return -1;
	snprintf(path, sizeof(path), "%s/%s_%s_%s", dir, zipc_dtype_name(dtype), zipc_codec_name(codec), zipt_dist_name(dist));
	f = fopen(path, "wb");
	if (!f)
		return -1;
	bad = fwrite(frame, 1, size, f) != size;
	return fclose(f) || bad ? -1 : 0;
}

static int write_seeds(const char *dir)
{
	static const enum zipt_dist dists[] = { ZIPT_DIST_GAUSS, ZIPT_DIST_HALF_ZEROS, ZIPT_DIST_ZEROS, ZIPT_DIST_SPECIALS,
						ZIPT_DIST_UPCAST };

	if (mkdir(dir, 0777) && errno != EEXIST)
		return -1;
	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (int codec = 1; codec < ZIPC_CODEC_COUNT; codec++)
			for (size_t i = 0; i < sizeof(dists) / sizeof(dists[0]); i++)
				if (write_seed(dir, (enum zipc_dtype)dtype, (enum zipc_codec)codec, dists[i]))
					return -1;
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	if (*argc == 3 && !strcmp((*argv)[1], "--seeds")) {
		if (write_seeds((*argv)[2])) {
			perror((*argv)[2]);
			exit(1);
		}
		exit(0);
	}
	return 0;
}
