/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link for benches (test/link) by itself: host and device memory in all combinations and sizes, unexpected, truncated, scattered;
 * remote memory with its checks; and a peer that is killed. Without a GPU FI_ZLINK_CUDA names test/link/fake_cuda.c.
 */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_rma.h>

#include "e2e.h"

#define BYTES (20u << 20)
#define SLACK 64u
#define SECONDS 10

struct memory {
	bool device;
	uint8_t *base;
	struct fid_mr *mr;
};

static struct {
	int (*init)(unsigned int flags);
	int (*retain)(void **ctx, int device);
	int (*push)(void *ctx);
	int (*alloc)(uint64_t *address, size_t bytes);
	int (*release)(uint64_t address);
	int (*upload)(uint64_t dst, const void *src, size_t bytes);
	int (*download)(void *dst, uint64_t src, size_t bytes);
} cuda;

static bool have_cuda;
static uint8_t *expected, *seen;

static bool load(void *library, const char *name, void *function_p)
{
	void *symbol = dlsym(library, name);

	memcpy(function_p, &symbol, sizeof(symbol));
	return symbol;
}

static void cuda_open(void)
{
	const char *name = getenv("FI_ZLINK_CUDA") ? getenv("FI_ZLINK_CUDA") : "libcuda.so.1";
	void *library = dlopen(name, RTLD_NOW), *ctx;

	have_cuda = library && load(library, "cuInit", &cuda.init) && load(library, "cuDevicePrimaryCtxRetain", &cuda.retain) &&
		    load(library, "cuCtxPushCurrent_v2", &cuda.push) && load(library, "cuMemAlloc_v2", &cuda.alloc) &&
		    load(library, "cuMemFree_v2", &cuda.release) && load(library, "cuMemcpyHtoD_v2", &cuda.upload) &&
		    load(library, "cuMemcpyDtoH_v2", &cuda.download) && !cuda.init(0) && !cuda.retain(&ctx, 0) && !cuda.push(ctx);
}

static void fill(uint8_t *to, size_t len, unsigned int seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		to[i] = (uint8_t)(x >> 56);
	}
}

static void memory_put(struct memory *m, size_t at, const void *from, size_t len)
{
	if (!m->device)
		memcpy(m->base + at, from, len);
	else if (len)
		E2E_CHECK(!cuda.upload((uintptr_t)m->base + at, from, len), "upload");
}

static void memory_get(struct memory *m, size_t at, void *to, size_t len)
{
	if (!m->device)
		memcpy(to, m->base + at, len);
	else if (len)
		E2E_CHECK(!cuda.download(to, (uintptr_t)m->base + at, len), "download");
}

static void memory_open(struct e2e *e, struct memory *m, bool device, uint64_t key)
{
	uint64_t address;
	struct iovec iov;
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .requested_key = key, .iface = device ? FI_HMEM_CUDA : FI_HMEM_SYSTEM,
		.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
	};

	m->device = device;
	if (device) {
		E2E_CHECK(!cuda.alloc(&address, BYTES + SLACK), "no device memory");
		m->base = (uint8_t *)(uintptr_t)address;
	} else {
		m->base = malloc(BYTES + SLACK);
	}
	iov = (struct iovec){ m->base, BYTES + SLACK };
	E2E_OK(fi_mr_regattr(e->domain, &attr, 0, &m->mr));
}

static void memory_close(struct memory *m)
{
	E2E_OK(fi_close(&m->mr->fid));
	if (m->device)
		cuda.release((uintptr_t)m->base);
	else
		free(m->base);
}

static void *desc(struct memory *m)
{
	return fi_mr_desc(m->mr);
}

