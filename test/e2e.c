/* SPDX-License-Identifier: BSD-3-Clause */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "e2e.h"

#define E2E_NAME 512

struct e2e_shared {
	atomic_int arrived, generation;
	pid_t pid[E2E_RANKS];
	struct {
		size_t len;
		char name[E2E_NAME];
	} names[E2E_RANKS];
	char scratch[4096];
};

static struct e2e_shared *e2e_shared;
static int e2e_my_rank;

int e2e_rank(void)
{
	return e2e_my_rank;
}

pid_t e2e_pid(int rank)
{
	return e2e_shared->pid[rank];
}

void *e2e_scratch(void)
{
	return e2e_shared->scratch;
}

double e2e_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

bool e2e_stack_has_zip(void)
{
	return getenv("FI_HOOK") || (getenv("FI_PROVIDER") && strstr(getenv("FI_PROVIDER"), "zip"));
}

/* Takes zip out of the environment, for a rank that runs the core alone. */
static void e2e_make_plain(void)
{
	const char *stack = getenv("FI_PROVIDER");
	char core[128];
	char *end;

	unsetenv("FI_HOOK");
	if (!stack)
		return;
	snprintf(core, sizeof(core), "%s", strncmp(stack, "zip;", 4) ? stack : stack + 4);
	end = strstr(core, ";ofi_zip");
	if (end)
		*end = 0;
	setenv("FI_PROVIDER", core, 1);
}

void e2e_start(struct e2e *e, int nranks, const struct e2e_opts *opts)
{
	int r, i;

	memset(e, 0, sizeof(*e));
	e->nranks = nranks;
	e->opts = *opts;
	if (!e2e_shared)
		e2e_shared = mmap(NULL, sizeof(*e2e_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(e2e_shared, 0, sizeof(*e2e_shared));
	e2e_shared->pid[0] = getpid();
	for (r = 1; r < nranks && !e->rank; r++) {
		pid_t pid = fork();

		if (!pid) {
			e->rank = e2e_my_rank = r;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			e2e_shared->pid[r] = getpid();
		}
	}
	for (i = 0; i < 4 && opts->env[i][0]; i++)
		setenv(opts->env[i][0], opts->env[i][1], 1);
	if (opts->plain_ranks >> e->rank & 1)
		e2e_make_plain();
}

static bool e2e_is_shm(void)
{
	const char *stack = getenv("FI_PROVIDER");

	return stack && strstr(stack, "shm");
}

static struct fi_info *e2e_getinfo(struct e2e *e)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	const char *node = e2e_is_shm() ? NULL : "127.0.0.1";
	int ret;

	hints->caps = e->opts.caps ? e->opts.caps : FI_MSG | FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = e->opts.mr_mode ? e->opts.mr_mode & ~E2E_MR_SCALABLE :
					FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (e->opts.plain_ranks >> e->rank & 1)
		hints->caps &= ~FI_HMEM; /* the core alone need not have it */
	if (hints->caps & FI_HMEM)
		hints->domain_attr->mr_mode |= FI_MR_HMEM;
	hints->domain_attr->threading = e->opts.threading ? e->opts.threading : FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = e->opts.progress;
	hints->domain_attr->av_type = e->opts.av_map ? FI_AV_MAP : FI_AV_UNSPEC;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = e->opts.order ? e->opts.order : FI_ORDER_SAS;
	ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &info);
	if (ret && (hints->caps & FI_RMA_EVENT)) {
		hints->caps &= ~FI_RMA_EVENT;
		ret = fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &info);
	}
	if (ret) {
		printf("the stack %s does not offer these capabilities\n", getenv("FI_PROVIDER"));
		fflush(stdout);
		_exit(E2E_SKIP);
	}
	fi_freeinfo(hints);
	return info;
}

static void e2e_open_cq(struct e2e *e, struct fid_cq **cq)
{
	struct fi_cq_attr attr = {
		.size = 8192, .format = e->opts.format ? e->opts.format : FI_CQ_FORMAT_TAGGED,
		.wait_obj = e->opts.wait ? e->opts.wait : FI_WAIT_NONE,
	};
	int ret = fi_cq_open(e->domain, &attr, cq, NULL);

	if (ret && attr.wait_obj != FI_WAIT_NONE) {
		printf("the core has no such wait object\n");
		fflush(stdout);
		_exit(E2E_SKIP);
	}
	E2E_OK(ret);
}

