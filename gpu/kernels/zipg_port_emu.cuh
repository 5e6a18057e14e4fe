/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zipg_port.cuh for the host: every thread of a thread block is a fiber, and what needs other lanes waits for them. Plain C.
 * The engine behind it is gpu/zipg_emu.c.
 */
#ifndef ZIPG_PORT_EMU_CUH
#define ZIPG_PORT_EMU_CUH

#include <string.h>

#define ZIPG_DEVICE __attribute__((unused)) inline
#define ZIPG_UNROLL
#define ZIPG_NO_UNROLL
#define ZIPG_KERNEL(name, blocks) void name(const struct zipg_job job)
#define ZIPG_LIKELY(x) __builtin_expect(!!(x), 1)
#define ZIPG_UNLIKELY(x) __builtin_expect(!!(x), 0)

struct zipg_vec {
	uint32_t w[4];
} __attribute__((aligned(16)));

/* The running thread. */
struct zipg_emu_thread {
	uint32_t tid, bid, grid;
	uint32_t width;        /* of the hardware's wavefront: 32 or 64 */
	uint32_t *shared;
};

extern _Thread_local struct zipg_emu_thread zipg_emu_self;

/* Every lane of the logical warp gives a value; returns the 32 values. */
const uint32_t *zipg_emu_exchange(uint32_t v);
void zipg_emu_barrier(void);

