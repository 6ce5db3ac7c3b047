/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/stats/stats.h"
#include "analyzer/verdict/replay.h"

#define MAX_EVENTS 4000000 /* of all ranks */
#define SLACK_MIN 2000     /* ns by which an end may come after the start that waited for it */
#define SLACK_MAX 50000    /* ... a hundredth of the operation, within these */
#define MAX_DEPS 4
#define LOOSE_SHARE 0.03 /* of the time in calls that are not matched */
#define MISFIT 0.05      /* of the step time, when nothing is changed */
#define MAX_STREAMS 32

struct op {
    int rank, step;
    int kernel_class, comm_class;
    int call;           /* index of the collective, -1: none */
    int64_t start, end; /* as it was */
    double ns;          /* work: duration, or the transfer of a collective */
    double delay;       /* between what it waited for and its start */
    int deps[MAX_DEPS];
    int n_deps;
};

struct call {    /* one call of a collective within a step */
    int members; /* ops that belong to it */
    double ns;   /* transfer, when it has more than one */
};

struct argus_replay {
    const struct argus_model *m;
    struct op *ops; /* by step, then start: an order in which dependencies come first */
    size_t n, room;
    struct call *calls;
    size_t n_calls;
    int n_steps;
    int *steps;
    double *work;          /* [n] durations of a replay */
    double *ready, *done;  /* [n] */
    double *arrived;       /* [n_calls] */
    int *waiting;          /* [n_calls] */
    double *mean, *median; /* ideal by kernel class; by comm class */
    double *delays;        /* [ranks] share of a rank's delays that is kept */
};

/* ---- loading ------------------------------------------------------------ */

/* Steps whose events most ranks kept; those kept because they were slow only where there is nothing else. */
static int choose_steps(const struct argus_model *m, int first, int end, int most, int *steps)
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
    struct op *op;

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

static int64_t slack_of(const struct op *op)
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
        struct op *op = &r->ops[i];
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
                     op->n_deps < MAX_DEPS - 1)
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

static int load_rank(struct argus_replay *r, size_t rank, argus_error_t *err)
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

/* ---- collectives -------------------------------------------------------- */

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
static int match_calls(struct argus_replay *r)
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
        struct op *op = &r->ops[i];

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
            struct op *op = &r->ops[keys[j].op];

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

/* ---- ideal durations ---------------------------------------------------- */

struct sample {
    int key;
    double ns;
};

static int sample_cmp(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* A transfer's class for the ideal: function, bytes and shape, over all groups. */
static int comm_type(const struct argus_model *m, int comm_class)
{
    const struct argus_comm_class *c = &m->comm_classes[comm_class];

    for (int i = 0; i < comm_class; i++) {
        const struct argus_comm_class *o = &m->comm_classes[i];

        if (o->func == c->func && o->bytes == c->bytes &&
            m->groups[o->group].kind == m->groups[c->group].kind &&
            m->groups[o->group].size == m->groups[c->group].size)
            return i;
    }
    return comm_class;
}

static int find_ideal(struct argus_replay *r)
{
    const struct argus_model *m = r->m;
    struct sample *s = malloc((r->n + 1) * sizeof(*s));
    double *count = calloc(m->n_kernel_classes + 1, sizeof(*count));
    int *type = malloc((m->n_comm_classes + 1) * sizeof(*type));
    size_t n = 0;

    r->mean = calloc(m->n_kernel_classes + 1, sizeof(double));
    r->median = calloc(m->n_comm_classes + 1, sizeof(double));
    if (!s || !count || !type || !r->mean || !r->median) {
        free(s);
        free(count);
        free(type);
        return -1;
    }
    for (size_t c = 0; c < m->n_comm_classes; c++)
        type[c] = m->n_comm_classes <= 4096 ? comm_type(m, (int)c) : (int)c;
    for (size_t i = 0; i < r->n; i++) {
        const struct op *op = &r->ops[i];

        if (op->kernel_class >= 0) {
            r->mean[op->kernel_class] += op->ns;
            count[op->kernel_class]++;
        } else if (op->comm_class >= 0) {
            s[n++] = (struct sample){type[op->comm_class],
                                     op->call >= 0 ? r->calls[op->call].ns : op->ns};
        }
    }
    for (size_t k = 0; k < m->n_kernel_classes; k++)
        r->mean[k] = count[k] > 0 ? r->mean[k] / count[k] : 0;
    if (n)
        qsort(s, n, sizeof(*s), sample_cmp);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && s[j].key == s[i].key; j++)
            ;
        r->median[s[i].key] = s[(i + j) / 2].ns;
    }
    for (size_t c = 0; c < m->n_comm_classes; c++)
        r->median[c] = r->median[type[c]];
    free(s);
    free(count);
    free(type);
    return 0;
}

