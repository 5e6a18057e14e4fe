/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entropy encoder: a thread block has a group of eight blocks, a warp has one. A lane writes its bit stream into a column of
 * shared memory (word k of lane l at 32 k + l, free of bank conflicts); a scan over the lengths then moves the 32 streams
 * together, and one atomic a thread block finds their place. doc/format.md, section 6.
 */
#ifndef ZIPG_ENTROPY_ENC_CUH
#define ZIPG_ENTROPY_ENC_CUH

#include "zipg_choose.cuh"

/* Words a lane's stream may have before the block goes raw; less than 1020 bits. */
static ZIPG_DEVICE uint32_t zipg_column(int dt) { return dt == ZIPG_FP32 ? 16 : zipg_elem_bytes(dt) == 2 ? 20 : 28; }
static ZIPG_DEVICE uint32_t zipg_stream_words(int dt) { return 8u + zipg_column(dt) * 32u + 4u; }

/* Shared memory in words: code table, sizes, columns, streams; the histograms lie where the streams come later. */
#define ZIPG_ENC_SIZES 128u
#define ZIPG_ENC_COLUMNS 160u
#define ZIPG_ENC_WORDS(column) (ZIPG_ENC_COLUMNS + 8u * ((column) + 1u) * 32u + 8u * (8u + (column) * 32u + 4u))

/* A bit stream in a column: finished words are at `word`, `lo` holds the next `pos` bits. */
struct zipg_bits {
	uint32_t *word;
	uint32_t *end;         /* the last word, which a stream that is too long writes over and over */
	uint32_t lo;
	uint32_t pos;
};

static ZIPG_DEVICE void zipg_put(struct zipg_bits *b, uint32_t code, uint32_t len)
{
	uint32_t hi;

	b->lo |= code << b->pos;
	hi = zipg_shl64(code, 0, b->pos);
	b->pos += len;
	if (b->pos >= 32) {
		*b->word = b->lo;
		b->word = b->word + 32 < b->end ? b->word + 32 : b->end;
		b->lo = hi;
		b->pos -= 32;
	}
}

struct zipg_escape {
	uint32_t code;
	uint32_t len;
};

static ZIPG_DEVICE void zipg_put_pair(struct zipg_bits *b, uint32_t t, uint32_t e, const struct zipg_escape *esc)
{
	if (t >= 0xf000u)
		zipg_put(b, esc->code | e << esc->len, esc->len + 16);
	else
		zipg_put(b, t & 0xfffu, t >> 12);
}

/* One quad: two pairs, as a rule put at once. */
static ZIPG_DEVICE void zipg_put_quad(int dt, const uint32_t *w, uint32_t base, uint32_t zero, const uint16_t *lut,
				      const struct zipg_escape *esc, struct zipg_bits *b)
{
	int shift = zipg_shift(dt);
	uint32_t v0 = zipg_symbols2(dt, zipg_fields(dt, w, 0), base, zero, 15);
	uint32_t v1 = zipg_symbols2(dt, zipg_fields(dt, w, 1), base, zero, 15), o0, o1, t0, t1;

	/* Offsets into the table of 16-bit entries. */
	if (zipg_elem_bytes(dt) == 1) {
		v0 |= v1 << 4;
		o0 = v0 >> (shift - 1) & 0x1feu;
		o1 = v0 >> (shift + 15) & 0x1feu;
	} else {
		o0 = (v0 * 0x10010u) >> 22;
		o1 = (v1 * 0x10010u) >> 22;
	}
	t0 = *(const uint16_t *)((const char *)lut + o0);
	t1 = *(const uint16_t *)((const char *)lut + o1);
	if (ZIPG_UNLIKELY((t0 > t1 ? t0 : t1) >= 0xf000u)) {
		uint32_t e = zipg_quad_exp(dt, w);

		zipg_put_pair(b, t0, e & 0xffffu, esc);
		zipg_put_pair(b, t1, e >> 16, esc);
	} else {
		uint32_t l0 = t0 >> 12;

		zipg_put(b, (t0 & 0xfffu) | (t1 & 0xfffu) << l0, l0 + (t1 >> 12));
	}
}

/* What a warp knows about its block. */
struct zipg_block {
	const uint8_t *plain;  /* this lane's vector of the first row */
	uint32_t number;
	uint32_t mode;
	uint32_t base;
	uint32_t vecs;         /* of exponent data */
	uint32_t units;        /* length of this lane's stream */
	uint32_t before;       /* of the lanes below */
	uint32_t same;         /* sparse: planes that are constant, bit 3: the exponents are */
	uint32_t value[3];     /* of those planes */
};

