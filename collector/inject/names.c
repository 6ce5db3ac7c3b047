/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned strings in the ring's name heap.
 *
 * Table one: content -> offset, for every thread, insert only, one atomic
 * word an entry.  Two threads that intern the same new string at once leave
 * one unused copy in the heap and agree on the other.
 *
 * Table two: address -> offset, for the CUPTI worker.  A kernel's name keeps
 * its address while its module is loaded, but an address can carry another
 * name after a module was reloaded, so a hit compares the bytes.
 */
#include "collector/inject/inject.h"

#include <string.h>

#define TABLE_BITS 15
#define TABLE_SIZE (1u << TABLE_BITS)
#define TABLE_MAX (TABLE_SIZE / 4 * 3)
#define PROBES 64
#define LENGTH_MAX 4096 /* longer names are cut */
#define OFFSET_BITS 26  /* of offset / 8: heaps up to 512 MB */
#define OFFSET_MASK ((1ULL << OFFSET_BITS) - 1)

#define CACHE_SIZE (1u << 14)
#define CACHE_PROBES 8

static uint64_t table[TABLE_SIZE]; /* atomic; hash above, offset / 8 below; 0: free */
static uint32_t table_used;        /* atomic */

static struct {
    const char *address;
    uint32_t offset;
} cache[CACHE_SIZE];

static uint64_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15ULL ^ n, w;

    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdULL;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, s, n);
    h = (h ^ w) * 0xc4ceb9fe1a85ec53ULL;
    return h ^ (h >> 29);
}

static struct argus_name *entry(uint32_t offset)
{
    return (struct argus_name *)(argus_ring.names + offset);
}

static void count_lost(void)
{
    __atomic_fetch_add(&argus_ring.header->names_dropped, 1, __ATOMIC_RELAXED);
}

/* 0 when the heap is full. */
static uint32_t append(const char *s, size_t n)
{
    /* At least one zero byte follows the name, for strcmp() below. */
    uint64_t need = (sizeof(struct argus_name) + n + 1 + 7) & ~7ULL;
    uint64_t limit = __atomic_load_n(&argus_ring.names_limit, __ATOMIC_ACQUIRE);
    uint64_t *tail = &argus_ring.header->names_tail;
    uint64_t at = __atomic_load_n(tail, __ATOMIC_RELAXED);

    do {
        if (at + need > limit)
            return 0;
    } while (!__atomic_compare_exchange_n(tail, &at, at + need, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    memcpy(entry((uint32_t)at)->bytes, s, n);
    __atomic_store_n(&entry((uint32_t)at)->length, (uint32_t)n, __ATOMIC_RELEASE);
    return (uint32_t)at;
}

uint32_t argus_name_n(const char *s, size_t n)
{
    uint64_t hash, word, mine = 0;
    uint32_t i;

    if (!s)
        return ARGUS_NAME_NONE;
    if (n > LENGTH_MAX)
        n = LENGTH_MAX;
    hash = hash_bytes(s, n);
    i = (uint32_t)(hash >> 20) & (TABLE_SIZE - 1);
    for (unsigned probe = 0; probe < PROBES;) {
        word = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
        if (word == 0) {
            if (!mine) {
                uint32_t offset = 0;

                if (__atomic_load_n(&table_used, __ATOMIC_RELAXED) < TABLE_MAX)
                    offset = append(s, n);
                if (!offset)
                    break;
                mine = (hash & ~OFFSET_MASK) | (offset >> 3);
            }
            if (__atomic_compare_exchange_n(&table[i], &word, mine, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                __atomic_fetch_add(&table_used, 1, __ATOMIC_RELAXED);
                return (uint32_t)(mine & OFFSET_MASK) << 3;
            }
            continue; /* somebody took the place: look at what is there now */
        }
        if ((word & ~OFFSET_MASK) == (hash & ~OFFSET_MASK)) {
            uint32_t offset = (uint32_t)(word & OFFSET_MASK) << 3;
            struct argus_name *name = entry(offset);

            if (__atomic_load_n(&name->length, __ATOMIC_ACQUIRE) == n &&
                memcmp(name->bytes, s, n) == 0)
                return offset;
        }
        probe++;
        i = (i + 1) & (TABLE_SIZE - 1);
    }
    count_lost();
    return argus_ring.name_overflow;
}

uint32_t argus_name(const char *s)
{
    return s ? argus_name_n(s, strnlen(s, LENGTH_MAX)) : ARGUS_NAME_NONE;
}

uint32_t argus_name_cached(const char *s)
{
    uint64_t h = (uint64_t)(uintptr_t)s * 0x9e3779b97f4a7c15ULL;
    uint32_t i = (uint32_t)(h >> 40) & (CACHE_SIZE - 1), place = CACHE_SIZE;
    uint32_t offset;

    if (unlikely(!s))
        return ARGUS_NAME_NONE;
    for (unsigned probe = 0; probe < CACHE_PROBES; probe++, i = (i + 1) & (CACHE_SIZE - 1)) {
        if (likely(cache[i].address == s)) {
            if (likely(strcmp(entry(cache[i].offset)->bytes, s) == 0))
                return cache[i].offset;
            place = i;
            break;
        }
        if (!cache[i].address) {
            place = i;
            break;
        }
    }
    offset = argus_name(s);
    /* Cut names and the overflow name do not equal their source: no caching. */
    if (offset != argus_ring.name_overflow && strnlen(s, LENGTH_MAX) < LENGTH_MAX) {
        if (place == CACHE_SIZE)
            place = (uint32_t)(h >> 40) & (CACHE_SIZE - 1);
        cache[place].address = s;
        cache[place].offset = offset;
    }
    return offset;
}
