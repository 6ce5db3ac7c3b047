/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's trace in memory: tables of names, operations, communicators; arrays of events. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/import.h"

#define ENTRIES_MAX (UINT32_C(4) << 20)
#define TEXT_MAX (UINT32_C(256) << 20)

int import_trace_init(struct import_trace *t, const char *path, const char *source,
                      argus_error_t *err)
{
    memset(t, 0, sizeof(*t));
    t->path = strdup(path);
    if (!t->path)
        return argus_error(err, "%s: out of memory", path);
    snprintf(t->source, sizeof(t->source), "%s", source);
    t->rank = t->local_rank = IMPORT_RANK_UNKNOWN;
    return 0;
}

void import_trace_free(struct import_trace *t)
{
    free(t->path);
    free(t->text);
    free(t->string_at);
    free(t->string_slots);
    free(t->op_slots);
    free(t->ops);
    free(t->events);
    free(t->marks);
    free(t->groups);
    free(t->unnumbered);
    memset(t, 0, sizeof(*t));
}

int import_room(void **array, size_t *size, size_t n, size_t item)
{
    size_t more = *size ? *size * 2 : 256;
    void *p;

    if (n < *size)
        return 0;
    p = realloc(*array, more * item);
    if (!p)
        return -1;
    *array = p;
    *size = more;
    return 0;
}

