/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/inject/cupti.h"
#include "collector/inject/fake_cupti.h"
#include "collector/inject/testkit.h"

int InitializeInjection(void);

static uint64_t now(void)
{
    return (uint64_t)argus_now(CLOCK_REALTIME);
}

/* ---- each release's sizes ---- */

static void releases(void *argument)
{
    uint32_t version = *(uint32_t *)argument;
    unsigned kernels = 0, copies = 0, sets = 0, overheads = 0, apis = 0, flushes = 0, anchors = 0;
    static const char name[] = "void gemm<float, 128>(float*)";
    struct argus_record r;
    struct view view;
    uint64_t t;

    fake_cupti_begin(version);
    CHECK(fake_cupti_state().kinds[CK_CONCURRENT_KERNEL] && fake_cupti_state().kinds[CK_OVERHEAD]);
    CHECK(!fake_cupti_state().kinds[CK_KERNEL] && !fake_cupti_state().kinds[CK_RUNTIME]);
    CHECK(fake_cupti_state().zeroed == 1 && fake_cupti_state().pool_limit <= 64);
    CHECK(testkit_rings(testkit_here) == 0); /* no record, no file */
    t = now();
    for (uint64_t i = 0; i < 50; i++) {
        struct fake_kernel k = {.name = name,
                                .start = t + i * 100,
                                .end = t + i * 100 + 90,
                                .stream = 14,
                                .graph = 5,
                                .graph_node = 0x700000001ULL};

        fake_cupti_kernel(&k);
        fake_cupti_memcpy(t + i, t + i + 5, 4096, i & 1);
        fake_cupti_memset(t + i, t + i + 5, 64);
        fake_cupti_overhead(5u << 16, t, t + 1000);
        fake_cupti_overhead(CO_COMMAND_BUFFER_FULL, t, t + 1000);
        fake_cupti_api(CK_RUNTIME, CB_RUNTIME_cudaMalloc, t, t + 50);
        fake_cupti_api(CK_RUNTIME, 3, t, t + 50);
    }
    CHECK(testkit_open(&view, testkit_here));
    for (int i = 0; i < 1000 && fake_cupti_state().flushes < 3; i++)
        testkit_nap(10);
    testkit_nap(200);
    CHECK(fake_cupti_state().flushes >= 3 && fake_cupti_state().forced == 0);
    while (testkit_next(&view, &r)) {
        switch (r.type) {
        case ARGUS_REC_KERNEL:
            kernels++;
            CHECK(strcmp(testkit_name(&view, r.u.kernel.name), name) == 0);
            CHECK(r.end - r.start == 90 && r.u.kernel.stream == 14 && r.u.kernel.device == 2);
            CHECK(r.u.kernel.grid_x == 100000 && r.u.kernel.grid_y == 2 && r.u.kernel.grid_z == 3);
            CHECK(r.u.kernel.block_x == 256 && r.u.kernel.block_z == 1);
            CHECK(r.u.kernel.graph == 5 && r.u.kernel.graph_node == 1);
            break;
        case ARGUS_REC_MEMCPY:
            copies++;
            CHECK(r.u.copy.bytes == 4096 && r.u.copy.stream == 9 && r.u.copy.graph == 0);
            CHECK(r.u.copy.kind == 1 || (r.u.copy.kind == 10 && r.u.copy.peer_device == 5));
            CHECK(r.u.copy.device == 2);
            break;
        case ARGUS_REC_MEMSET:
            sets++;
            CHECK(r.u.copy.bytes == 64 && r.u.copy.dst_kind == 3);
            break;
        case ARGUS_REC_OVERHEAD:
            overheads++;
            CHECK(r.u.host.code == 5 || r.u.host.code == 6);
            break;
        case ARGUS_REC_API:
            apis++;
            CHECK(r.u.host.code == ARGUS_API_MALLOC);
            break;
        case ARGUS_REC_FLUSH:
            flushes++;
            break;
        case ARGUS_REC_ANCHOR:
            anchors++;
            CHECK(llabs(r.u.anchor.cupti - r.start) < 1000000000);
            break;
        case ARGUS_REC_STACK:
            break;
        default:
            CHECK(!"an unexpected record");
        }
    }
    CHECK(kernels == 50 && copies == 50 && sets == 50 && overheads == 100);
    CHECK(apis == (version >= CV_12_5 ? 50 : 0));
    CHECK(flushes >= 1 && anchors >= 1);
    CHECK(view.header->cupti_version == version);
    CHECK(view.header->invalid[ARGUS_SOURCE_CUPTI] == 0);
}

