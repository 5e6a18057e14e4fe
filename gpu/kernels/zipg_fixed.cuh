/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixed codec: a thread block has a group of eight slices, a warp has one. doc/format.md, section 5. */
#ifndef ZIPG_FIXED_CUH
#define ZIPG_FIXED_CUH

#include "zipg_unit.cuh"

#define ZIPG_FIXED_SYMBOLS 7u
#define ZIPG_FIXED_REFINE 112u /* escapes of 1024 above which a better base is looked for */

/* Shared memory, in words: room for the warps' histograms and lists (encode) or exponents (decode), then sizes and offsets. */
#define ZIPG_FIXED_ROOM 256u   /* of a warp */

struct zipg_slice {
	uint32_t base;
	uint32_t mode;
	uint32_t code[4];      /* nibbles, doc/format.md section 2 */
	uint32_t escapes;      /* bit 4 i + k: code 8 k + i is an escape */
};

/* Two quads as the eight nibbles of their symbols. */
static ZIPG_DEVICE uint32_t zipg_octet(int dt, const uint32_t *w, uint32_t base, uint32_t zero, uint32_t escape)
{
	int qw = zipg_quad_words(dt), shift = zipg_shift(dt);
	uint32_t v[4], y[2];

	ZIPG_UNROLL
	for (int i = 0; i < 4; i++)
		v[i] = zipg_symbols2(dt, zipg_fields(dt, w + (i >> 1) * qw, i & 1), base, zero, escape);
	if (zipg_elem_bytes(dt) == 1) {
		y[0] = (v[0] | v[1] << 4) >> shift;
		y[1] = (v[2] | v[3] << 4) >> shift;
		return zipg_perm(y[0], y[1], 0x6420);
	}
	y[0] = (v[0] >> 7) + (v[1] << 1);
	y[1] = (v[2] >> 7) + (v[3] << 1);
	return zipg_perm(y[0] * 0x10010u, y[1] * 0x10010u, 0x7632);
}

/* The four nibbles of a quad's symbols, in the mode that is known at run time. */
static ZIPG_DEVICE uint32_t zipg_quad_nibbles(int dt, const uint32_t *w, uint32_t base, uint32_t mode)
{
	uint32_t two[8];
	int qw = zipg_quad_words(dt);

	ZIPG_UNROLL
	for (int i = 0; i < qw; i++)
		two[i] = two[qw + i] = w[i];
	return (mode ? zipg_octet(dt, two, base, 1, ZIPG_FIXED_SYMBOLS) : zipg_octet(dt, two, base, 0, ZIPG_FIXED_SYMBOLS)) & 0xffffu;
}

static ZIPG_DEVICE uint32_t zipg_escape_bits(const uint32_t *code)
{
	uint32_t m = 0;

	ZIPG_UNROLL
	for (int k = 0; k < 4; k++)
		m |= ((code[k] + 0x11111111u) & 0x88888888u) >> (3 - k);
	return m;
}

static ZIPG_DEVICE void zipg_code_slice(int dt, const uint32_t *w, uint32_t zero, struct zipg_slice *s)
{
	int qw = zipg_quad_words(dt);

	ZIPG_UNROLL
	for (int k = 0; k < 4; k++)
		s->code[k] = zipg_octet(dt, w + 2 * k * qw, s->base, zero, ZIPG_FIXED_SYMBOLS);
	s->escapes = zipg_escape_bits(s->code);
}

/*
 * A base out of the mean of the exponents of two quads a lane that are not zero: seven exponents from 3.25 below the mean
 * cover a Gaussian best. Zero has a code of its own as soon as it is seen more than now and then.
 */
