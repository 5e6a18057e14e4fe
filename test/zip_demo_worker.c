/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain libfabric program: FI_EP_RDM, tagged messages. Which stack it runs over is decided by FI_PROVIDER alone.
 */
#include "zip_demo.h"
#include "zipt_util.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define WINDOW 64  /* operations in flight */

struct worker {
	const struct demo_options *options;
	const struct demo_data *data;
	enum demo_role role;
	int channel;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;               /* of `bytes`, where the provider wants local registration */
	void *desc;
	fi_addr_t peer;
	uint8_t *bytes;                  /* sender: the data; receiver: where it arrives (owned) */
	size_t total;
	struct fi_context2 contexts[WINDOW];
	uint8_t busy[WINDOW];            /* contexts[i] belongs to an operation in flight */
	uint64_t done;                   /* completions of this round */
};

static int send_packet(struct worker *w, const struct demo_packet *packet)
{
	return send(w->channel, packet, sizeof(*packet), MSG_NOSIGNAL) == (ssize_t)sizeof(*packet) ? 0 : -1;
}

/* Tell the coordinator what went wrong; it prints it. */
__attribute__((format(printf, 2, 3)))
static int fail(struct worker *w, const char *format, ...)
{
	struct demo_packet packet = { .verb = DEMO_FAILED };
	va_list args;

	va_start(args, format);
	vsnprintf(packet.text, sizeof(packet.text), format, args);
	va_end(args);
	send_packet(w, &packet);
	return -1;
}

static int fail_fi(struct worker *w, const char *call, ssize_t error)
{
	return fail(w, "%s: %s", call, fi_strerror((int)-error));
}

static struct fi_info *hints_alloc(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->av_type = FI_AV_TABLE;
	return hints;
}

static int find_provider(struct worker *w)
{
	struct fi_info *hints = hints_alloc();
	const char *node = w->options->address[w->role];
	int rc;

	if (!hints)
		return fail(w, "out of memory");
	rc = fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &w->info);
	fi_freeinfo(hints);
	if (rc)
		return fail(w, "fi_getinfo with FI_PROVIDER=\"%s\": %s", getenv("FI_PROVIDER"), fi_strerror(-rc));
	return 0;
}

static int open_endpoint(struct worker *w)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 2 };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE, .size = 2 * WINDOW };
	int rc;

	if ((rc = fi_fabric(w->info->fabric_attr, &w->fabric, NULL)))
		return fail_fi(w, "fi_fabric", rc);
	if ((rc = fi_domain(w->fabric, w->info, &w->domain, NULL)))
		return fail_fi(w, "fi_domain", rc);
	if ((rc = fi_av_open(w->domain, &av_attr, &w->av, NULL)))
		return fail_fi(w, "fi_av_open", rc);
	if ((rc = fi_cq_open(w->domain, &cq_attr, &w->cq, NULL)))
		return fail_fi(w, "fi_cq_open", rc);
	if ((rc = fi_endpoint(w->domain, w->info, &w->ep, NULL)))
		return fail_fi(w, "fi_endpoint", rc);
	if ((rc = fi_ep_bind(w->ep, &w->av->fid, 0)))
		return fail_fi(w, "fi_ep_bind(av)", rc);
	if ((rc = fi_ep_bind(w->ep, &w->cq->fid, FI_TRANSMIT | FI_RECV)))
		return fail_fi(w, "fi_ep_bind(cq)", rc);
	if ((rc = fi_enable(w->ep)))
		return fail_fi(w, "fi_enable", rc);
	return 0;
}

static int prepare_buffer(struct worker *w)
{
	int rc;

	w->total = w->data->size * w->data->count;
	if (w->role == DEMO_SENDER) {
		w->bytes = w->data->bytes;
	} else if (!(w->bytes = malloc(w->total))) {
		return fail(w, "out of memory for %zu bytes", w->total);
	}
	if (!(w->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return 0;
	rc = fi_mr_reg(w->domain, w->bytes, w->total, FI_SEND | FI_RECV, 0, 1, 0, &w->mr, NULL);
	if (rc)
		return fail_fi(w, "fi_mr_reg", rc);
	w->desc = fi_mr_desc(w->mr);
	return 0;
}

static void close_fid(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

static void worker_close(struct worker *w)
{
	close_fid(w->ep ? &w->ep->fid : NULL);
	close_fid(w->mr ? &w->mr->fid : NULL);
	close_fid(w->cq ? &w->cq->fid : NULL);
	close_fid(w->av ? &w->av->fid : NULL);
	close_fid(w->domain ? &w->domain->fid : NULL);
	close_fid(w->fabric ? &w->fabric->fid : NULL);
	if (w->info)
		fi_freeinfo(w->info);
	if (w->role == DEMO_RECEIVER)
		free(w->bytes);
}

/* Read completions; 0 or -1. */
static int progress(struct worker *w)
{
	struct fi_cq_tagged_entry entries[16];
	struct fi_cq_err_entry error = { 0 };
	ssize_t n = fi_cq_read(w->cq, entries, 16);

	if (n == -FI_EAGAIN) {
		sched_yield();
		return 0;
	}
	if (n == -FI_EAVAIL) {
		fi_cq_readerr(w->cq, &error, 0);
		return fail(w, "completion with an error: %s", fi_strerror(error.err));
	}
	if (n < 0)
		return fail_fi(w, "fi_cq_read", n);
	for (ssize_t i = 0; i < n; i++) {
		w->busy[(struct fi_context2 *)entries[i].op_context - w->contexts] = 0;
		w->done++;
	}
	return 0;
}

static int post(struct worker *w, uint64_t index, size_t size)
{
	void *buf = w->bytes + index * size;
	int slot = 0;
	ssize_t rc;

	while (w->busy[slot])
		slot++;
	w->busy[slot] = 1;
	for (;;) {
		if (w->role == DEMO_SENDER)
			rc = fi_tsend(w->ep, buf, size, w->desc, w->peer, index, &w->contexts[slot]);
		else
			rc = fi_trecv(w->ep, buf, size, w->desc, w->peer, index, 0, &w->contexts[slot]);
		if (rc != -FI_EAGAIN)
			break;
		if (progress(w))
			return -1;
	}
	return rc ? fail_fi(w, w->role == DEMO_SENDER ? "fi_tsend" : "fi_trecv", rc) : 0;
}

static uint64_t count_wrong(const struct worker *w, uint64_t count, size_t size)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < count; i++)
		wrong += memcmp(w->bytes + i * size, w->data->bytes + i * size, size) != 0;
	return wrong;
}

/* Bytes that went through the sender's network device in both directions, from the counters of this namespace. */
static uint64_t wire_bytes(const struct worker *w)
{
	const char *device = w->options->device;
	uint64_t received, sent, total = 0;
	char line[512], name[64];
	FILE *file = fopen("/proc/self/net/dev", "r");

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %63[^:]: %" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, name, &received, &sent) == 3 &&
		    !strcmp(name, device)) {
			/* on the loopback device every byte is sent and received once */
			total = strcmp(device, "lo") ? sent + received : sent;
			break;
		}
	}
	fclose(file);
	return total;
}

