/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending records and the client's buffers.
 *
 * A record waits in `pending` until the virtual clock has passed its end.
 * Then it goes into the current buffer of its lane (one lane a launching
 * thread with per-thread buffers, else one for all).  A buffer is asked for
 * at the first record that needs it and given back when it is full or
 * flushed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "simcupti_layout.h"
#include "simcupti_impl.h"
#include "simfault.h"

#define LANES 16
#define CHECK_LEAST 256 /* pending records that are worth a look at the clock */

struct lane {
    uint8_t *buffer;
    size_t size, used, max_records, records;
};

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t fill_lock = PTHREAD_MUTEX_INITIALIZER;
static struct simcupti_event *pending;
static size_t pending_count, pending_room, check_at = CHECK_LEAST;
static struct lane lanes[LANES];
static simcupti_request_fn *request_buffer;
static simcupti_complete_fn *buffer_done;
static unsigned api_version;
static _Atomic uint64_t dropped;
static struct simcupti_totals totals;
static __thread int in_callback;

void simcupti_buffers_set_api(unsigned api)
{
    api_version = api;
}

void simcupti_buffers_set_callbacks(simcupti_request_fn *request, simcupti_complete_fn *complete)
{
    pthread_mutex_lock(&fill_lock);
    request_buffer = request;
    buffer_done = complete;
    pthread_mutex_unlock(&fill_lock);
}

int simcupti_buffers_have_callbacks(void)
{
    return request_buffer && buffer_done;
}

void simcupti_buffers_count_dropped(uint64_t n)
{
    atomic_fetch_add(&dropped, n);
}

uint64_t simcupti_buffers_take_dropped(void)
{
    return atomic_exchange(&dropped, 0);
}

/* Records of one buffer swap places: they are not ordered by time. */
static void disorder(uint8_t *buffer, size_t used)
{
    uint8_t copy[KERNEL10_BYTES];
    size_t at = 0;

    if (!simfault_find("out-of-order"))
        return;
    while (at < used) {
        unsigned kind, bytes, next_kind;

        memcpy(&kind, buffer + at, sizeof(kind));
        bytes = simcupti_record_bytes(kind, api_version);
        if (bytes == 0 || at + 2 * (size_t)bytes > used)
            return;
        memcpy(&next_kind, buffer + at + bytes, sizeof(next_kind));
        if (next_kind != kind || bytes > sizeof(copy)) {
            at += bytes;
            continue;
        }
        memcpy(copy, buffer + at, bytes);
        memcpy(buffer + at, buffer + at + bytes, bytes);
        memcpy(buffer + at + bytes, copy, bytes);
        at += 2 * (size_t)bytes;
    }
}

/* A completed buffer comes from a thread of CUPTI's own (callback-thread). */
static void *call_done(void *arg)
{
    const struct lane *full = arg;

    in_callback = 1;
    buffer_done(NULL, 0, full->buffer, full->size, full->used);
    in_callback = 0;
    return NULL;
}

static void give_back(struct lane *lane)
{
    struct lane full = *lane;
    pthread_t thread;

    memset(lane, 0, sizeof(*lane));
    if (!full.buffer || !buffer_done)
        return;
    disorder(full.buffer, full.used);
    totals.completed++;
    totals.records += full.records;
    if (buffer_done == simcupti_foreign_complete)
        totals.foreign += full.records;
    if (simfault_find("callback-thread") && pthread_create(&thread, NULL, call_done, &full) == 0)
        pthread_join(thread, NULL);
    else
        call_done(&full);
}

void simcupti_buffers_totals(struct simcupti_totals *t)
{
    pthread_mutex_lock(&fill_lock);
    *t = totals;
    pthread_mutex_unlock(&fill_lock);
}

