/* SPDX-License-Identifier: BSD-3-Clause */
/* The application of a node: what it posts, what its endpoint makes of that, and what its engine tells it. */
#include <string.h>

#include "fake_priv.h"

/* ---- what the engine reports */

static void fake_send_done(void *ctx, void *cookie, int status)
{
	struct fake_msg *msg = cookie;

	(void)ctx;
	FAKE_CHECK(!msg->done);
	msg->done = 1;
	msg->status = status;
}

static void fake_recv_done(void *ctx, void *cookie, int status, size_t kept, size_t nbytes)
{
	struct fake_msg *msg = cookie;

	fake_send_done(ctx, cookie, status);
	msg->kept = kept;
	msg->nbytes = nbytes;
}

static void fake_log(void *ctx, enum zipc_log_level level, const char *text)
{
	struct fake_node *node = ctx;

	if (getenv("FAKE_VERBOSE"))
		fprintf(stderr, "node %d: %s\n", (int)(node - node->world->node), text);
	if (level != ZIPC_LOG_WARN)
		return;
	node->logs++;
	snprintf(node->last_log, sizeof(node->last_log), "%s", text);
}

static int fake_rma_open(void *ctx, struct zipc_peer *peer, int write, const struct zipc_rma_seg *segs, size_t nsegs,
			 struct iovec *iov, size_t *niov, void **target)
{
	struct fake_node *node = ctx;
	struct fake_region *region = NULL;
	size_t i, total = 0;

	(void)peer;
	FAKE_CHECK(nsegs && nsegs <= ZIPC_RMA_SEGS && *niov >= nsegs);
	for (i = 0; i < nsegs; total += segs[i++].len)
		FAKE_CHECK(segs[i].len <= SIZE_MAX - total && segs[i].addr <= UINT64_MAX - segs[i].len);
	for (i = nsegs; i-- > 0;) {
		region = segs[i].key && segs[i].key <= FAKE_REGIONS ? &node->region[segs[i].key - 1] : NULL;
		if (!region || !region->base)
			return ZIPC_ERR_KEY;
		if (write ? !region->write : !region->read)
			return ZIPC_ERR_ACCES;
		if (segs[i].addr < (uintptr_t)region->base || segs[i].len > region->len ||
		    segs[i].addr - (uintptr_t)region->base > region->len - segs[i].len)
			return ZIPC_ERR_INVAL;
		iov[i] = (struct iovec){(void *)(uintptr_t)segs[i].addr, segs[i].len};
	}
	*niov = nsegs;
	*target = region;
	region->opened++;
	return 0;
}

static void fake_rma_done(void *ctx, void *target, int status, uint64_t data, unsigned flags, size_t nbytes)
{
	struct fake_region *region = target;

	(void)ctx;
	FAKE_CHECK(region->done < region->opened);
	region->done++;
	region->status = status;
	region->data = data;
	region->flags = flags;
	region->nbytes = nbytes;
}

const struct zipc_engine_cb fake_cb = {
	.send_done = fake_send_done,
	.recv_done = fake_recv_done,
	.rma_open = fake_rma_open,
	.rma_done = fake_rma_done,
	.log = fake_log,
};

const struct zipc_engine_cb fake_cb_no_rma = {
	.send_done = fake_send_done,
	.recv_done = fake_recv_done,
	.log = fake_log,
};

/* ---- the application's endpoint */

bool fake_sendv(struct fake_world *world, int from, int to, const struct iovec *iov, size_t niov, uint64_t tag, unsigned flags,
		struct fake_msg *msg)
{
	const void *buf = iov->iov_base;
	struct zipc_placeholder_v1 ph;
	struct fake_packet *packet;
	struct zipc_accel *accel = fake_is_device(buf) ? world->node[from].accel : NULL;
	struct zipc_send *send;
	size_t i, len = 0;
	int ret;

	memset(msg, 0, sizeof(*msg));
	for (i = 0; i < niov; i++)
		len += iov[i].iov_len;
	ret = zipc_send_begin_on(world->node[from].engine, accel, fake_peer(world, from, to), iov, niov, len, tag, flags, msg, &send, &ph);
	FAKE_CHECK(niov == 1 || ret <= 0);
	if (ret < 0) {
		FAKE_CHECK(ret == ZIPC_ERR_AGAIN);
		return false;
	}
	packet = fake_packet_new(world, FAKE_MAIN, from, to, ret ? fake_host(buf) : (const void *)&ph, ret ? len : sizeof(ph));
	packet->tag = tag;
	if (ret) {
		msg->done = 1;
		zipc_engine_count_raw(world->node[from].engine, fake_peer(world, from, to), (enum zipc_raw_reason)(ret - 1), len);
	} else if (world->late_commit) {
		packet = fake_packet_new(world, FAKE_COMMIT, from, from, NULL, 0);
		packet->send = send;
	} else {
		zipc_send_commit(send);
	}
	return true;
}

