/* SPDX-License-Identifier: BSD-3-Clause */
/* What the codec's tests share: guarded buffers and loops over implementations. */
#ifndef TEST_CODEC_UTIL_H
#define TEST_CODEC_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "zipc_codec.h"
#include "zipc_error.h"
#include "zipc_frame.h"
#include "zipc_split.h"
#include "zipt_data.h"

#define GUARD 64u
#define GUARD_BYTE 0xa5

/* `size` bytes at `p`, with guard bytes on both sides and at the given offset from a 64-byte boundary. */
struct guarded {
	uint8_t *space, *p;
	size_t size;
};

static inline struct guarded guarded_alloc(size_t size, size_t offset)
{
	size_t total = (size + offset + 2 * GUARD + 63) & ~(size_t)63;
	struct guarded g = { aligned_alloc(64, total), NULL, size };

	assert_non_null(g.space);
	memset(g.space, GUARD_BYTE, total);
	g.p = g.space + GUARD + offset;
	return g;
}

static inline void guarded_check(const struct guarded *g)
{
	for (size_t i = 1; i <= GUARD; i++) {
		assert_int_equal(g->p[-(ptrdiff_t)i], GUARD_BYTE);
		if (g->p + g->size + i <= g->space + ((g->size + 2 * GUARD) & ~(size_t)63))
			assert_int_equal(g->p[g->size + i - 1], GUARD_BYTE);
	}
}

static inline void guarded_free(struct guarded *g)
{
	guarded_check(g);
	free(g->space);
}

static const char *const test_impls[] = { "portable", "avx2" };
#define TEST_IMPLS 2

/* Switch to an implementation; 0 when this build or machine has it not. */
static inline int test_use(int impl)
{
	return zipc_ops_force(test_impls[impl]) == 0;
}

static inline int test_teardown(void **state)
{
	(void)state;
	return zipc_ops_force(NULL);
}

#endif
