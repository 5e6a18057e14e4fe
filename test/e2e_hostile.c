/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that breaks the protocol: rank 1 runs the core alone, opens a companion of its own, says a valid hello to rank 0 and
 * then what it should not. The operation of rank 0 that it concerns ends with an error and one line in the log; rank 0 goes on
 * with rank 2, which is honest, after each case.
 */
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "e2e.h"
#include "zipc_codec.h"
#include "zipc_error.h"
#include "zipc_proto.h"
#include "zipt_data.h"

#define PUPPET 1
#define PUPPET_ID 0xbadbadbadu
#define BYTES 200000
#define CHUNK 131072
#define CTL_BUFS 64
#define FLOOD 20000
#define FLOOD_BYTES (48u << 20) /* most that rank 0 may grow by */

enum kind { PLACEHOLDER, CHUNKS, CREDIT, FIN, OTHER };

static const struct hostile_case {
	const char *what;
	enum kind kind;
	int err;   /* of rank 0's operation */
	int lines; /* in its log; -1: any number */
} cases[] = {
	{"nothing wrong", CHUNKS, 0, 0},
	{"version", PLACEHOLDER, FI_EIO, 1},
	{"flags", PLACEHOLDER, FI_EIO, 1},
	{"zero", PLACEHOLDER, FI_EIO, 1},
	{"small chunk", PLACEHOLDER, FI_EIO, 1},
	{"large chunk", PLACEHOLDER, FI_EIO, 1},
	{"no bytes", PLACEHOLDER, FI_EIO, 1},
	{"huge", PLACEHOLDER, FI_EIO, 1},
	{"other length than its control record", PLACEHOLDER, FI_EIO, 1},
	{"empty chunk", CHUNKS, FI_EIO, 1},
	{"short chunk", CHUNKS, FI_EIO, 1},
	{"corrupt header", CHUNKS, FI_EIO, 1},
	{"frame of another length", CHUNKS, FI_EIO, 1},
	{"long chunk", CHUNKS, FI_EIO, -1},
	{"longer than the buffer", CHUNKS, FI_ETRUNC, 0},
	{"given up by its sender", CHUNKS, FI_ECONNABORTED, 1},
	{"credit for later chunks first", CREDIT, FI_EIO, 1},
	{"credit for none", CREDIT, FI_EIO, 1},
	{"credit for too many", CREDIT, FI_EIO, 1},
	{"credit of another receiver", CREDIT, FI_EIO, 1},
	{"fin that says truncation", FIN, 0, 0},
	{"fin that says no memory", FIN, FI_ENOMEM, 1},
	{"fin with an unknown status", FIN, FI_EIO, 1},
	{"fin for others first", FIN, 0, 3},
	{"control messages of all lengths", OTHER, 0, -1},
	{"chunks that nobody waits for", OTHER, 0, 0},
	{"flood of requests to send", OTHER, 0, -1},
	{"end of all transfers", OTHER, 0, 1},
	{"another hello", OTHER, 0, 0},
	{"nothing wrong at the end", CHUNKS, 0, 0},
};

#define CASES ((int)(sizeof(cases) / sizeof(*cases)))

/* ---- the puppet */

struct puppet {
	struct e2e *e;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	fi_addr_t companion; /* of rank 0 */
	char companion_name[512];
	bool heard_hello, heard_abort;
	struct e2e_op send, recv[CTL_BUFS];
	uint8_t bufs[CTL_BUFS][1024], out[CHUNK * 2 + 4096];
	struct zipc_credit_v1 credit; /* the last one heard */
	bool heard_credit;
	char name[512];
	size_t name_len;
	uint64_t echo;       /* rank 0's id */
	uint32_t xfer;
};

static struct puppet puppet;
static bool hooked; /* zip is in the stack by FI_HOOK; the puppet, which runs the core alone, has lost that setting */

static bool is_shm(const void *name)
{
	return !strncmp(name, "fi_", 3);
}

/* The bit of a tag that says placeholder: the highest of what tcp has, and none over the shm of 1.17 or under the hook. */
static uint64_t zbit(void)
{
	if (hooked)
		return 0;
	return strstr(getenv("FI_PROVIDER"), "shm") && FI_VERSION_LT(fi_version(), FI_VERSION(1, 19)) ? 0 : 1ULL << 63;
}

