/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target of the transfer engine: node 2 is a puppet that says what the input says, to node 0, which has transfers
 * with it in all states, and others with the honest node 1. Those must arrive, nothing of the puppet's may be left at the end,
 * and the sanitizers must be content.
 *
 *     fuzz_control --seeds DIR    write a seed corpus
 *     fuzz_control DIR            fuzz
 *
 * An input is a list of steps: a byte that says what, a byte of how much, and the bytes it is about.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "fake_net.h"
#include "zipc_engine_priv.h"
#include "zipt_data.h"

#define PUPPET 2
#define PUPPET_ID 0xbadbad
#define BYTES 17000
#define CHUNK 8192
#define MESSAGES 24
#define SEND_FLAGS (ZIPC_SEND_TAGGED | ZIPC_SEND_FORCE) /* raw frames: the codec has a target of its own, and takes its time */
#define HONEST 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum step {
	STEP_NOISE,       /* a control message of these bytes */
	STEP_CONTROL,     /* one with a valid header: type, then the body */
	STEP_HELLO,       /* a hello whose fields are changed by these bytes */
	STEP_PLACEHOLDER, /* a placeholder, changed likewise */
	STEP_CHUNK,       /* a chunk of these bytes for a receive that waits */
	STEP_FRAME,       /* a valid frame, changed likewise */
	STEP_RUN,         /* so many events */
	STEP_RECV,        /* a receive is posted */
	STEP_SEND,        /* a transfer to the puppet */
	STEP_PEEK,        /* a peek; odd: claims; above 127: and drops */
	STEP_DISCARD,     /* the application discards what came */
	STEP_WRITE,       /* the puppet writes to node 0's memory: a valid record, changed by these bytes */
	STEP_READ,        /* or reads */
	STEP_REPLY,       /* it answers the oldest read, with these changes */
	STEP_ACCESS,      /* node 0 writes to the puppet's memory; odd: reads */
	STEP_REVOKE,      /* the puppet's accesses end */
	STEPS
};

struct fuzz {
	struct fake_world w;
	struct fake_msg msg[MESSAGES];
	unsigned nmsg;
	struct fake_msg honest_send[HONEST], honest_recv[HONEST];
	uint8_t in[MESSAGES][BYTES], honest_in[HONEST][BYTES];
	uint8_t guard[64], memory[2 * BYTES], guard_after[64]; /* what the puppet may access, and what not */
};

static struct fuzz fuzz;
static uint8_t out[BYTES], frame[CHUNK + ZIPC_FRAME_HEADER];
static size_t frame_len;

/* The honest node's name stays its own: whoever takes it over ends its transfers, and no check could tell. */
static bool impersonates(const uint8_t *msg, size_t len)
{
	const struct fake_node *honest = &fuzz.w.node[1];
	struct zipc_control_v1 hdr;

	if (len < sizeof(hdr))
		return false;
	memcpy(&hdr, msg, sizeof(hdr));
	return hdr.sender == honest->attr.epoch ||
	       (hdr.type == ZIPC_CTL_HELLO && len >= sizeof(struct zipc_hello_v1) + FAKE_ADDR &&
		!memcmp(msg + sizeof(struct zipc_hello_v1), honest->main_addr, FAKE_ADDR));
}

static void say(const void *msg, size_t len)
{
	if (!impersonates(msg, len))
		fake_inject(&fuzz.w, FAKE_CONTROL, PUPPET, 0, 0, msg, len);
}

static void change(void *fields, size_t len, const uint8_t *data, size_t n)
{
	uint8_t *bytes = fields;
	size_t i;

	/* Pairs of position and difference. */
	for (i = 0; i + 1 < n; i += 2)
		bytes[data[i] % len] ^= data[i + 1];
}

