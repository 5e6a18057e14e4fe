/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private header of the provider ofi_zip: its objects, and which file does what.
 *
 * Every object wraps one of the core provider. An endpoint has a companion, a second core endpoint with an AV and a CQ of
 * its own, over which the transfer engine (common/) speaks; the application's messages stay on the first.
 *
 * Locks, in the order in which they are taken: ep->lock (engine and companion), then a leaf: cq->lock (lists of
 * completions), ep->rec_lock (free records), av->lock, domain->mr_lock (table of regions). No lock is held while the application's core objects are called;
 * the companion is called under ep->lock, which nobody else can need there. Under FI_THREAD_DOMAIN no lock is taken.
 */
#ifndef ZIPFI_H
#define ZIPFI_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "zipc_engine.h"
#include "zipc_list.h"
#include "zipfi_lf.h"

#define ZIPFI_NAME "ofi_zip"
#define ZIPFI_VERSION FI_VERSION(0, 1)
/* Flag of fi_getinfo with which a provider reaches cores that FI_PROVIDER hides (OFI_GETINFO_HIDDEN in libfabric's ofi.h). */
#define ZIPFI_GETINFO_HIDDEN (1ULL << 60)
#define ZIPFI_CORE_PROV_ONLY (1ULL << 59)

#define ZIPFI_IOV_MAX ZIPC_IOV_MAX
/* Orders of which one half is a write or a read, all of which a transfer breaks. */
#define ZIPFI_ORDER_RMA (FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAR | \
			 FI_ORDER_SAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW)
#define ZIPFI_IDLE_READS 128   /* an idle endpoint's companion is looked at on every so many reads of a CQ */
#define ZIPFI_CQ_BATCH 16
#define ZIPFI_STAGES 4        /* regions of staging memory */
#define ZIPFI_CTL_BUFS 64     /* receives kept posted for control messages */
#define ZIPFI_MR_BITS 8       /* of the table of regions */
#define ZIPFI_RMA_POLLED (1u << 20) /* bytes from which a write whose target may poll its memory is a transfer */
#define ZIPFI_GREET_MAX 32    /* peers greeted when they are inserted; further ones when first sent to */

extern struct fi_provider zipfi_prov;

#define ZIPFI_WARN(subsys, ...) FI_WARN(&zipfi_prov, FI_LOG_##subsys, __VA_ARGS__)
#define ZIPFI_INFO(subsys, ...) FI_INFO(&zipfi_prov, FI_LOG_##subsys, __VA_ARGS__)

#define zipfi_of(ptr, type, member) zipc_container(ptr, struct type, member)

/* ---- settings (zipfi_param.c) */

enum zipfi_stats {
	ZIPFI_STATS_OFF,
	ZIPFI_STATS_TIMES, /* take times, for read_stats of fi_ext_zip.h */
	ZIPFI_STATS_ON,    /* that, and print the counters at the end */
};

struct zipfi_param {
	size_t min_size, chunk, staging;
	enum zipc_codec codec;
	enum zipc_dtype dtype;
	enum zipc_policy policy;
	enum zipfi_stats stats;
	int stat_page, host, verify, rma;
	int relaxed; /* orders between messages and RMA that a transfer breaks are given up */
	size_t device_staging;
};

extern struct zipfi_param zipfi_param;

void zipfi_param_define(void);
/* Reads the settings. A wrong one is logged with the allowed values and gives -FI_EINVAL. */
int zipfi_param_read(void);

/* ---- addresses (zipfi_addr.c) */

/*
 * The mark: bytes that the core's address format leaves unused and that hold the companion's address.
 * All functions take the core's fi_info address format.
 */
struct zipfi_addr {
	uint8_t main[ZIPC_ADDR_MAX], comp[ZIPC_ADDR_MAX];
	size_t main_len, comp_len; /* comp_len 0: no mark */
};

/* Splits an address as the application has it into the core's own and the companion's. Returns 0 or -FI_EINVAL. */
int zipfi_addr_split(uint32_t format, const void *addr, size_t len, struct zipfi_addr *out);
/*
 * Puts the mark of `comp` onto `main` in place. -FI_ENOSYS when the format has no room for a mark or the two do not fit
 * together: the address then stays as it is.
 */
