/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which communicator is tensor, data, pipeline or expert parallel.
 *
 * In this order: what the user says (--topology), what the communicator is
 * called, what it does: nothing but send and receive = pipeline; all-to-all =
 * experts; the same shard of several of them, within a group that holds both =
 * replicas of experts; of the rest, many calls a step between neighbouring
 * ranks = tensor, few between distant ones = data.  Where a group may be the
 * one or the other it has no kind and the topology says 0: not known.
 */
#include <config.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <argus/record.h>

#include "analyzer/model/topology.h"

/* A word of a name, between non-letters: "pp" in "pp_0_16", not in "mapping". */
static int has_word(const char *name, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = name; *p; p++)
        if (!strncasecmp(p, word, n) && (p == name || !isalpha((unsigned char)p[-1])) &&
            !isalpha((unsigned char)p[n]))
            return 1;
    return 0;
}

static int contains(const char *name, const char *part)
{
    size_t n = strlen(part);

    for (const char *p = name; *p; p++)
        if (!strncasecmp(p, part, n))
            return 1;
    return 0;
}

static enum argus_group_kind kind_of_name(const char *name)
{
    if (!name)
        return ARGUS_GROUP_OTHER;
    if (has_word(name, "edp") || contains(name, "expert_data"))
        return ARGUS_GROUP_EDP;
    if (has_word(name, "ep") || contains(name, "expert"))
        return ARGUS_GROUP_EP;
    if (has_word(name, "pp") || contains(name, "pipeline"))
        return ARGUS_GROUP_PP;
    if (has_word(name, "tp") || contains(name, "tensor"))
        return ARGUS_GROUP_TP;
    if (has_word(name, "dp") || contains(name, "data_parallel") || has_word(name, "fsdp"))
        return ARGUS_GROUP_DP;
    return ARGUS_GROUP_OTHER;
}

static int only_pairs(const struct argus_model_build *b, size_t g)
{
    const size_t *u = &b->uses[g * ARGUS_FUNC_COUNT];
    size_t pairs = u[ARGUS_FUNC_SEND] + u[ARGUS_FUNC_RECV] + u[ARGUS_FUNC_SENDRECV];
    size_t all = 0;

    for (int f = 0; f < ARGUS_FUNC_COUNT; f++)
        all += u[f];
    return all && pairs * 10 >= all * 9;
}

/* A grouped send/receive without a peer that all members call alike is an all-to-all. */
static int spreads(const struct argus_model *m, size_t g)
{
    double all = 0, a2a = 0;

    for (size_t c = 0; c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];

        if ((size_t)cc->group != g)
            continue;
        all += cc->count;
        if (cc->func == ARGUS_FUNC_ALLTOALL ||
            (cc->func == ARGUS_FUNC_SENDRECV && cc->from < 0 && cc->matched))
            a2a += cc->count;
    }
    return a2a > 0 && a2a >= 0.3 * all;
}

/* By what it does.  TP against DP needs the other groups of the same ranks: see settle(). */
static enum argus_group_kind kind_of_use(const struct argus_model_build *b, size_t g)
{
    const struct argus_group *gr = &b->m->groups[g];

    if (gr->size <= 1)
        return ARGUS_GROUP_OTHER;
    if (spreads(b->m, g))
        return ARGUS_GROUP_EP;
    if (only_pairs(b, g))
        return ARGUS_GROUP_PP;
    return ARGUS_GROUP_OTHER;
}

static int *dimension(struct argus_topology *t, const char *key)
{
    if (!strcmp(key, "tp"))
        return &t->tp;
    if (!strcmp(key, "pp"))
        return &t->pp;
    if (!strcmp(key, "dp"))
        return &t->dp;
    return strcmp(key, "ep") ? NULL : &t->ep;
}

