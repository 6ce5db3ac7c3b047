/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this process is: rank, job, node; and whether it is one to be traced.
 * Read at the first record, not when the library is loaded: launchers below
 * one Slurm task set RANK and the like late.
 */
#include "collector/inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "argus/step.h"

#define RING_MB_DEFAULT 32
#define RING_MB_MAX 1024

struct argus_identity argus_identity;

static char conf_text[ARGUS_STEP_CONF_MAX + 1];

static void copy(char *to, size_t size, const char *from)
{
    size_t n = from ? strnlen(from, size - 1) : 0;

    if (n)
        memcpy(to, from, n);
    to[n] = '\0';
}

/* A whole decimal number within [min, max], else `otherwise`. */
static long number(const char *text, long min, long max, long otherwise)
{
    char *end;
    long value;

    if (!text || !*text)
        return otherwise;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || *end || value < min || value > max)
        return otherwise;
    return value;
}

static long env_number(const char *name, long otherwise)
{
    return number(getenv(name), 0, INT_MAX, otherwise);
}

static ssize_t read_file(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    ssize_t n;

    if (fd < 0)
        return -1;
    while (have < size - 1) {
        n = read(fd, buffer + have, size - 1 - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    close(fd);
    buffer[have] = '\0';
    return (ssize_t)have;
}

/* Value of a key in step.conf's text, terminated in place. */
static const char *conf_value(const char *text, const char *key, char *buffer, size_t size)
{
    size_t n = strlen(key);

    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, key, n) == 0 && line[n] == '=') {
            size_t length = strcspn(line + n + 1, "\n");

            if (length >= size)
                return NULL;
            memcpy(buffer, line + n + 1, length);
            buffer[length] = '\0';
            return buffer;
        }
        if (*line == '\0')
            break;
    }
    return NULL;
}

static uint64_t start_time(void)
{
    char text[1024], *p;
    unsigned long long value = 0;

    if (read_file("/proc/self/stat", text, sizeof(text)) < 0)
        return 0;
    p = strrchr(text, ')'); /* the name may hold blanks; field 3 follows it */
    for (int field = 3; p && field <= 22; field++) {
        p = strchr(p, ' ');
        if (p && field == 22)
            value = strtoull(p + 1, NULL, 10);
        if (p)
            p++;
    }
    return value;
}

/*
 * A launcher that starts several ranks below one task says so with a pair of
 * variables.  The pair counts only when it is consistent and at least as wide
 * as the task's own world: a RANK left over from a script would otherwise
 * give several processes one number.
 */
static void launcher_rank(int *rank, int *world)
{
    static const char *const pairs[][2] = {
        {"RANK", "WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"PMIX_RANK", "PMIX_SIZE"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        long r = env_number(pairs[i][0], -1);
        long w = env_number(pairs[i][1], -1);

        if (r >= 0 && w > r && w >= *world) {
            *rank = (int)r;
            *world = (int)w;
            return;
        }
    }
    /* PMIx names no size; alone it decides only below a single task. */
    if (*world <= 1 && env_number("PMIX_RANK", -1) >= 0)
        *rank = (int)env_number("PMIX_RANK", -1);
}

static void find_rank(struct argus_identity *id)
{
    static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID", "ARGUS_LOCAL_RANK", "SLURM_LOCALID"};

    id->rank = (int)env_number("ARGUS_RANK", env_number("SLURM_PROCID", -1));
    id->world = (int)env_number("ARGUS_WORLD", env_number("SLURM_NTASKS", 0));
    launcher_rank(&id->rank, &id->world);
    id->local_rank = -1;
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]) && id->local_rank < 0; i++)
        id->local_rank = (int)env_number(local[i], -1);
}

/* Compile workers and the servers of Python's multiprocessing never train. */
static bool helper_program(char *exe, size_t exe_size)
{
    static const char *const marks[] = {"compile_worker", "multiprocessing.resource_tracker",
                                        "multiprocessing.forkserver", "multiprocessing.semaphore"};
    char text[4096];
    ssize_t n = read_file("/proc/self/cmdline", text, sizeof(text));
    const char *base;

    if (n <= 0)
        return false;
    base = strrchr(text, '/');
    copy(exe, exe_size, base ? base + 1 : text);
    for (ssize_t i = 0; i < n; i++) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strstr(text, marks[i]))
            return true;
    }
    return false;
}

/* A child that was started by a traced process of the same rank is one of its
 * data loaders or compilers, whatever it does with CUDA. */
static bool child_of_traced(const struct argus_identity *id)
{
    char path[384];

    snprintf(path, sizeof(path), "%s/%d-%d" ARGUS_RING_SUFFIX, id->spool, id->rank, (int)getppid());
    return access(path, F_OK) == 0;
}

static void read_conf(struct argus_identity *id)
{
    char path[320], buffer[64];
    const char *value;
    long mb = RING_MB_DEFAULT;

    snprintf(path, sizeof(path), "%s/" ARGUS_STEP_CONF_NAME, id->spool);
    if (read_file(path, conf_text, sizeof(conf_text)) < 0)
        conf_text[0] = '\0';
    mb = number(conf_value(conf_text, "ring_mb", buffer, sizeof(buffer)), 1, RING_MB_MAX, mb);
    id->ring_slots = 1ULL << (63 - __builtin_clzll((uint64_t)mb << 20));
    id->ring_slots /= ARGUS_RECORD_BYTES;
    id->names_bytes = ARGUS_NAMES_BYTES_DEFAULT;
    value = conf_value(conf_text, "links", buffer, sizeof(buffer));
    id->links = value && strcmp(value, "on") == 0;
    id->links_every_min = (int)number(value, 1, 1440, 0);
}

int argus_identity_read(struct argus_identity *id)
{
    const char *spool = getenv("ARGUS_SPOOL");

    memset(id, 0, sizeof(*id));
    if (!spool || spool[0] != '/' || strlen(spool) >= sizeof(id->spool))
        return -1;
    copy(id->spool, sizeof(id->spool), spool);
    find_rank(id);
    if (helper_program(id->exe, sizeof(id->exe)) || child_of_traced(id))
        return -1;
    copy(id->job, sizeof(id->job), getenv("ARGUS_JOB"));
    copy(id->step, sizeof(id->step), getenv("ARGUS_STEP"));
    copy(id->node, sizeof(id->node), getenv("ARGUS_NODE"));
    if (!id->node[0] && gethostname(id->node, sizeof(id->node) - 1))
        id->node[0] = '\0';
    id->pid_start = start_time();
    read_conf(id);
    return 0;
}

bool argus_source_wanted(enum argus_source source)
{
    static const char *const names[] = {"cupti", "nccl", "nvtx", "stacks"};
    const char *list = getenv("ARGUS_SOURCES");
    const char *spool = getenv("ARGUS_SPOOL");
    size_t n = strlen(names[source]);

    if (!spool || spool[0] != '/')
        return false;
    if (!list || !*list)
        return true;
    for (const char *p = list; *p;) {
        size_t length = strcspn(p, ",+");

        if (length == n && strncmp(p, names[source], n) == 0)
            return true;
        p += length;
        p += *p != '\0';
    }
    return false;
}

size_t argus_memory_slack(void)
{
    struct rlimit limit;
    char text[128];
    unsigned long long pages = 0;

    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    if (read_file("/proc/self/statm", text, sizeof(text)) > 0)
        pages = strtoull(text, NULL, 10);
    pages *= (unsigned long long)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > pages ? (size_t)(limit.rlim_cur - pages) : 0;
}
