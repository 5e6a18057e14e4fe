/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Elements in registers. `dt` is always a constant, so that everything here folds to a few instructions.
 * A quad is four elements that follow each other; a vector of 16 bytes has 4 (one-byte types), 2 or 1 of them. Exponents, plane bytes and
 * plane codes of a quad are the four bytes of one word.
 */
#ifndef ZIPG_ELEM_CUH
#define ZIPG_ELEM_CUH

#include "zipg_job.h"
#include "zipg_port.cuh"

#define ZIPG_BF16 1
#define ZIPG_FP16 2
#define ZIPG_FP32 3
#define ZIPG_E4M3 4
#define ZIPG_E5M2 5

static ZIPG_DEVICE int zipg_elem_bytes(int dt) { return dt == ZIPG_FP32 ? 4 : dt == ZIPG_BF16 || dt == ZIPG_FP16 ? 2 : 1; }
static ZIPG_DEVICE int zipg_ebits(int dt) { return dt == ZIPG_BF16 || dt == ZIPG_FP32 ? 8 : dt == ZIPG_E4M3 ? 4 : 5; }

/* Words of a quad, quads of a vector, packs of a block, rows of a pack, vectors' worth of words of a pack. */
static ZIPG_DEVICE int zipg_quad_words(int dt) { return zipg_elem_bytes(dt); }
static ZIPG_DEVICE int zipg_vec_quads(int dt) { return 4 / zipg_elem_bytes(dt); }
static ZIPG_DEVICE int zipg_packs(int dt) { return 8 / zipg_elem_bytes(dt); }
static ZIPG_DEVICE int zipg_pack_rows(int dt) { return 2 * zipg_elem_bytes(dt); }

/* Bytes a block has in plane A, B or C, and as raw exponents; bits of a code plane, 0 for a byte plane. */
static ZIPG_DEVICE int zipg_plane_code(int dt, int p)
{
	return dt == ZIPG_FP16 && p == 1 ? 3 : dt == ZIPG_E4M3 && p == 0 ? 4 : dt == ZIPG_E5M2 && p == 0 ? 3 : 0;
}

static ZIPG_DEVICE int zipg_planes(int dt) { return dt == ZIPG_FP32 ? 3 : dt == ZIPG_FP16 ? 2 : 1; }

static ZIPG_DEVICE int zipg_plane_bytes(int dt, int p)
{
	int elements = (int)ZIPG_BLOCK / zipg_elem_bytes(dt), code = zipg_plane_code(dt, p);

	return p >= zipg_planes(dt) ? 0 : code ? elements / 8 * code : elements;
}

static ZIPG_DEVICE int zipg_raw_bytes(int dt)
{
	return (int)ZIPG_BLOCK / zipg_elem_bytes(dt) / 8 * zipg_ebits(dt);
}

/*
 * Two exponents at a time, in the halves of a word: field at bit ZIPG_SHIFT. For 2- and 4-byte types half 0 is the first element
 * of the two. For 1-byte types zipg_even holds elements 0 and 2 of a quad, zipg_odd 1 and 3.
 */
static ZIPG_DEVICE int zipg_shift(int dt) { return dt == ZIPG_E4M3 ? 3 : dt == ZIPG_E5M2 ? 2 : 7; }
static ZIPG_DEVICE uint32_t zipg_twice(uint32_t v) { return v * 0x10001u; }

/* Fields of pair or half h (0, 1) of the quad at w. */
static ZIPG_DEVICE uint32_t zipg_fields(int dt, const uint32_t *w, int h)
{
	switch (dt) {
	case ZIPG_BF16:
		return w[h] & 0x7f807f80u;
	case ZIPG_FP16:
		return w[h] >> 3 & 0x0f800f80u;
	case ZIPG_FP32:
		return zipg_perm(w[2 * h], w[2 * h + 1], 0x7632) & 0x7f807f80u;
	case ZIPG_E4M3:
		return w[0] >> 8 * h & 0x00780078u;
	default:
		return w[0] >> 8 * h & 0x007c007cu;
	}
}

/* Exponent bytes of four bf16 in two words, and the rest of them. */
static ZIPG_DEVICE uint32_t zipg_bf16_exp(uint32_t a, uint32_t b)
{
	uint32_t lo = zipg_perm(a, b, 0x6420), hi = zipg_perm(a, b, 0x7531);

	return zipg_select(0x01010101u, lo >> 7, hi << 1);
}

