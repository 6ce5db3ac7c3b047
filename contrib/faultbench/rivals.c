/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that others publish or use by custom, from their formulas, on the same
 * jobs.  They see the raw events of every rank, which is more than most of
 * them get in the field.
 *   NVRx: score = sum w_k min_r(med_k) / med_k, straggler below 0.75.
 *   HTA: communication kernel whose relative start varies most; its most frequent last starter.
 *   Inspector: bus bandwidth from kernel time, waiting included.
 *   ARGUS paper: mean W1 to the others, above Q3 + 1.5 IQR.
 */
#include <argus/record.h>
#include <argus/timeline.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/bench.h"
#include "contrib/faultbench/internal.h"

static const char *const rule_names[FB_RULE_COUNT] = {
    "slowest-step", "z>=2", "cv>=0.15", "w1+iqr", "nvrx-0.75", "hta-last", "busbw<0.8"};

const char *fb_rule_name(enum fb_rule rule)
{
    return rule_names[rule];
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double middle(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), by_value);
    return n == 0 ? NAN : n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static int largest(const double *x, int n)
{
    int best = 0;

    for (int i = 1; i < n; i++) {
        if (x[i] > x[best])
            best = i;
    }
    return best;
}

static void moments(const double *x, int n, double *mean, double *sd)
{
    double s = 0, q = 0;

    for (int i = 0; i < n; i++)
        s += x[i];
    *mean = s / n;
    for (int i = 0; i < n; i++)
        q += (x[i] - *mean) * (x[i] - *mean);
    *sd = n > 1 ? sqrt(q / (n - 1)) : 0;
}

static int slowest_step(const struct fb_result *r)
{
    int n = r->spec.world, steps = r->spec.steps;
    double *x = calloc((size_t)n, sizeof(*x));
    int best;

    if (!x)
        abort();
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < steps; k++)
            x[i] += (double)(r->step_end[i * steps + k] - r->step_start[i * steps + k]);
    }
    best = largest(x, n);
    free(x);
    return best;
}

static int by_compute(const struct fb_result *r, enum fb_rule rule)
{
    int n = r->spec.world, best;
    double *x = calloc((size_t)n, sizeof(*x)), mean, sd;

    if (!x)
        abort();
    for (int i = 0; i < n; i++) {
        for (size_t j = 0; j < r->events[i].n; j++) {
            if (r->classes[r->events[i].v[j].cls].kind == ARGUS_CLASS_COMPUTE)
                x[i] += (double)r->events[i].v[j].duration;
        }
    }
    moments(x, n, &mean, &sd);
    best = largest(x, n);
    if (rule == FB_RULE_Z2 ? !(sd > 0 && (x[best] - mean) / sd >= 2.0) : !(sd / mean >= 0.15))
        best = FB_BLAME_NOBODY;
    free(x);
    return best;
}

/* Durations of class c on rank i, sorted; *n of them. */
static double *durations(const struct fb_result *r, int i, uint32_t c, size_t *n)
{
    const struct fb_rank_events *e = &r->events[i];
    double *x = malloc((e->n + 1) * sizeof(*x));

    if (!x)
        abort();
    *n = 0;
    for (size_t j = 0; j < e->n; j++) {
        if (e->v[j].cls == c)
            x[(*n)++] = (double)e->v[j].duration;
    }
    qsort(x, *n, sizeof(*x), by_value);
    return x;
}

static double w1(const double *a, size_t na, const double *b, size_t nb)
{
    double d = 0;

    for (int i = 0; i < 64; i++)
        d += fabs(a[i * na / 64] - b[i * nb / 64]);
    return d / 64;
}

