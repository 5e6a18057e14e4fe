/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transfer engine against a peer that knows the protocol and breaks it. Node 2 is that peer, a puppet; nodes 0 and 1 are
 * honest, and what they do with each other must not be touched by it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "fake_net.h"
#include "fake_puppet.h"
#include "zipt_data.h"

#define BYTES PUPPET_BYTES
#define CHUNK PUPPET_CHUNK
#define CHUNKS ((BYTES - 1) / CHUNK + 1)

static const struct zipc_engine_attr usual = {.policy = ZIPC_POLICY_ALWAYS};
static uint8_t out[BYTES], in[BYTES];

/* ---- what the puppet says */

static void answer_chunk(struct fake_world *w, const void *frame, size_t len)
{
	struct fake_bulk_recv *recv = fake_bulk_waiting(w, 0);

	assert_non_null(recv);
	fake_inject(w, FAKE_BULK, PUPPET, 0, recv->tag, frame, len);
	fake_run(w);
}

/* ---- the honest */

static void open_with_puppet(struct fake_world *w)
{
	struct zipc_hello_v1 hello;

	zipt_fill(out, sizeof(out), ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	fake_open(w, 11, 2, &usual);
	fake_puppet(w, PUPPET);
	w->faulty = true;
	fake_meet(w, 0, 1);
	fake_run(w);
	hello = usual_hello(w, ZIPC_HELLO_UNTAGGED);
	say_hello(w, &hello);
	assert_true(zipc_peer_ready(fake_peer(w, 0, PUPPET)));
}

static struct zipc_stats stats_of(const struct fake_world *w, int node)
{
	struct zipc_stats stats;

	zipc_engine_stats(w->node[node].engine, &stats);
	return stats;
}

/* Both ways between the honest, as if nothing were wrong. */
static void check_honest(struct fake_world *w)
{
	struct fake_msg send[2], recv[2];
	static uint8_t got[2][BYTES];
	int i;

	for (i = 0; i < 2; i++) {
		memset(got[i], 0, BYTES);
		fake_recv(w, i, 1 - i, got[i], BYTES, 99, &recv[i]);
		assert_true(fake_send(w, 1 - i, i, out, BYTES, 99, ZIPC_SEND_TAGGED, &send[i]));
	}
	fake_run(w);
	for (i = 0; i < 2; i++) {
		assert_true(send[i].done && !send[i].status && recv[i].done && !recv[i].status);
		assert_memory_equal(got[i], out, BYTES);
	}
}

/* Nothing of the puppet's is left. */
static void check_and_close(struct fake_world *w)
{
	check_honest(w);
	assert_int_equal(zipc_peer_active(fake_peer(w, 0, PUPPET)), 0);
	assert_int_equal(stats_of(w, 0).staging_bytes, 0);
	assert_false(zipc_engine_busy(w->node[0].engine));
	fake_close(w);
}

/* Status of the next FIN that the puppet was sent; 1 when there is none. */
static int heard_fin(struct fake_world *w)
{
	struct zipc_fin_v1 fin;

	return heard(w, ZIPC_CTL_FIN, &fin, sizeof(fin)) ? fin.status : 1;
}

/* A transfer to the puppet; its number. */
static uint32_t send_to_puppet(struct fake_world *w, struct fake_msg *msg)
{
	struct zipc_placeholder_v1 ph;
	struct fake_packet *packet;

	forget_heard(w);
	assert_true(fake_send(w, 0, PUPPET, out, BYTES, 5, ZIPC_SEND_TAGGED, msg));
	assert_false(msg->done);
	fake_run(w);
	for (;;) {
		packet = zipc_container(zipc_list_pop(&w->node[PUPPET].heard), struct fake_packet, link);
		if (packet->kind == FAKE_MAIN)
			break;
		fake_packet_free(packet);
	}
	assert_int_equal(packet->len, sizeof(ph));
	memcpy(&ph, packet->data, sizeof(ph));
	fake_packet_free(packet);
	return ph.sender_xfer;
}

/* A transfer from the puppet that a receive waits for: the chunks were asked for. */
static void match_puppet(struct fake_world *w, uint32_t xfer, struct fake_msg *msg)
{
	const struct zipc_rts_v1 rts = usual_rts(xfer);
	const struct zipc_placeholder_v1 ph = usual_placeholder(xfer);

	say(w, &rts, sizeof(rts));
	fake_recv(w, 0, PUPPET, in, BYTES, 5, msg);
	fake_inject(w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
	fake_run(w);
	assert_false(msg->done);
}

/* ---- control messages */

static void test_hostile_headers(void **state)
{
	struct zipc_control_v1 ping;
	struct fake_world w;
	uint8_t noise[700];
	unsigned i, logs;

	(void)state;
	open_with_puppet(&w);
	memset(noise, 0xa5, sizeof(noise));
	for (i = 0; i < 6; i++) {
		ping = header(ZIPC_CTL_PING, sizeof(ping));
		ping.magic ^= i == 0;
		ping.version ^= (uint8_t)(i == 1 ? 3 : 0);
		ping.type = (uint8_t)(i == 2 ? 77 : ping.type);
		ping.length += i == 3;
		ping.sender ^= i == 4;
		ping.type = (uint8_t)(i == 5 ? ZIPC_CTL_RTS : ping.type);
		logs = w.node[0].logs;
		say(&w, &ping, sizeof(ping));
		assert_int_equal(w.node[0].logs, logs + 1);
	}
	for (i = 0; i < sizeof(noise); i++)
		fake_inject(&w, FAKE_CONTROL, PUPPET, 0, 0, noise, i);
	fake_run(&w);
	/* Each is worth a line, but a flood must not fill a disk: 64 lines a second. */
	assert_in_range(w.node[0].logs, 64, 64 * 3);
	check_and_close(&w);
}

static void test_hostile_hellos(void **state)
{
	struct zipc_hello_v1 hello;
	struct fake_world w;
	unsigned i;

	(void)state;
	for (i = 0; i < 8; i++) {
		fake_open(&w, 1, 2, &usual);
		fake_puppet(&w, PUPPET);
		fake_meet(&w, 0, 1);
		fake_run(&w);
		hello = usual_hello(&w, ZIPC_HELLO_UNTAGGED);
		hello.hdr.version += i == 0;
		hello.hdr.sender = i == 1 ? 0 : i == 2 ? w.node[1].attr.epoch : i == 3 ? w.node[0].attr.epoch : PUPPET_ID;
		hello.max_chunk = i == 4 ? 8191 : CHUNK;
		hello.main_len = i == 5 ? 0 : i == 6 ? 300 : FAKE_ADDR;
		hello.codecs = i == 7 ? 2 : 0xff;
		say_hello(&w, &hello);
		assert_false(zipc_peer_ready(fake_peer(&w, 0, PUPPET)));
		check_honest(&w);
		fake_close(&w);
	}
}

/* What the peer cannot decode it is not sent. */
static void test_hostile_few_codecs(void **state)
{
	struct zipc_hello_v1 hello;
	struct fake_world w;
	struct fake_msg msg;

	(void)state;
	open_with_puppet(&w);
	hello = usual_hello(&w, ZIPC_HELLO_UNTAGGED);
	hello.dtypes = 1;
	say_hello(&w, &hello);
	assert_true(fake_send(&w, 0, PUPPET, out, BYTES, 5, ZIPC_SEND_TAGGED, &msg));
	assert_true(msg.done); /* went as it is */
	hello.dtypes = 0xff;
	hello.codecs = 1;
	say_hello(&w, &hello);
	assert_true(fake_send(&w, 0, PUPPET, out, BYTES, 5, ZIPC_SEND_TAGGED, &msg));
	assert_true(msg.done);
	assert_int_equal(stats_of(&w, 0).raw[ZIPC_RAW_PEER], 2);
	check_and_close(&w);
}

static void test_hostile_rts(void **state)
{
	struct zipc_rts_v1 rts;
	struct fake_world w;
	unsigned i, logs;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 7; i++) {
		rts = usual_rts(7);
		rts.chunk = i == 0 ? 0 : i == 1 ? 8191 : i == 2 ? 16384 : CHUNK;
		rts.nbytes = i == 3 ? 0 : i == 4 ? UINT64_MAX : BYTES;
		rts.flags = i == 5 ? 0x101 : ZIPC_PH_TAGGED;
		rts.zero[2] = i == 6;
		logs = w.node[0].logs;
		say(&w, &rts, sizeof(rts));
		assert_int_equal(w.node[0].logs, logs + 1);
		assert_int_equal(zipc_peer_active(fake_peer(&w, 0, PUPPET)), 0);
	}
	for (i = 0; i < 20000; i++) {
		rts = usual_rts(i);
		fake_inject(&w, FAKE_CONTROL, PUPPET, 0, 0, &rts, sizeof(rts));
	}
	fake_run(&w);
	assert_int_equal(zipc_peer_active(fake_peer(&w, 0, PUPPET)), 16384);
	check_honest(&w);
	say_abort(&w, 0, 0);
	check_and_close(&w);
}

static void test_hostile_placeholders(void **state)
{
	struct zipc_placeholder_v1 ph;
	struct zipc_rts_v1 rts;
	struct fake_world w;
	struct fake_msg msg;
	unsigned i, logs;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 9; i++) {
		rts = usual_rts(100 + i);
		say(&w, &rts, sizeof(rts));
		ph = usual_placeholder(100 + i);
		ph.version += i == 0;
		ph.flags ^= (uint8_t)(i == 1 ? 4 : i == 2 ? ZIPC_PH_DELIVERY : 0);
		ph.zero[8] = i == 3;
		ph.chunk = i == 4 ? 0 : i == 5 ? 16384 : CHUNK;
		ph.nbytes = i == 6 ? 0 : i == 7 ? BYTES + 1 : BYTES;
		ph.tag ^= i == 8;
		logs = w.node[0].logs;
		fake_recv(&w, 0, PUPPET, in, BYTES, 5, &msg);
		fake_inject(&w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
		fake_run(&w);
		assert_true(msg.done);
		assert_int_equal(msg.status, ZIPC_ERR_PROTO);
		assert_int_equal(w.node[0].logs, logs + 1);
		assert_int_equal(heard_fin(&w), i == 2 || i == 7 || i == 8 ? ZIPC_ERR_PROTO : 1);
	}
	match_puppet(&w, 200, &msg); /* and the same again while it runs */
	{
		struct fake_msg twice;

		ph = usual_placeholder(200);
		fake_recv(&w, 0, PUPPET, in, BYTES, 5, &twice);
		fake_inject(&w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
		fake_run(&w);
		assert_true(twice.done && twice.status == ZIPC_ERR_PROTO && !msg.done);
	}
	say_abort(&w, 0, 0);
	assert_true(msg.done && msg.status == ZIPC_ERR_PEER);
	check_and_close(&w);
}

/* A control record that comes after the placeholder and does not fit it. */
static void test_hostile_late_rts(void **state)
{
	struct zipc_placeholder_v1 ph = usual_placeholder(1);
	struct zipc_rts_v1 rts = usual_rts(1);
	struct fake_world w;
	struct fake_msg msg;

	(void)state;
	open_with_puppet(&w);
	fake_recv(&w, 0, PUPPET, in, BYTES, 5, &msg);
	fake_inject(&w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
	fake_run(&w);
	assert_false(msg.done);
	rts.nbytes = BYTES - 1;
	say(&w, &rts, sizeof(rts));
	assert_true(msg.done && msg.status == ZIPC_ERR_PROTO);
	say_abort(&w, 1, 1); /* the chunks do not come: the receives are taken back */
	check_and_close(&w);
}

static void test_hostile_credits(void **state)
{
	static const struct {
		uint32_t xfer, first, count, receiver;
	} wrong[] = {
		{0, 1, 1, 9}, {0, 0, 0, 9}, {0, 0, CHUNKS + 1, 9}, {0, 0, UINT32_MAX, 9}, {0, UINT32_MAX, 1, 9}, {1, 0, 1, 9},
	};
	struct fake_world w;
	struct fake_msg msg;
	uint32_t xfer;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		xfer = send_to_puppet(&w, &msg);
		say_credit(&w, xfer ^ wrong[i].xfer, 9, wrong[i].first, wrong[i].count);
		assert_int_equal(msg.done, !wrong[i].xfer);
		assert_int_equal(msg.status, wrong[i].xfer ? 0 : ZIPC_ERR_PROTO);
		fake_packet_free(fake_heard(&w, PUPPET, ZIPC_CTL_ABORT));
		check_honest(&w);
		if (!msg.done)
			say_fin(&w, xfer, ZIPC_ERR_CANCELED);
	}
	xfer = send_to_puppet(&w, &msg); /* the same again, a gap, another receiver */
	say_credit(&w, xfer, 9, 0, 1);
	assert_false(msg.done);
	say_credit(&w, xfer, 10, 1, 1);
	assert_true(msg.done && msg.status == ZIPC_ERR_PROTO);
	xfer = send_to_puppet(&w, &msg);
	say_credit(&w, xfer, 9, 0, CHUNKS);
	assert_true(msg.done && !msg.status);
	say_credit(&w, xfer, 9, CHUNKS, 1);
	check_and_close(&w);
}

/* Two at once: more than can be told one by one. Both sides give everything up. */
static void test_hostile_credits_at_once(void **state)
{
	struct zipc_credit_v1 credit = {.hdr = header(ZIPC_CTL_CREDIT, sizeof(credit)), .first = 3, .count = 1};
	struct fake_world w;
	struct fake_msg msg[3];
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 3; i++) {
		credit.sender_xfer = send_to_puppet(&w, &msg[i]);
		if (i)
			fake_inject(&w, FAKE_CONTROL, PUPPET, 0, 0, &credit, sizeof(credit));
	}
	zipc_engine_control(w.node[0].engine, &credit, sizeof(credit));
	credit.sender_xfer ^= 1;
	zipc_engine_control(w.node[0].engine, &credit, sizeof(credit));
	fake_run(&w);
	for (i = 0; i < 3; i++)
		assert_true(msg[i].done && msg[i].status);
	check_and_close(&w);
}

static void test_hostile_fins(void **state)
{
	static const int statuses[] = {0, ZIPC_ERR_TRUNC, ZIPC_ERR_NOMEM, INT32_MIN, 12345};
	struct fake_world w;
	struct fake_msg msg;
	uint32_t xfer;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
		xfer = send_to_puppet(&w, &msg);
		say_fin(&w, xfer + 1, 0);
		say_fin(&w, xfer + (1 << 20), 0);
		assert_false(msg.done);
		if (i & 1)
			say_credit(&w, xfer, 4, 0, 1);
		say_fin(&w, xfer, statuses[i]);
		assert_true(msg.done);
		assert_int_equal(msg.status, statuses[i] > 0 ? ZIPC_ERR_PROTO : statuses[i] == ZIPC_ERR_TRUNC ? 0 : statuses[i]);
		say_fin(&w, xfer, 0);
		say_abort(&w, xfer, 1);
	}
	check_and_close(&w);
}

