/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the summary: names, periods, histograms, breakdowns; and a
 * summary saved and taken up again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <argus/record.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/breakdown.h"
#include "analyzer/summary/hist.h"
#include "analyzer/summary/period.h"
#include "analyzer/summary/summary_impl.h"
#include "analyzer/summary/testkit.h"

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(seed >> 33) % n;
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        int func;
    } comm[] = {
        {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", ARGUS_FUNC_ALLREDUCE},
        {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
         ARGUS_FUNC_ALLREDUCE},
        {"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
         ARGUS_FUNC_ALLREDUCE},
        {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         ARGUS_FUNC_REDUCESCATTER},
        {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ARGUS_FUNC_ALLGATHER},
        {"ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ARGUS_FUNC_BROADCAST},
        {"ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         ARGUS_FUNC_REDUCE},
        {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", ARGUS_FUNC_SENDRECV},
        {"ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", ARGUS_FUNC_GROUP},
        {"ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs)", ARGUS_FUNC_ALLGATHER},
        {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)", ARGUS_FUNC_ALLREDUCE},
        {"void deep_ep::intranode::dispatch<8, 768>(int4*, float*)", ARGUS_FUNC_ALLTOALL},
        {"_ZN7deep_ep9internode7combineILb1E13__nv_bfloat16EEvPT0_", ARGUS_FUNC_ALLTOALL},
        {"nvshmemi_transfer_rma_put_nbi", ARGUS_FUNC_OTHER},
        {"multimem_all_reduce_kernel", ARGUS_FUNC_ALLREDUCE},
        {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", ARGUS_FUNC_NONE},
        {"void at::native::reduce_kernel<512, 1>(...)", ARGUS_FUNC_NONE},
        {"void at::native::vectorized_gather_kernel<16, long>", ARGUS_FUNC_NONE},
        {"", ARGUS_FUNC_NONE},
    };
    static const struct {
        const char *name;
        enum argus_family family;
        uint32_t phase;
    } compute[] = {
        {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64", ARGUS_FAMILY_GEMM, 0},
        {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTN", ARGUS_FAMILY_GEMM, 0},
        {"void cutlass::Kernel2<cutlass_80_wmma_tensorop>", ARGUS_FAMILY_GEMM, 0},
        {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", ARGUS_FAMILY_ATTENTION,
         ARGUS_CLASS_FORWARD},
        {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma", ARGUS_FAMILY_ATTENTION, 0},
        {"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", ARGUS_FAMILY_ATTENTION,
         ARGUS_CLASS_BACKWARD},
        {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMath>",
         ARGUS_FAMILY_OPTIMIZER, 0},
        {"void at::native::layer_norm_grad_input_kernel_vectorized", ARGUS_FAMILY_NORM,
         ARGUS_CLASS_BACKWARD},
        {"void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>",
         ARGUS_FAMILY_ELEMENTWISE, 0},
        {"_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeI",
         ARGUS_FAMILY_EXPERT, 0},
        {"void at::native::embedding_backward_feature_kernel", ARGUS_FAMILY_EMBEDDING,
         ARGUS_CLASS_BACKWARD},
        {"something_else", ARGUS_FAMILY_OTHER, 0},
    };
    static const struct {
        const char *name;
        enum argus_mark_kind kind;
    } marks[] = {
        {"ProfilerStep#12", ARGUS_MARK_STEP},
        {"step 3", ARGUS_MARK_STEP},
        {"Step#4", ARGUS_MARK_STEP},
        {"stepwise", ARGUS_MARK_OTHER},
        {"train_step", ARGUS_MARK_STEP},
        {"Optimizer.step#Adam.step", ARGUS_MARK_OPTIMIZER},
        {"forward-compute", ARGUS_MARK_FORWARD},
        {"backward-compute", ARGUS_MARK_BACKWARD},
        {"forward-backward", ARGUS_MARK_OTHER},
        {"batch-generator", ARGUS_MARK_DATA},
        {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ARGUS_MARK_DATA},
        {"nccl:all_reduce", ARGUS_MARK_COMM},
        {"aten::mm", ARGUS_MARK_OTHER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(comm) / sizeof(comm[0]); i++) {
        if (argus_kernel_comm_func(comm[i].name) != comm[i].func)
            fail_msg("%s: %d", comm[i].name, argus_kernel_comm_func(comm[i].name));
    }
    for (size_t i = 0; i < sizeof(compute) / sizeof(compute[0]); i++) {
        if (argus_kernel_family(compute[i].name) != compute[i].family ||
            argus_kernel_phase(compute[i].name) != compute[i].phase)
            fail_msg("%s: family %d, phase %u", compute[i].name,
                     argus_kernel_family(compute[i].name), argus_kernel_phase(compute[i].name));
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (argus_mark_kind_of(marks[i].name) != marks[i].kind)
            fail_msg("%s: %d", marks[i].name, argus_mark_kind_of(marks[i].name));
    }
    assert_int_equal(argus_dtype_bytes(ARGUS_DTYPE_BF16), 2);
    assert_int_equal(argus_dtype_bytes(77), 0);
}

static void test_z_function(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        uint32_t s[64], z[64];
        size_t n = 1 + below(64);

        for (size_t i = 0; i < n; i++)
            s[i] = below(2 + (uint32_t)round % 3);
        argus_z_function(s, n, z);
        for (size_t i = 0; i < n; i++) {
            size_t k = 0;

            while (i + k < n && s[k] == s[i + k])
                k++;
            assert_int_equal(z[i], k);
        }
    }
}

static void test_period(void **state)
{
    uint32_t s[4000];
    uint8_t mark[4000];
    struct argus_period p;

    (void)state;
    /* random set-up, then a random pattern that repeats */
    for (int round = 0; round < 200; round++) {
        size_t period = 2 + below(60), setup = below(100), n = setup + period * (4 + below(6));

        for (size_t i = 0; i < n; i++)
            s[i] = i < setup + period ? below(1000) : s[i - period];
        assert_int_equal(argus_period_find(s, NULL, n, &p), 0);
        assert_int_equal(p.period, period);
        assert_true(p.covered >= n - setup);
    }
    /* one token of forty differs now and then */
    for (size_t i = 0; i < 4000; i++)
        s[i] = (uint32_t)(i % 40);
    for (size_t i = 7; i < 4000; i += 57)
        s[i] = 99;
    assert_int_equal(argus_period_find(s, NULL, 4000, &p), 0);
    assert_int_equal(p.period, 40);
    assert_true(p.match >= 0.95 && p.match < 1);
    /* half of them differ */
    for (size_t i = 0; i < 4000; i++)
        s[i] = i % 2 ? (uint32_t)(i % 40) : below(1000);
    assert_int_equal(argus_period_find(s, NULL, 4000, &p), 0);
    assert_int_equal(p.period, 0);
    /* eight equal micro-batches, then the optimizer */
    memset(mark, 0, sizeof(mark));
    for (size_t i = 0; i < 4000; i++) {
        s[i] = (uint32_t)(i % 5);
        mark[i] = i % 40 == 39;
    }
    assert_int_equal(argus_period_find(s, NULL, 4000, &p), 0);
    assert_int_equal(p.period, 5);
    assert_int_equal(argus_period_find(s, mark, 4000, &p), 0);
    assert_int_equal(p.period, 40);
    memset(mark, 0, sizeof(mark));
    assert_int_equal(argus_period_find(s, mark, 4000, &p), 0);
    assert_int_equal(p.period, 0);
    assert_int_equal(argus_period_find(s, NULL, 0, &p), 0);
    assert_int_equal(p.period, 0);
}

static void test_bins(void **state)
{
    (void)state;
    for (int64_t v = 0; v < 100000; v++) {
        uint32_t b = argus_hist_bin_of(v);

        assert_true(argus_hist_bin_lower(b) <= v && v < argus_hist_bin_lower(b + 1));
    }
    for (int shift = 0; shift < 62; shift++) {
        int64_t v = (INT64_C(1) << shift) + (int64_t)below(1u << (shift < 30 ? shift : 30));
        uint32_t b = argus_hist_bin_of(v);

        assert_true(argus_hist_bin_lower(b) <= v && v < argus_hist_bin_lower(b + 1));
        assert_true((double)(argus_hist_bin_lower(b + 1) - argus_hist_bin_lower(b)) <=
                    (double)v / 128 + 1);
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* The breakdown against a brute force: each nanosecond of a short step by itself. */
static void test_breakdown(void **state)
{
    static uint8_t busy[3][4000];
    static const struct argus_class_brief classes[] = {
        {.lane = ARGUS_LANE_COMPUTE, .kind = ARGUS_CLASS_COMPUTE},
        {.lane = ARGUS_LANE_COMM, .kind = ARGUS_CLASS_COMM},
        {.lane = ARGUS_LANE_COPY, .kind = ARGUS_CLASS_COPY, .bytes = 7},
        {.lane = ARGUS_LANE_HOST, .kind = ARGUS_CLASS_OVERHEAD, .func = 4},
        {.lane = ARGUS_LANE_HOST, .kind = ARGUS_CLASS_ALLOC, .func = 1},
        {.lane = ARGUS_LANE_COMPUTE, .kind = ARGUS_CLASS_COMPUTE, .family = ARGUS_FAMILY_OPTIMIZER},
    };
    const int64_t base = 1000000;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct argus_breakdown b;
        struct argus_step_row row;
        struct argus_pending ev[40];
        int64_t starts[40], length = 500 + below(3000);
        int64_t want[7] = {0}, gap = 0, run = 0, head = 0, overhead = 0, alloc = 0, lead = 0;
        size_t n = below(40);
        int seen = 0;

        memset(&b, 0, sizeof(b));
        memset(&row, 0, sizeof(row));
        memset(busy, 0, sizeof(busy));
        for (int lane = 0; lane < 3; lane++) { /* work of the step before that reaches over */
            b.busy_until[lane] = below(4) ? 0 : base + (int64_t)below(100);
            for (int64_t t = 0; t < b.busy_until[lane] - base; t++)
                busy[lane][t] = 1;
        }
        for (size_t i = 0; i < n; i++)
            starts[i] = (int64_t)below((uint32_t)length);
        qsort(starts, n, sizeof(*starts), by_value);
        for (size_t i = 0; i < n; i++) {
            uint32_t c = below(6);

            ev[i] = (struct argus_pending){.start = base + starts[i],
                                           .end = base + starts[i] + (int64_t)below(150),
                                           .class_id = c};
            overhead += c == 3 ? ev[i].end - ev[i].start : 0;
            alloc += c == 4 ? ev[i].end - ev[i].start : 0;
            for (int64_t t = ev[i].start - base;
                 classes[c].lane < 3 && t < ev[i].end - base && t < length; t++)
                busy[classes[c].lane][t] = 1;
        }
        assert_int_equal(argus_breakdown_step(&b, ev, n, classes, base, base + length, &row), 0);
        for (int64_t t = 0; t < length; t++) {
            int any = busy[0][t] | busy[1][t] | busy[2][t];

            want[0] += busy[0][t];
            want[1] += busy[1][t];
            want[2] += busy[1][t] && !busy[0][t];
            want[3] += busy[2][t];
            want[4] += busy[2][t] && !busy[0][t] && !busy[1][t];
            want[5] += !any;
            run = any ? 0 : run + 1;
            gap = run > gap ? run : gap;
            seen |= any;
            head += !seen;
        }
        for (size_t i = 0; i < n; i++)
            lead += b.lead[i];
        assert_int_equal(row.compute, want[0]);
        assert_int_equal(row.comm, want[1]);
        assert_int_equal(row.exposed, want[2]);
        assert_int_equal(row.copy_busy, want[3]);
        assert_int_equal(row.copy, want[4]);
        assert_int_equal(row.idle, want[5]);
        assert_int_equal(row.overhead, overhead);
        assert_int_equal(row.alloc, alloc);
        assert_int_equal(row.lead_idle, lead);
        assert_true(row.optimizer <= row.compute);
        /* zero-length events may split an idle interval that brute force sees as one */
        assert_true(row.gap <= gap && row.head_idle <= head);
        argus_breakdown_free(&b);
    }
}

static void feed_step(struct kit *k, const uint32_t *c, int i)
{
    for (int layer = 0; layer < 5; layer++) {
        kit_run(k, c[0], 500, 100000 + (int64_t)kit_random(k, 9000));
        kit_run(k, c[1], 0, 50000 + (int64_t)kit_random(k, 9000));
    }
    kit_run(k, c[2], i % 37 == 20 ? 9000000 : 1000, 300000 + (int64_t)kit_random(k, 90000));
    kit_run(k, c[3], 0, 80000);
}

/* Saved and restored at each of many places, the rows that follow are the same. */
static void test_save(void **state)
{
    (void)state;
    for (int cut = 1; cut < 400; cut += 57) {
        argus_timeline_t *t[2];
        struct kit k[2];
        struct argus_blob b = {0};
        argus_error_t err = {""};
        uint32_t c[4];

        for (int side = 0; side < 2; side++) {
            kit_open(&k[side], NULL);
            c[0] = kit_kernel(&k[side], "gemm_fwd", 1);
            c[1] = kit_kernel(&k[side], "softmax_bwd", 2);
            c[2] = kit_collective(&k[side], k[side].comm, ARGUS_FUNC_ALLREDUCE, 1 << 20);
            c[3] = kit_kernel(&k[side], "adamw_kernel", 3);
            for (int i = 0; i < 450; i++) {
                feed_step(&k[side], c, i);
                if (side && i == cut) {
                    argus_summary_save(k[side].s, &b);
                    argus_summary_destroy(k[side].s);
                    k[side].s = argus_summary_restore(NULL, k[side].w, &b, &err);
                    if (!k[side].s)
                        fail_msg("%s", err.text);
                    assert_int_equal(b.at, b.n);
                }
            }
            t[side] = kit_read(&k[side]);
        }
        for (int d = ARGUS_DS_COMMS; d <= ARGUS_DS_EVENTS; d++) {
            size_t n, m;
            void *x = kit_rows(t[0], (enum argus_dataset)d, &n);
            void *y = kit_rows(t[1], (enum argus_dataset)d, &m);

            assert_int_equal(n, m);
            assert_memory_equal(x, y, n * argus_timeline_row_bytes((enum argus_dataset)d));
            free(x);
            free(y);
        }
        kit_close(&k[0], t[0]);
        kit_close(&k[1], t[1]);
        argus_blob_free(&b);
    }
}

/* A state with bytes turned is refused or taken, but never believed blindly. */
static void test_damaged_state(void **state)
{
    struct argus_blob b = {0};
    struct kit k;
    uint32_t c[4];

    (void)state;
    kit_open(&k, NULL);
    c[0] = kit_kernel(&k, "gemm_fwd", 1);
    c[1] = kit_kernel(&k, "softmax_bwd", 2);
    c[2] = kit_collective(&k, k.comm, ARGUS_FUNC_ALLREDUCE, 1 << 20);
    c[3] = kit_kernel(&k, "adamw_kernel", 3);
    for (int i = 0; i < 30; i++)
        feed_step(&k, c, i);
    argus_summary_save(k.s, &b);
    for (size_t n = 0; n < b.n; n += 1 + b.n / 200) {
        struct argus_blob part = {.data = b.data, .n = n};

        assert_null(argus_summary_restore(NULL, k.w, &part, NULL));
    }
    argus_timeline_close(kit_read(&k));
    kit_close(&k, NULL);
    argus_blob_free(&b);
}

/* A list taken over with few elements has no spare places at first. */
static void test_short_lists_grow(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 8; n++) {
        struct event_list l = {.ev = calloc(n, sizeof(*l.ev)), .n = n, .capacity = n};
        struct argus_pending ev = {.start = 7};

        assert_non_null(l.ev);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(argus_events_append(&l, &ev), 0);
            assert_true(l.capacity >= l.n);
        }
        assert_int_equal(l.n, n + 100);
        free(l.ev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_z_function),
        cmocka_unit_test(test_period),        cmocka_unit_test(test_bins),
        cmocka_unit_test(test_breakdown),     cmocka_unit_test(test_save),
        cmocka_unit_test(test_damaged_state), cmocka_unit_test(test_short_lists_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
