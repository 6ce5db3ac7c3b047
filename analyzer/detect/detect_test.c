/* SPDX-License-Identifier: Apache-2.0 */
/* Constructed jobs and their one right verdict. */
#include <config.h>
#include <stdio.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/testjob/check.h"

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
        named = job_model(&s);
        s.names = 0;
        m = job_model(&s);
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

/* Neighbours without a name that gather and scatter: activations in turn, or the weights of one layer
 * after the other before there are gradients.  One layer does not tell. */
static void shards_of_weights(void **state)
{
    static const struct {
        int world, tp, pp, layers;
        enum job_tp_use use;
        int found_tp, found_dp;
    } rows[] = {
        {8, 4, 1, 4, JOB_TP_REDUCE, 4, 2},    {8, 4, 1, 4, JOB_TP_SEQUENCE, 4, 2},
        {8, 4, 1, 4, JOB_TP_SHARDS, 1, 8},    {16, 4, 1, 2, JOB_TP_SHARDS, 1, 16},
        {16, 4, 2, 4, JOB_TP_SEQUENCE, 4, 2}, {16, 4, 2, 4, JOB_TP_SHARDS, 1, 8},
        {16, 8, 1, 1, JOB_TP_SEQUENCE, 8, 2}, {8, 4, 1, 1, JOB_TP_SHARDS, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job_spec s;
        struct argus_model *m;

        job_spec_init(&s, rows[i].world);
        s.tp = rows[i].tp;
        s.pp = rows[i].pp;
        s.layers = rows[i].layers;
        s.tp_use = rows[i].use;
        s.steps = 24;
        m = job_model(&s);
        if (m->topology.tp != rows[i].found_tp || m->topology.dp != rows[i].found_dp ||
            m->topology.pp != s.pp)
            fail_msg("row %zu: tp=%d pp=%d dp=%d", i, m->topology.tp, m->topology.pp,
                     m->topology.dp);
        argus_model_destroy(m);
    }
}

static void nobody(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 8, JOB_COPY_BOUND, -1);

    (void)state;
    f->ms = 60;
    job_check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    f->kind = JOB_EXTRA_REDUCE;
    job_check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    f->kind = JOB_ALL_SLOW;
    f->factor = 1.3;
    f->from = 30;
    job_check(&s, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    f = job_one(&s, 2, JOB_SLOW_RANK, 1);
    f->factor = 1.3;
    job_check(&s, ARGUS_VERDICT_SPLIT, -1);
    f->from = 30;
    job_check(&s, ARGUS_VERDICT_COMPUTE_STRAGGLER, 1);
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
    struct job_fault *f = job_one(&s, 8, JOB_SLOW_RANK, 3);
    struct argus_verdict *v;

    (void)state;
    f->factor = 1.4;
    f->from = 20;
    add_health(&s, "gpu_clock_sm_mhz", 3, 20, 1980, 1200);
    add_health(&s, "gpu_throttle_sw_thermal", 3, 20, 0, 1);
    add_health(&s, "gpu_temperature_c", 3, 20, 61, 87);
    add_health(&s, "gpu_xid", 5, 20, NAN, 79); /* of a rank that is not blamed */
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    if (!job_says(v,
                  "clocks of rank 3 on n00 (GPU 3) at 1200 MHz, peers 1980 (SW thermal slowdown, "
                  "87 C)"))
        fail_msg("%s", v->explained[1]);
    assert_false(job_says(v, "XID"));
    argus_verdict_destroy(v);

    /* the same devices in a healthy job: no verdict, not a word */
    s.n_faults = 0;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_OK, -1);
    assert_false(job_says(v, "clocks"));
    argus_verdict_destroy(v);

    /* slow for another reason: the devices are alike */
    s.n_faults = 1;
    s.n_health = 0;
    add_health(&s, "gpu_clock_sm_mhz", 3, 20, 1980, 1978);
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_false(job_says(v, "likely cause"));
    argus_verdict_destroy(v);

    /* everybody's clocks, against their own before */
    f = job_one(&s, 8, JOB_ALL_SLOW, -1);
    f->factor = 1.3;
    f->from = 30;
    for (int r = 0; r < 8; r++)
        add_health(&s, "gpu_clock_sm_mhz", r, 30, 1980, 1500);
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_UNIFORM_SLOWDOWN, -1);
    assert_true(job_says(v, "at 1500 MHz, before 1980"));
    argus_verdict_destroy(v);

    /* a link: of the four that it may be, one has a port with errors */
    f = job_one(&s, 16, JOB_LINK_NIC, 4);
    s.tp = 4;
    s.ranks_per_node = 4;
    f->factor = 5;
    add_health(&s, "nic_symbol_error", 4, 5, 0, 41234);
    add_health(&s, "nic_rate_gbps", 4, 0, 400, 400);
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_SLOW_LINK, -1);
    assert_int_equal(v->link->n_candidates, 4);
    assert_true(job_says(v, "41234 symbol errors of port mlx5_0:1 of n01 in these steps, peers 0"));
    assert_false(job_says(v, "port rate"));
    argus_verdict_destroy(v);
}

