/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a Kineto event, and how its words become our numbers. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "analyzer/import/kineto.h"
#include "analyzer/summary/summary.h"

#define TIME_MAX (INT64_C(1) << 61)
#define DURATION_MAX (INT64_C(1) << 53)
#define NO_TIME INT64_MIN

int kineto_is_regular(const char *path, argus_error_t *err)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return argus_error(err, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return argus_error(err, "%s: not a regular file", path);
    return 0;
}

int64_t kineto_integer(struct kineto_slice v, int64_t otherwise)
{
    char text[32], *end;
    long long value;

    if (v.kind == KINETO_OTHER || v.length == 0 || v.length >= sizeof(text))
        return otherwise;
    memcpy(text, v.text, v.length);
    text[v.length] = '\0';
    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || errno || (*end && *end != '.'))
        return otherwise;
    return value;
}

/* Doubles hold 2^53: not enough for nanoseconds of today, hence by digits. */
int64_t kineto_time(struct kineto_slice v)
{
    int64_t whole = 0, fraction = 0, scale = 1000, ns;
    size_t i = 0;
    int negative;

    if (v.kind != KINETO_NUMBER)
        return NO_TIME;
    negative = v.length && v.text[0] == '-';
    for (i = (size_t)negative; i < v.length && v.text[i] >= '0' && v.text[i] <= '9'; i++) {
        if (whole > (INT64_C(1) << 62) / 10000)
            return NO_TIME;
        whole = whole * 10 + (v.text[i] - '0');
    }
    if (i < v.length && v.text[i] == '.') {
        for (i++; i < v.length && v.text[i] >= '0' && v.text[i] <= '9'; i++) {
            if (scale > 1)
                fraction += (v.text[i] - '0') * (scale /= 10);
            else if (scale-- == 1)
                fraction += v.text[i] >= '5'; /* the fourth digit rounds */
        }
    }
    if (i < v.length) { /* an exponent */
        char text[64];
        double us;

        if (v.length >= sizeof(text))
            return NO_TIME;
        memcpy(text, v.text, v.length);
        text[v.length] = '\0';
        us = strtod(text, NULL);
        return us * 1e3 >= ARGUS_TIME_MIN && us < TIME_MAX / 1e3 ? (int64_t)(us * 1e3) : NO_TIME;
    }
    ns = whole * 1000 + fraction;
    ns = negative ? -ns : ns;
    return ns >= ARGUS_TIME_MIN && ns < TIME_MAX ? ns : NO_TIME;
}

int kineto_text_add(struct kineto_text *to, struct kineto_slice v)
{
    if (to->length + v.length + 3 > to->size) {
        size_t size = to->size * 2 + v.length + 64;
        char *p = realloc(to->s, size);

        if (!p)
            return -1;
        to->s = p;
        to->size = size;
    }
    if (to->length) {
        memcpy(to->s + to->length, ", ", 2);
        to->length += 2;
    }
    memcpy(to->s + to->length, v.text, v.length);
    to->length += v.length;
    to->s[to->length] = '\0';
    return 0;
}

int kineto_text_set(struct kineto_text *to, struct kineto_slice v)
{
    to->length = 0;
    return kineto_text_add(to, v);
}

static const char *text_of(const struct kineto_text *t)
{
    return t->length ? t->s : "";
}

static void text_clear(struct kineto_text *t)
{
    t->length = 0;
}

void kineto_event_reset(struct kineto_event *e)
{
    e->phase = 0;
    text_clear(&e->category);
    text_clear(&e->name);
    text_clear(&e->collective);
    text_clear(&e->dtype);
    text_clear(&e->group_name);
    text_clear(&e->group_ranks);
    e->start = e->duration = NO_TIME;
    e->tid = 0;
    e->stream = e->device = e->correlation = e->bytes = -1;
    e->in_elements = e->out_elements = e->group_size = e->source = e->destination = -1;
    memset(e->grid, 0, sizeof(e->grid));
    memset(e->block, 0, sizeof(e->block));
    e->n_grid = e->n_block = 0;
}

void kineto_event_free(struct kineto_event *e)
{
    free(e->category.s);
    free(e->name.s);
    free(e->collective.s);
    free(e->dtype.s);
    free(e->group_name.s);
    free(e->group_ranks.s);
}

