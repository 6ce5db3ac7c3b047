/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <argus/step.h>

#include "spank/facts.h"
#include "spank/pattern.h"

#define NODE_LIST_MAX 24576

const char *argus_facts_env(const char *const *env, const char *name)
{
    size_t n = strlen(name);

    for (; env && *env; env++) {
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return *env + n + 1;
    }
    return NULL;
}

/* Names of Slurm objects; the text goes into files of lines and into paths. */
static bool name_sane(const char *s, const char *more)
{
    if (!s || !*s || *s == '-' || *s == '.')
        return false;
    for (; *s; s++) {
        if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
              strchr("._-", *s) || strchr(more, *s)))
            return false;
    }
    return true;
}

static void copy_name(char *out, size_t size, const char *name, const char *more)
{
    out[0] = '\0';
    if (name && strlen(name) < size && name_sane(name, more))
        strcpy(out, name);
}

bool argus_facts_gpus(const struct argus_facts *f)
{
    /*
     * Slurm takes the device variables away from a step that got none, but
     * leaves the job's own (SLURM_JOB_GPUS) and those of its options.
     */
    static const char *const lists[] = {"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES",
                                        "GPU_DEVICE_ORDINAL"};
    const char *value = argus_facts_env(f->env, "SLURM_GPUS_ON_NODE");

    if (value && *value && strcmp(value, "0"))
        return true;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        value = argus_facts_env(f->env, lists[i]);
        if (value && *value && strcmp(value, "NoDevFiles") && strcmp(value, "-1"))
            return true;
    }
    if (f->slurm_step == ARGUS_STEP_BATCH || f->slurm_step == ARGUS_STEP_INTERACTIVE) {
        value = argus_facts_env(f->env, "SLURM_JOB_GPUS");
        return value && *value;
    }
    return false;
}

static void user_name(uid_t uid, char *out, size_t size)
{
    char buffer[16384];
    struct passwd pw, *found = NULL;

    out[0] = '\0';
    if (!getpwuid_r(uid, &pw, buffer, sizeof(buffer), &found) && found)
        copy_name(out, size, found->pw_name, "@$+~");
    if (!out[0])
        snprintf(out, size, "%lu", (unsigned long)uid);
}

void argus_facts_names(struct argus_facts *f)
{
    user_name(f->uid, f->user, sizeof(f->user));
    copy_name(f->partition, sizeof(f->partition), argus_facts_env(f->env, "SLURM_JOB_PARTITION"),
              "");
    copy_name(f->account, sizeof(f->account), argus_facts_env(f->env, "SLURM_JOB_ACCOUNT"), "");
}

/*
 * Length of one element of a node list: up to the next comma outside
 * brackets.
 */
static size_t element_length(const char *s)
{
    bool inside = false;
    size_t n;

    for (n = 0; s[n] && (inside || s[n] != ','); n++) {
        if (s[n] == '[')
            inside = true;
        else if (s[n] == ']')
            inside = false;
    }
    return n;
}

/*
 * The names of one element "prefix[1-4,07]suffix".  Returns their number, 0
 * on a form not understood; *index is set if `name` is among them.
 */
static unsigned long scan_element(const char *s, size_t n, const char *name, long *index)
{
    const char *open = memchr(s, '[', n), *close = open ? memchr(open, ']', n - (open - s)) : NULL;
    size_t name_len = strlen(name), prefix, suffix;
    unsigned long count = 0, number = 0;
    const char *p;
    bool fits;

    if (!open) {
        if (name_len == n && !memcmp(s, name, n))
            *index = 0;
        return n ? 1 : 0;
    }
    if (!close || memchr(close, '[', n - (close - s)))
        return 0;
    prefix = (size_t)(open - s);
    suffix = n - (size_t)(close + 1 - s);
    fits = name_len > prefix + suffix && !memcmp(name, s, prefix) &&
           !memcmp(name + name_len - suffix, close + 1, suffix);
    for (size_t i = prefix; fits && i < name_len - suffix; i++) {
        fits = name[i] >= '0' && name[i] <= '9' && number < 100000000;
        number = number * 10 + (unsigned long)(name[i] - '0');
    }
    for (p = open + 1; p < close;) {
        char *end;
        size_t width = strspn(p, "0123456789");
        unsigned long lo = strtoul(p, &end, 10), hi = lo;

        if (!width || width > 9)
            return 0;
        if (*end == '-') {
            if (!strspn(end + 1, "0123456789"))
                return 0;
            hi = strtoul(end + 1, &end, 10);
        }
        if (hi < lo || hi - lo > 1000000 || (*end != ',' && end != close))
            return 0;
        /* Numbers have the width of the range's first, or more digits than it. */
        if (fits && number >= lo && number <= hi && *index < 0 &&
            name_len - prefix - suffix >= width)
            *index = (long)(count + number - lo);
        count += hi - lo + 1;
        p = end + (*end == ',');
    }
    return count;
}

