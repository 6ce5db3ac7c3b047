/* SPDX-License-Identifier: Apache-2.0 */
/* More work and uneven experts, apart from GPUs that are slow. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/check.h"

static void imbalances(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 16, JOB_SLOW_STAGE, -1);
    struct argus_verdict *v;

    (void)state;
    s.pp = 4;
    f->stage = 3;
    f->factor = 1.5;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_PIPELINE_IMBALANCE, -1);
    assert_int_equal(v->stage, 3);
    argus_verdict_destroy(v);

    f = job_one(&s, 8, JOB_IMBALANCE, 3);
    f->factor = 1.4;
    job_check(&s, ARGUS_VERDICT_WORKLOAD_IMBALANCE, 3);
    f->rank = -1;
    job_check(&s, ARGUS_VERDICT_WORKLOAD_IMBALANCE, -1);
    f->kind = JOB_LONG_SEQUENCE;
    job_check(&s, ARGUS_VERDICT_WORKLOAD_IMBALANCE, -1);
    f = job_one(&s, 8, JOB_MOE_HOT, -1);
    s.ep = 4;
    f->factor = 2.5;
    job_check(&s, ARGUS_VERDICT_MOE_IMBALANCE, -1);
}

/* Two ranks with as much more to do, and one beside a GPU that is as slow. */
static void busy_beside_another(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, 8, JOB_IMBALANCE, 2);
        struct argus_verdict *v;
        int found = 0;

        f->factor = 1.3;
        f = job_spec_fault(&s, slow ? JOB_SLOW_RANK : JOB_IMBALANCE);
        f->rank = 5;
        f->factor = 1.3;
        v = job_verdict(&s);
        assert_true(v->severity > ARGUS_SEVERITY_INFO);
        if (slow) {
            int straggler = v->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER;

            assert_true(straggler || v->kind == ARGUS_VERDICT_WORKLOAD_IMBALANCE);
            assert_int_equal(v->culprits[0].rank, straggler ? 5 : 2);
            for (size_t i = 0; i < v->n_findings; i++)
                found |= v->findings[i].kind != v->kind && v->findings[i].n_culprits &&
                         v->findings[i].culprits[0].rank == (straggler ? 2 : 5);
            assert_true(found);
        } else {
            assert_int_equal(v->kind, ARGUS_VERDICT_WORKLOAD_IMBALANCE);
            assert_int_equal(v->n_culprits, 2);
        }
        argus_verdict_destroy(v);
    }
}

static const struct argus_finding *finding(const struct argus_verdict *v,
                                           enum argus_verdict_kind kind)
{
    for (size_t i = 0; i < v->n_findings; i++)
        if (v->findings[i].kind == kind)
            return &v->findings[i];
    return NULL;
}

static void more_to_do(struct job_spec *s, int world, double amount, double speed)
{
    struct job_fault *f = job_one(s, world, JOB_IMBALANCE, 2);

    f->factor = amount;
    f = job_spec_fault(s, JOB_SLOW_RANK);
    f->rank = 2;
    f->factor = speed;
}

