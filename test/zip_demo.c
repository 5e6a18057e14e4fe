/* SPDX-License-Identifier: BSD-3-Clause */
/* Options, and the coordinator: it starts a sender and a receiver for each stack and lets the two pairs take turns. */
#include "zip_demo.h"
#include "zipc_codec.h"
#include "zipt_data.h"
#include "zipt_util.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct worker {
	pid_t pid;
	int channel;
};

static const char *const stack_names[DEMO_STACKS] = { "raw", "zip" };
static const char *const role_names[DEMO_ROLES] = { "sender", "receiver" };

/* In the child: enter the namespace, choose the stack, become a worker. */
static int child_main(const struct demo_options *options, enum demo_stack stack, enum demo_role role,
		      const struct demo_data *data, int channel)
{
	char path[512];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (options->netns[role]) {
		snprintf(path, sizeof(path), "/run/netns/%s", options->netns[role]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWNET)) {
			fprintf(stderr, "zip_demo: network namespace %s: %s\n", options->netns[role], strerror(errno));
			return 1;
		}
		close(fd);
	}
	setenv("FI_PROVIDER", options->provider[stack], 1);
	return demo_worker_run(options, role, data, channel);
}

static int worker_start(const struct demo_options *options, enum demo_stack stack, enum demo_role role,
			const struct demo_data *data, struct worker *worker)
{
	int channels[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels)) {
		perror("zip_demo: socketpair");
		return -1;
	}
	fflush(NULL);
	worker->pid = fork();
	if (worker->pid < 0) {
		perror("zip_demo: fork");
		return -1;
	}
	if (worker->pid == 0) {
		close(channels[0]);
		exit(child_main(options, stack, role, data, channels[1]));
	}
	close(channels[1]);
	worker->channel = channels[0];
	return 0;
}

/* Wait for the packet that must come next. */
static int expect(const struct demo_options *options, const struct worker *worker, enum demo_verb verb, const char *who,
		  struct demo_packet *packet)
{
	struct pollfd pollfd = { .fd = worker->channel, .events = POLLIN };
	int n = poll(&pollfd, 1, (int)options->timeout_s * 1000);

	if (n == 0) {
		fprintf(stderr, "zip_demo: the %s has not answered for %u seconds (--timeout)\n", who, options->timeout_s);
		return -1;
	}
	if (n < 0 || recv(worker->channel, packet, sizeof(*packet), 0) != (ssize_t)sizeof(*packet)) {
		fprintf(stderr, "zip_demo: the %s has died\n", who);
		return -1;
	}
	if (packet->verb == verb)
		return 0;
	packet->text[sizeof(packet->text) - 1] = 0;
	fprintf(stderr, "zip_demo: %s: %s\n", who, packet->verb == DEMO_FAILED ? packet->text : "unexpected packet");
	return -1;
}

static int tell(const struct worker *worker, const struct demo_packet *packet)
{
	return send(worker->channel, packet, sizeof(*packet), MSG_NOSIGNAL) == (ssize_t)sizeof(*packet) ? 0 : -1;
}

static void name_worker(char *buf, size_t size, enum demo_stack stack, enum demo_role role)
{
	snprintf(buf, size, "%s %s", stack_names[stack], role_names[role]);
}

/* Exchange the addresses of a pair. */
static int introduce(const struct demo_options *options, enum demo_stack stack, const struct worker pair[DEMO_ROLES],
		     struct demo_result *result)
{
	struct demo_packet packets[DEMO_ROLES];
	char who[32];

	for (int role = 0; role < DEMO_ROLES; role++) {
		name_worker(who, sizeof(who), stack, role);
		if (expect(options, &pair[role], DEMO_HELLO, who, &packets[role]))
			return -1;
	}
	snprintf(result->provider, sizeof(result->provider), "%s", packets[DEMO_SENDER].text);
	if (strstr(options->provider[stack], "zip") && !strstr(result->provider, "zip")) {
		fprintf(stderr, "zip_demo: FI_PROVIDER=\"%s\" gives provider %s: libzip-fi.so was not found. Install it where "
			"libfabric looks, or set FI_PROVIDER_PATH to its directory.\n",
			options->provider[stack], result->provider);
		return -1;
	}
	for (int role = 0; role < DEMO_ROLES; role++) {
		name_worker(who, sizeof(who), stack, role);
		packets[!role].verb = DEMO_PEER;
		if (tell(&pair[role], &packets[!role]))
			return -1;
		packets[!role].verb = DEMO_HELLO;
		struct demo_packet answer;
		if (expect(options, &pair[role], DEMO_READY, who, &answer))
			return -1;
	}
	return 0;
}

