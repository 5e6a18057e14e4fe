/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zipg_port.cuh for hipcc. A wavefront is 64 or 32 wide; shuffles are given the width 32, ballots are cut to the half that
 * this lane is in, and lanes of one logical warp run in step, so that a wavefront barrier orders their memory accesses.
 */
#ifndef ZIPG_PORT_HIP_CUH
#define ZIPG_PORT_HIP_CUH

#include <hip/hip_runtime.h>

#define ZIPG_DEVICE __device__ __forceinline__
#define ZIPG_UNROLL _Pragma("unroll")
#define ZIPG_NO_UNROLL _Pragma("nounroll")
#define ZIPG_KERNEL(name, blocks) \
	extern "C" __global__ void __launch_bounds__(ZIPG_THREADS) name(const struct zipg_job job)
#define ZIPG_LIKELY(x) __builtin_expect(!!(x), 1)
#define ZIPG_UNLIKELY(x) __builtin_expect(!!(x), 0)

struct __attribute__((aligned(16))) zipg_vec {
	uint32_t w[4];
};

extern __shared__ uint32_t zipg_smem[];

static ZIPG_DEVICE uint32_t *zipg_shared(void) { return zipg_smem; }
static ZIPG_DEVICE uint32_t zipg_tid(void) { return threadIdx.x; }
static ZIPG_DEVICE uint32_t zipg_bid(void) { return blockIdx.x; }
static ZIPG_DEVICE uint32_t zipg_grid(void) { return gridDim.x; }

/* Compute unit, shader array and shader engine out of the HW_ID register, made dense enough for a share. */
static ZIPG_DEVICE uint32_t zipg_smid(void)
{
#if defined(__GFX9__)
	uint32_t id = __builtin_amdgcn_s_getreg(4 | 8 << 6 | 7 << 11);

	return (id & 15u) * 16u + (id >> 4);
#else
	return blockIdx.x;
#endif
}

static ZIPG_DEVICE void zipg_barrier(void) { __syncthreads(); }

static ZIPG_DEVICE void zipg_syncwarp(void)
{
	__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
	__builtin_amdgcn_wave_barrier();
}

static ZIPG_DEVICE void zipg_fence(void) { __threadfence(); }
static ZIPG_DEVICE void zipg_fence_system(void) { __threadfence_system(); }
static ZIPG_DEVICE uint32_t zipg_shfl(uint32_t v, uint32_t lane) { return (uint32_t)__shfl((int)v, (int)lane, 32); }
static ZIPG_DEVICE uint32_t zipg_shfl_up(uint32_t v, uint32_t d) { return (uint32_t)__shfl_up((int)v, d, 32); }

static ZIPG_DEVICE uint32_t zipg_ballot(int p)
{
	uint64_t b = __ballot(p);

	return (uint32_t)(b >> (__lane_id() & 32u));
}

#define ZIPG_HIP_REDUCE(name, expr)                              \
	static ZIPG_DEVICE uint32_t name(uint32_t a)             \
	{                                                        \
		for (int d = 16; d; d >>= 1) {                   \
			uint32_t b = (uint32_t)__shfl_xor((int)a, d, 32); \
			a = (expr);                              \
		}                                                \
		return a;                                        \
	}
ZIPG_HIP_REDUCE(zipg_warp_add, a + b)
ZIPG_HIP_REDUCE(zipg_warp_max, a > b ? a : b)
ZIPG_HIP_REDUCE(zipg_warp_min, a < b ? a : b)
ZIPG_HIP_REDUCE(zipg_warp_and, a & b)
ZIPG_HIP_REDUCE(zipg_warp_or, a | b)

static ZIPG_DEVICE uint32_t zipg_atomic_add(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }
static ZIPG_DEVICE uint64_t zipg_atomic_add64(uint64_t *p, uint64_t v)
{
	return atomicAdd((unsigned long long *)p, (unsigned long long)v);
}

