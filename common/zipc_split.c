/* SPDX-License-Identifier: BSD-3-Clause */
/* The portable primitives, and the choice between them and faster ones. */
#include "zipc_split.h"

#include <stdatomic.h>

#include "zipc_error.h"
#include "zipc_split_swar.h"
#include "zipc_split_stream.h"

/* Number in plane order of the first element of vector (row, lane), k elements a vector. */
static inline size_t vector_at(unsigned row, unsigned lane, unsigned k)
{
	return (row / 2 * ZIPC_LANES + lane) * 2 * k + row % 2 * k;
}

#define ROWS (ZIPC_BLOCK / (ZIPC_LANES * ZIPC_VECTOR))

/*
 * The loops below are written once, with the element's fields as macro arguments: SPLIT sees the bits x of an element and
 * sets e, a, b, c; JOIN makes x of them.
 */
#define DEFINE_SPLIT(name, type, SPLIT)                                                                          \
	static void split_##name(const uint8_t *src, uint8_t *exps, uint8_t *const planes[ZIPC_MAX_PLANES])      \
	{                                                                                                        \
		const unsigned k = ZIPC_VECTOR / sizeof(type);                                                   \
		uint8_t *const pa = planes[0], *const pb = planes[1], *const pc = planes[2];                     \
                                                                                                                 \
		(void)pb;                                                                                        \
		(void)pc;                                                                                        \
		for (unsigned row = 0; row < ROWS; row++)                                                        \
			for (unsigned lane = 0; lane < ZIPC_LANES; lane++) {                                     \
				const uint8_t *vector = src + (row * ZIPC_LANES + lane) * ZIPC_VECTOR;           \
				size_t at = vector_at(row, lane, k);                                             \
                                                                                                                 \
				for (unsigned j = 0; j < k; j++, at++) {                                         \
					type x;                                                                  \
                                                                                                                 \
					memcpy(&x, vector + j * sizeof(type), sizeof(type));                     \
					SPLIT;                                                                   \
				}                                                                                \
			}                                                                                        \
	}

#define DEFINE_JOIN(name, type, JOIN)                                                                            \
	static void join_##name(uint8_t *dst, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES]) \
	{                                                                                                        \
		const unsigned k = ZIPC_VECTOR / sizeof(type);                                                   \
		const uint8_t *const pa = planes[0], *const pb = planes[1], *const pc = planes[2];               \
                                                                                                                 \
		(void)pb;                                                                                        \
		(void)pc;                                                                                        \
		for (unsigned row = 0; row < ROWS; row++)                                                        \
			for (unsigned lane = 0; lane < ZIPC_LANES; lane++) {                                     \
				uint8_t *vector = dst + (row * ZIPC_LANES + lane) * ZIPC_VECTOR;                 \
				size_t at = vector_at(row, lane, k);                                             \
                                                                                                                 \
				for (unsigned j = 0; j < k; j++, at++) {                                         \
					uint32_t e = exps[at];                                                   \
					type x = (type)(JOIN);                                                   \
                                                                                                                 \
					memcpy(vector + j * sizeof(type), &x, sizeof(type));                     \
				}                                                                                \
			}                                                                                        \
	}

DEFINE_SPLIT(bf16, uint16_t, {
	exps[at] = (uint8_t)(x >> 7);
	pa[at] = (uint8_t)((x >> 8 & 0x80) | (x & 0x7f));
})
DEFINE_JOIN(bf16, uint16_t, (pa[at] & 0x80u) << 8 | e << 7 | (pa[at] & 0x7fu))

DEFINE_SPLIT(fp16, uint16_t, {
	exps[at] = (x >> 10) & 0x1f;
	pa[at] = (uint8_t)x;
	pb[at] = (uint8_t)((x >> 13 & 4) | (x >> 8 & 3));
})
DEFINE_JOIN(fp16, uint16_t, (pb[at] & 4u) << 13 | e << 10 | (pb[at] & 3u) << 8 | pa[at])

DEFINE_SPLIT(fp32, uint32_t, {
	exps[at] = (uint8_t)(x >> 23);
	pa[at] = (uint8_t)((x >> 24 & 0x80) | (x >> 16 & 0x7f));
	pb[at] = (uint8_t)(x >> 8);
	pc[at] = (uint8_t)x;
})
DEFINE_JOIN(fp32, uint32_t, (pa[at] & 0x80u) << 24 | e << 23 | (pa[at] & 0x7fu) << 16 | (uint32_t)pb[at] << 8 | pc[at])

DEFINE_SPLIT(e4m3, uint8_t, {
	exps[at] = (x >> 3) & 0xf;
	pa[at] = (uint8_t)((x >> 4 & 8) | (x & 7));
})
DEFINE_JOIN(e4m3, uint8_t, (pa[at] & 8u) << 4 | e << 3 | (pa[at] & 7u))

DEFINE_SPLIT(e5m2, uint8_t, {
	exps[at] = (x >> 2) & 0x1f;
	pa[at] = (uint8_t)((x >> 5 & 4) | (x & 3));
})
DEFINE_JOIN(e5m2, uint8_t, (pa[at] & 4u) << 5 | e << 2 | (pa[at] & 3u))

static void pack(uint8_t *words, const uint8_t *codes, unsigned units, unsigned bits)
{
	for (unsigned p = 0; p < 2 * units; p++)
		for (unsigned lane = 0; lane < ZIPC_LANES; lane++) {
			uint8_t *w = words + (p * bits * ZIPC_LANES + lane) * 4;
			uint64_t c[4];

			for (unsigned k = 0; k < 4; k++)
				c[k] = zipc_load64(codes + zipc_unit_at(4 * p + k, lane, units) * 8);
			zipc_pack_word(w, c, bits);
		}
}