long argus_facts_node_index(const char *list, const char *name)
{
    unsigned long before = 0;

    while (*list) {
        size_t n = element_length(list);
        long index = -1;
        unsigned long count = scan_element(list, n, name, &index);

        if (!count)
            return -1;
        if (index >= 0)
            return (long)before + index;
        before += count;
        list += n;
        list += *list == ',';
    }
    return -1;
}

static unsigned env_number(const char *const *env, const char *name, unsigned missing)
{
    const char *value = argus_facts_env(env, name);
    size_t n = value ? strspn(value, "0123456789") : 0;

    return n && n < 10 && !value[n] ? (unsigned)strtoul(value, NULL, 10) : missing;
}

/*
 * A component of a heterogeneous job has an id of its own, its step counts
 * only its own nodes and tasks, and the environment speaks of the whole.
 */
static void heterogeneous(struct argus_facts *f)
{
    unsigned size = env_number(f->env, "SLURM_HET_SIZE", 0);
    unsigned leader = env_number(f->env, "SLURM_JOB_ID", f->slurm_job);
    const char *list = argus_facts_env(f->env, "SLURM_STEP_NODELIST");
    unsigned component;
    long index;

    snprintf(f->leader, sizeof(f->leader), "%u", f->slurm_job);
    snprintf(f->job, sizeof(f->job), "%u", f->slurm_job);
    strcpy(f->het, "-");
    if (size < 2 || size > 4096 || leader > f->slurm_job || f->slurm_job - leader >= size + 128)
        return;
    component = f->slurm_job - leader;
    for (unsigned i = 0; i < size && i < 128; i++) {
        char name[48];

        for (int old = 0; old < 2; old++) {
            snprintf(name, sizeof(name), "SLURM_JOB_ID_%s_GROUP_%u", old ? "PACK" : "HET", i);
            if (env_number(f->env, name, 0) == f->slurm_job)
                component = i;
        }
    }
    snprintf(f->leader, sizeof(f->leader), "%u", leader);
    snprintf(f->job, sizeof(f->job), "%u+%u", leader, component);
    snprintf(f->het, sizeof(f->het), "%u", component);
    if (f->lazy)
        return;
    index = list ? argus_facts_node_index(list, f->node_name) : -1;
    /* Not 0: that is the node that speaks for the step. */
    f->nodeid = index >= 0 ? (uint32_t)index : f->nodeid + component;
    f->nnodes = env_number(f->env, "SLURM_STEP_NUM_NODES", f->nnodes);
    f->ntasks = env_number(f->env, "SLURM_STEP_NUM_TASKS", f->ntasks);
}

static mode_t job_umask(const struct argus_facts *f)
{
    const char *value = argus_facts_env(f->env, "SLURM_UMASK");
    size_t n = value ? strspn(value, "01234567") : 0;

    return n && n <= 4 && !value[n] ? (mode_t)(strtoul(value, NULL, 8) & 0777) : 0077;
}

static int job_directory(struct argus_facts *f, const struct argus_keys *keys, argus_error_t *err)
{
    static const char *const places[] = {"SLURM_SUBMIT_DIR", "PWD"};
    char array_job[16], array_task[16];
    struct argus_pattern_facts p = {.user = f->user, .job = f->leader, .node = f->node_name};
    const char *pattern = argus_keys_text(keys, ARGUS_KEY_DIR);
    bool odd = false;
    size_t used;

    for (size_t i = 0; i < 2 && !p.workdir; i++) {
        const char *place = argus_facts_env(f->env, places[i]);

        if (place && argus_path_sane(place))
            p.workdir = place;
        odd |= place && !p.workdir;
    }
    if (!p.workdir && odd && strstr(pattern, "%w"))
        return argus_error(err, "the name of the working directory has a line break, another "
                                "control character or \"..\" in it");
    snprintf(array_job, sizeof(array_job), "%u", f->array_job);
    snprintf(array_task, sizeof(array_task), "%u",
             f->array_task == ARGUS_NO_ARRAY ? 0 : f->array_task);
    p.array_job = f->array_task == ARGUS_NO_ARRAY ? f->leader : array_job;
    p.array_task = array_task;
    p.cluster = argus_facts_env(f->env, "SLURM_CLUSTER_NAME");
    if (!p.cluster || !name_sane(p.cluster, ""))
        p.cluster = "cluster";
    if (argus_pattern_expand(pattern, &p, f->dir, sizeof(f->dir), err) ||
        argus_pattern_expand(argus_keys_text(keys, ARGUS_KEY_SPOOL), &p, f->spool, sizeof(f->spool),
                             err))
        return -1;
    used = strlen(f->dir);
    if (f->restart && (size_t)snprintf(f->dir + used, sizeof(f->dir) - used, "-r%u", f->restart) >=
                          sizeof(f->dir) - used)
        return argus_error(err, "%s: job directory is too long", f->dir);
    return 0;
}

