/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps keep their events.
 *
 * HDF5 cannot take rows back, so that what would be evicted later is never
 * written: half of the budget is for routine windows, half for slow steps.
 * Each time half of what was left of the routine half is spent, the distance
 * of routine windows doubles; the windows of a rank with more events are then
 * a subset of the others', so that ranks still have windows in common, and
 * there is always room for another.  The same for slow steps, where what
 * counts as slow doubles its excess. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary_impl.h"

#define CHUNK 1024u
#define BASELINE_STEPS 2        /* kept after the warm-up */
#define FLIGHT_NS 10000000000LL /* rows wait no longer than this for a slow step */

void argus_keep_init(argus_summary_t *s)
{
    struct budget *b = &s->budget;

    b->routine_left = s->opt.keep_bytes / 2;
    b->slow_left = s->opt.keep_bytes - b->routine_left;
    b->routine_mark = b->routine_left / 2;
    b->slow_mark = b->slow_left / 2;
    b->routine_stride = 1;
    b->slow_factor = s->opt.slow_factor;
}

static int write_events(argus_summary_t *s, const struct event_list *l, int32_t step,
                        argus_error_t *err)
{
    struct argus_event_row *rows = malloc(CHUNK * sizeof(*rows));
    size_t n = 0;
    int rc = -1;

    if (!rows)
        return argus_error(err, "no memory to keep the events of step %d", step);
    for (size_t i = 0; i < l->n; i++) {
        const struct argus_pending *ev = &l->ev[i];

        rows[n++] = (struct argus_event_row){.start = ev->start,
                                             .duration = ev->end - ev->start,
                                             .class_id = ev->class_id,
                                             .stream = s->rows[ev->class_id].stream,
                                             .step = step,
                                             .seq = ev->seq};
        if (n == CHUNK || i + 1 == l->n) {
            if (argus_timeline_append(s->w, ARGUS_DS_EVENTS, rows, n, err) < 0)
                goto out;
            n = 0;
        }
    }
    rc = 0;
out:
    free(rows);
    return rc;
}

/* Marks within [start, end) that were not written yet. */
static int write_marks(argus_summary_t *s, int64_t start, int64_t end, argus_error_t *err)
{
    size_t n = s->n_marks < ARGUS_MARKS_MAX ? s->n_marks : ARGUS_MARKS_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t at = (s->n_marks - n + i) % ARGUS_MARKS_MAX;

        if (s->mark_written[at] || s->marks[at].start >= end || s->marks[at].end <= start)
            continue;
        if (argus_timeline_append(s->w, ARGUS_DS_MARKS, &s->marks[at], 1, err) < 0)
            return -1;
        s->mark_written[at] = 1;
    }
    return 0;
}

static int keep(argus_summary_t *s, struct argus_step_row *row, const struct event_list *events,
                argus_error_t *err)
{
    row->flags |= ARGUS_STEP_KEPT;
    if (write_events(s, events, row->step, err) < 0)
        return -1;
    return s->opt.window ? write_marks(s, row->start, row->end, err) : 0;
}

static int routine(argus_summary_t *s, const struct argus_step_row *row, uint64_t bytes)
{
    struct budget *b = &s->budget;
    int64_t number = row->step + (s->agreed_offset > 0 ? s->agreed_offset : 0);
    int baseline =
        row->step >= s->opt.warmup_steps && row->step < s->opt.warmup_steps + BASELINE_STEPS;

    if (!baseline && number % ((int64_t)s->opt.window * b->routine_stride))
        return 0;
    if (bytes > b->routine_left)
        return 0;
    b->routine_left -= bytes;
    while (b->routine_left < b->routine_mark && b->routine_stride < (1 << 20)) {
        b->routine_mark /= 2;
        b->routine_stride *= 2;
    }
    return 1;
}

static int slow(argus_summary_t *s, const struct argus_step_row *row, uint64_t bytes,
                int64_t median)
{
    struct budget *b = &s->budget;

    if (!(row->flags & ARGUS_STEP_SLOW) || bytes > b->slow_left ||
        (double)(row->end - row->start) < b->slow_factor * (double)median)
        return 0;
    b->slow_left -= bytes;
    while (b->slow_left < b->slow_mark) {
        b->slow_mark /= 2;
        b->slow_factor = 1.0 + 2.0 * (b->slow_factor - 1.0);
        if (!b->slow_mark)
            break;
    }
    return 1;
}

static int release_oldest(argus_summary_t *s, argus_error_t *err)
{
    struct flight_step f = s->flight[0];

    argus_events_free(&f.events);
    s->n_flight--;
    memmove(&s->flight[0], &s->flight[1], s->n_flight * sizeof(s->flight[0]));
    return argus_timeline_append(s->w, ARGUS_DS_STEPS, &f.row, 1, err);
}

/* A slow step keeps those before it that are still in memory. */
static int keep_flight(argus_summary_t *s, argus_error_t *err)
{
    for (size_t i = 0; i < s->n_flight; i++) {
        struct flight_step *f = &s->flight[i];
        uint64_t bytes = f->events.n * sizeof(struct argus_event_row);

        if ((f->row.flags & ARGUS_STEP_KEPT) || bytes > s->budget.slow_left)
            continue;
        s->budget.slow_left -= bytes;
        if (keep(s, &f->row, &f->events, err) < 0)
            return -1;
    }
    return 0;
}

int argus_keep_step(argus_summary_t *s, struct argus_step_row *row, struct event_list *events,
                    int64_t median, argus_error_t *err)
{
    uint64_t bytes = events->n * sizeof(struct argus_event_row), held = 0;
    size_t limit = (size_t)s->opt.flight_steps;

    if (!s->opt.window) {
        if (keep(s, row, events, err) < 0)
            return -1;
    } else if (slow(s, row, bytes, median)) {
        if (keep_flight(s, err) < 0 || keep(s, row, events, err) < 0)
            return -1;
    } else if (routine(s, row, bytes) && keep(s, row, events, err) < 0) {
        return -1;
    }
    while (s->n_flight && s->n_flight >= limit) {
        if (release_oldest(s, err) < 0)
            return -1;
    }
    if (!limit || !s->opt.window)
        return argus_timeline_append(s->w, ARGUS_DS_STEPS, row, 1, err);
    s->flight[s->n_flight].row = *row;
    s->flight[s->n_flight++].events = *events;
    *events = (struct event_list){0};
    for (size_t i = 0; i < s->n_flight; i++)
        held += s->flight[i].events.n * sizeof(struct argus_pending);
    while (s->n_flight > 1 && held > ARGUS_FLIGHT_BYTES) {
        held -= s->flight[0].events.n * sizeof(struct argus_pending);
        if (release_oldest(s, err) < 0)
            return -1;
    }
    return 0;
}

int argus_keep_release(argus_summary_t *s, int64_t before, argus_error_t *err)
{
    while (s->n_flight && s->flight[0].row.end <= before) {
        if (release_oldest(s, err) < 0)
            return -1;
    }
    return 0;
}

int argus_keep_age(argus_summary_t *s, argus_error_t *err)
{
    return s->n_flight ? argus_keep_release(s, s->newest - FLIGHT_NS, err) : 0;
}

void argus_keep_free(argus_summary_t *s)
{
    for (size_t i = 0; i < s->n_flight; i++)
        argus_events_free(&s->flight[i].events);
    s->n_flight = 0;
}
