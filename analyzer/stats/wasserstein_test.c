/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analyzer/stats/stats.h"
#include "analyzer/stats/test_series.h"

static void distance_of_points(void **state)
{
    double a[] = {0, 1, 3}, b[] = {5, 6, 8}, wa[] = {3, 1}, wb[] = {1, 1};

    (void)state;
    assert_float_equal(argus_w1_samples(a, NULL, 3, b, NULL, 3), 5, 1e-12);
    assert_float_equal(argus_w1_samples(a, NULL, 3, a, NULL, 3), 0, 1e-12);
    /* A quarter of the mass moves by one: {0: 3/4, 1: 1/4} against {0: 1/2, 1: 1/2}. */
    assert_float_equal(argus_w1_samples(a, wa, 2, a, wb, 2), 0.25, 1e-12);
    assert_true(isnan(argus_w1_samples(a, NULL, 0, b, NULL, 3)));
    assert_float_equal(argus_w1_samples(a, NULL, 1, b, NULL, 3), 19.0 / 3, 1e-12);
}

static void mean_distance_is_exact(void **state)
{
    enum { N = 23, G = 7 };
    static double q[N * G];
    double w1[N], sign[N];
    struct test_random r = {2};

    (void)state;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < G; k++)
            q[i * G + k] = 100 + 10 * k + test_normal(&r) + (i == 4 ? 50 : 0);
    assert_int_equal(argus_w1_mean(q, N, G, w1, sign), 0);
    for (int i = 0; i < N; i++) {
        double sum = 0, difference = 0;

        for (int j = 0; j < N; j++) {
            sum += i == j ? 0 : argus_w1_quantiles(q + i * G, q + j * G, G);
            for (int k = 0; k < G; k++)
                difference += (q[i * G + k] - q[j * G + k]) / G;
        }
        assert_float_equal(w1[i], sum / (N - 1), 1e-9);
        assert_float_equal(sign[i], difference / (N - 1), 1e-9);
    }
    assert_true(w1[4] > 40 && sign[4] > 40);
    assert_int_equal(argus_w1_mean(q, 1, G, w1, sign), 0);
    assert_float_equal(w1[0], 0, 0);
    assert_int_equal(argus_w1_mean(q, 0, G, w1, sign), -1);
}

static void quantiles_of_one_mode(void **state)
{
    struct argus_mode m = {.count = 10, .p50 = 1000, .p99 = 1000};
    double q[99];

    (void)state;
    assert_int_equal(argus_mixture_quantiles(&m, 1, q, 99), 0);
    assert_float_equal(q[0], 1000, 1e-3);
    assert_float_equal(q[98], 1000, 1e-3);
    m.p99 = 1500;
    assert_int_equal(argus_mixture_quantiles(&m, 1, q, 99), 0);
    assert_float_equal(q[49], 1000, 1e-6); /* the middle one of 99 is the median */
    for (int i = 1; i < 99; i++)
        assert_true(q[i] >= q[i - 1]);
    m.count = 0;
    assert_int_equal(argus_mixture_quantiles(&m, 1, q, 99), -1);
    assert_int_equal(argus_mixture_quantiles(NULL, 0, q, 99), -1);
}

/* Distribution function of one mode, its tails cut where its samples end. */
static double mode_cdf(const struct argus_mode *m, double x)
{
    double sigma = log((double)m->p99 / (double)m->p50) / 2.3263478740408408;

    if (x < (double)m->min)
        return 0;
    return x >= (double)m->max ? 1 : 0.5 * erfc(-log(x / (double)m->p50) / sigma / sqrt(2));
}

/* Each quantile is where the mixture's distribution function passes it: modes apart or not. */
static void quantiles_invert_the_distribution(void **state)
{
    struct argus_mode modes[2][3] = {
        {{.count = 700, .min = 4000, .p50 = 5000, .p99 = 6000, .max = 6100},
         {.count = 100, .min = 9000, .p50 = 9500, .p99 = 9900, .max = 10000},
         {.count = 200, .min = 900, .p50 = 1000, .p99 = 1100, .max = 1150}},
        {{.count = 700, .min = 4000, .p50 = 5000, .p99 = 6000, .max = 6100},
         {.count = 100, .min = 5500, .p50 = 9500, .p99 = 9900, .max = 10000},
         {.count = 200, .min = 900, .p50 = 1000, .p99 = 1100, .max = 1150}},
    };
    enum { G = 101 };
    double q[G];

    (void)state;
    for (int s = 0; s < 2; s++) {
        assert_int_equal(argus_mixture_quantiles(modes[s], 3, q, G), 0);
        for (int i = 0; i < G; i++) {
            double p = (i + 0.5) / G, below = 0, at = 0;

            for (int k = 0; k < 3; k++) {
                below +=
                    (double)modes[s][k].count / 1000 * mode_cdf(&modes[s][k], q[i] * (1 - 1e-6));
                at += (double)modes[s][k].count / 1000 * mode_cdf(&modes[s][k], q[i] * (1 + 1e-6));
            }
            assert_true(below <= p + 1e-9 && p <= at + 1e-9);
        }
    }
}

/* From samples to modes to a mixture: the distance to the samples stays within 2 % of their median. */
static void mixture_stands_for_its_samples(void **state)
{
    enum { N = 2000, G = 512 };
    static int64_t x[N];
    static double raw[N], q[G];
    struct test_random r = {21};
    struct argus_mode modes[8];
    double median, w1;
    size_t n;

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = llround((i % 4 ? 20000 : 90000) * exp(0.04 * test_normal(&r)));
    for (int i = 0; i < N; i++)
        raw[i] = (double)x[i];
    n = argus_modes(x, N, 0.8, modes, 8);
    assert_int_equal(n, 2);
    assert_int_equal(argus_mixture_quantiles(modes, n, q, G), 0);
    median = argus_median(raw, N);
    w1 = argus_w1_samples(raw, NULL, N, q, NULL, G);
    assert_true(w1 <= 0.02 * median);
    assert_true(q[0] >= (double)modes[0].min - 1 && q[G - 1] <= (double)modes[1].max + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_of_points),
        cmocka_unit_test(mean_distance_is_exact),
        cmocka_unit_test(quantiles_of_one_mode),
        cmocka_unit_test(quantiles_invert_the_distribution),
        cmocka_unit_test(mixture_stands_for_its_samples),
    };

    return cmocka_run_group_tests_name("wasserstein", tests, NULL, NULL);
}