/* One round of one stack; its time and bytes are added to *result unless that is NULL. */
static int round_run(const struct demo_options *options, enum demo_stack stack, const struct worker pair[DEMO_ROLES],
		     size_t count, size_t size, struct demo_result *result)
{
	struct demo_packet order = { .verb = DEMO_ROUND, .count = count, .size = size };
	struct demo_packet end = { .verb = DEMO_END };
	struct demo_packet sent, received, counted;
	char sender[32], receiver[32];

	name_worker(sender, sizeof(sender), stack, DEMO_SENDER);
	name_worker(receiver, sizeof(receiver), stack, DEMO_RECEIVER);
	if (tell(&pair[DEMO_RECEIVER], &order) || expect(options, &pair[DEMO_RECEIVER], DEMO_READY, receiver, &received))
		return -1;
	if (tell(&pair[DEMO_SENDER], &order) || expect(options, &pair[DEMO_RECEIVER], DEMO_DONE, receiver, &received) ||
	    expect(options, &pair[DEMO_SENDER], DEMO_DONE, sender, &sent))
		return -1;
	if (tell(&pair[DEMO_SENDER], &end) || tell(&pair[DEMO_RECEIVER], &end) ||
	    expect(options, &pair[DEMO_SENDER], DEMO_COUNTED, sender, &counted))
		return -1;
	if (!result)
		return 0;
	result->seconds[result->rounds] = (double)(received.time_ns - sent.time_ns) / 1e9;
	result->wire_bytes[result->rounds] = (double)counted.wire_bytes;
	result->wrong += received.wrong;
	result->rounds++;
	return 0;
}

static void show_progress(const struct demo_options *options, const struct demo_data *data, unsigned round,
			  const struct demo_result results[DEMO_STACKS])
{
	double bytes = (double)data->size * (double)data->count;

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K  round %u of %u: raw %.3f GB/s, zip %.3f GB/s", round + 1, options->rounds,
		bytes / results[DEMO_RAW].seconds[round] / 1e9, bytes / results[DEMO_ZIP].seconds[round] / 1e9);
	if (round + 1 == options->rounds)
		fprintf(stderr, "\n");
}

static int all_rounds(const struct demo_options *options, const struct demo_data *data,
		      struct worker workers[DEMO_STACKS][DEMO_ROLES], struct demo_result results[DEMO_STACKS])
{
	for (int stack = 0; stack < DEMO_STACKS; stack++) {
		if (introduce(options, stack, workers[stack], &results[stack]))
			return -1;
		/* peers meet, connections open, memory is touched: not timed */
		if (round_run(options, stack, workers[stack], 1, data->size < 64 ? data->size : 64, NULL) ||
		    round_run(options, stack, workers[stack], data->count, data->size, NULL))
			return -1;
	}
	for (unsigned round = 0; round < options->rounds; round++) {
		for (int stack = 0; stack < DEMO_STACKS; stack++) {
			if (round_run(options, stack, workers[stack], data->count, data->size, &results[stack]))
				return -1;
		}
		show_progress(options, data, round, results);
	}
	return 0;
}

