/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipc_codec.h"

#include "zipc_codec_priv.h"
#include "zipc_error.h"

/* From here on buffers are written past the caches: half as much memory traffic, and nothing else is driven out of them. */
#define STREAMING_BYTES (UINT64_C(16) << 20)

static const char *const dtype_names[ZIPC_DTYPE_COUNT] = { "raw", "bf16", "fp16", "fp32", "e4m3", "e5m2" };
static const char *const codec_names[ZIPC_CODEC_COUNT] = { "raw", "fixed", "entropy" };

const char *zipc_dtype_name(enum zipc_dtype dtype)
{
	return (unsigned)dtype < ZIPC_DTYPE_COUNT ? dtype_names[dtype] : "unknown";
}

const char *zipc_codec_name(enum zipc_codec codec)
{
	return (unsigned)codec < ZIPC_CODEC_COUNT ? codec_names[codec] : "unknown";
}

static int parse_name(const char *name, const char *const *names, int n)
{
	for (int i = 0; name && i < n; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -1;
}

int zipc_dtype_parse(const char *name)
{
	return parse_name(name, dtype_names, ZIPC_DTYPE_COUNT);
}

int zipc_codec_parse(const char *name)
{
	return parse_name(name, codec_names, ZIPC_CODEC_COUNT);
}

size_t zipc_frame_bound(size_t nbytes)
{
	return nbytes + ZIPC_FRAME_HEADER;
}

void zipc_split_dense(const struct zipc_encoder *enc, uint64_t b, struct zipc_parts *parts)
{
	const struct zipc_dtype_info *info = enc->info;
	uint8_t *planes[ZIPC_MAX_PLANES] = { NULL }, *places[ZIPC_MAX_PLANES], space[ZIPC_BLOCK], words[ZIPC_BLOCK / 2];

	for (unsigned p = 0; p < info->nplanes; p++) {
		places[p] = enc->frame + enc->layout.plane[p] + b * info->plane_bytes[p];
		planes[p] = enc->streaming ? space + p * info->plane_bytes[p] : places[p];
		if (info->plane_bits[p] < 8)
			planes[p] = parts->codes;
	}
	enc->ops->split[enc->dtype](enc->src + b * ZIPC_BLOCK, parts->exps, planes);
	for (unsigned p = 0; p < info->nplanes; p++) {
		const uint8_t *from = planes[p];

		if (info->plane_bits[p] < 8) {
			from = enc->streaming ? words : places[p];
			enc->ops->pack(enc->streaming ? words : places[p], planes[p], info->units, info->plane_bits[p]);
		}
		if (enc->streaming)
			enc->ops->stream_copy(places[p], from, info->plane_bytes[p]);
	}
}

void zipc_join(const struct zipc_decoder *dec, uint64_t b, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES])
{
	uint8_t *dst = dec->dst + b * ZIPC_BLOCK, space[ZIPC_BLOCK];

	dec->ops->join[dec->dtype](dec->streaming ? space : dst, exps, planes);
	if (dec->streaming)
		dec->ops->stream_copy(dst, space, ZIPC_BLOCK);
}

void zipc_join_dense(const struct zipc_decoder *dec, uint64_t b, struct zipc_parts *parts)
{
	const struct zipc_dtype_info *info = dec->info;
	const uint8_t *planes[ZIPC_MAX_PLANES] = { NULL };

	for (unsigned p = 0; p < info->nplanes; p++) {
		planes[p] = dec->frame + dec->layout.plane[p] + b * info->plane_bytes[p];
		if (info->plane_bits[p] < 8) {
			dec->ops->unpack(parts->codes, planes[p], info->units, info->plane_bits[p]);
			planes[p] = parts->codes;
		}
	}
	zipc_join(dec, b, parts->exps, planes);
}

int zipc_symbols_valid(const struct zipc_dtype_info *info, enum zipc_mode mode, uint8_t base, const uint8_t *syms, size_t n)
{
	unsigned room = 255u - base + (mode == ZIPC_MODE_ZERO), largest = 0;

	if (info->ebits < 8 || room >= ZIPC_PAIR_ESCAPE - 1)
		return 1;
	for (size_t i = 0; i < n; i++)
		largest = syms[i] > largest ? syms[i] : largest;
	return largest <= room;
}

static size_t encode_raw(uint8_t *dst, const uint8_t *src, size_t nbytes)
{
	struct zipc_frame_info info = {
		.dtype = ZIPC_DTYPE_RAW, .codec = ZIPC_CODEC_RAW, .nbytes = nbytes,
		.frame_bytes = ZIPC_FRAME_HEADER + (uint64_t)nbytes,
	};

	zipc_header_write(dst, &info, 0);
	if (nbytes)
		memcpy(dst + ZIPC_FRAME_HEADER, src, nbytes);
	return (size_t)info.frame_bytes;
}

/* Zeros between the end of one part and the start of the next. */
static void clear_gap(uint8_t *frame, uint64_t from, uint64_t to)
{
	memset(frame + from, 0, (size_t)(to - from));
}

