/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proxy operations and steps (`links`): how long the network proxy waited for
 * each peer, in which state.
 *
 * These events need handles, and NCCL is known to lose stops, to send them
 * twice, to send states after a stop, and, with PXN, to hand over parents of
 * another process.  A handle is therefore no pointer but a number: a tag, a
 * generation and a place in a static table.  A number whose generation is not
 * the place's is ignored.  Nothing here waits for a stop: a place that is
 * taken from a lost operation is simply given a new generation.
 *
 * Steps are folded into their operation: one PEER_WAIT record a state when
 * the operation ends.
 */
#include "collector/inject/nccl.h"

#include <string.h>
#include <unistd.h>

#include "collector/inject/cupti_facts.h"

#define TAG 0xa6ULL
#define OPS 2048u
#define STEPS 8192u
#define STATES 6
#define STEP_BIT (1ULL << 54)

struct wait {
    int64_t first;
    int64_t sum;
    uint32_t count;
    uint64_t bytes;
};
struct proxy_op {
    uint32_t generation; /* atomic; odd: in use */
    int32_t peer;
    uint32_t channel;
    uint64_t comm;
    struct wait waits[STATES];
};
struct proxy_step {
    uint32_t generation; /* atomic; odd: in use */
    int state;           /* -1: none yet */
    int64_t since;
    uint64_t bytes;
    void *op;
};

static struct proxy_op ops[OPS];
static struct proxy_step steps[STEPS];
static uint32_t next_op, next_step; /* atomic */

static const uint32_t state_numbers[STATES] = {NS_SEND_GPU_WAIT, NS_SEND_WAIT,
                                               NS_RECV_WAIT,     NS_RECV_FLUSH_WAIT,
                                               NS_RECV_GPU_WAIT, NS_SEND_PEER_WAIT};

static int state_index(int state)
{
    for (int i = 0; i < STATES; i++) {
        if ((int)state_numbers[i] == state)
            return i;
    }
    return -1;
}

static void *make_handle(uint64_t kind, uint32_t index, uint32_t generation)
{
    return (void *)(uintptr_t)(TAG << 56 | kind | (uint64_t)(generation & 0xffffff) << 16 | index);
}

bool argus_links_owns(const void *handle)
{
    return (uint64_t)(uintptr_t)handle >> 56 == TAG;
}

static bool current(const uint32_t *generation, uint64_t handle)
{
    uint32_t g = __atomic_load_n(generation, __ATOMIC_ACQUIRE);

    return (g & 1) && (g & 0xffffff) == ((handle >> 16) & 0xffffff);
}

static struct proxy_op *op_of(const void *handle)
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    uint32_t i = (uint32_t)(h & 0xffff);

    if (!argus_links_owns(handle) || (h & STEP_BIT) || i >= OPS || !current(&ops[i].generation, h))
        return NULL;
    return &ops[i];
}

static struct proxy_step *step_of(const void *handle)
{
    uint64_t h = (uint64_t)(uintptr_t)handle;
    uint32_t i = (uint32_t)(h & 0xffff);

    if (!argus_links_owns(handle) || !(h & STEP_BIT) || i >= STEPS ||
        !current(&steps[i].generation, h))
        return NULL;
    return &steps[i];
}

/* The next place, in use or not: who still holds it after a whole round has
 * lost its stop. */
static uint32_t take(uint32_t *generation)
{
    uint32_t g = __atomic_load_n(generation, __ATOMIC_RELAXED);
    uint32_t mine = (g + 1) | 1;

    __atomic_store_n(generation, mine, __ATOMIC_RELEASE);
    return mine;
}

static bool foreign(int pid)
{
    static int self;

    if (!__atomic_load_n(&self, __ATOMIC_RELAXED))
        __atomic_store_n(&self, getpid(), __ATOMIC_RELAXED);
    return pid != self;
}

void argus_links_op_start(struct argus_comm *comm, void **handle, const uint8_t *d)
{
    uint32_t i, generation;
    struct proxy_op *op;

    *handle = NULL;
    if (foreign((int)cf_u32(d, PROXY_PID)))
        return;
    i = __atomic_fetch_add(&next_op, 1, __ATOMIC_RELAXED) % OPS;
    op = &ops[i];
    generation = take(&op->generation);
    op->peer = (int32_t)cf_u32(d, PROXY_PEER);
    op->channel = cf_u8(d, PROXY_CHANNEL);
    op->comm = __atomic_load_n(&comm->id, __ATOMIC_RELAXED);
    memset(op->waits, 0, sizeof(op->waits));
    *handle = make_handle(0, i, generation);
}

void argus_links_step_start(void **handle, const uint8_t *d)
{
    void *parent = cf_pointer(d, NCCL_PARENT);
    struct proxy_step *step;
    uint32_t i, generation;

    *handle = NULL;
    if (!op_of(parent))
        return;
    i = __atomic_fetch_add(&next_step, 1, __ATOMIC_RELAXED) % STEPS;
    step = &steps[i];
    generation = take(&step->generation);
    step->state = -1;
    step->since = 0;
    step->bytes = 0;
    step->op = parent;
    *handle = make_handle(STEP_BIT, i, generation);
}

static void close_state(struct proxy_step *step, int64_t now)
{
    struct proxy_op *op = op_of(step->op);
    struct wait *w;

    if (!op || step->state < 0)
        return;
    w = &op->waits[step->state];
    if (!w->count)
        w->first = step->since;
    w->count++;
    w->sum += now > step->since ? now - step->since : 0;
    w->bytes += step->bytes;
    step->bytes = 0;
}

void argus_links_state(void *handle, int state, const uint8_t *arguments)
{
    struct proxy_step *step = step_of(handle);
    int64_t now;

    if (!step)
        return;
    now = argus_now(CLOCK_REALTIME);
    close_state(step, now);
    step->state = state_index(state);
    step->since = now;
    if (state == NS_SEND_WAIT && arguments)
        step->bytes = cf_u64(arguments, STATE_TRANS_SIZE);
}

static void emit(const struct proxy_op *op)
{
    for (int i = 0; i < STATES; i++) {
        const struct wait *w = &op->waits[i];
        struct argus_record *r;

        if (!w->count)
            continue;
        r = argus_ring_claim(ARGUS_SOURCE_NCCL, ARGUS_REC_PEER_WAIT, 0, argus_tid());
        if (!r)
            return;
        /* Steps of an operation overlap: the length is the sum of the waits. */
        r->start = w->first;
        r->end = w->first + w->sum;
        r->u.peer.comm = op->comm;
        r->u.peer.peer = op->peer;
        r->u.peer.state = state_numbers[i];
        r->u.peer.channel = op->channel;
        r->u.peer.count = w->count;
        r->u.peer.bytes = w->bytes;
        argus_ring_commit(r, ARGUS_SOURCE_NCCL);
    }
}

void argus_links_stop(void *handle)
{
    struct proxy_step *step = step_of(handle);
    struct proxy_op *op;

    if (step) {
        close_state(step, argus_now(CLOCK_REALTIME));
        __atomic_fetch_add(&step->generation, 1, __ATOMIC_RELEASE);
        return;
    }
    op = op_of(handle);
    if (op) {
        emit(op);
        __atomic_fetch_add(&op->generation, 1, __ATOMIC_RELEASE);
    }
}
