/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private header of the UCX transport `zip`: its objects, and which file does what.
 *
 * An interface opens one of another transport, the lower one, through the public UCT API. Small operations and active messages
 * of an endpoint go to a lower endpoint as they are. Big puts and gets are transfers of the engine (common/); its messages, and
 * puts and gets that the lower transport cannot do, travel as active messages between two interfaces, over a lower endpoint
 * of their own: the link. They share one id of the user's active messages, told apart by a header.
 *
 * Everything of an interface is called by one thread at a time, as UCT has it. Keys are the memory domain's and under its lock.
 */
#ifndef ZIPU_H
#define ZIPU_H

#include "compat.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "zipc_engine.h"
#include "zipc_list.h"

#define ZIPU_NAME "zip"
#define ZIPU_WIRE_VERSION 1
/* The id of active messages whose messages carry our header. UCP uses low ones. */
#define ZIPU_AM_ID (UCT_AM_ID_MAX - 1)
#define ZIPU_IOV_MAX ZIPC_IOV_MAX
#define ZIPU_KEY_HASH 1024u
#define ZIPU_LINK_HASH 256u
#define ZIPU_OPS_MAX 16384u     /* operations of an interface under way */
#define ZIPU_REPLIES_MAX 16384u /* answers owed to one peer: more than it may ask for at once */
#define ZIPU_LINKS_MAX (1u << 20)
#define ZIPU_STAGES 4           /* regions of staging memory */
#define ZIPU_MEET_MS 2000       /* how long a big operation waits for the first words of a peer's engine */

#define zipu_of(ptr, type, member) zipc_container(ptr, struct type, member)

/* ---- settings */

struct zipu_md_config {
	uct_md_config_t super;
	ucs_config_names_array_t tl; /* transports to stack on, best first */
	int stat_page;
};

struct zipu_iface_config {
	uct_iface_config_t super;
	size_t min_size, chunk, staging;
	int codec, dtype, policy, host, verify, stats;
};

extern ucs_config_field_t zipu_md_config_table[];
extern ucs_config_field_t zipu_iface_config_table[];

/* ---- memory domain (zipu_md.c), and what is below it (zipu_lower.c) */

/* One registration. */
struct zipu_mem {
	struct zipu_mem *next;   /* chain by key */
	uint64_t key;
	uintptr_t address;
	size_t length;
	uct_mem_h lower;         /* UCT_MEM_HANDLE_NULL: the lower domain registers nothing */
	unsigned access;         /* UCT_MD_MEM_ACCESS_* */
	unsigned users;          /* transfers of peers into or out of it */
	bool dead;               /* deregistered, with users */
};

struct zipu_md {
	uct_md_t super;
	uct_component_h lower_component;
	uct_md_h lower;
	struct zipu_md_attr lower_attr;
	char tl_name[UCT_TL_NAME_MAX];
	bool stat_page;
	struct zipc_page *page;  /* counters for zip_stat; NULL: none */
	bool lower_rma;          /* puts and gets that stay raw may go to the lower transport: it can revoke keys */
	pthread_rwlock_t lock;   /* the rest */
	struct zipu_mem *keys[ZIPU_KEY_HASH];
	uint64_t secret, count;  /* keys are drawn from these */
	unsigned dead;           /* registrations that are, and changes to be noticed by interfaces */
	unsigned deaths;
};

/* A key of a peer's, as rkey_unpack makes it. */
struct zipu_rkey {
	uint64_t key;
	uct_component_h component; /* the lower one; NULL: no lower key */
	uct_rkey_bundle_t lower;
};

/* As it travels; the lower key follows. */
struct zipu_packed_key {
	uint64_t key;
	uint32_t component;      /* hash of the lower component's name */
	uint32_t size;           /* bytes of the lower key */
} __attribute__((packed));

void zipu_md_query(struct zipu_md *md, struct zipu_md_attr *attr);
ucs_status_t zipu_md_reg(struct zipu_md *md, void *address, size_t length, uint64_t flags, uct_mem_h *memh);
/* `comp` may be NULL; it is told when nobody can use the key any more, which may be at once. */
ucs_status_t zipu_md_dereg(struct zipu_md *md, uct_mem_h memh, unsigned flags, uct_completion_t *comp);
ucs_status_t zipu_md_pack(struct zipu_md *md, uct_mem_h memh, void *address, size_t length, unsigned flags, void *buffer);
void zipu_md_close(struct zipu_md *md);
ucs_status_t zipu_md_open(const char *name, const uct_md_config_t *config, struct zipu_md **md);
ucs_status_t zipu_query_md_resources(uct_md_resource_desc_t **resources, unsigned *count);
ucs_status_t zipu_rkey_unpack(const void *buffer, uct_rkey_t *rkey);
void zipu_rkey_release(uct_rkey_t rkey);

