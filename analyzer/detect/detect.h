/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detectors: pure functions from the model to evidence.  None of them decides;
 * the arbiter does (analyzer/verdict/arbiter.h).  The table in detect.c lists
 * them all.
 *
 * What a fault costs is not a detector's business either: it says how much
 * time it adds to which ranks in which steps (`excess`); the what-if computes
 * what the job would have taken without it.
 */
#ifndef ARGUS_DETECT_H
#define ARGUS_DETECT_H

#include <argus/verdict.h>

#include "analyzer/model/model.h"
#include "analyzer/stats/stats.h"
#include "analyzer/util/error.h"

struct argus_evidence {
    enum argus_verdict_kind kind;
    const char *detector;
    int *ranks; /* indices of the blamed, may be empty */
    size_t n_ranks;
    int whole_nodes; /* 1: the ranks are all of their nodes; blame the nodes */
    int stage;       /* pipeline stage or ARGUS_UNKNOWN */
    const char *phase, *pattern, *subkind; /* static strings or NULL */
    struct argus_link *link;               /* owned */
    int onset, recovered;                  /* common steps or ARGUS_UNKNOWN: from the first */
    double effect;      /* relative size of the fault itself (0.3: its work takes 30 % longer) */
    double persistence; /* share of the windows or steps since onset that show it, 0..1 */
    double agreement;   /* share of independent signals that agree, 0..1 */
    double z;           /* robust z, INFINITY where it does not apply */
    int *
        hit; /* ranks whose own time the fault lengthens (a slow link: all members of its groups) */
    size_t n_hit;
    float *excess; /* [n_hit * n_steps] ns that it adds to the time of hit[i] in step k */
    int outside; /* 1: that time is not busy compute (a gap, a transfer); 2: the step's as a whole */
    double most;       /* ns a step that it can cost at the most; 0: not known */
    int informative;   /* 1: never a verdict of its own (severity none or info) */
    int *comm_classes; /* of slow paths */
    size_t n_comm_classes;
    char *text; /* one sentence */
    struct argus_evidence_line *lines;
    size_t n_lines;
};

struct argus_evidence_list {
    struct argus_evidence *items;
    size_t n;
};

struct argus_detector {
    const char *name;
    int (*detect)(const struct argus_model *m, struct argus_evidence_list *out);
};

extern const struct argus_detector argus_detectors[];
extern const size_t argus_detector_count;

/* Run all of them.  -1: no memory. */
int argus_detect_all(const struct argus_model *m, struct argus_evidence_list *out,
                     argus_error_t *err);
void argus_evidence_list_clear(struct argus_evidence_list *list);

/* A sentence for data_quality.notes on the ways between nodes (`inter` 1) or within them that nothing could be held
 * against but their own past, and that no evidence blames; empty: there are none.  -1: no memory. */
int argus_links_not_compared(const struct argus_model *m, const struct argus_evidence_list *list,
                             int inter, char *text, size_t size);

/* Join what belongs together (slow GPUs of one node, splits of several stages). */
int argus_evidence_merge(const struct argus_model *m, struct argus_evidence_list *list);
/* A new, empty item (onset, recovered, stage unknown); NULL: no memory. */
struct argus_evidence *argus_evidence_add(struct argus_evidence_list *list, const char *detector,
                                          enum argus_verdict_kind kind);
int argus_evidence_rank(struct argus_evidence *e, int rank_index);
/* 1: of copies between host and GPU. */
int argus_evidence_is_copies(const struct argus_evidence *e);
/* Row of excess for a rank, zeroed, added when new; NULL: no memory. */
float *argus_evidence_excess(struct argus_evidence *e, const struct argus_model *m, int rank_index);
/* `rank_index` -1: not of one rank.  Strings are copied, note may be NULL. */
int argus_evidence_line(struct argus_evidence *e, const struct argus_model *m, int rank_index,
                        const char *signal, double value, double peers, const char *unit,
                        const char *note);
