/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model: everything that the timelines of one step say, in columns.
 *
 * Load once, read from everywhere; nothing changes after argus_model_load().
 * Ranks are addressed by index (0..n_ranks-1, in order of rank number), steps
 * by the common step number (0..n_steps-1).  A rank that lacks a step, or
 * whose step touches a gap, reads as NAN there.  Durations are float
 * nanoseconds (24 bits of mantissa: better than 1e-7), times int64 ns.
 *
 *   wait and work   of a collective c on group g, matched by sequence:
 *                   work = shortest duration over the ranks of g, wait_r =
 *                   d_r - work.  From the summary: work of a class and step =
 *                   min over ranks of the per-call minimum; wait of a rank =
 *                   sum - count * work.  Groups with one rank present have no
 *                   work of their own: NAN, never a guess.
 *   local           step time minus exposed waiting: what the rank itself needed.
 *   peers           ranks of the same pipeline stage that run the same compute
 *                   classes equally often.  Experts' kernels are compared among
 *                   replicas of one shard only (analyzer/detect/shards.c).
 */
#ifndef ARGUS_MODEL_H
#define ARGUS_MODEL_H

#include <argus/timeline.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/util/error.h"

/* Columns: one float a rank and step. */
enum argus_column {
    ARGUS_COL_DURATION = 0, /* end - start */
    ARGUS_COL_COMPUTE,      /* as in argus_step_row */
    ARGUS_COL_COMM,
    ARGUS_COL_EXPOSED,
    ARGUS_COL_COPY,
    ARGUS_COL_COPY_BUSY,
    ARGUS_COL_COPY_BYTES,
    ARGUS_COL_IDLE,
    ARGUS_COL_HEAD_IDLE,
    ARGUS_COL_GAP,
    ARGUS_COL_GAP_OFFSET,
    ARGUS_COL_LEAD_IDLE,
    ARGUS_COL_OVERHEAD,
    ARGUS_COL_ALLOC,
    ARGUS_COL_FORWARD,
    ARGUS_COL_BACKWARD,
    ARGUS_COL_OPTIMIZER,
    ARGUS_COL_KERNELS,
    ARGUS_COL_NEW_CLASSES,
    /* computed after loading */
    ARGUS_COL_WAIT,  /* waiting for others in collectives and receives, exposed part */
    ARGUS_COL_LOCAL, /* DURATION - WAIT */
    ARGUS_COL_COUNT
};

enum argus_group_kind {
    ARGUS_GROUP_OTHER = 0,
    ARGUS_GROUP_WORLD, /* all ranks */
    ARGUS_GROUP_TP,
    ARGUS_GROUP_DP,
    ARGUS_GROUP_PP,
    ARGUS_GROUP_EP,
    ARGUS_GROUP_EDP,
    ARGUS_GROUP_KINDS
};
const char *argus_group_kind_name(enum argus_group_kind kind); /* "tp", "dp", ... */

/* A communicator. */
struct argus_group {
    uint64_t hash;
    enum argus_group_kind kind;
    char *name;      /* for people: the source's name, else "dp_0" */
    uint32_t size;   /* ranks that it has, present or not */
    int *members;    /* rank index by rank in the communicator, -1: no timeline */
    size_t present;  /* members that have a timeline */
    int nodes;       /* nodes that the present members are on */
    int index;       /* among the groups of its kind */
    double per_step; /* calls a step */
    double bytes;    /* bytes a step and rank */
    int pseudo;      /* made up: calls whose communicator is not known */
};

/* A comparable collective: one group, function, message. */
struct argus_comm_class {
    int group;
    uint8_t func;   /* enum argus_func */
    uint8_t dtype;  /* enum argus_dtype */
    int from, to;   /* ranks in the communicator: send and receive; root in `from`; -1: none */
    uint64_t bytes; /* message; of uneven ones (all-to-all) the smallest */
    uint64_t bytes_max;
    double count;   /* calls a step, median */
    size_t ranks;   /* ranks that report it */
    size_t expects; /* ranks that ought to: 2 for a pair, else the size of the group */
    int matched;    /* calls line up one to one; else no work and no wait */
    float *work;    /* [n_steps]: shortest call over ranks, ns; NAN: none */
    float *spread;  /* [n_steps]: max over ranks of the mean duration - work; NAN */
};

/* One rank's view of one comparable collective. */
struct argus_rank_comm {
    int comm_class;
    int outgoing;        /* send and receive: 1 on the sender's side */
    float *sum;          /* [n_rows] by the rank's own step, ns; see argus_rank_value() */
    float *min;          /* [n_rows] */
    float *count;        /* [n_rows]; NULL: always `usual_count` */
    uint32_t *first_seq; /* [n_rows]; NULL: evenly spaced, or not known */
    float usual_count;
    uint32_t usual_seq;    /* sequence of its first call, row `usual_row` */
    uint32_t seq_per_step; /* 0: sequences are not known */
    int usual_row;
    double lead; /* idle directly before the calls, ns a step, mean */
};

