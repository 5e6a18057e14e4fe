/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer without zip among peers with it: it is never sent anything but plain messages, wherever its address came from, and
 * wildcard receives on it see only what the application sent.
 */
#include <stdint.h>
#include <string.h>

#include "e2e.h"
#include "zipt_data.h"

#define RANKS 3
#define PLAIN 2
#define BYTES 700001u

static bool is_from(const uint8_t *got, uint8_t *want, unsigned round, int rank)
{
	zipt_fill(want, BYTES, ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, 0.02, 10 * round + (unsigned)rank);
	return !memcmp(got, want, BYTES);
}

/*
 * All receives are wildcards, the untagged ones also for the source: tcp of libfabric 2.1 mixes up the sources of untagged
 * directed receives, without zip as well. With three ranks the other sender of an untagged message is the one that is left.
 */
static void all_to_all(struct e2e *e, bool tagged, unsigned round)
{
	struct e2e_op sends[RANKS], recvs[RANKS];
	uint8_t *in[RANKS], *out = malloc(BYTES), *want = malloc(BYTES);
	int r;

	zipt_fill(out, BYTES, ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, 0.02, 10 * round + (unsigned)e->rank);
	for (r = 0; r < RANKS; r++) {
		if (r == e->rank)
			continue;
		in[r] = malloc(BYTES);
		if (tagged)
			e2e_trecv(e, -1, in[r], BYTES, (unsigned)r, 0, &recvs[r]);
		else
			e2e_recv(e, -1, in[r], BYTES, &recvs[r]);
	}
	for (r = 0; r < RANKS; r++) {
		if (r == e->rank)
			continue;
		if (tagged)
			e2e_tsend(e, r, out, BYTES, (unsigned)e->rank, &sends[r]);
		else
			e2e_send(e, r, out, BYTES, &sends[r]);
	}
	for (r = 0; r < RANKS; r++) {
		if (r == e->rank)
			continue;
		e2e_wait(e, &sends[r]);
		e2e_wait(e, &recvs[r]);
		E2E_CHECK(recvs[r].entry.len == BYTES, "%zu bytes from rank %d", recvs[r].entry.len, r);
		E2E_CHECK(is_from(in[r], want, round, r) || (!tagged && is_from(in[r], want, round, 3 - r - e->rank)),
			  "round %u: data from rank %d differs", round, r);
		free(in[r]);
	}
	free(out);
	free(want);
	e2e_barrier(e);
}

int main(void)
{
	const struct e2e_opts opts = {
		.caps = FI_MSG | FI_TAGGED, .plain_ranks = 1 << PLAIN, .env = {{"FI_ZIP_POLICY", "ratio"}},
	};
	struct e2e e;
	unsigned i;

	e2e_start(&e, RANKS, &opts);
	e2e_open(&e);
	E2E_CHECK(!e.zip == (e.rank == PLAIN || !e2e_stack_has_zip()), "rank %d runs %s", e.rank,
		  e.zip ? "zip" : "the core alone");
	for (i = 0; i < 4; i++)
		all_to_all(&e, i % 2, i);
	/* Two rounds are untagged; under the hook these go raw to a peer whose core offers FI_MULTI_RECV. */
	if (e.zip)
		E2E_CHECK(e2e_stats(&e).send_transfers == (getenv("FI_HOOK") ? 2 : 4) && e2e_stats(&e).raw_peer == 4,
			  "%llu transfers, %llu to the plain peer",
			  (unsigned long long)e2e_stats(&e).send_transfers, (unsigned long long)e2e_stats(&e).raw_peer);
	e2e_close(&e);
	e2e_exit(&e);
	return 0;
}
