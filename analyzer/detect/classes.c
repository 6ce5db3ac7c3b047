/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels are slower: the class-by-class view behind a slow rank. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/compute.h"
#include "analyzer/stats/stats.h"

#define MIN_COUNT 5     /* calls in the windows looked at */
#define MIN_SHARE 0.002 /* of the compute time */
#define MIN_CLASSES 3
#define MIN_AGREEMENT 0.8
#define MIN_COMPARED 0.5 /* of the compute time, where the rank has other work than its peers */

void argus_class_views_clear(struct argus_class_views *v)
{
    free(v->items);
    memset(v, 0, sizeof(*v));
}

/* The windows of one rank that say something about [first, end): those that lie (nearly) whole in
 * it; where there are none, those that overlap it most.  *covered: how much of them it is. */
struct choice {
    double least; /* share from which a window counts */
    double covered;
};

static struct choice choose(const struct argus_model_rank *r, int first, int end)
{
    struct choice c = {0.9, 0};
    double best = 0, sum = 0;
    int n = 0;

    for (int w = 0; w < r->n_windows; w++) {
        double f = argus_rank_window_share(r, w, first, end);

        best = f > best ? f : best;
    }
    if (best < c.least)
        c.least = best > 0 ? 0.8 * best : 2;
    for (int w = 0; w < r->n_windows; w++) {
        double f = argus_rank_window_share(r, w, first, end);

        if (f >= c.least) {
            sum += f;
            n++;
        }
    }
    c.covered = n ? sum / n : 0;
    if (c.covered > 0.9)
        c.covered = 1;
    return c;
}

double argus_class_covered(const struct argus_model_rank *r, int first, int end)
{
    return choose(r, first, end).covered;
}

struct argus_class_time argus_class_time_in(const struct argus_model_rank *r,
                                            const struct argus_rank_class *c, int first, int end)
{
    struct choice choice = choose(r, first, end);
    struct argus_class_time t = {.typical = NAN};
    double x = 0;

    for (int w = 0; w < r->n_windows; w++) {
        if (argus_rank_window_share(r, w, first, end) < choice.least || isnan(c->typical[w]) ||
            !(c->count[w] > 0))
            continue;
        x += (double)c->typical[w] * (double)c->count[w];
        t.count += (double)c->count[w];
        t.sum += (double)c->sum[w];
        t.tail = fmax(t.tail, (double)(c->p99[w] / c->typical[w]));
    }
    if (t.count > 0)
        t.typical = x / t.count;
    return t;
}

static double reference(const struct argus_model *m, const struct argus_cohort *c,
                        const struct argus_slow *slow, int kernel_class, double *ref_count,
                        double *ref_tail)
{
    int expert = m->kernel_classes[kernel_class].family == ARGUS_FAMILY_EXPERT &&
                 argus_cohort_replicas(c, m, slow->rank) > 0;
    double *x = malloc(3 * (c->n + 1) * sizeof(*x)), *counts = x + c->n + 1,
           *tails = counts + c->n + 1, median;
    size_t n = 0;

    if (!x)
        return NAN;
    for (size_t i = 0; i < c->n; i++) {
        const struct argus_model_rank *r = &m->ranks[c->ranks[i]];
        const struct argus_rank_class *k;
        struct argus_class_time t;

        if (c->ranks[i] == slow->rank || !(k = argus_rank_find_class(r, kernel_class)))
            continue;
        if (expert && !argus_same_shard(m, slow->rank, c->ranks[i]))
            continue;
        t = argus_class_time_in(r, k, slow->shift.first, slow->shift.end);
        x[n] = t.typical;
        counts[n] = t.count;
        tails[n] = t.tail;
        n += !isnan(t.typical);
    }
    median = argus_median_inplace(x, n);
    *ref_count = argus_median_inplace(counts, n);
    *ref_tail = argus_median_inplace(tails, n);
    free(x);
    return median;
}

/* Duration in the steps of the shift alone: other steps in the windows dilute it. */
static double undiluted(const struct argus_class_view *c, const struct argus_class_views *v)
{
    return c->ref + (c->x - c->ref) / v->covered;
}

static int is_slower(const struct argus_class_view *c, const struct argus_class_views *v,
                     const struct argus_slow *slow)
{
    return undiluted(c, v) / c->ref - 1 >= 0.4 * (slow->shift.ratio - 1);
}

static void judge(struct argus_class_views *v, const struct argus_slow *slow, double total)
{
    double slower_time = 0, compared = 0, excess = 0, score = 0, slower_excess = 0;
    double worst = 0, expected;

    v->worst = -1;
    for (size_t i = 0; i < v->n; i++) {
        struct argus_class_view *c = &v->items[i];
        double more = (c->x - c->ref) * c->count;
        double x = undiluted(c, v);

        compared += c->weight;
        score += c->weight * c->ref / (x > c->ref / 4 ? x : c->ref / 4);
        excess += more;
        if (is_slower(c, v, slow)) {
            slower_time += c->weight;
            slower_excess += more;
            v->slower++;
        }
        if (more > worst) {
            worst = more;
            v->worst = (int)i;
        }
    }
    if (!(compared > 0))
        return;
    v->score = score / compared;
    v->agreement = slower_time / compared;
    /* the excess that was measured in steps, diluted like the windows */
    expected = total * (1 - 1 / (1 + (slow->shift.ratio - 1) * v->covered));
    v->explained = expected > 0 ? excess / expected : 0;
    v->agreed = v->slower >= MIN_CLASSES || v->agreement >= MIN_AGREEMENT;
    /* one or two kinds of kernels that account for all of it: a variant, a shape, a library */
    if (!v->agreed && v->worst >= 0 && slower_excess >= 0.7 * excess && v->explained >= 0.5) {
        v->one_class = 1;
        v->agreed = 1;
    }
}

