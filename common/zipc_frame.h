/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frame format in numbers: units, element types, positions of a frame's parts. doc/format.md is the text to it.
 */
#ifndef ZIPC_FRAME_H
#define ZIPC_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zipc_codec.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frames are read and written as they lie in memory: little-endian machines only"
#endif

#define ZIPC_VECTOR 16u
#define ZIPC_LANES 32u
#define ZIPC_BLOCK 8192u          /* bytes of input in a block */
#define ZIPC_GROUP 8u             /* blocks that share a table; slices that share a directory group */
#define ZIPC_SLICE 1024u          /* elements of a slice */
#define ZIPC_MAX_ELEMENTS 8192u   /* of a block: one-byte types */
#define ZIPC_MAX_PLANES 3
#define ZIPC_ENTRY_BYTES 8u       /* entropy directory, a block */
#define ZIPC_GROUP_BYTES 40u      /* fixed directory, a group of slices */
#define ZIPC_SPARSE_HEADER 16u    /* before a block's data in a sparse frame */
#define ZIPC_LANE_UNITS 255u      /* longest bit stream of a lane, in units of 4 bits */
#define ZIPC_FLAG_SPARSE 1u
#define ZIPC_FIXED_ESCAPE 7u
#define ZIPC_PAIR_ESCAPE 15u      /* symbol of an element that escapes, before pairing */

enum zipc_mode {
	ZIPC_MODE_NORMAL = 0,
	ZIPC_MODE_ZERO = 1,
	ZIPC_MODE_CONSTANT = 2,
	ZIPC_MODE_RAW = 3
};

/* What the format says about an element type. */
struct zipc_dtype_info {
	uint8_t size;                          /* bytes of an element */
	uint8_t ebits;                         /* bits of an exponent */
	uint8_t units;                         /* 8-element units of a lane in a pair of rows: 1, 2, 4 */
	uint8_t nplanes;
	uint8_t plane_bits[ZIPC_MAX_PLANES];   /* 8: byte plane, 3..5: code plane */
	uint16_t plane_bytes[ZIPC_MAX_PLANES]; /* of a block */
	uint16_t raw_bytes;                    /* raw exponent plane of a block */
	uint16_t elements;                     /* of a block */
};

extern const struct zipc_dtype_info zipc_dtype_infos[ZIPC_DTYPE_COUNT];

/* Largest exponent, as a mask. */
static inline uint8_t zipc_emask(const struct zipc_dtype_info *info)
{
	return (uint8_t)((1u << info->ebits) - 1);
}

/* Where the parts of a frame stand, in bytes from its start. */
struct zipc_layout {
	uint64_t nblocks;
	uint64_t nslices;                /* fixed */
	uint64_t tail_bytes;
	uint64_t plane[ZIPC_MAX_PLANES]; /* dense frames */
	uint64_t codes;                  /* fixed */
	uint64_t tail;
	uint64_t dir;
	uint64_t dir_bytes;              /* rounding to 16 not counted */
	uint64_t var;
};

/* The layout of a coded frame; nbytes is at most ZIPC_MAX_BYTES. */
void zipc_layout_init(struct zipc_layout *layout, enum zipc_dtype dtype, enum zipc_codec codec, int sparse, uint64_t nbytes);

/* Var_off counts 16 bytes in 32 bits: no frame can hold more. */
#define ZIPC_MAX_BYTES (UINT64_C(1) << 35)

/* Write the 64 bytes of header. */
void zipc_header_write(uint8_t *frame, const struct zipc_frame_info *info, uint64_t var_bytes);

static inline uint64_t zipc_round16(uint64_t n)
{
	return (n + 15) & ~UINT64_C(15);
}

static inline uint16_t zipc_load16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t zipc_load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t zipc_load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void zipc_store16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void zipc_store32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void zipc_store64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

#endif
