/* SPDX-License-Identifier: Apache-2.0 */
/* Beside other clients of CUPTI: their windows, their finalize, the buffers that they keep. */
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
#include <unistd.h>

#include "collector/inject/cupti.h"
#include "collector/inject/fake_cupti.h"
#include "collector/inject/testkit.h"

int InitializeInjection(void);

/* ---- another client ---- */

static uint8_t foreign_buffer[1 << 20];
static unsigned foreign_buffers;

static void foreign_requested(uint8_t **buffer, size_t *size, size_t *max)
{
    *buffer = foreign_buffer;
    *size = sizeof(foreign_buffer);
    *max = 0;
}

static void foreign_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid)
{
    (void)context;
    (void)stream;
    (void)size;
    (void)valid;
    foreign_buffers += buffer == foreign_buffer;
    memset(foreign_buffer, 0, sizeof(foreign_buffer));
}

static void kinds_off(void)
{
    fake_cupti_lock();
    memset(fake_cupti.kinds, 0, sizeof(fake_cupti.kinds));
    fake_cupti_unlock();
}

/* A profiler's window: it keeps its callbacks and its records to the end. */
static void profiler_window(void *argument)
{
    bool can_ask = *(bool *)argument;
    unsigned gaps = 0, kernels = 0, registrations;
    struct argus_record r;
    struct view view;
    int64_t gap_end = 0;

    fake_cupti_reset(130001);
    fake_cupti.no_exclusion = !can_ask;
    CHECK(InitializeInjection() == 1);
    CHECK(fake_cupti_state().kinds[CK_CONCURRENT_KERNEL] && !fake_cupti_state().kinds[CK_KERNEL]);
    fake_cupti_hurry();
    fake_cupti_work(1500);
    CHECK(testkit_open(&view, testkit_here));
    fake_cupti_take_over(foreign_requested, foreign_completed);
    registrations = fake_cupti_state().registrations;
    fake_cupti_work(can_ask ? 5000 : 3500);
    CHECK(fake_cupti_state().registrations == registrations); /* not taken away */
    CHECK(fake_cupti_state().kinds[CK_CONCURRENT_KERNEL]);
    CHECK(view.header->standdown[ARGUS_SOURCE_CUPTI] == ARGUS_REASON_OTHER_CLIENT);
    fake_cupti_complete();
    CHECK(foreign_buffers > 0);
    kinds_off();
    fake_cupti_work(can_ask ? 2000 : 4000);
    CHECK(fake_cupti_state().registrations == registrations + 1);
    CHECK(view.header->standdown[ARGUS_SOURCE_CUPTI] == ARGUS_REASON_NONE);
    CHECK(fake_cupti_state().kinds[CK_CONCURRENT_KERNEL] && !fake_cupti_state().kinds[CK_KERNEL]);
    testkit_nap(1300);
    while (testkit_next(&view, &r)) {
        if (r.type == ARGUS_REC_GAP) {
            gaps++;
            CHECK(r.u.gap.reason == ARGUS_REASON_OTHER_CLIENT && r.end > r.start);
            CHECK(gap_end == 0 || r.start == gap_end); /* one after the other */
            gap_end = r.end;
        }
        kernels += r.type == ARGUS_REC_KERNEL && gap_end && r.start > gap_end;
    }
    CHECK(gaps >= 2 && kernels > 50);
}

static void test_profiler_window(void **state)
{
    static bool can_ask[] = {true, false};

    (void)state;
    assert_int_equal(testkit_children(profiler_window, can_ask, sizeof(can_ask[0]), 2), 0);
}

static void finalized(void *unused)
{
    struct view view;

    (void)unused;
    fake_cupti_begin(130001);
    fake_cupti_hurry();
    fake_cupti_work(1500);
    CHECK(testkit_open(&view, testkit_here));
    fake_cupti_finalize();
    fake_cupti_work(4000);
    CHECK(fake_cupti_state().kinds[CK_CONCURRENT_KERNEL] && fake_cupti_state().zeroed);
    CHECK(fake_cupti_state().pool_limit <= 64);
    CHECK(testkit_count(&view, ARGUS_REC_GAP) == 1);
}

static void test_foreign_finalize(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(finalized, NULL), 0);
}

/* ---- windows without end, each of which keeps a buffer of ours ---- */

#define WINDOWS 200

struct lost {
    uint8_t *buffer;
    size_t size, used;
};

static struct argus_moment clock_now;

/* The worker has ended: its turns are the test's from here on, and so is the time. */
static void take_the_turns(struct view *view)
{
    fake_cupti_kernel_now("first");
    CHECK(testkit_open(view, testkit_here));
    argus_worker_finish(50000);
    __atomic_store_n(&argus_dead_flag, 0, __ATOMIC_RELEASE);
    clock_now = argus_moment_now();
}

static void turn(void)
{
    clock_now.real = argus_now(CLOCK_REALTIME);
    clock_now.mono += 10000000000;
    argus_cupti_turn(clock_now);
}

static struct lost lose_one(void)
{
    struct fake_cupti state;

    fake_cupti_kernel_now("lost");
    state = fake_cupti_state();
    CHECK(state.buffer != NULL && state.buffer != foreign_buffer);
    fake_cupti_take_over(foreign_requested, foreign_completed);
    fake_cupti_complete(); /* to a client that does not know it */
    kinds_off();
    turn();
    return (struct lost){state.buffer, state.size, state.used};
}