static void puppet_post(int i)
{
	memset(&puppet.recv[i], 0, sizeof(puppet.recv[i]));
	E2E_AGAIN(puppet.e, fi_recv(puppet.ep, puppet.bufs[i], sizeof(puppet.bufs[i]), NULL, FI_ADDR_UNSPEC, &puppet.recv[i]));
}

static void puppet_hear(const uint8_t *msg, size_t len)
{
	struct zipc_control_v1 hdr;

	E2E_CHECK(len >= sizeof(hdr), "%zu bytes", len);
	memcpy(&hdr, msg, sizeof(hdr));
	puppet.echo = hdr.sender;
	if (hdr.type == ZIPC_CTL_HELLO) {
		struct zipc_hello_v1 hello;

		memcpy(&hello, msg, sizeof(hello));
		memcpy(puppet.companion_name, msg + sizeof(hello) + hello.main_len, hello.comp_len);
		puppet.heard_hello = true;
	}
	puppet.heard_abort |= hdr.type == ZIPC_CTL_ABORT;
	if (hdr.type != ZIPC_CTL_CREDIT)
		return;
	memcpy(&puppet.credit, msg, sizeof(puppet.credit));
	puppet.heard_credit = true;
}

static void puppet_progress(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	struct e2e_op *op;
	ssize_t n = fi_cq_read(puppet.cq, &entry, 1);

	e2e_progress(puppet.e);
	if (n == -FI_EAVAIL && fi_cq_readerr(puppet.cq, &error, 0) == 1)
		((struct e2e_op *)error.op_context)->done = true;
	if (n != 1)
		return;
	op = entry.op_context;
	op->done = true;
	if (op < puppet.recv || op >= puppet.recv + CTL_BUFS)
		return;
	puppet_hear(puppet.bufs[op - puppet.recv], entry.len);
	puppet_post((int)(op - puppet.recv));
}

static void puppet_wait(bool *what)
{
	double end = e2e_now() + 20;

	while (!*what) {
		E2E_CHECK(e2e_now() < end, "the puppet waits in vain");
		puppet_progress();
	}
}

#define PUPPET_AGAIN(call)                                \
	do {                                              \
		long ret;                                 \
		while ((ret = (call)) == -FI_EAGAIN)      \
			puppet_progress();                \
		E2E_OK(ret);                              \
	} while (0)

static void say(const void *msg, size_t len)
{
	memcpy(puppet.out, msg, len);
	puppet.send.done = false;
	PUPPET_AGAIN(fi_send(puppet.ep, puppet.out, len, NULL, puppet.companion, &puppet.send));
	puppet_wait(&puppet.send.done);
}

static struct zipc_control_v1 header(unsigned type, size_t len)
{
	const struct zipc_control_v1 hdr = {
		.magic = ZIPC_CONTROL_MAGIC, .version = ZIPC_WIRE_VERSION, .type = (uint8_t)type, .length = (uint32_t)len,
		.sender = PUPPET_ID,
	};

	return hdr;
}

static void say_hello(void)
{
	char own[512];
	size_t own_len = sizeof(own);
	struct zipc_hello_v1 hello = {
		.echo = puppet.echo, .flags = ZIPC_HELLO_UNTAGGED, .dtypes = 0xff, .codecs = 0xff, .max_chunk = CHUNK,
		.comp_len = (uint16_t)puppet.name_len,
	};
	uint8_t msg[sizeof(hello) + 1024];
	size_t len;

	E2E_OK(fi_getname(&puppet.e->ep->fid, own, &own_len));
	len = sizeof(hello) + own_len + puppet.name_len;
	hello.hdr = header(ZIPC_CTL_HELLO, len);
	hello.main_len = (uint16_t)own_len;
	memcpy(msg, &hello, sizeof(hello));
	memcpy(msg + sizeof(hello), own, own_len);
	memcpy(msg + sizeof(hello) + own_len, puppet.name, puppet.name_len);
	say(msg, len);
}

