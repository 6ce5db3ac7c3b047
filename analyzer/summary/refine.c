/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/summary/refine.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TARGET 0.015
#define COUNT_MIN 20u  /* fewer durations: their percentiles are noise anyway */
#define CELLS 192u     /* durations as the search sees them */
#define PLACES_FEW 32u /* where it may cut, beside where it is cut already */
#define PLACES 96u     /* where the few do not do */
#define WORTH 0.02     /* of the target: what one more part must bring */
#define Z99 2.3263478740408408
#define Z_STEPS 512u

struct cell { /* neighbouring bins */
    size_t first;
    uint64_t before, count; /* durations */
    double middle, log_middle;
    double half_width; /* relative to the middle */
};

struct place {
    size_t cell; /* a part may begin with it */
    size_t mode; /* the part of before it is in */
};

struct refine {
    const struct argus_hist_bin *b;
    size_t n;
    uint64_t *before; /* durations before each bin, n + 1 */
    struct cell cells[CELLS + PLACES + ARGUS_REFINE_MAX + 3];
    size_t n_cells;
    struct place places[PLACES + ARGUS_REFINE_MAX + 3]; /* and the end */
    size_t n_places;
    double z[Z_STEPS]; /* standard normal quantiles */
};

/* ---- the distance of a part --------------------------------------------- */

/* The k-th duration of all. */
static double value_at(const struct refine *r, uint64_t k)
{
    size_t lo = 0, hi = r->n;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (r->before[mid] <= k)
            lo = mid;
        else
            hi = mid;
    }
    return fmax((double)argus_hist_value_at(r->b + lo, k - r->before[lo]), 1);
}

/* Mean distance along a stretch over which it goes evenly from a to b. */
static double mean_distance(double a, double b)
{
    if (a * b >= 0)
        return fabs(a + b) / 2;
    return (a * a + b * b) / (2 * (fabs(a) + fabs(b)));
}

/* exp(d) - 1, to third order: exact where it is small, large where it is large. */
static double relative(double d)
{
    return d * (1 + d / 2 * (1 + d / 3));
}

/* Sum of the distances of the durations from their places in the log-normal of p50 and p99. */
static double distance(const struct refine *r, size_t from, size_t to)
{
    uint64_t first = r->cells[from].before;
    uint64_t n = r->cells[to - 1].before + r->cells[to - 1].count - first;
    double mu = log(value_at(r, first + (n - 1) / 2)), sigma, scale = Z_STEPS / (double)n, sum = 0;

    sigma = log(value_at(r, first + (uint64_t)((double)(n - 1) * 0.99 + 0.5))) - mu;
    sigma /= Z99;
    for (size_t i = from; i < to; i++) {
        const struct cell *c = &r->cells[i];
        double k = (double)(c->before - first) + 0.5, more = (double)c->count - 1;
        double shift = mu - c->log_middle;
        double d = relative(shift + sigma * r->z[(size_t)((k + more / 2) * scale)]);

        if (more > 0) {
            double low = relative(shift + sigma * r->z[(size_t)(k * scale)]) + c->half_width;
            double high =
                relative(shift + sigma * r->z[(size_t)((k + more) * scale)]) - c->half_width;

            d = (mean_distance(low, d) + mean_distance(d, high)) / 2;
        }
        sum += (double)c->count * c->middle * fabs(d);
    }
    return sum;
}

/* ---- where parts may begin ---------------------------------------------- */

/* Square root of density times width: of the ways between the durations, those that are a bin's. */
static double weight_of(const struct refine *r, size_t i)
{
    double from = (double)argus_hist_bin_min(&r->b[i]), to = (double)argus_hist_bin_max(&r->b[i]);

    if (i > 0)
        from = (from + (double)argus_hist_bin_max(&r->b[i - 1])) / 2;
    if (i + 1 < r->n)
        to = (to + (double)argus_hist_bin_min(&r->b[i + 1])) / 2;
    return sqrt((double)r->b[i].count * fmax(to - from, 0));
}

static void close_cell(struct refine *r, size_t to)
{
    struct cell *c = &r->cells[r->n_cells - 1];
    double low = (double)argus_hist_bin_min(&r->b[c->first]);
    double high = (double)argus_hist_bin_max(&r->b[to - 1]);

    c->count = r->before[to] - c->before;
    c->middle = fmax((low + high) / 2, 1);
    c->log_middle = log(c->middle);
    c->half_width = (high - low) / 2 / c->middle;
}

/* Is a share of `steps` of the weight full?  Then the next one begins. */
static int share_full(double *share, double sum, double total, size_t steps)
{
    if (sum * (double)steps < *share * total)
        return 0;
    *share = total > 0 ? floor(sum * (double)steps / total) + 1 : 1;
    return 1;
}

static void divide(struct refine *r, size_t places, const size_t *first, size_t n_parts)
{
    double total = 0, sum = 0, cell_share = 0, place_share = 0;
    size_t mode = 0;

    r->n_cells = r->n_places = 0;
    for (size_t i = 0; i < r->n; i++)
        total += weight_of(r, i);
    for (size_t i = 0; i < r->n; i++) {
        int cut = mode < n_parts && first[mode] == i;
        int place = share_full(&place_share, sum, total, places) || r->n <= places || cut;
        int cell = share_full(&cell_share, sum, total, CELLS) || r->n <= CELLS || place;

        if (cell) {
            if (r->n_cells)
                close_cell(r, i);
            r->cells[r->n_cells++] = (struct cell){.first = i, .before = r->before[i]};
        }
        mode += (size_t)cut;
        if (place)
            r->places[r->n_places++] = (struct place){r->n_cells - 1, mode};
        sum += weight_of(r, i);
    }
    close_cell(r, r->n);
    r->places[r->n_places] = (struct place){r->n_cells, 0};
}

