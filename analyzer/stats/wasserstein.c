/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wasserstein-1 distances.  On the line W1 is the area between two
 * distribution functions, or between two quantile functions; with quantile
 * tables of equal length it is the mean distance of sorted values.
 */
#include <config.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/stats/stats.h"

#define Z99 2.3263478740408408 /* quantile 0.99 of the normal distribution */

struct weighted {
    double x, w;
};

static int compare_weighted(const void *a, const void *b)
{
    double x = ((const struct weighted *)a)->x, y = ((const struct weighted *)b)->x;

    return (x > y) - (x < y);
}

static struct weighted *sorted_copy(const double *x, const double *w, size_t n)
{
    struct weighted *s = n > SIZE_MAX / sizeof(*s) ? NULL : malloc(n * sizeof(*s));
    double total = 0;

    if (!s)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        s[i] = (struct weighted){x[i], w ? w[i] : 1};
        total += s[i].w;
    }
    for (size_t i = 0; i < n; i++)
        s[i].w /= total;
    qsort(s, n, sizeof(*s), compare_weighted);
    return s;
}

double argus_w1_samples(const double *x, const double *wx, size_t nx, const double *y,
                        const double *wy, size_t ny)
{
    struct weighted *a = NULL, *b = NULL;
    double area = NAN, fa = 0, fb = 0;

    if (nx == 0 || ny == 0)
        return NAN;
    a = sorted_copy(x, wx, nx);
    b = sorted_copy(y, wy, ny);
    if (!a || !b)
        goto out;
    area = 0;
    double at = a[0].x < b[0].x ? a[0].x : b[0].x;
    for (size_t i = 0, j = 0; i < nx || j < ny;) {
        int from_a = j >= ny || (i < nx && a[i].x <= b[j].x);
        double next = from_a ? a[i].x : b[j].x;

        area += fabs(fa - fb) * (next - at);
        at = next;
        if (from_a)
            fa += a[i++].w;
        else
            fb += b[j++].w;
    }
out:
    free(a);
    free(b);
    return area;
}

struct component {
    double weight, mu, sigma;
    double low, high; /* ln of its smallest and largest sample */
};

/* Of the mixture at ln x: its distribution function, and its density. */
static double mixture_cdf(const struct component *c, size_t n, double log_x, double *density)
{
    double f = 0;

    *density = 0;
    for (size_t k = 0; k < n; k++) {
        double z = (log_x - c[k].mu) / c[k].sigma;

        if (log_x >= c[k].high) {
            f += c[k].weight;
        } else if (log_x >= c[k].low) {
            f += c[k].weight * gsl_cdf_ugaussian_P(z);
            *density += c[k].weight * gsl_ran_ugaussian_pdf(z) / c[k].sigma;
        }
    }
    return f;
}

/* Newton's method between bounds that close in on the answer, `lo` known to lie below it: the distribution function
 * jumps where a tail ends, and is flat between modes. */
static double mixture_quantile(const struct component *c, size_t n, double p, double lo, double hi)
{
    double x = lo;

    for (int i = 0; i < 100 && hi - lo > 1e-9; i++) {
        double density, missing = p - mixture_cdf(c, n, x, &density), step = missing / density;

        if (missing > 0)
            lo = x;
        else
            hi = x;
        if (fabs(step) < 1e-9)
            return x + step;
        x = i % 4 < 3 && x + step > lo && x + step < hi ? x + step : (lo + hi) / 2;
    }
    return (lo + hi) / 2;
}

int argus_mixture_quantiles(const struct argus_mode *modes, size_t n_modes, double *out,
                            size_t n_out)
{
    struct component *c = calloc(n_modes ? n_modes : 1, sizeof(*c));
    double total = 0, lo = INFINITY, hi = -INFINITY;
    size_t n = 0;

    if (!c)
        return -1;
    for (size_t k = 0; k < n_modes; k++) {
        const struct argus_mode *m = &modes[k];

        if (m->count == 0 || m->p50 <= 0)
            continue;
        c[n].weight = (double)m->count;
        c[n].mu = log((double)m->p50);
        c[n].sigma = m->p99 > m->p50 ? (log((double)m->p99) - c[n].mu) / Z99 : 0;
        c[n].sigma = c[n].sigma > 1e-9 ? c[n].sigma : 1e-9;
        /* Nothing lies outside what was seen; the normal's tails end there. */
        c[n].low = m->min > 0 && m->min <= m->p50 ? log((double)m->min) : -INFINITY;
        c[n].high = m->max >= m->p99 && m->max > 0 ? log((double)m->max) : INFINITY;
        total += c[n].weight;
        n++;
    }
    if (n == 0) {
        free(c);
        return -1;
    }
    for (size_t k = 0; k < n; k++) {
        double left = c[k].mu - 9 * c[k].sigma, right = c[k].mu + 9 * c[k].sigma;

        c[k].weight /= total;
        left = c[k].low > left ? c[k].low : left;
        right = c[k].high < right ? c[k].high : right;
        lo = left < lo ? left : lo;
        hi = right > hi ? right : hi;
    }
    for (size_t i = 0; i < n_out; i++) {
        double p = ((double)i + 0.5) / (double)n_out, log_x;

        if (n == 1) {
            log_x = c[0].mu + c[0].sigma * gsl_cdf_ugaussian_Pinv(p);
            log_x = log_x < c[0].low ? c[0].low : log_x > c[0].high ? c[0].high : log_x;
        } else {
            log_x = lo = mixture_quantile(c, n, p, lo, hi);
        }
        out[i] = exp(log_x);
    }
    free(c);
    return 0;
}

struct placed {
    double x;
    size_t i;
};

static int compare_placed(const void *a, const void *b)
{
    double x = ((const struct placed *)a)->x, y = ((const struct placed *)b)->x;

    return (x > y) - (x < y);
}

int argus_w1_mean(const double *q, size_t n, size_t g, double *mean_w1, double *signed_mean)
{
    struct placed *column;

    if (n == 0 || g == 0 || n > SIZE_MAX / sizeof(*column))
        return -1;
    column = malloc(n * sizeof(*column));
    if (!column)
        return -1;
    for (size_t i = 0; i < n; i++) {
        mean_w1[i] = 0;
        signed_mean[i] = 0;
    }
    for (size_t k = 0; k < g && n > 1; k++) {
        double total = 0, below = 0;

        for (size_t i = 0; i < n; i++) {
            column[i] = (struct placed){q[i * g + k], i};
            total += column[i].x;
        }
        qsort(column, n, sizeof(*column), compare_placed);
        /* sum_j |x_i - x_j| = x_i * before - sum before + sum behind - x_i * behind */
        for (size_t r = 0; r < n; r++) {
            double x = column[r].x, above = total - below - x;
            size_t i = column[r].i;

            mean_w1[i] += x * (double)r - below + above - x * (double)(n - 1 - r);
            signed_mean[i] += (double)n * x - total;
            below += x;
        }
    }
    for (size_t i = 0; i < n && n > 1; i++) {
        mean_w1[i] /= (double)(n - 1) * (double)g;
        signed_mean[i] /= (double)(n - 1) * (double)g;
    }
    free(column);
    return 0;
}

double argus_w1_quantiles(const double *a, const double *b, size_t g)
{
    double sum = 0;

    if (g == 0)
        return NAN;
    for (size_t i = 0; i < g; i++)
        sum += fabs(a[i] - b[i]);
    return sum / (double)g;
}
