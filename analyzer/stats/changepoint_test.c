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

#define N 400
static double y[N];

static void healthy(uint64_t seed)
{
    struct test_random r = {seed};

    for (int i = 0; i < N; i++)
        y[i] = 1930 * test_step_noise(&r);
}

static void scale(size_t first, size_t end, double factor)
{
    for (size_t i = first; i < end; i++)
        y[i] *= factor;
}

static struct argus_change find(void)
{
    return argus_change_find(y, N, 1.10, 10, 0);
}

static void nothing_in_healthy_noise(void **state)
{
    int alarms = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct argus_change c;

        healthy(seed);
        c = find();
        alarms += c.kind != ARGUS_CHANGE_NONE && c.kind != ARGUS_CHANGE_SPIKES;
    }
    assert_int_equal(alarms, 0);
}

static void steps_of_all_sizes(void **state)
{
    static const double factor[] = {1.04, 1.06, 1.1, 1.3, 2, 10};
    int missed = 0;

    (void)state;
    for (int f = 0; f < 6; f++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            struct argus_change c;

            healthy(seed);
            scale(250, N, factor[f]);
            c = find();
            missed += c.kind != ARGUS_CHANGE_STEP || c.onset < 245 || c.onset > 255 ||
                      c.recovered != N || fabs(c.ratio / factor[f] - 1) > 0.01;
        }
    assert_in_range(missed, 0, 3);
}

static void plateau_of_six_percent(void **state)
{
    int found = 0, short_ones = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct argus_change c;

        healthy(seed);
        scale(150, 210, 1.06);
        c = find();
        found += c.kind == ARGUS_CHANGE_EPISODE && c.onset >= 145 && c.onset <= 155 &&
                 c.recovered >= 205 && c.recovered <= 215;
        /* The same over 30 steps is too short for so small a shift. */
        healthy(seed);
        scale(150, 180, 1.06);
        c = find();
        short_ones += c.kind == ARGUS_CHANGE_EPISODE || c.kind == ARGUS_CHANGE_STEP;
    }
    assert_in_range(found, 38, 40);
    assert_in_range(short_ones, 0, 1);
}

static void spikes_are_no_onsets(void **state)
{
    size_t count;

    (void)state;
    healthy(1);
    y[200] *= 8;
    struct argus_change c = find();
    assert_int_equal(c.kind, ARGUS_CHANGE_SPIKES);
    assert_int_equal(c.onset, 200);
    assert_int_equal(c.recovered, 201);
    /* Many of them neither, not even in bursts shorter than a shift must be. */
    for (int i = 10; i < N; i += 40)
        scale((size_t)i, (size_t)i + 4, 3);
    assert_int_equal(find().kind, ARGUS_CHANGE_SPIKES);
    assert_int_equal(argus_spike_period(y, N, 1.5, &count), 40);
    assert_int_equal(count, 11);
}

static void spikes_do_not_hide_a_step(void **state)
{
    (void)state;
    healthy(2);
    for (int i = 5; i < N; i += 23)
        y[i] *= 6;
    scale(180, N, 1.12);
    struct argus_change c = find();
    assert_int_equal(c.kind, ARGUS_CHANGE_STEP);
    assert_in_range(c.onset, 175, 185);
    assert_float_equal(c.ratio, 1.12, 0.015);
}

static void episode_and_its_cost(void **state)
{
    (void)state;
    healthy(3);
    scale(100, 112, 1.5);
    struct argus_change c = find();
    assert_int_equal(c.kind, ARGUS_CHANGE_EPISODE);
    assert_in_range(c.onset, 99, 101);
    assert_in_range(c.recovered, 111, 113);
    /* Of two, the one that costs more. */
    scale(300, 380, 1.4);
    c = find();
    assert_in_range(c.onset, 299, 301);
}

static void drift_is_a_ramp(void **state)
{
    (void)state;
    healthy(4);
    for (int i = 100; i < N; i++)
        y[i] *= 1 + 0.3 * (i - 100) / 300.0;
    struct argus_change c = find();
    assert_int_equal(c.kind, ARGUS_CHANGE_RAMP);
    assert_in_range(c.onset, 80, 130);
    assert_int_equal(c.recovered, N);
    /* A rise that ends in a plateau. */
    healthy(5);
    for (int i = 100; i < N; i++)
        y[i] *= i < 200 ? 1 + 0.4 * (i - 100) / 100.0 : 1.4;
    c = find();
    assert_int_equal(c.kind, ARGUS_CHANGE_RAMP);
    assert_in_range(c.onset, 80, 125);
}

static void slow_from_the_first_step(void **state)
{
    (void)state;
    healthy(6);
    scale(0, N, 1.2);
    assert_int_equal(find().kind, ARGUS_CHANGE_NONE);
    struct argus_change c = argus_change_find(y, N, 1.10, 10, 1930);
    assert_int_equal(c.kind, ARGUS_CHANGE_CONSTANT);
    assert_int_equal(c.onset, 0);
    assert_int_equal(c.recovered, N);
    scale(150, N, 1 / 1.2);
    c = argus_change_find(y, N, 1.10, 10, 1930);
    assert_int_equal(c.kind, ARGUS_CHANGE_EPISODE);
    assert_int_equal(c.onset, 0);
    assert_in_range(c.recovered, 148, 152);
}

