/* SPDX-License-Identifier: Apache-2.0 */
/* What the step would take without a fault: kept steps, replayed with other durations. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/stats.h"
#include "analyzer/verdict/replay_graph.h"

#define LOOSE_SHARE 0.03 /* of the time in calls that are not matched */
#define MISFIT 0.05      /* of the step time, when nothing is changed */

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
        const struct argus_replay_op *op = &r->ops[i];

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

/* ---- what is asked ------------------------------------------------------ */

static double own_work(const struct argus_replay *r, size_t i)
{
    const struct argus_replay_op *op = &r->ops[i];

    return op->call >= 0 ? r->calls[op->call].ns : op->ns;
}

static double ideal_work(const struct argus_replay *r, size_t i)
{
    const struct argus_replay_op *op = &r->ops[i];

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
    return argus_replay_run(r);
}

double argus_replay_ideal(argus_replay_t *r)
{
    set_delays(r, 0);
    for (size_t i = 0; i < r->n; i++)
        r->work[i] = ideal_work(r, i);
    return argus_replay_run(r);
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
    return argus_replay_run(r);
}

static int blamed(const struct argus_evidence *e, int rank)
{
    for (size_t i = 0; i < e->n_ranks; i++)
        if (e->ranks[i] == rank)
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
            const struct argus_replay_op *op = &r->ops[i];

            if (op->kernel_class == kernel_class && !blamed(e, op->rank) &&
                (pass || r->m->ranks[op->rank].pp == r->m->ranks[rank].pp))
                x[n++] = op->ns;
        }
        if (n)
            return argus_median_inplace(x, n);
    }
    return NAN;
}

/* The culprits' kernels, or only their copies, as their peers have them. */
static int replace(struct argus_replay *r, const struct argus_evidence *e, int copies)
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
        const struct argus_replay_op *op = &r->ops[i];

        if (op->kernel_class < 0 || !blamed(e, op->rank) ||
            copies != (r->m->kernel_classes[op->kernel_class].kind == ARGUS_CLASS_COPY))
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
        return e->n_comm_classes > 0 || argus_evidence_is_copies(e);
    return e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER ||
           e->kind == ARGUS_VERDICT_PIPELINE_IMBALANCE ||
           (e->kind == ARGUS_VERDICT_SPLIT && (!e->outside || argus_evidence_is_copies(e)));
}

static int remove_fault(struct argus_replay *r, const struct argus_evidence *e)
{
    if (is_stall(e)) {
        for (size_t i = 0; i < e->n_ranks; i++)
            r->delays[e->ranks[i]] = 0;
        return 0;
    }
    if (e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER || e->kind == ARGUS_VERDICT_SPLIT ||
        argus_evidence_is_copies(e))
        return replace(r, e, argus_evidence_is_copies(e));
    for (size_t i = 0; i < r->n; i++) {
        const struct argus_replay_op *op = &r->ops[i];
        int in = 0;

        if (e->kind == ARGUS_VERDICT_SLOW_LINK)
            for (size_t c = 0; c < e->n_comm_classes; c++)
                in |= op->comm_class == e->comm_classes[c];
        else if (op->kernel_class >= 0)
            in = r->m->ranks[op->rank].pp == e->stage;
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
    return argus_replay_run(r);
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
    again = argus_replay_run(r);
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
    r->n_steps = argus_replay_choose_steps(m, first, end, most, r->steps);
    if (!r->n_steps)
        goto error;
    for (size_t i = 0; i < m->n_ranks && !bad; i++)
        bad = argus_replay_load_rank(r, i, err);
    if (bad || !r->n)
        goto error;
    r->work = calloc(r->n + 1, sizeof(double));
    r->done = calloc(r->n + 1, sizeof(double));
    r->delays = calloc(m->n_ranks + 1, sizeof(double));
    if (!r->work || !r->done || !r->delays || argus_replay_match_calls(r) ||
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