/* A comparable computation: kernel name, grid, block (streams pooled). */
struct argus_kernel_class {
    uint64_t signature;
    const char *name;
    uint8_t kind; /* ARGUS_CLASS_COMPUTE, _GRAPH, _COPY */
    uint8_t family;
    uint8_t func;
    uint64_t bytes; /* of a copy */
    uint32_t grid[3], block[3];
    size_t ranks;
};

/* One rank's durations of one class, by window. */
struct argus_rank_class {
    int kernel_class;
    float *typical; /* [n_windows] mean over modes of the mode's median, ns; NAN: not run */
    float *p99;     /* [n_windows] of the slowest mode that holds >= 5 % of the calls */
    float *sum;     /* [n_windows] total time, ns */
    float *count;   /* [n_windows] calls */
    uint8_t *modes; /* [n_windows] number of modes */
};

struct argus_model_rank {
    int rank;
    int node; /* index into nodes */
    int local_rank;
    int tp, pp, dp, ep; /* coordinates, 0 where the dimension does not exist */
    int shard;          /* place in its expert parallel group, -1: in none */
    int expert_group;   /* index into groups, -1 */
    int peers;          /* index into peer_sets, -1: no peers */
    char *path;
    struct argus_timeline_info info;
    struct argus_timeline_counters counters;
    int sealed;
    char end[16];

    int has_health;      /* 1: its timeline has health rows (health.h) */
    int has_peer_waits;  /* 1: ... waits of the network proxy (peerwait.h) */
    int first_step;      /* number of its first row */
    int n_rows;          /* rows from first_step on, holes included */
    int shift;           /* common step = own step + shift */
    int64_t *start;      /* [n_rows], 0: no such step */
    uint8_t *flags;      /* [n_rows] ARGUS_STEP_* */
    uint16_t *gap_class; /* [n_rows] kind << 8 | func of the work that ended the longest gap */
    float *col[ARGUS_COL_COUNT]; /* [n_rows]; NULL: all zero.  See argus_rank_col() */
    struct argus_rank_comm *comms;
    size_t n_comms;
    struct argus_rank_class *classes; /* in order of kernel_class */
    size_t n_classes;
    double pooled; /* ns of kernels too rare to be classes of their own */
    int n_windows;
    int *class_map; /* by class id of its file: kernel class, -2 - comm class, -1: neither */
    size_t n_class_map;
    int *window_first, *window_last; /* [n_windows] own steps, inclusive, in order of the first */
};

struct argus_peer_set {
    int stage;
    int *ranks; /* indices */
    size_t n;
};

struct argus_model_keys { /* step.json, else the defaults */
    double info, warn, critical;
    double floor_ms;
    int min_steps;
};

struct argus_topology {
    int tp, pp, dp, ep; /* tp and dp 0: the data do not tell which is which */
    const char *
        source; /* "inferred", "names", "option"; "unknown": no communicator is known, one stage is assumed */
};

struct argus_model {
    char *dir; /* directory of the timelines */
    char *job;
    char *step;
    int world; /* as the ranks say */
    char *source;
    int simulated;
    struct argus_model_rank *ranks;
    size_t n_ranks;
    char **nodes;
    size_t n_nodes;
    int n_steps;
    uint8_t *use; /* [n_steps] 1: compared (no warm-up, no gap, not partial) */
    int n_used;
    int cluster_steps; /* steps of the widest window */
    int n_windows;     /* most that a rank has */
    struct argus_group *groups;
    size_t n_groups;
    struct argus_comm_class *comm_classes;
    size_t n_comm_classes;
    struct argus_kernel_class *kernel_classes;
    size_t n_kernel_classes;
    struct argus_peer_set *peer_sets;
    size_t n_peer_sets;
    struct argus_topology topology;
    struct argus_model_keys keys;
    /* data quality */
    int *ranks_missing;
    size_t n_ranks_missing;
    uint64_t dropped, invalid, gaps, late, torn;
    char **notes;
    size_t n_notes;
    void *arena; /* owner of the arrays above */
};

struct argus_model_options {
    const char *topology; /* "tp=2,pp=4,dp=8,ep=1" or NULL */
    int first_step;       /* --steps A:B; -1: from the beginning */
    int last_step;        /* -1: to the end */
    int processes;        /* loaders; 0: as many as CPUs */
    int slot;             /* in an MPI launch: 0..3, not that of another model that is still held */
    void (*progress)(void *arg, size_t done, size_t total);
    void *progress_arg;
};
void argus_model_options_init(struct argus_model_options *options);
/* "tp=2,pp=4,dp=8,ep=1", a part of it or none of it; dp is 0 where it is not given. */
int argus_topology_parse(const char *text, struct argus_topology *topology, argus_error_t *err);

