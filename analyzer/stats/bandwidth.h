/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the density estimators; not for use outside analyzer/stats. */
#ifndef ARGUS_STATS_BANDWIDTH_H
#define ARGUS_STATS_BANDWIDTH_H

#include <stddef.h>

/* Cosine coefficients c[k] = sum_i p[i] cos(pi k (i + 1/2) / n) of n (a power of two) bins; `work` has 2n places. */
void argus_dct(const double *p, size_t n, double *c, double *work);
/* Improved Sheather-Jones bandwidth as a share of the grid's width, from the squared cosine coefficients c[k]^2 of
 * the bins' probabilities and the number of distinct samples; NAN: no fixed point. */
double argus_bandwidth_isj(const double *c2, size_t n, double samples);

#endif /* ARGUS_STATS_BANDWIDTH_H */
