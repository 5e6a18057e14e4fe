/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domain: registrations under keys of our own, beside those of the lower domain.
 *
 * A key is checked before a byte moves, whoever moves it. A registration that goes while a peer's transfer uses it is dead: its
 * memory is not touched any more (zipu_xfer.c), and the record goes with its last user.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zipu.h"

static struct zipu_mem **zipu_key_bucket(struct zipu_md *md, uint64_t key)
{
	return &md->keys[key % ZIPU_KEY_HASH];
}

/* ---- registrations */

static ucs_status_t zipu_md_lower_reg(struct zipu_md *md, void *address, size_t length, uint64_t flags, uct_mem_h *memh)
{
	*memh = UCT_MEM_HANDLE_NULL;
	if (!(md->lower_attr.flags & UCT_MD_FLAG_REG))
		return UCS_OK;
	return uct_md_mem_reg(md->lower, address, length, (unsigned)flags, memh);
}

ucs_status_t zipu_md_reg(struct zipu_md *md, void *address, size_t length, uint64_t flags, uct_mem_h *memh)
{
	struct zipu_mem *mem = calloc(1, sizeof(*mem)), **bucket;
	ucs_status_t status;

	if (!mem)
		return UCS_ERR_NO_MEMORY;
	status = zipu_md_lower_reg(md, address, length, flags, &mem->lower);
	if (status != UCS_OK) {
		free(mem);
		return status;
	}
	mem->address = (uintptr_t)address;
	mem->length = length;
	mem->access = (unsigned)flags;
	pthread_rwlock_wrlock(&md->lock);
	do { /* not to be guessed, and never 0 */
		md->count++;
		mem->key = XXH3_64bits_withSeed(&md->count, sizeof(md->count), md->secret);
	} while (!mem->key);
	bucket = zipu_key_bucket(md, mem->key);
	mem->next = *bucket;
	*bucket = mem;
	pthread_rwlock_unlock(&md->lock);
	*memh = mem;
	return UCS_OK;
}

/* Takes it out of the table. Returns 1 when nobody uses it. */
static int zipu_mem_remove(struct zipu_md *md, struct zipu_mem *mem)
{
	struct zipu_mem **link = zipu_key_bucket(md, mem->key);
	int unused;

	pthread_rwlock_wrlock(&md->lock);
	while (*link != mem)
		link = &(*link)->next;
	*link = mem->next;
	unused = !mem->users;
	if (!unused) {
		mem->dead = true;
		md->dead++;
		__atomic_add_fetch(&md->deaths, 1, __ATOMIC_RELAXED);
	}
	pthread_rwlock_unlock(&md->lock);
	return unused;
}

ucs_status_t zipu_md_dereg(struct zipu_md *md, uct_mem_h memh, unsigned flags, uct_completion_t *comp)
{
	struct zipu_mem *mem = memh;
	int invalidate = !!(flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE);
	int below = invalidate && md->lower_rma && mem->lower != UCT_MEM_HANDLE_NULL;
	uct_md_mem_dereg_params_t params = {
		.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH,
		.memh = mem->lower,
	};
	ucs_status_t status = UCS_OK;

	if (invalidate && !comp)
		return UCS_ERR_INVALID_PARAM;
	if (below) { /* who may use the lower key is told to stop by the lower domain */
		params.field_mask |= UCT_MD_MEM_DEREG_FIELD_FLAGS | UCT_MD_MEM_DEREG_FIELD_COMPLETION;
		params.flags = flags;
		params.comp = comp;
	}
	/* From here on nobody finds the key. */
	if (zipu_mem_remove(md, mem))
		free(mem);
	if (params.memh != UCT_MEM_HANDLE_NULL)
		status = uct_md_mem_dereg_v2(md->lower, &params);
	if (invalidate && !below)
		uct_invoke_completion(comp, UCS_OK);
	return status;
}

