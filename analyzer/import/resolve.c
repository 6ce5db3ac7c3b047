/* SPDX-License-Identifier: Apache-2.0 */
/* Names, communicators and classes of a trace as rows of a timeline. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/write.h"

uint32_t import_string_of(struct import_writer *o, uint32_t id)
{
    const char *text;

    if (id >= o->t->n_strings)
        return ARGUS_NONE;
    if (!o->string_ids[id]) {
        text = import_text(o->t, id);
        o->string_ids[id] = argus_timeline_add_string(o->w, text, strlen(text)) + 1;
    }
    return o->string_ids[id] - 1;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return (h ^ 0xff) * 0x100000001b3u; /* "ab","c" is not "a","bc" */
}

static int index_of(const int *ranks, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++) {
        if (ranks[i] == rank)
            return (int)i;
    }
    return -1;
}

/* "0,4,8,12" */
static uint32_t members_text(struct import_writer *o, const int *ranks, size_t n)
{
    char *text = malloc(n * 12 + 1), *p = text;
    uint32_t id;

    if (!text)
        return ARGUS_NONE;
    *p = '\0';
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, i ? ",%d" : "%d", ranks[i]);
    id = argus_timeline_add_string(o->w, text, strlen(text));
    free(text);
    return id;
}

int import_resolve_group(struct import_writer *o, size_t i)
{
    const struct import_group *g = &o->t->groups[i];
    struct import_group_facts *f = &o->groups[i];
    const char *members = import_text(o->t, g->members);
    struct argus_comm_row row = {.hash = g->hash,
                                 .name = import_string_of(o, g->name),
                                 .size = g->size,
                                 .members = ARGUS_NONE,
                                 .rank = g->rank >= 0 ? (uint32_t)g->rank : ARGUS_NONE};

    f->ranks = import_ranks_parse(members, g->size, &f->n_ranks);
    if (f->ranks) {
        int own = index_of(f->ranks, f->n_ranks, o->t->rank);

        row.members = members_text(o, f->ranks, f->n_ranks);
        if (!row.size)
            row.size = (uint32_t)f->n_ranks;
        if (own >= 0 && g->rank < 0)
            row.rank = (uint32_t)own;
    }
    if (!row.hash)
        row.hash = hash_text(hash_text(0xcbf29ce484222325u, import_text(o->t, g->name)), members);
    f->comm = argus_summary_comm(o->s, &row);
    return f->comm == ARGUS_NONE ? -1 : 0;
}

int import_assume_world(struct import_writer *o)
{
    struct argus_comm_row row = {.hash = hash_text(0xcbf29ce484222325u, "world"),
                                 .name = argus_timeline_add_string(o->w, "world", 5),
                                 .size = (uint32_t)o->t->world,
                                 .rank = (uint32_t)o->t->rank,
                                 .members = ARGUS_NONE};
    int *ranks = malloc(sizeof(*ranks) * (size_t)o->t->world);

    if (!ranks)
        return -1;
    for (int i = 0; i < o->t->world; i++)
        ranks[i] = i;
    row.members = members_text(o, ranks, (size_t)o->t->world);
    free(ranks);
    o->world_comm = argus_summary_comm(o->s, &row);
    return o->world_comm == ARGUS_NONE ? -1 : 0;
}

static uint32_t counter_of(struct import_writer *o, uint32_t comm, uint8_t func, int32_t peer)
{
    int pair = func == ARGUS_FUNC_SEND || func == ARGUS_FUNC_RECV;
    struct import_counter key = {comm, pair ? func : 0, pair ? peer : -1, 0}, *more;

    for (size_t i = 0; i < o->n_counters; i++) {
        const struct import_counter *c = &o->counters[i];

        if (c->comm == key.comm && c->func == key.func && c->peer == key.peer)
            return (uint32_t)i;
    }
    more = realloc(o->counters, (o->n_counters + 1) * sizeof(*more));
    if (!more)
        return ARGUS_NONE;
    o->counters = more;
    o->counters[o->n_counters] = key;
    return (uint32_t)o->n_counters++;
}

int import_resolve_op(struct import_writer *o, uint32_t id)
{
    const struct import_op *op = &o->t->ops[id];
    struct import_op_facts *f = &o->ops[id];
    struct argus_class_row row = {.kind = op->kind,
                                  .func = op->func,
                                  .dtype = op->dtype,
                                  .name = import_string_of(o, op->name),
                                  .stream = op->stream,
                                  .comm = ARGUS_NONE,
                                  .peer = -1,
                                  .bytes = op->bytes};

    memcpy(row.grid, op->grid, sizeof(row.grid));
    memcpy(row.block, op->block, sizeof(row.block));
    if (op->kind == ARGUS_CLASS_COMPUTE)
        row.family = (uint8_t)argus_kernel_family(import_text(o->t, op->name));
    if (op->kind == ARGUS_CLASS_COMM && op->group != ARGUS_NONE) {
        const struct import_group_facts *g = &o->groups[op->group];

        row.comm = g->comm;
        if (op->peer >= 0)
            row.peer = op->peer_in_group ? op->peer : index_of(g->ranks, g->n_ranks, op->peer);
    } else if (op->kind == ARGUS_CLASS_COMM) {
        row.comm = o->world_comm;
    }
    if (op->kind == ARGUS_CLASS_COMM && !op->bytes)
        row.flags |= ARGUS_CLASS_UNMATCHED;
    f->counter = ARGUS_NONE;
    if (row.comm != ARGUS_NONE)
        f->counter = counter_of(o, row.comm, row.func, row.peer);
    f->class_id = argus_summary_class(o->s, &row);
    f->ready = 1;
    return f->class_id == ARGUS_NONE ? -1 : 0;
}
