/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we use of NCCL's profiler interface, versions 2 to 6: event bits,
 * descriptor offsets, entry points.  Offsets are from the start of the
 * descriptor; the event type is a byte up to version 4 and a word after.
 */
#ifndef ARGUS_COLLECTOR_NCCL_FACTS_H
#define ARGUS_COLLECTOR_NCCL_FACTS_H

#include <stdint.h>

/* Event bits, also those of the activation mask. */
#define NE_GROUP 1u
#define NE_COLL 2u
#define NE_P2P 4u
#define NE_PROXY_OP 8u
#define NE_PROXY_STEP 16u
#define NE_GROUP_API 256u
#define NE_COLL_API 512u
#define NE_P2P_API 1024u
#define NE_KERNEL_LAUNCH 2048u

/* States of a proxy step. */
#define NS_SEND_GPU_WAIT 8
#define NS_SEND_WAIT 9
#define NS_RECV_WAIT 10
#define NS_RECV_FLUSH_WAIT 11
#define NS_RECV_GPU_WAIT 12
#define NS_SEND_PEER_WAIT 20

enum {
    NCCL_TYPE = 0,
    NCCL_PARENT = 8,
    NCCL_RANK = 16,

    /* Coll and P2p of versions 2 and 3 begin with name and comm hash. */
    V2_HASH = 32,
    V2_COLL_SEQ = 40,
    V2_COLL_FUNC = 48,
    V2_COLL_COUNT = 72,
    V2_COLL_ROOT = 80,
    V2_COLL_DTYPE = 88,
    V2_COLL_ALGO = 112,
    V2_COLL_PROTO = 120,
    V3_COLL_ALGO = 104,
    V3_COLL_PROTO = 112,
    V2_P2P_FUNC = 40,
    V2_P2P_DTYPE = 56,
    V2_P2P_COUNT = 64,
    V2_P2P_PEER = 72,

    V4_COLL_SEQ = 24,
    V4_COLL_FUNC = 32,
    V4_COLL_COUNT = 56,
    V4_COLL_ROOT = 64,
    V4_COLL_DTYPE = 72,
    V4_COLL_ALGO = 88,
    V4_COLL_PROTO = 96,
    V4_P2P_FUNC = 24,
    V4_P2P_DTYPE = 40,
    V4_P2P_COUNT = 48,
    V4_P2P_PEER = 56,

    COLL_API_FUNC = 24,
    COLL_API_COUNT = 32,
    COLL_API_DTYPE = 40,
    COLL_API_ROOT = 48,
    COLL_API_STREAM = 56,
    COLL_API_CAPTURED = 64,
    P2P_API_FUNC = 24,
    P2P_API_COUNT = 32,
    P2P_API_DTYPE = 40,
    P2P_API_STREAM = 48,
    P2P_API_CAPTURED = 56,
    LAUNCH_STREAM = 24,

    PROXY_PID = 24,
    PROXY_CHANNEL = 28,
    PROXY_PEER = 32,
    PROXY_STEPS = 36,
    PROXY_CHUNK = 40,
    PROXY_IS_SEND = 44,
    STEP_NUMBER = 24,
    STATE_TRANS_SIZE = 0
};

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line,
                            const char *format, ...);

/* The five tables.  Same members, another init from 4 and again from 5 on. */
struct nccl_profiler_v2 { /* also version 3 */
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};
struct nccl_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes,
                int ranks, int rank, nccl_logger logger);
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};
struct nccl_profiler_v5 { /* also version 6 */
    const char *name;
    int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nodes,
                int ranks, int rank, nccl_logger logger);
    int (*start)(void *context, void **handle, void *descriptor);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

#endif /* ARGUS_COLLECTOR_NCCL_FACTS_H */
