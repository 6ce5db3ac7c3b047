/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations as distributions: each rank's are rebuilt as a log-normal mixture
 * from its windows, and compared by the Wasserstein distance, which sees tails
 * and second modes that medians do not.  The sign comes from the mean
 * difference: a fast rank is far from the others, too.  Outliers by median +
 * MAD with an effect floor.
 *
 * A rank that the compute detector named gets its distance as evidence; a rank
 * that it did not name, because its steps are hardly longer, is a finding.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define HEAVIEST 8 /* classes looked at */
#define QUANTILES 64
#define MIN_RANKS 4
#define MAX_RANKS 16384
#define MADS 5.0          /* x 1.4826 */
#define EFFECT_FLOOR 0.05 /* of the peers' mean duration */
#define MIN_CALLS 40
#define MIN_SHARE 0.01 /* of the compute time */
#define MAX_WINDOWS 64

struct heavy {
    int kernel_class;
    double time;
};

static int heavy_cmp(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;

    return x->time > y->time ? -1 : x->time < y->time;
}

/* The classes that take most of the first rank's time. */
static size_t heaviest(const struct argus_model *m, const struct argus_model_rank *r,
                       struct heavy *out)
{
    struct heavy *all = calloc(r->n_classes + 1, sizeof(*all));
    double total = 0;
    size_t n = 0, kept = 0;

    for (size_t i = 0; all && i < r->n_classes; i++) {
        double time = 0;

        if (m->kernel_classes[r->classes[i].kernel_class].kind == ARGUS_CLASS_COPY)
            continue;
        for (int w = 0; w < r->n_windows; w++)
            time += (double)r->classes[i].sum[w];
        total += time;
        all[n++] = (struct heavy){r->classes[i].kernel_class, time};
    }
    if (n)
        qsort(all, n, sizeof(*all), heavy_cmp);
    while (kept < n && kept < HEAVIEST && all[kept].time >= MIN_SHARE * total) {
        out[kept] = all[kept];
        kept++;
    }
    free(all);
    return kept;
}

static int whole_window(const struct argus_model *m, const struct argus_model_rank *r, int w)
{
    int k = (r->window_first[w] + r->window_last[w]) / 2 + r->shift;

    return k >= 0 && k < m->n_steps && m->use[k];
}

/* The rank's mixture of one class; number of modes, 0: too few calls. */
static size_t mixture(const struct argus_model *m, const struct argus_model_rank *r,
                      int kernel_class, struct argus_mode *modes)
{
    const struct argus_rank_class *c = argus_rank_find_class(r, kernel_class);
    size_t n = 0;
    double calls = 0;

    for (int w = 0; c && w < r->n_windows && n < MAX_WINDOWS; w++) {
        if (!whole_window(m, r, w) || !(c->typical[w] > 0) || !(c->count[w] > 0))
            continue;
        modes[n++] = (struct argus_mode){.count = (uint64_t)c->count[w],
                                         .sum = (int64_t)c->sum[w],
                                         .p50 = (int64_t)c->typical[w],
                                         .p99 = (int64_t)fmaxf(c->p99[w], c->typical[w])};
        calls += (double)c->count[w];
    }
    return calls >= MIN_CALLS ? n : 0;
}

static struct argus_evidence *known(struct argus_evidence_list *out, int rank)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->items[i].kind == ARGUS_VERDICT_COMPUTE_STRAGGLER)
            for (size_t j = 0; j < out->items[i].n_ranks; j++)
                if (out->items[i].ranks[j] == rank)
                    return &out->items[i];
    return NULL;
}

static int split_known(const struct argus_evidence_list *out)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->items[i].kind == ARGUS_VERDICT_SPLIT)
            return 1;
    return 0;
}