static void test_releases(void **state)
{
    static uint32_t versions[] = {15, 18, 19, 22, 24, 28, 130000, 130001, 130200};

    (void)state;
    assert_int_equal(testkit_children(releases, versions, sizeof(versions[0]),
                                      sizeof(versions) / sizeof(versions[0])),
                     0);
}

/* ---- times that must not get through ---- */

static void bad_times(void *unused)
{
    struct argus_record r;
    struct view view;
    uint64_t t;
    unsigned kernels = 0;

    (void)unused;
    fake_cupti_begin(130001);
    t = now();
    fake_cupti_kernel_at("k", 0, 0);
    fake_cupti_kernel_at("k", t, 0);
    fake_cupti_kernel_at("k", 0, t);
    fake_cupti_kernel_at("k", 0x8000000000000000ULL, 0x8000000000000000ULL);
    fake_cupti_kernel_at("k", UINT64_MAX, UINT64_MAX);
    fake_cupti_kernel_at("k", t + 10, t);
    fake_cupti_kernel_at("k", t - 2 * 86400000000000ULL, t - 2 * 86400000000000ULL + 1);
    fake_cupti_kernel_at("k", t + 2 * 86400000000000ULL, t + 2 * 86400000000000ULL + 1);
    fake_cupti_kernel_at("k", t, t); /* zero length is unusual, not wrong */
    fake_cupti_kernel_at("k", t - 1000, t);
    CHECK(testkit_open(&view, testkit_here));
    testkit_await(&view.header->invalid[ARGUS_SOURCE_CUPTI], 8);
    testkit_nap(200); /* the two good ones come after the last of the bad ones */
    while (testkit_next(&view, &r)) {
        if (r.type == ARGUS_REC_KERNEL) {
            kernels++;
            CHECK(r.end == (int64_t)t);
        }
    }
    CHECK(kernels == 2);
    CHECK(view.header->invalid[ARGUS_SOURCE_CUPTI] == 8);
}

static void test_bad_times(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(bad_times, NULL), 0);
}

/* ---- refusals ---- */

static void refused(void *argument)
{
    fake_cupti_reset(130001);
    fake_cupti.enable_result = *(int *)argument;
    CHECK(InitializeInjection() == 1);
    fake_cupti_kernel_now("k");
    testkit_nap(300);
    CHECK(testkit_rings(testkit_here) == 0);
    CHECK(argus_ring_standdown_of(ARGUS_SOURCE_CUPTI) != ARGUS_REASON_NONE);
}

static void test_refused(void **state)
{
    static int codes[] = {14, 15, 35, 39, 999};
    char path[512], text[256] = "";
    FILE *f;

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        assert_int_equal(testkit_child(refused, &codes[i]), 0);
    snprintf(path, sizeof(path), "%s/standdown", testkit_here);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof(text), f));
    assert_string_equal(text, "rank=3 source=cupti reason=refused code=14\n");
    fclose(f);
}

static void old_or_missing(void *argument)
{
    fake_cupti_reset(*(uint32_t *)argument);
    fake_cupti.load_fails = fake_cupti.version == 0;
    CHECK(InitializeInjection() == 1);
    CHECK(fake_cupti_state().registrations == 0);
}

static void test_old_or_missing(void **state)
{
    static uint32_t versions[] = {0, 12, 14};

    (void)state;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        assert_int_equal(testkit_child(old_or_missing, &versions[i]), 0);
}

static void switched_off(void *unused)
{
    (void)unused;
    setenv("ARGUS_SOURCES", "nccl,nvtx", 1);
    fake_cupti_reset(130001);
    CHECK(InitializeInjection() == 1);
    CHECK(fake_cupti_state().registrations == 0);
}

static void test_switched_off(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(switched_off, NULL), 0);
}

/* ---- the pool: more in flight than there is, on both sides of 12.9 ---- */

