/* SPDX-License-Identifier: Apache-2.0 */
/* Constructed jobs and their one right verdict. */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/jobsim.h"
#include "analyzer/timeline/timeline_io.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/argus-detect-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static void empty_dir(void)
{
    char **paths;
    size_t n;

    if (argus_timeline_list(dir, &paths, &n, NULL))
        return;
    for (size_t i = 0; i < n; i++)
        unlink(paths[i]);
    argus_timeline_list_free(paths, n);
}

static int teardown(void **state)
{
    (void)state;
    empty_dir();
    return rmdir(dir);
}

static struct argus_verdict *verdict_of(const struct job_spec *s)
{
    argus_error_t err = {{0}};
    struct argus_model *m;
    struct argus_verdict *v;

    empty_dir();
    if (job_run(s, dir, &err))
        fail_msg("%s", err.text);
    m = argus_model_load(dir, NULL, &err);
    if (!m)
        fail_msg("%s", err.text);
    v = argus_diagnose(m, &err);
    argus_model_destroy(m);
    if (!v)
        fail_msg("%s", err.text);
    return v;
}

static void expect(struct argus_verdict *v, enum argus_verdict_kind kind, int rank)
{
    if (v->kind != kind)
        fail_msg("%s, expected %s: %s", argus_verdict_kind_name(v->kind),
                 argus_verdict_kind_name(kind), v->n_explained ? v->explained[0] : "");
    if (rank >= 0) {
        assert_int_equal(v->n_culprits, 1);
        assert_int_equal(v->culprits[0].rank, rank);
    } else {
        assert_int_equal(v->n_culprits, 0);
    }
}

static struct job_fault *one(struct job_spec *s, int world, enum job_fault_kind kind, int rank)
{
    struct job_fault *f;

    job_spec_init(s, world);
    f = job_spec_fault(s, kind);
    f->rank = rank;
    return f;
}

static void check(struct job_spec *s, enum argus_verdict_kind kind, int rank)
{
    struct argus_verdict *v = verdict_of(s);

    expect(v, kind, rank);
    argus_verdict_destroy(v);
}

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
        struct job_fault *f = one(&s, 8, rows[i].kind, 3);
        struct argus_verdict *v;

        f->factor = rows[i].factor;
        f->memory = rows[i].memory;
        f->pattern = rows[i].pattern;
        v = verdict_of(&s);
        expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
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
    f = one(&s, 8, JOB_SLOW_RANK, 3);
    f->factor = 1.2;
    f->from = 30;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_in_range(v->onset_step, 29, 31);
    assert_int_equal(v->recovered_step, ARGUS_UNKNOWN);
    argus_verdict_destroy(v);

    f->from = 15;
    f->to = 40;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_in_range(v->onset_step, 14, 16);
    assert_in_range(v->recovered_step, 39, 41);
    assert_string_equal(v->pattern, "episode");
    argus_verdict_destroy(v);

    f = one(&s, 8, JOB_RAMP, 3);
    f->factor = 1.5;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_string_equal(v->pattern, "ramp");
    argus_verdict_destroy(v);

    /* a late start of one rank in the first step is warm-up */
    f = one(&s, 8, JOB_LATE_START, 3);
    f->ms = 500;
    f->to = 1;
    check(&s, ARGUS_VERDICT_OK, -1);
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

            f = one(&s, what == 1 ? 2 : what == 2 ? 16 : 8, JOB_SLOW_RANK, 1);
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
            v = verdict_of(&s);
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
        struct job_fault *f = one(&s, world, JOB_SLOW_RANK, world / 2 + 1);

        f->factor = 1.05;
        check(&s, ARGUS_VERDICT_COMPUTE_STRAGGLER, world / 2 + 1);
    }
}

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
        struct job_fault *f = one(&s, 8, rows[i].kind, 2);
        struct argus_verdict *v;

        f->ms = rows[i].ms;
        f->every = rows[i].every;
        f->grow = rows[i].grow;
        f->from = rows[i].kind == JOB_JIT ? 10 : 0;
        v = verdict_of(&s);
        expect(v, rows[i].verdict, 2);
        if (rows[i].pattern)
            assert_string_equal(v->pattern, rows[i].pattern);
        argus_verdict_destroy(v);
    }
}

