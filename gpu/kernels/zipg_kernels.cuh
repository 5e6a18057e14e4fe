/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kernel, by name. Included by the one source file of each backend. */
#include "zipg_entropy_dec.cuh"
#include "zipg_entropy_enc.cuh"
#include "zipg_fixed.cuh"
#include "zipg_raw.cuh"

/*
 * The last four arguments: how many thread blocks a multiprocessor should hold in the fixed encoder and decoder and the entropy encoder and
 * decoder. They bound the registers; these are the most that need no memory for them (doc/gpu.md).
 */
#define ZIPG_KERNELS_OF(name, dt, fe, fd, ee, ed)                                                          \
	ZIPG_KERNEL(zipg_fixed_enc_##name, fe) { zipg_fixed_encode(dt, 0, &job); }                         \
	ZIPG_KERNEL(zipg_fixed_dec_##name, fd) { zipg_fixed_decode(dt, &job); }                            \
	ZIPG_KERNEL(zipg_entropy_enc_##name, ee) { zipg_entropy_encode(dt, 0, 0, &job); }                  \
	ZIPG_KERNEL(zipg_entropy_dec_##name, ed) { zipg_entropy_decode(dt, 0, &job); }                     \
	ZIPG_KERNEL(zipg_sparse_enc_##name, 3) { zipg_entropy_encode(dt, 1, 0, &job); }                    \
	ZIPG_KERNEL(zipg_sparse_dec_##name, 3) { zipg_entropy_decode(dt, 1, &job); }                       \
	ZIPG_KERNEL(zipg_fixed_enc_share_##name, fe - 1) { zipg_fixed_encode(dt, 1, &job); }                    \
	ZIPG_KERNEL(zipg_entropy_enc_share_##name, 3) { zipg_entropy_encode(dt, 0, 1, &job); }             \
	ZIPG_KERNEL(zipg_sparse_enc_share_##name, 2) { zipg_entropy_encode(dt, 1, 1, &job); }

ZIPG_KERNELS_OF(bf16, ZIPG_BF16, 5, 6, 4, 4)
#ifndef ZIPG_ONLY_BF16
ZIPG_KERNELS_OF(fp16, ZIPG_FP16, 4, 5, 3, 3)
ZIPG_KERNELS_OF(fp32, ZIPG_FP32, 3, 4, 3, 3)
ZIPG_KERNELS_OF(e4m3, ZIPG_E4M3, 5, 6, 3, 3)
ZIPG_KERNELS_OF(e5m2, ZIPG_E5M2, 5, 6, 3, 3)
#endif
ZIPG_KERNEL(zipg_raw_raw, 4) { zipg_raw_copy(&job); }
ZIPG_KERNEL(zipg_sample_raw, 4) { zipg_sample_blocks(&job); }
ZIPG_KERNEL(zipg_compare_raw, 4) { zipg_compare(&job); }
