/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

static double median_at(const struct argus_model *m, const int *ranks, size_t n,
                        enum argus_column c, int k, int but)
{
    double small[64], *x = n <= 64 ? small : malloc(n * sizeof(*x)), median;
    size_t points = 0;

    if (!x)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        float v = ranks[i] == but ? NAN : argus_rank_col(&m->ranks[ranks[i]], c, k);
        if (!isnan(v))
            x[points++] = (double)v;
    }
    median = argus_median_inplace(x, points);
    if (x != small)
        free(x);
    return median;
}

int argus_cohort_init(struct argus_cohort *c, const struct argus_model *m, const int *ranks,
                      size_t n, enum argus_column column)
{
    *c = (struct argus_cohort){.ranks = ranks, .n = n, .column = column, .stage = -1};
    if (n < ARGUS_COHORT_LARGE)
        return 0;
    c->reference = malloc(((size_t)m->n_steps + 1) * sizeof(float));
    if (!c->reference)
        return -1;
    for (int k = 0; k < m->n_steps; k++)
        c->reference[k] = m->use[k] ? (float)median_at(m, ranks, n, column, k, -1) : NAN;
    return 0;
}

void argus_cohort_clear(struct argus_cohort *c)
{
    free(c->reference);
    free(c->owned);
    free(c->load);
    memset(c, 0, sizeof(*c));
}

double argus_cohort_reference(const struct argus_cohort *c, const struct argus_model *m,
                              int rank_index, int k)
{
    if (c->reference)
        return (double)c->reference[k] * argus_cohort_load(c, rank_index);
    return median_at(m, c->ranks, c->n, c->column, k, rank_index) *
           argus_cohort_load(c, rank_index);
}

double argus_cohort_least(const struct argus_cohort *c, const struct argus_model *m, int k)
{
    double least = INFINITY;

    for (size_t i = 0; i < c->n; i++) {
        double v = (double)argus_rank_col(&m->ranks[c->ranks[i]], c->column, k);

        if (v < least)
            least = v;
    }
    return isinf(least) ? NAN : least;
}

int argus_cohort_ratio(const struct argus_cohort *c, const struct argus_model *m, int rank_index,
                       double *q, int *at)
{
    int points = 0;

    for (int k = 0; k < m->n_steps; k++) {
        double own, ref;

        if (!m->use[k])
            continue;
        own = (double)argus_rank_col(&m->ranks[rank_index], c->column, k);
        ref = argus_cohort_reference(c, m, rank_index, k);
        if (isnan(own) || isnan(ref) || !(ref > 0))
            continue;
        q[points] = own / ref;
        at[points++] = k;
    }
    return points;
}

int argus_used_steps(const struct argus_model *m, int *steps)
{
    int n = 0;

    for (int k = 0; k < m->n_steps; k++)
        if (m->use[k])
            steps[n++] = k;
    return n;
}

double argus_typical_step(const struct argus_model *m)
{
    double *x = malloc(((size_t)m->n_steps + 1) * sizeof(*x)), median;
    size_t n = 0;

    if (!x)
        return NAN;
    for (int k = 0; k < m->n_steps; k++) {
        double t = m->use[k] ? argus_model_step_time(m, k) : NAN;
        if (!isnan(t))
            x[n++] = t;
    }
    median = argus_median_inplace(x, n);
    free(x);
    return median;
}

struct argus_change argus_ratio_change(const double *q, size_t n, double min_ratio,
                                       size_t min_length)
{
    struct argus_change own = argus_change_find(q, n, min_ratio, min_length, 0);
    struct argus_change level;
    double all, *copy;

    if (own.kind == ARGUS_CHANGE_STEP || own.kind == ARGUS_CHANGE_EPISODE ||
        own.kind == ARGUS_CHANGE_RAMP) {
        /* high before and higher after is high from the first point */
        if (own.kind == ARGUS_CHANGE_RAMP || own.before < 1 + (min_ratio - 1) * 0.75)
            return own;
    }
    copy = malloc((n + 1) * sizeof(*copy));
    if (!copy)
        return own;
    memcpy(copy, q, n * sizeof(*copy));
    /* a series that is high throughout is high in its lower third, too */
    all = argus_quantile_inplace(copy, n, 0.3);
    free(copy);
    level = argus_change_find(q, n, min_ratio, min_length, 1.0);
    if (level.kind == ARGUS_CHANGE_CONSTANT && level.onset == 0 && level.recovered >= n &&
        all < 1 + (min_ratio - 1) * 0.75)
        level.kind = ARGUS_CHANGE_NONE;
    return level;
}

const char *argus_rank_text(const struct argus_model *m, int rank_index, char *text, size_t size)
{
    const struct argus_model_rank *r = &m->ranks[rank_index];

    if (m->nodes[r->node][0])
        snprintf(text, size, "rank %d on %s", r->rank, m->nodes[r->node]);
    else
        snprintf(text, size, "rank %d", r->rank);
    return text;
}
