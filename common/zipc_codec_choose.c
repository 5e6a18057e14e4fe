/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipc_codec_choose.h"

#include <pthread.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "zipc_tables.h"

#define SAMPLES 64u        /* of a block: enough to place its exponents; a group has eight times as many to choose a table by */
#define LINE 64u           /* a block is sampled in pieces that lie in one cache line each */
#define SPARSE_BLOCKS 64u

/* Costs of symbols less the cost of an escape; symbol 0 of zero mode is counted apart. */
static int16_t gains[ZIPC_TABLES][16];
static pthread_once_t gains_once = PTHREAD_ONCE_INIT;

static void make_gains(void)
{
	for (unsigned t = 0; t < ZIPC_TABLES; t++)
		for (unsigned s = zipc_table_zero[t]; s < ZIPC_TABLE_SYMBOLS; s++)
			gains[t][s] = (int16_t)(zipc_table_costs[t][s] - zipc_table_costs[t][15]);
}

/* The bits of each plane in an element. */
static const uint32_t plane_masks[ZIPC_DTYPE_COUNT][ZIPC_MAX_PLANES] = {
	[ZIPC_DTYPE_BF16] = { 0x807f },
	[ZIPC_DTYPE_FP16] = { 0x00ff, 0x8300 },
	[ZIPC_DTYPE_FP32] = { 0x807f0000, 0xff00, 0x00ff },
	[ZIPC_DTYPE_E4M3] = { 0x87 },
	[ZIPC_DTYPE_E5M2] = { 0x83 },
};

static inline unsigned pieces_of(enum zipc_dtype dtype)
{
	return dtype == ZIPC_DTYPE_FP32 ? 4 : 2;
}

/* Pieces stand in different rows and lanes, so that no column of a matrix is favoured. */
static inline const uint8_t *piece_at(const uint8_t *block, unsigned i, unsigned pieces)
{
	return block + i * (ZIPC_BLOCK / pieces) + (i * 11 + 3) % 32 * LINE;
}

static unsigned constant_planes(const uint8_t *block, enum zipc_dtype dtype)
{
	const struct zipc_dtype_info *info = &zipc_dtype_infos[dtype];
	unsigned pieces = pieces_of(dtype), mask = 0;
	uint64_t first = zipc_load64(piece_at(block, 0, pieces)), diff = 0;

	/* Eight bytes against eight bytes, then the elements inside the first eight against each other. */
	for (unsigned i = 0; i < pieces; i++)
		for (unsigned j = 0; j < LINE; j += 8)
			diff |= zipc_load64(piece_at(block, i, pieces) + j) ^ first;
	for (unsigned bits = 8u * info->size; bits < 64; bits *= 2)
		diff |= diff >> bits | (first ^ (first >> bits | first << (64 - bits)));
	for (unsigned p = 0; p < info->nplanes; p++)
		if (!(diff & plane_masks[dtype][p]))
			mask |= 1u << p;
	return mask;
}

static void sample_exponents(uint8_t exps[SAMPLES], const uint8_t *block, enum zipc_dtype dtype)
{
	const unsigned pieces = pieces_of(dtype), n = SAMPLES / pieces;

	for (unsigned i = 0; i < pieces; i++, exps += n) {
		const uint8_t *p = piece_at(block, i, pieces);

		switch (dtype) {
		case ZIPC_DTYPE_BF16:
			for (unsigned j = 0; j < SAMPLES / 2; j++)
				exps[j] = (uint8_t)(zipc_load16(p + 2 * j) >> 7);
			break;
		case ZIPC_DTYPE_FP16:
			for (unsigned j = 0; j < SAMPLES / 2; j++)
				exps[j] = zipc_load16(p + 2 * j) >> 10 & 0x1f;
			break;
		case ZIPC_DTYPE_FP32:
			for (unsigned j = 0; j < SAMPLES / 4; j++)
				exps[j] = (uint8_t)(zipc_load32(p + 4 * j) >> 23);
			break;
		case ZIPC_DTYPE_E4M3:
			for (unsigned j = 0; j < SAMPLES / 2; j++)
				exps[j] = p[j] >> 3 & 0xf;
			break;
		default:
			for (unsigned j = 0; j < SAMPLES / 2; j++)
				exps[j] = p[j] >> 2 & 0x1f;
			break;
		}
	}
}

