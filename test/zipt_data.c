/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipt_data.h"

#include <string.h>

struct float_format {
	int ebits, mbits;
	uint32_t max;   /* largest finite value, sign bit clear */
	uint32_t inf;   /* first exponent-only code at the top; e4m3 has no infinity, only NaN at 7f */
};

static const struct float_format formats[ZIPC_DTYPE_COUNT] = {
	[ZIPC_DTYPE_RAW] = { 8, 7, 0x7f7f, 0x7f80 },
	[ZIPC_DTYPE_BF16] = { 8, 7, 0x7f7f, 0x7f80 },
	[ZIPC_DTYPE_FP16] = { 5, 10, 0x7bff, 0x7c00 },
	[ZIPC_DTYPE_FP32] = { 8, 23, 0x7f7fffff, 0x7f800000 },
	[ZIPC_DTYPE_E4M3] = { 4, 3, 0x7e, 0x7f },
	[ZIPC_DTYPE_E5M2] = { 5, 2, 0x7b, 0x7c },
};

static const char *const dist_names[ZIPT_DIST_COUNT] = {
#define ZIPT_DIST_NAME(id, name, text) [ZIPT_DIST_##id] = name,
	ZIPT_DISTS(ZIPT_DIST_NAME)
};

static const char *const dist_texts[ZIPT_DIST_COUNT] = {
#define ZIPT_DIST_TEXT(id, name, text) [ZIPT_DIST_##id] = text,
	ZIPT_DISTS(ZIPT_DIST_TEXT)
};

const char *zipt_dist_name(enum zipt_dist dist)
{
	return (unsigned)dist < ZIPT_DIST_COUNT ? dist_names[dist] : NULL;
}

const char *zipt_dist_text(enum zipt_dist dist)
{
	return (unsigned)dist < ZIPT_DIST_COUNT ? dist_texts[dist] : NULL;
}

int zipt_dist_parse(const char *name)
{
	for (int i = 0; i < ZIPT_DIST_COUNT; i++)
		if (!strcmp(name, dist_names[i]))
			return i;
	return -1;
}

size_t zipt_dtype_size(enum zipc_dtype dtype)
{
	if (dtype == ZIPC_DTYPE_RAW)
		return 1;
	return (size_t)(1 + formats[dtype].ebits + formats[dtype].mbits) / 8;
}

uint64_t zipt_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

static double random_unit(uint64_t *state)
{
	return (double)(zipt_random(state) >> 11) * 0x1p-53;
}

/* Square root by Newton's method and logarithm by the series of atanh: the same bits everywhere, good to 1e-9. */
static double root(double x)
{
	double y = x > 1 ? x : 1;

	for (int i = 0; i < 60; i++) {
		double next = 0.5 * (y + x / y);

		if (next >= y)
			break;
		y = next;
	}
	return y;
}

static double logarithm(double x)
{
	uint64_t bits;
	double m, z, z2, sum = 0;
	int e;

	memcpy(&bits, &x, sizeof(bits));
	e = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
	memcpy(&m, &bits, sizeof(m));
	if (m > 1.4142135623730951) {
		m *= 0.5;
		e++;
	}
	z = (m - 1) / (m + 1);
	z2 = z * z;
	for (int k = 13; k > 0; k -= 2)
		sum = sum * z2 + 1.0 / k;
	return 2 * z * sum + e * 0.6931471805599453;
}

/* e to the power x for |x| of a few units. */
static double exponential(double x)
{
	double y = x / 1024, sum = 1 + y * (1 + y * (0.5 + y * (1.0 / 6 + y / 24)));

	for (int i = 0; i < 10; i++)
		sum *= sum;
	return sum;
}

/* One number of N(0, 1) by the polar method; its twin is thrown away, so that the state is one integer. */
static double random_gauss(uint64_t *state)
{
	double x, y, s;

	do {
		uint64_t r = zipt_random(state);

		x = (double)(int32_t)(r >> 32) * 0x1p-31;
		y = (double)(int32_t)r * 0x1p-31;
		s = x * x + y * y;
	} while (s >= 1 || s == 0);
	return x * root(-2 * logarithm(s) / s);
}

