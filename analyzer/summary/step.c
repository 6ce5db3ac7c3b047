/* SPDX-License-Identifier: Apache-2.0 */
/* A closed step: its breakdown, its rows, its share of the histograms. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary_impl.h"

/* A slow step is one that is slow against at least this many others. */
#define MEDIAN_MIN 8u
/* From so many classes in a window the rare and short ones share a row. */
#define POOL_FROM 256u
#define POOL_COUNT 4u
#define POOL_SHARE 0.001
#define MODES_MAX 48u

static int has_step_row(int kind)
{
    return kind == ARGUS_CLASS_COMM || kind == ARGUS_CLASS_ALLOC || kind == ARGUS_CLASS_OVERHEAD ||
           kind == ARGUS_CLASS_PEER_WAIT;
}

static int touch(argus_summary_t *s, const struct argus_pending *ev, int64_t lead)
{
    struct class_acc *a = &s->accs[ev->class_id];
    int64_t duration = ev->end - ev->start;

    if (!a->count) {
        if (s->n_touched == s->cap_touched) {
            size_t capacity = s->cap_touched ? 2 * s->cap_touched : 256;
            uint32_t *p = realloc(s->touched, capacity * sizeof(*p));

            if (!p)
                return -1;
            s->touched = p;
            s->cap_touched = capacity;
        }
        s->touched[s->n_touched++] = ev->class_id;
        a->first_seq = ev->seq;
        a->sum = 0;
        a->lead_idle = 0;
        a->min = a->max = duration;
    }
    a->count++;
    a->sum += duration;
    a->lead_idle += lead;
    if (duration < a->min)
        a->min = duration;
    if (duration > a->max)
        a->max = duration;
    return 0;
}

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static int write_step_comm(argus_summary_t *s, int32_t step, argus_error_t *err)
{
    struct argus_step_comm_row rows[64];
    size_t n = 0;

    if (s->n_touched)
        qsort(s->touched, s->n_touched, sizeof(*s->touched), by_id);
    for (size_t i = 0; i < s->n_touched; i++) {
        struct class_acc *a = &s->accs[s->touched[i]];

        rows[n++] = (struct argus_step_comm_row){.step = step,
                                                 .class_id = s->touched[i],
                                                 .count = a->count,
                                                 .first_seq = a->first_seq,
                                                 .sum = a->sum,
                                                 .min = a->min,
                                                 .max = a->max,
                                                 .lead_idle = a->lead_idle};
        a->count = 0;
        if (n == 64 || i + 1 == s->n_touched) {
            if (argus_timeline_append(s->w, ARGUS_DS_STEP_COMM, rows, n, err) < 0)
                return -1;
            n = 0;
        }
    }
    s->n_touched = 0;
    return 0;
}

