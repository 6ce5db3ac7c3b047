/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <argus/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/stats.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/whatif.h"

#define MIN_CONFIDENCE 0.5
#define SYMPTOM 1.01  /* slow-down below which something is no fault of its own */
#define EXPLAINED 0.5 /* a slow-down of the job of which this much has a cause is not news */

struct fault {
    const struct argus_evidence *e;
    struct argus_cost cost;
    double confidence;
    enum argus_severity severity;
};

struct bench {
    const struct argus_model *m;
    const struct argus_evidence_list *list;
    struct fault *faults;
    size_t n;
    double quality;
    const char *missing; /* the signal that the data lack most */
};

/* ---- data quality ------------------------------------------------------- */

/* 0..1 and, where it is low, what is missing. */
static double data_quality(const struct argus_model *m, const char **missing)
{
    double q = 1, records = 0, lost = (double)(m->dropped + m->invalid + m->torn), factor;
    int no_kernels = 1, no_comm = m->n_comm_classes == 0;

    *missing = NULL;
    for (size_t i = 0; i < m->n_ranks; i++) {
        records += (double)m->ranks[i].counters.records;
        no_kernels &= m->ranks[i].n_classes == 0 && !m->ranks[i].col[ARGUS_COL_COMPUTE];
    }
    if (lost > 0 && records + lost > 0) {
        factor = 1 - 4 * lost / (records + lost);
        factor = factor > 0.1 ? factor : 0.1;
        if (factor < 0.6)
            *missing = "records";
        q *= factor;
    }
    if (m->n_ranks_missing) {
        factor = 1 - 0.5 * (double)m->n_ranks_missing / m->world;
        if (factor < 0.8 && !*missing)
            *missing = "ranks";
        q *= factor;
    }
    if (no_kernels) {
        q *= 0.3;
        *missing = "kernels";
    } else if (no_comm && m->n_ranks > 1) {
        q *= 0.8;
        if (!*missing)
            *missing = "collectives";
    }
    if (m->n_used < 2 * m->keys.min_steps)
        q *= 0.85 + 0.15 * (m->n_used - m->keys.min_steps) / (double)m->keys.min_steps;
    return q;
}

static double confidence_of(const struct bench *b, const struct fault *f)
{
    double effect = 1 - 0.4 * exp(-(f->cost.slowdown - 1) / 0.03);

    return 0.99 * b->quality * effect * (0.5 + 0.5 * f->e->persistence) *
           (0.6 + 0.4 * f->e->agreement);
}

static enum argus_severity severity_of(const struct argus_model *m, const struct fault *f)
{
    const struct argus_model_keys *k = &m->keys;
    double s = f->cost.slowdown;

    if (s < k->info || f->cost.loss < k->floor_ms * 1e6)
        return ARGUS_SEVERITY_NONE;
    /* behind another fault: repairing it alone would bring nothing */
    if (f->e->kind != ARGUS_VERDICT_COMPUTE_STRAGGLER && f->cost.alone < SYMPTOM)
        return ARGUS_SEVERITY_NONE;
    if (f->e->informative)
        return f->e->informative == 1 ? ARGUS_SEVERITY_INFO : ARGUS_SEVERITY_NONE;
    return s >= k->critical ? ARGUS_SEVERITY_CRITICAL
           : s >= k->warn   ? ARGUS_SEVERITY_WARN
                            : ARGUS_SEVERITY_INFO;
}

/* ---- pricing ------------------------------------------------------------ */

static int is_regression(const struct argus_evidence *e)
{
    return e->kind == ARGUS_VERDICT_UNIFORM_SLOWDOWN && !e->informative;
}

/* Where tokens pile up on an expert its all-to-all takes longer for them: no link is slow. */
static int follows_tokens(const struct bench *b, const struct argus_evidence *e)
{
    int moe = 0;

    if (e->kind != ARGUS_VERDICT_SLOW_LINK || !e->n_comm_classes)
        return 0;
    for (size_t i = 0; i < b->list->n; i++)
        moe |= b->list->items[i].kind == ARGUS_VERDICT_MOE_IMBALANCE;
    for (size_t i = 0; i < e->n_comm_classes && moe; i++) {
        const struct argus_comm_class *c = &b->m->comm_classes[e->comm_classes[i]];

        moe = c->func == ARGUS_FUNC_ALLTOALL || (c->func == ARGUS_FUNC_SENDRECV && c->from < 0);
    }
    return moe;
}

