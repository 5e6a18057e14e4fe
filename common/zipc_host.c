/* SPDX-License-Identifier: BSD-3-Clause */
/* The host as a device: encodes and decodes inside the call. A chunk that spans segments goes through a scratch buffer. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "zipc_engine.h"

struct zipc_host_dev {
	size_t scratch_bytes;
	int verify;
	uint8_t *scratch; /* a chunk in the clear */
	uint8_t *check;   /* a decoded chunk, for verify */
};

/* The address of [offset, offset + nbytes) if it lies in one segment, else NULL. */
static void *zipc_iov_range(const struct iovec *iov, size_t niov, size_t offset, size_t nbytes)
{
	size_t i;

	for (i = 0; i < niov; i++) {
		if (offset < iov[i].iov_len)
			return nbytes <= iov[i].iov_len - offset ? (char *)iov[i].iov_base + offset : NULL;
		offset -= iov[i].iov_len;
	}
	return NULL;
}

/* Copies between `flat` and [offset, offset + nbytes) of the segments. */
static void zipc_iov_copy(const struct iovec *iov, size_t niov, size_t offset, uint8_t *flat, size_t nbytes, int to_iov)
{
	size_t i, n;

	for (i = 0; i < niov && nbytes; i++) {
		if (offset >= iov[i].iov_len) {
			offset -= iov[i].iov_len;
			continue;
		}
		n = iov[i].iov_len - offset < nbytes ? iov[i].iov_len - offset : nbytes;
		if (to_iov)
			memcpy((char *)iov[i].iov_base + offset, flat, n);
		else
			memcpy(flat, (char *)iov[i].iov_base + offset, n);
		flat += n;
		nbytes -= n;
		offset = 0;
	}
}

static int zipc_host_encode(void *dev, void *frame, size_t frame_size, const struct iovec *iov, size_t niov, size_t offset,
			    size_t nbytes, enum zipc_dtype dtype, enum zipc_codec codec, size_t *frame_bytes)
{
	struct zipc_host_dev *host = dev;
	const void *src = zipc_iov_range(iov, niov, offset, nbytes);
	int ret;

	if (nbytes > host->scratch_bytes)
		return ZIPC_ERR_INVAL;
	if (!src) {
		zipc_iov_copy(iov, niov, offset, host->scratch, nbytes, 0);
		src = host->scratch;
	}
	ret = zipc_encode(frame, frame_size, src, nbytes, dtype, codec, frame_bytes);
	if (ret || !host->verify)
		return ret;
	ret = zipc_decode(host->check, nbytes, frame, *frame_bytes);
	if (!ret && !memcmp(host->check, src, nbytes))
		return 0;
	/* The codec is at fault, not the data: it travels in a raw frame. */
	return zipc_encode(frame, frame_size, src, nbytes, ZIPC_DTYPE_RAW, ZIPC_CODEC_RAW, frame_bytes);
}

static int zipc_host_decode(void *dev, const struct iovec *iov, size_t niov, size_t offset, size_t nbytes, size_t keep,
			    const void *frame, size_t frame_bytes)
{
	struct zipc_host_dev *host = dev;
	void *dst = keep == nbytes ? zipc_iov_range(iov, niov, offset, nbytes) : NULL;
	int ret;

	if (dst)
		return zipc_decode(dst, nbytes, frame, frame_bytes);
	if (nbytes > host->scratch_bytes)
		return ZIPC_ERR_SIZE;
	ret = zipc_decode(host->scratch, nbytes, frame, frame_bytes);
	if (!ret)
		zipc_iov_copy(iov, niov, offset, host->scratch, keep, 1);
	return ret;
}

const struct zipc_device_ops zipc_host_ops = {
	.name = "host",
	.encode = zipc_host_encode,
	.decode = zipc_host_decode,
};

void *zipc_host_open(size_t scratch, int verify)
{
	struct zipc_host_dev *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->scratch_bytes = scratch;
	host->verify = verify;
	host->scratch = mmap(NULL, 2 * scratch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (host->scratch == MAP_FAILED) {
		free(host);
		return NULL;
	}
	host->check = host->scratch + scratch;
	return host;
}

void zipc_host_close(void *dev)
{
	struct zipc_host_dev *host = dev;

	if (!host)
		return;
	munmap(host->scratch, 2 * host->scratch_bytes);
	free(host);
}
