/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed and ratio of the codecs. One line per combination of type, distribution, codec and size. */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "zip_codec_bench.h"
#include "zipc_error.h"
#include "zipt_data.h"

#define MAX_LIST 32
#define HUGE_PAGE ((size_t)2 << 20)
#define PART ((size_t)4069 * 8192) /* no power of two, which samples at regular distances would hit again and again */

/* ---- the host device ---- */

struct host {
	uint8_t *src, *frame, *out;
	size_t room, nbytes, frame_bytes;
};

static double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* As an allocator of tensors would: page aligned, huge pages where the system gives them, and touched before any clock runs. */
static uint8_t *big_alloc(size_t size)
{
	void *p = aligned_alloc(HUGE_PAGE, (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);

	if (p) {
		(void)madvise(p, size, MADV_HUGEPAGE);
		memset(p, 0x5a, size);
	}
	return p;
}

static void host_close(void *handle)
{
	struct host *h = handle;

	free(h->src);
	free(h->frame);
	free(h->out);
	free(h);
}

static int host_open(void **handle, size_t max_bytes)
{
	struct host *h = calloc(1, sizeof(*h));

	if (!h)
		return -1;
	h->room = zipc_frame_bound(max_bytes);
	h->src = big_alloc(max_bytes);
	h->frame = big_alloc(h->room);
	h->out = big_alloc(max_bytes);
	if (!h->src || !h->frame || !h->out) {
		fprintf(stderr, "zip_codec_bench: no memory for %zu bytes\n", max_bytes);
		host_close(h);
		return -1;
	}
	*handle = h;
	return 0;
}

static int host_load(void *handle, const void *src, size_t nbytes)
{
	struct host *h = handle;

	memcpy(h->src, src, nbytes);
	h->nbytes = nbytes;
	return 0;
}

static int host_encode(void *handle, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes, double *seconds)
{
	struct host *h = handle;
	double start = seconds_now();
	int ret = zipc_encode(h->frame, h->room, h->src, h->nbytes, dtype, codec, &h->frame_bytes);

	*seconds = seconds_now() - start;
	*frame_bytes = h->frame_bytes;
	return ret;
}

static int host_decode(void *handle, double *seconds)
{
	struct host *h = handle;
	double start = seconds_now();
	int ret = zipc_decode(h->out, h->nbytes, h->frame, h->frame_bytes);

	*seconds = seconds_now() - start;
	return ret;
}

static int host_poison(void *handle)
{
	struct host *h = handle;

	memset(h->out, 0xa5, h->nbytes);
	return 0;
}

static int host_check(void *handle, const void *src, size_t nbytes)
{
	struct host *h = handle;

	return !memcmp(h->out, src, nbytes);
}

const struct bench_device bench_device_host = {
	.name = "host",
	.open = host_open,
	.close = host_close,
	.load = host_load,
	.encode = host_encode,
	.decode = host_decode,
	.poison = host_poison,
	.check = host_check,
};

static const struct bench_device *const bench_devices[] = {
	&bench_device_host, &bench_device_cuda, &bench_device_cuda_graph, &bench_device_cuda_share, &bench_device_nvcomp, &bench_device_hip,
};

#define DEVICES (sizeof(bench_devices) / sizeof(bench_devices[0]))

/* ---- options ---- */

struct options {
	const struct bench_device *device;
	int dtypes[MAX_LIST], dists[MAX_LIST], codecs[MAX_LIST];
	size_t sizes[MAX_LIST];
	int ndtypes, ndists, ncodecs, nsizes, reps, json;
	double sigma;
	uint64_t seed;
};

enum { KEY_SIGMA = 256, KEY_SEED, KEY_JSON };

static const struct argp_option argp_options[] = {
	{ "device", 'd', "NAME", 0, "where to run: host (default), cuda, cuda-graph, cuda-share, nvcomp or hip", 0 },
	{ "dtype", 't', "LIST", 0, "element types: bf16,fp16,fp32,e4m3,e5m2 or all (default bf16)", 0 },
	{ "dist", 'D', "LIST", 0, "distributions of the data or all (default gauss)", 0 },
	{ "codec", 'c', "LIST", 0, "codecs: raw,fixed,entropy or all (default fixed,entropy)", 0 },
	{ "bytes", 'b', "LIST", 0, "sizes, with K, M or G for powers of 1024 (default 1M,64M)", 0 },
	{ "reps", 'r', "N", 0, "measurements of which the median is taken (default 9)", 0 },
	{ "sigma", KEY_SIGMA, "X", 0, "scale of the data (default 0.02)", 0 },
	{ "seed", KEY_SEED, "N", 0, "seed of the data (default 1)", 0 },
	{ "json", KEY_JSON, NULL, 0, "print one JSON object a line", 0 },
	{ 0 },
};

/* Parse a comma-separated list with `parse`, or everything from `first` on for "all". */
static int parse_list(const char *arg, int (*parse)(const char *), int first, int count, int *list)
{
	char *copy = strdup(arg), *save = NULL;
	int n = 0;

	for (char *word = strtok_r(copy, ",", &save); word && n >= 0; word = strtok_r(NULL, ",", &save)) {
		int value = parse(word);

		if (!strcmp(word, "all")) {
			for (n = 0; first + n < count && n < MAX_LIST; n++)
				list[n] = first + n;
			break;
		}
		if (value < first || n == MAX_LIST)
			n = -1;
		else
			list[n++] = value;
	}
	free(copy);
	return n;
}

static int parse_sizes(const char *arg, size_t *sizes)
{
	static const char suffixes[] = "KMG";
	int n = 0;

	while (*arg && n < MAX_LIST) {
		char *end;
		unsigned long long value = strtoull(arg, &end, 10);
		const char *suffix = *end ? strchr(suffixes, *end) : NULL;

		if (end == arg)
			return -1;
		if (suffix) {
			value <<= 10 * (suffix - suffixes + 1);
			end++;
		}
		sizes[n++] = (size_t)value;
		if (*end && *end != ',')
			return -1;
		arg = *end ? end + 1 : end;
	}
	return *arg ? -1 : n;
}

static const struct bench_device *find_device(const char *name)
{
	for (size_t i = 0; i < DEVICES; i++)
		if (!strcmp(name, bench_devices[i]->name))
			return bench_devices[i];
	return NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'd':
		o->device = find_device(arg);
		if (!o->device)
			argp_error(state, "no device \"%s\" in this build", arg);
		break;
	case 't':
		o->ndtypes = parse_list(arg, zipc_dtype_parse, 1, ZIPC_DTYPE_COUNT, o->dtypes);
		break;
	case 'D':
		o->ndists = parse_list(arg, zipt_dist_parse, 0, ZIPT_DIST_COUNT, o->dists);
		break;
	case 'c':
		o->ncodecs = parse_list(arg, zipc_codec_parse, 0, ZIPC_CODEC_COUNT, o->codecs);
		break;
	case 'b':
		o->nsizes = parse_sizes(arg, o->sizes);
		break;
	case 'r':
		o->reps = atoi(arg);
		break;
	case KEY_SIGMA:
		o->sigma = atof(arg);
		break;
	case KEY_SEED:
		o->seed = strtoull(arg, NULL, 0);
		break;
	case KEY_JSON:
		o->json = 1;
		break;
	case ARGP_KEY_END:
		if (o->ndtypes <= 0 || o->ndists <= 0 || o->ncodecs <= 0 || o->nsizes <= 0 || o->reps <= 0 || !(o->sigma > 0))
			argp_error(state, "bad list or number; --help shows the names");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static char *help_filter(int key, const char *text, void *input)
{
	char *buffer, *at;
	size_t room = 4096;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	at = buffer = malloc(room);
	if (!buffer)
		return NULL;
	at += snprintf(at, room, "Distributions:\n");
	for (int i = 0; i < ZIPT_DIST_COUNT; i++)
		at += snprintf(at, room - (size_t)(at - buffer), "  %-12s %s\n", zipt_dist_name((enum zipt_dist)i),
			       zipt_dist_text((enum zipt_dist)i));
	return buffer;
}

/* ---- measuring ---- */

struct result {
	size_t frame_bytes;
	double encode, decode; /* GB/s of input, medians */
	int bit_exact;
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* One run of each kind goes before those that count: it warms up caches, pages and tables. */
static int measure(const struct options *o, void *handle, const uint8_t *src, size_t nbytes, enum zipc_dtype dtype,
		   enum zipc_codec codec, struct result *result)
{
	double *encode = calloc((size_t)o->reps + 1, sizeof(double)), *decode = calloc((size_t)o->reps + 1, sizeof(double));
	int ret = encode && decode ? 0 : ZIPC_ERR_NOMEM;

	result->bit_exact = 1;
	for (int i = 0; i <= o->reps && !ret; i++)
		ret = o->device->encode(handle, dtype, codec, &result->frame_bytes, &encode[i]);
	for (int i = 0; i <= o->reps && !ret; i++) {
		ret = o->device->poison(handle);
		if (!ret)
			ret = o->device->decode(handle, &decode[i]);
		if (!ret && !o->device->check(handle, src, nbytes))
			result->bit_exact = 0;
	}
	if (!ret) {
		result->encode = (double)nbytes / median(encode + 1, o->reps) / 1e9;
		result->decode = (double)nbytes / median(decode + 1, o->reps) / 1e9;
	}
	free(encode);
	free(decode);
	return ret;
}

static double rounded(double x, double unit)
{
	return round(x / unit) * unit;
}

static void print_json(const struct options *o, const char *dtype, const char *dist, const char *codec, size_t nbytes,
		       const struct result *r)
{
	cJSON *line = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(line, "device", o->device->name);
	cJSON_AddStringToObject(line, "dtype", dtype);
	cJSON_AddStringToObject(line, "dist", dist);
	cJSON_AddStringToObject(line, "codec", codec);
	cJSON_AddNumberToObject(line, "bytes", (double)nbytes);
	cJSON_AddNumberToObject(line, "ratio", rounded(nbytes ? (double)r->frame_bytes / (double)nbytes : 1, 1e-4));
	cJSON_AddNumberToObject(line, "encode_GBps", rounded(r->encode, 1e-3));
	cJSON_AddNumberToObject(line, "decode_GBps", rounded(r->decode, 1e-3));
	cJSON_AddBoolToObject(line, "bit_exact", r->bit_exact);
	text = cJSON_PrintUnformatted(line);
	if (text)
		puts(text);
	cJSON_free(text);
	cJSON_Delete(line);
}

static void print_row(const struct options *o, const char *dtype, const char *dist, const char *codec, size_t nbytes,
		      const struct result *r)
{
	printf("%-6s %-5s %-11s %-7s %12zu %7.4f %11.3f %11.3f %9s\n", o->device->name, dtype, dist, codec, nbytes,
	       nbytes ? (double)r->frame_bytes / (double)nbytes : 1, r->encode, r->decode, r->bit_exact ? "yes" : "NO");
}

static void progress(const char *dtype, const char *dist, const char *codec, size_t nbytes)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s %s %s %zu bytes ...%s", dtype, dist, codec, nbytes, *codec ? "" : "\r\033[K");
}

/* Large inputs repeat their first part: the generators take seconds for it, and no codec here looks further than a group of blocks. */
static void fill(const struct options *o, uint8_t *src, size_t nbytes, int dtype, int dist)
{
	size_t part = nbytes < PART ? nbytes : PART;

	zipt_fill(src, part, (enum zipc_dtype)dtype, (enum zipt_dist)dist, o->sigma, o->seed);
	for (size_t done = part; done < nbytes; done += part) {
		part = nbytes - done < PART ? nbytes - done : PART;
		memcpy(src + done, src, part);
	}
}

/* All codecs on one input. Returns how many results were not bit-exact, or -1. */
static int bench_input(const struct options *o, void *handle, uint8_t *src, size_t nbytes, int dtype, int dist)
{
	const char *dtype_name = zipc_dtype_name((enum zipc_dtype)dtype), *dist_name = zipt_dist_name((enum zipt_dist)dist);
	int wrong = 0, ret;

	progress(dtype_name, dist_name, "data", nbytes);
	fill(o, src, nbytes, dtype, dist);
	ret = o->device->load(handle, src, nbytes);
	for (int i = 0; i < o->ncodecs && !ret; i++) {
		const char *codec_name = zipc_codec_name((enum zipc_codec)o->codecs[i]);
		struct result result = { 0 };

		progress(dtype_name, dist_name, codec_name, nbytes);
		ret = measure(o, handle, src, nbytes, (enum zipc_dtype)dtype, (enum zipc_codec)o->codecs[i], &result);
		if (ret)
			break;
		progress(dtype_name, dist_name, "", nbytes);
		(o->json ? print_json : print_row)(o, dtype_name, dist_name, codec_name, nbytes, &result);
		fflush(stdout);
		wrong += !result.bit_exact;
	}
	if (ret)
		fprintf(stderr, "zip_codec_bench: %s %s: %s\n", dtype_name, dist_name, zipc_strerror(ret));
	return ret ? -1 : wrong;
}

static int bench_all(const struct options *o, void *handle, uint8_t *src)
{
	int wrong = 0;

	if (!o->json)
		printf("%-6s %-5s %-11s %-7s %12s %7s %11s %11s %9s\n", "device", "dtype", "dist", "codec", "bytes", "ratio",
		       "encode_GBps", "decode_GBps", "bit_exact");
	for (int s = 0; s < o->nsizes; s++)
		for (int t = 0; t < o->ndtypes; t++)
			for (int d = 0; d < o->ndists; d++) {
				int ret = bench_input(o, handle, src, o->sizes[s], o->dtypes[t], o->dists[d]);

				if (ret < 0)
					return 1;
				wrong += ret;
			}
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		argp_options, parse_option, NULL,
		"Speed and ratio of the float codecs. GB/s are bytes of input, medians; every result is compared bit for bit.\v", NULL,
		help_filter, NULL,
	};
	struct options o = {
		.device = &bench_device_host, .dtypes = { ZIPC_DTYPE_BF16 }, .ndtypes = 1, .dists = { ZIPT_DIST_GAUSS }, .ndists = 1,
		.codecs = { ZIPC_CODEC_FIXED, ZIPC_CODEC_ENTROPY }, .ncodecs = 2, .sizes = { 1u << 20, 64u << 20 }, .nsizes = 2,
		.reps = 9, .sigma = 0.02, .seed = 1,
	};
	size_t max_bytes = 1;
	uint8_t *src;
	void *handle;
	int ret;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	for (int i = 0; i < o.nsizes; i++)
		max_bytes = o.sizes[i] > max_bytes ? o.sizes[i] : max_bytes;
	ret = o.device->open(&handle, max_bytes);
	if (ret) {
		if (ret > 0)
			fprintf(stderr, "zip_codec_bench: this machine has no device \"%s\"\n", o.device->name);
		return ret > 0 ? 77 : 1;
	}
	src = malloc(max_bytes);
	ret = src ? bench_all(&o, handle, src) : 1;
	free(src);
	o.device->close(handle);
	return ret;
}