/* Over IP the puppet announces itself, and is told where the companion is by a hello. */
static void puppet_announce(const void *victim)
{
	struct __attribute__((packed)) {
		char magic[4];
		uint8_t version, addr_len, zero[2];
		struct sockaddr_in name, companion;
	} msg = {.magic = "ZPA1", .version = 1, .addr_len = sizeof(struct sockaddr_in)};
	struct sockaddr_in from = {.sin_family = AF_INET};
	size_t len = sizeof(msg.name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	E2E_OK(fi_getname(&puppet.e->ep->fid, &msg.name, &len));
	memcpy(&msg.companion, puppet.name, sizeof(msg.companion));
	from.sin_addr = msg.name.sin_addr;
	E2E_CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&from, sizeof(from)), "a socket");
	E2E_CHECK(sendto(fd, &msg, sizeof(msg), 0, victim, sizeof(struct sockaddr_in)) == sizeof(msg), "announcing");
	puppet_wait(&puppet.heard_hello);
	close(fd);
}

static void puppet_open(struct e2e *e, const void *victim)
{
	struct fi_cq_attr cq_attr = {.size = 1024, .format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int i;

	puppet.e = e;
	if (e->info->src_addr && e->info->addr_format == FI_SOCKADDR_IN)
		((struct sockaddr_in *)e->info->src_addr)->sin_port = 0;
	E2E_OK(fi_endpoint(e->domain, e->info, &puppet.ep, NULL));
	E2E_OK(fi_av_open(e->domain, &av_attr, &puppet.av, NULL));
	E2E_OK(fi_cq_open(e->domain, &cq_attr, &puppet.cq, NULL));
	E2E_OK(fi_ep_bind(puppet.ep, &puppet.av->fid, 0));
	E2E_OK(fi_ep_bind(puppet.ep, &puppet.cq->fid, FI_TRANSMIT | FI_RECV));
	E2E_OK(fi_enable(puppet.ep));
	puppet.name_len = sizeof(puppet.name);
	E2E_OK(fi_getname(&puppet.ep->fid, puppet.name, &puppet.name_len));
	for (i = 0; i < CTL_BUFS; i++)
		puppet_post(i);
	if (is_shm(victim))
		snprintf(puppet.companion_name, sizeof(puppet.companion_name), "%sc", (const char *)victim);
	else
		puppet_announce(victim);
	E2E_CHECK(fi_av_insert(puppet.av, puppet.companion_name, 1, &puppet.companion, 0, NULL) == 1, "the companion's address");
	say_hello();
	while (!puppet.echo)
		puppet_progress();
	say_hello();
}

static void puppet_close(void)
{
	E2E_OK(fi_close(&puppet.ep->fid));
	E2E_OK(fi_close(&puppet.cq->fid));
	E2E_OK(fi_close(&puppet.av->fid));
}

static bool is(int i, const char *what)
{
	return !strcmp(cases[i].what, what);
}

static void send_placeholder(const struct zipc_placeholder_v1 *ph)
{
	struct e2e_op op;

	e2e_tsend(puppet.e, 0, ph, sizeof(*ph), 1 | zbit(), &op);
	puppet_wait(&op.done);
}

static void say_rts(uint32_t xfer)
{
	const struct zipc_rts_v1 rts = {
		.hdr = header(ZIPC_CTL_RTS, sizeof(rts)), .sender_xfer = xfer, .chunk = CHUNK, .nbytes = BYTES, .tag = 1,
		.flags = ZIPC_PH_TAGGED,
	};

	say(&rts, sizeof(rts));
}

static struct zipc_placeholder_v1 usual_placeholder(void)
{
	struct zipc_placeholder_v1 ph = {
		.sender = PUPPET_ID, .sender_xfer = puppet.xfer, .chunk = CHUNK, .nbytes = BYTES, .tag = 1,
		.version = ZIPC_WIRE_VERSION, .flags = ZIPC_PH_TAGGED,
	};

	memcpy(ph.magic, ZIPC_PLACEHOLDER_MAGIC, sizeof(ph.magic));
	return ph;
}

static void play_placeholder(int i)
{
	struct zipc_placeholder_v1 ph = usual_placeholder();

	if (is(i, "version"))
		ph.version++;
	else if (is(i, "flags"))
		ph.flags |= 0x80;
	else if (is(i, "zero"))
		ph.zero[4] = 1;
	else if (is(i, "small chunk"))
		ph.chunk = 1;
	else if (is(i, "large chunk"))
		ph.chunk = UINT32_MAX;
	else if (is(i, "no bytes"))
		ph.nbytes = 0;
	else if (is(i, "huge"))
		ph.nbytes = UINT64_MAX - 5;
	else
		ph.nbytes++;
	say_rts(puppet.xfer);
	send_placeholder(&ph);
}

static void send_chunk(uint32_t chunk, size_t len)
{
	puppet.send.done = false;
	PUPPET_AGAIN(fi_tsend(puppet.ep, puppet.out, len, NULL, puppet.companion,
			      zipc_bulk_tag(puppet.credit.receiver_xfer, chunk), &puppet.send));
	puppet_wait(&puppet.send.done);
}

static void play_chunks(int i, const uint8_t *data)
{
	const struct zipc_placeholder_v1 ph = usual_placeholder();
	const struct zipc_abort_v1 gone = {.hdr = header(ZIPC_CTL_ABORT, sizeof(gone)), .sender_xfer = puppet.xfer, .scope = 1};
	size_t n, len, sent;
	uint32_t chunk;

	puppet.heard_credit = false;
	say_rts(puppet.xfer);
	send_placeholder(&ph);
	puppet_wait(&puppet.heard_credit);
	if (is(i, "given up by its sender")) {
		say(&gone, sizeof(gone));
		return;
	}
	for (chunk = 0; chunk < puppet.credit.count; chunk++) {
		n = chunk ? BYTES - CHUNK : CHUNK;
		n -= is(i, "frame of another length");
		E2E_CHECK(!zipc_encode(puppet.out, sizeof(puppet.out), data + chunk * CHUNK, n, ZIPC_DTYPE_BF16, ZIPC_CODEC_FIXED, &len),
			  "encode");
		sent = is(i, "empty chunk") ? 0 : is(i, "short chunk") ? len - 9 : is(i, "long chunk") ? sizeof(puppet.out) : len;
		puppet.out[1] ^= is(i, "corrupt header");
		send_chunk(chunk, sent);
	}
}

/* Receives the placeholder of a transfer of rank 0. */
static struct zipc_placeholder_v1 puppet_take(void)
{
	struct zipc_placeholder_v1 ph;
	struct e2e_op op;

	e2e_trecv(puppet.e, 0, &ph, sizeof(ph), 2, zbit(), &op);
	puppet_wait(&op.done);
	E2E_CHECK(!op.err && op.entry.len == sizeof(ph), "no placeholder but %zu bytes", op.entry.len);
	return ph;
}

static void say_credit(uint32_t xfer, uint32_t receiver, uint32_t first, uint32_t count)
{
	const struct zipc_credit_v1 credit = {
		.hdr = header(ZIPC_CTL_CREDIT, sizeof(credit)), .sender_xfer = xfer, .receiver_xfer = receiver, .first = first,
		.count = count,
	};

	say(&credit, sizeof(credit));
}

static void play_credit(int i)
{
	const uint32_t xfer = puppet_take().sender_xfer;

	if (is(i, "credit for later chunks first"))
		say_credit(xfer, 1, 1, 1);
	else if (is(i, "credit for none"))
		say_credit(xfer, 1, 0, 0);
	else if (is(i, "credit for too many"))
		say_credit(xfer, 1, 0, UINT32_MAX);
	else {
		static uint8_t chunk[CHUNK + 4096];
		struct e2e_op op = {0};

		PUPPET_AGAIN(fi_trecv(puppet.ep, chunk, sizeof(chunk), NULL, puppet.companion, zipc_bulk_tag(1, 0), 0, &op));
		say_credit(xfer, 1, 0, 1);
		puppet_wait(&op.done);
		say_credit(xfer, 2, 1, 1);
	}
}

static void say_fin(uint32_t xfer, int status)
{
	const struct zipc_fin_v1 fin = {.hdr = header(ZIPC_CTL_FIN, sizeof(fin)), .sender_xfer = xfer, .status = status};

	say(&fin, sizeof(fin));
}

static void play_fin(int i)
{
	const uint32_t xfer = puppet_take().sender_xfer;

	if (is(i, "fin for others first")) {
		say_fin(xfer + 1, 0);
		say_fin(xfer + (1u << 20), 0); /* the same place in the table, another use of it */
		say_fin(~0u, 0);
	}
	say_fin(xfer, is(i, "fin that says truncation") ? ZIPC_ERR_TRUNC : is(i, "fin that says no memory") ? ZIPC_ERR_NOMEM :
		      is(i, "fin with an unknown status") ? 4711 : 0);
}

/* A credit for a transfer that is not there is answered, and what was said before it has been read by then. */
static void wait_until_read(void)
{
	puppet.heard_abort = false;
	say_credit(UINT32_MAX, 1, 0, 1);
	puppet_wait(&puppet.heard_abort);
}

static void play_other(int i)
{
	const struct zipc_abort_v1 gone = {.hdr = header(ZIPC_CTL_ABORT, sizeof(gone))};
	uint8_t noise[4096];
	uint32_t n;

	memset(noise, 0xa5, sizeof(noise));
	if (is(i, "control messages of all lengths")) {
		for (n = 0; n < sizeof(noise); n += n < 100 ? 1 : 333) {
			say(noise, n);
			/* shm 2.1 crashes when one that is too long comes before the receive. */
			usleep(n < 100 ? 500 : 20000);
		}
	} else if (is(i, "chunks that nobody waits for")) {
		for (n = 0; n < 4; n++)
			send_chunk(100 + n, 1000);
	} else if (is(i, "flood of requests to send")) {
		for (n = 0; n < FLOOD; n++) {
			say_rts(1000 + n);
			/* Not faster than they are read: what piles up in the core is the core's to limit. */
			if (n % 64 == 0)
				wait_until_read();
		}
	} else if (is(i, "end of all transfers")) {
		say(&gone, sizeof(gone));
	} else {
		say_hello();
	}
}

static void play(int i, const uint8_t *data)
{
	puppet.xfer = (uint32_t)i;
	switch (cases[i].kind) {
	case PLACEHOLDER: play_placeholder(i); break;
	case CHUNKS: play_chunks(i, data); break;
	case CREDIT: play_credit(i); break;
	case FIN: play_fin(i); break;
	default: play_other(i); break;
	}
}

/* ---- rank 0, whose log is kept */

static int log_fd = -1, stderr_fd = -1;

static void log_show(void)
{
	char text[4096];
	ssize_t n;

	lseek(log_fd, 0, SEEK_SET);
	while ((n = read(log_fd, text, sizeof(text))) > 0)
		if (write(stderr_fd, text, (size_t)n) < 0)
			return;
}

static void log_start(void)
{
	log_fd = memfd_create("log", 0);
	stderr_fd = dup(2);
	E2E_CHECK(log_fd >= 0 && stderr_fd >= 0 && dup2(log_fd, 2) == 2, "a file for the log");
	atexit(log_show);
}

/* Lines of zip's since the start. Asked for again and again, so it must not allocate: what a sanitizer keeps back counts as grown. */
static int log_lines(void)
{
	static char text[4 << 20];
	off_t size = lseek(log_fd, 0, SEEK_END);
	int lines = 0;
	char *at;

	E2E_CHECK(size < (off_t)sizeof(text) && pread(log_fd, text, (size_t)size, 0) == size, "reading a log of %lld bytes", (long long)size);
	text[size] = 0;
	for (at = text; (at = strstr(at, "ofi_zip:ep_data")); at++)
		lines++;
	return lines;
}

static size_t resident_bytes(void)
{
	size_t size = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	E2E_CHECK(file && fscanf(file, "%zu %zu", &size, &resident) == 2, "statm");
	fclose(file);
	return resident * 4096;
}

static void meet_case(struct e2e *e, int i, const uint8_t *data, uint8_t *in)
{
	const struct hostile_case *c = &cases[i];
	struct e2e_op op;

	if (c->kind == OTHER)
		return;
	if (c->kind == PLACEHOLDER || c->kind == CHUNKS)
		e2e_trecv(e, PUPPET, in, c->err == FI_ETRUNC ? CHUNK + 77 : BYTES, 1, 0, &op);
	else
		e2e_tsend(e, PUPPET, data, BYTES, 2, &op);
	E2E_CHECK(e2e_wait_ms(e, &op, 20000), "%s: still pending", c->what);
	E2E_CHECK(op.err == c->err, "%s: %s, not %s", c->what, fi_strerror(op.err), fi_strerror(c->err));
	if (c->kind == CHUNKS && !c->err)
		E2E_CHECK(op.entry.len == BYTES && !memcmp(in, data, BYTES), "%s: wrong data", c->what);
	if (c->err == FI_ETRUNC)
		E2E_CHECK(op.error.olen == BYTES - CHUNK - 77, "%s: olen %zu", c->what, op.error.olen);
}

static void exchange(struct e2e *e, const uint8_t *data, uint8_t *in)
{
	struct e2e_op send, recv;

	memset(in, 0, BYTES);
	e2e_trecv(e, 2 - e->rank, in, BYTES, 9, 0, &recv);
	e2e_tsend(e, 2 - e->rank, data, BYTES, 9, &send);
	e2e_wait(e, &recv);
	e2e_wait(e, &send);
	E2E_CHECK(!memcmp(in, data, BYTES), "data of an honest peer");
}

/* The puppet has to go on reading its companion's queue meanwhile. */
static void barrier(struct e2e *e)
{
	atomic_int *arrived = (atomic_int *)e2e_scratch() + 1, *round = arrived + 1;
	int now = atomic_load(round);

	if (atomic_fetch_add(arrived, 1) + 1 == e->nranks) {
		atomic_store(arrived, 0);
		atomic_fetch_add(round, 1);
	}
	while (atomic_load(round) == now) {
		if (e->rank == PUPPET)
			puppet_progress();
		else
			e2e_progress(e);
		usleep(20);
	}
}

/* Lines that a case has brought. What the peer said last may not have been heard yet. */
static int case_lines(struct e2e *e, int i, int before)
{
	double end = e2e_now() + 2;

	while (log_lines() - before < cases[i].lines && e2e_now() < end)
		e2e_progress(e);
	return log_lines() - before;
}

static void check_case(int i, int lines, size_t resident)
{
	E2E_CHECK(cases[i].lines < 0 || lines == cases[i].lines, "%s: %d lines in the log", cases[i].what, lines);
	E2E_CHECK(resident_bytes() < resident + FLOOD_BYTES, "%s: grown by %zu bytes", cases[i].what, resident_bytes() - resident);
}

static void run(struct e2e *e, const uint8_t *data, uint8_t *in)
{
	size_t resident = resident_bytes();
	int i, n, lines = 0;

	for (i = 0; i < CASES; i++) {
		if (e->rank == PUPPET)
			play(i, data);
		else if (!e->rank)
			meet_case(e, i, data, in);
		barrier(e);
		if (e->rank != PUPPET)
			exchange(e, data, in);
		barrier(e);
		if (!e->rank) {
			n = case_lines(e, i, lines);
			check_case(i, n, resident);
			lines += n;
		}
		barrier(e); /* or lines of the next case would be counted here */
	}
}

int main(void)
{
	const struct e2e_opts opts = {
		.plain_ranks = 1u << PUPPET,
		/* ofi_rxm takes its buffers 1024 at a time, and sooner or later: small ones, as it is zip that must not grow. */
		.env = {{"FI_ZIP_POLICY", "ratio"}, {"FI_LOG_LEVEL", "warn"}, {"FI_LOG_PROV", "ofi_zip"}, {"FI_OFI_RXM_BUFFER_SIZE", "8192"}},
	};
	uint8_t *data = malloc(BYTES), *in = malloc(BYTES);
	struct e2e e;

	zipt_fill(data, BYTES, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 1);
	hooked = getenv("FI_HOOK") != NULL;
	e2e_start(&e, 3, &opts);
	if (!e.rank)
		log_start();
	e2e_open(&e);
	if (e.rank != PUPPET && !e.zip) {
		printf("nothing to test without zip\n");
		fflush(stdout);
		_exit(E2E_SKIP);
	}
	if (!e.rank) {
		size_t len = 512;

		E2E_OK(fi_getname(&e.ep->fid, (char *)e2e_scratch() + 512, &len));
	}
	e2e_barrier(&e);
	if (e.rank == PUPPET)
		puppet_open(&e, (char *)e2e_scratch() + 512);
	while (!e.rank && e2e_stats(&e).peers_ready < 2)
		e2e_progress(&e);
	barrier(&e);
	run(&e, data, in);
	barrier(&e);
	if (e.rank == PUPPET)
		puppet_close();
	if (!e.rank) {
		E2E_CHECK(!e2e_stats(&e).staging_bytes, "%llu bytes of staging lost", (unsigned long long)e2e_stats(&e).staging_bytes);
		if (ftruncate(log_fd, 0))
			return 1;
	}
	e2e_close(&e);
	free(data);
	free(in);
	e2e_exit(&e);
	return 0;
}