static void say_control(const uint8_t *data, size_t n)
{
	uint8_t msg[sizeof(struct zipc_control_v1) + 256];
	struct zipc_control_v1 hdr = {.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .sender = PUPPET_ID};

	hdr.type = n ? data[0] : 0;
	hdr.length = (uint32_t)(sizeof(hdr) + (n ? n - 1 : 0));
	memcpy(msg, &hdr, sizeof(hdr));
	if (n)
		memcpy(msg + sizeof(hdr), data + 1, n - 1);
	say(msg, hdr.length);
}

static void say_hello(const uint8_t *data, size_t n)
{
	struct fake_node *puppet = &fuzz.w.node[PUPPET];
	struct zipc_hello_v1 hello = {
		.hdr = {.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .type = ZIPC_CTL_HELLO,
			.length = sizeof(hello) + 2 * FAKE_ADDR, .sender = PUPPET_ID},
		.echo = fuzz.w.node[0].attr.epoch, .flags = ZIPC_HELLO_UNTAGGED | ZIPC_HELLO_RMA, .dtypes = 0xff, .codecs = 0xff, .max_chunk = CHUNK,
		.main_len = FAKE_ADDR, .comp_len = FAKE_ADDR,
	};
	uint8_t msg[sizeof(hello) + 2 * FAKE_ADDR];

	memcpy(msg, &hello, sizeof(hello));
	memcpy(msg + sizeof(hello), puppet->main_addr, FAKE_ADDR);
	memcpy(msg + sizeof(hello) + FAKE_ADDR, puppet->comp_addr, FAKE_ADDR);
	change(msg, sizeof(msg), data, n);
	say(msg, sizeof(msg));
}

static struct zipc_placeholder_v1 placeholder(uint32_t xfer)
{
	struct zipc_placeholder_v1 ph = {
		.sender = PUPPET_ID, .sender_xfer = xfer, .chunk = CHUNK, .nbytes = BYTES, .version = ZIPC_WIRE_VERSION,
		.flags = ZIPC_PH_TAGGED,
	};

	memcpy(ph.magic, ZIPC_PLACEHOLDER_MAGIC, sizeof(ph.magic));
	return ph;
}

static void send_placeholder(const uint8_t *data, size_t n)
{
	struct zipc_placeholder_v1 ph = placeholder(n ? data[0] : 0);

	if (n)
		change(&ph, sizeof(ph), data + 1, n - 1);
	if (ph.sender != fuzz.w.node[1].attr.epoch)
		fake_inject(&fuzz.w, FAKE_MAIN, PUPPET, 0, 0, &ph, sizeof(ph));
}

static void say_rts(uint32_t xfer)
{
	const struct zipc_placeholder_v1 ph = placeholder(xfer);
	struct zipc_rts_v1 rts = {
		.hdr = {.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .type = ZIPC_CTL_RTS, .length = sizeof(rts),
			.sender = PUPPET_ID},
		.sender_xfer = xfer, .chunk = ph.chunk, .nbytes = ph.nbytes, .flags = ph.flags,
	};

	say(&rts, sizeof(rts));
}

static void send_chunk(const void *data, size_t len)
{
	const struct fake_bulk_recv *recv = fake_bulk_waiting(&fuzz.w, 0);

	if (recv)
		fake_inject(&fuzz.w, FAKE_BULK, PUPPET, 0, recv->tag, data, len);
}

static void send_frame(const uint8_t *data, size_t n)
{
	uint8_t copy[sizeof(frame)];

	memcpy(copy, frame, frame_len);
	change(copy, frame_len < 256 ? frame_len : 256, data, n);
	send_chunk(copy, frame_len);
}

static void post_recv(size_t len)
{
	if (fuzz.nmsg == MESSAGES)
		return;
	fake_recv(&fuzz.w, 0, PUPPET, fuzz.in[fuzz.nmsg], len, 0, &fuzz.msg[fuzz.nmsg]);
	fuzz.nmsg++;
}

static void post_send(unsigned flags)
{
	if (fuzz.nmsg < MESSAGES &&
	    fake_send(&fuzz.w, 0, PUPPET, out, BYTES, 0, SEND_FLAGS | (flags & ZIPC_SEND_DELIVERY), &fuzz.msg[fuzz.nmsg]))
		fuzz.nmsg++;
}