static void rotating_stall(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 8, JOB_HOST_STALL, -1);
    struct argus_verdict *v;

    (void)state;
    f->ms = 20;
    f->every = 3;
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_HOST_STALL);
    assert_string_equal(v->pattern, "rotating");
    argus_verdict_destroy(v);
}

static double evidence(const struct argus_verdict *v, const char *signal, double *peers)
{
    for (size_t i = 0; i < v->n_evidence; i++)
        if (!strcmp(v->evidence[i].signal, signal)) {
            *peers = v->evidence[i].peers;
            return v->evidence[i].value;
        }
    fail_msg("no %s", signal);
    return NAN;
}

/* The factors that nccl-tests' PERFORMANCE page gives for n ranks and S bytes a rank, n = 8. */
static void bandwidth_factors(void **state)
{
    static const struct {
        int func;
        double alg, bus;
    } all[] = {
        {ARGUS_FUNC_ALLREDUCE, 1, 1.75},  {ARGUS_FUNC_ALLGATHER, 8, 7},
        {ARGUS_FUNC_REDUCESCATTER, 8, 7}, {ARGUS_FUNC_ALLTOALL, 8, 7},
        {ARGUS_FUNC_BROADCAST, 1, 1},     {ARGUS_FUNC_REDUCE, 1, 1},
        {ARGUS_FUNC_SEND, 1, 1},          {ARGUS_FUNC_RECV, 1, 1},
        {ARGUS_FUNC_BARRIER, 0, 0},       {ARGUS_FUNC_OTHER, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_float_equal(argus_algbw_factor(all[i].func, 8), all[i].alg, 1e-12);
        assert_float_equal(argus_busbw_factor(all[i].func, 8), all[i].bus, 1e-12);
        assert_float_equal(argus_busbw_factor(all[i].func, 1), 0, 0);
    }
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
            v = verdict_of(&s);
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

/* Two ranks with as much more to do, and one beside a GPU that is as slow. */
static void busy_beside_another(void **state)
{
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        struct job_spec s;
        struct job_fault *f = one(&s, 8, JOB_IMBALANCE, 2);
        struct argus_verdict *v;
        int found = 0;

        f->factor = 1.3;
        f = job_spec_fault(&s, slow ? JOB_SLOW_RANK : JOB_IMBALANCE);
        f->rank = 5;
        f->factor = 1.3;
        v = verdict_of(&s);
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

static void links(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 16, JOB_LINK_NIC, 5);
    double alg, bus, usual_alg, usual_bus;
    struct argus_verdict *v;

    (void)state;
    /* one data parallel group of four: its ring hides which of its members it is */
    s.tp = 4;
    s.ranks_per_node = 4;
    f->factor = 5;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_non_null(v->link);
    assert_string_equal(v->link->scope, "nic");
    assert_int_equal(v->link->n_candidates, 4);
    assert_string_equal(v->link->candidates[1], "rank5@n01");
    assert_true(v->link->factor > 4.5 && v->link->factor < 5.5);
    /* 48 MiB at 40 GB/s as the job has it, a fifth of that here; 2 (n - 1) / n of an all-reduce of four */
    alg = evidence(v, "algbw_gbps", &usual_alg);
    bus = evidence(v, "busbw_gbps", &usual_bus);
    assert_true(fabs(bus / alg - 1.5) < 1e-9);
    assert_true(fabs(usual_bus / 40 - 1) < 0.1);
    assert_true(fabs(usual_bus / bus - 5) < 0.5);
    argus_verdict_destroy(v);

    /* within the node: the node's only group */
    f->kind = JOB_LINK_RANK;
    f->factor = 3;
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_string_equal(v->link->scope, "gpu");
    assert_string_equal(v->link->node, "n01");
    argus_verdict_destroy(v);

    /* all inter-node groups slower than they were: the fabric, or one of its nodes */
    f->kind = JOB_LINK_NODE;
    f->node = 1;
    f->factor = 10;
    f->from = 30;
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_string_equal(v->link->scope, "fabric");
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);

    /* a pair of a pipeline */
    f = one(&s, 16, JOB_LINK_PAIR, 5);
    s.tp = 2;
    s.pp = 4;
    s.ranks_per_node = 4;
    f->rank2 = 9;
    f->factor = 40;
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_string_equal(v->link->scope, "pair");
    assert_int_equal(v->link->rank, 5);
    assert_int_equal(v->link->peer, 9);
    argus_verdict_destroy(v);
}

/* Slow ways within a node and out of it: one GPU, or one node, where they cross there and began at once. */
static void links_that_cross(void **state)
{
    static const struct {
        int world;
        enum job_fault_kind out;
        int rank, from[2]; /* the way within the node, and out of it */
        const char *scope;
    } rows[] = {
        {16, JOB_LINK_NIC, 5, {0, 0}, "gpu"},
        {16, JOB_LINK_NIC, 5, {30, 30}, "gpu"},
        {16, JOB_LINK_NIC, 5, {0, 30}, NULL},
        {16, JOB_LINK_NODE, -1, {30, 30}, "node"},
        {16, JOB_LINK_NODE, -1, {0, 30}, NULL},
        /* of the two groups within nodes one is the slower */
        {8, JOB_LINK_NIC, 5, {0, 0}, "gpu"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct job_fault *f = one(&s, rows[i].world, JOB_LINK_RANK, 5);
        struct argus_verdict *v;

        s.tp = s.ranks_per_node = 4;
        f->factor = 8;
        f->from = rows[i].from[0];
        f = job_spec_fault(&s, rows[i].out);
        f->rank = rows[i].rank;
        f->node = 1;
        f->factor = 5;
        f->from = rows[i].from[1];
        v = verdict_of(&s);
        assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
        if (rows[i].scope) {
            assert_string_equal(v->link->scope, rows[i].scope);
            assert_string_equal(v->link->node, "n01");
            assert_int_equal(v->link->n_candidates, 0);
            assert_int_equal(v->n_culprits, 1);
            assert_string_equal(v->culprits[0].node, "n01");
            assert_int_equal(v->culprits[0].rank, rows[i].rank);
            assert_int_equal(v->n_findings, 0);
            assert_true(rows[i].from[0] ? v->onset_step >= 29 && v->onset_step <= 31
                                        : v->onset_step == ARGUS_UNKNOWN);
        } else {
            assert_true(v->link->n_candidates > 1);
            assert_int_equal(v->n_findings, 1);
            for (size_t k = 0; k < v->n_culprits; k++)
                assert_int_equal(v->culprits[k].rank, ARGUS_UNKNOWN);
        }
        argus_verdict_destroy(v);
    }
}

/* All paths of a shape slower than they were, in a job that began with a broadcast. */
static void links_all_alike(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 16, JOB_LINK_NODE, -1);
    struct argus_verdict *v;

    (void)state;
    /* tensor parallel within the nodes: every ring crosses the slow one */
    s.tp = s.ranks_per_node = 4;
    s.broadcast = 1;
    f->node = 2;
    f->factor = 10;
    f->from = 30;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_string_equal(v->link->scope, "fabric");
    assert_int_equal(v->link->n_candidates, 4);
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);

    /* a node a rank: one of two rings, and one of the pairs that it crosses */
    s.world = 8;
    s.tp = 2;
    s.ranks_per_node = 1;
    f->node = 3;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_SLOW_LINK, 3);
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);

    /* a node a stage: two thirds of the ways between stages are slow */
    s.world = 16;
    s.tp = 1;
    s.pp = s.ranks_per_node = 4;
    f->node = 1;
    f->factor = 30;
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_string_equal(v->link->scope, "node");
    assert_string_equal(v->link->node, "n01");
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);
}

