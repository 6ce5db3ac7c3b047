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
 * not bound by copies.  Of two or three ranks that differ from the first step
 * on nobody is blamed: a split.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/compute.h"

#define MIN_RATIO 1.15
#define MIN_Z 3.5
#define SPREAD_FLOOR 0.02
#define SAME_BYTES 0.02
#define CLASSES_AGREE 0.8 /* of the time in host copies lies in slower classes */
#define COPY_TO_DEVICE 1  /* CUpti_ActivityMemcpyKind */
#define COPY_TO_HOST 2

struct slow {
    int rank;
    int known; /* 0: it may as well be the others that are wrong */
    struct argus_shift shift;
    double z;
    /* the copy class that costs most */
    int kernel_class;
    double own, ref; /* ns a copy */
    double agreement;
};

struct scan {
    const struct argus_model *m;
    struct argus_series q;
    struct argus_cohort busy, bytes, exposed;
};

static int host_copy(const struct argus_model *m, int kernel_class)
{
    const struct argus_kernel_class *c = &m->kernel_classes[kernel_class];

    return c->kind == ARGUS_CLASS_COPY && (c->func == COPY_TO_DEVICE || c->func == COPY_TO_HOST) &&
           c->bytes > 0;
}

/* Time in copies over the peers', in steps in which the rank copies what they copy. */
static void ratio_to_peers(void *arg, int rank, struct argus_series *q)
{
    struct scan *s = arg;
    int n = argus_cohort_ratio(&s->busy, s->m, rank, q->x, q->at);

    q->n = 0;
    for (int p = 0; p < n; p++) {
        double own = (double)argus_rank_col(&s->m->ranks[rank], ARGUS_COL_COPY_BYTES, q->at[p]);
        double ref = argus_cohort_reference(&s->bytes, s->m, rank, q->at[p]);

        if (!(ref > 0) || fabs(own - ref) > SAME_BYTES * ref)
            continue;
        q->x[q->n] = q->x[p];
        q->at[q->n++] = q->at[p];
    }
}

/* The peers' median duration of a class in the span of the shift. */
static double peers_typical(const struct scan *s, const struct slow *slow, int kernel_class,
                            double *x)
{
    size_t n = 0;

    for (size_t i = 0; i < s->busy.n; i++) {
        const struct argus_model_rank *p = &s->m->ranks[s->busy.ranks[i]];
        const struct argus_rank_class *c = argus_rank_find_class(p, kernel_class);

        if (!c || s->busy.ranks[i] == slow->rank)
            continue;
        x[n] = argus_class_time_in(p, c, slow->shift.first, slow->shift.end).typical;
        n += !isnan(x[n]);
    }
    return argus_median_inplace(x, n);
}

/* Class by class: are its copies to and from the host slower? */
static int classes_agree(const struct scan *s, struct slow *slow)
{
    const struct argus_model_rank *r = &s->m->ranks[slow->rank];
    double covered = argus_class_covered(r, slow->shift.first, slow->shift.end);
    double *x = malloc((s->busy.n + 1) * sizeof(*x)), all = 0, slower = 0, most = 0;

    slow->kernel_class = -1;
    for (size_t i = 0; x && i < r->n_classes && covered > 0; i++) {
        int id = r->classes[i].kernel_class;
        struct argus_class_time t;
        double own, ref;

        if (!host_copy(s->m, id))
            continue;
        t = argus_class_time_in(r, &r->classes[i], slow->shift.first, slow->shift.end);
        ref = peers_typical(s, slow, id, x);
        if (isnan(t.typical) || isnan(ref))
            continue;
        all += t.sum;
        own = ref + (t.typical - ref) / covered; /* undo the dilution by other steps */
        if (own < ref * (1 + 0.5 * (slow->shift.ratio - 1)))
            continue;
        slower += t.sum;
        if (t.sum * (1 - ref / own) > most) {
            most = t.sum * (1 - ref / own);
            slow->kernel_class = id;
            slow->own = own;
            slow->ref = ref;
        }
    }
    free(x);
    slow->agreement = all > 0 ? slower / all : 0;
    return slow->kernel_class >= 0 && slow->agreement >= CLASSES_AGREE;
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
                        "%s at %.1f GB/s, peers %.1f%s",
                        argus_rank_text(m, slow->rank, who, sizeof(who)), slow->shift.ratio, way,
                        bytes / slow->own, bytes / slow->ref,
                        slow->known ? ""
                                    : "; among so few nothing in the job tells which is wrong");
    return argus_evidence_line(e, m, slow->rank, "copy_ratio", slow->shift.ratio, 1.0, "ratio",
                               "time in copies of a step over the peers' median, same bytes") ||
                   argus_evidence_line(e, m, slow->rank, "copy_gbps", bytes / slow->own,
                                       bytes / slow->ref, "GB/s", note)
               ? -1
               : 0;
}

