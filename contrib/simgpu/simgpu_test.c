/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in driver and CUPTI, release by release, as a client meets them. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "simcu_driver.h"
#include "simcupti.h"
#include "simcupti_layout.h"

/* The same names as the library's, found in the release under test. */
#define ENTRIES(X)                                                                                 \
    X(cuptiGetVersion)                                                                             \
    X(cuptiActivityRegisterCallbacks)                                                              \
    X(cuptiActivityEnable)                                                                         \
    X(cuptiActivityDisable)                                                                        \
    X(cuptiActivityFlushAll)                                                                       \
    X(cuptiActivityGetNextRecord)                                                                  \
    X(cuptiActivityGetNumDroppedRecords)                                                           \
    X(cuptiActivityEnableRuntimeApi)                                                               \
    X(cuptiActivitySetAttribute)                                                                   \
    X(cuptiActivityGetAttribute)                                                                   \
    X(cuptiActivityPushExternalCorrelationId)                                                      \
    X(cuptiActivityPopExternalCorrelationId)                                                       \
    X(cuptiSubscribe)                                                                              \
    X(cuptiSubscribe_v2)                                                                           \
    X(cuptiUnsubscribe)                                                                            \
    X(cuptiGetStreamIdEx)                                                                          \
    X(cuptiGetTimestamp)                                                                           \
    X(cuptiFinalize)

static struct {
#define X(name) __typeof__(&name) name;
    ENTRIES(X)
#undef X
} c;

struct release {
    const char *soname;
    uint32_t version;
    unsigned kernel_bytes, copy_bytes, overhead_bytes, sync_bytes;
    int per_thread;
};
static const struct release releases[] = {
    {"libcupti.so.11.8", 18, 200, 88, 40, 40, 0},
    {"libcupti.so.12", 24, 208, 88, 48, 40, 0},
    {"libcupti.so.13", 130001, 216, 96, 56, 56, 1},
};

static const uint32_t one[3] = {1, 1, 1};

/* What the client got. */
static struct {
    int requested, completed;
    size_t buffer_bytes;
    int refuse; /* hand NULL out */
    struct {
        unsigned kind;
        uint64_t start, end;
        uint32_t correlation;
        size_t stride;
    } records[4096];
    int count;
} got;
static pthread_mutex_t got_lock = PTHREAD_MUTEX_INITIALIZER;

static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    got.requested++;
    *max_records = 0;
    *size = got.buffer_bytes;
    *buffer = got.refuse ? NULL : malloc(*size);
}

static void take(const uint8_t *p, size_t stride)
{
    unsigned kind;
    int n = got.count;

    memcpy(&kind, p, sizeof(kind));
    got.records[n].kind = kind;
    got.records[n].stride = stride;
    if (kind == KIND_CONCURRENT_KERNEL || kind == KIND_MEMCPY || kind == KIND_MEMCPY2 ||
        kind == KIND_MEMSET) {
        memcpy(&got.records[n].start, p + KERNEL_START, 8);
        memcpy(&got.records[n].end, p + KERNEL_END, 8);
    }
    if (kind == KIND_CONCURRENT_KERNEL)
        memcpy(&got.records[n].correlation, p + KERNEL_CORRELATION, 4);
    got.count++;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    uint8_t *record = NULL, *before = NULL;

    (void)context;
    (void)stream;
    assert_true(valid <= size);
    pthread_mutex_lock(&got_lock);
    got.completed++;
    while (c.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_OK) {
        if (before)
            got.records[got.count - 1].stride = (size_t)(record - before);
        take(record, (size_t)(buffer + valid - record));
        before = record;
    }
    pthread_mutex_unlock(&got_lock);
    free(buffer);
}

static void other_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *size = 4096;
    *max_records = 0;
    *buffer = malloc(*size);
}

static void other_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                           size_t valid)
{
    (void)context;
    (void)stream;
    (void)size;
    (void)valid;
    free(buffer);
}

static void forget(void)
{
    memset(&got, 0, sizeof(got));
    got.buffer_bytes = 1u << 16;
}

