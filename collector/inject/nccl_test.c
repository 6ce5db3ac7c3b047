/* SPDX-License-Identifier: Apache-2.0 */
/* Drives each profiler table in NCCL's order, with each release's quirks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/inject/nccl.h"
#include "collector/inject/testkit.h"

/* Descriptors by byte, independent of the facts header. */
static void put(uint8_t *d, size_t at, const void *value, size_t n)
{
    memcpy(d + at, value, n);
}

static void put_text(uint8_t *d, size_t at, const char *text)
{
    put(d, at, &text, sizeof(text));
}

static void put64(uint8_t *d, size_t at, uint64_t v)
{
    put(d, at, &v, 8);
}

static void put32(uint8_t *d, size_t at, uint32_t v)
{
    put(d, at, &v, 4);
}

struct table {
    int version;
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, int, void *);
    int (*finalize)(void *);
    void *context;
    int mask;
};

/* A communicator of the library that has this mask. */
static void open_in(struct table *t, int *mask, int version, uint64_t id, int ranks, int rank)
{
    memset(t, 0, sizeof(*t));
    t->version = version;
    if (version <= 3) {
        const struct nccl_profiler_v2 *p = version == 2 ? &ncclProfiler_v2 : &ncclProfiler_v3;

        CHECK(p->init(&t->context, mask) == 0);
        t->start = p->start;
        t->stop = p->stop;
        t->state = p->state;
        t->finalize = p->finalize;
    } else if (version == 4) {
        CHECK(ncclProfiler_v4.init(&t->context, mask, "tp", id, 2, ranks, rank, NULL) == 0);
        t->start = ncclProfiler_v4.start;
        t->stop = ncclProfiler_v4.stop;
        t->state = ncclProfiler_v4.state;
        t->finalize = ncclProfiler_v4.finalize;
    } else {
        const struct nccl_profiler_v5 *p = version == 5 ? &ncclProfiler_v5 : &ncclProfiler_v6;

        CHECK(p->init(&t->context, id, mask, "tp", 2, ranks, rank, NULL) == 0);
        t->start = p->start;
        t->stop = p->stop;
        t->state = p->state;
        t->finalize = p->finalize;
    }
}

static void open_table(struct table *t, int version, uint64_t id, int ranks, int rank)
{
    open_in(t, &t->mask, version, id, ranks, rank);
}

static void *start(struct table *t, uint64_t type, uint8_t *d)
{
    void *handle = (void *)0x1;

    if (t->version >= 5)
        put64(d, 0, type);
    else
        d[0] = (uint8_t)type;
    CHECK(t->start(t->context, &handle, d) == 0);
    return handle;
}

static void coll(struct table *t, const char *func, uint64_t count, int root, uint64_t seq)
{
    uint8_t d[160];
    void *handle;

    memset(d, 0xcc, sizeof(d));
    put32(d, 16, 5);
    switch (t->version) {
    case 2:
    case 3:
        put64(d, 32, 0xabcdef);
        put64(d, 40, seq);
        put_text(d, 48, func);
        put64(d, 72, count);
        put32(d, 80, (uint32_t)root);
        put_text(d, 88, "ncclFloat32");
        put_text(d, t->version == 2 ? 112 : 104, "RING");
        put_text(d, t->version == 2 ? 120 : 112, "SIMPLE");
        break;
    default:
        put64(d, 24, seq);
        put_text(d, 32, func);
        put64(d, 56, count);
        put32(d, 64, (uint32_t)root);
        put_text(d, 72, "ncclFloat32");
        put_text(d, 88, "RING");
        put_text(d, 96, "SIMPLE");
    }
    handle = start(t, NE_COLL, d);
    CHECK(handle == NULL);
    t->stop(handle); /* up to 2.25: without looking */
}

static void p2p(struct table *t, const char *func, uint64_t count, int peer)
{
    uint8_t d[160];
    void *handle;

    memset(d, 0xcc, sizeof(d));
    put32(d, 16, 5);
    if (t->version <= 3) {
        put64(d, 32, 0xabcdef);
        put_text(d, 40, func);
        put_text(d, 56, "ncclBfloat16");
        put64(d, 64, count);
        put32(d, 72, (uint32_t)peer);
    } else {
        put_text(d, 24, func);
        put_text(d, 40, "ncclBfloat16");
        put64(d, 48, count);
        put32(d, 56, (uint32_t)peer);
    }
    handle = start(t, NE_P2P, d);
    CHECK(handle == NULL);
}

