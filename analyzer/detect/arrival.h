/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who comes last to the collectives, from events alone: for recordings too
 * short for a verdict.  Free of clocks: in a call that all members are seen
 * in, the shortest duration is the transfer, the rest of the others' is
 * waiting, and the rank with the shortest came last.
 */
#ifndef ARGUS_DETECT_ARRIVAL_H
#define ARGUS_DETECT_ARRIVAL_H

#include "analyzer/model/model.h"

struct argus_arrivals {
    size_t calls;  /* matched calls */
    double *wait;  /* [n_ranks] total, ns */
    double *total; /* [n_ranks] total time in matched calls, ns */
    size_t *last;  /* [n_ranks] calls that it came last to */
    double *late;  /* [n_ranks] most that it came late by: median of the others' waits, ns */
    double *
        clock; /* [n_ranks] median distance of its ends to the others' ends, ns: its clock is off */
};

/* -1: no memory, or the events cannot be read (then a note says so and nothing is filled in). */
int argus_arrivals_find(struct argus_model *m, struct argus_arrivals *a);
void argus_arrivals_clear(struct argus_arrivals *a);

#endif /* ARGUS_DETECT_ARRIVAL_H */