static int w1_iqr(const struct fb_result *r)
{
    int n = r->spec.world, blamed = FB_BLAME_NOBODY;
    double heaviest = 0, *score = calloc((size_t)n, sizeof(*score)), *sorted, limit;
    double **x = calloc((size_t)n, sizeof(*x));
    size_t *count = calloc((size_t)n, sizeof(*count));
    uint32_t cls = 0;
    double *total = calloc(r->n_classes + 1, sizeof(*total));

    sorted = malloc((size_t)n * sizeof(*sorted));
    if (!score || !x || !count || !sorted || !total)
        abort();
    for (size_t j = 0; j < r->events[0].n; j++)
        total[r->events[0].v[j].cls] += (double)r->events[0].v[j].duration;
    for (uint32_t c = 0; c < r->n_classes; c++) {
        if (r->classes[c].kind == ARGUS_CLASS_COMPUTE && total[c] > heaviest) {
            heaviest = total[c];
            cls = c;
        }
    }
    for (int i = 0; i < n; i++)
        x[i] = durations(r, i, cls, &count[i]);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            if (i != j && count[i] && count[j])
                score[i] += w1(x[i], count[i], x[j], count[j]) / (n - 1);
        }
        sorted[i] = score[i];
    }
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    limit = sorted[n * 3 / 4] + 1.5 * (sorted[n * 3 / 4] - sorted[n / 4]);
    for (int i = 0; i < n; i++) {
        if (score[i] > limit)
            blamed = blamed == FB_BLAME_NOBODY ? i : FB_BLAME_SEVERAL;
        free(x[i]);
    }
    free(x);
    free(count);
    free(score);
    free(sorted);
    free(total);
    return blamed;
}

/* Durations of a rank by class: those of class c lie from first[c] to first[c + 1], not sorted. */
static void by_class(const struct fb_result *r, int i, double *x, size_t *first, size_t *fill)
{
    const struct fb_rank_events *e = &r->events[i];

    memset(first, 0, (r->n_classes + 1) * sizeof(*first));
    for (size_t j = 0; j < e->n; j++)
        first[e->v[j].cls + 1]++;
    for (size_t c = 0; c < r->n_classes; c++)
        fill[c] = first[c + 1] += first[c];
    for (size_t j = 0; j < e->n; j++)
        x[--fill[e->v[j].cls]] = (double)e->v[j].duration;
}

struct nvrx {
    uint32_t *cls; /* compute classes that every rank runs */
    size_t n;
    double *med, *sum; /* [class][rank] */
};

/* Median and sum of each compute class on each rank; a class that a rank lacks has none. */
static void nvrx_read(const struct fb_result *r, struct nvrx *v)
{
    size_t world = (size_t)r->spec.world, most = 0, kept = 0;
    size_t *first = calloc(r->n_classes + 2, sizeof(*first)),
           *fill = calloc(r->n_classes + 1, sizeof(*fill));
    double *x;

    for (size_t i = 0; i < world; i++)
        most = r->events[i].n > most ? r->events[i].n : most;
    x = malloc((most + 1) * sizeof(*x));
    v->cls = malloc((r->n_classes + 1) * sizeof(*v->cls));
    if (!first || !fill || !x || !v->cls)
        abort();
    by_class(r, 0, x, first, fill);
    for (uint32_t c = 0; c < r->n_classes; c++) {
        if (r->classes[c].kind == ARGUS_CLASS_COMPUTE && first[c + 1] > first[c])
            v->cls[kept++] = c;
    }
    v->n = kept;
    v->med = calloc(kept * world + 1, sizeof(*v->med));
    v->sum = calloc(kept * world + 1, sizeof(*v->sum));
    if (!v->med || !v->sum)
        abort();
    for (size_t i = 0; i < world; i++) {
        by_class(r, (int)i, x, first, fill);
        for (size_t k = 0; k < kept; k++) {
            size_t n = first[v->cls[k] + 1] - first[v->cls[k]];
            double *own = x + first[v->cls[k]];

            for (size_t j = 0; j < n; j++)
                v->sum[k * world + i] += own[j];
            v->med[k * world + i] = middle(own, n);
        }
    }
    free(first);
    free(fill);
    free(x);
}

