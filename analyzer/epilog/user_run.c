/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a job's directories is its last run's: each time that it is requeued it gets another. */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/epilog/user.h"

#define JOB_FILE "job.json"
#define JOB_BYTES_MAX (1 << 20)
/* A step begins after its job by one clock; clocks of nodes and of slurmctld differ by less than
 * this, and a job that was requeued needs longer until it runs again. */
#define CLOCKS_S 5

enum run { RUN_NONE, RUN_EARLIER, RUN_UNKNOWN, RUN_LAST };

static json_t *read_job(const char *dir)
{
    int base = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    json_t *root = NULL;
    struct stat st;

    if (base < 0)
        return NULL;
    fd = openat(base, JOB_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    close(base);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= JOB_BYTES_MAX)
        root = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
    if (fd >= 0)
        close(fd);
    return root;
}

/* Whose data is in this directory?  By its job.json and the time at which the last run began. */
static enum run run_of(const char *dir, const struct argus_stepconf *step)
{
    size_t leader = strcspn(step->job, "+");
    json_t *root = read_job(dir);
    const char *job = json_string_value(json_object_get(root, "job"));
    json_int_t started = json_integer_value(json_object_get(root, "started"));
    enum run run = RUN_UNKNOWN;

    if (!root)
        run = RUN_NONE;
    else if (job && started > 0 && step->started && strcspn(job, "+") == leader &&
             !strncmp(job, step->job, leader)) {
        int64_t after = started / 1000000000 - step->started / 1000000000;

        if (after < -CLOCKS_S)
            run = RUN_EARLIER;
        else if (after >= -1)
            run = RUN_LAST;
    }
    json_decref(root);
    return run;
}

/* "4711-r12" of "4711": 12; 0 it is no such name. */
static int restart_of(const char *name, const char *base)
{
    size_t n = strlen(base), digits;

    if (strncmp(name, base, n) || strncmp(name + n, "-r", 2))
        return 0;
    name += n + 2;
    digits = strspn(name, "0123456789");
    return digits && digits < 9 && !name[digits] && name[0] != '0' ? atoi(name) : 0;
}

/* The last of the directories that stand beside `first` and are of a later run; 0: there is none. */
static int last_restart(const char *first, const struct argus_stepconf *step, char *dir,
                        size_t size)
{
    const char *slash = strrchr(first, '/');
    struct dirent *e;
    int last = 0;
    DIR *d;

    if (snprintf(dir, size, "%.*s/", (int)(slash - first), first) >= (int)size)
        return 0;
    d = opendir(dir);
    while (d && (e = readdir(d))) {
        int n = restart_of(e->d_name, slash + 1);

        if (n > last && snprintf(dir, size, "%s-r%d", first, n) < (int)size &&
            run_of(dir, step) != RUN_NONE)
            last = n;
    }
    if (d)
        closedir(d);
    return last && snprintf(dir, size, "%s-r%d", first, last) < (int)size ? last : 0;
}

int argus_user_last_run(const struct argus_stepconf *step, char *dir, size_t size, int *restart)
{
    enum run first = run_of(step->dir, step);

    *restart = first == RUN_LAST ? 0 : last_restart(step->dir, step, dir, size);
    if (*restart)
        return run_of(dir, step) >= RUN_UNKNOWN;
    return first >= RUN_UNKNOWN && snprintf(dir, size, "%s", step->dir) < (int)size;
}
