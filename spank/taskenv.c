/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <argus/step.h>

#include "spank/plugin.h"

#define COLLECTOR_NAME "libargus-collector.so"
#define VALUE_MAX 4096

/* A source is started by the library that a variable names. */
static const struct {
    const char *source;
    const char *variable;
} injections[] = {
    {"cupti", "CUDA_INJECTION64_PATH"},
    {"nccl", "NCCL_PROFILER_PLUGIN"},
    {"nvtx", "NVTX_INJECTION64_PATH"},
};

static const char *const own_variables[] = {
    "ARGUS_SPOOL", "ARGUS_DIR",        "ARGUS_JOB",  "ARGUS_STEP",    "ARGUS_RANK",
    "ARGUS_WORLD", "ARGUS_LOCAL_RANK", "ARGUS_NODE", "ARGUS_SOURCES",
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Did an outer step of ours set it (a batch script that is traced itself)? */
static bool is_ours(const char *value, const char *collector)
{
    const char *slash = strrchr(value, '/');

    return !strcmp(value, collector) || (slash && !strcmp(slash + 1, COLLECTOR_NAME));
}

/* The user's value, or false: not set, or one of ours. */
static bool users_own(spank_t sp, const char *variable, const char *collector)
{
    char value[VALUE_MAX];
    spank_err_t rc = spank_getenv(sp, variable, value, sizeof(value));

    if (rc == ESPANK_ENV_NOEXIST)
        return false;
    return rc != ESPANK_SUCCESS || !is_ours(value, collector);
}

/* One short line, appended in one write: several tasks do it at once. */
static void stand_down(const struct argus_taskenv *t, const char *rank, const char *source,
                       const char *reason)
{
    char path[1024], line[160];
    int fd, n;

    snprintf(path, sizeof(path), "%s/%s", t->spool, ARGUS_STANDDOWN_NAME);
    n = snprintf(line, sizeof(line), "rank=%s source=%s reason=%s\n", rank, source, reason);
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)n) != n)
        slurm_debug("argus: %s: short write", path);
    close(fd);
}

static void copy_var(spank_t sp, const char *from, const char *to, const char *missing, char *out,
                     size_t size)
{
    if (spank_getenv(sp, from, out, (int)size) != ESPANK_SUCCESS || !out[0] ||
        out[strspn(out, "0123456789")])
        snprintf(out, size, "%s", missing);
    spank_setenv(sp, to, out, 1);
}

/* Containers may hide either. */
static const char *invisible(const struct argus_taskenv *t)
{
    const char *collector = argus_keys_text(t->keys, ARGUS_KEY_COLLECTOR);

    if (access(collector, R_OK))
        return collector;
    if (access(t->spool, R_OK | W_OK | X_OK))
        return t->spool;
    return NULL;
}

void argus_taskenv_set(spank_t sp, const struct argus_taskenv *t)
{
    const char *collector = argus_keys_text(t->keys, ARGUS_KEY_COLLECTOR);
    const char *hidden = invisible(t);
    char rank[16], local[16], world[16];

    copy_var(sp, "SLURM_PROCID", "ARGUS_RANK", "0", rank, sizeof(rank));
    copy_var(sp, "SLURM_LOCALID", "ARGUS_LOCAL_RANK", "0", local, sizeof(local));
    copy_var(sp, "SLURM_NTASKS", "ARGUS_WORLD", "1", world, sizeof(world));
    if (hidden) {
        if (t->speak && !strcmp(local, "0"))
            slurm_spank_log("argus: %s: %s: not there as seen by the task; not traced", t->node,
                            hidden);
        stand_down(t, rank, "all", "not-visible");
        argus_taskenv_clear(sp, t->keys);
        return;
    }
    spank_setenv(sp, "ARGUS_SPOOL", t->spool, 1);
    spank_setenv(sp, "ARGUS_DIR", t->dir, 1);
    spank_setenv(sp, "ARGUS_JOB", t->job, 1);
    spank_setenv(sp, "ARGUS_STEP", t->step, 1);
    spank_setenv(sp, "ARGUS_NODE", t->node, 1);
    spank_setenv(sp, "ARGUS_SOURCES", argus_keys_text(t->keys, ARGUS_KEY_SOURCES), 1);
    for (size_t i = 0; i < COUNT(injections); i++) {
        const char *variable = injections[i].variable;

        if (users_own(sp, variable, collector)) {
            if (argus_keys_source(t->keys, injections[i].source)) {
                slurm_verbose("argus: %s is set by the user; %s stands down", variable,
                              injections[i].source);
                stand_down(t, rank, injections[i].source, "user-set");
            }
        } else if (argus_keys_source(t->keys, injections[i].source)) {
            spank_setenv(sp, variable, collector, 1);
        } else {
            spank_unsetenv(sp, variable);
        }
    }
}

void argus_taskenv_clear(spank_t sp, const struct argus_keys *keys)
{
    const char *collector = argus_keys_text(keys, ARGUS_KEY_COLLECTOR);

    for (size_t i = 0; i < COUNT(own_variables); i++)
        spank_unsetenv(sp, own_variables[i]);
    for (size_t i = 0; i < COUNT(injections); i++) {
        if (!users_own(sp, injections[i].variable, collector))
            spank_unsetenv(sp, injections[i].variable);
    }
}
