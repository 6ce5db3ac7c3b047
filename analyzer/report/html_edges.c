/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways between nodes, where the network proxy was listened to (links=on): how
 * long a send was with the network, against the quick ones of its communicator.
 */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/peerwait.h"
#include "analyzer/report/html.h"
#include "analyzer/stats/stats.h"

#define TIMELINES 512 /* read for it */
#define NODES 40      /* a side of the matrix */
#define EDGES 64      /* in the table, the slowest first */
#define LABEL_WIDTH 110
#define LABEL_HEIGHT 40 /* without the name */
#define LETTER 6.5      /* height of a letter of it, at most */
#define LEAST_HIGH 1.5  /* the scale never ends below */

struct edge {
    struct argus_send_wait w;
    double
        ratio; /* mean wait over that of the quick edges of the group; NAN: it has one edge only */
};

struct edges {
    struct edge *items;
    size_t n, read, with; /* timelines read, and those that have such rows */
};

struct matrix {
    size_t n;    /* nodes shown */
    int *node;   /* which */
    int *place;  /* [m->n_nodes]: row of a node, -1: not shown */
    float *most; /* [n * n] row: receiver, column: sender; NAN: no edge */
};

static double mean(const struct argus_send_wait *w)
{
    return w->sum / w->count;
}

/* Of one rank. */
static int collect(const struct argus_model *m, size_t rank, int first, int end, struct edges *e)
{
    struct argus_send_wait *waits = NULL;
    struct edge *items;
    argus_error_t err;
    size_t n = 0;

    /* a timeline that is gone by now: then without */
    if (argus_model_send_waits(m, rank, first, end, &waits, &n, &err))
        return 0;
    items = realloc(e->items, (e->n + n + 1) * sizeof(*items));
    if (!items) {
        free(waits);
        return -1;
    }
    e->items = items;
    for (size_t i = 0; i < n; i++)
        if (waits[i].count > 0 && m->ranks[waits[i].from].node != m->ranks[waits[i].to].node)
            items[e->n++] = (struct edge){waits[i], NAN};
    free(waits);
    return 0;
}

static int collect_all(struct html *h, struct edges *e)
{
    const struct argus_model *m = h->m;
    int link = h->v->kind == ARGUS_VERDICT_SLOW_LINK;
    int first = link && h->v->onset_step > 0 ? h->v->onset_step : 0;
    int end = link && h->v->recovered_step > first ? h->v->recovered_step : m->n_steps;

    for (size_t i = 0; i < m->n_ranks; i++)
        e->with += m->ranks[i].has_peer_waits != 0;
    for (size_t i = 0; i < m->n_ranks && e->read < TIMELINES; i++) {
        if (!m->ranks[i].has_peer_waits)
            continue;
        e->read++;
        if (collect(m, i, first, end, e))
            return -1;
    }
    return 0;
}

static int by_group(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->w.group != y->w.group)
        return x->w.group < y->w.group ? -1 : 1;
    return mean(&x->w) < mean(&y->w) ? -1 : mean(&x->w) > mean(&y->w);
}

static int slowest_first(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? 1 : -1;
    if (x->w.from != y->w.from)
        return x->w.from < y->w.from ? -1 : 1;
    return x->w.to < y->w.to ? -1 : x->w.to > y->w.to;
}

/* Communicators differ in what they send: each is measured by its own quick edges. */
static void weigh(struct edges *e)
{
    size_t kept = 0;

    qsort(e->items, e->n, sizeof(*e->items), by_group);
    for (size_t i = 0, end; i < e->n; i = end) {
        double quick;

        for (end = i; end < e->n && e->items[end].w.group == e->items[i].w.group; end++)
            ;
        quick = mean(&e->items[i + (end - i) / 4].w);
        for (size_t k = i; k < end && end - i > 1 && quick > 0; k++) {
            e->items[kept] = e->items[k];
            e->items[kept++].ratio = mean(&e->items[k].w) / quick;
        }
    }
    e->n = kept;
    qsort(e->items, e->n, sizeof(*e->items), slowest_first);
}

/* The nodes of the slowest edges, in their own order. */
static void choose_nodes(const struct argus_model *m, const struct edges *e, struct matrix *x)
{
    for (size_t i = 0; i < m->n_nodes; i++)
        x->place[i] = -1;
    for (size_t i = 0; i < e->n; i++) {
        int ends[2] = {m->ranks[e->items[i].w.from].node, m->ranks[e->items[i].w.to].node};

        for (int k = 0; k < 2 && x->n < NODES; k++)
            if (x->place[ends[k]] < 0) {
                x->place[ends[k]] = 0;
                x->n++;
            }
    }
    for (size_t i = 0, n = 0; i < m->n_nodes; i++)
        if (x->place[i] == 0) {
            x->node[n] = (int)i;
            x->place[i] = (int)n++;
        }
}