/* Other messages are another workload, whatever the old ones take beside them. */
static void larger_messages(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 16, JOB_LARGER_BUCKETS, -1);

    (void)state;
    s.ranks_per_node = 4;
    f->factor = 6;
    f->from = 30;
    for (int tp = 1; tp <= 4; tp *= 4) {
        s.tp = tp;
        for (s.broadcast = 0; s.broadcast < 2; s.broadcast++)
            check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    }
}

/* Sends and receives that share calls are nobody's fault, and no all-to-all. */
static void fused_pipelines(void **state)
{
    struct job_spec s;
    struct argus_verdict *v;

    (void)state;
    for (int names = 0; names < 2; names++) {
        job_spec_init(&s, 16);
        s.tp = 2;
        s.pp = s.ranks_per_node = 4;
        s.names = names;
        s.fused = 1;
        v = verdict_of(&s);
        expect(v, ARGUS_VERDICT_OK, -1);
        assert_int_equal(v->topology.pp, 4);
        assert_int_equal(v->topology.ep, 1);
        assert_int_equal(v->data_quality.n_notes, 1);
        assert_non_null(strstr(v->data_quality.notes[0], "share a call"));
        argus_verdict_destroy(v);
    }
    s.fused = 0;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_OK, -1);
    assert_int_equal(v->data_quality.n_notes, 0);
    argus_verdict_destroy(v);
}

