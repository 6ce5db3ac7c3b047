/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow link: the transfer itself takes longer, and nobody is late.
 *
 * Work of a collective is the shortest duration among its ranks, so a late
 * rank does not raise it.  A group is compared with groups of the same shape
 * that carry the same message (expected = their median), else with its own
 * past.  Bandwidth is not monotonic in size: nothing is ever scaled from
 * another size or shape.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/link.h"

#define MIN_RATIO 1.07
#define MIN_RATIO_PAST 1.05
#define SPLIT_RATIO 1.25
#define MIN_Z 3.5
#define SPREAD_FLOOR 0.008

struct scan {
    const struct argus_model *m;
    struct argus_link_group *groups; /* by class set: see link.h */
    size_t n_groups;
    int *group_of; /* by comm class */
    struct argus_series q;
};

/* Group by group, pair by pair: the classes that share a path. */
static int add_class(struct scan *s, int cc)
{
    const struct argus_comm_class *c = &s->m->comm_classes[cc];
    struct argus_link_group *g = NULL, *groups;
    int *classes;

    for (size_t i = s->n_groups; i-- > 0 && !g;) {
        const struct argus_comm_class *other = &s->m->comm_classes[s->groups[i].classes[0]];

        if (other->group == c->group && argus_comm_is_pair(other) == argus_comm_is_pair(c) &&
            (!argus_comm_is_pair(c) || (other->from == c->from && other->to == c->to)))
            g = &s->groups[i];
        if (other->group != c->group)
            break; /* classes come in order of group */
    }
    if (!g) {
        if (!(groups = realloc(s->groups, (s->n_groups + 1) * sizeof(*groups))))
            return -1;
        s->groups = groups;
        g = &groups[s->n_groups++];
        memset(g, 0, sizeof(*g));
        g->group = c->group;
        g->pair = argus_comm_is_pair(c);
        g->from = c->from;
        g->to = c->to;
        g->inter = argus_comm_crosses_nodes(s->m, c);
        g->shift = (struct argus_shift){.onset = -1, .recovered = -1, .ratio = 1};
    }
    if (!(classes = realloc(g->classes, (g->n_classes + 1) * sizeof(int))))
        return -1;
    g->classes = classes;
    g->classes[g->n_classes++] = cc;
    s->group_of[cc] = (int)(g - s->groups);
    return 0;
}

/* Actual and expected time of a path in step k, over classes with siblings (or all: past). */
static int add_series(struct scan *s, const struct argus_link_shape *all, size_t n, int n_shapes)
{
    const struct argus_model *m = s->m;
    size_t steps = (size_t)m->n_steps + 1;
    float *expected = malloc(steps * sizeof(*expected));
    int *siblings = malloc((n + 1) * sizeof(int));
    int rc = expected && siblings ? 0 : -1;

    for (int shape = 0; shape < n_shapes && !rc; shape++) {
        size_t n_sib = 0, n_ref;
        int shared = 0;

        for (size_t i = 0; i < n; i++)
            if (all[i].shape == shape)
                siblings[n_sib++] = all[i].cc;
        n_ref = n_sib ? argus_link_measure(m, siblings, n_sib) : 0;
        for (size_t i = 0; i < n_sib && !rc; i++) {
            const struct argus_comm_class *c = &m->comm_classes[siblings[i]];
            struct argus_link_group *g = &s->groups[s->group_of[siblings[i]]];

            if (!g->actual) {
                g->actual = calloc(steps, sizeof(float));
                g->expected = calloc(steps, sizeof(float));
                g->total = calloc(steps, sizeof(float));
                if (!g->actual || !g->expected || !g->total) {
                    rc = -1;
                    break;
                }
            }
            /* NAN stays NAN; what runs now and then is no part of what the path does in a step */
            if (argus_link_regular(m, c))
                for (int k = 0; k < m->n_steps; k++)
                    g->total[k] += (float)c->count * c->work[k];
            if (n_sib > g->siblings)
                g->siblings = n_sib;
            if (n_sib < 2)
                continue;
            if (n_ref < 8 || !shared) { /* many siblings share one median */
                if (!argus_link_expected(m, c, siblings, n_ref, expected))
                    rc = -1;
                shared = n_ref >= 8;
            }
            for (int k = 0; k < m->n_steps; k++)
                if (!isnan(c->work[k]) && !isnan(expected[k])) {
                    g->actual[k] += (float)c->count * c->work[k];
                    g->expected[k] += (float)c->count * expected[k];
                }
        }
    }
    free(expected);
    free(siblings);
    return rc;
}

