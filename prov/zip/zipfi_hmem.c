/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory is whose: devices of the process, registered regions, and what an endpoint takes to serve a device. */
#include <stdlib.h>
#include <string.h>

#include "zipfi_hmem.h"
#include "zipg_accel.h"

/* ---- devices of the process */

static pthread_mutex_t zipfi_devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct zipfi_device *zipfi_devices[ZIPFI_DEVICES];

/*
 * The emulation stands in for a CUDA device where a test asks for it: "emu", or "emu-direct", whose memory can be reached without it, so
 * that any core plays one with FI_HMEM.
 */
static bool zipfi_test_is(const char *device)
{
	const char *text = getenv("ZIP_TEST_DEVICE");

	return text && !strcmp(text, device);
}

static bool zipfi_test_direct(void)
{
	return zipfi_test_is("emu-direct");
}

static bool zipfi_test_device(void)
{
	return zipfi_test_is("emu") || zipfi_test_direct();
}

static const char *zipfi_backend(enum fi_hmem_iface iface)
{
	if (iface == FI_HMEM_CUDA)
		return zipfi_test_device() ? "emu" : "cuda";
	return iface == FI_HMEM_ROCR ? "hip" : NULL;
}

int zipfi_hmem_possible(void)
{
	return zipfi_test_device() || zipg_count("cuda", NULL) > 0 || zipg_count("hip", NULL) > 0;
}

/* With the lock held. */
static struct zipfi_device *zipfi_device_open(enum fi_hmem_iface iface, const char *backend, int ordinal)
{
	struct zipfi_device *device = calloc(1, sizeof(*device));
	struct zipg_info info;
	int ret = device ? zipg_open(backend, ordinal, NULL, &device->zipg) : ZIPC_ERR_NOMEM;

	if (ret) {
		ZIPFI_WARN(DOMAIN, "device %d of %s cannot be used: %s\n", ordinal, backend, zipc_strerror(ret));
		free(device);
		return NULL;
	}
	device->iface = iface;
	device->backend = backend;
	device->ordinal = ordinal;
	zipg_get_info(device->zipg, &info);
	ZIPFI_INFO(DOMAIN, "device %d of %s, %s: %zu bytes of its memory and %zu of pinned memory taken\n", ordinal, backend, info.name,
		   info.footprint, info.pinned);
	return device;
}

static struct zipfi_device *zipfi_device_get(enum fi_hmem_iface iface, const char *backend, int ordinal)
{
	struct zipfi_device *device = NULL;
	int i, free_slot = -1;

	pthread_mutex_lock(&zipfi_devices_lock);
	for (i = 0; i < ZIPFI_DEVICES && !device; i++) {
		if (!zipfi_devices[i])
			free_slot = i;
		else if (!strcmp(zipfi_devices[i]->backend, backend) && zipfi_devices[i]->ordinal == ordinal)
			device = zipfi_devices[i];
	}
	if (!device && free_slot >= 0)
		device = zipfi_devices[free_slot] = zipfi_device_open(iface, backend, ordinal);
	if (device)
		device->ref++;
	pthread_mutex_unlock(&zipfi_devices_lock);
	return device;
}

static void zipfi_device_put(struct zipfi_device *device)
{
	int i;

	pthread_mutex_lock(&zipfi_devices_lock);
	if (!--device->ref) {
		for (i = 0; i < ZIPFI_DEVICES; i++)
			if (zipfi_devices[i] == device)
				zipfi_devices[i] = NULL;
		zipg_service_close(device->service);
		zipg_close(device->zipg);
		free(device);
	}
	pthread_mutex_unlock(&zipfi_devices_lock);
}

/* Device memory for staging, as long as the bound allows. */
static bool zipfi_device_reserve(struct zipfi_device *device, size_t bytes)
{
	bool ok;

	pthread_mutex_lock(&zipfi_devices_lock);
	ok = device->staging + bytes <= zipfi_param.device_staging;
	if (ok)
		device->staging += bytes;
	pthread_mutex_unlock(&zipfi_devices_lock);
	return ok;
}

static void zipfi_device_unreserve(struct zipfi_device *device, size_t bytes)
{
	pthread_mutex_lock(&zipfi_devices_lock);
	device->staging -= bytes;
	pthread_mutex_unlock(&zipfi_devices_lock);
}

