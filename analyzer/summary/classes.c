/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators and classes: a row in the file and a place in memory for each, found again by its
 * contents. */
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/summary/summary_impl.h"

uint32_t argus_summary_comm(argus_summary_t *s, const struct argus_comm_row *row)
{
    for (uint32_t i = 0; i < s->n_comms; i++) {
        if (!memcmp(&s->comms[i], row, sizeof(*row)))
            return i;
    }
    if (s->n_comms == s->cap_comms) {
        uint32_t capacity = s->cap_comms ? 2 * s->cap_comms : 16;
        struct argus_comm_row *p = realloc(s->comms, capacity * sizeof(*p));
        uint32_t *q;

        if (!p)
            return ARGUS_NONE;
        s->comms = p;
        q = realloc(s->first_seq, capacity * sizeof(*q));
        if (!q)
            return ARGUS_NONE;
        s->first_seq = q;
        s->cap_comms = capacity;
    }
    if (argus_timeline_append(s->w, ARGUS_DS_COMMS, row, 1, NULL) < 0)
        return ARGUS_NONE;
    s->comms[s->n_comms] = *row;
    s->first_seq[s->n_comms] = ARGUS_NONE;
    return s->n_comms++;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
    return h ^ (h >> 29);
}

static uint64_t class_hash(const struct argus_class_row *r)
{
    uint64_t h =
        mix(1469598103934665603ULL,
            r->kind | (uint64_t)r->func << 8 | (uint64_t)r->dtype << 16 | (uint64_t)r->name << 32);

    h = mix(h, r->stream | (uint64_t)r->grid[0] << 32);
    h = mix(h, r->grid[1] | (uint64_t)r->grid[2] << 32);
    h = mix(h, r->block[0] | (uint64_t)r->block[1] << 32);
    h = mix(h, r->block[2] | (uint64_t)r->comm << 32);
    h = mix(h, (uint32_t)r->peer | (uint64_t)r->flags << 32);
    return mix(h, r->bytes);
}

static int same_class(const struct argus_class_row *a, const struct argus_class_row *b)
{
    return a->kind == b->kind && a->func == b->func && a->dtype == b->dtype && a->name == b->name &&
           a->stream == b->stream && a->comm == b->comm && a->peer == b->peer &&
           a->bytes == b->bytes && a->flags == b->flags &&
           !memcmp(a->grid, b->grid, sizeof(a->grid)) &&
           !memcmp(a->block, b->block, sizeof(a->block));
}

static uint32_t *find_class(argus_summary_t *s, const struct argus_class_row *row)
{
    uint32_t i = (uint32_t)class_hash(row) & (s->cap_index - 1);

    while (s->class_index[i] && !same_class(&s->rows[s->class_index[i] - 1], row))
        i = (i + 1) & (s->cap_index - 1);
    return &s->class_index[i];
}

static int grow_index(argus_summary_t *s)
{
    uint32_t capacity = s->cap_index ? 2 * s->cap_index : 512;
    uint32_t *index = calloc(capacity, sizeof(*index));

    if (!index)
        return -1;
    free(s->class_index);
    s->class_index = index;
    s->cap_index = capacity;
    for (uint32_t c = 0; c < s->n_classes; c++)
        *find_class(s, &s->rows[c]) = c + 1;
    return 0;
}

#define GROW(array, capacity)                                                                      \
    do {                                                                                           \
        void *grown_ = realloc((array), (capacity) * sizeof(*(array)));                            \
        if (!grown_)                                                                               \
            return -1;                                                                             \
        (array) = grown_;                                                                          \
    } while (0)

static int grow_classes(argus_summary_t *s)
{
    uint32_t capacity = s->cap_classes ? 2 * s->cap_classes : 256;

    GROW(s->rows, capacity);
    GROW(s->briefs, capacity);
    GROW(s->accs, capacity);
    GROW(s->hists, capacity);
    GROW(s->seen, capacity);
    GROW(s->tokens[0], capacity);
    GROW(s->tokens[1], capacity);
    s->cap_classes = capacity;
    return 0;
}

static uint8_t lane_of(int kind)
{
    switch (kind) {
    case ARGUS_CLASS_COMPUTE:
    case ARGUS_CLASS_GRAPH:
        return ARGUS_LANE_COMPUTE;
    case ARGUS_CLASS_COMM:
        return ARGUS_LANE_COMM;
    case ARGUS_CLASS_COPY:
        return ARGUS_LANE_COPY;
    default:
        return ARGUS_LANE_HOST;
    }
}

uint32_t argus_summary_known_class(argus_summary_t *s, const struct argus_class_row *row)
{
    uint32_t id = s->n_classes;
    uint64_t shape;

    if (id == s->cap_classes && grow_classes(s) < 0)
        return ARGUS_NONE;
    if ((id + 1) * 2 > s->cap_index && grow_index(s) < 0)
        return ARGUS_NONE;
    s->rows[id] = *row;
    s->briefs[id] = (struct argus_class_brief){
        .lane = lane_of(row->kind),
        .family = row->family,
        .phase = (uint8_t)(row->flags & (ARGUS_CLASS_FORWARD | ARGUS_CLASS_BACKWARD)),
        .kind = row->kind,
        .func = row->func,
        .comm = row->comm,
        .bytes = row->bytes};
    shape = mix(mix(88172645463325252ULL, row->func), row->comm);
    if (row->comm == ARGUS_NONE)
        shape = mix(shape, row->name);
    s->tokens[TOKEN_EXACT][id] = (uint32_t)mix(mix(shape, row->bytes), row->dtype);
    s->tokens[TOKEN_SHAPE][id] = (uint32_t)shape;
    s->seen[id] = 0;
    memset(&s->accs[id], 0, sizeof(s->accs[id]));
    memset(&s->hists[id], 0, sizeof(s->hists[id]));
    s->n_classes++;
    *find_class(s, row) = id + 1;
    return id;
}

static uint32_t add_class(argus_summary_t *s, const struct argus_class_row *row)
{
    uint32_t id = argus_summary_known_class(s, row);

    if (id != ARGUS_NONE && argus_timeline_append(s->w, ARGUS_DS_CLASSES, row, 1, NULL) < 0)
        return ARGUS_NONE;
    return id;
}

uint32_t argus_summary_pool_class(argus_summary_t *s, int kind)
{
    struct argus_class_row row = {.kind = (uint8_t)kind,
                                  .dtype = ARGUS_DTYPE_UNKNOWN,
                                  .flags = ARGUS_CLASS_POOLED,
                                  .comm = ARGUS_NONE,
                                  .peer = -1};
    uint32_t *known = &s->pooled[kind % (int)(sizeof(s->pooled) / sizeof(s->pooled[0]))];

    if (*known)
        return *known - 1;
    row.name = argus_timeline_add_string(s->w, "(others)", strlen("(others)"));
    if (row.name != ARGUS_NONE)
        *known = add_class(s, &row) + 1;
    return *known - 1;
}

uint32_t argus_summary_class(argus_summary_t *s, const struct argus_class_row *row)
{
    if (s->cap_index) {
        uint32_t found = *find_class(s, row);

        if (found)
            return found - 1;
    }
    if (s->n_classes + 16 >= s->opt.max_classes) {
        s->pooled_classes++;
        return argus_summary_pool_class(s, row->kind);
    }
    return add_class(s, row);
}

const struct argus_class_row *argus_summary_class_row(const argus_summary_t *s, uint32_t class_id)
{
    return class_id < s->n_classes ? &s->rows[class_id] : NULL;
}

uint64_t argus_summary_pooled(const argus_summary_t *s)
{
    return s->pooled_classes;
}