/*
 * The registration that this key and range name and that allows this access (UCT_MD_MEM_ACCESS_REMOTE_PUT or _GET), with one more
 * user; NULL: there is none. The caller gives it back with zipu_mem_put.
 */
struct zipu_mem *zipu_mem_get(struct zipu_md *md, uint64_t key, uint64_t address, uint64_t length, unsigned access);
void zipu_mem_put(struct zipu_md *md, struct zipu_mem *mem);
/* 1 if there is one: until unlock it is not deregistered under the caller's hands. 0: there is none, and nothing is locked. */
int zipu_mem_lock(struct zipu_md *md, uint64_t key, uint64_t address, uint64_t length, unsigned access);
void zipu_mem_unlock(struct zipu_md *md);

/*
 * A domain and a transport below us. `tl` are the names that are wanted, best first: "ud" means ud_verbs and its like too. The
 * list is malloc'ed; each has a name of its own for us.
 */
struct zipu_lower {
	uct_component_h component;
	char md_name[UCT_MD_NAME_MAX], name[UCT_MD_NAME_MAX], tl_name[UCT_TL_NAME_MAX];
};

ucs_status_t zipu_lower_find(const ucs_config_names_array_t *tl, struct zipu_lower **found, unsigned *count);
ucs_status_t zipu_lower_open_md(uct_component_h component, const char *name, uct_md_h *md);
ucs_status_t zipu_lower_devices(struct zipu_md *md, uct_tl_device_resource_t **devices, unsigned *count);
uct_component_h zipu_lower_by_hash(uint32_t hash);
uint32_t zipu_lower_hash(uct_component_h component);

/* ---- messages between two interfaces, on ZIPU_AM_ID */

enum zipu_msg_type {
	ZIPU_MSG_USER = 1,  /* an active message of the user's with this very id follows */
	ZIPU_MSG_HELLO,     /* who I am: a struct zipu_address follows. First on every link */
	ZIPU_MSG_CONTROL,   /* of the engine */
	ZIPU_MSG_BULK,      /* a part of a chunk of the engine */
	ZIPU_MSG_PUT,       /* data to be put */
	ZIPU_MSG_GET,       /* data is wanted */
	ZIPU_MSG_DATA,      /* here it is */
	ZIPU_MSG_ACK,       /* a put, or a get that failed, is over */
};

struct zipu_hdr {
	uint8_t type, version;
	uint16_t zero;
	uint32_t op;        /* PUT, GET, DATA, ACK: the asker's number of the operation */
	uint64_t sender;    /* id of the interface that it comes from */
} __attribute__((packed));

/* What a link's peer is reached at; the lower addresses follow. */
struct zipu_address {
	uint64_t id;
	uint8_t device_len, iface_len;
} __attribute__((packed));

#define ZIPU_ADDRESS_MAX ZIPC_ADDR_MAX

struct zipu_msg_bulk {
	struct zipu_hdr hdr;
	uint64_t tag;
	uint32_t offset, total;
} __attribute__((packed));

struct zipu_msg_put {
	struct zipu_hdr hdr;
	uint64_t address, key;
	uint32_t last;      /* 1: an ACK is wanted */
} __attribute__((packed));

struct zipu_msg_get {
	struct zipu_hdr hdr;
	uint64_t address, key, length;
} __attribute__((packed));

struct zipu_msg_data {
	struct zipu_hdr hdr;
	uint64_t offset;
} __attribute__((packed));

struct zipu_msg_ack {
	struct zipu_hdr hdr;
	int32_t status;     /* ucs_status_t */
} __attribute__((packed));

/* Bytes of the header in front of a user's message: of hdr, the first eight. */
#define ZIPU_USER_HDR 8u
/* The largest header of a message with data. */
#define ZIPU_MSG_MAX sizeof(struct zipu_msg_put)

/* ---- interface (zipu_iface.c) */

