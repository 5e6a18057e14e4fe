/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zlink: a libfabric core provider that exists to measure. It is a link as fast as a NIC where there is none: two processes of one host,
 * device memory moved by the copy engines (device -> pinned shared memory -> device, both directions of PCIe at once, as a GPUDirect NIC
 * would), host memory by memcpy, paced to a line rate and given a latency. It is never installed.
 *
 *     domain A (a node)                             domain B
 *     struct zlink_tx --- link, shared memory ----> struct zlink_rx        and another one from B to A
 *
 * A link has two lanes. Packets (small messages with their data, control) are in order: their order is that of the messages. Chunks
 * carry the data of large ones; a NIC lets packets of other queue pairs in between, so that a packet never waits for chunks. Both
 * share one wire: what a packet takes, the chunks behind it wait for. A virtual clock stamps each with the time at which it is
 * visible at the other end; the sender's completion comes when the wire has taken the last byte.
 *
 *     large send:  RTS ->   <- CTS   chunks ->        write: WRITE, chunks ->   <- ACK        read: READ ->   <- chunks
 *
 * One lock a domain. Everything moves when an object of the domain is read, waited for or posted to (FI_PROGRESS_MANUAL). A peer that
 * dies is found by its process id within a tenth of a second, and what was under way with it ends with an error.
 */
#ifndef ZLINK_H
#define ZLINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zipc_list.h"
#include "zipfi_lf.h"

#define ZLINK_NAME "zlink"
#define ZLINK_VERSION FI_VERSION(0, 1)
#define ZLINK_MAGIC 0x314b4e4cu
#define ZLINK_NAME_MAX 256u    /* of an endpoint, with its final 0 */
#define ZLINK_ID_MAX 64u       /* of a node, with its final 0 */
#define ZLINK_PKTS 256u        /* packets a link holds */
#define ZLINK_DEPTH_MAX 64u    /* chunks a link holds at most */
#define ZLINK_HEADER 64u       /* bytes that a packet without data takes on the wire */
#define ZLINK_INJECT 4096u
#define ZLINK_IOV 4u
#define ZLINK_RMA_IOV 4u
#define ZLINK_TX_SIZE 1024u
#define ZLINK_RX_SIZE 1024u
#define ZLINK_EPS 256u         /* endpoints of a node */
#define ZLINK_CALLS 256u       /* links that may be announced to a node at a time */
#define ZLINK_SILENT (1ULL << 63) /* beside a post's flags: no completion, whatever else they say */
#define ZLINK_AUTO "fi_shm://zlink_" /* made-up names, with the prefix of the shm provider's: a layer above may add to them */
#define ZLINK_SLAB 64u
#define ZLINK_SLABS 4096u

#define ZLINK_LOG(level, subsys, ...) level(&zlink_prov, FI_LOG_##subsys, __VA_ARGS__)
#define ZLINK_WARN(subsys, ...) ZLINK_LOG(FI_WARN, subsys, __VA_ARGS__)
#define ZLINK_INFO(subsys, ...) ZLINK_LOG(FI_INFO, subsys, __VA_ARGS__)
#define zlink_of(ptr, type, member) zipc_container(ptr, struct type, member)

extern struct fi_provider zlink_prov;

/* Settings, FI_ZLINK_*; read at fi_getinfo and fi_fabric. */
struct zlink_param {
	double rate;           /* bytes a nanosecond (GB/s); 0: as fast as it goes */
	uint64_t latency_ns;   /* one way */
	size_t eager;          /* bytes of the largest message that goes without rendezvous */
	size_t chunk;          /* bytes */
	size_t depth;          /* chunks of a link */
	const char *cuda;      /* the driver library's file name */
	const char *dir;       /* where the shared memory is */
};

extern struct zlink_param zlink_param;
int zlink_param_read(void);
uint64_t zlink_now(void);  /* nanoseconds, the same clock in all processes */

/* ---- shared memory (zlink_shm.c) */

/* A node's file, zlink.<id>: who it is, and who calls. */
struct zlink_node_shm {
	uint32_t magic;
	atomic_uint bells;     /* rings when a call was written */
	struct {
		atomic_uint state;  /* 0 free, 1 being written, 2 there */
		char from[ZLINK_ID_MAX];
	} calls[ZLINK_CALLS];
	struct {
		atomic_uint id;     /* of the endpoint, 0: none */
		char name[ZLINK_NAME_MAX];
	} eps[ZLINK_EPS];
};

