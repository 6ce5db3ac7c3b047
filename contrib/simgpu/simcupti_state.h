/* SPDX-License-Identifier: Apache-2.0 */
/* What libcupti.c and simcupti_callback.c (the interface) and simcupti_show.c
 * (the records) share. */
#ifndef SIMCUPTI_STATE_H
#define SIMCUPTI_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "simcupti.h"
#include "simcupti_layout.h"

#define MAX_CBID 1024
#define EXTERNAL_DEPTH 16
#define ATTRIBUTES 16
#define ATTRIBUTE_PER_THREAD 9

/* The driver's private entry points; the stand-in links no libcuda, as the
 * original does not. */
struct simcupti_driver {
    int (*attach)(simcu_sink_fn *);
    int64_t (*host_now)(void);
    int64_t (*visible)(int64_t);
    uint32_t (*stream_id)(simcu_stream_t);
    int (*uuid)(void *, int);
    int (*torn_down)(void);
};

struct simcupti_state {
    pthread_mutex_t lock;
    unsigned api;
    int attached;
    pid_t owner;
    uint8_t enabled[KIND_COUNT];
    uint8_t runtime_filter[MAX_CBID], driver_filter[MAX_CBID];
    int device_shown;
    int foreign; /* another client's callbacks are in place */
    void *subscriber;
    int subscriber_callbacks;
    simcupti_callback_fn *subscriber_callback;
    char subscriber_name[64];
    uint64_t (*timestamp)(void);
    uint64_t attributes[ATTRIBUTES];
    _Atomic uint64_t records;
    _Atomic uint32_t lanes;
    uint64_t registrations;
    CUptiResult last_error;
    unsigned thread_id_type;
};

extern struct simcupti_driver driver;
extern struct simcupti_state cupti;
extern __thread uint64_t simcupti_external_ids[EXTERNAL_DEPTH];
extern __thread int simcupti_external_depth;

/* Once, before anything else. */
void simcupti_set_up(void);
/* `rc`, kept for cuptiGetLastError(). */
CUptiResult simcupti_result(CUptiResult rc);
/* 0: the driver is the stand-in; -1: another one, or none. */
int simcupti_find_driver(void);
void *simcupti_driver_symbol(const char *name);
/* Listens to the virtual GPU; called with the lock held. */
CUptiResult simcupti_attach(void);
/* What cuptiFinalize does to all clients. */
void simcupti_wipe(void);

#endif /* SIMCUPTI_STATE_H */
