/* SPDX-License-Identifier: BSD-3-Clause */
/* The primitives with AVX2 and BMI2. Every function does what its portable namesake in zipc_split.c does. */
#include "zipc_split.h"

#include <immintrin.h>

#include "zipc_split_stream.h"

static inline __m256i load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

static inline void store(uint8_t *p, __m256i v)
{
	_mm256_storeu_si256((__m256i *)p, v);
}

static inline __m256i bytes(int x)
{
	return _mm256_set1_epi8((char)x);
}

/* Byte-wise shifts do not exist: shift words, mask what came over. */
static inline __m256i shl(__m256i v, int n, int mask)
{
	return _mm256_and_si256(_mm256_slli_epi16(v, n), bytes(mask));
}

static inline __m256i shr(__m256i v, int n, int mask)
{
	return _mm256_and_si256(_mm256_srli_epi16(v, n), bytes(mask));
}

static inline __m256i merge(__m256i a, __m256i b)
{
	return _mm256_or_si256(a, b);
}

static inline __m256i keep(__m256i v, int mask)
{
	return _mm256_and_si256(v, bytes(mask));
}

#define PAIR_ROWS (ZIPC_BLOCK / 1024u)
#define ROW 512u

/* Two-byte types: 32 bytes of each row of a pair are two lanes; low and high bytes of their 32 elements in plane order. */
static inline void halves_load(const uint8_t *src, __m256i *lo, __m256i *hi)
{
	const __m256i mask = _mm256_set1_epi16(0xff);
	__m256i even = load(src), odd = load(src + ROW);

	*lo = _mm256_packus_epi16(_mm256_and_si256(even, mask), _mm256_and_si256(odd, mask));
	*hi = _mm256_packus_epi16(_mm256_srli_epi16(even, 8), _mm256_srli_epi16(odd, 8));
}

static inline void halves_store(uint8_t *dst, __m256i lo, __m256i hi)
{
	store(dst, _mm256_unpacklo_epi8(lo, hi));
	store(dst + ROW, _mm256_unpackhi_epi8(lo, hi));
}

static void split_bf16(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES])
{
	uint8_t *a = planes[0];

	for (unsigned q = 0; q < PAIR_ROWS; q++, src += ROW)
		for (unsigned i = 0; i < ROW / 32; i++, src += 32, exps += 32, a += 32) {
			__m256i lo, hi;

			halves_load(src, &lo, &hi);
			store(exps, merge(_mm256_add_epi8(hi, hi), shr(lo, 7, 1)));
			store(a, merge(keep(hi, 0x80), keep(lo, 0x7f)));
		}
}

static void join_bf16(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES])
{
	const uint8_t *a = planes[0];

	for (unsigned q = 0; q < PAIR_ROWS; q++, dst += ROW)
		for (unsigned i = 0; i < ROW / 32; i++, dst += 32, exps += 32, a += 32) {
			__m256i e = load(exps), m = load(a);

			halves_store(dst, merge(keep(m, 0x7f), shl(e, 7, 0x80)), merge(keep(m, 0x80), shr(e, 1, 0x7f)));
		}
}

static void split_fp16(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES])
{
	uint8_t *a = planes[0], *b = planes[1];

	for (unsigned q = 0; q < PAIR_ROWS; q++, src += ROW)
		for (unsigned i = 0; i < ROW / 32; i++, src += 32, exps += 32, a += 32, b += 32) {
			__m256i lo, hi;

			halves_load(src, &lo, &hi);
			store(exps, shr(hi, 2, 0x1f));
			store(a, lo);
			store(b, merge(shr(hi, 5, 4), keep(hi, 3)));
		}
}

static void join_fp16(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES])
{
	const uint8_t *a = planes[0], *b = planes[1];

	for (unsigned q = 0; q < PAIR_ROWS; q++, dst += ROW)
		for (unsigned i = 0; i < ROW / 32; i++, dst += 32, exps += 32, a += 32, b += 32) {
			__m256i e = load(exps), c = load(b);

			halves_store(dst, load(a), merge(merge(shl(c, 5, 0x80), keep(c, 3)), shl(e, 2, 0x7c)));
		}
}

