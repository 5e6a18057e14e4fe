/* SPDX-License-Identifier: BSD-3-Clause */
/* What is sent, where it lands, and whether it is right. */
#include "zip_perf.h"
#include "zipc_codec.h"
#include "zipg.h"
#include "zipt_data.h"
#include "zipt_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Generators are slow: larger messages repeat this much, which is no power of two, so that samples at regular distances do
 * not repeat.
 */
#define POOL_MOST ((size_t)4069 * 8192)
#define FILE_MOST ((size_t)1 << 30)
#define RX_COMFORT ((size_t)512 << 20) /* twice the window is received in at most so much */
#define POISON 0xa5

int perf_initiates(const struct perf_plan *plan, enum perf_role role)
{
	return role == PERF_CLIENT || plan->bidirectional;
}

int perf_receives(const struct perf_plan *plan, enum perf_role role)
{
	if (plan->op == PERF_READ)
		return perf_initiates(plan, role);
	return role == PERF_SERVER || plan->bidirectional;
}

static size_t largest(const struct perf_plan *plan)
{
	size_t most = 0;

	for (uint32_t i = 0; i < plan->nsizes; i++)
		most = plan->sizes[i] > most ? plan->sizes[i] : most;
	return most;
}

int perf_pool_make(struct perf_memory *memory, struct perf_plan *plan, const char *file)
{
	size_t most = largest(plan);
	struct zipt_tensors tensors;
	char error[512];

	if (file) {
		if (zipt_tensors_read(file, plan->dtype[0] ? plan->dtype : NULL, most < FILE_MOST ? most : FILE_MOST, &tensors,
				      error, sizeof(error))) {
			perf_fail("%s", error);
			return -1;
		}
		memory->pool = tensors.bytes;
		memory->pool_bytes = plan->pool_bytes = tensors.size;
		memory->tensors = tensors.count;
		snprintf(plan->dtype, sizeof(plan->dtype), "%s", tensors.dtype);
		return 0;
	}
	memory->pool_bytes = most + PERF_SLOT_STEP < POOL_MOST ? most + PERF_SLOT_STEP : POOL_MOST;
	memory->pool = malloc(memory->pool_bytes);
	if (!memory->pool) {
		perf_fail("no memory for %zu bytes of data", memory->pool_bytes);
		return -1;
	}
	zipt_fill(memory->pool, memory->pool_bytes, (enum zipc_dtype)zipc_dtype_parse(plan->dtype),
		  (enum zipt_dist)zipt_dist_parse(plan->dist), plan->sigma, plan->seed);
	return 0;
}

static uint8_t *host_alloc(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, POISON, bytes); /* touched before any clock runs */
	return p;
}

/* A device must be there before anything else is asked of it. */
static int device_fault(enum perf_memory_kind kind)
{
	const char *why = NULL;

	if (!zipg_count(perf_memory_names[kind], &why)) {
		perf_fail("--memory %s: not available here: %s", perf_memory_names[kind], why ? why : "no device");
		return -1;
	}
	perf_fail("--memory %s: there is a device, but zip_perf does not send from its memory yet; use --memory host",
		  perf_memory_names[kind]);
	return -1;
}

int perf_memory_open(struct perf_memory *memory, const struct perf_plan *plan, enum perf_role role)
{
	size_t most = largest(plan);
	int receives = perf_receives(plan, role);
	int sends = plan->op == PERF_READ ? perf_receives(plan, role == PERF_CLIENT ? PERF_SERVER : PERF_CLIENT)
					  : perf_initiates(plan, role);

	memory->kind = (enum perf_memory_kind)plan->memory;
	if (memory->kind != PERF_HOST)
		return device_fault(memory->kind);
	memory->window = plan->window;
	memory->depth = 2 * plan->window <= RX_COMFORT / most ? 2 * plan->window : plan->window;
	if (most > SIZE_MAX / 2 / memory->depth) {
		perf_fail("%u messages of %zu bytes at once are more than there is memory for: smaller --sizes or --window",
			  memory->depth, most);
		return -1;
	}
	memory->tx_bytes = sends ? most * memory->window : 0;
	memory->rx_bytes = receives ? most * memory->depth : 0;
	memory->tx = sends ? host_alloc(memory->tx_bytes) : NULL;
	memory->rx = receives ? host_alloc(memory->rx_bytes) : NULL;
	if ((sends && !memory->tx) || (receives && !memory->rx)) {
		perf_fail("no memory for %zu bytes: smaller --sizes or --window", memory->tx_bytes + memory->rx_bytes);
		return -1;
	}
	return 0;
}

void perf_memory_close(struct perf_memory *memory)
{
	free(memory->pool);
	if (memory->tx)
		munmap(memory->tx, memory->tx_bytes);
	if (memory->rx)
		munmap(memory->rx, memory->rx_bytes);
	*memory = (struct perf_memory){ 0 };
}

/* The next stretch of a slot's data that lies in one piece in the pool. */
static size_t pool_stretch(const struct perf_memory *memory, uint32_t slot, size_t done, size_t size, const uint8_t **from)
{
	size_t at = ((size_t)slot * PERF_SLOT_STEP + done) % memory->pool_bytes;
	size_t n = memory->pool_bytes - at;

	*from = memory->pool + at;
	return n < size - done ? n : size - done;
}

void perf_memory_fill(struct perf_memory *memory, size_t size)
{
	const uint8_t *from;

	for (uint32_t slot = 0; memory->tx && slot < memory->window; slot++)
		for (size_t n, done = 0; done < size; done += n) {
			n = pool_stretch(memory, slot, done, size, &from);
			memcpy(memory->tx + slot * size + done, from, n);
		}
}

void perf_memory_poison(struct perf_memory *memory, size_t size, uint64_t count)
{
	if (memory->rx)
		memset(memory->rx, POISON, size * (count < memory->depth ? count : memory->depth));
}

static int slot_wrong(const struct perf_memory *memory, uint32_t slot, size_t size)
{
	const uint8_t *from;

	for (size_t n, done = 0; done < size; done += n) {
		n = pool_stretch(memory, slot % memory->window, done, size, &from);
		if (memcmp(memory->rx + slot * size + done, from, n))
			return 1;
	}
	return 0;
}

uint64_t perf_memory_wrong(const struct perf_memory *memory, size_t size, uint64_t count)
{
	uint64_t wrong = 0;

	for (uint32_t slot = 0; memory->rx && slot < memory->depth && slot < count; slot++)
		wrong += (uint64_t)slot_wrong(memory, slot, size);
	return wrong;
}
