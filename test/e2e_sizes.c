/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every size around every limit, tagged and untagged, one segment and several, at every alignment: the same bits arrive, and
 * large floats travel as transfers.
 */
#include <stdint.h>
#include <string.h>

#include "e2e.h"
#include "zipt_data.h"

#define MAX_BYTES (5u << 20)

static const size_t sizes[] = {
	0, 1, 2, 3, 33, 58, 59, 60, 63, 64, 65, 127, 128, 4095, 4096, 8191, 8192, 8193, 65535, 65536, 65537, 131071, 131072, 131073,
	262144 + 8191, 524288 - 1, 1048575, 1048576, 1048577, 2097153, 4194304, 5000001,
};

static uint8_t *out, *in, *want;

static void check_bits(const uint8_t *got, size_t len, const char *what)
{
	E2E_CHECK(!memcmp(got, want, len), "%s of %zu bytes differs", what, len);
	E2E_CHECK(got[len] == 0xee && got[-1] == 0xee, "%s of %zu bytes wrote outside its buffer", what, len);
}

static void fill(size_t len, enum zipc_dtype dtype, enum zipt_dist dist, unsigned seed)
{
	zipt_fill(want, len, dtype, dist, 0.02, seed);
}

/* Both ranks send to each other at once: who only sends must not block who only receives. */
static void exchange(struct e2e *e, size_t len, unsigned align, bool tagged)
{
	uint8_t *to = in + 64 + align % 16, *from = out + 64 + (align / 3) % 16;
	struct e2e_op send, recv;
	int peer = 1 - e->rank;

	memcpy(from, want, len);
	memset(to - 1, 0xee, len + 2);
	if (tagged) {
		e2e_trecv(e, peer, to, len, 7 + len, 0, &recv);
		e2e_tsend(e, peer, from, len, 7 + len, &send);
	} else {
		e2e_recv(e, peer, to, len, &recv);
		e2e_send(e, peer, from, len, &send);
	}
	e2e_wait(e, &recv);
	e2e_wait(e, &send);
	E2E_CHECK(recv.entry.len == len, "completion says %zu, not %zu", recv.entry.len, len);
	E2E_CHECK(!tagged || recv.entry.tag == 7 + len, "tag %llx", (unsigned long long)recv.entry.tag);
	check_bits(to, len, tagged ? "tagged message" : "message");
}

/* Segments of odd lengths, of 1 byte and of none. */
static size_t cut(struct iovec *iov, uint8_t *base, size_t len, size_t limit, unsigned seed)
{
	size_t n = 0, at = 0, part;

	while (at < len && n + 1 < limit) {
		part = n == 1 ? 0 : n == 2 ? 1 : (len / 3 + seed * 7) % (len - at + 1);
		if (part > len - at)
			part = len - at;
		iov[n].iov_base = base + at;
		iov[n++].iov_len = part;
		at += part;
	}
	iov[n].iov_base = base + at;
	iov[n++].iov_len = len - at;
	return n;
}

static void exchange_iov(struct e2e *e, size_t len, unsigned seed)
{
	size_t tx_limit = e->info->tx_attr->iov_limit, rx_limit = e->info->rx_attr->iov_limit;
	struct iovec tx[8], rx[8];
	struct e2e_op send = {0}, recv = {0};
	fi_addr_t peer = e->peer[1 - e->rank];

	memcpy(out + 64, want, len);
	memset(in + 63, 0xee, len + 2);
	E2E_AGAIN(e, fi_trecvv(e->ep, rx, NULL, cut(rx, in + 64, len, rx_limit > 8 ? 8 : rx_limit, seed + 3), peer, 5, 0, &recv));
	E2E_AGAIN(e, fi_tsendv(e->ep, tx, NULL, cut(tx, out + 64, len, tx_limit > 8 ? 8 : tx_limit, seed), peer, 5, &send));
	e2e_wait(e, &recv);
	e2e_wait(e, &send);
	E2E_CHECK(recv.entry.len == len, "completion says %zu, not %zu", recv.entry.len, len);
	check_bits(in + 64, len, "segmented message");
}

static void run(struct e2e *e)
{
	unsigned i, dtype;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		for (dtype = 1; dtype < ZIPC_DTYPE_COUNT; dtype += sizes[i] > 600000 ? ZIPC_DTYPE_COUNT : 1) {
			fill(sizes[i], dtype, dtype == 2 && i % 3 == 0 ? ZIPT_DIST_MIXED : ZIPT_DIST_GAUSS, i);
			exchange(e, sizes[i], i * 5 + dtype, true);
		}
		exchange(e, sizes[i], i, false);
		exchange_iov(e, sizes[i], i);
	}
	for (i = 0; i < ZIPT_DIST_COUNT; i++) {
		fill(300000 + i, ZIPC_DTYPE_BF16, i, i);
		exchange(e, 300000 + i, i, true);
	}
}

static void once(const struct e2e_opts *opts, unsigned long least)
{
	struct e2e e;

	e2e_start(&e, 2, opts);
	e2e_open(&e);
	run(&e);
	if (e.zip)
		E2E_CHECK(e2e_stats(&e).send_transfers >= least && e2e_stats(&e).recv_transfers >= least,
			  "only %llu sent and %llu received as transfers", (unsigned long long)e2e_stats(&e).send_transfers,
			  (unsigned long long)e2e_stats(&e).recv_transfers);
	if (e.zip)
		E2E_CHECK(!e2e_stats(&e).errors && !e2e_stats(&e).staging_bytes, "errors %llu, staging %llu",
			  (unsigned long long)e2e_stats(&e).errors, (unsigned long long)e2e_stats(&e).staging_bytes);
	e2e_barrier(&e);
	e2e_close(&e);
	e2e_exit(&e);
}

int main(void)
{
	const struct e2e_opts usual = {.env = {{"FI_ZIP_POLICY", "ratio"}}};
	const struct e2e_opts all = {.env = {{"FI_ZIP_MIN_SIZE", "1"}, {"FI_ZIP_POLICY", "always"}}};
	const struct e2e_opts fixed = {
		.one_cq = true, .av_map = true,
		.env = {{"FI_ZIP_CODEC", "fixed"}, {"FI_ZIP_CHUNK", "65536"}, {"FI_ZIP_STAGING", "131072"}, {"FI_ZIP_POLICY", "ratio"}},
	};

	out = malloc(MAX_BYTES + 256);
	in = malloc(MAX_BYTES + 256);
	want = malloc(MAX_BYTES + 256);
	once(&usual, 30);
	once(&all, 150);
	once(&fixed, 30);
	free(out);
	free(in);
	free(want);
	return 0;
}
