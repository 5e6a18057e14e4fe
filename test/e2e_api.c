/* SPDX-License-Identifier: BSD-3-Clause */
/* Every corner of fi_msg, fi_tagged, fi_cq and fi_cntr, for plain messages and for transfers alike. */
#include <poll.h>
#include <stdint.h>
#include <string.h>

#include "e2e.h"
#include "zipc_proto.h"
#include "zipt_data.h"

#define LARGE 1000003u
#define SMALL 40u

static uint8_t *big, *other, *room;

static void fill(uint8_t *buf, size_t len, unsigned seed)
{
	zipt_fill(buf, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, seed);
}

static void expect(const uint8_t *buf, size_t len, unsigned seed)
{
	fill(other, len, seed);
	E2E_CHECK(!memcmp(buf, other, len), "data of %zu bytes, seed %u, differs", len, seed);
}

/* ---- immediate data, source, flags */

static void immediate(struct e2e *e, size_t len)
{
	struct e2e_op op = {0};
	fi_addr_t to = e->peer[1 - e->rank];

	if (e->rank == 0) {
		fill(big, len, 1);
		E2E_AGAIN(e, fi_tsenddata(e->ep, big, len, NULL, 0x1234, to, 11, &op));
		e2e_wait(e, &op);
		memset(&op, 0, sizeof(op));
		E2E_AGAIN(e, fi_senddata(e->ep, big, len, NULL, 0x5678, to, &op));
		e2e_wait(e, &op);
	} else {
		e2e_trecv(e, 0, room, LARGE, 11, 0, &op);
		e2e_wait(e, &op);
		E2E_CHECK(op.entry.flags & FI_REMOTE_CQ_DATA && op.entry.data == 0x1234, "flags %#llx data %#llx",
			  (unsigned long long)op.entry.flags, (unsigned long long)op.entry.data);
		E2E_CHECK((op.entry.flags & (FI_RECV | FI_TAGGED)) == (FI_RECV | FI_TAGGED), "flags %#llx",
			  (unsigned long long)op.entry.flags);
		E2E_CHECK(!(e->info->caps & FI_SOURCE) || op.src == e->peer[0], "source %llu", (unsigned long long)op.src);
		expect(room, len, 1);
		e2e_recv(e, 0, room, LARGE, &op);
		e2e_wait(e, &op);
		E2E_CHECK(op.entry.data == 0x5678 && (op.entry.flags & FI_MSG), "flags %#llx", (unsigned long long)op.entry.flags);
		expect(room, len, 1);
	}
	e2e_barrier(e);
}

/* ---- truncation, and buffers too short even for a placeholder */

static void truncation(struct e2e *e, size_t len, size_t space, bool tagged)
{
	struct e2e_op op, next;

	if (e->rank == 0) {
		fill(big, len, 2);
		if (tagged)
			e2e_tsend(e, 1, big, len, 21, &op);
		else
			e2e_send(e, 1, big, len, &op);
		e2e_wait(e, &op);
		e2e_tsend(e, 1, big, len, 22, &next);
		e2e_wait(e, &next);
	} else {
		memset(room, 0xaa, LARGE + 16);
		if (tagged)
			e2e_trecv(e, 0, room, space, 21, 0, &op);
		else
			e2e_recv(e, 0, room, space, &op);
		E2E_CHECK(e2e_wait_ms(e, &op, 20000), "nothing for 20 s");
		E2E_CHECK(op.err == FI_ETRUNC, "error %d (%s)", op.err, fi_strerror(op.err));
		/* Not every core says how much was cut off a plain message; a transfer does. */
		E2E_CHECK(op.error.olen == len - space || (len < 1000 && e->info), "olen %zu, not %zu", op.error.olen, len - space);
		E2E_CHECK(room[space] == 0xaa, "wrote past a buffer of %zu bytes", space);
		e2e_trecv(e, 0, room, LARGE, 22, 0, &next);
		e2e_wait(e, &next);
		expect(room, len, 2);
	}
	e2e_barrier(e);
}

