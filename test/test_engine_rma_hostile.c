/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory against a peer that breaks the protocol. Node 2 is that peer, a puppet; nodes 0 and 1 are honest, and what
 * they do with each other must not be touched by it. Node 0's memory is what the puppet is after.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "fake_net.h"
#include "fake_puppet.h"
#include "zipc_engine_priv.h"
#include "zipt_data.h"

#define BYTES PUPPET_BYTES
#define CHUNK PUPPET_CHUNK
#define CHUNKS ((BYTES - 1) / CHUNK + 1)
#define REGION (3 * BYTES)

static const struct zipc_engine_attr usual = {.policy = ZIPC_POLICY_ALWAYS};
static uint8_t out[BYTES], in[BYTES], memory[2][REGION], before[REGION];

/* ---- what the puppet says */

/* A write of the middle of the region, in two segments. */
static struct zipc_write_v1 usual_write(uint32_t xfer)
{
	const struct zipc_write_v1 msg = {
		.hdr = header(ZIPC_CTL_WRITE, sizeof(msg)), .sender_xfer = xfer, .chunk = CHUNK, .nbytes = BYTES, .data = 77,
		.flags = ZIPC_RMA_DATA, .nsegs = 2,
		.segs = {{(uintptr_t)memory[0] + BYTES, 1000, 1}, {(uintptr_t)memory[0] + BYTES + 1000, BYTES - 1000, 1}},
	};

	return msg;
}

static struct zipc_read_v1 usual_read(uint32_t xfer)
{
	const struct zipc_write_v1 write = usual_write(0);
	struct zipc_read_v1 msg = {
		.hdr = header(ZIPC_CTL_READ, sizeof(msg)), .reader_xfer = xfer, .max_chunk = CHUNK, .nbytes = BYTES, .nsegs = 2,
	};

	memcpy(msg.segs, write.segs, sizeof(msg.segs));
	return msg;
}

/* ---- what it hears */

/* Status of the FIN that came for this transfer; 1 when there is none. */
static int heard_fin(struct fake_world *w, uint32_t xfer)
{
	struct zipc_fin_v1 fin;

	while (heard(w, ZIPC_CTL_FIN, &fin, sizeof(fin)))
		if (fin.sender_xfer == xfer)
			return fin.status;
	return 1;
}

static struct zipc_reply_v1 heard_reply(struct fake_world *w, uint32_t xfer)
{
	struct zipc_reply_v1 reply;

	assert_true(heard(w, ZIPC_CTL_REPLY, &reply, sizeof(reply)));
	assert_int_equal(reply.reader_xfer, xfer);
	return reply;
}

/* ---- the honest */

static void meet_puppet(struct fake_world *w)
{
	const struct zipc_hello_v1 hello = usual_hello(w, ZIPC_HELLO_UNTAGGED | ZIPC_HELLO_RMA);

	say_hello(w, &hello);
}

static void open_with_puppet(struct fake_world *w)
{
	int n;

	zipt_fill(out, sizeof(out), ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	zipt_fill(before, sizeof(before), ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 2);
	memcpy(memory[0], before, sizeof(before));
	fake_open(w, 11, 2, &usual);
	fake_puppet(w, PUPPET);
	w->faulty = true;
	for (n = 0; n < 2; n++) {
		w->node[n].region[0] = (struct fake_region){.base = memory[n], .len = REGION, .write = true, .read = true};
		w->node[n].region[1] = (struct fake_region){.base = memory[n], .len = REGION, .read = true};
		w->node[n].region[2] = (struct fake_region){.base = memory[n], .len = REGION, .write = true};
	}
	fake_meet(w, 0, 1);
	fake_run(w);
	meet_puppet(w);
	assert_true(zipc_peer_rma(fake_peer(w, 0, PUPPET)));
}

/* Each writes to and reads from the other's memory, as if nothing were wrong. */
static void check_honest(struct fake_world *w)
{
	struct fake_msg msg;
	int n, read;

	for (n = 0; n < 4; n++) {
		const struct zipc_rma_seg seg = {(uintptr_t)memory[n / 2], BYTES, 1};
		struct iovec iov = {in, BYTES};

		read = n & 1;
		memset(in, 0, sizeof(in));
		if (!read)
			memcpy(in, out, sizeof(in));
		assert_int_equal(read ? fake_read(w, 1 - n / 2, n / 2, &iov, 1, &seg, 1, &msg) :
					fake_write(w, 1 - n / 2, n / 2, &iov, 1, &seg, 1, 0, 0, &msg), 0);
		fake_run(w);
		assert_true(msg.done && !msg.status);
		assert_memory_equal(in, out, BYTES);
		assert_memory_equal(memory[n / 2], out, BYTES);
	}
	memcpy(memory[0], before, BYTES);
}

static void check_idle(struct fake_world *w)
{
	struct zipc_stats stats;
	int i;

	assert_int_equal(zipc_peer_active(fake_peer(w, 0, PUPPET)), 0);
	zipc_engine_stats(w->node[0].engine, &stats);
	assert_int_equal(stats.staging_bytes, 0);
	assert_false(zipc_engine_busy(w->node[0].engine));
	for (i = 0; i < FAKE_REGIONS; i++)
		assert_int_equal(w->node[0].region[i].opened, w->node[0].region[i].done);
}

/* Nothing of the puppet's is left. */
static void check_and_close(struct fake_world *w)
{
	check_honest(w);
	check_idle(w);
	fake_close(w);
}

static unsigned opened(const struct fake_world *w)
{
	unsigned i, n = 0;

	for (i = 0; i < FAKE_REGIONS; i++)
		n += w->node[0].region[i].opened;
	return n;
}

/* ---- a hostile initiator */

/* What a write and a read both have. */
struct fields {
	uint64_t nbytes;
	uint32_t nsegs, flags, chunk;
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS];
};

