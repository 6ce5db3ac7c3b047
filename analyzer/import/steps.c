/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the steps of a recorded trace are, from its marks.
 *
 * A profiler's step marks are times of the host, which runs ahead of the GPU.
 * Where the trace ties kernels to their launches, a step begins on the GPU
 * with the first kernel that was launched inside its mark.
 */
#include <config.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/import.h"
#include "analyzer/summary/summary.h"

struct candidate { /* step marks that belong together: one thread, one name but for the number */
    uint32_t tid;
    const char *name;
    int64_t covered;
};

static int same_stem(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            while (isdigit((unsigned char)*a))
                a++;
            while (isdigit((unsigned char)*b))
                b++;
        } else if (*a++ != *b++) {
            return 0;
        }
    }
    return *a == *b;
}

int import_is_step_mark(const struct import_trace *t, const struct import_mark *m)
{
    return argus_mark_kind_of(import_text(t, m->name)) == ARGUS_MARK_STEP;
}

/* The series that covers most time; 64 are enough to choose from. */
static struct candidate choose(const struct import_trace *t)
{
    struct candidate list[64], best = {0};
    size_t n = 0;

    for (size_t i = 0; i < t->n_marks; i++) {
        const struct import_mark *m = &t->marks[i];
        const char *name = import_text(t, m->name);
        size_t j = 0;

        if (!import_is_step_mark(t, m))
            continue;
        while (j < n && (list[j].tid != m->tid || !same_stem(list[j].name, name)))
            j++;
        if (j == n && n < sizeof(list) / sizeof(list[0]))
            list[n++] = (struct candidate){m->tid, name, 0};
        if (j < n)
            list[j].covered += m->end - m->start;
    }
    for (size_t j = 0; j < n; j++) {
        if (list[j].covered > best.covered)
            best = list[j];
    }
    return best;
}

