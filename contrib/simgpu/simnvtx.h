/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVTX client the way the header-only one behaves: each library that uses
 * NVTX has its own (hidden symbols), and each loads NVTX_INJECTION64_PATH for
 * itself and lets it overwrite the function pointers of its tables.
 */
#ifndef SIMNVTX_H
#define SIMNVTX_H

#include <stddef.h>
#include <stdint.h>

/* Slots of module CORE and CORE2 */
enum { NVTX_CORE_RANGE_PUSH_A = 9, NVTX_CORE_RANGE_POP = 11, NVTX_CORE_SLOTS = 16 };
enum {
    NVTX_CORE2_RANGE_PUSH_EX = 4,
    NVTX_CORE2_RANGE_POP = 5,
    NVTX_CORE2_REGISTER_STRING_A = 10,
    NVTX_CORE2_DOMAIN_CREATE_A = 12,
    NVTX_CORE2_SLOTS = 16
};
/* Slots of the payload extension */
enum { NVTX_PAYLOAD_SCHEMA_REGISTER = 0, NVTX_PAYLOAD_RANGE_POP = 4, NVTX_PAYLOAD_SLOTS = 63 };

struct simnvtx {
    void *core[NVTX_CORE_SLOTS]; /* NULL: nobody listens */
    void *core2[NVTX_CORE2_SLOTS];
    intptr_t payload[NVTX_PAYLOAD_SLOTS]; /* 0: nobody listens */
};
extern struct simnvtx simnvtx;

/* Once; does nothing without NVTX_INJECTION64_PATH. */
void simnvtx_open(void);

#endif /* SIMNVTX_H */
