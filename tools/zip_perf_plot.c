/* SPDX-License-Identifier: BSD-3-Clause */
/* GB/s and speedup against size, drawn by gnuplot. */
#include "zip_perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *perf_plot_fault(void)
{
	const char *path = getenv("PATH"), *end;
	char name[4096];

	for (; path && *path; path = *end ? end + 1 : end) {
		end = strchrnul(path, ':');
		if ((size_t)snprintf(name, sizeof(name), "%.*s/gnuplot", (int)(end - path), path) < sizeof(name) &&
		    !access(name, X_OK))
			return NULL;
	}
	return "--plot: gnuplot was not found; install it (apt-get install gnuplot-nox)";
}

/* A text in gnuplot's single quotes. */
static void quote(FILE *to, const char *text)
{
	fputc('\'', to);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', to);
		fputc((unsigned char)*text < 0x20 ? ' ' : *text, to);
	}
	fputc('\'', to);
}

static void write_script(FILE *to, const struct perf_report *report, const char *path)
{
	const struct perf_plan *plan = &report->options->plan;
	char title[512];

	snprintf(title, sizeof(title), "%s, %s %s, %s memory, window %u%s%s", perf_op_names[plan->op], plan->dtype,
		 report->file ? "file" : plan->dist, perf_memory_names[plan->memory], plan->window,
		 report->options->link ? ", " : "", report->options->link ? report->options->link : "");
	fprintf(to, "$rows << ZIP_PERF_END\n");
	for (uint32_t i = 0; i < report->nrows; i++) {
		const struct perf_row *row = &report->rows[i];

		fprintf(to, "%llu %.6g %.6g %.4f\n", (unsigned long long)row->size, row->GBps[PERF_RAW], row->GBps[PERF_ZIP],
			row->speedup);
	}
	fprintf(to, "ZIP_PERF_END\nset terminal pngcairo noenhanced size 1000,600\nset output ");
	quote(to, path);
	fprintf(to, "\nset title ");
	quote(to, title);
	fprintf(to, "\nset logscale x 2\nset format x '%%.0b%%B'\nset xlabel 'bytes of a message'\n"
		    "set ylabel 'GB/s'\nset yrange [0:*]\nset y2label 'speedup'\nset y2range [0:*]\nset ytics nomirror\nset y2tics\n"
		    "set key below\nset grid\nplot $rows using 1:2 axes x1y1 with linespoints lw 2 title ");
	quote(to, report->names[PERF_RAW]);
	fprintf(to, ", $rows using 1:3 axes x1y1 with linespoints lw 2 title ");
	quote(to, report->names[PERF_ZIP]);
	fprintf(to, ", $rows using 1:4 axes x1y2 with linespoints dt 2 title 'speedup', 1 axes x1y2 dt 3 lc 'gray' notitle\n");
}

int perf_plot(const struct perf_report *report, const char *path)
{
	FILE *to = popen("gnuplot", "w");
	int rc;

	if (!to) {
		perf_fail("--plot: gnuplot cannot be run: %s", strerror(errno));
		return -1;
	}
	write_script(to, report, path);
	rc = pclose(to);
	if (rc || access(path, R_OK)) {
		perf_fail("--plot %s: gnuplot has failed (status %d); can the file be written there?", path, rc);
		return -1;
	}
	return 0;
}
