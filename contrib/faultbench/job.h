/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultbench: made-up training jobs with known faults.
 *
 * A job is a program for every rank (streams, launches, collectives, sends and
 * receives), run in virtual time with true dependencies: a collective ends
 * when its last member has arrived and the bytes are across.  What comes out
 * are events, as a real run would leave them; nothing here knows how the
 * analyzer thinks, and no code is shared with its model.
 *
 * Times are int64 ns of virtual time, sizes bytes.
 */
#ifndef FAULTBENCH_JOB_H
#define FAULTBENCH_JOB_H

#include <stddef.h>
#include <stdint.h>

enum fb_style { FB_DDP, FB_FSDP, FB_3D, FB_MOE, FB_STYLE_COUNT };

enum fb_fault_kind {
    FB_HEALTHY = 0,
    FB_SLOW_GPU,       /* every compute kernel of `rank` takes `magnitude` times as long */
    FB_SLOW_MEMORY,    /* only the memory-bound kernels do */
    FB_SLOW_CLASS,     /* only one kernel class does */
    FB_SLOW_NODE_LINK, /* transfers that cross `node`'s network */
    FB_SLOW_GPU_LINK,  /* transfers over `rank`'s own link */
    FB_SLOW_PCIE,      /* copies between `rank`'s host and GPU */
    FB_HOST_STALL,     /* `rank`'s host loses magnitude * step time within the step */
    FB_HOST_PERIODIC,  /* ... in one step of `period`, and as much more */
    FB_HOST_ROTATING,  /* ... another rank each time */
    FB_DATA_STALL,     /* ... at the start of the step */
    FB_JIT_STALL,      /* ... rare, followed by kernels never seen before, with OVERHEAD records */
    FB_ALLOC_STALL,    /* ... with cudaFree/cudaMalloc records */
    FB_SLOW_STAGE,     /* every replica of pipeline stage `stage` */
    FB_WORKLOAD,       /* more and larger kernels, on a rank that moves */
    FB_MOE_HOT,        /* tokens pile up on an expert that moves */
    FB_UNIFORM,        /* every rank's compute, from the onset */
    FB_SPLIT,          /* half of every peer group, from the start */
    FB_FAULT_COUNT
};

struct fb_fault {
    enum fb_fault_kind kind;
    double magnitude;
    int rank, node, stage;
    int onset; /* first faulty step, 0: from the start */
    int end;   /* first healthy step again, -1: never */
    int period;
};

/* Relative standard deviations; the defaults come from the healthy spreads of
 * public traces (within-stage compute <= 1.7 %, GEMM <= 0.5 %, step <= 0.8 %). */
struct fb_noise {
    double rank;   /* constant per rank: silicon, cooling */
    double kernel; /* per kernel */
    double step;   /* per step, common to all ranks: data */
    double link;   /* per transfer */
    double host;   /* per launch */
    double copy;   /* per copy between host and GPU, and constant per rank: sockets, switches */
};

struct fb_spec {
    enum fb_style style;
    int world, tp, pp, dp, ep;
    int shard;   /* FSDP: ranks that share a layer's parameters; dp / shard replicas of them */
    int offload; /* activations spend the time between forward and backward in the host's memory */
    int ranks_per_node;
    int steps, layers, microbatches, chunks;
    uint64_t seed;
    struct fb_noise noise;
    double clock_offset_ms; /* each node's clock is off by up to this */
    struct fb_fault fault;
    int window;     /* full-resolution window of the timelines; 0: every event */
    int times_only; /* only when the steps begin and end, no events */
};

/* 0 compute, 1 gradients, 2..5 pipeline, 6 tensor/expert, 7 copies to the GPU, 8 from it */
#define FB_STREAMS 9

struct fb_class { /* what the emitter turns into a class row */
    int kind;     /* enum argus_class_kind */
    int func, family, dtype;
    const char *name;
    uint32_t grid[3], block[3];
    int group; /* communicator, -1 */
    int peer;  /* rank within it, -1 */
    uint64_t bytes;
};

struct fb_event {
    int64_t start, duration;
    uint32_t cls; /* index into fb_result.classes */
    uint16_t stream;
    uint32_t seq;
};

struct fb_group { /* a communicator */
    const char *name;
    int *ranks;
    int size;
    uint64_t hash;
};

struct fb_rank_events {
    struct fb_event *v;
    size_t n, room;
};

struct fb_result {
    struct fb_spec spec;
    struct fb_class *classes;
    size_t n_classes, classes_room;
    struct fb_group *groups;
    size_t n_groups;
    struct fb_rank_events *events; /* [world], sorted by start */
    int64_t *step_end;             /* [world * steps] */
    int64_t *step_start;
};

void fb_defaults(struct fb_spec *spec, enum fb_style style, int world);
/* 0, or -1: no memory, or a program that cannot end (a bug: it says so). */
int fb_run(const struct fb_spec *spec, struct fb_result *out);
void fb_result_free(struct fb_result *r);

/* Timelines "rank-NNNNN.h5" and step.json below dir/step-0, by the product's own writer. */
int fb_emit(const struct fb_result *r, const char *dir, char *error, size_t error_size);

/* scale's lines of figures as a picture; an exit status. */
int fb_scale_plot(const char *data, const char *svg);

const char *fb_style_name(enum fb_style style);
const char *fb_fault_name(enum fb_fault_kind kind);

/* splitmix64 / xoshiro-free: one small generator, the same on every machine. */
uint64_t fb_random(uint64_t *state);
double fb_uniform(uint64_t *state); /* [0, 1) */
double fb_normal(uint64_t *state);  /* mean 0, sd 1 */

#endif /* FAULTBENCH_JOB_H */
