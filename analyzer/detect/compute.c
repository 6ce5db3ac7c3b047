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

#define MIN_RATIO 1.04       /* score 0.96 */
#define MIN_RATIO_TIED 1.015 /* when the step time of the job shifts at the same step */
#define MIN_Z 3.5
#define SPREAD_FLOOR 0.003 /* MAD of q that measurement alone explains */

struct scan {
    const struct argus_model *m;
    struct argus_evidence_list *out;
    struct argus_shift job; /* of its step time; shared by the ranks' tests */
    struct argus_series q;
};

static struct argus_shift job_shift(struct scan *s)
{
    struct argus_shift shift = {.kind = ARGUS_CHANGE_NONE, .onset = -1, .recovered = -1};
    struct argus_change change;

    argus_series_step_times(&s->q, s->m);
    if (s->q.n >= 2 * ARGUS_SHIFT_MIN_LENGTH) {
        change = argus_change_find(s->q.x, (size_t)s->q.n, 1.03, ARGUS_SHIFT_MIN_LENGTH, 0);
        argus_shift_place(&shift, s->m, &s->q, &change);
    }
    return shift;
}

/* No block of ten steps stands out: nothing to look for. */
static int quiet(struct argus_series *q)
{
    for (int i = 0; i < q->n; i += ARGUS_SHIFT_MIN_LENGTH) {
        int end = i + ARGUS_SHIFT_MIN_LENGTH < q->n ? i + ARGUS_SHIFT_MIN_LENGTH : q->n;

        memcpy(q->work, q->x + i, (size_t)(end - i) * sizeof(double));
        if (argus_median_inplace(q->work, (size_t)(end - i)) >= 1.01)
            return 0;
    }
    return 1;
}

/* Little, but at the step at which the whole job slows down. */
static int tied_shift(struct scan *s, struct argus_shift *shift)
{
    double before, after;

    if (s->job.onset < 0)
        return 0;
    before = argus_series_median(&s->q, 0, s->job.onset, NULL);
    after = argus_series_median(&s->q, s->job.onset, s->job.end, NULL);
    if (!(before > 0) || !(after / before >= MIN_RATIO_TIED))
        return 0;
    *shift = s->job;
    shift->base = 1;
    return argus_shift_measure(shift, &s->q, MIN_RATIO_TIED);
}

/* Where rank i is slower than its peers.  Returns 1 when there is a lasting shift. */
static int find_shift(struct scan *s, const struct argus_cohort *c, int i, struct argus_slow *slow)
{
    memset(slow, 0, sizeof(*slow));
    slow->rank = i;
    s->q.n = argus_cohort_ratio(c, s->m, i, s->q.x, s->q.at);
    if (s->q.n < ARGUS_SHIFT_MIN_LENGTH || quiet(&s->q))
        return 0;
    if (argus_shift_of_ratio(&slow->shift, s->m, &s->q, MIN_RATIO))
        return 1;
    return (slow->shift.kind == ARGUS_CHANGE_NONE || slow->shift.kind == ARGUS_CHANGE_SPIKES) &&
           tied_shift(s, &slow->shift);
}

struct peers {
    const struct argus_model *m;
    const struct argus_cohort *c;
};

static void ratio_to_peers(void *arg, int rank, struct argus_series *q)
{
    const struct peers *p = arg;

    q->n = argus_cohort_ratio(p->c, p->m, rank, q->x, q->at);
}

static int describe(const struct argus_model *m, struct argus_evidence *e,
                    const struct argus_cohort *c, const struct argus_slow *slow)
{
    double work = c->own_amount ? argus_cohort_load(c, slow->rank) : 1;
    int bad = 0;

    if (slow->views.score > 0)
        bad |= argus_evidence_line(e, m, slow->rank, "compute_score", slow->views.score, 1.0,
                                   "ratio", "sum over kernel classes of share x peers' time / own");
    bad |= argus_evidence_line(e, m, slow->rank, "compute_ratio", slow->shift.ratio * work, 1.0,
                               "ratio",
                               "busy compute of a step over the peers' median, median of the steps "
                               "since onset");
    if (c->own_amount)
        bad |= argus_evidence_line(e, m, slow->rank, "work_ratio", work, 1.0, "ratio",
                                   "part of that which is work: the peers' time for as many calls "
                                   "over the peers' own");
    if (slow->views.worst >= 0) {
        const struct argus_class_view *v = &slow->views.items[slow->views.worst];

        bad |= argus_evidence_line(e, m, slow->rank, "kernel_us", v->x / 1e3, v->ref / 1e3, "us",
                                   m->kernel_classes[v->kernel_class].name);
    }
    return bad;
}

