/* SPDX-License-Identifier: BSD-3-Clause */
/* What the loader sees: settings, fi_getinfo. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zlink.h"

#define ZLINK_CAPS_TX (FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_HMEM)
#define ZLINK_CAPS_RX                                                                                                \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_DIRECTED_RECV | FI_SOURCE |   \
	 FI_MULTI_RECV | FI_RMA_EVENT | FI_HMEM)
#define ZLINK_CAPS (ZLINK_CAPS_TX | ZLINK_CAPS_RX | FI_LOCAL_COMM)
#define ZLINK_OP_FLAGS_TX                                                                                            \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define ZLINK_OP_FLAGS_RX (FI_COMPLETION | FI_MULTI_RECV)
#define ZLINK_MR_ASKED (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define ZLINK_MR_OLD_BASIC 1 /* FI_MR_BASIC */
#define ZLINK_MAX_MSG (1ULL << 40)

struct zlink_param zlink_param;

/* ---- settings */

static void zlink_param_define(void)
{
	fi_param_define(&zlink_prov, "rate", FI_PARAM_STRING, "Line rate of each direction in GB/s; 0: as fast as it goes (default: 0)");
	fi_param_define(&zlink_prov, "latency", FI_PARAM_STRING, "One-way latency in microseconds (default: 8)");
	fi_param_define(&zlink_prov, "eager", FI_PARAM_SIZE_T, "Largest message that goes without rendezvous (default: 8192)");
	fi_param_define(&zlink_prov, "chunk", FI_PARAM_SIZE_T, "Largest piece that is copied at once (default: 1048576)");
	fi_param_define(&zlink_prov, "depth", FI_PARAM_SIZE_T, "Chunks of a link, at most 64 (default: 8)");
	fi_param_define(&zlink_prov, "cuda", FI_PARAM_STRING, "File name of CUDA's driver library (default: libcuda.so.1)");
	fi_param_define(&zlink_prov, "dir", FI_PARAM_STRING, "Folder for shared memory (default: /dev/shm)");
}

static int zlink_param_number(const char *name, double most, double *value)
{
	char *text, *end;

	if (fi_param_get(&zlink_prov, name, &text))
		return 0;
	*value = strtod(text, &end);
	if (end != text && !*end && *value >= 0 && *value <= most)
		return 0;
	ZLINK_WARN(CORE, "FI_ZLINK_%s=%s must be a number from 0 to %g\n", name, text, most);
	return -FI_EINVAL;
}

static int zlink_param_size(const char *name, size_t least, size_t most, size_t *value)
{
	if (fi_param_get(&zlink_prov, name, value) || (*value >= least && *value <= most))
		return 0;
	ZLINK_WARN(CORE, "FI_ZLINK_%s must be from %zu to %zu\n", name, least, most);
	return -FI_EINVAL;
}

int zlink_param_read(void)
{
	double rate = 0, latency = 8;
	struct zlink_param p = { .eager = 8192, .chunk = 1 << 20, .depth = 8, .cuda = "libcuda.so.1", .dir = "/dev/shm" };
	char *text;

	if (zlink_param_number("rate", 1e6, &rate) || zlink_param_number("latency", 1e6, &latency) ||
	    zlink_param_size("eager", 64, 1 << 16, &p.eager) || zlink_param_size("chunk", 4096, 1 << 28, &p.chunk) ||
	    zlink_param_size("depth", 1, ZLINK_DEPTH_MAX, &p.depth))
		return -FI_EINVAL;
	p.rate = rate; /* GB/s are bytes a nanosecond */
	p.latency_ns = (uint64_t)(latency * 1000);
	p.eager = (p.eager + 63) / 64 * 64;
	p.chunk = (p.chunk + 4095) / 4096 * 4096;
	if (!fi_param_get(&zlink_prov, "cuda", &text))
		p.cuda = text;
	if (!fi_param_get(&zlink_prov, "dir", &text))
		p.dir = text;
	zlink_param = p;
	return 0;
}

