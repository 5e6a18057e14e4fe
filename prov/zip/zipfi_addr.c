/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks in addresses: where a peer says that it runs zip, and where its companion is.
 *
 * | format        | spare bytes                         | mark                                                     |
 * |---------------|-------------------------------------|----------------------------------------------------------|
 * | sockaddr_in   | sin_zero[8]                         | 'z' 'p' version ~version, port[2] (net order), ~port[2]  |
 * | sockaddr_in6  | sin6_flowinfo (4)                   | 0xf2 'z', port[2]; the 20-bit label never has 0xf on top |
 * | efa           | 2 bytes padding + 8 bytes `next`    | qpn in the padding; "zp1\0" and qkey in `next`           |
 * | string (shm)  | the name itself, where it is ours   | it ends in "~z"; the companion's name is the name + "c"  |
 *
 * A core ignores these bytes, or the name is the real one: a plain peer can use a marked address as it is.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "zipfi.h"

#define ZIPFI_MARK_VERSION 1
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

static void zipfi_split_in(struct zipfi_addr *out)
{
	struct sockaddr_in sin, comp;
	uint8_t mark[8];
	uint16_t port;

	memcpy(&sin, out->main, sizeof(sin));
	memcpy(mark, sin.sin_zero, sizeof(mark));
	if (mark[0] != 'z' || mark[1] != 'p' || mark[2] != ZIPFI_MARK_VERSION || (mark[3] ^ mark[2]) != 0xff ||
	    (mark[6] ^ mark[4]) != 0xff || (mark[7] ^ mark[5]) != 0xff)
		return;
	memset(sin.sin_zero, 0, sizeof(sin.sin_zero));
	memcpy(out->main, &sin, sizeof(sin));
	comp = sin;
	memcpy(&port, mark + 4, sizeof(port));
	comp.sin_port = port;
	memcpy(out->comp, &comp, sizeof(comp));
	out->comp_len = sizeof(comp);
}

static void zipfi_split_in6(struct zipfi_addr *out)
{
	struct sockaddr_in6 sin6, comp;
	uint8_t mark[4];
	uint16_t port;

	memcpy(&sin6, out->main, sizeof(sin6));
	memcpy(mark, &sin6.sin6_flowinfo, sizeof(mark));
	if (mark[0] != 0xf2 || mark[1] != 'z')
		return;
	sin6.sin6_flowinfo = 0;
	memcpy(out->main, &sin6, sizeof(sin6));
	comp = sin6;
	memcpy(&port, mark + 2, sizeof(port));
	comp.sin6_port = port;
	memcpy(out->comp, &comp, sizeof(comp));
	out->comp_len = sizeof(comp);
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
	else if (zipfi_addr_family(format, addr, len) == AF_INET)
		zipfi_split_in(out);
	else if (zipfi_addr_family(format, addr, len) == AF_INET6)
		zipfi_split_in6(out);
	return 0;
}

static int zipfi_mark_in(void *main, const void *comp)
{
	struct sockaddr_in sin, other;
	uint8_t mark[8] = {'z', 'p', ZIPFI_MARK_VERSION, ZIPFI_MARK_VERSION ^ 0xff};

	memcpy(&sin, main, sizeof(sin));
	memcpy(&other, comp, sizeof(other));
	if (sin.sin_addr.s_addr != other.sin_addr.s_addr)
		return -FI_ENOSYS;
	memcpy(mark + 4, &other.sin_port, 2);
	mark[6] = mark[4] ^ 0xff;
	mark[7] = mark[5] ^ 0xff;
	memcpy(sin.sin_zero, mark, sizeof(mark));
	memcpy(main, &sin, sizeof(sin));
	return 0;
}

static int zipfi_mark_in6(void *main, const void *comp)
{
	struct sockaddr_in6 sin6, other;
	uint8_t mark[4] = {0xf2, 'z'};

	memcpy(&sin6, main, sizeof(sin6));
	memcpy(&other, comp, sizeof(other));
	if (memcmp(&sin6.sin6_addr, &other.sin6_addr, sizeof(sin6.sin6_addr)) || sin6.sin6_flowinfo)
		return -FI_ENOSYS;
	memcpy(mark + 2, &other.sin6_port, 2);
	memcpy(&sin6.sin6_flowinfo, mark, sizeof(mark));
	memcpy(main, &sin6, sizeof(sin6));
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
	sa_family_t family = zipfi_addr_family(format, main, len);

	if (zipfi_addr_is_str(format))
		return zipfi_mark_str(main, len, comp, comp_len);
	if (comp_len != len)
		return -FI_ENOSYS;
	if (format == FI_ADDR_EFA && comp_len == sizeof(struct zipfi_efa_addr))
		return zipfi_mark_efa(main, comp);
	if (family != zipfi_addr_family(format, comp, comp_len))
		return -FI_ENOSYS;
	if (family == AF_INET)
		return zipfi_mark_in(main, comp);
	if (family == AF_INET6)
		return zipfi_mark_in6(main, comp);
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
