/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/inject/inject.h"
#include "collector/inject/testkit.h"

static bool emit(uint64_t a, uint64_t b)
{
    struct argus_record *r = argus_ring_claim(ARGUS_SOURCE_NCCL, ARGUS_REC_OP, 7, 42);

    if (!r)
        return false;
    r->start = (int64_t)a;
    r->end = (int64_t)b;
    r->u.op.comm = a ^ b;
    r->u.op.count = a * 31 + b;
    argus_ring_commit(r, ARGUS_SOURCE_NCCL);
    return true;
}

static void wait_published(void)
{
    struct timespec ts = {0, 1000000};

    for (int i = 0; i < 20000 && __atomic_load_n(&argus_ring.limit, __ATOMIC_ACQUIRE) != UINT64_MAX;
         i++)
        nanosleep(&ts, NULL);
    CHECK(__atomic_load_n(&argus_ring.limit, __ATOMIC_ACQUIRE) == UINT64_MAX);
}

/* ---- nothing before the first record; then a ring that says who it is ---- */

static void first_record(void *unused)
{
    struct argus_record r;
    struct view view;

    (void)unused;
    CHECK(testkit_rings(testkit_here) == 0);
    CHECK(emit(1, 2));
    CHECK(testkit_open(&view, testkit_here));
    CHECK(view.header->rank == 3 && view.header->world == 8 && view.header->local_rank == 1);
    CHECK(strcmp(view.header->node, "n07") == 0 && strcmp(view.header->job, "4711") == 0);
    CHECK(view.header->pid == getpid() && view.header->pid_start != 0);
    CHECK(view.header->slots * ARGUS_RECORD_BYTES == 32u << 20);
    CHECK(testkit_next(&view, &r));
    CHECK(r.type == ARGUS_REC_OP && r.flags == 7 && r.tid == 42 && r.start == 1 && r.end == 2);
}

static void test_first_record(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(first_record, NULL), 0);
    assert_int_equal(testkit_rings(testkit_here), 1);
}

/* ---- many producers, full ring, laps ---- */

#define THREADS 4
#define EACH 60000

static uint64_t produced, lost;