static void peek(unsigned how)
{
	size_t nbytes;
	struct zipc_recv *recv = zipc_recv_peek(fuzz.w.node[0].engine, NULL, 0, how & 1, &nbytes);

	if (recv && (how & 1) && how > 127)
		zipc_recv_drop(recv);
}

static void discard(void)
{
	struct fake_packet *packet = fake_take(&fuzz.w, 0, 0);

	if (!packet)
		return;
	if (zipc_is_placeholder(fuzz.w.node[0].engine, packet->data, packet->len))
		zipc_recv_discard(fuzz.w.node[0].engine, packet->data);
	fake_packet_free(packet);
}

static struct zipc_write_v1 write_record(uint32_t xfer)
{
	struct zipc_write_v1 msg = {
		.hdr = {.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .type = ZIPC_CTL_WRITE, .length = sizeof(msg),
			.sender = PUPPET_ID},
		.sender_xfer = xfer, .chunk = CHUNK, .nbytes = BYTES, .flags = xfer & ZIPC_RMA_POLL, .nsegs = 2,
		.segs = {{(uintptr_t)fuzz.memory, 5000, 1}, {(uintptr_t)fuzz.memory + BYTES, BYTES - 5000, 1}},
	};

	return msg;
}

static void say_write(const uint8_t *data, size_t n)
{
	struct zipc_write_v1 msg = write_record(n ? data[0] : 0);

	if (n)
		change(&msg.sender_xfer, sizeof(msg) - sizeof(msg.hdr), data + 1, n - 1);
	say(&msg, sizeof(msg));
}

static void say_read(const uint8_t *data, size_t n)
{
	const struct zipc_write_v1 write = write_record(0);
	struct zipc_read_v1 msg = {.hdr = write.hdr, .reader_xfer = n ? data[0] : 0, .max_chunk = CHUNK, .nbytes = BYTES, .nsegs = 2};

	msg.hdr.type = ZIPC_CTL_READ;
	msg.hdr.length = sizeof(msg);
	memcpy(msg.segs, write.segs, sizeof(msg.segs));
	if (n)
		change(&msg.reader_xfer, sizeof(msg) - sizeof(msg.hdr), data + 1, n - 1);
	say(&msg, sizeof(msg));
}

static void say_reply(const uint8_t *data, size_t n)
{
	struct zipc_peer *peer = zipc_peer_by_epoch(fuzz.w.node[0].engine, PUPPET_ID);
	struct zipc_reply_v1 msg = {
		.hdr = {.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .type = ZIPC_CTL_REPLY, .length = sizeof(msg),
			.sender = PUPPET_ID},
		.sender_xfer = n ? data[0] : 0, .chunk = CHUNK, .nbytes = BYTES,
	};

	if (peer && !zipc_list_empty(&peer->reads))
		msg.reader_xfer = zipc_container(peer->reads.next, struct zipc_recv, read)->id;
	if (n)
		change(&msg.reader_xfer, sizeof(msg) - sizeof(msg.hdr), data + 1, n - 1);
	say(&msg, sizeof(msg));
}

static void post_access(unsigned how)
{
	const struct zipc_rma_seg seg = {how, BYTES, how};
	const struct iovec iov = {how & 1 ? fuzz.in[fuzz.nmsg % MESSAGES] : out, BYTES};
	struct fake_msg *msg = &fuzz.msg[fuzz.nmsg];

	if (fuzz.nmsg == MESSAGES || !zipc_peer_rma(fake_peer(&fuzz.w, 0, PUPPET)))
		return;
	if (!(how & 1 ? fake_read(&fuzz.w, 0, PUPPET, &iov, 1, &seg, 1, msg) :
			fake_write(&fuzz.w, 0, PUPPET, &iov, 1, &seg, 1, how, how & (ZIPC_RMA_DATA | ZIPC_RMA_POLL), msg)))
		fuzz.nmsg++;
}

