/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zip_perf: bandwidth of an API as it is and with zip below it, measured in turns between a client and a server.
 *
 *   zip_perf.c          main: both sides, from the meeting to the report
 *   zip_perf_opts.c     options of the command line
 *   zip_perf_oob.c      the TCP connection beside the one that is measured
 *   zip_perf_memory.c   what is sent, where it lands, and whether it is right
 *   zip_perf_run.c      one round of messages, the same on both sides
 *   zip_perf_report.c   table and JSON; zip_perf_plot.c: the plot
 *   zip_perf_ofi.c      the door to libfabric; zip_perf_ucp.c: to UCP, where that was built
 *
 * A door is an API that messages are posted to: struct perf_door_ops. Everything else knows neither libfabric nor UCP.
 * Functions return 0 or -1 after perf_fail() unless said otherwise. Sizes are bytes, times nanoseconds.
 */
#ifndef ZIP_PERF_H
#define ZIP_PERF_H

#include <stddef.h>
#include <stdint.h>

enum perf_op { PERF_TAGGED, PERF_MSG, PERF_WRITE, PERF_WRITEDATA, PERF_READ, PERF_OPS };
enum perf_stack { PERF_RAW, PERF_ZIP, PERF_STACKS };
enum perf_role { PERF_CLIENT, PERF_SERVER };
enum perf_memory_kind { PERF_HOST, PERF_CUDA, PERF_HIP, PERF_MEMORY_KINDS };

#define PERF_SIZES_MAX 64
#define PERF_ROUNDS_MAX 1000
#define PERF_WINDOW_MAX 1024
#define PERF_VERSION 1

/* What both sides must agree on: the client tells the server. */
struct perf_plan {
	uint64_t magic;
	uint32_t version, bytes;     /* of this struct: two builds that differ do not understand each other */
	uint32_t op, memory, window, bidirectional, check, breakdown, nsizes, timeout_s;
	uint64_t sizes[PERF_SIZES_MAX];
	double sigma;
	uint64_t seed;
	uint64_t pool_bytes;         /* of a file, sent after this; 0: the server makes the same data itself */
	char api[8], provider[64], dtype[16], dist[32];
};

struct perf_options {
	struct perf_plan plan;
	const char *host;            /* the server's; NULL: be the server */
	const char *bind;            /* address to listen at, or to come from; NULL: any */
	const char *port;
	int local;                   /* both sides here */
	const char *file;
	const char *link;            /* what to call the link in the report, or NULL */
	const char *plot;            /* file to write, or NULL */
	int json, timed;             /* timed: `iters` follows from `seconds` */
	uint64_t iters;              /* messages of a round */
	double seconds;              /* of a round */
	uint32_t rounds;             /* of each stack */
};

/* ---- failures: the first one of the process is kept, to be told to the user and the other side */

void perf_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* NULL while nothing has failed. */
const char *perf_failure(void);

/* ---- options */

extern const char *const perf_op_names[PERF_OPS];
extern const char *const perf_memory_names[PERF_MEMORY_KINDS];

/* Fills in defaults and what the command line says; a wrong one ends the program with status 2. */
void perf_options_parse(struct perf_options *options, int argc, char **argv);
/* "64K,1M" or "64K:64M" (doubling) or "64K:64M:4" (that factor), mixed. Returns how many, or -1 and sets *why. */
int perf_sizes_parse(const char *text, uint64_t sizes[PERF_SIZES_MAX], const char **why);
/* Returns why a plan that came from the other side cannot be followed, or NULL. */
const char *perf_plan_fault(const struct perf_plan *plan);

/* ---- the other connection */

enum perf_verb {
	PERF_PLAN,     /* client: struct perf_plan, then the bytes of a file */
	PERF_CARD,     /* struct perf_card of each stack, in order */
	PERF_MET,      /* the peer's cards are in use */
	PERF_ROUND,    /* client: struct perf_order */
	PERF_READY,    /* server: receives are posted */
	PERF_GO,       /* client: the clock runs */
	PERF_DONE,     /* struct perf_side_result */
	PERF_QUIT,     /* client: no more rounds */
	PERF_FAILED,   /* text says why */
};

