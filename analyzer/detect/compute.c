/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compute straggler: one GPU needs longer for the same kernels.
 *
 *   q_r(k)   busy compute of rank r in step k over the median of its peers
 *   score_r  sum over classes of w * ref/x: x the rank's typical duration of
 *            the class, ref the median of its peers', w the share of time
 *
 * A rank is slow when q shifts up and stays (change point against 1), the
 * shift is an outlier among its peers (robust z), and the classes say that the
 * same kernels got slower: at least three of them, or 80 % of the time.  What
 * experts have to do depends on their shard: shards.c.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/compute.h"
#include "analyzer/stats/stats.h"

#define MIN_RATIO 1.04       /* score 0.96 */
#define MIN_RATIO_TIED 1.015 /* when the step time of the job shifts at the same step */
#define MIN_Z 3.5
#define SPREAD_FLOOR 0.003 /* MAD of q that measurement alone explains */
#define MIN_PERSISTENCE 0.8

/* What the step time of the whole job does; shared by the ranks' tests. */
struct job_shift {
    struct argus_change change;
    int onset, recovered;
};

struct scan {
    const struct argus_model *m;
    struct argus_evidence_list *out;
    struct job_shift job;
    double *q, *work;
    int *at;
};

static struct job_shift job_shift(struct scan *s)
{
    struct job_shift j = {.onset = -1, .recovered = -1};
    int n = 0;

    for (int k = 0; k < s->m->n_steps; k++)
        if (s->m->use[k]) {
            s->q[n] = argus_model_step_time(s->m, k);
            s->at[n++] = k;
        }
    if (n < 2 * ARGUS_COMPUTE_MIN_LENGTH)
        return j;
    j.change = argus_change_find(s->q, (size_t)n, 1.03, ARGUS_COMPUTE_MIN_LENGTH, 0);
    if (j.change.kind == ARGUS_CHANGE_STEP || j.change.kind == ARGUS_CHANGE_EPISODE ||
        j.change.kind == ARGUS_CHANGE_RAMP) {
        j.onset = s->at[j.change.onset];
        j.recovered = j.change.recovered < (size_t)n ? s->at[j.change.recovered] : -1;
    }
    return j;
}

/* Median of q in the interval [first, end) of common steps; *n: points. */
static double median_in(struct scan *s, const double *q, const int *at, int n, int first, int end,
                        int *points)
{
    int p = 0;

    for (int i = 0; i < n; i++)
        if (at[i] >= first && at[i] < end)
            s->work[p++] = q[i];
    if (points)
        *points = p;
    return argus_median_inplace(s->work, (size_t)p);
}

/* No block of ten steps stands out: nothing to look for. */
static int quiet(struct scan *s, const double *q, int n)
{
    for (int i = 0; i < n; i += ARGUS_COMPUTE_MIN_LENGTH) {
        int end = i + ARGUS_COMPUTE_MIN_LENGTH < n ? i + ARGUS_COMPUTE_MIN_LENGTH : n;

        memcpy(s->work, q + i, (size_t)(end - i) * sizeof(double));
        if (argus_median_inplace(s->work, (size_t)(end - i)) >= 1.01)
            return 0;
    }
    return 1;
}

/* Where rank i is slower than its peers.  Returns 1 when there is a lasting shift. */
static int find_shift(struct scan *s, const struct argus_cohort *c, int i, struct argus_slow *slow)
{
    int n = argus_cohort_ratio(c, s->m, i, s->q, s->at);
    int end = s->m->n_steps, held = 0, all = 0, from;
    struct argus_change ch;

    memset(slow, 0, sizeof(*slow));
    slow->rank = i;
    slow->onset = slow->recovered = -1;
    if (n < ARGUS_COMPUTE_MIN_LENGTH || quiet(s, s->q, n))
        return 0;
    ch = argus_ratio_change(s->q, (size_t)n, MIN_RATIO, ARGUS_COMPUTE_MIN_LENGTH);
    slow->kind = ch.kind;
    if (ch.kind == ARGUS_CHANGE_NONE || ch.kind == ARGUS_CHANGE_SPIKES) {
        double before, after;

        if (s->job.onset < 0)
            return 0;
        end = s->job.recovered >= 0 ? s->job.recovered : s->m->n_steps;
        before = median_in(s, s->q, s->at, n, 0, s->job.onset, NULL);
        after = median_in(s, s->q, s->at, n, s->job.onset, end, NULL);
        if (!(before > 0) || !(after / before >= MIN_RATIO_TIED) || !(after >= MIN_RATIO_TIED))
            return 0;
        slow->kind = s->job.change.kind;
        slow->onset = s->job.onset;
        slow->recovered = s->job.recovered;
        slow->tied = 1;
    } else {
        if (ch.kind != ARGUS_CHANGE_CONSTANT)
            slow->onset = s->at[ch.onset];
        if (ch.recovered < (size_t)n) {
            slow->recovered = s->at[ch.recovered];
            end = slow->recovered;
        }
    }
    slow->first = slow->onset >= 0 ? slow->onset : 0;
    slow->end = end;
    slow->ratio = median_in(s, s->q, s->at, n, slow->first, end, &slow->steps);
    if (slow->ratio < (slow->tied ? MIN_RATIO_TIED : MIN_RATIO))
        return 0;
    /* a ramp is not there yet at its beginning */
    from = slow->kind == ARGUS_CHANGE_RAMP ? (slow->first + end) / 2 : slow->first;
    for (int p = 0; p < n; p++)
        if (s->at[p] >= from && s->at[p] < end) {
            all++;
            held += s->q[p] >= 1 + 0.5 * (slow->ratio - 1);
        }
    slow->persistence = all ? (double)held / all : 0;
    return slow->persistence >= MIN_PERSISTENCE;
}

