/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of counters: what is written can be read, whoever else writes there, and a file that is no page harms nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_net.h"
#include "zipc_engine_priv.h"
#include "zipc_page.h"
#include "zipt_data.h"

static char dir[64];
static int dirfd_;
static struct zipc_page_v1 got;

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/test_page.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_ < 0;
}

static int remove_dir(void **state)
{
	DIR *list = opendir(dir);
	struct dirent *entry;

	(void)state;
	while (list && (entry = readdir(list)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd_, entry->d_name, 0);
	if (list)
		closedir(list);
	close(dirfd_);
	return rmdir(dir);
}

static unsigned files(void)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	unsigned n = 0;

	assert_non_null(list);
	while ((entry = readdir(list)))
		n += entry->d_name[0] != '.';
	closedir(list);
	return n;
}

/* The name of this process's page number n. */
static const char *page_name(unsigned n)
{
	static char name[64];

	snprintf(name, sizeof(name), ZIPC_PAGE_PREFIX "%u.%u.%u", (unsigned)geteuid(), (unsigned)getpid(), n);
	return name;
}

static void name_of(void *ctx, const void *addr, size_t len, char *text, size_t room)
{
	(void)ctx;
	(void)len;
	snprintf(text, room, "peer %02x", *(const uint8_t *)addr);
}

static void open_world(struct fake_world *w, const struct zipc_engine_attr *attr)
{
	fake_open(w, 1, 2, attr);
	fake_meet(w, 0, 1);
	fake_run(w);
}

