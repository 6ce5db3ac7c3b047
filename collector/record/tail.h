/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and strings of a timeline that are not in its file for certain yet,
 * and a timeline made again from a file that was left behind and those rows.
 */
#ifndef ARGUS_RECORD_TAIL_H
#define ARGUS_RECORD_TAIL_H

#include "analyzer/timeline/timeline_io.h"
#include "analyzer/util/blob.h"

struct argus_tail {                         /* zeroed memory is an empty one */
    uint64_t base[ARGUS_DS_COUNT];          /* rows before the first one held */
    struct argus_blob rows[ARGUS_DS_COUNT]; /* ARGUS_DS_STRINGS: length (u64), bytes of each */
    uint64_t strings, string_bytes;         /* in the whole timeline */
};

/* An argus_timeline_tap_f; arg is the tail. */
void argus_tail_tap(void *arg, enum argus_dataset dataset, const void *rows, size_t n);
/* Forget what is in the file. */
void argus_tail_trim(struct argus_tail *t, const argus_timeline_writer_t *w);
void argus_tail_save(const struct argus_tail *t, struct argus_blob *b);
/* Into `w` (whose tap collects them in `t`): the rows of `old` that the saved tail builds on, then
 * the saved ones. */
int argus_tail_restore(struct argus_tail *t, argus_timeline_writer_t *w, argus_timeline_t *old,
                       struct argus_blob *b, argus_error_t *err);
void argus_tail_free(struct argus_tail *t);

#endif /* ARGUS_RECORD_TAIL_H */
