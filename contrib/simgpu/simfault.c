/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simfault.h"

static const char *const known[] = {"enable",
                                    "register",
                                    "flush",
                                    "version",
                                    "subscriber-taken",
                                    "zero-times",
                                    "sentinel",
                                    "reversed",
                                    "far",
                                    "out-of-order",
                                    "drop",
                                    "no-kernels",
                                    "null-buffer-crash",
                                    "threads",
                                    "takeover",
                                    "takeover-refuse",
                                    "foreign-finalize",
                                    "flush-hang",
                                    "disable-hang",
                                    "pool-exhausted",
                                    "pool-stuck",
                                    "torn-down",
                                    "callback-thread",
                                    "many-names",
                                    "stale-names",
                                    "clock-step",
                                    "fork",
                                    "kill",
                                    "nccl-foreign-pid",
                                    "nccl-stop-null",
                                    "nccl-double-stop",
                                    "nccl-missing-stop",
                                    "nccl-unknown-type",
                                    "nccl-late-state"};

static struct simfault faults[SIMFAULT_MAX];
static int fault_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A wrong switch must not look like a passed test: say so and stop. */
static void refuse(const char *item)
{
    fprintf(stderr, "simgpu: SIMGPU_FAULT: cannot read '%s'\n", item);
    exit(2);
}

static int is_known(const char *name)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], name) == 0)
            return 1;
    return 0;
}

static void parse_one(char *item)
{
    struct simfault *f = &faults[fault_count];
    char *value = strchr(item, ':');
    char *at, *end;

    if (fault_count == SIMFAULT_MAX)
        refuse(item);
    memset(f, 0, sizeof(*f));
    f->to = UINT64_MAX;
    if (value)
        *value++ = '\0';
    at = strchr(item, '@');
    if (at) {
        *at++ = '\0';
        f->from = strtoull(at, &end, 10);
        if (end != at && *end == '-')
            f->to = strtoull(end + 1, &end, 10);
        if (end == at || *end != '\0')
            refuse(at);
    }
    if (!is_known(item))
        refuse(item);
    memcpy(f->name, item, strlen(item) + 1);
    if (value) {
        f->value = strtod(value, &end);
        snprintf(f->text, sizeof(f->text), "%s", end > value && *end == ':' ? end + 1 : value);
    }
    fault_count++;
}

static void parse(void)
{
    const char *env = getenv("SIMGPU_FAULT");
    char *copy, *item, *rest;

    if (!env || !*env || !(copy = strdup(env)))
        return;
    for (item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest))
        parse_one(item);
    free(copy);
}

int simfault_armed(void)
{
    pthread_once(&once, parse);
    return fault_count > 0;
}

void simfault_disarm(void)
{
    fault_count = 0;
}

struct simfault *simfault_find(const char *name)
{
    if (!simfault_armed())
        return NULL;
    for (int i = 0; i < fault_count; i++)
        if (strcmp(faults[i].name, name) == 0)
            return &faults[i];
    return NULL;
}

const struct simfault *simfault_due(const char *name, uint64_t count)
{
    struct simfault *f = simfault_find(name);

    if (!f || f->fired || count < f->from)
        return NULL;
    f->fired = 1;
    return f;
}

const struct simfault *simfault_active(const char *name, uint64_t count)
{
    struct simfault *f = simfault_find(name);

    return f && count >= f->from && count <= f->to ? f : NULL;
}

double simfault_value(const char *name, double otherwise)
{
    struct simfault *f = simfault_find(name);

    return f ? f->value : otherwise;
}
