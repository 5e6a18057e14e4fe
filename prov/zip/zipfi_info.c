/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fi_getinfo: which core is meant, what is asked of it, and what of its answer changes.
 *
 * The names: FI_PROVIDER="zip;tcp" is a filter that only lets through names that start with it, so that what is
 * returned there is called "zip;" + the core's name; libfabric appends ";ofi_zip" by itself in any case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zipfi_hmem.h"

/* Capabilities that end at this layer: contexts and operations it does not wrap. */
#define ZIPFI_CAPS_OUT (FI_TRIGGER | FI_NAMED_RX_CTX | FI_COLLECTIVE | FI_MULTICAST | (1ULL << 44) /* FI_XPU_TRIGGER */)
/* Depth of our own queries in this thread: the inner fi_getinfo must not come back to us. */
static __thread int zipfi_depth;

/* FI_TAG_GENERIC of libfabric 2: every bit a field of its own. */
#define ZIPFI_TAG_GENERIC 0xaaaaaaaaaaaaaaaaULL

static bool zipfi_is_own_name(const char *name, size_t len)
{
	return (len == 3 && !strncasecmp(name, "zip", 3)) || (len == strlen(ZIPFI_NAME) && !strncasecmp(name, ZIPFI_NAME, len));
}

/* Copies the parts of a ';' list, ours left out; *own says whether there was one of ours. */
static char *zipfi_strip_name(const char *name, size_t len, bool *own)
{
	char *out = calloc(1, len + 1);
	size_t at = 0, used = 0;

	*own = false;
	while (out && at < len) {
		const char *end = memchr(name + at, ';', len - at);
		size_t n = end ? (size_t)(end - name) - at : len - at;

		if (zipfi_is_own_name(name + at, n)) {
			*own = true;
		} else if (n) {
			if (used)
				out[used++] = ';';
			memcpy(out + used, name + at, n);
			used += n;
		}
		at += n + 1;
	}
	return out;
}

char *zipfi_core_name(const char *name)
{
	bool own;
	char *out = zipfi_strip_name(name, strlen(name), &own);

	if (out && !out[0]) {
		free(out);
		return NULL;
	}
	return out;
}

/* How FI_PROVIDER asks for us. */
struct zipfi_filter {
	bool named;   /* an entry of it names us */
	bool prefix;  /* that entry begins with "zip" */
	char *core;   /* the rest of the entry, or NULL */
};

static void zipfi_filter_read(struct zipfi_filter *filter)
{
	const char *text = getenv("FI_PROVIDER");
	bool own;

	memset(filter, 0, sizeof(*filter));
	while (text && *text && *text != '^') {
		size_t len = strcspn(text, ",");
		char *core = zipfi_strip_name(text, len, &own);

		if (own) {
			filter->named = true;
			filter->prefix = !strncasecmp(text, "zip", 3) && (len == 3 || text[3] == ';');
			filter->core = core && core[0] ? core : NULL;
			if (!filter->core)
				free(core);
			return;
		}
		free(core);
		text += len;
		text += *text == ',';
	}
}

bool zipfi_core_is_hidden(void)
{
	struct zipfi_filter filter;

	zipfi_filter_read(&filter);
	free(filter.core);
	return filter.prefix;
}

/* Decides for which core, if any, this query is ours. Returns 0, or -FI_ENODATA. */
static int zipfi_choose_core(const struct fi_info *hints, struct zipfi_filter *filter, char **core)
{
	const char *asked = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	bool own = false;
	char *rest = asked ? zipfi_strip_name(asked, strlen(asked), &own) : NULL;

	zipfi_filter_read(filter);
	/* Only by name: a provider that is merely installed must not turn up in anybody's list. */
	if (!filter->named && !own) {
		free(rest);
		return -FI_ENODATA;
	}
	*core = rest && rest[0] ? rest : filter->core ? strdup(filter->core) : NULL;
	if (rest && *core != rest)
		free(rest);
	return 0;
}

