/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run a program with an argument vector (never a shell), a given environment,
 * a time limit and bounded output.
 */
#ifndef ARGUS_EPILOG_SPAWN_H
#define ARGUS_EPILOG_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "analyzer/util/error.h"

/* How long a killed process may take to be gone. */
#define ARGUS_SPAWN_KILLED_S 5

#define ARGUS_SPAWN_PATH "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/opt/slurm/bin"

/*
 * Variables of a clean environment: PATH, LC_ALL=C, TZ=UTC, HOME, and SLURM_CONF
 * where `slurm_conf` is not NULL.  Freed by argus_spawn_env_free(); NULL when
 * memory is short.
 */
char **argus_spawn_env(const char *path, const char *slurm_conf, const char *home,
                       const char *user);
void argus_spawn_env_free(char **env);

/*
 * Wait for argv[0] (found through `path` when it has no '/') at most
 * `timeout_s` seconds; then its process group is killed, and left behind if it
 * does not die of that (a dead file system holds it).  *output gets what it
 * wrote on stdout, at most `max` bytes and a NUL (the rest is read and thrown
 * away); the caller frees it.  0 if it exited with status 0; otherwise -1 and
 * the error holds its first line on stderr.  NULL unless it exited by itself.
 */
int argus_spawn_capture(char *const argv[], const char *path, char *const env[], int timeout_s,
                        size_t max, char **output, argus_error_t *err);

/* Wait for a child at most `timeout_s` seconds.  0 it is gone, -1 not yet. */
int argus_spawn_reap(pid_t pid, int timeout_s, int *status);

#endif /* ARGUS_EPILOG_SPAWN_H */