/* How far the shift lies outside what the peers show in the same steps. */
static double robust_z(struct scan *s, const struct argus_cohort *c, const struct argus_slow *slow)
{
    double *r = malloc((c->n + 1) * sizeof(*r)), median, mad, z;
    double *q = malloc(((size_t)s->m->n_steps + 1) * sizeof(*q));
    int *at = malloc(((size_t)s->m->n_steps + 1) * sizeof(*at));
    size_t n = 0;

    if (!r || !q || !at) {
        free(r);
        free(q);
        free(at);
        return NAN;
    }
    for (size_t i = 0; i < c->n; i++) {
        int points = argus_cohort_ratio(c, s->m, c->ranks[i], q, at);
        double v = median_in(s, q, at, points, slow->first, slow->end, NULL);

        /* among few ranks the one in question would be half of the spread */
        if (!isnan(v) && (c->n >= ARGUS_COHORT_LARGE || c->ranks[i] != slow->rank))
            r[n++] = v;
    }
    median = argus_median(r, n);
    mad = argus_mad(r, n, median);
    z = argus_robust_z(slow->ratio, median, mad,
                       c->n >= ARGUS_COHORT_LARGE ? SPREAD_FLOOR : 2 * SPREAD_FLOOR);
    free(r);
    free(q);
    free(at);
    return z;
}

/* In a cohort too small for a majority the rank's own past decides: it changed, the other did not. */
static int own_past_decides(struct scan *s, const struct argus_slow *slow)
{
    const struct argus_model_rank *r = &s->m->ranks[slow->rank];
    double before, after;
    int n = 0, pre = 0;

    if (slow->onset < 0)
        return 0;
    for (int k = 0; k < s->m->n_steps; k++) {
        float v = s->m->use[k] ? argus_rank_col(r, ARGUS_COL_COMPUTE, k) : NAN;

        if (!isnan(v)) {
            s->q[n] = (double)v;
            s->at[n++] = k;
        }
    }
    before = median_in(s, s->q, s->at, n, 0, slow->onset, &pre);
    after = median_in(s, s->q, s->at, n, slow->onset, slow->end, NULL);
    return pre >= ARGUS_COMPUTE_MIN_LENGTH && after / before >= 1 + 0.6 * (slow->ratio - 1);
}

static int describe(const struct argus_model *m, struct argus_evidence *e,
                    const struct argus_slow *slow)
{
    int bad = 0;

    if (slow->views.score > 0)
        bad |= argus_evidence_line(e, m, slow->rank, "compute_score", slow->views.score, 1.0,
                                   "ratio", "sum over kernel classes of share x peers' time / own");
    bad |= argus_evidence_line(e, m, slow->rank, "compute_ratio", slow->ratio, 1.0, "ratio",
                               "busy compute of a step over the peers' median, median of the steps "
                               "since onset");
    if (slow->views.worst >= 0) {
        const struct argus_class_view *v = &slow->views.items[slow->views.worst];

        bad |= argus_evidence_line(e, m, slow->rank, "kernel_us", v->x / 1e3, v->ref / 1e3, "us",
                                   m->kernel_classes[v->kernel_class].name);
    }
    return bad;
}

static int add_excess(struct scan *s, const struct argus_cohort *c, struct argus_evidence *e,
                      const struct argus_slow *slow)
{
    float *x = argus_evidence_excess(e, s->m, slow->rank);

    if (!x)
        return -1;
    for (int k = slow->first; k < slow->end && k < s->m->n_steps; k++) {
        double own = (double)argus_rank_col(&s->m->ranks[slow->rank], ARGUS_COL_COMPUTE, k);
        double d = s->m->use[k] ? own - argus_cohort_reference(c, s->m, slow->rank, k) : NAN;

        if (d > 0)
            x[k] = (float)d;
    }
    return 0;
}

