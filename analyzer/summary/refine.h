/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters cut further until two percentiles each tell their durations.
 *
 * A reader rebuilds a cluster as a log-normal from its p50 and p99.  For what
 * is not log-normal (waits spread evenly, long tails, a coarse clock) that can
 * be far off although there is no valley to cut at.  Then the fewest parts are
 * looked for that come within 1.5 % of the median (W1); what is cut already
 * stays cut.
 *
 * The search is exact (dynamic programming) over a bounded number of places.
 * They lie densest where an optimal quantiser of the distribution would have
 * its levels; for W1 that is the square root of the density (Panter and Dite
 * 1951 for squares; Graf and Luschgy 2000 for any power).
 */
#ifndef ARGUS_SUMMARY_REFINE_H
#define ARGUS_SUMMARY_REFINE_H

#include "analyzer/summary/hist.h"

#define ARGUS_REFINE_MAX 64u /* parts */

/* n sorted bins, part i from first[i] to before first[i + 1]; n_parts of them, room for max_parts.
 * Returns how many there are then, at most max_parts; the same where nothing is to be gained or
 * there is no memory. */
size_t argus_refine(const struct argus_hist_bin *b, size_t n, size_t *first, size_t n_parts,
                    size_t max_parts);

/* hist.c: the k-th duration (0..) of sorted bins. */
int64_t argus_hist_value_at(const struct argus_hist_bin *b, uint64_t k);
int64_t argus_hist_bin_min(const struct argus_hist_bin *b);
int64_t argus_hist_bin_max(const struct argus_hist_bin *b);

#endif /* ARGUS_SUMMARY_REFINE_H */
