/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipg_tables.h"

#include <string.h>

#include "zipc_error.h"
#include "zipc_frame.h"
#include "zipc_tables.h"

#define ENTRIES (1u << ZIPC_TABLE_BITS)

static uint32_t reversed(uint32_t code, unsigned int len)
{
	uint32_t r = 0;

	for (unsigned int i = 0; i < len; i++)
		r |= (code >> i & 1) << (len - 1 - i);
	return r;
}

static void add_code(struct zipg_tables *tables, unsigned int t, unsigned int index, uint32_t code, unsigned int len)
{
	uint32_t entry = (index & 15u) | (index >> 4) << 8 | (uint32_t)len << 28;

	if (index == ZIPC_TABLE_ESCAPE) {
		/* Its symbols are 0, so that the check of symbols says nothing about it. */
		entry = 1u << 16 | (uint32_t)len << 28;
		tables->esc_code[t] = (uint16_t)code;
		tables->esc_len[t] = (uint16_t)len;
	} else {
		tables->enc[t][index] = (uint16_t)(code | len << 12);
	}
	for (uint32_t i = code; i < ENTRIES; i += 1u << len)
		tables->dec[t][i] = entry;
}

void zipg_tables_init(struct zipg_tables *tables)
{
	memset(tables, 0, sizeof(*tables));
	for (unsigned int t = 0; t < ZIPC_TABLES; t++) {
		uint32_t code = 0;

		for (unsigned int i = 0; i < 256; i++)
			tables->enc[t][i] = 0xf000;
		for (unsigned int len = 1; len <= ZIPC_TABLE_BITS; len++, code <<= 1) {
			for (unsigned int i = 0; i < 256; i++) {
				if (zipc_table_lengths[t][i] == len)
					add_code(tables, t, i, reversed(code++, len), len);
			}
		}
		memcpy(tables->cost[t], zipc_table_costs[t], sizeof(tables->cost[t]));
		tables->mean[t] = zipc_table_means[t];
		tables->zero[t] = zipc_table_zero[t];
	}
}

uint32_t zipg_unit_bytes(enum zipg_kernel_kind kind, enum zipc_dtype dtype)
{
	if (kind == ZIPG_KIND_FIXED_ENC || kind == ZIPG_KIND_FIXED_DEC)
		return ZIPC_GROUP * ZIPC_SLICE * zipc_dtype_infos[dtype].size;
	return ZIPC_GROUP * ZIPC_BLOCK;
}

enum zipg_kernel_kind zipg_kind(enum zipc_codec codec, int sparse, int decode)
{
	if (codec == ZIPC_CODEC_FIXED)
		return decode ? ZIPG_KIND_FIXED_DEC : ZIPG_KIND_FIXED_ENC;
	if (codec != ZIPC_CODEC_ENTROPY)
		return ZIPG_KIND_RAW;
	if (sparse)
		return decode ? ZIPG_KIND_SPARSE_DEC : ZIPG_KIND_SPARSE_ENC;
	return decode ? ZIPG_KIND_ENTROPY_DEC : ZIPG_KIND_ENTROPY_ENC;
}

int zipg_item_init(struct zipg_item *item, enum zipg_kernel_kind kind, enum zipc_dtype dtype, uint64_t nbytes, uint64_t frame_bytes)
{
	uint64_t bound = nbytes + ZIPC_FRAME_HEADER, unit = zipg_unit_bytes(kind, dtype), coded;
	int fixed = kind == ZIPG_KIND_FIXED_ENC || kind == ZIPG_KIND_FIXED_DEC;
	struct zipc_layout layout;

	item->nbytes = nbytes;
	item->nblocks = (uint32_t)(nbytes / ZIPG_BLOCK);
	if (kind == ZIPG_KIND_RAW) {
		item->units = nbytes ? (uint32_t)((nbytes + unit - 1) / unit) : 1;
		item->pos_var = bound;
		item->var_bytes = 0;
		return !frame_bytes || frame_bytes == bound ? 0 : ZIPC_ERR_SIZE;
	}
	zipc_layout_init(&layout, dtype, fixed ? ZIPC_CODEC_FIXED : ZIPC_CODEC_ENTROPY,
			 kind == ZIPG_KIND_SPARSE_ENC || kind == ZIPG_KIND_SPARSE_DEC, nbytes);
	memcpy(item->pos_plane, layout.plane, sizeof(item->pos_plane));
	item->pos_codes = layout.codes;
	item->pos_tail = layout.tail;
	item->pos_dir = layout.dir;
	item->pos_var = layout.var;
	coded = (uint64_t)item->nblocks * ZIPG_BLOCK;
	item->units = coded ? (uint32_t)((coded + unit - 1) / unit) : 1;
	if (!frame_bytes) {
		item->var_bytes = bound > layout.var ? bound - layout.var : 0;
		return 0;
	}
	if (frame_bytes < layout.var || frame_bytes > bound || (frame_bytes - layout.var) % ZIPC_VECTOR)
		return ZIPC_ERR_SIZE;
	item->var_bytes = frame_bytes - layout.var;
	return 0;
}
