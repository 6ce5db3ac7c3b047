/* SPDX-License-Identifier: Apache-2.0 */
/* Transfer times of collectives against those of sibling groups. */
#include <config.h>
#include <argus/record.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/view.h"
#include "analyzer/report/words.h"
#include "analyzer/stats/stats.h"

#define SHORT_NAME 8 /* letters of a group's name that a label has room for */

const char *argus_view_func_name(int func)
{
    static const char *const names[ARGUS_FUNC_COUNT] = {
        "collective", "all-reduce", "all-gather", "reduce-scatter", "broadcast",
        "reduce",     "all-to-all", "gather",     "scatter",        "send",
        "recv",       "send/recv",  "barrier",    "group",          "other"};

    return func >= 0 && func < ARGUS_FUNC_COUNT ? names[func] : "collective";
}

static float bin_median(const struct argus_model *m, const float *series, int first, int n,
                        double *scratch)
{
    size_t used = 0;

    for (int k = first; k < first + n && k < m->n_steps; k++)
        if (m->use[k] && !isnan(series[k]))
            scratch[used++] = series[k];
    return used ? (float)argus_median_inplace(scratch, used) : NAN;
}

/* Do two collectives move the same bytes in groups of the same shape, two pairs over ways of the same kind? */
static int siblings(const struct argus_model *m, const struct argus_comm_class *a,
                    const struct argus_comm_class *b)
{
    const struct argus_group *g = &m->groups[a->group], *h = &m->groups[b->group];

    return a->func == b->func && a->bytes == b->bytes && g->kind == h->kind &&
           argus_comm_is_pair(a) == argus_comm_is_pair(b) &&
           (argus_comm_is_pair(a) || (g->size == h->size && g->nodes == h->nodes)) &&
           argus_comm_crosses_nodes(m, a) == argus_comm_crosses_nodes(m, b);
}

/* What a transfer should take: the fastest of up to four siblings, the lower quartile of more, so that up to half of
 * them may be slow; without siblings, the lower quartile of its own columns. */
static double expected_work(const struct argus_model *m, size_t c, const double *typical,
                            const float *cells, int columns, double *scratch)
{
    size_t n = 0;

    for (size_t k = 0; k < m->n_comm_classes; k++)
        if (!isnan(typical[k]) && siblings(m, &m->comm_classes[c], &m->comm_classes[k]))
            scratch[n++] = typical[k];
    if (n >= 2)
        return argus_quantile_inplace(scratch, n, n <= 4 ? 0 : 0.25);
    n = 0;
    for (int i = 0; i < columns; i++)
        if (!isnan(cells[c * (size_t)columns + (size_t)i]))
            scratch[n++] = cells[c * (size_t)columns + (size_t)i];
    return argus_quantile_inplace(scratch, n, 0.25);
}

/* " 64 MiB", " 1.5 MiB", " 12 KiB", " 4 B"; nothing where it is not known. */
static void size_text(uint64_t bytes, char *text, size_t size)
{
    double kib = (double)bytes / 1024, mib = kib / 1024;

    if (mib >= 0.1)
        snprintf(text, size, " %.*f MiB", mib >= 10 ? 0 : 1, mib);
    else if (kib >= 1)
        snprintf(text, size, " %.0f KiB", kib);
    else if (bytes)
        snprintf(text, size, " %u B", (unsigned)bytes);
    else
        text[0] = '\0';
}

/* "dp_0 all-reduce 64 MiB"; a long name gives way to the kind of the group and its number among them. */
static void label_row(const struct argus_model *m, const struct argus_comm_class *cc,
                      struct argus_view_row *row)
{
    const struct argus_group *g = &m->groups[cc->group];
    char name[24], bytes[24];

    size_text(cc->bytes, bytes, sizeof(bytes));
    if (g->name && g->name[0] && strlen(g->name) <= SHORT_NAME)
        snprintf(name, sizeof(name), "%s", g->name);
    else
        snprintf(name, sizeof(name), "%.8s_%d", argus_group_kind_name(g->kind), g->index);
    if (cc->from >= 0 && cc->to >= 0)
        snprintf(row->label, sizeof(row->label), "%s %s %d>%d", name,
                 argus_view_func_name(cc->func), cc->from, cc->to);
    else
        snprintf(row->label, sizeof(row->label), "%s %s%s", name, argus_view_func_name(cc->func),
                 bytes);
    row->group = cc->group;
    row->n_ranks = g->size;
}

