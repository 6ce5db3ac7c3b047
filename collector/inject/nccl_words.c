/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's words as the small numbers of the ring. */
#include "collector/inject/nccl.h"

#include <string.h>

/* Functions differ in their first bytes and their length; no string compare
 * on the way of a collective. */
uint8_t argus_nccl_func(const char *s)
{
    if (!s)
        return ARGUS_FUNC_NONE;
    switch (s[0]) {
    case 'A':
        if (s[1] != 'l' || s[2] != 'l')
            break;
        switch (s[3]) {
        case 'R':
            return ARGUS_FUNC_ALLREDUCE;
        case 'G':
            return ARGUS_FUNC_ALLGATHER;
        case 't':
        case 'T':
            return ARGUS_FUNC_ALLTOALL;
        default:
            break;
        }
        break;
    case 'B':
        return s[1] == 'r' ? ARGUS_FUNC_BROADCAST : ARGUS_FUNC_BARRIER;
    case 'G':
        return ARGUS_FUNC_GATHER;
    case 'R':
        if (s[1] != 'e')
            break;
        if (s[2] == 'c')
            return ARGUS_FUNC_RECV;
        if (strncmp(s, "Reduce", 6) == 0)
            return s[6] == 'S' ? ARGUS_FUNC_REDUCESCATTER : ARGUS_FUNC_REDUCE;
        break;
    case 'S':
        if (s[1] == 'c')
            return ARGUS_FUNC_SCATTER;
        if (strncmp(s, "Send", 4) == 0)
            return s[4] == 'R' ? ARGUS_FUNC_SENDRECV : ARGUS_FUNC_SEND;
        break;
    default:
        break;
    }
    return ARGUS_FUNC_OTHER;
}

uint8_t argus_nccl_dtype(const char *s)
{
    static const struct {
        const char *name;
        uint8_t dtype;
    } types[] = {
        {"Float32", ARGUS_DTYPE_F32},       {"Bfloat16", ARGUS_DTYPE_BF16},
        {"Float16", ARGUS_DTYPE_F16},       {"Int8", ARGUS_DTYPE_INT8},
        {"Uint8", ARGUS_DTYPE_UINT8},       {"Int32", ARGUS_DTYPE_INT32},
        {"Int64", ARGUS_DTYPE_INT64},       {"Float64", ARGUS_DTYPE_F64},
        {"Uint32", ARGUS_DTYPE_UINT32},     {"Uint64", ARGUS_DTYPE_UINT64},
        {"Float8e4m3", ARGUS_DTYPE_F8E4M3}, {"Float8e5m2", ARGUS_DTYPE_F8E5M2},
        {"Int", ARGUS_DTYPE_INT32},         {"Char", ARGUS_DTYPE_INT8},
        {"Half", ARGUS_DTYPE_F16},          {"Float", ARGUS_DTYPE_F32},
        {"Double", ARGUS_DTYPE_F64},
    };

    if (!s || strncmp(s, "nccl", 4) != 0)
        return ARGUS_DTYPE_UNKNOWN;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(s + 4, types[i].name) == 0)
            return types[i].dtype;
    }
    return ARGUS_DTYPE_UNKNOWN;
}

uint8_t argus_nccl_algo(const char *s)
{
    if (!s)
        return 0;
    switch (s[0]) {
    case 'T':
        return ARGUS_ALGO_TREE;
    case 'R':
        return ARGUS_ALGO_RING;
    case 'C':
        if (strcmp(s, "COLLNET_DIRECT") == 0)
            return ARGUS_ALGO_COLLNET_DIRECT;
        return strcmp(s, "COLLNET_CHAIN") == 0 ? ARGUS_ALGO_COLLNET_CHAIN : 0;
    case 'N':
        if (strcmp(s, "NVLS") == 0)
            return ARGUS_ALGO_NVLS;
        return strcmp(s, "NVLS_TREE") == 0 ? ARGUS_ALGO_NVLS_TREE : 0;
    case 'P':
        return ARGUS_ALGO_PAT;
    default:
        return 0;
    }
}

uint8_t argus_nccl_proto(const char *s)
{
    if (!s)
        return 0;
    if (s[0] == 'S')
        return ARGUS_PROTO_SIMPLE;
    if (s[0] == 'L' && s[1] == 'L')
        return s[2] == '\0' ? ARGUS_PROTO_LL : s[2] == '1' ? ARGUS_PROTO_LL128 : 0;
    return 0;
}
