/* SPDX-License-Identifier: Apache-2.0 */
/* Which call a kernel gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "collector/record/join.h"

static void op(argus_join_t *j, uint32_t tid, uint64_t comm, int func, uint64_t count, uint32_t seq,
               int flags, int64_t time)
{
    struct argus_record r = {
        .type = ARGUS_REC_OP, .flags = (uint16_t)flags, .tid = tid, .start = time, .end = time};

    r.u.op = (struct argus_rec_op){.comm = comm,
                                   .count = count,
                                   .seq = seq,
                                   .peer = -1,
                                   .func = (uint8_t)func,
                                   .dtype = ARGUS_DTYPE_F32};
    assert_int_equal(argus_join_record(j, &r), 0);
}

static void launch(argus_join_t *j, uint32_t tid, uint32_t stream, int64_t time)
{
    struct argus_record r = {.type = ARGUS_REC_LAUNCH, .tid = tid, .start = time, .end = time};

    r.u.op.stream = stream;
    assert_int_equal(argus_join_record(j, &r), 0);
}

#define API ARGUS_FLAG_API

/* The k-th launch on a stream is its k-th kernel, however the streams mix. */
static void test_streams(void **state)
{
    argus_join_t *j = argus_join_create();
    struct argus_call c;

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 1000 + i, i, API, 10 * i);
        launch(j, 1, 20, 10 * i);
        op(j, 2, 0xb, ARGUS_FUNC_ALLGATHER, 5000 + i, i, API, 10 * i);
        launch(j, 2, 21, 10 * i);
    }
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLGATHER, 21, 0, 0, 5000, &c), 1);
        assert_true(c.comm == 0xb && c.seq == i && c.bytes == 4 * (5000 + i));
    }
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 5000, &c), 1);
        assert_true(c.comm == 0xa && c.seq == i && c.bytes == 4 * (1000 + i));
    }
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 9000, &c), 0);
    assert_int_equal(argus_join_waiting(j), 0);
    argus_join_destroy(j);
}

/* Operations of one launch are one kernel. */
static void test_groups(void **state)
{
    argus_join_t *j = argus_join_create();
    struct argus_call c;
    struct argus_record d = {.type = ARGUS_REC_OP_DETAIL, .tid = 1};

    (void)state;
    op(j, 1, 0xa, ARGUS_FUNC_SEND, 10, 0, API, 1);
    op(j, 1, 0xa, ARGUS_FUNC_RECV, 20, 1, API, 1);
    launch(j, 1, 20, 2);
    op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 10, 2, API, 3);
    op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 30, 3, API, 3);
    launch(j, 1, 20, 4);
    op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 1, 4, API, 5);
    op(j, 1, 0xb, ARGUS_FUNC_BROADCAST, 1, 0, API, 5);
    launch(j, 1, 20, 6);
    op(j, 1, 0xa, ARGUS_FUNC_SEND, 7, 5, API, 7);
    launch(j, 1, 20, 8);
    d.u.op = (struct argus_rec_op){.comm = 0xa, .peer = 3, .func = ARGUS_FUNC_SEND};
    argus_join_record(j, &d);

    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_SENDRECV, 20, 0, 0, 100, &c), 1);
    assert_true(c.func == ARGUS_FUNC_SENDRECV && c.bytes == 120 && c.ops == 2 && c.seq == 0);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 100, &c), 1);
    assert_true(c.func == ARGUS_FUNC_ALLREDUCE && c.bytes == 160 && c.seq == 2);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 100, &c), 1);
    assert_true(c.func == ARGUS_FUNC_GROUP && c.comm == 0);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_SENDRECV, 20, 0, 0, 100, &c), 1);
    assert_true(c.func == ARGUS_FUNC_SEND && c.peer == 3);
    argus_join_destroy(j);
}

static void tell(argus_join_t *j, int func, int peer)
{
    struct argus_record d = {.type = ARGUS_REC_OP_DETAIL, .tid = 1};

    d.u.op = (struct argus_rec_op){.comm = 0xa, .peer = peer, .func = (uint8_t)func};
    assert_int_equal(argus_join_record(j, &d), 0);
}

/* Sends and receives of one launch are with whom all of them are with, as far as all are told. */
static void test_peers(void **state)
{
    static const struct {
        int send, receive, peer;
    } rows[] = {{3, 3, 3}, {2, 4, -1}, {4, 4, 4}, {5, -1, -1}, {0, 0, 0}, {1, 0, -1}};
    argus_join_t *j = argus_join_create();
    struct argus_call c;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        op(j, 1, 0xa, ARGUS_FUNC_SEND, 10, 2 * (uint32_t)i, API, 10 * (int64_t)i);
        op(j, 1, 0xa, ARGUS_FUNC_RECV, 20, 2 * (uint32_t)i + 1, API, 10 * (int64_t)i);
        launch(j, 1, 20, 10 * (int64_t)i + 1);
        if (rows[i].receive >= 0) /* in whichever order */
            tell(j, ARGUS_FUNC_RECV, rows[i].receive);
        tell(j, ARGUS_FUNC_SEND, rows[i].send);
        if (rows[i].receive < 0) { /* the kernel runs before the rest is told */
            for (size_t k = 0; k <= i; k++) {
                assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_SENDRECV, 20, 0, 0, 100, &c), 1);
                assert_true(c.func == ARGUS_FUNC_SENDRECV && c.ops == 2 && c.bytes == 120);
                assert_int_equal(c.peer, rows[k].peer);
            }
        }
    }
    for (size_t k = 4; k < 6; k++) {
        assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_SENDRECV, 20, 0, 0, 100, &c), 1);
        assert_int_equal(c.peer, rows[k].peer);
    }
    /* two tensors to the same rank */
    op(j, 1, 0xa, ARGUS_FUNC_SEND, 10, 20, API, 200);
    op(j, 1, 0xa, ARGUS_FUNC_SEND, 20, 21, API, 200);
    launch(j, 1, 20, 201);
    tell(j, ARGUS_FUNC_SEND, 6);
    tell(j, ARGUS_FUNC_SEND, 6);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_SENDRECV, 20, 0, 0, 300, &c), 1);
    assert_true(c.func == ARGUS_FUNC_SEND && c.ops == 2 && c.peer == 6);
    argus_join_destroy(j);
}