/* Messages of exactly 59 bytes that start like a placeholder, by every call. */
static void lookalike(struct e2e *e)
{
	uint8_t msg[ZIPC_PLACEHOLDER_BYTES] = {0};
	struct e2e_op op = {0};
	int i;

	memcpy(msg, ZIPC_PLACEHOLDER_MAGIC, 16);
	memset(msg + 16, 0x77, sizeof(msg) - 16);
	if (e->zip) { /* as if replayed: the id of an engine the peer knows */
		memcpy(msg + 16, e2e_scratch(), 8);
	}
	for (i = 0; i < 3; i++) {
		if (e->rank == 0) {
			memset(&op, 0, sizeof(op));
			if (i == 0)
				e2e_send(e, 1, msg, sizeof(msg), &op);
			else if (i == 1)
				E2E_AGAIN(e, fi_inject(e->ep, msg, sizeof(msg), e->peer[1]));
			else
				e2e_tsend(e, 1, msg, sizeof(msg), 5, &op);
			if (i != 1)
				e2e_wait(e, &op);
		} else {
			if (i == 2)
				e2e_trecv(e, 0, room, 100, 5, 0, &op);
			else
				e2e_recv(e, 0, room, 100, &op);
			e2e_wait(e, &op);
			E2E_CHECK(op.entry.len == sizeof(msg) && !memcmp(room, msg, sizeof(msg)), "look-alike %d arrived as %zu bytes",
				  i, op.entry.len);
		}
		e2e_barrier(e);
	}
}

/* ---- cancel */

static void cancel(struct e2e *e)
{
	struct e2e_op op, big_op;

	if (e->rank == 1) {
		e2e_trecv(e, 0, room, LARGE, 31, 0, &op);
		E2E_OK(fi_cancel(&e->ep->fid, &op));
		E2E_CHECK(e2e_wait_ms(e, &op, 10000) && op.err == FI_ECANCELED, "error %d", op.err);
		e2e_trecv(e, 0, room, LARGE, 32, 0, &big_op);
	}
	e2e_barrier(e);
	if (e->rank == 0) {
		fill(big, LARGE, 3);
		e2e_tsend(e, 1, big, LARGE, 32, &big_op);
	}
	e2e_wait(e, &big_op);
	if (e->rank == 1)
		expect(room, LARGE, 3);
	e2e_barrier(e);
}

/* ---- peek */

static bool peek(struct e2e *e, int from, uint64_t tag, uint64_t flags, struct e2e_op *op)
{
	struct fi_msg_tagged msg = {.addr = e->peer[from], .tag = tag, .context = op};
	double start = e2e_now();
	long ret;

	for (;;) {
		memset(op, 0, sizeof(*op));
		ret = fi_trecvmsg(e->ep, &msg, FI_PEEK | flags);
		if (ret == -FI_EOPNOTSUPP || ret == -FI_ENOSYS)
			return false;
		E2E_OK(ret);
		E2E_CHECK(e2e_wait_ms(e, op, 10000), "a peek without answer");
		if (!op->err)
			return true;
		E2E_CHECK(op->err == FI_ENOMSG, "peek: %s", fi_strerror(op->err));
		E2E_CHECK(e2e_now() - start < 10, "never found tag %llu", (unsigned long long)tag);
	}
}

static void peeking(struct e2e *e, size_t len)
{
	struct e2e_op ops[4], op;
	struct iovec iov = {room, LARGE};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 42, .context = &op};
	unsigned i;

	if (e->rank == 0) {
		fill(big, len, 4);
		for (i = 0; i < 4; i++)
			e2e_tsend(e, 1, big, len - i, 41 + i, &ops[i]);
		for (i = 0; i < 4; i++)
			e2e_wait(e, &ops[i]);
		e2e_barrier(e);
		return;
	}
	if (!peek(e, 0, 41, 0, &op)) {
		for (i = 0; i < 4; i++) {
			e2e_trecv(e, 0, room, LARGE, 41 + i, 0, &op);
			e2e_wait(e, &op);
		}
		e2e_barrier(e);
		return;
	}
	E2E_CHECK(op.entry.len == len && op.entry.tag == 41, "peek says %zu bytes, tag %llu", op.entry.len,
		  (unsigned long long)op.entry.tag);
	e2e_trecv(e, 0, room, LARGE, 41, 0, &op);
	e2e_wait(e, &op);
	expect(room, len, 4);
	E2E_CHECK(peek(e, 0, 42, FI_CLAIM, &op) && op.entry.len == len - 1, "claim says %zu bytes", op.entry.len);
	op.done = false;
	E2E_OK(fi_trecvmsg(e->ep, &msg, FI_CLAIM));
	e2e_wait(e, &op);
	E2E_CHECK(op.entry.len == len - 1, "claimed message of %zu bytes", op.entry.len);
	if (!peek(e, 0, 43, FI_DISCARD, &op)) {
		e2e_trecv(e, 0, room, LARGE, 43, 0, &op);
		e2e_wait(e, &op);
	}
	E2E_CHECK(peek(e, 0, 44, FI_CLAIM, &op) && op.entry.len == len - 3, "claim says %zu bytes", op.entry.len);
	op.done = false;
	msg.tag = 44;
	msg.iov_count = 0;
	E2E_OK(fi_trecvmsg(e->ep, &msg, FI_CLAIM | FI_DISCARD));
	e2e_wait(e, &op);
	e2e_barrier(e);
}

