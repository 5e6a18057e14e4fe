/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A core provider that only enumerates. It is called what ZIP_FAKE_CORE says, "efa" or "verbs", and offers what those offer on a
 * machine that has their devices: that a stack over them is found, and under which name, can be tested without a device. It
 * opens nothing.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

static struct fi_provider fake;

static int fake_is_msg(void)
{
	return !strcmp(fake.name, "verbs");
}

static void fake_fill(struct fi_info *info)
{
	const uint64_t local = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	const uint64_t caps = fake_is_msg() ? local : local | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;

	info->caps = caps | FI_LOCAL_COMM | FI_REMOTE_COMM;
	info->addr_format = fake_is_msg() ? FI_SOCKADDR_IN : FI_ADDR_EFA;
	*info->tx_attr = (struct fi_tx_attr){.caps = caps, .size = 384, .iov_limit = 4, .rma_iov_limit = 1,
					     .msg_order = FI_ORDER_SAS, .inject_size = 32};
	*info->rx_attr = (struct fi_rx_attr){.caps = caps, .size = 384, .iov_limit = 4, .msg_order = FI_ORDER_SAS};
	info->ep_attr->type = fake_is_msg() ? FI_EP_MSG : FI_EP_RDM;
	info->ep_attr->protocol = fake_is_msg() ? FI_PROTO_RDMA_CM_IB_RC : FI_PROTO_EFA;
	info->ep_attr->protocol_version = 1;
	info->ep_attr->max_msg_size = 1 << 30;
	info->ep_attr->mem_tag_format = fake_is_msg() ? 0 : UINT64_MAX >> 2;
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
	info->domain_attr->name = strdup("fake0");
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->control_progress = info->domain_attr->data_progress =
		fake_is_msg() ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	info->domain_attr->resource_mgmt = fake_is_msg() ? FI_RM_DISABLED : FI_RM_ENABLED;
	info->domain_attr->av_type = fake_is_msg() ? FI_AV_UNSPEC : FI_AV_TABLE;
	info->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	info->domain_attr->mr_key_size = info->domain_attr->cq_data_size = 4;
	info->domain_attr->cq_cnt = info->domain_attr->ep_cnt = 1024;
	info->domain_attr->tx_ctx_cnt = info->domain_attr->rx_ctx_cnt = 1024;
	info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
	info->domain_attr->mr_iov_limit = 1;
	info->domain_attr->mr_cnt = 65536;
	info->fabric_attr->name = strdup("fake");
	info->fabric_attr->prov_version = fake.version;
}

static int fake_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
			struct fi_info **info)
{
	(void)version;
	(void)node;
	(void)service;
	(void)flags;
	*info = fi_allocinfo();
	if (!*info)
		return -FI_ENOMEM;
	fake_fill(*info);
	if (!hints || !((hints->ep_attr && hints->ep_attr->type && hints->ep_attr->type != (*info)->ep_attr->type) ||
			(hints->caps & ~(*info)->caps)))
		return 0;
	fi_freeinfo(*info);
	*info = NULL;
	return -FI_ENODATA;
}

static int fake_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	(void)attr;
	(void)fabric;
	(void)context;
	return -FI_ENODEV;
}

static void fake_cleanup(void)
{
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	const char *name = getenv("ZIP_FAKE_CORE");

	fake = (struct fi_provider){
		.name = name ? name : "fake", .version = FI_VERSION(999, 0), .fi_version = fi_version(),
		.getinfo = fake_getinfo, .fabric = fake_fabric, .cleanup = fake_cleanup,
	};
	return &fake;
}
