/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line. */
#include "zip_perf.h"
#include "zipc_codec.h"
#include "zipt_data.h"
#include "zipt_util.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERF_MAGIC 0x6672657070697aull /* "zipperf" */
#define PERF_SIZE_MOST ((uint64_t)1 << 36)

const char *const perf_op_names[PERF_OPS] = { "tagged", "msg", "write", "writedata", "read" };
const char *const perf_memory_names[PERF_MEMORY_KINDS] = { "host", "cuda", "hip" };

enum option_key {
	KEY_OP = 256, KEY_MEMORY, KEY_ITERS, KEY_TIME, KEY_NO_CHECK, KEY_CHECK, KEY_JSON, KEY_PLOT, KEY_BREAKDOWN, KEY_API, KEY_SIGMA,
	KEY_SEED, KEY_TIMEOUT, KEY_LINK, KEY_BIND,
};

static const struct argp_option option_list[] = {
	{ "op", KEY_OP, "OP", 0, "tagged (default), msg, write, writedata or read", 0 },
	{ "sizes", 's', "LIST", 0,
	  "sizes of messages: 1M,16M or 64K:64M (doubling) or 64K:64M:4 (that factor) (default 64K:64M)", 0 },
	{ "window", 'w', "N", 0, "messages in flight (default 8)", 0 },
	{ "bidirectional", 'b', NULL, 0, "both sides send; GB/s is the sum", 0 },
	{ "provider", 'p', "NAME", 0, "the core provider, without zip (default: that of FI_PROVIDER, or tcp)", 0 },
	{ "api", KEY_API, "API", 0, "ofi (libfabric, default) or ucp (UCX)", 0 },
	{ "memory", KEY_MEMORY, "KIND", 0, "host (default), cuda or hip", 0 },
	{ "dtype", 't', "DTYPE", 0, "bf16 (default), fp16, fp32, e4m3 or e5m2; with --file: only tensors of it", 1 },
	{ "dist", 'd', "DIST", 0, "distribution of the values (default gauss); a wrong name lists what there is", 1 },
	{ "sigma", KEY_SIGMA, "X", 0, "its width (default 0.02)", 1 },
	{ "seed", KEY_SEED, "N", 0, "of the random data (default 1)", 1 },
	{ "file", 'f', "FILE", 0, "send the tensors of this safetensors file", 1 },
	{ "rounds", 'n', "N", 0, "rounds of each stack, raw and zip in turns; medians are shown (default 5)", 2 },
	{ "time", KEY_TIME, "SECONDS", 0, "of a round (default 0.25)", 2 },
	{ "iters", KEY_ITERS, "N", 0, "messages of a round, instead of --time", 2 },
	{ "check", KEY_CHECK, NULL, 0, "compare what arrived bit for bit, beside the clock (default)", 2 },
	{ "no-check", KEY_NO_CHECK, NULL, 0, "do not", 2 },
	{ "json", KEY_JSON, NULL, 0, "print one JSON object instead of the table", 3 },
	{ "plot", KEY_PLOT, "FILE.png", 0, "draw GB/s and speedup against size (needs gnuplot)", 3 },
	{ "breakdown", KEY_BREAKDOWN, NULL, 0, "show where zip's time went", 3 },
	{ "link", KEY_LINK, "TEXT", 0, "what to call the link in the report", 3 },
	{ "local", 'l', NULL, 0, "both sides in this machine, no server needed", 4 },
	{ "port", 'P', "PORT", 0, "TCP port for the two sides to meet (default 47320)", 4 },
	{ "bind", KEY_BIND, "ADDRESS", 0, "numeric address of this side (default: what the route to the other has)", 4 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0, "give up when nothing moves for so long (default 60)", 4 },
	{ 0 },
};

/* One element of the list. Returns how many sizes it gave, or -1. */
static int parse_range(char *text, uint64_t *sizes, int room, const char **why)
{
	char *to = strchr(text, ':'), *by = to ? strchr(to + 1, ':') : NULL;
	uint64_t first, last, factor = 2;
	int n = 0;

	if (to)
		*to++ = 0;
	if (by) {
		*by++ = 0;
		factor = strspn(by, "0123456789") == strlen(by) ? zipt_parse_size(by) : 0;
	}
	first = zipt_parse_size(text);
	last = to ? zipt_parse_size(to) : first;
	*why = "must be numbers of bytes from 1 to 64G, with K, M or G";
	if (!first || !last || first > PERF_SIZE_MOST || last > PERF_SIZE_MOST)
		return -1;
	*why = "a range goes upwards, by a factor from 2";
	if (last < first || factor < 2)
		return -1;
	*why = "are too many sizes (64 at most)";
	for (; first <= last; first *= factor) {
		if (n == room)
			return -1;
		sizes[n++] = first;
		if (first > PERF_SIZE_MOST / factor)
			break;
	}
	return n;
}

