/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads: several on one endpoint and one CQ, one for each direction with a CQ of its own; progress that needs no call;
 * sleeping in fi_cq_sread, and on the fd behind fi_trywait. Worth running under ThreadSanitizer. An argument picks one part.
 *
 * No thread opens or closes endpoints meanwhile: cores do not stand that (tcp;ofi_rxm 1.17 crashes, tcp 2.1 says -FI_EBADF).
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "e2e.h"
#include "zipt_data.h"

#define THREADS 3
#define ROUNDS 30
#define BYTES 200000
#define WINDOW 4

struct op {
	struct fi_context2 context; /* first */
	atomic_int done;
	int err;
	size_t len;
};

static uint8_t *data;
static struct e2e e;

/* ---- operations that any thread may complete */

static void finish(struct fid_cq *cq, ssize_t n, const struct fi_cq_tagged_entry *entry)
{
	struct fi_cq_err_entry error = {0};
	struct op *op;

	if (n == 1) {
		op = entry->op_context;
		op->len = entry->len;
	} else if (n == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1) {
		op = error.op_context;
		op->err = error.err;
	} else {
		E2E_CHECK(n == -FI_EAGAIN || n == -FI_EAVAIL, "reading a CQ: %zd", n);
		return;
	}
	atomic_store(&op->done, 1);
}

static void look(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;
	ssize_t n = fi_cq_read(cq, &entry, 1);

	finish(cq, n, &entry);
}

static void wait_op(struct fid_cq *cq, struct op *op)
{
	double end = e2e_now() + 60;

	while (!atomic_load(&op->done)) {
		look(cq);
		E2E_CHECK(e2e_now() < end, "nothing for 60 s");
	}
	E2E_CHECK(!op->err, "%s", fi_strerror(op->err));
}

static void start_recv(struct fid_cq *cq, void *buf, size_t len, uint64_t tag, struct op *op)
{
	ssize_t ret;

	memset(op, 0, sizeof(*op));
	while ((ret = fi_trecv(e.ep, buf, len, NULL, e.peer[1 - e.rank], tag, 0, op)) == -FI_EAGAIN)
		look(cq);
	E2E_OK(ret);
}

static void start_send(struct fid_cq *cq, const void *buf, size_t len, uint64_t tag, struct op *op)
{
	ssize_t ret;

	memset(op, 0, sizeof(*op));
	while ((ret = fi_tsend(e.ep, buf, len, NULL, e.peer[1 - e.rank], tag, op)) == -FI_EAGAIN)
		look(cq);
	E2E_OK(ret);
}

/* Messages of both kinds: plain ones, and such that become transfers. */
static size_t length(int round)
{
	return round % 3 ? BYTES - (size_t)round : 100 + (size_t)round;
}

static void check(const uint8_t *got, const struct op *op, int round)
{
	E2E_CHECK(op->len == length(round) && !memcmp(got, data + round % 7 * 2, op->len), "round %d, %zu bytes", round, op->len);
}

/* ---- several threads, one endpoint, one CQ */

static void *both_ways(void *arg)
{
	uint64_t base = (uint64_t)(uintptr_t)arg * 1000;
	struct op send[WINDOW], recv[WINDOW];
	uint8_t *in = malloc(WINDOW * (size_t)BYTES);
	int round, i;

	for (round = 0; round < ROUNDS; round += WINDOW) {
		for (i = 0; i < WINDOW; i++) {
			start_recv(e.rxcq, in + (size_t)i * BYTES, BYTES, base + (uint64_t)(round + i), &recv[i]);
			start_send(e.txcq, data + (round + i) % 7 * 2, length(round + i), base + (uint64_t)(round + i), &send[i]);
		}
		for (i = 0; i < WINDOW; i++) {
			wait_op(e.rxcq, &recv[i]);
			wait_op(e.txcq, &send[i]);
			check(in + (size_t)i * BYTES, &recv[i], round + i);
		}
	}
	free(in);
	return NULL;
}

