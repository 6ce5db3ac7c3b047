/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simtrain: a rank of a simulated training job.  Private to its files.
 *
 * All times are nanoseconds of the virtual clock (simcu.h).
 */
#ifndef SIMTRAIN_H
#define SIMTRAIN_H

#include <limits.h>
#include <stdint.h>

#include "simcu.h"
#include "simnccl.h"

#define NAME_MAX_BYTES 64
#define MAX_FAULTS 64
#define MAX_FAULT_STEPS 16
#define RANK_ALL (-1)
#define RANK_ROTATE (-2)

enum fault_kind {
    FAULT_SLOW_RANK,
    FAULT_SLOW_KERNEL,
    FAULT_SLOW_LINK,
    FAULT_HOST_STALL,
    FAULT_DATA_STALL,
    FAULT_JIT,
    FAULT_ALLOC_STALL,
    FAULT_SLOW_STAGE,
    FAULT_IMBALANCE,
    FAULT_MOE_HOT,
    FAULT_COPY_BOUND,
    FAULT_EXTRA_ALLREDUCE,
    FAULT_BARRIER_WORK,
    FAULT_SLOW_COPY,
    FAULT_DIE
};

enum link_target { LINK_NODE, LINK_RANK, LINK_PAIR };

struct fault {
    enum fault_kind kind;
    int rank, rank_b; /* rank, stage; RANK_* */
    enum link_target target;
    char text[NAME_MAX_BYTES]; /* node or kernel pattern */
    int node;                  /* LINK_NODE: index, once known */
    double factor;
    int64_t ns;
    int every;    /* 0: each step */
    int growing;  /* the stall grows by half of itself each time */
    int from, to; /* steps, both included */
    int steps[MAX_FAULT_STEPS], step_count;
    int signal;
};

struct options {
    int steps, layers, buckets, microbatches, tp, pp, dp, ep, ranks_per_node, zero;
    int spawn, quiet, nvtx, ignore_term, timeout_s, reinit_every;
    int bucket_mb, graphs, autograd_thread, loaders;
    enum { LEAVE_RETURN, LEAVE_EXIT_NOW, LEAVE_ABORT } leave;
    uint64_t seed;
    double noise; /* relative */
    double pace;  /* 0: as fast as it goes */
    char rendezvous[4096];
    char clock_node[NAME_MAX_BYTES];
    int64_t clock_offset;
    struct fault faults[MAX_FAULTS];
    int fault_count;
};

/* Who we are. */
struct identity {
    int rank, world, local_rank, local_size;
    char node[NAME_MAX_BYTES];
    char run[4096]; /* equal on all ranks of a run, different between runs */
};

/* The others, as the rendezvous tells. */
struct peers {
    int64_t epoch;  /* virtual zero, CLOCK_REALTIME */
    uint64_t token; /* of this run */
    int *node_of;   /* [world] */
    int nodes;
    char (*names)[NAME_MAX_BYTES]; /* [nodes] */
};

struct net;

/* One communicator of this rank. */
struct group {
    const struct train *train;
    struct simnccl_comm *nccl;
    uint64_t id;   /* equal on all members, new in each run */
    uint64_t salt; /* equal in all runs: for noise */
    int n, me;
    int *members; /* global ranks */
    simcu_stream_t stream;
    uint32_t calls;
    uint32_t *sent, *received; /* [n] */
    int64_t extra;             /* ns that we add to the current transfer */
};

struct train {
    struct options options;
    struct identity self;
    struct peers peers;
    struct net *net;
    int tp_rank, dp_rank, pp_rank;
    int step;
    simcu_stream_t compute, copy;
    struct group dp, tp, pp, ep;
    double silicon;   /* this GPU's permanent factor */
    double step_slow; /* this step's factor for compute */
    double work;      /* this step's factor of work: grids and durations */
    double moe_work;
    uint64_t kernels; /* launched in this step */
    uint64_t total_kernels, total_collectives;
    int jit_kernels;
    int64_t step_start;
};

/* train_options.c: exits with status 2 and a message on bad usage. */
void options_parse(struct options *o, int argc, char **argv);
int fault_active(const struct fault *f, int step);

/* train_identity.c */
void identity_find(struct identity *self, const struct options *o);

/* train_net.c: meets the others; exits with status 1 when they do not come. */
struct net *net_join(const struct identity *self, const struct options *o, struct peers *peers);
/* Asks all `members` members of event `id`: *time becomes the largest of
 * theirs, *extra the largest of theirs. */
void net_post(struct net *net, uint64_t id, int members, int64_t time, int64_t extra);
void net_collect(struct net *net, uint64_t id, int64_t *time, int64_t *extra);
void net_leave(struct net *net, int world);

/* train_link.c */
int64_t link_transfer(const struct group *g, const struct simnccl_op *ops, int count,
                      uint64_t call);
int64_t link_pair(const struct train *t, int a, int b, uint64_t bytes, uint64_t call);
void link_resolve_nodes(struct options *o, const struct peers *peers);

/* train_group.c */
void groups_make(struct train *t);
void groups_free(struct train *t);
int64_t group_run(struct group *g, const struct simnccl_op *ops, int count);
int64_t group_collective(struct group *g, enum simnccl_func func, enum simnccl_dtype dtype,
                         uint64_t bytes);
int64_t group_all_to_all(struct group *g, uint64_t bytes, int64_t extra);

/* train_kernels.c */
struct kernel {
    const char *name;
    uint32_t grid, block;
    int ns;
};
struct kernel_list {
    const struct kernel *kernels;
    int count;
};
enum kernel_list_name {
    ATTENTION_FORWARD,
    MLP_FORWARD,
    MLP_BACKWARD,
    ATTENTION_BACKWARD,
    ROUTER,
    EXPERT_FORWARD,
    EXPERT_BACKWARD,
    EMBEDDING,
    HEAD_FORWARD,
    HEAD_BACKWARD,
    GRADIENT_NORM,
    OPTIMIZER
};
/* share: of the batch.  work: factor of grid and duration. */
void kernel_launch(struct train *t, const struct kernel *k, double share, double work);
void kernel_launch_list(struct train *t, enum kernel_list_name which, double share, double work);

/* train_faults.c */
int fault_is_mine(const struct train *t, const struct fault *f);
/* Sum of the stalls of that kind that are due in this step. */
int64_t fault_stalls(const struct train *t, enum fault_kind kind);
double fault_on_kernel(const struct train *t, const char *name);
void fault_set_factors(struct train *t);
void fault_die_if_told(const struct train *t);

/* train_step.c */
void train_step(struct train *t);
void train_warm_up(struct train *t);

/* train_nvtx.c: as NVTX3 does it; nothing without NVTX_INJECTION64_PATH. */
void nvtx_open(void);
void nvtx_push(const char *name);
void nvtx_pop(void);

/* train_random.c: counter-based, equal everywhere for equal arguments. */
uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
double uniform(uint64_t h);  /* 0 <= x < 1 */
double gaussian(uint64_t h); /* about normal, within +-3.5 */

#endif /* SIMTRAIN_H */
