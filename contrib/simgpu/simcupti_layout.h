/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's activity records: kinds, byte offsets, and the size each release
 * writes.  Numbers only; layout_check.c compares them with cupti.h where the
 * toolkit is at hand.
 *
 * API numbers: 11.8 = 18, 12.0 = 19, 12.2 = 20 ... 12.6 = 24, 12.8 = 26,
 * 12.9 = 27, 13.0 = 130000, 13.0 update 1 = 130001.
 */
#ifndef SIMCUPTI_LAYOUT_H
#define SIMCUPTI_LAYOUT_H

enum {
    KIND_MEMCPY = 1,
    KIND_MEMSET = 2,
    KIND_KERNEL = 3,
    KIND_DRIVER = 4,
    KIND_RUNTIME = 5,
    KIND_DEVICE = 8,
    KIND_CONTEXT = 9,
    KIND_CONCURRENT_KERNEL = 10,
    KIND_OVERHEAD = 17,
    KIND_MEMCPY2 = 22,
    KIND_STREAM = 37,
    KIND_SYNCHRONIZATION = 38,
    KIND_EXTERNAL_CORRELATION = 39,
    KIND_GRAPH_TRACE = 51,
    KIND_COUNT = 55
};

/* Kernel4 .. Kernel10 */
enum {
    KERNEL_REGISTERS = 6, /* u16 */
    KERNEL_START = 16,
    KERNEL_END = 24,
    KERNEL_COMPLETED = 32,
    KERNEL_DEVICE = 40,
    KERNEL_CONTEXT = 44,
    KERNEL_STREAM = 48,
    KERNEL_GRID = 52,
    KERNEL_BLOCK = 64,
    KERNEL_CORRELATION = 92,
    KERNEL_GRID_ID = 96, /* i64 */
    KERNEL_NAME = 104,   /* char * */
    KERNEL_QUEUED = 120,
    KERNEL_SUBMITTED = 128,
    KERNEL_LAUNCH_TYPE = 136, /* u8 */
    KERNEL_GRAPH_NODE = 144,  /* u64, from 11.0 */
    KERNEL_GRAPH = 156,       /* u32, from 11.1 */
    KERNEL_CHANNEL = 168,     /* u32, from 11.6 */
    KERNEL_CHANNEL_TYPE = 172,
    KERNEL_CLUSTER = 176,         /* 3 u32, from 11.8 */
    KERNEL_DEVICE_LAUNCHED = 208, /* u8, from 13.0 */
    KERNEL8_BYTES = 200,
    KERNEL9_BYTES = 208,
    KERNEL10_BYTES = 216
};

/* Memcpy5, Memcpy6; MemcpyPtoP4 is the same up to the stream */
enum {
    COPY_KIND = 4, /* u8 */
    COPY_SRC_KIND = 5,
    COPY_DST_KIND = 6,
    COPY_FLAGS = 7,
    COPY_BYTES = 8, /* u64 */
    COPY_START = 16,
    COPY_END = 24,
    COPY_DEVICE = 32,
    COPY_CONTEXT = 36,
    COPY_STREAM = 40,
    COPY_CORRELATION = 44,
    COPY_GRAPH_NODE = 64,
    COPY_GRAPH = 72,
    COPY_CHANNEL = 76,
    COPY_COUNT = 88, /* u64, from 12.8 */
    COPY5_BYTES = 88,
    COPY6_BYTES = 96,
    PEER_SRC_DEVICE = 44,
    PEER_SRC_CONTEXT = 48,
    PEER_DST_DEVICE = 52,
    PEER_DST_CONTEXT = 56,
    PEER_CORRELATION = 60,
    PEER_GRAPH_NODE = 72,
    PEER_GRAPH = 80,
    PEER_CHANNEL = 84,
    PEER_BYTES_TOTAL = 96
};

/* Memset4 */
enum {
    SET_VALUE = 4, /* u32 */
    SET_BYTES = 8, /* u64 */
    SET_START = 16,
    SET_END = 24,
    SET_DEVICE = 32,
    SET_CONTEXT = 36,
    SET_STREAM = 40,
    SET_CORRELATION = 44,
    SET_FLAGS = 48,       /* u16 */
    SET_MEMORY_KIND = 50, /* u16 */
    SET_GRAPH_NODE = 64,
    SET_GRAPH = 72,
    SET_BYTES_TOTAL = 88
};

/* API (runtime and driver calls) */
enum {
    API_CBID = 4,
    API_START = 8,
    API_END = 16,
    API_PROCESS = 24,
    API_THREAD = 28,
    API_CORRELATION = 32,
    API_RETURN = 36,
    API_BYTES = 40
};

/* Synchronization, Synchronization2 (from 12.8) */
enum {
    SYNC_TYPE = 4,
    SYNC_START = 8,
    SYNC_END = 16,
    SYNC_CORRELATION = 24,
    SYNC_CONTEXT = 28,
    SYNC_STREAM = 32,
    SYNC_EVENT = 36,
    SYNC1_BYTES = 40,
    SYNC2_BYTES = 56
};

/* Overhead, Overhead2 (from 12.2), Overhead3 (from 13.0) */
enum {
    OVERHEAD_KIND = 4,
    OVERHEAD_OBJECT_KIND = 8,
    OVERHEAD_OBJECT_ID = 12, /* process id, then thread id, of a thread object */
    OVERHEAD_START = 24,
    OVERHEAD_END = 32,
    OVERHEAD_CORRELATION = 40,
    OVERHEAD_DATA = 48, /* void *, malloc'ed by CUPTI, the client's to free */
    OVERHEAD1_BYTES = 40,
    OVERHEAD2_BYTES = 48,
    OVERHEAD3_BYTES = 56
};

/* GraphTrace, GraphTrace2 */
enum {
    GRAPH_CORRELATION = 4,
    GRAPH_START = 8,
    GRAPH_END = 16,
    GRAPH_DEVICE = 24,
    GRAPH_ID = 28,
    GRAPH_CONTEXT = 32,
    GRAPH_STREAM = 36,
    GRAPH_END_DEVICE = 48,
    GRAPH_END_CONTEXT = 52,
    GRAPH1_BYTES = 48,
    GRAPH2_BYTES = 56
};

/* Device4, Device5 (from 12.9) */
enum {
    DEVICE_CC_MAJOR = 104,
    DEVICE_CC_MINOR = 108,
    DEVICE_ID = 112,
    DEVICE_UUID = 120,
    DEVICE_NAME = 136, /* char * */
    DEVICE_SMS = 44,
    DEVICE4_BYTES = 176,
    DEVICE5_BYTES = 184
};

enum {
    EXTERNAL_KIND = 4,
    EXTERNAL_ID = 8, /* u64 */
    EXTERNAL_CORRELATION_ID = 16,
    EXTERNAL_BYTES = 24
};

#define API_11_8 18u
#define API_12_2 20u
#define API_12_6 24u
#define API_12_8 26u
#define API_12_9 27u
#define API_13_0 130000u
#define API_13_0_1 130001u

/* Bytes of a record of that kind as that release writes it, 0: no such kind. */
unsigned simcupti_record_bytes(unsigned kind, unsigned api);

#endif /* SIMCUPTI_LAYOUT_H */
