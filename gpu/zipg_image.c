/* SPDX-License-Identifier: BSD-3-Clause */
/* The makefile says by ZIPG_CUDA_IMAGE and ZIPG_HIP_IMAGE which files the compilers made; the assembler takes them in as they are. */
#include "zipg_image.h"

#define IMAGE(vendor, file)                                                      \
	__asm__(".section .rodata\n"                                             \
		".balign 64\n"                                                   \
		".hidden zipg_image_" #vendor "_start\n"                         \
		".globl zipg_image_" #vendor "_start\n"                          \
		"zipg_image_" #vendor "_start:\n"                                \
		".incbin \"" file "\"\n"                                         \
		".hidden zipg_image_" #vendor "_end\n"                           \
		".globl zipg_image_" #vendor "_end\n"                            \
		"zipg_image_" #vendor "_end:\n"                                  \
		".byte 0\n"                                                      \
		".previous\n");                                                  \
	extern const unsigned char zipg_image_##vendor##_start[] __attribute__((visibility("hidden"))); \
	extern const unsigned char zipg_image_##vendor##_end[] __attribute__((visibility("hidden")));   \
	const void *zipg_image_##vendor(size_t *bytes)                           \
	{                                                                        \
		*bytes = (size_t)(zipg_image_##vendor##_end - zipg_image_##vendor##_start); \
		return zipg_image_##vendor##_start;                              \
	}

#define NO_IMAGE(vendor)                                \
	const void *zipg_image_##vendor(size_t *bytes)  \
	{                                               \
		*bytes = 0;                             \
		return NULL;                            \
	}

#ifdef ZIPG_CUDA_IMAGE
IMAGE(cuda, ZIPG_CUDA_IMAGE)
#else
NO_IMAGE(cuda)
#endif

#ifdef ZIPG_HIP_IMAGE
IMAGE(hip, ZIPG_HIP_IMAGE)
#else
NO_IMAGE(hip)
#endif