/*
 * Four-byte types: 64 bytes of each row of a pair are four lanes. The bytes of each vector are sorted by significance,
 * rows and lanes are then merged; v[n] are the bytes of significance n of 32 elements in plane order.
 */
static inline void words_load(const uint8_t *src, __m256i v[4])
{
	const __m256i sort = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
					      0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m256i even0 = _mm256_shuffle_epi8(load(src), sort), odd0 = _mm256_shuffle_epi8(load(src + ROW), sort);
	__m256i even1 = _mm256_shuffle_epi8(load(src + 32), sort), odd1 = _mm256_shuffle_epi8(load(src + ROW + 32), sort);
	__m256i lo0 = _mm256_unpacklo_epi32(even0, odd0), hi0 = _mm256_unpackhi_epi32(even0, odd0);
	__m256i lo1 = _mm256_unpacklo_epi32(even1, odd1), hi1 = _mm256_unpackhi_epi32(even1, odd1);

	v[0] = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(lo0, lo1), 0xd8);
	v[1] = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(lo0, lo1), 0xd8);
	v[2] = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(hi0, hi1), 0xd8);
	v[3] = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(hi0, hi1), 0xd8);
}

static inline void words_store(uint8_t *dst, const __m256i v[4])
{
	const __m256i unsort = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
						0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	__m256i v0 = _mm256_permute4x64_epi64(v[0], 0xd8), v1 = _mm256_permute4x64_epi64(v[1], 0xd8);
	__m256i v2 = _mm256_permute4x64_epi64(v[2], 0xd8), v3 = _mm256_permute4x64_epi64(v[3], 0xd8);
	__m256i lo0 = _mm256_unpacklo_epi64(v0, v1), lo1 = _mm256_unpackhi_epi64(v0, v1);
	__m256i hi0 = _mm256_unpacklo_epi64(v2, v3), hi1 = _mm256_unpackhi_epi64(v2, v3);

	/* A shuffle within 32-bit columns brings (even, odd) pairs of words back into (even..., odd...) order. */
	lo0 = _mm256_shuffle_epi32(lo0, 0xd8);
	lo1 = _mm256_shuffle_epi32(lo1, 0xd8);
	hi0 = _mm256_shuffle_epi32(hi0, 0xd8);
	hi1 = _mm256_shuffle_epi32(hi1, 0xd8);
	store(dst, _mm256_shuffle_epi8(_mm256_unpacklo_epi64(lo0, hi0), unsort));
	store(dst + ROW, _mm256_shuffle_epi8(_mm256_unpackhi_epi64(lo0, hi0), unsort));
	store(dst + 32, _mm256_shuffle_epi8(_mm256_unpacklo_epi64(lo1, hi1), unsort));
	store(dst + ROW + 32, _mm256_shuffle_epi8(_mm256_unpackhi_epi64(lo1, hi1), unsort));
}

static void split_fp32(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES])
{
	uint8_t *a = planes[0], *b = planes[1], *c = planes[2];

	for (unsigned q = 0; q < PAIR_ROWS; q++, src += ROW)
		for (unsigned i = 0; i < ROW / 64; i++, src += 64, exps += 32, a += 32, b += 32, c += 32) {
			__m256i v[4];

			words_load(src, v);
			store(exps, merge(_mm256_add_epi8(v[3], v[3]), shr(v[2], 7, 1)));
			store(a, merge(keep(v[3], 0x80), keep(v[2], 0x7f)));
			store(b, v[1]);
			store(c, v[0]);
		}
}