static void e2e_bind(struct e2e *e)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	uint64_t selective = e->opts.selective ? FI_SELECTIVE_COMPLETION : 0;
	bool rma = e->info->caps & e->opts.caps & FI_RMA, event = rma && (e->info->caps & FI_RMA_EVENT);

	if (!e->opts.no_cq) {
		e2e_open_cq(e, &e->txcq);
		if (e->opts.one_cq)
			e->rxcq = e->txcq;
		else
			e2e_open_cq(e, &e->rxcq);
		if (e->opts.one_cq) {
			E2E_OK(fi_ep_bind(e->ep, &e->txcq->fid, FI_TRANSMIT | FI_RECV | selective));
		} else {
			E2E_OK(fi_ep_bind(e->ep, &e->txcq->fid, FI_TRANSMIT | selective));
			E2E_OK(fi_ep_bind(e->ep, &e->rxcq->fid, FI_RECV | selective));
		}
	}
	if (!e->opts.counters)
		return;
	E2E_OK(fi_cntr_open(e->domain, &attr, &e->txcntr, NULL));
	E2E_OK(fi_cntr_open(e->domain, &attr, &e->rxcntr, NULL));
	E2E_OK(fi_ep_bind(e->ep, &e->txcntr->fid, FI_SEND | (rma ? FI_WRITE | FI_READ : 0)));
	E2E_OK(fi_ep_bind(e->ep, &e->rxcntr->fid, FI_RECV | (event ? FI_REMOTE_WRITE | FI_REMOTE_READ : 0)));
}

static bool e2e_runs_zip(const struct e2e *e, int rank)
{
	return !(e->opts.plain_ranks >> rank & 1) && (e2e_stack_has_zip() || e->opts.plain_ranks);
}

/* Until transfers are possible to every other rank that runs zip. */
static void e2e_meet(struct e2e *e)
{
	double start = e2e_now();
	unsigned r, want = 0;

	for (r = 0; r < (unsigned)e->nranks; r++)
		want += (int)r != e->rank && e2e_runs_zip(e, (int)r);
	while (e->zip && e2e_stats(e).peers_ready < want) {
		E2E_CHECK(e2e_now() - start < 20, "only %llu of %u peers met", (unsigned long long)e2e_stats(e).peers_ready, want);
		e2e_progress(e);
	}
}

void e2e_open(struct e2e *e)
{
	struct fi_av_attr av_attr = {.type = e->opts.av_map ? FI_AV_MAP : FI_AV_TABLE};
	int r;

	e->info = e2e_getinfo(e);
	E2E_OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	E2E_OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	E2E_OK(fi_av_open(e->domain, &av_attr, &e->av, NULL));
	E2E_OK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	if (e->opts.no_cuda) { /* option 10, FI_OPT_CUDA_API_PERMITTED, has no name in libfabric 1.17 */
		bool permitted = false;

		E2E_OK(fi_setopt(&e->ep->fid, FI_OPT_ENDPOINT, 10, &permitted, sizeof(permitted)));
	}
	E2E_OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	e2e_bind(e);
	E2E_OK(fi_enable(e->ep));
	if (fi_open_ops(&e->ep->fid, FI_ZIP_OPS, 0, (void **)&e->zip, NULL))
		e->zip = NULL;
	e2e_shared->names[e->rank].len = E2E_NAME;
	E2E_OK(fi_getname(&e->ep->fid, e2e_shared->names[e->rank].name, &e2e_shared->names[e->rank].len));
	e2e_barrier(e);
	for (r = 0; r < e->nranks; r++)
		E2E_CHECK(fi_av_insert(e->av, e2e_shared->names[r].name, 1, &e->peer[r], 0, NULL) == 1, "rank %d, name of %zu bytes, format %u", r,
			  e2e_shared->names[r].len, e->info->addr_format);
	e2e_barrier(e);
	e2e_meet(e);
	e2e_barrier(e);
}

static void e2e_done(struct e2e *e, struct fid_cq *cq, ssize_t n, struct fi_cq_tagged_entry *entry, fi_addr_t src)
{
	struct fi_cq_err_entry error = {0};
	struct e2e_op *op;

	if (n == 1 && !entry->op_context && (entry->flags & FI_REMOTE_CQ_DATA)) { /* not all cores say FI_REMOTE_WRITE */
		E2E_CHECK(e->nremote < E2E_REMOTE, "too many remote completions");
		e->remote[e->nremote++] = *entry;
		return;
	}
	if (n == 1) {
		op = entry->op_context;
		E2E_CHECK(op, "a completion without context, flags %#llx", (unsigned long long)entry->flags);
		op->entry = *entry;
		op->src = src;
		op->done = true;
		return;
	}
	E2E_CHECK(fi_cq_readerr(cq, &error, 0) == 1, "no error to read");
	op = error.op_context;
	E2E_CHECK(op, "an error without context: %s", fi_strerror(error.err));
	op->error = error;
	op->err = error.err;
	op->done = true;
}