/* Is `metric` of the straggler named, of which a row came `late` seconds after the job's end? */
static int told_late(const char *metric, double value, double late, int to)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 8, JOB_SLOW_RANK, 3);
    struct argus_verdict *v;
    int told;

    f->factor = 1.4;
    f->from = 15;
    f->to = to;
    add_health(&s, metric, 3, (to ? to : s.steps) - 1, strcmp(metric, "gpu_xid") ? 0 : NAN, value);
    add_health(&s, "gpu_temperature_c", 3, 0, 60, 60);
    s.health[0].late = late;
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    told = job_says(v, "likely cause");
    argus_verdict_destroy(v);
    return told;
}

/* The last sample is taken when the job is over: what was counted to its end is in no other. */
static void errors_of_the_end(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 8, JOB_SLOW_RANK, 3);
    struct argus_verdict *v;

    (void)state;
    assert_true(told_late("gpu_ecc_uncorrected", 2, 5, 0));
    assert_true(told_late("gpu_xid", 79, 5, 0));
    assert_false(told_late("gpu_ecc_uncorrected", 2, 60, 0));
    assert_false(
        told_late("gpu_ecc_uncorrected", 2, 5, 45)); /* the job went on without the fault */
    assert_false(told_late("gpu_throttle_sw_thermal", 1, 5, 0)); /* of a GPU without work */
    assert_false(told_late("gpu_xid", 45, 5, 0));                /* because the process died */

    f->factor = 1.4;
    f->from = 15;
    for (int r = 0; r < 8; r++) {
        add_health(&s, "gpu_xid", r, s.steps - 1, NAN, 31);
        s.health[r].late = 2;
    }
    v = job_verdict(&s);
    job_expect(v, ARGUS_VERDICT_COMPUTE_STRAGGLER, 3);
    assert_false(job_says(v, "XID")); /* of all ranks */
    argus_verdict_destroy(v);
}

static void two_faults(void **state)
{
    struct job_spec s;
    struct job_fault *f = job_one(&s, 8, JOB_SLOW_RANK, 3);
    struct argus_verdict *v;

    (void)state;
    f->factor = 1.5;
    f = job_spec_fault(&s, JOB_HOST_STALL);
    f->rank = 6;
    f->ms = 60;
    f->every = 6;
    v = job_verdict(&s);
    assert_int_equal(v->kind, ARGUS_VERDICT_COMPUTE_STRAGGLER);
    assert_int_equal(v->culprits[0].rank, 3);
    assert_int_equal(v->n_findings, 1);
    assert_int_equal(v->findings[0].kind, ARGUS_VERDICT_HOST_STALL);
    assert_int_equal(v->findings[0].culprits[0].rank, 6);
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
            v = job_verdict(&s);
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
        cmocka_unit_test(named_causes),
        cmocka_unit_test(errors_of_the_end),
        cmocka_unit_test(shards_of_weights),
        cmocka_unit_test(nobody),
        cmocka_unit_test(kinds_without_names),
        cmocka_unit_test(two_faults),
    };

    return cmocka_run_group_tests_name("detect", tests, job_setup, job_teardown);
}
