/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kernel, by name. Included by the one source file of each backend. */
#include "zipg_entropy_dec.cuh"
#include "zipg_entropy_enc.cuh"
#include "zipg_fixed.cuh"
#include "zipg_raw.cuh"

/* How many thread blocks a multiprocessor should hold: it bounds the registers. Measured, see doc/gpu.md. */
#ifndef ZIPG_OCC_FE
#define ZIPG_OCC_FE 5
#define ZIPG_OCC_FD 6
#define ZIPG_OCC_EE 4
#define ZIPG_OCC_ED 3
#endif

#define ZIPG_KERNELS_OF(name, dt)                                                                          \
	ZIPG_KERNEL(zipg_fixed_enc_##name, ZIPG_OCC_FE) { zipg_fixed_encode(dt, 0, &job); }                \
	ZIPG_KERNEL(zipg_fixed_dec_##name, ZIPG_OCC_FD) { zipg_fixed_decode(dt, &job); }                   \
	ZIPG_KERNEL(zipg_entropy_enc_##name, ZIPG_OCC_EE) { zipg_entropy_encode(dt, 0, 0, &job); }         \
	ZIPG_KERNEL(zipg_entropy_dec_##name, ZIPG_OCC_ED) { zipg_entropy_decode(dt, 0, &job); }            \
	ZIPG_KERNEL(zipg_sparse_enc_##name, 3) { zipg_entropy_encode(dt, 1, 0, &job); }                    \
	ZIPG_KERNEL(zipg_sparse_dec_##name, 3) { zipg_entropy_decode(dt, 1, &job); }                       \
	ZIPG_KERNEL(zipg_fixed_enc_share_##name, 4) { zipg_fixed_encode(dt, 1, &job); }                    \
	ZIPG_KERNEL(zipg_entropy_enc_share_##name, 3) { zipg_entropy_encode(dt, 0, 1, &job); }             \
	ZIPG_KERNEL(zipg_sparse_enc_share_##name, 3) { zipg_entropy_encode(dt, 1, 1, &job); }

ZIPG_KERNELS_OF(bf16, ZIPG_BF16)
#ifndef ZIPG_ONLY_BF16
ZIPG_KERNELS_OF(fp16, ZIPG_FP16)
ZIPG_KERNELS_OF(fp32, ZIPG_FP32)
ZIPG_KERNELS_OF(e4m3, ZIPG_E4M3)
ZIPG_KERNELS_OF(e5m2, ZIPG_E5M2)
#endif
ZIPG_KERNEL(zipg_raw_raw, 4) { zipg_raw_copy(&job); }
ZIPG_KERNEL(zipg_sample_raw, 4) { zipg_sample_blocks(&job); }
