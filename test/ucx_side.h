/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a test of two processes over UCT, met over a socket pair. It uses the public UCT API and knows nothing of the
 * transport but its name. A check that fails ends the process with a line that says where.
 */
#ifndef UCX_SIDE_H
#define UCX_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#define SIDE_CHECK(condition, ...)                                                                                         \
	do {                                                                                                               \
		if (!(condition)) {                                                                                        \
			fprintf(stderr, "%s:%d: side %d: %s failed: ", __FILE__, __LINE__, side_number, #condition);       \
			fprintf(stderr, __VA_ARGS__);                                                                      \
			fputc('\n', stderr);                                                                               \
			_exit(1);                                                                                          \
		}                                                                                                          \
	} while (0)
#define SIDE_OK(call)                                                                                                      \
	do {                                                                                                               \
		ucs_status_t side_status = (call);                                                                         \
		SIDE_CHECK(side_status == UCS_OK, "%s: %s", #call, ucs_status_string(side_status));                        \
	} while (0)

#define SIDE_ADDR_MAX 256
#define SIDE_KEY_MAX 64
#define SIDE_PATIENCE_MS 20000

extern int side_number; /* 0 or 1 */

/* What the other side has to know. */
struct side_card {
	uint8_t device[SIDE_ADDR_MAX], iface[SIDE_ADDR_MAX], key[SIDE_KEY_MAX];
	uint64_t address, length;
};

struct side {
	int socket;              /* to the other side */
	ucs_async_context_t *async;
	uct_component_h component;
	uct_md_h md;
	uct_worker_h worker;
	uct_iface_h iface;
	uct_iface_attr_t attr;
	uct_ep_h ep;
	uint8_t *memory;         /* registered for the other side */
	size_t length;
	uct_mem_h memh;
	struct side_card theirs;
	uct_rkey_bundle_t rkey;  /* of their memory */
	unsigned errors;         /* calls of the error handler */
	ucs_status_t error;      /* what the last said */
};

/* Opens an interface of this transport on this device. */
void side_open(struct side *side, int socket, const char *tl, const char *device);
void side_close(struct side *side);
/* Registers `length` bytes for the other side, exchanges cards, makes an endpoint. */
void side_meet(struct side *side, size_t length);
void side_connect(struct side *side);
/* Waits until the other side is here too, progressing. `expected`: bytes it sends along; returns the byte it sent. */
char side_sync(struct side *side, char say);
/* Progresses until *done is not 0. False: it took too long. */
bool side_wait(struct side *side, const volatile int *done, int patience_ms);
uint64_t side_now_ms(void);

/* An operation under way. */
struct side_op {
	uct_completion_t comp;
	volatile int done;
};

void side_op_init(struct side_op *op);
/* Waits for what was started with this status, UCS_OK or UCS_INPROGRESS; returns its end. */
ucs_status_t side_op_wait(struct side *side, struct side_op *op, ucs_status_t status);
/* Start again as long as there are no resources. */
ucs_status_t side_put(struct side *side, const void *buf, size_t len, uct_mem_h memh, uint64_t address, uct_rkey_t rkey);
ucs_status_t side_get(struct side *side, void *buf, size_t len, uct_mem_h memh, uint64_t address, uct_rkey_t rkey);
ucs_status_t side_flush(struct side *side, unsigned flags);
void side_am(struct side *side, uint8_t id, const void *data, size_t len);

#endif