/* Random bits would be found out too, but only after half the frame has been written for nothing. */
static int hopeless(const uint8_t *src, uint64_t nblocks, enum zipc_dtype dtype, enum zipc_codec codec)
{
	struct zipc_sample sample;

	zipc_predict(src, nblocks, dtype, &sample);
	return (codec == ZIPC_CODEC_FIXED ? sample.ratio_fixed : sample.ratio_entropy) > 1;
}

/* Encode all of it; ZIPC_ERR_SPACE when that takes more than a raw frame. */
static int encode_coded(uint8_t *dst, const uint8_t *src, size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec,
			int sparse, size_t *frame_bytes)
{
	struct zipc_encoder enc = {
		.ops = zipc_ops_get(), .info = &zipc_dtype_infos[dtype], .dtype = dtype, .sparse = sparse,
		.src = src, .frame = dst, .streaming = nbytes >= STREAMING_BYTES,
	};
	struct zipc_layout *l = &enc.layout;
	struct zipc_frame_info info = { .dtype = dtype, .codec = codec, .sparse = sparse, .nbytes = nbytes };
	int ret;

	zipc_layout_init(l, dtype, codec, sparse, nbytes);
	if (l->var > zipc_frame_bound(nbytes))
		return ZIPC_ERR_SPACE;
	enc.var_limit = zipc_frame_bound(nbytes) - l->var;
	ret = codec == ZIPC_CODEC_FIXED ? zipc_fixed_encode(&enc) : zipc_entropy_encode(&enc);
	enc.ops->stream_end();
	if (ret)
		return ret;
	memcpy(dst + l->tail, src + nbytes - l->tail_bytes, (size_t)l->tail_bytes);
	clear_gap(dst, l->tail + l->tail_bytes, l->dir);
	clear_gap(dst, l->dir + l->dir_bytes, l->var);
	info.frame_bytes = l->var + enc.var_used;
	zipc_header_write(dst, &info, enc.var_used);
	*frame_bytes = (size_t)info.frame_bytes;
	return 0;
}

int zipc_encode(void *dst, size_t dst_size, const void *src, size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec,
		size_t *frame_bytes)
{
	uint64_t nblocks = nbytes / ZIPC_BLOCK;
	int sparse;

	if (!dst || (!src && nbytes) || !frame_bytes || (unsigned)dtype >= ZIPC_DTYPE_COUNT ||
	    (unsigned)codec >= ZIPC_CODEC_COUNT || nbytes > SIZE_MAX - ZIPC_FRAME_HEADER)
		return ZIPC_ERR_INVAL;
	if (dst_size < zipc_frame_bound(nbytes))
		return ZIPC_ERR_SPACE;
	if (dtype != ZIPC_DTYPE_RAW && codec != ZIPC_CODEC_RAW && nblocks && nbytes <= ZIPC_MAX_BYTES) {
		sparse = zipc_choose_sparse(src, nblocks, dtype, codec == ZIPC_CODEC_FIXED ? ZIPC_SPARSE_SHARE : 0);
		if (sparse)
			codec = ZIPC_CODEC_ENTROPY;
		if (!hopeless(src, nblocks, dtype, codec) &&
		    !encode_coded(dst, src, nbytes, dtype, codec, sparse, frame_bytes))
			return 0;
	}
	*frame_bytes = encode_raw(dst, src, nbytes);
	return 0;
}

static int decode_coded(uint8_t *dst, const uint8_t *frame, const struct zipc_frame_info *info)
{
	struct zipc_decoder dec = {
		.ops = zipc_ops_get(), .info = &zipc_dtype_infos[info->dtype], .dtype = info->dtype, .sparse = info->sparse,
		.dst = dst, .frame = frame, .streaming = info->nbytes >= STREAMING_BYTES,
	};
	const struct zipc_layout *l = &dec.layout;
	int ret;

	zipc_layout_init(&dec.layout, info->dtype, info->codec, info->sparse, info->nbytes);
	dec.var_bytes = info->frame_bytes - l->var;
	ret = info->codec == ZIPC_CODEC_FIXED ? zipc_fixed_decode(&dec) : zipc_entropy_decode(&dec);
	dec.ops->stream_end();
	if (ret)
		return ret;
	memcpy(dst + l->nblocks * ZIPC_BLOCK, frame + l->tail, (size_t)l->tail_bytes);
	return 0;
}

int zipc_decode(void *dst, size_t nbytes, const void *frame, size_t size)
{
	struct zipc_frame_info info;
	int ret;

	if (!frame || (!dst && nbytes))
		return ZIPC_ERR_INVAL;
	ret = zipc_frame_parse(frame, size, &info);
	if (ret)
		return ret;
	if (info.nbytes != nbytes || info.frame_bytes != size)
		return ZIPC_ERR_SIZE;
	if (!nbytes)
		return 0;
	if (info.codec == ZIPC_CODEC_RAW) {
		memcpy(dst, (const uint8_t *)frame + ZIPC_FRAME_HEADER, nbytes);
		return 0;
	}
	return decode_coded(dst, frame, &info);
}
