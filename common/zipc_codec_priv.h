/* SPDX-License-Identifier: BSD-3-Clause */
/* One encode or decode under way, shared by the files of the codec only. */
#ifndef ZIPC_CODEC_PRIV_H
#define ZIPC_CODEC_PRIV_H

#include "zipc_codec_choose.h"
#include "zipc_frame.h"
#include "zipc_split.h"

struct zipc_encoder {
	const struct zipc_ops *ops;
	const struct zipc_dtype_info *info;
	enum zipc_dtype dtype;
	int sparse;
	int streaming;      /* write planes past the caches */
	const uint8_t *src;
	uint8_t *frame;
	struct zipc_layout layout;
	uint64_t var_used;  /* bytes of the variable part so far, a multiple of 16 */
	uint64_t var_limit; /* more than this makes the frame raw */
};

struct zipc_decoder {
	const struct zipc_ops *ops;
	const struct zipc_dtype_info *info;
	enum zipc_dtype dtype;
	int sparse;
	int streaming;      /* write dst past the caches */
	uint8_t *dst;
	const uint8_t *frame;
	struct zipc_layout layout;
	uint64_t var_bytes;
};

/* A block taken apart, as bytes in plane order. */
struct zipc_parts {
	uint8_t exps[ZIPC_MAX_ELEMENTS];
	uint8_t codes[ZIPC_MAX_ELEMENTS]; /* the type's code plane, one code a byte; no type has two */
};

/* Encode all blocks. Return 0, or ZIPC_ERR_SPACE when the frame would outgrow its bound. */
int zipc_fixed_encode(struct zipc_encoder *enc);
int zipc_entropy_encode(struct zipc_encoder *enc);

/* Decode all blocks. Return 0 or ZIPC_ERR_*. */
int zipc_fixed_decode(const struct zipc_decoder *dec);
int zipc_entropy_decode(const struct zipc_decoder *dec);

/* Split block `b` with its planes going to their places in a dense frame. */
void zipc_split_dense(const struct zipc_encoder *enc, uint64_t b, struct zipc_parts *parts);

/* Put block `b` together from exponents and planes, bytes in plane order. */
void zipc_join(const struct zipc_decoder *dec, uint64_t b, const uint8_t *exps, const uint8_t *const planes[ZIPC_MAX_PLANES]);

/* Put block `b` together from parts->exps and the planes in the dense frame. */
void zipc_join_dense(const struct zipc_decoder *dec, uint64_t b, struct zipc_parts *parts);

/* Is `base` right for the mode, and, for 8-bit exponents, do all n symbols in syms stay below 256? */
int zipc_symbols_valid(const struct zipc_dtype_info *info, enum zipc_mode mode, uint8_t base, const uint8_t *syms, size_t n);

#endif
