/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an `argus run` that was killed left in /dev/shm.
 *
 * A run holds a lock on its spools' directory and has its process id in the
 * name: where both say that it is gone, and no recorder is at work there, what
 * is left in rings becomes timelines and the directory goes.  Ranks that
 * outlived their run are left alone; they lose their recorder, nothing else.
 */
#include <config.h>
#include <argus/record.h>
#include <argus/step.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/cli/run.h"

#define NODES_MAX 4096

int argus_run_lock(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -1;
}

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && !strcmp(text + n - m, end);
}

static int has_rings(const char *spool)
{
    DIR *d = opendir(spool);
    struct dirent *e;
    int found = 0;

    while (d && (e = readdir(d)) && !found)
        found = e->d_name[0] != '.' && ends_with(e->d_name, ARGUS_RING_SUFFIX);
    if (d)
        closedir(d);
    return found;
}

/* Its recorder, or one that drains what another left. */
static int is_at_work(const char *spool)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[PATH_MAX + 64];
    int fd, rc;

    snprintf(path, sizeof(path), "%s/" ARGUS_RECORD_PID_NAME, spool);
    fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT;
    rc = fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
    close(fd);
    return rc;
}

static void drain(const char *recorder, const char *spool)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl(recorder, "argus-record", "--drain", spool, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* Nodes are numbered from 0. */
static void clean(const char *recorder, const char *dir)
{
    char spool[PATH_MAX + 16];
    int node;

    for (node = 0; node < NODES_MAX; node++) {
        snprintf(spool, sizeof(spool), "%s/%d", dir, node);
        if (access(spool, F_OK) < 0)
            break;
        if (is_at_work(spool))
            return;
    }
    while (node-- > 0) {
        snprintf(spool, sizeof(spool), "%s/%d", dir, node);
        if (has_rings(spool))
            drain(recorder, spool);
        argus_run_remove_spool(spool);
    }
    rmdir(dir);
}

void argus_run_remove_stale(const char *recorder)
{
    static const char name[] = ARGUS_RUN_PREFIX;
    DIR *d = opendir(ARGUS_RUN_SPOOLS);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[PATH_MAX], *end;
        long pid;
        int fd;

        if (strncmp(e->d_name, name, sizeof(name) - 1))
            continue;
        pid = strtol(e->d_name + sizeof(name) - 1, &end, 10);
        if (pid <= 0 || *end != '.' || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof(path), ARGUS_RUN_SPOOLS "/%s", e->d_name);
        fd = argus_run_lock(path);
        if (fd < 0)
            continue;
        clean(recorder, path);
        close(fd);
    }
    if (d)
        closedir(d);
}
