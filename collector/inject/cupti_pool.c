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
 *
 * A client that takes the callbacks over is handed the buffers that are lent
 * then, does not know them, and never gives them back.  Each such place gets a
 * fresh buffer when we are back, and the old one is an orphan: mapped and
 * untouched, as CUPTI may own it still, until it completes to us after all.
 * Fresh ones are smaller the more orphans there are, and these are counted.
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
/* Orphans: so many, of full size while they are less than this together, of
 * SMALL_BYTES up to that, of SCRATCH_BYTES from there on. */
#define ORPHANS 1024
#define ORPHANS_FULL (64u << 20)
#define ORPHANS_SMALL (128u << 20)

#define LENT ((uintptr_t)1)
#define FIRST_ORPHAN (2 * BUFFERS) /* of argus_pool_next()'s numbers */

struct group {
    uint64_t free; /* atomic masks, one bit a buffer */
    uint64_t done;
    uintptr_t place[BUFFERS]; /* atomic: the address, and LENT while CUPTI has it */
    size_t size[BUFFERS];
    size_t valid[BUFFERS];
    size_t bytes;   /* of a place's first buffer */
    unsigned count; /* mapped so far; the worker's */
};

static struct group main_group, scratch_group;
static struct {
    uint8_t *base; /* atomic; mapped when first lent */
    int lent;      /* atomic */
} spare[SPARE];
static struct {
    uint8_t *base; /* atomic; NULL: this entry is free */
    size_t size, valid;
    int done; /* atomic: completed, for the worker */
} orphans[ORPHANS];
static unsigned orphans_end; /* atomic; above all that are in use */
static size_t orphan_bytes;  /* atomic */
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
    uint8_t *base = i < BUFFERS ? map(g->bytes) : NULL;

    if (!base)
        return false;
    g->size[i] = g->bytes;
    __atomic_store_n(&g->place[i], (uintptr_t)base, __ATOMIC_RELAXED);
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
        uintptr_t base = __atomic_load_n(&g->place[i], __ATOMIC_RELAXED);

        *buffer = (uint8_t *)base;
        *size = g->size[i];
        __atomic_store_n(&g->place[i], base | LENT, __ATOMIC_RELEASE);
        return;
    }
    if (non_null && (*buffer = spare_take()) != NULL)
        *size = SCRATCH_BYTES;
}

/* Whoever takes LENT away has the buffer: this, or the worker that renews the
 * place.  An address is never lent twice at a time, so the exchange is sound. */
