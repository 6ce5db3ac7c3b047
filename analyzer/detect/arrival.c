/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/arrival.h"
#include "analyzer/stats/stats.h"

#define MAX_EVENTS 2000000 /* of a rank */

struct arrival {
    int comm_class;
    uint32_t number; /* of the rank's calls of that class */
    int rank;
    double ns;
    int64_t end;
};

struct list {
    struct arrival *v;
    size_t n, room;
};

static int arrival_cmp(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;

    if (x->comm_class != y->comm_class)
        return x->comm_class < y->comm_class ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int add_rank(const struct argus_model *m, size_t rank, struct list *l, argus_error_t *err)
{
    uint32_t *counts = calloc(m->n_comm_classes + 1, sizeof(*counts));
    struct argus_model_event *e = NULL;
    size_t n = 0;
    int rc = -1;

    if (!counts || argus_model_events(m, rank, NULL, 0, MAX_EVENTS, &e, &n, err))
        goto out;
    for (size_t i = 0; i < n; i++) {
        if (e[i].comm_class < 0)
            continue;
        if (l->n == l->room) {
            size_t room = l->room ? 2 * l->room : 4096;
            struct arrival *v = realloc(l->v, room * sizeof(*v));

            if (!v)
                goto out;
            l->v = v;
            l->room = room;
        }
        l->v[l->n++] = (struct arrival){e[i].comm_class, counts[e[i].comm_class]++, (int)rank,
                                        (double)(e[i].end - e[i].start), e[i].end};
    }
    rc = 0;
out:
    free(counts);
    free(e);
    return rc;
}

static void judge(struct argus_arrivals *a, const struct arrival *v, size_t n, double *x)
{
    size_t last = 0, others = 0;

    for (size_t i = 1; i < n; i++)
        if (v[i].ns < v[last].ns)
            last = i;
    for (size_t i = 0; i < n; i++) {
        a->total[v[i].rank] += v[i].ns;
        a->wait[v[i].rank] += v[i].ns - v[last].ns;
        if (i != last)
            x[others++] = v[i].ns - v[last].ns;
    }
    a->calls++;
    a->last[v[last].rank]++;
    a->late[v[last].rank] = fmax(a->late[v[last].rank], argus_median_inplace(x, others));
}

/* Ends of a collective agree within microseconds, so what separates them is the clocks. */
static int clocks(const struct argus_model *m, struct argus_arrivals *a, const struct list *l)
{
    double *x = calloc(l->n + m->n_ranks + 1, sizeof(*x));

    if (!x)
        return -1;
    for (size_t r = 0; r < m->n_ranks; r++) {
        size_t n = 0;

        for (size_t i = 0, j; i < l->n; i = j) {
            const struct arrival *own = NULL;
            double *ends = x + n;
            size_t members = 0;
            int64_t first = l->v[i].end;

            for (j = i; j < l->n && l->v[j].comm_class == l->v[i].comm_class &&
                        l->v[j].number == l->v[i].number;
                 j++) {
                if (l->v[j].rank == (int)r)
                    own = &l->v[j];
                ends[members++] = (double)(l->v[j].end - first);
            }
            if (own && members >= 2) {
                double middle = argus_median_inplace(ends, members);

                x[n++] = (double)(own->end - first) - middle;
            }
        }
        a->clock[r] = n ? argus_median_inplace(x, n) : 0;
    }
    free(x);
    return 0;
}

int argus_arrivals_find(struct argus_model *m, struct argus_arrivals *a)
{
    struct list l = {0};
    double *x = calloc(m->n_ranks + 1, sizeof(*x));
    argus_error_t err = {{0}};
    int rc = -1;

    memset(a, 0, sizeof(*a));
    a->wait = calloc(m->n_ranks + 1, sizeof(double));
    a->total = calloc(m->n_ranks + 1, sizeof(double));
    a->late = calloc(m->n_ranks + 1, sizeof(double));
    a->clock = calloc(m->n_ranks + 1, sizeof(double));
    a->last = calloc(m->n_ranks + 1, sizeof(size_t));
    if (!x || !a->wait || !a->total || !a->late || !a->clock || !a->last)
        goto out;
    for (size_t i = 0; i < m->n_ranks; i++)
        if (add_rank(m, i, &l, &err)) {
            if (err.text[0])
                argus_model_note(m, "%s", err.text);
            goto out;
        }
    if (l.n)
        qsort(l.v, l.n, sizeof(*l.v), arrival_cmp);
    for (size_t i = 0, j; i < l.n; i = j) {
        const struct argus_comm_class *c = &m->comm_classes[l.v[i].comm_class];

        for (j = i + 1;
             j < l.n && l.v[j].comm_class == l.v[i].comm_class && l.v[j].number == l.v[i].number;
             j++)
            ;
        if (c->matched && j - i == c->expects && j - i >= 2)
            judge(a, &l.v[i], j - i, x);
    }
    rc = clocks(m, a, &l);
out:
    free(l.v);
    free(x);
    if (rc)
        argus_arrivals_clear(a);
    return rc;
}

void argus_arrivals_clear(struct argus_arrivals *a)
{
    free(a->wait);
    free(a->total);
    free(a->late);
    free(a->clock);
    free(a->last);
    memset(a, 0, sizeof(*a));
}
