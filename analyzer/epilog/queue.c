/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/epilog/queue.h"
#include "argus/step.h"

#define QUEUE_DIR "queue"
#define LOCK_NAME ".lock"
#define TRIES_NAME ".tries"

/* Open a directory that nobody but us can have written; -1 with errno. */
static int open_own(int dirfd, const char *path)
{
    struct stat st;
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

static int expand(const char *spool, const char *node, char *out, size_t size)
{
    size_t used = 0;

    for (const char *p = spool; *p; p++) {
        size_t n = 1;

        if (p[0] == '%' && p[1] == 'n') {
            n = strlen(node);
            if (used + n < size)
                memcpy(out + used, node, n);
            p++;
        } else if (used + 1 < size) {
            out[used] = *p;
        }
        used += n;
        if (used >= size)
            return -1;
    }
    out[used] = '\0';
    return 0;
}

int argus_queue_open(struct argus_queue *q, const char *spool, const char *node, argus_error_t *err)
{
    *q = (struct argus_queue){.spool = -1, .jobs = -1, .queue = -1};
    if (spool[0] != '/' || expand(spool, node, q->path, sizeof(q->path)) < 0)
        return argus_error(err, "spool \"%.100s\": not an absolute path, or too long", spool);
    q->spool = open_own(AT_FDCWD, q->path);
    if (q->spool < 0) {
        if (errno == ENOENT)
            return 0;
        return argus_error(err, "%s: %s", q->path,
                           errno == EPERM ? "others could have written it" : strerror(errno));
    }
    q->jobs = open_own(q->spool, ARGUS_MARKER_DIR);
    if (q->jobs < 0 && errno != ENOENT) {
        argus_error(err, "%s/%s: %s", q->path, ARGUS_MARKER_DIR, strerror(errno));
        goto error;
    }
    q->queue = open_own(q->spool, QUEUE_DIR);
    if (q->queue < 0 && errno == ENOENT && q->jobs < 0) {
        argus_queue_close(q);
        return 0;
    }
    if (q->queue < 0 && errno == ENOENT) {
        mkdirat(q->spool, QUEUE_DIR, 0700);
        q->queue = open_own(q->spool, QUEUE_DIR);
    }
    if (q->queue < 0) {
        argus_error(err, "%s/%s: %s", q->path, QUEUE_DIR, strerror(errno));
        goto error;
    }
    return 1;
error:
    argus_queue_close(q);
    return -1;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void argus_queue_close(struct argus_queue *q)
{
    close_fd(&q->spool);
    close_fd(&q->jobs);
    close_fd(&q->queue);
}

/* The next name of a directory that does not begin with '.'; NULL at its end. */
static const char *next_name(DIR *d)
{
    const struct dirent *e;

    do
        e = readdir(d);
    while (e && e->d_name[0] == '.');
    return e ? e->d_name : NULL;
}

/* A stream over a directory below `dirfd`; NULL with errno. */
static DIR *list(int dirfd, const char *path)
{
    int fd = open_own(dirfd, path);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !d)
        close(fd);
    return d;
}

/* Is jobs/<name> a component of a heterogeneous job whose own id is `id`? */
static int is_component(const struct argus_queue *q, const char *name, uint64_t id)
{
    DIR *d = strchr(name, '+') ? list(q->jobs, name) : NULL;
    struct argus_stepconf conf;
    const char *step;
    int yes = 0;

    if (!d)
        return 0;
    while (!yes && (step = next_name(d))) {
        if (argus_stepconf_read(dirfd(d), step, geteuid(), &conf, NULL) < 0)
            continue;
        yes = conf.slurm_job == id;
        argus_stepconf_clear(&conf);
    }
    closedir(d);
    return yes;
}

/* The name below jobs/ that belongs to job `id`: "12", or "11+1" in a
 * heterogeneous job.  1 if there is one. */
static int find_job(const struct argus_queue *q, uint64_t id, char *found, size_t size)
{
    struct stat st;
    const char *name;
    DIR *d;

    snprintf(found, size, "%" PRIu64, id);
    if (fstatat(q->jobs, found, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    d = list(q->jobs, ".");
    if (!d)
        return 0;
    while ((name = next_name(d))) {
        if (strlen(name) < size && is_component(q, name, id)) {
            snprintf(found, size, "%s", name);
            closedir(d);
            return 1;
        }
    }
    closedir(d);
    return 0;
}

int argus_queue_take_name(struct argus_queue *q, const char *job, char name[ARGUS_QUEUE_NAME_MAX],
                          argus_error_t *err)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, ARGUS_QUEUE_NAME_MAX, "%.60s.%lld%09ld", job, (long long)now.tv_sec,
             now.tv_nsec);
    if (renameat(q->jobs, job, q->queue, name) < 0) {
        /* Two epilogs of one job: the other one has it. */
        if (errno == ENOENT)
            return 0;
        return argus_error(err, "%s/%s/%s: cannot queue: %s", q->path, ARGUS_MARKER_DIR, job,
                           strerror(errno));
    }
    return 1;
}

int argus_queue_take(struct argus_queue *q, uint64_t id, char name[ARGUS_QUEUE_NAME_MAX],
                     argus_error_t *err)
{
    char job[64];

    if (q->jobs < 0 || !find_job(q, id, job, sizeof(job)))
        return 0;
    return argus_queue_take_name(q, job, name, err);
}

static int compare_steps(const void *a, const void *b)
{
    const struct argus_stepconf *x = a, *y = b;

    return (x->started > y->started) - (x->started < y->started);
}

/* Does a later run of the job, requeued to this node, have a marker of the same step?  Spools go
 * by job and step: what lies there is that run's. */
static int is_reused(const struct argus_queue *q, const char *entry,
                     const struct argus_stepconf *conf)
{
    size_t prefix = strcspn(entry, ".") + 1;
    char path[2 * ARGUS_QUEUE_NAME_MAX];
    struct stat st;
    const char *name;
    int yes;
    DIR *d;

    snprintf(path, sizeof(path), "%.60s/%.32s", conf->job, conf->step);
    yes = q->jobs >= 0 && fstatat(q->jobs, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    d = yes ? NULL : list(q->queue, ".");
    while (d && !yes && (name = next_name(d))) {
        if (strncmp(name, entry, prefix) || strcmp(name, entry) <= 0)
            continue;
        snprintf(path, sizeof(path), "%.95s/%.32s", name, conf->step);
        yes = fstatat(q->queue, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    }
    if (d)
        closedir(d);
    return yes;
}

/* Read the markers of the entry open at `d`. */
static int load(const struct argus_queue *q, struct argus_queue_entry *entry, DIR *d,
                argus_error_t *err)
{
    argus_error_t why = {"no marker"};
    const char *step;

    entry->steps = calloc(ARGUS_QUEUE_STEPS_MAX, sizeof(*entry->steps));
    if (!entry->steps)
        return argus_error(err, "%s: out of memory", entry->name);
    while (entry->n_steps < ARGUS_QUEUE_STEPS_MAX && (step = next_name(d))) {
        struct argus_stepconf *conf = &entry->steps[entry->n_steps];

        if (argus_stepconf_read(dirfd(d), step, geteuid(), conf, &why) == 0)
            entry->n_steps++;
    }
    if (!entry->n_steps)
        return argus_error(err, "%s: %s", entry->name, why.text);
    qsort(entry->steps, entry->n_steps, sizeof(*entry->steps), compare_steps);
    entry->reused = calloc(entry->n_steps, 1);
    if (!entry->reused)
        return argus_error(err, "%s: out of memory", entry->name);
    for (size_t i = 0; i < entry->n_steps; i++)
        entry->reused[i] = (unsigned char)is_reused(q, entry->name, &entry->steps[i]);
    return 0;
}

int argus_queue_lock(struct argus_queue *q, const char *name, struct argus_queue_entry *entry,
                     argus_error_t *err)
{
    DIR *d;

    memset(entry, 0, sizeof(*entry));
    entry->lock = -1;
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    d = list(q->queue, name);
    if (!d)
        return errno == ENOENT ? 0 : argus_error(err, "%s: %s", name, strerror(errno));
    entry->lock = openat(dirfd(d), LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (entry->lock < 0 || flock(entry->lock, LOCK_EX | LOCK_NB) < 0) {
        int held = entry->lock >= 0 && errno == EWOULDBLOCK;

        if (!held)
            argus_error(err, "%s/%s: %s", name, LOCK_NAME, strerror(errno));
        closedir(d);
        argus_queue_unlock(entry);
        return held ? 0 : -1;
    }
    if (load(q, entry, d, err) < 0) {
        closedir(d);
        argus_queue_unlock(entry);
        return -1;
    }
    closedir(d);
    return 1;
}

void argus_queue_unlock(struct argus_queue_entry *entry)
{
    for (size_t i = 0; i < entry->n_steps; i++)
        argus_stepconf_clear(&entry->steps[i]);
    free(entry->steps);
    free(entry->reused);
    entry->steps = NULL;
    entry->reused = NULL;
    entry->n_steps = 0;
    close_fd(&entry->lock);
}

int argus_queue_remove(struct argus_queue *q, struct argus_queue_entry *entry, argus_error_t *err)
{
    DIR *d = list(q->queue, entry->name);
    const char *step;

    if (!d)
        return errno == ENOENT ? 0 : argus_error(err, "%s: %s", entry->name, strerror(errno));
    while ((step = next_name(d)))
        unlinkat(dirfd(d), step, 0);
    unlinkat(dirfd(d), TRIES_NAME, 0);
    unlinkat(dirfd(d), LOCK_NAME, 0);
    closedir(d);
    if (unlinkat(q->queue, entry->name, AT_REMOVEDIR) < 0)
        return argus_error(err, "%s: %s", entry->name, strerror(errno));
    return 0;
}

int argus_queue_attempt(struct argus_queue *q, const struct argus_queue_entry *entry)
{
    int dir = open_own(q->queue, entry->name), fd = -1;
    struct stat st;

    if (dir >= 0)
        fd = openat(dir, TRIES_NAME, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    /* Its length is the count. */
    if (fd < 0 || write(fd, "+", 1) != 1 || fstat(fd, &st) < 0)
        st.st_size = 1;
    if (fd >= 0) {
        fsync(fd);
        fsync(dir);
        close(fd);
    }
    close_fd(&dir);
    return (int)st.st_size;
}

void argus_queue_excuse(struct argus_queue *q, const struct argus_queue_entry *entry)
{
    int dir = open_own(q->queue, entry->name), fd = -1;
    struct stat st;

    if (dir >= 0)
        fd = openat(dir, TRIES_NAME, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
        (void)!ftruncate(fd, st.st_size - 1);
    close_fd(&fd);
    close_fd(&dir);
}

int64_t argus_queue_age(const char *name)
{
    const char *stamp = strrchr(name, '.');
    long long at = stamp ? strtoll(stamp + 1, NULL, 10) / 1000000000 : 0;

    return at > 0 ? (int64_t)time(NULL) - at : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static long list_names(int fd, const char *what, char (**names)[ARGUS_QUEUE_NAME_MAX],
                       argus_error_t *err)
{
    DIR *d = list(fd, ".");
    size_t n = 0, room = 0;
    const char *name;

    *names = NULL;
    if (!d)
        return argus_error(err, "%s: %s", what, strerror(errno));
    while ((name = next_name(d))) {
        if (strlen(name) >= ARGUS_QUEUE_NAME_MAX)
            continue;
        if (n == room) {
            size_t grown = room ? 2 * room : 16;
            char(*p)[ARGUS_QUEUE_NAME_MAX] = realloc(*names, grown * sizeof(**names));

            if (!p) {
                closedir(d);
                free(*names);
                *names = NULL;
                return argus_error(err, "out of memory");
            }
            *names = p;
            room = grown;
        }
        snprintf((*names)[n++], ARGUS_QUEUE_NAME_MAX, "%s", name);
    }
    closedir(d);
    if (n)
        qsort(*names, n, sizeof(**names), compare_names);
    return (long)n;
}

long argus_queue_list(struct argus_queue *q, char (**names)[ARGUS_QUEUE_NAME_MAX],
                      argus_error_t *err)
{
    return list_names(q->queue, QUEUE_DIR, names, err);
}

long argus_queue_list_jobs(struct argus_queue *q, char (**names)[ARGUS_QUEUE_NAME_MAX],
                           argus_error_t *err)
{
    *names = NULL;
    return q->jobs < 0 ? 0 : list_names(q->jobs, ARGUS_MARKER_DIR, names, err);
}
