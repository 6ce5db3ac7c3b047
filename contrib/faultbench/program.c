/* SPDX-License-Identifier: Apache-2.0 */
/* Who does what: each rank's ops of a step. */
#include <argus/record.h>
#include <argus/timeline.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/internal.h"

#define COPY_BYTES_NS 24.0 /* GB/s between a host and its GPU */
#define ACTIVATION_BYTES (32u << 20)

struct build { /* one rank, one step */
    struct fb_layout *l;
    const struct fb_spec *s;
    struct fb_program *p;
    int rank, step, stage, active;
    double heavy;  /* this rank has this much more work */
    double expert; /* expert kernels and tokens: this much more */
    int failed;
};

static struct fb_op *push(struct build *b)
{
    struct fb_program *p = b->p;

    if (p->n == p->room) {
        size_t room = p->room ? p->room * 2 : 512;
        void *v = realloc(p->v, room * sizeof(*p->v));

        if (!v)
            abort();
        p->v = v;
        p->room = room;
    }
    memset(&p->v[p->n], 0, sizeof(*p->v));
    return &p->v[p->n++];
}

static void wait_for(struct build *b, int stream, int other)
{
    struct fb_op *op = push(b);

    op->type = FB_OP_WAIT;
    op->stream = (uint8_t)stream;
    op->other = (uint8_t)other;
}

struct kernel { /* duration in us at factor 1 */
    const char *name;
    int family, us, grid;
};

static void kernel(struct build *b, const struct kernel *k, double more)
{
    const struct fb_fault *f = &b->s->fault;
    int memory = k->family == ARGUS_FAMILY_NORM || k->family == ARGUS_FAMILY_ELEMENTWISE ||
                 k->family == ARGUS_FAMILY_OPTIMIZER || k->family == ARGUS_FAMILY_EMBEDDING;
    struct fb_class c = {.kind = ARGUS_CLASS_COMPUTE, .name = k->name, .group = -1, .peer = -1};
    double ns = k->us * 1000.0 * b->l->rank_factor[b->rank];
    struct fb_op *op;

    if (k->family != ARGUS_FAMILY_OPTIMIZER)
        more *= k->family == ARGUS_FAMILY_EXPERT ? b->expert : b->heavy;
    if (b->active) {
        int mine = b->rank == f->rank;

        if ((f->kind == FB_SLOW_GPU && mine) || (f->kind == FB_SLOW_MEMORY && mine && memory) ||
            (f->kind == FB_SLOW_CLASS && mine && k->family == ARGUS_FAMILY_ATTENTION) ||
            (f->kind == FB_SLOW_STAGE && b->stage == f->stage) || f->kind == FB_UNIFORM ||
            (f->kind == FB_SPLIT && fb_dp_of(b->s, b->rank) >= b->s->dp / 2))
            ns *= f->magnitude;
    }
    c.family = k->family;
    /* Work that grows shows in the launch: the grid follows, in steps of a sixteenth. */
    c.grid[0] = (uint32_t)((double)k->grid * (double)(int)(more * 16.0 + 0.5) / 16.0);
    c.grid[1] = c.grid[2] = 1;
    c.block[0] = 256;
    c.block[1] = c.block[2] = 1;
    op = push(b);
    op->type = FB_OP_KERNEL;
    op->stream = FB_COMPUTE;
    op->cls = fb_class_id(b->l, &c);
    op->ns = (int64_t)(ns * more);
}

static void transfer(struct build *b, int channel, int stream, int func, const char *name,
                     uint64_t bytes, int peer)
{
    struct fb_class c = {.kind = ARGUS_CLASS_COMM,
                         .func = func,
                         .dtype = ARGUS_DTYPE_BF16,
                         .name = name,
                         .peer = peer,
                         .bytes = bytes};
    struct fb_op *op;

    if (channel < 0)
        return;
    c.group = b->l->channels[channel].group;
    c.grid[0] = 24;
    c.block[0] = 544;
    c.grid[1] = c.grid[2] = c.block[1] = c.block[2] = 1;
    wait_for(b, stream, FB_COMPUTE);
    op = push(b);
    op->type = FB_OP_TRANSFER;
    op->stream = (uint8_t)stream;
    op->channel = channel;
    op->bytes = bytes;
    op->cls = fb_class_id(b->l, &c);
}

static void collective(struct build *b, int channel, int stream, int func, uint64_t bytes)
{
    static const char *const names[ARGUS_FUNC_COUNT] = {
        [ARGUS_FUNC_ALLREDUCE] = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
        [ARGUS_FUNC_ALLGATHER] = "ncclDevKernel_AllGather_RING_LL",
        [ARGUS_FUNC_REDUCESCATTER] = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
        [ARGUS_FUNC_ALLTOALL] = "ncclDevKernel_SendRecv"};

    transfer(b, channel, stream, func, names[func], bytes, -1);
}

