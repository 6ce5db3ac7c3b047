/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the model at the size of a picture: steps binned to columns, ranks
 * gathered to rows.  Culprits and outliers keep rows of their own; the rest
 * is gathered by node, by blocks of a pipeline stage or by blocks of ranks, so
 * that 8 and 10,240 ranks fit the same space.
 */
#ifndef ARGUS_REPORT_VIEW_H
#define ARGUS_REPORT_VIEW_H

#include <argus/verdict.h>

#include "analyzer/model/model.h"

enum argus_view_kind {
    ARGUS_VIEW_COMPUTE, /* compute time / median of the rank's peers: 1 is normal */
    ARGUS_VIEW_WAIT,    /* waiting for others / step time: 0..1 */
    ARGUS_VIEW_IDLE,    /* idle GPU / step time: 0..1; the worst step of a column */
    ARGUS_VIEW_COPY,    /* time in copies / median of the rank's peers: 1 is normal */
    ARGUS_VIEW_WORK     /* transfer time of a collective / its sibling groups': 1 is normal */
};

struct argus_view_row {
    char label[48];
    int culprit;    /* named by the verdict */
    size_t n_ranks; /* gathered in it */
    int group;      /* of a WORK row: index of its group */
    float *value;   /* [n_columns]; NAN: no data */
    double typical; /* median over columns */
};

struct argus_view {
    enum argus_view_kind kind;
    int n_columns;
    int steps_per_column;
    struct argus_view_row *rows;
    size_t n_rows;
    float low, high; /* of all values; NAN when there are none */
};

/* NULL: nothing to show, or no memory.  Not for ARGUS_VIEW_WORK. */
struct argus_view *argus_view_create(const struct argus_model *m, const struct argus_verdict *v,
                                     enum argus_view_kind kind, size_t max_rows, int max_columns);
/* ARGUS_VIEW_WORK: one row a comparable collective, the slowest against its siblings first. */
struct argus_view *argus_view_work(const struct argus_model *m, size_t max_rows, int max_columns);
/* The same as one figure a collective, in the model's order; NAN: nothing to compare with.  malloc'd, n_comm_classes. */
double *argus_view_work_ratios(const struct argus_model *m);
void argus_view_destroy(struct argus_view *view);

/* Median step time (ns) of up to max_columns bins; *n_columns of them; NAN where no step was compared.  malloc'd. */
float *argus_view_step_times(const struct argus_model *m, int max_columns, int *n_columns,
                             int *steps_per_column);

struct argus_view_stage {
    int stage;
    size_t n_ranks;
    double compute; /* median over its ranks of the rank's median busy compute, ns */
    double wait;    /* likewise; waiting for others */
    double idle;    /* idle, not waiting */
    double step;    /* median step time */
};
/* One a pipeline stage; malloc'd; *n of them. */
struct argus_view_stage *argus_view_stages(const struct argus_model *m, size_t *n);

/* Parts that both makers of views share: an empty view whose columns are laid out (NULL: no steps, no memory), and
 * low and high of the rows that it has got; a view in which `ok` is 0 or that holds no value is destroyed: NULL. */
struct argus_view *argus_view_lay_out(const struct argus_model *m, enum argus_view_kind kind,
                                      int max_columns);
struct argus_view *argus_view_finish(struct argus_view *view, int ok);

/* Is this rank index named by the verdict, by number or by its node as a whole? */
int argus_view_is_culprit(const struct argus_model *m, const struct argus_verdict *v, size_t rank);

/* "all-reduce", "reduce-scatter" ... of enum argus_func. */
const char *argus_view_func_name(int func);

#endif /* ARGUS_REPORT_VIEW_H */