/* Gathers what is common to all bytes of a plane. */
struct zipg_common {
	uint32_t all;
	uint32_t any;
};

static ZIPG_DEVICE void zipg_gather(struct zipg_common *c, uint32_t q)
{
	c->all &= q;
	c->any |= q;
}

/* Whether all bytes were equal in all lanes, and which byte they were. */
static ZIPG_DEVICE int zipg_same(const struct zipg_common *c, uint32_t *value)
{
	uint32_t all = zipg_warp_and(c->all), any = zipg_warp_or(c->any);

	all &= all >> 16;
	any |= any >> 16;
	all = (all & all >> 8) & 0xffu;
	any = (any | any >> 8) & 0xffu;
	*value = all;
	return all == any;
}

static ZIPG_DEVICE void zipg_put_pack(int dt, const uint32_t *w, const struct zipg_block *blk, uint32_t zero, const uint16_t *lut,
				      const struct zipg_escape *esc, struct zipg_bits *bits)
{
	ZIPG_UNROLL
	for (int q = 0; q < 8; q++)
		zipg_put_quad(dt, w + q * zipg_quad_words(dt), blk->base, zero, lut, esc, bits);
}

/* Dense frames store the planes of a pack, sparse frames look whether they are constant. */
static ZIPG_DEVICE void zipg_pack_planes(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at,
					 const struct zipg_block *blk, uint32_t pack, const uint32_t *w, struct zipg_common *common)
{
	const struct zipg_item *item = at->item;

	if (!sparse && !(job->what & ZIPG_WHAT_PLANES))
		return;
	ZIPG_UNROLL
	for (int p = 0; p < zipg_planes(dt); p++) {
		if (!sparse) {
			zipg_store_plane(dt, p, at->frame + item->pos_plane[p] + (uint64_t)blk->number * zipg_plane_bytes(dt, p), pack, w);
			continue;
		}
		ZIPG_UNROLL
		for (int q = 0; q < 8; q++)
			zipg_gather(&common[p], zipg_quad_plane(dt, p, w + q * zipg_quad_words(dt)));
	}
}

/* One pass over the block: planes, and the lane's stream into its column. `w` holds the first pack. */
static ZIPG_DEVICE void zipg_encode_rows(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at, uint32_t *w,
					 struct zipg_block *blk, const struct zipg_choice *c, const uint16_t *lut, uint32_t *column,
					 struct zipg_common *common)
{
	const struct zipg_tables *tables = (const struct zipg_tables *)(uintptr_t)job->tables;
	uint32_t packs = (uint32_t)zipg_packs(dt), len, rows = (uint32_t)zipg_pack_rows(dt);
	struct zipg_escape esc = { tables->esc_code[c->table], tables->esc_len[c->table] };
	struct zipg_bits bits = { column, column + zipg_column(dt) * 32, 0, 0 };

	ZIPG_NO_UNROLL
	for (uint32_t pack = 0; pack < packs; pack++) {
		if (!c->raw) {
			if (c->zero)
				zipg_put_pack(dt, w, blk, 1, lut, &esc, &bits);
			else
				zipg_put_pack(dt, w, blk, 0, lut, &esc, &bits);
		}
		zipg_pack_planes(dt, sparse, job, at, blk, pack, w, common);
		if (sparse) {
			ZIPG_UNROLL
			for (int q = 0; q < 8; q++)
				zipg_gather(&common[3], zipg_quad_exp(dt, w + q * zipg_quad_words(dt)));
		}
		if (pack + 1 < packs)
			zipg_load_rows(blk->plain + (pack + 1) * rows * 512u, (int)rows, w);
	}
	*bits.word = bits.lo;
	len = (uint32_t)(bits.word - column) + bits.pos;
	blk->units = (len + 3) / 4;
	if (c->raw || zipg_any(bits.word >= bits.end)) {
		blk->mode = 3;
		blk->units = 0;
	}
	blk->before = zipg_scan(blk->units);
	len = 32 + (zipg_shfl(blk->before, 31) + 1) / 2;
	blk->before -= blk->units;
	blk->vecs = (len + 15) / 16;
	if (blk->mode == 3 || blk->vecs * 16 >= (uint32_t)zipg_raw_bytes(dt)) {
		blk->mode = 3;
		blk->vecs = (uint32_t)zipg_raw_bytes(dt) / 16;
	}
}

