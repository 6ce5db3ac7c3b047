/* SPDX-License-Identifier: Apache-2.0 */
/* What the name of a kernel or of an NVTX range tells.  Names come mangled
 * (CUPTI) or demangled (imports): the tests look for substrings that survive
 * mangling, without case. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/summary/summary.h"

struct pattern {
    const char *text; /* lower case */
    int value;
};

/* The name in lower case, cut: what classifies a kernel stands near its start,
 * template arguments can run to kilobytes. */
#define LOWER_MAX 1024

static size_t lower(const char *name, char *out)
{
    size_t n = 0;

    for (; name[n] && n < LOWER_MAX - 1; n++)
        out[n] = (char)tolower((unsigned char)name[n]);
    out[n] = '\0';
    return n;
}

static int first_match(const char *name, const struct pattern *patterns, size_t n, int none)
{
    for (size_t i = 0; i < n; i++) {
        if (strstr(name, patterns[i].text))
            return patterns[i].value;
    }
    return none;
}

#define MATCH(name, table, none) first_match(name, table, sizeof(table) / sizeof(table[0]), none)

/* Order matters: the first match decides. */
static const struct pattern families[] = {
    {"multi_tensor_apply", ARGUS_FAMILY_OPTIMIZER},
    {"multitensorapply", ARGUS_FAMILY_OPTIMIZER},
    {"fused_adam", ARGUS_FAMILY_OPTIMIZER},
    {"fusedadam", ARGUS_FAMILY_OPTIMIZER},
    {"adam_", ARGUS_FAMILY_OPTIMIZER},
    {"adamw", ARGUS_FAMILY_OPTIMIZER},
    {"adamfunctor", ARGUS_FAMILY_OPTIMIZER},
    {"adamkernel", ARGUS_FAMILY_OPTIMIZER},
    {"adafactor", ARGUS_FAMILY_OPTIMIZER},
    {"lambstage", ARGUS_FAMILY_OPTIMIZER},
    {"lamb_stage", ARGUS_FAMILY_OPTIMIZER},
    {"fusedsgd", ARGUS_FAMILY_OPTIMIZER},
    {"sgd_kernel", ARGUS_FAMILY_OPTIMIZER},
    {"sgdfunctor", ARGUS_FAMILY_OPTIMIZER},
    {"muon_", ARGUS_FAMILY_OPTIMIZER},
    {"optimizer", ARGUS_FAMILY_OPTIMIZER},
    {"grouped_gemm", ARGUS_FAMILY_EXPERT},
    {"groupedgemm", ARGUS_FAMILY_EXPERT},
    {"groupproblemshape", ARGUS_FAMILY_EXPERT},
    {"moe", ARGUS_FAMILY_EXPERT},
    {"expert", ARGUS_FAMILY_EXPERT},
    {"permute_kernel", ARGUS_FAMILY_EXPERT},
    {"topk_gating", ARGUS_FAMILY_EXPERT},
    {"flash", ARGUS_FAMILY_ATTENTION},
    {"fmha", ARGUS_FAMILY_ATTENTION},
    {"attention", ARGUS_FAMILY_ATTENTION},
    {"attn", ARGUS_FAMILY_ATTENTION},
    {"sdpa", ARGUS_FAMILY_ATTENTION},
    {"mha_", ARGUS_FAMILY_ATTENTION},
    {"scaled_masked_softmax", ARGUS_FAMILY_ATTENTION},
    {"embedding", ARGUS_FAMILY_EMBEDDING},
    {"embeddingbag", ARGUS_FAMILY_EMBEDDING},
    {"layer_norm", ARGUS_FAMILY_NORM},
    {"layernorm", ARGUS_FAMILY_NORM},
    {"rms_norm", ARGUS_FAMILY_NORM},
    {"rmsnorm", ARGUS_FAMILY_NORM},
    {"batch_norm", ARGUS_FAMILY_NORM},
    {"bn_fw", ARGUS_FAMILY_NORM},
    {"bn_bw", ARGUS_FAMILY_NORM},
    {"group_norm", ARGUS_FAMILY_NORM},
    {"gammabeta", ARGUS_FAMILY_NORM},
    {"ln_fwd", ARGUS_FAMILY_NORM},
    {"ln_bwd", ARGUS_FAMILY_NORM},
    {"gemm", ARGUS_FAMILY_GEMM},
    {"cutlass", ARGUS_FAMILY_GEMM},
    {"nvjet", ARGUS_FAMILY_GEMM},
    {"xmma", ARGUS_FAMILY_GEMM},
    {"matmul", ARGUS_FAMILY_GEMM},
    {"gemv", ARGUS_FAMILY_GEMM},
    {"splitkreduce", ARGUS_FAMILY_GEMM},
    {"_conv", ARGUS_FAMILY_GEMM},
    {"conv2d", ARGUS_FAMILY_GEMM},
    {"implicit_con", ARGUS_FAMILY_GEMM},
    {"wgrad", ARGUS_FAMILY_GEMM},
    {"dgrad", ARGUS_FAMILY_GEMM},
    {"elementwise", ARGUS_FAMILY_ELEMENTWISE},
    {"softmax", ARGUS_FAMILY_ELEMENTWISE},
    {"reduce_kernel", ARGUS_FAMILY_ELEMENTWISE},
    {"catarray", ARGUS_FAMILY_ELEMENTWISE},
    {"triton_poi", ARGUS_FAMILY_ELEMENTWISE},
    {"triton_red", ARGUS_FAMILY_ELEMENTWISE},
    {"triton_per", ARGUS_FAMILY_ELEMENTWISE},
    {"gelu", ARGUS_FAMILY_ELEMENTWISE},
    {"silu", ARGUS_FAMILY_ELEMENTWISE},
    {"swiglu", ARGUS_FAMILY_ELEMENTWISE},
    {"dropout", ARGUS_FAMILY_ELEMENTWISE},
    {"rope", ARGUS_FAMILY_ELEMENTWISE},
    {"fill", ARGUS_FAMILY_ELEMENTWISE},
    {"copy_kernel", ARGUS_FAMILY_ELEMENTWISE},
    {"transpose", ARGUS_FAMILY_ELEMENTWISE},
    {"cast", ARGUS_FAMILY_ELEMENTWISE},
};

