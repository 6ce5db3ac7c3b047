/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of a rank and what happens in them. */
#include <stdio.h>
#include <stdlib.h>

#include "simtrain.h"

#define TAIL_NS 900 /* members of one operation end within this */

static int64_t tail(const struct group *g)
{
    return (int64_t)(TAIL_NS * uniform(mix(g->salt, g->calls, (uint64_t)g->me, 5)));
}

static int is_pairwise(const struct group *g, const struct simnccl_op *ops, int count)
{
    return (ops[0].func == SIMNCCL_SEND || ops[0].func == SIMNCCL_RECV) &&
           !(count == 2 * g->n && g->n > 1);
}

/* An event between two ranks in one direction; both sides count its messages. */
static uint64_t pair_event(const struct group *g, int from, int to, uint32_t number)
{
    return mix(g->id, (uint64_t)from, (uint64_t)to, number) >> 2;
}

static uint64_t post_pair(struct group *g, const struct simnccl_op *op, int64_t start,
                          uint32_t *number)
{
    int send = op->func == SIMNCCL_SEND;
    int from = send ? g->me : op->peer, to = send ? op->peer : g->me;
    uint64_t id;

    *number = send ? g->sent[to]++ : g->received[from]++;
    id = pair_event(g, from, to, *number);
    net_post(g->train->net, id, 2, start, 0);
    return id;
}

static void end_pairs(struct group *g, const struct simnccl_op *ops, int count,
                      struct simnccl_timing *timing)
{
    uint64_t ids[8];
    uint32_t numbers[8];

    timing->end = timing->last_arrival = timing->start;
    for (int i = 0; i < count && i < 8; i++)
        ids[i] = post_pair(g, &ops[i], timing->start, &numbers[i]);
    for (int i = 0; i < count && i < 8; i++) {
        int send = ops[i].func == SIMNCCL_SEND;
        int from = send ? g->me : ops[i].peer, to = send ? ops[i].peer : g->me;
        int64_t time, extra;

        net_collect(g->train->net, ids[i], &time, &extra);
        timing->last_arrival = time > timing->last_arrival ? time : timing->last_arrival;
        time += link_pair(g->train, g->members[from], g->members[to],
                          ops[i].count * simnccl_dtype_bytes(ops[i].dtype), numbers[i]);
        timing->end = time > timing->end ? time : timing->end;
    }
    timing->end += tail(g);
}

/* The last member to arrive starts the transfer; all end together. */
static void end_of(void *user, struct simnccl_comm *comm, const struct simnccl_op *ops, int count,
                   struct simnccl_timing *timing)
{
    struct group *g = user;
    int64_t last = timing->start, extra = g->extra;

    (void)comm;
    g->calls++;
    if (is_pairwise(g, ops, count)) {
        end_pairs(g, ops, count, timing);
        return;
    }
    if (g->n > 1) {
        uint64_t id = mix(g->id, g->calls, 8, 9) >> 2;

        net_post(g->train->net, id, g->n, timing->start, extra);
        net_collect(g->train->net, id, &last, &extra);
    }
    timing->last_arrival = last;
    timing->end = last + link_transfer(g, ops, count, g->calls) + extra + tail(g);
}

static int64_t edge_of(void *user, int from, int to, uint64_t bytes)
{
    const struct group *g = user;
    int a = g->members[from], b = g->members[to];

    if (g->train->peers.node_of[a] == g->train->peers.node_of[b])
        return -1;
    return link_pair(g->train, a, b, bytes, g->calls);
}

int64_t group_run(struct group *g, const struct simnccl_op *ops, int count)
{
    ((struct train *)g->train)->total_collectives++;
    return simnccl_run(g->nccl, ops, count);
}

int64_t group_collective(struct group *g, enum simnccl_func func, enum simnccl_dtype dtype,
                         uint64_t bytes)
{
    struct simnccl_op op = {.func = func, .dtype = dtype, .peer = -1};

    op.count = bytes / simnccl_dtype_bytes(dtype);
    if (func == SIMNCCL_ALLGATHER || func == SIMNCCL_REDUCESCATTER)
        op.count /= (uint64_t)g->n;
    if (func == SIMNCCL_BROADCAST)
        op.peer = 0;
    g->extra = 0;
    return group_run(g, &op, 1);
}

