/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the timeline writer: write.c fills it, seal.c ends it. */
#ifndef ARGUS_TIMELINE_WRITER_H
#define ARGUS_TIMELINE_WRITER_H

#include "analyzer/timeline/layout.h"

struct tl_set {
    hid_t dset;
    uint64_t rows;         /* appended so far */
    uint64_t durable;      /* rows that the last flush left in the file */
    unsigned char *buffer; /* rows of the chunk that is not full yet */
    size_t n;              /* how many */
    size_t on_disk;        /* bytes of that chunk's last copy in the file */
    int dirty;             /* has rows that the file lacks */
};

/* Strings are known by 128 bits of hash, not by their bytes: stacks may be
 * many and long. */
struct tl_name {
    uint64_t hash[2];
    uint32_t id;
};
struct tl_names {
    struct tl_name *slots;
    size_t size; /* a power of two */
    size_t n;
};

struct argus_timeline_writer {
    hid_t file;
    char *path, *open_path, *temp_path;
    struct argus_timeline_info info;
    struct argus_timeline_counters counters;
    struct tl_set sets[ARGUS_DS_COUNT];
    struct tl_names names;
    void *scratch, *packed;  /* as large as the largest chunk */
    uint64_t useful, wasted; /* bytes of chunks that count, and of their outdated copies */
    uint64_t bytes;
    int64_t partial_at; /* when partial chunks were last written, monotonic seconds */
    int info_dirty, counters_dirty, unflushed;
    argus_timeline_tap_f tap;
    void *tap_arg;
};

int tl_writer_append(argus_timeline_writer_t *w, enum argus_dataset which, const void *rows,
                     size_t n, argus_error_t *err);
/* Everything in memory into the file, partial chunks too. */
int tl_writer_write_all(argus_timeline_writer_t *w, argus_error_t *err);
int tl_writer_create_attributes(hid_t file, const argus_timeline_writer_t *w,
                                const struct tl_state *state);
void tl_writer_close(argus_timeline_writer_t *w);
void tl_writer_free(argus_timeline_writer_t *w);

#endif /* ARGUS_TIMELINE_WRITER_H */
