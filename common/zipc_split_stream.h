/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bit streams of a block, for zipc_split*.c only: the same code compiled for a plain processor and, much better, for one
 * with BMI2 shifts.
 */
#ifndef ZIPC_SPLIT_STREAM_H
#define ZIPC_SPLIT_STREAM_H

#include "zipc_error.h"
#include "zipc_split.h"
#include "zipc_split_swar.h"

#define ZIPC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Bits not yet at a whole byte wait in `bits`: `count` < 8 of them between calls. */
struct zipc_bit_writer {
	uint8_t *at;
	uint64_t bits;
	unsigned count;
};

/* Append `length` <= 56 bits; the bits of code above them are zero. Writes up to 8 bytes. */
static inline void zipc_put(struct zipc_bit_writer *w, uint64_t code, unsigned length)
{
	w->bits |= code << w->count;
	w->count += length;
	zipc_store64(w->at, w->bits);
	w->at += w->count >> 3;
	w->bits >>= w->count & 0x38;
	w->count &= 7;
}

/* The four pairs of a unit one by one, escapes among them. */
static inline void zipc_put_escaped(struct zipc_bit_writer *w, const uint8_t *syms, const uint8_t *exps,
				    const uint32_t *encode)
{
	for (unsigned j = 0; j < 8; j += 2) {
		uint32_t entry = encode[syms[j] | syms[j + 1] << 4];

		zipc_put(w, entry & 0xfff, entry >> 16 & 0x1f);
		if (entry & ZIPC_ENCODE_ESCAPE)
			zipc_put(w, zipc_load16(exps + j), 16);
	}
}

/* Bits since `start`. */
static inline size_t zipc_bits_written(const struct zipc_bit_writer *w, const uint8_t *start)
{
	return (size_t)(w->at - start) * 8 + w->count;
}

/*
 * Lane lengths and streams from the quads of a block, as make_quads lays them out. Lanes are written one after the
 * other by one writer, so nothing has to be moved afterwards.
 */
static inline size_t zipc_streams_write(uint8_t *out, const uint64_t *quads, const uint8_t *syms, const uint8_t *exps,
					unsigned units, const uint32_t *encode, const uint8_t *soon)
{
	uint8_t *start = out + ZIPC_LANES;
	struct zipc_bit_writer w = { start, 0, 0 };
	size_t begin = 0, end;

	for (unsigned lane = 0; lane < ZIPC_LANES; lane++) {
		for (unsigned n = 0; n < 8 * units; n++) {
			size_t unit = zipc_unit_at(n, lane, units);
			uint64_t quad = quads[unit];

			if (ZIPC_UNLIKELY(quad >> 63))
				zipc_put_escaped(&w, syms + unit * 8, exps + unit * 8, encode);
			else
				zipc_put(&w, quad & ((UINT64_C(1) << 48) - 1), (unsigned)(quad >> 56));
		}
		zipc_prefetch(soon, lane * (ZIPC_BLOCK / ZIPC_LANES), ZIPC_BLOCK / ZIPC_LANES);
		end = zipc_bits_written(&w, start);
		zipc_put(&w, 0, -(unsigned)end & 3);
		end = (end + 3) & ~(size_t)3;
		if (ZIPC_UNLIKELY(end - begin > 4 * ZIPC_LANE_UNITS))
			return 0;
		out[lane] = (uint8_t)((end - begin) / 4);
		begin = end;
	}
	return ZIPC_LANES + (begin + 7) / 8;
}

/* A unit in which a pair escaped, from bit `pos`. Returns the bit after it. */
static inline uint64_t zipc_get_escaped(uint8_t *syms, struct zipc_patch **patches, size_t unit, const uint8_t *in,
					uint64_t pos, const uint32_t *decode)
{
	for (unsigned j = 0; j < 4; j++) {
		uint32_t entry = decode[zipc_load32(in + (pos >> 3)) >> (pos & 7) & ((1u << ZIPC_LUT_BITS) - 1)];

		pos += entry & 0xff;
		zipc_store16(syms + unit * 8 + j * 2, (uint16_t)(entry >> 8));
		if (entry & ZIPC_DECODE_ESCAPE) {
			uint32_t exps = zipc_load32(in + (pos >> 3)) >> (pos & 7);

			(*patches)->pair = (uint16_t)(unit * 4 + j);
			zipc_store16((*patches)->exps, (uint16_t)exps);
			(*patches)++;
			pos += 16;
		}
	}
	return pos;
}

/* One unit of one lane from bit `pos`: at most 48 bits, so that one load serves all four pairs. Returns the bit after it. */
static inline uint64_t zipc_get_unit(uint8_t *syms, struct zipc_patch **patches, size_t unit, const uint8_t *in,
				     uint64_t pos, const uint32_t *decode)
{
	const uint64_t mask = (1u << ZIPC_LUT_BITS) - 1;
	uint64_t bits = zipc_load64(in + (pos >> 3)) >> (pos & 7);
	uint32_t a, b, c, d, sum;
	uint8_t *out = syms + unit * 8;

	a = decode[bits & mask];
	bits >>= a & 63;
	b = decode[bits & mask];
	bits >>= b & 63;
	c = decode[bits & mask];
	bits >>= c & 63;
	d = decode[bits & mask];
	sum = a + b + c + d;
	if (ZIPC_UNLIKELY(sum >= ZIPC_DECODE_ESCAPE))
		return zipc_get_escaped(syms, patches, unit, in, pos, decode);
	zipc_store16(out, (uint16_t)(a >> 8));
	zipc_store16(out + 2, (uint16_t)(b >> 8));
	zipc_store16(out + 4, (uint16_t)(c >> 8));
	zipc_store16(out + 6, (uint16_t)(d >> 8));
	return pos + (sum & 0xff);
}

/* Four lanes at a time: each one is a chain of table look-ups, and four of them keep the processor busy. */
static inline int zipc_streams_read(uint8_t *syms, struct zipc_patch *patches, const uint8_t *lengths, const uint8_t *in,
				    unsigned units, const uint32_t *decode, const uint8_t *soon)
{
	struct zipc_patch *next = patches;
	uint64_t begin = 0;

	for (unsigned lane = 0; lane < ZIPC_LANES; lane += 4) {
		uint64_t end0 = begin + 4u * lengths[lane], end1 = end0 + 4u * lengths[lane + 1];
		uint64_t end2 = end1 + 4u * lengths[lane + 2], end3 = end2 + 4u * lengths[lane + 3];
		uint64_t p0 = begin, p1 = end0, p2 = end1, p3 = end2;

		zipc_prefetch(soon, lane * (ZIPC_BLOCK / 2 / ZIPC_LANES), 4 * (ZIPC_BLOCK / 2 / ZIPC_LANES));
		for (unsigned q = 0; q < 8; q++) {
			size_t unit = (size_t)(q * ZIPC_LANES + lane) * units;

			for (unsigned c = 0; c < units; c++, unit++) {
				p0 = zipc_get_unit(syms, &next, unit, in, p0, decode);
				p1 = zipc_get_unit(syms, &next, unit + units, in, p1, decode);
				p2 = zipc_get_unit(syms, &next, unit + 2 * units, in, p2, decode);
				p3 = zipc_get_unit(syms, &next, unit + 3 * units, in, p3, decode);
			}
		}
		if ((end0 - p0) > 3 || (end1 - p1) > 3 || (end2 - p2) > 3 || (end3 - p3) > 3)
			return ZIPC_ERR_STREAM;
		begin = end3;
	}
	return (int)(next - patches);
}

#endif
