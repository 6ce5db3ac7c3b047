/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVTX source: finished ranges as MARK records.
 *
 * NVTX is header-only: each library of the process that uses it calls our
 * entry points for itself, with tables of its own.  Nothing here depends on
 * which of them calls.  Domains and registered strings come long before there
 * is anything to record; they are kept as text and interned when used.
 *
 * NCCL's domain is read apart (nvtx_nccl.c) and makes no marks.
 */
#include "collector/inject/nvtx.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define DOMAINS 256
#define STRINGS 4096
#define OPEN_RANGES 1024
#define LOOK_NS 200000000LL

ARGUS_EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));
ARGUS_EXPORT int InitializeInjectionNvtxExtension(struct nvtx_extension *module);

struct domain {
    const char *text;
    uint32_t name; /* atomic; offset once interned */
    bool nccl;
};
struct string {
    const char *text;
    uint32_t name; /* atomic */
};
struct open_range {
    uint64_t id; /* atomic; 0: free */
    int64_t start;
    uint32_t name, domain, tid;
};

static struct domain domains[DOMAINS];
static struct string strings[STRINGS];
static struct open_range open_ranges[OPEN_RANGES];
static uint32_t domains_used, strings_used; /* atomic */
static uint64_t next_range;                 /* atomic */

/*
 * Ranges alone do not open a ring: launchers, data loaders and tools make
 * ranges too.  A process that has the driver mapped is another matter.
 */
