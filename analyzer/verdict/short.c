/* SPDX-License-Identifier: Apache-2.0 */
/* A recording too short for a verdict: what it does show, without blame. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/detect/arrival.h"
#include "analyzer/stats/stats.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"

#define BOUND_SHARE 0.5
#define LISTED 16 /* ranks whose waiting is listed */

/* Median over ranks of the share of a column in the time of all steps, compared or not. */
static double share_of(const struct argus_model *m, enum argus_column c)
{
    double *x = malloc((m->n_ranks + 1) * sizeof(*x)), share;
    size_t n = 0;

    if (!x)
        return NAN;
    for (size_t i = 0; i < m->n_ranks; i++) {
        double part = 0, all = 0;

        for (int k = 0; k < m->n_steps; k++) {
            float d = argus_rank_col(&m->ranks[i], ARGUS_COL_DURATION, k);

            if (isnan(d))
                continue;
            all += (double)d;
            part += (double)argus_rank_col(&m->ranks[i], c, k);
        }
        if (all > 0)
            x[n++] = part / all;
    }
    share = argus_median_inplace(x, n);
    free(x);
    return share;
}

static int copy_bound(const struct argus_model *m, struct argus_verdict *v)
{
    double share = share_of(m, ARGUS_COL_COPY_BUSY);
    struct argus_finding *f;
    char text[160];

    if (!(share >= BOUND_SHARE))
        return 0;
    f = argus_verdict_add_finding(v, ARGUS_VERDICT_UNIFORM_SLOWDOWN, ARGUS_SEVERITY_INFO);
    snprintf(text, sizeof(text),
             "copies fill %.0f %% of the time on all ranks alike: the job is bound by them",
             100 * share);
    if (!f || argus_verdict_set(&f->subkind, "copy-bound") ||
        argus_verdict_set(&f->pattern, "persistent") || argus_verdict_set(&f->text, text))
        return -1;
    return argus_verdict_add_evidence(v, "copy_share", ARGUS_UNKNOWN, NULL, share, NAN, "share",
                                      "time in which some copy runs")
               ? 0
               : -1;
}

static const char *node_of(const struct argus_model *m, size_t i)
{
    return m->nodes[m->ranks[i].node][0] ? m->nodes[m->ranks[i].node] : NULL;
}

/* The rank that begins its steps latest, clocks put right, against the first one to begin. */
static int late_start(const struct argus_model *m, const struct argus_arrivals *a,
                      struct argus_verdict *v)
{
    double *late = calloc(2 * (m->n_ranks + 1), sizeof(*late)), *x = late + m->n_ranks + 1;
    size_t who = 0, steps = 0;
    char text[128];
    int rc = 0;

    for (int k = 0; late && k < m->n_steps; k++) {
        double first = INFINITY;
        size_t with = 0;

        for (size_t i = 0; i < m->n_ranks; i++) {
            int row = argus_rank_row(&m->ranks[i], k);

            if (row < 0)
                continue;
            x[i] = (double)(m->ranks[i].start[row] - m->ranks[0].start[0]) - a->clock[i];
            first = fmin(first, x[i]);
            with++;
        }
        if (with < m->n_ranks)
            continue;
        steps++;
        for (size_t i = 0; i < m->n_ranks; i++)
            late[i] += x[i] - first;
    }
    for (size_t i = 0; late && i < m->n_ranks; i++) {
        x[i] = late[i] = steps ? late[i] / (double)steps : 0;
        if (late[i] > late[who])
            who = i;
    }
    if (late && late[who] > 0 &&
        !argus_verdict_add_evidence(v, "late_start_ms", m->ranks[who].rank, node_of(m, who),
                                    late[who] / 1e6, argus_median_inplace(x, m->n_ranks) / 1e6,
                                    "ms", "begins its steps this much after the first rank, mean"))
        rc = -1;
    if (!rc && late && late[who] >= 1e6)
        rc = argus_verdict_add_explained(v, "%s begins its steps %.1f ms after the first rank",
                                         argus_rank_text(m, (int)who, text, sizeof(text)),
                                         late[who] / 1e6);
    free(late);
    return rc;
}

static int last_arriver(const struct argus_model *m, const struct argus_arrivals *a,
                        struct argus_verdict *v)
{
    size_t who = 0;
    char note[128], text[128];

    for (size_t i = 1; i < m->n_ranks; i++)
        if (a->last[i] > a->last[who] || (a->last[i] == a->last[who] && a->late[i] > a->late[who]))
            who = i;
    snprintf(note, sizeof(note), "calls of %zu that it came last to", a->calls);
    if (!argus_verdict_add_evidence(v, "last_arrivals", m->ranks[who].rank, node_of(m, who),
                                    (double)a->last[who], (double)a->calls / (double)m->n_ranks,
                                    "calls", note) ||
        !argus_verdict_add_evidence(v, "late_ms", m->ranks[who].rank, node_of(m, who),
                                    a->late[who] / 1e6, 0, "ms",
                                    "most that it came late by: median of the others' waits"))
        return -1;
    return argus_verdict_add_explained(
        v, "%s comes last to %zu of %zu collectives, by %.1f ms at most",
        argus_rank_text(m, (int)who, text, sizeof(text)), a->last[who], a->calls,
        a->late[who] / 1e6);
}

int argus_short_recording(struct argus_model *m, struct argus_verdict *v)
{
    struct argus_arrivals a;
    int rc;

    if (copy_bound(m, v))
        return -1;
    if (m->n_ranks < 2 || argus_arrivals_find(m, &a))
        return 0;
    rc = a.calls ? last_arriver(m, &a, v) || late_start(m, &a, v) : 0;
    for (size_t i = 0; i < m->n_ranks && i < LISTED && a.calls && !rc; i++)
        if (!argus_verdict_add_evidence(v, "collective_wait_ms", m->ranks[i].rank, node_of(m, i),
                                        a.wait[i] / 1e6, a.total[i] / 1e6, "ms",
                                        "waiting in matched collectives, against its time in them"))
            rc = -1;
    argus_arrivals_clear(&a);
    return rc ? -1 : 0;
}