static int by_start(const void *a, const void *b)
{
    const struct import_mark *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

struct launch_time {
    uint32_t correlation;
    int64_t start;
};

static int by_correlation(const void *a, const void *b)
{
    const struct launch_time *x = a, *y = b;

    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static struct launch_time *launches_of(const struct import_trace *t, size_t *n)
{
    struct launch_time *list;

    *n = 0;
    list = malloc((t->n_events + 1) * sizeof(*list));
    for (size_t i = 0; list && i < t->n_events; i++) {
        if (t->ops[t->events[i].op].kind == ARGUS_CLASS_LAUNCH && t->events[i].correlation)
            list[(*n)++] = (struct launch_time){t->events[i].correlation, t->events[i].start};
    }
    if (list && *n)
        qsort(list, *n, sizeof(*list), by_correlation);
    return list;
}

/* Last mark that starts at or before `time`; n: none. */
static size_t mark_at(const struct import_mark *marks, size_t n, int64_t time)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (marks[middle].start <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : n;
}

/* The series' first mark; NULL: no marks of steps. */
static const struct import_mark *first_mark(const struct import_trace *t)
{
    struct candidate series = choose(t);
    const struct import_mark *first = NULL;

    for (size_t i = 0; i < t->n_marks && series.covered; i++) {
        const struct import_mark *m = &t->marks[i];

        if (m->tid == series.tid && import_is_step_mark(t, m) &&
            same_stem(series.name, import_text(t, m->name)) && (!first || m->start < first->start))
            first = m;
    }
    return first;
}

long import_first_step(const struct import_trace *t)
{
    const struct import_mark *first = first_mark(t);
    const char *name = first ? import_text(t, first->name) : "";

    name += strcspn(name, "0123456789");
    return *name ? strtol(name, NULL, 10) : -1;
}

int import_find_unnumbered(struct import_trace *t)
{
    const struct import_mark *mark = first_mark(t);
    size_t n_launches, known = 0;
    struct launch_time *launches = launches_of(t, &n_launches);

    free(t->unnumbered);
    t->unnumbered = calloc(t->n_events + 1, 1);
    if (!launches || !t->unnumbered) {
        free(launches);
        return -1;
    }
    for (size_t i = 0; i < t->n_events; i++) {
        const struct import_event *ev = &t->events[i];
        int kind = t->ops[ev->op].kind;
        struct launch_time key = {ev->correlation, 0}, *found = NULL;

        if (kind != ARGUS_CLASS_COMPUTE && kind != ARGUS_CLASS_COMM)
            continue;
        if (ev->correlation && n_launches)
            found = bsearch(&key, launches, n_launches, sizeof(key), by_correlation);
        known += found != NULL;
        t->unnumbered[i] =
            kind == ARGUS_CLASS_COMM && (!found || (mark && found->start < mark->start));
    }
    /* Launches are not recorded, or nothing tells where to begin: count what there is. */
    if (known * 2 < t->kernels || !mark)
        memset(t->unnumbered, 0, t->n_events);
    free(launches);
    return 0;
}

/* First start and last end of the kernels launched in each mark; counts those
 * whose launch is known. */
static size_t gpu_ranges(const struct import_trace *t, const struct import_mark *marks, size_t n,
                         struct import_mark *ranges)
{
    size_t n_launches, known = 0;
    struct launch_time *launches = launches_of(t, &n_launches);

    for (size_t i = 0; i < n; i++) {
        ranges[i] = marks[i];
        ranges[i].start = INT64_MAX;
        ranges[i].end = INT64_MIN;
    }
    for (size_t i = 0; i < t->n_events && n_launches; i++) {
        const struct import_event *ev = &t->events[i];
        int kind = t->ops[ev->op].kind;
        struct launch_time key = {ev->correlation, 0}, *found;
        size_t at;

        if (!ev->correlation || (kind != ARGUS_CLASS_COMPUTE && kind != ARGUS_CLASS_COMM))
            continue;
        found = bsearch(&key, launches, n_launches, sizeof(key), by_correlation);
        if (!found)
            continue;
        known++;
        at = mark_at(marks, n, found->start);
        if (at == n || (at == n - 1 && found->start >= marks[at].end))
            continue;
        if (ev->start < ranges[at].start)
            ranges[at].start = ev->start;
        if (ev->start + ev->duration > ranges[at].end)
            ranges[at].end = ev->start + ev->duration;
    }
    free(launches);
    return known;
}

/* Steps follow each other without holes and in order; marks without work give way. */
static size_t chain(struct import_mark *ranges, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (ranges[i].start == INT64_MAX || (kept && ranges[i].start <= ranges[kept - 1].start))
            continue;
        if (kept)
            ranges[kept - 1].end = ranges[i].start;
        ranges[kept++] = ranges[i];
    }
    return kept;
}

static int whole_trace(struct import_trace *t, struct import_mark **steps, size_t *n)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    *steps = malloc(sizeof(**steps));
    if (!*steps)
        return -1;
    for (size_t i = 0; i < t->n_events; i++) {
        const struct import_event *ev = &t->events[i];

        if (t->ops[ev->op].kind > ARGUS_CLASS_GRAPH)
            continue;
        first = ev->start < first ? ev->start : first;
        last = ev->start + ev->duration > last ? ev->start + ev->duration : last;
    }
    (*steps)[0] = (struct import_mark){.start = first,
                                       .end = last,
                                       .name = import_string(t, "trace", 5),
                                       .domain = import_string(t, "argus", 5)};
    *n = first < last && (*steps)[0].name != ARGUS_NONE;
    return 0;
}

/* The series' marks, in order of start, and out of the trace's. */
static size_t take_series(struct import_trace *t, const struct candidate *series,
                          struct import_mark *marks)
{
    size_t n = 0, left = 0;

    for (size_t i = 0; i < t->n_marks; i++) {
        if (t->marks[i].tid == series->tid && import_is_step_mark(t, &t->marks[i]) &&
            same_stem(series->name, import_text(t, t->marks[i].name)))
            marks[n++] = t->marks[i];
        else
            t->marks[left++] = t->marks[i];
    }
    t->n_marks = left;
    qsort(marks, n, sizeof(*marks), by_start);
    return n;
}

int import_steps(struct import_trace *t, int whole, struct import_mark **steps, size_t *n)
{
    struct candidate series;
    struct import_mark *marks, *ranges;
    uint32_t domain;

    *steps = NULL;
    *n = 0;
    if (whole)
        return whole_trace(t, steps, n);
    series = choose(t);
    if (!series.covered)
        return 0;
    marks = malloc((t->n_marks + 1) * sizeof(*marks));
    ranges = malloc((t->n_marks + 1) * sizeof(*ranges));
    if (!marks || !ranges) {
        free(marks);
        free(ranges);
        return -1;
    }
    *n = take_series(t, &series, marks);
    *steps = marks;
    if (gpu_ranges(t, marks, *n, ranges) * 2 >= t->kernels) {
        domain = import_string(t, "argus", 5);
        *n = chain(ranges, *n);
        for (size_t i = 0; i < *n; i++)
            marks[i] = (struct import_mark){ranges[i].start, ranges[i].end, ranges[i].name, domain,
                                            ranges[i].tid};
    }
    free(ranges);
    return 0;
}
