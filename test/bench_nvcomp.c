/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zip_codec_bench with nvCOMP's ANS codec, for comparison. Its library is opened at run time: libnvcomp.so.6 from the loader's path, or what
 * NVCOMP_LIBRARY names. Chunks of 256 KiB in one batch, each way as its documentation advises; types of two bytes as FLOAT16.
 * The ratio counts the compressed bytes of all chunks and nothing else.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zip_codec_bench.h"
#include "zipc_error.h"
#include "zipg_driver.h"
#include "zipg_priv.h"
#include "zipg_tables.h"

#define CHUNK ((size_t)256 << 10)

/* The interface of nvCOMP 6: options of 64 bytes, passed by value, zero but for these. */
struct ans_compress {
	int algorithm;
	int data_type;
	char rest[56];
};

struct ans_decompress {
	int backend;
	int data_type;
	char rest[56];
};

#define TYPE_CHAR 0
#define TYPE_E4M3 9
#define TYPE_FLOAT16 10
#define TYPE_FLOAT32 11
#define TYPE_ANY 0xff

struct nvcomp {
	struct zipg_device *dev;
	struct zipg_hw *hw;
	const struct zipg_driver *drv;
	void *library;
	int (*compress_temp)(size_t chunks, size_t chunk, struct ans_compress opts, size_t *bytes, size_t total, void *stream);
	int (*decompress_temp)(size_t chunks, size_t chunk, struct ans_decompress opts, size_t *bytes, size_t total, void *stream);
	int (*bound)(size_t chunk, struct ans_compress opts, size_t *bytes);
	int (*compress)(const void *const *in, const size_t *in_bytes, size_t chunk, size_t chunks, void *temp, size_t temp_bytes,
			void *const *out, size_t *out_bytes, struct ans_compress opts, int *status, void *stream);
	int (*decompress)(const void *const *in, const size_t *in_bytes, const size_t *room, size_t *out_bytes, size_t chunks, void *temp,
			  size_t temp_bytes, void *const *out, struct ans_decompress opts, int *status, void *stream);
	size_t room, frames_room, temp_bytes, list_bytes;
	uint8_t *in, *frames, *out, *temp, *list;
	void *event[2];
	size_t nbytes, chunks, bound_bytes;
	struct ans_compress enc;
	struct ans_decompress dec;
};

/* Lists of one entry a chunk, one after the other in device memory. */
enum list { IN, IN_BYTES, OUT, OUT_BYTES, BACK, BACK_BYTES, STATUS, LISTS };

static void *list_at(struct nvcomp *n, enum list which) { return n->list + (size_t)which * n->list_bytes / LISTS; }
static void *stream(struct nvcomp *n) { return zipg_device_backend(n->dev)->stream(n->hw, 0); }

static int load_symbols(struct nvcomp *n)
{
	static const char *const names[] = {
		"nvcompBatchedANSCompressGetTempSize", "nvcompBatchedANSDecompressGetTempSize",
		"nvcompBatchedANSCompressGetMaxOutputChunkSize", "nvcompBatchedANSCompressAsync", "nvcompBatchedANSDecompressAsync",
	};
	const char *path = getenv("NVCOMP_LIBRARY");
	void *symbol[5];

	n->library = dlopen(path ? path : "libnvcomp.so.6", RTLD_NOW | RTLD_LOCAL);
	if (!n->library)
		return -1;
	for (int i = 0; i < 5; i++) {
		symbol[i] = dlsym(n->library, names[i]);
		if (!symbol[i])
			return -1;
	}
	memcpy(&n->compress_temp, &symbol[0], sizeof(void *));
	memcpy(&n->decompress_temp, &symbol[1], sizeof(void *));
	memcpy(&n->bound, &symbol[2], sizeof(void *));
	memcpy(&n->compress, &symbol[3], sizeof(void *));
	memcpy(&n->decompress, &symbol[4], sizeof(void *));
	return 0;
}

