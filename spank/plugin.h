/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's own interfaces: dispatch.c holds the symbols that Slurm calls
 * and hands over to one file per context.
 */
#ifndef ARGUS_SPANK_PLUGIN_H
#define ARGUS_SPANK_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "spank/keys.h"

/* The same in all contexts of one process; the plugin may be listed twice. */
struct argus_plugin {
    bool initialised;
    bool active;            /* in slurmstepd, and the first copy there */
    bool local;             /* in srun */
    struct argus_keys site; /* plugstack.conf over the defaults */
    struct argus_keys keys; /* --argus over that */
    struct argus_request request;
};

extern struct argus_plugin argus_plugin;

/* srun, sbatch, salloc. */
void argus_local_say(const char *line);

/* srun: remembers the step; at the end, and if asked for, three lines about it on stderr. */
void argus_local_user_init(spank_t sp);
void argus_local_exit(void);

/* slurmstepd. */
void argus_remote_say(const char *line);
void argus_remote_init_post_opt(spank_t sp);
void argus_remote_user_init(spank_t sp);
void argus_remote_task_init(spank_t sp);
void argus_remote_task_exit(spank_t sp);
void argus_remote_exit(spank_t sp);

/* The environment of one task, called in the task as its user. */
struct argus_taskenv {
    const struct argus_keys *keys;
    const char *spool; /* the step's */
    const char *dir;
    const char *job;
    const char *step;
    const char *node;
    bool speak; /* tell the user why this node is not traced */
};

/* Sets it, or says why not and leaves a line in the spool. */
void argus_taskenv_set(spank_t sp, const struct argus_taskenv *t);

/* Takes away what an outer, traced step left in the environment. */
void argus_taskenv_clear(spank_t sp, const struct argus_keys *keys);

#endif /* ARGUS_SPANK_PLUGIN_H */
