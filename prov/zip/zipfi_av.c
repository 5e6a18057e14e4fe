/* SPDX-License-Identifier: BSD-3-Clause */
/* Address vector: the core's, fed with addresses whose marks were taken off and remembered. */
#include <stdlib.h>
#include <string.h>

#include "zipfi.h"
#include "zipfi_no.h"

#define ZIPFI_AV_MAP_MIN 64

struct zipfi_av_entry {
	fi_addr_t fi_addr;
	struct zipfi_addr *addr; /* NULL: free; ZIPFI_AV_GONE: was removed */
};

static struct zipfi_addr zipfi_av_gone;
#define ZIPFI_AV_GONE (&zipfi_av_gone)

static size_t zipfi_av_slot(const struct zipfi_av *av, fi_addr_t fi_addr)
{
	return (size_t)((fi_addr * 0x9e3779b97f4a7c15u) >> 20) & (av->map_size - 1);
}

static struct zipfi_av_entry *zipfi_av_find(struct zipfi_av *av, fi_addr_t fi_addr)
{
	size_t i;

	if (!av->map_size)
		return NULL;
	for (i = zipfi_av_slot(av, fi_addr); av->map[i].addr; i = (i + 1) & (av->map_size - 1))
		if (av->map[i].addr != ZIPFI_AV_GONE && av->map[i].fi_addr == fi_addr)
			return &av->map[i];
	return NULL;
}

static void zipfi_av_place(struct zipfi_av *av, fi_addr_t fi_addr, struct zipfi_addr *addr)
{
	size_t i = zipfi_av_slot(av, fi_addr);

	while (av->map[i].addr)
		i = (i + 1) & (av->map_size - 1);
	av->map[i].fi_addr = fi_addr;
	av->map[i].addr = addr;
	av->map_used++;
}

static int zipfi_av_grow(struct zipfi_av *av)
{
	struct zipfi_av_entry *old = av->map;
	size_t i, old_size = av->map_size, size = old_size ? 2 * old_size : ZIPFI_AV_MAP_MIN;
	struct zipfi_av_entry *map;

	if (av->map_used * 2 < old_size)
		return 0;
	map = calloc(size, sizeof(*map));
	if (!map)
		return -FI_ENOMEM;
	av->map = map;
	av->map_size = size;
	av->map_used = 0;
	for (i = 0; i < old_size; i++)
		if (old[i].addr && old[i].addr != ZIPFI_AV_GONE)
			zipfi_av_place(av, old[i].fi_addr, old[i].addr);
	free(old);
	return 0;
}

/* Remembers what was inserted as fi_addr. Failing only costs compression to that peer. */
static void zipfi_av_remember(struct zipfi_av *av, fi_addr_t fi_addr, const struct zipfi_addr *addr)
{
	struct zipfi_av_entry *entry;
	struct zipfi_addr *copy;

	pthread_mutex_lock(&av->lock);
	entry = zipfi_av_find(av, fi_addr);
	if (entry) {
		*entry->addr = *addr;
	} else if (!zipfi_av_grow(av)) {
		copy = malloc(sizeof(*copy));
		if (copy) {
			*copy = *addr;
			zipfi_av_place(av, fi_addr, copy);
		}
	}
	pthread_mutex_unlock(&av->lock);
}

int zipfi_av_lookup_main(struct zipfi_av *av, fi_addr_t fi_addr, struct zipfi_addr *addr)
{
	struct zipfi_av_entry *entry;
	uint8_t raw[ZIPC_ADDR_MAX];
	size_t len = sizeof(raw);

	pthread_mutex_lock(&av->lock);
	entry = zipfi_av_find(av, fi_addr);
	if (entry)
		*addr = *entry->addr;
	pthread_mutex_unlock(&av->lock);
	if (entry)
		return 0;
	/* Another process put it into a shared AV. */
	if (fi_av_lookup(av->core, fi_addr, raw, &len) || len > sizeof(raw) ||
	    zipfi_addr_split(av->domain->addr_format, raw, len, addr))
		return -FI_EINVAL;
	zipfi_av_remember(av, fi_addr, addr);
	return 0;
}

