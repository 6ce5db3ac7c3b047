/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process for the script tests to put the collector into.
 *
 *     collector_probe nccl LIBNCCL       two NCCL calls without a GPU: they
 *                                        fail, after their NVTX ranges
 *     collector_probe init COLLECTOR     what the driver does in cuInit
 *     collector_probe reload COLLECTOR   NCCL's way with a plugin, twice
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collector/inject/nccl_facts.h"

static void *need(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    if (!symbol) {
        fprintf(stderr, "probe: %s\n", dlerror());
        exit(2);
    }
    return symbol;
}

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "probe: %s\n", dlerror());
        exit(2);
    }
    return library;
}

static int nccl(const char *path)
{
    typedef int all_reduce_fn(const void *, void *, size_t, int, int, void *, void *);
    typedef int send_fn(const void *, size_t, int, int, void *, void *);
    void *library = load(path);
    all_reduce_fn *all_reduce;
    send_fn *send;
    char buffer[64];
    int a, b;

    *(void **)&all_reduce = need(library, "ncclAllReduce");
    *(void **)&send = need(library, "ncclSend");
    a = all_reduce(buffer, buffer, 1000, 7, 0, NULL, NULL);
    b = send(buffer, 10, 7, 3, NULL, NULL);
    printf("results %d %d\n", a, b);
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    return 0;
}

static int init(const char *path)
{
    int (*initialize)(void);

    *(void **)&initialize = need(load(path), "InitializeInjection");
    printf("InitializeInjection %d\n", initialize());
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    return 0;
}

static int reload(const char *path)
{
    for (int round = 0; round < 2; round++) {
        void *library = load(path), *context = NULL, *handle;
        const struct nccl_profiler_v5 *plugin = need(library, "ncclProfiler_v5");
        static int mask;
        uint64_t d[16] = {NE_COLL_API, 0, 0, 0, 1000};

        d[3] = (uint64_t)(uintptr_t) "AllReduce";
        d[5] = (uint64_t)(uintptr_t) "ncclFloat32";
        if (plugin->init(&context, 77 + (uint64_t)round, &mask, "w", 1, 2, 0, NULL))
            return 1;
        plugin->start(context, &handle, d);
        plugin->finalize(context);
        dlclose(library);
        nanosleep(&(struct timespec){0, 200000000}, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "nccl") == 0)
        return nccl(argv[2]);
    if (argc == 3 && strcmp(argv[1], "init") == 0)
        return init(argv[2]);
    if (argc == 3 && strcmp(argv[1], "reload") == 0)
        return reload(argv[2]);
    fprintf(stderr, "usage: collector_probe nccl|init|reload LIBRARY\n");
    return 2;
}
