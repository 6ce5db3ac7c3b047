/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler plugin, versions 2 to 6.
 *
 * "Fire and forget": everything is done in startEvent, handles stay NULL, so
 * NCCL calls neither stopEvent nor recordEventState for them and nothing of
 * ours has a lifetime.  Two exceptions: up to 2.27 NCCL reports collectives
 * only below a group whose handle is not NULL (it gets the address of a
 * static object), and up to 2.25 it stops events without looking at the
 * handle (stop accepts anything).  Proxy events, opt-in, have handles:
 * nccl_links.c.
 *
 * From 2.28 on (versions 5, 6) the API events are the record of a call and
 * Coll/P2p only its detail: a broadcast makes no Coll event from 2.29 on.
 * Older versions have Coll/P2p alone; there one OP carries both.
 */
#define _GNU_SOURCE
#include "collector/inject/nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "collector/inject/cupti_facts.h"

#define MASK_OLD (NE_COLL | NE_P2P)
#define MASK_NEW (NE_COLL | NE_P2P | NE_COLL_API | NE_P2P_API | NE_KERNEL_LAUNCH)

static char group_dummy[8]; /* its address is the group's handle up to v4 */

/* The library that calls us, asked for its version. */
void argus_nccl_version(void *caller)
{
    int (*get_version)(int *version) = NULL;
    int version = 0;
    void *library = NULL, *address;
    Dl_info info;

    if (!argus_ring_is_open() || argus_ring.header->nccl_version)
        return;
    if (dladdr(caller, &info) && info.dli_fname)
        library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    address = dlsym(library ? library : RTLD_DEFAULT, "ncclGetVersion");
    memcpy(&get_version, &address, sizeof(address));
    if (get_version && get_version(&version) == 0 && version > 0)
        argus_ring.header->nccl_version = (uint32_t)version;
    if (library)
        dlclose(library);
}

/* Returns NCCL's context: the communicator, or, where NCCL has none of ours, its library. */
static void *begin(uint32_t version, int *mask, uint64_t id, const char *name, int nodes, int ranks,
                   int rank, void *caller)
{
    struct argus_comm *comm = argus_nccl_no_comm();
    struct argus_library *library = NULL;
    int saved = errno;

    __atomic_store_n(mask, 0, __ATOMIC_RELAXED);
    if (argus_dead() || !argus_source_wanted(ARGUS_SOURCE_NCCL)) {
        if (!argus_dead())
            argus_ring_standdown(ARGUS_SOURCE_NCCL, ARGUS_REASON_OFF, 0);
        goto out;
    }
    if (!argus_ring_is_open() && argus_ring_open())
        goto out;
    if (argus_ring.header->nccl_interface < version)
        argus_ring.header->nccl_interface = version;
    argus_nccl_version(caller);
    if (version >= 4) {
        comm = argus_nccl_comm_new(id);
        argus_nccl_comm_made(id, name, nodes, ranks, rank, version);
    }
    library = argus_mask_set(mask, (int)(version >= 5 ? MASK_NEW : MASK_OLD));
    if (comm != argus_nccl_no_comm())
        comm->library = library;
out:
    errno = saved;
    return comm == argus_nccl_no_comm() && library ? (void *)library : comm;
}

struct call {
    enum argus_record_type type;
    uint32_t flags;
    const char *func, *dtype, *algo, *proto;
    uint64_t count;
    uint32_t seq;
    int32_t peer;
    void *stream;
    bool has_stream;
};

static bool rooted(uint8_t func)
{
    return func == ARGUS_FUNC_BROADCAST || func == ARGUS_FUNC_REDUCE || func == ARGUS_FUNC_GATHER ||
           func == ARGUS_FUNC_SCATTER;
}

static void call_record(struct argus_comm *comm, const struct call *call)
{
    int64_t now = argus_now(CLOCK_REALTIME);
    uint32_t stream = call->has_stream ? argus_cupti_stream(call->stream, now) : 0;
    uint8_t func = argus_nccl_func(call->func);
    uint32_t seq = call->seq;
    struct argus_record *r;

    __atomic_fetch_add(&argus_activity, 1, __ATOMIC_RELAXED);
    /* Counted before the record is claimed: a call that is lost to a full
     * ring leaves a hole in the numbers, not a shift. */
    if (call->type == ARGUS_REC_OP)
        seq = __atomic_fetch_add(&comm->seq, 1, __ATOMIC_RELAXED);
    r = argus_ring_claim(ARGUS_SOURCE_NCCL, call->type, call->flags, argus_tid());
    if (unlikely(!r))
        return;
    r->start = r->end = now;
    r->u.op.comm = __atomic_load_n(&comm->id, __ATOMIC_RELAXED);
    r->u.op.count = call->count;
    r->u.op.seq = seq;
    r->u.op.peer =
        func == ARGUS_FUNC_SEND || func == ARGUS_FUNC_RECV || rooted(func) ? call->peer : -1;
    r->u.op.func = func;
    r->u.op.dtype = call->type == ARGUS_REC_LAUNCH ? 0 : argus_nccl_dtype(call->dtype);
    r->u.op.algo = argus_nccl_algo(call->algo);
    r->u.op.proto = argus_nccl_proto(call->proto);
    r->u.op.stream = stream;
    argus_ring_commit(r, ARGUS_SOURCE_NCCL);
}

