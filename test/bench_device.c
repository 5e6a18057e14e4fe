/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zip_codec_bench on a GPU. Input, frames and output rotate through so many copies that none is in L2 when it is used; times are those of
 * events right around a launch that follows others, so that the device is awake. Codec "raw" is a device-to-device copy of the same bytes, for comparison.
 * cuda, hip: as is. cuda-graph: the mean over a graph of launches. cuda-share: encoders held to 3 multiprocessors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zip_codec_bench.h"
#include "zipc_error.h"
#include "zipg_driver.h"
#include "zipg_priv.h"
#include "zipg_tables.h"

#define COLD ((size_t)256 << 20) /* several times the L2 of any card */
#define COPIES_MAX 256u
#define SHARE 3u
#define AHEAD 4u               /* launches before the one that is timed: the device does not fall idle */

enum how { PLAIN, GRAPH };

struct gpu {
	struct zipg_device *dev;
	struct zipg_hw *hw;
	const struct zipg_driver *drv;
	enum how how;
	size_t room;               /* of each of the three pools */
	uint8_t *in, *frames, *out;
	void *event[2];
	size_t nbytes;
	unsigned int copies, turn;
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	int sparse;
	struct zipc_sample sample;
	enum zipc_dtype sampled;   /* the dtype of the sample, RAW: none yet */
	struct zipg_frame frame[COPIES_MAX];
	struct zipg_again again[2][COPIES_MAX]; /* launches that encode and decode each copy */
	int decoded;               /* all copies were, so that their launches are known */
};

static uint8_t *in_at(struct gpu *g, unsigned int i) { return g->in + i * ((g->nbytes + 255) & ~(size_t)255); }
static uint8_t *out_at(struct gpu *g, unsigned int i) { return g->out + i * ((g->nbytes + 255) & ~(size_t)255); }
static uint8_t *frame_at(struct gpu *g, unsigned int i) { return g->frames + i * zipg_frame_step(g->nbytes); }

static void *stream(struct gpu *g) { return zipg_device_backend(g->dev)->stream(g->hw, 0); }

static void gpu_close(void *handle)
{
	struct gpu *g = handle;

	zipg_release(g->dev, ZIPG_MEMORY_DEVICE, g->room, g->in);
	zipg_release(g->dev, ZIPG_MEMORY_DEVICE, g->room, g->frames);
	zipg_release(g->dev, ZIPG_MEMORY_DEVICE, g->room, g->out);
	zipg_hw_enter(g->hw);
	g->drv->event_close(g->event[0]);
	g->drv->event_close(g->event[1]);
	zipg_hw_leave(g->hw);
	zipg_close(g->dev);
	free(g);
}

static int gpu_open(void **handle, size_t max_bytes, const char *backend, enum how how, unsigned int share)
{
	struct zipg_config config = { .share = share };
	struct zipg_info info;
	const char *why;
	struct gpu *g;
	int ret;

	if (zipg_count(backend, &why) < 1) {
		fprintf(stderr, "zip_codec_bench: %s: %s\n", backend, why);
		return 1;
	}
	g = calloc(1, sizeof(*g));
	if (!g)
		return -1;
	ret = zipg_open(backend, 0, &config, &g->dev);
	if (ret) {
		fprintf(stderr, "zip_codec_bench: %s: %s\n", backend, zipc_strerror(ret));
		free(g);
		return -1;
	}
	g->hw = zipg_device_hw(g->dev);
	g->drv = zipg_hw_driver(g->hw);
	g->how = how;
	g->room = zipg_frame_step(max_bytes) + 2 * COLD;
	zipg_hw_enter(g->hw);
	g->drv->event_open(&g->event[0], 0);
	g->drv->event_open(&g->event[1], 0);
	zipg_hw_leave(g->hw);
	if (zipg_alloc(g->dev, ZIPG_MEMORY_DEVICE, g->room, (void **)&g->in) ||
	    zipg_alloc(g->dev, ZIPG_MEMORY_DEVICE, g->room, (void **)&g->frames) ||
	    zipg_alloc(g->dev, ZIPG_MEMORY_DEVICE, g->room, (void **)&g->out)) {
		fprintf(stderr, "zip_codec_bench: no memory on the device\n");
		gpu_close(g);
		return -1;
	}
	zipg_get_info(g->dev, &info);
	fprintf(stderr, "zip_codec_bench: %s, driver %d, %u multiprocessors\n", info.name, info.driver, info.multiprocessors);
	*handle = g;
	return 0;
}