static void join_fp32(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES])
{
	const uint8_t *a = planes[0], *b = planes[1], *c = planes[2];

	for (unsigned q = 0; q < PAIR_ROWS; q++, dst += ROW)
		for (unsigned i = 0; i < ROW / 64; i++, dst += 64, exps += 32, a += 32, b += 32, c += 32) {
			__m256i e = load(exps), m = load(a), v[4];

			v[0] = load(c);
			v[1] = load(b);
			v[2] = merge(keep(m, 0x7f), shl(e, 7, 0x80));
			v[3] = merge(keep(m, 0x80), shr(e, 1, 0x7f));
			words_store(dst, v);
		}
}

/* One-byte types: a vector of each row of a pair is one lane. */
static inline __m256i singles_load(const uint8_t *src)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)src)),
				       _mm_loadu_si128((const __m128i *)(src + ROW)), 1);
}

static inline void singles_store(uint8_t *dst, __m256i v)
{
	_mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(v));
	_mm_storeu_si128((__m128i *)(dst + ROW), _mm256_extracti128_si256(v, 1));
}

static void split_e4m3(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES])
{
	uint8_t *a = planes[0];

	for (unsigned q = 0; q < PAIR_ROWS; q++, src += ROW)
		for (unsigned i = 0; i < ZIPC_LANES; i++, src += ZIPC_VECTOR, exps += 32, a += 32) {
			__m256i x = singles_load(src);

			store(exps, shr(x, 3, 0xf));
			store(a, merge(shr(x, 4, 8), keep(x, 7)));
		}
}

static void join_e4m3(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES])
{
	const uint8_t *a = planes[0];

	for (unsigned q = 0; q < PAIR_ROWS; q++, dst += ROW)
		for (unsigned i = 0; i < ZIPC_LANES; i++, dst += ZIPC_VECTOR, exps += 32, a += 32) {
			__m256i e = load(exps), c = load(a);

			singles_store(dst, merge(merge(shl(c, 4, 0x80), keep(c, 7)), shl(e, 3, 0x78)));
		}
}

static void split_e5m2(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES])
{
	uint8_t *a = planes[0];

	for (unsigned q = 0; q < PAIR_ROWS; q++, src += ROW)
		for (unsigned i = 0; i < ZIPC_LANES; i++, src += ZIPC_VECTOR, exps += 32, a += 32) {
			__m256i x = singles_load(src);

			store(exps, shr(x, 2, 0x1f));
			store(a, merge(shr(x, 5, 4), keep(x, 3)));
		}
}

static void join_e5m2(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES])
{
	const uint8_t *a = planes[0];

	for (unsigned q = 0; q < PAIR_ROWS; q++, dst += ROW)
		for (unsigned i = 0; i < ZIPC_LANES; i++, dst += ZIPC_VECTOR, exps += 32, a += 32) {
			__m256i e = load(exps), c = load(a);

			singles_store(dst, merge(merge(shl(c, 5, 0x80), keep(c, 3)), shl(e, 2, 0x7c)));
		}
}

/* The 4 x 4 matrix of 64-bit units: rows become columns. */
static inline void transpose(__m256i v[4])
{
	__m256i a = _mm256_unpacklo_epi64(v[0], v[1]), b = _mm256_unpackhi_epi64(v[0], v[1]);
	__m256i c = _mm256_unpacklo_epi64(v[2], v[3]), d = _mm256_unpackhi_epi64(v[2], v[3]);

	v[0] = _mm256_permute2x128_si256(a, c, 0x20);
	v[1] = _mm256_permute2x128_si256(b, d, 0x20);
	v[2] = _mm256_permute2x128_si256(a, c, 0x31);
	v[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

/* c[k]: unit k of pack p for the four lanes from `lane`. */
static inline void units_load(__m256i c[4], const uint8_t *codes, unsigned p, unsigned lane, unsigned units)
{
	const uint8_t *at = codes + lane * units * 8;

	if (units == 1) {
		for (unsigned k = 0; k < 4; k++)
			c[k] = load(at + (4 * p + k) * 256);
	} else if (units == 2) {
		for (unsigned k = 0; k < 4; k += 2) {
			const uint8_t *row = at + (2 * p + k / 2) * 512;
			__m256i x = load(row), y = load(row + 32);

			c[k] = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(x, y), 0xd8);
			c[k + 1] = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(x, y), 0xd8);
		}
	} else {
		for (unsigned i = 0; i < 4; i++)
			c[i] = load(at + p * 1024 + i * 32);
		transpose(c);
	}
}

