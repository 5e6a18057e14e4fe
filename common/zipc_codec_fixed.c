/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixed codec: 3-bit codes, escapes aside. doc/format.md, section 5. */
#include "zipc_codec_priv.h"
#include "zipc_error.h"

#define SLICE_WORDS (ZIPC_SLICE * 3 / 8) /* bytes of code words of a slice */
#define ENTRY_BYTES 4u
#define GROUP_HEAD 8u
/* Variable data of a group at worst, rounded up, and what an escape writer may overshoot. */
#define GROUP_ROOM (ZIPC_GROUP * ZIPC_SLICE + 16)

static inline int highest_bit(uint64_t x)
{
	return 63 - __builtin_clzll(x);
}

/* Number in its slice of code 8 k + i of lane 0, by bit number 4 i + k; a lane further is 8 * units further. */
#define K4(step1, step2, step3, i) (i), (step1) + (i), (step2) + (i), (step3) + (i)
#define I8(a, b, c) K4(a, b, c, 0), K4(a, b, c, 1), K4(a, b, c, 2), K4(a, b, c, 3), \
		    K4(a, b, c, 4), K4(a, b, c, 5), K4(a, b, c, 6), K4(a, b, c, 7)
static const uint16_t places[5][32] = {
	[1] = { I8(256, 512, 768) },
	[2] = { I8(8, 512, 520) },
	[4] = { I8(8, 16, 24) },
};

static inline size_t element_at(unsigned p, unsigned lane, unsigned bit, unsigned units)
{
	return p * (size_t)ZIPC_SLICE + lane * units * 8 + places[units][bit];
}

static inline uint64_t clear_highest(uint64_t x)
{
	return x & ~(UINT64_C(1) << highest_bit(x));
}

/* The element of the highest bit in the masks of two lanes. */
static inline size_t escape_at(unsigned p, unsigned lane, uint64_t mask, unsigned units)
{
	unsigned bit = (unsigned)highest_bit(mask);

	return element_at(p, lane + (bit < 32), bit % 32, units);
}

/*
 * Append the escaped exponents of slice p. Two lanes make one 64-bit mask, the first one on top, so that walking it down from
 * the top gives the order of the format with half the loop ends to mispredict.
 */
static uint8_t *put_escapes(uint8_t *out, const uint32_t masks[ZIPC_LANES], const uint8_t *exps, unsigned p, unsigned units)
{
	for (unsigned lane = 0; lane < ZIPC_LANES; lane += 2) {
		uint64_t mask = (uint64_t)masks[lane] << 32 | masks[lane + 1];

		for (; mask; mask = clear_highest(mask))
			*out++ = exps[escape_at(p, lane, mask, units)];
	}
	return out;
}

static void get_escapes(uint8_t *exps, const uint32_t masks[ZIPC_LANES], const uint8_t *in, unsigned p, unsigned units)
{
	for (unsigned lane = 0; lane < ZIPC_LANES; lane += 2) {
		uint64_t mask = (uint64_t)masks[lane] << 32 | masks[lane + 1];

		for (; mask; mask = clear_highest(mask))
			exps[escape_at(p, lane, mask, units)] = *in++;
	}
}

/* Raw exponents of slice p: codes as in a code plane, or, for 8 bits, lane by lane. */
static size_t slice_raw_bytes(const struct zipc_dtype_info *info)
{
	return ZIPC_SLICE / 8 * info->ebits;
}

static void put_raw(const struct zipc_encoder *enc, uint8_t *out, const uint8_t *exps, unsigned p)
{
	uint8_t words[5120];

	/* Only narrow types come here: 8-bit exponents never take less room raw than as escapes. */
	enc->ops->pack(words, exps, enc->info->units, enc->info->ebits);
	memcpy(out, words + p * slice_raw_bytes(enc->info), slice_raw_bytes(enc->info));
}

static void put_entry(uint8_t *entry, unsigned base, unsigned mode, unsigned nesc)
{
	entry[0] = (uint8_t)base;
	entry[1] = (uint8_t)mode;
	zipc_store16(entry + 2, (uint16_t)nesc);
}

