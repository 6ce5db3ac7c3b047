/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/epilog/spawn.h"
#include "analyzer/epilog/user.h"
#include "analyzer/verdict/comment.h"
#include "argus/verdict.h"

#define COMMENT_NAME ".comment"
#define POSTED_NAME ".posted"
#define OUTPUT_MAX 4096
/* Root posts for a while before it says "later". */
#define ANSWER_S 600

static void say(const struct argus_work *work, const char *kind, const char *text)
{
    char message[ARGUS_MESSAGE_MAX];
    int n = snprintf(message, sizeof(message), "%s%s%s", kind, text ? " " : "", text ? text : "");

    if (n > 0 && n < (int)sizeof(message))
        send(work->socket, message, (size_t)n, MSG_NOSIGNAL);
}

/* Has root posted it? */
static int answer(const struct argus_work *work)
{
    const struct timeval limit = {.tv_sec = ANSWER_S};
    char message[8] = "";

    setsockopt(work->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return recv(work->socket, message, sizeof(message) - 1, 0) == 1 && message[0] == 'P';
}

/* What .comment and .posted begin with: a directory may be used again by
 * another job, or by another run of the same. */
static void identify(const struct argus_stepconf *step, char *text, size_t size)
{
    snprintf(text, size, "job=%.*s restart=%d", (int)strcspn(step->job, "+"), step->job,
             step->restart);
}

/* Its disk may have refused a report: a line that it got out whole is a verdict all the same. */
static int has_verdict(const char *output)
{
    const char *end = output ? strchr(output, '\n') : NULL;
    char *line = end ? strndup(output, (size_t)(end - output)) : NULL;
    int is = line && argus_comment_validate(line, NULL) == 0;

    free(line);
    return is;
}

/* Run the analysis; its comment line goes to `line`. */
static int analyze(const struct argus_work *work, const char *dir,
                   const struct argus_hostlist *missing, char *line, size_t size,
                   argus_error_t *err)
{
    const struct argus_stepconf *step = &work->entry->steps[0];
    char *list = missing->n ? argus_hostlist_join(missing) : NULL;
    char *argv[] = {(char *)work->analyze,
                    (char *)"analyze",
                    (char *)dir,
                    (char *)"--quiet",
                    (char *)"--comment",
                    (char *)"-",
                    list ? (char *)"--missing-nodes" : NULL,
                    list,
                    NULL};
    char **env = argus_spawn_env(ARGUS_SPAWN_PATH, work->slurm_conf, "/", step->user);
    char *output = NULL;
    int rc = -1;

    if (!env || (missing->n && !list))
        argus_error(err, "out of memory");
    else
        rc = argus_spawn_capture(argv, ARGUS_SPAWN_PATH, env, work->analyze_s, OUTPUT_MAX, &output,
                                 err);
    if (rc < 0 && has_verdict(output)) {
        say(work, "E", err->text);
        rc = 0;
    }
    if (rc == 0) {
        output[strcspn(output, "\n")] = '\0';
        if (!output[0] || strlen(output) >= size)
            rc = argus_error(err, "%s analyze %s: no comment line", work->analyze, dir);
        else
            snprintf(line, size, "%s", output);
    }
    free(output);
    free(list);
    argus_spawn_env_free(env);
    return rc;
}

/* The verdict's comment: of an earlier, unposted analysis, else of a new one. */
static int verdict(const struct argus_work *work, const char *dir, const char *id,
                   const struct argus_hostlist *missing, char *line, size_t size,
                   argus_error_t *err)
{
    char noted[ARGUS_COMMENT_MAX + 64], *text = NULL;
    size_t n = strlen(id);

    argus_user_noted(dir, COMMENT_NAME, noted, sizeof(noted));
    if (!strncmp(noted, id, n) && noted[n] == ' ' && strlen(noted + n + 1) < size) {
        snprintf(line, size, "%s", noted + n + 1);
        return 0;
    }
    if (analyze(work, dir, missing, line, size, err) < 0)
        return -1;
    if (asprintf(&text, "%s %s\n", id, line) < 0)
        return 0;
    argus_user_note(dir, COMMENT_NAME, text, NULL);
    free(text);
    return 0;
}

/* Everything that one node of the job does: analyse and have it posted. */
static int conclude(const struct argus_work *work, const char *dir,
                    const struct argus_hostlist *missing, argus_error_t *err)
{
    const struct argus_stepconf *step = &work->entry->steps[0];
    char id[96], posted[96], line[ARGUS_COMMENT_MAX + 1];
    int rc;

    identify(step, id, sizeof(id));
    rc = argus_user_lock(dir, step->node, err);
    if (rc <= 0)
        return rc;
    argus_user_noted(dir, POSTED_NAME, posted, sizeof(posted));
    if (!strcmp(posted, id)) {
        rc = 0;
        goto out;
    }
    rc = verdict(work, dir, id, missing, line, sizeof(line), err);
    if (rc < 0)
        goto out;
    say(work, "V", line);
    if (answer(work))
        argus_user_note(dir, POSTED_NAME, id, NULL);
    else
        rc = argus_error(err, "verdict not posted yet");
out:
    argus_user_unlock(dir);
    return rc;
}

/* Is this the node that concludes the job?  The first of those that took part. */
static int is_owner(const struct argus_hostlist *nodes, const char *node)
{
    return nodes->n && !strcmp(nodes->names[0], node);
}

/* Write out and clear away every step's rings.  0, or -1 when data is left. */
static int drain_all(const struct argus_work *work)
{
    argus_error_t err = {""};
    int rc = 0;

    for (size_t i = 0; i < work->entry->n_steps; i++) {
        if (work->entry->reused && work->entry->reused[i])
            continue;
        if (argus_user_drain(work, &work->entry->steps[i], &err) < 0) {
            say(work, "E", err.text);
            rc = -1;
        }
    }
    return rc;
}

/* .done in each of the job's directories; a step's own working directory may
 * have led to more than one.  1 done, 0 there is none, -1 error. */
static int done_all(const struct argus_work *work, argus_error_t *err)
{
    const struct argus_queue_entry *entry = work->entry;
    int any = 0;

    for (size_t i = 0; i < entry->n_steps; i++) {
        int rc;

        if (i && !strcmp(entry->steps[i].dir, entry->steps[i - 1].dir))
            continue;
        rc = argus_user_done(entry->steps[i].dir, entry->steps[0].node, err);
        if (rc < 0)
            return -1;
        any |= rc;
    }
    return any;
}

/* For a job of which this node knows nothing but what accounting says. */
static int conclude_only(const struct argus_work *work)
{
    struct argus_stepconf step = work->entry->steps[0];
    struct argus_queue_entry entry = {.lock = -1, .steps = &step, .n_steps = 1};
    struct argus_work last = *work;
    struct argus_hostlist nodes = {0}, missing = {0};
    argus_error_t err = {""};
    char dir[4096];
    int rc = 0;

    last.entry = &entry;
    if (argus_user_last_run(&work->entry->steps[0], dir, sizeof(dir), &step.restart)) {
        step.dir = dir;
        rc = argus_user_nodes(&last, &nodes, &err);
        if (rc == 0) {
            argus_user_wait(dir, &nodes, 0, &missing);
            rc = conclude(&last, dir, &missing, &err);
        }
    }
    if (rc < 0)
        say(work, "E", err.text);
    else
        say(work, "F", NULL);
    argus_hostlist_clear(&nodes);
    argus_hostlist_clear(&missing);
    return rc < 0;
}

int argus_user_work(const struct argus_work *work)
{
    const struct argus_stepconf *first = &work->entry->steps[0];
    struct argus_hostlist nodes = {0}, missing = {0};
    int left, done, rc = -1;
    argus_error_t err = {""};

    umask(022);
    if (work->conclude)
        return conclude_only(work);
    left = drain_all(work) < 0;
    done = left ? 1 : done_all(work, &err);
    if (done < 0)
        goto out;
    if (!done) {
        rc = 0;
        goto out;
    }
    if (!left)
        say(work, "D", NULL);
    if (argus_user_nodes(work, &nodes, &err) < 0)
        goto out;
    if (is_owner(&nodes, first->node)) {
        argus_user_wait(first->dir, &nodes, first->deadline_s, &missing);
        if (conclude(work, first->dir, &missing, &err) < 0)
            goto out;
    }
    rc = 0;
out:
    if (rc < 0)
        say(work, "E", err.text);
    else if (!left)
        say(work, "F", NULL);
    argus_hostlist_clear(&nodes);
    argus_hostlist_clear(&missing);
    return rc < 0;
}