static int gpu_load(void *handle, const void *src, size_t nbytes)
{
	struct gpu *g = handle;
	int ret = 0;

	g->nbytes = nbytes;
	g->copies = nbytes >= COLD ? 1 : (unsigned int)(COLD / (nbytes ? nbytes : 1)) + 1;
	g->copies = g->copies > COPIES_MAX ? COPIES_MAX : g->copies;
	g->turn = 0;
	g->sampled = ZIPC_DTYPE_RAW;
	g->codec = ZIPC_CODEC_COUNT;
	zipg_hw_enter(g->hw);
	for (unsigned int i = 0; i < g->copies && !ret; i++)
		ret = g->drv->upload((uintptr_t)in_at(g, i), src, nbytes);
	zipg_hw_leave(g->hw);
	return ret ? ZIPC_ERR_NET : 0;
}

static int finish(struct zipg_op *op)
{
	int ret;

	while (!(ret = zipg_op_test(op)))
		;
	return ret < 0 ? ret : 0;
}

/* Whether there is much that is constant: what an application would remember of a region. Not timed. */
static int look(struct gpu *g, enum zipc_dtype dtype)
{
	struct zipg_op *op;
	int ret;

	if (g->sampled == dtype)
		return 0;
	ret = zipg_sample_start(g->dev, g->in, g->nbytes, dtype, &op);
	if (ret)
		return ret;
	ret = finish(op);
	zipg_op_sample(op, &g->sample);
	zipg_op_release(op);
	g->sampled = dtype;
	return ret;
}

/* Between the events of the last launches. */
static double elapsed(struct gpu *g)
{
	float ms = 0;

	zipg_hw_enter(g->hw);
	g->drv->stream_wait(stream(g));
	g->drv->event_elapsed(&ms, g->event[0], g->event[1]);
	zipg_hw_leave(g->hw);
	return ms * 1e-3;
}

static double copy_once(struct gpu *g, int back)
{
	zipg_hw_enter(g->hw);
	for (unsigned int k = 0; k <= AHEAD; k++) {
		unsigned int i = (g->turn + k) % g->copies;

		if (k == AHEAD)
			g->drv->event_record(g->event[0], stream(g));
		g->drv->copy_async((uintptr_t)(back ? out_at(g, i) : frame_at(g, i)), (uintptr_t)in_at(g, i), g->nbytes, stream(g));
	}
	g->drv->event_record(g->event[1], stream(g));
	zipg_hw_leave(g->hw);
	g->turn += AHEAD;
	return elapsed(g);
}

/* Launches that were made before, the last of them timed. */
static int launch_once(struct gpu *g, int back, double *seconds)
{
	int ret = 0;

	zipg_hw_enter(g->hw);
	for (unsigned int k = 0; k <= AHEAD && !ret; k++) {
		if (k == AHEAD)
			g->drv->event_record(g->event[0], stream(g));
		ret = zipg_hw_again(g->hw, 0, &g->again[back][(g->turn + k) % g->copies]);
	}
	g->drv->event_record(g->event[1], stream(g));
	zipg_hw_leave(g->hw);
	g->turn += AHEAD;
	*seconds = elapsed(g);
	return ret;
}

