/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUS_REPORT_STRIPS_H
#define ARGUS_REPORT_STRIPS_H

#include "analyzer/report/page.h"

/* Step time, compute of ranks by steps, wait by rank, pipeline stages: each where the model has it. */
void argus_strips(struct argus_page *p, const struct argus_verdict *v, const struct argus_model *m);

/* Is it a verdict of a GPU that starves? */
int argus_strips_is_stall(enum argus_verdict_kind kind);

#endif /* ARGUS_REPORT_STRIPS_H */
