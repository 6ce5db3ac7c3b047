/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the slow link detector. */
#ifndef ARGUS_DETECT_LINK_H
#define ARGUS_DETECT_LINK_H

#include <argus/record.h>

#include "analyzer/detect/shift.h"

#define ARGUS_LINK_TIMELINES 256 /* that are read again for what the proxies say */

/* A path: a communicator, or one pair within it, and its collectives. */
struct argus_link_group {
    int group;
    int pair, from, to; /* ranks in the communicator */
    int inter;          /* 1: crosses nodes */
    int *classes;
    size_t n_classes;
    size_t siblings;                  /* most that one of its classes has, itself included */
    float *actual, *expected;         /* [n_steps] ns of work a step, classes with siblings */
    float *total;                     /* [n_steps] all classes; NAN where one is missing */
    double typical;                   /* median of actual / expected over all steps */
    int compared;                     /* has siblings and enough steps */
    int slow, split, by_past, common; /* common: all of its shape, against their past */
    int by_edges; /* slow from the first step: only the edges of its ring tell */
    struct argus_shift shift;
};

/* From slow and fast paths to the smallest unit that explains them; adds evidence. */
int argus_link_locate(const struct argus_model *m, struct argus_link_group *groups, size_t n,
                      struct argus_evidence_list *out);

/* What the proxies say of slow rings: the edge, or what several slow edges have in common. */
enum argus_edge_unit {
    ARGUS_EDGE_NONE, /* nothing, or nothing in common */
    ARGUS_EDGE_RANK,
    ARGUS_EDGE_PAIR,
    ARGUS_EDGE_NODE,
    ARGUS_EDGE_NODE_PAIR
};
struct argus_hot_edge {
    enum argus_edge_unit unit;
    int a, b;            /* rank indices or nodes */
    double wait, others; /* ns an operation waits for the network on the slow edge, on the others */
};
/* A ring that nothing can be compared with: does one way of it take so much longer than the others, which are alike,
 * that it must be slow?  Returns how many times as long, 0: no, -1: no memory. */
double argus_link_uneven_ring(const struct argus_model *m, const struct argus_link_group *g);
int argus_link_edges(const struct argus_model *m, const struct argus_link_group *groups, size_t n,
                     int inter, struct argus_hot_edge *out);

#endif /* ARGUS_DETECT_LINK_H */
