/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second encoder, written from doc/format.md alone: slow, without tricks, and with choices that the product never makes (modes
 * and bases that differ from slice to slice, any table, escapes nobody needed, variable data in reverse order with gaps).
 * Whatever it writes the decoder must read.
 */
#include "test_codec_util.h"

#include "zipc_tables.h"

/* Section 2, one row a type. */
static const struct type {
	unsigned size, ebits, eshift, nplanes;
	struct {
		unsigned bits, low_bits, low_shift, sign; /* code = sign << low_bits | low_bits bits from low_shift */
	} planes[3];
} types[ZIPC_DTYPE_COUNT] = {
	[ZIPC_DTYPE_BF16] = { 2, 8, 7, 1, { { 8, 7, 0, 1 } } },
	[ZIPC_DTYPE_FP16] = { 2, 5, 10, 2, { { 8, 8, 0, 0 }, { 3, 2, 8, 1 } } },
	[ZIPC_DTYPE_FP32] = { 4, 8, 23, 3, { { 8, 7, 16, 1 }, { 8, 8, 8, 0 }, { 8, 8, 0, 0 } } },
	[ZIPC_DTYPE_E4M3] = { 1, 4, 3, 1, { { 4, 3, 0, 1 } } },
	[ZIPC_DTYPE_E5M2] = { 1, 5, 2, 1, { { 3, 2, 0, 1 } } },
};

struct reference {
	const struct type *type;
	enum zipc_dtype dtype;
	int sparse;
	const uint8_t *src;
	uint64_t nblocks, tail, seed;
	uint8_t *frame;
	size_t at;       /* end of what is written */
	size_t dir, var; /* positions */
};

static unsigned below(struct reference *r, unsigned n)
{
	return (unsigned)(zipt_random(&r->seed) >> 33) % n;
}

static unsigned per_lane(const struct reference *r)
{
	return ZIPC_BLOCK / 32 / r->type->size;
}

/* Element n of a lane's sequence in block b. */
static uint32_t element(const struct reference *r, uint64_t b, unsigned lane, unsigned n)
{
	unsigned k = 16 / r->type->size, row = n / k, j = n % k;
	uint32_t x = 0;

	memcpy(&x, r->src + b * ZIPC_BLOCK + (row * 32 + lane) * 16 + j * r->type->size, r->type->size);
	return x;
}

static unsigned exponent(const struct reference *r, uint64_t b, unsigned lane, unsigned n)
{
	return element(r, b, lane, n) >> r->type->eshift & ((1u << r->type->ebits) - 1);
}

static unsigned plane_code(const struct reference *r, unsigned p, uint64_t b, unsigned lane, unsigned n)
{
	uint32_t x = element(r, b, lane, n);
	unsigned low = r->type->planes[p].low_bits, code = x >> r->type->planes[p].low_shift & ((1u << low) - 1);

	return code | (r->type->planes[p].sign ? (x >> (8 * r->type->size - 1)) << low : 0);
}

/* A plane of a block, byte or code; `bits` a code. codes[lane][n]. */
static size_t write_plane(uint8_t *out, const struct reference *r, uint8_t (*codes)[256], unsigned bits)
{
	unsigned count = per_lane(r), k = 16 / r->type->size;

	if (bits == 8) {
		for (unsigned lane = 0; lane < 32; lane++)
			for (unsigned n = 0; n < count; n++) {
				unsigned row = n / k, j = n % k;

				out[row / 2 * 64 * k + lane * 2 * k + row % 2 * k + j] = codes[lane][n];
			}
		return 32 * count;
	}
	for (unsigned p = 0; p < count / 32; p++)
		for (unsigned lane = 0; lane < 32; lane++) {
			uint32_t words[5] = { 0 };
			const uint8_t *c = codes[lane] + p * 32;

			for (unsigned i = 0; i < 8; i++)
				for (unsigned kk = 0; kk < 4; kk++) {
					unsigned code = c[8 * kk + i];

					if (bits == 3 && kk == 3) {
						for (unsigned w = 0; w < 3; w++)
							words[w] |= (code >> w & 1) << 3 << 4 * i;
						continue;
					}
					words[kk] |= (bits == 3 ? code : code & 15) << 4 * i;
					if (bits == 5)
						words[4] |= (code >> 4) << kk << 4 * i;
				}
			for (unsigned w = 0; w < bits; w++)
				zipc_store32(out + ((p * bits + w) * 32 + lane) * 4, words[w]);
		}
	return 32 * count * bits / 8;
}

