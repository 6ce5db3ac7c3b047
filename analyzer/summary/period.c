/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/summary/period.h"

#include <stdlib.h>
#include <string.h>

#define REPEATS 3u
#define LOOSE_REPEATS 4u
#define LOOSE_MATCH 0.95
#define LOOSE_MIN 20u /* tokens: below, 95 % would allow no difference at all */
#define CANDIDATES 16u

void argus_z_function(const uint32_t *s, size_t n, uint32_t *z)
{
    size_t left = 0, right = 0;

    if (!n)
        return;
    z[0] = (uint32_t)n;
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;

        if (i < right)
            k = z[i - left] < right - i ? z[i - left] : right - i;
        while (i + k < n && s[k] == s[i + k])
            k++;
        z[i] = (uint32_t)k;
        if (i + k > right) {
            left = i;
            right = i + k;
        }
    }
}

/* The newest period holds a mark.  `marks` are prefix sums, newest first. */
static int marked(const uint32_t *marks, size_t period)
{
    return !marks || marks[period] > 0;
}

/* Marks are few: a share of equal tokens says nothing about them.  Each period has as many. */
static int marked_alike(const uint32_t *marks, size_t period)
{
    for (size_t i = 0; marks && i < LOOSE_REPEATS; i++) {
        if (marks[(i + 1) * period] - marks[i * period] != marks[period] || !marks[period])
            return 0;
    }
    return 1;
}

static double match_share(const uint32_t *r, size_t n, size_t period)
{
    size_t equal = 0;

    for (size_t i = 0; i + period < n; i++)
        equal += r[i] == r[i + period];
    return n > period ? (double)equal / (double)(n - period) : 0.0;
}

/* Distances from the newest occurrence of each of the newest tokens to its earlier ones. */
static void find_loose(const uint32_t *r, size_t n, const uint32_t *marks, struct argus_period *out)
{
    size_t tried = 0;

    for (size_t p = LOOSE_MIN; p * LOOSE_REPEATS <= n && tried < CANDIDATES; p++) {
        size_t near = 0;
        double share;

        /* a cheap look before the count: most of the newest tokens must agree */
        for (size_t i = 0; i < LOOSE_MIN; i++)
            near += r[i] == r[i + p];
        if (near + 2 < LOOSE_MIN || !marked_alike(marks, p))
            continue;
        tried++;
        share = match_share(r, p * LOOSE_REPEATS, p);
        if (share >= LOOSE_MATCH) {
            out->period = p;
            out->covered = p * LOOSE_REPEATS;
            out->match = share;
            return;
        }
    }
}

int argus_period_find(const uint32_t *tokens, const uint8_t *mark, size_t n,
                      struct argus_period *out)
{
    uint32_t *r = NULL, *z = NULL, *marks = NULL;
    int rc = -1;

    memset(out, 0, sizeof(*out));
    if (n < REPEATS)
        return 0;
    r = malloc(n * sizeof(*r));
    z = malloc(n * sizeof(*z));
    marks = mark ? calloc(n + 1, sizeof(*marks)) : NULL;
    if (!r || !z || (mark && !marks))
        goto out;
    /* newest first: a period of the newest tokens is a prefix that repeats */
    for (size_t i = 0; i < n; i++) {
        r[i] = tokens[n - 1 - i];
        if (mark) {
            marks[i + 1] = marks[i] + (mark[n - 1 - i] != 0);
            r[i] = (r[i] << 1 | r[i] >> 31) ^ (mark[n - 1 - i] != 0);
        }
    }
    argus_z_function(r, n, z);
    for (size_t p = 1; p * REPEATS <= n; p++) {
        if (z[p] >= (REPEATS - 1) * p && marked(marks, p)) {
            out->period = p;
            out->covered = z[p] + p;
            out->match = 1.0;
            break;
        }
    }
    if (!out->period)
        find_loose(r, n, marks, out);
    rc = 0;
out:
    free(r);
    free(z);
    free(marks);
    return rc;
}