enum zlink_pkt_type {
	ZLINK_PKT_EAGER = 1,   /* a message with its data */
	ZLINK_PKT_RTS,
	ZLINK_PKT_CTS,
	ZLINK_PKT_WRITE,       /* data inside, or in chunks */
	ZLINK_PKT_READ,
	ZLINK_PKT_ACK,         /* peer_op has ended with `status` */
	ZLINK_PKT_ABORT        /* op ends before its data is there */
};

#define ZLINK_F_TAGGED 1u
#define ZLINK_F_DATA 2u        /* with immediate data */
#define ZLINK_F_ACK 4u         /* say when it is in place */
#define ZLINK_F_INLINE 8u      /* WRITE: the data follows in the packet */

struct zlink_pkt {
	uint64_t visible_ns;
	uint32_t type, flags;
	uint32_t dst_ep;
	int32_t status;
	uint64_t op;           /* of the sender of the packet */
	uint64_t peer_op;      /* of its receiver */
	uint64_t len, tag, data;
	uint64_t count;        /* of rma */
	union {
		char src[ZLINK_NAME_MAX];
		struct fi_rma_iov rma[ZLINK_RMA_IOV];
	};
};

struct zlink_chunk {
	uint64_t visible_ns;
	uint64_t after_pkt;    /* packets that must have been seen before */
	uint64_t op;           /* of the sender; for a read, of the reader */
	uint64_t reading;
	uint64_t offset, len;
};

struct zlink_lane {
	_Alignas(64) atomic_ullong prod; /* published, all time */
	_Alignas(64) atomic_ullong cons; /* given back */
};

/* A link's file, zlink.<from>+<to>. Behind this header the packets and the chunks' memory. */
struct zlink_link_shm {
	uint32_t magic, eager, chunk_bytes, depth;
	atomic_uint attached, tx_closed, rx_closed;
	struct zlink_lane pkts, chunks;
	struct zlink_chunk chunk[ZLINK_DEPTH_MAX];
};

/* A link's memory as one process has mapped it. */
struct zlink_map {
	struct zlink_link_shm *shm;
	size_t bytes;
	size_t eager, chunk_bytes, depth; /* copies: the peer cannot change them */
	char *pkts, *chunks;
};

struct zlink_domain;

int zlink_id_make(char *id);
bool zlink_alive(const char *id);
void zlink_sweep(void);     /* removes what the dead have left */
int zlink_node_create(const char *id, struct zlink_node_shm **node_p);
void zlink_node_close(const char *id, struct zlink_node_shm *node);
/* Which living node has an endpoint of that name. -FI_ENOENT: none. */
int zlink_resolve(const char *name, char *id, uint32_t *ep);
int zlink_map_create(const char *from, const char *to, struct zlink_map *map);
int zlink_map_attach(const char *from, const char *to, struct zlink_map *map);
void zlink_map_close(struct zlink_map *map);
void zlink_map_unlink(const char *from, const char *to);
int zlink_call(const char *from, const char *to);

static inline struct zlink_pkt *zlink_map_pkt(const struct zlink_map *map, uint64_t i)
{
	return (struct zlink_pkt *)(void *)(map->pkts + (i % ZLINK_PKTS) * (sizeof(struct zlink_pkt) + map->eager));
}

static inline char *zlink_map_chunk(const struct zlink_map *map, uint64_t i)
{
	return map->chunks + (i % map->depth) * map->chunk_bytes;
}

/* ---- copies (zlink_copy.c) */

enum zlink_dir { ZLINK_OUT, ZLINK_IN }; /* from the user's memory, to it */

struct zlink_copier;
struct zlink_dev;           /* a device, or the host */

/* Names a copy that was started; done once, or failed. */
struct zlink_ticket {
	struct zlink_dev *dev; /* NULL: nothing to wait for */
	enum zlink_dir dir;
	uint64_t number;
};

struct zlink_copy_ops {
	int (*start)(struct zlink_dev *dev, enum zlink_dir dir, void *user, void *host, size_t bytes);
	int (*mark)(struct zlink_dev *dev, enum zlink_dir dir, struct zlink_ticket *ticket);
	/* 1 done, 0 not yet, negative: the device failed */
	int (*test)(const struct zlink_ticket *ticket);
};

