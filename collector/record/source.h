/* SPDX-License-Identifier: Apache-2.0 */
/* One ring of the spool: the process behind it, its stream, its end. */
#ifndef ARGUS_RECORD_SOURCE_H
#define ARGUS_RECORD_SOURCE_H

#include <jansson.h>

#include "collector/record/stream.h"

typedef struct argus_ring_source argus_source_t;

/* Opens <spool>/<name>, and takes up what an earlier recorder left of it (see checkpoint.c); where
 * that cannot be done `err` says why, and what is still in the ring is read. */
argus_source_t *argus_source_open(const char *spool, const char *name,
                                  const struct argus_stream_options *options, argus_error_t *err);
void argus_source_destroy(argus_source_t *s); /* accepts NULL; the ring stays */
const char *argus_source_name(const argus_source_t *s);
/* Reads again what the process says of itself: it learns its GPU some time after its start. */
void argus_source_refresh(argus_source_t *s);
const char *argus_source_uuid(const argus_source_t *s); /* of its GPU, "" unknown */
int argus_source_rank(const argus_source_t *s);
int argus_source_local_rank(const argus_source_t *s);
argus_stream_t *argus_source_stream(argus_source_t *s); /* NULL: nothing came yet */

/* The timeline's name for this rank, known when the first record comes. */
typedef void (*argus_name_f)(void *arg, const struct argus_ring_header *h, char *path, size_t size);

/* Reads what is there, at most for a moment: the number of records.  `now`: CLOCK_MONOTONIC ns. */
size_t argus_source_poll(argus_source_t *s, const struct argus_stream_options *options,
                         argus_name_f name, void *arg, int64_t now);
int argus_source_flush(argus_source_t *s, argus_error_t *err);
/* What was read is stored, so that it may leave the ring; when it is time, or at once. */
int argus_source_checkpoint(argus_source_t *s, int64_t now, int at_once, argus_error_t *err);
/* The process lives and may write more. */
int argus_source_alive(argus_source_t *s, int64_t now);
/* The process is gone and everything it wrote was read. */
int argus_source_finished(argus_source_t *s, int64_t now);
/* What is in the ring by now is to be read before it is sealed; how much of that is not read. */
void argus_source_mark(argus_source_t *s);
uint64_t argus_source_behind(const argus_source_t *s);
/* Seals the timeline and removes the ring.  `drained`: by somebody who came later. */
int argus_source_seal(argus_source_t *s, int drained, argus_error_t *err);
/* The text of the first failure, the first time it is asked for; NULL: nothing new. */
const char *argus_source_failure(argus_source_t *s);
/* For node-<node>.json. */
json_t *argus_source_json(const argus_source_t *s);
const char *argus_source_path(const argus_source_t *s); /* of its timeline, "" none */
uint64_t argus_source_comms(const argus_source_t *s);
uint64_t argus_source_records(const argus_source_t *s);

#endif /* ARGUS_RECORD_SOURCE_H */