static bool e2e_read(struct e2e *e, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	ssize_t n = fi_cq_readfrom(cq, &entry, 1, &src);

	if (n == 1 || n == -FI_EAVAIL)
		e2e_done(e, cq, n, &entry, src);
	else
		E2E_CHECK(n == -FI_EAGAIN, "fi_cq_read: %zd", n);
	return n != -FI_EAGAIN;
}

void e2e_progress(struct e2e *e)
{
	bool found = false;

	if (e->txcq)
		found |= e2e_read(e, e->txcq);
	if (e->rxcq && e->rxcq != e->txcq)
		found |= e2e_read(e, e->rxcq);
	if (!found) /* there are more processes than cores */
		sched_yield();
	if (e->txcntr && !e->txcq)
		fi_cntr_read(e->txcntr);
}

void e2e_barrier(struct e2e *e)
{
	int generation = atomic_load(&e2e_shared->generation);

	if (atomic_fetch_add(&e2e_shared->arrived, 1) + 1 == e->nranks) {
		atomic_store(&e2e_shared->arrived, 0);
		atomic_fetch_add(&e2e_shared->generation, 1);
	}
	while (atomic_load(&e2e_shared->generation) == generation) {
		if (e->ep)
			e2e_progress(e);
		usleep(20);
	}
}

bool e2e_wait_ms(struct e2e *e, struct e2e_op *op, int ms)
{
	double end = e2e_now() + ms * 1e-3;

	while (!op->done) {
		e2e_progress(e);
		if (e2e_now() > end)
			return false;
	}
	return true;
}

void e2e_wait(struct e2e *e, struct e2e_op *op)
{
	E2E_CHECK(e2e_wait_ms(e, op, 60000), "nothing for 60 s");
	E2E_CHECK(!op->err, "%s (provider's %d)", fi_strerror(op->err), op->error.prov_errno);
}

static fi_addr_t e2e_addr(const struct e2e *e, int from)
{
	return from < 0 ? FI_ADDR_UNSPEC : e->peer[from];
}

void e2e_tsend(struct e2e *e, int to, const void *buf, size_t len, uint64_t tag, struct e2e_op *op)
{
	memset(op, 0, sizeof(*op));
	E2E_AGAIN(e, fi_tsend(e->ep, buf, len, NULL, e->peer[to], tag, op));
}

void e2e_trecv(struct e2e *e, int from, void *buf, size_t len, uint64_t tag, uint64_t ignore, struct e2e_op *op)
{
	memset(op, 0, sizeof(*op));
	E2E_AGAIN(e, fi_trecv(e->ep, buf, len, NULL, e2e_addr(e, from), tag, ignore, op));
}

void e2e_send(struct e2e *e, int to, const void *buf, size_t len, struct e2e_op *op)
{
	memset(op, 0, sizeof(*op));
	E2E_AGAIN(e, fi_send(e->ep, buf, len, NULL, e->peer[to], op));
}

void e2e_recv(struct e2e *e, int from, void *buf, size_t len, struct e2e_op *op)
{
	memset(op, 0, sizeof(*op));
	E2E_AGAIN(e, fi_recv(e->ep, buf, len, NULL, e2e_addr(e, from), op));
}

struct fi_zip_stats e2e_stats(struct e2e *e)
{
	struct fi_zip_stats stats = {0};

	if (e->zip)
		E2E_OK(e->zip->read_stats(&e->ep->fid, &stats, sizeof(stats)));
	return stats;
}

void e2e_close(struct e2e *e)
{
	E2E_OK(fi_close(&e->ep->fid));
	if (e->txcq)
		E2E_OK(fi_close(&e->txcq->fid));
	if (e->rxcq && e->rxcq != e->txcq)
		E2E_OK(fi_close(&e->rxcq->fid));
	if (e->txcntr)
		E2E_OK(fi_close(&e->txcntr->fid));
	if (e->rxcntr)
		E2E_OK(fi_close(&e->rxcntr->fid));
	E2E_OK(fi_close(&e->av->fid));
	E2E_OK(fi_close(&e->domain->fid));
	E2E_OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
	e->ep = NULL;
}

void e2e_exit(struct e2e *e)
{
	int status, r, rc = 0;

	if (e->rank)
		exit(0);
	for (r = 1; r < e->nranks; r++) {
		if (waitpid(e2e_shared->pid[r], &status, 0) < 0)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == E2E_SKIP)
			rc = rc ? rc : E2E_SKIP;
		else if (!WIFEXITED(status) || WEXITSTATUS(status))
			rc = 1;
	}
	if (rc)
		exit(rc);
}