static int nvrx(const struct fb_result *r)
{
    size_t n = (size_t)r->spec.world;
    int blamed = FB_BLAME_NOBODY;
    double *score = calloc(n, sizeof(*score)), *weight = calloc(n, sizeof(*weight));
    struct nvrx v = {0};

    if (!score || !weight)
        abort();
    nvrx_read(r, &v);
    for (size_t k = 0; k < v.n; k++) {
        const double *med = v.med + k * n, *sum = v.sum + k * n;
        double ref = INFINITY;
        int everywhere = 1;

        for (size_t i = 0; i < n; i++) {
            everywhere &= !isnan(med[i]);
            if (med[i] < ref)
                ref = med[i];
        }
        for (size_t i = 0; i < n && everywhere; i++) {
            score[i] += sum[i] * ref / med[i];
            weight[i] += sum[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (weight[i] > 0 && score[i] / weight[i] < 0.75)
            blamed = blamed == FB_BLAME_NOBODY ? (int)i : FB_BLAME_SEVERAL;
    }
    free(score);
    free(weight);
    free(v.cls);
    free(v.med);
    free(v.sum);
    return blamed;
}

#define HTA_NAMES 16

/* Last start of each (kernel name, stream) by step and rank: at[name][step][rank]. */
static int hta_starts(const struct fb_result *r, double *at)
{
    const char *name[HTA_NAMES];
    int stream[HTA_NAMES], names = 0, n = r->spec.world, steps = r->spec.steps;

    for (int i = 0; i < n; i++) {
        size_t j = 0;

        for (int step = 0; step < steps; step++) {
            for (; j < r->events[i].n && r->events[i].v[j].start < r->step_end[i * steps + step];
                 j++) {
                const struct fb_event *e = &r->events[i].v[j];
                int k = 0;

                if (r->classes[e->cls].kind != ARGUS_CLASS_COMM)
                    continue;
                while (k < names && (name[k] != r->classes[e->cls].name || stream[k] != e->stream))
                    k++;
                if (k == HTA_NAMES)
                    continue;
                if (k == names) {
                    name[names] = r->classes[e->cls].name;
                    stream[names++] = e->stream;
                }
                at[((size_t)k * (size_t)steps + (size_t)step) * (size_t)n + (size_t)i] =
                    (double)(e->start - r->step_start[step]);
            }
        }
    }
    return names;
}

static int hta(const struct fb_result *r)
{
    int n = r->spec.world, steps = r->spec.steps, best;
    size_t block = (size_t)steps * (size_t)n;
    double *at = calloc(block * HTA_NAMES, sizeof(*at)), widest = -1;
    double *count = calloc((size_t)n, sizeof(*count));
    int names, chosen = 0;

    if (!at || !count)
        abort();
    names = hta_starts(r, at);
    for (int k = 0; k < names; k++) {
        double mean, sd, sum = 0;

        for (int step = 0; step < steps; step++) {
            moments(at + (size_t)k * block + (size_t)step * (size_t)n, n, &mean, &sd);
            sum += sd;
        }
        if (sum > widest) {
            widest = sum;
            chosen = k;
        }
    }
    for (int step = 0; step < steps; step++)
        count[largest(at + (size_t)chosen * block + (size_t)step * (size_t)n, n)] += 1;
    best = largest(count, n);
    free(at);
    free(count);
    return best;
}

static int busbw(const struct fb_result *r)
{
    size_t n = r->n_groups;
    double *bw = calloc(n + 1, sizeof(*bw)), *time = calloc(n + 1, sizeof(*time)),
           *all = calloc(n + 1, sizeof(*all)), reference;
    int blamed = FB_BLAME_NOBODY;
    size_t k = 0;

    if (!bw || !time || !all)
        abort();
    for (int i = 0; i < r->spec.world; i++) {
        for (size_t j = 0; j < r->events[i].n; j++) {
            const struct fb_class *c = &r->classes[r->events[i].v[j].cls];

            if (c->kind != ARGUS_CLASS_COMM || c->bytes < 8192)
                continue;
            bw[c->group] += (double)c->bytes;
            time[c->group] += (double)r->events[i].v[j].duration;
        }
    }
    for (size_t g = 0; g < n; g++) {
        if (time[g] > 0)
            all[k++] = bw[g] = bw[g] / time[g];
    }
    reference = middle(all, k);
    for (size_t g = 0; g < n; g++) {
        if (time[g] > 0 && bw[g] < 0.8 * reference)
            blamed = blamed == FB_BLAME_NOBODY ? FB_BLAME_GROUP(g) : FB_BLAME_SEVERAL;
    }
    free(bw);
    free(time);
    free(all);
    return blamed;
}

int fb_rule_blame(const struct fb_result *r, enum fb_rule rule)
{
    switch (rule) {
    case FB_RULE_SLOWEST_STEP:
        return slowest_step(r);
    case FB_RULE_Z2:
    case FB_RULE_CV15:
        return by_compute(r, rule);
    case FB_RULE_W1_IQR:
        return w1_iqr(r);
    case FB_RULE_NVRX:
        return nvrx(r);
    case FB_RULE_HTA:
        return hta(r);
    default:
        return busbw(r);
    }
}
