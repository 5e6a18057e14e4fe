/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "fake_priv.h"
#include "zipt_data.h"

#define FAKE_OP_FREE 0u
#define FAKE_OP_BUSY 0x0b51u
#define FAKE_STEPS 1000000u

uint32_t fake_random(struct fake_world *world, uint32_t below)
{
	return (uint32_t)(zipt_random(&world->seed) >> 16) % below;
}

/* ---- packets */

struct fake_packet *fake_packet_new(struct fake_world *world, enum fake_kind kind, int from, int to, const void *data, size_t len)
{
	struct fake_packet *packet = calloc(1, sizeof(*packet));

	FAKE_CHECK(packet);
	packet->kind = kind;
	packet->from = from;
	packet->to = to;
	packet->from_life = world->node[from].life;
	packet->to_life = world->node[to].life;
	if (len) {
		packet->data = malloc(len);
		FAKE_CHECK(packet->data);
		memcpy(packet->data, data, len);
		packet->len = len;
	}
	zipc_list_append(&world->packets, &packet->link);
	return packet;
}

void fake_packet_free(struct fake_packet *packet)
{
	free(packet->data);
	free(packet);
}

static void fake_op_begin(struct zipc_op *op)
{
	FAKE_CHECK(op->net[0] != FAKE_OP_BUSY);
	op->net[0] = FAKE_OP_BUSY;
}

/* Reports the end of an operation, unless its engine is gone. */
static void fake_op_end(struct fake_node *node, unsigned life, struct zipc_op *op, int status, size_t bytes)
{
	if (!op || !node->engine || node->life != life)
		return;
	FAKE_CHECK(op->net[0] == FAKE_OP_BUSY);
	op->net[0] = FAKE_OP_FREE;
	zipc_engine_op_done(node->engine, op, status, bytes);
}

static void fake_op_end_later(struct fake_node *node, struct zipc_op *op, int status, size_t bytes)
{
	int n = (int)(node - node->world->node);
	struct fake_packet *packet = fake_packet_new(node->world, FAKE_DONE, n, n, NULL, 0);

	packet->op = op;
	packet->status = status;
	packet->len = bytes;
}

/* ---- the engine's network */

static int fake_handle_node(zipc_addr_t handle)
{
	return (int)(handle & 0xff);
}

static int fake_addr_insert(void *net, const void *addr, size_t len, zipc_addr_t *handle)
{
	const uint8_t *bytes = addr;

	(void)net;
	if (len != FAKE_ADDR || bytes[0] != 'c' || bytes[1] >= FAKE_NODES)
		return ZIPC_ERR_NET;
	*handle = bytes[1] | (zipc_addr_t)bytes[2] << 8;
	return 0;
}

static void fake_addr_remove(void *net, zipc_addr_t handle)
{
	(void)net;
	(void)handle;
}

/* What every call may meet. 0: go on; 1: accepted, and failed later. */
static int fake_call(struct fake_node *node, zipc_addr_t peer, struct zipc_op *op)
{
	struct fake_world *world = node->world;
	const struct fake_node *to = &world->node[fake_handle_node(peer)];

	if (world->again && fake_random(world, 256) < world->again)
		return ZIPC_ERR_AGAIN;
	if (!to->engine && !to->puppet && world->dead_again)
		return ZIPC_ERR_AGAIN;
	node->calls++;
	if (world->fail_node == node - world->node && world->fail_at && node->calls == world->fail_at) {
		if (!world->fail_late)
			return ZIPC_ERR_NET;
		fake_op_begin(op);
		fake_op_end_later(node, op, ZIPC_ERR_NET, 0);
		return 1;
	}
	fake_op_begin(op);
	return 0;
}

static void fake_post(struct fake_node *node, enum fake_kind kind, zipc_addr_t peer, uint64_t tag, const void *buf, size_t len,
		      struct zipc_op *op)
{
	struct fake_packet *packet =
		fake_packet_new(node->world, kind, (int)(node - node->world->node), fake_handle_node(peer), buf, len);