int argus_facts_complete(struct argus_facts *f, const struct argus_keys *keys, argus_error_t *err)
{
    struct timespec now;

    copy_name(f->node_name, sizeof(f->node_name), f->node, "");
    if (!f->node_name[0])
        return argus_error(err, "the node's name is not known");
    f->lazy = f->slurm_step == ARGUS_STEP_BATCH || f->slurm_step == ARGUS_STEP_INTERACTIVE;
    if (f->lazy)
        strcpy(f->step, f->slurm_step == ARGUS_STEP_BATCH ? "batch" : "interactive");
    else
        snprintf(f->step, sizeof(f->step), "%u", f->slurm_step);
    /* The script runs on one node, whatever the job has. */
    if (f->lazy) {
        f->nodeid = 0;
        f->nnodes = f->ntasks = f->local_tasks = 1;
    }
    f->restart = env_number(f->env, "SLURM_RESTART_COUNT", 0);
    f->umask_bits = job_umask(f);
    heterogeneous(f);
    clock_gettime(CLOCK_REALTIME, &now);
    f->started = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return job_directory(f, keys, err);
}

struct text {
    char *data;
    size_t used;
    bool full;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *format, ...)
{
    size_t left = ARGUS_STEP_CONF_MAX - t->used;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(t->data + t->used, left, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= left)
        t->full = true;
    else
        t->used += (size_t)n;
}

static void add_nodes(struct text *t, const char *key, const char *list)
{
    if (list && strlen(list) < NODE_LIST_MAX && name_sane(list, ",[]"))
        add(t, "%s=%s\n", key, list);
}

char *argus_facts_text(const struct argus_facts *f, const struct argus_keys *keys,
                       argus_error_t *err)
{
    struct text t = {.data = malloc(ARGUS_STEP_CONF_MAX)};
    const char *cluster = argus_facts_env(f->env, "SLURM_CLUSTER_NAME");
    const char *nodes = argus_facts_env(f->env, "SLURM_JOB_NODELIST");

    if (!t.data) {
        argus_error(err, "out of memory");
        return NULL;
    }
    add(&t, "version=%d\njob=%s\nslurm_job=%u\nstep=%s\nhet=%s\n", ARGUS_STEP_CONF_VERSION, f->job,
        f->slurm_job, f->step, f->het);
    if (f->array_task != ARGUS_NO_ARRAY)
        add(&t, "array_job=%u\narray_task=%u\n", f->array_job, f->array_task);
    else
        add(&t, "array_job=-\narray_task=-\n");
    add(&t, "restart=%u\nuser=%s\nuid=%lu\ngid=%lu\n", f->restart, f->user, (unsigned long)f->uid,
        (unsigned long)f->gid);
    add(&t, "cluster=%s\n", cluster && name_sane(cluster, "") ? cluster : "-");
    add(&t, "node=%s\nnodeid=%u\nnnodes=%u\n", f->node_name, f->nodeid, f->nnodes);
    add_nodes(&t, "nodes", nodes ? nodes : argus_facts_env(f->env, "SLURM_NODELIST"));
    add_nodes(&t, "step_nodes",
              f->lazy ? f->node_name : argus_facts_env(f->env, "SLURM_STEP_NODELIST"));
    add(&t, "ntasks=%u\nlocal_tasks=%u\n", f->ntasks, f->local_tasks);
    add(&t, "dir=%s\nlazy=%s\nstarted=%" PRId64 "\nargus=%s\nslurm=%s\n", f->dir,
        f->lazy ? "on" : "off", f->started, PACKAGE_VERSION,
        f->slurm_version ? f->slurm_version : "-");
    for (int k = 0; k < ARGUS_KEY_COUNT; k++) {
        if (k != ARGUS_KEY_DIR)
            add(&t, "%s=%s\n", argus_keys_name(k),
                k == ARGUS_KEY_SPOOL ? f->spool : argus_keys_text(keys, k));
    }
    if (t.full) {
        free(t.data);
        argus_error(err, "step.conf would be longer than %d bytes", ARGUS_STEP_CONF_MAX);
        return NULL;
    }
    return t.data;
}

char *argus_facts_restarted(const char *text, unsigned restart)
{
    struct text t = {.data = malloc(ARGUS_STEP_CONF_MAX)};

    while (t.data && *text) {
        int n = (int)strcspn(text, "\n");

        if (!strncmp(text, "restart=", 8))
            add(&t, "restart=%u\n", restart);
        else if (!strncmp(text, "dir=", 4))
            add(&t, "%.*s-r%u\n", n, text, restart);
        else
            add(&t, "%.*s\n", n, text);
        text += n + (text[n] == '\n');
    }
    if (t.full) {
        free(t.data);
        t.data = NULL;
    }
    return t.data;
}
