/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL calls from the payloads of NCCL's own NVTX ranges, for releases
 * without a profiler interface (2.18 to 2.22) and for jobs whose plugin slot
 * another tool has.
 *
 * Two layouts, told apart by their size: up to 2.24 a payload begins with the
 * bytes; from 2.25 on the communicator's hash comes first.  Bytes are one
 * rank's count times the element's size, so the record's type is INT8.
 */
#include "collector/inject/nvtx.h"

#include "collector/inject/cupti_facts.h"
#include "collector/inject/nccl.h"

bool argus_nccl_plugin_in_use(void)
{
    return argus_ring_is_open() &&
           __atomic_load_n(&argus_ring.header->nccl_interface, __ATOMIC_RELAXED) != 0;
}

static uint8_t function_of(uint64_t sid)
{
    switch (sid) {
    case NCCL_SID_ALLGATHER:
        return ARGUS_FUNC_ALLGATHER;
    case NCCL_SID_ALLREDUCE:
        return ARGUS_FUNC_ALLREDUCE;
    case NCCL_SID_BROADCAST:
        return ARGUS_FUNC_BROADCAST;
    case NCCL_SID_REDUCESCATTER:
        return ARGUS_FUNC_REDUCESCATTER;
    case NCCL_SID_REDUCE:
        return ARGUS_FUNC_REDUCE;
    case NCCL_SID_SEND:
        return ARGUS_FUNC_SEND;
    case NCCL_SID_RECV:
        return ARGUS_FUNC_RECV;
    case NCCL_SID_ALLTOALL:
        return ARGUS_FUNC_ALLTOALL;
    case NCCL_SID_GATHER:
        return ARGUS_FUNC_GATHER;
    case NCCL_SID_SCATTER:
        return ARGUS_FUNC_SCATTER;
    default:
        return ARGUS_FUNC_NONE;
    }
}

/* Peer or root is the first word after the bytes, except for the reduction
 * operator of AllReduce and ReduceScatter. */
static bool has_peer(uint8_t func)
{
    return func == ARGUS_FUNC_SEND || func == ARGUS_FUNC_RECV || func == ARGUS_FUNC_BROADCAST ||
           func == ARGUS_FUNC_REDUCE || func == ARGUS_FUNC_GATHER || func == ARGUS_FUNC_SCATTER;
}

static void call(uint8_t func, const uint8_t *data, size_t size)
{
    bool plain = func == ARGUS_FUNC_ALLGATHER || func == ARGUS_FUNC_ALLTOALL;
    bool with_comm = size >= (plain ? 16u : 24u);
    size_t bytes_at = with_comm ? 8 : 0;
    uint64_t hash = with_comm ? cf_u64(data, 0) : 0;
    struct argus_comm *comm;
    struct argus_record *r;

    if (size < 8)
        return;
    comm = argus_nccl_comm_of_hash(hash, -1);
    r = argus_ring_claim(ARGUS_SOURCE_NVTX, ARGUS_REC_OP, ARGUS_FLAG_NVTX, argus_tid());
    if (!r)
        return;
    r->start = r->end = argus_now(CLOCK_REALTIME);
    r->u.op.comm = hash;
    r->u.op.count = cf_u64(data, bytes_at);
    r->u.op.seq = __atomic_fetch_add(&comm->seq, 1, __ATOMIC_RELAXED);
    r->u.op.peer =
        has_peer(func) && size >= bytes_at + 12 ? (int32_t)cf_u32(data, bytes_at + 8) : -1;
    r->u.op.func = func;
    r->u.op.dtype = ARGUS_DTYPE_INT8;
    r->u.op.algo = r->u.op.proto = 0;
    r->u.op.stream = 0;
    argus_ring_commit(r, ARGUS_SOURCE_NVTX);
}

/* 2.25 on: { hash, ranks, rank, device }; before: { rank, ranks, device }. */
static void communicator(const uint8_t *data, size_t size)
{
    if (size >= 20)
        argus_nccl_comm_made(cf_u64(data, 0), NULL, 0, (int)cf_u32(data, 8), (int)cf_u32(data, 12),
                             0);
    else if (size >= 8)
        argus_nccl_comm_made(0, NULL, 0, (int)cf_u32(data, 4), (int)cf_u32(data, 0), 0);
}

/* { new hash, parent, ranks, rank, device, colour, key } */
static void split(const uint8_t *data, size_t size)
{
    if (size >= 24 && cf_u64(data, 0))
        argus_nccl_comm_made(cf_u64(data, 0), NULL, 0, (int)cf_u32(data, 16), (int)cf_u32(data, 20),
                             0);
}

void argus_nvtx_nccl(const struct nvtx_payload *payloads, size_t count, void *caller)
{
    for (size_t i = 0; i < count && i < 4; i++) {
        uint64_t sid = payloads[i].schema - NCCL_SCHEMA_BASE;
        uint8_t func = function_of(sid);

        if (!payloads[i].data || payloads[i].schema < NCCL_SCHEMA_BASE)
            continue;
        __atomic_fetch_add(&argus_activity, 1, __ATOMIC_RELAXED);
        if (unlikely(!func))
            argus_nccl_version(caller);
        if (func)
            call(func, payloads[i].data, payloads[i].size);
        else if (sid == NCCL_SID_COMM_INIT_RANK || sid == NCCL_SID_COMM_INIT_CONFIG ||
                 sid == NCCL_SID_COMM_INIT_SCALABLE)
            communicator(payloads[i].data, payloads[i].size);
        else if (sid == NCCL_SID_COMM_SPLIT)
            split(payloads[i].data, payloads[i].size);
    }
}
