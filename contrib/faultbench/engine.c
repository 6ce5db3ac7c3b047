/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time.  A rank runs its program until it needs a time that is not
 * known yet (a transfer whose other members have not arrived); the last member
 * to arrive settles the transfer for all and wakes those that wait.
 */
#include <argus/record.h>
#include <argus/timeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/internal.h"

#define LAUNCH_NS 4000.0     /* host time of a launch */
#define CONTENTION 1.03      /* compute that shares the GPU with a transfer */
#define INTRA_BYTES_NS 200.0 /* GB/s between GPUs of a node */
#define INTER_BYTES_NS 40.0  /* GB/s of a GPU's share of the network */

struct rank {
    int64_t host;
    int64_t avail[FB_STREAMS];
    int pending[FB_STREAMS]; /* channel + 1 of an unsettled transfer on the stream */
    struct fb_program program;
    size_t pc;
    uint64_t rng;
    int queued;
};

struct engine {
    struct fb_layout layout;
    struct fb_result *r;
    struct rank *ranks;
    int *queue;
    size_t head, count;
    uint32_t *group_seq; /* [groups] */
    int step;
    double step_factor;
};

static void enqueue(struct engine *e, int rank)
{
    if (e->ranks[rank].queued)
        return;
    e->ranks[rank].queued = 1;
    e->queue[(e->head + e->count++) % (size_t)e->r->spec.world] = rank;
}

static void record(struct engine *e, int rank, int64_t start, int64_t end, uint32_t cls, int stream,
                   uint32_t seq)
{
    struct fb_rank_events *v = &e->r->events[rank];

    if (e->r->spec.times_only)
        return;
    if (v->n == v->room) {
        size_t room = v->room ? v->room * 2 : 4096;
        void *p = realloc(v->v, room * sizeof(*v->v));

        if (!p)
            abort();
        v->v = p;
        v->room = room;
    }
    v->v[v->n++] = (struct fb_event){start, end - start, cls, (uint16_t)stream, seq};
}