static unsigned kernels_named(struct view *view, const char *name)
{
    struct argus_record r;
    unsigned n = 0;

    while (testkit_next(view, &r))
        n += r.type == ARGUS_REC_KERNEL && strcmp(testkit_name(view, r.u.kernel.name), name) == 0;
    return n;
}

/* The process's address space, in bytes. */
static size_t mapped(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    CHECK(f && fscanf(f, "%zu", &pages) == 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void many_windows(void *argument)
{
    static struct lost lost[WINDOWS];
    unsigned windows;
    struct argus_record r;
    struct view view;
    size_t bytes = 0, before;
    bool gap = false;

    fake_cupti_begin(*(uint32_t *)argument);
    take_the_turns(&view);
    turn();
    for (int i = 0; i < WINDOWS; i++) {
        lost[i] = lose_one();
        bytes += lost[i].size;
        for (int k = 0; k < i; k++)
            CHECK(lost[i].buffer >= lost[k].buffer + lost[k].size ||
                  lost[k].buffer >= lost[i].buffer + lost[i].size);
        CHECK(testkit_count(&view, ARGUS_REC_GAP) >= 1);
    }
    CHECK(view.header->standdown[ARGUS_SOURCE_CUPTI] == ARGUS_REASON_NONE);
    CHECK(bytes < 200u << 20);
    fake_cupti_kernel_now("after");
    turn();
    CHECK(kernels_named(&view, "after") == 1);
    CHECK(fake_cupti_state().null_buffers == 0);
    before = mapped();
    /* CUPTI may write to them still, and give them back in the end. */
    for (int i = 0; i < WINDOWS; i++) {
        lost[i].buffer[lost[i].size - 1] = 1;
        fake_cupti.completed(NULL, 0, lost[i].buffer, lost[i].size, lost[i].used);
    }
    turn();
    CHECK(kernels_named(&view, "lost") == WINDOWS);
    CHECK(mapped() + bytes / 2 < before); /* and are unmapped */
    /* There is an end, and it is told. */
    for (windows = 0, bytes = 0; windows < 1200; windows++) {
        bytes += lose_one().size;
        if (view.header->standdown[ARGUS_SOURCE_CUPTI] != ARGUS_REASON_NONE)
            break;
        CHECK(testkit_count(&view, ARGUS_REC_GAP) >= 1);
    }
    CHECK(windows > 1000 && windows < 1200 && bytes < 460u << 20);
    CHECK(view.header->standdown[ARGUS_SOURCE_CUPTI] == ARGUS_REASON_OTHER_CLIENT);
    CHECK(view.header->standdown_code[ARGUS_SOURCE_CUPTI] == CU_MAX_LIMIT_REACHED);
    CHECK(fake_cupti_state().null_buffers == 0);
    CHECK(!fake_cupti_state().kinds[CK_CONCURRENT_KERNEL]);
    testkit_count(&view, ARGUS_REC_GAP);
    turn();
    while (testkit_next(&view, &r))
        gap |= r.type == ARGUS_REC_GAP && r.u.gap.reason == ARGUS_REASON_OTHER_CLIENT;
    CHECK(gap);
}

static void test_many_windows(void **state)
{
    static uint32_t versions[] = {24, 130001};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(testkit_child(many_windows, &versions[i]), 0);
        testkit_renew();
    }
}

/* Threads that ask and give back while the worker renews under them. */
static int renewing_ends;

static void *borrower(void *argument)
{
    uint8_t mark = *(uint8_t *)argument, *buffer;
    size_t size, max;

    while (!__atomic_load_n(&renewing_ends, __ATOMIC_RELAXED)) {
        argus_pool_requested(&buffer, &size, &max);
        if (!buffer)
            continue;
        CHECK(buffer[0] == 0 && buffer[100] == 0);
        buffer[0] = buffer[100] = mark;
        sched_yield();
        CHECK(buffer[0] == mark && buffer[100] == mark);
        argus_pool_completed(NULL, 0, buffer, size, 101);
    }
    return NULL;
}

static unsigned give_back(void)
{
    uint8_t *buffer;
    unsigned n = 0;
    size_t valid;
    int i;

    for (; (i = argus_pool_next(&buffer, &valid)) >= 0; n++) {
        CHECK(valid == 101 && buffer[0] == buffer[100] && buffer[0] != 0);
        argus_pool_recycle(i, valid);
    }
    return n;
}

static void renewing(void *unused)
{
    static uint8_t marks[] = {1, 2, 3};
    uint8_t *buffers[64];
    pthread_t threads[3];
    size_t size, max;

    (void)unused;
    CHECK(argus_pool_init(false) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, borrower, &marks[i]) == 0);
    for (unsigned n = 0; n < 5000;) {
        argus_pool_renew();
        n += give_back();
        sched_yield();
    }
    __atomic_store_n(&renewing_ends, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    give_back();
    /* Every place is free, once. */
    for (int i = 0; i < 64; i++) {
        argus_pool_requested(&buffers[i], &size, &max);
        CHECK(buffers[i] != NULL);
        for (int k = 0; k < i; k++)
            CHECK(buffers[i] != buffers[k]);
    }
    argus_pool_requested(&buffers[0], &size, &max);
    CHECK(buffers[0] == NULL);
}

static void test_renewing(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(renewing, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_profiler_window, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_foreign_finalize, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_many_windows, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_renewing, testkit_setup, testkit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