/* One rank has more to do on a GPU that is slow, too: it is both, each for its part of the cost. */
static void busy_and_slow(void **state)
{
    static const struct {
        int world, pp, tp;
        double amount, speed;
    } rows[] = {
        {4, 1, 1, 1.15, 1.4}, {8, 1, 1, 1.15, 1.4}, {16, 1, 1, 1.15, 1.4},
        {4, 1, 1, 1.3, 1.3},  {8, 1, 1, 1.3, 1.3},  {16, 1, 1, 1.3, 1.3},
        {16, 1, 2, 1.3, 1.3}, {16, 2, 1, 1.3, 1.3}, {8, 1, 1, 1.5, 1.1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum argus_verdict_kind kind = rows[i].amount > rows[i].speed
                                           ? ARGUS_VERDICT_WORKLOAD_IMBALANCE
                                           : ARGUS_VERDICT_COMPUTE_STRAGGLER;
        struct job_spec s;
        struct argus_verdict *v;
        const struct argus_finding *f;
        double amount, speed, peers, ratio;

        more_to_do(&s, rows[i].world, rows[i].amount, rows[i].speed);
        s.pp = rows[i].pp;
        s.tp = rows[i].tp;
        v = job_verdict(&s);
        job_expect(v, kind, 2);
        assert_int_equal(v->n_findings, 1);
        f = finding(v, kind == ARGUS_VERDICT_COMPUTE_STRAGGLER ? ARGUS_VERDICT_WORKLOAD_IMBALANCE
                                                               : ARGUS_VERDICT_COMPUTE_STRAGGLER);
        assert_non_null(f);
        assert_int_equal(f->n_culprits, 1);
        assert_int_equal(f->culprits[0].rank, 2);
        assert_true(v->gpu_hours >= f->gpu_hours && f->gpu_hours > 0);
        /* a layer's worth of kernels is repeated, about nine tenths of what there is */
        amount = 1 + 0.9 * (rows[i].amount - 1);
        speed = rows[i].speed;
        assert_true(fabs(job_evidence(v, "work_ratio", &peers) - amount) < 0.05);
        assert_true(fabs(1 / job_evidence(v, "compute_score", &peers) - speed) < 0.03);
        /* neither is charged for the other: together the time that the rank takes longer */
        ratio = job_evidence(v, "compute_ratio", &peers);
        assert_true(fabs(ratio - amount * speed) < 0.1);
        assert_true((v->gpu_hours + f->gpu_hours) / v->job.gpu_hours < 1 - 1 / ratio + 0.02);
        argus_verdict_destroy(v);
    }
}

/* More calls, or fewer and longer ones, are no slow GPU, nor are they beside one slower kernel or
 * larger grids. */
static void busy_is_not_slow(void **state)
{
    (void)state;
    for (int what = 0; what < 4; what++)
        for (int world = 4; world <= 16; world *= 2) {
            struct job_spec s;
            struct argus_verdict *v;

            more_to_do(&s, world, what == 1 ? 0.5 : 1.3, what == 1 ? 2.5 : 1.2);
            if (what == 0)
                s.n_faults = 1;
            if (what == 2) {
                s.faults[1].kind = JOB_SLOW_KERNEL;
                s.faults[1].pattern = "flash";
                s.faults[1].factor = 1.5;
            }
            if (what == 3)
                s.faults[1].kind = JOB_LONG_SEQUENCE;
            v = job_verdict(&s);
            if (what != 1)
                job_expect(v, ARGUS_VERDICT_WORKLOAD_IMBALANCE, 2);
            if (what == 0)
                assert_true(job_says(v, "none of them slower"));
            if (what == 2)
                assert_true(job_says(v, "some of them slower"));
            assert_int_not_equal(v->kind, ARGUS_VERDICT_COMPUTE_STRAGGLER);
            assert_null(finding(v, ARGUS_VERDICT_COMPUTE_STRAGGLER));
            argus_verdict_destroy(v);
        }
}

/* The GPU becomes slow in the middle: since then, and the work from the first step. */
static void busy_then_slow(void **state)
{
    struct job_spec s;
    struct argus_verdict *v;

    (void)state;
    more_to_do(&s, 8, 1.2, 1.5);
    s.faults[1].from = 30;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 2);
    assert_in_range(v->onset_step, 29, 31);
    assert_non_null(finding(v, ARGUS_VERDICT_WORKLOAD_IMBALANCE));
    argus_verdict_destroy(v);
}

static void slow_experts(struct job_spec *s, int shard, double factor)
{
    for (int r = 0; r < s->world; r++) {
        struct job_fault *f;

        if (r / s->tp % s->ep != shard)
            continue;
        f = job_spec_fault(s, JOB_SLOW_KERNEL);
        f->rank = r;
        f->factor = factor;
        f->pattern = "expert";
    }
}

/* The same experts have more to do on every replica, in kernels of the same grid: nobody's GPU is slow,
 * unless one is. */
