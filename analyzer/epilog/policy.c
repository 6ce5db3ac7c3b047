/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/epilog/policy.h"
#include "analyzer/epilog/spawn.h"

#define COMMAND_TIMEOUT_S 30
#define LINE_BYTES 512

/* ---- the file ---- */

static int number(const char *text, int min, int max, int *value)
{
    size_t n = strspn(text, "0123456789");

    if (!n || n > 6 || text[n])
        return -1;
    *value = atoi(text);
    return *value < min || *value > max ? -1 : 0;
}

static int verdicts(char *text, unsigned *set)
{
    char *name;

    *set = 0;
    while ((name = strsep(&text, ","))) {
        int kind = argus_verdict_kind_from_name(name);

        if (kind < 0 || !argus_verdict_is_fail_slow((enum argus_verdict_kind)kind))
            return -1;
        *set |= 1u << kind;
    }
    return 0;
}

static int set(struct argus_policy *p, const char *key, char *value)
{
    int severity;

    if (!strcmp(key, "drain_after"))
        return number(value, 0, 1000, &p->drain_after);
    if (!strcmp(key, "users"))
        return number(value, 1, 1000, &p->users);
    if (!strcmp(key, "days"))
        return number(value, 1, 3650, &p->days);
    if (!strcmp(key, "verdicts"))
        return verdicts(value, &p->verdicts);
    if (strcmp(key, "severity"))
        return -1;
    severity = argus_severity_from_name(value);
    if (severity < 0)
        return -1;
    p->severity = (enum argus_severity)severity;
    return 0;
}

int argus_policy_read(const char *path, uid_t owner, struct argus_policy *policy,
                      argus_error_t *err)
{
    char line[LINE_BYTES];
    struct stat st;
    FILE *f = NULL;
    int rc = 0, n = 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    *policy = (struct argus_policy){
        .users = 2,
        .days = 14,
        .severity = ARGUS_SEVERITY_CRITICAL,
        .verdicts = 1u << ARGUS_VERDICT_COMPUTE_STRAGGLER | 1u << ARGUS_VERDICT_SLOW_LINK,
    };
    if (fd < 0)
        return argus_error(err, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != owner || (st.st_mode & 022)) {
        close(fd);
        return argus_error(err, "%s: others could have written it", path);
    }
    f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return argus_error(err, "%s: %s", path, strerror(errno));
    }
    while (rc == 0 && fgets(line, sizeof(line), f)) {
        char *value;

        n++;
        line[strcspn(line, "#\n")] = '\0';
        for (size_t end = strlen(line); end && strchr(" \t\r", line[end - 1]); end--)
            line[end - 1] = '\0';
        if (!line[0])
            continue;
        value = strchr(line, '=');
        if (value)
            *value++ = '\0';
        if (!value || set(policy, line, value) < 0)
            rc = argus_error(err, "%s:%d: \"%.40s\" is not known, or its value is bad", path, n,
                             line);
    }
    fclose(f);
    if (rc < 0)
        policy->drain_after = 0;
    return rc;
}

/* ---- the decision ---- */

static int counts(const struct argus_policy *p, const struct argus_blame *b)
{
    return b->comment.severity >= p->severity && (p->verdicts & 1u << b->comment.kind) &&
           b->comment.node.n == 1 && !b->comment.node.more;
}

int argus_policy_is_due(const struct argus_policy *p, const struct argus_node_history *node)
{
    int jobs = 0, users = 0;

    if (!p->drain_after || node->ok_since)
        return 0;
    for (size_t i = 0; i < node->n_blames; i++) {
        size_t k = 0;

        if (!counts(p, &node->blames[i]))
            continue;
        jobs++;
        while (k < i && !(counts(p, &node->blames[k]) &&
                          !strcmp(node->blames[k].user, node->blames[i].user)))
            k++;
        users += k == i;
    }
    return jobs >= p->drain_after && users >= p->users;
}

/* ---- the deed ---- */

