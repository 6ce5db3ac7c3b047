/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/reorder.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX (1u << 17)

static int by_end(const void *a, const void *b)
{
    const struct argus_item *x = a, *y = b;

    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Runs of ascending items, as each stream's records are, merged two by two. */
static void sort(struct argus_item *a, size_t n, struct argus_item *work)
{
    struct argus_item *from = a, *to = work;

    for (;;) {
        size_t i = 0, out = 0, runs = 0;

        while (i < n) {
            size_t mid = i + 1, end, left = i, right;

            while (mid < n && by_end(&from[mid - 1], &from[mid]) <= 0)
                mid++;
            end = mid < n ? mid + 1 : mid;
            while (end < n && by_end(&from[end - 1], &from[end]) <= 0)
                end++;
            right = mid;
            while (left < mid && right < end)
                to[out++] = by_end(&from[left], &from[right]) <= 0 ? from[left++] : from[right++];
            memcpy(&to[out], &from[left], (mid - left) * sizeof(*to));
            out += mid - left;
            memcpy(&to[out], &from[right], (end - right) * sizeof(*to));
            out += end - right;
            i = end;
            runs++;
        }
        if (runs <= 1) {
            if (to != a)
                memcpy(a, to, n * sizeof(*a));
            return;
        }
        {
            struct argus_item *swap = from;

            from = to;
            to = swap;
        }
    }
}

static int is_sorted(const struct argus_item *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (by_end(&a[i - 1], &a[i]) > 0)
            return 0;
    }
    return 1;
}

void argus_reorder_advance(struct argus_reorder *r, int64_t watermark, argus_emit_f emit, void *arg)
{
    size_t n = 0, left = 0;

    if (watermark > r->watermark)
        r->watermark = watermark == INT64_MAX ? r->newest : watermark;
    if (!r->n)
        return;
    if (r->ready_capacity < 2 * r->n) {
        struct argus_item *p = realloc(r->ready, 2 * r->n * sizeof(*p));

        if (!p) {
            /* no memory to put them in order: out of order is better than lost */
            for (size_t i = 0; i < r->n; i++)
                emit(arg, &r->items[i]);
            r->n = 0;
            return;
        }
        r->ready = p;
        r->ready_capacity = 2 * r->n;
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->items[i].end <= watermark)
            r->ready[n++] = r->items[i];
        else
            r->items[left++] = r->items[i];
    }
    r->n = left;
    if (!is_sorted(r->ready, n))
        sort(r->ready, n, r->ready + n);
    for (size_t i = 0; i < n; i++)
        emit(arg, &r->ready[i]);
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Too much waits: let the older half go. */
static void relieve(struct argus_reorder *r, argus_emit_f emit, void *arg)
{
    int64_t sample[1024];
    size_t n = sizeof(sample) / sizeof(sample[0]);

    for (size_t i = 0; i < n; i++)
        sample[i] = r->items[i * (r->n / n)].end;
    qsort(sample, n, sizeof(sample[0]), by_value);
    argus_reorder_advance(r, sample[n / 2], emit, arg);
}

int argus_reorder_add(struct argus_reorder *r, const struct argus_item *item, argus_emit_f emit,
                      void *arg)
{
    if (r->n >= ITEMS_MAX)
        relieve(r, emit, arg);
    if (r->n == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        struct argus_item *p = realloc(r->items, capacity * sizeof(*p));

        if (!p)
            return -1;
        r->items = p;
        r->capacity = capacity;
    }
    r->items[r->n++] = *item;
    if (item->end > r->newest)
        r->newest = item->end;
    return 0;
}

void argus_reorder_free(struct argus_reorder *r)
{
    free(r->items);
    free(r->ready);
    memset(r, 0, sizeof(*r));
}
