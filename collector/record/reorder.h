/* SPDX-License-Identifier: Apache-2.0 */
/* Events that wait until everything that ended before them has come. */
#ifndef ARGUS_RECORD_REORDER_H
#define ARGUS_RECORD_REORDER_H

#include <stddef.h>
#include <stdint.h>

struct argus_item {
    int64_t start;
    int64_t end;
    uint32_t class_id; /* ARGUS_NONE: a communication kernel, `aux` is its name */
    uint32_t aux;
    uint32_t stream;
    uint32_t graph;
    uint32_t graph_node;
    uint32_t type; /* enum argus_record_type */
};

struct argus_reorder { /* zeroed memory is an empty one */
    struct argus_item *items;
    size_t n, capacity;
    struct argus_item *ready; /* work space of an advance */
    size_t ready_capacity;
    int64_t newest; /* latest end that came */
    int64_t watermark;
};

typedef void (*argus_emit_f)(void *arg, const struct argus_item *item);

/* May emit, when too much waits.  -1: no memory; the item is lost. */
int argus_reorder_add(struct argus_reorder *r, const struct argus_item *item, argus_emit_f emit,
                      void *arg);
/* Everything that ended by `watermark` is there: emit it in order of its end. */
void argus_reorder_advance(struct argus_reorder *r, int64_t watermark, argus_emit_f emit,
                           void *arg);
void argus_reorder_free(struct argus_reorder *r);

#endif /* ARGUS_RECORD_REORDER_H */
