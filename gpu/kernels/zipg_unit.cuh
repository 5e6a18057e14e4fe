/* SPDX-License-Identifier: BSD-3-Clause */
/* What all kernels share: which unit a thread block works on, tensor rows of any alignment, planes, and the end of a frame. */
#ifndef ZIPG_UNIT_CUH
#define ZIPG_UNIT_CUH

#include "zipg_elem.cuh"

#define ZIPG_ERROR_OFFSET 11u  /* ZIPC_ERR_*, negated */
#define ZIPG_ERROR_TABLE 12u
#define ZIPG_ERROR_MODE 13u
#define ZIPG_ERROR_SYMBOL 14u
#define ZIPG_ERROR_STREAM 15u

#define ZIPG_CODEC_RAW 0
#define ZIPG_CODEC_FIXED 1
#define ZIPG_CODEC_ENTROPY 2
#define ZIPG_HEADER 64u
#define ZIPG_MAGIC 0x3146505au

/* Where a unit is. */
struct zipg_place {
	const struct zipg_item *item;
	uint8_t *frame;
	uint8_t *plain;
	uint32_t index;        /* of the frame, in state and result */
	uint32_t unit;         /* inside its frame */
};

static ZIPG_DEVICE void zipg_locate(const struct zipg_job *job, uint32_t unit, struct zipg_place *at)
{
	const struct zipg_item *item = &job->item;
	uint32_t f = 0;

	if (unit >= item->units) {
		f = unit / item->units;
		unit -= f * item->units;
	}
	at->item = item;
	at->unit = unit;
	at->index = f;
	at->plain = (uint8_t *)(uintptr_t)item->plain;
	at->frame = (uint8_t *)(uintptr_t)item->frame;
	if (f) {
		at->plain += f * item->nbytes;
		at->frame += f * item->step;
	}
}

/* ---- work distribution ---- */

/*
 * As a rule thread block i takes unit i and is done. Encoders have second kernels that are held to a share of the multiprocessors (a loop in the
 * first ones would cost registers): thread blocks on other multiprocessors retire at once and the rest draw tickets. The last to
 * retire draws what is left, so the work gets done even if no thread block landed on the chosen ones. `words` are four shared words
 * of this machinery: what it remembers it keeps there, not in registers.
 */
#define ZIPG_QUEUE_WORDS 4u

static ZIPG_DEVICE uint32_t zipg_broadcast_add(uint32_t *p, uint32_t *words)
{
	uint32_t v;

	zipg_barrier();
	if (zipg_tid() == 0)
		words[0] = zipg_atomic_add(p, 1);
	zipg_barrier();
	v = words[0];
	zipg_barrier();
	return v;
}

/* The next ticket; the last thread block to find none left clears the queue. */
static ZIPG_DEVICE uint32_t zipg_draw_unit(const struct zipg_job *job, uint32_t *words)
{
	struct zipg_queue *queue = (struct zipg_queue *)(uintptr_t)job->queue;
	uint32_t unit = zipg_broadcast_add(&queue->ticket, words);

	if (unit < job->nunits)
		return unit;
	if (words[2] || zipg_broadcast_add(&queue->retired, words) == zipg_grid() - 1) {
		if (zipg_tid() == 0) {
			queue->ticket = 0;
			queue->retired = 0;
		}
	}
	return ~0u;
}

static ZIPG_DEVICE uint32_t zipg_first_unit(const struct zipg_job *job, uint32_t *words)
{
	struct zipg_queue *queue = (struct zipg_queue *)(uintptr_t)job->queue;

	if (zipg_tid() == 0) {
		words[1] = zipg_smid() >= job->share;
		words[2] = 0;
	}
	zipg_barrier();
	if (words[1]) {
		if (zipg_broadcast_add(&queue->retired, words) != zipg_grid() - 1)
			return ~0u;
		if (zipg_tid() == 0)
			words[2] = 1;
	}
	return zipg_draw_unit(job, words);
}

/* ---- tensor rows ---- */

/* 16 bytes at any address, by aligned words none of which lies wholly outside of them. */
static ZIPG_DEVICE struct zipg_vec zipg_ld16_any(const uint8_t *p)
{
	uint32_t off = (uint32_t)(uintptr_t)p & 3u;
	const uint32_t *q = (const uint32_t *)(p - off);
	uint32_t w[5];
	struct zipg_vec v;

	ZIPG_UNROLL
	for (int i = 0; i < 4; i++)
		w[i] = zipg_ld4_edge(q + i);
	w[4] = off ? zipg_ld4_edge(q + 4) : 0;
	ZIPG_UNROLL
	for (int i = 0; i < 4; i++)
		v.w[i] = zipg_shr64(w[i], w[i + 1], off * 8);
	return v;
}