int perf_sizes_parse(const char *text, uint64_t sizes[PERF_SIZES_MAX], const char **why)
{
	char *copy = strdup(text), *rest = copy, *part;
	int n = 0, more = copy ? 0 : -1;

	*why = "out of memory";
	while (more >= 0 && (part = strsep(&rest, ","))) {
		more = parse_range(part, sizes + n, PERF_SIZES_MAX - n, why);
		n += more;
	}
	free(copy);
	return more < 0 ? -1 : n;
}

static uint64_t parse_number(struct argp_state *state, const char *name, const char *text, uint64_t max)
{
	uint64_t value = zipt_parse_size(text);

	if (value < 1 || value > max)
		argp_error(state, "--%s %s: must be a number from 1 to %llu", name, text, (unsigned long long)max);
	return value;
}

static double parse_real(struct argp_state *state, const char *name, const char *text, double most)
{
	char *end;
	double value = strtod(text, &end);

	if (*end || !(value > 0) || !(value <= most))
		argp_error(state, "--%s %s: must be a number above 0, at most %g", name, text, most);
	return value;
}

/* Index of a name in a list. */
static uint32_t parse_name(struct argp_state *state, const char *option, const char *text, const char *const *names,
			   uint32_t count)
{
	char all[128] = "";
	uint32_t i;

	for (i = 0; i < count && strcmp(text, names[i]); i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", names[i]);
	if (i == count)
		argp_error(state, "--%s %s: must be one of %s", option, text, all);
	return i;
}

static void parse_text(struct argp_state *state, const char *option, const char *text, char *to, size_t room)
{
	if (!text[0] || strlen(text) >= room)
		argp_error(state, "--%s %s: must have 1 to %zu characters", option, text, room - 1);
	snprintf(to, room, "%s", text);
}

static error_t parse_data(int key, char *arg, struct argp_state *state)
{
	struct perf_options *options = state->input;
	struct perf_plan *plan = &options->plan;

	switch (key) {
	case 't':
		if (zipc_dtype_parse(arg) <= ZIPC_DTYPE_RAW)
			argp_error(state, "--dtype %s: must be bf16, fp16, fp32, e4m3 or e5m2", arg);
		parse_text(state, "dtype", arg, plan->dtype, sizeof(plan->dtype));
		return 0;
	case 'd':
		if (zipt_dist_parse(arg) < 0) {
			fprintf(stderr, "zip_perf: --dist %s is unknown; there are:\n", arg);
			for (int i = 0; i < ZIPT_DIST_COUNT; i++)
				fprintf(stderr, "  %-12s %s\n", zipt_dist_name(i), zipt_dist_text(i));
			exit(argp_err_exit_status);
		}
		parse_text(state, "dist", arg, plan->dist, sizeof(plan->dist));
		return 0;
	case KEY_SIGMA: plan->sigma = parse_real(state, "sigma", arg, 1e30); return 0;
	case KEY_SEED: plan->seed = strtoull(arg, NULL, 0); return 0;
	case 'f': options->file = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_place(int key, char *arg, struct argp_state *state)
{
	struct perf_options *options = state->input;

	switch (key) {
	case 'l': options->local = 1; return 0;
	case 'P': options->port = arg; return 0;
	case KEY_BIND: options->bind = arg; return 0;
	case KEY_LINK: options->link = arg; return 0;
	case KEY_JSON: options->json = 1; return 0;
	case KEY_PLOT: options->plot = arg; return 0;
	case ARGP_KEY_ARG:
		if (options->host)
			argp_error(state, "one HOST only, not both %s and %s", options->host, arg);
		options->host = arg;
		return 0;
	default: return parse_data(key, arg, state);
	}
}

static void parse_provider(struct argp_state *state, const char *arg, struct perf_plan *plan)
{
	if (strstr(arg, "zip"))
		argp_error(state, "--provider %s: name the core alone, e.g. tcp; zip is put on it by zip_perf", arg);
	parse_text(state, "provider", arg, plan->provider, sizeof(plan->provider));
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	static const char *const apis[] = { "ofi", "ucp" };
	struct perf_options *options = state->input;
	struct perf_plan *plan = &options->plan;
	const char *why;
	int n;

	switch (key) {
	case KEY_OP: plan->op = parse_name(state, "op", arg, perf_op_names, PERF_OPS); return 0;
	case KEY_MEMORY: plan->memory = parse_name(state, "memory", arg, perf_memory_names, PERF_MEMORY_KINDS); return 0;
	case KEY_API: snprintf(plan->api, sizeof(plan->api), "%s", apis[parse_name(state, "api", arg, apis, 2)]); return 0;
	case 's':
		n = perf_sizes_parse(arg, plan->sizes, &why);
		if (n < 0)
			argp_error(state, "--sizes %s: %s", arg, why);
		plan->nsizes = (uint32_t)n;
		return 0;
	case 'w': plan->window = (uint32_t)parse_number(state, "window", arg, PERF_WINDOW_MAX); return 0;
	case 'b': plan->bidirectional = 1; return 0;
	case 'p': parse_provider(state, arg, plan); return 0;
	case KEY_CHECK: plan->check = 1; return 0;
	case KEY_NO_CHECK: plan->check = 0; return 0;
	case KEY_BREAKDOWN: plan->breakdown = 1; return 0;
	case 'n': options->rounds = (uint32_t)parse_number(state, "rounds", arg, PERF_ROUNDS_MAX); return 0;
	case KEY_ITERS:
		options->iters = parse_number(state, "iters", arg, 1u << 30);
		options->timed = 0;
		return 0;
	case KEY_TIME:
		options->seconds = parse_real(state, "time", arg, 3600);
		options->timed = 1;
		return 0;
	case KEY_TIMEOUT: plan->timeout_s = (uint32_t)parse_number(state, "timeout", arg, 86400); return 0;
	default: return parse_place(key, arg, state);
	}
}

/*
 * Both stacks live in this process, so that FI_PROVIDER, which chooses one, must not be seen by libfabric; what it says is
 * the core to use unless the command line says another.
 */
static void provider_from_environment(struct perf_plan *plan)
{
	const char *text = getenv("FI_PROVIDER");
	size_t used = 0;

	snprintf(plan->provider, sizeof(plan->provider), "tcp");
	if (!text || !text[0] || strpbrk(text, "^,") || strlen(text) >= sizeof(plan->provider))
		return;
	for (const char *end; *text; text = *end ? end + 1 : end) {
		size_t n;

		end = strchrnul(text, ';');
		n = (size_t)(end - text);
		if (!n || (n == 3 && !strncmp(text, "zip", n)) || (n == 7 && !strncmp(text, "ofi_zip", n)))
			continue;
		used += (size_t)snprintf(plan->provider + used, sizeof(plan->provider) - used, "%s%.*s", used ? ";" : "", (int)n,
					 text);
	}
	unsetenv("FI_PROVIDER");
}

void perf_options_parse(struct perf_options *options, int argc, char **argv)
{
	static const struct argp argp = {
		.options = option_list, .parser = parse_option, .args_doc = "[HOST]",
		.doc = "Measure bandwidth raw and through zip, in turns. Start it without HOST on one machine, the server, and with "
		       "the server's HOST and options on another, the client, which reports. With --local one machine is enough.\v"
		       "Exit status: 0, 1 when a bit differs, 2 when it could not run. zip's own settings (FI_ZIP_*, see fi_zip(7)) "
		       "hold as always, on each side its own.",
	};
	struct perf_plan *plan = &options->plan;
	const char *why;

	*options = (struct perf_options){
		.port = "47320", .timed = 1, .seconds = 0.25, .rounds = 5,
		.plan = { .magic = PERF_MAGIC, .version = PERF_VERSION, .bytes = sizeof(*plan), .op = PERF_TAGGED, .window = 8,
			  .check = 1, .timeout_s = 60, .sigma = 0.02, .seed = 1, .api = "ofi", .dist = "gauss" },
	};
	plan->nsizes = (uint32_t)perf_sizes_parse("64K:64M", plan->sizes, &why);
	provider_from_environment(plan);
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, options);
	if (options->local && options->host) {
		fprintf(stderr, "zip_perf: --local runs both sides here; leave %s out\n", options->host);
		exit(2);
	}
	if (!plan->dtype[0] && !options->file)
		snprintf(plan->dtype, sizeof(plan->dtype), "bf16");
}

static int has_end(const char *text, size_t room)
{
	return memchr(text, 0, room) != NULL;
}

const char *perf_plan_fault(const struct perf_plan *plan)
{
	if (plan->magic != PERF_MAGIC || plan->version != PERF_VERSION || plan->bytes != sizeof(*plan))
		return "it is another version of zip_perf; use the same one on both sides";
	if (plan->op >= PERF_OPS || plan->memory >= PERF_MEMORY_KINDS || !plan->window || plan->window > PERF_WINDOW_MAX ||
	    !plan->timeout_s || plan->timeout_s > 86400 || !plan->nsizes || plan->nsizes > PERF_SIZES_MAX)
		return "a number in its plan cannot be";
	for (uint32_t i = 0; i < plan->nsizes; i++)
		if (!plan->sizes[i] || plan->sizes[i] > PERF_SIZE_MOST)
			return "a size in its plan cannot be";
	if (!has_end(plan->api, sizeof(plan->api)) || !has_end(plan->provider, sizeof(plan->provider)) ||
	    !has_end(plan->dtype, sizeof(plan->dtype)) || !has_end(plan->dist, sizeof(plan->dist)))
		return "a name in its plan does not end";
	if (plan->pool_bytes > PERF_SIZE_MOST ||
	    (!plan->pool_bytes && (zipc_dtype_parse(plan->dtype) <= ZIPC_DTYPE_RAW || zipt_dist_parse(plan->dist) < 0)))
		return "its data cannot be made here";
	return NULL;
}
