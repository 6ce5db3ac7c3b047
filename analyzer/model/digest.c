/* SPDX-License-Identifier: Apache-2.0 */
/* One timeline file -> columns. */
#include <config.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/digest_loader.h"

#define STEPS_MAX (1 << 26)

int argus_digest_no_memory(argus_error_t *err, const char *path)
{
    return argus_error(err, "%s: no memory", path);
}

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ULL;
    return h;
}

static int put(struct argus_digest_loader *l, enum argus_column c, int row, int64_t value)
{
    float **col = &l->d->rank.col[c];

    if (!value)
        return 0;
    if (!*col && !(*col = argus_arena_alloc(l->arena, (size_t)l->d->rank.n_rows, sizeof(float))))
        return -1;
    (*col)[row] = (float)value;
    return 0;
}

/* First and last step; a hole-ridden or hostile numbering is refused. */
static int step_range(struct argus_digest_loader *l, const struct argus_step_row *rows, size_t n)
{
    int first = INT_MAX, last = INT_MIN;

    for (size_t i = 0; i < n; i++) {
        if (rows[i].step < 0)
            continue;
        first = rows[i].step < first ? rows[i].step : first;
        last = rows[i].step > last ? rows[i].step : last;
    }
    if (first > last) {
        l->d->rank.first_step = 0;
        l->d->rank.n_rows = 0;
        return 0;
    }
    if ((int64_t)last - first >= (int64_t)n * 4 + 4096 || last >= STEPS_MAX)
        return argus_error(l->err, "%s: dataset \"steps\": step numbers %d to %d in %zu rows",
                           argus_timeline_path(l->t), first, last, n);
    l->d->rank.first_step = first;
    l->d->rank.n_rows = last - first + 1;
    return 0;
}

static int put_step(struct argus_digest_loader *l, int i, const struct argus_step_row *s)
{
    struct argus_model_rank *r = &l->d->rank;
    int bad = 0;

    r->start[i] = s->start ? s->start : 1;
    r->flags[i] = (uint8_t)s->flags;
    if (s->gap_class < l->n_classes)
        r->gap_class[i] =
            (uint16_t)(l->classes[s->gap_class].kind << 8 | l->classes[s->gap_class].func);
    bad |= put(l, ARGUS_COL_DURATION, i, s->end - s->start);
    bad |= put(l, ARGUS_COL_COMPUTE, i, s->compute);
    bad |= put(l, ARGUS_COL_COMM, i, s->comm);
    bad |= put(l, ARGUS_COL_EXPOSED, i, s->exposed);
    bad |= put(l, ARGUS_COL_COPY, i, s->copy);
    bad |= put(l, ARGUS_COL_COPY_BUSY, i, s->copy_busy);
    bad |= put(l, ARGUS_COL_COPY_BYTES, i, s->copy_bytes);
    bad |= put(l, ARGUS_COL_IDLE, i, s->idle);
    bad |= put(l, ARGUS_COL_HEAD_IDLE, i, s->head_idle);
    bad |= put(l, ARGUS_COL_GAP, i, s->gap);
    bad |= put(l, ARGUS_COL_GAP_OFFSET, i, s->gap_offset);
    bad |= put(l, ARGUS_COL_LEAD_IDLE, i, s->lead_idle);
    bad |= put(l, ARGUS_COL_OVERHEAD, i, s->overhead);
    bad |= put(l, ARGUS_COL_ALLOC, i, s->alloc);
    bad |= put(l, ARGUS_COL_FORWARD, i, s->forward);
    bad |= put(l, ARGUS_COL_BACKWARD, i, s->backward);
    bad |= put(l, ARGUS_COL_OPTIMIZER, i, s->optimizer);
    bad |= put(l, ARGUS_COL_KERNELS, i, s->kernels);
    bad |= put(l, ARGUS_COL_NEW_CLASSES, i, s->new_classes);
    return bad;
}

/* Parts of a step are no longer than it is; one that is would pass for a stall or a straggler. */
static int plausible(const struct argus_step_row *s)
{
    const int64_t parts[] = {s->compute,   s->comm,      s->exposed, s->copy,
                             s->copy_busy, s->head_idle, s->idle,    s->gap};

    if (s->end <= s->start)
        return 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i] < 0 || parts[i] > s->end - s->start)
            return 0;
    }
    return 1;
}