/* Entry and variable data of slice p of a block. Returns the end of the data. */
static uint8_t *put_slice(const struct zipc_encoder *enc, uint8_t *out, uint8_t *entry, uint8_t *words, const uint8_t *exps,
			  unsigned p, const struct zipc_base *base)
{
	size_t raw = slice_raw_bytes(enc->info);
	uint32_t masks[ZIPC_LANES];
	unsigned nesc;

	nesc = enc->ops->escapes(masks, words);
	if (enc->info->ebits < 8 && nesc > raw) {
		memset(words, 0, SLICE_WORDS);
		put_raw(enc, out, exps, p);
		put_entry(entry, 0, ZIPC_MODE_RAW, (unsigned)raw);
		return out + raw;
	}
	put_entry(entry, base->base, base->mode, nesc);
	return put_escapes(out, masks, exps, p, enc->info->units);
}

/*
 * The samples that placed a block's base cannot tell two neighbours apart that leave nearly as many escapes. Here the exponents
 * of the slice are counted that make the difference: the one that would be lost and the one that would be won.
 */
static uint8_t slice_base(const struct zipc_encoder *enc, const uint8_t *exps, const struct zipc_base *base)
{
	const int top = ZIPC_FIXED_ESCAPE - 1, other = base->base + base->rival;
	uint8_t lost_won[2];
	unsigned n[2];

	if (!base->rival || base->mode != ZIPC_MODE_NORMAL || enc->info->ebits < 8 || other < 0 || other + top > 255)
		return base->base;
	lost_won[0] = (uint8_t)(base->base + (base->rival < 0 ? top : 0));
	lost_won[1] = (uint8_t)(other + (base->rival < 0 ? 0 : top));
	enc->ops->tally(n, exps, ZIPC_SLICE, lost_won);
	return n[1] > n[0] ? (uint8_t)other : base->base;
}

static uint8_t *put_block(const struct zipc_encoder *enc, uint64_t b, uint8_t *out, uint8_t *entries, int same,
			  const struct zipc_base *base)
{
	unsigned slices = enc->info->elements / ZIPC_SLICE;
	uint8_t *words = enc->frame + enc->layout.codes + b * slices * SLICE_WORDS;
	struct zipc_base bases[ZIPC_MAX_ELEMENTS / ZIPC_SLICE];
	struct zipc_parts parts;

	zipc_split_dense(enc, b, &parts);
	if (same && enc->ops->constant(parts.exps, enc->info->elements)) {
		memset(words, 0, slices * SLICE_WORDS);
		for (unsigned p = 0; p < slices; p++)
			put_entry(entries + p * ENTRY_BYTES, parts.exps[0], ZIPC_MODE_CONSTANT, 0);
		return out;
	}
	for (unsigned p = 0; p < slices; p++) {
		const uint8_t *exps = parts.exps + p * ZIPC_SLICE;

		bases[p] = (struct zipc_base){ .mode = base->mode, .base = slice_base(enc, exps, base) };
		enc->ops->symbols(parts.codes + p * ZIPC_SLICE, exps, ZIPC_SLICE, (enum zipc_mode)base->mode, bases[p].base,
				  zipc_emask(enc->info), ZIPC_FIXED_ESCAPE);
	}
	enc->ops->pack(words, parts.codes, enc->info->units, 3);
	for (unsigned p = 0; p < slices; p++) {
		zipc_prefetch(enc->src, (b + 1) * ZIPC_BLOCK + p * (ZIPC_BLOCK / slices), ZIPC_BLOCK / slices);
		out = put_slice(enc, out, entries + p * ENTRY_BYTES, words + p * SLICE_WORDS, parts.exps, p, &bases[p]);
	}
	return out;
}

/* Directory group `g` with `count` blocks. */
static int put_group(struct zipc_encoder *enc, uint64_t g, unsigned count, const struct zipc_look *looks,
		     const struct zipc_base *bases)
{
	uint8_t *var = enc->frame + enc->layout.var + enc->var_used, *out, *end, spare[GROUP_ROOM];
	uint8_t *dir = enc->frame + enc->layout.dir + g * ZIPC_GROUP_BYTES;
	uint64_t room = enc->var_limit - enc->var_used, used, rounded;
	unsigned slices = enc->info->elements / ZIPC_SLICE;

	/* Near the end of the frame's room the data go aside first: they may turn out not to fit. */
	out = end = room < GROUP_ROOM ? spare : var;
	memset(dir, 0, ZIPC_GROUP_BYTES);
	for (unsigned i = 0; i < count; i++)
		end = put_block(enc, g * (ZIPC_GROUP / slices) + i, end, dir + GROUP_HEAD + i * slices * ENTRY_BYTES,
				looks[i].same, &bases[i]);
	used = (uint64_t)(end - out);
	rounded = zipc_round16(used);
	if (rounded > room)
		return ZIPC_ERR_SPACE;
	memset(end, 0, rounded - used);
	if (out == spare)
		memcpy(var, spare, rounded);
	zipc_store32(dir, (uint32_t)(enc->var_used / 16));
	zipc_store32(dir + 4, (uint32_t)used);
	enc->var_used += rounded;
	return 0;
}

