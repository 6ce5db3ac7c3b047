/* SPDX-License-Identifier: Apache-2.0 */
/* One training step of one rank: kernels, collectives, stalls. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simtrain.h"

#define MS 1000000
#define ACTIVATION_BYTES (24ull << 20) /* of a whole batch */
#define EXPERT_BYTES (8ull << 20)

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
static void expert_exchange(struct train *t)
{
    uint64_t bytes = EXPERT_BYTES / (uint64_t)t->options.microbatches;
    double surplus = t->moe_work > 1 ? t->moe_work - 1 : 0;
    int64_t extra = (int64_t)((double)bytes / 180.0 * surplus);

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
    kernel_launch_list(t, ATTENTION_FORWARD, share, t->work);
    tensor_parallel_sum(t);
    if (t->options.ep > 1) {
        kernel_launch_list(t, ROUTER, share, t->work);
        expert_exchange(t);
        kernel_launch_list(t, EXPERT_FORWARD, share, expert_load(t, layer));
        expert_exchange(t);
    } else {
        kernel_launch_list(t, MLP_FORWARD, share, t->work);
        tensor_parallel_sum(t);
    }
}

static void layer_backward(struct train *t, int layer, double share)
{
    if (t->options.ep > 1) {
        expert_exchange(t);
        kernel_launch_list(t, EXPERT_BACKWARD, share, expert_load(t, layer));
        expert_exchange(t);
    } else {
        kernel_launch_list(t, MLP_BACKWARD, share, t->work);
        tensor_parallel_sum(t);
    }
    kernel_launch_list(t, ATTENTION_BACKWARD, share, t->work);
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

/* Stages are balanced: the head stands for one layer of the last one. */
static int stage_layers(const struct train *t)
{
    int n = t->options.layers / t->options.pp;

    if (t->options.pp > 1 && is_last_stage(t) && n > 1)
        n--;
    return n > 0 ? n : 1;
}

static void jit_kernels(struct train *t, double share)
{
    static char name[MAX_FAULT_STEPS][64];

    for (int i = 0; i < t->jit_kernels && i < MAX_FAULT_STEPS; i++) {
        struct kernel k = {name[i], 256, 128, 60000};

        if (!name[i][0])
            snprintf(name[i], sizeof(name[i]), "triton_red_fused_native_layer_norm_%d_0d1d2d", i);
        kernel_launch(t, &k, share, 1);
    }
}

static void run_jit(struct train *t)
{
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        for (int k = 0; f->kind == FAULT_JIT && fault_is_mine(t, f) && k < f->step_count; k++)
            if (f->steps[k] == t->step) {
                simcu_overhead(4u << 16, f->ns);
                t->jit_kernels++;
            }
    }
}

/* The allocator empties its cache and asks again: the device is drained. */
static void run_alloc_stall(struct train *t)
{
    int64_t ns = fault_stalls(t, FAULT_ALLOC_STALL);

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
        kernel_launch_list(t, EMBEDDING, share, t->work);
    if (microbatch == 0)
        run_jit(t);
    for (int l = 0; l < layers; l++) {
        layer_forward(t, l, share);
        if (l == layers / 2 && microbatch == 0)
            run_alloc_stall(t);
    }
    jit_kernels(t, share);
    if (is_last_stage(t))
        kernel_launch_list(t, HEAD_FORWARD, share, t->work);
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
static void backward_here(struct train *t, int last_microbatch)
{
    double share = share_of_batch(t);
    int layers = stage_layers(t), buckets = t->options.buckets, done = 0;

    nvtx_push("backward");
    if (is_last_stage(t))
        kernel_launch_list(t, HEAD_BACKWARD, share, t->work);
    for (int l = layers - 1; l >= 0; l--) {
        layer_backward(t, l, share);
        if (!last_microbatch)
            continue;
        for (; done < buckets && (layers - l) * buckets >= (done + 1) * layers; done++) {
            if (done == buckets - 1)
                simcu_host_advance(fault_stalls(t, FAULT_HOST_STALL));
            if (t->options.dp > 1)
                reduce_bucket(t);
        }
    }
    nvtx_pop();
}

/* Frameworks run the backward pass on a thread of their own. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct train *work; /* NULL: nothing to do */
    int last_microbatch, running;
} autograd = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *autograd_main(void *unused)
{
    pthread_mutex_lock(&autograd.lock);
    for (;;) {
        while (!autograd.work)
            pthread_cond_wait(&autograd.changed, &autograd.lock);
        backward_here(autograd.work, autograd.last_microbatch);
        autograd.work = NULL;
        pthread_cond_broadcast(&autograd.changed);
    }
    return unused;
}

static void backward(struct train *t, int last_microbatch)
{
    pthread_t thread;

    if (!t->options.autograd_thread) {
        backward_here(t, last_microbatch);
        return;
    }
    pthread_mutex_lock(&autograd.lock);
    if (!autograd.running && pthread_create(&thread, NULL, autograd_main, NULL) == 0) {
        pthread_detach(thread);
        autograd.running = 1;
    }
    autograd.last_microbatch = last_microbatch;
    autograd.work = t;
    pthread_cond_broadcast(&autograd.changed);
    while (autograd.running && autograd.work)
        pthread_cond_wait(&autograd.changed, &autograd.lock);
    if (!autograd.running)
        backward_here(t, last_microbatch);
    pthread_mutex_unlock(&autograd.lock);
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
    simcu_host_advance(300000 + fault_stalls(t, FAULT_DATA_STALL));
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_COPY_BOUND && fault_active(f, t->step)) {
            copy_ns += f->ns;
            bytes += (uint64_t)(25.0 * (double)f->ns);
        }
    }
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_SLOW_COPY && fault_active(f, t->step) && fault_is_mine(t, f))
            copy_ns = (int64_t)((double)copy_ns * f->factor);
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
    kernel_launch_list(t, GRADIENT_NORM, 1, 1);
    kernel_launch_list(t, OPTIMIZER, 1, 1);
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
    simcu_host_advance(fault_stalls(t, FAULT_BARRIER_WORK));
    if (t->options.dp > 1) {
        before(t, &t->dp);
        group_collective(&t->dp, SIMNCCL_ALLREDUCE, SIMNCCL_FLOAT32, 4);
        after(t, &t->dp);
    }
    simcu_memcpy(t->compute, 2, 4, -1, 2000);
    simcu_synchronize(NULL);
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
    fault_die_if_told(t);
    fault_set_factors(t);
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
