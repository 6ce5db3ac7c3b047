/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what a user types to directories: a directory as it is; a job id
 * through the job's comment in accounting (sacct, dir=), then argus/<id> below
 * the working directory if a job.json is there.
 */
#ifndef ARGUS_MODEL_JOBDIR_H
#define ARGUS_MODEL_JOBDIR_H

#include <stddef.h>

#include "analyzer/util/error.h"

/* *dir is malloc'd. */
int argus_jobdir_resolve(const char *what, char **dir, argus_error_t *err);
/* Directories of timelines: step-* of a job directory (in order of step number, then name), or the
 * directory itself.  At least one, each malloc'd. */
int argus_jobdir_steps(const char *dir, char ***steps, size_t *n, argus_error_t *err);
void argus_jobdir_free(char **steps, size_t n);

#endif /* ARGUS_MODEL_JOBDIR_H */
