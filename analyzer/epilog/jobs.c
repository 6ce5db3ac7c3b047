/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "analyzer/epilog/jobs.h"
#include "analyzer/epilog/spawn.h"
#include "analyzer/verdict/comment.h"

#define LIST_MAX (256u << 20)
#define LIST_TIMEOUT_S 300
/* One job, or all components of one. */
#define JOB_MAX (32u << 20)
#define JOB_TIMEOUT_S 30

/* The first and the last one hold no line feed, whatever users do. */
#define FORMAT                                                                                     \
    "jobid,jobidraw,uid,gid,start,user,nodelist,workdir,admincomment,systemcomment,comment,end"
#define FIELDS 12

static int random_word(char word[40])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -1;
    word[0] = '~';
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(word + 1 + 2 * i, 3, "%02x", bytes[i]);
    word[33] = '~';
    word[34] = '\0';
    return 0;
}

static int64_t number(const char *text, int64_t otherwise)
{
    size_t n = strspn(text, "0123456789");

    return n && n < 19 && !text[n] ? strtoll(text, NULL, 10) : otherwise;
}

static int deliver(char *f[FIELDS], argus_job_f *each, void *arg)
{
    struct argus_job job = {
        .id = f[0],
        .raw = f[1],
        .uid = (uid_t)number(f[2], (uid_t)-1),
        .gid = (gid_t)number(f[3], (gid_t)-1),
        .start = number(f[4], 0),
        .user = f[5],
        .nodes = f[6],
        .workdir = f[7],
        .admin_comment = f[8],
        .system_comment = f[9],
        .comment = f[10],
        .end = number(f[11], 0),
    };

    if (number(job.raw, -1) < 0)
        return 0;
    return each(&job, arg);
}

/* Records: field word field word ... field LF. */
static void split(char *text, const char *word, argus_job_f *each, void *arg)
{
    size_t length = strlen(word);

    while (*text) {
        char *f[FIELDS], *end;

        f[0] = text;
        for (int i = 1; i < FIELDS; i++) {
            char *next = strstr(f[i - 1], word);

            if (!next)
                return;
            *next = '\0';
            f[i] = next + length;
        }
        end = strchr(f[FIELDS - 1], '\n');
        if (!end)
            return;
        *end = '\0';
        text = end + 1;
        if (deliver(f, each, arg))
            return;
    }
}

int argus_jobs_each(const struct argus_slurm *slurm, const char *since, const char *job,
                    argus_job_f *each, void *arg, argus_error_t *err)
{
    const char *path = slurm->path ? slurm->path : ARGUS_SPAWN_PATH;
    char **env = argus_spawn_env(path, slurm->slurm_conf, "/", NULL);
    char word[40], delimiter[64], *output = NULL;
    int rc = -1;

    if (!env || random_word(word) < 0) {
        argus_error(err, "sacct: %s", strerror(errno));
    } else {
        char *argv[] = {(char *)"sacct",
                        (char *)"-nPXa",
                        delimiter,
                        (char *)"-o",
                        (char *)FORMAT,
                        (char *)(job ? "-j" : "-S"),
                        (char *)(job ? job : since),
                        NULL};

        snprintf(delimiter, sizeof(delimiter), "--delimiter=%s", word);
        rc = argus_spawn_capture(argv, path, env, job ? JOB_TIMEOUT_S : LIST_TIMEOUT_S,
                                 job ? JOB_MAX : LIST_MAX, &output, err);
        if (rc == 0)
            split(output, word, each, arg);
    }
    free(output);
    argus_spawn_env_free(env);
    return rc;
}

char *argus_job_line(const struct argus_job *job)
{
    const char *fields[] = {job->admin_comment, job->system_comment, job->comment};

    for (size_t i = 0; i < 3; i++) {
        size_t length = 0;
        const char *ours = argus_comment_find(fields[i], &length);

        if (ours)
            return strndup(ours, length);
    }
    return NULL;
}

void argus_job_target(const struct argus_job *job, struct argus_target *target)
{
    memset(target, 0, sizeof(*target));
    /* The number alone would mean all tasks of an array, all components of a job. */
    snprintf(target->id, sizeof(target->id), "%s", job->id);
    snprintf(target->raw, sizeof(target->raw), "%s", job->raw);
}
