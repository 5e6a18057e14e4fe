/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw frames: messages below a block, and whatever the policy sends as it is. A unit is 64 KiB. */
#ifndef ZIPG_RAW_CUH
#define ZIPG_RAW_CUH

#include "zipg_unit.cuh"

static ZIPG_DEVICE void zipg_raw_copy(const struct zipg_job *job)
{
	uint32_t *words = zipg_shared();
	int last;

	for (uint32_t u = zipg_first_unit(job, words, &last); u < job->nunits; u = zipg_next_unit(job, u, words, last)) {
		struct zipg_place at;
		uint64_t from, n;

		zipg_locate(job, u, &at);
		from = (uint64_t)at.unit * 8 * ZIPG_BLOCK;
		n = at.item->nbytes - from;
		n = n < 8 * ZIPG_BLOCK ? n : 8 * ZIPG_BLOCK;
		if (!(job->what & ZIPG_WHAT_DECODE)) {
			zipg_copy(at.frame + ZIPG_HEADER + from, at.plain + from, n);
			zipg_finish_raw(job, &at);
			continue;
		}
		if (at.unit == 0 && zipg_tid() == 0) {
			uint32_t error = zipg_check_header(at.frame, 0, ZIPG_CODEC_RAW, 0, at.item->nbytes,
							   at.item->nbytes + ZIPG_HEADER, 0);

			if (error)
				zipg_fail(job, &at, error);
		}
		zipg_copy(at.plain + from, at.frame + ZIPG_HEADER + from, n);
		zipg_finish_decode(job, &at);
	}
}

#endif
