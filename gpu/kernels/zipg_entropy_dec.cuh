/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entropy decoder: a thread block has a group of eight blocks, a warp has one. Thread blocks stay for many groups and keep the table of
 * 4096 entries in shared memory as long as groups name the same one. A block's data is staged in shared memory, where every lane reads
 * its own stream. doc/format.md, section 6.
 *
 * Nothing in a stream is trusted: whatever its bits say, a lane reads at most 112 words beyond its start, which is inside
 * the shared memory of the thread block, and what it read too much shows in the check of its length.
 */
#ifndef ZIPG_ENTROPY_DEC_CUH
#define ZIPG_ENTROPY_DEC_CUH

#include "zipg_unit.cuh"

/* Shared memory in words: table, a staging buffer a warp, room to read beyond the last of them, work distribution. */
#define ZIPG_DEC_STAGE 4096u
#define ZIPG_DEC_BUFFER 528u   /* 2112 bytes; two of them hold the longest block, 4112 */
#define ZIPG_DEC_WORDS (ZIPG_DEC_STAGE + 8u * ZIPG_DEC_BUFFER + 128u)
#define ZIPG_DEC_QUEUE (ZIPG_DEC_WORDS - 16u)
#define ZIPG_DEC_SMALL 130u    /* vectors of 16 bytes that fit in one buffer with 8 words to spare */

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

