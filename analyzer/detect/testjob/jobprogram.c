/* SPDX-License-Identifier: Apache-2.0 */
/* What every rank does: a transformer's steps, and the faults in them. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/testjob/jobsim_impl.h"

enum {
    K_EMBED,
    K_QKV,
    K_ATTENTION,
    K_PROJ,
    K_NORM,
    K_UP,
    K_GELU,
    K_DOWN,
    K_EXPERT,
    K_QKV_BWD,
    K_ATTENTION_BWD,
    K_MLP_BWD,
    K_NORM_BWD,
    K_GELU_BWD,
    K_EXPERT_BWD,
    K_LOSS,
    K_ADAM,
    K_FRESH
};

const struct kernel_type job_kernels[] = {
    [K_EMBED] = {"embedding_dense_kernel", 2048, 256, 120, 1},
    [K_QKV] = {"sm90_xmma_gemm_bf16_qkv_tn", 264, 384, 420, 0},
    [K_ATTENTION] = {"flash_fwd_kernel", 1056, 128, 380, 0},
    [K_PROJ] = {"sm90_xmma_gemm_bf16_proj_tn", 132, 384, 190, 0},
    [K_NORM] = {"rms_norm_kernel", 4096, 256, 60, 1},
    [K_UP] = {"sm90_xmma_gemm_bf16_up_tn", 528, 384, 620, 0},
    [K_GELU] = {"vectorized_elementwise_kernel", 8192, 128, 90, 1},
    [K_DOWN] = {"sm90_xmma_gemm_bf16_down_tn", 132, 384, 560, 0},
    [K_EXPERT] = {"grouped_gemm_expert_kernel", 512, 384, 900, 0},
    [K_QKV_BWD] = {"sm90_xmma_gemm_bf16_qkv_nt", 264, 384, 840, 0},
    [K_ATTENTION_BWD] = {"flash_bwd_kernel", 1056, 128, 900, 0},
    [K_MLP_BWD] = {"sm90_xmma_gemm_bf16_mlp_nt", 528, 384, 2100, 0},
    [K_NORM_BWD] = {"rms_norm_backward_kernel", 4096, 256, 110, 1},
    [K_GELU_BWD] = {"vectorized_elementwise_backward_kernel", 8192, 128, 140, 1},
    [K_EXPERT_BWD] = {"grouped_gemm_expert_backward_kernel", 512, 384, 1800, 0},
    [K_LOSS] = {"softmax_cross_entropy_kernel", 1024, 512, 150, 1},
    [K_ADAM] = {"multi_tensor_apply_kernel_adam", 640, 512, 700, 1},
    [K_FRESH] = {"sm90_xmma_gemm_bf16_fresh_tn", 16, 384, 100, 0},
};

struct writer {
    struct job *j;
    struct job_rank *r;
    int step, bad;
    uint32_t *sequence; /* of pairs: by peer of this rank, [2 * rank + forward] */
    double amount;      /* of work in this step: factor on the number of kernels */
    double size;        /* ... on their grids */
    double expert;      /* ... of the experts */
};

static void put(struct writer *w, struct op op)
{
    struct job_rank *r = w->r;

    if (r->n_ops == r->room) {
        size_t room = r->room ? 2 * r->room : 1024;
        struct op *ops = realloc(r->ops, room * sizeof(*ops));

        if (!ops) {
            w->bad = 1;
            return;
        }
        r->ops = ops;
        r->room = room;
    }
    r->ops[r->n_ops++] = op;
}

static int active(const struct job_fault *f, int step)
{
    if (step < f->from || (f->to && step >= f->to))
        return 0;
    return f->every <= 1 || (step - f->from) % f->every == 0;
}

/* A rank picked anew for every step, the same for all who ask. */
static int rotating(const struct job *j, int step, int i)
{
    uint64_t rng = j->s.seed * 77 + (uint64_t)step * 1315423911u + (uint64_t)i;

    job_uniform(&rng);
    return (int)(job_uniform(&rng) * j->s.world);
}

