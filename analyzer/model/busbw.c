/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth of a collective, as nccl-tests counts it. */
#include <config.h>
#include <argus/record.h>

#include "analyzer/model/model.h"

double argus_busbw_factor(int func, uint32_t size)
{
    double n = size;

    if (size < 2)
        return 0;
    switch (func) {
    case ARGUS_FUNC_ALLREDUCE:
        return 2 * (n - 1) / n;
    case ARGUS_FUNC_ALLGATHER:
    case ARGUS_FUNC_REDUCESCATTER:
    case ARGUS_FUNC_ALLTOALL:
        return n - 1; /* bytes * n * (n - 1) / n */
    case ARGUS_FUNC_BROADCAST:
    case ARGUS_FUNC_REDUCE:
    case ARGUS_FUNC_SEND:
    case ARGUS_FUNC_RECV:
        return 1;
    default:
        return 0;
    }
}

double argus_algbw_factor(int func, uint32_t size)
{
    if (!(argus_busbw_factor(func, size) > 0))
        return 0;
    switch (func) {
    case ARGUS_FUNC_ALLGATHER:
    case ARGUS_FUNC_REDUCESCATTER:
    case ARGUS_FUNC_ALLTOALL:
        return size; /* what a rank passes is its part */
    default:
        return 1;
    }
}