static int add_link(const struct scan *s, struct argus_evidence *e, const struct slow *slow)
{
    const struct argus_model_rank *r = &s->m->ranks[slow->rank];

    if (!(e->link = calloc(1, sizeof(*e->link))))
        return -1;
    e->link->rank = r->rank;
    e->link->peer = ARGUS_UNKNOWN;
    e->link->factor = slow->shift.ratio;
    e->link->scope = strdup("pcie");
    e->link->node = strdup(s->m->nodes[r->node]);
    return e->link->scope && e->link->node ? 0 : -1;
}

/* What its copies take longer for, hidden or not: the most that they can cost. */
static double longer(struct scan *s, const struct slow *slow)
{
    s->q.n = 0;
    for (int k = slow->shift.first; k < slow->shift.end && k < s->m->n_steps; k++) {
        double own = (double)argus_rank_col(&s->m->ranks[slow->rank], ARGUS_COL_COPY_BUSY, k);
        double d = s->m->use[k] ? own - argus_cohort_reference(&s->busy, s->m, slow->rank, k) : NAN;

        if (isnan(d))
            continue;
        s->q.x[s->q.n] = d;
        s->q.at[s->q.n++] = k;
    }
    return s->q.n ? argus_series_median(&s->q, 0, s->m->n_steps, NULL) : 0;
}

static int report(struct scan *s, struct argus_evidence_list *out, const struct slow *slow)
{
    struct argus_evidence *e = argus_evidence_add(
        out, "pcie", slow->known ? ARGUS_VERDICT_SLOW_LINK : ARGUS_VERDICT_SPLIT);

    if (!e || (slow->known && add_link(s, e, slow)) || argus_evidence_rank(e, slow->rank) ||
        argus_shift_excess(&slow->shift, s->m, e, &s->exposed, slow->rank))
        return -1;
    e->outside = !slow->known; /* a split of another kind than computing's */
    argus_shift_describe(&slow->shift, e);
    e->agreement = slow->agreement;
    e->z = slow->z;
    e->most = longer(s, slow);
    return describe(s->m, e, slow);
}

static int judge(struct scan *s, struct argus_evidence_list *out, const struct argus_peer_set *set,
                 int rank)
{
    struct slow slow = {.rank = rank, .known = 1};

    if (!s->m->ranks[rank].col[ARGUS_COL_COPY_BUSY])
        return 0;
    ratio_to_peers(s, rank, &s->q);
    if (!argus_shift_of_ratio(&slow.shift, s->m, &s->q, MIN_RATIO))
        return 0;
    slow.z =
        argus_shift_robust_z(&slow.shift, &s->busy, rank, &s->q, SPREAD_FLOOR, ratio_to_peers, s);
    if (!(slow.z > MIN_Z) && set->n > 2)
        return 0;
    /* of two or three nobody can tell who is slow, but one that changed can be told */
    if (set->n < ARGUS_COMPUTE_NAMED_FROM)
        slow.known = argus_shift_own_past(&slow.shift, s->m, &s->q, rank, ARGUS_COL_COPY_BUSY);
    if (!slow.known && slow.shift.onset >= 0)
        return 0;
    return classes_agree(s, &slow) ? report(s, out, &slow) : 0;
}

static int judge_set(struct scan *s, struct argus_evidence_list *out,
                     const struct argus_peer_set *set)
{
    int rc = argus_cohort_init(&s->busy, s->m, set->ranks, set->n, ARGUS_COL_COPY_BUSY);

    rc |= argus_cohort_init(&s->bytes, s->m, set->ranks, set->n, ARGUS_COL_COPY_BYTES);
    rc |= argus_cohort_init(&s->exposed, s->m, set->ranks, set->n, ARGUS_COL_COPY);
    for (size_t i = 0; i < set->n && !rc; i++)
        rc = judge(s, out, set, set->ranks[i]);
    argus_cohort_clear(&s->busy);
    argus_cohort_clear(&s->bytes);
    argus_cohort_clear(&s->exposed);
    return rc ? -1 : 0;
}

int argus_detect_pcie(const struct argus_model *m, struct argus_evidence_list *out)
{
    struct scan s = {.m = m};
    int rc = argus_series_init(&s.q, m);

    for (size_t i = 0; i < m->n_peer_sets && !rc; i++)
        if (m->peer_sets[i].n >= 2)
            rc = judge_set(&s, out, &m->peer_sets[i]);
    argus_series_clear(&s.q);
    return rc;
}
