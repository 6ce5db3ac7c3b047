/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simcupti_layout.h"
#include "simcupti_impl.h"

unsigned simcupti_record_bytes(unsigned kind, unsigned api)
{
    switch (kind) {
    case KIND_KERNEL:
    case KIND_CONCURRENT_KERNEL:
        return api >= API_13_0 ? KERNEL10_BYTES : api > API_11_8 ? KERNEL9_BYTES : KERNEL8_BYTES;
    case KIND_MEMCPY:
        return api >= API_12_8 ? COPY6_BYTES : COPY5_BYTES;
    case KIND_MEMCPY2:
        return PEER_BYTES_TOTAL;
    case KIND_MEMSET:
        return SET_BYTES_TOTAL;
    case KIND_RUNTIME:
    case KIND_DRIVER:
        return API_BYTES;
    case KIND_SYNCHRONIZATION:
        return api >= API_12_8 ? SYNC2_BYTES : SYNC1_BYTES;
    case KIND_OVERHEAD:
        return api >= API_13_0   ? OVERHEAD3_BYTES
               : api >= API_12_2 ? OVERHEAD2_BYTES
                                 : OVERHEAD1_BYTES;
    case KIND_GRAPH_TRACE:
        return api > API_11_8 ? GRAPH2_BYTES : GRAPH1_BYTES;
    case KIND_DEVICE:
        return api >= API_12_9 ? DEVICE5_BYTES : DEVICE4_BYTES;
    case KIND_EXTERNAL_CORRELATION:
        return EXTERNAL_BYTES;
    default:
        return 0;
    }
}

static void put8(uint8_t *p, unsigned at, uint8_t v)
{
    p[at] = v;
}

static void put16(uint8_t *p, unsigned at, uint16_t v)
{
    memcpy(p + at, &v, sizeof(v));
}

static void put32(uint8_t *p, unsigned at, uint32_t v)
{
    memcpy(p + at, &v, sizeof(v));
}

static void put64(uint8_t *p, unsigned at, uint64_t v)
{
    memcpy(p + at, &v, sizeof(v));
}

static void put_pointer(uint8_t *p, unsigned at, const void *v)
{
    memcpy(p + at, &v, sizeof(v));
}

static void write_kernel(uint8_t *p, const struct simcupti_event *e, unsigned api)
{
    const struct simcu_activity *a = &e->activity;

    put16(p, KERNEL_REGISTERS, 64);
    put64(p, KERNEL_START, e->start);
    put64(p, KERNEL_END, e->end);
    put64(p, KERNEL_COMPLETED, e->end);
    put32(p, KERNEL_DEVICE, a->device);
    put32(p, KERNEL_CONTEXT, a->context);
    put32(p, KERNEL_STREAM, a->stream);
    for (unsigned i = 0; i < 3; i++) {
        put32(p, KERNEL_GRID + 4 * i, a->grid[i]);
        put32(p, KERNEL_BLOCK + 4 * i, a->block[i]);
        put32(p, KERNEL_CLUSTER + 4 * i, 1);
    }
    put32(p, KERNEL_CORRELATION, e->correlation);
    put64(p, KERNEL_GRID_ID, a->correlation);
    put_pointer(p, KERNEL_NAME, a->name);
    put64(p, KERNEL_QUEUED, 0);
    put64(p, KERNEL_SUBMITTED, 0);
    put8(p, KERNEL_LAUNCH_TYPE, 0);
    put64(p, KERNEL_GRAPH_NODE, a->graph_node);
    put32(p, KERNEL_GRAPH, a->graph);
    put32(p, KERNEL_CHANNEL, 1);
    put32(p, KERNEL_CHANNEL_TYPE, 1);
    if (api >= API_13_0)
        put8(p, KERNEL_DEVICE_LAUNCHED, 0);
}

/* Memory kinds of the two ends: 1 pageable, 3 device */
static void write_copy(uint8_t *p, const struct simcupti_event *e, unsigned api)
{
    const struct simcu_activity *a = &e->activity;
    int peer = a->kind == SIMCU_MEMCPY_PEER;

    put8(p, COPY_KIND, (uint8_t)a->code);
    put8(p, COPY_SRC_KIND, a->code == 1 ? 2 : 3);
    put8(p, COPY_DST_KIND, a->code == 2 ? 2 : 3);
    put8(p, COPY_FLAGS, 1);
    put64(p, COPY_BYTES, a->bytes);
    put64(p, COPY_START, e->start);
    put64(p, COPY_END, e->end);
    put32(p, COPY_DEVICE, a->device);
    put32(p, COPY_CONTEXT, a->context);
    put32(p, COPY_STREAM, a->stream);
    if (peer) {
        put32(p, PEER_SRC_DEVICE, a->device);
        put32(p, PEER_SRC_CONTEXT, a->context);
        put32(p, PEER_DST_DEVICE, a->peer_device);
        put32(p, PEER_DST_CONTEXT, a->context);
        put32(p, PEER_CORRELATION, e->correlation);
        put64(p, PEER_GRAPH_NODE, a->graph_node);
        put32(p, PEER_GRAPH, a->graph);
        put32(p, PEER_CHANNEL, 2);
        return;
    }
    put32(p, COPY_CORRELATION, e->correlation);
    put64(p, COPY_GRAPH_NODE, a->graph_node);
    put32(p, COPY_GRAPH, a->graph);
    put32(p, COPY_CHANNEL, 2);
    if (api >= API_12_8)
        put64(p, COPY_COUNT, 1);
}