static int run(const struct argus_slurm *slurm, char *const argv[], char **output,
               argus_error_t *err)
{
    const char *path = slurm->path ? slurm->path : ARGUS_SPAWN_PATH;
    char **env = argus_spawn_env(path, slurm->slurm_conf, "/", NULL);
    int rc = env ? argus_spawn_capture(argv, path, env, COMMAND_TIMEOUT_S, 4096, output, err)
                 : argus_error(err, "out of memory");

    argus_spawn_env_free(env);
    return rc;
}

/* An administrator's drain and its reason are not overwritten. */
static int is_usable(const struct argus_slurm *slurm, const char *node, argus_error_t *err)
{
    char *argv[] = {(char *)"sinfo", (char *)"-h", (char *)"-n", (char *)node,
                    (char *)"-o",    (char *)"%T", NULL};
    char *state = NULL;
    int rc = run(slurm, argv, &state, err);

    if (rc == 0)
        rc =
            state[0] && !strstr(state, "drain") && !strstr(state, "down") && !strstr(state, "fail");
    free(state);
    return rc;
}

static int drain(const struct argus_slurm *slurm, const struct argus_node_history *node,
                 argus_error_t *err)
{
    const struct argus_blame *last = &node->blames[node->n_blames - 1];
    char name[ARGUS_COMMENT_NAME + 16], reason[256], *output = NULL;
    char *argv[] = {(char *)"scontrol",    (char *)"update", name,
                    (char *)"state=drain", reason,           NULL};
    int rc;

    snprintf(name, sizeof(name), "nodename=%s", node->name);
    snprintf(reason, sizeof(reason), "reason=argus: %s in %zu jobs, last %s",
             argus_verdict_kind_name(last->comment.kind), node->n_blames, last->job);
    rc = run(slurm, argv, &output, err);
    free(output);
    return rc;
}

static const struct argus_node_history *find(const argus_history_t *h, const char *name)
{
    for (size_t i = 0; i < argus_history_nodes(h); i++) {
        if (!strcmp(argus_history_node(h, i)->name, name))
            return argus_history_node(h, i);
    }
    return NULL;
}

struct past {
    argus_history_t *history;
    const char *job;
    int seen;
};

static int add(const struct argus_job *job, void *arg)
{
    struct past *past = arg;

    past->seen |= !strcmp(job->id, past->job);
    return argus_history_add(job, past->history);
}

/* For seconds after its end slurmdbd knows no eligible time of a short job, and a list by
 * time leaves it out; asked for by its number it is there. */
static int read_past(const struct argus_policy *policy, const struct argus_slurm *slurm,
                     struct past *past, argus_error_t *err)
{
    char since[32];

    if (!past->history)
        return argus_error(err, "out of memory");
    snprintf(since, sizeof(since), "now-%ddays", policy->days);
    if (argus_jobs_each(slurm, since, NULL, add, past, err) < 0 ||
        (!past->seen && argus_jobs_each(slurm, NULL, past->job, add, past, err) < 0))
        return -1;
    return argus_history_digest(past->history, err);
}

int argus_policy_apply(const struct argus_policy *policy, const struct argus_slurm *slurm,
                       const char *job, const char *line, char node[ARGUS_COMMENT_NAME],
                       argus_error_t *err)
{
    struct argus_blame this = {.job = ""};
    const struct argus_node_history *found;
    struct past past = {.job = job};
    int rc;

    if (!policy->drain_after || argus_comment_parse(line, &this.comment, NULL) < 0 ||
        !counts(policy, &this))
        return 0;
    snprintf(node, ARGUS_COMMENT_NAME, "%s", this.comment.node.name[0]);
    past.history = argus_history_create();
    rc = read_past(policy, slurm, &past, err);
    found = rc == 0 ? find(past.history, node) : NULL;
    if (found && argus_policy_is_due(policy, found)) {
        rc = is_usable(slurm, node, err);
        if (rc > 0)
            rc = drain(slurm, found, err) < 0 ? -1 : 1;
    }
    argus_history_destroy(past.history);
    return rc;
}
