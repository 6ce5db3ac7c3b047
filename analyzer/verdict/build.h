/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting a verdict together.  The verdict copies every string it is given and
 * owns what it holds; argus_verdict_destroy() frees all of it.  Functions that
 * return a pointer return NULL when memory is short; the pointer is valid until
 * the next element of the same list is added.
 */
#ifndef ARGUS_VERDICT_BUILD_H
#define ARGUS_VERDICT_BUILD_H

#include <argus/verdict.h>

/* Everything unknown: insufficient-data, severity none, confidence 0, ranks and steps ARGUS_UNKNOWN, numbers NAN. */
struct argus_verdict *argus_verdict_create(void);
void argus_verdict_destroy(struct argus_verdict *v); /* accepts NULL */

/* Replace a string member (v->phase, v->job.id, link->node ...); NULL clears it.  -1: no memory, the old one stays. */
int argus_verdict_set(char **member, const char *text);

/* node and gpu may be NULL, rank and local_rank ARGUS_UNKNOWN. */
struct argus_culprit *argus_verdict_add_culprit(struct argus_verdict *v, int rank, int local_rank,
                                                const char *node, const char *gpu);
/* The verdict's link, made on the first call; later calls change the scope. */
struct argus_link *argus_verdict_set_link(struct argus_verdict *v, const char *scope);
int argus_link_add_candidate(struct argus_link *link, const char *name);
/* rank may be ARGUS_UNKNOWN, node and note NULL, peers NAN. */
struct argus_evidence_line *argus_verdict_add_evidence(struct argus_verdict *v, const char *signal,
                                                       int rank, const char *node, double value,
                                                       double peers, const char *unit,
                                                       const char *note);
/* No culprits, onset unknown, slowdown 1, no cost: fill in what is known. */
struct argus_finding *argus_verdict_add_finding(struct argus_verdict *v,
                                                enum argus_verdict_kind kind,
                                                enum argus_severity severity);
struct argus_culprit *argus_finding_add_culprit(struct argus_finding *f, int rank, int local_rank,
                                                const char *node, const char *gpu);
/* A line of the job's list of steps. */
struct argus_step_line *argus_verdict_add_step(struct argus_verdict *v, const char *step,
                                               enum argus_verdict_kind kind,
                                               enum argus_severity severity, double slowdown,
                                               double gpu_hours);

/* Sentences: "explained", "data_quality.notes", "next".  -1: no memory. */
int argus_verdict_add_explained(struct argus_verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int argus_verdict_add_note(struct argus_verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int argus_verdict_add_next(struct argus_verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int argus_verdict_add_rank_missing(struct argus_verdict *v, int rank);
int argus_verdict_add_node_missing(struct argus_verdict *v, const char *node);

#endif /* ARGUS_VERDICT_BUILD_H */