/* The streams of the columns one after the other, behind their lengths. */
static ZIPG_DEVICE void zipg_join_streams(const struct zipg_block *blk, const uint32_t *column, uint32_t *stream)
{
	uint32_t lane = zipg_lane(), len = blk->units * 4, start = 256 + blk->before * 4;
	uint32_t shift = start & 31u, first = start >> 5, end = (start + len) >> 5, n = (shift + len + 31) >> 5, words = (len + 31) >> 5;
	uint32_t below = 0;
	struct zipg_vec zero = zipg_vec4(0, 0, 0, 0);

	for (uint32_t i = lane; i < blk->vecs; i += 32)
		((struct zipg_vec *)stream)[i] = zero;
	zipg_syncwarp();
	((uint8_t *)stream)[lane] = (uint8_t)blk->units;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t word = k < words ? column[k * 32] : 0, v = zipg_shl64(below, word, shift);

		below = word;
		/* The words at both ends are shared with the neighbours. */
		if (k > 0 && first + k < end)
			stream[first + k] = v;
		else
			zipg_shared_or(&stream[first + k], v);
	}
	zipg_syncwarp();
}

/* Reserve the group's space and write its directory. Returns where this warp's data goes, NULL when it does not fit. */
static ZIPG_DEVICE uint8_t *zipg_entropy_place(const struct zipg_job *job, const struct zipg_place *at, uint32_t *sizes,
					       const struct zipg_block *blk, uint32_t table, int active, uint32_t vecs)
{
	const struct zipg_item *item = at->item;
	uint32_t lane = zipg_lane(), warp = zipg_warp(), off;

	if (lane == 0)
		sizes[warp] = vecs;
	zipg_barrier();
	if (warp == 0) {
		uint32_t v = lane < ZIPG_WARPS ? sizes[lane] : 0, sum = zipg_scan(v), total = zipg_shfl(sum, 31);

		off = lane == 0 ? zipg_reserve(job, at, total) : 0;
		off = zipg_shfl(off, 0);
		if (lane < ZIPG_WARPS)
			sizes[lane] = off + sum - v;
		if (lane == 0)
			sizes[8] = ((uint64_t)off + total) * 16 <= item->var_bytes;
	}
	zipg_barrier();
	off = sizes[warp];
	if (active && lane == 0)
		zipg_st8(at->frame + item->pos_dir + (uint64_t)blk->number * 8, off,
			 vecs | blk->base << 16 | (table | blk->mode << 5) << 24);
	return sizes[8] ? at->frame + item->pos_var + (uint64_t)off * 16 : 0;
}

/* Exponent data of the block to its place. */
static ZIPG_DEVICE void zipg_put_block(int dt, const struct zipg_block *blk, const uint32_t *stream, uint8_t *out)
{
	uint32_t rows = (uint32_t)zipg_pack_rows(dt), w[32], q[8];

	if (blk->mode == 3) {
		for (uint32_t pack = 0; pack < (uint32_t)zipg_packs(dt); pack++) {
			zipg_load_rows(blk->plain + pack * rows * 512u, (int)rows, w);
			ZIPG_UNROLL
			for (int i = 0; i < 8; i++)
				q[i] = zipg_quad_exp(dt, w + i * zipg_quad_words(dt));
			zipg_store_quads(dt, zipg_raw_code(dt), out, pack, q);
		}
		return;
	}
	for (uint32_t i = zipg_lane(); i < blk->vecs; i += 32)
		zipg_st16(out + i * 16, ((const struct zipg_vec *)stream)[i]);
}

/* Sparse: the header and the planes that are not constant; returns where the exponent data follows. */
static ZIPG_DEVICE uint8_t *zipg_put_planes(int dt, const struct zipg_block *blk, uint8_t *out)
{
	uint32_t rows = (uint32_t)zipg_pack_rows(dt), w[32], head = blk->same & 7u;

	for (int p = 0; p < zipg_planes(dt); p++)
		head |= blk->same >> p & 1u ? blk->value[p] << (8 + 8 * p) : 0;
	if (zipg_lane() == 0)
		zipg_st16(out, zipg_vec4(head, 0, 0, 0));
	out += 16;
	for (int p = 0; p < zipg_planes(dt); p++) {
		if (blk->same >> p & 1u)
			continue;
		for (uint32_t pack = 0; pack < (uint32_t)zipg_packs(dt); pack++) {
			zipg_load_rows(blk->plain + pack * rows * 512u, (int)rows, w);
			zipg_store_plane(dt, p, out, pack, w);
		}
		out += zipg_plane_bytes(dt, p);
	}
	return out;
}

