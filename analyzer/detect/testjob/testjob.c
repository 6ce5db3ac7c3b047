/* SPDX-License-Identifier: Apache-2.0 */
/* One simulated job into a directory: testjob DIR key=value... fault... */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/detect/testjob/jobsim.h"

static const struct {
    const char *name;
    enum job_fault_kind kind;
} kinds[] = {
    {"slow-rank", JOB_SLOW_RANK},
    {"slow-kernel", JOB_SLOW_KERNEL},
    {"slow-family", JOB_SLOW_FAMILY},
    {"shared-gpu", JOB_SHARED_GPU},
    {"ramp", JOB_RAMP},
    {"link-node", JOB_LINK_NODE},
    {"link-rank", JOB_LINK_RANK},
    {"link-nic", JOB_LINK_NIC},
    {"link-pair", JOB_LINK_PAIR},
    {"link-group", JOB_LINK_GROUP},
    {"host-stall", JOB_HOST_STALL},
    {"data-stall", JOB_DATA_STALL},
    {"jit", JOB_JIT},
    {"alloc-stall", JOB_ALLOC_STALL},
    {"slow-stage", JOB_SLOW_STAGE},
    {"imbalance", JOB_IMBALANCE},
    {"long-sequence", JOB_LONG_SEQUENCE},
    {"moe-hot", JOB_MOE_HOT},
    {"copy-bound", JOB_COPY_BOUND},
    {"extra-reduce", JOB_EXTRA_REDUCE},
    {"all-slow", JOB_ALL_SLOW},
    {"barrier-work", JOB_BARRIER_WORK},
    {"late-start", JOB_LATE_START},
    {"slow-copy", JOB_SLOW_COPY},
};

static int set_number(struct job_spec *s, const char *key, double v)
{
    const struct {
        const char *name;
        int *to;
    } ints[] = {{"tp", &s->tp},
                {"pp", &s->pp},
                {"ep", &s->ep},
                {"layers", &s->layers},
                {"steps", &s->steps},
                {"microbatches", &s->microbatches},
                {"window", &s->window},
                {"ranks-per-node", &s->ranks_per_node},
                {"names", &s->names},
                {"fused", &s->fused},
                {"skip-rank", &s->skip_rank},
                {"stage-layers", &s->stage_layers},
                {"marks", &s->marks}};
    const struct {
        const char *name;
        double *to;
    } reals[] = {{"noise", &s->noise},
                 {"spread", &s->spread},
                 {"link-noise", &s->link_noise},
                 {"scale", &s->scale},
                 {"clock-ms", &s->clock_ms}};

    for (size_t i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
        if (!strcmp(key, ints[i].name)) {
            *ints[i].to = (int)v;
            return 0;
        }
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++)
        if (!strcmp(key, reals[i].name)) {
            *reals[i].to = v;
            return 0;
        }
    if (!strcmp(key, "seed")) {
        s->seed = (uint64_t)v;
        return 0;
    }
    return -1;
}

/* "slow-rank,rank=3,factor=1.2,from=20" */
static int set_fault(struct job_spec *s, char *text)
{
    char *save = NULL, *word = strtok_r(text, ",", &save);
    struct job_fault *f = NULL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(word, kinds[i].name))
            f = job_spec_fault(s, kinds[i].kind);
    while (f && (word = strtok_r(NULL, ",", &save))) {
        char *eq = strchr(word, '=');
        double v;

        if (!eq)
            return -1;
        *eq++ = '\0';
        v = atof(eq);
        if (!strcmp(word, "rank"))
            f->rank = (int)v;
        else if (!strcmp(word, "rank2"))
            f->rank2 = (int)v;
        else if (!strcmp(word, "node"))
            f->node = (int)v;
        else if (!strcmp(word, "stage"))
            f->stage = (int)v;
        else if (!strcmp(word, "factor"))
            f->factor = v;
        else if (!strcmp(word, "ms"))
            f->ms = v;
        else if (!strcmp(word, "from"))
            f->from = (int)v;
        else if (!strcmp(word, "to"))
            f->to = (int)v;
        else if (!strcmp(word, "every"))
            f->every = (int)v;
        else if (!strcmp(word, "grow"))
            f->grow = (int)v;
        else if (!strcmp(word, "memory"))
            f->memory = (int)v;
        else if (!strcmp(word, "pattern"))
            f->pattern = eq;
        else
            return -1;
    }
    return f ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct job_spec s;
    argus_error_t err = {{0}};

    if (argc < 3) {
        fputs("Usage: testjob DIR RANKS [key=value...] [fault,key=value...]\n", stderr);
        return 2;
    }
    job_spec_init(&s, atoi(argv[2]));
    for (int i = 3; i < argc; i++) {
        char *eq = strchr(argv[i], '='), *comma = strchr(argv[i], ',');

        if (eq && (!comma || comma > eq)) {
            *eq = '\0';
            if (!set_number(&s, argv[i], atof(eq + 1)))
                continue;
        } else if (!set_fault(&s, argv[i])) {
            continue;
        }
        fprintf(stderr, "testjob: %s\n", argv[i]);
        return 2;
    }
    mkdir(argv[1], 0777);
    if (job_run(&s, argv[1], &err)) {
        fprintf(stderr, "testjob: %s\n", err.text);
        return 1;
    }
    return 0;
}