/* The address that an interface gives out in front of the lower one's. */
struct zipu_iface_addr {
	uint64_t id;
	uint8_t version;
} __attribute__((packed));

/* 1 for the address of an interface that speaks as we do, and the lower one's address in it. */
static inline int zipu_iface_addr_ours(const uct_iface_addr_t *addr)
{
	return ((const struct zipu_iface_addr *)(const void *)addr)->version == ZIPU_WIRE_VERSION;
}

static inline const uct_iface_addr_t *zipu_iface_addr_lower(const uct_iface_addr_t *addr)
{
	return (const void *)((const struct zipu_iface_addr *)(const void *)addr + 1);
}

struct zipu_am {
	struct zipu_iface *iface;
	uint8_t id;
};

struct zipu_iface {
	uct_base_iface_t super;
	struct zipu_md *md;
	uct_iface_h lower;
	uct_iface_attr_t lower_attr;
	uint64_t id;
	struct zipu_am am[UCT_AM_ID_MAX];
	size_t frag_bcopy, frag_zcopy; /* bytes of data behind a header of ours; frag_zcopy 0: none */
	size_t max_iov;          /* segments of a put or get */
	bool translate;          /* the lower transport wants its own memory handles */
	bool stats;
	size_t staging;
	int page_section;
	uint64_t page_ms;        /* when counters were last copied there */
	struct zipc_engine *engine;
	void *dev;
	uct_mem_h stage_memh[ZIPU_STAGES];
	char *stage_base[ZIPU_STAGES];
	size_t stage_len[ZIPU_STAGES];
	size_t min_size;
	struct zipc_list eps;
	struct zipc_list waiting;   /* endpoints with pending requests */
	struct zipc_list failing;   /* endpoints whose error is to be told */
	struct zipc_list done;      /* operations whose end is to be told */
	struct zipc_list events;    /* of the engine's network, to be told */
	struct zipc_list links;
	struct zipc_list sending;   /* links with something queued */
	struct zipc_list targets;   /* peers' transfers into or out of our memory */
	struct zipu_link *by_id[ZIPU_LINK_HASH];
	struct zipc_op *by_tag[ZIPU_LINK_HASH]; /* chunks to be received */
	unsigned nlinks;
	struct zipu_op **ops;       /* by the low bits of an operation's number */
	unsigned nops;
	struct zipc_list free_ops;
	unsigned busy;              /* operations of our own under way */
	unsigned deaths;            /* md->deaths when last looked at */
	bool driving;               /* the lower interface's progress is called by us */
	unsigned quiet, skipped;    /* how often it had nothing to do, and was not called since */
	bool work;                  /* the engine could go on at once */
	uint64_t raw_puts, raw_gets; /* answered by active messages of ours */
};

/* ---- links (zipu_link.c) */

struct zipu_link {
	struct zipc_list link;      /* iface->links */
	struct zipc_list sending;   /* iface->sending */
	struct zipu_link *hash;
	struct zipu_iface *iface;
	uct_ep_h ep;                /* NULL: failed, or not made yet */
	struct zipu_address *address; /* malloc'ed */
	size_t address_len;
	uint64_t id;                /* the peer's */
	unsigned refs;              /* endpoints, and the engine */
	bool hello_sent, failed;
	uint64_t met_ms;            /* when the engine was told; 0: it was not */
	struct zipc_peer *peer;     /* NULL until looked up */
	struct zipc_list tx;        /* struct zipu_tx with fragments to be sent */
	struct zipc_list sent;      /* and with fragments that the lower transport has not ended */
	struct zipu_ack *acks;      /* a ring of acknowledgements to be sent */
	unsigned ack_first, ack_count, ack_room;
	unsigned replies;           /* gets to be answered, which are in `tx` */
};

/*
 * Something on a link's queue. Its fragments may be with the lower transport when all is sent. That is counted loosely: tcp of
 * UCX 1.13 tells the end of a fragment twice when the connection breaks.
 */
struct zipu_tx {
	struct zipc_list link;  /* link->tx, then link->sent */
	/* Sends what it can. UCS_OK: all is sent; else an error, UCS_ERR_NO_RESOURCE among them. */
	ucs_status_t (*step)(struct zipu_link *link, struct zipu_tx *tx);
	/* It is off the queue, and the lower transport is done with its memory. Not called by the engine. */
	void (*end)(struct zipu_link *link, struct zipu_tx *tx, ucs_status_t status);
	uct_completion_t comp;  /* of fragments */
	uint32_t started;       /* of these */
};

