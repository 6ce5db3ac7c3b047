/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "analyzer/stats/stats.h"
#include "analyzer/stats/test_series.h"

#define DEPTH 0.8
#define MAX 16

static int64_t *lognormal(struct test_random *r, int64_t *x, size_t n, double median, double sigma)
{
    for (size_t i = 0; i < n; i++)
        x[i] = llround(median * exp(sigma * test_normal(r)));
    return x + n;
}

static void kde_equals_the_sum(void **state)
{
    double x[] = {1, 1.2, 3, 7}, w[] = {1, 2, 1, 1}, d[512], h = 0.4, total = 0;

    (void)state;
    assert_int_equal(argus_kde(x, w, 4, h, -2, 10, d, 512), 0);
    for (int i = 0; i < 512; i++) {
        double at = -2 + 12.0 * i / 511, f = 0;

        for (int k = 0; k < 4; k++)
            f += w[k] / 5 * exp(-0.5 * pow((at - x[k]) / h, 2)) / (h * sqrt(2 * M_PI));
        assert_float_equal(d[i], f, 2e-3);
        total += d[i] * 12.0 / 511;
    }
    assert_float_equal(total, 1, 1e-3);
    /* No wrap-around: a sample at the right edge leaves nothing at the left one. */
    double edge = 10;
    assert_int_equal(argus_kde(&edge, NULL, 1, h, -2, 10, d, 512), 0);
    assert_float_equal(d[0], 0, 1e-9);
}

static void kde_refuses(void **state)
{
    double x = 1, d[16];

    (void)state;
    assert_int_equal(argus_kde(&x, NULL, 0, 1, 0, 2, d, 16), -1);
    assert_int_equal(argus_kde(&x, NULL, 1, 0, 0, 2, d, 16), -1);
    assert_int_equal(argus_kde(&x, NULL, 1, 1, 2, 2, d, 16), -1);
    assert_int_equal(argus_kde(&x, NULL, 1, 1, 0, 2, d, 15), -1);
}

/* For a normal sample the rule of thumb is the right answer; for a mixture it is far too wide. */
static void bandwidth_of_a_mixture(void **state)
{
    enum { N = 4000 };
    static double x[N];
    struct test_random r = {11};
    double plain, mixture;

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = test_normal(&r);
    plain = argus_bandwidth(x, N);
    assert_true(plain > 0.7 * pow(N, -0.2) && plain <= 1.1 * pow(N, -0.2));
    for (int i = 0; i < N; i++)
        x[i] += i % 2 ? 20 : 0;
    mixture = argus_bandwidth(x, N);
    assert_true(mixture < 2 * plain);
    assert_true(isnan(argus_bandwidth(x, 0)));
    x[0] = x[1] = 3;
    assert_float_equal(argus_bandwidth(x, 2), 0, 0);
}

static void one_mode_stays_one(void **state)
{
    static int64_t x[20000];
    struct test_random r = {5};
    struct argus_mode modes[MAX];
    int split = 0, runs = 0;

    (void)state;
    for (size_t n = 8; n <= 20000; n = n * 5 / 2)
        for (int repeat = 0; repeat < 20; repeat++, runs++) {
            lognormal(&r, x, n, 5e4, 0.05);
            split += argus_modes(x, n, DEPTH, modes, MAX) != 1;
        }
    assert_true(split * 20 <= runs); /* noise makes a second mode in at most one of twenty */
}

/* Two close modes and a far one, which must not blur them.  Checks what always holds, says whether all were found. */
static int three_modes(uint64_t seed)
{
    static int64_t x[1600];
    struct test_random r = {seed};
    struct argus_mode modes[MAX];
    int64_t *end, sum = 0, counted = 0;
    size_t n, found;

    end = lognormal(&r, x, 700, 10000, 0.02);
    end = lognormal(&r, end, 600, 11500, 0.02);
    end = lognormal(&r, end, 300, 4e6, 0.1);
    n = (size_t)(end - x);
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    found = argus_modes(x, n, DEPTH, modes, MAX);
    for (size_t k = 0; k < found; k++) {
        assert_true(modes[k].min <= modes[k].p50 && modes[k].p50 <= modes[k].p99);
        assert_true(modes[k].p99 <= modes[k].max && modes[k].count >= 3);
        assert_true(k == 0 || modes[k].min >= modes[k - 1].max);
        sum -= modes[k].sum;
        counted += (int64_t)modes[k].count;
    }
    assert_int_equal(sum, 0);
    assert_int_equal(counted, n);
    for (size_t i = 1; i < n; i++)
        assert_true(x[i - 1] <= x[i]);
    /* Fewer places than modes: the counts still add up. */
    assert_int_equal(argus_modes(x, n, DEPTH, modes + 8, 2), 2);
    assert_int_equal(modes[8].count + modes[9].count, n);
    return found == 3 && labs((long)modes[0].count - 700) <= 7 && modes[2].count == 300 &&
           labs((long)modes[1].p50 - 11500) <= 100;
}

static void modes_are_found(void **state)
{
    int right = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++)
        right += three_modes(seed);
    assert_in_range(right, 46, 50);
}

static void ticks_are_no_modes(void **state)
{
    static int64_t x[3000];
    struct test_random r = {8};
    struct argus_mode modes[MAX];

    (void)state;
    /* A 3 microsecond kernel on a clock that ticks every 32 ns has some ten distinct durations. */
    lognormal(&r, x, 3000, 3000, 0.03);
    for (int i = 0; i < 3000; i++)
        x[i] = x[i] / 32 * 32;
    assert_int_equal(argus_modes(x, 3000, DEPTH, modes, MAX), 1);
}

static void few_and_odd(void **state)
{
    struct argus_mode modes[MAX];
    int64_t none[1], one[] = {5}, same[] = {9, 9, 9, 9, 9, 9, 9, 9},
                     zero[] = {0, 0, 0, 1000, 1001, 1002};
    int64_t wide[] = {1, 2, 3, INT64_MAX / 8, INT64_MAX / 8, INT64_MAX / 8};

    (void)state;
    assert_int_equal(argus_modes(none, 0, DEPTH, modes, MAX), 0);
    assert_int_equal(argus_modes(one, 1, DEPTH, modes, MAX), 1);
    assert_int_equal(modes[0].p99, 5);
    assert_int_equal(argus_modes(same, 8, DEPTH, modes, MAX), 1);
    assert_int_equal(modes[0].sum, 72);
    assert_in_range(argus_modes(zero, 6, DEPTH, modes, MAX), 1, 2);
    assert_in_range(argus_modes(wide, 6, DEPTH, modes, MAX), 1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kde_equals_the_sum),
        cmocka_unit_test(kde_refuses),
        cmocka_unit_test(bandwidth_of_a_mixture),
        cmocka_unit_test(one_mode_stays_one),
        cmocka_unit_test(modes_are_found),
        cmocka_unit_test(ticks_are_no_modes),
        cmocka_unit_test(few_and_odd),
    };

    return cmocka_run_group_tests_name("density", tests, NULL, NULL);
}