uint64_t zipfi_tag_bit(uint64_t format, uint64_t *rest)
{
	uint64_t bit;

	/* Small values are names of formats (FI_TAG_MPI, ...), which leave the top bit alone. */
	if (format < 1ULL << 16) {
		*rest = format;
		return 1ULL << 63;
	}
	bit = 1ULL << (63 - __builtin_clzll(format));
	/* A format of alternating bits shifts down whole; any other loses its top bit. */
	*rest = format == ZIPFI_TAG_GENERIC ? format >> 1 : format & ~bit;
	return bit;
}

/* A copy of `hints` (or of nothing) in which no attribute is missing. */
static struct fi_info *zipfi_full_hints(const struct fi_info *hints)
{
	struct fi_info *full = fi_dupinfo(hints), *empty = fi_dupinfo(NULL);

#define ZIPFI_FILL(attr)                               \
	do {                                           \
		if (!full->attr) {                     \
			full->attr = empty->attr;      \
			empty->attr = NULL;            \
		}                                      \
	} while (0)
	if (full && empty) {
		ZIPFI_FILL(tx_attr);
		ZIPFI_FILL(rx_attr);
		ZIPFI_FILL(ep_attr);
		ZIPFI_FILL(domain_attr);
		ZIPFI_FILL(fabric_attr);
	} else {
		fi_freeinfo(full);
		full = NULL;
	}
#undef ZIPFI_FILL
	fi_freeinfo(empty);
	return full;
}

/* What is asked of the core for `hints`. */
static struct fi_info *zipfi_inner_hints(const struct fi_info *hints, const char *core)
{
	struct fi_info *inner = zipfi_full_hints(hints);

	if (!inner)
		return NULL;
	free(inner->fabric_attr->prov_name);
	inner->fabric_attr->prov_name = core ? strdup(core) : NULL;
	/* Objects of ours mean nothing to the core. */
	inner->fabric_attr->fabric = NULL;
	inner->domain_attr->domain = NULL;
	inner->ep_attr->type = FI_EP_RDM;
	if (!hints)
		inner->mode = ~0ULL;
	/* The companion sends untagged control messages and tagged parts. */
	if (inner->caps)
		inner->caps |= FI_MSG | FI_TAGGED;
	if (inner->tx_attr->caps)
		inner->tx_attr->caps |= FI_MSG | FI_TAGGED;
	if (inner->rx_attr->caps)
		inner->rx_attr->caps |= FI_MSG | FI_TAGGED;
	/* Records are the contexts the core sees, so its wish for some is granted here. */
	inner->mode |= FI_CONTEXT | FI_CONTEXT2;
	inner->tx_attr->mode |= hints ? FI_CONTEXT | FI_CONTEXT2 : ~0ULL;
	inner->rx_attr->mode |= hints ? FI_CONTEXT | FI_CONTEXT2 : ~0ULL;
	if (inner->domain_attr->threading != FI_THREAD_DOMAIN)
		inner->domain_attr->threading = FI_THREAD_SAFE;
	if (inner->domain_attr->data_progress == FI_PROGRESS_AUTO)
		inner->domain_attr->threading = FI_THREAD_SAFE;
	inner->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	inner->ep_attr->mem_tag_format = 0;
	return inner;
}

/* Does the application ask for more tag bits than are left? */
static bool zipfi_tags_fit(const struct fi_info *hints, uint64_t left)
{
	uint64_t want = hints && hints->ep_attr ? hints->ep_attr->mem_tag_format : 0;

	if (want < 1ULL << 16 || left < 1ULL << 16)
		return true;
	return __builtin_clzll(want) >= __builtin_clzll(left);
}

static uint64_t zipfi_caps_out(uint64_t caps, uint64_t asked)
{
	caps &= ~ZIPFI_CAPS_OUT;
	/* What only the companion needs is not offered to an application that did not ask for it. */
	if (asked && !(asked & FI_TAGGED))
		caps &= ~FI_TAGGED;
	if (asked && !(asked & FI_MSG))
		caps &= ~FI_MSG;
	/* Some cores offer it unasked. Untagged transfers and multi-receive buffers exclude each other: who wants it asks. */
	if (asked && !(asked & FI_MULTI_RECV))
		caps &= ~FI_MULTI_RECV;
	return caps;
}