struct zipu_ack {
	uint32_t op;
	int32_t status;
};

/*
 * The link to the peer with this address, made if there is none. An address that the user has given is right, whatever another
 * peer has said. NULL: out of memory, an address that cannot be, or a peer's word against what is known.
 */
struct zipu_link *zipu_link_get(struct zipu_iface *iface, const struct zipu_address *address, size_t len, bool users);
void zipu_link_put(struct zipu_link *link);
struct zipu_link *zipu_link_find(struct zipu_iface *iface, uint64_t id);
/* Makes the lower endpoint, if there is none, and says hello. UCS_OK: messages can be sent. */
ucs_status_t zipu_link_ready(struct zipu_link *link);
void zipu_link_queue(struct zipu_link *link, struct zipu_tx *tx);
/* Takes one back: its end comes at once, or when the lower transport is done with it. */
void zipu_link_unqueue(struct zipu_link *link, struct zipu_tx *tx);
void zipu_link_ack(struct zipu_link *link, uint32_t op, ucs_status_t status);
void zipu_link_fail(struct zipu_link *link);
/* It is looked at in the next progress. */
void zipu_link_wake(struct zipu_link *link);
/* Our own struct zipu_address, at most ZIPU_ADDRESS_MAX bytes. Returns its length. */
size_t zipu_own_address(struct zipu_iface *iface, uint8_t *out);
/* Moves what is queued on all links. */
void zipu_links_progress(struct zipu_iface *iface);
void zipu_links_close(struct zipu_iface *iface);
void zipu_hdr_fill(const struct zipu_iface *iface, struct zipu_hdr *hdr, enum zipu_msg_type type, uint32_t op);
/*
 * Sends one message: a header and `len` bytes of the iov from byte `offset`. With `tx` the bytes are not copied, and it counts
 * what is started. Returns UCS_OK, UCS_ERR_NO_RESOURCE or another error.
 */
ucs_status_t zipu_link_send(struct zipu_link *link, const void *hdr, size_t hdr_len, const struct iovec *iov, size_t niov,
			    size_t offset, size_t len, uct_mem_h memh, struct zipu_tx *tx);
/* The handler of all active messages of the lower interface; arg is a struct zipu_am. */
ucs_status_t zipu_am_handler(void *arg, void *data, size_t length, unsigned flags);

/* ---- the engine's network (zipu_net.c) */

extern const struct zipc_net_ops zipu_net_ops;
void zipu_net_bulk(struct zipu_iface *iface, const struct zipu_msg_bulk *msg, const void *data, size_t len);
void zipu_net_events(struct zipu_iface *iface);
/* The lower domain's handle of staging memory. */
uct_mem_h zipu_stage_memh(const struct zipu_iface *iface, const void *buf);
/* Ends the receives that wait for chunks of this peer. */
void zipu_net_link_failed(struct zipu_link *link);

/* ---- endpoints (zipu_ep.c) and the order of their operations (zipu_op.c) */

enum zipu_blocked {
	ZIPU_BLOCKED_PENDING = 1 << 0, /* requests wait: later ones must not overtake them */
	ZIPU_BLOCKED_FENCE = 1 << 1,
	ZIPU_BLOCKED_FAILED = 1 << 2,
};

struct zipu_ep {
	uct_base_ep_t super;
	uct_ep_h lower;
	unsigned blocked;
	ucs_status_t error;
	struct zipc_list link;      /* iface->eps */
	struct zipc_list waiting, failing;
	struct zipc_list ops;       /* operations of our own, in the order of their issue, and marks of flushes and fences */
	unsigned fences;            /* marks in it */
	ucs_queue_head_t pending;
	bool hold_each;             /* a fence came while requests waited: what each of them starts is waited for */
	struct zipu_link *peer;     /* NULL until needed */
	size_t address_len;
	uint8_t address[ZIPU_ADDRESS_MAX]; /* a struct zipu_address */
};

static inline struct zipu_iface *zipu_iface_of(uct_iface_h iface)
{
	return zipu_of(iface, zipu_iface, super.super);
}

static inline struct zipu_ep *zipu_ep_of(uct_ep_h ep)
{
	return zipu_of(ep, zipu_ep, super.super);
}