void kineto_event_field(struct kineto_event *e, const char *key, struct kineto_slice v)
{
    if (!strcmp(key, "ph"))
        e->phase = v.length == 1 ? v.text[0] : 0;
    else if (!strcmp(key, "cat"))
        e->failed |= kineto_text_set(&e->category, v) != 0;
    else if (!strcmp(key, "name"))
        e->failed |= kineto_text_set(&e->name, v) != 0;
    else if (!strcmp(key, "ts"))
        e->start = kineto_time(v);
    else if (!strcmp(key, "dur"))
        e->duration = kineto_time(v);
    else if (!strcmp(key, "tid"))
        e->tid = kineto_integer(v, 0);
}

static void dimension(uint32_t *to, unsigned *n, struct kineto_slice v)
{
    int64_t value = kineto_integer(v, 0);

    if (*n < 3)
        to[(*n)++] = value < 0 || value > UINT32_MAX ? 0 : (uint32_t)value;
}

void kineto_event_arg(struct kineto_event *e, const char *key, struct kineto_slice v)
{
    static const struct {
        const char *key;
        size_t offset;
    } integers[] = {
        {"stream", offsetof(struct kineto_event, stream)},
        {"device", offsetof(struct kineto_event, device)},
        {"correlation", offsetof(struct kineto_event, correlation)},
        {"bytes", offsetof(struct kineto_event, bytes)},
        {"In msg nelems", offsetof(struct kineto_event, in_elements)},
        {"Out msg nelems", offsetof(struct kineto_event, out_elements)},
        {"Group size", offsetof(struct kineto_event, group_size)},
        {"Src Rank", offsetof(struct kineto_event, source)},
        {"Dst Rank", offsetof(struct kineto_event, destination)},
    };

    for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++) {
        if (!strcmp(key, integers[i].key)) {
            *(int64_t *)((char *)e + integers[i].offset) = kineto_integer(v, -1);
            return;
        }
    }
    if (!strcmp(key, "grid"))
        dimension(e->grid, &e->n_grid, v);
    else if (!strcmp(key, "block"))
        dimension(e->block, &e->n_block, v);
    else if (!strcmp(key, "Collective name"))
        e->failed |= kineto_text_set(&e->collective, v) != 0;
    else if (!strcmp(key, "dtype"))
        e->failed |= kineto_text_set(&e->dtype, v) != 0;
    else if (!strcmp(key, "Process Group Name"))
        e->failed |= kineto_text_set(&e->group_name, v) != 0;
    else if (!strcmp(key, "Process Group Ranks") && v.kind == KINETO_STRING)
        e->failed |= kineto_text_set(&e->group_ranks, v) != 0;
    else if (!strcmp(key, "Process Group Ranks") && v.kind == KINETO_NUMBER)
        e->failed |= kineto_text_add(&e->group_ranks, v) != 0;
}

static uint64_t message_bytes(const struct kineto_event *e, int func, int dtype)
{
    int64_t n = e->in_elements;

    /* NCCL's count: what a rank receives of reduce-scatter, what it sends to each in all-to-all. */
    if (func == ARGUS_FUNC_REDUCESCATTER || func == ARGUS_FUNC_RECV || func == ARGUS_FUNC_SCATTER)
        n = e->out_elements;
    if (func == ARGUS_FUNC_ALLTOALL && e->group_size > 0 && n > 0)
        n /= e->group_size;
    if (n <= 0 || n > INT64_MAX / 16)
        return 0;
    return (uint64_t)n * argus_dtype_bytes(dtype);
}

/* Communicator of a kernel, ARGUS_NONE when the trace does not say. */
static uint32_t group_of(const struct kineto_event *e, struct import_trace *t)
{
    struct import_group g = {.name = ARGUS_NONE, .members = ARGUS_NONE, .rank = -1};

    if (!e->group_name.length && !e->group_ranks.length)
        return ARGUS_NONE;
    if (e->group_name.length)
        g.name = import_string(t, text_of(&e->group_name), e->group_name.length);
    if (e->group_ranks.length)
        g.members = import_string(t, text_of(&e->group_ranks), e->group_ranks.length);
    if (e->group_size > 0 && e->group_size <= UINT32_MAX)
        g.size = (uint32_t)e->group_size;
    return import_group(t, &g);
}

static void kernel(const struct kineto_event *e, struct import_trace *t, struct import_op *op)
{
    int named = argus_kernel_comm_func(text_of(&e->name));
    int said = e->collective.length ? import_func(text_of(&e->collective)) : ARGUS_FUNC_NONE;

    op->kind = ARGUS_CLASS_COMPUTE;
    memcpy(op->grid, e->grid, sizeof(op->grid));
    memcpy(op->block, e->block, sizeof(op->block));
    if (!named && !e->collective.length)
        return;
    op->kind = ARGUS_CLASS_COMM;
    op->func = (uint8_t)(said ? said : named ? named : ARGUS_FUNC_OTHER);
    op->dtype = (uint8_t)import_dtype(text_of(&e->dtype));
    op->bytes = message_bytes(e, op->func, op->dtype);
    op->group = group_of(e, t);
    if (op->func == ARGUS_FUNC_SEND && e->destination >= 0 && e->destination < ARGUS_WORLD_MAX)
        op->peer = (int32_t)e->destination;
    if (op->func == ARGUS_FUNC_RECV && e->source >= 0 && e->source < ARGUS_WORLD_MAX)
        op->peer = (int32_t)e->source;
}

