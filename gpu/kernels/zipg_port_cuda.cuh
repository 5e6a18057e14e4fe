/* SPDX-License-Identifier: BSD-3-Clause */
/* zipg_port.cuh for nvcc. */
#ifndef ZIPG_PORT_CUDA_CUH
#define ZIPG_PORT_CUDA_CUH

#define ZIPG_DEVICE __device__ __forceinline__
#define ZIPG_UNROLL _Pragma("unroll")
#define ZIPG_NO_UNROLL _Pragma("unroll 1")
#define ZIPG_KERNEL(name, blocks) \
	extern "C" __global__ void __launch_bounds__(ZIPG_THREADS, blocks) name(const __grid_constant__ struct zipg_job job)
#define ZIPG_LIKELY(x) __builtin_expect(!!(x), 1)
#define ZIPG_UNLIKELY(x) __builtin_expect(!!(x), 0)

struct __align__(16) zipg_vec {
	uint32_t w[4];
};

extern __shared__ __align__(16) uint32_t zipg_smem[];

static ZIPG_DEVICE uint32_t *zipg_shared(void) { return zipg_smem; }
static ZIPG_DEVICE uint32_t zipg_tid(void) { return threadIdx.x; }
static ZIPG_DEVICE uint32_t zipg_bid(void) { return blockIdx.x; }
static ZIPG_DEVICE uint32_t zipg_grid(void) { return gridDim.x; }

static ZIPG_DEVICE uint32_t zipg_smid(void)
{
	uint32_t id;

	asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
	return id;
}

static ZIPG_DEVICE void zipg_barrier(void) { __syncthreads(); }
static ZIPG_DEVICE void zipg_syncwarp(void) { __syncwarp(); }
static ZIPG_DEVICE void zipg_fence(void) { __threadfence(); }
static ZIPG_DEVICE void zipg_fence_system(void) { __threadfence_system(); }
static ZIPG_DEVICE uint32_t zipg_shfl(uint32_t v, uint32_t lane) { return __shfl_sync(~0u, v, lane); }
static ZIPG_DEVICE uint32_t zipg_shfl_up(uint32_t v, uint32_t d) { return __shfl_up_sync(~0u, v, d); }
static ZIPG_DEVICE uint32_t zipg_ballot(int p) { return __ballot_sync(~0u, p); }
static ZIPG_DEVICE uint32_t zipg_warp_add(uint32_t v) { return __reduce_add_sync(~0u, v); }
static ZIPG_DEVICE uint32_t zipg_warp_max(uint32_t v) { return __reduce_max_sync(~0u, v); }
static ZIPG_DEVICE uint32_t zipg_warp_min(uint32_t v) { return __reduce_min_sync(~0u, v); }
static ZIPG_DEVICE uint32_t zipg_warp_and(uint32_t v) { return __reduce_and_sync(~0u, v); }
static ZIPG_DEVICE uint32_t zipg_warp_or(uint32_t v) { return __reduce_or_sync(~0u, v); }

static ZIPG_DEVICE uint32_t zipg_atomic_add(uint32_t *p, uint32_t v) { return atomicAdd(p, v); }
static ZIPG_DEVICE uint64_t zipg_atomic_add64(uint64_t *p, uint64_t v)
{
	return atomicAdd((unsigned long long *)p, (unsigned long long)v);
}

static ZIPG_DEVICE void zipg_shared_add(uint32_t *p, uint32_t v) { atomicAdd(p, v); }
static ZIPG_DEVICE void zipg_shared_or(uint32_t *p, uint32_t v) { atomicOr(p, v); }
static ZIPG_DEVICE uint32_t zipg_load_volatile(const uint32_t *p) { return *(const volatile uint32_t *)p; }
/* Bring the line of p into L2. */
static ZIPG_DEVICE void zipg_prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" : : "l"(p)); }

static ZIPG_DEVICE void zipg_store_volatile(uint32_t *p, uint32_t v) { *(volatile uint32_t *)p = v; }