/* One ring over many nodes: any of them may be it, and none is left out. */
static void links_of_many_nodes(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 40, JOB_LINK_NODE, -1);
    struct argus_verdict *v;

    (void)state;
    s.ranks_per_node = 2;
    f->node = 18;
    f->factor = 5;
    f->from = 30;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_non_null(v->link);
    assert_string_equal(v->link->scope, "fabric");
    assert_int_equal(v->link->n_candidates, 20);
    assert_string_equal(v->link->candidates[18], "n18");
    argus_verdict_destroy(v);
}

static void imbalances(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 16, JOB_SLOW_STAGE, -1);
    struct argus_verdict *v;

    (void)state;
    s.pp = 4;
    f->stage = 3;
    f->factor = 1.5;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_PIPELINE_IMBALANCE, -1);
    assert_int_equal(v->stage, 3);
    argus_verdict_destroy(v);

    f = one(&s, 8, JOB_IMBALANCE, 3);
    f->factor = 1.4;
    check(&s, ARGUS_VERDICT_WORKLOAD_IMBALANCE, 3);
    f->rank = -1;
    check(&s, ARGUS_VERDICT_WORKLOAD_IMBALANCE, -1);
    f->kind = JOB_LONG_SEQUENCE;
    check(&s, ARGUS_VERDICT_WORKLOAD_IMBALANCE, -1);
    f = one(&s, 8, JOB_MOE_HOT, -1);
    s.ep = 4;
    f->factor = 2.5;
    check(&s, ARGUS_VERDICT_MOE_IMBALANCE, -1);
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
            v = verdict_of(&s);
            /* 20 % on the experts of one half is 4 % on the rank: too little to speak of */
            if (factor > 1.3 || v->kind != ARGUS_VERDICT_OK)
                expect(v, ARGUS_VERDICT_MOE_IMBALANCE, -1);
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
                v = verdict_of(&s);
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
        v = verdict_of(&s);
        if (v->kind != ARGUS_VERDICT_OK)
            expect(v, ARGUS_VERDICT_MOE_IMBALANCE, -1);
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
        struct job_fault *f = one(&s, rows[i].world, JOB_SLOW_FAMILY, rows[i].first);
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
        v = verdict_of(&s);
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

static struct argus_model *model_of(const struct job_spec *s)
{
    argus_error_t err = {{0}};
    struct argus_model *m = NULL;

    empty_dir();
    if (job_run(s, dir, &err) || !(m = argus_model_load(dir, NULL, &err)))
        fail_msg("%s", err.text);
    return m;
}