struct perf_order {
	uint32_t stack, zero;
	uint64_t size, iters;
};

/* What this process's zip says of itself since its endpoint was opened; all 0 over a stack without zip. */
struct perf_stats {
	uint64_t transfers, bytes, wire_bytes;       /* sent as transfers: message bytes, and bytes for them */
	uint64_t raw[4];                             /* large enough messages that went raw: peer, data, off, slow */
	uint64_t sample_ns, encode_ns, wire_ns, decode_ns;
	uint64_t peers_ready;
};

struct perf_side_result {
	uint64_t wrong;              /* messages with a wrong bit */
	uint64_t told;               /* the stack has told its counters */
	struct perf_stats stats;
};

/* Returns a connected socket. A server waits for its client without end. */
int perf_oob_connect(const struct perf_options *options);
int perf_oob_accept(const struct perf_options *options);
/* The numeric address of this end, for the endpoint to be bound to; "" where there is none. */
void perf_oob_address(int fd, char *text, size_t room);
int perf_oob_send(int fd, enum perf_verb verb, const void *payload, size_t len);
/* Waits for a packet of this verb and exactly this length, at most timeout_s. */
int perf_oob_expect(int fd, enum perf_verb verb, void *payload, size_t len, unsigned timeout_s);
/* The next packet, whatever it is: its verb, or -1. */
int perf_oob_next(int fd, void *payload, size_t room, unsigned timeout_s);
/* 1 when something can be read, which may be the other side's failure or end; else 0. Does not wait. */
int perf_oob_pending(int fd);
/* Has the other side failed, or gone? Packets stay unread. Does not wait. */
int perf_oob_check(int fd);
/* Bytes that are no packet. */
int perf_oob_put(int fd, const void *bytes, size_t len);
int perf_oob_get(int fd, void *bytes, size_t len, unsigned timeout_s);

/* ---- memory */

/*
 * The data of a message is a piece of the pool, the pool being endless by repetition; slot i takes the piece at i *
 * PERF_SLOT_STEP, so that a message that lands in another's place is noticed.
 */
#define PERF_SLOT_STEP 8200u

struct perf_memory {
	enum perf_memory_kind kind;
	uint8_t *pool;               /* host memory */
	size_t pool_bytes;
	uint8_t *tx, *rx;            /* of that kind; NULL where this side needs none */
	size_t tx_bytes, rx_bytes;
	uint32_t window, depth;      /* slots to send from, and to receive in (a multiple) */
	const char *dtype;           /* of the pool */
	size_t tensors;              /* taken from a file */
};

/* Whether messages arrive at this side, and whether it starts operations. */
int perf_receives(const struct perf_plan *plan, enum perf_role role);
int perf_initiates(const struct perf_plan *plan, enum perf_role role);

/* The pool: made, or read from `file` (may be NULL), which changes plan->dtype and plan->pool_bytes. */
int perf_pool_make(struct perf_memory *memory, struct perf_plan *plan, const char *file);
int perf_memory_open(struct perf_memory *memory, const struct perf_plan *plan, enum perf_role role);
void perf_memory_close(struct perf_memory *memory);
/* The slots for sending get their data. To be called when the size changes. */
void perf_memory_fill(struct perf_memory *memory, size_t size);
/* The slots for receiving get what no message holds. */
void perf_memory_poison(struct perf_memory *memory, size_t size, uint64_t count);
/* How many of the last min(depth, count) messages did not arrive bit for bit. */
uint64_t perf_memory_wrong(const struct perf_memory *memory, size_t size, uint64_t count);

/* ---- doors */

enum perf_kind { PERF_SEND, PERF_RECV, PERF_PUT, PERF_PUT_DATA, PERF_GET, PERF_END_SEND, PERF_END_RECV };

/* One operation. It stays where it is while it is busy. */
struct perf_work {
	uint64_t context[8];         /* the door's */
	enum perf_kind kind;
	int busy;                    /* set when posted, cleared when complete */
};