static void write_set(uint8_t *p, const struct simcupti_event *e)
{
    const struct simcu_activity *a = &e->activity;

    put32(p, SET_VALUE, 0);
    put64(p, SET_BYTES, a->bytes);
    put64(p, SET_START, e->start);
    put64(p, SET_END, e->end);
    put32(p, SET_DEVICE, a->device);
    put32(p, SET_CONTEXT, a->context);
    put32(p, SET_STREAM, a->stream);
    put32(p, SET_CORRELATION, e->correlation);
    put16(p, SET_FLAGS, 1);
    put16(p, SET_MEMORY_KIND, 3);
    put64(p, SET_GRAPH_NODE, a->graph_node);
    put32(p, SET_GRAPH, a->graph);
}

static void write_api(uint8_t *p, const struct simcupti_event *e)
{
    const struct simcu_activity *a = &e->activity;

    put32(p, API_CBID, e->record_kind == KIND_RUNTIME ? a->code : a->driver_cbid);
    put64(p, API_START, e->start);
    put64(p, API_END, e->end);
    put32(p, API_PROCESS, (uint32_t)getpid());
    put32(p, API_THREAD, a->tid);
    put32(p, API_CORRELATION, a->correlation);
    put32(p, API_RETURN, 0);
}

static void write_sync(uint8_t *p, const struct simcupti_event *e)
{
    const struct simcu_activity *a = &e->activity;

    put32(p, SYNC_TYPE, a->code);
    put64(p, SYNC_START, e->start);
    put64(p, SYNC_END, e->end);
    put32(p, SYNC_CORRELATION, e->correlation);
    put32(p, SYNC_CONTEXT, a->context);
    put32(p, SYNC_STREAM, a->stream);
    put32(p, SYNC_EVENT, UINT32_MAX);
}

static void write_overhead(uint8_t *p, const struct simcupti_event *e, unsigned api)
{
    const struct simcu_activity *a = &e->activity;

    put32(p, OVERHEAD_KIND, a->code);
    put32(p, OVERHEAD_OBJECT_KIND, 2); /* a thread */
    put32(p, OVERHEAD_OBJECT_ID, (uint32_t)getpid());
    put32(p, OVERHEAD_OBJECT_ID + 4, a->tid);
    put64(p, OVERHEAD_START, e->start);
    put64(p, OVERHEAD_END, e->end);
    if (api >= API_12_2)
        put32(p, OVERHEAD_CORRELATION, e->correlation);
    if (api >= API_13_0 && a->code == 6u << 16) {
        uint32_t *data = malloc(12); /* commandBufferLength, channelID, channelType */

        if (data) {
            data[0] = 1024;
            data[1] = 1;
            data[2] = 1;
        }
        put_pointer(p, OVERHEAD_DATA, data);
    }
}

static void write_graph(uint8_t *p, const struct simcupti_event *e, unsigned api)
{
    const struct simcu_activity *a = &e->activity;

    put32(p, GRAPH_CORRELATION, e->correlation);
    put64(p, GRAPH_START, e->start);
    put64(p, GRAPH_END, e->end);
    put32(p, GRAPH_DEVICE, a->device);
    put32(p, GRAPH_ID, a->graph);
    put32(p, GRAPH_CONTEXT, a->context);
    put32(p, GRAPH_STREAM, a->stream);
    if (api > API_11_8) {
        put32(p, GRAPH_END_DEVICE, a->device);
        put32(p, GRAPH_END_CONTEXT, a->context);
    }
}

static void write_device(uint8_t *p, const struct simcupti_event *e)
{
    put32(p, DEVICE_SMS, 132);
    put32(p, DEVICE_CC_MAJOR, 9);
    put32(p, DEVICE_CC_MINOR, 0);
    put32(p, DEVICE_ID, e->activity.device);
    memcpy(p + DEVICE_UUID, simcupti_device_uuid, 16);
    put_pointer(p, DEVICE_NAME, "Argus simulated GPU (not real)");
}

unsigned simcupti_record_write(uint8_t *p, const struct simcupti_event *e, unsigned api)
{
    unsigned bytes = simcupti_record_bytes(e->record_kind, api);

    memset(p, 0, bytes);
    put32(p, 0, e->record_kind);
    switch (e->record_kind) {
    case KIND_KERNEL:
    case KIND_CONCURRENT_KERNEL:
        write_kernel(p, e, api);
        break;
    case KIND_MEMCPY:
    case KIND_MEMCPY2:
        write_copy(p, e, api);
        break;
    case KIND_MEMSET:
        write_set(p, e);
        break;
    case KIND_RUNTIME:
    case KIND_DRIVER:
        write_api(p, e);
        break;
    case KIND_SYNCHRONIZATION:
        write_sync(p, e);
        break;
    case KIND_OVERHEAD:
        write_overhead(p, e, api);
        break;
    case KIND_GRAPH_TRACE:
        write_graph(p, e, api);
        break;
    case KIND_DEVICE:
        write_device(p, e);
        break;
    case KIND_EXTERNAL_CORRELATION:
        put32(p, EXTERNAL_KIND, e->activity.code);
        put64(p, EXTERNAL_ID, e->activity.bytes);
        put32(p, EXTERNAL_CORRELATION_ID, e->correlation);
        break;
    default:
        break;
    }
    return bytes;
}