static double distance_of_modes(const struct refine *r)
{
    double sum = 0;

    for (size_t i = 0, j; i < r->n_places; i = j) {
        for (j = i + 1; j < r->n_places && r->places[j].mode == r->places[i].mode; j++)
            continue;
        sum += distance(r, r->places[i].cell, r->places[j].cell);
    }
    return sum;
}

/* ---- the fewest parts --------------------------------------------------- */

struct search {
    const struct refine *r;
    size_t width;        /* places and the end */
    size_t *widest;      /* [j]: first place from which a part up to place j was looked at */
    double *part;        /* [i * width + j]: distance of a part from place i to place j */
    double *least;       /* [k * width + j]: of k parts up to place j */
    unsigned char *from; /* where the last of them begins */
};

/* Parts that alone are farther off than `most` are left out, and all that are wider still. */
static void measure(struct search *s, double most)
{
    const struct refine *r = s->r;

    for (size_t j = 1; j < s->width; j++) {
        size_t i = j;
        double d = 0;

        while (i > 0 && r->places[i - 1].mode == r->places[j - 1].mode && d <= most) {
            i--;
            d = distance(r, r->places[i].cell, r->places[j].cell);
            s->part[i * s->width + j] = d;
        }
        s->widest[j] = i;
    }
}

static void add_part(struct search *s, size_t k)
{
    const double *before = s->least + (k - 1) * s->width;
    double *now = s->least + k * s->width;

    now[0] = INFINITY;
    for (size_t j = 1; j < s->width; j++) {
        now[j] = INFINITY;
        for (size_t i = s->widest[j]; i < j; i++) {
            double d = before[i] + s->part[i * s->width + j];

            if (d < now[j]) {
                now[j] = d;
                s->from[k * s->width + j] = (unsigned char)i;
            }
        }
    }
}

/* How many parts; the last that is worth its row where they do not come within the limit. */
static size_t fewest(struct search *s, size_t n_parts, size_t max_parts, double limit)
{
    const double *whole = s->least + s->width - 1; /* [k * width] */
    size_t k = 0;

    for (size_t j = 0; j < s->width; j++)
        s->least[j] = j ? INFINITY : 0;
    do
        add_part(s, ++k);
    while (k < max_parts && whole[k * s->width] > limit);
    while (k > n_parts && whole[k * s->width] > limit &&
           whole[(k - 1) * s->width] - whole[k * s->width] < WORTH * limit)
        k--;
    return k;
}

/* How many parts, from first[]; how far they are off in *found.  0: no memory. */
static size_t search(const struct refine *r, size_t *first, size_t n_parts, size_t max_parts,
                     double limit, double most, double *found)
{
    struct search s = {.r = r, .width = r->n_places + 1};
    size_t k = 0;

    max_parts = max_parts < r->n_places ? max_parts : r->n_places;
    s.widest = malloc(s.width * sizeof(*s.widest));
    s.part = malloc(s.width * s.width * sizeof(*s.part));
    s.least = malloc((max_parts + 1) * s.width * sizeof(*s.least));
    s.from = calloc(max_parts + 1, s.width);
    if (!s.widest || !s.part || !s.least || !s.from)
        goto out;
    measure(&s, most);
    k = fewest(&s, n_parts, max_parts, limit);
    *found = s.least[k * s.width + r->n_places];
    for (size_t j = r->n_places, p = k; p-- > 0;) {
        j = s.from[(p + 1) * s.width + j];
        first[p] = r->cells[r->places[j].cell].first;
    }
out:
    free(s.widest);
    free(s.part);
    free(s.least);
    free(s.from);
    return k;
}

size_t argus_refine(const struct argus_hist_bin *b, size_t n, size_t *first, size_t n_parts,
                    size_t max_parts)
{
    size_t given[ARGUS_REFINE_MAX], n_given = n_parts, n_found;
    struct refine *r = NULL;
    uint64_t count = 0;
    double limit, left = 0;

    if (max_parts > ARGUS_REFINE_MAX)
        max_parts = ARGUS_REFINE_MAX;
    for (size_t i = 0; i < n; i++)
        count += b[i].count;
    if (count < COUNT_MIN || n_parts >= max_parts)
        return n_parts;
    r = malloc(sizeof(*r));
    if (!r)
        return n_parts;
    r->b = b;
    r->n = n;
    r->before = malloc((n + 1) * sizeof(*r->before));
    if (!r->before)
        goto out;
    r->before[0] = 0;
    for (size_t i = 0; i < n; i++)
        r->before[i + 1] = r->before[i] + b[i].count;
    for (size_t i = 0; i < Z_STEPS / 2; i++) {
        r->z[i] = gsl_cdf_ugaussian_Pinv(((double)i + 0.5) / Z_STEPS);
        r->z[Z_STEPS - 1 - i] = -r->z[i];
    }
    memcpy(given, first, n_given * sizeof(*given));
    limit = TARGET * (double)count * value_at(r, (count - 1) / 2);
    divide(r, PLACES_FEW, given, n_given);
    if (distance_of_modes(r) <= limit)
        goto out;
    n_found = search(r, first, n_given, max_parts, limit, limit, &left);
    if (n_found && left > limit) {
        divide(r, PLACES, given, n_given);
        n_found = search(r, first, n_given, max_parts, limit, INFINITY, &left);
    }
    if (n_found)
        n_parts = n_found;
    else
        memcpy(first, given, n_given * sizeof(*given));
out:
    free(r->before);
    free(r);
    return n_parts;
}
