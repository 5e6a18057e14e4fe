/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entropy decoder: a thread block has a group of eight blocks, a warp has one. The group's table of 4096
 * entries is loaded into shared memory. A block's data is staged in shared memory, where every lane reads
 * its own stream. doc/format.md, section 6.
 *
 * Nothing in a stream is trusted: whatever its bits say, a lane reads at most 112 words beyond its start, which is inside
 * the shared memory of the thread block, and what it read too much shows in the check of its length.
 */
#ifndef ZIPG_ENTROPY_DEC_CUH
#define ZIPG_ENTROPY_DEC_CUH

#include "zipg_unit.cuh"

/* Shared memory: table, a staging buffer a warp (zipg_stage_words), room to read beyond the last. */
static ZIPG_DEVICE uint32_t zipg_buffer(int dt) { return zipg_elem_bytes(dt) == 1 ? 780 : 528; }

/* Vectors of 16 bytes that fit in one buffer with 8 words to spare. */
static ZIPG_DEVICE uint32_t zipg_small(int dt) { return (zipg_buffer(dt) - 8) / 4; }

/* The directory entry of this warp's block, and what all entries of the group say together. */
struct zipg_dir {
	uint32_t table;
	uint32_t mode;
	uint32_t base;
	uint32_t vecs;
	uint32_t big;          /* some block of the group needs two buffers */
	uint32_t error;
	const uint8_t *data;
};

/* Lines of the block's planes that the stream is joined with; they come while the directory and the table are read. */
static ZIPG_DEVICE void zipg_prefetch_planes(int dt, const struct zipg_place *at, uint32_t block)
{
	ZIPG_UNROLL
	for (int p = 0; p < zipg_planes(dt); p++) {
		uint32_t bytes = (uint32_t)zipg_plane_bytes(dt, p), from = zipg_lane() * 128u;

		if (from < bytes)
			zipg_prefetch(at->frame + at->item->pos_plane[p] + (uint64_t)block * bytes + from);
	}
}

/* Every warp reads and checks all entries of the group, so that all take the same way. Warp `which` gives the block. */
static ZIPG_DEVICE void zipg_read_dir(int dt, int sparse, const struct zipg_place *at, uint32_t which, struct zipg_dir *d)
{
	const struct zipg_item *item = at->item;
	uint32_t lane = zipg_lane(), first = at->unit * ZIPG_WARPS, off = 0, rest = 0, error = 0, big = 0;
	int used = lane < ZIPG_WARPS && first + lane < item->nblocks;

	if (used) {
		const uint8_t *p = at->frame + item->pos_dir + (uint64_t)(first + lane) * 8;

		off = zipg_ld4(p);
		rest = zipg_ld4(p + 4);
	}
	if (!sparse && first + which < item->nblocks)
		zipg_prefetch_planes(dt, at, first + which);
	if (used) {
		uint32_t vecs, mode, base, table;

		vecs = rest & 0xffffu;
		base = rest >> 16 & 0xffu;
		table = rest >> 24 & 31u;
		mode = rest >> 29 & 3u;
		if (((uint64_t)off + vecs) * 16 > zipg_var_bytes(item, at->frame))
			error = ZIPG_ERROR_OFFSET;
		if (table >= 32)
			error = ZIPG_ERROR_TABLE;
		if (rest >> 31)
			error = ZIPG_ERROR_MODE;
		if (base & ~zipg_emask(dt))
			error = ZIPG_ERROR_SYMBOL;
		if (!sparse) {
			if (mode == 2 ? vecs != 0 : mode == 3 ? vecs * 16 != (uint32_t)zipg_raw_bytes(dt) : vecs < 2 || vecs > 257)
				error = ZIPG_ERROR_OFFSET;
			big = mode < 2 && vecs > zipg_small(dt);
		}
	}
	d->table = zipg_shfl(rest, 0) >> 24 & 31u;
	if (used && (rest >> 24 & 31u) != d->table)
		error = ZIPG_ERROR_TABLE;
	d->error = zipg_warp_max(error);
	d->big = zipg_ballot((int)big);
	off = zipg_shfl(off, which);
	rest = zipg_shfl(rest, which);
	d->vecs = rest & 0xffffu;
	d->base = rest >> 16 & 0xffu;
	d->mode = rest >> 29 & 3u;
	d->data = at->frame + item->pos_var + (uint64_t)off * 16;
}

