/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the timeline reader: read.c opens, rows.c reads rows and strings. */
#ifndef ARGUS_TIMELINE_READER_H
#define ARGUS_TIMELINE_READER_H

#include <sys/stat.h>

#include "analyzer/timeline/layout.h"

struct tl_source {
    hid_t dset;
    hid_t type; /* of the file, where it differs from ours; else -1 */
    uint64_t rows;
    size_t row_bytes; /* in the file */
    uint32_t chunk_rows;
    int shuffle, deflate; /* place in the filter pipeline, -1: not there */
};

struct tl_heap {
    struct tl_heap *next;
    char bytes[];
};

struct argus_timeline {
    hid_t file;
    char *path;
    struct stat stat;
    struct tl_state state;
    struct argus_timeline_info info;
    struct argus_timeline_counters counters;
    struct tl_source sets[ARGUS_DS_COUNT];
    char *packed, *scratch, *chunk; /* grown as chunks need */
    size_t packed_size, scratch_size, chunk_size;
    struct tl_heap *heaps; /* strings, terminated */
    char **strings;
    size_t n_strings;
};

/* Opens and checks one dataset. */
int tl_source_open(argus_timeline_t *t, enum argus_dataset which, argus_error_t *err);
void tl_source_close(struct tl_source *set);
/* Strings that the file has and the table has not. */
int tl_strings_load(argus_timeline_t *t, argus_error_t *err);

#endif /* ARGUS_TIMELINE_READER_H */
