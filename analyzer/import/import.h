/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded traces of other tools as timelines: DIR/step-0/rank-NNNNN.h5 and
 * DIR/job.json.
 *
 * An importer fills one struct import_trace a rank, in any order of time;
 * import_trace_write() sorts it, resolves communicators and hands it to the
 * summary that the recorder uses.  Memory: 24 bytes an event, one copy of each
 * distinct name, nothing else grows with the file.
 */
#ifndef ARGUS_IMPORT_H
#define ARGUS_IMPORT_H

#include <argus/record.h>
#include <argus/timeline.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/util/error.h"

#define IMPORT_RANK_UNKNOWN (-1)

/* What is common to many events: a kernel, a copy, a launch call. */
struct import_op {
    uint8_t kind; /* enum argus_class_kind */
    uint8_t func;
    uint8_t dtype;
    uint8_t peer_in_group; /* 1: `peer` counts within the communicator */
    uint32_t name;         /* string of the trace */
    uint32_t stream;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t group; /* ARGUS_NONE: no communicator is known */
    int32_t peer;   /* global rank (see peer_in_group), -1: none */
    uint64_t bytes;
};

struct import_event {
    int64_t start;
    int64_t duration;
    uint32_t op;
    uint32_t correlation; /* 0: none */
};

struct import_mark {
    int64_t start;
    int64_t end;
    uint32_t name;
    uint32_t domain; /* ARGUS_NONE: default */
    uint32_t tid;
};

/* A communicator as the trace names it. */
struct import_group {
    uint32_t name;    /* string; ARGUS_NONE */
    uint32_t members; /* string "0,4,8" of global ranks; ARGUS_NONE: not known */
    uint32_t size;    /* 0: not known */
    int32_t rank;     /* ours in it; -1: from `members` */
    uint64_t hash;    /* 0: from name and members */
};

struct import_trace {
    char *path;
    char source[16]; /* "kineto", "nsys" */
    int rank, world, local_rank, pid;
    char node[64], gpu_name[64], gpu_uuid[64], gpu_pci[32];
    int64_t time_base; /* added to every time when written */
    uint32_t nccl_version;
    uint64_t invalid; /* events refused for bad times */

    char *text; /* strings, terminated, one after the other */
    size_t text_bytes, text_size;
    uint32_t *string_at; /* offset of string i */
    size_t n_strings, strings_size;
    uint32_t *string_slots, *op_slots; /* hash tables of id + 1 */
    size_t string_slots_size, op_slots_size;
    struct import_op *ops;
    size_t n_ops, ops_size;
    struct import_event *events;
    size_t n_events, events_size;
    struct import_mark *marks;
    size_t n_marks, marks_size;
    struct import_group *groups;
    size_t n_groups, groups_size;

    /* After import_trace_sort(). */
    unsigned char *unnumbered; /* by event; see import_find_unnumbered() */
    size_t kernels;            /* compute and communication */
    size_t unmatched;          /* communication kernels without communicator */
    uint64_t unmatched_sum;    /* fingerprint of their functions in order */
};

/* Room for one more of `n` items in a growing array; -1: no memory. */
int import_room(void **array, size_t *size, size_t n, size_t item);

/* Start empty, rank unknown.  Frees nothing that was there. */
int import_trace_init(struct import_trace *t, const char *path, const char *source,
                      argus_error_t *err);
void import_trace_free(struct import_trace *t);
/* Ids; ARGUS_NONE when a table is full (4 Mi entries, 256 MiB of names) or memory is. */
uint32_t import_string(struct import_trace *t, const char *s, size_t length);
const char *import_text(const struct import_trace *t, uint32_t id); /* "" for ARGUS_NONE */
uint32_t import_op(struct import_trace *t, const struct import_op *op);
uint32_t import_group(struct import_trace *t, const struct import_group *group);
int import_event(struct import_trace *t, int64_t start, int64_t duration, uint32_t op,
                 uint32_t correlation);
int import_mark(struct import_trace *t, const struct import_mark *mark);
/* By start; fills the counts.  -1: out of memory. */
int import_trace_sort(struct import_trace *t);

