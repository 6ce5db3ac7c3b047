/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the export for Perfetto: shared by perfetto.c and perfetto_rows.c only. */
#ifndef ARGUS_REPORT_PERFETTO_H
#define ARGUS_REPORT_PERFETTO_H

#include "analyzer/report/export.h"
#include "analyzer/report/trace_out.h"

struct rank_file {
    int rank;
    int node; /* index among the nodes; -1: not known */
    char *path;
};

struct comm_name {
    uint64_t hash;
    char *name;
};

struct perfetto {
    const struct argus_export_options *options;
    struct rank_file *ranks;
    size_t n_ranks;
    struct argus_call *calls;
    size_t n_calls, calls_size;
    struct argus_clocks clocks;
    int64_t base;
    struct comm_name *names; /* of communicators */
    size_t n_names;
    struct trace_out out;
    size_t done; /* files read, of 2 * n_ranks */
};

/* Classes and communicators of one timeline. */
struct tables {
    struct argus_class_row *classes;
    struct argus_comm_row *comms;
    size_t n_classes, n_comms;
};

/* perfetto.c */
int argus_perfetto_step_wanted(const struct argus_export_options *o, int step);
/* NULL: not a class of a known communicator. */
const struct argus_comm_row *argus_perfetto_comm_of(const struct tables *t, uint32_t class_id);
/* The trace's microseconds of a time of rank `r`. */
double argus_perfetto_trace_us(const struct perfetto *p, size_t r, int64_t time);
/* Calls `each` for every kept event of the chosen steps. */
typedef int event_visitor(struct perfetto *p, size_t rank, argus_timeline_t *file,
                          const struct tables *t, const struct argus_event_row *ev);

int argus_perfetto_visit_events(struct perfetto *p, size_t rank, argus_timeline_t *file,
                                const struct tables *t, event_visitor *each, argus_error_t *err);

/* perfetto_rows.c: rows of a rank's datasets as slices and counters.  Steps are written first. */
event_visitor argus_perfetto_write_event;
int argus_perfetto_write_steps(struct perfetto *p, size_t r, argus_timeline_t *file,
                               argus_error_t *err);
int argus_perfetto_write_marks(struct perfetto *p, size_t r, argus_timeline_t *file,
                               argus_error_t *err);
int argus_perfetto_write_health(struct perfetto *p, size_t r, argus_timeline_t *file,
                                argus_error_t *err);

#endif /* ARGUS_REPORT_PERFETTO_H */
