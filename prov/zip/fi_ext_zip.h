/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the provider ofi_zip offers beyond libfabric's own interface: an endpoint's counters.
 *
 *	struct fi_zip_ops *ops;
 *	struct fi_zip_stats stats;
 *
 *	if (!fi_open_ops(&ep->fid, FI_ZIP_OPS, 0, (void **)&ops, NULL))
 *		ops->read_stats(&ep->fid, &stats, sizeof(stats));
 *
 * An endpoint of any other provider answers fi_open_ops with an error, so that this tells whether zip is in the stack.
 */
#ifndef FI_EXT_ZIP_H
#define FI_EXT_ZIP_H

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_ZIP_OPS "zip_ops_1"

/* Counts since the endpoint was enabled. Bytes are message bytes unless called wire. */
struct fi_zip_stats {
	uint64_t send_transfers;   /* messages that left as transfers */
	uint64_t send_bytes;       /* their bytes */
	uint64_t send_wire_bytes;  /* and what was sent for them */
	uint64_t recv_transfers;
	uint64_t recv_bytes;
	uint64_t recv_wire_bytes;
	uint64_t raw_peer;         /* large enough messages sent as they are: the peer has no zip or was not met yet */
	uint64_t raw_data;         /* ... the data would not shrink */
	uint64_t raw_off;          /* ... switched off by a setting or by an ordering that was asked for */
	uint64_t raw_slow;         /* ... the link is faster than the codec */
	uint64_t errors;           /* transfers that failed */
	uint64_t staging_bytes;    /* staging memory in use now, both directions */
	uint64_t peers_ready;      /* peers that transfers are possible to now */
	/* Nanoseconds, with FI_ZIP_STATS=on or times; else 0. */
	uint64_t sample_ns;        /* looking at data before it is sent */
	uint64_t encode_ns;        /* splitting and coding it */
	uint64_t wire_ns;          /* while at least one frame was with the core for sending */
	uint64_t decode_ns;
	/* Taken by this process on the devices that the endpoint has met, the kernels' share included. Bytes. */
	uint64_t device_bytes;
	uint64_t pinned_bytes;     /* host memory that these devices read and write */
};

struct fi_zip_ops {
	size_t size;
	/*
	 * Copies the counters of the endpoint `ep` to `stats`, of which `len` bytes are the caller's. May be called from
	 * any thread that may call the endpoint. Returns 0, or -FI_EOPNOTSUPP while the endpoint is not enabled.
	 */
	int (*read_stats)(struct fid *ep, struct fi_zip_stats *stats, size_t len);
};

#ifdef __cplusplus
}
#endif
#endif
