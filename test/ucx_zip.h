/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of the program ucx_zip. */
#ifndef UCX_ZIP_H
#define UCX_ZIP_H

#include "ucx_side.h"

#define MIB ((size_t)1 << 20)
#define UCX_AM_SHARED 31 /* the id that the transport shares with the user */

extern const char *devices[2], *lower; /* as the command line says */

/* Side 1 is the attacker. ZIP_CORPUS: a folder of files that it sends pieces of. */
void ucx_test_hostile(int socket);

#endif
