/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "analyzer/model/jobdir.h"
#include "analyzer/report/live_files.h"
#include "analyzer/stats/stats.h"
#include "analyzer/util/jsontext.h"

#define ALIKE 0.02       /* kernels a step: ranks this close run the same work */
#define FEWEST_STEPS 8   /* for a suspicion */
#define FEWEST_RANKS 4   /* that are comparable */
#define SLOW_RATIO 1.05  /* compute against comparable ranks */
#define SLOW_Z 3.5       /* robust z, over a spread of at least 1 % */
#define STALL_SHARE 0.05 /* idle beyond the others' */
#define BEHIND_STEPS 3   /* a rank that stopped */

/* A file stays open for every rank. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void argus_live_close(argus_live_t *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        argus_live_follower_free(l->followers[i]);
    free(l->followers);
    free(l->view.ranks);
    free(l->dir);
    free(l);
}

/* The step directory that was touched last. */
static char *newest_step(const char *dir, argus_error_t *err)
{
    char **steps = NULL, *newest = NULL;
    time_t when = 0;
    size_t n = 0;

    if (argus_jobdir_steps(dir, &steps, &n, err) < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        struct stat st;

        if (stat(steps[i], &st) < 0 || (newest && st.st_mtime < when))
            continue;
        free(newest);
        newest = strdup(steps[i]);
        when = st.st_mtime;
    }
    argus_jobdir_free(steps, n);
    if (!newest)
        argus_error(err, "%s: no timelines there", dir);
    return newest;
}

static argus_live_t *start(const char *dir, int close_each, argus_error_t *err)
{
    argus_live_t *l = calloc(1, sizeof(*l));

    if (!l) {
        argus_error(err, "%s: no memory", dir);
        return NULL;
    }
    l->close = close_each;
    if (!close_each)
        raise_file_limit();
    l->dir = newest_step(dir, err);
    if (!l->dir || argus_live_refresh(l, err) < 0) {
        argus_live_close(l);
        return NULL;
    }
    return l;
}

argus_live_t *argus_live_open(const char *dir, argus_error_t *err)
{
    return start(dir, 0, err);
}

argus_live_t *argus_live_glance(const char *dir, argus_error_t *err)
{
    return start(dir, 1, err);
}

/* Median compute of the ranks that run as many kernels.  Most ranks run alike: the last answer is kept. */
struct peers {
    double kernels, median;
    size_t n;
};

static void compare_compute(const argus_live_t *l, const struct argus_live_follower *f,
                            struct argus_live_rank *r, struct peers *peers, double *scratch)
{
    if (peers->n == 0 || f->kernels != peers->kernels) {
        peers->n = 0;
        for (size_t i = 0; i < l->n; i++) {
            const struct argus_live_follower *other = l->followers[i];

            if (other->n && fabs(other->kernels - f->kernels) <= ALIKE * f->kernels)
                scratch[peers->n++] = other->compute;
        }
        peers->kernels = f->kernels;
        peers->median = argus_median_inplace(scratch, peers->n);
    }
    r->comparable = (int)peers->n;
    r->compute_ratio = peers->n >= 2 ? f->compute / peers->median : NAN;
}

static double badness(const struct argus_live_rank *r, const struct argus_live_view *v)
{
    double score = isnan(r->compute_ratio) ? 0 : fabs(r->compute_ratio - 1);

    score += isnan(r->idle_share) ? 0 : r->idle_share / 4;
    return score + (v->last_step - r->last_step > BEHIND_STEPS && !r->sealed ? 100 : 0);
}

struct order {
    double badness;
    size_t i;
};

static int compare_order(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->badness != y->badness)
        return x->badness < y->badness ? 1 : -1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static int sort_ranks(struct argus_live_view *v)
{
    struct order *order = malloc(sizeof(*order) * (v->n_ranks + 1));
    struct argus_live_rank *sorted = malloc(sizeof(*sorted) * (v->n_ranks + 1));

    if (!order || !sorted) {
        free(order);
        free(sorted);
        return -1;
    }
    for (size_t i = 0; i < v->n_ranks; i++)
        order[i] = (struct order){badness(&v->ranks[i], v), i};
    qsort(order, v->n_ranks, sizeof(*order), compare_order);
    for (size_t i = 0; i < v->n_ranks; i++)
        sorted[i] = v->ranks[order[i].i];
    free(v->ranks);
    free(order);
    v->ranks = sorted;
    return 0;
}

/* Robust z of one figure of the ranks; `typical` gets its median.  x is reordered. */
static double stand_out(double *x, size_t n, double value, double *typical)
{
    *typical = argus_median_inplace(x, n);
    return argus_robust_z(value, *typical, argus_mad(x, n, *typical), 0.01);
}

static void suspect(struct argus_live_view *v, int steps, double *scratch)
{
    double typical, z;
    size_t n;

    v->suspicion = NULL;
    v->suspect = -1;
    v->why[0] = '\0';
    if (steps < FEWEST_STEPS)
        return;
    for (size_t i = 0; i < v->n_ranks; i++) {
        const struct argus_live_rank *r = &v->ranks[i];

        n = 0;
        for (size_t k = 0; k < v->n_ranks; k++)
            if (!isnan(v->ranks[k].compute_ratio))
                scratch[n++] = v->ranks[k].compute_ratio;
        z = stand_out(scratch, n, r->compute_ratio, &typical);
        if (r->compute_ratio >= SLOW_RATIO && z > SLOW_Z && r->comparable >= FEWEST_RANKS) {
            v->suspicion = "compute-straggler";
            v->suspect = (int)i;
            snprintf(v->why, sizeof(v->why), "its compute takes %.2fx of comparable ranks'",
                     r->compute_ratio);
            return;
        }
        n = 0;
        for (size_t k = 0; k < v->n_ranks; k++)
            if (!isnan(v->ranks[k].idle_share))
                scratch[n++] = v->ranks[k].idle_share;
        z = stand_out(scratch, n, r->idle_share, &typical);
        if (r->idle_share - typical >= STALL_SHARE && z > SLOW_Z && n >= FEWEST_RANKS) {
            v->suspicion = "host-stall";
            v->suspect = (int)i;
            snprintf(v->why, sizeof(v->why), "its GPU idles %.0f %% of a step, the others %.0f %%",
                     100 * r->idle_share, 100 * typical);
            return;
        }
        /* Ranks are in order of conspicuousness: the first that passes is it, the first few tell. */
        if (i >= 8)
            return;
    }
}

