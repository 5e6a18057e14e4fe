/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipc_frame.h"

#include "zipc_error.h"

#define ZIPC_VERSION 1

static const uint8_t magic[4] = { 'Z', 'P', 'F', '1' };

const struct zipc_dtype_info zipc_dtype_infos[ZIPC_DTYPE_COUNT] = {
	[ZIPC_DTYPE_BF16] = { 2, 8, 2, 1, { 8, 0, 0 }, { 4096, 0, 0 }, 4096, 4096 },
	[ZIPC_DTYPE_FP16] = { 2, 5, 2, 2, { 8, 3, 0 }, { 4096, 1536, 0 }, 2560, 4096 },
	[ZIPC_DTYPE_FP32] = { 4, 8, 1, 3, { 8, 8, 8 }, { 2048, 2048, 2048 }, 2048, 2048 },
	[ZIPC_DTYPE_E4M3] = { 1, 4, 4, 1, { 4, 0, 0 }, { 4096, 0, 0 }, 4096, 8192 },
	[ZIPC_DTYPE_E5M2] = { 1, 5, 4, 1, { 3, 0, 0 }, { 3072, 0, 0 }, 5120, 8192 },
};

static uint64_t entropy_dir_bytes(const struct zipc_layout *l)
{
	return l->nblocks * ZIPC_ENTRY_BYTES;
}

static uint64_t fixed_dir_bytes(const struct zipc_layout *l)
{
	return (l->nslices + ZIPC_GROUP - 1) / ZIPC_GROUP * ZIPC_GROUP_BYTES;
}

void zipc_layout_init(struct zipc_layout *l, enum zipc_dtype dtype, enum zipc_codec codec, int sparse, uint64_t nbytes)
{
	const struct zipc_dtype_info *info = &zipc_dtype_infos[dtype];
	uint64_t at = ZIPC_FRAME_HEADER;

	memset(l, 0, sizeof(*l));
	l->nblocks = nbytes / ZIPC_BLOCK;
	l->nslices = l->nblocks * (info->elements / ZIPC_SLICE);
	l->tail_bytes = nbytes % ZIPC_BLOCK;
	for (int p = 0; p < info->nplanes && !sparse; p++) {
		l->plane[p] = at;
		at += l->nblocks * info->plane_bytes[p];
	}
	if (codec == ZIPC_CODEC_FIXED) {
		l->codes = at;
		at += l->nslices * (ZIPC_SLICE * 3 / 8);
	}
	l->tail = at;
	l->dir = zipc_round16(at + l->tail_bytes);
	l->dir_bytes = codec == ZIPC_CODEC_FIXED ? fixed_dir_bytes(l) : entropy_dir_bytes(l);
	l->var = zipc_round16(l->dir + l->dir_bytes);
}

void zipc_header_write(uint8_t *frame, const struct zipc_frame_info *info, uint64_t var_bytes)
{
	memset(frame, 0, ZIPC_FRAME_HEADER);
	memcpy(frame, magic, sizeof(magic));
	frame[4] = ZIPC_VERSION;
	frame[5] = (uint8_t)info->dtype;
	frame[6] = (uint8_t)info->codec;
	frame[7] = info->sparse ? ZIPC_FLAG_SPARSE : 0;
	zipc_store64(frame + 8, info->nbytes);
	zipc_store64(frame + 16, info->frame_bytes);
	zipc_store64(frame + 24, var_bytes);
}

static int check_ids(const uint8_t *frame)
{
	unsigned dtype = frame[5], codec = frame[6], flags = frame[7];

	if (codec >= ZIPC_CODEC_COUNT)
		return ZIPC_ERR_CODEC;
	if (dtype >= ZIPC_DTYPE_COUNT || (dtype == ZIPC_DTYPE_RAW) != (codec == ZIPC_CODEC_RAW))
		return ZIPC_ERR_DTYPE;
	if (flags & ~ZIPC_FLAG_SPARSE || (flags && codec != ZIPC_CODEC_ENTROPY))
		return ZIPC_ERR_FLAGS;
	for (unsigned i = 32; i < ZIPC_FRAME_HEADER; i++)
		if (frame[i])
			return ZIPC_ERR_RESERVED;
	return 0;
}

static int check_sizes(const uint8_t *frame, const struct zipc_frame_info *info)
{
	uint64_t var_bytes = zipc_load64(frame + 24), var = ZIPC_FRAME_HEADER + info->nbytes;
	struct zipc_layout layout;

	if (info->codec == ZIPC_CODEC_RAW)
		return var_bytes || var < info->nbytes || info->frame_bytes != var ? ZIPC_ERR_SIZE : 0;
	if (info->nbytes > ZIPC_MAX_BYTES)
		return ZIPC_ERR_SIZE;
	zipc_layout_init(&layout, info->dtype, info->codec, info->sparse, info->nbytes);
	if (info->frame_bytes > zipc_frame_bound(info->nbytes) || info->frame_bytes < layout.var ||
	    info->frame_bytes - layout.var != var_bytes || var_bytes % 16)
		return ZIPC_ERR_SIZE;
	return 0;
}

int zipc_frame_parse(const void *frame, size_t size, struct zipc_frame_info *info)
{
	const uint8_t *p = frame;
	struct zipc_frame_info found;
	int ret;

	if (!frame || !info)
		return ZIPC_ERR_INVAL;
	if (size < ZIPC_FRAME_HEADER)
		return ZIPC_ERR_SIZE;
	if (memcmp(p, magic, sizeof(magic)))
		return ZIPC_ERR_MAGIC;
	if (p[4] != ZIPC_VERSION)
		return ZIPC_ERR_VERSION;
	ret = check_ids(p);
	if (ret)
		return ret;
	found.dtype = (enum zipc_dtype)p[5];
	found.codec = (enum zipc_codec)p[6];
	found.sparse = p[7] & ZIPC_FLAG_SPARSE;
	found.nbytes = zipc_load64(p + 8);
	found.frame_bytes = zipc_load64(p + 16);
	ret = check_sizes(p, &found);
	if (ret)
		return ret;
	*info = found;
	return 0;
}
