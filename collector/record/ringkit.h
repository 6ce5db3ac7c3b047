/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests and benchmarks: the producer's side of a ring, and the records of
 * made-up training jobs.  What was put into the ring is counted, so that a
 * timeline can be held against it.
 */
#ifndef ARGUS_RECORD_RINGKIT_H
#define ARGUS_RECORD_RINGKIT_H

#include <argus/record.h>
#include <stddef.h>

enum kit_job {
    KIT_DENSE, /* tensor, pipeline and data parallel, 8 micro-batches */
    KIT_MOE,   /* as dense, with experts: all-to-all of unequal sizes, grouped kernels */
    KIT_DDP,   /* one backward pass with buckets beside it */
    KIT_STORM, /* kernels of 5 us, nothing else */
    KIT_GRAPH, /* the step replayed from a CUDA graph */
    KIT_JOBS
};

struct kit_options {
    enum kit_job job;
    unsigned kernels; /* a step, about */
    int rank, world;
    uint64_t seed;
    int64_t start; /* 0: now */
};

struct kit_totals {                 /* of what was committed */
    uint64_t records, kernels, gpu; /* gpu: what counts in `clusters` */
    uint64_t gpu_ns;
    uint64_t steps, dropped;
};

typedef struct ringkit ringkit_t;

/* NULL: see errno. */
ringkit_t *ringkit_create(const char *path, uint64_t slots, const struct kit_options *o);
void ringkit_close(ringkit_t *k); /* the file stays */
struct argus_ring_header *ringkit_header(ringkit_t *k);
uint32_t ringkit_name(ringkit_t *k, const char *text);
/* 1: committed, 0: the ring was full. */
int ringkit_put(ringkit_t *k, const struct argus_record *rec);
/* Claims the next slot and leaves it so. */
void ringkit_claim(ringkit_t *k);
/* One more step of the job, and the FLUSH records in between.  With `wait`: until there is room,
 * instead of dropping. */
void ringkit_step(ringkit_t *k, int wait);
/* The last FLUSH records, and the end that a process leaves. */
void ringkit_end(ringkit_t *k, int orderly);
const struct kit_totals *ringkit_totals(const ringkit_t *k);
int kit_job_from_name(const char *name); /* -1: no such */
const char *kit_job_name(enum kit_job job);

#endif /* ARGUS_RECORD_RINGKIT_H */
