/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job for other people's tools: Perfetto (Chrome's JSON trace events) and
 * Prometheus (textfile collector).
 */
#ifndef ARGUS_REPORT_EXPORT_H
#define ARGUS_REPORT_EXPORT_H

#include <stdio.h>

#include "analyzer/timeline/timeline_io.h"
#include "analyzer/util/error.h"

struct argus_export_options {
    int first_step, last_step; /* inclusive; -1: from the beginning, to the end */
    const int *ranks;          /* NULL: all */
    size_t n_ranks;
    void (*progress)(void *arg, size_t done, size_t total);
    void *progress_arg;
    void (*left_out)(const char *text); /* of each timeline that does not open; NULL: nobody asks */
};

/*
 * Kept events of a step directory; an error where no timeline opens. A process a rank, a track a stream, tracks
 * for steps, host calls and marks; counters from `health` and of busbw; flow
 * arrows from the last arriver of a collective to each rank that waited.
 * Times in the trace are microseconds from the first event; "otherData" has
 * its CLOCK_REALTIME and the clock offsets that were taken out.
 */
int argus_export_perfetto(const char *dir, const struct argus_export_options *options, FILE *out,
                          argus_error_t *err);

/* Metrics of a job directory that has a verdict, per job and per node. */
int argus_export_prometheus(const char *dir, FILE *out, argus_error_t *err);

/*
 * Calls of collectives with their ends, and what they say of clocks.  Used by
 * the Perfetto export.  Ends of a blocking collective agree within
 * microseconds on all its ranks, so what they differ by is the clocks.
 */
struct argus_call {
    uint64_t hash; /* communicator */
    uint32_t seq;
    uint32_t rank; /* index into the list of ranks */
    uint32_t size; /* of the communicator, 0: not known */
    uint32_t func; /* enum argus_func */
    int track;     /* for the picture */
    uint64_t bytes;
    int64_t start, end;
};
/* The call of a rank in a sorted list; NULL: none. */
struct argus_call *argus_calls_find(struct argus_call *calls, size_t n, uint64_t hash, uint32_t seq,
                                    uint32_t rank);
struct argus_clocks {
    double *offset; /* ns to add to a rank's times, by index */
    size_t n;
    size_t calls;    /* that the offsets rest on */
    double residual; /* ns, median of what is left between ends */
};
/* By communicator and sequence, then rank. */
void argus_calls_sort(struct argus_call *calls, size_t n);
/* Length of the run of equal (hash, seq) from `first` on. */
size_t argus_calls_run(const struct argus_call *calls, size_t n, size_t first);
/* `node[i]`: ranks of one node share a clock; equal numbers, -1: a clock of its own. */
int argus_clocks_align(const struct argus_call *calls, size_t n, const int *node, size_t n_ranks,
                       struct argus_clocks *clocks);
void argus_clocks_clear(struct argus_clocks *clocks);

#endif /* ARGUS_REPORT_EXPORT_H */
