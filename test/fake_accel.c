/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_accel.h"
#include "zipc_error.h"
#include "zipt_data.h"

#define FAKE_FRAMES 64

#define FAKE_ACCEL_CHECK(condition)                                                            \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
			abort();                                                               \
		}                                                                              \
	} while (0)

enum fake_job_kind { FAKE_ENCODE, FAKE_DECODE, FAKE_SAMPLE, FAKE_COPY };

struct fake_job {
	enum fake_job_kind kind;
	struct zipc_work work;
	size_t frame_bytes[FAKE_FRAMES];
	uint8_t raw[FAKE_FRAMES];
	struct zipc_coded coded[FAKE_FRAMES];
	unsigned frames, done;
	bool over;
	const void *src;
	size_t nbytes;
	enum zipc_dtype hint;
	struct zipc_sample sample;
	struct zipc_copy copies[ZIPC_COPIES_MAX];
	unsigned ncopies;
};

static uint32_t fake_accel_random(struct fake_accel *accel, uint32_t below)
{
	return (uint32_t)(zipt_random(&accel->seed) >> 16) % below;
}

static int fake_job_start(struct fake_accel *accel, struct fake_job *job, void **job_p)
{
	struct fake_job *copy;

	if (accel->again && fake_accel_random(accel, 256) < accel->again)
		return ZIPC_ERR_AGAIN;
	if (++accel->starts == accel->fail_start)
		return ZIPC_ERR_NOMEM;
	copy = malloc(sizeof(*copy));
	FAKE_ACCEL_CHECK(copy);
	*copy = *job;
	accel->jobs++;
	if (job->frames > accel->most_frames)
		accel->most_frames = job->frames;
	*job_p = copy;
	return 0;
}

static void fake_work_copy(struct fake_job *job, const struct zipc_work *work)
{
	unsigned i;

	FAKE_ACCEL_CHECK(work->nbytes && work->chunk && fake_is_device(work->plain) == fake_is_device(work->plain));
	job->work = *work;
	job->frames = (unsigned)((work->nbytes - 1) / work->chunk + 1);
	FAKE_ACCEL_CHECK(job->frames <= FAKE_FRAMES && (uintptr_t)work->frames % 16 == 0 && work->step % 16 == 0);
	for (i = 0; work->frame_bytes && i < job->frames; i++) {
		job->frame_bytes[i] = work->frame_bytes[i];
		job->raw[i] = work->raw[i];
	}
}

static int fake_encode(void *dev, const struct zipc_work *work, void **job_p)
{
	struct fake_accel *accel = dev;
	struct fake_job job = {.kind = FAKE_ENCODE};

	accel->encodes++;
	fake_work_copy(&job, work);
	return fake_job_start(accel, &job, job_p);
}

static int fake_decode(void *dev, const struct zipc_work *work, void **job_p)
{
	struct fake_accel *accel = dev;
	struct fake_job job = {.kind = FAKE_DECODE};

	accel->decodes++;
	fake_work_copy(&job, work);
	return fake_job_start(accel, &job, job_p);
}

static int fake_sample(void *dev, const void *src, size_t nbytes, enum zipc_dtype hint, void **job_p)
{
	struct fake_accel *accel = dev;
	struct fake_job job = {.kind = FAKE_SAMPLE, .src = src, .nbytes = nbytes, .hint = hint};

	accel->samples++;
	return fake_job_start(accel, &job, job_p);
}

static int fake_copy(void *dev, const struct zipc_copy *copies, unsigned n, void **job_p)
{
	struct fake_accel *accel = dev;
	struct fake_job job = {.kind = FAKE_COPY, .ncopies = n};

	FAKE_ACCEL_CHECK(n <= ZIPC_COPIES_MAX);
	accel->copies++;
	memcpy(job.copies, copies, n * sizeof(*copies));
	return fake_job_start(accel, &job, job_p);
}

