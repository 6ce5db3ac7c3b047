/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUS_REPORT_STRIPS_H
#define ARGUS_REPORT_STRIPS_H

#include "analyzer/report/page.h"

/* Step time, compute of ranks by steps, wait by rank, pipeline stages: each where the model has it. */
void argus_strips(struct argus_page *p, const struct argus_verdict *v, const struct argus_model *m);

#endif /* ARGUS_REPORT_STRIPS_H */
