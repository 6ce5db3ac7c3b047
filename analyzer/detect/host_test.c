/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls of hosts, late batches, compiling, memory. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/check.h"

static void stalls(void **state)
{
    static const struct {
        enum job_fault_kind kind;
        double ms;
        int every, grow;
        enum argus_verdict_kind verdict;
        const char *pattern;
    } rows[] = {
        {JOB_HOST_STALL, 10, 1, 0, ARGUS_VERDICT_HOST_STALL, "persistent"},
        {JOB_HOST_STALL, 20, 5, 0, ARGUS_VERDICT_HOST_STALL, "periodic"},
        {JOB_HOST_STALL, 20, 4, 1, ARGUS_VERDICT_HOST_STALL, "growing"},
        {JOB_DATA_STALL, 15, 1, 0, ARGUS_VERDICT_DATA_STALL, "persistent"},
        {JOB_JIT, 200, 20, 0, ARGUS_VERDICT_JIT_STALL, NULL},
        {JOB_ALLOC_STALL, 20, 4, 0, ARGUS_VERDICT_ALLOCATOR_STALL, "periodic"},
        {JOB_BARRIER_WORK, 20, 1, 0, ARGUS_VERDICT_HOST_STALL, "persistent"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, 8, rows[i].kind, 2);
        struct argus_verdict *v;

        f->ms = rows[i].ms;
        f->every = rows[i].every;
        f->grow = rows[i].grow;
        f->from = rows[i].kind == JOB_JIT ? 10 : 0;
        v = job_verdict(&s);
        job_expect(v, rows[i].verdict, 2);
        if (rows[i].pattern)
            assert_string_equal(v->pattern, rows[i].pattern);
        argus_verdict_destroy(v);
    }
}

static void rotating_stall(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 8, JOB_HOST_STALL, -1);
    struct argus_verdict *v;

    (void)state;
    f->ms = 20;
    f->every = 3;
    v = job_verdict(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_HOST_STALL);
    assert_string_equal(v->pattern, "rotating");
    argus_verdict_destroy(v);
}

/* Ranks that stall in the same steps: one fault, for with one of them repaired the others are still
 * waited for. */
static void stalls_together(void **state)
{
    static const struct {
        int first, n;
        size_t culprits;
    } rows[] = {{4, 4, 1}, {1, 2, 2}};
    static const enum job_fault_kind kinds[] = {JOB_DATA_STALL, JOB_ALLOC_STALL};

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 2; j++) {
            struct job_spec s;
            struct argus_verdict *v;

            job_spec_init(&s, 8);
            s.ranks_per_node = 4;
            for (int r = 0; r < rows[i].n; r++) {
                struct job_fault *f = job_spec_fault(&s, kinds[j]);

                f->rank = rows[i].first + r;
                f->ms = 15;
            }
            v = job_verdict(&s);
            assert_int_equal(v->kind, j ? ARGUS_VERDICT_ALLOCATOR_STALL : ARGUS_VERDICT_DATA_STALL);
            assert_true(v->slowdown > 1.1);
            assert_int_equal(v->n_culprits, rows[i].culprits);
            if (rows[i].culprits == 1) {
                assert_int_equal(v->culprits[0].rank, ARGUS_UNKNOWN);
                assert_string_equal(v->culprits[0].node, "n01");
            } else {
                assert_int_equal(v->culprits[0].rank, 1);
                assert_int_equal(v->culprits[1].rank, 2);
            }
            argus_verdict_destroy(v);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stalls),
        cmocka_unit_test(rotating_stall),
        cmocka_unit_test(stalls_together),
    };

    return cmocka_run_group_tests_name("detect: host", tests, job_setup, job_teardown);
}