int zipfi_addr_mark(uint32_t format, void *main, size_t len, const void *comp, size_t comp_len);
/* For names that the core makes up: the name to give the endpoint instead, in place. -FI_ENOSYS: leave it. */
int zipfi_addr_rename(uint32_t format, char *name, size_t *len, size_t room);
/* Bytes of the first address in an array given to fi_av_insert; 0: a format nothing is known about. */
size_t zipfi_addr_size(uint32_t format, const void *addr);
/* Where the companion's endpoint asks to be opened: `main` with another port, or another name. */
int zipfi_addr_companion(uint32_t format, const void *main, size_t main_len, void *out, size_t *out_len);

/* ---- objects */

struct zipfi_fabric {
	struct fid_fabric fid;
	struct fid_fabric *core;
	char *core_name;       /* the core's full name, which ours may not spell out (see zipfi_rename); hooked: its last part */
	/*
	 * FI_HOOK=zip: the application speaks to the core by its own name and knows nothing of us. Infos are the core's, every tag bit
	 * is the application's, and so are the core's event queues. What is not FI_EP_RDM passes by: it may be ofi_rxm's own.
	 */
	bool hooked;
};

struct zipfi_domain {
	struct fid_domain fid;
	struct zipfi_fabric *fabric;
	struct fid_domain *core;
	uint64_t mr_mode;
	bool locking;          /* several threads may be in here at once */
	bool auto_progress;    /* a thread of ours drives all endpoints */
	pthread_mutex_t lock;  /* eps and the thread */
	struct zipc_list eps, graveyard; /* graveyard: closed endpoints */
	pthread_t thread;
	bool thread_running;
	atomic_bool thread_stop;
	uint32_t addr_format;
	struct zipc_page *page; /* of counters, or NULL */
	bool mr_virtual;       /* regions are addressed by virtual addresses, else by offsets */
	pthread_mutex_t mr_lock; /* mrs, and `open` of each region */
	struct zipc_list mrs[1 << ZIPFI_MR_BITS]; /* by key */
	struct zipfi_hmem *hmem; /* NULL: the application has not asked for FI_HMEM */
	bool core_hmem;        /* the core offers it too */
};

/* One thing an application can wait on: an epoll fd with the core's fds and an eventfd in it. fds are -1 when there are none. */
struct zipfi_wait {
	enum fi_wait_obj obj;
	int epfd, evfd;
	atomic_bool signaled;
};

struct zipfi_cq {
	struct fid_cq fid;
	struct zipfi_domain *domain;
	struct fid_cq *core;
	enum fi_cq_format format;
	bool source;           /* an endpoint with FI_SOURCE is bound: addresses of senders are asked for */
	struct zipfi_wait wait;
	pthread_spinlock_t lock; /* ready, errors */
	struct zipc_list ready, errors; /* records of completions that wait to be read */
	atomic_uint nready, nerrors;
	atomic_bool signaled;  /* fi_cq_signal was called */
	atomic_uint reads;     /* counted, to look at idle endpoints now and then */
	atomic_bool busy;      /* an endpoint bound here has something under way */
	pthread_mutex_t ep_lock;
	struct zipfi_ep **eps; /* endpoints bound, for progress; guarded by ep_lock */
	size_t neps;
	atomic_int ref;
};

struct zipfi_cntr {
	struct fid_cntr fid;
	struct zipfi_domain *domain;
	struct fid_cntr *core; /* counts what the core alone knows: raw RMA, and a target's events */
	atomic_int mrs;        /* regions bound to it: whoever reads it waits for any endpoint of the domain */
	atomic_uint_fast64_t success, error;
	struct zipfi_wait wait;
	pthread_mutex_t ep_lock;
	struct zipfi_ep **eps;
	size_t neps;
	atomic_int ref;
};

struct zipfi_av {
	struct fid_av fid;
	struct zipfi_domain *domain;
	struct fid_av *core;
	pthread_mutex_t lock;  /* map, eps */
	struct zipfi_av_entry *map; /* open addressing, by fi_addr */
	size_t map_size, map_used;
	struct zipfi_ep **eps;
	size_t neps;
	atomic_int ref;
};

