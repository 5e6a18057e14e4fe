/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection beside the one that is measured: packets with a verb and a length. What comes from it is checked. */
#include "zip_perf.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKET_MAGIC 0x7a706600u /* "zpf", and the verb */
#define CONNECT_SECONDS 10

struct packet_head {
	uint32_t magic_verb, len;
};

static struct addrinfo *resolve(const char *host, const char *port, int flags)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(host, port, &hints, &list);

	if (!rc)
		return list;
	perf_fail("%s port %s: %s", host ? host : "any address", port, gai_strerror(rc));
	return NULL;
}

static int no_delay(int fd)
{
	int one = 1;

	/* a socket pair has no such option, and needs none */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Bind to the address the user gave, any port. */
static int bind_to(int fd, const char *address, int family)
{
	const struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(address, NULL, &hints, &list);

	if (!rc)
		rc = bind(fd, list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return rc;
}

static int connect_once(const struct addrinfo *to, const char *from)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if ((!from || !bind_to(fd, from, to->ai_family)) && !connect(fd, to->ai_addr, to->ai_addrlen))
		return fd;
	close(fd);
	return -1;
}

int perf_oob_connect(const struct perf_options *options)
{
	struct addrinfo *list = resolve(options->host, options->port, 0);
	unsigned seconds = options->plan.timeout_s < CONNECT_SECONDS ? options->plan.timeout_s : CONNECT_SECONDS;
	int fd = -1;

	if (!list)
		return -1;
	/* The server may have been started a moment ago. */
	for (unsigned tries = 0; fd < 0 && tries < seconds * 10; tries++) {
		for (struct addrinfo *to = list; to && fd < 0; to = to->ai_next)
			fd = connect_once(to, options->bind);
		if (fd < 0 && errno != ECONNREFUSED)
			break;
		if (fd < 0)
			usleep(100000);
	}
	if (fd < 0)
		perf_fail("%s port %s: %s; start the server there first: zip_perf%s%s", options->host, options->port,
			  strerror(errno), strcmp(options->port, "47320") ? " --port " : "",
			  strcmp(options->port, "47320") ? options->port : "");
	freeaddrinfo(list);
	return fd < 0 ? -1 : no_delay(fd);
}

static int listen_at(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, zero = 0;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, 1))
		return fd;
	close(fd);
	return -1;
}

int perf_oob_accept(const struct perf_options *options)
{
	struct addrinfo *list = resolve(options->bind, options->port, AI_PASSIVE);
	int fd = -1, client;

	if (!list)
		return -1;
	/* :: takes both families, where it can be had at all */
	for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
		if (options->bind || at->ai_family == AF_INET6)
			fd = listen_at(at);
	for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
		fd = listen_at(at);
	freeaddrinfo(list);
	if (fd < 0) {
		perf_fail("cannot listen at port %s: %s; another one may be running, --port chooses a free one", options->port,
			  strerror(errno));
		return -1;
	}
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "waiting at port %s; now run: zip_perf THIS-HOST [OPTIONS]\n", options->port);
	do
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	while (client < 0 && errno == EINTR);
	if (client < 0)
		perf_fail("accept: %s", strerror(errno));
	close(fd);
	return client < 0 ? -1 : no_delay(client);
}

void perf_oob_address(int fd, char *text, size_t room)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
	char host[NI_MAXHOST];

	text[0] = 0;
	if (getsockname(fd, (struct sockaddr *)&address, &len) ||
	    (address.ss_family != AF_INET && address.ss_family != AF_INET6))
		return;
	if (address.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		const uint8_t *b = six->sin6_addr.s6_addr + 12;

		snprintf(text, room, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
	} else if (!getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST)) {
		snprintf(text, room, "%s", host);
	}
}

int perf_oob_put(int fd, const void *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			perf_fail("the other side is gone: %s", strerror(errno));
			return -1;
		}
		bytes = (const uint8_t *)bytes + n;
		len -= (size_t)n;
	}
	return 0;
}

int perf_oob_get(int fd, void *bytes, size_t len, unsigned timeout_s)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	while (len) {
		int ready = poll(&pollfd, 1, (int)timeout_s * 1000);
		ssize_t n = ready > 0 ? recv(fd, bytes, len, 0) : 0;

		if ((ready < 0 || n < 0) && errno == EINTR)
			continue;
		if (n <= 0) {
			if (ready == 0)
				perf_fail("the other side has not answered for %u seconds (--timeout)", timeout_s);
			else
				perf_fail("the other side is gone%s%s", n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
			return -1;
		}
		bytes = (uint8_t *)bytes + n;
		len -= (size_t)n;
	}
	return 0;
}

int perf_oob_send(int fd, enum perf_verb verb, const void *payload, size_t len)
{
	const struct packet_head head = { PACKET_MAGIC | (uint32_t)verb, (uint32_t)len };

	if (perf_oob_put(fd, &head, sizeof(head)))
		return -1;
	return perf_oob_put(fd, payload, len);
}

/* The other side has given up: its words become ours. */
static int take_failure(int fd, size_t len, unsigned timeout_s)
{
	char text[512] = "";

	if (len >= sizeof(text) || perf_oob_get(fd, text, len, timeout_s))
		return -1;
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	perf_fail("the other side: %s", text);
	return -1;
}

int perf_oob_next(int fd, void *payload, size_t room, unsigned timeout_s)
{
	struct packet_head head;
	unsigned verb;

	if (perf_oob_get(fd, &head, sizeof(head), timeout_s))
		return -1;
	verb = head.magic_verb & 0xff;
	if ((head.magic_verb & ~0xffu) != PACKET_MAGIC || verb > PERF_FAILED) {
		perf_fail("the other side is no zip_perf, or one of another kind of machine");
		return -1;
	}
	if (verb == PERF_FAILED)
		return take_failure(fd, head.len, timeout_s);
	if (head.len > room) {
		perf_fail("the other side is another version of zip_perf: use the same one on both");
		return -1;
	}
	memset(payload, 0, room);
	return perf_oob_get(fd, payload, head.len, timeout_s) ? -1 : (int)verb;
}

int perf_oob_expect(int fd, enum perf_verb verb, void *payload, size_t len, unsigned timeout_s)
{
	struct packet_head head;

	if (perf_oob_get(fd, &head, sizeof(head), timeout_s))
		return -1;
	if (head.magic_verb == (PACKET_MAGIC | PERF_FAILED))
		return take_failure(fd, head.len, timeout_s);
	if (head.magic_verb != (PACKET_MAGIC | (uint32_t)verb) || head.len != len) {
		perf_fail("the other side said %#x with %u bytes instead of verb %d with %zu: use the same zip_perf on both",
			  head.magic_verb, head.len, (int)verb, len);
		return -1;
	}
	return perf_oob_get(fd, payload, len, timeout_s);
}

int perf_oob_pending(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, 0) > 0;
}

int perf_oob_check(int fd)
{
	struct packet_head head;
	ssize_t n = recv(fd, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(head) && head.magic_verb != (PACKET_MAGIC | PERF_FAILED))
		return 0;
	if (n > 0 && n < (ssize_t)sizeof(head))
		return 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0)
		return perf_oob_expect(fd, PERF_FAILED, NULL, 0, 1);
	perf_fail("the other side is gone");
	return -1;
}