static ZIPG_DEVICE void zipg_guess_base(int dt, const uint32_t *w, struct zipg_slice *s)
{
	int qw = zipg_quad_words(dt);
	uint32_t a = zipg_quad_exp(dt, w), b = zipg_quad_exp(dt, w + qw);
	uint32_t top = (1u << zipg_ebits(dt)) - ZIPG_FIXED_SYMBOLS, n, sum;
	uint32_t zeros = zipg_zero_bytes(a) + zipg_zero_bytes(b);
	int32_t base;

	/* One reduction for both: at most 256 zeros, a sum below 2^16. */
	sum = zipg_warp_add((zipg_sum_bytes(a) + zipg_sum_bytes(b)) | zeros << 20);
	zeros = sum >> 20;
	sum &= 0xfffffu;
	n = 256 - zeros;
	/* The few exponents of narrow types are as near to zero as to each other: no mode of its own for it. */
	s->mode = zipg_ebits(dt) == 8 && zeros > 8;
	if (zeros == 0 || zipg_ebits(dt) < 8)
		base = (int32_t)(sum - 832) >> 8;
	else
		base = n ? ((int32_t)(sum * 4 / n) - 13) >> 2 : 0;
	base += (int32_t)s->mode;
	if (zipg_ebits(dt) == 8)
		base = base < 0 ? 0 : base > (int32_t)top ? (int32_t)top : base;
	s->base = (uint32_t)base & zipg_emask(dt);
}

/* The best base and mode out of a histogram of all exponents. */
static ZIPG_DEVICE void zipg_best_base(int dt, const uint32_t *hist, struct zipg_slice *s)
{
	uint32_t limit = 1u << zipg_ebits(dt), best = 0;

	ZIPG_NO_UNROLL
	for (uint32_t b = zipg_lane(); b < limit; b += 32) {
		uint32_t normal = 0, zero = hist[0];

		ZIPG_NO_UNROLL
		for (uint32_t i = 0; i < ZIPG_FIXED_SYMBOLS; i++) {
			uint32_t e = zipg_ebits(dt) < 8 ? (b + i) & zipg_emask(dt) : b + i, n = e < limit ? hist[e] : 0;

			normal += n;
			zero += e && i < ZIPG_FIXED_SYMBOLS - 1 ? n : 0;
		}
		normal = normal << 12 | b << 1;
		zero = zero << 12 | b << 1 | 1u;
		best = best > normal ? best : normal;
		best = best > zero ? best : zero;
	}
	best = zipg_warp_max(best);
	s->base = best >> 1 & 0xffu;
	s->mode = best & 1u;
}

/*
 * The slice at p once more: with a code for zero, or with a better base when the guess let too many escape. It seldom comes to this, so it is
 * written for few registers: rows are read again one by one, codes are put together in `room`, the warp's 256 words of shared memory.
 */
static ZIPG_DEVICE void zipg_recode_slice(int dt, const uint8_t *p, uint32_t *room, struct zipg_slice *s, int search)
{
	int qw = zipg_quad_words(dt), vq = zipg_vec_quads(dt);
	uint32_t w[4], lane = zipg_lane();

	if (search) {
		for (uint32_t i = lane; i < 256; i += 32)
			room[i] = 0;
		zipg_syncwarp();
		ZIPG_NO_UNROLL
		for (int r = 0; r < zipg_pack_rows(dt); r++) {
			zipg_load_rows(p + r * 512, 1, 0, w);
			for (int q = 0; q < vq; q++)
				zipg_count4(room, zipg_quad_exp(dt, w + q * qw));
		}
		zipg_syncwarp();
		zipg_best_base(dt, room, s);
		zipg_syncwarp();
	}
	ZIPG_NO_UNROLL
	for (int r = 0; r < zipg_pack_rows(dt); r++) {
		zipg_load_rows(p + r * 512, 1, 0, w);
		ZIPG_UNROLL
		for (int i = 0; i < vq; i++) {
			uint32_t q = (uint32_t)(r * vq + i), n = zipg_quad_nibbles(dt, w + i * qw, s->base, s->mode);

			((uint16_t *)&room[(q >> 1) * 32 + lane])[q & 1u] = (uint16_t)n;
		}
	}
	zipg_syncwarp();
	ZIPG_UNROLL
	for (int k = 0; k < 4; k++)
		s->code[k] = room[k * 32 + lane];
	zipg_syncwarp();
	s->escapes = zipg_escape_bits(s->code);
}