/* ---- replay ------------------------------------------------------------- */

/* Run the ranks of one step against one another; returns the time until the last is through. */
static double run_step(struct argus_replay *r, const size_t *first, const size_t *end, size_t n)
{
    size_t *pc = malloc((n + 1) * sizeof(*pc));
    double most = 0;
    int moved = 1;

    if (!pc)
        return NAN;
    for (size_t i = 0; i < n; i++)
        pc[i] = first[i];
    while (moved) {
        moved = 0;
        for (size_t i = 0; i < n; i++)
            while (pc[i] < end[i]) {
                const struct op *op = &r->ops[pc[i]];
                double t = 0;
                int wait = 0;

                for (int d = 0; d < op->n_deps; d++) {
                    const struct op *dep = &r->ops[op->deps[d]];

                    /* a call that others have not come to has no end yet */
                    if (dep->call >= 0 && r->waiting[dep->call] > 0)
                        wait = 1;
                    else if (dep->call >= 0)
                        t = fmax(t, r->arrived[dep->call] + r->work[op->deps[d]]);
                    else
                        t = fmax(t, r->done[op->deps[d]]);
                }
                if (wait)
                    break;
                t += r->delays[op->rank] * op->delay;
                if (op->call >= 0) {
                    r->arrived[op->call] = fmax(r->arrived[op->call], t);
                    r->waiting[op->call]--;
                } else {
                    r->done[pc[i]] = t + r->work[pc[i]];
                    most = fmax(most, r->done[pc[i]]);
                }
                pc[i]++;
                moved = 1;
            }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = first[i]; k < end[i]; k++) {
            const struct op *op = &r->ops[k];

            if (op->call >= 0)
                most = fmax(most, r->arrived[op->call] + r->work[k]);
            if (pc[i] < end[i])
                most = NAN; /* ranks wait for one another: the graph is wrong */
        }
    free(pc);
    return most;
}

static double run(struct argus_replay *r)
{
    size_t ranks = r->m->n_ranks, *first = calloc(2 * (ranks + 1), sizeof(*first)),
           *end = first + ranks + 1;
    double sum = 0;

    if (!first)
        return NAN;
    for (size_t c = 0; c < r->n_calls; c++) {
        r->arrived[c] = 0;
        r->waiting[c] = r->calls[c].members;
    }
    for (int s = 0; s < r->n_steps; s++) {
        size_t n = 0;

        for (size_t i = 0; i < r->n;) {
            size_t j = i;

            while (j < r->n && r->ops[j].rank == r->ops[i].rank && r->ops[j].step == r->ops[i].step)
                j++;
            if (r->ops[i].step == r->steps[s]) {
                first[n] = i;
                end[n++] = j;
            }
            i = j;
        }
        sum += run_step(r, first, end, n);
    }
    free(first);
    return sum / r->n_steps;
}

static double own_work(const struct argus_replay *r, size_t i)
{
    const struct op *op = &r->ops[i];

    return op->call >= 0 ? r->calls[op->call].ns : op->ns;
}

static double ideal_work(const struct argus_replay *r, size_t i)
{
    const struct op *op = &r->ops[i];

    if (op->kernel_class >= 0)
        return r->mean[op->kernel_class];
    return op->comm_class >= 0 ? r->median[op->comm_class] : op->ns;
}

