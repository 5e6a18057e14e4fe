/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of shared memory: nodes, links, and who is alive. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zlink.h"

#define ZLINK_PATH_MAX 512
#define ZLINK_PREFIX "zlink."
#define ZLINK_PAGE 4096u

/* State letter and start time of a process; -1 when there is none. */
static int zlink_proc(long pid, char *state, unsigned long long *start)
{
	char path[64], text[1024], *at;
	ssize_t n;
	int fd, field;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = 0;
	at = strrchr(text, ')'); /* the name before it may hold anything */
	if (!at || at[1] != ' ')
		return -1;
	*state = at[2];
	for (at++, field = 3; *at && field < 22; field++)
		at = strchr(at + 1, ' ') ? strchr(at + 1, ' ') : at + strlen(at);
	*start = strtoull(at, NULL, 10);
	return 0;
}

int zlink_id_make(char *id)
{
	static atomic_uint number;
	unsigned long long start;
	char state;

	if (zlink_proc((long)getpid(), &state, &start))
		return -FI_ENOSYS;
	snprintf(id, ZLINK_ID_MAX, "%ld-%llu-%u", (long)getpid(), start, atomic_fetch_add(&number, 1));
	return 0;
}

bool zlink_alive(const char *id)
{
	unsigned long long start, now;
	long pid;
	char state;

	if (sscanf(id, "%ld-%llu-", &pid, &start) != 2 || zlink_proc(pid, &state, &now))
		return false;
	/* Somebody else may have got the number; a zombie is as dead as it gets. */
	return now == start && state != 'Z' && state != 'X';
}

static void zlink_path(char *path, const char *name)
{
	snprintf(path, ZLINK_PATH_MAX, "%s/" ZLINK_PREFIX "%s", zlink_param.dir, name);
}

static void zlink_link_path(char *path, const char *from, const char *to)
{
	snprintf(path, ZLINK_PATH_MAX, "%s/" ZLINK_PREFIX "%s+%s", zlink_param.dir, from, to);
}

/* The next of our files; NULL: no more. */
static const char *zlink_next_file(DIR *dir)
{
	struct dirent *entry;

	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, ZLINK_PREFIX, sizeof(ZLINK_PREFIX) - 1))
			return entry->d_name + sizeof(ZLINK_PREFIX) - 1;
	return NULL;
}