struct zipfi_mr {
	struct fid_mr fid;
	struct fid_mr *core;   /* NULL: device memory that the core cannot register */
	struct zipfi_domain *domain;
	struct zipc_list link;  /* the domain's table; nowhere before it is enabled and once it closes */
	struct zipfi_ep *ep;    /* bound to it: nobody else's key */
	struct zipfi_cntr *wr_cntr, *rd_cntr; /* FI_RMA_EVENT */
	uint64_t access;
	bool enabled;
	unsigned open;          /* transfers of peers into or out of it */
	size_t total, niov;     /* niov 0: no memory that a transfer could reach */
	const void *base;       /* hmem: the region as it stands in its table; NULL: it does not */
	size_t base_len;
	struct iovec iov[];
};

/* A peer's transfer into or out of regions here. Under ep->lock. */
struct zipfi_access {
	struct zipc_list link;  /* ep->accesses, or ep->free_accesses */
	struct zipfi_ep *ep;
	struct zipfi_mr *mr[ZIPC_RMA_SEGS];
	unsigned nmr;
	bool write;
};

struct zipfi_eq {
	struct fid_eq fid;
	struct fid_eq *core;
};

enum zipfi_rec_kind {
	ZIPFI_REC_SEND,        /* send or RMA or atomic of the application that went to the core as it was */
	ZIPFI_REC_PLACEHOLDER, /* a placeholder; its transfer reports to another record */
	ZIPFI_REC_XFER,        /* a send that travels as a transfer */
	ZIPFI_REC_RECV,
	ZIPFI_REC_MULTI,       /* multi-receive buffer */
	ZIPFI_REC_PEEK,        /* FI_PEEK, with or without FI_CLAIM and FI_DISCARD */
	ZIPFI_REC_CLAIMED,     /* message claimed; waits for the receive that takes it, or is with the core again */
	ZIPFI_REC_REMOTE,      /* an event without operation, parked */
};

/* A copy between host memory and segments on a device, through windows. */
struct zipfi_copy {
	struct zipc_list link; /* hmem->copies */
	struct zipfi_ep_dev *dev;
	const struct iovec *iov;
	size_t niov;
	uint8_t *host;
	size_t nbytes, at, n;  /* n: bytes of the piece that is under way */
	bool to_device;
	void *window, *job;
	void (*done)(struct zipfi_copy *copy, int status); /* under ep->lock */
};

/* One operation of the application, from the post to the moment its completion is read. */
struct zipfi_rec {
	struct fi_context2 core_context; /* first: what the core gets as context */
	struct zipc_list link;           /* free list, or ready and error lists of a CQ */
	struct zipfi_ep *ep;             /* NULL: from malloc */
	void *context;
	uint8_t kind;
	bool report;                     /* a completion is wanted */
	bool fence;                      /* posted with FI_FENCE: ep->fences counts it until it completes */
	bool bounced;                    /* the message lands in `bounce` */
	bool discard;
	bool busy;                       /* in use, and the core may name it in an event */
	uint8_t niov;
	uint64_t op_flags;               /* FI_MSG/FI_TAGGED/FI_RMA..., FI_SEND/FI_RECV of the completion */
	size_t total;                    /* bytes of the buffers */
	struct iovec iov[ZIPFI_IOV_MAX];
	/* the completion, once there is one */
	struct fi_cq_tagged_entry done;
	fi_addr_t src;
	int err, prov_errno;
	size_t olen;
	uint32_t send_id;                /* PLACEHOLDER: its transfer */
	struct zipc_recv *claimed;       /* CLAIMED: the transfer that was claimed, or NULL for a plain message */
	uint64_t deadline_ms;            /* PEEK: when to stop waiting for a control record */
	struct zipc_peer *peek_peer;     /* PEEK: whose message it is, NULL when that is not known */
	struct zipfi_ep_dev *dev;        /* the device that the buffers are on; NULL: the host */
	struct zipfi_landing *landing;   /* where the message lies for the core, when it cannot take the buffers */
	uint8_t bounce[64];              /* a placeholder sent, or a short message received */
	struct zipfi_copy copy;          /* RECV: the way from the landing, or from `bounce`, to a device */
};

