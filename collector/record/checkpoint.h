/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recorder that is killed leaves for the next one.
 *
 * "<ring>.state" in the spool (node-local memory) holds where in the ring the
 * reader was and everything its stream knew there.  Records leave the ring
 * only after the state that includes them is stored.  Whoever comes next
 * renames the open timeline, makes it again from the rows that the state says
 * were in it, and goes on reading where the state was taken: nothing is lost,
 * nothing counts twice.
 */
#ifndef ARGUS_RECORD_CHECKPOINT_H
#define ARGUS_RECORD_CHECKPOINT_H

#include "collector/record/stream.h"

#define ARGUS_STATE_SUFFIX ".state"

/* `ring`: path of the ring file. */
int argus_checkpoint_store(const char *ring_path, const struct argus_ring *ring,
                           argus_stream_t *stream, argus_error_t *err);
enum argus_checkpoint_found {
    ARGUS_CHECKPOINT_NONE = 0, /* nothing there */
    ARGUS_CHECKPOINT_STREAM,   /* *stream goes on; the ring's cursor is set */
    ARGUS_CHECKPOINT_SEALED,   /* the timeline was finished; only the ring was not removed */
    ARGUS_CHECKPOINT_LOST      /* err says why it cannot be used; it is removed */
};
enum argus_checkpoint_found argus_checkpoint_load(const char *ring_path, struct argus_ring *ring,
                                                  const struct argus_ring_header *header,
                                                  const struct argus_stream_options *options,
                                                  argus_stream_t **stream, char *path, size_t size,
                                                  argus_error_t *err);
void argus_checkpoint_remove(const char *ring_path);

#endif /* ARGUS_RECORD_CHECKPOINT_H */
