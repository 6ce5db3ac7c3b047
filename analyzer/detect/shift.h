/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series over the compared steps (a rank against its peers, a path against
 * its siblings), and where and how far it shifts up.  Kernels, copies and links
 * are judged by the same rules; what a series holds is the detector's business.
 */
#ifndef ARGUS_DETECT_SHIFT_H
#define ARGUS_DETECT_SHIFT_H

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define ARGUS_SHIFT_MIN_LENGTH 10 /* steps that a shift lasts */

struct argus_series {
    double *x, *work; /* room for a number a step */
    int *at;          /* [n] common steps, ascending */
    int n;
};

int argus_series_init(struct argus_series *s, const struct argus_model *m);
void argus_series_clear(struct argus_series *s);
/* Fill it with the step times of the job. */
void argus_series_step_times(struct argus_series *s, const struct argus_model *m);
/* Median in [first, end) of the common steps, NAN: none; *points (may be NULL): how many. */
double argus_series_median(struct argus_series *s, int first, int end, int *points);

struct argus_shift {
    enum argus_change_kind kind;
    int onset, recovered; /* common steps; -1: from the first, to the end */
    int first, end;       /* [first, end) of common steps */
    int steps;            /* points in it */
    double base;          /* the level it is held against */
    double ratio;         /* median in [first, end) over base */
    double persistence;   /* share of the steps that are at least half of that way up */
};

/* 1: `change` of the series is a lasting shift, whose place and base are filled in. */
int argus_shift_place(struct argus_shift *shift, const struct argus_model *m,
                      const struct argus_series *s, const struct argus_change *change);
/* Fill steps, ratio and persistence; 1: it is min_ratio and stands in 80 % of its steps. */
int argus_shift_measure(struct argus_shift *shift, struct argus_series *s, double min_ratio);
/* Both, for a series whose healthy level is 1. */
int argus_shift_of_ratio(struct argus_shift *shift, const struct argus_model *m,
                         struct argus_series *s, double min_ratio);

/* Among too few for a majority: the rank changed against its own past in `column`, and most of the
 * shift is that change.  Overwrites the series. */
int argus_shift_own_past(const struct argus_shift *shift, const struct argus_model *m,
                         struct argus_series *s, int rank, enum argus_column column);
/* How far the shift of `rank` lies outside what the cohort shows in the same steps; `fill` makes
 * the series of another of its ranks.  `floor` is what measurement alone explains.  NAN: no memory. */
double argus_shift_robust_z(const struct argus_shift *shift, const struct argus_cohort *c, int rank,
                            struct argus_series *s, double floor,
                            void (*fill)(void *arg, int rank, struct argus_series *s), void *arg);

/* Onset, recovery, effect, persistence and pattern of the evidence. */
void argus_shift_describe(const struct argus_shift *shift, struct argus_evidence *e);
/* What the rank needs more than the cohort in the cohort's column, step by step.  -1: no memory. */
int argus_shift_excess(const struct argus_shift *shift, const struct argus_model *m,
                       struct argus_evidence *e, const struct argus_cohort *c, int rank);

#endif /* ARGUS_DETECT_SHIFT_H */
