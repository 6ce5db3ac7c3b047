/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler plugin: found, called and released as each NCCL release does.
 *
 *   release      tables tried    what it does with events
 *   2.24, 2.25   v2, v1          stopEvent of Coll and P2p even when the handle is NULL
 *   2.26         v3 ... v1       no stop for NULL handles; Coll and P2p need a Group handle
 *   2.27         v4 ... v1       the same
 *   2.28         v5 ... v1       GroupApi, CollApi, P2pApi, KernelLaunch; NULL handles are fine
 *   2.29, 2.30   v6 ... v1       the same; Broadcast has CollApi only
 *
 * Version 1 has another descriptor that no plugin of today fills; a plugin
 * that has nothing newer is treated as none.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simfault.h"
#include "simnccl_profiler.h"

static struct {
    pthread_mutex_t lock;
    void *lib;
    struct simnccl_table *table;
    int version; /* of the table */
    int users;
    int failed; /* remembered for the life of the process */
    int mask;   /* NCCL's global event mask; the plugin may keep its address */
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const func_names[] = {[SIMNCCL_ALLREDUCE] = "AllReduce",
                                         [SIMNCCL_ALLGATHER] = "AllGather",
                                         [SIMNCCL_REDUCESCATTER] = "ReduceScatter",
                                         [SIMNCCL_BROADCAST] = "Broadcast",
                                         [SIMNCCL_REDUCE] = "Reduce",
                                         [SIMNCCL_SEND] = "Send",
                                         [SIMNCCL_RECV] = "Recv"};
static const char *const dtype_names[] = {[SIMNCCL_INT8] = "ncclInt8",
                                          [SIMNCCL_FLOAT32] = "ncclFloat32",
                                          [SIMNCCL_BFLOAT16] = "ncclBfloat16"};

/*
 * Loading.
 */
static void *open_library(void)
{
    const char *name = getenv("NCCL_PROFILER_PLUGIN");
    char path[4096];
    void *lib;

    if (!name || !*name)
        return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
    if (strcmp(name, "none") == 0)
        return NULL;
    if (strcmp(name, "STATIC_PLUGIN") == 0)
        return dlopen(NULL, RTLD_NOW);
    lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib && !strchr(name, '/')) {
        snprintf(path, sizeof(path), "libnccl-profiler-%s.so", name);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return lib;
}

static int newest_table(void)
{
    int release = simnccl_release();

    return release >= 229   ? 6
           : release == 228 ? 5
           : release == 227 ? 4
           : release == 226 ? 3
           : release >= 224 ? 2
                            : 0;
}

static int find_table(void *lib)
{
    char symbol[32];

    for (int v = newest_table(); v >= 2; v--) {
        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", v);
        plugin.table = dlsym(lib, symbol);
        if (plugin.table) {
            plugin.version = v;
            return 0;
        }
    }
    return -1;
}

static void load(void)
{
    if (plugin.lib || plugin.failed || newest_table() == 0)
        return;
    plugin.lib = open_library();
    if (plugin.lib && find_table(plugin.lib) == 0)
        return;
    if (plugin.lib)
        dlclose(plugin.lib);
    plugin.lib = NULL;
    plugin.table = NULL;
    plugin.failed = 1;
}

static void unload_if_last(void)
{
    if (plugin.users > 0 || !plugin.lib)
        return;
    dlclose(plugin.lib);
    plugin.lib = NULL;
    plugin.table = NULL;
}

__attribute__((format(printf, 5, 6))) static void
logger(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    (void)level;
    (void)flags;
    (void)file;
    (void)line;
    (void)format;
}

/* Older tables know nothing of the communicator: newer releases call them
 * through an adapter that leaves that out. */
static int call_init(struct simnccl_reporter *r)
{
    const struct simnccl_comm_config *c = r->config;
    union {
        void *p;
        simnccl_init_v2 *v2;
        simnccl_init_v4 *v4;
        simnccl_init_v5 *v5;
    } init = {.p = plugin.table->init};

    if (plugin.version <= 3)
        return init.v2(&r->context, &plugin.mask);
    if (plugin.version == 4)
        return init.v4(&r->context, &plugin.mask, c->name, c->id, c->nodes, c->ranks, c->rank,
                       logger);
    return init.v5(&r->context, c->id, &plugin.mask, c->name, c->nodes, c->ranks, c->rank, logger);
}

int simnccl_plugin_open(struct simnccl_reporter *r)
{
    pthread_mutex_lock(&plugin.lock);
    load();
    if (plugin.lib) {
        plugin.users++;
        if (call_init(r) == 0) {
            r->initialised = 1;
        } else {
            plugin.users--;
            plugin.mask = 0;
            unload_if_last();
        }
    }
    pthread_mutex_unlock(&plugin.lock);
    return r->initialised;
}

void simnccl_plugin_close(struct simnccl_reporter *r)
{
    if (!r->initialised)
        return;
    simnccl_proxy_drain();
    pthread_mutex_lock(&plugin.lock);
    plugin.table->finalize(r->context);
    r->initialised = 0;
    plugin.users--;
    unload_if_last();
    pthread_mutex_unlock(&plugin.lock);
}

/*
 * Descriptors.
 */
void simnccl_event_put32(struct descriptor *d, unsigned at, int32_t v)
{
    memcpy(d->bytes + at, &v, sizeof(v));
}

static void put64(struct descriptor *d, unsigned at, uint64_t v)
{
    memcpy(d->bytes + at, &v, sizeof(v));
}

static void put_pointer(struct descriptor *d, unsigned at, const void *v)
{
    memcpy(d->bytes + at, &v, sizeof(v));
}

void simnccl_event_begin(struct descriptor *d, const struct simnccl_reporter *r, uint64_t type,
                         void *parent)
{
    /* what an adapter does not fill is whatever stood on the stack */
    memset(d->bytes, 0, sizeof(d->bytes));
    if (plugin.version >= 5)
        put64(d, 0, type);
    else
        d->bytes[0] = (uint8_t)type;
    put_pointer(d, 8, parent);
    simnccl_event_put32(d, 16, r->config->rank);
}

/* 0 from 2.28 on where a type is unknown to an older table: the adapter drops it. */
static int known(uint64_t type)
{
    return plugin.version >= 5 || type < EVENT_GROUP_API;
}

void simnccl_event_start(struct simnccl_reporter *r, struct descriptor *d, uint64_t type,
                         void **handle)
{
    *handle = NULL;
    if (known(type))
        plugin.table->start_event(r->context, handle, d->bytes);
}

void simnccl_event_stop(void *handle)
{
    if (handle || simnccl_release() <= 225)
        plugin.table->stop_event(handle);
}

void simnccl_event_state(void *handle, int state, uint64_t bytes, int steps)
{
    uint64_t arguments[2] = {bytes, 0}; /* v4 and later: the first word alone */

    if (plugin.version <= 3)
        memcpy(&arguments[1], &steps, 1);
    if (handle || simnccl_release() <= 225)
        plugin.table->record_state(handle, state, arguments);
}

/* Counts and types as the task events give them: all-gather and broadcast speak in bytes. */
static void task_count(const struct simnccl_op *op, uint64_t *count, const char **dtype)
{
    *count = op->count;
    *dtype = dtype_names[op->dtype];
    if (op->func == SIMNCCL_ALLGATHER || op->func == SIMNCCL_BROADCAST) {
        *count = op->count * simnccl_dtype_bytes(op->dtype);
        *dtype = dtype_names[SIMNCCL_INT8];
    }
}

static int is_p2p(const struct simnccl_op *op)
{
    return op->func == SIMNCCL_SEND || op->func == SIMNCCL_RECV;
}

struct task_offsets {
    unsigned sequence, func, send, recv, count, root, dtype, channels, algo, proto;
};

static void fill_coll(struct descriptor *d, struct simnccl_reporter *r, const struct simnccl_op *op)
{
    static const struct task_offsets offsets[] = {[2] = {40, 48, 56, 64, 72, 80, 88, 104, 112, 120},
                                                  [3] = {40, 48, 56, 64, 72, 80, 88, 96, 104, 112},
                                                  [4] = {24, 32, 40, 48, 56, 64, 72, 80, 88, 96},
                                                  [5] = {24, 32, 40, 48, 56, 64, 72, 80, 88, 96},
                                                  [6] = {24, 32, 40, 48, 56, 64, 72, 80, 88, 96}};
    const struct task_offsets *o = &offsets[plugin.version];
    int adapted = plugin.version <= 3 && simnccl_release() >= 227;
    const char *dtype;
    uint64_t count;

    task_count(op, &count, &dtype);
    if (plugin.version <= 3) {
        put_pointer(d, 24, adapted ? NULL : r->config->name);
        put64(d, 32, adapted ? 0 : r->config->id);
    }
    put64(d, o->sequence, r->sequence[op->func]++);
    put_pointer(d, o->func, func_names[op->func]);
    put64(d, o->count, count);
    simnccl_event_put32(d, o->root, op->peer >= 0 ? op->peer : 0);
    put_pointer(d, o->dtype, dtype);
    d->bytes[o->channels] = 16;
    d->bytes[o->channels + 1] = 16;
    put_pointer(d, o->algo, "RING");
    put_pointer(d, o->proto, count >= 1u << 20 ? "SIMPLE" : "LL");
}

static void fill_p2p(struct descriptor *d, struct simnccl_reporter *r, const struct simnccl_op *op)
{
    unsigned func = plugin.version >= 4 ? 24 : 40;
    int adapted = plugin.version <= 3 && simnccl_release() >= 227;

    if (plugin.version <= 3) {
        put_pointer(d, 24, adapted ? NULL : r->config->name);
        put64(d, 32, adapted ? 0 : r->config->id);
    }
    put_pointer(d, func, func_names[op->func]);
    put_pointer(d, func + 16, dtype_names[op->dtype]);
    put64(d, func + 24, op->count);
    simnccl_event_put32(d, func + 32, op->peer);
    if (plugin.version >= 5 || (plugin.version == 4 && simnccl_release() == 227))
        d->bytes[func + 36] = 2;
}

int simnccl_event_wanted(int types)
{
    return plugin.mask & types;
}

/* From 2.28 asking for tasks brings the API events too. */
static int wants_api(const struct simnccl_reporter *r)
{
    return r->initialised && simnccl_release() >= 228 &&
           simnccl_event_wanted(EVENT_GROUP_API | EVENT_COLL_API | EVENT_P2P_API | EVENT_COLL |
                                EVENT_P2P | EVENT_PROXY_OP | EVENT_PROXY_STEP | EVENT_KERNEL_CH);
}

void simnccl_report_calls(struct simnccl_reporter *r, const struct simnccl_op *ops, int count,
                          void **group_api)
{
    struct descriptor d;

    *group_api = NULL;
    if (!wants_api(r))
        return;
    simnccl_event_begin(&d, r, EVENT_GROUP_API, NULL);
    simnccl_event_put32(&d, 28, 1);
    simnccl_event_start(r, &d, EVENT_GROUP_API, group_api);
    for (int i = 0; i < count; i++) {
        uint64_t type = is_p2p(&ops[i]) ? EVENT_P2P_API : EVENT_COLL_API;
        void *handle;

        simnccl_event_begin(&d, r, type, *group_api);
        put_pointer(&d, 24, func_names[ops[i].func]);
        put64(&d, 32, ops[i].count);
        put_pointer(&d, 40, dtype_names[ops[i].dtype]);
        if (is_p2p(&ops[i])) {
            put_pointer(&d, 48, r->config->stream);
        } else {
            simnccl_event_put32(&d, 48, ops[i].peer >= 0 ? ops[i].peer : 0);
            put_pointer(&d, 56, r->config->stream);
        }
        simnccl_event_start(r, &d, type, &handle);
        simnccl_event_stop(handle);
    }
}

/* Broadcast left the task path in 2.29; a plan of nothing else has no events. */
static int has_task(const struct simnccl_op *op)
{
    return !(op->func == SIMNCCL_BROADCAST && simnccl_release() >= 229);
}

void simnccl_report_launch(struct simnccl_reporter *r, void *group_api, void **launch)
{
    struct descriptor d;

    *launch = NULL;
    if (!r->initialised || simnccl_release() < 228 || !simnccl_event_wanted(EVENT_KERNEL_LAUNCH))
        return;
    simnccl_event_begin(&d, r, EVENT_KERNEL_LAUNCH, group_api);
    put_pointer(&d, 24, r->config->stream);
    simnccl_event_start(r, &d, EVENT_KERNEL_LAUNCH, launch);
}

void simnccl_report_launched(struct simnccl_reporter *r, void *launch)
{
    if (r->initialised && launch)
        plugin.table->stop_event(launch);
}

static void report_task(struct simnccl_reporter *r, const struct simnccl_op *op, void *group,
                        const struct simnccl_timing *timing)
{
    uint64_t type = is_p2p(op) ? EVENT_P2P : EVENT_COLL;
    struct descriptor d;
    void *handle;

    simnccl_event_begin(&d, r, type, group);
    if (is_p2p(op))
        fill_p2p(&d, r, op);
    else
        fill_coll(&d, r, op);
    if (plugin.version >= 5)
        put_pointer(&d, is_p2p(op) ? 64 : 104, group);
    simnccl_event_start(r, &d, type, &handle);
    simnccl_proxy_report(r, op, handle, timing);
    if (!simfault_find("nccl-missing-stop"))
        simnccl_event_stop(handle);
    if (simfault_find("nccl-double-stop"))
        simnccl_event_stop(handle);
    if (simfault_find("nccl-stop-null"))
        plugin.table->stop_event(NULL);
    if (simfault_find("nccl-unknown-type") && plugin.version >= 5) {
        simnccl_event_begin(&d, r, 1u << 20, handle);
        simnccl_event_start(r, &d, 1u << 20, &handle);
        simnccl_event_stop(handle);
    }
}

void simnccl_report_tasks(struct simnccl_reporter *r, const struct simnccl_op *ops, int count,
                          void *group_api, const struct simnccl_timing *timing)
{
    struct descriptor d;
    void *group = NULL;
    int tasks = 0;

    if (!r->initialised)
        return;
    for (int i = 0; i < count; i++)
        tasks += has_task(&ops[i]);
    if (tasks > 0 && simnccl_event_wanted(EVENT_GROUP | EVENT_COLL | EVENT_P2P | EVENT_PROXY_OP |
                                          EVENT_PROXY_STEP | EVENT_KERNEL_CH)) {
        simnccl_event_begin(&d, r, EVENT_GROUP, group_api);
        simnccl_event_start(r, &d, EVENT_GROUP, &group);
        for (int i = 0; i < count && (group || simnccl_release() >= 228); i++)
            if (has_task(&ops[i]) && simnccl_event_wanted(EVENT_COLL | EVENT_P2P | EVENT_PROXY_OP |
                                                          EVENT_PROXY_STEP | EVENT_KERNEL_CH))
                report_task(r, &ops[i], group, timing);
        if (group)
            plugin.table->stop_event(group);
    }
    if (group_api)
        plugin.table->stop_event(group_api);
}
