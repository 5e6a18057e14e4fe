/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entropy encoder: a thread block has a group of eight blocks, a warp has one. A lane writes its bit stream into a column of
 * shared memory (word k of lane l at 32 k + l, free of bank conflicts); a scan over the lengths then moves the 32 streams
 * together, and one atomic a thread block finds their place. doc/format.md, section 6.
 */
#ifndef ZIPG_ENTROPY_ENC_CUH
#define ZIPG_ENTROPY_ENC_CUH

#include "zipg_choose.cuh"

static ZIPG_DEVICE uint32_t zipg_column(int dt) { return dt == ZIPG_FP32 ? 16 : zipg_elem_bytes(dt) == 2 ? 20 : 28; }
static ZIPG_DEVICE uint32_t zipg_stream_words(int dt) { return 8u + zipg_column(dt) * 32u + 4u; }

/* Shared memory: code table, sizes, columns (zipg_column_words), streams; the histograms lie where the streams come later. */

/* A bit stream in a column: the next word goes to shared[word], `lo` holds its first `pos` bits. */
struct zipg_bits {
	uint32_t word;
	uint32_t end;          /* the last word, which a stream that is too long writes over and over */
	uint32_t lo;
	uint32_t pos;
};

/* The low five bits of `len` count; the sum of `pos` and it is below 64. */
static ZIPG_DEVICE void zipg_put(uint32_t *shared, struct zipg_bits *b, uint32_t code, uint32_t len)
{
	uint32_t hi = zipg_shl64(code, 0, b->pos), sum = b->pos + len;

	b->lo |= zipg_shl(code, b->pos);
	b->pos = sum & 31u;
	if (sum & 32u) {
		shared[b->word] = b->lo;
		b->word = b->word + 32 < b->end ? b->word + 32 : b->end;
		b->lo = hi;
	}
}

static ZIPG_DEVICE void zipg_put_pair(uint32_t *shared, struct zipg_bits *b, uint32_t t, uint32_t e, uint32_t esc)
{
	if (t >> 31)
		zipg_put(shared, b, esc >> 8 | zipg_shl(e, esc), (esc & 31u) + 16);
	else
		zipg_put(shared, b, t >> 8, t & 31u);
}

/* Table entries of a quad's two pairs. The code table is where shared memory starts. */
static ZIPG_DEVICE void zipg_find_codes(int dt, const uint32_t *w, uint32_t base, uint32_t zero, const uint32_t *shared, uint32_t *t)
{
	int shift = zipg_shift(dt);
	uint32_t v0 = zipg_symbols2(dt, zipg_fields(dt, w, 0), base, zero, 15);
	uint32_t v1 = zipg_symbols2(dt, zipg_fields(dt, w, 1), base, zero, 15);

	/* Offsets into the table, in bytes. */
	if (zipg_elem_bytes(dt) == 1) {
		v0 |= v1 << 4;
		v1 = v0 >> (shift + 14) & 0x3fcu;
		v0 = (shift < 2 ? v0 << (2 - shift) : v0 >> (shift - 2)) & 0x3fcu;
	} else {
		v0 = (v0 * 0x10010u) >> 21;
		v1 = (v1 * 0x10010u) >> 21;
	}
	t[0] = *(const uint32_t *)((const char *)shared + v0);
	t[1] = *(const uint32_t *)((const char *)shared + v1);
}

/*
 * `n` quads, 1 or 2. All codes are looked up before the first is put, and one test finds escapes in any of them: that leaves the lookups
 * free to overlap. As a rule the two pairs of a quad are put at once.
 */
static ZIPG_DEVICE void zipg_put_quads(int dt, int n, const uint32_t *w, uint32_t base, uint32_t zero, uint32_t *shared, uint32_t esc,
				       struct zipg_bits *b)
{
	uint32_t t[4], any = 0;
	int qw = zipg_quad_words(dt);

