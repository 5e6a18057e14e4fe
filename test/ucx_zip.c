/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of the UCX transport over the UCT API: two processes each. Run with libuct_zip.so preloaded.
 *
 * usage: ucx_zip [-d DEVICE] [-t LOWER] TEST...      a TEST is one of those below, "all" all of them but bw
 *        ucx_zip -d DEVICE [-D DEVICE] [-n NETNS] bw  puts of Gaussian bf16; -D and -n: device and network namespace of the target
 */
#include "ucx_side.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ucx_data.h"
#include "ucx_zip.h"
#include "zipt_data.h"

#define AM_READY 3

const char *devices[2] = {"lo", "lo"};
const char *lower = "tcp";
static const char *netns;
static size_t bw_bytes = 8 * MIB;
static unsigned bw_count = 24;

/* ---- order: what a put wrote is there when an active message behind a fence arrives */

static struct side *order_side;
static volatile int order_got;

static ucs_status_t order_am(void *arg, void *data, size_t len, unsigned flags)
{
	uint64_t seed;

	(void)arg;
	(void)flags;
	SIDE_CHECK(len == sizeof(seed), "%zu bytes", len);
	memcpy(&seed, data, sizeof(seed));
	SIDE_CHECK(ucx_filled(order_side->memory, 3 * MIB, seed), "put %llu is not there", (unsigned long long)seed);
	SIDE_CHECK(ucx_filled(order_side->memory + 3 * MIB, 1000, seed + 1), "small put %llu is not there", (unsigned long long)seed);
	order_got++;
	return UCS_OK;
}

static void order_put(struct side *side, uint8_t *buf, uint64_t seed)
{
	struct side_op ops[2];
	uct_iov_t iov[2] = {{.buffer = buf, .length = 3 * MIB, .count = 1}, {.buffer = buf + 3 * MIB, .length = 1000, .count = 1}};
	ucs_status_t statuses[2];
	int i;

	ucx_fill(buf, 3 * MIB, seed);
	ucx_fill(buf + 3 * MIB, 1000, seed + 1);
	for (i = 0; i < 2; i++) {
		side_op_init(&ops[i]);
		while ((statuses[i] = uct_ep_put_zcopy(side->ep, &iov[i], 1, side->theirs.address + (i ? 3 * MIB : 0),
						       side->rkey.rkey, &ops[i].comp)) == UCS_ERR_NO_RESOURCE)
			uct_worker_progress(side->worker);
	}
	SIDE_OK(uct_ep_fence(side->ep, 0));
	side_am(side, AM_READY, &seed, sizeof(seed));
	for (i = 0; i < 2; i++)
		SIDE_OK(side_op_wait(side, &ops[i], statuses[i]));
}

static void test_order(int socket)
{
	struct side side;
	uint8_t *buf = malloc(4 * MIB);
	uint64_t seed;

	side_open(&side, socket, "zip", devices[0]);
	order_side = &side;
	SIDE_OK(uct_iface_set_am_handler(side.iface, AM_READY, order_am, NULL, 0));
	side_meet(&side, 4 * MIB);
	side_sync(&side, 'a');
	for (seed = 10; side_number == 0 && seed < 22; seed++)
		order_put(&side, buf, seed);
	while (side_number == 1 && order_got < 12)
		uct_worker_progress(side.worker);
	side_sync(&side, 'b');
	side_close(&side);
	free(buf);
}

/* ---- sizes: puts and gets of many sizes, many at once */

static void test_sizes(int socket)
{
	static const size_t sizes[] = {0, 1, 8, 4095, 8156, 8157, 65535, 65536, 65537, 1048575, 1048577, 5000001};
	struct side side;
	uint8_t *buf = malloc(6 * MIB), *back = malloc(6 * MIB);
	size_t i;

	side_open(&side, socket, "zip", devices[0]);
	side_meet(&side, 6 * MIB);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		side_sync(&side, 'a');
		if (side_number == 0) {
			ucx_fill(buf, sizes[i], 50 + i);
			SIDE_OK(side_put(&side, buf, sizes[i], NULL, side.theirs.address + i, side.rkey.rkey));
			SIDE_OK(side_flush(&side, 0));
		}
		side_sync(&side, 'b');
		SIDE_CHECK(side_number == 0 || ucx_filled(side.memory + i, sizes[i], 50 + i), "put of %zu bytes", sizes[i]);
		if (side_number == 0) {
			memset(back, 0, sizes[i]);
			SIDE_OK(side_get(&side, back, sizes[i], NULL, side.theirs.address + i, side.rkey.rkey));
			SIDE_CHECK(!memcmp(back, buf, sizes[i]), "get of %zu bytes", sizes[i]);
		}
	}
	side_sync(&side, 'c');
	side_close(&side);
	free(buf);
	free(back);
}

