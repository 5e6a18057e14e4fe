/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes and reads in all their forms. Rank 0 writes to and reads from rank 1's region, which is memory that both see, so that
 * rank 0 can look whether its completion tells the truth.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#include "e2e.h"
#include "zipt_data.h"

#define REGION (12u << 20)
#define LARGE 3000003u
#define KEY 4242

/* What rank 1 tells rank 0 of its regions; where `stage` stands. */
struct board {
	uint64_t addr, key, read_only_key, write_only_key, closed_key, other_key;
	atomic_int stage;
};

static struct board *board;
static uint8_t *region; /* rank 1's, seen by both */
static uint8_t *local, *want, *numbers;
static void *local_desc;
static struct fid_mr *local_mr;
static size_t offset_base; /* of addresses that rank 0 uses: 0, or where the region begins */

/* A part of the same numbers: to make new ones every time would take most of the time. */
static void fill(uint8_t *buf, size_t len, unsigned seed)
{
	memcpy(buf, numbers + 2 * (seed * 7919 % 100000), len);
}

static bool is_virtual(const struct e2e *e)
{
	return e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
}

static struct fid_mr *reg(struct e2e *e, struct fid_domain *domain, void *buf, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	E2E_OK(fi_mr_reg(domain, buf, len, access, 0, key, 0, &mr, NULL));
	if (e->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		E2E_OK(fi_mr_bind(mr, &e->ep->fid, 0));
		E2E_OK(fi_mr_enable(mr));
	}
	return mr;
}

/* Rank 1 registers its region, rank 0 its buffer where the core wants that. */
static struct fid_mr *regions(struct e2e *e)
{
	struct fid_mr *mr = NULL;

	local_desc = NULL;
	local_mr = NULL;
	if (e->rank == 1) {
		mr = reg(e, e->domain, region, REGION, FI_REMOTE_WRITE | FI_REMOTE_READ, KEY);
		board->key = fi_mr_key(mr);
		board->addr = is_virtual(e) ? (uintptr_t)region : 0;
		atomic_store(&board->stage, 0);
	} else if (e->info->domain_attr->mr_mode & FI_MR_LOCAL) {
		local_mr = reg(e, e->domain, local, REGION, FI_WRITE | FI_READ, KEY + 1);
		local_desc = fi_mr_desc(local_mr);
	}
	e2e_barrier(e);
	offset_base = board->addr;
	return mr;
}

static void close_regions(struct e2e *e, struct fid_mr *mr)
{
	e2e_barrier(e);
	if (mr)
		E2E_OK(fi_close(&mr->fid));
	if (local_mr)
		E2E_OK(fi_close(&local_mr->fid));
}

/* ---- every form and size */

enum form { WRITE, WRITEV, WRITEMSG, WRITEDATA, DELIVERY, READ, READV, READMSG, FORMS };