static ZIPG_DEVICE int zipg_aligned(const uint8_t *p) { return ((uintptr_t)p & 15u) == 0; }

/*
 * `rows` rows of this lane from the block row at p (which is the lane's own vector). Loops that must be fast come in a
 * version for `aligned` tensors, without the code for others.
 */
static ZIPG_DEVICE void zipg_load_rows(const uint8_t *p, int rows, int aligned, uint32_t *w)
{
	if (aligned || ZIPG_LIKELY(zipg_aligned(p))) {
		ZIPG_UNROLL
		for (int r = 0; r < rows; r++) {
			struct zipg_vec v = zipg_ld16(p + r * 512);

			ZIPG_UNROLL
			for (int i = 0; i < 4; i++)
				w[4 * r + i] = v.w[i];
		}
		return;
	}
	ZIPG_UNROLL
	for (int r = 0; r < rows; r++) {
		struct zipg_vec v = zipg_ld16_any(p + r * 512);

		ZIPG_UNROLL
		for (int i = 0; i < 4; i++)
			w[4 * r + i] = v.w[i];
	}
}

/*
 * Store a row of the tensor at any address; `p` is this lane's vector and all 32 lanes store. Whole words are stored aligned: a lane
 * gets the bytes that spill into its first word from the lane below; only the two ends of the row are stored by bytes.
 */
static ZIPG_DEVICE void zipg_st16_any(uint8_t *p, struct zipg_vec v)
{
	uint32_t off = (uint32_t)(uintptr_t)p & 3u, lane = zipg_lane();
	uint32_t below = zipg_shfl_up(v.w[3], 1), s = 32 - off * 8;
	uint8_t *q = p - off;

	if (off == 0) {
		ZIPG_UNROLL
		for (int i = 0; i < 4; i++)
			zipg_st4(q + 4 * i, v.w[i]);
		return;
	}
	if (lane) {
		zipg_st4(q, zipg_shr64(below, v.w[0], s));
	} else {
		for (uint32_t i = 0; i < 4 - off; i++)
			zipg_st1(p + i, v.w[0] >> 8 * i);
	}
	ZIPG_UNROLL
	for (int i = 1; i < 4; i++)
		zipg_st4(q + 4 * i, zipg_shr64(v.w[i - 1], v.w[i], s));
	if (lane == 31) {
		for (uint32_t i = 0; i < off; i++)
			zipg_st1(q + 16 + i, v.w[3] >> (s + 8 * i));
	}
}

static ZIPG_DEVICE void zipg_store_row(uint8_t *p, int aligned, const uint32_t *w)
{
	struct zipg_vec v = zipg_vec4(w[0], w[1], w[2], w[3]);

	if (aligned || ZIPG_LIKELY(zipg_aligned(p)))
		zipg_st16(p, v);
	else
		zipg_st16_any(p, v);
}

/* All threads copy n bytes between any addresses. */
static ZIPG_DEVICE void zipg_copy_bytes(uint8_t *dst, const uint8_t *src, uint32_t n)
{
	ZIPG_NO_UNROLL
	for (uint32_t i = zipg_tid(); i < n; i += ZIPG_THREADS)
		zipg_st1(dst + i, zipg_ld1(src + i));
}

/* All threads copy n bytes; whole rows as vectors, both sides at any address. */
static ZIPG_DEVICE void zipg_copy(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	uint32_t rows = (uint32_t)(n / 512), r = zipg_warp();
	uint32_t w[16];

	for (; r + 3 * ZIPG_WARPS < rows; r += 4 * ZIPG_WARPS) {
		ZIPG_UNROLL
		for (int k = 0; k < 4; k++)
			zipg_load_rows(src + (r + k * ZIPG_WARPS) * 512u + zipg_lane() * 16u, 1, 0, w + 4 * k);
		ZIPG_UNROLL
		for (int k = 0; k < 4; k++)
			zipg_store_row(dst + (r + k * ZIPG_WARPS) * 512u + zipg_lane() * 16u, 0, w + 4 * k);
	}
	for (; r < rows; r += ZIPG_WARPS) {
		zipg_load_rows(src + r * 512u + zipg_lane() * 16u, 1, 0, w);
		zipg_store_row(dst + r * 512u + zipg_lane() * 16u, 0, w);
	}
	zipg_copy_bytes(dst + rows * 512u, src + rows * 512u, (uint32_t)(n & 511u));
}

