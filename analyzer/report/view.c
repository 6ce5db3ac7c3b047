/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/view.h"
#include "analyzer/stats/stats.h"

#define OUTLIERS 4      /* ranks besides the culprits that keep rows of their own */
#define OUTLIER_Z 3.5   /* ... and what makes them stand out: robust z */
#define CULPRIT 1e9     /* more than any z */
#define NOISE_FLOOR .01 /* ... over a spread of at least 1 % */

int argus_view_is_culprit(const struct argus_model *m, const struct argus_verdict *v, size_t rank)
{
    const struct argus_model_rank *r = &m->ranks[rank];
    const char *node = (size_t)r->node < m->n_nodes ? m->nodes[r->node] : NULL;

    for (size_t i = 0; i < v->n_culprits; i++) {
        const struct argus_culprit *c = &v->culprits[i];

        if (c->rank == r->rank ||
            (c->rank == ARGUS_UNKNOWN && c->node && node && !strcmp(c->node, node)))
            return 1;
    }
    return 0;
}

/* Median of the finite values among n; x is reordered. */
static float finite_median(double *x, size_t n)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            x[used++] = x[i];
    return used ? (float)argus_median_inplace(x, used) : NAN;
}

static float step_share(const struct argus_model_rank *r, enum argus_column c, int k)
{
    float part = argus_rank_col(r, c, k), whole = argus_rank_col(r, ARGUS_COL_DURATION, k);

    return whole > 0 ? part / whole : NAN;
}

static float raw_value(const struct argus_model_rank *r, enum argus_view_kind kind, int k)
{
    switch (kind) {
    case ARGUS_VIEW_WAIT:
        return step_share(r, ARGUS_COL_WAIT, k);
    case ARGUS_VIEW_IDLE:
        return step_share(r, ARGUS_COL_IDLE, k);
    case ARGUS_VIEW_COPY:
        return argus_rank_col(r, ARGUS_COL_COPY_BUSY, k);
    default:
        return argus_rank_col(r, ARGUS_COL_COMPUTE, k);
    }
}

static float finite_max(const double *x, size_t n)
{
    float high = NAN;

    for (size_t i = 0; i < n; i++)
        high = fmaxf(high, (float)x[i]);
    return high;
}

/* cells[rank * columns + c]: median over the compared steps of the bin; of idleness the worst, a stall is rare. */
static int fill_cells(const struct argus_model *m, enum argus_view_kind kind, int columns, int bin,
                      float *cells)
{
    double *scratch = malloc(sizeof(*scratch) * (size_t)bin);

    if (!scratch)
        return -1;
    for (size_t r = 0; r < m->n_ranks; r++) {
        for (int c = 0; c < columns; c++) {
            size_t n = 0;

            for (int k = c * bin; k < (c + 1) * bin && k < m->n_steps; k++)
                if (m->use[k])
                    scratch[n++] = raw_value(&m->ranks[r], kind, k);
            cells[r * (size_t)columns + (size_t)c] =
                kind == ARGUS_VIEW_IDLE ? finite_max(scratch, n) : finite_median(scratch, n);
        }
    }
    free(scratch);
    return 0;
}

/* Of an even number the lesser of the two in the middle: with two ranks, or half of many slow, the quick ones are the
 * measure. */
static float reference_of(double *x, size_t n)
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            x[used++] = x[i];
    return used ? (float)argus_quantile_inplace(
                      x, used, used > 1 ? (double)((used - 1) / 2) / (double)(used - 1) : 0)
                : NAN;
}

/* Divides by the reference of the `n` ranks those of them whose mark is `mark`. */
static void divide_by(float *cells, int columns, const int *ranks, size_t n, const char *marks,
                      char mark, double *scratch)
{
    for (int c = 0; c < columns; c++) {
        float reference;

        for (size_t i = 0; i < n; i++)
            scratch[i] = cells[(size_t)ranks[i] * (size_t)columns + (size_t)c];
        reference = reference_of(scratch, n);
        for (size_t i = 0; i < n; i++)
            if (marks[ranks[i]] == mark)
                cells[(size_t)ranks[i] * (size_t)columns + (size_t)c] /=
                    reference > 0 ? reference : NAN;
    }
}

