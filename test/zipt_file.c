/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipt_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef ZIPT_HAVE_CJSON
#include <cjson/cJSON.h>

struct model_file {
	const char *path;
	char *error;            /* the caller's */
	size_t error_room;
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

static int file_error(const struct model_file *file, const char *what)
{
	snprintf(file->error, file->error_room, "%s: %s", file->path, what);
	return -1;
}

static int file_open(struct model_file *file)
{
	struct stat st;
	uint64_t header_size = 0;
	int fd = open(file->path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st)) {
		if (fd >= 0)
			close(fd);
		return file_error(file, strerror(errno));
	}
	file->size = (size_t)st.st_size;
	file->bytes = file->size ? mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	close(fd);
	if (file->bytes == MAP_FAILED)
		return file_error(file, "cannot be mapped, or is empty");
	for (unsigned i = 0; i < 8 && i < file->size; i++)
		header_size |= (uint64_t)file->bytes[i] << 8 * i;
	if (file->size < 8 || header_size > file->size - 8)
		return file_error(file, "not a safetensors file: the header's length does not fit");
	file->header = cJSON_ParseWithLength((const char *)file->bytes + 8, (size_t)header_size);
	if (!cJSON_IsObject(file->header))
		return file_error(file, "not a safetensors file: the header is not JSON");
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

int zipt_tensors_read(const char *path, const char *dtype, size_t limit, struct zipt_tensors *tensors, char *error,
		      size_t error_room)
{
	struct model_file file = { .path = path, .error = error, .error_room = error_room };
	const char *wanted, *known;
	size_t size;
	int rc = -1;

	*tensors = (struct zipt_tensors){ 0 };
	if (file_open(&file))
		goto out;
	wanted = dtype ? file_dtype(dtype) : main_dtype(&file);
	size = wanted ? gather(&file, wanted, limit, NULL, &tensors->count) : 0;
	if (!size) {
		file_error(&file, dtype ? "has no tensors of this --dtype" : "has no tensors");
		goto out;
	}
	tensors->bytes = malloc(size);
	if (!tensors->bytes) {
		file_error(&file, "no memory for its tensors");
		goto out;
	}
	gather(&file, wanted, size, tensors->bytes, &tensors->count);
	tensors->size = size;
	known = file_dtype(wanted);
	tensors->dtype = known ? known : "other";
	rc = 0;
out:
	file_close(&file);
	return rc;
}

#else

int zipt_tensors_read(const char *path, const char *dtype, size_t limit, struct zipt_tensors *tensors, char *error,
		      size_t error_room)
{
	(void)dtype;
	(void)limit;
	*tensors = (struct zipt_tensors){ 0 };
	snprintf(error, error_room, "--file %s: built without cJSON; install libcjson-dev and configure again", path);
	return -1;
}

#endif

void zipt_tensors_release(struct zipt_tensors *tensors)
{
	free(tensors->bytes);
	tensors->bytes = NULL;
}
