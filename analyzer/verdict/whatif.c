/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/stats.h"
#include "analyzer/verdict/replay.h"
#include "analyzer/verdict/whatif.h"

#define MIN_BEFORE 10 /* steps that measure what a step took before */
#define SAME_ONSET 5  /* faults that begin this close cannot be told apart by the step time */
#define LEAST_IDEAL 0.02
#define REPLAY_STEPS 6
#define REPLAY_RANKS 512 /* beyond that reading their events takes longer than the rest */

/* One step: time of every rank, and what the faults at hand add to it. */
struct frame {
    const struct argus_model *m;
    const struct argus_evidence *const *e;
    size_t n;
    double *own;
    double *minus;
    double whole; /* what the faults add to the step as a whole */
};

static float excess_of(const struct frame *f, size_t i, size_t h, int k)
{
    return f->e[i]->excess[h * (size_t)f->m->n_steps + (size_t)k];
}

/* The step as a whole loses what most of its ranks lose. */
static double whole_excess(const struct frame *f, size_t i, int k)
{
    return f->e[i]->n_hit ? (double)excess_of(f, i, 0, k) : 0;
}

static void load(struct frame *f, int k)
{
    for (size_t r = 0; r < f->m->n_ranks; r++) {
        const struct argus_model_rank *rank = &f->m->ranks[r];
        double v = (double)argus_rank_col(rank, ARGUS_COL_COMPUTE, k) +
                   (double)argus_rank_col(rank, ARGUS_COL_COPY, k);

        f->own[r] = isnan(v) ? 0 : v;
        f->minus[r] = 0;
    }
    f->whole = 0;
    for (size_t i = 0; i < f->n; i++)
        for (size_t h = 0; h < f->e[i]->n_hit && f->e[i]->outside == 1; h++)
            f->own[f->e[i]->hit[h]] += (double)excess_of(f, i, h, k);
}

static void take(struct frame *f, size_t i, int k, double sign)
{
    if (f->e[i]->outside == 2) {
        f->whole += sign * whole_excess(f, i, k);
        return;
    }
    for (size_t h = 0; h < f->e[i]->n_hit; h++)
        f->minus[f->e[i]->hit[h]] += sign * (double)excess_of(f, i, h, k);
}

static double slowest(const struct frame *f)
{
    double most = 0;

    for (size_t r = 0; r < f->m->n_ranks; r++)
        most = f->own[r] - f->minus[r] > most ? f->own[r] - f->minus[r] : most;
    return most - f->whole;
}

static int frame_init(struct frame *f, const struct argus_model *m,
                      const struct argus_evidence *const *e, size_t n)
{
    *f = (struct frame){.m = m, .e = e, .n = n};
    f->own = calloc(m->n_ranks + 1, sizeof(double));
    f->minus = calloc(m->n_ranks + 1, sizeof(double));
    return f->own && f->minus ? 0 : -1;
}

static void frame_clear(struct frame *f)
{
    free(f->own);
    free(f->minus);
}

static int begins(const struct argus_evidence *e)
{
    return e->onset > 0 ? e->onset : 0;
}

static int ends(const struct argus_model *m, const struct argus_evidence *e)
{
    return e->recovered >= 0 ? e->recovered : m->n_steps;
}

int argus_whatif_gain(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                      const struct argus_cost *const *costs, double *gain)
{
    struct frame f;
    int rc = frame_init(&f, m, e, n);

    for (int k = 0; k < m->n_steps && !rc; k++) {
        double before;

        gain[k] = 0;
        if (!m->use[k])
            continue;
        load(&f, k);
        before = slowest(&f);
        for (size_t i = 0; i < n; i++)
            take(&f, i, k, 1);
        gain[k] = before - slowest(&f);
        for (size_t i = 0; i < n; i++)
            gain[k] += k >= begins(e[i]) && k < ends(m, e[i]) ? costs[i]->hidden : 0;
    }
    frame_clear(&f);
    return rc;
}

/* Median step time inside and outside of [first, end), outside only before it and, for an episode,
 * after it; *n: points outside. */
