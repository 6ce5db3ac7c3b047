/* SPDX-License-Identifier: Apache-2.0 */
/* Words of other tools' traces as our numbers. */
#include <config.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/import.h"

struct word {
    const char *text;
    int value;
};

/* Lower case without '_' and '-': "_reduce_scatter_base" reads "reducescatterbase". */
static void plain(const char *name, char *out, size_t size)
{
    size_t n = 0;

    for (; *name && n < size - 1; name++) {
        if (*name != '_' && *name != '-' && *name != ' ')
            out[n++] = (char)tolower((unsigned char)*name);
    }
    out[n] = '\0';
}

int import_func(const char *name)
{
    static const struct word words[] = {
        /* the longer one first where one contains the other */
        {"allreduce", ARGUS_FUNC_ALLREDUCE}, {"reducescatter", ARGUS_FUNC_REDUCESCATTER},
        {"allgather", ARGUS_FUNC_ALLGATHER}, {"alltoall", ARGUS_FUNC_ALLTOALL},
        {"broadcast", ARGUS_FUNC_BROADCAST}, {"barrier", ARGUS_FUNC_BARRIER},
        {"sendrecv", ARGUS_FUNC_SENDRECV},   {"gather", ARGUS_FUNC_GATHER},
        {"scatter", ARGUS_FUNC_SCATTER},     {"reduce", ARGUS_FUNC_REDUCE},
        {"send", ARGUS_FUNC_SEND},           {"recv", ARGUS_FUNC_RECV},
    };
    char text[64];

    plain(name, text, sizeof(text));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(text, words[i].text))
            return words[i].value;
    }
    return ARGUS_FUNC_NONE;
}

int import_dtype(const char *name)
{
    static const struct word words[] = {
        {"float", ARGUS_DTYPE_F32},          {"float32", ARGUS_DTYPE_F32},
        {"half", ARGUS_DTYPE_F16},           {"float16", ARGUS_DTYPE_F16},
        {"bfloat16", ARGUS_DTYPE_BF16},      {"double", ARGUS_DTYPE_F64},
        {"float64", ARGUS_DTYPE_F64},        {"int", ARGUS_DTYPE_INT32},
        {"int32", ARGUS_DTYPE_INT32},        {"uint32", ARGUS_DTYPE_UINT32},
        {"long", ARGUS_DTYPE_INT64},         {"longint", ARGUS_DTYPE_INT64},
        {"int64", ARGUS_DTYPE_INT64},        {"uint64", ARGUS_DTYPE_UINT64},
        {"byte", ARGUS_DTYPE_UINT8},         {"uint8", ARGUS_DTYPE_UINT8},
        {"unsignedchar", ARGUS_DTYPE_UINT8}, {"bool", ARGUS_DTYPE_UINT8},
        {"char", ARGUS_DTYPE_INT8},          {"signedchar", ARGUS_DTYPE_INT8},
        {"int8", ARGUS_DTYPE_INT8},          {"float8e4m3fn", ARGUS_DTYPE_F8E4M3},
        {"float8e5m2", ARGUS_DTYPE_F8E5M2},
    };
    char text[32];

    plain(name, text, sizeof(text));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!strcmp(text, words[i].text))
            return words[i].value;
    }
    return ARGUS_DTYPE_UNKNOWN;
}

int import_host_call(const char *name, int *func)
{
    static const struct {
        const char *prefix;
        int kind, func;
    } calls[] = {
        /* func of SYNC as in CUPTI: 1 event, 2 stream wait event, 3 stream, 4 context */
        {"cudaLaunchKernel", ARGUS_CLASS_LAUNCH, 0},
        {"cuLaunchKernel", ARGUS_CLASS_LAUNCH, 0},
        {"cudaLaunchCooperativeKernel", ARGUS_CLASS_LAUNCH, 0},
        {"cuLaunchCooperativeKernel", ARGUS_CLASS_LAUNCH, 0},
        {"cudaGraphLaunch", ARGUS_CLASS_LAUNCH, 0},
        {"cuGraphLaunch", ARGUS_CLASS_LAUNCH, 0},
        {"cudaEventSynchronize", ARGUS_CLASS_SYNC, 1},
        {"cuEventSynchronize", ARGUS_CLASS_SYNC, 1},
        {"cudaStreamSynchronize", ARGUS_CLASS_SYNC, 3},
        {"cuStreamSynchronize", ARGUS_CLASS_SYNC, 3},
        {"cudaDeviceSynchronize", ARGUS_CLASS_SYNC, 4},
        {"cuCtxSynchronize", ARGUS_CLASS_SYNC, 4},
        {"cudaMallocAsync", 0, 0},
        {"cudaMallocHost", 0, 0},
        {"cudaFreeAsync", 0, 0},
        {"cudaFreeHost", 0, 0},
        {"cudaMalloc", ARGUS_CLASS_ALLOC, ARGUS_API_MALLOC},
        {"cudaFree", ARGUS_CLASS_ALLOC, ARGUS_API_FREE},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (!strncmp(name, calls[i].prefix, strlen(calls[i].prefix))) {
            *func = calls[i].func;
            return calls[i].kind;
        }
    }
    return 0;
}

/* first..last in even steps to `size` ranks? */
static int complete(int **ranks, size_t *n, long last, uint32_t size)
{
    int *all, stride;

    if (*n < 2 || size <= *n || size > 1u << 20)
        return -1;
    stride = (*ranks)[1] - (*ranks)[0];
    for (size_t i = 1; i < *n; i++) {
        if ((*ranks)[i] - (*ranks)[i - 1] != stride)
            return -1;
    }
    if ((*ranks)[0] + (int64_t)stride * (size - 1) != last)
        return -1;
    all = realloc(*ranks, size * sizeof(*all));
    if (!all)
        return -1;
    for (size_t i = *n; i < size; i++)
        all[i] = (int)(all[0] + (int64_t)stride * (int64_t)i);
    *ranks = all;
    *n = size;
    return 0;
}

int *import_ranks_parse(const char *text, uint32_t size, size_t *n)
{
    size_t room = 0;
    int shortened = 0, *ranks = NULL;

    *n = 0;
    while (*text) {
        char *end;
        long value;

        if (!strncmp(text, "...", 3)) {
            shortened = 1;
            text += 3;
            continue;
        }
        if (!isdigit((unsigned char)*text)) {
            text++;
            continue;
        }
        value = strtol(text, &end, 10);
        text = end;
        if (value < 0 || value > 1 << 24 || *n >= 1u << 20)
            goto error;
        if (shortened) {
            if (complete(&ranks, n, value, size) != 0)
                goto error;
            return ranks;
        }
        if (*n == room) {
            int *more = realloc(ranks, (room = room ? room * 2 : 16) * sizeof(*more));

            if (!more)
                goto error;
            ranks = more;
        }
        ranks[(*n)++] = (int)value;
    }
    if (*n && !shortened)
        return ranks;
error:
    free(ranks);
    *n = 0;
    return NULL;
}
