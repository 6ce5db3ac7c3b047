/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/test_model.h"
#include "analyzer/stats/test_series.h"
#include "analyzer/verdict/build.h"

#define PER_NODE 8
#define WINDOW 16
#define KERNELS 6
#define STEP_NS 50e6
#define COMPUTE_NS 30e6
#define TRANSFER_NS 4e6

static const char *const kernel_names[KERNELS] = {
    "ampere_bf16_s16816gemm_128x256_tn", "flash_fwd_kernel",  "flash_bwd_kernel",
    "vectorized_elementwise_kernel",     "layer_norm_kernel", "multi_tensor_adam_kernel"};
static const double kernel_ns[KERNELS] = {420e3, 310e3, 640e3, 45e3, 38e3, 90e3};

static void *zeros(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    if (!p)
        abort();
    return p;
}

static float *series(int n)
{
    return zeros((size_t)n, sizeof(float));
}

int test_case_from_name(const char *name)
{
    static const char *const names[TEST_CASES] = {"healthy", "straggler", "link", "pipeline",
                                                  "stall"};

    for (int i = 0; i < TEST_CASES; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

static int culprit_of(const struct argus_model *m)
{
    return (int)m->n_ranks * 5 / 8;
}

static int onset_of(const struct argus_model *m)
{
    return m->n_steps / 3;
}

static double compute_factor(enum test_case kind, const struct argus_model *m, int r, int k)
{
    if (kind == TEST_STRAGGLER && r == culprit_of(m) && k >= onset_of(m))
        return 1.3;
    if (kind == TEST_PIPELINE && m->ranks[r].pp == m->topology.pp - 1)
        return 1.4;
    return 1;
}

/* Ranks arrive when their compute is done; the collective ends a transfer after the last one. */
static void fill_step(struct argus_model *m, enum test_case kind, int k, double *local,
                      struct test_random *random)
{
    double last = 0, transfer = TRANSFER_NS * (1 + 0.01 * test_normal(random));

    if (kind == TEST_LINK)
        transfer *= 3;
    for (size_t r = 0; r < m->n_ranks; r++) {
        double stall = kind == TEST_STALL && r == 0 && k % 10 == 9 ? 20e6 : 0;
        double compute =
            COMPUTE_NS * (1 + 0.008 * test_normal(random)) * compute_factor(kind, m, (int)r, k);

        m->ranks[r].col[ARGUS_COL_COMPUTE][k] = (float)compute;
        m->ranks[r].col[ARGUS_COL_IDLE][k] = (float)(STEP_NS / 20 + stall);
        m->ranks[r].col[ARGUS_COL_GAP][k] = (float)(1e6 + stall);
        local[r] = compute + STEP_NS / 20 + stall;
        last = fmax(last, local[r]);
    }
    for (size_t r = 0; r < m->n_ranks; r++) {
        struct argus_model_rank *rank = &m->ranks[r];

        rank->col[ARGUS_COL_DURATION][k] = (float)(last + transfer);
        rank->col[ARGUS_COL_WAIT][k] = (float)(last - local[r]);
        rank->col[ARGUS_COL_COMM][k] = (float)(last - local[r] + transfer);
        rank->col[ARGUS_COL_EXPOSED][k] = rank->col[ARGUS_COL_COMM][k];
        rank->col[ARGUS_COL_LOCAL][k] = (float)(local[r] + transfer);
        rank->start[k] = 1700000000000000000LL + (int64_t)k * (int64_t)STEP_NS;
    }
}

static void fill_classes(struct argus_model *m, enum test_case kind, struct test_random *random)
{
    m->n_kernel_classes = KERNELS;
    m->kernel_classes = zeros(KERNELS, sizeof(*m->kernel_classes));
    for (int c = 0; c < KERNELS; c++) {
        m->kernel_classes[c].name = kernel_names[c];
        m->kernel_classes[c].kind = ARGUS_CLASS_COMPUTE;
        m->kernel_classes[c].grid[0] = 108;
        m->kernel_classes[c].grid[1] = m->kernel_classes[c].grid[2] = 1;
        m->kernel_classes[c].block[0] = 256;
        m->kernel_classes[c].block[1] = m->kernel_classes[c].block[2] = 1;
        m->kernel_classes[c].ranks = m->n_ranks;
    }
    for (size_t r = 0; r < m->n_ranks; r++) {
        struct argus_model_rank *rank = &m->ranks[r];

        rank->n_classes = KERNELS;
        rank->n_windows = m->n_windows;
        rank->classes = zeros(KERNELS, sizeof(*rank->classes));
        for (int c = 0; c < KERNELS; c++) {
            struct argus_rank_class *rc = &rank->classes[c];

            rc->kernel_class = c;
            rc->typical = series(m->n_windows);
            rc->p99 = series(m->n_windows);
            rc->sum = series(m->n_windows);
            rc->count = series(m->n_windows);
            rc->modes = zeros((size_t)m->n_windows, 1);
            for (int w = 0; w < m->n_windows; w++) {
                double x = kernel_ns[c] * (1 + 0.01 * test_normal(random)) *
                           compute_factor(kind, m, (int)r, w * WINDOW);

                rc->typical[w] = (float)x;
                rc->p99[w] = (float)(1.12 * x);
                rc->count[w] = 40 * WINDOW;
                rc->sum[w] = (float)(x * 40 * WINDOW);
                rc->modes[w] = 1;
            }
        }
    }
}

static void fill_groups(struct argus_model *m, enum test_case kind, struct test_random *random)
{
    int pp = m->topology.pp, dp = (int)m->n_ranks / pp;

    /* One data-parallel group a stage and a pair group between the first ranks of neighbouring stages. */
    m->n_groups = (size_t)pp;
    m->groups = zeros(m->n_groups, sizeof(*m->groups));
    m->n_comm_classes = m->n_groups;
    m->comm_classes = zeros(m->n_comm_classes, sizeof(*m->comm_classes));
    for (int g = 0; g < pp; g++) {
        struct argus_group *group = &m->groups[g];
        struct argus_comm_class *cc = &m->comm_classes[g];
        char name[32];

        snprintf(name, sizeof(name), "dp_%d", g);
        group->name = strdup(name);
        group->hash = (uint64_t)g + 1;
        group->kind = ARGUS_GROUP_DP;
        group->size = (uint32_t)dp;
        group->present = (size_t)dp;
        group->members = zeros((size_t)dp, sizeof(int));
        for (int i = 0; i < dp; i++)
            group->members[i] = g * dp + i;
        group->per_step = 4;
        group->bytes = 4.0 * (64 << 20);
        group->index = g;
        group->nodes = (dp + PER_NODE - 1) / PER_NODE;
        cc->group = g;
        cc->func = 1; /* all-reduce */
        cc->from = cc->to = -1;
        cc->matched = 1;
        cc->expects = (size_t)dp;
        cc->bytes = 64 << 20;
        cc->count = 4;
        cc->ranks = (size_t)dp;
        cc->work = series(m->n_steps);
        cc->spread = series(m->n_steps);
        for (int k = 0; k < m->n_steps; k++) {
            double slow = kind == TEST_LINK && g == 0 ? 3 : 1;

            cc->work[k] = (float)(1e6 * slow * (1 + 0.02 * test_normal(random)));
            cc->spread[k] = (float)(2e5 * (1 + 0.1 * test_normal(random)));
        }
    }
}

struct argus_model *test_model_create(enum test_case kind, int n_ranks, int n_steps, int pp)
{
    struct argus_model *m = zeros(1, sizeof(*m));
    struct test_random random = {(uint64_t)kind + 1};
    double *local = zeros((size_t)n_ranks, sizeof(*local));

    m->dir = strdup("/shared/argus/ann/4711/step-0");
    m->job = strdup("4711");
    m->step = strdup("0");
    m->source = strdup("argus");
    m->world = n_ranks;
    m->simulated = 1;
    m->n_ranks = (size_t)n_ranks;
    m->n_steps = n_steps;
    m->n_nodes = (size_t)(n_ranks + PER_NODE - 1) / PER_NODE;
    m->nodes = zeros(m->n_nodes, sizeof(*m->nodes));
    for (size_t i = 0; i < m->n_nodes; i++) {
        char name[32];

        snprintf(name, sizeof(name), "n%02zu", i + 1);
        m->nodes[i] = strdup(name);
    }
    m->use = zeros((size_t)n_steps, 1);
    for (int k = 3; k < n_steps; k++)
        m->use[k] = 1;
    m->n_used = n_steps - 3;
    m->cluster_steps = WINDOW;
    m->n_windows = (n_steps + WINDOW - 1) / WINDOW;
    m->topology = (struct argus_topology){1, pp, n_ranks / pp, 1, "inferred"};
    m->ranks = zeros(m->n_ranks, sizeof(*m->ranks));
    m->n_peer_sets = (size_t)pp;
    m->peer_sets = zeros(m->n_peer_sets, sizeof(*m->peer_sets));
    for (int s = 0; s < pp; s++) {
        m->peer_sets[s].stage = s;
        m->peer_sets[s].ranks = zeros((size_t)n_ranks, sizeof(int));
    }
    for (int r = 0; r < n_ranks; r++) {
        struct argus_model_rank *rank = &m->ranks[r];
        int stage = (int)((long)r * pp / n_ranks);

        rank->rank = r;
        rank->node = r / PER_NODE;
        rank->local_rank = r % PER_NODE;
        rank->pp = stage;
        rank->peers = stage;
        m->peer_sets[stage].ranks[m->peer_sets[stage].n++] = r;
        rank->n_rows = n_steps;
        rank->sealed = 1;
        rank->start = zeros((size_t)n_steps, sizeof(*rank->start));
        rank->flags = zeros((size_t)n_steps, sizeof(*rank->flags));
        for (int c = 0; c < ARGUS_COL_COUNT; c++)
            rank->col[c] = series(n_steps);
    }
    for (int k = 0; k < n_steps; k++)
        fill_step(m, kind, k, local, &random);
    fill_classes(m, kind, &random);
    fill_groups(m, kind, &random);
    free(local);
    return m;
}

void test_model_destroy(struct argus_model *m)
{
    for (size_t r = 0; r < m->n_ranks; r++) {
        struct argus_model_rank *rank = &m->ranks[r];

        for (size_t c = 0; c < rank->n_classes; c++) {
            free(rank->classes[c].typical);
            free(rank->classes[c].p99);
            free(rank->classes[c].sum);
            free(rank->classes[c].count);
            free(rank->classes[c].modes);
        }
        free(rank->classes);
        for (int c = 0; c < ARGUS_COL_COUNT; c++)
            free(rank->col[c]);
        free(rank->start);
        free(rank->flags);
        free(rank->path);
    }
    for (size_t i = 0; i < m->n_nodes; i++)
        free(m->nodes[i]);
    for (size_t i = 0; i < m->n_groups; i++) {
        free(m->groups[i].name);
        free(m->groups[i].members);
        free(m->comm_classes[i].work);
        free(m->comm_classes[i].spread);
    }
    for (size_t i = 0; i < m->n_peer_sets; i++)
        free(m->peer_sets[i].ranks);
    free(m->groups);
    free(m->comm_classes);
    free(m->peer_sets);
    free(m->kernel_classes);
    free(m->nodes);
    free(m->ranks);
    free(m->use);
    free(m->dir);
    free(m->job);
    free(m->step);
    free(m->source);
    free(m);
}

static void blame(struct argus_verdict *v, const struct argus_model *m, int r)
{
    argus_verdict_add_culprit(v, m->ranks[r].rank, m->ranks[r].local_rank,
                              m->nodes[m->ranks[r].node], "GPU-0a1b2c3d");
}

static void straggler_verdict(struct argus_verdict *v, const struct argus_model *m)
{
    int r = culprit_of(m);

    v->kind = ARGUS_VERDICT_COMPUTE_STRAGGLER;
    v->severity = ARGUS_SEVERITY_CRITICAL;
    v->onset_step = onset_of(m);
    v->slowdown = 1.24;
    argus_verdict_set(&v->subkind, "clock");
    argus_verdict_set(&v->pattern, "persistent");
    blame(v, m, r);
    argus_verdict_add_evidence(v, "compute_score", r, m->nodes[m->ranks[r].node], 0.77, 1.0,
                               "ratio", "6 of 6 kernel classes agree");
    argus_verdict_add_evidence(v, "wait_share", r, m->nodes[m->ranks[r].node], 0.002, 0.19,
                               "of step", NULL);
    argus_verdict_add_explained(v,
                                "rank %d waits for nobody; %zu ranks wait 9.1 ms a step in the "
                                "all-reduce of dp_0",
                                r, m->n_ranks - 1);
    argus_verdict_add_next(v,
                           "scontrol update nodename=%s state=drain reason=\"argus: compute "
                           "straggler, job 4711\"",
                           m->nodes[m->ranks[r].node]);
    argus_verdict_add_next(v, "Compare nvidia-smi -q -d CLOCK,PERFORMANCE of that GPU with its "
                              "neighbours before it leaves the node.");
}

struct argus_verdict *test_verdict_create(enum test_case kind, const struct argus_model *m)
{
    struct argus_verdict *v = argus_verdict_create();
    struct argus_link *l;

    if (!v)
        abort();
    v->confidence = 0.97;
    argus_verdict_set(&v->job.id, "4711");
    argus_verdict_set(&v->job.step, "0");
    v->job.ranks = v->job.gpus = (int)m->n_ranks;
    v->job.nodes = (int)m->n_nodes;
    v->job.steps = m->n_steps;
    v->job.step_ms_p50 = 37.2;
    v->job.gpu_hours = 190;
    v->job.simulated = m->simulated;
    v->topology.tp = m->topology.tp;
    v->topology.pp = m->topology.pp;
    v->topology.dp = m->topology.dp;
    v->topology.ep = 1;
    argus_verdict_set(&v->topology.source, "inferred");
    v->data_quality.steps_compared = m->n_used;
    argus_verdict_add_note(v, "nvtx stood down on 2 ranks: the user had set NVTX_INJECTION64_PATH");
    switch (kind) {
    case TEST_STRAGGLER:
        straggler_verdict(v, m);
        break;
    case TEST_LINK:
        v->kind = ARGUS_VERDICT_SLOW_LINK;
        v->severity = ARGUS_SEVERITY_WARN;
        v->onset_step = 0;
        v->slowdown = 1.16;
        l = argus_verdict_set_link(v, "nic");
        argus_verdict_set(&l->node, m->nodes[m->n_nodes > 1 ? 1 : 0]);
        argus_verdict_set(&l->communicator, "dp_0");
        l->factor = 3;
        argus_verdict_add_evidence(v, "work_ratio", ARGUS_UNKNOWN, l->node, 3.0, 1.0, "ratio",
                                   "all-reduce 64 MiB of dp_0 against dp_1");
        break;
    case TEST_PIPELINE:
        v->kind = ARGUS_VERDICT_PIPELINE_IMBALANCE;
        v->severity = ARGUS_SEVERITY_WARN;
        v->stage = m->topology.pp - 1;
        v->onset_step = 0;
        v->slowdown = 1.22;
        break;
    case TEST_STALL:
        v->kind = ARGUS_VERDICT_HOST_STALL;
        v->severity = ARGUS_SEVERITY_INFO;
        v->slowdown = 1.05;
        v->onset_step = 0;
        argus_verdict_set(&v->pattern, "periodic");
        blame(v, m, 0);
        break;
    default:
        v->kind = ARGUS_VERDICT_OK;
    }
    if (v->kind != ARGUS_VERDICT_OK) {
        v->share = 1 - 1 / v->slowdown;
        v->gpu_hours = v->job.gpu_hours * v->share;
    }
    return v;
}
