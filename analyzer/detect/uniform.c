/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uniform slow-down: all ranks alike, nobody to blame.  Either the job spends
 * most of its time in something that is not computing (communication, copies),
 * or it is slower than it was.
 */
#include <config.h>
#include <stdlib.h>

#include "analyzer/detect/shift.h"

#define BOUND_SHARE 0.5     /* of the step */
#define ONE_CALL_SHARE 0.33 /* ... that a single call takes */
#define MIN_RATIO 1.03      /* of a regression; the scan asks for significance */

/* Median over ranks of the median over steps of a column, ns. */
static double typical(const struct argus_model *m, enum argus_column c, enum argus_column minus)
{
    double *x = malloc((m->n_ranks + 1) * sizeof(*x)), median;
    size_t n = 0;

    if (!x)
        return NAN;
    for (size_t i = 0; i < m->n_ranks; i++) {
        double v = argus_model_rank_median(m, i, c);

        if (minus != ARGUS_COL_COUNT)
            v -= argus_model_rank_median(m, i, minus);
        if (!isnan(v))
            x[n++] = v;
    }
    median = argus_median_inplace(x, n);
    free(x);
    return median;
}

/* A job whose communication is spread over many calls is how that job is; one call that takes a
 * third of the step and hides behind nothing is worth a verdict. */
static int one_call(const struct argus_model *m, double step)
{
    double *x = malloc(((size_t)m->n_steps + 1) * sizeof(*x));
    int found = 0;

    for (size_t c = 0; x && c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];
        size_t n = 0;

        if (cc->count > 2 || !cc->matched)
            continue;
        for (int k = 0; k < m->n_steps; k++)
            if (m->use[k] && !isnan(cc->work[k]))
                x[n++] = (double)cc->work[k];
        found |= argus_median_inplace(x, n) >= ONE_CALL_SHARE * step;
    }
    free(x);
    return found;
}

static int bound(const struct argus_model *m, struct argus_evidence_list *out, double share,
                 const char *subkind, enum argus_column c, enum argus_column minus,
                 const char *what)
{
    struct argus_evidence *e = argus_evidence_add(out, "uniform", ARGUS_VERDICT_UNIFORM_SLOWDOWN);

    if (!e)
        return -1;
    for (size_t i = 0; i < m->n_ranks; i++) {
        float *x = argus_evidence_excess(e, m, (int)i);

        if (!x)
            return -1;
        for (int k = 0; k < m->n_steps; k++) {
            float v = m->use[k] ? argus_rank_col(&m->ranks[i], c, k) : NAN;

            if (minus != ARGUS_COL_COUNT)
                v -= argus_rank_col(&m->ranks[i], minus, k);
            if (v > 0)
                x[k] = v;
        }
    }
    e->outside = 2;
    e->subkind = subkind;
    e->pattern = "persistent";
    e->phase = c == ARGUS_COL_COPY ? NULL : "communication";
    e->informative = c == ARGUS_COL_COPY || one_call(m, argus_typical_step(m)) ? 1 : 2;
    e->effect = share;
    argus_evidence_text(e, "%.0f %% of the step is %s, on all ranks alike", 100 * share, what);
    return argus_evidence_line(e, m, -1, "share_of_step", share, NAN, "share", what);
}

static int report_regression(const struct argus_model *m, struct argus_evidence_list *out,
                             const struct argus_series *y, const struct argus_change *ch,
                             const struct argus_shift *shift)
{
    struct argus_evidence *e = argus_evidence_add(out, "uniform", ARGUS_VERDICT_UNIFORM_SLOWDOWN);

    if (!e)
        return -1;
    argus_shift_describe(shift, e);
    e->outside = 2;
    e->subkind = "regression";
    for (size_t i = 0; i < m->n_ranks; i++) {
        float *x = argus_evidence_excess(e, m, (int)i);

        if (!x)
            return -1;
        for (size_t p = ch->onset; p < ch->recovered; p++)
            x[y->at[p]] = (float)(y->x[p] > ch->before ? y->x[p] - ch->before : 0);
    }
    argus_evidence_text(e,
                        "the step takes %.1f ms since step %d, %.1f ms before, on all ranks alike",
                        ch->after / 1e6, shift->onset, ch->before / 1e6);
    return argus_evidence_line(e, m, -1, "step_ms", ch->after / 1e6, ch->before / 1e6, "ms",
                               "median since onset, before");
}

static int regression(const struct argus_model *m, struct argus_evidence_list *out)
{
    struct argus_series y;
    struct argus_change ch;
    struct argus_shift shift;
    int rc = argus_series_init(&y, m);

    if (rc)
        goto out;
    argus_series_step_times(&y, m);
    if (y.n < 2 * ARGUS_SHIFT_MIN_LENGTH)
        goto out;
    ch = argus_change_find(y.x, (size_t)y.n, MIN_RATIO, ARGUS_SHIFT_MIN_LENGTH, 0);
    if (argus_shift_place(&shift, m, &y, &ch)) {
        shift.ratio = ch.ratio;
        shift.persistence = 1;
        rc = report_regression(m, out, &y, &ch, &shift);
    }
out:
    argus_series_clear(&y);
    return rc;
}

int argus_detect_uniform(const struct argus_model *m, struct argus_evidence_list *out)
{
    double step = argus_typical_step(m);
    double comm = typical(m, ARGUS_COL_EXPOSED, ARGUS_COL_WAIT) / step;
    double copy = typical(m, ARGUS_COL_COPY, ARGUS_COL_COUNT) / step;

    if (comm >= BOUND_SHARE && bound(m, out, comm, "communication-bound", ARGUS_COL_EXPOSED,
                                     ARGUS_COL_WAIT, "communication that nothing hides"))
        return -1;
    if (copy >= BOUND_SHARE && bound(m, out, copy, "copy-bound", ARGUS_COL_COPY, ARGUS_COL_COUNT,
                                     "copies that nothing hides"))
        return -1;
    return regression(m, out);
}
