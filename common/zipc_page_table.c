/* SPDX-License-Identifier: BSD-3-Clause */
/* A page of counters as a table for people. */
#include "zipc_page.h"

#include <string.h>

/* Bytes as people write them. */
static const char *zipc_bytes_text(uint64_t bytes, char text[16])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes;
	int i = 0;

	while (value >= 999.5 && i < 5) {
		value /= 1024;
		i++;
	}
	snprintf(text, 16, i ? "%.3g %s" : "%.0f %s", value, units[i]);
	return text;
}

static const char *zipc_ratio_text(uint64_t wire, uint64_t bytes, char text[16])
{
	if (bytes)
		snprintf(text, 16, "%.4f", (double)wire / (double)bytes);
	else
		snprintf(text, 16, "-");
	return text;
}

static void zipc_print_counts(FILE *to, const char *name, const struct zipc_page_counts_v1 *c, const char *remark)
{
	char sent[16], send_ratio[16], received[16], recv_ratio[16], raw[16];

	fprintf(to, "  %-34.34s %9llu %9s %7s %9llu %9s %7s %9s %7llu%s\n", name, (unsigned long long)c->sends,
		zipc_bytes_text(c->send_bytes, sent), zipc_ratio_text(c->send_wire_bytes, c->send_bytes, send_ratio),
		(unsigned long long)c->recvs, zipc_bytes_text(c->recv_bytes, received),
		zipc_ratio_text(c->recv_wire_bytes, c->recv_bytes, recv_ratio), zipc_bytes_text(c->raw_bytes, raw),
		(unsigned long long)c->errors, remark);
}

/* Why messages that were large enough went raw. */
static void zipc_print_reasons(FILE *to, const struct zipc_page_counts_v1 *c)
{
	if (!c->raw_peer && !c->raw_data && !c->raw_off && !c->raw_slow)
		return;
	fprintf(to, "    raw: %llu peer without zip, %llu would not shrink, %llu switched off, %llu link faster than the codec\n",
		(unsigned long long)c->raw_peer, (unsigned long long)c->raw_data, (unsigned long long)c->raw_off,
		(unsigned long long)c->raw_slow);
}

static void zipc_print_times(FILE *to, const struct zipc_page_endpoint_v1 *section)
{
	if (!section->sample_ns && !section->encode_ns && !section->wire_ns && !section->decode_ns)
		return;
	fprintf(to, "    seconds: sample %.3f, split and encode %.3f, wire %.3f, decode %.3f\n", (double)section->sample_ns / 1e9,
		(double)section->encode_ns / 1e9, (double)section->wire_ns / 1e9, (double)section->decode_ns / 1e9);
}

static void zipc_print_section(FILE *to, const struct zipc_page_endpoint_v1 *section)
{
	uint32_t i, listed = section->npeers < ZIPC_PAGE_PEERS ? section->npeers : ZIPC_PAGE_PEERS;
	char used[16], most[16], name[80];

	zipc_print_counts(to, section->name, &section->counts, section->state == ZIPC_PAGE_CLOSED ? "  closed" : "");
	zipc_print_reasons(to, &section->counts);
	fprintf(to, "    staging %s of %s, %u peer%s\n", zipc_bytes_text(section->staging_bytes, used),
		zipc_bytes_text(section->staging_most, most), section->npeers, section->npeers == 1 ? "" : "s");
	zipc_print_times(to, section);
	for (i = 0; i < listed; i++) {
		int ready = section->peers[i].ready || section->state == ZIPC_PAGE_CLOSED;

		snprintf(name, sizeof(name), "  %s", section->peers[i].name);
		zipc_print_counts(to, name, &section->peers[i].counts, ready ? "" : "  not ready");
	}
	if (section->npeers > listed)
		fprintf(to, "    and %u more\n", section->npeers - listed);
}

void zipc_page_add(struct zipc_page_counts_v1 *sum, const struct zipc_page_counts_v1 *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;
	size_t i;

	for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

struct zipc_page_counts_v1 zipc_page_total(const struct zipc_page_v1 *page)
{
	struct zipc_page_counts_v1 sum = page->closed;
	size_t i;

	for (i = 0; i < ZIPC_PAGE_ENDPOINTS; i++)
		if (page->sections[i].state != ZIPC_PAGE_FREE)
			zipc_page_add(&sum, &page->sections[i].counts);
	return sum;
}

void zipc_page_print(FILE *to, const struct zipc_page_v1 *page, uint64_t now_ms, int all)
{
	const struct zipc_page_counts_v1 total = zipc_page_total(page);
	uint64_t seconds = now_ms > page->opened_ms ? (now_ms - page->opened_ms) / 1000 : 0;
	size_t i;

	fprintf(to, "%s[%u], %s over %s, %u endpoint%s, for %llu:%02u:%02u\n", page->command, page->pid, page->door, page->core,
		page->endpoints, page->endpoints == 1 ? "" : "s", (unsigned long long)(seconds / 3600),
		(unsigned)(seconds / 60 % 60), (unsigned)(seconds % 60));
	fprintf(to, "  %-34s %9s %9s %7s %9s %9s %7s %9s %7s\n", "endpoint, peers", "sent", "bytes", "ratio", "received", "bytes",
		"ratio", "raw", "errors");
	for (i = 0; i < ZIPC_PAGE_ENDPOINTS; i++)
		if (page->sections[i].state == ZIPC_PAGE_LIVE || (all && page->sections[i].state == ZIPC_PAGE_CLOSED))
			zipc_print_section(to, &page->sections[i]);
	if (page->unlisted)
		fprintf(to, "  and %u more endpoint%s\n", page->unlisted, page->unlisted == 1 ? "" : "s");
	zipc_print_counts(to, "all of the domain", &total, "");
}
