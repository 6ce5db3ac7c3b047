/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our statistics on numbers from standard input, for a comparison with
 * another implementation (t5000): one request a line,
 *
 *   kde BANDWIDTH LO HI GRID X...     the density on the grid
 *   w1 NX X... NY Y...                the distance of two samples
 *   w1w NX X W... NY Y W...           of two weighted samples
 *   modes X...                        "count:p50" of each mode
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/stats.h"

#define MAX 100000
static double a[MAX], b[MAX], wa[MAX], wb[MAX];

static size_t take(char **at, double *x, double *w)
{
    size_t n = strtoul(*at, at, 10);

    for (size_t i = 0; i < n && i < MAX; i++) {
        x[i] = strtod(*at, at);
        if (w)
            w[i] = strtod(*at, at);
    }
    return n < MAX ? n : MAX;
}

static size_t take_rest(char *at, double *x)
{
    size_t n = 0;
    char *end;

    for (; n < MAX; n++, at = end) {
        x[n] = strtod(at, &end);
        if (end == at)
            break;
    }
    return n;
}

static int kde(char *at)
{
    double h = strtod(at, &at), lo = strtod(at, &at), hi = strtod(at, &at);
    size_t grid = strtoul(at, &at, 10), n = take_rest(at, a);

    if (grid > MAX || argus_kde(a, NULL, n, h, lo, hi, b, grid) < 0)
        return -1;
    for (size_t i = 0; i < grid; i++)
        printf("%.12g%c", b[i], i + 1 < grid ? ' ' : '\n');
    return 0;
}

static int modes(char *at)
{
    static int64_t x[MAX];
    struct argus_mode m[16];
    size_t n = take_rest(at, a);

    for (size_t i = 0; i < n; i++)
        x[i] = llround(a[i]);
    n = argus_modes(x, n, 0.8, m, 16);
    for (size_t i = 0; i < n; i++)
        printf("%" PRIu64 ":%" PRId64 "%c", m[i].count, m[i].p50, i + 1 < n ? ' ' : '\n');
    return n ? 0 : -1;
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    int rc = 0;

    while (rc == 0 && getline(&line, &size, stdin) > 0) {
        char *at = line + strcspn(line, " ");
        int weighted = !strncmp(line, "w1w ", 4);

        if (!strncmp(line, "kde ", 4)) {
            rc = kde(at);
        } else if (!strncmp(line, "modes ", 6)) {
            rc = modes(at);
        } else if (!strncmp(line, "w1", 2)) {
            size_t nx = take(&at, a, weighted ? wa : NULL), ny = take(&at, b, weighted ? wb : NULL);

            printf("%.12g\n",
                   argus_w1_samples(a, weighted ? wa : NULL, nx, b, weighted ? wb : NULL, ny));
        } else {
            rc = -1;
        }
    }
    free(line);
    return rc ? 1 : 0;
}