static void host(struct build *b, int64_t ns, int sync)
{
    struct fb_op *op = push(b);

    op->type = FB_OP_HOST;
    op->sync = (uint8_t)sync;
    op->ns = ns;
}

/* Host and GPU exchange `bytes`; `stream` tells which way. */
static void copy(struct build *b, int stream, uint64_t bytes)
{
    const struct fb_fault *f = &b->s->fault;
    struct fb_class c = {.kind = ARGUS_CLASS_COPY,
                         .func = stream == FB_COPY_IN ? 1 : 2,
                         .name = stream == FB_COPY_IN ? "HtoD" : "DtoH",
                         .group = -1,
                         .peer = -1,
                         .bytes = bytes};
    double ns = 1500.0 + (double)bytes / COPY_BYTES_NS * b->l->copy_factor[b->rank];
    struct fb_op *op = push(b);

    if (b->active && f->kind == FB_SLOW_PCIE && b->rank == f->rank)
        ns *= f->magnitude;
    op->type = FB_OP_COPY;
    op->stream = (uint8_t)stream;
    op->ns = (int64_t)ns;
    op->cls = fb_class_id(b->l, &c);
}

static void note(struct build *b, int kind, int func, int64_t ns)
{
    struct fb_class c = {.kind = kind,
                         .func = func,
                         .name = kind == ARGUS_CLASS_ALLOC ? "cudaFree" : "overhead",
                         .group = -1,
                         .peer = -1};
    struct fb_op *op = push(b);

    op->type = FB_OP_NOTE;
    op->ns = ns;
    op->cls = fb_class_id(b->l, &c);
}

/* What the host loses in the middle of the step, if anything. */
static void middle(struct build *b)
{
    const struct fb_fault *f = &b->s->fault;
    int64_t ns = (int64_t)(f->magnitude * (double)b->l->nominal_step);
    int turn = f->period > 0 && (b->step - f->onset) % f->period == 0;

    if (!b->active)
        return;
    if (f->kind == FB_HOST_STALL && b->rank == f->rank)
        host(b, ns, 1);
    if (f->kind == FB_HOST_PERIODIC && b->rank == f->rank && turn)
        host(b, ns * f->period, 1);
    if (f->kind == FB_HOST_ROTATING && turn &&
        b->rank == (int)((f->rank + 5L * ((b->step - f->onset) / f->period)) % b->s->world))
        host(b, ns * f->period, 1);
    if (f->kind == FB_ALLOC_STALL && b->rank == f->rank) {
        host(b, ns, 1);
        note(b, ARGUS_CLASS_ALLOC, 2, ns * 9 / 10);
    }
    if (f->kind == FB_JIT_STALL && b->rank == f->rank && turn) {
        struct kernel k = {"fused_attention_jit", ARGUS_FAMILY_ATTENTION, 180, 64 + b->step};

        host(b, ns * f->period, 1);
        note(b, ARGUS_CLASS_OVERHEAD, 5, ns * f->period * 9 / 10);
        kernel(b, &k, 1.0);
    }
}

static const struct kernel embed = {"embedding_kernel", ARGUS_FAMILY_EMBEDDING, 60, 512};
static const struct kernel head = {"cross_entropy_kernel", ARGUS_FAMILY_ELEMENTWISE, 60, 512};
static const struct kernel layer_f[] = {
    {"layer_norm_kernel", ARGUS_FAMILY_NORM, 40, 2048},
    {"sm90_xmma_gemm_bf16_qkv", ARGUS_FAMILY_GEMM, 260, 384},
    {"flash_fwd_kernel", ARGUS_FAMILY_ATTENTION, 420, 1024},
    {"sm90_xmma_gemm_bf16_proj", ARGUS_FAMILY_GEMM, 130, 128},
};
static const struct kernel mlp_f[] = {
    {"vectorized_elementwise_kernel_add", ARGUS_FAMILY_ELEMENTWISE, 35, 4096},
    {"sm90_xmma_gemm_bf16_fc1", ARGUS_FAMILY_GEMM, 340, 512},
    {"gelu_kernel", ARGUS_FAMILY_ELEMENTWISE, 55, 8192},
    {"sm90_xmma_gemm_bf16_fc2", ARGUS_FAMILY_GEMM, 330, 128},
};
static const struct kernel layer_b[] = {
    {"sm90_xmma_gemm_bf16_proj_bwd", ARGUS_FAMILY_GEMM, 250, 256},
    {"flash_bwd_kernel", ARGUS_FAMILY_ATTENTION, 900, 1024},
    {"sm90_xmma_gemm_bf16_qkv_bwd", ARGUS_FAMILY_GEMM, 500, 768},
    {"layer_norm_backward_kernel", ARGUS_FAMILY_NORM, 80, 2048},
};
static const struct kernel mlp_b[] = {
    {"sm90_xmma_gemm_bf16_fc2_bwd", ARGUS_FAMILY_GEMM, 640, 256},
    {"gelu_backward_kernel", ARGUS_FAMILY_ELEMENTWISE, 80, 8192},
    {"sm90_xmma_gemm_bf16_fc1_bwd", ARGUS_FAMILY_GEMM, 660, 1024},
};
static const struct kernel router = {"topk_router_kernel", ARGUS_FAMILY_ELEMENTWISE, 30, 256};
static const struct kernel expert_f = {"grouped_gemm_expert", ARGUS_FAMILY_EXPERT, 620, 512};
static const struct kernel expert_b = {"grouped_gemm_expert_bwd", ARGUS_FAMILY_EXPERT, 1240, 1024};
static const struct kernel adam = {"multi_tensor_apply_kernel_adam", ARGUS_FAMILY_OPTIMIZER, 300,
                                   320};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void run_all(struct build *b, const struct kernel *k, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kernel(b, &k[i], 1.0);
}

