/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs as accounting has them, read through sacct.
 *
 * A working directory and a comment may hold any byte, and come from users;
 * records are parted by a random word that nobody can guess beforehand, so
 * that no text in one job's record can pass for another job's.
 */
#ifndef ARGUS_EPILOG_JOBS_H
#define ARGUS_EPILOG_JOBS_H

#include <stdint.h>
#include <sys/types.h>

#include "analyzer/epilog/accounting.h"

struct argus_job {
    const char *id;  /* as people write it: "4711", "4700_12", "4711+1" */
    const char *raw; /* digits */
    const char *user;
    const char *nodes; /* as Slurm writes them; may be "None assigned" */
    const char *workdir;
    const char *admin_comment, *system_comment, *comment;
    uid_t uid;
    gid_t gid;
    int64_t start, end; /* s; 0: unknown, not yet */
};

/* Called for each job; what it gets lives until it returns.  Non-zero stops. */
typedef int argus_job_f(const struct argus_job *job, void *arg);

/*
 * Jobs that ended or ran since `since` (as sacct's -S takes it), of all users
 * that the caller may see; or, with `job` not NULL, this one alone.
 */
int argus_jobs_each(const struct argus_slurm *slurm, const char *since, const char *job,
                    argus_job_f *each, void *arg, argus_error_t *err);

/* Our line in one of the job's comments, malloc'd; NULL: none. */
char *argus_job_line(const struct argus_job *job);

/* Fill in what accounting_post() wants to know. */
void argus_job_target(const struct argus_job *job, struct argus_target *target);

#endif /* ARGUS_EPILOG_JOBS_H */
