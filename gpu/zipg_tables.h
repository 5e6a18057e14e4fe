/* SPDX-License-Identifier: BSD-3-Clause */
/* The code tables in the form the kernels read, and launches in the form they take. */
#ifndef ZIPG_TABLES_H
#define ZIPG_TABLES_H

#include "kernels/zipg_job.h"
#include "zipc_codec.h"

/* Fill *tables out of common/zipc_tables.h. */
void zipg_tables_init(struct zipg_tables *tables);

/* Bytes of input a unit of a frame has. */
uint32_t zipg_unit_bytes(enum zipg_kernel_kind kind, enum zipc_dtype dtype);

/* The kind of kernel for frames of a codec. Frames without a block, and of dtype RAW, are raw. */
enum zipg_kernel_kind zipg_kind(enum zipc_codec codec, int sparse, int decode);

/* The kernel for that is held to a share of the multiprocessors; `kind` itself where there is none. */
enum zipg_kernel_kind zipg_kind_share(enum zipg_kernel_kind kind);

/* Bytes of dynamic shared memory, and the kernel's name in the embedded images; NULL when there is no such kernel. */
size_t zipg_kernel_shared(enum zipg_kernel_kind kind, enum zipc_dtype dtype);
const char *zipg_kernel_name(enum zipg_kernel_kind kind, enum zipc_dtype dtype, char name[64]);

/*
 * Positions and unit count of the frames of an item; addresses and first_* are left alone. `frame_bytes` is 0 for an encoder,
 * which may fill the frame up to its bound. Returns 0, or ZIPC_ERR_SIZE when frame_bytes cannot be right.
 */
int zipg_item_init(struct zipg_item *item, enum zipg_kernel_kind kind, enum zipc_dtype dtype, uint64_t nbytes, uint64_t frame_bytes);

#endif
