/* SPDX-License-Identifier: BSD-3-Clause */
/* The door to libfabric: FI_EP_RDM endpoints of two stacks in one process. Which stack, the provider's name alone decides. */
#include "zip_perf.h"
#include "fi_ext_zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define END_TAG ((uint64_t)1 << 40) /* above all numbers of messages */
#define MR_MODE (FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT)

struct region {
	uint8_t *base;
	size_t bytes;
	struct fid_mr *mr;
	void *desc;
};

struct ofi {
	const struct perf_plan *plan;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct region tx, rx, end;
	fi_addr_t peer;
	uint64_t peer_rx_base, peer_rx_key, peer_tx_base, peer_tx_key;
	struct fi_zip_ops *zip;
	int tagged;                  /* ends of rounds have a tag */
	uint8_t end_bytes[2][64];    /* sent, received */
};

static int fail_fi(const char *call, long error)
{
	perf_fail("%s: %s", call, fi_strerror((int)-error));
	return -1;
}

static uint64_t caps_of(uint32_t op)
{
	switch (op) {
	case PERF_TAGGED: return FI_TAGGED;
	case PERF_MSG: return FI_MSG;
	default: return FI_RMA | FI_TAGGED;
	}
}

/* Addresses of these providers are those of an IP interface. */
static int wants_ip(const char *provider)
{
	static const char *const names[] = { "tcp", "udp", "sockets", "verbs", "net" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(provider, names[i], strlen(names[i])))
			return 1;
	return 0;
}

static struct fi_info *hints_make(const struct perf_plan *plan, enum perf_stack stack)
{
	struct fi_info *hints = fi_allocinfo();
	char name[96];

	if (!hints)
		return NULL;
	snprintf(name, sizeof(name), "%s%s", plan->provider, stack == PERF_ZIP ? ";ofi_zip" : "");
	hints->fabric_attr->prov_name = strdup(name);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps_of(plan->op);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = MR_MODE;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	return hints;
}

static int find_provider(struct ofi *o, enum perf_stack stack, const char *address)
{
	struct fi_info *hints = hints_make(o->plan, stack);
	const char *node = address[0] && wants_ip(o->plan->provider) ? address : NULL;
	int rc;

	if (!hints)
		return fail_fi("fi_allocinfo", -FI_ENOMEM);
	rc = fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &o->info);
	if (rc == -FI_ENODATA && stack == PERF_ZIP)
		perf_fail("no provider \"%s\": libzip-fi.so was not found, or does not stack on %s. Install it where libfabric "
			  "looks, or set FI_PROVIDER_PATH to its directory; `fi_info -p '%s'` shows whether it is found",
			  hints->fabric_attr->prov_name, o->plan->provider, hints->fabric_attr->prov_name);
	else if (rc == -FI_ENODATA)
		perf_fail("no provider \"%s\" for --op %s; `fi_info` lists what there is, --provider chooses", o->plan->provider,
			  perf_op_names[o->plan->op]);
	else if (rc)
		fail_fi("fi_getinfo", rc);
	fi_freeinfo(hints);
	return rc ? -1 : 0;
}

static int open_objects(struct ofi *o)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 2 };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE, .size = 4 * PERF_WINDOW_MAX };
	int rc;

	if ((rc = fi_fabric(o->info->fabric_attr, &o->fabric, NULL)))
		return fail_fi("fi_fabric", rc);
	if ((rc = fi_domain(o->fabric, o->info, &o->domain, NULL)))
		return fail_fi("fi_domain", rc);
	if ((rc = fi_av_open(o->domain, &av_attr, &o->av, NULL)))
		return fail_fi("fi_av_open", rc);
	if ((rc = fi_cq_open(o->domain, &cq_attr, &o->cq, NULL)))
		return fail_fi("fi_cq_open", rc);
	if ((rc = fi_endpoint(o->domain, o->info, &o->ep, NULL)))
		return fail_fi("fi_endpoint", rc);
	if ((rc = fi_ep_bind(o->ep, &o->av->fid, 0)) || (rc = fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV)))
		return fail_fi("fi_ep_bind", rc);
	if ((rc = fi_enable(o->ep)))
		return fail_fi("fi_enable", rc);
	if (fi_open_ops(&o->ep->fid, FI_ZIP_OPS, 0, (void **)&o->zip, NULL))
		o->zip = NULL;
	return 0;
}