#define TAKE_FIELDS(f, msg, its_chunk)                                                                        \
	do {                                                                                                  \
		(f) = (struct fields){(msg).nbytes, (msg).nsegs, (msg).flags, (msg).its_chunk, {{0, 0, 0}}};  \
		memcpy((f).segs, (msg).segs, sizeof((f).segs));                                               \
	} while (0)
#define PUT_FIELDS(f, msg, its_chunk)                                   \
	do {                                                            \
		(msg).nbytes = (f).nbytes;                              \
		(msg).nsegs = (f).nsegs;                                \
		(msg).flags = (f).flags;                                \
		(msg).its_chunk = (f).chunk;                            \
		memcpy((msg).segs, (f).segs, sizeof((f).segs));         \
	} while (0)

/* The fields that an access of either kind has, wrong in one way; returns the status it must end with, 0: no such case. */
static int spoil(unsigned how, struct fields *f, bool write)
{
	struct zipc_rma_seg *segs = f->segs;

	switch (how) {
	case 0: f->nsegs = 0; return ZIPC_ERR_INVAL;
	case 1: f->nsegs = ZIPC_RMA_SEGS + 1; return ZIPC_ERR_INVAL;
	case 2: f->nsegs = UINT32_MAX; return ZIPC_ERR_INVAL;
	case 3: f->nbytes = 0; return ZIPC_ERR_INVAL;
	case 4: f->nbytes++; return ZIPC_ERR_INVAL;
	case 5: f->nbytes--; return ZIPC_ERR_INVAL;
	case 6: f->nbytes = UINT64_MAX; return ZIPC_ERR_INVAL;
	case 7: segs[0].len = UINT64_MAX; return ZIPC_ERR_INVAL;
	case 8: segs[0] = (struct zipc_rma_seg){0, UINT64_MAX - BYTES + 1, 1}; segs[1].len = 2 * BYTES; return ZIPC_ERR_INVAL; /* wraps */
	case 9: f->nbytes = segs[0].len = UINT64_MAX / 2 + 5; segs[1].len = 0; return ZIPC_ERR_INVAL;
	case 10: segs[1].addr = UINT64_MAX - 5; return ZIPC_ERR_INVAL;
	case 11: f->flags = 1u << 31; return ZIPC_ERR_INVAL;
	case 12: f->chunk = 0; return ZIPC_ERR_INVAL;
	case 13: f->chunk = CHUNK - 1; return ZIPC_ERR_INVAL;
	case 14: f->chunk = write ? 2 * CHUNK : CHUNK - 1; return ZIPC_ERR_INVAL;
	case 15: segs[0].key = 0; return ZIPC_ERR_KEY;
	case 16: segs[1].key = 4; return ZIPC_ERR_KEY;
	case 17: segs[1].key = UINT64_MAX; return ZIPC_ERR_KEY;
	case 18: segs[0].key = write ? 2 : 3; return ZIPC_ERR_ACCES;
	case 19: segs[1].key = write ? 2 : 3; return ZIPC_ERR_ACCES;
	case 20: segs[0].addr -= BYTES + 1; return ZIPC_ERR_INVAL;
	case 21: segs[1].addr += BYTES + 1; return ZIPC_ERR_INVAL;
	case 22: segs[1].addr = 0; return ZIPC_ERR_INVAL;
	default: return 0;
	}
}

