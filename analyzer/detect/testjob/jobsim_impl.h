/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUS_TESTJOB_IMPL_H
#define ARGUS_TESTJOB_IMPL_H

#include <argus/record.h>
#include <argus/timeline.h>

#include "analyzer/detect/testjob/jobsim.h"

/* Streams of a rank. */
enum { STREAM_COMPUTE, STREAM_DP, STREAM_TP, STREAM_SEND, STREAM_RECV, STREAM_COPY, STREAMS };

enum op_kind { OP_KERNEL, OP_COLLECTIVE, OP_SYNC, OP_IDLE, OP_COPY };

struct kernel_type {
    const char *name;
    uint32_t grid, block;
    double us;
    int memory; /* memory-bound */
};

struct op {
    enum op_kind kind;
    int type; /* kernel: index into kernel types; idle: enum argus_class_kind of its record or 0 */
    uint32_t grid; /* kernel: 0 = the type's */
    int group, func, peer, stream;
    uint64_t bytes;
    double us; /* kernel, copy, idle: duration; collective: transfer time */
    int mark;  /* 1: first op of a step */
};

struct job_group {
    uint64_t hash;
    char name[32];
    int size, *members; /* ranks */
    int inter;          /* crosses nodes */
    int kind;           /* 't', 'd', 'p', 'e', 'x' (edp), 'w' */
};

struct emitted {
    int64_t start, duration;
    int kind, type, func, group, peer, stream;
    uint32_t grid;
    uint64_t bytes;
};

struct job_rank {
    int rank, tp, dp, pp, node, local;
    double speed;
    uint64_t rng;
    struct op *ops; /* program of the whole job */
    size_t n_ops, room;
    struct emitted *events;
    size_t n_events, events_room;
    /* player */
    size_t pc;
    double now;             /* compute stream */
    double stream[STREAMS]; /* end of what was enqueued */
    int pending[STREAMS];   /* collective not yet finished, -1 */
    uint32_t *calls;        /* per group: collectives issued */
};

struct job {
    struct job_spec s;
    int dp, nodes;
    struct job_group *groups;
    int n_groups;
    int *tp_group, *dp_group, *pp_group, *ep_group, *edp_group; /* by rank, -1 */
    int world_group;
    struct job_rank *ranks;
    uint64_t rng;
};

extern const struct kernel_type job_kernels[];

double job_uniform(uint64_t *rng);
double job_normal(uint64_t *rng);
int job_program(struct job *j); /* fill the ranks' ops */
int job_play(struct job *j, argus_error_t *err);
int job_write(struct job *j, const char *dir, argus_error_t *err);
int job_emit(struct job_rank *r, const struct emitted *e);

#endif /* ARGUS_TESTJOB_IMPL_H */