static int reg(struct ofi *o, struct region *region, void *base, size_t bytes, uint64_t access, uint64_t key)
{
	int rc;

	region->base = base;
	region->bytes = bytes;
	if (!bytes)
		return 0;
	rc = fi_mr_reg(o->domain, base, bytes, access, 0, key, 0, &region->mr, NULL);
	if (!rc && (o->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
		rc = fi_mr_bind(region->mr, &o->ep->fid, 0);
		if (!rc)
			rc = fi_mr_enable(region->mr);
	}
	if (rc)
		return fail_fi("fi_mr_reg", rc);
	region->desc = fi_mr_desc(region->mr);
	return 0;
}

static int register_memory(struct ofi *o, const struct perf_memory *memory)
{
	int local = o->info->domain_attr->mr_mode & FI_MR_LOCAL ? 1 : 0, rma = o->info->caps & FI_RMA ? 1 : 0;
	uint64_t remote_tx = rma ? FI_REMOTE_READ | FI_WRITE : 0, remote_rx = rma ? FI_REMOTE_WRITE | FI_READ : 0;

	if (!local && !rma) {
		o->tx.base = memory->tx;
		o->rx.base = memory->rx;
		return 0;
	}
	if (reg(o, &o->tx, memory->tx, memory->tx_bytes, FI_SEND | remote_tx, 1) ||
	    reg(o, &o->rx, memory->rx, memory->rx_bytes, FI_RECV | remote_rx, 2))
		return -1;
	return local ? reg(o, &o->end, o->end_bytes, sizeof(o->end_bytes), FI_SEND | FI_RECV, 3) : 0;
}

static void close_fid(struct fid *fid)
{
	if (fid)
		fi_close(fid);
}

static void ofi_close(void *door)
{
	struct ofi *o = door;

	close_fid(o->ep ? &o->ep->fid : NULL);
	close_fid(o->tx.mr ? &o->tx.mr->fid : NULL);
	close_fid(o->rx.mr ? &o->rx.mr->fid : NULL);
	close_fid(o->end.mr ? &o->end.mr->fid : NULL);
	close_fid(o->cq ? &o->cq->fid : NULL);
	close_fid(o->av ? &o->av->fid : NULL);
	close_fid(o->domain ? &o->domain->fid : NULL);
	close_fid(o->fabric ? &o->fabric->fid : NULL);
	if (o->info)
		fi_freeinfo(o->info);
	free(o);
}

static int ofi_open(const struct perf_plan *plan, enum perf_stack stack, const char *address, const struct perf_memory *memory,
		    void **door)
{
	struct ofi *o = calloc(1, sizeof(*o));

	if (!o)
		return fail_fi("calloc", -FI_ENOMEM);
	o->plan = plan;
	o->tagged = plan->op != PERF_MSG;
	if (find_provider(o, stack, address) || open_objects(o) || register_memory(o, memory)) {
		ofi_close(o);
		return -1;
	}
	*door = o;
	return 0;
}

static void region_card(const struct ofi *o, const struct region *region, uint64_t *base, uint8_t *key, uint32_t *key_len)
{
	uint64_t value = region->mr ? fi_mr_key(region->mr) : 0;

	*base = o->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)region->base : 0;
	memcpy(key, &value, sizeof(value));
	*key_len = sizeof(value);
}

static int ofi_card(void *door, struct perf_card *card)
{
	struct ofi *o = door;
	size_t len = sizeof(card->address);
	int rc = fi_getname(&o->ep->fid, card->address, &len);

	if (rc)
		return fail_fi("fi_getname", rc);
	card->address_len = (uint32_t)len;
	region_card(o, &o->rx, &card->rx_base, card->rx_key, &card->rx_key_len);
	region_card(o, &o->tx, &card->tx_base, card->tx_key, &card->tx_key_len);
	snprintf(card->name, sizeof(card->name), "%s", o->info->fabric_attr->prov_name);
	return 0;
}

static int ofi_meet(void *door, const struct perf_card *peer)
{
	struct ofi *o = door;

	if (peer->address_len > sizeof(peer->address) || peer->rx_key_len != sizeof(o->peer_rx_key) ||
	    peer->tx_key_len != sizeof(o->peer_tx_key) || fi_av_insert(o->av, peer->address, 1, &o->peer, 0, NULL) != 1) {
		perf_fail("fi_av_insert refused the address of the other side: the same --provider is needed on both");
		return -1;
	}
	memcpy(&o->peer_rx_key, peer->rx_key, sizeof(o->peer_rx_key));
	memcpy(&o->peer_tx_key, peer->tx_key, sizeof(o->peer_tx_key));
	o->peer_rx_base = peer->rx_base;
	o->peer_tx_base = peer->tx_base;
	return 0;
}