static void take_step(unsigned what, const uint8_t *data, size_t n)
{
	size_t i;

	switch (what) {
	case STEP_NOISE: say(data, n); break;
	case STEP_CONTROL: say_control(data, n); break;
	case STEP_HELLO: say_hello(data, n); break;
	case STEP_PLACEHOLDER: send_placeholder(data, n); break;
	case STEP_CHUNK: send_chunk(data, n); break;
	case STEP_FRAME: send_frame(data, n); break;
	case STEP_RECV: post_recv(n ? (size_t)data[0] * 66 : BYTES); break;
	case STEP_SEND: post_send(n ? data[0] : 0); break;
	case STEP_PEEK: peek(n ? data[0] : 0); break;
	case STEP_DISCARD: discard(); break;
	case STEP_WRITE: say_write(data, n); break;
	case STEP_READ: say_read(data, n); break;
	case STEP_REPLY: say_reply(data, n); break;
	case STEP_ACCESS: post_access(n ? data[0] : 0); break;
	case STEP_REVOKE: zipc_rma_revoke(fuzz.w.node[0].engine, &fuzz.w.node[0].region[0], ZIPC_ERR_KEY); break;
	default:
		for (i = 0; i < n; i++)
			fake_step(&fuzz.w);
		break;
	}
}

/* Transfers in all states: asked for and not, granted and not, matched, claimed. */
static void start(void)
{
	const struct zipc_engine_attr attr = {.policy = ZIPC_POLICY_ALWAYS};
	unsigned i;

	memset(fuzz.msg, 0, sizeof(fuzz.msg));
	fuzz.nmsg = 0;
	fake_open(&fuzz.w, 1, 2, &attr);
	fake_puppet(&fuzz.w, PUPPET);
	memset(fuzz.guard, 0x55, sizeof(fuzz.guard));
	memset(fuzz.guard_after, 0x55, sizeof(fuzz.guard_after));
	fuzz.w.node[0].region[0] = (struct fake_region){.base = fuzz.memory, .len = sizeof(fuzz.memory), .write = true, .read = true};
	fake_meet(&fuzz.w, 0, 1);
	say_hello(NULL, 0);
	fake_run(&fuzz.w);
	for (i = 0; i < 6; i++) {
		say_rts(i);
		if (i < 4)
			send_placeholder((const uint8_t[]){(uint8_t)i}, 1);
		if (i < 2)
			post_recv(i ? BYTES : CHUNK + 1);
		post_send(i);
	}
	for (i = 0; i < 2; i++) {
		say_write((const uint8_t[]){(uint8_t)(20 + i)}, 1);
		say_read((const uint8_t[]){(uint8_t)i}, 1);
		post_access(i);
		post_access(i);
	}
	fake_run(&fuzz.w);
	say_reply((const uint8_t[]){9}, 1);
	peek(1);
	for (i = 0; i < HONEST; i++) {
		fake_recv(&fuzz.w, i & 1, 1 - (i & 1), fuzz.honest_in[i], BYTES, i + 1, &fuzz.honest_recv[i]);
		FAKE_CHECK(fake_send(&fuzz.w, 1 - (i & 1), i & 1, out, BYTES, i + 1, SEND_FLAGS, &fuzz.honest_send[i]));
	}
}