static bool wanted(void)
{
    static int64_t looked; /* atomic */
    int64_t now, before;
    void *driver;
    int saved = errno;

    if (likely(argus_ring_is_open()))
        return !argus_dead();
    if (argus_dead() || __atomic_load_n(&argus_ring.state, __ATOMIC_RELAXED) == RING_FAILED)
        return false;
    now = argus_now(CLOCK_MONOTONIC);
    before = __atomic_load_n(&looked, __ATOMIC_RELAXED);
    if (now - before < LOOK_NS || !__atomic_compare_exchange_n(&looked, &before, now, false,
                                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return false;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver)
        dlclose(driver);
    errno = saved;
    return driver && argus_ring_open() == 0;
}

static uint32_t interned(const char *text, uint32_t *cell)
{
    uint32_t name = __atomic_load_n(cell, __ATOMIC_RELAXED);

    if (!name && text) {
        name = argus_nvtx_name(text);
        __atomic_store_n(cell, name, __ATOMIC_RELAXED);
    }
    return name;
}

static struct domain *domain_of(void *handle)
{
    struct domain *d = handle;

    return d >= domains && d < domains + DOMAINS ? d : NULL;
}

static uint32_t domain_name(struct domain *d)
{
    return d ? interned(d->text, &d->name) : ARGUS_NAME_NONE;
}

static uint32_t message_name(const struct nvtx_attributes *a)
{
    struct string *s;

    if (a->size < sizeof(*a))
        return ARGUS_NAME_NONE;
    switch (a->message_type) {
    case NX_MESSAGE_ASCII:
        return argus_nvtx_name(a->message);
    case NX_MESSAGE_UNICODE:
        return argus_nvtx_wide_name(a->message);
    case NX_MESSAGE_REGISTERED:
        s = (struct string *)(uintptr_t)a->message;
        if (s >= strings && s < strings + STRINGS)
            return interned(s->text, &s->name);
        return ARGUS_NAME_NONE;
    default:
        return ARGUS_NAME_NONE;
    }
}

static void mark(int64_t start, int64_t end, uint32_t name, uint32_t domain, uint32_t level,
                 uint32_t tid)
{
    struct argus_record *r = argus_ring_claim(ARGUS_SOURCE_NVTX, ARGUS_REC_MARK, 0, tid);

    if (!r)
        return;
    r->start = start;
    r->end = end;
    r->u.mark.name = name;
    r->u.mark.domain = domain;
    r->u.mark.level = level;
    r->u.mark.pad = 0;
    r->u.mark.pad2[0] = r->u.mark.pad2[1] = 0;
    argus_ring_commit(r, ARGUS_SOURCE_NVTX);
}

/* ---- push and pop: a stack a thread, shared by the domains ---- */

static int push(struct domain *d, uint32_t name)
{
    struct argus_thread *t = argus_thread_self();
    uint32_t depth;

    if (!t)
        return -1;
    depth = t->depth++;
    if (depth < ARGUS_NVTX_DEPTH) {
        t->ranges[depth].start = argus_now(CLOCK_REALTIME);
        t->ranges[depth].name = name;
        t->ranges[depth].domain = d ? (uint32_t)(d - domains) + 1 : 0;
    }
    return (int)depth;
}

static int pop(struct domain *d)
{
    struct argus_thread *t = argus_thread_self();
    uint32_t id = d ? (uint32_t)(d - domains) + 1 : 0, i;
    struct argus_open_range *range;

    if (!t || t->depth == 0)
        return -1;
    if (t->depth > ARGUS_NVTX_DEPTH) {
        t->depth--;
        return (int)t->depth;
    }
    /* The topmost range of this domain; nearly always the top. */
    for (i = t->depth; i > 0 && t->ranges[i - 1].domain != id; i--)
        ;
    if (i == 0)
        return -1;
    i--;
    range = &t->ranges[i];
    if (range->name != ARGUS_NAME_NONE && wanted())
        mark(range->start, argus_now(CLOCK_REALTIME), range->name, domain_name(d), i, t->tid);
    for (t->depth--; i < t->depth; i++)
        t->ranges[i] = t->ranges[i + 1];
    return (int)t->depth;
}

/* ---- start and end: ranges that cross threads ---- */

static uint64_t range_start(struct domain *d, uint32_t name)
{
    uint64_t id = __atomic_add_fetch(&next_range, 1, __ATOMIC_RELAXED);
    struct open_range *r = &open_ranges[id % OPEN_RANGES];

    if (name == ARGUS_NAME_NONE)
        return id;
    r->start = argus_now(CLOCK_REALTIME);
    r->name = name;
    r->domain = domain_name(d);
    r->tid = argus_tid();
    __atomic_store_n(&r->id, id, __ATOMIC_RELEASE);
    return id;
}

static void range_end(uint64_t id)
{
    struct open_range *r = &open_ranges[id % OPEN_RANGES];
    struct open_range copy;

    if (!id || __atomic_load_n(&r->id, __ATOMIC_ACQUIRE) != id)
        return; /* unknown, or overrun by a thousand others */
    copy = *r;
    if (__atomic_compare_exchange_n(&r->id, &id, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
        wanted())
        mark(copy.start, argus_now(CLOCK_REALTIME), copy.name, copy.domain, 0, copy.tid);
}

/* ---- module CORE: no domain ---- */

static uint32_t text_name(const char *text)
{
    return wanted() ? argus_nvtx_name(text) : ARGUS_NAME_NONE;
}

static uint32_t wide_name(const void *text)
{
    return wanted() ? argus_nvtx_wide_name(text) : ARGUS_NAME_NONE;
}

static uint32_t attributes_name(const struct nvtx_attributes *a)
{
    return a && wanted() ? message_name(a) : ARGUS_NAME_NONE;
}

static void instant(struct domain *d, uint32_t name)
{
    int64_t now;

    __atomic_fetch_add(&argus_activity, 1, __ATOMIC_RELAXED);
    if (name == ARGUS_NAME_NONE)
        return;
    now = argus_now(CLOCK_REALTIME);
    mark(now, now, name, domain_name(d), 0, argus_tid());
}

static void core_mark_ex(const struct nvtx_attributes *a)
{
    instant(NULL, attributes_name(a));
}

static void core_mark_a(const char *text)
{
    instant(NULL, text_name(text));
}

static void core_mark_w(const void *text)
{
    instant(NULL, wide_name(text));
}

static uint64_t core_start_ex(const struct nvtx_attributes *a)
{
    return range_start(NULL, attributes_name(a));
}

static uint64_t core_start_a(const char *text)
{
    return range_start(NULL, text_name(text));
}

static uint64_t core_start_w(const void *text)
{
    return range_start(NULL, wide_name(text));
}

static int core_push_ex(const struct nvtx_attributes *a)
{
    return push(NULL, attributes_name(a));
}

static int core_push_a(const char *text)
{
    return push(NULL, text_name(text));
}

/* Not for its name alone: a push that goes unseen gives its pop another's range. */
static int core_push_w(const void *text)
{
    return push(NULL, wide_name(text));
}

static int core_pop(void)
{
    return pop(NULL);
}

/* ---- module CORE2: domains ---- */

static void nccl_payloads(const struct nvtx_attributes *a, void *caller)
{
    if (a && a->size >= sizeof(*a) && a->payload_type == NX_PAYLOAD_EXT && a->reserved > 0 &&
        !argus_dead() && !argus_nccl_plugin_in_use())
        argus_nvtx_nccl((const struct nvtx_payload *)(uintptr_t)a->payload, (size_t)a->reserved,
                        caller);
}

static void core2_mark_ex(void *handle, const struct nvtx_attributes *a)
{
    struct domain *d = domain_of(handle);

    if (!d || !d->nccl)
        instant(d, attributes_name(a));
}

static uint64_t core2_start_ex(void *handle, const struct nvtx_attributes *a)
{
    struct domain *d = domain_of(handle);

    if (d && d->nccl) {
        nccl_payloads(a, __builtin_return_address(0));
        return 0;
    }
    return range_start(d, attributes_name(a));
}

static void core2_end(void *handle, uint64_t id)
{
    (void)handle;
    range_end(id);
}

static int core2_push_ex(void *handle, const struct nvtx_attributes *a)
{
    struct domain *d = domain_of(handle);

    if (d && d->nccl) {
        nccl_payloads(a, __builtin_return_address(0));
        return 0;
    }
    return push(d, attributes_name(a));
}

static int core2_pop(void *handle)
{
    struct domain *d = domain_of(handle);

    return d && d->nccl ? 0 : pop(d);
}

static void *core2_register_string(void *handle, const char *text)
{
    uint32_t i = __atomic_load_n(&strings_used, __ATOMIC_RELAXED);
    const char *kept;

    (void)handle;
    if (i >= STRINGS || !(kept = argus_nvtx_keep(text)))
        return NULL;
    i = __atomic_fetch_add(&strings_used, 1, __ATOMIC_RELAXED);
    if (i >= STRINGS)
        return NULL;
    strings[i].text = kept;
    return &strings[i];
}

static void *core2_domain_create(const char *text)
{
    uint32_t i, n = __atomic_load_n(&domains_used, __ATOMIC_ACQUIRE);

    for (i = 0; text && i < n && i < DOMAINS; i++) {
        if (domains[i].text && strcmp(domains[i].text, text) == 0)
            return &domains[i];
    }
    i = __atomic_fetch_add(&domains_used, 1, __ATOMIC_ACQ_REL);
    if (i >= DOMAINS)
        return &domains[DOMAINS - 1];
    domains[i].nccl = text && strcmp(text, "NCCL") == 0;
    domains[i].text = argus_nvtx_keep(text);
    return &domains[i];
}

static void core2_domain_destroy(void *handle)
{
    (void)handle;
}

/* ---- the payload extension ---- */

static uint64_t schema_register(void *handle, const void *attributes)
{
    static uint64_t next = NX_SCHEMA_DYNAMIC;
    uint64_t id = 0;

    (void)handle;
    if (attributes)
        memcpy(&id, (const char *)attributes + NX_SCHEMA_ID_AT, sizeof(id));
    return id ? id : __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED);
}

static void payload(void *handle, const struct nvtx_payload *data, size_t count)
{
    struct domain *d = domain_of(handle);

    if (d && d->nccl && data && !argus_dead() && !argus_nccl_plugin_in_use())
        argus_nvtx_nccl(data, count, __builtin_return_address(0));
}

static int payload_push(void *handle, const struct nvtx_payload *data, size_t count)
{
    struct domain *d = domain_of(handle);

    if (d && d->nccl) {
        payload(handle, data, count);
        return 0;
    }
    return push(d, ARGUS_NAME_NONE);
}

static int payload_pop(void *handle, const struct nvtx_payload *data, size_t count)
{
    struct domain *d = domain_of(handle);

    if (d && d->nccl) {
        payload(handle, data, count);
        return 0;
    }
    return pop(d);
}

static uint64_t payload_start(void *handle, const struct nvtx_payload *data, size_t count)
{
    payload(handle, data, count);
    return range_start(domain_of(handle), ARGUS_NAME_NONE);
}

static void payload_end(void *handle, uint64_t id, const struct nvtx_payload *data, size_t count)
{
    payload(handle, data, count);
    range_end(id);
}

static uint8_t domain_is_enabled(void *handle)
{
    (void)handle;
    return 1;
}

/* ---- getting in ---- */

struct entry {
    unsigned slot;
    nvtx_function function;
};

static void install(const struct nvtx_callbacks *callbacks, uint32_t module,
                    const struct entry *entries, size_t count)
{
    nvtx_table table = NULL;
    unsigned size = 0;

    if (!callbacks->module_table(module, &table, &size) || !table)
        return;
    for (size_t i = 0; i < count; i++) {
        if (entries[i].slot < size && table[entries[i].slot])
            *table[entries[i].slot] = entries[i].function;
    }
}

#define F(f) ((nvtx_function)(void (*)(void))(f))
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* 0 tells NVTX to become a no-op for this client. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t))
{
    static const struct entry core[] = {
        {NX_MARK_EX, F(core_mark_ex)},         {NX_MARK_A, F(core_mark_a)},
        {NX_RANGE_START_EX, F(core_start_ex)}, {NX_RANGE_START_A, F(core_start_a)},
        {NX_RANGE_END, F(range_end)},          {NX_PUSH_EX, F(core_push_ex)},
        {NX_PUSH_A, F(core_push_a)},           {NX_POP, F(core_pop)},
        {NX_MARK_W, F(core_mark_w)},           {NX_RANGE_START_W, F(core_start_w)},
        {NX_PUSH_W, F(core_push_w)},
    };
    static const struct entry core2[] = {
        {NX2_MARK_EX, F(core2_mark_ex)},
        {NX2_RANGE_START_EX, F(core2_start_ex)},
        {NX2_RANGE_END, F(core2_end)},
        {NX2_PUSH_EX, F(core2_push_ex)},
        {NX2_POP, F(core2_pop)},
        {NX2_REGISTER_STRING_A, F(core2_register_string)},
        {NX2_DOMAIN_CREATE_A, F(core2_domain_create)},
        {NX2_DOMAIN_DESTROY, F(core2_domain_destroy)},
    };
    const struct nvtx_callbacks *callbacks;

    if (argus_dead() || !argus_source_wanted(ARGUS_SOURCE_NVTX)) {
        argus_ring_standdown(ARGUS_SOURCE_NVTX, ARGUS_REASON_OFF, 0);
        return 0;
    }
    callbacks = export_table ? export_table(NX_ETID_CALLBACKS) : NULL;
    if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->module_table)
        return 0;
    argus_hooks_install();
    install(callbacks, NX_MODULE_CORE, core, COUNT(core));
    install(callbacks, NX_MODULE_CORE2, core2, COUNT(core2));
    return 1;
}

int InitializeInjectionNvtxExtension(struct nvtx_extension *module)
{
    static const struct entry functions[] = {
        {NXP_SCHEMA_REGISTER, F(schema_register)},
        {NXP_MARK, F(payload)},
        {NXP_PUSH, F(payload_push)},
        {NXP_POP, F(payload_pop)},
        {NXP_START, F(payload_start)},
        {NXP_END, F(payload_end)},
        {NXP_DOMAIN_IS_ENABLED, F(domain_is_enabled)},
    };

    if (argus_dead() || !argus_source_wanted(ARGUS_SOURCE_NVTX) || !module ||
        module->struct_size < sizeof(*module) || module->module != NX_PAYLOAD_MODULE)
        return 0;
    for (size_t s = 0; s < module->count; s++) {
        for (size_t i = 0; i < COUNT(functions); i++) {
            if (functions[i].slot < module->segments[s].count)
                module->segments[s].slots[functions[i].slot] = (intptr_t)functions[i].function;
        }
    }
    return 1;
}
