/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gaussian kernel density on a grid by FFT, and durations cut into modes at
 * the valleys of their log density.
 *
 * argus_modes() sorts first and then works on bins, so that its cost beyond
 * the sort hangs on the grid and not on the number of samples: the recorder
 * calls it for every class of every window.
 */
#include <config.h>
#include <gsl/gsl_fft_halfcomplex.h>
#include <gsl/gsl_fft_real.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/bandwidth.h"
#include "analyzer/stats/stats.h"

#define MODE_SIDE 3  /* least samples in a mode */
#define GRID_MIN 128 /* points of the log grid */
#define GRID_MAX 2048
#define GRID_STEP 0.01       /* wanted resolution of the log grid: 1 % */
#define BANDWIDTH_FLOOR 0.01 /* modes closer than about 2 % are one */
#define SIGNIFICANCE 1.5     /* Poisson: peak - valley > this * sqrt(peak + valley) */
#define RADIX_FROM 256       /* a radix sort pays from here */

/* ---- the density on a grid ---------------------------------------------- */

int argus_kde(const double *x, const double *weights, size_t n, double bandwidth, double lo,
              double hi, double *density, size_t n_grid)
{
    double total = 0, step, *work;
    size_t size;

    if (n == 0 || n_grid < 2 || (n_grid & (n_grid - 1)) || n_grid > SIZE_MAX / 64 || !(hi > lo) ||
        !(bandwidth > 0))
        return -1;
    size = 2 * n_grid; /* twice the grid: what leaves on one side must not enter on the other */
    work = calloc(size, sizeof(*work));
    if (!work)
        return -1;
    step = (hi - lo) / (double)(n_grid - 1);
    for (size_t i = 0; i < n; i++) {
        double w = weights ? weights[i] : 1, at = (x[i] - lo) / step, share;
        size_t k;

        total += w;
        if (!(at >= 0) || at > (double)(n_grid - 1))
            continue;
        /* Linear binning: a sample goes to its two neighbours by nearness. */
        k = (size_t)at;
        share = at - (double)k;
        work[k] += w * (1 - share);
        work[k + 1] += w * share; /* k + 1 == n_grid is in the padding */
    }
    gsl_fft_real_radix2_transform(work, 1, size);
    for (size_t k = 1; k <= size / 2; k++) {
        double omega = 2 * M_PI * (double)k / (double)size * bandwidth / step;
        double damp = exp(-0.5 * omega * omega);

        work[k] *= damp;
        if (k < size / 2)
            work[size - k] *= damp;
    }
    gsl_fft_halfcomplex_radix2_inverse(work, 1, size);
    for (size_t i = 0; i < n_grid; i++)
        density[i] = total > 0 && work[i] > 0 ? work[i] / (total * step) : 0;
    free(work);
    return 0;
}

/* ---- sorting durations -------------------------------------------------- */

static int compare_durations(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void insertion_sort(int64_t *x, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int64_t v = x[i];
        size_t j = i;

        for (; j > 0 && x[j - 1] > v; j--)
            x[j] = x[j - 1];
        x[j] = v;
    }
}

/* Least significant byte first; a byte that is the same everywhere costs one count. */
static int radix_sort(int64_t *x, size_t n)
{
    int64_t *other = malloc(n * sizeof(*other)), *from = x, *to = other, max = 0;

    if (!other)
        return -1;
    for (size_t i = 0; i < n; i++)
        max |= x[i];
    for (int shift = 0; shift < 63 && (max >> shift) != 0; shift += 8) {
        size_t count[256] = {0}, at = 0;

        for (size_t i = 0; i < n; i++)
            count[(from[i] >> shift) & 255]++;
        if (count[(from[0] >> shift) & 255] == n)
            continue;
        for (int b = 0; b < 256; b++) {
            size_t c = count[b];

            count[b] = at;
            at += c;
        }
        for (size_t i = 0; i < n; i++)
            to[count[(from[i] >> shift) & 255]++] = from[i];
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != x)
        memcpy(x, from, n * sizeof(*x));
    free(other);
    return 0;
}

static void sort_durations(int64_t *x, size_t n)
{
    if (n <= 48)
        insertion_sort(x, n);
    else if (n < RADIX_FROM || x[0] < 0 || radix_sort(x, n) < 0)
        qsort(x, n, sizeof(*x), compare_durations);
}

/* ---- modes -------------------------------------------------------------- */

static int64_t quantile_sorted(const int64_t *x, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t k = (size_t)at;

    if (k + 1 >= n)
        return x[n - 1];
    return x[k] + llround((at - (double)k) * (double)(x[k + 1] - x[k]));
}

static void describe(const int64_t *x, size_t n, struct argus_mode *mode)
{
    mode->count = n;
    mode->sum = 0;
    for (size_t i = 0; i < n; i++)
        mode->sum += x[i];
    mode->min = x[0];
    mode->max = x[n - 1];
    mode->p50 = quantile_sorted(x, n, 0.5);
    mode->p99 = quantile_sorted(x, n, 0.99);
}