static uint8_t copy_kind(const char *name)
{
    static const char *const kinds[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                        "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};

    for (uint8_t i = 1; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strstr(name, kinds[i]))
            return i;
    }
    return 0;
}

static uint8_t overhead_kind(const char *name)
{
    static const struct {
        const char *text;
        uint8_t kind;
    } kinds[] = {{"Module Loading", 4},
                 {"Lazy Function Loading", 5},
                 {"Command Buffer Full", 6},
                 {"Activity Buffer Request", 7},
                 {"Buffer Flush", 1},
                 {"Instrumentation", 2},
                 {"Resource", 3}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strstr(name, kinds[i].text))
            return kinds[i].kind;
    }
    return 0;
}

enum category { CAT_NONE = 0, CAT_KERNEL, CAT_COPY, CAT_SET, CAT_HOST, CAT_OVERHEAD, CAT_MARK };

static enum category category_of(const char *name)
{
    static const struct {
        const char *name;
        enum category category;
    } categories[] = {
        {"kernel", CAT_KERNEL},        {"gpu_memcpy", CAT_COPY}, {"memcpy", CAT_COPY},
        {"gpu_memset", CAT_SET},       {"memset", CAT_SET},      {"cuda_runtime", CAT_HOST},
        {"cuda_driver", CAT_HOST},     {"runtime", CAT_HOST},    {"overhead", CAT_OVERHEAD},
        {"user_annotation", CAT_MARK},
    };

    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++) {
        if (!strcasecmp(name, categories[i].name))
            return categories[i].category;
    }
    return CAT_NONE;
}

static int add_mark(const struct kineto_event *e, struct import_trace *t)
{
    struct import_mark mark = {.start = e->start,
                               .end = e->start + e->duration,
                               .name = import_string(t, text_of(&e->name), e->name.length),
                               .domain = ARGUS_NONE,
                               .tid = (uint32_t)e->tid};

    return import_mark(t, &mark);
}

int kineto_event_finish(struct kineto_event *e, struct import_trace *t)
{
    struct import_op op = {.dtype = ARGUS_DTYPE_UNKNOWN, .group = ARGUS_NONE, .peer = -1};
    enum category category;
    int func = 0;

    if (e->failed)
        return -1;
    if (e->phase != 'X' || !(category = category_of(text_of(&e->category))))
        return 0;
    if (e->start == NO_TIME || e->duration < 0 || e->duration > DURATION_MAX) {
        t->invalid++;
        return 0;
    }
    if (category == CAT_MARK)
        return add_mark(e, t);
    op.stream = (uint32_t)(e->stream >= 0 ? e->stream : category == CAT_HOST ? 0 : e->tid);
    if (e->bytes > 0)
        op.bytes = (uint64_t)e->bytes;
    switch (category) {
    case CAT_KERNEL:
        op.bytes = 0;
        kernel(e, t, &op);
        break;
    case CAT_COPY:
        op.kind = ARGUS_CLASS_COPY;
        op.func = copy_kind(text_of(&e->name));
        break;
    case CAT_SET:
        op.kind = ARGUS_CLASS_COPY;
        break;
    case CAT_OVERHEAD:
        op.kind = ARGUS_CLASS_OVERHEAD;
        op.func = overhead_kind(text_of(&e->name));
        op.stream = 0;
        break;
    default:
        op.kind = (uint8_t)import_host_call(text_of(&e->name), &func);
        op.func = (uint8_t)func;
        op.bytes = 0;
        if (!op.kind)
            return 0;
    }
    if (op.kind <= ARGUS_CLASS_GRAPH && e->device >= 0 && e->device < KINETO_DEVICES)
        e->on_device[e->device]++;
    op.name = import_string(t, text_of(&e->name), e->name.length);
    if (op.name == ARGUS_NONE)
        return -1;
    return import_event(
        t, e->start, e->duration, import_op(t, &op),
        e->correlation > 0 && e->correlation <= UINT32_MAX ? (uint32_t)e->correlation : 0);
}
