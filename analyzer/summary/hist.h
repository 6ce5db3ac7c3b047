/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations of one class in one window: sparse histogram with bins of equal
 * width in log space (128 an octave, 0.5 to 0.8 % wide) that also keep their
 * exact count, sum, minimum and maximum.  Memory depends on how many bins are
 * hit, not on how many durations were added; cutting it at bin borders keeps
 * counts and sums exact.
 */
#ifndef ARGUS_SUMMARY_HIST_H
#define ARGUS_SUMMARY_HIST_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/stats/stats.h"

struct argus_hist_bin {
    uint32_t bin; /* number + 1; 0: free place */
    uint32_t count;
    int64_t sum;
    uint32_t min; /* above the lower border */
    uint32_t max;
};

struct argus_hist {              /* zeroed memory is an empty histogram */
    struct argus_hist_bin *bins; /* hash table, `capacity` a power of two */
    uint32_t capacity;
    uint32_t used;
    uint64_t count;
};

/* Negative durations count as 0.  -1: no memory; the duration is then not counted. */
int argus_hist_add(struct argus_hist *h, int64_t duration);
/* A bin as it is, in place of what there was of it. */
int argus_hist_put(struct argus_hist *h, const struct argus_hist_bin *bin);
int argus_hist_merge(struct argus_hist *h, const struct argus_hist *from);
/* Clusters of the durations, in order; at most max_modes; their counts and sums add up to the
 * histogram's.  0: empty; also 0 when there is no memory. */
size_t argus_hist_modes(const struct argus_hist *h, struct argus_mode *modes, size_t max_modes);
int64_t argus_hist_sum(const struct argus_hist *h);
/* Empty, keeping the memory for the next window. */
void argus_hist_reset(struct argus_hist *h);
void argus_hist_free(struct argus_hist *h);

uint32_t argus_hist_bin_of(int64_t duration);
int64_t argus_hist_bin_lower(uint32_t bin);

#endif /* ARGUS_SUMMARY_HIST_H */
