/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "analyzer/epilog/accounting.h"
#include "analyzer/epilog/spawn.h"
#include "analyzer/verdict/comment.h"

/* The comment columns hold 64 KiB. */
#define FIELD_MAX 70000
#define COMMAND_TIMEOUT_S 30

static const struct {
    const char *name, *sacct, *sacctmgr;
} fields[] = {
    [ARGUS_FIELD_ADMIN] = {"admin", "admincomment", "AdminComment"},
    [ARGUS_FIELD_SYSTEM] = {"system", "systemcomment", "SystemComment"},
    [ARGUS_FIELD_COMMENT] = {"comment", "comment", "Comment"},
    [ARGUS_FIELD_NONE] = {"none", NULL, NULL},
};

int argus_field_from_name(const char *name)
{
    for (int i = 0; i <= ARGUS_FIELD_NONE; i++) {
        if (!strcmp(fields[i].name, name))
            return i;
    }
    return -1;
}

static int run(const struct argus_slurm *slurm, char *const argv[], char **output,
               argus_error_t *err)
{
    const char *path = slurm->path ? slurm->path : ARGUS_SPAWN_PATH;
    char **env = argus_spawn_env(path, slurm->slurm_conf, "/", NULL);
    int rc;

    *output = NULL;
    if (!env)
        return argus_error(err, "%s: out of memory", argv[0]);
    rc = argus_spawn_capture(argv, path, env,
                             slurm->timeout_s ? slurm->timeout_s : COMMAND_TIMEOUT_S, FIELD_MAX,
                             output, err);
    argus_spawn_env_free(env);
    return rc;
}

/* sacctmgr before 23.02 lower-cases a comment and turns ' into another character. */
static int lower_cases(const struct argus_slurm *slurm)
{
    char *argv[] = {(char *)"sacctmgr", (char *)"-V", NULL};
    int major = 0, minor = 0, old;
    char *output;

    old = run(slurm, argv, &output, NULL) < 0 || !output ||
          sscanf(output, "slurm %d.%d", &major, &minor) != 2 || major < 23 ||
          (major == 23 && minor < 2);
    free(output);
    return old;
}

/* Would `text` come back changed from such a sacctmgr?  Our own part would not. */
static int is_delicate(const char *text)
{
    for (; *text; text++) {
        if (isupper((unsigned char)*text) || strchr("'\"\\", *text))
            return 1;
    }
    return 0;
}

struct record {
    char *output;       /* owns text */
    const char *text;   /* the field */
    int64_t start, end; /* s; 0: unknown */
};

static int64_t seconds(const char *text)
{
    return isdigit((unsigned char)text[0]) ? strtoll(text, NULL, 10) : 0;
}

/* The record of this job among "raw|start|end|field" lines; a field may hold
 * line feeds and '|'.  1 if it is there. */
static int pick(char *output, const char *raw, struct record *r)
{
    size_t length = strlen(raw);
    char *line = output, *start, *end, *text, *next;

    while (line && !(strncmp(line, raw, length) == 0 && line[length] == '|')) {
        line = strchr(line, '\n');
        if (line)
            line++;
    }
    if (!line)
        return 0;
    start = line + length + 1;
    end = strchr(start, '|');
    text = end ? strchr(end + 1, '|') : NULL;
    if (!text)
        return 0;
    *end++ = '\0';
    *text++ = '\0';
    r->start = seconds(start);
    r->end = seconds(end);
    r->text = text;
    /* It ends where the next record begins: a line of digits and '|'. */
    for (next = strchr(text, '\n'); next; next = strchr(next + 1, '\n')) {
        size_t digits = strspn(next + 1, "0123456789");

        if (!next[1] || (digits && next[1 + digits] == '|')) {
            *next = '\0';
            break;
        }
    }
    return 1;
}

/* 1 found, 0 no such record, -1 error.  The caller frees record->output. */
static int read_record(const struct argus_slurm *slurm, const struct argus_target *target,
                       enum argus_field field, struct record *r, argus_error_t *err)
{
    char format[64];
    char *argv[] = {(char *)"sacct",    (char *)"-n", (char *)"-P", (char *)"-X", (char *)"-j",
                    (char *)target->id, (char *)"-o", format,       NULL};