/* ---- selective completion and counters */

static void selective(struct e2e *e)
{
	struct iovec iov = {e->rank ? room : big, LARGE};
	struct e2e_op quiet = {0}, loud = {0};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = e->peer[1 - e->rank], .tag = 51, .context = &quiet};
	uint64_t want = e->rank ? fi_cntr_read(e->rxcntr) : fi_cntr_read(e->txcntr);
	struct fid_cntr *cntr = e->rank ? e->rxcntr : e->txcntr;
	double start = e2e_now();

	if (e->rank == 0)
		fill(big, LARGE, 5);
	E2E_AGAIN(e, e->rank ? fi_trecvmsg(e->ep, &msg, 0) : fi_tsendmsg(e->ep, &msg, 0));
	while (fi_cntr_read(cntr) < want + 1) {
		e2e_progress(e);
		E2E_CHECK(e2e_now() - start < 20, "the counter stays at %llu", (unsigned long long)fi_cntr_read(cntr));
	}
	E2E_CHECK(!quiet.done, "a completion nobody asked for");
	msg.context = &loud;
	E2E_AGAIN(e, e->rank ? fi_trecvmsg(e->ep, &msg, FI_COMPLETION) : fi_tsendmsg(e->ep, &msg, FI_COMPLETION));
	e2e_wait(e, &loud);
	E2E_CHECK(fi_cntr_read(cntr) == want + 2, "counter %llu, not %llu", (unsigned long long)fi_cntr_read(cntr),
		  (unsigned long long)want + 2);
	E2E_CHECK(!quiet.done, "a completion nobody asked for");
	e2e_barrier(e);
}

static void counters_only(struct e2e *e)
{
	struct fid_cntr *cntr = e->rank ? e->rxcntr : e->txcntr;
	int i;

	if (e->rank == 0)
		fill(big, LARGE, 6);
	for (i = 1; i <= 3; i++) {
		if (e->rank)
			E2E_AGAIN(e, fi_trecv(e->ep, room, LARGE, NULL, e->peer[0], 61, 0, NULL));
		else
			E2E_AGAIN(e, fi_tsend(e->ep, big, LARGE, NULL, e->peer[1], 61, NULL));
		E2E_OK(fi_cntr_wait(cntr, (uint64_t)i, 20000));
	}
	if (e->rank)
		expect(room, LARGE, 6);
	e2e_barrier(e);
}

/* ---- blocking */

