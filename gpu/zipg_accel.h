/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices as the transfer engine wants them. `dev` of the calls is a struct zipg_device, which outlives all engines it was attached to;
 * engines of several threads may share one.
 */
#ifndef ZIPG_ACCEL_H
#define ZIPG_ACCEL_H

#include "zipc_accel.h"

extern const struct zipc_accel_ops zipg_accel_ops;

#endif