static void test_rma_hostile_writes(void **state)
{
	struct zipc_write_v1 msg;
	struct fake_world w;
	struct fields f;
	unsigned i, logs;
	int status;

	(void)state;
	open_with_puppet(&w);
	for (i = 0;; i++) {
		msg = usual_write(i);
		TAKE_FIELDS(f, msg, chunk);
		status = spoil(i, &f, true);
		if (!status)
			break;
		PUT_FIELDS(f, msg, chunk);
		logs = w.node[0].logs;
		say(&w, &msg, sizeof(msg));
		assert_int_equal(heard_fin(&w, i), status);
		assert_int_equal(w.node[0].logs, logs + 1);
		assert_false(heard(&w, ZIPC_CTL_CREDIT, &(struct zipc_credit_v1){0}, sizeof(struct zipc_credit_v1)));
		assert_memory_equal(memory[0], before, REGION);
		assert_int_equal(opened(&w), 0);
	}
	assert_true(i > 20);
	check_and_close(&w);
}

static void test_rma_hostile_reads(void **state)
{
	struct zipc_reply_v1 reply;
	struct zipc_read_v1 msg;
	struct fake_world w;
	struct fields f;
	unsigned i;
	int status;

	(void)state;
	open_with_puppet(&w);
	for (i = 0;; i++) {
		msg = usual_read(i);
		TAKE_FIELDS(f, msg, max_chunk);
		status = spoil(i, &f, false);
		if (!status)
			break;
		PUT_FIELDS(f, msg, max_chunk);
		say(&w, &msg, sizeof(msg));
		reply = heard_reply(&w, i);
		assert_int_equal(reply.status, status);
		assert_true(!reply.sender_xfer && !reply.nbytes && !reply.chunk);
		assert_int_equal(opened(&w), 0);
		assert_int_equal(zipc_peer_active(fake_peer(&w, 0, PUPPET)), 0);
	}
	assert_true(i > 20);
	check_and_close(&w);
}