/* ---- a domain's devices and regions */

struct zipfi_hmem *zipfi_hmem_open(void)
{
	struct zipfi_hmem *hmem = calloc(1, sizeof(*hmem));

	if (hmem)
		pthread_mutex_init(&hmem->lock, NULL);
	return hmem;
}

void zipfi_hmem_close(struct zipfi_hmem *hmem)
{
	unsigned i;

	if (!hmem)
		return;
	for (i = 0; i < hmem->ndevices; i++)
		zipfi_device_put(hmem->devices[i]);
	pthread_mutex_destroy(&hmem->lock);
	free(hmem->regions);
	free(hmem);
}

static struct zipfi_device *zipfi_hmem_device_of(struct zipfi_hmem *hmem, enum fi_hmem_iface iface, const char *backend, int ordinal)
{
	struct zipfi_device *device = NULL;
	unsigned i;

	pthread_mutex_lock(&hmem->lock);
	for (i = 0; i < hmem->ndevices && !device; i++)
		if (!strcmp(hmem->devices[i]->backend, backend) && hmem->devices[i]->ordinal == ordinal)
			device = hmem->devices[i];
	if (!device && hmem->ndevices < ZIPFI_DEVICES) {
		device = zipfi_device_get(iface, backend, ordinal);
		if (device)
			hmem->devices[hmem->ndevices++] = device;
	}
	pthread_mutex_unlock(&hmem->lock);
	return device;
}

struct zipfi_device *zipfi_hmem_device(struct zipfi_hmem *hmem, enum fi_hmem_iface iface, int ordinal)
{
	const char *backend = zipfi_backend(iface);

	return backend ? zipfi_hmem_device_of(hmem, iface, backend, ordinal) : NULL;
}

struct zipfi_device *zipfi_hmem_query(struct zipfi_hmem *hmem, const void *ptr)
{
	struct zipg_pointer pointer;
	bool emu;

	zipg_classify(ptr, &pointer);
	/* Pinned and managed memory is the host's to read and write as well. */
	if (pointer.memory != ZIPG_MEMORY_DEVICE)
		return NULL;
	emu = !strcmp(pointer.backend, "emu");
	if (emu && !zipfi_test_device())
		return NULL;
	return zipfi_hmem_device_of(hmem, emu || !strcmp(pointer.backend, "cuda") ? FI_HMEM_CUDA : FI_HMEM_ROCR, pointer.backend,
				    pointer.ordinal);
}