static void test_many(int socket)
{
	enum { COUNT = 96 };
	static const size_t sizes[] = {200000, 300, 1500000, 70000};
	struct side side;
	uint8_t *buf = malloc(COUNT * 2 * MIB / 4);
	struct side_op ops[COUNT];
	size_t at = 0, len;
	int i;

	side_open(&side, socket, "zip", devices[0]);
	side_meet(&side, COUNT * 2 * MIB / 4);
	for (i = 0; side_number == 0 && i < COUNT; i++, at += len) {
		uct_iov_t iov = {.buffer = buf + at, .length = sizes[i % 4], .count = 1};
		ucs_status_t status;

		len = sizes[i % 4];
		ucx_fill(buf + at, len, 1000 + (uint64_t)i);
		side_op_init(&ops[i]);
		while ((status = uct_ep_put_zcopy(side.ep, &iov, 1, side.theirs.address + at, side.rkey.rkey, &ops[i].comp)) ==
		       UCS_ERR_NO_RESOURCE)
			uct_worker_progress(side.worker);
		SIDE_CHECK(status == UCS_OK || status == UCS_INPROGRESS, "%s", ucs_status_string(status));
		ops[i].done |= status == UCS_OK;
	}
	if (side_number == 0) {
		SIDE_OK(side_flush(&side, 0));
		for (i = 0; i < COUNT; i++) /* remote completion of all is what a flush says */
			SIDE_CHECK(ops[i].done && ops[i].comp.status == UCS_OK, "put %d is not complete after the flush", i);
	}
	side_sync(&side, 'a');
	for (i = 0, at = 0; side_number == 1 && i < COUNT; at += sizes[i % 4], i++)
		SIDE_CHECK(ucx_filled(side.memory + at, sizes[i % 4], 1000 + (uint64_t)i), "put %d", i);
	side_sync(&side, 'b');
	side_close(&side);
	free(buf);
}

/* ---- am: the user's messages with the id that the transport uses too */

static volatile int am_count;

static ucs_status_t am_handler(void *arg, void *data, size_t len, unsigned flags)
{
	(void)arg;
	(void)flags;
	SIDE_CHECK(len >= 8 && ucx_filled((char *)data + 8, len - 8, 7), "%zu bytes", len);
	am_count++;
	return UCS_OK;
}

static void test_am(int socket)
{
	static const size_t sizes[] = {8, 9, 100, 3000, 8000};
	struct side side;
	uint8_t buf[8192], zcopy[32768];
	size_t i, len;

	side_open(&side, socket, "zip", devices[0]);
	SIDE_OK(uct_iface_set_am_handler(side.iface, UCX_AM_SHARED, am_handler, NULL, 0));
	side_meet(&side, 4096);
	side_sync(&side, 'a');
	for (i = 0; side_number == 0 && i < 5; i++) {
		uct_iov_t iov = {.buffer = zcopy, .length = sizeof(zcopy), .count = 1};
		struct side_op op;
		ucs_status_t status;
		uint64_t hdr = i;

		memcpy(buf, &hdr, sizeof(hdr));
		ucx_fill(buf + 8, sizes[i] - 8, 7);
		side_am(&side, UCX_AM_SHARED, buf, sizes[i]);
		len = sizes[i] < side.attr.cap.am.max_short ? sizes[i] : side.attr.cap.am.max_short;
		while ((status = uct_ep_am_short(side.ep, UCX_AM_SHARED, hdr, buf + 8, (unsigned)len - 8)) == UCS_ERR_NO_RESOURCE)
			uct_worker_progress(side.worker);
		SIDE_OK(status);
		if (!(side.attr.cap.flags & UCT_IFACE_FLAG_AM_ZCOPY))
			continue;
		ucx_fill(zcopy, sizeof(zcopy), 7);
		side_op_init(&op);
		while ((status = uct_ep_am_zcopy(side.ep, UCX_AM_SHARED, &hdr, sizeof(hdr), &iov, 1, 0, &op.comp)) == UCS_ERR_NO_RESOURCE)
			uct_worker_progress(side.worker);
		SIDE_OK(side_op_wait(&side, &op, status));
	}
	if (side_number == 0)
		SIDE_OK(side_flush(&side, 0));
	while (side_number == 1 && am_count < (side.attr.cap.flags & UCT_IFACE_FLAG_AM_ZCOPY ? 15 : 10))
		uct_worker_progress(side.worker);
	side_sync(&side, 'b');
	side_close(&side);
}

