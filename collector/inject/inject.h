/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's inner contract: what its files know of each other.
 *
 * libargus-collector.so lives in a process that is not ours.  It therefore
 * links libc alone, starts nothing before the first record, prints nothing,
 * handles no signal, takes no lock across a call into CUPTI, allocates
 * nothing on an application's thread, and does nothing at all in a forked
 * child.  Whatever fails leaves a source silent and the program running.
 *
 * The first record of any source opens the ring on the spot (a small part of
 * it: tens of microseconds) and starts the worker thread, which reserves the
 * rest, publishes the ring, and from then on does everything slow.
 */
#ifndef ARGUS_COLLECTOR_INJECT_H
#define ARGUS_COLLECTOR_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "argus/record.h"
#include "collector/inject/oldglibc.h"

#define ARGUS_EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Written once, read by every thread.  Nothing in here changes after the ring
 * is open except what is marked so. */
struct argus_ring {
    struct argus_ring_header *header;
    struct argus_record *slots;
    char *names;
    uint64_t mask;
    unsigned shift;         /* log2(slots): lap = position >> shift */
    uint64_t limit;         /* atomic; positions below it are reserved memory */
    uint64_t names_limit;   /* atomic; heap bytes that are reserved memory */
    uint32_t name_overflow; /* heap offset of "(name table full)" */
    int state;              /* atomic; enum ring_state */
};

enum ring_state {
    RING_NONE = 0,
    RING_OPENING = 1,
    RING_OPEN = 2,
    RING_FAILED = 3 /* nothing is recorded in this process, for good */
};

extern struct argus_ring argus_ring;

/* ---- ring.c ---- */

/* Opens the ring if nobody has.  0, or -1 when there will be none. */
int argus_ring_open(void);
/* The worker's part: reserve the whole file, give it its final name. */
int argus_ring_publish(void);
void argus_ring_drop(enum argus_source source, uint64_t count);
void argus_ring_invalid(enum argus_source source, uint64_t count);
const char *argus_ring_path(void); /* "" before it is published */
void argus_ring_standdown(enum argus_source source, enum argus_reason reason, int code);
enum argus_reason argus_ring_standdown_of(enum argus_source source);

static inline bool argus_ring_is_open(void)
{
    return __atomic_load_n(&argus_ring.state, __ATOMIC_ACQUIRE) == RING_OPEN;
}

/*
 * Claims a slot and returns it with type, flags and thread filled in, or NULL
 * when the record is lost (counted).  The caller fills the rest and must call
 * argus_ring_commit() without anything slow in between.
 */
struct argus_record *argus_ring_claim(enum argus_source source, enum argus_record_type type,
                                      uint32_t flags, uint32_t tid);

/* Many at once, finished ones, for one thread that has many: a claim for the
 * lot instead of one for each. */
void argus_ring_write(enum argus_source source, const struct argus_record *records, unsigned count);

