/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading split over the processes of an MPI launch.
 *
 * Every process reads its share of the timelines (file i belongs to process
 * i % size) into its own arena; process 0 takes the arenas over, at the
 * addresses they had, and goes on as if it had read all files itself: the
 * same bytes, the same verdict.  Built without MPI, begin() fails and the
 * others describe one process.  All processes must run the same binary on the
 * same kind of machine.
 */
#ifndef ARGUS_MODEL_SPREAD_H
#define ARGUS_MODEL_SPREAD_H

#include "analyzer/model/digest.h"

int argus_spread_begin(argus_error_t *err); /* once, before any model is loaded */
void argus_spread_end(void);                /* all processes; harmless without begin() */
int argus_spread_rank(void);                /* 0 without begin() */
int argus_spread_size(void);                /* 1 without begin() */
/* What process 0 says, for all of them. */
int argus_spread_share(int value);
/* An agreement that all processes came this far, and whether any of them failed: -1 then. */
int argus_spread_agree(int failed);

/* Process 0: digests[i] of all other processes, i % size != 0, now point into attached arenas.
 * Others: theirs are handed over. */
int argus_spread_collect(argus_arena_t *arena, int slot, struct argus_digest *digests, size_t n,
                         argus_error_t *err);

#endif /* ARGUS_MODEL_SPREAD_H */
