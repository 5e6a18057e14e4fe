/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test data: what tensors look like, and what they never should. The same (dist, dtype, sigma, seed, nbytes) gives the same bytes
 * on every machine: only exactly rounded operations are used (build with FP contraction off), no libm.
 */
#ifndef ZIPT_DATA_H
#define ZIPT_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "zipc_codec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, name users write, what it is) */
#define ZIPT_DISTS(X)                                                                      \
	X(GAUSS, "gauss", "N(0, sigma)")                                                   \
	X(UNIFORM, "uniform", "uniform in [-1, 1] times sigma / 0.02")                     \
	X(LAPLACE, "laplace", "Laplace of deviation sigma")                                \
	X(MIXTURE, "mixture", "N(0, s), log s itself normal every 512 elements")           \
	X(STEPS, "steps", "N(0, s), s changes every 32 Ki elements")                       \
	X(UPCAST, "upcast", "N(0, sigma) with the low half of every element zero; fp32: upcast from bf16") \
	X(HALF_ZEROS, "half_zeros", "each element zero or N(0, sigma), evenly")            \
	X(PADDING, "padding", "tensors of N(0, sigma) with runs of zero bytes between")    \
	X(ZEROS, "zeros", "all bytes zero")                                                \
	X(CONSTANT, "constant", "one value")                                               \
	X(ALTERNATING, "alternating", "two values in turn")                                \
	X(NAN, "nan", "only NaN, with payloads, quiet and signalling")                     \
	X(SPECIALS, "specials", "zeros, infinities, NaN, denormals and extremes of both signs") \
	X(DENORMAL, "denormal", "only denormals")                                          \
	X(RANDOM, "random", "random bits")                                                 \
	X(INTEGERS, "integers", "32-bit integers below 1000")                              \
	X(MIXED, "mixed", "stretches of different types and distributions, unaligned")

enum zipt_dist {
#define ZIPT_DIST_ENUM(id, name, text) ZIPT_DIST_##id,
	ZIPT_DISTS(ZIPT_DIST_ENUM)
#undef ZIPT_DIST_ENUM
	ZIPT_DIST_COUNT
};

/* Name and description; NULL for an unknown distribution. zipt_dist_parse returns -1 for an unknown name. */
const char *zipt_dist_name(enum zipt_dist dist);
const char *zipt_dist_text(enum zipt_dist dist);
int zipt_dist_parse(const char *name);

/*
 * Fill `nbytes` at `dst` (any alignment) with elements of `dtype` (RAW counts as bytes of bf16).
 * Bytes after the last whole element are random. `sigma` is used by the distributions that name it.
 */
void zipt_fill(void *dst, size_t nbytes, enum zipc_dtype dtype, enum zipt_dist dist, double sigma, uint64_t seed);

/* Bytes of an element of dtype, 1 for RAW. */
size_t zipt_dtype_size(enum zipc_dtype dtype);

/* One float rounded to nearest even as bits of dtype; too large values become the largest finite one. */
uint32_t zipt_round(float value, enum zipc_dtype dtype);

/* A stream of 64-bit random numbers: each call advances *state, any seed will do. */
uint64_t zipt_random(uint64_t *state);

#ifdef __cplusplus
}
#endif
#endif