static const char *text(const uint8_t *d, size_t offset)
{
    return cf_pointer(d, offset);
}

static void coll_v2(const uint8_t *d, bool v3)
{
    struct call call = {
        .type = ARGUS_REC_OP,
        .func = text(d, V2_COLL_FUNC),
        .count = cf_u64(d, V2_COLL_COUNT),
        .peer = (int32_t)cf_u32(d, V2_COLL_ROOT),
        .dtype = text(d, V2_COLL_DTYPE),
        .algo = text(d, v3 ? V3_COLL_ALGO : V2_COLL_ALGO),
        .proto = text(d, v3 ? V3_COLL_PROTO : V2_COLL_PROTO),
    };

    call_record(argus_nccl_comm_of_hash(cf_u64(d, V2_HASH), (int)cf_u32(d, NCCL_RANK)), &call);
}

static void p2p_v2(const uint8_t *d)
{
    struct call call = {
        .type = ARGUS_REC_OP,
        .func = text(d, V2_P2P_FUNC),
        .count = cf_u64(d, V2_P2P_COUNT),
        .peer = (int32_t)cf_u32(d, V2_P2P_PEER),
        .dtype = text(d, V2_P2P_DTYPE),
    };

    call_record(argus_nccl_comm_of_hash(cf_u64(d, V2_HASH), (int)cf_u32(d, NCCL_RANK)), &call);
}

static void coll_v4(struct argus_comm *comm, const uint8_t *d, enum argus_record_type type)
{
    struct call call = {
        .type = type,
        .seq = (uint32_t)cf_u64(d, V4_COLL_SEQ),
        .func = text(d, V4_COLL_FUNC),
        .count = cf_u64(d, V4_COLL_COUNT),
        .peer = (int32_t)cf_u32(d, V4_COLL_ROOT),
        .dtype = text(d, V4_COLL_DTYPE),
        .algo = text(d, V4_COLL_ALGO),
        .proto = text(d, V4_COLL_PROTO),
    };

    call_record(comm, &call);
}

static void p2p_v4(struct argus_comm *comm, const uint8_t *d, enum argus_record_type type)
{
    struct call call = {
        .type = type,
        .func = text(d, V4_P2P_FUNC),
        .count = cf_u64(d, V4_P2P_COUNT),
        .peer = (int32_t)cf_u32(d, V4_P2P_PEER),
        .dtype = text(d, V4_P2P_DTYPE),
    };

    call_record(comm, &call);
}

static void coll_api(struct argus_comm *comm, const uint8_t *d)
{
    struct call call = {
        .type = ARGUS_REC_OP,
        .flags = ARGUS_FLAG_API | (cf_u8(d, COLL_API_CAPTURED) ? ARGUS_FLAG_GRAPH_CAPTURED : 0),
        .func = text(d, COLL_API_FUNC),
        .count = cf_u64(d, COLL_API_COUNT),
        .peer = (int32_t)cf_u32(d, COLL_API_ROOT),
        .dtype = text(d, COLL_API_DTYPE),
        .stream = cf_pointer(d, COLL_API_STREAM),
        .has_stream = true,
    };

    call_record(comm, &call);
}

static void p2p_api(struct argus_comm *comm, const uint8_t *d)
{
    struct call call = {
        .type = ARGUS_REC_OP,
        .flags = ARGUS_FLAG_API | (cf_u8(d, P2P_API_CAPTURED) ? ARGUS_FLAG_GRAPH_CAPTURED : 0),
        .func = text(d, P2P_API_FUNC),
        .count = cf_u64(d, P2P_API_COUNT),
        .peer = -1, /* comes with the P2p event */
        .dtype = text(d, P2P_API_DTYPE),
        .stream = cf_pointer(d, P2P_API_STREAM),
        .has_stream = true,
    };

    call_record(comm, &call);
}

static void launch(struct argus_comm *comm, const uint8_t *d)
{
    struct call call = {
        .type = ARGUS_REC_LAUNCH,
        .peer = -1,
        .stream = cf_pointer(d, LAUNCH_STREAM),
        .has_stream = true,
    };

    call_record(comm, &call);
}

static int start_v2v3(void *context, void **handle, const uint8_t *d, bool v3)
{
    if (unlikely(!d || argus_dead()))
        return 0;
    switch (cf_u8(d, NCCL_TYPE)) {
    case NE_GROUP:
        *handle = group_dummy;
        return 0;
    case NE_COLL:
        coll_v2(d, v3);
        break;
    case NE_P2P:
        p2p_v2(d);
        break;
    case NE_PROXY_OP:
        argus_links_op_start(argus_nccl_comm_of(context), handle, d);
        return 0;
    case NE_PROXY_STEP:
        argus_links_step_start(handle, d);
        return 0;
    default:
        break;
    }
    *handle = NULL;
    return 0;
}