static int hits(const struct writer *w, const struct job_fault *f, int i)
{
    if (!active(f, w->step))
        return 0;
    return (f->rank < 0 ? rotating(w->j, w->step, i) : f->rank) == w->r->rank;
}

static double slowed(struct writer *w, int type)
{
    double factor = 1;

    for (size_t i = 0; i < w->j->s.n_faults; i++) {
        const struct job_fault *f = &w->j->s.faults[i];

        if (f->kind == JOB_ALL_SLOW && active(f, w->step))
            factor *= f->factor;
        if (!hits(w, f, (int)i))
            continue;
        if (f->kind == JOB_SLOW_RANK ||
            (f->kind == JOB_SLOW_KERNEL && strstr(job_kernels[type].name, f->pattern)) ||
            (f->kind == JOB_SLOW_FAMILY && f->memory == job_kernels[type].memory) ||
            (f->kind == JOB_SHARED_GPU && job_uniform(&w->r->rng) < 0.33))
            factor *= f->factor;
        if (f->kind == JOB_RAMP)
            factor *= 1 + (f->factor - 1) * (w->step - f->from) / (double)(w->j->s.steps - f->from);
    }
    return factor;
}

static void kernel(struct writer *w, int type, double size)
{
    const struct kernel_type *k = &job_kernels[type];
    double us = k->us * w->j->s.scale * size * w->r->speed * slowed(w, type);

    us *= exp(w->j->s.noise * job_normal(&w->r->rng));
    put(w, (struct op){.kind = OP_KERNEL,
                       .type = type,
                       .grid = size == 1 ? 0 : (uint32_t)(k->grid * size + 0.5),
                       .us = us});
}

/* Layers or micro-batches that this rank has more of are more kernels of the same kind. */
static void repeated(struct writer *w, int type, double amount)
{
    double whole = amount;

    while (whole >= 1) {
        kernel(w, type, w->size);
        whole -= 1;
    }
    if (whole > 0.01 && job_uniform(&w->r->rng) < whole)
        kernel(w, type, w->size);
}

/* What a transfer takes longer by. */
static double link_factor(const struct writer *w, int group, int peer)
{
    const struct job *j = w->j;
    const struct job_group *g = &j->groups[group];
    double factor = 1;

    for (size_t i = 0; i < j->s.n_faults; i++) {
        const struct job_fault *f = &j->s.faults[i];
        int in = 0, other = 0, on_node = 0, off_node = 0, inter = g->inter;

        if (!active(f, w->step))
            continue;
        for (int k = 0; k < g->size; k++) {
            int r = g->members[k];

            if (peer >= 0 && r != w->r->rank && r != peer)
                continue;
            in |= r == f->rank;
            other |= r == f->rank2;
            if (j->ranks[r].node == f->node)
                on_node = 1;
            else
                off_node = 1;
        }
        if (peer >= 0)
            inter = j->ranks[peer].node != w->r->node;
        if ((f->kind == JOB_LINK_NODE && on_node && off_node) ||
            (f->kind == JOB_LINK_RANK && in && !inter) ||
            (f->kind == JOB_LINK_NIC && in && inter) ||
            (f->kind == JOB_LINK_PAIR && peer >= 0 && in && other) ||
            (f->kind == JOB_LINK_GROUP && in && g->kind == 'd') ||
            (f->kind == JOB_LARGER_BUCKETS && g->kind == 'd'))
            factor *= f->factor;
    }
    return factor;
}

static void collective(struct writer *w, int group, int func, uint64_t bytes, int stream, int block)
{
    const struct job_group *g;
    double rate, us;

    if (group < 0)
        return;
    g = &w->j->groups[group];
    rate = g->inter ? 40e3 : 180e3; /* bytes a microsecond */
    us = 12 + (double)bytes / rate * 2 * (g->size - 1) / g->size;
    us *= link_factor(w, group, -1) * w->j->s.scale;
    put(w, (struct op){.kind = OP_COLLECTIVE,
                       .group = group,
                       .func = func,
                       .bytes = bytes,
                       .stream = stream,
                       .peer = -1,
                       .us = us});
    if (block)
        put(w, (struct op){.kind = OP_SYNC, .stream = stream});
}