/* Cached read of memory that nobody writes during the kernel. */
static ZIPG_DEVICE struct zipg_vec zipg_ld16(const void *p)
{
	uint4 u = __ldg((const uint4 *)p);
	struct zipg_vec v = { { u.x, u.y, u.z, u.w } };

	return v;
}

/* Read once: stays out of L1. */
static ZIPG_DEVICE struct zipg_vec zipg_ld16_once(const void *p)
{
	struct zipg_vec v;

	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p));
	return v;
}

static ZIPG_DEVICE void zipg_ld8_once(const void *p, uint32_t *a, uint32_t *b)
{
	asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(*a), "=r"(*b) : "l"(p));
}

static ZIPG_DEVICE uint32_t zipg_ld4_once(const void *p)
{
	uint32_t v;

	asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

static ZIPG_DEVICE uint32_t zipg_ld4(const void *p) { return __ldg((const uint32_t *)p); }
/* An aligned word of which at least one byte is ours. */
static ZIPG_DEVICE uint32_t zipg_ld4_edge(const void *p) { return zipg_ld4(p); }
static ZIPG_DEVICE uint32_t zipg_ld2(const void *p) { return __ldg((const uint16_t *)p); }
static ZIPG_DEVICE uint32_t zipg_ld1(const void *p) { return __ldg((const uint8_t *)p); }

/* Written once and not read again by the kernel. */
static ZIPG_DEVICE void zipg_st16(void *p, struct zipg_vec v)
{
	__stcs((uint4 *)p, make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]));
}

static ZIPG_DEVICE void zipg_st8(void *p, uint32_t a, uint32_t b) { __stcs((uint2 *)p, make_uint2(a, b)); }
static ZIPG_DEVICE void zipg_st4(void *p, uint32_t v) { __stcs((uint32_t *)p, v); }
static ZIPG_DEVICE void zipg_st1(void *p, uint32_t v) { *(uint8_t *)p = (uint8_t)v; }

/* Byte i of the result is byte (nibble i of sel) of b:a; every nibble is below 8. */
static ZIPG_DEVICE uint32_t zipg_perm(uint32_t a, uint32_t b, uint32_t sel)
{
	uint32_t r;

	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(sel));
	return r;
}

/* The same for a selector that is known only at run time. */
static ZIPG_DEVICE uint32_t zipg_lookup4(uint32_t a, uint32_t b, uint32_t sel) { return zipg_perm(a, b, sel); }

/* Upper and lower word of hi:lo shifted by s & 31. */
static ZIPG_DEVICE uint32_t zipg_shl64(uint32_t lo, uint32_t hi, uint32_t s) { return __funnelshift_l(lo, hi, s); }
static ZIPG_DEVICE uint32_t zipg_shr64(uint32_t lo, uint32_t hi, uint32_t s) { return __funnelshift_r(lo, hi, s); }
/* Shifts by the low five bits of s, whatever is above them. */
static ZIPG_DEVICE uint32_t zipg_shl(uint32_t v, uint32_t s) { return __funnelshift_l(0, v, s); }
static ZIPG_DEVICE uint32_t zipg_shr(uint32_t v, uint32_t s) { return __funnelshift_r(v, 0, s); }

/* Bits of a where mask is set, of b elsewhere. */
static ZIPG_DEVICE uint32_t zipg_select(uint32_t mask, uint32_t a, uint32_t b)
{
	uint32_t r;

	asm("lop3.b32 %0, %1, %2, %3, 0xe4;" : "=r"(r) : "r"(a), "r"(b), "r"(mask));
	return r;
}

static ZIPG_DEVICE uint32_t zipg_popc(uint32_t v) { return (uint32_t)__popc((int)v); }
static ZIPG_DEVICE uint32_t zipg_sum_bytes(uint32_t v) { return __dp4a(v, 0x01010101u, 0u); }
static ZIPG_DEVICE uint32_t zipg_top_bit(uint32_t v) { return 31u - (uint32_t)__clz((int)v); }

/* min(x + add, limit) in both 16-bit halves, unsigned, wrapping. */
static ZIPG_DEVICE uint32_t zipg_addmin2(uint32_t x, uint32_t add, uint32_t limit) { return __viaddmin_u16x2(x, add, limit); }

#endif
