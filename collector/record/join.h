/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which collective a communication kernel carried.
 *
 * Calls come from the application's threads (OP, closed by LAUNCH where NCCL
 * tells it), kernels from the GPU.  With LAUNCH: the k-th launch on a stream
 * is the k-th communication kernel on it.  Without: calls of one function are
 * matched in order, a stream being bound to the communicator it was first
 * matched with.  Kernels replayed from a graph take the call that was
 * captured for their node.  Where function and kernel contradict one another
 * the kernel stays unmatched: never guess.
 */
#ifndef ARGUS_RECORD_JOIN_H
#define ARGUS_RECORD_JOIN_H

#include <argus/record.h>
#include <stddef.h>

#include "analyzer/util/blob.h"

typedef struct argus_join argus_join_t;

struct argus_call { /* what one communication kernel carried */
    uint64_t comm;  /* 0: unknown */
    uint64_t bytes;
    int64_t time; /* of the call */
    uint32_t seq;
    int32_t peer;
    uint8_t func;
    uint8_t dtype;
    uint16_t ops;
    uint32_t stream; /* 0: unknown */
    uint32_t tid;
    uint16_t told; /* of its operations: NCCL said of so many whom they are with */
};

argus_join_t *argus_join_create(void);
void argus_join_destroy(argus_join_t *j);
/* OP, OP_DETAIL and LAUNCH records in ring order.  -1: no memory. */
int argus_join_record(argus_join_t *j, const struct argus_record *rec);
/* Kernels of one stream in order of start.  1: *call is what it carried; 0: unmatched. */
int argus_join_kernel(argus_join_t *j, int func, uint32_t stream, uint32_t graph,
                      uint32_t graph_node, int64_t start, struct argus_call *call);
/* Records of either kind were lost: from now on a call must be older than its kernel. */
void argus_join_lossy(argus_join_t *j);
/* GPU records up to `end` were lost: calls made before it have no kernel any more. */
void argus_join_gap(argus_join_t *j, int64_t end);
void argus_join_save(const argus_join_t *j, struct argus_blob *b);
/* Into an empty one; what is damaged shows in b->failed. */
void argus_join_restore(argus_join_t *j, struct argus_blob *b);
/* Calls that wait for a kernel. */
size_t argus_join_waiting(const argus_join_t *j);

#endif /* ARGUS_RECORD_JOIN_H */
