/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's record layouts against those of CUPTI 13.0, at compile time.
 * Built only where the toolkit's headers are at hand; has no code.
 */
#include <stddef.h>
#include <cuda.h>
#include <cupti.h>

#include "simcupti_layout.h"

#define AT(record, field, offset)                                                                  \
    _Static_assert(offsetof(CUpti_Activity##record, field) == (offset), #record "." #field)
#define BYTES(record, size)                                                                        \
    _Static_assert(sizeof(CUpti_Activity##record) == (size), "size of " #record)
#define VALUE(name, value) _Static_assert((int)(name) == (int)(value), #name)

VALUE(CUPTI_ACTIVITY_KIND_MEMCPY, KIND_MEMCPY);
VALUE(CUPTI_ACTIVITY_KIND_MEMSET, KIND_MEMSET);
VALUE(CUPTI_ACTIVITY_KIND_KERNEL, KIND_KERNEL);
VALUE(CUPTI_ACTIVITY_KIND_DRIVER, KIND_DRIVER);
VALUE(CUPTI_ACTIVITY_KIND_RUNTIME, KIND_RUNTIME);
VALUE(CUPTI_ACTIVITY_KIND_DEVICE, KIND_DEVICE);
VALUE(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, KIND_CONCURRENT_KERNEL);
VALUE(CUPTI_ACTIVITY_KIND_OVERHEAD, KIND_OVERHEAD);
VALUE(CUPTI_ACTIVITY_KIND_MEMCPY2, KIND_MEMCPY2);
VALUE(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, KIND_SYNCHRONIZATION);
VALUE(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, KIND_EXTERNAL_CORRELATION);
VALUE(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, KIND_GRAPH_TRACE);
VALUE(CUPTI_ERROR_NOT_COMPATIBLE, 14);
VALUE(CUPTI_ERROR_NOT_INITIALIZED, 15);
VALUE(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, 35);
VALUE(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39);
VALUE(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, 9);

BYTES(Kernel8, KERNEL8_BYTES);
BYTES(Kernel9, KERNEL9_BYTES);
BYTES(Kernel10, KERNEL10_BYTES);
AT(Kernel10, registersPerThread, KERNEL_REGISTERS);
AT(Kernel10, start, KERNEL_START);
AT(Kernel10, end, KERNEL_END);
AT(Kernel10, completed, KERNEL_COMPLETED);
AT(Kernel10, deviceId, KERNEL_DEVICE);
AT(Kernel10, contextId, KERNEL_CONTEXT);
AT(Kernel10, streamId, KERNEL_STREAM);
AT(Kernel10, gridX, KERNEL_GRID);
AT(Kernel10, blockX, KERNEL_BLOCK);
AT(Kernel10, correlationId, KERNEL_CORRELATION);
AT(Kernel10, gridId, KERNEL_GRID_ID);
AT(Kernel10, name, KERNEL_NAME);
AT(Kernel10, queued, KERNEL_QUEUED);
AT(Kernel10, submitted, KERNEL_SUBMITTED);
AT(Kernel10, launchType, KERNEL_LAUNCH_TYPE);
AT(Kernel10, graphNodeId, KERNEL_GRAPH_NODE);
AT(Kernel10, graphId, KERNEL_GRAPH);
AT(Kernel10, channelID, KERNEL_CHANNEL);
AT(Kernel10, channelType, KERNEL_CHANNEL_TYPE);
AT(Kernel10, clusterX, KERNEL_CLUSTER);
AT(Kernel10, isDeviceLaunched, KERNEL_DEVICE_LAUNCHED);
AT(Kernel8, clusterX, KERNEL_CLUSTER);
AT(Kernel8, name, KERNEL_NAME);
AT(Kernel9, graphId, KERNEL_GRAPH);

BYTES(Memcpy5, COPY5_BYTES);
BYTES(Memcpy6, COPY6_BYTES);
AT(Memcpy6, copyKind, COPY_KIND);
AT(Memcpy6, srcKind, COPY_SRC_KIND);
AT(Memcpy6, dstKind, COPY_DST_KIND);
AT(Memcpy6, flags, COPY_FLAGS);
AT(Memcpy6, bytes, COPY_BYTES);
AT(Memcpy6, start, COPY_START);
AT(Memcpy6, end, COPY_END);
AT(Memcpy6, deviceId, COPY_DEVICE);
AT(Memcpy6, contextId, COPY_CONTEXT);
AT(Memcpy6, streamId, COPY_STREAM);
AT(Memcpy6, correlationId, COPY_CORRELATION);
AT(Memcpy6, graphNodeId, COPY_GRAPH_NODE);
AT(Memcpy6, graphId, COPY_GRAPH);
AT(Memcpy6, channelID, COPY_CHANNEL);
AT(Memcpy6, copyCount, COPY_COUNT);
AT(Memcpy5, graphId, COPY_GRAPH);
BYTES(MemcpyPtoP4, PEER_BYTES_TOTAL);
AT(MemcpyPtoP4, srcDeviceId, PEER_SRC_DEVICE);
AT(MemcpyPtoP4, srcContextId, PEER_SRC_CONTEXT);
AT(MemcpyPtoP4, dstDeviceId, PEER_DST_DEVICE);
AT(MemcpyPtoP4, dstContextId, PEER_DST_CONTEXT);
AT(MemcpyPtoP4, correlationId, PEER_CORRELATION);
AT(MemcpyPtoP4, graphNodeId, PEER_GRAPH_NODE);
AT(MemcpyPtoP4, graphId, PEER_GRAPH);
AT(MemcpyPtoP4, channelID, PEER_CHANNEL);

BYTES(Memset4, SET_BYTES_TOTAL);
AT(Memset4, value, SET_VALUE);
AT(Memset4, bytes, SET_BYTES);
AT(Memset4, start, SET_START);
AT(Memset4, end, SET_END);
AT(Memset4, deviceId, SET_DEVICE);
AT(Memset4, streamId, SET_STREAM);
AT(Memset4, correlationId, SET_CORRELATION);
AT(Memset4, flags, SET_FLAGS);
AT(Memset4, memoryKind, SET_MEMORY_KIND);
AT(Memset4, graphNodeId, SET_GRAPH_NODE);
AT(Memset4, graphId, SET_GRAPH);

BYTES(API, API_BYTES);
AT(API, cbid, API_CBID);
AT(API, start, API_START);
AT(API, end, API_END);
AT(API, processId, API_PROCESS);
AT(API, threadId, API_THREAD);
AT(API, correlationId, API_CORRELATION);
AT(API, returnValue, API_RETURN);

BYTES(Synchronization, SYNC1_BYTES);
BYTES(Synchronization2, SYNC2_BYTES);
AT(Synchronization2, type, SYNC_TYPE);
AT(Synchronization2, start, SYNC_START);
AT(Synchronization2, end, SYNC_END);
AT(Synchronization2, correlationId, SYNC_CORRELATION);
AT(Synchronization2, contextId, SYNC_CONTEXT);
AT(Synchronization2, streamId, SYNC_STREAM);
AT(Synchronization2, cudaEventId, SYNC_EVENT);

BYTES(Overhead, OVERHEAD1_BYTES);
BYTES(Overhead2, OVERHEAD2_BYTES);
BYTES(Overhead3, OVERHEAD3_BYTES);
AT(Overhead3, overheadKind, OVERHEAD_KIND);
AT(Overhead3, objectKind, OVERHEAD_OBJECT_KIND);
AT(Overhead3, objectId, OVERHEAD_OBJECT_ID);
AT(Overhead3, start, OVERHEAD_START);
AT(Overhead3, end, OVERHEAD_END);
AT(Overhead3, correlationId, OVERHEAD_CORRELATION);
AT(Overhead3, overheadData, OVERHEAD_DATA);

BYTES(GraphTrace, GRAPH1_BYTES);
BYTES(GraphTrace2, GRAPH2_BYTES);
AT(GraphTrace2, correlationId, GRAPH_CORRELATION);
AT(GraphTrace2, start, GRAPH_START);
AT(GraphTrace2, end, GRAPH_END);
AT(GraphTrace2, deviceId, GRAPH_DEVICE);
AT(GraphTrace2, graphId, GRAPH_ID);
AT(GraphTrace2, contextId, GRAPH_CONTEXT);
AT(GraphTrace2, streamId, GRAPH_STREAM);
AT(GraphTrace2, endDeviceId, GRAPH_END_DEVICE);
AT(GraphTrace2, endContextId, GRAPH_END_CONTEXT);

BYTES(Device4, DEVICE4_BYTES);
BYTES(Device5, DEVICE5_BYTES);
AT(Device5, computeCapabilityMajor, DEVICE_CC_MAJOR);
AT(Device5, computeCapabilityMinor, DEVICE_CC_MINOR);
AT(Device5, id, DEVICE_ID);
AT(Device5, uuid, DEVICE_UUID);
AT(Device5, name, DEVICE_NAME);
AT(Device5, numMultiprocessors, DEVICE_SMS);

BYTES(ExternalCorrelation, EXTERNAL_BYTES);
AT(ExternalCorrelation, externalKind, EXTERNAL_KIND);
AT(ExternalCorrelation, externalId, EXTERNAL_ID);
AT(ExternalCorrelation, correlationId, EXTERNAL_CORRELATION_ID);
