/* SPDX-License-Identifier: Apache-2.0 */
/* Symptoms and ready advice: who waits where, and what to do next. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/stats/stats.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"

static const char *const functions[ARGUS_FUNC_COUNT] = {
    "call",    "all_reduce",   "all_gather", "reduce_scatter", "broadcast",
    "reduce",  "all_to_all",   "gather",     "scatter",        "receive",
    "receive", "send_receive", "barrier",    "group",          "collective"};

/* The collective in which a rank waits most, ns a step. */
static double worst_wait(const struct argus_model *m, size_t i, int *comm_class)
{
    const struct argus_model_rank *r = &m->ranks[i];
    double most = 0;

    *comm_class = -1;
    for (size_t c = 0; c < r->n_comms; c++) {
        const struct argus_rank_comm *x = &r->comms[c];
        const struct argus_comm_class *cc = &m->comm_classes[x->comm_class];
        double sum = 0;
        int n = 0;

        for (int k = 0; k < m->n_steps; k++) {
            double d = (double)argus_rank_value(r, x->sum, k);
            int row = argus_rank_row(r, k);

            if (!m->use[k] || isnan(d) || isnan(cc->work[k]) || row < 0)
                continue;
            d -= (double)(x->count ? x->count[row] : x->usual_count) * (double)cc->work[k];
            sum += d > 0 ? d : 0;
            n++;
        }
        if (n && sum / n > most) {
            most = sum / n;
            *comm_class = x->comm_class;
        }
    }
    return most;
}

struct bucket {
    enum argus_group_kind kind;
    uint8_t func;
    size_t n;
    double sum;
};

static int bucket_cmp(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;

    return x->sum > y->sum ? -1 : x->sum < y->sum;
}

static int blamed(const struct argus_evidence *e, size_t i)
{
    for (size_t j = 0; e && j < e->n_ranks; j++)
        if (e->ranks[j] == (int)i)
            return 1;
    return 0;
}

int argus_explain(const struct argus_model *m, const struct argus_evidence *e,
                  struct argus_verdict *v)
{
    struct bucket buckets[ARGUS_GROUP_KINDS * ARGUS_FUNC_COUNT];
    double step = argus_typical_step(m);
    size_t n = 0;

    memset(buckets, 0, sizeof(buckets));
    for (size_t i = 0; i < m->n_ranks; i++) {
        double wait;
        int c;

        if (blamed(e, i))
            continue;
        wait = worst_wait(m, i, &c);
        if (c < 0 || wait < 0.02 * step || m->comm_classes[c].func >= ARGUS_FUNC_COUNT)
            continue;
        n = (size_t)m->groups[m->comm_classes[c].group].kind * ARGUS_FUNC_COUNT +
            m->comm_classes[c].func;
        buckets[n].kind = m->groups[m->comm_classes[c].group].kind;
        buckets[n].func = m->comm_classes[c].func;
        buckets[n].n++;
        buckets[n].sum += wait;
    }
    qsort(buckets, sizeof(buckets) / sizeof(buckets[0]), sizeof(buckets[0]), bucket_cmp);
    for (size_t i = 0; e && i < 6 && buckets[i].n; i++)
        if (argus_verdict_add_explained(
                v, "%zu rank%s wait%s %.1f ms a step, most of it in %s %s", buckets[i].n,
                buckets[i].n == 1 ? "" : "s", buckets[i].n == 1 ? "s" : "",
                buckets[i].sum / (double)buckets[i].n / 1e6, functions[buckets[i].func],
                argus_group_kind_name(buckets[i].kind)))
            return -1;
    for (size_t j = 0; e && e->n_hit < m->n_ranks && j < e->n_ranks && j < 4; j++) {
        const struct argus_model_rank *r = &m->ranks[e->ranks[j]];
        double own = argus_model_rank_median(m, (size_t)e->ranks[j], ARGUS_COL_WAIT);

        if (e->whole_nodes || e->kind == ARGUS_VERDICT_SPLIT || e->kind == ARGUS_VERDICT_SLOW_LINK)
            break;
        if (argus_verdict_add_explained(
                v, "rank %d waits %.1f ms a step: it arrives last, so its collectives look short",
                r->rank, own / 1e6))
            return -1;
    }
    return 0;
}

int argus_advise(const struct argus_model *m, const struct argus_evidence *e,
                 struct argus_verdict *v)
{
    const char *node = e->n_ranks ? m->nodes[m->ranks[e->ranks[0]].node] : NULL;
    const char *job = m->job && *m->job ? m->job : "unknown";

    switch (e->kind) {
    case ARGUS_VERDICT_COMPUTE_STRAGGLER:
    case ARGUS_VERDICT_SLOW_LINK:
        if (!node || !*node || v->severity < ARGUS_SEVERITY_WARN)
            return 0;
        return argus_verdict_add_next(
            v, "scontrol update nodename=%s state=drain reason=\"argus: %s, job %s\"", node,
            e->kind == ARGUS_VERDICT_SLOW_LINK ? "slow link" : "compute straggler", job);
    case ARGUS_VERDICT_HOST_STALL:
        return argus_verdict_add_next(
            v, "look at what the host does there: garbage collection, logging, CPU binding "
               "(srun --cpu-bind), storage");
    case ARGUS_VERDICT_DATA_STALL:
        return argus_verdict_add_next(v,
                                      "look at the data loader: workers, prefetch, storage of %s",
                                      node ? node : "the job");
    case ARGUS_VERDICT_JIT_STALL:
        return argus_verdict_add_next(
            v, "compile before the first step or share the kernel cache between ranks");
    case ARGUS_VERDICT_ALLOCATOR_STALL:
        return argus_verdict_add_next(v, "memory is short: smaller batches, expandable segments, "
                                         "fewer shapes");
    case ARGUS_VERDICT_PIPELINE_IMBALANCE:
        return argus_verdict_add_next(v, "move layers away from stage %d", e->stage);
    case ARGUS_VERDICT_WORKLOAD_IMBALANCE:
    case ARGUS_VERDICT_MOE_IMBALANCE:
        return argus_verdict_add_next(v,
                                      "balance the work: tokens a batch, buckets of like length, "
                                      "expert capacity");
    default:
        return 0;
    }
}