/* The slowest edge of the ring decides; an edge between nodes uses the network. */
static int64_t transfer_ns(struct engine *e, const struct fb_channel *c, int func)
{
    const struct fb_spec *s = &e->r->spec;
    const struct fb_fault *f = &s->fault;
    int on = fb_fault_active(f, e->step), crosses = 0;
    double slowest = 0.0, traffic = (double)c->bytes, n = c->n, ns;

    for (int i = 0; i < c->n; i++) {
        int a = fb_member(&e->layout, c, i), b = fb_member(&e->layout, c, (i + 1) % c->n);
        int na = fb_node_of(s, a), nb = fb_node_of(s, b);
        double edge = na == nb ? 1.0 / INTRA_BYTES_NS : 1.0 / INTER_BYTES_NS;

        if (on && f->kind == FB_SLOW_NODE_LINK && na != nb && (na == f->node || nb == f->node))
            edge *= f->magnitude;
        if (on && f->kind == FB_SLOW_GPU_LINK && (a == f->rank || b == f->rank))
            edge *= f->magnitude;
        if (edge > slowest)
            slowest = edge;
        crosses |= na != nb;
    }
    if (func == ARGUS_FUNC_ALLREDUCE)
        traffic *= 2.0 * (n - 1.0) / n;
    else if (func == ARGUS_FUNC_ALLGATHER || func == ARGUS_FUNC_REDUCESCATTER)
        traffic *= n - 1.0;
    else if (func == ARGUS_FUNC_ALLTOALL)
        traffic *= (n - 1.0) / n;
    /* Small messages do not reach the link's rate; the protocol changes at 256 KiB. */
    ns = traffic * slowest * (c->bytes < 262144 ? 3.0 : 1.0) + (crosses ? 22000.0 : 9000.0);
    return (int64_t)(ns * (1.0 + s->noise.link * fb_normal(&e->layout.rng)));
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void settle(struct engine *e, int channel)
{
    struct fb_channel *c = &e->layout.channels[channel];
    int func = e->r->classes[c->cls[0]].func;
    int64_t ns, end;
    uint32_t seq = c->is_pair ? c->seq : e->group_seq[c->group];

    ns = transfer_ns(e, c, func);
    end = c->latest + (ns < 1000 ? 1000 : ns);
    for (int i = 0; i < c->n; i++) {
        int m = fb_member(&e->layout, c, i);
        struct rank *k = &e->ranks[m];

        record(e, m, c->arrival[i], end, c->cls[i], c->stream[i] * 6 + 7, seq);
        k->avail[c->stream[i]] = end;
        k->pending[c->stream[i]] = 0;
        enqueue(e, m);
    }
    c->seq++;
    if (!c->is_pair)
        e->group_seq[c->group]++;
    c->arrived = 0;
    c->latest = 0;
    c->bytes = 0;
}

static void transfer(struct engine *e, int rank, const struct fb_op *op)
{
    struct fb_channel *c = &e->layout.channels[op->channel];
    struct rank *k = &e->ranks[rank];
    int64_t start = later(k->avail[op->stream], k->host);
    int i = fb_index(&e->layout, c, rank);

    c->arrival[i] = start;
    c->stream[i] = op->stream;
    c->cls[i] = op->cls;
    c->latest = later(c->latest, start);
    if (op->bytes > c->bytes)
        c->bytes = op->bytes;
    k->pending[op->stream] = op->channel + 1;
    if (++c->arrived == c->n)
        settle(e, op->channel);
}

static void kernel(struct engine *e, int rank, const struct fb_op *op)
{
    struct rank *k = &e->ranks[rank];
    int64_t start = later(k->avail[op->stream], k->host);
    double ns =
        (double)op->ns * e->step_factor * (1.0 + e->r->spec.noise.kernel * fb_normal(&k->rng));

    if (op->stream == FB_COMPUTE && (k->pending[FB_GRADS] || k->avail[FB_GRADS] > start))
        ns *= CONTENTION;
    if (ns < 1000.0)
        ns = 1000.0;
    k->avail[op->stream] = start + (int64_t)ns;
    record(e, rank, start, k->avail[op->stream], op->cls, op->stream * 6 + 7, UINT32_MAX);
}

/* One in 50 finds the host's memory busy. */
static void copy(struct engine *e, int rank, const struct fb_op *op)
{
    struct rank *k = &e->ranks[rank];
    int64_t start = later(k->avail[op->stream], k->host);
    double ns = (double)op->ns * (1.0 + e->r->spec.noise.copy * fb_normal(&k->rng));

    if (fb_uniform(&k->rng) < 0.02)
        ns *= 1.0 + fb_uniform(&k->rng);
    if (ns < 1000.0)
        ns = 1000.0;
    k->avail[op->stream] = start + (int64_t)ns;
    record(e, rank, start, k->avail[op->stream], op->cls, op->stream * 6 + 7, UINT32_MAX);
}

/* One op; 0: it needs a time that is not known yet. */
static int run_op(struct engine *e, int rank, const struct fb_op *op)
{
    struct rank *k = &e->ranks[rank];

    if (op->type == FB_OP_SYNC) {
        for (int i = 0; i < FB_STREAMS; i++) {
            if (k->pending[i])
                return 0;
        }
        for (int i = 0; i < FB_STREAMS; i++)
            k->host = later(k->host, k->avail[i]);
    } else if (op->type != FB_OP_NOTE && op->type != FB_OP_HOST &&
               (k->pending[op->stream] || (op->type == FB_OP_WAIT && k->pending[op->other]))) {
        return 0;
    }
    switch (op->type) {
    case FB_OP_KERNEL:
        k->host += (int64_t)(LAUNCH_NS * (1.0 + e->r->spec.noise.host * fb_uniform(&k->rng)));
        kernel(e, rank, op);
        break;
    case FB_OP_COPY:
        k->host += (int64_t)LAUNCH_NS;
        copy(e, rank, op);
        break;
    case FB_OP_TRANSFER:
        k->host += (int64_t)LAUNCH_NS;
        transfer(e, rank, op);
        break;
    case FB_OP_WAIT:
        k->avail[op->stream] = later(k->avail[op->stream], k->avail[op->other]);
        break;
    case FB_OP_HOST:
        /* Settled whenever the program gets here: compute has no transfers of its own. */
        if (op->sync)
            k->host = later(k->host, k->avail[FB_COMPUTE]);
        k->host += op->ns;
        break;
    case FB_OP_NOTE:
        record(e, rank, k->host - op->ns, k->host, op->cls, 0, UINT32_MAX);
        break;
    default:
        break;
    }
    return 1;
}

static int run_step(struct engine *e)
{
    const struct fb_spec *s = &e->r->spec;

    e->step_factor = 1.0 + s->noise.step * fb_normal(&e->layout.rng);
    for (int i = 0; i < s->world; i++) {
        struct rank *k = &e->ranks[i];

        if (fb_program_build(&e->layout, i, e->step, &k->program) < 0)
            return -1;
        k->pc = 0;
        e->r->step_start[(size_t)i * (size_t)s->steps + (size_t)e->step] = k->host;
        enqueue(e, i);
    }
    while (e->count) {
        int rank = e->queue[e->head];
        struct rank *k = &e->ranks[rank];

        e->head = (e->head + 1) % (size_t)s->world;
        e->count--;
        k->queued = 0;
        while (k->pc < k->program.n && run_op(e, rank, &k->program.v[k->pc]))
            k->pc++;
    }
    for (int i = 0; i < s->world; i++) {
        if (e->ranks[i].pc != e->ranks[i].program.n) {
            fprintf(stderr, "faultbench: rank %d is stuck in step %d at op %zu\n", i, e->step,
                    e->ranks[i].pc);
            return -1;
        }
        e->r->step_end[(size_t)i * (size_t)s->steps + (size_t)e->step] = e->ranks[i].host;
    }
    return 0;
}

/* Events come nearly in order: only what waited for others is late. */
static void sort_by_start(struct fb_rank_events *ev)
{
    for (size_t i = 1; i < ev->n; i++) {
        struct fb_event e = ev->v[i];
        size_t j = i;

        for (; j > 0 && ev->v[j - 1].start > e.start; j--)
            ev->v[j] = ev->v[j - 1];
        ev->v[j] = e;
    }
}

int fb_run(const struct fb_spec *spec, struct fb_result *out)
{
    struct engine e = {.r = out};
    size_t world = (size_t)spec->world;
    int64_t begin = 1700000000000000000LL;
    int rc = -1;

    memset(out, 0, sizeof(*out));
    out->spec = *spec;
    out->events = calloc(world, sizeof(*out->events));
    out->step_start = calloc(world * (size_t)spec->steps, sizeof(int64_t));
    out->step_end = calloc(world * (size_t)spec->steps, sizeof(int64_t));
    e.ranks = calloc(world, sizeof(*e.ranks));
    e.queue = calloc(world, sizeof(*e.queue));
    if (!out->events || !out->step_start || !out->step_end || !e.ranks || !e.queue ||
        fb_layout_make(&e.layout, out) < 0)
        goto out;
    e.group_seq = calloc(out->n_groups + 1, sizeof(*e.group_seq));
    if (!e.group_seq)
        goto out;
    for (size_t i = 0; i < world; i++) {
        e.ranks[i].host = begin;
        e.ranks[i].rng = spec->seed * 77777u + i;
        for (int j = 0; j < FB_STREAMS; j++)
            e.ranks[i].avail[j] = begin;
    }
    for (e.step = 0; e.step < spec->steps; e.step++) {
        if (run_step(&e) < 0)
            goto out;
        /* Stalls are told as a share of a normal step: the first one tells how long that is. */
        if (e.step == 0)
            e.layout.nominal_step = out->step_end[0] - out->step_start[0];
    }
    for (size_t i = 0; i < world; i++)
        sort_by_start(&out->events[i]);
    rc = 0;
out:
    for (size_t i = 0; e.ranks && i < world; i++)
        free(e.ranks[i].program.v);
    free(e.ranks);
    free(e.queue);
    free(e.group_seq);
    fb_layout_free(&e.layout);
    return rc;
}
