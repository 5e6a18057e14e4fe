/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors of a safetensors file. */
#ifndef ZIPT_FILE_H
#define ZIPT_FILE_H

#include <stddef.h>
#include <stdint.h>

struct zipt_tensors {
	uint8_t *bytes;      /* tensor after tensor; zipt_tensors_release */
	size_t size;
	const char *dtype;   /* as zipc_dtype_name has it, or "other" */
	size_t count;        /* tensors that the bytes were taken from */
};

/*
 * Reads the tensors of `dtype` (NULL: of the one that most bytes of the file have), at most `limit` bytes of them.
 * Returns 0, or -1 with one line about what is wrong in `error`.
 */
int zipt_tensors_read(const char *path, const char *dtype, size_t limit, struct zipt_tensors *tensors, char *error,
		      size_t error_room);
void zipt_tensors_release(struct zipt_tensors *tensors);

#endif
