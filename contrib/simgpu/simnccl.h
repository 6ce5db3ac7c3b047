/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in NCCL host: loads a profiler plugin by NCCL's rules and calls it
 * in NCCL's order, release by release (SIMNCCL_VERSION=2.24 ... 2.30), and
 * launches one kernel a group of operations on the virtual GPU.
 *
 * When that kernel ends is not its business: the caller gives a function that
 * knows (simtrain asks the other members).
 */
#ifndef SIMNCCL_H
#define SIMNCCL_H

#include <stddef.h>
#include <stdint.h>

#include "simcu.h"

enum simnccl_func {
    SIMNCCL_ALLREDUCE,
    SIMNCCL_ALLGATHER,
    SIMNCCL_REDUCESCATTER,
    SIMNCCL_BROADCAST,
    SIMNCCL_REDUCE,
    SIMNCCL_SEND,
    SIMNCCL_RECV
};

enum simnccl_dtype { SIMNCCL_INT8, SIMNCCL_FLOAT32, SIMNCCL_BFLOAT16 };

struct simnccl_op {
    enum simnccl_func func;
    enum simnccl_dtype dtype;
    size_t count; /* as the user passes it: elements a rank */
    int peer;     /* of send and recv, root of broadcast and reduce; in the communicator */
};

struct simnccl_comm;

/* A kernel's course: it starts here, the last member arrives, all are done. */
struct simnccl_timing {
    int64_t start, last_arrival, end;
};

/* Fills last_arrival and end of a kernel that carries `count` operations of
 * `comm` and starts at timing->start here.  All members are asked in the same
 * order. */
typedef void simnccl_end_fn(void *user, struct simnccl_comm *comm, const struct simnccl_op *ops,
                            int count, struct simnccl_timing *timing);
/* How long `bytes` take from one member to another over the network; -1: they
 * share a node and need none. */
typedef int64_t simnccl_edge_fn(void *user, int from, int to, uint64_t bytes);

struct simnccl_comm_config {
    uint64_t id; /* equal on all members */
    const char *name;
    int nodes, ranks, rank;
    simcu_stream_t stream;
    simnccl_end_fn *end;
    simnccl_edge_fn *edge; /* may be NULL: no network */
    void *user;
};

SIMCU_API struct simnccl_comm *simnccl_comm_init(const struct simnccl_comm_config *config);
SIMCU_API void simnccl_comm_destroy(struct simnccl_comm *comm);
SIMCU_API const struct simnccl_comm_config *simnccl_comm_config(const struct simnccl_comm *comm);

/* One group call: all of ops go into one kernel.  Returns when it ends. */
SIMCU_API int64_t simnccl_run(struct simnccl_comm *comm, const struct simnccl_op *ops, int count);

SIMCU_API size_t simnccl_dtype_bytes(enum simnccl_dtype dtype);
/* 22803 for 2.28.3, as NCCL's own function of that name says it. */
SIMCU_API int ncclGetVersion(int *version);

#endif /* SIMNCCL_H */
