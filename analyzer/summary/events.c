/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of events.  They come nearly sorted (in order of their end, or by
 * stream), so that moving the few that are out of place is cheaper than a
 * sort; a list that is not nearly sorted gets a real one. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary_impl.h"

int argus_events_append(struct event_list *l, const struct argus_pending *ev)
{
    if (l->n == l->capacity) {
        /* A restored list may be of one or two: a share alone would not grow it. */
        size_t capacity = l->capacity ? l->capacity + l->capacity / 4 + 16 : 1024;
        struct argus_pending *p = realloc(l->ev, capacity * sizeof(*p));

        if (!p)
            return -1;
        l->ev = p;
        l->capacity = capacity;
    }
    l->ev[l->n++] = *ev;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct argus_pending *x = a, *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->class_id < y->class_id ? -1 : x->class_id > y->class_id;
}

void argus_events_sort(struct event_list *l)
{
    size_t moved = 0;

    for (size_t i = l->sorted ? l->sorted : 1; i < l->n; i++) {
        struct argus_pending ev = l->ev[i];
        size_t lo = 0, hi = i;

        if (by_start(&l->ev[i - 1], &ev) <= 0)
            continue;
        /* the place is usually near: gallop back, then halve */
        for (size_t step = 1; step < i; step *= 2) {
            if (by_start(&l->ev[i - step], &ev) <= 0) {
                lo = i - step;
                break;
            }
            hi = i - step;
        }
        while (lo < hi) {
            size_t mid = lo + (hi - lo) / 2;

            if (by_start(&l->ev[mid], &ev) <= 0)
                lo = mid + 1;
            else
                hi = mid;
        }
        memmove(&l->ev[lo + 1], &l->ev[lo], (i - lo) * sizeof(ev));
        l->ev[lo] = ev;
        moved += i - lo;
        if (moved > 64 * l->n) {
            qsort(l->ev, l->n, sizeof(*l->ev), by_start);
            break;
        }
    }
    l->sorted = l->n;
}

size_t argus_events_before(const struct event_list *l, int64_t time)
{
    size_t lo = 0, hi = l->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (l->ev[mid].start < time)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void argus_events_drop(struct event_list *l, size_t n)
{
    l->n -= n;
    l->sorted = l->sorted > n ? l->sorted - n : 0;
    memmove(l->ev, l->ev + n, l->n * sizeof(*l->ev));
}

void argus_events_free(struct event_list *l)
{
    free(l->ev);
    memset(l, 0, sizeof(*l));
}
