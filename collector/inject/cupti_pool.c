/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host buffers for CUPTI.
 *
 * From "requested" to "completed" a buffer is CUPTI's: it is neither touched
 * nor freed, however long that takes.  The callbacks run on the application's
 * threads and only move bits:
 *
 *   free  --requested-->  lent  --completed-->  done  --worker-->  free
 *
 * Fresh and recycled buffers are zero, which CUPTI is told, so that it does
 * not clear them on the application's time.
 */
#include "collector/inject/cupti.h"

#include <sys/mman.h>

#define BUFFERS 64
#define FIRST 16
#define BUFFER_BYTES (4u << 20)
#define SMALL_BYTES (1u << 20)
#define KEEP_FREE 4
/* Given out when all else is lent and this CUPTI crashes on NULL; what lands
 * in them is parsed like anything else, they are merely small. */
#define SCRATCH 64
#define SCRATCH_BYTES (64u << 10)
/* And when those are lent too: the worker hangs inside CUPTI, or another
 * client keeps what it took from us.  What lands in these is only counted;
 * they are free again as they come back, so that no wait makes them many. */
#define SPARE 1024

struct group {
    uint64_t free; /* atomic masks, one bit a buffer */
    uint64_t done;
    uint8_t *base[BUFFERS];
    size_t valid[BUFFERS];
    size_t bytes;
    unsigned count; /* mapped so far; the worker's */
};

static struct group main_group, scratch_group;
static struct {
    uint8_t *base; /* atomic; mapped when first lent */
    int lent;      /* atomic */
} spare[SPARE];
static bool non_null;
static int ever; /* atomic */

static uint8_t *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_DONTDUMP);
    return p;
}

static bool add(struct group *g)
{
    unsigned i = g->count;

    if (i >= BUFFERS)
        return false;
    g->base[i] = map(g->bytes);
    if (!g->base[i])
        return false;
    g->count++;
    __atomic_fetch_or(&g->free, 1ULL << i, __ATOMIC_RELEASE);
    return true;
}

int argus_pool_init(bool need_non_null)
{
    size_t slack = argus_memory_slack();
    unsigned first = FIRST;

    if (main_group.count)
        return 0;
    non_null = need_non_null;
    main_group.bytes = BUFFER_BYTES;
    /* Address space costs nothing until it is written: where there is enough, no burst of
     * launching threads finds the pool smaller than it may become. */
    if (slack / 4 >= (size_t)BUFFERS * BUFFER_BYTES)
        first = BUFFERS;
    if (slack / 4 < (size_t)FIRST * BUFFER_BYTES) {
        main_group.bytes = SMALL_BYTES;
        first = slack / 8 / SMALL_BYTES < FIRST ? (unsigned)(slack / 8 / SMALL_BYTES) : FIRST;
        if (first < 2)
            return -1;
    }
    for (unsigned i = 0; i < first && add(&main_group); i++)
        ;
    if (!main_group.count)
        return -1;
    scratch_group.bytes = SCRATCH_BYTES;
    if (need_non_null)
        while (scratch_group.count < SCRATCH && add(&scratch_group))
            ;
    return 0;
}

static int take(struct group *g)
{
    uint64_t mask = __atomic_load_n(&g->free, __ATOMIC_ACQUIRE);

    while (mask) {
        int i = __builtin_ctzll(mask);

        if (__atomic_compare_exchange_n(&g->free, &mask, mask & ~(1ULL << i), true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return i;
    }
    return -1;
}

static uint8_t *spare_take(void)
{
    for (unsigned i = 0; i < SPARE; i++) {
        uint8_t *base;

        if (__atomic_load_n(&spare[i].lent, __ATOMIC_RELAXED) ||
            __atomic_exchange_n(&spare[i].lent, 1, __ATOMIC_ACQ_REL))
            continue;
        base = spare[i].base;
        if (!base) {
            base = map(SCRATCH_BYTES);
            __atomic_store_n(&spare[i].base, base, __ATOMIC_RELEASE);
        }
        if (!base)
            __atomic_store_n(&spare[i].lent, 0, __ATOMIC_RELEASE);
        return base;
    }
    return NULL;
}

static void spare_back(uint8_t *buffer, size_t valid)
{
    uint8_t *record = NULL;
    uint64_t lost = 0;
    unsigned i;

    for (i = 0; i < SPARE && __atomic_load_n(&spare[i].base, __ATOMIC_ACQUIRE) != buffer; i++)
        ;
    if (i == SPARE)
        return;
    valid = valid < SCRATCH_BYTES ? valid : SCRATCH_BYTES;
    while (argus_cupti_calls.next_record(buffer, valid, &record) == CU_OK && record)
        lost++;
    argus_ring_drop(ARGUS_SOURCE_CUPTI, lost);
    memset(buffer, 0, valid);
    __atomic_store_n(&spare[i].lent, 0, __ATOMIC_RELEASE);
}

void argus_pool_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    struct group *g = &main_group;
    int i;

    *max_records = 0;
    *buffer = NULL;
    *size = 0;
    __atomic_store_n(&ever, 1, __ATOMIC_RELAXED);
    i = take(g);
    if (i < 0 && non_null) {
        g = &scratch_group;
        i = take(g);
    }
    if (i >= 0) {
        *buffer = g->base[i];
        *size = g->bytes;
        return;
    }
    if (non_null && (*buffer = spare_take()) != NULL)
        *size = SCRATCH_BYTES;
}

static bool complete(struct group *g, const uint8_t *buffer, size_t valid)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        if (__atomic_load_n(&g->base[i], __ATOMIC_RELAXED) == buffer) {
            g->valid[i] = valid < g->bytes ? valid : g->bytes;
            __atomic_fetch_or(&g->done, 1ULL << i, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

void argus_pool_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                          size_t valid)
{
    (void)context;
    (void)stream;
    (void)size;
    if (!buffer)
        return;
    /* A buffer of no place here belongs to another client whose callbacks
     * ours have replaced. */
    if (!complete(&main_group, buffer, valid) && !complete(&scratch_group, buffer, valid))
        spare_back(buffer, valid);
}

int argus_pool_next(uint8_t **buffer, size_t *valid)
{
    struct group *groups[] = {&main_group, &scratch_group};

    for (int n = 0; n < 2; n++) {
        uint64_t mask = __atomic_load_n(&groups[n]->done, __ATOMIC_ACQUIRE);

        if (mask) {
            int i = __builtin_ctzll(mask);

            /* At exit a second thread may be here: one buffer is one thread's. */
            if (!(__atomic_fetch_and(&groups[n]->done, ~(1ULL << i), __ATOMIC_ACQ_REL) &
                  1ULL << i)) {
                n--;
                continue;
            }
            *buffer = groups[n]->base[i];
            *valid = groups[n]->valid[i];
            return n * BUFFERS + i;
        }
    }
    return -1;
}

void argus_pool_recycle(int index, size_t used)
{
    struct group *g = index < BUFFERS ? &main_group : &scratch_group;
    int i = index % BUFFERS;

    memset(g->base[i], 0, used);
    __atomic_fetch_or(&g->free, 1ULL << i, __ATOMIC_RELEASE);
}

void argus_pool_top_up(void)
{
    if (main_group.bytes != BUFFER_BYTES)
        return; /* short of address space: what we have is all we take */
    while (__builtin_popcountll(__atomic_load_n(&main_group.free, __ATOMIC_RELAXED)) < KEEP_FREE &&
           add(&main_group))
        ;
}

bool argus_pool_ever_requested(void)
{
    return __atomic_load_n(&ever, __ATOMIC_RELAXED) != 0;
}