static void test_page_says_what_happened(void **state)
{
	const struct zipc_engine_attr attr = {.policy = ZIPC_POLICY_RATIO};
	static uint8_t floats[60000], noise[60000], in[60000];
	struct zipc_page_counts_v1 total;
	struct fake_msg send, recv;
	struct zipc_page *page;
	struct fake_world w;
	int section;

	(void)state;
	open_world(&w, &attr);
	page = zipc_page_open(dir, "libfabric", "tcp;ofi_rxm");
	assert_non_null(page);
	section = zipc_page_attach(page, "me", 1000);
	assert_int_equal(section, 0);
	zipt_fill(floats, sizeof(floats), ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	zipt_fill(noise, sizeof(noise), ZIPC_DTYPE_BF16, ZIPT_DIST_RANDOM, 0.02, 1);
	fake_recv(&w, 1, 0, in, sizeof(in), 5, &recv);
	assert_true(fake_send(&w, 0, 1, floats, sizeof(floats), 5, ZIPC_SEND_TAGGED, &send));
	fake_run(&w);
	assert_true(send.done && recv.done && !recv.status);
	assert_true(fake_send(&w, 0, 1, noise, sizeof(noise), 6, ZIPC_SEND_TAGGED, &send));
	fake_run(&w);
	zipc_page_update(page, section, w.node[0].engine, name_of, NULL);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	assert_string_equal(got.door, "libfabric");
	assert_string_equal(got.core, "tcp;ofi_rxm");
	assert_int_equal(got.pid, getpid());
	assert_int_equal(got.endpoints, 1);
	assert_string_equal(got.sections[0].name, "me");
	assert_int_equal(got.sections[0].npeers, 1);
	assert_int_equal(strncmp(got.sections[0].peers[0].name, "peer ", 5), 0);
	assert_int_equal(got.sections[0].peers[0].ready, 1);
	assert_int_equal(got.sections[0].counts.sends, 1);
	assert_int_equal(got.sections[0].counts.send_bytes, sizeof(floats));
	assert_true(got.sections[0].counts.send_wire_bytes > 30000 && got.sections[0].counts.send_wire_bytes < sizeof(floats));
	assert_int_equal(got.sections[0].counts.raw_data, 1);
	assert_int_equal(got.sections[0].counts.raw_bytes, sizeof(noise));
	assert_memory_equal(&got.sections[0].counts, &got.sections[0].peers[0].counts, sizeof(got.sections[0].counts));
	total = zipc_page_total(&got);
	assert_memory_equal(&total, &got.sections[0].counts, sizeof(total));
	zipc_page_detach(page, section);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	assert_int_equal(got.sections[0].state, ZIPC_PAGE_CLOSED);
	assert_int_equal(got.endpoints, 0);
	zipc_page_close(page);
	assert_int_equal(files(), 0);
	fake_close(&w);
}

static void test_page_is_the_owners(void **state)
{
	struct zipc_page *page[3];
	struct stat st;
	mode_t mask = umask(0);
	int fd = openat(dirfd_, page_name(1), O_CREAT | O_WRONLY, 0600), i;

	(void)state;
	close(fd);
	for (i = 0; i < 3; i++)
		assert_non_null(page[i] = zipc_page_open(dir, "ucx", "tcp"));
	umask(mask);
	assert_int_equal(files(), 4);
	for (i = 0; i < 4; i++) { /* the name that was taken is left alone */
		assert_int_equal(fstatat(dirfd_, page_name((unsigned)i), &st, 0), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		assert_int_equal(zipc_page_read(dirfd_, page_name((unsigned)i), &got), i == 1 ? ZIPC_PAGE_BAD : ZIPC_PAGE_GOOD);
	}
	for (i = 0; i < 3; i++)
		zipc_page_close(page[i]);
	assert_int_equal(files(), 1);
	unlinkat(dirfd_, page_name(1), 0);
}

/* More endpoints than sections, and those that are closed make room. */
static void test_page_sections(void **state)
{
	struct zipc_page *page = zipc_page_open(dir, "libfabric", "tcp");
	struct fake_world w;
	int i;

	(void)state;
	open_world(&w, &(struct zipc_engine_attr){0});
	w.node[0].engine->stats.sends = 7;
	for (i = 0; i < ZIPC_PAGE_ENDPOINTS; i++) {
		assert_int_equal(zipc_page_attach(page, "x", 0), i);
		zipc_page_update(page, i, w.node[0].engine, name_of, NULL);
	}
	assert_int_equal(zipc_page_attach(page, "one too many", 0), -1);
	zipc_page_update(page, -1, w.node[0].engine, name_of, NULL);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	assert_int_equal(got.endpoints, ZIPC_PAGE_ENDPOINTS + 1);
	assert_int_equal(got.unlisted, 1);
	assert_int_equal(zipc_page_total(&got).sends, 7 * ZIPC_PAGE_ENDPOINTS);
	zipc_page_detach(page, -1);
	zipc_page_detach(page, 3);
	assert_int_equal(zipc_page_attach(page, "new", 0), 3);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	assert_string_equal(got.sections[3].name, "new");
	assert_int_equal(got.sections[3].npeers, 0);
	assert_int_equal(got.unlisted, 0);
	assert_int_equal(zipc_page_total(&got).sends, 7 * ZIPC_PAGE_ENDPOINTS); /* those of the closed one are kept */
	zipc_page_close(page);
	fake_close(&w);
}

/* Where there is no directory, and where none is wanted: the numbers are there for the table at the end. */
static void test_page_unpublished(void **state)
{
	static const char *const where[] = {NULL, "/nonexistent", "/proc"};
	struct fake_world w;
	char *text = NULL;
	size_t i, len;
	FILE *file;

	(void)state;
	open_world(&w, &(struct zipc_engine_attr){0});
	w.node[0].engine->stats.sends = 12345;
	for (i = 0; i < 3; i++) {
		struct zipc_page *page = zipc_page_open(where[i], "libfabric", "tcp");

		assert_non_null(page);
		zipc_page_update(page, zipc_page_attach(page, "x", 0), w.node[0].engine, name_of, NULL);
		assert_int_equal(zipc_page_view(page)->sections[0].counts.sends, 12345);
		file = open_memstream(&text, &len);
		zipc_page_print(file, zipc_page_view(page), zipc_now_ms(), 1);
		fclose(file);
		assert_non_null(strstr(text, "all of the domain"));
		assert_non_null(strstr(text, "12345"));
		free(text);
		zipc_page_close(page);
	}
	assert_int_equal(zipc_page_attach(NULL, "x", 0), -1);
	zipc_page_detach(NULL, 0);
	zipc_page_close(NULL);
	fake_close(&w);
}

/* A child has the memory, and must not write into it, nor take the file away. */
static void test_page_fork(void **state)
{
	struct zipc_page *page = zipc_page_open(dir, "libfabric", "tcp");
	struct fake_world w;
	int section = zipc_page_attach(page, "parent", 0), status;
	pid_t child;

	(void)state;
	open_world(&w, &(struct zipc_engine_attr){0});
	child = fork();
	if (!child) {
		w.node[0].engine->stats.sends = 99;
		zipc_page_update(page, section, w.node[0].engine, name_of, NULL);
		zipc_page_detach(page, section);
		_exit(zipc_page_attach(page, "child", 0) == -1 ? (zipc_page_close(page), 0) : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	assert_int_equal(got.sections[0].counts.sends, 0);
	assert_int_equal(got.sections[0].state, ZIPC_PAGE_LIVE);
	zipc_page_close(page);
	fake_close(&w);
}

/* ---- reading while it is written */

struct writer {
	struct zipc_page *page;
	struct zipc_engine *engine;
	int stop;
};

static void *write_on(void *arg)
{
	struct writer *writer = arg;
	uint64_t n = 0;

	while (!__atomic_load_n(&writer->stop, __ATOMIC_RELAXED)) {
		writer->engine->stats.sends = writer->engine->stats.errors = ++n;
		zipc_page_update(writer->page, 0, writer->engine, name_of, NULL);
	}
	return NULL;
}

static void test_page_consistent(void **state)
{
	struct zipc_page *page = zipc_page_open(dir, "libfabric", "tcp");
	struct writer writer = {.page = page};
	unsigned i, torn = 0, good = 0;
	struct fake_world w;
	pthread_t thread;

	(void)state;
	open_world(&w, &(struct zipc_engine_attr){0});
	writer.engine = w.node[0].engine;
	zipc_page_attach(page, "x", 0);
	assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
	for (i = 0; i < 2000; i++) {
		assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
		/* a writer without a pause may win all tries: the reader goes on all the same */
		torn += !(got.sections[0].seq & 1) && got.sections[0].counts.sends != got.sections[0].counts.errors;
		good += !(got.sections[0].seq & 1);
	}
	__atomic_store_n(&writer.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(torn, 0);
	assert_true(good > 0);
	zipc_page_close(page);
	fake_close(&w);
}

/* ---- files that are no pages */

static void write_file(const char *name, const void *bytes, size_t len)
{
	int fd = openat(dirfd_, name, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
}

/* A good page in memory. */
static struct zipc_page_v1 *good_page(void)
{
	struct zipc_page *page = zipc_page_open(dir, "libfabric", "tcp");
	static struct zipc_page_v1 copy;

	zipc_page_attach(page, "x", 0);
	copy = *zipc_page_view(page);
	zipc_page_close(page);
	return &copy;
}

static void test_page_truncated(void **state)
{
	static const size_t sizes[] = {0, 1, 7, 8, 12, 16, 24, 100, 500, sizeof(struct zipc_page_v1) - 1};
	struct zipc_page_v1 *page = good_page();
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		write_file(page_name(0), page, sizes[i]);
		assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_BAD);
		page->version = 2;
		write_file(page_name(0), page, sizes[i]);
		assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), sizes[i] < 16 ? ZIPC_PAGE_BAD : ZIPC_PAGE_OTHER);
		page->version = ZIPC_PAGE_VERSION;
	}
	write_file(page_name(0), page, sizeof(*page));
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	unlinkat(dirfd_, page_name(0), 0);
}

static enum zipc_page_fault read_as(const struct zipc_page_v1 *page)
{
	write_file(page_name(0), page, sizeof(*page));
	return zipc_page_read(dirfd_, page_name(0), &got);
}

static void test_page_fields(void **state)
{
	struct zipc_page_v1 *page = good_page(), copy = *page;

	(void)state;
	copy.magic[0] = 'Z';
	assert_int_equal(read_as(&copy), ZIPC_PAGE_BAD);
	copy = *page;
	copy.version = 7;
	assert_int_equal(read_as(&copy), ZIPC_PAGE_OTHER);
	copy = *page;
	copy.bytes++;
	assert_int_equal(read_as(&copy), ZIPC_PAGE_BAD);
	copy = *page;
	copy.pid++;
	assert_int_equal(read_as(&copy), ZIPC_PAGE_BAD);
	copy = *page;
	copy.uid++;
	assert_int_equal(read_as(&copy), ZIPC_PAGE_BAD);
	copy = *page;
	copy.born--; /* the number was somebody else's before */
	assert_int_equal(read_as(&copy), ZIPC_PAGE_STALE);
	copy = *page;
	copy.pid_ns++;
	assert_int_equal(read_as(&copy), ZIPC_PAGE_FOREIGN);
	assert_int_equal(read_as(page), ZIPC_PAGE_GOOD);
	unlinkat(dirfd_, page_name(0), 0);
}

/* Behind a good head anything: it is read, printed and summed up, and no escape sequence gets out. */
static void test_page_garbage(void **state)
{
	struct zipc_page_v1 *page = good_page(), copy;
	size_t head = offsetof(struct zipc_page_v1, opened_ms), i, len;
	uint64_t seed = 3, seq;
	char *text;
	FILE *file;

	(void)state;
	for (seq = 0; seq < 20; seq++) {
		copy = *page;
		zipt_fill((uint8_t *)&copy + head, sizeof(copy) - head, ZIPC_DTYPE_BF16, seq ? ZIPT_DIST_RANDOM : ZIPT_DIST_ZEROS, 1, seed++);
		if (seq == 1)
			memset((uint8_t *)&copy + head, 0xff, sizeof(copy) - head);
		for (i = 0; i < ZIPC_PAGE_ENDPOINTS && seq > 3; i++) { /* consistent, at least */
			copy.sections[i].state = ZIPC_PAGE_LIVE + (uint32_t)(i & 1);
			copy.sections[i].seq &= ~1u;
		}
		assert_int_equal(read_as(&copy), ZIPC_PAGE_GOOD);
		file = open_memstream(&text, &len);
		zipc_page_print(file, &got, zipc_now_ms(), 1);
		fclose(file);
		for (i = 0; i < len; i++)
			assert_true(text[i] == '\n' || (text[i] >= 0x20 && text[i] < 0x7f));
		free(text);
		for (i = 0; i < ZIPC_PAGE_ENDPOINTS; i++)
			assert_in_range(got.sections[i].state, ZIPC_PAGE_FREE, ZIPC_PAGE_CLOSED);
	}
	unlinkat(dirfd_, page_name(0), 0);
}

/* Links, pipes and directories are not followed, waited for, or listed. */
static void test_page_strange_files(void **state)
{
	struct zipc_page_v1 *page = good_page();

	(void)state;
	write_file("elsewhere", page, sizeof(*page));
	assert_int_equal(symlinkat("elsewhere", dirfd_, page_name(0)), 0);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_BAD);
	unlinkat(dirfd_, page_name(0), 0);
	assert_int_equal(mkfifoat(dirfd_, page_name(0), 0600), 0);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_BAD);
	unlinkat(dirfd_, page_name(0), 0);
	assert_int_equal(mkdirat(dirfd_, page_name(0), 0700), 0);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_BAD);
	assert_int_equal(zipc_page_sweep(dir), 0);
	unlinkat(dirfd_, page_name(0), AT_REMOVEDIR);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_BAD);
	unlinkat(dirfd_, "elsewhere", 0);
}

