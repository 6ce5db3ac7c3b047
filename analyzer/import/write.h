/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's trace on its way to a timeline: what write.c and resolve.c share. */
#ifndef ARGUS_IMPORT_WRITE_H
#define ARGUS_IMPORT_WRITE_H

#include "analyzer/import/import.h"
#include "analyzer/summary/summary.h"
#include "analyzer/timeline/timeline_io.h"

/* Sequence numbers count calls of one communicator; sends and receives count
 * by direction and peer, because the other ranks have no part in them. */
struct import_counter {
    uint32_t comm;
    uint8_t func; /* 0 for collectives */
    int32_t peer;
    uint32_t calls;
};

struct import_group_facts { /* of an import_group */
    uint32_t comm;          /* row id; ARGUS_NONE */
    int *ranks;
    size_t n_ranks;
};

struct import_op_facts { /* of an import_op */
    uint32_t class_id;
    uint32_t counter; /* ARGUS_NONE: no sequence */
    uint8_t ready;
};

struct import_correlation {
    uint32_t id;
    uint32_t stream;
};

struct import_writer {
    struct import_trace *t;
    argus_timeline_writer_t *w;
    argus_summary_t *s;
    uint32_t *string_ids; /* id in the timeline + 1, by id in the trace */
    struct import_group_facts *groups;
    uint32_t world_comm; /* ARGUS_NONE: not assumed */
    struct import_op_facts *ops;
    struct import_counter *counters;
    size_t n_counters;
    struct import_correlation *streams;
    size_t n_streams;
    uint16_t *levels; /* of the marks */
    struct import_mark *steps;
    size_t n_steps;
    uint64_t written;
};

/* resolve.c.  Id in the timeline of a string of the trace, ARGUS_NONE. */
uint32_t import_string_of(struct import_writer *o, uint32_t id);
/* Communicator of group i; one of all ranks where the trace names none.  -1: no memory or too many. */
int import_resolve_group(struct import_writer *o, size_t i);
int import_assume_world(struct import_writer *o);
/* The class of an operation, made when it is first met.  -1: no memory or too many. */
int import_resolve_op(struct import_writer *o, uint32_t id);

#endif /* ARGUS_IMPORT_WRITE_H */
