/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary.h"
#include "collector/record/join_impl.h"

#define QUEUE_MAX 16384u /* calls that wait on one stream; then the oldest go */
#define STREAMS_MAX 1024u
#define LOOK_AHEAD 16u  /* calls passed over to find the one that a kernel's name fits */
#define GROUP_NS 200000 /* without LAUNCH: point-to-point calls this near are one kernel */
#define GRAPH_NODES_MAX 65536u

argus_join_t *argus_join_create(void)
{
    return calloc(1, sizeof(argus_join_t));
}

void argus_join_destroy(argus_join_t *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->n_streams; i++)
        free(j->streams[i].launched.call);
    free(j->streams);
    free(j->threads);
    free(j->loose.call);
    free(j->captured.call);
    free(j->nodes);
    free(j);
}

static struct argus_call *at(struct queue *q, size_t i)
{
    return &q->call[(q->first + i) & (q->capacity - 1)];
}

int argus_join_push(struct queue *q, const struct argus_call *call)
{
    if (q->n == QUEUE_MAX) { /* nobody takes them: the GPU's records are missing */
        q->first = (q->first + 1) & (q->capacity - 1);
        q->n--;
    }
    if (q->n == q->capacity) {
        size_t capacity = q->capacity ? 2 * q->capacity : 64;
        struct argus_call *p = malloc(capacity * sizeof(*p));

        if (!p)
            return -1;
        for (size_t i = 0; i < q->n; i++)
            p[i] = *at(q, i);
        free(q->call);
        q->call = p;
        q->capacity = capacity;
        q->first = 0;
    }
    *at(q, q->n++) = *call;
    return 0;
}

/* Take element i out; the ones before it too if `through`. */
static void take(struct queue *q, size_t i, int through)
{
    if (through || !i) {
        q->first = (q->first + i + 1) & (q->capacity - 1);
        q->n -= i + 1;
        return;
    }
    for (; i > 0; i--)
        *at(q, i) = *at(q, i - 1);
    q->first = (q->first + 1) & (q->capacity - 1);
    q->n--;
}

struct stream *argus_join_stream_of(argus_join_t *j, uint32_t id)
{
    struct stream *p;

    for (size_t i = 0; i < j->n_streams; i++) {
        if (j->streams[i].id == id)
            return &j->streams[i];
    }
    if (j->n_streams == STREAMS_MAX)
        return NULL;
    if (!(j->n_streams & (j->n_streams - 1))) {
        p = realloc(j->streams, (j->n_streams ? 2 * j->n_streams : 1) * sizeof(*p));
        if (!p)
            return NULL;
        j->streams = p;
    }
    p = &j->streams[j->n_streams++];
    memset(p, 0, sizeof(*p));
    p->id = id;
    return p;
}

struct thread *argus_join_thread_of(argus_join_t *j, uint32_t tid)
{
    struct thread *p;

    for (size_t i = 0; i < j->n_threads; i++) {
        if (j->threads[i].tid == tid)
            return &j->threads[i];
    }
    if (j->n_threads == ARGUS_JOIN_THREADS)
        return NULL;
    if (!(j->n_threads & (j->n_threads - 1))) {
        p = realloc(j->threads, (j->n_threads ? 2 * j->n_threads : 1) * sizeof(*p));
        if (!p)
            return NULL;
        j->threads = p;
    }
    p = &j->threads[j->n_threads++];
    memset(p, 0, sizeof(*p));
    p->tid = tid;
    return p;
}

static int is_p2p(int func)
{
    return func == ARGUS_FUNC_SEND || func == ARGUS_FUNC_RECV || func == ARGUS_FUNC_SENDRECV;
}

static struct argus_call call_of(const struct argus_record *rec)
{
    const struct argus_rec_op *op = &rec->u.op;
    struct argus_call c = {.comm = op->comm,
                           .time = rec->start,
                           .seq = op->seq,
                           .peer = op->peer,
                           .func = op->func,
                           .dtype = op->dtype,
                           .ops = 1,
                           .stream = op->stream,
                           .tid = rec->tid};
    unsigned size = argus_dtype_bytes(op->dtype);

    c.bytes = op->count * (size ? size : 1);
    return c;
}

/* One kernel carries both. */
static void fold(struct argus_call *into, const struct argus_call *op)
{
    if (into->func != op->func)
        into->func =
            is_p2p(into->func) && is_p2p(op->func) ? ARGUS_FUNC_SENDRECV : ARGUS_FUNC_GROUP;
    if (into->comm != op->comm)
        into->comm = 0;
    if (into->dtype != op->dtype)
        into->dtype = ARGUS_DTYPE_UNKNOWN;
    if (into->peer != op->peer)
        into->peer = -1;
    into->bytes += op->bytes;
    into->ops++;
}

