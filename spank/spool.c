/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <argus/step.h>

#include "spank/recorder.h"
#include "spank/spool.h"

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define CLEAN_MS 1000
#define SPARE_MB 16 /* stays free for others */
#define RING_SUFFIX ".ring"
#define RESTART_NAME "restart"
#define RESTART_MAX 100 /* an exit status holds no more; Slurm requeues that often by hand only */

void argus_spool_path(const struct argus_facts *f, char *out, size_t size)
{
    snprintf(out, size, "%s/%s.%s", f->spool, f->job, f->step);
}

/*
 * Opens `name` in `parent`, made if missing.  It must be a directory of
 * root's (ours in a test) that others cannot rename things in: not writable
 * by them, or, on the way to the spool, sticky like /dev/shm.
 */
static int open_root_dir(int parent, const char *name, mode_t mode, bool sticky, const char *path,
                         argus_error_t *err)
{
    bool made = !mkdirat(parent, name, mode);
    struct stat st;
    int fd;

    if (!made && errno != EEXIST)
        return argus_error(err, "%s: cannot make it: %s", path, strerror(errno));
    fd = openat(parent, name, OPEN_DIR);
    if (fd < 0)
        return argus_error(err, "%s: %s", path,
                           errno == ELOOP || errno == ENOTDIR
                               ? "a directory is needed, not a link or file"
                               : strerror(errno));
    /* slurmd's umask is not ours to change, nor to obey. */
    if ((made && fchmod(fd, mode)) || fstat(fd, &st))
        argus_error(err, "%s: %s", path, strerror(errno));
    else if (st.st_uid != 0 && st.st_uid != geteuid())
        argus_error(err, "%s: belongs to user %lu, not to root", path, (unsigned long)st.st_uid);
    else if ((st.st_mode & 022) && !(sticky && (st.st_mode & S_ISVTX)))
        argus_error(err, "%s: others than root may write there", path);
    else
        return fd;
    close(fd);
    return -1;
}

static int open_spool(const char *spool, argus_error_t *err)
{
    int fd = open("/", OPEN_DIR);
    const char *p = spool;

    while (fd >= 0 && *(p += strspn(p, "/"))) {
        size_t n = strcspn(p, "/");
        bool last = !p[n + strspn(p + n, "/")];
        char name[256], path[ARGUS_KEY_TEXT_MAX + 8];
        int next;

        if (n >= sizeof(name)) {
            close(fd);
            return argus_error(err, "%s: a component is too long", spool);
        }
        memcpy(name, p, n);
        name[n] = '\0';
        p += n;
        snprintf(path, sizeof(path), "%.*s", (int)(p - spool), spool);
        next = open_root_dir(fd, name, 0755, !last, path, err);
        close(fd);
        fd = next;
    }
    return fd;
}

static int write_file(int dir, const char *name, const char *text, int owner_fd_out[1])
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t left = strlen(text);

    if (fd < 0)
        return -1;
    (void)fchmod(fd, 0600);
    while (left) {
        ssize_t n = write(fd, text, left);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int saved = errno;

            close(fd);
            errno = saved;
            return -1;
        }
        text += n;
        left -= (size_t)n;
    }
    owner_fd_out[0] = fd;
    return 0;
}

