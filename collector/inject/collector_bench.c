/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an event costs, beside a plain copy of its 64 bytes into memory of the
 * ring's size.  CUPTI is the test's own, so its time is not in the figures.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/inject/cupti.h"
#include "collector/inject/fake_cupti.h"
#include "collector/inject/nccl.h"
#include "collector/inject/nvtx_facts.h"
#include "collector/inject/python.h"
#include "collector/inject/testkit.h"

#define ROUNDS 200 /* short ones: the best is undisturbed even on a busy machine */
#define RECORDS 18000
#define NAMES 200

int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));

static double plain;

static void report(const char *what, double ns, double budget)
{
    printf("  %-42s %8.1f ns", what, ns);
    if (plain > 0)
        printf("  %6.1fx a plain copy", ns / plain);
    if (budget > 0)
        printf("  budget %.0f: %s", budget, ns <= budget ? "met" : "MISSED");
    printf("\n");
}

/* The consumer's part, outside the timed stretches: everything is read. */
static void consume(void)
{
    struct argus_ring_header *h = argus_ring.header;
    uint64_t head = __atomic_load_n(&h->head, __ATOMIC_ACQUIRE);

    for (uint64_t p = h->tail; p < head; p++)
        argus_ring.slots[p & argus_ring.mask].state = 2 * (p >> argus_ring.shift) + 2;
    h->tail = head;
}

static double best(double (*round_of)(void))
{
    double least = 1e18;

    for (int i = 0; i < ROUNDS; i++) {
        double ns;

        consume();
        ns = round_of();
        if (ns < least)
            least = ns;
    }
    return least;
}

static double copies(void)
{
    static struct argus_record *memory;
    static uint64_t at;
    struct argus_record one = {.type = ARGUS_REC_KERNEL};
    const uint64_t slots = 1 << 19, part = 1 << 14;
    int64_t begin;

    if (!memory) {
        memory = malloc(slots * sizeof(one));
        memset(memory, 1, slots * sizeof(one));
    }
    begin = argus_now(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < part; i++, at++) {
        one.start = (int64_t)i;
        memcpy(&memory[at % slots], &one, sizeof(one));
        __asm__ volatile("" ::"r"(memory) : "memory");
    }
    return (double)(argus_now(CLOCK_MONOTONIC) - begin) / (double)part;
}

static uint8_t *buffer;
static size_t valid;

static void capture_requested(uint8_t **b, size_t *size, size_t *max)
{
    *b = buffer;
    *size = 4u << 20;
    *max = 0;
}

static void capture_completed(void *context, uint32_t stream, uint8_t *b, size_t size, size_t n)
{
    (void)context;
    (void)stream;
    (void)b;
    (void)size;
    valid = n;
}

/* A buffer as a training step leaves it: long mangled names, a few hundred of
 * them, some of them much more often than others. */
static void fill_buffer(void)
{
    static char names[NAMES][160];
    uint64_t t = (uint64_t)argus_now(CLOCK_REALTIME);

    for (int i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof(names[i]),
                 "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIN3c108BFloat16"
                 "EEESt5arrayIPcLm1EEEEviT0_T1_variant_%03d",
                 i);
    buffer = aligned_alloc(4096, 4u << 20);
    memset(buffer, 0, 4u << 20);
    fake_cupti.requested = capture_requested;
    fake_cupti.completed = capture_completed;
    fake_cupti.kinds[CK_CONCURRENT_KERNEL] = true;
    for (uint64_t i = 0; i < RECORDS; i++) {
        struct fake_kernel k = {.name = names[(i * i + i / 7) % NAMES],
                                .start = t + i * 5000,
                                .end = t + i * 5000 + 4000,
                                .stream = 7};

        fake_cupti_kernel(&k);
    }
    fake_cupti_complete();
}

static double kernels(void)
{
    struct cupti_counts counts = {.device = -1};
    int64_t begin = argus_now(CLOCK_MONOTONIC);

    argus_cupti_parse(buffer, valid, argus_now(CLOCK_REALTIME), false, &counts);
    return (double)(argus_now(CLOCK_MONOTONIC) - begin) / (double)counts.seen;
}

static double clearing(void)
{
    static uint8_t *other;
    int64_t begin;

    if (!other)
        other = aligned_alloc(4096, 4u << 20);
    begin = argus_now(CLOCK_MONOTONIC);
    memset(other, 0, valid);
    __asm__ volatile("" ::"r"(other) : "memory");
    return (double)(argus_now(CLOCK_MONOTONIC) - begin) / RECORDS;
}

static void *nccl_context;
static uint64_t coll_api[16] = {NE_COLL_API}, coll[16] = {NE_COLL}, launch[16] = {NE_KERNEL_LAUNCH};

static double nccl_events(uint64_t *descriptor)
{
    enum { N = 5000 };
    void *handle;
    int64_t begin = argus_now(CLOCK_MONOTONIC);

    for (int i = 0; i < N; i++)
        ncclProfiler_v5.start(nccl_context, &handle, descriptor);
    return (double)(argus_now(CLOCK_MONOTONIC) - begin) / N;
}

static double nccl_api(void)
{
    return nccl_events(coll_api);
}

static double nccl_detail(void)
{
    return nccl_events(coll);
}

