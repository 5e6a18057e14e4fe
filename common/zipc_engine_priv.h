/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the engine: shared by zipc_engine.c, zipc_peer.c, zipc_send.c, zipc_recv.c, zipc_match.c, zipc_rma.c and zipc_stage.c only. */
#ifndef ZIPC_ENGINE_PRIV_H
#define ZIPC_ENGINE_PRIV_H

#include "zipc_engine.h"
#include "zipc_list.h"

#define ZIPC_MIN_CHUNK 8192u
#define ZIPC_SENDS_PER_PEER 4096u   /* outstanding transfers to one peer */
#define ZIPC_READS_PER_PEER 1024u   /* outstanding reads of one peer */
#define ZIPC_RECVS_PER_PEER 16384u  /* a peer with more than this breaks the protocol (it frees its record first) */
#define ZIPC_PEERS_MAX (1u << 20)
#define ZIPC_RECV_WINDOW 8u         /* chunks of one transfer that are granted and have not arrived */
#define ZIPC_PING_MS 1000           /* silence after which a peer with transfers under way is pinged */
#define ZIPC_DEAD_MS 10000          /* a peer on another machine whose ping is refused for so long is gone */
#define ZIPC_RETIRED 64u            /* ids of restarted peers that are remembered */
#define ZIPC_LOG_LINES 64u          /* of one kind a second: what peers send must not fill a disk */
#define ZIPC_LOG_KINDS 64u
#define ZIPC_RATIO_WORTH 0.95f      /* a predicted ratio above this is not worth a transfer */

enum zipc_op_kind { ZIPC_OP_CONTROL, ZIPC_OP_BULK_SEND, ZIPC_OP_BULK_RECV };

/* A control message that is queued or in flight. Lives inside its owner, which is not freed while it is busy. */
struct zipc_ctl {
	struct zipc_op op;     /* first: an op of kind CONTROL is its ctl */
	struct zipc_list link;
	struct zipc_peer *peer;
	uint64_t epoch;        /* the peer's when this was queued */
	const void *msg;
	uint32_t len;
	uint8_t busy;
	void (*done)(struct zipc_engine *engine, struct zipc_ctl *ctl, int status);
};

/* A staging slot: bounded memory that one chunk's frame passes through. */
struct zipc_slot {
	struct zipc_op op;     /* first */
	struct zipc_list link; /* free list, or the engine's decode queue */
	struct zipc_pool *pool;
	void *buf;
	void *xfer;            /* zipc_send or zipc_recv; NULL once it is gone (then the slot only waits for the network) */
	uint32_t *held;        /* the peer's count of slots, this one included; NULL: free, or lost */
	uint32_t chunk;
	uint8_t coding;        /* a device works on it */
	uint8_t guess;         /* receiving: kinds of frame that it was taken for and is not, */
	uint8_t guess_of;      /* while this was recv->frame_kind */
	size_t bytes;
};

/*
 * A core may keep for ever what was under way with a dead peer. Such slots are written off and others put in their place, up
 * to as many as there were at first. Their memory is mapped when the first is needed.
 */
struct zipc_pool {
	struct zipc_list free;
	struct zipc_slot *slots; /* twice `count` */
	char *memory, *spare;
	size_t count;            /* most that may be in use */
	size_t total;            /* slots that have memory, `count` or more */
	size_t lost;             /* of these */
	size_t slot_bytes, in_use;
	int spare_failed;        /* no memory for others is to be had */
	int borrowed;            /* `memory` is somebody else's */
};

/* How one message travels. The first two are measured against each other. */
enum zipc_mode {
	ZIPC_MODE_ZIP,
	ZIPC_MODE_PROBE, /* a transfer of raw frames */
	ZIPC_MODE_RAW,   /* no transfer */
};

#define ZIPC_SIZE_CLASSES 5 /* below 256 KiB, 1 MiB, 4 MiB, 16 MiB, and above */

enum zipc_phase {
	ZIPC_PHASE_FIRST_ZIP,  /* compressed ones are measured, probes come next */
	ZIPC_PHASE_LAST_PROBE,
	ZIPC_PHASE_DECIDED,
	ZIPC_PHASE_SETTLE,     /* probes, not measured yet */
	ZIPC_PHASE_FIRST_PROBE,
	ZIPC_PHASE_LAST_ZIP,
};

/* Transfers that ended at once, and how long they had the link. */
struct zipc_group {
	double bytes, ns;
};

