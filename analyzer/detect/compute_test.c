/* SPDX-License-Identifier: Apache-2.0 */
/* Slow GPUs: which, since when, of what sub-kind. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/check.h"

static void sub_kinds(void **state)
{
    static const struct {
        enum job_fault_kind kind;
        double factor;
        int memory;
        const char *pattern, *subkind;
    } rows[] = {
        {JOB_SLOW_RANK, 1.3, 0, NULL, "clock"},
        {JOB_SLOW_FAMILY, 2.0, 1, NULL, "memory"},
        {JOB_SLOW_FAMILY, 1.3, 0, NULL, "compute-bound"},
        {JOB_SLOW_KERNEL, 2.0, 0, "flash_bwd", "one-class"},
        {JOB_SHARED_GPU, 2.0, 0, NULL, "shared-gpu"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, 8, rows[i].kind, 3);
        struct argus_verdict *v;

        f->factor = rows[i].factor;
        f->memory = rows[i].memory;
        f->pattern = rows[i].pattern;
        v = job_verdict(&s);
        job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
        assert_non_null(v->subkind);
        assert_string_equal(v->subkind, rows[i].subkind);
        argus_verdict_destroy(v);
    }
}

static void times(void **state)
{
    struct job_spec s;
    struct argus_verdict *v;
    struct job_fault *f;

    (void)state;
    f = job_one(&s, 8, JOB_SLOW_RANK, 3);
    f->factor = 1.2;
    f->from = 30;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_in_range(v->onset_step, 29, 31);
    assert_int_equal(v->recovered_step, ARGUS_UNKNOWN);
    argus_verdict_destroy(v);

    f->from = 15;
    f->to = 40;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_in_range(v->onset_step, 14, 16);
    assert_in_range(v->recovered_step, 39, 41);
    assert_string_equal(v->pattern, "episode");
    argus_verdict_destroy(v);

    f = job_one(&s, 8, JOB_RAMP, 3);
    f->factor = 1.5;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_string_equal(v->pattern, "ramp");
    argus_verdict_destroy(v);

    /* a late start of one rank in the first step is warm-up */
    f = job_one(&s, 8, JOB_LATE_START, 3);
    f->ms = 500;
    f->to = 1;
    job_check(&s, ARGUS_VERDICT_OK, -1);
}

/* A fault that is there for most of the job has its onset where it began: of a rank against many, of one
 * of two, of a link against its siblings and of copies. */
static void early_onsets(void **state)
{
    (void)state;
    for (int onset = 6; onset <= 24; onset += 6)
        for (int what = 0; what < 4; what++) {
            struct job_spec s;
            struct job_fault *f;
            struct argus_verdict *v;

            f = job_one(&s, what == 1 ? 2 : what == 2 ? 16 : 8, JOB_SLOW_RANK, 1);
            f->factor = 1.3;
            f->from = onset;
            if (what == 2) {
                f->kind = JOB_LINK_NIC;
                f->factor = 5;
                s.tp = s.ranks_per_node = 4;
            } else if (what == 3) {
                f->kind = JOB_SLOW_COPY;
                f->factor = 2;
                f = job_spec_fault(&s, JOB_COPY_BOUND);
                f->rank = -1;
                f->ms = 15;
            }
            if (what == 1 && onset < 18)
                continue; /* of two, the one that changed: a past of ten steps that are compared */
            v = job_verdict(&s);
            assert_int_equal(v->kind,
                             what < 2 ? ARGUS_VERDICT_COMPUTE_STRAGGLER : ARGUS_VERDICT_SLOW_LINK);
            if (v->onset_step < onset - 1 || v->onset_step > onset + 1)
                fail_msg("case %d: since %d, not %d", what, v->onset_step, onset);
            argus_verdict_destroy(v);
        }
}

static void five_percent(void **state)
{
    (void)state;
    for (int world = 4; world <= 32; world *= 2) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, world, JOB_SLOW_RANK, world / 2 + 1);

        f->factor = 1.05;
        job_check(&s, ARGUS_VERDICT_COMPUTE_STRAGGLER, world / 2 + 1);
    }
}

/* One GPU 2.4 % slower than before, the whole job 5.7 %: too little for a slow rank by itself, but the
 * job shifts at the same step.  The rank and the onset are named, and what the job measured is the price. */
static void little_that_costs_much(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 32, JOB_SLOW_RANK, 13);
    struct argus_verdict *v;

    (void)state;
    s.pp = 4;
    s.steps = 120;
    s.noise = 0.003;
    f->factor = 1.024;
    f->from = 60;
    f = job_spec_fault(&s, JOB_EXTRA_REDUCE);
    f->ms = 13;
    f->from = 60;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 13);
    assert_in_range(v->onset_step, 58, 62);
    assert_true(v->slowdown > 1.045 && v->slowdown < 1.07);
    argus_verdict_destroy(v);

    /* the same GPU in a job that does not feel it: nothing */
    s.n_faults = 1;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_OK, -1);
    argus_verdict_destroy(v);
}

static void a_node(void **state)
{
    struct job_spec s;
    struct argus_verdict *v;

    (void)state;
    job_spec_init(&s, 16);
    s.ranks_per_node = 4;
    for (int r = 4; r < 8; r++) {
        struct job_fault *f = job_spec_fault(&s, JOB_SLOW_RANK);

        f->rank = r;
        f->factor = 1.25;
    }
    v = job_verdict(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_COMPUTE_STRAGGLER);
    assert_int_equal(v->n_culprits, 1);
    assert_int_equal(v->culprits[0].rank, ARGUS_UNKNOWN);
    assert_string_equal(v->culprits[0].node, "n01");
    argus_verdict_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sub_kinds),    cmocka_unit_test(little_that_costs_much),
        cmocka_unit_test(times),        cmocka_unit_test(early_onsets),
        cmocka_unit_test(five_percent), cmocka_unit_test(a_node),
    };

    return cmocka_run_group_tests_name("detect: compute", tests, job_setup, job_teardown);
}