static size_t write_split_plane(uint8_t *out, const struct reference *r, unsigned p, uint64_t b)
{
	static uint8_t codes[32][256];

	for (unsigned lane = 0; lane < 32; lane++)
		for (unsigned n = 0; n < per_lane(r); n++)
			codes[lane][n] = (uint8_t)plane_code(r, p, b, lane, n);
	return write_plane(out, r, codes, r->type->planes[p].bits);
}

static size_t write_raw_exponents(uint8_t *out, const struct reference *r, uint64_t b)
{
	static uint8_t codes[32][256];

	for (unsigned lane = 0; lane < 32; lane++)
		for (unsigned n = 0; n < per_lane(r); n++)
			codes[lane][n] = (uint8_t)exponent(r, b, lane, n);
	return write_plane(out, r, codes, r->type->ebits);
}

/* Section 4. The symbol, or 255 for an escape. */
static unsigned symbol(const struct reference *r, unsigned e, unsigned mode, unsigned base, unsigned range)
{
	unsigned modulus = 1u << r->type->ebits;

	for (unsigned s = 0; s < range; s++) {
		unsigned sum = base + s - (mode == ZIPC_MODE_ZERO), decoded = sum % modulus;

		if (mode == ZIPC_MODE_ZERO && s == 0)
			decoded = sum = 0;
		if (decoded == e && sum < 256)
			return s;
	}
	return 255;
}

/* A base that covers the exponent of some element, most of the time well. */
static unsigned pick_base(struct reference *r, uint64_t b, unsigned range)
{
	unsigned e = exponent(r, b, below(r, 32), below(r, per_lane(r)));

	if (below(r, 16) == 0)
		return below(r, 1u << r->type->ebits);
	return (e - range * 3 / 4 + below(r, 2)) & ((1u << r->type->ebits) - 1);
}

static int is_constant(const struct reference *r, uint64_t b, unsigned first, unsigned count)
{
	for (unsigned lane = 0; lane < 32; lane++)
		for (unsigned n = first; n < first + count; n++)
			if (exponent(r, b, lane, n) != exponent(r, b, 0, first))
				return 0;
	return 1;
}

static void pad16(struct reference *r)
{
	while (r->at % 16)
		r->frame[r->at++] = 0;
}

/* ---- section 5 ---- */

static size_t write_raw_slice(uint8_t *out, const struct reference *r, uint64_t b, unsigned p)
{
	static uint8_t plane[ZIPC_MAX_ELEMENTS];
	unsigned bits = r->type->ebits;

	if (bits == 8) {
		for (unsigned lane = 0; lane < 32; lane++)
			for (unsigned n = 0; n < 32; n++)
				*out++ = (uint8_t)exponent(r, b, lane, 32 * p + n);
		return 1024;
	}
	write_raw_exponents(plane, r, b);
	memcpy(out, plane + p * bits * 128, bits * 128);
	return bits * 128;
}

