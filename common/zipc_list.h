/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list. Not thread-safe: the owner's lock guards it. */
#ifndef ZIPC_LIST_H
#define ZIPC_LIST_H

#include <stddef.h>

struct zipc_list {
	struct zipc_list *next, *prev;
};

#define zipc_container(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

static inline void zipc_list_init(struct zipc_list *head)
{
	head->next = head->prev = head;
}

static inline int zipc_list_empty(const struct zipc_list *head)
{
	return head->next == head;
}

static inline void zipc_list_append(struct zipc_list *head, struct zipc_list *entry)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

/* Leaves `entry` empty, so that removing it twice is harmless. */
static inline void zipc_list_remove(struct zipc_list *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	zipc_list_init(entry);
}

static inline struct zipc_list *zipc_list_pop(struct zipc_list *head)
{
	struct zipc_list *entry = head->next;

	if (entry == head)
		return NULL;
	zipc_list_remove(entry);
	return entry;
}

#endif