/* Histograms, step_comm accumulators, first sights and the anchor. */
static int count_events(argus_summary_t *s, const struct event_list *l, struct argus_step_row *row,
                        argus_error_t *err)
{
    uint32_t anchors = 0;

    row->anchor_comm = ARGUS_NONE;
    for (size_t i = 0; i < l->n; i++) {
        const struct argus_pending *ev = &l->ev[i];
        const struct argus_class_brief *c = &s->briefs[ev->class_id];

        if (argus_hist_add(&s->hists[ev->class_id], ev->end - ev->start) < 0)
            return argus_error(err, "no memory for the durations of class %u", ev->class_id);
        if (!s->seen[ev->class_id]) {
            s->seen[ev->class_id] = 1;
            row->new_classes++;
        }
        if (has_step_row(c->kind) && touch(s, ev, s->breakdown.lead[i]) < 0)
            return argus_error(err, "no memory for the communication of a step");
        if (c->lane == ARGUS_LANE_COMM && c->comm == s->lock.anchor_comm && c->comm != ARGUS_NONE &&
            ev->seq != ARGUS_NONE) {
            if (row->anchor_comm == ARGUS_NONE || ev->seq < row->anchor_seq)
                row->anchor_seq = ev->seq;
            row->anchor_comm = c->comm;
            anchors++;
        }
    }
    /* A rank that attached late starts at 0, too; how many steps' worth of the anchor's calls it
     * missed tells how its numbers compare with the others'. */
    if (s->agreed_offset < 0 && anchors) {
        int64_t missed = (int64_t)(row->anchor_seq / anchors) - s->n_steps;

        s->agreed_offset = s->first_seq[row->anchor_comm] && missed > 0 ? missed : 0;
    }
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static int64_t median_duration(const argus_summary_t *s)
{
    int64_t d[ARGUS_MEDIAN_STEPS];
    size_t n = s->n_durations < ARGUS_MEDIAN_STEPS ? s->n_durations : ARGUS_MEDIAN_STEPS;

    if (n < MEDIAN_MIN)
        return 0;
    memcpy(d, s->durations, n * sizeof(*d));
    qsort(d, n, sizeof(*d), by_value);
    return d[n / 2];
}

static void judge(argus_summary_t *s, struct argus_step_row *row, int64_t median)
{
    int64_t duration = row->end - row->start;

    if (s->n_steps < s->opt.warmup_steps)
        row->flags |= ARGUS_STEP_WARMUP;
    for (size_t i = 0; i < s->n_gaps; i++) {
        if (s->gaps[i].start < row->end && s->gaps[i].end > row->start)
            row->flags |= ARGUS_STEP_GAP;
    }
    if (s->relearnt)
        row->flags |= ARGUS_STEP_RELEARNT;
    s->relearnt = 0;
    if (row->flags & (ARGUS_STEP_WARMUP | ARGUS_STEP_GAP | ARGUS_STEP_PARTIAL))
        return;
    if (median && (double)duration >= s->opt.slow_factor * (double)median)
        row->flags |= ARGUS_STEP_SLOW;
    s->durations[s->n_durations++ % ARGUS_MEDIAN_STEPS] = duration;
}

static int window_ends(const argus_summary_t *s, int32_t step)
{
    return step + 1 == s->opt.warmup_steps || (step + 1) % s->opt.cluster_steps == 0;
}

static int emit_outside(argus_summary_t *s, argus_error_t *err)
{
    if (s->window_first != ARGUS_STEP_NONE)
        return 0;
    s->window_first = s->n_steps;
    return argus_window_emit(s, ARGUS_STEP_NONE, ARGUS_STEP_NONE, err);
}

int argus_step_close(argus_summary_t *s, int64_t end, uint32_t flags, argus_error_t *err)
{
    struct argus_step_row row = {.flags = flags, .step = s->n_steps};
    size_t n = argus_events_before(&s->pending, end);
    struct event_list events = s->pending;
    int64_t median;
    int rc = -1;

    s->pending = (struct event_list){0};
    for (size_t i = n; i < events.n; i++) {
        if (argus_events_append(&s->pending, &events.ev[i]) < 0) {
            argus_error(err, "no memory for the events of a step");
            goto out;
        }
    }
    events.n = events.sorted = n;
    if (emit_outside(s, err) < 0)
        goto out;
    if (argus_breakdown_step(&s->breakdown, events.ev, n, s->briefs, s->boundary, end, &row) < 0) {
        argus_error(err, "no memory for a step of %zu events", n);
        goto out;
    }
    if (count_events(s, &events, &row, err) < 0 || write_step_comm(s, row.step, err) < 0)
        goto out;
    argus_breakdown_trim(&s->breakdown);
    median = median_duration(s);
    judge(s, &row, median);
    s->last_duration = end - s->boundary;
    s->boundary = end;
    s->n_steps++;
    if (argus_summary_stacks(s, &row, err) < 0 ||
        argus_keep_step(s, &row, &events, median, err) < 0)
        goto out;
    if (window_ends(s, row.step)) {
        if (argus_window_emit(s, s->window_first, row.step, err) < 0)
            goto out;
        s->window_first = s->n_steps;
    }
    rc = 0;
out:
    argus_events_free(&events);
    return rc;
}

static int write_outside(argus_summary_t *s, size_t n, argus_error_t *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct argus_pending *ev = &s->pending.ev[i];
        struct argus_event_row row = {.start = ev->start,
                                      .duration = ev->end - ev->start,
                                      .class_id = ev->class_id,
                                      .stream = s->rows[ev->class_id].stream,
                                      .step = ARGUS_STEP_NONE,
                                      .seq = ev->seq};

        if (argus_timeline_append(s->w, ARGUS_DS_EVENTS, &row, 1, err) < 0)
            return -1;
    }
    return 0;
}