static void unpack(uint8_t *codes, const uint8_t *words, unsigned units, unsigned bits)
{
	for (unsigned p = 0; p < 2 * units; p++)
		for (unsigned lane = 0; lane < ZIPC_LANES; lane++) {
			uint64_t c[4];

			zipc_unpack_word(c, words + (p * bits * ZIPC_LANES + lane) * 4, bits);
			for (unsigned k = 0; k < 4; k++)
				zipc_store64(codes + zipc_unit_at(4 * p + k, lane, units) * 8, c[k]);
		}
}

static void stream_copy(uint8_t *dst, const uint8_t *src, size_t n)
{
	memcpy(dst, src, n);
}

static void stream_end(void)
{
}

static int constant(const uint8_t *bytes, size_t n)
{
	return !memcmp(bytes, bytes + 1, n - 1);
}

static void tally(unsigned counts[2], const uint8_t *bytes, size_t n, const uint8_t values[2])
{
	counts[0] = counts[1] = 0;
	for (size_t i = 0; i < n; i++) {
		counts[0] += bytes[i] == values[0];
		counts[1] += bytes[i] == values[1];
	}
}

static void symbols(uint8_t *syms, const uint8_t *exps, size_t n, enum zipc_mode mode, uint8_t base, uint8_t emask,
		    uint8_t limit)
{
	unsigned one = mode == ZIPC_MODE_ZERO;

	for (size_t i = 0; i < n; i++) {
		unsigned s = (unsigned)((exps[i] - base) & emask) + one;

		s = s < limit ? s : limit;
		syms[i] = (uint8_t)(one && !exps[i] ? 0 : s);
	}
}

static void exponents(uint8_t *bytes, size_t n, enum zipc_mode mode, uint8_t base, uint8_t emask)
{
	unsigned one = mode == ZIPC_MODE_ZERO;

	for (size_t i = 0; i < n; i++) {
		unsigned e = (bytes[i] + base - one) & emask;

		bytes[i] = (uint8_t)(one && !bytes[i] ? 0 : e);
	}
}

/* The processor's instruction for this is not in the oldest ones, and a library call is slow. */
static inline unsigned count_bits(uint32_t x)
{
	x -= x >> 1 & 0x55555555;
	x = (x & 0x33333333) + (x >> 2 & 0x33333333);
	return ((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24;
}

static unsigned escapes(uint32_t masks[ZIPC_LANES], const uint8_t *words)
{
	unsigned n = 0;

	for (unsigned lane = 0; lane < ZIPC_LANES; lane++) {
		uint32_t w0 = zipc_load32(words + lane * 4), w1 = zipc_load32(words + (lane + 32) * 4);
		uint32_t w2 = zipc_load32(words + (lane + 64) * 4);
		const uint32_t ones = 0x11111111;

		masks[lane] = (w0 & w0 >> 1 & w0 >> 2 & ones) | (w1 & w1 >> 1 & w1 >> 2 & ones) << 1 |
			      (w2 & w2 >> 1 & w2 >> 2 & ones) << 2 | (w0 & w1 & w2 & ones << 3);
		n += count_bits(masks[lane]);
	}
	return n;
}

/* Codes of the four pairs of a unit one after the other, their length in bits 56..61, bit 63 when one of them escapes. */
static void make_quads(uint64_t *quads, const uint8_t *syms, size_t nquads, const uint32_t *encode)
{
	for (size_t i = 0; i < nquads; i++, syms += 8) {
		uint64_t code = 0, escape = 0;
		unsigned length = 0;

		for (unsigned j = 0; j < 8; j += 2) {
			uint32_t entry = encode[syms[j] | syms[j + 1] << 4];

			code |= (uint64_t)(entry & 0xfff) << length;
			length += entry >> 16 & 0x1f;
			escape |= entry & ZIPC_ENCODE_ESCAPE;
		}
		quads[i] = code | (uint64_t)length << 56 | escape << 32;
	}
}

static size_t stream_encode(uint8_t *out, const uint8_t *syms, const uint8_t *exps, unsigned units,
			    const struct zipc_table *table, const uint8_t *soon)
{
	uint64_t quads[ZIPC_MAX_ELEMENTS / 8];

	make_quads(quads, syms, units * 256, table->encode);
	return zipc_streams_write(out, quads, syms, exps, units, table->encode, soon);
}

static int stream_decode(uint8_t *syms, struct zipc_patch *patches, const uint8_t *lengths, const uint8_t *in,
			 unsigned units, const struct zipc_table *table, const uint8_t *soon)
{
	return zipc_streams_read(syms, patches, lengths, in, units, table->decode, soon);
}

const struct zipc_ops zipc_ops_portable = {
	.name = "portable",
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

/* NULL until the first use; several threads may find the same answer at once. */
static _Atomic(const struct zipc_ops *) chosen;

static const struct zipc_ops *find(const char *name)
{
#ifdef ZIPC_HAVE_AVX2
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && (!name || !strcmp(name, zipc_ops_avx2.name)))
		return &zipc_ops_avx2;
#endif
	return !name || !strcmp(name, zipc_ops_portable.name) ? &zipc_ops_portable : NULL;
}

const struct zipc_ops *zipc_ops_get(void)
{
	const struct zipc_ops *ops = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (!ops) {
		ops = find(NULL);
		atomic_store_explicit(&chosen, ops, memory_order_relaxed);
	}
	return ops;
}

int zipc_ops_force(const char *name)
{
	const struct zipc_ops *ops = find(name);

	if (!ops)
		return ZIPC_ERR_INVAL;
	atomic_store_explicit(&chosen, ops, memory_order_relaxed);
	return 0;
}