/* What was completed since the round began. */
struct perf_events {
	uint64_t sent, received;     /* operations of this side */
	uint64_t arrived;            /* PUT_DATA of the peer */
};

struct perf_post {
	enum perf_kind kind;
	uint64_t number;             /* of the message in its round: its tag where there are tags */
	size_t offset, len;          /* in tx (SEND, PUT, PUT_DATA) or rx (RECV, GET) */
	size_t remote_offset;        /* in the peer's rx (PUT, PUT_DATA) or tx (GET) */
	struct perf_work *work;
};

/* What the peer has to know of a stack. */
struct perf_card {
	uint32_t address_len, rx_key_len, tx_key_len, zero;
	uint8_t address[4096];
	uint64_t rx_base, tx_base;   /* what remote offsets count from */
	uint8_t rx_key[512], tx_key[512];
	char name[128];              /* of the stack, for the report */
};

struct perf_door_ops {
	const char *name;
	/* `address`: of this end, numeric, or "". */
	int (*open)(const struct perf_plan *plan, enum perf_stack stack, const char *address, const struct perf_memory *memory,
		    void **door);
	int (*card)(void *door, struct perf_card *card);
	int (*meet)(void *door, const struct perf_card *peer);
	/* 0: posted; 1: not now, poll and try again; -1. What is complete at once is reported by the next poll. */
	int (*post)(void *door, const struct perf_post *post);
	/* Drives the stack. Returns how many completions there were, or -1. */
	int (*poll)(void *door, struct perf_events *events);
	/* Returns -1, all 0 and without perf_fail(), when zip does not tell through this door. */
	int (*stats)(void *door, struct perf_stats *stats);
	void (*close)(void *door);
};

extern const struct perf_door_ops perf_ofi_ops;
extern const struct perf_door_ops perf_ucp_ops;

/* For doors: this operation is complete. */
void perf_work_done(struct perf_work *work, struct perf_events *events);

/* ---- rounds */

struct perf_run {
	const struct perf_plan *plan;
	enum perf_role role;
	int oob;
	const struct perf_door_ops *ops;
	void *doors[PERF_STACKS];
	struct perf_memory *memory;
	struct perf_work tx_work[PERF_WINDOW_MAX], rx_work[2 * PERF_WINDOW_MAX], end_tx, end_rx;
	uint64_t filled;             /* size that the slots for sending were filled for */
};

/* One round. `ns`: from the first post to the last sign of the other side (client). */
int perf_round(struct perf_run *run, const struct perf_order *order, uint64_t *ns, struct perf_side_result *result);
/* Waits for a packet while the stack is driven, as perf_oob_expect. Completions meanwhile are counted in *events. */
int perf_run_expect(struct perf_run *run, enum perf_stack stack, struct perf_events *events, enum perf_verb verb, void *payload,
		    size_t len);

/* ---- report */

struct perf_row {
	uint64_t size, iters[PERF_STACKS];
	double seconds[PERF_STACKS][PERF_ROUNDS_MAX];
	uint64_t wrong, told;
	struct perf_stats stats;     /* of both sides and all rounds of zip */
	struct perf_stats sides[2];  /* the same, client and server */
	/* from these */
	double bytes;                /* of a round, both directions */
	double GBps[PERF_STACKS], speedup, ratio, zipped;
};

struct perf_report {
	const struct perf_options *options;
	char names[PERF_STACKS][128];
	const char *file;
	size_t tensors;
	uint32_t nrows;
	struct perf_row rows[PERF_SIZES_MAX];
};

/* Computes from what was measured what is reported. */
void perf_row_settle(const struct perf_options *options, struct perf_row *row);
/* The size as people write it. */
const char *perf_size_text(uint64_t size, char text[32]);
void perf_report_head(const struct perf_report *report);
void perf_report_row(const struct perf_report *report, const struct perf_row *row);
void perf_report_end(const struct perf_report *report);
int perf_report_json(const struct perf_report *report);
/* Why --json cannot be had, or NULL. */
const char *perf_json_fault(void);
int perf_plot(const struct perf_report *report, const char *path);
/* Why no plot can be made, or NULL. */
const char *perf_plot_fault(void);

#endif