/* ---- what is offered */

static int zlink_fill_info(struct fi_info *info, bool cuda)
{
	uint64_t hmem = cuda ? 0 : FI_HMEM;

	info->caps = ZLINK_CAPS & ~hmem;
	info->addr_format = FI_ADDR_STR;
	*info->tx_attr = (struct fi_tx_attr){
		.caps = ZLINK_CAPS_TX & ~hmem, .msg_order = FI_ORDER_SAS, .inject_size = ZLINK_INJECT, .size = ZLINK_TX_SIZE,
		.iov_limit = ZLINK_IOV, .rma_iov_limit = ZLINK_RMA_IOV,
	};
	*info->rx_attr = (struct fi_rx_attr){
		.caps = ZLINK_CAPS_RX & ~hmem, .msg_order = FI_ORDER_SAS, .size = ZLINK_RX_SIZE, .iov_limit = ZLINK_IOV,
	};
	info->ep_attr->type = FI_EP_RDM;
	info->ep_attr->protocol = FI_PROTO_UNSPEC;
	info->ep_attr->protocol_version = 1;
	info->ep_attr->max_msg_size = ZLINK_MAX_MSG;
	info->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaaULL; /* all bits are one field */
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
	info->domain_attr->name = strdup(ZLINK_NAME);
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->control_progress = info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	info->domain_attr->resource_mgmt = FI_RM_ENABLED;
	info->domain_attr->av_type = FI_AV_UNSPEC;
	info->domain_attr->mr_key_size = info->domain_attr->cq_data_size = sizeof(uint64_t);
	info->domain_attr->cq_cnt = info->domain_attr->cntr_cnt = 1024;
	info->domain_attr->ep_cnt = ZLINK_EPS;
	info->domain_attr->tx_ctx_cnt = info->domain_attr->rx_ctx_cnt = ZLINK_EPS;
	info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
	info->domain_attr->mr_iov_limit = 1;
	info->domain_attr->mr_cnt = 65536;
	info->domain_attr->max_err_data = 0;
	info->domain_attr->caps = FI_LOCAL_COMM;
	info->fabric_attr->name = strdup(ZLINK_NAME);
	info->fabric_attr->prov_version = ZLINK_VERSION;
	return info->domain_attr->name && info->fabric_attr->name ? 0 : -FI_ENOMEM;
}

/* What of the roles is asked for, where none is said all are. */
static uint64_t zlink_narrow(uint64_t all, uint64_t asked)
{
	uint64_t roles = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, caps;

	if (!asked)
		return all & ~FI_HMEM;
	caps = asked & all;
	if (!(asked & roles & (FI_SEND | FI_RECV)) && asked & (FI_MSG | FI_TAGGED))
		caps |= all & (FI_SEND | FI_RECV);
	if (!(asked & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) && asked & FI_RMA)
		caps |= all & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
	return caps | (all & FI_LOCAL_COMM);
}

static bool zlink_check_tx(const struct fi_tx_attr *tx, const struct fi_info *info)
{
	return !(tx->caps & ~(info->tx_attr->caps | info->caps)) && !(tx->op_flags & ~ZLINK_OP_FLAGS_TX) &&
	       !(tx->msg_order & ~FI_ORDER_SAS) && tx->inject_size <= info->tx_attr->inject_size && tx->size <= info->tx_attr->size &&
	       tx->iov_limit <= ZLINK_IOV && tx->rma_iov_limit <= ZLINK_RMA_IOV;
}

static bool zlink_check_rx(const struct fi_rx_attr *rx, const struct fi_info *info)
{
	return !(rx->caps & ~(info->rx_attr->caps | info->caps)) && !(rx->op_flags & ~ZLINK_OP_FLAGS_RX) &&
	       !(rx->msg_order & ~FI_ORDER_SAS) && rx->size <= info->rx_attr->size && rx->iov_limit <= ZLINK_IOV;
}