/* Measurements of one mode, added up. */
struct zipc_sum {
	struct zipc_group last, worst; /* last: not in the sum yet */
	double bytes, ns;
	uint32_t count;
	uint8_t begun;
};

/* What is known of one size class. */
struct zipc_rates {
	enum zipc_phase phase;
	enum zipc_mode best;          /* ZIP or RAW */
	double rate[2];               /* by mode, bytes a nanosecond, as last measured; 0: unknown */
	struct zipc_sum sum;          /* of this phase */
	uint32_t spent, tried;        /* messages of this phase, and of those before it since the last decision */
	uint32_t under_way, peak;     /* transfers, and the most of them in this phase */
	uint32_t settled;             /* probes that have ended */
	uint32_t since, recheck;      /* messages since the decision, and at which number to look again */
	uint8_t doubt;                /* an answer that would change is looked for a second time */
};

/* What is known of one direction to or from one peer. All zero at first. */
struct zipc_judge {
	struct zipc_rates classes[ZIPC_SIZE_CLASSES];
	uint64_t end_ns;              /* when the last transfer ended */
};

enum zipc_peer_state {
	ZIPC_PEER_MEETING, /* hello sent or to be sent */
	ZIPC_PEER_READY,   /* it knows us and we know it */
	ZIPC_PEER_LOST,    /* failed; met again on request or when it says hello */
};

struct zipc_peer {
	struct zipc_list link; /* engine->peers */
	struct zipc_peer *by_addr, *by_epoch; /* hash chains */
	struct zipc_engine *engine;
	enum zipc_peer_state state;
	uint64_t epoch;        /* its id; 0 until its hello came */
	zipc_addr_t handle;
	uint8_t has_handle, hello_again, host_known, self, forgotten, abort_all;
	uint32_t pid;
	uint64_t born;         /* when the process `pid` started, 0 when that is not known */
	uint32_t flags, dtypes, codecs, max_chunk;
	uint32_t nsends;       /* outbound transfers */
	uint32_t nrecvs;       /* inbound ones, unmatched and done-but-not-announced included */
	uint32_t nreplies;     /* of the outbound ones: what the peer reads */
	uint32_t nreads;       /* of the inbound ones: what we read */
	uint32_t send_slots, recv_slots; /* staging that its transfers hold */
	uint32_t accel_send_slots, accel_recv_slots; /* of devices */
	struct zipc_list sends, recvs; /* recvs: in order of arrival */
	struct zipc_list reads;      /* recvs that wait for their reply */
	struct zipc_list want;       /* matched recvs with chunks to be granted, oldest match first */
	struct zipc_list want_link;  /* engine->recv_want while it has such */
	struct zipc_ctl hello, ping, abort;
	uint64_t heard_ms, checked_ms, ping_ms; /* ping_ms: when the last ping was queued */
	struct zipc_judge judge, read_judge; /* of messages and writes, and of reads */
	struct zipc_judge accel_judge;       /* of messages in device memory */
	struct zipc_stats stats;
	unsigned blocked;      /* number of the flush pass in which it refused a message */
	uint16_t main_len, comp_len;
	uint8_t main_addr[ZIPC_ADDR_MAX], comp_addr[ZIPC_ADDR_MAX];
	uint8_t hello_msg[ZIPC_CONTROL_MAX];
	struct zipc_control_v1 ping_msg;
	struct zipc_abort_v1 abort_msg;
};

enum zipc_send_state { ZIPC_SEND_FREE, ZIPC_SEND_BEGUN, ZIPC_SEND_OPEN, ZIPC_SEND_REPORTED };

/* Kinds of outbound transfers, in `flags` beside zipc_send_flags. */
enum zipc_send_kind {
	ZIPC_SEND_WRITE = 1 << 16,
	ZIPC_SEND_REPLY = 1 << 17, /* the peer reads: `cookie` is the adapter's target */
};

