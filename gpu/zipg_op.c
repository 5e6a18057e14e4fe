/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: launches, and what is known of them by looking at host memory. */
#include <string.h>

#include "zipc_error.h"
#include "zipg_device.h"
#include "zipg_tables.h"

/* Polls between two questions to the driver whether the device still works. */
#define POLLS_PER_QUERY 4096u

static struct zipg_result *result_of(const struct zipg_op *op, unsigned int i)
{
	return &op->dev->pinned->result[op->number][i];
}

static unsigned int stream_of(const struct zipg_op *op)
{
	return op->number % ZIPG_STREAMS;
}

static void free_op(struct zipg_op *op)
{
	if (op->kind == ZIPG_OP_SAMPLE)
		op->dev->samples &= ~(1u << op->sample);
	op->kind = ZIPG_OP_FREE;
}

/* With the lock held. Operations that were released before they were finished are collected here. */
static struct zipg_op *find_free(struct zipg_device *dev)
{
	for (unsigned int i = 0; i < ZIPG_OPS; i++) {
		struct zipg_op *op = &dev->ops[i];

		if (op->kind != ZIPG_OP_FREE && op->released && zipg_op_test(op))
			free_op(op);
		if (op->kind == ZIPG_OP_FREE)
			return op;
	}
	return NULL;
}

static int take_op(struct zipg_device *dev, enum zipg_op_kind kind, unsigned int frames, struct zipg_op **op_p)
{
	struct zipg_op *op;
	int ret = ZIPC_ERR_AGAIN;

	pthread_mutex_lock(&dev->lock);
	op = find_free(dev);
	if (!op || (kind == ZIPG_OP_SAMPLE && dev->samples == (1u << ZIPG_SAMPLES) - 1))
		goto out;
	if (kind == ZIPG_OP_SAMPLE) {
		op->sample = __builtin_ctz(~dev->samples);
		dev->samples |= 1u << op->sample;
	}
	op->kind = kind;
	op->released = op->failed = op->finished = 0;
	op->frames = frames;
	op->counted = op->copied = op->copies = op->polls = 0;
	op->stamp = ++dev->stamp ? dev->stamp : ++dev->stamp;
	op->raw_stamp = ++dev->stamp ? dev->stamp : ++dev->stamp;
	*op_p = op;
	ret = 0;
out:
	pthread_mutex_unlock(&dev->lock);
	if (!ret)
		memset(result_of(*op_p, 0), 0, frames * sizeof(struct zipg_result));
	return ret;
}

static void drop_op(struct zipg_op *op)
{
	pthread_mutex_lock(&op->dev->lock);
	free_op(op);
	pthread_mutex_unlock(&op->dev->lock);
}

/* Frames of one size, launched together. */
struct run {
	enum zipg_kernel_kind kind;    /* says what frames look like; the kernel is this one, unless only planes are wanted */
	enum zipc_dtype dtype;
	uint64_t plain;
	uint64_t frame;
	uint64_t step;
	uint64_t nbytes;               /* of each frame */
	uint64_t frame_bytes;          /* decode: of each frame; 0: their headers say */
	unsigned int first;            /* frame of the operation */
	unsigned int count;
	uint32_t what;
	uint32_t stamp;
};

static int launch_run(struct zipg_op *op, const struct run *run, int decode)
{
	struct zipg_device *dev = op->dev;
	enum zipg_kernel_kind kind = run->kind;
	struct zipg_job job = { 0 };
	int ret;

	ret = zipg_item_init(&job.item, kind, run->dtype, run->nbytes, run->frame_bytes);
	if (ret)
		return ret;
	if (run->what == ZIPG_WHAT_PLANES || run->what == (ZIPG_WHAT_PLANES | ZIPG_WHAT_PROGRESS)) {
		if (kind == ZIPG_KIND_RAW)
			return 0;
		kind = ZIPG_KIND_FIXED_ENC;
		job.item.units = (uint32_t)((job.item.nblocks * (uint64_t)ZIPG_BLOCK + zipg_unit_bytes(kind, run->dtype) - 1) /
					    zipg_unit_bytes(kind, run->dtype));
	}
	if (dev->config.share && !decode) {
		kind = zipg_kind_share(kind);
		job.share = dev->config.share;
	}
	job.item.plain = run->plain;
	job.item.frame = run->frame;
	job.item.step = run->step;
	job.item.own_sizes = decode && !run->frame_bytes && kind != ZIPG_KIND_RAW;
	job.nunits = job.item.units * run->count;
	job.what = run->what;
	job.stamp = run->stamp;
	job.tables = dev->tables;
	job.state = dev->states + ((uint64_t)op->number * ZIPG_FRAMES_MAX + run->first) * sizeof(struct zipg_state);
	job.queue = dev->queues + op->number * sizeof(struct zipg_queue);
	job.result = dev->pinned_dev + offsetof(struct zipg_pinned, result) +
		     ((uint64_t)op->number * ZIPG_FRAMES_MAX + run->first) * sizeof(struct zipg_result);
	return dev->be->launch(dev->hw, stream_of(op), kind, kind == ZIPG_KIND_RAW ? ZIPC_DTYPE_RAW : run->dtype, job.nunits, &job);
}

