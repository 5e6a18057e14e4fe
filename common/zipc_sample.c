/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipc_codec.h"

#include "zipc_codec_choose.h"

#define SAMPLE_BLOCKS 8u
#define DTYPE_BLOCKS 4u
#define CLOSE 0.03f
/* Less than this is not worth the work, and what random bits seem to save must stay below it. */
#define WORTH 0.97f

/* Bytes that a block takes beside planes and exponents: directory, lane lengths, padding. */
#define ENTRY_OVERHEAD 8.0f
#define STREAM_OVERHEAD 46.0f
#define FIXED_OVERHEAD 24.0f

static void predict(const struct zipc_look *looks, unsigned n, enum zipc_dtype dtype, struct zipc_sample *sample)
{
	const struct zipc_dtype_info *info = &zipc_dtype_infos[dtype];
	struct zipc_base bases[SAMPLE_BLOCKS];
	unsigned table, planes = 0, constant = 0, escapes, streams = 0;
	float samples = (float)(n * (unsigned)looks[0].count), exps, fixed;

	exps = (float)zipc_choose_entropy(looks, n, info, &table, bases) / 128 / samples * info->elements;
	escapes = zipc_choose_fixed(looks, n, info, bases);
	for (unsigned b = 0; b < n; b++) {
		streams += !looks[b].same;
		constant += zipc_constant_bytes(info, looks[b].constant_planes);
	}
	for (unsigned p = 0; p < info->nplanes; p++)
		planes += info->plane_bytes[p];
	sample->dtype = dtype;
	sample->sparse = constant > n * ZIPC_SPARSE_HEADER;
	fixed = ((float)planes + FIXED_OVERHEAD + (0.375f + (float)escapes / samples) * info->elements) / ZIPC_BLOCK;
	if (sample->sparse)
		planes = planes - constant / n + ZIPC_SPARSE_HEADER;
	exps += ENTRY_OVERHEAD + STREAM_OVERHEAD * (float)streams / (float)n;
	sample->ratio_entropy = ((float)planes + exps) / ZIPC_BLOCK;
	/* A buffer with much that is constant is coded sparse whichever codec was asked for. */
	sample->ratio_fixed = (float)constant > ZIPC_SPARSE_SHARE * (float)(n * ZIPC_BLOCK) ? sample->ratio_entropy : fixed;
}

/* Look at n blocks spread over the buffer and predict. n <= SAMPLE_BLOCKS and n <= nblocks, both above 0. */
static void predict_from(const uint8_t *src, uint64_t nblocks, unsigned n, enum zipc_dtype dtype, struct zipc_sample *sample)
{
	struct zipc_look looks[SAMPLE_BLOCKS] = { { .count = 0 } };

	for (unsigned i = 0; i < n; i++)
		zipc_look_block(&looks[i], src + (2 * i + 1) * nblocks / (2 * n) * ZIPC_BLOCK, dtype);
	predict(looks, n, dtype, sample);
}

void zipc_predict(const uint8_t *src, uint64_t nblocks, enum zipc_dtype dtype, struct zipc_sample *sample)
{
	predict_from(src, nblocks, nblocks < SAMPLE_BLOCKS ? (unsigned)nblocks : SAMPLE_BLOCKS, dtype, sample);
}

/*
 * The type that promises most, from few blocks: looking at all of them for every type is what would cost. What is close behind
 * the best gets a second look at all blocks; that happens to types alike, as the two of 8 bits.
 */
static void best_dtype(const uint8_t *src, uint64_t nblocks, struct zipc_sample *sample)
{
	unsigned n = nblocks < DTYPE_BLOCKS ? (unsigned)nblocks : DTYPE_BLOCKS;
	struct zipc_sample guesses[ZIPC_DTYPE_COUNT], all;
	float best = 2;

	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		predict_from(src, nblocks, n, (enum zipc_dtype)dtype, &guesses[dtype]);
		if (guesses[dtype].ratio_entropy < best)
			best = guesses[dtype].ratio_entropy;
	}
	sample->ratio_entropy = 2;
	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT; dtype++) {
		if (guesses[dtype].ratio_entropy > best + CLOSE)
			continue;
		zipc_predict(src, nblocks, (enum zipc_dtype)dtype, &all);
		if (all.ratio_entropy < sample->ratio_entropy)
			*sample = all;
	}
}

void zipc_sample(const void *src, size_t nbytes, enum zipc_dtype hint, struct zipc_sample *sample)
{
	const struct zipc_sample raw = { ZIPC_DTYPE_RAW, 0, 1, 1 };
	uint64_t nblocks = nbytes / ZIPC_BLOCK;
	float coded = (float)(nblocks * ZIPC_BLOCK) / (float)(nbytes ? nbytes : 1);

	if (!nblocks) {
		*sample = raw;
		return;
	}
	if (hint == ZIPC_DTYPE_RAW)
		best_dtype(src, nblocks, sample);
	else
		zipc_predict(src, nblocks, hint, sample);
	/* The tail is sent as it is. */
	sample->ratio_entropy = sample->ratio_entropy * coded + 1 - coded;
	sample->ratio_fixed = sample->ratio_fixed * coded + 1 - coded;
	if (sample->ratio_entropy > WORTH)
		*sample = raw;
	if (sample->ratio_fixed > 1)
		sample->ratio_fixed = 1;
}
