/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's trace to its timeline, through the summary. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/import/write.h"

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

static int by_id(const void *a, const void *b)
{
    const struct import_correlation *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* Which stream a launch call's kernel went to. */
static int index_streams(struct import_writer *o)
{
    const struct import_trace *t = o->t;

    o->streams = malloc((t->kernels + 1) * sizeof(*o->streams));
    if (!o->streams)
        return -1;
    for (size_t i = 0; i < t->n_events; i++) {
        const struct import_op *op = &t->ops[t->events[i].op];

        if (t->events[i].correlation &&
            (op->kind == ARGUS_CLASS_COMPUTE || op->kind == ARGUS_CLASS_COMM))
            o->streams[o->n_streams++] =
                (struct import_correlation){t->events[i].correlation, op->stream};
    }
    if (o->n_streams)
        qsort(o->streams, o->n_streams, sizeof(*o->streams), by_id);
    return 0;
}

/* A launch counts with the stream that its kernel ran on. */
static int place_launches(struct import_writer *o)
{
    struct import_trace *t = o->t;

    for (size_t i = 0; i < t->n_events && o->n_streams; i++) {
        struct import_op op = t->ops[t->events[i].op];
        struct import_correlation key = {t->events[i].correlation, 0}, *found;

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

static int write_event(struct import_writer *o, size_t i, argus_error_t *err)
{
    const struct import_event *ev = &o->t->events[i];
    struct import_op_facts *f = &o->ops[ev->op];
    struct argus_event_row row = {.start = ev->start + o->t->time_base,
                                  .duration = ev->duration,
                                  .stream = o->t->ops[ev->op].stream,
                                  .step = ARGUS_STEP_NONE,
                                  .seq = ARGUS_NONE};

    if (!f->ready && import_resolve_op(o, ev->op) != 0)
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
static int mark_levels(struct import_writer *o)
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

static struct argus_mark_row mark_row(struct import_writer *o, const struct import_mark *m,
                                      uint16_t level)
{
    return (struct argus_mark_row){.start = m->start + o->t->time_base,
                                   .end = m->end + o->t->time_base,
                                   .name = import_string_of(o, m->name),
                                   .domain = import_string_of(o, m->domain),
                                   .tid = m->tid,
                                   .level = level,
                                   .kind =
                                       (uint16_t)argus_mark_kind_of(import_text(o->t, m->name))};
}

/* Other marks of steps go past the summary: it cuts at `steps` alone. */
static int write_mark(struct import_writer *o, size_t i, argus_error_t *err)
{
    struct argus_mark_row row = mark_row(o, &o->t->marks[i], o->levels[i]);

    if (row.kind == ARGUS_MARK_STEP)
        return argus_timeline_append(o->w, ARGUS_DS_MARKS, &row, 1, err);
    return argus_summary_mark(o->s, &row, err);
}

static int write_step(struct import_writer *o, const struct import_mark *step, argus_error_t *err)
{
    struct argus_mark_row row = mark_row(o, step, 0);

    row.kind = ARGUS_MARK_STEP;
    return argus_summary_mark(o->s, &row, err);
}

/* Events by start, steps before the events that they begin with, marks by end, in one stream. */
static int write_all(struct import_writer *o, argus_error_t *err)
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

static int start_output(struct import_writer *o, int world, int whole, argus_error_t *err)
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
        if (import_resolve_group(o, i) != 0)
            return argus_error(err, "%s: too many communicators", o->t->path);
    }
    if (world && import_assume_world(o) != 0)
        return argus_error(err, "%s: out of memory", o->t->path);
    return 0;
}

static void free_output(struct import_writer *o)
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
    struct import_writer o = {.t = t, .world_comm = ARGUS_NONE};
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
