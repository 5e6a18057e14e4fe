/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eight processes write random parts of one region at the same time, several in flight each, disjoint in space: all of it
 * arrives, each part is in place when its writer is told so, and every completion with data comes once.
 *
 *     E2E_RMA_MIB   size of the region (default 192; 2560 shows that nothing counts in 32 bits)
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "e2e.h"
#include "zipt_data.h"

#define WRITERS 8
#define WINDOW 4
#define NUMBERS (8u << 20)
#define PART_MOST (3u << 20)
#define KEY 77

struct board {
	uint64_t addr, key;
	atomic_int finished;
};

/* Where a part is and what is written there: the same for whoever asks. */
struct part {
	size_t at, len;
	const uint8_t *data;
};

static struct part *parts;
static size_t nparts, region_bytes;
static uint8_t *region, *numbers;
static struct board *board;

static void make_parts(void)
{
	uint64_t seed = 12345;
	size_t at = 0, n;

	parts = calloc(region_bytes / 65536 + 1, sizeof(*parts));
	E2E_CHECK(parts, "no memory");
	while (at + PART_MOST < region_bytes) {
		n = zipt_random(&seed) % 4 ? 65536 + zipt_random(&seed) % 500000 : 1048576 + zipt_random(&seed) % (PART_MOST - 1048576);
		parts[nparts++] = (struct part){at, n, numbers + 2 * (zipt_random(&seed) % ((NUMBERS - PART_MOST) / 2))};
		at += n + zipt_random(&seed) % 9; /* a few bytes that nobody writes */
	}
}

/* A writer's parts in an order of its own. */
static size_t *shuffle(int writer, size_t *count)
{
	size_t *order = malloc((nparts / WRITERS + 1) * sizeof(*order)), i, n = 0, other, swap;
	uint64_t seed = 99 + (uint64_t)writer;

	E2E_CHECK(order, "no memory");
	for (i = (size_t)writer; i < nparts; i += WRITERS)
		order[n++] = i;
	for (i = n; i > 1; i--) {
		other = zipt_random(&seed) % i;
		swap = order[i - 1];
		order[i - 1] = order[other];
		order[other] = swap;
	}
	*count = n;
	return order;
}

static bool with_data(size_t n)
{
	return n % 3 == 0 || parts[n].len < 1048576;
}

static void begin(struct e2e *e, size_t n, struct e2e_op *op)
{
	const struct part *p = &parts[n];

	memset(op, 0, sizeof(*op));
	if (with_data(n))
		E2E_AGAIN(e, fi_writedata(e->ep, p->data, p->len, NULL, n & 0xffffffff, e->peer[0], board->addr + p->at, board->key, op));
	else
		E2E_AGAIN(e, fi_write(e->ep, p->data, p->len, NULL, e->peer[0], board->addr + p->at, board->key, op));
}

static void end(struct e2e *e, size_t n, struct e2e_op *op)
{
	E2E_CHECK(e2e_wait_ms(e, op, 300000), "part %zu: nothing for 300 s", n);
	E2E_CHECK(!op->err, "part %zu: %s", n, fi_strerror(op->err));
	E2E_CHECK(!memcmp(region + parts[n].at, parts[n].data, parts[n].len), "part %zu is not in place", n);
}

static void writer(struct e2e *e)
{
	struct e2e_op ops[WINDOW];
	size_t count, i, *order = shuffle(e->rank - 1, &count);

	for (i = 0; i < count + WINDOW; i++) {
		if (i >= WINDOW)
			end(e, order[i - WINDOW], &ops[i % WINDOW]);
		if (i < count)
			begin(e, order[i], &ops[i % WINDOW]);
	}
	free(order);
	E2E_CHECK(e2e_stats(e).send_transfers == count, "%llu of %zu parts were transfers",
		  (unsigned long long)e2e_stats(e).send_transfers, count);
	atomic_fetch_add(&board->finished, 1);
}

static void target(struct e2e *e)
{
	uint8_t *seen = calloc(nparts, 1);
	size_t want = 0, n, at, got = 0;
	unsigned i;

	E2E_CHECK(seen, "no memory");
	for (n = 0; n < nparts; n++)
		want += with_data(n);
	while (atomic_load(&board->finished) < WRITERS || got < want) {
		e2e_progress(e);
		for (i = 0; i < e->nremote; i++) {
			n = e->remote[i].data;
			E2E_CHECK(n < nparts && with_data(n) && !seen[n]++, "a completion with data %zu", n);
			E2E_CHECK(e->remote[i].len == parts[n].len, "part %zu: %zu bytes", n, e->remote[i].len);
			got++;
		}
		e->nremote = 0;
	}
	for (n = at = 0; n < nparts; n++) {
		for (; at < parts[n].at; at++)
			E2E_CHECK(!region[at], "byte %zu was written", at);
		E2E_CHECK(!memcmp(region + at, parts[n].data, parts[n].len), "part %zu differs", n);
		at += parts[n].len;
	}
	for (; at < region_bytes; at++)
		E2E_CHECK(!region[at], "byte %zu was written", at);
	free(seen);
}

static void run(void)
{
	const struct e2e_opts opts = {.caps = FI_MSG | FI_TAGGED | FI_RMA, .env = {{"FI_ZIP_POLICY", "ratio"}}};
	struct fid_mr *mr = NULL;
	double start;
	struct e2e e;

	e2e_start(&e, WRITERS + 1, &opts);
	board = e2e_scratch();
	e2e_open(&e);
	if (!e.zip) {
		printf("the stack %s has no zip in it\n", getenv("FI_PROVIDER"));
		exit(E2E_SKIP);
	}
	if (e.rank == 0) {
		E2E_OK(fi_mr_reg(e.domain, region, region_bytes, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
		board->key = fi_mr_key(mr);
		board->addr = e.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)region : 0;
	}
	e2e_barrier(&e);
	start = e2e_now();
	if (e.rank)
		writer(&e);
	else
		target(&e);
	e2e_barrier(&e);
	if (e.rank == 0) {
		printf("%zu parts, %zu MiB, %.1f s\n", nparts, region_bytes >> 20, e2e_now() - start);
		E2E_OK(fi_close(&mr->fid));
	}
	e2e_close(&e);
	e2e_exit(&e);
}

int main(void)
{
	const char *text = getenv("E2E_RMA_MIB");
	unsigned long mib = text ? strtoul(text, NULL, 10) : 192;

	if (mib < 16 || mib > 1u << 20) {
		fprintf(stderr, "E2E_RMA_MIB=%s: 16 and more\n", text);
		return 1;
	}
	region_bytes = (size_t)mib << 20;
	region = mmap(NULL, region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	numbers = malloc(NUMBERS);
	if (region == MAP_FAILED || !numbers) {
		printf("no memory for a region of %lu MiB\n", mib);
		return E2E_SKIP;
	}
	if (!text)
		printf("a region of %lu MiB; E2E_RMA_MIB=2560 tests more than 32 bits\n", mib);
	fflush(stdout);
	zipt_fill(numbers, NUMBERS, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	make_parts();
	run();
	return 0;
}