/* After the pass over the block: constants found, and the size of everything; vectors of 16 bytes. */
static ZIPG_DEVICE uint32_t zipg_block_size(int dt, int sparse, struct zipg_block *blk, const struct zipg_common *common)
{
	uint32_t vecs = 1, exponent;

	if (!sparse)
		return blk->vecs;
	for (int p = 0; p < zipg_planes(dt); p++) {
		if (zipg_same(&common[p], &blk->value[p]))
			blk->same |= 1u << p;
		else
			vecs += (uint32_t)zipg_plane_bytes(dt, p) / 16;
	}
	if (zipg_same(&common[3], &exponent)) {
		blk->mode = 2;
		blk->base = exponent;
		blk->vecs = 0;
	}
	return vecs + blk->vecs;
}

static ZIPG_DEVICE void zipg_entropy_encode_unit(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at,
						 uint32_t *shared)
{
	const struct zipg_tables *tables = (const struct zipg_tables *)(uintptr_t)job->tables;
	uint32_t warp = zipg_warp(), lane = zipg_lane(), size = 0, none = 0;
	uint32_t *column = shared + ZIPG_ENC_COLUMNS + warp * (zipg_column(dt) + 1) * 32 + lane;
	uint32_t *streams = shared + ZIPG_ENC_COLUMNS + 8 * (zipg_column(dt) + 1) * 32, *stream = streams + warp * zipg_stream_words(dt);
	struct zipg_common common[4] = { { ~0u, 0 }, { ~0u, 0 }, { ~0u, 0 }, { ~0u, 0 } };
	struct zipg_block blk = { 0, at->unit * ZIPG_WARPS + warp, 0, 0, 0, 0, 0, 0, { 0, 0, 0 } };
	struct zipg_choice c;
	int active = blk.number < at->item->nblocks, whole = job->what == (ZIPG_WHAT_PLANES | ZIPG_WHAT_CODES);
	uint32_t w[32];
	uint8_t *out;

	blk.plain = at->plain + (uint64_t)blk.number * ZIPG_BLOCK + lane * 16u;
	if (active)
		zipg_load_rows(blk.plain, zipg_pack_rows(dt), w);
	zipg_choose(dt, job, at, w, active, streams, &c);
	if (!sparse && whole && c.frame_raw) {
		uint64_t from = (uint64_t)at->unit * 8 * ZIPG_BLOCK, n = at->item->nbytes - from;

		zipg_copy(at->frame + ZIPG_HEADER + from, at->plain + from,
			  at->unit + 1 == at->item->units ? n : 8 * ZIPG_BLOCK);
		zipg_finish_raw(job, at);
		return;
	}
	if (zipg_tid() < 128)
		shared[zipg_tid()] = zipg_ld4((const uint32_t *)tables->enc[c.table] + zipg_tid());
	zipg_barrier();
	blk.base = c.base;
	blk.mode = c.zero;
	if (active) {
		zipg_encode_rows(dt, sparse, job, at, w, &blk, &c, (const uint16_t *)shared, column, common);
		size = zipg_block_size(dt, sparse, &blk, common);
		if (blk.mode < 2)
			zipg_join_streams(&blk, column, stream);
		if (blk.mode == 3)
			blk.base = none;
	}
	out = zipg_entropy_place(job, at, shared + ZIPG_ENC_SIZES, &blk, c.table, active, size);
	if (out && active) {
		if (sparse)
			out = zipg_put_planes(dt, &blk, out);
		if (blk.mode != 2)
			zipg_put_block(dt, &blk, stream, out);
	}
	if (job->what & ZIPG_WHAT_PLANES)
		zipg_encode_tail(at);
	zipg_finish_encode(job, at, dt, ZIPG_CODEC_ENTROPY, sparse, (uint64_t)at->item->nblocks * 8);
}

static ZIPG_DEVICE void zipg_entropy_encode(int dt, int sparse, const struct zipg_job *job)
{
	uint32_t *shared = zipg_shared(), *words = shared + ZIPG_ENC_SIZES + 16;
	int last;

	for (uint32_t u = zipg_first_unit(job, words, &last); u < job->nunits; u = zipg_next_unit(job, u, words, last)) {
		struct zipg_place at;

		zipg_locate(job, u, &at);
		zipg_entropy_encode_unit(dt, sparse, job, &at, shared);
	}
}

#endif
