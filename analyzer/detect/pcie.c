/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow PCIe: copies between host and GPU of one rank take longer than those of
 * its peers, for the same bytes in the same direction.
 *
 *   q_r(k)   time in copies of rank r in step k over the median of its peers,
 *            in steps where it copies as many bytes as they do
 *   class    direction and size; typical duration against the peers' median
 *
 * A rank is slow when q shifts up and stays, the shift is an outlier, and its
 * copies to and from the host, class by class, are slower.  Copies within the
 * GPU and between GPUs do not count.  The GPU is busy with the copy all the
 * while: it is no host stall; and the others do not copy as long: the job is
 * not bound by copies.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define MIN_RATIO 1.15
#define MIN_Z 3.5
#define SPREAD_FLOOR 0.02
#define MIN_LENGTH 10
#define MIN_PERSISTENCE 0.8
#define SAME_BYTES 0.02
#define CLASSES_AGREE 0.8 /* of the time in host copies lies in slower classes */
#define NAMED_FROM 4
#define COPY_TO_DEVICE 1 /* CUpti_ActivityMemcpyKind */
#define COPY_TO_HOST 2

struct slow {
    int rank, onset, recovered, first, end;
    double ratio, z, persistence;
    /* the copy class that costs most */
    int kernel_class;
    double own, ref; /* ns a copy */
    double agreement;
};

struct scan {
    const struct argus_model *m;
    double *q, *work;
    int *at;
};

static int host_copy(const struct argus_model *m, int kernel_class)
{
    const struct argus_kernel_class *c = &m->kernel_classes[kernel_class];

    return c->kind == ARGUS_CLASS_COPY && (c->func == COPY_TO_DEVICE || c->func == COPY_TO_HOST) &&
           c->bytes > 0;
}

/* Steps in which the rank copies what its peers copy. */
static int series(struct scan *s, const struct argus_cohort *busy, const struct argus_cohort *bytes,
                  int i)
{
    int n = argus_cohort_ratio(busy, s->m, i, s->q, s->at), kept = 0;

    for (int p = 0; p < n; p++) {
        double own = (double)argus_rank_col(&s->m->ranks[i], ARGUS_COL_COPY_BYTES, s->at[p]);
        double ref = argus_cohort_reference(bytes, s->m, i, s->at[p]);

        if (!(ref > 0) || fabs(own - ref) > SAME_BYTES * ref)
            continue;
        s->q[kept] = s->q[p];
        s->at[kept++] = s->at[p];
    }
    return kept;
}

static double median_in(struct scan *s, int n, int first, int end)
{
    size_t p = 0;

    for (int i = 0; i < n; i++)
        if (s->at[i] >= first && s->at[i] < end)
            s->work[p++] = s->q[i];
    return argus_median_inplace(s->work, p);
}

static int find_shift(struct scan *s, int n, struct slow *slow)
{
    struct argus_change ch;
    int held = 0, all = 0;

    if (n < MIN_LENGTH)
        return 0;
    ch = argus_ratio_change(s->q, (size_t)n, MIN_RATIO, MIN_LENGTH);
    if (ch.kind == ARGUS_CHANGE_NONE || ch.kind == ARGUS_CHANGE_SPIKES)
        return 0;
    slow->onset = ch.kind == ARGUS_CHANGE_CONSTANT ? -1 : s->at[ch.onset];
    slow->recovered = ch.recovered < (size_t)n ? s->at[ch.recovered] : -1;
    slow->first = slow->onset > 0 ? slow->onset : 0;
    slow->end = slow->recovered >= 0 ? slow->recovered : s->m->n_steps;
    slow->ratio = median_in(s, n, slow->first, slow->end);
    for (int i = 0; i < n; i++)
        if (s->at[i] >= slow->first && s->at[i] < slow->end) {
            all++;
            held += s->q[i] >= 1 + 0.5 * (slow->ratio - 1);
        }
    slow->persistence = all ? (double)held / all : 0;
    return slow->ratio >= MIN_RATIO && slow->persistence >= MIN_PERSISTENCE;
}

