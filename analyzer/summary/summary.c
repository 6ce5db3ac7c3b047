/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/summary/summary.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary_impl.h"

#define STACKS_MAX 4096u

void argus_summary_defaults(struct argus_summary_options *o)
{
    *o = (struct argus_summary_options){.window = 64,
                                        .cluster_steps = 64,
                                        .warmup_steps = 3,
                                        .flight_steps = 3,
                                        .slow_factor = 1.10,
                                        .keep_bytes = 64u << 20,
                                        .max_classes = 8192,
                                        .use_marks = 1};
}

argus_summary_t *argus_summary_create(const struct argus_summary_options *options,
                                      argus_timeline_writer_t *w, argus_error_t *err)
{
    argus_summary_t *s = calloc(1, sizeof(*s));

    if (!s) {
        argus_error(err, "no memory for a summary");
        return NULL;
    }
    if (options)
        s->opt = *options;
    else
        argus_summary_defaults(&s->opt);
    if (s->opt.cluster_steps < 1)
        s->opt.cluster_steps = 64;
    if (s->opt.flight_steps < 0)
        s->opt.flight_steps = 0;
    if (s->opt.flight_steps > (int)ARGUS_FLIGHT_MAX)
        s->opt.flight_steps = ARGUS_FLIGHT_MAX;
    if (s->opt.max_classes < 32)
        s->opt.max_classes = 32;
    s->w = w;
    s->boundary = INT64_MIN;
    s->newest = INT64_MIN;
    s->window_first = ARGUS_STEP_NONE;
    s->agreed_offset = -1;
    s->next_try = 64;
    argus_lock_reset(&s->lock);
    if (s->opt.use_marks == ARGUS_SUMMARY_MARKS_ONLY)
        s->lock.mode = LOCK_MARKS;
    argus_keep_init(s);
    return s;
}

void argus_summary_destroy(argus_summary_t *s)
{
    if (!s)
        return;
    for (uint32_t c = 0; c < s->n_classes; c++)
        argus_hist_free(&s->hists[c]);
    argus_keep_free(s);
    argus_lock_reset(&s->lock);
    argus_breakdown_free(&s->breakdown);
    argus_events_free(&s->pending);
    free(s->comms);
    free(s->first_seq);
    free(s->rows);
    free(s->briefs);
    free(s->accs);
    free(s->hists);
    free(s->seen);
    free(s->tokens[0]);
    free(s->tokens[1]);
    free(s->class_index);
    free(s->touched);
    free(s->gaps);
    free(s->stacks);
    free(s);
}

/* ---- the stream --------------------------------------------------------- */

static int feed(argus_summary_t *s, const struct argus_pending *ev, argus_error_t *err)
{
    if (ev->start < s->boundary) {
        s->late++;
        s->seen[ev->class_id] = 1;
        if (argus_hist_add(&s->hists[ev->class_id], ev->end - ev->start) < 0)
            return argus_error(err, "no memory for the durations of class %u", ev->class_id);
        return 0;
    }
    return argus_cut_event(s, ev, err);
}

/* A pattern was found: what waited for it now comes as if it had been known from the start. */
static int replay(argus_summary_t *s, argus_error_t *err)
{
    struct event_list waiting = s->pending;
    size_t n_marks = s->n_marks < ARGUS_MARKS_MAX ? s->n_marks : ARGUS_MARKS_MAX, mark = 0;
    int rc = -1;

    s->pending = (struct event_list){0};
    for (size_t i = 0; i <= waiting.n; i++) {
        while (mark < n_marks) {
            const struct argus_mark_row *m =
                &s->marks[(s->n_marks - n_marks + mark) % ARGUS_MARKS_MAX];

            if (i < waiting.n && waiting.ev[i].start < m->end)
                break;
            if (argus_cut_mark(s, m, err) < 0)
                goto out;
            mark++;
        }
        if (i < waiting.n && feed(s, &waiting.ev[i], err) < 0)
            goto out;
    }
    if (s->lock.mode == LOCK_TOKENS && !s->lock.started)
        argus_lock_reset(&s->lock);
    rc = 0;
out:
    argus_events_free(&waiting);
    return rc;
}

/* No border for too long: the older half belongs to no step, and the pattern is looked for anew. */
static int overflow(argus_summary_t *s, argus_error_t *err)
{
    if (s->opt.use_marks == ARGUS_SUMMARY_MARKS_ONLY)
        return 0; /* a long step is a long step */
    argus_events_sort(&s->pending);
    if (s->lock.mode != LOCK_NONE) {
        s->relearnt = s->n_steps > 0;
        argus_lock_reset(&s->lock);
    }
    s->next_try = s->pending.n / 2 + 64;
    return argus_step_outside(s, s->pending.n / 2, err);
}

int argus_summary_event(argus_summary_t *s, const struct argus_event_row *ev, argus_error_t *err)
{
    struct argus_pending p = {.start = ev->start,
                              .end = ev->start + (ev->duration > 0 ? ev->duration : 0),
                              .class_id = ev->class_id,
                              .seq = ev->seq};
    uint32_t comm;
    int found;

    if (ev->class_id >= s->n_classes)
        return argus_error(err, "event of class %u, but there are %u classes", ev->class_id,
                           s->n_classes);
    comm = s->briefs[ev->class_id].comm;
    if (comm < s->n_comms && s->first_seq[comm] == ARGUS_NONE)
        s->first_seq[comm] = ev->seq;
    s->events++;
    if (p.end > s->newest)
        s->newest = p.end;
    if (feed(s, &p, err) < 0)
        return -1;
    if (s->lock.mode == LOCK_NONE && s->pending.n >= s->next_try) {
        found = argus_learn(s, 0, err);
        if (found < 0 || (found > 0 && replay(s, err) < 0))
            return -1;
    }
    return s->pending.n >= ARGUS_PENDING_MAX ? overflow(s, err) : 0;
}

