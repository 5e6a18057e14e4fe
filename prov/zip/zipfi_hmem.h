/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FI_HMEM: memory of devices, over any core. Private to the provider.
 *
 * zipfi_hmem.c knows which memory is whose, and takes staging; zipfi_bounce.c moves messages that the core cannot take from or put
 * into device memory itself, through host memory. A domain whose application did not ask for FI_HMEM has none of this.
 *
 * Over a core that registers device memory (`direct`) transfers are staged in device memory, and what goes raw goes to the core as it
 * is. Over any other they are staged in pinned host memory, and what goes raw is copied by us.
 */
#ifndef ZIPFI_HMEM_H
#define ZIPFI_HMEM_H

#include "zipc_accel.h"
#include "zipfi.h"
#include "zipg.h"
#include "zipg_service.h"

#define ZIPFI_DEVICES 16
#define ZIPFI_WINDOWS 16u             /* pinned pieces of memory that copies of an endpoint pass through, for each device */
#define ZIPFI_WINDOW_BYTES (128u << 10)
#define ZIPFI_HELD 64u                /* sends of an endpoint that wait for a copy */
#define ZIPFI_LANDINGS 52             /* size classes of landings */

/* A device this process uses: one for all endpoints. Kept until no domain uses it. */
struct zipfi_device {
	const char *backend;
	int ordinal;
	enum fi_hmem_iface iface;
	struct zipg_device *zipg;
	unsigned ref;
	struct zipg_service *service; /* once an endpoint may not call the driver from its callers' threads */
	size_t staging;        /* device memory that endpoints have taken, of at most zipfi_param.device_staging */
};

/* Registered memory. */
struct zipfi_region {
	uintptr_t base, end;
	struct zipfi_device *device; /* NULL: host */
};

/* Of a domain. */
struct zipfi_hmem {
	pthread_mutex_t lock;  /* devices, regions */
	struct zipfi_device *devices[ZIPFI_DEVICES];
	unsigned ndevices;
	struct zipfi_region *regions; /* sorted by base */
	size_t nregions, room;
};

/* Host memory that a message lies in on its way between the core and a device. */
struct zipfi_landing {
	struct zipc_list link; /* its class' free ones */
	struct zipfi_landing *next; /* of all, until the endpoint goes */
	size_t bytes;
	unsigned class;
	char *memory;
	struct fid_mr *mr;
};

/* A device at an endpoint. */
struct zipfi_ep_dev {
	struct zipfi_ep *ep;
	struct zipfi_device *device;
	struct zipc_accel *accel;  /* NULL: no engine here */
	const struct zipc_accel_ops *ops;
	void *ops_dev;
	bool direct;
	enum zipg_memory memory;   /* of staging */
	char *staging;
	size_t staging_bytes;
	struct fid_mr *staging_mr;
	char *windows;
	void *free_windows[ZIPFI_WINDOWS];
	unsigned nfree;
};

/* A send that waits until its message is in host memory. They leave in the order in which they came. */
struct zipfi_held {
	struct zipc_list link;
	struct zipfi_copy copy;
	struct iovec from[ZIPFI_IOV_MAX];
	struct zipfi_out out;      /* from the landing */
	struct iovec iov;
	void *desc;
	struct zipfi_landing *landing;
	bool copied;
	int status;                /* ZIPC_ERR_* of the copy */
};

/* Of an endpoint; under ep->lock. */
struct zipfi_ep_hmem {
	struct zipfi_ep_dev devs[ZIPFI_DEVICES];
	unsigned ndevs;
	struct zipc_list copies;
	struct zipc_list held, free_held;
	struct zipfi_held *helds;
	atomic_uint nheld;         /* read without the lock */
	bool posting;              /* somebody is posting the first of them */
	struct zipc_list landings[ZIPFI_LANDINGS];
	struct zipfi_landing *all_landings;
};

/* ---- zipfi_hmem.c */

/* 1 if some device could be there, so that FI_HMEM may be offered over a core without it. */
int zipfi_hmem_possible(void);
struct zipfi_hmem *zipfi_hmem_open(void);
void zipfi_hmem_close(struct zipfi_hmem *hmem);
/* The device of an interface, opened when it is met first. NULL: there is none. */
struct zipfi_device *zipfi_hmem_device(struct zipfi_hmem *hmem, enum fi_hmem_iface iface, int ordinal);
/* Whose memory this is, asked of the drivers; NULL: the host's. */
struct zipfi_device *zipfi_hmem_query(struct zipfi_hmem *hmem, const void *ptr);
/* Registered memory is looked up, other memory is asked for with every message: addresses come and go unseen. */
int zipfi_hmem_add(struct zipfi_hmem *hmem, const void *base, size_t len, struct zipfi_device *device);
void zipfi_hmem_remove(struct zipfi_hmem *hmem, const void *base, size_t len);

/* FI_OPT_CUDA_API_PERMITTED: whether calls of the application's may call the driver. Returns 0 or -FI_EINVAL without a device. */
int zipfi_hmem_permit(struct zipfi_ep *ep, bool permitted);
int zipfi_ep_hmem_open(struct zipfi_ep *ep);
void zipfi_ep_hmem_close(struct zipfi_ep *ep);
/* Takes what an endpoint needs for a device, before the first message. */
void zipfi_ep_hmem_prepare(struct zipfi_ep *ep, struct zipfi_device *device);
/* The device that all segments are on, in *dev_p; NULL: the host. -FI_EINVAL when they are on several. */
int zipfi_hmem_find(struct zipfi_ep *ep, const struct iovec *iov, size_t niov, struct zipfi_ep_dev **dev_p);
/* The descriptor of staging memory, NULL if it is none of ours. */
void *zipfi_hmem_desc(struct zipfi_ep *ep, const void *buf);
/* Device memory and pinned memory that the endpoint's devices have taken, their own share included. */
void zipfi_hmem_memory(struct zipfi_ep *ep, size_t *device_bytes, size_t *pinned_bytes);

/* ---- zipfi_bounce.c */

struct zipfi_landing *zipfi_landing_get(struct zipfi_ep *ep, size_t bytes);
/* `used`: bytes of it that were written to. */
void zipfi_landing_put(struct zipfi_ep *ep, struct zipfi_landing *landing, size_t used);
/* The core's descriptor of it, NULL where the core wants none. */
void *zipfi_landing_desc(const struct zipfi_landing *landing);
void zipfi_landings_close(struct zipfi_ep *ep);
/* Sends from device memory by way of a landing. `wait`: the buffer is the caller's again at return. -FI_EAGAIN: too many. */
ssize_t zipfi_bounce_send(struct zipfi_ep *ep, const struct zipfi_out *out, bool wait);
/* A message of which `nbytes` lie at `host` belongs into the record's buffers: it is completed once it is there. */
void zipfi_bounce_recv(struct zipfi_rec *rec, void *host, size_t nbytes);
/* 1 while a later send would overtake one that is held. */
static inline bool zipfi_is_holding(const struct zipfi_ep_hmem *hmem)
{
	return atomic_load_explicit(&hmem->nheld, memory_order_relaxed) > 0;
}
/* Moves copies on; under ep->lock. Returns true while there are some. */
bool zipfi_copies_progress(struct zipfi_ep *ep);
/* Posts sends whose copies are done; without locks. */
void zipfi_held_progress(struct zipfi_ep *ep);
/* Ends all that is under way; the endpoint closes. */
void zipfi_bounce_close(struct zipfi_ep *ep);

#endif
