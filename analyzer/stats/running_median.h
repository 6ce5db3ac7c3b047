/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUS_STATS_RUNNING_MEDIAN_H
#define ARGUS_STATS_RUNNING_MEDIAN_H

#include <stddef.h>

/* out[i] = median of the points at most `half` from i; `sorted` has room for 2 half + 2 numbers. */
void argus_running_medians(const double *y, size_t n, size_t half, double *sorted, double *out);

#endif /* ARGUS_STATS_RUNNING_MEDIAN_H */