/* Steps by the trace's marks, in order; the marks used leave the trace.  In
 * domain "argus" where they were moved to GPU time.  `whole`: the trace is one step.  malloc'd; *n = 0: no marks of steps.  -1: out of memory. */
int import_steps(struct import_trace *t, int whole, struct import_mark **steps, size_t *n);
/*
 * Collectives are matched by their order, so all ranks must begin to count at
 * the same one.  Where a trace has step marks and launches, that is the first
 * collective launched inside a step: what was launched before may be in one
 * rank's trace and not in another's, and gets no number.
 */
int import_find_unnumbered(struct import_trace *t);
/* The number in the name of the first step mark; -1: none. */
long import_first_step(const struct import_trace *t);
int import_is_step_mark(const struct import_trace *t, const struct import_mark *m);

struct import_output {
    const char *dir; /* job directory */
    int replace;     /* existing timelines are replaced */
};
/* Makes DIR and DIR/step-0. */
int import_prepare(const struct import_output *out, argus_error_t *err);
/* One sorted trace to its timeline.  `assume_world`: kernels without a
 * communicator belong to one of all `world` ranks.  Takes the events. */
int import_trace_write(struct import_trace *t, const struct import_output *out, int assume_world,
                       argus_error_t *err);
/* DIR/step-0/rank-NNNNN.h5 into `path`. */
int import_path(const struct import_output *out, int rank, char *path, size_t size,
                argus_error_t *err);
/* What the commands print: files done, events, and what had to be assumed. */
struct import_report {
    size_t files, ranks, kernels, events;
    uint64_t invalid;
    char note[512]; /* "" or what has to be said */
};
/* A rank of the job that is being imported. */
struct import_state {
    int rank;
    int world;
    int written;
    long first_step;  /* number in the name of its first step mark, -1: none */
    size_t unmatched; /* as in its trace */
    uint64_t unmatched_sum;
};
/* import_trace_write() with the books kept. */
int import_state_write(struct import_trace *t, const struct import_output *out, int assume_world,
                       struct import_state *state, struct import_report *report,
                       argus_error_t *err);
/* All ranks of the job are there and ran the same unmatched collectives in the same order. */
int import_states_agree(const struct import_state *states, size_t n);
/* What has to be said of collectives without communicator. */
void import_states_note(const struct import_state *states, size_t n, struct import_report *report);
/* Remove what was written: half a job reads like a whole one. */
void import_states_undo(const struct import_state *states, size_t n,
                        const struct import_output *out);
/* "rank-12.json.gz", "worker7_step...": the number behind the word; -1: none. */
int import_rank_of_name(const char *path);

struct import_job {
    const char *source;
    int ranks, world;
    const char *const *files;
    size_t n_files;
};
int import_job_write(const struct import_output *out, const struct import_job *job,
                     argus_error_t *err);

/* "[0, 4, 8, 12]", or shortened as "[0, 1, 2, ..., 63]", as global ranks; malloc'd, *n of them.
 * A shortened list is completed when it goes on evenly to `size` ranks, else NULL with *n = 0. */
int *import_ranks_parse(const char *text, uint32_t size, size_t *n);
/* "allreduce", "_allgather_base", "all_to_allv" ... to enum argus_func; ARGUS_FUNC_NONE: no name of one. */
int import_func(const char *name);
/* "Float", "BFloat16" ... to enum argus_dtype. */
int import_dtype(const char *name);
/* "cudaLaunchKernel" ... : the class of a host call that we keep, 0: none; its func in *func. */
int import_host_call(const char *name, int *func);

/* Called now and then with the share of the input that is read. */
typedef void import_progress(void *arg, double done);

int import_kineto(const char *const *files, size_t n, const struct import_output *out,
                  import_progress *progress, void *arg, struct import_report *report,
                  argus_error_t *err);
int import_nsys(const char *const *files, size_t n, const struct import_output *out,
                import_progress *progress, void *arg, struct import_report *report,
                argus_error_t *err);

/* Kineto: one file into one trace.  For import_kineto() and the fuzz driver. */
int import_kineto_read(const char *path, struct import_trace *t, import_progress *progress,
                       void *arg, argus_error_t *err);

#endif /* ARGUS_IMPORT_H */