/* A number that is in use, by a write, a message that waits for its receive, a write in its place. */
static void test_rma_hostile_numbers(void **state)
{
	struct zipc_rts_v1 rts = usual_rts(1);
	struct zipc_placeholder_v1 ph = usual_placeholder(2);
	struct zipc_write_v1 msg = usual_write(1);
	struct fake_msg recv;
	struct fake_world w;

	(void)state;
	open_with_puppet(&w);
	say(&w, &rts, sizeof(rts));
	say(&w, &msg, sizeof(msg));
	assert_int_equal(opened(&w), 0);
	say_abort(&w, 1, 1);
	msg.sender_xfer = 2;
	say(&w, &msg, sizeof(msg));
	say(&w, &msg, sizeof(msg));
	assert_int_equal(opened(&w), 1);
	rts.sender_xfer = 2;
	say(&w, &rts, sizeof(rts));
	fake_recv(&w, 0, PUPPET, in, BYTES, 5, &recv);
	fake_inject(&w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
	fake_run(&w);
	assert_true(recv.done && recv.status == ZIPC_ERR_PROTO);
	assert_int_equal(w.node[0].region[0].done, 0);
	say_abort(&w, 2, 1);
	assert_int_equal(w.node[0].region[0].done, 1);
	assert_int_equal(w.node[0].region[0].status, ZIPC_ERR_PEER);
	assert_memory_equal(memory[0], before, REGION);
	say_fin(&w, 1, 0);
	/* The placeholder of 1 is still to come, or never: the abort has ended it. */
	ph.sender_xfer = 1;
	fake_recv(&w, 0, PUPPET, in, BYTES, 5, &recv);
	fake_inject(&w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
	fake_run(&w);
	assert_true(recv.done && recv.status);
	check_and_close(&w);
}

/* Chunks that are no frames, frames of another length, none at all. */
static void test_rma_hostile_chunks(void **state)
{
	static uint8_t frame[2 * CHUNK];
	struct fake_bulk_recv *recv;
	struct zipc_write_v1 msg;
	struct fake_world w;
	size_t len;
	unsigned i;
	int n;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 6; i++) {
		msg = usual_write(i);
		msg.flags = i & 1 ? ZIPC_RMA_POLL : 0;
		assert_int_equal(zipc_encode(frame, sizeof(frame), out, CHUNK - (i == 2), ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, &len), 0);
		if (i / 2 == 0)
			memset(frame, 0xa5, sizeof(frame));
		else if (i / 2 == 2)
			len = 0;
		say(&w, &msg, sizeof(msg));
		if (i == 3)
			frame[8]++; /* nbytes */
		for (n = 0; n < CHUNKS && (recv = fake_bulk_waiting(&w, 0)); n++)
			fake_inject(&w, FAKE_BULK, PUPPET, 0, recv->tag, frame, len), fake_run(&w);
		assert_true(heard_fin(&w, i) < 0);
		assert_true(w.node[0].region[0].status < 0);
		assert_memory_equal(memory[0], before, BYTES);
		assert_memory_equal(memory[0] + 2 * BYTES, before + 2 * BYTES, BYTES);
		check_idle(&w);
	}
	check_and_close(&w);
}

/* The chunk that is to be decoded last arrives first, and then another is bad, or the rest never comes. */
static void test_rma_hostile_last_chunk(void **state)
{
	static uint8_t frame[2 * CHUNK], last[2 * CHUNK];
	const size_t rest = BYTES - (CHUNKS - 1) * CHUNK;
	struct zipc_write_v1 msg;
	struct fake_world w;
	size_t len, last_len;
	uint64_t id;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	assert_int_equal(zipc_encode(frame, sizeof(frame), out, CHUNK, ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, &len), 0);
	assert_int_equal(zipc_encode(last, sizeof(last), out, rest, ZIPC_DTYPE_RAW, ZIPC_CODEC_RAW, &last_len), 0);
	for (i = 0; i < 3; i++) {
		msg = usual_write(i);
		msg.flags = ZIPC_RMA_POLL;
		say(&w, &msg, sizeof(msg));
		id = fake_bulk_waiting(&w, 0)->tag >> 32;
		fake_inject(&w, FAKE_BULK, PUPPET, 0, zipc_bulk_tag((uint32_t)id, CHUNKS - 1), last, last_len);
		fake_run(&w);
		assert_memory_equal(memory[0], before, REGION);
		assert_int_equal(w.node[0].region[0].done, i);
		if (i == 0)
			fake_inject(&w, FAKE_BULK, PUPPET, 0, zipc_bulk_tag((uint32_t)id, 1), frame, len - 1);
		if (i < 2)
			say_abort(&w, i, 1); /* of the rest */
		if (i == 2)
			zipc_peer_lose(fake_peer(&w, 0, PUPPET), ZIPC_ERR_NET);
		fake_run(&w);
		assert_int_equal(w.node[0].region[0].done, i + 1);
		assert_true(w.node[0].region[0].status < 0);
		assert_memory_equal(memory[0], before, REGION);
		check_idle(&w);
	}
	check_and_close(&w);
}

/* More reads than one may have under way, more writes than there is room for. */
static void test_rma_hostile_many(void **state)
{
	struct zipc_write_v1 write;
	struct zipc_read_v1 read;
	struct fake_world w;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; zipc_peer_ready(fake_peer(&w, 0, PUPPET)); i++) {
		read = usual_read(i);
		fake_inject(&w, FAKE_CONTROL, PUPPET, 0, 0, &read, sizeof(read));
		fake_run(&w);
		assert_true(i < 100000);
	}
	assert_true(i > ZIPC_READS_PER_PEER);
	check_idle(&w);
	check_honest(&w);
	forget_heard(&w);
	meet_puppet(&w);
	for (i = 0; zipc_peer_ready(fake_peer(&w, 0, PUPPET)); i++) {
		write = usual_write(i);
		fake_inject(&w, FAKE_CONTROL, PUPPET, 0, 0, &write, sizeof(write));
		if (i % 64 == 0)
			fake_run(&w);
		assert_true(i < 100000);
	}
	assert_true(i > ZIPC_SENDS_PER_PEER);
	fake_run(&w);
	check_and_close(&w);
}

