/* SPDX-License-Identifier: Apache-2.0 */
/* One timeline file -> columns. */
#include <config.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/digest.h"
#include "analyzer/timeline/timeline_io.h"

#define MINOR_MODE 0.03 /* a mode with less of the calls is noise, not the kernel */

struct loader {
    argus_timeline_t *t;
    argus_arena_t *arena;
    struct argus_digest *d;
    argus_error_t *err;
    struct argus_class_row *classes;
    size_t n_classes;
    int *slot; /* by class id: index of comm class or kernel class, -1: not kept */
};

static int no_memory(argus_error_t *err, const char *path)
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

static int put(struct loader *l, enum argus_column c, int row, int64_t value)
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
static int step_range(struct loader *l, const struct argus_step_row *rows, size_t n)
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
    if ((int64_t)last - first >= (int64_t)n * 4 + 4096)
        return argus_error(l->err, "%s: dataset \"steps\": step numbers %d to %d in %zu rows",
                           argus_timeline_path(l->t), first, last, n);
    l->d->rank.first_step = first;
    l->d->rank.n_rows = last - first + 1;
    return 0;
}

static int put_step(struct loader *l, int i, const struct argus_step_row *s)
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

static int load_steps(struct loader *l)
{
    struct argus_model_rank *r = &l->d->rank;
    size_t n = 0;
    struct argus_step_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_STEPS, 1u << 26, &n, l->err);
    int rc = -1;

    if (!rows)
        return -1;
    if (step_range(l, rows, n))
        goto out;
    rc = no_memory(l->err, argus_timeline_path(l->t));
    r->start = argus_arena_alloc(l->arena, (size_t)r->n_rows, sizeof(*r->start));
    r->flags = argus_arena_alloc(l->arena, (size_t)r->n_rows, sizeof(*r->flags));
    r->gap_class = argus_arena_alloc(l->arena, (size_t)r->n_rows, sizeof(*r->gap_class));
    if (!r->start || !r->flags || !r->gap_class)
        goto out;
    for (size_t i = 0; i < n; i++) {
        int at = rows[i].step - r->first_step;

        if (rows[i].step < 0 || r->start[at])
            continue;
        if (rows[i].end <= rows[i].start || rows[i].compute < 0 || rows[i].exposed < 0) {
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

static int load_comms(struct loader *l)
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
        no_memory(l->err, argus_timeline_path(l->t));
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

static int add_comm_class(struct loader *l, const struct argus_class_row *row)
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
static int add_kernel_classes(struct loader *l, struct keyed *keys, size_t n)
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

static int load_classes(struct loader *l)
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
        no_memory(l->err, argus_timeline_path(l->t));
    free(keys);
    return rc;
}

static int comm_arrays(struct loader *l, struct argus_rank_comm *c)
{
    size_t n = (size_t)l->d->rank.n_rows;

    if (c->sum)
        return 0;
    c->sum = argus_arena_alloc(l->arena, n, sizeof(float));
    c->min = argus_arena_alloc(l->arena, n, sizeof(float));
    c->count = malloc(n * sizeof(float)); /* moved to the arena when it varies */
    c->first_seq = malloc(n * sizeof(uint32_t));
    if (!c->sum || !c->min || !c->count || !c->first_seq)
        return -1;
    for (size_t i = 0; i < n; i++) {
        c->sum[i] = c->min[i] = NAN;
        c->count[i] = 0;
        c->first_seq[i] = ARGUS_NONE;
    }
    return 0;
}

static void add_step_comm(struct argus_rank_comm *c, int at, const struct argus_step_comm_row *row)
{
    if (c->count[at] > 0) { /* the same class on another stream */
        c->sum[at] += (float)row->sum;
        c->min[at] = fminf(c->min[at], (float)row->min);
        c->first_seq[at] = row->first_seq < c->first_seq[at] ? row->first_seq : c->first_seq[at];
    } else {
        c->sum[at] = (float)row->sum;
        c->min[at] = (float)row->min;
        c->first_seq[at] = row->first_seq;
    }
    c->count[at] += (float)row->count;
    c->lead += (double)row->lead_idle;
}

/* Most jobs call a collective equally often in every step: one number says it all. */
static int pack_comm(struct loader *l, struct argus_rank_comm *c)
{
    int n = l->d->rank.n_rows, first = -1, second = -1, same = 1, even = 1, steps = 0;
    float *count = c->count;
    uint32_t *seq = c->first_seq;

    for (int i = 0; i < n; i++) {
        if (!(count[i] > 0))
            continue;
        steps++;
        if (first < 0)
            first = i;
        else if (second < 0)
            second = i;
        same &= count[i] == count[first];
    }
    c->count = NULL;
    c->first_seq = NULL;
    if (first >= 0) {
        c->usual_count = count[first];
        c->usual_row = first;
        c->usual_seq = seq[first];
        c->lead /= steps;
        if (second >= 0 && seq[first] != ARGUS_NONE && seq[second] != ARGUS_NONE)
            c->seq_per_step = (seq[second] - seq[first]) / (uint32_t)(second - first);
        for (int i = 0; i < n; i++)
            if (count[i] > 0 && seq[i] != seq[first] + c->seq_per_step * (uint32_t)(i - first))
                even = 0;
    }
    if (!same && (c->count = argus_arena_alloc(l->arena, (size_t)n, sizeof(float))))
        memcpy(c->count, count, (size_t)n * sizeof(float));
    if (!even && (c->first_seq = argus_arena_alloc(l->arena, (size_t)n, sizeof(uint32_t))))
        memcpy(c->first_seq, seq, (size_t)n * sizeof(uint32_t));
    free(count);
    free(seq);
    return (!same && !c->count) || (!even && !c->first_seq) ? -1 : 0;
}

static int load_step_comm(struct loader *l)
{
    struct argus_digest *d = l->d;
    size_t n = 0;
    struct argus_step_comm_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_STEP_COMM, 1u << 28, &n, l->err);
    int rc = rows ? 0 : -1;

    for (size_t i = 0; i < n && !rc; i++) {
        int at = rows[i].step - d->rank.first_step;
        struct argus_rank_comm *c;

        if (rows[i].class_id >= l->n_classes ||
            l->classes[rows[i].class_id].kind != ARGUS_CLASS_COMM || rows[i].step < 0 || at < 0 ||
            at >= d->rank.n_rows || !d->rank.start[at])
            continue;
        if (!rows[i].count || rows[i].min < 0 || rows[i].sum < rows[i].min) {
            d->rank.counters.invalid++;
            continue;
        }
        c = &d->comm_classes[l->slot[rows[i].class_id]].data;
        if (comm_arrays(l, c))
            rc = no_memory(l->err, argus_timeline_path(l->t));
        else
            add_step_comm(c, at, &rows[i]);
    }
    for (size_t i = 0; i < d->n_comm_classes; i++) {
        struct argus_rank_comm *c = &d->comm_classes[i].data;

        if (rc) {
            free(c->count);
            free(c->first_seq);
            c->count = NULL;
            c->first_seq = NULL;
        } else if (c->sum && pack_comm(l, c)) {
            rc = no_memory(l->err, argus_timeline_path(l->t));
        }
    }
    free(rows);
    return rc;
}

