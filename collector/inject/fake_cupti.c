/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/inject/fake_cupti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collector/inject/cupti.h"
#include "collector/inject/testkit.h"

int InitializeInjection(void);

struct fake_cupti fake_cupti;

#define F fake_cupti

/* Held while the client's callbacks run, as the real one may: a client that
 * calls back from there, or waits for a thread that does, dead-locks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_cupti_lock(void)
{
    pthread_mutex_lock(&lock);
}

void fake_cupti_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct fake_cupti fake_cupti_state(void)
{
    struct fake_cupti copy;

    pthread_mutex_lock(&lock);
    copy = F;
    pthread_mutex_unlock(&lock);
    return copy;
}

static void complete(void)
{
    uint8_t *buffer = F.buffer;

    F.buffer = NULL;
    if (buffer && F.completed)
        F.completed(NULL, 0, buffer, F.size, F.used);
}

unsigned fake_cupti_kernel_bytes(void)
{
    return F.version >= 130000 ? 216 : F.version >= 19 ? 208 : F.version >= 18 ? 200 : 168;
}

static unsigned record_bytes(uint32_t kind)
{
    switch (kind) {
    case CK_MEMCPY:
    case CK_MEMCPY2:
        return F.version >= 130000 ? 96 : 88;
    case CK_MEMSET:
        return 88;
    case CK_OVERHEAD:
        return F.version >= 130000 ? 56 : 40;
    case CK_RUNTIME:
    case CK_DRIVER:
        return 40;
    case CK_GRAPH_TRACE:
        return F.version >= 27 ? 56 : 48;
    default:
        return fake_cupti_kernel_bytes();
    }
}

static uint8_t *append(uint32_t kind)
{
    unsigned n = record_bytes(kind);
    uint8_t *r;

    if (F.buffer && F.used + n > F.size)
        complete();
    if (!F.buffer) {
        size_t max = 1;

        if (!F.requested)
            return NULL;
        F.requests++;
        F.requested(&F.buffer, &F.size, &max);
        F.used = 0;
        if (!F.buffer) {
            F.null_buffers++;
            F.lost++;
            if (F.version < 27)
                abort(); /* as the real one does */
            return NULL;
        }
        for (size_t i = 0; i < F.size && F.zeroed; i += 64) {
            if (F.buffer[i])
                abort(); /* the client promised zeros */
        }
    }
    r = F.buffer + F.used;
    F.used += n;
    memset(r, 0xee, n); /* what the client must not read shows */
    memcpy(r, &kind, 4);
    return r;
}

static void put32(uint8_t *r, size_t at, uint32_t v)
{
    memcpy(r + at, &v, 4);
}

static void put64(uint8_t *r, size_t at, uint64_t v)
{
    memcpy(r + at, &v, 8);
}

static void write_kernel(const struct fake_kernel *k)
{
    uint8_t *r;

    if (!F.kinds[CK_CONCURRENT_KERNEL] || !(r = append(CK_CONCURRENT_KERNEL)))
        return;
    put64(r, 16, k->start);
    put64(r, 24, k->end);
    F.unfinished |= k->start && !k->end && F.hold_unfinished;
    put32(r, 40, 2);
    put32(r, 48, k->stream);
    put32(r, 52, 100000);
    put32(r, 56, 2);
    put32(r, 60, 3);
    put32(r, 64, 256);
    put32(r, 68, 1);
    put32(r, 72, 1);
    memcpy(r + 104, &k->name, sizeof(k->name));
    put64(r, 144, k->graph_node);
    put32(r, 156, k->graph);
}

void fake_cupti_kernel(const struct fake_kernel *k)
{
    pthread_mutex_lock(&lock);
    write_kernel(k);
    pthread_mutex_unlock(&lock);
}

static void write_memcpy(uint64_t start, uint64_t end, uint64_t bytes, bool peer)
{
    uint32_t kind = peer ? CK_MEMCPY2 : CK_MEMCPY;
    uint8_t *r;

    if (!F.kinds[kind] || !(r = append(kind)))
        return;
    r[4] = peer ? 10 : 1;
    r[5] = 1;
    r[6] = 3;
    put64(r, 8, bytes);
    put64(r, 16, start);
    put64(r, 24, end);
    put32(r, 32, 2);
    put32(r, 40, 9);
    if (peer) {
        put32(r, 44, 2);
        put32(r, 52, 5);
        put32(r, 80, 0);
    } else {
        put32(r, 72, 0);
    }
}