/*
 * A lane's stream: hi:lo shifted down by `pos` (0..31) has the next bits from bit 2 on, so that its low bits are a byte offset into
 * the table. shared[next] is the word behind hi.
 */
struct zipg_reader {
	uint32_t next;
	uint32_t lo, hi, pos;
	uint32_t error;        /* bit 4 of a byte: a symbol stands for an exponent that does not exist */
};

/* The low five bits of len count; its sum with pos is below 64. */
static ZIPG_DEVICE void zipg_advance(const uint32_t *shared, struct zipg_reader *r, uint32_t len)
{
	uint32_t sum = r->pos + len;

	r->pos = sum & 31u;
	if (sum & 32u) {
		r->lo = r->hi;
		r->hi = shared[r->next++];
	}
}

/* How symbols become exponents, four bytes at once. */
struct zipg_map {
	uint32_t add;          /* the base */
	uint32_t over;         /* 15 - highest valid symbol, at least 0; added to a symbol it sets bit 4 when that is not valid */
	uint32_t zero;
};

/* `plain` streams need no check of their symbols and have no code for zero. */
static ZIPG_DEVICE uint32_t zipg_map_symbols(int dt, int plain, const struct zipg_map *m, uint32_t s, struct zipg_reader *r)
{
	uint32_t e = s + m->add, used;

	if (!plain) {
		r->error |= (s + m->over) & 0x10101010u;
		if (m->zero) {
			used = (s + 0x7f7f7f7fu) >> 7 & 0x01010101u;
			e = (e - used) & used * 0xffu;
		}
	}
	return zipg_ebits(dt) < 8 ? e & zipg_emask(dt) * 0x01010101u : e;
}

static ZIPG_DEVICE uint32_t zipg_lookup(const uint32_t *shared, uint32_t x)
{
	return *(const uint32_t *)((const char *)shared + (x & 0x3ffcu));
}

/* A pair of exponents that may be escaped. */
static ZIPG_DEVICE uint32_t zipg_get_pair(int dt, int plain, const uint32_t *shared, const struct zipg_map *m, struct zipg_reader *r)
{
	uint32_t t = zipg_lookup(shared, zipg_shr64(r->lo, r->hi, r->pos)), e;

	zipg_advance(shared, r, t & 31u);
	if (!(t >> 31))
		return zipg_map_symbols(dt, plain, m, t >> 8 & 0xffffu, r) & 0xffffu;
	e = zipg_shr64(r->lo, r->hi, r->pos) >> 2 & 0xffffu;
	zipg_advance(shared, r, 16);
	r->error |= e & ~(zipg_emask(dt) * 0x101u) ? 0x10u : 0;
	return e;
}

/* Four exponents: two pairs, as a rule without an escape. */
static ZIPG_DEVICE uint32_t zipg_get_quad(int dt, int plain, const uint32_t *shared, const struct zipg_map *m, struct zipg_reader *r)
{
	uint32_t x = zipg_shr64(r->lo, r->hi, r->pos), t0 = zipg_lookup(shared, x), t1 = zipg_lookup(shared, zipg_shr(x, t0)), e;

	if (ZIPG_UNLIKELY((t0 | t1) >> 31)) {
		e = zipg_get_pair(dt, plain, shared, m, r);
		return e | zipg_get_pair(dt, plain, shared, m, r) << 16;
	}
	e = zipg_map_symbols(dt, plain, m, zipg_perm(t0, t1, 0x6521), r);
	zipg_advance(shared, r, t0 + t1);
	return e;
}

/* Where the planes of the block are, and which are constant. */
struct zipg_source {
	const uint8_t *plane[3];
	uint32_t same;
	uint32_t value[3];
};

/*
 * The planes of two rows, a step of the decoder: 4 quads of 2-byte types, 2 or 8 of the others. Two steps of fp16 share the words of a code
 * plane; both read them, the second out of L1.
 */