/* ---- chunks */

static void test_hostile_chunks(void **state)
{
	static uint8_t frame[CHUNK + 4096];
	struct fake_world w;
	struct fake_msg msg;
	size_t len, sent;
	unsigned i;

	(void)state;
	open_with_puppet(&w);
	for (i = 0; i < 6; i++) {
		match_puppet(&w, 10 + i, &msg);
		assert_int_equal(zipc_encode(frame, sizeof(frame), out, i == 4 ? CHUNK / 2 : CHUNK, ZIPC_DTYPE_BF16,
					     ZIPC_CODEC_ENTROPY, &len), 0);
		sent = i == 0 ? 0 : i == 1 ? len - 1 : i == 5 ? sizeof(frame) + 60000 : len;
		if (i == 2)
			frame[0] ^= 1;
		if (i == 3) /* noise in the whole frame behind the header */
			for (size_t at = ZIPC_FRAME_HEADER; at < len; at++)
				frame[at] ^= (uint8_t)(at * 151);
		if (i == 5) {
			uint8_t *large = calloc(1, sent);

			assert_non_null(large);
			answer_chunk(&w, large, sent);
			free(large);
		} else {
			answer_chunk(&w, frame, sent);
		}
		assert_true(msg.done && (msg.status || i == 3));
		while (fake_bulk_waiting(&w, 0)) /* the others of its window are still welcome */
			answer_chunk(&w, frame, 7);
		assert_int_equal(heard_fin(&w), msg.status);
		forget_heard(&w);
	}
	check_and_close(&w);
}

