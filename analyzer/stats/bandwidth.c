/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The improved Sheather-Jones plug-in bandwidth: Z. I. Botev, J. F. Grotowski,
 * D. P. Kroese, "Kernel density estimation via diffusion", Annals of
 * Statistics 38 (2010), algorithm 1.  With t the squared bandwidth on a grid of
 * unit width and a_k the cosine coefficients of the data,
 *
 *   ||f^(s)||^2 (t) = 2 pi^(2s) sum_k k^(2s) a_k^2 exp(-k^2 pi^2 t)
 *
 * the best t solves t = gamma(t), where gamma chains the stages s = 7 .. 2.
 */
#include <config.h>
#include <gsl/gsl_fft_real.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/bandwidth.h"
#include "analyzer/stats/stats.h"

#define GRID 1024
#define STAGES 7
#define NEGLIGIBLE 1e-30 /* of exp(-k^2 pi^2 t): later terms add nothing */

void argus_dct(const double *p, size_t n, double *c, double *work)
{
    /* The mirrored sequence is even, so its spectrum is the cosine transform up to half a bin's phase. */
    for (size_t i = 0; i < n; i++) {
        work[i] = p[i];
        work[2 * n - 1 - i] = p[i];
    }
    gsl_fft_real_radix2_transform(work, 1, 2 * n);
    c[0] = work[0] / 2;
    for (size_t k = 1; k < n; k++) {
        double phase = M_PI * (double)k / (double)(2 * n);

        c[k] = (work[k] * cos(phase) + work[2 * n - k] * sin(phase)) / 2;
    }
}

/* Square norm of the s-th derivative of the density smoothed by t. */
static double derivative_norm(const double *c2, size_t n, int s, double t)
{
    double decay = exp(-M_PI * M_PI * t), odd = decay, term = decay;
    double step = decay * decay, sum = 0;

    /* term = exp(-k^2 pi^2 t), built from exp(-(2k+1) pi^2 t): no exp() in the loop. */
    for (size_t k = 1; k < n && term > NEGLIGIBLE; k++) {
        double k2 = (double)(k * k), power = k2;

        for (int i = 1; i < s; i++)
            power *= k2;
        sum += power * c2[k] * term;
        odd *= step;
        term *= odd;
    }
    return 2 * pow(M_PI, 2 * s) * sum;
}

static double gamma_of(const double *c2, size_t n, double samples, double t)
{
    double f = derivative_norm(c2, n, STAGES, t);

    for (int s = STAGES - 1; s >= 2; s--) {
        double odd_product = 1, constant, time;

        for (int i = 3; i <= 2 * s - 1; i += 2)
            odd_product *= i;
        constant = (1 + pow(0.5, s + 0.5)) / 3;
        time = pow(2 * constant * odd_product / sqrt(2 * M_PI) / samples / f, 2.0 / (3 + 2 * s));
        f = derivative_norm(c2, n, s, time);
    }
    return pow(2 * samples * sqrt(M_PI) * f, -0.4);
}

double argus_bandwidth_isj(const double *c2, size_t n, double samples)
{
    double t = 0;

    /* Fixed-point iteration from 0, as the authors give it; it takes a handful of rounds. */
    for (int round = 0; round < 64; round++) {
        double next = gamma_of(c2, n, samples, t);

        if (!isfinite(next) || next <= 0 || next > 1)
            return NAN;
        if (fabs(next - t) <= 1e-3 * next)
            return sqrt(next);
        t = next;
    }
    return NAN;
}

static double rule_of_thumb(double *sorted_copy, const double *x, size_t n)
{
    double sd = gsl_stats_sd(x, 1, n);
    double iqr = argus_quantile_inplace(sorted_copy, n, 0.75);

    iqr -= argus_quantile_inplace(sorted_copy, n, 0.25);
    if (iqr > 0 && iqr / 1.34 < sd)
        sd = iqr / 1.34;
    return 1.06 * sd * pow((double)n, -0.2);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double argus_bandwidth(const double *x, size_t n)
{
    double *memory, *bins, *c, *sorted, lo, hi, width, h = NAN;
    size_t distinct = 1;

    if (n < 2)
        return NAN;
    memory = calloc(4 * GRID + n, sizeof(*memory));
    if (!memory)
        return NAN;
    bins = memory;
    c = bins + GRID;
    sorted = memory + 4 * GRID;
    memcpy(sorted, x, n * sizeof(*x));
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    for (size_t i = 1; i < n; i++)
        distinct += sorted[i] != sorted[i - 1];
    lo = sorted[0];
    hi = sorted[n - 1];
    if (hi > lo && isfinite(hi - lo)) {
        /* A tenth on each side, so that the mirror images at the edges stay away. */
        width = (hi - lo) * 1.2;
        lo -= (hi - lo) * 0.1;
        for (size_t i = 0; i < n; i++) {
            size_t k = (size_t)((x[i] - lo) / width * GRID);

            bins[k < GRID ? k : GRID - 1] += 1.0 / (double)n;
        }
        argus_dct(bins, GRID, c, c + GRID);
        for (size_t k = 0; k < GRID; k++)
            c[k] *= c[k];
        h = argus_bandwidth_isj(c, GRID, (double)distinct) * width;
        if (isnan(h))
            h = rule_of_thumb(sorted, x, n);
        /* The normal distribution is the smoothest there is of its spread: wider is never right. */
        h = fmin(h, 1.06 * gsl_stats_sd(x, 1, n) * pow((double)n, -0.2));
    } else if (hi == lo) {
        h = 0;
    }
    free(memory);
    return h;
}