static uint64_t zipfi_order_out(uint64_t order, uint64_t asked)
{
	return order & ~(ZIPFI_ORDER_RMA & ~asked); /* only who insists gets what a transfer breaks */
}

static int zipfi_rename(struct fi_info *info, const struct zipfi_filter *filter)
{
	const char *core = info->fabric_attr->prov_name;
	size_t n = filter->core ? strlen(filter->core) : 0;
	char *name;

	if (!filter->prefix) {
		/* FI_PROVIDER="tcp;ofi_zip" lets "tcp;ofi_rxm;ofi_zip" not pass: the part in between is left out. */
		if (n && !strncasecmp(core, filter->core, n) && core[n] == ';')
			info->fabric_attr->prov_name[n] = 0;
		return 0;
	}
	if (asprintf(&name, "zip;%s", info->fabric_attr->prov_name) < 0)
		return -FI_ENOMEM;
	free(info->fabric_attr->prov_name);
	info->fabric_attr->prov_name = name;
	return 0;
}

/* Turns the core's info into ours, in place. -FI_ENODATA: it is not offered. */
static int zipfi_adapt_info(struct fi_info *info, const struct fi_info *hints, const struct zipfi_filter *filter)
{
	const struct fi_info none = {0};
	uint64_t left, tx_asked, rx_asked;

	if (info->ep_attr->type != FI_EP_RDM || (info->mode & FI_MSG_PREFIX))
		return -FI_ENODATA;
	zipfi_tag_bit(info->ep_attr->mem_tag_format, &left);
	if (!zipfi_tags_fit(hints, left))
		return -FI_ENODATA;
	if (info->ep_attr->mem_tag_format)
		info->ep_attr->mem_tag_format = left;
	if (!hints)
		hints = &none;
	tx_asked = hints->tx_attr ? hints->tx_attr->msg_order : 0;
	rx_asked = hints->rx_attr ? hints->rx_attr->msg_order : 0;
	info->caps = zipfi_caps_out(info->caps, hints->caps);
	info->tx_attr->caps = zipfi_caps_out(info->tx_attr->caps, hints->caps);
	info->rx_attr->caps = zipfi_caps_out(info->rx_attr->caps, hints->caps);
	info->tx_attr->msg_order = zipfi_order_out(info->tx_attr->msg_order, tx_asked);
	info->rx_attr->msg_order = zipfi_order_out(info->rx_attr->msg_order, rx_asked);
	info->tx_attr->comp_order = 0;
	info->rx_attr->comp_order = 0;
	info->mode &= ~(FI_CONTEXT | FI_CONTEXT2);
	info->tx_attr->mode &= ~(FI_CONTEXT | FI_CONTEXT2);
	info->rx_attr->mode &= ~(FI_CONTEXT | FI_CONTEXT2);
	info->ep_attr->tx_ctx_cnt = 1;
	info->ep_attr->rx_ctx_cnt = 1;
	info->domain_attr->max_ep_tx_ctx = 1;
	info->domain_attr->max_ep_rx_ctx = 1;
	info->domain_attr->max_ep_stx_ctx = 0;
	info->domain_attr->max_ep_srx_ctx = 0;
	if (info->tx_attr->iov_limit > ZIPFI_IOV_MAX)
		info->tx_attr->iov_limit = ZIPFI_IOV_MAX;
	if (info->rx_attr->iov_limit > ZIPFI_IOV_MAX)
		info->rx_attr->iov_limit = ZIPFI_IOV_MAX;
	info->domain_attr->data_progress = hints->domain_attr && hints->domain_attr->data_progress == FI_PROGRESS_AUTO
						   ? FI_PROGRESS_AUTO
						   : FI_PROGRESS_MANUAL;
	if (hints->domain_attr && hints->domain_attr->threading)
		info->domain_attr->threading = hints->domain_attr->threading;
	return zipfi_rename(info, filter);
}