static size_t cut(struct iovec *iov, uint8_t *base, size_t len, size_t n)
{
	size_t i, left = len, part;

	for (i = 0; i < n; i++, left -= part) {
		part = i == n - 1 ? left : i == 1 ? left < 1 ? 0 : 1 : left / (i + 3);
		iov[i] = (struct iovec){base + len - left, part};
	}
	return n;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static long post(struct e2e *e, enum form form, uint8_t *buf, size_t len, size_t at, struct e2e_op *op)
{
	size_t limit = smaller(e->info->tx_attr->iov_limit, 4), rma_limit = smaller(e->info->tx_attr->rma_iov_limit, 4), i, done = 0;
	void *desc[4] = {local_desc, local_desc, local_desc, local_desc};
	uint64_t addr = offset_base + at;
	struct fi_rma_iov rma[4];
	struct iovec iov[4], cuts[4];
	struct fi_msg_rma msg = {
		.msg_iov = iov, .desc = desc, .iov_count = cut(iov, buf, len, limit), .addr = e->peer[1], .rma_iov = rma,
		.rma_iov_count = form == WRITEMSG || form == READMSG ? cut(cuts, buf, len, rma_limit) : 1, .context = op,
	};

	for (i = 0; i < msg.rma_iov_count; i++) {
		size_t n = msg.rma_iov_count == 1 ? len : cuts[i].iov_len;

		rma[i] = (struct fi_rma_iov){addr + done, n, board->key};
		done += n;
	}
	memset(op, 0, sizeof(*op));
	switch (form) {
	case WRITE: return fi_write(e->ep, buf, len, local_desc, e->peer[1], addr, board->key, op);
	case WRITEV: return fi_writev(e->ep, iov, desc, msg.iov_count, e->peer[1], addr, board->key, op);
	case WRITEMSG: return fi_writemsg(e->ep, &msg, FI_COMPLETION);
	case DELIVERY: return fi_writemsg(e->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
	case WRITEDATA: return fi_writedata(e->ep, buf, len, local_desc, len, e->peer[1], addr, board->key, op);
	case READ: return fi_read(e->ep, buf, len, local_desc, e->peer[1], addr, board->key, op);
	case READV: return fi_readv(e->ep, iov, desc, msg.iov_count, e->peer[1], addr, board->key, op);
	default: return fi_readmsg(e->ep, &msg, FI_COMPLETION);
	}
}

static bool is_write(enum form form)
{
	return form <= DELIVERY;
}

static void start(struct e2e *e, enum form form, uint8_t *buf, size_t len, size_t at, struct e2e_op *op)
{
	E2E_AGAIN(e, post(e, form, buf, len, at, op));
}

/*
 * Is what is wanted there? memcmp(3) on memory that changes meanwhile may say that it is: it looks a second time at what it has found to
 * differ. So it gets a copy.
 */
static bool arrived(size_t at, size_t len)
{
	static uint8_t *copy;

	if (!copy)
		copy = malloc(REGION);
	memcpy(copy, region + at, len);
	return !memcmp(copy, want, len);
}

/* A write that travels as a transfer is in place when it is complete; what went raw only has left, unless that was asked for. */
static void expect_region(struct e2e *e, size_t at, size_t len, uint64_t transfers)
{
	double end = e2e_now() + 20;

	while (e2e_stats(e).send_transfers == transfers && !arrived(at, len) && e2e_now() < end)
		e2e_progress(e);
	E2E_CHECK(!memcmp(region + at, want, len), "%zu bytes at %zu differ", len, at);
	E2E_CHECK(region[at - 1] == 0xee && region[at + len] == 0xee, "%zu bytes at %zu: written outside", len, at);
}

static void one(struct e2e *e, enum form form, size_t len, size_t at, unsigned seed)
{
	uint64_t before = e2e_stats(e).send_transfers;
	uint8_t *buf = local + 64 + seed % 17;
	struct e2e_op op;

	fill(want, len, seed);
	memset(region + at - 1, 0xee, len + 2);
	memset(buf - 1, 0xee, len + 2);
	memcpy(is_write(form) ? buf : region + at, want, len);
	start(e, form, buf, len, at, &op);
	e2e_wait(e, &op);
	E2E_CHECK(op.entry.flags & FI_RMA, "flags %#llx", (unsigned long long)op.entry.flags);
	E2E_CHECK(buf[-1] == 0xee && buf[len] == 0xee && !memcmp(buf, want, len), "form %d, %zu bytes: the local buffer differs", form, len);
	expect_region(e, at, len, before);
}

static const size_t sizes[] = {
	1, 64, 8191, 8192, 65535, 65536, 65537, 131073, 1048575, 1048576, 1048577, 1048576 + 127, 4194304 + 8, 5000001,
};

#define SIZES (sizeof(sizes) / sizeof(*sizes))

static void all_forms(struct e2e *e)
{
	struct fid_mr *mr = regions(e);
	unsigned i, form, with_data = 0;

	if (e->rank == 0) {
		for (i = 0; i < SIZES; i++)
			for (form = 0; form < FORMS; form++)
				one(e, form, sizes[i], 1 + (i * 977 + form * 13) % 5000, 1 + i * FORMS + form);
		atomic_store(&board->stage, 1);
	}
	while (e->rank == 1 && (!atomic_load(&board->stage) || e->nremote < SIZES))
		e2e_progress(e);
	e2e_barrier(e);
	for (i = 0; i < 100; i++)
		e2e_progress(e);
	if (e->rank == 1) {
		for (; with_data < e->nremote; with_data++) {
			const struct fi_cq_tagged_entry *entry = &e->remote[with_data];

			E2E_CHECK(entry->data == sizes[with_data], "completion %u: data %llu", with_data, (unsigned long long)entry->data);
			/* Of what went raw not all cores say as much. */
			if (sizes[with_data] < 65536 || e->opts.order)
				continue;
			E2E_CHECK(entry->len == sizes[with_data] && entry->flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA),
				  "completion %u: %zu bytes, flags %#llx", with_data, entry->len, (unsigned long long)entry->flags);
		}
		E2E_CHECK(e->nremote == SIZES, "%u completions with data, not %zu", e->nremote, SIZES);
	}
	if (e->rank == 0 && !e->opts.order) /* and with an order none */
		E2E_CHECK(e2e_stats(e).send_transfers >= 14 && e2e_stats(e).recv_transfers >= 14, "only %llu written and %llu read as transfers",
			  (unsigned long long)e2e_stats(e).send_transfers, (unsigned long long)e2e_stats(e).recv_transfers);
	if (e->opts.order)
		E2E_CHECK(!e2e_stats(e).send_transfers, "%llu transfers against the order asked for",
			  (unsigned long long)e2e_stats(e).send_transfers);
	E2E_CHECK(!e2e_stats(e).errors && !e2e_stats(e).staging_bytes, "errors %llu", (unsigned long long)e2e_stats(e).errors);
	close_regions(e, mr);
}

/* Many in flight, both ways and in both directions at once. */
static void window(struct e2e *e)
{
	struct fid_mr *mr = regions(e);
	struct e2e_op ops[16];
	unsigned i, round;

	if (e->rank == 0) {
		fill(want, 16 * 300000, 5);
		for (round = 0; round < 4; round++) {
			memcpy(local, want, 16 * 300000);
			for (i = 0; i < 16; i++)
				start(e, round & 1 ? WRITEDATA : DELIVERY, local + i * 300000, 300000, i * 300000, &ops[i]);
			for (i = 0; i < 16; i++)
				e2e_wait(e, &ops[i]);
			E2E_CHECK(!memcmp(region, want, 16 * 300000), "round %u: the region differs", round);
			memset(local, 0, 16 * 300000);
			for (i = 0; i < 16; i++)
				start(e, READ, local + i * 300000, 300000, i * 300000, &ops[i]);
			for (i = 0; i < 16; i++)
				e2e_wait(e, &ops[i]);
			E2E_CHECK(!memcmp(local, want, 16 * 300000), "round %u: what was read differs", round);
		}
	}
	close_regions(e, mr);
}

/* ---- a target that polls */

static void polling(struct e2e *e)
{
	static const size_t lens[] = {LARGE, 1048576, 1048577, 4194304 + 8, 2097152 + 100};
	struct fid_mr *mr = regions(e);
	volatile uint8_t *flag;
	struct e2e_op op;
	unsigned i;

	for (i = 0; i < 15; i++) {
		size_t len = lens[i % 5];

		fill(want, len, i);
		want[len - 1] = (uint8_t)(i + 1);
		flag = region + 100 + len - 1;
		if (e->rank == 1) {
			memset(region + 100, 0, len);
			*flag = 0xff;
			e2e_barrier(e);
			while (*flag == 0xff)
				if (e->opts.progress != FI_PROGRESS_AUTO)
					e2e_progress(e);
			atomic_thread_fence(memory_order_acquire);
			E2E_CHECK(!memcmp(region + 100, want, len), "%zu bytes: the last one came before others", len);
		} else {
			memcpy(local, want, len);
			e2e_barrier(e);
			start(e, WRITE, local, len, 100, &op);
			e2e_wait(e, &op);
		}
		e2e_barrier(e);
	}
	if (e->rank == 0)
		E2E_CHECK(e2e_stats(e).send_transfers >= 10, "only %llu transfers", (unsigned long long)e2e_stats(e).send_transfers);
	close_regions(e, mr);
}

/* A target that calls nothing for as long as it is written to and read from. */
static void passive(struct e2e *e)
{
	struct fid_mr *mr = regions(e);
	struct e2e_op op;
	unsigned i;

	if (e->rank == 1)
		while (!atomic_load(&board->stage))
			usleep(1000);
	for (i = 0; e->rank == 0 && i < 6; i++) {
		fill(want, LARGE, 30 + i);
		memcpy(i & 1 ? region : local, want, LARGE);
		start(e, i & 1 ? READ : i & 2 ? WRITEDATA : WRITE, local, LARGE, 0, &op);
		e2e_wait(e, &op);
		E2E_CHECK(!memcmp(local, want, LARGE) && !memcmp(region, want, LARGE), "operation %u: the data differs", i);
	}
	if (e->rank == 0)
		atomic_store(&board->stage, 1);
	close_regions(e, mr);
}

/* ---- counters, selective completion */

static void wait_counter(struct e2e *e, struct fid_cntr *cntr, uint64_t value)
{
	double end = e2e_now() + 20;

	while (fi_cntr_read(cntr) < value) {
		e2e_progress(e);
		E2E_CHECK(e2e_now() < end, "a counter stays at %llu", (unsigned long long)fi_cntr_read(cntr));
	}
}

static void counters(struct e2e *e)
{
	static const size_t lens[] = {100, LARGE};
	struct fid_mr *mr = regions(e);
	struct fid_cntr *cntr = e->rank ? e->rxcntr : e->txcntr;
	uint64_t base = fi_cntr_read(cntr);
	struct iovec iov = {local, 0};
	struct fi_rma_iov rma = {0, 0, board->key};
	struct e2e_op quiet = {0};
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &local_desc, .iov_count = 1, .addr = e->peer[1], .rma_iov = &rma, .rma_iov_count = 1,
		.context = &quiet,
	};
	unsigned i;

	for (i = 0; i < 8; i++) {
		iov.iov_len = rma.len = lens[i & 1];
		rma.addr = offset_base;
		if (e->rank == 0) {
			fill(local, iov.iov_len, i);
			E2E_AGAIN(e, i & 2 ? fi_readmsg(e->ep, &msg, 0) : fi_writemsg(e->ep, &msg, FI_DELIVERY_COMPLETE));
		}
		if (e->rank == 0 || (e->info->caps & FI_RMA_EVENT)) {
			wait_counter(e, cntr, base + i + 1);
			E2E_CHECK(fi_cntr_read(cntr) == base + i + 1, "operation %u: the counter is %llu", i,
				  (unsigned long long)(fi_cntr_read(cntr) - base));
		}
		e2e_barrier(e);
	}
	E2E_CHECK(!quiet.done, "a completion nobody asked for");
	if (e->rank == 0) {
		E2E_AGAIN(e, fi_writemsg(e->ep, &msg, FI_COMPLETION));
		e2e_wait(e, &quiet);
	}
	close_regions(e, mr);
}