static void shared_by_threads(void)
{
	pthread_t thread[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		E2E_CHECK(!pthread_create(&thread[i], NULL, both_ways, (void *)(uintptr_t)(i + 1)), "a thread");
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- a thread for each direction */

static void *only_send(void *arg)
{
	struct op op[WINDOW];
	int round;

	(void)arg;
	for (round = 0; round < ROUNDS; round++) {
		if (round >= WINDOW)
			wait_op(e.txcq, &op[round % WINDOW]);
		start_send(e.txcq, data + round % 7 * 2, length(round), (uint64_t)round, &op[round % WINDOW]);
	}
	for (round = 0; round < WINDOW; round++)
		wait_op(e.txcq, &op[round]);
	return NULL;
}

static void *only_receive(void *arg)
{
	uint8_t *in = malloc(BYTES);
	struct op op;
	int round;

	(void)arg;
	for (round = 0; round < ROUNDS; round++) {
		start_recv(e.rxcq, in, BYTES, (uint64_t)round, &op);
		wait_op(e.rxcq, &op);
		check(in, &op, round);
	}
	free(in);
	return NULL;
}

static void thread_each_way(void)
{
	pthread_t sender;

	E2E_CHECK(!pthread_create(&sender, NULL, only_send, NULL), "a thread");
	only_receive(NULL);
	pthread_join(sender, NULL);
}

/* ---- without calling in */

static void automatic(void)
{
	atomic_int *sent = e2e_scratch();
	uint8_t *in = malloc(BYTES);
	struct op op;
	int round, ms;

	for (round = 1; round < 6; round++) {
		if (e.rank) {
			start_recv(e.rxcq, in, BYTES, (uint64_t)round, &op);
			atomic_store(sent, -round); /* posted: from here on nothing is called */
			for (ms = 0; ms < 20000 && atomic_load(sent) != round; ms++)
				usleep(1000);
			E2E_CHECK(atomic_load(sent) == round, "the sender needs us to call in");
			wait_op(e.rxcq, &op);
			check(in, &op, round);
		} else {
			while (atomic_load(sent) != -round)
				usleep(100);
			start_send(e.txcq, data + round % 7 * 2, length(round), (uint64_t)round, &op);
			wait_op(e.txcq, &op);
			atomic_store(sent, round);
		}
	}
	free(in);
}

/* ---- asleep */

static void wait_sleeping(struct fid_cq *cq, struct op *op)
{
	struct fi_cq_tagged_entry entry;
	double end = e2e_now() + 60;
	ssize_t n;

	while (!atomic_load(&op->done)) {
		n = fi_cq_sread(cq, &entry, 1, NULL, 500);
		if (n != -FI_EINTR && n != -FI_ECANCELED)
			finish(cq, n, &entry);
		E2E_CHECK(e2e_now() < end, "nothing for 60 s");
	}
	E2E_CHECK(!op->err, "%s", fi_strerror(op->err));
}

static void wait_on_fd(struct fid_cq *cq, struct op *op)
{
	struct fid *fids[] = {&cq->fid};
	struct pollfd fd = {.events = POLLIN};
	double end = e2e_now() + 60;

	E2E_OK(fi_control(&cq->fid, FI_GETWAIT, &fd.fd));
	while (!atomic_load(&op->done)) {
		look(cq);
		if (!atomic_load(&op->done) && !fi_trywait(e.fabric, fids, 1))
			poll(&fd, 1, 1000);
		E2E_CHECK(e2e_now() < end, "nothing for 60 s");
	}
	E2E_CHECK(!op->err, "%s", fi_strerror(op->err));
}

static void (*wait_how)(struct fid_cq *, struct op *);

static void ping_pong_asleep(void)
{
	uint8_t *in = malloc(BYTES);
	double start = e2e_now();
	struct op op;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		if ((round + e.rank) & 1) {
			start_recv(e.rxcq, in, BYTES, (uint64_t)round, &op);
			wait_how(e.rxcq, &op);
			check(in, &op, round);
		} else {
			start_send(e.txcq, data + round % 7 * 2, length(round), (uint64_t)round, &op);
			wait_how(e.txcq, &op);
		}
	}
	/* A wake-up that was missed costs a whole timeout. */
	E2E_CHECK(e2e_now() - start < 0.4 * ROUNDS, "%d messages took %.1f s", ROUNDS, e2e_now() - start);
	free(in);
}

static void *signal_soon(void *arg)
{
	usleep(100000);
	E2E_OK(fi_cq_signal(arg));
	return NULL;
}

static void sleep_in_sread(void)
{
	struct fi_cq_tagged_entry entry;
	double start = e2e_now();
	pthread_t thread;
	ssize_t n;

	n = fi_cq_sread(e.rxcq, &entry, 1, NULL, 200);
	E2E_CHECK(n == -FI_EAGAIN && e2e_now() - start >= 0.15, "sread without anything to read: %zd after %.2f s", n,
		  e2e_now() - start);
	E2E_CHECK(!pthread_create(&thread, NULL, signal_soon, e.rxcq), "a thread");
	start = e2e_now();
	n = fi_cq_sread(e.rxcq, &entry, 1, NULL, 10000);
	E2E_CHECK((n == -FI_EAGAIN || n == -FI_ECANCELED) && e2e_now() - start < 5, "sread after fi_cq_signal: %zd after %.2f s", n,
		  e2e_now() - start);
	pthread_join(thread, NULL);
	wait_how = wait_sleeping;
	ping_pong_asleep();
}

static void sleep_on_fd(void)
{
	wait_how = wait_on_fd;
	ping_pong_asleep();
}

/* ---- */

static const char *only; /* one of the parts, by name */

static void once(const char *name, const struct e2e_opts *opts, void (*what)(void))
{
	if (only && strcmp(only, name))
		return;
	e2e_start(&e, 2, opts);
	e2e_open(&e);
	e2e_barrier(&e);
	what();
	e2e_barrier(&e);
	e2e_close(&e);
	e2e_exit(&e);
}

/* It has neither fds nor automatic progress. */
static bool is_shm(void)
{
	const char *stack = getenv("FI_PROVIDER");

	return stack && strstr(stack, "shm");
}

int main(int argc, char **argv)
{
#define RATIO .env = {{"FI_ZIP_POLICY", "ratio"}, {"FI_ZIP_CHUNK", "65536"}, {"FI_ZIP_STAGING", "262144"}}
	const struct e2e_opts safe = {.threading = FI_THREAD_SAFE, .one_cq = true, RATIO};
	const struct e2e_opts safe_auto = {.threading = FI_THREAD_SAFE, .one_cq = true, .progress = FI_PROGRESS_AUTO, RATIO};
	const struct e2e_opts each_way = {.threading = FI_THREAD_COMPLETION, RATIO};
	const struct e2e_opts progress = {.progress = FI_PROGRESS_AUTO, RATIO};
	const struct e2e_opts asleep = {.wait = FI_WAIT_UNSPEC, RATIO};
	const struct e2e_opts on_fd = {.wait = FI_WAIT_FD, RATIO};
	const struct e2e_opts on_fd_auto = {.wait = FI_WAIT_FD, .progress = FI_PROGRESS_AUTO, RATIO};

	only = argc > 1 ? argv[1] : NULL;
	data = malloc(BYTES + 64);
	zipt_fill(data, BYTES + 64, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	once("shared", &safe, shared_by_threads);
	once("each_way", &each_way, thread_each_way);
	once("sread", &asleep, sleep_in_sread);
	if (!is_shm()) {
		once("automatic", &progress, automatic);
		once("shared_auto", &safe_auto, shared_by_threads);
		once("fd", &on_fd, sleep_on_fd);
		once("fd_auto", &on_fd_auto, sleep_on_fd);
	}
	free(data);
	return 0;
}
