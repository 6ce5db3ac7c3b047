/* SPDX-License-Identifier: Apache-2.0 */
/* Kept steps -> operations, what each of them waited for, and calls of collectives. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/verdict/replay_graph.h"

#define MAX_EVENTS 4000000 /* of all ranks */
#define SLACK_MIN 2000     /* ns by which an end may come after the start that waited for it */
#define SLACK_MAX 50000    /* ... a hundredth of the operation, within these */
#define MAX_STREAMS 32

/* Steps whose events most ranks kept; those kept because they were slow only where there is nothing else. */
int argus_replay_choose_steps(const struct argus_model *m, int first, int end, int most, int *steps)
{
    int n = 0, picked = 0;

    for (int pass = 0; pass < 2 && !n; pass++)
        for (int k = first > 0 ? first : 0; k < end && k < m->n_steps; k++) {
            size_t with = 0, kept = 0, slow = 0;

            for (size_t i = 0; i < m->n_ranks && m->use[k]; i++) {
                int row = argus_rank_row(&m->ranks[i], k);

                if (row < 0)
                    continue;
                with++;
                kept += (m->ranks[i].flags[row] & ARGUS_STEP_KEPT) != 0;
                slow += (m->ranks[i].flags[row] & ARGUS_STEP_SLOW) != 0;
            }
            if (with && kept == with && with * 2 > m->n_ranks && (pass || slow * 4 < with))
                steps[n++] = k;
        }
    if (n <= most)
        return n;
    for (int i = 0; i < most; i++)
        steps[picked++] = steps[(int)((double)i * n / most)];
    return picked;
}

static int add_op(struct argus_replay *r, int rank, const struct argus_model_event *e)
{
    struct argus_replay_op *op;

    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 8192;

        if (!(op = realloc(r->ops, room * sizeof(*op))))
            return -1;
        r->ops = op;
        r->room = room;
    }
    op = &r->ops[r->n++];
    memset(op, 0, sizeof(*op));
    op->rank = rank;
    op->step = e->step;
    op->kernel_class = e->kernel_class;
    op->comm_class = e->comm_class;
    op->call = -1;
    op->start = e->start;
    op->end = e->end;
    op->ns = (double)(e->end - e->start);
    return 0;
}

static int64_t slack_of(const struct argus_replay_op *op)
{
    int64_t hundredth = (op->end - op->start) / 100;

    return hundredth < SLACK_MIN ? SLACK_MIN : hundredth > SLACK_MAX ? SLACK_MAX : hundredth;
}

/* Dependencies of the ops of one rank and step, which stand in order of start in [first, end). */
static void find_deps(struct argus_replay *r, size_t first, size_t end, const uint32_t *stream,
                      int64_t step_start)
{
    int last[MAX_STREAMS];
    uint32_t names[MAX_STREAMS];
    int n_streams = 0;

    for (size_t i = first; i < end; i++) {
        struct argus_replay_op *op = &r->ops[i];
        int own = -1, prev, best = -1;
        int64_t released;

        for (int s = 0; s < n_streams; s++)
            if (names[s] == stream[i - first])
                own = s;
        if (own < 0 && n_streams < MAX_STREAMS) {
            own = n_streams++;
            names[own] = stream[i - first];
            last[own] = -1;
        }
        if (own < 0)
            own = MAX_STREAMS - 1;
        prev = last[own];
        released = prev >= 0 ? r->ops[prev].end : INT64_MIN;
        if (prev >= 0)
            op->deps[op->n_deps++] = prev;
        for (int s = 0; s < n_streams; s++) {
            int other = last[s];

            if (s == own)
                continue;
            /* the last one on that stream that had ended */
            while (other >= (int)first &&
                   r->ops[other].end > op->start + slack_of(&r->ops[other])) {
                int before = -1;

                for (int d = 0; d < r->ops[other].n_deps && before < 0; d++)
                    before =
                        d == 0 && r->ops[other].deps[0] >= (int)first ? r->ops[other].deps[0] : -1;
                other = before;
            }
            if (other < (int)first)
                continue;
            if (r->ops[other].end > released && (best < 0 || r->ops[other].end > r->ops[best].end))
                best = other;
            else if (r->ops[other].comm_class >= 0 && op->comm_class < 0 &&
                     r->m->comm_classes[r->ops[other].comm_class].func == ARGUS_FUNC_SEND &&
                     op->n_deps < ARGUS_REPLAY_MAX_DEPS - 1)
                op->deps[op->n_deps++] = other;
        }
        if (best >= 0)
            op->deps[op->n_deps++] = best;
        released = INT64_MIN;
        for (int d = 0; d < op->n_deps; d++)
            if (r->ops[op->deps[d]].end > released)
                released = r->ops[op->deps[d]].end;
        if (!op->n_deps)
            released = step_start;
        op->delay = op->start > released && released > 0 ? (double)(op->start - released) : 0;
        last[own] = (int)i;
    }
}

