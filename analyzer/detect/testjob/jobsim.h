/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training job in one process: programs of kernels, copies and collectives
 * for every rank, played against one another in virtual time, with faults, and
 * written as timelines.  It stands for volume: hundreds of jobs in minutes,
 * where simtrain, the collector and the recorder stand for the whole chain.
 * Nothing here is a GPU; the timelines say "simulated".
 */
#ifndef ARGUS_TESTJOB_H
#define ARGUS_TESTJOB_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/util/error.h"

enum job_fault_kind {
    JOB_SLOW_RANK = 1, /* rank, factor: all its kernels */
    JOB_SLOW_KERNEL,   /* rank, factor, pattern: kernels whose name contains it */
    JOB_SLOW_FAMILY,   /* rank, factor, memory: 1 memory-bound kernels only, 0 the others only */
    JOB_SHARED_GPU,    /* rank, factor: a third of its kernels take factor times as long */
    JOB_RAMP,          /* rank, factor reached at the end */
    JOB_LINK_NODE,     /* node, factor: transfers that enter or leave it */
    JOB_LINK_RANK,     /* rank, factor: transfers of groups it is in that stay in the node */
    JOB_LINK_NIC,      /* rank, factor: its transfers that leave the node */
    JOB_LINK_PAIR,     /* rank, rank2, factor: send and receive between them */
    JOB_LINK_GROUP,    /* rank: its data parallel group */
    JOB_HOST_STALL,    /* rank (-1: rotating), ms, every; grow: longer each time */
    JOB_DATA_STALL,    /* rank, ms, every: idle at the start of the step */
    JOB_JIT,           /* rank, ms, every: with an OVERHEAD record and a kernel never seen before */
    JOB_ALLOC_STALL,   /* rank, ms, every: with cudaFree and cudaMalloc records */
    JOB_SLOW_STAGE,    /* stage, factor: more layers' worth of kernels */
    JOB_IMBALANCE,     /* rank (-1: another each step), factor: more kernels */
    JOB_LONG_SEQUENCE, /* rank (-1: another each step), factor: larger grids */
    JOB_MOE_HOT,       /* rank (-1: moves), factor: expert kernels and all-to-all bytes */
    JOB_COPY_BOUND,    /* ms of copies on every rank */
    JOB_OFFLOAD,       /* ms of copies before every other layer of the backward, beside gradients */
    JOB_EXTRA_REDUCE,  /* ms of one more world all-reduce */
    JOB_ALL_SLOW,      /* factor: every rank's kernels */
    JOB_BARRIER_WORK,  /* rank, ms of host work before a barrier at the end of the step */
    JOB_LATE_START,    /* rank, ms late into the first step only */
    JOB_SLOW_COPY,     /* rank, factor: copies from the host */
    JOB_LARGER_BUCKETS /* factor: of half of the gradients' messages; the others share their way */
};

enum job_tp_use {
    JOB_TP_REDUCE,   /* activations: all-reduces */
    JOB_TP_SEQUENCE, /* ... gathered and scattered in turn */
    JOB_TP_SHARDS    /* none: the weights of a layer are gathered, their gradients scattered */
};

struct job_fault {
    enum job_fault_kind kind;
    int rank, rank2, node, stage;
    double factor, ms;
    int from, to; /* steps, to: exclusive, 0: to the end */
    int every;    /* 0, 1: every step */
    int grow, memory;
    const char *pattern;
};

/* What a device says: `usual` on every rank (a port: on the first of every node), on `rank` `value`
 * from `late` seconds after step `from` began.  Counters are given as totals, 0 before. */
struct job_health {
    const char *metric, *device; /* device NULL: the rank's GPU */
    int rank, from;
    double usual, value, late;
};

#define JOB_FAULTS 8

struct job_spec {
    int world, tp, pp, ep; /* dp follows */
    int layers;            /* a stage; default 4 */
    int microbatches;      /* default 1, pipelines 2 x pp */
    int steps;             /* default 60 */
    int ranks_per_node;    /* default 8 or world */
    uint64_t seed;
    double noise;      /* of a kernel, default 0.01 */
    double spread;     /* between ranks, lasting, default 0.003 */
    double link_noise; /* of a transfer, default 0.02 */
    double scale;      /* of all durations, default 1 */
    double clock_ms;   /* offsets between the nodes' clocks, at most */
    int names;         /* communicators carry names */
    int window;        /* kept steps, 0: every event; default 16 */
    int skip_rank;     /* -1; a rank whose timeline is not written */
    int stage_layers;  /* more layers on the last stage */
    int marks;         /* steps are marked, as a profiler does; default 1 */
    int tp_use;        /* what the tp groups exchange: enum job_tp_use */
    int fused;         /* sends and receives are told as calls with nobody in particular */
    int broadcast;     /* the first step sends the weights to all replicas */
    struct job_fault faults[JOB_FAULTS];
    size_t n_faults;
    struct job_health health[JOB_FAULTS];
    size_t n_health;
};

void job_spec_init(struct job_spec *spec, int world);
struct job_fault *job_spec_fault(struct job_spec *spec, enum job_fault_kind kind);
/* Play the job and write <dir>/rank-NNNNN.h5. */
int job_run(const struct job_spec *spec, const char *dir, argus_error_t *err);

#endif /* ARGUS_TESTJOB_H */
