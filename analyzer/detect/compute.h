/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the compute straggler detector. */
#ifndef ARGUS_DETECT_COMPUTE_H
#define ARGUS_DETECT_COMPUTE_H

#include "analyzer/detect/detect.h"
#include "analyzer/detect/shift.h"

#define ARGUS_COMPUTE_NAMED_FROM 4 /* smaller cohorts cannot tell who is slow */

/* One kernel class of a rank against its peers, over the windows in question. */
struct argus_class_view {
    int kernel_class;
    double x, ref; /* typical duration, the peers' median, ns */
    double weight; /* share of the rank's compute time */
    double count;  /* calls a window, the peers' median in `ref_count` */
    double ref_count;
    double tail, ref_tail; /* p99 over typical */
};

struct argus_class_views {
    struct argus_class_view *items;
    size_t n;
    double covered;   /* fraction of the windows' steps that lie in the interval, for dilution */
    double score;     /* sum weight ref/x; 0: none */
    double agreement; /* share of the time in classes that are slower */
    size_t slower;    /* classes that are slower */
    double explained; /* share of the excess that the same kernels being slower explains */
    int agreed;       /* >= 3 classes or >= 80 % of the time; or one class that explains all */
    int one_class;
    int worst; /* index of the class that costs most, -1 */
};

struct argus_slow {
    int rank;
    struct argus_shift shift;
    double z;
    struct argus_class_views views;
};

/* One class of a rank in the windows that lie in [first, end): typical duration weighted by calls
 * (NAN: not run there), ... */
struct argus_class_time {
    double typical, count, sum;
    double tail; /* p99 over typical, the worst */
};
struct argus_class_time argus_class_time_in(const struct argus_model_rank *r,
                                            const struct argus_rank_class *c, int first, int end);
/* Share of these windows that lies in [first, end): what else is in them dilutes a difference. */
double argus_class_covered(const struct argus_model_rank *r, int first, int end);

/* 1, and `slow->views`, which is empty (n == 0) where there are no classes; 0: no memory. */
int argus_class_views(const struct argus_model *m, const struct argus_cohort *c,
                      struct argus_slow *slow);
/* 1: the rank spends most of its time in kernels of its peers, runs nearly all of them as often or
 * more often, and each of them takes longer: fewer and longer calls may be other work. */
int argus_class_views_alike(const struct argus_slow *slow);
void argus_class_views_clear(struct argus_class_views *v);
/* "clock", "memory", "compute-bound", "one-class", "shared-gpu" or NULL. */
const char *argus_compute_subkind(const struct argus_class_views *v, const struct argus_model *m);
/* The phase that holds most of the excess; NULL: not known. */
const char *argus_compute_phase(const struct argus_model *m, int rank, const struct argus_cohort *c,
                                int first, int end);
/* 1: the cohort has two tight sides and nobody can be blamed, evidence was added; 0: it has not; -1: no memory.
 * `work` has room for a number a step. */
int argus_compute_find_split(const struct argus_model *m, const struct argus_cohort *c,
                             double *work, struct argus_evidence_list *out);

#endif /* ARGUS_DETECT_COMPUTE_H */