/* A counter that is bound to the region, where the core can do that. */
static void region_counter(struct e2e *e)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr = NULL;
	struct fid_mr *mr = regions(e), *counted = NULL;
	struct e2e_op op;
	unsigned i;

	if (e->rank == 1) {
		E2E_OK(fi_cntr_open(e->domain, &attr, &cntr, NULL));
		E2E_OK(fi_mr_reg(e->domain, region, REGION, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY + 7,
				 e->info->caps & FI_RMA_EVENT, &counted, NULL));
		atomic_store(&board->stage, fi_mr_bind(counted, &cntr->fid, FI_REMOTE_WRITE) ? 2 : 1);
		if (e->info->domain_attr->mr_mode & (FI_MR_ENDPOINT | FI_MR_RMA_EVENT))
			E2E_OK(fi_mr_enable(counted));
		board->key = fi_mr_key(counted);
	}
	e2e_barrier(e);
	for (i = 0; i < 3 && atomic_load(&board->stage) == 1; i++) {
		if (e->rank == 0) {
			fill(local, LARGE, i);
			start(e, WRITE, local, LARGE, 0, &op);
			e2e_wait(e, &op);
		} else {
			double end = e2e_now() + 20;

			while (fi_cntr_read(cntr) < i + 1)
				E2E_CHECK(e2e_now() < end, "the region's counter stays at %llu", (unsigned long long)fi_cntr_read(cntr));
			E2E_CHECK(fi_cntr_read(cntr) == i + 1, "the region's counter is %llu", (unsigned long long)fi_cntr_read(cntr));
		}
		e2e_barrier(e);
	}
	if (counted) {
		E2E_OK(fi_close(&counted->fid));
		E2E_OK(fi_close(&cntr->fid));
	}
	close_regions(e, mr);
}

