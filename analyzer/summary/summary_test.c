/* SPDX-License-Identifier: Apache-2.0 */
/* Steps and sums of made-up jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <argus/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/testkit.h"

struct job { /* a training step with micro-batches and gradient buckets */
    uint32_t fwd, bwd, gemm, tp, bucket[2], adam, eval, gather;
};

static void prepare(struct kit *k, struct job *j, uint32_t tp_comm)
{
    j->fwd = kit_kernel(k, "flash_fwd_kernel", 512);
    j->bwd = kit_kernel(k, "flash_bwd_kernel", 512);
    j->gemm = kit_kernel(k, "sm90_xmma_gemm", 384);
    j->eval = kit_kernel(k, "argmax_kernel", 16);
    j->adam = kit_kernel(k, "multi_tensor_apply_kernel", 320);
    j->tp = kit_collective(k, tp_comm, ARGUS_FUNC_ALLREDUCE, 1 << 20);
    j->gather = kit_collective(k, tp_comm, ARGUS_FUNC_ALLGATHER, 1 << 16);
    j->bucket[0] = kit_collective(k, k->comm, ARGUS_FUNC_ALLREDUCE, 25 << 20);
    j->bucket[1] = kit_collective(k, k->comm, ARGUS_FUNC_ALLREDUCE, 12 << 20);
}

static int64_t noisy(struct kit *k, int64_t ns)
{
    return ns - ns / 100 + (int64_t)kit_random(k, (uint32_t)(ns / 50));
}

static void micro_batch(struct kit *k, const struct job *j)
{
    for (int layer = 0; layer < 4; layer++) {
        kit_run(k, j->gemm, 1000, noisy(k, 200000));
        kit_run(k, j->fwd, 0, noisy(k, 100000));
        kit_run(k, j->tp, 0, noisy(k, 50000));
    }
    for (int layer = 0; layer < 4; layer++) {
        kit_run(k, j->gemm, 0, noisy(k, 400000));
        kit_run(k, j->bwd, 0, noisy(k, 250000));
        kit_run(k, j->tp, 0, noisy(k, 50000));
    }
}

static void train_step(struct kit *k, const struct job *j, int micro_batches)
{
    for (int m = 0; m < micro_batches; m++)
        micro_batch(k, j);
    kit_run(k, j->bucket[0], 2000, noisy(k, 300000));
    kit_run(k, j->bucket[1], 0, noisy(k, 200000));
    for (int i = 0; i < 3; i++)
        kit_run(k, j->adam, 500, noisy(k, 80000));
}

static struct argus_step_row *steps_of(argus_timeline_t *t, size_t *n)
{
    return kit_rows(t, ARGUS_DS_STEPS, n);
}

/* Sums in `clusters` are the sums that were fed, whatever became of the steps. */
static void check_totals(const struct kit *k, argus_timeline_t *t)
{
    size_t n;
    struct argus_cluster_row *c = kit_rows(t, ARGUS_DS_CLUSTERS, &n);
    uint64_t count = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        count += c[i].count;
        sum += (uint64_t)c[i].sum;
        assert_true(c[i].min <= c[i].p50 && c[i].p50 <= c[i].p99 && c[i].p99 <= c[i].max);
    }
    assert_int_equal(count, k->events);
    assert_int_equal(sum, k->total);
    free(c);
}

static void check_columns(const struct argus_step_row *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].compute + s[i].exposed + s[i].copy + s[i].idle,
                         s[i].end - s[i].start);
        if (i)
            assert_true(s[i].start >= s[i - 1].end && s[i].step == s[i - 1].step + 1);
    }
}

static void test_steps(void **state)
{
    struct kit k;
    struct job j;
    struct argus_step_row *s;
    struct argus_step_comm_row *c;
    argus_timeline_t *t;
    size_t n;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 40; i++)
        train_step(&k, &j, 1);
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_int_equal(n, 40);
    check_columns(s, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].kernels, 19);
        assert_int_equal(s[i].comms, 10);
        assert_int_equal(s[i].anchor_comm, k.comm);
        assert_int_equal(s[i].anchor_seq, 2 * i);
        assert_int_equal(s[i].flags & ARGUS_STEP_WARMUP, i < 3 ? ARGUS_STEP_WARMUP : 0);
        assert_true(s[i].forward > 0 && s[i].backward > s[i].forward && s[i].optimizer > 0);
    }
    free(s);
    c = kit_rows(t, ARGUS_DS_STEP_COMM, &n);
    assert_int_equal(n, 40 * 3);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(c[i].count, c[i].class_id == j.tp ? 8 : 1);
    free(c);
    check_totals(&k, t);
    kit_close(&k, t);
}

