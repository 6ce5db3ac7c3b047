/* SPDX-License-Identifier: Apache-2.0 */
/* From what the virtual GPU does to CUPTI's records, and a second client's deeds. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simcupti_state.h"
#include "simfault.h"

#define MAX_LANES 16

struct simcupti_driver driver;
struct simcupti_state cupti = {.lock = PTHREAD_MUTEX_INITIALIZER};
uint8_t simcupti_device_uuid[16];
__thread uint64_t simcupti_external_ids[EXTERNAL_DEPTH];
__thread int simcupti_external_depth;
static __thread uint32_t my_lane; /* 1 + lane */

void *simcupti_driver_symbol(const char *name)
{
    static void *lib;

    if (!lib)
        lib = dlopen("libcuda.so.1", RTLD_NOW);
    return lib ? dlsym(lib, name) : NULL;
}

/* A driver that is not the stand-in, or none: CUPTI cannot start. */
int simcupti_find_driver(void)
{
    *(void **)&driver.attach = simcupti_driver_symbol("simcu_attach");
    *(void **)&driver.host_now = simcupti_driver_symbol("simcu_host_now");
    *(void **)&driver.visible = simcupti_driver_symbol("simcu_visible");
    *(void **)&driver.stream_id = simcupti_driver_symbol("simcu_stream_id");
    *(void **)&driver.uuid = simcupti_driver_symbol("cuDeviceGetUuid");
    *(void **)&driver.torn_down = simcupti_driver_symbol("simcu_is_torn_down");
    return driver.attach && driver.host_now && driver.visible && driver.stream_id ? 0 : -1;
}

/*
 * From an activity to records.
 */
static uint32_t lane(void)
{
    if (!cupti.attributes[ATTRIBUTE_PER_THREAD])
        return 0;
    if (my_lane == 0)
        my_lane = 1 + atomic_fetch_add(&cupti.lanes, 1) % MAX_LANES;
    return my_lane - 1;
}

static uint64_t visible(int64_t t)
{
    return (uint64_t)driver.visible(t);
}

static int gives_correlation(void)
{
    return cupti.enabled[KIND_RUNTIME] || cupti.enabled[KIND_DRIVER] || cupti.subscriber_callbacks;
}

static void queue(const struct simcu_activity *a, uint32_t kind, int64_t start, int64_t end)
{
    struct simcupti_event e = {.activity = *a, .record_kind = kind, .complete = end};
    uint64_t n;

    e.start = visible(start);
    e.end = visible(end);
    e.lane = lane();
    e.correlation = gives_correlation() ? a->correlation : 0;
    if (simfault_armed()) {
        n = atomic_fetch_add(&cupti.records, 1) + 1;
        if (!simcupti_fault_record(&e, n))
            return;
    }
    simcupti_buffers_add(&e);
}

static void show_device(const struct simcu_activity *a)
{
    if (!cupti.enabled[KIND_DEVICE] || cupti.device_shown)
        return;
    cupti.device_shown = 1;
    if (driver.uuid)
        driver.uuid(simcupti_device_uuid, (int)a->device);
    queue(a, KIND_DEVICE, a->start, a->host_end);
}

static void show_calls(const struct simcu_activity *a)
{
    if (a->code < MAX_CBID && (cupti.enabled[KIND_RUNTIME] || cupti.runtime_filter[a->code]))
        queue(a, KIND_RUNTIME, a->host_start, a->host_end);
    if (a->driver_cbid < MAX_CBID &&
        (cupti.enabled[KIND_DRIVER] || cupti.driver_filter[a->driver_cbid]))
        queue(a, KIND_DRIVER, a->host_start, a->host_end);
    if (cupti.enabled[KIND_EXTERNAL_CORRELATION] && simcupti_external_depth > 0) {
        struct simcu_activity x = *a;

        x.code = 0;
        x.bytes = simcupti_external_ids[simcupti_external_depth - 1];
        queue(&x, KIND_EXTERNAL_CORRELATION, a->host_start, a->host_end);
    }
}

static uint32_t kernel_kind(void)
{
    return cupti.enabled[KIND_CONCURRENT_KERNEL] ? KIND_CONCURRENT_KERNEL : KIND_KERNEL;
}