/* Go on driving the endpoint until the coordinator speaks: the peer may still need us. */
static int wait_for_end(struct worker *w, struct demo_packet *packet)
{
	for (;;) {
		ssize_t n = recv(w->channel, packet, sizeof(*packet), MSG_DONTWAIT);

		if (n == (ssize_t)sizeof(*packet))
			return 0;
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return -1;
		if (progress(w))
			return -1;
	}
}

static int round_run(struct worker *w, uint64_t count, size_t size)
{
	struct demo_packet packet = { .verb = DEMO_READY };
	uint64_t posted = 0, before = 0, start;
	int ready = 0;

	w->done = 0;
	if (w->role == DEMO_RECEIVER) {
		memset(w->bytes, 0xa5, count * size);  /* what an earlier round left must not pass for received */
	} else {
		before = wire_bytes(w);
	}
	start = zipt_now_ns();
	while (w->done < count) {
		while (posted < count && posted - w->done < WINDOW) {
			if (post(w, posted, size))
				return -1;
			posted++;
		}
		if (!ready && w->role == DEMO_RECEIVER && send_packet(w, &packet))
			return -1;
		ready = 1;
		if (progress(w))
			return -1;
	}
	packet = (struct demo_packet){ .verb = DEMO_DONE };
	packet.time_ns = w->role == DEMO_SENDER ? start : zipt_now_ns();
	if (w->role == DEMO_RECEIVER)
		packet.wrong = count_wrong(w, count, size);
	if (send_packet(w, &packet) || wait_for_end(w, &packet))
		return -1;
	if (w->role == DEMO_SENDER) {
		packet = (struct demo_packet){ .verb = DEMO_COUNTED, .wire_bytes = wire_bytes(w) - before };
		return send_packet(w, &packet);
	}
	return 0;
}

static int say_hello(struct worker *w)
{
	struct demo_packet packet = { .verb = DEMO_HELLO };
	size_t size = sizeof(packet.address);
	int rc = fi_getname(&w->ep->fid, packet.address, &size);

	if (rc)
		return fail_fi(w, "fi_getname", rc);
	packet.address_size = (uint32_t)size;
	snprintf(packet.text, sizeof(packet.text), "%s", w->info->fabric_attr->prov_name);
	return send_packet(w, &packet);
}

static int meet_peer(struct worker *w, const struct demo_packet *peer)
{
	struct demo_packet packet = { .verb = DEMO_READY };

	if (fi_av_insert(w->av, peer->address, 1, &w->peer, 0, NULL) != 1)
		return fail(w, "fi_av_insert refused the peer's address");
	return send_packet(w, &packet);
}

static int serve(struct worker *w)
{
	struct demo_packet packet;
	int rc = 0;

	while (!rc) {
		/* Between rounds the other stack runs: sleep here, do not poll. */
		if (recv(w->channel, &packet, sizeof(packet), 0) != (ssize_t)sizeof(packet))
			return -1;
		switch (packet.verb) {
		case DEMO_PEER:
			rc = meet_peer(w, &packet);
			break;
		case DEMO_ROUND:
			rc = round_run(w, packet.count, packet.size);
			break;
		case DEMO_QUIT:
			return 0;
		default:
			rc = fail(w, "unexpected packet %d", (int)packet.verb);
		}
	}
	return rc;
}

int demo_worker_run(const struct demo_options *options, enum demo_role role, const struct demo_data *data, int channel)
{
	struct worker w = { .options = options, .data = data, .role = role, .channel = channel };
	int rc = 1;

	if (!find_provider(&w) && !open_endpoint(&w) && !prepare_buffer(&w) && !say_hello(&w) && !serve(&w))
		rc = 0;
	worker_close(&w);
	return rc;
}
