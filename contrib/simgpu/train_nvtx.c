/* SPDX-License-Identifier: Apache-2.0 */
/* The ranges that a framework pushes, in no domain. */
#include "simnvtx.h"
#include "simtrain.h"

void nvtx_open(void)
{
    simnvtx_open();
}

void nvtx_push(const char *name)
{
    int (*push)(const char *);

    *(void **)&push = simnvtx.core[NVTX_CORE_RANGE_PUSH_A];
    if (push)
        push(name);
}

void nvtx_pop(void)
{
    int (*pop)(void);

    *(void **)&pop = simnvtx.core[NVTX_CORE_RANGE_POP];
    if (pop)
        pop();
}
