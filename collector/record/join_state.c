/* SPDX-License-Identifier: Apache-2.0 */
/* The join in a checkpoint: calls that wait, threads, captured nodes, counters. */
#include <stdlib.h>

#include "collector/record/join_impl.h"

static void put_queue(struct argus_blob *b, const struct queue *q)
{
    argus_blob_put_u64(b, q->n);
    for (size_t i = 0; i < q->n; i++)
        argus_blob_put(b, &q->call[(q->first + i) & (q->capacity - 1)], sizeof(*q->call));
}

void argus_join_save(const argus_join_t *j, struct argus_blob *b)
{
    argus_blob_put_u64(b, j->n_streams);
    for (size_t i = 0; i < j->n_streams; i++) {
        argus_blob_put_u64(b, j->streams[i].id);
        argus_blob_put_u64(b, j->streams[i].bound);
        put_queue(b, &j->streams[i].launched);
    }
    argus_blob_put_array(b, j->threads, j->n_threads, sizeof(*j->threads));
    put_queue(b, &j->loose);
    put_queue(b, &j->captured);
    argus_blob_put_u64(b, j->n_nodes);
    for (uint32_t i = 0; i < j->cap_nodes; i++) {
        if (j->nodes[i].used)
            argus_blob_put(b, &j->nodes[i], sizeof(j->nodes[i]));
    }
    argus_blob_put(b, j->counters, sizeof(j->counters));
    argus_blob_put_u64(b, j->n_counters);
    argus_blob_put_u64(b, (uint64_t)j->lossy);
}

static void get_queue(struct argus_blob *b, struct queue *q)
{
    uint64_t n = argus_blob_get_u64(b);

    for (uint64_t i = 0; i < n && !b->failed; i++) {
        struct argus_call call;

        argus_blob_get(b, &call, sizeof(call));
        if (argus_join_push(q, &call) < 0)
            b->failed = 1;
    }
}

static void get_threads(argus_join_t *j, struct argus_blob *b)
{
    size_t n;
    struct thread *t = argus_blob_get_array(b, sizeof(*t), ARGUS_JOIN_THREADS, 0, &n);

    for (size_t i = 0; i < n; i++) {
        if (!argus_join_thread_of(j, t[i].tid))
            b->failed = 1;
        else
            *argus_join_thread_of(j, t[i].tid) = t[i];
    }
    free(t);
}

void argus_join_restore(argus_join_t *j, struct argus_blob *b)
{
    uint64_t n = argus_blob_get_u64(b);

    for (uint64_t i = 0; i < n && !b->failed; i++) {
        struct stream *s = argus_join_stream_of(j, (uint32_t)argus_blob_get_u64(b));

        if (!s) {
            b->failed = 1;
            break;
        }
        s->bound = argus_blob_get_u64(b);
        get_queue(b, &s->launched);
    }
    get_threads(j, b);
    get_queue(b, &j->loose);
    get_queue(b, &j->captured);
    n = argus_blob_get_u64(b);
    for (uint64_t i = 0; i < n && !b->failed; i++) {
        struct graph_node node;

        argus_blob_get(b, &node, sizeof(node));
        if ((j->n_nodes + 1) * 2 > j->cap_nodes && argus_join_grow_nodes(j) < 0) {
            b->failed = 1;
            break;
        }
        *argus_join_find_node(j->nodes, j->cap_nodes, node.graph, node.node) = node;
        j->n_nodes++;
    }
    argus_blob_get(b, j->counters, sizeof(j->counters));
    j->n_counters = argus_blob_get_u64(b);
    if (j->n_counters > sizeof(j->counters) / sizeof(j->counters[0]))
        b->failed = 1;
    j->lossy = argus_blob_get_u64(b) != 0;
}
