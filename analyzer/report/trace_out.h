/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome's JSON trace events, as Perfetto reads them.  One process is written
 * at a time; slices of a track that overlap go to further tracks, because the
 * format knows nesting only.  Times in microseconds.
 */
#ifndef ARGUS_REPORT_TRACE_OUT_H
#define ARGUS_REPORT_TRACE_OUT_H

#include <stdint.h>
#include <stdio.h>

#include "analyzer/timeline/timeline_io.h"

#define TRACE_LANES 8
#define TRACE_COMMUNICATORS 16777216 /* process that carries the counters of communicators */

enum trace_kind { TRACE_STEPS = 0, TRACE_STREAM, TRACE_HOST, TRACE_MARKS };

struct trace_track {
    enum trace_kind kind;
    uint32_t id;
    double busy[TRACE_LANES]; /* end of the last slice */
    int lanes;
};

struct trace_out {
    FILE *file;
    int comma; /* an element was written */
    int args;  /* arguments of the open slice */
    int other; /* entries of "otherData" */
    int failed;
    uint64_t flows;             /* arrows so far */
    struct trace_track *tracks; /* of the open process */
    size_t n_tracks, tracks_size;
    double *last_us; /* by rank index: end of its last slice */
    size_t process;  /* index of the open one */
};

struct trace_slice {
    int pid;
    const char *name;
    double start, duration;
    enum trace_kind kind;
    uint32_t id;
};

int trace_begin(struct trace_out *o, FILE *file, size_t processes);
int trace_end(struct trace_out *o); /* -1: something was not written */
void trace_free(struct trace_out *o);
int trace_failed(const struct trace_out *o);
/* A rank; `index` counts them. */
void trace_process(struct trace_out *o, const struct argus_timeline_info *info, size_t index);
void trace_process_end(struct trace_out *o, int pid);
/* Returns the slice's thread id, for arrows. */
int trace_slice_begin(struct trace_out *o, const struct trace_slice *s);
void trace_arg_number(struct trace_out *o, const char *key, double value);
void trace_arg_text(struct trace_out *o, const char *key, const char *value);
void trace_arg_dims(struct trace_out *o, const char *key, const uint32_t dims[3]);
void trace_slice_end(struct trace_out *o);
void trace_counter(struct trace_out *o, int pid, const char *name, double us, double value);
struct trace_point {
    int pid, tid;
    double us;
};
void trace_arrow(struct trace_out *o, const struct trace_point *from, const struct trace_point *to);
/* "otherData" comes last. */
void trace_other_begin(struct trace_out *o);
void trace_other_number(struct trace_out *o, const char *key, int64_t value);

#endif /* ARGUS_REPORT_TRACE_OUT_H */