static void coll_api(struct table *t, const char *func, uint64_t count, int root, bool captured)
{
    uint8_t d[160];

    memset(d, 0xcc, sizeof(d));
    put_text(d, 24, func);
    put64(d, 32, count);
    put_text(d, 40, "ncclFloat32");
    put32(d, 48, (uint32_t)root);
    put64(d, 56, 0x7000);
    d[64] = captured;
    CHECK(start(t, NE_COLL_API, d) == NULL);
}

static void group(struct table *t)
{
    uint8_t d[160] = {0};
    void *handle = start(t, NE_GROUP, d);

    CHECK((handle != NULL) == (t->version <= 4));
    CHECK(t->state(handle, 19, NULL) == 0);
    CHECK(t->stop(handle) == 0);
}

/* ---- every version ---- */

static void versions(void *argument)
{
    int version = *(int *)argument;
    unsigned ops = 0, details = 0, launches = 0, comm_records = 0;
    uint8_t d[160] = {0};
    struct argus_record r;
    struct table t;
    struct view view;

    open_table(&t, version, 0xabcdef, 16, 5);
    CHECK((t.mask & (NE_COLL | NE_P2P)) == (NE_COLL | NE_P2P));
    CHECK(!(t.mask & (NE_PROXY_OP | NE_PROXY_STEP | 32 | 64 | 128)));
    CHECK(((t.mask & NE_COLL_API) != 0) == (version >= 5));
    for (uint64_t i = 0; i < 10; i++) {
        if (version >= 5) {
            coll_api(&t, "AllReduce", 1000 + i, 0, i == 9);
            put64(d, 24, 0x7000);
            CHECK(start(&t, NE_KERNEL_LAUNCH, d) == NULL);
        }
        group(&t);
        coll(&t, "AllReduce", 1000 + i, 0, 77 + i);
        p2p(&t, "Send", 50, 11);
        CHECK(start(&t, 1ULL << 14, d) == NULL || version < 5); /* a type from the future */
        CHECK(t.stop(NULL) == 0 && t.state(NULL, 3, NULL) == 0);
    }
    CHECK(testkit_open(&view, testkit_here));
    CHECK(view.header->nccl_interface == (uint32_t)version);
    while (testkit_next(&view, &r)) {
        switch (r.type) {
        case ARGUS_REC_COMM:
            comm_records++;
            CHECK(r.u.comm.comm == 0xabcdef && r.u.comm.rank == 5);
            CHECK(r.u.comm.nranks == (version >= 4 ? 16u : 0u));
            CHECK(version < 4 || strcmp(testkit_name(&view, r.u.comm.name), "tp") == 0);
            break;
        case ARGUS_REC_OP:
            CHECK(r.u.op.comm == 0xabcdef);
            CHECK(r.u.op.seq == ops);
            CHECK(((r.flags & ARGUS_FLAG_API) != 0) == (version >= 5));
            CHECK(((r.flags & ARGUS_FLAG_GRAPH_CAPTURED) != 0) == (version >= 5 && ops == 9));
            if (r.u.op.func == ARGUS_FUNC_ALLREDUCE) {
                CHECK(r.u.op.peer == -1 && r.u.op.dtype == ARGUS_DTYPE_F32);
                CHECK(r.u.op.count >= 1000 && r.u.op.count < 1010);
                CHECK(version >= 5 ||
                      (r.u.op.algo == ARGUS_ALGO_RING && r.u.op.proto == ARGUS_PROTO_SIMPLE));
            } else {
                CHECK(r.u.op.func == ARGUS_FUNC_SEND && r.u.op.peer == 11);
                CHECK(r.u.op.dtype == ARGUS_DTYPE_BF16 && r.u.op.count == 50);
            }
            ops++;
            break;
        case ARGUS_REC_OP_DETAIL:
            if (r.u.op.func == ARGUS_FUNC_ALLREDUCE)
                CHECK(r.u.op.seq >= 77 && r.u.op.algo == ARGUS_ALGO_RING);
            else
                CHECK(r.u.op.peer == 11);
            details++;
            break;
        case ARGUS_REC_LAUNCH:
            launches++;
            break;
        case ARGUS_REC_ANCHOR:
            break;
        default:
            CHECK(!"an unexpected record");
        }
    }
    CHECK(comm_records == 1);
    CHECK(ops == (version >= 5 ? 10u : 20u));
    CHECK(details == (version >= 5 ? 20u : 0u));
    CHECK(launches == (version >= 5 ? 10u : 0u));
    CHECK(t.finalize(t.context) == 0);
    /* Used after finalize, and by a context that never was ours. */
    coll(&t, "AllGather", 1, 0, 1);
    t.context = (void *)0x1234;
    coll(&t, "AllGather", 1, 0, 1);
    t.context = NULL;
    coll(&t, "AllGather", 1, 0, 1);
}

