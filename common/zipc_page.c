/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a page of counters. */
#include "zipc_page.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zipc_proc.h"

#define ZIPC_PAGE_NAMES 4096 /* that are tried */

struct zipc_page {
	struct zipc_page_v1 *map;
	pthread_mutex_t lock;  /* the head, and who has which section */
	pid_t pid;
	uint32_t named[ZIPC_PAGE_ENDPOINTS]; /* peers whose names are written */
	int fd;                /* of the file, or -1 */
	char path[128];        /* "": not published */
};

/*
 * Memory is taken before it is written: where there is none left, a write would end the process.
 * Returns 0 if it is there.
 */
static int zipc_page_reserve(int fd, size_t at, size_t bytes)
{
	return fd < 0 ? 0 : fallocate(fd, 0, (off_t)at, (off_t)bytes);
}

static void zipc_page_text(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from ? from : "");
}

/* The name of this process. */
static void zipc_page_command(char *to, size_t room)
{
	FILE *file = fopen("/proc/self/comm", "r");

	to[0] = 0;
	if (!file)
		return;
	if (!fgets(to, (int)room, file))
		to[0] = 0;
	fclose(file);
	to[strcspn(to, "\n")] = 0;
}

/* Everything but the magic, which makes it a page. */
static void zipc_page_fill(struct zipc_page_v1 *map, const char *door, const char *core)
{
	map->version = ZIPC_PAGE_VERSION;
	map->bytes = sizeof(*map);
	map->uid = (uint32_t)geteuid();
	map->pid = (uint32_t)getpid();
	map->born = zipc_process_born(map->pid);
	map->pid_ns = zipc_process_namespace();
	map->opened_ms = zipc_now_ms();
	zipc_page_command(map->command, sizeof(map->command));
	zipc_page_text(map->door, sizeof(map->door), door);
	zipc_page_text(map->core, sizeof(map->core), core);
}

/* A new file of a free name. */
static int zipc_page_create(struct zipc_page *page, const char *dir)
{
	unsigned n;
	int fd;

	for (n = 0; n < ZIPC_PAGE_NAMES; n++) {
		snprintf(page->path, sizeof(page->path), "%s/" ZIPC_PAGE_PREFIX "%u.%u.%u", dir, (unsigned)geteuid(),
			 (unsigned)getpid(), n);
		fd = open(page->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			break;
	}
	page->path[0] = 0;
	return -1;
}

/* The memory of a file. */
static int zipc_page_share(struct zipc_page *page)
{
	size_t bytes = sizeof(*page->map);
	void *map;

	if (fchmod(page->fd, 0600) || ftruncate(page->fd, (off_t)bytes) ||
	    zipc_page_reserve(page->fd, 0, offsetof(struct zipc_page_v1, sections)))
		return -1;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd, 0);
	if (map == MAP_FAILED)
		return -1;
	page->map = map;
	return 0;
}

