/* SPDX-License-Identifier: Apache-2.0 */
/* Events, steps, marks and health of one rank as slices and counters of a trace. */
#include <config.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/report/perfetto.h"

int argus_perfetto_write_event(struct perfetto *p, size_t r, argus_timeline_t *file,
                               const struct tables *t, const struct argus_event_row *ev)
{
    const struct argus_class_row *c = &t->classes[ev->class_id];
    const struct argus_comm_row *comm = argus_perfetto_comm_of(t, ev->class_id);
    struct trace_slice s = {.pid = p->ranks[r].rank,
                            .name = argus_timeline_string(file, c->name),
                            .start = argus_perfetto_trace_us(p, r, ev->start),
                            .duration = (double)ev->duration / 1e3};

    struct argus_call *call = NULL;
    int tid;

    s.kind = c->kind >= ARGUS_CLASS_OVERHEAD ? TRACE_HOST : TRACE_STREAM;
    s.id = s.kind == TRACE_HOST ? c->kind : ev->stream;
    tid = trace_slice_begin(&p->out, &s);
    if (comm && c->kind == ARGUS_CLASS_COMM)
        call = argus_calls_find(p->calls, p->n_calls, comm->hash, ev->seq, (uint32_t)r);
    if (call)
        call->track = tid;
    trace_arg_number(&p->out, "step", ev->step);
    if (c->kind == ARGUS_CLASS_COMPUTE) {
        trace_arg_dims(&p->out, "grid", c->grid);
        trace_arg_dims(&p->out, "block", c->block);
    }
    if (c->bytes)
        trace_arg_number(&p->out, "bytes", (double)c->bytes);
    if (comm) {
        trace_arg_text(&p->out, "communicator", argus_timeline_string(file, comm->name));
        trace_arg_number(&p->out, "ranks", comm->size);
        if (ev->seq != ARGUS_NONE)
            trace_arg_number(&p->out, "seq", ev->seq);
        if (c->peer >= 0)
            trace_arg_number(&p->out, "peer", c->peer);
    }
    trace_slice_end(&p->out);
    return 0;
}

int argus_perfetto_write_steps(struct perfetto *p, size_t r, argus_timeline_t *file,
                               argus_error_t *err)
{
    size_t n;
    struct argus_step_row *steps = argus_timeline_read_all(file, ARGUS_DS_STEPS, 1u << 24, &n, err);
    char name[32];

    if (!steps)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct trace_slice s = {.pid = p->ranks[r].rank,
                                .name = name,
                                .start = argus_perfetto_trace_us(p, r, steps[i].start),
                                .duration = (double)(steps[i].end - steps[i].start) / 1e3,
                                .kind = TRACE_STEPS};

        /* Steps whose events are not there would stretch the picture to the whole job. */
        if (!(steps[i].flags & ARGUS_STEP_KEPT) ||
            !argus_perfetto_step_wanted(p->options, steps[i].step) || steps[i].end < steps[i].start)
            continue;
        snprintf(name, sizeof(name), "step %d", steps[i].step);
        trace_slice_begin(&p->out, &s);
        trace_arg_number(&p->out, "compute_ms", (double)steps[i].compute / 1e6);
        trace_arg_number(&p->out, "exposed_comm_ms", (double)steps[i].exposed / 1e6);
        trace_arg_number(&p->out, "idle_ms", (double)steps[i].idle / 1e6);
        trace_slice_end(&p->out);
    }
    free(steps);
    return 0;
}

static int by_mark(const void *a, const void *b)
{
    const struct argus_mark_row *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* Marks that overlap the exported time. */
int argus_perfetto_write_marks(struct perfetto *p, size_t r, argus_timeline_t *file,
                               argus_error_t *err)
{
    size_t n;
    struct argus_mark_row *marks = argus_timeline_read_all(file, ARGUS_DS_MARKS, 1u << 24, &n, err);

    if (!marks)
        return -1;
    if (n)
        qsort(marks, n, sizeof(*marks), by_mark);
    for (size_t i = 0; i < n; i++) {
        struct trace_slice s = {.pid = p->ranks[r].rank,
                                .name = argus_timeline_string(file, marks[i].name),
                                .start = argus_perfetto_trace_us(p, r, marks[i].start),
                                .duration = (double)(marks[i].end - marks[i].start) / 1e3,
                                .kind = TRACE_MARKS,
                                .id = marks[i].tid};

        if (marks[i].end < marks[i].start || s.start + s.duration < 0 ||
            s.start > p->out.last_us[r])
            continue;
        trace_slice_begin(&p->out, &s);
        trace_slice_end(&p->out);
    }
    free(marks);
    return 0;
}

int argus_perfetto_write_health(struct perfetto *p, size_t r, argus_timeline_t *file,
                                argus_error_t *err)
{
    size_t n;
    struct argus_health_row *rows =
        argus_timeline_read_all(file, ARGUS_DS_HEALTH, 1u << 24, &n, err);

    if (!rows)
        return -1;
    for (size_t i = 0; i < n; i++) {
        double us = argus_perfetto_trace_us(p, r, rows[i].time);

        if (us >= 0 && us <= p->out.last_us[r] && isfinite(rows[i].value))
            trace_counter(&p->out, p->ranks[r].rank, argus_timeline_string(file, rows[i].metric),
                          us, rows[i].value);
    }
    free(rows);
    return 0;
}
