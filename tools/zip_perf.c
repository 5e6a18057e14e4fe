/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides, from the meeting to the report. */
#include "zip_perf.h"
#include "zipt_util.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEET_SECONDS 5        /* in which the two zips should have found each other */
#define MEET_BYTES 65536u
#define ITERS_MOST 1000000u

struct side {
	struct perf_plan plan;
	struct perf_memory memory;
	struct perf_run run;
	struct perf_stats last[2];   /* client: of zip at both sides, when its last round was over */
};

static char failure[1024];
static int silent; /* the other side is this very program, and tells */

void perf_fail(const char *format, ...)
{
	va_list args;

	if (failure[0])
		return;
	va_start(args, format);
	vsnprintf(failure, sizeof(failure), format, args);
	va_end(args);
}

const char *perf_failure(void)
{
	return failure[0] ? failure : NULL;
}

/* Says it to the user, and to the other side, which may not know. Returns the exit status. */
static int give_up(int oob)
{
	char text[sizeof(failure)];

	snprintf(text, sizeof(text), "%s", failure[0] ? failure : "failed");
	if (!silent)
		fprintf(stderr, "%szip_perf: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
	text[511] = 0;
	if (oob >= 0)
		perf_oob_send(oob, PERF_FAILED, text, strlen(text));
	return 2;
}

static const struct perf_door_ops *door_of(const struct perf_plan *plan)
{
	if (!strcmp(plan->api, "ofi"))
		return &perf_ofi_ops;
#ifdef ZIP_PERF_UCP
	if (!strcmp(plan->api, "ucp"))
		return &perf_ucp_ops;
#endif
	perf_fail("--api %s: not in this build; install libucx-dev and configure again", plan->api);
	return NULL;
}

/* Opens both stacks and exchanges what the sides must know of each other. */
static int side_open(struct side *side, enum perf_role role, int oob, char names[PERF_STACKS][128])
{
	static struct perf_card mine[PERF_STACKS], theirs[PERF_STACKS];
	struct perf_run *run = &side->run;
	char address[64];

	run->plan = &side->plan;
	run->role = role;
	run->oob = oob;
	run->memory = &side->memory;
	run->ops = door_of(&side->plan);
	if (!run->ops || perf_memory_open(&side->memory, &side->plan, role))
		return -1;
	perf_oob_address(oob, address, sizeof(address));
	if (side->plan.breakdown)
		setenv("FI_ZIP_STATS", "times", 0);
	for (int stack = 0; stack < PERF_STACKS; stack++)
		if (run->ops->open(&side->plan, stack, address, &side->memory, &run->doors[stack]) ||
		    run->ops->card(run->doors[stack], &mine[stack]))
			return -1;
	if (perf_oob_send(oob, PERF_CARD, mine, sizeof(mine)) ||
	    perf_oob_expect(oob, PERF_CARD, theirs, sizeof(theirs), side->plan.timeout_s))
		return -1;
	for (int stack = 0; stack < PERF_STACKS; stack++) {
		theirs[stack].name[sizeof(theirs[stack].name) - 1] = 0;
		if (run->ops->meet(run->doors[stack], &theirs[stack]))
			return -1;
		snprintf(names[stack], sizeof(mine[stack].name), "%s", mine[stack].name);
	}
	if (perf_oob_send(oob, PERF_MET, NULL, 0))
		return -1;
	return perf_oob_expect(oob, PERF_MET, NULL, 0, side->plan.timeout_s);
}

static void side_close(struct side *side)
{
	for (int stack = 0; stack < PERF_STACKS; stack++)
		if (side->run.doors[stack])
			side->run.ops->close(side->run.doors[stack]);
	perf_memory_close(&side->memory);
}

/* ---- server */

static int serve_rounds(struct side *side)
{
	struct perf_side_result mine, theirs;
	struct perf_events none = { 0 };
	struct perf_order order;
	uint64_t ns;

	for (;;) {
		int verb = perf_oob_next(side->run.oob, &order, sizeof(order), side->plan.timeout_s);

		if (verb < 0)
			return -1;
		if (verb == PERF_QUIT)
			return 0;
		if (verb != PERF_ROUND || order.stack >= PERF_STACKS || !order.size || !order.iters ||
		    order.size > side->memory.tx_bytes + side->memory.rx_bytes) {
			perf_fail("the client gave an order that cannot be followed");
			return -1;
		}
		if (perf_round(&side->run, &order, &ns, &mine))
			return -1;
		mine.told = !side->run.ops->stats(side->run.doors[order.stack], &mine.stats);
		if (perf_oob_send(side->run.oob, PERF_DONE, &mine, sizeof(mine)) ||
		    perf_run_expect(&side->run, order.stack, &none, PERF_DONE, &theirs, sizeof(theirs)))
			return -1;
	}
}

static int take_plan(struct side *side, int oob)
{
	struct perf_plan *plan = &side->plan;
	const char *fault;

	if (perf_oob_expect(oob, PERF_PLAN, plan, sizeof(*plan), 60))
		return -1;
	fault = perf_plan_fault(plan);
	if (fault) {
		perf_fail("the client's plan cannot be followed: %s", fault);
		return -1;
	}
	if (!plan->pool_bytes)
		return perf_pool_make(&side->memory, plan, NULL);
	side->memory.pool_bytes = plan->pool_bytes;
	side->memory.pool = malloc(plan->pool_bytes);
	if (!side->memory.pool) {
		perf_fail("no memory for the %llu bytes of the file", (unsigned long long)plan->pool_bytes);
		return -1;
	}
	return perf_oob_get(oob, side->memory.pool, plan->pool_bytes, plan->timeout_s);
}

static int serve(int oob)
{
	static struct side side;
	char names[PERF_STACKS][128];
	int rc = take_plan(&side, oob) || side_open(&side, PERF_SERVER, oob, names) || serve_rounds(&side);

	if (rc)
		rc = give_up(oob);
	side_close(&side);
	close(oob);
	return rc;
}

/* ---- client */

static void stats_add(struct perf_stats *sum, const struct perf_stats *now, const struct perf_stats *before)
{
	uint64_t *s = (uint64_t *)sum;
	const uint64_t *a = (const uint64_t *)now, *b = (const uint64_t *)before;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
		s[i] += a[i] - b[i];
}

/* One round on both sides. `results`: client, server. */
static int round_both(struct side *side, enum perf_stack stack, uint64_t size, uint64_t iters, uint64_t *ns,
		      struct perf_side_result results[2])
{
	const struct perf_order order = { .stack = stack, .size = size, .iters = iters };
	struct perf_events none = { 0 };

	if (perf_round(&side->run, &order, ns, &results[0]))
		return -1;
	results[0].told = !side->run.ops->stats(side->run.doors[stack], &results[0].stats);
	if (perf_run_expect(&side->run, stack, &none, PERF_DONE, &results[1], sizeof(results[1])))
		return -1;
	for (int i = 0; stack == PERF_ZIP && i < 2; i++)
		side->last[i] = results[i].stats;
	return perf_oob_send(side->run.oob, PERF_DONE, &results[0], sizeof(results[0]));
}

/* Two zips find each other while large messages flow. Returns 1 when they have, 0 when not, or -1. */
static int zips_meet(struct side *side)
{
	struct perf_side_result results[2];
	uint64_t start = zipt_now_ns(), ns, size = side->plan.sizes[0];

	for (uint32_t i = 0; i < side->plan.nsizes; i++)
		if (side->plan.sizes[i] >= MEET_BYTES && (size < MEET_BYTES || side->plan.sizes[i] < size))
			size = side->plan.sizes[i];
	do {
		if (round_both(side, PERF_ZIP, size, 1, &ns, results))
			return -1;
		if (!results[0].told || (results[0].stats.peers_ready && results[1].stats.peers_ready))
			return 1;
		usleep(10000);
	} while (size >= MEET_BYTES && zipt_now_ns() - start < MEET_SECONDS * 1000000000ull);
	return size < MEET_BYTES;
}

/*
 * Messages and time that one warming up takes at least and at most. zip compares the two ways over some messages of each
 * size first.
 */
static int warm_enough(const struct side *side, enum perf_stack stack, const struct perf_options *options, uint64_t messages,
		       uint64_t ns)
{
	if (stack == PERF_RAW || messages >= 4 * (uint64_t)side->plan.window + 16)
		return 1;
	return (double)ns > 1e9 * (options->seconds > 0.5 ? 4 * options->seconds : 2);
}

/* Untimed rounds that make connections, touch memory and let zip measure; and how many messages fill the time of a round. */
static int warm_up(struct side *side, const struct perf_options *options, struct perf_row *row, enum perf_stack stack)
{
	struct perf_side_result results[2];
	uint64_t ns = 0, all_ns = 0, messages = 0, iters = side->plan.window;
	double per_message = 0;

	for (int i = 0; i < 2 || !warm_enough(side, stack, options, messages, all_ns); i++) {
		if (round_both(side, stack, row->size, iters, &ns, results))
			return -1;
		row->wrong += results[0].wrong + results[1].wrong;
		messages += iters;
		all_ns += ns;
		per_message = (double)ns / (double)iters;
		/* A first look at few small messages says little: one tenth of a round says more. */
		if (options->timed && !i && per_message * (double)iters < options->seconds * 1e8)
			iters = (uint64_t)(options->seconds * 1e8 / (per_message > 1 ? per_message : 1)) + iters;
		if (iters > ITERS_MOST)
			iters = ITERS_MOST;
	}
	row->iters[stack] = options->iters;
	if (!options->timed)
		return 0;
	iters = (uint64_t)(options->seconds * 1e9 / (per_message > 1 ? per_message : 1)) + 1;
	iters = iters < side->plan.window ? side->plan.window : iters;
	row->iters[stack] = iters > ITERS_MOST ? ITERS_MOST : iters;
	return 0;
}

static void progress(const struct perf_row *row, unsigned round, unsigned rounds, const char *what)
{
	char text[32];

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K  %s: round %u of %u %s", perf_size_text(row->size, text), round + 1, rounds, what);
}

static int measure_row(struct side *side, const struct perf_options *options, struct perf_row *row)
{
	static const char *const what[] = { "raw", "zip" };
	struct perf_side_result results[2];
	struct perf_stats before[2];
	uint64_t ns;

	for (int stack = 0; stack < PERF_STACKS; stack++) {
		progress(row, 0, options->rounds, "(warming up)");
		if (warm_up(side, options, row, stack))
			return -1;
	}
	/* the same work for both */
	row->iters[PERF_ZIP] = row->iters[PERF_RAW] = row->iters[PERF_RAW] > row->iters[PERF_ZIP] ? row->iters[PERF_RAW]
												     : row->iters[PERF_ZIP];
	for (unsigned round = 0; round < options->rounds; round++)
		for (int stack = 0; stack < PERF_STACKS; stack++) {
			progress(row, round, options->rounds, what[stack]);
			memcpy(before, side->last, sizeof(before));
			if (round_both(side, stack, row->size, row->iters[stack], &ns, results))
				return -1;
			row->seconds[stack][round] = (double)ns / 1e9;
			row->wrong += results[0].wrong + results[1].wrong;
			row->told |= results[0].told & results[1].told;
			for (int i = 0; stack == PERF_ZIP && i < 2; i++) {
				stats_add(&row->sides[i], &side->last[i], &before[i]);
				stats_add(&row->stats, &side->last[i], &before[i]);
			}
		}
	perf_row_settle(options, row);
	return 0;
}

static int measure(struct side *side, const struct perf_options *options, struct perf_report *report)
{
	int met = zips_meet(side);

	if (met < 0)
		return -1;
	if (!met)
		fprintf(stderr,
			"zip_perf: the two zips have not met in %d seconds, so that all goes raw; between IP addresses UDP must "
			"get through, to the same port numbers as TCP\n",
			MEET_SECONDS);
	if (!options->json)
		perf_report_head(report);
	for (uint32_t i = 0; i < side->plan.nsizes; i++) {
		struct perf_row *row = &report->rows[i];

		row->size = side->plan.sizes[i];
		if (measure_row(side, options, row))
			return -1;
		report->nrows++;
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r\033[K");
		if (!options->json)
			perf_report_row(report, row);
	}
	return perf_oob_send(side->run.oob, PERF_QUIT, NULL, 0);
}

static int tell_plan(struct side *side, struct perf_options *options, int oob)
{
	if (perf_pool_make(&side->memory, &options->plan, options->file))
		return -1;
	side->plan = options->plan;
	if (perf_oob_send(oob, PERF_PLAN, &side->plan, sizeof(side->plan)))
		return -1;
	return side->plan.pool_bytes ? perf_oob_put(oob, side->memory.pool, side->memory.pool_bytes) : 0;
}

static int report_all(const struct perf_report *report)
{
	const struct perf_options *options = report->options;
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < report->nrows; i++)
		wrong += report->rows[i].wrong;
	if (options->json ? perf_report_json(report) : (perf_report_end(report), 0))
		return give_up(-1);
	if (options->plot && perf_plot(report, options->plot))
		return give_up(-1);
	if (wrong)
		fprintf(stderr, "zip_perf: bits differ in %llu messages\n", (unsigned long long)wrong);
	return wrong ? 1 : 0;
}

static int be_client(struct perf_options *options, int oob)
{
	static struct perf_report report;
	static struct side side;
	int rc;

	report.options = options;
	report.file = options->file;
	rc = tell_plan(&side, options, oob) || side_open(&side, PERF_CLIENT, oob, report.names);
	report.tensors = side.memory.tensors;
	rc = rc || measure(&side, options, &report);
	if (rc)
		rc = give_up(oob);
	else
		rc = report_all(&report);
	side_close(&side);
	close(oob);
	return rc;
}

/* Both sides here: the server is a child, and its words come through us. */
static int be_both(struct perf_options *options)
{
	int pair[2], status, rc;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		perf_fail("socketpair: %s", strerror(errno));
		return give_up(-1);
	}
	child = fork();
	if (child < 0) {
		perf_fail("fork: %s", strerror(errno));
		return give_up(-1);
	}
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		silent = 1;
		exit(serve(pair[1]));
	}
	close(pair[1]);
	rc = be_client(options, pair[0]);
	if (waitpid(child, &status, 0) == child && status && !rc) {
		fprintf(stderr, "zip_perf: the server ended with status %#x\n", (unsigned)status);
		rc = 2;
	}
	return rc;
}

/* What can be known to fail later is said at once. */
static int check_options(const struct perf_options *options)
{
	const char *fault = options->json ? perf_json_fault() : NULL;

	if (!fault && options->plot)
		fault = perf_plot_fault();
	if (fault)
		perf_fail("%s", fault);
	return fault || !door_of(&options->plan) ? -1 : 0;
}

int main(int argc, char **argv)
{
	static struct perf_options options;
	int oob, server;

	perf_options_parse(&options, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	if (check_options(&options))
		return give_up(-1);
	if (options.local)
		return be_both(&options);
	server = !options.host;
	oob = server ? perf_oob_accept(&options) : perf_oob_connect(&options);
	if (oob < 0)
		return give_up(-1);
	return server ? serve(oob) : be_client(&options, oob);
}
