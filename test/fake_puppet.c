/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "fake_puppet.h"

struct zipc_control_v1 header(unsigned type, size_t len)
{
	const struct zipc_control_v1 hdr = {
		.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .type = (uint8_t)type, .length = (uint32_t)len,
		.sender = PUPPET_ID,
	};

	return hdr;
}

void say(struct fake_world *w, const void *msg, size_t len)
{
	fake_inject(w, FAKE_CONTROL, PUPPET, 0, 0, msg, len);
	fake_run(w);
}

struct zipc_hello_v1 usual_hello(const struct fake_world *w, uint32_t flags)
{
	const struct zipc_hello_v1 hello = {
		.hdr = header(ZIPC_CTL_HELLO, sizeof(hello) + 2 * FAKE_ADDR), .echo = w->node[0].attr.epoch,
		.flags = flags, .dtypes = 0xff, .codecs = 0xff, .max_chunk = PUPPET_CHUNK, .main_len = FAKE_ADDR,
		.comp_len = FAKE_ADDR,
	};

	return hello;
}

void say_hello(struct fake_world *w, const struct zipc_hello_v1 *hello)
{
	uint8_t msg[sizeof(*hello) + 2 * FAKE_ADDR];

	memcpy(msg, hello, sizeof(*hello));
	memcpy(msg + sizeof(*hello), w->node[PUPPET].main_addr, FAKE_ADDR);
	memcpy(msg + sizeof(*hello) + FAKE_ADDR, w->node[PUPPET].comp_addr, FAKE_ADDR);
	say(w, msg, sizeof(msg));
}

void say_credit(struct fake_world *w, uint32_t xfer, uint32_t receiver_xfer, uint32_t first, uint32_t count)
{
	const struct zipc_credit_v1 credit = {
		.hdr = header(ZIPC_CTL_CREDIT, sizeof(credit)), .sender_xfer = xfer, .receiver_xfer = receiver_xfer, .first = first,
		.count = count,
	};

	say(w, &credit, sizeof(credit));
}

void say_fin(struct fake_world *w, uint32_t xfer, int status)
{
	const struct zipc_fin_v1 fin = {.hdr = header(ZIPC_CTL_FIN, sizeof(fin)), .sender_xfer = xfer, .status = status};

	say(w, &fin, sizeof(fin));
}

void say_abort(struct fake_world *w, uint32_t xfer, uint32_t scope)
{
	const struct zipc_abort_v1 abort_msg = {
		.hdr = header(ZIPC_CTL_ABORT, sizeof(abort_msg)), .sender_xfer = xfer, .scope = scope,
	};

	say(w, &abort_msg, sizeof(abort_msg));
}

void forget_heard(struct fake_world *w)
{
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(&w->node[PUPPET].heard)))
		fake_packet_free(zipc_container(entry, struct fake_packet, link));
}

bool heard(struct fake_world *w, unsigned type, void *msg, size_t len)
{
	struct fake_packet *packet = fake_heard(w, PUPPET, type);

	if (!packet)
		return false;
	assert_int_equal(packet->len, len);
	memcpy(msg, packet->data, len);
	fake_packet_free(packet);
	return true;
}

struct zipc_rts_v1 usual_rts(uint32_t xfer)
{
	const struct zipc_rts_v1 rts = {
		.hdr = header(ZIPC_CTL_RTS, sizeof(rts)), .sender_xfer = xfer, .chunk = PUPPET_CHUNK, .nbytes = PUPPET_BYTES, .tag = 5,
		.flags = ZIPC_PH_TAGGED,
	};

	return rts;
}

struct zipc_placeholder_v1 usual_placeholder(uint32_t xfer)
{
	struct zipc_placeholder_v1 ph = {
		.sender = PUPPET_ID, .sender_xfer = xfer, .chunk = PUPPET_CHUNK, .nbytes = PUPPET_BYTES, .tag = 5, .version = ZIPC_WIRE_VERSION,
		.flags = ZIPC_PH_TAGGED,
	};

	memcpy(ph.magic, ZIPC_PLACEHOLDER_MAGIC, sizeof(ph.magic));
	return ph;
}
