/* SPDX-License-Identifier: BSD-3-Clause */
/* The compiled kernels inside this library; NULL when it was built without the vendor's compiler. */
#ifndef ZIPG_IMAGE_H
#define ZIPG_IMAGE_H

#include <stddef.h>

const void *zipg_image_cuda(size_t *bytes);
const void *zipg_image_hip(size_t *bytes);

#endif
