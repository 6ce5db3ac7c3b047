/* SPDX-License-Identifier: Apache-2.0 */
/* Do the spikes of a series come at a fixed distance? */
#include <config.h>
#include <stdlib.h>

#include "analyzer/stats/running_median.h"
#include "analyzer/stats/stats.h"

static int compare_sizes(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

size_t argus_spike_period(const double *y, size_t n, double factor, size_t *count)
{
    enum { HALF = 8 };
    double sorted[2 * HALF + 2], *median = NULL;
    size_t *distance = NULL, n_spikes = 0, last = 0, best = 0, best_votes = 0;
    int inside = 0;

    *count = 0;
    if (n == 0)
        return 0;
    distance = malloc(n * sizeof(*distance));
    median = malloc(n * sizeof(*median));
    if (!distance || !median)
        goto out;
    argus_running_medians(y, n, HALF, sorted, median);
    for (size_t i = 0; i < n; i++) {
        int above = y[i] > factor * median[i];

        if (above && !inside) {
            if (n_spikes++)
                distance[n_spikes - 2] = i - last;
            last = i;
        }
        inside = above;
    }
    *count = n_spikes;
    if (n_spikes >= 3) {
        size_t n_distances = n_spikes - 1;

        qsort(distance, n_distances, sizeof(*distance), compare_sizes);
        for (size_t k = 0; k < n_distances; k++) {
            /* One step or a twentieth off is the same period. */
            size_t d = distance[k], slack = d / 20 > 1 ? d / 20 : 1, votes = 0;

            for (size_t j = 0; j < n_distances; j++)
                votes += distance[j] + slack >= d && distance[j] <= d + slack;
            if (votes > best_votes ||
                (votes == best_votes && k > 0 && distance[k] == distance[k - 1])) {
                best_votes = votes;
                best = d;
            }
        }
        if (3 * best_votes < 2 * n_distances || best_votes < 2)
            best = 0;
    }
out:
    free(distance);
    free(median);
    return best;
}
