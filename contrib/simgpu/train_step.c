/* SPDX-License-Identifier: Apache-2.0 */
/* One training step of one rank: kernels, collectives, stalls. */
#include <fnmatch.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simtrain.h"

#define MS 1000000
#define ACTIVATION_BYTES (24ull << 20) /* of a whole batch */
#define EXPERT_BYTES (8ull << 20)

struct kernel {
    const char *name;
    uint32_t grid, block;
    int ns;
};

#define EW "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
#define GEMM "sm90_xmma_gemm_bf16bf16_bf16f32_f32_"

/* A transformer block; the sums are about 1.1 ms forward and 2.2 ms backward. */
static const struct kernel attention_forward[] = {
    {"_ZN10layer_norm19ln_fwd_kernelI13__nv_bfloat16EEv", 1024, 128, 14000},
    {GEMM "tn_n_tilesize128x256x64_qkv", 384, 384, 205000},
    {EW "12rotary_funcE", 2048, 128, 16000},
    {"_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsEEv", 512, 128, 230000},
    {GEMM "tn_n_tilesize128x128x64_proj", 192, 384, 82000},
};
static const struct kernel mlp_forward[] = {
    {EW "16dropout_add_bf16E", 2048, 256, 15000},
    {"_ZN10layer_norm19ln_fwd_kernelI13__nv_bfloat16EEv", 1024, 128, 14000},
    {GEMM "tn_n_tilesize128x256x64_fc1", 768, 384, 245000},
    {EW "13gelu_fwd_bf16E", 4096, 256, 24000},
    {GEMM "tn_n_tilesize128x256x64_fc2", 768, 384, 240000},
    {EW "16dropout_add_bf16E", 2048, 256, 15000},
};
static const struct kernel mlp_backward[] = {
    {EW "16dropout_bwd_bf16E", 2048, 256, 16000},
    {GEMM "nt_n_tilesize128x256x64_fc2_dgrad", 768, 384, 250000},
    {GEMM "nn_n_tilesize128x256x64_fc2_wgrad", 768, 384, 248000},
    {EW "13gelu_bwd_bf16E", 4096, 256, 30000},
    {GEMM "nt_n_tilesize128x256x64_fc1_dgrad", 768, 384, 252000},
    {GEMM "nn_n_tilesize128x256x64_fc1_wgrad", 768, 384, 250000},
    {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_", 256, 512, 12000},
    {"_ZN10layer_norm19ln_bwd_kernelI13__nv_bfloat16EEv", 1024, 128, 28000},
};
static const struct kernel attention_backward[] = {
    {GEMM "nt_n_tilesize128x128x64_proj_dgrad", 192, 384, 84000},
    {GEMM "nn_n_tilesize128x128x64_proj_wgrad", 192, 384, 84000},
    {"_ZN5flash19flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelEv", 512, 256, 560000},
    {EW "16rotary_bwd_bf16E", 2048, 128, 18000},
    {GEMM "nt_n_tilesize128x256x64_qkv_dgrad", 384, 384, 210000},
    {GEMM "nn_n_tilesize128x256x64_qkv_wgrad", 384, 384, 208000},
    {"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEEvT1_", 128, 512, 10000},
    {"_ZN10layer_norm19ln_bwd_kernelI13__nv_bfloat16EEv", 1024, 128, 28000},
    {EW "11add_bf16_bwdE", 2048, 256, 12000},
};
static const struct kernel expert_forward[] = {
    {"_ZN3moe13router_top_kIfEEv", 128, 256, 20000},
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc1", 640, 384, 300000},
    {EW "13gelu_fwd_bf16E", 4096, 256, 24000},
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc2", 640, 384, 290000},
};
static const struct kernel expert_backward[] = {
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc2_grad", 640, 384, 560000},
    {EW "13gelu_bwd_bf16E", 4096, 256, 30000},
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc1_grad", 640, 384, 580000},
};
static const struct kernel embedding_forward = {"_ZN2at6native22embedding_forward_kernelEv", 2048,
                                                256, 40000};
static const struct kernel head[] = {
    {GEMM "tn_n_tilesize128x256x64_lm_head", 1536, 384, 900000},
    {"_ZN2at6native28cunn_SoftMaxForwardSmemILi8EfEEv", 4096, 1024, 130000},
    {"_ZN2at6native24nll_loss_forward_kernelEv", 32, 256, 9000},
    {"_ZN2at6native25nll_loss_backward_kernelEv", 32, 256, 9000},
    {"_ZN2at6native29cunn_SoftMaxBackwardSmemILi8EfEEv", 4096, 1024, 140000},
    {GEMM "nt_n_tilesize128x256x64_lm_head_dgrad", 1536, 384, 920000},
    {GEMM "nn_n_tilesize128x256x64_lm_head_wgrad", 1536, 384, 910000},
};
static const struct kernel optimizer[] = {
    {"_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_L2NormFunctorEEEv", 320, 512,
     180000},
    {"_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_20FusedAdamMathFunctorEEEv", 320,
     512, 260000},
};

#define COUNT(a) (int)(sizeof(a) / sizeof((a)[0]))

static int mine(const struct train *t, const struct fault *f)
{
    if (!fault_active(f, t->step))
        return 0;
    if (f->rank == RANK_ROTATE)
        return (t->step / (f->every ? f->every : 1)) % t->self.world == t->self.rank;
    return f->rank == RANK_ALL || f->rank == t->self.rank;
}

/* Is a fault that comes every N-th step due, and how long is it this time? */
static int64_t stall_ns(const struct train *t, const struct fault *f)
{
    int times;

    if (!mine(t, f) || (f->every && (t->step - f->from + 1) % f->every != 0))
        return 0;
    if (!f->growing)
        return f->ns;
    times = (t->step - f->from) / (f->every ? f->every : 1);
    return f->ns + f->ns * times / 2;
}

static int64_t sum_stalls(const struct train *t, enum fault_kind kind)
{
    int64_t ns = 0;

    for (int i = 0; i < t->options.fault_count; i++)
        if (t->options.faults[i].kind == kind)
            ns += stall_ns(t, &t->options.faults[i]);
    return ns;
}

static double kernel_fault(const struct train *t, const char *name)
{
    double factor = 1;

    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_SLOW_KERNEL && mine(t, f) && fnmatch(f->text, name, 0) == 0)
            factor *= f->factor;
    }
    return factor;
}

