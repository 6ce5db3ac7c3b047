/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of durations -> typical duration, tail and time of each kernel class by window. */
#include <config.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/model/digest_loader.h"

#define MINOR_MODE 0.03 /* a mode with less of the calls is noise, not the kernel */
#define MINOR_CALLS 3u
#define TAIL 0.05 /* p99 is that of the mode in which so many calls are left */

/* The modes of a class in a window, which stand together: where in them a row is. */
struct place {
    size_t end;            /* first row behind them */
    uint64_t below, above; /* calls of faster and of slower modes */
};

static int class_arrays(struct argus_digest_loader *l, struct argus_rank_class *c)
{
    size_t n = (size_t)l->d->rank.n_windows;

    if (c->typical)
        return 0;
    c->typical = argus_arena_alloc(l->arena, n, sizeof(float));
    c->p99 = argus_arena_alloc(l->arena, n, sizeof(float));
    c->sum = argus_arena_alloc(l->arena, n, sizeof(float));
    c->count = argus_arena_alloc(l->arena, n, sizeof(float));
    c->modes = argus_arena_alloc(l->arena, n, 1);
    return c->typical && c->p99 && c->sum && c->count && c->modes ? 0 : -1;
}

static int window_cmp(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] < y[1] ? -1 : x[1] > y[1];
}

static int usable(const struct argus_digest_loader *l, const struct argus_cluster_row *row)
{
    return row->class_id < l->n_classes && row->first_step >= 0 &&
           row->last_step >= row->first_step && row->count && row->p50 > 0 && row->sum >= 0;
}

/* The distinct intervals of steps that rows stand for. */
static int find_windows(struct argus_digest_loader *l, const struct argus_cluster_row *rows,
                        size_t n)
{
    struct argus_model_rank *r = &l->d->rank;
    int *spans = malloc((n + 1) * 2 * sizeof(int));
    size_t kept = 0, distinct = 0;

    if (!spans)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!usable(l, &rows[i]) || (kept && spans[2 * kept - 2] == rows[i].first_step &&
                                     spans[2 * kept - 1] == rows[i].last_step))
            continue; /* rows of one window mostly stand together */
        spans[2 * kept] = rows[i].first_step;
        spans[2 * kept++ + 1] = rows[i].last_step;
    }
    qsort(spans, kept, 2 * sizeof(int), window_cmp);
    for (size_t i = 0; i < kept; i++)
        if (!distinct || window_cmp(&spans[2 * distinct - 2], &spans[2 * i])) {
            spans[2 * distinct] = spans[2 * i];
            spans[2 * distinct++ + 1] = spans[2 * i + 1];
        }
    r->n_windows = (int)distinct;
    r->window_first = argus_arena_alloc(l->arena, distinct, sizeof(int));
    r->window_last = argus_arena_alloc(l->arena, distinct, sizeof(int));
    for (size_t i = 0; r->window_first && r->window_last && i < distinct; i++) {
        r->window_first[i] = spans[2 * i];
        r->window_last[i] = spans[2 * i + 1];
    }
    free(spans);
    return r->window_first && r->window_last ? 0 : -1;
}

static int window_of(const struct argus_model_rank *r, const struct argus_cluster_row *row)
{
    int lo = 0, hi = r->n_windows - 1, span[2] = {row->first_step, row->last_step};

    while (lo <= hi) {
        int mid = (lo + hi) / 2, at[2] = {r->window_first[mid], r->window_last[mid]};
        int d = window_cmp(span, at);

        if (!d)
            return mid;
        if (d < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return 0;
}

static int same_modes(const struct argus_cluster_row *a, const struct argus_cluster_row *b)
{
    return b->class_id == a->class_id && b->first_step == a->first_step &&
           b->last_step == a->last_step && b->cluster == a->cluster + 1;
}

static void next_place(struct place *p, const struct argus_cluster_row *rows, size_t n, size_t i)
{
    if (i < p->end) {
        p->below += rows[i - 1].count;
        p->above -= rows[i].count;
        return;
    }
    *p = (struct place){.end = i + 1};
    for (; p->end < n && same_modes(&rows[p->end - 1], &rows[p->end]); p->end++)
        p->above += rows[p->end].count;
}

/* A class with a long tail is cut into many modes: what counts is what lies beyond, not how it is
 * cut. */
static int minor(const struct argus_cluster_row *row, const struct place *p, float calls)
{
    uint64_t fast = p->below + row->count, slow = p->above + row->count;
    uint64_t less = fast < slow ? fast : slow;

    return (float)less < MINOR_MODE * calls || (row->clusters > 1 && less < MINOR_CALLS);
}

static void add_cluster(struct argus_rank_class *c, int w, const struct argus_cluster_row *row,
                        const struct place *p, int pass)
{
    if (pass == 0) {
        c->sum[w] += (float)row->sum;
        c->count[w] += (float)row->count;
    } else if (pass == 1 && !minor(row, p, c->count[w])) {
        /* typical and p99 hold sums of medians and weights until finish_class() */
        c->typical[w] += (float)((double)row->p50 * row->count);
        c->p99[w] += (float)row->count;
        c->modes[w]++;
    } else if (pass == 2 && (float)p->above < (float)TAIL * c->count[w] &&
               (float)(p->above + row->count) >= (float)TAIL * c->count[w] &&
               !(c->p99[w] >= (float)row->p99)) {
        c->p99[w] = (float)row->p99;
    }
}

static void finish_class(const struct argus_model_rank *r, struct argus_rank_class *c)
{
    for (int w = 0; c->typical && w < r->n_windows; w++) {
        c->typical[w] = c->p99[w] > 0 ? c->typical[w] / c->p99[w] : NAN;
        c->p99[w] = NAN;
    }
}

/* Passes: calls and time; medians of the modes that are not minor; the slowest mode's p99. */
int argus_digest_load_clusters(struct argus_digest_loader *l)
{
    struct argus_digest *d = l->d;
    size_t n = 0;
    struct argus_cluster_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_CLUSTERS, 1u << 27, &n, l->err);
    int rc = rows ? 0 : -1;

    if (!rc && find_windows(l, rows, n))
        rc = argus_digest_no_memory(l->err, argus_timeline_path(l->t));
    for (int pass = 0; pass < 3 && !rc; pass++) {
        struct place place = {0};

        for (size_t i = 0; i < n && !rc; i++) {
            const struct argus_cluster_row *row = &rows[i];
            struct argus_rank_class *c;

            next_place(&place, rows, n, i);
            if (!usable(l, row))
                continue;
            if (l->slot[row->class_id] < 0) {
                if (!pass && l->classes[row->class_id].kind == ARGUS_CLASS_COMPUTE)
                    d->rank.pooled += (double)row->sum;
                continue;
            }
            if (l->classes[row->class_id].kind == ARGUS_CLASS_COMM)
                continue;
            c = &d->classes[l->slot[row->class_id]].data;
            if (class_arrays(l, c))
                rc = argus_digest_no_memory(l->err, argus_timeline_path(l->t));
            else
                add_cluster(c, window_of(&d->rank, row), row, &place, pass);
        }
        for (size_t i = 0; pass == 1 && i < d->n_classes; i++)
            finish_class(&d->rank, &d->classes[i].data);
    }
    free(rows);
    return rc;
}