static ssize_t end_send(struct ofi *o, void *context)
{
	if (o->tagged)
		return fi_tsend(o->ep, o->end_bytes[0], 8, o->end.desc, o->peer, END_TAG, context);
	return fi_send(o->ep, o->end_bytes[0], 8, o->end.desc, o->peer, context);
}

static ssize_t end_recv(struct ofi *o, void *context)
{
	if (o->tagged)
		return fi_trecv(o->ep, o->end_bytes[1], 8, o->end.desc, o->peer, END_TAG, 0, context);
	return fi_recv(o->ep, o->end_bytes[1], 8, o->end.desc, FI_ADDR_UNSPEC, context);
}

static ssize_t post_message(struct ofi *o, const struct perf_post *p)
{
	void *from = o->tx.base + p->offset, *to = o->rx.base + p->offset;

	if (p->kind == PERF_SEND && o->tagged)
		return fi_tsend(o->ep, from, p->len, o->tx.desc, o->peer, p->number, p->work);
	if (p->kind == PERF_SEND)
		return fi_send(o->ep, from, p->len, o->tx.desc, o->peer, p->work);
	if (o->tagged)
		return fi_trecv(o->ep, to, p->len, o->rx.desc, o->peer, p->number, 0, p->work);
	return fi_recv(o->ep, to, p->len, o->rx.desc, FI_ADDR_UNSPEC, p->work);
}

static int ofi_post(void *door, const struct perf_post *p)
{
	struct ofi *o = door;
	uint64_t to = o->peer_rx_base + p->remote_offset;
	ssize_t rc;

	switch (p->kind) {
	case PERF_PUT:
		rc = fi_write(o->ep, o->tx.base + p->offset, p->len, o->tx.desc, o->peer, to, o->peer_rx_key, p->work);
		break;
	case PERF_PUT_DATA:
		rc = fi_writedata(o->ep, o->tx.base + p->offset, p->len, o->tx.desc, (uint32_t)p->number, o->peer, to,
				  o->peer_rx_key, p->work);
		break;
	case PERF_GET:
		rc = fi_read(o->ep, o->rx.base + p->offset, p->len, o->rx.desc, o->peer, o->peer_tx_base + p->remote_offset,
			     o->peer_tx_key, p->work);
		break;
	case PERF_END_SEND:
		rc = end_send(o, p->work);
		break;
	case PERF_END_RECV:
		rc = end_recv(o, p->work);
		break;
	default:
		rc = post_message(o, p);
		break;
	}
	if (rc == -FI_EAGAIN)
		return 1;
	return rc ? fail_fi(p->kind == PERF_RECV ? "posting a receive" : "posting an operation", rc) : 0;
}

static int ofi_poll(void *door, struct perf_events *events)
{
	struct ofi *o = door;
	struct fi_cq_data_entry entries[16];
	struct fi_cq_err_entry error = { 0 };
	ssize_t n = fi_cq_read(o->cq, entries, 16);

	if (n == -FI_EAGAIN)
		return 0;
	if (n == -FI_EAVAIL) {
		fi_cq_readerr(o->cq, &error, 0);
		perf_fail("%s: completion with an error: %s", o->info->fabric_attr->prov_name, fi_strerror(error.err));
		return -1;
	}
	if (n < 0)
		return fail_fi("fi_cq_read", n);
	for (ssize_t i = 0; i < n; i++)
		if (entries[i].flags & FI_REMOTE_CQ_DATA)
			events->arrived++;
		else
			perf_work_done(entries[i].op_context, events);
	return (int)n;
}

static int ofi_stats(void *door, struct perf_stats *stats)
{
	struct ofi *o = door;
	struct fi_zip_stats s = { 0 };

	*stats = (struct perf_stats){ 0 };
	if (!o->zip || o->zip->read_stats(&o->ep->fid, &s, sizeof(s)))
		return -1;
	*stats = (struct perf_stats){
		.transfers = s.send_transfers, .bytes = s.send_bytes, .wire_bytes = s.send_wire_bytes,
		.raw = { s.raw_peer, s.raw_data, s.raw_off, s.raw_slow }, .peers_ready = s.peers_ready,
		.sample_ns = s.sample_ns, .encode_ns = s.encode_ns, .wire_ns = s.wire_ns, .decode_ns = s.decode_ns,
	};
	return 0;
}

const struct perf_door_ops perf_ofi_ops = {
	.name = "ofi",
	.open = ofi_open,
	.card = ofi_card,
	.meet = ofi_meet,
	.post = ofi_post,
	.poll = ofi_poll,
	.stats = ofi_stats,
	.close = ofi_close,
};