static int signal_op(struct zipg_op *op, uint32_t value)
{
	struct zipg_device *dev = op->dev;

	return dev->be->signal(dev->hw, stream_of(op), &dev->pinned->done[op->number],
			       dev->pinned_dev + offsetof(struct zipg_pinned, done) + op->number * sizeof(uint32_t), value);
}

static unsigned int frame_count(size_t nbytes, size_t chunk)
{
	size_t n = nbytes ? (nbytes - 1) / (chunk ? chunk : 1) + 1 : 1;

	return n > ZIPG_FRAMES_MAX ? 0 : (unsigned int)n;
}

/* What both directions demand of addresses and sizes. */
static int check_frames(size_t nbytes, size_t chunk, const void *frames, size_t step, unsigned int count)
{
	if (!chunk || !count || (uintptr_t)frames % ZIPG_FRAME_ALIGN)
		return ZIPC_ERR_INVAL;
	if (count > 1 && (chunk % ZIPG_BLOCK || step % ZIPG_FRAME_ALIGN || step < zipc_frame_bound(chunk)))
		return ZIPC_ERR_INVAL;
	return nbytes >> 35 ? ZIPC_ERR_INVAL : 0;
}

static int check_kind(enum zipc_dtype dtype, enum zipc_codec codec)
{
	return (unsigned int)dtype < ZIPC_DTYPE_COUNT && (unsigned int)codec < ZIPC_CODEC_COUNT ? 0 : ZIPC_ERR_INVAL;
}

static size_t frame_input(size_t nbytes, size_t chunk, unsigned int i)
{
	size_t from = (size_t)i * chunk;

	return nbytes - from < chunk ? nbytes - from : chunk;
}

static enum zipg_kernel_kind frame_kind(size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec, int sparse, int decode)
{
	return nbytes < ZIPG_BLOCK || dtype == ZIPC_DTYPE_RAW ? ZIPG_KIND_RAW : zipg_kind(codec, sparse, decode);
}

/* Launch what `run` says for all frames from `first` on that have `nbytes`, then the shorter last one. */
static int launch_encode(struct zipg_op *op, const struct zipg_encode *req)
{
	struct run run = { .dtype = req->dtype, .step = req->step, .stamp = op->stamp };
	unsigned int full = (unsigned int)(req->nbytes / req->chunk);
	int ret = 0;

	run.what = req->parts == ZIPG_PARTS_PLANES ? ZIPG_WHAT_PLANES :
		   req->parts == ZIPG_PARTS_REST ? ZIPG_WHAT_CODES : ZIPG_WHAT_PLANES | ZIPG_WHAT_CODES;
	if (req->progress)
		run.what |= ZIPG_WHAT_PROGRESS;
	for (unsigned int i = 0; i < op->frames && !ret; i += run.count) {
		run.first = i;
		run.count = i < full ? full : 1;
		run.nbytes = frame_input(req->nbytes, req->chunk, i);
		run.kind = frame_kind(run.nbytes, req->dtype, req->codec, req->sparse, 0);
		run.plain = (uintptr_t)req->src + (uint64_t)i * req->chunk;
		run.frame = (uintptr_t)req->frames + (uint64_t)i * req->step;
		ret = launch_run(op, &run, 0);
	}
	return ret;
}

int zipg_encode_start(struct zipg_device *dev, const struct zipg_encode *req, struct zipg_op **op_p)
{
	unsigned int frames = frame_count(req->nbytes, req->chunk);
	struct zipg_op *op;
	int ret;

	ret = check_frames(req->nbytes, req->chunk, req->frames, req->step, frames);
	if (!ret)
		ret = check_kind(req->dtype, req->codec);
	if (!ret && req->sparse && (req->codec != ZIPC_CODEC_ENTROPY || req->parts != ZIPG_PARTS_ALL))
		ret = ZIPC_ERR_INVAL;
	if (!ret)
		ret = take_op(dev, ZIPG_OP_ENCODE, frames, &op);
	if (ret)
		return ret;
	op->encode = *req;
	ret = launch_encode(op, req);
	if (!ret)
		ret = signal_op(op, op->stamp);
	if (ret) {
		drop_op(op);
		return ret;
	}
	*op_p = op;
	return 0;
}

