/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends between the stages of a pipeline, across pairs of nodes.
 *
 * One stage has more sends of a kind in a step than another (in a steady
 * state they share calls with receives, at the ends they do not), so that
 * those between two nodes would have only one another to compare with.  The
 * shortest of several calls is a little less than that of one: what counts is
 * twice the time.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/link.h"

struct elsewhere {
    const struct argus_model *m;
    int *shape_of;    /* by comm class, -1 */
    float **expected; /* by shape, [n_steps]; NULL: nothing new to say of it */
    int n_shapes;
    float *actual, *usual; /* [n_steps] of the path that is looked at */
    struct argus_series q;
};

static int equal_counts(const struct argus_model *m, const int *siblings, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (m->comm_classes[siblings[i]].count != m->comm_classes[siblings[0]].count)
            return 0;
    return 1;
}

/* What is expected of a send of each shape, whatever the number of sends. */
static int expect(struct elsewhere *e, const struct argus_link_shape *all, size_t n)
{
    const struct argus_model *m = e->m;
    int *siblings = malloc((n + 1) * sizeof(int)), rc = siblings ? 0 : -1;

    for (int shape = 0; shape < e->n_shapes && !rc; shape++) {
        const struct argus_comm_class *c;
        size_t n_sib = 0, n_ref;

        for (size_t i = 0; i < n; i++)
            if (all[i].shape == shape)
                siblings[n_sib++] = all[i].cc;
        c = &m->comm_classes[siblings[0]];
        if (!argus_comm_is_pair(c) || !argus_comm_crosses_nodes(m, c) || c->bytes != c->bytes_max ||
            equal_counts(m, siblings, n_sib))
            continue;
        for (size_t i = 0; i < n_sib; i++)
            e->shape_of[siblings[i]] = shape;
        e->expected[shape] = malloc(((size_t)m->n_steps + 1) * sizeof(float));
        n_ref = argus_link_measure(m, siblings, n_sib);
        if (!e->expected[shape] ||
            !argus_link_expected(m, NULL, siblings, n_ref, e->expected[shape]))
            rc = -1;
    }
    free(siblings);
    return rc;
}

static void judge(struct elsewhere *e, struct argus_link_group *g)
{
    const struct argus_model *m = e->m;
    size_t bytes = (size_t)m->n_steps * sizeof(float);
    struct argus_shift shift = {.onset = -1, .recovered = -1, .ratio = 1};
    int any = 0;

    memset(e->actual, 0, bytes);
    memset(e->usual, 0, bytes);
    for (size_t i = 0; i < g->n_classes; i++) {
        const struct argus_comm_class *c = &m->comm_classes[g->classes[i]];
        const float *expected =
            e->shape_of[g->classes[i]] < 0 ? NULL : e->expected[e->shape_of[g->classes[i]]];

        any |= expected != NULL;
        for (int k = 0; expected && k < m->n_steps; k++)
            if (!isnan(c->work[k]) && !isnan(expected[k])) {
                e->actual[k] += (float)c->count * c->work[k];
                e->usual[k] += (float)c->count * expected[k];
            }
    }
    if (!any)
        return;
    argus_link_series(&e->q, m, e->actual, e->usual);
    if (!argus_shift_of_ratio(&shift, m, &e->q, ARGUS_LINK_APART))
        return;
    g->shift = shift;
    g->slow = 1;
    g->split = 0;
    g->siblings = g->siblings > ARGUS_LINK_MIN_SIBLINGS ? g->siblings : ARGUS_LINK_MIN_SIBLINGS;
    memcpy(g->actual, e->actual, bytes);
    memcpy(g->expected, e->usual, bytes);
}

int argus_link_pairs_elsewhere(const struct argus_model *m, struct argus_link_group *groups,
                               size_t n)
{
    struct elsewhere e = {.m = m};
    size_t n_all = 0, steps = (size_t)m->n_steps + 1;
    struct argus_link_shape *all = argus_link_shapes(m, 1, &n_all, &e.n_shapes);
    int rc = -1;

    e.shape_of = malloc((m->n_comm_classes + 1) * sizeof(int));
    e.expected = calloc((size_t)e.n_shapes + 1, sizeof(*e.expected));
    e.actual = malloc(steps * sizeof(float));
    e.usual = malloc(steps * sizeof(float));
    if (argus_series_init(&e.q, m) || !all || !e.shape_of || !e.expected || !e.actual || !e.usual)
        goto out;
    for (size_t i = 0; i < m->n_comm_classes; i++)
        e.shape_of[i] = -1;
    if (expect(&e, all, n_all))
        goto out;
    for (size_t i = 0; i < n; i++)
        if (groups[i].pair && groups[i].inter && groups[i].actual && !groups[i].slow)
            judge(&e, &groups[i]);
    rc = 0;
out:
    for (int i = 0; e.expected && i < e.n_shapes; i++)
        free(e.expected[i]);
    free(all);
    free(e.shape_of);
    free(e.expected);
    free(e.actual);
    free(e.usual);
    argus_series_clear(&e.q);
    return rc;
}
