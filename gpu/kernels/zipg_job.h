/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host hands to a kernel and what the kernel hands back. Plain structs of 64-bit addresses, so that every
 * backend (CUDA, HIP, emulation) passes the same bytes. Sizes are bytes unless a name says otherwise.
 */
#ifndef ZIPG_JOB_H
#define ZIPG_JOB_H

#include <stdint.h>

#define ZIPG_THREADS 256u      /* of every thread block: eight logical warps of 32 lanes */
#define ZIPG_WARPS 8u
#define ZIPG_BLOCK 8192u       /* bytes of input a block of the format has */

/* One kernel a (codec, direction, dtype); sparse frames are entropy frames. */
enum zipg_kernel_kind {
	ZIPG_KIND_FIXED_ENC,
	ZIPG_KIND_FIXED_DEC,
	ZIPG_KIND_ENTROPY_ENC,
	ZIPG_KIND_ENTROPY_DEC,
	ZIPG_KIND_SPARSE_ENC,
	ZIPG_KIND_SPARSE_DEC,
	ZIPG_KIND_FIXED_SHARE,   /* encoders held to a share of the multiprocessors */
	ZIPG_KIND_ENTROPY_SHARE,
	ZIPG_KIND_SPARSE_SHARE,
	ZIPG_KIND_RAW,         /* copy into or out of raw frames; dtype RAW */
	ZIPG_KIND_SAMPLE,      /* blocks of a tensor, spread over it, to host memory; dtype RAW */
	ZIPG_KIND_COMPARE,     /* of two tensors; dtype RAW. For benches */
	ZIPG_KIND_COUNT
};

/* 32-bit words a lane's stream may have before an entropy encoder stores the block raw; below 1020 bits. */
static inline uint32_t zipg_column_words(unsigned int elem_bytes) { return elem_bytes == 4 ? 16u : elem_bytes == 2 ? 20u : 28u; }

/* Words in which a decoder stages a block: what blocks usually take; twice of it holds the longest, 4112 bytes. */
static inline uint32_t zipg_stage_words(unsigned int elem_bytes) { return elem_bytes == 1 ? 780u : 528u; }

/* Shared memory of the kernels, in words; zipg_fixed.cuh and the others say what is where. */
#define ZIPG_FIXED_SIZES 2048u
#define ZIPG_FIXED_WORDS (ZIPG_FIXED_SIZES + 32u)
#define ZIPG_ENC_SIZES 256u
#define ZIPG_ENC_COLUMNS 288u
#define ZIPG_ENC_WORDS(column) (ZIPG_ENC_COLUMNS + 8u * ((column) + 1u) * 32u + 8u * (8u + (column) * 32u + 4u))
#define ZIPG_DEC_STAGE 4096u
#define ZIPG_DEC_WORDS(buffer) (ZIPG_DEC_STAGE + 8u * (buffer) + 128u)

/* zipg_job.what */
#define ZIPG_WHAT_PLANES 1u    /* planes and tail */
#define ZIPG_WHAT_CODES 2u     /* everything else, the header last */
#define ZIPG_WHAT_DECODE 4u    /* of ZIPG_KIND_RAW: out of frames */
#define ZIPG_WHAT_PROGRESS 8u  /* encoders: stamp the result of a frame as soon as it is finished */

/*
 * A run of frames of one size: frame f covers the nbytes at plain + f * nbytes and lives at frame + f * step.
 * `pos_*` are offsets inside a frame (doc/format.md, section 3). A unit is the work of one thread block: 8 slices
 * (fixed) or 8 blocks (entropy, raw); every frame has `units` of them, at least one.
 */
struct zipg_item {
	uint64_t plain;        /* any alignment */
	uint64_t frame;        /* multiple of 16 */
	uint64_t step;
	uint64_t nbytes;
	uint64_t pos_plane[3];
	uint64_t pos_codes;
	uint64_t pos_tail;
	uint64_t pos_dir;
	uint64_t pos_var;
	uint64_t var_bytes;    /* decode: length of the variable part; encode: the most it may have */
	uint32_t nblocks;
	uint32_t units;
	uint32_t own_sizes;    /* decode: frames differ in size; their headers say how long, up to var_bytes */
	uint32_t pad;
};

/* Per-frame counters in device memory. Zero between launches: who counts to the end clears them. */
struct zipg_state {
	uint64_t placed;       /* units that have their place << 40 | 16 bytes of variable part given out */
	uint32_t done;         /* units finished, with ZIPG_WHAT_PROGRESS */
	uint32_t pad;
};

/* Statuses beside 0 and ZIPC_ERR_*. The frame would not shrink and was not written. */
#define ZIPG_STATUS_RAW 1
/* The frame is a raw frame. */
#define ZIPG_STATUS_IS_RAW 2

/*
 * One a frame, in host memory that the device can write; zeroed by the host before the launch. It is valid when the launch has ended, or
 * with ZIPG_WHAT_PROGRESS when `stamp` is that of the launch.
 */
struct zipg_result {
	uint64_t frame_bytes;  /* encode: of the frame; decode with own_sizes: what its header says */
	int32_t status;
	uint32_t stamp;
};

#define ZIPG_SAMPLE_BLOCKS 8u

/* Work queue of launches that are held to a share of the multiprocessors. Zero between launches. */
struct zipg_queue {
	uint32_t ticket;
	uint32_t retired;
};

/*
 * Tables in device memory, made when the device is opened. Lengths stand in the lowest bits of an entry, because shifts look at no more
 * than five bits and sums of lengths then need no masks.
 */
struct zipg_tables {
	uint32_t enc[32][256];     /* by pair index: length | code << 8; 1 << 31: no code */
	uint32_t dec[32][4096];    /* by the next 12 bits: length | s0 << 8 | s1 << 16; 1 << 31: escape */
	uint16_t cost[32][16];     /* zipc_table_costs */
	uint32_t esc[32];          /* the escape: length | code << 8 */
	uint8_t mean[32];          /* zipc_table_means */
	uint8_t zero[32];          /* zipc_table_zero */
};

/*
 * One launch works on one item. Every field is then at a fixed place of the constant bank and costs no register; with a table of items in
 * here the kernels spilled and lost a quarter of their speed.
 */
struct zipg_job {
	uint32_t nunits;       /* of all frames */
	uint32_t what;
	uint32_t stamp;
	uint32_t share;        /* KIND_*_SHARE: only multiprocessors with a lower number work */
	uint32_t pad;
	uint64_t state;        /* struct zipg_state, one a frame */
	uint64_t result;       /* struct zipg_result, one a frame; sample: ZIPG_SAMPLE_BLOCKS blocks */
	uint64_t tables;       /* struct zipg_tables */
	uint64_t queue;        /* struct zipg_queue */
	struct zipg_item item;
};

#endif