static void zipfi_av_greet(struct zipfi_av *av, const struct zipfi_addr *addr)
{
	size_t i;

	zipfi_lock(av->domain, &av->lock);
	for (i = 0; i < av->neps; i++) {
		struct zipfi_ep *ep = av->eps[i];

		if (ep->engine && ep->greeted < ZIPFI_GREET_MAX) {
			ep->greeted++;
			zipfi_ep_greet(ep, addr);
		}
	}
	zipfi_unlock(av->domain, &av->lock);
}

void zipfi_av_greet_all(struct zipfi_av *av, struct zipfi_ep *ep)
{
	size_t i;

	zipfi_lock(av->domain, &av->lock);
	for (i = 0; i < av->map_size && ep->greeted < ZIPFI_GREET_MAX; i++) {
		struct zipfi_addr *addr = av->map[i].addr;

		if (!addr || addr == ZIPFI_AV_GONE)
			continue;
		ep->greeted++;
		zipfi_ep_greet(ep, addr);
	}
	zipfi_unlock(av->domain, &av->lock);
}

/* Splits the addresses and packs the core's own into one array. Returns 0, or -FI_EINVAL for a format unknown here. */
static int zipfi_av_split_all(struct zipfi_av *av, const void *addr, size_t count, struct zipfi_addr *split, uint8_t *packed)
{
	uint32_t format = av->domain->addr_format;
	size_t i, size, used = 0;

	for (i = 0; i < count; i++) {
		size = zipfi_addr_size(format, (const char *)addr + used);
		if (!size || zipfi_addr_split(format, (const char *)addr + used, size, &split[i]))
			return -FI_EINVAL;
		memcpy(packed + used, split[i].main, size);
		used += size;
	}
	return 0;
}

static void zipfi_av_inserted(struct zipfi_av *av, const struct zipfi_addr *split, size_t count, const fi_addr_t *fi_addr)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (!fi_addr || fi_addr[i] == FI_ADDR_NOTAVAIL)
			continue;
		zipfi_av_remember(av, fi_addr[i], &split[i]);
		zipfi_av_greet(av, &split[i]);
	}
}

static int zipfi_av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct zipfi_av *av = zipfi_of(fid, zipfi_av, fid);
	struct zipfi_addr *split = malloc((count + 1) * sizeof(*split));
	uint8_t *packed = calloc(count + 1, ZIPC_ADDR_MAX);
	fi_addr_t *own = fi_addr ? NULL : malloc((count + 1) * sizeof(*own));
	int known, ret = -FI_ENOMEM;

	if (!split || !packed || (!fi_addr && !own))
		goto out;
	/* An unknown format goes to the core as it is: its peers stay raw. */
	known = !zipfi_av_split_all(av, addr, count, split, packed);
	ret = fi_av_insert(av->core, known ? packed : addr, count, fi_addr ? fi_addr : own, flags, context);
	/* An asynchronous insert returns 0 and fills in later what zipfi_av_lookup_main asks for then. */
	if (ret > 0 && known)
		zipfi_av_inserted(av, split, count, fi_addr ? fi_addr : own);
out:
	free(split);
	free(packed);
	free(own);
	return ret;
}

static int zipfi_av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
			      void *context)
{
	return fi_av_insertsvc(zipfi_of(fid, zipfi_av, fid)->core, node, service, fi_addr, flags, context);
}

static int zipfi_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service, size_t svccnt,
			      fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return fi_av_insertsym(zipfi_of(fid, zipfi_av, fid)->core, node, nodecnt, service, svccnt, fi_addr, flags, context);
}

/* Drops what was remembered, and every engine's peer with it. */
static void zipfi_av_drop(struct zipfi_av *av, fi_addr_t fi_addr)
{
	struct zipfi_av_entry *entry;
	struct zipfi_addr addr;
	size_t i;

	pthread_mutex_lock(&av->lock);
	entry = zipfi_av_find(av, fi_addr);
	if (entry) {
		addr = *entry->addr;
		free(entry->addr);
		entry->addr = ZIPFI_AV_GONE;
		for (i = 0; i < av->neps; i++) {
			struct zipfi_ep *ep = av->eps[i];

			zipfi_lock(av->domain, &ep->lock);
			if (ep->engine)
				zipc_peer_forget(ep->engine, addr.main, addr.main_len);
			zipfi_unlock(av->domain, &ep->lock);
		}
	}
	pthread_mutex_unlock(&av->lock);
}

