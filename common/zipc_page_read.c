/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading pages of counters, which may hold anything. Files are copied, never mapped: one that is cut meanwhile ends a read,
 * not the reader.
 */
#include "zipc_page.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zipc_proc.h"

#define ZIPC_PAGE_TRIES 16 /* for a section that is being written */

int zipc_page_is_name(const char *name, uint32_t uid)
{
	char start[32];
	size_t n = (size_t)snprintf(start, sizeof(start), ZIPC_PAGE_PREFIX "%u.", uid);
	const char *rest;

	if (strncmp(name, start, n))
		return 0;
	rest = name + n + strspn(name + n, "0123456789");
	if (rest == name + n || *rest != '.' || !rest[1])
		return 0;
	return !rest[1 + strspn(rest + 1, "0123456789")];
}

/* All bytes, or failure. */
static int zipc_page_get(int fd, void *to, size_t bytes, size_t at)
{
	while (bytes) {
		ssize_t n = pread(fd, to, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		to = (char *)to + n;
		at += (size_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Opens what may be a page: a plain file of this user's, of the right length. */
static int zipc_page_open_file(int dirfd, const char *name, enum zipc_page_fault *fault)
{
	int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	*fault = fd < 0 && errno == EACCES ? ZIPC_PAGE_FOREIGN : ZIPC_PAGE_BAD;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		*fault = ZIPC_PAGE_BAD;
	} else if (!zipc_page_is_name(name, (uint32_t)st.st_uid)) {
		*fault = ZIPC_PAGE_FOREIGN; /* who owns it is not who it says */
	} else if (st.st_size < (off_t)sizeof(struct zipc_page_v1)) {
		/* a page of another version says so, if it is long enough for that */
		*fault = st.st_size >= (off_t)offsetof(struct zipc_page_v1, bytes) ? ZIPC_PAGE_OTHER : ZIPC_PAGE_BAD;
	} else {
		*fault = ZIPC_PAGE_GOOD;
		return fd;
	}
	if (*fault == ZIPC_PAGE_OTHER) {
		struct zipc_page_v1 head;

		if (zipc_page_get(fd, &head, offsetof(struct zipc_page_v1, bytes), 0) ||
		    memcmp(head.magic, ZIPC_PAGE_MAGIC, sizeof(head.magic)) || head.version == ZIPC_PAGE_VERSION)
			*fault = ZIPC_PAGE_BAD;
	}
	close(fd);
	return -1;
}

/* What can be told from the head. */
static enum zipc_page_fault zipc_page_judge(const struct zipc_page_v1 *page, const char *name)
{
	char own[64];
	uint64_t born;
	size_t n;

	if (memcmp(page->magic, ZIPC_PAGE_MAGIC, sizeof(page->magic)))
		return ZIPC_PAGE_BAD;
	if (page->version != ZIPC_PAGE_VERSION)
		return ZIPC_PAGE_OTHER;
	n = (size_t)snprintf(own, sizeof(own), ZIPC_PAGE_PREFIX "%u.%u.", page->uid, page->pid);
	if (page->bytes != sizeof(*page) || strncmp(name, own, n))
		return ZIPC_PAGE_BAD;
	if (page->pid_ns != zipc_process_namespace())
		return ZIPC_PAGE_FOREIGN;
	born = zipc_process_born(page->pid);
	return born && born == page->born ? ZIPC_PAGE_GOOD : ZIPC_PAGE_STALE;
}

/* Nothing in it may reach a terminal but letters. */
static void zipc_page_clean(char *text, size_t room)
{
	text[room - 1] = 0;
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			*text = '?';
}

static void zipc_page_clean_section(struct zipc_page_endpoint_v1 *section)
{
	size_t i;

	if (section->state > ZIPC_PAGE_CLOSED)
		section->state = ZIPC_PAGE_FREE;
	zipc_page_clean(section->name, sizeof(section->name));
	for (i = 0; i < ZIPC_PAGE_PEERS; i++)
		zipc_page_clean(section->peers[i].name, sizeof(section->peers[i].name));
}

/*
 * Copies a section until it is consistent. One that never is was written by no zip, or faster than it can be read: as it is,
 * then.
 */
static int zipc_page_get_section(int fd, struct zipc_page_v1 *page, size_t i)
{
	struct zipc_page_endpoint_v1 *section = &page->sections[i];
	size_t at = (size_t)((char *)section - (char *)page);
	uint32_t before, after;
	int tries;

	for (tries = 0; tries < ZIPC_PAGE_TRIES; tries++) {
		if (zipc_page_get(fd, &before, sizeof(before), at + offsetof(struct zipc_page_endpoint_v1, seq)) ||
		    zipc_page_get(fd, section, sizeof(*section), at) ||
		    zipc_page_get(fd, &after, sizeof(after), at + offsetof(struct zipc_page_endpoint_v1, seq)))
			return -1;
		section->seq = before == after ? before : 1;
		if (!(section->seq & 1))
			break;
	}
	zipc_page_clean_section(section);
	return 0;
}

enum zipc_page_fault zipc_page_read(int dirfd, const char *name, struct zipc_page_v1 *page)
{
	enum zipc_page_fault fault;
	int fd = zipc_page_open_file(dirfd, name, &fault);
	size_t i;

	if (fd < 0)
		return fault;
	fault = zipc_page_get(fd, page, offsetof(struct zipc_page_v1, sections), 0) ? ZIPC_PAGE_BAD : zipc_page_judge(page, name);
	for (i = 0; fault == ZIPC_PAGE_GOOD && i < ZIPC_PAGE_ENDPOINTS; i++)
		if (zipc_page_get_section(fd, page, i))
			fault = ZIPC_PAGE_BAD;
	close(fd);
	zipc_page_clean(page->command, sizeof(page->command));
	zipc_page_clean(page->door, sizeof(page->door));
	zipc_page_clean(page->core, sizeof(page->core));
	return fault;
}

/* As zipc_page_read, of the head alone. */
static enum zipc_page_fault zipc_page_look(int dirfd, const char *name)
{
	static const size_t bytes = offsetof(struct zipc_page_v1, sections);
	enum zipc_page_fault fault;
	int fd = zipc_page_open_file(dirfd, name, &fault);
	struct zipc_page_v1 *page;

	if (fd < 0)
		return fault;
	page = calloc(1, bytes);
	fault = !page || zipc_page_get(fd, page, bytes, 0) ? ZIPC_PAGE_BAD : zipc_page_judge(page, name);
	free(page);
	close(fd);
	return fault;
}

unsigned zipc_page_sweep(const char *dir)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	unsigned n = 0;

	if (!list)
		return 0;
	while ((entry = readdir(list)))
		if (zipc_page_is_name(entry->d_name, (uint32_t)geteuid()) &&
		    zipc_page_look(dirfd(list), entry->d_name) == ZIPC_PAGE_STALE)
			n += !unlinkat(dirfd(list), entry->d_name, 0);
	closedir(list);
	return n;
}
