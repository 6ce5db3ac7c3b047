/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUPTI for the unit tests, inside the test program: it replaces
 * argus_cupti_load().  It keeps the rules that matter to a client (buffers
 * asked for at the first record, records in any order, KERNEL refused beside
 * CONCURRENT_KERNEL, state global to the process) and has switches for what
 * goes wrong.  The stand-in libraries of contrib/simgpu are the full thing.
 */
#ifndef ARGUS_COLLECTOR_FAKE_CUPTI_H
#define ARGUS_COLLECTOR_FAKE_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/inject/cupti_facts.h"

struct fake_cupti {
    uint32_t version;
    int load_fails;    /* no library */
    int enable_result; /* what Enable of a kernel kind returns, 0: ok */
    bool no_exclusion; /* KERNEL is accepted beside CONCURRENT_KERNEL */
    bool kinds[64];
    bool runtime_api[1024], driver_api[1024];
    cupti_requested_fn requested;
    cupti_completed_fn completed;
    uint8_t *buffer;
    size_t size, used;
    unsigned null_buffers, requests, flushes, forced, disables, registrations;
    size_t lost; /* what GetNumDroppedRecords tells next */
    bool hold_unfinished, unfinished;
    int flush_hangs; /* FlushAll does not return */
    uint64_t pool_limit;
    uint8_t zeroed;
};

extern struct fake_cupti fake_cupti;

struct fake_kernel {
    const char *name;
    uint64_t start, end;
    uint32_t stream, graph;
    uint64_t graph_node;
};

/* The state as of now; for tests, while the worker is at it. */
struct fake_cupti fake_cupti_state(void);
void fake_cupti_lock(void);
void fake_cupti_unlock(void);
void fake_cupti_reset(uint32_t version);
/* ... and the collector started in it. */
void fake_cupti_begin(uint32_t version);
/* Shorter pauses of the collector than a job has. */
void fake_cupti_hurry(void);
void fake_cupti_kernel(const struct fake_kernel *kernel);
void fake_cupti_kernel_at(const char *name, uint64_t start, uint64_t end);
/* It has ended this moment. */
void fake_cupti_kernel_now(const char *name);
/* One each 10 ms, and signs of life of the rank. */
void fake_cupti_work(int ms);
void fake_cupti_memcpy(uint64_t start, uint64_t end, uint64_t bytes, bool peer);
void fake_cupti_memset(uint64_t start, uint64_t end, uint64_t bytes);
void fake_cupti_overhead(uint32_t kind, uint64_t start, uint64_t end);
void fake_cupti_api(int kind, uint32_t cbid, uint64_t start, uint64_t end);
void fake_cupti_graph(uint64_t start, uint64_t end, uint32_t graph);
/* Hands the open buffer back, as a full buffer would be. */
void fake_cupti_complete(void);
/* What a second client does. */
void fake_cupti_take_over(cupti_requested_fn requested, cupti_completed_fn completed);
void fake_cupti_finalize(void);
unsigned fake_cupti_kernel_bytes(void);

#endif /* ARGUS_COLLECTOR_FAKE_CUPTI_H */