/* The frame's own opening asks for no device memory. */
static void open_link(struct e2e *e)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct { size_t len; char name[256]; } *names = e2e_scratch();

	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV | (have_cuda ? FI_HMEM : 0);
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_HMEM;
	E2E_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &e->info));
	fi_freeinfo(hints);
	E2E_OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	E2E_OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	E2E_OK(fi_av_open(e->domain, &av_attr, &e->av, NULL));
	E2E_OK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	E2E_OK(fi_cq_open(e->domain, &cq_attr, &e->txcq, NULL));
	E2E_OK(fi_cq_open(e->domain, &cq_attr, &e->rxcq, NULL));
	E2E_OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	E2E_OK(fi_ep_bind(e->ep, &e->txcq->fid, FI_TRANSMIT));
	E2E_OK(fi_ep_bind(e->ep, &e->rxcq->fid, FI_RECV));
	E2E_OK(fi_enable(e->ep));
	names[e->rank].len = sizeof(names[0].name);
	E2E_OK(fi_getname(&e->ep->fid, names[e->rank].name, &names[e->rank].len));
	e2e_barrier(e);
	for (int r = 0; r < e->nranks; r++)
		E2E_CHECK(fi_av_insert(e->av, names[r].name, 1, &e->peer[r], 0, NULL) == 1, "rank %d", r);
	e2e_barrier(e);
}

/* ---- messages */

static void send_from(struct e2e *e, struct memory *m, size_t at, size_t len, uint64_t tag, struct e2e_op *op)
{
	memset(op, 0, sizeof(*op));
	E2E_AGAIN(e, fi_tsend(e->ep, m->base + at, len, desc(m), e->peer[1 - e->rank], tag, op));
}

static void recv_to(struct e2e *e, struct memory *m, size_t at, size_t len, uint64_t tag, struct e2e_op *op)
{
	memset(op, 0, sizeof(*op));
	E2E_AGAIN(e, fi_trecv(e->ep, m->base + at, len, desc(m), e->peer[1 - e->rank], tag, 0, op));
}

static void check_memory(struct memory *m, size_t at, size_t len, unsigned int seed, const char *what)
{
	fill(expected, len, seed);
	memory_get(m, at, seen, len);
	E2E_CHECK(!memcmp(expected, seen, len), "%s of %zu bytes, %s memory", what, len, m->device ? "device" : "host");
}

/* Rank 0 sends, then rank 1; posted before or after the message comes. */
static void one_message(struct e2e *e, struct memory *out, struct memory *in, size_t len, bool unexpected)
{
	size_t at = len % 7;
	struct e2e_op op;

	for (int turn = 0; turn < 2; turn++) {
		if (e->rank == turn) {
			fill(expected, len, (unsigned int)len + 1);
			memory_put(out, at, expected, len);
			if (!unexpected)
				e2e_barrier(e);
			send_from(e, out, at, len, len, &op);
			if (unexpected)
				e2e_barrier(e);
			e2e_wait(e, &op);
		} else {
			if (unexpected)
				e2e_barrier(e);
			recv_to(e, in, at + 3, BYTES, len, &op);
			if (!unexpected)
				e2e_barrier(e);
			e2e_wait(e, &op);
			E2E_CHECK(op.entry.len == len && op.entry.tag == len && op.src == e->peer[turn], "%zu bytes came as %zu", len,
				  op.entry.len);
			check_memory(in, at + 3, len, (unsigned int)len + 1, "a message");
		}
	}
}

static void test_messages(struct e2e *e, struct memory *out, struct memory *in)
{
	static const size_t sizes[] = { 0, 1, 3, 4096, 8191, 8192, 8193, 65536, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, (5u << 20) + 3,
					BYTES };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		one_message(e, out, in, sizes[i], false);
		one_message(e, out, in, sizes[i], true);
	}
}

/* Many at once, both ways: more chunks than the link holds. */
static void test_window(struct e2e *e, struct memory *out, struct memory *in)
{
	enum { N = 40 };
	static struct e2e_op sends[N], recvs[N];
	size_t len = BYTES / N - 3;

	for (unsigned int i = 0; i < N; i++) {
		fill(expected, len, 100 + i + (unsigned int)e->rank);
		memory_put(out, i * len, expected, len);
	}
	for (unsigned int i = 0; i < N; i++)
		recv_to(e, in, i * len, len, i, &recvs[i]);
	for (unsigned int i = 0; i < N; i++)
		send_from(e, out, i * len, len, i, &sends[i]);
	for (unsigned int i = 0; i < N; i++) {
		e2e_wait(e, &recvs[i]);
		e2e_wait(e, &sends[i]);
		check_memory(in, i * len, len, 100 + i + (unsigned int)(1 - e->rank), "one of many messages");
	}
	e2e_barrier(e);
}