static void around(const struct argus_model *m, const double *step, int first, int end,
                   double *inside, double *outside, size_t *n)
{
    double *in = malloc(2 * ((size_t)m->n_steps + 1) * sizeof(*in)), *out = in + m->n_steps + 1;
    size_t n_in = 0, n_out = 0;

    *inside = *outside = NAN;
    *n = 0;
    if (!in)
        return;
    for (int k = 0; k < m->n_steps; k++) {
        if (!m->use[k] || isnan(step[k]))
            continue;
        if (k >= first && k < end)
            in[n_in++] = step[k];
        else
            out[n_out++] = step[k];
    }
    *n = n_out;
    *inside = argus_median_inplace(in, n_in);
    *outside = argus_median_inplace(out, n_out);
    free(in);
}

/* Stalls that come now and then are priced step by step; only lasting shifts move the median. */
static int lasting(const struct argus_evidence *e)
{
    return e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER || e->kind == ARGUS_VERDICT_SLOW_LINK ||
           (e->pattern && !strcmp(e->pattern, "persistent") &&
            e->kind != ARGUS_VERDICT_UNIFORM_SLOWDOWN);
}

/* ns a step that the job itself measured; NAN: no measure. */
static double measured(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                       size_t i, const double *step)
{
    double inside, outside, lost;
    size_t points;

    if (e[i]->onset <= 0 || !lasting(e[i]) || (e[i]->pattern && !strcmp(e[i]->pattern, "ramp")))
        return NAN;
    for (size_t j = 0; j < n; j++)
        if (j != i && abs(begins(e[j]) - begins(e[i])) <= SAME_ONSET)
            return NAN;
    around(m, step, begins(e[i]), ends(m, e[i]), &inside, &outside, &points);
    if (points < MIN_BEFORE || isnan(inside))
        return NAN;
    lost = fmax(inside - outside, 0);
    return e[i]->most > 0 ? fmin(lost, e[i]->most) : lost;
}

/* Time of step k with only fault `i` left, with none, and without fault `i` alone. */
static void price_step(struct frame *f, int k, double step, double *only, double *ideal,
                       double *without)
{
    double before;

    load(f, k);
    before = slowest(f);
    for (size_t i = 0; i < f->n; i++) {
        take(f, i, k, 1);
        without[i] = step - (before - slowest(f));
        take(f, i, k, -1);
    }
    for (size_t i = 0; i < f->n; i++)
        take(f, i, k, 1);
    *ideal = step - (before - slowest(f));
    for (size_t i = 0; i < f->n; i++) {
        take(f, i, k, -1);
        only[i] = step - (before - slowest(f));
        take(f, i, k, 1);
    }
    if (*ideal < LEAST_IDEAL * step)
        *ideal = LEAST_IDEAL * step;
}

/* What the replays of kept steps say of one fault. */
struct replayed {
    double alone;    /* T / T without this fault */
    double slowdown; /* T(ideal with this fault) / T(ideal); NAN: nothing to replay */
};

static double ratio(double with, double without)
{
    return with > 0 && without > 0 ? fmax(with / without, 1) : NAN;
}

static argus_replay_t *replay_for(const struct argus_model *m, const struct argus_evidence *e)
{
    if (!argus_replay_can(e) || m->n_ranks > REPLAY_RANKS)
        return NULL;
    return argus_replay_create(m, begins(e), ends(m, e), REPLAY_STEPS, NULL);
}

/* First each fault alone; then, with those gone that matter, what each one would cost by itself. */
static int replay_all(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                      struct replayed *out)
{
    const struct argus_evidence **others = malloc((n + 1) * sizeof(*others));
    argus_replay_t **r = calloc(n + 1, sizeof(*r));
    int rc = others && r ? 0 : -1;

    for (size_t i = 0; i < n && !rc; i++) {
        double delays = e[i]->outside ? 1 : 0;

        out[i] = (struct replayed){NAN, NAN};
        if (!(r[i] = replay_for(m, e[i])))
            continue;
        out[i].alone = ratio(argus_replay_without(r[i], &e[i], 1, e[i], delays),
                             argus_replay_without(r[i], &e[i], 1, NULL, delays));
    }
    for (size_t i = 0; i < n && !rc; i++) {
        double delays = e[i]->outside ? 1 : 0;
        size_t kept = 0;

        if (!r[i])
            continue;
        for (size_t j = 0; j < n; j++)
            if (j == i || e[j]->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER ||
                out[j].alone >= m->keys.info)
                others[kept++] = e[j];
        out[i].slowdown = ratio(argus_replay_without(r[i], others, kept, e[i], delays),
                                argus_replay_without(r[i], others, kept, NULL, delays));
    }
    for (size_t i = 0; r && i < n; i++)
        argus_replay_destroy(r[i]);
    free(r);
    free(others);
    return rc;
}