/* A device refuses frames that are not what it was told. */
static int fake_frame_check(const struct fake_job *job, unsigned i, const uint8_t *frame)
{
	struct zipc_frame_info info;
	int ret = zipc_frame_parse(frame, job->frame_bytes[i], &info);

	if (ret)
		return ret;
	if ((info.codec == ZIPC_CODEC_RAW) != job->raw[i])
		return ZIPC_ERR_CODEC;
	if (job->raw[i])
		return 0;
	if (info.codec != job->work.codec)
		return ZIPC_ERR_CODEC;
	if (info.dtype != job->work.dtype)
		return ZIPC_ERR_DTYPE;
	return info.sparse != !!job->work.sparse ? ZIPC_ERR_FLAGS : 0;
}

static void fake_frame(struct fake_job *job, unsigned i)
{
	struct zipc_work *work = &job->work;
	size_t at = i * work->chunk, n = work->nbytes - at < work->chunk ? work->nbytes - at : work->chunk;
	uint8_t *frame = (uint8_t *)fake_host(work->frames) + i * work->step, *plain = (uint8_t *)fake_host(work->plain) + at;
	struct zipc_coded *coded = &job->coded[i];

	if (job->kind == FAKE_ENCODE) {
		coded->status = zipc_encode(frame, work->step, plain, n, work->dtype,
					    work->dtype == ZIPC_DTYPE_RAW ? ZIPC_CODEC_RAW : work->codec, &coded->frame_bytes);
		FAKE_ACCEL_CHECK(!coded->status);
		return;
	}
	coded->status = fake_frame_check(job, i, frame);
	if (!coded->status)
		coded->status = zipc_decode(plain, n, frame, job->frame_bytes[i]);
}

static void fake_advance(struct fake_job *job)
{
	unsigned i;

	if (job->done < job->frames) {
		fake_frame(job, job->done++);
	} else if (job->kind == FAKE_SAMPLE) {
		zipc_sample(fake_host(job->src), job->nbytes, job->hint, &job->sample);
		job->over = true;
	} else if (job->kind == FAKE_COPY) {
		for (i = 0; i < job->ncopies; i++)
			memcpy(fake_host(job->copies[i].dst), fake_host(job->copies[i].src), job->copies[i].nbytes);
		job->over = true;
	} else {
		job->over = true;
	}
}

static int fake_poll(void *dev, void *handle, int *over)
{
	struct fake_accel *accel = dev;
	struct fake_job *job = handle;

	accel->polls++;
	if (accel->die_poll && accel->polls >= accel->die_poll)
		return ZIPC_ERR_NET;
	if (!accel->stuck && !job->over && (!accel->slow || !fake_accel_random(accel, accel->slow)))
		do {
			fake_advance(job);
		} while (!accel->slow && !job->over);
	*over = job->over;
	/* Of a decoder nothing is known before the end. */
	return job->kind == FAKE_ENCODE ? (int)job->done : job->over ? (int)job->frames : 0;
}

static void fake_coded(void *dev, void *handle, unsigned i, struct zipc_coded *coded)
{
	struct fake_job *job = handle;

	(void)dev;
	FAKE_ACCEL_CHECK(i < job->done);
	*coded = job->coded[i];
}

static void fake_sampled(void *dev, void *handle, struct zipc_sample *sample)
{
	struct fake_job *job = handle;

	(void)dev;
	FAKE_ACCEL_CHECK(job->over);
	*sample = job->sample;
}

static void fake_release(void *dev, void *handle)
{
	struct fake_accel *accel = dev;

	FAKE_ACCEL_CHECK(accel->jobs--);
	free(handle);
}

const struct zipc_accel_ops fake_accel_ops = {
	.name = "fake",
	.encode = fake_encode,
	.decode = fake_decode,
	.sample = fake_sample,
	.copy = fake_copy,
	.poll = fake_poll,
	.coded = fake_coded,
	.sampled = fake_sampled,
	.release = fake_release,
};
