/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two engines say to each other, version 1. doc/protocol.md tells the story.
 *
 * All fields are little-endian and so is every machine this is built for. A struct is copied out of the message before
 * it is read: nothing here relies on the alignment of a receive buffer.
 */
#ifndef ZIPC_PROTO_H
#define ZIPC_PROTO_H

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is little-endian and so must be the machine"
#endif

#define ZIPC_WIRE_VERSION 1

/*
 * A placeholder stands in the matching order of the application's endpoint for a message that travels as a transfer.
 * Its length is odd and its first 16 bytes are fixed, so that together with a sender's id that the receiver knows it
 * cannot be taken for a message of the application.
 */
#define ZIPC_PLACEHOLDER_BYTES 59
#define ZIPC_PLACEHOLDER_MAGIC "\x8f\x5a\xe1\x0c\x7b\x49\x50\xd3\xb6\x12\xfe\x94\x2d\xc8\x67\xa1"

enum zipc_placeholder_flags {
	ZIPC_PH_TAGGED = 1 << 0,
	ZIPC_PH_DELIVERY = 1 << 1, /* the sender waits until the data is in the receiver's buffer */
};

struct zipc_placeholder_v1 {
	uint8_t magic[16];
	uint64_t sender;      /* id of the sending engine (its epoch) */
	uint32_t sender_xfer; /* the sender's number of the transfer */
	uint32_t chunk;       /* bytes of a chunk; the last may be shorter */
	uint64_t nbytes;      /* true length of the message */
	uint64_t tag;
	uint8_t version;
	uint8_t flags;
	uint8_t zero[9];
} __attribute__((packed));

_Static_assert(sizeof(struct zipc_placeholder_v1) == ZIPC_PLACEHOLDER_BYTES, "placeholder length is part of the protocol");

enum zipc_control_type {
	ZIPC_CTL_HELLO = 1,  /* who I am and what I can do */
	ZIPC_CTL_RTS = 2,    /* sender: a placeholder is on its way (answers a peek) */
	ZIPC_CTL_CREDIT = 3, /* receiver: send these chunks */
	ZIPC_CTL_FIN = 4,    /* receiver: the transfer is over */
	ZIPC_CTL_ABORT = 5,  /* a transfer, or all between the two, ended without result */
	ZIPC_CTL_PING = 6,   /* nothing; its delivery shows that the peer lives */
	ZIPC_CTL_WRITE = 7,  /* sender: a transfer into registered memory of the receiver's */
	ZIPC_CTL_READ = 8,   /* receiver: asks for a transfer out of registered memory of the sender's */
	ZIPC_CTL_REPLY = 9,  /* sender: the transfer that was asked for, or why there is none */
};

#define ZIPC_CONTROL_MAGIC 0x505au /* "ZP" */

struct zipc_control_v1 {
	uint16_t magic;
	uint8_t version;
	uint8_t type;
	uint32_t length; /* of the whole message */
	uint64_t sender; /* id of the sending engine */
} __attribute__((packed));

enum zipc_hello_flags {
	ZIPC_HELLO_UNTAGGED = 1 << 0, /* untagged transfers are welcome (no multi-receive buffers here) */
	ZIPC_HELLO_RMA = 1 << 1,      /* WRITE and READ are understood */
};

#define ZIPC_ADDR_MAX 256u

struct zipc_hello_v1 {
	struct zipc_control_v1 hdr;
	uint64_t echo;      /* id of the engine spoken to, 0 when not known yet */
	uint64_t host;      /* same value: same machine and process namespace */
	uint32_t pid;
	uint32_t flags;
	uint32_t dtypes;    /* bit d: dtype d can be decoded */
	uint32_t codecs;    /* bit c: codec c can be decoded */
	uint32_t max_chunk; /* largest chunk that fits the staging slots */
	uint16_t main_len;  /* bytes of the application endpoint's address */
	uint16_t comp_len;  /* bytes of the companion's address; both follow, in this order */
} __attribute__((packed));

struct zipc_rts_v1 {
	struct zipc_control_v1 hdr;
	uint32_t sender_xfer;
	uint32_t chunk;
	uint64_t nbytes;
	uint64_t tag;
	uint32_t flags; /* zipc_placeholder_flags */
	uint8_t kind;   /* most of the frames: dtype, codec << 3, 1 << 5 when sparse; 0: not known yet, or raw. For who cannot read them */
	uint8_t zero[3];
} __attribute__((packed));

struct zipc_credit_v1 {
	struct zipc_control_v1 hdr;
	uint32_t sender_xfer;
	uint32_t receiver_xfer;
	uint32_t first; /* chunk number */
	uint32_t count;
} __attribute__((packed));

struct zipc_fin_v1 {
	struct zipc_control_v1 hdr;
	uint32_t sender_xfer;
	int32_t status; /* zipc_error */
} __attribute__((packed));

struct zipc_abort_v1 {
	struct zipc_control_v1 hdr;
	uint32_t sender_xfer; /* the transfer when scope is 1: one that the receiver of this message receives */
	uint32_t scope;       /* 0: all transfers between the two, both ways */
} __attribute__((packed));

/* A piece of registered memory. What `addr` means, a virtual address or an offset, is a matter of the adapters at both ends. */
struct zipc_rma_seg {
	uint64_t addr, len, key;
} __attribute__((packed));

#define ZIPC_RMA_SEGS 4

enum zipc_rma_flags {
	ZIPC_RMA_DATA = 1 << 0, /* `data` is delivered at the target */
	ZIPC_RMA_POLL = 1 << 1, /* the target may poll its memory: the last 128 bytes are written last, behind a fence */
};

#define ZIPC_RMA_TAIL 128u

struct zipc_write_v1 {
	struct zipc_control_v1 hdr;
	uint32_t sender_xfer;
	uint32_t chunk;
	uint64_t nbytes; /* of all segments */
	uint64_t data;
	uint32_t flags;  /* zipc_rma_flags */
	uint32_t nsegs;
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS]; /* zero beyond nsegs */
} __attribute__((packed));

enum zipc_read_flags {
	ZIPC_READ_PROBE = 1 << 0, /* raw frames: the reader measures what the link does without compression */
};

struct zipc_read_v1 {
	struct zipc_control_v1 hdr;
	uint32_t reader_xfer; /* the reader's number of the transfer; its chunks are tagged with it */
	uint32_t max_chunk;
	uint64_t nbytes;
	uint32_t flags; /* zipc_read_flags */
	uint32_t nsegs;
	struct zipc_rma_seg segs[ZIPC_RMA_SEGS];
} __attribute__((packed));

struct zipc_reply_v1 {
	struct zipc_control_v1 hdr;
	uint32_t reader_xfer;
	uint32_t sender_xfer; /* credits name it from now on; 0 and no more fields if the read is refused */
	uint32_t chunk;
	int32_t status;       /* zipc_error */
	uint64_t nbytes;
} __attribute__((packed));

#define ZIPC_CONTROL_MAX ((uint32_t)(sizeof(struct zipc_hello_v1) + 2 * ZIPC_ADDR_MAX))

/* A chunk is one frame (doc/format.md), sent as a bulk message with this tag. */
static inline uint64_t zipc_bulk_tag(uint32_t receiver_xfer, uint32_t chunk)
{
	return (uint64_t)receiver_xfer << 32 | chunk;
}

#endif
