/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upward shifts of a series.
 *
 * 1. Winsorise: every point is drawn to within 3 deviations of its running
 *    median, so that spikes cannot pull a level.
 * 2. Cut into levels by optimal partitioning with pruning (Killick, Fearnhead,
 *    Eckley, "Optimal detection of changepoints with a linear computational
 *    cost", JASA 107, 2012), squared error, penalty in units of the long-run
 *    variance: the noise of neighbouring points says too little when the
 *    series wanders.
 * 3. The shift is the run of levels above the level before it that costs the
 *    most; it is tested on medians of the untouched points.
 * 4. A line that explains the rise better than a jump makes it a ramp.
 */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/running_median.h"
#include "analyzer/stats/stats.h"

#define SMALL_RATIO 1.03   /* smallest shift that counts when it lasts */
#define SMALL_LENGTH 50    /* ... this many points */
#define SIGNIFICANT_Z 5.0  /* of a difference of medians */
#define WINSOR 3.0         /* deviations */
#define START_LENGTH 3     /* points before a shift that tell it from one that was always there */
#define PENALTY 3.0        /* x ln(n) x variance for every further level */
#define WANDER_BLOCKS 16   /* blocks that it takes to tell wandering from shifts */
#define WANDER_UNKNOWN 3.0 /* ... and the variance's factor with fewer */
#define BLOCKS_SMALL 60    /* up to three times as many points are cut as they are */
#define BLOCKS 2048        /* points that are cut at most */
#define MEDIAN_DEVIATION 1.4826
#define MEDIAN_VARIANCE 1.5708 /* pi/2: variance of a median against a mean */

struct level {
    size_t first, end; /* [first, end) */
    double median;
};

struct scan {
    const double *y; /* untouched */
    double *w;       /* winsorised */
    double *scratch;
    size_t n;
    size_t min_length;
    double variance; /* long-run variance of one point */
};

static double median_of(const struct scan *s, size_t first, size_t end)
{
    memcpy(s->scratch, s->y + first, (end - first) * sizeof(double));
    return argus_median_inplace(s->scratch, end - first);
}

/* Deviation of neighbouring points: immune to levels and slow drift. */
static double local_sigma(const double *y, size_t n, double *scratch)
{
    for (size_t i = 1; i < n; i++)
        scratch[i - 1] = fabs(y[i] - y[i - 1]);
    return n < 2 ? 0 : MEDIAN_DEVIATION * argus_median_inplace(scratch, n - 1) / M_SQRT2;
}

static void winsorise(struct scan *s)
{
    double sigma = local_sigma(s->y, s->n, s->scratch), level = fabs(median_of(s, 0, s->n));

    /* A series without noise still has the resolution of a double. */
    sigma = sigma > 1e-9 * level ? sigma : 1e-9 * level;
    argus_running_medians(s->y, s->n, s->min_length, s->scratch, s->w);
    for (size_t i = 0; i < s->n; i++)
        s->w[i] = fmin(fmax(s->y[i], s->w[i] - WINSOR * sigma), s->w[i] + WINSOR * sigma);
    s->variance = sigma * sigma;
}

/* Blocks differ by more than their points' noise when the series wanders: the larger of the two counts.  Second
 * differences, so that neither a level nor a straight drift looks like wandering; with few blocks a shift would
 * itself be most of them, and a fixed allowance stands in (long-run variance at a correlation of 0.5). */
static void long_run_variance(struct scan *s)
{
    size_t length = s->min_length, blocks = s->n / length;
    double *mean, v;

    if (blocks < WANDER_BLOCKS || !(mean = malloc(blocks * sizeof(*mean)))) {
        s->variance *= WANDER_UNKNOWN;
        return;
    }
    for (size_t b = 0; b < blocks; b++) {
        mean[b] = 0;
        for (size_t i = 0; i < length; i++)
            mean[b] += s->w[b * length + i] / (double)length;
    }
    for (size_t b = 1; b + 1 < blocks; b++)
        s->scratch[b - 1] = fabs(mean[b + 1] - 2 * mean[b] + mean[b - 1]);
    v = MEDIAN_DEVIATION * argus_median_inplace(s->scratch, blocks - 2);
    v = v * v / 6 * (double)length;
    s->variance = v > s->variance ? v : s->variance;
    free(mean);
}

/* ---- levels ------------------------------------------------------------- */

static double segment_cost(const double *sum, const double *square, size_t first, size_t end)
{
    double total = sum[end] - sum[first];

    return square[end] - square[first] - total * total / (double)(end - first);
}

/* Ends of the levels of w in `cut` (ascending, the last is n); returns how many.  0: no memory. */
static size_t partition(const double *w, size_t n, size_t shortest, double penalty, size_t *cut)
{
    double *memory = malloc(3 * (n + 1) * sizeof(*memory)), *sum = memory, *square, *best, centre;
    size_t *from = malloc((n + 1) * sizeof(*from)), *open = malloc((n + 1) * sizeof(*open));
    size_t n_open = 0, n_cuts = 0;

    if (!memory || !from || !open)
        goto out;
    square = sum + n + 1;
    best = square + n + 1;
    centre = w[0];
    sum[0] = square[0] = 0;
    for (size_t i = 0; i < n; i++) {
        sum[i + 1] = sum[i] + (w[i] - centre);
        square[i + 1] = square[i] + (w[i] - centre) * (w[i] - centre);
    }
    best[0] = -penalty;
    from[0] = 0;
    for (size_t end = 1; end <= n; end++) {
        size_t kept = 0;

        best[end] = INFINITY;
        from[end] = 0;
        if (end < shortest)
            continue;
        open[n_open++] = end - shortest;
        for (size_t k = 0; k < n_open; k++) {
            double c = best[open[k]] + segment_cost(sum, square, open[k], end);

            if (c + penalty < best[end]) {
                best[end] = c + penalty;
                from[end] = open[k];
            }
        }
        /* A start that is already worse than the best end can never win again. */
        for (size_t k = 0; k < n_open; k++)
            if (best[open[k]] + segment_cost(sum, square, open[k], end) <= best[end])
                open[kept++] = open[k];
        n_open = kept;
    }
    for (size_t end = n; end > 0; end = from[end])
        n_cuts++;
    for (size_t end = n, k = n_cuts; end > 0; end = from[end])
        cut[--k] = end;
out:
    free(memory);
    free(from);
    free(open);
    return n_cuts;
}

/* The best place for the boundary between two neighbours, on the points themselves. */
static size_t refine(const struct scan *s, size_t first, size_t near, size_t end, size_t reach)
{
    size_t low = near > first + reach ? near - reach : first + 1;
    size_t high = near + reach < end ? near + reach : end - 1, best = near;
    double left = median_of(s, first, near), right = median_of(s, near, end);
    double least = INFINITY, cost = 0;

    for (size_t i = low; i <= high; i++)
        cost += (s->w[i] - right) * (s->w[i] - right);
    for (size_t i = low; i <= high; i++) {
        if (cost < least) {
            least = cost;
            best = i;
        }
        cost += (s->w[i] - left) * (s->w[i] - left) - (s->w[i] - right) * (s->w[i] - right);
    }
    return best;
}

/* The partition costs the square of its points.  Three in one lose nothing, for boundaries are refined on the points;
 * a very long series is cut coarser. */
static size_t block_length(const struct scan *s)
{
    size_t block = s->n > 3 * BLOCKS_SMALL ? s->min_length / 3 : 1;

    block = block ? block : 1;
    return s->n / block > BLOCKS ? (s->n + BLOCKS - 1) / BLOCKS : block;
}

static size_t find_levels(struct scan *s, struct level **levels)
{
    size_t block = block_length(s), n = s->n / block, n_cuts, shortest;
    size_t *cut = malloc((n + 1) * sizeof(*cut));
    double *w = malloc(n * sizeof(*w));

    *levels = NULL;
    if (!cut || !w) {
        n_cuts = 0;
        goto out;
    }
    /* Medians: a block across a boundary belongs to one side, it makes no level between them. */
    for (size_t b = 0; b < n; b++) {
        memcpy(s->scratch, s->w + b * block, block * sizeof(*w));
        w[b] = argus_median_inplace(s->scratch, block);
    }
    shortest = s->min_length / block > 1 ? s->min_length / block : 1;
    n_cuts = partition(w, n, shortest < n ? shortest : n,
                       PENALTY * log((double)n + 2) * s->variance / (double)block *
                           (block > 1 ? MEDIAN_VARIANCE : 1),
                       cut);
    *levels = n_cuts ? calloc(n_cuts, sizeof(**levels)) : NULL;
    if (!*levels) {
        n_cuts = 0;
        goto out;
    }
    for (size_t k = 0; k < n_cuts; k++) {
        (*levels)[k].first = k ? cut[k - 1] * block : 0;
        (*levels)[k].end = k + 1 < n_cuts ? cut[k] * block : s->n;
    }
    for (size_t k = 0; k + 1 < n_cuts; k++) {
        struct level *l = *levels + k;

        l[0].end = l[1].first =
            refine(s, l[0].first, l[0].end, l[1].end, s->min_length / 2 + block);
    }
    for (size_t k = 0; k < n_cuts; k++)
        (*levels)[k].median = median_of(s, (*levels)[k].first, (*levels)[k].end);
out:
    free(cut);
    free(w);
    return n_cuts;
}

/* ---- what the levels say ------------------------------------------------ */

static int counts(const struct scan *s, double before, size_t n_before, double after, size_t length,
                  double min_ratio)
{
    double z, ratio = after / before;

    if (!(before > 0) || !(ratio >= SMALL_RATIO) || length < s->min_length)
        return 0;
    if (ratio < min_ratio && length < SMALL_LENGTH)
        return 0;
    z = 1 / (double)length + (n_before ? 1 / (double)n_before : 0);
    z = (after - before) / sqrt(MEDIAN_VARIANCE * s->variance * z + 1e-300);
    return z >= SIGNIFICANT_Z;
}

/* The shift that begins with level k: it lasts while levels stay above half of the way up, and where it is a jump it
 * begins there, too. */
static struct argus_change shift_from(const struct scan *s, const struct level *l, size_t n_levels,
                                      size_t k, double before, size_t n_before, double min_ratio,
                                      int jump)
{
    struct argus_change c = {.kind = ARGUS_CHANGE_NONE, .onset = l[k].first};
    double peak = l[k].median;
    size_t last = k;

    for (size_t j = k + 1; j < n_levels; j++) {
        if (l[j].median < before + (peak - before) / 2)
            break;
        peak = l[j].median > peak ? l[j].median : peak;
        last = j;
    }
    c.recovered = l[last].end;
    c.before = before;
    c.after = median_of(s, c.onset, c.recovered);
    c.ratio = c.after / before;
    if (jump && l[k].median < before + (c.after - before) / 2)
        return c; /* not yet: it begins with a later level */
    if (counts(s, before, n_before, c.after, c.recovered - c.onset, min_ratio))
        c.kind = c.recovered == s->n ? ARGUS_CHANGE_STEP : ARGUS_CHANGE_EPISODE;
    return c;
}

static double cost_of(const struct argus_change *c)
{
    return c->kind == ARGUS_CHANGE_NONE
               ? 0
               : (c->after - c->before) * (double)(c->recovered - c->onset);
}

static struct argus_change costliest(const struct scan *s, const struct level *l, size_t n_levels,
                                     double min_ratio, double reference, int jump)
{
    struct argus_change best = {.kind = ARGUS_CHANGE_NONE};

    for (size_t k = 0; k < n_levels; k++) {
        struct argus_change c = {.kind = ARGUS_CHANGE_NONE};

        if (reference > 0) {
            c = shift_from(s, l, n_levels, k, reference, 0, min_ratio, jump);
            if (c.onset == 0 && c.kind == ARGUS_CHANGE_STEP)
                c.kind = ARGUS_CHANGE_CONSTANT;
        } else if (k > 0) {
            /* Before: everything that is not yet shifted, or the level next to it when the series fell before. */
            size_t first = k - 1;

            while (first > 0 && fabs(l[first - 1].median - l[k - 1].median) <
                                    (l[k].median - l[k - 1].median) / 2)
                first--;
            c = shift_from(s, l, n_levels, k, median_of(s, l[first].first, l[k].first),
                           l[k].first - l[first].first, min_ratio, jump);
        }
        if (cost_of(&c) > cost_of(&best))
            best = c;
    }
    return best;
}

/* Levels shorter than min_length are not found or not well, but a few points at the start that are not shifted yet say
 * that the shift began after them.  Returns its first point. */
static size_t start_of(const struct scan *s, const struct argus_change *c)
{
    double half = c->before + (c->after - c->before) / 2, z;
    size_t n = 0;

    if (c->onset >= s->min_length)
        return c->onset;
    while (n < 2 * s->min_length && n < c->recovered && s->y[n] < half)
        n++;
    if (n < START_LENGTH || c->recovered - n < s->min_length)
        return c->onset;
    z = MEDIAN_VARIANCE * s->variance * (1 / (double)n + 1 / (double)(c->recovered - n));
    z = (c->after - median_of(s, 0, n)) / sqrt(z + 1e-300);
    return z >= SIGNIFICANT_Z ? n : c->onset;
}

static void consider_start(const struct scan *s, struct argus_change *c)
{
    size_t start = start_of(s, c);

    if (c->kind == ARGUS_CHANGE_RAMP || start == c->onset)
        return;
    c->onset = start;
    c->after = median_of(s, start, c->recovered);
    c->ratio = c->after / c->before;
    if (c->kind == ARGUS_CHANGE_CONSTANT)
        c->kind = ARGUS_CHANGE_STEP;
}

/* ---- ramps -------------------------------------------------------------- */

/* Squared error of: `before` up to `a`, a straight rise to `top` at `b`, `top` from there. */
static double ramp_cost(const struct scan *s, double before, double top, size_t a, size_t b,
                        size_t end)
{
    double cost = 0;

    for (size_t i = 0; i < end; i++) {
        double level = i < a    ? before
                       : i >= b ? top
                                : before + (top - before) * (double)(i - a) / (double)(b - a);
        cost += (s->w[i] - level) * (s->w[i] - level);
    }
    return cost;
}

/* Is the rise gradual?  A jump and a rise are both fitted to the points up to the end of the shift. */
static void consider_ramp(const struct scan *s, struct argus_change *c)
{
    size_t length = c->recovered - c->onset,
           tail = length / 5 > s->min_length ? length / 5 : s->min_length;
    size_t stride = s->n / 32 + 1, begin, finish = 0;
    double top, jump, best = INFINITY;

    if (length < 2 * s->min_length ||
        (c->kind != ARGUS_CHANGE_STEP && c->kind != ARGUS_CHANGE_EPISODE))
        return;
    tail = tail < length ? tail : length;
    top = median_of(s, c->recovered - tail, c->recovered);
    jump = ramp_cost(s, c->before, c->after, c->onset, c->onset, c->recovered);
    begin = start_of(s, c);
    jump = fmin(jump, ramp_cost(s, c->before, c->after, begin, begin, c->recovered));
    for (size_t a = 0; a < c->recovered; a += stride) {
        for (size_t b = a + 2 * s->min_length; b < c->recovered + stride; b += stride) {
            size_t at = b < c->recovered ? b : c->recovered;
            double cost = at > a ? ramp_cost(s, c->before, top, a, at, c->recovered) : INFINITY;

            if (cost < best) {
                best = cost;
                begin = a;
                finish = at;
            }
        }
    }
    /* One parameter more than a jump; and a rise over fewer than two least lengths is a jump. */
    if (best + PENALTY * log((double)s->n) * s->variance < jump && best < 0.9 * jump &&
        finish - begin >= 2 * s->min_length) {
        c->kind = ARGUS_CHANGE_RAMP;
        c->onset = begin;
        c->after = median_of(s, c->onset, c->recovered);
        c->ratio = c->after / c->before;
    }
}

/* A ramp begins with its first stair, a jump with its highest. */
static int find_shift(const struct scan *s, const struct level *l, size_t n_levels,
                      double min_ratio, double reference, struct argus_change *c)
{
    struct argus_change rise = costliest(s, l, n_levels, min_ratio, reference, 0), jump;

    if (rise.kind == ARGUS_CHANGE_NONE)
        return 0;
    *c = rise;
    consider_ramp(s, c);
    if (c->kind == ARGUS_CHANGE_RAMP)
        return 1;
    jump = costliest(s, l, n_levels, min_ratio, reference, 1);
    if (jump.kind == ARGUS_CHANGE_NONE)
        return 1;
    *c = jump;
    if (reference > 0)
        consider_ramp(s, c);
    consider_start(s, c);
    return 1;
}

/* ---- spikes ------------------------------------------------------------- */

/* Points far above their own level: a long level that is high is no spike. */
static void consider_spikes(const struct scan *s, const struct level *l, size_t n_levels,
                            double min_ratio, struct argus_change *c)
{
    double noise = 2 * SIGNIFICANT_Z * sqrt(s->variance);
    size_t n_above = 0;

    for (size_t k = 0; k < n_levels; k++) {
        double limit = fmax(l[k].median * min_ratio, l[k].median + noise);

        for (size_t i = l[k].first; i < l[k].end && l[k].median > 0; i++) {
            if (s->y[i] <= limit)
                continue;
            if (n_above == 0) {
                c->onset = i;
                c->before = l[k].median;
            }
            s->scratch[n_above++] = s->y[i];
            if (c->onset + n_above == i + 1)
                c->recovered = i + 1;
        }
    }
    if (n_above == 0)
        return;
    c->kind = ARGUS_CHANGE_SPIKES;
    c->after = argus_median_inplace(s->scratch, n_above);
    c->ratio = c->after / c->before;
}

struct argus_change argus_change_find(const double *y, size_t n, double min_ratio,
                                      size_t min_length, double reference)
{
    struct argus_change c = {.kind = ARGUS_CHANGE_NONE,
                             .onset = n,
                             .recovered = n,
                             .before = NAN,
                             .after = NAN,
                             .ratio = NAN};
    struct scan s = {.y = y, .n = n, .min_length = min_length ? min_length : 1};
    struct level *levels = NULL;
    size_t n_levels;

    if (n == 0)
        return c;
    s.w = malloc(n * sizeof(*s.w));
    s.scratch = malloc((n + 2 * s.min_length + 2) * sizeof(*s.scratch));
    if (!s.w || !s.scratch)
        goto out;
    winsorise(&s);
    long_run_variance(&s);
    n_levels = find_levels(&s, &levels);
    if (n_levels && !find_shift(&s, levels, n_levels, min_ratio, reference, &c)) {
        c.before = c.after = median_of(&s, 0, n);
        c.ratio = 1;
        consider_spikes(&s, levels, n_levels, min_ratio, &c);
    }
out:
    free(levels);
    free(s.w);
    free(s.scratch);
    return c;
}