static int has(const int *ranks, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        if (ranks[i] == rank)
            return 1;
    return 0;
}

/* Sides that are shards of experts of which one has more to do: that is the load, not the GPUs. */
static int follows_shards(const struct bench *b, const struct argus_evidence *e)
{
    const struct argus_model *m = b->m;
    int moe = 0;

    if (e->kind != ARGUS_VERDICT_SPLIT || e->outside)
        return 0;
    for (size_t i = 0; i < b->list->n; i++)
        moe |= b->list->items[i].kind == ARGUS_VERDICT_MOE_IMBALANCE;
    for (size_t i = 0; i < e->n_ranks && moe; i++) {
        const struct argus_model_rank *slow = &m->ranks[e->ranks[i]];

        moe = slow->shard >= 0;
        for (size_t j = 0; j < m->n_ranks && moe; j++)
            moe = m->ranks[j].peers != slow->peers || m->ranks[j].shard != slow->shard ||
                  has(e->ranks, e->n_ranks, (int)j);
    }
    return moe;
}

static int price(struct bench *b, int (*want)(const struct argus_evidence *))
{
    const struct argus_evidence **e = calloc(b->list->n + 1, sizeof(*e));
    struct argus_cost *costs = calloc(b->list->n + 1, sizeof(*costs));
    size_t n = 0;
    int rc = e && costs ? 0 : -1;

    for (size_t i = 0; i < b->list->n && !rc; i++)
        if (want(&b->list->items[i]) && !follows_tokens(b, &b->list->items[i]) &&
            !follows_shards(b, &b->list->items[i]))
            e[n++] = &b->list->items[i];
    if (!rc)
        rc = argus_whatif_price(b->m, e, n, costs);
    for (size_t i = 0; i < n && !rc; i++)
        b->faults[b->n++] = (struct fault){.e = e[i], .cost = costs[i]};
    free(e);
    free(costs);
    return rc;
}

static int is_fault(const struct argus_evidence *e)
{
    return !e->informative && !is_regression(e);
}

static int is_informative(const struct argus_evidence *e)
{
    return e->informative;
}

/* Share of a regression's excess that the named faults account for in the same steps. */
static double accounted(const struct bench *b, const struct argus_evidence *regression)
{
    const struct argus_evidence **e = calloc(b->n + 1, sizeof(*e));
    const struct argus_cost **costs = calloc(b->n + 1, sizeof(*costs));
    double *gain = calloc((size_t)b->m->n_steps + 1, sizeof(*gain)), sum = 0, all = 0;

    for (size_t i = 0; e && costs && i < b->n; i++) {
        e[i] = b->faults[i].e;
        costs[i] = &b->faults[i].cost;
    }
    if (e && costs && gain && !argus_whatif_gain(b->m, e, b->n, costs, gain))
        for (int k = 0; k < b->m->n_steps; k++) {
            double x = regression->n_hit ? (double)regression->excess[k] : 0;

            all += x;
            sum += fmin(gain[k], x);
        }
    free(e);
    free(costs);
    free(gain);
    return all > 0 ? sum / all : 1;
}

/* A regression priced by itself: before against after. */
static void add_regressions(struct bench *b)
{
    size_t named = b->n;

    for (size_t i = 0; i < b->list->n; i++) {
        const struct argus_evidence *e = &b->list->items[i];
        struct fault f = {.e = e};
        double part;

        if (!is_regression(e))
            continue;
        part = named ? accounted(b, e) : 0;
        if (part >= EXPLAINED)
            continue;
        if (argus_whatif_price(b->m, &e, 1, &f.cost))
            continue;
        f.cost.loss *= 1 - part;
        f.cost.share *= 1 - part;
        f.cost.slowdown = 1 + (f.cost.slowdown - 1) * (1 - part);
        b->faults[b->n++] = f;
    }
}