/* Memory of this process's own. */
static int zipc_page_keep(struct zipc_page *page)
{
	void *map = mmap(NULL, sizeof(*page->map), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return -1;
	page->map = map;
	return 0;
}

/* A published page, if that can be had, else one for ourselves. */
static int zipc_page_map(struct zipc_page *page, const char *dir)
{
	page->fd = dir ? zipc_page_create(page, dir) : -1;
	if (page->fd >= 0 && !zipc_page_share(page))
		return 0;
	if (page->fd >= 0) {
		unlink(page->path);
		close(page->fd);
	}
	page->path[0] = 0;
	page->fd = -1;
	return zipc_page_keep(page);
}

struct zipc_page *zipc_page_open(const char *dir, const char *door, const char *core)
{
	struct zipc_page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	if (dir)
		zipc_page_sweep(dir);
	if (zipc_page_map(page, dir)) {
		free(page);
		return NULL;
	}
	page->pid = getpid();
	pthread_mutex_init(&page->lock, NULL);
	zipc_page_fill(page->map, door, core);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(page->map->magic, ZIPC_PAGE_MAGIC, sizeof(page->map->magic));
	return page;
}

void zipc_page_close(struct zipc_page *page)
{
	if (!page)
		return;
	if (page->path[0] && page->pid == getpid())
		unlink(page->path);
	if (page->fd >= 0)
		close(page->fd);
	munmap(page->map, sizeof(*page->map));
	pthread_mutex_destroy(&page->lock);
	free(page);
}

const struct zipc_page_v1 *zipc_page_view(const struct zipc_page *page)
{
	return page->map;
}

/* ---- sections */

static void zipc_section_begin(struct zipc_page_endpoint_v1 *section)
{
	__atomic_store_n(&section->seq, section->seq + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void zipc_section_end(struct zipc_page_endpoint_v1 *section)
{
	__atomic_store_n(&section->seq, section->seq + 1, __ATOMIC_RELEASE);
}

/* A section that is free, or else that of the endpoint that was closed first. */
static int zipc_page_find(const struct zipc_page_v1 *map)
{
	int i, best = -1;

	for (i = 0; i < ZIPC_PAGE_ENDPOINTS; i++) {
		const struct zipc_page_endpoint_v1 *section = &map->sections[i];

		if (section->state == ZIPC_PAGE_FREE)
			return i;
		if (section->state == ZIPC_PAGE_CLOSED && (best < 0 || section->updated_ms < map->sections[best].updated_ms))
			best = i;
	}
	return best;
}

int zipc_page_attach(struct zipc_page *page, const char *name, size_t staging_most)
{
	struct zipc_page_endpoint_v1 *section;
	int i;

	if (!page || page->pid != getpid())
		return -1;
	pthread_mutex_lock(&page->lock);
	page->map->endpoints++;
	i = zipc_page_find(page->map);
	if (i >= 0 && zipc_page_reserve(page->fd, offsetof(struct zipc_page_v1, sections) + (size_t)i * sizeof(*section),
					sizeof(*section)))
		i = -1;
	if (i < 0) {
		page->map->unlisted++;
	} else {
		section = &page->map->sections[i];
		zipc_section_begin(section);
		zipc_page_add(&page->map->closed, &section->counts);
		memset(&section->state, 0, sizeof(*section) - offsetof(struct zipc_page_endpoint_v1, state));
		section->state = ZIPC_PAGE_LIVE;
		section->staging_most = staging_most;
		zipc_page_text(section->name, sizeof(section->name), name);
		page->named[i] = 0;
		zipc_section_end(section);
	}
	pthread_mutex_unlock(&page->lock);
	return i;
}

static void zipc_counts_copy(struct zipc_page_counts_v1 *to, const struct zipc_stats *from)
{
	*to = (struct zipc_page_counts_v1){
		.sends = from->sends, .send_bytes = from->send_bytes, .send_wire_bytes = from->wire_bytes,
		.recvs = from->recvs, .recv_bytes = from->recv_bytes, .recv_wire_bytes = from->recv_wire_bytes,
		.raw_peer = from->raw[ZIPC_RAW_PEER], .raw_data = from->raw[ZIPC_RAW_DATA], .raw_off = from->raw[ZIPC_RAW_OFF],
		.raw_slow = from->raw[ZIPC_RAW_SLOW], .raw_bytes = from->raw_bytes, .errors = from->errors,
	};
}

struct zipc_page_seer {
	struct zipc_page *page;
	int section;
	zipc_page_name_fn *name_of;
	void *ctx;
};

static void zipc_page_see(void *arg, size_t index, const struct zipc_peer_view *view)
{
	struct zipc_page_seer *seer = arg;
	struct zipc_page_peer_v1 *peer = &seer->page->map->sections[seer->section].peers[index];

	if (index >= seer->page->named[seer->section]) {
		seer->name_of(seer->ctx, view->main_addr, view->main_len, peer->name, sizeof(peer->name));
		seer->page->named[seer->section] = (uint32_t)index + 1;
	}
	peer->ready = (uint32_t)view->ready;
	peer->active = view->active;
	zipc_counts_copy(&peer->counts, &view->stats);
}

void zipc_page_update(struct zipc_page *page, int section_index, const struct zipc_engine *engine, zipc_page_name_fn *name_of,
		      void *ctx)
{
	struct zipc_page_seer seer = {page, section_index, name_of, ctx};
	struct zipc_page_endpoint_v1 *section;
	struct zipc_stats stats;

	if (!page || section_index < 0 || page->pid != getpid())
		return;
	section = &page->map->sections[section_index];
	zipc_engine_stats(engine, &stats);
	zipc_section_begin(section);
	section->updated_ms = zipc_now_ms();
	zipc_counts_copy(&section->counts, &stats);
	section->staging_bytes = stats.staging_bytes;
	section->sample_ns = stats.sample_ns;
	section->encode_ns = stats.encode_ns;
	section->wire_ns = stats.wire_ns;
	section->decode_ns = stats.decode_ns;
	section->npeers = (uint32_t)zipc_engine_see_peers(engine, ZIPC_PAGE_PEERS, zipc_page_see, &seer);
	zipc_section_end(section);
}

void zipc_page_detach(struct zipc_page *page, int section_index)
{
	if (!page || page->pid != getpid())
		return;
	pthread_mutex_lock(&page->lock);
	page->map->endpoints--;
	if (section_index < 0) {
		page->map->unlisted--;
	} else {
		struct zipc_page_endpoint_v1 *section = &page->map->sections[section_index];

		zipc_section_begin(section);
		section->state = ZIPC_PAGE_CLOSED;
		section->updated_ms = zipc_now_ms();
		section->staging_bytes = 0;
		zipc_section_end(section);
	}
	pthread_mutex_unlock(&page->lock);
}