static void nvcomp_close(void *handle)
{
	struct nvcomp *n = handle;

	if (n->dev) {
		zipg_release(n->dev, ZIPG_MEMORY_DEVICE, n->room, n->in);
		zipg_release(n->dev, ZIPG_MEMORY_DEVICE, n->frames_room, n->frames);
		zipg_release(n->dev, ZIPG_MEMORY_DEVICE, n->room, n->out);
		zipg_release(n->dev, ZIPG_MEMORY_DEVICE, n->temp_bytes, n->temp);
		zipg_release(n->dev, ZIPG_MEMORY_DEVICE, n->list_bytes, n->list);
		zipg_close(n->dev);
	}
	free(n);
}

/* Memory for the largest input: buffers, what the library asks for, and the lists. */
static int take_memory(struct nvcomp *n, size_t max_bytes)
{
	size_t chunks = (max_bytes + CHUNK - 1) / CHUNK, a = 0, b = 0;

	if (n->bound(CHUNK, n->enc, &n->bound_bytes) || n->compress_temp(chunks, CHUNK, n->enc, &a, max_bytes, stream(n)) ||
	    n->decompress_temp(chunks, CHUNK, n->dec, &b, max_bytes, stream(n)))
		return -1;
	n->bound_bytes = (n->bound_bytes + 255) & ~(size_t)255;
	n->temp_bytes = (a > b ? a : b) + 256;
	n->room = chunks * CHUNK;
	n->frames_room = chunks * n->bound_bytes;
	n->list_bytes = LISTS * ((chunks * 8 + 255) & ~(size_t)255);
	return zipg_alloc(n->dev, ZIPG_MEMORY_DEVICE, n->room, (void **)&n->in) ||
	       zipg_alloc(n->dev, ZIPG_MEMORY_DEVICE, n->frames_room, (void **)&n->frames) ||
	       zipg_alloc(n->dev, ZIPG_MEMORY_DEVICE, n->room, (void **)&n->out) ||
	       zipg_alloc(n->dev, ZIPG_MEMORY_DEVICE, n->temp_bytes, (void **)&n->temp) ||
	       zipg_alloc(n->dev, ZIPG_MEMORY_DEVICE, n->list_bytes, (void **)&n->list) ? -1 : 0;
}

static int nvcomp_open(void **handle, size_t max_bytes)
{
	struct nvcomp *n = calloc(1, sizeof(*n));
	const char *why;
	int ret;

	if (!n)
		return -1;
	if (zipg_count("cuda", &why) < 1 || load_symbols(n)) {
		fprintf(stderr, "zip_codec_bench: nvcomp: %s\n", zipg_count("cuda", &why) < 1 ? why : "no libnvcomp.so.6");
		nvcomp_close(n);
		return 1;
	}
	n->dec.data_type = TYPE_ANY;
	ret = zipg_open("cuda", 0, NULL, &n->dev);
	if (!ret) {
		n->hw = zipg_device_hw(n->dev);
		n->drv = zipg_hw_driver(n->hw);
		zipg_hw_enter(n->hw);
		n->drv->event_open(&n->event[0], 0);
		n->drv->event_open(&n->event[1], 0);
		ret = take_memory(n, max_bytes);
		zipg_hw_leave(n->hw);
	}
	if (ret) {
		fprintf(stderr, "zip_codec_bench: nvcomp does not open\n");
		nvcomp_close(n);
		return -1;
	}
	*handle = n;
	return 0;
}

static int nvcomp_load(void *handle, const void *src, size_t nbytes)
{
	struct nvcomp *n = handle;
	uint64_t *rows;
	int ret = 0;

	n->nbytes = nbytes;
	n->chunks = (nbytes + CHUNK - 1) / CHUNK;
	rows = calloc(LISTS, n->list_bytes / LISTS);
	if (!rows)
		return ZIPC_ERR_NOMEM;
	for (size_t i = 0; i < n->chunks; i++) {
		size_t row = n->list_bytes / LISTS / 8;

		rows[IN * row + i] = (uintptr_t)n->in + i * CHUNK;
		rows[IN_BYTES * row + i] = nbytes - i * CHUNK < CHUNK ? nbytes - i * CHUNK : CHUNK;
		rows[OUT * row + i] = (uintptr_t)n->frames + i * n->bound_bytes;
		rows[BACK * row + i] = (uintptr_t)n->out + i * CHUNK;
	}
	zipg_hw_enter(n->hw);
	ret = n->drv->upload((uintptr_t)n->in, src, nbytes) || n->drv->upload((uintptr_t)n->list, rows, n->list_bytes);
	zipg_hw_leave(n->hw);
	free(rows);
	return ret ? ZIPC_ERR_NET : 0;
}

