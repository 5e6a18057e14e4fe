/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device for engines, played by the CPU: jobs take their time, each its own, so that they end in any order; they fail, and the device
 * dies, where a test wants it. Its memory is named by addresses that no CPU can use: who touches it without the device is found out.
 */
#ifndef FAKE_ACCEL_H
#define FAKE_ACCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "zipc_accel.h"

/* Device addresses are those of the host with this added: none that x86-64 or aarch64 could map. */
#define FAKE_DEVICE (UINT64_C(1) << 58)

static inline bool fake_is_device(const void *ptr)
{
	return (uintptr_t)ptr & FAKE_DEVICE;
}

/* What the device, or the test, finds behind an address of either kind. */
static inline void *fake_host(const void *ptr)
{
	return (void *)((uintptr_t)ptr & ~(uintptr_t)FAKE_DEVICE);
}

static inline void *fake_device(const void *ptr)
{
	return (void *)((uintptr_t)ptr | (uintptr_t)FAKE_DEVICE);
}

struct fake_accel {
	uint64_t seed;
	unsigned slow;       /* a job goes on in one of so many polls; 0: within the call that starts it */
	unsigned again;      /* of 256 starts so many say AGAIN */
	unsigned fail_start; /* the start of this number fails (1: the first), with NOMEM; 0: none does */
	unsigned die_poll;   /* from this poll on the device is dead */
	bool stuck;          /* nothing ever ends */
	unsigned starts, polls, jobs, most_frames;
	unsigned encodes, decodes, samples, copies;
};

extern const struct zipc_accel_ops fake_accel_ops; /* dev: struct fake_accel */

#endif