/* Of two or three nobody can tell who is slow, but one that changed can be told. */
static int own_past(struct scan *s, const struct slow *slow)
{
    const struct argus_model_rank *r = &s->m->ranks[slow->rank];
    double before, after;
    int n = 0;

    if (slow->onset < 0)
        return 0;
    for (int k = 0; k < s->m->n_steps; k++) {
        float v = s->m->use[k] ? argus_rank_col(r, ARGUS_COL_COPY_BUSY, k) : NAN;

        if (!isnan(v)) {
            s->q[n] = (double)v;
            s->at[n++] = k;
        }
    }
    before = median_in(s, n, 0, slow->onset);
    after = median_in(s, n, slow->onset, slow->end);
    return before > 0 && after / before >= 1 + 0.6 * (slow->ratio - 1);
}

static double outlier(struct scan *s, const struct argus_cohort *busy,
                      const struct argus_cohort *bytes, const struct slow *slow)
{
    double *r = malloc((busy->n + 1) * sizeof(*r)), median, mad;
    size_t n = 0;

    if (!r)
        return NAN;
    for (size_t i = 0; i < busy->n; i++) {
        double v;

        if (busy->ranks[i] == slow->rank)
            continue;
        v = median_in(s, series(s, busy, bytes, busy->ranks[i]), slow->first, slow->end);
        if (!isnan(v))
            r[n++] = v;
    }
    median = argus_median(r, n);
    mad = argus_mad(r, n, median);
    free(r);
    return argus_robust_z(slow->ratio, median, mad, SPREAD_FLOOR);
}

/* Typical duration of a class over the windows that lie in the span; NAN: not run there. */
static double typical_in(const struct argus_model_rank *r, const struct argus_rank_class *c,
                         int first, int end, double *time)
{
    double sum = 0, count = 0;

    *time = 0;
    for (int w = 0; c && w < r->n_windows; w++) {
        double share = argus_rank_window_share(r, w, first, end);

        if (share < 0.5 || !(c->count[w] > 0) || isnan(c->typical[w]))
            continue;
        sum += (double)c->typical[w] * (double)c->count[w];
        count += (double)c->count[w];
        *time += (double)c->sum[w];
    }
    return count > 0 ? sum / count : NAN;
}

/* Class by class: are its copies to and from the host slower? */
static int classes_agree(const struct scan *s, const struct argus_cohort *c, struct slow *slow)
{
    const struct argus_model_rank *r = &s->m->ranks[slow->rank];
    double *x = malloc((c->n + 1) * sizeof(*x)), all = 0, slower = 0, most = 0, time, other;

    slow->kernel_class = -1;
    for (size_t i = 0; x && i < r->n_classes; i++) {
        int id = r->classes[i].kernel_class;
        double own, ref;
        size_t n = 0;

        if (!host_copy(s->m, id))
            continue;
        own = typical_in(r, &r->classes[i], slow->first, slow->end, &time);
        for (size_t j = 0; j < c->n; j++) {
            const struct argus_model_rank *p = &s->m->ranks[c->ranks[j]];

            if (c->ranks[j] == slow->rank)
                continue;
            x[n] = typical_in(p, argus_rank_find_class(p, id), slow->first, slow->end, &other);
            n += !isnan(x[n]);
        }
        ref = argus_median_inplace(x, n);
        if (isnan(own) || isnan(ref))
            continue;
        all += time;
        if (own < ref * (1 + 0.5 * (slow->ratio - 1)))
            continue;
        slower += time;
        if (time * (1 - ref / own) > most) {
            most = time * (1 - ref / own);
            slow->kernel_class = id;
            slow->own = own;
            slow->ref = ref;
        }
    }
    free(x);
    slow->agreement = all > 0 ? slower / all : 0;
    return slow->kernel_class >= 0 && slow->agreement >= CLASSES_AGREE;
}

static int add_excess(const struct scan *s, struct argus_evidence *e,
                      const struct argus_cohort *exposed, const struct slow *slow)
{
    float *x = argus_evidence_excess(e, s->m, slow->rank);

    if (!x)
        return -1;
    for (int k = slow->first; k < slow->end && k < s->m->n_steps; k++) {
        double own = (double)argus_rank_col(&s->m->ranks[slow->rank], ARGUS_COL_COPY, k);
        double d = s->m->use[k] ? own - argus_cohort_reference(exposed, s->m, slow->rank, k) : NAN;

        if (d > 0)
            x[k] = (float)d;
    }
    return 0;
}