/* As frameworks do it: a send and a receive to each member in one group. */
int64_t group_all_to_all(struct group *g, uint64_t bytes, int64_t extra)
{
    struct simnccl_op *ops = calloc(2 * (size_t)g->n, sizeof(*ops));
    int64_t end;

    if (!ops)
        abort();
    for (int i = 0; i < g->n; i++) {
        ops[2 * i] =
            (struct simnccl_op){SIMNCCL_SEND, SIMNCCL_BFLOAT16, bytes / 2 / (uint64_t)g->n, i};
        ops[2 * i + 1] = ops[2 * i];
        ops[2 * i + 1].func = SIMNCCL_RECV;
    }
    g->extra = extra;
    end = group_run(g, ops, 2 * g->n);
    g->extra = 0;
    free(ops);
    return end;
}

static void make(struct train *t, struct group *g, const char *name, int kind, int index,
                 const int *members, int n)
{
    struct simnccl_comm_config c = {
        .name = name, .ranks = n, .end = end_of, .edge = edge_of, .user = g};
    int last = -1;

    g->train = t;
    g->n = n;
    if (n < 2)
        return;
    g->id = mix(t->peers.token, (uint64_t)kind, (uint64_t)index, 6);
    g->salt = mix((uint64_t)kind, (uint64_t)index, 13, 14);
    g->members = calloc((size_t)n, sizeof(int));
    g->sent = calloc((size_t)n, sizeof(uint32_t));
    g->received = calloc((size_t)n, sizeof(uint32_t));
    if (!g->members || !g->sent || !g->received)
        abort();
    for (int i = 0; i < n; i++) {
        g->members[i] = members[i];
        if (members[i] == t->self.rank)
            g->me = i;
        if (t->peers.node_of[members[i]] != last) {
            last = t->peers.node_of[members[i]];
            c.nodes++;
        }
    }
    if (!g->stream)
        g->stream = simcu_stream_create();
    c.id = g->id;
    c.rank = g->me;
    c.stream = g->stream;
    g->nccl = simnccl_comm_init(&c);
}

/* Megatron's order: tensor ranks are neighbours, then data, then pipeline. */
static int rank_at(const struct train *t, int tp, int dp, int pp)
{
    return (pp * t->options.dp + dp) * t->options.tp + tp;
}

void groups_make(struct train *t)
{
    const struct options *o = &t->options;
    int most = o->dp > o->tp ? o->dp : o->tp;
    int first = t->dp_rank - t->dp_rank % o->ep;
    int *m = calloc((size_t)(most > o->pp ? most : o->pp), sizeof(int));

    if (!m)
        abort();
    for (int i = 0; i < o->dp; i++)
        m[i] = rank_at(t, t->tp_rank, i, t->pp_rank);
    make(t, &t->dp, "DATA_PARALLEL_GROUP", 1, t->pp_rank * o->tp + t->tp_rank, m, o->dp);
    for (int i = 0; i < o->tp; i++)
        m[i] = rank_at(t, i, t->dp_rank, t->pp_rank);
    make(t, &t->tp, "TENSOR_MODEL_PARALLEL_GROUP", 2, t->pp_rank * o->dp + t->dp_rank, m, o->tp);
    for (int i = 0; i < o->pp; i++)
        m[i] = rank_at(t, t->tp_rank, t->dp_rank, i);
    make(t, &t->pp, "PIPELINE_MODEL_PARALLEL_GROUP", 3, t->dp_rank * o->tp + t->tp_rank, m, o->pp);
    for (int i = 0; i < o->ep; i++)
        m[i] = rank_at(t, t->tp_rank, first + i, t->pp_rank);
    make(t, &t->ep, "EXPERT_MODEL_PARALLEL_GROUP", 4,
         (t->pp_rank * o->dp + first) * o->tp + t->tp_rank, m, o->ep);
    free(m);
}

static void drop(struct group *g)
{
    simnccl_comm_destroy(g->nccl);
    free(g->members);
    free(g->sent);
    free(g->received);
    g->nccl = NULL;
    g->members = NULL;
    g->sent = g->received = NULL;
}

void groups_free(struct train *t)
{
    drop(&t->dp);
    drop(&t->tp);
    drop(&t->pp);
    drop(&t->ep);
}
