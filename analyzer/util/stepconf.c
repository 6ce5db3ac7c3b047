/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/util/hostlist.h"
#include "analyzer/util/stepconf.h"
#include "argus/step.h"

#define DIGITS_MAX 18

/* ---- forms of values: 1 if `v` is one ---- */

static int is_number(const char *v)
{
    size_t n = strspn(v, "0123456789");

    return n > 0 && n <= DIGITS_MAX && !v[n];
}

static int is_number_or_dash(const char *v)
{
    return !strcmp(v, "-") || is_number(v);
}

static int is_job(const char *v)
{
    char leader[DIGITS_MAX + 1];
    size_t n = strspn(v, "0123456789");

    if (v[n] != '+')
        return is_number(v);
    if (n >= sizeof(leader))
        return 0;
    memcpy(leader, v, n);
    leader[n] = '\0';
    return is_number(leader) && is_number(v + n + 1);
}

static int is_step(const char *v)
{
    return is_number(v) || !strcmp(v, "batch") || !strcmp(v, "interactive");
}

static int is_word(const char *v)
{
    return v[0] && strlen(v) <= 255 &&
           v[strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+~@$")] ==
               '\0';
}

static int is_word_or_empty(const char *v)
{
    return !v[0] || is_word(v);
}

static int is_word_list(const char *v)
{
    return strlen(v) <= 255 &&
           v[strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-,")] ==
               '\0';
}

/* Expanded by whoever needs the names; here only: nothing but a node list. */
static int is_nodes(const char *v)
{
    return v[strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-,[]")] ==
           '\0';
}

static int is_node(const char *v)
{
    return !v[0] || argus_host_name_valid(v);
}

static int is_path(const char *v)
{
    if (!v[0])
        return 1;
    if (v[0] != '/' || strlen(v) >= 4096)
        return 0;
    for (const char *p = v; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return 0;
        if (p[0] == '/' && p[1] == '.' && p[2] == '.' && (p[3] == '/' || !p[3]))
            return 0;
    }
    return 1;
}

static int is_switch(const char *v)
{
    return !strcmp(v, "on") || !strcmp(v, "off");
}

static int is_comment(const char *v)
{
    return !strcmp(v, "admin") || !strcmp(v, "system") || !strcmp(v, "comment") ||
           !strcmp(v, "none");
}

/* ---- the keys ---- */

enum type { STRING, INT, SIZE, TIME, UID, GID, REAL };

struct key {
    const char *name;
    enum type type;
    size_t offset;
    const char *initial;
    int (*valid)(const char *v); /* STRING */
    double min, max;             /* numbers */
};

#define FIELD(field) offsetof(struct argus_stepconf, field)

static const struct key keys[] = {
    {"job", STRING, FIELD(job), "0", is_job, 0, 0},
    {"slurm_job", SIZE, FIELD(slurm_job), "0", NULL, 0, 4294967295.0},
    {"step", STRING, FIELD(step), "0", is_step, 0, 0},
    {"het", STRING, FIELD(het), "-", is_number_or_dash, 0, 0},
    {"array_job", STRING, FIELD(array_job), "-", is_number_or_dash, 0, 0},
    {"array_task", STRING, FIELD(array_task), "-", is_number_or_dash, 0, 0},
    {"restart", INT, FIELD(restart), "0", NULL, 0, 1e9},
    {"user", STRING, FIELD(user), "", is_word_or_empty, 0, 0},
    {"uid", UID, FIELD(uid), "4294967295", NULL, 0, 4294967295.0},
    {"gid", GID, FIELD(gid), "4294967295", NULL, 0, 4294967295.0},
    {"cluster", STRING, FIELD(cluster), "-", is_word, 0, 0},
    {"node", STRING, FIELD(node), "", is_node, 0, 0},
    {"nodeid", INT, FIELD(nodeid), "0", NULL, 0, 1e6},
    {"nnodes", INT, FIELD(nnodes), "1", NULL, 0, 1e6},
    {"nodes", STRING, FIELD(nodes), "", is_nodes, 0, 0},
    {"step_nodes", STRING, FIELD(step_nodes), "", is_nodes, 0, 0},
    {"ntasks", INT, FIELD(ntasks), "0", NULL, 0, 1e9},
    {"local_tasks", INT, FIELD(local_tasks), "0", NULL, 0, 1e6},
    {"dir", STRING, FIELD(dir), "", is_path, 0, 0},
    {"started", TIME, FIELD(started), "0", NULL, 0, 9.2e18},
    {"argus", STRING, FIELD(argus_version), "-", is_word, 0, 0},
    {"slurm", STRING, FIELD(slurm_version), "-", is_word, 0, 0},
    {"default", STRING, FIELD(default_), "off", is_word, 0, 0},
    {"mode", STRING, FIELD(mode), "summary", is_word, 0, 0},
    {"sources", STRING, FIELD(sources), "cupti,nccl,nvtx,stacks", is_word_list, 0, 0},
    {"links", STRING, FIELD(links), "off", is_word, 0, 0},
    {"window", INT, FIELD(window), "64", NULL, 1, 1e9},
    {"keep_mb", INT, FIELD(keep_mb), "64", NULL, 0, 1e6},
    {"ring_mb", INT, FIELD(ring_mb), "32", NULL, 1, 1e5},
    {"info", REAL, FIELD(info), "1.03", NULL, 1, 100},
    {"warn", REAL, FIELD(warn), "1.10", NULL, 1, 100},
    {"critical", REAL, FIELD(critical), "1.20", NULL, 1, 100},
    {"floor_ms", REAL, FIELD(floor_ms), "1", NULL, 0, 1e9},
    {"min_steps", INT, FIELD(min_steps), "20", NULL, 1, 1e9},
    {"comment", STRING, FIELD(comment), "admin", is_comment, 0, 0},
    {"drain_s", INT, FIELD(drain_s), "10", NULL, 0, 86400},
    {"deadline_s", INT, FIELD(deadline_s), "150", NULL, 0, 86400},
    {"summary", STRING, FIELD(summary), "off", is_switch, 0, 0},
    {"live", STRING, FIELD(live), "off", is_switch, 0, 0},
    {"lazy", STRING, FIELD(lazy), "off", is_word, 0, 0},
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

/* `value` lives as long as conf->text.  0, or -1 if it is no such value. */
static int set(struct argus_stepconf *conf, const struct key *key, const char *value)
{
    char *field = (char *)conf + key->offset;
    double real;
    char *end;

    if (key->type == STRING) {
        if (!key->valid(value))
            return -1;
        *(const char **)field = value;
        return 0;
    }
    if (key->type == REAL) {
        if (!isdigit((unsigned char)value[0]) || value[strspn(value, "0123456789.")])
            return -1;
        real = strtod(value, &end);
        if (*end || !isfinite(real) || real < key->min || real > key->max)
            return -1;
        *(double *)field = real;
        return 0;
    }
    if (!is_number(value) && key->type != TIME)
        return -1;
    if (!value[0] || strlen(value) > 19 || value[strspn(value, "0123456789")])
        return -1;
    real = (double)strtoull(value, NULL, 10);
    if (real < key->min || real > key->max)
        return -1;
    switch (key->type) {
    case SIZE:
        *(uint64_t *)field = strtoull(value, NULL, 10);
        break;
    case TIME:
        *(int64_t *)field = (int64_t)strtoull(value, NULL, 10);
        break;
    case UID:
        *(uid_t *)field = (uid_t)strtoul(value, NULL, 10);
        break;
    case GID:
        *(gid_t *)field = (gid_t)strtoul(value, NULL, 10);
        break;
    default:
        *(int *)field = (int)strtol(value, NULL, 10);
        break;
    }
    return 0;
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!strcmp(keys[i].name, name))
            return &keys[i];
    }
    return NULL;
}

static int parse_line(struct argus_stepconf *conf, char *line, unsigned char *given,
                      const char *name, argus_error_t *err)
{
    char *value = strchr(line, '=');
    const struct key *key;

    if (!value || value == line)
        return argus_error(err, "%s: \"%.60s\" is not key=value", name, line);
    *value++ = '\0';
    if (!strcmp(line, "version")) {
        if (strtol(value, NULL, 10) != ARGUS_STEP_CONF_VERSION)
            return argus_error(err, "%s: version \"%.20s\", this argus reads %d", name, value,
                               ARGUS_STEP_CONF_VERSION);
        return 0;
    }
    key = find_key(line);
    if (!key)
        return 0;
    if (given[key - keys])
        return argus_error(err, "%s: %s stands there twice", name, key->name);
    given[key - keys] = 1;
    if (set(conf, key, value) < 0)
        return argus_error(err, "%s: bad value of %s: \"%.60s\"", name, key->name, value);
    return 0;
}

int argus_stepconf_parse(const char *text, size_t length, const char *name,
                         struct argus_stepconf *conf, argus_error_t *err)
{
    unsigned char given[N_KEYS] = {0};
    char *line, *rest;

    memset(conf, 0, sizeof(*conf));
    if (length > ARGUS_STEP_CONF_MAX)
        return argus_error(err, "%s: longer than %d bytes", name, ARGUS_STEP_CONF_MAX);
    if (memchr(text, '\0', length))
        return argus_error(err, "%s: a NUL byte in it", name);
    for (size_t i = 0; i < N_KEYS; i++)
        set(conf, &keys[i], keys[i].initial);
    conf->text = strndup(text, length);
    if (!conf->text)
        return argus_error(err, "%s: out of memory", name);
    for (rest = conf->text; (line = strsep(&rest, "\n"));) {
        if (line[0] && parse_line(conf, line, given, name, err) < 0) {
            argus_stepconf_clear(conf);
            return -1;
        }
    }
    return 0;
}

int argus_stepconf_read(int dirfd, const char *path, uid_t owner, struct argus_stepconf *conf,
                        argus_error_t *err)
{
    char *text = NULL;
    size_t length = 0;
    struct stat st;
    int fd, rc = -1;

    memset(conf, 0, sizeof(*conf));
    /* O_NONBLOCK: somebody may have put a FIFO there. */
    fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return argus_error(err, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0) {
        argus_error(err, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        argus_error(err, "%s: not a regular file", path);
        goto out;
    }
    if (owner != (uid_t)-1 && (st.st_uid != owner || (st.st_mode & 022))) {
        argus_error(err, "%s: others than user %lu could have written it", path,
                    (unsigned long)owner);
        goto out;
    }
    text = malloc(ARGUS_STEP_CONF_MAX + 1);
    if (!text) {
        argus_error(err, "%s: out of memory", path);
        goto out;
    }
    /* One byte more than allowed shows that it is too long. */
    while (length <= ARGUS_STEP_CONF_MAX) {
        ssize_t n = read(fd, text + length, ARGUS_STEP_CONF_MAX + 1 - length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            argus_error(err, "%s: %s", path, strerror(errno));
            goto out;
        }
        if (n == 0)
            break;
        length += (size_t)n;
    }
    rc = argus_stepconf_parse(text, length, path, conf, err);
out:
    free(text);
    close(fd);
    return rc;
}

void argus_stepconf_clear(struct argus_stepconf *conf)
{
    free(conf->text);
    memset(conf, 0, sizeof(*conf));
}