/* All timelines of `dir` ("rank-*.h5", sealed, open or torn).  A file that cannot be read becomes a note and a missing
 * rank; an empty directory is an error.  NULL on error, and with an empty text in the processes of an MPI launch that
 * only read for process 0 (spread.h). */
struct argus_model *argus_model_load(const char *dir, const struct argus_model_options *options,
                                     argus_error_t *err);
void argus_model_destroy(struct argus_model *m);

/* What the recorders of a step's directory noted of sources that did not listen, for ranks of which `m` (NULL: none is
 * known) has no timeline. */
void argus_standdowns_without_timeline(const char *dir, const struct argus_model *m,
                                       void (*note)(void *arg, const char *text), void *arg);

/* The value of a column array of rank `r` at common step k; NAN when it has none. */
static inline float argus_rank_value(const struct argus_model_rank *r, const float *array, int k)
{
    int i = k - r->shift - r->first_step;

    return array && i >= 0 && i < r->n_rows ? array[i] : NAN;
}
/* Row index of common step k in the rank's arrays, -1: none. */
static inline int argus_rank_row(const struct argus_model_rank *r, int k)
{
    int i = k - r->shift - r->first_step;

    return i >= 0 && i < r->n_rows && r->start[i] ? i : -1;
}
static inline float argus_rank_col(const struct argus_model_rank *r, enum argus_column c, int k)
{
    int i = argus_rank_row(r, k);

    return i < 0 ? NAN : r->col[c] ? r->col[c][i] : 0.0f;
}

/* Steps of window w of rank `r` that lie in [first, end) of the common steps, as a share of it. */
static inline double argus_rank_window_share(const struct argus_model_rank *r, int w, int first,
                                             int end)
{
    int a = r->window_first[w] + r->shift, b = r->window_last[w] + r->shift + 1;
    int from = a > first ? a : first, to = b < end ? b : end;

    return to > from ? (double)(to - from) / (b - a) : 0;
}
/* Value of a window array (as in argus_rank_class) of rank `r`. */
static inline float argus_rank_window(const struct argus_model_rank *r, const float *array, int w)
{
    return array && w >= 0 && w < r->n_windows ? array[w] : NAN;
}
/* The rank's entry for a kernel class; NULL: it does not run it. */
const struct argus_rank_class *argus_rank_find_class(const struct argus_model_rank *r,
                                                     int kernel_class);

/* One event of a kept step. */
struct argus_model_event {
    int64_t start, end;
    int step;         /* common */
    int kernel_class; /* -1: none */
    int comm_class;   /* -1: none */
    uint32_t seq;     /* sequence in the communicator, ARGUS_NONE: not known */
    uint32_t stream;
};
/* Events of kernels, copies and collectives of the rank in the given common steps (ascending), or
 * of the whole file (steps NULL), in order of start.  Read from its timeline: malloc'd, the caller
 * frees.  At most `limit` (0: no limit), else an error. */
int argus_model_events(const struct argus_model *m, size_t rank_index, const int *steps,
                       size_t n_steps, size_t limit, struct argus_model_event **events, size_t *n,
                       argus_error_t *err);

/* Rank index of a global rank number, -1: not there. */
int argus_model_find_rank(const struct argus_model *m, int rank);
/* Does it run in (nearly) every step, or is it a variant that comes and goes with the data? */
int argus_rank_class_regular(const struct argus_model_rank *r, const struct argus_rank_class *c);
/* Share of a's compute time in regular classes that b runs equally often (within a tenth), 0..1; 1
 * where it has none. */
double argus_model_alike(const struct argus_model *m, const struct argus_model_rank *a,
                         const struct argus_model_rank *b);
/* The same, however often b runs them. */
double argus_model_same_kernels(const struct argus_model *m, const struct argus_model_rank *a,
                                const struct argus_model_rank *b);
/* Are sender and receiver of it known?  Then only they take part, not all members of the group. */
int argus_comm_is_pair(const struct argus_comm_class *c);
/* Does it go over the network?  A pair of a group on several nodes may be within one of them. */
int argus_comm_crosses_nodes(const struct argus_model *m, const struct argus_comm_class *c);
/* Median over used steps of a column of one rank; NAN: none. */
double argus_model_rank_median(const struct argus_model *m, size_t rank_index, enum argus_column c);
/* Step time of step k: median over ranks of DURATION; NAN: none. */
double argus_model_step_time(const struct argus_model *m, int k);
/* nccl-tests' factors from bytes/time to busbw and algbw; bytes as the user passed them; 0: none defined. */
double argus_busbw_factor(int func, uint32_t size);
double argus_algbw_factor(int func, uint32_t size);
/* A sentence for data_quality.notes. */
void argus_model_note(struct argus_model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* ARGUS_MODEL_H */