/* ---- planes ---- */

/* Store the quads of two rows, pair `pair` of a block, into a byte plane. */
static ZIPG_DEVICE void zipg_store_pair(int dt, uint8_t *plane, uint32_t pair, const uint32_t *q)
{
	if (dt == ZIPG_FP32)
		zipg_st8(plane + pair * 256 + zipg_lane() * 8, q[0], q[1]);
	else
		zipg_st16(plane + pair * 512 + zipg_lane() * 16, zipg_vec4(q[0], q[1], q[2], q[3]));
}

/*
 * Store the eight quads of a pack into a plane of a block (doc/format.md, section 2): a code plane of `bits` bits, or a byte plane when
 * `bits` is 0. `plane` is where the plane of the block starts.
 */
static ZIPG_DEVICE void zipg_store_quads(int dt, int bits, uint8_t *plane, uint32_t pack, const uint32_t *q)
{
	uint32_t lane = zipg_lane();

	if (bits) {
		uint32_t word[5];

		zipg_pack_codes(bits, q, word);
		ZIPG_UNROLL
		for (int i = 0; i < bits; i++)
			zipg_st4(plane + ((pack * bits + i) * 32 + lane) * 4, word[i]);
	} else {
		int n = zipg_pack_rows(dt) / 2;

		ZIPG_UNROLL
		for (int i = 0; i < n; i++)
			zipg_store_pair(dt, plane, pack * n + i, q + i * 8 / n);
	}
}

static ZIPG_DEVICE void zipg_load_quads(int dt, int bits, const uint8_t *plane, uint32_t pack, uint32_t *q)
{
	uint32_t lane = zipg_lane();

	if (bits) {
		uint32_t word[5];

		ZIPG_UNROLL
		for (int i = 0; i < bits; i++)
			word[i] = zipg_ld4_once(plane + ((pack * bits + i) * 32 + lane) * 4);
		zipg_unpack_codes(bits, word, q);
	} else if (dt == ZIPG_FP32) {
		ZIPG_UNROLL
		for (int i = 0; i < 4; i++)
			zipg_ld8_once(plane + (pack * 4 + i) * 256 + lane * 8, &q[2 * i], &q[2 * i + 1]);
	} else {
		ZIPG_UNROLL
		for (int i = 0; i < 2; i++) {
			struct zipg_vec v = zipg_ld16_once(plane + (pack * 2 + i) * 512 + lane * 16);

			ZIPG_UNROLL
			for (int k = 0; k < 4; k++)
				q[4 * i + k] = v.w[k];
		}
	}
}

/* Store plane p of the pack whose rows are w. */
static ZIPG_DEVICE void zipg_store_plane(int dt, int p, uint8_t *plane, uint32_t pack, const uint32_t *w)
{
	uint32_t q[8];

	ZIPG_UNROLL
	for (int i = 0; i < 8; i++)
		q[i] = zipg_quad_plane(dt, p, w + i * zipg_quad_words(dt));
	zipg_store_quads(dt, zipg_plane_code(dt, p), plane, pack, q);
}

/* Bits of the code plane that raw exponents are, 0 for a byte plane. */
static ZIPG_DEVICE int zipg_raw_code(int dt) { return zipg_ebits(dt) == 8 ? 0 : zipg_ebits(dt); }

/* Join a pack and store its rows; `out` is this lane's vector of the pack's first row. */
static ZIPG_DEVICE void zipg_join_pack(int dt, uint8_t *out, const uint32_t *e, const uint32_t *plane)
{
	int qw = zipg_quad_words(dt), vq = zipg_vec_quads(dt);

	ZIPG_UNROLL
	for (int r = 0; r < zipg_pack_rows(dt); r++) {
		uint32_t w[4];

		ZIPG_UNROLL
		for (int i = 0; i < vq; i++) {
			int q = r * vq + i;
			uint32_t of[3] = { plane[q], plane[8 + q], plane[16 + q] };

			zipg_quad_join(dt, e[q], of, w + i * qw);
		}
		zipg_store_row(out + r * 512, 0, w);
	}
}

/* ---- ends of a frame ---- */

