/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our facts against NVIDIA's headers, where configure found them: a number
 * that is wrong does not compile.
 */
#include "config.h"

#include <stddef.h>

#include "collector/inject/cupti_facts.h"
#include "collector/inject/nccl_facts.h"
#include "collector/inject/nvtx_facts.h"
#include "argus/record.h"

#ifdef HAVE_CUPTI_H
#include <cuda.h>
#include <cupti.h>

#define AT(record, member, offset)                                                                 \
    _Static_assert(offsetof(record, member) == (offset), #record "." #member)
#define EQ(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)

EQ(CU_OK, CUPTI_SUCCESS);
EQ(CU_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
EQ(CU_NOT_COMPATIBLE, CUPTI_ERROR_NOT_COMPATIBLE);
EQ(CU_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
EQ(CU_QUEUE_EMPTY, CUPTI_ERROR_QUEUE_EMPTY);
EQ(CU_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
EQ(CU_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);

EQ(CK_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
EQ(CK_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
EQ(CK_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL);
EQ(CK_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
EQ(CK_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
EQ(CK_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
EQ(CK_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
EQ(CK_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
EQ(CK_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
EQ(CK_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);

EQ(CA_DEVICE_BUFFER_POOL_LIMIT, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
EQ(CA_ZEROED_OUT, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
EQ(CF_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
EQ(CO_COMMAND_BUFFER_FULL, CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL);
EQ(CB_RUNTIME_cudaMalloc, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020);
EQ(CB_RUNTIME_cudaFree, CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020);
EQ(CB_DRIVER_cuMemCreate, CUPTI_DRIVER_TRACE_CBID_cuMemCreate);
EQ(CB_DRIVER_cuMemRelease, CUPTI_DRIVER_TRACE_CBID_cuMemRelease);

/* The newest layout and, for fields that are read without asking the version,
 * the oldest that has them: 11.2. */
#define KERNEL(record)                                                                             \
    AT(record, kind, 0);                                                                           \
    AT(record, start, KERNEL_START);                                                               \
    AT(record, end, KERNEL_END);                                                                   \
    AT(record, deviceId, KERNEL_DEVICE);                                                           \
    AT(record, streamId, KERNEL_STREAM);                                                           \
    AT(record, gridX, KERNEL_GRID_X);                                                              \
    AT(record, gridY, KERNEL_GRID_Y);                                                              \
    AT(record, gridZ, KERNEL_GRID_Z);                                                              \
    AT(record, blockX, KERNEL_BLOCK_X);                                                            \
    AT(record, blockY, KERNEL_BLOCK_Y);                                                            \
    AT(record, blockZ, KERNEL_BLOCK_Z);                                                            \
    AT(record, name, KERNEL_NAME);                                                                 \
    AT(record, graphNodeId, KERNEL_GRAPH_NODE);                                                    \
    AT(record, graphId, KERNEL_GRAPH)
KERNEL(CUpti_ActivityKernel6);
KERNEL(CUpti_ActivityKernel8);
KERNEL(CUpti_ActivityKernel9);
KERNEL(CUpti_ActivityKernel10);

#define MEMCPY(record)                                                                             \
    AT(record, copyKind, MEMCPY_COPY_KIND);                                                        \
    AT(record, srcKind, MEMCPY_SRC_KIND);                                                          \
    AT(record, dstKind, MEMCPY_DST_KIND);                                                          \
    AT(record, bytes, MEMCPY_BYTES);                                                               \
    AT(record, start, MEMCPY_START);                                                               \
    AT(record, end, MEMCPY_END);                                                                   \
    AT(record, deviceId, MEMCPY_DEVICE);                                                           \
    AT(record, streamId, MEMCPY_STREAM)
MEMCPY(CUpti_ActivityMemcpy4);
MEMCPY(CUpti_ActivityMemcpy5);
MEMCPY(CUpti_ActivityMemcpy6);
MEMCPY(CUpti_ActivityMemcpyPtoP3);
MEMCPY(CUpti_ActivityMemcpyPtoP4);
AT(CUpti_ActivityMemcpy4, graphId, MEMCPY_GRAPH);
AT(CUpti_ActivityMemcpy6, graphId, MEMCPY_GRAPH);
AT(CUpti_ActivityMemcpyPtoP3, graphId, PEER_GRAPH);
AT(CUpti_ActivityMemcpyPtoP4, graphId, PEER_GRAPH);
AT(CUpti_ActivityMemcpyPtoP3, srcDeviceId, PEER_SRC_DEVICE);
AT(CUpti_ActivityMemcpyPtoP4, dstDeviceId, PEER_DST_DEVICE);

#define MEMSET(record)                                                                             \
    AT(record, bytes, MEMSET_BYTES);                                                               \
    AT(record, start, MEMSET_START);                                                               \
    AT(record, end, MEMSET_END);                                                                   \
    AT(record, deviceId, MEMSET_DEVICE);                                                           \
    AT(record, streamId, MEMSET_STREAM);                                                           \
    AT(record, memoryKind, MEMSET_MEMORY_KIND);                                                    \
    AT(record, graphId, MEMSET_GRAPH)
MEMSET(CUpti_ActivityMemset3);
MEMSET(CUpti_ActivityMemset4);

AT(CUpti_ActivityAPI, cbid, API_CBID);
AT(CUpti_ActivityAPI, start, API_START);
AT(CUpti_ActivityAPI, end, API_END);

#define SYNC(record)                                                                               \
    AT(record, type, SYNC_TYPE);                                                                   \
    AT(record, start, SYNC_START);                                                                 \
    AT(record, end, SYNC_END);                                                                     \
    AT(record, streamId, SYNC_STREAM)
SYNC(CUpti_ActivitySynchronization);
SYNC(CUpti_ActivitySynchronization2);

#define GRAPH(record)                                                                              \
    AT(record, start, GRAPH_START);                                                                \
    AT(record, end, GRAPH_END);                                                                    \
    AT(record, deviceId, GRAPH_DEVICE);                                                            \
    AT(record, graphId, GRAPH_ID);                                                                 \
    AT(record, streamId, GRAPH_STREAM)
GRAPH(CUpti_ActivityGraphTrace);
GRAPH(CUpti_ActivityGraphTrace2);

#define OVERHEAD(record)                                                                           \
    AT(record, overheadKind, OVERHEAD_KIND);                                                       \
    AT(record, start, OVERHEAD_START);                                                             \
    AT(record, end, OVERHEAD_END)
OVERHEAD(CUpti_ActivityOverhead);
OVERHEAD(CUpti_ActivityOverhead2);
OVERHEAD(CUpti_ActivityOverhead3);
AT(CUpti_ActivityOverhead3, overheadData, OVERHEAD_DATA);

/* The calls, as the header declares them. */
_Static_assert(sizeof(CUptiResult) == sizeof(int) && sizeof(CUpti_ActivityKind) == sizeof(int),
               "enums travel as int");
#endif

#ifdef HAVE_NCCL_H
#define NCCL_EQ(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#include <nccl.h>
NCCL_EQ(ARGUS_DTYPE_INT8, ncclInt8);
NCCL_EQ(ARGUS_DTYPE_UINT8, ncclUint8);
NCCL_EQ(ARGUS_DTYPE_INT32, ncclInt32);
NCCL_EQ(ARGUS_DTYPE_UINT32, ncclUint32);
NCCL_EQ(ARGUS_DTYPE_INT64, ncclInt64);
NCCL_EQ(ARGUS_DTYPE_UINT64, ncclUint64);
NCCL_EQ(ARGUS_DTYPE_F16, ncclFloat16);
NCCL_EQ(ARGUS_DTYPE_F32, ncclFloat32);
NCCL_EQ(ARGUS_DTYPE_F64, ncclFloat64);
NCCL_EQ(ARGUS_DTYPE_BF16, ncclBfloat16);
NCCL_EQ(ARGUS_DTYPE_F8E4M3, ncclFloat8e4m3);
NCCL_EQ(ARGUS_DTYPE_F8E5M2, ncclFloat8e5m2);
#endif

#ifdef HAVE_NVTX3_NVTOOLSEXT_H
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#define NX_AT(ours, our_member, theirs, their_member)                                              \
    _Static_assert(offsetof(struct ours, our_member) == offsetof(theirs, their_member), #ours)
#define NX_EQ(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours)
NX_AT(nvtx_attributes, size, nvtxEventAttributes_t, size);
NX_AT(nvtx_attributes, payload_type, nvtxEventAttributes_t, payloadType);
NX_AT(nvtx_attributes, reserved, nvtxEventAttributes_t, reserved0);
NX_AT(nvtx_attributes, payload, nvtxEventAttributes_t, payload);
NX_AT(nvtx_attributes, message_type, nvtxEventAttributes_t, messageType);
NX_AT(nvtx_attributes, message, nvtxEventAttributes_t, message);
NX_AT(nvtx_payload, schema, nvtxPayloadData_t, schemaId);
NX_AT(nvtx_payload, size, nvtxPayloadData_t, size);
NX_AT(nvtx_payload, data, nvtxPayloadData_t, payload);
_Static_assert(sizeof(struct nvtx_payload) == sizeof(nvtxPayloadData_t), "payload");
_Static_assert(sizeof(struct nvtx_attributes) == sizeof(nvtxEventAttributes_t), "attributes");
_Static_assert(NX_SCHEMA_ID_AT == offsetof(nvtxPayloadSchemaAttr_t, schemaId), "schema id");
NX_EQ(NX_PAYLOAD_EXT, NVTX_PAYLOAD_TYPE_EXT);
NX_EQ(NX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
NX_EQ(NX_MESSAGE_UNICODE, NVTX_MESSAGE_TYPE_UNICODE);
NX_EQ(NX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
NX_EQ(NX_MODULE_CORE, NVTX_CB_MODULE_CORE);
NX_EQ(NX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
NX_EQ(NX_PUSH_A, NVTX_CBID_CORE_RangePushA);
NX_EQ(NX_POP, NVTX_CBID_CORE_RangePop);
NX_EQ(NX_MARK_W, NVTX_CBID_CORE_MarkW);
NX_EQ(NX_RANGE_START_W, NVTX_CBID_CORE_RangeStartW);
NX_EQ(NX_PUSH_W, NVTX_CBID_CORE_RangePushW);
NX_EQ(NX_RANGE_END, NVTX_CBID_CORE_RangeEnd);
NX_EQ(NX2_PUSH_EX, NVTX_CBID_CORE2_DomainRangePushEx);
NX_EQ(NX2_POP, NVTX_CBID_CORE2_DomainRangePop);
NX_EQ(NX2_REGISTER_STRING_A, NVTX_CBID_CORE2_DomainRegisterStringA);
NX_EQ(NX2_DOMAIN_CREATE_A, NVTX_CBID_CORE2_DomainCreateA);
NX_EQ(NX2_DOMAIN_DESTROY, NVTX_CBID_CORE2_DomainDestroy);
NX_EQ(NXP_POP, NVTX3EXT_CBID_nvtxRangePopPayload);
NX_EQ(NXP_DOMAIN_IS_ENABLED, NVTX3EXT_CBID_nvtxDomainIsEnabled);
#endif

/* Every version's table has the same shape: NCCL casts what dlsym() found. */
_Static_assert(sizeof(struct nccl_profiler_v2) == 48, "profiler table");
_Static_assert(sizeof(struct nccl_profiler_v4) == 48, "profiler table");
_Static_assert(sizeof(struct nccl_profiler_v5) == 48, "profiler table");