/* Under the lock. */
static struct zipu_mem *zipu_mem_find(struct zipu_md *md, uint64_t key, uint64_t address, uint64_t length, unsigned access)
{
	struct zipu_mem *mem = *zipu_key_bucket(md, key);

	while (mem && mem->key != key)
		mem = mem->next;
	if (mem && (address < mem->address || length > mem->length || address - mem->address > mem->length - length ||
		    !(mem->access & access)))
		mem = NULL;
	return mem;
}

struct zipu_mem *zipu_mem_get(struct zipu_md *md, uint64_t key, uint64_t address, uint64_t length, unsigned access)
{
	struct zipu_mem *mem;

	pthread_rwlock_wrlock(&md->lock);
	mem = zipu_mem_find(md, key, address, length, access);
	if (mem)
		mem->users++;
	pthread_rwlock_unlock(&md->lock);
	return mem;
}

int zipu_mem_lock(struct zipu_md *md, uint64_t key, uint64_t address, uint64_t length, unsigned access)
{
	pthread_rwlock_rdlock(&md->lock);
	if (zipu_mem_find(md, key, address, length, access))
		return 1;
	pthread_rwlock_unlock(&md->lock);
	return 0;
}

void zipu_mem_unlock(struct zipu_md *md)
{
	pthread_rwlock_unlock(&md->lock);
}

void zipu_mem_put(struct zipu_md *md, struct zipu_mem *mem)
{
	int gone;

	pthread_rwlock_wrlock(&md->lock);
	gone = !--mem->users && mem->dead;
	md->dead -= (unsigned)gone;
	pthread_rwlock_unlock(&md->lock);
	if (gone)
		free(mem);
}

/* ---- keys */

ucs_status_t zipu_md_pack(struct zipu_md *md, uct_mem_h memh, void *address, size_t length, unsigned flags, void *buffer)
{
	struct zipu_mem *mem = memh;
	struct zipu_packed_key packed = {
		.key = mem->key,
		.component = zipu_lower_hash(md->lower_component),
		.size = mem->lower == UCT_MEM_HANDLE_NULL ? 0 : (uint32_t)md->lower_attr.rkey_size,
	};

	memcpy(buffer, &packed, sizeof(packed));
	if (!packed.size)
		return UCS_OK;
	if (!md->lower_rma)
		flags &= ~(unsigned)ZIPU_PACK_INVALIDATE;
	return zipu_lower_pack(md->lower, mem->lower, address, length, flags, (char *)buffer + sizeof(packed));
}

ucs_status_t zipu_rkey_unpack(const void *buffer, uct_rkey_t *rkey_p)
{
	struct zipu_packed_key packed;
	struct zipu_rkey *rkey = calloc(1, sizeof(*rkey));
	ucs_status_t status;

	if (!rkey)
		return UCS_ERR_NO_MEMORY;
	memcpy(&packed, buffer, sizeof(packed));
	rkey->key = packed.key;
	rkey->lower.rkey = UCT_INVALID_RKEY;
	if (packed.size) {
		rkey->component = zipu_lower_by_hash(packed.component);
		status = rkey->component ? uct_rkey_unpack(rkey->component, (const char *)buffer + sizeof(packed), &rkey->lower)
					 : UCS_ERR_UNREACHABLE;
		if (status != UCS_OK) {
			free(rkey);
			return status;
		}
	}
	*rkey_p = (uct_rkey_t)rkey;
	return UCS_OK;
}

void zipu_rkey_release(uct_rkey_t handle)
{
	struct zipu_rkey *rkey = (struct zipu_rkey *)handle;

	if (rkey->component)
		uct_rkey_release(rkey->component, &rkey->lower);
	free(rkey);
}

/* ---- the domain */