/* What a communicator is for is told without its name. */
static void kinds_without_names(void **state)
{
    static const struct {
        int world, tp, pp, ep, ranks_per_node;
    } rows[] = {
        {8, 1, 1, 1, 8},  {8, 1, 1, 4, 8},  {8, 1, 1, 8, 4},  {8, 1, 1, 2, 2},
        {8, 2, 1, 2, 8},  {8, 2, 1, 4, 4},  {16, 2, 1, 4, 4}, {16, 2, 2, 2, 4},
        {12, 1, 1, 3, 4}, {16, 4, 1, 1, 8}, {16, 2, 4, 1, 4}, {16, 1, 2, 4, 4},
        {8, 1, 2, 1, 8},  {8, 1, 2, 2, 4},  {8, 4, 2, 1, 8},  {16, 2, 2, 4, 16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct argus_model *named, *m;

        job_spec_init(&s, rows[i].world);
        s.tp = rows[i].tp;
        s.pp = rows[i].pp;
        s.ep = rows[i].ep;
        s.ranks_per_node = rows[i].ranks_per_node;
        s.steps = 24;
        s.names = 1;
        named = model_of(&s);
        s.names = 0;
        m = model_of(&s);
        for (size_t g = 0; g < m->n_groups; g++)
            for (size_t o = 0; o < named->n_groups; o++)
                if (named->groups[o].hash == m->groups[g].hash && named->groups[o].name &&
                    strncmp(named->groups[o].name, "world", 5) &&
                    named->groups[o].kind != m->groups[g].kind)
                    fail_msg("row %zu: %s is %s", i, named->groups[o].name,
                             argus_group_kind_name(m->groups[g].kind));
        if (m->topology.tp != s.tp || m->topology.pp != s.pp || m->topology.ep != s.ep ||
            m->topology.dp != s.world / (s.tp * s.pp))
            fail_msg("row %zu: tp=%d pp=%d dp=%d ep=%d", i, m->topology.tp, m->topology.pp,
                     m->topology.dp, m->topology.ep);
        for (size_t r = 0; r < m->n_ranks; r++)
            if (m->ranks[r].tp != named->ranks[r].tp || m->ranks[r].dp != named->ranks[r].dp ||
                m->ranks[r].pp != named->ranks[r].pp || m->ranks[r].ep != named->ranks[r].ep)
                fail_msg("row %zu: rank %zu is elsewhere", i, r);
        argus_model_destroy(named);
        argus_model_destroy(m);
    }
}

static void nobody(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 8, JOB_COPY_BOUND, -1);

    (void)state;
    f->ms = 60;
    check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    f->kind = JOB_EXTRA_REDUCE;
    check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    f->kind = JOB_ALL_SLOW;
    f->factor = 1.3;
    f->from = 30;
    check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    f = one(&s, 2, JOB_SLOW_RANK, 1);
    f->factor = 1.3;
    check(&s, ARGUS_VERDICT_SPLIT, -1);
    f->from = 30;
    check(&s, ARGUS_VERDICT_COMPUTE_STRAGGLER, 1);
}

static int says(const struct argus_verdict *v, const char *what)
{
    for (size_t i = 0; i < v->n_explained; i++)
        if (strstr(v->explained[i], what))
            return 1;
    return 0;
}

static void add_health(struct job_spec *s, const char *metric, int rank, int from, double usual,
                       double value)
{
    struct job_health *h = &s->health[s->n_health++];

    *h = (struct job_health){.metric = metric, .rank = rank, .from = from};
    h->usual = usual;
    h->value = value;
    if (!strncmp(metric, "nic_", 4))
        h->device = "mlx5_0:1";
}