static double warm_up_factor(int step)
{
    return step == 0 ? 1.3 : step == 1 ? 1.05 : 1.0;
}

static void launch(struct train *t, const struct kernel *k, double share, double work)
{
    uint64_t h =
        mix(t->options.seed, (uint64_t)t->self.rank, (uint64_t)t->step << 20 | t->kernels++, 1);
    double noise = 1 + t->options.noise * gaussian(h);
    double ns = k->ns * share * work * t->silicon * t->step_slow * kernel_fault(t, k->name) *
                warm_up_factor(t->step) * (noise > 0.2 ? noise : 0.2);
    uint32_t grid[3] = {(uint32_t)ceil(k->grid * work), 1, 1}, block[3] = {k->block, 1, 1};

    simcu_launch(t->compute, k->name, grid, block, (int64_t)ns);
    t->total_kernels++;
}

static void launch_all(struct train *t, const struct kernel *k, int count, double share,
                       double work)
{
    for (int i = 0; i < count; i++)
        launch(t, &k[i], share, work);
}

/* A collective that the compute stream waits for on both sides. */
static void before(struct train *t, struct group *g)
{
    simcu_stream_wait(g->stream, simcu_stream_ready(t->compute));
}

static void after(struct train *t, struct group *g)
{
    simcu_stream_wait(t->compute, simcu_stream_ready(g->stream));
}

static void tensor_parallel_sum(struct train *t)
{
    if (t->options.tp < 2)
        return;
    before(t, &t->tp);
    group_collective(&t->tp, SIMNCCL_ALLREDUCE, SIMNCCL_BFLOAT16,
                     ACTIVATION_BYTES / 2 / (uint64_t)t->options.microbatches);
    after(t, &t->tp);
}