static void fill(const struct argus_model *m, const struct edges *e, struct matrix *x)
{
    for (size_t i = 0; i < x->n * x->n; i++)
        x->most[i] = NAN;
    for (size_t i = 0; i < e->n; i++) {
        int from = x->place[m->ranks[e->items[i].w.from].node];
        int to = x->place[m->ranks[e->items[i].w.to].node];

        if (from >= 0 && to >= 0) {
            float *cell = &x->most[(size_t)to * x->n + (size_t)from];

            *cell = fmaxf(*cell, (float)e->items[i].ratio);
        }
    }
}

static void draw(struct html *h, const struct matrix *x)
{
    double cell = x->n <= 12 ? 34 : 16, side = cell * (double)x->n, high = LEAST_HIGH;
    double corner = 0;
    struct picture p;
    char text[80];

    for (size_t i = 0; i < x->n * x->n; i++)
        high = fmax(high, (double)x->most[i]);
    for (size_t i = 0; i < x->n; i++)
        corner = fmax(corner, LABEL_HEIGHT + LETTER * (double)strnlen(h->m->nodes[x->node[i]], 16));
    picture_begin(&p, fmax(LABEL_WIDTH + side + 20, 480), corner + side + 40, 1);
    for (size_t r = 0; r < x->n; r++) {
        snprintf(text, sizeof(text), "to %.16s", h->m->nodes[x->node[r]]);
        picture_label(&p, LABEL_WIDTH - 6, corner + cell * ((double)r + 0.5), -1, 10, INK, text);
        snprintf(text, sizeof(text), "from %.16s", h->m->nodes[x->node[r]]);
        picture_label_up(&p, LABEL_WIDTH + cell * ((double)r + 0.5), corner - 6, 10, INK, text);
        for (size_t c = 0; c < x->n; c++) {
            double ratio = (double)x->most[r * x->n + c], level = (ratio - 1) / (high - 1);
            double left = LABEL_WIDTH + cell * (double)c, top = corner + cell * (double)r;

            picture_box(&p, left, top, cell - 1, cell - 1, r == c ? 0xffffff : picture_heat(level));
            if (cell > 30 && !isnan(ratio)) {
                snprintf(text, sizeof(text), "%.2f", ratio);
                picture_label(&p, left + cell / 2, top + cell / 2, 0, 10,
                              level > 0.5 ? 0xffffff : INK, text);
            }
        }
    }
    snprintf(text, sizeof(text), "times the quick ones; dark: slow, up to %.2fx", high);
    picture_label(&p, LABEL_WIDTH, corner + side + 20, 1, 11, FAINT, text);
    picture_end(h, &p, "Matrix of nodes, senders by receivers: the slowest send between the two.");
}

static void end_cell(struct html *h, int rank)
{
    const struct argus_model_rank *r = &h->m->ranks[rank];
    char text[128];

    snprintf(text, sizeof(text), "rank %d on %.100s", r->rank, h->m->nodes[r->node]);
    html_cell(h, text);
}

static void table(struct html *h, const struct edges *e)
{
    static const char *const head[] = {
        "from", "to", "communicator", "sends", "with the network, mean", "of the quick ones'"};

    html_table(h, "Figures", head, 6);
    for (size_t i = 0; i < e->n && i < EDGES; i++) {
        const struct edge *x = &e->items[i];

        html_row(h);
        end_cell(h, x->w.from);
        end_cell(h, x->w.to);
        html_cell(h, h->m->groups[x->w.group].name);
        html_cell_number(h, x->w.count);
        html_cell_duration(h, mean(&x->w));
        html_cell_number(h, x->ratio);
        html_row_end(h);
    }
    html_table_end(h, 1);
}

static void section(struct html *h, const struct edges *e, const struct matrix *x)
{
    html_section(h, "pairs", "Ways between nodes",
                 "How long the network proxy of the sender waited until a send was done, against "
                 "the quick ones of the same communicator; of each pair of nodes the slowest. A "
                 "dark column is a sender, a dark row a receiver, both together a node, a lone "
                 "dark cell the path between two.");
    draw(h, x);
    if (e->read < e->with) {
        html_put(h, "<p>");
        html_textf(h, "Of %zu timelines with such rows the first %zu were read.", e->with, e->read);
        html_put(h, "</p>");
    }
    table(h, e);
    html_section_end(h);
}

int html_edges(struct html *h)
{
    const struct argus_model *m = h->m;
    struct matrix x = {0};
    struct edges e = {0};
    int made = 0;

    if (collect_all(h, &e))
        goto no_memory;
    if (!e.n)
        goto out;
    weigh(&e);
    if (!e.n)
        goto out;
    x.node = malloc(m->n_nodes * sizeof(*x.node));
    x.place = malloc(m->n_nodes * sizeof(*x.place));
    x.most = malloc(NODES * NODES * sizeof(*x.most));
    if (!x.node || !x.place || !x.most)
        goto no_memory;
    choose_nodes(m, &e, &x);
    fill(m, &e, &x);
    section(h, &e, &x);
    made = 1;
    goto out;
no_memory:
    h->failed = 1;
out:
    free(x.node);
    free(x.place);
    free(x.most);
    free(e.items);
    return made;
}