void argus_link_series(struct argus_series *q, const struct argus_model *m, const float *num,
                       const float *den)
{
    q->n = 0;
    for (int k = 0; k < m->n_steps; k++) {
        double v = num ? (double)num[k] : NAN;

        if (den)
            v = den[k] > 0 ? v / (double)den[k] : NAN;
        if (!m->use[k] || isnan(v) || !(v > 0))
            continue;
        q->x[q->n] = v;
        q->at[q->n++] = k;
    }
}

/* Does the path do since the onset what it did before?  Other messages are another workload. */
static int same_work(const struct scan *s, const struct argus_link_group *g)
{
    const struct argus_model *m = s->m;
    size_t i = (size_t)g->classes[0];

    while (i > 0 && m->comm_classes[i - 1].group == g->group)
        i--; /* classes come in order of group */
    for (; i < m->n_comm_classes && m->comm_classes[i].group == g->group; i++) {
        const struct argus_comm_class *c = &m->comm_classes[i];

        if (!argus_link_regular(m, c) &&
            fabs(argus_link_presence(m, c, 0, g->shift.first) -
                 argus_link_presence(m, c, g->shift.first, g->shift.end)) > 1 - ARGUS_LINK_REGULAR)
            return 0;
    }
    return 1;
}

/* Did this path get slower against its own past? */
static int own_past(struct scan *s, struct argus_link_group *g, double min_ratio)
{
    struct argus_change change;

    argus_link_series(&s->q, s->m, g->total, NULL);
    if (s->q.n < ARGUS_SHIFT_MIN_LENGTH)
        return 0;
    change = argus_change_find(s->q.x, (size_t)s->q.n, min_ratio, ARGUS_SHIFT_MIN_LENGTH, 0);
    return argus_shift_place(&g->shift, s->m, &s->q, &change) && g->shift.onset >= 0 &&
           argus_shift_measure(&g->shift, &s->q, min_ratio) && same_work(s, g);
}

/* Messages that differ between ranks or steps: their time follows the data, so that the past is no
 * measure and only a majority of siblings is. */
static int uneven(const struct scan *s, const struct argus_link_group *g)
{
    for (size_t i = 0; i < g->n_classes; i++)
        if (s->m->comm_classes[g->classes[i]].bytes != s->m->comm_classes[g->classes[i]].bytes_max)
            return 1;
    return 0;
}

static void judge_group(struct scan *s, struct argus_link_group *g)
{
    if (!g->actual)
        return;
    if (g->siblings < ARGUS_LINK_MIN_SIBLINGS && uneven(s, g))
        return;
    if (g->siblings >= 2) {
        argus_link_series(&s->q, s->m, g->actual, g->expected);
        g->typical = argus_series_median(&s->q, 0, s->m->n_steps, NULL);
        g->compared = s->q.n >= ARGUS_SHIFT_MIN_LENGTH;
        if (!argus_shift_of_ratio(&g->shift, s->m, &s->q, MIN_RATIO)) {
            g->shift.ratio = 1;
            return;
        }
        if (g->siblings >= ARGUS_LINK_MIN_SIBLINGS) {
            g->slow = 1;
            return;
        }
        /* two of a kind: the one that changed against its own past is it */
        if (g->shift.onset >= 0) {
            struct argus_link_group past = *g;

            if (own_past(s, &past, 1 + 0.6 * (g->shift.ratio - 1))) {
                g->slow = 1;
                g->by_past = 1;
                return;
            }
        }
        g->split = g->shift.ratio >= SPLIT_RATIO;
        return;
    }
    if (own_past(s, g, MIN_RATIO_PAST)) {
        g->slow = 1;
        g->by_past = 1;
    } else {
        g->shift.ratio = 1;
    }
}

/* Where most paths of a shape got slower at once the median of the siblings went with them: their past decides.  Looked up
 * once for each path: there may be thousands of one shape. */
static void common_past(struct scan *s)
{
    struct argus_link_group *past = malloc((s->n_groups + 1) * sizeof(*past));
    char *slower_than_past = calloc(s->n_groups + 1, 1);

    for (size_t i = 0; past && slower_than_past && i < s->n_groups; i++) {
        past[i] = s->groups[i];
        slower_than_past[i] = !past[i].slow && own_past(s, &past[i], MIN_RATIO_PAST);
        past[i].by_past = past[i].slow = 1;
    }
    for (size_t i = 0; past && slower_than_past && i < s->n_groups; i++) {
        struct argus_link_group *g = &s->groups[i];
        size_t kin = 0, slower = 0;

        if (g->slow || g->split || g->siblings < 2 || g->common || uneven(s, g))
            continue;
        for (size_t j = 0; j < s->n_groups; j++) {
            struct argus_link_group *o = &s->groups[j];

            /* pairs: between two stages, say; those of the next two share neither nodes nor fate */
            if (o->inter != g->inter || o->pair != g->pair || o->siblings != g->siblings ||
                s->m->groups[o->group].kind != s->m->groups[g->group].kind ||
                (g->pair && !argus_link_same_shape(s->m, &s->m->comm_classes[o->classes[0]],
                                                   &s->m->comm_classes[g->classes[0]])))
                continue;
            kin++;
            if (!o->slow && slower_than_past[j]) {
                *o = past[j];
                o->common = (int)i + 1;
                slower++;
            }
        }
        if (2 * slower > kin)
            continue;
        for (size_t j = 0; j < s->n_groups; j++)
            if (s->groups[j].common == (int)i + 1) {
                s->groups[j].slow = s->groups[j].by_past = 0;
                s->groups[j].shift.ratio = 1;
            }
    }
    free(past);
    free(slower_than_past);
}

