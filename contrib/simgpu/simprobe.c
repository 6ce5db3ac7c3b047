/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profiler of the plainest kind, for the tests of the stand-ins: injected
 * into a process like a collector, it writes all it is told to the text file
 * $SIMPROBE_OUT.<rank>, one line an event, as it comes.
 *
 *   record <kind> <start> <end> <stream> <correlation> <grid> <bytes or code> <name>
 *   buffer <lane's thread> <valid bytes>      dropped <n>      enable <kind> <result>
 *   nccl <version> init|start|stop|state|finalize ...          push <name>      pop
 *   range <domain> <name> [schema <id> bytes <n>: <words>]     end <domain> [...]
 *
 * SIMPROBE_CUPTI: the library (libcupti.so.13).  SIMPROBE_KINDS: numbers with commas.
 * SIMPROBE_MASK: NCCL's event mask.  SIMPROBE_MALLOC: cudaMalloc and cudaFree, too.
 * SIMPROBE_BUFFER: bytes of a buffer, 0: hands NULL out.  SIMPROBE_HANDLES=1: gives handles.
 * SIMPROBE_NO_EXIT_FLUSH: what no FlushAll(0) returned stays where it is.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simcupti_layout.h"
#include "simnccl_profiler.h"

static struct {
    int (*version)(uint32_t *);
    int (*callbacks)(void (*)(uint8_t **, size_t *, size_t *),
                     void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
    int (*enable)(unsigned);
    int (*disable)(unsigned);
    int (*flush)(uint32_t);
    int (*next)(uint8_t *, size_t, uint8_t **);
    int (*dropped)(void *, uint32_t, size_t *);
    int (*runtime_api)(uint32_t, uint8_t);
    int (*stream_id)(void *, void *, uint8_t, uint32_t *);
} cupti;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static pid_t owner;

/* A child must not write what its parent has buffered. */
static void forget_file(void)
{
    if (out)
        __fpurge(out);
    out = NULL;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    const char *prefix = getenv("SIMPROBE_OUT"), *rank = getenv("RANK");
    char path[4096];
    va_list args;

    if (owner && owner != getpid())
        return;
    pthread_mutex_lock(&lock);
    if (!out && prefix) {
        owner = getpid();
        snprintf(path, sizeof(path), "%s.%s", prefix, rank ? rank : "0");
        out = fopen(path, "w");
        pthread_atfork(NULL, NULL, forget_file);
    }
    if (out) {
        va_start(args, format);
        vfprintf(out, format, args);
        va_end(args);
        fputc('\n', out);
    }
    pthread_mutex_unlock(&lock);
}

static uint32_t u32(const uint8_t *p, unsigned at)
{
    uint32_t v;

    memcpy(&v, p + at, sizeof(v));
    return v;
}

static unsigned long long u64(const uint8_t *p, unsigned at)
{
    uint64_t v;

    memcpy(&v, p + at, sizeof(v));
    return v;
}

static const char *text(const uint8_t *p, unsigned at)
{
    const char *v;

    memcpy(&v, p + at, sizeof(v));
    return v ? v : "-";
}

static void say_record(const uint8_t *p)
{
    unsigned kind = u32(p, 0);

    switch (kind) {
    case KIND_KERNEL:
    case KIND_CONCURRENT_KERNEL:
        say("record %u %llu %llu %u %u %u %u %s", kind, u64(p, KERNEL_START), u64(p, KERNEL_END),
            u32(p, KERNEL_STREAM), u32(p, KERNEL_CORRELATION), u32(p, KERNEL_GRID),
            u32(p, KERNEL_GRAPH), text(p, KERNEL_NAME));
        break;
    case KIND_MEMCPY:
        say("record %u %llu %llu %u %u %u %llu copy", kind, u64(p, COPY_START), u64(p, COPY_END),
            u32(p, COPY_STREAM), u32(p, COPY_CORRELATION), p[COPY_KIND], u64(p, COPY_BYTES));
        break;
    case KIND_MEMSET:
        say("record %u %llu %llu %u %u 0 %llu set", kind, u64(p, SET_START), u64(p, SET_END),
            u32(p, SET_STREAM), u32(p, SET_CORRELATION), u64(p, SET_BYTES));
        break;
    case KIND_OVERHEAD:
        say("record %u %llu %llu 0 0 0 %u overhead", kind, u64(p, OVERHEAD_START),
            u64(p, OVERHEAD_END), u32(p, OVERHEAD_KIND) >> 16);
        break;
    case KIND_RUNTIME:
    case KIND_DRIVER:
        say("record %u %llu %llu 0 %u 0 %u call", kind, u64(p, API_START), u64(p, API_END),
            u32(p, API_CORRELATION), u32(p, API_CBID));
        break;
    default:
        say("record %u", kind);
    }
}

static void requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    const char *bytes = getenv("SIMPROBE_BUFFER");

