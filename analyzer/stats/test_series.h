/* SPDX-License-Identifier: Apache-2.0 */
/* Constructed samples for the tests: the same seed gives the same numbers everywhere. */
#ifndef ARGUS_STATS_TEST_SERIES_H
#define ARGUS_STATS_TEST_SERIES_H

#include <math.h>
#include <stdint.h>

struct test_random {
    uint64_t state;
};

static inline double test_uniform(struct test_random *r) /* (0, 1) */
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static inline double test_normal(struct test_random *r)
{
    return sqrt(-2 * log(test_uniform(r))) * cos(2 * M_PI * test_uniform(r));
}

/* Step times as healthy jobs have them: a skewed 1-2 % spread, p99/p50 of about 1.05. */
static inline double test_step_noise(struct test_random *r)
{
    return 1 - 0.012 * log(test_uniform(r));
}

#endif /* ARGUS_STATS_TEST_SERIES_H */
