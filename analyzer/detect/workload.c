/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload imbalance: a rank takes longer because it has more to do.  Its
 * kernels are not slower; there are more of them, or they have other grids.
 * Often the rank with most to do is another one each step.  Experts that have
 * more to do on all replicas of their shard are such work, too, also where the
 * kernel has the same grid whatever its tokens.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define MIN_RATIO 1.04
#define SINGLE_SHARE 0.8 /* of the steps: always the same rank */
#define MIN_STEPS 10
#define ALIKE 0.5 /* of the leader's surplus: a rank that has about as much to do */

struct scan {
    const struct argus_model *m;
    struct argus_evidence_list *out;
    const float **slow; /* by rank: what slower kernels add to its steps; NULL: none */
    double *q;
    int *at, *top;
};

static void find_slow(struct scan *s)
{
    for (size_t i = 0; i < s->out->n; i++) {
        const struct argus_evidence *e = &s->out->items[i];

        for (size_t h = 0; h < e->n_hit && e->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER; h++)
            s->slow[e->hit[h]] = &e->excess[h * (size_t)s->m->n_steps];
    }
}

/* Compute of a step without what slower kernels add to it. */
static double at_speed(const struct scan *s, const struct argus_cohort *c, int rank, int k)
{
    return (double)argus_rank_col(&s->m->ranks[rank], c->column, k) -
           (s->slow[rank] ? (double)s->slow[rank][k] : 0);
}

/* Of that, a rank against the others. */
static int ratio_to_others(struct scan *s, const struct argus_cohort *c, int rank)
{
    int points = argus_cohort_ratio(c, s->m, rank, s->q, s->at);

    for (int p = 0; p < points && s->slow[rank]; p++)
        s->q[p] = at_speed(s, c, rank, s->at[p]) / argus_cohort_reference(c, s->m, rank, s->at[p]);
    return points;
}

static double compute_of(const struct argus_model *m, int i)
{
    const struct argus_model_rank *r = &m->ranks[i];
    double sum = 0;

    for (size_t k = 0; k < r->n_classes; k++)
        for (int w = 0; w < r->n_windows; w++)
            sum += (double)r->classes[k].sum[w];
    return sum;
}

static int add_excess(struct scan *s, const struct argus_cohort *c, struct argus_evidence *e,
                      int only)
{
    for (size_t i = 0; i < c->n; i++) {
        float *x;
        int points;

        if (only >= 0 && c->ranks[i] != only)
            continue;
        if (!(x = argus_evidence_excess(e, s->m, c->ranks[i])))
            return -1;
        points = ratio_to_others(s, c, c->ranks[i]);
        for (int p = 0; p < points; p++) {
            double own = at_speed(s, c, c->ranks[i], s->at[p]);

            if (s->q[p] > 1)
                x[s->at[p]] = (float)(own - own / s->q[p]);
        }
    }
    return 0;
}

/* Rank with most compute in every step, and by how much. */
static int leaders(struct scan *s, const struct argus_cohort *c, double *ratio)
{
    const struct argus_model *m = s->m;
    int n = 0;

    for (int k = 0; k < m->n_steps; k++) {
        double most = 0, ref;
        int who = -1;

        if (!m->use[k])
            continue;
        for (size_t i = 0; i < c->n; i++) {
            double v = at_speed(s, c, c->ranks[i], k) / argus_cohort_load(c, c->ranks[i]);

            if (v > most) {
                most = v;
                who = c->ranks[i];
            }
        }
        if (who < 0)
            continue;
        ref = argus_cohort_reference(c, m, who, k) / argus_cohort_load(c, who);
        if (!(ref > 0))
            continue;
        s->q[n] = most / ref;
        s->at[n] = k;
        s->top[n++] = who;
    }
    *ratio = n ? argus_median(s->q, (size_t)n) : NAN;
    return n;
}

static double calls_of(const struct argus_model_rank *r, int kernel_class, double *time)
{
    const struct argus_rank_class *k = argus_rank_find_class(r, kernel_class);
    double calls = 0;

    for (int w = 0; k && w < r->n_windows; w++) {
        calls += (double)k->count[w];
        *time += (double)k->sum[w];
    }
    return r->n_rows ? calls / r->n_rows : 0;
}