/* Outlier among the paths of its kind; healthy paths may differ by a few percent. */
static void outliers(struct scan *s)
{
    double *x = malloc((s->n_groups + 1) * sizeof(*x));

    for (size_t i = 0; x && i < s->n_groups; i++) {
        struct argus_link_group *g = &s->groups[i];
        double median, mad;
        size_t n = 0, slow = 0;

        if (!g->slow || g->by_past)
            continue;
        for (size_t j = 0; j < s->n_groups; j++)
            if (s->groups[j].compared && s->groups[j].inter == g->inter &&
                s->groups[j].pair == g->pair) {
                x[n++] = s->groups[j].typical;
                slow += (size_t)s->groups[j].slow;
            }
        if (n < ARGUS_LINK_MIN_SIBLINGS)
            continue;
        median = argus_median(x, n);
        mad = argus_mad(x, n, median);
        /* with many slow paths the spread is theirs: the ratio alone decides */
        if (slow * 4 <= n && argus_robust_z(g->shift.ratio, median, mad, SPREAD_FLOOR) <= MIN_Z)
            g->slow = 0;
    }
    free(x);
}

/* Slow from the first step, and nothing of its shape to compare with: the ring against itself. */
static int uneven_rings(struct scan *s)
{
    size_t files = 0;

    for (size_t i = 0; i < s->n_groups; i++) {
        struct argus_link_group *g = &s->groups[i];
        double ratio;

        if (!g->actual || g->slow || g->split || g->pair || !g->inter ||
            g->siblings >= ARGUS_LINK_MIN_SIBLINGS)
            continue;
        files += s->m->groups[g->group].present;
        if (files > ARGUS_LINK_TIMELINES)
            break;
        g->shift = (struct argus_shift){.kind = ARGUS_CHANGE_CONSTANT,
                                        .onset = -1,
                                        .recovered = -1,
                                        .end = s->m->n_steps,
                                        .base = 1,
                                        .ratio = 1,
                                        .persistence = 1};
        ratio = argus_link_uneven_ring(s->m, g);
        if (ratio < 0)
            return -1;
        if (!(ratio > 1))
            continue;
        g->slow = g->by_edges = 1;
        g->shift.ratio = ratio;
        for (int k = 0; k < s->m->n_steps; k++) {
            g->actual[k] = g->total[k];
            g->expected[k] = (float)((double)g->total[k] / ratio);
        }
    }
    return 0;
}

static void clear(struct scan *s)
{
    for (size_t i = 0; i < s->n_groups; i++) {
        free(s->groups[i].classes);
        free(s->groups[i].actual);
        free(s->groups[i].expected);
        free(s->groups[i].total);
    }
    free(s->groups);
    free(s->group_of);
    argus_series_clear(&s->q);
}

int argus_detect_link(const struct argus_model *m, struct argus_evidence_list *out)
{
    struct scan s = {.m = m};
    struct argus_link_shape *all = NULL;
    size_t n = 0;
    int n_shapes = 0, rc = -1;

    s.group_of = calloc(m->n_comm_classes + 1, sizeof(int));
    all = argus_link_shapes(m, 0, &n, &n_shapes);
    if (argus_series_init(&s.q, m) || !s.group_of || !all)
        goto out;
    for (size_t i = 0; i < n; i++)
        if (add_class(&s, all[i].cc))
            goto out;
    if (add_series(&s, all, n, n_shapes))
        goto out;
    for (size_t i = 0; i < s.n_groups; i++)
        judge_group(&s, &s.groups[i]);
    if (argus_link_pairs_elsewhere(m, s.groups, s.n_groups))
        goto out;
    outliers(&s);
    common_past(&s);
    if (uneven_rings(&s))
        goto out;
    rc = argus_link_locate(m, s.groups, s.n_groups, out);
out:
    free(all);
    clear(&s);
    return rc;
}