static ZIPG_DEVICE struct zipg_result *zipg_result_of(const struct zipg_job *job, uint32_t index)
{
	return (struct zipg_result *)(uintptr_t)job->result + index;
}

/* Decoders: the frame is bad. Any of several errors may win. */
static ZIPG_DEVICE void zipg_fail(const struct zipg_job *job, uint32_t index, uint32_t error)
{
	zipg_store_volatile((uint32_t *)&zipg_result_of(job, index)->status, 0u - error);
}

/* Version, dtype, codec and flags as they stand in the header. */
static ZIPG_DEVICE uint32_t zipg_kinds(int dt, int codec, int sparse)
{
	return 1u | (uint32_t)dt << 8 | (uint32_t)codec << 16 | (uint32_t)sparse << 24;
}

static ZIPG_DEVICE void zipg_put_header(uint8_t *frame, uint32_t kinds, uint64_t nbytes, uint64_t frame_bytes, uint64_t var_bytes)
{
	struct zipg_vec zero = zipg_vec4(0, 0, 0, 0);

	zipg_st16(frame, zipg_vec4(ZIPG_MAGIC, kinds, (uint32_t)nbytes, (uint32_t)(nbytes >> 32)));
	zipg_st16(frame + 16, zipg_vec4((uint32_t)frame_bytes, (uint32_t)(frame_bytes >> 32), (uint32_t)var_bytes,
					(uint32_t)(var_bytes >> 32)));
	zipg_st16(frame + 32, zero);
	zipg_st16(frame + 48, zero);
}

static ZIPG_DEVICE uint64_t zipg_ld8_header(const uint8_t *p) { return zipg_ld4(p) | (uint64_t)zipg_ld4(p + 4) << 32; }

/* The length of the variable part that a decoder goes by: what the host said, or what the header says up to that. */
static ZIPG_DEVICE uint64_t zipg_var_bytes(const struct zipg_item *item, const uint8_t *frame)
{
	uint64_t var_bytes = item->var_bytes, said;

	if (!item->own_sizes)
		return var_bytes;
	said = zipg_ld8_header(frame + 24);
	return said < var_bytes ? said : var_bytes;
}

/* The receiver's check of the header against what it was told the frame is, by one thread of the frame. */
static ZIPG_DEVICE void zipg_header_ok(const struct zipg_job *job, uint32_t index, const uint8_t *h, uint32_t want)
{
	uint64_t var_bytes = zipg_var_bytes(&job->item, h), frame_bytes = job->item.pos_var + var_bytes;
	uint32_t kinds, rest = 0, error = 0;

	kinds = zipg_ld4(h + 4);
	ZIPG_NO_UNROLL
	for (int i = 32; i < 64; i += 4)
		rest |= zipg_ld4(h + i);
	if (zipg_ld4(h) != ZIPG_MAGIC)
		error = 4;
	else if ((kinds ^ want) & 0xffu)
		error = 5;
	else if ((kinds ^ want) >> 16 & 0xffu)
		error = 7;
	else if ((kinds ^ want) >> 8 & 0xffu)
		error = 6;
	else if (kinds != want)
		error = 8;
	else if (zipg_ld8_header(h + 8) != job->item.nbytes || zipg_ld8_header(h + 16) != frame_bytes ||
		 zipg_ld8_header(h + 24) != var_bytes || (var_bytes & 15u))
		error = 9;
	else if (rest)
		error = 10;
	if (error)
		zipg_fail(job, index, error);
	if (job->item.own_sizes)
		zipg_result_of(job, index)->frame_bytes = frame_bytes;
}

static ZIPG_DEVICE void zipg_check_header(const struct zipg_job *job, const struct zipg_place *at, int dt, int codec, int sparse)
{
	if (ZIPG_UNLIKELY(at->unit == 0) && zipg_tid() == 0)
		zipg_header_ok(job, at->index, at->frame, zipg_kinds(dt, codec, sparse));
}

static ZIPG_DEVICE void zipg_zero_gap(uint8_t *frame, uint64_t from)
{
	ZIPG_NO_UNROLL
	for (uint32_t i = (uint32_t)(from & 15u); i && i < 16; i++)
		zipg_st1(frame + (from & ~(uint64_t)15) + i, 0);
}

/*
 * Space in the variable part, in two steps between which a thread block has other work to do: thread 0 asks for `vecs` times 16 bytes,
 * and later looks at the answer. Whether the place is inside the bound of the frame is the caller's to check.
 */