/* Whose amount of work varies, the experts' or the rest's?  A class that is part of the program
 * runs equally often on all ranks; a variant that follows the data (another grid) does not. */
static int is_expert(const struct argus_model *m, const struct argus_cohort *c)
{
    double expert = 0, other = 0;

    if (m->topology.ep <= 1)
        return 0;
    for (int kc = 0; (size_t)kc < m->n_kernel_classes; kc++) {
        double least = INFINITY, most = 0, time = 0;

        if (m->kernel_classes[kc].kind != ARGUS_CLASS_COMPUTE)
            continue;
        for (size_t i = 0; i < c->n; i++) {
            double calls = calls_of(&m->ranks[c->ranks[i]], kc, &time);

            least = fmin(least, calls);
            most = fmax(most, calls);
        }
        if (most - least <= 0.02 * most)
            continue;
        if (m->kernel_classes[kc].family == ARGUS_FAMILY_EXPERT)
            expert += time;
        else
            other += time;
    }
    return expert > other;
}

/* How a text about what a rank has to do goes on, the more the worse. */
enum { NOT_SLOWER, SOME_SLOWER, SLOW };

static const char *const speeds[] = {", none of them slower", ", some of them slower",
                                     ", whatever their speed"};

static int speed_of(const struct scan *s, int rank, const struct argus_work *w)
{
    if (s->slow[rank])
        return SLOW;
    return w->speed >= (MIN_RATIO - 1) * w->usual ? SOME_SLOWER : NOT_SLOWER;
}

static int report(struct scan *s, const struct argus_cohort *c, int rank, double ratio,
                  double share, size_t n_leaders, const struct argus_work *w)
{
    const struct argus_model *m = s->m;
    int moe = is_expert(m, c), slow = rank >= 0 && s->slow[rank];
    struct argus_evidence *e = argus_evidence_add(
        s->out, "workload", moe ? ARGUS_VERDICT_MOE_IMBALANCE : ARGUS_VERDICT_WORKLOAD_IMBALANCE);

    if (!e || add_excess(s, c, e, rank))
        return -1;
    if (rank >= 0 && argus_evidence_rank(e, rank))
        return -1;
    e->effect = ratio - 1;
    e->pattern = rank >= 0 ? "persistent" : "rotating";
    e->persistence = rank >= 0 ? share : 0.9;
    /* of a slow rank that ratio is more than its work, which stands beside its speed */
    if ((!slow &&
         argus_evidence_line(e, m, rank, "compute_ratio", ratio, 1.0, "ratio",
                             "the busiest rank of a step over the median, median of the steps")) ||
        argus_evidence_line(e, m, rank, "leader_share", share, NAN, "share",
                            "steps in which the most frequent leader leads"))
        return -1;
    if (rank >= 0) {
        if (argus_evidence_line(e, m, rank, "more_work_ms", w->amount / 1e6, NAN, "ms",
                                "time of calls and kernels that the peers do not have") ||
            argus_evidence_line(e, m, rank, "slower_kernels_ms", w->speed / 1e6, NAN, "ms",
                                "time by which the same kernels are slower"))
            return -1;
        argus_evidence_text(e,
                            "rank %d has %.0f %% more to compute than its peers: more or larger "
                            "kernels%s",
                            m->ranks[rank].rank, 100 * (ratio - 1), speeds[speed_of(s, rank, w)]);
    } else {
        argus_evidence_text(e,
                            "the busiest rank of a step computes %.0f %% more than the others, and "
                            "it is one of %zu ranks that take turns: uneven %s, not a slow GPU",
                            100 * (ratio - 1), n_leaders, moe ? "expert load" : "work");
    }
    return 0;
}

/* The shard that has most to do on each of its replicas, by their load; -1: none. */
static int heaviest_shard(const struct argus_model *m, const struct argus_cohort *c, double *load)
{
    int heaviest = -1;

    *load = MIN_RATIO;
    for (size_t i = 0; i < c->n && c->load; i++) {
        double least = argus_cohort_load(c, c->ranks[i]);

        for (size_t j = 0; j < c->n; j++)
            if (argus_same_shard(m, c->ranks[i], c->ranks[j]))
                least = fmin(least, argus_cohort_load(c, c->ranks[j]));
        if (least > *load) {
            *load = least;
            heaviest = m->ranks[c->ranks[i]].shard;
        }
    }
    return heaviest;
}

