/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frame of the end-to-end programs: some processes, each with one endpoint over the stack that FI_PROVIDER names, met over
 * shared memory. A check that fails ends the program with a line that says where.
 */
#ifndef E2E_H
#define E2E_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fi_ext_zip.h"

#define E2E_RANKS 10
#define E2E_SKIP 77
#define E2E_REMOTE 256
#define E2E_MR_SCALABLE (1 << 30)

#define E2E_CHECK(condition, ...)                                                                       \
	do {                                                                                            \
		if (!(condition)) {                                                                     \
			fprintf(stderr, "%s:%d: rank %d: %s failed: ", __FILE__, __LINE__, e2e_rank(), #condition); \
			fprintf(stderr, __VA_ARGS__);                                                   \
			fputc('\n', stderr);                                                            \
			exit(1);                                                                        \
		}                                                                                       \
	} while (0)
#define E2E_OK(call)                                                                                    \
	do {                                                                                            \
		long e2e_ret = (long)(call);                                                            \
		E2E_CHECK(e2e_ret == 0, "%s: %ld (%s)", #call, e2e_ret, fi_strerror((int)-e2e_ret));    \
	} while (0)

struct e2e_opts {
	uint64_t caps;             /* 0: FI_MSG | FI_TAGGED. FI_RMA_EVENT is left out where the core does not have it */
	enum fi_cq_format format;  /* unspecified: tagged */
	enum fi_wait_obj wait;     /* of the CQs */
	enum fi_threading threading;
	enum fi_progress progress;
	bool av_map;               /* ask for FI_AV_MAP */
	bool one_cq;               /* one CQ for both directions */
	bool selective;
	bool counters;             /* bind counters for sends and receives, and with FI_RMA for writes and reads of both sides */
	bool no_cq;                /* and nothing else */
	bool no_cuda;              /* FI_OPT_CUDA_API_PERMITTED off */
	uint64_t order;            /* 0: FI_ORDER_SAS */
	int mr_mode;               /* 0: what a core of today asks for; E2E_MR_SCALABLE: nothing */
	unsigned plain_ranks;      /* bit r: rank r runs the core alone */
	const char *env[4][2];     /* settings made before libfabric is touched */
};

struct e2e {
	int rank, nranks;
	struct e2e_opts opts;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *txcq, *rxcq;
	struct fid_cntr *txcntr, *rxcntr;
	struct fid_ep *ep;
	fi_addr_t peer[E2E_RANKS];
	struct fi_zip_ops *zip;    /* NULL without zip */
	/* Completions of remote writes with immediate data, in the order in which they were read. */
	struct fi_cq_tagged_entry remote[E2E_REMOTE];
	unsigned nremote;
};

/* One operation. Its address is the context. */
struct e2e_op {
	struct fi_context2 context;
	bool done;
	int err;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error;
	fi_addr_t src;
};

int e2e_rank(void);
/* Does the environment put zip into the stack, by FI_PROVIDER or FI_HOOK? */
bool e2e_stack_has_zip(void);
/* Forks; returns in every process with its rank set, rank 0 in the parent. */
void e2e_start(struct e2e *e, int nranks, const struct e2e_opts *opts);
/* Opens the endpoint, exchanges names, waits until zip peers can do transfers. Exits with 77 where the core cannot. */
void e2e_open(struct e2e *e);
/* All ranks. Goes on reading CQs while it waits. */
void e2e_barrier(struct e2e *e);
void e2e_close(struct e2e *e);
/* Ends the process; in rank 0 waits for the others first and fails if one failed. */
void e2e_exit(struct e2e *e);
pid_t e2e_pid(int rank);
/* Shared memory of all ranks, 4096 bytes, zero at first. */
void *e2e_scratch(void);

/* Reads both CQs once. */
void e2e_progress(struct e2e *e);
/* Until done, at most `ms`; false on timeout. */
bool e2e_wait_ms(struct e2e *e, struct e2e_op *op, int ms);
/* Until done without an error, or the program fails. */
void e2e_wait(struct e2e *e, struct e2e_op *op);
void e2e_tsend(struct e2e *e, int to, const void *buf, size_t len, uint64_t tag, struct e2e_op *op);
void e2e_trecv(struct e2e *e, int from, void *buf, size_t len, uint64_t tag, uint64_t ignore, struct e2e_op *op);
void e2e_send(struct e2e *e, int to, const void *buf, size_t len, struct e2e_op *op);
void e2e_recv(struct e2e *e, int from, void *buf, size_t len, struct e2e_op *op);
struct fi_zip_stats e2e_stats(struct e2e *e);
double e2e_now(void);

/* Repeats a call that says -FI_EAGAIN, with progress between. */
#define E2E_AGAIN(e, call)                                  \
	do {                                                \
		long e2e_again;                             \
		while ((e2e_again = (call)) == -FI_EAGAIN)  \
			e2e_progress(e);                    \
		E2E_OK(e2e_again);                          \
	} while (0)

#endif
