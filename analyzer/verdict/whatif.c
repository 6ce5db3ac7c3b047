/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/stats.h"
#include "analyzer/verdict/whatif.h"

/* Local time of every rank in one step, and what the faults add to it. */
struct frame {
    double *local;
    double *minus;
};

static int waits_known(const struct argus_model *m)
{
    for (size_t c = 0; c < m->n_comm_classes; c++)
        if (m->comm_classes[c].matched && m->comm_classes[c].ranks > 1)
            return 1;
    return m->n_ranks <= 1;
}

static void subtract(const struct argus_model *m, const struct argus_evidence *e, int k,
                     double *minus)
{
    for (size_t h = 0; h < e->n_hit; h++)
        minus[e->hit[h]] += (double)e->excess[h * (size_t)m->n_steps + (size_t)k];
}

/* Slowest rank of step k when `minus` is taken away. */
static double slowest(const struct argus_model *m, const struct frame *f)
{
    double most = 0;

    for (size_t i = 0; i < m->n_ranks; i++) {
        double rest = f->local[i] - f->minus[i];

        if (rest > most)
            most = rest;
    }
    return most;
}

static void load(const struct argus_model *m, int k, struct frame *f)
{
    for (size_t i = 0; i < m->n_ranks; i++) {
        double v = (double)argus_rank_col(&m->ranks[i], ARGUS_COL_LOCAL, k);

        f->local[i] = isnan(v) ? 0 : v;
        f->minus[i] = 0;
    }
}

static double biggest(const struct argus_model *m, const struct frame *f)
{
    double most = 0;

    for (size_t i = 0; i < m->n_ranks; i++)
        most = f->minus[i] > most ? f->minus[i] : most;
    return most;
}

int argus_whatif_gain(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                      double *gain)
{
    struct frame f = {calloc(m->n_ranks + 1, sizeof(double)),
                      calloc(m->n_ranks + 1, sizeof(double))};
    int known = waits_known(m), rc = f.local && f.minus ? 0 : -1;

    for (int k = 0; k < m->n_steps && !rc; k++) {
        double before;

        gain[k] = 0;
        if (!m->use[k])
            continue;
        load(m, k, &f);
        before = slowest(m, &f);
        for (size_t i = 0; i < n; i++)
            subtract(m, e[i], k, f.minus);
        gain[k] = known ? before - slowest(m, &f) : biggest(m, &f);
    }
    free(f.local);
    free(f.minus);
    return rc;
}

/* Time of step k with only fault `i` left, and with none. */
static void price_step(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                       int k, int known, struct frame *f, double *only, double *ideal)
{
    double step = argus_model_step_time(m, k), before;

    load(m, k, f);
    before = slowest(m, f);
    for (size_t i = 0; i < n; i++)
        subtract(m, e[i], k, f->minus);
    *ideal = step - (known ? before - slowest(m, f) : biggest(m, f));
    for (size_t i = 0; i < n; i++) {
        for (size_t h = 0; h < e[i]->n_hit; h++)
            f->minus[e[i]->hit[h]] -= (double)e[i]->excess[h * (size_t)m->n_steps + (size_t)k];
        only[i] = step - (known ? before - slowest(m, f) : biggest(m, f));
        subtract(m, e[i], k, f->minus);
    }
}

int argus_whatif_price(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                       struct argus_cost *costs)
{
    struct frame f = {calloc(m->n_ranks + 1, sizeof(double)),
                      calloc(m->n_ranks + 1, sizeof(double))};
    double *only = calloc(3 * (n + 1), sizeof(double)), *with = only + n + 1,
           *without = with + n + 1;
    int known = waits_known(m), rc = f.local && f.minus && only ? 0 : -1;
    double total = 0;

    for (size_t i = 0; i < n; i++)
        costs[i] = (struct argus_cost){.slowdown = 1};
    for (int k = 0; k < m->n_steps && !rc; k++) {
        double ideal, step;

        if (!m->use[k])
            continue;
        step = argus_model_step_time(m, k);
        if (isnan(step))
            continue;
        total += step;
        price_step(m, e, n, k, known, &f, only, &ideal);
        if (ideal < 0.02 * step)
            ideal = 0.02 * step;
        for (size_t i = 0; i < n; i++) {
            int first = e[i]->onset > 0 ? e[i]->onset : 0;
            int end = e[i]->recovered >= 0 ? e[i]->recovered : m->n_steps;
            double lost = only[i] > ideal ? only[i] - ideal : 0;

            costs[i].share += lost;
            if (k < first || k >= end)
                continue;
            costs[i].steps++;
            costs[i].loss += lost;
            with[i] += ideal + lost;
            without[i] += ideal;
        }
    }
    for (size_t i = 0; i < n && !rc; i++) {
        costs[i].slowdown = without[i] > 0 ? with[i] / without[i] : 1;
        costs[i].loss = costs[i].steps ? costs[i].loss / costs[i].steps : 0;
        costs[i].share = total > 0 ? costs[i].share / total : 0;
    }
    free(only);
    free(f.local);
    free(f.minus);
    return rc;
}
