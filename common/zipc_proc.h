/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of this machine: who lives, and whether a number still means the same one. */
#ifndef ZIPC_PROC_H
#define ZIPC_PROC_H

#include <stdint.h>

/*
 * When a process of this machine started, in clock ticks; 0 if it is not there any more. One that has ended and that nobody
 * has waited for has a number still, and a number can be given to another process.
 */
uint64_t zipc_process_born(uint32_t pid);

/* What tells the namespace that this process's numbers of processes belong to; 0 when that is not known. */
uint64_t zipc_process_namespace(void);

#endif
