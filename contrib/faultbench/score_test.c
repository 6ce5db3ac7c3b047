/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <argus/timeline.h>

#include "contrib/faultbench/bench.h"
#include "contrib/faultbench/internal.h"

static void add(struct fb_score *s, enum fb_fault_kind fault, enum argus_verdict_kind said,
                int right, int times)
{
    struct fb_spec spec;
    struct fb_truth t = {
        .counts = 1, .kind = ARGUS_VERDICT_COMPUTE_STRAGGLER, .also = -1, .rank = 1};
    struct fb_answer a = {.kind = said, .culprit_right = right, .onset = -1};

    fb_defaults(&spec, FB_DDP, 8);
    spec.fault.kind = fault;
    spec.fault.magnitude = 1.3;
    for (int i = 0; i < times; i++)
        fb_score_add(s, &spec, &t, &a);
}

/* A table that got worse is noticed, noise is not. */
static void compare_with_recorded(void **state)
{
    struct fb_score *then = calloc(1, sizeof(*then)), *now = calloc(1, sizeof(*now));
    char path[] = "/tmp/faultbench-test.XXXXXX";
    int fd = mkstemp(path);
    FILE *out = tmpfile();

    (void)state;
    assert_true(fd >= 0 && then && now && out);
    close(fd);
    add(then, FB_SLOW_GPU, ARGUS_VERDICT_COMPUTE_STRAGGLER, 1, 20);
    assert_int_equal(fb_score_json(then, path), 0);
    assert_int_equal(fb_score_compare(then, path, out), 0);
    add(now, FB_SLOW_GPU, ARGUS_VERDICT_COMPUTE_STRAGGLER, 1, 19);
    add(now, FB_SLOW_GPU, ARGUS_VERDICT_OK, 0, 1);
    assert_int_equal(fb_score_compare(now, path, out), 0);
    add(now, FB_SLOW_GPU, ARGUS_VERDICT_COMPUTE_STRAGGLER, 0, 4);
    assert_int_equal(fb_score_compare(now, path, out), -1);
    assert_int_equal(fb_score_compare(now, "/nonexistent.json", out), -1);
    fclose(out);
    unlink(path);
    free(then);
    free(now);
}

static void recall_and_precision(void **state)
{
    struct fb_score *s = calloc(1, sizeof(*s));

    (void)state;
    assert_non_null(s);
    add(s, FB_SLOW_GPU, ARGUS_VERDICT_COMPUTE_STRAGGLER, 1, 3);
    add(s, FB_SLOW_GPU, ARGUS_VERDICT_SLOW_LINK, 0, 1);
    assert_true(fb_recall(s, FB_SLOW_GPU) == 0.75);
    assert_true(fb_precision(s, FB_SLOW_GPU) == 1.0);
    assert_true(fb_precision(s, FB_SLOW_NODE_LINK) == 0.0);
    free(s);
}

/* What makes the exam worth taking: ends agree, the last one waits least, the fault costs what it should. */
static void jobs_are_consistent(void **state)
{
    (void)state;
    for (int style = 0; style < FB_STYLE_COUNT; style++) {
        struct fb_spec spec;
        struct fb_result r, h;
        struct fb_truth t;

        fb_defaults(&spec, (enum fb_style)style, 8);
        spec.steps = 12;
        spec.seed = 5;
        assert_int_equal(fb_run(&spec, &h), 0);
        spec.fault = (struct fb_fault){.kind = FB_SLOW_GPU, .magnitude = 1.5, .rank = 3, .end = -1};
        assert_int_equal(fb_run(&spec, &r), 0);
        fb_truth_of(&r, &h, &t);
        assert_true(t.slowdown > 1.1 && t.slowdown < 1.55);
        assert_int_equal(t.rank, 3);
        for (int i = 0; i < 8; i++) {
            for (size_t j = 0; j < r.events[i].n; j++) {
                const struct fb_event *e = &r.events[i].v[j];

                assert_true(e->duration > 0);
                assert_true(j == 0 || e->start >= r.events[i].v[j - 1].start);
            }
        }
        fb_result_free(&r);
        fb_result_free(&h);
    }
}

