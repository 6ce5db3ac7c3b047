/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in libcuda.so.1: enough of the driver's interface to start a
 * process that believes it has GPUs, and the virtual GPU of simcu.h.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "simcu.h"
#include "simcu_driver.h"
#include "simfault.h"

#define LAUNCH_NS 3500     /* what a launch costs the host */
#define QUEUE_DEPTH 1024   /* launches the host may be ahead of the GPU */
#define USER_STREAM_ID 14u /* ids of created streams start here */
#define LEGACY_STREAM_ID 7u
#define MAX_STREAMS 64
#define MAX_DEVICES 16

struct simcu_stream {
    uint32_t id;
    int64_t ready;
};

static struct {
    pthread_mutex_t lock;
    _Atomic int64_t host; /* 0: clock not started */
    _Atomic int64_t visible_offset;
    _Atomic(simcu_sink_fn *) sink;
    struct simcu_stream streams[MAX_STREAMS];
    int stream_count;
    int64_t queue[QUEUE_DEPTH]; /* starts of the last launches */
    uint64_t launches;
    uint32_t correlation;
    int devices, ordinal;
    char node[64];
    int initialised;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .streams = {{.id = LEGACY_STREAM_ID}},
         .stream_count = 1,
         .devices = 1,
         .node = "localhost"};

static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static __thread uint32_t thread_id;
static __thread int64_t thread_time;

static uint32_t this_thread(void)
{
    if (thread_id == 0)
        thread_id = (uint32_t)syscall(SYS_gettid);
    return thread_id;
}