static inline void units_store(uint8_t *codes, __m256i c[4], unsigned p, unsigned lane, unsigned units)
{
	uint8_t *at = codes + lane * units * 8;

	if (units == 1) {
		for (unsigned k = 0; k < 4; k++)
			store(at + (4 * p + k) * 256, c[k]);
	} else if (units == 2) {
		for (unsigned k = 0; k < 4; k += 2) {
			uint8_t *row = at + (2 * p + k / 2) * 512;
			__m256i x = _mm256_permute4x64_epi64(c[k], 0xd8), y = _mm256_permute4x64_epi64(c[k + 1], 0xd8);

			store(row, _mm256_unpacklo_epi64(x, y));
			store(row + 32, _mm256_unpackhi_epi64(x, y));
		}
	} else {
		transpose(c);
		for (unsigned i = 0; i < 4; i++)
			store(at + p * 1024 + i * 32, c[i]);
	}
}

/* The words of eight lanes from nibbles, one a byte, of two times four lanes. */
static inline __m256i nibbles(__m256i x, __m256i y)
{
	const __m256i weights = _mm256_set1_epi16(0x1001);

	return _mm256_permute4x64_epi64(_mm256_packus_epi16(_mm256_maddubs_epi16(x, weights),
							    _mm256_maddubs_epi16(y, weights)), 0xd8);
}

static inline void nibble_bytes(__m256i words, __m256i *x, __m256i *y)
{
	__m256i w = _mm256_permute4x64_epi64(words, 0xd8);
	__m256i lo = keep(w, 0xf), hi = shr(w, 4, 0xf);

	*x = _mm256_unpacklo_epi8(lo, hi);
	*y = _mm256_unpackhi_epi8(lo, hi);
}

/* Gathers bit k of code 3 (b = 3) or bit 4 of every code (b = 5) into nibbles. */
static inline __m256i third_bits(__m256i c, __m256i c3, int k)
{
	return merge(c, keep(k == 0 ? _mm256_slli_epi16(c3, 3) : k == 1 ? _mm256_slli_epi16(c3, 2) :
			     _mm256_slli_epi16(c3, 1), 8));
}

static inline __m256i fifth_bits(const __m256i c[4])
{
	return merge(merge(shr(c[0], 4, 1), shr(c[1], 3, 2)), merge(shr(c[2], 2, 4), shr(c[3], 1, 8)));
}

static inline void pack_lanes(uint8_t *w, const __m256i x[4], const __m256i y[4], unsigned bits)
{
	if (bits == 3) {
		store(w, nibbles(third_bits(x[0], x[3], 0), third_bits(y[0], y[3], 0)));
		store(w + 128, nibbles(third_bits(x[1], x[3], 1), third_bits(y[1], y[3], 1)));
		store(w + 256, nibbles(third_bits(x[2], x[3], 2), third_bits(y[2], y[3], 2)));
		return;
	}
	for (unsigned k = 0; k < 4; k++)
		store(w + k * 128, nibbles(keep(x[k], 0xf), keep(y[k], 0xf)));
	if (bits == 5)
		store(w + 512, nibbles(fifth_bits(x), fifth_bits(y)));
}

static inline __attribute__((always_inline)) void pack_any(uint8_t *words, const uint8_t *codes, unsigned units,
							    unsigned bits)
{
	for (unsigned p = 0; p < 2 * units; p++)
		for (unsigned lane = 0; lane < ZIPC_LANES; lane += 8) {
			__m256i x[4], y[4];

			units_load(x, codes, p, lane, units);
			units_load(y, codes, p, lane + 4, units);
			pack_lanes(words + (p * bits * ZIPC_LANES + lane) * 4, x, y, bits);
		}
}