/* Micro-batches repeat as well; only the whole step has an optimizer in it. */
static void test_gradient_accumulation(void **state)
{
    struct kit k;
    struct job j;
    struct argus_step_row *s;
    argus_timeline_t *t;
    size_t n;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 12; i++)
        train_step(&k, &j, 16);
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_int_equal(n, 12);
    check_columns(s, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(s[i].kernels, 16 * 16 + 3);
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

static void test_variable_micro_batches(void **state)
{
    static const int micro[] = {4, 4, 4, 4, 4, 6, 4, 3, 4, 5, 4, 4, 7, 4, 4, 4, 2, 4, 4, 4};
    const size_t steps = sizeof(micro) / sizeof(micro[0]);
    struct kit k;
    struct job j;
    struct argus_step_row *s;
    argus_timeline_t *t;
    size_t n;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (size_t i = 0; i < steps; i++)
        train_step(&k, &j, micro[i]);
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_int_equal(n, steps);
    check_columns(s, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(s[i].kernels, 16 * micro[i] + 3);
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

static void evaluate(struct kit *k, const struct job *j, int batches)
{
    for (int b = 0; b < batches; b++) {
        for (int layer = 0; layer < 4; layer++) {
            kit_run(k, j->gemm, 1000, noisy(k, 200000));
            kit_run(k, j->eval, 0, noisy(k, 10000));
            kit_run(k, j->gather, 0, noisy(k, 20000));
        }
    }
}

/* Short and long evaluations every 10 steps: the training steps keep their numbers. */
static void evaluation(int batches)
{
    struct kit k;
    struct job j;
    struct argus_step_row *s;
    argus_timeline_t *t;
    size_t n, regular = 0;

    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 60; i++) {
        if (i && i % 10 == 0)
            evaluate(&k, &j, batches);
        train_step(&k, &j, 2);
    }
    t = kit_read(&k);
    s = steps_of(t, &n);
    check_columns(s, n);
    assert_int_equal(n, 60);
    for (size_t i = 0; i < n; i++) {
        regular += s[i].kernels == 35;
        if (s[i].kernels != 35)
            assert_true(i % 10 == 0);
    }
    assert_true(regular >= 55);
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

static void test_evaluation_short(void **state)
{
    (void)state;
    evaluation(1);
}

static void test_evaluation_long(void **state)
{
    (void)state;
    evaluation(200);
}

/* Another number of buckets from the middle on (a restart with another configuration). */
static void test_relearn(void **state)
{
    struct kit k;
    struct job j;
    struct argus_step_row *s;
    argus_timeline_t *t;
    uint32_t other;
    size_t n;
    int relearnt = 0;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    other = kit_collective(&k, k.comm, ARGUS_FUNC_REDUCESCATTER, 40 << 20);
    for (int i = 0; i < 30; i++)
        train_step(&k, &j, 1);
    for (int i = 0; i < 40; i++) {
        micro_batch(&k, &j);
        for (int b = 0; b < 5; b++)
            kit_run(&k, other, 1000, noisy(&k, 300000));
        kit_run(&k, j.adam, 0, noisy(&k, 80000));
    }
    t = kit_read(&k);
    s = steps_of(t, &n);
    check_columns(s, n);
    assert_true(n >= 68 && n <= 70);
    for (size_t i = 0; i < n; i++)
        relearnt += (s[i].flags & ARGUS_STEP_RELEARNT) != 0;
    assert_true(relearnt >= 1 && relearnt <= 2);
    for (size_t i = n - 30; i < n; i++)
        assert_int_equal(s[i].comms, 8 + 5);
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

/* A rank whose data begins 17 steps later numbers from 0; anchor_seq tells which steps are meant. */
static void test_late_attach(void **state)
{
    struct kit k;
    struct job j;
    struct argus_step_row *s;
    argus_timeline_t *t;
    size_t n;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    k.seq = 17 * 2 + 1; /* after the first bucket of step 17 */
    kit_run(&k, j.bucket[1], 0, 200000);
    kit_run(&k, j.adam, 0, 80000);
    for (int i = 0; i < 80; i++)
        train_step(&k, &j, 1);
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_int_equal(n, 80);
    check_columns(s, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].step, i);
        assert_int_equal(s[i].anchor_seq, (18 + i) * 2);
        /* windows at the same steps as on ranks that were there from the start */
        if (i > 6)
            assert_int_equal((s[i].flags & ARGUS_STEP_KEPT) != 0, (18 + i) % 64 == 0);
    }
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

static void test_no_steps(void **state)
{
    struct kit k;
    struct job j;
    argus_timeline_t *t;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 500; i++) {
        uint32_t classes[] = {j.gemm, j.fwd, j.bwd, j.tp, j.bucket[0], j.bucket[1], j.eval};

        kit_run(&k, classes[kit_random(&k, 7)], 100, noisy(&k, 100000));
    }
    t = kit_read(&k);
    assert_int_equal(argus_timeline_rows(t, ARGUS_DS_STEPS), 0);
    check_totals(&k, t);
    kit_close(&k, t);
}

/* Kernels only, as of a job on one GPU. */
static void test_single_gpu(void **state)
{
    struct kit k;
    struct job j;
    argus_timeline_t *t;
    struct argus_step_row *s;
    size_t n;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, 0);
    for (int i = 0; i < 25; i++) {
        for (int layer = 0; layer < 6; layer++) {
            kit_run(&k, j.gemm, 0, noisy(&k, 200000));
            kit_run(&k, j.fwd, 0, noisy(&k, 200000));
        }
        kit_run(&k, j.adam, 0, noisy(&k, 200000));
    }
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_true(n >= 24 && n <= 25);
    check_columns(s, n);
    for (size_t i = 1; i < n; i++)
        assert_int_equal(s[i].kernels, 13);
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

static void add_mark(struct kit *k, const char *name, int64_t start, int64_t end)
{
    struct argus_mark_row m = {.start = start, .end = end, .domain = ARGUS_NONE};
    argus_error_t err = {""};

    m.name = argus_timeline_add_string(k->w, name, strlen(name));
    m.kind = (uint16_t)argus_mark_kind_of(name);
    assert_int_equal(argus_summary_mark(k->s, &m, &err), 0);
}

static void test_marks(void **state)
{
    struct kit k;
    struct job j;
    argus_timeline_t *t;
    struct argus_step_row *s;
    size_t n;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 20; i++) {
        int64_t start = k.now;
        char name[32];

        train_step(&k, &j, 1);
        train_step(&k, &j, 1); /* two optimizer steps a marked one: the mark says what a step is */
        snprintf(name, sizeof(name), "ProfilerStep#%d", i);
        add_mark(&k, name, start, k.now);
    }
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_int_equal(n, 20);
    check_columns(s, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].kernels, 38);
        assert_true(s[i].flags & ARGUS_STEP_MARKED);
    }
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

