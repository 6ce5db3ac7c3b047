/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's trace to its timeline, through the summary. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/import/import.h"
#include "analyzer/summary/summary.h"
#include "analyzer/timeline/timeline_io.h"

/* Sequence numbers count calls of one communicator; sends and receives count
 * by direction and peer, because the other ranks have no part in them. */
struct counter {
    uint32_t comm;
    uint8_t func; /* 0 for collectives */
    int32_t peer;
    uint32_t calls;
};

struct group_facts { /* of an import_group */
    uint32_t comm;   /* row id; ARGUS_NONE */
    int *ranks;
    size_t n_ranks;
};

struct op_facts { /* of an import_op */
    uint32_t class_id;
    uint32_t counter; /* ARGUS_NONE: no sequence */
    uint8_t ready;
};

struct correlation {
    uint32_t id;
    uint32_t stream;
};

struct output {
    struct import_trace *t;
    argus_timeline_writer_t *w;
    argus_summary_t *s;
    uint32_t *string_ids; /* id in the timeline + 1, by id in the trace */
    struct group_facts *groups;
    uint32_t world_comm; /* ARGUS_NONE: not assumed */
    struct op_facts *ops;
    struct counter *counters;
    size_t n_counters;
    struct correlation *streams;
    size_t n_streams;
    uint16_t *levels; /* of the marks */
    struct import_mark *steps;
    size_t n_steps;
    uint64_t written;
};

int import_path(const struct import_output *out, int rank, char *path, size_t size,
                argus_error_t *err)
{
    int n = snprintf(path, size, "%s/step-0/" ARGUS_TIMELINE_NAME, out->dir, rank);

    if (n < 0 || (size_t)n >= size)
        return argus_error(err, "%s: path is too long", out->dir);
    return 0;
}

int import_prepare(const struct import_output *out, argus_error_t *err)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/step-0", out->dir);

    if (n < 0 || (size_t)n >= sizeof(path))
        return argus_error(err, "%s: path is too long", out->dir);
    if (mkdir(out->dir, 0777) != 0 && errno != EEXIST)
        return argus_error(err, "%s: cannot create: %s", out->dir, strerror(errno));
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return argus_error(err, "%s: cannot create: %s", path, strerror(errno));
    return 0;
}

static uint32_t string_of(struct output *o, uint32_t id)
{
    const char *text;

    if (id >= o->t->n_strings)
        return ARGUS_NONE;
    if (!o->string_ids[id]) {
        text = import_text(o->t, id);
        o->string_ids[id] = argus_timeline_add_string(o->w, text, strlen(text)) + 1;
    }
    return o->string_ids[id] - 1;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return (h ^ 0xff) * 0x100000001b3u; /* "ab","c" is not "a","bc" */
}

static int index_of(const int *ranks, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++) {
        if (ranks[i] == rank)
            return (int)i;
    }
    return -1;
}

/* "0,4,8,12" */
static uint32_t members_text(struct output *o, const int *ranks, size_t n)
{
    char *text = malloc(n * 12 + 1), *p = text;
    uint32_t id;

    if (!text)
        return ARGUS_NONE;
    *p = '\0';
    for (size_t i = 0; i < n; i++)
        p += sprintf(p, i ? ",%d" : "%d", ranks[i]);
    id = argus_timeline_add_string(o->w, text, strlen(text));
    free(text);
    return id;
}

static int resolve_group(struct output *o, size_t i)
{
    const struct import_group *g = &o->t->groups[i];
    struct group_facts *f = &o->groups[i];
    const char *members = import_text(o->t, g->members);
    struct argus_comm_row row = {.hash = g->hash,
                                 .name = string_of(o, g->name),
                                 .size = g->size,
                                 .members = ARGUS_NONE,
                                 .rank = g->rank >= 0 ? (uint32_t)g->rank : ARGUS_NONE};

    f->ranks = import_ranks_parse(members, g->size, &f->n_ranks);
    if (f->ranks) {
        int own = index_of(f->ranks, f->n_ranks, o->t->rank);

        row.members = members_text(o, f->ranks, f->n_ranks);
        if (!row.size)
            row.size = (uint32_t)f->n_ranks;
        if (own >= 0 && g->rank < 0)
            row.rank = (uint32_t)own;
    }
    if (!row.hash)
        row.hash = hash_text(hash_text(0xcbf29ce484222325u, import_text(o->t, g->name)), members);
    f->comm = argus_summary_comm(o->s, &row);
    return f->comm == ARGUS_NONE ? -1 : 0;
}

