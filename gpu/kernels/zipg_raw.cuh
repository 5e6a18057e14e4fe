/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw frames: messages below a block, and whatever the policy sends as it is. A unit is 64 KiB. */
#ifndef ZIPG_RAW_CUH
#define ZIPG_RAW_CUH

#include "zipg_unit.cuh"

static ZIPG_DEVICE void zipg_raw_copy(const struct zipg_job *job)
{
	struct zipg_place at;
	uint64_t from, n;

	zipg_locate(job, zipg_bid(), &at);
	from = (uint64_t)at.unit * 8 * ZIPG_BLOCK;
	n = at.item->nbytes - from;
	n = n < 8 * ZIPG_BLOCK ? n : 8 * ZIPG_BLOCK;
	if (job->what & ZIPG_WHAT_DECODE) {
		zipg_check_header(job, &at, 0, ZIPG_CODEC_RAW, 0);
		zipg_copy(at.plain + from, at.frame + ZIPG_HEADER + from, n);
		return;
	}
	zipg_reserve_raw(job, &at);
	zipg_copy(at.frame + ZIPG_HEADER + from, at.plain + from, n);
	zipg_unit_done(job, &at);
}

/* Block i of the sample is the one in the middle of the i-th part of the tensor. */
static ZIPG_DEVICE void zipg_sample_blocks(const struct zipg_job *job)
{
	uint64_t block = (uint64_t)job->item.nblocks * (2 * zipg_bid() + 1) / (2 * zipg_grid());
	const uint8_t *src = (const uint8_t *)(uintptr_t)job->item.plain + block * ZIPG_BLOCK;

	zipg_copy((uint8_t *)(uintptr_t)job->result + zipg_bid() * ZIPG_BLOCK, src, ZIPG_BLOCK);
}

/* Unit by unit, the tensor at `frame` against the one at `plain`; the result's status says 1 when they differ. Both aligned to 16. */
static ZIPG_DEVICE void zipg_compare(const struct zipg_job *job)
{
	uint64_t from = (uint64_t)zipg_bid() * 8 * ZIPG_BLOCK, n = job->item.nbytes - from;
	const uint8_t *a = (const uint8_t *)(uintptr_t)job->item.plain + from, *b = (const uint8_t *)(uintptr_t)job->item.frame + from;
	uint32_t diff = 0, vecs;

	n = n < 8 * ZIPG_BLOCK ? n : 8 * ZIPG_BLOCK;
	vecs = (uint32_t)n / 16;
	for (uint32_t i = zipg_tid(); i < vecs; i += ZIPG_THREADS) {
		struct zipg_vec x = zipg_ld16(a + i * 16), y = zipg_ld16(b + i * 16);

		for (int k = 0; k < 4; k++)
			diff |= x.w[k] ^ y.w[k];
	}
	for (uint32_t i = vecs * 16 + zipg_tid(); i < (uint32_t)n; i += ZIPG_THREADS)
		diff |= zipg_ld1(a + i) ^ zipg_ld1(b + i);
	if (diff)
		((struct zipg_result *)(uintptr_t)job->result)->status = 1;
}

#endif