/* Compute or copies of a rank against the median of its peers.  Who does other work than all others has none, and where the
 * verdict is that the work is uneven that is what must show: both are held against their whole stage. */
static int make_relative(const struct argus_model *m, const struct argus_verdict *v, int columns,
                         float *cells)
{
    enum { ALONE, PEERS, DONE };
    int uneven =
        v->kind == ARGUS_VERDICT_WORKLOAD_IMBALANCE || v->kind == ARGUS_VERDICT_MOE_IMBALANCE;
    double *scratch = malloc(sizeof(*scratch) * m->n_ranks);
    int *list = malloc(sizeof(*list) * m->n_ranks);
    char *mark = calloc(m->n_ranks, 1);
    int rc = -1;

    if (!scratch || !list || !mark)
        goto out;
    for (size_t s = 0; !uneven && s < m->n_peer_sets; s++)
        for (size_t i = 0; m->peer_sets[s].n > 1 && i < m->peer_sets[s].n; i++)
            if (m->peer_sets[s].ranks[i] >= 0 && (size_t)m->peer_sets[s].ranks[i] < m->n_ranks)
                mark[m->peer_sets[s].ranks[i]] = PEERS;
    /* First these, while nothing of their stage has been divided yet. */
    for (size_t first = 0; first < m->n_ranks; first++) {
        size_t n = 0;

        if (mark[first] != ALONE)
            continue;
        for (size_t r = 0; r < m->n_ranks; r++)
            if (m->ranks[r].pp == m->ranks[first].pp)
                list[n++] = (int)r;
        divide_by(cells, columns, list, n, mark, ALONE, scratch);
        for (size_t i = 0; i < n; i++)
            if (mark[list[i]] == ALONE)
                mark[list[i]] = DONE;
    }
    for (size_t s = 0; s < m->n_peer_sets; s++) {
        size_t n = 0;

        for (size_t i = 0; i < m->peer_sets[s].n; i++) {
            int r = m->peer_sets[s].ranks[i];

            if (r >= 0 && (size_t)r < m->n_ranks && mark[r] == PEERS)
                list[n++] = r;
        }
        divide_by(cells, columns, list, n, mark, PEERS, scratch);
        for (size_t i = 0; i < n; i++)
            mark[list[i]] = DONE;
    }
    rc = 0;
out:
    free(scratch);
    free(list);
    free(mark);
    return rc;
}

/* ---- which rank goes to which row --------------------------------------- */

struct order {
    double badness;
    size_t rank;
};

static int compare_badness(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->badness != y->badness)
        return x->badness < y->badness ? 1 : -1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* own[rank] = 1 for culprits, and for the OUTLIERS ranks that stand out most. */
static int choose_own_rows(const struct argus_model *m, const struct argus_verdict *v,
                           const float *cells, int columns, size_t room, char *own)
{
    struct order *order = calloc(m->n_ranks, sizeof(*order));
    double *scratch = malloc(sizeof(*scratch) * ((size_t)columns + m->n_ranks)), centre, mad;
    double *typical = scratch ? scratch + columns : NULL;
    size_t chosen = 0, outliers = 0;

    if (!order || !scratch) {
        free(order);
        free(scratch);
        return -1;
    }
    for (size_t r = 0; r < m->n_ranks; r++) {
        for (int c = 0; c < columns; c++)
            scratch[c] = cells[r * (size_t)columns + (size_t)c];
        order[r].badness = typical[r] = finite_median(scratch, (size_t)columns);
        order[r].rank = r;
    }
    centre = finite_median(typical, m->n_ranks);
    mad = argus_mad(typical, m->n_ranks, centre);
    for (size_t r = 0; r < m->n_ranks; r++) {
        double z = fabs(argus_robust_z(order[r].badness, centre, mad, NOISE_FLOOR));

        /* Culprits come first whatever they look like. */
        order[r].badness = (isnan(z) ? 0 : z) + (argus_view_is_culprit(m, v, r) ? CULPRIT : 0);
    }
    qsort(order, m->n_ranks, sizeof(*order), compare_badness);
    for (size_t i = 0; i < m->n_ranks && chosen < room; i++) {
        if (order[i].badness < CULPRIT && (outliers == OUTLIERS || order[i].badness < OUTLIER_Z))
            break;
        outliers += order[i].badness < CULPRIT;
        own[order[i].rank] = 1;
        chosen++;
    }
    free(order);
    free(scratch);
    return (int)chosen;
}

