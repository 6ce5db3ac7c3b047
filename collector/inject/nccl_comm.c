/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: from version 4 on NCCL hands back what init gave it for each; versions 2 and 3
 * name them in every event instead, by their hash. */
#define _GNU_SOURCE
#include "collector/inject/nccl.h"

#define COMMS 1024

static struct argus_comm comms[COMMS];
static struct argus_comm no_comm = {.used = 1};
static uint32_t next_comm; /* atomic */

struct argus_comm *argus_nccl_no_comm(void)
{
    return &no_comm;
}

struct argus_comm *argus_nccl_comm_of(void *context)
{
    struct argus_comm *c = context;

    return c >= comms && c < comms + COMMS ? c : &no_comm;
}

void argus_nccl_comm_gone(void *context)
{
    struct argus_comm *c = argus_nccl_comm_of(context);

    if (c != &no_comm)
        __atomic_store_n(&c->used, 0, __ATOMIC_RELEASE);
}

/* A slot that nobody used for longest: a context that NCCL still uses after
 * its finalize finds its old communicator here for a long time. */
struct argus_comm *argus_nccl_comm_new(uint64_t id)
{
    for (unsigned i = 0; i < COMMS; i++) {
        struct argus_comm *c = &comms[__atomic_fetch_add(&next_comm, 1, __ATOMIC_RELAXED) % COMMS];
        int expected = 0;

        if (__atomic_compare_exchange_n(&c->used, &expected, 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            __atomic_store_n(&c->id, id, __ATOMIC_RELAXED);
            __atomic_store_n(&c->seq, 0, __ATOMIC_RELAXED);
            return c;
        }
    }
    return &no_comm;
}

void argus_nccl_comm_made(uint64_t id, const char *name, int nodes, int ranks, int rank,
                          uint32_t version)
{
    struct argus_record *r;
    uint32_t name_id;

    if (!argus_ring_is_open() && argus_ring_open())
        return;
    name_id = argus_name(name);
    r = argus_ring_claim(ARGUS_SOURCE_NCCL, ARGUS_REC_COMM, 0, argus_tid());
    if (!r)
        return;
    r->start = r->end = argus_now(CLOCK_REALTIME);
    r->u.comm.comm = id;
    r->u.comm.nranks = ranks < 0 ? 0 : (uint32_t)ranks;
    r->u.comm.rank = rank < 0 ? 0 : (uint32_t)rank;
    r->u.comm.nnodes = nodes < 0 ? 0 : (uint32_t)nodes;
    r->u.comm.name = name_id;
    r->u.comm.version = version;
    r->u.comm.pad = 0;
    argus_ring_commit(r, ARGUS_SOURCE_NCCL);
}

struct argus_comm *argus_nccl_comm_of_hash(uint64_t hash, int rank)
{
    uint32_t start = (uint32_t)(hash * 0x9e3779b97f4a7c15ULL >> 54) % COMMS;

    if (!hash)
        return &no_comm;
    for (unsigned i = 0; i < COMMS; i++) {
        struct argus_comm *c = &comms[(start + i) % COMMS];
        uint64_t seen = __atomic_load_n(&c->id, __ATOMIC_ACQUIRE);

        if (seen == hash)
            return c;
        if (!seen && __atomic_compare_exchange_n(&c->id, &seen, hash, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&c->used, 1, __ATOMIC_RELAXED);
            if (rank >= 0)
                argus_nccl_comm_made(hash, NULL, 0, 0, rank, 3);
            return c;
        }
        if (seen == hash)
            return c;
    }
    return &no_comm;
}
