/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stream: shared by its files only. */
#ifndef ARGUS_RECORD_STREAM_IMPL_H
#define ARGUS_RECORD_STREAM_IMPL_H

#include "collector/record/join.h"
#include "collector/record/names.h"
#include "collector/record/reorder.h"
#include "collector/record/stream.h"
#include "collector/record/tail.h"

#define ARGUS_STREAM_COMMS 1024u
#define ARGUS_STREAM_MARKS 4096u

struct comm {
    uint64_t hash;
    uint32_t row;
    uint32_t sizes; /* classes made for it */
};

struct argus_stream {
    argus_timeline_writer_t *w;
    argus_summary_t *summary;
    argus_join_t *join;
    struct argus_names names;
    struct argus_reorder reorder;
    struct argus_timeline_info info;
    struct argus_timeline_counters counters;
    struct argus_stream_stats stats;
    struct comm *comms;
    size_t n_comms;
    uint32_t copy_sizes, other_sizes;
    struct argus_mark_row *marks; /* ring of those that wait in the reorder buffer */
    size_t n_marks;
    int64_t flush, previous_flush; /* `start` of the last two FLUSH records */
    int64_t flush_at;              /* when the last one came, CLOCK_MONOTONIC */
    int64_t batch_at;              /* when the last GPU record came */
    struct argus_tail tail;
    argus_error_t failure; /* the first; "": none */
    int failed;
    char *path;
};

/* stream.c: all but the summary. */
argus_stream_t *argus_stream_begin(const struct argus_stream_options *o, const char *path,
                                   const struct argus_ring_header *h, int replace,
                                   argus_error_t *err);

/* stream_class.c: class ids, ARGUS_NONE where there is no room. */
struct comm *argus_stream_comm_of(argus_stream_t *s, uint64_t hash);
void argus_stream_add_comm(argus_stream_t *s, uint64_t hash, const struct argus_rec_comm *c,
                           uint32_t name);
struct argus_class_row argus_stream_blank(int kind);
uint32_t argus_stream_kernel_class(argus_stream_t *s, const struct argus_rec_kernel *k,
                                   const struct argus_name_facts *name);
uint32_t argus_stream_host_class(argus_stream_t *s, int kind, uint32_t func, const char *name);
uint32_t argus_stream_copy_class(argus_stream_t *s, const struct argus_record *rec);
uint32_t argus_stream_graph_class(argus_stream_t *s, const struct argus_rec_kernel *k);
uint32_t argus_stream_comm_class(argus_stream_t *s, const struct argus_item *item,
                                 const struct argus_name_facts *name, uint32_t *seq);

#endif /* ARGUS_RECORD_STREAM_IMPL_H */