static int report_shard(struct scan *s, const struct argus_cohort *c)
{
    const struct argus_model *m = s->m;
    struct argus_evidence *e;
    size_t replicas = 0;
    double load;
    int shard = heaviest_shard(m, c, &load);

    if (shard < 0)
        return 0;
    if (!(e = argus_evidence_add(s->out, "workload", ARGUS_VERDICT_MOE_IMBALANCE)))
        return -1;
    for (size_t i = 0; i < c->n; i++) {
        double more = argus_cohort_load(c, c->ranks[i]);
        float *x;

        replicas += m->ranks[c->ranks[i]].shard == shard;
        if (!(more > 1))
            continue;
        if (!(x = argus_evidence_excess(e, m, c->ranks[i])))
            return -1;
        for (int k = 0; k < m->n_steps; k++) {
            double own = (double)argus_rank_col(&m->ranks[c->ranks[i]], c->column, k);

            if (m->use[k] && own > 0)
                x[k] = (float)(own - own / more);
        }
    }
    e->effect = load - 1;
    e->pattern = "persistent";
    e->persistence = 1;
    argus_evidence_text(e,
                        "experts of shard %d have so much to do that its ranks compute %.0f %% "
                        "longer, on all of %zu replicas: uneven expert load, not a slow GPU",
                        shard, 100 * (load - 1), replicas);
    return argus_evidence_line(e, m, -1, "shard_load", load, 1.0, "ratio",
                               "compute that the experts ask of the ranks of the shard, over the "
                               "usual, the least of its replicas");
}

/* Has this rank more to do, in the median step by at least `least` and in `hold` of all steps?
 * *ratio: how much more. */
static int is_busy(struct scan *s, const struct argus_cohort *c, int rank, double least,
                   double hold, double *ratio, struct argus_work *w)
{
    int points = ratio_to_others(s, c, rank), held = 0;

    for (int i = 0; i < points; i++)
        held += s->q[i] >= MIN_RATIO;
    *ratio = argus_median(s->q, (size_t)points);
    if (!(*ratio >= least) || (double)held < hold * points)
        return 0;
    argus_work_of(s->m, c->ranks, c->n, rank, w);
    /* what it is slower by is taken off already: then the amount is to be most of the rest */
    if (s->slow[rank])
        return w->amount >= 0.5 * (*ratio - 1) * w->usual;
    return w->amount > 0 && w->amount > w->speed;
}

/* One rank leads, or hides that others have about as much to do: with one of them relieved the rest
 * would still be waited for. */
static int report_busy(struct scan *s, const struct argus_cohort *c, int leader, double share,
                       double hold)
{
    struct argus_evidence *e = NULL;
    struct argus_work work;
    double ratio, least;
    int points = ratio_to_others(s, c, leader), slowest = NOT_SLOWER, speed;

    least = fmax(MIN_RATIO, 1 + ALIKE * (argus_median(s->q, (size_t)points) - 1));
    if (is_busy(s, c, leader, MIN_RATIO, hold, &ratio, &work)) {
        if (report(s, c, leader, ratio, share, 1, &work))
            return -1;
        e = &s->out->items[s->out->n - 1];
        slowest = speed_of(s, leader, &work);
    }
    for (size_t i = 0; i < c->n; i++) {
        int rank = c->ranks[i];

        if (rank == leader || !is_busy(s, c, rank, least, hold, &ratio, &work))
            continue;
        speed = speed_of(s, rank, &work);
        slowest = speed > slowest ? speed : slowest;
        if (!e) {
            if (report(s, c, rank, ratio, share, 1, &work))
                return -1;
            e = &s->out->items[s->out->n - 1];
        } else if (add_excess(s, c, e, rank) || argus_evidence_rank(e, rank) ||
                   (!s->slow[rank] &&
                    argus_evidence_line(e, s->m, rank, "compute_ratio", ratio, 1.0, "ratio",
                                        "this rank over the median, median of the steps"))) {
            return -1;
        }
    }
    if (e && e->n_ranks > 1)
        argus_evidence_text(e,
                            "%zu ranks have up to %.0f %% more to compute than their peers: more "
                            "or larger kernels%s",
                            e->n_ranks, 100 * e->effect, speeds[slowest]);
    return 0;
}