static ZIPG_DEVICE int zipg_step_quads(int dt) { return 2 * zipg_vec_quads(dt); }

static ZIPG_DEVICE void zipg_get_step_codes(int dt, int code, const uint8_t *plane, uint32_t step, uint32_t *q)
{
	uint32_t word[5], all[8], lane = zipg_lane(), pack = zipg_elem_bytes(dt) == 1 ? step : step / 2;

	ZIPG_UNROLL
	for (int i = 0; i < code; i++)
		word[i] = zipg_ld4(plane + ((pack * code + i) * 32 + lane) * 4);
	zipg_unpack_codes(code, word, all);
	ZIPG_UNROLL
	for (int i = 0; i < zipg_step_quads(dt); i++)
		q[i] = zipg_elem_bytes(dt) == 1 || (step & 1u) == 0 ? all[i] : all[(i + 4) & 7];
}

static ZIPG_DEVICE void zipg_get_step(int dt, int sparse, const struct zipg_source *src, uint32_t step, uint32_t *plane)
{
	ZIPG_UNROLL
	for (int p = 0; p < zipg_planes(dt); p++) {
		int code = zipg_plane_code(dt, p), n = zipg_step_quads(dt);

		if (sparse && src->same >> p & 1u) {
			ZIPG_UNROLL
			for (int i = 0; i < n; i++)
				plane[8 * p + i] = src->value[p];
		} else if (code) {
			zipg_get_step_codes(dt, code, src->plane[p], step, plane + 8 * p);
		} else if (n == 2) {
			zipg_ld8_once(src->plane[p] + step * 256 + zipg_lane() * 8, &plane[8 * p], &plane[8 * p + 1]);
		} else {
			struct zipg_vec v = zipg_ld16_once(src->plane[p] + step * 512 + zipg_lane() * 16);

			ZIPG_UNROLL
			for (int i = 0; i < 4; i++)
				plane[8 * p + i] = v.w[i];
		}
	}
}

/* Join the two rows of a step and store them; `out` is this lane's vector of the first. */
static ZIPG_DEVICE void zipg_join_step(int dt, int aligned, uint8_t *out, const uint32_t *e, const uint32_t *plane)
{
	int qw = zipg_quad_words(dt), vq = zipg_vec_quads(dt);

	ZIPG_UNROLL
	for (int r = 0; r < 2; r++) {
		uint32_t w[4];

		ZIPG_UNROLL
		for (int i = 0; i < vq; i++) {
			int q = r * vq + i;
			uint32_t of[3] = { plane[q], plane[8 + q], plane[16 + q] };

			zipg_quad_join(dt, e[q], of, w + i * qw);
		}
		zipg_store_row(out + r * 512, aligned, w);
	}
}

/* The block out of its staged streams. The planes of the next step are on their way while one is decoded. */
static ZIPG_DEVICE void zipg_decode_streams(int dt, int sparse, int plain, int aligned, const struct zipg_source *src, const uint32_t *shared,
					    const struct zipg_map *m, struct zipg_reader *r, uint8_t *out)
{
	uint32_t plane[24], after[24], e[8];

	zipg_get_step(dt, sparse, src, 0, plane);
	ZIPG_NO_UNROLL
	for (uint32_t step = 0; step < 8; step++) {
		if (step < 7)
			zipg_get_step(dt, sparse, src, step + 1, after);
		ZIPG_UNROLL
		for (int q = 0; q < zipg_step_quads(dt); q++)
			e[q] = zipg_get_quad(dt, plain, shared, m, r);
		zipg_join_step(dt, aligned, out + step * 1024, e, plane);
		ZIPG_UNROLL
		for (int i = 0; i < 24; i++) {
			if (i % 8 < zipg_step_quads(dt) && i / 8 < zipg_planes(dt))
				plane[i] = after[i];
		}
	}
}