/* func: ARGUS_FUNC_SEND or _RECV; a receive blocks the compute stream. */
static void pair(struct writer *w, int func, int to_stage, uint64_t bytes)
{
    const struct job *j = w->j;
    int peer = w->r->tp + j->s.tp * (w->r->dp + j->dp * to_stage);
    int stream = func == ARGUS_FUNC_SEND ? STREAM_SEND : STREAM_RECV;
    double us = 12 + (double)bytes / (j->ranks[peer].node != w->r->node ? 20e3 : 90e3);
    int up = func == ARGUS_FUNC_SEND ? to_stage > w->r->pp : to_stage < w->r->pp;
    uint32_t *n = &w->sequence[2 * to_stage + up];

    put(w, (struct op){.kind = OP_COLLECTIVE,
                       .group = j->pp_group[w->r->rank],
                       .func = func,
                       .bytes = bytes,
                       .stream = stream,
                       .peer = peer,
                       .grid = (*n)++,
                       .us = us * link_factor(w, j->pp_group[w->r->rank], peer) * j->s.scale});
    if (func == ARGUS_FUNC_RECV)
        put(w, (struct op){.kind = OP_SYNC, .stream = stream});
}

static void idle(struct writer *w, double us, int class_kind, int func)
{
    put(w, (struct op){.kind = OP_IDLE, .type = class_kind, .func = func, .us = us});
}

static void stall(struct writer *w, enum job_fault_kind kind)
{
    for (size_t i = 0; i < w->j->s.n_faults; i++) {
        const struct job_fault *f = &w->j->s.faults[i];
        double us = f->ms * 1e3;

        if (f->kind != kind || !hits(w, f, (int)i))
            continue;
        if (f->grow)
            us *= 0.4 + 1.6 * (w->step - f->from) / (double)(w->j->s.steps - f->from);
        us *= 1 + 0.05 * job_normal(&w->r->rng);
        if (kind == JOB_JIT) {
            idle(w, us, ARGUS_CLASS_OVERHEAD, 4);
            kernel(w, K_FRESH, 1 + w->step); /* its own grid: a class of its own */
        } else if (kind == JOB_ALLOC_STALL) {
            idle(w, us / 2, ARGUS_CLASS_ALLOC, 2);
            idle(w, us / 2, ARGUS_CLASS_ALLOC, 1);
        } else {
            idle(w, us, 0, 0);
        }
    }
}

/* One call in the tp group, where it is used like that. */
static void tp_call(struct writer *w, enum job_tp_use use, int func)
{
    if (w->j->s.tp_use == (int)use)
        collective(w, w->j->tp_group[w->r->rank], func, 32u << 20, STREAM_TP, 1);
}

static void tp_gather(struct writer *w)
{
    tp_call(w, JOB_TP_SEQUENCE, ARGUS_FUNC_ALLGATHER);
}

static void tp_reduce(struct writer *w)
{
    tp_call(w, JOB_TP_REDUCE, ARGUS_FUNC_ALLREDUCE);
    tp_call(w, JOB_TP_SEQUENCE, ARGUS_FUNC_REDUCESCATTER);
}

/* Tokens go to where their experts are: the hot rank's share is larger. */
static void experts(struct writer *w, int backward)
{
    int g = w->j->ep_group[w->r->rank];

    if (g < 0)
        return;
    collective(w, g, ARGUS_FUNC_ALLTOALL, (uint64_t)((16u << 20) * w->expert), STREAM_TP, 1);
    kernel(w, backward ? K_EXPERT_BWD : K_EXPERT, w->expert);
    collective(w, g, ARGUS_FUNC_ALLTOALL, (uint64_t)((16u << 20) * w->expert), STREAM_TP, 1);
}

