/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the join: shared by join.c and join_state.c only. */
#ifndef ARGUS_RECORD_JOIN_IMPL_H
#define ARGUS_RECORD_JOIN_IMPL_H

#include "collector/record/join.h"

#define ARGUS_JOIN_THREADS 4096u

struct queue {
    struct argus_call *call;
    size_t first, n, capacity;
};

struct stream {
    uint32_t id;
    uint64_t bound; /* communicator that this stream's kernels are of; 0: not known */
    struct queue launched;
};

struct thread {
    uint32_t tid;
    int open; /* `call` gathers operations for the next LAUNCH */
    int captured;
    struct argus_call call;
};

struct graph_node {
    uint32_t graph, node;
    int used;
    struct argus_call call;
};

struct counter { /* kernels replayed for a communicator */
    uint64_t comm;
    uint32_t next;
};

struct argus_join {
    struct stream *streams;
    size_t n_streams;
    struct thread *threads;
    size_t n_threads;
    struct queue loose;    /* calls of interfaces that tell no launch */
    struct queue captured; /* calls recorded into graphs, not yet seen as a node */
    struct graph_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct counter counters[256];
    size_t n_counters;
    int lossy; /* records were lost: order alone does not pair any more, times must agree */
};

/* join.c.  -1: no memory. */
int argus_join_push(struct queue *q, const struct argus_call *call);
/* Made when new; NULL: too many, or no memory. */
struct stream *argus_join_stream_of(argus_join_t *j, uint32_t id);
struct thread *argus_join_thread_of(argus_join_t *j, uint32_t tid);
/* Where a graph's node is or would be; `capacity` is a power of two that leaves room. */
struct graph_node *argus_join_find_node(struct graph_node *nodes, uint32_t capacity, uint32_t graph,
                                        uint32_t node);
int argus_join_grow_nodes(argus_join_t *j);

#endif /* ARGUS_RECORD_JOIN_IMPL_H */