static void set_delays(struct argus_replay *r, double share)
{
    for (size_t i = 0; i < r->m->n_ranks; i++)
        r->delays[i] = share;
}

double argus_replay_actual(argus_replay_t *r)
{
    set_delays(r, 0);
    for (size_t i = 0; i < r->n; i++)
        r->work[i] = own_work(r, i);
    return run(r);
}

double argus_replay_ideal(argus_replay_t *r)
{
    set_delays(r, 0);
    for (size_t i = 0; i < r->n; i++)
        r->work[i] = ideal_work(r, i);
    return run(r);
}

double argus_replay_without_ranks(argus_replay_t *r, const int *ranks, size_t n)
{
    set_delays(r, 0);
    for (size_t i = 0; i < r->n; i++) {
        int in = 0;

        for (size_t j = 0; j < n; j++)
            in |= r->ops[i].rank == ranks[j];
        r->work[i] = in ? ideal_work(r, i) : own_work(r, i);
    }
    return run(r);
}

static int blamed(const struct argus_evidence *e, int rank)
{
    for (size_t i = 0; i < e->n_ranks; i++)
        if (e->ranks[i] == rank)
            return 1;
    return 0;
}

static int hit(const struct argus_evidence *e, int rank)
{
    for (size_t i = 0; i < e->n_hit; i++)
        if (e->hit[i] == rank)
            return 1;
    return 0;
}

/* Peers' level of a class: median over the other ranks of the same stage, else of all others. */
static double peers_level(const struct argus_replay *r, const struct argus_evidence *e, int rank,
                          int kernel_class, double *x)
{
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;

        for (size_t i = 0; i < r->n; i++) {
            const struct op *op = &r->ops[i];

            if (op->kernel_class == kernel_class && !blamed(e, op->rank) &&
                (pass || r->m->ranks[op->rank].pp == r->m->ranks[rank].pp))
                x[n++] = op->ns;
        }
        if (n)
            return argus_median_inplace(x, n);
    }
    return NAN;
}

static int replace_compute(struct argus_replay *r, const struct argus_evidence *e)
{
    double *x = malloc((r->n + 1) * sizeof(*x));
    double *level = calloc(r->m->n_kernel_classes + 1, sizeof(*level));
    int rank = -1;

    if (!x || !level) {
        free(x);
        free(level);
        return -1;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct op *op = &r->ops[i];

        if (op->kernel_class < 0 || !blamed(e, op->rank))
            continue;
        if (op->rank != rank) {
            rank = op->rank;
            memset(level, 0, r->m->n_kernel_classes * sizeof(*level));
        }
        if (!(level[op->kernel_class] > 0))
            level[op->kernel_class] = peers_level(r, e, rank, op->kernel_class, x);
        if (level[op->kernel_class] > 0)
            r->work[i] = level[op->kernel_class];
    }
    free(x);
    free(level);
    return 0;
}

static int is_stall(const struct argus_evidence *e)
{
    return e->kind == ARGUS_VERDICT_HOST_STALL || e->kind == ARGUS_VERDICT_DATA_STALL ||
           e->kind == ARGUS_VERDICT_JIT_STALL || e->kind == ARGUS_VERDICT_ALLOCATOR_STALL;
}

int argus_replay_can(const struct argus_evidence *e)
{
    if (is_stall(e)) /* rare stalls need not be in a kept step */
        return e->pattern && !strcmp(e->pattern, "persistent");
    if (e->kind == ARGUS_VERDICT_SLOW_LINK)
        return e->n_comm_classes > 0; /* copies are priced by the step rows */
    return e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER ||
           e->kind == ARGUS_VERDICT_PIPELINE_IMBALANCE ||
           (e->kind == ARGUS_VERDICT_SPLIT && !e->outside);
}

