/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/epilog/spawn.h"

#define ENV_MAX 8

static int env_add(char **env, const char *name, const char *value)
{
    size_t i = 0;

    while (env[i])
        i++;
    if (i >= ENV_MAX || asprintf(&env[i], "%s=%s", name, value) < 0) {
        env[i] = NULL;
        return -1;
    }
    return 0;
}

char **argus_spawn_env(const char *path, const char *slurm_conf, const char *home, const char *user)
{
    char **env = calloc(ENV_MAX + 1, sizeof(*env));

    if (!env)
        return NULL;
    /* sacct prints times as seconds since 1970 with this format. */
    if (env_add(env, "PATH", path) < 0 || env_add(env, "LC_ALL", "C") < 0 ||
        env_add(env, "TZ", "UTC") < 0 || env_add(env, "SLURM_TIME_FORMAT", "%s") < 0 ||
        env_add(env, "HOME", home) < 0 || (user && env_add(env, "USER", user) < 0) ||
        (slurm_conf && env_add(env, "SLURM_CONF", slurm_conf) < 0)) {
        argus_spawn_env_free(env);
        return NULL;
    }
    return env;
}

void argus_spawn_env_free(char **env)
{
    if (!env)
        return;
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    free(env);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* "sacct" -> "/usr/bin/sacct": by our own path list, not by this process's PATH. */
static int find(const char *name, const char *path, char *found, size_t size)
{
    const char *end;

    if (strchr(name, '/'))
        return snprintf(found, size, "%s", name) < (int)size ? 0 : -1;
    for (; *path; path = *end ? end + 1 : end) {
        end = strchrnul(path, ':');
        if (path[0] == '/' &&
            snprintf(found, size, "%.*s/%s", (int)(end - path), path, name) < (int)size &&
            access(found, X_OK) == 0)
            return 0;
    }
    return -1;
}

struct sink {
    int fd;
    char *data;
    size_t used, max;
};

/* 0 at the end of the data. */
static int take(struct sink *s)
{
    char spill[4096];
    size_t room = s->max - s->used;
    ssize_t n = read(s->fd, room ? s->data + s->used : spill, room ? room : sizeof(spill));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 1;
    if (n <= 0) {
        close(s->fd);
        s->fd = -1;
        return 0;
    }
    if (room)
        s->used += (size_t)n;
    return 1;
}

/* Read both until they end; -1 when time is over. */
static int collect(struct sink sinks[2], int64_t deadline)
{
    while (sinks[0].fd >= 0 || sinks[1].fd >= 0) {
        struct pollfd p[2] = {{sinks[0].fd, POLLIN, 0}, {sinks[1].fd, POLLIN, 0}};
        int64_t left = deadline - now_ms();

        if (left <= 0)
            return -1;
        if (poll(p, 2, (int)left) < 0 && errno != EINTR)
            return -1;
        for (int i = 0; i < 2; i++) {
            if (p[i].revents)
                take(&sinks[i]);
        }
    }
    return 0;
}

/* The exit status; -1 when time is over. */
static int reap(pid_t pid, int64_t deadline, int *status)
{
    const struct timespec pause = {0, 5000000};

    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);

        if (got == pid || (got < 0 && errno != EINTR))
            return 0;
        if (now_ms() >= deadline)
            return -1;
        nanosleep(&pause, NULL);
    }
}

int argus_spawn_reap(pid_t pid, int timeout_s, int *status)
{
    return reap(pid, now_ms() + (int64_t)timeout_s * 1000, status);
}

static int spawn(pid_t *pid, const char *file, char *const argv[], char *const env[], int out,
                 int errors)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t all, none;
    int rc;

    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_adddup2(&files, errors, 2);
    rc = posix_spawn(pid, file, &files, &attr, argv, env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return rc;
}

static int pipe_above_2(int fd[2])
{
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        int high = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);

        if (high < 0)
            return -1;
        close(fd[i]);
        fd[i] = high;
    }
    return 0;
}

int argus_spawn_capture(char *const argv[], const char *path, char *const env[], int timeout_s,
                        size_t max, char **output, argus_error_t *err)
{
    int64_t deadline = now_ms() + (int64_t)timeout_s * 1000;
    int out[2] = {-1, -1}, errors[2] = {-1, -1}, status = 0, rc = -1;
    char file[4096], message[256];
    struct sink sinks[2] = {{-1, NULL, 0, max}, {-1, message, 0, sizeof(message) - 1}};
    pid_t pid;
    int e;

    *output = NULL;
    if (find(argv[0], path, file, sizeof(file)) < 0)
        return argus_error(err, "%s: not found in %s", argv[0], path);
    sinks[0].data = malloc(max + 1);
    if (!sinks[0].data)
        return argus_error(err, "%s: out of memory", argv[0]);
    if (pipe_above_2(out) < 0 || pipe_above_2(errors) < 0) {
        argus_error(err, "%s: pipe: %s", argv[0], strerror(errno));
        goto out;
    }
    e = spawn(&pid, file, argv, env, out[1], errors[1]);
    if (e) {
        argus_error(err, "%s: %s", file, strerror(e));
        goto out;
    }
    close(out[1]);
    close(errors[1]);
    sinks[0].fd = out[0];
    sinks[1].fd = errors[0];
    out[0] = out[1] = errors[0] = errors[1] = -1;
    if (collect(sinks, deadline) < 0 || reap(pid, deadline, &status) < 0) {
        kill(-pid, SIGKILL);
        if (argus_spawn_reap(pid, ARGUS_SPAWN_KILLED_S, &status) < 0)
            argus_error(err, "%s: no end after %d s, and it cannot be killed", argv[0], timeout_s);
        else
            argus_error(err, "%s: no end after %d s", argv[0], timeout_s);
        goto out;
    }
    sinks[0].data[sinks[0].used] = '\0';
    message[sinks[1].used] = '\0';
    message[strcspn(message, "\n")] = '\0';
    if (WIFSIGNALED(status))
        argus_error(err, "%s: killed by signal %d", argv[0], WTERMSIG(status));
    else if (WEXITSTATUS(status))
        argus_error(err, "%s: exit status %d%s%s", argv[0], WEXITSTATUS(status),
                    message[0] ? ": " : "", message);
    else
        rc = 0;
    if (WIFEXITED(status)) {
        *output = sinks[0].data;
        sinks[0].data = NULL;
    }
out:
    for (int i = 0; i < 2; i++) {
        if (out[i] >= 0)
            close(out[i]);
        if (errors[i] >= 0)
            close(errors[i]);
        if (sinks[i].fd >= 0)
            close(sinks[i].fd);
    }
    free(sinks[0].data);
    return rc;
}
