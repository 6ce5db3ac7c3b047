/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that loader processes fill and their parent reads: one shared
 * anonymous mapping made before the fork, so that pointers into it mean the
 * same everywhere.  Each process cuts its pieces from chunks that it claims
 * atomically.  Nothing is freed before argus_arena_destroy().
 */
#ifndef ARGUS_MODEL_ARENA_H
#define ARGUS_MODEL_ARENA_H

#include <stddef.h>

typedef struct argus_arena argus_arena_t;

argus_arena_t *argus_arena_create(void);    /* NULL: no address space */
void argus_arena_destroy(argus_arena_t *a); /* accepts NULL */
/* Zeroed memory, 16-byte aligned; NULL when the arena is full. */
void *argus_arena_alloc(argus_arena_t *a, size_t n, size_t size);
char *argus_arena_strdup(argus_arena_t *a, const char *s);
/* After fork: the child must not cut from its parent's chunk. */
void argus_arena_child(argus_arena_t *a);
size_t argus_arena_used(const argus_arena_t *a);
/* Where the used bytes begin. */
void *argus_arena_base(const argus_arena_t *a);

/* For several machines: the arena of process `process` lies at an address that no other process's has, and
 * attach() makes room at that address for what it used, until `a` is destroyed.  `slot` tells arenas apart
 * that one process holds at the same time.  NULL: the address is taken, or a number is out of range. */
#define ARGUS_ARENA_PROCESSES 256
#define ARGUS_ARENA_SLOTS 4
argus_arena_t *argus_arena_create_at(int process, int slot);
void *argus_arena_attach(argus_arena_t *a, int process, int slot, size_t used);

#endif /* ARGUS_MODEL_ARENA_H */