static int assume_world(struct output *o)
{
    struct argus_comm_row row = {.hash = hash_text(0xcbf29ce484222325u, "world"),
                                 .name = argus_timeline_add_string(o->w, "world", 5),
                                 .size = (uint32_t)o->t->world,
                                 .rank = (uint32_t)o->t->rank,
                                 .members = ARGUS_NONE};
    int *ranks = malloc(sizeof(*ranks) * (size_t)o->t->world);

    if (!ranks)
        return -1;
    for (int i = 0; i < o->t->world; i++)
        ranks[i] = i;
    row.members = members_text(o, ranks, (size_t)o->t->world);
    free(ranks);
    o->world_comm = argus_summary_comm(o->s, &row);
    return o->world_comm == ARGUS_NONE ? -1 : 0;
}

static uint32_t counter_of(struct output *o, uint32_t comm, uint8_t func, int32_t peer)
{
    int pair = func == ARGUS_FUNC_SEND || func == ARGUS_FUNC_RECV;
    struct counter key = {comm, pair ? func : 0, pair ? peer : -1, 0}, *more;

    for (size_t i = 0; i < o->n_counters; i++) {
        const struct counter *c = &o->counters[i];

        if (c->comm == key.comm && c->func == key.func && c->peer == key.peer)
            return (uint32_t)i;
    }
    more = realloc(o->counters, (o->n_counters + 1) * sizeof(*more));
    if (!more)
        return ARGUS_NONE;
    o->counters = more;
    o->counters[o->n_counters] = key;
    return (uint32_t)o->n_counters++;
}

/* The class of an operation, made when it is first met. */
static int resolve_op(struct output *o, uint32_t id)
{
    const struct import_op *op = &o->t->ops[id];
    struct op_facts *f = &o->ops[id];
    struct argus_class_row row = {.kind = op->kind,
                                  .func = op->func,
                                  .dtype = op->dtype,
                                  .name = string_of(o, op->name),
                                  .stream = op->stream,
                                  .comm = ARGUS_NONE,
                                  .peer = -1,
                                  .bytes = op->bytes};

    memcpy(row.grid, op->grid, sizeof(row.grid));
    memcpy(row.block, op->block, sizeof(row.block));
    if (op->kind == ARGUS_CLASS_COMPUTE)
        row.family = (uint8_t)argus_kernel_family(import_text(o->t, op->name));
    if (op->kind == ARGUS_CLASS_COMM && op->group != ARGUS_NONE) {
        const struct group_facts *g = &o->groups[op->group];

        row.comm = g->comm;
        if (op->peer >= 0)
            row.peer = op->peer_in_group ? op->peer : index_of(g->ranks, g->n_ranks, op->peer);
    } else if (op->kind == ARGUS_CLASS_COMM) {
        row.comm = o->world_comm;
    }
    if (op->kind == ARGUS_CLASS_COMM && !op->bytes)
        row.flags |= ARGUS_CLASS_UNMATCHED;
    f->counter = ARGUS_NONE;
    if (row.comm != ARGUS_NONE)
        f->counter = counter_of(o, row.comm, row.func, row.peer);
    f->class_id = argus_summary_class(o->s, &row);
    f->ready = 1;
    return f->class_id == ARGUS_NONE ? -1 : 0;
}