struct zipfi_ep {
	struct fid_ep fid;
	struct zipfi_domain *domain;
	struct zipc_list domain_link;
	struct fid_ep *core;
	struct fi_info *info;            /* as the core knows it */
	uint64_t zbit;                   /* the tag bit that marks a placeholder, 0 when it must be told by its contents alone */
	uint64_t tx_flags, rx_flags;     /* default op_flags */
	bool tx_selective, rx_selective;
	bool order_raw;                  /* an ordering was asked for that a transfer would break */
	bool rma_raw;                    /* writes and reads stay raw: the same for them, or a setting */
	bool in_order;                   /* the application polls memory for bytes other than the last ones */
	atomic_uint fences;              /* operations with FI_FENCE that the core has not completed */
	bool multi_recv;
	bool enabled;
	struct zipfi_av *av;
	struct zipfi_cq *tx_cq, *rx_cq;
	struct fid_cq *tx_hidden, *rx_hidden; /* core CQs where the application bound none */
	struct zipfi_cntr *tx_cntr, *rx_cntr, *wr_cntr, *rd_cntr, *remote_wr_cntr, *remote_rd_cntr;
	/* records */
	pthread_spinlock_t rec_lock;
	struct zipc_list free_recs;
	struct zipfi_rec *recs;
	size_t nrecs, recs_used, recs_bytes;
	struct fid_mr *recs_mr;
	void *recs_desc;
	/* companion and engine, under lock; engine NULL: everything goes raw */
	pthread_mutex_t lock;
	struct zipc_engine *engine;
	void *dev;
	struct fid_ep *comp;
	struct fid_av *comp_av;
	struct fid_cq *comp_cq;
	bool comp_has_fd;
	struct fi_info *comp_info;
	struct zipfi_ctl_buf *ctl_bufs;  /* ZIPFI_CTL_BUFS to receive, then as many to send */
	struct zipc_list ctl_free;       /* of those to send */
	struct zipc_list ctl_repost;     /* of those to receive: the core had no room for them */
	struct fid_mr *ctl_mr, *stage_mr[ZIPFI_STAGES];
	char *stage_base[ZIPFI_STAGES];
	size_t stage_len[ZIPFI_STAGES];
	uint8_t name[2 * ZIPC_ADDR_MAX]; /* with mark */
	size_t name_len;
	int beacon_fd;                   /* -1: none */
	uint64_t beacon_ms, announced_ms;
	uint8_t comp_name[ZIPC_ADDR_MAX];
	unsigned greeted;
	struct zipc_list peeks;          /* peeks that wait for a control record */
	bool paged;                      /* counted among the page's endpoints, */
	int page_section;                /* -1: without a section */
	uint64_t page_ms;                /* when counters were last copied there */
	struct zipc_list accesses, free_accesses; /* struct zipfi_access */
	struct zipfi_ep_hmem *hmem;      /* NULL: no device memory here */
	bool cuda_forbidden;             /* FI_OPT_CUDA_API_PERMITTED was set to false, */
	bool core_blind;                 /* and the core would not have it */
	bool closed;                     /* kept only because the core may still name its records */
	atomic_bool busy;                /* copy of zipc_engine_busy, read without the lock */
	atomic_bool work;                /* the engine could go on at once */
};

/* A send in one form, whichever call it came by. */
struct zipfi_out {
	const struct iovec *iov;
	void **desc;
	size_t niov;
	size_t total;
	fi_addr_t dest;
	uint64_t tag, data, flags; /* flags of fi_sendmsg */
	uint64_t kind;             /* FI_MSG or FI_TAGGED */
	void *context;
	struct zipc_peer *peer;    /* found on the way, or NULL */
	bool defaults;             /* not a ...msg call: the endpoint's op_flags hold */
	bool silent;               /* no completion, whatever the flags say */
	struct zipfi_ep_dev *dev;  /* the device that the segments are on; NULL: the host */
	struct zipfi_landing *landing; /* that they lie in; the record's once the message was accepted */
};

/* ---- conditional locks: nothing to do when the application serialises its calls */