    memset(r, 0, sizeof(*r));
    snprintf(format, sizeof(format), "jobidraw,start,end,%s", fields[field].sacct);
    if (run(slurm, argv, &r->output, err) < 0)
        return -1;
    return pick(r->output, target->raw, r);
}

static int write_field(const struct argus_slurm *slurm, const struct argus_target *target,
                       enum argus_field field, const char *text, argus_error_t *err)
{
    char *job = NULL, *set = NULL, *output = NULL;
    int rc = -1;

    if (asprintf(&job, "jobid=%s", target->id) < 0)
        job = NULL;
    if (asprintf(&set, "%s=%s", fields[field].sacctmgr, text) < 0)
        set = NULL;
    if (job && set) {
        char *argv[] = {(char *)"sacctmgr",
                        (char *)"-i",
                        (char *)"modify",
                        (char *)"job",
                        (char *)"where",
                        job,
                        (char *)"set",
                        set,
                        NULL};

        rc = run(slurm, argv, &output, err);
    } else {
        argus_error(err, "sacctmgr: out of memory");
    }
    free(output);
    free(job);
    free(set);
    return rc;
}

static int holds(const char *text, const char *line)
{
    size_t length = 0;
    const char *ours = argus_comment_find(text, &length);

    return ours && length == strlen(line) && !memcmp(ours, line, length);
}

/* The field as it is; decides whether there is anything to write. */
static enum argus_post_status look(const struct argus_slurm *slurm,
                                   const struct argus_target *target, enum argus_field field,
                                   struct record *r, argus_error_t *err)
{
    int found = read_record(slurm, target, field, r, err);

    if (found < 0)
        return ARGUS_POST_LATER;
    if (!found) {
        argus_error(err, "job %s: not in accounting yet", target->id);
        return ARGUS_POST_LATER;
    }
    if (target->started && r->start > target->started + 1) {
        argus_error(err, "job %s: it ran again since", target->id);
        return ARGUS_POST_SUPERSEDED;
    }
    if (!r->end) {
        argus_error(err, "job %s: not over yet in accounting", target->id);
        return ARGUS_POST_LATER;
    }
    return ARGUS_POST_DONE;
}

enum argus_post_status argus_accounting_post(const struct argus_slurm *slurm,
                                             const struct argus_target *target,
                                             enum argus_field field, const char *line,
                                             argus_error_t *err)
{
    struct record r = {0};
    enum argus_post_status status;
    char *text = NULL;

    if (field == ARGUS_FIELD_NONE)
        return ARGUS_POST_DONE;
    status = look(slurm, target, field, &r, err);
    if (status != ARGUS_POST_DONE || holds(r.text, line))
        goto out;
    if (is_delicate(r.text) && lower_cases(slurm)) {
        if (field == ARGUS_FIELD_SYSTEM) {
            argus_error(err, "job %s: the comment holds text that this sacctmgr would change",
                        target->id);
            status = ARGUS_POST_REFUSED;
            goto out;
        }
        free(r.output);
        return argus_accounting_post(slurm, target, ARGUS_FIELD_SYSTEM, line, err);
    }
    text = argus_comment_merge(r.text, line);
    status = ARGUS_POST_LATER;
    if (!text) {
        argus_error(err, "job %s: out of memory", target->id);
        goto out;
    }
    if (write_field(slurm, target, field, text, err) < 0)
        goto out;
    /* Exit status 0 does not mean that a record was changed. */
    free(r.output);
    status = look(slurm, target, field, &r, err);
    if (status == ARGUS_POST_DONE && !holds(r.text, line)) {
        argus_error(err, "job %s: sacctmgr changed nothing", target->id);
        status = ARGUS_POST_LATER;
    }
out:
    free(text);
    free(r.output);
    return status;
}

enum argus_post_status argus_accounting_post_retry(const struct argus_slurm *slurm,
                                                   const struct argus_target *target,
                                                   enum argus_field field, const char *line,
                                                   int deadline_s, argus_error_t *err)
{
    enum argus_post_status status;
    struct timespec start, now;
    unsigned pause = 1;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        status = argus_accounting_post(slurm, target, field, line, err);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (status != ARGUS_POST_LATER || now.tv_sec - start.tv_sec + pause > deadline_s)
            return status;
        nanosleep(&(struct timespec){.tv_sec = pause}, NULL);
        pause = pause < 16 ? 2 * pause : 30;
    }
}