static int launch_decode(struct zipg_op *op, const struct zipg_decode *req)
{
	struct run run = { .dtype = req->dtype, .step = req->step, .stamp = op->stamp, .what = ZIPG_WHAT_DECODE };
	int ret = 0;

	for (unsigned int i = 0; i < op->frames && !ret; i += run.count) {
		int raw = req->raw && req->raw[i];

		run.first = i;
		run.count = 1;
		run.nbytes = frame_input(req->nbytes, req->chunk, i);
		run.kind = raw ? ZIPG_KIND_RAW : frame_kind(run.nbytes, req->dtype, req->codec, req->sparse, 1);
		while (i + run.count < op->frames && frame_input(req->nbytes, req->chunk, i + run.count) == run.nbytes &&
		       (req->raw && req->raw[i + run.count]) == raw)
			run.count++;
		run.frame_bytes = run.count == 1 ? req->frame_bytes[i] : 0;
		run.plain = (uintptr_t)req->dst + (uint64_t)i * req->chunk;
		run.frame = (uintptr_t)req->frames + (uint64_t)i * req->step;
		ret = launch_run(op, &run, 1);
		for (unsigned int k = 0; k < run.count; k++)
			op->expect[i + k] = run.count > 1 && run.kind != ZIPG_KIND_RAW ? req->frame_bytes[i + k] : 0;
	}
	return ret;
}

int zipg_decode_start(struct zipg_device *dev, const struct zipg_decode *req, struct zipg_op **op_p)
{
	unsigned int frames = frame_count(req->nbytes, req->chunk);
	struct zipg_op *op;
	int ret;

	ret = check_frames(req->nbytes, req->chunk, req->frames, req->step, frames);
	if (!ret)
		ret = check_kind(req->dtype, req->codec);
	for (unsigned int i = 0; i < frames && !ret; i++) {
		if (req->frame_bytes[i] < ZIPC_FRAME_HEADER ||
		    req->frame_bytes[i] > zipc_frame_bound(frame_input(req->nbytes, req->chunk, i)))
			ret = ZIPC_ERR_SIZE;
	}
	if (!ret)
		ret = take_op(dev, ZIPG_OP_DECODE, frames, &op);
	if (ret)
		return ret;
	ret = launch_decode(op, req);
	if (!ret)
		ret = signal_op(op, op->stamp);
	if (ret) {
		drop_op(op);
		return ret;
	}
	*op_p = op;
	return 0;
}

int zipg_sample_start(struct zipg_device *dev, const void *src, size_t nbytes, enum zipc_dtype hint, struct zipg_op **op_p)
{
	size_t blocks = nbytes / ZIPG_BLOCK, n = blocks < ZIPG_SAMPLE_BLOCKS ? blocks : ZIPG_SAMPLE_BLOCKS;
	struct zipg_job job = { 0 };
	struct zipg_op *op;
	int ret;

	ret = take_op(dev, ZIPG_OP_SAMPLE, 1, &op);
	if (ret)
		return ret;
	op->hint = hint;
	op->sampled_bytes = nbytes;
	job.item.plain = (uintptr_t)src;
	job.item.nblocks = (uint32_t)blocks;
	job.nunits = (uint32_t)n;
	job.result = dev->pinned_dev + offsetof(struct zipg_pinned, sample) + (uint64_t)op->sample * sizeof(dev->pinned->sample[0]);
	if (n)
		ret = dev->be->launch(dev->hw, stream_of(op), ZIPG_KIND_SAMPLE, ZIPC_DTYPE_RAW, job.nunits, &job);
	if (!ret)
		ret = signal_op(op, op->stamp);
	if (ret) {
		drop_op(op);
		return ret;
	}
	*op_p = op;
	return 0;
}

int zipg_copy_start(struct zipg_device *dev, const struct zipg_copy *copies, unsigned int n, struct zipg_op **op_p)
{
	struct zipg_op *op;
	int ret;

	ret = take_op(dev, ZIPG_OP_COPY, 1, &op);
	if (ret)
		return ret;
	for (unsigned int i = 0; i < n && !ret; i++)
		ret = dev->be->copy(dev->hw, stream_of(op), copies[i].dst, copies[i].src, copies[i].nbytes);
	if (!ret)
		ret = signal_op(op, op->stamp);
	if (ret) {
		drop_op(op);
		return ret;
	}
	*op_p = op;
	return 0;
}