static int load_steps(struct argus_digest_loader *l)
{
    struct argus_model_rank *r = &l->d->rank;
    size_t n = 0;
    struct argus_step_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_STEPS, STEPS_MAX, &n, l->err);
    int rc = -1;

    if (!rows)
        return -1;
    if (step_range(l, rows, n))
        goto out;
    rc = argus_digest_no_memory(l->err, argus_timeline_path(l->t));
    r->start = argus_arena_alloc(l->arena, (size_t)r->n_rows, sizeof(*r->start));
    r->flags = argus_arena_alloc(l->arena, (size_t)r->n_rows, sizeof(*r->flags));
    r->gap_class = argus_arena_alloc(l->arena, (size_t)r->n_rows, sizeof(*r->gap_class));
    if (!r->start || !r->flags || !r->gap_class)
        goto out;
    for (size_t i = 0; i < n; i++) {
        int at = rows[i].step - r->first_step;

        if (rows[i].step < 0 || r->start[at])
            continue;
        if (!plausible(&rows[i])) {
            r->counters.invalid++;
            continue;
        }
        if (put_step(l, at, &rows[i]))
            goto out;
    }
    rc = 0;
out:
    free(rows);
    return rc;
}

static int load_comms(struct argus_digest_loader *l)
{
    size_t n = 0;
    struct argus_comm_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_COMMS, 1u << 20, &n, l->err);
    int rc = -1;

    if (!rows)
        return -1;
    l->d->comms = argus_arena_alloc(l->arena, n, sizeof(*l->d->comms));
    if (!l->d->comms)
        goto out;
    for (size_t i = 0; i < n; i++) {
        l->d->comms[i].row = rows[i];
        l->d->comms[i].name =
            argus_arena_strdup(l->arena, argus_timeline_string(l->t, rows[i].name));
        l->d->comms[i].members =
            argus_arena_strdup(l->arena, argus_timeline_string(l->t, rows[i].members));
        if (!l->d->comms[i].name || !l->d->comms[i].members)
            goto out;
    }
    l->d->n_comms = n;
    rc = 0;
out:
    if (rc)
        argus_digest_no_memory(l->err, argus_timeline_path(l->t));
    free(rows);
    return rc;
}

/* Streams are pooled: a job may move work between streams. */
static int same_comm_class(const struct argus_digest_comm_class *a, int comm,
                           const struct argus_class_row *row)
{
    return a->comm == comm && a->func == row->func && a->dtype == row->dtype &&
           a->peer == row->peer && a->bytes == row->bytes;
}

static int add_comm_class(struct argus_digest_loader *l, const struct argus_class_row *row)
{
    struct argus_digest *d = l->d;
    int comm = row->comm < d->n_comms ? (int)row->comm : -1;
    struct argus_digest_comm_class *c;

    for (size_t i = 0; i < d->n_comm_classes; i++)
        if (same_comm_class(&d->comm_classes[i], comm, row))
            return (int)i;
    c = &d->comm_classes[d->n_comm_classes];
    c->comm = comm;
    c->func = row->func;
    c->dtype = row->dtype;
    c->peer = row->peer;
    c->bytes = row->bytes;
    c->flags = row->flags;
    return (int)d->n_comm_classes++;
}

static uint64_t signature_of(const struct argus_class_row *row, const char *name)
{
    uint64_t h = mix(0xcbf29ce484222325ULL, &row->kind, 1);

    h = mix(h, name, strlen(name));
    h = mix(h, row->grid, sizeof(row->grid));
    h = mix(h, row->block, sizeof(row->block));
    if (row->kind == ARGUS_CLASS_COPY) {
        h = mix(h, &row->func, 1);
        h = mix(h, &row->bytes, sizeof(row->bytes));
    }
    return h;
}

struct keyed {
    uint64_t signature;
    uint32_t class_id;
};

static int keyed_cmp(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;

    if (x->signature != y->signature)
        return x->signature < y->signature ? -1 : 1;
    return x->class_id < y->class_id ? -1 : x->class_id > y->class_id;
}

