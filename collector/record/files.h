/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder writes beside the timelines. */
#ifndef ARGUS_RECORD_FILES_H
#define ARGUS_RECORD_FILES_H

#include <jansson.h>

#include "analyzer/util/error.h"
#include "analyzer/util/stepconf.h"

/* mkdir -p. */
int argus_files_mkdir(const char *path, argus_error_t *err);
/* The whole file, under a temporary name first.  `once`: what is there already stays. */
int argus_files_write(const char *path, json_t *object, int once, argus_error_t *err);
/* "argus-job/1": what runs, on which nodes, under which keys. */
json_t *argus_files_job(const struct argus_stepconf *conf);
/* "argus-step/1" */
json_t *argus_files_step(const struct argus_stepconf *conf);
/* Lines of the spool's "standdown", as they are; an empty array where there are none. */
json_t *argus_files_standdown(const char *spool);

#endif /* ARGUS_RECORD_FILES_H */