bool zlink_cuda_there(void);
int zlink_copier_open(bool cuda, struct zlink_copier **copier_p);
void zlink_copier_close(struct zlink_copier *copier);
bool zlink_copier_cuda(const struct zlink_copier *copier);
/* ordinal -1: the host */
int zlink_copier_dev(struct zlink_copier *copier, int ordinal, struct zlink_dev **dev_p);
/* The ordinal of the device a pointer belongs to, -1: host memory. */
int zlink_copier_classify(struct zlink_copier *copier, const void *ptr);
int zlink_copier_pin(struct zlink_copier *copier, void *base, size_t bytes);
void zlink_copier_unpin(struct zlink_copier *copier, void *base);
/* Whether some more copies can be started now. */
bool zlink_copier_room(struct zlink_copier *copier);
/* Pinned buffers of eager size. NULL: no memory. */
void *zlink_buf_get(struct zlink_copier *copier);
void zlink_buf_put(struct zlink_copier *copier, void *buf);
const struct zlink_copy_ops *zlink_dev_ops(const struct zlink_dev *dev);

static inline int zlink_ticket_test(const struct zlink_ticket *ticket)
{
	return ticket->dev ? zlink_dev_ops(ticket->dev)->test(ticket) : 1;
}

/* ---- operations (zlink_op.c) */

enum zlink_kind {
	ZLINK_FREE,
	ZLINK_SEND,
	ZLINK_RECV,
	ZLINK_WRITE,
	ZLINK_READ,
	ZLINK_TARGET_WRITE,
	ZLINK_TARGET_READ,
	ZLINK_UNEXPECTED,
	ZLINK_CONTROL,
	ZLINK_EVENT
};

struct zlink_op {
	struct zipc_list link;       /* of the one list it is in */
	enum zlink_kind kind;
	uint64_t id;
	struct zlink_ep *ep;         /* NULL: nobody is told */
	struct zlink_tx *tx;         /* the link it goes out by */
	struct zlink_rx *rx;         /* the link its data comes in by */
	void *context;
	uint64_t flags;              /* of its completion */
	bool report;                 /* it gets a completion */
	bool over;                   /* nothing more is to come for it */
	bool done;                   /* it is in a CQ */
	int err;
	unsigned int inflight;       /* slots that name it */
	struct iovec iov[ZLINK_IOV]; /* user's memory */
	size_t niov;
	struct zlink_dev *dev;
	struct zlink_mr *mr[ZLINK_RMA_IOV]; /* targets: what iov lies in */
	void *buf;                   /* buffer of ours */
	size_t len;                  /* of iov */
	size_t total, issued, moved; /* bytes to move, on their way, there */
	size_t msg_len;              /* of the message that was received */
	uint64_t peer_op;            /* of the sender of what is received */
	uint64_t after_pkt;
	uint64_t depart_ns;
	struct zlink_ticket ticket;
	uint64_t tag, ignore, data;
	fi_addr_t addr;
	struct zlink_op *multi;      /* the multi-receive it is a piece of */
	unsigned int pieces;         /* of a multi-receive, outstanding */
	bool multi_recv;
	struct zlink_pkt pkt;        /* what is sent; what an unexpected message said */
};

struct zlink_op *zlink_op_get(struct zlink_domain *domain, enum zlink_kind kind, struct zlink_ep *ep);
void zlink_op_put(struct zlink_domain *domain, struct zlink_op *op);
struct zlink_op *zlink_op_find(struct zlink_domain *domain, uint64_t id);
/* Nothing more is to come: reports it as soon as no slot names it. */
void zlink_op_finish(struct zlink_domain *domain, struct zlink_op *op, int err);
/* A slot does not name it any more. */
void zlink_op_release(struct zlink_domain *domain, struct zlink_op *op);
/* Starts the copies between the op's memory at `offset` and `host`. */
int zlink_op_copy(struct zlink_op *op, enum zlink_dir dir, size_t offset, void *host, size_t bytes, struct zlink_ticket *ticket);
void zlink_op_event(struct zlink_ep *ep, uint64_t data, size_t len);
/* Ends all operations of these (NULL: of any) with `err`. */
void zlink_op_end_all(struct zlink_domain *domain, struct zlink_ep *ep, struct zlink_tx *tx, struct zlink_rx *rx,
		      struct zlink_mr *mr, int err);
