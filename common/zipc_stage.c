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

int zipc_pool_open(struct zipc_pool *pool, size_t bytes, size_t slot_bytes, int kind)
{
	size_t i;

	slot_bytes = (slot_bytes + ZIPC_SLOT_ALIGN - 1) / ZIPC_SLOT_ALIGN * ZIPC_SLOT_ALIGN;
	memset(pool, 0, sizeof(*pool));
	pool->count = pool->total = bytes / slot_bytes ? bytes / slot_bytes : 1;
	pool->slot_bytes = slot_bytes;
	zipc_list_init(&pool->free);
	pool->slots = calloc(2 * pool->count, sizeof(*pool->slots));
	if (!pool->slots)
		return ZIPC_ERR_NOMEM;
	pool->memory = zipc_pool_map(pool);
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

void zipc_pool_close(struct zipc_pool *pool)
{
	if (pool->memory)
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