static int class_arrays(struct loader *l, struct argus_rank_class *c)
{
    size_t n = (size_t)l->d->rank.n_windows;

    if (c->typical)
        return 0;
    c->typical = argus_arena_alloc(l->arena, n, sizeof(float));
    c->p99 = argus_arena_alloc(l->arena, n, sizeof(float));
    c->sum = argus_arena_alloc(l->arena, n, sizeof(float));
    c->count = argus_arena_alloc(l->arena, n, sizeof(float));
    c->modes = argus_arena_alloc(l->arena, n, 1);
    return c->typical && c->p99 && c->sum && c->count && c->modes ? 0 : -1;
}

static int window_cmp(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] < y[1] ? -1 : x[1] > y[1];
}

static int usable(const struct loader *l, const struct argus_cluster_row *row)
{
    return row->class_id < l->n_classes && row->first_step >= 0 &&
           row->last_step >= row->first_step && row->count && row->p50 > 0 && row->sum >= 0;
}

/* The distinct intervals of steps that rows stand for. */
static int find_windows(struct loader *l, const struct argus_cluster_row *rows, size_t n)
{
    struct argus_model_rank *r = &l->d->rank;
    int *spans = malloc((n + 1) * 2 * sizeof(int));
    size_t kept = 0, distinct = 0;

    if (!spans)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!usable(l, &rows[i]) || (kept && spans[2 * kept - 2] == rows[i].first_step &&
                                     spans[2 * kept - 1] == rows[i].last_step))
            continue; /* rows of one window mostly stand together */
        spans[2 * kept] = rows[i].first_step;
        spans[2 * kept++ + 1] = rows[i].last_step;
    }
    qsort(spans, kept, 2 * sizeof(int), window_cmp);
    for (size_t i = 0; i < kept; i++)
        if (!distinct || window_cmp(&spans[2 * distinct - 2], &spans[2 * i])) {
            spans[2 * distinct] = spans[2 * i];
            spans[2 * distinct++ + 1] = spans[2 * i + 1];
        }
    r->n_windows = (int)distinct;
    r->window_first = argus_arena_alloc(l->arena, distinct, sizeof(int));
    r->window_last = argus_arena_alloc(l->arena, distinct, sizeof(int));
    for (size_t i = 0; r->window_first && r->window_last && i < distinct; i++) {
        r->window_first[i] = spans[2 * i];
        r->window_last[i] = spans[2 * i + 1];
    }
    free(spans);
    return r->window_first && r->window_last ? 0 : -1;
}

