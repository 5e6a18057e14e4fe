/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transfer engine: peers, transfers, credits, staging. One engine serves one endpoint of an adapter.
 *
 * It knows no network and no device: it calls the two tables below, which the adapter (or a test's fake) fills in.
 * Nothing here is thread-safe: the adapter serialises all calls on one engine. The engine calls back (network,
 * completions) from inside the calls made to it; these callbacks must not call the engine again, except where said.
 * Sizes are bytes. Functions return 0 or a negative ZIPC_ERR_* unless said otherwise.
 */
#ifndef ZIPC_ENGINE_H
#define ZIPC_ENGINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "zipc_accel.h"
#include "zipc_codec.h"
#include "zipc_error.h"
#include "zipc_proto.h"

#define ZIPC_IOV_MAX 8

struct zipc_engine;
struct zipc_peer;
struct zipc_send;
struct zipc_recv;

/*
 * One operation the engine has given to the network. `net` belongs to the adapter while the operation is pending, so
 * that a lower layer that wants memory of the caller's (struct fi_context2) can be given the operation itself.
 */
struct zipc_op {
	uint64_t net[12];
	int kind; /* the engine's */
};

/* Handle of a companion's address, given out by addr_insert. */
typedef uint64_t zipc_addr_t;

/*
 * The network. send_* and recv_* return 0 when the operation was accepted: zipc_engine_op_done() follows, later and
 * exactly once. ZIPC_ERR_AGAIN: not accepted, try again at the next progress. Any other code: the peer is lost.
 * Buffers stay valid and untouched until op_done.
 */
struct zipc_net_ops {
	int (*addr_insert)(void *net, const void *addr, size_t addrlen, zipc_addr_t *handle);
	void (*addr_remove)(void *net, zipc_addr_t handle);
	/* A control message of at most ZIPC_CONTROL_MAX bytes; it arrives in order with others to the same peer. */
	int (*send_control)(void *net, zipc_addr_t peer, const void *msg, size_t len, struct zipc_op *op);
	/* A bulk message that the peer has posted a receive with the same tag for. */
	int (*send_bulk)(void *net, zipc_addr_t peer, uint64_t tag, const void *buf, size_t len, struct zipc_op *op);
	int (*recv_bulk)(void *net, zipc_addr_t peer, uint64_t tag, void *buf, size_t len, struct zipc_op *op);
	/* Ask that a pending receive ends early; op_done follows all the same. */
	void (*cancel_recv)(void *net, struct zipc_op *op);
	/*
	 * The memory bulk messages are staged in, for cores that want it registered: called twice while the engine opens, and at
	 * most twice later. May be NULL.
	 */
	int (*stage_register)(void *net, void *base, size_t len);
};

/* Where encoding and decoding happen. A host device does it inside the call. */
struct zipc_device_ops {
	const char *name;
	/* Encode `nbytes` of the message that starts at byte `offset` of `iov` into `frame` (frame_size bytes). */
	int (*encode)(void *dev, void *frame, size_t frame_size, const struct iovec *iov, size_t niov, size_t offset,
		      size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes);
	/* Decode a frame of `frame_bytes` that must hold `nbytes`; write its first `keep` bytes at `offset` of `iov`. */
	int (*decode)(void *dev, const struct iovec *iov, size_t niov, size_t offset, size_t nbytes, size_t keep,
		      const void *frame, size_t frame_bytes);
};

enum zipc_log_level { ZIPC_LOG_WARN, ZIPC_LOG_INFO };

/* What the engine tells the adapter. `cookie` is what the adapter gave when it started the operation. */
struct zipc_engine_cb {
	/* The send is complete (status 0) or has failed. The transfer is gone for the adapter. */
	void (*send_done)(void *ctx, void *cookie, int status);
	/* The receive is complete: `kept` bytes of a message of `nbytes` are in the buffer. ZIPC_ERR_TRUNC: not all. */
	void (*recv_done)(void *ctx, void *cookie, int status, size_t kept, size_t nbytes);
	/*
	 * A peer wants to write (write != 0) or read these pieces of registered memory. They are the peer's word: the engine has seen
	 * that there are 1 to ZIPC_RMA_SEGS, and that neither addr + len of one nor the sum of all lengths overflows. The adapter
	 * checks key, bounds and access of each in a table of its own, and names the memory in at most ZIPC_IOV_MAX pieces (*niov is
	 * that at first, and at least 1 in the end) of the same length together. Returns 0, or ZIPC_ERR_KEY, ZIPC_ERR_ACCES,
	 * ZIPC_ERR_INVAL or ZIPC_ERR_NOMEM: nothing is touched then, and the peer is told. The memory stays registered until *target
	 * is handed to rma_done. Both are NULL: the peer is told that there is no such thing here.
	 */
	int (*rma_open)(void *ctx, struct zipc_peer *peer, int write, const struct zipc_rma_seg *segs, size_t nsegs,
			struct iovec *iov, size_t *niov, void **target);
	/*
	 * It is over, with this result: once for each successful rma_open, except when the engine is closed before. `flags`
	 * (zipc_rma_flags) and `data`: of a write. The peer is told after this.
	 */
	void (*rma_done)(void *ctx, void *target, int status, uint64_t data, unsigned flags, size_t nbytes);
	void (*log)(void *ctx, enum zipc_log_level level, const char *text);
};

enum zipc_raw_reason {
	ZIPC_RAW_SMALL,   /* below the minimum size */
	ZIPC_RAW_PEER,    /* peer without zip, or not met yet */
	ZIPC_RAW_DATA,    /* would not shrink */
	ZIPC_RAW_OFF,     /* switched off by a setting, or not welcome at the peer */
	ZIPC_RAW_SLOW,    /* the link is faster than the codec */
	ZIPC_RAW_REASONS
};

/* What an engine did, or, but for what is marked, what it did with one peer. */
struct zipc_stats {
	uint64_t sends;          /* messages sent as transfers */
	uint64_t recvs;          /* messages received as transfers */
	uint64_t send_bytes;     /* their bytes before encoding */
	uint64_t wire_bytes;     /* and the frames' bytes */
	uint64_t recv_bytes;
	uint64_t recv_wire_bytes;
	uint64_t raw[ZIPC_RAW_REASONS]; /* large enough messages that went raw, by reason (SMALL is not counted) */
	uint64_t raw_bytes;      /* and their bytes */
	uint64_t errors;         /* transfers that failed */
	/* of an engine only: */
	uint64_t staging_bytes;  /* in use now */
	uint64_t peers_ready;    /* now */
	/* where the time went, nanoseconds; all 0 unless zipc_engine_attr.timing is set */
	uint64_t sample_ns, encode_ns, decode_ns;
	uint64_t wire_ns;        /* while at least one frame was with the network for sending */
};

enum zipc_policy {
	ZIPC_POLICY_AUTO,   /* what is measured to be faster */
	ZIPC_POLICY_RATIO,  /* a transfer whenever the data shrinks */
	ZIPC_POLICY_ALWAYS, /* a transfer whatever the data looks like (for tests) */
};

struct zipc_engine_attr {
	size_t min_size;   /* messages of at least this many bytes are eligible */
	size_t chunk;      /* largest chunk; a multiple of 8192 */
	size_t staging;    /* bytes of staging for sends, and as much for receives */
	enum zipc_codec codec;
	enum zipc_dtype dtype; /* RAW: find out by sampling */
	int host;          /* compress host memory at all */
	enum zipc_policy policy;
	int verify;        /* decode every frame and compare before it is sent */
	int timing;        /* take times for the statistics */
	int untagged;      /* untagged transfers are welcome here */
	uint64_t epoch;    /* 0: draw one at random. Tests fix it. */
	const void *main_addr; /* address of the adapter's endpoint, without mark; copied */
	size_t main_len;
	const void *comp_addr; /* address of the companion; copied */
	size_t comp_len;
};

/* Opens an engine. `net`, `dev` and `ctx` are passed back in the calls of their tables; the tables must outlive it. */
int zipc_engine_open(const struct zipc_engine_attr *attr, const struct zipc_net_ops *net_ops, void *net,
		     const struct zipc_device_ops *dev_ops, void *dev, const struct zipc_engine_cb *cb, void *ctx,
		     struct zipc_engine **engine);
/* Frees everything, reporting nothing. The network must not report operations of this engine any more. */
void zipc_engine_close(struct zipc_engine *engine);

/* Milliseconds of a monotonic clock, coarse. */
uint64_t zipc_now_ms(void);

uint64_t zipc_engine_epoch(const struct zipc_engine *engine);
void zipc_engine_stats(const struct zipc_engine *engine, struct zipc_stats *stats);
/* Counts a large enough message that went raw, to a peer that may be NULL when it is not known. SMALL is not counted. */
void zipc_engine_count_raw(struct zipc_engine *engine, struct zipc_peer *peer, enum zipc_raw_reason reason, size_t nbytes);

/* One peer, for those who watch. */
struct zipc_peer_view {
	const void *main_addr;   /* of its application's endpoint, without mark; valid in the call */
	size_t main_len;
	int ready;
	unsigned active;         /* transfers under way, both ways */
	struct zipc_stats stats;
};

/* Calls `see` for the first `most` peers in the order in which they were met, which stays the same. Returns how many there are. */
size_t zipc_engine_see_peers(const struct zipc_engine *engine, size_t most,
			     void (*see)(void *ctx, size_t index, const struct zipc_peer_view *peer), void *ctx);

/*
 * Moves everything that can move: queued control messages, at most one encode and one decode, new credits, watch over
 * silent peers. Returns 1 while there is work that a further call could do at once, else 0.
 */
int zipc_engine_progress(struct zipc_engine *engine);
/* 1 while transfers are under way or control messages wait, so that the adapter polls more often. */
int zipc_engine_busy(const struct zipc_engine *engine);

enum zipc_leaving {
	ZIPC_LEAVING_DONE,     /* nobody waits for anything from here */
	ZIPC_LEAVING_ANSWERS,  /* only peers' last words about finished transfers are missing */
	ZIPC_LEAVING_FLUSHING, /* something of ours is still to leave */
};

/*
 * The adapter closes: transfers that are not complete end with ZIPC_ERR_CANCELED, and their peers are told. To be called again
 * and again, with progress between, until it is done or the adapter's patience is at its end.
 */
enum zipc_leaving zipc_engine_leave(struct zipc_engine *engine);

/* The network's events. `bytes`: length of what was received. */
void zipc_engine_op_done(struct zipc_engine *engine, struct zipc_op *op, int status, size_t bytes);
void zipc_engine_control(struct zipc_engine *engine, const void *msg, size_t len);

/* ---- peers */

/* Finds the peer whose application endpoint has this address (without mark), or NULL. */
struct zipc_peer *zipc_peer_find(struct zipc_engine *engine, const void *main_addr, size_t main_len);
/*
 * Says hello to the companion at comp_addr of the peer with the address main_addr. Both are copied. A peer that is
 * known already is spoken to again only if it was forgotten or moved.
 */
int zipc_peer_meet(struct zipc_engine *engine, const void *main_addr, size_t main_len,
		   const void *comp_addr, size_t comp_len);
/* No new transfers to this peer until it is met again. */
void zipc_peer_forget(struct zipc_engine *engine, const void *main_addr, size_t main_len);
/* 1 when transfers to it are possible. */
int zipc_peer_ready(const struct zipc_peer *peer);
/* Transfers to or from it that have not ended. */
unsigned zipc_peer_active(const struct zipc_peer *peer);

/* ---- sending */

enum zipc_send_flags {
	ZIPC_SEND_TAGGED = 1 << 0,
	ZIPC_SEND_DELIVERY = 1 << 1, /* complete only when the data is in the receiver's buffer */
	ZIPC_SEND_FORCE = 1 << 2,    /* whatever its size and contents (a message that looks like a placeholder) */
	ZIPC_SEND_COPY = 1 << 3,     /* copy the (at most 64) bytes: the caller's buffer is free after commit */
};

/*
 * Decides whether a message becomes a transfer and reserves all it needs.
 * Returns 0 and sets *send and *placeholder: the caller posts the placeholder in place of the message, then commits, or
 * drops. Returns 1 + reason (zipc_raw_reason): send it raw, and count it once it is sent. ZIPC_ERR_AGAIN: resources are exhausted for now.
 * The iov array is copied; the memory it names stays the caller's and untouched until send_done.
 */
int zipc_send_begin(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov,
		    size_t nbytes, uint64_t tag, unsigned flags, void *cookie, struct zipc_send **send,
		    struct zipc_placeholder_v1 *placeholder);
/* The same of memory of a device that was attached to this engine; all segments are on it. NULL: host memory. */
int zipc_send_begin_on(struct zipc_engine *engine, struct zipc_accel *accel, struct zipc_peer *peer, const struct iovec *iov,
		       size_t niov, size_t nbytes, uint64_t tag, unsigned flags, void *cookie, struct zipc_send **send,
		       struct zipc_placeholder_v1 *placeholder);
void zipc_send_commit(struct zipc_send *send);
void zipc_send_drop(struct zipc_send *send);
/* Number of a transfer, and the failure of its placeholder: nothing happens if the transfer of that number is gone. */
uint32_t zipc_send_id(const struct zipc_send *send);
void zipc_send_lost(struct zipc_engine *engine, uint32_t id);

/* ---- receiving */

/* 1 if these are the bytes of a placeholder of a peer that this engine knows. */
int zipc_is_placeholder(struct zipc_engine *engine, const void *msg, size_t len);
/* 1 if a message of the application starts like a placeholder, so that it must travel as a transfer. */
int zipc_looks_like_placeholder(const void *msg, size_t len);
/*
 * The placeholder has matched a receive with these buffers. recv_done follows (it may come from inside this call).
 * Returns a negative code for a placeholder with a bad field; recv_done does not follow then.
 */
int zipc_recv_match(struct zipc_engine *engine, const void *placeholder, const struct iovec *iov, size_t niov,
		    void *cookie);
/* The same with buffers on a device that was attached to this engine; all segments are on it. NULL: host memory. */
int zipc_recv_match_on(struct zipc_engine *engine, struct zipc_accel *accel, const void *placeholder, const struct iovec *iov,
		       size_t niov, void *cookie);
/* The application discards the message whose placeholder this is. */
int zipc_recv_discard(struct zipc_engine *engine, const void *placeholder);
/*
 * The oldest transfer of this tag that is neither matched nor claimed, from `peer`, or from any with NULL; NULL while its control
 * record has not arrived. `claim`: later calls pass it over. The result stays valid until its placeholder is matched or discarded.
 */
struct zipc_recv *zipc_recv_peek(struct zipc_engine *engine, struct zipc_peer *peer, uint64_t tag, int claim, size_t *nbytes);
/* The core has thrown the placeholder of this transfer away: it ends without data. */
void zipc_recv_drop(struct zipc_recv *recv);

/* ---- remote memory */

/* 1 when writes to it and reads from it can be transfers. */
int zipc_peer_rma(const struct zipc_peer *peer);
/* Operations of ours with this peer that have not ended: sends, writes, reads. */
unsigned zipc_peer_outstanding(const struct zipc_peer *peer);

/*
 * Writes the memory that iov names to the peer's memory that segs name; both have the same length. Like zipc_send_begin: 0 and
 * *send, or 1 + reason, or ZIPC_ERR_AGAIN; then zipc_send_commit or zipc_send_drop. send_done comes when the data is in place
 * at the target, or with the reason why it is not (ZIPC_ERR_KEY, ZIPC_ERR_ACCES, ZIPC_ERR_INVAL: the target refused). `flags`:
 * zipc_rma_flags; `data` counts with ZIPC_RMA_DATA.
 */
int zipc_write_begin(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov,
		     const struct zipc_rma_seg *segs, size_t nsegs, uint64_t data, unsigned flags, void *cookie,
		     struct zipc_send **send);
/*
 * Reads the peer's memory that segs name into that of iov, which is as long. As above, then zipc_read_commit or zipc_read_drop;
 * recv_done tells the end (it may come from inside of commit). `flags`: none yet.
 */
int zipc_read_begin(struct zipc_engine *engine, struct zipc_peer *peer, const struct iovec *iov, size_t niov,
		    const struct zipc_rma_seg *segs, size_t nsegs, unsigned flags, void *cookie, struct zipc_recv **recv);
void zipc_read_commit(struct zipc_recv *recv);
void zipc_read_drop(struct zipc_recv *recv);
/*
 * The reader gives up a read that was committed and has not ended: nothing is written to its memory any more. recv_done comes
 * from inside.
 */
void zipc_read_cancel(struct zipc_recv *recv);
/*
 * Peers' transfers into or out of what rma_open called `target` end now, with this status; rma_done comes from inside. Returns
 * 1 while there are such that could not be ended yet: to be called again after some progress.
 */
int zipc_rma_revoke(struct zipc_engine *engine, const void *target, int status);

/* The host's device table; `dev` is a struct zipc_host_dev from zipc_host_open. */
extern const struct zipc_device_ops zipc_host_ops;
/* `scratch` bytes: the largest chunk. Returns NULL when out of memory. */
void *zipc_host_open(size_t scratch, int verify);
void zipc_host_close(void *dev);

#endif
