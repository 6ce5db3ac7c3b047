/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own NVTX ranges, 2.18 and later: domain "NCCL", one range a call, its
 * arguments as a payload.
 *
 *   from 2.25   communicator u64 @0, bytes u64 @8, operation, root or peer i32 @16
 *   before      bytes u64 @0, operation, root or peer i32 @8
 *   ncclCommInitRank   { communicator u64, ranks, rank, device i32 } as the range ends
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simnccl_profiler.h"
#include "simnvtx.h"

#define SCHEMA(n) ((1u << 24) + (n))
#define SCHEMA_COMM_INIT_RANK SCHEMA(0)
#define PAYLOAD_TYPE_EXT ((int32_t)0xDFBD0009)
#define MESSAGE_REGISTERED 3

struct event_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, payload_count;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
struct payload {
    uint64_t schema;
    size_t size;
    const void *data;
};
struct schema_attributes {
    uint64_t field_mask;
    const char *name;
    uint64_t type, flags;
    const void *entries;
    size_t entry_count, static_size, alignment;
    uint64_t id;
    void *extension;
};

static const struct {
    const char *name;
    unsigned schema;
} calls[] = {
    [SIMNCCL_ALLREDUCE] = {"ncclAllReduce", 5},
    [SIMNCCL_ALLGATHER] = {"ncclAllGather", 4},
    [SIMNCCL_REDUCESCATTER] = {"ncclReduceScatter", 7},
    [SIMNCCL_BROADCAST] = {"ncclBroadcast", 6},
    [SIMNCCL_REDUCE] = {"ncclReduce", 8},
    [SIMNCCL_SEND] = {"ncclSend", 9},
    [SIMNCCL_RECV] = {"ncclRecv", 10},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void *domain;
static const void *names[CALLS], *init_name;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void register_schema(unsigned id, const char *name)
{
    uint64_t (*add)(void *, const struct schema_attributes *);
    struct schema_attributes a = {.name = name, .type = 1, .id = SCHEMA(id)};

    a.field_mask = 1 | 2 | 128; /* name, type, schema id */
    add = (uint64_t(*)(
        void *, const struct schema_attributes *))simnvtx.payload[NVTX_PAYLOAD_SCHEMA_REGISTER];
    if (add)
        add(domain, &a);
}

static void open_domain(void)
{
    void *(*create)(const char *);
    const void *(*name)(void *, const char *);
    const char *off = getenv("NCCL_NVTX_DISABLE");

    if (simnccl_release() < 218 || (off && strcmp(off, "0") != 0))
        return;
    simnvtx_open();
    *(void **)&create = simnvtx.core2[NVTX_CORE2_DOMAIN_CREATE_A];
    *(void **)&name = simnvtx.core2[NVTX_CORE2_REGISTER_STRING_A];
    if (!create || !(domain = create("NCCL")))
        return;
    init_name = name ? name(domain, "ncclCommInitRank") : NULL;
    register_schema(0, "ncclCommInitRank");
    for (size_t i = 0; i < CALLS; i++) {
        names[i] = name ? name(domain, calls[i].name) : NULL;
        register_schema(calls[i].schema, calls[i].name);
    }
}

static void push(const void *name, struct payload *payload)
{
    int (*push_ex)(void *, const struct event_attributes *);
    struct event_attributes a = {.version = 3, .size = sizeof(a)};

    *(void **)&push_ex = simnvtx.core2[NVTX_CORE2_RANGE_PUSH_EX];
    if (!push_ex)
        return;
    a.message_type = MESSAGE_REGISTERED;
    a.message = name;
    if (payload) {
        a.payload_type = PAYLOAD_TYPE_EXT;
        a.payload_count = 1;
        a.payload = (uint64_t)(uintptr_t)payload;
    }
    push_ex(domain, &a);
}

void simnccl_nvtx_init_rank(const struct simnccl_comm_config *c)
{
    struct {
        uint64_t comm;
        int32_t ranks, rank, device;
    } data = {c->id, c->ranks, c->rank, 0};
    struct payload payload = {SCHEMA_COMM_INIT_RANK, sizeof(data), &data};
    int (*pop)(void *, const struct payload *, size_t);

    pthread_once(&once, open_domain);
    if (!domain)
        return;
    push(init_name, NULL);
    pop = (int (*)(void *, const struct payload *, size_t))simnvtx.payload[NVTX_PAYLOAD_RANGE_POP];
    if (pop)
        pop(domain, &payload, 1);
    else
        simnccl_nvtx_pop();
}

void simnccl_nvtx_push(const struct simnccl_comm_config *c, const struct simnccl_op *op)
{
    struct {
        uint64_t words[2];
        int32_t last, pad;
    } data = {{0, 0}, 0, 0};
    struct payload payload = {SCHEMA(calls[op->func].schema), sizeof(data), &data};
    uint64_t bytes = op->count * simnccl_dtype_bytes(op->dtype);
    int32_t argument = op->peer >= 0 ? op->peer : 0;

    if (!domain)
        return;
    if (simnccl_release() >= 225) {
        data.words[0] = c->id;
        data.words[1] = bytes;
        data.last = argument;
    } else {
        data.words[0] = bytes;
        memcpy(&data.words[1], &argument, sizeof(argument));
        payload.size = 2 * sizeof(uint64_t);
    }
    push(names[op->func], &payload);
}

void simnccl_nvtx_pop(void)
{
    int (*pop)(void *);

    *(void **)&pop = simnvtx.core2[NVTX_CORE2_RANGE_POP];
    if (domain && pop)
        pop(domain);
}
