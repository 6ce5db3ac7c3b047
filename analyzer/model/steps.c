/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common step axis.
 *
 * Ranks that call the same collectives number the same step alike when its
 * calls carry the same sequence numbers; a rank that began counting later is
 * shifted.  Which steps are compared: no warm-up, nothing cut off, no gap.
 */
#include <config.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/model/digest.h"
#include "analyzer/stats/stats.h"

/* A collective of a group as one rank counts it. */
struct count_line {
    int group;
    uint8_t func;
    uint64_t bytes;
    size_t rank;
    int step; /* own number */
    uint32_t seq, per_step;
};

static int line_cmp(const void *a, const void *b)
{
    const struct count_line *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->func != y->func)
        return x->func < y->func ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int symmetric(uint8_t func)
{
    return func == ARGUS_FUNC_ALLREDUCE || func == ARGUS_FUNC_ALLGATHER ||
           func == ARGUS_FUNC_REDUCESCATTER || func == ARGUS_FUNC_BROADCAST ||
           func == ARGUS_FUNC_REDUCE || func == ARGUS_FUNC_BARRIER;
}

static size_t lines_of(struct argus_model_build *b, struct count_line *lines)
{
    size_t n = 0;

    for (size_t i = 0; i < b->m->n_ranks; i++) {
        const struct argus_digest *d = b->digests[i];

        for (size_t c = 0; c < d->n_comm_classes; c++) {
            const struct argus_digest_comm_class *cc = &d->comm_classes[c];

            if (!cc->data.sum || cc->data.first_seq || !cc->data.seq_per_step || cc->comm < 0 ||
                d->comms[cc->comm].group < 0 || !symmetric(cc->func))
                continue;
            lines[n++] = (struct count_line){d->comms[cc->comm].group,
                                             cc->func,
                                             cc->bytes,
                                             i,
                                             cc->data.usual_row + b->m->ranks[i].first_step,
                                             cc->data.usual_seq,
                                             cc->data.seq_per_step};
        }
    }
    return n;
}

