/* SPDX-License-Identifier: BSD-3-Clause */
#include "zip_demo.h"
#include "zipc_codec.h"
#include "zipt_data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef ZIPT_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

/* The least that a round moves: single small messages are too quick to time. */
#define ROUND_BYTES (64u << 20)
#define COUNT_MAX 16384u

static size_t choose_count(const struct demo_options *options, size_t size)
{
	size_t count = options->count ? options->count : ROUND_BYTES / size;

	if (!count)
		return 1;
	return options->count || count < COUNT_MAX ? count : COUNT_MAX;
}

static int alloc_bytes(const struct demo_options *options, struct demo_data *data, size_t size)
{
	data->size = size;
	data->count = choose_count(options, size);
	if (data->count > SIZE_MAX / size || !(data->bytes = malloc(size * data->count))) {
		fprintf(stderr, "zip_demo: no memory for %zu messages of %zu bytes; try a smaller --size or --count\n",
			data->count, size);
		return -1;
	}
	return 0;
}

static int make_random(const struct demo_options *options, struct demo_data *data)
{
	int dtype = zipc_dtype_parse(options->dtype);
	int dist = zipt_dist_parse(options->dist);

	if (alloc_bytes(options, data, options->size))
		return -1;
	data->dtype = options->dtype;
	data->dist = options->dist;
	zipt_fill(data->bytes, data->size * data->count, (enum zipc_dtype)dtype, (enum zipt_dist)dist, options->sigma,
		  options->seed);
	return 0;
}

#ifdef ZIPT_HAVE_CJSON

struct model_file {
	const uint8_t *bytes;   /* mapped */
	size_t size;
	size_t data_start;      /* after length and header */
	cJSON *header;
};

/* What safetensors calls our dtypes. */
static const char *file_dtype(const char *dtype)
{
	static const char *const names[][2] = {
		{ "bf16", "BF16" }, { "fp16", "F16" }, { "fp32", "F32" }, { "e4m3", "F8_E4M3" }, { "e5m2", "F8_E5M2" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(names[i][0], dtype))
			return names[i][1];
		if (!strcmp(names[i][1], dtype))
			return names[i][0];
	}
	return NULL;
}

static int file_error(const struct demo_options *options, const char *what)
{
	fprintf(stderr, "zip_demo: %s: %s\n", options->file, what);
	return -1;
}

static int file_open(const struct demo_options *options, struct model_file *file)
{
	struct stat st;
	uint64_t header_size = 0;
	int fd = open(options->file, O_RDONLY);

	if (fd < 0 || fstat(fd, &st)) {
		if (fd >= 0)
			close(fd);
		return file_error(options, strerror(errno));
	}
	file->size = (size_t)st.st_size;
	file->bytes = file->size ? mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	close(fd);
	if (file->bytes == MAP_FAILED)
		return file_error(options, "cannot be mapped, or is empty");
	for (unsigned i = 0; i < 8 && i < file->size; i++)
		header_size |= (uint64_t)file->bytes[i] << 8 * i;
	if (file->size < 8 || header_size > file->size - 8)
		return file_error(options, "not a safetensors file: the header's length does not fit");
	file->header = cJSON_ParseWithLength((const char *)file->bytes + 8, (size_t)header_size);
	if (!cJSON_IsObject(file->header))
		return file_error(options, "not a safetensors file: the header is not JSON");
	file->data_start = 8 + (size_t)header_size;
	return 0;
}

static void file_close(struct model_file *file)
{
	cJSON_Delete(file->header);
	if (file->bytes && file->bytes != MAP_FAILED)
		munmap((void *)(uintptr_t)file->bytes, file->size);
}

/* The bytes of a tensor of the dtype wanted (any, when NULL). Returns its size, 0 when it is not wanted or wrong. */
static size_t tensor_bytes(const struct model_file *file, const cJSON *tensor, const char *dtype, const uint8_t **bytes_p)
{
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tensor, "dtype"));
	const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
	double begin, end;

	if (!name || cJSON_GetArraySize(offsets) != 2 || (dtype && strcmp(name, dtype)))
		return 0;
	begin = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 0));
	end = cJSON_GetNumberValue(cJSON_GetArrayItem(offsets, 1));
	if (!(begin >= 0) || !(end > begin) || !(end <= (double)(file->size - file->data_start)))
		return 0;
	*bytes_p = file->bytes + file->data_start + (size_t)begin;
	return (size_t)end - (size_t)begin;
}

/* The dtype that most bytes of the file have. */
static const char *main_dtype(const struct model_file *file)
{
	const char *best = NULL;
	double best_bytes = 0;
	const cJSON *a, *b;
	const uint8_t *bytes;

	cJSON_ArrayForEach(a, file->header) {
		const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(a, "dtype"));
		double sum = 0;

		if (!name || (best && !strcmp(best, name)))
			continue;
		cJSON_ArrayForEach(b, file->header)
			sum += (double)tensor_bytes(file, b, name, &bytes);
		if (sum > best_bytes) {
			best_bytes = sum;
			best = name;
		}
		if (best_bytes * 2 > (double)file->size)
			break;  /* no other can have more */
	}
	return best;
}

/* Tensor after tensor, up to `limit` bytes in all; copies when dst is given. Returns the bytes. */
static size_t gather(const struct model_file *file, const char *dtype, size_t limit, uint8_t *dst, size_t *tensors_p)
{
	const cJSON *tensor;
	const uint8_t *bytes;
	size_t total = 0;

	*tensors_p = 0;
	cJSON_ArrayForEach(tensor, file->header) {
		size_t size = tensor_bytes(file, tensor, dtype, &bytes);

		if (!size || total == limit)
			continue;
		if (size > limit - total)
			size = limit - total;
		if (dst)
			memcpy(dst + total, bytes, size);
		total += size;
		++*tensors_p;
	}
	return total;
}

static int read_file(const struct demo_options *options, struct demo_data *data)
{
	struct model_file file = { 0 };
	const char *dtype, *known;
	size_t size, tensors;
	int rc = -1;

	if (file_open(options, &file))
		goto out;
	dtype = options->dtype ? file_dtype(options->dtype) : main_dtype(&file);
	size = dtype ? gather(&file, dtype, options->size, NULL, &tensors) : 0;
	if (!size) {
		file_error(options, options->dtype ? "has no tensors of this --dtype" : "has no tensors");
		goto out;
	}
	if (alloc_bytes(options, data, size))
		goto out;
	gather(&file, dtype, size, data->bytes, &data->tensors);
	for (size_t i = 1; i < data->count; i++)
		memcpy(data->bytes + i * size, data->bytes, size);
	known = file_dtype(dtype);
	data->dtype = known ? known : "other";
	data->dist = "file";
	rc = 0;
out:
	file_close(&file);
	return rc;
}

#else

static int read_file(const struct demo_options *options, struct demo_data *data)
{
	fprintf(stderr, "zip_demo: --file %s: built without cJSON; install libcjson-dev and configure again\n", options->file);
	return -1;
}

#endif

int demo_data_make(const struct demo_options *options, struct demo_data *data)
{
	*data = (struct demo_data){ 0 };
	return options->file ? read_file(options, data) : make_random(options, data);
}

void demo_data_release(struct demo_data *data)
{
	free(data->bytes);
	data->bytes = NULL;
}