static int make_view(argus_live_t *l, argus_error_t *err)
{
    struct argus_live_view *v = &l->view;
    double *scratch = malloc(sizeof(*scratch) * (l->n + 1) * 3);
    double *last = scratch ? scratch + l->n + 1 : NULL, *typical = last ? last + l->n + 1 : NULL;
    struct peers peers = {0};
    size_t n = 0;
    int steps = ARGUS_LIVE_WINDOW;

    free(v->ranks);
    memset(v, 0, sizeof(*v));
    v->last_step = v->suspect = -1;
    v->step_ms = v->step_ms_p50 = NAN;
    v->ranks = calloc(l->n + 1, sizeof(*v->ranks));
    if (!scratch || !v->ranks) {
        free(scratch);
        return argus_error(err, "%s: no memory", l->dir);
    }
    for (size_t i = 0; i < l->n; i++) {
        const struct argus_live_follower *f = l->followers[i];
        const struct argus_timeline_info *info;
        const struct argus_timeline_counters *c;
        struct argus_live_rank *r = &v->ranks[v->n_ranks];

        if (!f->known)
            continue;
        info = &f->info;
        c = &f->counters;
        if (v->n_ranks++ == 0) {
            snprintf(v->job, sizeof(v->job), "%.63s", info->job);
            snprintf(v->step, sizeof(v->step), "%.31s", info->step);
            snprintf(v->source, sizeof(v->source), "%.31s", info->source);
        }
        v->simulated |= info->simulated != 0;
        v->world = info->world > v->world ? info->world : v->world;
        v->n_sealed += (size_t)f->sealed;
        v->dropped += c->dropped;
        v->invalid += c->invalid;
        v->late += c->late;
        r->rank = info->rank;
        snprintf(r->node, sizeof(r->node), "%.63s", info->node);
        r->sealed = f->sealed;
        r->dropped = c->dropped;
        r->last_step = f->n ? f->rows[f->n - 1].step : -1;
        r->compute_ratio = r->wait_share = r->idle_share = NAN;
        if (f->n == 0)
            continue;
        steps = f->n < steps ? f->n : steps;
        v->last_step = r->last_step > v->last_step ? r->last_step : v->last_step;
        compare_compute(l, f, r, &peers, scratch);
        r->wait_share = f->exposed / f->duration;
        r->idle_share = f->idle / f->duration;
        last[n] = (double)(f->rows[f->n - 1].end - f->rows[f->n - 1].start);
        typical[n++] = f->duration;
    }
    v->step_ms = argus_median_inplace(last, n) / 1e6;
    v->step_ms_p50 = argus_median_inplace(typical, n) / 1e6;
    if (sort_ranks(v) < 0) {
        free(scratch);
        return argus_error(err, "%s: no memory", l->dir);
    }
    suspect(v, steps, scratch);
    free(scratch);
    return 0;
}

int argus_live_refresh(argus_live_t *l, argus_error_t *err)
{
    return argus_live_follow(l, err) < 0 ? -1 : make_view(l, err);
}

const struct argus_live_view *argus_live_view(const argus_live_t *l)
{
    return &l->view;
}

static json_t *number_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *rank_object(const struct argus_live_rank *r)
{
    return json_pack("{si so sb si so so so sI}", "rank", r->rank, "node", argus_json_text(r->node),
                     "sealed", r->sealed, "last_step", r->last_step, "compute_ratio",
                     number_or_null(r->compute_ratio), "wait_share", number_or_null(r->wait_share),
                     "idle_share", number_or_null(r->idle_share), "dropped",
                     (json_int_t)r->dropped);
}

json_t *argus_live_to_object(const argus_live_t *l, size_t max_ranks)
{
    const struct argus_live_view *v = &l->view;
    json_t *ranks = json_array(), *suspicion = json_null();

    for (size_t i = 0; ranks && i < v->n_ranks && i < max_ranks; i++)
        json_array_append_new(ranks, rank_object(&v->ranks[i]));
    if (v->suspicion)
        suspicion =
            json_pack("{ss si so ss}", "verdict", v->suspicion, "rank", v->ranks[v->suspect].rank,
                      "node", argus_json_text(v->ranks[v->suspect].node), "why", v->why);
    return json_pack("{ss so so so sb si si si si so so so so sI sI sI}", "schema", "argus-top/1",
                     "dir", argus_json_text(l->dir), "job", argus_json_text(v->job), "step",
                     argus_json_text(v->step), "simulated", v->simulated, "world", v->world,
                     "ranks_seen", (int)v->n_ranks, "ranks_ended", (int)v->n_sealed, "last_step",
                     v->last_step, "step_ms", number_or_null(v->step_ms), "step_ms_p50",
                     number_or_null(v->step_ms_p50), "suspicion", suspicion, "ranks", ranks,
                     "dropped", (json_int_t)v->dropped, "invalid", (json_int_t)v->invalid, "late",
                     (json_int_t)v->late);
}