static size_t root_of(size_t *parent, size_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Shift of y relative to x in steps; 0 when they cannot be compared. */
static int shift_between(const struct count_line *x, const struct count_line *y, int *ok)
{
    int64_t seq = (int64_t)y->seq - x->seq;

    *ok = x->per_step == y->per_step && seq % x->per_step == 0;
    return *ok ? (int)(seq / x->per_step) - (y->step - x->step) : 0;
}

/* Walk the ranks through the collectives they share; each connected set gets the shift of its
 * first rank = 0. */
static void walk(struct argus_model *m, const struct count_line *lines, size_t n, size_t *parent,
                 int *offset)
{
    int again = 1;

    for (size_t i = 0; i < m->n_ranks; i++)
        parent[i] = i;
    for (int round = 0; again && round < 8; round++) {
        again = 0;
        for (size_t i = 1; i < n; i++) {
            const struct count_line *x = &lines[i - 1], *y = &lines[i];
            size_t a, b;
            int ok, shift;

            if (x->group != y->group || x->func != y->func || x->bytes != y->bytes ||
                x->rank == y->rank)
                continue;
            shift = shift_between(x, y, &ok);
            if (!ok)
                continue;
            a = root_of(parent, x->rank);
            b = root_of(parent, y->rank);
            if (a == b)
                continue;
            /* the whole set of y moves */
            shift += offset[x->rank] - offset[y->rank];
            for (size_t r = 0; shift && r < m->n_ranks; r++)
                if (root_of(parent, r) == b)
                    offset[r] += shift;
            if (a < b)
                parent[b] = a;
            else
                parent[a] = b;
            again = 1;
        }
    }
}

static int align(struct argus_model_build *b)
{
    struct argus_model *m = b->m;
    size_t total = 0, n, shifted = 0;
    struct count_line *lines;
    size_t *parent = calloc(m->n_ranks + 1, sizeof(*parent));
    int *offset = calloc(m->n_ranks + 1, sizeof(*offset));
    int rc = -1;

    for (size_t i = 0; i < m->n_ranks; i++)
        total += b->digests[i]->n_comm_classes;
    lines = malloc((total + 1) * sizeof(*lines));
    if (!lines || !parent || !offset)
        goto out;
    n = lines_of(b, lines);
    if (n)
        qsort(lines, n, sizeof(*lines), line_cmp);
    walk(m, lines, n, parent, offset);
    for (size_t i = 0; i < m->n_ranks; i++) {
        int usual = offset[root_of(parent, i)];

        m->ranks[i].shift = offset[i] - usual;
        shifted += m->ranks[i].shift != 0;
    }
    if (shifted)
        argus_model_note(m,
                         "%zu ranks count their steps from another one; aligned by the sequence "
                         "numbers of their collectives",
                         shifted);
    rc = 0;
out:
    free(lines);
    free(parent);
    free(offset);
    return rc;
}

/* Common numbering from 0 (the earliest step of any rank keeps its number when that is >= 0). */
static void range(struct argus_model *m, int *first, int *last)
{
    *first = INT_MAX;
    *last = INT_MIN;
    for (size_t i = 0; i < m->n_ranks; i++) {
        const struct argus_model_rank *r = &m->ranks[i];

        if (!r->n_rows)
            continue;
        if (r->first_step + r->shift < *first)
            *first = r->first_step + r->shift;
        if (r->first_step + r->shift + r->n_rows - 1 > *last)
            *last = r->first_step + r->shift + r->n_rows - 1;
    }
    if (*first > *last)
        *first = 0, *last = -1;
    if (*first < 0) {
        for (size_t i = 0; i < m->n_ranks; i++)
            m->ranks[i].shift -= *first;
        *last -= *first;
        *first = 0;
    }
}

/* A step counts when most ranks have it whole; a rank whose own step is not whole is left out of
 * that step only. */
static void choose(struct argus_model *m, const struct argus_model_options *o)
{
    for (int k = 0; k < m->n_steps; k++) {
        size_t whole = 0, warm = 0, with = 0;

        for (size_t i = 0; i < m->n_ranks; i++) {
            struct argus_model_rank *r = &m->ranks[i];
            int row = argus_rank_row(r, k);

            if (!r->n_rows)
                continue;
            with++;
            if (row < 0)
                continue;
            if (r->flags[row] & (ARGUS_STEP_WARMUP | ARGUS_STEP_PARTIAL))
                warm++;
            else if (r->flags[row] & ARGUS_STEP_GAP)
                r->start[row] = 0; /* reads as absent */
            else
                whole++;
        }
        m->use[k] =
            !warm && whole > 0 && (whole + 1 >= with || (double)whole >= 0.75 * (double)with) &&
            (o->first_step < 0 || k >= o->first_step) && (o->last_step < 0 || k <= o->last_step);
        m->n_used += m->use[k];
    }
}

/* Where some ranks stop early (killed, missing tail) the rest is still compared between those
 * that go on, if they are most. */
static void note_short(struct argus_model *m)
{
    size_t n = 0;
    int who = -1;

    for (size_t i = 0; i < m->n_ranks; i++) {
        const struct argus_model_rank *r = &m->ranks[i];

        if (!r->n_rows)
            argus_model_note(m, "rank %d has no steps", r->rank);
        else if (r->first_step + r->shift + r->n_rows < m->n_steps - 1) {
            n++;
            who = r->rank;
        }
    }
    if (n == 1)
        argus_model_note(m, "rank %d has fewer steps than the others", who);
    else if (n)
        argus_model_note(m, "%zu ranks have fewer steps than the others", n);
}

int argus_model_build_steps(struct argus_model_build *b, argus_error_t *err)
{
    struct argus_model *m = b->m;
    int first, last;

    if (align(b))
        return argus_error(err, "%s: no memory", m->dir);
    range(m, &first, &last);
    m->n_steps = last + 1;
    m->use = calloc((size_t)m->n_steps + 1, 1);
    if (!m->use)
        return argus_error(err, "%s: no memory", m->dir);
    choose(m, b->options);
    note_short(m);
    return 0;
}