static inline void unpack_lanes(__m256i x[4], __m256i y[4], const uint8_t *w, unsigned bits)
{
	unsigned n = bits == 3 ? 3 : 4;

	for (unsigned k = 0; k < n; k++)
		nibble_bytes(load(w + k * 128), &x[k], &y[k]);
	if (bits == 3) {
		x[3] = merge(merge(shr(x[0], 3, 1), shr(x[1], 2, 2)), shr(x[2], 1, 4));
		y[3] = merge(merge(shr(y[0], 3, 1), shr(y[1], 2, 2)), shr(y[2], 1, 4));
		for (unsigned k = 0; k < 3; k++) {
			x[k] = keep(x[k], 7);
			y[k] = keep(y[k], 7);
		}
	} else if (bits == 5) {
		__m256i u, v;

		nibble_bytes(load(w + 512), &u, &v);
		x[0] = merge(x[0], shl(u, 4, 0x10));
		y[0] = merge(y[0], shl(v, 4, 0x10));
		x[1] = merge(x[1], shl(u, 3, 0x10));
		y[1] = merge(y[1], shl(v, 3, 0x10));
		x[2] = merge(x[2], shl(u, 2, 0x10));
		y[2] = merge(y[2], shl(v, 2, 0x10));
		x[3] = merge(x[3], shl(u, 1, 0x10));
		y[3] = merge(y[3], shl(v, 1, 0x10));
	}
}

static inline __attribute__((always_inline)) void unpack_any(uint8_t *codes, const uint8_t *words, unsigned units,
							      unsigned bits)
{
	for (unsigned p = 0; p < 2 * units; p++)
		for (unsigned lane = 0; lane < ZIPC_LANES; lane += 8) {
			__m256i x[4], y[4];

			unpack_lanes(x, y, words + (p * bits * ZIPC_LANES + lane) * 4, bits);
			units_store(codes, x, p, lane, units);
			units_store(codes, y, p, lane + 4, units);
		}
}

/* The hot combinations get loops of their own, in which the branches on units and bits are gone. */
static void pack(uint8_t *words, const uint8_t *codes, unsigned units, unsigned bits)
{
	if (units == 2 && bits == 3)
		pack_any(words, codes, 2, 3);
	else if (units == 4 && bits == 3)
		pack_any(words, codes, 4, 3);
	else if (units == 4 && bits == 4)
		pack_any(words, codes, 4, 4);
	else
		pack_any(words, codes, units, bits);
}

static void unpack(uint8_t *codes, const uint8_t *words, unsigned units, unsigned bits)
{
	if (units == 2 && bits == 3)
		unpack_any(codes, words, 2, 3);
	else if (units == 4 && bits == 3)
		unpack_any(codes, words, 4, 3);
	else if (units == 4 && bits == 4)
		unpack_any(codes, words, 4, 4);
	else
		unpack_any(codes, words, units, bits);
}

static void stream_copy(uint8_t *dst, const uint8_t *src, size_t n)
{
	size_t head = -(uintptr_t)dst % 32, i = head;

	/* Streaming stores are aligned; n is 32 or more, so the head may be written a little too long. */
	if (head)
		store(dst, load(src));
	for (; i + 32 <= n; i += 32)
		_mm256_stream_si256((__m256i *)(dst + i), load(src + i));
	if (i < n)
		memcpy(dst + i, src + i, n - i);
}

static void stream_end(void)
{
	_mm_sfence();
}

static int constant(const uint8_t *p, size_t n)
{
	const __m256i first = bytes(p[0]);

	for (size_t i = 0; i < n; i += 32)
		if (_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(p + i), first)) != -1)
			return 0;
	return 1;
}

static unsigned sum_bytes(__m256i x)
{
	__m256i sums = _mm256_sad_epu8(x, _mm256_setzero_si256());

	return (unsigned)(_mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) + _mm256_extract_epi64(sums, 2) +
			  _mm256_extract_epi64(sums, 3));
}