static double nccl_launch(void)
{
    return nccl_events(launch);
}

static nvtx_function core_functions[17];
static nvtx_function *core_slots[17];

static int module_table(uint32_t module, nvtx_table *table, unsigned *size)
{
    *table = core_slots;
    *size = 16;
    return module == NX_MODULE_CORE;
}

static const void *export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof(callbacks), module_table};

    return id == NX_ETID_CALLBACKS ? &callbacks : NULL;
}

static double nvtx_ranges(void)
{
    enum { N = 5000 };
    int (*push)(const char *) = (int (*)(const char *))core_functions[NX_PUSH_A];
    int (*pop)(void) = (int (*)(void))core_functions[NX_POP];
    int64_t begin = argus_now(CLOCK_MONOTONIC);

    for (int i = 0; i < N; i++) {
        push("forward");
        pop();
    }
    return (double)(argus_now(CLOCK_MONOTONIC) - begin) / (2 * N); /* a callback */
}

/* ---- stacks: an interpreter in this process, asleep in nested calls ---- */

static void *sleep_in_python(void *library)
{
    void (*initialize)(int);
    int (*run)(const char *);

    *(void **)&initialize = dlsym(library, "Py_InitializeEx");
    *(void **)&run = dlsym(library, "PyRun_SimpleString");
    initialize(0);
    run("import time\n"
        "def nested(n):\n"
        "    if n:\n"
        "        nested(n - 1)\n"
        "    else:\n"
        "        time.sleep(3)\n"
        "nested(20)\n");
    return NULL;
}

static void *python_library(void)
{
    char name[64];

    for (int minor = 13; minor >= 8; minor--) {
        void *library;

        snprintf(name, sizeof(name), "libpython3.%d.so.1.0", minor);
        library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
        if (library)
            return library;
    }
    return NULL;
}

static void stacks(void)
{
    void *library = python_library();
    struct python_thread thread;
    char text[4000];
    pthread_t sleeper;
    size_t length = 0;
    unsigned frames = 1;
    double least = 1e18;

    if (!library) {
        printf("  stack sample: no libpython3.8 to 3.13 here, not measured\n");
        return;
    }
    if (pthread_create(&sleeper, NULL, sleep_in_python, library))
        return;
    sleep(1);
    if (argus_python_find() != PYTHON_KNOWN || argus_python_threads(&thread, 1) != 1)
        return;
    for (int i = 0; i < 2000; i++) {
        int64_t begin = argus_now(CLOCK_MONOTONIC);
        bool whole = argus_python_stack(&thread, text, sizeof(text), &length);
        double ns = (double)(argus_now(CLOCK_MONOTONIC) - begin);

        if (whole && ns < least)
            least = ns;
    }
    for (size_t i = 0; i < length; i++)
        frames += text[i] == ';';
    report("stack sample (own thread)", least, 0);
    printf("  %-42s %8u frames, %.0f ns a frame\n", "", frames, least / frames);
    pthread_join(sleeper, NULL);
}

int main(void)
{
    const char *spool = testkit_spool();
    int mask = 0;

    printf("collector, ns an event, best of %d\n", ROUNDS);
    if (argus_ring_open()) {
        fprintf(stderr, "collector_bench: no ring in %s\n", spool);
        return 1;
    }
    while (__atomic_load_n(&argus_ring.limit, __ATOMIC_ACQUIRE) != UINT64_MAX)
        usleep(1000);
    fake_cupti_reset(130001);
    argus_cupti_load(&argus_cupti_calls, &(enum argus_reason){0});
    argus_cupti_version = 130001;
    fill_buffer();
    plain = best(copies);
    report("plain copy of 64 bytes", plain, 0);
    report("CUPTI kernel record to ring (own thread)", best(kernels), 60);
    report("clearing its buffer for CUPTI", best(clearing), 0);

    coll_api[COLL_API_FUNC / 8] = (uint64_t)(uintptr_t) "AllReduce";
    coll_api[COLL_API_COUNT / 8] = 1 << 20;
    coll_api[COLL_API_DTYPE / 8] = (uint64_t)(uintptr_t) "ncclBfloat16";
    coll[V4_COLL_FUNC / 8] = (uint64_t)(uintptr_t) "AllReduce";
    coll[V4_COLL_DTYPE / 8] = (uint64_t)(uintptr_t) "ncclBfloat16";
    coll[V4_COLL_ALGO / 8] = (uint64_t)(uintptr_t) "RING";
    coll[V4_COLL_PROTO / 8] = (uint64_t)(uintptr_t) "SIMPLE";
    ncclProfiler_v5.init(&nccl_context, 1, &mask, "dp", 1, 8, 0, NULL);
    report("NCCL callback: collective called", best(nccl_api), 150);
    report("NCCL callback: its detail", best(nccl_detail), 150);
    report("NCCL callback: kernel launch", best(nccl_launch), 150);

    for (int i = 1; i < 16; i++)
        core_slots[i] = &core_functions[i];
    InitializeInjectionNvtx2(export_table);
    report("NVTX callback (push or pop)", best(nvtx_ranges), 150);
    stacks();
    testkit_clean(spool);
    fflush(NULL);
    _exit(0);
}