int argus_topology_parse(const char *text, struct argus_topology *t, argus_error_t *err)
{
    const char *p = text;
    char end;

    *t = (struct argus_topology){0, 0, 0, 0, "option"};
    do {
        char key[4] = "";
        int value = 0, used = 0, *to;

        if (sscanf(p, "%3[a-z]=%d%n", key, &value, &used) != 2 || value < 1 || value > 1 << 24 ||
            (p[used] && p[used] != ','))
            return argus_error(err, "topology \"%s\": tp=N,pp=N,dp=N,ep=N expected", text);
        to = dimension(t, key);
        if (!to)
            return argus_error(err, "topology: no dimension \"%s\" (tp, pp, dp, ep)", key);
        if (*to)
            return argus_error(err, "topology \"%s\": %s is given twice", text, key);
        *to = value;
        end = p[used];
        p += used + 1;
    } while (end);
    t->tp = t->tp ? t->tp : 1;
    t->pp = t->pp ? t->pp : 1;
    t->ep = t->ep ? t->ep : 1;
    return 0; /* dp 0: what is left */
}

/* Coordinates as most launchers lay them out: tensor fastest, then data, then pipeline. */
static void regular_coordinates(struct argus_model *m)
{
    const struct argus_topology *t = &m->topology;

    for (size_t i = 0; i < m->n_ranks; i++) {
        struct argus_model_rank *r = &m->ranks[i];

        r->tp = r->rank % t->tp;
        r->dp = (r->rank / t->tp) % t->dp;
        r->pp = (r->rank / (t->tp * t->dp)) % t->pp;
        r->ep = t->ep > 1 ? r->dp % t->ep : 0;
    }
}

/* With --topology the members' coordinates say what a group is. */
static void kinds_from_coordinates(struct argus_model *m)
{
    for (size_t g = 0; g < m->n_groups; g++) {
        struct argus_group *gr = &m->groups[g];
        int tp = 0, dp = 0, pp = 0, first = -1;

        for (uint32_t i = 0; i < gr->size; i++) {
            const struct argus_model_rank *a, *r;

            if (gr->members[i] < 0)
                continue;
            if (first < 0)
                first = gr->members[i];
            a = &m->ranks[first];
            r = &m->ranks[gr->members[i]];
            tp |= r->tp != a->tp;
            dp |= r->dp != a->dp;
            pp |= r->pp != a->pp;
        }
        if (gr->kind == ARGUS_GROUP_EP || gr->kind == ARGUS_GROUP_EDP)
            continue;
        gr->kind = (int)gr->size == m->world && tp + dp + pp > 1 ? ARGUS_GROUP_WORLD
                   : pp && !tp && !dp                            ? ARGUS_GROUP_PP
                   : tp && !dp && !pp                            ? ARGUS_GROUP_TP
                   : dp && !tp && !pp                            ? ARGUS_GROUP_DP
                                                                 : ARGUS_GROUP_OTHER;
    }
}