/* Every warp reads and checks all entries of the group, so that all take the same way. Warp `which` gives the block. */
static ZIPG_DEVICE void zipg_read_dir(int dt, int sparse, const struct zipg_place *at, uint32_t which, struct zipg_dir *d)
{
	const struct zipg_item *item = at->item;
	uint32_t lane = zipg_lane(), first = at->unit * ZIPG_WARPS, off = 0, rest = 0, error = 0, big = 0;
	int used = lane < ZIPG_WARPS && first + lane < item->nblocks;

	if (used) {
		const uint8_t *p = at->frame + item->pos_dir + (uint64_t)(first + lane) * 8;
		uint32_t vecs, mode, base, table;

		off = zipg_ld4(p);
		rest = zipg_ld4(p + 4);
		vecs = rest & 0xffffu;
		base = rest >> 16 & 0xffu;
		table = rest >> 24 & 31u;
		mode = rest >> 29 & 3u;
		if (((uint64_t)off + vecs) * 16 > item->var_bytes)
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
			big = mode < 2 && vecs > ZIPG_DEC_SMALL;
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

/* A lane's stream: bits pos.. of hi:lo come next, `next` is the word behind hi. */
struct zipg_reader {
	const uint32_t *next;
	uint32_t lo, hi, pos;
	uint32_t error;        /* bits 4, 12: a symbol stands for an exponent that does not exist */
};

static ZIPG_DEVICE void zipg_advance(struct zipg_reader *r, uint32_t len)
{
	r->pos += len;
	if (r->pos >= 32) {
		r->lo = r->hi;
		r->hi = *r->next++;
		r->pos -= 32;
	}
}

/* How symbols become exponents: both bytes of a pair at once. */
struct zipg_map {
	uint32_t add;          /* the base */
	uint32_t over;         /* 15 - highest valid symbol, at least 0; added to a symbol it sets bit 4 when that is not valid */
	uint32_t zero;
};

static ZIPG_DEVICE uint32_t zipg_map_pair(const struct zipg_map *m, uint32_t s, struct zipg_reader *r)
{
	uint32_t used;

	s &= 0x0f0fu;
	r->error |= (s + m->over) & 0x1010u;
	if (!m->zero)
		return s + m->add;
	used = (s + 0x7f7fu) >> 7 & 0x0101u;
	return (s - used + m->add) & used * 0xffu;
}

/* Exponents of a pair that was escaped. The entry's length is consumed. */
static ZIPG_DEVICE uint32_t zipg_raw_pair(int dt, struct zipg_reader *r)
{
	uint32_t e = zipg_shr64(r->lo, r->hi, r->pos) & 0xffffu;

	zipg_advance(r, 16);
	if (zipg_ebits(dt) < 8)
		r->error |= (e & (0xffu << zipg_ebits(dt) & 0xffu) * 0x101u) ? 0x1010u : 0;
	return e;
}

/* Four exponents. `plain` streams need no check of their symbols and have no code for zero. */
static ZIPG_DEVICE uint32_t zipg_get_quad(int dt, int plain, const uint32_t *lut, const struct zipg_map *m, struct zipg_reader *r)
{
	uint32_t x = zipg_shr64(r->lo, r->hi, r->pos);
	uint32_t t0 = lut[x & 0xfffu], l0 = t0 >> 28, t1 = lut[x >> l0 & 0xfffu], l1 = t1 >> 28;
	uint32_t e0 = plain ? t0 + m->add : zipg_map_pair(m, t0, r), e1;

	if (ZIPG_UNLIKELY(t0 & 0x10000u)) {
		zipg_advance(r, l0);
		e0 = zipg_raw_pair(dt, r);
		l0 = 0;
		t1 = lut[zipg_shr64(r->lo, r->hi, r->pos) & 0xfffu];
		l1 = t1 >> 28;
	}
	e1 = plain ? t1 + m->add : zipg_map_pair(m, t1, r);
	if (ZIPG_UNLIKELY(t1 & 0x10000u)) {
		zipg_advance(r, l0 + l1);
		e1 = zipg_raw_pair(dt, r);
	} else {
		zipg_advance(r, l0 + l1);
	}
	e0 = zipg_perm(e0, e1, 0x5410);
	return zipg_ebits(dt) < 8 ? e0 & zipg_emask(dt) * 0x01010101u : e0;
}

/* Where the planes of the block are, and which are constant. */
struct zipg_source {
	const uint8_t *plane[3];
	uint32_t same;
	uint32_t value[3];
};

static ZIPG_DEVICE void zipg_get_planes(int dt, int sparse, const struct zipg_source *src, uint32_t pack, uint32_t *plane)
{
	ZIPG_UNROLL
	for (int p = 0; p < zipg_planes(dt); p++) {
		if (sparse && src->same >> p & 1u) {
			ZIPG_UNROLL
			for (int i = 0; i < 8; i++)
				plane[8 * p + i] = src->value[p];
		} else {
			zipg_load_quads(dt, zipg_plane_code(dt, p), src->plane[p], pack, plane + 8 * p);
		}
	}
}

/* The block out of its staged streams. */
static ZIPG_DEVICE void zipg_decode_streams(int dt, int sparse, int plain, const struct zipg_source *src, const uint32_t *lut,
					    const struct zipg_map *m, struct zipg_reader *r, uint8_t *out)
{
	uint32_t packs = (uint32_t)zipg_packs(dt), plane[24], after[24], e[8];

	zipg_get_planes(dt, sparse, src, 0, plane);
	ZIPG_NO_UNROLL
	for (uint32_t pack = 0; pack < packs; pack++) {
		if (pack + 1 < packs)
			zipg_get_planes(dt, sparse, src, pack + 1, after);
		ZIPG_UNROLL
		for (int q = 0; q < 8; q++)
			e[q] = zipg_get_quad(dt, plain, lut, m, r);
		zipg_join_pack(dt, out + pack * (512u * zipg_pack_rows(dt)), e, plane);
		ZIPG_UNROLL
		for (int i = 0; i < 8 * zipg_planes(dt); i++)
			plane[i] = after[i];
	}
}

/* Constant and raw exponents. */
static ZIPG_DEVICE void zipg_decode_simple(int dt, int sparse, const struct zipg_source *src, const struct zipg_dir *d, uint8_t *out)
{
	uint32_t plane[24], e[8];

	for (uint32_t pack = 0; pack < (uint32_t)zipg_packs(dt); pack++) {
		zipg_get_planes(dt, sparse, src, pack, plane);
		if (d->mode == 3) {
			zipg_load_quads(dt, zipg_raw_code(dt), d->data, pack, e);
		} else {
			ZIPG_UNROLL
			for (int i = 0; i < 8; i++)
				e[i] = d->base * 0x01010101u;
		}
		zipg_join_pack(dt, out + pack * (512u * zipg_pack_rows(dt)), e, plane);
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

/* Modes 0 and 1: all checks, then the streams. */
static ZIPG_DEVICE uint32_t zipg_decode_coded(int dt, int sparse, const struct zipg_source *src, const struct zipg_dir *d,
					      const uint32_t *lut, uint32_t *buffer, uint8_t *out)
{
	uint32_t units, sum, bytes, start, highest, used;
	struct zipg_reader r = { 0, 0, 0, 0, 0 };
	struct zipg_map m;

	zipg_stage(d->data, d->vecs, buffer);
	units = ((const uint8_t *)buffer)[zipg_lane()];
	sum = zipg_scan(units);
	bytes = 32 + (zipg_shfl(sum, 31) + 1) / 2;
	if ((bytes + 15) / 16 != d->vecs)
		return ZIPG_ERROR_STREAM;
	start = 256 + (sum - units) * 4;
	r.next = buffer + (start >> 5);
	r.lo = *r.next++;
	r.hi = *r.next++;
	r.pos = start & 31u;
	m.zero = d->mode;
	m.add = d->base * 0x101u;
	highest = 255 - d->base + d->mode;
	m.over = (zipg_ebits(dt) == 8 && highest < 15 ? 15 - highest : 0) * 0x101u;
	if (!m.zero && !m.over)
		zipg_decode_streams(dt, sparse, 1, src, lut, &m, &r, out);
	else
		zipg_decode_streams(dt, sparse, 0, src, lut, &m, &r, out);
	used = (uint32_t)(r.next - 2 - buffer) * 32 + r.pos - start;
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
					      const uint32_t *lut, uint32_t *buffer)
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
		return zipg_decode_coded(dt, sparse, &src, d, lut, buffer, out);
	zipg_decode_simple(dt, sparse, &src, d, out);
	return 0;
}

/* One group. `loaded` is the table that is in shared memory. Returns the table that is there now. */
static ZIPG_DEVICE uint32_t zipg_decode_group(int dt, int sparse, const struct zipg_job *job, const struct zipg_place *at,
					      uint32_t *shared, uint32_t loaded)
{
	const struct zipg_tables *tables = (const struct zipg_tables *)(uintptr_t)job->tables;
	uint32_t warp = zipg_warp(), error = 0, rounds, used;
	struct zipg_dir d;

	zipg_read_dir(dt, sparse, at, warp, &d);
	if (d.error) {
		if (zipg_tid() == 0)
			zipg_fail(job, at, d.error);
		return loaded;
	}
	if (d.table != loaded) {
		const struct zipg_vec *from = (const struct zipg_vec *)tables->dec[d.table];

		zipg_barrier();
		ZIPG_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			((struct zipg_vec *)shared)[zipg_tid() + i * ZIPG_THREADS] = zipg_ld16(from + zipg_tid() + i * ZIPG_THREADS);
		zipg_barrier();
	}
	/* As a rule every warp decodes its block; where blocks are big (or may be) four warps at a time, with two buffers each. */
	rounds = sparse || d.big ? 2 : 1;
	used = rounds == 1 ? warp : (warp & 3u) * 2;
	for (uint32_t i = 0; i < rounds; i++) {
		if ((rounds == 1 || warp >> 2 == i) && at->unit * ZIPG_WARPS + warp < at->item->nblocks)
			error = zipg_decode_block(dt, sparse, at, warp, &d, shared, shared + ZIPG_DEC_STAGE + used * ZIPG_DEC_BUFFER);
		if (rounds == 2)
			zipg_barrier();
	}
	if (error)
		zipg_fail(job, at, error);
	return d.table;
}

static ZIPG_DEVICE void zipg_entropy_decode(int dt, int sparse, const struct zipg_job *job)
{
	uint32_t *shared = zipg_shared(), *words = shared + ZIPG_DEC_QUEUE, loaded = ~0u;
	int last;

	for (uint32_t u = zipg_first_unit(job, words, &last); u < job->nunits; u = zipg_next_unit(job, u, words, last)) {
		struct zipg_place at;
		const struct zipg_item *item;

		zipg_locate(job, u, &at);
		item = at.item;
		if (at.unit == 0 && zipg_tid() == 0) {
			uint32_t error = zipg_check_header(at.frame, dt, ZIPG_CODEC_ENTROPY, sparse, item->nbytes,
							   item->pos_var + item->var_bytes, item->var_bytes);

			if (error)
				zipg_fail(job, &at, error);
		}
		loaded = zipg_decode_group(dt, sparse, job, &at, shared, loaded);
		zipg_decode_tail(&at);
		zipg_finish_decode(job, &at);
	}
}

#endif