static int remove_fault(struct argus_replay *r, const struct argus_evidence *e)
{
    if (is_stall(e)) {
        for (size_t i = 0; i < e->n_ranks; i++)
            r->delays[e->ranks[i]] = 0;
        return 0;
    }
    if (e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER)
        return replace_compute(r, e);
    for (size_t i = 0; i < r->n; i++) {
        const struct op *op = &r->ops[i];
        int in = 0;

        if (e->kind == ARGUS_VERDICT_SLOW_LINK)
            for (size_t c = 0; c < e->n_comm_classes; c++)
                in |= op->comm_class == e->comm_classes[c];
        else if (op->kernel_class >= 0)
            in = e->kind == ARGUS_VERDICT_SPLIT ? hit(e, op->rank)
                                                : r->m->ranks[op->rank].pp == e->stage;
        if (in)
            r->work[i] /= 1 + e->effect;
    }
    return 0;
}

double argus_replay_without(argus_replay_t *r, const struct argus_evidence *const *e, size_t n,
                            const struct argus_evidence *but, double delays)
{
    set_delays(r, delays);
    for (size_t i = 0; i < r->n; i++)
        r->work[i] = own_work(r, i);
    for (size_t i = 0; i < n; i++)
        if (e[i] != but && argus_replay_can(e[i]) && remove_fault(r, e[i]))
            return NAN;
    return run(r);
}

/* ---- life --------------------------------------------------------------- */

int argus_replay_steps(const argus_replay_t *r)
{
    return r->n_steps;
}

void argus_replay_destroy(argus_replay_t *r)
{
    if (!r)
        return;
    free(r->ops);
    free(r->calls);
    free(r->steps);
    free(r->work);
    free(r->done);
    free(r->arrived);
    free(r->waiting);
    free(r->mean);
    free(r->delays);
    free(r->median);
    free(r);
}

/* Communication that nothing ties to other ranks keeps its waiting whatever happens elsewhere: with
 * much of it a replay says little.  And with its own delays it has to give the time that was. */
static int faithful(struct argus_replay *r)
{
    double loose = 0, all = 0, measured = 0, again;

    for (size_t i = 0; i < r->n; i++)
        if (r->ops[i].comm_class >= 0 &&
            (r->ops[i].call < 0 || r->calls[r->ops[i].call].members < 2))
            loose += (double)(r->ops[i].end - r->ops[i].start);
    for (int s = 0; s < r->n_steps; s++) {
        double t = argus_model_step_time(r->m, r->steps[s]);

        measured += t / r->n_steps;
        all += t * (double)r->m->n_ranks;
    }
    if (loose > LOOSE_SHARE * all)
        return 0;
    set_delays(r, 1);
    for (size_t i = 0; i < r->n; i++)
        r->work[i] = own_work(r, i);
    again = run(r);
    return again >= (1 - MISFIT) * measured && again <= (1 + MISFIT) * measured;
}

argus_replay_t *argus_replay_create(const struct argus_model *m, int first, int end, int most,
                                    argus_error_t *err)
{
    argus_replay_t *r = calloc(1, sizeof(*r));
    int bad = 0;

    if (!r || !(r->steps = malloc(((size_t)m->n_steps + 1) * sizeof(int)))) {
        argus_error(err, "no memory");
        goto error;
    }
    r->m = m;
    r->n_steps = choose_steps(m, first, end, most, r->steps);
    if (!r->n_steps)
        goto error;
    for (size_t i = 0; i < m->n_ranks && !bad; i++)
        bad = load_rank(r, i, err);
    if (bad || !r->n)
        goto error;
    r->work = calloc(r->n + 1, sizeof(double));
    r->done = calloc(r->n + 1, sizeof(double));
    r->delays = calloc(m->n_ranks + 1, sizeof(double));
    if (!r->work || !r->done || !r->delays || match_calls(r) ||
        !(r->arrived = calloc(r->n_calls + 1, sizeof(double))) ||
        !(r->waiting = calloc(r->n_calls + 1, sizeof(int))) || find_ideal(r)) {
        argus_error(err, "no memory");
        goto error;
    }
    if (!faithful(r))
        goto error;
    return r;
error:
    argus_replay_destroy(r);
    return NULL;
}