static int workers_end(struct worker workers[DEMO_STACKS][DEMO_ROLES], int failed)
{
	const struct demo_packet quit = { .verb = DEMO_QUIT };
	int status, rc = 0;

	for (int i = 0; i < DEMO_STACKS * DEMO_ROLES; i++) {
		struct worker *worker = &workers[i / DEMO_ROLES][i % DEMO_ROLES];

		if (worker->pid > 0 && (failed || tell(worker, &quit)))
			kill(worker->pid, SIGKILL);
	}
	for (int i = 0; i < DEMO_STACKS * DEMO_ROLES; i++) {
		struct worker *worker = &workers[i / DEMO_ROLES][i % DEMO_ROLES];

		if (worker->pid > 0 && (waitpid(worker->pid, &status, 0) < 0 || status) && !failed) {
			fprintf(stderr, "zip_demo: the %s %s ended with status %#x\n", stack_names[i / DEMO_ROLES],
				role_names[i % DEMO_ROLES], (unsigned)status);
			rc = -1;
		}
	}
	return rc;
}

static int demo_run(const struct demo_options *options)
{
	static struct demo_result results[DEMO_STACKS];
	struct worker workers[DEMO_STACKS][DEMO_ROLES] = { 0 };
	struct demo_data data;
	int rc = 0;

	if (demo_data_make(options, &data))
		return 2;
	for (int i = 0; i < DEMO_STACKS * DEMO_ROLES && !rc; i++)
		rc = worker_start(options, i / DEMO_ROLES, i % DEMO_ROLES, &data, &workers[i / DEMO_ROLES][i % DEMO_ROLES]);
	if (!rc)
		rc = all_rounds(options, &data, workers, results);
	rc = workers_end(workers, rc) || rc;
	if (!rc && !demo_report(options, &data, results)) {
		fprintf(stderr, "zip_demo: bits differ: %llu messages raw, %llu zip\n",
			(unsigned long long)results[DEMO_RAW].wrong, (unsigned long long)results[DEMO_ZIP].wrong);
		rc = 1;
	} else if (rc) {
		rc = 2;
	}
	demo_data_release(&data);
	return rc;
}

enum option_key {
	KEY_SIGMA = 256, KEY_SEED, KEY_COUNT, KEY_JSON, KEY_TIMEOUT, KEY_RAW, KEY_ZIP,
	KEY_SENDER_NETNS, KEY_RECEIVER_NETNS, KEY_SENDER_ADDRESS, KEY_RECEIVER_ADDRESS, KEY_DEVICE, KEY_LINK, KEY_RATE,
};

static const struct argp_option option_list[] = {
	{ "file", 'f', "FILE", 0, "send the tensors of this safetensors file", 0 },
	{ "dtype", 't', "DTYPE", 0, "bf16 (default), fp16, fp32, e4m3, e5m2; with --file: only tensors of it", 0 },
	{ "dist", 'd', "DIST", 0, "distribution of the values (default gauss)", 0 },
	{ "sigma", KEY_SIGMA, "X", 0, "its width (default 0.02)", 0 },
	{ "size", 's', "BYTES", 0, "size of a message, with K, M or G (default 64M)", 0 },
	{ "count", KEY_COUNT, "N", 0, "messages of a round (default: enough for 64M, at most 16384)", 0 },
	{ "rounds", 'n', "N", 0, "rounds of each stack (default 5)", 0 },
	{ "seed", KEY_SEED, "N", 0, "of the random data (default 1)", 0 },
	{ "json", KEY_JSON, NULL, 0, "print one JSON object as the last line", 0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0, "of one round (default 60)", 0 },
	{ "raw-provider", KEY_RAW, "NAMES", 0, "FI_PROVIDER of the raw stack (default tcp)", 1 },
	{ "zip-provider", KEY_ZIP, "NAMES", 0, "FI_PROVIDER of the zip stack (default zip;tcp)", 1 },
	{ "sender-netns", KEY_SENDER_NETNS, "NAME", 0, "network namespace of the senders", 2 },
	{ "receiver-netns", KEY_RECEIVER_NETNS, "NAME", 0, "network namespace of the receivers", 2 },
	{ "sender-address", KEY_SENDER_ADDRESS, "IP", 0, "address of the senders (default 127.0.0.1)", 2 },
	{ "receiver-address", KEY_RECEIVER_ADDRESS, "IP", 0, "address of the receivers (default 127.0.0.1)", 2 },
	{ "device", KEY_DEVICE, "NAME", 0, "the senders' network device, whose bytes are counted (default lo)", 2 },
	{ "link", KEY_LINK, "TEXT", 0, "what to call the link in the table", 2 },
	{ "rate", KEY_RATE, "TEXT", 0, "its rate, as the report shall give it", 2 },
	{ 0 },
};