/* ---- keys: what the target does not allow fails, touches nothing, and ends the endpoint */

/* A key as it travels starts with its number. */
static uct_rkey_t keys_forged(struct side *side, uct_rkey_bundle_t *bundle)
{
	side->theirs.key[3] ^= 0x10;
	SIDE_OK(uct_rkey_unpack(side->component, side->theirs.key, bundle));
	side->theirs.key[3] ^= 0x10;
	return bundle->rkey;
}

static void keys_refused(struct side *side, ucs_status_t status, const char *what)
{
	uint64_t end = side_now_ms() + 5000;

	SIDE_CHECK(status != UCS_OK, "%s went through", what);
	while (!side->errors && side_now_ms() < end)
		uct_worker_progress(side->worker);
	SIDE_CHECK(side->errors == 1, "%s: %u errors told", what, side->errors);
	SIDE_CHECK(uct_ep_am_short(side->ep, AM_READY, 0, NULL, 0) != UCS_OK, "%s: the endpoint still works", what);
	side->errors = 0;
	uct_ep_destroy(side->ep);
	side_connect(side);
}

static void test_keys(int socket)
{
	struct side side;
	uct_rkey_bundle_t forged;
	uint8_t *buf = malloc(2 * MIB);
	uint64_t beyond;
	size_t i;

	side_open(&side, socket, "zip", devices[0]);
	side_meet(&side, 2 * MIB);
	side_sync(&side, 'a');
	if (side_number == 0) {
		ucx_fill(buf, 2 * MIB, 1);
		beyond = side.theirs.address + 2 * MIB - 1000;
		keys_forged(&side, &forged);
		for (i = 1000; i <= MIB; i += MIB - 1000) {
			keys_refused(&side, side_put(&side, buf, i, NULL, side.theirs.address, forged.rkey), "put with a forged key");
			keys_refused(&side, side_get(&side, buf, i, NULL, side.theirs.address, forged.rkey), "get with a forged key");
			keys_refused(&side, side_put(&side, buf, i, NULL, beyond + 1, side.rkey.rkey), "put beyond the end");
			keys_refused(&side, side_get(&side, buf, i, NULL, side.theirs.address - 1, side.rkey.rkey), "get before the start");
			keys_refused(&side, side_put(&side, buf, i, NULL, UINT64_MAX - 10, side.rkey.rkey), "put around the end of memory");
		}
		uct_rkey_release(side.component, &forged);
		ucx_fill(buf, MIB, 2);
		SIDE_OK(side_put(&side, buf, MIB, NULL, side.theirs.address + MIB, side.rkey.rkey));
	}
	side_sync(&side, 'b');
	if (side_number == 1) {
		for (i = 0; i < MIB; i++)
			SIDE_CHECK(!side.memory[i], "byte %zu was written", i);
		SIDE_CHECK(ucx_filled(side.memory + MIB, MIB, 2), "the put with the right key");
		SIDE_OK(uct_md_mem_dereg(side.md, side.memh));
		side.memh = NULL;
	}
	side_sync(&side, 'c');
	if (side_number == 0) {
		keys_refused(&side, side_put(&side, buf, 1000, NULL, side.theirs.address, side.rkey.rkey), "put to what is deregistered");
		keys_refused(&side, side_put(&side, buf, MIB, NULL, side.theirs.address, side.rkey.rkey), "big put to what is deregistered");
	}
	side_sync(&side, 'd');
	side_close(&side);
	free(buf);
}

/* ---- cancel: a flush that cancels ends everything, and the memory is the user's again */

