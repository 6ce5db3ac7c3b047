/* SPDX-License-Identifier: Apache-2.0 */
/* Slow links: of a GPU, a NIC, a node, a pair; what no link is. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/check.h"

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

static void links(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 16, JOB_LINK_NIC, 5);
    double alg, bus, usual_alg, usual_bus;
    struct argus_verdict *v;

    (void)state;
    /* one data parallel group of four: its ring hides which of its members it is */
    s.tp = 4;
    s.ranks_per_node = 4;
    f->factor = 5;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_non_null(v->link);
    assert_string_equal(v->link->scope, "nic");
    assert_int_equal(v->link->n_candidates, 4);
    assert_string_equal(v->link->candidates[1], "rank5@n01");
    assert_true(v->link->factor > 4.5 && v->link->factor < 5.5);
    /* 48 MiB at 40 GB/s as the job has it, a fifth of that here; 2 (n - 1) / n of an all-reduce of four */
    alg = job_evidence(v, "algbw_gbps", &usual_alg);
    bus = job_evidence(v, "busbw_gbps", &usual_bus);
    assert_true(fabs(bus / alg - 1.5) < 1e-9);
    assert_true(fabs(usual_bus / 40 - 1) < 0.1);
    assert_true(fabs(usual_bus / bus - 5) < 0.5);
    argus_verdict_destroy(v);

    /* within the node: the node's only group */
    f->kind = JOB_LINK_RANK;
    f->factor = 3;
    v = job_verdict(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_string_equal(v->link->scope, "gpu");
    assert_string_equal(v->link->node, "n01");
    argus_verdict_destroy(v);

    /* all inter-node groups slower than they were: the fabric, or one of its nodes */
    f->kind = JOB_LINK_NODE;
    f->node = 1;
    f->factor = 10;
    f->from = 30;
    v = job_verdict(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_string_equal(v->link->scope, "fabric");
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);

    /* a pair of a pipeline */
    f = job_one(&s, 16, JOB_LINK_PAIR, 5);
    s.tp = 2;
    s.pp = 4;
    s.ranks_per_node = 4;
    f->rank2 = 9;
    f->factor = 40;
    v = job_verdict(&s);
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
        struct job_fault *f = job_one(&s, rows[i].world, JOB_LINK_RANK, 5);
        struct argus_verdict *v;

        s.tp = s.ranks_per_node = 4;
        f->factor = 8;
        f->from = rows[i].from[0];
        f = job_spec_fault(&s, rows[i].out);
        f->rank = rows[i].rank;
        f->node = 1;
        f->factor = 5;
        f->from = rows[i].from[1];
        v = job_verdict(&s);
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
    struct job_fault *f = job_one(&s, 16, JOB_LINK_NODE, -1);
    struct argus_verdict *v;

    (void)state;
    /* tensor parallel within the nodes: every ring crosses the slow one */
    s.tp = s.ranks_per_node = 4;
    s.broadcast = 1;
    f->node = 2;
    f->factor = 10;
    f->from = 30;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_string_equal(v->link->scope, "fabric");
    assert_int_equal(v->link->n_candidates, 4);
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);

    /* a node a rank: one of two rings, and one of the pairs that it crosses */
    s.world = 8;
    s.tp = 2;
    s.ranks_per_node = 1;
    f->node = 3;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_SLOW_LINK, 3);
    assert_in_range(v->onset_step, 29, 31);
    argus_verdict_destroy(v);

    /* a node a stage: two thirds of the ways between stages are slow */
    s.world = 16;
    s.tp = 1;
    s.pp = s.ranks_per_node = 4;
    f->node = 1;
    f->factor = 30;
    v = job_verdict(&s);
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
    struct job_fault *f = job_one(&s, 16, JOB_LARGER_BUCKETS, -1);

    (void)state;
    s.ranks_per_node = 4;
    f->factor = 6;
    f->from = 30;
    for (int tp = 1; tp <= 4; tp *= 4) {
        s.tp = tp;
        for (s.broadcast = 0; s.broadcast < 2; s.broadcast++)
            job_check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    }
}

/* One ring over many nodes: any of them may be it, and none is left out. */
static void links_of_many_nodes(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 40, JOB_LINK_NODE, -1);
    struct argus_verdict *v;

    (void)state;
    s.ranks_per_node = 2;
    f->node = 18;
    f->factor = 5;
    f->from = 30;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_non_null(v->link);
    assert_string_equal(v->link->scope, "fabric");
    assert_int_equal(v->link->n_candidates, 20);
    assert_string_equal(v->link->candidates[18], "n18");
    argus_verdict_destroy(v);
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
        v = job_verdict(&s);
        job_expect(v, ARGUS_VERDICT_OK, -1);
        assert_int_equal(v->topology.pp, 4);
        assert_int_equal(v->topology.ep, 1);
        assert_int_equal(v->data_quality.n_notes,
                         2); /* and what crosses nodes beside them is one group */
        assert_non_null(strstr(v->data_quality.notes[0], "share a call"));
        assert_non_null(strstr(v->data_quality.notes[1], "elsewhere to compare with"));
        argus_verdict_destroy(v);
    }
    s.fused = 0;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_OK, -1);
    assert_int_equal(v->data_quality.n_notes, 0);
    argus_verdict_destroy(v);
}

