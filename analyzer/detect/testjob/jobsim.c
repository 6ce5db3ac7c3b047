/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the job, and the player: ranks against one another in virtual time. */
#include <config.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/testjob/jobsim_impl.h"

double job_uniform(uint64_t *rng)
{
    uint64_t z = (*rng += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

double job_normal(uint64_t *rng)
{
    double u = job_uniform(rng), v = job_uniform(rng);

    return sqrt(-2 * log(u > 1e-12 ? u : 1e-12)) * cos(2 * M_PI * v);
}

void job_spec_init(struct job_spec *s, int world)
{
    memset(s, 0, sizeof(*s));
    s->world = world;
    s->tp = s->pp = s->ep = 1;
    s->layers = 4;
    s->steps = 60;
    s->ranks_per_node = world < 8 ? world : 8;
    s->seed = 1;
    s->noise = 0.01;
    s->spread = 0.003;
    s->link_noise = 0.02;
    s->scale = 1;
    s->window = 16;
    s->skip_rank = -1;
    s->marks = 1;
}

struct job_fault *job_spec_fault(struct job_spec *s, enum job_fault_kind kind)
{
    struct job_fault *f = &s->faults[s->n_faults < JOB_FAULTS - 1 ? s->n_faults++ : JOB_FAULTS - 1];

    memset(f, 0, sizeof(*f));
    f->kind = kind;
    f->factor = 1;
    f->rank2 = -1;
    return f;
}

/* ---- layout ------------------------------------------------------------- */

static int add_group(struct job *j, int kind, const int *members, int size)
{
    struct job_group *g = &j->groups[j->n_groups];

    g->kind = kind;
    g->size = size;
    g->members = malloc((size_t)size * sizeof(int));
    if (!g->members)
        return -1;
    memcpy(g->members, members, (size_t)size * sizeof(int));
    g->hash = 0x1000193u * (uint64_t)(j->n_groups + 1) + j->s.seed * 0x9e3779b9u + 7;
    for (int i = 1; i < size; i++)
        g->inter |= j->ranks[members[i]].node != j->ranks[members[0]].node;
    snprintf(g->name, sizeof(g->name), "%s_%d_%d",
             kind == 't'   ? "tp"
             : kind == 'd' ? "dp"
             : kind == 'p' ? "pp"
             : kind == 'e' ? "ep"
             : kind == 'x' ? "edp"
                           : "world",
             members[0], members[size - 1]);
    return j->n_groups++;
}

static int rank_of(const struct job *j, int tp, int dp, int pp)
{
    return tp + j->s.tp * (dp + j->dp * pp);
}

static int lay_out(struct job *j)
{
    const struct job_spec *s = &j->s;
    int *m = malloc((size_t)s->world * sizeof(int)), rc = -1;

    j->groups = calloc((size_t)s->world * 5 + 1, sizeof(*j->groups));
    j->tp_group = malloc((size_t)s->world * 5 * sizeof(int));
    if (!m || !j->groups || !j->tp_group)
        goto out;
    j->dp_group = j->tp_group + s->world;
    j->pp_group = j->dp_group + s->world;
    j->ep_group = j->pp_group + s->world;
    j->edp_group = j->ep_group + s->world;
    for (int i = 0; i < 5 * s->world; i++)
        j->tp_group[i] = -1;
    for (int r = 0; r < s->world; r++)
        m[r] = r;
    j->world_group = s->world > 1 ? add_group(j, 'w', m, s->world) : -1;
    for (int r = 0; r < s->world; r++) {
        const struct job_rank *a = &j->ranks[r];
        int g;

        if (s->tp > 1 && a->tp == 0) {
            for (int i = 0; i < s->tp; i++)
                m[i] = rank_of(j, i, a->dp, a->pp);
            g = add_group(j, 't', m, s->tp);
            for (int i = 0; i < s->tp; i++)
                j->tp_group[m[i]] = g;
        }
        if (j->dp > 1 && a->dp == 0) {
            for (int i = 0; i < j->dp; i++)
                m[i] = rank_of(j, a->tp, i, a->pp);
            g = add_group(j, 'd', m, j->dp);
            for (int i = 0; i < j->dp; i++)
                j->dp_group[m[i]] = g;
        }
        if (s->pp > 1 && a->pp == 0) {
            for (int i = 0; i < s->pp; i++)
                m[i] = rank_of(j, a->tp, a->dp, i);
            g = add_group(j, 'p', m, s->pp);
            for (int i = 0; i < s->pp; i++)
                j->pp_group[m[i]] = g;
        }
        if (s->ep > 1 && a->dp % s->ep == 0) {
            for (int i = 0; i < s->ep; i++)
                m[i] = rank_of(j, a->tp, a->dp + i, a->pp);
            g = add_group(j, 'e', m, s->ep);
            for (int i = 0; i < s->ep; i++)
                j->ep_group[m[i]] = g;
        }
        if (s->ep > 1 && a->dp < s->ep && j->dp > s->ep) {
            int n = 0;

            for (int i = a->dp; i < j->dp; i += s->ep)
                m[n++] = rank_of(j, a->tp, i, a->pp);
            g = add_group(j, 'x', m, n);
            for (int i = 0; i < n; i++)
                j->edp_group[m[i]] = g;
        }
    }
    rc = 0;
out:
    free(m);
    return rc;
}

/* ---- player ------------------------------------------------------------- */

int job_emit(struct job_rank *r, const struct emitted *e)
{
    if (r->n_events == r->events_room) {
        size_t room = r->events_room ? 2 * r->events_room : 1024;
        struct emitted *p = realloc(r->events, room * sizeof(*p));

        if (!p)
            return -1;
        r->events = p;
        r->events_room = room;
    }
    r->events[r->n_events++] = *e;
    return 0;
}

/* One call of a collective that members are still arriving at. */
struct call {
    int group, from, to; /* pair: ranks; else -1 */
    uint32_t number;
    int arrived, expected;
    double latest, end, us;
    double arrival[2];
    double *arrivals; /* by member; pairs use arrival */
    const struct op *op;
    int done;
};

struct player {
    struct job *j;
    struct call *calls;
    size_t n, room;
    uint32_t *pair_calls; /* by group * size: sends issued, receives issued */
    size_t *open;         /* by group: first call that may still be open */
};

static struct call *find_call(struct player *p, const struct op *op, int rank, uint32_t number,
                              int *index)
{
    int pair = op->func == ARGUS_FUNC_SEND || op->func == ARGUS_FUNC_RECV;
    int from = !pair ? -1 : op->func == ARGUS_FUNC_SEND ? rank : op->peer;
    int to = !pair ? -1 : op->func == ARGUS_FUNC_SEND ? op->peer : rank;
    struct call *c;

    for (size_t i = p->n; i-- > 0 && p->n - i < 8192;) {
        c = &p->calls[i];
        if (c->group == op->group && c->number == number && c->from == from && c->to == to) {
            *index = (int)i;
            return c;
        }
    }
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 4096;
        struct call *calls = realloc(p->calls, room * sizeof(*calls));

        if (!calls)
            return NULL;
        p->calls = calls;
        p->room = room;
    }
    c = &p->calls[p->n];
    memset(c, 0, sizeof(*c));
    c->group = op->group;
    c->from = from;
    c->to = to;
    c->number = number;
    c->expected = pair ? 2 : p->j->groups[op->group].size;
    c->us = op->us;
    c->op = op;
    *index = (int)p->n++;
    return c;
}

/* Time at which the stream is free; 0 when that is not known yet. */
static int stream_free(struct player *p, struct job_rank *r, int stream)
{
    int i = r->pending[stream];

    if (i < 0)
        return 1;
    if (!p->calls[i].done)
        return 0;
    if (p->calls[i].end > r->stream[stream])
        r->stream[stream] = p->calls[i].end;
    r->pending[stream] = -1;
    return 1;
}

static int finish_call(struct player *p, struct call *c)
{
    struct job *j = p->j;

    c->end = c->latest + c->us * 1e3 * (1 + j->s.link_noise * fabs(job_normal(&j->rng)));
    c->done = 1;
    return 0;
}

/* Returns 1 when it moved on, 0 when it waits, -1 on no memory. */
static int step_rank(struct player *p, struct job_rank *r)
{
    const struct op *op = &r->ops[r->pc];
    struct emitted e = {.kind = ARGUS_CLASS_COMPUTE, .stream = op->stream, .group = -1, .peer = -1};

    switch (op->kind) {
    case OP_KERNEL:
        e.type = op->type;
        e.grid = op->grid ? op->grid : job_kernels[op->type].grid;
        e.start = (int64_t)r->now;
        e.duration = (int64_t)(op->us * 1e3);
        r->now += op->us * 1e3 + 1500;
        break;
    case OP_COPY:
        e.kind = ARGUS_CLASS_COPY;
        e.func = 1;
        e.bytes = op->bytes;
        e.stream = STREAM_COPY;
        e.start = (int64_t)r->now;
        e.duration = (int64_t)(op->us * 1e3);
        r->now += op->us * 1e3 + 1500;
        break;
    case OP_IDLE:
        e.kind = op->type;
        e.func = op->func;
        e.start = (int64_t)r->now + (op->mark ? 0 : 1000);
        e.duration = (int64_t)(op->us * 900);
        r->now += op->us * 1e3;
        if (op->mark)
            e.kind = -1;
        else if (!op->type) {
            r->pc++;
            return 1;
        }
        break;
    case OP_SYNC:
        if (!stream_free(p, r, op->stream))
            return 0;
        if (r->stream[op->stream] > r->now)
            r->now = r->stream[op->stream];
        r->pc++;
        return 1;
    case OP_COLLECTIVE: {
        struct call *c;
        double arrival;
        int index, pair = op->func == ARGUS_FUNC_SEND || op->func == ARGUS_FUNC_RECV;
        uint32_t *n =
            &r->calls[(size_t)op->group * 3 + (size_t)(op->func == ARGUS_FUNC_SEND   ? 1
                                                       : op->func == ARGUS_FUNC_RECV ? 2
                                                                                     : 0)];

        if (!stream_free(p, r, op->stream))
            return 0;
        arrival = r->now > r->stream[op->stream] ? r->now : r->stream[op->stream];
        if (!(c = find_call(p, op, r->rank, pair ? (uint32_t)op->grid : *n, &index)))
            return -1;
        ++*n;
        if (arrival > c->latest)
            c->latest = arrival;
        if (op->us > c->us)
            c->us = op->us;
        if (++c->arrived == c->expected)
            finish_call(p, c);
        r->pending[op->stream] = index;
        e.kind = ARGUS_CLASS_COMM;
        e.group = op->group;
        e.func = op->func;
        e.peer = op->peer;
        e.bytes = op->bytes;
        e.start = (int64_t)arrival;
        e.duration = -index - 1; /* filled in at the end */
        break;
    }
    }
    r->pc++;
    return job_emit(r, &e) ? -1 : 1;
}

int job_play(struct job *j, argus_error_t *err)
{
    struct player p = {.j = j};
    int moved = 1, left = 1, rc = -1;

    while (moved && left) {
        moved = left = 0;
        for (int r = 0; r < j->s.world; r++) {
            struct job_rank *k = &j->ranks[r];
            int did = 1;

            while (k->pc < k->n_ops && (did = step_rank(&p, k)) > 0)
                moved = 1;
            if (did < 0) {
                argus_error(err, "job: no memory");
                goto out;
            }
            left |= k->pc < k->n_ops;
        }
    }
    if (left) {
        argus_error(err, "job: its ranks wait for one another");
        goto out;
    }
    for (int r = 0; r < j->s.world; r++)
        for (size_t i = 0; i < j->ranks[r].n_events; i++) {
            struct emitted *e = &j->ranks[r].events[i];

            if (e->duration < 0)
                e->duration = (int64_t)p.calls[-(e->duration + 1)].end - e->start +
                              (int64_t)(job_uniform(&j->rng) * 2000);
        }
    rc = 0;
out:
    free(p.calls);
    return rc;
}

static void clear(struct job *j)
{
    for (int r = 0; j->ranks && r < j->s.world; r++) {
        free(j->ranks[r].ops);
        free(j->ranks[r].events);
        free(j->ranks[r].calls);
    }
    for (int g = 0; j->groups && g < j->n_groups; g++)
        free(j->groups[g].members);
    free(j->ranks);
    free(j->groups);
    free(j->tp_group);
}

int job_run(const struct job_spec *spec, const char *dir, argus_error_t *err)
{
    struct job j = {.s = *spec};
    int rc = -1;

    if (spec->world < 1 || spec->tp < 1 || spec->pp < 1 || spec->ep < 1 ||
        spec->world % (spec->tp * spec->pp))
        return argus_error(err, "job: %d ranks do not make tp=%d pp=%d", spec->world, spec->tp,
                           spec->pp);
    j.dp = spec->world / (spec->tp * spec->pp);
    if (j.dp % spec->ep)
        return argus_error(err, "job: dp=%d is no multiple of ep=%d", j.dp, spec->ep);
    j.nodes = (spec->world + spec->ranks_per_node - 1) / spec->ranks_per_node;
    j.rng = spec->seed * 0x2545f4914f6cdd1dULL + 11;
    if (!j.s.microbatches)
        j.s.microbatches = spec->pp > 1 ? 2 * spec->pp : 1;
    j.ranks = calloc((size_t)spec->world, sizeof(*j.ranks));
    if (!j.ranks)
        goto out;
    for (int r = 0; r < spec->world; r++) {
        struct job_rank *k = &j.ranks[r];

        k->rank = r;
        k->tp = r % spec->tp;
        k->dp = r / spec->tp % j.dp;
        k->pp = r / (spec->tp * j.dp);
        k->node = r / spec->ranks_per_node;
        k->local = r % spec->ranks_per_node;
        k->rng = spec->seed * 0x100000001b3ULL + (uint64_t)r * 0x9e3779b97f4a7c15ULL;
        k->speed = exp(spec->spread * job_normal(&k->rng));
        k->now = 1.7e18;
        for (int i = 0; i < STREAMS; i++)
            k->pending[i] = -1;
    }
    if (lay_out(&j))
        goto out;
    for (int r = 0; r < spec->world; r++)
        if (!(j.ranks[r].calls = calloc((size_t)j.n_groups * 3 + 1, sizeof(uint32_t))))
            goto out;
    if (job_program(&j))
        goto out;
    /* virtual time fits a double's 53 bits only from a near origin */
    for (int r = 0; r < spec->world; r++)
        j.ranks[r].now = 0;
    if (job_play(&j, err) || job_write(&j, dir, err))
        goto done;
    rc = 0;
    goto done;
out:
    argus_error(err, "job: no memory");
done:
    clear(&j);
    return rc;
}
