/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we use of NVTX's injection interface: module tables, the payload
 * extension, event attributes, and the payloads that NCCL attaches.
 * cupti_check.c compares with the headers where configure finds them.
 */
#ifndef ARGUS_COLLECTOR_NVTX_FACTS_H
#define ARGUS_COLLECTOR_NVTX_FACTS_H

#include <stddef.h>
#include <stdint.h>

#define NX_ETID_CALLBACKS 1

#define NX_MODULE_CORE 1
enum {
    NX_MARK_EX = 1,
    NX_MARK_A = 2,
    NX_MARK_W = 3,
    NX_RANGE_START_EX = 4,
    NX_RANGE_START_A = 5,
    NX_RANGE_START_W = 6,
    NX_RANGE_END = 7,
    NX_PUSH_EX = 8,
    NX_PUSH_A = 9,
    NX_PUSH_W = 10,
    NX_POP = 11
};
#define NX_MODULE_CORE2 5
enum {
    NX2_MARK_EX = 1,
    NX2_RANGE_START_EX = 2,
    NX2_RANGE_END = 3,
    NX2_PUSH_EX = 4,
    NX2_POP = 5,
    NX2_REGISTER_STRING_A = 10,
    NX2_DOMAIN_CREATE_A = 12,
    NX2_DOMAIN_DESTROY = 14
};

/* A slot is the address of a function pointer in the client. */
typedef void (*nvtx_function)(void);
typedef nvtx_function **nvtx_table;
struct nvtx_callbacks {
    size_t struct_size;
    int (*module_table)(uint32_t module, nvtx_table *table, unsigned *size);
};

/* The extension: slots hold the functions themselves. */
#define NX_PAYLOAD_MODULE 2
enum {
    NXP_SCHEMA_REGISTER = 0,
    NXP_MARK = 2,
    NXP_PUSH = 3,
    NXP_POP = 4,
    NXP_START = 5,
    NXP_END = 6,
    NXP_DOMAIN_IS_ENABLED = 7
};
struct nvtx_segment {
    size_t id;
    size_t count;
    intptr_t *slots;
};
struct nvtx_extension {
    uint16_t version;
    uint16_t struct_size;
    uint16_t module;
    uint16_t compat;
    size_t count;
    struct nvtx_segment *segments;
};
#define NX_SCHEMA_ID_AT 64 /* of nvtxPayloadSchemaAttr_t */
#define NX_SCHEMA_DYNAMIC (1ULL << 32)

#define NX_PAYLOAD_EXT ((int32_t)0xDFBD0009)
#define NX_MESSAGE_ASCII 1
#define NX_MESSAGE_UNICODE 2
#define NX_MESSAGE_REGISTERED 3
struct nvtx_attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved; /* number of payloads for NX_PAYLOAD_EXT */
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
struct nvtx_payload {
    uint64_t schema;
    size_t size;
    const void *data;
};

/* NCCL's schemas: static ids from 1 << 24 on. */
#define NCCL_SCHEMA_BASE (1ULL << 24)
enum {
    NCCL_SID_COMM_INIT_RANK = 0,
    NCCL_SID_ALLGATHER = 4,
    NCCL_SID_ALLREDUCE = 5,
    NCCL_SID_BROADCAST = 6,
    NCCL_SID_REDUCESCATTER = 7,
    NCCL_SID_REDUCE = 8,
    NCCL_SID_SEND = 9,
    NCCL_SID_RECV = 10,
    NCCL_SID_COMM_INIT_CONFIG = 11,
    NCCL_SID_COMM_INIT_SCALABLE = 12,
    NCCL_SID_COMM_SPLIT = 13,
    NCCL_SID_ALLTOALL = 16,
    NCCL_SID_GATHER = 17,
    NCCL_SID_SCATTER = 18
};

#endif /* ARGUS_COLLECTOR_NVTX_FACTS_H */