static void forward_layer(struct writer *w)
{
    tp_call(w, JOB_TP_SHARDS, ARGUS_FUNC_ALLGATHER);
    tp_gather(w);
    repeated(w, K_QKV, w->amount);
    repeated(w, K_ATTENTION, w->amount);
    repeated(w, K_PROJ, w->amount);
    tp_reduce(w);
    kernel(w, K_NORM, w->size);
    experts(w, 0);
    tp_gather(w);
    repeated(w, K_UP, w->amount);
    kernel(w, K_GELU, w->size);
    repeated(w, K_DOWN, w->amount);
    tp_reduce(w);
}

static uint64_t bucket(const struct writer *w, int layer)
{
    double bytes = 48u << 20;

    for (size_t i = 0; i < w->j->s.n_faults; i++) {
        const struct job_fault *f = &w->j->s.faults[i];

        if (f->kind == JOB_LARGER_BUCKETS && active(f, w->step) && layer % 4 == 0)
            bytes *= f->factor;
    }
    return (uint64_t)bytes;
}

static double copy_factor(const struct writer *w)
{
    double factor = 1;

    for (size_t i = 0; i < w->j->s.n_faults; i++)
        if (w->j->s.faults[i].kind == JOB_SLOW_COPY && hits(w, &w->j->s.faults[i], (int)i))
            factor *= w->j->s.faults[i].factor;
    return factor;
}

/* Activations that were offloaded come back: computing waits for them. */
static void bring_back(struct writer *w)
{
    for (size_t i = 0; i < w->j->s.n_faults; i++) {
        const struct job_fault *f = &w->j->s.faults[i];

        if (f->kind == JOB_OFFLOAD && active(f, w->step))
            put(w, (struct op){.kind = OP_COPY,
                               .bytes = 32u << 20,
                               .us = f->ms * 1e3 * copy_factor(w) *
                                     (1 + 0.01 * job_normal(&w->r->rng))});
    }
}

static void backward_layer(struct writer *w, int last_microbatch, int layer)
{
    if (layer % 2)
        bring_back(w);
    tp_call(w, JOB_TP_SHARDS, ARGUS_FUNC_ALLGATHER);
    tp_gather(w);
    repeated(w, K_MLP_BWD, w->amount);
    kernel(w, K_GELU_BWD, w->size);
    tp_reduce(w);
    experts(w, 1);
    tp_gather(w);
    repeated(w, K_ATTENTION_BWD, w->amount);
    repeated(w, K_QKV_BWD, w->amount);
    kernel(w, K_NORM_BWD, w->size);
    tp_reduce(w);
    tp_call(w, JOB_TP_SHARDS, ARGUS_FUNC_REDUCESCATTER);
    if (last_microbatch && layer % 2 == 0) {
        collective(w, w->j->dp_group[w->r->rank], ARGUS_FUNC_ALLREDUCE, bucket(w, layer), STREAM_DP,
                   0);
        collective(w, w->j->edp_group[w->r->rank], ARGUS_FUNC_ALLREDUCE, 24u << 20, STREAM_DP, 0);
    }
}

static void set_amounts(struct writer *w)
{
    w->amount = w->size = w->expert = 1;
    for (size_t i = 0; i < w->j->s.n_faults; i++) {
        const struct job_fault *f = &w->j->s.faults[i];

        if (f->kind == JOB_SLOW_STAGE && f->stage == w->r->pp && active(f, w->step))
            w->amount *= f->factor;
        if (!hits(w, f, (int)i))
            continue;
        if (f->kind == JOB_IMBALANCE)
            w->amount *= f->factor;
        if (f->kind == JOB_LONG_SEQUENCE)
            w->size *= f->factor;
        if (f->kind == JOB_MOE_HOT)
            w->expert *= f->factor;
    }
}

