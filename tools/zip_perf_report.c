/* SPDX-License-Identifier: BSD-3-Clause */
/* The table and the JSON object. */
#include "zip_perf.h"
#include "zipt_util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef ZIPT_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

static const char *const reason_names[] = { "peer", "data", "off", "slow" };
static const char *const phase_names[] = { "sample", "encode", "wire", "decode" };

const char *perf_size_text(uint64_t size, char text[32])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	int i = 0;

	while (size && size % 1024 == 0 && i < 3) {
		size /= 1024;
		i++;
	}
	snprintf(text, 32, "%llu %s", (unsigned long long)size, units[i]);
	return text;
}

static double median_of(const double *values, unsigned count)
{
	double sorted[PERF_ROUNDS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	return zipt_median(sorted, count);
}

void perf_row_settle(const struct perf_options *options, struct perf_row *row)
{
	double all;

	row->bytes = (double)row->size * (double)row->iters[PERF_RAW] * (options->plan.bidirectional ? 2 : 1);
	for (int stack = 0; stack < PERF_STACKS; stack++) {
		double seconds = median_of(row->seconds[stack], options->rounds);

		row->GBps[stack] = seconds > 0 ? row->bytes / seconds / 1e9 : 0;
	}
	row->speedup = row->GBps[PERF_RAW] > 0 ? row->GBps[PERF_ZIP] / row->GBps[PERF_RAW] : 0;
	all = row->bytes * options->rounds;
	row->zipped = all > 0 ? (double)row->stats.bytes / all : 0;
	row->ratio = all > 0 ? (all - (double)row->stats.bytes + (double)row->stats.wire_bytes) / all : 0;
}

/* Seconds of all zip rounds of a row. */
static double zip_seconds(const struct perf_report *report, const struct perf_row *row)
{
	double sum = 0;

	for (uint32_t i = 0; i < report->options->rounds; i++)
		sum += row->seconds[PERF_ZIP][i];
	return sum;
}

/* Of the time of zip's rounds: sample, encode, wire, decode. Both sides encode and decode when both send. */
static void phases(const struct perf_report *report, const struct perf_row *row, double share[4])
{
	double all = zip_seconds(report, row) * 1e9 * (report->options->plan.bidirectional ? 2 : 1);

	if (!(all > 0))
		all = 1;
	share[0] = (double)row->stats.sample_ns / all;
	share[1] = (double)row->stats.encode_ns / all;
	share[2] = (double)row->stats.wire_ns / all;
	share[3] = (double)row->stats.decode_ns / all;
}

void perf_report_head(const struct perf_report *report)
{
	const struct perf_options *options = report->options;
	const struct perf_plan *plan = &options->plan;

	printf("\n  %s%s, %s %s", perf_op_names[plan->op], plan->bidirectional ? " both ways" : "", plan->dtype,
	       report->file ? report->file : plan->dist);
	if (report->file)
		printf(" (%zu tensor%s)", report->tensors, report->tensors == 1 ? "" : "s");
	printf(", %s memory, window %u, medians of %u rounds of each\n", perf_memory_names[plan->memory], plan->window,
	       options->rounds);
	printf("  %s against %s", report->names[PERF_RAW], report->names[PERF_ZIP]);
	if (options->link)
		printf(", link: %s", options->link);
	printf("\n\n  %10s %8s %10s %10s %8s %7s %7s %10s\n", "size", "messages", "raw GB/s", "zip GB/s", "speedup", "ratio",
	       "zipped", "bit-exact");
	fflush(stdout);
}

/* Why messages that were large enough were not compressed. */
static void print_reasons(const struct perf_row *row)
{
	const char *comma = "";

	if (!row->stats.raw[0] && !row->stats.raw[1] && !row->stats.raw[2] && !row->stats.raw[3])
		return;
	printf("  %10s not compressed:", "");
	for (int i = 0; i < 4; i++)
		if (row->stats.raw[i]) {
			printf("%s %llu %s", comma, (unsigned long long)row->stats.raw[i], reason_names[i]);
			comma = ",";
		}
	printf("\n");
}

void perf_report_row(const struct perf_report *report, const struct perf_row *row)
{
	double share[4];
	char text[32], ratio[32] = "-", zipped[32] = "-";

	if (row->told) {
		snprintf(ratio, sizeof(ratio), "%.4f", row->ratio);
		snprintf(zipped, sizeof(zipped), "%.0f%%", 100 * row->zipped);
	}
	printf("  %10s %8llu %10.4f %10.4f %8.2f %7s %7s %10s\n", perf_size_text(row->size, text),
	       (unsigned long long)row->iters[PERF_RAW], row->GBps[PERF_RAW], row->GBps[PERF_ZIP], row->speedup, ratio, zipped,
	       !report->options->plan.check ? "unchecked" : row->wrong ? "NO" : "yes");
	if (report->options->plan.breakdown && row->told) {
		phases(report, row, share);
		printf("  %10s of the time: sample %.1f%%, split and encode %.1f%%, wire %.1f%%, decode %.1f%%\n", "",
		       100 * share[0], 100 * share[1], 100 * share[2], 100 * share[3]);
		print_reasons(row);
	}
	fflush(stdout);
}

void perf_report_end(const struct perf_report *report)
{
	const struct perf_plan *plan = &report->options->plan;

	if (!report->nrows || !report->rows[0].told) {
		printf("\n  ratio, zipped: zip does not tell them through this API\n");
		return;
	}
	printf("\n  ratio: bytes on the wire for a byte of the messages; zipped: bytes that travelled as zip's transfers\n");
	if (plan->breakdown)
		printf("  time: sample, encode and decode are the processor's; wire: at least one frame was with the core provider. "
		       "They overlap\n  not compressed, by reason: peer without zip; data does not shrink; off; slow: the link is "
		       "faster than the codec\n");
	fflush(stdout);
}

#ifdef ZIPT_HAVE_CJSON

const char *perf_json_fault(void)
{
	return NULL;
}

/* JSON has no use for digits that are noise. */
static void add_number(cJSON *to, const char *name, double value, double digits)
{
	double unit = value > 0 ? pow(10, floor(log10(value)) + 1 - digits) : 1;

	cJSON_AddNumberToObject(to, name, unit >= 1 ? value : round(value / unit) * unit);
}

static void add_seconds(cJSON *to, const char *name, const double *seconds, unsigned count)
{
	cJSON *list = cJSON_AddArrayToObject(to, name);

	for (unsigned i = 0; i < count; i++)
		cJSON_AddItemToArray(list, cJSON_CreateNumber(round(seconds[i] * 1e9) / 1e9));
}

static cJSON *json_row(const struct perf_report *report, const struct perf_row *row)
{
	const struct perf_options *options = report->options;
	cJSON *out = cJSON_CreateObject(), *part;
	double share[4];

	cJSON_AddNumberToObject(out, "size", (double)row->size);
	cJSON_AddNumberToObject(out, "messages", (double)row->iters[PERF_RAW]);
	add_number(out, "raw_GBps", row->GBps[PERF_RAW], 5);
	add_number(out, "zip_GBps", row->GBps[PERF_ZIP], 5);
	add_number(out, "speedup", row->speedup, 4);
	if (row->told) {
		add_number(out, "ratio", row->ratio, 4);
		add_number(out, "zipped", row->zipped, 4);
	} else {
		cJSON_AddNullToObject(out, "ratio");
		cJSON_AddNullToObject(out, "zipped");
	}
	if (options->plan.check)
		cJSON_AddBoolToObject(out, "bit_exact", !row->wrong);
	else
		cJSON_AddNullToObject(out, "bit_exact");
	part = cJSON_AddObjectToObject(out, "not_compressed");
	for (int i = 0; i < 4; i++)
		cJSON_AddNumberToObject(part, reason_names[i], (double)row->stats.raw[i]);
	if (options->plan.breakdown && row->told) {
		phases(report, row, share);
		part = cJSON_AddObjectToObject(out, "share_of_time");
		for (int i = 0; i < 4; i++)
			add_number(part, phase_names[i], share[i], 3);
	}
	add_seconds(out, "raw_seconds", row->seconds[PERF_RAW], options->rounds);
	add_seconds(out, "zip_seconds", row->seconds[PERF_ZIP], options->rounds);
	return out;
}

int perf_report_json(const struct perf_report *report)
{
	const struct perf_options *options = report->options;
	const struct perf_plan *plan = &options->plan;
	cJSON *out = cJSON_CreateObject(), *rows;
	char *text;
	int exact = 1;

	cJSON_AddStringToObject(out, "op", perf_op_names[plan->op]);
	cJSON_AddStringToObject(out, "api", plan->api);
	cJSON_AddStringToObject(out, "raw_provider", report->names[PERF_RAW]);
	cJSON_AddStringToObject(out, "zip_provider", report->names[PERF_ZIP]);
	if (options->link)
		cJSON_AddStringToObject(out, "link", options->link);
	cJSON_AddStringToObject(out, "dtype", plan->dtype);
	cJSON_AddStringToObject(out, "dist", report->file ? "file" : plan->dist);
	if (report->file)
		cJSON_AddStringToObject(out, "file", report->file);
	else
		cJSON_AddNumberToObject(out, "sigma", plan->sigma);
	cJSON_AddStringToObject(out, "memory", perf_memory_names[plan->memory]);
	cJSON_AddNumberToObject(out, "window", plan->window);
	cJSON_AddBoolToObject(out, "bidirectional", (int)plan->bidirectional);
	cJSON_AddNumberToObject(out, "rounds", options->rounds);
	rows = cJSON_AddArrayToObject(out, "results");
	for (uint32_t i = 0; i < report->nrows; i++) {
		cJSON_AddItemToArray(rows, json_row(report, &report->rows[i]));
		exact = exact && !report->rows[i].wrong;
	}
	if (plan->check)
		cJSON_AddBoolToObject(out, "bit_exact", exact);
	else
		cJSON_AddNullToObject(out, "bit_exact");
	text = cJSON_PrintUnformatted(out);
	cJSON_Delete(out);
	if (!text) {
		perf_fail("out of memory for the JSON object");
		return -1;
	}
	puts(text);
	fflush(stdout);
	cJSON_free(text);
	return 0;
}

#else

const char *perf_json_fault(void)
{
	return "--json: built without cJSON; install libcjson-dev and configure again";
}

int perf_report_json(const struct perf_report *report)
{
	(void)report;
	return -1;
}

#endif
