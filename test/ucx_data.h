/* SPDX-License-Identifier: BSD-3-Clause */
/* Data for the tests of the UCX transport: many large messages, made fast. Types and distributions take turns, some incompressible. */
#ifndef UCX_DATA_H
#define UCX_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same seed and length give the same bytes in every process; other seeds give others. */
void ucx_fill(void *dst, size_t len, uint64_t seed);
bool ucx_filled(const void *got, size_t len, uint64_t seed);

#endif