int argus_replay_load_rank(struct argus_replay *r, size_t rank, argus_error_t *err)
{
    struct argus_model_event *e = NULL;
    uint32_t *streams = NULL;
    size_t n = 0;
    int rc = -1, row;

    if (argus_model_events(r->m, rank, r->steps, (size_t)r->n_steps, MAX_EVENTS, &e, &n, err))
        return -1;
    streams = malloc((n + 1) * sizeof(*streams));
    if (!streams)
        goto out;
    for (int s = 0; s < r->n_steps; s++) {
        size_t first = r->n, kept = 0;

        for (size_t i = 0; i < n; i++) {
            if (e[i].step != r->steps[s])
                continue;
            streams[kept++] = e[i].stream;
            if (add_op(r, (int)rank, &e[i]))
                goto out;
        }
        row = argus_rank_row(&r->m->ranks[rank], r->steps[s]);
        find_deps(r, first, r->n, streams, row >= 0 ? r->m->ranks[rank].start[row] : 0);
    }
    rc = r->n <= MAX_EVENTS ? 0 : -1;
out:
    free(streams);
    free(e);
    return rc;
}

struct key {
    int comm_class, step;
    uint32_t number; /* of the rank's calls of that class within the step */
    int op;
};

static int key_cmp(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->comm_class != y->comm_class)
        return x->comm_class < y->comm_class ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Calls are matched by their place among the calls of their class in the step. */
int argus_replay_match_calls(struct argus_replay *r)
{
    const struct argus_model *m = r->m;
    struct key *keys = malloc((r->n + 1) * sizeof(*keys));
    uint32_t *counts = calloc(m->n_comm_classes + 1, sizeof(*counts));
    size_t n = 0;
    int last_rank = -1, last_step = -1;

    if (!keys || !counts) {
        free(keys);
        free(counts);
        return -1;
    }
    for (size_t i = 0; i < r->n; i++) {
        struct argus_replay_op *op = &r->ops[i];

        if (op->rank != last_rank || op->step != last_step)
            memset(counts, 0, m->n_comm_classes * sizeof(*counts));
        last_rank = op->rank;
        last_step = op->step;
        if (op->comm_class < 0 || !m->comm_classes[op->comm_class].matched)
            continue;
        keys[n++] = (struct key){op->comm_class, op->step, counts[op->comm_class]++, (int)i};
    }
    if (n)
        qsort(keys, n, sizeof(*keys), key_cmp);
    r->calls = calloc(n + 1, sizeof(*r->calls));
    for (size_t i = 0, j; r->calls && i < n; i = j) {
        int64_t latest = INT64_MIN;
        double ns = INFINITY;

        for (j = i; j < n && keys[j].comm_class == keys[i].comm_class &&
                    keys[j].step == keys[i].step && keys[j].number == keys[i].number;
             j++) {
            struct argus_replay_op *op = &r->ops[keys[j].op];

            op->call = (int)r->n_calls;
            latest = op->start > latest ? op->start : latest;
            /* free of clocks: the last one to come waits for nobody */
            ns = fmin(ns, (double)(op->end - op->start));
        }
        r->calls[r->n_calls].members = (int)(j - i);
        r->calls[r->n_calls++].ns = ns;
    }
    free(keys);
    free(counts);
    return r->calls ? 0 : -1;
}
