/* SPDX-License-Identifier: BSD-3-Clause */
/* What zipg.c and zipg_op.c share. */
#ifndef ZIPG_DEVICE_H
#define ZIPG_DEVICE_H

#include <pthread.h>

#include "zipg_priv.h"

#define ZIPG_OPS 64u
#define ZIPG_SAMPLES 16u       /* samples that can be pending */

/* Host memory that the device writes. */
struct zipg_pinned {
	struct zipg_result result[ZIPG_OPS][ZIPG_FRAMES_MAX];
	uint8_t sample[ZIPG_SAMPLES][ZIPG_SAMPLE_BLOCKS * ZIPG_BLOCK];
	uint32_t done[ZIPG_OPS];       /* the stamp of the operation whose launches are all done */
};

enum zipg_op_kind { ZIPG_OP_FREE, ZIPG_OP_ENCODE, ZIPG_OP_DECODE, ZIPG_OP_SAMPLE, ZIPG_OP_COPY };

struct zipg_op {
	struct zipg_device *dev;
	unsigned int number;   /* which of the device's; its results and states go with it */
	enum zipg_op_kind kind;
	int released;          /* by its owner, before it was finished */
	int failed;            /* ZIPC_ERR_* of the device */
	int finished;
	uint32_t stamp;        /* of its launches */
	uint32_t raw_stamp;    /* of launches that copy frames which did not shrink */
	unsigned int frames;
	unsigned int counted;  /* frames that progress has passed */
	unsigned int copied;   /* progress: one more than the last frame for which a copy was launched */
	unsigned int copies;   /* launched for frames that did not shrink */
	unsigned int polls;
	int sample;            /* its buffer */
	enum zipc_dtype hint;
	struct zipg_encode encode;
	size_t sampled_bytes;
	size_t expect[ZIPG_FRAMES_MAX]; /* decode: size each frame must have */
};

struct zipg_device {
	const struct zipg_backend *be;
	struct zipg_hw *hw;
	struct zipg_config config;
	pthread_mutex_t lock;  /* ops[].kind, samples, stamp, staged */
	struct zipg_op ops[ZIPG_OPS];
	uint32_t samples;      /* bit i: buffer i is taken */
	uint32_t stamp;
	size_t staged[2];      /* bytes of zipg_alloc(): device, pinned */
	void *own;
	size_t own_bytes;
	uint64_t tables, states, queues;
	struct zipg_pinned *pinned;
	size_t pinned_bytes;
	uint64_t pinned_dev;
};

#endif