static inline void zipfi_lock(const struct zipfi_domain *domain, pthread_mutex_t *lock)
{
	if (domain->locking)
		pthread_mutex_lock(lock);
}

static inline bool zipfi_trylock(const struct zipfi_domain *domain, pthread_mutex_t *lock)
{
	return !domain->locking || !pthread_mutex_trylock(lock);
}

static inline void zipfi_unlock(const struct zipfi_domain *domain, pthread_mutex_t *lock)
{
	if (domain->locking)
		pthread_mutex_unlock(lock);
}

static inline void zipfi_spin_lock(const struct zipfi_domain *domain, pthread_spinlock_t *lock)
{
	if (domain->locking)
		pthread_spin_lock(lock);
}

static inline void zipfi_spin_unlock(const struct zipfi_domain *domain, pthread_spinlock_t *lock)
{
	if (domain->locking)
		pthread_spin_unlock(lock);
}

/* ---- info, fabric, domain */

int zipfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info);
/* The view that the fabric's core has of an info given out here, or under the hook by itself. Free with fi_freeinfo. NULL: out of memory. */
struct fi_info *zipfi_core_info(const struct fi_info *info, const struct zipfi_fabric *fabric);
/* The full name of the core that `name` and a fabric's name mean: "tcp" is "tcp;ofi_rxm" where tcp alone has no FI_EP_RDM. */
/* FI_PROVIDER="zip;..." hides the core from utility providers below us. */
bool zipfi_core_is_hidden(void);
char *zipfi_resolve_core(const char *name, const char *fabric_name, uint32_t api_version);
/* `name` without our own parts; malloc'ed. NULL: none is left, or out of memory. */
char *zipfi_core_name(const char *name);
/* Takes FI_HMEM out of what is asked or offered: a core may not have it. */
void zipfi_strip_hmem(struct fi_info *info);
/* 1 if the core that `info` is about has FI_HMEM. */
bool zipfi_core_has_hmem(const struct fi_info *info, const struct zipfi_fabric *fabric);
/* The tag bit taken out of a core's mem_tag_format, and the format without it. */
uint64_t zipfi_tag_bit(uint64_t format, uint64_t *rest);

int zipfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int zipfi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int zipfi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int zipfi_domain_start_thread(struct zipfi_domain *domain);
/* One round of progress over all endpoints. Returns true while one of them has transfers under way. */
bool zipfi_domain_round(struct zipfi_domain *domain);

/* ---- the other objects */

int zipfi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
/* The core's event queue behind one that was opened on this fabric. */
struct fid *zipfi_eq_core(const struct zipfi_fabric *fabric, struct fid *eq);
int zipfi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
int zipfi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
/* 1 when it is one of ours, and not the core's. */
bool zipfi_cq_is(const struct fid *fid);
bool zipfi_cntr_is(const struct fid *fid);
int zipfi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
int zipfi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset);
int zipfi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
extern struct fi_ops_mr zipfi_mr_ops;
/* The engine's callbacks for peers' writes and reads. Under ep->lock. */
int zipfi_rma_open(void *ctx, struct zipc_peer *peer, int write, const struct zipc_rma_seg *segs, size_t nsegs,
		   struct iovec *iov, size_t *niov, void **target);
void zipfi_rma_done(void *ctx, void *target, int status, uint64_t data, unsigned flags, size_t nbytes);
/* The engine is gone: what it had open is closed. */
void zipfi_accesses_close(struct zipfi_ep *ep);

/* ---- wait objects (zipfi_wait.c) */

int zipfi_wait_open(struct zipfi_wait *wait, enum fi_wait_obj obj);
void zipfi_wait_close(struct zipfi_wait *wait);
/* Adds a core object's fd, if it has one. */
int zipfi_wait_add(struct zipfi_wait *wait, struct fid *core);
/* Adds an fd of ours; -1 is ignored. */
void zipfi_wait_add_fd(struct zipfi_wait *wait, int fd);
void zipfi_wait_remove(struct zipfi_wait *wait, struct fid *core);
void zipfi_wait_signal(struct zipfi_wait *wait);
void zipfi_wait_clear(struct zipfi_wait *wait);
/* Sleeps until something may have happened, at most timeout_ms (-1: forever). */
void zipfi_wait_sleep(struct zipfi_wait *wait, int timeout_ms);
int zipfi_wait_get(const struct zipfi_wait *wait, int command, void *arg);

