/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards of experts and their replicas.
 *
 * Ranks at the same place of several expert parallel groups hold the same
 * experts.  A group of them that lies in a larger one, which holds the other
 * experts too and carries gradients, reduces the experts' gradients (EDP).
 */
#include <config.h>
#include <stdlib.h>

#include "analyzer/model/topology.h"

#define GROUPS_OF_RANK 8
#define GRADIENTS 0.01 /* of the experts' bytes: less is a norm or a loss, no gradients */

/* Where a rank is in more than one group of experts the largest has the shards. */
void argus_topology_shards(struct argus_model *m)
{
    for (size_t i = 0; i < m->n_ranks; i++)
        m->ranks[i].shard = m->ranks[i].expert_group = -1;
    for (size_t g = 0; g < m->n_groups; g++) {
        const struct argus_group *gr = &m->groups[g];

        for (uint32_t i = 0; i < gr->size && gr->kind == ARGUS_GROUP_EP && !gr->pseudo; i++) {
            struct argus_model_rank *r = gr->members[i] >= 0 ? &m->ranks[gr->members[i]] : NULL;

            if (!r || (r->expert_group >= 0 && m->groups[r->expert_group].size >= gr->size))
                continue;
            r->shard = (int)i;
            r->expert_group = (int)g;
        }
    }
}

struct membership {
    int *of;    /* [n_ranks * GROUPS_OF_RANK] groups that may hold others, -1 */
    int *stamp; /* [n_ranks] */
    int stamps;
};

static int membership_init(struct membership *b, const struct argus_model *m)
{
    size_t n = m->n_ranks * GROUPS_OF_RANK;

    b->of = malloc((n + 1) * sizeof(int));
    b->stamp = calloc(m->n_ranks + 1, sizeof(int));
    b->stamps = 0;
    if (!b->of || !b->stamp)
        return -1;
    for (size_t i = 0; i < n; i++)
        b->of[i] = -1;
    for (size_t g = 0; g < m->n_groups; g++) {
        const struct argus_group *gr = &m->groups[g];

        if (gr->pseudo || gr->kind == ARGUS_GROUP_EP || gr->kind == ARGUS_GROUP_PP)
            continue;
        for (uint32_t i = 0; i < gr->size; i++)
            for (int k = 0; gr->members[i] >= 0 && k < GROUPS_OF_RANK; k++)
                if (b->of[gr->members[i] * GROUPS_OF_RANK + k] < 0) {
                    b->of[gr->members[i] * GROUPS_OF_RANK + k] = (int)g;
                    break;
                }
    }
    return 0;
}

static void membership_clear(struct membership *b)
{
    free(b->of);
    free(b->stamp);
}

static void stamp(struct membership *b, const struct argus_group *gr)
{
    b->stamps++;
    for (uint32_t i = 0; i < gr->size; i++)
        if (gr->members[i] >= 0)
            b->stamp[gr->members[i]] = b->stamps;
}

/* How many of its members are in the group that was stamped last. */
static uint32_t stamped(const struct membership *b, const struct argus_group *gr)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < gr->size; i++)
        n += gr->members[i] >= 0 && b->stamp[gr->members[i]] == b->stamps;
    return n;
}

/* One rank of each of several expert parallel groups, all with the same experts?  Returns the first
 * member's expert parallel group, -1. */
static int same_experts(const struct argus_model *m, const struct argus_group *gr)
{
    int first = -1, last = -1;

    for (uint32_t i = 0; i < gr->size; i++) {
        const struct argus_model_rank *r = gr->members[i] >= 0 ? &m->ranks[gr->members[i]] : NULL;

        if (!r)
            continue;
        if (r->shard < 0 || r->expert_group == last ||
            (first >= 0 && (r->shard != m->ranks[first].shard ||
                            r->expert_group == m->ranks[first].expert_group)))
            return -1;
        first = first < 0 ? gr->members[i] : first;
        last = r->expert_group;
    }
    return first < 0 || m->ranks[first].expert_group == last ? -1 : m->ranks[first].expert_group;
}

/* Replicas of experts reduce among themselves what a larger group, which holds them and the other
 * experts, reduces of all that is not expert.  Tensor parallel ranks share a shard's place, too, but
 * are closer than the experts are. */
static int is_expert_data(const struct argus_model *m, struct membership *b,
                          const struct argus_group *gr)
{
    int expert = same_experts(m, gr), first = -1;
    const struct argus_group *ep;

    if (expert < 0)
        return 0;
    ep = &m->groups[expert];
    if (argus_group_stride(m, gr) <= argus_group_stride(m, ep))
        return 0;
    for (uint32_t i = 0; i < gr->size && first < 0; i++)
        first = gr->members[i];
    for (int k = 0; k < GROUPS_OF_RANK; k++) {
        int g = b->of[first * GROUPS_OF_RANK + k];
        const struct argus_group *all = g >= 0 ? &m->groups[g] : NULL;
        uint32_t experts;

        if (!all || all->size <= gr->size || !(all->bytes >= GRADIENTS * gr->bytes))
            continue;
        stamp(b, all);
        experts = stamped(b, ep);
        if (experts > 1 && stamped(b, gr) == gr->present &&
            (size_t)all->size == (size_t)gr->size * experts)
            return 1;
    }
    return 0;
}

int argus_topology_expert_data(struct argus_model *m)
{
    struct membership b;
    int rc = membership_init(&b, m);

    for (size_t g = 0; g < m->n_groups && !rc; g++) {
        struct argus_group *gr = &m->groups[g];

        if ((gr->kind == ARGUS_GROUP_OTHER || gr->kind == ARGUS_GROUP_DP) && gr->size >= 2 &&
            !gr->pseudo && gr->per_step > 0 && is_expert_data(m, &b, gr))
            gr->kind = ARGUS_GROUP_EDP;
    }
    membership_clear(&b);
    return rc;
}
