/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual GPU of simcu.h: a clock, streams, and what runs on them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "simcu.h"
#include "simfault.h"

#define LAUNCH_NS 3500     /* what a launch costs the host */
#define QUEUE_DEPTH 1024   /* launches the host may be ahead of the GPU */
#define USER_STREAM_ID 14u /* ids of created streams start here */
#define LEGACY_STREAM_ID 7u
#define MAX_STREAMS 64

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
    uint32_t device;
} gpu = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .streams = {{.id = LEGACY_STREAM_ID}}, .stream_count = 1};

static __thread uint32_t thread_id;
static __thread int64_t thread_time;

static uint32_t this_thread(void)
{
    if (thread_id == 0)
        thread_id = (uint32_t)syscall(SYS_gettid);
    return thread_id;
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
    a->device = gpu.device;
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
}

void simcu_host_until(int64_t t)
{
    pthread_mutex_lock(&gpu.lock);
    host_to(t);
    pthread_mutex_unlock(&gpu.lock);
    tick();
}

void simcu_set_device(int ordinal)
{
    gpu.device = (uint32_t)ordinal;
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
