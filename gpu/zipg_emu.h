/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs kernels on the host, for tests: one thread block after the other, its threads as fibers. */
#ifndef ZIPG_EMU_H
#define ZIPG_EMU_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/zipg_job.h"

/*
 * Run `grid` thread blocks of ZIPG_THREADS threads. `width` is the wavefront that is played, 32 or 64; `order` 1 starts
 * the fibers from the last to the first, so that a missing synchronisation shows in one order or the other.
 * Returns 0, or -1 when there is no memory. Aborts on a deadlock, which is a bug in a kernel.
 */
int zipg_emu_run(void (*kernel)(const struct zipg_job job), uint32_t grid, size_t shared_bytes,
		 const struct zipg_job *job, uint32_t width, int order);

/* The kernel for a kind and dtype, or NULL. */
void (*zipg_emu_kernel(unsigned int kind, unsigned int dtype))(const struct zipg_job job);

#endif