static void finish(void)
{
	struct zipc_engine *engine = fuzz.w.node[0].engine;
	struct zipc_list *entry;
	struct zipc_stats stats;
	unsigned i;

	fake_run(&fuzz.w);
	for (entry = engine->peers.next; entry != &engine->peers; entry = entry->next) {
		struct zipc_peer *peer = zipc_container(entry, struct zipc_peer, link);

		if (peer != fake_peer(&fuzz.w, 0, 1))
			zipc_peer_lose(peer, ZIPC_ERR_NET);
	}
	fake_run(&fuzz.w);
	for (i = 0; i < HONEST; i++) {
		FAKE_CHECK(fuzz.honest_send[i].done && !fuzz.honest_send[i].status);
		FAKE_CHECK(fuzz.honest_recv[i].done && !fuzz.honest_recv[i].status);
		FAKE_CHECK(!memcmp(fuzz.honest_in[i], out, BYTES));
	}
	for (i = 0; i < fuzz.nmsg; i++)
		FAKE_CHECK(fuzz.msg[i].done || (fuzz.msg[i].link.next && fuzz.msg[i].link.next != &fuzz.msg[i].link));
	for (i = 0; i < sizeof(fuzz.guard); i++)
		FAKE_CHECK(fuzz.guard[i] == 0x55 && fuzz.guard_after[i] == 0x55);
	FAKE_CHECK(fuzz.w.node[0].region[0].opened == fuzz.w.node[0].region[0].done);
	zipc_engine_stats(engine, &stats);
	FAKE_CHECK(!stats.staging_bytes && !engine->ctl_pending);
	fake_close(&fuzz.w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = 0, n;

	start();
	while (at + 2 <= size) {
		n = data[at + 1];
		if (n > size - at - 2)
			n = size - at - 2;
		take_step(data[at] % STEPS, data + at + 2, n);
		at += 2 + n;
	}
	finish();
	return 0;
}

/* ---- seeds */

static size_t seed_control(uint8_t *p, unsigned type, const void *body, size_t len)
{
	p[0] = STEP_CONTROL;
	p[1] = (uint8_t)(1 + len);
	p[2] = (uint8_t)type;
	if (len)
		memcpy(p + 3, body, len);
	return 3 + len;
}

static size_t seed_steps(uint8_t *p, unsigned what)
{
	const uint32_t id = 1u << 20, credit[] = {id, 7, 0, 2}, fin[] = {id, 0}, scope[] = {1, 1};
	struct zipc_rts_v1 rts = {.sender_xfer = 9, .chunk = CHUNK, .nbytes = BYTES, .flags = ZIPC_PH_TAGGED};
	size_t n = 0;

	switch (what) {
	case 0: n = seed_control(p, ZIPC_CTL_CREDIT, credit, sizeof(credit)); break;
	case 1: n = seed_control(p, ZIPC_CTL_FIN, fin, sizeof(fin)); break;
	case 2: n = seed_control(p, ZIPC_CTL_ABORT, scope, sizeof(scope)); break;
	case 3: n = seed_control(p, ZIPC_CTL_PING, NULL, 0); break;
	case 4: n = seed_control(p, ZIPC_CTL_RTS, &rts.sender_xfer, sizeof(rts) - sizeof(rts.hdr)); break;
	default: /* one of each of the other kinds, changing a byte where it can */
		p[0] = (uint8_t)(what % STEPS);
		p[1] = 3;
		memcpy(p + 2, "\x10\x00\x01", 3);
		n = 5;
		break;
	}
	memcpy(p + n, (const uint8_t[]){STEP_RUN, 40}, 2);
	memset(p + n + 2, 0, 40);
	return n + 42;
}

static int write_seeds(const char *dir)
{
	uint8_t seed[4096];
	char path[1024];
	unsigned what, part;
	size_t len;
	FILE *f;
	int bad;

	if (mkdir(dir, 0777) && errno != EEXIST)
		return -1;
	for (what = 0; what < 5 + STEPS; what++) {
		len = 0;
		for (part = 0; part < 4; part++)
			len += seed_steps(seed + len, (what + part * 3) % (5 + STEPS));
		snprintf(path, sizeof(path), "%s/seed%u", dir, what);
		f = fopen(path, "wb");
		if (!f)
			return -1;
		bad = fwrite(seed, 1, len, f) != len;
		if (fclose(f) || bad)
			return -1;
	}
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	zipt_fill(out, sizeof(out), ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	FAKE_CHECK(!zipc_encode(frame, sizeof(frame), out, CHUNK, ZIPC_DTYPE_BF16, ZIPC_CODEC_ENTROPY, &frame_len));
	if (*argc == 3 && !strcmp((*argv)[1], "--seeds"))
		exit(write_seeds((*argv)[2]) ? 1 : 0);
	return 0;
}