/* ---- wrong use */

static void refused(struct e2e *e, enum form form, uint64_t key, size_t at, int err)
{
	uint64_t good = board->key;
	struct e2e_op op;

	memset(local, 0x11, LARGE);
	fill(local, LARGE, 3);
	board->key = key;
	start(e, form, local, LARGE, at, &op);
	board->key = good;
	E2E_CHECK(e2e_wait_ms(e, &op, 20000), "form %d, key %llu: nothing for 20 s", form, (unsigned long long)key);
	E2E_CHECK(op.err == err, "form %d, key %llu at %zu: %s, not %s", form, (unsigned long long)key, at, fi_strerror(op.err),
		  fi_strerror(err));
}

static void wrong_use(struct e2e *e)
{
	struct fid_mr *mr = regions(e), *more[3] = {0}, *other_mr = NULL;
	struct fid_domain *other = NULL;
	uint8_t *elsewhere = NULL;
	struct e2e_op op;
	unsigned i;

	if (e->rank == 1) {
		more[0] = reg(e, e->domain, region, REGION, FI_REMOTE_READ, KEY + 10);
		more[1] = reg(e, e->domain, region, REGION, FI_REMOTE_WRITE, KEY + 11);
		more[2] = reg(e, e->domain, region, REGION, FI_REMOTE_WRITE | FI_REMOTE_READ, KEY + 12);
		board->read_only_key = fi_mr_key(more[0]);
		board->write_only_key = fi_mr_key(more[1]);
		board->closed_key = fi_mr_key(more[2]);
		E2E_OK(fi_close(&more[2]->fid));
		/* The same key, or one that this domain does not know, at another domain. */
		elsewhere = malloc(REGION);
		memset(elsewhere, 0x33, REGION);
		E2E_OK(fi_domain(e->fabric, e->info, &other, NULL));
		E2E_OK(fi_mr_reg(other, elsewhere, REGION, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &other_mr, NULL));
		board->other_key = fi_mr_key(other_mr);
		memset(region, 0x22, REGION);
	}
	e2e_barrier(e);
	if (e->rank == 0) {
		refused(e, WRITE, 0xdeadbeef, 0, FI_EKEYREJECTED);
		refused(e, READ, 0xdeadbeef, 0, FI_EKEYREJECTED);
		refused(e, WRITEDATA, board->closed_key, 0, FI_EKEYREJECTED);
		refused(e, WRITE, board->read_only_key, 0, FI_EACCES);
		refused(e, READ, board->write_only_key, 0, FI_EACCES);
		refused(e, WRITEDATA, board->key, REGION - LARGE + 1, FI_EINVAL);
		refused(e, READ, board->key, REGION, FI_EINVAL);
		refused(e, DELIVERY, board->key, SIZE_MAX / 2, FI_EINVAL);
		if (board->other_key != board->key && board->other_key != board->read_only_key &&
		    board->other_key != board->write_only_key && is_virtual(e))
			refused(e, WRITE, board->other_key, 0, FI_EKEYREJECTED);
		for (i = 0; i < REGION; i++)
			E2E_CHECK(region[i] == 0x22, "byte %u was written", i);
		/* and good ones still work */
		fill(want, LARGE, 9);
		memcpy(local, want, LARGE);
		start(e, WRITE, local, LARGE, 77, &op);
		e2e_wait(e, &op);
		E2E_CHECK(!memcmp(region + 77, want, LARGE), "the data differs");
	}
	e2e_barrier(e);
	E2E_CHECK(!e->nremote, "a completion of a write that was refused");
	if (e->rank == 1) {
		for (i = 0; i < REGION; i++)
			E2E_CHECK(elsewhere[i] == 0x33, "byte %u of another domain's region was written", i);
		E2E_OK(fi_close(&other_mr->fid));
		E2E_OK(fi_close(&other->fid));
		free(elsewhere);
		E2E_OK(fi_close(&more[0]->fid));
		E2E_OK(fi_close(&more[1]->fid));
	}
	close_regions(e, mr);
}