static inline struct zipu_iface *zipu_ep_iface(const struct zipu_ep *ep)
{
	return zipu_iface_of(ep->super.super.iface);
}

enum zipu_op_kind { ZIPU_OP_FREE, ZIPU_OP_PUT, ZIPU_OP_GET, ZIPU_OP_WRITE, ZIPU_OP_READ, ZIPU_OP_FLUSH, ZIPU_OP_FENCE };

struct zipu_op {
	struct zipc_list link;      /* ep->ops, or iface->free_ops */
	struct zipc_list done;      /* iface->done */
	struct zipu_tx tx;          /* PUT, GET: on a link's queue */
	struct zipu_iface *iface;
	struct zipu_ep *ep;         /* NULL: it has failed or closed */
	struct zipu_link *peer;
	uint32_t id;
	enum zipu_op_kind kind;
	ucs_status_t status;
	uct_completion_t *comp;     /* the user's; may be NULL */
	unsigned flags;             /* FLUSH */
	bool over;                  /* nothing more comes from the peer */
	bool sending;               /* PUT: on a link's queue */
	uint64_t address, key;
	size_t total, at;
	uct_unpack_callback_t unpack; /* GET: for a bcopy */
	void *unpack_arg;
	uct_mem_h memh;             /* PUT: of the lower domain, for all segments */
	bool zcopy;                 /* PUT: fragments are not copied */
	size_t niov;
	struct iovec iov[ZIPU_IOV_MAX];
	struct zipc_send *send;     /* WRITE */
	struct zipc_recv *recv;     /* READ */
};

/* NULL: too many are under way. */
struct zipu_op *zipu_op_alloc(struct zipu_ep *ep, enum zipu_op_kind kind, uct_completion_t *comp);
struct zipu_op *zipu_op_lookup(struct zipu_iface *iface, uint32_t id, enum zipu_op_kind kind);
/* Gives back one that was not started. */
void zipu_op_drop(struct zipu_op *op);
/* It is over: told at the next progress, once the lower transport is done with it too (settle). */
void zipu_op_finish(struct zipu_op *op, ucs_status_t status);
void zipu_op_settle(struct zipu_op *op);
/* The target refused, or what came was bad: the operation ends so, and the endpoint with it. */
void zipu_op_reject(struct zipu_op *op, ucs_status_t status);
/* Tells ends, and lets flushes and fences pass. Returns how many were told. */
unsigned zipu_ops_progress(struct zipu_iface *iface);
/* Ends all operations of an endpoint. */
void zipu_ops_cancel(struct zipu_ep *ep, ucs_status_t status);
/* Likewise, telling nobody: it is closed. */
void zipu_ops_forget(struct zipu_ep *ep);
void zipu_ops_close(struct zipu_iface *iface);
ucs_status_t zipu_ep_flush(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t zipu_ep_fence(uct_ep_h ep, unsigned flags);
/* Nothing more goes out before all that is under way is over. */
ucs_status_t zipu_ep_hold(struct zipu_ep *ep);
ucs_status_t zipu_iface_flush(uct_iface_h iface, unsigned flags, uct_completion_t *comp);
ucs_status_t zipu_iface_fence(uct_iface_h iface, unsigned flags);

ucs_status_t zipu_ep_create(const uct_ep_params_t *params, uct_ep_h *ep);
void zipu_ep_destroy(uct_ep_h ep);
ucs_status_t zipu_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
			     const uct_iface_config_t *config, uct_iface_h *iface);
ucs_status_t zipu_ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void *payload, unsigned length);
ucs_status_t zipu_ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t *iov, size_t iovcnt);
ssize_t zipu_ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack, void *arg, unsigned flags);
ucs_status_t zipu_ep_am_zcopy(uct_ep_h ep, uint8_t id, const void *header, unsigned header_length, const uct_iov_t *iov,
			      size_t iovcnt, unsigned flags, uct_completion_t *comp);
ucs_status_t zipu_ep_atomic_cswap64(uct_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr, uct_rkey_t rkey,
				    uint64_t *result, uct_completion_t *comp);
ucs_status_t zipu_ep_atomic_cswap32(uct_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr, uct_rkey_t rkey,
				    uint32_t *result, uct_completion_t *comp);
