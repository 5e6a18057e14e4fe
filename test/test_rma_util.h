/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses to remote memory over the fake network, for tests: three nodes, each with a region of OPS slots of SLOT bytes.
 */
#ifndef TEST_RMA_UTIL_H
#define TEST_RMA_UTIL_H

#include "fake_clock.h"
#include "fake_net.h"

#define OPS 14
#define SLOT 70000 /* of a region, for each operation: most of it is used, with something before and after */

extern const struct zipc_engine_attr usual, tight; /* tight: two slots for each direction */
/* Every node's memory: region 0 may be written and read, 1 only read, 2 only written. */
extern uint8_t *memory[FAKE_NODES];

/* One write or read of node `from` at node `to`, whose memory is cut into segments and ours into pieces at random. */
struct access {
	int from, to;
	bool write;
	unsigned flags;
	size_t len, niov, nsegs;
	uint8_t *local, *remote, *want; /* remote: SLOT bytes of a region; the access is at `at` of them */
	size_t at;
	struct iovec iov[3];
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS];
	struct fake_msg msg;
	int begun;
};

/* Accesses among all, started at random times. */
struct traffic {
	struct access a[OPS];
	unsigned begun;
};

int rma_setup(void **state);
int rma_teardown(void **state);
/* Gives a node that was started its regions. */
void add_regions(struct fake_world *w, int n);
/* All nodes, which have met. */
void open_met(struct fake_world *w, uint64_t seed, const struct zipc_engine_attr *attr);
/* Not more than `wait` seconds may pass before everything has an end. */
void run_for(struct fake_world *w, int wait);
/* Nothing is under way, nothing open. */
void check_idle(struct fake_world *w);

void access_init(struct access *a, struct fake_world *w, int from, int to, bool write, size_t len, int slot);
void access_free(struct access *a);
/* What zipc_write_begin and zipc_read_begin say; the second tries until it is begun. */
int access_begin(struct fake_world *w, struct access *a);
void access_start(struct fake_world *w, struct access *a);
/* Nothing but what was to be written is written; the second: and that is, without an error. */
void access_check_bounds(const struct access *a);
void access_check(const struct access *a);

void traffic_init(struct traffic *tr, struct fake_world *w);
void traffic_free(struct traffic *tr);
/* Starts one more, or takes a step. A peer that was lost is not written to. Returns false when all were started. */
bool traffic_step(struct traffic *tr, struct fake_world *w);
/* All of it, without any fault. */
void traffic_run(struct fake_world *w);

#endif
