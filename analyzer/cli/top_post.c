/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <argus/step.h>

#include "analyzer/cli/top_post.h"
#include "analyzer/epilog/spawn.h"
#include "analyzer/model/jobdir.h"
#include "analyzer/report/live.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/comment.h"

#define SHOWN_MAX 262144 /* what scontrol says of a job */
#define CALL_S 5         /* for scontrol */
#define LAST_CALL_S 2    /* at the end, when somebody waits */

struct post {
    char *dir; /* job or step */
    char *path;
    char job[64];
    char posted[ARGUS_COMMENT_MAX + 1]; /* our line in the comment; "": none */
    int timeout_s;
};

/* ---- scontrol -------------------------------------------------------------- */

static char *scontrol(const struct post *p, char *const argv[])
{
    char **env = argus_spawn_env(p->path, getenv("SLURM_CONF"), "/", NULL), *output = NULL;
    argus_error_t err;

    if (env && argus_spawn_capture(argv, p->path, env, p->timeout_s, SHOWN_MAX, &output, &err)) {
        free(output);
        output = NULL;
    }
    argus_spawn_env_free(env);
    return output;
}

/*
 * The Comment of the job; *comment "" if it has none.  One line of it holds
 * the whole field; what follows the next JobId= is another component's.
 */
static int get_comment(const struct post *p, char **comment)
{
    char *argv[] = {(char *)"scontrol", (char *)"show", (char *)"job", (char *)p->job, NULL};
    char *text = scontrol(p, argv), *rest = text, *line;
    size_t n;
    int jobs = 0;

    *comment = NULL;
    while ((line = strsep(&rest, "\n")) && jobs < 2 && !*comment) {
        jobs += !strncmp(line, "JobId=", 6);
        line += strspn(line, " ");
        if (jobs == 1 && !strncmp(line, "Comment=", 8))
            *comment = strdup(line + 8);
    }
    if (jobs && !*comment)
        *comment = strdup("");
    free(text);
    if (*comment && !strcmp(*comment, "(null)"))
        **comment = '\0';
    /* Some releases print a blank behind it. */
    n = *comment ? strlen(*comment) : 0;
    if (n && (*comment)[n - 1] == ' ')
        (*comment)[n - 1] = '\0';
    return *comment ? 0 : -1;
}

static int set_comment(const struct post *p, const char *text)
{
    char *job = NULL, *comment = NULL, *output = NULL;
    int rc = -1;

    if (asprintf(&job, "JobId=%s", p->job) > 0 && asprintf(&comment, "Comment=%s", text) > 0) {
        char *argv[] = {(char *)"scontrol", (char *)"update", job, comment, NULL};

        output = scontrol(p, argv);
        rc = output ? 0 : -1;
    }
    free(job);
    free(comment);
    free(output);
    return rc;
}

/* ---- what is posted ---------------------------------------------------------- */

/* Is the part of ours in the comment the one that we wrote? */
static int is_ours(const char *comment, const char *posted)
{
    size_t length = 0;
    const char *ours = argus_comment_find(comment, &length);

    return ours && length == strlen(posted) && !strncmp(ours, posted, length);
}

static void take_back(struct post *p)
{
    char *comment = NULL, *rest = NULL;
    int done = 0;

    if (!p->posted[0] || get_comment(p, &comment) < 0)
        return;
    if (!is_ours(comment, p->posted))
        done = 1; /* another step's, or somebody took it out */
    else if ((rest = argus_comment_without(comment)))
        done = set_comment(p, rest) == 0;
    if (done)
        p->posted[0] = '\0';
    free(comment);
    free(rest);
}

static void put(struct post *p, const char *line)
{
    char *comment = NULL, *merged = NULL;

    if (!strcmp(p->posted, line) || get_comment(p, &comment) < 0)
        return;
    if ((merged = argus_comment_merge(comment, line)) && set_comment(p, merged) == 0)
        snprintf(p->posted, sizeof(p->posted), "%s", line);
    free(comment);
    free(merged);
}