static int report_rank(struct scan *s, const struct argus_cohort *c, const struct argus_slow *slow)
{
    const struct argus_model *m = s->m;
    struct argus_evidence *e =
        argus_evidence_add(s->out, "compute", ARGUS_VERDICT_COMPUTE_STRAGGLER);
    char who[128];

    if (!e || argus_evidence_rank(e, slow->rank) || add_excess(s, c, e, slow) ||
        describe(m, e, slow))
        return -1;
    e->stage = ARGUS_UNKNOWN;
    e->onset = slow->onset >= 0 ? slow->onset : ARGUS_UNKNOWN;
    e->recovered = slow->recovered >= 0 ? slow->recovered : ARGUS_UNKNOWN;
    e->effect = slow->ratio - 1;
    e->persistence = slow->persistence;
    e->agreement = slow->views.n ? slow->views.agreement : 0.7;
    e->z = slow->z;
    e->subkind = argus_compute_subkind(&slow->views, m);
    e->pattern = slow->kind == ARGUS_CHANGE_RAMP ? "ramp"
                 : slow->recovered >= 0          ? "episode"
                                                 : "persistent";
    e->phase = argus_compute_phase(m, slow->rank, c, slow->first, slow->end);
    argus_evidence_text(e,
                        "%s computes %.1f %% longer than its %zu peer%s for the same kernels "
                        "(score %.2f), in %.0f %% of the steps",
                        argus_rank_text(m, slow->rank, who, sizeof(who)), 100 * (slow->ratio - 1),
                        c->n - 1, c->n == 2 ? "" : "s",
                        slow->views.score > 0 ? slow->views.score : 1 / slow->ratio,
                        100 * slow->persistence);
    return 0;
}

static int scan_cohort(struct scan *s, const struct argus_cohort *c, const int *judged,
                       size_t n_judged)
{
    struct argus_slow *slow = calloc(n_judged + 1, sizeof(*slow));
    size_t n = 0, named = 0;
    int rc = 0;

    if (!slow)
        return -1;
    for (size_t i = 0; i < n_judged && c->n >= 2; i++)
        if (find_shift(s, c, judged[i], &slow[n]) && argus_class_views(s->m, c, &slow[n])) {
            /* more or other work is not slowness */
            if (slow[n].views.n && slow[n].views.explained < 0.5) {
                argus_class_views_clear(&slow[n].views);
                continue;
            }
            n++;
        }
    for (size_t i = 0; i < n && !rc; i++) {
        int small = c->n < ARGUS_COMPUTE_NAMED_FROM || 2 * n >= c->n;

        if (!slow[i].views.agreed)
            continue;
        if (small) {
            /* no majority: its own past decides */
            if (!own_past_decides(s, &slow[i]))
                continue;
            slow[i].z = INFINITY;
        } else {
            slow[i].z = robust_z(s, c, &slow[i]);
            if (!(slow[i].z > MIN_Z))
                continue;
        }
        named++;
        rc = report_rank(s, c, &slow[i]);
    }
    for (size_t i = 0; i < n; i++)
        argus_class_views_clear(&slow[i].views);
    free(slow);
    if (!rc && !named && n_judged >= c->n)
        rc = argus_compute_find_split(s->m, c, s->work, s->out) < 0 ? -1 : 0;
    return rc;
}

/* A small peer set borrows ranks of other stages, but only those that run the same kernels: there
 * a kernel's time says as much about the GPU.  Operations instead of kernels (fewer than three
 * classes) say too little for that. */
static int widen(const struct argus_model *m, const struct argus_peer_set *set,
                 struct argus_cohort *c)
{
    const struct argus_model_rank *own = &m->ranks[set->ranks[0]];
    size_t n = 0, compute = 0;
    int *ranks;

    for (size_t i = 0; i < own->n_classes; i++)
        compute += m->kernel_classes[own->classes[i].kernel_class].kind == ARGUS_CLASS_COMPUTE;
    if (set->n >= ARGUS_COMPUTE_NAMED_FROM || compute < 3)
        return argus_cohort_init(c, m, set->ranks, set->n, ARGUS_COL_COMPUTE);
    ranks = malloc(m->n_ranks * sizeof(int));
    if (!ranks)
        return -1;
    for (size_t i = 0; i < m->n_ranks; i++) {
        const struct argus_model_rank *r = &m->ranks[i];

        if (r->peers == own->peers ||
            (argus_model_alike(m, own, r) >= 0.9 && argus_model_alike(m, r, own) >= 0.9))
            ranks[n++] = (int)i;
    }
    if (argus_cohort_init(c, m, ranks, n, ARGUS_COL_COMPUTE)) {
        free(ranks);
        return -1;
    }
    c->owned = ranks;
    c->widened = n > set->n;
    return 0;
}

int argus_detect_compute(const struct argus_model *m, struct argus_evidence_list *out)
{
    size_t steps = (size_t)m->n_steps + 1;
    struct scan s = {.m = m, .out = out};
    int rc = -1;

    s.q = malloc(steps * sizeof(double));
    s.work = malloc(steps * sizeof(double));
    s.at = malloc(steps * sizeof(int));
    if (!s.q || !s.work || !s.at)
        goto out;
    s.job = job_shift(&s);
    rc = 0;
    for (size_t p = 0; p < m->n_peer_sets && !rc; p++) {
        struct argus_cohort c;

        if ((rc = widen(m, &m->peer_sets[p], &c)))
            break;
        c.stage = m->peer_sets[p].stage;
        if (!(rc = argus_cohort_shards(&c, m)))
            rc = scan_cohort(&s, &c, m->peer_sets[p].ranks, m->peer_sets[p].n);
        argus_cohort_clear(&c);
    }
out:
    free(s.q);
    free(s.work);
    free(s.at);
    return rc;
}
