/* SPDX-License-Identifier: Apache-2.0 */
/* Inside `argus run`: shared by cmd_run.c and the files run_*.c. */
#ifndef ARGUS_CLI_RUN_H
#define ARGUS_CLI_RUN_H

#include <limits.h>
#include <sys/types.h>

#include "analyzer/util/stepconf.h"

#define ARGUS_RUN_SETTINGS 32

#define ARGUS_RUN_SPOOLS "/dev/shm"
#define ARGUS_RUN_PREFIX "argus-run-" /* then the process id, a point, six letters */

struct launch {
    int n, per_node, nodes;
    const char *settings[ARGUS_RUN_SETTINGS]; /* "key=value" of step.conf */
    int n_settings;
    int report, quiet;
    int off; /* nothing is made, nothing is recorded */
    char dir[PATH_MAX];
    char spool[64];
    char recorder[PATH_MAX], collector[PATH_MAX];
    char host[64];
    char port[16];
    pid_t *ranks;
    pid_t *recorders;
    int started;
    int no_command; /* it cannot be executed */
    char **command;
    struct argus_stepconf conf; /* of node 0 */
};

/* All tell what is wrong on stderr themselves.  A "key=value", which must live as long as `l`: */
int argus_run_add_setting(struct launch *l, const char *key_value);
/* What the settings say, before anything is made. */
int argus_run_check_settings(struct launch *l);
/* Of --dir: can the name be one? */
int argus_run_check_name(const char *dir);
/* argus-record and the collector: */
int argus_run_find_parts(struct launch *l);
int argus_run_make_directory(struct launch *l, const char *dir);
/* Refuses a directory that holds an earlier run: two jobs' ranks would mix. */
int argus_run_check_empty(const struct launch *l);
void argus_run_free_port(char *out, size_t size);
void argus_run_node_name(const struct launch *l, int node, char *out, size_t size);
void argus_run_node_spool(const struct launch *l, int node, char *out, size_t size);
int argus_run_local_tasks(const struct launch *l, int node);
/* Of this process, which becomes a rank. */
void argus_run_set_environment(const struct launch *l, int rank);
/* Each with its step.conf; l->conf is node 0's, parsed. */
int argus_run_make_spools(struct launch *l);
void argus_run_remove_spools(const struct launch *l);
void argus_run_remove_spool(const char *path); /* one node's */
/* The directory `path`, if it is ours and nobody holds it; closing it lets go.  -1: no. */
int argus_run_lock(const char *path);
/* What killed runs of this user left; `recorder` drains rings with data in them. */
void argus_run_remove_stale(const char *recorder);

#endif /* ARGUS_CLI_RUN_H */
