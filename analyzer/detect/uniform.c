/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uniform slow-down: all ranks alike, nobody to blame.  Either the job spends
 * most of its time in something that is not computing (communication, copies),
 * or it is slower than it was.
 */
#include <config.h>
#include <stdlib.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define BOUND_SHARE 0.5     /* of the step */
#define ONE_CALL_SHARE 0.33 /* ... that a single call takes */
#define MIN_RATIO 1.03      /* of a regression; the scan asks for significance */
#define MIN_LENGTH 10

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

static int regression(const struct argus_model *m, struct argus_evidence_list *out)
{
    size_t steps = (size_t)m->n_steps + 1;
    double *y = malloc(steps * sizeof(*y));
    int *at = malloc(steps * sizeof(int)), n = 0, rc = 0;
    struct argus_change ch = {0};
    struct argus_evidence *e;

    if (!y || !at) {
        rc = -1;
        goto out;
    }
    for (int k = 0; k < m->n_steps; k++)
        if (m->use[k]) {
            y[n] = argus_model_step_time(m, k);
            at[n++] = k;
        }
    if (n >= 2 * MIN_LENGTH)
        ch = argus_change_find(y, (size_t)n, MIN_RATIO, MIN_LENGTH, 0);
    if (ch.kind != ARGUS_CHANGE_STEP && ch.kind != ARGUS_CHANGE_EPISODE &&
        ch.kind != ARGUS_CHANGE_RAMP)
        goto out;
    e = argus_evidence_add(out, "uniform", ARGUS_VERDICT_UNIFORM_SLOWDOWN);
    if (!e) {
        rc = -1;
        goto out;
    }
    e->onset = at[ch.onset];
    e->recovered = ch.recovered < (size_t)n ? at[ch.recovered] : ARGUS_UNKNOWN;
    e->outside = 2;
    e->subkind = "regression";
    e->pattern = ch.kind == ARGUS_CHANGE_RAMP      ? "ramp"
                 : ch.kind == ARGUS_CHANGE_EPISODE ? "episode"
                                                   : "persistent";
    e->effect = ch.ratio - 1;
    for (size_t i = 0; i < m->n_ranks && !rc; i++) {
        float *x = argus_evidence_excess(e, m, (int)i);

        if (!x)
            rc = -1;
        for (size_t p = ch.onset; x && p < ch.recovered; p++)
            x[at[p]] = (float)(y[p] > ch.before ? y[p] - ch.before : 0);
    }
    argus_evidence_text(e,
                        "the step takes %.1f ms since step %d, %.1f ms before, on all ranks alike",
                        ch.after / 1e6, at[ch.onset], ch.before / 1e6);
    if (!rc)
        rc = argus_evidence_line(e, m, -1, "step_ms", ch.after / 1e6, ch.before / 1e6, "ms",
                                 "median since onset, before");
out:
    free(y);
    free(at);
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