ucs_status_t zipu_ep_atomic32_post(uct_ep_h ep, unsigned opcode, uint32_t value, uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t zipu_ep_atomic64_post(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t zipu_ep_atomic32_fetch(uct_ep_h ep, unsigned opcode, uint32_t value, uint32_t *result, uint64_t remote_addr,
				    uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t zipu_ep_atomic64_fetch(uct_ep_h ep, unsigned opcode, uint64_t value, uint64_t *result, uint64_t remote_addr,
				    uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t zipu_ep_check(uct_ep_h ep, unsigned flags, uct_completion_t *comp);
ucs_status_t zipu_ep_pending_add(uct_ep_h ep, uct_pending_req_t *req, unsigned flags);
void zipu_ep_pending_purge(uct_ep_h ep, uct_pending_purge_callback_t cb, void *arg);

/* What an operation returns on an endpoint that is blocked. */
static inline ucs_status_t zipu_ep_blocked(const struct zipu_ep *ep)
{
	return ep->blocked & ZIPU_BLOCKED_FAILED ? ep->error : UCS_ERR_NO_RESOURCE;
}

/* Nothing goes out any more; its operations end, and the user is told, in progress. */
void zipu_ep_fail(struct zipu_ep *ep, ucs_status_t status);
/* Ends the operations of endpoints that have failed. */
void zipu_eps_fail(struct zipu_iface *iface);
/* Tells of failed endpoints, and calls requests that wait. */
unsigned zipu_eps_progress(struct zipu_iface *iface);
/* The link of an endpoint's peer; NULL when there is none to be had. */
struct zipu_link *zipu_ep_peer(struct zipu_ep *ep);

/* ---- puts and gets by active messages (zipu_rma.c), and as transfers (zipu_xfer.c) */

ucs_status_t zipu_ep_put_short(uct_ep_h ep, const void *buffer, unsigned length, uint64_t remote_addr, uct_rkey_t rkey);
ssize_t zipu_ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void *arg, uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t zipu_ep_put_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt, uint64_t remote_addr, uct_rkey_t rkey,
			       uct_completion_t *comp);
ucs_status_t zipu_ep_get_short(uct_ep_h ep, void *buffer, unsigned length, uint64_t remote_addr, uct_rkey_t rkey);
ucs_status_t zipu_ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void *arg, size_t length, uint64_t remote_addr,
			       uct_rkey_t rkey, uct_completion_t *comp);
ucs_status_t zipu_ep_get_zcopy(uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt, uint64_t remote_addr, uct_rkey_t rkey,
			       uct_completion_t *comp);
/* What arrives for them. `hdr` is whole; `data` and `len` are what follows it. */
void zipu_rma_put(struct zipu_link *link, const struct zipu_msg_put *msg, const void *data, size_t len);
void zipu_rma_get(struct zipu_link *link, const struct zipu_msg_get *msg);
void zipu_rma_data(struct zipu_link *link, const struct zipu_msg_data *msg, const void *data, size_t len);
void zipu_rma_ack(struct zipu_link *link, const struct zipu_msg_ack *msg);

/*
 * Tries to make a put or get a transfer. UCS_INPROGRESS: it is one; UCS_ERR_NO_RESOURCE: not now; UCS_ERR_UNSUPPORTED: it stays
 * raw.
 */
ucs_status_t zipu_xfer_start(struct zipu_ep *ep, bool put, const struct iovec *iov, size_t niov, size_t total,
			     uint64_t address, uint64_t key, uct_completion_t *comp);
/* Ends a transfer early, nothing touches the user's memory any more. */
void zipu_xfer_cancel(struct zipu_op *op);
ucs_status_t zipu_engine_open(struct zipu_iface *iface, const struct zipu_iface_config *config);
/* Takes leave of peers: what is queued goes out, as far as they take it. */
void zipu_engine_leave(struct zipu_iface *iface);
void zipu_engine_close(struct zipu_iface *iface);
/* Peers' transfers whose memory was deregistered. */
void zipu_targets_revoke(struct zipu_iface *iface);
ucs_status_t zipu_status(int zipc_status);

/* ---- counters for others to see (zipu_page.c) */

void zipu_page_attach(struct zipu_iface *iface, const char *device);
/* Copies the counters, if that was not done a moment ago. */
void zipu_page_update(struct zipu_iface *iface);
void zipu_page_detach(struct zipu_iface *iface);
void zipu_page_close(struct zipu_md *md);

#endif
