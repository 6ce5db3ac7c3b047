/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a timeline file looks like, as tables: one row per dataset, one per
 * member, one per root attribute.  Reader, writer and the tests that compare
 * the manual with the header work from these tables alone.
 */
#ifndef ARGUS_TIMELINE_LAYOUT_H
#define ARGUS_TIMELINE_LAYOUT_H

#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/timeline/timeline_io.h"

enum tl_type {
    TL_U8 = 0,
    TL_U16,
    TL_U32,
    TL_I32,
    TL_U64,
    TL_I64,
    TL_F64,
    TL_STR, /* char array, NUL padded */
    TL_TYPE_COUNT
};

struct tl_member {
    const char *name;
    uint8_t type;    /* enum tl_type */
    uint16_t offset; /* in the C struct */
    uint16_t count;  /* elements; of TL_STR: bytes */
};

struct tl_table {
    const char *name;
    uint32_t row_bytes;
    uint32_t live_rows; /* of a chunk while the file is written: small, since it may be rewritten */
    uint32_t chunk_rows;             /* of a chunk in a sealed file */
    const struct tl_member *members; /* NULL: rows are plain bytes */
    uint32_t n_members;
};

/* Largest chunk that the reader takes, in bytes before compression. */
#define TL_CHUNK_BYTES_MAX (16u << 20)
/* Rows that one dataset may have: more is taken for damage. */
#define TL_ROWS_MAX (UINT64_C(1) << 40)

extern const struct tl_table tl_tables[ARGUS_DS_COUNT];
extern const struct tl_member tl_info_members[];
extern const size_t tl_n_info_members;
extern const struct tl_member tl_counter_members[];
extern const size_t tl_n_counter_members;

/* HDF5 prepared for this thread: silent error stack, no plug-in filters, row
 * types made once a process.  0 or -1. */
int tl_library(argus_error_t *err);
hid_t tl_native(enum tl_type type);          /* borrowed */
hid_t tl_row_type(enum argus_dataset which); /* borrowed; the type in file and in memory */
/* Access properties for our files: no file locks, small caches.  Caller closes; <0: error. */
hid_t tl_access(void);

/* Words an error of HDF5: "PATH: WHAT: the innermost reason".  Returns -1. */
int tl_error(argus_error_t *err, const char *path, const char *what);

/* A new file at `path` (replacing one) with the properties of ours: root
 * links and attributes kept compact; `live`: metadata in pages, so that a kill
 * tears none.  Caller closes; <0: error. */
hid_t tl_create_file(const char *path, int live);
/* Takes the "being written" mark off the file on disk; HDF5 itself keeps it. */
void tl_superblock_unmark(hid_t file);
/* Dataset `which` with chunks of `chunk_rows`; `rows` fixed, or growing from 0 when `rows` is 0. */
hid_t tl_create_dataset(hid_t file, enum argus_dataset which, uint64_t rows, uint32_t chunk_rows);
/* "format", "version", "sealed", "end" beside info and counters. */
struct tl_state {
    char format[32];
    uint32_t version;
    uint32_t sealed;
    char end[32];
};
extern const struct tl_member tl_state_members[];
extern const size_t tl_n_state_members;

/* Root attributes.  `base` is a struct argus_timeline_info or _counters. */
int tl_attributes_create(hid_t file, const struct tl_member *m, size_t n, const void *base);
int tl_attributes_write(hid_t file, const struct tl_member *m, size_t n, const void *base);
/* Reads what is there; types and sizes are checked.  A missing one is an error unless `optional`. */
int tl_attributes_read(hid_t file, const char *path, const struct tl_member *m, size_t n,
                       int optional, void *base, argus_error_t *err);

/* One chunk through the filters shuffle and deflate; `out` has
 * tl_pack_bound(bytes).  Returns the size, never `other_than`: HDF5 writes a
 * chunk whose size stays over its old copy, and a kill would tear it.  0: error. */
size_t tl_pack_bound(size_t bytes);
size_t tl_pack(const void *in, size_t bytes, size_t row_bytes, size_t other_than, void *scratch,
               void *out);
/* `shuffle`, `deflate`: index of the filter in the pipeline or -1. */
int tl_unpack(const void *in, size_t in_bytes, int shuffle, int deflate, uint32_t mask,
              size_t row_bytes, void *scratch, void *out, size_t bytes);

#endif /* ARGUS_TIMELINE_LAYOUT_H */
