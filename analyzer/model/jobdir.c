/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/model/jobdir.h"
#include "analyzer/timeline/timeline_io.h"
#include "analyzer/verdict/comment.h"

#define ANSWER_MAX 65536

/* 0: no, and errno says why. */
static int is_dir(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return 0;
    errno = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    return errno == 0;
}

/* Job ids as users write them: 4711, 4711_3, 4711+1. */
static int is_job_id(const char *s)
{
    if (*s < '0' || *s > '9')
        return 0;
    return s[strspn(s, "0123456789_+.")] == '\0' && strlen(s) < 64;
}

/* What sacct says of the job's comments; argv, no shell. */
static char *ask_sacct(const char *job)
{
    char *argv[] = {"sacct", "-n",        "-X", "-P", "-o", "admincomment,comment",
                    "-j",    (char *)job, NULL};
    char *text = malloc(ANSWER_MAX);
    size_t n = 0;
    int fds[2], status;
    pid_t pid;

    if (!text || pipe(fds)) {
        free(text);
        return NULL;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);

        dup2(null, 0);
        dup2(fds[1], 1);
        dup2(null, 2);
        close(fds[0]);
        close(fds[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(fds[1]);
    while (pid > 0 && n + 1 < ANSWER_MAX) {
        ssize_t got = read(fds[0], text + n, ANSWER_MAX - 1 - n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fds[0]);
    text[n] = '\0';
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
        free(text);
        return NULL;
    }
    return text;
}

static char *dir_from_accounting(const char *job)
{
    char *text = ask_sacct(job), *line, *dir = NULL, *save = NULL;

    for (line = text ? strtok_r(text, "\n|", &save) : NULL; line && !dir;
         line = strtok_r(NULL, "\n|", &save)) {
        size_t length = 0;
        const char *ours = argus_comment_find(line, &length);
        struct argus_comment *c = ours ? calloc(1, sizeof(*c)) : NULL;
        char *copy = c ? strndup(ours, length) : NULL;

        if (copy && !argus_comment_parse(copy, c, NULL) && c->dir[0] && is_dir(c->dir))
            dir = strdup(c->dir);
        free(copy);
        free(c);
    }
    free(text);
    return dir;
}

int argus_jobdir_resolve(const char *what, char **dir, argus_error_t *err)
{
    char path[512], json[600];

    *dir = NULL;
    if (is_dir(what)) {
        *dir = strdup(what);
        /* "x/" and "x" are one directory */
        for (size_t n = *dir ? strlen(*dir) : 0; n > 1 && (*dir)[n - 1] == '/'; n--)
            (*dir)[n - 1] = '\0';
        return *dir ? 0 : argus_error(err, "no memory");
    }
    if (!is_job_id(what))
        return argus_error(err, "%s: %s", what,
                           errno == ENOENT ? "no such directory" : strerror(errno));
    if ((*dir = dir_from_accounting(what)))
        return 0;
    snprintf(path, sizeof(path), "argus/%s", what);
    snprintf(json, sizeof(json), "%s/job.json", path);
    if (is_dir(path) && !access(json, R_OK))
        return (*dir = strdup(path)) ? 0 : argus_error(err, "no memory");
    return argus_error(err, "job %s: accounting names no directory for it and there is no %s here",
                       what, path);
}

/* Steps by number, "batch" and "interactive" after them. */
static int by_step(const void *a, const void *b)
{
    const char *x = strrchr(*(char *const *)a, '/') + 6, *y = strrchr(*(char *const *)b, '/') + 6;
    char *ex, *ey;
    long i = strtol(x, &ex, 10), j = strtol(y, &ey, 10);

    if ((ex == x) != (ey == y))
        return ex == x ? 1 : -1;
    if (ex != x && i != j)
        return i < j ? -1 : 1;
    return strcmp(x, y);
}

static int has_timelines(const char *dir)
{
    char **paths = NULL;
    size_t n = 0;
    int bad = argus_timeline_list(dir, &paths, &n, NULL);

    if (!bad)
        argus_timeline_list_free(paths, n);
    return !bad && n > 0;
}

static int add(char ***steps, size_t *n, const char *path)
{
    char **more = realloc(*steps, (*n + 1) * sizeof(**steps));

    if (!more)
        return -1;
    *steps = more;
    if (!(more[*n] = strdup(path)))
        return -1;
    ++*n;
    return 0;
}

int argus_jobdir_steps(const char *dir, char ***steps, size_t *n, argus_error_t *err)
{
    DIR *d;
    struct dirent *entry;
    int rc = 0;

    *steps = NULL;
    *n = 0;
    if (has_timelines(dir))
        return add(steps, n, dir) ? argus_error(err, "no memory") : 0;
    d = opendir(dir);
    if (!d)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    while (!rc && (entry = readdir(d))) {
        char path[4096];

        if (strncmp(entry->d_name, "step-", 5) ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) >= sizeof(path) ||
            !has_timelines(path))
            continue;
        rc = add(steps, n, path);
    }
    closedir(d);
    if (rc)
        return argus_error(err, "no memory");
    if (!*n)
        return argus_error(err, "%s: no timelines (rank-*.h5) here or in step-*", dir);
    qsort(*steps, *n, sizeof(**steps), by_step);
    return 0;
}

void argus_jobdir_free(char **steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(steps[i]);
    free(steps);
}
