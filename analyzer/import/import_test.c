/* SPDX-License-Identifier: Apache-2.0 */
/* Words and numbers of other tools' traces. */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/kineto.h"

static int64_t time_of(const char *text)
{
    return kineto_time((struct kineto_slice){KINETO_NUMBER, text, strlen(text)});
}

static void times_are_exact(void **state)
{
    (void)state;
    assert_int_equal(time_of("0"), 0);
    assert_int_equal(time_of("1700000000037451.8"), INT64_C(1700000000037451800));
    assert_int_equal(time_of("4458676522690.655"), INT64_C(4458676522690655));
    assert_int_equal(time_of("1.0004"), 1000);
    assert_int_equal(time_of("1.0005"), 1001);
    assert_int_equal(time_of("1.00049999"), 1000);
    assert_int_equal(time_of("0.9999"), 1000);
    assert_int_equal(time_of("-2.5"), -2500);
    assert_int_equal(time_of("1.5e3"), 1500000);
    assert_int_equal(time_of("1e300"), INT64_MIN);
    assert_int_equal(time_of("99999999999999999999"), INT64_MIN);
    assert_int_equal(kineto_time((struct kineto_slice){KINETO_STRING, "1", 1}), INT64_MIN);
}

static void integers_have_bounds(void **state)
{
    const char *huge = "99999999999999999999999";

    (void)state;
    assert_int_equal(kineto_integer((struct kineto_slice){KINETO_NUMBER, "42", 2}, -1), 42);
    assert_int_equal(kineto_integer((struct kineto_slice){KINETO_STRING, "7", 1}, -1), 7);
    assert_int_equal(kineto_integer((struct kineto_slice){KINETO_NUMBER, "3.0", 3}, -1), 3);
    assert_int_equal(kineto_integer((struct kineto_slice){KINETO_NUMBER, huge, strlen(huge)}, -1),
                     -1);
    assert_int_equal(kineto_integer((struct kineto_slice){KINETO_STRING, "x", 1}, -1), -1);
    assert_int_equal(kineto_integer((struct kineto_slice){KINETO_OTHER, "1", 1}, -1), -1);
}

static void check_ranks(const char *text, uint32_t size, size_t want, int first, int last)
{
    size_t n;
    int *ranks = import_ranks_parse(text, size, &n);

    assert_int_equal(n, want);
    if (want) {
        assert_int_equal(ranks[0], first);
        assert_int_equal(ranks[n - 1], last);
    } else {
        assert_null(ranks);
    }
    free(ranks);
}

static void lists_of_ranks(void **state)
{
    (void)state;
    check_ranks("[0, 4, 8, 12]", 4, 4, 0, 12);
    check_ranks("3,1,2", 0, 3, 3, 2);
    check_ranks("[0, 1, 2, ..., 63]", 64, 64, 0, 63);
    check_ranks("[1, 3, ..., 63]", 32, 32, 1, 63);
    check_ranks("[0, 1, 2, ..., 63]", 32, 0, 0, 0); /* does not go on evenly */
    check_ranks("[0, 1, 5, ..., 63]", 64, 0, 0, 0);
    check_ranks("[0, ..., 63]", 64, 0, 0, 0);
    check_ranks("[0, 1, ...]", 64, 0, 0, 0);
    check_ranks("[]", 0, 0, 0, 0);
    check_ranks("", 0, 0, 0, 0);
    check_ranks("[99999999999]", 1, 0, 0, 0);
    check_ranks("[0, 1, ..., 16777215]", 16777216, 0, 0, 0);
}

static void words(void **state)
{
    int func = 0;

    (void)state;
    assert_int_equal(import_func("allreduce"), ARGUS_FUNC_ALLREDUCE);
    assert_int_equal(import_func("_allgather_base"), ARGUS_FUNC_ALLGATHER);
    assert_int_equal(import_func("_reduce_scatter_base"), ARGUS_FUNC_REDUCESCATTER);
    assert_int_equal(import_func("all_to_allv"), ARGUS_FUNC_ALLTOALL);
    assert_int_equal(import_func("reduce"), ARGUS_FUNC_REDUCE);
    assert_int_equal(import_func("scatter"), ARGUS_FUNC_SCATTER);
    assert_int_equal(import_func("SendRecv"), ARGUS_FUNC_SENDRECV);
    assert_int_equal(import_func("wait"), ARGUS_FUNC_NONE);
    assert_int_equal(import_dtype("BFloat16"), ARGUS_DTYPE_BF16);
    assert_int_equal(import_dtype("Long"), ARGUS_DTYPE_INT64);
    assert_int_equal(import_dtype("Float8_e4m3fn"), ARGUS_DTYPE_F8E4M3);
    assert_int_equal(import_dtype("Tensor"), ARGUS_DTYPE_UNKNOWN);
    assert_int_equal(import_host_call("cudaLaunchKernelExC_v11060", &func), ARGUS_CLASS_LAUNCH);
    assert_int_equal(import_host_call("cudaMalloc", &func), ARGUS_CLASS_ALLOC);
    assert_int_equal(func, ARGUS_API_MALLOC);
    assert_int_equal(import_host_call("cudaFree_v3020", &func), ARGUS_CLASS_ALLOC);
    assert_int_equal(func, ARGUS_API_FREE);
    assert_int_equal(import_host_call("cudaMallocAsync", &func), 0);
    assert_int_equal(import_host_call("cudaFreeHost", &func), 0);
    assert_int_equal(import_host_call("cudaGetDevice", &func), 0);
    assert_int_equal(import_rank_of_name("/a/rank-12.json.gz"), 12);
    assert_int_equal(import_rank_of_name("worker7_step_12.1694.pt.trace.json"), 7);
    assert_int_equal(import_rank_of_name("/rank-3/trace.json"), -1);
}

