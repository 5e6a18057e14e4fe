/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipg_accel.h"

#include "zipc_error.h"
#include "zipg.h"

static int accel_encode(void *dev, const struct zipc_work *work, void **job_p)
{
	int raw = work->dtype == ZIPC_DTYPE_RAW || work->codec == ZIPC_CODEC_RAW;
	const struct zipg_encode req = {
		.src = work->plain,
		.nbytes = work->nbytes,
		.chunk = work->chunk,
		.frames = work->frames,
		.step = work->step,
		.dtype = raw ? ZIPC_DTYPE_RAW : work->dtype,
		.codec = raw ? ZIPC_CODEC_RAW : work->codec,
		.sparse = !raw && work->sparse,
		/* So that the first frames leave while the last are encoded. */
		.progress = work->nbytes > work->chunk,
	};

	return zipg_encode_start(dev, &req, (struct zipg_op **)job_p);
}

static int accel_decode(void *dev, const struct zipc_work *work, void **job_p)
{
	const struct zipg_decode req = {
		.dst = work->plain,
		.nbytes = work->nbytes,
		.chunk = work->chunk,
		.frames = work->frames,
		.step = work->step,
		.frame_bytes = work->frame_bytes,
		.raw = work->raw,
		.dtype = work->dtype,
		.codec = work->codec,
		.sparse = work->sparse,
	};

	return zipg_decode_start(dev, &req, (struct zipg_op **)job_p);
}

static int accel_sample(void *dev, const void *src, size_t nbytes, enum zipc_dtype hint, void **job_p)
{
	return zipg_sample_start(dev, src, nbytes, hint, (struct zipg_op **)job_p);
}

static int accel_copy(void *dev, const struct zipc_copy *copies, unsigned n, void **job_p)
{
	struct zipg_copy list[ZIPC_COPIES_MAX];

	if (n > ZIPC_COPIES_MAX)
		return ZIPC_ERR_INVAL;
	for (unsigned i = 0; i < n; i++)
		list[i] = (struct zipg_copy){ copies[i].dst, copies[i].src, copies[i].nbytes };
	return zipg_copy_start(dev, list, n, (struct zipg_op **)job_p);
}

static int accel_poll(void *dev, void *job, int *over)
{
	int ret = zipg_op_test(job);

	(void)dev;
	if (ret < 0)
		return ret;
	*over = ret;
	return (int)zipg_op_progress(job);
}

static void accel_coded(void *dev, void *job, unsigned i, struct zipc_coded *coded)
{
	struct zipg_frame frame;

	(void)dev;
	zipg_op_frame(job, i, &frame);
	coded->status = frame.status;
	coded->frame_bytes = frame.frame_bytes;
}

static void accel_sampled(void *dev, void *job, struct zipc_sample *sample)
{
	(void)dev;
	zipg_op_sample(job, sample);
}

static void accel_release(void *dev, void *job)
{
	(void)dev;
	zipg_op_release(job);
}

const struct zipc_accel_ops zipg_accel_ops = {
	.name = "gpu",
	.encode = accel_encode,
	.decode = accel_decode,
	.sample = accel_sample,
	.copy = accel_copy,
	.poll = accel_poll,
	.coded = accel_coded,
	.sampled = accel_sampled,
	.release = accel_release,
};