static void starved_pool(void *argument)
{
    cupti_requested_fn requested;
    uint8_t *buffers[200];
    size_t sizes[200], max;
    unsigned given = 0;

    fake_cupti_begin(*(uint32_t *)argument);
    requested = fake_cupti.requested;
    for (int i = 0; i < 200; i++) {
        max = 1;
        requested(&buffers[i], &sizes[i], &max);
        CHECK(max == 0);
        for (int k = 0; k < i && buffers[i]; k++)
            CHECK(buffers[i] != buffers[k]);
        given += buffers[i] != NULL;
        CHECK(!buffers[i] || ((uintptr_t)buffers[i] % 4096 == 0 && sizes[i] >= 4096));
    }
    CHECK(fake_cupti_state().version >= CV_12_9 ? given < 200 : given == 200);
    for (int i = 0; i < 200; i++) {
        if (buffers[i])
            fake_cupti.completed(NULL, 0, buffers[i], sizes[i], 0);
    }
    /* The worker lends them again when it comes to it: full ones, not only what is for need. */
    for (int i = 0;; i++) {
        requested(&buffers[0], &sizes[0], &max);
        if (buffers[0] && sizes[0] == 4u << 20)
            break;
        if (buffers[0])
            fake_cupti.completed(NULL, 0, buffers[0], sizes[0], 0);
        CHECK(i < 1500);
        testkit_nap(10);
    }
    /* Somebody else's buffer, and nothing at all. */
    fake_cupti.completed(NULL, 0, (uint8_t *)&max, sizeof(max), sizeof(max));
    fake_cupti.completed(NULL, 0, NULL, 0, 0);
}

/* Nothing comes free for long, and this CUPTI takes no NULL: what it is given
 * then is the same again and again, and what it wrote there is counted. */
static void starved_for_long(void *unused)
{
    cupti_requested_fn requested;
    uint8_t *buffer, *first = NULL;
    uint32_t kind = CK_CONCURRENT_KERNEL;
    size_t size, max;
    struct view view;

    (void)unused;
    fake_cupti_begin(24);
    requested = fake_cupti.requested;
    requested(&buffer, &size, &max);
    CHECK(testkit_open(&view, testkit_here));
    for (int i = 0; i < 200; i++)
        requested(&buffer, &size, &max);
    for (int i = 0; i < 1000; i++) {
        requested(&buffer, &size, &max);
        CHECK(buffer != NULL && (!first || buffer == first) && buffer[0] == 0);
        first = buffer;
        memcpy(buffer, &kind, sizeof(kind));
        fake_cupti.completed(NULL, 0, buffer, size, fake_cupti_kernel_bytes());
    }
    CHECK(view.header->dropped[ARGUS_SOURCE_CUPTI] == 1000);
}

static void test_starved_pool(void **state)
{
    static uint32_t versions[] = {18, 24, 27, 130001};

    (void)state;
    assert_int_equal(testkit_children(starved_pool, versions, sizeof(versions[0]),
                                      sizeof(versions) / sizeof(versions[0])),
                     0);
}

static void test_starved_for_long(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(starved_for_long, NULL), 0);
}

static void reported_loss(void *unused)
{
    struct view view;

    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti_kernel_now("k");
    fake_cupti_lock();
    fake_cupti.lost = 17;
    fake_cupti_unlock();
    CHECK(testkit_open(&view, testkit_here));
    testkit_await(&view.header->dropped[ARGUS_SOURCE_CUPTI], 17);
}

static void test_reported_loss(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(reported_loss, NULL), 0);
}

/* ---- an idle GPU is no reason for anything ---- */

static void idle(void *unused)
{
    struct view view;

    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti_hurry();
    fake_cupti_work(1200);
    CHECK(testkit_open(&view, testkit_here));
    testkit_nap(4000);
    CHECK(fake_cupti_state().registrations == 1);
    CHECK(testkit_count(&view, ARGUS_REC_GAP) == 0);
}

static void test_idle(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(idle, NULL), 0);
}

/* ---- floods of bad timestamps: each remedy once, then silence ---- */