/* Absolute; a step's directory belongs to the job's. */
static char *job_dir(const char *dir)
{
    char *whole = realpath(dir, NULL), *name = whole ? strrchr(whole, '/') : NULL;

    if (name && name > whole && !strncmp(name, "/step-", 6))
        *name = '\0';
    return whole;
}

/* In the grammar of a verdict, with nothing that only a verdict knows: no slow-down, no confidence. */
static char *line_of(const struct post *p, const struct argus_live_view *v)
{
    const struct argus_live_rank *r = &v->ranks[v->suspect];
    struct argus_verdict *verdict = argus_verdict_create();
    int kind = argus_verdict_kind_from_name(v->suspicion);
    char *dir = job_dir(p->dir), *line = NULL;

    if (verdict && dir && kind >= 0 &&
        argus_verdict_add_culprit(verdict, r->rank, ARGUS_UNKNOWN, r->node, NULL) &&
        argus_verdict_set(&verdict->job.dir, dir) == 0) {
        verdict->kind = (enum argus_verdict_kind)kind;
        verdict->severity = ARGUS_SEVERITY_INFO;
        verdict->confidence = NAN;
        verdict->job.simulated = v->simulated;
        line = argus_comment_format(verdict);
    }
    argus_verdict_destroy(verdict);
    free(dir);
    return line;
}

/* "4711" or "4711+1": what Slurm calls a job; the name comes from the job's files. */
static int is_slurm_job(const char *s)
{
    size_t n = strspn(s, "0123456789");

    if (n && s[n] == '+') {
        s += n + 1;
        n = strspn(s, "0123456789");
    }
    return n && !s[n];
}

/* Anew each time: a thousand open timelines would take memory from the job all the while. */
static void look(struct post *p)
{
    argus_error_t err;
    argus_live_t *l = argus_live_glance(p->dir, &err);
    const struct argus_live_view *v = l ? argus_live_view(l) : NULL;
    char *line = NULL;

    if (v && is_slurm_job(v->job)) {
        snprintf(p->job, sizeof(p->job), "%s", v->job);
        line = v->suspicion && v->suspect >= 0 ? line_of(p, v) : NULL;
        if (line)
            put(p, line);
        else if (!v->suspicion)
            take_back(p);
    }
    free(line);
    argus_live_close(l);
    malloc_trim(0);
}

/* What the caller ignores, as the recorder does what is sent to the whole step, ends nothing. */
static void add_end(sigset_t *ends, int sig)
{
    struct sigaction sa;

    if (sigaction(sig, NULL, &sa) < 0 || sa.sa_handler != SIG_IGN)
        sigaddset(ends, sig);
}

/* ---- the loop ------------------------------------------------------------------ */

/* 1: it is over. */
static int wait_for(const sigset_t *ends, double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};

    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    for (;;) {
        if (sigtimedwait(ends, NULL, &left) > 0)
            return 1;
        if (errno == EAGAIN)
            return 0;
        if (errno != EINTR)
            return 1;
    }
}

void argus_top_post(const char *what, double interval)
{
    struct post p = {.timeout_s = CALL_S};
    const char *path = getenv("PATH");
    argus_error_t err;
    sigset_t ends, all;

    /* Blocked, not caught: a call of scontrol is finished before the end is heard.  What else is
     * sent to a job (USR1 before its time is up) is not meant for this. */
    sigfillset(&all);
    sigemptyset(&ends);
    add_end(&ends, SIGTERM);
    add_end(&ends, SIGINT);
    sigaddset(&ends, ARGUS_POST_OVER);
    sigprocmask(SIG_BLOCK, &all, NULL);
    umask(077);
    if (asprintf(&p.path, "%s%s%s", path ? path : "", path && *path ? ":" : "", ARGUS_SPAWN_PATH) <
        0)
        p.path = NULL;
    /* The first suspicion need not wait a whole interval. */
    if (p.path && !wait_for(&ends, interval / 4)) {
        do {
            if (p.dir || argus_jobdir_resolve(what, &p.dir, &err) == 0)
                look(&p);
        } while (!wait_for(&ends, interval));
    }
    p.timeout_s = LAST_CALL_S;
    take_back(&p);
    free(p.dir);
    free(p.path);
}
