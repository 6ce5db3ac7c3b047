/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a training step, and their launch. */
#include <math.h>

#include "simtrain.h"

#define EW "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
#define MULTI_TENSOR "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_"
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
static const struct kernel router[] = {{"_ZN3moe13router_top_kIfEEv", 128, 256, 20000}};
static const struct kernel expert_forward[] = {
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc1", 640, 384, 300000},
    {EW "13gelu_fwd_bf16E", 4096, 256, 24000},
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc2", 640, 384, 290000},
};
static const struct kernel expert_backward[] = {
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc2_grad", 640, 384, 560000},
    {EW "13gelu_bwd_bf16E", 4096, 256, 30000},
    {"_ZN3moe12grouped_gemmI13__nv_bfloat16EEv_fc1_grad", 640, 384, 580000},
};
static const struct kernel embedding_forward[] = {
    {"_ZN2at6native22embedding_forward_kernelEv", 2048, 256, 40000}};
static const struct kernel head_forward[] = {
    {GEMM "tn_n_tilesize128x256x64_lm_head", 1536, 384, 900000},
    {"_ZN2at6native28cunn_SoftMaxForwardSmemILi8EfEEv", 4096, 1024, 130000},
    {"_ZN2at6native24nll_loss_forward_kernelEv", 32, 256, 9000},
};
static const struct kernel head_backward[] = {
    {"_ZN2at6native25nll_loss_backward_kernelEv", 32, 256, 9000},
    {"_ZN2at6native29cunn_SoftMaxBackwardSmemILi8EfEEv", 4096, 1024, 140000},
    {GEMM "nt_n_tilesize128x256x64_lm_head_dgrad", 1536, 384, 920000},
    {GEMM "nn_n_tilesize128x256x64_lm_head_wgrad", 1536, 384, 910000},
};
static const struct kernel gradient_norm[] = {
    {MULTI_TENSOR "L2NormFunctorEEEv", 320, 512, 180000},
    {MULTI_TENSOR "L2NormFunctorEEEv", 320, 512, 180000},
};
static const struct kernel optimizer[] = {
    {MULTI_TENSOR "20FusedAdamMathFunctorEEEv", 320, 512, 260000},
    {MULTI_TENSOR "20FusedAdamMathFunctorEEEv", 320, 512, 260000},
    {MULTI_TENSOR "20FusedAdamMathFunctorEEEv", 320, 512, 260000},
    {MULTI_TENSOR "20FusedAdamMathFunctorEEEv", 320, 512, 260000},
    {MULTI_TENSOR "20FusedAdamMathFunctorEEEv", 320, 512, 260000},
    {MULTI_TENSOR "20FusedAdamMathFunctorEEEv", 320, 512, 260000},
};

#define LIST(a)                                                                                    \
    {                                                                                              \
        a, (int)(sizeof(a) / sizeof((a)[0]))                                                       \
    }

const struct kernel_list kernels[] = {
    [ATTENTION_FORWARD] = LIST(attention_forward),
    [MLP_FORWARD] = LIST(mlp_forward),
    [MLP_BACKWARD] = LIST(mlp_backward),
    [ATTENTION_BACKWARD] = LIST(attention_backward),
    [ROUTER] = LIST(router),
    [EXPERT_FORWARD] = LIST(expert_forward),
    [EXPERT_BACKWARD] = LIST(expert_backward),
    [EMBEDDING] = LIST(embedding_forward),
    [HEAD_FORWARD] = LIST(head_forward),
    [HEAD_BACKWARD] = LIST(head_backward),
    [GRADIENT_NORM] = LIST(gradient_norm),
    [OPTIMIZER] = LIST(optimizer),
};

static double warm_up_factor(int step)
{
    return step == 0 ? 1.3 : step == 1 ? 1.05 : 1.0;
}

static void shape(struct train *t, const struct kernel *k, double share, double work,
                  struct simcu_graph_node *node)
{
    uint64_t h =
        mix(t->options.seed, (uint64_t)t->self.rank, (uint64_t)t->step << 20 | t->kernels++, 1);
    double noise = 1 + t->options.noise * gaussian(h);
    double ns = k->ns * share * work * t->silicon * t->step_slow * fault_on_kernel(t, k->name) *
                warm_up_factor(t->step) * (noise > 0.2 ? noise : 0.2);

    *node = (struct simcu_graph_node){
        k->name, {(uint32_t)ceil(k->grid * work), 1, 1}, {k->block, 1, 1}, (int64_t)ns};
    t->total_kernels++;
}

void kernel_launch(struct train *t, const struct kernel *k, double share, double work)
{
    struct simcu_graph_node n;

    shape(t, k, share, work, &n);
    simcu_launch(t->compute, n.name, n.grid, n.block, n.duration);
}

/* With --graphs each list is a graph of its own, captured once and replayed. */
void kernel_launch_list(struct train *t, enum kernel_list_name which, double share, double work)
{
    const struct kernel_list *list = &kernels[which];
    struct simcu_graph_node nodes[16];

    if (!t->options.graphs) {
        for (int i = 0; i < list->count; i++)
            kernel_launch(t, &list->kernels[i], share, work);
        return;
    }
    for (int i = 0; i < list->count; i++)
        shape(t, &list->kernels[i], share, work, &nodes[i]);
    simcu_graph_launch(t->compute, (uint32_t)which + 1, nodes, list->count);
}