/* Costliest first; at like cost compute outranks communication. */
static int fault_cmp(const void *a, const void *b)
{
    const struct fault *x = a, *y = b;
    double cx = x->cost.share, cy = y->cost.share;

    if (x->e->informative != y->e->informative)
        return x->e->informative ? 1 : -1;
    if (x->e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER && y->e->kind == ARGUS_VERDICT_SLOW_LINK)
        cx *= 1.5;
    if (y->e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER && x->e->kind == ARGUS_VERDICT_SLOW_LINK)
        cy *= 1.5;
    return cx > cy ? -1 : cx < cy;
}

/* ---- filling in --------------------------------------------------------- */

static double gpu_hours(const struct argus_model *m)
{
    double ns = 0;
    size_t with = 0;

    for (size_t i = 0; i < m->n_ranks; i++) {
        const struct argus_model_rank *r = &m->ranks[i];
        double sum = 0;

        for (int row = 0; row < r->n_rows; row++)
            if (r->start[row] && r->col[ARGUS_COL_DURATION])
                sum += (double)r->col[ARGUS_COL_DURATION][row];
        ns += sum;
        with += sum > 0;
    }
    return with ? ns / (double)with * (m->world > 0 ? m->world : 1) / 3.6e12 : 0;
}

static int add_culprits(const struct argus_model *m, const struct argus_evidence *e,
                        struct argus_verdict *v, struct argus_finding *f)
{
    int last_node = -1;

    if (e->kind == ARGUS_VERDICT_SPLIT) /* both sides are named in the text, nobody is blamed */
        return 0;
    for (size_t i = 0; i < e->n_ranks; i++) {
        const struct argus_model_rank *r = &m->ranks[e->ranks[i]];
        const char *gpu = r->info.gpu_uuid[0] && !e->whole_nodes ? r->info.gpu_uuid : NULL;
        int rank = e->whole_nodes ? ARGUS_UNKNOWN : r->rank;
        int local = e->whole_nodes ? ARGUS_UNKNOWN : r->local_rank;

        if (e->whole_nodes && r->node == last_node)
            continue;
        last_node = r->node;
        if (v ? !argus_verdict_add_culprit(v, rank, local, m->nodes[r->node], gpu)
              : !argus_finding_add_culprit(f, rank, local, m->nodes[r->node], gpu))
            return -1;
    }
    return 0;
}

static int copy_link(const struct argus_link *from, struct argus_verdict *v)
{
    struct argus_link *l;

    if (!from)
        return 0;
    if (!(l = argus_verdict_set_link(v, from->scope)))
        return -1;
    l->rank = from->rank;
    l->peer = from->peer;
    l->factor = from->factor;
    for (size_t i = 0; i < from->n_candidates; i++)
        if (argus_link_add_candidate(l, from->candidates[i]))
            return -1;
    return argus_verdict_set(&l->node, from->node) ||
                   argus_verdict_set(&l->peer_node, from->peer_node) ||
                   argus_verdict_set(&l->communicator, from->communicator)
               ? -1
               : 0;
}

static int add_lines(const struct argus_evidence *e, struct argus_verdict *v)
{
    for (size_t i = 0; i < e->n_lines; i++) {
        const struct argus_evidence_line *l = &e->lines[i];

        if (!argus_verdict_add_evidence(v, l->signal, l->rank, l->node, l->value, l->peers, l->unit,
                                        l->note))
            return -1;
    }
    return 0;
}

static int set_primary(const struct bench *b, const struct fault *f, double hours,
                       struct argus_verdict *v)
{
    const struct argus_evidence *e = f->e;

    v->kind = e->kind;
    v->severity = f->severity;
    v->confidence = f->confidence;
    v->stage = e->stage;
    v->onset_step = e->onset;
    v->recovered_step = e->recovered;
    v->slowdown = f->cost.slowdown;
    v->share = f->cost.share;
    v->gpu_hours = hours * f->cost.share;
    if (argus_verdict_set(&v->phase, e->phase) || argus_verdict_set(&v->pattern, e->pattern) ||
        argus_verdict_set(&v->subkind, e->subkind) || add_culprits(b->m, e, v, NULL) ||
        copy_link(e->link, v) || (e->text && argus_verdict_add_explained(v, "%s", e->text)))
        return -1;
    return argus_cause(b->m, e, v) || argus_explain(b->m, e, v) || argus_advise(b->m, e, v) ? -1
                                                                                            : 0;
}