static ZIPG_DEVICE uint32_t *zipg_shared(void) { return zipg_emu_self.shared; }
static ZIPG_DEVICE uint32_t zipg_tid(void) { return zipg_emu_self.tid; }
static ZIPG_DEVICE uint32_t zipg_bid(void) { return zipg_emu_self.bid; }
static ZIPG_DEVICE uint32_t zipg_grid(void) { return zipg_emu_self.grid; }
static ZIPG_DEVICE uint32_t zipg_smid(void) { return zipg_emu_self.bid & 7u; }
static ZIPG_DEVICE void zipg_barrier(void) { zipg_emu_barrier(); }
static ZIPG_DEVICE void zipg_syncwarp(void) { zipg_emu_exchange(0); }
static ZIPG_DEVICE void zipg_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static ZIPG_DEVICE void zipg_fence_system(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static ZIPG_DEVICE uint32_t zipg_shfl(uint32_t v, uint32_t lane) { return zipg_emu_exchange(v)[lane & 31u]; }

static ZIPG_DEVICE uint32_t zipg_shfl_up(uint32_t v, uint32_t d)
{
	uint32_t lane = zipg_emu_self.tid & 31u;

	return zipg_emu_exchange(v)[lane >= d ? lane - d : lane];
}

/* As on hardware: the ballot of a wide wavefront, with foreign bits in the other half, cut to this lane's half. */
static ZIPG_DEVICE uint32_t zipg_ballot(int p)
{
	const uint32_t *all = zipg_emu_exchange(p != 0);
	uint32_t half = zipg_emu_self.width == 64 ? zipg_emu_self.tid & 32u : 0;
	uint64_t wide = half ? 0x5a5a5a5au : (uint64_t)0xa5a5a5a5u << 32;

	for (uint32_t i = 0; i < 32; i++)
		wide |= (uint64_t)all[i] << (half + i);
	return (uint32_t)(wide >> half);
}

#define ZIPG_EMU_REDUCE(name, expr)                           \
	static ZIPG_DEVICE uint32_t name(uint32_t v)          \
	{                                                     \
		const uint32_t *all = zipg_emu_exchange(v);   \
		uint32_t a = all[0];                          \
		for (uint32_t i = 1; i < 32; i++) {           \
			uint32_t b = all[i];                  \
			a = (expr);                           \
		}                                             \
		return a;                                     \
	}
ZIPG_EMU_REDUCE(zipg_warp_add, a + b)
ZIPG_EMU_REDUCE(zipg_warp_max, a > b ? a : b)
ZIPG_EMU_REDUCE(zipg_warp_min, a < b ? a : b)
ZIPG_EMU_REDUCE(zipg_warp_and, a & b)
ZIPG_EMU_REDUCE(zipg_warp_or, a | b)

static ZIPG_DEVICE uint32_t zipg_atomic_add(uint32_t *p, uint32_t v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }

static ZIPG_DEVICE uint64_t zipg_atomic_add64(uint64_t *p, uint64_t v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }

/* Reads a byte, so that a prefetch outside of a buffer is found. */
static ZIPG_DEVICE void zipg_prefetch(const void *p) { (void)*(const volatile uint8_t *)p; }

static ZIPG_DEVICE void zipg_shared_add(uint32_t *p, uint32_t v) { *p += v; }
static ZIPG_DEVICE void zipg_shared_or(uint32_t *p, uint32_t v) { *p |= v; }
static ZIPG_DEVICE uint32_t zipg_load_volatile(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
static ZIPG_DEVICE void zipg_store_volatile(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }

/* Alignment is asserted by UBSan: vectors are read through their own type. */
static ZIPG_DEVICE struct zipg_vec zipg_ld16(const void *p) { return *(const struct zipg_vec *)p; }
static ZIPG_DEVICE struct zipg_vec zipg_ld16_once(const void *p) { return *(const struct zipg_vec *)p; }

static ZIPG_DEVICE void zipg_ld8_once(const void *p, uint32_t *a, uint32_t *b)
{
	*a = ((const uint32_t *)p)[0];
	*b = ((const uint32_t *)p)[1];
}

static ZIPG_DEVICE uint32_t zipg_ld4_once(const void *p) { return *(const uint32_t *)p; }
static ZIPG_DEVICE uint32_t zipg_ld4(const void *p) { return *(const uint32_t *)p; }

/* An aligned word of which at least one byte is ours: what is beside it may be anybody's, for the sanitizer too. */
__attribute__((unused, noinline, no_sanitize_address)) static uint32_t zipg_ld4_edge(const void *p)
{
	return *(const uint32_t *)p;
}

static ZIPG_DEVICE uint32_t zipg_ld2(const void *p) { return *(const uint16_t *)p; }
static ZIPG_DEVICE uint32_t zipg_ld1(const void *p) { return *(const uint8_t *)p; }
static ZIPG_DEVICE void zipg_st16(void *p, struct zipg_vec v) { *(struct zipg_vec *)p = v; }

static ZIPG_DEVICE void zipg_st8(void *p, uint32_t a, uint32_t b)
{
	((uint32_t *)p)[0] = a;
	((uint32_t *)p)[1] = b;
}

static ZIPG_DEVICE void zipg_st4(void *p, uint32_t v) { *(uint32_t *)p = v; }
static ZIPG_DEVICE void zipg_st1(void *p, uint32_t v) { *(uint8_t *)p = (uint8_t)v; }

static ZIPG_DEVICE uint32_t zipg_perm(uint32_t a, uint32_t b, uint32_t sel)
{
	uint64_t ab = (uint64_t)b << 32 | a;
	uint32_t r = 0;

	for (uint32_t i = 0; i < 4; i++)
		r |= (uint32_t)(ab >> (sel >> 4 * i & 7u) * 8 & 0xffu) << 8 * i;
	return r;
}

static ZIPG_DEVICE uint32_t zipg_lookup4(uint32_t a, uint32_t b, uint32_t sel) { return zipg_perm(a, b, sel); }

static ZIPG_DEVICE uint32_t zipg_shl64(uint32_t lo, uint32_t hi, uint32_t s)
{
	return (uint32_t)((((uint64_t)hi << 32 | lo) << (s & 31u)) >> 32);
}

static ZIPG_DEVICE uint32_t zipg_shr64(uint32_t lo, uint32_t hi, uint32_t s)
{
	return (uint32_t)(((uint64_t)hi << 32 | lo) >> (s & 31u));
}

static ZIPG_DEVICE uint32_t zipg_shl(uint32_t v, uint32_t s) { return v << (s & 31u); }
static ZIPG_DEVICE uint32_t zipg_shr(uint32_t v, uint32_t s) { return v >> (s & 31u); }
static ZIPG_DEVICE uint32_t zipg_select(uint32_t mask, uint32_t a, uint32_t b) { return (a & mask) | (b & ~mask); }
static ZIPG_DEVICE uint32_t zipg_popc(uint32_t v) { return (uint32_t)__builtin_popcount(v); }
static ZIPG_DEVICE uint32_t zipg_sum_bytes(uint32_t v) { return (v & 255u) + (v >> 8 & 255u) + (v >> 16 & 255u) + (v >> 24); }
static ZIPG_DEVICE uint32_t zipg_top_bit(uint32_t v) { return 31u - (uint32_t)__builtin_clz(v); }

static ZIPG_DEVICE uint32_t zipg_addmin2(uint32_t x, uint32_t add, uint32_t limit)
{
	uint32_t lo = (x + add) & 0xffffu, hi = ((x >> 16) + (add >> 16)) & 0xffffu;

	lo = lo < (limit & 0xffffu) ? lo : limit & 0xffffu;
	hi = hi < limit >> 16 ? hi : limit >> 16;
	return hi << 16 | lo;
}

#endif