static double elapsed(struct nvcomp *n)
{
	float ms = 0;

	n->drv->stream_wait(stream(n));
	n->drv->event_elapsed(&ms, n->event[0], n->event[1]);
	return ms * 1e-3;
}

static int nvcomp_encode(void *handle, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes, double *seconds)
{
	struct nvcomp *n = handle;
	uint64_t *sizes = calloc(n->chunks + 1, sizeof(*sizes));
	int ret;

	(void)codec;
	if (!sizes)
		return ZIPC_ERR_NOMEM;
	n->enc.data_type = dtype == ZIPC_DTYPE_FP32 ? TYPE_FLOAT32 : dtype == ZIPC_DTYPE_BF16 || dtype == ZIPC_DTYPE_FP16 ? TYPE_FLOAT16 :
			   dtype == ZIPC_DTYPE_E4M3 ? TYPE_E4M3 : TYPE_CHAR;
	zipg_hw_enter(n->hw);
	n->drv->event_record(n->event[0], stream(n));
	ret = n->compress(list_at(n, IN), list_at(n, IN_BYTES), CHUNK, n->chunks, n->temp, n->temp_bytes, list_at(n, OUT),
			  list_at(n, OUT_BYTES), n->enc, list_at(n, STATUS), stream(n));
	n->drv->event_record(n->event[1], stream(n));
	*seconds = elapsed(n);
	n->drv->download(sizes, (uintptr_t)list_at(n, OUT_BYTES), n->chunks * sizeof(*sizes));
	zipg_hw_leave(n->hw);
	*frame_bytes = 0;
	for (size_t i = 0; i < n->chunks; i++)
		*frame_bytes += sizes[i];
	free(sizes);
	return ret ? ZIPC_ERR_NET : 0;
}

static int nvcomp_decode(void *handle, double *seconds)
{
	struct nvcomp *n = handle;
	int ret;

	zipg_hw_enter(n->hw);
	n->drv->event_record(n->event[0], stream(n));
	ret = n->decompress(list_at(n, OUT), list_at(n, OUT_BYTES), list_at(n, IN_BYTES), list_at(n, BACK_BYTES), n->chunks, n->temp,
			    n->temp_bytes, list_at(n, BACK), n->dec, list_at(n, STATUS), stream(n));
	n->drv->event_record(n->event[1], stream(n));
	*seconds = elapsed(n);
	zipg_hw_leave(n->hw);
	return ret ? ZIPC_ERR_NET : 0;
}

/* Junk in the output; and as all buffers are used again and again, something else in L2. */
static int nvcomp_poison(void *handle)
{
	struct nvcomp *n = handle;
	int ret;

	zipg_hw_enter(n->hw);
	ret = n->drv->fill((uintptr_t)n->out, 0xa5, n->nbytes) || n->drv->stream_wait(NULL);
	zipg_hw_leave(n->hw);
	return ret ? ZIPC_ERR_NET : 0;
}

static int nvcomp_check(void *handle, const void *src, size_t nbytes)
{
	struct nvcomp *n = handle;
	uint8_t *back = malloc(nbytes);
	int equal = 0;

	if (!back)
		return 0;
	zipg_hw_enter(n->hw);
	if (!n->drv->download(back, (uintptr_t)n->out, nbytes))
		equal = !memcmp(back, src, nbytes);
	zipg_hw_leave(n->hw);
	free(back);
	return equal;
}

const struct bench_device bench_device_nvcomp = {
	.name = "nvcomp",
	.open = nvcomp_open,
	.close = nvcomp_close,
	.load = nvcomp_load,
	.encode = nvcomp_encode,
	.decode = nvcomp_decode,
	.poison = nvcomp_poison,
	.check = nvcomp_check,
};
