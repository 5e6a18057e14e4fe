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
	uint32_t lo = 0, hi = job->nitems, f;
	const struct zipg_item *item;

	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (job->item[mid].first_unit <= unit)
			lo = mid;
		else
			hi = mid;
	}
	item = &job->item[lo];
	unit -= item->first_unit;
	f = unit < item->units ? 0 : unit / item->units;
	at->item = item;
	at->unit = unit - f * item->units;
	at->index = item->first_frame + f;
	at->plain = (uint8_t *)(uintptr_t)item->plain + f * item->nbytes;
	at->frame = (uint8_t *)(uintptr_t)item->frame + f * item->step;
}

/* ---- work distribution ---- */

/*
 * Without a share, thread block i takes unit i, i + grid, ... With one, thread blocks on other multiprocessors retire at once and the rest draw
 * tickets. The last to retire draws what is left, so the work gets done even if no thread block landed on the chosen ones.
 */
static ZIPG_DEVICE uint32_t zipg_broadcast_add(uint32_t *p, uint32_t *shared)
{
	uint32_t v;

	zipg_barrier();
	if (zipg_tid() == 0)
		*shared = zipg_atomic_add(p, 1);
	zipg_barrier();
	v = *shared;
	zipg_barrier();
	return v;
}

/* The next ticket; the last thread block to find none left clears the queue. */
static ZIPG_DEVICE uint32_t zipg_draw_unit(const struct zipg_job *job, uint32_t *shared, int last)
{
	struct zipg_queue *queue = (struct zipg_queue *)(uintptr_t)job->queue;
	uint32_t unit = zipg_broadcast_add(&queue->ticket, shared);

	if (unit < job->nunits)
		return unit;
	if (last || zipg_broadcast_add(&queue->retired, shared) == zipg_grid() - 1) {
		if (zipg_tid() == 0) {
			queue->ticket = 0;
			queue->retired = 0;
		}
	}
	return ~0u;
}

static ZIPG_DEVICE uint32_t zipg_first_unit(const struct zipg_job *job, uint32_t *shared, int *last)
{
	struct zipg_queue *queue = (struct zipg_queue *)(uintptr_t)job->queue;

	*last = 0;
	if (ZIPG_LIKELY(!job->share))
		return zipg_bid();
	if (zipg_tid() == 0)
		shared[1] = zipg_smid() >= job->share;
	zipg_barrier();
	if (shared[1]) {
		if (zipg_broadcast_add(&queue->retired, shared) != zipg_grid() - 1)
			return ~0u;
		*last = 1;
	}
	return zipg_draw_unit(job, shared, *last);
}

static ZIPG_DEVICE uint32_t zipg_next_unit(const struct zipg_job *job, uint32_t unit, uint32_t *shared, int last)
{
	return ZIPG_LIKELY(!job->share) ? unit + zipg_grid() : zipg_draw_unit(job, shared, last);
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
		w[i] = zipg_ld4(q + i);
	w[4] = off ? zipg_ld4(q + 4) : 0;
	ZIPG_UNROLL
	for (int i = 0; i < 4; i++)
		v.w[i] = zipg_shr64(w[i], w[i + 1], off * 8);
	return v;
}

