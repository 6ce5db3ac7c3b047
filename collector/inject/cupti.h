/* SPDX-License-Identifier: Apache-2.0 */
/* What the CUPTI files share with each other and with their tests. */
#ifndef ARGUS_COLLECTOR_CUPTI_H
#define ARGUS_COLLECTOR_CUPTI_H

#include "collector/inject/cupti_facts.h"
#include "collector/inject/inject.h"

extern struct cupti_calls argus_cupti_calls;
extern uint32_t argus_cupti_version;

/* How long things take, in ns; the tests are less patient. */
struct cupti_pace {
    int64_t quiet_after;  /* no GPU record for so long: look closer */
    int64_t poll_every;   /* and so often */
    int64_t blind_wait;   /* re-arm after this where the question cannot be asked */
    int64_t ratio_window; /* of one look at the share of bad timestamps */
};
extern struct cupti_pace argus_cupti_pace;

/* ---- cupti_load.c: 0, or -1 with a reason and the API's code ---- */
int argus_cupti_load(struct cupti_calls *calls, enum argus_reason *reason);

/* ---- cupti_pool.c ---- */

/* Maps the buffers; `need_non_null`: this CUPTI cannot take NULL. */
int argus_pool_init(bool need_non_null);
/* From CUPTI, any thread. */
void argus_pool_requested(uint8_t **buffer, size_t *size, size_t *max_records);
void argus_pool_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                          size_t valid);
/* From the worker: the next buffer CUPTI has given back, or -1. */
int argus_pool_next(uint8_t **buffer, size_t *valid);
/* Clears what was used and lends it again; an orphan is unmapped. */
void argus_pool_recycle(int index, size_t used);
/* From the worker, before the callbacks are registered again: what is still
 * lent will hardly come back, its places get fresh buffers.  False when there
 * is nothing left to lend. */
bool argus_pool_renew(void);
/* Keeps some buffers free, outside every callback. */
void argus_pool_top_up(void);
bool argus_pool_ever_requested(void);

/* ---- cupti_parse.c ---- */

struct cupti_counts {
    uint64_t seen;    /* GPU records */
    uint64_t invalid; /* of them, with unusable times */
    int64_t newest_end;
    int device; /* of the first kernel or copy; -1 */
};
/* Every record of a buffer into the ring.  `final`: an unfinished record is
 * what a forced flush leaves, not an error. */
void argus_cupti_parse(uint8_t *buffer, size_t valid, int64_t now, bool final,
                       struct cupti_counts *counts);

/* ---- cupti_busy.c: when the GPU was busy, in steps of 10 ms, for the last
 * ten seconds; written by the worker, read by the stack sampler ---- */
void argus_cupti_busy(int64_t start, int64_t end);

#endif /* ARGUS_COLLECTOR_CUPTI_H */