/* A peer that asks for much and then stands still keeps the staging of neither direction from others. */
static void test_hostile_stands_still(void **state)
{
	struct fake_msg recv[64], send[64];
	struct fake_world w;
	uint32_t xfer;
	int i;

	(void)state;
	open_with_puppet(&w);
	w.node[PUPPET].stuck = true;
	for (i = 0; i < 64; i++) {
		match_puppet(&w, (uint32_t)i, &recv[i]);
		xfer = send_to_puppet(&w, &send[i]);
		say_credit(&w, xfer, (uint32_t)i, 0, CHUNKS);
	}
	for (i = 0; i < 5; i++)
		check_honest(&w);
	say_abort(&w, 0, 0);
	for (i = 0; i < 64; i++)
		assert_true(send[i].done && send[i].status && recv[i].done && recv[i].status);
	check_honest(&w);
	fake_close(&w);
}

/* The network never gives back what was sent to peers that died: the others get on, in the end without transfers. */
static void test_hostile_many_die(void **state)
{
	struct fake_msg send[8];
	struct fake_world w;
	uint32_t xfer;
	int i, round;

	(void)state;
	open_with_puppet(&w);
	w.node[PUPPET].stuck = true;
	for (round = 0; round < 6; round++) {
		const struct zipc_hello_v1 hello = usual_hello(&w, ZIPC_HELLO_UNTAGGED);

		say_hello(&w, &hello);
		for (i = 0; i < 8; i++) {
			if (stats_of(&w, 0).raw[ZIPC_RAW_OFF])
				break;
			xfer = send_to_puppet(&w, &send[i]);
			say_credit(&w, xfer, 1, 0, CHUNKS);
		}
		say_abort(&w, 0, 0);
		while (i--)
			assert_true(send[i].done && send[i].status);
		assert_int_equal(stats_of(&w, 0).staging_bytes, 0);
		check_honest(&w);
	}
	assert_true(stats_of(&w, 0).sends > 6 && stats_of(&w, 0).raw[ZIPC_RAW_OFF]);
	fake_close(&w);
}

