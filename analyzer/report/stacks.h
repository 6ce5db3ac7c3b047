/* SPDX-License-Identifier: Apache-2.0 */
/* CPU stacks of the rank that a verdict names: where its host was while its GPU starved. */
#ifndef ARGUS_REPORT_STACKS_H
#define ARGUS_REPORT_STACKS_H

#include <argus/verdict.h>

#include "analyzer/model/model.h"
#include "analyzer/timeline/timeline_io.h"

struct argus_stack {
    const char *folded; /* "outermost;...;innermost" */
    double samples;
};

struct argus_stacks {
    int rank;
    int starved; /* 1: only samples taken while the GPU had nothing to do; 0: there are none of those, so all */
    struct argus_stack *items; /* the most frequent first */
    size_t n;
    double samples;         /* of all */
    argus_timeline_t *file; /* owner of the names */
};

/* Of the first culprit that has a timeline.  NULL: none was sampled, or no memory. */
struct argus_stacks *argus_stacks_load(const struct argus_model *m, const struct argus_verdict *v);
void argus_stacks_destroy(struct argus_stacks *s);

#endif /* ARGUS_REPORT_STACKS_H */