static void test_truncated(struct e2e *e, struct memory *out, struct memory *in)
{
	static const size_t sizes[][2] = { { 100, 40 }, { 3u << 20, 1500000 }, { 3u << 20, 0 } };
	struct e2e_op op;

	for (size_t i = 0; i < 3; i++) {
		if (!e->rank) {
			fill(expected, sizes[i][0], 9);
			memory_put(out, 0, expected, sizes[i][0]);
			send_from(e, out, 0, sizes[i][0], 1, &op);
			e2e_wait(e, &op);
		} else {
			recv_to(e, in, 0, sizes[i][1], 1, &op);
			E2E_CHECK(e2e_wait_ms(e, &op, 20000), "a truncated message does not end");
			E2E_CHECK(op.err == FI_ETRUNC && op.error.olen == sizes[i][0] - sizes[i][1] && op.error.len == sizes[i][1],
				  "error %d, %zu left over", op.err, op.error.olen);
			check_memory(in, 0, sizes[i][1], 9, "the head of a message");
		}
		e2e_barrier(e);
	}
}

static void test_scattered(struct e2e *e, struct memory *out, struct memory *in)
{
	struct iovec from[3] = { { out->base + 5, 1 << 20 }, { out->base + (4 << 20), 0 }, { out->base + (6 << 20), 1500001 } };
	struct iovec to[2] = { { in->base + 1, 700001 }, { in->base + (9 << 20), 2 << 20 } };
	void *out_desc[3] = { desc(out), desc(out), desc(out) }, *in_desc[2] = { desc(in), desc(in) };
	size_t len = from[0].iov_len + from[2].iov_len;
	struct e2e_op op = { 0 };

	fill(expected, len, 77);
	if (!e->rank) {
		memory_put(out, 5, expected, from[0].iov_len);
		memory_put(out, 6 << 20, expected + from[0].iov_len, from[2].iov_len);
		E2E_AGAIN(e, fi_tsendv(e->ep, from, out_desc, 3, e->peer[1], 5, &op));
		e2e_wait(e, &op);
	} else {
		E2E_AGAIN(e, fi_trecvv(e->ep, to, in_desc, 2, e->peer[0], 5, 0, &op));
		e2e_wait(e, &op);
		memory_get(in, 1, seen, 700001);
		memory_get(in, 9 << 20, seen + 700001, len - 700001);
		E2E_CHECK(!memcmp(seen, expected, len), "scattered data");
	}
	e2e_barrier(e);
}

/* ---- remote memory */

static int rma_error(struct e2e *e, struct e2e_op *op)
{
	E2E_CHECK(e2e_wait_ms(e, op, 20000), "remote access does not end");
	return op->err;
}

static void test_rma(struct e2e *e, struct memory *out, struct memory *in, uint64_t key)
{
	static const size_t sizes[] = { 1, 8192, 8193, (3u << 20) + 5 };
	struct e2e_op op;
	struct fi_cq_tagged_entry entry;
	ssize_t n;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		if (!e->rank) {
			fill(expected, sizes[i], 31);
			memory_put(out, 2, expected, sizes[i]);
			memset(&op, 0, sizeof(op));
			E2E_AGAIN(e, fi_writedata(e->ep, out->base + 2, sizes[i], desc(out), 0x12345678, e->peer[1], 11, key, &op));
			e2e_wait(e, &op);
		} else {
			while ((n = fi_cq_read(e->rxcq, &entry, 1)) == -FI_EAGAIN)
				;
			E2E_CHECK(n == 1 && entry.flags & FI_REMOTE_CQ_DATA && entry.data == 0x12345678 && entry.len == sizes[i],
				  "immediate data: %zd, flags %#llx", n, (unsigned long long)entry.flags);
			check_memory(in, 11, sizes[i], 31, "a write");
		}
		e2e_barrier(e);
		if (!e->rank) {
			memset(&op, 0, sizeof(op));
			E2E_AGAIN(e, fi_read(e->ep, in->base, sizes[i], desc(in), e->peer[1], 11, key, &op));
			e2e_wait(e, &op);
			check_memory(in, 0, sizes[i], 31, "a read");
		}
		e2e_barrier(e);
	}
	if (!e->rank) {
		memset(&op, 0, sizeof(op));
		E2E_AGAIN(e, fi_write(e->ep, out->base, 100, desc(out), e->peer[1], 0, key + 1000, &op));
		E2E_CHECK(rma_error(e, &op) == FI_ENOKEY, "a wrong key: %d", op.err);
		memset(&op, 0, sizeof(op));
		E2E_AGAIN(e, fi_write(e->ep, out->base, 1 << 20, desc(out), e->peer[1], BYTES, key, &op));
		E2E_CHECK(rma_error(e, &op) == FI_EINVAL, "beyond the end: %d", op.err);
		memset(&op, 0, sizeof(op));
		E2E_AGAIN(e, fi_read(e->ep, in->base, 1 << 20, desc(in), e->peer[1], UINT64_MAX - 5, key, &op));
		E2E_CHECK(rma_error(e, &op) == FI_EINVAL, "around the end: %d", op.err);
	}
	e2e_barrier(e);
}