/* Whether it is held against its past or against a known level: more than half of the series may be shifted. */
static void onset_early_in_the_series(void **state)
{
    static const size_t length[] = {60, 200, N};
    static const double factor[] = {1.08, 1.3, 2};

    (void)state;
    for (int i = 0; i < 9; i++)
        for (size_t percent = 10; percent <= 50; percent += 10)
            for (int known = 0; known <= 1; known++) {
                size_t n = length[i / 3], onset = n * percent / 100, missed = 0;

                for (uint64_t seed = 0; seed < 20; seed++) {
                    struct argus_change c;

                    healthy(seed);
                    scale(onset, N, factor[i % 3]);
                    c = argus_change_find(y, n, 1.04, 10, known ? 1930 * 1.008 : 0);
                    missed += c.kind != ARGUS_CHANGE_STEP || c.onset + 3 < onset ||
                              c.onset > onset + 3 || c.recovered != n;
                }
                if (missed > 1)
                    fail_msg("%zu of 20: onset at %zu of %zu, factor %.2f, %s level", missed, onset,
                             n, factor[i % 3], known ? "known" : "unknown");
            }
}

/* Where the level is known three points before it suffice, and what began with the first point did so. */
static void shorter_before_than_a_level(void **state)
{
    struct argus_change c;

    (void)state;
    for (size_t onset = 0; onset < 10; onset += onset ? 1 : 3) {
        healthy(onset);
        scale(onset, N, 1.3);
        c = argus_change_find(y, N, 1.04, 10, 1930 * 1.008);
        assert_int_equal(c.kind, onset == 0 ? ARGUS_CHANGE_CONSTANT : ARGUS_CHANGE_STEP);
        assert_int_equal(c.onset, onset);
        scale(120, N, 1 / 1.3);
        c = argus_change_find(y, N, 1.04, 10, 1930 * 1.008);
        assert_int_equal(c.kind, ARGUS_CHANGE_EPISODE);
        assert_int_equal(c.onset, onset);
        assert_in_range(c.recovered, 118, 122);
        /* An unknown one: where it is found at all. */
        c = argus_change_find(y, N, 1.04, 10, 0);
        if (c.kind != ARGUS_CHANGE_NONE && c.kind != ARGUS_CHANGE_SPIKES)
            assert_int_equal(c.onset, onset);
    }
    /* A stair: the shift begins where most of it is there. */
    healthy(11);
    scale(80, N, 1.1);
    scale(160, N, 1.4);
    c = argus_change_find(y, N, 1.04, 10, 1930 * 1.008);
    assert_in_range(c.onset, 158, 162);
}

static void falling_is_no_fault(void **state)
{
    (void)state;
    healthy(7);
    scale(200, N, 0.7);
    assert_int_equal(find().kind, ARGUS_CHANGE_NONE);
}

static void short_and_odd_series(void **state)
{
    (void)state;
    assert_int_equal(argus_change_find(y, 0, 1.1, 10, 0).kind, ARGUS_CHANGE_NONE);
    for (size_t n = 1; n < 40; n++) {
        for (size_t i = 0; i < n; i++)
            y[i] = 5;
        assert_int_equal(argus_change_find(y, n, 1.1, 10, 0).kind, ARGUS_CHANGE_NONE);
        assert_int_equal(argus_change_find(y, n, 1.1, 0, 0).kind, ARGUS_CHANGE_NONE);
    }
    for (size_t i = 0; i < 40; i++)
        y[i] = i < 20 ? 5 : 6;
    assert_int_equal(argus_change_find(y, 40, 1.1, 10, 0).onset, 20);
    memset(y, 0, sizeof(y));
    assert_int_equal(find().kind, ARGUS_CHANGE_NONE);
}

static void long_series(void **state)
{
    enum { LONG = 30000 };
    static double z[LONG];
    struct test_random r = {9};

    (void)state;
    for (int i = 0; i < LONG; i++)
        z[i] = test_step_noise(&r) * (i >= 21013 ? 1.05 : 1);
    struct argus_change c = argus_change_find(z, LONG, 1.10, 10, 0);
    assert_int_equal(c.kind, ARGUS_CHANGE_STEP);
    assert_in_range(c.onset, 21003, 21023);
}

static void irregular_spikes_have_no_period(void **state)
{
    static const int at[] = {13, 40, 51, 120, 131, 240, 333};
    size_t count;

    (void)state;
    healthy(10);
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
        y[at[i]] *= 3;
    assert_int_equal(argus_spike_period(y, N, 1.5, &count), 0);
    assert_int_equal(count, 7);
    assert_int_equal(argus_spike_period(y, 0, 1.5, &count), 0);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_in_healthy_noise),
        cmocka_unit_test(steps_of_all_sizes),
        cmocka_unit_test(plateau_of_six_percent),
        cmocka_unit_test(spikes_are_no_onsets),
        cmocka_unit_test(spikes_do_not_hide_a_step),
        cmocka_unit_test(episode_and_its_cost),
        cmocka_unit_test(drift_is_a_ramp),
        cmocka_unit_test(slow_from_the_first_step),
        cmocka_unit_test(onset_early_in_the_series),
        cmocka_unit_test(shorter_before_than_a_level),
        cmocka_unit_test(falling_is_no_fault),
        cmocka_unit_test(short_and_odd_series),
        cmocka_unit_test(long_series),
        cmocka_unit_test(irregular_spikes_have_no_period),
    };

    return cmocka_run_group_tests_name("changepoint", tests, NULL, NULL);
}
