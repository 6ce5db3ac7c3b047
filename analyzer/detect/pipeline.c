/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipeline imbalance: one stage computes longer than the others, on all of its
 * replicas, and the other stages wait for it in receives.  The gradient
 * synchronisation makes all step times equal, so only busy compute shows it.
 * One replica of a stage is a straggler, not a stage.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define MIN_RATIO 1.03     /* what it costs decides */
#define REPLICAS_AGREE 0.5 /* every replica shows at least this part of the stage's excess */

static double rank_compute(const struct argus_model *m, int i)
{
    return argus_model_rank_median(m, (size_t)i, ARGUS_COL_COMPUTE);
}

struct stage {
    double compute, least, exposed_wait;
    size_t ranks;
};

static int measure(const struct argus_model *m, struct stage *stages, int n)
{
    double *x = malloc((m->n_ranks + 1) * sizeof(*x)), *w = malloc((m->n_ranks + 1) * sizeof(*w));

    if (!x || !w) {
        free(x);
        free(w);
        return -1;
    }
    for (int s = 0; s < n; s++) {
        size_t points = 0;

        for (size_t i = 0; i < m->n_ranks; i++) {
            double v = m->ranks[i].pp == s ? rank_compute(m, (int)i) : NAN;

            if (isnan(v))
                continue;
            w[points] = argus_model_rank_median(m, i, ARGUS_COL_WAIT);
            x[points++] = v;
        }
        stages[s].ranks = points;
        stages[s].least = argus_quantile_inplace(x, points, 0);
        stages[s].compute = argus_median_inplace(x, points);
        stages[s].exposed_wait = argus_median_inplace(w, points);
    }
    free(x);
    free(w);
    return 0;
}

static int report(const struct argus_model *m, struct argus_evidence_list *out,
                  const struct stage *stages, int n, int slow, double reference)
{
    struct argus_evidence *e =
        argus_evidence_add(out, "pipeline", ARGUS_VERDICT_PIPELINE_IMBALANCE);
    double ratio = stages[slow].compute / reference;

    if (!e)
        return -1;
    for (size_t i = 0; i < m->n_ranks; i++) {
        float *x;

        if (m->ranks[i].pp != slow)
            continue;
        if (!(x = argus_evidence_excess(e, m, (int)i)))
            return -1;
        for (int k = 0; k < m->n_steps; k++) {
            double v = m->use[k] ? (double)argus_rank_col(&m->ranks[i], ARGUS_COL_COMPUTE, k) : NAN;

            if (v > reference)
                x[k] = (float)(v * (1 - 1 / ratio));
        }
    }
    e->stage = slow;
    e->effect = ratio - 1;
    e->pattern = "persistent";
    e->phase = argus_stage_phase(m, slow);
    for (int s = 0; s < n; s++) {
        char note[64];

        snprintf(note, sizeof(note), "stage %d, median of %zu ranks", s, stages[s].ranks);
        if (argus_evidence_line(e, m, -1, "stage_compute_ms", stages[s].compute / 1e6,
                                reference / 1e6, "ms", note) ||
            argus_evidence_line(e, m, -1, "stage_wait_ms", stages[s].exposed_wait / 1e6, NAN, "ms",
                                note))
            return -1;
    }
    argus_evidence_text(e,
                        "stage %d computes %.2f times as long as the other stages (%.1f against "
                        "%.1f ms a step) on all of its %zu ranks; the others wait in receives",
                        slow, ratio, stages[slow].compute / 1e6, reference / 1e6,
                        stages[slow].ranks);
    return 0;
}

int argus_detect_pipeline(const struct argus_model *m, struct argus_evidence_list *out)
{
    int n = m->topology.pp, slow = 0, rc = 0;
    struct stage *stages;
    double *others, reference, ratio;
    size_t points = 0;

    if (n < 2)
        return 0;
    stages = calloc((size_t)n, sizeof(*stages));
    others = calloc((size_t)n, sizeof(*others));
    if (!stages || !others || measure(m, stages, n)) {
        rc = -1;
        goto out;
    }
    for (int s = 1; s < n; s++)
        if (stages[s].compute > stages[slow].compute)
            slow = s;
    for (int s = 0; s < n; s++)
        if (s != slow && stages[s].compute > 0)
            others[points++] = stages[s].compute;
    reference = argus_median_inplace(others, points);
    if (!(reference > 0) || !(stages[slow].compute > 0))
        goto out;
    ratio = stages[slow].compute / reference;
    /* a single replica may as well be a slow GPU: its kernels decide, see compute.c */
    if (ratio >= MIN_RATIO && stages[slow].ranks >= 2 &&
        stages[slow].least / reference >= 1 + REPLICAS_AGREE * (ratio - 1))
        rc = report(m, out, stages, n, slow, reference);
    else if (ratio >= MIN_RATIO && stages[slow].ranks == 1)
        rc = argus_single_replica(m, slow) ? report(m, out, stages, n, slow, reference) : 0;
out:
    free(stages);
    free(others);
    return rc;
}

/* One replica a stage: a stage that runs other or more kernels is heavier by design; one that runs
 * the same ones is left to the compute detector. */
int argus_single_replica(const struct argus_model *m, int stage)
{
    const struct argus_model_rank *own = NULL;
    size_t alike = 0, all = 0;

    for (size_t i = 0; i < m->n_ranks; i++)
        if (m->ranks[i].pp == stage)
            own = &m->ranks[i];
    for (size_t i = 0; own && i < m->n_ranks; i++) {
        if (&m->ranks[i] == own)
            continue;
        all++;
        alike += argus_model_alike(m, own, &m->ranks[i]) >= 0.9;
    }
    return own && alike * 2 < all;
}

const char *argus_stage_phase(const struct argus_model *m, int stage)
{
    static const struct {
        enum argus_column column;
        const char *name;
    } phases[] = {{ARGUS_COL_FORWARD, "forward"}, {ARGUS_COL_BACKWARD, "backward"}};
    double excess[2] = {0, 0};

    for (int p = 0; p < 2; p++) {
        double own = 0, others = 0;
        size_t n_own = 0, n_others = 0;

        for (size_t i = 0; i < m->n_ranks; i++) {
            double v = argus_model_rank_median(m, i, phases[p].column);

            if (isnan(v))
                continue;
            if (m->ranks[i].pp == stage) {
                own += v;
                n_own++;
            } else {
                others += v;
                n_others++;
            }
        }
        if (n_own && n_others)
            excess[p] = own / (double)n_own - others / (double)n_others;
    }
    if (excess[0] <= 0 && excess[1] <= 0)
        return NULL;
    return excess[1] >= excess[0] ? "backward" : "forward";
}