/* A reader that asks and then breaks the rules of credits, says that it is done, or goes. */
static void test_rma_hostile_reader(void **state)
{
	struct zipc_reply_v1 reply;
	struct zipc_read_v1 msg;
	struct fake_world w;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 8; i++) {
		msg = usual_read(7); /* the same number every time: that is the reader's business */
		forget_heard(&w);
		say(&w, &msg, sizeof(msg));
		reply = heard_reply(&w, 7);
		assert_int_equal(reply.status, 0);
		assert_int_equal(reply.nbytes, BYTES);
		assert_int_equal(w.node[0].region[0].done, i);
		switch (i) {
		case 0: say_credit(&w, reply.sender_xfer, 1, 1, 1); break;
		case 1: say_credit(&w, reply.sender_xfer, 1, 0, CHUNKS + 1); break;
		case 2: say_credit(&w, reply.sender_xfer, 1, 0, 1); say_credit(&w, reply.sender_xfer, 2, 1, 1); break;
		case 3: say_fin(&w, reply.sender_xfer, 0); break;
		case 4: say_fin(&w, reply.sender_xfer, ZIPC_ERR_TRUNC); break;
		case 5: say_fin(&w, reply.sender_xfer, 5); break;
		case 6: say_credit(&w, reply.sender_xfer, 1, 0, CHUNKS); say_fin(&w, reply.sender_xfer, 0); break;
		default: zipc_peer_lose(fake_peer(&w, 0, PUPPET), ZIPC_ERR_NET); fake_run(&w); break;
		}
		assert_int_equal(w.node[0].region[0].done, i + 1);
		assert_int_equal(!w.node[0].region[0].status, i == 6);
		check_idle(&w);
	}
	check_and_close(&w);
}

/* ---- a hostile target */

static uint32_t write_to_puppet(struct fake_world *w, struct fake_msg *msg)
{
	const struct zipc_rma_seg seg = {1, BYTES, 9};
	const struct iovec iov = {out, BYTES};
	struct zipc_write_v1 write = {0};

	forget_heard(w);
	assert_int_equal(fake_write(w, 0, PUPPET, &iov, 1, &seg, 1, 5, ZIPC_RMA_DATA, msg), 0);
	fake_run(w);
	assert_true(heard(w, ZIPC_CTL_WRITE, &write, sizeof(write)));
	assert_int_equal(write.nbytes, BYTES);
	assert_int_equal(write.segs[0].key, 9);
	assert_int_equal(write.data, 5);
	assert_false(msg->done);
	return write.sender_xfer;
}

static void test_rma_hostile_target(void **state)
{
	static const int statuses[] = {ZIPC_ERR_KEY, ZIPC_ERR_ACCES, ZIPC_ERR_INVAL, INT32_MIN};
	struct fake_world w;
	struct fake_msg msg;
	uint32_t xfer;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 4; i++) {
		xfer = write_to_puppet(&w, &msg);
		say_fin(&w, xfer, statuses[i]);
		assert_true(msg.done);
		assert_int_equal(msg.status, statuses[i]);
	}
	for (i = 0; i < 6; i++) { /* success that cannot be */
		xfer = write_to_puppet(&w, &msg);
		if (i & 1)
			say_credit(&w, xfer, 3, 0, CHUNKS - 1);
		say_fin(&w, xfer, i / 2 == 0 ? 0 : i / 2 == 1 ? ZIPC_ERR_TRUNC : ZIPC_ERR_AGAIN);
		assert_true(msg.done && msg.status < 0 && msg.status != ZIPC_ERR_AGAIN);
	}
	xfer = write_to_puppet(&w, &msg);
	say_credit(&w, xfer, 3, 0, CHUNKS);
	assert_false(msg.done); /* not before the target has said so */
	say_fin(&w, xfer, 0);
	assert_true(msg.done && !msg.status);
	xfer = write_to_puppet(&w, &msg);
	zipc_peer_lose(fake_peer(&w, 0, PUPPET), ZIPC_ERR_NET);
	assert_true(msg.done && msg.status);
	fake_run(&w);
	check_and_close(&w);
}

static uint32_t read_from_puppet(struct fake_world *w, struct fake_msg *msg)
{
	const struct zipc_rma_seg seg = {1, BYTES, 9};
	const struct iovec iov = {in, BYTES};
	struct zipc_read_v1 read = {0};

	forget_heard(w);
	memset(in, 0xee, sizeof(in));
	assert_int_equal(fake_read(w, 0, PUPPET, &iov, 1, &seg, 1, msg), 0);
	fake_run(w);
	assert_true(heard(w, ZIPC_CTL_READ, &read, sizeof(read)));
	assert_int_equal(read.nbytes, BYTES);
	assert_false(msg->done);
	return read.reader_xfer;
}