/* Mean of the nonzero exponents, then of those within 12 of it: a few infinities or denormals must not move it. */
static float middle(const uint8_t exps[SAMPLES])
{
	unsigned sum = 0, count = 0, mean;

	for (unsigned i = 0; i < SAMPLES; i++) {
		sum += exps[i];
		count += exps[i] != 0;
	}
	if (!count)
		return 0;
	mean = sum / count;
	sum = count = 0;
	for (unsigned i = 0; i < SAMPLES; i++) {
		unsigned near = (exps[i] != 0) & (exps[i] + 12u - mean <= 24);

		sum += exps[i] * near;
		count += near;
	}
	return count ? (float)sum / (float)count : (float)mean;
}

/*
 * Count nonzero exponents by their distance from `first`. Four histograms in turn: neighbours fall into the same bin so often
 * that a single one would wait for its own stores.
 */
static void count_exponents(struct zipc_look *look, const uint8_t exps[SAMPLES])
{
	enum { OUTSIDE = ZIPC_WINDOW, ZEROS, BINS };
	uint8_t bins[4][BINS] = { { 0 } }, places[SAMPLES];

	for (unsigned i = 0; i < SAMPLES; i++) {
		unsigned at = (unsigned)(exps[i] - look->first);

		at = at < ZIPC_WINDOW ? at : OUTSIDE;
		places[i] = (uint8_t)(exps[i] ? at : ZEROS);
	}
	for (unsigned i = 0; i < SAMPLES; i += 4) {
		bins[0][places[i]]++;
		bins[1][places[i + 1]]++;
		bins[2][places[i + 2]]++;
		bins[3][places[i + 3]]++;
	}
	for (unsigned i = 0; i < ZIPC_WINDOW; i++)
		look->window[i] = (int16_t)(bins[0][i] + bins[1][i] + bins[2][i] + bins[3][i]);
	look->zeros = (int16_t)(bins[0][ZEROS] + bins[1][ZEROS] + bins[2][ZEROS] + bins[3][ZEROS]);
}

void zipc_look_block(struct zipc_look *look, const uint8_t *block, enum zipc_dtype dtype)
{
	uint8_t exps[SAMPLES];
	unsigned diff = 0;

	sample_exponents(exps, block, dtype);
	look->mean = middle(exps);
	look->first = (int16_t)((int)(look->mean + 0.5f) - ZIPC_WINDOW_MIDDLE);
	look->count = SAMPLES;
	count_exponents(look, exps);
	for (unsigned i = 0; i < SAMPLES; i++)
		diff |= (unsigned)(exps[i] ^ exps[0]);
	look->same = !diff;
	look->constant_planes = (uint8_t)constant_planes(block, dtype);
}

void zipc_look_group(struct zipc_look looks[ZIPC_GROUP], const uint8_t *src, uint64_t g, uint64_t nblocks,
		     enum zipc_dtype dtype)
{
	unsigned pieces = pieces_of(dtype);

	for (uint64_t b = g; b < g + ZIPC_GROUP && b < nblocks; b++)
		zipc_look_block(&looks[b - g], src + b * ZIPC_BLOCK, dtype);
	for (uint64_t b = g + ZIPC_GROUP; b < g + 2 * ZIPC_GROUP && b < nblocks; b++)
		for (unsigned i = 0; i < pieces; i++)
			__builtin_prefetch(piece_at(src + b * ZIPC_BLOCK, i, pieces));
}

/* Samples of one block, or of several moved on top of each other. In `normal` the zeros have their place among the others. */
struct pile {
	int16_t zero[ZIPC_WINDOW + 1], normal[ZIPC_WINDOW + 1]; /* one more than is used: dot16 reads 16 */
	int32_t zeros, count;
};

static void pile_add(struct pile *pile, const struct zipc_look *look)
{
	for (unsigned i = 0; i < ZIPC_WINDOW; i++) {
		pile->zero[i] = (int16_t)(pile->zero[i] + look->window[i]);
		pile->normal[i] = (int16_t)(pile->normal[i] + look->window[i]);
	}
	if (look->first <= 0 && -look->first < ZIPC_WINDOW)
		pile->normal[-look->first] = (int16_t)(pile->normal[-look->first] + look->zeros);
	pile->zeros += look->zeros;
	pile->count += look->count;
}

static inline int32_t dot16(const int16_t *a, const int16_t *b)
{
#ifdef __SSE2__
	__m128i x = _mm_madd_epi16(_mm_loadu_si128((const __m128i *)a), _mm_loadu_si128((const __m128i *)b));
	__m128i y = _mm_madd_epi16(_mm_loadu_si128((const __m128i *)(a + 8)), _mm_loadu_si128((const __m128i *)(b + 8)));

	x = _mm_add_epi32(x, y);
	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
	return _mm_cvtsi128_si32(x);
#else
	int32_t sum = 0;

	for (int i = 0; i < 16; i++)
		sum += a[i] * b[i];
	return sum;
#endif
}

