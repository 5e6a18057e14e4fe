/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that start or end in device memory, or both, over cores that know nothing of devices. The device is the emulation, whose
 * memory stops every access that is not its own: any that zip or the core made would end the program.
 */
#include <stdint.h>
#include <string.h>

#include "e2e.h"
#include "zipg_emu_memory.h"
#include "zipt_data.h"

#define MAX_BYTES ((size_t)3 << 20)
#define FLIGHT 24

enum where { HOST, DEVICE };

/* A buffer, and where the test itself sees what is in it. */
struct buffer {
	enum where where;
	size_t bytes;
	uint8_t *at, *seen;
	struct fid_mr *mr;
};

static uint8_t *want;
static struct e2e *registering; /* device buffers are registered there, before they are used */
static uint64_t next_key = 1000;

static void buffer_open(struct buffer *b, enum where where, size_t bytes)
{
	b->where = where;
	b->bytes = bytes;
	b->at = where == DEVICE ? zipg_emu_alloc(bytes) : malloc(bytes);
	E2E_CHECK(b->at, "no memory");
	b->seen = where == DEVICE ? zipg_emu_reach(b->at) : b->at;
	b->mr = NULL;
	if (registering && where == DEVICE) {
		struct iovec iov = {b->at, bytes};
		struct fi_mr_attr attr = {
			.mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV, .requested_key = next_key++, .iface = FI_HMEM_CUDA,
		};

		E2E_OK(fi_mr_regattr(registering->domain, &attr, 0, &b->mr));
	}
}

static void buffer_close(struct buffer *b)
{
	if (b->mr)
		E2E_OK(fi_close(&b->mr->fid));
	if (b->where == DEVICE)
		zipg_emu_free(b->at, b->bytes);
	else
		free(b->at);
}

static void check_bits(const struct buffer *b, size_t off, size_t len, const char *what)
{
	E2E_CHECK(!memcmp(b->seen + off, want, len), "%s of %zu bytes differs", what, len);
}

static const char *pair_name(enum where from, enum where to)
{
	static const char *const names[2][2] = {{"host to host", "host to device"}, {"device to host", "device to device"}};

	return names[from][to];
}

/* ---- one message at a time */

static const size_t sizes[] = {
	0, 1, 2, 3, 33, 58, 59, 60, 63, 64, 65, 127, 128, 4095, 4096, 8191, 8192, 8193, 65535, 65536, 65537, 131072, 262144 + 8191,
	1048576, 1048577, 2500001,
};

static void one(struct e2e *e, struct buffer *out, struct buffer *in, size_t len, unsigned seed, bool tagged)
{
	size_t off = seed * 5 % 16;
	struct e2e_op op;

	zipt_fill(want, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, seed);
	if (e->rank) {
		memcpy(out->seen + off, want, len);
		if (tagged)
			e2e_tsend(e, 0, out->at + off, len, 7, &op);
		else
			e2e_send(e, 0, out->at + off, len, &op);
		e2e_wait(e, &op);
		return;
	}
	memset(in->seen, 0xee, len + 32);
	if (tagged)
		e2e_trecv(e, 1, in->at + off, len + (seed % 3 ? 0 : 7), 7, 0, &op);
	else
		e2e_recv(e, 1, in->at + off, len + (seed % 3 ? 0 : 7), &op);
	e2e_wait(e, &op);
	E2E_CHECK(op.entry.len == len, "%zu of %zu bytes received", op.entry.len, len);
	check_bits(in, off, len, pair_name(out->where, in->where));
	E2E_CHECK(in->seen[off + len] == 0xee && (!off || in->seen[off - 1] == 0xee), "written beside the buffer, %zu bytes", len);
}

static void run_sizes(struct e2e *e, enum where from, enum where to)
{
	struct buffer out, in;
	unsigned i;

	buffer_open(&out, from, MAX_BYTES);
	buffer_open(&in, to, MAX_BYTES);
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		one(e, &out, &in, sizes[i], i, true);
		one(e, &out, &in, sizes[i], i + 100, false);
	}
	e2e_barrier(e);
	buffer_close(&out);
	buffer_close(&in);
}