enum argus_family argus_kernel_family(const char *name)
{
    char text[LOWER_MAX];

    if (!name)
        return ARGUS_FAMILY_OTHER;
    lower(name, text);
    return (enum argus_family)MATCH(text, families, ARGUS_FAMILY_OTHER);
}

/* The function of a kernel that is known to be NCCL's. */
static const struct pattern nccl_functions[] = {
    {"allreduce", ARGUS_FUNC_ALLREDUCE},
    {"all_reduce", ARGUS_FUNC_ALLREDUCE},
    {"allgather", ARGUS_FUNC_ALLGATHER},
    {"all_gather", ARGUS_FUNC_ALLGATHER},
    {"reducescatter", ARGUS_FUNC_REDUCESCATTER},
    {"reduce_scatter", ARGUS_FUNC_REDUCESCATTER},
    {"broadcast", ARGUS_FUNC_BROADCAST},
    {"sendrecv", ARGUS_FUNC_SENDRECV},
    {"alltoall", ARGUS_FUNC_ALLTOALL},
    {"all_to_all", ARGUS_FUNC_ALLTOALL},
    {"all2all", ARGUS_FUNC_ALLTOALL},
    {"gather", ARGUS_FUNC_GATHER},
    {"scatter", ARGUS_FUNC_SCATTER},
    {"barrier", ARGUS_FUNC_BARRIER},
    {"reduce", ARGUS_FUNC_REDUCE},
    {"generic", ARGUS_FUNC_GROUP},
    {"send", ARGUS_FUNC_SEND},
    {"recv", ARGUS_FUNC_RECV},
};

/* Communication kernels of other libraries. */
static const struct pattern other_functions[] = {
    {"cross_device_reduce", ARGUS_FUNC_ALLREDUCE}, /* custom all-reduce of the inference engines */
    {"customallreduce", ARGUS_FUNC_ALLREDUCE},
    {"custom_all_reduce", ARGUS_FUNC_ALLREDUCE},
    {"oneshotallreduce", ARGUS_FUNC_ALLREDUCE},
    {"twoshotallreduce", ARGUS_FUNC_ALLREDUCE},
    {"one_shot_all_reduce", ARGUS_FUNC_ALLREDUCE},
    {"two_shot_all_reduce", ARGUS_FUNC_ALLREDUCE},
    {"multimem_all_reduce", ARGUS_FUNC_ALLREDUCE},
    {"multimem_one_shot", ARGUS_FUNC_ALLREDUCE},
    {"multimem_two_shot", ARGUS_FUNC_ALLREDUCE},
    {"multimem_all_gather", ARGUS_FUNC_ALLGATHER},
    {"multimem_reduce_scatter", ARGUS_FUNC_REDUCESCATTER},
    {"userbuffers", ARGUS_FUNC_OTHER}, /* TransformerEngine */
    {"nvshmem", ARGUS_FUNC_OTHER},
};

/* DeepEP's namespaces, mangled or not. */
static int deep_ep(const char *text)
{
    int ours = strstr(text, "internode") || strstr(text, "intranode") || strstr(text, "deep_ep");

    if (!ours)
        return ARGUS_FUNC_NONE;
    if (strstr(text, "dispatch") || strstr(text, "combine"))
        return ARGUS_FUNC_ALLTOALL;
    return strstr(text, "barrier") ? ARGUS_FUNC_BARRIER : ARGUS_FUNC_OTHER;
}

