/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting comment of a job, read through sacct and written through
 * sacctmgr.  (scontrol cannot: a completing job counts as finished already.)
 * Both are run with an argument vector, a clean environment and a time limit.
 */
#ifndef ARGUS_EPILOG_ACCOUNTING_H
#define ARGUS_EPILOG_ACCOUNTING_H

#include <stdint.h>

#include "analyzer/util/error.h"

enum argus_field { ARGUS_FIELD_ADMIN, ARGUS_FIELD_SYSTEM, ARGUS_FIELD_COMMENT, ARGUS_FIELD_NONE };

/* "admin", "system", "comment", "none" and back; -1: no such. */
int argus_field_from_name(const char *name);

/* How to run Slurm's commands. */
struct argus_slurm {
    const char *path;       /* directories, as in PATH; NULL: ARGUS_SPAWN_PATH */
    const char *slurm_conf; /* NULL: the default place */
    int timeout_s;          /* for one command; 0: 30 */
};

/* One job as accounting names it. */
struct argus_target {
    char id[64];     /* for sacct and sacctmgr: "4711", an array's task "4700_12" */
    char raw[24];    /* JobIDRaw: "4711" */
    int64_t started; /* s; a record that begins later is another run of the job; 0: any */
};

enum argus_post_status {
    ARGUS_POST_DONE = 0,
    ARGUS_POST_LATER, /* no record yet, the job is not over, slurmdbd does not answer: try again */
    ARGUS_POST_SUPERSEDED, /* the job was requeued and runs, or ran, again: nothing to post any more */
    ARGUS_POST_REFUSED     /* trying again is of no use */
};

/*
 * Make `line` the argus part of the job's field and leave the rest of the
 * field as it is; nothing is written when it is there already.  Where this
 * Slurm would damage the other text (sacctmgr before 23.02 lower-cases it) and
 * `field` is not ARGUS_FIELD_SYSTEM, the system comment is used instead.
 * The error is filled in unless the status is ARGUS_POST_DONE.
 */
enum argus_post_status argus_accounting_post(const struct argus_slurm *slurm,
                                             const struct argus_target *target,
                                             enum argus_field field, const char *line,
                                             argus_error_t *err);

/* The same, again and again with growing pauses until `deadline_s` seconds have passed. */
enum argus_post_status argus_accounting_post_retry(const struct argus_slurm *slurm,
                                                   const struct argus_target *target,
                                                   enum argus_field field, const char *line,
                                                   int deadline_s, argus_error_t *err);

#endif /* ARGUS_EPILOG_ACCOUNTING_H */
