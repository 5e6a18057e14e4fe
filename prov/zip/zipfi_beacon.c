/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding peers by IP: where an address has no spare bytes, the companion's is announced beside it.
 *
 * A sockaddr_in has none: libfabric's AV refuses addresses whose sin_zero is not zero. But the endpoint's TCP port number
 * is free as a UDP port. So an endpoint of ours listens there for one kind of datagram, the announcement
 *
 *	"ZPA1", version, length of an address, main address, companion's address
 *
 * and sends its own to the same UDP port of every peer it wants to meet. Who gets one answers with a hello between
 * companions (zipc_peer_meet), and both know each other. A plain peer has nothing on that port: it is never sent anything
 * by its application's protocol. A lost or filtered datagram only means that messages stay as they are.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zipfi.h"

#define ZIPFI_BEACON_MAGIC "ZPA1"
#define ZIPFI_BEACON_VERSION 1
#define ZIPFI_BEACON_POLL_MS 1
#define ZIPFI_BEACON_BURST 16

struct zipfi_beacon {
	char magic[4];
	uint8_t version, addr_len;
	uint8_t zero[2];
	uint8_t addrs[2 * sizeof(struct sockaddr_in6)]; /* main, then the companion's */
};

static size_t zipfi_beacon_size(size_t addr_len)
{
	return offsetof(struct zipfi_beacon, addrs) + 2 * addr_len;
}

/* Length of an IP address, 0 for any other. */
static size_t zipfi_ip_len(const void *addr, size_t len)
{
	sa_family_t family = AF_UNSPEC;

	if (len >= sizeof(family))
		memcpy(&family, addr, sizeof(family));
	if (family == AF_INET && len == sizeof(struct sockaddr_in))
		return len;
	return family == AF_INET6 && len == sizeof(struct sockaddr_in6) ? len : 0;
}

static bool zipfi_same_ip(const void *a, const void *b, size_t len)
{
	if (len == sizeof(struct sockaddr_in))
		return !memcmp(&((const struct sockaddr_in *)a)->sin_addr, &((const struct sockaddr_in *)b)->sin_addr,
			       sizeof(struct in_addr));
	return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
		       sizeof(struct in6_addr));
}

static bool zipfi_is_ip_format(uint32_t format)
{
	return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

int zipfi_beacon_open(struct zipfi_ep *ep, const void *comp, size_t comp_len)
{
	size_t len = zipfi_ip_len(ep->name, ep->name_len);
	struct sockaddr_storage addr;
	int fd;

	ep->beacon_fd = -1;
	if (!zipfi_is_ip_format(ep->domain->addr_format) || !len || comp_len != len || !zipfi_same_ip(ep->name, comp, len))
		return -FI_ENOSYS;
	memcpy(&addr, ep->name, len);
	memcpy(ep->comp_name, comp, comp_len);
	fd = socket(addr.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, (socklen_t)len)) {
		/* Somebody else's service has the number: we are not found, but can still find. */
		ZIPFI_INFO(EP_CTRL, "UDP port of the endpoint is taken: peers find this endpoint only when it sends first\n");
		if (len == sizeof(struct sockaddr_in))
			((struct sockaddr_in *)&addr)->sin_port = 0;
		else
			((struct sockaddr_in6 *)&addr)->sin6_port = 0;
		if (bind(fd, (struct sockaddr *)&addr, (socklen_t)len)) {
			close(fd);
			return -errno;
		}
	}
	ep->beacon_fd = fd;
	return 0;
}

void zipfi_beacon_close(struct zipfi_ep *ep)
{
	if (ep->beacon_fd >= 0)
		close(ep->beacon_fd);
	ep->beacon_fd = -1;
}

void zipfi_beacon_announce(struct zipfi_ep *ep, const struct zipfi_addr *to)
{
	struct zipfi_beacon msg = {.magic = ZIPFI_BEACON_MAGIC, .version = ZIPFI_BEACON_VERSION};
	size_t len = ep->beacon_fd >= 0 ? zipfi_ip_len(to->main, to->main_len) : 0;
	struct sockaddr_storage dest;

	if (!len || len != zipfi_ip_len(ep->name, ep->name_len))
		return;
	memcpy(&dest, to->main, len);
	msg.addr_len = (uint8_t)len;
	memcpy(msg.addrs, ep->name, len);
	memcpy(msg.addrs + len, ep->comp_name, len);
	/* Best effort: what does not arrive is announced again with a later large message. */
	if (sendto(ep->beacon_fd, &msg, zipfi_beacon_size(len), MSG_DONTWAIT, (struct sockaddr *)&dest, (socklen_t)len) < 0)
		return;
}

/* Who announces must be where it says it is, or it could make us greet third parties. */
static bool zipfi_beacon_valid(const struct zipfi_ep *ep, const struct zipfi_beacon *msg, size_t bytes, const void *from,
			       size_t from_len)
{
	size_t len = zipfi_ip_len(ep->name, ep->name_len);

	return bytes == zipfi_beacon_size(len) && !memcmp(msg->magic, ZIPFI_BEACON_MAGIC, 4) &&
	       msg->version == ZIPFI_BEACON_VERSION && msg->addr_len == len && !msg->zero[0] && !msg->zero[1] &&
	       from_len == len && zipfi_ip_len(msg->addrs, len) && zipfi_ip_len(msg->addrs + len, len) &&
	       zipfi_same_ip(msg->addrs, from, len) && zipfi_same_ip(msg->addrs + len, from, len);
}

void zipfi_beacon_poll(struct zipfi_ep *ep, bool now)
{
	struct sockaddr_storage from;
	struct zipfi_beacon msg;
	uint64_t ms = zipc_now_ms();
	int burst;

	if (ep->beacon_fd < 0 || (!now && ms - ep->beacon_ms < ZIPFI_BEACON_POLL_MS))
		return;
	ep->beacon_ms = ms;
	for (burst = 0; burst < ZIPFI_BEACON_BURST; burst++) {
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(ep->beacon_fd, &msg, sizeof(msg), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

		if (n < 0)
			return;
		if (zipfi_beacon_valid(ep, &msg, (size_t)n, &from, from_len))
			zipc_peer_meet(ep->engine, msg.addrs, msg.addr_len, msg.addrs + msg.addr_len, msg.addr_len);
	}
}