	packet->op = op;
	packet->tag = tag;
	packet->to_life = (unsigned)(peer >> 8);
}

static int fake_send_control(void *net, zipc_addr_t peer, const void *msg, size_t len, struct zipc_op *op)
{
	int ret = fake_call(net, peer, op);

	if (!ret)
		fake_post(net, FAKE_CONTROL, peer, 0, msg, len, op);
	return ret < 0 ? ret : 0;
}

static int fake_send_bulk(void *net, zipc_addr_t peer, uint64_t tag, const void *buf, size_t len, struct zipc_op *op)
{
	int ret = fake_call(net, peer, op);

	if (!ret)
		fake_post(net, FAKE_BULK, peer, tag, buf, len, op);
	return ret < 0 ? ret : 0;
}

static int fake_recv_bulk(void *net, zipc_addr_t peer, uint64_t tag, void *buf, size_t len, struct zipc_op *op)
{
	struct fake_node *node = net;
	struct fake_bulk_recv *recv;
	int ret = fake_call(net, peer, op);

	if (ret)
		return ret < 0 ? ret : 0;
	recv = calloc(1, sizeof(*recv));
	FAKE_CHECK(recv);
	recv->from = fake_handle_node(peer);
	recv->from_life = (unsigned)(peer >> 8);
	recv->tag = tag;
	recv->buf = buf;
	recv->len = len;
	recv->op = op;
	zipc_list_append(&node->bulk, &recv->link);
	return 0;
}

static void fake_cancel_recv(void *net, struct zipc_op *op)
{
	struct fake_node *node = net;
	struct zipc_list *entry;

	for (entry = node->bulk.next; entry != &node->bulk; entry = entry->next) {
		struct fake_bulk_recv *recv = zipc_container(entry, struct fake_bulk_recv, link);

		if (recv->op != op)
			continue;
		zipc_list_remove(entry);
		fake_op_end_later(node, op, ZIPC_ERR_CANCELED, 0);
		free(recv);
		return;
	}
}

static const struct zipc_net_ops fake_net_ops = {
	.addr_insert = fake_addr_insert,
	.addr_remove = fake_addr_remove,
	.send_control = fake_send_control,
	.send_bulk = fake_send_bulk,
	.recv_bulk = fake_recv_bulk,
	.cancel_recv = fake_cancel_recv,
};

/* ---- nodes */

static void fake_name(struct fake_node *node)
{
	memset(node->main_addr, 0, FAKE_ADDR);
	memset(node->comp_addr, 0, FAKE_ADDR);
	node->main_addr[0] = 'm';
	node->comp_addr[0] = 'c';
	node->main_addr[1] = node->comp_addr[1] = (uint8_t)(node - node->world->node);
	node->comp_addr[2] = (uint8_t)node->life;
}

void fake_puppet(struct fake_world *world, int n)
{
	FAKE_CHECK(!world->node[n].engine);
	world->node[n].puppet = true;
	fake_name(&world->node[n]);
}

void fake_start(struct fake_world *world, int n)
{
	struct fake_node *node = &world->node[n];

	FAKE_CHECK(!node->engine);
	node->life++;
	fake_name(node);
	node->attr.main_addr = node->main_addr;
	node->attr.comp_addr = node->comp_addr;
	node->attr.main_len = node->attr.comp_len = FAKE_ADDR;
	node->attr.epoch = 0xe000 + (uint64_t)n * 256 + node->life;
	node->dev = zipc_host_open(node->attr.chunk, 0);
	FAKE_CHECK(node->dev);
	FAKE_CHECK(!zipc_engine_open(&node->attr, &fake_net_ops, node, &zipc_host_ops, node->dev,
				     world->no_rma ? &fake_cb_no_rma : &fake_cb, node, &node->engine));
}

static void fake_drop_packets(struct zipc_list *list)
{
	struct zipc_list *entry;

	while ((entry = zipc_list_pop(list)))
		fake_packet_free(zipc_container(entry, struct fake_packet, link));
}

