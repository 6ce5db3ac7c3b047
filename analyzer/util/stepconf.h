/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.conf and markers (include/argus/step.h), parsed and checked.
 *
 * A marker lies where root alone can write; step.conf lies in the user's
 * directory and may hold anything.  Both are checked alike: sizes, the form
 * of every name and number, no control characters, no ".." in a path.  What
 * passes may be put into an argument vector or a file name of the user's.
 */
#ifndef ARGUS_UTIL_STEPCONF_H
#define ARGUS_UTIL_STEPCONF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "analyzer/util/error.h"

struct argus_stepconf {
    /* Strings are never NULL; "-" or "" where step.h says so. */
    const char *job;                    /* "4711", het: "4711+1" */
    const char *step;                   /* "0", "batch", "interactive" */
    const char *het;                    /* component or "-" */
    const char *array_job, *array_task; /* "-": no array task */
    const char *user, *cluster;
    const char *node;
    const char *nodes;      /* the job's, as Slurm writes it; "": unknown */
    const char *step_nodes; /* the step's; "": unknown */
    const char *dir;        /* absolute; "": unknown */
    const char *argus_version, *slurm_version;
    const char *default_, *mode, *sources, *links, *comment, *summary, *live;
    const char *lazy;   /* "on": the step is a batch script or a shell */
    uint64_t slurm_job; /* this component's own id; 0: the same as `job` */
    uid_t uid;
    gid_t gid;
    int restart;
    int nodeid, nnodes;
    int ntasks, local_tasks;
    int64_t started; /* ns */
    int window, keep_mb, ring_mb, min_steps, drain_s, deadline_s;
    double info, warn, critical, floor_ms;
    char *text; /* owns the strings above */
};

/*
 * Parse `length` bytes; `name` is for messages.  A missing key has its
 * default, an unknown one is skipped, a bad value or a key given twice is an
 * error.  argus_stepconf_clear() frees; it may be called after a failure.
 */
int argus_stepconf_parse(const char *text, size_t length, const char *name,
                         struct argus_stepconf *conf, argus_error_t *err);

/*
 * The same from a file, opened below directory `dirfd` (AT_FDCWD: the current
 * one) without following a link at its end: a regular file of at most
 * ARGUS_STEP_CONF_MAX bytes.  `owner` other than (uid_t)-1: it must belong to
 * this user and nobody else may write it.
 */
int argus_stepconf_read(int dirfd, const char *path, uid_t owner, struct argus_stepconf *conf,
                        argus_error_t *err);
void argus_stepconf_clear(struct argus_stepconf *conf);

#endif /* ARGUS_UTIL_STEPCONF_H */