/* ---- death */

static void test_death(struct e2e *e, struct memory *out, struct memory *in)
{
	static struct e2e_op send, unmatched, recv, write;
	double end = e2e_now() + SECONDS;
	long ret;

	recv_to(e, in, 0, BYTES, 1, &recv);
	send_from(e, out, 0, BYTES, 1, &send);
	if (e->rank)
		kill(getpid(), SIGKILL);
	send_from(e, out, 0, BYTES, 99, &unmatched);
	memset(&write, 0, sizeof(write));
	E2E_AGAIN(e, fi_write(e->ep, out->base, BYTES, desc(out), e->peer[1], 0, 2, &write));
	while (!(send.done && unmatched.done && recv.done && write.done)) {
		E2E_CHECK(e2e_now() < end, "pending after %d s: send %d unmatched %d receive %d write %d", SECONDS, !send.done, !unmatched.done,
			  !recv.done, !write.done);
		e2e_progress(e);
	}
	E2E_CHECK(unmatched.err == FI_ECONNABORTED && recv.err == FI_ECONNABORTED && write.err == FI_ECONNABORTED,
		  "errors %d, %d, %d", unmatched.err, recv.err, write.err);
	while ((ret = fi_tsend(e->ep, out->base, 8, desc(out), e->peer[1], 1, &send)) == -FI_EAGAIN && e2e_now() < end)
		e2e_progress(e);
	E2E_CHECK(ret == -FI_EHOSTUNREACH, "sending to the dead: %ld", ret);
}

static void close_link(struct e2e *e, struct memory memory[4], bool devices)
{
	for (int i = 0; i < (devices ? 4 : 2); i++)
		memory_close(&memory[i]);
	e2e_close(e);
}

int main(void)
{
	const struct e2e_opts opts = { 0 };
	const char *stack = getenv("FI_PROVIDER");
	struct memory memory[4]; /* out and in: host, device */
	struct e2e e;

	if (!stack || strcmp(stack, "zlink") || getenv("FI_HOOK")) {
		printf("tests zlink alone\n");
		return E2E_SKIP;
	}
	expected = malloc(BYTES);
	seen = malloc(BYTES);
	e2e_start(&e, 2, &opts);
	cuda_open();
	open_link(&e);
	for (int i = 0; i < (have_cuda ? 4 : 2); i++)
		memory_open(&e, &memory[i], i > 1, 1 + (uint64_t)i);
	for (int pair = 0; pair < (have_cuda ? 4 : 1); pair++) {
		struct memory *out = &memory[pair & 1 ? 2 : 0], *in = &memory[pair & 2 ? 3 : 1];

		test_messages(&e, out, in);
		test_window(&e, out, in);
		test_truncated(&e, out, in);
		test_scattered(&e, out, in);
		test_rma(&e, out, in, pair & 2 ? 4 : 2);
	}
	test_death(&e, &memory[have_cuda ? 2 : 0], &memory[have_cuda ? 3 : 1]);
	close_link(&e, memory, have_cuda);
	waitpid(e2e_pid(1), NULL, 0);
	free(expected);
	free(seen);
	printf("%s memory\n", have_cuda ? "host and device" : "host");
	return 0;
}