static void test_cancel(int socket)
{
	enum { COUNT = 16 };
	struct side side;
	struct side_op ops[COUNT];
	uint8_t *buf[COUNT], *data = malloc(4 * MIB);
	ucs_status_t status;
	int i, round;

	ucx_fill(data, 4 * MIB, 30);
	side_open(&side, socket, "zip", devices[0]);
	side_meet(&side, 4 * MIB);
	side_sync(&side, 'a');
	for (round = 0; round < 6; round++) {
		for (i = 0; side_number == 0 && i < COUNT; i++) {
			uct_iov_t iov = {.length = 4 * MIB, .count = 1};

			iov.buffer = buf[i] = malloc(4 * MIB);
			memcpy(buf[i], data, 4 * MIB);
			side_op_init(&ops[i]);
			while ((status = i % 2 ? uct_ep_get_zcopy(side.ep, &iov, 1, side.theirs.address, side.rkey.rkey, &ops[i].comp) :
				uct_ep_put_zcopy(side.ep, &iov, 1, side.theirs.address, side.rkey.rkey, &ops[i].comp)) ==
			       UCS_ERR_NO_RESOURCE)
				uct_worker_progress(side.worker);
			SIDE_CHECK(status == UCS_INPROGRESS, "%s", ucs_status_string(status));
		}
		for (i = 0; i < 100 << round; i++)
			uct_worker_progress(side.worker);
		if (side_number == 0) {
			side_flush(&side, UCT_FLUSH_FLAG_CANCEL);
			for (i = 0; i < COUNT; i++) {
				SIDE_CHECK(side_wait(&side, &ops[i].done, 5000), "operation %d does not end", i);
				memset(buf[i], 0, 4 * MIB);
				free(buf[i]);
			}
			uct_ep_destroy(side.ep);
			side_connect(&side);
		}
	}
	if (side_number == 0)
		SIDE_OK(side_put(&side, data, 4 * MIB, NULL, side.theirs.address, side.rkey.rkey));
	side_sync(&side, 'b');
	SIDE_CHECK(side_number == 0 || !memcmp(side.memory, data, 4 * MIB), "a put after all that");
	side_close(&side);
	free(data);
}

/* ---- death: the other side dies in the middle */

static void test_death(int socket)
{
	enum { COUNT = 8 };
	struct side side;
	struct side_op ops[COUNT];
	uint8_t *buf = malloc(16 * MIB);
	ucs_status_t status;
	int i;

	side_open(&side, socket, "zip", devices[0]);
	side_meet(&side, 16 * MIB);
	side_sync(&side, 'a');
	if (side_number == 1) { /* takes part in some of it, and then no more */
		uint64_t end = side_now_ms() + 10000;

		while (!side.memory[5 * MIB] && side_now_ms() < end)
			uct_worker_progress(side.worker);
		raise(SIGKILL);
	}
	ucx_fill(buf, 16 * MIB, 40);
	for (i = 0; i < COUNT; i++) {
		uct_iov_t iov = {.buffer = buf, .length = 16 * MIB, .count = 1};

		side_op_init(&ops[i]);
		while ((status = i % 2 ? uct_ep_get_zcopy(side.ep, &iov, 1, side.theirs.address, side.rkey.rkey, &ops[i].comp)
				       : uct_ep_put_zcopy(side.ep, &iov, 1, side.theirs.address, side.rkey.rkey, &ops[i].comp)) ==
		       UCS_ERR_NO_RESOURCE)
			uct_worker_progress(side.worker);
		ops[i].done |= status != UCS_INPROGRESS;
	}
	for (i = 0; i < COUNT; i++)
		SIDE_CHECK(side_wait(&side, &ops[i].done, 10000), "operation %d does not end", i);
	SIDE_CHECK(side_wait(&side, (volatile int *)&side.errors, 5000), "no error is told");
	SIDE_CHECK(side.errors == 1, "%u errors are told", side.errors);
	side_close(&side);
	free(buf);
}

/* ---- bw: how fast, to be called with and without compression */

/* UCX looks for devices in /sys, which must be that of the namespace. */
static void enter_netns(void)
{
	int fd = open(netns, O_RDONLY);

	SIDE_CHECK(fd >= 0 && !setns(fd, CLONE_NEWNET), "%s: %s", netns, strerror(errno));
	close(fd);
	SIDE_CHECK(!unshare(CLONE_NEWNS) && !mount("", "/", "none", MS_SLAVE | MS_REC, NULL) &&
		   (!umount2("/sys", MNT_DETACH) || errno == EINVAL) && !mount("sysfs", "/sys", "sysfs", 0, NULL),
		   "/sys of %s: %s", netns, strerror(errno));
}

