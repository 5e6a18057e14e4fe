/* SPDX-License-Identifier: BSD-3-Clause */
#include "zip_stat.h"

#ifdef ZIPT_HAVE_CJSON

#include <cjson/cJSON.h>

const char *stat_json_fault(void)
{
	return NULL;
}

static void add_counts(cJSON *to, const struct zipc_page_counts_v1 *c)
{
	cJSON *raw;

	cJSON_AddNumberToObject(to, "sent", (double)c->sends);
	cJSON_AddNumberToObject(to, "sent_bytes", (double)c->send_bytes);
	cJSON_AddNumberToObject(to, "sent_wire_bytes", (double)c->send_wire_bytes);
	cJSON_AddNumberToObject(to, "received", (double)c->recvs);
	cJSON_AddNumberToObject(to, "received_bytes", (double)c->recv_bytes);
	cJSON_AddNumberToObject(to, "received_wire_bytes", (double)c->recv_wire_bytes);
	raw = cJSON_AddObjectToObject(to, "raw");
	cJSON_AddNumberToObject(raw, "peer", (double)c->raw_peer);
	cJSON_AddNumberToObject(raw, "data", (double)c->raw_data);
	cJSON_AddNumberToObject(raw, "off", (double)c->raw_off);
	cJSON_AddNumberToObject(raw, "slow", (double)c->raw_slow);
	cJSON_AddNumberToObject(raw, "bytes", (double)c->raw_bytes);
	cJSON_AddNumberToObject(to, "errors", (double)c->errors);
}

static cJSON *peer_json(const struct zipc_page_peer_v1 *peer)
{
	cJSON *out = cJSON_CreateObject();

	cJSON_AddStringToObject(out, "name", peer->name);
	cJSON_AddBoolToObject(out, "ready", peer->ready != 0);
	cJSON_AddNumberToObject(out, "active", peer->active);
	add_counts(out, &peer->counts);
	return out;
}

static cJSON *endpoint_json(const struct zipc_page_endpoint_v1 *section, uint64_t now_ms)
{
	uint32_t listed = section->npeers < ZIPC_PAGE_PEERS ? section->npeers : ZIPC_PAGE_PEERS;
	cJSON *out = cJSON_CreateObject(), *list;

	cJSON_AddStringToObject(out, "name", section->name);
	cJSON_AddBoolToObject(out, "closed", section->state == ZIPC_PAGE_CLOSED);
	cJSON_AddNumberToObject(out, "age_ms", now_ms > section->updated_ms ? (double)(now_ms - section->updated_ms) : 0);
	add_counts(out, &section->counts);
	cJSON_AddNumberToObject(out, "staging_bytes", (double)section->staging_bytes);
	cJSON_AddNumberToObject(out, "staging_most", (double)section->staging_most);
	cJSON_AddNumberToObject(out, "sample_seconds", (double)section->sample_ns / 1e9);
	cJSON_AddNumberToObject(out, "encode_seconds", (double)section->encode_ns / 1e9);
	cJSON_AddNumberToObject(out, "wire_seconds", (double)section->wire_ns / 1e9);
	cJSON_AddNumberToObject(out, "decode_seconds", (double)section->decode_ns / 1e9);
	cJSON_AddNumberToObject(out, "npeers", section->npeers);
	list = cJSON_AddArrayToObject(out, "peers");
	for (uint32_t i = 0; i < listed; i++)
		cJSON_AddItemToArray(list, peer_json(&section->peers[i]));
	return out;
}

void *stat_json_begin(void)
{
	cJSON *out = cJSON_CreateObject();

	cJSON_AddArrayToObject(out, "domains");
	return out;
}

void stat_json_add(void *json, const struct zipc_page_v1 *page, uint64_t now_ms)
{
	const struct zipc_page_counts_v1 total = zipc_page_total(page);
	cJSON *out = cJSON_CreateObject(), *part;

	cJSON_AddNumberToObject(out, "pid", page->pid);
	cJSON_AddStringToObject(out, "command", page->command);
	cJSON_AddStringToObject(out, "door", page->door);
	cJSON_AddStringToObject(out, "core", page->core);
	cJSON_AddNumberToObject(out, "seconds", now_ms > page->opened_ms ? (double)(now_ms - page->opened_ms) / 1e3 : 0);
	part = cJSON_AddObjectToObject(out, "total");
	add_counts(part, &total);
	cJSON_AddNumberToObject(out, "nendpoints", page->endpoints);
	part = cJSON_AddArrayToObject(out, "endpoints");
	for (size_t i = 0; i < ZIPC_PAGE_ENDPOINTS; i++)
		if (page->sections[i].state != ZIPC_PAGE_FREE)
			cJSON_AddItemToArray(part, endpoint_json(&page->sections[i], now_ms));
	cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(json, "domains"), out);
}

void stat_json_end(void *json)
{
	char *text = cJSON_PrintUnformatted(json);

	if (text)
		puts(text);
	cJSON_free(text);
	cJSON_Delete(json);
}

#else

const char *stat_json_fault(void)
{
	return "--json: built without cJSON; install libcjson-dev and configure again";
}

void *stat_json_begin(void)
{
	return NULL;
}

void stat_json_add(void *json, const struct zipc_page_v1 *page, uint64_t now_ms)
{
	(void)json;
	(void)page;
	(void)now_ms;
}

void stat_json_end(void *json)
{
	(void)json;
}

#endif