/* Slice p: its codes into codes[][], its data behind out. Returns the entry's nesc. */
static unsigned write_slice(struct reference *r, uint64_t b, unsigned p, uint8_t (*codes)[256], uint8_t *entry, uint8_t *out)
{
	unsigned mode = below(r, 12) == 0 ? ZIPC_MODE_RAW : below(r, 2), base = pick_base(r, b, 7), nesc = 0;

	if (is_constant(r, b, 32 * p, 32)) {
		mode = ZIPC_MODE_CONSTANT;
		base = exponent(r, b, 0, 32 * p);
	}
	for (unsigned lane = 0; lane < 32; lane++)
		for (unsigned n = 0; n < 32; n++) {
			unsigned s = 0;

			if (mode <= ZIPC_MODE_ZERO) {
				s = symbol(r, exponent(r, b, lane, 32 * p + n), mode, base, 7);
				if (s == 255 || below(r, 200) == 0)
					s = 7;
			}
			codes[lane][32 * p + n] = (uint8_t)s;
		}
	if (mode == ZIPC_MODE_RAW)
		nesc = (unsigned)write_raw_slice(out, r, b, p);
	for (unsigned lane = 0; lane < 32; lane++)
		for (int bit = 31; bit >= 0; bit--) {
			unsigned n = 8 * ((unsigned)bit % 4) + (unsigned)bit / 4;

			if (codes[lane][32 * p + n] == 7)
				out[nesc++] = (uint8_t)exponent(r, b, lane, 32 * p + n);
		}
	entry[0] = (uint8_t)base;
	entry[1] = (uint8_t)mode;
	zipc_store16(entry + 2, (uint16_t)nesc);
	return nesc;
}

static void write_fixed(struct reference *r)
{
	unsigned slices = per_lane(r) / 32, per_group = 8 / slices;
	uint64_t ngroups = (r->nblocks + per_group - 1) / per_group;
	size_t codes_at = r->dir; /* the caller left the position of the codes here */
	static uint8_t codes[32][256];

	r->dir = (size_t)zipc_round16(codes_at + r->nblocks * slices * 384 + r->tail);
	memset(r->frame + r->dir, 0, ngroups * 40 + 16);
	r->var = r->at = (size_t)zipc_round16(r->dir + ngroups * 40);
	for (uint64_t g = ngroups; g-- > 0;) {
		uint8_t *group = r->frame + r->dir + g * 40;
		unsigned length = 0;

		zipc_store32(group, (uint32_t)((r->at - r->var) / 16));
		for (uint64_t b = g * per_group; b < (g + 1) * per_group && b < r->nblocks; b++) {
			for (unsigned p = 0; p < slices; p++)
				length += write_slice(r, b, p, codes, group + 8 + ((b - g * per_group) * slices + p) * 4,
						      r->frame + r->at + length);
			write_plane(r->frame + codes_at + b * slices * 384, r, codes, 3);
		}
		zipc_store32(group + 4, length);
		r->at += length;
		pad16(r);
		r->at += 16 * below(r, 2);
	}
	memcpy(r->frame + codes_at + r->nblocks * slices * 384, r->src + r->nblocks * ZIPC_BLOCK, r->tail);
}

/* ---- section 6 ---- */

static void put_bits(uint8_t *out, size_t *pos, unsigned value, unsigned n)
{
	for (unsigned i = 0; i < n; i++, (*pos)++)
		out[*pos / 8] |= (uint8_t)((value >> i & 1) << *pos % 8);
}

/* The canonical code of an index, written with its first bit lowest. */
static void put_code(uint8_t *out, size_t *pos, unsigned table, unsigned index)
{
	const uint8_t *lengths = zipc_table_lengths[table];
	unsigned code = 0, length = 0;

	for (unsigned l = 1; l <= 12 && !length; l++, code <<= 1)
		for (unsigned i = 0; i < 256 && !length; i++)
			if (lengths[i] == l) {
				if (i == index) {
					length = l;
					break;
				}
				code++;
			}
	code >>= 1; /* the loop's last step */
	for (unsigned i = length; i-- > 0;)
		put_bits(out, pos, code >> i & 1, 1);
}

static void put_pair(struct reference *r, uint8_t *out, size_t *pos, unsigned table, const unsigned e[2], const unsigned s[2])
{
	unsigned index = s[0] | s[1] << 4;

	if (s[0] == 255 || s[1] == 255 || !zipc_table_lengths[table][index] || below(r, 500) == 0) {
		put_code(out, pos, table, ZIPC_TABLE_ESCAPE);
		put_bits(out, pos, e[0] | e[1] << 8, 16);
	} else {
		put_code(out, pos, table, index);
	}
}

