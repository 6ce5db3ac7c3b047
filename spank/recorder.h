/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder as a process: started as the job's user from slurmstepd, asked
 * to finish when the step is over, waited for no longer than allowed.
 *
 * Under SlurmdParameters=contain_spank the hook that starts it runs in a
 * short-lived clone of slurmstepd, so the recorder is nobody's child that
 * could wait for it, and the death of its parent means nothing.  A guard of
 * ours then stands between: it lives as long as slurmstepd and the recorder.
 */
#ifndef ARGUS_SPANK_RECORDER_H
#define ARGUS_SPANK_RECORDER_H

#include <stdbool.h>
#include <sys/types.h>

#include "analyzer/util/error.h"
#include "spank/drop.h"

struct argus_recorder {
    pid_t pid;                /* 0: none */
    int pidfd;                /* -1 on a kernel without */
    unsigned long long birth; /* start time of the process, guards against reuse of its id */
};

struct argus_recorder_start {
    const struct argus_identity *id;
    const char *program;
    const char *spool; /* the step's */
    const char *dir;   /* where its data will go, looked at first; NULL: not */
    mode_t mask;
    pid_t stepd; /* slurmstepd's process id */
};

/*
 * Returns when the program runs, or -1 when it cannot or the user may not
 * write `dir`.  A file system that does not answer within a tenth of a second
 * is the recorder's to wait for.
 */
int argus_recorder_start(struct argus_recorder *rec, const struct argus_recorder_start *start,
                         argus_error_t *err);

/*
 * SIGTERM, at most `wait_ms` for it to finish, then SIGKILL: what it had not
 * written stays in the rings for the epilog.  0: it finished, -1: it was
 * killed, or had not even then gone.  Does nothing when there is none.
 */
int argus_recorder_stop(struct argus_recorder *rec, long wait_ms);

/*
 * Runs `work` in a child that is the user, in the directory `spool`, and
 * waits at most `wait_ms`.  `work` must be async-signal-safe; its result is
 * the exit status.  -1: not done.
 */
int argus_recorder_as_user(const struct argus_identity *id, const char *spool,
                           int (*work)(int dirfd), long wait_ms);

/* May the user make `dir`, or write in it?  0 he may, or nobody could say in time; else errno. */
int argus_recorder_check_dir(const struct argus_identity *id, const char *spool, const char *dir);

#endif /* ARGUS_SPANK_RECORDER_H */