/* Whom an operation of the call is with.  All of them with the same: the call is; else with nobody
 * in particular. */
static void tell(struct argus_call *c, int32_t peer)
{
    c->peer = !c->told || c->peer == peer ? peer : -1;
    c->told++;
}

/* What NCCL made of a call of this thread: point-to-point calls get their peer from it. */
static void detail(argus_join_t *j, const struct argus_record *rec)
{
    const struct argus_rec_op *op = &rec->u.op;

    if (op->peer < 0 || !is_p2p(op->func))
        return;
    for (size_t s = 0; s < j->n_streams; s++) {
        struct queue *q = &j->streams[s].launched;

        for (size_t i = 0; i < q->n && i < LOOK_AHEAD; i++) {
            struct argus_call *c = at(q, q->n - 1 - i);

            if (c->tid != rec->tid || c->comm != op->comm || c->told >= c->ops ||
                (c->peer >= 0 && !c->told) ||
                (c->func != op->func && c->func != ARGUS_FUNC_SENDRECV))
                continue;
            tell(c, op->peer);
            return;
        }
    }
}

static int op(argus_join_t *j, const struct argus_record *rec)
{
    struct argus_call c = call_of(rec);
    struct thread *t;

    if (!(rec->flags & ARGUS_FLAG_API) && !(rec->flags & ARGUS_FLAG_GRAPH_CAPTURED))
        return argus_join_push(&j->loose, &c);
    t = argus_join_thread_of(j, rec->tid);
    if (!t)
        return 0;
    if (t->open) {
        fold(&t->call, &c);
    } else {
        t->call = c;
        t->open = 1;
    }
    t->captured = (rec->flags & ARGUS_FLAG_GRAPH_CAPTURED) != 0;
    return 0;
}

static int launch(argus_join_t *j, const struct argus_record *rec)
{
    struct thread *t = argus_join_thread_of(j, rec->tid);
    struct stream *s;

    if (!t || !t->open)
        return 0;
    t->open = 0;
    t->call.stream = rec->u.op.stream;
    if (t->captured)
        return argus_join_push(&j->captured, &t->call);
    s = argus_join_stream_of(j, rec->u.op.stream);
    return s ? argus_join_push(&s->launched, &t->call) : 0;
}

int argus_join_record(argus_join_t *j, const struct argus_record *rec)
{
    switch (rec->type) {
    case ARGUS_REC_OP:
        return op(j, rec);
    case ARGUS_REC_OP_DETAIL:
        detail(j, rec);
        return 0;
    case ARGUS_REC_LAUNCH:
        return launch(j, rec);
    default:
        return 0;
    }
}

/* Can a kernel whose name says `kernel` carry a call of `call`?  A group's kernel is named after
 * one of its operations; all-to-all, gather and scatter are sends and receives. */
static int fits(int kernel, int call)
{
    if (kernel == call || kernel == ARGUS_FUNC_GROUP || kernel == ARGUS_FUNC_OTHER ||
        call == ARGUS_FUNC_GROUP)
        return 1;
    if (kernel == ARGUS_FUNC_SENDRECV)
        return is_p2p(call) || call == ARGUS_FUNC_ALLTOALL || call == ARGUS_FUNC_GATHER ||
               call == ARGUS_FUNC_SCATTER;
    /* newer releases broadcast by an all-gather of unequal parts */
    return kernel == ARGUS_FUNC_ALLGATHER && call == ARGUS_FUNC_BROADCAST;
}

/* A call made after the kernel ran is not its call; only asked where records were lost, because
 * call and kernel are stamped by two clocks. */
static int too_late(const argus_join_t *j, const struct argus_call *c, int64_t start)
{
    return j->lossy && c->time > start;
}

static int from_launches(const argus_join_t *j, struct stream *s, int func, int64_t start,
                         struct argus_call *call)
{
    struct queue *q = &s->launched;

    for (size_t i = 0; i < q->n && i < LOOK_AHEAD; i++) {
        const struct argus_call *c = at(q, i);

        if (too_late(j, c, start))
            return 0;
        if (!fits(func, c->func))
            continue;
        *call = *c;
        if (call->told && call->told < call->ops) /* the rest may be with anybody */
            call->peer = -1;
        take(q, i, 1);
        return 1;
    }
    return 0;
}