uint32_t zipt_round(float value, enum zipc_dtype dtype)
{
	const struct float_format *f = &formats[dtype];
	int bias = (1 << (f->ebits - 1)) - 1, shift = 23 - f->mbits, e;
	uint32_t x, sign, m, r;

	memcpy(&x, &value, sizeof(x));
	sign = (x >> 31) << (f->ebits + f->mbits);
	x &= 0x7fffffff;
	e = (int)(x >> 23) - 127;
	if (shift == 0)
		return x | sign;
	if (e >= 1 - bias) {
		m = x - ((uint32_t)(127 - bias) << 23);
	} else {
		m = (x & 0x7fffff) | (x >> 23 ? 0x800000 : 0);
		shift += 1 - bias - (x >> 23 ? e : -126);
		if (shift > 25)
			return sign;
	}
	r = (m + (1u << (shift - 1)) - 1 + ((m >> shift) & 1)) >> shift;
	return (r > f->max ? f->max : r) | sign;
}

static void store(uint8_t *dst, uint32_t bits, size_t size)
{
	for (size_t i = 0; i < size; i++)
		dst[i] = (uint8_t)(bits >> (8 * i));
}

struct generator {
	enum zipc_dtype dtype;
	enum zipt_dist dist;
	double sigma, scale; /* scale: the present one where it changes */
	uint64_t state;
};

static uint32_t random_below(uint64_t *state, uint32_t limit)
{
	return (uint32_t)((zipt_random(state) >> 32) * limit >> 32);
}

/* A number with the largest exponent and a payload: NaN of either sign. */
static uint32_t random_nan(const struct float_format *f, uint64_t *state)
{
	uint32_t payload = (uint32_t)zipt_random(state), sign = payload >> 31;

	payload &= (1u << f->mbits) - 1;
	if (f->inf == 0x7f)
		payload = 0; /* e4m3 knows one NaN only */
	else if (!payload)
		payload = 1;
	return f->inf | payload | sign << (f->ebits + f->mbits);
}

static uint32_t random_special(const struct float_format *f, uint64_t *state)
{
	uint64_t r = zipt_random(state);
	uint32_t sign = (uint32_t)(r & 1) << (f->ebits + f->mbits);

	switch ((r >> 1) % 8) {
	case 0: return sign;
	case 1: return sign | f->inf;
	case 2: return sign | f->max;
	case 3: return sign | 1;
	case 4: return sign | ((1u << f->mbits) - 1);
	case 5: return sign | 1u << f->mbits;
	default: return random_nan(f, state);
	}
}

static uint32_t random_gauss_bits(struct generator *g, double sigma)
{
	return zipt_round((float)(sigma * random_gauss(&g->state)), g->dtype);
}

static double random_laplace(uint64_t *state)
{
	double u = random_unit(state) - 0.5;
	double v = logarithm(1 - 2 * (u < 0 ? -u : u) + 0x1p-60);

	return (u < 0 ? v : -v) * 0.7071067811865476;
}

static uint32_t random_upcast(struct generator *g)
{
	size_t bits = 8 * zipt_dtype_size(g->dtype);

	if (g->dtype == ZIPC_DTYPE_FP32)
		return zipt_round((float)(g->sigma * random_gauss(&g->state)), ZIPC_DTYPE_BF16) << 16;
	return random_gauss_bits(g, g->sigma) >> (bits / 4) << (bits / 4);
}

