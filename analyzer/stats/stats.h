/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics: robust location and scale, densities, distances between
 * distributions, change points.  Pure functions on plain arrays; NAN where a
 * value does not exist (n == 0).  Arrays are not modified unless it says so.
 */
#ifndef ARGUS_STATS_H
#define ARGUS_STATS_H

#include <stddef.h>
#include <stdint.h>

/* ---- robust.c ---------------------------------------------------------- */

double argus_median(const double *x, size_t n);
double argus_median_inplace(double *x, size_t n);             /* reorders x; O(n) */
double argus_quantile_inplace(double *x, size_t n, double q); /* linear interpolation; reorders x */
/* Median absolute deviation from `centre`, not scaled. */
double argus_mad(const double *x, size_t n, double centre);
/* Modified z of Iglewicz and Hoaglin: 0.6745 (x - median) / MAD; MAD is floored at `floor`
 * (a spread that measurement noise alone explains). */
double argus_robust_z(double x, double median, double mad, double floor);
/* Theil-Sen slope of y over 0..n-1; for n > 512 over a fixed sample of pairs. */
double argus_slope(const double *y, size_t n);

/* ---- density.c --------------------------------------------------------- */

/* Gaussian KDE on a binned grid by FFT.  `grid` points lo + i (hi - lo)/(n_grid - 1); n_grid a power of two.
 * weights may be NULL.  density integrates to 1.  -1: no memory or n == 0. */
int argus_kde(const double *x, const double *weights, size_t n, double bandwidth, double lo,
              double hi, double *density, size_t n_grid);
/* Improved Sheather-Jones (Botev, Grotowski, Kroese 2010) on a binned grid; falls back to
 * 1.06 min(sd, IQR/1.34) n^(-1/5) when it finds no root.  Does not over-smooth mixtures. */
double argus_bandwidth(const double *x, size_t n);

struct argus_mode { /* one cluster of durations */
    uint64_t count;
    int64_t sum, min, max;
    int64_t p50, p99;
};
/* Cut n durations (ns, > 0) into modes at the valleys of their log density: at least 3 samples in each of the two
 * adjacent modes and a valley below `depth` (e.g. 0.8) of the lower peak.  Sorts `x`.  Returns the number of modes
 * written (1..max_modes), in order of duration; 0 when n == 0. */
size_t argus_modes(int64_t *x, size_t n, double depth, struct argus_mode *modes, size_t max_modes);

/* ---- wasserstein.c ----------------------------------------------------- */

/* W1 between two weighted samples (scipy.stats.wasserstein_distance).  Weights may be NULL. */
double argus_w1_samples(const double *x, const double *wx, size_t nx, const double *y,
                        const double *wy, size_t ny);
/* Quantile function of a log-normal mixture (mu = ln p50, sigma = (ln p99 - ln p50)/2.326): out[i] is the quantile
 * at (i + 0.5)/n_out, ns. */
int argus_mixture_quantiles(const struct argus_mode *modes, size_t n_modes, double *out,
                            size_t n_out);
/* Mean W1 of each of n ranks to all others from their quantile tables q[rank * g + i] (g quantiles), in
 * O(g n log n): per quantile, sorted prefix sums.  `mean_w1` and `signed_mean` (mean difference, + = slower) have n
 * elements. */
int argus_w1_mean(const double *q, size_t n, size_t g, double *mean_w1, double *signed_mean);
double argus_w1_quantiles(const double *a, const double *b, size_t g);

/* ---- changepoint.c ----------------------------------------------------- */

enum argus_change_kind {
    ARGUS_CHANGE_NONE = 0,
    ARGUS_CHANGE_STEP,    /* shift that lasts to the end */
    ARGUS_CHANGE_EPISODE, /* shift that recovered */
    ARGUS_CHANGE_RAMP,    /* drift */
    ARGUS_CHANGE_SPIKES,  /* shorter than min_length */
    ARGUS_CHANGE_CONSTANT /* above the reference from the first point (needs `reference`) */
};
struct argus_change {
    enum argus_change_kind kind;
    size_t onset;     /* first shifted point */
    size_t recovered; /* first point after the episode; n when it did not end */
    double before;    /* median before (or `reference`) */
    double after;     /* median of the shifted part */
    double ratio;     /* after / before */
};
/* Upward shift of a series (step times, lateness, ratios).  Robust two-sided scan on medians.  A shift counts from
 * `min_ratio` (1.10), or from 1.03 when it is significant and lasts >= 50 points; >= min_length (10) points long.
 * A jump begins where the series is above half of the way up.  Single spikes are never onsets.  `reference` > 0: a level known from elsewhere (peers), so that a series that is
 * high from its first point is found (CONSTANT); 0: none. */
struct argus_change argus_change_find(const double *y, size_t n, double min_ratio,
                                      size_t min_length, double reference);
/* Points > factor x the running median, as a periodic pattern: the most common distance between them, 0 when there is
 * none (fewer than 3 or irregular).  *count: how many. */
size_t argus_spike_period(const double *y, size_t n, double factor, size_t *count);

#endif /* ARGUS_STATS_H */