static int by_id(const void *a, const void *b)
{
    const struct correlation *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* Which stream a launch call's kernel went to. */
static int index_streams(struct output *o)
{
    const struct import_trace *t = o->t;

    o->streams = malloc((t->kernels + 1) * sizeof(*o->streams));
    if (!o->streams)
        return -1;
    for (size_t i = 0; i < t->n_events; i++) {
        const struct import_op *op = &t->ops[t->events[i].op];

        if (t->events[i].correlation &&
            (op->kind == ARGUS_CLASS_COMPUTE || op->kind == ARGUS_CLASS_COMM))
            o->streams[o->n_streams++] = (struct correlation){t->events[i].correlation, op->stream};
    }
    if (o->n_streams)
        qsort(o->streams, o->n_streams, sizeof(*o->streams), by_id);
    return 0;
}

/* A launch counts with the stream that its kernel ran on. */
static int place_launches(struct output *o)
{
    struct import_trace *t = o->t;

    for (size_t i = 0; i < t->n_events && o->n_streams; i++) {
        struct import_op op = t->ops[t->events[i].op];
        struct correlation key = {t->events[i].correlation, 0}, *found;

        if (op.kind != ARGUS_CLASS_LAUNCH || !key.id)
            continue;
        found = bsearch(&key, o->streams, o->n_streams, sizeof(key), by_id);
        if (!found || found->stream == op.stream)
            continue;
        op.stream = found->stream;
        t->events[i].op = import_op(t, &op);
        if (t->events[i].op == ARGUS_NONE)
            return -1;
    }
    return 0;
}

static int write_event(struct output *o, size_t i, argus_error_t *err)
{
    const struct import_event *ev = &o->t->events[i];
    struct op_facts *f = &o->ops[ev->op];
    struct argus_event_row row = {.start = ev->start + o->t->time_base,
                                  .duration = ev->duration,
                                  .stream = o->t->ops[ev->op].stream,
                                  .step = ARGUS_STEP_NONE,
                                  .seq = ARGUS_NONE};

    if (!f->ready && resolve_op(o, ev->op) != 0)
        return argus_error(err, "%s: out of memory", o->t->path);
    row.class_id = f->class_id;
    if (f->counter != ARGUS_NONE && !o->t->unnumbered[i])
        row.seq = o->counters[f->counter].calls++;
    o->written++;
    return argus_summary_event(o->s, &row, err);
}

struct mark_order {
    const struct import_mark *mark;
    size_t index;
};

static int by_thread_and_start(const void *a, const void *b)
{
    const struct import_mark *x = ((const struct mark_order *)a)->mark,
                             *y = ((const struct mark_order *)b)->mark;

    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* Nesting depth of each mark on its thread. */
static int mark_levels(struct output *o)
{
    size_t n = o->t->n_marks, depth = 0;
    struct mark_order *order = malloc((n + 1) * sizeof(*order));
    const struct import_mark **open = malloc((n + 1) * sizeof(*open));
    int rc = -1;

    o->levels = calloc(n + 1, sizeof(*o->levels));
    if (!order || !open || !o->levels)
        goto out;
    for (size_t i = 0; i < n; i++)
        order[i] = (struct mark_order){&o->t->marks[i], i};
    if (n)
        qsort(order, n, sizeof(*order), by_thread_and_start);
    for (size_t i = 0; i < n; i++) {
        const struct import_mark *m = order[i].mark;

        while (depth && (open[depth - 1]->tid != m->tid || open[depth - 1]->end <= m->start))
            depth--;
        o->levels[order[i].index] = depth > UINT16_MAX ? UINT16_MAX : (uint16_t)depth;
        open[depth++] = m;
    }
    rc = 0;
out:
    free(order);
    free(open);
    return rc;
}

static struct argus_mark_row mark_row(struct output *o, const struct import_mark *m, uint16_t level)
{
    return (struct argus_mark_row){.start = m->start + o->t->time_base,
                                   .end = m->end + o->t->time_base,
                                   .name = string_of(o, m->name),
                                   .domain = string_of(o, m->domain),
                                   .tid = m->tid,
                                   .level = level,
                                   .kind =
                                       (uint16_t)argus_mark_kind_of(import_text(o->t, m->name))};
}

/* Other marks of steps go past the summary: it cuts at `steps` alone. */
static int write_mark(struct output *o, size_t i, argus_error_t *err)
{
    struct argus_mark_row row = mark_row(o, &o->t->marks[i], o->levels[i]);

    if (row.kind == ARGUS_MARK_STEP)
        return argus_timeline_append(o->w, ARGUS_DS_MARKS, &row, 1, err);
    return argus_summary_mark(o->s, &row, err);
}

static int write_step(struct output *o, const struct import_mark *step, argus_error_t *err)
{
    struct argus_mark_row row = mark_row(o, step, 0);

    row.kind = ARGUS_MARK_STEP;
    return argus_summary_mark(o->s, &row, err);
}

/* Events by start, steps before the events that they begin with, marks by end, in one stream. */
static int write_all(struct output *o, argus_error_t *err)
{
    const struct import_trace *t = o->t;
    size_t mark = 0, step = 0;

    for (size_t i = 0; i < t->n_events; i++) {
        for (; mark < t->n_marks && t->marks[mark].end <= t->events[i].start; mark++) {
            if (write_mark(o, mark, err) != 0)
                return -1;
        }
        for (; step < o->n_steps && o->steps[step].start <= t->events[i].start; step++) {
            if (write_step(o, &o->steps[step], err) != 0)
                return -1;
        }
        if (write_event(o, i, err) != 0)
            return -1;
    }
    for (; mark < t->n_marks; mark++) {
        if (write_mark(o, mark, err) != 0)
            return -1;
    }
    return argus_summary_finish(o->s, err);
}

static void fill_info(const struct import_trace *t, struct argus_timeline_info *info)
{
    memset(info, 0, sizeof(*info));
    snprintf(info->step, sizeof(info->step), "0");
    info->rank = t->rank;
    info->world = t->world;
    info->local_rank = t->local_rank;
    info->pid = t->pid;
    memcpy(info->node, t->node, sizeof(info->node));
    memcpy(info->gpu_name, t->gpu_name, sizeof(info->gpu_name));
    memcpy(info->gpu_uuid, t->gpu_uuid, sizeof(info->gpu_uuid));
    memcpy(info->gpu_pci, t->gpu_pci, sizeof(info->gpu_pci));
    info->nccl_version = t->nccl_version;
    memcpy(info->source, t->source, sizeof(t->source));
    snprintf(info->mode, sizeof(info->mode), "full");
}

static int start_output(struct output *o, int world, int whole, argus_error_t *err)
{
    struct argus_summary_options options;

    if (import_steps(o->t, whole, &o->steps, &o->n_steps) != 0)
        return argus_error(err, "%s: out of memory", o->t->path);

    argus_summary_defaults(&options);
    options.window = 0;
    options.keep_bytes = UINT64_MAX;
    options.warmup_steps = 0; /* a profiler starts when the job is warm */
    options.use_marks = o->n_steps ? ARGUS_SUMMARY_MARKS_ONLY : 0;
    o->s = argus_summary_create(&options, o->w, err);
    if (!o->s)
        return -1;
    if (index_streams(o) != 0 || place_launches(o) != 0)
        return argus_error(err, "%s: out of memory", o->t->path);
    o->string_ids = calloc(o->t->n_strings + 1, sizeof(*o->string_ids));
    o->groups = calloc(o->t->n_groups + 1, sizeof(*o->groups));
    o->ops = calloc(o->t->n_ops + 1, sizeof(*o->ops));
    if (!o->string_ids || !o->groups || !o->ops || mark_levels(o) != 0)
        return argus_error(err, "%s: out of memory", o->t->path);
    for (size_t i = 0; i < o->t->n_groups; i++) {
        if (resolve_group(o, i) != 0)
            return argus_error(err, "%s: too many communicators", o->t->path);
    }
    if (world && assume_world(o) != 0)
        return argus_error(err, "%s: out of memory", o->t->path);
    return 0;
}

static void free_output(struct output *o)
{
    for (size_t i = 0; o->groups && i < o->t->n_groups; i++)
        free(o->groups[i].ranks);
    argus_summary_destroy(o->s);
    free(o->string_ids);
    free(o->groups);
    free(o->ops);
    free(o->counters);
    free(o->streams);
    free(o->levels);
    free(o->steps);
}

/* One attempt; *steps: how many steps it gave. */
static int write_trace(struct import_trace *t, const char *path, int replace, int assume, int whole,
                       int64_t *steps, argus_error_t *err)
{
    struct output o = {.t = t, .world_comm = ARGUS_NONE};
    struct argus_timeline_counters counters = {.invalid = t->invalid};
    struct argus_timeline_info info;
    int rc = -1;

    fill_info(t, &info);
    o.w = argus_timeline_create(path, &info, replace, err);
    if (!o.w)
        return -1;
    if (start_output(&o, assume, whole, err) != 0 || write_all(&o, err) != 0)
        goto out;
    *steps = argus_summary_steps(o.s);
    counters.records = o.written;
    counters.late = argus_summary_late(o.s);
    argus_timeline_set_counters(o.w, &counters);
    if (*steps || whole) {
        rc = argus_timeline_seal(o.w, "import", err);
        o.w = NULL;
    } else {
        rc = 0;
    }
out:
    free_output(&o);
    if (o.w) {
        char left[4200];

        argus_timeline_abandon(o.w);
        snprintf(left, sizeof(left), "%s.open", path);
        unlink(left);
    }
    return rc;
}

int import_trace_write(struct import_trace *t, const struct import_output *out, int assume,
                       argus_error_t *err)
{
    int64_t steps = 0;
    char path[4096];

    if (import_path(out, t->rank, path, sizeof(path), err) != 0 ||
        write_trace(t, path, out->replace, assume, 0, &steps, err) != 0)
        return -1;
    /* No marks and nothing that repeats: what was traced is one step. */
    return steps ? 0 : write_trace(t, path, out->replace, assume, 1, &steps, err);
}