/* Where the exponent of code 8 k + i stands, from the lane's first byte of the pack. */
static ZIPG_DEVICE uint32_t zipg_exponent_offset(int dt, uint32_t k, uint32_t i)
{
	if (dt == ZIPG_FP32)
		return (2 * k + (i >> 2)) * 512u + (i & 3u) * 4 + 2;
	if (zipg_elem_bytes(dt) == 2)
		return k * 512u + i * 2;
	return (k >> 1) * 512u + (k & 1u) * 8 + i;
}

static ZIPG_DEVICE uint32_t zipg_read_exponent(int dt, const uint8_t *p)
{
	uint32_t x;

	if (zipg_elem_bytes(dt) == 1)
		x = zipg_ld1(p);
	else if (ZIPG_LIKELY(((uintptr_t)p & 1u) == 0))
		x = zipg_ld2(p);
	else
		x = zipg_ld1(p) | zipg_ld1(p + 1) << 8;
	return dt == ZIPG_FP16 ? x >> 10 & 31u : dt == ZIPG_E4M3 ? x >> 3 & 15u : dt == ZIPG_E5M2 ? x >> 2 & 31u : x >> 7 & 255u;
}

/* Raw exponents of the slice at p, to any byte address. */
static ZIPG_DEVICE void zipg_put_raw_slice(int dt, const uint8_t *p, uint8_t *out)
{
	int qw = zipg_quad_words(dt), bits = zipg_ebits(dt);
	uint32_t w[32], q[8], word[5], lane = zipg_lane();

	if (bits == 8) {
		int vq = zipg_vec_quads(dt);

		ZIPG_NO_UNROLL
		for (int r = 0; r < zipg_pack_rows(dt); r++) {
			zipg_load_rows(p + r * 512, 1, 0, w);
			ZIPG_UNROLL
			for (int i = 0; i < 4 * vq; i++)
				zipg_st1(out + lane * 32 + r * 4 * vq + i, zipg_quad_exp(dt, w + (i >> 2) * qw) >> 8 * (i & 3));
		}
		return;
	}
	zipg_load_rows(p, zipg_pack_rows(dt), 0, w);
	ZIPG_UNROLL
	for (int i = 0; i < 8; i++)
		q[i] = zipg_quad_exp(dt, w + i * qw);
	zipg_pack_codes(bits, q, word);
	ZIPG_UNROLL
	for (int i = 0; i < 4 * bits; i++)
		zipg_st1(out + ((uint32_t)(i >> 2) * 32 + lane) * 4 + (i & 3), word[i >> 2] >> 8 * (i & 3));
}

static ZIPG_DEVICE void zipg_get_raw_slice(int dt, const uint8_t *in, uint32_t *q)
{
	int bits = zipg_ebits(dt);
	uint32_t word[8], lane = zipg_lane();

	ZIPG_UNROLL
	for (int i = 0; i < bits; i++) {
		const uint8_t *p = in + (bits == 8 ? lane * 32 + i * 4 : ((uint32_t)i * 32 + lane) * 4);

		word[i] = zipg_ld1(p) | zipg_ld1(p + 1) << 8 | zipg_ld1(p + 2) << 16 | zipg_ld1(p + 3) << 24;
	}
	if (bits == 8) {
		ZIPG_UNROLL
		for (int i = 0; i < 8; i++)
			q[i] = word[i];
	} else {
		zipg_unpack_codes(bits, word, q);
	}
}

