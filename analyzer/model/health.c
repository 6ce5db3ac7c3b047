/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/health.h"
#include "analyzer/timeline/timeline_io.h"

#define ROWS_MAX (1u << 22)
#define SERIES_MAX 4096
#define LATE_NS 11000000000LL /* a row every ten seconds, and a moment to take it */
#define XID_CLEANUP 45        /* what the driver says when it clears up after a process that died */

/* One metric of one device, walked through in order of time. */
struct series {
    uint32_t metric, device; /* string ids */
    int want;                /* -1: nobody asked */
    int seen;
    int64_t since; /* `last` holds from here */
    double last;
    double at_start; /* value at the beginning of the span, or the first within */
    int started;
    double sum; /* value x time within the span */
    int64_t covered;
};

struct walk {
    int64_t from, to;
    int to_end;
    const struct argus_health_want *want;
    struct series *series;
    size_t n, room;
};

static int row_cmp(const void *a, const void *b)
{
    const struct argus_health_row *x = a, *y = b;

    return x->time < y->time ? -1 : x->time > y->time;
}

static int want_of(const char *metric, const struct argus_health_want *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(metric, want[i].metric))
            return (int)i;
    return -1;
}

static struct series *series_of(struct walk *w, argus_timeline_t *t,
                                const struct argus_health_row *row, size_t n_want)
{
    struct series *s;

    for (size_t i = 0; i < w->n; i++)
        if (w->series[i].metric == row->metric && w->series[i].device == row->device)
            return &w->series[i];
    if (w->n == SERIES_MAX)
        return NULL;
    if (w->n == w->room) {
        size_t room = w->room ? 2 * w->room : 64;

        if (!(s = realloc(w->series, room * sizeof(*s))))
            return NULL;
        w->series = s;
        w->room = room;
    }
    s = &w->series[w->n++];
    *s = (struct series){.metric = row->metric, .device = row->device};
    s->want = want_of(argus_timeline_string(t, row->metric), w->want, n_want);
    return s;
}

/* `last` has held until `until`. */
static void hold(const struct walk *w, struct series *s, int64_t until)
{
    int64_t a = s->since > w->from ? s->since : w->from, b = until < w->to ? until : w->to;

    if (!s->seen || b <= a)
        return;
    s->sum += s->last * (double)(b - a);
    s->covered += b - a;
}

/* Does a row after the span tell of what was counted in it? */
static int tells_of_end(const struct walk *w, enum argus_health_kind kind,
                        const struct argus_health_row *row)
{
    if (!w->to_end || kind == ARGUS_HEALTH_GAUGE || row->time - w->to > LATE_NS)
        return 0;
    return kind != ARGUS_HEALTH_EVENT || row->value != XID_CLEANUP;
}

static void take(const struct walk *w, struct series *s, const struct argus_health_row *row)
{
    if (s->want < 0 || isnan(row->value) ||
        (row->time > w->to && !tells_of_end(w, w->want[s->want].kind, row)))
        return;
    hold(w, s, row->time);
    if (row->time <= w->from || !s->started) {
        s->at_start = row->value;
        s->started = 1;
    }
    s->last = row->value;
    s->since = row->time;
    s->seen = 1;
}

static double value_of(const struct walk *w, struct series *s, enum argus_health_kind kind)
{
    hold(w, s, w->to);
    if (kind == ARGUS_HEALTH_EVENT)
        return s->last;
    if (kind == ARGUS_HEALTH_COUNTER)
        return s->last > s->at_start ? s->last - s->at_start : 0;
    return s->covered > 0 ? s->sum / (double)s->covered : s->last;
}

int argus_model_health(const struct argus_model *m, size_t rank_index,
                       const struct argus_health_span *span, const struct argus_health_want *want,
                       size_t n_want, struct argus_health_reading **readings, size_t *n,
                       argus_error_t *err)
{
    const char *path = m->ranks[rank_index].path;
    struct walk w = {.from = span->from, .to = span->to, .to_end = span->to_end, .want = want};
    struct argus_health_row *rows = NULL;
    argus_timeline_t *t;
    size_t n_rows = 0;
    int rc = -1;

    *readings = NULL;
    *n = 0;
    if (!m->ranks[rank_index].has_health)
        return 0;
    if (!(t = argus_timeline_open(path, err)))
        return -1;
    rows = argus_timeline_read_all(t, ARGUS_DS_HEALTH, ROWS_MAX, &n_rows, err);
    if (!rows)
        goto out;
    if (n_rows)
        qsort(rows, n_rows, sizeof(*rows), row_cmp);
    for (size_t i = 0; i < n_rows; i++) {
        struct series *s = series_of(&w, t, &rows[i], n_want);

        if (s)
            take(&w, s, &rows[i]);
    }
    *readings = calloc(w.n + 1, sizeof(**readings));
    if (!*readings) {
        argus_error(err, "%s: no memory", path);
        goto out;
    }
    for (size_t i = 0; i < w.n; i++) {
        struct series *s = &w.series[i];
        struct argus_health_reading *r = &(*readings)[*n];

        if (s->want < 0 || !s->seen)
            continue;
        r->want = s->want;
        snprintf(r->device, sizeof(r->device), "%s", argus_timeline_string(t, s->device));
        r->value = value_of(&w, s, want[s->want].kind);
        (*n)++;
    }
    rc = 0;
out:
    free(rows);
    free(w.series);
    argus_timeline_close(t);
    return rc;
}