static void test_hostile_abort(void **state)
{
	struct zipc_rts_v1 rts = usual_rts(2);
	struct zipc_placeholder_v1 ph = usual_placeholder(2);
	struct fake_world w;
	struct fake_msg msg;
	size_t nbytes;

	(void)state;
	open_with_puppet(&w);
	match_puppet(&w, 1, &msg);
	say_abort(&w, 1, 1);
	assert_true(msg.done && msg.status == ZIPC_ERR_PEER);
	assert_null(fake_bulk_waiting(&w, 0));
	say(&w, &rts, sizeof(rts)); /* given up before its placeholder comes */
	say_abort(&w, 2, 1);
	assert_null(zipc_recv_peek(w.node[0].engine, NULL, 5, 0, &nbytes));
	fake_recv(&w, 0, PUPPET, in, BYTES, 5, &msg);
	fake_inject(&w, FAKE_MAIN, PUPPET, 0, 5, &ph, sizeof(ph));
	fake_run(&w);
	assert_true(msg.done && msg.status == ZIPC_ERR_PEER);
	say_abort(&w, 77, 1);
	check_and_close(&w);
}

/* ---- the end of a peer that no operation tells of */

/* The host's id as this process sees it, from the hello that the puppet was sent. */
static uint64_t heard_host(struct fake_world *w)
{
	struct fake_packet *packet = fake_heard(w, PUPPET, ZIPC_CTL_HELLO);
	struct zipc_hello_v1 hello;

	assert_non_null(packet);
	memcpy(&hello, packet->data, sizeof(hello));
	fake_packet_free(packet);
	return hello.host;
}

