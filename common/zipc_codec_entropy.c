/* SPDX-License-Identifier: BSD-3-Clause */
/* The entropy codec: pairs of symbols by fixed code tables. doc/format.md, section 6. */
#include "zipc_codec_priv.h"
#include "zipc_error.h"
#include "zipc_tables.h"

#define TABLE_MASK 0x1fu
#define MODE_SHIFT 5
/* What writing one block may touch: header, planes and exponents of a sparse block, the overshoot of its streams. */
#define BLOCK_ROOM (ZIPC_SPARSE_HEADER + ZIPC_BLOCK + ZIPC_STREAM_ROOM)

static int raw_exponents(const struct zipc_ops *ops, const struct zipc_dtype_info *info, uint8_t *out, const uint8_t *exps)
{
	if (info->ebits == 8)
		memcpy(out, exps, info->raw_bytes);
	else
		ops->pack(out, exps, info->units, info->ebits);
	return info->raw_bytes;
}

/* Write the exponents of block b; *base is the choice, and its mode becomes what was done. Returns the bytes used. */
static size_t put_exponents(const struct zipc_encoder *enc, uint64_t b, uint8_t *out, const uint8_t *exps, int same,
			    unsigned table, struct zipc_base *base)
{
	const struct zipc_dtype_info *info = enc->info;
	uint8_t syms[ZIPC_MAX_ELEMENTS];
	size_t used = 0;

	if (same && enc->ops->constant(exps, info->elements)) {
		*base = (struct zipc_base){ .mode = ZIPC_MODE_CONSTANT, .base = exps[0] };
		return 0;
	}
	if (base->mode != ZIPC_MODE_RAW) {
		enc->ops->symbols(syms, exps, info->elements, (enum zipc_mode)base->mode, base->base, zipc_emask(info),
				  ZIPC_PAIR_ESCAPE);
		used = enc->ops->stream_encode(out, syms, exps, info->units, zipc_table_get(table),
						enc->src + b * ZIPC_BLOCK + ZIPC_BLOCK);
	}
	if (!used || used >= info->raw_bytes) {
		*base = (struct zipc_base){ .mode = ZIPC_MODE_RAW, .base = 0 };
		used = (size_t)raw_exponents(enc->ops, info, out, exps);
	}
	memset(out + used, 0, -used & 15);
	return zipc_round16(used);
}

/* Header and planes of a block in a sparse frame. Returns the bytes used. */
static size_t put_sparse_planes(const struct zipc_encoder *enc, uint8_t *out, uint64_t b, struct zipc_parts *parts)
{
	const struct zipc_dtype_info *info = enc->info;
	uint8_t space[ZIPC_BLOCK], *planes[ZIPC_MAX_PLANES] = { NULL }, *at = out + ZIPC_SPARSE_HEADER;

	for (unsigned p = 0; p < info->nplanes; p++)
		planes[p] = info->plane_bits[p] == 8 ? space + p * info->plane_bytes[p] : parts->codes;
	enc->ops->split[enc->dtype](enc->src + b * ZIPC_BLOCK, parts->exps, planes);
	memset(out, 0, ZIPC_SPARSE_HEADER);
	for (unsigned p = 0; p < info->nplanes; p++) {
		if (enc->ops->constant(planes[p], info->elements)) {
			out[0] |= (uint8_t)(1u << p);
			out[1 + p] = planes[p][0];
			continue;
		}
		if (info->plane_bits[p] == 8)
			memcpy(at, planes[p], info->plane_bytes[p]);
		else
			enc->ops->pack(at, planes[p], info->units, info->plane_bits[p]);
		at += info->plane_bytes[p];
	}
	return (size_t)(at - out);
}

static int put_block(struct zipc_encoder *enc, uint64_t b, const struct zipc_look *look, unsigned table,
		     struct zipc_base base)
{
	uint8_t *var = enc->frame + enc->layout.var + enc->var_used, spare[BLOCK_ROOM];
	uint8_t *entry = enc->frame + enc->layout.dir + b * ZIPC_ENTRY_BYTES, *out;
	uint64_t room = enc->var_limit - enc->var_used;
	struct zipc_parts parts;
	size_t used = 0;