static int open_marker_dir(int spool_fd, const struct argus_facts *f, argus_error_t *err)
{
    char path[sizeof(f->spool) + sizeof(f->job) + 16];
    int jobs, job;

    snprintf(path, sizeof(path), "%s/%s", f->spool, ARGUS_MARKER_DIR);
    jobs = open_root_dir(spool_fd, ARGUS_MARKER_DIR, 0700, false, path, err);
    if (jobs < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/%s/%s", f->spool, ARGUS_MARKER_DIR, f->job);
    job = open_root_dir(jobs, f->job, 0700, false, path, err);
    close(jobs);
    return job;
}

static int write_marker(int dir, const struct argus_facts *f, const char *text, argus_error_t *err)
{
    char temporary[sizeof(f->step) + 8];
    int fd[1];

    snprintf(temporary, sizeof(temporary), ".%s.new", f->step);
    unlinkat(dir, temporary, 0);
    if (!write_file(dir, temporary, text, fd)) {
        close(fd[0]);
        if (!renameat(dir, temporary, dir, f->step))
            return 0;
    }
    argus_error(err, "%s/%s/%s/%s: %s", f->spool, ARGUS_MARKER_DIR, f->job, f->step,
                strerror(errno));
    unlinkat(dir, temporary, 0);
    return -1;
}

/* --- As the user, async-signal-safe -------------------------------------- */

struct entry {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

static bool is_ring(const char *name)
{
    size_t n = strlen(name);

    return n >= sizeof(RING_SUFFIX) - 1 &&
           !strcmp(name + n - (sizeof(RING_SUFFIX) - 1), RING_SUFFIX);
}

/* Removes the files of a step's spool; 1: rings are there and stay. */
static int empty_dir(int dir, bool rings_too)
{
    _Alignas(struct entry) char buffer[8192];
    bool found = false;
    long n;

    for (int pass = 0; pass < 2; pass++) {
        lseek(dir, 0, SEEK_SET);
        while ((n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
            for (long at = 0; at < n;) {
                const struct entry *e = (const struct entry *)(buffer + at);

                if (pass || rings_too)
                    unlinkat(dir, e->name, 0);
                else
                    found |= is_ring(e->name);
                at += e->reclen;
            }
        }
        if (found)
            return 1;
    }
    return 0;
}

static int clean(int dir)
{
    return empty_dir(dir, false);
}

static int wipe(int dir)
{
    return empty_dir(dir, true);
}

/* The count of restarts is the exit status. */
static int read_restart(int dir)
{
    int fd = openat(dir, RESTART_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), count = 0;
    char text[8];
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : 0;

    for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9' && count < RESTART_MAX; i++)
        count = count * 10 + (text[i] - '0');
    return count < RESTART_MAX ? count : RESTART_MAX;
}

/* --- As root ---------------------------------------------------------------- */

/*
 * A directory that an earlier run of the same step number left (a requeued
 * job, an epilog that never ran): it is the user's and its content is stale.
 */
static int remove_stale(int spool_fd, const char *name, const char *path,
                        const struct argus_identity *id, argus_error_t *err)
{
    struct stat st;

    if (fstatat(spool_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return argus_error(err, "%s: %s", path, strerror(errno));
    /* Not yet the user's: a copy of the plugin died in between. */
    if (S_ISDIR(st.st_mode) && (st.st_uid == 0 || st.st_uid == id->uid)) {
        if (st.st_uid == 0)
            (void)!fchownat(spool_fd, name, id->uid, id->gid, AT_SYMLINK_NOFOLLOW);
        argus_recorder_as_user(id, path, wipe, CLEAN_MS);
        if (!unlinkat(spool_fd, name, AT_REMOVEDIR))
            return 0;
    }
    return argus_error(err, "%s: is in the way and cannot be removed", path);
}

static int make_step_spool(int spool_fd, const struct argus_facts *f, const char *text,
                           const struct argus_identity *id, argus_error_t *err)
{
    char name[sizeof(f->job) + sizeof(f->step) + 2];
    char path[sizeof(f->spool) + sizeof(name) + 2];
    int dir = -1, fd[1] = {-1};
    bool made = false;

    snprintf(name, sizeof(name), "%s.%s", f->job, f->step);
    argus_spool_path(f, path, sizeof(path));
    if (mkdirat(spool_fd, name, 0700)) {
        if (errno != EEXIST)
            return argus_error(err, "%s: cannot make it: %s", path, strerror(errno));
        if (remove_stale(spool_fd, name, path, id, err))
            return -1;
        if (mkdirat(spool_fd, name, 0700))
            return argus_error(err, "%s: cannot make it: %s", path, strerror(errno));
    }
    made = true;
    dir = openat(spool_fd, name, OPEN_DIR);
    if (dir < 0 || write_file(dir, ARGUS_STEP_CONF_NAME, text, fd) || fchmod(dir, 0700) ||
        fchown(fd[0], id->uid, id->gid) || fchown(dir, id->uid, id->gid)) {
        argus_error(err, "%s: %s", path, strerror(errno));
        if (dir >= 0)
            unlinkat(dir, ARGUS_STEP_CONF_NAME, 0);
        if (made)
            unlinkat(spool_fd, name, AT_REMOVEDIR);
        made = false;
    }
    if (fd[0] >= 0)
        close(fd[0]);
    if (dir >= 0)
        close(dir);
    return made ? 0 : -1;
}

static void remove_marker(int spool_fd, const struct argus_facts *f)
{
    int jobs = openat(spool_fd, ARGUS_MARKER_DIR, OPEN_DIR);
    int job = jobs >= 0 ? openat(jobs, f->job, OPEN_DIR) : -1;

    if (job >= 0) {
        unlinkat(job, f->step, 0);
        close(job);
        unlinkat(jobs, f->job, AT_REMOVEDIR);
    }
    if (jobs >= 0)
        close(jobs);
}

/* Is there room for what the step's tasks may write?  The node itself lives on it, too. */
static int check_room(int spool_fd, const struct argus_facts *f, uint64_t ring_mb,
                      argus_error_t *err)
{
    uint64_t need = (f->local_tasks ? f->local_tasks : 1) * ring_mb + SPARE_MB, have;
    struct statvfs st;

    if (fstatvfs(spool_fd, &st) || !st.f_blocks)
        return 0;
    have = (uint64_t)st.f_bavail * st.f_frsize >> 20;
    if (have >= need)
        return 0;
    return argus_error(err, "%s: %llu MiB are free, rings of ring_mb=%llu for %u tasks need %llu",
                       f->spool, (unsigned long long)have, (unsigned long long)ring_mb,
                       f->local_tasks ? f->local_tasks : 1, (unsigned long long)need);
}

int argus_spool_create(const struct argus_facts *f, const char *text, uint64_t ring_mb,
                       const struct argus_identity *id, argus_error_t *err)
{
    int spool_fd, marker_dir = -1, rc = -1;

    spool_fd = open_spool(f->spool, err);
    if (spool_fd < 0)
        goto out;
    if (check_room(spool_fd, f, ring_mb, err))
        goto out;
    marker_dir = open_marker_dir(spool_fd, f, err);
    if (marker_dir < 0)
        goto out;
    if (make_step_spool(spool_fd, f, text, id, err))
        goto out;
    rc = write_marker(marker_dir, f, text, err);
out:
    if (marker_dir >= 0)
        close(marker_dir);
    if (spool_fd >= 0)
        close(spool_fd);
    if (rc < 0 && spool_fd >= 0)
        argus_spool_finish(f, id, true);
    return rc;
}

void argus_spool_finish(const struct argus_facts *f, const struct argus_identity *id, bool all)
{
    char name[sizeof(f->job) + sizeof(f->step) + 2];
    char path[sizeof(f->spool) + sizeof(name) + 2];
    argus_error_t err;
    int spool_fd = open_spool(f->spool, &err);
    struct stat st;

    if (spool_fd < 0)
        return;
    snprintf(name, sizeof(name), "%s.%s", f->job, f->step);
    argus_spool_path(f, path, sizeof(path));
    if (!fstatat(spool_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) &&
        argus_recorder_as_user(id, path, all ? wipe : clean, CLEAN_MS) == 0)
        unlinkat(spool_fd, name, AT_REMOVEDIR);
    if (all)
        remove_marker(spool_fd, f);
    close(spool_fd);
}

int argus_spool_restart(const char *spool, const char *text, unsigned restart)
{
    int dir = open(spool, OPEN_DIR), rc = -1, fd[1];
    char count[16];

    if (dir < 0)
        return -1;
    snprintf(count, sizeof(count), "%u\n", restart);
    if (!write_file(dir, RESTART_NAME, count, fd)) {
        close(fd[0]);
        if (!write_file(dir, RESTART_NAME ".new", text, fd)) {
            close(fd[0]);
            rc = renameat(dir, RESTART_NAME ".new", dir, ARGUS_STEP_CONF_NAME);
        }
    }
    close(dir);
    return rc;
}

unsigned argus_spool_restarted(const struct argus_facts *f, const struct argus_identity *id)
{
    char path[sizeof(f->spool) + sizeof(f->job) + sizeof(f->step) + 4];
    int rc;

    argus_spool_path(f, path, sizeof(path));
    rc = argus_recorder_as_user(id, path, read_restart, CLEAN_MS);
    return rc > 0 && rc <= RESTART_MAX ? (unsigned)rc : 0;
}

int argus_spool_remark(const struct argus_facts *f, const char *text, argus_error_t *err)
{
    int spool_fd = open_spool(f->spool, err), dir, rc;

    if (spool_fd < 0)
        return -1;
    dir = open_marker_dir(spool_fd, f, err);
    rc = dir < 0 ? -1 : write_marker(dir, f, text, err);
    if (dir >= 0)
        close(dir);
    close(spool_fd);
    return rc;
}