struct zipc_send {
	struct zipc_list link;  /* peer->sends, or the engine's free list */
	struct zipc_list ready; /* engine->send_ready while it has credit */
	struct zipc_engine *engine;
	struct zipc_peer *peer;
	enum zipc_send_state state;
	uint32_t id, flags;
	struct iovec iov[ZIPC_IOV_MAX];
	uint32_t niov;
	enum zipc_dtype dtype;
	uint64_t nbytes, tag;
	uint32_t chunk, nchunks;
	uint32_t credit;        /* chunks the receiver has asked for */
	uint32_t next;          /* next chunk to encode */
	uint32_t in_flight;     /* slots with the network */
	struct zipc_slot *staged; /* chunk `next`, encoded already and refused by the network */
	uint32_t receiver_xfer;
	enum zipc_mode mode;
	uint64_t start_ns;      /* first credit */
	uint8_t over;           /* fin came, or the peer is lost: nothing more to send */
	uint8_t measured;       /* the policy knows how long it took, or did not ask */
	uint8_t told;           /* the receiver was told that it ended: what it says meanwhile has crossed that */
	int status;
	void *cookie;
	struct zipc_ctl ctl;
	union {
		struct zipc_rts_v1 rts;
		struct zipc_write_v1 write;
		struct zipc_reply_v1 reply;
	} msg;
	uint8_t copy[64];
	struct zipc_pool *pool;
	struct zipc_judge *judge;
	/* Of a message in device memory only (zipc_accel_send.c). */
	struct zipc_accel *accel; /* NULL: host memory */
	struct zipc_list holder;  /* accel->sends */
	struct zipc_list encoded; /* slots of the chunks from `next` on, in order; those without `bytes` are not ready */
	uint32_t encode_next;     /* next chunk to give to the device */
	unsigned jobs;            /* that read the buffer: the transfer is not reported before they are over */
	enum zipc_codec codec;
	uint8_t sparse, settled;  /* settled: it is known what the data is */
	uint8_t sampling;
	int failing;              /* it ends with this status, as soon as the peer can be told */
};

/* Where an inbound transfer comes from. */
enum zipc_recv_kind {
	ZIPC_RECV_MESSAGE, /* a placeholder and a receive */
	ZIPC_RECV_WRITE,   /* the peer writes: `cookie` is the adapter's target */
	ZIPC_RECV_READ,    /* we read */
};

struct zipc_recv {
	struct zipc_list link;  /* peer->recvs */
	struct zipc_list want;  /* peer->want while chunks remain to be granted */
	struct zipc_recv *hash; /* chain by (epoch, sender_xfer) */
	uint64_t epoch;         /* the peer's id when it came: it outlives a restart of the peer while it is claimed */
	struct zipc_engine *engine;
	struct zipc_peer *peer;
	uint32_t id, sender_xfer, flags;
	enum zipc_recv_kind kind;
	uint8_t rts_seen, matched, claimed, done, fin_sent, discard, aborted;
	uint8_t hashed;         /* it has a number of the sender's */
	uint8_t begun;          /* a read that its owner has not committed */
	uint32_t rma_flags;
	uint64_t data;
	struct zipc_list read;  /* peer->reads */
	struct zipc_list last;  /* the last chunk, which waits until all others are decoded (ZIPC_RMA_POLL) */
	enum zipc_mode mode;    /* of a read, with when its reply came */
	uint64_t start_ns;
	struct iovec iov[ZIPC_IOV_MAX];
	uint32_t niov, chunk;
	uint64_t nbytes, tag, keep; /* keep: bytes that fit the buffers */
	uint32_t nwant;         /* chunks needed for `keep` bytes */
	uint32_t granted, announced, decoded, in_flight;
	int status;
	void *cookie;
	struct zipc_ctl ctl;
	union {
		struct zipc_credit_v1 credit;
		struct zipc_fin_v1 fin;
		struct zipc_read_v1 read;
	} msg;
	struct zipc_pool *pool;
	/* With a buffer in device memory only (zipc_accel_recv.c). */
	struct zipc_accel *accel; /* NULL: host memory */
	struct zipc_list holder;  /* accel->recvs */
	struct zipc_list arrived; /* slots that wait to be decoded */
	const struct zipc_slot *last_slot; /* of the chunk that was granted last */
	unsigned jobs;            /* that write to the buffer: the transfer is not reported before they are over */
	uint8_t ending;           /* it ends with `status` then */
	uint8_t frame_kind;       /* zipc_kind of the frames as the sender has announced it, or as the last one was; 0: unknown */
};

#define ZIPC_HASH 1024u