/* The region closes while transfers into and out of it are under way; its memory is the application's after that. */
static void closing(struct e2e *e)
{
	struct e2e_op ops[12] = {0};
	struct fid_mr *mr;
	unsigned i, round, failed = 0;

	for (round = 0; round < 6; round++) {
		mr = regions(e);
		if (e->rank == 0) {
			fill(local, 900000, round);
			for (i = 0; i < 12; i++)
				start(e, i & 1 ? READ : DELIVERY, local + (i & 1 ? 1000000 : 0), 900000, i * 900000, &ops[i]);
			atomic_store(&board->stage, 1);
			for (i = 0; i < 12; i++) {
				E2E_CHECK(e2e_wait_ms(e, &ops[i], 30000), "operation %u: nothing for 30 s", i);
				E2E_CHECK(!ops[i].err || ops[i].err == FI_EKEYREJECTED, "operation %u: %s", i, fi_strerror(ops[i].err));
				failed += !!ops[i].err;
			}
		} else {
			/* Some find it open, and are waited for; in every other round all come too late. */
			while (!atomic_load(&board->stage))
				if (!(round & 1))
					e2e_progress(e);
			for (i = 0; !(round & 1) && i < round * 3; i++)
				e2e_progress(e);
			E2E_OK(fi_close(&mr->fid));
			memset(region, 0x44, REGION);
		}
		e2e_barrier(e);
		if (e->rank == 1)
			for (i = 0; i < REGION; i++)
				E2E_CHECK(region[i] == 0x44, "byte %u was written after the region was closed", i);
		if (local_mr)
			E2E_OK(fi_close(&local_mr->fid));
		e2e_barrier(e);
	}
	if (e->rank == 0)
		E2E_CHECK(failed, "no operation found the region closed: nothing was tested");
}

