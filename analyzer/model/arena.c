/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "analyzer/model/arena.h"

#define CHUNK ((size_t)1 << 20)
#define SPACE_MAX ((size_t)1 << 36) /* address space, not memory */
#define SPACE_MIN ((size_t)1 << 28)
#define HEAD 64

struct shared_head {
    _Atomic size_t used;
};

struct argus_arena {
    char *base;
    size_t space;
    struct shared_head *head;
    char *chunk; /* this process's own */
    size_t left;
};

argus_arena_t *argus_arena_create(void)
{
    argus_arena_t *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    for (a->space = SPACE_MAX; a->space >= SPACE_MIN; a->space /= 2) {
        void *p = mmap(NULL, a->space, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            a->base = p;
            break;
        }
    }
    if (!a->base) {
        free(a);
        return NULL;
    }
    a->head = (struct shared_head *)a->base;
    atomic_store(&a->head->used, HEAD);
    return a;
}

void argus_arena_destroy(argus_arena_t *a)
{
    if (!a)
        return;
    munmap(a->base, a->space);
    free(a);
}

void argus_arena_child(argus_arena_t *a)
{
    a->chunk = NULL;
    a->left = 0;
}

size_t argus_arena_used(const argus_arena_t *a)
{
    return atomic_load(&a->head->used);
}

static char *claim(argus_arena_t *a, size_t bytes)
{
    size_t at = atomic_fetch_add(&a->head->used, bytes);

    if (at > a->space || bytes > a->space - at) {
        atomic_fetch_sub(&a->head->used, bytes);
        return NULL;
    }
    return a->base + at;
}

void *argus_arena_alloc(argus_arena_t *a, size_t n, size_t size)
{
    size_t bytes;
    char *p;

    if (size && n > (SIZE_MAX - 32) / size)
        return NULL;
    bytes = (n * size + 15) & ~(size_t)15;
    if (!bytes)
        bytes = 16;
    if (bytes > CHUNK / 4) /* large pieces do not waste the rest of a chunk */
        return claim(a, bytes);
    if (bytes > a->left) {
        a->chunk = claim(a, CHUNK);
        a->left = a->chunk ? CHUNK : 0;
        if (!a->chunk)
            return NULL;
    }
    p = a->chunk;
    a->chunk += bytes;
    a->left -= bytes;
    return p;
}

char *argus_arena_strdup(argus_arena_t *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = argus_arena_alloc(a, n, 1);

    if (p)
        memcpy(p, s, n);
    return p;
}
