/* SPDX-License-Identifier: BSD-3-Clause */
/* Bits of code planes eight bytes at a time, for zipc_split*.c only. */
#ifndef ZIPC_SPLIT_SWAR_H
#define ZIPC_SPLIT_SWAR_H

#include "zipc_split.h"

#define ZIPC_BYTES(x) (UINT64_C(0x0101010101010101) * (x))

/* Number in the block of unit n of a lane's sequence. */
static inline size_t zipc_unit_at(unsigned n, unsigned lane, unsigned units)
{
	return (size_t)(n / units * ZIPC_LANES + lane) * units + n % units;
}

/* Low nibble of byte i to nibble i; and back. The high nibbles of x are zero. */
static inline uint32_t zipc_nibbles(uint64_t x)
{
	x = (x | x >> 4) & UINT64_C(0x00ff00ff00ff00ff);
	x = (x | x >> 8) & UINT64_C(0x0000ffff0000ffff);
	return (uint32_t)(x | x >> 16);
}

static inline uint64_t zipc_nibble_bytes(uint32_t w)
{
	uint64_t x = w;

	x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
	x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
	return (x | x << 4) & ZIPC_BYTES(0x0f);
}

/* The codes c[k], one a byte, to the words of one lane and pack, which stand 32 words apart. */
static inline void zipc_pack_word(uint8_t *w, const uint64_t c[4], unsigned bits)
{
	uint64_t fifth = 0;

	if (bits == 3) {
		for (unsigned k = 0; k < 3; k++)
			zipc_store32(w + k * 128, zipc_nibbles(c[k] | (c[3] >> k & ZIPC_BYTES(1)) << 3));
		return;
	}
	for (unsigned k = 0; k < 4; k++) {
		zipc_store32(w + k * 128, zipc_nibbles(c[k] & ZIPC_BYTES(0x0f)));
		fifth |= (c[k] >> 4 & ZIPC_BYTES(1)) << k;
	}
	if (bits == 5)
		zipc_store32(w + 4 * 128, zipc_nibbles(fifth));
}

static inline void zipc_unpack_word(uint64_t c[4], const uint8_t *w, unsigned bits)
{
	unsigned words = bits == 3 ? 3 : 4;
	uint64_t fifth = bits == 5 ? zipc_nibble_bytes(zipc_load32(w + 4 * 128)) : 0;

	for (unsigned k = 0; k < words; k++)
		c[k] = zipc_nibble_bytes(zipc_load32(w + k * 128)) | (fifth >> k & ZIPC_BYTES(1)) << 4;
	if (bits == 3) {
		c[3] = 0;
		for (unsigned k = 0; k < 3; k++) {
			c[3] |= (c[k] >> 3 & ZIPC_BYTES(1)) << k;
			c[k] &= ZIPC_BYTES(7);
		}
	}
}

#endif