/* ---- fences: a small write behind a large one */

static void fence(struct e2e *e)
{
	struct fid_mr *mr = regions(e);
	struct iovec iov = {local + LARGE, 8};
	struct fi_rma_iov rma = {0, 8, board->key};
	struct e2e_op large, small;
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &local_desc, .iov_count = 1, .addr = e->peer[1], .rma_iov = &rma, .rma_iov_count = 1,
		.context = &small,
	};
	volatile uint64_t *flag = (volatile uint64_t *)(void *)(region + (8u << 20));
	uint64_t i;
	long ret;

	rma.addr = offset_base + (8u << 20);
	for (i = 1; i <= 8; i++) {
		fill(want, LARGE, (unsigned)i);
		if (e->rank == 0) {
			memcpy(local, want, LARGE);
			memcpy(local + LARGE, &i, 8);
			start(e, WRITE, local, LARGE, 8, &large);
			memset(&small, 0, sizeof(small));
			while ((ret = fi_writemsg(e->ep, &msg, FI_FENCE | FI_COMPLETION)) == -FI_EAGAIN)
				e2e_progress(e);
			E2E_OK(ret);
			e2e_wait(e, &small);
			e2e_wait(e, &large);
		} else {
			while (*flag != i)
				e2e_progress(e);
			E2E_CHECK(!memcmp(region + 8, want, LARGE), "the fenced write was faster");
		}
		e2e_barrier(e);
	}
	close_regions(e, mr);
}

/* ---- what goes to the core as it is: inject, atomics */

