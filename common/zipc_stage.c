/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging pools: one mapping each, whose pages are touched only when a slot is used. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "zipc_engine_priv.h"

#define ZIPC_SLOT_ALIGN 4096u

static char *zipc_pool_map(const struct zipc_pool *pool)
{
	void *memory = mmap(NULL, pool->count * pool->slot_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			    -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

size_t zipc_pool_slot_bytes(size_t frame_bytes)
{
	return (frame_bytes + ZIPC_SLOT_ALIGN - 1) / ZIPC_SLOT_ALIGN * ZIPC_SLOT_ALIGN;
}

/* `memory` NULL: mapped here. */
static int zipc_pool_init(struct zipc_pool *pool, char *memory, size_t count, size_t slot_bytes, int kind)
{
	size_t i;

	memset(pool, 0, sizeof(*pool));
	pool->count = pool->total = count;
	pool->slot_bytes = slot_bytes;
	zipc_list_init(&pool->free);
	pool->slots = calloc(2 * pool->count, sizeof(*pool->slots));
	if (!pool->slots)
		return ZIPC_ERR_NOMEM;
	pool->borrowed = pool->spare_failed = memory != NULL;
	pool->memory = memory ? memory : zipc_pool_map(pool);
	if (!pool->memory) {
		free(pool->slots);
		pool->slots = NULL;
		return ZIPC_ERR_NOMEM;
	}
	for (i = 0; i < 2 * pool->count; i++) {
		pool->slots[i].op.kind = kind;
		pool->slots[i].pool = pool;
		zipc_list_init(&pool->slots[i].link);
		if (i >= pool->count)
			continue;
		pool->slots[i].buf = pool->memory + i * slot_bytes;
		zipc_list_append(&pool->free, &pool->slots[i].link);
	}
	return 0;
}

int zipc_pool_open(struct zipc_pool *pool, size_t bytes, size_t slot_bytes, int kind)
{
	slot_bytes = zipc_pool_slot_bytes(slot_bytes);
	return zipc_pool_init(pool, NULL, bytes / slot_bytes ? bytes / slot_bytes : 1, slot_bytes, kind);
}

int zipc_pool_open_at(struct zipc_pool *pool, void *memory, size_t count, size_t slot_bytes, int kind)
{
	return zipc_pool_init(pool, memory, count, slot_bytes, kind);
}

void zipc_pool_close(struct zipc_pool *pool)
{
	if (pool->memory && !pool->borrowed)
		munmap(pool->memory, pool->count * pool->slot_bytes);
	if (pool->spare)
		munmap(pool->spare, pool->count * pool->slot_bytes);
	free(pool->slots);
	pool->memory = pool->spare = NULL;
	pool->slots = NULL;
}

struct zipc_slot *zipc_pool_get(struct zipc_pool *pool, uint32_t *held)
{
	size_t usable = zipc_pool_usable(pool);
	struct zipc_slot *slot;

	if (pool->in_use >= usable || (*held && *held >= usable - pool->in_use))
		return NULL;
	slot = zipc_container(zipc_list_pop(&pool->free), struct zipc_slot, link);
	pool->in_use++;
	slot->held = held;
	++*held;
	return slot;
}

static int zipc_slot_is_free(const struct zipc_slot *slot)
{
	/* A lost one is in no list until the network gives it back, or a device is at it. */
	return !slot->held && !slot->coding && !zipc_list_empty(&slot->link);
}

/* Free slots in a row from `first` on, `most` at most. */
static size_t zipc_pool_row(const struct zipc_pool *pool, size_t first, size_t most)
{
	size_t n = 0;

	while (n < most && first + n < pool->total && zipc_slot_is_free(&pool->slots[first + n]))
		n++;
	return n;
}

struct zipc_slot *zipc_pool_get_run(struct zipc_pool *pool, uint32_t *held, const struct zipc_slot *after, uint32_t *n)
{
	size_t usable = zipc_pool_usable(pool), left = usable > pool->in_use ? usable - pool->in_use : 0;
	/* As many as zipc_pool_get would give one after the other. */
	size_t most = left > *held ? (left - *held + 1) / 2 : 0, first = 0, best = 0, row, i;

	if (*n < most)
		most = *n;
	if (after) {
		first = (size_t)(after - pool->slots) + 1;
		best = zipc_pool_row(pool, first, most);
	}
	for (i = 0; !(after && best) && i < pool->total && best < most; i += row ? row : 1) {
		row = zipc_pool_row(pool, i, most);
		if (row > best) {
			best = row;
			first = i;
		}
	}
	for (i = first; i < first + best; i++) {
		zipc_list_remove(&pool->slots[i].link);
		pool->slots[i].held = held;
		pool->slots[i].bytes = 0;
		++*held;
		pool->in_use++;
	}
	*n = (uint32_t)best;
	return best ? &pool->slots[first] : NULL;
}

/* Last in, first out: a slot whose pages are there already is used again before a fresh one. */
void zipc_pool_put(struct zipc_slot *slot)
{
	struct zipc_list *head = &slot->pool->free;

	slot->xfer = NULL;
	slot->link.prev = head;
	slot->link.next = head->next;
	head->next->prev = &slot->link;
	head->next = &slot->link;
	if (slot->held) {
		--*slot->held;
		slot->pool->in_use--;
	} else {
		slot->pool->lost--;
	}
	slot->held = NULL;
}

/* Memory for the slots that stand in for lost ones. */
static void zipc_pool_map_spare(struct zipc_engine *engine, struct zipc_pool *pool)
{
	size_t bytes = pool->count * pool->slot_bytes;
	int (*reg)(void *, void *, size_t) = engine->net_ops->stage_register;

	pool->spare = zipc_pool_map(pool);
	if (pool->spare && (!reg || !reg(engine->net, pool->spare, bytes)))
		return;
	if (pool->spare)
		munmap(pool->spare, bytes);
	pool->spare = NULL;
	pool->spare_failed = 1;
	zipc_log(engine, ZIPC_LOG_WARN, "no memory in place of what a lost peer keeps");
}

static void zipc_slot_lose(struct zipc_engine *engine, struct zipc_slot *slot)
{
	struct zipc_pool *pool = slot->pool;
	struct zipc_slot *fresh;

	--*slot->held;
	slot->held = NULL;
	pool->in_use--;
	pool->lost++;
	if (!pool->spare && !pool->spare_failed)
		zipc_pool_map_spare(engine, pool);
	if (!pool->spare || pool->total == 2 * pool->count)
		return;
	fresh = &pool->slots[pool->total];
	fresh->buf = pool->spare + (pool->total - pool->count) * pool->slot_bytes;
	pool->total++;
	zipc_list_append(&pool->free, &fresh->link);
}

void zipc_pool_lose(struct zipc_engine *engine, struct zipc_pool *pool, uint32_t *held)
{
	size_t i;

	for (i = 0; *held && i < pool->total; i++)
		if (pool->slots[i].held == held)
			zipc_slot_lose(engine, &pool->slots[i]);
}
