/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node still has to do for jobs that are over.
 *
 * The plugin leaves markers in <spool>/jobs/<job>/ (include/argus/step.h).
 * When the job is over, that directory is renamed to <spool>/queue/<job>.<ns>/
 * in one step; it is removed when the job's data is complete and its verdict
 * posted.  Whoever works on an entry holds its lock; an entry that nobody
 * holds is unfinished and `argus sweep` takes it up.  All of it belongs to
 * root, so root may believe it.
 */
#ifndef ARGUS_EPILOG_QUEUE_H
#define ARGUS_EPILOG_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/util/error.h"
#include "analyzer/util/stepconf.h"

#define ARGUS_SPOOL_DEFAULT "/run/argus"
#define ARGUS_QUEUE_NAME_MAX 96
#define ARGUS_QUEUE_STEPS_MAX 4096

struct argus_queue {
    char path[512]; /* the spool directory */
    int spool;      /* descriptors of the spool, of jobs/ (-1: none) and of queue/ */
    int jobs;
    int queue;
};

struct argus_queue_entry {
    char name[ARGUS_QUEUE_NAME_MAX];
    int lock;                     /* descriptor that holds the lock */
    struct argus_stepconf *steps; /* at least one */
    unsigned char *reused;        /* of each: a later run of the job has its spool; NULL: none */
    size_t n_steps;
};

/*
 * Open the spool, "%n" in it being `node`.  Directories that others than this
 * process's user could have written are refused.  1 opened, 0 there is none,
 * -1 error.
 */
int argus_queue_open(struct argus_queue *q, const char *spool, const char *node,
                     argus_error_t *err);
void argus_queue_close(struct argus_queue *q);

/* Move the markers of Slurm's job `id` into the queue.  1 moved (`name` is the
 * entry), 0 the job has none, -1 error. */
int argus_queue_take(struct argus_queue *q, uint64_t id, char name[ARGUS_QUEUE_NAME_MAX],
                     argus_error_t *err);

/* The same for a name below jobs/. */
int argus_queue_take_name(struct argus_queue *q, const char *job, char name[ARGUS_QUEUE_NAME_MAX],
                          argus_error_t *err);

/* Lock an entry and read its markers.  1 locked, 0 gone or somebody else holds it, -1 error (an
 * entry without a readable marker). */
int argus_queue_lock(struct argus_queue *q, const char *name, struct argus_queue_entry *entry,
                     argus_error_t *err);
void argus_queue_unlock(struct argus_queue_entry *entry);

/* Remove an entry that is locked. */
int argus_queue_remove(struct argus_queue *q, struct argus_queue_entry *entry, argus_error_t *err);

/* Count an attempt, on disk before it begins: how often the entry has been worked on with it. */
int argus_queue_attempt(struct argus_queue *q, const struct argus_queue_entry *entry);

/* Take back the attempt that was counted last. */
void argus_queue_excuse(struct argus_queue *q, const struct argus_queue_entry *entry);

/* Seconds since the entry of this name was queued; 0 if the name does not say. */
int64_t argus_queue_age(const char *name);

/* Names of all entries, or of all jobs that still have markers; sorted; *names is malloc'd.  The
 * number, or -1. */
long argus_queue_list(struct argus_queue *q, char (**names)[ARGUS_QUEUE_NAME_MAX],
                      argus_error_t *err);
long argus_queue_list_jobs(struct argus_queue *q, char (**names)[ARGUS_QUEUE_NAME_MAX],
                           argus_error_t *err);

#endif /* ARGUS_EPILOG_QUEUE_H */
