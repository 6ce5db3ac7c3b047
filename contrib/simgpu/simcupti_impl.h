/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the stand-in libcupti. */
#ifndef SIMCUPTI_IMPL_H
#define SIMCUPTI_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "simcu.h"

/* A record to come: what happened, as which kind it is shown, with what times. */
struct simcupti_event {
    struct simcu_activity activity;
    uint32_t record_kind;
    uint32_t correlation; /* 0 in kernel-only mode */
    uint64_t start, end;  /* as the record says, in the process's clock */
    int64_t complete;     /* when it may be shown, in the virtual GPU's clock */
    uint32_t lane;        /* whose buffer takes it */
};

typedef void simcupti_request_fn(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void simcupti_complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                  size_t valid);

extern uint8_t simcupti_device_uuid[16];

/* Writes the record at p, which has room; returns its bytes. */
unsigned simcupti_record_write(uint8_t *p, const struct simcupti_event *e, unsigned api);

/*
 * The buffers between CUPTI and its client (simcupti_buffer.c).
 */
void simcupti_buffers_set_api(unsigned api);
void simcupti_buffers_set_callbacks(simcupti_request_fn *request, simcupti_complete_fn *complete);
int simcupti_buffers_have_callbacks(void);
/* Queues events; shows those that are complete at `now`.  One thread at a time
 * fills buffers, and like the original it keeps its lock while it calls the
 * client: a client that holds a lock of its own across a call deadlocks. */
void simcupti_buffers_add(const struct simcupti_event *e);
void simcupti_buffers_tick(int64_t now);
/* Returns the client's buffers; forced: also with records of running kernels, end = 0. */
void simcupti_buffers_flush(int64_t now, int forced);
/* Forgets all that was queued or written. */
void simcupti_buffers_wipe(void);
uint64_t simcupti_buffers_take_dropped(void);
void simcupti_buffers_count_dropped(uint64_t n);
struct simcupti_totals {
    uint64_t records, requested, completed;
    uint64_t foreign; /* records that a second client got */
};
void simcupti_buffers_totals(struct simcupti_totals *t);
/* A foreign client's callbacks, which throw everything away. */
void simcupti_foreign_request(uint8_t **buffer, size_t *size, size_t *max_records);
void simcupti_foreign_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                               size_t valid);

/*
 * Faults (simcupti_fault.c).
 */
/* Spoils the times or the name of the n-th record; 0: the record is to be dropped. */
int simcupti_fault_record(struct simcupti_event *e, uint64_t n);
/* What else happens when n records were made. */
enum simcupti_incident {
    SIMCUPTI_NOTHING,
    SIMCUPTI_TAKEOVER,
    SIMCUPTI_TAKEOVER_ENDS,
    SIMCUPTI_FINALIZE
};
enum simcupti_incident simcupti_fault_incident(uint64_t n);
/* The device buffers are used up until kinds are disabled and enabled again. */
void simcupti_fault_rearmed(void);

#endif /* SIMCUPTI_IMPL_H */
