/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of collectives by step -> columns of each class. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/digest_loader.h"

static int comm_arrays(struct argus_digest_loader *l, struct argus_rank_comm *c)
{
    size_t n = (size_t)l->d->rank.n_rows;

    if (c->sum)
        return 0;
    c->sum = argus_arena_alloc(l->arena, n, sizeof(float));
    c->min = argus_arena_alloc(l->arena, n, sizeof(float));
    c->count = malloc(n * sizeof(float)); /* moved to the arena when it varies */
    c->first_seq = malloc(n * sizeof(uint32_t));
    if (!c->sum || !c->min || !c->count || !c->first_seq)
        return -1;
    for (size_t i = 0; i < n; i++) {
        c->sum[i] = c->min[i] = NAN;
        c->count[i] = 0;
        c->first_seq[i] = ARGUS_NONE;
    }
    return 0;
}

static void add_step_comm(struct argus_rank_comm *c, int at, const struct argus_step_comm_row *row)
{
    if (c->count[at] > 0) { /* the same class on another stream */
        c->sum[at] += (float)row->sum;
        c->min[at] = fminf(c->min[at], (float)row->min);
        c->first_seq[at] = row->first_seq < c->first_seq[at] ? row->first_seq : c->first_seq[at];
    } else {
        c->sum[at] = (float)row->sum;
        c->min[at] = (float)row->min;
        c->first_seq[at] = row->first_seq;
    }
    c->count[at] += (float)row->count;
    c->lead += (double)row->lead_idle;
}

/* Most jobs call a collective equally often in every step: one number says it all. */
static int pack_comm(struct argus_digest_loader *l, struct argus_rank_comm *c)
{
    int n = l->d->rank.n_rows, first = -1, second = -1, same = 1, even = 1, steps = 0;
    float *count = c->count;
    uint32_t *seq = c->first_seq;

    for (int i = 0; i < n; i++) {
        if (!(count[i] > 0))
            continue;
        steps++;
        if (first < 0)
            first = i;
        else if (second < 0)
            second = i;
        same &= count[i] == count[first];
    }
    c->count = NULL;
    c->first_seq = NULL;
    if (first >= 0) {
        c->usual_count = count[first];
        c->usual_row = first;
        c->usual_seq = seq[first];
        c->lead /= steps;
        if (second >= 0 && seq[first] != ARGUS_NONE && seq[second] != ARGUS_NONE)
            c->seq_per_step = (seq[second] - seq[first]) / (uint32_t)(second - first);
        for (int i = 0; i < n; i++)
            if (count[i] > 0 && seq[i] != seq[first] + c->seq_per_step * (uint32_t)(i - first))
                even = 0;
    }
    if (!same && (c->count = argus_arena_alloc(l->arena, (size_t)n, sizeof(float))))
        memcpy(c->count, count, (size_t)n * sizeof(float));
    if (!even && (c->first_seq = argus_arena_alloc(l->arena, (size_t)n, sizeof(uint32_t))))
        memcpy(c->first_seq, seq, (size_t)n * sizeof(uint32_t));
    free(count);
    free(seq);
    return (!same && !c->count) || (!even && !c->first_seq) ? -1 : 0;
}

int argus_digest_load_step_comm(struct argus_digest_loader *l)
{
    struct argus_digest *d = l->d;
    size_t n = 0;
    struct argus_step_comm_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_STEP_COMM, 1u << 28, &n, l->err);
    int rc = rows ? 0 : -1;

    for (size_t i = 0; i < n && !rc; i++) {
        int at = rows[i].step - d->rank.first_step;
        struct argus_rank_comm *c;

        if (rows[i].class_id >= l->n_classes ||
            l->classes[rows[i].class_id].kind != ARGUS_CLASS_COMM || rows[i].step < 0 || at < 0 ||
            at >= d->rank.n_rows || !d->rank.start[at])
            continue;
        if (!rows[i].count || rows[i].min < 0 || rows[i].sum < rows[i].min) {
            d->rank.counters.invalid++;
            continue;
        }
        c = &d->comm_classes[l->slot[rows[i].class_id]].data;
        if (comm_arrays(l, c))
            rc = argus_digest_no_memory(l->err, argus_timeline_path(l->t));
        else
            add_step_comm(c, at, &rows[i]);
    }
    for (size_t i = 0; i < d->n_comm_classes; i++) {
        struct argus_rank_comm *c = &d->comm_classes[i].data;

        if (rc) {
            free(c->count);
            free(c->first_seq);
            c->count = NULL;
            c->first_seq = NULL;
        } else if (c->sum && pack_comm(l, c)) {
            rc = argus_digest_no_memory(l->err, argus_timeline_path(l->t));
        }
    }
    free(rows);
    return rc;
}