static int64_t wall_now(void)
{
    struct timespec ts;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/*
 * The clock.
 */
void simcu_clock_start(int64_t realtime_ns)
{
    pthread_mutex_lock(&gpu.lock);
    gpu.host = realtime_ns;
    for (int i = 0; i < gpu.stream_count; i++)
        gpu.streams[i].ready = realtime_ns;
    pthread_mutex_unlock(&gpu.lock);
}

void simcu_clock_offset(int64_t offset_ns)
{
    atomic_fetch_add(&gpu.visible_offset, offset_ns);
}

int64_t simcu_host_now(void)
{
    return atomic_load_explicit(&gpu.host, memory_order_relaxed);
}

int64_t simcu_visible(int64_t t)
{
    return t + atomic_load_explicit(&gpu.visible_offset, memory_order_relaxed);
}

int64_t simcu_clock_now(void)
{
    return thread_time ? thread_time : simcu_host_now();
}

void simcu_thread_time(int64_t t)
{
    thread_time = t;
}

static void host_to(int64_t t)
{
    if (t > simcu_host_now())
        atomic_store_explicit(&gpu.host, t, memory_order_relaxed);
}

static void emit(struct simcu_activity *a)
{
    simcu_sink_fn *sink = atomic_load_explicit(&gpu.sink, memory_order_acquire);

    if (!sink)
        return;
    a->tid = this_thread();
    a->device = (uint32_t)gpu.ordinal;
    a->context = 1;
    sink(a);
}

static void tick(void)
{
    struct simcu_activity a = {.kind = SIMCU_TICK};

    emit(&a);
}

void simcu_host_advance(int64_t ns)
{
    if (ns <= 0)
        return;
    pthread_mutex_lock(&gpu.lock);
    host_to(simcu_host_now() + ns);
    pthread_mutex_unlock(&gpu.lock);
    tick();
}

void simcu_host_until(int64_t t)
{
    pthread_mutex_lock(&gpu.lock);
    host_to(t);
    pthread_mutex_unlock(&gpu.lock);
    tick();
}

int simcu_attach(simcu_sink_fn *sink)
{
    simcu_sink_fn *none = NULL;

    if (!sink) {
        atomic_store(&gpu.sink, NULL);
        return 0;
    }
    if (atomic_compare_exchange_strong(&gpu.sink, &none, sink) || none == sink)
        return 0;
    return -1;
}

/*
 * Streams.
 */
simcu_stream_t simcu_stream_default(void)
{
    return &gpu.streams[0];
}

simcu_stream_t simcu_stream_create(void)
{
    simcu_stream_t stream = NULL;

    pthread_mutex_lock(&gpu.lock);
    if (gpu.stream_count < MAX_STREAMS) {
        stream = &gpu.streams[gpu.stream_count];
        stream->id = USER_STREAM_ID + (uint32_t)gpu.stream_count - 1;
        stream->ready = simcu_host_now();
        gpu.stream_count++;
    }
    pthread_mutex_unlock(&gpu.lock);
    return stream;
}

static simcu_stream_t stream_or_default(simcu_stream_t stream)
{
    /* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are small numbers */
    return (uintptr_t)stream <= 2 ? &gpu.streams[0] : stream;
}

uint32_t simcu_stream_id(simcu_stream_t stream)
{
    return stream_or_default(stream)->id;
}

int64_t simcu_stream_ready(simcu_stream_t stream)
{
    return stream_or_default(stream)->ready;
}

void simcu_stream_wait(simcu_stream_t stream, int64_t t)
{
    stream = stream_or_default(stream);
    pthread_mutex_lock(&gpu.lock);
    if (t > stream->ready)
        stream->ready = t;
    pthread_mutex_unlock(&gpu.lock);
}

/*
 * Work.
 */
static void scheduled_faults(uint64_t launches);

/* Pays for a launch; *host_start says when the call began.  Called locked.
 * A full launch queue blocks the host, which the driver reports as overhead. */
static int64_t pay_launch(int64_t *host_start, int64_t *blocked_until)
{
    int64_t oldest = gpu.launches >= QUEUE_DEPTH ? gpu.queue[gpu.launches % QUEUE_DEPTH] : 0;
    int64_t now = simcu_host_now();

    *host_start = now;
    *blocked_until = 0;
    if (oldest > now) {
        *blocked_until = oldest;
        now = oldest;
    }
    host_to(now + LAUNCH_NS);
    return now + LAUNCH_NS;
}

static void note_launch(int64_t start)
{
    gpu.queue[gpu.launches % QUEUE_DEPTH] = start;
    gpu.launches++;
}

static void report_queue_full(int64_t from, int64_t until)
{
    struct simcu_activity a = {
        .kind = SIMCU_OVERHEAD, .code = 6u << 16, .start = from, .end = until};

    if (until - from >= 1000)
        emit(&a);
}

/* Places an activity of the given duration on a stream; its end is returned. */
static int64_t place(simcu_stream_t stream, struct simcu_activity *a, int64_t duration)
{
    int64_t host_start, blocked, launched;

    stream = stream_or_default(stream);
    if (simfault_armed())
        scheduled_faults(gpu.launches + 1);
    pthread_mutex_lock(&gpu.lock);
    launched = pay_launch(&host_start, &blocked);
    a->start = launched > stream->ready ? launched : stream->ready;
    a->end = a->start + (duration > 0 ? duration : 1);
    stream->ready = a->end;
    note_launch(a->start);
    a->stream = stream->id;
    a->correlation = ++gpu.correlation;
    pthread_mutex_unlock(&gpu.lock);
    a->host_start = launched - LAUNCH_NS;
    a->host_end = launched;
    if (blocked)
        report_queue_full(host_start, blocked);
    emit(a);
    return a->end;
}

static void set_shape(struct simcu_activity *a, const char *name, const uint32_t grid[3],
                      const uint32_t block[3])
{
    a->kind = SIMCU_KERNEL;
    a->name = name;
    a->code = 211; /* cudaLaunchKernel */
    a->driver_cbid = 307;
    memcpy(a->grid, grid, sizeof(a->grid));
    memcpy(a->block, block, sizeof(a->block));
}

int64_t simcu_launch(simcu_stream_t stream, const char *name, const uint32_t grid[3],
                     const uint32_t block[3], int64_t duration)
{
    struct simcu_activity a = {0};

    set_shape(&a, name, grid, block);
    return place(stream, &a, duration);
}

int64_t simcu_launch_begin(simcu_stream_t stream)
{
    int64_t host_start, blocked, launched, start;

    stream = stream_or_default(stream);
    if (simfault_armed())
        scheduled_faults(gpu.launches + 1);
    pthread_mutex_lock(&gpu.lock);
    launched = pay_launch(&host_start, &blocked);
    start = launched > stream->ready ? launched : stream->ready;
    note_launch(start);
    pthread_mutex_unlock(&gpu.lock);
    if (blocked)
        report_queue_full(host_start, blocked);
    return start;
}

void simcu_launch_end(simcu_stream_t stream, const char *name, const uint32_t grid[3],
                      const uint32_t block[3], int64_t start, int64_t end)
{
    struct simcu_activity a = {0};

    stream = stream_or_default(stream);
    set_shape(&a, name, grid, block);
    a.driver_cbid = 652; /* cuLaunchKernelEx */
    pthread_mutex_lock(&gpu.lock);
    stream->ready = end;
    a.correlation = ++gpu.correlation;
    a.host_end = simcu_host_now();
    pthread_mutex_unlock(&gpu.lock);
    a.host_start = a.host_end - LAUNCH_NS;
    a.stream = stream->id;
    a.start = start;
    a.end = end;
    emit(&a);
}

int64_t simcu_memcpy(simcu_stream_t stream, uint32_t kind, uint64_t bytes, int peer,
                     int64_t duration)
{
    struct simcu_activity a = {
        .kind = peer >= 0 ? SIMCU_MEMCPY_PEER : SIMCU_MEMCPY, .bytes = bytes, .code = kind};

    a.peer_device = peer >= 0 ? (uint32_t)peer : 0;
    return place(stream, &a, duration);
}

int64_t simcu_memset(simcu_stream_t stream, uint64_t bytes, int64_t duration)
{
    struct simcu_activity a = {.kind = SIMCU_MEMSET, .bytes = bytes};

    return place(stream, &a, duration);
}

int64_t simcu_graph_launch(simcu_stream_t stream, uint32_t graph,
                           const struct simcu_graph_node *nodes, int count)
{
    struct simcu_activity whole = {.kind = SIMCU_GRAPH, .graph = graph, .code = 311};
    int64_t total = 0, at;

    for (int i = 0; i < count; i++)
        total += nodes[i].duration;
    whole.driver_cbid = 514;
    place(stream, &whole, total);
    at = whole.start;
    for (int i = 0; i < count; i++) {
        struct simcu_activity a = {0};

        set_shape(&a, nodes[i].name, nodes[i].grid, nodes[i].block);
        a.graph = graph;
        a.graph_node = ((uint64_t)graph << 32) + (uint64_t)i + 1;
        a.stream = whole.stream;
        a.correlation = whole.correlation;
        a.start = at;
        a.end = at += nodes[i].duration;
        emit(&a);
    }
    return whole.end;
}

static void host_call(struct simcu_activity *a, int64_t ns)
{
    pthread_mutex_lock(&gpu.lock);
    a->start = simcu_host_now();
    host_to(a->start + ns);
    a->end = simcu_host_now();
    a->correlation = ++gpu.correlation;
    pthread_mutex_unlock(&gpu.lock);
    a->host_start = a->start;
    a->host_end = a->end;
    emit(a);
}

void simcu_overhead(uint32_t cupti_overhead_kind, int64_t ns)
{
    struct simcu_activity a = {.kind = SIMCU_OVERHEAD, .code = cupti_overhead_kind};

    host_call(&a, ns);
}

void simcu_malloc(uint64_t bytes, int64_t ns)
{
    struct simcu_activity a = {.kind = SIMCU_API_CALL, .code = 20, .driver_cbid = 243};

    a.bytes = bytes;
    host_call(&a, ns);
}

void simcu_free(uint64_t bytes, int64_t ns)
{
    struct simcu_activity a = {.kind = SIMCU_API_CALL, .code = 22, .driver_cbid = 245};

    /* cudaFree waits for the device */
    simcu_synchronize(NULL);
    a.bytes = bytes;
    host_call(&a, ns);
}

void simcu_synchronize(simcu_stream_t stream)
{
    struct simcu_activity a = {.kind = SIMCU_SYNC, .code = stream ? 3 : 4};
    int64_t until = 0;

    pthread_mutex_lock(&gpu.lock);
    a.start = simcu_host_now();
    for (int i = 0; i < gpu.stream_count; i++)
        if ((!stream || stream_or_default(stream) == &gpu.streams[i]) &&
            gpu.streams[i].ready > until)
            until = gpu.streams[i].ready;
    host_to(until);
    a.end = simcu_host_now();
    a.correlation = ++gpu.correlation;
    a.stream = stream ? stream_or_default(stream)->id : UINT32_MAX;
    pthread_mutex_unlock(&gpu.lock);
    emit(&a);
    tick();
}

/*
 * Faults that are not CUPTI's: the process forks, dies, or its clock jumps at
 * the N-th launch.
 */
static void fork_child(const char *how)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        static const uint32_t one[3] = {1, 1, 1};

        simfault_disarm();
        simcu_launch(NULL, "child_kernel", one, one, 1000);
        simcu_synchronize(NULL);
        if (strcmp(how, "exit") == 0)
            exit(0);
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
}

