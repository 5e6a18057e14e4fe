/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer is killed: in the middle of transfers both ways, before a receive has matched, before its own receive is posted. What
 * others have under way with it ends with an error within seconds, and they go on with each other. The killed process stays
 * unwaited-for meanwhile, as it does where a launcher collects its children at the end.
 *
 * Over shm they go on with small messages only: what a dead process has not answered holds up the answers to all later large
 * ones in that core, with zip and without, and keeps the memory it was sent from.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e.h"
#include "zipt_data.h"

#define BYTES (24u << 20)
#define SMALL (1u << 20)
#define VICTIM 1
#define SECONDS 15 /* a few, on a loaded machine */

enum when { MIDDLE, UNMATCHED, UNSENT };

static uint8_t *out, *in, *small_out, *small_in;
static size_t small_bytes = SMALL;

/* The survivors only. */
static void barrier_without_victim(struct e2e *e)
{
	e->nranks--;
	e2e_barrier(e);
	e->nranks++;
}

static void exchange(struct e2e *e, uint64_t tag)
{
	int other = 2 - e->rank;
	struct e2e_op send, recv;

	memset(small_in, 0, SMALL);
	e2e_trecv(e, other, small_in, small_bytes, tag, 0, &recv);
	e2e_tsend(e, other, small_out, small_bytes, tag, &send);
	e2e_wait(e, &recv);
	e2e_wait(e, &send);
	E2E_CHECK(!memcmp(small_in, small_out, small_bytes), "data of an honest peer");
}

/* Starts what it will not end, and ends itself. */
static void be_killed(struct e2e *e, enum when when)
{
	struct e2e_op send[2], recv[2];
	double end = e2e_now() + 20;
	int i;

	for (i = 0; i < 2 && when != UNSENT; i++) {
		e2e_tsend(e, 2 * i, out, BYTES, 1, &send[i]);
		if (when == MIDDLE)
			e2e_trecv(e, 2 * i, in + (size_t)i * BYTES, BYTES, 2, 0, &recv[i]);
	}
	while (when == MIDDLE && (e2e_stats(e).recv_wire_bytes < SMALL || e2e_stats(e).send_wire_bytes < SMALL)) {
		E2E_CHECK(e2e_now() < end, "no transfer under way");
		e2e_progress(e);
	}
	for (i = 0; i < 500 && when != MIDDLE; i++) {
		e2e_progress(e);
		usleep(200);
	}
	kill(getpid(), SIGKILL);
}

static void check_fails(struct e2e *e, struct e2e_op *op, const char *what)
{
	E2E_CHECK(e2e_wait_ms(e, op, SECONDS * 1000), "%s is still pending after %d s", what, SECONDS);
	/* What had arrived completely is no failure. */
	E2E_CHECK(op->err == FI_EIO || op->err == FI_ECONNABORTED || op->err == 0, "%s: %s", what, fi_strerror(op->err));
}

/* What was never matched is not a transfer yet: the core may wait for it as long as it likes. */
static void check_fails_or_cancel(struct e2e *e, struct e2e_op *op)
{
	if (!e2e_wait_ms(e, op, 3000)) {
		fi_cancel(&e->ep->fid, op);
		E2E_CHECK(e2e_wait_ms(e, op, SECONDS * 1000), "a receive was not canceled");
	}
	E2E_CHECK(op->err, "a message of a dead peer arrived, %zu bytes", op->entry.len);
}

/* The core gives back what was under way with the dead. */
static void check_staging(struct e2e *e)
{
	double end = e2e_now() + SECONDS;

	while (e2e_stats(e).staging_bytes && small_bytes == SMALL && e2e_now() < end)
		e2e_progress(e);
	E2E_CHECK(e2e_stats(e).staging_bytes == 0 || small_bytes < SMALL, "%llu bytes of staging lost",
		  (unsigned long long)e2e_stats(e).staging_bytes);
}

static void survive(struct e2e *e, enum when when)
{
	struct e2e_op send, recv;

	if (when == MIDDLE)
		e2e_trecv(e, VICTIM, in, BYTES, 1, 0, &recv);
	e2e_tsend(e, VICTIM, out, BYTES, 2, &send);
	exchange(e, 10);
	if (when == MIDDLE)
		check_fails(e, &recv, "the receive");
	check_fails(e, &send, "the send");
	E2E_CHECK(send.err || when == MIDDLE, "a send that nobody received succeeded");
	if (when == UNMATCHED) {
		e2e_trecv(e, VICTIM, in, BYTES, 1, 0, &recv);
		check_fails_or_cancel(e, &recv);
	}
	exchange(e, 11);
	E2E_CHECK(e2e_stats(e).peers_ready == 1, "the dead peer still counts");
	check_staging(e);
}

/* A core that a peer died on may not let go of its domain (tcp;ofi_rxm 1.17 does not, by itself either). */
static void close_what_closes(struct e2e *e)
{
	double start = e2e_now();

	E2E_OK(fi_close(&e->ep->fid));
	E2E_CHECK(e2e_now() - start < 5, "closing the endpoint took %.1f s", e2e_now() - start);
	E2E_OK(fi_close(&e->txcq->fid));
	E2E_OK(fi_close(&e->rxcq->fid));
	E2E_OK(fi_close(&e->av->fid));
	if (!fi_close(&e->domain->fid))
		E2E_OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
	e->ep = NULL;
}

static void once(enum when when)
{
	const struct e2e_opts opts = {.env = {{"FI_ZIP_POLICY", "ratio"}}};
	static struct e2e all[3]; /* so that what stays open stays in sight */
	struct e2e *e = &all[when];

	e2e_start(e, 3, &opts);
	e2e_open(e);
	if (!e->zip) {
		printf("nothing to test without zip\n");
		fflush(stdout);
		_exit(E2E_SKIP);
	}
	if (e->rank == VICTIM)
		be_killed(e, when);
	survive(e, when);
	barrier_without_victim(e);
	close_what_closes(e);
	if (!e->rank)
		waitpid(e2e_pid(VICTIM), NULL, 0);
	e2e_exit(e);
}

int main(void)
{
	const char *stack = getenv("FI_PROVIDER");

	if (stack && strstr(stack, "shm"))
		small_bytes = 4000;
	out = malloc(BYTES);
	in = malloc(2 * (size_t)BYTES);
	small_out = malloc(SMALL);
	small_in = malloc(SMALL);
	zipt_fill(out, BYTES, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	zipt_fill(small_out, SMALL, ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, 0.02, 2);
	once(MIDDLE);
	once(UNMATCHED);
	once(UNSENT);
	free(out);
	free(in);
	free(small_out);
	free(small_in);
	return 0;
}