static unsigned parse_number(struct argp_state *state, const char *name, const char *text, unsigned max)
{
	size_t value = zipt_parse_size(text);

	if (value < 1 || value > max)
		argp_error(state, "--%s %s: must be a number from 1 to %u", name, text, max);
	return (unsigned)value;
}

static void parse_kind(struct argp_state *state, int key, const char *arg, struct demo_options *options)
{
	if (key == 't') {
		if (zipc_dtype_parse(arg) <= ZIPC_DTYPE_RAW)
			argp_error(state, "--dtype %s: must be bf16, fp16, fp32, e4m3 or e5m2", arg);
		options->dtype = arg;
		return;
	}
	if (zipt_dist_parse(arg) < 0) {
		fprintf(stderr, "zip_demo: --dist %s is unknown; there are:\n", arg);
		for (int i = 0; i < ZIPT_DIST_COUNT; i++)
			fprintf(stderr, "  %-12s %s\n", zipt_dist_name(i), zipt_dist_text(i));
		exit(argp_err_exit_status);
	}
	options->dist = arg;
}

static int parse_place(int key, const char *arg, struct demo_options *options)
{
	switch (key) {
	case KEY_RAW: options->provider[DEMO_RAW] = arg; return 0;
	case KEY_ZIP: options->provider[DEMO_ZIP] = arg; return 0;
	case KEY_SENDER_NETNS: options->netns[DEMO_SENDER] = arg; return 0;
	case KEY_RECEIVER_NETNS: options->netns[DEMO_RECEIVER] = arg; return 0;
	case KEY_SENDER_ADDRESS: options->address[DEMO_SENDER] = arg; return 0;
	case KEY_RECEIVER_ADDRESS: options->address[DEMO_RECEIVER] = arg; return 0;
	case KEY_DEVICE: options->device = arg; return 0;
	case KEY_LINK: options->link = arg; return 0;
	case KEY_RATE: options->rate = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct demo_options *options = state->input;

	switch (key) {
	case 'f':
		options->file = arg;
		return 0;
	case 't':
	case 'd':
		parse_kind(state, key, arg, options);
		return 0;
	case 's':
		options->size = zipt_parse_size(arg);
		if (!options->size)
			argp_error(state, "--size %s: must be a number of bytes from 1, with K, M or G", arg);
		return 0;
	case 'n':
		options->rounds = parse_number(state, "rounds", arg, DEMO_ROUNDS_MAX);
		return 0;
	case KEY_COUNT:
		options->count = parse_number(state, "count", arg, 1000000);
		return 0;
	case KEY_TIMEOUT:
		options->timeout_s = parse_number(state, "timeout", arg, 86400);
		return 0;
	case KEY_SEED:
		options->seed = strtoull(arg, NULL, 0);
		return 0;
	case KEY_SIGMA:
		options->sigma = strtod(arg, NULL);
		if (!(options->sigma > 0))
			argp_error(state, "--sigma %s: must be a number above 0", arg);
		return 0;
	case KEY_JSON:
		options->json = 1;
		return 0;
	default:
		return parse_place(key, arg, options);
	}
}

int main(int argc, char **argv)
{
	struct demo_options options = {
		.dist = "gauss", .sigma = 0.02, .size = 64u << 20, .rounds = 5, .timeout_s = 60, .seed = 1,
		.provider = { "tcp", "zip;tcp" }, .address = { "127.0.0.1", "127.0.0.1" }, .device = "lo",
		.link = "loopback device", .rate = "unlimited",
	};
	const struct argp argp = {
		.options = option_list, .parser = parse_option,
		.doc = "Send tensors between two processes over libfabric as it is and over libfabric with zip, in turns, and "
		       "compare.\vExit status: 0, 1 when a bit differs, 2 when it could not run. `./quickstart demo` runs this "
		       "over a link of a known rate.",
	};

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (!options.dtype && !options.file)
		options.dtype = "bf16";
	return demo_run(&options);
}
