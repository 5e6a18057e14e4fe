/* SPDX-License-Identifier: BSD-3-Clause */
#include "zip_demo.h"
#include "zipc_codec.h"
#include "zipt_data.h"
#include "zipt_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int read_file(const struct demo_options *options, struct demo_data *data)
{
	struct zipt_tensors tensors;
	char error[512];

	if (zipt_tensors_read(options->file, options->dtype, options->size, &tensors, error, sizeof(error))) {
		fprintf(stderr, "zip_demo: %s\n", error);
		return -1;
	}
	if (!alloc_bytes(options, data, tensors.size))
		for (size_t i = 0; i < data->count; i++)
			memcpy(data->bytes + i * tensors.size, tensors.bytes, tensors.size);
	data->dtype = tensors.dtype;
	data->dist = "file";
	data->tensors = tensors.count;
	zipt_tensors_release(&tensors);
	return data->bytes ? 0 : -1;
}

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