/* Cost of a pile in bits * 16 when symbol 0 of the table stands at place `at` of the window. */
static int32_t pile_cost(const struct pile *pile, unsigned table, int at)
{
	const int16_t *counts = (zipc_table_zero[table] ? pile->zero : pile->normal) + at;
	const int32_t escape = zipc_table_costs[table][15];
	int32_t cost = pile->count * escape + dot16(counts, gains[table]);

	if (zipc_table_zero[table])
		cost += pile->zeros * (zipc_table_costs[table][0] - escape);
	return cost;
}

/* The places symbol 0 may stand at so that bases stay in range; narrow exponents wrap. */
static void place_range(const struct zipc_dtype_info *info, int first, int *low, int *high)
{
	*low = 0;
	*high = ZIPC_WINDOW - ZIPC_TABLE_SYMBOLS;
	if (info->ebits < 8)
		return;
	if (first < 0)
		*low = -first;
	if (first + *high > 255 - ZIPC_TABLE_SYMBOLS)
		*high = 255 - ZIPC_TABLE_SYMBOLS - first;
}

/* Best place for the table within one of `near`. */
static int32_t best_place(const struct pile *pile, unsigned table, int near, int low, int high, int *place)
{
	int32_t best = INT32_MAX;

	for (int at = near - 1; at <= near + 1; at++) {
		int clipped = at < low ? low : at > high ? high : at;
		int32_t cost = pile_cost(pile, table, clipped);

		if (cost < best) {
			best = cost;
			*place = clipped;
		}
	}
	return best;
}

static unsigned best_table(const struct pile *pile, float mean, int low, int high, int *place)
{
	int32_t best = INT32_MAX;
	unsigned found = 0;

	for (unsigned t = 0; t < ZIPC_TABLES; t++) {
		int at = 0, near = (int)(ZIPC_WINDOW_MIDDLE + 0.5f + mean - (float)zipc_table_means[t] / 16);
		int32_t cost = best_place(pile, t, near, low, high, &at);

		if (cost < best) {
			best = cost;
			found = t;
			*place = at;
		}
	}
	return found;
}

/* Mode and base of one block for the group's table, near where the group puts symbol 0. */
static uint32_t fit_block(const struct zipc_look *look, const struct zipc_dtype_info *info, unsigned table, int near,
			  struct zipc_base *base)
{
	struct pile pile = { .count = 0 };
	int low, high, at = 0;
	int32_t cost, raw = look->count * info->ebits * 16;

	pile_add(&pile, look);
	place_range(info, look->first, &low, &high);
	cost = best_place(&pile, table, near, low, high, &at);
	base->mode = zipc_table_zero[table] ? ZIPC_MODE_ZERO : ZIPC_MODE_NORMAL;
	base->base = (uint8_t)((look->first + at + zipc_table_zero[table]) & zipc_emask(info));
	if (look->same)
		return 0;
	if (cost >= raw) {
		base->mode = ZIPC_MODE_RAW;
		return (uint32_t)raw;
	}
	return (uint32_t)cost;
}

/*
 * Do two blocks look like one distribution? Then they share their place: the noise of a few samples must not tear them apart.
 * Blocks further off are laid on top of each other by their own means.
 */
static int alike(const struct zipc_look *a, const struct zipc_look *b)
{
	return a->mean - b->mean < 0.75f && b->mean - a->mean < 0.75f;
}

/* The same samples with their window starting at `first`. */
static struct zipc_look moved(const struct zipc_look *look, int first)
{
	struct zipc_look result = *look;
	int by = first - look->first;

	memset(result.window, 0, sizeof(result.window));
	for (int i = 0; i < ZIPC_WINDOW; i++)
		if ((unsigned)(i + by) < ZIPC_WINDOW)
			result.window[i] = look->window[i + by];
	result.first = (int16_t)first;
	return result;
}

/* Pile up all blocks that have more than one exponent. Returns the one that the others were compared with, or NULL. */
static const struct zipc_look *pile_all(struct pile *pile, const struct zipc_look *looks, unsigned n)
{
	const struct zipc_look *reference = NULL;

	for (unsigned b = 0; b < n; b++) {
		if (looks[b].same)
			continue;
		if (!reference)
			reference = &looks[b];
		if (looks[b].first != reference->first && alike(&looks[b], reference)) {
			struct zipc_look look = moved(&looks[b], reference->first);

			pile_add(pile, &look);
		} else {
			pile_add(pile, &looks[b]);
		}
	}
	return reference;
}