/* Eight blocks are looked at together, as in the entropy codec; they fill one directory group or several. */
int zipc_fixed_encode(struct zipc_encoder *enc)
{
	unsigned per_group = ZIPC_GROUP * ZIPC_SLICE / enc->info->elements;

	for (uint64_t b = 0; b < enc->layout.nblocks; b += ZIPC_GROUP) {
		uint64_t left = enc->layout.nblocks - b;
		unsigned n = left < ZIPC_GROUP ? (unsigned)left : ZIPC_GROUP;
		struct zipc_look looks[ZIPC_GROUP];
		struct zipc_base bases[ZIPC_GROUP];

		zipc_look_group(looks, enc->src, b, enc->layout.nblocks, enc->dtype);
		zipc_choose_fixed(looks, n, enc->info, bases);
		for (unsigned i = 0; i < n; i += per_group) {
			unsigned count = n - i < per_group ? n - i : per_group;
			int ret = put_group(enc, (b + i) / per_group, count, looks + i, bases + i);

			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Escapes are 8 bits wide; narrower exponents must not be exceeded. */
static int escapes_valid(const struct zipc_dtype_info *info, const uint8_t *in, size_t n)
{
	unsigned any = 0;

	for (size_t i = 0; i < n; i++)
		any |= in[i];
	return any <= zipc_emask(info);
}

static int get_raw(const struct zipc_decoder *dec, uint8_t *exps, const uint8_t *in, unsigned p)
{
	unsigned units = dec->info->units;
	uint8_t block[ZIPC_MAX_ELEMENTS], words[5120];
	size_t raw = slice_raw_bytes(dec->info);

	if (dec->info->ebits < 8) {
		memset(words, 0, sizeof(words));
		memcpy(words + p * raw, in, raw);
		dec->ops->unpack(block, words, units, dec->info->ebits);
	}
	for (unsigned lane = 0; lane < ZIPC_LANES; lane++)
		for (unsigned k = 0; k < 4; k++, in += 8) {
			size_t at = element_at(p, lane, k, units);

			memcpy(exps + at, dec->info->ebits < 8 ? block + at : in, 8);
		}
	return 0;
}

/* Symbols of a slice to exponents, in place. */
static void slice_exponents(const struct zipc_decoder *dec, uint8_t *exps, enum zipc_mode mode, uint8_t base)
{
	if (mode == ZIPC_MODE_CONSTANT)
		memset(exps, base, ZIPC_SLICE);
	else
		dec->ops->exponents(exps, ZIPC_SLICE, mode, base, zipc_emask(dec->info));
}

/* Where the codes of a slice are not all right for its base, say so. Rare: only bases near 255 come here. */
static int check_codes(const struct zipc_decoder *dec, const uint8_t *codes, enum zipc_mode mode, uint8_t base)
{
	uint8_t syms[ZIPC_SLICE];

	for (unsigned i = 0; i < ZIPC_SLICE; i++)
		syms[i] = codes[i] == ZIPC_FIXED_ESCAPE ? 0 : codes[i];
	return zipc_symbols_valid(dec->info, mode, base, syms, ZIPC_SLICE) ? 0 : ZIPC_ERR_SYMBOL;
}

/* Entry of a slice against the format and the bytes left. */
static int check_slice(const struct zipc_decoder *dec, const uint8_t *entry, const uint8_t *in, size_t left)
{
	unsigned base = entry[0], mode = entry[1], nesc = zipc_load16(entry + 2);

	if (mode > ZIPC_MODE_RAW)
		return ZIPC_ERR_MODE;
	if (nesc > left)
		return ZIPC_ERR_OFFSET;
	if (base > zipc_emask(dec->info))
		return ZIPC_ERR_SYMBOL;
	if ((mode == ZIPC_MODE_CONSTANT && nesc) || (mode == ZIPC_MODE_RAW && nesc != slice_raw_bytes(dec->info)))
		return ZIPC_ERR_STREAM;
	if (mode <= ZIPC_MODE_ZERO && !escapes_valid(dec->info, in, nesc))
		return ZIPC_ERR_SYMBOL;
	return 0;
}

/* The slices of a block; *in moves over their data, which end at `end`. */
static int get_block(const struct zipc_decoder *dec, uint64_t b, const uint8_t *entries, const uint8_t **in,
		     const uint8_t *end)
{
	const struct zipc_dtype_info *info = dec->info;
	unsigned slices = info->elements / ZIPC_SLICE, units = info->units;
	const uint8_t *words = dec->frame + dec->layout.codes + b * slices * SLICE_WORDS;
	unsigned ahead = info->plane_bytes[0] / slices;
	const uint8_t *plane = dec->frame + dec->layout.plane[0] + b * info->plane_bytes[0];
	struct zipc_parts parts;
	uint32_t masks[ZIPC_LANES];
	int ret;

	dec->ops->unpack(parts.exps, words, units, 3);
	for (unsigned p = 0; p < slices; p++) {
		const uint8_t *entry = entries + p * ENTRY_BYTES;
		enum zipc_mode mode = (enum zipc_mode)entry[1];
		uint8_t *exps = parts.exps + p * ZIPC_SLICE;
		unsigned nesc = zipc_load16(entry + 2);

		ret = check_slice(dec, entry, *in, (size_t)(end - *in));
		if (!ret && mode <= ZIPC_MODE_ZERO && info->ebits == 8 && entry[0] > 255 - ZIPC_FIXED_ESCAPE)
			ret = check_codes(dec, exps, mode, entry[0]);
		if (ret)
			return ret;
		if (mode == ZIPC_MODE_RAW)
			get_raw(dec, parts.exps, *in, p);
		else
			slice_exponents(dec, exps, mode, entry[0]);
		if (mode <= ZIPC_MODE_ZERO) {
			if (dec->ops->escapes(masks, words + p * SLICE_WORDS) != nesc)
				return ZIPC_ERR_STREAM;
			zipc_prefetch(words, (slices + p) * SLICE_WORDS, SLICE_WORDS);
			zipc_prefetch(plane, (p + slices) * ahead, ahead);
			get_escapes(parts.exps, masks, *in, p, units);
		}
		*in += nesc;
	}
	zipc_join_dense(dec, b, &parts);
	return 0;
}

static int get_group(const struct zipc_decoder *dec, uint64_t first, uint64_t count, const uint8_t *dir)
{
	uint64_t off = (uint64_t)zipc_load32(dir) * 16, len = zipc_load32(dir + 4);
	unsigned slices = dec->info->elements / ZIPC_SLICE;
	const uint8_t *in = dec->frame + dec->layout.var + off, *end = in + len;

	if (off > dec->var_bytes || zipc_round16(len) > dec->var_bytes - off)
		return ZIPC_ERR_OFFSET;
	for (uint64_t i = count * slices * ENTRY_BYTES; i < ZIPC_GROUP * ENTRY_BYTES; i++)
		if (dir[GROUP_HEAD + i])
			return ZIPC_ERR_RESERVED;
	for (uint64_t i = 0; i < count; i++) {
		int ret = get_block(dec, first + i, dir + GROUP_HEAD + i * slices * ENTRY_BYTES, &in, end);

		if (ret)
			return ret;
	}
	return in == end ? 0 : ZIPC_ERR_STREAM;
}

int zipc_fixed_decode(const struct zipc_decoder *dec)
{
	uint64_t per_group = ZIPC_GROUP * ZIPC_SLICE / dec->info->elements;
	const uint8_t *dir = dec->frame + dec->layout.dir;

	for (uint64_t b = 0; b < dec->layout.nblocks; b += per_group, dir += ZIPC_GROUP_BYTES) {
		uint64_t left = dec->layout.nblocks - b;
		int ret = get_group(dec, b, left < per_group ? left : per_group, dir);

		if (ret)
			return ret;
	}
	return 0;
}
