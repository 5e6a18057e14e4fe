/* SPDX-License-Identifier: BSD-3-Clause */
#include "zip_demo.h"
#include "zipt_util.h"

#include <stdio.h>
#include <string.h>

struct figures {
	double bytes;        /* of a round */
	double wire_bytes;
	double ratio;
	double GBps;
};

static double median(const double *values, unsigned count)
{
	double sorted[DEMO_ROUNDS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	return zipt_median(sorted, count);
}

static struct figures figures_of(const struct demo_data *data, const struct demo_result *result)
{
	struct figures f = { .bytes = (double)data->size * (double)data->count };
	double seconds = median(result->seconds, result->rounds);

	f.wire_bytes = median(result->wire_bytes, result->rounds);
	f.ratio = f.bytes > 0 ? f.wire_bytes / f.bytes : 0;
	f.GBps = seconds > 0 ? f.bytes / seconds / 1e9 : 0;
	return f;
}

static void print_row(const char *name, const struct figures *f, const struct demo_result *result)
{
	printf("  %-5s %14.0f %14.0f %8.4f %9.4f   %-9s  %s\n", name, f->bytes, f->wire_bytes, f->ratio, f->GBps,
	       result->wrong ? "NO" : "yes", result->provider);
}

/* JSON strings here are option values: quote what must be quoted. */
static void print_json_string(const char *key, const char *value)
{
	printf("\"%s\": \"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putchar('\\');
		if ((unsigned char)*value < 0x20)
			printf("\\u%04x", (unsigned)*value);
		else
			putchar(*value);
	}
	printf("\", ");
}

static void print_json(const struct demo_options *options, const struct demo_data *data,
		       const struct figures figures[DEMO_STACKS], const struct demo_result results[DEMO_STACKS],
		       double speedup, int exact)
{
	printf("{");
	print_json_string("dtype", data->dtype);
	print_json_string("dist", data->dist);
	if (options->file)
		print_json_string("file", options->file);
	print_json_string("link", options->link);
	print_json_string("rate", options->rate);
	print_json_string("raw_provider", results[DEMO_RAW].provider);
	print_json_string("zip_provider", results[DEMO_ZIP].provider);
	printf("\"size\": %zu, \"count\": %zu, \"rounds\": %u, \"bytes\": %.0f, \"raw_wire_bytes\": %.0f, "
	       "\"wire_bytes\": %.0f, \"ratio\": %.4f, \"raw_GBps\": %.4f, \"zip_GBps\": %.4f, \"speedup\": %.3f, "
	       "\"bit_exact\": %s}\n",
	       data->size, data->count, options->rounds, figures[DEMO_ZIP].bytes, figures[DEMO_RAW].wire_bytes,
	       figures[DEMO_ZIP].wire_bytes, figures[DEMO_ZIP].ratio, figures[DEMO_RAW].GBps, figures[DEMO_ZIP].GBps,
	       speedup, exact ? "true" : "false");
}

int demo_report(const struct demo_options *options, const struct demo_data *data,
		const struct demo_result results[DEMO_STACKS])
{
	struct figures figures[DEMO_STACKS];
	int exact = 1;
	double speedup;

	for (int i = 0; i < DEMO_STACKS; i++) {
		figures[i] = figures_of(data, &results[i]);
		exact = exact && !results[i].wrong;
	}
	speedup = figures[DEMO_RAW].GBps > 0 ? figures[DEMO_ZIP].GBps / figures[DEMO_RAW].GBps : 0;

	printf("\n  %zu message%s of %zu bytes a round: %s, %s", data->count, data->count == 1 ? "" : "s", data->size,
	       data->dtype, options->file ? options->file : data->dist);
	if (options->file)
		printf(" (%zu tensor%s)", data->tensors, data->tensors == 1 ? "" : "s");
	printf("\n  link: %s, rate %s; medians of %u rounds of each\n\n", options->link, options->rate,
	       options->rounds);
	printf("  %-5s %14s %14s %8s %9s   %-9s  %s\n", "", "bytes", "wire bytes", "ratio", "GB/s", "bit-exact", "provider");
	print_row("raw", &figures[DEMO_RAW], &results[DEMO_RAW]);
	print_row("zip", &figures[DEMO_ZIP], &results[DEMO_ZIP]);
	printf("\n  speedup %.2f\n", speedup);
	if (options->json)
		print_json(options, data, figures, results, speedup, exact);
	fflush(stdout);
	return exact;
}
