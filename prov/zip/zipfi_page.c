/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters for zip_stat, and the same table at the end: common/zipc_page.h. Sections are written under ep->lock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zipc_page.h"
#include "zipfi.h"

#define ZIPFI_PAGE_MS 100 /* between two copies of an endpoint's counters */

/* An address as libfabric writes it, without the name of its format. */
static void zipfi_page_name(void *ctx, const void *addr, size_t len, char *text, size_t room)
{
	struct zipfi_ep *ep = ctx;
	_Alignas(16) uint8_t copy[ZIPC_ADDR_MAX + 16] = {0};
	char name[256] = "";
	size_t n = sizeof(name);
	const char *plain;

	memcpy(copy, addr, len < ZIPC_ADDR_MAX ? len : ZIPC_ADDR_MAX);
	if (!fi_av_straddr(ep->comp_av, copy, name, &n))
		name[0] = 0;
	name[sizeof(name) - 1] = 0;
	plain = strstr(name, "://");
	snprintf(text, room, "%s", plain ? plain + 3 : name);
}

void zipfi_page_open(struct zipfi_domain *domain, const struct fi_info *info)
{
	const char *name = info->fabric_attr ? info->fabric_attr->prov_name : NULL;
	/* A core that FI_PROVIDER hides from those between has another name there than the user knows. */
	char *core = name ? zipfi_core_name(name) : NULL;

	domain->page = NULL;
	if (zipfi_param.stat_page || zipfi_param.stats == ZIPFI_STATS_ON)
		domain->page = zipc_page_open(zipfi_param.stat_page ? ZIPC_PAGE_DIR : NULL, "libfabric",
					      core ? core : domain->fabric->core_name);
	free(core);
}

void zipfi_page_close(struct zipfi_domain *domain)
{
	if (domain->page && zipfi_param.stats == ZIPFI_STATS_ON)
		zipc_page_print(stderr, zipc_page_view(domain->page), zipc_now_ms(), 1);
	zipc_page_close(domain->page);
	domain->page = NULL;
}

void zipfi_page_attach(struct zipfi_ep *ep)
{
	char name[64];

	if (!ep->domain->page)
		return;
	zipfi_page_name(ep, ep->name, ep->name_len, name, sizeof(name));
	ep->page_section = zipc_page_attach(ep->domain->page, name, 2 * zipfi_param.staging);
	ep->paged = true;
}

void zipfi_page_update(struct zipfi_ep *ep)
{
	uint64_t now = zipc_now_ms();

	if (now - ep->page_ms < ZIPFI_PAGE_MS)
		return;
	ep->page_ms = now;
	zipc_page_update(ep->domain->page, ep->page_section, ep->engine, zipfi_page_name, ep);
}

void zipfi_page_detach(struct zipfi_ep *ep)
{
	if (!ep->paged)
		return;
	zipc_page_update(ep->domain->page, ep->page_section, ep->engine, zipfi_page_name, ep);
	zipc_page_detach(ep->domain->page, ep->page_section);
	ep->paged = false;
}
