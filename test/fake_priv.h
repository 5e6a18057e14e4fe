/* SPDX-License-Identifier: BSD-3-Clause */
/* Between fake_net.c (network, nodes, events) and fake_app.c (the application of a node). */
#ifndef FAKE_PRIV_H
#define FAKE_PRIV_H

#include "fake_net.h"

/* Puts a packet with a copy of the data onto the network. */
struct fake_packet *fake_packet_new(struct fake_world *world, enum fake_kind kind, int from, int to, const void *data, size_t len);

extern const struct zipc_engine_cb fake_cb, fake_cb_no_rma;

/* 1 if this message matches this receive; hands it over. */
bool fake_fits(const struct fake_packet *packet, const struct fake_msg *msg);
void fake_match(struct fake_node *node, struct fake_packet *packet, struct fake_msg *msg);

#endif
