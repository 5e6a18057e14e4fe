/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks in addresses: where a peer says that it runs zip, and where its companion is.
 *
 * | format        | spare bytes                         | mark                                                     |
 * |---------------|-------------------------------------|----------------------------------------------------------|
 * | efa           | 2 bytes padding + 8 bytes `next`    | qpn in the padding; "zp1\0" and qkey in `next`           |
 * | string (shm)  | the name itself, where it is ours   | it ends in "~z"; the companion's name is the name + "c"  |
 *
 * A core ignores these bytes, or the name is the real one: a plain peer can use a marked address as it is. IP addresses
 * have no such room (an AV refuses a sin_zero that is not zero): for them there is zipfi_beacon.c.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "zipfi.h"

#define ZIPFI_STR_AUTO "fi_shm://" /* a name the core made up: nobody knows it by convention, so it may get a suffix */
#define ZIPFI_STR_MARK "~z"
#define ZIPFI_STR_COMP "c"

/* Layout of struct efa_ep_addr in libfabric's prov/efa. */
struct zipfi_efa_addr {
	uint8_t raw[16];
	uint16_t qpn;
	uint16_t pad;
	uint32_t qkey;
	char mark[4];
	uint32_t mark_qkey;
};

static bool zipfi_addr_is_str(uint32_t format)
{
	return format == FI_ADDR_STR;
}

static sa_family_t zipfi_addr_family(uint32_t format, const void *addr, size_t len)
{
	sa_family_t family = AF_UNSPEC;

	if (format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6 || format == FI_SOCKADDR)
		if (len >= sizeof(family))
			memcpy(&family, addr, sizeof(family));
	if (family == AF_INET && len < sizeof(struct sockaddr_in))
		return AF_UNSPEC;
	if (family == AF_INET6 && len < sizeof(struct sockaddr_in6))
		return AF_UNSPEC;
	return family;
}

static void zipfi_split_efa(struct zipfi_addr *out)
{
	struct zipfi_efa_addr efa, comp;

	memcpy(&efa, out->main, sizeof(efa));
	if (memcmp(efa.mark, "zp1", 4))
		return;
	comp = efa;
	comp.qpn = efa.pad;
	comp.qkey = efa.mark_qkey;
	efa.pad = comp.pad = 0;
	efa.mark_qkey = comp.mark_qkey = 0;
	memset(efa.mark, 0, sizeof(efa.mark));
	memset(comp.mark, 0, sizeof(comp.mark));
	memcpy(out->main, &efa, sizeof(efa));
	memcpy(out->comp, &comp, sizeof(comp));
	out->comp_len = sizeof(comp);
}

static bool zipfi_str_marked(const char *name, size_t n)
{
	const size_t mark = sizeof(ZIPFI_STR_MARK) - 1, head = sizeof(ZIPFI_STR_AUTO) - 1;

	return n > head + mark && n + sizeof(ZIPFI_STR_COMP) <= ZIPC_ADDR_MAX && !memcmp(name, ZIPFI_STR_AUTO, head) &&
	       !memcmp(name + n - mark, ZIPFI_STR_MARK, mark);
}

static int zipfi_split_str(const char *addr, size_t len, struct zipfi_addr *out)
{
	size_t n = strnlen(addr, len);

	if (n == len || n + 1 > ZIPC_ADDR_MAX)
		return -FI_EINVAL;
	memset(out->main, 0, sizeof(out->main));
	memcpy(out->main, addr, n + 1);
	out->main_len = n + 1;
	if (!zipfi_str_marked(addr, n))
		return 0;
	memcpy(out->comp, addr, n);
	memcpy(out->comp + n, ZIPFI_STR_COMP, sizeof(ZIPFI_STR_COMP));
	out->comp_len = n + sizeof(ZIPFI_STR_COMP);
	return 0;
}

int zipfi_addr_split(uint32_t format, const void *addr, size_t len, struct zipfi_addr *out)
{
	out->comp_len = 0;
	if (zipfi_addr_is_str(format))
		return zipfi_split_str(addr, len, out);
	if (!len || len > ZIPC_ADDR_MAX)
		return -FI_EINVAL;
	memcpy(out->main, addr, len);
	out->main_len = len;
	if (format == FI_ADDR_EFA && len == sizeof(struct zipfi_efa_addr))
		zipfi_split_efa(out);
	return 0;
}