    *size = bytes ? (size_t)atol(bytes) : 1u << 20;
    *max_records = 0;
    *buffer = *size ? aligned_alloc(8, *size) : NULL;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    uint8_t *record = NULL;
    size_t dropped = 0;

    (void)context;
    (void)stream;
    (void)size;
    say("buffer %ld %zu", (long)syscall(SYS_gettid), valid);
    while (cupti.next(buffer, valid, &record) == 0)
        say_record(record);
    if (cupti.dropped(NULL, 0, &dropped) == 0 && dropped)
        say("dropped %zu", dropped);
    free(buffer);
}

static int find(const char *library)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_NOLOAD);

    if (!lib)
        lib = dlopen(library, RTLD_NOW);
    if (!lib)
        return -1;
    *(void **)&cupti.version = dlsym(lib, "cuptiGetVersion");
    *(void **)&cupti.callbacks = dlsym(lib, "cuptiActivityRegisterCallbacks");
    *(void **)&cupti.enable = dlsym(lib, "cuptiActivityEnable");
    *(void **)&cupti.disable = dlsym(lib, "cuptiActivityDisable");
    *(void **)&cupti.flush = dlsym(lib, "cuptiActivityFlushAll");
    *(void **)&cupti.next = dlsym(lib, "cuptiActivityGetNextRecord");
    *(void **)&cupti.dropped = dlsym(lib, "cuptiActivityGetNumDroppedRecords");
    *(void **)&cupti.runtime_api = dlsym(lib, "cuptiActivityEnableRuntimeApi");
    *(void **)&cupti.stream_id = dlsym(lib, "cuptiGetStreamIdEx");
    return cupti.version && cupti.callbacks && cupti.enable && cupti.flush && cupti.next ? 0 : -1;
}

static void at_exit(void)
{
    size_t dropped = 0;

    if (owner != getpid())
        return;
    cupti.flush(0);
    say("flush 0");
    if (!getenv("SIMPROBE_NO_EXIT_FLUSH"))
        cupti.flush(1);
    if (cupti.dropped(NULL, 0, &dropped) == 0 && dropped)
        say("dropped %zu", dropped);
    if (out)
        fclose(out);
    out = NULL;
    owner = -1;
}

__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void)
{
    const char *library = getenv("SIMPROBE_CUPTI"), *list = getenv("SIMPROBE_KINDS");
    char kinds[128], *kind, *rest;
    uint32_t version = 0;

    say("injected");
    if (find(library ? library : "libcupti.so.13") < 0)
        return 1;
    cupti.version(&version);
    say("version %u", version);
    say("callbacks %d", cupti.callbacks(requested, completed));
    snprintf(kinds, sizeof(kinds), "%s", list ? list : "10,1,2,22,17");
    for (kind = strtok_r(kinds, ",", &rest); kind; kind = strtok_r(NULL, ",", &rest))
        say("enable %s %d", kind, cupti.enable((unsigned)atoi(kind)));
    if (getenv("SIMPROBE_MALLOC") && cupti.runtime_api)
        say("filter %d %d", cupti.runtime_api(20, 1), cupti.runtime_api(22, 1));
    atexit(at_exit);
    return 1;
}