int argus_summary_mark(argus_summary_t *s, const struct argus_mark_row *mark, argus_error_t *err)
{
    size_t at = s->n_marks++ % ARGUS_MARKS_MAX;

    s->marks[at] = *mark;
    s->mark_written[at] = 0;
    if (!s->opt.window) {
        s->mark_written[at] = 1;
        if (argus_timeline_append(s->w, ARGUS_DS_MARKS, mark, 1, err) < 0)
            return -1;
    }
    return argus_cut_mark(s, mark, err);
}

int argus_summary_gap(argus_summary_t *s, const struct argus_gap_row *gap, argus_error_t *err)
{
    if (!s->gaps) {
        s->gaps = malloc(ARGUS_GAPS_MAX * sizeof(*s->gaps));
        if (!s->gaps)
            return argus_error(err, "no memory for the gaps");
    }
    if (s->n_gaps == ARGUS_GAPS_MAX)
        memmove(&s->gaps[0], &s->gaps[1], --s->n_gaps * sizeof(s->gaps[0]));
    s->gaps[s->n_gaps++] = *gap;
    return argus_timeline_append(s->w, ARGUS_DS_GAPS, gap, 1, err);
}

/* Stacks of a closed step, and those from before it, get their step and leave. */
int argus_summary_stacks(argus_summary_t *s, const struct argus_step_row *row, argus_error_t *err)
{
    size_t left = 0;

    for (size_t i = 0; i < s->n_stacks; i++) {
        struct argus_stack_row *stack = &s->stacks[i];

        if (row && stack->time >= row->end) {
            s->stacks[left++] = *stack;
            continue;
        }
        stack->step = row && stack->time >= row->start ? row->step : ARGUS_STEP_NONE;
        if (argus_timeline_append(s->w, ARGUS_DS_STACKS, stack, 1, err) < 0)
            return -1;
    }
    s->n_stacks = left;
    return 0;
}

int argus_summary_stack(argus_summary_t *s, const struct argus_stack_row *stack, argus_error_t *err)
{
    if (s->n_stacks == STACKS_MAX && argus_summary_stacks(s, NULL, err) < 0)
        return -1;
    if (s->n_stacks == s->cap_stacks) {
        size_t capacity = s->cap_stacks ? 2 * s->cap_stacks : 64;
        struct argus_stack_row *p = realloc(s->stacks, capacity * sizeof(*p));

        if (!p)
            return argus_error(err, "no memory for a CPU stack");
        s->stacks = p;
        s->cap_stacks = capacity;
    }
    s->stacks[s->n_stacks++] = *stack;
    return 0;
}

int argus_summary_flush(argus_summary_t *s, argus_error_t *err)
{
    if (argus_keep_age(s, err) < 0)
        return -1;
    return argus_timeline_flush(s->w, err);
}

static int write_all_marks(argus_summary_t *s, argus_error_t *err)
{
    size_t n = s->n_marks < ARGUS_MARKS_MAX ? s->n_marks : ARGUS_MARKS_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t at = (s->n_marks - n + i) % ARGUS_MARKS_MAX;

        if (s->mark_written[at])
            continue;
        s->mark_written[at] = 1;
        if (argus_timeline_append(s->w, ARGUS_DS_MARKS, &s->marks[at], 1, err) < 0)
            return -1;
    }
    return 0;
}

int argus_summary_finish(argus_summary_t *s, argus_error_t *err)
{
    int found = 0;

    if (s->finished)
        return 0;
    s->finished = 1;
    if (s->lock.mode == LOCK_NONE) {
        found = argus_learn(s, 1, err);
        if (found < 0 || (found > 0 && replay(s, err) < 0))
            return -1;
    }
    if (argus_cut_finish(s, err) < 0 || argus_summary_stacks(s, NULL, err) < 0)
        return -1;
    if (!s->n_steps && write_all_marks(s, err) < 0)
        return -1;
    if (argus_window_emit(s, s->window_first,
                          s->window_first == ARGUS_STEP_NONE ? ARGUS_STEP_NONE : s->n_steps - 1,
                          err) < 0 ||
        argus_keep_release(s, INT64_MAX, err) < 0)
        return -1;
    return argus_timeline_flush(s->w, err);
}

/* ---- what it holds ------------------------------------------------------ */

uint64_t argus_summary_late(const argus_summary_t *s)
{
    return s->late;
}

int64_t argus_summary_steps(const argus_summary_t *s)
{
    return s->n_steps;
}

size_t argus_summary_memory(const argus_summary_t *s)
{
    size_t bytes = sizeof(*s), per_class = sizeof(*s->rows) + sizeof(*s->briefs) +
                                           sizeof(*s->accs) + sizeof(*s->hists) + 9;

    bytes += s->cap_classes * per_class + s->cap_index * sizeof(uint32_t);
    bytes += s->pending.capacity * sizeof(struct argus_pending);
    for (size_t i = 0; i < s->n_flight; i++)
        bytes += s->flight[i].events.capacity * sizeof(struct argus_pending);
    for (uint32_t c = 0; c < s->n_classes; c++)
        bytes += s->hists[c].capacity * sizeof(struct argus_hist_bin);
    for (int lane = 0; lane < ARGUS_LANE_COUNT; lane++)
        bytes += s->breakdown.capacity[lane] * sizeof(struct argus_span);
    bytes += s->breakdown.lead_capacity * sizeof(int64_t);
    return bytes + s->cap_stacks * sizeof(*s->stacks) + s->cap_comms * sizeof(*s->comms);
}