static void tally(unsigned counts[2], const uint8_t *p, size_t n, const uint8_t values[2])
{
	const __m256i v0 = bytes(values[0]), v1 = bytes(values[1]);
	__m256i n0 = _mm256_setzero_si256(), n1 = n0;

	for (size_t i = 0; i < n; i += 32) {
		__m256i x = load(p + i);

		n0 = _mm256_sub_epi8(n0, _mm256_cmpeq_epi8(x, v0));
		n1 = _mm256_sub_epi8(n1, _mm256_cmpeq_epi8(x, v1));
	}
	counts[0] = sum_bytes(n0);
	counts[1] = sum_bytes(n1);
}

static void symbols(uint8_t *syms, const uint8_t *exps, size_t n, enum zipc_mode mode, uint8_t base, uint8_t emask,
		    uint8_t limit)
{
	const __m256i b = bytes(base), m = bytes(emask), top = bytes(limit), zero = _mm256_setzero_si256();

	if (mode == ZIPC_MODE_NORMAL) {
		for (size_t i = 0; i < n; i += 32)
			store(syms + i, _mm256_min_epu8(_mm256_and_si256(_mm256_sub_epi8(load(exps + i), b), m), top));
		return;
	}
	for (size_t i = 0; i < n; i += 32) {
		__m256i e = load(exps + i), s = _mm256_and_si256(_mm256_sub_epi8(e, b), m);

		s = _mm256_min_epu8(_mm256_adds_epu8(s, bytes(1)), top);
		store(syms + i, _mm256_andnot_si256(_mm256_cmpeq_epi8(e, zero), s));
	}
}

static void exponents(uint8_t *p, size_t n, enum zipc_mode mode, uint8_t base, uint8_t emask)
{
	const __m256i b = bytes(mode == ZIPC_MODE_ZERO ? base - 1 : base), m = bytes(emask), zero = _mm256_setzero_si256();

	if (mode == ZIPC_MODE_NORMAL) {
		for (size_t i = 0; i < n; i += 32)
			store(p + i, _mm256_and_si256(_mm256_add_epi8(load(p + i), b), m));
		return;
	}
	for (size_t i = 0; i < n; i += 32) {
		__m256i s = load(p + i);

		store(p + i, _mm256_andnot_si256(_mm256_cmpeq_epi8(s, zero),
						 _mm256_and_si256(_mm256_add_epi8(s, b), m)));
	}
}

/* Bit 0 of every nibble whose low three bits are set. */
static inline __m256i full_codes(__m256i w)
{
	return _mm256_and_si256(_mm256_and_si256(w, _mm256_srli_epi32(w, 1)),
				_mm256_and_si256(_mm256_srli_epi32(w, 2), bytes(0x11)));
}

static unsigned escapes(uint32_t masks[ZIPC_LANES], const uint8_t *words)
{
	unsigned n = 0;

	for (unsigned lane = 0; lane < ZIPC_LANES; lane += 8) {
		__m256i w0 = load(words + lane * 4), w1 = load(words + lane * 4 + 128), w2 = load(words + lane * 4 + 256);
		__m256i fourth = keep(_mm256_and_si256(_mm256_and_si256(w0, w1), w2), 0x88);
		__m256i m = merge(full_codes(w0), _mm256_slli_epi32(full_codes(w1), 1));

		m = merge(merge(m, _mm256_slli_epi32(full_codes(w2), 2)), fourth);
		_mm256_storeu_si256((__m256i *)(masks + lane), m);
		n += (unsigned)(__builtin_popcountll((uint64_t)_mm256_extract_epi64(m, 0)) +
				__builtin_popcountll((uint64_t)_mm256_extract_epi64(m, 1)) +
				__builtin_popcountll((uint64_t)_mm256_extract_epi64(m, 2)) +
				__builtin_popcountll((uint64_t)_mm256_extract_epi64(m, 3)));
	}
	return n;
}