void argus_evidence_text(struct argus_evidence *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "rank 13 on n07", or "rank 13" where the node is not known. */
const char *argus_rank_text(const struct argus_model *m, int rank_index, char *text, size_t size);

/* ---- what detectors share (common.c) ---------------------------------- */

/* Ranks that may be compared with one another. */
struct argus_cohort {
    const int *ranks; /* indices, ascending */
    size_t n;
    int stage;
    float
        *reference; /* [n_steps] median over the ranks of `column`; n >= ARGUS_COHORT_LARGE only */
    enum argus_column column;
    int widened; /* 1: ranks of other stages that run the same kernels are among them */
    int *owned;  /* NULL or what `ranks` points to */
    float
        *load; /* NULL or [model's ranks]: compute that is asked of a rank, by its experts or by the
                * number of its calls, over the usual */
    int own_amount; /* 1: by the number of its calls */
};
#define ARGUS_COHORT_LARGE 8 /* from here one rank does not move the median */

int argus_cohort_init(struct argus_cohort *c, const struct argus_model *m, const int *ranks,
                      size_t n, enum argus_column column);
void argus_cohort_clear(struct argus_cohort *c);
/* Replicas of one expert shard: the same place in different expert parallel groups of a stage. */
int argus_same_shard(const struct argus_model *m, int a, int b);
int argus_cohort_replicas(const struct argus_cohort *c, const struct argus_model *m, int rank);
/* Fill `load` where the ranks are in expert parallel groups.  -1: no memory. */
int argus_cohort_shards(struct argus_cohort *c, const struct argus_model *m);
static inline double argus_cohort_load(const struct argus_cohort *c, int rank)
{
    return c->load ? (double)c->load[rank] : 1;
}
/* What the others of the cohort show at step k, at this rank's load; NAN. */
double argus_cohort_reference(const struct argus_cohort *c, const struct argus_model *m,
                              int rank_index, int k);
/* The smallest value of the cohort at step k; NAN. */
double argus_cohort_least(const struct argus_cohort *c, const struct argus_model *m, int k);
/* Ratio of rank i to its reference over used steps.  `q` and `at` have room for n_steps; returns
 * the number of points (steps where either is missing are left out). */
int argus_cohort_ratio(const struct argus_cohort *c, const struct argus_model *m, int rank_index,
                       double *q, int *at);
/* What a rank has to do against the median of the others, ns over its whole job. */
struct argus_work {
    double usual;  /* the others' kernels */
    double amount; /* what the rank has more: calls, and kernels that the others do not run */
    double speed;  /* what slower kernels account for, where they are the same */
};
/* All 0: no memory. */
void argus_work_of(const struct argus_model *m, const int *ranks, size_t n_ranks, int rank,
                   struct argus_work *work);
/* Shift of a ratio whose healthy level is 1: against its own past where it changed, else against 1
 * (then ARGUS_CHANGE_CONSTANT: high from the first point). */
struct argus_change argus_ratio_change(const double *q, size_t n, double min_ratio,
                                       size_t min_length);
/* Used steps in order: fills `steps` (n_steps ints), returns how many. */
int argus_used_steps(const struct argus_model *m, int *steps);
/* Median step time over used steps, ns. */
double argus_typical_step(const struct argus_model *m);

/* A stage of one rank: does it run other kernels than the rest (1), so that it is heavier by design? */
int argus_single_replica(const struct argus_model *m, int stage);
/* "forward", "backward" or NULL: where the stage's extra compute lies. */
const char *argus_stage_phase(const struct argus_model *m, int stage);

int argus_detect_compute(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_link(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_pcie(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_host(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_pipeline(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_workload(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_uniform(const struct argus_model *m, struct argus_evidence_list *out);
int argus_detect_distribution(const struct argus_model *m, struct argus_evidence_list *out);

#endif /* ARGUS_DETECT_H */
