/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A page of counters in shared memory, which zip_stat reads: one for each domain (libfabric) or memory domain (UCX) of a
 * process.
 *
 * The file is /dev/shm/zip-net.UID.PID.N, N from 0, readable by its owner only, and as long as struct zipc_page_v1; sections
 * that were never used take no memory. Numbers are in the machine's own byte order. Each endpoint has a section, which only
 * it writes:
 *
 *   seq = seq + 1, which is odd; the numbers; seq = seq + 1
 *
 * A reader has a consistent copy of a section if seq was the same even number before and after it was copied. The head does
 * not change after the file has its name, but for `endpoints`, `unlisted` and `closed`.
 *
 * A page outlives a process that is killed: `pid`, `born` and `pid_ns` tell whether it still runs. A process's next page,
 * and zip_stat, remove those that are left behind. Readers believe nothing: see zipc_page_read.
 */
#ifndef ZIPC_PAGE_H
#define ZIPC_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "zipc_engine.h"

#define ZIPC_PAGE_DIR "/dev/shm"
#define ZIPC_PAGE_PREFIX "zip-net."
#define ZIPC_PAGE_MAGIC "zip-net" /* with its 0 */
#define ZIPC_PAGE_VERSION 1
#define ZIPC_PAGE_ENDPOINTS 16
#define ZIPC_PAGE_PEERS 32

struct zipc_page_counts_v1 {
	uint64_t sends, send_bytes, send_wire_bytes; /* transfers sent, their bytes, and the frames' */
	uint64_t recvs, recv_bytes, recv_wire_bytes;
	uint64_t raw_peer, raw_data, raw_off, raw_slow; /* large enough messages that went raw, by reason */
	uint64_t raw_bytes;                          /* and their bytes */
	uint64_t errors;                             /* transfers that failed */
};

struct zipc_page_peer_v1 {
	char name[64];             /* its address, printable, 0 at the end */
	uint32_t ready;            /* 1: transfers to it are possible */
	uint32_t active;           /* transfers under way */
	struct zipc_page_counts_v1 counts;
};

/* What a reader gets has an odd `seq` where no consistent copy was to be had. */
enum zipc_page_state { ZIPC_PAGE_FREE, ZIPC_PAGE_LIVE, ZIPC_PAGE_CLOSED };

struct zipc_page_endpoint_v1 {
	uint32_t seq;
	uint32_t state;            /* enum zipc_page_state */
	char name[64];
	uint64_t updated_ms;       /* monotonic clock, when the numbers were copied here */
	struct zipc_page_counts_v1 counts;
	uint64_t staging_bytes;    /* in use */
	uint64_t staging_most;     /* that may be in use, both directions */
	uint64_t sample_ns, encode_ns, wire_ns, decode_ns; /* 0 unless times are taken */
	uint32_t npeers;           /* known; the first ZIPC_PAGE_PEERS are listed */
	uint32_t zero;
	struct zipc_page_peer_v1 peers[ZIPC_PAGE_PEERS];
};

struct zipc_page_v1 {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t bytes;            /* of the file */
	uint32_t uid, pid;
	uint64_t born;             /* when the process started, in clock ticks since the machine did (/proc/PID/stat) */
	uint64_t pid_ns;           /* namespace of its number */
	uint64_t opened_ms;        /* monotonic clock */
	char command[32];
	char door[16];             /* "libfabric" or "ucx" */
	char core[64];             /* what is below */
	uint32_t endpoints;        /* that are open now */
	uint32_t unlisted;         /* of these without a section */
	struct zipc_page_counts_v1 closed; /* of endpoints that were closed and have no section any more */
	struct zipc_page_endpoint_v1 sections[ZIPC_PAGE_ENDPOINTS];
};

/* ---- writing. One page is used by several threads, one section by one at a time (under its endpoint's lock). */

struct zipc_page;

/* Writes an address for people, at most `room` bytes with the 0 at the end. */
typedef void zipc_page_name_fn(void *ctx, const void *addr, size_t len, char *text, size_t room);

/*
 * Makes a page. `dir`: NULL for a page that is not published, and only for zipc_page_print at the end. Where the file cannot
 * be made the page is like that. NULL: out of memory. A page may not be used in a child that was forked after this; calls do
 * nothing there.
 */
struct zipc_page *zipc_page_open(const char *dir, const char *door, const char *core);
/* Removes the file. */
void zipc_page_close(struct zipc_page *page);
const struct zipc_page_v1 *zipc_page_view(const struct zipc_page *page);

/*
 * A section for an endpoint that calls itself `name`; -1: none is free, or `page` is NULL. Calls with section -1 do nothing.
 */
int zipc_page_attach(struct zipc_page *page, const char *name, size_t staging_most);
/* Copies the engine's numbers. `name_of` is asked once for each peer. */
void zipc_page_update(struct zipc_page *page, int section, const struct zipc_engine *engine, zipc_page_name_fn *name_of,
		      void *ctx);
/* The endpoint is closed; its last numbers stay until another one needs the section. */
void zipc_page_detach(struct zipc_page *page, int section);

/* ---- reading */

enum zipc_page_fault {
	ZIPC_PAGE_GOOD,
	ZIPC_PAGE_BAD,     /* no page, or a broken one */
	ZIPC_PAGE_OTHER,   /* of another version of zip */
	ZIPC_PAGE_FOREIGN, /* of another user, or of a process that cannot be seen from here */
	ZIPC_PAGE_STALE,   /* its process is gone */
};

/*
 * Reads the page `name` in the directory `dirfd` into *page. Whatever the file holds: numbers are as found, but indexes and
 * counts are within their arrays, texts are printable and end. Nothing is waited for, no link is followed. *page is not to
 * be looked at unless GOOD.
 */
enum zipc_page_fault zipc_page_read(int dirfd, const char *name, struct zipc_page_v1 *page);
/* 1 if a file of this name may be a page of user `uid`. */
int zipc_page_is_name(const char *name, uint32_t uid);
/* Removes pages of this user whose processes are gone. Returns how many. */
unsigned zipc_page_sweep(const char *dir);

void zipc_page_add(struct zipc_page_counts_v1 *sum, const struct zipc_page_counts_v1 *more);
/* Sum over all sections. */
struct zipc_page_counts_v1 zipc_page_total(const struct zipc_page_v1 *page);
/* The table that zip_stat shows. `now_ms`: monotonic clock. `all`: closed endpoints too. */
void zipc_page_print(FILE *to, const struct zipc_page_v1 *page, uint64_t now_ms, int all);

#endif