static void run_dtypes(struct e2e *e)
{
	static const enum zipt_dist dists[] = {ZIPT_DIST_GAUSS, ZIPT_DIST_RANDOM, ZIPT_DIST_ZEROS, ZIPT_DIST_UPCAST, ZIPT_DIST_NAN,
					       ZIPT_DIST_MIXED, ZIPT_DIST_HALF_ZEROS};
	size_t len = 200001;
	struct buffer out, in;
	struct e2e_op op;
	unsigned d, t;

	buffer_open(&out, DEVICE, len);
	buffer_open(&in, DEVICE, len);
	for (t = ZIPC_DTYPE_BF16; t < ZIPC_DTYPE_COUNT; t++)
		for (d = 0; d < sizeof(dists) / sizeof(*dists); d++) {
			zipt_fill(want, len, (enum zipc_dtype)t, dists[d], 0.02, d);
			if (e->rank) {
				memcpy(out.seen, want, len);
				e2e_tsend(e, 0, out.at, len, d, &op);
				e2e_wait(e, &op);
				continue;
			}
			e2e_trecv(e, 1, in.at, len, d, 0, &op);
			e2e_wait(e, &op);
			check_bits(&in, 0, len, zipt_dist_name(dists[d]));
		}
	e2e_barrier(e);
	buffer_close(&out);
	buffer_close(&in);
}

/* ---- corners */

static void run_truncation(struct e2e *e, enum where from, enum where to)
{
	/* One that the core itself would have to cut can break the connection of tcp before 1.18. */
	const size_t lens[] = {10, FI_VERSION_LT(fi_version(), FI_VERSION(1, 18)) ? 64 : 100, 70000, 300000};
	static const size_t rooms[] = {0, 9, 63, 65000, 131072, 299999};
	struct buffer out, in;
	struct e2e_op op;
	unsigned i, k;

	buffer_open(&out, from, 300000);
	buffer_open(&in, to, 300001);
	zipt_fill(want, 300000, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 5);
	memcpy(out.seen, want, 300000);
	for (i = 0; i < 4; i++)
		for (k = 0; k < 6; k++) {
			if (rooms[k] >= lens[i])
				continue;
			if (e->rank) {
				e2e_tsend(e, 0, out.at, lens[i], 3, &op);
				e2e_wait(e, &op);
				continue;
			}
			memset(in.seen, 0xee, 300001);
			e2e_trecv(e, 1, in.at, rooms[k], 3, 0, &op);
			E2E_CHECK(e2e_wait_ms(e, &op, 30000), "nothing for 30 s, %zu into %zu", lens[i], rooms[k]);
			E2E_CHECK(op.err == FI_ETRUNC, "%zu bytes into %zu: error %d", lens[i], rooms[k], op.err);
			/* Of a plain message a core need not say how much was lost. */
			E2E_CHECK(lens[i] < 65536 || op.error.olen == lens[i] - rooms[k], "%zu into %zu: olen %zu", lens[i], rooms[k], op.error.olen);
			check_bits(&in, 0, rooms[k], "what fits");
			E2E_CHECK(in.seen[rooms[k]] == 0xee, "written behind the buffer");
		}
	e2e_barrier(e);
	buffer_close(&out);
	buffer_close(&in);
}

static void run_peek(struct e2e *e)
{
	static const size_t lens[] = {40, 5000, 200000};
	struct buffer out, in;
	struct e2e_op op;
	unsigned i;

	buffer_open(&out, DEVICE, 200000);
	buffer_open(&in, DEVICE, 200000);
	zipt_fill(want, 200000, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 6);
	memcpy(out.seen, want, 200000);
	for (i = 0; i < 3; i++) {
		if (e->rank) {
			e2e_tsend(e, 0, out.at, lens[i], 50 + i, &op);
			e2e_wait(e, &op);
			e2e_barrier(e);
			continue;
		}
		do {
			struct fi_msg_tagged msg = {.addr = e->peer[1], .tag = 50 + i, .context = &op};

			memset(&op, 0, sizeof(op));
			E2E_AGAIN(e, fi_trecvmsg(e->ep, &msg, FI_PEEK));
			E2E_CHECK(e2e_wait_ms(e, &op, 30000), "no answer to a peek");
		} while (op.err == FI_ENOMSG);
		E2E_CHECK(!op.err && op.entry.len == lens[i], "peek: error %d, %zu of %zu bytes", op.err, op.entry.len, lens[i]);
		e2e_trecv(e, 1, in.at, lens[i], 50 + i, 0, &op);
		e2e_wait(e, &op);
		check_bits(&in, 0, lens[i], "a message that was peeked at");
		e2e_barrier(e);
	}
	buffer_close(&out);
	buffer_close(&in);
}

