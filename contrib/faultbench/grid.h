/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs of a run and what became of them. */
#ifndef FAULTBENCH_GRID_H
#define FAULTBENCH_GRID_H

#include "contrib/faultbench/bench.h"

struct fb_options {
    int full, seeds, healthy, jobs, rules, events, verbose, keep;
    int style, fault, world;
    uint64_t first_seed, only; /* only: 0, or the seed of the jobs that are run */
    const char *json, *picture, *baseline, *dir;
};

struct fb_cell { /* one job: shared between the workers and the one that counts */
    struct fb_spec spec;
    struct fb_truth truth;
    struct fb_answer answer;
    int blame_right[FB_RULE_COUNT];
    int done; /* 1: judged, -1: failed */
};

struct fb_grid {
    struct fb_cell *v;
    size_t n, room;
};

/* Appends the jobs that the options ask for. */
void fb_grid_fill(struct fb_grid *g, const struct fb_options *o);

#endif /* FAULTBENCH_GRID_H */
