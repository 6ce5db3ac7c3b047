/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes the verdicts in accounting blame, how often, with whom, and
 * whether jobs ran well there since.  Nothing else is kept: what accounting
 * forgets, the history forgets.
 */
#ifndef ARGUS_EPILOG_HISTORY_H
#define ARGUS_EPILOG_HISTORY_H

#include "analyzer/epilog/jobs.h"
#include "analyzer/util/hostlist.h"
#include "analyzer/verdict/comment.h"

struct argus_blame {
    char job[32], user[64];
    struct argus_comment comment;
    int64_t end; /* s */
};

struct argus_node_history {
    char *name;
    struct argus_blame *blames; /* in order of time */
    size_t n_blames;
    int64_t last_ok; /* end of the last traced job on it that blamed others or none */
    int ok_since;    /* number of such jobs after the last blame */
    struct argus_hostlist partners; /* other nodes of the jobs, the most frequent first */
    int *partner_jobs;
};

typedef struct argus_history argus_history_t;

argus_history_t *argus_history_create(void);
void argus_history_destroy(argus_history_t *h);
/* An argus_job_f; `arg` is the history.  Jobs without a verdict do not count. */
int argus_history_add(const struct argus_job *job, void *arg);
/* After the last job.  -1: memory was short at some time. */
int argus_history_digest(argus_history_t *h, argus_error_t *err);
/* The most blamed first. */
const struct argus_node_history *argus_history_node(const argus_history_t *h, size_t i);
size_t argus_history_nodes(const argus_history_t *h);
size_t argus_history_jobs(const argus_history_t *h);

double argus_history_lost(const struct argus_node_history *node); /* GPU-hours */
int argus_history_users(const struct argus_node_history *node);

#endif /* ARGUS_EPILOG_HISTORY_H */
