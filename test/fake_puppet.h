/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The puppet: a node without an engine, as which a test says what it likes to node 0, and hears what node 0 says to it. Everything it
 * says has been heard when these functions return.
 */
#ifndef FAKE_PUPPET_H
#define FAKE_PUPPET_H

#include "fake_net.h"
#include "zipc_proto.h"

#define PUPPET 2
#define PUPPET_ID 0xbadbad
#define PUPPET_CHUNK 8192
#define PUPPET_BYTES 40000 /* of its messages */

struct zipc_control_v1 header(unsigned type, size_t len);
void say(struct fake_world *w, const void *msg, size_t len);
/* `flags`: zipc_hello_flags. The addresses are put behind it when it is said. */
struct zipc_hello_v1 usual_hello(const struct fake_world *w, uint32_t flags);
void say_hello(struct fake_world *w, const struct zipc_hello_v1 *hello);
/* A tagged message, tag 5, in chunks of PUPPET_CHUNK. */
struct zipc_rts_v1 usual_rts(uint32_t xfer);
struct zipc_placeholder_v1 usual_placeholder(uint32_t xfer);
void say_credit(struct fake_world *w, uint32_t xfer, uint32_t receiver_xfer, uint32_t first, uint32_t count);
void say_fin(struct fake_world *w, uint32_t xfer, int status);
void say_abort(struct fake_world *w, uint32_t xfer, uint32_t scope);
void forget_heard(struct fake_world *w);
/* Takes the oldest message of this type that the puppet was sent, which must have this length. */
bool heard(struct fake_world *w, unsigned type, void *msg, size_t len);

#endif
