/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root half of the worker: takes an entry of the queue, has the user half
 * (user.h) do what touches the user's files, checks the one line it gives
 * back, and posts it.
 */
#ifndef ARGUS_EPILOG_WORKER_H
#define ARGUS_EPILOG_WORKER_H

#include "analyzer/epilog/accounting.h"
#include "analyzer/epilog/policy.h"
#include "analyzer/epilog/queue.h"

struct argus_worker {
    struct argus_queue *queue;
    struct argus_slurm slurm;
    const char *analyze, *record; /* programs */
    struct argus_policy policy;
    int memory_mb; /* address space of the user half; 0: no limit */
    int analyze_s; /* longest time of an analysis */
    int post_s;    /* how long posting is tried; the sweeper goes on */
    void (*log)(void *arg, int priority, const char *text);
    void *log_arg;
};

#define ARGUS_WORKER_DEFAULTS                                                                      \
    {                                                                                              \
        .memory_mb = 8192, .analyze_s = 1800, .post_s = 300                                        \
    }

/* Less for us, more for the job that runs on this node by now: nice, one
 * core, idle I/O, no core files. */
void argus_worker_be_modest(void);

/*
 * Work on one entry of the queue.  1 finished and removed, 0 something is left
 * for later or somebody else holds it.  Whatever went wrong is in the log.
 */
int argus_worker_run(const struct argus_worker *worker, const char *entry);

/*
 * Analyse and post a job of which only accounting tells, in the one step of
 * `entry`: for a management host.  1 finished (or there is nothing), 0 later.
 */
int argus_worker_conclude(const struct argus_worker *worker, const struct argus_queue_entry *entry);

#endif /* ARGUS_EPILOG_WORKER_H */