static int add_finding(const struct bench *b, const struct fault *f, double hours,
                       struct argus_verdict *v)
{
    struct argus_finding *g = argus_verdict_add_finding(v, f->e->kind, f->severity);

    if (!g)
        return -1;
    g->onset_step = f->e->onset;
    g->slowdown = f->cost.slowdown;
    g->gpu_hours = hours * f->cost.share;
    return argus_verdict_set(&g->pattern, f->e->pattern) ||
                   argus_verdict_set(&g->subkind, f->e->subkind) ||
                   argus_verdict_set(&g->text, f->e->text) || add_culprits(b->m, f->e, NULL, g)
               ? -1
               : 0;
}

/* Without cost of its own beside a fault: what that fault looks like from elsewhere.  A slow GPU that
 * nobody waits for stays a finding. */
static int is_symptom(const struct fault *f, const struct fault *first)
{
    return first && f->severity == ARGUS_SEVERITY_NONE &&
           (f->cost.slowdown < SYMPTOM || f->cost.alone < SYMPTOM) &&
           f->e->kind != ARGUS_VERDICT_COMPUTE_STRAGGLER && !f->e->informative;
}

static int add_symptom(const struct fault *f, struct argus_verdict *v)
{
    return f->e->text ? argus_verdict_add_explained(
                            v, "%s; taken away, the step would not be shorter", f->e->text)
                      : 0;
}

static int fill_job(const struct argus_model *m, double hours, struct argus_verdict *v)
{
    double step = argus_typical_step(m);
    int rc = argus_verdict_set(&v->job.id, m->job) | argus_verdict_set(&v->job.step, m->step) |
             argus_verdict_set(&v->topology.source, m->topology.source);

    v->job.ranks = m->world;
    v->job.gpus = m->world;
    v->job.nodes = (int)m->n_nodes;
    v->job.steps = m->n_steps;
    v->job.step_ms_p50 = step / 1e6;
    v->job.gpu_hours = hours;
    v->job.simulated = m->simulated;
    if (strcmp(m->topology.source, "unknown")) {
        v->topology.tp = m->topology.tp;
        v->topology.pp = m->topology.pp;
        v->topology.dp = m->topology.dp;
        v->topology.ep = m->topology.ep;
    }
    v->data_quality.dropped = m->dropped;
    v->data_quality.invalid = m->invalid;
    v->data_quality.gaps = m->gaps;
    v->data_quality.late = m->late;
    v->data_quality.torn = m->torn;
    v->data_quality.steps_compared = m->n_used;
    for (size_t i = 0; i < m->n_ranks_missing && !rc; i++)
        rc = argus_verdict_add_rank_missing(v, m->ranks_missing[i]);
    for (size_t i = 0; i < m->n_notes && !rc; i++)
        rc = argus_verdict_add_note(v, "%s", m->notes[i]);
    return rc ? -1 : 0;
}

static int abstain(struct argus_verdict *v, const char *missing, double confidence)
{
    v->kind = ARGUS_VERDICT_INSUFFICIENT_DATA;
    v->severity = ARGUS_SEVERITY_NONE;
    v->confidence = confidence;
    return argus_verdict_set(&v->subkind, missing);
}

/* Too little to compare: what there is stands as evidence and findings, without a verdict. */
static int no_comparison(const struct argus_model *m, struct argus_verdict *v)
{
    const char *missing = m->n_steps == 0 ? "steps" : "comparable steps";

    if (argus_verdict_add_note(v, "%d comparable steps, %d needed", m->n_used, m->keys.min_steps))
        return -1;
    return abstain(v, m->n_steps && m->n_ranks < 2 && m->world > 1 ? "ranks" : missing, 0.2);
}

static int healthy(struct bench *b, struct argus_verdict *v)
{
    const struct argus_model *m = b->m;

    if (m->world > 1 && m->n_ranks < 2)
        return abstain(v, "ranks", 0.3);
    v->kind = ARGUS_VERDICT_OK;
    v->severity = ARGUS_SEVERITY_NONE;
    v->slowdown = 1;
    v->gpu_hours = 0;
    v->share = 0;
    v->confidence = 0.99 * b->quality;
    if (m->n_ranks < 2) {
        v->confidence *= 0.7;
        if (argus_verdict_add_note(v, "one rank: compared with its own past only"))
            return -1;
    }
    if (v->confidence < MIN_CONFIDENCE)
        return abstain(v, b->missing ? b->missing : "data", v->confidence);
    return argus_explain(m, NULL, v);
}

