/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain values one after the other in memory, to be read back by the same
 * program on the same machine.  Writing remembers a failure (no memory);
 * reading past the end, or a count larger than what is left, makes every
 * later read fail, so that callers check once, at the end.
 */
#ifndef ARGUS_UTIL_BLOB_H
#define ARGUS_UTIL_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct argus_blob { /* zeroed memory is an empty one */
    unsigned char *data;
    size_t n, capacity;
    size_t at; /* where reading is */
    int failed;
};

void argus_blob_put(struct argus_blob *b, const void *data, size_t n);
void argus_blob_put_u64(struct argus_blob *b, uint64_t v);
/* Count, then the elements. */
void argus_blob_put_array(struct argus_blob *b, const void *data, size_t n, size_t element);

/* Zeroes `data` on failure. */
void argus_blob_get(struct argus_blob *b, void *data, size_t n);
uint64_t argus_blob_get_u64(struct argus_blob *b);
/* A malloc'd array (of at least `reserve` places), NULL on failure; *n elements, at most `max`. */
void *argus_blob_get_array(struct argus_blob *b, size_t element, size_t max, size_t reserve,
                           size_t *n);

/* Whole files, with a checksum: written under a temporary name, then renamed.  -1: errno. */
int argus_blob_store(const struct argus_blob *b, const char *path);
/* -1: no such file, or not what argus_blob_store() wrote.  `max` bytes at most. */
int argus_blob_load(struct argus_blob *b, const char *path, size_t max);
void argus_blob_free(struct argus_blob *b);

#endif /* ARGUS_UTIL_BLOB_H */