/* The CUPTI worker's way: finished records, many at once. */
static void *produce_runs(void *argument)
{
    uint64_t id = (uint64_t)(uintptr_t)argument, i = 0, before;
    struct argus_record run[32];

    memset(run, 0, sizeof(run));
    for (unsigned n = 1; i < EACH; n = n % 32 + 1) {
        unsigned m = 0;

        for (; m < n && i < EACH; m++, i++) {
            run[m].type = ARGUS_REC_OP;
            run[m].start = (int64_t)(id << 32 | i);
            run[m].end = (int64_t)i;
            run[m].u.op.comm = (uint64_t)run[m].start ^ i;
            run[m].u.op.count = (uint64_t)run[m].start * 31 + i;
        }
        argus_ring_write(ARGUS_SOURCE_NVTX, run, m);
        if (n == 32)
            sched_yield();
    }
    before = __atomic_load_n(&argus_ring.header->dropped[ARGUS_SOURCE_NVTX], __ATOMIC_RELAXED);
    CHECK(before <= 2 * EACH);
    __atomic_fetch_add(&produced, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *produce(void *argument)
{
    uint64_t id = (uint64_t)(uintptr_t)argument;

    for (uint64_t i = 0; i < EACH; i++) {
        if (!emit(id << 32 | i, i))
            __atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
        if (i % 4096 == 0)
            sched_yield();
    }
    __atomic_fetch_add(&produced, 1, __ATOMIC_RELEASE);
    return NULL;
}

static uint64_t counter(const uint64_t *values, enum argus_source source)
{
    return __atomic_load_n(&values[source], __ATOMIC_RELAXED);
}

static void concurrent(void *unused)
{
    uint64_t last[THREADS + 1] = {0}, seen = 0;
    pthread_t threads[THREADS];
    struct argus_record r;
    struct view view;

    (void)unused;
    CHECK(emit(0, 0));
    wait_published();
    CHECK(testkit_open(&view, testkit_here));
    CHECK(view.header->slots == 16384);
    /* The consumer through our own mapping: a checker of races follows addresses. */
    view.header = argus_ring.header;
    view.slots = argus_ring.slots;
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, i % 2 ? produce_runs : produce, (void *)(i + 1)) ==
              0);
    for (;;) {
        bool last_look = __atomic_load_n(&produced, __ATOMIC_ACQUIRE) == THREADS;

        if (!testkit_next(&view, &r)) {
            if (last_look)
                break;
            sched_yield();
            continue;
        }
        if (r.type != ARGUS_REC_OP)
            continue;
        /* Whole, and in order for each thread. */
        CHECK(r.u.op.comm == ((uint64_t)r.start ^ (uint64_t)r.end));
        CHECK(r.u.op.count == (uint64_t)r.start * 31 + (uint64_t)r.end);
        if (r.start) {
            uint64_t id = (uint64_t)r.start >> 32, i = (uint64_t)r.start & 0xffffffff;

            CHECK(id >= 1 && id <= THREADS);
            CHECK(i + 1 > last[id]);
            last[id] = i + 1;
        }
        seen++;
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(counter(view.header->dropped, ARGUS_SOURCE_NCCL) == lost);
    lost += counter(view.header->dropped, ARGUS_SOURCE_NVTX);
    CHECK(seen + lost == (uint64_t)THREADS * EACH + 1);
    CHECK(counter(view.header->records, ARGUS_SOURCE_NCCL) +
              counter(view.header->records, ARGUS_SOURCE_NVTX) ==
          seen);
    for (uint64_t i = 0; i < 3 * view.header->slots; i++) { /* and round and round */
        CHECK(emit(i, i + 1));
        do {
            CHECK(testkit_next(&view, &r));
        } while (r.type != ARGUS_REC_OP);
        CHECK(r.start == (int64_t)i && r.end == (int64_t)i + 1);
    }
}

static void test_concurrent(void **state)
{
    (void)state;
    testkit_conf(testkit_here, "version=1\nring_mb=1\nlinks=off\n");
    assert_int_equal(testkit_child(concurrent, NULL), 0);
}

static void full(void *unused)
{
    struct argus_record r;
    struct view view;
    uint64_t n = 0;

    (void)unused;
    CHECK(emit(0, 0));
    wait_published();
    for (int i = 0; i < 20000; i++)
        n += emit(1, 1);
    CHECK(testkit_open(&view, testkit_here));
    CHECK(n < 16384 && n > 16384 - 64);
    CHECK(view.header->dropped[ARGUS_SOURCE_NCCL] == 20000 - n);
    CHECK(testkit_next(&view, &r));
    CHECK(emit(5, 6)); /* one place free, one record fits */
    CHECK(!emit(7, 8));
}

static void test_full_ring_drops(void **state)
{
    (void)state;
    testkit_conf(testkit_here, "ring_mb=1\n");
    assert_int_equal(testkit_child(full, NULL), 0);
}

/* ---- SIGKILL between claim and commit ---- */

static void killed(void *unused)
{
    (void)unused;
    CHECK(emit(1, 1));
    wait_published();
    CHECK(emit(2, 2));
    CHECK(argus_ring_claim(ARGUS_SOURCE_NCCL, ARGUS_REC_OP, 0, 1) != NULL);
    CHECK(emit(3, 3));
    raise(SIGKILL);
}

static void test_killed(void **state)
{
    struct argus_record r;
    struct view view;
    unsigned n = 0;

    (void)state;
    assert_true(WIFSIGNALED(testkit_child(killed, NULL)));
    assert_true(testkit_open(&view, testkit_here));
    assert_int_equal(view.header->end, ARGUS_REASON_NONE);
    while (testkit_next(&view, &r))
        n += r.type == ARGUS_REC_OP;
    assert_int_equal(n, 2);
    /* The torn slot: claimed, not committed, the next one is there. */
    assert_true(view.header->head > view.header->tail);
    view.header->tail++;
    assert_true(testkit_next(&view, &r));
    assert_int_equal(r.start, 3);
    testkit_close(&view);
}

/* ---- exit, fork, exec ---- */

static void orderly(void *unused)
{
    (void)unused;
    CHECK(emit(1, 1));
    wait_published();
}

static void test_exit(void **state)
{
    struct view view;

    (void)state;
    assert_int_equal(testkit_child(orderly, NULL), 0);
    assert_true(testkit_open(&view, testkit_here));
    assert_int_equal(view.header->end, ARGUS_REASON_EXIT);
    testkit_close(&view);
}

static void grandchild(void *unused)
{
    (void)unused;
    CHECK(!emit(9, 9));
}

static void forks(void *unused)
{
    struct view view;
    uint64_t head, dropped;

    (void)unused;
    CHECK(emit(1, 1));
    wait_published();
    CHECK(testkit_open(&view, testkit_here));
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    head = counter(view.header->records, ARGUS_SOURCE_NCCL);
    dropped = view.header->dropped[ARGUS_SOURCE_NCCL];
    CHECK(testkit_child(grandchild, NULL) == 0);
    CHECK(counter(view.header->records, ARGUS_SOURCE_NCCL) == head);
    CHECK(view.header->dropped[ARGUS_SOURCE_NCCL] == dropped);
    CHECK(view.header->end == ARGUS_REASON_NONE);
    CHECK(testkit_rings(testkit_here) == 1);
    CHECK(emit(2, 2));
}

static void test_fork(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(forks, NULL), 0);
}

