/* SPDX-License-Identifier: Apache-2.0 */
/* What the NCCL files share with each other and with their tests. */
#ifndef ARGUS_COLLECTOR_NCCL_H
#define ARGUS_COLLECTOR_NCCL_H

#include "collector/inject/inject.h"
#include "collector/inject/nccl_facts.h"

struct argus_library;

struct argus_comm {
    uint64_t id;
    uint32_t seq; /* atomic: our own counter of calls */
    int used;     /* atomic */
    struct argus_library *library;
};

uint8_t argus_nccl_func(const char *s);
uint8_t argus_nccl_dtype(const char *s);
uint8_t argus_nccl_algo(const char *s);
uint8_t argus_nccl_proto(const char *s);

/* ---- nccl_links.c: proxy operations and steps, when asked for ---- */
void argus_links_op_start(struct argus_comm *comm, void **handle, const uint8_t *descriptor);
void argus_links_step_start(void **handle, const uint8_t *descriptor);
void argus_links_stop(void *handle);
void argus_links_state(void *handle, int state, const uint8_t *arguments);
bool argus_links_owns(const void *handle);

/* ---- nccl_mask.c: NCCL's event mask, and who may write it how long ---- */

/* At a communicator's init: sets the mask, and remembers it for `links=N`.
 * Returns what argus_mask_gone() wants; NULL: not remembered. */
struct argus_library *argus_mask_set(int *mask, int bits);
/* At its finalize: the mask of a library's last communicator is not touched
 * after this has returned. */
void argus_mask_gone(struct argus_library *library);
/* The library that a context is, or NULL. */
struct argus_library *argus_mask_library(void *context);

/* ---- nccl_comm.c: communicators ---- */
/* A slot for a communicator of version 4 on; its address is NCCL's context. */
struct argus_comm *argus_nccl_comm_new(uint64_t id);
/* What NCCL gives back; anything else is the communicator that is none. */
struct argus_comm *argus_nccl_comm_of(void *context);
struct argus_comm *argus_nccl_no_comm(void);
void argus_nccl_comm_gone(void *context);
/* The communicator a version 2 or 3 descriptor, or an NVTX payload, names by
 * its hash; seen for the first time with a rank >= 0, it makes a COMM record. */
struct argus_comm *argus_nccl_comm_of_hash(uint64_t hash, int rank);
/* Asks the library that `caller` lies in for its version, once. */
void argus_nccl_version(void *caller);
/* Writes a COMM record. */
void argus_nccl_comm_made(uint64_t id, const char *name, int nodes, int ranks, int rank,
                          uint32_t version);

extern const struct nccl_profiler_v2 ncclProfiler_v2, ncclProfiler_v3;
extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

#endif /* ARGUS_COLLECTOR_NCCL_H */