static int zipfi_mark_efa(void *main, const void *comp)
{
	struct zipfi_efa_addr efa, other;

	memcpy(&efa, main, sizeof(efa));
	memcpy(&other, comp, sizeof(other));
	if (memcmp(efa.raw, other.raw, sizeof(efa.raw)) || efa.pad || efa.mark_qkey || memcmp(efa.mark, "\0\0\0", 4))
		return -FI_ENOSYS;
	efa.pad = other.qpn;
	efa.mark_qkey = other.qkey;
	memcpy(efa.mark, "zp1", 4);
	memcpy(main, &efa, sizeof(efa));
	return 0;
}

static int zipfi_mark_str(const char *main, size_t len, const char *comp, size_t comp_len)
{
	size_t n = strnlen(main, len);

	/* The name carries its mark already; the companion must have the name that peers will derive. */
	if (n == len || !zipfi_str_marked(main, n) || comp_len != n + sizeof(ZIPFI_STR_COMP) || memcmp(comp, main, n) ||
	    memcmp(comp + n, ZIPFI_STR_COMP, sizeof(ZIPFI_STR_COMP)))
		return -FI_ENOSYS;
	return 0;
}

int zipfi_addr_mark(uint32_t format, void *main, size_t len, const void *comp, size_t comp_len)
{
	if (zipfi_addr_is_str(format))
		return zipfi_mark_str(main, len, comp, comp_len);
	if (comp_len != len)
		return -FI_ENOSYS;
	if (format == FI_ADDR_EFA && comp_len == sizeof(struct zipfi_efa_addr))
		return zipfi_mark_efa(main, comp);
	return -FI_ENOSYS;
}

size_t zipfi_addr_size(uint32_t format, const void *addr)
{
	switch (format) {
	case FI_SOCKADDR_IN:
		return sizeof(struct sockaddr_in);
	case FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	case FI_SOCKADDR:
		return ((const struct sockaddr *)addr)->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
									      : sizeof(struct sockaddr_in);
	case FI_SOCKADDR_IB:
		return 48; /* struct sockaddr_ib */
	case FI_ADDR_EFA:
		return sizeof(struct zipfi_efa_addr);
	case FI_ADDR_STR: /* names one after the other, as shm wants them */
		if (strncmp(addr, ZIPFI_STR_AUTO, strlen(ZIPFI_STR_AUTO)) && strncmp(addr, "fi_ns://", 8))
			return 0;
		return strnlen(addr, ZIPC_ADDR_MAX) + 1;
	default:
		return 0;
	}
}

int zipfi_addr_companion(uint32_t format, const void *main, size_t main_len, void *out, size_t *out_len)
{
	sa_family_t family = zipfi_addr_family(format, main, main_len);
	size_t n;

	if (zipfi_addr_is_str(format)) {
		n = strnlen(main, main_len);
		if (n == main_len || !zipfi_str_marked(main, n))
			return -FI_ENOSYS;
		memcpy(out, main, n);
		memcpy((char *)out + n, ZIPFI_STR_COMP, sizeof(ZIPFI_STR_COMP));
		*out_len = n + sizeof(ZIPFI_STR_COMP);
		return 0;
	}
	if (main_len > ZIPC_ADDR_MAX)
		return -FI_ENOSYS;
	memcpy(out, main, main_len);
	*out_len = main_len;
	if (family == AF_INET)
		((struct sockaddr_in *)out)->sin_port = 0;
	else if (family == AF_INET6)
		((struct sockaddr_in6 *)out)->sin6_port = 0;
	return 0;
}

int zipfi_addr_rename(uint32_t format, char *name, size_t *len, size_t room)
{
	size_t n = strnlen(name, *len);

	if (!zipfi_addr_is_str(format) || n == *len || strncmp(name, ZIPFI_STR_AUTO, strlen(ZIPFI_STR_AUTO)) ||
	    n + sizeof(ZIPFI_STR_MARK) > room)
		return -FI_ENOSYS;
	memcpy(name + n, ZIPFI_STR_MARK, sizeof(ZIPFI_STR_MARK));
	*len = n + sizeof(ZIPFI_STR_MARK);
	return 0;
}