int argus_step_outside(argus_summary_t *s, size_t n, argus_error_t *err)
{
    if (!n)
        return 0;
    if (s->window_first != ARGUS_STEP_NONE) {
        if (s->n_steps > s->window_first &&
            argus_window_emit(s, s->window_first, s->n_steps - 1, err) < 0)
            return -1;
        s->window_first = ARGUS_STEP_NONE;
    }
    for (size_t i = 0; i < n; i++) {
        const struct argus_pending *ev = &s->pending.ev[i];

        s->seen[ev->class_id] = 1;
        if (argus_hist_add(&s->hists[ev->class_id], ev->end - ev->start) < 0)
            return argus_error(err, "no memory for the durations of class %u", ev->class_id);
    }
    if (!s->opt.window && write_outside(s, n, err) < 0)
        return -1;
    argus_events_drop(&s->pending, n);
    return 0;
}

static int emit_class(argus_summary_t *s, uint32_t class_id, const struct argus_hist *h,
                      int32_t first, int32_t last, argus_error_t *err)
{
    struct argus_mode modes[MODES_MAX];
    struct argus_cluster_row rows[MODES_MAX];
    size_t n = argus_hist_modes(h, modes, MODES_MAX);

    if (!n)
        return argus_error(err, "no memory for the clusters of class %u", class_id);
    for (size_t i = 0; i < n; i++) {
        rows[i] = (struct argus_cluster_row){.first_step = first,
                                             .last_step = last,
                                             .class_id = class_id,
                                             .cluster = (uint16_t)i,
                                             .clusters = (uint16_t)n,
                                             .count = (uint32_t)modes[i].count,
                                             .p50 = modes[i].p50,
                                             .p99 = modes[i].p99,
                                             .sum = modes[i].sum,
                                             .min = modes[i].min,
                                             .max = modes[i].max};
    }
    return argus_timeline_append(s->w, ARGUS_DS_CLUSTERS, rows, n, err);
}

/* Rare and short classes of a window with many go into one row a kind. */
static int pool_rare(argus_summary_t *s, argus_error_t *err)
{
    double total = 0.0;
    uint32_t used = 0, n = s->n_classes;

    for (uint32_t c = 0; c < n; c++) {
        used += s->hists[c].count != 0;
        if (s->hists[c].count && s->briefs[c].lane < ARGUS_LANE_COUNT)
            total += (double)argus_hist_sum(&s->hists[c]);
    }
    if (used < POOL_FROM)
        return 0;
    for (uint32_t c = 0; c < n; c++) {
        struct argus_hist *h = &s->hists[c];
        uint32_t pool;

        if (!h->count || h->count >= POOL_COUNT || s->briefs[c].kind == ARGUS_CLASS_COMM ||
            (double)argus_hist_sum(h) >= POOL_SHARE * total)
            continue;
        pool = argus_summary_pool_class(s, s->briefs[c].kind);
        if (pool == ARGUS_NONE || pool == c)
            continue;
        h = &s->hists[c]; /* adding a class moves the arrays */
        if (argus_hist_merge(&s->hists[pool], h) < 0)
            return argus_error(err, "no memory for pooled classes");
        argus_hist_reset(h);
    }
    return 0;
}

int argus_window_emit(argus_summary_t *s, int32_t first, int32_t last, argus_error_t *err)
{
    if (pool_rare(s, err) < 0)
        return -1;
    for (uint32_t c = 0; c < s->n_classes; c++) {
        if (!s->hists[c].count)
            continue;
        if (emit_class(s, c, &s->hists[c], first, last, err) < 0)
            return -1;
        argus_hist_reset(&s->hists[c]);
    }
    return 0;
}