/* Adapts every entry and drops those that are not offered. */
static int zipfi_adapt_list(struct fi_info **list, const struct fi_info *hints, const struct zipfi_filter *filter)
{
	struct fi_info **link = list, *info;

	while ((info = *link)) {
		if (!zipfi_adapt_info(info, hints, filter)) {
			link = &info->next;
			continue;
		}
		*link = info->next;
		info->next = NULL;
		fi_freeinfo(info);
	}
	return *list ? 0 : -FI_ENODATA;
}

/* A core's own FI_EP_RDM before one that a utility provider makes of it, as libfabric orders tcp when nothing is hidden. */
static void zipfi_reorder(struct fi_info **list)
{
	struct fi_info *own = NULL, **own_tail = &own, *layered = NULL, **layered_tail = &layered, *info;

	while ((info = *list)) {
		*list = info->next;
		info->next = NULL;
		if (strchr(info->fabric_attr->prov_name, ';')) {
			*layered_tail = info;
			layered_tail = &info->next;
		} else {
			*own_tail = info;
			own_tail = &info->next;
		}
	}
	*own_tail = layered;
	*list = own;
}

void zipfi_strip_hmem(struct fi_info *info)
{
	info->caps &= ~FI_HMEM;
	info->tx_attr->caps &= ~FI_HMEM;
	info->rx_attr->caps &= ~FI_HMEM;
	info->domain_attr->caps &= ~FI_HMEM;
	info->domain_attr->mr_mode &= ~FI_MR_HMEM;
}

/* Over a core without it we serve device memory in messages; not where it is the target or source of somebody else's RMA. */
static bool zipfi_can_stage(const struct fi_info *hints)
{
	return hints && (hints->caps & FI_HMEM) && !(hints->caps & (FI_RMA | FI_ATOMIC)) && zipfi_hmem_possible();
}

static void zipfi_add_hmem(struct fi_info *info, const struct fi_info *hints)
{
	for (; info; info = info->next) {
		info->caps |= FI_HMEM;
		if (hints->tx_attr)
			info->tx_attr->caps |= hints->tx_attr->caps & FI_HMEM;
		if (hints->rx_attr)
			info->rx_attr->caps |= hints->rx_attr->caps & FI_HMEM;
	}
}

/* Without the companion's needs: a core that has no tagged messages is passed through. */
static int zipfi_query(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		       const char *core, struct fi_info **info)
{
	struct fi_info *inner = zipfi_inner_hints(hints, core);
	int ret;

	if (!inner)
		return -FI_ENOMEM;
	zipfi_depth++;
	ret = fi_getinfo(version, node, service, flags | ZIPFI_GETINFO_HIDDEN, inner, info);
	if (ret == -FI_ENODATA && zipfi_can_stage(hints)) {
		zipfi_strip_hmem(inner);
		ret = fi_getinfo(version, node, service, flags | ZIPFI_GETINFO_HIDDEN, inner, info);
		if (!ret)
			zipfi_add_hmem(*info, hints);
	}
	if (ret == -FI_ENODATA && hints && hints->caps) {
		inner->caps = hints->caps;
		inner->tx_attr->caps = hints->tx_attr ? hints->tx_attr->caps : 0;
		inner->rx_attr->caps = hints->rx_attr ? hints->rx_attr->caps : 0;
		ret = fi_getinfo(version, node, service, flags | ZIPFI_GETINFO_HIDDEN, inner, info);
	}
	zipfi_depth--;
	fi_freeinfo(inner);
	return ret;
}

/* Addresses that the application made from a peer's fi_getname carry the mark; the core is asked without it. */
static struct fi_info *zipfi_plain_hints(const struct fi_info *hints)
{
	struct fi_info *plain = fi_dupinfo(hints);
	struct zipfi_addr addr;

	if (!plain)
		return NULL;
	if (plain->dest_addr && !zipfi_addr_split(plain->addr_format, plain->dest_addr, plain->dest_addrlen, &addr) &&
	    addr.comp_len) {
		memcpy(plain->dest_addr, addr.main, addr.main_len);
		plain->dest_addrlen = addr.main_len;
	}
	if (plain->src_addr && !zipfi_addr_split(plain->addr_format, plain->src_addr, plain->src_addrlen, &addr) &&
	    addr.comp_len) {
		memcpy(plain->src_addr, addr.main, addr.main_len);
		plain->src_addrlen = addr.main_len;
	}
	return plain;
}