	/* Near the end of the frame's room the data go aside first: they may turn out not to fit. */
	out = room < BLOCK_ROOM ? spare : var;
	if (enc->sparse)
		used = put_sparse_planes(enc, out, b, &parts);
	else
		zipc_split_dense(enc, b, &parts);
	used += put_exponents(enc, b, out + used, parts.exps, look->same, table, &base);
	if (used > room)
		return ZIPC_ERR_SPACE;
	if (out == spare)
		memcpy(var, spare, used);
	zipc_store32(entry, (uint32_t)(enc->var_used / 16));
	zipc_store16(entry + 4, (uint16_t)(used / 16));
	entry[6] = base.base;
	entry[7] = (uint8_t)(table | (unsigned)base.mode << MODE_SHIFT);
	enc->var_used += used;
	return 0;
}

int zipc_entropy_encode(struct zipc_encoder *enc)
{
	uint64_t nblocks = enc->layout.nblocks;

	for (uint64_t g = 0; g < nblocks; g += ZIPC_GROUP) {
		struct zipc_look looks[ZIPC_GROUP];
		struct zipc_base bases[ZIPC_GROUP];
		unsigned n = nblocks - g < ZIPC_GROUP ? (unsigned)(nblocks - g) : ZIPC_GROUP, table;

		zipc_look_group(looks, enc->src, g, nblocks, enc->dtype);
		zipc_choose_entropy(looks, n, enc->info, &table, bases);
		for (unsigned i = 0; i < n; i++) {
			int ret = put_block(enc, g + i, &looks[i], table, bases[i]);

			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Directory entry of a block. */
struct entry {
	const uint8_t *data;
	size_t bytes;
	size_t readable; /* bytes from data to the end of the frame */
	unsigned table;
	enum zipc_mode mode;
	uint8_t base;
	const uint8_t *soon; /* what is read after this block */
};

static int get_entry(const struct zipc_decoder *dec, uint64_t b, struct entry *entry)
{
	const uint8_t *at = dec->frame + dec->layout.dir + b * ZIPC_ENTRY_BYTES;
	uint64_t off = (uint64_t)zipc_load32(at) * 16;

	entry->bytes = (size_t)zipc_load16(at + 4) * 16;
	if (off > dec->var_bytes || entry->bytes > dec->var_bytes - off)
		return ZIPC_ERR_OFFSET;
	entry->data = dec->frame + dec->layout.var + off;
	entry->readable = (size_t)(dec->var_bytes - off);
	entry->base = at[6];
	entry->soon = dec->sparse ? entry->data + entry->bytes :
				    dec->frame + dec->layout.plane[0] + (b + 1) * dec->info->plane_bytes[0];
	entry->table = at[7] & TABLE_MASK;
	entry->mode = (enum zipc_mode)(at[7] >> MODE_SHIFT & 3);
	if (at[7] >> 7)
		return ZIPC_ERR_RESERVED;
	if (entry->table >= ZIPC_TABLES || (b % ZIPC_GROUP && entry->table != (at[7 - (int)ZIPC_ENTRY_BYTES] & TABLE_MASK)))
		return ZIPC_ERR_TABLE;
	if (entry->base > zipc_emask(dec->info))
		return ZIPC_ERR_SYMBOL;
	return 0;
}

static void entry_skip(struct entry *entry, size_t n)
{
	entry->data += n;
	entry->bytes -= n;
	entry->readable -= n;
}

static int apply_patches(const struct zipc_dtype_info *info, uint8_t *exps, const struct zipc_patch *patches, int n)
{
	unsigned any = 0;

	for (int i = 0; i < n; i++) {
		memcpy(exps + patches[i].pair * 2u, patches[i].exps, 2);
		any |= patches[i].exps[0] | (unsigned)patches[i].exps[1];
	}
	return any > zipc_emask(info) ? ZIPC_ERR_SYMBOL : 0;
}

static int get_streams(const struct zipc_decoder *dec, const struct entry *entry, uint8_t *exps)
{
	const struct zipc_dtype_info *info = dec->info;
	struct zipc_patch patches[ZIPC_MAX_ELEMENTS / 2];
	uint8_t spare[ZIPC_LANES * ZIPC_LANE_UNITS / 2 + 16 + ZIPC_STREAM_SLACK];
	const uint8_t *in;
	unsigned total = 0;
	int n;

	if (entry->bytes < ZIPC_LANES)
		return ZIPC_ERR_STREAM;
	for (unsigned lane = 0; lane < ZIPC_LANES; lane++)
		total += entry->data[lane];
	if (zipc_round16(ZIPC_LANES + (total + 1) / 2) != entry->bytes)
		return ZIPC_ERR_STREAM;
	in = entry->data + ZIPC_LANES;
	/* Streams that lie about their length are read a little past it; at the frame's end that needs a copy. */
	if (entry->readable < entry->bytes + ZIPC_STREAM_SLACK) {
		memcpy(spare, in, entry->bytes - ZIPC_LANES);
		memset(spare + entry->bytes - ZIPC_LANES, 0, ZIPC_STREAM_SLACK);
		in = spare;
	}
	n = dec->ops->stream_decode(exps, patches, entry->data, in, info->units, zipc_table_get(entry->table), entry->soon);
	if (n < 0)
		return n;
	if (!zipc_symbols_valid(info, entry->mode, entry->base, exps, info->elements))
		return ZIPC_ERR_SYMBOL;
	dec->ops->exponents(exps, info->elements, entry->mode, entry->base, zipc_emask(info));
	return apply_patches(info, exps, patches, n);
}

static int get_exponents(const struct zipc_decoder *dec, const struct entry *entry, uint8_t *exps)
{
	const struct zipc_dtype_info *info = dec->info;

	switch (entry->mode) {
	case ZIPC_MODE_CONSTANT:
		if (entry->bytes)
			return ZIPC_ERR_STREAM;
		memset(exps, entry->base, info->elements);
		return 0;
	case ZIPC_MODE_RAW:
		if (entry->bytes != info->raw_bytes)
			return ZIPC_ERR_STREAM;
		if (info->ebits == 8)
			memcpy(exps, entry->data, info->raw_bytes);
		else
			dec->ops->unpack(exps, entry->data, info->units, info->ebits);
		return 0;
	default:
		return get_streams(dec, entry, exps);
	}
}

/* Header of a sparse block: the mask names planes the type has, values fit them, the rest is zero. */
static int check_sparse(const struct zipc_dtype_info *info, const uint8_t *head)
{
	if (head[0] >> info->nplanes)
		return ZIPC_ERR_RESERVED;
	for (unsigned p = 0; p < ZIPC_MAX_PLANES; p++) {
		unsigned limit = head[0] >> p & 1 ? 1u << info->plane_bits[p] : 1;

		if (head[1 + p] >= limit)
			return ZIPC_ERR_RESERVED;
	}
	for (unsigned i = 1 + ZIPC_MAX_PLANES; i < ZIPC_SPARSE_HEADER; i++)
		if (head[i])
			return ZIPC_ERR_RESERVED;
	return 0;
}

static int get_sparse_block(const struct zipc_decoder *dec, uint64_t b, struct entry *entry)
{
	const struct zipc_dtype_info *info = dec->info;
	const uint8_t *planes[ZIPC_MAX_PLANES] = { NULL }, *head = entry->data;
	uint8_t space[ZIPC_BLOCK];
	struct zipc_parts parts;
	int ret;

	if (entry->bytes < ZIPC_SPARSE_HEADER)
		return ZIPC_ERR_STREAM;
	ret = check_sparse(info, head);
	if (ret)
		return ret;
	entry_skip(entry, ZIPC_SPARSE_HEADER);
	for (unsigned p = 0; p < info->nplanes; p++) {
		uint8_t *own = info->plane_bits[p] == 8 ? space + p * info->plane_bytes[p] : parts.codes;

		planes[p] = own;
		if (head[0] >> p & 1) {
			memset(own, head[1 + p], info->elements);
			continue;
		}
		if (entry->bytes < info->plane_bytes[p])
			return ZIPC_ERR_STREAM;
		if (info->plane_bits[p] == 8)
			planes[p] = entry->data;
		else
			dec->ops->unpack(own, entry->data, info->units, info->plane_bits[p]);
		entry_skip(entry, info->plane_bytes[p]);
	}
	ret = get_exponents(dec, entry, parts.exps);
	if (ret)
		return ret;
	zipc_join(dec, b, parts.exps, planes);
	return 0;
}

int zipc_entropy_decode(const struct zipc_decoder *dec)
{
	for (uint64_t b = 0; b < dec->layout.nblocks; b++) {
		struct zipc_parts parts;
		struct entry entry;
		int ret = get_entry(dec, b, &entry);

		if (ret)
			return ret;
		if (dec->sparse)
			ret = get_sparse_block(dec, b, &entry);
		else
			ret = get_exponents(dec, &entry, parts.exps);
		if (ret)
			return ret;
		if (!dec->sparse)
			zipc_join_dense(dec, b, &parts);
	}
	return 0;
}