static void scheduled_faults(uint64_t launches)
{
    const struct simfault *f;

    if ((f = simfault_due("fork", launches)))
        fork_child(f->text);
    if ((f = simfault_due("clock-step", launches)))
        simcu_clock_offset((int64_t)(f->value * 1e6));
    if (simfault_due("kill", launches))
        raise(SIGKILL);
}

/*
 * The driver's interface.
 */
static void load_injection(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    int (*entry)(void);
    void *lib;

    if (!path || !*path || strcmp(path, "none") == 0)
        return;
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return;
    *(void **)&entry = dlsym(lib, "InitializeInjection");
    if (entry)
        entry();
}

static void initialise(void)
{
    const char *ordinal = getenv("SIMGPU_DEVICE");

    if (ordinal)
        gpu.ordinal = atoi(ordinal) % MAX_DEVICES;
    if (gpu.ordinal >= gpu.devices)
        gpu.devices = gpu.ordinal + 1;
    if (simcu_host_now() == 0)
        simcu_clock_start(wall_now());
    gpu.initialised = 1;
    load_injection();
}

void simcu_configure(const char *node, int ordinal, int devices)
{
    snprintf(gpu.node, sizeof(gpu.node), "%s", node);
    gpu.ordinal = ordinal % MAX_DEVICES;
    gpu.devices = devices > MAX_DEVICES ? MAX_DEVICES : devices;
}