static int window_of(const struct argus_model_rank *r, const struct argus_cluster_row *row)
{
    int lo = 0, hi = r->n_windows - 1, span[2] = {row->first_step, row->last_step};

    while (lo <= hi) {
        int mid = (lo + hi) / 2, at[2] = {r->window_first[mid], r->window_last[mid]};
        int d = window_cmp(span, at);

        if (!d)
            return mid;
        if (d < 0)
            hi = mid - 1;
        else
            lo = mid + 1;
    }
    return 0;
}

static void add_cluster(struct argus_rank_class *c, int w, const struct argus_cluster_row *row,
                        int pass)
{
    if (pass == 0) {
        c->sum[w] += (float)row->sum;
        c->count[w] += (float)row->count;
    } else if (pass == 1 && (float)row->count >= MINOR_MODE * c->count[w]) {
        /* typical and p99 hold sums of medians and weights until finish_class() */
        c->typical[w] += (float)((double)row->p50 * row->count);
        c->p99[w] += (float)row->count;
        c->modes[w]++;
    } else if (pass == 2 && (float)row->count >= 0.05f * c->count[w] &&
               !(c->p99[w] >= (float)row->p99)) {
        c->p99[w] = (float)row->p99;
    }
}

static void finish_class(const struct argus_model_rank *r, struct argus_rank_class *c)
{
    for (int w = 0; c->typical && w < r->n_windows; w++) {
        c->typical[w] = c->p99[w] > 0 ? c->typical[w] / c->p99[w] : NAN;
        c->p99[w] = NAN;
    }
}

/* Passes: calls and time; medians of the modes that are not minor; the slowest mode's p99. */
static int load_clusters(struct loader *l)
{
    struct argus_digest *d = l->d;
    size_t n = 0;
    struct argus_cluster_row *rows =
        argus_timeline_read_all(l->t, ARGUS_DS_CLUSTERS, 1u << 27, &n, l->err);
    int rc = rows ? 0 : -1;

    if (!rc && find_windows(l, rows, n))
        rc = no_memory(l->err, argus_timeline_path(l->t));
    for (int pass = 0; pass < 3 && !rc; pass++) {
        for (size_t i = 0; i < n && !rc; i++) {
            const struct argus_cluster_row *row = &rows[i];
            struct argus_rank_class *c;

            if (!usable(l, row))
                continue;
            if (l->slot[row->class_id] < 0) {
                d->pooled += pass ? 0 : (double)row->sum;
                continue;
            }
            if (l->classes[row->class_id].kind == ARGUS_CLASS_COMM)
                continue;
            c = &d->classes[l->slot[row->class_id]].data;
            if (class_arrays(l, c))
                rc = no_memory(l->err, argus_timeline_path(l->t));
            else
                add_cluster(c, window_of(&d->rank, row), row, pass);
        }
        for (size_t i = 0; pass == 1 && i < d->n_classes; i++)
            finish_class(&d->rank, &d->classes[i].data);
    }
    free(rows);
    return rc;
}

int argus_digest_load(const char *path, argus_arena_t *arena, struct argus_digest *d,
                      argus_error_t *err)
{
    struct loader l = {.arena = arena, .d = d, .err = err};
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
        no_memory(err, path);
        goto out;
    }
    if (r->rank < 0 || r->rank > (1 << 24)) {
        argus_error(err, "%s: attribute \"rank\" is %d", path, r->rank);
        goto out;
    }
    if (load_comms(&l) || load_classes(&l) || load_steps(&l) || load_step_comm(&l) ||
        load_clusters(&l))
        goto out;
    rc = 0;
out:
    free(l.classes);
    argus_timeline_close(l.t);
    return rc;
}
