/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the job directory and of the step's spool, touched as the user. */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/epilog/spawn.h"
#include "analyzer/epilog/user.h"
#include "argus/step.h"

#define LOCK_DIR ".analysis"
#define LOCK_BY "by"
/* A lock of another node, whose processes we cannot see, is given up after this. */
#define LOCK_STALE_S 7200
#define RING_SUFFIX ".ring"
#define EMPTY_ROUNDS_MAX 10000

static int is_ring(const char *name)
{
    size_t n = strlen(name), suffix = strlen(RING_SUFFIX);

    return n > suffix && !strcmp(name + n - suffix, RING_SUFFIX);
}

/* Open a directory of the user's own, whatever mode it was given. */
static int open_to_empty(int dirfd, const char *path)
{
    const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, path, O_RDONLY | flags), handle;
    char self[64];

    if (fd < 0 && errno == EACCES) {
        /* By its handle: the name may be a link by now. */
        handle = openat(dirfd, path, O_PATH | flags);
        if (handle < 0)
            return -1;
        snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
        if (chmod(self, 0700) == 0)
            fd = open(self, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(handle);
    } else if (fd >= 0) {
        fchmod(fd, 0700);
    }
    return fd;
}

/* Move what is in the directory `from` of `top` into `top`, then remove `from`. */
static int flatten(int top, const char *from, unsigned long *serial)
{
    int fd = open_to_empty(top, from), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    char name[40];

    if (!d) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    while (rc == 0 && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            unlinkat(fd, e->d_name, 0) == 0 || unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
            continue;
        /* A directory without the write bit cannot be moved to another parent. */
        close(open_to_empty(fd, e->d_name));
        snprintf(name, sizeof(name), ".argus-%lu", ++*serial);
        rc = renameat(fd, e->d_name, top, name);
    }
    closedir(d);
    return rc == 0 ? unlinkat(top, from, AT_REMOVEDIR) : -1;
}

/*
 * Remove what is in a directory; its own name stays.  -1: something is left.
 * However deep a user nested directories in there, one descriptor of each
 * kind does: each round takes the depth down by one.
 */
static int empty_directory(const char *path)
{
    int fd = open_to_empty(AT_FDCWD, path), rc = 0, again = 1;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    unsigned long serial = 0;
    struct dirent *e;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return errno == ENOENT ? 0 : -1;
    }
    for (int round = 0; again && rc == 0 && round < EMPTY_ROUNDS_MAX; round++) {
        again = 0;
        rewinddir(d);
        while ((e = readdir(d))) {
            if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
                unlinkat(fd, e->d_name, 0) == 0)
                continue;
            again = 1;
            rc |= flatten(fd, e->d_name, &serial);
        }
    }
    closedir(d);
    return rc || again ? -1 : 0;
}

static int has_rings(const char *spool)
{
    int fd = open_to_empty(AT_FDCWD, spool), found = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (!found && (e = readdir(d)))
        found = is_ring(e->d_name);
    closedir(d);
    return found;
}

int argus_user_drain(const struct argus_work *work, const struct argus_stepconf *step,
                     argus_error_t *err)
{
    char *argv[] = {(char *)work->record, (char *)"--drain", NULL, NULL, NULL};
    char *spool = NULL, *output = NULL;
    char **env = NULL;
    int rc = -1;

    if (asprintf(&spool, "%s/%s.%s", work->spool, step->job, step->step) < 0)
        return argus_error(err, "out of memory");
    if (has_rings(spool)) {
        env = argus_spawn_env(ARGUS_SPAWN_PATH, work->slurm_conf, "/", step->user);
        argv[2] = spool;
        argv[3] = (char *)step->dir;
        if (!env) {
            argus_error(err, "out of memory");
            goto out;
        }
        if (argus_spawn_capture(argv, ARGUS_SPAWN_PATH, env, step->deadline_s + 30, 4096, &output,
                                err) < 0) {
            argus_error_prefix(err, "%s", spool);
            goto out;
        }
    }
    if (empty_directory(spool) < 0)
        argus_error(err, "%s: cannot be emptied", spool);
    else
        rc = 0;
out:
    free(output);
    argus_spawn_env_free(env);
    free(spool);
    return rc;
}