static void test_versions(void **state)
{
    (void)state;
    for (int version = 2; version <= 6; version++) {
        assert_int_equal(testkit_child(versions, &version), 0);
        testkit_renew();
    }
}

/* ---- one communicator after the other, more than there are places ---- */

static void many_comms(void *unused)
{
    struct table t;
    struct view view;

    (void)unused;
    testkit_conf(testkit_here, "ring_mb=8\n");
    CHECK(argus_ring_open() == 0);
    CHECK(testkit_open(&view, testkit_here)); /* the whole ring is there */
    for (uint64_t i = 1; i <= 3000; i++) {
        open_table(&t, 5, i, 4, 0);
        coll_api(&t, "AllReduce", 1, 0, false);
        if (i > 500)
            CHECK(t.finalize(t.context) == 0);
    }
    for (uint64_t i = 1; i <= 3000; i++) {
        struct argus_record r;

        do {
            CHECK(testkit_next(&view, &r));
        } while (r.type != ARGUS_REC_OP);
        CHECK(r.u.op.comm == i && r.u.op.seq == 0);
    }
}

static void test_many_comms(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(many_comms, NULL), 0);
}

static void off(void *unused)
{
    struct table t;

    (void)unused;
    setenv("ARGUS_SOURCES", "cupti", 1);
    open_table(&t, 5, 1, 4, 0);
    CHECK(t.mask == 0);
    CHECK(testkit_rings(testkit_here) == 0);
    unsetenv("ARGUS_SOURCES");
    unsetenv("ARGUS_SPOOL");
    open_table(&t, 5, 1, 4, 0);
    CHECK(t.mask == 0);
}

static void test_off(void **state)
{
    (void)state;
    assert_int_equal(testkit_child(off, NULL), 0);
}

/* ---- links: lost stops, double stops, states after a stop, PXN ---- */

static void *proxy_op(struct table *t, int pid, int peer)
{
    uint8_t d[160] = {0};

    put32(d, 24, (uint32_t)pid);
    d[28] = 3;
    put32(d, 32, (uint32_t)peer);
    return start(t, NE_PROXY_OP, d);
}

static void *proxy_step(struct table *t, void *parent)
{
    uint8_t d[160] = {0};

    put(d, 8, &parent, sizeof(parent));
    return start(t, NE_PROXY_STEP, d);
}

static void links(void *argument)
{
    int version = *(int *)argument;
    struct timespec ms = {0, 2000000};
    uint64_t bytes = 4096;
    struct argus_moment begin = argus_moment_now();
    struct argus_record r;
    struct table t;
    struct view view;
    int64_t all;
    void *op, *step, *lost;
    unsigned waits = 0;

    open_table(&t, version, 9, 4, 0);
    CHECK((t.mask & (NE_PROXY_OP | NE_PROXY_STEP)) == (NE_PROXY_OP | NE_PROXY_STEP));
    CHECK(proxy_op(&t, getpid() + 1, 2) == NULL);
    CHECK(proxy_step(&t, (void *)0x7f0012345678) == NULL);
    op = proxy_op(&t, getpid(), 2);
    CHECK(op != NULL);
    for (int i = 0; i < 3; i++) {
        step = proxy_step(&t, op);
        CHECK(step != NULL && step != op);
        t.state(step, 8, NULL);
        nanosleep(&ms, NULL);
        t.state(step, 9, &bytes);
        nanosleep(&ms, NULL);
        t.stop(step);
        t.stop(step);
        t.state(step, 9, &bytes);
    }
    lost = proxy_step(&t, op);
    t.state(lost, 8, NULL);
    t.stop(op);
    t.stop(op);
    t.state(op, 19, NULL);
    t.stop(lost); /* after its operation */
    CHECK(proxy_step(&t, op) == NULL);
    all = argus_moment_now().real - begin.real;
    /* Ten rounds of the tables without a single stop. */
    for (int i = 0; i < 20000; i++)
        proxy_step(&t, proxy_op(&t, getpid(), 1));
    t.state(step, 9, &bytes);
    CHECK(testkit_open(&view, testkit_here));
    while (testkit_next(&view, &r)) {
        if (r.type != ARGUS_REC_PEER_WAIT)
            continue;
        waits++;
        CHECK(r.u.peer.comm == (version >= 4 ? 9u : 0u) && r.u.peer.peer == 2);
        CHECK(r.u.peer.channel == 3 && r.u.peer.count == 3);
        CHECK(r.end - r.start >= 6000000 && r.end - r.start <= all);
        CHECK(r.u.peer.state == 8 || (r.u.peer.state == 9 && r.u.peer.bytes == 3 * 4096));
    }
    CHECK(waits == 2);
}

