/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin knows of the step it runs in, and the text of the marker
 * and of step.conf (include/argus/step.h).
 *
 * The job's environment is the user's: ids, counts and the user's name come
 * from Slurm and the password database, what is left is checked.
 */
#ifndef ARGUS_SPANK_FACTS_H
#define ARGUS_SPANK_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "analyzer/util/error.h"
#include "spank/keys.h"

struct argus_facts {
    /* From Slurm, set by the caller. */
    uint32_t slurm_job; /* this component's id */
    uint32_t slurm_step;
    uint32_t array_job, array_task; /* array_task: UINT32_MAX - 1 when the job is no array */
    uint32_t nodeid, nnodes, ntasks, local_tasks;
    uid_t uid;
    gid_t gid;
    const char *slurm_version;
    const char *node;       /* this node's name; NULL if unknown */
    const char *const *env; /* the job's environment, valid only during the call */
    pid_t owner;            /* slurmstepd */

    /* Found by argus_facts_complete(). */
    char job[32]; /* "12" or "12+1" */
    char leader[16];
    char step[16];
    char het[12];
    char user[64];
    char node_name[256];
    char spool[512];
    char dir[1024];
    char partition[128], account[128];
    unsigned restart;
    mode_t umask_bits;
    bool lazy; /* batch or interactive step: only speak when there is data */
    int64_t started;
};

#define ARGUS_STEP_BATCH 0xfffffffbu
#define ARGUS_STEP_EXTERN 0xfffffffcu
#define ARGUS_STEP_INTERACTIVE 0xfffffffau
#define ARGUS_NO_ARRAY 0xfffffffeu

/* A variable of a job's environment; NULL if it is not there. */
const char *argus_facts_env(const char *const *env, const char *name);

/* Does the step have GPUs, as far as its environment tells? */
bool argus_facts_gpus(const struct argus_facts *f);

/* Names only: partition, account, user.  Enough for only= and not=. */
void argus_facts_names(struct argus_facts *f);

/* Everything else; fails when there is no usable directory or node name. */
int argus_facts_complete(struct argus_facts *f, const struct argus_keys *keys, argus_error_t *err);

/* The text, in a buffer that the caller frees. */
char *argus_facts_text(const struct argus_facts *f, const struct argus_keys *keys,
                       argus_error_t *err);

/*
 * The text of a step whose job turned out to be restarted: `restart` and
 * `dir` in it are replaced.  Freed by the caller; NULL if there is no memory.
 */
char *argus_facts_restarted(const char *text, unsigned restart);

/*
 * Index of `name` in a node list as Slurm writes it ("a[1-4,7],b"); -1 when
 * it is not there or the list is of a form not understood here.
 */
long argus_facts_node_index(const char *list, const char *name);

#endif /* ARGUS_SPANK_FACTS_H */