/* Messages of all sizes and both memories with one tag arrive in the order in which they were sent. */
static void run_order(struct e2e *e)
{
	static const size_t lens[] = {8, 100, 70000, 16, 0, 200000, 59, 4096, 300000, 1, 65536, 12};
	struct buffer out[FLIGHT], in[FLIGHT];
	struct e2e_op op[FLIGHT];
	size_t len;
	unsigned i;

	for (i = 0; i < FLIGHT; i++) {
		buffer_open(&out[i], i % 3 ? DEVICE : HOST, 300000);
		buffer_open(&in[i], i % 4 ? DEVICE : HOST, 300000);
	}
	for (i = 0; i < FLIGHT && e->rank; i++) {
		len = lens[i % 12];
		zipt_fill(out[i].seen, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, i);
		e2e_tsend(e, 0, out[i].at, len, 9, &op[i]);
	}
	for (i = 0; i < FLIGHT && !e->rank; i++)
		e2e_trecv(e, 1, in[i].at, 300000, 9, 0, &op[i]);
	for (i = 0; i < FLIGHT; i++) {
		len = lens[i % 12];
		e2e_wait(e, &op[i]);
		if (e->rank)
			continue;
		E2E_CHECK(op[i].entry.len == len, "message %u has %zu bytes, not %zu", i, op[i].entry.len, len);
		zipt_fill(want, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, i);
		check_bits(&in[i], 0, len, "a message in order");
	}
	e2e_barrier(e);
	for (i = 0; i < FLIGHT; i++) {
		buffer_close(&out[i]);
		buffer_close(&in[i]);
	}
}

/* Both ways at once, receives posted in the reverse order, with staging for a few chunks. */
static void run_flight(struct e2e *e)
{
	struct buffer out[FLIGHT], in[FLIGHT];
	struct e2e_op send[FLIGHT], recv[FLIGHT];
	size_t len = 180001;
	unsigned i;

	for (i = 0; i < FLIGHT; i++) {
		buffer_open(&out[i], DEVICE, len);
		buffer_open(&in[i], DEVICE, len);
		zipt_fill(out[i].seen, len, ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, 0.02, i + 1000 * (unsigned)e->rank);
		e2e_tsend(e, !e->rank, out[i].at, len, i, &send[i]);
	}
	for (i = FLIGHT; i--;)
		e2e_trecv(e, !e->rank, in[i].at, len, i, 0, &recv[i]);
	for (i = 0; i < FLIGHT; i++) {
		e2e_wait(e, &send[i]);
		e2e_wait(e, &recv[i]);
		zipt_fill(want, len, ZIPC_DTYPE_FP32, ZIPT_DIST_GAUSS, 0.02, i + 1000 * (unsigned)!e->rank);
		check_bits(&in[i], 0, len, "one of many");
	}
	e2e_barrier(e);
	for (i = 0; i < FLIGHT; i++) {
		buffer_close(&out[i]);
		buffer_close(&in[i]);
	}
}

/* Segments of device memory; an injected message, whose buffer is the caller's again at once; memory that was registered. */
static void run_forms(struct e2e *e)
{
	size_t len = 150000, at = 0, cuts[] = {1, 70000, 70000, 149999};
	struct buffer out, in;
	struct iovec iov[2];
	struct fi_mr_attr attr = {.mr_iov = iov, .iov_count = 1, .access = FI_SEND | FI_RECV, .requested_key = 77, .iface = FI_HMEM_CUDA};
	struct fid_mr *mr;
	struct e2e_op op;
	unsigned i;

	buffer_open(&out, DEVICE, len);
	buffer_open(&in, DEVICE, len);
	zipt_fill(want, len, ZIPC_DTYPE_BF16, ZIPT_DIST_GAUSS, 0.02, 8);
	memcpy(out.seen, want, len);
	iov[0] = (struct iovec){e->rank ? out.at : in.at, len};
	E2E_OK(fi_mr_regattr(e->domain, &attr, 0, &mr));
	for (i = 0; i < 4 && e->info->tx_attr->iov_limit >= 2; i++) {
		at = e->rank ? cuts[i] : cuts[3 - i];
		memset(&op, 0, sizeof(op));
		iov[0] = (struct iovec){e->rank ? out.at : in.at, at};
		iov[1] = (struct iovec){(e->rank ? out.at : in.at) + at, len - at};
		if (e->rank)
			E2E_AGAIN(e, fi_tsendv(e->ep, iov, NULL, 2, e->peer[0], i, &op));
		else
			E2E_AGAIN(e, fi_trecvv(e->ep, iov, NULL, 2, e->peer[1], i, 0, &op));
		e2e_wait(e, &op);
		if (!e->rank)
			check_bits(&in, 0, len, "a message in segments");
		memset(in.seen, 0, len);
	}
	e2e_barrier(e);
	for (i = 0; i < 20; i++) {
		if (!e->rank) {
			e2e_trecv(e, 1, in.at, 64, 200 + i, 0, &op);
			e2e_wait(e, &op);
			check_bits(&in, 0, 40, "an injected message");
			continue;
		}
		memcpy(out.seen, want, 40);
		E2E_AGAIN(e, fi_tinject(e->ep, out.at, 40, e->peer[0], 200 + i));
		memset(out.seen, 0, 40);
	}
	e2e_barrier(e);
	E2E_OK(fi_close(&mr->fid));
	buffer_close(&out);
	buffer_close(&in);
}

