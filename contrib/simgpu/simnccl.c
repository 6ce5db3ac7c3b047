/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simnccl.h"
#include "simnccl_profiler.h"

#define CALL_NS 2000 /* what a NCCL call costs the host beyond the launch */

struct simnccl_comm {
    struct simnccl_comm_config config;
    struct simnccl_reporter reporter;
};

int simnccl_release(void)
{
    const char *text = getenv("SIMNCCL_VERSION");
    int major = 0, minor = 0;

    if (text && sscanf(text, "%d.%d", &major, &minor) == 2 && major == 2 && minor >= 18 &&
        minor <= 30)
        return 200 + minor;
    return 230;
}

int ncclGetVersion(int *version)
{
    *version = 20000 + (simnccl_release() - 200) * 100 + 3;
    return 0;
}

size_t simnccl_dtype_bytes(enum simnccl_dtype dtype)
{
    return dtype == SIMNCCL_FLOAT32 ? 4 : dtype == SIMNCCL_BFLOAT16 ? 2 : 1;
}

struct simnccl_comm *simnccl_comm_init(const struct simnccl_comm_config *config)
{
    struct simnccl_comm *comm = calloc(1, sizeof(*comm));

    if (!comm)
        return NULL;
    comm->config = *config;
    comm->reporter.config = &comm->config;
    simnccl_plugin_open(&comm->reporter);
    simnccl_nvtx_init_rank(&comm->config);
    return comm;
}

void simnccl_comm_destroy(struct simnccl_comm *comm)
{
    if (!comm)
        return;
    simnccl_plugin_close(&comm->reporter);
    free(comm);
}

const struct simnccl_comm_config *simnccl_comm_config(const struct simnccl_comm *comm)
{
    return &comm->config;
}

/* The specialised kernel that stands for a group of operations, mangled. */
static const char *kernel_name(const struct simnccl_op *op)
{
    static const char *const bases[] = {
        [SIMNCCL_ALLREDUCE] = "ncclDevKernel_AllReduce_Sum_%s_RING_LL",
        [SIMNCCL_ALLGATHER] = "ncclDevKernel_AllGather_RING_LL",
        [SIMNCCL_REDUCESCATTER] = "ncclDevKernel_ReduceScatter_Sum_%s_RING_LL",
        [SIMNCCL_BROADCAST] = "ncclDevKernel_Broadcast_RING_LL",
        [SIMNCCL_REDUCE] = "ncclDevKernel_Reduce_Sum_%s_RING_LL",
        [SIMNCCL_SEND] = "ncclDevKernel_SendRecv",
        [SIMNCCL_RECV] = "ncclDevKernel_SendRecv"};
    static char names[7][3][128];
    char *name = names[op->func][op->dtype];
    char base[64];

    if (!name[0]) {
        snprintf(base, sizeof(base), bases[op->func],
                 op->dtype == SIMNCCL_FLOAT32    ? "f32"
                 : op->dtype == SIMNCCL_BFLOAT16 ? "bf16"
                                                 : "u8");
        snprintf(name, sizeof(names[0][0]), "_Z%zu%s%s", strlen(base), base,
                 simnccl_release() >= 222 ? "24ncclDevKernelArgsStorageILm4096EE"
                                          : "P11ncclDevCommm8ncclWork");
    }
    return name;
}

static void kernel_shape(const struct simnccl_op *op, uint32_t grid[3], uint32_t block[3])
{
    size_t bytes = op->count * simnccl_dtype_bytes(op->dtype);

    grid[0] = bytes >= 1u << 20 ? 16 : bytes >= 1u << 16 ? 4 : 1;
    grid[1] = grid[2] = 1;
    block[0] = 512;
    block[1] = block[2] = 1;
}

/* A call alone has its launch inside its range; calls of a group are over when
 * the group's kernel is launched. */
static void ranges(struct simnccl_comm *comm, const struct simnccl_op *ops, int count)
{
    for (int i = 0; i < count; i++) {
        simnccl_nvtx_push(&comm->config, &ops[i]);
        if (count > 1)
            simnccl_nvtx_pop();
    }
}

int64_t simnccl_run(struct simnccl_comm *comm, const struct simnccl_op *ops, int count)
{
    struct simnccl_timing timing = {0};
    void *group_api = NULL, *launch = NULL;
    uint32_t grid[3], block[3];

    simcu_host_advance(CALL_NS * count);
    ranges(comm, ops, count);
    simnccl_report_calls(&comm->reporter, ops, count, &group_api);
    simnccl_report_launch(&comm->reporter, group_api, &launch);
    timing.start = simcu_launch_begin(comm->config.stream);
    simnccl_report_launched(&comm->reporter, launch);
    comm->config.end(comm->config.user, comm, ops, count, &timing);
    kernel_shape(&ops[0], grid, block);
    simcu_launch_end(comm->config.stream, kernel_name(&ops[0]), grid, block, timing.start,
                     timing.end);
    simnccl_report_tasks(&comm->reporter, ops, count, group_api, &timing);
    if (count == 1)
        simnccl_nvtx_pop();
    return timing.end;
}
