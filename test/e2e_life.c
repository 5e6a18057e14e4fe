/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Life and death of objects: opened and closed in every legal order, with transfers under way, many endpoints in a domain, two
 * domains, a child process beside, and the whole library unloaded and loaded again.
 */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e.h"
#include "zipt_data.h"

#define BYTES 400000
#define MANY 8
#define OBJECTS 4 /* two CQs, a counter, the AV */

static uint8_t *out, *in;

/* ---- one process */

/* A fabric and a domain with the info they came from. */
struct scene {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

static bool is_shm(void)
{
	const char *stack = getenv("FI_PROVIDER");

	return stack && strstr(stack, "shm");
}

static void scene_open(struct scene *s)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_MSG | FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (fi_getinfo(FI_VERSION(1, 17), is_shm() ? NULL : "127.0.0.1", NULL, is_shm() ? 0 : FI_SOURCE, hints, &s->info)) {
		printf("the stack does not offer messages\n");
		fflush(stdout);
		_exit(E2E_SKIP);
	}
	fi_freeinfo(hints);
	E2E_OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	E2E_OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
}

static void scene_close(struct scene *s)
{
	E2E_OK(fi_close(&s->domain->fid));
	E2E_OK(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
}

/* An endpoint with all that belongs to it. */
struct actor {
	struct fid_ep *ep;
	struct fid_cq *cq[2];
	struct fid_cntr *cntr;
	struct fid_av *av;
};

static void open_object(struct scene *s, struct actor *a, int which)
{
	struct fi_cq_attr cq_attr = {.size = 256, .format = FI_CQ_FORMAT_TAGGED};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

	if (which < 2)
		E2E_OK(fi_cq_open(s->domain, &cq_attr, &a->cq[which], NULL));
	else if (which == 2)
		E2E_OK(fi_cntr_open(s->domain, &cntr_attr, &a->cntr, NULL));
	else
		E2E_OK(fi_av_open(s->domain, &av_attr, &a->av, NULL));
}

static struct fid *object(struct actor *a, int which)
{
	return which < 2 ? &a->cq[which]->fid : which == 2 ? &a->cntr->fid : &a->av->fid;
}

static void bind_object(struct actor *a, int which)
{
	static const uint64_t flags[OBJECTS] = {FI_TRANSMIT, FI_RECV, FI_SEND, 0};

	E2E_OK(fi_ep_bind(a->ep, object(a, which), flags[which]));
}

/* The n-th order of the four. */
static void order_of(int n, int *order)
{
	int left[OBJECTS] = {0, 1, 2, 3}, i, k;

	for (i = 0; i < OBJECTS; i++) {
		k = n % (OBJECTS - i);
		n /= OBJECTS - i;
		order[i] = left[k];
		memmove(left + k, left + k + 1, (size_t)(OBJECTS - 1 - k) * sizeof(*left));
	}
}

static struct fi_info *without_port(const struct fi_info *info)
{
	struct fi_info *copy = fi_dupinfo(info);

	/* A source address names a port: only one endpoint can have it. */
	if (info->addr_format != FI_ADDR_STR && copy->src_addr)
		((struct sockaddr_in *)copy->src_addr)->sin_port = 0;
	return copy;
}

static void actor_open(struct scene *s, struct actor *a, int n)
{
	struct fi_info *info = without_port(s->info);
	int order[OBJECTS], i;

	order_of(n, order);
	for (i = 0; i < OBJECTS; i++)
		open_object(s, a, order[i]);
	E2E_OK(fi_endpoint(s->domain, info, &a->ep, NULL));
	order_of(n * 7 % 24, order);
	for (i = 0; i < OBJECTS; i++)
		bind_object(a, order[i]);
	E2E_OK(fi_enable(a->ep));
	fi_freeinfo(info);
}

static void actor_close(struct actor *a, int n)
{
	int order[OBJECTS], i;

	for (i = 0; i < OBJECTS; i++)
		E2E_CHECK(fi_close(object(a, i)) == -FI_EBUSY, "object %d was closed under its endpoint", i);
	E2E_OK(fi_close(&a->ep->fid));
	order_of(n, order);
	for (i = 0; i < OBJECTS; i++)
		E2E_OK(fi_close(object(a, order[i])));
}

static void every_order(void)
{
	struct scene s;
	struct actor a;
	int n;

	scene_open(&s);
	for (n = 0; n < 24; n += 1 + n % 3) {
		actor_open(&s, &a, n);
		E2E_CHECK(fi_close(&s.domain->fid) == -FI_EBUSY, "the domain was closed under its endpoint");
		actor_close(&a, 23 - n);
	}
	scene_close(&s);
}

/* ---- messages within one process */

static void drain(struct actor *actors, int n)
{
	struct fi_cq_tagged_entry entry;
	struct e2e_op *op;
	int i;

	for (i = 0; i < 2 * n; i++) {
		struct fid_cq *cq = actors[i / 2].cq[i % 2];

		if (fi_cq_read(cq, &entry, 1) != 1)
			continue;
		op = entry.op_context;
		op->entry = entry;
		op->done = true;
	}
}

static fi_addr_t know(struct actor *who, struct actor *whom)
{
	char name[512] = "";
	size_t len = sizeof(name);
	fi_addr_t addr;

	E2E_OK(fi_getname(&whom->ep->fid, name, &len));
	E2E_CHECK(fi_av_insert(who->av, name, 1, &addr, 0, NULL) == 1, "an address");
	return addr;
}

static unsigned long long ready(struct actor *a)
{
	struct fi_zip_stats stats = {0};
	struct fi_zip_ops *ops;

	if (fi_open_ops(&a->ep->fid, FI_ZIP_OPS, 0, (void **)&ops, NULL))
		return ~0ULL;
	E2E_OK(ops->read_stats(&a->ep->fid, &stats, sizeof(stats)));
	return stats.peers_ready;
}

static void send_one(struct actor *actors, int n, int from, int to, fi_addr_t addr)
{
	struct e2e_op send = {0}, recv = {0};
	double end = e2e_now() + 20;
	ssize_t ret;
	int more;

	memset(in, 0, BYTES);
	E2E_OK(fi_trecv(actors[to].ep, in, BYTES, NULL, FI_ADDR_UNSPEC, 1, 0, &recv));
	while ((ret = fi_tsend(actors[from].ep, out, BYTES, NULL, addr, 1, &send)) == -FI_EAGAIN)
		drain(actors, n);
	E2E_OK(ret);
	while (!send.done || !recv.done) {
		drain(actors, n);
		E2E_CHECK(e2e_now() < end, "a message from endpoint %d to %d does not arrive", from, to);
	}
	E2E_CHECK(recv.entry.len == BYTES && !memcmp(in, out, BYTES), "data");
	/* The receiver's last word, which an endpoint of another domain cannot wait for when it closes. */
	for (more = 0; more < 300; more++)
		drain(actors, n);
}

/* Many in a domain, or spread over two; some close while others go on. */
static void many(struct scene *s, int nscenes)
{
	struct actor a[MANY];
	fi_addr_t next[MANY];
	double end = e2e_now() + 10;
	int i;

	for (i = 0; i < MANY; i++)
		actor_open(&s[i % nscenes], &a[i], i);
	for (i = 0; i < MANY; i++)
		next[i] = know(&a[i], &a[(i + 1) % MANY]);
	for (i = 0; i < MANY; i++)
		while (!ready(&a[i]) && e2e_now() < end)
			drain(a, MANY);
	for (i = 0; i < MANY; i++)
		send_one(a, MANY, i, (i + 1) % MANY, next[i]);
	for (i = MANY - 1; i >= 2; i--) {
		actor_close(&a[i], i);
		send_one(a, i, 0, 1, next[0]);
	}
	actor_close(&a[0], 3);
	actor_close(&a[1], 4);
}

static void many_endpoints(void)
{
	struct scene s[2];

	scene_open(&s[0]);
	many(s, 1);
	scene_open(&s[1]);
	many(s, 2);
	scene_close(&s[0]);
	scene_close(&s[1]);
}

/* Opened and closed again and again: what a closed endpoint leaves behind is little. */
static void often(void)
{
	struct scene s;
	struct actor a;
	int i;

	scene_open(&s);
	for (i = 0; i < 60; i++) {
		actor_open(&s, &a, i % 24);
		actor_close(&a, i % 24);
	}
	scene_close(&s);
}

/* A child that uses none of it, and exits, changes nothing. */
static void beside_a_child(void)
{
	struct scene s;
	struct actor a[2];
	fi_addr_t addr;
	int status, i;
	pid_t pid;

	scene_open(&s);
	for (i = 0; i < 2; i++)
		actor_open(&s, &a[i], i);
	addr = know(&a[0], &a[1]);
	send_one(a, 2, 0, 1, addr);
	for (i = 0; i < 3; i++) {
		pid = fork();
		if (!pid)
			_exit(7);
		send_one(a, 2, 0, 1, addr);
		E2E_CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child");
		send_one(a, 2, 0, 1, addr);
	}
	for (i = 0; i < 2; i++)
		actor_close(&a[i], i);
	scene_close(&s);
}

/* ---- two processes */

/* Rank 1 closes with transfers under way both ways, matched and not. Rank 0 sees errors or success, and closes in time. */
static void close_under_way(void)
{
	const struct e2e_opts opts = {.env = {{"FI_ZIP_POLICY", "ratio"}, {"FI_ZIP_CHUNK", "65536"}, {"FI_ZIP_STAGING", "262144"}}};
	static struct e2e_op send[6], recv[6];
	static uint8_t *bufs[6];
	atomic_int *posted;
	double start;
	struct e2e e;
	int i;

	e2e_start(&e, 2, &opts);
	posted = e2e_scratch();
	e2e_open(&e);
	for (i = 0; i < 6; i++) {
		bufs[i] = malloc(BYTES);
		if (i < 4)
			e2e_trecv(&e, 1 - e.rank, bufs[i], BYTES, (uint64_t)i, 0, &recv[i]);
		e2e_tsend(&e, 1 - e.rank, out, BYTES, (uint64_t)(5 - i), &send[i]);
	}
	/* A core may say -FI_EAGAIN for ever of a peer that is gone: what is to be under way has been posted before. */
	if (!e.rank)
		atomic_store(posted, 1);
	while (!atomic_load(posted))
		e2e_progress(&e);
	for (i = 0; i < 20 + 40 * e.rank; i++)
		e2e_progress(&e);
	start = e2e_now();
	if (!e.rank)
		for (i = 0; i < 4; i++) /* a peer that has closed is noticed, or has sent all before */
			if (!e2e_wait_ms(&e, &recv[i], 8000))
				break;
	start = e2e_now();
	E2E_OK(fi_close(&e.ep->fid));
	E2E_CHECK(e2e_now() - start < 6, "closing took %.1f s", e2e_now() - start);
	e.ep = NULL;
	for (i = 0; i < 6; i++)
		if (e.rank && i < 4 && recv[i].done && !recv[i].err)
			E2E_CHECK(!memcmp(bufs[i], out, BYTES), "data");
	e2e_progress(&e); /* what is left in the queues may be read still */
	E2E_OK(fi_close(&e.txcq->fid));
	E2E_OK(fi_close(&e.rxcq->fid));
	E2E_OK(fi_close(&e.av->fid));
	fi_close(&e.domain->fid); /* a core may hold on to it */
	fi_close(&e.fabric->fid);
	fi_freeinfo(e.info);
	for (i = 0; i < 6; i++)
		free(bufs[i]);
	e2e_exit(&e);
}

/* ---- the library itself */

/* In a child, which loads libfabric by itself: unloading runs the destructors of provider and library. */
static void load_and_unload(void)
{
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *info;
	void *lib;
	int i, ret;

	for (i = 0; i < 3; i++) {
		lib = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
		E2E_CHECK(lib, "%s", dlerror());
		*(void **)&getinfo = dlsym(lib, "fi_getinfo");
		*(void **)&freeinfo = dlsym(lib, "fi_freeinfo");
		*(void **)&dupinfo = dlsym(lib, "fi_dupinfo");
		E2E_CHECK(getinfo && freeinfo && dupinfo, "symbols");
		ret = getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info);
		E2E_CHECK(!ret, "fi_getinfo in round %d: %d", i, ret);
		freeinfo(info);
		dlclose(lib);
	}
}

int main(int argc, char **argv)
{
	char *again[] = {argv[0], (char *)(uintptr_t) "load", NULL};
	int status;
	pid_t pid;

	if (argc > 1) {
		load_and_unload();
		return 0;
	}
	out = malloc(BYTES);
	in = malloc(BYTES);
	zipt_fill(out, BYTES, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	pid = fork();
	if (!pid) {
		execv("/proc/self/exe", again);
		_exit(1);
	}
	E2E_CHECK(waitpid(pid, &status, 0) == pid && !status, "loading and unloading: status %#x", (unsigned)status);
	close_under_way();
	setenv("FI_ZIP_POLICY", "ratio", 1);
	every_order();
	many_endpoints();
	often();
	beside_a_child();
	free(out);
	free(in);
	return 0;
}
