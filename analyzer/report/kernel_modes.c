/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/kernel_modes.h"
#include "analyzer/timeline/timeline_io.h"

#define ROWS_MAX 8000000 /* rows of `clusters` that are read */

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct argus_kernel_modes *)a)->key,
                  ((const struct argus_kernel_modes *)b)->key);
}

void argus_kernel_modes_free(struct argus_kernel_modes *list, size_t n)
{
    for (size_t i = 0; list && i < n; i++) {
        free(list[i].key);
        free(list[i].name);
    }
    free(list);
}

const struct argus_kernel_modes *argus_kernel_modes_find(const struct argus_kernel_modes *list,
                                                         size_t n, const char *key)
{
    struct argus_kernel_modes wanted = {.key = (char *)key};

    return n ? bsearch(&wanted, list, n, sizeof(*list), compare_keys) : NULL;
}

static int name_class(struct argus_kernel_modes *k, const char *name, const uint32_t *grid,
                      const uint32_t *block)
{
    memcpy(k->grid, grid, sizeof(k->grid));
    memcpy(k->block, block, sizeof(k->block));
    k->name = strdup(name);
    if (asprintf(&k->key, "%s %u,%u,%u %u,%u,%u", name, grid[0], grid[1], grid[2], block[0],
                 block[1], block[2]) < 0)
        k->key = NULL;
    return k->name && k->key ? 0 : -1;
}

/* Keep every `every`-th window: a mixture of a hundred windows says no more than one of twenty. */
static void add_mode(struct argus_kernel_modes *k, const struct argus_cluster_row *row, int every,
                     int window)
{
    /* a window whole or not at all: its slow modes come last */
    size_t left = row->clusters > row->cluster ? row->clusters - row->cluster : 1;

    k->time += (double)row->sum;
    k->calls += row->count;
    if (window % every || k->n_modes + left > ARGUS_KERNEL_MODES || row->count == 0)
        return;
    k->modes[k->n_modes++] = (struct argus_mode){.count = row->count,
                                                 .sum = row->sum,
                                                 .min = row->min,
                                                 .max = row->max,
                                                 .p50 = row->p50,
                                                 .p99 = row->p99};
}

/* Classes with calls, at the front, sorted. */
static size_t tidy(struct argus_kernel_modes *list, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (list[i].n_modes && list[i].key) {
            list[kept++] = list[i];
        } else {
            free(list[i].key);
            free(list[i].name);
        }
    }
    qsort(list, kept, sizeof(*list), compare_keys);
    return kept;
}

static struct argus_kernel_modes *from_timeline(const char *path, int first_step, int window,
                                                int windows, size_t *n)
{
    argus_timeline_t *t = argus_timeline_open(path, NULL);
    struct argus_kernel_modes *list = NULL;
    struct argus_class_row *classes = NULL;
    struct argus_cluster_row *rows = NULL;
    size_t n_classes = 0, n_rows = 0;
    int every = windows > ARGUS_KERNEL_MODES / 2 ? 2 * windows / ARGUS_KERNEL_MODES : 1, within = 0;

    if (!t)
        return NULL;
    classes = argus_timeline_read_all(t, ARGUS_DS_CLASSES, ROWS_MAX, &n_classes, NULL);
    rows = argus_timeline_read_all(t, ARGUS_DS_CLUSTERS, ROWS_MAX, &n_rows, NULL);
    list = n_classes ? calloc(n_classes, sizeof(*list)) : NULL;
    /* A window across the onset holds both sides; it counts only where no later one is. */
    for (size_t i = 0; rows && i < n_rows; i++)
        within |= rows[i].first_step >= first_step;
    for (size_t i = 0; list && rows && i < n_rows; i++) {
        const struct argus_cluster_row *row = &rows[i];
        const struct argus_class_row *c;

        if (row->class_id >= n_classes || row->p50 <= 0 ||
            (within ? row->first_step : row->last_step) < first_step)
            continue;
        c = &classes[row->class_id];
        if (c->kind != ARGUS_CLASS_COMPUTE || (c->flags & ARGUS_CLASS_POOLED))
            continue;
        if (!list[row->class_id].key &&
            name_class(&list[row->class_id], argus_timeline_string(t, c->name), c->grid, c->block) <
                0)
            break;
        add_mode(&list[row->class_id], row, every, row->first_step / (window > 0 ? window : 1));
    }
    *n = list ? tidy(list, n_classes) : 0;
    free(classes);
    free(rows);
    argus_timeline_close(t);
    return list;
}

static struct argus_kernel_modes *from_model(const struct argus_model *m, size_t rank,
                                             int first_window, size_t *n)
{
    const struct argus_model_rank *r = &m->ranks[rank];
    struct argus_kernel_modes *list = r->n_classes ? calloc(r->n_classes, sizeof(*list)) : NULL;
    int every = (r->n_windows - first_window) / ARGUS_KERNEL_MODES + 1;

    for (size_t c = 0; list && c < r->n_classes; c++) {
        const struct argus_rank_class *rc = &r->classes[c];
        const struct argus_kernel_class *kc = &m->kernel_classes[rc->kernel_class];

        if (kc->kind != ARGUS_CLASS_COMPUTE ||
            name_class(&list[c], kc->name ? kc->name : "", kc->grid, kc->block) < 0)
            continue;
        for (int w = first_window; w < r->n_windows; w++) {
            struct argus_cluster_row row;

            if (!(rc->typical[w] > 0) || !(rc->count[w] > 0))
                continue;
            row = (struct argus_cluster_row){.count = (uint32_t)rc->count[w],
                                             .p50 = (int64_t)rc->typical[w],
                                             .p99 = (int64_t)fmaxf(rc->p99[w], rc->typical[w]),
                                             .sum = (int64_t)rc->sum[w]};
            add_mode(&list[c], &row, every, w - first_window);
        }
    }
    *n = list ? tidy(list, r->n_classes) : 0;
    return list;
}

struct argus_kernel_modes *argus_kernel_modes_load(const struct argus_model *m, size_t rank,
                                                   int first_step, size_t *n)
{
    const struct argus_model_rank *r = &m->ranks[rank];
    int window = m->cluster_steps > 0 ? m->cluster_steps : 1, first_window;
    struct argus_kernel_modes *list = NULL;

    *n = 0;
    first_step = first_step > 0 ? first_step : 0;
    first_window = first_step / window;
    if (first_window >= m->n_windows)
        first_window = 0;
    if (r->path)
        list =
            from_timeline(r->path, first_step - r->shift, window, m->n_windows - first_window, n);
    if (*n == 0) {
        argus_kernel_modes_free(list, 0);
        list = from_model(m, rank, first_window, n);
    }
    return list;
}