static void model_reduce(struct build *b)
{
    if (b->s->tp < 2)
        return;
    collective(b, b->l->ch_tp[b->rank], FB_MODEL, ARGUS_FUNC_ALLREDUCE, 32u << 20);
    wait_for(b, FB_COMPUTE, FB_MODEL);
}

static void shuffle(struct build *b)
{
    collective(b, b->l->ch_ep[b->rank], FB_MODEL, ARGUS_FUNC_ALLTOALL, 24u << 20);
    if (b->l->ch_ep[b->rank] >= 0)
        b->p->v[b->p->n - 1].bytes = (uint64_t)((24u << 20) * b->expert);
    wait_for(b, FB_COMPUTE, FB_MODEL);
}

/* A rank's share of a layer's parameters. */
static uint64_t shard_bytes(const struct build *b)
{
    return (32u << 20) / (uint64_t)b->s->shard;
}

/* FSDP: this layer's parameters are there (fetched during the layer before); fetch the next one's. */
static void gather(struct build *b)
{
    if (b->s->style != FB_FSDP)
        return;
    wait_for(b, FB_COMPUTE, FB_GRADS);
    collective(b, b->l->ch_dp[b->rank], FB_GRADS, ARGUS_FUNC_ALLGATHER, shard_bytes(b));
}

/* Offloading: what this layer's forward kept for its backward leaves the GPU. */
static void put_away(struct build *b)
{
    if (!b->s->offload)
        return;
    wait_for(b, FB_COPY_OUT, FB_COMPUTE);
    copy(b, FB_COPY_OUT, ACTIVATION_BYTES);
}

/* ... is back (fetched during the layer before); fetch the next one's. */
static void bring_back(struct build *b)
{
    if (!b->s->offload)
        return;
    wait_for(b, FB_COMPUTE, FB_COPY_IN);
    wait_for(b, FB_COPY_IN, FB_COMPUTE);
    wait_for(b, FB_COPY_IN, FB_COPY_OUT);
    copy(b, FB_COPY_IN, ACTIVATION_BYTES);
}

static void layer_forward(struct build *b)
{
    gather(b);
    run_all(b, layer_f, COUNT(layer_f));
    model_reduce(b);
    if (b->s->style == FB_MOE) {
        kernel(b, &router, 1.0);
        shuffle(b);
        kernel(b, &expert_f, 1.0);
        shuffle(b);
    } else {
        run_all(b, mlp_f, COUNT(mlp_f));
        model_reduce(b);
    }
    put_away(b);
}

static void layer_backward(struct build *b, int last_microbatch)
{
    int dp = b->l->ch_dp[b->rank];

    gather(b);
    bring_back(b);
    if (b->s->style == FB_MOE) {
        shuffle(b);
        kernel(b, &expert_b, 1.0);
        shuffle(b);
    } else {
        run_all(b, mlp_b, COUNT(mlp_b));
        model_reduce(b);
    }
    run_all(b, layer_b, COUNT(layer_b));
    model_reduce(b);
    if (!last_microbatch)
        return;
    if (b->s->style == FB_FSDP) {
        collective(b, dp, FB_GRADS, ARGUS_FUNC_REDUCESCATTER, shard_bytes(b));
        collective(b, b->l->ch_replica[b->rank], FB_GRADS, ARGUS_FUNC_ALLREDUCE, shard_bytes(b));
    } else {
        collective(b, dp, FB_GRADS, ARGUS_FUNC_ALLREDUCE, 48u << 20);
    }
}