/* Frame i did not shrink: copy it. */
static void copy_raw(struct zipg_op *op, unsigned int i)
{
	const struct zipg_encode *req = &op->encode;
	struct run run = {
		.kind = ZIPG_KIND_RAW, .first = i, .count = 1, .stamp = op->raw_stamp, .step = req->step,
		.what = ZIPG_WHAT_PLANES | ZIPG_WHAT_CODES | (req->progress ? ZIPG_WHAT_PROGRESS : 0),
		.nbytes = frame_input(req->nbytes, req->chunk, i),
		.plain = (uintptr_t)req->src + (uint64_t)i * req->chunk,
		.frame = (uintptr_t)req->frames + (uint64_t)i * req->step,
	};
	int ret = launch_run(op, &run, 0);

	op->copies++;
	if (ret)
		op->failed = ret;
}

unsigned int zipg_op_frames(const struct zipg_op *op)
{
	return op->frames;
}

unsigned int zipg_op_progress(struct zipg_op *op)
{
	if (op->kind != ZIPG_OP_ENCODE || !op->encode.progress)
		return op->finished ? op->frames : 0;
	while (op->counted < op->frames && !op->failed) {
		const struct zipg_result *r = result_of(op, op->counted);
		uint32_t stamp = __atomic_load_n(&r->stamp, __ATOMIC_ACQUIRE);

		if (stamp != op->stamp && stamp != op->raw_stamp)
			break;
		if (r->status == ZIPG_STATUS_RAW && op->copied <= op->counted) {
			copy_raw(op, op->counted);
			op->copied = op->counted + 1;
		}
		if (op->copied > op->counted && stamp != op->raw_stamp)
			break;
		op->counted++;
	}
	return op->counted;
}

/* The stream has reached the last signal. */
static int signalled(struct zipg_op *op, uint32_t value)
{
	struct zipg_device *dev = op->dev;
	int ret;

	if (__atomic_load_n(&dev->pinned->done[op->number], __ATOMIC_ACQUIRE) == value)
		return 1;
	if (++op->polls % POLLS_PER_QUERY)
		return 0;
	ret = dev->be->query(dev->hw, stream_of(op));
	if (ret && ret != ZIPC_ERR_AGAIN)
		op->failed = ret;
	return 0;
}

int zipg_op_test(struct zipg_op *op)
{
	if (op->finished)
		return 1;
	if (!op->failed && op->kind == ZIPG_OP_ENCODE && op->encode.progress) {
		if (zipg_op_progress(op) == op->frames && (op->copies || signalled(op, op->stamp)))
			op->finished = 1;
	} else if (!op->failed && !op->copies && signalled(op, op->stamp)) {
		for (unsigned int i = 0; op->kind == ZIPG_OP_ENCODE && i < op->frames; i++) {
			if (result_of(op, i)->status == ZIPG_STATUS_RAW)
				copy_raw(op, i);
		}
		if (op->copies && !op->failed)
			op->failed = signal_op(op, op->raw_stamp);
		op->finished = !op->copies;
	}
	if (!op->failed && op->copies && !op->encode.progress && signalled(op, op->raw_stamp))
		op->finished = 1;
	return op->failed ? op->failed : op->finished;
}

void zipg_op_frame(const struct zipg_op *op, unsigned int i, struct zipg_frame *frame)
{
	const struct zipg_result *r = result_of(op, i);

	frame->frame_bytes = (size_t)r->frame_bytes;
	frame->raw = r->status > 0;
	frame->status = r->status < 0 ? r->status : 0;
	if (op->kind == ZIPG_OP_DECODE && !frame->status && op->expect[i] && op->expect[i] != r->frame_bytes)
		frame->status = ZIPC_ERR_SIZE;
}

void zipg_op_sample(const struct zipg_op *op, struct zipc_sample *sample)
{
	size_t blocks = op->sampled_bytes / ZIPG_BLOCK, n = blocks < ZIPG_SAMPLE_BLOCKS ? blocks : ZIPG_SAMPLE_BLOCKS;
	float coded = op->sampled_bytes ? (float)(blocks * ZIPG_BLOCK) / (float)op->sampled_bytes : 0;

	zipc_sample(op->dev->pinned->sample[op->sample], n * ZIPG_BLOCK, op->hint, sample);
	/* The tail is sent as it is. */
	sample->ratio_fixed = sample->ratio_fixed * coded + 1 - coded;
	sample->ratio_entropy = sample->ratio_entropy * coded + 1 - coded;
}

void zipg_op_release(struct zipg_op *op)
{
	struct zipg_device *dev;

	if (!op)
		return;
	dev = op->dev;
	pthread_mutex_lock(&dev->lock);
	if (op->finished)
		free_op(op);
	else
		op->released = 1;
	pthread_mutex_unlock(&dev->lock);
}
