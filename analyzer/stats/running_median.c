/* SPDX-License-Identifier: Apache-2.0 */
/* Medians of a window that moves over a series. */
#include <config.h>
#include <string.h>

#include "analyzer/stats/running_median.h"

/* Where x stands, or would stand, in a sorted window. */
static size_t place_in(const double *sorted, size_t n, double x)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (sorted[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The window stays sorted while it moves. */
void argus_running_medians(const double *y, size_t n, size_t half, double *sorted, double *out)
{
    size_t held = 0;

    for (size_t i = 0; i < n + half; i++) {
        if (i < n) {
            size_t at = place_in(sorted, held, y[i]);

            memmove(sorted + at + 1, sorted + at, (held - at) * sizeof(*sorted));
            sorted[at] = y[i];
            held++;
        }
        if (i > 2 * half && i - 2 * half - 1 < n) {
            size_t at = place_in(sorted, held, y[i - 2 * half - 1]);

            held--;
            memmove(sorted + at, sorted + at + 1, (held - at) * sizeof(*sorted));
        }
        if (i >= half)
            out[i - half] = (sorted[(held - 1) / 2] + sorted[held / 2]) / 2;
    }
}
