/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers: each collective against its siblings, and what that says of pairs of nodes. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"
#include "analyzer/report/words.h"

#define ROWS 32 /* collectives shown, the slowest first */
#define COLUMNS 260
#define NODES 40 /* a side of the matrix */
#define LABEL_WIDTH 110
#define LEAST_HIGH 1.5 /* a scale never ends below: a tenth of spread is normal */
#define STANDS_OUT 1.2 /* a pair of nodes */

static void work_table(struct html *h, const struct argus_view *view)
{
    static const char *const head[] = {"collective", "communicator", "ranks",
                                       "of siblings' time, median"};

    html_table(h, "Figures", head, 4);
    for (size_t r = 0; r < view->n_rows; r++) {
        html_row(h);
        html_cell(h, view->rows[r].label);
        html_cell(h, h->m->groups[view->rows[r].group].name);
        html_cell_number(h, (double)view->rows[r].n_ranks);
        html_cell_number(h, view->rows[r].typical);
        html_row_end(h);
    }
    html_table_end(h, 1);
}

static void work(struct html *h)
{
    struct argus_view *view = argus_view_work(h->m, ROWS, COLUMNS);

    if (!view)
        return;
    html_section(h, "collectives", "Transfers against sibling groups",
                 "The time from the last arrival to the end: waiting for late ranks is not in it. "
                 "Siblings move the same bytes in groups of the same shape, and the fast ones are "
                 "the measure; a group without a sibling is held against its own good times. The "
                 "slowest come first.");
    html_heat(h, view, 1, fmax(view->high, LEAST_HIGH), "Transfer time of collectives by steps");
    work_table(h, view);
    html_section_end(h);
    argus_view_destroy(view);
}

/* ---- pairs of nodes ------------------------------------------------------- */

struct matrix {
    size_t n;     /* nodes shown */
    int *node;    /* which */
    int *place;   /* [m->n_nodes]: row of a node, -1: not shown */
    float *least; /* [n * n]; NAN: no collective crosses the pair */
};

/* -1: not known, or no party to it. */
static int node_of_member(const struct argus_model *m, const struct argus_comm_class *c, size_t i)
{
    int r = m->groups[c->group].members[i];

    if (argus_comm_is_pair(c) && (int)i != c->from && (int)i != c->to)
        return -1;
    return r >= 0 && (size_t)r < m->n_ranks ? m->ranks[r].node : -1;
}

/* Least ratio of the collectives between nodes that a node takes part in; NAN: none. */
static int node_ratios(const struct argus_model *m, const double *ratio, double *least)
{
    int any = 0;

    for (size_t i = 0; i < m->n_nodes; i++)
        least[i] = NAN;
    for (size_t c = 0; c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];

        if (isnan(ratio[c]) || !argus_comm_crosses_nodes(m, cc))
            continue;
        for (size_t i = 0; i < m->groups[cc->group].size; i++) {
            int node = node_of_member(m, cc, i);

            if (node >= 0) {
                least[node] = fmin(least[node], ratio[c]);
                any = 1;
            }
        }
    }
    return any;
}

struct ranked {
    double ratio;
    int node;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? 1 : -1;
    return x->node - y->node;
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The nodes that look worst, in their own order. */
static int choose_nodes(const struct argus_model *m, const double *least, struct matrix *x)
{
    struct ranked *order = malloc(sizeof(*order) * m->n_nodes);

    if (!order)
        return -1;
    x->n = 0;
    for (size_t i = 0; i < m->n_nodes; i++)
        if (!isnan(least[i]))
            order[x->n++] = (struct ranked){least[i], (int)i};
    qsort(order, x->n, sizeof(*order), compare_ranked);
    x->n = x->n < NODES ? x->n : NODES;
    for (size_t i = 0; i < x->n; i++)
        x->node[i] = order[i].node;
    qsort(x->node, x->n, sizeof(*x->node), compare_ints);
    for (size_t i = 0; i < m->n_nodes; i++)
        x->place[i] = -1;
    for (size_t i = 0; i < x->n; i++)
        x->place[x->node[i]] = (int)i;
    free(order);
    return 0;
}

/* A pair is at most as slow as the fastest collective that crosses it. */
static void fill_matrix(const struct argus_model *m, const double *ratio, struct matrix *x)
{
    for (size_t i = 0; i < x->n * x->n; i++)
        x->least[i] = NAN;
    for (size_t c = 0; c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];
        int rows[NODES];
        size_t n = 0;

        if (isnan(ratio[c]) || !argus_comm_crosses_nodes(m, cc))
            continue;
        for (size_t i = 0; i < m->groups[cc->group].size; i++) {
            int node = node_of_member(m, cc, i), row = node >= 0 ? x->place[node] : -1;
            size_t k = 0;

            while (k < n && rows[k] != row)
                k++;
            if (row >= 0 && k == n)
                rows[n++] = row;
        }
        for (size_t a = 0; a < n; a++) {
            for (size_t b = 0; b < n; b++) {
                float *cell = &x->least[(size_t)rows[a] * x->n + (size_t)rows[b]];

                if (a != b)
                    *cell = fminf(*cell, (float)ratio[c]);
            }
        }
    }
}

