/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer's side of a ring (include/argus/record.h).
 *
 * A ring is written by a process of the user's and may hold anything: sizes
 * and offsets are checked against the file, records are copied before they
 * are looked at, and a file that is cut short while it is mapped ends the
 * ring, not the recorder (SIGBUS is caught in the thread that reads).
 *
 * Reading and releasing are two things: what was read stays in the ring until
 * argus_ring_release(), so that whoever reads next after a crash finds it.
 */
#ifndef ARGUS_RECORD_RING_READER_H
#define ARGUS_RECORD_RING_READER_H

#include <argus/record.h>
#include <stddef.h>

#include "analyzer/util/error.h"

struct argus_ring {
    int fd;
    unsigned char *map;
    size_t size;
    uint64_t slots, slots_offset, names_offset, names_bytes;
    uint64_t pid_start;
    int64_t created;        /* with it: one ring from another */
    uint64_t cursor;        /* next position to read */
    uint64_t released;      /* positions below are the producers' again */
    uint64_t dropped_pages; /* slots below were given back to the kernel (this lap) */
};

/* Prepares the process for rings that change under it.  Once. */
void argus_ring_catch_sigbus(void);

int argus_ring_open(struct argus_ring *r, const char *path, argus_error_t *err);
void argus_ring_close(struct argus_ring *r); /* accepts a zeroed one with fd -1 */
/* Checked copy of the header: strings are terminated. */
int argus_ring_header(struct argus_ring *r, struct argus_ring_header *copy, argus_error_t *err);
/* Up to `max` records from the cursor on; *n of them, *torn claimed and never committed: they are
 * skipped if the writer is `dead`, else waited for. */
int argus_ring_read(struct argus_ring *r, struct argus_record *records, size_t max, int dead,
                    size_t *n, uint64_t *torn, argus_error_t *err);
/* Give everything that was read back to the producers, and show that somebody reads. */
int argus_ring_release(struct argus_ring *r, int64_t heartbeat, argus_error_t *err);
/* Shows that somebody reads. */
int argus_ring_heartbeat(struct argus_ring *r, int64_t now, argus_error_t *err);
/* Go on reading where an earlier reader was; -1: it cannot have been there. */
int argus_ring_seek(struct argus_ring *r, uint64_t cursor);
/* Records that wait: claimed and not read. */
uint64_t argus_ring_waiting(struct argus_ring *r);
/* Copies name `offset` into `out` (terminated, cut to size); its length, -1: no such name. */
int argus_ring_name(struct argus_ring *r, uint32_t offset, char *out, size_t size);

#endif /* ARGUS_RECORD_RING_READER_H */