/* Codes of two neighbouring pairs joined: codes in *code, lengths in *length, one in each 64 bits. */
static inline void join_pairs(__m256i entries, __m256i *code, __m256i *length)
{
	const __m256i code_mask = _mm256_set1_epi64x(0xfff), length_mask = _mm256_set1_epi64x(0x1f);
	__m256i first = _mm256_and_si256(_mm256_srli_epi64(entries, 16), length_mask);
	__m256i second = _mm256_and_si256(_mm256_srli_epi64(entries, 48), length_mask);

	*code = merge(_mm256_and_si256(entries, code_mask),
		      _mm256_sllv_epi64(_mm256_and_si256(_mm256_srli_epi64(entries, 32), code_mask), first));
	*length = _mm256_add_epi64(first, second);
}

/* See make_quads in zipc_split.c: 32 symbols, 16 pairs, 4 quads a step. */
static void make_quads(uint64_t *quads, const uint8_t *syms, size_t nquads, const uint32_t *encode)
{
	const __m256i weights = _mm256_set1_epi16(0x1001);
	const __m256i sign = _mm256_set1_epi64x(INT64_MIN);

	for (size_t i = 0; i < nquads; i += 4, syms += 32) {
		__m256i pairs = _mm256_maddubs_epi16(load(syms), weights);
		__m256i x = _mm256_i32gather_epi32((const int *)encode,
						   _mm256_cvtepu16_epi32(_mm256_castsi256_si128(pairs)), 4);
		__m256i y = _mm256_i32gather_epi32((const int *)encode,
						   _mm256_cvtepu16_epi32(_mm256_extracti128_si256(pairs, 1)), 4);
		__m256i xcode, xlength, ycode, ylength, escape = merge(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
		__m256i first, quad;

		join_pairs(x, &xcode, &xlength);
		join_pairs(y, &ycode, &ylength);
		first = _mm256_unpacklo_epi64(xlength, ylength);
		quad = merge(_mm256_unpacklo_epi64(xcode, ycode),
			     _mm256_sllv_epi64(_mm256_unpackhi_epi64(xcode, ycode), first));
		quad = merge(quad, _mm256_slli_epi64(_mm256_add_epi64(first, _mm256_unpackhi_epi64(xlength, ylength)), 56));
		quad = merge(quad, _mm256_and_si256(merge(escape, _mm256_slli_epi64(escape, 32)), sign));
		_mm256_storeu_si256((__m256i *)(quads + i), _mm256_permute4x64_epi64(quad, 0xd8));
	}
}

static size_t stream_encode(uint8_t *out, const uint8_t *syms, const uint8_t *exps, unsigned units,
			    const struct zipc_table *table, const uint8_t *soon)
{
	uint64_t quads[ZIPC_MAX_ELEMENTS / 8];

	make_quads(quads, syms, units * 256, table->encode);
	return units == 2 ? zipc_streams_write(out, quads, syms, exps, 2, table->encode, soon) :
			    zipc_streams_write(out, quads, syms, exps, units, table->encode, soon);
}

static int stream_decode(uint8_t *syms, struct zipc_patch *patches, const uint8_t *lengths, const uint8_t *in,
			 unsigned units, const struct zipc_table *table, const uint8_t *soon)
{
	return units == 2 ? zipc_streams_read(syms, patches, lengths, in, 2, table->decode, soon) :
			    zipc_streams_read(syms, patches, lengths, in, units, table->decode, soon);
}

const struct zipc_ops zipc_ops_avx2 = {
	.name = "avx2",
	.split = { NULL, split_bf16, split_fp16, split_fp32, split_e4m3, split_e5m2 },
	.join = { NULL, join_bf16, join_fp16, join_fp32, join_e4m3, join_e5m2 },
	.pack = pack,
	.unpack = unpack,
	.stream_copy = stream_copy,
	.stream_end = stream_end,
	.constant = constant,
	.tally = tally,
	.symbols = symbols,
	.exponents = exponents,
	.escapes = escapes,
	.stream_encode = stream_encode,
	.stream_decode = stream_decode,
};
