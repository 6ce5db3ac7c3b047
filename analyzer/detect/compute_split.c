/* SPDX-License-Identifier: Apache-2.0 */
/* Two sides that compute at different speed: half of the ranks, or one of two or three. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/compute.h"

#define SPLIT_SMALL 1.04 /* ratio of two or three ranks that is no longer one of silicon */
#define SPLIT_RATIO 1.03 /* ... of two halves */
#define SIDE_SPREAD 0.75 /* of that, within either side */

/* The slow side is brought to the level of the fast one. */
static int add_share(const struct argus_model *m, struct argus_evidence *e, int rank, double share)
{
    float *x = argus_evidence_excess(e, m, rank);

    for (int k = 0; x && k < m->n_steps; k++) {
        double own = (double)argus_rank_col(&m->ranks[rank], ARGUS_COL_COMPUTE, k);

        if (m->use[k] && own > 0)
            x[k] = (float)(own * share);
    }
    return x ? 0 : -1;
}

/* Half slow, half not, and nothing to tell which is wrong. */
static int report_split(const struct argus_model *m, struct argus_evidence_list *out,
                        const struct argus_cohort *c, const struct argus_slow *slow, size_t n,
                        double share)
{
    struct argus_evidence *e = argus_evidence_add(out, "compute", ARGUS_VERDICT_SPLIT);
    char fast[256] = "", slower[256] = "";

    if (!e)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (argus_evidence_rank(e, slow[i].rank) || add_share(m, e, slow[i].rank, share) ||
            argus_evidence_line(e, m, slow[i].rank, "compute_ratio", slow[i].shift.ratio, 1.0,
                                "ratio", "against the other side"))
            return -1;
    for (size_t i = 0; i < c->n; i++) {
        int is_slow = 0;
        char *to;

        for (size_t j = 0; j < n; j++)
            is_slow |= slow[j].rank == c->ranks[i];
        to = is_slow ? slower : fast;
        if (strlen(to) < 200)
            sprintf(to + strlen(to), "%s%d", *to ? "," : "", m->ranks[c->ranks[i]].rank);
    }
    argus_shift_describe(&slow[0].shift, e);
    argus_evidence_text(e,
                        "ranks %s compute %.1f %% longer than ranks %s; %s nothing in the job "
                        "tells which is wrong",
                        slower, 100 * (slow[0].shift.ratio - 1), fast,
                        2 * n == c->n ? "with as many on either side" : "among so few");
    return 0;
}

struct level {
    int rank;
    double ratio; /* median over the steps of the rank's time / the cohort's median */
};

static int level_cmp(const void *a, const void *b)
{
    const struct level *x = a, *y = b;

    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Levels of all ranks against the median of the whole cohort, in order. */
static struct level *levels(const struct argus_model *m, const struct argus_cohort *c, double *work,
                            size_t *n)
{
    struct level *l = calloc(c->n + 1, sizeof(*l));
    double *x = malloc((c->n + 1) * sizeof(*x));

    *n = 0;
    for (size_t i = 0; l && x && i < c->n; i++) {
        int points = 0;

        for (int k = 0; k < m->n_steps; k++) {
            double own = (double)argus_rank_col(&m->ranks[c->ranks[i]], c->column, k);
            /* the fastest of a handful, the median of many: a level that exists */
            double ref = c->reference ? (double)c->reference[k] : argus_cohort_least(c, m, k);

            if (m->use[k] && !isnan(own) && ref > 0)
                work[points++] = own / ref / argus_cohort_load(c, c->ranks[i]);
        }
        if (points >= ARGUS_SHIFT_MIN_LENGTH)
            l[(*n)++] = (struct level){c->ranks[i], argus_median_inplace(work, (size_t)points)};
    }
    if (l)
        qsort(l, *n, sizeof(*l), level_cmp);
    free(x);
    return l;
}

/* Two tight sides with a gap between them, the slow one no minority: nobody can be blamed.
 * Returns 1 when that is so (and evidence was added), -1 on no memory. */
int argus_compute_find_split(const struct argus_model *m, const struct argus_cohort *c,
                             double *work, struct argus_evidence_list *out)
{
    size_t n, cut = 0, slow_n;
    struct level *l = levels(m, c, work, &n);
    double gap = 0, ratio;
    struct argus_slow *slow;
    int rc = 0;

    if (!l)
        return -1;
    for (size_t i = 1; i < n; i++)
        if (l[i].ratio / l[i - 1].ratio - 1 > gap) {
            gap = l[i].ratio / l[i - 1].ratio - 1;
            cut = i;
        }
    slow_n = n - cut;
    /* one of two or three is no minority that could be blamed either */
    if (n < 2 || !cut ||
        (n >= ARGUS_COMPUTE_NAMED_FROM && (slow_n * 5 < n * 2 || slow_n * 5 > n * 3)))
        goto out;
    ratio = l[(cut + n) / 2].ratio / l[cut / 2].ratio;
    if (ratio < (n < ARGUS_COMPUTE_NAMED_FROM ? SPLIT_SMALL : SPLIT_RATIO) ||
        l[n - 1].ratio / l[cut].ratio > 1 + SIDE_SPREAD * (ratio - 1) ||
        l[cut - 1].ratio / l[0].ratio > 1 + SIDE_SPREAD * (ratio - 1))
        goto out;
    slow = calloc(slow_n + 1, sizeof(*slow));
    if (!slow) {
        rc = -1;
        goto out;
    }
    for (size_t i = 0; i < slow_n; i++)
        slow[i] = (struct argus_slow){.rank = l[cut + i].rank,
                                      .shift = {.kind = ARGUS_CHANGE_CONSTANT,
                                                .onset = -1,
                                                .recovered = -1,
                                                .end = m->n_steps,
                                                .base = 1,
                                                .ratio = ratio,
                                                .persistence = 1}};
    for (size_t i = 0; i < slow_n && rc >= 0; i++) {
        /* more work is no slowness */
        if (!argus_class_views(m, c, &slow[i]))
            rc = -1;
        else if (slow[i].views.n && slow[i].views.explained < 0.4)
            rc = 2;
        argus_class_views_clear(&slow[i].views);
    }
    if (!rc)
        rc = report_split(m, out, c, slow, slow_n, 1 - 1 / ratio) ? -1 : 1;
    else if (rc == 2)
        rc = 0;
    free(slow);
out:
    free(l);
    return rc;
}
