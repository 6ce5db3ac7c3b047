/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that plays Slurm for the plugin: it exports what SPANK offers,
 * loads the plugin and calls its hooks in Slurm's order and identities.  One
 * step at a time, state in `host`.
 */
#ifndef ARGUS_SPANK_TEST_HOST_H
#define ARGUS_SPANK_TEST_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#define HOST_ENV_MAX 128
#define HOST_LOG_MAX 16384

struct host {
    spank_context_t context;
    uint32_t job, step, nodeid, nnodes, ntasks, local_tasks, array_id, array_task;
    uid_t uid;
    gid_t gid;
    gid_t groups[4];
    int ngroups;
    char *env[HOST_ENV_MAX];
    int task;                /* S_TASK_ID */
    char said[HOST_LOG_MAX]; /* what srun shows: slurm_spank_log, slurm_error */
    char log[HOST_LOG_MAX];  /* what slurmd.log shows */
    struct spank_option *option;
    int options; /* registrations */
    int lines;   /* how often the plugin is listed, 1 */
    int argc;    /* plugstack.conf arguments */
    char *argv[16];
    bool chroot_away; /* a container plugin before us changes root in task_init */
    char copy[128];   /* a second copy of the plugin, listed last; "": none */
    int copies;
    char root[64]; /* a directory of the test */
    char spool[128];
};

extern struct host host;

/* A step of job 77 with 2 tasks on this node; traced only if asked for. */
void host_setup(void);
void host_teardown(void);
/* A plugstack.conf argument. */
void host_arg(const char *format, ...) __attribute__((format(printf, 1, 2)));
void host_setenv(const char *name, const char *value);

/* Copies a file of the build directory spank/ below `root`; its path in `to`. */
void host_copy(const char *name, char *to, size_t size);
void host_load(void);
void host_init(void);
/* The option's callback; NULL is an option without argument. */
int host_option(const char *argument);
void host_post_opt(void);
void host_local_user_init(void);
/* As Slurm does: ruid 0, euid the user. */
void host_user_init(void);
/* The same in a clone that shares memory, as contain_spank does. */
void host_user_init_contained(void);
/* task_init in a forked child that is the user; its environment comes back. */
void host_task(int task, char *env, size_t size);
/* task_init in this process, for timing. */
void host_task_here(int task);
void host_task_exit(int task);
void host_task_exit_contained(int task);
void host_exit(void);
void host_unload(void);

/* load, init, option (unless NULL), post_opt, user_init. */
void host_start(const char *argument);
/* task_exit of all, exit, unload. */
void host_stop(void);

/* The value in a text of NAME=VALUE lines; NULL. In a static buffer. */
const char *host_value(const char *text, const char *name);
/* Waits until the file is there and complete (ends with "end=\n"), reads it. */
bool host_read_report(const char *path, char *text, size_t size);
bool host_exists(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool host_gone(pid_t pid, int ms);
pid_t host_recorder_pid(void);
int host_open_files(void);

#endif /* ARGUS_SPANK_TEST_HOST_H */
