/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing one rank's timeline (include/argus/timeline.h).
 *
 * Writer: creates "<path>.open" (SWMR once every dataset exists, HDF5 file
 * locking off), appends rows in chunks, and on seal writes the final
 * attributes and renames to <path>.  What was flushed survives SIGKILL.
 * Reader: opens a sealed, an open (live) or a torn file; every size that it
 * takes from the file is checked against the file before memory is taken.
 * One thread a handle.
 */
#ifndef ARGUS_TIMELINE_IO_H
#define ARGUS_TIMELINE_IO_H

#include <argus/timeline.h>
#include <stddef.h>

#include "analyzer/util/error.h"

typedef struct argus_timeline_writer argus_timeline_writer_t;
typedef struct argus_timeline argus_timeline_t;

const char *argus_timeline_dataset_name(enum argus_dataset dataset);
size_t argus_timeline_row_bytes(enum argus_dataset dataset);

/* NULL on error.  An existing <path> is refused unless `replace`. */
argus_timeline_writer_t *argus_timeline_create(const char *path,
                                               const struct argus_timeline_info *info, int replace,
                                               argus_error_t *err);
/* Row id of a string, added once (exact match); ARGUS_NONE on error. */
uint32_t argus_timeline_add_string(argus_timeline_writer_t *w, const char *s, size_t length);
/* Append `n` rows of the dataset's row type.  Buffered; call flush. */
int argus_timeline_append(argus_timeline_writer_t *w, enum argus_dataset dataset, const void *rows,
                          size_t n, argus_error_t *err);
void argus_timeline_set_counters(argus_timeline_writer_t *w,
                                 const struct argus_timeline_counters *counters);
/* Info may get better while the file is written (GPU name, NCCL version): job, step and rank never change. */
void argus_timeline_set_info(argus_timeline_writer_t *w, const struct argus_timeline_info *info);
int argus_timeline_flush(argus_timeline_writer_t *w, argus_error_t *err);
uint64_t
argus_timeline_bytes(const argus_timeline_writer_t *w); /* size on disk at the last flush */
/* Rows of `dataset` that are in the file for certain: they outlive this process. */
uint64_t argus_timeline_durable(const argus_timeline_writer_t *w, enum argus_dataset dataset);
/* Called for every row that is appended, in order, and for every new string (ARGUS_DS_STRINGS, its bytes): what a
 * caller has to keep until it is durable.  NULL: no more. */
typedef void (*argus_timeline_tap_f)(void *arg, enum argus_dataset dataset, const void *rows,
                                     size_t n);
void argus_timeline_set_tap(argus_timeline_writer_t *w, argus_timeline_tap_f tap, void *arg);
/* Final attributes, plain (non-SWMR) complete file, rename.  `end` as in timeline.h.  Frees `w` in every case. */
int argus_timeline_seal(argus_timeline_writer_t *w, const char *end, argus_error_t *err);
/* Free without sealing: the ".open" file stays. */
void argus_timeline_abandon(argus_timeline_writer_t *w);

argus_timeline_t *argus_timeline_open(const char *path, argus_error_t *err);
void argus_timeline_close(argus_timeline_t *t); /* accepts NULL */
const char *argus_timeline_path(const argus_timeline_t *t);
const struct argus_timeline_info *argus_timeline_info(const argus_timeline_t *t);
const struct argus_timeline_counters *argus_timeline_counters(const argus_timeline_t *t);
int argus_timeline_sealed(const argus_timeline_t *t);
const char *argus_timeline_end(const argus_timeline_t *t); /* "" while open or torn */
size_t argus_timeline_rows(const argus_timeline_t *t, enum argus_dataset dataset);
/* Rows first..first+n-1 into `rows`.  Ids inside rows are NOT yet checked: see argus_timeline_check_*. */
int argus_timeline_read(argus_timeline_t *t, enum argus_dataset dataset, size_t first, size_t n,
                        void *rows, argus_error_t *err);
/* All rows in a malloc'd array the caller frees; *n rows.  Refuses more than `limit` rows (0: no limit). */
void *argus_timeline_read_all(argus_timeline_t *t, enum argus_dataset dataset, size_t limit,
                              size_t *n, argus_error_t *err);
/* "" for ARGUS_NONE and for ids out of range.  Valid until close. */
const char *argus_timeline_string(argus_timeline_t *t, uint32_t id);
/* Re-read what a live file gained since open (row counts, strings).  0: nothing new, 1: more, -1: error. */
int argus_timeline_refresh(argus_timeline_t *t, argus_error_t *err);

/* Timelines of a step directory: "rank-NNNNN.h5" and ".h5.open"; sorted by rank; malloc'd, as is each path. */
int argus_timeline_list(const char *dir, char ***paths, size_t *n, argus_error_t *err);
void argus_timeline_list_free(char **paths, size_t n);

#endif /* ARGUS_TIMELINE_IO_H */