struct zipc_engine {
	struct zipc_engine_attr attr;
	uint8_t main_addr[ZIPC_ADDR_MAX], comp_addr[ZIPC_ADDR_MAX];
	const struct zipc_net_ops *net_ops;
	void *net;
	const struct zipc_device_ops *dev_ops;
	void *dev;
	const struct zipc_engine_cb *cb;
	void *ctx;
	uint64_t epoch, host;
	struct zipc_pool send_pool, recv_pool;
	struct zipc_list peers, ctl_queue, send_ready, decode_queue;
	struct zipc_list recv_want; /* peers; they take turns */
	struct zipc_peer *by_addr[ZIPC_HASH], *by_epoch[ZIPC_HASH];
	struct zipc_recv *by_xfer[ZIPC_HASH];
	struct zipc_list accels; /* devices */
	struct zipc_list free_sends;
	struct zipc_send **send_table; /* by the low 16 bits of an id */
	uint32_t send_count;
	uint32_t next_recv_id;
	unsigned pass;          /* number of the running flush of the control queue */
	unsigned active;        /* transfers under way, both ways */
	unsigned ctl_pending;
	unsigned npeers;
	uint64_t watch_ms;
	uint64_t retired[ZIPC_RETIRED]; /* ring of ids that peers had before a restart */
	unsigned nretired;
	struct zipc_log_kind {
		const char *fmt;
		uint64_t ms;    /* when `lines` was started */
		unsigned lines;
	} log_kinds[ZIPC_LOG_KINDS];
	struct zipc_stats stats;
	unsigned wire_frames;   /* with the network for sending */
	uint64_t wire_since_ns; /* since when there are any */
};

