/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual GPU behind the stand-in libcuda.so.1.
 *
 * A process has one virtual host clock and one virtual "ready" time a stream.
 * Both are CLOCK_REALTIME nanoseconds, counted from simcu_clock_start().  A
 * launch costs the host a few microseconds; its kernel starts when both the
 * launch has happened and the stream is free, and lasts as long as it was
 * told to.  Nothing here depends on how fast the machine runs.
 *
 * The stand-in libcupti attaches with simcu_attach() and is told of each
 * activity when it is launched, with times already known; it must not show a
 * record before simcu_host_now() has passed its end.
 *
 * Times that leave the virtual GPU (simcu_visible) carry the node's clock
 * offset and any clock step; simcu_* calls work in the undisturbed time.
 */
#ifndef SIMCU_H
#define SIMCU_H

#include <stdint.h>

#define SIMCU_API __attribute__((visibility("default")))

enum simcu_activity_kind {
    SIMCU_TICK = 0, /* nothing happened but time: records may have become complete */
    SIMCU_KERNEL = 1,
    SIMCU_MEMCPY = 2,
    SIMCU_MEMCPY_PEER = 3,
    SIMCU_MEMSET = 4,
    SIMCU_OVERHEAD = 5,
    SIMCU_API_CALL = 6,
    SIMCU_SYNC = 7,
    SIMCU_GRAPH = 8
};

/* One thing the GPU or the driver did. */
struct simcu_activity {
    uint32_t kind; /* enum simcu_activity_kind */
    uint32_t stream;
    const char *name; /* kernel: must stay valid for the life of the process */
    int64_t start, end;
    uint32_t grid[3], block[3];
    uint64_t bytes;
    uint64_t graph_node;
    uint32_t graph;
    uint32_t code; /* copy kind, overhead kind, synchronization type or runtime cbid */
    uint32_t driver_cbid;
    uint32_t correlation;
    uint32_t tid;
    uint32_t device, peer_device, context;
    int64_t host_start, host_end; /* the API call that caused it */
};

typedef void simcu_sink_fn(const struct simcu_activity *activity);

struct simcu_stream;
typedef struct simcu_stream *simcu_stream_t; /* is a CUstream */

/* What the device looks like; before cuInit.  `node` and `ordinal` make the uuid. */
SIMCU_API void simcu_configure(const char *node, int ordinal, int devices);
SIMCU_API int simgpu_is_simulated(void);
/* The ordinal that records carry; cuInit sets it. */
void simcu_set_device(int ordinal);

/* The clock.  start: CLOCK_REALTIME ns of virtual zero.  visible offset: what
 * the process's clock reads beyond the truth (another node's bad clock). */
SIMCU_API void simcu_clock_start(int64_t realtime_ns);
SIMCU_API void simcu_clock_offset(int64_t offset_ns);
SIMCU_API int64_t simcu_host_now(void); /* 0: the clock was not started */
SIMCU_API int64_t simcu_visible(int64_t t);
/* What the calling thread's clock reads: the host's time, or what the thread
 * said with simcu_thread_time (0: the host's again) because it plays one that
 * lives in the GPU's time. */
SIMCU_API int64_t simcu_clock_now(void);
SIMCU_API void simcu_thread_time(int64_t t);
SIMCU_API void simcu_host_advance(int64_t ns);
SIMCU_API void simcu_host_until(int64_t t);

/* The driver's own exit handler ran (SIMGPU_FAULT=torn-down). */
SIMCU_API int simcu_is_torn_down(void);

/* One sink a process; -1: another library holds it.  sink NULL detaches. */
SIMCU_API int simcu_attach(simcu_sink_fn *sink);

SIMCU_API simcu_stream_t simcu_stream_default(void);
SIMCU_API simcu_stream_t simcu_stream_create(void);
SIMCU_API uint32_t simcu_stream_id(simcu_stream_t stream); /* CUPTI's id; 7: the legacy stream */
SIMCU_API int64_t simcu_stream_ready(simcu_stream_t stream);
SIMCU_API void simcu_stream_wait(simcu_stream_t stream, int64_t t); /* an event that fires at t */

/* Fills name, grid, block and duration of a kernel; returns its end. */
SIMCU_API int64_t simcu_launch(simcu_stream_t stream, const char *name, const uint32_t grid[3],
                               const uint32_t block[3], int64_t duration);
/* The same in two halves, for a kernel whose end others decide: begin pays the
 * launch and returns the start, end gives it its length. */
SIMCU_API int64_t simcu_launch_begin(simcu_stream_t stream);
SIMCU_API void simcu_launch_end(simcu_stream_t stream, const char *name, const uint32_t grid[3],
                                const uint32_t block[3], int64_t start, int64_t end);
/* kind: CUpti_ActivityMemcpyKind.  peer >= 0: a copy to that device. */
SIMCU_API int64_t simcu_memcpy(simcu_stream_t stream, uint32_t kind, uint64_t bytes, int peer,
                               int64_t duration);
SIMCU_API int64_t simcu_memset(simcu_stream_t stream, uint64_t bytes, int64_t duration);

struct simcu_graph_node {
    const char *name;
    uint32_t grid[3], block[3];
    int64_t duration;
};
/* One launch of a graph: `count` kernels one after another for the price of one launch. */
SIMCU_API int64_t simcu_graph_launch(simcu_stream_t stream, uint32_t graph,
                                     const struct simcu_graph_node *nodes, int count);

/* Host-side events: the host is busy for `ns`. */
SIMCU_API void simcu_overhead(uint32_t cupti_overhead_kind, int64_t ns);
SIMCU_API void simcu_malloc(uint64_t bytes, int64_t ns);
SIMCU_API void simcu_free(uint64_t bytes, int64_t ns);
SIMCU_API void simcu_synchronize(simcu_stream_t stream); /* NULL: the whole context */

#endif /* SIMCU_H */