	ZIPG_UNROLL
	for (int i = 0; i < n; i++) {
		zipg_find_codes(dt, w + i * qw, base, zero, shared, t + 2 * i);
		any |= t[2 * i] | t[2 * i + 1];
	}
	if (ZIPG_UNLIKELY(any >> 31)) {
		ZIPG_UNROLL
		for (int i = 0; i < n; i++) {
			uint32_t e = zipg_quad_exp(dt, w + i * qw);

			zipg_put_pair(shared, b, t[2 * i], e & 0xffffu, esc);
			zipg_put_pair(shared, b, t[2 * i + 1], e >> 16, esc);
		}
		return;
	}
	ZIPG_UNROLL
	for (int i = 0; i < n; i++) {
		uint32_t t0 = t[2 * i], t1 = t[2 * i + 1];

		zipg_put(shared, b, ((t0 & ~0xffu) | zipg_shl(t1 & ~0xffu, t0)) >> 8, t0 + t1);
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

/* Quads of plane p that are complete after row r of a pack: byte planes are stored by pairs of rows, code planes by packs. */
static ZIPG_DEVICE void zipg_row_planes(int dt, const struct zipg_place *at, uint32_t number, uint32_t pack, int r, uint32_t (*q)[8])
{
	int rows = zipg_pack_rows(dt), vq = zipg_vec_quads(dt);

	ZIPG_UNROLL
	for (int p = 0; p < zipg_planes(dt); p++) {
		uint8_t *plane = at->frame + at->item->pos_plane[p] + (uint64_t)number * zipg_plane_bytes(dt, p);

		if (zipg_plane_code(dt, p)) {
			if (r == rows - 1)
				zipg_store_quads(dt, zipg_plane_code(dt, p), plane, pack, q[p]);
		} else if (r & 1) {
			zipg_store_pair(dt, plane, pack * (rows / 2) + r / 2, &q[p][(r - 1) * vq]);
		}
	}
}

/*
 * The rows of the block: planes, and the lane's stream into its column. `w` holds the first pack. `code` 0: planes only, 1: normal, 2: zero.
 * As soon as a row is coded, its registers take that row of the next pack: loads are always on their way and cost no registers.
 */
static ZIPG_DEVICE void zipg_encode_packs(int dt, int sparse, int aligned, uint32_t code, const struct zipg_job *job,
					  const struct zipg_place *at, const struct zipg_block *blk, uint32_t *w, uint32_t *shared,
					  uint32_t esc, struct zipg_bits *bits, struct zipg_common *common)
{
	uint32_t packs = (uint32_t)zipg_packs(dt), planes[3][8];
	int rows = zipg_pack_rows(dt), vq = zipg_vec_quads(dt), qw = zipg_quad_words(dt);
	const uint8_t *next = blk->plain;

	ZIPG_NO_UNROLL
	for (uint32_t pack = 0; pack < packs; pack++) {
		next += rows * 512;
		ZIPG_UNROLL
		for (int r = 0; r < rows; r++) {
			ZIPG_UNROLL
			for (int i = 0; i < vq; i++) {
				const uint32_t *quad = w + 4 * r + i * qw;

				ZIPG_UNROLL
				for (int p = 0; p < zipg_planes(dt); p++) {
					planes[p][r * vq + i] = zipg_quad_plane(dt, p, quad);
					if (sparse)
						zipg_gather(&common[p], planes[p][r * vq + i]);
				}
				if (sparse)
					zipg_gather(&common[3], zipg_quad_exp(dt, quad));
				if (code && (vq == 1 || i % 2 == 0))
					zipg_put_quads(dt, vq == 1 ? 1 : 2, quad, blk->base, code - 1, shared, esc, bits);
			}
			if (!sparse && (job->what & ZIPG_WHAT_PLANES))
				zipg_row_planes(dt, at, blk->number, pack, r, planes);
			if (pack + 1 < packs)
				zipg_load_rows(next + r * 512, 1, aligned, w + 4 * r);
		}
	}
}

/* One pass over the block, and what came of it. */
static ZIPG_DEVICE void zipg_encode_rows(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at, uint32_t *w,
					 struct zipg_block *blk, const struct zipg_choice *c, uint32_t *shared, uint32_t esc,
					 uint32_t column, struct zipg_common *common)
{
	struct zipg_bits bits = { column, column + zipg_column(dt) * 32, 0, 0 };
	uint32_t len;

	/* The usual cases have loops of their own: that makes a difference of registers, and of instructions to fetch. */
	if (ZIPG_LIKELY(zipg_aligned(at->plain) && !c->raw && !c->zero))
		zipg_encode_packs(dt, sparse, 1, 1, job, at, blk, w, shared, esc, &bits, common);
	else if (zipg_aligned(at->plain) && !c->raw)
		zipg_encode_packs(dt, sparse, 1, 2, job, at, blk, w, shared, esc, &bits, common);
	else
		zipg_encode_packs(dt, sparse, 0, c->raw ? 0 : 1 + c->zero, job, at, blk, w, shared, esc, &bits, common);
	shared[bits.word] = bits.lo;
	len = bits.word - column + bits.pos;
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

/* Sizes of the eight blocks, for the first warp: ask for the group's space. Returns the answer of zipg_reserve(), and the sums. */
static ZIPG_DEVICE uint64_t zipg_entropy_reserve(const struct zipg_job *job, const struct zipg_place *at, const uint32_t *sizes,
						 uint32_t *offset, uint32_t *total)
{
	uint32_t lane = zipg_lane(), v = lane < ZIPG_WARPS ? sizes[lane] : 0, sum = zipg_scan(v);

	*total = zipg_shfl(sum, 31);
	*offset = sum - v;
	return lane == 0 ? zipg_reserve(job, at, *total) : 0;
}

/* The answer: sizes[0..7] become the places of the blocks, sizes[8] whether the group is inside the bound. */
static ZIPG_DEVICE void zipg_entropy_place(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at, uint32_t *sizes,
					   uint64_t was, uint32_t offset, uint32_t total)
{
	const struct zipg_item *item = at->item;
	uint32_t lane = zipg_lane(), off = 0;

	if (lane == 0) {
		off = zipg_reserved(job, at, was, total, zipg_kinds(dt, ZIPG_CODEC_ENTROPY, sparse), (uint64_t)item->nblocks * 8);
		sizes[8] = ((uint64_t)off + total) * 16 <= item->var_bytes;
	}
	off = zipg_shfl(off, 0);
	if (lane < ZIPG_WARPS)
		sizes[lane] = off + offset;
}

/* Exponent data of the block to its place. */
static ZIPG_DEVICE void zipg_put_block(int dt, const struct zipg_block *blk, const uint32_t *stream, uint8_t *out)
{
	uint32_t rows = (uint32_t)zipg_pack_rows(dt), w[32], q[8];

	if (blk->mode == 3) {
		for (uint32_t pack = 0; pack < (uint32_t)zipg_packs(dt); pack++) {
			zipg_load_rows(blk->plain + pack * rows * 512u, (int)rows, 0, w);
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
			zipg_load_rows(blk->plain + pack * rows * 512u, (int)rows, 0, w);
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

/* The group as it is, into a raw frame. */
static ZIPG_DEVICE void zipg_copy_group(const struct zipg_job *job, uint8_t *frame, const uint8_t *plain, uint32_t unit)
{
	uint64_t from = (uint64_t)unit * 8 * ZIPG_BLOCK;

	zipg_copy(frame + ZIPG_HEADER + from, plain + from, unit + 1 == job->item.units ? job->item.nbytes - from : 8 * ZIPG_BLOCK);
}

static ZIPG_DEVICE void zipg_entropy_encode_unit(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at,
						 uint32_t *shared)
{
	const struct zipg_tables *tables = (const struct zipg_tables *)(uintptr_t)job->tables;
	uint32_t warp = zipg_warp(), lane = zipg_lane(), size = 0, offset = 0, total = 0, *sizes = shared + ZIPG_ENC_SIZES;
	uint32_t column = ZIPG_ENC_COLUMNS + warp * (zipg_column(dt) + 1) * 32 + lane, esc;
	uint32_t *streams = shared + ZIPG_ENC_COLUMNS + 8 * (zipg_column(dt) + 1) * 32, *stream = streams + warp * zipg_stream_words(dt);
	struct zipg_common common[4] = { { ~0u, 0 }, { ~0u, 0 }, { ~0u, 0 }, { ~0u, 0 } };
	struct zipg_block blk = { 0, at->unit * ZIPG_WARPS + warp, 0, 0, 0, 0, 0, 0, { 0, 0, 0 } };
	struct zipg_choice c;
	uint64_t was = 0;
	int active = blk.number < at->item->nblocks, whole = (job->what & 3u) == (ZIPG_WHAT_PLANES | ZIPG_WHAT_CODES);
	uint32_t w[32];

	blk.plain = at->plain + (uint64_t)blk.number * ZIPG_BLOCK + lane * 16u;
	if (active) {
		zipg_load_rows(blk.plain, zipg_pack_rows(dt), 0, w);
		/* The block's 64 lines: the rest of it is on its way while the table is chosen. */
		zipg_prefetch(blk.plain - lane * 16u + lane * 128u);
		zipg_prefetch(blk.plain - lane * 16u + 4096u + lane * 128u);
	}
	zipg_choose(dt, job, at, w, active, streams, &c);
	if (!sparse && whole && c.frame_raw) {
		zipg_reserve_raw(job, at);
		zipg_copy_group(job, at->frame, at->plain, at->unit);
		zipg_unit_done(job, at);
		return;
	}
	shared[zipg_tid()] = zipg_ld4(&tables->enc[c.table][zipg_tid()]);
	esc = zipg_ld4(&tables->esc[c.table]);
	zipg_barrier();
	blk.base = c.base;
	blk.mode = c.zero;
	if (active) {
		zipg_encode_rows(dt, sparse, job, at, w, &blk, &c, shared, esc, column, common);
		size = zipg_block_size(dt, sparse, &blk, common);
	}
	if (lane == 0)
		sizes[warp] = size;
	zipg_barrier();
	if (warp == 0)
		was = zipg_entropy_reserve(job, at, sizes, &offset, &total);
	/* Joining the streams hides how long the answer takes. */
	if (active && blk.mode < 2)
		zipg_join_streams(&blk, shared + column, stream);
	if (warp == 0)
		zipg_entropy_place(dt, sparse, job, at, sizes, was, offset, total);
	zipg_barrier();
	if (active && lane == 0)
		zipg_st8(at->frame + at->item->pos_dir + (uint64_t)blk.number * 8, sizes[warp],
			 size | (blk.mode == 3 ? 0 : blk.base) << 16 | (c.table | blk.mode << 5) << 24);
	if (active && sizes[8]) {
		uint8_t *out = at->frame + at->item->pos_var + (uint64_t)sizes[warp] * 16;

		if (sparse)
			out = zipg_put_planes(dt, &blk, out);
		if (blk.mode != 2)
			zipg_put_block(dt, &blk, stream, out);
	}
	if (job->what & ZIPG_WHAT_PLANES)
		zipg_encode_tail(at);
	zipg_unit_done(job, at);
}

static ZIPG_DEVICE void zipg_entropy_encode(int dt, int sparse, int share, const struct zipg_job *job)
{
	uint32_t *shared = zipg_shared(), *words = shared + ZIPG_ENC_SIZES + 16;
	struct zipg_place at;

	if (!share) {
		zipg_locate(job, zipg_bid(), &at);
		zipg_entropy_encode_unit(dt, sparse, job, &at, shared);
		return;
	}
	for (uint32_t u = zipg_first_unit(job, words); u < job->nunits; u = zipg_draw_unit(job, words)) {
		zipg_locate(job, u, &at);
		zipg_entropy_encode_unit(dt, sparse, job, &at, shared);
	}
}

#endif