/* Lengths and streams; 0 when a lane's is too long. */
static size_t write_streams(struct reference *r, uint64_t b, uint8_t *out, unsigned table, unsigned mode, unsigned base)
{
	size_t pos = 256;

	memset(out, 0, 8192);
	for (unsigned lane = 0; lane < 32; lane++) {
		size_t start = pos;

		for (unsigned n = 0; n < per_lane(r); n += 2) {
			unsigned e[2] = { exponent(r, b, lane, n), exponent(r, b, lane, n + 1) };
			unsigned s[2] = { symbol(r, e[0], mode, base, 15), symbol(r, e[1], mode, base, 15) };

			put_pair(r, out, &pos, table, e, s);
		}
		pos = (pos + 3) / 4 * 4;
		if (pos - start > 1020)
			return 0;
		out[lane] = (uint8_t)((pos - start) / 4);
	}
	return (pos + 7) / 8;
}

static size_t write_sparse_planes(struct reference *r, uint64_t b, uint8_t *out)
{
	size_t size = 16;

	memset(out, 0, 16);
	for (unsigned p = 0; p < r->type->nplanes; p++) {
		unsigned first = plane_code(r, p, b, 0, 0), same = 1;

		for (unsigned lane = 0; lane < 32; lane++)
			for (unsigned n = 0; n < per_lane(r); n++)
				same &= plane_code(r, p, b, lane, n) == first;
		if (same) {
			out[0] |= (uint8_t)(1u << p);
			out[1 + p] = (uint8_t)first;
		} else {
			size += write_split_plane(out + size, r, p, b);
		}
	}
	return size;
}

static void write_block(struct reference *r, uint64_t b, unsigned table)
{
	uint8_t *entry = r->frame + r->dir + b * 8, *out = r->frame + r->at;
	unsigned mode = below(r, 9) == 0 ? ZIPC_MODE_RAW : below(r, 2), base = pick_base(r, b, 15);
	size_t size = r->sparse ? write_sparse_planes(r, b, out) : 0, streams = 0;

	if (is_constant(r, b, 0, per_lane(r)) && below(r, 4)) {
		mode = ZIPC_MODE_CONSTANT;
		base = exponent(r, b, 0, 0);
	}
	if (mode <= ZIPC_MODE_ZERO) {
		streams = write_streams(r, b, out + size, table, mode, base);
		if (!streams)
			mode = ZIPC_MODE_RAW;
	}
	if (mode == ZIPC_MODE_RAW)
		streams = write_raw_exponents(out + size, r, b);
	size += streams;
	zipc_store32(entry, (uint32_t)((r->at - r->var) / 16));
	r->at += size;
	pad16(r);
	zipc_store16(entry + 4, (uint16_t)((size + 15) / 16));
	entry[6] = (uint8_t)base;
	entry[7] = (uint8_t)(table | mode << 5);
	r->at += 16 * below(r, 2);
}

static void write_entropy(struct reference *r)
{
	size_t tail_at = r->dir;
	unsigned tables[64];

	for (unsigned g = 0; g < 64; g++)
		tables[g] = below(r, 4) ? below(r, 6) : below(r, ZIPC_TABLES);
	memcpy(r->frame + tail_at, r->src + r->nblocks * ZIPC_BLOCK, r->tail);
	r->dir = (size_t)zipc_round16(tail_at + r->tail);
	memset(r->frame + r->dir, 0, r->nblocks * 8 + 16);
	r->var = r->at = (size_t)zipc_round16(r->dir + r->nblocks * 8);
	for (uint64_t b = r->nblocks; b-- > 0;)
		write_block(r, b, tables[b / 8]);
}

/* ---- section 3 ---- */

