/* SPDX-License-Identifier: BSD-3-Clause */
/* zip_stat: who uses zip on this machine, and what it does for them. Reads the pages of common/zipc_page.h. */
#include "zipc_page.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "zip_stat.h"

#define FILES_MOST 65536

struct options {
	const char *dir;
	double watch;          /* seconds between two looks; 0: one look */
	int json, all;
	uint32_t pid;          /* 0: all */
};

/* What was seen of one page the last time, for rates. */
struct before {
	char name[64];
	uint64_t ms;
	struct zipc_page_counts_v1 total;
};

struct seen {
	struct before *list;
	size_t count, room;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

/* ---- the pages */

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Names of files that may be pages of this user, sorted. Returns how many; the caller frees each and the list. */
static size_t list_names(const struct options *options, char ***names_p)
{
	DIR *dir = opendir(options->dir);
	struct dirent *entry;
	char **names = NULL, **more, start[64] = "";
	size_t n = 0;

	if (!dir) {
		fprintf(stderr, "zip_stat: %s: %s\n", options->dir, strerror(errno));
		exit(2);
	}
	if (options->pid)
		snprintf(start, sizeof(start), ZIPC_PAGE_PREFIX "%u.%u.", (unsigned)geteuid(), options->pid);
	while (n < FILES_MOST && (entry = readdir(dir))) {
		if (!zipc_page_is_name(entry->d_name, (uint32_t)geteuid()) || strncmp(entry->d_name, start, strlen(start)))
			continue;
		more = realloc(names, (n + 1) * sizeof(*names));
		if (!more || !(more[n] = strdup(entry->d_name))) {
			fprintf(stderr, "zip_stat: out of memory\n");
			exit(2);
		}
		names = more;
		n++;
	}
	closedir(dir);
	if (n)
		qsort(names, n, sizeof(*names), compare_names);
	*names_p = names;
	return n;
}

/* The last look at a page, or an empty one. */
static struct before *find_before(struct seen *seen, const char *name)
{
	struct before *more;

	for (size_t i = 0; i < seen->count; i++)
		if (!strcmp(seen->list[i].name, name))
			return &seen->list[i];
	if (seen->count == seen->room) {
		more = realloc(seen->list, (seen->room + 16) * sizeof(*more));
		if (!more)
			return NULL;
		seen->list = more;
		seen->room += 16;
	}
	more = &seen->list[seen->count++];
	memset(more, 0, sizeof(*more));
	snprintf(more->name, sizeof(more->name), "%s", name);
	return more;
}

/* What has moved since the last look. */
static void print_rates(const struct before *before, const struct zipc_page_counts_v1 *now, uint64_t now_ms)
{
	double seconds = (double)(now_ms - before->ms) / 1e3, unit = 1e9;

	if (!before->ms || now_ms <= before->ms)
		return;
	printf("  now: sending %.3f GB/s (%.3f on the wire), receiving %.3f GB/s (%.3f), raw %.3f GB/s\n",
	       (double)(now->send_bytes - before->total.send_bytes) / seconds / unit,
	       (double)(now->send_wire_bytes - before->total.send_wire_bytes) / seconds / unit,
	       (double)(now->recv_bytes - before->total.recv_bytes) / seconds / unit,
	       (double)(now->recv_wire_bytes - before->total.recv_wire_bytes) / seconds / unit,
	       (double)(now->raw_bytes - before->total.raw_bytes) / seconds / unit);
}

static void show_page(const struct options *options, struct seen *seen, const char *name, const struct zipc_page_v1 *page,
		      void *json)
{
	const struct zipc_page_counts_v1 total = zipc_page_total(page);
	uint64_t now_ms = zipc_now_ms();
	struct before *before;

	if (options->json) {
		stat_json_add(json, page, now_ms);
		return;
	}
	zipc_page_print(stdout, page, now_ms, options->all);
	before = options->watch > 0 ? find_before(seen, name) : NULL;
	if (before) {
		print_rates(before, &total, now_ms);
		before->ms = now_ms;
		before->total = total;
	}
	printf("\n");
}

/* One look at everything. Returns how many pages were shown. */
static unsigned look(const struct options *options, struct seen *seen)
{
	static struct zipc_page_v1 page;
	void *json = options->json ? stat_json_begin() : NULL;
	unsigned shown = 0, other = 0;
	char **names;
	size_t count = list_names(options, &names);
	int dirfd = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < count; i++) {
		switch (zipc_page_read(dirfd, names[i], &page)) {
		case ZIPC_PAGE_GOOD:
			show_page(options, seen, names[i], &page, json);
			shown++;
			break;
		case ZIPC_PAGE_STALE:
			unlinkat(dirfd, names[i], 0);
			break;
		case ZIPC_PAGE_OTHER:
			other++;
			break;
		default:
			break;
		}
		free(names[i]);
	}
	free(names);
	if (dirfd >= 0)
		close(dirfd);
	if (options->json)
		stat_json_end(json);
	if (other)
		fprintf(stderr, "zip_stat: %u page%s of another version of zip-net left out\n", other, other == 1 ? "" : "s");
	return shown;
}