static size_t root_of(size_t *parent, size_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Pipelines: ranks joined by pipeline groups; the stage is the place in rank order. */
static int pipelines(struct argus_model *m)
{
    size_t *parent = malloc((m->n_ranks + 1) * sizeof(*parent));
    int *length = calloc(m->n_ranks + 1, sizeof(*length));
    int most = 1;

    if (!parent || !length) {
        free(parent);
        free(length);
        return -1;
    }
    for (size_t i = 0; i < m->n_ranks; i++)
        parent[i] = i;
    for (size_t g = 0; g < m->n_groups; g++) {
        int first = -1;

        if (m->groups[g].kind != ARGUS_GROUP_PP)
            continue;
        for (uint32_t i = 0; i < m->groups[g].size; i++) {
            int r = m->groups[g].members[i];
            size_t a, b;

            if (r < 0)
                continue;
            if (first < 0)
                first = r;
            a = root_of(parent, (size_t)first);
            b = root_of(parent, (size_t)r);
            if (a < b)
                parent[b] = a;
            else
                parent[a] = b;
        }
    }
    for (size_t i = 0; i < m->n_ranks; i++) {
        size_t root = root_of(parent, i);

        m->ranks[i].pp = length[root]++;
        if (length[root] > most)
            most = length[root];
    }
    m->topology.pp = most;
    free(parent);
    free(length);
    return 0;
}

static void coordinates(struct argus_model *m)
{
    struct argus_topology *t = &m->topology;
    int tp = 1, ep = 1, dp = 1, named_tp = 0, unknown = 0;

    for (size_t g = 0; g < m->n_groups; g++) {
        const struct argus_group *gr = &m->groups[g];
        int size = (int)gr->size;

        if (gr->kind == ARGUS_GROUP_TP && size > tp)
            tp = size, named_tp = 1;
        if (gr->kind == ARGUS_GROUP_EP && size > ep)
            ep = size;
        if (gr->kind == ARGUS_GROUP_DP && size > dp)
            dp = size;
        unknown |= gr->kind == ARGUS_GROUP_OTHER && size > 1 && size < m->world && !gr->pseudo &&
                   gr->per_step > 0;
        for (uint32_t i = 0; i < gr->size; i++) {
            struct argus_model_rank *r = gr->members[i] >= 0 ? &m->ranks[gr->members[i]] : NULL;

            if (!r)
                continue;
            if (gr->kind == ARGUS_GROUP_TP)
                r->tp = (int)i;
            else if (gr->kind == ARGUS_GROUP_DP && size >= dp)
                r->dp = (int)i;
            else if (gr->kind == ARGUS_GROUP_EP)
                r->ep = (int)i;
        }
    }
    /* ranks that were not recorded may be tensor peers */
    if (!named_tp && dp > 1 && (int)m->n_ranks < m->world && m->world % (dp * t->pp) == 0)
        tp = m->world / (dp * t->pp);
    t->tp = tp;
    t->ep = ep;
    t->dp = m->world / (tp * t->pp) > 0 ? m->world / (tp * t->pp) : 1;
    if (unknown)
        t->tp = t->dp = 0;
}

static void name_groups(struct argus_model *m)
{
    int counts[ARGUS_GROUP_KINDS] = {0};

    for (size_t g = 0; g < m->n_groups; g++) {
        struct argus_group *gr = &m->groups[g];
        char name[32];

        gr->index = counts[gr->kind]++;
        if (gr->name && gr->name[0])
            continue;
        free(gr->name);
        if (gr->pseudo)
            snprintf(name, sizeof(name), "unknown");
        else
            snprintf(name, sizeof(name), "%s_%d", argus_group_kind_name(gr->kind), gr->index);
        gr->name = strdup(name);
    }
}

/* Is a communicator known that ranks share? */
static int told(const struct argus_model *m)
{
    for (size_t g = 0; g < m->n_groups; g++)
        if (!m->groups[g].pseudo && m->groups[g].size > 1 && m->groups[g].per_step > 0)
            return 1;
    return m->world <= 1;
}

int argus_model_build_topology(struct argus_model_build *b, argus_error_t *err)
{
    struct argus_model *m = b->m;
    struct argus_topology *t = &m->topology;
    int named = 0;

    *t = (struct argus_topology){1, 1, 1, 1, "inferred"};
    for (size_t g = 0; g < m->n_groups; g++) {
        enum argus_group_kind by_name = kind_of_name(m->groups[g].name);

        m->groups[g].kind = by_name ? by_name : kind_of_use(b, g);
        named |= by_name != ARGUS_GROUP_OTHER;
    }
    if (b->options->topology) {
        if (argus_topology_parse(b->options->topology, t, err))
            return -1;
        if (!t->dp)
            t->dp = m->world / (t->tp * t->pp) > 0 ? m->world / (t->tp * t->pp) : 1;
        if ((int64_t)t->tp * t->pp * t->dp != m->world)
            return argus_error(err, "topology: tp=%d x pp=%d x dp=%d is not %d ranks", t->tp, t->pp,
                               t->dp, m->world);
        regular_coordinates(m);
        kinds_from_coordinates(m);
        argus_topology_shards(m);
        if (argus_topology_expert_data(m))
            return argus_error(err, "%s: no memory", m->dir);
        name_groups(m);
        return 0;
    }
    argus_topology_shards(m);
    if (argus_topology_expert_data(m) || pipelines(m))
        return argus_error(err, "%s: no memory", m->dir);
    argus_topology_settle(m);
    coordinates(m);
    if (named)
        t->source = "names";
    else if (!told(m))
        t->source = "unknown";
    name_groups(m);
    return 0;
}
