/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the slow link detector. */
#ifndef ARGUS_DETECT_LINK_H
#define ARGUS_DETECT_LINK_H

#include <argus/record.h>

#include "analyzer/detect/shift.h"

#define ARGUS_LINK_TIMELINES 256  /* that are read again for what the proxies say */
#define ARGUS_LINK_MIN_SIBLINGS 3 /* groups of a shape, itself included, for a majority */
#define ARGUS_LINK_APART                                                                           \
    2.0 /* ways that take as many times as long as others are slow, majority or not */
#define ARGUS_LINK_REGULAR 0.8 /* of the steps: the class belongs to each of them */

/* A collective and its shape: those of one shape carry the same between as many in the same way. */
struct argus_link_shape {
    int cc; /* comm class */
    int shape;
};
/* link_shapes.c.  All that can be compared, in order of class; malloc'd, NULL: no memory.  `any_count`: sends of the same
 * bytes are of one shape however many of them a step has. */
struct argus_link_shape *argus_link_shapes(const struct argus_model *m, int any_count, size_t *n,
                                           int *n_shapes);
int argus_link_same_shape(const struct argus_model *m, const struct argus_comm_class *a,
                          const struct argus_comm_class *b);
/* Steps of [first, end) in which the class was seen, of those compared. */
double argus_link_presence(const struct argus_model *m, const struct argus_comm_class *c, int first,
                           int end);
/* Part of every step, but for those that lost records; not a broadcast of the first step. */
int argus_link_regular(const struct argus_model *m, const struct argus_comm_class *c);
/* Expected work of a class (NULL: of any) at each step: median of its siblings, without itself when they are few.  Returns
 * the number of siblings, itself included; 0 on no memory. */
size_t argus_link_expected(const struct argus_model *m, const struct argus_comm_class *c,
                           const int *siblings, size_t n, float *expected);
/* Where half or more of the ways between nodes take ARGUS_LINK_APART times as long as the others, and these are alike, the
 * median is no measure: what the fast ones do the slow ones ought to.  Moves them to the front of `siblings` and returns
 * how many, else `n`. */
size_t argus_link_measure(const struct argus_model *m, int *siblings, size_t n);

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

/* link.c.  The used steps of num, or of num/den, into a series of the model. */
void argus_link_series(struct argus_series *q, const struct argus_model *m, const float *num,
                       const float *den);
/* link_pairs.c.  Pairs that only others with more or fewer sends in a step tell to be slow.  -1: no memory. */
int argus_link_pairs_elsewhere(const struct argus_model *m, struct argus_link_group *groups,
                               size_t n);

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