/* The hottest member's surplus of tokens makes the exchange longer for all. */
static void expert_exchange(struct train *t, int layer)
{
    uint64_t bytes = EXPERT_BYTES / (uint64_t)t->options.microbatches;
    double surplus = t->moe_work > 1 ? t->moe_work - 1 : 0;
    int64_t extra = (int64_t)((double)bytes / 180.0 * surplus);

    (void)layer;
    before(t, &t->ep);
    group_all_to_all(&t->ep, bytes, extra);
    after(t, &t->ep);
}

/* Tokens of this rank's experts, layer by layer: hot experts move. */
static double expert_load(const struct train *t, int layer)
{
    double x = gaussian(
        mix(t->options.seed, (uint64_t)t->self.rank, (uint64_t)t->step, 1000 + (uint64_t)layer));

    return t->moe_work * (1 + 0.05 * x);
}

static void layer_forward(struct train *t, int layer, double share)
{
    launch_all(t, attention_forward, COUNT(attention_forward), share, t->work);
    tensor_parallel_sum(t);
    if (t->options.ep > 1) {
        launch(t, &expert_forward[0], share, t->work);
        expert_exchange(t, layer);
        launch_all(t, expert_forward + 1, COUNT(expert_forward) - 1, share, expert_load(t, layer));
        expert_exchange(t, layer);
    } else {
        launch_all(t, mlp_forward, COUNT(mlp_forward), share, t->work);
        tensor_parallel_sum(t);
    }
}

static void layer_backward(struct train *t, int layer, double share)
{
    if (t->options.ep > 1) {
        expert_exchange(t, layer);
        launch_all(t, expert_backward, COUNT(expert_backward), share, expert_load(t, layer));
        expert_exchange(t, layer);
    } else {
        launch_all(t, mlp_backward, COUNT(mlp_backward), share, t->work);
        tensor_parallel_sum(t);
    }
    launch_all(t, attention_backward, COUNT(attention_backward), share, t->work);
    tensor_parallel_sum(t);
}

static int is_first_stage(const struct train *t)
{
    return t->pp_rank == 0;
}

static int is_last_stage(const struct train *t)
{
    return t->pp_rank == t->options.pp - 1;
}

static int stage_layers(const struct train *t)
{
    int n = t->options.layers / t->options.pp;

    return n > 0 ? n : 1;
}

static void jit_kernels(struct train *t, double share)
{
    static char name[MAX_FAULT_STEPS][64];

    for (int i = 0; i < t->jit_kernels && i < MAX_FAULT_STEPS; i++) {
        struct kernel k = {name[i], 256, 128, 60000};

        if (!name[i][0])
            snprintf(name[i], sizeof(name[i]), "triton_red_fused_native_layer_norm_%d_0d1d2d", i);
        launch(t, &k, share, 1);
    }
}

static void run_jit(struct train *t)
{
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        for (int k = 0; f->kind == FAULT_JIT && mine(t, f) && k < f->step_count; k++)
            if (f->steps[k] == t->step) {
                simcu_overhead(4u << 16, f->ns);
                t->jit_kernels++;
            }
    }
}

/* The allocator empties its cache and asks again: the device is drained. */
static void run_alloc_stall(struct train *t)
{
    int64_t ns = sum_stalls(t, FAULT_ALLOC_STALL);

    for (int i = 0; ns > 0 && i < 4; i++) {
        simcu_free(512u << 20, ns / 8);
        simcu_malloc(512u << 20, ns / 8);
    }
}

static double share_of_batch(const struct train *t)
{
    return 1.0 / t->options.microbatches;
}

