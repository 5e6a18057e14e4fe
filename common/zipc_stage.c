/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging pools: one mapping each, whose pages are touched only when a slot is used. */
#include <stdlib.h>
#include <sys/mman.h>

#include "zipc_engine_priv.h"

#define ZIPC_SLOT_ALIGN 4096u

int zipc_pool_open(struct zipc_pool *pool, size_t bytes, size_t slot_bytes, int kind)
{
	size_t i;

	slot_bytes = (slot_bytes + ZIPC_SLOT_ALIGN - 1) / ZIPC_SLOT_ALIGN * ZIPC_SLOT_ALIGN;
	pool->count = bytes / slot_bytes ? bytes / slot_bytes : 1;
	pool->slot_bytes = slot_bytes;
	pool->in_use = 0;
	zipc_list_init(&pool->free);
	pool->slots = calloc(pool->count, sizeof(*pool->slots));
	if (!pool->slots)
		return ZIPC_ERR_NOMEM;
	pool->memory = mmap(NULL, pool->count * slot_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pool->memory == MAP_FAILED) {
		pool->memory = NULL;
		free(pool->slots);
		pool->slots = NULL;
		return ZIPC_ERR_NOMEM;
	}
	for (i = 0; i < pool->count; i++) {
		pool->slots[i].op.kind = kind;
		pool->slots[i].pool = pool;
		pool->slots[i].buf = pool->memory + i * slot_bytes;
		zipc_list_append(&pool->free, &pool->slots[i].link);
	}
	return 0;
}

void zipc_pool_close(struct zipc_pool *pool)
{
	if (pool->memory)
		munmap(pool->memory, pool->count * pool->slot_bytes);
	free(pool->slots);
	pool->memory = NULL;
	pool->slots = NULL;
}

struct zipc_slot *zipc_pool_get(struct zipc_pool *pool, uint32_t *held)
{
	struct zipc_slot *slot;

	if (pool->in_use == pool->count || (*held && *held >= pool->count - pool->in_use))
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
	--*slot->held;
	slot->link.prev = head;
	slot->link.next = head->next;
	head->next->prev = &slot->link;
	head->next = &slot->link;
	slot->pool->in_use--;
}