/* Constant and raw exponents. */
static ZIPG_DEVICE void zipg_decode_simple(int dt, int sparse, const struct zipg_source *src, const struct zipg_dir *d, uint8_t *out)
{
	uint32_t plane[24], e[8], all[8];

	ZIPG_NO_UNROLL
	for (uint32_t step = 0; step < 8; step++) {
		uint32_t rows = (uint32_t)zipg_pack_rows(dt), pack = step * 2 / rows, first = step * 2 % rows * zipg_vec_quads(dt);

		zipg_get_step(dt, sparse, src, step, plane);
		if (d->mode == 3) {
			zipg_load_quads(dt, zipg_raw_code(dt), d->data, pack, all);
			ZIPG_UNROLL
			for (uint32_t i = 0; i < 8; i++) {
				if (i >= first && i < first + zipg_step_quads(dt))
					e[i % zipg_step_quads(dt)] = all[i];
			}
		} else {
			ZIPG_UNROLL
			for (int i = 0; i < 8; i++)
				e[i] = d->base * 0x01010101u;
		}
		zipg_join_step(dt, 0, out + step * 1024, e, plane);
	}
}

/* Copy the block's data into shared memory; four loads are in flight at a time. */
static ZIPG_DEVICE void zipg_stage(const uint8_t *data, uint32_t vecs, uint32_t *buffer)
{
	struct zipg_vec *to = (struct zipg_vec *)buffer, v[4];

	for (uint32_t i = zipg_lane(); i < vecs; i += 128) {
		ZIPG_UNROLL
		for (uint32_t k = 0; k < 4; k++) {
			if (i + 32 * k < vecs)
				v[k] = zipg_ld16_once(data + (i + 32 * k) * 16);
		}
		ZIPG_UNROLL
		for (uint32_t k = 0; k < 4; k++) {
			if (i + 32 * k < vecs)
				to[i + 32 * k] = v[k];
		}
	}
	zipg_syncwarp();
}

/* Modes 0 and 1: all checks, then the streams. The block's data is staged at shared[buffer]. */
static ZIPG_DEVICE uint32_t zipg_decode_coded(int dt, int sparse, const struct zipg_source *src, const struct zipg_dir *d, uint32_t *shared,
					      uint32_t buffer, uint8_t *out)
{
	uint32_t units, sum, bytes, start, highest, used;
	struct zipg_reader r = { 0, 0, 0, 0, 0 };
	struct zipg_map m;

	zipg_stage(d->data, d->vecs, shared + buffer);
	units = ((const uint8_t *)(shared + buffer))[zipg_lane()];
	sum = zipg_scan(units);
	bytes = 32 + (zipg_shfl(sum, 31) + 1) / 2;
	if ((bytes + 15) / 16 != d->vecs)
		return ZIPG_ERROR_STREAM;
	/* Two bits before the stream, see zipg_reader. */
	start = buffer * 32 + 254 + (sum - units) * 4;
	r.next = start >> 5;
	r.lo = shared[r.next++];
	r.hi = shared[r.next++];
	r.pos = start & 31u;
	m.zero = d->mode;
	m.add = d->base * 0x01010101u;
	highest = 255 - d->base + d->mode;
	m.over = (zipg_ebits(dt) == 8 && highest < 15 ? 15 - highest : 0) * 0x01010101u;
	/* The usual case has a loop of its own. */
	if (ZIPG_LIKELY(!m.zero && !m.over && zipg_aligned(out)))
		zipg_decode_streams(dt, sparse, 1, 1, src, shared, &m, &r, out);
	else
		zipg_decode_streams(dt, sparse, 0, 0, src, shared, &m, &r, out);
	used = (r.next - 2) * 32 + r.pos - start;
	zipg_syncwarp();
	if (used > units * 4 || units * 4 - used > 3)
		return ZIPG_ERROR_STREAM;
	return r.error ? ZIPG_ERROR_SYMBOL : 0;
}

