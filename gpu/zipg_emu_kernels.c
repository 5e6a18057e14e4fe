/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for the host. */
#include "zipg_emu.h"

#include <stddef.h>

/* Kernels are named in zipg_emu_kernel() only; hardware needs them external. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#include "kernels/zipg_kernels.cuh"

typedef void (*kernel_fn)(const struct zipg_job job);

#define FUNCTIONS_OF(dt, name)                                    \
	[ZIPG_KIND_FIXED_ENC][dt] = zipg_fixed_enc_##name,        \
	[ZIPG_KIND_FIXED_DEC][dt] = zipg_fixed_dec_##name,        \
	[ZIPG_KIND_ENTROPY_ENC][dt] = zipg_entropy_enc_##name,    \
	[ZIPG_KIND_ENTROPY_DEC][dt] = zipg_entropy_dec_##name,    \
	[ZIPG_KIND_SPARSE_ENC][dt] = zipg_sparse_enc_##name,      \
	[ZIPG_KIND_SPARSE_DEC][dt] = zipg_sparse_dec_##name,      \
	[ZIPG_KIND_FIXED_SHARE][dt] = zipg_fixed_enc_share_##name, \
	[ZIPG_KIND_ENTROPY_SHARE][dt] = zipg_entropy_enc_share_##name, \
	[ZIPG_KIND_SPARSE_SHARE][dt] = zipg_sparse_enc_share_##name

static const kernel_fn functions[ZIPG_KIND_COUNT][6] = {
	FUNCTIONS_OF(ZIPG_BF16, bf16),
	FUNCTIONS_OF(ZIPG_FP16, fp16),
	FUNCTIONS_OF(ZIPG_FP32, fp32),
	FUNCTIONS_OF(ZIPG_E4M3, e4m3),
	FUNCTIONS_OF(ZIPG_E5M2, e5m2),
	[ZIPG_KIND_RAW][0] = zipg_raw_raw,
	[ZIPG_KIND_SAMPLE][0] = zipg_sample_raw,
	[ZIPG_KIND_COMPARE][0] = zipg_compare_raw,
};

kernel_fn zipg_emu_kernel(unsigned int kind, unsigned int dtype)
{
	return kind < ZIPG_KIND_COUNT && dtype < 6 ? functions[kind][dtype] : NULL;
}