static int compare_rows(const void *a, const void *b)
{
    const struct argus_view_row *x = a, *y = b;

    return x->typical < y->typical ? 1 : x->typical > y->typical ? -1 : strcmp(x->label, y->label);
}

/* Typical work of every collective, and by column; NAN: none. */
static void typical_work(const struct argus_model *m, int columns, int bin, float *cells,
                         double *typical, double *scratch)
{
    for (size_t c = 0; c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];

        typical[c] = NAN;
        if (!cc->work || !cc->matched || cc->group < 0 || (size_t)cc->group >= m->n_groups)
            continue;
        for (int i = 0; i < columns; i++)
            cells[c * (size_t)columns + (size_t)i] = bin_median(m, cc->work, i * bin, bin, scratch);
        typical[c] = bin_median(m, cc->work, 0, m->n_steps, scratch);
    }
}

static int fill_rows(const struct argus_model *m, struct argus_view *view, const float *cells,
                     const double *typical, double *scratch)
{
    int columns = view->n_columns;

    for (size_t c = 0; c < m->n_comm_classes; c++) {
        struct argus_view_row *row = &view->rows[view->n_rows];
        double expected;

        if (isnan(typical[c]))
            continue;
        expected = expected_work(m, c, typical, cells, columns, scratch);
        if (!(expected > 0))
            continue;
        row->value = malloc(sizeof(*row->value) * (size_t)columns);
        if (!row->value)
            return -1;
        view->n_rows++;
        for (int i = 0; i < columns; i++)
            row->value[i] = (float)(cells[c * (size_t)columns + (size_t)i] / expected);
        row->typical = typical[c] / expected;
        label_row(m, &m->comm_classes[c], row);
    }
    return 0;
}

double *argus_view_work_ratios(const struct argus_model *m)
{
    enum { COLUMNS = 16 };
    size_t n = m->n_comm_classes, most = n > (size_t)m->n_steps ? n : (size_t)m->n_steps;
    int bin = (m->n_steps + COLUMNS - 1) / COLUMNS;
    float *cells = malloc(sizeof(*cells) * (n + 1) * COLUMNS);
    double *typical = malloc(sizeof(*typical) * (n + 1)),
           *scratch = malloc(sizeof(double) * (most + 1));
    double *ratio = malloc(sizeof(*ratio) * (n + 1));

    if (cells && typical && scratch && ratio && m->n_steps > 0) {
        typical_work(m, COLUMNS, bin, cells, typical, scratch);
        for (size_t c = 0; c < n; c++)
            ratio[c] = isnan(typical[c])
                           ? NAN
                           : typical[c] / expected_work(m, c, typical, cells, COLUMNS, scratch);
    } else {
        free(ratio);
        ratio = NULL;
    }
    free(cells);
    free(typical);
    free(scratch);
    return ratio;
}

struct argus_view *argus_view_work(const struct argus_model *m, size_t max_rows, int max_columns)
{
    size_t n = m->n_comm_classes, most = n > (size_t)m->n_steps ? n : (size_t)m->n_steps;
    struct argus_view *view = n ? argus_view_lay_out(m, ARGUS_VIEW_WORK, max_columns) : NULL;
    float *cells = NULL;
    double *typical = NULL, *scratch = NULL;
    int ok = 0;

    if (!view)
        return NULL;
    view->rows = calloc(n, sizeof(*view->rows));
    cells = malloc(sizeof(*cells) * n * (size_t)view->n_columns);
    typical = malloc(sizeof(*typical) * n);
    scratch = malloc(sizeof(*scratch) * most);
    if (!view->rows || !cells || !typical || !scratch)
        goto out;
    typical_work(m, view->n_columns, view->steps_per_column, cells, typical, scratch);
    if (fill_rows(m, view, cells, typical, scratch) < 0)
        goto out;
    qsort(view->rows, view->n_rows, sizeof(*view->rows), compare_rows);
    while (view->n_rows > max_rows)
        free(view->rows[--view->n_rows].value);
    ok = 1;
out:
    free(cells);
    free(typical);
    free(scratch);
    return argus_view_finish(view, ok);
}