/* The number of regions that start at or before the address. */
static size_t zipfi_region_after(const struct zipfi_hmem *hmem, uintptr_t at)
{
	size_t low = 0, high = hmem->nregions;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (hmem->regions[mid].base <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int zipfi_hmem_add(struct zipfi_hmem *hmem, const void *base, size_t len, struct zipfi_device *device)
{
	struct zipfi_region *regions;
	size_t at;
	int ret = 0;

	pthread_mutex_lock(&hmem->lock);
	if (hmem->nregions == hmem->room) {
		regions = realloc(hmem->regions, (hmem->room * 2 + 16) * sizeof(*regions));
		if (!regions) {
			ret = -FI_ENOMEM;
			goto out;
		}
		hmem->regions = regions;
		hmem->room = hmem->room * 2 + 16;
	}
	at = zipfi_region_after(hmem, (uintptr_t)base);
	memmove(&hmem->regions[at + 1], &hmem->regions[at], (hmem->nregions - at) * sizeof(*hmem->regions));
	hmem->regions[at] = (struct zipfi_region){(uintptr_t)base, (uintptr_t)base + len, device};
	hmem->nregions++;
out:
	pthread_mutex_unlock(&hmem->lock);
	return ret;
}

void zipfi_hmem_remove(struct zipfi_hmem *hmem, const void *base, size_t len)
{
	size_t at;

	pthread_mutex_lock(&hmem->lock);
	for (at = zipfi_region_after(hmem, (uintptr_t)base); at--;) {
		if (hmem->regions[at].base != (uintptr_t)base)
			break;
		if (hmem->regions[at].end != (uintptr_t)base + len)
			continue;
		hmem->nregions--;
		memmove(&hmem->regions[at], &hmem->regions[at + 1], (hmem->nregions - at) * sizeof(*hmem->regions));
		break;
	}
	pthread_mutex_unlock(&hmem->lock);
}

/* `ask`: the driver may be asked, else what is not registered is the host's. */
static struct zipfi_device *zipfi_hmem_whose(struct zipfi_hmem *hmem, const struct iovec *seg, bool ask)
{
	struct zipfi_device *device = NULL;
	bool known = false;
	size_t at;

	pthread_mutex_lock(&hmem->lock);
	at = zipfi_region_after(hmem, (uintptr_t)seg->iov_base);
	if (at && (uintptr_t)seg->iov_base + seg->iov_len <= hmem->regions[at - 1].end) {
		device = hmem->regions[at - 1].device;
		known = true;
	}
	pthread_mutex_unlock(&hmem->lock);
	return known ? device : ask ? zipfi_hmem_query(hmem, seg->iov_base) : NULL;
}

/* ---- an endpoint's devices */

static int zipfi_core_reg(const struct zipfi_ep_dev *dev, void *base, size_t len, struct fid_mr **mr)
{
	struct iovec iov = {base, len};
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV, .requested_key = (uint64_t)(uintptr_t)base,
		.iface = dev->device->iface, .device.cuda = dev->device->ordinal,
	};

	if (!zipfi_test_direct())
		return fi_mr_regattr(dev->ep->domain->core, &attr, 0, mr);
	attr.iface = FI_HMEM_SYSTEM;
	attr.device.cuda = 0;
	return dev->ep->domain->mr_mode & FI_MR_LOCAL ? fi_mr_regattr(dev->ep->domain->core, &attr, 0, mr) : 0;
}

/* A core may offer FI_HMEM and know nothing of this device: it is asked with some of its memory. */
static bool zipfi_core_takes(const struct zipfi_ep_dev *dev)
{
	struct fid_mr *mr = NULL;
	void *some;
	int ret;

	if (zipfi_test_direct())
		return true;
	if (!dev->ep->domain->core_hmem || dev->ep->core_blind || zipg_alloc(dev->device->zipg, ZIPG_MEMORY_DEVICE, 4096, &some))
		return false;
	ret = zipfi_core_reg(dev, some, 4096, &mr);
	if (!ret)
		fi_close(&mr->fid);
	zipg_release(dev->device->zipg, ZIPG_MEMORY_DEVICE, 4096, some);
	return !ret;
}

/* Staging in device memory, if the core takes that and the bound leaves room. */
static bool zipfi_stage_on_device(struct zipfi_ep_dev *dev)
{
	struct zipfi_device *device = dev->device;

	if (!dev->direct || !zipfi_device_reserve(device, dev->staging_bytes))
		return false;
	if (zipg_alloc(device->zipg, ZIPG_MEMORY_DEVICE, dev->staging_bytes, (void **)&dev->staging))
		goto err_reserve;
	if (zipfi_core_reg(dev, dev->staging, dev->staging_bytes, &dev->staging_mr))
		goto err_alloc;
	dev->memory = ZIPG_MEMORY_DEVICE;
	return true;

err_alloc:
	dev->staging_mr = NULL;
	zipg_release(device->zipg, ZIPG_MEMORY_DEVICE, dev->staging_bytes, dev->staging);
	dev->staging = NULL;
err_reserve:
	zipfi_device_unreserve(device, dev->staging_bytes);
	return false;
}

static int zipfi_stage_on_host(struct zipfi_ep_dev *dev)
{
	struct zipfi_domain *domain = dev->ep->domain;

	if (zipg_alloc(dev->device->zipg, ZIPG_MEMORY_PINNED, dev->staging_bytes, (void **)&dev->staging))
		return -FI_ENOMEM;
	dev->memory = ZIPG_MEMORY_PINNED;
	if (!(domain->mr_mode & FI_MR_LOCAL))
		return 0;
	return fi_mr_reg(domain->core, dev->staging, dev->staging_bytes, FI_SEND | FI_RECV, 0, (uint64_t)(uintptr_t)dev->staging, 0,
			 &dev->staging_mr, NULL);
}

static int zipfi_ep_dev_attach(struct zipfi_ep_dev *dev)
{
	size_t slot = zipc_accel_slot(dev->ep->engine), half = (zipfi_param.staging / slot + 1) * slot;
	struct zipc_accel_attr attr = {.ops = dev->ops, .dev = dev->ops_dev, .send_bytes = half, .recv_bytes = half};

	dev->staging_bytes = 2 * half;
	if (!zipfi_stage_on_device(dev) && zipfi_stage_on_host(dev))
		return -FI_ENOMEM;
	attr.send_memory = dev->staging;
	attr.recv_memory = dev->staging + half;
	attr.visible = dev->memory == ZIPG_MEMORY_PINNED;
	attr.direct = dev->direct;
	return zipc_engine_attach(dev->ep->engine, &attr, &dev->accel) ? -FI_ENOMEM : 0;
}

static void zipfi_ep_dev_close(struct zipfi_ep_dev *dev)
{
	if (dev->staging_mr)
		fi_close(&dev->staging_mr->fid);
	if (dev->staging) {
		zipg_release(dev->device->zipg, dev->memory, dev->staging_bytes, dev->staging);
		if (dev->memory == ZIPG_MEMORY_DEVICE)
			zipfi_device_unreserve(dev->device, dev->staging_bytes);
	}
	if (dev->windows)
		zipg_release(dev->device->zipg, ZIPG_MEMORY_PINNED, ZIPFI_WINDOWS * ZIPFI_WINDOW_BYTES, dev->windows);
}

/* Who calls the driver: the callers of the endpoint, or the device's own thread. */
static int zipfi_ep_dev_choose_ops(struct zipfi_ep_dev *dev)
{
	struct zipfi_device *device = dev->device;
	int ret = 0;

	dev->ops = &zipg_accel_ops;
	dev->ops_dev = device->zipg;
	if (!dev->ep->cuda_forbidden)
		return 0;
	pthread_mutex_lock(&zipfi_devices_lock);
	if (!device->service)
		ret = zipg_service_open(device->zipg, &device->service);
	pthread_mutex_unlock(&zipfi_devices_lock);
	dev->ops = &zipg_service_ops;
	dev->ops_dev = device->service;
	return ret;
}

/* Under ep->lock. */
static struct zipfi_ep_dev *zipfi_ep_dev_open(struct zipfi_ep *ep, struct zipfi_device *device)
{
	struct zipfi_ep_hmem *hmem = ep->hmem;
	struct zipfi_ep_dev *dev = hmem->ndevs < ZIPFI_DEVICES ? &hmem->devs[hmem->ndevs] : NULL;
	size_t on_device, pinned;
	unsigned i;

	if (!dev)
		return NULL;
	memset(dev, 0, sizeof(*dev));
	dev->ep = ep;
	dev->device = device;
	dev->direct = zipfi_core_takes(dev);
	if (zipfi_ep_dev_choose_ops(dev) ||
	    zipg_alloc(device->zipg, ZIPG_MEMORY_PINNED, ZIPFI_WINDOWS * ZIPFI_WINDOW_BYTES, (void **)&dev->windows) ||
	    (ep->engine && zipfi_ep_dev_attach(dev))) {
		ZIPFI_WARN(EP_CTRL, "no staging memory for device %d of %s\n", device->ordinal, device->backend);
		zipfi_ep_dev_close(dev);
		return NULL;
	}
	for (i = 0; i < ZIPFI_WINDOWS; i++)
		dev->free_windows[dev->nfree++] = dev->windows + i * ZIPFI_WINDOW_BYTES;
	hmem->ndevs++;
	zipfi_hmem_memory(ep, &on_device, &pinned);
	ZIPFI_INFO(EP_CTRL, "device %d of %s: staging in %s memory; this process has %zu bytes of the device and %zu pinned\n",
		   device->ordinal, device->backend, dev->memory == ZIPG_MEMORY_DEVICE && dev->staging ? "device" : "pinned host", on_device, pinned);
	return dev;
}

/* Under ep->lock. */
static struct zipfi_ep_dev *zipfi_ep_dev_get(struct zipfi_ep *ep, struct zipfi_device *device)
{
	unsigned i;

	for (i = 0; i < ep->hmem->ndevs; i++)
		if (ep->hmem->devs[i].device == device)
			return &ep->hmem->devs[i];
	return zipfi_ep_dev_open(ep, device);
}

void zipfi_ep_hmem_prepare(struct zipfi_ep *ep, struct zipfi_device *device)
{
	if (!ep->hmem || !ep->enabled)
		return;
	zipfi_lock(ep->domain, &ep->lock);
	zipfi_ep_dev_get(ep, device);
	zipfi_unlock(ep->domain, &ep->lock);
}

int zipfi_hmem_find(struct zipfi_ep *ep, const struct iovec *iov, size_t niov, struct zipfi_ep_dev **dev_p)
{
	struct zipfi_device *device = NULL;
	bool any = false;
	size_t i;

	*dev_p = NULL;
	for (i = 0; i < niov; i++) {
		struct zipfi_device *one;

		if (!iov[i].iov_len)
			continue;
		one = zipfi_hmem_whose(ep->domain->hmem, &iov[i], !ep->cuda_forbidden);
		if (any && one != device) {
			ZIPFI_WARN(EP_DATA, "the segments of one message are on different devices\n");
			return -FI_EINVAL;
		}
		device = one;
		any = true;
	}
	if (!device)
		return 0;
	zipfi_lock(ep->domain, &ep->lock);
	*dev_p = zipfi_ep_dev_get(ep, device);
	zipfi_unlock(ep->domain, &ep->lock);
	return *dev_p ? 0 : -FI_ENOMEM;
}

void *zipfi_hmem_desc(struct zipfi_ep *ep, const void *buf)
{
	unsigned i;

	for (i = 0; i < ep->hmem->ndevs; i++) {
		struct zipfi_ep_dev *dev = &ep->hmem->devs[i];

		if (dev->staging_mr && (const char *)buf >= dev->staging && (const char *)buf < dev->staging + dev->staging_bytes)
			return fi_mr_desc(dev->staging_mr);
	}
	return NULL;
}

void zipfi_hmem_memory(struct zipfi_ep *ep, size_t *device_bytes, size_t *pinned_bytes)
{
	struct zipg_info info;
	unsigned i;

	*device_bytes = *pinned_bytes = 0;
	for (i = 0; ep->hmem && i < ep->hmem->ndevs; i++) {
		zipg_get_info(ep->hmem->devs[i].device->zipg, &info);
		*device_bytes += info.footprint;
		*pinned_bytes += info.pinned;
	}
}

int zipfi_hmem_permit(struct zipfi_ep *ep, bool permitted)
{
	if (!ep->domain->hmem || !zipfi_hmem_possible())
		return -FI_EINVAL;
	/* What has been taken for a device already goes on as it is. */
	if (ep->hmem && ep->hmem->ndevs)
		return permitted == !ep->cuda_forbidden ? 0 : -FI_EBUSY;
	ep->cuda_forbidden = !permitted;
	return 0;
}

int zipfi_ep_hmem_open(struct zipfi_ep *ep)
{
	struct zipfi_ep_hmem *hmem;
	unsigned i;

	if (!ep->domain->hmem)
		return 0;
	hmem = calloc(1, sizeof(*hmem));
	if (!hmem)
		return -FI_ENOMEM;
	hmem->helds = calloc(ZIPFI_HELD, sizeof(*hmem->helds));
	if (!hmem->helds) {
		free(hmem);
		return -FI_ENOMEM;
	}
	zipc_list_init(&hmem->copies);
	zipc_list_init(&hmem->held);
	zipc_list_init(&hmem->free_held);
	for (i = 0; i < ZIPFI_HELD; i++)
		zipc_list_append(&hmem->free_held, &hmem->helds[i].link);
	for (i = 0; i < ZIPFI_LANDINGS; i++)
		zipc_list_init(&hmem->landings[i]);
	ep->hmem = hmem;
	pthread_mutex_lock(&ep->domain->hmem->lock);
	for (i = 0; i < ep->domain->hmem->ndevices; i++)
		zipfi_ep_dev_open(ep, ep->domain->hmem->devices[i]);
	pthread_mutex_unlock(&ep->domain->hmem->lock);
	return 0;
}

/* After the engine: nothing may be in staging any more. */
void zipfi_ep_hmem_close(struct zipfi_ep *ep)
{
	struct zipfi_ep_hmem *hmem = ep->hmem;
	unsigned i;

	if (!hmem)
		return;
	zipfi_bounce_close(ep);
	for (i = 0; i < hmem->ndevs; i++)
		zipfi_ep_dev_close(&hmem->devs[i]);
	hmem->ndevs = 0;
}