static int add_finding(const struct argus_model *m, struct argus_evidence_list *out, int rank,
                       const char *name, double w1, double sign, double mean)
{
    struct argus_evidence *e =
        argus_evidence_add(out, "distribution", ARGUS_VERDICT_COMPUTE_STRAGGLER);
    char who[128];

    if (!e || argus_evidence_rank(e, rank))
        return -1;
    e->subkind = "one-class";
    e->pattern = "persistent";
    e->effect = sign / mean;
    argus_evidence_text(e,
                        "durations of %.80s on %s lie %.0f us (%.0f %%) from those of its peers, "
                        "towards slow; the step is hardly longer for it",
                        name, argus_rank_text(m, rank, who, sizeof(who)), w1 / 1e3,
                        100 * w1 / mean);
    return argus_evidence_line(e, m, rank, "w1_us", w1 / 1e3, NAN, "us", name);
}

/* Experts that take as long on the other replicas of the shard: that is what there is to do. */
static int asked_for(const struct argus_model *m, const int *ranks, const double *means, size_t n,
                     size_t i)
{
    double *x = malloc((n + 1) * sizeof(*x)), median;
    size_t replicas = 0;

    for (size_t j = 0; x && j < n; j++)
        if (j != i && argus_same_shard(m, ranks[i], ranks[j]))
            x[replicas++] = means[j];
    median = x && replicas ? argus_median_inplace(x, replicas) : NAN;
    free(x);
    return means[i] <= (1 + EFFECT_FLOOR) * median;
}

static int judge_class(const struct argus_model *m, const struct argus_peer_set *set,
                       const struct heavy *h, struct argus_evidence_list *out)
{
    double *q = malloc(set->n * QUANTILES * sizeof(*q)), *w1 = malloc(3 * set->n * sizeof(*w1)),
           *sign = w1 + set->n, *means = sign + set->n;
    int *ranks = malloc(set->n * sizeof(int)), rc = q && w1 && ranks ? 0 : -1;
    struct argus_mode modes[MAX_WINDOWS];
    double median, mad, mean;
    size_t n = 0;

    for (size_t i = 0; i < set->n && !rc; i++) {
        size_t n_modes = mixture(m, &m->ranks[set->ranks[i]], h->kernel_class, modes);

        if (!n_modes || argus_mixture_quantiles(modes, n_modes, q + n * QUANTILES, QUANTILES))
            continue;
        means[n] = 0;
        for (int g = 0; g < QUANTILES; g++)
            means[n] += q[n * QUANTILES + (size_t)g] / QUANTILES;
        ranks[n++] = set->ranks[i];
    }
    if (rc || n < MIN_RANKS || argus_w1_mean(q, n, QUANTILES, w1, sign))
        goto out;
    median = argus_median(w1, n);
    mad = argus_mad(w1, n, median);
    mean = argus_median(means, n);
    for (size_t i = 0; i < n && !rc; i++) {
        struct argus_evidence *e;

        if (!(sign[i] > 0) || w1[i] <= median + MADS * 1.4826 * mad ||
            w1[i] < EFFECT_FLOOR * mean || sign[i] < 0.5 * w1[i] ||
            (m->kernel_classes[h->kernel_class].family == ARGUS_FAMILY_EXPERT &&
             asked_for(m, ranks, means, n, i)))
            continue;
        if ((e = known(out, ranks[i]))) {
            if (!strcmp(e->detector, "compute") && e->n_lines < 6)
                rc = argus_evidence_line(e, m, ranks[i], "w1_us", w1[i] / 1e3, median / 1e3, "us",
                                         m->kernel_classes[h->kernel_class].name);
        } else if (!split_known(out)) {
            rc = add_finding(m, out, ranks[i], m->kernel_classes[h->kernel_class].name, w1[i],
                             sign[i], mean);
        }
    }
out:
    free(q);
    free(w1);
    free(ranks);
    return rc;
}

int argus_detect_distribution(const struct argus_model *m, struct argus_evidence_list *out)
{
    int rc = 0;

    for (size_t p = 0; p < m->n_peer_sets && !rc; p++) {
        const struct argus_peer_set *set = &m->peer_sets[p];
        struct heavy heavy[HEAVIEST];
        size_t n;

        if (set->n < MIN_RANKS || set->n > MAX_RANKS)
            continue;
        n = heaviest(m, &m->ranks[set->ranks[0]], heavy);
        for (size_t i = 0; i < n && !rc; i++)
            rc = judge_class(m, set, &heavy[i], out);
    }
    return rc;
}
