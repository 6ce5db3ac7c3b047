/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One traced process: its ring's records in, its timeline out.
 *
 * GPU records come in batches that are not in order; a FLUSH says that what
 * had ended before the previous FLUSH is complete.  Up to there (or, where a
 * source falls silent, up to a time-out) records are put in order of their
 * end, joined with the NCCL calls, and handed to the summary.
 */
#ifndef ARGUS_RECORD_STREAM_H
#define ARGUS_RECORD_STREAM_H

#include <argus/record.h>
#include <argus/timeline.h>

#include "analyzer/summary/summary.h"
#include "analyzer/util/blob.h"
#include "collector/record/ring_reader.h"

typedef struct argus_stream argus_stream_t;

struct argus_stream_options {
    struct argus_summary_options summary;
    char mode[16];
    int32_t restart;
    char job[64], step[32], node[64];
};

struct argus_stream_stats {
    uint64_t records; /* read from the ring */
    uint64_t torn;
    uint64_t lost;      /* could not be written: file system full or failing */
    uint64_t unmatched; /* communication kernels without a call */
    uint64_t comms;     /* communicators */
    uint64_t invalid;   /* refused by the sources */
    int64_t steps;
    size_t memory;
};

/* `path`: the timeline's final name.  The ring stays the caller's. */
argus_stream_t *argus_stream_create(const struct argus_stream_options *options, const char *path,
                                    const struct argus_ring_header *header, argus_error_t *err);
/* n records in ring order.  Never fails for what they hold. */
void argus_stream_records(argus_stream_t *s, struct argus_ring *ring,
                          const struct argus_record *records, size_t n, int64_t now);
void argus_stream_torn(argus_stream_t *s, uint64_t n);
/* Counters and facts of the header; lets time pass (`now`: CLOCK_MONOTONIC ns). */
void argus_stream_header(argus_stream_t *s, const struct argus_ring_header *header, int64_t now);
int argus_stream_health(argus_stream_t *s, const char *metric, const char *device, int64_t time,
                        double value);
/* What is complete goes to the file.  0, or -1 with the text of the first failure. */
int argus_stream_flush(argus_stream_t *s, argus_error_t *err);
/* Everything left, then the file gets its final name.  Frees `s`. */
int argus_stream_seal(argus_stream_t *s, const char *end, struct argus_stream_stats *stats,
                      argus_error_t *err);
/* Everything that is needed to go on elsewhere from here: after this is stored the records that
 * were handed in are not needed any more. */
void argus_stream_save(argus_stream_t *s, struct argus_blob *b);
/* Goes on from what argus_stream_save() wrote.  `old` is the timeline that was being written then,
 * under another name by now; the new one is made at the same path. */
argus_stream_t *argus_stream_restore(const struct argus_stream_options *options, const char *path,
                                     const char *old, const struct argus_ring_header *header,
                                     struct argus_ring *ring, struct argus_blob *b,
                                     argus_error_t *err);
/* A row could not be written: what is in the file is not what was handed in. */
int argus_stream_failed(const argus_stream_t *s);
/* Leaves the open timeline and everything else as they are. */
void argus_stream_abandon(argus_stream_t *s);
void argus_stream_stats(const argus_stream_t *s, struct argus_stream_stats *stats);
const char *argus_stream_path(const argus_stream_t *s);

#endif /* ARGUS_RECORD_STREAM_H */