static const char *node_name(const struct argus_model *m, int node)
{
    return node >= 0 && (size_t)node < m->n_nodes ? m->nodes[node] : "?";
}

/* A group for every rank that has no row of its own: its node; else its stage, in blocks; else a block of ranks.
 * Returns how many groups there are. */
static size_t assign_groups(const struct argus_model *m, const char *own, size_t room,
                            size_t *group, size_t *in_stage)
{
    size_t pp = m->topology.pp > 1 ? (size_t)m->topology.pp : 1, blocks, n = m->n_ranks;

    if (m->n_nodes > 1 && m->n_nodes <= room) {
        for (size_t r = 0; r < n; r++)
            group[r] = (size_t)m->ranks[r].node;
        return m->n_nodes;
    }
    if (pp > room)
        pp = 1;
    blocks = room / pp;
    memset(in_stage, 0, pp * 2 * sizeof(*in_stage));
    for (size_t r = 0; r < n; r++)
        in_stage[pp > 1 ? (size_t)m->ranks[r].pp % pp : 0] += !own[r];
    for (size_t r = 0; r < n; r++) {
        size_t stage = pp > 1 ? (size_t)m->ranks[r].pp % pp : 0, *seen = in_stage + pp + stage;

        if (own[r])
            continue;
        group[r] = stage * blocks + *seen * blocks / in_stage[stage];
        ++*seen;
    }
    return pp * blocks;
}

static void name_group(const struct argus_model *m, struct argus_view_row *row, const size_t *ranks,
                       size_t n, int by_node)
{
    const struct argus_model_rank *first = &m->ranks[ranks[0]], *last = &m->ranks[ranks[n - 1]];

    if (by_node)
        snprintf(row->label, sizeof(row->label), "%.32s", node_name(m, first->node));
    else if (m->topology.pp > 1 && first->pp == last->pp)
        snprintf(row->label, sizeof(row->label), "s%d: %d-%d", first->pp, first->rank, last->rank);
    else if (first->rank == last->rank)
        snprintf(row->label, sizeof(row->label), "rank %d", first->rank);
    else
        snprintf(row->label, sizeof(row->label), "%d-%d", first->rank, last->rank);
}

static void fill_row(struct argus_view_row *row, const float *cells, int columns,
                     const size_t *ranks, size_t n, double *scratch)
{
    for (int c = 0; c < columns; c++) {
        for (size_t i = 0; i < n; i++)
            scratch[i] = cells[ranks[i] * (size_t)columns + (size_t)c];
        row->value[c] = finite_median(scratch, n);
    }
    row->n_ranks = n;
    for (int c = 0; c < columns; c++)
        scratch[c] = row->value[c];
    row->typical = finite_median(scratch, (size_t)columns);
}

static int add_row(struct argus_view *view, const struct argus_view_row *row)
{
    struct argus_view_row *bigger = realloc(view->rows, sizeof(*bigger) * (view->n_rows + 1));
    float *value = malloc(sizeof(*value) * (size_t)view->n_columns);

    if (bigger)
        view->rows = bigger;
    if (!bigger || !value) {
        free(value);
        return -1;
    }
    bigger[view->n_rows] = *row;
    bigger[view->n_rows++].value = value;
    return 0;
}

