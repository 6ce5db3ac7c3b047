/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "collector/record/files.h"

#include <argus/step.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STANDDOWN_LINES_MAX 4096
#define STANDDOWN_LINE_MAX 512
#define TEMPS_MAX 1000

int argus_files_mkdir(const char *path, argus_error_t *err)
{
    char *copy = strdup(path), *slash = copy;
    int rc = -1;

    if (!copy)
        return argus_error(err, "%s: no memory", path);
    do {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST) {
            argus_error(err, "%s: cannot make the directory: %s", copy, strerror(errno));
            goto out;
        }
        if (slash)
            *slash = '/';
    } while (slash);
    rc = 0;
out:
    free(copy);
    return rc;
}

/* On shared storage another node's recorder may have our process id and write the same file just
 * now: what is there is not ours. */
static int open_temp(const char *path, char *temp, size_t size)
{
    int fd = -1;

    for (int i = 0; i < TEMPS_MAX; i++) {
        snprintf(temp, size, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd;
}

int argus_files_write(const char *path, json_t *object, int once, argus_error_t *err)
{
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    char temp[4352];
    size_t length;
    int fd = -1, rc = -1;

    if (!text) {
        argus_error(err, "%s: no memory", path);
        goto out;
    }
    fd = open_temp(path, temp, sizeof(temp));
    if (fd < 0) {
        argus_error(err, "%s: cannot create: %s", temp, strerror(errno));
        goto out;
    }
    length = strlen(text);
    text[length] = '\n'; /* in place of the terminator: not needed any more */
    if (write(fd, text, length + 1) != (ssize_t)(length + 1)) {
        argus_error(err, "%s: cannot write: %s", temp, strerror(errno));
        goto out_unlink;
    }
    if (close(fd) < 0) {
        fd = -1;
        argus_error(err, "%s: cannot write: %s", temp, strerror(errno));
        goto out_unlink;
    }
    fd = -1;
    if (once ? link(temp, path) < 0 && errno != EEXIST : rename(temp, path) < 0) {
        argus_error(err, "%s: cannot create: %s", path, strerror(errno));
        goto out_unlink;
    }
    if (once)
        unlink(temp);
    rc = 0;
    goto out;
out_unlink:
    unlink(temp);
out:
    if (fd >= 0)
        close(fd);
    free(text);
    return rc;
}

static json_t *keys_of(const struct argus_stepconf *c)
{
    return json_pack("{s:s s:s s:s s:s s:i s:i s:i s:f s:f s:f s:f s:i s:s s:i s:i}", "default",
                     c->default_, "mode", c->mode, "sources", c->sources, "links", c->links,
                     "window", c->window, "keep_mb", c->keep_mb, "ring_mb", c->ring_mb, "info",
                     c->info, "warn", c->warn, "critical", c->critical, "floor_ms", c->floor_ms,
                     "min_steps", c->min_steps, "comment", c->comment, "drain_s", c->drain_s,
                     "deadline_s", c->deadline_s);
}

json_t *argus_files_job(const struct argus_stepconf *c)
{
    return json_pack("{s:s s:s s:I s:s s:s s:s s:i s:s s:i s:s s:s s:i s:s s:I s:{s:s s:s} s:o}",
                     "schema", "argus-job/1", "job", c->job, "slurm_job", (json_int_t)c->slurm_job,
                     "het", c->het, "array_job", c->array_job, "array_task", c->array_task,
                     "restart", c->restart, "user", c->user, "uid", (int)c->uid, "cluster",
                     c->cluster, "nodes", c->nodes, "nnodes", c->nnodes, "dir", c->dir, "started",
                     (json_int_t)c->started, "versions", "argus", PACKAGE_VERSION, "slurm",
                     c->slurm_version, "keys", keys_of(c));
}

json_t *argus_files_step(const struct argus_stepconf *c)
{
    return json_pack("{s:s s:s s:s s:i s:s s:i s:i s:I s:{s:s s:s} s:o}", "schema", "argus-step/1",
                     "job", c->job, "step", c->step, "restart", c->restart, "nodes",
                     c->step_nodes[0] ? c->step_nodes : c->nodes, "nnodes", c->nnodes, "ntasks",
                     c->ntasks, "started", (json_int_t)c->started, "versions", "argus",
                     PACKAGE_VERSION, "slurm", c->slurm_version, "keys", keys_of(c));
}

json_t *argus_files_standdown(const char *spool)
{
    char path[4352], line[STANDDOWN_LINE_MAX];
    json_t *lines = json_array();
    FILE *f;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", spool, ARGUS_STANDDOWN_NAME);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return lines;
    f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return lines;
    }
    for (int n = 0; n < STANDDOWN_LINES_MAX && fgets(line, sizeof(line), f); n++) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0])
            json_array_append_new(lines, json_string(line)); /* refuses what is no UTF-8 */
    }
    fclose(f);
    return lines;
}
