/* SPDX-License-Identifier: BSD-3-Clause */
/* Address vectors: tables of names. A name is looked for when it is first sent to. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlink.h"
#include "zipfi_no.h"

#define ZLINK_RETRY_NS 500000ull      /* between two looks for a name */
#define ZLINK_PATIENCE_NS 5000000000ull /* until a name that never was there is an error */

static uint32_t zlink_hash(const char *name)
{
	uint32_t hash = 2166136261u;

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * 16777619u;
	return hash;
}

fi_addr_t zlink_av_find(const struct zlink_av *av, const char *name)
{
	uint32_t hash = zlink_hash(name);
	size_t i;

	for (i = 0; i < av->count; i++)
		if (av->entry[i].hash == hash && !strcmp(av->entry[i].name, name))
			return i;
	return FI_ADDR_NOTAVAIL;
}

const char *zlink_av_name(const struct zlink_av *av, fi_addr_t fi_addr)
{
	return fi_addr < av->count && av->entry[fi_addr].name[0] ? av->entry[fi_addr].name : NULL;
}

static int zlink_av_resolve(struct zlink_av *av, struct zlink_av_entry *entry)
{
	uint64_t now = zlink_now();
	char id[ZLINK_ID_MAX];
	int ret;

	if (entry->last_ns && now - entry->last_ns < ZLINK_RETRY_NS)
		return -FI_EAGAIN;
	entry->last_ns = now;
	entry->first_ns = entry->first_ns ? entry->first_ns : now;
	ret = zlink_resolve(entry->name, id, &entry->ep);
	if (!ret)
		ret = zlink_tx_get(av->domain, id, &entry->tx);
	if (!ret) {
		entry->met = true;
		entry->first_ns = 0;
		return 0;
	}
	entry->tx = NULL;
	if (ret == -FI_ENOMEM)
		return ret;
	/* It may still be starting; one that was there and is not any more is gone. */
	return entry->met || now - entry->first_ns > ZLINK_PATIENCE_NS ? -FI_EHOSTUNREACH : -FI_EAGAIN;
}

int zlink_av_peer(struct zlink_av *av, fi_addr_t fi_addr, struct zlink_av_entry **entry_p)
{
	struct zlink_av_entry *entry;
	int ret = 0;

	if (!av || fi_addr >= av->count || !av->entry[fi_addr].name[0])
		return -FI_EINVAL;
	entry = &av->entry[fi_addr];
	if (!entry->tx)
		ret = zlink_av_resolve(av, entry);
	*entry_p = entry;
	return ret;
}

/* Under the lock. */
static int zlink_av_add(struct zlink_av *av, const char *name, fi_addr_t *fi_addr)
{
	size_t i = 0, room;
	struct zlink_av_entry *grown;

	if (!name[0] || strnlen(name, ZLINK_NAME_MAX) == ZLINK_NAME_MAX)
		return -FI_EINVAL;
	while (i < av->count && av->entry[i].name[0])
		i++;
	if (i == av->room) {
		room = av->room ? 2 * av->room : 64;
		grown = realloc(av->entry, room * sizeof(*grown));
		if (!grown)
			return -FI_ENOMEM;
		av->entry = grown;
		av->room = room;
	}
	if (i == av->count)
		av->count++;
	memset(&av->entry[i], 0, sizeof(av->entry[i]));
	strcpy(av->entry[i].name, name);
	av->entry[i].hash = zlink_hash(name);
	*fi_addr = i;
	return 0;
}

static int zlink_av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct zlink_av *av = zlink_of(fid, zlink_av, fid);
	const char *name = addr;
	int *errors = flags & FI_SYNC_ERR ? context : NULL, ret, done = 0;
	fi_addr_t at;
	size_t i;

	zlink_lock(av->domain);
	for (i = 0; i < count; i++) {
		ret = zlink_av_add(av, name, &at);
		if (ret)
			at = FI_ADDR_NOTAVAIL;
		if (errors)
			errors[i] = -ret;
		if (fi_addr)
			fi_addr[i] = at;
		done += !ret;
		name += strlen(name) + 1;
	}
	zlink_unlock(av->domain);
	return done;
}

static int zlink_av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
			      void *context)
{
	char name[ZLINK_NAME_MAX];

	if (!node || !service)
		return -FI_EINVAL;
	snprintf(name, sizeof(name), "fi_ns://%s:%s", node, service);
	return zlink_av_insert(fid, name, 1, fi_addr, flags, context);
}

static int zlink_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service, size_t svccnt,
			      fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	(void)fid;
	(void)node;
	(void)nodecnt;
	(void)service;
	(void)svccnt;
	(void)fi_addr;
	(void)flags;
	(void)context;
	return -FI_ENOSYS;
}

static int zlink_av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct zlink_av *av = zlink_of(fid, zlink_av, fid);
	int ret = 0;
	size_t i;

	if (flags)
		return -FI_EBADFLAGS;
	zlink_lock(av->domain);
	for (i = 0; i < count; i++) {
		if (zlink_av_name(av, fi_addr[i]))
			memset(&av->entry[fi_addr[i]], 0, sizeof(av->entry[0]));
		else
			ret = -FI_EINVAL;
	}
	zlink_unlock(av->domain);
	return ret;
}

static int zlink_av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct zlink_av *av = zlink_of(fid, zlink_av, fid);
	const char *name;
	size_t need;

	zlink_lock(av->domain);
	name = zlink_av_name(av, fi_addr);
	if (name) {
		need = strlen(name) + 1;
		memcpy(addr, name, need < *addrlen ? need : *addrlen);
		*addrlen = need;
	}
	zlink_unlock(av->domain);
	return name ? 0 : -FI_EINVAL;
}

static const char *zlink_av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	int n = snprintf(buf, *len, "%s", (const char *)addr);

	(void)fid;
	*len = (size_t)n + 1;
	return buf;
}

static int zlink_av_close(struct fid *fid)
{
	struct zlink_av *av = zlink_of(fid, zlink_av, fid.fid);

	if (atomic_load(&av->ref))
		return -FI_EBUSY;
	zlink_lock(av->domain);
	zipc_list_remove(&av->link);
	zlink_unlock(av->domain);
	atomic_fetch_sub(&av->domain->ref, 1);
	free(av->entry);
	free(av);
	return 0;
}

static struct fi_ops zlink_av_fi_ops = {
	.size = sizeof(struct fi_ops), .close = zlink_av_close, .bind = zipfi_no_bind, .control = zipfi_no_control,
	.ops_open = zipfi_no_ops_open,
};

static struct fi_ops_av zlink_av_ops = {
	.size = sizeof(struct fi_ops_av), .insert = zlink_av_insert, .insertsvc = zlink_av_insertsvc, .insertsym = zlink_av_insertsym,
	.remove = zlink_av_remove, .lookup = zlink_av_lookup, .straddr = zlink_av_straddr, .av_set = zipfi_no_av_set,
};

int zlink_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av_p, void *context)
{
	struct zlink_domain *domain = zlink_of(fid, zlink_domain, fid);
	struct zlink_av *av;

	if (attr->name || attr->rx_ctx_bits || (attr->flags & FI_EVENT))
		return -FI_ENOSYS;
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av->domain = domain;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &zlink_av_fi_ops;
	av->fid.ops = &zlink_av_ops;
	zlink_lock(domain);
	zipc_list_append(&domain->avs, &av->link);
	zlink_unlock(domain);
	atomic_fetch_add(&domain->ref, 1);
	*av_p = &av->fid;
	return 0;
}