static int decide(struct bench *b, struct argus_verdict *v, double hours)
{
    struct fault *first = NULL;

    b->quality = data_quality(b->m, &b->missing);
    if (price(b, is_fault))
        return -1;
    add_regressions(b);
    if (price(b, is_informative))
        return -1;
    for (size_t i = 0; i < b->n; i++) {
        b->faults[i].severity = severity_of(b->m, &b->faults[i]);
        b->faults[i].confidence = confidence_of(b, &b->faults[i]);
    }
    if (b->n)
        qsort(b->faults, b->n, sizeof(*b->faults), fault_cmp);
    for (size_t i = 0; i < b->n && !first; i++)
        if (b->faults[i].severity > ARGUS_SEVERITY_NONE)
            first = &b->faults[i];
    for (size_t i = 0; i < b->n; i++)
        if (!is_symptom(&b->faults[i], first) && add_lines(b->faults[i].e, v))
            return -1;
    if (first && first->confidence < MIN_CONFIDENCE) {
        if (abstain(v, b->missing ? b->missing : "agreement of the signals", first->confidence))
            return -1;
        first = NULL;
    } else if (first ? set_primary(b, first, hours, v) : healthy(b, v)) {
        return -1;
    }
    for (size_t i = 0; i < b->n; i++)
        if (&b->faults[i] != first &&
            (is_symptom(&b->faults[i], first) ? add_symptom(&b->faults[i], v)
                                              : add_finding(b, &b->faults[i], hours, v)))
            return -1;
    for (size_t i = 0; i < b->list->n; i++)
        if (follows_shards(b, &b->list->items[i]) &&
            argus_verdict_add_explained(v,
                                        "%s; the sides are shards whose experts have uneven load",
                                        b->list->items[i].text))
            return -1;
    return 0;
}

struct argus_verdict *argus_arbiter_decide(const struct argus_model *m,
                                           const struct argus_evidence_list *evidence,
                                           argus_error_t *err)
{
    struct bench b = {.m = m, .list = evidence};
    struct argus_verdict *v = argus_verdict_create();
    double hours = gpu_hours(m);

    b.faults = calloc(evidence->n + 1, sizeof(*b.faults));
    if (!v || !b.faults || fill_job(m, hours, v) || decide(&b, v, hours)) {
        argus_error(err, "%s: no memory", m->dir);
        argus_verdict_destroy(v);
        v = NULL;
    }
    free(b.faults);
    return v;
}

/* Without steps to compare nothing is detected: a few steps prove nothing about anybody. */
static struct argus_verdict *short_verdict(struct argus_model *m, argus_error_t *err)
{
    struct argus_verdict *v = argus_verdict_create();

    if (!v || fill_job(m, gpu_hours(m), v) || no_comparison(m, v) || argus_short_recording(m, v)) {
        argus_error(err, "%s: no memory", m->dir);
        argus_verdict_destroy(v);
        return NULL;
    }
    return v;
}

static int note_not_compared(struct argus_model *m, const struct argus_evidence_list *list,
                             argus_error_t *err)
{
    char text[512];

    for (int inter = 1; inter >= 0; inter--) {
        if (argus_links_not_compared(m, list, inter, text, sizeof(text)))
            return argus_error(err, "%s: no memory", m->dir);
        if (*text)
            argus_model_note(m, "%s", text);
    }
    return 0;
}

struct argus_verdict *argus_diagnose(struct argus_model *m, argus_error_t *err)
{
    struct argus_evidence_list list;
    struct argus_verdict *v = NULL;

    if (m->n_used < m->keys.min_steps)
        return short_verdict(m, err);

    if (!argus_detect_all(m, &list, err) && !note_not_compared(m, &list, err))
        v = argus_arbiter_decide(m, &list, err);
    argus_evidence_list_clear(&list);
    return v;
}