static void expert_shards(void **state)
{
    static const struct {
        int world, ep, tp, names;
    } rows[] = {{12, 4, 1, 0}, {8, 4, 1, 1}, {8, 2, 1, 0}, {4, 2, 1, 0}, {12, 3, 2, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (double factor = 1.2; factor < 2; factor += 0.5) {
            struct job_spec s;
            struct job_fault *f;
            struct argus_verdict *v;

            job_spec_init(&s, rows[i].world);
            s.ep = rows[i].ep;
            s.tp = rows[i].tp;
            s.names = rows[i].names;
            slow_experts(&s, 1, factor);
            v = job_verdict(&s);
            /* 20 % on the experts of one half is 4 % on the rank: too little to speak of */
            if (factor > 1.3 || v->kind != ARGUS_VERDICT_OK)
                job_expect(v, ARGUS_VERDICT_MOE_IMBALANCE, -1);
            for (size_t j = 0; j < v->n_findings; j++)
                assert_int_not_equal(v->findings[j].kind, ARGUS_VERDICT_COMPUTE_STRAGGLER);
            argus_verdict_destroy(v);

            if (rows[i].world < 8)
                continue;
            /* the second replica of that shard, and one of another */
            for (int slow = (1 + s.ep) * s.tp; slow <= (2 + s.ep) * s.tp; slow += s.tp) {
                f = job_spec_fault(&s, JOB_SLOW_RANK);
                f->rank = slow % s.world;
                f->factor = factor < 1.3 ? 1.15 : 1.6;
                v = job_verdict(&s);
                if (v->kind != ARGUS_VERDICT_COMPUTE_STRAGGLER || v->culprits[0].rank != f->rank)
                    fail_msg("world %d ep %d factor %.1f: %s, expected rank %d", s.world, s.ep,
                             factor, argus_verdict_kind_name(v->kind), f->rank);
                assert_int_equal(v->n_culprits, 1);
                argus_verdict_destroy(v);
                s.n_faults--;
            }
        }
}

/* Experts of one half of the ranks that have more to do, and some more on another rank each step: one fault,
 * not halves of unlike GPUs beside it. */
static void uneven_experts_are_no_split(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct job_spec s;
        struct job_fault *f;
        struct argus_verdict *v;

        job_spec_init(&s, 4);
        s.ep = s.tp = 2;
        s.seed = seed;
        s.noise = 0.03;
        slow_experts(&s, 1, 1.5);
        f = job_spec_fault(&s, JOB_MOE_HOT);
        f->rank = -1;
        f->factor = 2;
        v = job_verdict(&s);
        if (v->kind != ARGUS_VERDICT_OK)
            job_expect(v, ARGUS_VERDICT_MOE_IMBALANCE, -1);
        for (size_t i = 0; i < v->n_findings; i++)
            assert_int_not_equal(v->findings[i].kind, ARGUS_VERDICT_SPLIT);
        argus_verdict_destroy(v);
    }
}

/* Memory that is slow says nothing about what a shard's experts are asked for: the ranks are found
 * whichever replicas they hold, and what half of two ranks costs is counted kernel by kernel. */
static void slow_memory_beside_experts(void **state)
{
    static const struct {
        int world, ep, first, second;
        enum argus_verdict_kind kind;
    } rows[] = {
        {2, 2, 1, -1, ARGUS_VERDICT_SPLIT},
        {8, 2, 1, 3, ARGUS_VERDICT_COMPUTE_STRAGGLER}, /* half of the replicas of a shard */
        {8, 4, 1, 5, ARGUS_VERDICT_COMPUTE_STRAGGLER}, /* all of them */
        {8, 4, 1, 2, ARGUS_VERDICT_COMPUTE_STRAGGLER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, rows[i].world, JOB_SLOW_FAMILY, rows[i].first);
        struct argus_verdict *v;
        size_t named;

        s.ep = rows[i].ep;
        f->factor = 2;
        f->memory = 1;
        if (rows[i].second >= 0) {
            f = job_spec_fault(&s, JOB_SLOW_FAMILY);
            f->rank = rows[i].second;
            f->factor = 2;
            f->memory = 1;
        }
        v = job_verdict(&s);
        if (v->kind != rows[i].kind)
            fail_msg("row %zu: %s", i, argus_verdict_kind_name(v->kind));
        named = v->n_culprits;
        for (size_t j = 0; j < v->n_findings; j++)
            named += v->findings[j].n_culprits;
        if (rows[i].second >= 0) {
            assert_int_equal(named, 2);
            assert_string_equal(v->subkind, "memory");
        }
        /* its memory-bound kernels are 7.5 % of the step, once more */
        assert_true(v->slowdown > 1.06 && v->slowdown < 1.10);
        argus_verdict_destroy(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_beside_another),
        cmocka_unit_test(busy_and_slow),
        cmocka_unit_test(busy_is_not_slow),
        cmocka_unit_test(busy_then_slow),
        cmocka_unit_test(imbalances),
        cmocka_unit_test(expert_shards),
        cmocka_unit_test(slow_memory_beside_experts),
        cmocka_unit_test(uneven_experts_are_no_split),
    };

    return cmocka_run_group_tests_name("detect: workload", tests, job_setup, job_teardown);
}
