/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching order and bounded memory: transfers keep their place among plain messages, receives posted in the reverse order of
 * the sends complete, and sends that nobody receives grow neither side by more than the staging limit.
 */
#include <stdint.h>
#include <string.h>

#include "e2e.h"
#include "zipt_data.h"

#define POOL (5u << 20)
#define MIX 200
#define REVERSE 24
#define PIECE (1u << 20)
#define UNEXPECTED 64
#define UNEXPECTED_BYTES (16u << 20)
#define STAGING (8u << 20)

static size_t mix_bytes(unsigned i)
{
	static const size_t sizes[] = {100000, 8, 70000, 0, 300000, 59, 65536, 65535, 1200000, 4};

	return sizes[i * 7 % 10] + (i % 3 && sizes[i * 7 % 10] > 100);
}

/* Pieces of one large buffer, each at an offset of its own: making the data takes longer than sending it. */
static const uint8_t *piece(size_t len, unsigned seed)
{
	static uint8_t *pool;

	if (!pool) {
		pool = malloc(POOL);
		zipt_fill(pool, POOL, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	}
	return pool + seed * 1024 % (POOL - len);
}

static void *data(size_t len, unsigned seed)
{
	void *buf = malloc(len + 1);

	memcpy(buf, piece(len, seed), len);
	return buf;
}

static void check(const void *got, size_t len, unsigned seed, const char *what)
{
	E2E_CHECK(!memcmp(got, piece(len, seed), len), "%s %u of %zu bytes differs", what, seed, len);
}

/* Large and small messages with one tag: each receive gets the next one, whether it was posted before or after. */
static void mixed_order(struct e2e *e, bool tagged, bool wildcard)
{
	static struct e2e_op ops[MIX];
	static void *bufs[MIX];
	unsigned i;

	if (e->rank == 0) {
		for (i = 0; i < MIX; i++) {
			bufs[i] = data(mix_bytes(i), i);
			if (tagged)
				e2e_tsend(e, 1, bufs[i], mix_bytes(i), 3, &ops[i]);
			else
				e2e_send(e, 1, bufs[i], mix_bytes(i), &ops[i]);
		}
	} else {
		for (i = 0; i < MIX; i++) {
			bufs[i] = malloc(2000000);
			if (i == MIX / 2) /* the first half unexpected or just in time, the second posted late */
				e2e_wait(e, &ops[MIX / 4]);
			if (tagged)
				e2e_trecv(e, wildcard ? -1 : 0, bufs[i], 2000000, wildcard ? 0 : 3, wildcard ? ~0ULL >> 2 : 0, &ops[i]);
			else
				e2e_recv(e, wildcard ? -1 : 0, bufs[i], 2000000, &ops[i]);
		}
	}
	for (i = 0; i < MIX; i++) {
		e2e_wait(e, &ops[i]);
		if (e->rank == 1) {
			E2E_CHECK(ops[i].entry.len == mix_bytes(i), "receive %u got %zu bytes, not %zu", i, ops[i].entry.len,
				  mix_bytes(i));
			E2E_CHECK(!tagged || ops[i].entry.tag == 3, "receive %u got tag %llx", i,
				  (unsigned long long)ops[i].entry.tag);
			check(bufs[i], mix_bytes(i), i, "message");
		}
		free(bufs[i]);
	}
	e2e_barrier(e);
}

static void reverse_order(struct e2e *e)
{
	static struct e2e_op ops[REVERSE];
	static void *bufs[REVERSE];
	size_t len = 3000000;
	unsigned i;

	for (i = 0; i < REVERSE; i++) {
		unsigned k = REVERSE - 1 - i;

		if (e->rank == 0) {
			bufs[i] = data(len, i);
			e2e_tsend(e, 1, bufs[i], len, i, &ops[i]);
		} else {
			bufs[k] = malloc(len);
			e2e_trecv(e, 0, bufs[k], len, k, 0, &ops[k]);
		}
	}
	for (i = 0; i < REVERSE; i++) {
		e2e_wait(e, &ops[i]);
		if (e->rank == 1)
			check(bufs[i], len, i, "reversed message");
		free(bufs[i]);
	}
	e2e_barrier(e);
}

/* Both directions at once, everything sent before anything is received. */
static void both_ways(struct e2e *e)
{
	static struct e2e_op sends[16], recvs[16];
	static void *out[16], *in[16];
	size_t len = 4000000;
	int peer = 1 - e->rank;
	unsigned i;

	for (i = 0; i < 16; i++) {
		out[i] = data(len, 100 * (unsigned)e->rank + i);
		e2e_tsend(e, peer, out[i], len, i, &sends[i]);
	}
	for (i = 0; i < 16; i++) {
		in[i] = malloc(len);
		e2e_trecv(e, peer, in[i], len, i, 0, &recvs[i]);
	}
	for (i = 0; i < 16; i++) {
		e2e_wait(e, &recvs[i]);
		e2e_wait(e, &sends[i]);
		check(in[i], len, 100 * (unsigned)peer + i, "message");
		free(in[i]);
		free(out[i]);
	}
	e2e_barrier(e);
}

static long resident_kib(void)
{
	long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * 4;
}

static void unexpected(struct e2e *e)
{
	static struct e2e_op ops[UNEXPECTED];
	uint8_t *buf = malloc(UNEXPECTED_BYTES);
	double start;
	long before, after;
	unsigned i, k;

	for (i = 0; i < UNEXPECTED_BYTES / PIECE; i++)
		memcpy(buf + i * PIECE, piece(PIECE, i), PIECE);
	e2e_barrier(e);
	before = resident_kib();
	if (e->rank == 0)
		for (i = 0; i < UNEXPECTED; i++)
			e2e_tsend(e, 1, buf, UNEXPECTED_BYTES, i, &ops[i]);
	for (start = e2e_now(); e2e_now() - start < 1.5;)
		e2e_progress(e);
	after = resident_kib();
	E2E_CHECK(after - before <= (long)(STAGING >> 10), "64 sends nobody receives grew this side by %ld KiB", after - before);
	e2e_barrier(e);
	if (e->rank == 1) {
		for (i = 0; i < UNEXPECTED; i += 9) {
			memset(buf, 0, UNEXPECTED_BYTES);
			e2e_trecv(e, 0, buf, UNEXPECTED_BYTES, UNEXPECTED - 1 - i, 0, &ops[i]);
			e2e_wait(e, &ops[i]);
			for (k = 0; k < UNEXPECTED_BYTES / PIECE; k++)
				check(buf + k * PIECE, PIECE, k, "late message");
		}
	} else {
		for (i = 0; i < UNEXPECTED; i += 9)
			e2e_wait(e, &ops[UNEXPECTED - 1 - i]);
	}
	e2e_barrier(e);
	free(buf);
}

int main(void)
{
	static const char staging[] = "8388608";
	const struct e2e_opts opts = {.env = {{"FI_ZIP_POLICY", "ratio"}, {"FI_ZIP_STAGING", staging}}};
	struct e2e e;

	e2e_start(&e, 2, &opts);
	e2e_open(&e);
	mixed_order(&e, true, false);
	mixed_order(&e, true, true);
	mixed_order(&e, false, false);
	mixed_order(&e, false, true);
	reverse_order(&e);
	both_ways(&e);
	if (e.zip)
		unexpected(&e);
	e2e_close(&e);
	e2e_exit(&e);
	return 0;
}
