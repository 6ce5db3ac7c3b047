/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel classes joined over ranks, and who may be compared with whom. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/digest.h"

struct seen {
    uint64_t signature;
    size_t rank, index;
};

static int seen_cmp(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->signature != y->signature)
        return x->signature < y->signature ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* From class ids of the rank's file to the model's classes, for its events. */
static int map_classes(struct argus_model_build *b, size_t i)
{
    const struct argus_digest *d = b->digests[i];
    struct argus_model_rank *r = &b->m->ranks[i];

    r->class_map = argus_arena_alloc(b->arena, d->n_slots, sizeof(int));
    if (!r->class_map)
        return -1;
    r->n_class_map = d->n_slots;
    for (size_t c = 0; c < d->n_slots; c++) {
        int slot = d->slot[c];

        r->class_map[c] = -1;
        if (slot < 0)
            continue;
        if (d->kind[c] == ARGUS_CLASS_COMM) {
            const struct argus_digest_comm_class *cc = &d->comm_classes[slot];
            int to = cc->into ? cc->into->comm_class : cc->comm_class;

            r->class_map[c] = to >= 0 ? -2 - to : -1;
        } else if (d->classes[slot].data.typical) {
            r->class_map[c] = d->classes[slot].data.kernel_class;
        }
    }
    return 0;
}

int argus_model_build_kernels(struct argus_model_build *b, argus_error_t *err)
{
    struct argus_model *m = b->m;
    struct seen *all;
    size_t total = 0, n = 0, distinct = 0;
    int rc = -1;

    for (size_t i = 0; i < m->n_ranks; i++)
        total += b->digests[i]->n_classes;
    all = malloc((total + 1) * sizeof(*all));
    if (!all)
        goto out;
    for (size_t i = 0; i < m->n_ranks; i++)
        for (size_t c = 0; c < b->digests[i]->n_classes; c++)
            if (b->digests[i]->classes[c].data.typical)
                all[n++] = (struct seen){b->digests[i]->classes[c].key.signature, i, c};
    if (n)
        qsort(all, n, sizeof(*all), seen_cmp);
    for (size_t i = 0; i < n; i++)
        distinct += i == 0 || all[i].signature != all[i - 1].signature;
    m->kernel_classes = calloc(distinct + 1, sizeof(*m->kernel_classes));
    if (!m->kernel_classes)
        goto out;
    for (size_t i = 0; i < m->n_ranks; i++)
        if (!(m->ranks[i].classes =
                  calloc(b->digests[i]->n_classes + 1, sizeof(*m->ranks[i].classes))))
            goto out;
    for (size_t i = 0; i < n; i++) {
        struct argus_model_rank *r = &m->ranks[all[i].rank];
        struct argus_digest_class *c = &b->digests[all[i].rank]->classes[all[i].index];

        if (i == 0 || all[i].signature != all[i - 1].signature)
            m->kernel_classes[m->n_kernel_classes++] = c->key;
        m->kernel_classes[m->n_kernel_classes - 1].ranks++;
        c->data.kernel_class = (int)m->n_kernel_classes - 1;
        r->classes[r->n_classes++] = c->data; /* classes come in order: sorted for every rank */
    }
    for (size_t i = 0; i < m->n_ranks; i++)
        if (map_classes(b, i))
            goto out;
    rc = 0;
out:
    free(all);
    return rc ? argus_error(err, "%s: no memory", m->dir) : 0;
}

static double total(const struct argus_model_rank *r, const float *array)
{
    double sum = 0;

    for (int w = 0; w < r->n_windows; w++)
        sum += (double)array[w];
    return sum;
}

int argus_rank_class_regular(const struct argus_model_rank *r, const struct argus_rank_class *c)
{
    return total(r, c->count) >= 0.7 * r->n_rows;
}

/* Share of a's compute time in classes that b runs, at most `factor` times more or less often. */
static double in_common(const struct argus_model *m, const struct argus_model_rank *a,
                        const struct argus_model_rank *b, double factor)
{
    double common = 0, all = 0;
    double steps_a = a->n_rows, steps_b = b->n_rows;

    for (size_t i = 0; i < a->n_classes; i++) {
        const struct argus_rank_class *x = &a->classes[i], *y;
        double time = total(a, x->sum), calls, others;

        /* grids that change with the data say nothing about what a rank is */
        if (m->kernel_classes[x->kernel_class].kind != ARGUS_CLASS_COMPUTE ||
            !argus_rank_class_regular(a, x))
            continue;
        all += time;
        y = argus_rank_find_class(b, x->kernel_class);
        if (!y)
            continue;
        calls = total(a, x->count) / steps_a;
        others = total(b, y->count) / steps_b;
        if (calls <= factor * others && others <= factor * calls)
            common += time;
    }
    return all > 0 ? common / all : 1;
}

double argus_model_alike(const struct argus_model *m, const struct argus_model_rank *a,
                         const struct argus_model_rank *b)
{
    return in_common(m, a, b, 1.1);
}

double argus_model_same_kernels(const struct argus_model *m, const struct argus_model_rank *a,
                                const struct argus_model_rank *b)
{
    return in_common(m, a, b, INFINITY);
}

static int add_to_set(struct argus_model *m, size_t set, int rank)
{
    struct argus_peer_set *s = &m->peer_sets[set];
    int *ranks = realloc(s->ranks, (s->n + 1) * sizeof(int));

    if (!ranks)
        return -1;
    s->ranks = ranks;
    s->ranks[s->n++] = rank;
    m->ranks[rank].peers = (int)set;
    return 0;
}

/* Sets are told apart by stage and what runs; each rank is compared with the first member. */
int argus_model_build_peers(struct argus_model_build *b, argus_error_t *err)
{
    struct argus_model *m = b->m;

    m->peer_sets = calloc(m->n_ranks + 1, sizeof(*m->peer_sets));
    if (!m->peer_sets)
        return argus_error(err, "%s: no memory", m->dir);
    for (size_t i = 0; i < m->n_ranks; i++) {
        struct argus_model_rank *r = &m->ranks[i];
        size_t set;

        for (set = 0; set < m->n_peer_sets; set++) {
            const struct argus_peer_set *s = &m->peer_sets[set];

            if (s->stage == r->pp &&
                (!r->n_classes || (argus_model_alike(m, r, &m->ranks[s->ranks[0]]) >= 0.8 &&
                                   argus_model_alike(m, &m->ranks[s->ranks[0]], r) >= 0.8)))
                break;
        }
        if (set == m->n_peer_sets) {
            m->peer_sets[set].stage = r->pp;
            m->n_peer_sets++;
        }
        if (add_to_set(m, set, (int)i))
            return argus_error(err, "%s: no memory", m->dir);
    }
    return 0;
}