void fake_cupti_memcpy(uint64_t start, uint64_t end, uint64_t bytes, bool peer)
{
    pthread_mutex_lock(&lock);
    write_memcpy(start, end, bytes, peer);
    pthread_mutex_unlock(&lock);
}

static void write_memset(uint64_t start, uint64_t end, uint64_t bytes)
{
    uint8_t *r;

    if (!F.kinds[CK_MEMSET] || !(r = append(CK_MEMSET)))
        return;
    put64(r, 8, bytes);
    put64(r, 16, start);
    put64(r, 24, end);
    put32(r, 32, 2);
    put32(r, 40, 9);
    put32(r, 48, 3u << 16);
    put32(r, 72, 0);
}

void fake_cupti_memset(uint64_t start, uint64_t end, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    write_memset(start, end, bytes);
    pthread_mutex_unlock(&lock);
}

static void write_overhead(uint32_t kind, uint64_t start, uint64_t end)
{
    uint8_t *r;

    if (!F.kinds[CK_OVERHEAD] || !(r = append(CK_OVERHEAD)))
        return;
    put32(r, 4, kind);
    put64(r, 24, start);
    put64(r, 32, end);
    if (F.version >= 130000) {
        void *data = kind == CO_COMMAND_BUFFER_FULL ? malloc(12) : NULL;

        memcpy(r + 48, &data, sizeof(data));
    }
}

void fake_cupti_overhead(uint32_t kind, uint64_t start, uint64_t end)
{
    pthread_mutex_lock(&lock);
    write_overhead(kind, start, end);
    pthread_mutex_unlock(&lock);
}

static void write_api(int kind, uint32_t cbid, uint64_t start, uint64_t end)
{
    const bool *on = kind == CK_RUNTIME ? F.runtime_api : F.driver_api;
    uint8_t *r;

    if (!on[cbid] || !(r = append((uint32_t)kind)))
        return;
    put32(r, 4, cbid);
    put64(r, 8, start);
    put64(r, 16, end);
}

void fake_cupti_api(int kind, uint32_t cbid, uint64_t start, uint64_t end)
{
    pthread_mutex_lock(&lock);
    write_api(kind, cbid, start, end);
    pthread_mutex_unlock(&lock);
}

static void write_graph(uint64_t start, uint64_t end, uint32_t graph)
{
    uint8_t *r;

    if (!F.kinds[CK_GRAPH_TRACE] || !(r = append(CK_GRAPH_TRACE)))
        return;
    put64(r, 8, start);
    put64(r, 16, end);
    put32(r, 24, 2);
    put32(r, 28, graph);
    put32(r, 36, 13);
}

void fake_cupti_graph(uint64_t start, uint64_t end, uint32_t graph)
{
    pthread_mutex_lock(&lock);
    write_graph(start, end, graph);
    pthread_mutex_unlock(&lock);
}

void fake_cupti_complete(void)
{
    pthread_mutex_lock(&lock);
    complete();
    pthread_mutex_unlock(&lock);
}

void fake_cupti_take_over(cupti_requested_fn requested, cupti_completed_fn completed)
{
    pthread_mutex_lock(&lock);
    F.requested = requested;
    F.completed = completed;
    F.registrations++;
    pthread_mutex_unlock(&lock);
}

void fake_cupti_finalize(void)
{
    pthread_mutex_lock(&lock);
    F.requested = NULL;
    F.completed = NULL;
    F.buffer = NULL;
    F.pool_limit = 250;
    F.zeroed = 0;
    memset(F.kinds, 0, sizeof(F.kinds));
    pthread_mutex_unlock(&lock);
}

void fake_cupti_reset(uint32_t version)
{
    memset(&F, 0, sizeof(F));
    F.version = version;
}

static int get_version(uint32_t *version)
{
    *version = F.version;
    return 0;
}

static int get_timestamp(uint64_t *t)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    *t = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return 0;
}

static int register_callbacks(cupti_requested_fn requested, cupti_completed_fn completed)
{
    fake_cupti_take_over(requested, completed);
    return 0;
}

static int enable_locked(int kind)
{
    if ((kind == CK_KERNEL || kind == CK_CONCURRENT_KERNEL) && F.enable_result)
        return F.enable_result;
    if (kind == CK_KERNEL && F.kinds[CK_CONCURRENT_KERNEL] && !F.no_exclusion)
        return CU_NOT_COMPATIBLE;
    F.kinds[kind] = true;
    return 0;
}