static ZIPG_DEVICE uint32_t zipg_bf16_rest(uint32_t a, uint32_t b)
{
	uint32_t lo = zipg_perm(a, b, 0x6420), hi = zipg_perm(a, b, 0x7531);

	return zipg_select(0x7f7f7f7fu, lo, hi);
}

static ZIPG_DEVICE uint32_t zipg_quad_exp(int dt, const uint32_t *w)
{
	switch (dt) {
	case ZIPG_BF16:
		return zipg_bf16_exp(w[0], w[1]);
	case ZIPG_FP16:
		return zipg_perm(w[0], w[1], 0x7531) >> 2 & 0x1f1f1f1fu;
	case ZIPG_FP32:
		return zipg_bf16_exp(zipg_perm(w[0], w[1], 0x7632), zipg_perm(w[2], w[3], 0x7632));
	case ZIPG_E4M3:
		return w[0] >> 3 & 0x0f0f0f0fu;
	default:
		return w[0] >> 2 & 0x1f1f1f1fu;
	}
}

/* Bytes or codes of plane p of a quad. */
static ZIPG_DEVICE uint32_t zipg_quad_plane(int dt, int p, const uint32_t *w)
{
	uint32_t t, u;

	switch (dt) {
	case ZIPG_BF16:
		return zipg_bf16_rest(w[0], w[1]);
	case ZIPG_FP16:
		if (p == 0)
			return zipg_perm(w[0], w[1], 0x6420);
		t = zipg_perm(w[0], w[1], 0x7531);
		return zipg_select(0x04040404u, t >> 5, t & 0x03030303u);
	case ZIPG_FP32:
		if (p == 0)
			return zipg_bf16_rest(zipg_perm(w[0], w[1], 0x7632), zipg_perm(w[2], w[3], 0x7632));
		t = zipg_perm(w[0], w[1], 0x5410);
		u = zipg_perm(w[2], w[3], 0x5410);
		return zipg_perm(t, u, p == 1 ? 0x7531 : 0x6420);
	case ZIPG_E4M3:
		return (w[0] >> 4 & 0x08080808u) | (w[0] & 0x07070707u);
	default:
		return (w[0] >> 5 & 0x04040404u) | (w[0] & 0x03030303u);
	}
}

/* The quad out of its exponents and planes. */
static ZIPG_DEVICE void zipg_quad_join(int dt, uint32_t e, const uint32_t *plane, uint32_t *w)
{
	uint32_t x = plane[0], lo, hi;

	if (dt == ZIPG_E4M3) {
		w[0] = (x << 4 & 0x80808080u) | e << 3 | (x & 0x07070707u);
		return;
	}
	if (dt == ZIPG_E5M2) {
		w[0] = (x << 5 & 0x80808080u) | e << 2 | (x & 0x03030303u);
		return;
	}
	if (dt == ZIPG_FP16) {
		lo = x;
		hi = (plane[1] << 5 & 0x80808080u) | e << 2 | (plane[1] & 0x03030303u);
	} else {
		lo = zipg_select(0x7f7f7f7fu, x, e << 7);
		hi = zipg_select(0x80808080u, x, e >> 1);
	}
	x = zipg_perm(lo, hi, 0x5140);
	hi = zipg_perm(lo, hi, 0x7362);
	if (dt != ZIPG_FP32) {
		w[0] = x;
		w[1] = hi;
		return;
	}
	lo = zipg_perm(plane[2], plane[1], 0x5140);
	w[0] = zipg_perm(lo, x, 0x5410);
	w[1] = zipg_perm(lo, x, 0x7632);
	lo = zipg_perm(plane[2], plane[1], 0x7362);
	w[2] = zipg_perm(lo, hi, 0x5410);
	w[3] = zipg_perm(lo, hi, 0x7632);
}

/* Eight codes, a nibble each, out of and into two quads of bytes below 16. */
static ZIPG_DEVICE uint32_t zipg_nibbles(uint32_t lo, uint32_t hi)
{
	return zipg_perm(lo | lo >> 4, hi | hi >> 4, 0x6420);
}

static ZIPG_DEVICE void zipg_unnibble(uint32_t n, uint32_t *lo, uint32_t *hi)
{
	uint32_t even = n & 0x0f0f0f0fu, odd = n >> 4 & 0x0f0f0f0fu;

	*lo = zipg_perm(even, odd, 0x5140);
	*hi = zipg_perm(even, odd, 0x7362);
}