/* Sums over steps of one fault. */
struct sums {
    double lost, lost_all, ideal;
    double step, without; /* as it was, without this fault alone */
    int steps;
};

/* What a step loses to a fault by the step rows, by the replay, and as the job measured it; the two
 * last ones NAN where they do not tell. */
struct losses {
    double modelled, replayed, measured;
};

static struct losses losses_of(const struct sums *s, const struct replayed *r, double by_job)
{
    struct losses l = {s->steps ? s->lost / s->steps : 0, NAN, by_job};

    /* the replay's share of the steps as they were */
    if (s->steps && !isnan(r->slowdown))
        l.replayed = (1 - 1 / r->slowdown) * (s->ideal + s->lost) / s->steps;
    /* a shift of the job is not put down to what delays nobody */
    if (!(l.modelled > 0) && !(l.replayed > 0))
        l.measured = NAN;
    return l;
}

static void finish(struct argus_cost *c, const struct argus_evidence *e, const struct sums *s,
                   const struct losses *l, double total)
{
    double loss = !isnan(l->measured)   ? l->measured
                  : !isnan(l->replayed) ? l->replayed
                                        : l->modelled;
    double lost = loss * s->steps;
    /* what the fault did not cost belongs to the ideal step, and the other way round */
    double ideal = s->ideal + s->lost - lost;

    c->steps = s->steps;
    c->slowdown = ideal > 0 ? (ideal + lost) / ideal : 1;
    c->loss = loss;
    c->share = total > 0 ? (s->lost_all + lost - s->lost) / total : 0;
    c->hidden = 0;
    if (!isnan(l->replayed))
        c->hidden = fmax(l->replayed - l->modelled, 0);
    else if (e->most > 0 && !isnan(l->measured))
        c->hidden = fmax(l->measured - l->modelled, 0);
}

int argus_whatif_price(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                       struct argus_cost *costs)
{
    struct frame f;
    double *step = calloc((size_t)m->n_steps + 1, sizeof(*step));
    double *only = calloc(2 * (n + 1), sizeof(*only)), *without = only + n + 1, total = 0;
    struct sums *sums = calloc(n + 1, sizeof(*sums));
    struct replayed *replays = calloc(n + 1, sizeof(*replays));
    int rc = frame_init(&f, m, e, n) || !step || !only || !sums || !replays ? -1 : 0;

    for (int k = 0; k < m->n_steps && !rc; k++) {
        double ideal;

        step[k] = m->use[k] ? argus_model_step_time(m, k) : NAN;
        if (isnan(step[k]))
            continue;
        total += step[k];
        price_step(&f, k, step[k], only, &ideal, without);
        for (size_t i = 0; i < n; i++) {
            double lost = only[i] > ideal ? only[i] - ideal : 0;

            sums[i].lost_all += lost;
            if (k < begins(e[i]) || k >= ends(m, e[i]))
                continue;
            sums[i].steps++;
            sums[i].lost += lost;
            sums[i].ideal += ideal;
            sums[i].step += step[k];
            sums[i].without += without[i];
        }
    }
    if (!rc)
        rc = replay_all(m, e, n, replays);
    for (size_t i = 0; i < n && !rc; i++) {
        struct losses l = losses_of(&sums[i], &replays[i], measured(m, e, n, i, step));

        finish(&costs[i], e[i], &sums[i], &l, total);
        costs[i].alone = replays[i].alone;
        /* no step is there to be replayed: what the breakdowns of the steps say */
        if (isnan(costs[i].alone) && argus_replay_can(e[i]))
            costs[i].alone = ratio(sums[i].step, sums[i].without);
    }
    free(step);
    free(only);
    free(sums);
    free(replays);
    frame_clear(&f);
    return rc;
}
