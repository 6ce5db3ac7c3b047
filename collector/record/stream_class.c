/* SPDX-License-Identifier: Apache-2.0 */
/* From records to the classes and communicators of a timeline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/record/stream_impl.h"

/* Distinct sizes of copies, and of a communicator's calls; then by power of two. */
#define COPY_SIZES_MAX 256u

struct comm *argus_stream_comm_of(argus_stream_t *s, uint64_t hash)
{
    for (size_t i = 0; i < s->n_comms; i++) {
        if (s->comms[i].hash == hash)
            return &s->comms[i];
    }
    return NULL;
}

void argus_stream_add_comm(argus_stream_t *s, uint64_t hash, const struct argus_rec_comm *c,
                           uint32_t name)
{
    struct argus_comm_row row = {.hash = hash, .name = name, .members = ARGUS_NONE};
    struct comm *p = argus_stream_comm_of(s, hash);

    if (p || s->n_comms == ARGUS_STREAM_COMMS)
        return;
    if (c) {
        row.size = c->nranks;
        row.rank = c->rank;
        row.nodes = c->nnodes;
    }
    if (!s->comms && !(s->comms = calloc(ARGUS_STREAM_COMMS, sizeof(*s->comms))))
        return;
    p = &s->comms[s->n_comms];
    p->hash = hash;
    p->sizes = 0;
    p->row = argus_summary_comm(s->summary, &row);
    if (p->row != ARGUS_NONE)
        s->n_comms++;
}

static uint64_t power_of_two(uint64_t bytes)
{
    return bytes ? UINT64_C(1) << (63 - __builtin_clzll(bytes)) : 0;
}

/* Every size is a class until there are too many of them. */
static uint32_t sized_class(argus_stream_t *s, struct argus_class_row *row, uint32_t *sizes)
{
    uint32_t id;

    if (*sizes >= COPY_SIZES_MAX) {
        row->bytes = power_of_two(row->bytes);
        row->flags |= ARGUS_CLASS_POOLED;
        return argus_summary_class(s->summary, row);
    }
    id = argus_summary_class(s->summary, row);
    if (id != ARGUS_NONE && id >= s->names.newest_class) {
        s->names.newest_class = id + 1;
        ++*sizes;
    }
    return id;
}

struct argus_class_row argus_stream_blank(int kind)
{
    return (struct argus_class_row){.kind = (uint8_t)kind,
                                    .dtype = ARGUS_DTYPE_UNKNOWN,
                                    .comm = ARGUS_NONE,
                                    .name = ARGUS_NONE,
                                    .peer = -1};
}

uint32_t argus_stream_kernel_class(argus_stream_t *s, const struct argus_rec_kernel *k,
                                   const struct argus_name_facts *name)
{
    struct argus_class_row row = argus_stream_blank(ARGUS_CLASS_COMPUTE);

    row.family = name->family;
    row.flags = name->phase;
    row.name = name->string;
    row.stream = k->stream;
    row.grid[0] = k->grid_x;
    row.grid[1] = k->grid_y;
    row.grid[2] = k->grid_z;
    row.block[0] = k->block_x;
    row.block[1] = k->block_y;
    row.block[2] = k->block_z;
    return argus_summary_class(s->summary, &row);
}

uint32_t argus_stream_host_class(argus_stream_t *s, int kind, uint32_t func, const char *name)
{
    struct argus_class_row row = argus_stream_blank(kind);

    row.func = (uint8_t)(func > 255 ? 255 : func);
    row.name = argus_timeline_add_string(s->w, name, strlen(name));
    return argus_summary_class(s->summary, &row);
}

uint32_t argus_stream_copy_class(argus_stream_t *s, const struct argus_record *rec)
{
    struct argus_class_row row = argus_stream_blank(ARGUS_CLASS_COPY);
    const char *name = rec->type == ARGUS_REC_MEMSET ? "memset" : "memcpy";

    row.func = rec->type == ARGUS_REC_MEMSET ? 0 : rec->u.copy.kind;
    row.bytes = rec->u.copy.bytes;
    row.stream = rec->u.copy.stream;
    row.name = argus_timeline_add_string(s->w, name, strlen(name));
    return sized_class(s, &row, &s->copy_sizes);
}

uint32_t argus_stream_graph_class(argus_stream_t *s, const struct argus_rec_kernel *k)
{
    struct argus_class_row row = argus_stream_blank(ARGUS_CLASS_GRAPH);
    char name[32];

    row.stream = k->stream;
    snprintf(name, sizeof(name), "graph %u", argus_names_graph(&s->names, k->graph));
    row.name = argus_timeline_add_string(s->w, name, strlen(name));
    return argus_summary_class(s->summary, &row);
}

uint32_t argus_stream_comm_class(argus_stream_t *s, const struct argus_item *item,
                                 const struct argus_name_facts *name, uint32_t *seq)
{
    struct argus_class_row row = argus_stream_blank(ARGUS_CLASS_COMM);
    struct argus_call call;
    struct comm *comm = NULL;

    row.name = name->string;
    row.stream = item->stream;
    row.func = name->comm_func;
    if (!argus_join_kernel(s->join, name->comm_func, item->stream, item->graph, item->graph_node,
                           item->start, &call)) {
        s->stats.unmatched++;
        row.flags = ARGUS_CLASS_UNMATCHED;
        return argus_summary_class(s->summary, &row);
    }
    row.func = call.func;
    row.dtype = call.dtype;
    row.peer = call.peer;
    row.bytes = call.bytes;
    if (call.comm) {
        argus_stream_add_comm(s, call.comm, NULL, ARGUS_NONE);
        comm = argus_stream_comm_of(s, call.comm);
    }
    if (!comm)
        return sized_class(s, &row, &s->other_sizes);
    *seq = call.seq;
    row.comm = comm->row;
    return sized_class(s, &row, &comm->sizes);
}
