/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running job as its open timelines show it: the last steps of every rank.
 * Only step rows are read, and of those only what is new, so that a thousand
 * ranks can be followed once a second.  What this says of a rank is a
 * suspicion; verdicts come from argus analyze.
 */
#ifndef ARGUS_REPORT_LIVE_H
#define ARGUS_REPORT_LIVE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/util/error.h"

#define ARGUS_LIVE_WINDOW 32 /* steps that are looked at */

struct argus_live_rank {
    int rank;
    char node[64];
    int sealed;           /* its timeline is complete: the rank has ended */
    int last_step;        /* -1: none yet */
    double compute_ratio; /* compute / median of ranks that run as many kernels; NAN */
    double wait_share;    /* exposed communication / step; NAN */
    double idle_share;    /* idle / step; NAN */
    int comparable;       /* ranks that run as many kernels, itself included */
    uint64_t dropped;
};

struct argus_live_view {
    char job[64], step[32], source[32];
    int simulated;
    int world;      /* ranks that there ought to be */
    size_t n_ranks; /* that have a timeline */
    size_t n_sealed;
    int last_step;      /* newest step that any rank has closed */
    double step_ms;     /* median over ranks of their newest step */
    double step_ms_p50; /* median over ranks and the window */
    uint64_t dropped, invalid, late;
    const char *suspicion; /* name of a verdict; NULL: none */
    int suspect;           /* index into ranks; -1 */
    char why[128];
    struct argus_live_rank *ranks; /* the most conspicuous first */
};

typedef struct argus_live argus_live_t;

/* `dir`: a job directory (its newest step is followed) or a directory of timelines. */
argus_live_t *argus_live_open(const char *dir, argus_error_t *err);
/* The same for one look: no timeline stays open, which for a thousand ranks takes a gigabyte. */
argus_live_t *argus_live_glance(const char *dir, argus_error_t *err);
void argus_live_close(argus_live_t *l); /* accepts NULL */
/* Reads what is new.  -1: the directory is gone or memory is short. */
int argus_live_refresh(argus_live_t *l, argus_error_t *err);
/* Valid until the next refresh. */
const struct argus_live_view *argus_live_view(const argus_live_t *l);
/* Schema "argus-top/1"; at most `max_ranks` ranks.  NULL: no memory. */
json_t *argus_live_to_object(const argus_live_t *l, size_t max_ranks);

#endif /* ARGUS_REPORT_LIVE_H */
