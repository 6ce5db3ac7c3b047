/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/util/replace.h"

#define LEFTOVER_S 3600

static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};

#define N_SIGNALS (sizeof(ending_signals) / sizeof(ending_signals[0]))

/* What a signal handler has to find is nobody's argument. */
static struct {
    char *volatile temporary; /* NULL: none is being written */
    struct sigaction before[N_SIGNALS];
} guard;

/* End as the signal would have ended us, but for the file. */
static void remove_and_end(int sig)
{
    int saved = errno;

    if (guard.temporary)
        unlink(guard.temporary);
    errno = saved;
    raise(sig); /* SA_RESETHAND: by now it ends us */
}

/* Signals that are ignored or somebody's own stay what they are. */
static void begin_guard(char *temporary)
{
    struct sigaction ours = {.sa_handler = remove_and_end, .sa_flags = SA_RESETHAND | SA_NODEFER};

    sigemptyset(&ours.sa_mask);
    guard.temporary = temporary;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (sigaction(ending_signals[i], NULL, &guard.before[i]) == 0 &&
            guard.before[i].sa_handler == SIG_DFL)
            sigaction(ending_signals[i], &ours, NULL);
    }
}

static void end_guard(const char *temporary)
{
    if (!temporary || guard.temporary != temporary)
        return;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (guard.before[i].sa_handler == SIG_DFL)
            sigaction(ending_signals[i], &guard.before[i], NULL);
    }
    guard.temporary = NULL;
}

static void clear(struct argus_replacement *r)
{
    end_guard(r->temporary);
    free(r->path);
    free(r->temporary);
    *r = (struct argus_replacement){NULL, NULL, NULL};
}

/* The process that `name` is a temporary of `base` of: 0, of none. */
static pid_t writer_of(const char *name, const char *base)
{
    size_t n = strlen(base);
    char *end;
    long pid;

    if (strncmp(name, base, n) || name[n] != '.' || name[n + 1] < '1' || name[n + 1] > '9')
        return 0;
    errno = 0;
    pid = strtol(name + n + 1, &end, 10);
    return errno || pid > INT_MAX || strcmp(end, ".tmp") ? 0 : (pid_t)pid;
}

/* What was left of this file by a process that was killed.  On shared storage another node's process
 * ids say nothing here, so that age decides, by the storage's clock.  Who writes for an hour is
 * stopped or hangs: if it ever goes on it fails, in favour of what was written since. */
static void remove_leftovers(const struct argus_replacement *r)
{
    const char *slash = strrchr(r->path, '/'), *base = slash ? slash + 1 : r->path;
    char *name = slash ? strndup(r->path, (size_t)(base - r->path)) : strdup(".");
    DIR *dir = name ? opendir(name) : NULL;
    struct stat ours, st;
    struct dirent *e;

    if (!dir || fstat(fileno(r->out), &ours))
        goto out;
    while ((e = readdir(dir))) {
        pid_t pid = writer_of(e->d_name, base);

        if (!pid || kill(pid, 0) == 0 || errno != ESRCH)
            continue;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_uid == ours.st_uid && ours.st_mtime - st.st_mtime > LEFTOVER_S)
            unlinkat(dirfd(dir), e->d_name, 0);
    }
out:
    if (dir)
        closedir(dir);
    free(name);
}

int argus_replace_open(struct argus_replacement *r, const char *path, argus_error_t *err)
{
    int rc;

    *r = (struct argus_replacement){NULL, strdup(path), NULL};
    if (asprintf(&r->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0)
        r->temporary = NULL;
    if (!r->path || !r->temporary) {
        clear(r);
        return argus_error(err, "%s: no memory to write it", path);
    }
    unlink(r->temporary); /* of an earlier process with our id */
    if (!guard.temporary)
        begin_guard(r->temporary);
    r->out = fopen(r->temporary, "wxe");
    if (r->out) {
        remove_leftovers(r);
        return 0;
    }
    rc = argus_error(err, "%s: cannot be written: %s", path, strerror(errno));
    clear(r);
    return rc;
}

int argus_replace_finish(struct argus_replacement *r, const char *why, int durable,
                         argus_error_t *err)
{
    int rc = 0;

    if (!why && (fflush(r->out) || ferror(r->out) || (durable && fsync(fileno(r->out)))))
        why = strerror(errno);
    if (fclose(r->out) && !why)
        why = strerror(errno);
    if (!why && rename(r->temporary, r->path))
        why = strerror(errno);
    if (why) {
        rc = argus_error(err, "%s: cannot be written: %s", r->path, why);
        unlink(r->temporary);
    }
    clear(r);
    return rc;
}
