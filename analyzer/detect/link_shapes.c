/* SPDX-License-Identifier: Apache-2.0 */
/* Which transfers may be compared with one another, and what is expected of them. */
#include <config.h>
#include <stdlib.h>

#include "analyzer/detect/link.h"

#define EVEN 1.3      /* what the fast side of a shape may differ by, where most of it is slow */
#define FAST_SHARE 4  /* ... which is at least one way in so many, and at least two */
#define TYPICAL_OF 64 /* steps that tell a way's usual time */

/* Only whole groups: where a member was not recorded, lateness of that member would look like work. */
static int usable(const struct argus_model *m, const struct argus_comm_class *c)
{
    return c->matched && c->ranks == c->expects && c->ranks >= 2 && !m->groups[c->group].pseudo &&
           c->func != ARGUS_FUNC_BARRIER && c->count > 0;
}

static int alike(const struct argus_model *m, const struct argus_comm_class *a,
                 const struct argus_comm_class *b, int any_count)
{
    const struct argus_group *x = &m->groups[a->group], *y = &m->groups[b->group];

    return a->func == b->func && a->dtype == b->dtype && a->bytes == b->bytes &&
           a->bytes_max == b->bytes_max &&
           (a->count == b->count || (any_count && argus_comm_is_pair(a))) &&
           argus_comm_is_pair(a) == argus_comm_is_pair(b) &&
           (argus_comm_is_pair(a) ||
            (x->size == y->size && x->nodes == y->nodes && x->kind == y->kind)) &&
           argus_comm_crosses_nodes(m, a) == argus_comm_crosses_nodes(m, b);
}

int argus_link_same_shape(const struct argus_model *m, const struct argus_comm_class *a,
                          const struct argus_comm_class *b)
{
    return alike(m, a, b, 0);
}

/* Shapes by comparing with the first class of each; jobs have few shapes. */
struct argus_link_shape *argus_link_shapes(const struct argus_model *m, int any_count, size_t *n,
                                           int *n_shapes)
{
    struct argus_link_shape *all = malloc((m->n_comm_classes + 1) * sizeof(*all));
    int *first = malloc((m->n_comm_classes + 1) * sizeof(int));

    *n = 0;
    *n_shapes = 0;
    for (size_t i = 0; all && first && i < m->n_comm_classes; i++) {
        int shape;

        if (!usable(m, &m->comm_classes[i]))
            continue;
        for (shape = 0; shape < *n_shapes; shape++)
            if (alike(m, &m->comm_classes[first[shape]], &m->comm_classes[i], any_count))
                break;
        if (shape == *n_shapes)
            first[(*n_shapes)++] = (int)i;
        all[(*n)++] = (struct argus_link_shape){(int)i, shape};
    }
    if (!first) {
        free(all);
        all = NULL;
    }
    free(first);
    return all;
}

/* Steps of [first, end) in which the class was seen, of those compared. */
double argus_link_presence(const struct argus_model *m, const struct argus_comm_class *c, int first,
                           int end)
{
    int seen = 0, all = 0;

    for (int k = first; k < end && k < m->n_steps; k++)
        if (m->use[k]) {
            all++;
            seen += !isnan(c->work[k]);
        }
    return all ? (double)seen / all : 0;
}

/* Part of every step, but for those that lost records; not a broadcast of the first step. */
int argus_link_regular(const struct argus_model *m, const struct argus_comm_class *c)
{
    return argus_link_presence(m, c, 0, m->n_steps) >= ARGUS_LINK_REGULAR;
}

size_t argus_link_expected(const struct argus_model *m, const struct argus_comm_class *c,
                           const int *siblings, size_t n, float *expected)
{
    double *x = malloc((n + 1) * sizeof(*x));

    if (!x)
        return 0;
    for (int k = 0; k < m->n_steps; k++) {
        size_t points = 0;

        for (size_t i = 0; i < n; i++) {
            const struct argus_comm_class *o = &m->comm_classes[siblings[i]];

            if ((n < 8 && o == c) || isnan(o->work[k]))
                continue;
            x[points++] = (double)o->work[k];
        }
        expected[k] = (float)argus_median_inplace(x, points);
    }
    free(x);
    return n;
}

struct way {
    double typical;
    int cc;
};

static int way_cmp(const void *a, const void *b)
{
    const struct way *x = a, *y = b;

    return x->typical < y->typical ? -1 : x->typical > y->typical;
}

/* The usual work of a class, over some of its steps; NAN. */
static double typical_work(const struct argus_model *m, const struct argus_comm_class *c)
{
    int stride = m->n_steps / TYPICAL_OF + 1;
    double x[TYPICAL_OF + 1];
    size_t n = 0;

    for (int k = 0; k < m->n_steps; k += stride)
        if (m->use[k] && !isnan(c->work[k]))
            x[n++] = (double)c->work[k];
    return argus_median_inplace(x, n);
}

size_t argus_link_measure(const struct argus_model *m, int *siblings, size_t n)
{
    struct way *ways;
    const struct argus_comm_class *c = &m->comm_classes[siblings[0]];
    size_t fast = 0;

    if (n < 4 || c->bytes != c->bytes_max || !argus_comm_crosses_nodes(m, c) ||
        !(ways = malloc(n * sizeof(*ways))))
        return n;
    for (size_t i = 0; i < n; i++) {
        ways[i].cc = siblings[i];
        ways[i].typical = typical_work(m, &m->comm_classes[siblings[i]]);
        if (isnan(ways[i].typical))
            goto out;
    }
    qsort(ways, n, sizeof(*ways), way_cmp);
    while (fast < n && ways[fast].typical <= EVEN * ways[0].typical)
        fast++;
    if (fast < 2 || fast * FAST_SHARE < n || 2 * fast > n ||
        ways[fast].typical < ARGUS_LINK_APART * ways[fast - 1].typical)
        fast = 0;
    for (size_t i = 0; fast && i < n; i++)
        siblings[i] = ways[i].cc;
out:
    free(ways);
    return fast ? fast : n;
}