/* The endpoint goes: no operation names it any more. */
void zlink_op_disown(struct zlink_domain *domain, const struct zlink_ep *ep);
unsigned int zlink_op_inflight(struct zlink_domain *domain, struct zlink_ep *ep, struct zlink_mr *mr);

/* ---- links (zlink_tx.c, zlink_rx.c) */

struct zlink_slot {
	struct zlink_op *op;         /* NULL: nothing to do when it is free */
	struct zlink_ticket ticket;
	size_t bytes;
};

struct zlink_tx {
	struct zipc_list link;
	struct zlink_domain *domain;
	char to[ZLINK_ID_MAX];
	struct zlink_map map;
	bool gone;                   /* the peer is, or has closed the link */
	bool dead;                   /* and everything has ended */
	struct zipc_list queue;      /* packets that wait for a slot */
	struct zipc_list bulk;       /* operations with chunks to send */
	struct zipc_list leaving[2]; /* what is on the wire, by lane */
	uint64_t pkt_next, chunk_next; /* reserved */
	uint64_t pkt_wire, chunk_wire; /* when the wire is free for each lane */
	struct zlink_slot pkt_slot[ZLINK_PKTS], chunk_slot[ZLINK_DEPTH_MAX];
};

struct zlink_rx {
	struct zipc_list link;
	struct zlink_domain *domain;
	char from[ZLINK_ID_MAX];
	struct zlink_map map;
	bool dying;                  /* nothing new will come */
	struct zipc_list active;     /* operations that chunks come for */
	uint64_t pkt_next, chunk_next; /* looked at */
	struct zlink_slot pkt_slot[ZLINK_PKTS], chunk_slot[ZLINK_DEPTH_MAX];
};

/* The link to a node, made when there is none. */
int zlink_tx_get(struct zlink_domain *domain, const char *to, struct zlink_tx **tx_p);
/* Takes the operation, whose packet is filled in. */
void zlink_tx_post(struct zlink_tx *tx, struct zlink_op *op);
void zlink_tx_bulk(struct zlink_tx *tx, struct zlink_op *op);
void zlink_tx_control(struct zlink_domain *domain, struct zlink_rx *rx, uint32_t type, uint64_t op, uint64_t peer_op, uint64_t len,
		      int status);
void zlink_tx_progress(struct zlink_tx *tx, uint64_t now);
void zlink_tx_fail(struct zlink_tx *tx, int err);
bool zlink_tx_idle(const struct zlink_tx *tx);
void zlink_tx_close(struct zlink_tx *tx);
void zlink_rx_open(struct zlink_domain *domain, const char *from);
void zlink_rx_progress(struct zlink_rx *rx, uint64_t now);
void zlink_rx_close(struct zlink_rx *rx);

/* ---- matching (zlink_match.c) */

/* A message has come; the op that takes the data inside the packet, or NULL. */
struct zlink_op *zlink_match_arrived(struct zlink_rx *rx, struct zlink_ep *ep, const struct zlink_pkt *pkt, const void *inside);
/* A receive is posted. */
void zlink_match_post(struct zlink_ep *ep, struct zlink_op *op);
int zlink_match_peek(struct zlink_ep *ep, struct zlink_op *op, uint64_t flags);
int zlink_match_claimed(struct zlink_ep *ep, struct zlink_op *op, uint64_t flags);
void zlink_match_abort(struct zlink_rx *rx, uint64_t peer_op);

/* ---- libfabric objects */

struct zlink_fabric {
	struct fid_fabric fid;
	atomic_int ref;
};

struct zlink_mr {
	struct fid_mr fid;
	struct zipc_list link;       /* of the domain's */
	struct zlink_domain *domain;
	char *base;
	size_t len;
	uint64_t access, offset;
	struct zlink_dev *dev;
};