static void blocking(struct e2e *e)
{
	struct fi_cq_tagged_entry entry;
	struct e2e_op op;
	struct pollfd pfd = {.events = POLLIN};
	struct fid *fids[1];
	double start;
	ssize_t n;
	int i;

	for (i = 0; i < 3; i++) {
		struct fid_cq *cq = e->rank ? e->rxcq : e->txcq;

		if (e->rank == 0) {
			fill(big, LARGE, 7);
			e2e_tsend(e, 1, big, i == 1 ? SMALL : LARGE, 71, &op);
		} else {
			e2e_trecv(e, 0, room, LARGE, 71, 0, &op);
		}
		if (i < 2) {
			n = fi_cq_sread(cq, &entry, 1, NULL, 20000);
			E2E_CHECK(n == 1 && entry.op_context == &op, "fi_cq_sread: %zd", n);
		} else {
			fids[0] = &cq->fid;
			if (fi_control(&cq->fid, FI_GETWAIT, &pfd.fd)) {
				e2e_wait(e, &op);
				continue;
			}
			for (start = e2e_now(); (n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN;) {
				E2E_CHECK(e2e_now() - start < 20, "poll slept for 20 s");
				if (!fi_trywait(e->fabric, fids, 1))
					poll(&pfd, 1, 5000);
			}
			E2E_CHECK(n == 1 && entry.op_context == &op, "fi_cq_read: %zd", n);
		}
		if (e->rank)
			expect(room, i == 1 ? SMALL : LARGE, 7);
	}
	start = e2e_now();
	n = fi_cq_sread(e->rxcq, &entry, 1, NULL, 50);
	E2E_CHECK(n == -FI_EAGAIN && e2e_now() - start < 5, "an empty queue gives %zd", n);
	e2e_barrier(e);
}

/* ---- formats: the smaller entries are prefixes, and no byte behind them is written */

static void format(struct e2e *e, enum fi_cq_format fmt)
{
	static const size_t size[] = {
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry), [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
	};
	struct fid_cq *cq = e->rank ? e->rxcq : e->txcq;
	uint8_t raw[2 * sizeof(struct fi_cq_tagged_entry)];
	struct fi_cq_data_entry *entry = (void *)raw;
	struct e2e_op op = {0};
	double start = e2e_now();
	ssize_t n;

	memset(raw, 0xcc, sizeof(raw));
	if (e->rank == 0) {
		fill(big, LARGE, 8);
		E2E_AGAIN(e, fi_tsenddata(e->ep, big, LARGE, NULL, 0x99, e->peer[1], 81, &op));
	} else {
		E2E_AGAIN(e, fi_trecv(e->ep, room, LARGE, NULL, e->peer[0], 81, 0, &op));
	}
	while ((n = fi_cq_read(cq, raw, 1)) == -FI_EAGAIN)
		E2E_CHECK(e2e_now() - start < 20, "nothing for 20 s");
	E2E_CHECK(n == 1 && entry->op_context == &op, "fi_cq_read: %zd", n);
	E2E_CHECK(raw[size[fmt]] == 0xcc, "wrote more than an entry of format %d", fmt);
	E2E_CHECK(fmt == FI_CQ_FORMAT_CONTEXT || e->rank == 0 || entry->len == LARGE, "length %zu", entry->len);
	E2E_CHECK(fmt != FI_CQ_FORMAT_DATA || e->rank == 0 || entry->data == 0x99, "data %#llx", (unsigned long long)entry->data);
	if (e->rank)
		expect(room, LARGE, 8);
}

/* Two peers, one tag: the one that is asked for tells its own length. */
static void peeking_peers(struct e2e *e)
{
	struct e2e_op op;
	int from;

	if (e->rank) {
		fill(big, LARGE - 1000 * (size_t)e->rank, (unsigned)e->rank);
		e2e_tsend(e, 0, big, LARGE - 1000 * (size_t)e->rank, 45, &op);
		e2e_wait(e, &op);
	}
	for (from = 2; !e->rank && from > 0; from--) {
		size_t len = LARGE - 1000 * (size_t)from;

		if (peek(e, from, 45, 0, &op))
			E2E_CHECK(op.entry.len == len, "peek at rank %d says %zu bytes", from, op.entry.len);
		e2e_trecv(e, from, room, LARGE, 45, 0, &op);
		e2e_wait(e, &op);
		E2E_CHECK(op.entry.len == len, "%zu bytes from rank %d", op.entry.len, from);
		expect(room, len, (unsigned)from);
	}
	e2e_barrier(e);
}

/* ---- removal and insertion of a peer */

static void removal(struct e2e *e)
{
	char name[512];
	size_t len = sizeof(name);
	struct e2e_op op;
	int i;

	if (e->rank == 0) {
		E2E_OK(fi_av_lookup(e->av, e->peer[1], name, &len));
		E2E_OK(fi_av_remove(e->av, &e->peer[1], 1, 0));
		E2E_CHECK(fi_av_insert(e->av, name, 1, &e->peer[1], 0, NULL) == 1, "insert again");
		fill(big, LARGE, 10);
	}
	for (i = 0; i < 3; i++) {
		if (e->rank == 0)
			e2e_tsend(e, 1, big, LARGE, 91, &op);
		else
			e2e_trecv(e, -1, room, LARGE, 91, 0, &op);
		e2e_wait(e, &op);
		if (e->rank)
			expect(room, LARGE, 10);
	}
	e2e_barrier(e);
}

/* ---- multi-receive: untagged messages then are not sent as transfers */

static void multi_receive(struct e2e *e)
{
	struct iovec iov = {room, LARGE};
	struct e2e_op op = {0}, multi = {0};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &multi};
	size_t least = 1000;
	int i;

	if (e->rank) {
		E2E_OK(fi_setopt(&e->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
		E2E_OK(fi_recvmsg(e->ep, &msg, FI_MULTI_RECV));
	}
	e2e_barrier(e);
	for (i = 0; i < 4; i++) {
		if (e->rank == 0) {
			fill(big, 100000, 20 + (unsigned)i);
			e2e_send(e, 1, big, 100000, &op);
			e2e_wait(e, &op);
		} else {
			multi.done = false;
			e2e_wait(e, &multi);
			E2E_CHECK(multi.entry.len == 100000, "message %d of %zu bytes", i, multi.entry.len);
			expect(multi.entry.buf, 100000, 20 + (unsigned)i);
		}
		e2e_barrier(e);
	}
	if (e->rank == 1) {
		multi.done = false;
		E2E_OK(fi_cancel(&e->ep->fid, &multi));
		E2E_CHECK(e2e_wait_ms(e, &multi, 20000), "a cancelled multi-receive says nothing");
		E2E_CHECK(multi.err == FI_ECANCELED, "%s", fi_strerror(multi.err));
	}
	e2e_barrier(e);
}

/* ---- */

static void with_ranks(int nranks, struct e2e_opts opts, void (*test)(struct e2e *))
{
	struct e2e e;

	opts.env[0][0] = "FI_ZIP_POLICY";
	opts.env[0][1] = "ratio";
	e2e_start(&e, nranks, &opts);
	e2e_open(&e);
	test(&e);
	e2e_barrier(&e);
	e2e_close(&e);
	e2e_exit(&e);
}

static void with(struct e2e_opts opts, void (*test)(struct e2e *))
{
	with_ranks(2, opts, test);
}

static void usual(struct e2e *e)
{
	immediate(e, LARGE);
	immediate(e, SMALL);
	truncation(e, LARGE, LARGE - 5, true);
	truncation(e, LARGE, 20, true);
	truncation(e, LARGE, 0, true);
	/* Under the hook untagged messages are the core's, and what cores make of these differs. */
	if (!getenv("FI_HOOK")) {
		truncation(e, LARGE, 300000, false);
		truncation(e, LARGE, 58, false);
	}
	truncation(e, SMALL, 30, true);
	/* ofi_rxm before 1.18 loses a plain message that is too long for its buffer, without zip as well */
	if (FI_VERSION_GE(fi_version(), FI_VERSION(1, 18)))
		truncation(e, 200, 40, true);
	lookalike(e);
	cancel(e);
	peeking(e, LARGE);
	peeking(e, SMALL);
	removal(e);
}

static void format_context(struct e2e *e)
{
	format(e, FI_CQ_FORMAT_CONTEXT);
}

static void format_msg(struct e2e *e)
{
	format(e, FI_CQ_FORMAT_MSG);
}

static void format_data(struct e2e *e)
{
	format(e, FI_CQ_FORMAT_DATA);
}

int main(void)
{
	if (FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) && getenv("FI_PROVIDER") && strstr(getenv("FI_PROVIDER"), "shm")) {
		printf("shm before libfabric 1.18 does not pass this alone (peek, truncation)\n");
		return E2E_SKIP;
	}
	big = malloc(LARGE + 64);
	other = malloc(LARGE + 64);
	room = malloc(LARGE + 64);
	with((struct e2e_opts){.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV}, usual);
	with_ranks(3, (struct e2e_opts){.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV}, peeking_peers);
	with((struct e2e_opts){.one_cq = true}, usual);
	with((struct e2e_opts){.selective = true, .counters = true}, selective);
	with((struct e2e_opts){.no_cq = true, .counters = true}, counters_only);
	with((struct e2e_opts){.wait = FI_WAIT_UNSPEC}, blocking);
	with((struct e2e_opts){.caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV}, multi_receive);
	with((struct e2e_opts){.format = FI_CQ_FORMAT_CONTEXT}, format_context);
	with((struct e2e_opts){.format = FI_CQ_FORMAT_MSG}, format_msg);
	with((struct e2e_opts){.format = FI_CQ_FORMAT_DATA}, format_data);
	free(big);
	free(other);
	free(room);
	return 0;
}