static int start_release(void **state)
{
    const struct release *r = *state;
    char path[4096];
    void *lib;

    snprintf(path, sizeof(path), "%s/contrib/simgpu/%s", getenv("ARGUS_BUILDDIR"), r->soname);
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return -1;
#define X(name) *(void **)&c.name = dlsym(lib, #name);
    ENTRIES(X)
#undef X
    forget();
    if (!c.cuptiFinalize || cuInit(0) != SIMCU_SUCCESS)
        return -1;
    simcu_synchronize(NULL);
    return 0;
}

static int end_release(void **state)
{
    (void)state;
    c.cuptiFinalize();
    return 0;
}

static void listen_to(unsigned kind)
{
    assert_int_equal(c.cuptiActivityRegisterCallbacks(request, complete), CUPTI_OK);
    assert_int_equal(c.cuptiActivityEnable(kind), CUPTI_OK);
}

static int64_t kernel(int64_t ns)
{
    return simcu_launch(NULL, "kernel", one, one, ns);
}

static void test_version_and_sizes(void **state)
{
    const struct release *r = *state;
    uint32_t version;

    assert_int_equal(c.cuptiGetVersion(&version), CUPTI_OK);
    assert_int_equal(version, r->version);
    listen_to(KIND_CONCURRENT_KERNEL);
    listen_to(KIND_MEMCPY);
    listen_to(KIND_OVERHEAD);
    listen_to(KIND_SYNCHRONIZATION);
    kernel(1000);
    simcu_memcpy(NULL, 1, 100, -1, 1000);
    simcu_overhead(4u << 16, 1000);
    simcu_synchronize(NULL);
    kernel(1000); /* so that the record before has a stride of its own */
    simcu_synchronize(NULL);
    assert_int_equal(c.cuptiActivityFlushAll(0), CUPTI_OK);
    assert_int_equal(got.count, 6);
    for (int i = 0; i < got.count; i++) {
        unsigned kind = got.records[i].kind;

        assert_int_equal(got.records[i].stride, kind == KIND_CONCURRENT_KERNEL ? r->kernel_bytes
                                                : kind == KIND_MEMCPY          ? r->copy_bytes
                                                : kind == KIND_OVERHEAD        ? r->overhead_bytes
                                                                               : r->sync_bytes);
    }
}

static void test_record_waits_for_its_end(void **state)
{
    int64_t end;

    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    end = kernel(5000000);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 0);
    simcu_host_until(end + 1);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.records[0].end, end);
    assert_int_equal(got.records[0].end - got.records[0].start, 5000000);
}

static void test_forced_flush_loses_the_end(void **state)
{
    int64_t end;

    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    end = kernel(5000000);
    c.cuptiActivityFlushAll(1);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.records[0].end, 0);
    simcu_host_until(end + 1);
    c.cuptiActivityFlushAll(1);
    assert_int_equal(got.count, 1);
}

static void test_buffer_asked_for_at_first_record(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    assert_int_equal(got.requested, 0);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.requested, 0);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.requested, 1);
    assert_int_equal(got.completed, 1);
}

static void test_full_buffers_come_back(void **state)
{
    const struct release *r = *state;

    got.buffer_bytes = 4 * r->kernel_bytes + 10;
    listen_to(KIND_CONCURRENT_KERNEL);
    for (int i = 0; i < 10; i++)
        kernel(1000);
    simcu_synchronize(NULL);
    assert_int_equal(got.completed, 2);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.completed, 3);
    assert_int_equal(got.count, 10);
}

static void test_kernel_kinds_exclude_each_other(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    assert_int_equal(c.cuptiActivityEnable(KIND_KERNEL), CUPTI_NOT_COMPATIBLE);
    assert_int_equal(c.cuptiActivityDisable(KIND_MEMSET), CUPTI_OK);
    assert_int_equal(c.cuptiActivityDisable(KIND_CONCURRENT_KERNEL), CUPTI_OK);
    assert_int_equal(c.cuptiActivityEnable(KIND_KERNEL), CUPTI_OK);
    assert_int_equal(c.cuptiActivityEnable(KIND_CONCURRENT_KERNEL), CUPTI_NOT_COMPATIBLE);
    assert_int_equal(c.cuptiActivityEnable(9999), CUPTI_INVALID_KIND);
}