static bool zlink_check_ep(const struct fi_ep_attr *ep)
{
	return (!ep->type || ep->type == FI_EP_RDM) && !ep->protocol && ep->max_msg_size <= ZLINK_MAX_MSG && ep->tx_ctx_cnt <= 1 &&
	       ep->rx_ctx_cnt <= 1 && !ep->auth_key_size;
}

static bool zlink_check_domain(const struct fi_domain_attr *domain, const struct fi_info *info)
{
	const struct fi_domain_attr *ours = info->domain_attr;

	return (!domain->name || !strcmp(domain->name, ours->name)) && domain->threading <= FI_THREAD_ENDPOINT &&
	       domain->control_progress != FI_PROGRESS_AUTO && domain->data_progress != FI_PROGRESS_AUTO &&
	       domain->resource_mgmt <= FI_RM_ENABLED && domain->av_type <= FI_AV_TABLE && domain->mr_key_size <= ours->mr_key_size &&
	       domain->cq_data_size <= ours->cq_data_size && domain->cq_cnt <= ours->cq_cnt && domain->ep_cnt <= ours->ep_cnt &&
	       domain->tx_ctx_cnt <= ours->tx_ctx_cnt && domain->rx_ctx_cnt <= ours->rx_ctx_cnt && domain->max_ep_tx_ctx <= 1 &&
	       domain->max_ep_rx_ctx <= 1 && domain->cntr_cnt <= ours->cntr_cnt && domain->mr_iov_limit <= 1 &&
	       !(domain->caps & ~FI_LOCAL_COMM) && !domain->auth_key_size && domain->max_err_data == 0 && domain->mr_cnt <= ours->mr_cnt;
}

static bool zlink_check_hints(const struct fi_info *hints, const struct fi_info *info)
{
	bool mr_hmem = hints->domain_attr && hints->domain_attr->mr_mode & FI_MR_HMEM;

	if (hints->caps & ~info->caps || (hints->addr_format && hints->addr_format != FI_ADDR_STR))
		return false;
	if (hints->caps & FI_HMEM && !mr_hmem)
		return false;
	return (!hints->tx_attr || zlink_check_tx(hints->tx_attr, info)) && (!hints->rx_attr || zlink_check_rx(hints->rx_attr, info)) &&
	       (!hints->ep_attr || zlink_check_ep(hints->ep_attr)) &&
	       (!hints->domain_attr || zlink_check_domain(hints->domain_attr, info)) &&
	       (!hints->fabric_attr || !hints->fabric_attr->name || !strcmp(hints->fabric_attr->name, ZLINK_NAME));
}

/* What the application asked for, and no more. */
static void zlink_take_hints(struct fi_info *info, const struct fi_info *hints)
{
	int mr_mode = hints->domain_attr ? hints->domain_attr->mr_mode : 0;

	info->caps = zlink_narrow(info->caps, hints->caps);
	info->tx_attr->caps &= info->caps;
	info->rx_attr->caps &= info->caps;
	if (hints->tx_attr) {
		info->tx_attr->op_flags = hints->tx_attr->op_flags;
		if (hints->tx_attr->caps)
			info->tx_attr->caps = hints->tx_attr->caps;
	}
	if (hints->rx_attr) {
		info->rx_attr->op_flags = hints->rx_attr->op_flags;
		if (hints->rx_attr->caps)
			info->rx_attr->caps = hints->rx_attr->caps;
	}
	if (hints->ep_attr && hints->ep_attr->mem_tag_format)
		info->ep_attr->mem_tag_format = hints->ep_attr->mem_tag_format;
	if (hints->domain_attr && hints->domain_attr->av_type)
		info->domain_attr->av_type = hints->domain_attr->av_type;
	if (hints->domain_attr && hints->domain_attr->threading)
		info->domain_attr->threading = hints->domain_attr->threading;
	if (mr_mode == ZLINK_MR_OLD_BASIC)
		info->domain_attr->mr_mode = ZLINK_MR_ASKED;
	else
		info->domain_attr->mr_mode = mr_mode & ZLINK_MR_ASKED;
	if (info->caps & FI_HMEM)
		info->domain_attr->mr_mode |= FI_MR_HMEM;
	info->handle = hints->handle;
}

