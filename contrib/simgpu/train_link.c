/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long bytes travel.
 *
 * Two kinds of edges: inside a node (NVLink-like) and between nodes
 * (NIC-like), each with a bandwidth; a ring is as fast as its slowest edge.
 *
 *   all-reduce            2 (n-1)/n bytes over the slowest edge
 *   all-gather, reduce-scatter     (n-1) times a rank's share
 *   broadcast, reduce     bytes
 *   all-to-all            the busiest member's bytes to each peer, summed
 *   send, recv            bytes over one edge
 *
 * All members compute the same number: it depends on nothing but the
 * communicator, the call and the seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simtrain.h"

#define INTRA_BYTES_PER_NS 180.0
#define INTER_BYTES_PER_NS 24.0
#define INTRA_LATENCY_NS 3000.0
#define INTER_LATENCY_NS 9000.0
#define BASE_NS 9000.0 /* launch and set-up of any operation */

static int crosses(const struct train *t, int a, int b)
{
    return t->peers.node_of[a] != t->peers.node_of[b];
}

static int fault_on_edge(const struct train *t, const struct fault *f, int a, int b)
{
    switch (f->target) {
    case LINK_NODE:
        return crosses(t, a, b) &&
               (t->peers.node_of[a] == f->node || t->peers.node_of[b] == f->node);
    case LINK_RANK:
        return a == f->rank || b == f->rank;
    case LINK_PAIR:
        return (a == f->rank && b == f->rank_b) || (a == f->rank_b && b == f->rank);
    }
    return 0;
}

static double edge_factor(const struct train *t, int a, int b)
{
    double factor = 1;

    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_SLOW_LINK && fault_active(f, t->step) && fault_on_edge(t, f, a, b))
            factor *= f->factor;
    }
    return factor;
}

/* ns a byte */
static double edge_cost(const struct train *t, int a, int b)
{
    return edge_factor(t, a, b) / (crosses(t, a, b) ? INTER_BYTES_PER_NS : INTRA_BYTES_PER_NS);
}

static double edge_latency(const struct train *t, int a, int b)
{
    return crosses(t, a, b) ? INTER_LATENCY_NS : INTRA_LATENCY_NS;
}

static double jitter(const struct train *t, uint64_t who, uint64_t call)
{
    double x = 1 + t->options.noise * gaussian(mix(t->options.seed, who, call, 77));

    return x < 0.5 ? 0.5 : x;
}

int64_t link_pair(const struct train *t, int a, int b, uint64_t bytes, uint64_t call)
{
    double ns = BASE_NS + edge_latency(t, a, b) + (double)bytes * edge_cost(t, a, b);

    return (int64_t)(ns * jitter(t, mix((uint64_t)a, (uint64_t)b, 3, 4), call));
}

static double ring(const struct group *g, double bytes)
{
    double worst = 0, latency = 0;

    for (int i = 0; i < g->n; i++) {
        int a = g->members[i], b = g->members[(i + 1) % g->n];
        double cost = edge_cost(g->train, a, b);

        worst = cost > worst ? cost : worst;
        latency += edge_latency(g->train, a, b);
    }
    return BASE_NS + latency + bytes * worst;
}

/* bytes: what each member sends in all, its own share included */
static double all_to_all(const struct group *g, double bytes)
{
    double worst = 0;

    for (int i = 0; i < g->n; i++) {
        double sum = BASE_NS;

        for (int k = 0; k < g->n; k++)
            if (k != i)
                sum += edge_latency(g->train, g->members[i], g->members[k]) +
                       bytes / g->n * edge_cost(g->train, g->members[i], g->members[k]);
        worst = sum > worst ? sum : worst;
    }
    return worst;
}

int64_t link_transfer(const struct group *g, const struct simnccl_op *ops, int count, uint64_t call)
{
    double ns = 0, n = g->n;

    for (int i = 0; i < count; i++) {
        double bytes = (double)(ops[i].count * simnccl_dtype_bytes(ops[i].dtype));

        switch (ops[i].func) {
        case SIMNCCL_ALLREDUCE:
            ns += ring(g, bytes * 2 * (n - 1) / n);
            break;
        case SIMNCCL_ALLGATHER:
        case SIMNCCL_REDUCESCATTER:
            ns += ring(g, bytes * (n - 1));
            break;
        case SIMNCCL_BROADCAST:
        case SIMNCCL_REDUCE:
            ns += ring(g, bytes);
            break;
        case SIMNCCL_SEND:
            ns += all_to_all(g, bytes * n) / (double)g->n;
            break;
        case SIMNCCL_RECV:
            break;
        }
    }
    return (int64_t)(ns * jitter(g->train, g->salt, call));
}

/* nodeK is the node of that name, else the K-th node in the order of ranks. */
void link_resolve_nodes(struct options *o, const struct peers *peers)
{
    for (int i = 0; i < o->fault_count; i++) {
        struct fault *f = &o->faults[i];
        int index;

        if (f->kind != FAULT_SLOW_LINK || f->target != LINK_NODE)
            continue;
        f->node = sscanf(f->text, "node%d", &index) == 1 ? index : -1;
        for (int k = 0; k < peers->nodes; k++)
            if (strcmp(peers->names[k], f->text) == 0)
                f->node = k;
        if (f->node < 0 || f->node >= peers->nodes) {
            fprintf(stderr, "simtrain: --slow-link: no node '%s' among the %d of this run\n",
                    f->text, peers->nodes);
            exit(2);
        }
    }
}
