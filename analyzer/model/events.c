/* SPDX-License-Identifier: Apache-2.0 */
/* Full-resolution events, read from a rank's timeline when somebody asks. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/model.h"
#include "analyzer/timeline/timeline_io.h"

#define BLOCK 8192 /* rows read at once */

struct reader {
    const struct argus_model_rank *r;
    const int *steps;
    size_t n_steps, limit;
    struct argus_model_event *events;
    size_t n, room;
};

static int wanted(const struct reader *rd, int step)
{
    size_t lo = 0, hi = rd->n_steps;

    if (!rd->steps)
        return 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (rd->steps[mid] < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < rd->n_steps && rd->steps[lo] == step;
}

static int add(struct reader *rd, const struct argus_event_row *row)
{
    const struct argus_model_rank *r = rd->r;
    struct argus_model_event *e;
    int map = row->class_id < r->n_class_map ? r->class_map[row->class_id] : -1;

    if (map == -1 || row->duration < 0 || row->start > INT64_MAX - row->duration)
        return 0;
    if (rd->steps && row->step == ARGUS_STEP_NONE)
        return 0;
    if (!wanted(rd, row->step + r->shift))
        return 0;
    if (rd->n == rd->room) {
        size_t room = rd->room ? 2 * rd->room : 4096;

        e = realloc(rd->events, room * sizeof(*e));
        if (!e)
            return -1;
        rd->events = e;
        rd->room = room;
    }
    e = &rd->events[rd->n++];
    e->start = row->start;
    e->end = row->start + row->duration;
    e->step = row->step == ARGUS_STEP_NONE ? ARGUS_STEP_NONE : row->step + r->shift;
    e->kernel_class = map >= 0 ? map : -1;
    e->comm_class = map <= -2 ? -2 - map : -1;
    e->seq = row->seq;
    e->stream = row->stream;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct argus_model_event *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* First row from which a step >= `step` may follow: events stand (nearly) in order of time, and a
 * block's last row tells enough to skip it. */
static size_t first_row(argus_timeline_t *t, size_t rows, int step)
{
    size_t lo = 0, hi = rows / BLOCK;

    while (lo < hi) {
        struct argus_event_row row;
        size_t mid = (lo + hi) / 2;

        if (argus_timeline_read(t, ARGUS_DS_EVENTS, mid * BLOCK + BLOCK - 1, 1, &row, NULL))
            return 0;
        if (row.step != ARGUS_STEP_NONE && row.step < step - 1)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo * BLOCK;
}

static int read_all(struct reader *rd, argus_timeline_t *t, argus_error_t *err)
{
    size_t rows = argus_timeline_rows(t, ARGUS_DS_EVENTS), at = 0;
    struct argus_event_row *block = malloc(BLOCK * sizeof(*block));
    int rc = block ? 0 : argus_error(err, "%s: no memory", rd->r->path);
    int last = rd->steps ? rd->steps[rd->n_steps - 1] - rd->r->shift : 0, past = 0;

    if (rd->steps)
        at = first_row(t, rows, rd->steps[0] - rd->r->shift);
    while (at < rows && !rc && past < 2) {
        size_t n = rows - at < BLOCK ? rows - at : BLOCK;

        rc = argus_timeline_read(t, ARGUS_DS_EVENTS, at, n, block, err);
        for (size_t i = 0; i < n && !rc; i++)
            if (add(rd, &block[i]))
                rc = argus_error(err, "%s: no memory", rd->r->path);
        if (!rc && rd->limit && rd->n > rd->limit)
            rc = argus_error(err, "%s: more than %zu events", rd->r->path, rd->limit);
        if (!rc && rd->steps && block[n - 1].step > last + 1)
            past++; /* one more block for stragglers */
        at += n;
    }
    free(block);
    return rc;
}

int argus_model_events(const struct argus_model *m, size_t rank_index, const int *steps,
                       size_t n_steps, size_t limit, struct argus_model_event **events, size_t *n,
                       argus_error_t *err)
{
    struct reader rd = {&m->ranks[rank_index], steps, n_steps, limit, NULL, 0, 0};
    argus_timeline_t *t;
    int rc;

    *events = NULL;
    *n = 0;
    if (steps && !n_steps)
        return 0;
    if (!(t = argus_timeline_open(rd.r->path, err)))
        return -1;
    rc = read_all(&rd, t, err);
    argus_timeline_close(t);
    if (rc) {
        free(rd.events);
        return -1;
    }
    if (rd.n)
        qsort(rd.events, rd.n, sizeof(*rd.events), by_start);
    *events = rd.events;
    *n = rd.n;
    return 0;
}
