/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for nvcc and hipcc. */
#include "zipg_kernels.cuh"
