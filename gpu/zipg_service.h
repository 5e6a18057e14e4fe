/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device behind a thread of ours: for callers that must not call the driver themselves. Starting a job puts it on a list, asking about it
 * reads memory; all calls of the driver are the thread's. Its own start and end are not for the data path.
 */
#ifndef ZIPG_SERVICE_H
#define ZIPG_SERVICE_H

#include "zipc_accel.h"
#include "zipg.h"

struct zipg_service;

/* `dev` outlives the service. Returns 0 or ZIPC_ERR_*. */
int zipg_service_open(struct zipg_device *dev, struct zipg_service **service_p);
/* Ends the thread; jobs that were not released are waited for, and forgotten. */
void zipg_service_close(struct zipg_service *service);

/* With a struct zipg_service as `dev`. May be used by several engines of several threads. */
extern const struct zipc_accel_ops zipg_service_ops;

#endif