static void show(const struct simcu_activity *a)
{
    static const uint32_t kinds[] = {
        [SIMCU_MEMCPY] = KIND_MEMCPY,        [SIMCU_MEMCPY_PEER] = KIND_MEMCPY2,
        [SIMCU_MEMSET] = KIND_MEMSET,        [SIMCU_OVERHEAD] = KIND_OVERHEAD,
        [SIMCU_SYNC] = KIND_SYNCHRONIZATION, [SIMCU_GRAPH] = KIND_GRAPH_TRACE};
    uint32_t kind = a->kind == SIMCU_KERNEL ? kernel_kind() : kinds[a->kind];

    show_device(a);
    if (a->kind == SIMCU_KERNEL && a->graph && cupti.enabled[KIND_GRAPH_TRACE])
        return; /* the launch as a whole is shown instead */
    if (a->kind != SIMCU_OVERHEAD && a->kind != SIMCU_SYNC && a->graph_node == 0)
        show_calls(a);
    if (cupti.enabled[kind])
        queue(a, kind, a->start, a->end);
}

/*
 * A second client of the same process.
 */
static void take_over(void)
{
    simcupti_buffers_flush(driver.host_now(), 0);
    simcupti_buffers_set_callbacks(simcupti_foreign_request, simcupti_foreign_complete);
    cupti.foreign = 1;
    cupti.enabled[KIND_CONCURRENT_KERNEL] = 1;
    cupti.enabled[KIND_MEMCPY] = cupti.enabled[KIND_MEMSET] = 1;
}

/* Some clients disable what they enabled, others finalize: takeover@A-B:0:finalize */
static void end_take_over(void)
{
    simcupti_buffers_flush(driver.host_now(), 1);
    if (strcmp(simfault_find("takeover")->text, "finalize") == 0) {
        simcupti_wipe();
        return;
    }
    cupti.foreign = 0;
    cupti.enabled[KIND_CONCURRENT_KERNEL] = 0;
    cupti.enabled[KIND_MEMCPY] = cupti.enabled[KIND_MEMSET] = 0;
}

void simcupti_wipe(void)
{
    memset(cupti.enabled, 0, sizeof(cupti.enabled));
    memset(cupti.runtime_filter, 0, sizeof(cupti.runtime_filter));
    memset(cupti.driver_filter, 0, sizeof(cupti.driver_filter));
    cupti.subscriber = NULL;
    cupti.subscriber_callbacks = 0;
    cupti.subscriber_callback = NULL;
    cupti.foreign = 0;
    cupti.device_shown = 0;
    simcupti_buffers_wipe();
}

static void incidents(void)
{
    switch (simcupti_fault_incident(atomic_load(&cupti.records))) {
    case SIMCUPTI_TAKEOVER:
        take_over();
        break;
    case SIMCUPTI_TAKEOVER_ENDS:
        end_take_over();
        break;
    case SIMCUPTI_FINALIZE:
        simcupti_wipe();
        break;
    case SIMCUPTI_NOTHING:
        break;
    }
}

/* SIMGPU_REPORT=FILE: at the end, what clients did with buffers. */
__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SIMGPU_REPORT");
    struct simcupti_totals t;
    FILE *f;

    if (!path || cupti.owner != getpid() || !(f = fopen(path, "a")))
        return;
    simcupti_buffers_totals(&t);
    fprintf(f,
            "pid=%d records=%llu buffers=%llu outstanding=%llu foreign_records=%llu "
            "registrations=%llu\n",
            (int)getpid(), (unsigned long long)t.records, (unsigned long long)t.requested,
            (unsigned long long)(t.requested - t.completed), (unsigned long long)t.foreign,
            (unsigned long long)cupti.registrations);
    fclose(f);
}

static void sink(const struct simcu_activity *a)
{
    if (getpid() != cupti.owner)
        return; /* a forked child has no CUPTI */
    if (a->kind == SIMCU_TICK) {
        simcupti_buffers_tick(driver.host_now());
        return;
    }
    show(a);
    if (simfault_armed())
        incidents();
    if (cupti.subscriber_callbacks && cupti.subscriber_callback && a->kind == SIMCU_KERNEL)
        cupti.subscriber_callback(cupti.subscriber, 1, a->driver_cbid, NULL);
}

/* Called with the lock held, before anything that needs the driver. */
CUptiResult simcupti_attach(void)
{
    if (cupti.attached)
        return CUPTI_OK;
    if (simcupti_find_driver() < 0)
        return CUPTI_UNKNOWN;
    if (driver.attach(sink) < 0)
        return CUPTI_UNKNOWN; /* another libcupti is at work */
    cupti.attached = 1;
    return CUPTI_OK;
}
