/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "analyzer/stats/stats.h"
#include "analyzer/stats/test_series.h"

static void median_of_few(void **state)
{
    double one[] = {7}, even[] = {4, 1, 3, 2}, odd[] = {9, 1, 5};
    double before[4];

    (void)state;
    memcpy(before, even, sizeof(before));
    assert_true(isnan(argus_median(NULL, 0)));
    assert_float_equal(argus_median(one, 1), 7, 0);
    assert_float_equal(argus_median(even, 4), 2.5, 0);
    assert_float_equal(argus_median(odd, 3), 5, 0);
    assert_memory_equal(before, even, sizeof(before));
}

static void quantiles_interpolate(void **state)
{
    (void)state;
    for (int q = 0; q <= 100; q++) {
        double x[101];

        for (int i = 0; i <= 100; i++)
            x[i] = (double)((i * 37) % 101);
        assert_float_equal(argus_quantile_inplace(x, 101, q / 100.0), q, 1e-9);
    }
    double two[] = {10, 20};
    assert_float_equal(argus_quantile_inplace(two, 2, 0.25), 12.5, 1e-12);
    assert_float_equal(argus_quantile_inplace(two, 2, -1), 10, 0);
    assert_float_equal(argus_quantile_inplace(two, 2, 9), 20, 0);
}

static void mad_and_z(void **state)
{
    double x[] = {1, 2, 3, 4, 100};

    (void)state;
    assert_float_equal(argus_mad(x, 5, 3), 1, 0);
    assert_float_equal(argus_robust_z(100, 3, 1, 0), 0.6745 * 97, 1e-9);
    /* The floor keeps a group that agrees to the nanosecond from making its noise significant. */
    assert_float_equal(argus_robust_z(1.01, 1, 0, 0.02), 0.6745 * 0.5, 1e-9);
    assert_true(isinf(argus_robust_z(2, 1, 0, 0)));
    assert_float_equal(argus_robust_z(1, 1, 0, 0), 0, 0);
    assert_true(isnan(argus_robust_z(NAN, 1, 1, 0)));
}

static void slope_survives_outliers(void **state)
{
    static double y[3000];
    struct test_random r = {3};

    (void)state;
    for (size_t n = 100; n <= 3000; n += 2900) {
        for (size_t i = 0; i < n; i++)
            y[i] = 5 + 0.25 * (double)i + (i % 10 == 0 ? 1e4 : 0.01 * test_normal(&r));
        assert_float_equal(argus_slope(y, n), 0.25, 0.02);
    }
    assert_true(isnan(argus_slope(y, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_of_few),
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(mad_and_z),
        cmocka_unit_test(slope_survives_outliers),
    };

    return cmocka_run_group_tests_name("robust", tests, NULL, NULL);
}