static void forward(struct train *t, int microbatch)
{
    double share = share_of_batch(t);
    int layers = stage_layers(t);

    nvtx_push("forward");
    if (is_first_stage(t))
        launch(t, &embedding_forward, share, t->work);
    if (microbatch == 0)
        run_jit(t);
    for (int l = 0; l < layers; l++) {
        layer_forward(t, l, share);
        if (l == layers / 2 && microbatch == 0)
            run_alloc_stall(t);
    }
    jit_kernels(t, share);
    if (is_last_stage(t))
        launch_all(t, head, 3, share, t->work);
    nvtx_pop();
}

static void reduce_bucket(struct train *t)
{
    uint64_t bytes = (uint64_t)t->options.bucket_mb << 20;

    before(t, &t->dp);
    group_collective(&t->dp, t->options.zero ? SIMNCCL_REDUCESCATTER : SIMNCCL_ALLREDUCE,
                     t->options.zero ? SIMNCCL_BFLOAT16 : SIMNCCL_FLOAT32, bytes);
}

/* Gradients are reduced bucket by bucket while the backward pass goes on. */
static void backward(struct train *t, int last_microbatch)
{
    double share = share_of_batch(t);
    int layers = stage_layers(t), buckets = t->options.buckets, done = 0;

    nvtx_push("backward");
    if (is_last_stage(t))
        launch_all(t, head + 3, COUNT(head) - 3, share, t->work);
    for (int l = layers - 1; l >= 0; l--) {
        layer_backward(t, l, share);
        if (!last_microbatch)
            continue;
        for (; done < buckets && (layers - l) * buckets >= (done + 1) * layers; done++) {
            if (done == buckets - 1)
                simcu_host_advance(sum_stalls(t, FAULT_HOST_STALL));
            if (t->options.dp > 1)
                reduce_bucket(t);
        }
    }
    nvtx_pop();
}

/*
 * The pipeline: one forward, one backward, with the warm-up that its depth asks.
 */
static struct simnccl_op message(const struct train *t, enum simnccl_func func, int stage)
{
    struct simnccl_op op = {.func = func, .dtype = SIMNCCL_BFLOAT16, .peer = stage};

    op.count = ACTIVATION_BYTES / 2 / (uint64_t)t->options.microbatches;
    return op;
}

static void exchange(struct train *t, int send_to, int receive_from)
{
    struct simnccl_op ops[2];
    int count = 0, stages = t->options.pp;

    if (send_to >= 0 && send_to < stages)
        ops[count++] = message(t, SIMNCCL_SEND, send_to);
    if (receive_from >= 0 && receive_from < stages)
        ops[count++] = message(t, SIMNCCL_RECV, receive_from);
    if (count == 0)
        return;
    before(t, &t->pp);
    group_run(&t->pp, ops, count);
    after(t, &t->pp);
}

static void pipeline(struct train *t)
{
    int s = t->pp_rank, m = t->options.microbatches;
    int warm = t->options.pp - s - 1 < m ? t->options.pp - s - 1 : m;

    for (int k = 0; k < warm; k++) {
        exchange(t, -1, s - 1);
        forward(t, k);
        exchange(t, s + 1, -1);
    }
    if (warm < m)
        exchange(t, -1, s - 1);
    for (int k = 0; k < m - warm; k++) {
        forward(t, warm + k);
        exchange(t, s + 1, s + 1);
        backward(t, k == m - 1);
        exchange(t, s - 1, k < m - warm - 1 ? s - 1 : -1);
    }
    for (int k = m - warm; k < m; k++) {
        exchange(t, -1, s + 1);
        backward(t, k == m - 1);
        exchange(t, s - 1, -1);
    }
}

static void load_data(struct train *t)
{
    int64_t copy_ns =
        (int64_t)(1.2e5 * (1 + 0.02 * gaussian(mix(t->options.seed, (uint64_t)t->self.rank,
                                                   (uint64_t)t->step, 3))));
    uint64_t bytes = 3u << 20;

    nvtx_push("data");
    simcu_host_advance(300000 + sum_stalls(t, FAULT_DATA_STALL));
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_COPY_BOUND && fault_active(f, t->step)) {
            copy_ns += f->ns;
            bytes += (uint64_t)(25.0 * (double)f->ns);
        }
    }
    if (is_first_stage(t)) {
        simcu_memcpy(t->copy, 1, bytes, -1, copy_ns);
        simcu_stream_wait(t->compute, simcu_stream_ready(t->copy));
    }
    simcu_memset(t->compute, 64u << 20, 30000);
    nvtx_pop();
}