/* A contradiction between name and call is no match; what fits next is taken. */
static void test_contradiction(void **state)
{
    argus_join_t *j = argus_join_create();
    struct argus_call c;

    (void)state;
    op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 10, 0, API, 1);
    launch(j, 1, 20, 1);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLGATHER, 20, 0, 0, 100, &c), 0);
    op(j, 1, 0xa, ARGUS_FUNC_ALLGATHER, 20, 1, API, 2);
    launch(j, 1, 20, 2);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLGATHER, 20, 0, 0, 100, &c), 1);
    assert_int_equal(c.seq, 1);
    assert_int_equal(argus_join_waiting(j), 0);
    argus_join_destroy(j);
}

/* Kernels were lost: calls from before have none any more, and order alone does not pair. */
static void test_gap(void **state)
{
    argus_join_t *j = argus_join_create();
    struct argus_call c;

    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 10, i, API, 100 * i);
        launch(j, 1, 20, 100 * i);
    }
    argus_join_gap(j, 450);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 480, &c), 0);
    assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 550, &c), 1);
    assert_int_equal(c.seq, 5);
    argus_join_destroy(j);
}

/* Interfaces without LAUNCH: by function in order, a stream keeps its communicator. */
static void test_loose(void **state)
{
    argus_join_t *j = argus_join_create();
    struct argus_call c;

    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 10, i, 0, 10 * i);
        op(j, 1, 0xb, ARGUS_FUNC_ALLREDUCE, 90, i, 0, 10 * i + 5);
    }
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 1000, &c), 1);
        assert_true(c.comm == 0xa && c.seq == i);
        if (i % 2) { /* the other stream lags */
            for (uint32_t k = i - 1; k <= i; k++) {
                assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 21, 0, 0, 1000, &c), 1);
                assert_true(c.comm == 0xb && c.seq == k);
            }
        }
    }
    argus_join_destroy(j);
}

/* Captured once, replayed often: each node keeps its call, the sequence goes on. */
static void test_graph(void **state)
{
    argus_join_t *j = argus_join_create();
    struct argus_call c;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        op(j, 1, 0xa, ARGUS_FUNC_ALLREDUCE, 100 * (i + 1), i, API | ARGUS_FLAG_GRAPH_CAPTURED, i);
        launch(j, 1, 20, i);
    }
    for (uint32_t replay = 0; replay < 50; replay++) {
        for (uint32_t node = 0; node < 3; node++) {
            assert_int_equal(argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 7, 40 + node, 1000, &c),
                             1);
            assert_true(c.bytes == 400 * (node + 1) && c.seq == 3 * replay + node);
        }
    }
    argus_join_destroy(j);
}

/* What is saved is what goes on. */
static void test_save(void **state)
{
    argus_join_t *j = argus_join_create(), *k = argus_join_create();
    struct argus_blob b = {0};
    struct argus_call c, d;

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        op(j, i % 3, 0xa + i % 2, ARGUS_FUNC_ALLREDUCE, i, i, API, i);
        launch(j, i % 3, 20 + i % 4, i);
        op(j, 5, 0xc, ARGUS_FUNC_BROADCAST, i, i, 0, i);
    }
    for (int i = 0; i < 30; i++)
        argus_join_kernel(j, ARGUS_FUNC_ALLREDUCE, 20, 0, 0, 1000, &c);
    op(j, 9, 0xa, ARGUS_FUNC_REDUCE, 1, 1, API, 1); /* its launch is still to come */
    argus_join_save(j, &b);
    argus_join_restore(k, &b);
    assert_false(b.failed);
    assert_int_equal(b.at, b.n);
    launch(j, 9, 30, 2);
    launch(k, 9, 30, 2);
    for (int i = 0; i < 400; i++) {
        int func = i % 5 ? ARGUS_FUNC_ALLREDUCE : ARGUS_FUNC_BROADCAST;
        int one = argus_join_kernel(j, func, 20 + (uint32_t)i % 12, 0, 0, 1000, &c);
        int two = argus_join_kernel(k, func, 20 + (uint32_t)i % 12, 0, 0, 1000, &d);

        assert_int_equal(one, two);
        if (one)
            assert_memory_equal(&c, &d, sizeof(c));
    }
    argus_blob_free(&b);
    argus_join_destroy(j);
    argus_join_destroy(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_peers),   cmocka_unit_test(test_contradiction),
        cmocka_unit_test(test_gap),     cmocka_unit_test(test_loose),
        cmocka_unit_test(test_graph),   cmocka_unit_test(test_save),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