/* `rows` rows of this lane from the block row at p (which is the lane's own vector). */
static ZIPG_DEVICE void zipg_load_rows(const uint8_t *p, int rows, uint32_t *w)
{
	if (ZIPG_LIKELY(((uintptr_t)p & 15u) == 0)) {
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

static ZIPG_DEVICE void zipg_store_row(uint8_t *p, const uint32_t *w)
{
	struct zipg_vec v = zipg_vec4(w[0], w[1], w[2], w[3]);

	if (ZIPG_LIKELY(((uintptr_t)p & 15u) == 0))
		zipg_st16(p, v);
	else
		zipg_st16_any(p, v);
}

/* All threads copy n bytes between any addresses. */
static ZIPG_DEVICE void zipg_copy_bytes(uint8_t *dst, const uint8_t *src, uint32_t n)
{
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
			zipg_load_rows(src + (r + k * ZIPG_WARPS) * 512u + zipg_lane() * 16u, 1, w + 4 * k);
		ZIPG_UNROLL
		for (int k = 0; k < 4; k++)
			zipg_store_row(dst + (r + k * ZIPG_WARPS) * 512u + zipg_lane() * 16u, w + 4 * k);
	}
	for (; r < rows; r += ZIPG_WARPS) {
		zipg_load_rows(src + r * 512u + zipg_lane() * 16u, 1, w);
		zipg_store_row(dst + r * 512u + zipg_lane() * 16u, w);
	}
	zipg_copy_bytes(dst + rows * 512u, src + rows * 512u, (uint32_t)(n & 511u));
}

/* ---- planes ---- */

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
	} else if (dt == ZIPG_FP32) {
		ZIPG_UNROLL
		for (int i = 0; i < 4; i++)
			zipg_st8(plane + (pack * 4 + i) * 256 + lane * 8, q[2 * i], q[2 * i + 1]);
	} else {
		ZIPG_UNROLL
		for (int i = 0; i < 2; i++)
			zipg_st16(plane + (pack * 2 + i) * 512 + lane * 16,
				  zipg_vec4(q[4 * i], q[4 * i + 1], q[4 * i + 2], q[4 * i + 3]));
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
		zipg_store_row(out + r * 512, w);
	}
}

/* ---- ends of a frame ---- */

static ZIPG_DEVICE void zipg_fail(const struct zipg_job *job, const struct zipg_place *at, uint32_t error)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state;

	zipg_atomic_cas(&state[at->index].error, 0, error);
}

static ZIPG_DEVICE void zipg_put_header(uint8_t *frame, int dt, int codec, int sparse, uint64_t nbytes, uint64_t frame_bytes,
					 uint64_t var_bytes)
{
	struct zipg_vec zero = zipg_vec4(0, 0, 0, 0);

	zipg_st16(frame, zipg_vec4(ZIPG_MAGIC, 1u | (uint32_t)dt << 8 | (uint32_t)codec << 16 | (uint32_t)sparse << 24,
				   (uint32_t)nbytes, (uint32_t)(nbytes >> 32)));
	zipg_st16(frame + 16, zipg_vec4((uint32_t)frame_bytes, (uint32_t)(frame_bytes >> 32), (uint32_t)var_bytes,
					(uint32_t)(var_bytes >> 32)));
	zipg_st16(frame + 32, zero);
	zipg_st16(frame + 48, zero);
}

/* The receiver's check of the header against what it was told the frame is. */
static ZIPG_DEVICE uint32_t zipg_check_header(const uint8_t *frame, int dt, int codec, int sparse, uint64_t nbytes,
					      uint64_t frame_bytes, uint64_t var_bytes)
{
	const uint32_t *h = (const uint32_t *)frame;
	uint32_t kinds = zipg_ld4(h + 1), rest = 0;

	for (int i = 8; i < 16; i++)
		rest |= zipg_ld4(h + i);
	if (zipg_ld4(h) != ZIPG_MAGIC)
		return 4;
	if ((kinds & 0xffu) != 1)
		return 5;
	if ((kinds >> 16 & 0xffu) != (uint32_t)codec)
		return 7;
	if ((kinds >> 8 & 0xffu) != (uint32_t)dt)
		return 6;
	if (kinds >> 24 != (uint32_t)sparse)
		return 8;
	if (zipg_ld4(h + 2) != (uint32_t)nbytes || zipg_ld4(h + 3) != (uint32_t)(nbytes >> 32) ||
	    zipg_ld4(h + 4) != (uint32_t)frame_bytes || zipg_ld4(h + 5) != (uint32_t)(frame_bytes >> 32) ||
	    zipg_ld4(h + 6) != (uint32_t)var_bytes || zipg_ld4(h + 7) != (uint32_t)(var_bytes >> 32))
		return 9;
	return rest ? 10 : 0;
}