static int enable(int kind)
{
    int rc;

    pthread_mutex_lock(&lock);
    rc = enable_locked(kind);
    pthread_mutex_unlock(&lock);
    return rc;
}

static int disable(int kind)
{
    if (F.version == CV_13_0_GA)
        abort(); /* dead-locks in the real one */
    pthread_mutex_lock(&lock);
    F.disables++;
    F.kinds[kind] = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int flush_all(uint32_t flags)
{
    while (__atomic_load_n(&F.flush_hangs, __ATOMIC_RELAXED))
        usleep(1000);
    pthread_mutex_lock(&lock);
    F.flushes++;
    F.forced += flags != 0;
    /* An unfinished record keeps its buffer back unless the flush is forced. */
    if (flags || !F.unfinished)
        complete();
    pthread_mutex_unlock(&lock);
    return 0;
}

static int next_record(uint8_t *buffer, size_t valid, uint8_t **record)
{
    uint8_t *next = *record ? *record + record_bytes(cf_u32(*record, 0)) : buffer;

    if (next >= buffer + valid)
        return CU_MAX_LIMIT_REACHED;
    *record = next;
    return 0;
}

static int dropped(void *context, uint32_t stream, size_t *n)
{
    (void)context;
    (void)stream;
    pthread_mutex_lock(&lock);
    *n = F.lost;
    F.lost = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int set_attribute(int attribute, size_t *size, void *value)
{
    (void)size;
    pthread_mutex_lock(&lock);
    if (attribute == CA_DEVICE_BUFFER_POOL_LIMIT)
        memcpy(&F.pool_limit, value, 8);
    if (attribute == CA_ZEROED_OUT)
        memcpy(&F.zeroed, value, 1);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int stream_id(void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
    (void)context;
    (void)per_thread;
    *id = stream ? 13 + (uint32_t)((uintptr_t)stream & 0xff) : 7;
    return 0;
}

static int enable_runtime(uint32_t cbid, uint8_t on)
{
    pthread_mutex_lock(&lock);
    F.runtime_api[cbid] = on;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int enable_driver(uint32_t cbid, uint8_t on)
{
    pthread_mutex_lock(&lock);
    F.driver_api[cbid] = on;
    pthread_mutex_unlock(&lock);
    return 0;
}

int argus_cupti_load(struct cupti_calls *calls, enum argus_reason *reason)
{
    const struct cupti_calls fake = {
        .get_version = get_version,
        .get_timestamp = get_timestamp,
        .register_callbacks = register_callbacks,
        .enable = enable,
        .disable = disable,
        .flush_all = flush_all,
        .next_record = next_record,
        .dropped = dropped,
        .set_attribute = set_attribute,
        .stream_id = stream_id,
        .enable_runtime_api = F.version >= CV_12_5 ? enable_runtime : NULL,
        .enable_driver_api = F.version >= CV_12_5 ? enable_driver : NULL,
    };

    *reason = ARGUS_REASON_NO_LIBRARY;
    if (F.load_fails)
        return -1;
    *calls = fake;
    return 0;
}

/* ---- what tests do with it ---- */

void fake_cupti_begin(uint32_t version)
{
    fake_cupti_reset(version);
    CHECK(InitializeInjection() == 1);
}

void fake_cupti_hurry(void)
{
    argus_cupti_pace = (struct cupti_pace){.quiet_after = 1500000000,
                                           .poll_every = 500000000,
                                           .blind_wait = 3000000000,
                                           .ratio_window = 300000000};
}

void fake_cupti_kernel_at(const char *name, uint64_t start, uint64_t end)
{
    struct fake_kernel k = {.name = name, .start = start, .end = end, .stream = 14};

    fake_cupti_kernel(&k);
}

void fake_cupti_kernel_now(const char *name)
{
    uint64_t t = (uint64_t)argus_now(CLOCK_REALTIME);

    fake_cupti_kernel_at(name, t - 1000, t);
}

void fake_cupti_work(int ms)
{
    for (int i = 0; i < ms; i += 10) {
        fake_cupti_kernel_now("k");
        __atomic_fetch_add(&argus_activity, 10, __ATOMIC_RELAXED);
        testkit_nap(10);
    }
}
