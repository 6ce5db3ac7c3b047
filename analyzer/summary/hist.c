/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/summary/hist.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/refine.h"

#define OCTAVE_BITS 7
#define OCTAVE (1u << OCTAVE_BITS)
#define CAPACITY_FIRST 8u

/* Valleys deeper than this share of the lower peak separate two clusters. */
#define VALLEY_DEPTH 0.8
/* Durations within this factor are one cluster: cutting them could not bring a reconstruction
 * nearer than the 2 % that two percentiles already give. */
#define NARROW_NUM 11
#define NARROW_DEN 10
/* Durations handed to the density: each bin is represented, the rest shared out by count. */
#define SAMPLES 512u
#define VALLEYS_MAX 12u

uint32_t argus_hist_bin_of(int64_t duration)
{
    uint64_t v = duration > 0 ? (uint64_t)duration : 0;
    uint32_t shift;

    if (v < 2 * OCTAVE)
        return (uint32_t)v;
    shift = 63u - (uint32_t)__builtin_clzll(v) - OCTAVE_BITS;
    return shift * OCTAVE + (uint32_t)(v >> shift);
}

int64_t argus_hist_bin_lower(uint32_t bin)
{
    uint32_t shift;

    if (bin < 2 * OCTAVE)
        return bin;
    shift = bin / OCTAVE - 1;
    return (int64_t)((uint64_t)(bin - shift * OCTAVE) << shift);
}

static struct argus_hist_bin *find(struct argus_hist_bin *bins, uint32_t capacity, uint32_t bin)
{
    uint32_t i = (bin * 2654435769u) & (capacity - 1);

    while (bins[i].bin && bins[i].bin != bin + 1)
        i = (i + 1) & (capacity - 1);
    return &bins[i];
}

static int grow(struct argus_hist *h)
{
    uint32_t capacity = h->capacity ? h->capacity * 2 : CAPACITY_FIRST;
    struct argus_hist_bin *bins = calloc(capacity, sizeof(*bins));

    if (!bins)
        return -1;
    for (uint32_t i = 0; i < h->capacity; i++) {
        if (h->bins[i].bin)
            *find(bins, capacity, h->bins[i].bin - 1) = h->bins[i];
    }
    free(h->bins);
    h->bins = bins;
    h->capacity = capacity;
    return 0;
}

static struct argus_hist_bin *place(struct argus_hist *h, uint32_t bin)
{
    struct argus_hist_bin *b;

    if ((h->used + 1) * 4 > h->capacity * 3 && grow(h) < 0)
        return NULL;
    b = find(h->bins, h->capacity, bin);
    if (!b->bin) {
        b->bin = bin + 1;
        b->min = UINT32_MAX;
        h->used++;
    }
    return b;
}

int argus_hist_add(struct argus_hist *h, int64_t duration)
{
    uint32_t bin, offset;
    struct argus_hist_bin *b;
    int64_t above;

    if (duration < 0)
        duration = 0;
    bin = argus_hist_bin_of(duration);
    b = place(h, bin);
    if (!b)
        return -1;
    above = duration - argus_hist_bin_lower(bin);
    offset = above > UINT32_MAX ? UINT32_MAX : (uint32_t)above;
    if (offset < b->min)
        b->min = offset;
    if (offset > b->max)
        b->max = offset;
    b->count++;
    b->sum += duration;
    h->count++;
    return 0;
}

int argus_hist_put(struct argus_hist *h, const struct argus_hist_bin *bin)
{
    struct argus_hist_bin *b = place(h, bin->bin - 1);

    if (!b)
        return -1;
    h->count += bin->count - b->count;
    *b = *bin;
    return 0;
}

int argus_hist_merge(struct argus_hist *h, const struct argus_hist *from)
{
    for (uint32_t i = 0; i < from->capacity; i++) {
        const struct argus_hist_bin *f = &from->bins[i];
        struct argus_hist_bin *b;

        if (!f->bin)
            continue;
        b = place(h, f->bin - 1);
        if (!b)
            return -1;
        b->count += f->count;
        b->sum += f->sum;
        b->min = f->min < b->min ? f->min : b->min;
        b->max = f->max > b->max ? f->max : b->max;
        h->count += f->count;
    }
    return 0;
}

int64_t argus_hist_sum(const struct argus_hist *h)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < h->capacity; i++)
        sum += h->bins[i].bin ? h->bins[i].sum : 0;
    return sum;
}

static int by_bin(const void *a, const void *b)
{
    const struct argus_hist_bin *x = a, *y = b;

    return x->bin < y->bin ? -1 : x->bin > y->bin;
}

int64_t argus_hist_bin_min(const struct argus_hist_bin *b)
{
    return argus_hist_bin_lower(b->bin - 1) + b->min;
}

int64_t argus_hist_bin_max(const struct argus_hist_bin *b)
{
    return argus_hist_bin_lower(b->bin - 1) + b->max;
}