/* Compute, graph and copy classes, in order of signature. */
static int add_kernel_classes(struct argus_digest_loader *l, struct keyed *keys, size_t n)
{
    struct argus_digest *d = l->d;

    qsort(keys, n, sizeof(*keys), keyed_cmp);
    d->classes = argus_arena_alloc(l->arena, n, sizeof(*d->classes));
    if (!d->classes)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct argus_class_row *row = &l->classes[keys[i].class_id];
        struct argus_kernel_class *key;

        if (i == 0 || keys[i].signature != keys[i - 1].signature) {
            key = &d->classes[d->n_classes++].key;
            key->signature = keys[i].signature;
            key->name = argus_arena_strdup(l->arena, argus_timeline_string(l->t, row->name));
            key->kind = row->kind;
            key->family = row->family;
            key->func = row->func;
            key->bytes = row->bytes;
            memcpy(key->grid, row->grid, sizeof(key->grid));
            memcpy(key->block, row->block, sizeof(key->block));
            if (!key->name)
                return -1;
        }
        l->slot[keys[i].class_id] = (int)d->n_classes - 1;
    }
    return 0;
}

static int load_classes(struct argus_digest_loader *l)
{
    struct keyed *keys = NULL;
    size_t n_keys = 0, n_comm = 0;
    int rc = -1;

    l->classes = argus_timeline_read_all(l->t, ARGUS_DS_CLASSES, 1u << 22, &l->n_classes, l->err);
    if (!l->classes)
        return -1;
    l->slot = l->d->slot = argus_arena_alloc(l->arena, l->n_classes, sizeof(*l->slot));
    l->d->kind = argus_arena_alloc(l->arena, l->n_classes, 1);
    l->d->n_slots = l->n_classes;
    keys = malloc((l->n_classes + 1) * sizeof(*keys));
    for (size_t i = 0; i < l->n_classes; i++)
        n_comm += l->classes[i].kind == ARGUS_CLASS_COMM;
    l->d->comm_classes = argus_arena_alloc(l->arena, n_comm, sizeof(*l->d->comm_classes));
    if (!l->slot || !l->d->kind || !keys || !l->d->comm_classes)
        goto out;
    for (size_t i = 0; i < l->n_classes; i++) {
        const struct argus_class_row *row = &l->classes[i];

        l->slot[i] = -1;
        l->d->kind[i] = row->kind;
        l->d->rank.has_peer_waits |= row->kind == ARGUS_CLASS_PEER_WAIT;
        if (row->kind == ARGUS_CLASS_COMM)
            l->slot[i] = add_comm_class(l, row);
        else if ((row->kind == ARGUS_CLASS_COMPUTE || row->kind == ARGUS_CLASS_GRAPH ||
                  row->kind == ARGUS_CLASS_COPY) &&
                 !(row->flags & ARGUS_CLASS_POOLED))
            keys[n_keys++] = (struct keyed){
                signature_of(row, argus_timeline_string(l->t, row->name)), (uint32_t)i};
    }
    rc = add_kernel_classes(l, keys, n_keys);
out:
    if (rc)
        argus_digest_no_memory(l->err, argus_timeline_path(l->t));
    free(keys);
    return rc;
}

int argus_digest_load(const char *path, argus_arena_t *arena, struct argus_digest *d,
                      argus_error_t *err)
{
    struct argus_digest_loader l = {.arena = arena, .d = d, .err = err};
    struct argus_model_rank *r = &d->rank;
    int rc = -1;

    l.t = argus_timeline_open(path, err);
    if (!l.t)
        return -1;
    r->info = *argus_timeline_info(l.t);
    r->counters = *argus_timeline_counters(l.t);
    r->sealed = argus_timeline_sealed(l.t);
    r->has_health = argus_timeline_rows(l.t, ARGUS_DS_HEALTH) > 0;
    strncpy(r->end, argus_timeline_end(l.t), sizeof(r->end) - 1);
    r->rank = r->info.rank;
    r->local_rank = r->info.local_rank;
    r->peers = -1;
    r->path = argus_arena_strdup(arena, path);
    if (!r->path) {
        argus_digest_no_memory(err, path);
        goto out;
    }
    if (load_comms(&l) || load_classes(&l) || load_steps(&l) || argus_digest_load_step_comm(&l) ||
        argus_digest_load_clusters(&l))
        goto out;
    rc = 0;
out:
    free(l.classes);
    argus_timeline_close(l.t);
    return rc;
}