/* ---- AV */

/* The core's address behind fi_addr. Returns 0 or -FI_EINVAL. */
int zipfi_av_lookup_main(struct zipfi_av *av, fi_addr_t fi_addr, struct zipfi_addr *addr);
int zipfi_av_attach(struct zipfi_av *av, struct zipfi_ep *ep);
void zipfi_av_detach(struct zipfi_av *av, struct zipfi_ep *ep);
/* Says hello to every marked peer, up to ZIPFI_GREET_MAX. */
void zipfi_av_greet_all(struct zipfi_av *av, struct zipfi_ep *ep);

/* ---- CQ */

int zipfi_cq_attach(struct zipfi_cq *cq, struct zipfi_ep *ep);
void zipfi_cq_detach(struct zipfi_cq *cq, struct zipfi_ep *ep);
int zipfi_cntr_attach(struct zipfi_cntr *cntr, struct zipfi_ep *ep);
void zipfi_cntr_detach(struct zipfi_cntr *cntr, struct zipfi_ep *ep);
void zipfi_cntr_bind_mr(struct zipfi_cntr *cntr);
void zipfi_cntr_unbind_mr(struct zipfi_cntr *cntr);
/* Parks an event that has no record. Waits until there is memory for it: nothing may be lost. */
void zipfi_cq_park_copy(struct zipfi_cq *cq, const struct fi_cq_tagged_entry *entry, fi_addr_t src,
			const struct fi_cq_err_entry *err, void *context);
/* Hands a finished record to its CQ (or frees it) and counts it. Takes only leaf locks. */
void zipfi_complete(struct zipfi_rec *rec, bool is_send);
/*
 * Reads at most `count` events of the core CQ `core` and hands them on. `cq` is its owner, NULL for a hidden one.
 * Returns the number of events.
 */
int zipfi_cq_drain(struct fid_cq *core, struct zipfi_cq *cq, size_t count);
/* An endpoint goes: what waits in the CQ for the application must not name its records any more. */
void zipfi_cq_disown(struct zipfi_cq *cq, struct zipfi_ep *ep);
/* The status of a transfer as a completion's error, 0 when there is none. */
int zipfi_errno(int status);
/* Everything an endpoint's progress means: companion, engine, and the core CQs other than `except`. */
void zipfi_ep_progress(struct zipfi_ep *ep, const struct zipfi_cq *except);
/* Whether transfers or control messages are under way: then every read of its CQs moves the endpoint on. */
void zipfi_ep_set_busy(struct zipfi_ep *ep, bool busy);
/*
 * 0 when a thread may sleep on `wait`: nothing is ready, no engine has work, and all core CQs that would wake it agree.
 * -FI_EAGAIN otherwise, after what was there has been moved on. `core`, `nready` and `nerrors` may be NULL.
 */
int zipfi_may_sleep(struct zipfi_fabric *fabric, struct zipfi_wait *wait, struct zipfi_domain *domain,
		    struct zipfi_ep **const *eps, const size_t *neps, pthread_mutex_t *ep_lock, struct fid *core,
		    atomic_uint *nready, atomic_uint *nerrors);
void zipfi_cq_progress(struct zipfi_cq *cq);

/* ---- endpoint */

void zipfi_ep_free(struct zipfi_ep *ep);
ssize_t zipfi_send_any(struct zipfi_ep *ep, struct zipfi_out *out);
/* Ends an operation with an error, whatever was wanted. */
void zipfi_rec_fail(struct zipfi_rec *rec, int err);
/* Makes room for the records of an endpoint that is being enabled. 0 or a negative fi_errno; zipfi_ep_free gives it back. */
int zipfi_recs_open(struct zipfi_ep *ep);
struct zipfi_rec *zipfi_rec_get(struct zipfi_ep *ep);
void zipfi_rec_put(struct zipfi_rec *rec);

ssize_t zipfi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context);
ssize_t zipfi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, void *context);
ssize_t zipfi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
ssize_t zipfi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
		    void *context);