int fake_write(struct fake_world *world, int from, int to, const struct iovec *iov, size_t niov, const struct zipc_rma_seg *segs,
	       size_t nsegs, uint64_t data, unsigned flags, struct fake_msg *msg)
{
	struct zipc_send *send;
	int ret;

	memset(msg, 0, sizeof(*msg));
	ret = zipc_write_begin(world->node[from].engine, fake_peer(world, from, to), iov, niov, segs, nsegs, data, flags, msg, &send);
	if (!ret && world->late_commit)
		fake_packet_new(world, FAKE_COMMIT, from, from, NULL, 0)->send = send;
	else if (!ret)
		zipc_send_commit(send);
	return ret;
}

int fake_read(struct fake_world *world, int from, int to, const struct iovec *iov, size_t niov, const struct zipc_rma_seg *segs,
	      size_t nsegs, struct fake_msg *msg)
{
	struct zipc_recv *recv;
	int ret;

	memset(msg, 0, sizeof(*msg));
	ret = zipc_read_begin(world->node[from].engine, fake_peer(world, from, to), iov, niov, segs, nsegs, 0, msg, &recv);
	if (!ret && world->late_commit)
		fake_packet_new(world, FAKE_COMMIT, from, from, NULL, 0)->read = recv;
	else if (!ret)
		zipc_read_commit(recv);
	return ret;
}

static void fake_plain(const struct fake_packet *packet, struct fake_msg *msg)
{
	size_t i, at = 0, n;

	for (i = 0; i < msg->niov && at < packet->len; i++, at += n) {
		n = msg->iov[i].iov_len < packet->len - at ? msg->iov[i].iov_len : packet->len - at;
		memcpy(fake_host(msg->iov[i].iov_base), packet->data + at, n);
	}
	msg->done = 1;
	msg->kept = at;
	msg->nbytes = packet->len;
	msg->status = at < packet->len ? ZIPC_ERR_TRUNC : 0;
}

/* A message meets a receive. Frees the packet. */
void fake_match(struct fake_node *node, struct fake_packet *packet, struct fake_msg *msg)
{
	int ret;

	if (!zipc_is_placeholder(node->engine, packet->data, packet->len)) {
		fake_plain(packet, msg);
	} else {
		ret = zipc_recv_match_on(node->engine, fake_is_device(msg->iov[0].iov_base) ? node->accel : NULL, packet->data,
					 msg->iov, msg->niov, msg);
		if (ret)
			fake_recv_done(node, msg, ret, 0, 0);
	}
	fake_packet_free(packet);
}

bool fake_fits(const struct fake_packet *packet, const struct fake_msg *msg)
{
	return packet->tag == msg->tag && (msg->from < 0 || msg->from == packet->from);
}

bool fake_send(struct fake_world *world, int from, int to, const void *buf, size_t len, uint64_t tag, unsigned flags,
	       struct fake_msg *msg)
{
	const struct iovec iov = {(void *)(uintptr_t)buf, len};

	return fake_sendv(world, from, to, &iov, 1, tag, flags, msg);
}

void fake_recvv(struct fake_world *world, int n, int from, const struct iovec *iov, size_t niov, uint64_t tag, struct fake_msg *msg)
{
	struct fake_node *node = &world->node[n];
	struct zipc_list *entry;

	memset(msg, 0, sizeof(*msg));
	msg->from = from;
	msg->tag = tag;
	memcpy(msg->iov, iov, niov * sizeof(*iov));
	msg->niov = niov;
	for (entry = node->unexpected.next; entry != &node->unexpected; entry = entry->next) {
		struct fake_packet *packet = zipc_container(entry, struct fake_packet, link);

		if (!fake_fits(packet, msg))
			continue;
		zipc_list_remove(entry);
		fake_match(node, packet, msg);
		return;
	}
	zipc_list_append(&node->posted, &msg->link);
}

void fake_recv(struct fake_world *world, int node, int from, void *buf, size_t len, uint64_t tag, struct fake_msg *msg)
{
	const struct iovec iov = {buf, len};

	fake_recvv(world, node, from, &iov, 1, tag, msg);
}

struct fake_packet *fake_take(struct fake_world *world, int n, uint64_t tag)
{
	struct fake_node *node = &world->node[n];
	struct zipc_list *entry;

	for (entry = node->unexpected.next; entry != &node->unexpected; entry = entry->next) {
		struct fake_packet *packet = zipc_container(entry, struct fake_packet, link);

		if (packet->tag != tag)
			continue;
		zipc_list_remove(entry);
		return packet;
	}
	return NULL;
}

void fake_inject(struct fake_world *world, enum fake_kind kind, int from, int to, uint64_t tag, const void *data, size_t len)
{
	fake_packet_new(world, kind, from, to, data, len)->tag = tag;
}

struct fake_packet *fake_heard(struct fake_world *world, int n, unsigned type)
{
	struct zipc_list *head = &world->node[n].heard, *entry;

	for (entry = head->next; entry != head; entry = entry->next) {
		struct fake_packet *packet = zipc_container(entry, struct fake_packet, link);

		if (packet->kind != FAKE_CONTROL || packet->data[3] != type)
			continue;
		zipc_list_remove(entry);
		return packet;
	}
	return NULL;
}

struct fake_bulk_recv *fake_bulk_waiting(struct fake_world *world, int n)
{
	struct zipc_list *head = &world->node[n].bulk;

	return zipc_list_empty(head) ? NULL : zipc_container(head->next, struct fake_bulk_recv, link);
}