/* Devices never decide, they name the cause of what is decided already. */
static void named_causes(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 8, JOB_SLOW_RANK, 3);
    struct argus_verdict *v;

    (void)state;
    f->factor = 1.4;
    f->from = 20;
    add_health(&s, "gpu_clock_sm_mhz", 3, 20, 1980, 1200);
    add_health(&s, "gpu_throttle_sw_thermal", 3, 20, 0, 1);
    add_health(&s, "gpu_temperature_c", 3, 20, 61, 87);
    add_health(&s, "gpu_xid", 5, 20, NAN, 79); /* of a rank that is not blamed */
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    if (!says(v, "clocks of rank 3 on n00 (GPU 3) at 1200 MHz, peers 1980 (SW thermal slowdown, "
                 "87 C)"))
        fail_msg("%s", v->explained[1]);
    assert_false(says(v, "XID"));
    argus_verdict_destroy(v);

    /* the same devices in a healthy job: no verdict, not a word */
    s.n_faults = 0;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_OK, -1);
    assert_false(says(v, "clocks"));
    argus_verdict_destroy(v);

    /* slow for another reason: the devices are alike */
    s.n_faults = 1;
    s.n_health = 0;
    add_health(&s, "gpu_clock_sm_mhz", 3, 20, 1980, 1978);
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_false(says(v, "likely cause"));
    argus_verdict_destroy(v);

    /* everybody's clocks, against their own before */
    f = one(&s, 8, JOB_ALL_SLOW, -1);
    f->factor = 1.3;
    f->from = 30;
    for (int r = 0; r < 8; r++)
        add_health(&s, "gpu_clock_sm_mhz", r, 30, 1980, 1500);
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    assert_true(says(v, "at 1500 MHz, before 1980"));
    argus_verdict_destroy(v);

    /* a link: of the four that it may be, one has a port with errors */
    f = one(&s, 16, JOB_LINK_NIC, 4);
    s.tp = 4;
    s.ranks_per_node = 4;
    f->factor = 5;
    add_health(&s, "nic_symbol_error", 4, 5, 0, 41234);
    add_health(&s, "nic_rate_gbps", 4, 0, 400, 400);
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_int_equal(v->link->n_candidates, 4);
    assert_true(says(v, "41234 symbol errors of port mlx5_0:1 of n01 in these steps, peers 0"));
    assert_false(says(v, "port rate"));
    argus_verdict_destroy(v);
}

/* One rank's copies from the host, of what all ranks copy. */
static void slow_copies(void **state)
{
    struct job_spec s;
    struct job_fault *f;
    struct argus_verdict *v;

    (void)state;
    for (int onset = 0; onset <= 30; onset += 30) {
        f = one(&s, 8, JOB_COPY_BOUND, -1);
        f->ms = 15;
        f = job_spec_fault(&s, JOB_SLOW_COPY);
        f->rank = 6;
        f->factor = 2;
        f->from = onset;
        v = verdict_of(&s);
        expect(v, ARGUS_VERDICT_SLOW_LINK, 6);
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
    check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    /* slow and hidden in a job that hardly copies: nobody waits for it */
    f = one(&s, 8, JOB_SLOW_COPY, 6);
    f->factor = 3;
    check(&s, ARGUS_VERDICT_OK, -1);
    /* of two, nobody can be told from the first step on; since a step, it can */
    f = one(&s, 2, JOB_COPY_BOUND, -1);
    f->ms = 15;
    f = job_spec_fault(&s, JOB_SLOW_COPY);
    f->rank = 1;
    f->factor = 2;
    f->from = 30;
    check(&s, ARGUS_VERDICT_SLOW_LINK, 1);
    f->from = 0;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_SPLIT, -1);
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
        struct job_fault *f = one(&s, 8, JOB_OFFLOAD, -1);
        struct argus_verdict *v;
        double usual;

        s.ranks_per_node = 4;
        s.layers = 8;
        f->ms = 1;
        v = verdict_of(&s);
        expect(v, ARGUS_VERDICT_OK, -1);
        usual = v->job.step_ms_p50;
        argus_verdict_destroy(v);

        f = job_spec_fault(&s, JOB_SLOW_COPY);
        f->rank = 6;
        f->factor = 2;
        f->from = onset;
        v = verdict_of(&s);
        expect(v, ARGUS_VERDICT_SLOW_LINK, 6);
        assert_string_equal(v->link->scope, "pcie");
        /* every other of eight layers is 1 ms late */
        if (fabs(v->slowdown * usual / (usual + 4) - 1) > 0.02)
            fail_msg("onset %d: %.3f of %.1f ms", onset, v->slowdown, usual);
        for (size_t i = 0; i < v->n_findings; i++)
            assert_int_not_equal(v->findings[i].kind, ARGUS_VERDICT_UNIFORM_SLOWDOWN);
        argus_verdict_destroy(v);
    }
}

/* One GPU 2.4 % slower than before, the whole job 5.7 %: too little for a slow rank by itself, but the
 * job shifts at the same step.  The rank and the onset are named, and what the job measured is the price. */