static int from_loose(argus_join_t *j, struct stream *s, int func, int64_t start,
                      struct argus_call *call)
{
    struct queue *q = &j->loose;
    int64_t last;

    for (size_t i = 0; i < q->n; i++) {
        const struct argus_call *c = at(q, i);

        if (too_late(j, c, start))
            return 0;
        if (!fits(func, c->func) || (s->bound && c->comm && c->comm != s->bound))
            continue;
        *call = *c;
        take(q, i, 0);
        last = call->time;
        while (is_p2p(call->func) && func == ARGUS_FUNC_SENDRECV && i < q->n) {
            struct argus_call more = *at(q, i);

            if (more.comm != call->comm || !is_p2p(more.func) || more.tid != call->tid ||
                more.time - last > GROUP_NS || too_late(j, &more, start))
                break;
            last = more.time;
            fold(call, &more);
            take(q, i, 0);
        }
        if (!s->bound)
            s->bound = call->comm;
        return 1;
    }
    return 0;
}

struct graph_node *argus_join_find_node(struct graph_node *nodes, uint32_t capacity, uint32_t graph,
                                        uint32_t node)
{
    uint32_t i = (graph * 2654435761u ^ node * 40503u) & (capacity - 1);

    while (nodes[i].used && (nodes[i].graph != graph || nodes[i].node != node))
        i = (i + 1) & (capacity - 1);
    return &nodes[i];
}

int argus_join_grow_nodes(argus_join_t *j)
{
    uint32_t capacity = j->cap_nodes ? 2 * j->cap_nodes : 256;
    struct graph_node *nodes;

    if (capacity > GRAPH_NODES_MAX || !(nodes = calloc(capacity, sizeof(*nodes))))
        return -1;
    for (uint32_t i = 0; i < j->cap_nodes; i++) {
        if (j->nodes[i].used)
            *argus_join_find_node(nodes, capacity, j->nodes[i].graph, j->nodes[i].node) =
                j->nodes[i];
    }
    free(j->nodes);
    j->nodes = nodes;
    j->cap_nodes = capacity;
    return 0;
}

/* Replays have no sequence number of their own: count them per communicator. */
static uint32_t replay_seq(argus_join_t *j, const struct argus_call *c)
{
    size_t i = 0;

    while (i < j->n_counters && j->counters[i].comm != c->comm)
        i++;
    if (i == sizeof(j->counters) / sizeof(j->counters[0]))
        return c->seq;
    if (i == j->n_counters)
        j->counters[j->n_counters++] = (struct counter){.comm = c->comm, .next = c->seq};
    return j->counters[i].next++;
}

static int from_graph(argus_join_t *j, int func, uint32_t graph, uint32_t node,
                      struct argus_call *call)
{
    struct graph_node *n;

    if ((j->n_nodes + 1) * 2 > j->cap_nodes && argus_join_grow_nodes(j) < 0)
        return 0;
    n = argus_join_find_node(j->nodes, j->cap_nodes, graph, node);
    if (!n->used) {
        struct queue *q = &j->captured;
        size_t i = 0;

        while (i < q->n && !fits(func, at(q, i)->func))
            i++;
        if (i == q->n)
            return 0;
        *n = (struct graph_node){.graph = graph, .node = node, .used = 1, .call = *at(q, i)};
        take(q, i, 0);
        j->n_nodes++;
    }
    *call = n->call;
    call->seq = replay_seq(j, call);
    return 1;
}

int argus_join_kernel(argus_join_t *j, int func, uint32_t stream, uint32_t graph,
                      uint32_t graph_node, int64_t start, struct argus_call *call)
{
    struct stream *s;

    if (graph && from_graph(j, func, graph, graph_node, call))
        return 1;
    s = argus_join_stream_of(j, stream);
    if (!s)
        return 0;
    if (s->launched.n)
        return from_launches(j, s, func, start, call);
    return j->loose.n ? from_loose(j, s, func, start, call) : 0;
}

static void forget_before(struct queue *q, int64_t time)
{
    while (q->n && at(q, 0)->time < time)
        take(q, 0, 1);
}

void argus_join_lossy(argus_join_t *j)
{
    j->lossy = 1;
}

void argus_join_gap(argus_join_t *j, int64_t end)
{
    j->lossy = 1;
    for (size_t i = 0; i < j->n_streams; i++)
        forget_before(&j->streams[i].launched, end);
    forget_before(&j->loose, end);
}

size_t argus_join_waiting(const argus_join_t *j)
{
    size_t n = j->loose.n;

    for (size_t i = 0; i < j->n_streams; i++)
        n += j->streams[i].launched.n;
    return n;
}
