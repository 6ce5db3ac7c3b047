/* SPDX-License-Identifier: Apache-2.0 */
/* The dependency graph of kept steps: what replay.c, replay_graph.c and replay_run.c share. */
#ifndef ARGUS_VERDICT_REPLAY_GRAPH_H
#define ARGUS_VERDICT_REPLAY_GRAPH_H

#include <argus/record.h>

#include "analyzer/verdict/replay.h"

#define ARGUS_REPLAY_MAX_DEPS 4

struct argus_replay_op {
    int rank, step;
    int kernel_class, comm_class;
    int call;           /* index of the collective, -1: none */
    int64_t start, end; /* as it was */
    double ns;          /* work: duration, or the transfer of a collective */
    double delay;       /* between what it waited for and its start */
    int deps[ARGUS_REPLAY_MAX_DEPS];
    int n_deps;
};

struct argus_replay_call { /* one call of a collective within a step */
    int members;           /* ops that belong to it */
    double ns;             /* transfer, when it has more than one */
};

struct argus_replay {
    const struct argus_model *m;
    /* by step, then start: an order in which dependencies come first */
    struct argus_replay_op *ops;
    size_t n, room;
    struct argus_replay_call *calls;
    size_t n_calls;
    int n_steps;
    int *steps;
    double *work;          /* [n] durations of a replay */
    double *ready, *done;  /* [n] */
    double *arrived;       /* [n_calls] */
    int *waiting;          /* [n_calls] */
    double *mean, *median; /* ideal by kernel class; by comm class */
    double *delays;        /* [ranks] share of a rank's delays that is kept */
};

/* replay_graph.c.  At most `most` steps of [first, end) whose events most ranks kept; returns their number. */
int argus_replay_choose_steps(const struct argus_model *m, int first, int end, int most,
                              int *steps);
/* Operations of a rank and what they waited for; ranks are loaded in order. */
int argus_replay_load_rank(struct argus_replay *r, size_t rank, argus_error_t *err);
/* Which operations are one call of a collective, and its transfer. */
int argus_replay_match_calls(struct argus_replay *r);

/* replay_run.c.  Mean time of a step with the durations in `work`; NAN: ranks wait for one another. */
double argus_replay_run(struct argus_replay *r);

#endif /* ARGUS_VERDICT_REPLAY_GRAPH_H */
