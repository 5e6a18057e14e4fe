/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the engine: transfers that start or end in device memory. zipc_accel.c, zipc_accel_send.c and zipc_accel_recv.c only. */
#ifndef ZIPC_ACCEL_PRIV_H
#define ZIPC_ACCEL_PRIV_H

#include "zipc_engine_priv.h"

#define ZIPC_JOBS 48u          /* of one device and engine under way */
#define ZIPC_AHEAD 16u         /* chunks that are encoded before there is credit for them */
#define ZIPC_REGIONS 256u      /* buffers that are remembered */
#define ZIPC_RESAMPLE 64u      /* uses of a buffer after which it is looked at again */
#define ZIPC_RESAMPLE_MOST 1024u
#define ZIPC_JOB_FRAMES 64u    /* frames of one job */
#define ZIPC_CLOSE_MS 5000     /* how long a closing engine waits for a device */

enum zipc_job_kind {
	ZIPC_JOB_SAMPLE,
	ZIPC_JOB_ENCODE,
	ZIPC_JOB_GATHER,  /* sending: pieces of a chunk into scratch, from where it is encoded */
	ZIPC_JOB_DECODE,
	ZIPC_JOB_UNPACK,  /* receiving: decoding into scratch */
	ZIPC_JOB_SCATTER, /* and from there to the pieces */
};

/* One thing a device is doing. */
struct zipc_job {
	struct zipc_list link;   /* accel->jobs, or free_jobs */
	enum zipc_job_kind kind;
	void *handle;            /* the device's */
	struct zipc_send *send;  /* one of the two; they stay until the job is over */
	struct zipc_recv *recv;
	struct zipc_slot *slot;  /* the first of `count` in a row; NULL for a sample */
	uint32_t count, done;
	uint8_t dropped;         /* nobody wants the result any more */
	uint8_t guess;           /* decoding: how many kinds of frame were tried */
	enum zipc_dtype dtype;   /* decoding: what the frames are taken for */
	enum zipc_codec codec;
	int sparse;
};

/* What a buffer was like when it was last looked at. */
struct zipc_region {
	const void *base;
	uint64_t nbytes;
	struct zipc_sample sample;
	uint32_t uses, recheck;
};

struct zipc_accel {
	struct zipc_list link;   /* engine->accels */
	struct zipc_engine *engine;
	struct zipc_accel_attr attr;
	int dead;
	struct zipc_pool send_pool, recv_pool;
	void *send_scratch, *recv_scratch; /* a chunk in the clear */
	struct zipc_job *gather, *scatter; /* who uses them */
	struct zipc_list sends;  /* transfers that are not over, oldest first */
	struct zipc_list recvs;  /* with chunks that wait to be decoded */
	struct zipc_list jobs, free_jobs;
	struct zipc_job job[ZIPC_JOBS];
	struct zipc_region region[ZIPC_REGIONS];
};

/* A job that is not under way yet; NULL when all are. Give it back with zipc_job_free, or put it on accel->jobs once it is started. */
struct zipc_job *zipc_job_get(struct zipc_accel *accel);
void zipc_job_free(struct zipc_accel *accel, struct zipc_job *job);
/* The device has failed: the reason is logged once. */
void zipc_accel_fail(struct zipc_accel *accel, int status);
/* How many bytes from `offset` on lie in one segment, and where. */
size_t zipc_iov_run(const struct iovec *iov, size_t niov, size_t offset, void **at);

struct zipc_region *zipc_region_find(struct zipc_accel *accel, const struct iovec *iov);
void zipc_region_learn(struct zipc_accel *accel, const struct iovec *iov, const struct zipc_sample *sample);

/* A job of this transfer has something new. `frames` are finished, `over`: all of it; status: the device has failed. */
void zipc_accel_send_job(struct zipc_accel *accel, struct zipc_job *job, unsigned frames, int over, int status);
void zipc_accel_recv_job(struct zipc_accel *accel, struct zipc_job *job, unsigned frames, int over, int status);
/* Starts what can be started. */
void zipc_accel_encode(struct zipc_accel *accel);
void zipc_accel_decode(struct zipc_accel *accel);

#endif