static void finish(struct e2e *e, unsigned long long least)
{
	struct fi_zip_stats st = e2e_stats(e);

	if (e->zip && least)
		E2E_CHECK(st.send_transfers + st.recv_transfers >= least, "only %llu transfers",
			  (unsigned long long)(st.send_transfers + st.recv_transfers));
	E2E_CHECK(!e->zip || (e->opts.plain_ranks >> e->rank & 1) || (st.device_bytes && st.device_bytes <= 164u << 20),
		  "%llu bytes of the device", (unsigned long long)st.device_bytes);
	E2E_CHECK(!st.errors && !st.staging_bytes, "errors %llu, staging %llu", (unsigned long long)st.errors,
		  (unsigned long long)st.staging_bytes);
	e2e_barrier(e);
	e2e_close(e);
	e2e_exit(e);
}

/* It does not pass peek and truncation alone. */
static bool is_old_shm(void)
{
	return strstr(getenv("FI_PROVIDER"), "shm") && FI_VERSION_LT(fi_version(), FI_VERSION(1, 18));
}

static void all(const struct e2e_opts *opts)
{
	struct e2e e;

	e2e_start(&e, 2, opts);
	e2e_open(&e);
	registering = opts->no_cuda ? &e : NULL;
	run_sizes(&e, DEVICE, DEVICE);
	run_sizes(&e, HOST, DEVICE);
	run_sizes(&e, DEVICE, HOST);
	if (!is_old_shm()) {
		run_truncation(&e, DEVICE, DEVICE);
		run_truncation(&e, HOST, DEVICE);
		run_peek(&e);
	}
	run_order(&e);
	run_forms(&e);
	registering = NULL;
	finish(&e, 30);
}

static void crowded(const struct e2e_opts *opts)
{
	struct e2e e;

	e2e_start(&e, 2, opts);
	e2e_open(&e);
	run_flight(&e);
	run_order(&e);
	run_dtypes(&e);
	finish(&e, 60);
}

/* A peer without zip gets and sends plain messages. */
static void plain(const struct e2e_opts *opts)
{
	struct e2e e;

	e2e_start(&e, 2, opts);
	e2e_open(&e);
	run_sizes(&e, e.rank == 1 ? HOST : DEVICE, e.rank == 1 ? HOST : DEVICE);
	finish(&e, 0);
}

int main(void)
{
	const struct e2e_opts usual = {
		.caps = FI_MSG | FI_TAGGED | FI_HMEM, .env = {{"ZIP_TEST_DEVICE", "emu"}, {"FI_ZIP_POLICY", "ratio"}},
	};
	const struct e2e_opts tight = {
		.caps = FI_MSG | FI_TAGGED | FI_HMEM, .one_cq = true,
		.env = {{"ZIP_TEST_DEVICE", "emu"}, {"FI_ZIP_CHUNK", "65536"}, {"FI_ZIP_STAGING", "262144"}, {"FI_ZIP_CODEC", "fixed"}},
	};

	const struct e2e_opts one_plain = {
		.caps = FI_MSG | FI_TAGGED | FI_HMEM, .plain_ranks = 2, .env = {{"ZIP_TEST_DEVICE", "emu"}},
	};

	/* Device calls by a thread of zip's, progress by another. */
	const struct e2e_opts served = {
		.caps = FI_MSG | FI_TAGGED | FI_HMEM, .no_cuda = true, .threading = FI_THREAD_SAFE, .progress = FI_PROGRESS_AUTO,
		.env = {{"ZIP_TEST_DEVICE", "emu"}, {"FI_ZIP_POLICY", "ratio"}},
	};

	/* The core plays one that has device memory itself: staging is on the device, raw messages go to the core. */
	const struct e2e_opts direct = {
		.caps = FI_MSG | FI_TAGGED | FI_HMEM, .env = {{"ZIP_TEST_DEVICE", "emu-direct"}, {"FI_ZIP_POLICY", "ratio"}},
	};
	const struct e2e_opts direct_tight = {
		.caps = FI_MSG | FI_TAGGED | FI_HMEM, .one_cq = true,
		.env = {{"ZIP_TEST_DEVICE", "emu-direct"}, {"FI_ZIP_CHUNK", "65536"}, {"FI_ZIP_STAGING", "262144"}, {"FI_ZIP_CODEC", "fixed"}},
	};

	want = malloc(MAX_BYTES);
	/* First: a process that has met libfabric keeps its stack, and so do its children. */
	plain(&one_plain);
	all(&usual);
	crowded(&tight);
	all(&served);
	all(&direct);
	crowded(&direct_tight);
	free(want);
	return 0;
}