static size_t write_frame(struct reference *r, enum zipc_codec codec, size_t nbytes)
{
	size_t at = 64;

	memset(r->frame, 0, 64);
	memcpy(r->frame, "ZPF1\1", 5);
	r->frame[5] = (uint8_t)r->dtype;
	r->frame[6] = (uint8_t)codec;
	r->frame[7] = (uint8_t)r->sparse;
	for (unsigned p = 0; p < r->type->nplanes && !r->sparse; p++)
		for (uint64_t b = 0; b < r->nblocks; b++)
			at += write_split_plane(r->frame + at, r, p, b);
	r->dir = at;
	if (codec == ZIPC_CODEC_FIXED)
		write_fixed(r);
	else
		write_entropy(r);
	zipc_store64(r->frame + 8, nbytes);
	zipc_store64(r->frame + 16, r->at);
	zipc_store64(r->frame + 24, r->at - r->var);
	return r->at;
}

/* Returns 1 when the frame was within the bound and so had to be read. */
static int check_frame(enum zipc_dtype dtype, enum zipc_codec codec, int sparse, enum zipt_dist dist, uint64_t seed)
{
	size_t nbytes = (1 + seed % 11) * ZIPC_BLOCK + seed % 100, size;
	struct reference r = {
		.type = &types[dtype], .dtype = dtype, .sparse = sparse, .nblocks = nbytes / ZIPC_BLOCK,
		.tail = nbytes % ZIPC_BLOCK, .seed = seed,
	};
	uint8_t *src = malloc(nbytes), *out = malloc(nbytes);
	int read = 0;

	r.frame = malloc(nbytes * 2 + 65536);
	assert_true(src && out && r.frame);
	zipt_fill(src, nbytes, dtype, dist, 0.02, seed);
	r.src = src;
	size = write_frame(&r, codec, nbytes);
	if (size <= zipc_frame_bound(nbytes)) {
		for (int impl = 0; impl < TEST_IMPLS; impl++) {
			int ret;

			if (!test_use(impl))
				continue;
			memset(out, 0x77, nbytes);
			ret = zipc_decode(out, nbytes, r.frame, size);
			if (ret)
				fail_msg("%s %s %s seed %llu: %s", zipc_dtype_name(dtype), zipc_codec_name(codec),
					 zipt_dist_name(dist), (unsigned long long)seed, zipc_strerror(ret));
			assert_memory_equal(out, src, nbytes);
		}
		read = 1;
	} else {
		assert_int_equal(zipc_decode(out, nbytes, r.frame, size), ZIPC_ERR_SIZE);
	}
	free(src);
	free(out);
	free(r.frame);
	return read;
}

static void check_frames(enum zipc_codec codec, int sparse)
{
	static const enum zipt_dist dists[] = { ZIPT_DIST_GAUSS, ZIPT_DIST_HALF_ZEROS, ZIPT_DIST_PADDING, ZIPT_DIST_CONSTANT,
						ZIPT_DIST_UPCAST, ZIPT_DIST_DENORMAL };
	int read = 0, total = 0;

	for (int dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype++)
		for (size_t i = 0; i < sizeof(dists) / sizeof(dists[0]); i++)
			for (uint64_t seed = 0; seed < 5; seed++, total++)
				read += check_frame((enum zipc_dtype)dtype, codec, sparse, dists[i], seed * 6 + i);
	assert_true(read > total / 3);
}

static void test_codec_reference_fixed(void **state)
{
	(void)state;
	check_frames(ZIPC_CODEC_FIXED, 0);
}

static void test_codec_reference_entropy(void **state)
{
	(void)state;
	check_frames(ZIPC_CODEC_ENTROPY, 0);
}

static void test_codec_reference_sparse(void **state)
{
	(void)state;
	check_frames(ZIPC_CODEC_ENTROPY, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_codec_reference_fixed, test_teardown),
		cmocka_unit_test_teardown(test_codec_reference_entropy, test_teardown),
		cmocka_unit_test_teardown(test_codec_reference_sparse, test_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