static ZIPG_DEVICE uint64_t zipg_reserve(const struct zipg_job *job, const struct zipg_place *at, uint32_t vecs)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + at->index;

	return zipg_atomic_add64(&state->placed, (uint64_t)1 << 40 | vecs);
}

/* The last unit of a frame to ask knows its size: it writes the header. */
static ZIPG_DEVICE void zipg_end_frame(const struct zipg_job *job, uint32_t index, uint8_t *frame, uint64_t var_bytes, uint32_t kinds, uint64_t dir_bytes)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + index;
	struct zipg_result *result = zipg_result_of(job, index);
	const struct zipg_item *item = &job->item;
	uint64_t frame_bytes = item->pos_var + var_bytes;

	state->placed = 0;
	if (var_bytes > item->var_bytes || frame_bytes > item->nbytes + ZIPG_HEADER) {
		result->status = ZIPG_STATUS_RAW;
		result->frame_bytes = item->nbytes + ZIPG_HEADER;
		return;
	}
	zipg_put_header(frame, kinds, item->nbytes, frame_bytes, var_bytes);
	zipg_zero_gap(frame, item->pos_dir + dir_bytes);
	result->frame_bytes = frame_bytes;
}

/* Returns the place in units of 16 bytes. */
static ZIPG_DEVICE uint32_t zipg_reserved(const struct zipg_job *job, const struct zipg_place *at, uint64_t was, uint32_t vecs, uint32_t kinds,
					  uint64_t dir_bytes)
{
	if (ZIPG_UNLIKELY(was >> 40 == job->item.units - 1))
		zipg_end_frame(job, at->index, at->frame, ((uint64_t)(uint32_t)was + vecs) * 16, kinds, dir_bytes);
	return (uint32_t)was;
}

/* Encoders: the header of a raw frame, by the first unit. */
static ZIPG_DEVICE void zipg_reserve_raw(const struct zipg_job *job, const struct zipg_place *at)
{
	uint64_t frame_bytes = at->item->nbytes + ZIPG_HEADER;

	if (at->unit != 0 || zipg_tid() != 0)
		return;
	zipg_put_header(at->frame, zipg_kinds(0, ZIPG_CODEC_RAW, 0), at->item->nbytes, frame_bytes, 0);
	zipg_result_of(job, at->index)->status = ZIPG_STATUS_IS_RAW;
	zipg_result_of(job, at->index)->frame_bytes = frame_bytes;
}

/*
 * All threads at the end of an encoder's unit. Only a launch that reports progress waits here for its stores: that
 * costs more than a tenth of the speed (doc/gpu.md).
 */
static ZIPG_DEVICE void zipg_count_done(const struct zipg_job *job, uint32_t index)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + index;

	zipg_barrier();
	if (zipg_tid() != 0)
		return;
	zipg_fence();
	if (zipg_atomic_add(&state->done, 1) + 1 != job->item.units)
		return;
	state->done = 0;
	zipg_fence_system();
	zipg_store_volatile(&zipg_result_of(job, index)->stamp, job->stamp);
}

static ZIPG_DEVICE void zipg_unit_done(const struct zipg_job *job, const struct zipg_place *at)
{
	if (ZIPG_UNLIKELY(job->what & ZIPG_WHAT_PROGRESS))
		zipg_count_done(job, at->index);
}

/* The tail is the last unit's, with the gap behind it. */
static ZIPG_DEVICE void zipg_encode_tail(const struct zipg_place *at)
{
	const struct zipg_item *item = at->item;
	uint64_t from = (uint64_t)item->nblocks * ZIPG_BLOCK;

	if (at->unit + 1 != item->units || from == item->nbytes)
		return;
	zipg_copy_bytes(at->frame + item->pos_tail, at->plain + from, (uint32_t)(item->nbytes - from));
	if (zipg_tid() == 0)
		zipg_zero_gap(at->frame, item->pos_tail + item->nbytes - from);
}

static ZIPG_DEVICE void zipg_decode_tail(const struct zipg_place *at)
{
	const struct zipg_item *item = at->item;
	uint64_t from = (uint64_t)item->nblocks * ZIPG_BLOCK;

	if (at->unit + 1 == item->units && from != item->nbytes)
		zipg_copy_bytes(at->plain + from, at->frame + item->pos_tail, (uint32_t)(item->nbytes - from));
}

#endif
