/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of the worker that runs as the job's user: everything here opens
 * paths that the user may have made, none of it ever runs as root.
 *
 * It talks to the root half over a SOCK_SEQPACKET socket, one message each:
 *   "D"         the job's data of this node is complete, .done/<node> is there
 *   "V <line>"  the verdict's comment; root answers "P" (posted) or "L" (later)
 *   "F"         finished, the entry may go
 *   "E <text>"  what went wrong, for the log; the entry stays
 * Root believes none of it before it has checked it.
 */
#ifndef ARGUS_EPILOG_USER_H
#define ARGUS_EPILOG_USER_H

#include "analyzer/epilog/queue.h"
#include "analyzer/util/hostlist.h"

#define ARGUS_MESSAGE_MAX 600

struct argus_work {
    const struct argus_queue_entry *entry;
    const char *spool;   /* expanded */
    const char *analyze; /* path of argus */
    const char *record;  /* path of argus-record */
    const char *slurm_conf;
    int analyze_s; /* longest time of an analysis */
    int conclude;  /* 1: only analyse and have it posted, whichever node this is */
    int socket;    /* to the root half; -1: nobody listens */
};

/* The whole work of one node on one job.  The exit status of the process. */
int argus_user_work(const struct argus_work *work);

/* ---- its parts ---- */

/* Have rings left in the step's spool written out, then empty the spool.
 * 0, or -1 when data is left. */
int argus_user_drain(const struct argus_work *work, const struct argus_stepconf *step,
                     argus_error_t *err);

/* Create <dir>/.done/<node>.  1 done, 0 the job has no directory: nobody had
 * anything to write, -1 error. */
int argus_user_done(const char *dir, const char *node, argus_error_t *err);

/* Nodes that have or had a step of this job under argus: those of our markers
 * and those that <dir>/step-N/step.json name.  In the order of the job's list. */
int argus_user_nodes(const struct argus_work *work, struct argus_hostlist *nodes,
                     argus_error_t *err);

/*
 * The directory of the job's last run: step->dir or, of a job that was requeued, <step->dir>-rN.
 * Data of an earlier run than the one that began at step->started does not count.  1 found, with
 * the count of restarts, 0 there is none.
 */
int argus_user_last_run(const struct argus_stepconf *step, char *dir, size_t size, int *restart);

/* Wait until every node has its .done, at most deadline_s; `missing` gets the others. */
void argus_user_wait(const char *dir, const struct argus_hostlist *nodes, int deadline_s,
                     struct argus_hostlist *missing);

/* 1 we hold <dir>/.analysis now, 0 another node does, -1 error: a process of this node holds it,
 * perhaps one that an earlier attempt had to leave behind. */
int argus_user_lock(const char *dir, const char *node, argus_error_t *err);
void argus_user_unlock(const char *dir);

/* Small files of the job directory, written whole: <dir>/<name>. */
int argus_user_note(const char *dir, const char *name, const char *text, argus_error_t *err);
/* Its first line without LF; 0 and "" when it is not there or no regular file. */
int argus_user_noted(const char *dir, const char *name, char *line, size_t size);

#endif /* ARGUS_EPILOG_USER_H */
