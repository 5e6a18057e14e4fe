/* SPDX-License-Identifier: BSD-3-Clause */
#include "zipg_emu_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A stretch of addresses that neither programs nor libraries nor heaps are put in, and the distance of the other mapping. */
#define EMU_BASE UINT64_C(0x5a0000000000)
#define EMU_SPAN (UINT64_C(1) << 38)
#define EMU_OTHER (UINT64_C(1) << 40)
#define EMU_PAGE 4096u

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static uint64_t emu_next = EMU_BASE;

int zipg_emu_owns(const void *ptr)
{
	return (uintptr_t)ptr - EMU_BASE < EMU_SPAN;
}

void *zipg_emu_reach(const void *ptr)
{
	return (void *)((uintptr_t)ptr + (zipg_emu_owns(ptr) ? EMU_OTHER : 0));
}

static size_t emu_round(size_t bytes)
{
	return (bytes + EMU_PAGE - 1) / EMU_PAGE * EMU_PAGE;
}

/* ZIP_TEST_DEVICE=emu-direct: a core is to play one that reaches device memory by itself. */
static int emu_rights(void)
{
	const char *mode = getenv("ZIP_TEST_DEVICE");

	return mode && !strcmp(mode, "emu-direct") ? PROT_READ | PROT_WRITE : PROT_NONE;
}

static void *emu_map(int fd, uint64_t at, size_t bytes)
{
	void *want = (void *)(uintptr_t)at, *other = (void *)(uintptr_t)(at + EMU_OTHER);

	if (mmap(want, bytes, emu_rights(), MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != want)
		return NULL;
	if (mmap(other, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == other)
		return want;
	munmap(want, bytes);
	return NULL;
}

void *zipg_emu_alloc(size_t bytes)
{
	size_t size = emu_round(bytes ? bytes : 1);
	int fd = memfd_create("zipg_emu", MFD_CLOEXEC), tries;
	void *ptr = NULL;

	if (fd < 0)
		return NULL;
	/* Another emulation in this process takes addresses from the same stretch. A page between two allocations stays free. */
	for (tries = 0; !ptr && tries < 4096 && !ftruncate(fd, (off_t)size); tries++) {
		uint64_t at = __atomic_fetch_add(&emu_next, size + EMU_PAGE, __ATOMIC_RELAXED);

		if (at + size - EMU_BASE >= EMU_SPAN)
			break;
		ptr = emu_map(fd, at, size);
	}
	close(fd);
	return ptr;
}

void zipg_emu_free(void *ptr, size_t bytes)
{
	size_t size = emu_round(bytes ? bytes : 1);

	if (!ptr)
		return;
	munmap(ptr, size);
	munmap(zipg_emu_reach(ptr), size);
}
