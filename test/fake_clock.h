/* SPDX-License-Identifier: BSD-3-Clause */
/* A clock that can be moved forward, the engine's and everybody else's in a program that is linked with it. */
#ifndef FAKE_CLOCK_H
#define FAKE_CLOCK_H

#include <stdint.h>

extern uint64_t clock_ahead_ms; /* whole seconds of it count */

#endif
