/* SPDX-License-Identifier: Apache-2.0 */
/* SIMGPU_FAULT's switches that spoil records or play a second CUPTI client. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcupti_layout.h"
#include "simcupti_impl.h"
#include "simfault.h"

static int pool_exhausted; /* until the next disable and enable */
static int pool_recovered;

/* A coin that falls the same way in every run. */
static int chance(double p, uint64_t n, uint64_t salt)
{
    uint64_t h = (n + 1) * 0x9e3779b97f4a7c15ULL ^ salt * 0xbf58476d1ce4e5b9ULL;

    h ^= h >> 31;
    h *= 0x94d049bb133111ebULL;
    h ^= h >> 29;
    return (double)(h >> 11) < p * 9007199254740992.0;
}

static int hit(const char *name, uint64_t n, uint64_t salt)
{
    const struct simfault *f = simfault_active(name, n);

    return f && chance(f->value > 0 ? f->value : 1.0, n, salt);
}

/* Names as a compiler of kernels mints them: one new function after another. */
static const char *minted_name(uint64_t n, uint64_t count)
{
    static char(*names)[64];
    uint64_t i = n % count;

    if (!names && !(names = calloc(count, sizeof(*names))))
        return "kernel";
    if (!names[i][0])
        snprintf(names[i], sizeof(names[i]), "triton_poi_fused_%llu_0d1d2d", (unsigned long long)i);
    return names[i];
}

/* One address, another text: what a reloaded module leaves. */
static const char *stale_name(const char *name)
{
    static char text[64];

    snprintf(text, sizeof(text), "%.63s", name);
    return text;
}

static void exhaust(uint64_t n)
{
    const struct simfault *f = simfault_find("pool-exhausted");

    if (f && n >= f->from && !pool_recovered)
        pool_exhausted = 1;
}

void simcupti_fault_rearmed(void)
{
    if (pool_exhausted && !simfault_find("pool-stuck")) {
        pool_exhausted = 0;
        pool_recovered = 1;
    }
}

int simcupti_fault_record(struct simcupti_event *e, uint64_t n)
{
    const struct simfault *f;

    if (hit("drop", n, 1) || hit("no-kernels", n, 2))
        return simfault_active("no-kernels", n) ? 0 : (simcupti_buffers_count_dropped(1), 0);
    exhaust(n);
    if (hit("zero-times", n, 3) || (pool_exhausted && n % 2 == 0))
        e->start = e->end = 0;
    if (hit("sentinel", n, 4))
        e->end = 0x8000000000000000ULL;
    if (hit("far", n, 6))
        e->start += 86400000000000ULL, e->end += 86400000000000ULL;
    if (hit("reversed", n, 5) || (pool_exhausted && n % 2 == 1)) {
        uint64_t start = e->start;

        e->start = e->end;
        e->end = start;
    }
    if ((f = simfault_active("many-names", n)) && f->value >= 1)
        e->activity.name = minted_name(n, (uint64_t)f->value);
    if (simfault_active("stale-names", n))
        e->activity.name = stale_name(e->activity.name);
    if ((f = simfault_active("threads", n)) && f->value >= 1)
        e->lane = (uint32_t)(n % (uint64_t)f->value);
    return 1;
}

enum simcupti_incident simcupti_fault_incident(uint64_t n)
{
    struct simfault *f = simfault_find("takeover");

    if (f && f->fired == 0 && n >= f->from) {
        f->fired = 1;
        return SIMCUPTI_TAKEOVER;
    }
    if (f && f->fired == 1 && n > f->to) {
        f->fired = 2;
        return SIMCUPTI_TAKEOVER_ENDS;
    }
    return simfault_due("foreign-finalize", n) ? SIMCUPTI_FINALIZE : SIMCUPTI_NOTHING;
}