void zlink_sweep(void)
{
	char path[ZLINK_PATH_MAX];
	DIR *dir = opendir(zlink_param.dir);
	const char *name, *to;

	while (dir && (name = zlink_next_file(dir))) {
		to = strchr(name, '+');
		/* A link is of use as long as its receiver lives: there may be messages in it. */
		if (zlink_alive(to ? to + 1 : name))
			continue;
		zlink_path(path, name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
}

static void *zlink_map_file(const char *path, int flags, size_t *bytes)
{
	int fd = open(path, flags | O_CLOEXEC, 0600), err = 0;
	struct stat st;
	void *base;

	if (fd < 0)
		return NULL;
	if (flags & O_CREAT)
		err = posix_fallocate(fd, 0, (off_t)*bytes); /* what is not there would be a SIGBUS later */
	if (err || fstat(fd, &st) || (size_t)st.st_size < *bytes) {
		close(fd);
		if (flags & O_CREAT)
			unlink(path);
		errno = err ? err : EINVAL;
		return NULL;
	}
	*bytes = (size_t)st.st_size;
	base = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return base == MAP_FAILED ? NULL : base;
}

int zlink_node_create(const char *id, struct zlink_node_shm **node_p)
{
	size_t bytes = sizeof(struct zlink_node_shm);
	char path[ZLINK_PATH_MAX];

	zlink_path(path, id);
	*node_p = zlink_map_file(path, O_RDWR | O_CREAT | O_EXCL, &bytes);
	if (!*node_p) {
		ZLINK_WARN(DOMAIN, "%s of %zu bytes could not be made: %s\n", path, bytes, strerror(errno));
		return -FI_ENOMEM;
	}
	(*node_p)->magic = ZLINK_MAGIC;
	return 0;
}

void zlink_node_close(const char *id, struct zlink_node_shm *node)
{
	char path[ZLINK_PATH_MAX];
	DIR *dir = opendir(zlink_param.dir);
	const char *name, *to;

	zlink_path(path, id);
	unlink(path);
	/* Links to us that were announced too late. */
	while (dir && (name = zlink_next_file(dir))) {
		to = strchr(name, '+');
		if (!to || strcmp(to + 1, id))
			continue;
		zlink_path(path, name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	munmap(node, sizeof(*node));
}

static struct zlink_node_shm *zlink_node_open(const char *id)
{
	size_t bytes = sizeof(struct zlink_node_shm);
	char path[ZLINK_PATH_MAX];
	struct zlink_node_shm *node;

	zlink_path(path, id);
	node = zlink_map_file(path, O_RDWR, &bytes);
	if (node && node->magic != ZLINK_MAGIC) {
		munmap(node, bytes);
		return NULL;
	}
	return node;
}

static uint32_t zlink_node_find(struct zlink_node_shm *node, const char *name)
{
	unsigned int i;
	uint32_t id;

	for (i = 0; i < ZLINK_EPS; i++) {
		id = atomic_load_explicit(&node->eps[i].id, memory_order_acquire);
		if (id && !strncmp(node->eps[i].name, name, ZLINK_NAME_MAX) &&
		    atomic_load_explicit(&node->eps[i].id, memory_order_acquire) == id)
			return id;
	}
	return 0;
}

int zlink_resolve(const char *name, char *id, uint32_t *ep)
{
	DIR *dir = opendir(zlink_param.dir);
	struct zlink_node_shm *node;
	const char *each;

	*ep = 0;
	while (dir && !*ep && (each = zlink_next_file(dir))) {
		if (strchr(each, '+') || strlen(each) >= ZLINK_ID_MAX)
			continue;
		node = zlink_node_open(each);
		if (!node)
			continue;
		*ep = zlink_node_find(node, name);
		munmap(node, sizeof(*node));
		if (*ep && !zlink_alive(each))
			*ep = 0;
		if (*ep)
			strcpy(id, each);
	}
	if (dir)
		closedir(dir);
	return *ep ? 0 : -FI_ENOENT;
}

/* Places packets and chunks behind the header, and gives the size of it all. */
static size_t zlink_map_layout(struct zlink_map *map)
{
	size_t pkts = (sizeof(struct zlink_link_shm) + ZLINK_PAGE - 1) / ZLINK_PAGE * ZLINK_PAGE;
	size_t chunks = pkts + ZLINK_PKTS * (sizeof(struct zlink_pkt) + map->eager);

	chunks = (chunks + ZLINK_PAGE - 1) / ZLINK_PAGE * ZLINK_PAGE;
	map->pkts = (char *)map->shm + pkts;
	map->chunks = (char *)map->shm + chunks;
	return chunks + map->depth * map->chunk_bytes;
}

int zlink_map_create(const char *from, const char *to, struct zlink_map *map)
{
	char path[ZLINK_PATH_MAX];

	map->shm = NULL;
	map->eager = zlink_param.eager;
	map->chunk_bytes = zlink_param.chunk;
	map->depth = zlink_param.depth;
	map->bytes = zlink_map_layout(map);
	zlink_link_path(path, from, to);
	unlink(path);
	map->shm = zlink_map_file(path, O_RDWR | O_CREAT | O_EXCL, &map->bytes);
	if (!map->shm) {
		ZLINK_WARN(EP_CTRL, "%s of %zu bytes could not be made: %s (FI_ZLINK_DEPTH and FI_ZLINK_CHUNK make it smaller)\n", path,
			   map->bytes, strerror(errno));
		return -FI_ENOMEM;
	}
	zlink_map_layout(map);
	map->shm->eager = (uint32_t)map->eager;
	map->shm->chunk_bytes = (uint32_t)map->chunk_bytes;
	map->shm->depth = (uint32_t)map->depth;
	map->shm->magic = ZLINK_MAGIC;
	return 0;
}

int zlink_map_attach(const char *from, const char *to, struct zlink_map *map)
{
	char path[ZLINK_PATH_MAX];

	map->bytes = sizeof(struct zlink_link_shm);
	zlink_link_path(path, from, to);
	map->shm = zlink_map_file(path, O_RDWR, &map->bytes);
	if (!map->shm)
		return -FI_ENOENT;
	unlink(path); /* both have it now: it goes with the last of them */
	map->eager = map->shm->eager;
	map->chunk_bytes = map->shm->chunk_bytes;
	map->depth = map->shm->depth;
	if (map->shm->magic != ZLINK_MAGIC || !map->depth || map->depth > ZLINK_DEPTH_MAX || !map->chunk_bytes ||
	    map->eager % 64 || zlink_map_layout(map) != map->bytes) {
		ZLINK_WARN(EP_CTRL, "%s is no link of this version\n", path);
		zlink_map_close(map);
		return -FI_EINVAL;
	}
	atomic_store(&map->shm->attached, 1);
	return 0;
}

void zlink_map_close(struct zlink_map *map)
{
	munmap(map->shm, map->bytes);
	map->shm = NULL;
}

void zlink_map_unlink(const char *from, const char *to)
{
	char path[ZLINK_PATH_MAX];

	zlink_link_path(path, from, to);
	unlink(path);
}

int zlink_call(const char *from, const char *to)
{
	struct zlink_node_shm *node = zlink_node_open(to);
	unsigned int i, none;

	if (!node)
		return -FI_EHOSTUNREACH;
	for (i = 0; i < ZLINK_CALLS; i++) {
		none = 0;
		if (!atomic_compare_exchange_strong(&node->calls[i].state, &none, 1))
			continue;
		strcpy(node->calls[i].from, from);
		atomic_store(&node->calls[i].state, 2);
		atomic_fetch_add(&node->bells, 1);
		break;
	}
	munmap(node, sizeof(*node));
	return i < ZLINK_CALLS ? 0 : -FI_EAGAIN;
}