static void none(const struct options *options)
{
	if (options->json)
		return;
	if (options->pid)
		printf("process %u has no zip open, or is not yours\n", options->pid);
	else
		printf("none of your processes has zip open (or FI_ZIP_STAT_PAGE=off is set there)\n");
}

static void watch(const struct options *options)
{
	struct sigaction action = { .sa_handler = stop };
	struct timespec pause = { .tv_sec = (time_t)options->watch };
	struct seen seen = { 0 };
	int clear = isatty(STDOUT_FILENO) && !options->json;

	pause.tv_nsec = (long)((options->watch - (double)pause.tv_sec) * 1e9);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (!stopped && !ferror(stdout)) {
		if (clear)
			printf("\033[H\033[2J");
		if (!look(options, &seen))
			none(options);
		if (fflush(stdout))
			break;
		nanosleep(&pause, NULL);
	}
	free(seen.list);
}

/* ---- options */

enum option_key { KEY_JSON = 256, KEY_DIR };

static const struct argp_option option_list[] = {
	{ "watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL, "look again every so often (default 1), with rates", 0 },
	{ "all", 'a', NULL, 0, "closed endpoints too", 0 },
	{ "json", KEY_JSON, NULL, 0, "print one JSON object for each look", 0 },
	{ "directory", KEY_DIR, "DIR", 0, "where the pages are (default " ZIPC_PAGE_DIR ")", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;
	char *end;

	switch (key) {
	case 'w':
		options->watch = arg ? strtod(arg, &end) : 1;
		if (arg && (*end || !(options->watch >= 0.05) || !(options->watch <= 86400)))
			argp_error(state, "--watch=%s: must be a number of seconds from 0.05 to 86400", arg);
		return 0;
	case 'a': options->all = 1; return 0;
	case KEY_JSON: options->json = 1; return 0;
	case KEY_DIR: options->dir = arg; return 0;
	case ARGP_KEY_ARG:
		options->pid = (uint32_t)strtoul(arg, &end, 10);
		if (*end || !options->pid || state->arg_num)
			argp_error(state, "%s: must be the number of one process", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_list, .parser = parse_option, .args_doc = "[PID]",
		.doc = "List the processes of this user and machine that use zip, with counters of each domain and peer.\v"
		       "bytes: of messages that travelled as zip's transfers; ratio: bytes on the wire for each of them; raw: bytes of "
		       "messages that were large enough, and went as they are. Exit status: 0, also when there is nothing to show; 2 "
		       "when it could not look.",
	};
	struct options options = { .dir = ZIPC_PAGE_DIR };
	const char *fault;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	fault = options.json ? stat_json_fault() : NULL;
	if (fault) {
		fprintf(stderr, "zip_stat: %s\n", fault);
		return 2;
	}
	if (options.watch > 0)
		watch(&options);
	else if (!look(&options, NULL))
		none(&options);
	return fflush(stdout) || ferror(stdout) ? 2 : 0;
}