static ZIPG_DEVICE void zipg_shared_add(uint32_t *p, uint32_t v) { atomicAdd(p, v); }
static ZIPG_DEVICE void zipg_shared_or(uint32_t *p, uint32_t v) { atomicOr(p, v); }
static ZIPG_DEVICE uint32_t zipg_load_volatile(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
/* Bring the line of p into L2. */
static ZIPG_DEVICE void zipg_prefetch(const void *p) { (void)p; }

static ZIPG_DEVICE void zipg_store_volatile(uint32_t *p, uint32_t v) { *(volatile uint32_t *)p = v; }

typedef uint32_t zipg_u32x4 __attribute__((ext_vector_type(4)));
typedef uint32_t zipg_u32x2 __attribute__((ext_vector_type(2)));
typedef uint16_t zipg_u16x2 __attribute__((ext_vector_type(2)));

static ZIPG_DEVICE struct zipg_vec zipg_ld16(const void *p)
{
	zipg_u32x4 u = *(const zipg_u32x4 *)p;
	struct zipg_vec v = { { u.x, u.y, u.z, u.w } };

	return v;
}

static ZIPG_DEVICE struct zipg_vec zipg_ld16_once(const void *p)
{
	zipg_u32x4 u = __builtin_nontemporal_load((const zipg_u32x4 *)p);
	struct zipg_vec v = { { u.x, u.y, u.z, u.w } };

	return v;
}

static ZIPG_DEVICE void zipg_ld8_once(const void *p, uint32_t *a, uint32_t *b)
{
	zipg_u32x2 u = __builtin_nontemporal_load((const zipg_u32x2 *)p);

	*a = u.x;
	*b = u.y;
}

static ZIPG_DEVICE uint32_t zipg_ld4_once(const void *p) { return __builtin_nontemporal_load((const uint32_t *)p); }
static ZIPG_DEVICE uint32_t zipg_ld4(const void *p) { return *(const uint32_t *)p; }
/* An aligned word of which at least one byte is ours. */
static ZIPG_DEVICE uint32_t zipg_ld4_edge(const void *p) { return zipg_ld4(p); }
static ZIPG_DEVICE uint32_t zipg_ld2(const void *p) { return *(const uint16_t *)p; }
static ZIPG_DEVICE uint32_t zipg_ld1(const void *p) { return *(const uint8_t *)p; }

static ZIPG_DEVICE void zipg_st16(void *p, struct zipg_vec v)
{
	zipg_u32x4 u = { v.w[0], v.w[1], v.w[2], v.w[3] };

	__builtin_nontemporal_store(u, (zipg_u32x4 *)p);
}

static ZIPG_DEVICE void zipg_st8(void *p, uint32_t a, uint32_t b)
{
	zipg_u32x2 u = { a, b };

	__builtin_nontemporal_store(u, (zipg_u32x2 *)p);
}

static ZIPG_DEVICE void zipg_st4(void *p, uint32_t v) { __builtin_nontemporal_store(v, (uint32_t *)p); }
static ZIPG_DEVICE void zipg_st1(void *p, uint32_t v) { *(uint8_t *)p = (uint8_t)v; }

/* v_perm_b32 takes a byte a selector and counts the bytes of its second operand first. */
static ZIPG_DEVICE uint32_t zipg_lookup4(uint32_t a, uint32_t b, uint32_t sel)
{
	uint32_t s = (sel & 0xffu) | (sel & 0xff00u) << 8;

	s = (s | s << 4) & 0x07070707u;
	return __builtin_amdgcn_perm(b, a, s);
}

static ZIPG_DEVICE uint32_t zipg_perm(uint32_t a, uint32_t b, uint32_t sel) { return zipg_lookup4(a, b, sel); }

static ZIPG_DEVICE uint32_t zipg_shl64(uint32_t lo, uint32_t hi, uint32_t s)
{
	return (uint32_t)((((uint64_t)hi << 32 | lo) << (s & 31u)) >> 32);
}

static ZIPG_DEVICE uint32_t zipg_shr64(uint32_t lo, uint32_t hi, uint32_t s) { return __builtin_amdgcn_alignbit(hi, lo, s); }
static ZIPG_DEVICE uint32_t zipg_shl(uint32_t v, uint32_t s) { return v << (s & 31u); }
static ZIPG_DEVICE uint32_t zipg_shr(uint32_t v, uint32_t s) { return v >> (s & 31u); }
static ZIPG_DEVICE uint32_t zipg_select(uint32_t mask, uint32_t a, uint32_t b) { return (a & mask) | (b & ~mask); }
static ZIPG_DEVICE uint32_t zipg_popc(uint32_t v) { return (uint32_t)__builtin_popcount(v); }
static ZIPG_DEVICE uint32_t zipg_sum_bytes(uint32_t v) { return __builtin_amdgcn_sad_u8(v, 0, 0); }
static ZIPG_DEVICE uint32_t zipg_top_bit(uint32_t v) { return 31u - (uint32_t)__builtin_clz(v); }

static ZIPG_DEVICE uint32_t zipg_addmin2(uint32_t x, uint32_t add, uint32_t limit)
{
	zipg_u16x2 s = __builtin_bit_cast(zipg_u16x2, x) + __builtin_bit_cast(zipg_u16x2, add);
	zipg_u16x2 l = __builtin_bit_cast(zipg_u16x2, limit);

	return __builtin_bit_cast(uint32_t, __builtin_elementwise_min(s, l));
}

#endif
