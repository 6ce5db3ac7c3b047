/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the Nsight Systems importer: nsys_db.c opens and asks, nsys.c
 * builds ranks, nsys_nccl.c joins NCCL's NVTX ranges with its kernels. */
#ifndef ARGUS_IMPORT_NSYS_H
#define ARGUS_IMPORT_NSYS_H

#include <sqlite3.h>

#include "analyzer/import/import.h"

struct nsys_db {
    const char *path; /* as the user gave it */
    sqlite3 *db;
    int64_t time_base; /* adds up to CLOCK_REALTIME */
};

/* A plain export, or a gzip'd one (unpacked into $TMPDIR, removed at once). */
int nsys_open(struct nsys_db *n, const char *path, argus_error_t *err);
void nsys_close(struct nsys_db *n);
/* Is `table` an ordinary table with `column` (NULL: any)? */
int nsys_has(const struct nsys_db *n, const char *table, const char *column);
/* `column`, or "0" where the table lacks it. */
const char *nsys_or_zero(const struct nsys_db *n, const char *table, const char *column);
/* A prepared statement; NULL with a text on error. */
sqlite3_stmt *nsys_prepare(const struct nsys_db *n, argus_error_t *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* 1: a row, 0: the end, -1: error. */
int nsys_step(const struct nsys_db *n, sqlite3_stmt *s, argus_error_t *err);

#define NSYS_PROCESS "(coalesce(%s, 0) & ~16777215)" /* of a globalPid or a globalTid, or of none */

/* A rank to be: one GPU of one process of one file. */
struct nsys_rank {
    size_t file;
    int64_t process;
    int64_t device;
    int rank;
};

/* All tables of one rank, sorted.  `first_of_process`: it takes the host calls that belong to no GPU. */
int nsys_read_rank(struct nsys_db *n, const struct nsys_rank *rank, int world, int first_of_process,
                   struct import_trace *t, argus_error_t *err);

/* Adds communicator, message and peer to the NCCL kernels of a trace, where
 * NCCL's NVTX ranges carry their payload. */
int nsys_join_nccl(struct nsys_db *n, const struct nsys_rank *rank, struct import_trace *t,
                   argus_error_t *err);

#endif /* ARGUS_IMPORT_NSYS_H */
