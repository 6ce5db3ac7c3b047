/* SPDX-License-Identifier: Apache-2.0 */
/* What the hot statistics cost: argus_modes() by samples, argus_w1_mean() by ranks, argus_change_find() by
 * points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/stats/stats.h"
#include "analyzer/stats/test_series.h"

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bench_modes(size_t n, int two)
{
    struct test_random r = {1};
    int64_t *source = malloc(n * sizeof(*source)), *x = malloc(n * sizeof(*x));
    struct argus_mode modes[8];
    double begin, best = INFINITY;
    size_t found = 0;

    if (!source || !x)
        exit(1);
    for (size_t i = 0; i < n; i++)
        source[i] = llround((two && i % 3 == 0 ? 9e4 : 5e4) * exp(0.05 * test_normal(&r)));
    for (int round = 0; round < 30; round++) {
        memcpy(x, source, n * sizeof(*x));
        begin = seconds();
        found = argus_modes(x, n, 0.8, modes, 8);
        best = fmin(best, seconds() - begin);
    }
    printf("argus_modes    %6zu samples, %zu mode%s  %9.1f us  %6.1f ns/sample\n", n, found,
           found == 1 ? " " : "s", best * 1e6, best * 1e9 / (double)n);
    free(source);
    free(x);
}

static void bench_w1(size_t ranks, size_t g)
{
    struct test_random r = {1};
    double *q = malloc(ranks * g * sizeof(*q)), *w1 = malloc(ranks * sizeof(*w1));
    double *sign = malloc(ranks * sizeof(*sign)), begin, best = INFINITY;

    if (!q || !w1 || !sign)
        exit(1);
    for (size_t i = 0; i < ranks * g; i++)
        q[i] = 5e4 * exp(0.05 * test_normal(&r));
    for (int round = 0; round < 5; round++) {
        begin = seconds();
        argus_w1_mean(q, ranks, g, w1, sign);
        best = fmin(best, seconds() - begin);
    }
    printf("argus_w1_mean  %6zu ranks, %zu quantiles %8.2f ms\n", ranks, g, best * 1e3);
    free(q);
    free(w1);
    free(sign);
}

static void bench_change(size_t n)
{
    struct test_random r = {1};
    double *y = malloc(n * sizeof(*y)), begin, best = INFINITY;
    size_t onset = 0;

    if (!y)
        exit(1);
    for (size_t i = 0; i < n; i++)
        y[i] = test_step_noise(&r) * (i > n / 2 ? 1.06 : 1);
    for (int round = 0; round < 20; round++) {
        begin = seconds();
        onset = argus_change_find(y, n, 1.10, 10, 0).onset;
        best = fmin(best, seconds() - begin);
    }
    printf("argus_change_find %6zu points, onset %-6zu %8.1f us\n", n, onset, best * 1e6);
    free(y);
}

int main(void)
{
    static const size_t samples[] = {64, 500, 5000, 50000}, ranks[] = {64, 1024, 10240};

    for (int i = 0; i < 4; i++) {
        bench_modes(samples[i], 0);
        bench_modes(samples[i], 1);
    }
    for (int i = 0; i < 3; i++)
        bench_w1(ranks[i], 64);
    bench_change(100);
    bench_change(1000);
    bench_change(20000);
    return 0;
}