/* What a slice becomes: codes, and how many bytes of variable data. */
static ZIPG_DEVICE void zipg_make_slice(int dt, const uint8_t *p, const uint32_t *w, uint32_t *hist, struct zipg_slice *s,
					uint32_t *nesc_p, uint32_t *before_p)
{
	uint32_t raw_bytes = (uint32_t)(zipg_raw_bytes(dt) / zipg_packs(dt)), before, nesc;

	zipg_guess_base(dt, w, s);
	zipg_code_slice(dt, w, 0, s);
	before = zipg_scan(zipg_popc(s->escapes));
	nesc = zipg_shfl(before, 31);
	/* Once for a code for zero, and again where that does not help. */
	ZIPG_NO_UNROLL
	for (int search = !s->mode; search < 2 && (s->mode || nesc > ZIPG_FIXED_REFINE); search++) {
		if (search && nesc <= ZIPG_FIXED_REFINE)
			break;
		zipg_recode_slice(dt, p, hist, s, search);
		before = zipg_scan(zipg_popc(s->escapes));
		nesc = zipg_shfl(before, 31);
	}
	if (ZIPG_UNLIKELY(nesc >= raw_bytes)) {
		nesc = raw_bytes;
		s->base = s->escapes = s->code[0] = s->code[1] = s->code[2] = s->code[3] = 0;
		s->mode = 3;
	}
	*nesc_p = nesc;
	*before_p = before - zipg_popc(s->escapes);
}

/*
 * The first warp ends the search for the group's place, and shares it: sizes[0..7] become offsets of the slices, sizes[8] the place,
 * sizes[9] whether it is inside the bound.
 */
static ZIPG_DEVICE void zipg_fixed_place(int dt, const struct zipg_job *job, const struct zipg_place *at, uint32_t *sizes, uint64_t was,
					 uint32_t total, uint32_t offset)
{
	const struct zipg_item *item = at->item;
	uint64_t dir_bytes = (item->nblocks * (uint64_t)zipg_packs(dt) + 7) / 8 * 40;
	uint32_t lane = zipg_lane(), vecs = (total + 15) / 16, off = 0;

	if (lane == 0) {
		off = zipg_reserved(job, at, was, vecs, zipg_kinds(dt, ZIPG_CODEC_FIXED, 0), dir_bytes);
		zipg_st8(at->frame + item->pos_dir + at->unit * 40u, off, total);
		sizes[8] = off;
		sizes[9] = ((uint64_t)off + vecs) * 16 <= item->var_bytes;
	}
	off = zipg_shfl(off, 0);
	if (lane < ZIPG_WARPS)
		sizes[lane] = offset;
	if (lane < ((0u - total) & 15u) && ((uint64_t)off + vecs) * 16 <= item->var_bytes)
		zipg_st1(at->frame + item->pos_var + (uint64_t)off * 16 + total + lane, 0);
}

/*
 * Escaped exponents of a slice. Where they stand is listed in shared memory first, so that lanes then read and store one each: a lane's own
 * escapes one after the other would be many small stores.
 */
static ZIPG_DEVICE void zipg_list_escapes(int dt, uint32_t escapes, uint32_t at, uint32_t *room)
{
	uint16_t *list = (uint16_t *)room;
	uint32_t lane = zipg_lane();

	while (escapes) {
		uint32_t b = zipg_top_bit(escapes);

		escapes ^= 1u << b;
		list[at++] = (uint16_t)(lane * 16u + zipg_exponent_offset(dt, b & 3u, b >> 2));
	}
	zipg_syncwarp();
}

/* More escapes than the list has room for: mixed data. */
static ZIPG_DEVICE void zipg_put_escapes(int dt, const uint8_t *slice, uint32_t escapes, uint8_t *out)
{
	slice += zipg_lane() * 16u;
	ZIPG_NO_UNROLL
	while (escapes) {
		uint32_t b = zipg_top_bit(escapes);

		escapes ^= 1u << b;
		zipg_st1(out++, zipg_read_exponent(dt, slice + zipg_exponent_offset(dt, b & 3u, b >> 2)));
	}
}