static int encode_once(struct gpu *g, unsigned int i, double *seconds)
{
	struct zipg_encode req = {
		.src = in_at(g, i), .nbytes = g->nbytes, .chunk = g->nbytes ? g->nbytes : 1, .frames = frame_at(g, i), .dtype = g->dtype,
		.codec = g->codec, .sparse = g->sparse,
	};
	struct zipg_op *op;
	int ret;

	zipg_hw_time(g->hw, g->event[0], g->event[1]);
	ret = zipg_encode_start(g->dev, &req, &op);
	if (!ret) {
		ret = finish(op);
		zipg_op_frame(op, 0, &g->frame[i]);
		zipg_op_release(op);
	}
	zipg_hw_last(g->hw, &g->again[0][i]);
	zipg_hw_time(g->hw, NULL, NULL);
	*seconds = elapsed(g);
	return ret;
}

static int decode_once(struct gpu *g, unsigned int i, double *seconds)
{
	unsigned char raw = (unsigned char)g->frame[i].raw;
	struct zipg_decode req = {
		.dst = out_at(g, i), .nbytes = g->nbytes, .chunk = g->nbytes ? g->nbytes : 1, .frames = frame_at(g, i),
		.frame_bytes = &g->frame[i].frame_bytes, .raw = &raw, .dtype = g->dtype, .codec = g->codec, .sparse = g->sparse,
	};
	struct zipg_frame got = { 0 };
	struct zipg_op *op;
	int ret;

	zipg_hw_time(g->hw, g->event[0], g->event[1]);
	ret = zipg_decode_start(g->dev, &req, &op);
	if (!ret) {
		ret = finish(op);
		zipg_op_frame(op, 0, &got);
		zipg_op_release(op);
	}
	zipg_hw_last(g->hw, &g->again[1][i]);
	zipg_hw_time(g->hw, NULL, NULL);
	*seconds = elapsed(g);
	return ret ? ret : got.status;
}

/* The launches of all copies in one graph, each with its own buffers. */
static int graph_mean(struct gpu *g, int back, double *seconds)
{
	void *graph, *exec;
	float ms = 0;
	int ret;

	zipg_hw_enter(g->hw);
	ret = g->drv->capture_begin(stream(g), 1);
	for (unsigned int i = 0; i < g->copies && !ret; i++)
		ret = zipg_hw_again(g->hw, 0, &g->again[back][i]);
	if (!ret)
		ret = g->drv->capture_end(stream(g), &graph);
	if (!ret)
		ret = g->drv->graph_open(&exec, graph, 0);
	for (int i = 0; i < 2 && !ret; i++) {
		g->drv->event_record(g->event[0], stream(g));
		ret = g->drv->graph_launch(exec, stream(g));
		g->drv->event_record(g->event[1], stream(g));
		g->drv->stream_wait(stream(g));
	}
	if (!ret) {
		g->drv->event_elapsed(&ms, g->event[0], g->event[1]);
		g->drv->graph_exec_close(exec);
		g->drv->graph_close(graph);
	}
	zipg_hw_leave(g->hw);
	*seconds = ms * 1e-3 / g->copies;
	return ret ? ZIPC_ERR_NET : 0;
}

static int gpu_encode(void *handle, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes, double *seconds)
{
	struct gpu *g = handle;
	unsigned int i = ++g->turn % g->copies;
	int first = g->codec != codec || g->dtype != dtype, ret;

	ret = look(g, dtype);
	if (ret)
		return ret;
	g->dtype = dtype;
	g->codec = codec;
	g->sparse = codec == ZIPC_CODEC_ENTROPY && g->sample.sparse;
	if (codec == ZIPC_CODEC_RAW) {
		*seconds = copy_once(g, 0);
		*frame_bytes = g->nbytes;
		return 0;
	}
	/* All frames are made once, so that whichever comes next can be decoded, and their launches repeated. */
	for (unsigned int k = 0; k < g->copies && first && !ret; k++)
		ret = encode_once(g, k, seconds);
	if (first)
		g->decoded = 0;
	/* What does not shrink takes two launches, the second when the host has seen that: nothing to repeat. */
	if (!ret && g->again[0][i].kind == ZIPG_KIND_RAW)
		ret = encode_once(g, i, seconds);
	else if (!ret)
		ret = g->how == GRAPH ? graph_mean(g, 0, seconds) : launch_once(g, 0, seconds);
	*frame_bytes = g->frame[i].frame_bytes;
	return ret;
}

