/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network for engines, in one thread and without time: some nodes, each with an engine and an application's endpoint of
 * its own whose messages overtake the engine's. Which event comes next is drawn from a seed, so that a run can be repeated.
 * It breaks in every way a real one does: calls that say AGAIN, that fail, operations that fail later, nodes that die.
 */
#ifndef FAKE_NET_H
#define FAKE_NET_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_accel.h"
#include "zipc_engine.h"
#include "zipc_list.h"

#define FAKE_NODES 3
#define FAKE_ADDR 8 /* bytes of an address */
#define FAKE_REGIONS 4

#define FAKE_CHECK(condition)                                                                  \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
			abort();                                                               \
		}                                                                              \
	} while (0)

enum fake_kind {
	FAKE_CONTROL, /* companion: control message */
	FAKE_BULK,    /* companion: chunk */
	FAKE_MAIN,    /* application's endpoint: placeholder or plain message */
	FAKE_DONE,    /* an operation that has ended already, and is still to be reported */
	FAKE_COMMIT,  /* a sender that comes to commit its transfer */
};

struct fake_packet {
	struct zipc_list link;
	enum fake_kind kind;
	int from, to;
	unsigned from_life, to_life;
	struct zipc_op *op; /* the sender's (DONE: whose end it is) */
	int status;
	uint64_t tag;
	size_t len;
	uint8_t *data;
	struct zipc_send *send; /* what is committed: this, ... */
	struct zipc_recv *read; /* ... or this */
};

/* One message of the application, at either end. */
struct fake_msg {
	int done, status;
	size_t kept, nbytes;
	/* receiving */
	struct zipc_list link;
	int from;
	uint64_t tag;
	struct iovec iov[2];
	size_t niov;
};

struct fake_bulk_recv {
	struct zipc_list link;
	int from;
	unsigned from_life;
	uint64_t tag;
	void *buf;
	size_t len;
	struct zipc_op *op;
};

/* Registered memory: addresses are virtual, the key is the index + 1. */
struct fake_region {
	uint8_t *base; /* NULL: no such key */
	size_t len;
	bool write, read;
	/* How often it was opened as the first segment of an access, and what came of the last one. */
	unsigned opened, done;
	int status;
	unsigned flags;
	uint64_t data;
	size_t nbytes;
};

struct fake_node {
	struct fake_world *world;
	struct fake_region region[FAKE_REGIONS];
	struct zipc_engine *engine; /* NULL: dead */
	struct zipc_engine_attr attr;
	void *dev;
	struct fake_accel fake;      /* attached where fake_attach was called */
	struct zipc_accel *accel;    /* takes the buffers with device addresses */
	void *staging;               /* its */
	unsigned life; /* how often it was started */
	struct zipc_list posted;     /* struct fake_msg */
	struct zipc_list unexpected; /* packets of kind MAIN */
	struct zipc_list bulk;       /* struct fake_bulk_recv */
	unsigned stray;              /* chunks that found no receive */
	bool puppet;                 /* no engine: the test speaks for it, and what it is sent lies in `heard` */
	bool stuck;                  /* a puppet that takes chunks without end: they stay with the sender's network */
	struct zipc_list heard;      /* packets */
	unsigned logs, calls;        /* warnings; calls of the network */
	char last_log[256];
	uint8_t main_addr[FAKE_ADDR], comp_addr[FAKE_ADDR];
};

struct fake_world {
	struct fake_node node[FAKE_NODES];
	struct zipc_list packets;
	uint64_t seed;
	unsigned again;      /* of 256 calls so many say AGAIN */
	bool ordered;        /* control messages and chunks of a pair stay in order, as on one connection */
	bool loose;          /* chunks of a pair overtake each other, as over several connections */
	bool late_commit;    /* a transfer is committed some time after its placeholder has left */
	bool no_rma;         /* for nodes that are started from now on */
	bool faulty;         /* for the caller: something was broken */
	bool dead_again;     /* a dead node is AGAIN for ever, instead of an error */
	int fail_node;       /* this node's ... */
	unsigned fail_at;    /* ... call of this number fails (1: the first), 0: none does */
	bool fail_late;      /* it fails after it was accepted */
};

/* Nodes 0 to n-1 run; attributes that are 0 get small defaults. */
void fake_open(struct fake_world *world, uint64_t seed, int n, const struct zipc_engine_attr *attr);
/* Kills what runs and frees everything. */
void fake_close(struct fake_world *world);
void fake_start(struct fake_world *world, int node);
void fake_kill(struct fake_world *world, int node);
/* Gives a running node a device with `slots` slots of staging each way. */
void fake_attach(struct fake_world *world, int node, const struct fake_accel *fake, unsigned slots, bool visible, bool direct);
/* Gives the addresses of a node that is not running to a puppet. */
void fake_puppet(struct fake_world *world, int node);
/* `a` learns the address of `b` and says hello. */
void fake_meet(struct fake_world *world, int a, int b);
struct zipc_peer *fake_peer(struct fake_world *world, int node, int peer);

/* Sends, as a transfer if the engine agrees. Returns false when the engine says AGAIN. */
bool fake_send(struct fake_world *world, int from, int to, const void *buf, size_t len, uint64_t tag, unsigned flags,
	       struct fake_msg *msg);
/* In several segments, of one kind of memory. Only as a transfer. */
bool fake_sendv(struct fake_world *world, int from, int to, const struct iovec *iov, size_t niov, uint64_t tag, unsigned flags,
		struct fake_msg *msg);
/* from: -1 is anybody. */
void fake_recv(struct fake_world *world, int node, int from, void *buf, size_t len, uint64_t tag, struct fake_msg *msg);
void fake_recvv(struct fake_world *world, int node, int from, const struct iovec *iov, size_t niov, uint64_t tag,
		struct fake_msg *msg);
/*
 * Writes to or reads from the regions of another node, as a transfer: 0, or what zipc_write_begin and zipc_read_begin return.
 * What goes raw is not done at all.
 */
int fake_write(struct fake_world *world, int from, int to, const struct iovec *iov, size_t niov, const struct zipc_rma_seg *segs,
	       size_t nsegs, uint64_t data, unsigned flags, struct fake_msg *msg);
int fake_read(struct fake_world *world, int from, int to, const struct iovec *iov, size_t niov, const struct zipc_rma_seg *segs,
	      size_t nsegs, struct fake_msg *msg);
/* Takes the oldest unexpected message with this tag away from the application: NULL if there is none. */
struct fake_packet *fake_take(struct fake_world *world, int node, uint64_t tag);
void fake_packet_free(struct fake_packet *packet);
/* A message from nowhere. */
void fake_inject(struct fake_world *world, enum fake_kind kind, int from, int to, uint64_t tag, const void *data, size_t len);
/* Takes the oldest control message of this type that a puppet was sent; NULL if there is none. */
struct fake_packet *fake_heard(struct fake_world *world, int node, unsigned type);
/* The oldest chunk that `node` waits for, or NULL. */
struct fake_bulk_recv *fake_bulk_waiting(struct fake_world *world, int node);

/* One event, or one round of progress. Returns false when there was nothing to do. */
bool fake_step(struct fake_world *world);
/* Until nothing happens any more. */
void fake_run(struct fake_world *world);
uint32_t fake_random(struct fake_world *world, uint32_t below);

#endif