static ZIPG_DEVICE void zipg_fixed_encode_slice(int dt, const struct zipg_job *job, const struct zipg_place *at, uint32_t *shared)
{
	const struct zipg_item *item = at->item;
	uint32_t packs = (uint32_t)zipg_packs(dt), lane = zipg_lane(), *sizes = shared + ZIPG_FIXED_SIZES;
	uint32_t slice = at->unit * ZIPG_WARPS + zipg_warp(), nesc = 0, before = 0, w[32], total = 0, offset = 0;
	const uint8_t *first = at->plain + (uint64_t)slice * (512u * zipg_pack_rows(dt)), *p = first + lane * 16u;
	uint32_t *room = shared + zipg_warp() * ZIPG_FIXED_ROOM, escaped = 0;
	struct zipg_slice s = { 0, 0, { 0, 0, 0, 0 }, 0 };
	int active = slice < item->nblocks * packs, listed = 0;
	uint64_t was = 0;

	if (active)
		zipg_load_rows(p, zipg_pack_rows(dt), 0, w);
	if (ZIPG_LIKELY(job->what & ZIPG_WHAT_CODES)) {
		if (active)
			zipg_make_slice(dt, p, w, room, &s, &nesc, &before);
		if (lane == 0) {
			sizes[zipg_warp()] = nesc;
			zipg_st4(at->frame + item->pos_dir + at->unit * 40u + 8 + 4 * zipg_warp(), s.base | s.mode << 8 | nesc << 16);
		}
		zipg_barrier();
		if (zipg_warp() == 0) {
			uint32_t v = lane < ZIPG_WARPS ? sizes[lane] : 0;

			offset = zipg_scan(v);
			total = zipg_shfl(offset, 31);
			offset -= v;
			if (lane == 0)
				was = zipg_reserve(job, at, (total + 15) / 16);
		}
	}
	/* The stores of planes and codes hide how long the answer takes. */
	if (active && ZIPG_LIKELY(job->what & ZIPG_WHAT_PLANES)) {
		ZIPG_UNROLL
		for (int i = 0; i < zipg_planes(dt); i++)
			zipg_store_plane(dt, i, at->frame + item->pos_plane[i] + (uint64_t)(slice / packs) * zipg_plane_bytes(dt, i),
					 slice % packs, w);
	}
	if (!(job->what & ZIPG_WHAT_CODES))
		return;
	if (active) {
		uint8_t *codes = at->frame + item->pos_codes + (uint64_t)slice * 384 + lane * 4;
		uint32_t word[3];

		zipg_code3(s.code, word);
		ZIPG_UNROLL
		for (int i = 0; i < 3; i++)
			zipg_st4(codes + i * 128, word[i]);
		listed = s.mode != 3 && nesc <= 2 * ZIPG_FIXED_ROOM;
		if (listed)
			zipg_list_escapes(dt, s.escapes, before, room);
		if (listed && lane < nesc)
			escaped = zipg_read_exponent(dt, first + ((const uint16_t *)room)[lane]);
	}
	if (zipg_warp() == 0)
		zipg_fixed_place(dt, job, at, sizes, was, total, offset);
	zipg_barrier();
	if (active && sizes[9]) {
		uint8_t *out = at->frame + item->pos_var + (uint64_t)sizes[8] * 16 + sizes[zipg_warp()];

		if (ZIPG_LIKELY(listed)) {
			if (lane < nesc)
				zipg_st1(out + lane, escaped);
			for (uint32_t i = lane + 32; i < nesc; i += 32)
				zipg_st1(out + i, zipg_read_exponent(dt, first + ((const uint16_t *)room)[i]));
		} else if (s.mode == 3) {
			zipg_put_raw_slice(dt, p, out);
		} else {
			zipg_put_escapes(dt, first, s.escapes, out + before);
		}
	}
}

static ZIPG_DEVICE void zipg_fixed_encode_unit(int dt, const struct zipg_job *job, uint32_t unit)
{
	struct zipg_place at;

	zipg_locate(job, unit, &at);
	zipg_fixed_encode_slice(dt, job, &at, zipg_shared());
	if (job->what & ZIPG_WHAT_PLANES)
		zipg_encode_tail(&at);
	zipg_unit_done(job, &at);
}

static ZIPG_DEVICE void zipg_fixed_encode(int dt, int share, const struct zipg_job *job)
{
	uint32_t *words = zipg_shared() + ZIPG_FIXED_SIZES + 16;

	if (!share) {
		zipg_fixed_encode_unit(dt, job, zipg_bid());
		return;
	}
	for (uint32_t u = zipg_first_unit(job, words); u < job->nunits; u = zipg_draw_unit(job, words))
		zipg_fixed_encode_unit(dt, job, u);
}