/* Write a file whole, by way of a temporary name. */
static int write_file(int dirfd, const char *name, const char *text)
{
    char temporary[300];
    size_t length = strlen(text);
    int fd, rc = -1, saved = 0;

    if (snprintf(temporary, sizeof(temporary), ".%s.%ld", name, (long)getpid()) >=
        (int)sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    unlinkat(dirfd, temporary, 0);
    fd = openat(dirfd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    if (write(fd, text, length) == (ssize_t)length && fsync(fd) == 0 &&
        renameat(dirfd, temporary, dirfd, name) == 0) {
        rc = 0;
    } else {
        saved = errno;
        unlinkat(dirfd, temporary, 0);
    }
    close(fd);
    if (rc < 0)
        errno = saved;
    return rc;
}

static int open_directory(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Open our directory `name` in the job directory, made if missing.  Something
 * else of that name is the user's doing and would keep his own verdict back
 * for as long as it is there: a file, FIFO or link goes, a closed directory
 * is opened.
 */
static int open_inner(int base, const char *name)
{
    int fd = -1;

    for (int attempt = 0; fd < 0 && attempt < 2; attempt++) {
        if (mkdirat(base, name, 0755) < 0 && errno != EEXIST)
            return -1;
        fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == EACCES)
            (void)!fchmodat(base, name, 0755, 0);
        else if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
            unlinkat(base, name, 0);
    }
    return fd;
}

/* Something that is no file stands where <dir>/<name> is to be: out of the way with it. */
static void set_aside(int dirfd, const char *name)
{
    char aside[300];

    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 ||
        snprintf(aside, sizeof(aside), ".%s.%ld.old", name, (long)getpid()) >= (int)sizeof(aside))
        return;
    (void)!renameat(dirfd, name, dirfd, aside);
}

int argus_user_done(const char *dir, const char *node, argus_error_t *err)
{
    int base = open_directory(dir), done = -1, rc = -1;

    if (base < 0 && errno == ENOENT)
        return 0;
    if (base < 0)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    done = open_inner(base, ARGUS_DONE_DIR);
    rc = done < 0 ? -1 : write_file(done, node, "");
    if (rc < 0 && done >= 0 && errno == EACCES && fchmod(done, 0755) == 0)
        rc = write_file(done, node, "");
    if (rc < 0 && done >= 0 && (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST)) {
        set_aside(done, node);
        rc = write_file(done, node, "");
    }
    if (rc == 0)
        rc = 1;
    else
        argus_error(err, "%s/%s/%s: %s", dir, ARGUS_DONE_DIR, node, strerror(errno));
    if (done >= 0)
        close(done);
    close(base);
    return rc;
}

int argus_user_note(const char *dir, const char *name, const char *text, argus_error_t *err)
{
    int base = open_directory(dir), rc;

    if (base < 0)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    rc = write_file(base, name, text);
    if (rc < 0)
        argus_error(err, "%s/%s: %s", dir, name, strerror(errno));
    close(base);
    return rc;
}

static ssize_t read_line(int dirfd, const char *name, char *line, size_t size)
{
    struct stat st;
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n = -1;

    line[0] = '\0';
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = read(fd, line, size - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return n;
}

int argus_user_noted(const char *dir, const char *name, char *line, size_t size)
{
    int base = open_directory(dir);
    ssize_t n;

    line[0] = '\0';
    if (base < 0)
        return 0;
    n = read_line(base, name, line, size);
    close(base);
    return n >= 0;
}

void argus_user_wait(const char *dir, const struct argus_hostlist *nodes, int deadline_s,
                     struct argus_hostlist *missing)
{
    unsigned char *here = calloc(nodes->n ? nodes->n : 1, 1);
    struct timespec start, now;
    long pause_ms = 50;
    size_t left = nodes->n;

    clock_gettime(CLOCK_MONOTONIC, &start);
    while (here) {
        int base = open_directory(dir);

        for (size_t i = 0; base >= 0 && i < nodes->n; i++) {
            char path[ARGUS_HOST_NAME_MAX + sizeof(ARGUS_DONE_DIR) + 2];
            struct stat st;

            if (here[i])
                continue;
            snprintf(path, sizeof(path), "%s/%s", ARGUS_DONE_DIR, nodes->names[i]);
            if (fstatat(base, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                here[i] = 1;
                left--;
            }
        }
        if (base >= 0)
            close(base);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!left || now.tv_sec - start.tv_sec >= deadline_s)
            break;
        nanosleep(&(struct timespec){pause_ms / 1000, pause_ms % 1000 * 1000000}, NULL);
        pause_ms = pause_ms < 4000 ? pause_ms * 3 / 2 : 5000;
    }
    for (size_t i = 0; i < nodes->n; i++) {
        if (!here || !here[i])
            argus_hostlist_add(missing, nodes->names[i]);
    }
    free(here);
}

/* Field 22 of /proc/PID/stat: with the process id it names one process for good; 0: it is gone. */
static unsigned long long start_of(long pid)
{
    unsigned long long start = 0;
    char path[64], line[1024], *p;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    if (read_line(AT_FDCWD, path, line, sizeof(line)) < 0)
        return 0;
    p = strrchr(line, ')');
    if (p && (!strncmp(p, ") Z", 3) || !strncmp(p, ") X", 3)))
        return 0;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p)
        start = strtoull(p, NULL, 10);
    return start;
}

enum holder { HOLDER_GONE, HOLDER_HERE, HOLDER_ELSEWHERE };

/* Who made the lock? */
static enum holder lock_holder(int lock, const char *node)
{
    char line[ARGUS_HOST_NAME_MAX + 64], by[ARGUS_HOST_NAME_MAX + 1];
    unsigned long long started;
    struct timespec now;
    struct stat st;
    long pid;

    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(lock, &st) < 0)
        return HOLDER_ELSEWHERE;
    if (read_line(lock, LOCK_BY, line, sizeof(line)) > 0 &&
        sscanf(line, "%255s %ld %llu", by, &pid, &started) == 3 && !strcmp(by, node))
        return start_of(pid) == started ? HOLDER_HERE : HOLDER_GONE;
    return now.tv_sec - st.st_mtim.tv_sec > LOCK_STALE_S ? HOLDER_GONE : HOLDER_ELSEWHERE;
}