/* Forward (or backward) of one microbatch through one chunk of layers. */
static void microbatch(struct build *b, int chunk, int forward, int last)
{
    const struct fb_spec *s = b->s;
    int prev = (b->rank + s->world - s->tp * s->dp) % s->world;
    int first_stage = b->stage == 0 && chunk == 0;
    int last_stage = b->stage == s->pp - 1 && chunk == s->chunks - 1;
    int layers = s->layers / s->chunks > 0 ? s->layers / s->chunks : 1;
    const char *name = "ncclDevKernel_SendRecv";
    uint64_t bytes = 16u << 20;

    if (forward) {
        if (!first_stage && s->pp > 1) {
            transfer(b, b->l->ch_fwd[prev], FB_RECV_F, ARGUS_FUNC_RECV, name, bytes, 0);
            wait_for(b, FB_COMPUTE, FB_RECV_F);
        }
        if (first_stage)
            kernel(b, &embed, 1.0);
        for (int i = 0; i < layers; i++)
            layer_forward(b);
        if (last_stage)
            kernel(b, &head, 1.0);
        if (!last_stage && s->pp > 1)
            transfer(b, b->l->ch_fwd[b->rank], FB_SEND_F, ARGUS_FUNC_SEND, name, bytes, 1);
        return;
    }
    if (!last_stage && s->pp > 1) {
        transfer(b, b->l->ch_bwd[b->rank], FB_RECV_B, ARGUS_FUNC_RECV, name, bytes, 1);
        wait_for(b, FB_COMPUTE, FB_RECV_B);
    }
    for (int i = 0; i < layers; i++)
        layer_backward(b, last);
    if (!first_stage && s->pp > 1)
        transfer(b, b->l->ch_bwd[prev], FB_SEND_B, ARGUS_FUNC_SEND, name, bytes, 0);
}

static int chunk_of(const struct build *b, int k, int forward)
{
    int span = b->s->pp * b->s->chunks, chunk = k % span / b->s->pp;

    return b->s->chunks < 2 ? 0 : forward ? chunk : b->s->chunks - 1 - chunk;
}

/* One forward, one backward (interleaved when there are several chunks a stage). */
static void pipeline(struct build *b)
{
    const struct fb_spec *s = b->s;
    int total = s->microbatches * s->chunks;
    int warm =
        s->chunks > 1 ? (s->pp - b->stage - 1) * 2 + (s->chunks - 1) * s->pp : s->pp - b->stage - 1;
    int forward = 0, backward = 0;

    if (warm > total)
        warm = total;
    for (; forward < warm; forward++)
        microbatch(b, chunk_of(b, forward, 1), 1, 0);
    for (; backward < total; backward++) {
        if (forward < total) {
            microbatch(b, chunk_of(b, forward, 1), 1, 0);
            forward++;
        }
        if (backward == 0)
            middle(b);
        microbatch(b, chunk_of(b, backward, 0), 0, backward >= total - s->chunks);
    }
}

int fb_program_build(struct fb_layout *l, int rank, int step, struct fb_program *p)
{
    struct build b = {.l = l, .s = &l->r->spec, .p = p, .rank = rank, .step = step};
    const struct fb_fault *f = &b.s->fault;
    struct fb_op *op;

    p->n = 0;
    b.stage = fb_pp_of(b.s, rank);
    b.active = fb_fault_active(f, step);
    b.heavy = b.expert = 1.0;
    if (b.active && (f->kind == FB_WORKLOAD || f->kind == FB_MOE_HOT)) {
        /* Long sequences or hot experts: where they fall changes every few steps. */
        uint64_t mix = b.s->seed + (uint64_t)(step / 3) * 7919u;
        int hot = (int)(fb_random(&mix) % (uint64_t)b.s->world);

        if (rank == hot && f->kind == FB_WORKLOAD)
            b.heavy = f->magnitude;
        if (rank == hot && f->kind == FB_MOE_HOT)
            b.expert = f->magnitude;
    }
    if (b.active && f->kind == FB_DATA_STALL && rank == f->rank)
        host(&b, (int64_t)(f->magnitude * (double)l->nominal_step), 0);
    copy(&b, FB_COPY_IN, 8u << 20); /* the batch */
    wait_for(&b, FB_COMPUTE, FB_COPY_IN);
    pipeline(&b);
    wait_for(&b, FB_COMPUTE, FB_GRADS);
    collective(&b, l->ch_world[rank], FB_MODEL, ARGUS_FUNC_ALLREDUCE, 8);
    wait_for(&b, FB_COMPUTE, FB_MODEL);
    for (int i = 0; i < 3; i++)
        kernel(&b, &adam, 1.0);
    wait_for(&b, FB_COPY_OUT, FB_COMPUTE);
    copy(&b, FB_COPY_OUT, 8); /* the loss */
    op = push(&b);
    op->type = FB_OP_SYNC;
    return 0;
}