static uint64_t hash_bytes(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* A table of twice the size with every id in it. */
static int rehash(uint32_t **slots, size_t *size, size_t n,
                  uint64_t (*hash_of)(const struct import_trace *, size_t),
                  const struct import_trace *t)
{
    size_t more = *size ? *size * 2 : 1024;
    uint32_t *fresh = calloc(more, sizeof(*fresh));

    if (!fresh)
        return -1;
    for (size_t i = 0; i < n; i++) {
        size_t at = hash_of(t, i) & (more - 1);

        while (fresh[at])
            at = (at + 1) & (more - 1);
        fresh[at] = (uint32_t)i + 1;
    }
    free(*slots);
    *slots = fresh;
    *size = more;
    return 0;
}

static uint64_t string_hash(const struct import_trace *t, size_t i)
{
    const char *s = t->text + t->string_at[i];

    return hash_bytes(s, strlen(s));
}

static uint64_t op_hash(const struct import_trace *t, size_t i)
{
    return hash_bytes(&t->ops[i], sizeof(t->ops[i]));
}

static int text_room(struct import_trace *t, size_t need)
{
    size_t size = t->text_size ? t->text_size : 65536;
    char *p;

    while (size < t->text_bytes + need)
        size *= 2;
    if (size == t->text_size)
        return 0;
    p = realloc(t->text, size);
    if (!p)
        return -1;
    t->text = p;
    t->text_size = size;
    return 0;
}

uint32_t import_string(struct import_trace *t, const char *s, size_t length)
{
    uint32_t id;
    size_t at;

    length = strnlen(s, length); /* a name ends where C says so */
    if (t->n_strings * 2 >= t->string_slots_size &&
        rehash(&t->string_slots, &t->string_slots_size, t->n_strings, string_hash, t) != 0)
        return ARGUS_NONE;
    for (at = hash_bytes(s, length) & (t->string_slots_size - 1); t->string_slots[at];
         at = (at + 1) & (t->string_slots_size - 1)) {
        const char *known = t->text + t->string_at[t->string_slots[at] - 1];

        if (!strncmp(known, s, length) && known[length] == '\0')
            return t->string_slots[at] - 1;
    }
    if (t->n_strings >= ENTRIES_MAX || length > TEXT_MAX || t->text_bytes + length + 1 > TEXT_MAX ||
        text_room(t, length + 1) != 0 ||
        import_room((void **)&t->string_at, &t->strings_size, t->n_strings,
                    sizeof(*t->string_at)) != 0)
        return ARGUS_NONE;
    id = (uint32_t)t->n_strings++;
    t->string_at[id] = (uint32_t)t->text_bytes;
    memcpy(t->text + t->text_bytes, s, length);
    t->text[t->text_bytes + length] = '\0';
    t->text_bytes += length + 1;
    t->string_slots[at] = id + 1;
    return id;
}

const char *import_text(const struct import_trace *t, uint32_t id)
{
    return id < t->n_strings ? t->text + t->string_at[id] : "";
}

uint32_t import_op(struct import_trace *t, const struct import_op *op)
{
    size_t at;

    if (t->n_ops * 2 >= t->op_slots_size &&
        rehash(&t->op_slots, &t->op_slots_size, t->n_ops, op_hash, t) != 0)
        return ARGUS_NONE;
    for (at = hash_bytes(op, sizeof(*op)) & (t->op_slots_size - 1); t->op_slots[at];
         at = (at + 1) & (t->op_slots_size - 1)) {
        if (!memcmp(&t->ops[t->op_slots[at] - 1], op, sizeof(*op)))
            return t->op_slots[at] - 1;
    }
    if (t->n_ops >= ENTRIES_MAX ||
        import_room((void **)&t->ops, &t->ops_size, t->n_ops, sizeof(*t->ops)) != 0)
        return ARGUS_NONE;
    t->ops[t->n_ops] = *op;
    t->op_slots[at] = (uint32_t)t->n_ops + 1;
    return (uint32_t)t->n_ops++;
}

uint32_t import_group(struct import_trace *t, const struct import_group *group)
{
    for (size_t i = t->n_groups; i-- > 0;) {
        const struct import_group *g = &t->groups[i];

        if (g->name == group->name && g->members == group->members && g->size == group->size &&
            g->rank == group->rank && g->hash == group->hash)
            return (uint32_t)i;
    }
    if (t->n_groups >= 65536 ||
        import_room((void **)&t->groups, &t->groups_size, t->n_groups, sizeof(*t->groups)) != 0)
        return ARGUS_NONE;
    t->groups[t->n_groups] = *group;
    return (uint32_t)t->n_groups++;
}

int import_event(struct import_trace *t, int64_t start, int64_t duration, uint32_t op,
                 uint32_t correlation)
{
    if (op == ARGUS_NONE ||
        import_room((void **)&t->events, &t->events_size, t->n_events, sizeof(*t->events)) != 0)
        return -1;
    t->events[t->n_events++] = (struct import_event){start, duration, op, correlation};
    return 0;
}

int import_mark(struct import_trace *t, const struct import_mark *mark)
{
    if (mark->name == ARGUS_NONE ||
        import_room((void **)&t->marks, &t->marks_size, t->n_marks, sizeof(*t->marks)) != 0)
        return -1;
    t->marks[t->n_marks++] = *mark;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct import_event *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return x->duration < y->duration ? -1 : x->duration > y->duration;
}

static int marks_by_end(const void *a, const void *b)
{
    const struct import_mark *x = a, *y = b;

    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->start > y->start ? -1 : x->start < y->start; /* the inner one first */
}

int import_trace_sort(struct import_trace *t)
{
    if (t->n_events)
        qsort(t->events, t->n_events, sizeof(*t->events), by_start);
    if (t->n_marks)
        qsort(t->marks, t->n_marks, sizeof(*t->marks), marks_by_end);
    t->kernels = t->unmatched = 0;
    t->unmatched_sum = 0;
    for (size_t i = 0; i < t->n_events; i++) {
        const struct import_op *op = &t->ops[t->events[i].op];

        t->kernels += op->kind == ARGUS_CLASS_COMPUTE || op->kind == ARGUS_CLASS_COMM;
    }
    if (import_find_unnumbered(t) != 0)
        return -1;
    for (size_t i = 0; i < t->n_events; i++) {
        const struct import_op *op = &t->ops[t->events[i].op];

        if (op->kind == ARGUS_CLASS_COMM && op->group == ARGUS_NONE && !t->unnumbered[i]) {
            t->unmatched++;
            t->unmatched_sum = (t->unmatched_sum ^ op->func) * 0x100000001b3u;
        }
    }
    return 0;
}