static int report_rank(struct scan *s, const struct argus_cohort *c, const struct argus_slow *slow)
{
    const struct argus_model *m = s->m;
    struct argus_evidence *e =
        argus_evidence_add(s->out, "compute", ARGUS_VERDICT_COMPUTE_STRAGGLER);
    char who[128];

    if (!e || argus_evidence_rank(e, slow->rank) ||
        argus_shift_excess(&slow->shift, m, e, c, slow->rank) || describe(m, e, c, slow))
        return -1;
    e->stage = ARGUS_UNKNOWN;
    argus_shift_describe(&slow->shift, e);
    e->agreement = slow->views.n ? slow->views.agreement : 0.7;
    e->z = slow->z;
    e->subkind = argus_compute_subkind(&slow->views, m);
    /* more work need not lie where the kernels are slower */
    if (!c->own_amount)
        e->phase = argus_compute_phase(m, slow->rank, c, slow->shift.first, slow->shift.end);
    argus_evidence_text(e,
                        "%s computes %.1f %% longer than its %zu peer%s for the same kernels "
                        "(score %.2f), in %.0f %% of the steps",
                        argus_rank_text(m, slow->rank, who, sizeof(who)),
                        100 * (slow->shift.ratio - 1), c->n - 1, c->n == 2 ? "" : "s",
                        slow->views.score > 0 ? slow->views.score : 1 / slow->shift.ratio,
                        100 * slow->shift.persistence);
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
            if ((slow[n].views.n && slow[n].views.explained < 0.5) ||
                (c->own_amount && !argus_class_views_alike(&slow[n]))) {
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
            if (!argus_shift_own_past(&slow[i].shift, s->m, &s->q, slow[i].rank, ARGUS_COL_COMPUTE))
                continue;
            slow[i].z = INFINITY;
        } else {
            slow[i].z =
                argus_shift_robust_z(&slow[i].shift, c, slow[i].rank, &s->q,
                                     c->n >= ARGUS_COHORT_LARGE ? SPREAD_FLOOR : 2 * SPREAD_FLOOR,
                                     ratio_to_peers, &(struct peers){s->m, c});
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
        rc = argus_compute_find_split(s->m, c, s->q.work, s->out) < 0 ? -1 : 0;
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

/* The largest set of a stage, if it is large enough to say how fast a rank beside it should be. */
static const struct argus_peer_set *largest_set(const struct argus_model *m, int stage)
{
    const struct argus_peer_set *most = NULL;

    for (size_t p = 0; p < m->n_peer_sets; p++)
        if (m->peer_sets[p].stage == stage && (!most || m->peer_sets[p].n > most->n))
            most = &m->peer_sets[p];
    return most && most->n + 1 >= ARGUS_COMPUTE_NAMED_FROM ? most : NULL;
}

/* A rank beside those of the largest set, which is to take as long as they would for its calls. */
static int cohort_at_own_amount(struct argus_cohort *c, const struct argus_model *m,
                                const struct argus_peer_set *most, int rank)
{
    int *ranks = malloc((most->n + 1) * sizeof(int));
    float *load = malloc(m->n_ranks * sizeof(*load));
    struct argus_work work;
    size_t n = 0;

    if (!ranks || !load)
        goto error;
    for (size_t i = 0; i < most->n; i++) {
        if (n == i && rank < most->ranks[i])
            ranks[n++] = rank;
        ranks[n++] = most->ranks[i];
    }
    if (n == most->n)
        ranks[n++] = rank;
    if (argus_cohort_init(c, m, ranks, n, ARGUS_COL_COMPUTE))
        goto error;
    c->owned = ranks;
    c->load = load;
    c->own_amount = 1;
    argus_work_of(m, most->ranks, most->n, rank, &work);
    for (size_t i = 0; i < m->n_ranks; i++)
        load[i] = 1;
    if (work.usual > 0)
        load[rank] = (float)(1 + work.amount / work.usual);
    return 0;
error:
    free(ranks);
    free(load);
    return -1;
}

/* A rank that runs the kernels of its stage more often is nobody's peer, and may be slow as well.
 * Experts are left out: what their kernels take depends on what they are asked for.  1: some rank
 * of the set was named. */
static int scan_at_own_amount(struct scan *s, const struct argus_peer_set *set)
{
    const struct argus_model *m = s->m;
    const struct argus_peer_set *most = largest_set(m, set->stage);
    size_t before = s->out->n;

    for (size_t i = 0; most && most != set && m->topology.ep <= 1 && i < set->n; i++) {
        const struct argus_model_rank *own = &m->ranks[set->ranks[i]];
        const struct argus_model_rank *other = &m->ranks[most->ranks[0]];
        struct argus_cohort c;
        int rc;

        if (argus_model_same_kernels(m, own, other) < 0.8 ||
            argus_model_same_kernels(m, other, own) < 0.8)
            continue;
        if (cohort_at_own_amount(&c, m, most, set->ranks[i]))
            return -1;
        c.stage = set->stage;
        rc = argus_cohort_load(&c, set->ranks[i]) > 1 ? scan_cohort(s, &c, &set->ranks[i], 1) : 0;
        argus_cohort_clear(&c);
        if (rc)
            return rc;
    }
    return s->out->n > before;
}

int argus_detect_compute(const struct argus_model *m, struct argus_evidence_list *out)
{
    struct scan s = {.m = m, .out = out};
    int rc = -1;

    if (argus_series_init(&s.q, m))
        goto out;
    s.job = job_shift(&s);
    rc = 0;
    for (size_t p = 0; p < m->n_peer_sets && !rc; p++) {
        struct argus_cohort c;

        if ((rc = widen(m, &m->peer_sets[p], &c)))
            break;
        c.stage = m->peer_sets[p].stage;
        rc = c.n < ARGUS_COMPUTE_NAMED_FROM ? scan_at_own_amount(&s, &m->peer_sets[p]) : 0;
        if (rc > 0)
            rc = 0;
        else if (!rc && !(rc = argus_cohort_shards(&c, m)))
            rc = scan_cohort(&s, &c, m->peer_sets[p].ranks, m->peer_sets[p].n);
        argus_cohort_clear(&c);
    }
out:
    argus_series_clear(&s.q);
    return rc;
}