static int make_rows(struct argus_view *view, const struct argus_model *m,
                     const struct argus_verdict *v, const float *cells, size_t max_rows)
{
    size_t n = m->n_ranks, widest = n > (size_t)view->n_columns ? n : (size_t)view->n_columns;
    double *scratch = malloc(sizeof(*scratch) * widest);
    size_t *list = malloc(sizeof(*list) * n), *group = malloc(sizeof(*group) * n);
    size_t *in_stage = malloc(sizeof(*in_stage) * 2 * (max_rows + 1)), room = 0, n_groups = 0;
    char *own = calloc(n, 1);
    int rc = -1, chosen;

    if (!scratch || !list || !group || !in_stage || !own)
        goto out;
    if (n <= max_rows) {
        memset(own, 1, n);
    } else {
        chosen = choose_own_rows(m, v, cells, view->n_columns, max_rows / 2, own);
        if (chosen < 0)
            goto out;
        room = max_rows - (size_t)chosen;
        n_groups = assign_groups(m, own, room, group, in_stage);
    }
    for (size_t r = 0; r < n; r++) {
        struct argus_view_row row = {.culprit = argus_view_is_culprit(m, v, r)};
        const char *node = node_name(m, m->ranks[r].node);

        if (!own[r])
            continue;
        if (m->n_nodes > 1)
            snprintf(row.label, sizeof(row.label), "rank %d %.24s", m->ranks[r].rank, node);
        else
            snprintf(row.label, sizeof(row.label), "rank %d", m->ranks[r].rank);
        if (add_row(view, &row) < 0)
            goto out;
        fill_row(&view->rows[view->n_rows - 1], cells, view->n_columns, &r, 1, scratch);
    }
    for (size_t g = 0; g < n_groups; g++) {
        struct argus_view_row row = {.culprit = 0};
        size_t members = 0;

        for (size_t r = 0; r < n; r++)
            if (!own[r] && group[r] == g)
                list[members++] = r;
        if (members == 0)
            continue;
        name_group(m, &row, list, members, m->n_nodes > 1 && m->n_nodes <= room);
        if (add_row(view, &row) < 0)
            goto out;
        fill_row(&view->rows[view->n_rows - 1], cells, view->n_columns, list, members, scratch);
    }
    rc = 0;
out:
    free(scratch);
    free(list);
    free(group);
    free(in_stage);
    free(own);
    return rc;
}

struct argus_view *argus_view_lay_out(const struct argus_model *m, enum argus_view_kind kind,
                                      int max_columns)
{
    struct argus_view *view;
    int bin;

    if (m->n_steps <= 0 || max_columns < 1 || !(view = calloc(1, sizeof(*view))))
        return NULL;
    bin = (m->n_steps + max_columns - 1) / max_columns;
    view->kind = kind;
    view->steps_per_column = bin;
    view->n_columns = (m->n_steps + bin - 1) / bin;
    view->low = view->high = NAN;
    return view;
}

struct argus_view *argus_view_finish(struct argus_view *view, int ok)
{
    for (size_t r = 0; ok && r < view->n_rows; r++) {
        for (int c = 0; c < view->n_columns; c++) {
            view->low = fminf(view->low, view->rows[r].value[c]);
            view->high = fmaxf(view->high, view->rows[r].value[c]);
        }
    }
    if (ok && !isnan(view->low))
        return view;
    argus_view_destroy(view);
    return NULL;
}

struct argus_view *argus_view_create(const struct argus_model *m, const struct argus_verdict *v,
                                     enum argus_view_kind kind, size_t max_rows, int max_columns)
{
    struct argus_view *view = argus_view_lay_out(m, kind, max_columns);
    float *cells = NULL;
    int ok = 0;

    if (!view || m->n_ranks == 0 || max_rows < 2 ||
        m->n_ranks > SIZE_MAX / sizeof(*cells) / (size_t)view->n_columns)
        goto out;
    cells = malloc(sizeof(*cells) * m->n_ranks * (size_t)view->n_columns);
    ok = cells && !fill_cells(m, kind, view->n_columns, view->steps_per_column, cells) &&
         ((kind != ARGUS_VIEW_COMPUTE && kind != ARGUS_VIEW_COPY) ||
          !make_relative(m, v, view->n_columns, cells)) &&
         !make_rows(view, m, v, cells, max_rows);
out:
    free(cells);
    return argus_view_finish(view, ok);
}