/* "host:service" as a name that somebody else can make as well. */
static int zlink_make_name(const char *node, const char *service, void **addr, size_t *len)
{
	char *name;

	if (node && strstr(node, "://"))
		name = strdup(node);
	else if (asprintf(&name, "fi_ns://%s:%s", node ? node : "localhost", service) < 0)
		name = NULL;
	if (!name)
		return -FI_ENOMEM;
	*addr = name;
	*len = strlen(name) + 1;
	return 0;
}

static int zlink_copy_addr(const void *from, size_t from_len, void **addr, size_t *len)
{
	if (!from || !from_len)
		return 0;
	*addr = calloc(1, from_len + 1);
	if (!*addr)
		return -FI_ENOMEM;
	memcpy(*addr, from, from_len);
	*len = strlen(*addr) + 1;
	return 0;
}

static bool zlink_host_exists(const char *node)
{
	struct addrinfo *found;

	if (!node || strstr(node, "://"))
		return true;
	if (getaddrinfo(node, NULL, NULL, &found))
		return false;
	freeaddrinfo(found);
	return true;
}

/* A node without a service names this host, which is the only one there is: nothing follows from it. */
static int zlink_addresses(struct fi_info *info, const char *node, const char *service, uint64_t flags, const struct fi_info *hints)
{
	bool named = service || (node && strstr(node, "://"));
	char made_up[64];
	int ret = 0;

	if (!zlink_host_exists(node))
		return -FI_ENODATA;
	if (named && flags & FI_SOURCE)
		ret = zlink_make_name(node, service, &info->src_addr, &info->src_addrlen);
	else if (named)
		ret = zlink_make_name(node, service, &info->dest_addr, &info->dest_addrlen);
	if (!ret && !info->src_addr && hints)
		ret = zlink_copy_addr(hints->src_addr, hints->src_addrlen, &info->src_addr, &info->src_addrlen);
	if (!ret && !info->dest_addr && hints)
		ret = zlink_copy_addr(hints->dest_addr, hints->dest_addrlen, &info->dest_addr, &info->dest_addrlen);
	/* Each endpoint that is opened with it gets a name of its own. */
	if (!ret && !info->src_addr) {
		snprintf(made_up, sizeof(made_up), ZLINK_AUTO "%ld", (long)getpid());
		ret = zlink_copy_addr(made_up, strlen(made_up), &info->src_addr, &info->src_addrlen);
	}
	return ret;
}

int zlink_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info_p)
{
	struct fi_info *info;
	int ret = zlink_param_read();

	(void)version;
	if (ret)
		return ret;
	if (flags & FI_SOURCE && !node && !service)
		return -FI_ENODATA;
	info = fi_dupinfo(NULL);
	if (!info)
		return -FI_ENOMEM;
	/* The driver is started for those only who ask. */
	ret = zlink_fill_info(info, hints && hints->caps & FI_HMEM && zlink_cuda_there());
	if (!ret && hints && !zlink_check_hints(hints, info))
		ret = -FI_ENODATA;
	if (!ret && hints)
		zlink_take_hints(info, hints);
	if (!ret)
		ret = zlink_addresses(info, node, service, flags, hints);
	if (ret) {
		fi_freeinfo(info);
		return ret;
	}
	*info_p = info;
	return 0;
}

/* ---- the loader */

static void zlink_cleanup(void)
{
}

struct fi_provider zlink_prov = {
	.name = ZLINK_NAME,
	.version = ZLINK_VERSION,
	.getinfo = zlink_getinfo,
	.fabric = zlink_fabric_open,
	.cleanup = zlink_cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	if (zipfi_lf_open(__builtin_return_address(0)))
		return NULL;
	zlink_prov.fi_version = fi_version();
	zlink_param_define();
	return &zlink_prov;
}