static void test_slow_step_is_kept(void **state)
{
    struct kit k;
    struct job j;
    argus_timeline_t *t;
    struct argus_step_row *s;
    struct argus_event_row *e;
    size_t n, n_events, kept = 0;

    (void)state;
    kit_open(&k, NULL);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 60; i++) {
        if (i == 40)
            k.now += 5000000;
        train_step(&k, &j, 1);
    }
    t = kit_read(&k);
    s = steps_of(t, &n);
    e = kit_rows(t, ARGUS_DS_EVENTS, &n_events);
    assert_int_equal(n, 60);
    for (size_t i = 0; i < n; i++) {
        size_t events = 0;

        assert_int_equal((s[i].flags & ARGUS_STEP_SLOW) != 0, i == 40);
        for (size_t k2 = 0; k2 < n_events; k2++)
            events += e[k2].step == s[i].step;
        assert_int_equal(events, s[i].flags & ARGUS_STEP_KEPT ? 29 : 0);
        kept += (s[i].flags & ARGUS_STEP_KEPT) != 0;
    }
    assert_true(s[40].flags & ARGUS_STEP_KEPT);
    assert_true(s[39].flags & ARGUS_STEP_KEPT); /* from the flight recorder */
    assert_true(s[40].head_idle >= 5000000 && s[40].gap >= 5000000);
    assert_true(kept < 12);
    free(s);
    free(e);
    check_totals(&k, t);
    kit_close(&k, t);
}

/* The budget holds, and an anomaly at the end still finds room. */
static void test_budget(void **state)
{
    struct argus_summary_options o;
    struct kit k;
    struct job j;
    argus_timeline_t *t;
    struct argus_step_row *s;
    size_t n, kept = 0;

    (void)state;
    argus_summary_defaults(&o);
    o.window = 2;
    o.keep_bytes = 200 * 29 * sizeof(struct argus_event_row);
    kit_open(&k, &o);
    prepare(&k, &j, kit_comm(&k, 0x77, 2));
    for (int i = 0; i < 3000; i++) {
        if (i == 2990)
            k.now += 50000000;
        train_step(&k, &j, 1);
    }
    t = kit_read(&k);
    s = steps_of(t, &n);
    assert_int_equal(n, 3000);
    for (size_t i = 0; i < n; i++)
        kept += (s[i].flags & ARGUS_STEP_KEPT) != 0;
    assert_true(s[2990].flags & ARGUS_STEP_KEPT);
    assert_true(kept > 60);
    assert_true(argus_timeline_rows(t, ARGUS_DS_EVENTS) * sizeof(struct argus_event_row) <=
                o.keep_bytes);
    free(s);
    check_totals(&k, t);
    kit_close(&k, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_gradient_accumulation),
        cmocka_unit_test(test_variable_micro_batches),
        cmocka_unit_test(test_evaluation_short),
        cmocka_unit_test(test_evaluation_long),
        cmocka_unit_test(test_relearn),
        cmocka_unit_test(test_late_attach),
        cmocka_unit_test(test_no_steps),
        cmocka_unit_test(test_single_gpu),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_slow_step_is_kept),
        cmocka_unit_test(test_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