static bool complete(struct group *g, const uint8_t *buffer, size_t valid)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        uintptr_t lent = (uintptr_t)buffer | LENT;

        if (__atomic_load_n(&g->place[i], __ATOMIC_ACQUIRE) == lent &&
            __atomic_compare_exchange_n(&g->place[i], &lent, (uintptr_t)buffer, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            g->valid[i] = valid < g->size[i] ? valid : g->size[i];
            __atomic_fetch_or(&g->done, 1ULL << i, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

static bool orphan_complete(const uint8_t *buffer, size_t valid)
{
    unsigned end = __atomic_load_n(&orphans_end, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < end; i++) {
        if (__atomic_load_n(&orphans[i].base, __ATOMIC_ACQUIRE) == buffer) {
            orphans[i].valid = valid < orphans[i].size ? valid : orphans[i].size;
            __atomic_store_n(&orphans[i].done, 1, __ATOMIC_RELEASE);
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
    if (!complete(&main_group, buffer, valid) && !complete(&scratch_group, buffer, valid) &&
        !orphan_complete(buffer, valid))
        spare_back(buffer, valid);
}

static int orphan_next(uint8_t **buffer, size_t *valid)
{
    unsigned end = __atomic_load_n(&orphans_end, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < end; i++) {
        if (!__atomic_load_n(&orphans[i].done, __ATOMIC_ACQUIRE) ||
            !__atomic_exchange_n(&orphans[i].done, 0, __ATOMIC_ACQ_REL))
            continue;
        *buffer = __atomic_load_n(&orphans[i].base, __ATOMIC_ACQUIRE);
        *valid = orphans[i].valid;
        return FIRST_ORPHAN + (int)i;
    }
    return -1;
}

static void orphan_forget(unsigned i)
{
    __atomic_fetch_sub(&orphan_bytes, orphans[i].size, __ATOMIC_RELAXED);
    __atomic_store_n(&orphans[i].base, NULL, __ATOMIC_RELEASE);
}

/* Forgotten first: what is mapped there next is not ours. */
static void orphan_free(unsigned i)
{
    uint8_t *base = __atomic_load_n(&orphans[i].base, __ATOMIC_RELAXED);
    size_t size = orphans[i].size;

    orphan_forget(i);
    munmap(base, size);
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
            *buffer = (uint8_t *)__atomic_load_n(&groups[n]->place[i], __ATOMIC_RELAXED);
            *valid = groups[n]->valid[i];
            return n * BUFFERS + i;
        }
    }
    return orphan_next(buffer, valid);
}

void argus_pool_recycle(int index, size_t used)
{
    struct group *g = index < BUFFERS ? &main_group : &scratch_group;
    int i = index % BUFFERS;

    if (index >= FIRST_ORPHAN) {
        orphan_free((unsigned)(index - FIRST_ORPHAN));
        return;
    }
    memset((uint8_t *)__atomic_load_n(&g->place[i], __ATOMIC_RELAXED), 0, used);
    __atomic_fetch_or(&g->free, 1ULL << i, __ATOMIC_RELEASE);
}

/* One more orphan; the worker alone makes them. */
static int orphan_add(uint8_t *base, size_t size)
{
    unsigned i;

    for (i = 0; i < ORPHANS && __atomic_load_n(&orphans[i].base, __ATOMIC_ACQUIRE); i++)
        ;
    if (i == ORPHANS)
        return -1;
    orphans[i].size = size;
    __atomic_store_n(&orphans[i].done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&orphans[i].base, base, __ATOMIC_RELEASE);
    if (i >= __atomic_load_n(&orphans_end, __ATOMIC_RELAXED))
        __atomic_store_n(&orphans_end, i + 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&orphan_bytes, size, __ATOMIC_RELAXED);
    return (int)i;
}

/* Of the buffer that takes an orphan's place; 0: none, memory is short. */
static size_t renewed_bytes(const struct group *g)
{
    size_t out = __atomic_load_n(&orphan_bytes, __ATOMIC_RELAXED);
    size_t slack = argus_memory_slack() / 8;
    size_t bytes = g->bytes;

    if (out >= ORPHANS_FULL && bytes > SMALL_BYTES)
        bytes = SMALL_BYTES;
    if (out >= ORPHANS_SMALL || bytes > slack || out > slack - bytes)
        bytes = SCRATCH_BYTES;
    return bytes <= slack && out <= slack - bytes ? bytes : 0;
}

static unsigned renew(struct group *g)
{
    unsigned renewed = 0;

    for (unsigned i = 0; i < g->count; i++) {
        uintptr_t lent = __atomic_load_n(&g->place[i], __ATOMIC_ACQUIRE);
        uint8_t *old = (uint8_t *)(lent & ~LENT), *fresh;
        size_t bytes;
        int orphan;

        if (!(lent & LENT))
            continue;
        bytes = renewed_bytes(g);
        fresh = bytes ? map(bytes) : NULL;
        if (!fresh)
            break;
        /* Known as an orphan before it leaves its place: it may complete at any time. */
        orphan = orphan_add(old, g->size[i]);
        if (orphan >= 0 && __atomic_compare_exchange_n(&g->place[i], &lent, (uintptr_t)fresh, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            g->size[i] = bytes;
            __atomic_fetch_or(&g->free, 1ULL << i, __ATOMIC_RELEASE);
            renewed++;
            continue;
        }
        munmap(fresh, bytes);
        if (orphan < 0)
            break;
        orphan_forget((unsigned)orphan); /* it came back to its place this moment */
    }
    return renewed;
}

bool argus_pool_renew(void)
{
    unsigned renewed = renew(&main_group) + renew(&scratch_group);

    if (renewed)
        argus_debug("cupti: %u buffers did not come back, %zu MB in all", renewed,
                    __atomic_load_n(&orphan_bytes, __ATOMIC_RELAXED) >> 20);
    return __atomic_load_n(&main_group.free, __ATOMIC_RELAXED) ||
           __atomic_load_n(&main_group.done, __ATOMIC_RELAXED);
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