static uint32_t random_element(struct generator *g, uint64_t i)
{
	const struct float_format *f = &formats[g->dtype];

	switch (g->dist) {
	case ZIPT_DIST_GAUSS:
		return random_gauss_bits(g, g->sigma);
	case ZIPT_DIST_UNIFORM:
		return zipt_round((float)((2 * random_unit(&g->state) - 1) * (g->sigma / 0.02)), g->dtype);
	case ZIPT_DIST_LAPLACE:
		return zipt_round((float)(g->sigma * random_laplace(&g->state)), g->dtype);
	case ZIPT_DIST_MIXTURE:
		if (i % 512 == 0)
			g->scale = g->sigma * exponential(0.5 * random_gauss(&g->state));
		return random_gauss_bits(g, g->scale);
	case ZIPT_DIST_STEPS:
		if (i % 32768 == 0)
			g->scale = g->sigma * exponential(4 * random_unit(&g->state) - 2);
		return random_gauss_bits(g, g->scale);
	case ZIPT_DIST_UPCAST:
		return random_upcast(g);
	case ZIPT_DIST_HALF_ZEROS:
		return zipt_random(&g->state) >> 63 ? random_gauss_bits(g, g->sigma) : 0;
	case ZIPT_DIST_PADDING:
		return i % 100000 < 60000 ? random_gauss_bits(g, g->sigma) : 0;
	case ZIPT_DIST_CONSTANT:
		return zipt_round((float)(1.2345 * g->sigma), g->dtype);
	case ZIPT_DIST_ALTERNATING:
		return zipt_round((float)((i & 1 ? -3.7 : 1.2345) * g->sigma), g->dtype);
	case ZIPT_DIST_NAN:
		return random_nan(f, &g->state);
	case ZIPT_DIST_SPECIALS:
		return random_special(f, &g->state);
	case ZIPT_DIST_DENORMAL:
		return ((uint32_t)zipt_random(&g->state) & ((1u << f->mbits) - 1)) |
		       (uint32_t)(zipt_random(&g->state) >> 63) << (f->ebits + f->mbits);
	default:
		return 0;
	}
}

static void fill_random(uint8_t *p, size_t nbytes, uint64_t *state)
{
	uint64_t r;

	for (; nbytes >= 8; p += 8, nbytes -= 8) {
		r = zipt_random(state);
		memcpy(p, &r, 8);
	}
	r = zipt_random(state);
	memcpy(p, &r, nbytes);
}

static void fill_integers(uint8_t *p, size_t nbytes, uint64_t *state)
{
	for (; nbytes >= 4; p += 4, nbytes -= 4)
		store(p, random_below(state, 1000), 4);
	fill_random(p, nbytes, state);
}

static void fill_mixed(uint8_t *p, size_t nbytes, double sigma, uint64_t *state)
{
	while (nbytes) {
		enum zipc_dtype dtype = (enum zipc_dtype)(1 + random_below(state, ZIPC_DTYPE_COUNT - 1));
		enum zipt_dist dist = (enum zipt_dist)random_below(state, ZIPT_DIST_MIXED);
		size_t n = 1 + random_below(state, 60000);

		if (n > nbytes)
			n = nbytes;
		zipt_fill(p, n, dtype, dist, sigma, zipt_random(state));
		p += n;
		nbytes -= n;
	}
}

void zipt_fill(void *dst, size_t nbytes, enum zipc_dtype dtype, enum zipt_dist dist, double sigma, uint64_t seed)
{
	struct generator g = {
		.dtype = dtype == ZIPC_DTYPE_RAW ? ZIPC_DTYPE_BF16 : dtype,
		.dist = dist, .sigma = sigma, .scale = sigma, .state = seed,
	};
	size_t size = zipt_dtype_size(g.dtype), count = nbytes / size;
	uint8_t *p = dst;

	if (!nbytes)
		return;
	switch (dist) {
	case ZIPT_DIST_ZEROS:
		memset(p, 0, nbytes);
		return;
	case ZIPT_DIST_RANDOM:
		fill_random(p, nbytes, &g.state);
		return;
	case ZIPT_DIST_INTEGERS:
		fill_integers(p, nbytes, &g.state);
		return;
	case ZIPT_DIST_MIXED:
		fill_mixed(p, nbytes, sigma, &g.state);
		return;
	default:
		break;
	}
	for (size_t i = 0; i < count; i++)
		store(p + i * size, random_element(&g, i), size);
	fill_random(p + count * size, nbytes % size, &g.state);
}