/* Code plane words (3, 4 or 5) of a pack out of its four nibble words and the fifth bits, and back. */
static ZIPG_DEVICE void zipg_code3(const uint32_t *c, uint32_t *word)
{
	word[0] = c[0] | (c[3] & 0x11111111u) << 3;
	word[1] = c[1] | (c[3] & 0x22222222u) << 2;
	word[2] = c[2] | (c[3] & 0x44444444u) << 1;
}

static ZIPG_DEVICE void zipg_uncode3(const uint32_t *word, uint32_t *c)
{
	c[0] = word[0] & 0x77777777u;
	c[1] = word[1] & 0x77777777u;
	c[2] = word[2] & 0x77777777u;
	c[3] = (word[0] >> 3 & 0x11111111u) | (word[1] >> 2 & 0x22222222u) | (word[2] >> 1 & 0x44444444u);
}

/* `quad` is the pack's eight quads of codes of `bits` bits. */
static ZIPG_DEVICE void zipg_pack_codes(int bits, const uint32_t *quad, uint32_t *word)
{
	uint32_t c[4], top = 0;

	ZIPG_UNROLL
	for (int k = 0; k < 4; k++) {
		uint32_t lo = quad[2 * k], hi = quad[2 * k + 1];

		c[k] = zipg_nibbles(lo & 0x0f0f0f0fu, hi & 0x0f0f0f0fu);
		if (bits == 5)
			top |= zipg_nibbles(lo >> 4 & 0x01010101u, hi >> 4 & 0x01010101u) << k;
	}
	if (bits == 3) {
		zipg_code3(c, word);
		return;
	}
	ZIPG_UNROLL
	for (int k = 0; k < 4; k++)
		word[k] = c[k];
	if (bits == 5)
		word[4] = top;
}

static ZIPG_DEVICE void zipg_unpack_codes(int bits, const uint32_t *word, uint32_t *quad)
{
	uint32_t c[4];

	if (bits == 3) {
		zipg_uncode3(word, c);
	} else {
		ZIPG_UNROLL
		for (int k = 0; k < 4; k++)
			c[k] = word[k];
	}
	ZIPG_UNROLL
	for (int k = 0; k < 4; k++) {
		zipg_unnibble(c[k], &quad[2 * k], &quad[2 * k + 1]);
		if (bits == 5) {
			uint32_t lo, hi;

			zipg_unnibble(word[4] >> k & 0x11111111u, &lo, &hi);
			quad[2 * k] |= lo << 4;
			quad[2 * k + 1] |= hi << 4;
		}
	}
}

/* The largest exponent, which is a mask: sums of narrow exponents wrap around, those of 8 bits never get there. */
static ZIPG_DEVICE uint32_t zipg_emask(int dt) { return (1u << zipg_ebits(dt)) - 1; }

/* The 16-bit fields of two exponents as symbols clamped to `escape`. */
static ZIPG_DEVICE uint32_t zipg_symbols2(int dt, uint32_t x, uint32_t base, uint32_t zero, uint32_t escape)
{
	int shift = zipg_shift(dt);
	uint32_t add = zipg_twice((0u - (base << shift)) & 0xffffu), limit = zipg_twice((escape - zero) << shift), s, used;

	if (zipg_ebits(dt) < 8) {
		s = x + zipg_twice((zipg_emask(dt) + 1 - base) << shift);
		s = zipg_addmin2(s & zipg_twice(zipg_emask(dt) << shift), 0, limit);
	} else {
		s = zipg_addmin2(x, add, limit);
	}
	if (!zero)
		return s;
	used = (x + zipg_twice(0x8000u - (1u << shift))) >> 15 & 0x00010001u;
	return (s + zipg_twice(1u << shift)) & used * 0xffffu;
}

/* Number of bytes of v that are zero. */
static ZIPG_DEVICE uint32_t zipg_zero_bytes(uint32_t v)
{
	return zipg_popc(~(((v & 0x7f7f7f7fu) + 0x7f7f7f7fu) | v) & 0x80808080u);
}

/* Count the four bytes of e. */
static ZIPG_DEVICE void zipg_count4(uint32_t *hist, uint32_t e)
{
	ZIPG_UNROLL
	for (int i = 0; i < 4; i++)
		zipg_shared_add(&hist[e >> 8 * i & 0xffu], 1);
}

#endif