/* Sparse: the block's header, then the planes that are there; what is left is exponent data. */
static ZIPG_DEVICE uint32_t zipg_open_sparse(int dt, struct zipg_dir *d, struct zipg_source *src)
{
	uint32_t head[4], used = 1;
	struct zipg_vec v;

	if (d->vecs < 1)
		return ZIPG_ERROR_OFFSET;
	v = zipg_ld16(d->data);
	for (int i = 0; i < 4; i++)
		head[i] = v.w[i];
	src->same = head[0] & 0xffu;
	if (src->same >> zipg_planes(dt) || head[1] || head[2] || head[3])
		return ZIPG_ERROR_MODE;
	for (int p = 0; p < 3; p++) {
		uint32_t value = head[0] >> (8 + 8 * p) & 0xffu, code = (uint32_t)zipg_plane_code(dt, p);

		src->value[p] = value * 0x01010101u;
		if ((!(src->same >> p & 1u) && value) || (code && value >> code))
			return ZIPG_ERROR_MODE;
		src->plane[p] = d->data + used * 16;
		if (p < zipg_planes(dt) && !(src->same >> p & 1u))
			used += (uint32_t)zipg_plane_bytes(dt, p) / 16;
	}
	if (d->vecs < used)
		return ZIPG_ERROR_OFFSET;
	d->data += used * 16;
	d->vecs -= used;
	if (d->mode == 2 ? d->vecs != 0 : d->mode == 3 ? d->vecs * 16 != (uint32_t)zipg_raw_bytes(dt) : d->vecs < 2 || d->vecs > 257)
		return ZIPG_ERROR_OFFSET;
	return 0;
}

static ZIPG_DEVICE uint32_t zipg_decode_block(int dt, int sparse, const struct zipg_place *at, uint32_t which, struct zipg_dir *d,
					      uint32_t *shared, uint32_t buffer)
{
	const struct zipg_item *item = at->item;
	uint32_t block = at->unit * ZIPG_WARPS + which, error;
	uint8_t *out = at->plain + (uint64_t)block * ZIPG_BLOCK + zipg_lane() * 16u;
	struct zipg_source src;

	if (sparse) {
		error = zipg_open_sparse(dt, d, &src);
		if (error)
			return error;
	} else {
		src.same = 0;
		for (int p = 0; p < 3; p++)
			src.plane[p] = at->frame + item->pos_plane[p] + (uint64_t)block * zipg_plane_bytes(dt, p);
	}
	if (d->mode < 2)
		return zipg_decode_coded(dt, sparse, &src, d, shared, buffer, out);
	zipg_decode_simple(dt, sparse, &src, d, out);
	return 0;
}

static ZIPG_DEVICE void zipg_decode_group(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at, uint32_t *shared)
{
	const struct zipg_tables *tables = (const struct zipg_tables *)(uintptr_t)job->tables;
	uint32_t warp = zipg_warp(), error = 0, rounds, used;
	const struct zipg_vec *from;
	struct zipg_dir d;

	zipg_read_dir(dt, sparse, at, warp, &d);
	if (d.error) {
		if (zipg_tid() == 0)
			zipg_fail(job, at->index, d.error);
		return;
	}
	from = (const struct zipg_vec *)tables->dec[d.table];
	ZIPG_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		((struct zipg_vec *)shared)[zipg_tid() + i * ZIPG_THREADS] = zipg_ld16(from + zipg_tid() + i * ZIPG_THREADS);
	zipg_barrier();
	/* As a rule every warp decodes its block; where blocks are big (or may be) four warps at a time, with two buffers each. */
	rounds = sparse || d.big ? 2 : 1;
	used = rounds == 1 ? warp : (warp & 3u) * 2;
	for (uint32_t i = 0; i < rounds; i++) {
		if ((rounds == 1 || warp >> 2 == i) && at->unit * ZIPG_WARPS + warp < at->item->nblocks)
			error = zipg_decode_block(dt, sparse, at, warp, &d, shared, ZIPG_DEC_STAGE + used * zipg_buffer(dt));
		if (rounds == 2)
			zipg_barrier();
	}
	if (error)
		zipg_fail(job, at->index, error);
}

static ZIPG_DEVICE void zipg_entropy_decode(int dt, int sparse, const struct zipg_job *job)
{
	struct zipg_place at;

	zipg_locate(job, zipg_bid(), &at);
	zipg_decode_group(dt, sparse, job, &at, zipg_shared());
	zipg_decode_tail(&at);
	zipg_check_header(job, &at, dt, ZIPG_CODEC_ENTROPY, sparse);
}

#endif