static void say_reply(struct fake_world *w, uint32_t reader, uint32_t sender, uint32_t chunk, uint64_t nbytes, int status)
{
	const struct zipc_reply_v1 reply = {
		.hdr = header(ZIPC_CTL_REPLY, sizeof(reply)), .reader_xfer = reader, .sender_xfer = sender, .chunk = chunk,
		.status = status, .nbytes = nbytes,
	};

	say(w, &reply, sizeof(reply));
}

static void test_rma_hostile_replies(void **state)
{
	static const struct {
		uint32_t chunk;
		uint64_t nbytes;
		int status, want;
	} cases[] = {
		{0, 0, ZIPC_ERR_KEY, ZIPC_ERR_KEY}, {CHUNK, BYTES, ZIPC_ERR_ACCES, ZIPC_ERR_ACCES}, {0, 0, 5, ZIPC_ERR_PROTO},
		{0, 0, ZIPC_ERR_AGAIN, ZIPC_ERR_PROTO}, {0, BYTES, 0, ZIPC_ERR_PROTO}, {CHUNK - 1, BYTES, 0, ZIPC_ERR_PROTO},
		{2 * CHUNK, BYTES, 0, ZIPC_ERR_PROTO}, {CHUNK, BYTES - 1, 0, ZIPC_ERR_PROTO}, {CHUNK, BYTES + 1, 0, ZIPC_ERR_PROTO},
		{CHUNK, UINT64_MAX, 0, ZIPC_ERR_PROTO}, {CHUNK, 0, 0, ZIPC_ERR_PROTO},
	};
	struct fake_world w;
	struct fake_msg msg;
	uint32_t reader;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		reader = read_from_puppet(&w, &msg);
		say_reply(&w, reader + 1, 1, CHUNK, BYTES, 0);
		say_reply(&w, reader - 1, 1, CHUNK, BYTES, ZIPC_ERR_KEY);
		assert_false(msg.done);
		say_reply(&w, reader, i, cases[i].chunk, cases[i].nbytes, cases[i].status);
		assert_true(msg.done);
		assert_int_equal(msg.status, cases[i].want);
		say_reply(&w, reader, i, CHUNK, BYTES, 0); /* too late */
		assert_null(fake_bulk_waiting(&w, 0));
		check_idle(&w);
	}
	check_and_close(&w);
}

/* After a good reply: the same number for two reads, bad chunks, an abort, a target that goes. */
static void test_rma_hostile_sender(void **state)
{
	struct fake_msg msg[2];
	struct fake_world w;
	uint32_t reader[2];
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 4; i++) {
		reader[0] = read_from_puppet(&w, &msg[0]);
		reader[1] = read_from_puppet(&w, &msg[1]);
		say_reply(&w, reader[0], 40 + i, CHUNK, BYTES, 0);
		assert_non_null(fake_bulk_waiting(&w, 0));
		say_reply(&w, reader[1], 40 + i, CHUNK, BYTES, 0);
		assert_true(msg[1].done && msg[1].status == ZIPC_ERR_PROTO && !msg[0].done);
		if (i == 0)
			say_abort(&w, 40 + i, 1);
		if (i == 1)
			fake_inject(&w, FAKE_BULK, PUPPET, 0, fake_bulk_waiting(&w, 0)->tag, before, 100);
		if (i < 2) {
			fake_run(&w);
			assert_true(msg[0].done && msg[0].status);
			say_abort(&w, 40 + i, 1);
		}
		if (i == 2)
			zipc_peer_lose(fake_peer(&w, 0, PUPPET), ZIPC_ERR_NET);
		if (i == 3) { /* before the reply */
			say_abort(&w, 40 + i, 1);
			reader[0] = read_from_puppet(&w, &msg[0]);
			zipc_peer_lose(fake_peer(&w, 0, PUPPET), ZIPC_ERR_NET);
		}
		fake_run(&w);
		assert_true(msg[0].done && msg[0].status);
		check_idle(&w);
		meet_puppet(&w);
	}
	check_and_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rma_hostile_writes),
		cmocka_unit_test(test_rma_hostile_reads),
		cmocka_unit_test(test_rma_hostile_numbers),
		cmocka_unit_test(test_rma_hostile_chunks),
		cmocka_unit_test(test_rma_hostile_last_chunk),
		cmocka_unit_test(test_rma_hostile_many),
		cmocka_unit_test(test_rma_hostile_reader),
		cmocka_unit_test(test_rma_hostile_target),
		cmocka_unit_test(test_rma_hostile_replies),
		cmocka_unit_test(test_rma_hostile_sender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