int simgpu_is_simulated(void)
{
    return 1;
}

CUresult cuInit(unsigned flags)
{
    if (flags != 0)
        return SIMCU_INVALID_VALUE;
    pthread_once(&init_once, initialise);
    return SIMCU_SUCCESS;
}

static int valid_device(CUdevice device)
{
    return gpu.initialised && device >= 0 && device < gpu.devices;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return SIMCU_INVALID_VALUE;
    *version = 13000;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    if (!gpu.initialised)
        return SIMCU_NOT_INITIALIZED;
    *count = gpu.devices;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!gpu.initialised)
        return SIMCU_NOT_INITIALIZED;
    if (!valid_device(ordinal))
        return SIMCU_INVALID_DEVICE;
    *device = ordinal;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    if (!name || length <= 0)
        return SIMCU_INVALID_VALUE;
    snprintf(name, (size_t)length, "Argus simulated GPU (not real)");
    return SIMCU_SUCCESS;
}

/* FNV-1a, so that a device has the same uuid in each process of its node. */
static uint64_t hash_node(const char *text, uint64_t h)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
    return h;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    uint64_t words[2];

    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    words[0] = hash_node(gpu.node, 0xcbf29ce484222325ULL);
    words[1] = (words[0] ^ 0x5153ULL) * 0x9e3779b97f4a7c15ULL + (uint64_t)device;
    memcpy(uuid->bytes, words, sizeof(words));
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid(uuid, device);
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    if (!id || length < 13)
        return SIMCU_INVALID_VALUE;
    snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)(0x1b + 0x10 * device) & 0xff);
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    switch (attribute) {
    case 1: /* threads a block */
        *value = 1024;
        break;
    case 13: /* clock, kHz */
        *value = 1980000;
        break;
    case 16: /* multiprocessors */
        *value = 132;
        break;
    case 33: /* PCI bus */
        *value = (0x1b + 0x10 * device) & 0xff;
        break;
    case 75: /* compute capability */
        *value = 9;
        break;
    default:
        *value = 0;
    }
    return SIMCU_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    *bytes = (size_t)80 << 30;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    return cuDeviceTotalMem_v2(bytes, device);
}

#define CONTEXT ((CUcontext)(void *)&gpu)

CUresult cuCtxGetCurrent(CUcontext *context)
{
    if (!gpu.initialised)
        return SIMCU_NOT_INITIALIZED;
    *context = CONTEXT;
    return SIMCU_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return gpu.initialised ? SIMCU_SUCCESS : SIMCU_NOT_INITIALIZED;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    return valid_device(device) ? cuCtxGetCurrent(context) : SIMCU_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    return cuCtxCreate_v2(context, 0, device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return valid_device(device) ? SIMCU_SUCCESS : SIMCU_INVALID_DEVICE;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    if (!gpu.initialised)
        return SIMCU_NOT_INITIALIZED;
    *device = gpu.ordinal;
    return SIMCU_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    if (!gpu.initialised)
        return SIMCU_NOT_INITIALIZED;
    simcu_synchronize(NULL);
    return SIMCU_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    if (!gpu.initialised)
        return SIMCU_NOT_INITIALIZED;
    *stream = (CUstream)simcu_stream_create();
    return *stream ? SIMCU_SUCCESS : SIMCU_OUT_OF_MEMORY;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    return SIMCU_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    simcu_synchronize((uintptr_t)stream <= 2 ? simcu_stream_default() : (simcu_stream_t)stream);
    return SIMCU_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    static _Atomic uint64_t next = 0x7f0000000000ULL;

    simcu_malloc(bytes, 20000);
    *pointer = atomic_fetch_add(&next, (bytes + 511) & ~(size_t)511);
    return SIMCU_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    (void)pointer;
    simcu_free(0, 20000);
    return SIMCU_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == SIMCU_SUCCESS ? "no error" : "simulated error";
    return SIMCU_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags)
{
    static void *self;
    Dl_info info;
    char name[128];

    (void)version;
    (void)flags;
    if (!self && dladdr((void *)&gpu, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    snprintf(name, sizeof(name), "%s_v2", symbol);
    *address = self ? dlsym(self, name) : NULL;
    if (!*address && self)
        *address = dlsym(self, symbol);
    return *address ? SIMCU_SUCCESS : SIMCU_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags,
                             int *status)
{
    CUresult rc = cuGetProcAddress(symbol, address, version, flags);

    if (status)
        *status = rc == SIMCU_SUCCESS ? 0 : 1; /* found, symbol not found */
    return rc;
}
