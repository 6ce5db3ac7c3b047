/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one rank's events to its timeline: steps, breakdown, KDE clusters, kept
 * windows.  Used by the recorder (online), by `argus import` and by the
 * benchmarks, so that a verdict never depends on who wrote the file.
 *
 * Feed: classes first, then events in order of their end (order of start does
 * as well: what matters is that the events of one communicator come in order
 * and that nothing comes a whole step late), marks when they end, anything
 * else at any time.  An event whose step is closed already counts in
 * `clusters` and as late, but in no step.
 *
 * Every event counts in `clusters` exactly once: rows with first_step =
 * last_step = ARGUS_STEP_NONE hold those outside of every step, the warm-up
 * steps have rows of their own, then each `cluster_steps` steps (at the same
 * step numbers on all ranks).  Memory is bounded: beyond `max_classes` classes
 * are pooled, at most 262,144 events wait for a step.
 */
#ifndef ARGUS_SUMMARY_H
#define ARGUS_SUMMARY_H

#include <stdint.h>

#include "analyzer/timeline/timeline_io.h"
#include "analyzer/util/blob.h"

typedef struct argus_summary argus_summary_t;

struct argus_summary_options {
    int window;          /* keep one full-resolution step in N; 0: keep every event (mode=full) */
    int cluster_steps;   /* steps a row of `clusters` stands for; default 64 */
    int warmup_steps;    /* first steps flagged ARGUS_STEP_WARMUP; default 3 */
    int flight_steps;    /* last steps held in memory, written when one is slow; default 3 */
    double slow_factor;  /* a step is slow from this multiple of the running median; default 1.10 */
    uint64_t keep_bytes; /* cap on `events` of the file; default 64 MiB */
    uint32_t max_classes; /* default 8192 */
    int use_marks; /* 1: marks that repeat cut steps; default 1.  ARGUS_SUMMARY_MARKS_ONLY: every mark
                             of kind STEP cuts, from the first on, and nothing else does (imports: the cuts
                             are known; a mark then comes before the events of its step) */
};
#define ARGUS_SUMMARY_MARKS_ONLY 2
void argus_summary_defaults(struct argus_summary_options *options);

/* Does not own `w`. */
argus_summary_t *argus_summary_create(const struct argus_summary_options *options,
                                      argus_timeline_writer_t *w, argus_error_t *err);
/* Row id in `comms` / `classes`; equal rows get the same id (a class by kind, name, grid, block, comm, func, dtype,
 * bytes, peer, stream).  String ids come from argus_timeline_add_string() of the same writer. */
uint32_t argus_summary_comm(argus_summary_t *s, const struct argus_comm_row *row);
uint32_t argus_summary_class(argus_summary_t *s, const struct argus_class_row *row);
/* `ev->step` is ignored and set by the summary.  Events of host kinds (OVERHEAD, SYNC, ALLOC, LAUNCH, PEER_WAIT) too. */
int argus_summary_event(argus_summary_t *s, const struct argus_event_row *ev, argus_error_t *err);
int argus_summary_mark(argus_summary_t *s, const struct argus_mark_row *mark, argus_error_t *err);
int argus_summary_gap(argus_summary_t *s, const struct argus_gap_row *gap, argus_error_t *err);
int argus_summary_stack(argus_summary_t *s, const struct argus_stack_row *stack,
                        argus_error_t *err);
/* Everything that is complete goes to the writer (which is then flushed). */
int argus_summary_flush(argus_summary_t *s, argus_error_t *err);
/* Close the last step and write what is left.  Then the caller seals the writer. */
int argus_summary_finish(argus_summary_t *s, argus_error_t *err);
uint64_t
argus_summary_late(const argus_summary_t *s); /* events that came after their step was closed */
size_t argus_summary_memory(const argus_summary_t *s); /* bytes held */
int64_t argus_summary_steps(const argus_summary_t *s); /* steps closed so far */
void argus_summary_destroy(argus_summary_t *s);
/* Everything it knows, and a summary that goes on from there: its writer holds the rows (classes, communicators and
 * strings included) that had been appended when it was saved. */
void argus_summary_save(const argus_summary_t *s, struct argus_blob *b);
argus_summary_t *argus_summary_restore(const struct argus_summary_options *options,
                                       argus_timeline_writer_t *w, struct argus_blob *b,
                                       argus_error_t *err);

/* Copy of the row of a class, NULL when there is none; valid until the next class is added. */
const struct argus_class_row *argus_summary_class_row(const argus_summary_t *s, uint32_t class_id);
/* Classes that were folded into pooled ones. */
uint64_t argus_summary_pooled(const argus_summary_t *s);

/* Names to facts; pure functions, in analyzer/summary/kernel_name.c. */
enum argus_family argus_kernel_family(const char *name);
/* Is this a communication kernel (NCCL of any age, symmetric memory, NVSHMEM, DeepEP, custom all-reduce)?
 * Returns the function the name tells (ARGUS_FUNC_NONE: not communication). */
int argus_kernel_comm_func(const char *name);
/* ARGUS_CLASS_FORWARD or _BACKWARD where the name tells it, else 0: to be set in the flags of compute classes, from
 * which the steps' phases come where there are no marks. */
uint32_t argus_kernel_phase(const char *name);
enum argus_mark_kind argus_mark_kind_of(const char *name);
unsigned argus_dtype_bytes(int dtype); /* 0: unknown */

#endif /* ARGUS_SUMMARY_H */