static void test_page_names(void **state)
{
	(void)state;
	assert_true(zipc_page_is_name("zip-net.1000.1.0", 1000));
	assert_false(zipc_page_is_name("zip-net.1000.1.0", 100));
	assert_false(zipc_page_is_name("zip-net.1000.1", 1000));
	assert_false(zipc_page_is_name("zip-net.1000.1.", 1000));
	assert_false(zipc_page_is_name("zip-net.1000..1", 1000));
	assert_false(zipc_page_is_name("zip-net.1000.1.0~", 1000));
	assert_false(zipc_page_is_name("zip-net.1000.1.0/../x", 1000));
	assert_false(zipc_page_is_name("zip-net.", 1000));
	assert_false(zipc_page_is_name("", 1000));
}

/* What a killed process leaves goes with the next page that anybody opens; nothing else does. */
static void test_page_sweep(void **state)
{
	struct zipc_page *page, *live = zipc_page_open(dir, "libfabric", "tcp");
	int status;
	pid_t child = fork();

	(void)state;
	if (!child) {
		(void)zipc_page_open(dir, "libfabric", "tcp");
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	write_file("zip-net.other", "x", 1);
	write_file(page_name(77), "garbage", 7);
	assert_int_equal(files(), 4);
	page = zipc_page_open(dir, "libfabric", "tcp");
	assert_int_equal(files(), 4); /* one went, one came */
	assert_int_equal(zipc_page_sweep(dir), 0);
	assert_int_equal(zipc_page_read(dirfd_, page_name(0), &got), ZIPC_PAGE_GOOD);
	zipc_page_close(page);
	zipc_page_close(live);
	unlinkat(dirfd_, "zip-net.other", 0);
	unlinkat(dirfd_, page_name(77), 0);
	assert_int_equal(files(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_page_says_what_happened),
		cmocka_unit_test(test_page_is_the_owners),
		cmocka_unit_test(test_page_sections),
		cmocka_unit_test(test_page_unpublished),
		cmocka_unit_test(test_page_fork),
		cmocka_unit_test(test_page_consistent),
		cmocka_unit_test(test_page_truncated),
		cmocka_unit_test(test_page_fields),
		cmocka_unit_test(test_page_garbage),
		cmocka_unit_test(test_page_strange_files),
		cmocka_unit_test(test_page_names),
		cmocka_unit_test(test_page_sweep),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