static void extras(struct writer *w)
{
    for (size_t i = 0; i < w->j->s.n_faults; i++) {
        const struct job_fault *f = &w->j->s.faults[i];

        if (!active(f, w->step))
            continue;
        if (f->kind == JOB_COPY_BOUND)
            put(w, (struct op){.kind = OP_COPY,
                               .bytes = 64u << 20,
                               .us = f->ms * 1e3 * copy_factor(w) *
                                     (1 + 0.01 * job_normal(&w->r->rng))});
        if (f->kind == JOB_EXTRA_REDUCE && w->j->world_group >= 0)
            put(w, (struct op){.kind = OP_COLLECTIVE,
                               .group = w->j->world_group,
                               .func = ARGUS_FUNC_ALLREDUCE,
                               .bytes = 128u << 20,
                               .stream = STREAM_DP,
                               .peer = -1,
                               .us = f->ms * 1e3}),
                put(w, (struct op){.kind = OP_SYNC, .stream = STREAM_DP});
        if (f->kind == JOB_BARRIER_WORK) {
            if (f->rank == w->r->rank)
                idle(w, f->ms * 1e3, 0, 0);
            collective(w, w->j->world_group, ARGUS_FUNC_ALLREDUCE, 4, STREAM_DP, 1);
        }
    }
}

static void one_step(struct writer *w)
{
    struct job *j = w->j;
    int stages = j->s.pp, stage = w->r->pp;
    int layers = j->s.layers + (stage == stages - 1 ? j->s.stage_layers : 0);

    put(w, (struct op){.kind = OP_IDLE, .us = 30, .mark = 1});
    set_amounts(w);
    if (j->s.broadcast && w->step == 0)
        collective(w, j->dp_group[w->r->rank], ARGUS_FUNC_BROADCAST, 64u << 20, STREAM_DP, 1);
    stall(w, JOB_LATE_START);
    stall(w, JOB_DATA_STALL);
    put(w, (struct op){.kind = OP_COPY, .bytes = 1u << 20, .us = 40 * j->s.scale * copy_factor(w)});
    if (stage == 0)
        kernel(w, K_EMBED, 1);
    for (int m = 0; m < j->s.microbatches; m++) {
        if (stage > 0)
            pair(w, ARGUS_FUNC_RECV, stage - 1, 8u << 20);
        for (int l = 0; l < layers; l++)
            forward_layer(w);
        if (stage + 1 < stages)
            pair(w, ARGUS_FUNC_SEND, stage + 1, 8u << 20);
    }
    if (stage == stages - 1)
        kernel(w, K_LOSS, 1);
    stall(w, JOB_JIT);
    stall(w, JOB_ALLOC_STALL);
    for (int m = 0; m < j->s.microbatches; m++) {
        if (stage + 1 < stages)
            pair(w, ARGUS_FUNC_RECV, stage + 1, 8u << 20);
        for (int l = layers - 1; l >= 0; l--)
            backward_layer(w, m == j->s.microbatches - 1, l);
        if (m == 0)
            stall(w, JOB_HOST_STALL);
        if (stage > 0)
            pair(w, ARGUS_FUNC_SEND, stage - 1, 8u << 20);
    }
    put(w, (struct op){.kind = OP_SYNC, .stream = STREAM_DP});
    extras(w);
    if (j->world_group >= 0)
        collective(w, j->world_group, ARGUS_FUNC_ALLREDUCE, 4, STREAM_DP, 1);
    kernel(w, K_ADAM, 1);
    kernel(w, K_ADAM, 1);
}

int job_program(struct job *j)
{
    uint32_t *sequence = calloc(2 * (size_t)j->s.pp + 2, sizeof(*sequence));
    int bad = !sequence;

    for (int r = 0; r < j->s.world && !bad; r++) {
        struct writer w = {.j = j, .r = &j->ranks[r], .sequence = sequence};

        memset(sequence, 0, 2 * (size_t)j->s.pp * sizeof(*sequence));
        for (w.step = 0; w.step < j->s.steps && !w.bad; w.step++)
            one_step(&w);
        bad = w.bad;
    }
    free(sequence);
    return bad ? -1 : 0;
}