static void wait_seconds(struct fake_world *w, int n)
{
	while (n--) {
		clock_ahead_ms += 1000;
		fake_run(w);
	}
}

/* Killed, but nobody has waited for it. */
static void test_hostile_zombie(void **state)
{
	struct zipc_hello_v1 hello;
	struct fake_world w;
	struct fake_msg msg;
	siginfo_t info;
	int pipes[2];
	pid_t pid;

	(void)state;
	open_with_puppet(&w);
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		char c;

		_exit(read(pipes[0], &c, 1) == 1 ? 0 : 1);
	}
	hello = usual_hello(&w, ZIPC_HELLO_UNTAGGED);
	hello.host = heard_host(&w);
	hello.pid = (uint32_t)pid;
	say_hello(&w, &hello);
	match_puppet(&w, 1, &msg);
	wait_seconds(&w, 15);
	assert_false(msg.done); /* as long as it lives it may be silent */
	assert_int_equal(write(pipes[1], "x", 1), 1);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	wait_seconds(&w, 3);
	assert_true(msg.done && msg.status);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
	check_and_close(&w);
}

/* A core that connects to a dead machine again and again takes nothing and reports nothing. */
static void test_hostile_dead_machine(void **state)
{
	struct fake_world w;
	struct fake_msg recv, send;

	(void)state;
	open_with_puppet(&w);
	match_puppet(&w, 1, &recv);
	send_to_puppet(&w, &send);
	w.node[PUPPET].puppet = false;
	w.dead_again = true;
	wait_seconds(&w, 5);
	assert_true(!recv.done && !send.done);
	wait_seconds(&w, 10);
	assert_true(recv.done && recv.status && send.done && send.status);
	check_honest(&w);
	assert_int_equal(zipc_peer_active(fake_peer(&w, 0, PUPPET)), 0);
	assert_int_equal(stats_of(&w, 0).staging_bytes, 0);
	fake_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_headers),
		cmocka_unit_test(test_hostile_hellos),
		cmocka_unit_test(test_hostile_few_codecs),
		cmocka_unit_test(test_hostile_rts),
		cmocka_unit_test(test_hostile_placeholders),
		cmocka_unit_test(test_hostile_late_rts),
		cmocka_unit_test(test_hostile_credits),
		cmocka_unit_test(test_hostile_credits_at_once),
		cmocka_unit_test(test_hostile_fins),
		cmocka_unit_test(test_hostile_chunks),
		cmocka_unit_test(test_hostile_stands_still),
		cmocka_unit_test(test_hostile_many_die),
		cmocka_unit_test(test_hostile_abort),
		cmocka_unit_test(test_hostile_zombie),
		cmocka_unit_test(test_hostile_dead_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
