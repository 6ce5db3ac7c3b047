/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/inject/cupti.h"

#define STEP_NS 10000000
#define STEPS 1024

/* The number of the ten-millisecond step that was busy, in its place. */
static uint32_t steps[STEPS]; /* atomic */
static uint32_t last;         /* the worker's: most records fall into one step */

void argus_cupti_busy(int64_t start, int64_t end)
{
    uint32_t from = (uint32_t)(start / STEP_NS), to = (uint32_t)(end / STEP_NS);

    if (likely(from == last && to == last))
        return;
    if (to - from >= STEPS)
        from = to - STEPS + 1;
    for (; from != to + 1; from++)
        __atomic_store_n(&steps[from % STEPS], from, __ATOMIC_RELAXED);
    last = to;
}

bool argus_cupti_idle_at(int64_t time)
{
    uint32_t at = (uint32_t)(time / STEP_NS);

    for (uint32_t i = at - 1; i != at + 2; i++) {
        if (__atomic_load_n(&steps[i % STEPS], __ATOMIC_RELAXED) == i)
            return false;
    }
    return true;
}
