/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_data.h"

#include <stdlib.h>
#include <string.h>

#include "zipt_data.h"

#define TABLE ((size_t)1 << 20)
#define STEP 8208u /* a multiple of all elements' sizes */

static const struct {
	enum zipc_dtype dtype;
	enum zipt_dist dist;
} kinds[] = {
	{ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS}, {ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS},  {ZIPC_DTYPE_FP16, ZIPT_DIST_GAUSS},
	{ZIPC_DTYPE_FP32, ZIPT_DIST_UPCAST}, {ZIPC_DTYPE_RAW, ZIPT_DIST_RANDOM}, {ZIPC_DTYPE_BF16, ZIPT_DIST_MIXED},
	{ZIPC_DTYPE_BF16, ZIPT_DIST_ZEROS},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Where a seed starts in the table of its kind. */
static const uint8_t *start(uint64_t seed, size_t *offset)
{
	static uint8_t *tables[KINDS];
	size_t kind = seed % KINDS;

	if (!tables[kind]) {
		tables[kind] = malloc(TABLE);
		if (!tables[kind])
			abort();
		zipt_fill(tables[kind], TABLE, kinds[kind].dtype, kinds[kind].dist, 0.02, 1 + kind);
	}
	*offset = seed / KINDS * STEP % TABLE;
	return tables[kind];
}

/* Bytes up to the end of the table. */
static size_t piece(size_t offset, size_t left)
{
	return left < TABLE - offset ? left : TABLE - offset;
}

void ucx_fill(void *dst, size_t len, uint64_t seed)
{
	size_t offset, at, n;
	const uint8_t *table = start(seed, &offset);

	for (at = 0; at < len; at += n, offset = 0) {
		n = piece(offset, len - at);
		memcpy((uint8_t *)dst + at, table + offset, n);
	}
}

bool ucx_filled(const void *got, size_t len, uint64_t seed)
{
	size_t offset, at, n;
	const uint8_t *table = start(seed, &offset);

	for (at = 0; at < len; at += n, offset = 0) {
		n = piece(offset, len - at);
		if (memcmp((const uint8_t *)got + at, table + offset, n))
			return false;
	}
	return true;
}