/* Whatever the fault, a pipeline with several chunks a stage comes to its end. */
static void interleaved_pipelines_end(void **state)
{
    (void)state;
    for (int kind = 0; kind < FB_FAULT_COUNT; kind++) {
        struct fb_spec spec;
        struct fb_result r;

        fb_defaults(&spec, FB_3D, 16);
        spec.chunks = 2;
        spec.steps = 6;
        spec.seed = 7;
        spec.fault = (struct fb_fault){.kind = (enum fb_fault_kind)kind,
                                       .magnitude = 1.3,
                                       .rank = 11,
                                       .node = 1,
                                       .stage = 1,
                                       .end = -1,
                                       .period = 2};
        assert_int_equal(fb_run(&spec, &r), 0);
        fb_result_free(&r);
    }
}

/* Mean duration of the copies of `bytes` between host and GPU that go this way, us. */
static double copy_us(const struct fb_result *r, int rank, int way, uint64_t bytes)
{
    double sum = 0, n = 0;

    for (size_t i = 0; i < r->events[rank].n; i++) {
        const struct fb_event *e = &r->events[rank].v[i];
        const struct fb_class *c = &r->classes[e->cls];

        if (c->kind != ARGUS_CLASS_COPY || c->func != way || c->bytes != bytes)
            continue;
        sum += (double)e->duration / 1e3;
        n++;
    }
    return n > 0 ? sum / n : -1;
}

/* A slow PCIe: copies of that rank, both ways, and nobody else's; it costs when copies matter. */
static void slow_copies(void **state)
{
    const uint64_t activation = 32u << 20;
    struct fb_spec spec;
    struct fb_result r, h;
    struct fb_truth t;

    (void)state;
    fb_defaults(&spec, FB_DDP, 8);
    spec.steps = 12;
    spec.seed = 5;
    spec.offload = 1;
    assert_int_equal(fb_run(&spec, &h), 0);
    spec.fault = (struct fb_fault){.kind = FB_SLOW_PCIE, .magnitude = 3, .rank = 6, .end = -1};
    assert_int_equal(fb_run(&spec, &r), 0);
    fb_truth_of(&r, &h, &t);
    assert_true(t.counts && t.slowdown > 1.1);
    assert_int_equal(t.kind, ARGUS_VERDICT_SLOW_LINK);
    assert_int_equal(t.rank, 6);
    for (int way = 1; way <= 2; way++) {
        double slow = copy_us(&r, 6, way, activation);

        assert_true(copy_us(&h, 6, way, activation) > 1000);
        assert_true(slow > 2.7 * copy_us(&r, 5, way, activation));
        assert_true(slow < 3.3 * copy_us(&r, 5, way, activation));
    }
    fb_result_free(&r);
    fb_result_free(&h);
    /* One batch a step: the same fault is there and costs next to nothing. */
    spec.offload = 0;
    assert_int_equal(fb_run(&spec, &r), 0);
    spec.fault.kind = FB_HEALTHY;
    spec.times_only = 1;
    assert_int_equal(fb_run(&spec, &h), 0);
    assert_int_equal(h.events[0].n, 0);
    fb_truth_of(&r, &h, &t);
    assert_false(t.counts);
    assert_true(copy_us(&r, 6, 1, 8u << 20) > 2.5 * copy_us(&r, 5, 1, 8u << 20));
    fb_result_free(&r);
    fb_result_free(&h);
}

/* Parameters shared by four: two replicas, and each shard's gradients are summed over them. */
static void sharded_replicas(void **state)
{
    struct fb_spec spec;
    struct fb_result r;
    int replicas = 0;

    (void)state;
    fb_defaults(&spec, FB_FSDP, 8);
    spec.steps = 4;
    spec.shard = 4;
    assert_int_equal(fb_run(&spec, &r), 0);
    for (size_t i = 0; i < r.n_groups; i++) {
        const struct fb_group *g = &r.groups[i];

        if (strcmp(g->name, "replica") != 0)
            continue;
        replicas++;
        assert_int_equal(g->size, 2);
        assert_int_equal(g->ranks[1] - g->ranks[0], 4);
    }
    assert_int_equal(replicas, 4);
    fb_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compare_with_recorded), cmocka_unit_test(recall_and_precision),
        cmocka_unit_test(jobs_are_consistent),   cmocka_unit_test(interleaved_pipelines_end),
        cmocka_unit_test(slow_copies),           cmocka_unit_test(sharded_replicas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