ssize_t zipfi_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t tag,
		     uint64_t ignore, void *context);
ssize_t zipfi_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);

extern struct fi_ops_msg zipfi_msg_ops;
extern struct fi_ops_tagged zipfi_tagged_ops;
extern struct fi_ops_rma zipfi_rma_ops;
extern struct fi_ops_atomic zipfi_atomic_ops;
extern struct fi_ops_collective zipfi_collective_ops;
extern struct fi_ops_cm zipfi_cm_ops;
extern struct fi_ops_ep zipfi_ep_ops;

/* A peek has found something. Called without locks. */
void zipfi_peek_arrived(struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, fi_addr_t src);
/* Answers peeks whose control records have come. Under ep->lock. */
void zipfi_peek_progress(struct zipfi_ep *ep);
/* A receive has completed in the core: plain message, or placeholder. Called without locks. */
void zipfi_recv_arrived(struct zipfi_rec *rec, const struct fi_cq_tagged_entry *entry, fi_addr_t src);
void zipfi_recv_error(struct zipfi_rec *rec, const struct fi_cq_err_entry *err);
ssize_t zipfi_cancel(fid_t fid, void *context);
/* Engine callbacks. */
extern const struct zipc_engine_cb zipfi_engine_cb, zipfi_engine_cb_no_rma;
/* The peer behind an address, NULL for one not met; one that has a mark and is new is greeted. Under ep->lock. */
struct zipc_peer *zipfi_peer(struct zipfi_ep *ep, const struct zipfi_addr *addr);
/* A large enough message went raw. */
static inline size_t zipfi_iov_total(const struct iovec *iov, size_t niov)
{
	size_t i, total = 0;

	for (i = 0; i < niov; i++)
		total += iov[i].iov_len;
	return total;
}

void zipfi_count_raw(struct zipfi_ep *ep, struct zipc_peer *peer, enum zipc_raw_reason reason, size_t nbytes);
/* FI_FENCE: -FI_EAGAIN while transfers of ours to this peer are under way, after having moved them on. */
ssize_t zipfi_fence(struct zipfi_ep *ep, fi_addr_t dest);
/* Before a record of an operation with FI_FENCE is given to the core; the second when it comes back, for any record. */
void zipfi_fence_begin(struct zipfi_rec *rec);
static inline void zipfi_fence_end(struct zipfi_rec *rec)
{
	if (rec->fence) {
		rec->fence = false;
		atomic_fetch_sub(&rec->ep->fences, 1);
	}
}

struct zipfi_cq *zipfi_rec_cq(const struct zipfi_rec *rec, bool is_send);

/* ---- announcements for IP addresses (zipfi_beacon.c); under ep->lock */

int zipfi_beacon_open(struct zipfi_ep *ep, const void *comp, size_t comp_len);
void zipfi_beacon_close(struct zipfi_ep *ep);
void zipfi_beacon_announce(struct zipfi_ep *ep, const struct zipfi_addr *to);
/* Reads what has arrived; unless `now`, only when the last look was some time ago. */
void zipfi_beacon_poll(struct zipfi_ep *ep, bool now);

/* ---- counters for others to see (zipfi_page.c) */

void zipfi_page_open(struct zipfi_domain *domain, const struct fi_info *info);
/* Prints them, if that was asked for. */
void zipfi_page_close(struct zipfi_domain *domain);
/* Under ep->lock; while it has an engine. */
void zipfi_page_attach(struct zipfi_ep *ep);
/* Now and then. */
void zipfi_page_update(struct zipfi_ep *ep);
void zipfi_page_detach(struct zipfi_ep *ep);

/* ---- companion (zipfi_comp.c) */

int zipfi_comp_open(struct zipfi_ep *ep);
void zipfi_comp_close(struct zipfi_ep *ep);
/* Reads the companion's CQ and drives the engine. Under ep->lock. */
void zipfi_comp_progress(struct zipfi_ep *ep);
/* Tries for a bounded time to get out what peers still wait for. */
void zipfi_comp_linger(struct zipfi_ep *ep);
void zipfi_ep_greet(struct zipfi_ep *ep, const struct zipfi_addr *addr);

#endif
