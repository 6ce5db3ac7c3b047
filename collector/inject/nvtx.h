/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUS_COLLECTOR_NVTX_H
#define ARGUS_COLLECTOR_NVTX_H

#include "collector/inject/inject.h"
#include "collector/inject/nvtx_facts.h"

/* ---- nvtx_names.c ---- */

/* A range's name as it goes into the heap: what counts up is cut off or
 * folded, so that steps do not fill the name table. */
uint32_t argus_nvtx_name(const char *text);
uint32_t argus_nvtx_wide_name(const void *text);
/* Room for strings that arrive before there is a ring; NULL when used up. */
const char *argus_nvtx_keep(const char *text);

/* ---- nvtx_nccl.c: payloads of NCCL's own ranges ---- */
void argus_nvtx_nccl(const struct nvtx_payload *payloads, size_t count, void *caller);

/* A plugin reports the calls already: NCCL's ranges are passed over. */
bool argus_nccl_plugin_in_use(void);

#endif /* ARGUS_COLLECTOR_NVTX_H */
