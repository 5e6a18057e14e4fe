/* SPDX-License-Identifier: BSD-3-Clause */
/* Small things that the demo and the tools share. */
#ifndef ZIPT_UTIL_H
#define ZIPT_UTIL_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a decimal number with an optional K, M or G (binary); 0 when `text` is none, or too large. */
size_t zipt_parse_size(const char *text);

/* Median of `count` values, which it sorts; 0 for none. */
double zipt_median(double *values, unsigned count);

/* A monotonic clock, nanoseconds. */
uint64_t zipt_now_ns(void);

#endif
