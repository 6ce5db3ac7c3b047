/* SPDX-License-Identifier: Apache-2.0 */
/* How much a rank has to do against others, apart from how fast it does it. */
#include <config.h>
#include <stdlib.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

/* Steps that `own` has, for each one of `r`. */
static double scale(const struct argus_model_rank *own, const struct argus_model_rank *r)
{
    return r->n_rows > 0 ? (double)own->n_rows / r->n_rows : 1;
}

/* Time of a rank in classes that come and go, those that the recorder pools among them: grids
 * that follow the data may be so many that most of them are rare. */
static double irregular(const struct argus_model *m, const struct argus_model_rank *r)
{
    double sum = r->pooled;

    for (size_t k = 0; k < r->n_classes; k++)
        if (m->kernel_classes[r->classes[k].kernel_class].kind != ARGUS_CLASS_COPY &&
            !argus_rank_class_regular(r, &r->classes[k]))
            for (int w = 0; w < r->n_windows; w++)
                sum += (double)r->classes[k].sum[w];
    return sum;
}

/* Calls and mean typical duration of a regular class; 0 calls: not run, or irregular. */
static double regular_calls(const struct argus_model_rank *r, int kernel_class, double *x)
{
    const struct argus_rank_class *k = argus_rank_find_class(r, kernel_class);
    double time = 0, calls = 0;

    *x = 0;
    if (!k || !argus_rank_class_regular(r, k))
        return 0;
    for (int w = 0; w < r->n_windows; w++) {
        calls += (double)k->count[w];
        time += isnan(k->typical[w]) ? 0 : (double)(k->count[w] * k->typical[w]);
    }
    *x = calls > 0 ? time / calls : 0;
    return calls;
}

void argus_work_of(const struct argus_model *m, const int *ranks, size_t n_ranks, int rank,
                   struct argus_work *work)
{
    const struct argus_model_rank *r = &m->ranks[rank];
    double *x = malloc(2 * (n_ranks + 1) * sizeof(*x)), *calls = x + n_ranks + 1;
    size_t n = 0;

    *work = (struct argus_work){0, 0, 0};
    for (size_t j = 0; x && j < n_ranks; j++)
        if (ranks[j] != rank)
            x[n++] = irregular(m, &m->ranks[ranks[j]]) * scale(r, &m->ranks[ranks[j]]);
    if (x && n) {
        work->usual = argus_median_inplace(x, n);
        work->amount = irregular(m, r) - work->usual;
    }
    for (int kc = 0; x && (size_t)kc < m->n_kernel_classes; kc++) {
        double own_x, own_calls, ref_x, ref_calls;

        if (m->kernel_classes[kc].kind == ARGUS_CLASS_COPY)
            continue;
        own_calls = regular_calls(r, kc, &own_x);
        n = 0;
        for (size_t j = 0; j < n_ranks; j++)
            if (ranks[j] != rank) {
                const struct argus_model_rank *o = &m->ranks[ranks[j]];

                calls[n] = regular_calls(o, kc, &x[n]) * scale(r, o);
                n++;
            }
        ref_calls = argus_median_inplace(calls, n);
        ref_x = argus_median_inplace(x, n);
        if (isnan(ref_calls))
            continue;
        work->usual += ref_calls * ref_x;
        if (ref_calls > 0 && ref_x > 0 && own_calls > 0) {
            work->speed += own_calls * (own_x - ref_x);
            work->amount += (own_calls - ref_calls) * ref_x;
        } else {
            work->amount += own_calls * own_x - ref_calls * ref_x;
        }
    }
    free(x);
}