static void test_links(void **state)
{
    (void)state;
    for (int version = 2; version <= 6; version++) {
        testkit_conf(testkit_here, "links=on\n");
        assert_int_equal(testkit_child(links, &version), 0);
        testkit_renew();
    }
}

/* A window of ten seconds every two minutes, by the mask alone. */
static void links_window(void *unused)
{
    const int links_bits = NE_PROXY_OP | NE_PROXY_STEP;
    struct argus_moment t = argus_moment_now();
    struct table table;
    struct view view;

    (void)unused;
    open_table(&table, 5, 9, 4, 0);
    CHECK(!(table.mask & links_bits));
    CHECK(testkit_open(&view, testkit_here));
    nanosleep(&(struct timespec){0, 300000000}, NULL); /* the worker has had a turn */
    for (int s = 0; s <= 119; s += 10, t.mono += 10000000000) {
        argus_nccl_turn(t);
        CHECK(!(__atomic_load_n(&table.mask, __ATOMIC_RELAXED) & links_bits));
    }
    t.mono += 2000000000;
    argus_nccl_turn(t);
    CHECK((__atomic_load_n(&table.mask, __ATOMIC_RELAXED) & links_bits) == links_bits);
    CHECK(__atomic_load_n(&table.mask, __ATOMIC_RELAXED) & NE_COLL_API);
    t.mono += 11000000000;
    argus_nccl_turn(t);
    CHECK(!(__atomic_load_n(&table.mask, __ATOMIC_RELAXED) & links_bits));
    CHECK(__atomic_load_n(&table.mask, __ATOMIC_RELAXED) & NE_COLL_API);
}

static void test_links_window(void **state)
{
    (void)state;
    testkit_conf(testkit_here, "links=2\n");
    assert_int_equal(testkit_child(links_window, NULL), 0);
}

/* ---- NCCL's library goes when its last communicator has ended ---- */

static int *load_nccl(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    return page;
}

static void unload_nccl(int *mask)
{
    CHECK(munmap(mask, 4096) == 0);
}

static bool has_links(const int *mask)
{
    return (__atomic_load_n(mask, __ATOMIC_RELAXED) & NE_PROXY_STEP) != 0;
}

/* Through a window and out of it; in which of these was it seen? */
static unsigned one_window(struct argus_moment *t, const int *first, const int *second)
{
    unsigned seen;

    t->mono += 121000000000;
    argus_nccl_turn(*t);
    seen = (first && has_links(first) ? 1u : 0) | (second && has_links(second) ? 2u : 0);
    t->mono += 11000000000;
    argus_nccl_turn(*t);
    CHECK(!(first && has_links(first)) && !(second && has_links(second)));
    return seen;
}

static void unloaded(void *argument)
{
    int version = *(int *)argument;
    struct argus_moment t = argus_moment_now();
    int *one = load_nccl(), *two = load_nccl();
    struct table a, b, c;

    open_in(&a, one, version, 9, 4, 0);
    open_in(&b, one, version, 10, 4, 0);
    open_in(&c, two, version, 11, 4, 0);
    argus_nccl_turn(t);
    CHECK(one_window(&t, one, two) == 3);
    CHECK(a.finalize(a.context) == 0);
    CHECK(one_window(&t, one, two) == 3); /* the other communicator lives */
    CHECK(c.finalize(c.context) == 0);
    unload_nccl(two);
    CHECK(one_window(&t, one, NULL) == 1);
    CHECK(b.finalize(b.context) == 0);
    unload_nccl(one);
    one_window(&t, NULL, NULL);
    /* Loaded again. */
    one = load_nccl();
    open_in(&a, one, version, 12, 4, 0);
    CHECK(one_window(&t, one, NULL) == 1);
    /* A communicator that is made within a window does not end it. */
    t.mono += 121000000000;
    argus_nccl_turn(t);
    CHECK(has_links(one));
    open_in(&b, one, version, 13, 4, 0);
    CHECK(has_links(one));
    CHECK(a.finalize(a.context) == 0 && b.finalize(b.context) == 0);
    unload_nccl(one);
}