static void test_disabled_kind_is_silent(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    kernel(1000);
    c.cuptiActivityDisable(KIND_CONCURRENT_KERNEL);
    kernel(1000);
    simcu_memset(NULL, 10, 1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 1);
}

static void test_second_client_replaces_callbacks(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    assert_int_equal(c.cuptiActivityRegisterCallbacks(other_request, other_complete), CUPTI_OK);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.requested, 0);
    assert_int_equal(got.count, 0);
}

static void test_finalize_wipes(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    kernel(1000);
    assert_int_equal(c.cuptiFinalize(), CUPTI_OK);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(1);
    assert_int_equal(got.count, 0);
}

static void test_one_subscriber(void **state)
{
    struct simcupti_subscriber_params first = {sizeof(first), "first", NULL, 0};
    char name[64] = "";
    struct simcupti_subscriber_params second = {sizeof(second), "second", name, sizeof(name)};
    void *handle, *other;

    (void)state;
    assert_int_equal(c.cuptiSubscribe_v2(&handle, NULL, NULL, &first), CUPTI_OK);
    assert_int_equal(c.cuptiSubscribe(&other, NULL, NULL), CUPTI_MULTIPLE_SUBSCRIBERS);
    assert_int_equal(c.cuptiSubscribe_v2(&other, NULL, NULL, &second), CUPTI_MULTIPLE_SUBSCRIBERS);
    assert_string_equal(name, "first");
    assert_int_equal(c.cuptiUnsubscribe(handle), CUPTI_OK);
    assert_int_equal(c.cuptiSubscribe(&other, NULL, NULL), CUPTI_OK);
}

static void *launch_elsewhere(void *unused)
{
    kernel(1000);
    return unused;
}

static void test_buffers_of_threads(void **state)
{
    const struct release *r = *state;
    pthread_t thread;

    listen_to(KIND_CONCURRENT_KERNEL);
    kernel(1000);
    assert_int_equal(pthread_create(&thread, NULL, launch_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.requested, r->per_thread ? 2 : 1);
}

static void test_correlation_only_with_calls(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    kernel(1000);
    assert_int_equal(c.cuptiActivityEnable(KIND_RUNTIME), CUPTI_OK);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 3);
    assert_int_equal(got.records[0].correlation, 0);
    for (int i = 1; i < 3; i++)
        if (got.records[i].kind == KIND_CONCURRENT_KERNEL)
            assert_int_not_equal(got.records[i].correlation, 0);
}

static void test_filter_of_calls(void **state)
{
    const struct release *r = *state;
    CUptiResult rc = c.cuptiActivityEnableRuntimeApi(20, 1);

    if (r->version < 23) {
        assert_int_equal(rc, CUPTI_NOT_SUPPORTED);
        return;
    }
    assert_int_equal(rc, CUPTI_OK);
    assert_int_equal(c.cuptiActivityRegisterCallbacks(request, complete), CUPTI_OK);
    simcu_malloc(100, 1000);
    simcu_free(100, 1000);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.records[0].kind, KIND_RUNTIME);
    /* enabling the kind forgets the filter, so disabling it silences all */
    c.cuptiActivityEnable(KIND_RUNTIME);
    c.cuptiActivityDisable(KIND_RUNTIME);
    simcu_malloc(100, 1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 1);
}

static void test_refused_buffer(void **state)
{
    const struct release *r = *state;
    size_t dropped = 0;

    if (r->version < API_12_9)
        return; /* those releases crash; t2101 sees them do it */
    got.refuse = 1;
    listen_to(KIND_CONCURRENT_KERNEL);
    kernel(1000);
    kernel(1000);
    simcu_synchronize(NULL);
    assert_int_equal(c.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped), CUPTI_OK);
    assert_int_equal(dropped, 2);
    c.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
    assert_int_equal(dropped, 0); /* reading resets it */
}

