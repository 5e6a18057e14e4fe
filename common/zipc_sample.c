/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipc_codec.h"

#include "zipc_codec_choose.h"

#define SAMPLE_BLOCKS 8u
/* Less than this is not worth the work, and what random bits seem to save must stay below it. */
#define WORTH 0.97f

/* Bytes that a block takes beside planes and exponents. */
#define ENTROPY_OVERHEAD 56.0f
#define FIXED_OVERHEAD 24.0f

static void predict(const struct zipc_look *looks, unsigned n, enum zipc_dtype dtype, struct zipc_sample *sample)
{
	const struct zipc_dtype_info *info = &zipc_dtype_infos[dtype];
	struct zipc_base bases[SAMPLE_BLOCKS];
	unsigned table, planes = 0, constant = 0, escapes = 0;
	float samples = (float)(n * (unsigned)looks[0].count), exps, fixed;

	exps = (float)zipc_choose_entropy(looks, n, info, &table, bases) / 128 / samples * info->elements;
	for (unsigned b = 0; b < n; b++) {
		if (!looks[b].same)
			escapes += zipc_choose_fixed(&looks[b], info, &bases[b]);
		constant += zipc_constant_bytes(info, looks[b].constant_planes);
	}
	for (unsigned p = 0; p < info->nplanes; p++)
		planes += info->plane_bytes[p];
	sample->dtype = dtype;
	sample->sparse = constant > n * ZIPC_SPARSE_HEADER;
	fixed = ((float)planes + FIXED_OVERHEAD + (0.375f + (float)escapes / samples) * info->elements) / ZIPC_BLOCK;
	if (sample->sparse)
		planes = planes - constant / n + ZIPC_SPARSE_HEADER;
	sample->ratio_entropy = ((float)planes + ENTROPY_OVERHEAD + exps) / ZIPC_BLOCK;
	/* A buffer with much that is constant is coded sparse whichever codec was asked for. */
	sample->ratio_fixed = (float)constant > ZIPC_SPARSE_SHARE * (float)(n * ZIPC_BLOCK) ? sample->ratio_entropy : fixed;
}

static void look_at(struct zipc_look looks[SAMPLE_BLOCKS], unsigned n, const uint8_t *src, uint64_t nblocks,
		    enum zipc_dtype dtype)
{
	for (unsigned i = 0; i < n; i++)
		zipc_look_block(&looks[i], src + (2 * i + 1) * nblocks / (2 * n) * ZIPC_BLOCK, dtype);
}

void zipc_sample(const void *src, size_t nbytes, enum zipc_dtype hint, struct zipc_sample *sample)
{
	uint64_t nblocks = nbytes / ZIPC_BLOCK;
	unsigned n = nblocks < SAMPLE_BLOCKS ? (unsigned)nblocks : SAMPLE_BLOCKS;
	struct zipc_sample best = { ZIPC_DTYPE_RAW, 0, 1, 1 };
	float coded = (float)(nblocks * ZIPC_BLOCK) / (float)(nbytes ? nbytes : 1);

	for (int dtype = ZIPC_DTYPE_BF16; dtype < ZIPC_DTYPE_COUNT && n; dtype++) {
		struct zipc_look looks[SAMPLE_BLOCKS];
		struct zipc_sample guess;

		if (hint != ZIPC_DTYPE_RAW && hint != (enum zipc_dtype)dtype)
			continue;
		look_at(looks, n, src, nblocks, (enum zipc_dtype)dtype);
		predict(looks, n, (enum zipc_dtype)dtype, &guess);
		if (guess.ratio_entropy < best.ratio_entropy)
			best = guess;
	}
	/* The tail is sent as it is. */
	best.ratio_entropy = best.ratio_entropy * coded + 1 - coded;
	best.ratio_fixed = best.ratio_fixed * coded + 1 - coded;
	if (best.ratio_entropy > WORTH)
		best = (struct zipc_sample){ ZIPC_DTYPE_RAW, 0, 1, 1 };
	if (best.ratio_fixed > 1)
		best.ratio_fixed = 1;
	*sample = best;
}