static int turning_ends;

static void *turning(void *unused)
{
    struct argus_moment t = argus_moment_now();

    (void)unused;
    for (; !__atomic_load_n(&turning_ends, __ATOMIC_RELAXED); t.mono += 121000000000) {
        argus_nccl_turn(t);
        sched_yield();
    }
    return NULL;
}

static void unloaded_meanwhile(void *argument)
{
    int version = *(int *)argument;
    pthread_t thread;
    struct table t;

    open_table(&t, version, 4000, 4, 0);
    CHECK(t.finalize(t.context) == 0);
    CHECK(pthread_create(&thread, NULL, turning, NULL) == 0);
    for (uint64_t i = 1; i <= 500; i++) {
        int *mask = load_nccl();

        open_in(&t, mask, version, i, 4, 0);
        if (i % 16 == 0)
            sched_yield();
        CHECK(t.finalize(t.context) == 0);
        unload_nccl(mask);
    }
    __atomic_store_n(&turning_ends, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void test_unloaded(void **state)
{
    (void)state;
    for (int version = 2; version <= 6; version++) {
        testkit_conf(testkit_here, "links=2\n");
        assert_int_equal(testkit_child(unloaded, &version), 0);
        assert_int_equal(testkit_child(unloaded_meanwhile, &version), 0);
        testkit_renew();
    }
}

static void words(void **state)
{
    static const struct {
        const char *word;
        uint8_t func;
    } funcs[] = {{"AllGather", ARGUS_FUNC_ALLGATHER},
                 {"AllReduce", ARGUS_FUNC_ALLREDUCE},
                 {"AlltoAll", ARGUS_FUNC_ALLTOALL},
                 {"AllToAll", ARGUS_FUNC_ALLTOALL},
                 {"Broadcast", ARGUS_FUNC_BROADCAST},
                 {"Gather", ARGUS_FUNC_GATHER},
                 {"Recv", ARGUS_FUNC_RECV},
                 {"Reduce", ARGUS_FUNC_REDUCE},
                 {"ReduceScatter", ARGUS_FUNC_REDUCESCATTER},
                 {"Scatter", ARGUS_FUNC_SCATTER},
                 {"SendRecv", ARGUS_FUNC_SENDRECV},
                 {"Send", ARGUS_FUNC_SEND},
                 {"PutSignal", ARGUS_FUNC_OTHER},
                 {"", ARGUS_FUNC_OTHER},
                 {"R", ARGUS_FUNC_OTHER},
                 {NULL, ARGUS_FUNC_NONE}};

    (void)state;
    for (size_t i = 0; i < sizeof(funcs) / sizeof(funcs[0]); i++)
        assert_int_equal(argus_nccl_func(funcs[i].word), funcs[i].func);
    assert_int_equal(argus_nccl_dtype("ncclBfloat16"), ARGUS_DTYPE_BF16);
    assert_int_equal(argus_nccl_dtype("ncclFloat8e5m2"), ARGUS_DTYPE_F8E5M2);
    assert_int_equal(argus_nccl_dtype("float"), ARGUS_DTYPE_UNKNOWN);
    assert_int_equal(argus_nccl_dtype(NULL), ARGUS_DTYPE_UNKNOWN);
    assert_int_equal(argus_nccl_algo("COLLNET_CHAIN"), ARGUS_ALGO_COLLNET_CHAIN);
    assert_int_equal(argus_nccl_algo("NVLS_TREE"), ARGUS_ALGO_NVLS_TREE);
    assert_int_equal(argus_nccl_algo(NULL), 0);
    assert_int_equal(argus_nccl_proto("LL"), ARGUS_PROTO_LL);
    assert_int_equal(argus_nccl_proto("LL128"), ARGUS_PROTO_LL128);
    assert_int_equal(argus_nccl_proto(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test_setup_teardown(test_versions, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_many_comms, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_off, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_links, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_links_window, testkit_setup, testkit_teardown),
        cmocka_unit_test_setup_teardown(test_unloaded, testkit_setup, testkit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