static void tables_hold_many(void **state)
{
    struct import_trace t;
    argus_error_t err;
    char name[32];

    (void)state;
    assert_int_equal(import_trace_init(&t, "x", "kineto", &err), 0);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < 50000; i++) {
            struct import_op op = {.kind = ARGUS_CLASS_COMPUTE, .stream = i};

            snprintf(name, sizeof(name), "k%u", i);
            assert_int_equal(import_string(&t, name, strlen(name)), i);
            assert_int_equal(import_op(&t, &op), i);
        }
    }
    assert_string_equal(import_text(&t, 49999), "k49999");
    assert_string_equal(import_text(&t, ARGUS_NONE), "");
    assert_int_equal(import_string(&t, "k1\0tail", 7), 1);
    import_trace_free(&t);
}

/* A host that runs ahead: marks end before their kernels start. */
static void steps_move_to_gpu_time(void **state)
{
    struct import_op launch = {.kind = ARGUS_CLASS_LAUNCH}, kernel = {.kind = ARGUS_CLASS_COMPUTE};
    struct import_mark *steps, mark = {.domain = ARGUS_NONE, .tid = 1};
    struct import_trace t;
    argus_error_t err;
    char name[32];
    size_t n;

    (void)state;
    assert_int_equal(import_trace_init(&t, "x", "kineto", &err), 0);
    for (uint32_t s = 0; s < 5; s++) {
        snprintf(name, sizeof(name), "ProfilerStep#%u", s + 7);
        mark.name = import_string(&t, name, strlen(name));
        mark.start = s * 100;
        mark.end = mark.start + 100;
        assert_int_equal(import_mark(&t, &mark), 0);
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(
                import_event(&t, mark.start + k * 10 + 1, 5, import_op(&t, &launch), s * 3 + k + 1),
                0);
            assert_int_equal(import_event(&t, 1000 + s * 300 + k * 90, 80, import_op(&t, &kernel),
                                          s * 3 + k + 1),
                             0);
        }
    }
    assert_int_equal(import_trace_sort(&t), 0);
    assert_int_equal(t.kernels, 15);
    assert_int_equal(import_steps(&t, 0, &steps, &n), 0);
    assert_int_equal(n, 5);
    for (size_t s = 0; s < n; s++) {
        assert_int_equal(steps[s].start, 1000 + s * 300);
        assert_int_equal(steps[s].end, s < 4 ? 1300 + s * 300 : 2460);
    }
    assert_string_equal(import_text(&t, steps[0].domain), "argus");
    assert_int_equal(t.n_marks, 0);
    free(steps);
    import_trace_free(&t);
}

/* One collective was launched before the trace began, one before the first step. */
static void heads_of_traces_are_not_numbered(void **state)
{
    struct import_op launch = {.kind = ARGUS_CLASS_LAUNCH}, comm = {.kind = ARGUS_CLASS_COMM,
                                                                    .func = ARGUS_FUNC_ALLREDUCE,
                                                                    .group = ARGUS_NONE};
    struct import_mark mark = {.domain = ARGUS_NONE, .tid = 1, .start = 100, .end = 300};
    struct import_trace t;
    argus_error_t err;

    (void)state;
    assert_int_equal(import_trace_init(&t, "x", "kineto", &err), 0);
    mark.name = import_string(&t, "ProfilerStep#3", 14);
    assert_int_equal(import_mark(&t, &mark), 0);
    for (uint32_t k = 0; k < 6; k++) {
        if (k > 0)
            assert_int_equal(import_event(&t, 60 + k * 30, 5, import_op(&t, &launch), k + 1), 0);
        assert_int_equal(import_event(&t, 400 + k * 10, 8, import_op(&t, &comm), k + 1), 0);
    }
    assert_int_equal(import_trace_sort(&t), 0);
    assert_int_equal(t.unmatched, 4);
    import_trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_exact),
        cmocka_unit_test(integers_have_bounds),
        cmocka_unit_test(lists_of_ranks),
        cmocka_unit_test(words),
        cmocka_unit_test(tables_hold_many),
        cmocka_unit_test(steps_move_to_gpu_time),
        cmocka_unit_test(heads_of_traces_are_not_numbered),
    };
    return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
