/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler interface, versions 2 to 6, as numbers: mask bits, the
 * table, and the byte offsets of the event descriptors.
 */
#ifndef SIMNCCL_PROFILER_H
#define SIMNCCL_PROFILER_H

#include <stdint.h>

#include "simnccl.h"

enum {
    EVENT_GROUP = 1 << 0,
    EVENT_COLL = 1 << 1,
    EVENT_P2P = 1 << 2,
    EVENT_PROXY_OP = 1 << 3,
    EVENT_PROXY_STEP = 1 << 4,
    EVENT_PROXY_CTRL = 1 << 5,
    EVENT_KERNEL_CH = 1 << 6,
    EVENT_NET_PLUGIN = 1 << 7,
    EVENT_GROUP_API = 1 << 8,
    EVENT_COLL_API = 1 << 9,
    EVENT_P2P_API = 1 << 10,
    EVENT_KERNEL_LAUNCH = 1 << 11
};

enum {
    STATE_SEND_GPU_WAIT = 8,
    STATE_SEND_WAIT = 9,
    STATE_RECV_WAIT = 10,
    STATE_RECV_FLUSH_WAIT = 11,
    STATE_RECV_GPU_WAIT = 12,
    STATE_PROXY_OP_IN_PROGRESS = 19,
    STATE_SEND_PEER_WAIT = 20
};

typedef void simnccl_logger_fn(int level, unsigned long flags, const char *file, int line,
                               const char *format, ...);

/* ncclProfiler_vN; `init` differs by version. */
struct simnccl_table {
    const char *name;
    void *init;
    int (*start_event)(void *context, void **handle, void *descriptor);
    int (*stop_event)(void *handle);
    int (*record_state)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

typedef int simnccl_init_v2(void **context, int *mask);
typedef int simnccl_init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes,
                            int ranks, int rank, simnccl_logger_fn *logger);
typedef int simnccl_init_v5(void **context, uint64_t id, int *mask, const char *name, int nodes,
                            int ranks, int rank, simnccl_logger_fn *logger);

#define DESCRIPTOR_BYTES 128

/* What one communicator needs to talk to the plugin. */
struct simnccl_reporter {
    void *context; /* the plugin's */
    const struct simnccl_comm_config *config;
    uint64_t sequence[8]; /* by function */
    int initialised;
};

/* Loads the plugin with the first communicator; 0: there is none. */
int simnccl_plugin_open(struct simnccl_reporter *r);
void simnccl_plugin_close(struct simnccl_reporter *r);

/* The four places of a group call where NCCL speaks to its plugin. */
void simnccl_report_calls(struct simnccl_reporter *r, const struct simnccl_op *ops, int count,
                          void **group_api);
void simnccl_report_launch(struct simnccl_reporter *r, void *group_api, void **launch);
void simnccl_report_launched(struct simnccl_reporter *r, void *launch);
void simnccl_report_tasks(struct simnccl_reporter *r, const struct simnccl_op *ops, int count,
                          void *group_api, const struct simnccl_timing *timing);

/* Proxy events of a task, from a thread of their own (simnccl_proxy.c).  The
 * queue must be drained before the plugin's context goes. */
void simnccl_proxy_report(struct simnccl_reporter *r, const struct simnccl_op *op, void *task,
                          const struct simnccl_timing *timing);
void simnccl_proxy_drain(void);

/* For the proxy: one event, its stop and its states, by the loaded table. */
struct descriptor {
    uint8_t bytes[DESCRIPTOR_BYTES] __attribute__((aligned(8)));
};
void simnccl_event_begin(struct descriptor *d, const struct simnccl_reporter *r, uint64_t type,
                         void *parent);
void simnccl_event_put32(struct descriptor *d, unsigned at, int32_t v);
void simnccl_event_start(struct simnccl_reporter *r, struct descriptor *d, uint64_t type,
                         void **handle);
void simnccl_event_stop(void *handle);
void simnccl_event_state(void *handle, int state, uint64_t bytes, int steps);
int simnccl_event_wanted(int types);

/* NVTX ranges of calls (simnccl_nvtx.c). */
void simnccl_nvtx_init_rank(const struct simnccl_comm_config *c);
void simnccl_nvtx_push(const struct simnccl_comm_config *c, const struct simnccl_op *op);
void simnccl_nvtx_pop(void);

/* The release that is played: 218 ... 230. */
int simnccl_release(void);

#endif /* SIMNCCL_PROFILER_H */
