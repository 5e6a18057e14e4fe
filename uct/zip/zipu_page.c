/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters for zip_stat: one page for each memory domain, made with its first interface, a section for each interface. */
#include <stdio.h>
#include <string.h>

#include "zipc_page.h"
#include "zipu.h"

#define ZIPU_PAGE_MS 100 /* between two copies of an interface's counters */

/* What is known of a peer's whereabouts is the lower transport's own form of an address: its id has to do. */
static void zipu_page_name(void *ctx, const void *addr, size_t len, char *text, size_t room)
{
	uint64_t id = 0;

	(void)ctx;
	memcpy(&id, addr, len < sizeof(id) ? len : sizeof(id));
	snprintf(text, room, "%016llx", (unsigned long long)id);
}

void zipu_page_attach(struct zipu_iface *iface, const char *device)
{
	struct zipu_md *md = iface->md;
	char name[64];

	iface->page_section = -1;
	pthread_rwlock_wrlock(&md->lock);
	if (!md->page && md->stat_page)
		md->page = zipc_page_open(ZIPC_PAGE_DIR, "ucx", md->tl_name);
	pthread_rwlock_unlock(&md->lock);
	if (!md->page)
		return;
	snprintf(name, sizeof(name), "%016llx on %.32s", (unsigned long long)iface->id, device);
	iface->page_section = zipc_page_attach(md->page, name, 2 * iface->staging);
}

void zipu_page_update(struct zipu_iface *iface)
{
	uint64_t now = zipc_now_ms();

	if (!iface->md->page || now - iface->page_ms < ZIPU_PAGE_MS)
		return;
	iface->page_ms = now;
	zipc_page_update(iface->md->page, iface->page_section, iface->engine, zipu_page_name, iface);
}

void zipu_page_detach(struct zipu_iface *iface)
{
	if (!iface->md->page)
		return;
	zipc_page_update(iface->md->page, iface->page_section, iface->engine, zipu_page_name, iface);
	zipc_page_detach(iface->md->page, iface->page_section);
}

void zipu_page_close(struct zipu_md *md)
{
	if (md->page)
		zipc_page_close(md->page);
	md->page = NULL;
}
