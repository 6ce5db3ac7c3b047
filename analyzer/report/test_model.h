/* SPDX-License-Identifier: Apache-2.0 */
/* Constructed models and verdicts for the tests of the reports. */
#ifndef ARGUS_REPORT_TEST_MODEL_H
#define ARGUS_REPORT_TEST_MODEL_H

#include <argus/verdict.h>

#include "analyzer/model/model.h"

enum test_case {
    TEST_HEALTHY,
    TEST_STRAGGLER, /* one rank's compute 1.3x from a third of the steps on */
    TEST_LINK,      /* the groups that cross node 1 transfer 3x slower */
    TEST_PIPELINE,  /* the last stage computes 1.4x */
    TEST_STALL,     /* rank 0's GPU starves every 10th step */
    TEST_CASES
};

/* `pp` pipeline stages, 8 ranks a node, data parallel within a stage. */
struct argus_model *test_model_create(enum test_case kind, int n_ranks, int n_steps, int pp);
void test_model_destroy(struct argus_model *m);
/* What argus would say of it. */
struct argus_verdict *test_verdict_create(enum test_case kind, const struct argus_model *m);
/* "healthy" ...; -1: none. */
int test_case_from_name(const char *name);

#endif /* ARGUS_REPORT_TEST_MODEL_H */
