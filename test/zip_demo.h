/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * zip_demo: one message after the other between two processes, over libfabric as it is and over libfabric with zip.
 *
 *   zip_demo.c         options, and the coordinator, which starts four processes (raw and zip, a sender and a receiver each)
 *                      and lets the two pairs take turns
 *   zip_demo_worker.c  a sender or receiver: a plain libfabric program that knows nothing of zip
 *   zip_demo_data.c    what is sent
 *   zip_demo_report.c  the table and the JSON line
 */
#ifndef ZIP_DEMO_H
#define ZIP_DEMO_H

#include <stddef.h>
#include <stdint.h>

enum demo_stack { DEMO_RAW, DEMO_ZIP, DEMO_STACKS };
enum demo_role { DEMO_SENDER, DEMO_RECEIVER, DEMO_ROLES };

#define DEMO_ROUNDS_MAX 1000

struct demo_options {
	const char *file;                     /* safetensors file, or NULL */
	const char *dtype;
	const char *dist;
	double sigma;
	size_t size;                          /* bytes of a message */
	size_t count;                         /* messages of a round; 0: chosen from size */
	unsigned rounds;                      /* of each stack */
	unsigned timeout_s;                   /* of one round */
	uint64_t seed;
	int json;
	const char *provider[DEMO_STACKS];    /* FI_PROVIDER of each */
	const char *netns[DEMO_ROLES];        /* name of a network namespace, or NULL */
	const char *address[DEMO_ROLES];      /* numeric address to bind to */
	const char *device;                   /* the sender's network device: its bytes are the wire bytes */
	const char *link;                     /* how to call the link in the table */
	const char *rate;
};

/* The bytes of all messages of a round, message after message. */
struct demo_data {
	uint8_t *bytes;      /* owned; demo_data_release */
	size_t size;         /* bytes of a message */
	size_t count;
	const char *dtype;   /* what the bytes are */
	const char *dist;    /* or "file" */
	size_t tensors;      /* taken from the file */
};

/* Make or read the data; the same in every process. Returns 0, or -1 after printing why. */
int demo_data_make(const struct demo_options *options, struct demo_data *data);
void demo_data_release(struct demo_data *data);

/* Between coordinator and worker, one packet each. */
enum demo_verb {
	DEMO_HELLO,     /* worker: here is my address; text: provider's name */
	DEMO_PEER,      /* coordinator: here is your peer's */
	DEMO_ROUND,     /* coordinator: prepare (receiver) or send (sender) `count` messages of `size` bytes */
	DEMO_READY,     /* receiver: receives are posted, or worker: peer is known */
	DEMO_DONE,      /* worker: all completed; time_ns: first send posted, last receive completed; wrong: bad messages */
	DEMO_END,       /* coordinator: round is over */
	DEMO_COUNTED,   /* sender: wire_bytes of the round */
	DEMO_QUIT,      /* coordinator: no more rounds */
	DEMO_FAILED,    /* worker: text says why */
};

struct demo_packet {
	enum demo_verb verb;
	uint32_t address_size;
	uint64_t count;
	uint64_t size;
	uint64_t time_ns;
	uint64_t wire_bytes;
	uint64_t wrong;
	uint8_t address[256];
	char text[256];
};

/* Run a worker until it is told to quit. `channel` is a SOCK_SEQPACKET socket. Returns an exit status. */
int demo_worker_run(const struct demo_options *options, enum demo_role role, const struct demo_data *data, int channel);

/* Results of one stack. */
struct demo_result {
	char provider[256];
	double seconds[DEMO_ROUNDS_MAX];
	double wire_bytes[DEMO_ROUNDS_MAX];
	unsigned rounds;
	uint64_t wrong;      /* messages that arrived with a wrong bit */
};

/* Print table and, if wanted, the JSON line. Returns 1 when everything arrived bit for bit. */
int demo_report(const struct demo_options *options, const struct demo_data *data,
		const struct demo_result results[DEMO_STACKS]);

#endif