void zipu_md_query(struct zipu_md *md, struct zipu_md_attr *attr)
{
	*attr = md->lower_attr;
	/* What the engine's devices can read and write; other memory of the lower domain goes through the lower transport. */
	attr->reg_mem_types &= UCS_BIT(UCS_MEMORY_TYPE_HOST);
	attr->access_mem_types &= UCS_BIT(UCS_MEMORY_TYPE_HOST);
	attr->detect_mem_types = 0;
	attr->flags &= UCT_MD_FLAG_NEED_MEMH;
	attr->flags |= UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY | ZIPU_MD_INVALIDATE;
	attr->reg_mem_types |= UCS_BIT(UCS_MEMORY_TYPE_HOST);
	attr->access_mem_types |= UCS_BIT(UCS_MEMORY_TYPE_HOST);
	if (!(md->lower_attr.flags & UCT_MD_FLAG_REG))
		attr->max_reg = ULONG_MAX;
	attr->rkey_size = sizeof(struct zipu_packed_key) + md->lower_attr.rkey_size;
}

ucs_status_t zipu_query_md_resources(uct_md_resource_desc_t **resources_p, unsigned *count_p)
{
	uct_md_resource_desc_t *resources;
	struct zipu_lower *lowers;
	uct_md_config_t *config;
	unsigned i, count;
	ucs_status_t status;

	*resources_p = NULL;
	*count_p = 0;
	if (!zipu_check_version())
		return UCS_OK;
	status = uct_md_config_read(&zipu_component, NULL, NULL, &config);
	if (status != UCS_OK)
		return status;
	status = zipu_lower_find(&((struct zipu_md_config *)(void *)config)->tl, &lowers, &count);
	uct_config_release(config);
	if (status != UCS_OK)
		return status;
	resources = ucs_calloc(count ? count : 1, sizeof(*resources), "zip domains"); /* UCX frees it */
	for (i = 0; resources && i < count; i++)
		ucs_strncpy_zero(resources[i].md_name, lowers[i].name, sizeof(resources[i].md_name));
	free(lowers);
	if (!resources)
		return UCS_ERR_NO_MEMORY;
	*resources_p = resources;
	*count_p = count;
	return UCS_OK;
}

static ucs_status_t zipu_md_open_lower(struct zipu_md *md, const char *name, const struct zipu_md_config *config)
{
	struct zipu_lower *lowers;
	unsigned i, count;
	ucs_status_t status = zipu_lower_find(&config->tl, &lowers, &count);

	if (status != UCS_OK)
		return status;
	for (i = 0; i < count && strcmp(lowers[i].name, name); i++)
		;
	status = UCS_ERR_NO_DEVICE;
	if (i < count) {
		md->lower_component = lowers[i].component;
		ucs_strncpy_zero(md->tl_name, lowers[i].tl_name, sizeof(md->tl_name));
		status = zipu_lower_open_md(md->lower_component, lowers[i].md_name, &md->lower);
	}
	free(lowers);
	return status;
}

ucs_status_t zipu_md_open(const char *name, const uct_md_config_t *config, struct zipu_md **md_p)
{
	struct zipu_md *md = calloc(1, sizeof(*md));
	ucs_status_t status;

	if (!md)
		return UCS_ERR_NO_MEMORY;
	if (getrandom(&md->secret, sizeof(md->secret), 0) != sizeof(md->secret)) {
		status = UCS_ERR_IO_ERROR;
		goto err_free;
	}
	status = zipu_md_open_lower(md, name, (const struct zipu_md_config *)(const void *)config);
	if (status != UCS_OK)
		goto err_free;
	status = zipu_lower_md_query(md->lower, &md->lower_attr);
	if (status != UCS_OK)
		goto err_lower;
	md->stat_page = ((const struct zipu_md_config *)(const void *)config)->stat_page;
	md->lower_rma = !!(md->lower_attr.flags & ZIPU_MD_INVALIDATE);
	pthread_rwlock_init(&md->lock, NULL);
	*md_p = md;
	return UCS_OK;

err_lower:
	uct_md_close(md->lower);
err_free:
	free(md);
	return status;
}

void zipu_md_close(struct zipu_md *md)
{
	zipu_page_close(md);
	uct_md_close(md->lower);
	pthread_rwlock_destroy(&md->lock);
	free(md);
}