static void draw_matrix(struct html *h, const struct matrix *x, double high)
{
    double cell = x->n <= 12 ? 34 : 16, side = cell * (double)x->n;
    struct picture p;
    char text[64];

    picture_begin(&p, fmax(LABEL_WIDTH + side + 20, 480), side + 50, 1);
    for (size_t r = 0; r < x->n; r++) {
        snprintf(text, sizeof(text), "%.18s", h->m->nodes[x->node[r]]);
        picture_label(&p, LABEL_WIDTH - 6, 10 + cell * ((double)r + 0.5), -1, 10, INK, text);
        for (size_t c = 0; c < x->n; c++) {
            double level = (x->least[r * x->n + c] - 1) / (high - 1);

            picture_box(&p, LABEL_WIDTH + cell * (double)c, 10 + cell * (double)r, cell - 1,
                        cell - 1, r == c ? 0xffffff : picture_heat(level));
            if (cell > 30 && r != c && !isnan(level)) {
                snprintf(text, sizeof(text), "%.2f", x->least[r * x->n + c]);
                picture_label(&p, LABEL_WIDTH + cell * ((double)c + 0.5),
                              10 + cell * ((double)r + 0.5), 0, 10, level > 0.5 ? 0xffffff : INK,
                              text);
            }
        }
    }
    snprintf(text, sizeof(text), "the same nodes, left to right; dark: slow, up to %.2fx", high);
    picture_label(&p, LABEL_WIDTH, side + 28, 1, 11, FAINT, text);
    picture_end(h, &p, "Matrix of node pairs: the fastest collective that crosses each pair.");
}

static void matrix_table(struct html *h, const struct matrix *x)
{
    static const char *const head[] = {"node", "node", "fastest collective across, of siblings'"};

    html_table(h, "Figures", head, 3);
    for (size_t r = 0; r < x->n; r++) {
        for (size_t c = r + 1; c < x->n; c++) {
            if (isnan(x->least[r * x->n + c]))
                continue;
            html_row(h);
            html_cell(h, h->m->nodes[x->node[r]]);
            html_cell(h, h->m->nodes[x->node[c]]);
            html_cell_number(h, x->least[r * x->n + c]);
            html_row_end(h);
        }
    }
    html_table_end(h, 1);
}

static void pairs(struct html *h, const double *ratio)
{
    const struct argus_model *m = h->m;
    struct matrix x = {.node = malloc(sizeof(int) * m->n_nodes),
                       .place = malloc(sizeof(int) * m->n_nodes),
                       .least = malloc(sizeof(float) * NODES * NODES)};
    double *least = malloc(sizeof(*least) * m->n_nodes), high = LEAST_HIGH;
    int any = h->v->kind == ARGUS_VERDICT_SLOW_LINK;

    if (!x.node || !x.place || !x.least || !least) {
        h->failed = 1;
        goto out;
    }
    if (!node_ratios(m, ratio, least) || choose_nodes(m, least, &x) < 0 || x.n < 2)
        goto out;
    fill_matrix(m, ratio, &x);
    /* A page of pale squares says nothing: only for a slow link, or where a pair stands out. */
    for (size_t i = 0; i < x.n * x.n; i++) {
        any |= x.least[i] >= STANDS_OUT;
        high = fmax(high, x.least[i]);
    }
    if (!any)
        goto out;
    html_section(h, "pairs", "Pairs of nodes",
                 "What the large collectives leave possible: a pair can be no slower than the "
                 "fastest one that crosses it. A dark row with its column is a node, a lone dark "
                 "cell a path between two.");
    draw_matrix(h, &x, high);
    matrix_table(h, &x);
    html_section_end(h);
out:
    free(x.node);
    free(x.place);
    free(x.least);
    free(least);
}

/* A short message takes its latency whatever the link carries: of each group only the large ones tell. */
static int keep_large(const struct argus_model *m, double *ratio)
{
    uint64_t *largest = calloc(m->n_groups + 1, sizeof(*largest));

    if (!largest)
        return -1;
    for (size_t c = 0; c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];

        if (!isnan(ratio[c]) && cc->bytes > largest[cc->group])
            largest[cc->group] = cc->bytes;
    }
    for (size_t c = 0; c < m->n_comm_classes; c++)
        if (!isnan(ratio[c]) && m->comm_classes[c].bytes < largest[m->comm_classes[c].group] / 4)
            ratio[c] = NAN;
    free(largest);
    return 0;
}

void html_collectives(struct html *h)
{
    double *ratio;

    work(h);
    if (h->m->n_nodes > 1 && html_edges(h))
        return;
    if (h->m->n_nodes < 2 || h->m->n_comm_classes == 0)
        return;
    ratio = argus_view_work_ratios(h->m);
    if (ratio && keep_large(h->m, ratio) == 0)
        pairs(h, ratio);
    free(ratio);
}