static int ask_for_buffer(struct lane *lane)
{
    in_callback = 1;
    request_buffer(&lane->buffer, &lane->size, &lane->max_records);
    in_callback = 0;
    if (!lane->buffer) {
        /* From 12.9 a client may say no; earlier releases write through the
         * pointer all the same. */
        if (api_version < API_12_9 || simfault_find("null-buffer-crash"))
            *(volatile uint8_t *)lane->buffer = 0;
        return -1;
    }
    totals.requested++;
    return 0;
}

static void write_out(const struct simcupti_event *e)
{
    struct lane *lane = &lanes[e->lane % LANES];
    unsigned bytes = simcupti_record_bytes(e->record_kind, api_version);

    if (!request_buffer || !buffer_done)
        return;
    if (lane->buffer && (lane->used + bytes > lane->size ||
                         (lane->max_records && lane->records >= lane->max_records)))
        give_back(lane);
    if (!lane->buffer && ask_for_buffer(lane) < 0) {
        simcupti_buffers_count_dropped(1);
        return;
    }
    if (bytes > lane->size) {
        simcupti_buffers_count_dropped(1);
        return;
    }
    simcupti_record_write(lane->buffer + lane->used, e, api_version);
    lane->used += bytes;
    lane->records++;
}

/* Takes what is complete out of the queue into *out (malloc'ed). */
static size_t take_complete(int64_t now, int forced, struct simcupti_event **out)
{
    size_t kept = 0, taken = 0;

    pthread_mutex_lock(&queue_lock);
    *out = pending_count ? malloc(pending_count * sizeof(**out)) : NULL;
    for (size_t i = 0; *out && i < pending_count; i++) {
        if (pending[i].complete <= now) {
            (*out)[taken++] = pending[i];
        } else if (forced) {
            pending[i].end = 0;
            (*out)[taken++] = pending[i];
        } else {
            pending[kept++] = pending[i];
        }
    }
    if (*out)
        pending_count = kept;
    check_at = 2 * pending_count > CHECK_LEAST ? 2 * pending_count : CHECK_LEAST;
    pthread_mutex_unlock(&queue_lock);
    return taken;
}

static void fill(int64_t now, int forced, int flush)
{
    struct simcupti_event *events;
    size_t count;

    if (in_callback)
        return;
    pthread_mutex_lock(&fill_lock);
    count = take_complete(now, forced, &events);
    for (size_t i = 0; i < count; i++)
        write_out(&events[i]);
    free(events);
    for (int i = 0; flush && i < LANES; i++)
        give_back(&lanes[i]);
    pthread_mutex_unlock(&fill_lock);
}

void simcupti_buffers_add(const struct simcupti_event *e)
{
    int look;

    pthread_mutex_lock(&queue_lock);
    if (pending_count == pending_room) {
        size_t room = pending_room ? 2 * pending_room : 1024;
        struct simcupti_event *p = realloc(pending, room * sizeof(*p));

        if (!p) {
            pthread_mutex_unlock(&queue_lock);
            simcupti_buffers_count_dropped(1);
            return;
        }
        pending = p;
        pending_room = room;
    }
    pending[pending_count++] = *e;
    look = pending_count >= check_at;
    pthread_mutex_unlock(&queue_lock);
    if (look)
        fill(simcu_host_now(), 0, 0);
}

void simcupti_buffers_tick(int64_t now)
{
    fill(now, 0, 0);
}

void simcupti_buffers_flush(int64_t now, int forced)
{
    fill(now, forced, 1);
}

void simcupti_buffers_wipe(void)
{
    pthread_mutex_lock(&fill_lock);
    pthread_mutex_lock(&queue_lock);
    pending_count = 0;
    memset(lanes, 0, sizeof(lanes));
    request_buffer = NULL;
    buffer_done = NULL;
    pthread_mutex_unlock(&queue_lock);
    pthread_mutex_unlock(&fill_lock);
}

void simcupti_foreign_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *size = 1u << 20;
    *max_records = 0;
    *buffer = malloc(*size);
}

void simcupti_foreign_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                               size_t valid)
{
    (void)context;
    (void)stream;
    (void)size;
    (void)valid;
    free(buffer);
}