uint32_t zipc_choose_entropy(const struct zipc_look *looks, unsigned n, const struct zipc_dtype_info *info,
			     unsigned *table, struct zipc_base *bases)
{
	struct pile pile = { .count = 0 };
	const struct zipc_look *reference = pile_all(&pile, looks, n);
	uint32_t cost = 0;
	int low, high, place = 0;

	pthread_once(&gains_once, make_gains);
	*table = 0;
	if (!reference)
		reference = &looks[0];
	place_range(info, reference->first, &low, &high);
	if (pile.count)
		*table = best_table(&pile, reference->mean - (float)(reference->first + ZIPC_WINDOW_MIDDLE), low, high, &place);
	for (unsigned b = 0; b < n; b++) {
		int by = alike(&looks[b], reference) ? reference->first - looks[b].first : 0;

		cost += fit_block(&looks[b], info, *table, place + by, &bases[b]);
	}
	return cost;
}

/* Samples that code 0 .. 6 cover when code 0 stands at place `at`; the better of normal and zero mode. */
static int fixed_covers(const struct pile *pile, int first, int at, enum zipc_mode *mode)
{
	int rest = 0, normal;

	for (int s = 1; s < (int)ZIPC_FIXED_ESCAPE; s++)
		rest += pile->normal[at + s];
	normal = rest + pile->normal[at];
	/* Zero mode gives code 0 to the zeros, wherever they stand; below place 0 there is nothing to gain. */
	*mode = first + at >= 0 && pile->zeros > pile->normal[at] ? ZIPC_MODE_ZERO : ZIPC_MODE_NORMAL;
	return *mode == ZIPC_MODE_ZERO ? rest + pile->zeros : normal;
}

static int fixed_place(const struct pile *pile, const struct zipc_dtype_info *info, int first, int8_t *rival)
{
	int best = -1, second = -1, place = 0, other = 0, low, high;
	enum zipc_mode mode;

	place_range(info, first, &low, &high);
	for (int at = low; at <= high; at++) {
		int covered = fixed_covers(pile, first, at, &mode);

		if (covered > best) {
			second = best;
			other = place;
			best = covered;
			place = at;
		} else if (covered > second) {
			second = covered;
			other = at;
		}
	}
	*rival = 0;
	/* A difference of 2 % is within the noise of so few samples. */
	if ((best - second) * 50 <= pile->count && (other == place - 1 || other == place + 1))
		*rival = (int8_t)(other - place);
	return place;
}

unsigned zipc_choose_fixed(const struct zipc_look *looks, unsigned n, const struct zipc_dtype_info *info,
			   struct zipc_base *bases)
{
	struct pile all = { .count = 0 };
	const struct zipc_look *reference = pile_all(&all, looks, n);
	int8_t rival = 0;
	int escapes = 0, shared = reference ? fixed_place(&all, info, reference->first, &rival) : 0;

	for (unsigned b = 0; b < n; b++) {
		struct pile one = { .count = 0 };
		int first = looks[b].first, covered, place;
		enum zipc_mode mode;

		if (reference && alike(&looks[b], reference)) {
			struct zipc_look look = moved(&looks[b], first = reference->first);

			pile_add(&one, &look);
			place = shared;
			bases[b].rival = rival;
		} else {
			pile_add(&one, &looks[b]);
			place = fixed_place(&one, info, first, &bases[b].rival);
		}
		covered = fixed_covers(&one, first, place, &mode);
		bases[b].mode = (uint8_t)mode;
		bases[b].base = (uint8_t)((first + place + (mode == ZIPC_MODE_ZERO)) & zipc_emask(info));
		escapes += looks[b].same ? 0 : looks[b].count - covered;
	}
	return (unsigned)escapes;
}

unsigned zipc_constant_bytes(const struct zipc_dtype_info *info, unsigned mask)
{
	unsigned bytes = 0;

	for (unsigned p = 0; p < info->nplanes; p++)
		if (mask >> p & 1)
			bytes += info->plane_bytes[p];
	return bytes;
}

int zipc_choose_sparse(const uint8_t *src, uint64_t nblocks, enum zipc_dtype dtype, float share)
{
	const struct zipc_dtype_info *info = &zipc_dtype_infos[dtype];
	uint64_t n = nblocks < SPARSE_BLOCKS ? nblocks : SPARSE_BLOCKS, saved = 0;

	for (uint64_t i = 0; i < n; i++) {
		const uint8_t *block = src + i * nblocks / n * ZIPC_BLOCK;

		saved += zipc_constant_bytes(info, constant_planes(block, dtype));
	}
	return (float)saved > share * (float)(n * ZIPC_BLOCK) + (float)(n * ZIPC_SPARSE_HEADER);
}