static void test_graphs(void **state)
{
    struct simcu_graph_node nodes[3] = {{"a", {1, 1, 1}, {1, 1, 1}, 100},
                                        {"b", {1, 1, 1}, {1, 1, 1}, 200},
                                        {"c", {1, 1, 1}, {1, 1, 1}, 300}};

    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    simcu_graph_launch(NULL, 5, nodes, 3);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 3);
    assert_int_equal(got.records[1].start, got.records[0].end);
    c.cuptiActivityEnable(KIND_GRAPH_TRACE);
    simcu_graph_launch(NULL, 5, nodes, 3);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 4);
    assert_int_equal(got.records[3].kind, KIND_GRAPH_TRACE);
}

static void test_device_shown_once(void **state)
{
    (void)state;
    listen_to(KIND_CONCURRENT_KERNEL);
    c.cuptiActivityEnable(KIND_DEVICE);
    kernel(1000);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 3);
    assert_int_equal(got.records[0].kind, KIND_DEVICE);
}

static void test_attributes(void **state)
{
    const struct release *r = *state;
    size_t size = 1;
    uint8_t on = 7;

    assert_int_equal(c.cuptiActivityGetAttribute(9, &size, &on), CUPTI_OK);
    assert_int_equal(on, r->per_thread);
    assert_int_equal(c.cuptiActivityRegisterCallbacks(request, complete), CUPTI_OK);
    assert_int_equal(c.cuptiActivitySetAttribute(9, &size, &on), CUPTI_INVALID_OPERATION);
    size = 2;
    assert_int_equal(c.cuptiActivitySetAttribute(0, &size, &on), CUPTI_SIZE_NOT_SUFFICIENT);
}

static void test_streams_and_clock(void **state)
{
    simcu_stream_t stream = simcu_stream_create();
    uint64_t now;
    uint32_t id;

    (void)state;
    assert_int_equal(c.cuptiGetStreamIdEx(NULL, NULL, 0, &id), CUPTI_OK);
    assert_int_equal(id, 7);
    assert_int_equal(c.cuptiGetStreamIdEx(NULL, stream, 0, &id), CUPTI_OK);
    assert_true(id >= 14);
    assert_int_equal(c.cuptiGetTimestamp(&now), CUPTI_OK);
    assert_int_equal(now, simcu_host_now());
}

static void test_external_ids(void **state)
{
    uint64_t last = 0;

    (void)state;
    assert_int_equal(c.cuptiActivityPopExternalCorrelationId(0, &last), CUPTI_QUEUE_EMPTY);
    listen_to(KIND_EXTERNAL_CORRELATION);
    assert_int_equal(c.cuptiActivityPushExternalCorrelationId(0, 77), CUPTI_OK);
    kernel(1000);
    assert_int_equal(c.cuptiActivityPopExternalCorrelationId(0, &last), CUPTI_OK);
    assert_int_equal(last, 77);
    kernel(1000);
    simcu_synchronize(NULL);
    c.cuptiActivityFlushAll(0);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.records[0].kind, KIND_EXTERNAL_CORRELATION);
}

/*
 * The virtual GPU itself.
 */
static void test_host_runs_ahead(void **state)
{
    int64_t before, end = 0;

    (void)state;
    cuInit(0);
    simcu_synchronize(NULL);
    before = simcu_host_now();
    for (int i = 0; i < 100; i++)
        end = kernel(1000000);
    assert_true(simcu_host_now() - before < 2000000);
    assert_true(end - before >= 100 * 1000000LL);
    simcu_host_advance(50000000); /* a stall that the queue hides */
    assert_int_equal(kernel(1000000), end + 1000000);
    simcu_host_advance(500000000); /* and one that it does not */
    assert_true(kernel(1000000) > end + 300000000);
}

static void test_streams_are_independent(void **state)
{
    simcu_stream_t a = simcu_stream_create(), b = simcu_stream_create();
    int64_t end_a, end_b;

    (void)state;
    simcu_synchronize(NULL);
    end_a = simcu_launch(a, "a", one, one, 10000000);
    end_b = simcu_launch(b, "b", one, one, 1000);
    assert_true(end_b < end_a);
    simcu_stream_wait(b, end_a);
    assert_int_equal(simcu_launch(b, "b", one, one, 1000), end_a + 1000);
}

