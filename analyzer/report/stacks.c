/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/stacks.h"
#include "analyzer/report/view.h"

#define SAMPLES_MAX 1000000

static int by_samples(const void *a, const void *b)
{
    const struct argus_stack *x = a, *y = b;

    if (x->samples != y->samples)
        return x->samples < y->samples ? 1 : -1;
    return strcmp(x->folded, y->folded);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct argus_stack *)a)->folded, ((const struct argus_stack *)b)->folded);
}

static void merge_equal(struct argus_stacks *s)
{
    size_t kept = 0;

    qsort(s->items, s->n, sizeof(*s->items), by_name);
    for (size_t i = 0; i < s->n; i++) {
        s->samples += s->items[i].samples;
        if (kept && !strcmp(s->items[kept - 1].folded, s->items[i].folded))
            s->items[kept - 1].samples += s->items[i].samples;
        else
            s->items[kept++] = s->items[i];
    }
    s->n = kept;
    qsort(s->items, s->n, sizeof(*s->items), by_samples);
}

static void collect(struct argus_stacks *s, const struct argus_stack_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        s->starved |= rows[i].starved != 0;
    s->items = calloc(n + 1, sizeof(*s->items));
    for (size_t i = 0; s->items && i < n; i++) {
        const char *folded = argus_timeline_string(s->file, rows[i].folded);

        if ((!s->starved || rows[i].starved) && folded[0])
            s->items[s->n++] = (struct argus_stack){folded, 1};
    }
    if (s->n)
        merge_equal(s);
}

struct argus_stacks *argus_stacks_load(const struct argus_model *m, const struct argus_verdict *v)
{
    struct argus_stacks *s = calloc(1, sizeof(*s));
    struct argus_stack_row *rows = NULL;
    size_t rank = 0, n = 0;

    while (rank < m->n_ranks && !argus_view_is_culprit(m, v, rank))
        rank++;
    if (!s || rank == m->n_ranks || !m->ranks[rank].path ||
        !(s->file = argus_timeline_open(m->ranks[rank].path, NULL)))
        goto out;
    s->rank = m->ranks[rank].rank;
    rows = argus_timeline_read_all(s->file, ARGUS_DS_STACKS, SAMPLES_MAX, &n, NULL);
    if (rows)
        collect(s, rows, n);
out:
    free(rows);
    if (s && s->n)
        return s;
    argus_stacks_destroy(s);
    return NULL;
}

void argus_stacks_destroy(struct argus_stacks *s)
{
    if (!s)
        return;
    argus_timeline_close(s->file);
    free(s->items);
    free(s);
}