void zipc_log(struct zipc_engine *engine, enum zipc_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Queue a control message. The ctl must not be busy; msg stays valid until done is called. */
void zipc_ctl_send(struct zipc_engine *engine, struct zipc_ctl *ctl, struct zipc_peer *peer, const void *msg, size_t len,
		   void (*done)(struct zipc_engine *, struct zipc_ctl *, int));
void zipc_ctl_header(const struct zipc_engine *engine, struct zipc_control_v1 *hdr, enum zipc_control_type type, size_t len);

uint64_t zipc_now_ns(void);

/* Adds to a counter of a peer and to that of its engine. */
#define ZIPC_COUNT(peer, field, n)                                 \
	do {                                                       \
		(peer)->engine->stats.field += (n);                \
		(peer)->stats.field += (n);                        \
	} while (0)

/* The time for the statistics, if anybody wants to know it. */
static inline uint64_t zipc_tick(const struct zipc_engine *engine)
{
	return engine->attr.timing ? zipc_now_ns() : 0;
}

unsigned zipc_size_class(uint64_t nbytes);
/*
 * How a message of this size is to travel: 1 for raw without any doubt, so that its data need not be looked at; else choose says. What
 * choose makes a transfer of ends with done, lost or undo.
 */
int zipc_policy_raw(struct zipc_judge *judge, uint64_t nbytes);
enum zipc_mode zipc_policy_choose(struct zipc_judge *judge, uint64_t nbytes);
/* It had its first credit at start_ns, and has ended at end_ns. */
void zipc_policy_done(struct zipc_judge *judge, uint64_t nbytes, enum zipc_mode mode, uint64_t start_ns, uint64_t end_ns);
/* It ended without telling anything. */
void zipc_policy_lost(struct zipc_judge *judge, uint64_t nbytes, enum zipc_mode mode);
/* It was not sent after all; the caller may come again with the same message, as often as it likes. */
void zipc_policy_undo(struct zipc_judge *judge, uint64_t nbytes, enum zipc_mode mode);

int zipc_pool_open(struct zipc_pool *pool, size_t bytes, size_t slot_bytes, int kind);
/* In memory of somebody else's: `count` slots of slot_bytes. No others are put in the place of lost ones. */
int zipc_pool_open_at(struct zipc_pool *pool, void *memory, size_t count, size_t slot_bytes, int kind);
/* Bytes of a slot that holds such a frame. */
size_t zipc_pool_slot_bytes(size_t frame_bytes);
void zipc_pool_close(struct zipc_pool *pool);
/*
 * Slots that are not lost, `count` at most. Few are left only after many deaths over a core that gives nothing back.
 */
static inline size_t zipc_pool_usable(const struct zipc_pool *pool)
{
	return pool->total - pool->lost < pool->count ? pool->total - pool->lost : pool->count;
}

/*
 * A slot for a peer that holds *held of them, or NULL. A peer never takes the last slots of a pool from the others: it may
 * hold as many as are left over, so that one that stands still cannot stop the rest.
 */
struct zipc_slot *zipc_pool_get(struct zipc_pool *pool, uint32_t *held);
/*
 * At most *n slots in a row, under the same rule; sets *n, 0 with NULL. They go on where `after` (may be NULL) ends if they can. Their
 * `bytes` are 0.
 */
struct zipc_slot *zipc_pool_get_run(struct zipc_pool *pool, uint32_t *held, const struct zipc_slot *after, uint32_t *n);
void zipc_pool_put(struct zipc_slot *slot);
/*
 * Writes off the slots that the network holds for a peer that is lost; `held` is the peer's count. Each is put back when, and
 * if, the network is done with it.
 */
void zipc_pool_lose(struct zipc_engine *engine, struct zipc_pool *pool, uint32_t *held);

void zipc_peer_hello(struct zipc_engine *engine, const struct zipc_hello_v1 *hello, const uint8_t *addrs);
struct zipc_peer *zipc_peer_by_epoch(struct zipc_engine *engine, uint64_t epoch);
/* Ends every transfer with the peer: it died, restarted, or broke the protocol. */
void zipc_peer_lose(struct zipc_peer *peer, int status);
/* 1 if a peer that was restarted had this id. */
int zipc_peer_retired(const struct zipc_engine *engine, uint64_t epoch);
/* Tells the peer that a transfer it sends credits for (or, with scope 0, all of them) is not there. May lose the peer. */
void zipc_peer_abort(struct zipc_peer *peer, uint32_t sender_xfer, uint32_t scope);
void zipc_peer_watch(struct zipc_engine *engine);
void zipc_peers_close(struct zipc_engine *engine);

void zipc_send_unchoose(struct zipc_engine *engine, struct zipc_peer *peer, size_t nbytes, unsigned flags, enum zipc_mode mode);
/* ---- zipc_choose.c */

/* The segment that says most about the message. */
const struct iovec *zipc_iov_largest(const struct iovec *iov, size_t niov);
/* 1 if the policy has a say in how such a message travels. */
int zipc_send_asks(const struct zipc_engine *engine, unsigned flags);
/* 0: a transfer; 1 + reason: raw. Says how to encode; a message that is not sent after all is to be unchosen. */
int zipc_send_choose(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes,
		     unsigned flags, enum zipc_dtype *dtype, enum zipc_mode *mode);
/* 1 if the data is worth a transfer; says which dtype it is. */
int zipc_send_worth(struct zipc_engine *engine, const struct iovec *iov, size_t niov, enum zipc_dtype *dtype);
/* 1 if the peer has said that it can decode the frames that this dtype gives. */
int zipc_peer_decodes(const struct zipc_engine *engine, const struct zipc_peer *peer, enum zipc_dtype dtype);
/* Makes a transfer of state BEGUN in chunks of at most max_chunk. ZIPC_ERR_AGAIN, or ZIPC_ERR_SIZE for too many chunks. */
int zipc_send_new(struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes, unsigned flags,
		  size_t max_chunk, struct zipc_send **send);
/* Queues the first message about it. */
void zipc_send_announce(struct zipc_send *send, size_t len);
/* One transfer fails at this end: the receiver, which may know of it already, is told. */
void zipc_send_break(struct zipc_send *send, int status);
/* Reports what there is to report, and frees what nobody needs any more. */
void zipc_send_settle(struct zipc_send *send);
void zipc_send_credit(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_credit_v1 *msg);
void zipc_send_fin(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_fin_v1 *msg);
void zipc_send_bulk_done(struct zipc_engine *engine, struct zipc_slot *slot, int status);
/* Tells the end of it, once. */
void zipc_send_report(struct zipc_send *send, int status);
void zipc_send_fail(struct zipc_send *send, int status);
int zipc_send_step(struct zipc_engine *engine); /* encode and post one chunk; 1 if it did */
void zipc_sends_close(struct zipc_engine *engine);
/* Cancel what is not complete; see zipc_engine_leave. */
void zipc_sends_leave(struct zipc_peer *peer);
void zipc_recvs_leave(struct zipc_peer *peer);

struct zipc_recv *zipc_recv_lookup(struct zipc_engine *engine, uint64_t epoch, uint32_t sender_xfer);
/* A record of the transfer of this number; NULL: no room. */
struct zipc_recv *zipc_recv_create(struct zipc_engine *engine, struct zipc_peer *peer, uint32_t sender_xfer);
/* A record without a number of the sender's, and the number. NULL: no room. */
struct zipc_recv *zipc_recv_new(struct zipc_engine *engine, struct zipc_peer *peer);
void zipc_recv_number(struct zipc_recv *recv, uint32_t sender_xfer);
/* Chunks are to be granted from now on: the buffers are set, and `keep` is not 0. */
void zipc_recv_start(struct zipc_recv *recv);
/* Queues what the sender is to know. */
void zipc_recv_announce(struct zipc_recv *recv);
void zipc_recv_ctl_done(struct zipc_engine *engine, struct zipc_ctl *ctl, int status);
/* Frees the record once both ends are done with it. */
void zipc_recv_settle(struct zipc_recv *recv);
/* All that fits the buffers is in them. */
void zipc_recv_complete(struct zipc_recv *recv);
/* Ends a transfer that no receive was matched with. */
void zipc_recv_refuse(struct zipc_recv *recv, int status);
/* Reports to the application. What the network still holds drains by itself. */
void zipc_recv_finish(struct zipc_recv *recv, int status);
/* Nothing more comes: chunks that wait for decoding are dropped, and posted receives taken back. */
void zipc_recv_cancel(struct zipc_recv *recv);
size_t zipc_iov_total(const struct iovec *iov, size_t niov);
/* 1 if transfers of this length in chunks of this size can be received. */
int zipc_recv_possible(const struct zipc_engine *engine, uint64_t nbytes, uint32_t chunk);

void zipc_rma_write(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_write_v1 *msg);
void zipc_rma_read(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_read_v1 *msg);
void zipc_rma_reply(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_reply_v1 *msg);
/* A read is done: the policy is told. */
void zipc_read_over(struct zipc_recv *recv);
/* Decodes the last chunk of a write that the target may poll for. */
int zipc_rma_decode_last(struct zipc_recv *recv, size_t offset, size_t nbytes, const void *frame, size_t frame_bytes);

void zipc_recv_rts(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_rts_v1 *msg);
void zipc_recv_abort(struct zipc_engine *engine, struct zipc_peer *peer, const struct zipc_abort_v1 *msg);
void zipc_recv_bulk_done(struct zipc_engine *engine, struct zipc_slot *slot, int status, size_t bytes);
void zipc_recv_fail(struct zipc_recv *recv, int status);
/* The peer is lost: the transfer ends, and if no application knows of it, goes. */
void zipc_recv_lost(struct zipc_recv *recv, int status);
int zipc_recv_step(struct zipc_engine *engine); /* decode one chunk; 1 if it did */
void zipc_recv_grant(struct zipc_engine *engine);
void zipc_recv_close(struct zipc_recv *recv);
/* `n` chunks are in the buffer, 0 or more, or it ends with `status`: the transfer goes on, or is over. */
void zipc_recv_decoded(struct zipc_recv *recv, uint32_t n, int status);

/* ---- device memory (zipc_accel.c and others) */

/* What frames are like, in a byte. */
static inline uint8_t zipc_kind(enum zipc_dtype dtype, enum zipc_codec codec, int sparse)
{
	return dtype == ZIPC_DTYPE_RAW || codec == ZIPC_CODEC_RAW ? 0 : (uint8_t)(dtype | codec << 3 | !!sparse << 5);
}

/* How a message is to travel. */
struct zipc_plan {
	enum zipc_mode mode;
	enum zipc_dtype dtype;
	enum zipc_codec codec;
	uint8_t sparse;
	uint8_t settled;    /* device memory: the rest is more than a guess */
	uint8_t unmeasured; /* nothing is learned from it */
};

/* 0: a transfer, and `plan` says how; 1 + reason: raw. */
int zipc_accel_choose(struct zipc_accel *accel, struct zipc_peer *peer, const struct iovec *iov, size_t niov, size_t nbytes,
		      unsigned flags, struct zipc_plan *plan);
/* What zipc_send_new does not know of. */
void zipc_accel_send_init(struct zipc_accel *accel, struct zipc_send *send, const struct zipc_plan *plan);
/* The transfer is committed; and it ends, or its chunks are not wanted any more. */
void zipc_accel_send_start(struct zipc_send *send);
void zipc_accel_send_stop(struct zipc_send *send);
/* The slot of chunk `next`, encoded, or NULL. */
struct zipc_slot *zipc_accel_take(struct zipc_send *send);
/* A chunk has arrived. */
void zipc_accel_arrived(struct zipc_recv *recv, struct zipc_slot *slot);
/* Devices that wait for nothing but time, all of them moved on. 1 while something is under way. */
int zipc_accels_step(struct zipc_engine *engine);
/* Waits for what is under way, for a bounded time. */
void zipc_accels_close(struct zipc_engine *engine);
/* Slots in use and bytes of them. */
size_t zipc_accels_in_use(const struct zipc_engine *engine, size_t *bytes);
void zipc_accels_lose(struct zipc_peer *peer);

#endif