/* First sample >= value. */
static size_t lower_bound(const int64_t *x, size_t n, double value)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if ((double)x[mid] < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct valley {
    size_t grid;  /* place on the grid */
    size_t first; /* first sample behind it */
    double gap;   /* between the samples at its sides, log */
};

struct log_density {
    size_t n_grid;
    double lo, step; /* of ln(duration) */
    double h;
    double *bins;  /* probability of a bin, then the smoothed density */
    double *c;     /* cosine coefficients; 2 n_grid places of work behind */
    size_t *first; /* first sample of a bin; n_grid + 1 */
};

/* The clock that stamps kernels ticks in coarse steps; where samples repeat, the distance between neighbouring values
 * is that tick, and a bandwidth below it would make a mode of every tick. */
static double tick_floor(const int64_t *x, size_t n, size_t *distinct)
{
    int64_t tick = INT64_MAX;

    *distinct = 1;
    for (size_t i = 1; i < n; i++) {
        int64_t d = x[i] - x[i - 1];

        if (d > 0) {
            ++*distinct;
            tick = d < tick ? d : tick;
        }
    }
    if (*distinct < 2 || 2 * *distinct > n)
        return BANDWIDTH_FLOOR;
    return fmax(0.75 * (double)tick / fmax((double)x[0], 1), BANDWIDTH_FLOOR);
}

/* ln of a duration; anything below a nanosecond counts as one. */
static double log_ns(int64_t x)
{
    return log(x > 0 ? (double)x : 1);
}

static int smooth(struct log_density *d, const int64_t *x, size_t n)
{
    double lo = log_ns(x[0]), hi = log_ns(x[n - 1]), pad, h, floor;
    size_t distinct;

    floor = tick_floor(x, n, &distinct);
    pad = (hi - lo) * 0.1 + 3 * floor;
    d->n_grid = GRID_MIN;
    while (d->n_grid < GRID_MAX && (hi - lo + 2 * pad) / (double)d->n_grid > GRID_STEP)
        d->n_grid *= 2;
    d->lo = lo - pad;
    d->step = (hi - lo + 2 * pad) / (double)d->n_grid;
    d->bins = malloc(d->n_grid * 4 * sizeof(*d->bins));
    d->first = malloc((d->n_grid + 1) * sizeof(*d->first));
    if (!d->bins || !d->first)
        return -1;
    d->c = d->bins + d->n_grid;
    for (size_t i = 0, at = 0; i <= d->n_grid; i++) {
        double edge = exp(d->lo + d->step * (double)i);

        if (i == d->n_grid)
            at = n;
        else
            at += lower_bound(x + at, n - at, edge);
        d->first[i] = at;
        if (i > 0)
            d->bins[i - 1] = (double)(d->first[i] - d->first[i - 1]) / (double)n;
    }
    argus_dct(d->bins, d->n_grid, d->c, d->c + d->n_grid);
    for (size_t k = 0; k < d->n_grid; k++)
        d->bins[k] = d->c[k] * d->c[k];
    h = argus_bandwidth_isj(d->bins, d->n_grid, (double)distinct);
    if (isnan(h)) {
        double sd = log_ns(quantile_sorted(x, n, 0.841)) - log_ns(quantile_sorted(x, n, 0.159));

        h = 1.06 * sd / 2 * pow((double)n, -0.2) / (d->step * (double)d->n_grid);
    }
    d->h = h * d->step * (double)d->n_grid;
    d->h = d->h < floor ? floor : d->h;

    /* The smoothed density comes back by the inverse cosine transform: a mirrored, real spectrum. */
    double *work = d->c + d->n_grid, t = d->h / (d->step * (double)d->n_grid);
    size_t size = 2 * d->n_grid;

    memset(work, 0, size * sizeof(*work));
    work[0] = d->c[0] * 2;
    for (size_t k = 1; k < d->n_grid; k++) {
        double damp = exp(-0.5 * M_PI * M_PI * (double)(k * k) * t * t);
        double phase = M_PI * (double)k / (double)size;

        if (damp < 1e-12)
            break;
        work[k] = 2 * d->c[k] * damp * cos(phase);
        work[size - k] = 2 * d->c[k] * damp * sin(phase);
    }
    gsl_fft_halfcomplex_radix2_inverse(work, 1, size);
    memcpy(d->bins, work, d->n_grid * sizeof(*work));
    return 0;
}

static double highest(const struct log_density *d, size_t from, size_t to, size_t *where)
{
    double best = -1;

    for (size_t i = from; i < to; i++) {
        if (d->bins[i] > best) {
            best = d->bins[i];
            *where = i;
        }
    }
    return best;
}

/* Samples within one bandwidth of a place. */
static double samples_near(const struct log_density *d, size_t at)
{
    size_t half = (size_t)(d->h / d->step + 0.5);
    size_t from = at > half ? at - half : 0;
    size_t to = at + half + 1 < d->n_grid ? at + half + 1 : d->n_grid;

    return (double)(d->first[to] - d->first[from]);
}

/* What a valley lacks to be a cut, and how clear a cut it is: 0 the floor of an empty gap .. `depth`; > 1: none. */
static double shallowness(const struct log_density *d, const struct valley *v, size_t k,
                          size_t n_valleys, size_t n, double depth)
{
    size_t from = k ? v[k - 1].grid : 0, to = k + 1 < n_valleys ? v[k + 1].grid : d->n_grid;
    size_t first = k ? v[k - 1].first : 0, last = k + 1 < n_valleys ? v[k + 1].first : n;
    size_t left_at = from, right_at = to - 1;
    double left = highest(d, from, v[k].grid, &left_at);
    double right = highest(d, v[k].grid, to, &right_at);
    double lower = left < right ? left : right, ratio, peak, valley;

    ratio = lower > 0 ? fmin(fmax(d->bins[v[k].grid], 0) / lower, 1) : 1;
    ratio = ratio < 0.01 ? 0 : ratio;
    if (v[k].first - first < MODE_SIDE || last - v[k].first < MODE_SIDE)
        return 4 + ratio;
    if (ratio >= depth)
        return 2 + ratio;
    peak = samples_near(d, left < right ? left_at : right_at);
    valley = samples_near(d, v[k].grid);
    if (peak - valley <= SIGNIFICANCE * sqrt(peak + valley))
        return 1 + ratio;
    return ratio;
}

/* The clearest cut of sorted x: the first sample behind it, 0: there is none.  Local minima of the density; those that
 * are no cut fall away one by one, the worst first, and what was on their sides becomes one. */
static size_t clearest_cut(const struct log_density *d, const int64_t *x, size_t n, double depth,
                           struct valley *v)
{
    size_t n_valleys = 0, best = 0;
    double least = INFINITY, widest = 0;
    int falling = 0;

    for (size_t i = 1; i < d->n_grid; i++) {
        if (d->bins[i] < d->bins[i - 1]) {
            falling = 1;
        } else if (d->bins[i] > d->bins[i - 1] && falling) {
            size_t begin = i - 1;

            while (begin > 0 && d->bins[begin - 1] <= d->bins[i - 1])
                begin--;
            begin = (begin + i) / 2; /* the middle of a flat bottom */
            falling = 0;
            if (d->first[begin] == 0 || d->first[begin] == n)
                continue;
            v[n_valleys].grid = begin;
            v[n_valleys].first = d->first[begin];
            v[n_valleys].gap = log_ns(x[d->first[begin]]) - log_ns(x[d->first[begin] - 1]);
            n_valleys++;
        }
    }
    for (;;) {
        double worst = 1;
        size_t at = n_valleys;

        for (size_t k = 0; k < n_valleys; k++) {
            double m = shallowness(d, v, k, n_valleys, n, depth);

            if (m > worst || (m == worst && at < n_valleys && v[k].gap < v[at].gap)) {
                worst = m;
                at = k;
            }
        }
        if (at == n_valleys)
            break;
        memmove(v + at, v + at + 1, (n_valleys - at - 1) * sizeof(*v));
        n_valleys--;
    }
    for (size_t k = 0; k < n_valleys; k++) {
        double m = shallowness(d, v, k, n_valleys, n, depth);

        if (m < least || (m == least && v[k].gap > widest)) {
            least = m;
            widest = v[k].gap;
            best = v[k].first;
        }
    }
    return best;
}

static size_t find_cut(const int64_t *x, size_t n, double depth)
{
    struct log_density d = {0};
    struct valley *v = NULL;
    size_t cut = 0;

    /* No need to look: too few samples for two modes, or all within the resolution. */
    if (n < 2 * MODE_SIDE || (double)x[n - 1] <= (double)x[0] * (1 + 2 * BANDWIDTH_FLOOR))
        return 0;
    if (smooth(&d, x, n) == 0 && (v = malloc(d.n_grid * sizeof(*v))))
        cut = clearest_cut(&d, x, n, depth, v);
    free(v);
    free(d.bins);
    free(d.first);
    return cut;
}

/* Cut at the clearest valley, then look at each side with a bandwidth of its own: one bandwidth for all would blur
 * close modes because of a far one, or tear a wide one because of narrow ones. */
static size_t split(const int64_t *x, size_t n, double depth, struct argus_mode *modes,
                    size_t max_modes)
{
    size_t cut = max_modes > 1 ? find_cut(x, n, depth) : 0, left;

    if (cut == 0) {
        describe(x, n, modes);
        return 1;
    }
    left = split(x, cut, depth, modes, max_modes - 1);
    return left + split(x + cut, n - cut, depth, modes + left, max_modes - left);
}

size_t argus_modes(int64_t *x, size_t n, double depth, struct argus_mode *modes, size_t max_modes)
{
    if (n == 0 || max_modes == 0)
        return 0;
    sort_durations(x, n);
    return split(x, n, depth, modes, max_modes);
}
