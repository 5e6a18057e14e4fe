/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory of the emulation: mapped twice, once without any right at the address that is given out, once where kernels find it. So
 * who touches it without the device is stopped, as with a real one, but for ZIP_TEST_DEVICE=emu-direct, where a core is to play one that
 * reaches device memory by itself. The address alone says that it is device memory, because a
 * test and the provider that it has loaded each have an emulation of their own.
 */
#ifndef ZIPG_EMU_MEMORY_H
#define ZIPG_EMU_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Returns NULL when there is no room. Freed memory is not handed out again soon: its address stays without rights. */
void *zipg_emu_alloc(size_t bytes);
void zipg_emu_free(void *ptr, size_t bytes);
/* 1 for an address that was, or could have been, given out here. */
int zipg_emu_owns(const void *ptr);
/* Where a kernel, or a test, finds what is at ptr: its other mapping, or ptr itself if it is not ours. */
void *zipg_emu_reach(const void *ptr);

#endif
