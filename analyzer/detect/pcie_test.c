/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between host and GPU that are slow. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/check.h"

/* One rank's copies from the host, of what all ranks copy. */
static void slow_copies(void **state)
{
    struct job_spec s;
    struct job_fault *f;
    struct argus_verdict *v;

    (void)state;
    for (int onset = 0; onset <= 30; onset += 30) {
        f = job_one(&s, 8, JOB_COPY_BOUND, -1);
        f->ms = 15;
        f = job_spec_fault(&s, JOB_SLOW_COPY);
        f->rank = 6;
        f->factor = 2;
        f->from = onset;
        v = job_verdict(&s);
        job_expect(v, ARGUS_VERDICT_SLOW_LINK, 6);
        assert_non_null(v->link);
        assert_string_equal(v->link->scope, "pcie");
        assert_int_equal(v->link->rank, 6);
        assert_true(v->link->factor > 1.8 && v->link->factor < 2.2);
        if (onset)
            assert_in_range(v->onset_step, 29, 31);
        argus_verdict_destroy(v);
    }
    /* all alike: no link */
    f->rank = -1;
    s.n_faults = 1;
    s.faults[0].ms = 60;
    job_check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    /* slow and hidden in a job that hardly copies: nobody waits for it */
    f = job_one(&s, 8, JOB_SLOW_COPY, 6);
    f->factor = 3;
    job_check(&s, ARGUS_VERDICT_OK, -1);
    /* of two, nobody can be told from the first step on; since a step, it can */
    f = job_one(&s, 2, JOB_COPY_BOUND, -1);
    f->ms = 15;
    f = job_spec_fault(&s, JOB_SLOW_COPY);
    f->rank = 1;
    f->factor = 2;
    f->from = 30;
    job_check(&s, ARGUS_VERDICT_SLOW_LINK, 1);
    f->from = 0;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_SPLIT, -1);
    assert_int_equal(v->n_culprits, 0);
    assert_true(v->slowdown > 1.05);
    argus_verdict_destroy(v);
}

/* Slow copies for which computing waits while a collective is under way: the rank's GPU is never idle and no
 * copy stands alone, but the step is as much longer. */
static void hidden_copies(void **state)
{
    (void)state;
    for (int onset = 0; onset <= 30; onset += 30) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, 8, JOB_OFFLOAD, -1);
        struct argus_verdict *v;
        double usual;

        s.ranks_per_node = 4;
        s.layers = 8;
        f->ms = 1;
        v = job_verdict(&s);
        job_expect(v, ARGUS_VERDICT_OK, -1);
        usual = v->job.step_ms_p50;
        argus_verdict_destroy(v);

        f = job_spec_fault(&s, JOB_SLOW_COPY);
        f->rank = 6;
        f->factor = 2;
        f->from = onset;
        v = job_verdict(&s);
        job_expect(v, ARGUS_VERDICT_SLOW_LINK, 6);
        assert_string_equal(v->link->scope, "pcie");
        /* every other of eight layers is 1 ms late */
        if (fabs(v->slowdown * usual / (usual + 4) - 1) > 0.02)
            fail_msg("onset %d: %.3f of %.1f ms", onset, v->slowdown, usual);
        for (size_t i = 0; i < v->n_findings; i++)
            assert_int_not_equal(v->findings[i].kind, ARGUS_VERDICT_UNIFORM_SLOWDOWN);
        argus_verdict_destroy(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_copies),
        cmocka_unit_test(hidden_copies),
    };

    return cmocka_run_group_tests_name("detect: pcie", tests, job_setup, job_teardown);
}
