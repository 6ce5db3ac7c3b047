/* SPDX-License-Identifier: Apache-2.0 */
/* Robust location, scale and slope. */
#include <config.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/stats.h"

#define SLOPE_ALL_PAIRS 512 /* up to here every pair is used */
#define SLOPE_PAIRS 65536   /* pairs of the sample beyond */

static double *copy_of(const double *x, size_t n)
{
    double *c = n > SIZE_MAX / sizeof(*c) ? NULL : malloc(n * sizeof(*c));

    if (c)
        memcpy(c, x, n * sizeof(*c));
    return c;
}

double argus_quantile_inplace(double *x, size_t n, double q)
{
    double position, low, high;
    size_t k;

    if (n == 0 || isnan(q))
        return NAN;
    q = q < 0 ? 0 : q > 1 ? 1 : q;
    position = q * (double)(n - 1);
    k = (size_t)position;
    low = gsl_stats_select(x, 1, n, k);
    if (k + 1 >= n || position == (double)k)
        return low;
    /* After the selection everything behind k is not smaller than x[k]. */
    high = x[k + 1];
    for (size_t i = k + 2; i < n; i++)
        high = x[i] < high ? x[i] : high;
    return low + (position - (double)k) * (high - low);
}

double argus_median_inplace(double *x, size_t n)
{
    return argus_quantile_inplace(x, n, 0.5);
}

double argus_median(const double *x, size_t n)
{
    double *c, m;

    if (n == 0)
        return NAN;
    c = copy_of(x, n);
    m = c ? argus_median_inplace(c, n) : NAN;
    free(c);
    return m;
}

double argus_mad(const double *x, size_t n, double centre)
{
    double *c, m;

    if (n == 0)
        return NAN;
    c = copy_of(x, n);
    if (!c)
        return NAN;
    for (size_t i = 0; i < n; i++)
        c[i] = fabs(c[i] - centre);
    m = argus_median_inplace(c, n);
    free(c);
    return m;
}

double argus_robust_z(double x, double median, double mad, double floor)
{
    double spread = mad > floor ? mad : floor;

    if (isnan(x) || isnan(median) || isnan(spread))
        return NAN;
    if (spread <= 0)
        return x > median ? INFINITY : x < median ? -INFINITY : 0;
    return 0.6745 * (x - median) / spread;
}

double argus_slope(const double *y, size_t n)
{
    size_t pairs, used = 0;
    double *slopes, slope;

    if (n < 2)
        return NAN;
    pairs = n <= SLOPE_ALL_PAIRS ? n * (n - 1) / 2 : SLOPE_PAIRS;
    slopes = malloc(pairs * sizeof(*slopes));
    if (!slopes)
        return NAN;
    if (n <= SLOPE_ALL_PAIRS) {
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++)
                slopes[used++] = (y[j] - y[i]) / (double)(j - i);
    } else {
        /* A fixed generator: the same series always gives the same slope. */
        uint64_t state = 0x9e3779b97f4a7c15ULL;

        while (used < pairs) {
            size_t i, j;

            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            i = (size_t)((state >> 33) % n);
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            j = (size_t)((state >> 33) % n);
            if (i != j)
                slopes[used++] = (y[j] - y[i]) / ((double)j - (double)i);
        }
    }
    slope = argus_median_inplace(slopes, used);
    free(slopes);
    return slope;
}