static int zipfi_av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct zipfi_av *av = zipfi_of(fid, zipfi_av, fid);
	size_t i;

	for (i = 0; i < count; i++)
		zipfi_av_drop(av, fi_addr[i]);
	return fi_av_remove(av->core, fi_addr, count, flags);
}

static int zipfi_av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	return fi_av_lookup(zipfi_of(fid, zipfi_av, fid)->core, fi_addr, addr, addrlen);
}

static const char *zipfi_av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	return fi_av_straddr(zipfi_of(fid, zipfi_av, fid)->core, addr, buf, len);
}

static int zipfi_av_close(struct fid *fid)
{
	struct zipfi_av *av = zipfi_of(fid, zipfi_av, fid.fid);
	size_t i;
	int ret;

	if (atomic_load(&av->ref))
		return -FI_EBUSY;
	ret = fi_close(&av->core->fid);
	if (ret)
		return ret;
	for (i = 0; i < av->map_size; i++)
		if (av->map[i].addr != ZIPFI_AV_GONE)
			free(av->map[i].addr);
	free(av->map);
	free(av->eps);
	pthread_mutex_destroy(&av->lock);
	free(av);
	return 0;
}

static int zipfi_av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct zipfi_av *av = zipfi_of(fid, zipfi_av, fid.fid);

	if (bfid->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	return fi_av_bind(av->core, zipfi_eq_core(av->domain->fabric, bfid), flags);
}

static int zipfi_av_control(struct fid *fid, int command, void *arg)
{
	return fi_control(&zipfi_of(fid, zipfi_av, fid.fid)->core->fid, command, arg);
}

static struct fi_ops zipfi_av_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = zipfi_av_close,
	.bind = zipfi_av_bind,
	.control = zipfi_av_control,
};

static struct fi_ops_av zipfi_av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = zipfi_av_insert,
	.insertsvc = zipfi_av_insertsvc,
	.insertsym = zipfi_av_insertsym,
	.remove = zipfi_av_remove,
	.lookup = zipfi_av_lookup,
	.straddr = zipfi_av_straddr,
	.av_set = zipfi_no_av_set,
};

int zipfi_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av_p, void *context)
{
	struct zipfi_domain *domain = zipfi_of(fid, zipfi_domain, fid);
	struct zipfi_av *av;
	int ret;

	if (domain->fabric->hooked && attr && (attr->flags & FI_EVENT)) {
		ZIPFI_WARN(AV, "under FI_HOOK=zip an AV cannot report to an event queue: the queue is the core's\n");
		return -FI_EOPNOTSUPP;
	}
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	ret = fi_av_open(domain->core, attr, &av->core, av);
	if (ret) {
		free(av);
		return ret;
	}
	av->domain = domain;
	pthread_mutex_init(&av->lock, NULL);
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &zipfi_av_fi_ops;
	av->fid.ops = &zipfi_av_ops;
	*av_p = &av->fid;
	return 0;
}

int zipfi_av_attach(struct zipfi_av *av, struct zipfi_ep *ep)
{
	struct zipfi_ep **eps;

	pthread_mutex_lock(&av->lock);
	eps = realloc(av->eps, (av->neps + 1) * sizeof(struct zipfi_ep *));
	if (eps) {
		av->eps = eps;
		av->eps[av->neps++] = ep;
		atomic_fetch_add(&av->ref, 1);
	}
	pthread_mutex_unlock(&av->lock);
	return eps ? 0 : -FI_ENOMEM;
}

void zipfi_av_detach(struct zipfi_av *av, struct zipfi_ep *ep)
{
	size_t i;

	pthread_mutex_lock(&av->lock);
	for (i = 0; i < av->neps; i++) {
		if (av->eps[i] != ep)
			continue;
		av->eps[i] = av->eps[--av->neps];
		atomic_fetch_sub(&av->ref, 1);
		break;
	}
	pthread_mutex_unlock(&av->lock);
}