/* Value of rank k (0..count-1) in sorted bins, linear between a bin's extremes. */
int64_t argus_hist_value_at(const struct argus_hist_bin *b, uint64_t k)
{
    while (k >= b->count) {
        k -= b->count;
        b++;
    }
    if (b->count == 1)
        return b->sum;
    return argus_hist_bin_min(b) +
           (int64_t)((double)(b->max - b->min) * (double)k / (double)(b->count - 1));
}

static void summarise(const struct argus_hist_bin *b, size_t n, struct argus_mode *mode)
{
    memset(mode, 0, sizeof(*mode));
    for (size_t i = 0; i < n; i++) {
        mode->count += b[i].count;
        mode->sum += b[i].sum;
    }
    mode->min = argus_hist_bin_min(&b[0]);
    mode->max = argus_hist_bin_max(&b[n - 1]);
    mode->p50 = argus_hist_value_at(b, (mode->count - 1) / 2);
    mode->p99 = argus_hist_value_at(b, (uint64_t)((double)(mode->count - 1) * 0.99 + 0.5));
}

/* Borders between clusters, as values: cluster i ends below borders[i]. */
static size_t borders_of(const struct argus_hist_bin *b, size_t n, uint64_t count, int64_t *borders,
                         size_t max_modes)
{
    struct argus_mode *modes = NULL;
    int64_t *x = NULL;
    size_t n_x = 0, n_modes = 0;

    modes = calloc(max_modes, sizeof(*modes));
    x = malloc((n + SAMPLES + 1) * sizeof(*x));
    if (!modes || !x)
        goto out;
    for (size_t i = 0; i < n; i++) {
        uint64_t k = b[i].count;

        /* shares round down, but nothing rare vanishes */
        if (count > SAMPLES) {
            k = k * SAMPLES / count;
            k = k < 1 ? 1 : k;
        }
        for (uint64_t j = 0; j < k && n_x < n + SAMPLES; j++) {
            int64_t v = argus_hist_value_at(&b[i], k == 1 ? (b[i].count - 1) / 2
                                                          : j * (b[i].count - 1) / (k - 1));

            x[n_x++] = v > 0 ? v : 1;
        }
    }
    n_modes = argus_modes(x, n_x, VALLEY_DEPTH, modes, max_modes);
    for (size_t i = 0; i + 1 < n_modes; i++)
        borders[i] = modes[i + 1].min;
out:
    free(modes);
    free(x);
    return n_modes;
}

static size_t cut(const struct argus_hist_bin *b, size_t n, uint64_t count,
                  struct argus_mode *modes, size_t max_modes)
{
    int64_t borders[VALLEYS_MAX];
    size_t first[ARGUS_REFINE_MAX] = {0}, n_borders, n_parts = 1, at = 0;

    if (max_modes > ARGUS_REFINE_MAX)
        max_modes = ARGUS_REFINE_MAX;
    n_borders = borders_of(b, n, count, borders, max_modes < VALLEYS_MAX ? max_modes : VALLEYS_MAX);
    for (size_t i = 0; i + 1 < n_borders; i++) {
        size_t last = at;

        while (last < n && argus_hist_bin_max(&b[last]) < borders[i])
            last++;
        if (last == at || last == n)
            continue;
        first[n_parts++] = at = last;
    }
    n_parts = argus_refine(b, n, first, n_parts, max_modes);
    for (size_t i = 0; i < n_parts; i++)
        summarise(b + first[i], (i + 1 < n_parts ? first[i + 1] : n) - first[i], &modes[i]);
    return n_parts;
}

size_t argus_hist_modes(const struct argus_hist *h, struct argus_mode *modes, size_t max_modes)
{
    struct argus_hist_bin *b;
    size_t n = 0, n_modes = 0;

    if (!h->count || !max_modes)
        return 0;
    b = malloc(h->used * sizeof(*b));
    if (!b)
        return 0;
    for (uint32_t i = 0; i < h->capacity; i++) {
        if (h->bins[i].bin)
            b[n++] = h->bins[i];
    }
    qsort(b, n, sizeof(*b), by_bin);
    if (max_modes > 1 && h->count >= 6 &&
        argus_hist_bin_max(&b[n - 1]) * NARROW_DEN > argus_hist_bin_min(&b[0]) * NARROW_NUM) {
        n_modes = cut(b, n, h->count, modes, max_modes);
    } else {
        summarise(b, n, &modes[0]);
        n_modes = 1;
    }
    free(b);
    return n_modes;
}

void argus_hist_reset(struct argus_hist *h)
{
    /* A table that this window hardly used is too large for the next one. */
    if (h->capacity > CAPACITY_FIRST && h->used * 8 < h->capacity) {
        argus_hist_free(h);
        return;
    }
    if (h->used)
        memset(h->bins, 0, h->capacity * sizeof(*h->bins));
    h->used = 0;
    h->count = 0;
}

void argus_hist_free(struct argus_hist *h)
{
    free(h->bins);
    memset(h, 0, sizeof(*h));
}