static ZIPG_DEVICE void zipg_zero_gap(uint8_t *frame, uint64_t from)
{
	for (uint32_t i = (uint32_t)(from & 15u); i && i < 16; i++)
		zipg_st1(frame + (from & ~(uint64_t)15) + i, 0);
}

/* Tell the host that frame `index` is finished. One thread calls it, after everything it reports was written. */
static ZIPG_DEVICE void zipg_report(const struct zipg_job *job, uint32_t index, uint64_t frame_bytes, int32_t status)
{
	struct zipg_result *result = (struct zipg_result *)(uintptr_t)job->result + index;

	result->frame_bytes = frame_bytes;
	result->status = status;
	zipg_fence_system();
	zipg_store_volatile(&result->stamp, job->stamp);
}

/*
 * Called by all threads at the end of a unit; true for the thread that ends the frame: everything else in the frame is
 * then written and visible, and *state is its to clear.
 */
static ZIPG_DEVICE int zipg_unit_done(const struct zipg_job *job, const struct zipg_place *at)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + at->index;

	zipg_barrier();
	if (zipg_tid() != 0)
		return 0;
	zipg_fence();
	if (zipg_atomic_add(&state->done, 1) + 1 != at->item->units)
		return 0;
	zipg_fence();
	return 1;
}

/* Reserve vecs * 16 bytes of the variable part. Whether they are inside the bound of the frame is the caller's to check. */
static ZIPG_DEVICE uint32_t zipg_reserve(const struct zipg_job *job, const struct zipg_place *at, uint32_t vecs)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + at->index;

	return vecs ? zipg_atomic_add(&state->used, vecs) : 0;
}

/* Encoders: the header, or the verdict that the frame does not shrink. */
static ZIPG_DEVICE void zipg_finish_encode(const struct zipg_job *job, const struct zipg_place *at, int dt, int codec, int sparse,
					   uint64_t dir_bytes)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + at->index;
	const struct zipg_item *item = at->item;
	uint64_t var_bytes, frame_bytes;
	int32_t status = 0;

	if (!zipg_unit_done(job, at))
		return;
	var_bytes = (uint64_t)zipg_load_volatile(&state->used) * 16;
	frame_bytes = item->pos_var + var_bytes;
	state->used = 0;
	state->done = 0;
	if (!(job->what & ZIPG_WHAT_CODES)) {
		frame_bytes = 0;
	} else if (var_bytes > item->var_bytes || frame_bytes > item->nbytes + ZIPG_HEADER) {
		frame_bytes = item->nbytes + ZIPG_HEADER;
		status = ZIPG_STATUS_RAW;
	} else {
		zipg_put_header(at->frame, dt, codec, sparse, item->nbytes, frame_bytes, var_bytes);
		zipg_zero_gap(at->frame, item->pos_dir + dir_bytes);
	}
	zipg_report(job, at->index, frame_bytes, status);
}

/* Encoders: the header of a raw frame, whose bytes are there. */
static ZIPG_DEVICE void zipg_finish_raw(const struct zipg_job *job, const struct zipg_place *at)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + at->index;

	if (!zipg_unit_done(job, at))
		return;
	state->used = 0;
	state->done = 0;
	zipg_put_header(at->frame, 0, ZIPG_CODEC_RAW, 0, at->item->nbytes, at->item->nbytes + ZIPG_HEADER, 0);
	zipg_report(job, at->index, at->item->nbytes + ZIPG_HEADER, 0);
}

/* Decoders: the status. */
static ZIPG_DEVICE void zipg_finish_decode(const struct zipg_job *job, const struct zipg_place *at)
{
	struct zipg_state *state = (struct zipg_state *)(uintptr_t)job->state + at->index;
	int32_t status;

	if (!zipg_unit_done(job, at))
		return;
	status = -(int32_t)zipg_load_volatile(&state->error);
	state->error = 0;
	state->done = 0;
	zipg_report(job, at->index, at->item->pos_var + at->item->var_bytes, status);
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

	if (at->unit + 1 == item->units)
		zipg_copy_bytes(at->plain + from, at->frame + item->pos_tail, (uint32_t)(item->nbytes - from));
}

#endif
