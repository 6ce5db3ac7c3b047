/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of ranks from the ends of their collectives. */
#include <config.h>
#include <argus/record.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/export.h"

#define ROUNDS 30
#define SETTLED_NS 10.0

static int by_call(const void *a, const void *b)
{
    const struct argus_call *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

void argus_calls_sort(struct argus_call *calls, size_t n)
{
    if (n)
        qsort(calls, n, sizeof(*calls), by_call);
}

struct argus_call *argus_calls_find(struct argus_call *calls, size_t n, uint64_t hash, uint32_t seq,
                                    uint32_t rank)
{
    struct argus_call key = {.hash = hash, .seq = seq, .rank = rank};

    return n ? bsearch(&key, calls, n, sizeof(key), by_call) : NULL;
}

size_t argus_calls_run(const struct argus_call *calls, size_t n, size_t first)
{
    size_t i = first + 1;

    while (i < n && calls[i].hash == calls[first].hash && calls[i].seq == calls[first].seq)
        i++;
    return i - first;
}

/* All ranks of these leave together. */
static int blocking(uint32_t func)
{
    return func == ARGUS_FUNC_ALLREDUCE || func == ARGUS_FUNC_ALLGATHER ||
           func == ARGUS_FUNC_REDUCESCATTER || func == ARGUS_FUNC_ALLTOALL ||
           func == ARGUS_FUNC_BARRIER || func == ARGUS_FUNC_SENDRECV;
}

static int usable(const struct argus_call *calls, size_t run)
{
    if (run < 2 || !blocking(calls[0].func))
        return 0;
    for (size_t i = 1; i < run; i++) {
        if (calls[i].func != calls[0].func || calls[i].rank == calls[i - 1].rank)
            return 0;
    }
    return 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

struct sample {
    int clock;
    double error; /* mean end of the call less this clock's */
};

static int by_clock(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;

    return x->clock - y->clock;
}

struct aligner {
    const struct argus_call *calls;
    size_t n;
    const int *clock; /* by rank */
    double *offset;   /* by clock */
    int64_t base;     /* keeps doubles small */
    struct sample *samples;
    double *values;
};

/* One sample a rank and call. */
static size_t collect(struct aligner *a, size_t *used)
{
    size_t m = 0;

    *used = 0;
    for (size_t i = 0, run; i < a->n; i += run) {
        double mean = 0;

        run = argus_calls_run(a->calls, a->n, i);
        if (!usable(a->calls + i, run))
            continue;
        ++*used;
        for (size_t k = i; k < i + run; k++)
            mean += (double)(a->calls[k].end - a->base) + a->offset[a->clock[a->calls[k].rank]];
        mean /= (double)run;
        for (size_t k = i; k < i + run; k++) {
            int c = a->clock[a->calls[k].rank];

            a->samples[m++] =
                (struct sample){c, mean - ((double)(a->calls[k].end - a->base) + a->offset[c])};
        }
    }
    return m;
}

/* Moves each clock by the median of its errors; returns the largest move. */
static double relax(struct aligner *a, size_t m)
{
    double most = 0;

    qsort(a->samples, m, sizeof(*a->samples), by_clock);
    for (size_t i = 0, k; i < m; i = k) {
        double move;

        for (k = i; k < m && a->samples[k].clock == a->samples[i].clock; k++)
            a->values[k - i] = a->samples[k].error;
        move = median(a->values, k - i);
        a->offset[a->samples[i].clock] += move;
        most = fabs(move) > most ? fabs(move) : most;
    }
    return most;
}

static int solve(struct aligner *a, struct argus_clocks *clocks)
{
    size_t m = 0;

    a->samples = malloc((a->n + 1) * sizeof(*a->samples));
    a->values = malloc((a->n + 1) * sizeof(*a->values));
    if (!a->samples || !a->values)
        return -1;
    for (int round = 0; round < ROUNDS; round++) {
        m = collect(a, &clocks->calls);
        if (!m || relax(a, m) < SETTLED_NS)
            break;
    }
    m = collect(a, &clocks->calls);
    for (size_t i = 0; i < m; i++)
        a->values[i] = fabs(a->samples[i].error);
    clocks->residual = m ? median(a->values, m) : 0;
    return 0;
}

int argus_clocks_align(const struct argus_call *calls, size_t n, const int *node, size_t n_ranks,
                       struct argus_clocks *clocks)
{
    struct aligner a = {.calls = calls, .n = n, .base = n ? calls[0].end : 0};
    int *clock = malloc((n_ranks + 1) * sizeof(*clock)), rc = -1;
    double mean = 0;

    memset(clocks, 0, sizeof(*clocks));
    clocks->offset = calloc(n_ranks + 1, sizeof(*clocks->offset));
    a.offset = calloc(n_ranks + 1, sizeof(*a.offset));
    a.clock = clock;
    clocks->n = n_ranks;
    if (!clock || !clocks->offset || !a.offset)
        goto out;
    for (size_t r = 0; r < n_ranks; r++) {
        clock[r] = (int)r;
        for (size_t q = 0; q < r && node[r] >= 0; q++) {
            if (node[q] == node[r]) {
                clock[r] = clock[q];
                break;
            }
        }
    }
    if (solve(&a, clocks) != 0)
        goto out;
    /* The job's mean stays where it is. */
    for (size_t r = 0; r < n_ranks; r++)
        mean += a.offset[clock[r]] / (double)n_ranks;
    for (size_t r = 0; r < n_ranks; r++)
        clocks->offset[r] = a.offset[clock[r]] - mean;
    rc = 0;
out:
    free(clock);
    free(a.offset);
    free(a.samples);
    free(a.values);
    return rc;
}

void argus_clocks_clear(struct argus_clocks *clocks)
{
    free(clocks->offset);
    memset(clocks, 0, sizeof(*clocks));
}