static void extra_allreduce(struct train *t)
{
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind != FAULT_EXTRA_ALLREDUCE || !fault_active(f, t->step) || t->options.dp < 2)
            continue;
        before(t, &t->dp);
        group_collective(&t->dp, SIMNCCL_ALLREDUCE, SIMNCCL_FLOAT32, (uint64_t)f->ns << 20);
        after(t, &t->dp);
    }
}

static void optimize(struct train *t)
{
    nvtx_push("optimizer");
    if (t->options.dp > 1)
        after(t, &t->dp);
    extra_allreduce(t);
    for (int i = 0; i < 8; i++)
        launch(t, &optimizer[i < 2 ? 0 : 1], 1, 1);
    if (t->options.zero && t->options.dp > 1)
        for (int i = 0; i < t->options.buckets; i++) {
            before(t, &t->dp);
            group_collective(&t->dp, SIMNCCL_ALLGATHER, SIMNCCL_BFLOAT16,
                             (uint64_t)t->options.bucket_mb << 20);
            after(t, &t->dp);
        }
    nvtx_pop();
}

/* The loss of all ranks, then the host looks at it: one synchronisation a step. */
static void log_loss(struct train *t)
{
    simcu_host_advance(sum_stalls(t, FAULT_BARRIER_WORK));
    if (t->options.dp > 1) {
        before(t, &t->dp);
        group_collective(&t->dp, SIMNCCL_ALLREDUCE, SIMNCCL_FLOAT32, 4);
        after(t, &t->dp);
    }
    simcu_memcpy(t->compute, 2, 4, -1, 2000);
    simcu_synchronize(NULL);
}

static void set_factors(struct train *t)
{
    t->step_slow =
        1 + 0.002 * gaussian(mix(t->options.seed, (uint64_t)t->self.rank, (uint64_t)t->step, 2));
    t->work = t->moe_work = 1;
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_SLOW_RANK && mine(t, f))
            t->step_slow *= f->factor;
        if (f->kind == FAULT_SLOW_STAGE && fault_active(f, t->step) && f->rank == t->pp_rank)
            t->work *= f->factor;
        if (f->kind == FAULT_IMBALANCE && mine(t, f))
            t->work *= f->factor;
        if (f->kind == FAULT_MOE_HOT && mine(t, f))
            t->moe_work *= f->factor;
    }
}

static void die_if_told(const struct train *t)
{
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_DIE && f->rank == t->self.rank && f->from == t->step)
            raise(f->signal);
    }
}

void train_warm_up(struct train *t)
{
    if (t->options.dp > 1)
        for (int i = 0; i < 2; i++)
            group_collective(&t->dp, SIMNCCL_BROADCAST, SIMNCCL_INT8, 64u << 20);
    simcu_synchronize(NULL);
}

void train_step(struct train *t)
{
    char name[32];

    t->step_start = simcu_host_now();
    t->kernels = 0;
    die_if_told(t);
    set_factors(t);
    snprintf(name, sizeof(name), "step %d", t->step);
    nvtx_push(name);
    if (t->step == 0) /* modules are loaded on first use */
        simcu_overhead(
            5u << 16,
            (int64_t)(25 * MS *
                      (1 + 0.2 * uniform(mix(t->options.seed, (uint64_t)t->self.rank, 0, 4)))));
    load_data(t);
    if (t->options.pp > 1) {
        pipeline(t);
    } else {
        for (int k = 0; k < t->options.microbatches; k++) {
            forward(t, k);
            backward(t, k == t->options.microbatches - 1);
        }
    }
    optimize(t);
    log_loss(t);
    nvtx_pop();
}