static void little_that_costs_much(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 32, JOB_SLOW_RANK, 13);
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
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 13);
    assert_in_range(v->onset_step, 58, 62);
    assert_true(v->slowdown > 1.045 && v->slowdown < 1.07);
    argus_verdict_destroy(v);

    /* the same GPU in a job that does not feel it: nothing */
    s.n_faults = 1;
    v = verdict_of(&s);
    expect(v, ARGUS_VERDICT_OK, -1);
    argus_verdict_destroy(v);
}

static void two_faults(void **state)
{
    struct job_spec s;
    struct job_fault *f = one(&s, 8, JOB_SLOW_RANK, 3);
    struct argus_verdict *v;

    (void)state;
    f->factor = 1.5;
    f = job_spec_fault(&s, JOB_HOST_STALL);
    f->rank = 6;
    f->ms = 60;
    f->every = 6;
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_COMPUTE_STRAGGLER);
    assert_int_equal(v->culprits[0].rank, 3);
    assert_int_equal(v->n_findings, 1);
    assert_int_equal(v->findings[0].kind, ARGUS_VERDICT_HOST_STALL);
    assert_int_equal(v->findings[0].culprits[0].rank, 6);
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
    v = verdict_of(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_COMPUTE_STRAGGLER);
    assert_int_equal(v->n_culprits, 1);
    assert_int_equal(v->culprits[0].rank, ARGUS_UNKNOWN);
    assert_string_equal(v->culprits[0].node, "n01");
    argus_verdict_destroy(v);
}

static void healthy(void **state)
{
    static const struct {
        int world, tp, pp, ep;
    } shapes[] = {{1, 1, 1, 1}, {2, 1, 1, 1}, {4, 2, 1, 1},  {4, 1, 2, 1}, {8, 1, 1, 1},
                  {8, 2, 2, 1}, {8, 1, 1, 4}, {16, 4, 1, 1}, {16, 2, 4, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct job_spec s;
            struct argus_verdict *v;

            job_spec_init(&s, shapes[i].world);
            s.tp = shapes[i].tp;
            s.pp = shapes[i].pp;
            s.ep = shapes[i].ep;
            s.seed = seed * 7919 + i;
            s.noise = seed % 2 ? 0.01 : 0.03;
            s.spread = seed % 3 ? 0.004 : 0.008;
            s.clock_ms = seed % 2 ? 0 : 10;
            s.ranks_per_node = seed % 2 ? 4 : 8;
            s.broadcast = seed % 3 == 1;
            v = verdict_of(&s);
            if (v->kind != ARGUS_VERDICT_OK)
                fail_msg("world %d tp %d pp %d ep %d seed %d: %s: %s", s.world, s.tp, s.pp, s.ep,
                         (int)s.seed, argus_verdict_kind_name(v->kind),
                         v->n_explained ? v->explained[0] : "");
            argus_verdict_destroy(v);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy),
        cmocka_unit_test(sub_kinds),
        cmocka_unit_test(named_causes),
        cmocka_unit_test(little_that_costs_much),
        cmocka_unit_test(slow_copies),
        cmocka_unit_test(hidden_copies),
        cmocka_unit_test(times),
        cmocka_unit_test(early_onsets),
        cmocka_unit_test(five_percent),
        cmocka_unit_test(stalls),
        cmocka_unit_test(rotating_stall),
        cmocka_unit_test(stalls_together),
        cmocka_unit_test(busy_beside_another),
        cmocka_unit_test(links),
        cmocka_unit_test(links_that_cross),
        cmocka_unit_test(links_all_alike),
        cmocka_unit_test(fused_pipelines),
        cmocka_unit_test(larger_messages),
        cmocka_unit_test(links_of_many_nodes),
        cmocka_unit_test(bandwidth_factors),
        cmocka_unit_test(imbalances),
        cmocka_unit_test(nobody),
        cmocka_unit_test(kinds_without_names),
        cmocka_unit_test(two_faults),
        cmocka_unit_test(a_node),
        cmocka_unit_test(expert_shards),
        cmocka_unit_test(slow_memory_beside_experts),
        cmocka_unit_test(uneven_experts_are_no_split),
    };

    return cmocka_run_group_tests_name("detect", tests, setup, teardown);
}
