/* SPDX-License-Identifier: BSD-3-Clause */
/* What is below: finds memory domains and devices of the transport to stack on. */
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zipu.h"

uint32_t zipu_lower_hash(uct_component_h component)
{
	return XXH32(component->name, strnlen(component->name, sizeof(component->name)), 0);
}

uct_component_h zipu_lower_by_hash(uint32_t hash)
{
	uct_component_h *list, found = NULL;
	unsigned i, count;

	if (uct_query_components(&list, &count) != UCS_OK)
		return NULL;
	for (i = 0; i < count; i++)
		if (list[i] != &zipu_component && zipu_lower_hash(list[i]) == hash)
			found = list[i];
	uct_release_component_list(list);
	return found;
}

/* The place of a transport in the list of what is wanted, count if it is none of them. "ud" means ud_verbs and its like too. */
static unsigned zipu_tl_rank(const ucs_config_names_array_t *tl, const char *name)
{
	unsigned i;

	for (i = 0; i < tl->count; i++) {
		size_t len = strlen(tl->names[i]);

		if (!strncmp(name, tl->names[i], len) && (!name[len] || name[len] == '_'))
			break;
	}
	return i;
}

/* 1 if a component has a transport that is wanted: only then are its domains opened, which can be costly. */
static int zipu_lower_wanted(uct_component_h component, const ucs_config_names_array_t *tl)
{
	uct_tl_t *entry;

	ucs_list_for_each(entry, &component->tl_list, list)
		if (zipu_tl_rank(tl, entry->name) < tl->count)
			return 1;
	return 0;
}

ucs_status_t zipu_lower_open_md(uct_component_h component, const char *name, uct_md_h *md)
{
	uct_md_config_t *config;
	ucs_status_t status = uct_md_config_read(component, NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	status = uct_md_open(component, name, config, md);
	uct_config_release(config);
	return status;
}

/* The best transport with a device in this domain; its rank, or count. */
static unsigned zipu_lower_best_tl(uct_component_h component, const char *md_name, const ucs_config_names_array_t *tl, char *best_name)
{
	uct_tl_resource_desc_t *resources;
	unsigned i, count, rank, best = tl->count;
	uct_md_h md;

	if (zipu_lower_open_md(component, md_name, &md) != UCS_OK)
		return best;
	if (uct_md_query_tl_resources(md, &resources, &count) == UCS_OK) {
		for (i = 0; i < count; i++) {
			rank = zipu_tl_rank(tl, resources[i].tl_name);
			/* Of ud_mlx5 and ud_verbs the first, which is the faster one. */
			if (rank > best || rank == tl->count || (rank == best && strcmp(resources[i].tl_name, best_name) >= 0))
				continue;
			best = rank;
			ucs_strncpy_zero(best_name, resources[i].tl_name, UCT_TL_NAME_MAX);
		}
		uct_release_tl_resource_list(resources);
	}
	uct_md_close(md);
	return best;
}

struct zipu_search {
	const ucs_config_names_array_t *tl;
	struct zipu_lower *found;
	unsigned count, best;
};

static ucs_status_t zipu_lower_add(struct zipu_search *search, uct_component_h component, const char *md_name)
{
	struct zipu_lower lower = {.component = component}, *grown;
	unsigned rank = zipu_lower_best_tl(component, md_name, search->tl, lower.tl_name);

	if (rank == search->tl->count || rank > search->best)
		return UCS_OK;
	if (rank < search->best) /* better than all before */
		search->count = 0;
	search->best = rank;
	grown = realloc(search->found, (search->count + 1) * sizeof(*grown));
	if (!grown)
		return UCS_ERR_NO_MEMORY;
	ucs_strncpy_zero(lower.md_name, md_name, sizeof(lower.md_name));
	ucs_snprintf_zero(lower.name, sizeof(lower.name), "%s_%s", ZIPU_NAME, md_name);
	search->found = grown;
	search->found[search->count++] = lower;
	return UCS_OK;
}

static ucs_status_t zipu_lower_search_component(struct zipu_search *search, uct_component_h component)
{
	uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
	ucs_status_t status = uct_component_query(component, &attr);
	unsigned i;

	if (status != UCS_OK || !attr.md_resource_count)
		return UCS_OK; /* nothing there: not for us to complain */
	attr.md_resources = calloc(attr.md_resource_count, sizeof(*attr.md_resources));
	if (!attr.md_resources)
		return UCS_ERR_NO_MEMORY;
	attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
	status = uct_component_query(component, &attr);
	for (i = 0; i < attr.md_resource_count && status == UCS_OK; i++)
		status = zipu_lower_add(search, component, attr.md_resources[i].md_name);
	free(attr.md_resources);
	return status;
}

ucs_status_t zipu_lower_find(const ucs_config_names_array_t *tl, struct zipu_lower **found, unsigned *count_p)
{
	struct zipu_search search = {.tl = tl, .best = tl->count};
	uct_component_h *list;
	ucs_status_t status;
	unsigned i, count;

	status = uct_query_components(&list, &count);
	if (status != UCS_OK)
		return status;
	for (i = 0; i < count && status == UCS_OK; i++)
		if (list[i] != &zipu_component && zipu_lower_wanted(list[i], tl))
			status = zipu_lower_search_component(&search, list[i]);
	uct_release_component_list(list);
	if (status != UCS_OK) {
		free(search.found);
		return status;
	}
	*found = search.found;
	*count_p = search.count;
	return UCS_OK;
}

ucs_status_t zipu_lower_devices(struct zipu_md *md, uct_tl_device_resource_t **devices_p, unsigned *count_p)
{
	uct_tl_resource_desc_t *resources;
	uct_tl_device_resource_t *devices;
	unsigned i, count, n = 0;
	ucs_status_t status = uct_md_query_tl_resources(md->lower, &resources, &count);

	if (status != UCS_OK)
		return status;
	devices = ucs_calloc(count ? count : 1, sizeof(*devices), "zip devices"); /* UCX frees it */
	for (i = 0; devices && i < count; i++) {
		if (strcmp(resources[i].tl_name, md->tl_name))
			continue;
		ucs_strncpy_zero(devices[n].name, resources[i].dev_name, sizeof(devices[n].name));
		devices[n].type = resources[i].dev_type;
		devices[n].sys_device = resources[i].sys_device;
		n++;
	}
	uct_release_tl_resource_list(resources);
	if (!devices)
		return UCS_ERR_NO_MEMORY;
	*devices_p = devices;
	*count_p = n;
	return UCS_OK;
}