/*
 * NVTX.
 */
static int on_push(const char *name)
{
    say("push %s", name);
    return 0;
}

static int on_pop(void)
{
    say("pop");
    return 0;
}

static void *on_domain(const char *name)
{
    return strdup(name);
}

static void *on_string(void *domain, const char *text_of)
{
    (void)domain;
    return strdup(text_of);
}

/* Event attributes by offset: payload type 16, count 20, payload 24, message 40 */
static int on_push_ex(void *domain, const uint8_t *a)
{
    const uint8_t *payload, *data;

    if (u32(a, 16) != 0xDFBD0009) {
        say("range %s %s", (const char *)domain, text(a, 40));
        return 0;
    }
    memcpy(&payload, a + 24, sizeof(payload));
    memcpy(&data, payload + 16, sizeof(data));
    say("range %s %s schema %llx bytes %llu: %llx %llx %d", (const char *)domain, text(a, 40),
        u64(payload, 0), u64(payload, 8), u64(data, 0), u64(data, 8),
        u64(payload, 8) > 16 ? (int)u32(data, 16) : -1);
    return 0;
}

static int on_domain_pop(void *domain)
{
    say("end %s", (const char *)domain);
    return 0;
}

static int on_pop_payload(void *domain, const uint8_t *payload, size_t count)
{
    const uint8_t *data;

    memcpy(&data, payload + 16, sizeof(data));
    say("end %s with %zu schema %llx: %llx %d %d", (const char *)domain, count, u64(payload, 0),
        u64(data, 0), (int)u32(data, 8), (int)u32(data, 12));
    return 0;
}

struct callbacks_table {
    size_t size;
    int (*functions)(uint32_t module, void ****table, uint32_t *size);
};
struct extension {
    uint16_t version, size, module, compatible;
    size_t segments;
    struct {
        size_t id, slots;
        intptr_t *functions;
    } * segment;
};

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    const struct callbacks_table *callbacks = export_table(1);
    void ***table;
    uint32_t size;

    if (!callbacks || !callbacks->functions(1, &table, &size))
        return 0;
    *table[9] = (void *)on_push;
    *table[11] = (void *)on_pop;
    if (!callbacks->functions(5, &table, &size))
        return 0;
    *table[4] = (void *)on_push_ex;
    *table[5] = (void *)on_domain_pop;
    *table[10] = (void *)on_string;
    *table[12] = (void *)on_domain;
    return 1;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(struct extension *e);
int InitializeInjectionNvtxExtension(struct extension *e)
{
    if (e->version != 3 || e->module != 2 || e->size != 40)
        return 0;
    e->segment[0].functions[4] = (intptr_t)on_pop_payload;
    return 1;
}

/*
 * NCCL's profiler, tables 2 to 6.  A handle is the address of a small number.
 */
static char handles[256];
static _Atomic unsigned next_handle;

static void init_said(int version, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                      int rank)
{
    const char *wanted = getenv("SIMPROBE_MASK");

    *mask = wanted ? atoi(wanted) : 2 | 4 | 512 | 1024 | 2048;
    say("nccl %d init %s %016llx %d %d %d", version, name ? name : "-", (unsigned long long)id,
        nodes, ranks, rank);
}

__attribute__((unused)) static int init_v2(void **context, int *mask)
{
    *context = NULL;
    init_said(2, mask, NULL, 0, 0, 0, 0);
    return 0;
}

__attribute__((unused)) static int init_v4(void **context, int *mask, const char *name,
                                           uint64_t hash, int nodes, int ranks, int rank,
                                           simnccl_logger_fn *logger)
{
    (void)logger;
    *context = NULL;
    init_said(4, mask, name, hash, nodes, ranks, rank);
    return 0;
}

