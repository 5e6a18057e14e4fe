/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the encoder decides, from a few samples of each block: table, modes, bases. Nothing here touches the format;
 * a wrong guess costs bytes, never correctness.
 */
#ifndef ZIPC_CODEC_CHOOSE_H
#define ZIPC_CODEC_CHOOSE_H

#include "zipc_frame.h"

#define ZIPC_WINDOW 32         /* exponents around the mean that are told apart */
#define ZIPC_WINDOW_MIDDLE 16
/* A frame of the fixed codec becomes a sparse entropy frame when constant planes are more than this share of the input. */
#define ZIPC_SPARSE_SHARE 0.0625f

/* Samples of one block: 64 elements. */
struct zipc_look {
	int16_t window[ZIPC_WINDOW]; /* nonzero exponents first .. first + 31 */
	int16_t first;
	int16_t zeros;               /* samples with exponent 0 */
	int16_t count;               /* all samples */
	float mean;                  /* of the exponents in the middle of the nonzero ones */
	int8_t same;                 /* all samples have one exponent */
	uint8_t constant_planes;     /* bit p: plane p was the same in all samples */
};

void zipc_look_block(struct zipc_look *look, const uint8_t *block, enum zipc_dtype dtype);

/* Look at the blocks of the group that starts at block g, and ask for the memory that the next group will need. */
void zipc_look_group(struct zipc_look looks[ZIPC_GROUP], const uint8_t *src, uint64_t g, uint64_t nblocks,
		     enum zipc_dtype dtype);

struct zipc_base {
	uint8_t mode; /* enum zipc_mode; constant is left to who sees the whole block */
	uint8_t base;
	int8_t rival; /* fixed only: -1 or 1 when by the samples the base next to this one may be as good, else 0 */
};

/*
 * Choose a table for the blocks of a group and mode and base for each of them.
 * Returns the predicted cost in bits * 16 of all samples; blocks of one exponent count nothing.
 */
uint32_t zipc_choose_entropy(const struct zipc_look *looks, unsigned n, const struct zipc_dtype_info *info,
			     unsigned *table, struct zipc_base *bases);

/* Choose mode and base of n blocks for the fixed codec. Returns how many of all samples escape. */
unsigned zipc_choose_fixed(const struct zipc_look *looks, unsigned n, const struct zipc_dtype_info *info,
			   struct zipc_base *bases);

/* Bytes of planes of a block that are constant, by a mask of planes. */
unsigned zipc_constant_bytes(const struct zipc_dtype_info *info, unsigned mask);

/* What zipc_sample says of a buffer of nblocks > 0 blocks for one type, without a tail and never RAW. */
void zipc_predict(const uint8_t *src, uint64_t nblocks, enum zipc_dtype dtype, struct zipc_sample *sample);

/* Would a sparse frame save more than `share` of the input? Looks at up to 64 blocks. */
int zipc_choose_sparse(const uint8_t *src, uint64_t nblocks, enum zipc_dtype dtype, float share);

#endif