static void test_bw(int socket)
{
	struct side side;
	struct side_op ops[2];
	uct_iov_t iov = {.length = bw_bytes, .count = 1};
	uint8_t *buf = malloc(bw_bytes);
	ucs_status_t status = UCS_OK;
	uint64_t start;
	unsigned i;

	if (side_number == 1 && netns)
		enter_netns();
	side_open(&side, socket, "zip", devices[side_number]);
	side_meet(&side, bw_bytes);
	zipt_fill(buf, bw_bytes, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 9);
	iov.buffer = buf;
	side_sync(&side, 'a');
	for (i = 0; side_number == 0 && i < 4; i++) /* the engines meet, and learn what is faster */
		SIDE_OK(side_put(&side, buf, bw_bytes, NULL, side.theirs.address, side.rkey.rkey));
	start = side_now_ms();
	for (i = 0; side_number == 0 && i < bw_count; i++) { /* two are under way */
		if (i >= 2)
			SIDE_OK(side_op_wait(&side, &ops[i % 2], ops[i % 2].done ? ops[i % 2].comp.status : UCS_INPROGRESS));
		side_op_init(&ops[i % 2]);
		while ((status = uct_ep_put_zcopy(side.ep, &iov, 1, side.theirs.address, side.rkey.rkey, &ops[i % 2].comp)) ==
		       UCS_ERR_NO_RESOURCE)
			uct_worker_progress(side.worker);
		SIDE_CHECK(status == UCS_OK || status == UCS_INPROGRESS, "%s", ucs_status_string(status));
		ops[i % 2].done |= status == UCS_OK;
	}
	if (side_number == 0) {
		SIDE_OK(side_flush(&side, 0));
		printf("bw: %u puts of %zu bytes in %llu ms\n", bw_count, bw_bytes, (unsigned long long)(side_now_ms() - start));
	}
	side_sync(&side, 'b');
	SIDE_CHECK(side_number == 0 || !memcmp(side.memory, buf, bw_bytes), "data");
	side_close(&side);
	free(buf);
}

/* ---- */

static const struct test {
	const char *name;
	void (*run)(int socket);
	int signal; /* how side 1 ends */
} tests[] = {
	{"order", test_order, 0},   {"sizes", test_sizes, 0},   {"many", test_many, 0}, {"am", test_am, 0},
	{"keys", test_keys, 0},     {"cancel", test_cancel, 0}, {"death", test_death, SIGKILL}, {"hostile", ucx_test_hostile, 0},
	{"bw", test_bw, 0},
};

static pid_t start_side(const struct test *test, int number, const int *sockets)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	side_number = number;
	close(sockets[!number]);
	test->run(sockets[number]);
	fflush(NULL);
	exit(0);
}

static int run_test(const struct test *test)
{
	int sockets[2], statuses[2] = {-1, -1}, i, ok;
	pid_t pids[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		return 1;
	for (i = 0; i < 2; i++)
		pids[i] = start_side(test, i, sockets);
	close(sockets[0]);
	close(sockets[1]);
	for (i = 0; i < 2; i++)
		waitpid(pids[i], &statuses[i], 0);
	ok = !statuses[0] && (test->signal ? WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == test->signal : !statuses[1]);
	printf("%s: ucx_zip %s (sides ended with %#x %#x)\n", ok ? "PASS" : "FAIL", test->name, (unsigned)statuses[0],
	       (unsigned)statuses[1]);
	return !ok;
}

int main(int argc, char **argv)
{
	int option, failed = 0;
	size_t i;

	while ((option = getopt(argc, argv, "d:D:t:n:s:c:")) != -1) {
		switch (option) {
		case 'd': devices[0] = devices[1] = optarg; break;
		case 'D': devices[1] = optarg; break;
		case 't': lower = optarg; break;
		case 'n': netns = optarg; break;
		case 's': bw_bytes = strtoull(optarg, NULL, 0); break;
		case 'c': bw_count = (unsigned)strtoul(optarg, NULL, 0); break;
		default: return 2;
		}
	}
	for (; optind < argc; optind++)
		for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
			if (!strcmp(argv[optind], tests[i].name) || (!strcmp(argv[optind], "all") && tests[i].run != test_bw))
				failed |= run_test(&tests[i]);
	return failed;
}
