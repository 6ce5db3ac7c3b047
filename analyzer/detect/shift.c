/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>

#include "analyzer/detect/shift.h"

#define MIN_PERSISTENCE 0.8
#define PAST_SHARE 0.6 /* of a shift against the others that the own past has to show */

int argus_series_init(struct argus_series *s, const struct argus_model *m)
{
    size_t steps = (size_t)m->n_steps + 1;

    s->n = 0;
    s->x = malloc(steps * sizeof(*s->x));
    s->work = malloc(steps * sizeof(*s->work));
    s->at = malloc(steps * sizeof(*s->at));
    return s->x && s->work && s->at ? 0 : -1;
}

void argus_series_clear(struct argus_series *s)
{
    free(s->x);
    free(s->work);
    free(s->at);
    *s = (struct argus_series){0};
}

void argus_series_step_times(struct argus_series *s, const struct argus_model *m)
{
    s->n = 0;
    for (int k = 0; k < m->n_steps; k++)
        if (m->use[k]) {
            s->x[s->n] = argus_model_step_time(m, k);
            s->at[s->n++] = k;
        }
}

double argus_series_median(struct argus_series *s, int first, int end, int *points)
{
    int n = 0;

    for (int i = 0; i < s->n; i++)
        if (s->at[i] >= first && s->at[i] < end)
            s->work[n++] = s->x[i];
    if (points)
        *points = n;
    return argus_median_inplace(s->work, (size_t)n);
}

int argus_shift_place(struct argus_shift *shift, const struct argus_model *m,
                      const struct argus_series *s, const struct argus_change *change)
{
    *shift = (struct argus_shift){.kind = change->kind, .onset = -1, .recovered = -1};
    shift->end = m->n_steps;
    if (change->kind == ARGUS_CHANGE_NONE || change->kind == ARGUS_CHANGE_SPIKES)
        return 0;
    if (change->kind != ARGUS_CHANGE_CONSTANT)
        shift->onset = shift->first = s->at[change->onset];
    if (change->recovered < (size_t)s->n)
        shift->recovered = shift->end = s->at[change->recovered];
    shift->base = change->before;
    return 1;
}

int argus_shift_measure(struct argus_shift *shift, struct argus_series *s, double min_ratio)
{
    int held = 0, all = 0, from = shift->first;

    shift->ratio = argus_series_median(s, shift->first, shift->end, &shift->steps) / shift->base;
    if (!(shift->ratio >= min_ratio))
        return 0;
    /* a ramp is not there yet at its beginning */
    if (shift->kind == ARGUS_CHANGE_RAMP)
        from = (shift->first + shift->end) / 2;
    for (int i = 0; i < s->n; i++)
        if (s->at[i] >= from && s->at[i] < shift->end) {
            all++;
            held += s->x[i] / shift->base >= 1 + 0.5 * (shift->ratio - 1);
        }
    shift->persistence = all ? (double)held / all : 0;
    return shift->persistence >= MIN_PERSISTENCE;
}

int argus_shift_of_ratio(struct argus_shift *shift, const struct argus_model *m,
                         struct argus_series *s, double min_ratio)
{
    struct argus_change change = {.kind = ARGUS_CHANGE_NONE};

    if (s->n >= ARGUS_SHIFT_MIN_LENGTH)
        change = argus_ratio_change(s->x, (size_t)s->n, min_ratio, ARGUS_SHIFT_MIN_LENGTH);
    if (!argus_shift_place(shift, m, s, &change))
        return 0;
    shift->base = 1;
    return argus_shift_measure(shift, s, min_ratio);
}

int argus_shift_own_past(const struct argus_shift *shift, const struct argus_model *m,
                         struct argus_series *s, int rank, enum argus_column column)
{
    double before, after;
    int points;

    if (shift->onset < 0)
        return 0;
    s->n = 0;
    for (int k = 0; k < m->n_steps; k++) {
        float v = m->use[k] ? argus_rank_col(&m->ranks[rank], column, k) : NAN;

        if (!isnan(v)) {
            s->x[s->n] = (double)v;
            s->at[s->n++] = k;
        }
    }
    before = argus_series_median(s, 0, shift->onset, &points);
    after = argus_series_median(s, shift->onset, shift->end, NULL);
    return points >= ARGUS_SHIFT_MIN_LENGTH && before > 0 &&
           after / before >= 1 + PAST_SHARE * (shift->ratio - 1);
}

double argus_shift_robust_z(const struct argus_shift *shift, const struct argus_cohort *c, int rank,
                            struct argus_series *s, double floor,
                            void (*fill)(void *arg, int rank, struct argus_series *s), void *arg)
{
    double *ratios = malloc((c->n + 1) * sizeof(*ratios)), median, mad;
    size_t n = 0;

    if (!ratios)
        return NAN;
    for (size_t i = 0; i < c->n; i++) {
        double v;

        /* among few ranks the one in question would be half of the spread */
        if (c->n < ARGUS_COHORT_LARGE && c->ranks[i] == rank)
            continue;
        fill(arg, c->ranks[i], s);
        v = argus_series_median(s, shift->first, shift->end, NULL);
        if (!isnan(v))
            ratios[n++] = v;
    }
    median = argus_median(ratios, n);
    mad = argus_mad(ratios, n, median);
    free(ratios);
    return argus_robust_z(shift->ratio, median, mad, floor);
}

void argus_shift_describe(const struct argus_shift *shift, struct argus_evidence *e)
{
    e->onset = shift->onset >= 0 ? shift->onset : ARGUS_UNKNOWN;
    e->recovered = shift->recovered >= 0 ? shift->recovered : ARGUS_UNKNOWN;
    e->effect = shift->ratio - 1;
    e->persistence = shift->persistence;
    e->pattern = shift->kind == ARGUS_CHANGE_RAMP ? "ramp"
                 : shift->recovered >= 0          ? "episode"
                                                  : "persistent";
}

int argus_shift_excess(const struct argus_shift *shift, const struct argus_model *m,
                       struct argus_evidence *e, const struct argus_cohort *c, int rank)
{
    float *x = argus_evidence_excess(e, m, rank);

    if (!x)
        return -1;
    for (int k = shift->first; k < shift->end && k < m->n_steps; k++) {
        double own = (double)argus_rank_col(&m->ranks[rank], c->column, k);
        double d = m->use[k] ? own - argus_cohort_reference(c, m, rank, k) : NAN;

        if (d > 0)
            x[k] = (float)d;
    }
    return 0;
}