static int describe(const struct argus_model *m, struct argus_evidence *e, const struct slow *slow)
{
    const struct argus_kernel_class *c = &m->kernel_classes[slow->kernel_class];
    const char *way = c->func == COPY_TO_DEVICE ? "host to device" : "device to host";
    double bytes = (double)c->bytes;
    char note[128], who[160];

    snprintf(note, sizeof(note), "copies %s of %llu bytes", way, (unsigned long long)c->bytes);
    argus_evidence_text(e,
                        "copies between host and GPU of %s take %.2f times as long as its peers': "
                        "%s at %.1f GB/s, peers %.1f",
                        argus_rank_text(m, slow->rank, who, sizeof(who)), slow->ratio, way,
                        bytes / slow->own, bytes / slow->ref);
    return argus_evidence_line(e, m, slow->rank, "copy_ratio", slow->ratio, 1.0, "ratio",
                               "time in copies of a step over the peers' median, same bytes") ||
                   argus_evidence_line(e, m, slow->rank, "copy_gbps", bytes / slow->own,
                                       bytes / slow->ref, "GB/s", note)
               ? -1
               : 0;
}

static int report(const struct scan *s, struct argus_evidence_list *out,
                  const struct argus_cohort *exposed, const struct slow *slow)
{
    const struct argus_model_rank *r = &s->m->ranks[slow->rank];
    struct argus_evidence *e = argus_evidence_add(out, "pcie", ARGUS_VERDICT_SLOW_LINK);

    if (!e || !(e->link = calloc(1, sizeof(*e->link))))
        return -1;
    e->link->rank = r->rank;
    e->link->peer = ARGUS_UNKNOWN;
    e->link->factor = slow->ratio;
    e->link->scope = strdup("pcie");
    e->link->node = strdup(s->m->nodes[r->node]);
    if (!e->link->scope || !e->link->node || argus_evidence_rank(e, slow->rank) ||
        add_excess(s, e, exposed, slow))
        return -1;
    e->onset = slow->onset >= 0 ? slow->onset : ARGUS_UNKNOWN;
    e->recovered = slow->recovered >= 0 ? slow->recovered : ARGUS_UNKNOWN;
    e->effect = slow->ratio - 1;
    e->persistence = slow->persistence;
    e->agreement = slow->agreement;
    e->z = slow->z;
    e->pattern = slow->recovered >= 0 ? "episode" : "persistent";
    return describe(s->m, e, slow);
}

static int judge(struct scan *s, struct argus_evidence_list *out, const struct argus_peer_set *set)
{
    struct argus_cohort busy, bytes, exposed;
    const struct argus_model *m = s->m;
    int rc = argus_cohort_init(&busy, m, set->ranks, set->n, ARGUS_COL_COPY_BUSY);

    rc |= argus_cohort_init(&bytes, m, set->ranks, set->n, ARGUS_COL_COPY_BYTES);
    rc |= argus_cohort_init(&exposed, m, set->ranks, set->n, ARGUS_COL_COPY);
    for (size_t i = 0; i < set->n && !rc; i++) {
        struct slow slow = {.rank = set->ranks[i]};

        if (!m->ranks[slow.rank].col[ARGUS_COL_COPY_BUSY] ||
            !find_shift(s, series(s, &busy, &bytes, slow.rank), &slow))
            continue;
        slow.z = outlier(s, &busy, &bytes, &slow);
        if (!(slow.z > MIN_Z) && set->n > 2)
            continue;
        if (set->n < NAMED_FROM && !own_past(s, &slow))
            continue;
        if (classes_agree(s, &busy, &slow))
            rc = report(s, out, &exposed, &slow);
    }
    argus_cohort_clear(&busy);
    argus_cohort_clear(&bytes);
    argus_cohort_clear(&exposed);
    return rc ? -1 : 0;
}

int argus_detect_pcie(const struct argus_model *m, struct argus_evidence_list *out)
{
    struct scan s = {.m = m};
    size_t steps = (size_t)m->n_steps + 1;
    int rc = 0;

    s.q = malloc(steps * sizeof(double));
    s.work = malloc(steps * sizeof(double));
    s.at = malloc(steps * sizeof(int));
    if (!s.q || !s.work || !s.at)
        rc = -1;
    for (size_t i = 0; i < m->n_peer_sets && !rc; i++)
        if (m->peer_sets[i].n >= 2)
            rc = judge(&s, out, &m->peer_sets[i]);
    free(s.q);
    free(s.work);
    free(s.at);
    return rc;
}