/* What the directory says about this warp's slice. */
struct zipg_entry {
	uint32_t base;
	uint32_t mode;
	uint32_t nesc;
	const uint8_t *data;   /* NULL: there is none, or the entry is bad */
};

static ZIPG_DEVICE uint32_t zipg_check_entry(int dt, uint32_t mode, uint32_t nesc)
{
	if (mode > 3)
		return ZIPG_ERROR_MODE;
	if (mode == 2 ? nesc != 0 : mode == 3 ? nesc != (uint32_t)(zipg_raw_bytes(dt) / zipg_packs(dt)) : nesc > 1024)
		return ZIPG_ERROR_OFFSET;
	return 0;
}

/* Read and check the group's directory entry; every warp does it for itself. */
static ZIPG_DEVICE uint32_t zipg_read_entry(int dt, const struct zipg_place *at, struct zipg_entry *e)
{
	const struct zipg_item *item = at->item;
	const uint8_t *dir = at->frame + item->pos_dir + at->unit * 40u;
	uint32_t lane = zipg_lane(), warp = zipg_warp(), slices = item->nblocks * (uint32_t)zipg_packs(dt);
	uint32_t word = lane < 10 ? zipg_ld4(dir + 4 * lane) : 0, off = zipg_shfl(word, 0), len = zipg_shfl(word, 1);
	uint32_t nesc = lane >= 2 ? word >> 16 : 0, sum = zipg_scan(nesc), error = 0;

	if (lane >= 2 && lane < 10) {
		error = zipg_check_entry(dt, word >> 8 & 0xffu, nesc);
		if (at->unit * 8 + lane - 2 >= slices && word)
			error = ZIPG_ERROR_OFFSET;
		if (word & 0xffu & ~zipg_emask(dt))
			error = ZIPG_ERROR_SYMBOL;
	}
	if (lane == 31 && sum != len)
		error = ZIPG_ERROR_OFFSET;
	if ((uint64_t)off * 16 + len > zipg_var_bytes(item, at->frame))
		error = ZIPG_ERROR_OFFSET;
	error = zipg_warp_max(error);
	word = zipg_shfl(word, 2 + warp);
	e->base = word & 0xffu;
	e->mode = word >> 8 & 0xffu;
	e->nesc = word >> 16;
	sum = zipg_shfl(sum - nesc, 2 + warp);
	e->data = error ? 0 : at->frame + item->pos_var + (uint64_t)off * 16 + sum;
	return error;
}

/* Whether a symbol of the slice stands for an exponent that the dtype does not have. */
static ZIPG_DEVICE int zipg_symbol_over(const uint32_t *code, uint32_t limit)
{
	uint32_t over = 0;

	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < 8; i++) {
			uint32_t s = code[k] >> 4 * i & 15u;

			over |= s < ZIPG_FIXED_SYMBOLS && s > limit;
		}
	}
	return (int)over;
}

/* The exponents of codes 0 to 3 and 4 to 7; what they say about codes over the limit and the escape is replaced or an error. */
static ZIPG_DEVICE void zipg_code_table(int dt, const struct zipg_entry *e, uint32_t *lo, uint32_t *hi)
{
	uint32_t b = e->base;
	uint32_t up[7];

	ZIPG_UNROLL
	for (uint32_t i = 0; i < 7; i++)
		up[i] = (b + i) & zipg_emask(dt);
	*lo = up[0] | up[1] << 8 | up[2] << 16 | up[3] << 24;
	*hi = up[4] | up[5] << 8 | up[6] << 16;
	if (e->mode == 1) {
		*hi = *lo >> 24 | *hi << 8;
		*lo <<= 8;
	}
}

