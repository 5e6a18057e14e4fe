/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything in which NVIDIA, AMD and the emulation on the host differ. The kernels are written against this file: thread blocks of
 * ZIPG_THREADS threads, logical warps of 32 lanes. On hardware with wavefronts of 64 a wavefront holds two logical warps
 * and every function here stays inside one of them.
 */
#ifndef ZIPG_PORT_CUH
#define ZIPG_PORT_CUH

#include <stdint.h>

#if defined(__CUDACC__)
#include "zipg_port_cuda.cuh"
#elif defined(__HIP__) || defined(__HIPCC__)
#include "zipg_port_hip.cuh"
#else
#include "zipg_port_emu.cuh"
#endif

/* 16 bytes as the kernels handle them: four words in registers. */
static ZIPG_DEVICE struct zipg_vec zipg_vec4(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	struct zipg_vec v;

	v.w[0] = a;
	v.w[1] = b;
	v.w[2] = c;
	v.w[3] = d;
	return v;
}

static ZIPG_DEVICE uint32_t zipg_lane(void) { return zipg_tid() & 31u; }
static ZIPG_DEVICE uint32_t zipg_warp(void) { return zipg_tid() >> 5; }
static ZIPG_DEVICE int zipg_any(int p) { return zipg_ballot(p) != 0; }

/* Sum of the lanes below and including this one. */
static ZIPG_DEVICE uint32_t zipg_scan(uint32_t v)
{
	uint32_t lane = zipg_lane();

	ZIPG_UNROLL
	for (uint32_t d = 1; d < 32; d <<= 1) {
		uint32_t t = zipg_shfl_up(v, d);

		v += lane >= d ? t : 0;
	}
	return v;
}

#endif