void argus_view_destroy(struct argus_view *view)
{
    if (!view)
        return;
    for (size_t r = 0; r < view->n_rows; r++)
        free(view->rows[r].value);
    free(view->rows);
    free(view);
}

/* ---- series ------------------------------------------------------------- */

float *argus_view_step_times(const struct argus_model *m, int max_columns, int *n_columns,
                             int *steps_per_column)
{
    double *steps = NULL, *scratch = NULL;
    float *out = NULL;
    int bin;

    if (m->n_steps <= 0 || m->n_ranks == 0 || max_columns < 1)
        return NULL;
    bin = (m->n_steps + max_columns - 1) / max_columns;
    *steps_per_column = bin;
    *n_columns = (m->n_steps + bin - 1) / bin;
    steps = malloc(sizeof(*steps) * (size_t)bin);
    scratch = malloc(sizeof(*scratch) * m->n_ranks);
    out = malloc(sizeof(*out) * (size_t)*n_columns);
    for (int c = 0; steps && scratch && out && c < *n_columns; c++) {
        size_t n = 0;

        for (int k = c * bin; k < (c + 1) * bin && k < m->n_steps; k++) {
            for (size_t r = 0; r < m->n_ranks; r++)
                scratch[r] = argus_rank_col(&m->ranks[r], ARGUS_COL_DURATION, k);
            if (m->use[k])
                steps[n++] = finite_median(scratch, m->n_ranks);
        }
        out[c] = finite_median(steps, n);
    }
    if (!steps || !scratch) {
        free(out);
        out = NULL;
    }
    free(steps);
    free(scratch);
    return out;
}

/* Median over the compared steps of one rank's column. */
static double rank_median(const struct argus_model *m, size_t r, enum argus_column c,
                          double *scratch)
{
    size_t n = 0;

    for (int k = 0; k < m->n_steps; k++)
        if (m->use[k])
            scratch[n++] = argus_rank_col(&m->ranks[r], c, k);
    return finite_median(scratch, n);
}

struct argus_view_stage *argus_view_stages(const struct argus_model *m, size_t *n)
{
    int pp = m->topology.pp > 1 ? m->topology.pp : 1;
    struct argus_view_stage *stages = calloc((size_t)pp, sizeof(*stages));
    double *scratch = malloc(sizeof(*scratch) * (size_t)(m->n_steps > 0 ? m->n_steps : 1));
    double *value[4] = {NULL};
    static const enum argus_column column[4] = {ARGUS_COL_COMPUTE, ARGUS_COL_WAIT, ARGUS_COL_IDLE,
                                                ARGUS_COL_DURATION};
    int ok = stages && scratch;

    *n = 0;
    for (int i = 0; i < 4; i++) {
        value[i] = malloc(sizeof(**value) * (m->n_ranks ? m->n_ranks : 1));
        ok = ok && value[i];
    }
    for (int s = 0; ok && s < pp; s++) {
        struct argus_view_stage *stage = &stages[*n];
        size_t members = 0;

        for (size_t r = 0; r < m->n_ranks; r++) {
            if (pp > 1 && m->ranks[r].pp != s)
                continue;
            for (int i = 0; i < 4; i++)
                value[i][members] = rank_median(m, r, column[i], scratch);
            members++;
        }
        if (members == 0)
            continue;
        stage->stage = s;
        stage->n_ranks = members;
        stage->compute = finite_median(value[0], members);
        stage->wait = finite_median(value[1], members);
        stage->idle = finite_median(value[2], members);
        stage->step = finite_median(value[3], members);
        ++*n;
    }
    for (int i = 0; i < 4; i++)
        free(value[i]);
    free(scratch);
    if (*n == 0) {
        free(stages);
        stages = NULL;
    }
    return stages;
}