static void raw(struct e2e *e)
{
	struct fid_mr *mr = regions(e);
	size_t count = 0;
	struct e2e_op op = {0};
	double end = e2e_now() + 20;

	if (e->rank == 1)
		memset(region, 0, 64);
	e2e_barrier(e);
	if (e->rank == 0) {
		E2E_AGAIN(e, fi_inject_write(e->ep, "inject!", 8, e->peer[1], offset_base, board->key));
		while (memcmp(region, "inject!", 8)) {
			e2e_progress(e);
			E2E_CHECK(e2e_now() < end, "an injected write does not arrive");
		}
		if ((e->info->caps & FI_ATOMIC) && !fi_atomicvalid(e->ep, FI_UINT64, FI_SUM, &count)) {
			memset(local, 0, 8);
			local[0] = 3;
			E2E_AGAIN(e, fi_atomic(e->ep, local, 1, local_desc, e->peer[1], offset_base + 8, board->key, FI_UINT64, FI_SUM, &op));
			e2e_wait(e, &op);
			while (region[8] != 3) {
				e2e_progress(e);
				E2E_CHECK(e2e_now() < end, "an atomic does not arrive");
			}
		}
	}
	close_regions(e, mr);
}

/* ---- */

static void with(struct e2e_opts opts, const char *policy, void (*test)(struct e2e *))
{
	struct e2e e;
	int i = 0;

	while (opts.env[i][0])
		i++;
	opts.env[i][0] = "FI_ZIP_POLICY";
	opts.env[i][1] = policy;
	if (!opts.caps)
		opts.caps = FI_MSG | FI_TAGGED | FI_RMA;
	e2e_start(&e, 2, &opts);
	board = e2e_scratch();
	e2e_open(&e);
	if (!e.zip) {
		printf("the stack %s has no zip in it\n", getenv("FI_PROVIDER"));
		exit(E2E_SKIP);
	}
	if (getenv("E2E_VERBOSE") && !e.rank)
		printf("%.1f %s %#x\n", e2e_now(), getenv("FI_PROVIDER"), e.info->domain_attr->mr_mode), fflush(stdout);
	test(&e);
	e2e_barrier(&e);
	e2e_close(&e);
	e2e_exit(&e);
}

int main(void)
{
	const int virt = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;

	region = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	local = malloc(REGION + 64);
	want = malloc(REGION);
	numbers = malloc(REGION + 200000);
	zipt_fill(numbers, REGION + 200000, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	with((struct e2e_opts){0}, "ratio", all_forms);
	with((struct e2e_opts){.mr_mode = E2E_MR_SCALABLE}, "ratio", all_forms);
	with((struct e2e_opts){.mr_mode = virt, .one_cq = true}, "ratio", all_forms);
	with((struct e2e_opts){.mr_mode = FI_MR_LOCAL | FI_MR_PROV_KEY}, "ratio", all_forms);
	with((struct e2e_opts){.env = {{"FI_ZIP_MIN_SIZE", "1"}, {"FI_ZIP_CHUNK", "65536"}, {"FI_ZIP_STAGING", "131072"}}}, "always",
	     all_forms);
	with((struct e2e_opts){.caps = FI_RMA}, "ratio", window);
	if (!getenv("FI_HOOK")) /* where nobody can tell what was asked for from what was offered */
		with((struct e2e_opts){.order = FI_ORDER_SAS | FI_ORDER_WAW}, "ratio", all_forms);
	with((struct e2e_opts){0}, "ratio", polling);
	with((struct e2e_opts){.progress = FI_PROGRESS_AUTO}, "ratio", polling);
	with((struct e2e_opts){.progress = FI_PROGRESS_AUTO}, "ratio", passive);
	with((struct e2e_opts){.caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .counters = true, .selective = true}, "ratio", counters);
	with((struct e2e_opts){.caps = FI_MSG | FI_RMA | FI_RMA_EVENT}, "ratio", region_counter);
	with((struct e2e_opts){0}, "ratio", wrong_use);
	with((struct e2e_opts){.mr_mode = E2E_MR_SCALABLE}, "ratio", wrong_use);
	with((struct e2e_opts){0}, "ratio", closing);
	with((struct e2e_opts){0}, "ratio", fence);
	/* tcp has no atomics, and a name that leaves ofi_rxm out does not find them */
	with((struct e2e_opts){.caps = FI_MSG | FI_RMA | (strcmp(getenv("FI_PROVIDER"), "tcp;ofi_zip") ? FI_ATOMIC : 0)}, "ratio", raw);
	free(local);
	free(want);
	free(numbers);
	return 0;
}