static int start_v2(void *context, void **handle, void *descriptor)
{
    return start_v2v3(context, handle, descriptor, false);
}

static int start_v3(void *context, void **handle, void *descriptor)
{
    return start_v2v3(context, handle, descriptor, true);
}

static int start_v4(void *context, void **handle, void *descriptor)
{
    const uint8_t *d = descriptor;

    if (unlikely(!d || argus_dead()))
        return 0;
    switch (cf_u8(d, NCCL_TYPE)) {
    case NE_GROUP:
        *handle = group_dummy;
        return 0;
    case NE_COLL:
        coll_v4(argus_nccl_comm_of(context), d, ARGUS_REC_OP);
        break;
    case NE_P2P:
        p2p_v4(argus_nccl_comm_of(context), d, ARGUS_REC_OP);
        break;
    case NE_PROXY_OP:
        argus_links_op_start(argus_nccl_comm_of(context), handle, d);
        return 0;
    case NE_PROXY_STEP:
        argus_links_step_start(handle, d);
        return 0;
    default:
        break;
    }
    *handle = NULL;
    return 0;
}

static int start_v5(void *context, void **handle, void *descriptor)
{
    const uint8_t *d = descriptor;

    if (unlikely(!d || argus_dead()))
        return 0;
    *handle = NULL;
    switch (cf_u64(d, NCCL_TYPE)) {
    case NE_COLL_API:
        coll_api(argus_nccl_comm_of(context), d);
        break;
    case NE_P2P_API:
        p2p_api(argus_nccl_comm_of(context), d);
        break;
    case NE_KERNEL_LAUNCH:
        launch(argus_nccl_comm_of(context), d);
        break;
    case NE_COLL:
        coll_v4(argus_nccl_comm_of(context), d, ARGUS_REC_OP_DETAIL);
        break;
    case NE_P2P:
        p2p_v4(argus_nccl_comm_of(context), d, ARGUS_REC_OP_DETAIL);
        break;
    case NE_PROXY_OP:
        argus_links_op_start(argus_nccl_comm_of(context), handle, d);
        break;
    case NE_PROXY_STEP:
        argus_links_step_start(handle, d);
        break;
    default:
        break;
    }
    return 0;
}

static int stop(void *handle)
{
    if (unlikely(argus_links_owns(handle)) && !argus_dead())
        argus_links_stop(handle);
    return 0;
}

static int state(void *handle, int value, void *arguments)
{
    if (unlikely(argus_links_owns(handle)) && !argus_dead())
        argus_links_state(handle, value, arguments);
    return 0;
}

static int finalize(void *context)
{
    struct argus_comm *comm = argus_nccl_comm_of(context);
    struct argus_library *library = argus_mask_library(context);

    if (comm != argus_nccl_no_comm())
        library = __atomic_exchange_n(&comm->library, NULL, __ATOMIC_RELAXED);
    argus_nccl_comm_gone(context);
    argus_mask_gone(library);
    return 0;
}

static int init_v2(void **context, int *mask)
{
    *context = begin(2, mask, 0, NULL, 0, 0, 0, __builtin_return_address(0));
    return 0;
}

static int init_v3(void **context, int *mask)
{
    *context = begin(3, mask, 0, NULL, 0, 0, 0, __builtin_return_address(0));
    return 0;
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
                   int rank, nccl_logger logger)
{
    (void)logger;
    *context = begin(4, mask, hash, name, nodes, ranks, rank, __builtin_return_address(0));
    return 0;
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                   int rank, nccl_logger logger)
{
    (void)logger;
    *context = begin(5, mask, id, name, nodes, ranks, rank, __builtin_return_address(0));
    return 0;
}

static int init_v6(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                   int rank, nccl_logger logger)
{
    (void)logger;
    *context = begin(6, mask, id, name, nodes, ranks, rank, __builtin_return_address(0));
    return 0;
}

ARGUS_EXPORT const struct nccl_profiler_v2 ncclProfiler_v2 = {"argus", init_v2, start_v2,
                                                              stop,    state,   finalize};
ARGUS_EXPORT const struct nccl_profiler_v2 ncclProfiler_v3 = {"argus", init_v3, start_v3,
                                                              stop,    state,   finalize};
ARGUS_EXPORT const struct nccl_profiler_v4 ncclProfiler_v4 = {"argus", init_v4, start_v4,
                                                              stop,    state,   finalize};
ARGUS_EXPORT const struct nccl_profiler_v5 ncclProfiler_v5 = {"argus", init_v5, start_v5,
                                                              stop,    state,   finalize};
ARGUS_EXPORT const struct nccl_profiler_v5 ncclProfiler_v6 = {"argus", init_v6, start_v5,
                                                              stop,    state,   finalize};