void fake_attach(struct fake_world *world, int n, const struct fake_accel *fake, unsigned slots, bool visible, bool direct)
{
	struct fake_node *node = &world->node[n];
	size_t bytes = (slots + 1) * zipc_accel_slot(node->engine);
	struct zipc_accel_attr attr = {
		.ops = &fake_accel_ops, .dev = &node->fake, .send_bytes = bytes, .recv_bytes = bytes, .visible = visible, .direct = direct,
	};

	node->fake = *fake;
	node->staging = aligned_alloc(4096, 2 * bytes);
	FAKE_CHECK(node->staging);
	attr.send_memory = node->staging;
	attr.recv_memory = (char *)node->staging + bytes;
	FAKE_CHECK(!zipc_engine_attach(node->engine, &attr, &node->accel));
}

void fake_kill(struct fake_world *world, int n)
{
	struct fake_node *node = &world->node[n];
	struct zipc_list *entry;

	if (!node->engine)
		return;
	zipc_engine_close(node->engine);
	zipc_host_close(node->dev);
	free(node->staging);
	FAKE_CHECK(!node->fake.jobs);
	node->staging = NULL;
	node->accel = NULL;
	node->engine = NULL;
	memset(node->region, 0, sizeof(node->region));
	while ((entry = zipc_list_pop(&node->bulk)))
		free(zipc_container(entry, struct fake_bulk_recv, link));
	while (zipc_list_pop(&node->posted))
		;
	fake_drop_packets(&node->unexpected);
}

void fake_open(struct fake_world *world, uint64_t seed, int n, const struct zipc_engine_attr *attr)
{
	int i;

	memset(world, 0, sizeof(*world));
	world->seed = seed;
	zipc_list_init(&world->packets);
	for (i = 0; i < FAKE_NODES; i++) {
		struct fake_node *node = &world->node[i];

		node->world = world;
		node->attr = *attr;
		node->attr.chunk = attr->chunk ? attr->chunk : 8192;
		node->attr.staging = attr->staging ? attr->staging : 8 * 12288;
		node->attr.min_size = attr->min_size ? attr->min_size : 256;
		node->attr.codec = ZIPC_CODEC_ENTROPY;
		node->attr.host = node->attr.untagged = 1;
		zipc_list_init(&node->posted);
		zipc_list_init(&node->unexpected);
		zipc_list_init(&node->bulk);
		zipc_list_init(&node->heard);
		if (i < n)
			fake_start(world, i);
	}
}

void fake_close(struct fake_world *world)
{
	int i;

	for (i = 0; i < FAKE_NODES; i++) {
		fake_kill(world, i);
		fake_drop_packets(&world->node[i].heard);
	}
	fake_drop_packets(&world->packets);
}

void fake_meet(struct fake_world *world, int a, int b)
{
	FAKE_CHECK(!zipc_peer_meet(world->node[a].engine, world->node[b].main_addr, FAKE_ADDR, world->node[b].comp_addr, FAKE_ADDR));
}

struct zipc_peer *fake_peer(struct fake_world *world, int node, int peer)
{
	return zipc_peer_find(world->node[node].engine, world->node[peer].main_addr, FAKE_ADDR);
}

/* ---- events */

static void fake_arrive_main(struct fake_node *node, struct fake_packet *packet)
{
	struct zipc_list *entry;

	for (entry = node->posted.next; entry != &node->posted; entry = entry->next) {
		struct fake_msg *msg = zipc_container(entry, struct fake_msg, link);

		if (!fake_fits(packet, msg))
			continue;
		zipc_list_remove(entry);
		fake_match(node, packet, msg);
		return;
	}
	zipc_list_append(&node->unexpected, &packet->link);
}