static int gpu_decode(void *handle, double *seconds)
{
	struct gpu *g = handle;
	int ret = 0;

	if (g->codec == ZIPC_CODEC_RAW) {
		*seconds = copy_once(g, 1);
		return 0;
	}
	for (unsigned int k = 0; k < g->copies && !g->decoded && !ret; k++)
		ret = decode_once(g, k, seconds);
	g->decoded = 1;
	if (!ret)
		ret = g->how == GRAPH ? graph_mean(g, 1, seconds) : launch_once(g, 1, seconds);
	return ret;
}

static int gpu_poison(void *handle)
{
	struct gpu *g = handle;
	int ret;

	g->turn++;
	zipg_hw_enter(g->hw);
	/* The copy whose launch is timed. The fill is done by another stream and must be over before. */
	ret = g->drv->fill((uintptr_t)out_at(g, (g->turn + (g->how == PLAIN ? AHEAD : 0)) % g->copies), 0xa5, g->nbytes) ||
	      g->drv->stream_wait(NULL);
	zipg_hw_leave(g->hw);
	return ret ? ZIPC_ERR_NET : 0;
}

/* The inputs on the device are copies of src: the comparison is made there. */
static int gpu_check(void *handle, const void *src, size_t nbytes)
{
	struct gpu *g = handle;
	unsigned int i = g->turn % g->copies;
	struct zipg_result *result;
	struct zipg_job job = { 0 };
	int equal = 0;

	(void)src;
	if (zipg_alloc(g->dev, ZIPG_MEMORY_PINNED, sizeof(*result), (void **)&result))
		return 0;
	memset(result, 0, sizeof(*result));
	job.item.plain = (uintptr_t)in_at(g, i);
	job.item.frame = (uintptr_t)out_at(g, i);
	job.item.nbytes = nbytes;
	job.result = (uintptr_t)result;
	if (!zipg_device_backend(g->dev)->launch(g->hw, 0, ZIPG_KIND_COMPARE, ZIPC_DTYPE_RAW,
						 (uint32_t)(nbytes / zipg_unit_bytes(ZIPG_KIND_RAW, ZIPC_DTYPE_RAW)) + 1, &job)) {
		zipg_hw_enter(g->hw);
		equal = !g->drv->stream_wait(stream(g)) && !result->status;
		zipg_hw_leave(g->hw);
	}
	zipg_release(g->dev, ZIPG_MEMORY_PINNED, sizeof(*result), result);
	return equal;
}

static int cuda_open(void **handle, size_t max_bytes) { return gpu_open(handle, max_bytes, "cuda", PLAIN, 0); }
static int graph_open(void **handle, size_t max_bytes) { return gpu_open(handle, max_bytes, "cuda", GRAPH, 0); }
static int share_open(void **handle, size_t max_bytes) { return gpu_open(handle, max_bytes, "cuda", PLAIN, SHARE); }
static int hip_open(void **handle, size_t max_bytes) { return gpu_open(handle, max_bytes, "hip", PLAIN, 0); }

#define DEVICE(id, text, open_)                            \
	const struct bench_device bench_device_##id = {    \
		.name = text,                              \
		.open = open_,                             \
		.close = gpu_close,                        \
		.load = gpu_load,                          \
		.encode = gpu_encode,                      \
		.decode = gpu_decode,                      \
		.poison = gpu_poison,                      \
		.check = gpu_check,                        \
	}

DEVICE(cuda, "cuda", cuda_open);
DEVICE(cuda_graph, "cuda-graph", graph_open);
DEVICE(cuda_share, "cuda-share", share_open);
DEVICE(hip, "hip", hip_open);