int argus_kernel_comm_func(const char *name)
{
    char text[LOWER_MAX];
    int func;

    if (!name)
        return ARGUS_FUNC_NONE;
    lower(name, text);
    if (strstr(text, "ncclkernel") || strstr(text, "nccldevkernel") || strstr(text, "ncclsymk") ||
        strstr(text, "ncclsymdevkernel") || !strncmp(text, "nccl:", 5))
        return MATCH(text, nccl_functions, ARGUS_FUNC_OTHER);
    func = deep_ep(text);
    if (func != ARGUS_FUNC_NONE)
        return func;
    return MATCH(text, other_functions, ARGUS_FUNC_NONE);
}

static const struct pattern phases[] = {
    {"backward", ARGUS_CLASS_BACKWARD},    {"_bwd", ARGUS_CLASS_BACKWARD},
    {"bwd_", ARGUS_CLASS_BACKWARD},        {"bwd", ARGUS_CLASS_BACKWARD},
    {"wgrad", ARGUS_CLASS_BACKWARD},       {"dgrad", ARGUS_CLASS_BACKWARD},
    {"gradinput", ARGUS_CLASS_BACKWARD},   {"grad_input", ARGUS_CLASS_BACKWARD},
    {"grad_weight", ARGUS_CLASS_BACKWARD}, {"bn_bw", ARGUS_CLASS_BACKWARD},
    {"forward", ARGUS_CLASS_FORWARD},      {"fwd", ARGUS_CLASS_FORWARD},
    {"fprop", ARGUS_CLASS_FORWARD},        {"bn_fw", ARGUS_CLASS_FORWARD},
};

uint32_t argus_kernel_phase(const char *name)
{
    char text[LOWER_MAX];

    if (!name)
        return 0;
    lower(name, text);
    return (uint32_t)MATCH(text, phases, 0);
}

static const struct pattern mark_exact[] = {
    {"forward-compute", ARGUS_MARK_FORWARD},
    {"backward-compute", ARGUS_MARK_BACKWARD},
};

static const struct pattern mark_kinds[] = {
    {"profilerstep", ARGUS_MARK_STEP},
    {"train_step", ARGUS_MARK_STEP},
    {"training_step", ARGUS_MARK_STEP},
    {"train-step", ARGUS_MARK_STEP},
    {"iteration", ARGUS_MARK_STEP},
    {"optimizer", ARGUS_MARK_OPTIMIZER},
    {"dataloader", ARGUS_MARK_DATA},
    {"data_loader", ARGUS_MARK_DATA},
    {"batch-generator", ARGUS_MARK_DATA},
    {"batch_generator", ARGUS_MARK_DATA},
    {"get_batch", ARGUS_MARK_DATA},
    {"next_batch", ARGUS_MARK_DATA},
    {"allreduce", ARGUS_MARK_COMM},
    {"all-reduce", ARGUS_MARK_COMM},
    {"all_reduce", ARGUS_MARK_COMM},
    {"allgather", ARGUS_MARK_COMM},
    {"all-gather", ARGUS_MARK_COMM},
    {"all_gather", ARGUS_MARK_COMM},
    {"reduce-scatter", ARGUS_MARK_COMM},
    {"reduce_scatter", ARGUS_MARK_COMM},
    {"grad_sync", ARGUS_MARK_COMM},
    {"grads-sync", ARGUS_MARK_COMM},
    {"nccl", ARGUS_MARK_COMM},
    {"forward-backward", ARGUS_MARK_OTHER},
    {"forward_backward", ARGUS_MARK_OTHER},
    {"backward", ARGUS_MARK_BACKWARD},
    {"forward", ARGUS_MARK_FORWARD},
};

/* "step", "step 12", "step_12", "Step#12": the word alone, numbered or not. */
static int is_step_word(const char *text)
{
    if (strncmp(text, "step", 4))
        return 0;
    for (text += 4; *text; text++) {
        if (!isdigit((unsigned char)*text) && !strchr(" _#-:=", *text))
            return 0;
    }
    return 1;
}

enum argus_mark_kind argus_mark_kind_of(const char *name)
{
    char text[LOWER_MAX];
    int kind;

    if (!name)
        return ARGUS_MARK_OTHER;
    lower(name, text);
    if (is_step_word(text))
        return ARGUS_MARK_STEP;
    kind = MATCH(text, mark_exact, -1);
    if (kind >= 0)
        return (enum argus_mark_kind)kind;
    return (enum argus_mark_kind)MATCH(text, mark_kinds, ARGUS_MARK_OTHER);
}

unsigned argus_dtype_bytes(int dtype)
{
    switch (dtype) {
    case ARGUS_DTYPE_INT8:
    case ARGUS_DTYPE_UINT8:
    case ARGUS_DTYPE_F8E4M3:
    case ARGUS_DTYPE_F8E5M2:
        return 1;
    case ARGUS_DTYPE_F16:
    case ARGUS_DTYPE_BF16:
        return 2;
    case ARGUS_DTYPE_INT32:
    case ARGUS_DTYPE_UINT32:
    case ARGUS_DTYPE_F32:
        return 4;
    case ARGUS_DTYPE_INT64:
    case ARGUS_DTYPE_UINT64:
    case ARGUS_DTYPE_F64:
        return 8;
    default:
        return 0;
    }
}
