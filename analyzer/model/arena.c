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
/* Below where Linux puts programs, libraries and stacks on 64-bit machines, and 64 TiB long. */
#define FIRST_ADDRESS ((uintptr_t)1 << 44)

struct shared_head {
    _Atomic size_t used;
};

struct attached {
    void *base;
    size_t bytes;
    struct attached *next;
};

struct argus_arena {
    char *base;
    struct attached *attached;
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

/* NULL: no such place. */
static void *address_of(int process, int slot)
{
    if (process < 0 || process >= ARGUS_ARENA_PROCESSES || slot < 0 || slot >= ARGUS_ARENA_SLOTS)
        return NULL;
    return (void *)(FIRST_ADDRESS + (uintptr_t)(process * ARGUS_ARENA_SLOTS + slot) * SPACE_MAX);
}

argus_arena_t *argus_arena_create_at(int process, int slot)
{
    void *want = address_of(process, slot), *p;
    argus_arena_t *a = want ? calloc(1, sizeof(*a)) : NULL;

    if (!a)
        return NULL;
    a->space = SPACE_MAX;
    p = mmap(want, a->space, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != want) {
        if (p != MAP_FAILED)
            munmap(p, a->space);
        free(a);
        return NULL;
    }
    a->base = p;
    a->head = (struct shared_head *)a->base;
    atomic_store(&a->head->used, HEAD);
    return a;
}

void *argus_arena_attach(argus_arena_t *a, int process, int slot, size_t used)
{
    void *want = address_of(process, slot), *p;
    struct attached *part;

    if (!want || !used || used > SPACE_MAX)
        return NULL;
    part = malloc(sizeof(*part));
    if (!part)
        return NULL;
    p = mmap(want, used, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != want) {
        if (p != MAP_FAILED)
            munmap(p, used);
        free(part);
        return NULL;
    }
    *part = (struct attached){p, used, a->attached};
    a->attached = part;
    return p;
}

void argus_arena_destroy(argus_arena_t *a)
{
    struct attached *next;

    if (!a)
        return;
    for (struct attached *p = a->attached; p; p = next) {
        next = p->next;
        munmap(p->base, p->bytes);
        free(p);
    }
    munmap(a->base, a->space);
    free(a);
}

void argus_arena_child(argus_arena_t *a)
{
    a->chunk = NULL;
    a->left = 0;
}

void *argus_arena_base(const argus_arena_t *a)
{
    return a->base;
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