/* 1: the only note says that the ways between (within) these nodes had nothing to be compared with. */
static int not_compared(const struct argus_verdict *v, const char *where)
{
    return v->data_quality.n_notes == 1 && strstr(v->data_quality.notes[0], where) &&
           strstr(v->data_quality.notes[0], "elsewhere to compare with");
}

/* What could not be compared is said, whether it is slow or not; what was is not. */
static void links_not_compared(void **state)
{
    static const struct {
        int world, tp, pp, per_node;
        const char *note;
    } rows[] = {
        {8, 1, 2, 4, "between nodes n00 and n01: "}, /* siblings, all on the same two nodes */
        {16, 4, 1, 4, "between nodes n00, n01, n02 and n03: "},
        {20, 1, 1, 4, "between nodes n00, n01, n02 and 2 more: "}, /* one ring */
        {4, 1, 1, 4, "within node n00: "},
        {16, 1, 4, 4, NULL}, /* stages on three pairs of nodes */
        {16, 2, 4, 4, NULL},
        {6, 1, 3, 2, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct argus_verdict *v;

        job_spec_init(&s, rows[i].world);
        s.tp = rows[i].tp;
        s.pp = rows[i].pp;
        s.ranks_per_node = rows[i].per_node;
        v = job_verdict(&s);
        job_expect(v, ARGUS_VERDICT_OK, -1);
        if (rows[i].note)
            assert_true(not_compared(v, rows[i].note));
        else
            assert_int_equal(v->data_quality.n_notes, 0);
        argus_verdict_destroy(v);
    }
}

/* Two stages on two nodes: slow from the first step it can't be seen, and that is said; later it is named. */
static void links_of_two_stages(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 8, JOB_LINK_NODE, -1);
    struct argus_verdict *v;

    (void)state;
    s.pp = 2;
    s.ranks_per_node = 4;
    f->node = 1;
    f->factor = 20;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_OK, -1);
    assert_true(not_compared(v, "between nodes n00 and n01: "));
    argus_verdict_destroy(v);

    f->from = 30;
    v = job_verdict(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
    assert_in_range(v->onset_step, 29, 31);
    assert_int_equal(v->data_quality.n_notes, 0);
    argus_verdict_destroy(v);
}

/* Most of the ways between stages are slow from the first step on: the few fast ones are the measure, if they are
 * alike and far away. */
static void most_links_slow(void **state)
{
    static const struct {
        int world, pp, per_node, node;
        double factor;
        const char *scope, *name; /* NULL: ok */
    } rows[] = {
        {16, 4, 4, 1, 30, "node", "n01"}, /* 16 of 24 */
        {4, 4, 1, 1, 30, "nic", "n01"},   /* 4 of 6 */
        {12, 3, 4, 0, 30, "pair", "n00"}, /* 8 of 16 */
        {16, 4, 4, 1, 1.6, NULL, NULL},   /* built unlike, it may be */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct job_fault *f = job_one(&s, rows[i].world, JOB_LINK_NODE, -1);
        struct argus_verdict *v;

        s.pp = rows[i].pp;
        s.ranks_per_node = rows[i].per_node;
        f->node = rows[i].node;
        f->factor = rows[i].factor;
        v = job_verdict(&s);
        if (!rows[i].scope) {
            job_expect(v, ARGUS_VERDICT_OK, -1);
        } else {
            assert_int_equal(v->kind, ARGUS_VERDICT_SLOW_LINK);
            assert_string_equal(v->link->scope, rows[i].scope);
            assert_string_equal(v->link->node, rows[i].name);
            assert_int_equal(v->link->n_candidates, 0);
            assert_true(v->link->factor > 28 && v->link->factor < 32);
            assert_int_equal(v->onset_step, ARGUS_UNKNOWN);
        }
        argus_verdict_destroy(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links),
        cmocka_unit_test(links_that_cross),
        cmocka_unit_test(links_all_alike),
        cmocka_unit_test(fused_pipelines),
        cmocka_unit_test(larger_messages),
        cmocka_unit_test(links_of_many_nodes),
        cmocka_unit_test(links_not_compared),
        cmocka_unit_test(links_of_two_stages),
        cmocka_unit_test(most_links_slow),
        cmocka_unit_test(bandwidth_factors),
    };

    return cmocka_run_group_tests_name("detect: link", tests, job_setup, job_teardown);
}