__attribute__((unused)) static int init_v5(void **context, uint64_t id, int *mask, const char *name,
                                           int nodes, int ranks, int rank,
                                           simnccl_logger_fn *logger)
{
    (void)logger;
    *context = NULL;
    init_said(5, mask, name, id, nodes, ranks, rank);
    return 0;
}

/* Where func, dtype and count stand; 0: this type has none. */
static void say_start(int version, unsigned long long type, const uint8_t *d)
{
    unsigned func = 0, dtype = 0, count = 0, peer = 0;
    uint32_t stream = 0;
    void *handle;

    if (type == EVENT_COLL) {
        func = version <= 3 ? 48 : 32;
        count = version <= 3 ? 72 : 56;
        dtype = version <= 3 ? 88 : 72;
        peer = version <= 3 ? 80 : 64;
    } else if (type == EVENT_P2P) {
        func = version <= 3 ? 40 : 24;
        dtype = func + 16;
        count = func + 24;
        peer = func + 32;
    } else if (type == EVENT_COLL_API || type == EVENT_P2P_API) {
        func = 24;
        count = 32;
        dtype = 40;
        peer = type == EVENT_COLL_API ? 48 : 0;
    } else if (type == EVENT_KERNEL_LAUNCH) {
        memcpy(&handle, d + 24, sizeof(handle));
        if (cupti.stream_id)
            cupti.stream_id(NULL, handle, 0, &stream);
        say("nccl %d start %llu stream %u", version, type, stream);
        return;
    } else if (type == EVENT_PROXY_OP) {
        say("nccl %d start %llu pid %d own %d peer %d steps %d send %d", version, type,
            (int)u32(d, 24), u32(d, 24) == (uint32_t)getpid(), (int)u32(d, 32), (int)u32(d, 36),
            (int)u32(d, 44));
        return;
    }
    if (func)
        say("nccl %d start %llu %s %llu %s %d", version, type, text(d, func), u64(d, count),
            text(d, dtype), peer ? (int)u32(d, peer) : -1);
    else
        say("nccl %d start %llu", version, type);
}

static int start_event(int version, void **handle, const uint8_t *d)
{
    unsigned long long type = version >= 5 ? u64(d, 0) : d[0];

    say_start(version, type, d);
    if (getenv("SIMPROBE_HANDLES"))
        *handle = &handles[next_handle++ % sizeof(handles)];
    else if (type == EVENT_GROUP)
        *handle = &handles[0];
    return 0;
}

#define STARTER(v)                                                                                 \
    __attribute__((unused)) static int start_v##v(void *context, void **handle, void *d)           \
    {                                                                                              \
        (void)context;                                                                             \
        return start_event(v, handle, d);                                                          \
    }
STARTER(2)
STARTER(3)
STARTER(4)
STARTER(5)
STARTER(6)

static long long now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (long long)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int stop_event(void *handle)
{
    say("nccl 0 stop %s %lld", handle ? "handle" : "NULL", now());
    return 0;
}

static int record_state(void *handle, int state, void *arguments)
{
    (void)arguments;
    say("nccl 0 state %d %s %lld", state, handle ? "handle" : "NULL", now());
    return 0;
}

static int finalize(void *context)
{
    (void)context;
    say("nccl 0 finalize");
    if (out)
        fflush(out);
    return 0;
}

#define TABLE(v, i)                                                                                \
    __attribute__((visibility("default"))) struct simnccl_table ncclProfiler_v##v;                 \
    struct simnccl_table ncclProfiler_v##v = {"simprobe", (void *)init_v##i, start_v##v,           \
                                              stop_event, record_state,      finalize};
#ifdef SIMPROBE_V2
TABLE(2, 2)
#endif
#ifdef SIMPROBE_V3
TABLE(3, 2)
#endif
#ifdef SIMPROBE_V4
TABLE(4, 4)
#endif
#ifdef SIMPROBE_V5
TABLE(5, 5)
#endif
#ifdef SIMPROBE_V6
TABLE(6, 5)
#endif