static void test_full_queue_blocks_the_host(void **state)
{
    int64_t before;

    (void)state;
    simcu_synchronize(NULL);
    before = simcu_host_now();
    for (int i = 0; i < 1100; i++)
        kernel(100000);
    assert_true(simcu_host_now() - before > 70 * 100000LL);
}

static void test_driver_facts(void **state)
{
    char name[64], pci[16];
    CUuuid a, b;
    void *entry;
    int value, status;

    (void)state;
    assert_int_equal(cuInit(1), SIMCU_INVALID_VALUE);
    assert_int_equal(cuInit(0), SIMCU_SUCCESS);
    assert_true(simgpu_is_simulated());
    assert_int_equal(cuDriverGetVersion(&value), SIMCU_SUCCESS);
    assert_true(value >= 13000);
    assert_int_equal(cuDeviceGetName(name, sizeof(name), 0), SIMCU_SUCCESS);
    assert_non_null(strstr(name, "simulated"));
    assert_int_equal(cuDeviceGetPCIBusId(pci, sizeof(pci), 0), SIMCU_SUCCESS);
    assert_string_equal(pci, "0000:1B:00.0");
    assert_int_equal(cuDeviceGetUuid(&a, 0), SIMCU_SUCCESS);
    assert_int_equal(cuDeviceGetUuid_v2(&b, 0), SIMCU_SUCCESS);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(cuDeviceGetName(name, sizeof(name), 99), SIMCU_INVALID_DEVICE);
    assert_int_equal(cuGetProcAddress_v2("cuDeviceTotalMem", &entry, 12000, 0, &status),
                     SIMCU_SUCCESS);
    assert_ptr_equal(entry, (void *)cuDeviceTotalMem_v2);
    assert_int_equal(cuGetProcAddress("cuNoSuchThing", &entry, 12000, 0), SIMCU_NOT_FOUND);
}

#define RELEASE_TEST(f, r)                                                                         \
    {                                                                                              \
#f, f, start_release, end_release, (void *)&releases[r]                                    \
    }
#define RELEASE_TESTS(r)                                                                           \
    RELEASE_TEST(test_version_and_sizes, r), RELEASE_TEST(test_record_waits_for_its_end, r),       \
        RELEASE_TEST(test_forced_flush_loses_the_end, r),                                          \
        RELEASE_TEST(test_buffer_asked_for_at_first_record, r),                                    \
        RELEASE_TEST(test_full_buffers_come_back, r),                                              \
        RELEASE_TEST(test_kernel_kinds_exclude_each_other, r),                                     \
        RELEASE_TEST(test_disabled_kind_is_silent, r),                                             \
        RELEASE_TEST(test_second_client_replaces_callbacks, r),                                    \
        RELEASE_TEST(test_finalize_wipes, r), RELEASE_TEST(test_one_subscriber, r),                \
        RELEASE_TEST(test_buffers_of_threads, r),                                                  \
        RELEASE_TEST(test_correlation_only_with_calls, r), RELEASE_TEST(test_filter_of_calls, r),  \
        RELEASE_TEST(test_refused_buffer, r), RELEASE_TEST(test_graphs, r),                        \
        RELEASE_TEST(test_device_shown_once, r), RELEASE_TEST(test_attributes, r),                 \
        RELEASE_TEST(test_streams_and_clock, r), RELEASE_TEST(test_external_ids, r)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver_facts),
        cmocka_unit_test(test_host_runs_ahead),
        cmocka_unit_test(test_streams_are_independent),
        cmocka_unit_test(test_full_queue_blocks_the_host),
        RELEASE_TESTS(0),
        RELEASE_TESTS(1),
        RELEASE_TESTS(2),
    };

    unsetenv("SIMGPU_FAULT");
    unsetenv("CUDA_INJECTION64_PATH");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
