/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the compute straggler detector. */
#ifndef ARGUS_DETECT_COMPUTE_H
#define ARGUS_DETECT_COMPUTE_H

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define ARGUS_COMPUTE_MIN_LENGTH 10 /* steps that a shift lasts */
#define ARGUS_COMPUTE_NAMED_FROM 4  /* smaller cohorts cannot tell who is slow */

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
    enum argus_change_kind kind;
    int onset, recovered; /* -1: from the first, to the end */
    int first, end;       /* [first, end) of common steps */
    int steps;
    double ratio, persistence, z;
    int tied; /* found through the job's step time */
    int past; /* its own past says so */
    struct argus_class_views views;
};

/* 1, and `slow->views`, which is empty (n == 0) where there are no classes; 0: no memory. */
int argus_class_views(const struct argus_model *m, const struct argus_cohort *c,
                      struct argus_slow *slow);
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
