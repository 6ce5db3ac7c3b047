/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of durations: counts and sums are exact, and the log-normals of p50 and p99 come within
 * 2 % of the median (W1), whatever the durations look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/summary/hist.h"

#define MODES 48
#define LARGEST 20000

static uint32_t below(uint32_t limit)
{
    static uint64_t state = 88172645463325252ULL;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 11) % limit);
}

static double uniform(void)
{
    return (below(1u << 24) + 0.5) / (1u << 24);
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static int by_double(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* W1 between n sorted durations and what a reader makes of their clusters, as a share of their
 * median. */
static double reconstruction(const int64_t *x, size_t n, const struct argus_mode *modes,
                             size_t n_modes)
{
    double *q = malloc(n * sizeof(*q)), sum = 0;
    size_t at = 0;

    assert_non_null(q);
    for (size_t i = 0; i < n_modes; i++) {
        double sigma = log((double)modes[i].p99 / (double)modes[i].p50) / 2.3263478740408408;

        for (uint64_t k = 0; k < modes[i].count; k++)
            q[at++] = (double)modes[i].p50 *
                      exp(sigma * gsl_cdf_ugaussian_Pinv(((double)k + 0.5) / modes[i].count));
    }
    assert_int_equal(at, n);
    qsort(q, n, sizeof(*q), by_double);
    for (size_t i = 0; i < n; i++)
        sum += fabs(q[i] - (double)x[i]);
    free(q);
    return sum / (double)n / (double)x[n / 2];
}

/* Sorts x; returns how far the reconstruction is off. */
static double check(int64_t *x, size_t n, size_t *n_modes)
{
    struct argus_hist h = {0};
    struct argus_mode m[MODES];
    uint64_t count = 0;
    int64_t sum = 0, total = 0;

    for (size_t i = 0; i < n; i++) {
        total += x[i];
        assert_int_equal(argus_hist_add(&h, x[i]), 0);
    }
    qsort(x, n, sizeof(*x), by_value);
    *n_modes = argus_hist_modes(&h, m, MODES);
    assert_in_range(*n_modes, 1, MODES);
    for (size_t i = 0; i < *n_modes; i++) {
        count += m[i].count;
        sum += m[i].sum;
        assert_true(m[i].min <= m[i].p50 && m[i].p50 <= m[i].p99 && m[i].p99 <= m[i].max);
        assert_true(!i || m[i].min > m[i - 1].max);
    }
    assert_int_equal(count, n);
    assert_int_equal(sum, total);
    assert_int_equal(m[0].min, x[0]);
    assert_int_equal(m[*n_modes - 1].max, x[n - 1]);
    argus_hist_free(&h);
    return reconstruction(x, n, m, *n_modes);
}

/* Up to three kernels that differ only in their data. */
static double mixture(int round, size_t i)
{
    static double centre[3], width[3];
    static uint32_t kinds;
    uint32_t k;

    if (!i) {
        kinds = 1 + below(3);
        for (k = 0; k < kinds; k++) {
            centre[k] = exp(8 + 1.3 * (double)k + 0.4 * uniform() + (round % 7));
            width[k] = 0.005 + uniform() * 0.05;
        }
    }
    k = below(kinds);
    return centre[k] * exp(width[k] * normal());
}

/* A collective: the transfer, and waits that are spread over two decades. */
static double waits(int round, size_t i)
{
    (void)round;
    (void)i;
    return 1e6 * (1 + 0.01 * normal()) + (below(3) ? exp(11.5 + 4.6 * uniform()) : 0);
}

/* Time stamps in microseconds. */
static double coarse(int round, size_t i)
{
    (void)i;
    return 1000 * floor(4 + round % 5 + fabs(normal()) * 2);
}

/* Two calls that took thirty times as long. */
static double outliers(int round, size_t i)
{
    return 2e5 * (1 + 0.1 * normal()) * (i == (size_t)round % 20 || i == 7 ? 30 : 1);
}

/* One call in fifty waits for somebody for a long time. */
static double stalls(int round, size_t i)
{
    (void)round;
    (void)i;
    return below(50) ? 5e5 * exp(0.2 * normal()) : 5e6 * exp(1.5 * uniform());
}

static void rounds(double (*next)(int, size_t), size_t least, size_t most, size_t modes)
{
    static int64_t x[LARGEST];
    size_t good = 0, n_modes, all = 0;

    for (int round = 0; round < 100; round++) {
        size_t n = least + below((uint32_t)(most - least));

        for (size_t i = 0; i < n; i++)
            x[i] = (int64_t)fmax(next(round, i), 1);
        good += check(x, n, &n_modes) <= 0.02;
        all += n_modes;
    }
    print_message("# %zu of 100 within 2 %%, %.1f clusters each\n", good, (double)all / 100);
    assert_in_range(good, 95, 100);
    assert_in_range(all, 100, 100 * modes); /* not bought by rows */
}

static void test_mixture(void **state)
{
    (void)state;
    rounds(mixture, 60, 1000, 8);
    rounds(mixture, 1000, LARGEST, 8);
}

static void test_waits(void **state)
{
    (void)state;
    rounds(waits, 64, 1500, 24);
}

static void test_coarse_clock(void **state)
{
    (void)state;
    rounds(coarse, 64, 500, 16);
}

static void test_outliers(void **state)
{
    (void)state;
    rounds(outliers, 40, 200, 12);
}

static void test_stalls(void **state)
{
    (void)state;
    rounds(stalls, 64, 1500, 24);
}

/* Nothing to cut: one duration, always the same, none. */
static void test_single(void **state)
{
    struct argus_hist h = {0};
    struct argus_mode m[MODES];
    int64_t x[64];
    size_t n_modes;

    (void)state;
    assert_int_equal(argus_hist_modes(&h, m, MODES), 0);
    for (size_t i = 0; i < 64; i++)
        x[i] = 77;
    assert_true(check(x, 1, &n_modes) < 1e-9 && n_modes == 1);
    assert_true(check(x, 64, &n_modes) < 1e-9 && n_modes == 1);
    for (size_t i = 0; i < 64; i++)
        x[i] = i % 2 ? 0 : 1; /* logarithms of nothing */
    check(x, 64, &n_modes);
    for (size_t i = 0; i < 64; i++)
        x[i] = i % 2 ? 100000000000 : 1;
    check(x, 64, &n_modes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixture),      cmocka_unit_test(test_waits),
        cmocka_unit_test(test_coarse_clock), cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_stalls),       cmocka_unit_test(test_single),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