int argus_class_views(const struct argus_model *m, const struct argus_cohort *c,
                      struct argus_slow *slow)
{
    const struct argus_model_rank *r = &m->ranks[slow->rank];
    struct argus_class_views *v = &slow->views;
    double total = 0;

    memset(v, 0, sizeof(*v));
    v->worst = -1;
    v->items = calloc(r->n_classes + 1, sizeof(*v->items));
    if (!v->items)
        return 0;
    v->covered = argus_class_covered(r, slow->shift.first, slow->shift.end);
    for (size_t i = 0; i < r->n_classes && v->covered >= 0.1; i++) {
        struct argus_class_view *item = &v->items[v->n];
        int kernel_class = r->classes[i].kernel_class;
        struct argus_class_time t;

        if (m->kernel_classes[kernel_class].kind == ARGUS_CLASS_COPY)
            continue;
        item->kernel_class = kernel_class;
        t = argus_class_time_in(r, &r->classes[i], slow->shift.first, slow->shift.end);
        if (isnan(t.typical))
            continue;
        item->x = t.typical;
        item->count = t.count;
        item->tail = t.tail;
        total += t.sum;
        item->ref = reference(m, c, slow, kernel_class, &item->ref_count, &item->ref_tail);
        item->weight = t.sum;
        if (isnan(item->ref) || !(item->ref > 0) || item->count < MIN_COUNT)
            continue;
        v->n++;
    }
    for (size_t i = 0; i < v->n; i++)
        v->items[i].weight /= total;
    judge(v, slow, total);
    return 1;
}

int argus_class_views_alike(const struct argus_slow *slow)
{
    const struct argus_class_views *v = &slow->views;
    double compared = 0, slower_time = 0;
    int slower = 0;

    for (size_t i = 0; i < v->n; i++) {
        const struct argus_class_view *c = &v->items[i];

        compared += c->weight;
        if (is_slower(c, v, slow) && c->count >= 0.9 * c->ref_count) {
            slower_time += c->weight;
            slower++;
        }
    }
    return compared >= MIN_COMPARED && slower >= MIN_CLASSES &&
           slower_time >= MIN_AGREEMENT * compared;
}

/* Which kinds of kernels slow down tells what is wrong with the GPU. */
const char *argus_compute_subkind(const struct argus_class_views *v, const struct argus_model *m)
{
    double bound = 0, bound_ratio = 0, memory = 0, memory_ratio = 0, tails = 0, all = 0;

    if (!v->n)
        return NULL;
    if (v->one_class)
        return "one-class";
    for (size_t i = 0; i < v->n; i++) {
        const struct argus_class_view *c = &v->items[i];
        int family = m->kernel_classes[c->kernel_class].family;
        double ratio = c->x / c->ref;

        if (c->weight < MIN_SHARE)
            continue;
        all += c->weight;
        if (c->tail > 1.6 && c->tail > 1.5 * c->ref_tail)
            tails += c->weight;
        if (family == ARGUS_FAMILY_GEMM || family == ARGUS_FAMILY_ATTENTION ||
            family == ARGUS_FAMILY_EXPERT) {
            bound += c->weight;
            bound_ratio += c->weight * ratio;
        } else if (family == ARGUS_FAMILY_ELEMENTWISE || family == ARGUS_FAMILY_NORM ||
                   family == ARGUS_FAMILY_OPTIMIZER || family == ARGUS_FAMILY_EMBEDDING) {
            memory += c->weight;
            memory_ratio += c->weight * ratio;
        }
    }
    if (tails >= 0.6 * all)
        return "shared-gpu";
    if (bound > 0 && memory > 0) {
        double b = bound_ratio / bound - 1, y = memory_ratio / memory - 1;

        if (y > 0.01 && b < 0.25 * y)
            return "memory";
        if (b > 0.01 && y < 0.25 * b)
            return "compute-bound";
    }
    return "clock";
}

const char *argus_compute_phase(const struct argus_model *m, int rank, const struct argus_cohort *c,
                                int first, int end)
{
    static const struct {
        enum argus_column column;
        const char *name;
    } phases[] = {{ARGUS_COL_FORWARD, "forward"},
                  {ARGUS_COL_BACKWARD, "backward"},
                  {ARGUS_COL_OPTIMIZER, "optimizer"}};
    const char *best = NULL;
    double most = 0, sum = 0, known = 0;

    /* without marks only the optimizer is known by its kernels: that is no comparison */
    for (size_t p = 0; p < 3; p++)
        known += argus_model_rank_median(m, (size_t)rank, phases[p].column);
    if (known < 0.6 * argus_model_rank_median(m, (size_t)rank, ARGUS_COL_COMPUTE))
        return NULL;

    for (size_t p = 0; p < 3; p++) {
        struct argus_cohort phase;
        double excess = 0;

        if (!m->ranks[rank].col[phases[p].column] ||
            argus_cohort_init(&phase, m, c->ranks, c->n, phases[p].column))
            continue;
        for (int k = first; k < end; k++) {
            double own = m->use[k] ? (double)argus_rank_col(&m->ranks[rank], phase.column, k) : NAN;
            double d = own - argus_cohort_reference(&phase, m, rank, k);

            if (!isnan(d))
                excess += d;
        }
        argus_cohort_clear(&phase);
        sum += excess > 0 ? excess : 0;
        if (excess > most) {
            most = excess;
            best = phases[p].name;
        }
    }
    return most >= 0.4 * sum ? best : NULL;
}
