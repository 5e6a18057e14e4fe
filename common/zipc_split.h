/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hot primitives of the host codec behind one table, in portable C and for AVX2 + BMI2.
 *
 * A block is worked on as bytes in plane order (doc/format.md, byte plane of a block): for every pair of rows, lane by lane, the
 * elements of the lane in the even row, then in the odd row. Eight bytes in this order are a unit: four pairs of the
 * entropy codec, or the codes 8 k .. 8 k + 7 of a pack. Unit n of a lane's sequence is number
 *
 *     (n / u * 32 + lane) * u + n % u        u = units of a lane in a pair of rows: 1 (fp32), 2 (bf16, fp16), 4 (fp8)
 *
 * of the block, so one set of primitives serves all types.
 */
#ifndef ZIPC_SPLIT_H
#define ZIPC_SPLIT_H

#include "zipc_frame.h"

#define ZIPC_LUT_BITS 12

/*
 * One code table in working form.
 * encode: code (first bit lowest) in bits 0..11, its length in 16..20, ZIPC_ENCODE_ESCAPE when the pair has no code of its own.
 * decode, by the next 12 bits: length in bits 0..7, s0 in 8..15, s1 in 16..23, bit 24 for the escape code. The fields are that
 * wide so that four entries can be added up without carries: the sum has the total length and tells whether any escaped.
 */
struct zipc_table {
	uint32_t encode[256];
	uint32_t decode[1 << ZIPC_LUT_BITS];
};

#define ZIPC_ENCODE_ESCAPE (UINT32_C(1) << 31)
#define ZIPC_DECODE_ESCAPE (UINT32_C(1) << 24)

/* A pair that escaped, found while decoding: which one of the block in plane order, and its exponents. */
struct zipc_patch {
	uint16_t pair;
	uint8_t exps[2];
};

/* The longest output of stream_encode, what it writes past its end before it gives up included. */
#define ZIPC_STREAM_ROOM 4800u
/* Bytes past the end of the streams that stream_decode may read, in whatever state they are. */
#define ZIPC_STREAM_SLACK 512u

/*
 * Ask for n bytes of memory from `offset` on that will be read soon; past the end of a buffer this does no harm. The next block
 * is asked for bit by bit while the present one is worked on: all at once would only make the loads wait for each other.
 */
static inline void zipc_prefetch(const uint8_t *p, size_t offset, size_t n)
{
	for (size_t i = 0; i < n; i += 64)
		__builtin_prefetch((const void *)((uintptr_t)p + offset + i));
}

struct zipc_ops {
	const char *name;

	/*
	 * Split the block at src (any alignment) into exponents and planes, all as bytes in plane order; code planes come out
	 * with one code a byte. join is the inverse. Only the planes the type has are touched.
	 */
	void (*split[ZIPC_DTYPE_COUNT])(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES]);
	void (*join[ZIPC_DTYPE_COUNT])(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES]);

	/* One code a byte in plane order to and from the words of a code plane; bits is 3, 4 or 5. */
	void (*pack)(uint8_t *words, const uint8_t *codes, unsigned units, unsigned bits);
	void (*unpack)(uint8_t *codes, const uint8_t *words, unsigned units, unsigned bits);

	/*
	 * Copy past the caches, for buffers so large that they would not be found there again. n is a multiple of 32. Until
	 * stream_end has been called other threads and devices may not see the bytes.
	 */
	void (*stream_copy)(uint8_t *dst, const uint8_t *src, size_t n);
	void (*stream_end)(void);

	/* Are the n bytes (a multiple of 32) all the same? */
	int (*constant)(const uint8_t *bytes, size_t n);

	/* How many of the n bytes (a multiple of 32, at most 8160) have each of two values. */
	void (*tally)(unsigned counts[2], const uint8_t *bytes, size_t n, const uint8_t values[2]);

	/* Exponents to symbols, anything outside 0 .. limit - 1 becoming limit; n is a multiple of 32. */
	void (*symbols)(uint8_t *syms, const uint8_t *exps, size_t n, enum zipc_mode mode, uint8_t base, uint8_t emask,
			uint8_t limit);
	/* The inverse, in place, for modes normal and zero. Sums wrap; the caller has seen to it that they may. */
	void (*exponents)(uint8_t *bytes, size_t n, enum zipc_mode mode, uint8_t base, uint8_t emask);

	/*
	 * Escape masks of the 32 lanes of a slice from its 96 words of 3-bit codes: bit 4 i + k for code 8 k + i.
	 * Returns how many bits are set.
	 */
	unsigned (*escapes)(uint32_t masks[ZIPC_LANES], const uint8_t *words);

	/*
	 * Write lane lengths and bit streams of a block with `units` as above from n symbols (15: escape) and exponents.
	 * `out` has ZIPC_STREAM_ROOM bytes. Returns the bytes used, or 0 when a lane's stream is too long.
	 * The block at `soon` is fetched into the cache meanwhile.
	 */
	size_t (*stream_encode)(uint8_t *out, const uint8_t *syms, const uint8_t *exps, unsigned units,
				const struct zipc_table *table, const uint8_t *soon);
	/*
	 * Read the streams at `in`, whose lane lengths have been checked against the data's size, into n symbols (0 for pairs
	 * that escaped, which go to the patches, room for n / 2). `in` is readable for ZIPC_STREAM_SLACK bytes past the streams.
	 * Half a block at `soon` is fetched into the cache meanwhile. Returns the number of patches, or ZIPC_ERR_STREAM.
	 */
	int (*stream_decode)(uint8_t *syms, struct zipc_patch *patches, const uint8_t *lengths, const uint8_t *in,
			     unsigned units, const struct zipc_table *table, const uint8_t *soon);
};

extern const struct zipc_ops zipc_ops_portable;
#ifdef ZIPC_HAVE_AVX2
extern const struct zipc_ops zipc_ops_avx2;
#endif

/* The best implementation for this processor. */
const struct zipc_ops *zipc_ops_get(void);

/*
 * For tests: make zipc_ops_get return the implementation of this name ("portable", "avx2"), NULL for the best one again.
 * Returns 0, or ZIPC_ERR_INVAL when this processor or build does not have it.
 */
int zipc_ops_force(const char *name);

/* The working form of table `number` < ZIPC_TABLES; made on first use. */
const struct zipc_table *zipc_table_get(unsigned number);

#endif