static int lock_once(int base, const char *node)
{
    char by[ARGUS_HOST_NAME_MAX + 64];
    enum holder holder;
    int lock;

    if (mkdirat(base, LOCK_DIR, 0755) == 0) {
        lock = openat(base, LOCK_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        snprintf(by, sizeof(by), "%s %ld %llu\n", node, (long)getpid(), start_of((long)getpid()));
        if (lock >= 0) {
            write_file(lock, LOCK_BY, by);
            close(lock);
        }
        return 1;
    }
    if (errno != EEXIST)
        return -1;
    lock = openat(base, LOCK_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        unlinkat(base, LOCK_DIR, 0);
        errno = EAGAIN;
    }
    if (lock < 0)
        return -1;
    holder = lock_holder(lock, node);
    if (holder != HOLDER_GONE) {
        close(lock);
        errno = EBUSY;
        return holder == HOLDER_HERE ? -1 : 0;
    }
    unlinkat(lock, LOCK_BY, 0);
    close(lock);
    set_aside(base, LOCK_DIR);
    errno = EAGAIN;
    return -1;
}

int argus_user_lock(const char *dir, const char *node, argus_error_t *err)
{
    int base = open_directory(dir), rc;

    if (base < 0)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    rc = lock_once(base, node);
    if (rc < 0 && errno == EAGAIN)
        rc = lock_once(base, node);
    if (rc < 0)
        argus_error(err, "%s/%s: %s", dir, LOCK_DIR,
                    errno == EBUSY ? "a process of this node holds it" : strerror(errno));
    close(base);
    return rc;
}

void argus_user_unlock(const char *dir)
{
    int base = open_directory(dir), lock;

    if (base < 0)
        return;
    lock = openat(base, LOCK_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock >= 0) {
        unlinkat(lock, LOCK_BY, 0);
        close(lock);
    }
    unlinkat(base, LOCK_DIR, AT_REMOVEDIR);
    close(base);
}