static void fake_arrive_bulk(struct fake_node *node, const struct fake_packet *packet)
{
	struct zipc_list *entry;

	for (entry = node->bulk.next; entry != &node->bulk; entry = entry->next) {
		struct fake_bulk_recv *recv = zipc_container(entry, struct fake_bulk_recv, link);
		size_t len = recv->len < packet->len ? recv->len : packet->len;
		struct zipc_op *op = recv->op;

		if (recv->tag != packet->tag || recv->from != packet->from || recv->from_life != packet->from_life)
			continue;
		zipc_list_remove(entry);
		if (len)
			memcpy(recv->buf, packet->data, len);
		free(recv);
		fake_op_end(node, node->life, op, len < packet->len ? ZIPC_ERR_NET : 0, len);
		return;
	}
	node->stray++;
}

static void fake_deliver(struct fake_world *world, struct fake_packet *packet)
{
	struct fake_node *from = &world->node[packet->from], *to = &world->node[packet->to];
	bool there = to->engine && to->life == packet->to_life;
	unsigned life = packet->from_life;

	if (to->puppet && packet->kind <= FAKE_MAIN) {
		if (packet->kind != FAKE_BULK || !to->stuck)
			fake_op_end(from, life, packet->op, 0, 0);
		zipc_list_append(&to->heard, &packet->link);
		return;
	}
	switch (packet->kind) {
	case FAKE_MAIN:
		if (to->engine) {
			fake_arrive_main(to, packet);
			return;
		}
		break;
	case FAKE_CONTROL:
		if (there)
			zipc_engine_control(to->engine, packet->data, packet->len);
		fake_op_end(from, life, packet->op, there ? 0 : ZIPC_ERR_NET, 0);
		break;
	case FAKE_BULK:
		if (there)
			fake_arrive_bulk(to, packet);
		fake_op_end(from, life, packet->op, there ? 0 : ZIPC_ERR_NET, 0);
		break;
	case FAKE_DONE:
		fake_op_end(from, life, packet->op, packet->status, packet->len);
		break;
	case FAKE_COMMIT:
		if (from->engine && from->life == life && packet->send)
			zipc_send_commit(packet->send);
		else if (from->engine && from->life == life)
			zipc_read_commit(packet->read);
		break;
	}
	fake_packet_free(packet);
}

static bool fake_same_way(const struct fake_world *world, const struct fake_packet *a, const struct fake_packet *b)
{
	bool companion = a->kind <= FAKE_BULK && b->kind <= FAKE_BULK && world->ordered;

	if (a->kind == FAKE_BULK && b->kind == FAKE_BULK && world->loose)
		return false;
	return (a->kind == b->kind || companion) && a->from == b->from && a->to == b->to && a->kind != FAKE_DONE;
}

/* A packet that none before it on the same way holds back. */
static struct fake_packet *fake_pick(struct fake_world *world)
{
	struct zipc_list *entry = world->packets.next, *first;
	uint32_t n = 0;

	for (; entry != &world->packets && n < 16; entry = entry->next)
		n++;
	if (!n)
		return NULL;
	for (entry = world->packets.next, n = fake_random(world, n); n; n--)
		entry = entry->next;
	for (first = world->packets.next; first != entry; first = first->next)
		if (fake_same_way(world, zipc_container(first, struct fake_packet, link),
				  zipc_container(entry, struct fake_packet, link)))
			break;
	zipc_list_remove(first);
	return zipc_container(first, struct fake_packet, link);
}

bool fake_step(struct fake_world *world)
{
	struct fake_packet *packet = fake_random(world, 3) ? fake_pick(world) : NULL;
	bool work = packet != NULL;
	int i;

	if (packet) {
		fake_deliver(world, packet);
		return true;
	}
	for (i = 0; i < FAKE_NODES; i++)
		if (world->node[i].engine)
			work |= zipc_engine_progress(world->node[i].engine);
	return work || !zipc_list_empty(&world->packets);
}

void fake_run(struct fake_world *world)
{
	/* A peer that is AGAIN for ever leaves work for ever: that is for the caller to judge. */
	unsigned steps, quiet = 0, enough = world->again ? 200 : 20, most = world->dead_again ? 5000 : FAKE_STEPS;

	for (steps = 0; quiet < enough && steps < most; steps++)
		quiet = fake_step(world) ? 0 : quiet + 1;
	FAKE_CHECK(steps < most || world->dead_again);
}
