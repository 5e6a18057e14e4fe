/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipg_tables.h"

#include <stdio.h>
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
	uint32_t entry = len | (index & 15u) << 8 | (index >> 4) << 16;

	if (index == ZIPC_TABLE_ESCAPE) {
		entry = len | 1u << 31;
		tables->esc[t] = len | code << 8;
	} else {
		tables->enc[t][index] = len | code << 8;
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
			tables->enc[t][i] = 1u << 31;
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

enum zipg_kernel_kind zipg_kind_share(enum zipg_kernel_kind kind)
{
	switch (kind) {
	case ZIPG_KIND_FIXED_ENC:
		return ZIPG_KIND_FIXED_SHARE;
	case ZIPG_KIND_ENTROPY_ENC:
		return ZIPG_KIND_ENTROPY_SHARE;
	case ZIPG_KIND_SPARSE_ENC:
		return ZIPG_KIND_SPARSE_SHARE;
	default:
		return kind;
	}
}

size_t zipg_kernel_shared(enum zipg_kernel_kind kind, enum zipc_dtype dtype)
{
	switch (kind) {
	case ZIPG_KIND_FIXED_ENC:
	case ZIPG_KIND_FIXED_DEC:
	case ZIPG_KIND_FIXED_SHARE:
		return ZIPG_FIXED_WORDS * 4;
	case ZIPG_KIND_ENTROPY_DEC:
	case ZIPG_KIND_SPARSE_DEC:
		return ZIPG_DEC_WORDS(zipg_stage_words(zipc_dtype_infos[dtype].size)) * 4;
	case ZIPG_KIND_RAW:
	case ZIPG_KIND_SAMPLE:
	case ZIPG_KIND_COMPARE:
		return 0;
	default:
		return ZIPG_ENC_WORDS(zipg_column_words(zipc_dtype_infos[dtype].size)) * 4;
	}
}

const char *zipg_kernel_name(enum zipg_kernel_kind kind, enum zipc_dtype dtype, char name[64])
{
	static const char *const kinds[ZIPG_KIND_COUNT] = {
		[ZIPG_KIND_FIXED_ENC] = "fixed_enc", [ZIPG_KIND_FIXED_DEC] = "fixed_dec",
		[ZIPG_KIND_ENTROPY_ENC] = "entropy_enc", [ZIPG_KIND_ENTROPY_DEC] = "entropy_dec",
		[ZIPG_KIND_SPARSE_ENC] = "sparse_enc", [ZIPG_KIND_SPARSE_DEC] = "sparse_dec",
		[ZIPG_KIND_FIXED_SHARE] = "fixed_enc_share", [ZIPG_KIND_ENTROPY_SHARE] = "entropy_enc_share",
		[ZIPG_KIND_SPARSE_SHARE] = "sparse_enc_share",
		[ZIPG_KIND_RAW] = "raw", [ZIPG_KIND_SAMPLE] = "sample",
		[ZIPG_KIND_COMPARE] = "compare",
	};

	if ((dtype == ZIPC_DTYPE_RAW) != (kind >= ZIPG_KIND_RAW))
		return NULL;
	snprintf(name, 64, "zipg_%s_%s", kinds[kind], zipc_dtype_name(dtype));
	return name;
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