int zipfi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info)
{
	struct fi_info *plain = NULL;
	struct zipfi_filter filter;
	char *core = NULL;
	int ret;

	if (zipfi_depth || (flags & ZIPFI_CORE_PROV_ONLY))
		return -FI_ENODATA;
	if (hints && ((hints->caps & ZIPFI_CAPS_OUT) ||
		      (hints->ep_attr && hints->ep_attr->type && hints->ep_attr->type != FI_EP_RDM)))
		return -FI_ENODATA;
	ret = zipfi_choose_core(hints, &filter, &core);
	if (ret)
		goto out;
	ret = zipfi_param_read();
	if (ret)
		goto out;
	if (hints) {
		plain = zipfi_plain_hints(hints);
		if (!plain) {
			ret = -FI_ENOMEM;
			goto out;
		}
	}
	ret = zipfi_query(version, node, service, flags, plain, core, info);
	if (!ret) {
		zipfi_reorder(info);
		ret = zipfi_adapt_list(info, plain, &filter);
	}
	if (plain)
		fi_freeinfo(plain);
out:
	free(core);
	free(filter.core);
	return ret;
}

char *zipfi_resolve_core(const char *name, const char *fabric_name, uint32_t api_version)
{
	struct fi_info *hints = fi_dupinfo(NULL), *info = NULL;
	char *core = zipfi_core_name(name), *full = NULL;

	if (core && hints) {
		hints->fabric_attr->prov_name = strdup(core);
		hints->fabric_attr->name = strdup(fabric_name);
		hints->ep_attr->type = FI_EP_RDM;
		hints->mode = ~0ULL;
		hints->domain_attr->mode = ~0ULL;
		hints->domain_attr->mr_mode = ~3; /* all but the obsolete FI_MR_BASIC and FI_MR_SCALABLE */
		zipfi_depth++;
		if (!fi_getinfo(api_version, NULL, NULL, ZIPFI_GETINFO_HIDDEN, hints, &info)) {
			zipfi_reorder(&info);
			full = strdup(info->fabric_attr->prov_name);
			fi_freeinfo(info);
		}
		zipfi_depth--;
	}
	if (hints)
		fi_freeinfo(hints);
	if (!full)
		return core;
	free(core);
	return full;
}

bool zipfi_core_has_hmem(const struct fi_info *info, const struct zipfi_fabric *fabric)
{
	struct fi_info *hints, *found = NULL;
	int ret;

	if (fabric->hooked) /* then the info is the core's own */
		return true;
	hints = zipfi_core_info(info, fabric);
	if (!hints)
		return false;
	hints->caps |= FI_HMEM;
	hints->handle = NULL;
	zipfi_depth++;
	ret = fi_getinfo(fabric->fid.api_version, NULL, NULL, ZIPFI_GETINFO_HIDDEN, hints, &found);
	zipfi_depth--;
	if (!ret)
		fi_freeinfo(found);
	fi_freeinfo(hints);
	return !ret;
}

struct fi_info *zipfi_core_info(const struct fi_info *info, const struct zipfi_fabric *fabric)
{
	struct fi_info *core = fi_dupinfo(info);

	if (!core)
		return NULL;
	if (!fabric->hooked) {
		free(core->fabric_attr->prov_name);
		core->fabric_attr->prov_name = strdup(fabric->core_name);
	}
	core->fabric_attr->fabric = NULL;
	core->domain_attr->domain = NULL;
	core->mode |= FI_CONTEXT | FI_CONTEXT2;
	core->tx_attr->mode |= FI_CONTEXT | FI_CONTEXT2;
	core->rx_attr->mode |= FI_CONTEXT | FI_CONTEXT2;
	if (core->domain_attr->threading != FI_THREAD_DOMAIN || core->domain_attr->data_progress == FI_PROGRESS_AUTO)
		core->domain_attr->threading = FI_THREAD_SAFE;
	/* As it was asked: a thread of ours drives it. shm has nothing else. */
	core->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	core->ep_attr->mem_tag_format = 0;
	return core;
}
