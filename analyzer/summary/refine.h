/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters cut further until two percentiles each tell their durations.
 *
 * A reader rebuilds a cluster as a log-normal from its p50 and p99.  For what
 * is not log-normal (waits spread evenly, long tails) that can be far off
 * although there is no valley to cut at; then the worst cluster is cut where
 * that helps most, until the distance (W1) is below 1.5 % of the median.
 */
#ifndef ARGUS_SUMMARY_REFINE_H
#define ARGUS_SUMMARY_REFINE_H

#include "analyzer/summary/hist.h"

/* n sorted bins, part i from first[i] to before first[i + 1]; n_parts of them.  Returns how many there are
 * then, at most max_parts. */
size_t argus_refine(const struct argus_hist_bin *b, size_t n, size_t *first, size_t n_parts,
                    size_t max_parts);

/* hist.c: the k-th duration (0..) of sorted bins. */
int64_t argus_hist_value_at(const struct argus_hist_bin *b, uint64_t k);

#endif /* ARGUS_SUMMARY_REFINE_H */
