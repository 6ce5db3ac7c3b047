/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experts that have more to do than others, on every rank that holds them.
 *
 * The tokens that an expert gets are a property of its shard: of the place in
 * the expert parallel group, the same in all replicas.  A rank's expert time
 * over its other compute-bound time does not depend on how fast its GPU or its
 * memory is; what its replicas show of it is what the shard asks for.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define MIN_LOAD 0.01 /* smaller differences are noise */
#define AGREE 0.05    /* two replicas of one shard */
#define YARDSTICK 0.1 /* of the compute that is not the experts' */

int argus_same_shard(const struct argus_model *m, int a, int b)
{
    const struct argus_model_rank *x = &m->ranks[a], *y = &m->ranks[b];

    return x->shard >= 0 && x->shard == y->shard && x->pp == y->pp &&
           x->expert_group != y->expert_group &&
           m->groups[x->expert_group].size == m->groups[y->expert_group].size;
}

int argus_cohort_replicas(const struct argus_cohort *c, const struct argus_model *m, int rank)
{
    int n = 0;

    for (size_t i = 0; i < c->n; i++)
        n += c->ranks[i] != rank && argus_same_shard(m, rank, c->ranks[i]);
    return n;
}

/* Compute of one rank by what bounds it. */
struct parts {
    double
        expert; /* time of the experts' kernels over that of the yardstick's; NAN: there is none */
    double share; /* ... of all compute */
};

/* The yardstick is what the arithmetic units bound, as they bound experts; a GPU whose memory is slow
 * is late in everything else.  Where there is too little of it, all other kernels. */
static struct parts parts_of(const struct argus_model *m, int rank)
{
    const struct argus_model_rank *r = &m->ranks[rank];
    double expert = 0, bound = 0, other = 0;

    for (size_t i = 0; i < r->n_classes; i++) {
        const struct argus_kernel_class *k = &m->kernel_classes[r->classes[i].kernel_class];
        double sum = 0;

        if (k->kind != ARGUS_CLASS_COMPUTE)
            continue;
        for (int w = 0; w < r->n_windows; w++)
            sum += (double)r->classes[i].sum[w];
        if (k->family == ARGUS_FAMILY_EXPERT)
            expert += sum;
        else if (k->family == ARGUS_FAMILY_GEMM || k->family == ARGUS_FAMILY_ATTENTION)
            bound += sum;
        else
            other += sum;
    }
    if (!(bound + other > 0))
        return (struct parts){NAN, NAN};
    return (struct parts){
        .expert = expert / (bound >= YARDSTICK * (bound + other) ? bound : bound + other),
        .share = expert / (expert + bound + other),
    };
}

/* What rank i of the cohort is asked for, by its replicas; 1: not known, or nothing special. */
static double load_of(const struct argus_model *m, const struct argus_cohort *c, size_t i,
                      const double *part, const struct parts *usual, double *work)
{
    size_t n = 0;
    double load;

    for (size_t j = 0; j < c->n; j++)
        if (j != i && !isnan(part[j]) && argus_same_shard(m, c->ranks[i], c->ranks[j]))
            work[n++] = part[j];
    if (!n)
        return 1;
    load = 1 + usual->share * (argus_median_inplace(work, n) / usual->expert - 1);
    /* of two that differ nobody knows which is right: then it excuses and does not accuse */
    if (n == 1 && load < 1 && !(fabs(work[0] - part[i]) <= AGREE * part[i]))
        return 1;
    return fabs(load - 1) < MIN_LOAD ? 1 : load;
}

int argus_cohort_shards(struct argus_cohort *c, const struct argus_model *m)
{
    double *part, *share, *work;
    struct parts usual;
    size_t n = 0, shards = 0;

    for (size_t i = 0; i < c->n && m->topology.ep > 1; i++)
        shards += m->ranks[c->ranks[i]].shard >= 0;
    if (shards < c->n || !c->n)
        return 0;
    part = malloc(3 * c->n * sizeof(*part));
    c->load = malloc(m->n_ranks * sizeof(*c->load));
    if (!part || !c->load) {
        free(part);
        return -1;
    }
    share = part + c->n;
    work = share + c->n;
    for (size_t i = 0; i < m->n_ranks; i++)
        c->load[i] = 1;
    for (size_t i = 0; i < c->n; i++) {
        struct parts p = parts_of(m, c->ranks[i]);

        part[i] = p.expert;
        if (isnan(p.expert))
            continue;
        share[n] = p.share;
        work[n++] = p.expert;
    }
    usual = (struct parts){argus_median_inplace(work, n), argus_median_inplace(share, n)};
    for (size_t i = 0; i < c->n && usual.expert > 0; i++)
        c->load[c->ranks[i]] = (float)load_of(m, c, i, part, &usual, work);
    free(part);
    return 0;
}