/* ---- memory, permissions ---- */

static void no_spool(void *unused)
{
    (void)unused;
    CHECK(!emit(1, 1));
    CHECK(argus_ring.state == RING_FAILED);
    CHECK(!emit(1, 1));
}

static void test_unusable_spool(void **state)
{
    char path[512];

    (void)state;
    setenv("ARGUS_SPOOL", "relative", 1);
    assert_int_equal(testkit_child(no_spool, NULL), 0);
    snprintf(path, sizeof(path), "%s/missing", testkit_here);
    setenv("ARGUS_SPOOL", path, 1);
    assert_int_equal(testkit_child(no_spool, NULL), 0);
    unsetenv("ARGUS_SPOOL");
    assert_int_equal(testkit_child(no_spool, NULL), 0);
}

static void second_image(void *unused)
{
    char path[512];
    int fd;

    (void)unused;
    /* A ring of this very pid, as exec() leaves it. */
    snprintf(path, sizeof(path), "%s/3-%d.ring", testkit_here, (int)getpid());
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && write(fd, "old", 3) == 3);
    close(fd);
    CHECK(emit(1, 1));
    wait_published();
    CHECK(strstr(argus_ring_path(), ".1.ring") != NULL);
    CHECK(testkit_rings(testkit_here) == 2);
}

static void test_exec_keeps_old_ring(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(second_image, NULL), 0);
}

/* ---- names ---- */

static void names(void *unused)
{
    char a[64], longer[6000];
    uint32_t first, second;

    (void)unused;
    CHECK(emit(1, 1));
    wait_published();
    first = argus_name("gemm");
    second = argus_name("gemm2");
    CHECK(first && second && first != second);
    CHECK(argus_name_n("gemm2", 4) == first);
    CHECK(argus_name(NULL) == ARGUS_NAME_NONE);
    /* One address, another name: a module was reloaded. */
    strcpy(a, "kernel_a");
    first = argus_name_cached(a);
    CHECK(argus_name_cached(a) == first && argus_name("kernel_a") == first);
    strcpy(a, "kernel_b");
    second = argus_name_cached(a);
    CHECK(second != first && argus_name("kernel_b") == second);
    /* Longer than we keep: cut, and still found. */
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    CHECK(argus_name_cached(longer) == argus_name_cached(longer));
    /* Thousands: capped and counted. */
    CHECK(argus_ring.header->names_dropped == 0);
    for (int i = 0; i < 40000; i++) {
        snprintf(a, sizeof(a), "triton_poi_fused_%d", i);
        first = argus_name(a);
        CHECK(first != 0);
    }
    CHECK(argus_ring.header->names_dropped > 0);
    CHECK(first == argus_ring.name_overflow);
    CHECK(argus_name("gemm") != argus_ring.name_overflow);
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(names, NULL), 0);
}

static void *intern(void *argument)
{
    static uint32_t ids[2][2000];
    uintptr_t which = (uintptr_t)argument;
    char name[64];

    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "range %d of many", i);
        ids[which][i] = argus_name(name);
    }
    return ids[which];
}

static void names_threads(void *unused)
{
    pthread_t t[2];
    void *ids[2];

    (void)unused;
    CHECK(emit(1, 1));
    wait_published();
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&t[i], NULL, intern, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(t[i], &ids[i]) == 0);
    CHECK(memcmp(ids[0], ids[1], 2000 * sizeof(uint32_t)) == 0);
}

static void test_names_threads(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(names_threads, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_record, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_concurrent, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_full_ring_drops, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_killed, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_exit, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_fork, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_unusable_spool, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_exec_keeps_old_ring, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_names, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_names_threads, testkit_setup, testkit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
