/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/summary/refine.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64u
#define TARGET 0.015
#define COUNT_MIN 20u /* fewer durations: their percentiles are noise anyway */
#define SIDE_MIN 3u
#define CANDIDATES 8u
#define GAIN 0.9 /* a cut must leave less than this of the error */
#define Z99 2.3263478740408408
#define Z_STEPS 256u

struct refine {
    const struct argus_hist_bin *b;
    double *mean, *log_mean; /* of each bin */
    double z[Z_STEPS + 1];   /* standard normal quantiles */
};

static uint64_t count_of(const struct argus_hist_bin *b, size_t from, size_t to)
{
    uint64_t count = 0;

    for (size_t i = from; i < to; i++)
        count += b[i].count;
    return count;
}

/* Sum of the distances of the durations from their places in the log-normal of the part, to first
 * order in their logarithms. */
static double error_of(const struct refine *r, size_t from, size_t to)
{
    uint64_t n = count_of(r->b, from, to), k = 0;
    double p50, p99, mu, sigma, sum = 0;

    if (n < 2)
        return 0;
    p50 = (double)argus_hist_value_at(r->b + from, (n - 1) / 2);
    p99 = (double)argus_hist_value_at(r->b + from, (uint64_t)((double)(n - 1) * 0.99 + 0.5));
    mu = log(fmax(p50, 1));
    sigma = (log(fmax(p99, 1)) - mu) / Z99;
    for (size_t i = from; i < to; i++) {
        double at = ((double)k + (double)r->b[i].count / 2) / (double)n * Z_STEPS;

        sum += (double)r->b[i].count * r->mean[i] *
               fabs(mu + sigma * r->z[(size_t)at] - r->log_mean[i]);
        k += r->b[i].count;
    }
    return sum;
}

/* The cut of a part that leaves the least error; 0: none helps. */
static size_t best_cut(const struct refine *r, size_t from, size_t to, double error, double *left)
{
    uint64_t n = count_of(r->b, from, to), k = 0, next;
    size_t best = 0, tried = 0;

    next = n / (CANDIDATES + 1);
    for (size_t i = from + 1; i < to && tried < CANDIDATES; i++) {
        double e;

        k += r->b[i - 1].count;
        if (k < SIDE_MIN || n - k < SIDE_MIN || (k < next && i + 1 < to))
            continue;
        tried++;
        next = k + n / (CANDIDATES + 1);
        e = error_of(r, from, i) + error_of(r, i, to);
        if (e < error * GAIN && (!best || e < *left)) {
            best = i;
            *left = e;
        }
    }
    return best;
}

static size_t refine(struct refine *r, size_t n, size_t *first, size_t n_parts, size_t max_parts,
                     double limit)
{
    double error[PARTS_MAX], total = 0;
    int stuck[PARTS_MAX] = {0};

    for (size_t p = 0; p < n_parts; p++) {
        error[p] = error_of(r, first[p], p + 1 < n_parts ? first[p + 1] : n);
        total += error[p];
    }
    while (total > limit && n_parts < max_parts) {
        size_t worst = n_parts, cut, to;
        double left = 0;

        for (size_t p = 0; p < n_parts; p++) {
            if (!stuck[p] && (worst == n_parts || error[p] > error[worst]))
                worst = p;
        }
        if (worst == n_parts)
            break;
        to = worst + 1 < n_parts ? first[worst + 1] : n;
        cut = best_cut(r, first[worst], to, error[worst], &left);
        if (!cut) {
            stuck[worst] = 1;
            continue;
        }
        total += left - error[worst];
        memmove(&first[worst + 2], &first[worst + 1], (n_parts - worst - 1) * sizeof(*first));
        memmove(&error[worst + 2], &error[worst + 1], (n_parts - worst - 1) * sizeof(*error));
        memmove(&stuck[worst + 2], &stuck[worst + 1], (n_parts - worst - 1) * sizeof(*stuck));
        first[worst + 1] = cut;
        stuck[worst + 1] = 0;
        n_parts++;
        error[worst] = error_of(r, first[worst], cut);
        error[worst + 1] = error_of(r, cut, to);
    }
    return n_parts;
}

size_t argus_refine(const struct argus_hist_bin *b, size_t n, size_t *first, size_t n_parts,
                    size_t max_parts)
{
    uint64_t count = count_of(b, 0, n);
    struct refine r = {.b = b};
    double limit;

    if (max_parts > PARTS_MAX)
        max_parts = PARTS_MAX;
    if (count < COUNT_MIN || n_parts >= max_parts)
        return n_parts;
    r.mean = malloc(2 * n * sizeof(*r.mean));
    if (!r.mean)
        return n_parts;
    r.log_mean = r.mean + n;
    for (size_t i = 0; i < n; i++) {
        r.mean[i] = fmax((double)b[i].sum / b[i].count, 1);
        r.log_mean[i] = log(r.mean[i]);
    }
    for (size_t i = 0; i <= Z_STEPS; i++)
        r.z[i] = gsl_cdf_ugaussian_Pinv(((double)i + (i < Z_STEPS ? 0.5 : -0.5)) / Z_STEPS);
    limit = TARGET * (double)count * (double)argus_hist_value_at(b, (count - 1) / 2);
    n_parts = refine(&r, n, first, n_parts, max_parts, limit);
    free(r.mean);
    return n_parts;
}
