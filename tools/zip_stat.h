/* SPDX-License-Identifier: BSD-3-Clause */
/* zip_stat's JSON: one object for each look. */
#ifndef ZIP_STAT_H
#define ZIP_STAT_H

#include "zipc_page.h"

/* Why there is no JSON in this build, or NULL. */
const char *stat_json_fault(void);
/* Begin an object; add the pages to what it returns; print it and free it. */
void *stat_json_begin(void);
void stat_json_add(void *json, const struct zipc_page_v1 *page, uint64_t now_ms);
void stat_json_end(void *json);

#endif