struct zlink_domain {
	struct fid_domain fid;
	struct zlink_fabric *fabric;
	pthread_mutex_t lock;        /* guards all that belongs to the domain */
	atomic_int ref;
	int mr_mode;
	char id[ZLINK_ID_MAX];
	struct zlink_node_shm *node;
	unsigned int bells;          /* heard */
	struct zlink_copier *copier;
	struct zlink_dev *host;
	struct zipc_list txs, rxs, eps, avs, mrs;
	struct zipc_list copying;    /* unexpected messages on their way to the user's memory */
	struct zipc_list ops;        /* free */
	struct zlink_op *slab[ZLINK_SLABS];
	unsigned int slabs;
	uint64_t next_key, looked_ns;
	unsigned int next_name;
	uint32_t next_ep;
};

struct zlink_av_entry {
	char name[ZLINK_NAME_MAX];   /* empty: free */
	uint32_t hash;
	struct zlink_tx *tx;         /* NULL: not resolved */
	uint32_t ep;
	bool met;                    /* was resolved once */
	uint64_t first_ns, last_ns;  /* attempts to resolve */
};

struct zlink_av {
	struct fid_av fid;
	struct zipc_list link;
	struct zlink_domain *domain;
	struct zlink_av_entry *entry;
	size_t count, room;
	atomic_int ref;
};

struct zlink_cq {
	struct fid_cq fid;
	struct zlink_domain *domain;
	enum fi_cq_format format;
	struct zipc_list done;
	atomic_int ref;
	atomic_bool signaled;
	bool waits;
};

struct zlink_cntr {
	struct fid_cntr fid;
	struct zlink_domain *domain;
	atomic_ullong value, errors;
	atomic_int ref;
};

enum { ZLINK_CNTR_SEND, ZLINK_CNTR_RECV, ZLINK_CNTR_READ, ZLINK_CNTR_WRITE, ZLINK_CNTR_REMOTE_READ, ZLINK_CNTR_REMOTE_WRITE, ZLINK_CNTRS };

struct zlink_ep {
	struct fid_ep fid;
	struct zipc_list link;
	struct zlink_domain *domain;
	char name[ZLINK_NAME_MAX];
	uint32_t id;
	int slot;                    /* in the node, -1: not enabled */
	uint64_t caps, tx_flags, rx_flags;
	struct zlink_av *av;
	struct zlink_cq *tx_cq, *rx_cq;
	bool tx_selective, rx_selective;
	struct zlink_cntr *cntr[ZLINK_CNTRS];
	struct zipc_list posted[2], unexpected[2]; /* 0 untagged, 1 tagged */
	struct zipc_list claimed;
	unsigned int tx_pending;
	bool closing;                /* nothing is reported any more */
	size_t min_multi;
};

static inline void zlink_lock(struct zlink_domain *domain)
{
	pthread_mutex_lock(&domain->lock);
}

static inline void zlink_unlock(struct zlink_domain *domain)
{
	pthread_mutex_unlock(&domain->lock);
}

int zlink_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info);
int zlink_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int zlink_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
int zlink_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
/* Under the lock. */
void zlink_domain_progress(struct zlink_domain *domain);
extern struct fi_ops_mr zlink_mr_ops;
struct zlink_mr *zlink_mr_find(struct zlink_domain *domain, uint64_t key);
int zlink_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
/* What fi_addr names, resolved. -FI_EAGAIN: not there yet. */
int zlink_av_peer(struct zlink_av *av, fi_addr_t fi_addr, struct zlink_av_entry **entry_p);
fi_addr_t zlink_av_find(const struct zlink_av *av, const char *name);
const char *zlink_av_name(const struct zlink_av *av, fi_addr_t fi_addr);
int zlink_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int zlink_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
/* Under the lock: the operation has ended; its CQ has it, or it is freed. */
void zlink_cq_done(struct zlink_domain *domain, struct zlink_op *op);
int zlink_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
struct zlink_ep *zlink_ep_find(struct zlink_domain *domain, uint32_t id);
extern struct fi_ops_msg zlink_msg_ops;
extern struct fi_ops_tagged zlink_tagged_ops;
extern struct fi_ops_rma zlink_rma_ops;

/* What the user handed in for an operation. Sets memory and length, or -FI_EINVAL, -FI_EAGAIN: no operation is free. */
int zlink_ep_op(struct zlink_ep *ep, enum zlink_kind kind, const struct iovec *iov, void **desc, size_t count, void *context,
		uint64_t flags, struct zlink_op **op_p);

#endif