static void ladder(void *unused)
{
    struct argus_record r;
    struct view view;
    bool coarse = false;
    unsigned gaps = 0;

    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti_hurry();
    fake_cupti_kernel_now("good");
    CHECK(testkit_open(&view, testkit_here));
    for (int i = 0; i < 100; i++) {
        if (view.header->standdown[ARGUS_SOURCE_CUPTI] == ARGUS_REASON_INVALID_TIMES)
            break;
        for (int k = 0; k < 600; k++)
            fake_cupti_kernel_at("bad", 0, 0);
        fake_cupti_complete();
        coarse |= fake_cupti_state().kinds[CK_GRAPH_TRACE];
        testkit_nap(100);
    }
    CHECK(coarse);
    CHECK(!fake_cupti_state().kinds[CK_CONCURRENT_KERNEL]);
    CHECK(!fake_cupti_state().runtime_api[CB_RUNTIME_cudaMalloc]);
    CHECK(!fake_cupti_state().driver_api[CB_DRIVER_cuMemCreate]);
    CHECK(view.header->standdown[ARGUS_SOURCE_CUPTI] == ARGUS_REASON_INVALID_TIMES);
    testkit_nap(1500);
    while (testkit_next(&view, &r)) {
        CHECK(r.type != ARGUS_REC_KERNEL || r.start != 0);
        gaps += r.type == ARGUS_REC_GAP && r.u.gap.reason == ARGUS_REASON_INVALID_TIMES;
    }
    CHECK(gaps >= 1);
}

static void test_ladder(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(ladder, NULL), 0);
}

/* ---- ends ---- */

static void ends_normally(void *unused)
{
    struct view view;

    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti_kernel_now("first");
    CHECK(testkit_open(&view, testkit_here));
    testkit_nap(100);
    fake_cupti_lock();
    fake_cupti.hold_unfinished = true;
    fake_cupti_unlock();
    fake_cupti_kernel_now("last");
    fake_cupti_kernel_at("running", now(), 0);
}

static void test_ends_normally(void **state)
{
    struct argus_record r;
    struct view view;
    unsigned kernels = 0, flushes = 0;

    (void)state;
    assert_int_equal(testkit_child(ends_normally, NULL), 0);
    assert_true(testkit_open(&view, testkit_here));
    assert_int_equal(view.header->end, ARGUS_REASON_EXIT);
    assert_int_equal(view.header->invalid[ARGUS_SOURCE_CUPTI], 0);
    while (testkit_next(&view, &r)) {
        kernels += r.type == ARGUS_REC_KERNEL;
        flushes += r.type == ARGUS_REC_FLUSH;
    }
    assert_int_equal(kernels, 2);
    assert_true(flushes >= 1);
    testkit_close(&view);
}

static int64_t *exit_begin; /* shared with the child */

static void never_used(void *unused)
{
    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti.flush_hangs = 1;
}

static void hangs(void *unused)
{
    struct view view;

    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti_kernel_now("k");
    CHECK(testkit_open(&view, testkit_here));
    testkit_nap(1200);
    fake_cupti_kernel_now("given back, not parsed");
    __atomic_store_n(&fake_cupti.flush_hangs, 1, __ATOMIC_RELAXED);
    testkit_nap(1200);
    fake_cupti_complete();
    *exit_begin = argus_now(CLOCK_MONOTONIC);
}

static void test_flush_never_returns(void **state)
{
    struct view view;
    int64_t begin = argus_now(CLOCK_MONOTONIC);

    (void)state;
    assert_int_equal(testkit_child(never_used, NULL), 0);
    assert_true(argus_now(CLOCK_MONOTONIC) - begin < 1900000000);
    exit_begin = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(exit_begin != MAP_FAILED);
    assert_int_equal(testkit_child(hangs, NULL), 0);
    /* Two seconds are ours, the rest is the machine's (and a sanitizer's). */
    assert_true(argus_now(CLOCK_MONOTONIC) - *exit_begin < 3500000000LL);
    munmap(exit_begin, 4096);
    assert_true(testkit_open(&view, testkit_here));
    assert_int_equal(view.header->end, ARGUS_REASON_EXIT_DEADLINE);
    assert_int_equal(testkit_count(&view, ARGUS_REC_KERNEL), 2);
    testkit_close(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_releases, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_bad_times, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_refused, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_old_or_missing, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_switched_off, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_starved_pool, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_starved_for_long, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_reported_loss, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_idle, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_ladder, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_ends_normally, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_flush_never_returns, testkit_setup, testkit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