/* Exponents of the slice into the column of this thread, quad q at q * ZIPG_THREADS. All lanes of the warp take the same way. */
static ZIPG_DEVICE uint32_t zipg_fixed_exponents(int dt, const struct zipg_entry *e, const uint32_t *word, uint32_t *column)
{
	uint32_t code[4], escapes, n, sum, lo, hi, limit = 255u - e->base + (e->mode == 1), error = 0, all = 0;
	const uint8_t *data;

	if (e->mode == 3) {
		uint32_t q[8];

		zipg_get_raw_slice(dt, e->data, q);
		ZIPG_UNROLL
		for (int i = 0; i < 8; i++)
			column[i * ZIPG_THREADS] = q[i];
		return word[0] | word[1] | word[2] ? ZIPG_ERROR_STREAM : 0;
	}
	zipg_uncode3(word, code);
	escapes = zipg_escape_bits(code);
	n = zipg_popc(escapes);
	sum = zipg_scan(n);
	if (zipg_shfl(sum, 31) != e->nesc)
		return ZIPG_ERROR_STREAM;
	if (e->mode == 2 && (word[0] | word[1] | word[2]))
		error = ZIPG_ERROR_STREAM;
	if (zipg_ebits(dt) == 8 && ZIPG_UNLIKELY(limit < ZIPG_FIXED_SYMBOLS - 1) && zipg_symbol_over(code, limit))
		error = ZIPG_ERROR_SYMBOL;
	zipg_code_table(dt, e, &lo, &hi);
	ZIPG_UNROLL
	for (int i = 0; i < 8; i++)
		column[i * ZIPG_THREADS] = zipg_lookup4(lo, hi, code[i >> 1] >> 16 * (i & 1) & 0xffffu);
	data = e->data + sum - n;
	while (escapes) {
		uint32_t b = zipg_top_bit(escapes), i = b >> 2, k = b & 3u, x = zipg_ld1(data++);

		escapes ^= 1u << b;
		((uint8_t *)&column[(2 * k + (i >> 2)) * ZIPG_THREADS])[i & 3u] = (uint8_t)x;
		all |= x;
	}
	return all >> zipg_ebits(dt) ? ZIPG_ERROR_SYMBOL : error;
}

static ZIPG_DEVICE void zipg_fixed_decode_slice(int dt, const struct zipg_job *job, const struct zipg_place *at, uint32_t *shared)
{
	const struct zipg_item *item = at->item;
	uint32_t packs = (uint32_t)zipg_packs(dt), lane = zipg_lane();
	uint32_t slice = at->unit * ZIPG_WARPS + zipg_warp(), block = slice / packs, pack = slice % packs, error;
	uint32_t word[3], plane[24], e[8], *column = shared + zipg_tid();
	const uint8_t *codes = at->frame + item->pos_codes + (uint64_t)slice * 384 + lane * 4;
	struct zipg_entry entry;

	if (slice >= item->nblocks * packs)
		return;
	ZIPG_UNROLL
	for (int i = 0; i < 3; i++)
		word[i] = zipg_ld4_once(codes + i * 128);
	ZIPG_UNROLL
	for (int i = 0; i < zipg_planes(dt); i++)
		zipg_load_quads(dt, zipg_plane_code(dt, i), at->frame + item->pos_plane[i] + (uint64_t)block * zipg_plane_bytes(dt, i), pack,
				plane + 8 * i);
	error = zipg_read_entry(dt, at, &entry);
	if (!error)
		error = zipg_fixed_exponents(dt, &entry, word, column);
	if (zipg_any(error != 0)) {
		if (error)
			zipg_fail(job, at->index, error);
		return;
	}
	ZIPG_UNROLL
	for (int i = 0; i < 8; i++)
		e[i] = column[i * ZIPG_THREADS];
	zipg_join_pack(dt, at->plain + (uint64_t)slice * (512u * zipg_pack_rows(dt)) + lane * 16u, e, plane);
}

static ZIPG_DEVICE void zipg_fixed_decode(int dt, const struct zipg_job *job)
{
	struct zipg_place at;

	zipg_locate(job, zipg_bid(), &at);
	zipg_fixed_decode_slice(dt, job, &at, zipg_shared());
	zipg_decode_tail(&at);
	zipg_check_header(job, &at, dt, ZIPG_CODEC_FIXED, 0);
}

#endif
