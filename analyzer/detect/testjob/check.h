/* SPDX-License-Identifier: Apache-2.0 */
/* Constructed jobs and their verdict, for the tests of the detectors. */
#ifndef ARGUS_TESTJOB_CHECK_H
#define ARGUS_TESTJOB_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "analyzer/detect/testjob/jobsim.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"

/* A directory for the jobs of a group of tests. */
int job_setup(void **state);
int job_teardown(void **state);

/* Play the job and load it, or have it judged; the caller destroys what it gets. */
struct argus_model *job_model(const struct job_spec *s);
struct argus_verdict *job_verdict(const struct job_spec *s);

/* The verdict, and the one culprit or none (-1). */
void job_expect(const struct argus_verdict *v, enum argus_verdict_kind kind, int rank);
void job_check(const struct job_spec *s, enum argus_verdict_kind kind, int rank);
/* A healthy job with one fault, which is returned. */
struct job_fault *job_one(struct job_spec *s, int world, enum job_fault_kind kind, int rank);

/* Value of a signal, and its peers'. */
double job_evidence(const struct argus_verdict *v, const char *signal, double *peers);
/* 1: it is said under `explained`. */
int job_says(const struct argus_verdict *v, const char *what);

#endif /* ARGUS_TESTJOB_CHECK_H */