static inline void argus_ring_commit(struct argus_record *record, enum argus_source source)
{
    uint64_t *count = &argus_ring.header->records[source];

    __atomic_store_n(&record->state, __atomic_load_n(&record->state, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELEASE);
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* ---- names.c ---- */

/* The heap offset of a string, the same for equal strings; any thread.
 * ARGUS_NAME_NONE for NULL; "(name table full)" once the table or the heap is
 * full.  Needs an open ring. */
uint32_t argus_name(const char *string);
uint32_t argus_name_n(const char *string, size_t length);
/* The same with a cache by address that compares on every hit.  One thread
 * only: the CUPTI worker. */
uint32_t argus_name_cached(const char *string);

/* ---- identity.c ---- */

struct argus_identity {
    int rank, world, local_rank;
    char job[32], step[32], node[64], exe[64];
    char spool[256];
    uint64_t pid_start;
    uint64_t ring_slots;
    uint32_t names_bytes;
    bool links;          /* `links=on`, or open now under `links=N` */
    int links_every_min; /* `links=N` */
};

/* Reads environment, /proc and step.conf.  -1: this process is not to be
 * traced (no spool, a compile worker, a helper child of a traced rank). */
int argus_identity_read(struct argus_identity *id);
/* Is the source named in ARGUS_SOURCES (default: all), and is there a spool? */
bool argus_source_wanted(enum argus_source source);
/* Address space that may be taken without hurting a limited process. */
size_t argus_memory_slack(void);

extern struct argus_identity argus_identity;

/* ---- entry.c ---- */

/* True in a forked child and after the collector has given up. */
bool argus_dead(void);
/* Once a process: the fork handler.  Cheap when already done. */
void argus_hooks_install(void);
/* The exit handler, at the first record: after the driver registered its own,
 * therefore run before it. */
void argus_exit_install(void);
/* Which sources the user's own settings keep us out of. */
void argus_user_settings(void);
void argus_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One line in <spool>/standdown, for a process that may never have a ring. */
void argus_standdown_note(enum argus_source source, enum argus_reason reason, int code);
/* "is the GPU working?": every NCCL and NVTX callback counts. */
extern uint64_t argus_activity;
extern int argus_dead_flag;

/* ---- worker.c ---- */

int argus_worker_start(void);
/* At exit: last flush, last records, `end`; at most `deadline_ms`. */
void argus_worker_finish(unsigned deadline_ms);
/* Starts a thread with all signals blocked and a small stack. */
int argus_thread_start(void *(*run)(void *), void *argument);

/* ---- thread.c ---- */

#define ARGUS_NVTX_DEPTH 64

struct argus_open_range {
    int64_t start;
    uint32_t name;
    uint32_t domain;
};
struct argus_thread {
    int used; /* atomic */
    uint32_t tid;
    uint32_t depth; /* open ranges, also those beyond ARGUS_NVTX_DEPTH */
    struct argus_open_range ranges[ARGUS_NVTX_DEPTH];
};

/* The calling thread's id without a system call after the first. */
uint32_t argus_tid(void);
/* Its state, from a static pool; NULL when there are more threads than that. */
struct argus_thread *argus_thread_self(void);
/* In a forked child that starts afresh: every slot is free again. */
void argus_thread_forget(void);

/* ---- cupti.c, cupti_load.c, cupti_parse.c, cupti_pool.c, cupti_busy.c ---- */

/* From cuInit: load, configure, enable.  Never fails towards the caller. */
void argus_cupti_start(void);
/* Two clocks at once: records are on the first, which may be set back or
 * forth; waiting is done on the second. */
struct argus_moment {
    int64_t real, mono;
};
/* The worker's turn, ten times a second. */
void argus_cupti_turn(struct argus_moment now);
/* At exit, from the worker: kinds off, forced flush, last buffers. */
void argus_cupti_finish(void);
/* No ring: kinds off. */
void argus_cupti_give_up(void);
/* What is left of that when the worker did not come back in time. */
void argus_cupti_abandon(void);
/* CUPTI's id of a stream, 0 when unknown. */
uint32_t argus_cupti_stream(void *stream, int64_t now);
/* cuptiGetTimestamp, 0 when there is none. */
int64_t argus_cupti_timestamp(void);
/* GPU work that ended before this time (CLOCK_REALTIME) has been seen; 0 while
 * there is none. */
int64_t argus_cupti_known_until(void);
/* No kernel, copy or graph ran within ten to twenty ms of then. */
bool argus_cupti_idle_at(int64_t time);

/* ---- device.c ---- */

/* Uuid, name, PCI id, driver version of an ordinal, into the header. */
void argus_device_identify(int ordinal);
uint32_t argus_device_driver_version(void);

/* ---- nccl_mask.c ---- */
void argus_nccl_turn(struct argus_moment now);

/* ---- hoststack.c ---- */
void argus_hoststack_start(void);

static inline int64_t argus_now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline struct argus_moment argus_moment_now(void)
{
    return (struct argus_moment){argus_now(CLOCK_REALTIME), argus_now(CLOCK_MONOTONIC)};
}

#endif /* ARGUS_COLLECTOR_INJECT_H */
