/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we use of CUPTI's activity API, as facts: numbers, offsets, call
 * signatures.  With it the collector compiles without the CUDA toolkit and
 * the same binary reads CUPTI 11.2 to 13.x.
 *
 * Record layouts only ever grew at the end, and a library writes the newest
 * layout it knows.  A field is therefore read at its offset when the loaded
 * version is at least the one that brought it, and the reader advances with
 * cuptiActivityGetNextRecord() alone.  cupti_check.c compares every number
 * here with cupti.h where configure finds it.
 */
#ifndef ARGUS_COLLECTOR_CUPTI_FACTS_H
#define ARGUS_COLLECTOR_CUPTI_FACTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Results. */
#define CU_OK 0
#define CU_MAX_LIMIT_REACHED 12
#define CU_NOT_COMPATIBLE 14
#define CU_NOT_INITIALIZED 15
#define CU_QUEUE_EMPTY 18
#define CU_INSUFFICIENT_PRIVILEGES 35
#define CU_MULTIPLE_SUBSCRIBERS 39

/* cuptiGetVersion(). */
#define CV_11_2 15u
#define CV_11_8 18u
#define CV_12_0 19u
#define CV_12_4 22u
#define CV_12_5 23u
#define CV_12_9 27u
#define CV_13_0_GA 130000u

/* Activity kinds. */
#define CK_MEMCPY 1
#define CK_MEMSET 2
#define CK_KERNEL 3
#define CK_DRIVER 4
#define CK_RUNTIME 5
#define CK_CONCURRENT_KERNEL 10
#define CK_OVERHEAD 17
#define CK_MEMCPY2 22
#define CK_SYNCHRONIZATION 38
#define CK_GRAPH_TRACE 51

/* Attributes. */
#define CA_DEVICE_BUFFER_POOL_LIMIT 2 /* size_t */
#define CA_ZEROED_OUT 5               /* uint8_t */

#define CF_FLUSH_FORCED 1u

/* Callback ids of the calls that can stall on the allocator. */
#define CB_RUNTIME_cudaMalloc 20
#define CB_RUNTIME_cudaFree 22
#define CB_DRIVER_cuMemCreate 549
#define CB_DRIVER_cuMemRelease 550

/* Overhead kinds that need care. */
#define CO_COMMAND_BUFFER_FULL (6u << 16)

/* Offsets in bytes from the start of a record; `kind` is at 0 in all. */
enum {
    /* kernel: the same from CUDA 9 on; graph id since 11.1 */
    KERNEL_START = 16,
    KERNEL_END = 24,
    KERNEL_DEVICE = 40,
    KERNEL_STREAM = 48,
    KERNEL_GRID_X = 52,
    KERNEL_GRID_Y = 56,
    KERNEL_GRID_Z = 60,
    KERNEL_BLOCK_X = 64,
    KERNEL_BLOCK_Y = 68,
    KERNEL_BLOCK_Z = 72,
    KERNEL_NAME = 104,
    KERNEL_GRAPH_NODE = 144,
    KERNEL_GRAPH = 156,

    MEMCPY_COPY_KIND = 4,
    MEMCPY_SRC_KIND = 5,
    MEMCPY_DST_KIND = 6,
    MEMCPY_BYTES = 8,
    MEMCPY_START = 16,
    MEMCPY_END = 24,
    MEMCPY_DEVICE = 32,
    MEMCPY_STREAM = 40,
    MEMCPY_GRAPH = 72,

    PEER_SRC_DEVICE = 44, /* as memcpy up to the stream */
    PEER_DST_DEVICE = 52,
    PEER_GRAPH = 80,

    MEMSET_BYTES = 8,
    MEMSET_START = 16,
    MEMSET_END = 24,
    MEMSET_DEVICE = 32,
    MEMSET_STREAM = 40,
    MEMSET_MEMORY_KIND = 50,
    MEMSET_GRAPH = 72,

    API_CBID = 4,
    API_START = 8,
    API_END = 16,

    SYNC_TYPE = 4,
    SYNC_START = 8,
    SYNC_END = 16,
    SYNC_STREAM = 32,

    GRAPH_START = 8,
    GRAPH_END = 16,
    GRAPH_DEVICE = 24,
    GRAPH_ID = 28,
    GRAPH_STREAM = 36,

    OVERHEAD_KIND = 4,
    OVERHEAD_START = 24,
    OVERHEAD_END = 32,
    OVERHEAD_DATA = 48 /* since 13.0, allocated with malloc() for the client */
};

static inline uint8_t cf_u8(const uint8_t *record, size_t offset)
{
    return record[offset];
}
static inline uint16_t cf_u16(const uint8_t *record, size_t offset)
{
    uint16_t v;

    memcpy(&v, record + offset, sizeof(v));
    return v;
}
static inline uint32_t cf_u32(const uint8_t *record, size_t offset)
{
    uint32_t v;

    memcpy(&v, record + offset, sizeof(v));
    return v;
}
static inline uint64_t cf_u64(const uint8_t *record, size_t offset)
{
    uint64_t v;

    memcpy(&v, record + offset, sizeof(v));
    return v;
}
static inline void *cf_pointer(const uint8_t *record, size_t offset)
{
    void *v;

    memcpy(&v, record + offset, sizeof(v));
    return v;
}

/* Calls; CUPTIAPI is empty on Linux, enums travel as int. */
typedef void (*cupti_requested_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_completed_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                   size_t valid);
struct cupti_calls {
    int (*get_version)(uint32_t *version);
    int (*get_timestamp)(uint64_t *timestamp);
    int (*register_callbacks)(cupti_requested_fn requested, cupti_completed_fn completed);
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush_all)(uint32_t flags);
    int (*next_record)(uint8_t *buffer, size_t valid, uint8_t **record);
    int (*dropped)(void *context, uint32_t stream, size_t *dropped);
    int (*set_attribute)(int attribute, size_t *size, void *value);
    int (*stream_id)(void *context, void *stream, uint8_t per_thread, uint32_t *id);
    /* NULL before 12.5 */
    int (*enable_runtime_api)(uint32_t cbid, uint8_t enable);
    int (*enable_driver_api)(uint32_t cbid, uint8_t enable);
};

#endif /* ARGUS_COLLECTOR_CUPTI_FACTS_H */
