/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the epilog may do by itself about a node that verdicts keep blaming:
 * drain it.  Off unless the administrator names a policy file:
 *
 *   drain_after=3        jobs that blamed the node and no other, with none that went well since
 *   users=2              of so many users at least: one user's timelines alone drain nothing
 *   days=14              in so many days
 *   severity=critical    counted from this severity on
 *   verdicts=compute-straggler,slow-link
 */
#ifndef ARGUS_EPILOG_POLICY_H
#define ARGUS_EPILOG_POLICY_H

#include "analyzer/epilog/accounting.h"
#include "analyzer/epilog/history.h"

struct argus_policy {
    int drain_after; /* 0: never */
    int users;
    int days;
    enum argus_severity severity;
    unsigned verdicts; /* bit of enum argus_verdict_kind */
};

/* Reads a file that only `owner` could have written; a bad line is an error. */
int argus_policy_read(const char *path, uid_t owner, struct argus_policy *policy,
                      argus_error_t *err);

/* Is it time to drain this node? */
int argus_policy_is_due(const struct argus_policy *policy, const struct argus_node_history *node);

/*
 * After `line` was posted for `job`: look up the history of the one node that it blames
 * and drain the node if it is due and not drained or down already.  1 drained
 * (`node` is its name), 0 nothing to do, -1 error.
 */
int argus_policy_apply(const struct argus_policy *policy, const struct argus_slurm *slurm,
                       const char *job, const char *line, char node[ARGUS_COMMENT_NAME],
                       argus_error_t *err);

#endif /* ARGUS_EPILOG_POLICY_H */