static int scan_cohort(struct scan *s, const struct argus_cohort *c)
{
    size_t *led = calloc(s->m->n_ranks + 1, sizeof(*led)), most = 0, n_leaders = 0, reported;
    double ratio, uneven_ratio;
    int n, who = -1, uneven = 0, onset = ARGUS_UNKNOWN, rc = 0;

    if (!led)
        return -1;
    n = leaders(s, c, &ratio);
    if (n < MIN_STEPS)
        goto out;
    /* only steps in which somebody does have more to do */
    for (int i = 0; i < n; i++) {
        if (s->q[i] < MIN_RATIO)
            continue;
        if (!uneven && i >= MIN_STEPS)
            onset = s->at[i];
        s->top[uneven] = s->top[i];
        s->q[uneven++] = s->q[i];
        if (++led[s->top[i]] > most) {
            most = led[s->top[i]];
            who = s->top[i];
        }
    }
    if (who < 0 || uneven < MIN_STEPS)
        goto out;
    uneven_ratio = argus_median(s->q, (size_t)uneven);
    for (size_t i = 0; i < s->m->n_ranks; i++)
        n_leaders += led[i] * 50 >= (size_t)uneven && led[i] > 1;
    /* of several with about as much to do another one leads each time: those do not take turns */
    reported = s->out->n;
    rc = report_busy(s, c, who, (double)most / uneven,
                     (double)most >= SINGLE_SHARE * uneven ? 0.5 : SINGLE_SHARE);
    if (!rc && s->out->n == reported && (double)most < SINGLE_SHARE * uneven && n_leaders >= 2 &&
        c->n >= 2) {
        /* a few slow ranks in turn are episodes: leaders must alternate; and their kernels must
         * not be slower, else they are slow ranks */
        struct argus_work work;
        double slower = 0, all = 0;
        int changes = 0;

        for (int i = 1; i < uneven; i++)
            changes += s->top[i] != s->top[i - 1];
        for (size_t i = 0; i < s->m->n_ranks; i++) {
            if (led[i] * 50 < (size_t)uneven || led[i] <= 1)
                continue;
            argus_work_of(s->m, c->ranks, c->n, (int)i, &work);
            slower += work.speed > 0 ? work.speed : 0;
            all += compute_of(s->m, (int)i);
        }
        if (changes >= 3 && changes * 10 >= uneven && slower < 0.01 * all)
            rc = report(s, c, -1, uneven_ratio, (double)most / uneven, n_leaders, NULL);
        if (!rc && s->out->n && !strcmp(s->out->items[s->out->n - 1].detector, "workload"))
            s->out->items[s->out->n - 1].onset = onset;
    }
out:
    free(led);
    return rc;
}

int argus_detect_workload(const struct argus_model *m, struct argus_evidence_list *out)
{
    size_t steps = (size_t)m->n_steps + 1;
    struct scan s = {.m = m, .out = out};
    int *ranks = malloc((m->n_ranks + 1) * sizeof(int));
    int rc = -1;

    s.q = malloc(steps * sizeof(double));
    s.at = malloc(steps * sizeof(int));
    s.top = malloc(steps * sizeof(int));
    s.slow = calloc(m->n_ranks + 1, sizeof(*s.slow));
    if (!s.q || !s.at || !s.top || !s.slow || !ranks)
        goto out;
    find_slow(&s);
    rc = 0;
    for (int stage = 0; stage < m->topology.pp && !rc; stage++) {
        struct argus_cohort c;
        size_t n = 0;

        for (size_t i = 0; i < m->n_ranks; i++)
            if (m->ranks[i].pp == stage)
                ranks[n++] = (int)i;
        if (n < 2)
            continue;
        if ((rc = argus_cohort_init(&c, m, ranks, n, ARGUS_COL_COMPUTE)))
            break;
        if (!(rc = argus_cohort_shards(&c, m)) && !(rc = report_shard(&s, &c)))
            rc = scan_cohort(&s, &c);
        argus_cohort_clear(&c);
    }
out:
    free(s.q);
    free(s.at);
    free(s.top);
    free(s.slow);
    free(ranks);
    return rc;
}
