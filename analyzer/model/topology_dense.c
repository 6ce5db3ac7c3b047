/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor or data parallel: what all groups have in common, and where that says nothing, rhythm. */
#include <config.h>

#include <argus/record.h>

#include "analyzer/model/topology.h"

#define LAYER_CALLS 4 /* of a layer of tensor parallel ranks for a microbatch, at the least */
#define ALIKE 0.8     /* of the calls carry messages of one size */
#define HIDDEN 0.5    /* of its communication runs beside compute: gradients */
#define WAITED_FOR .2 /* ... less of it does: activations */
#define OFTEN 16      /* calls a step of tensor parallel ranks that span nodes */
#define REDUCED 0.1   /* of the calls are all-reduces: activations */
#define GATHERED 3    /* calls before the first gradients are reduced: weights, layer by layer */
#define AGREED 0.8    /* of the steps */

/* Distance between the ranks of neighbouring members; 0: not known or uneven. */
int argus_group_stride(const struct argus_model *m, const struct argus_group *g)
{
    int found = 0;

    for (uint32_t i = 1; i < g->size; i++) {
        int a = g->members[i - 1], b = g->members[i], d;

        if (a < 0 || b < 0)
            continue;
        d = m->ranks[b].rank - m->ranks[a].rank;
        if (found && d != found)
            return 0;
        found = d;
    }
    return found;
}

/* Sends a step from a stage to the next: microbatches. */
static double microbatches(const struct argus_model *m)
{
    double most = 0;

    for (size_t c = 0; c < m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &m->comm_classes[c];

        if (m->groups[cc->group].kind == ARGUS_GROUP_PP && cc->from >= 0 && cc->count > most)
            most = cc->count;
    }
    return most;
}

/* A group that is all of its stage: tensor parallel, or data parallel without tensor?  Activations
 * are exchanged in every layer of every microbatch, in messages of one size, and computing waits for
 * them; gradients once, in any sizes, and beside other work where that can be.  OTHER: may be both. */
static enum argus_group_kind kind_of_stage(const struct argus_model *m, size_t g)
{
    double batches = microbatches(m), calls = 0, alike = 0, hidden = 0, comm = 0;

    for (size_t c = 0; c < m->n_comm_classes; c++) {
        double same = 0;

        if ((size_t)m->comm_classes[c].group != g)
            continue;
        calls += m->comm_classes[c].count;
        for (size_t o = 0; o < m->n_comm_classes; o++)
            if ((size_t)m->comm_classes[o].group == g &&
                m->comm_classes[o].bytes == m->comm_classes[c].bytes)
                same += m->comm_classes[o].count;
        alike = same > alike ? same : alike;
    }
    for (uint32_t i = 0; i < m->groups[g].size; i++) {
        int r = m->groups[g].members[i];
        double all = r < 0 ? NAN : argus_model_rank_median(m, (size_t)r, ARGUS_COL_COMM);

        if (!(all > 0))
            continue;
        comm += all;
        hidden += all - argus_model_rank_median(m, (size_t)r, ARGUS_COL_EXPOSED);
    }
    if (!(batches > 0) || !(calls > 0) || !(comm > 0))
        return ARGUS_GROUP_OTHER;
    if (hidden >= HIDDEN * comm || calls < LAYER_CALLS * batches || alike < ALIKE * calls ||
        fmod(alike, batches) != 0)
        return ARGUS_GROUP_DP;
    return hidden < WAITED_FOR * comm ? ARGUS_GROUP_TP : ARGUS_GROUP_OTHER;
}

/* Calls a step of one function in a group that the rank is in; -1: of any. */
static double calls_of(const struct argus_model *m, const struct argus_model_rank *r, size_t g,
                       int func)
{
    double calls = 0;

    for (size_t i = 0; i < r->n_comms; i++) {
        const struct argus_comm_class *c = &m->comm_classes[r->comms[i].comm_class];

        if ((size_t)c->group == g && (func < 0 || c->func == func))
            calls += c->count;
    }
    return calls;
}

/* Sequence of the first call of a class in a row of its rank; ARGUS_NONE: none, or not known. */
static uint32_t sequence_at(const struct argus_rank_comm *c, int row)
{
    if (c->count && !(c->count[row] > 0))
        return ARGUS_NONE;
    if (c->first_seq)
        return c->first_seq[row];
    return c->seq_per_step ? c->usual_seq + c->seq_per_step * (uint32_t)(row - c->usual_row)
                           : ARGUS_NONE;
}

/* Calls of a group in a row before its first reduce-scatter; -1: not known. */
static int64_t calls_before_reducing(const struct argus_model *m, const struct argus_model_rank *r,
                                     size_t g, int row)
{
    uint32_t first = ARGUS_NONE, reduced = ARGUS_NONE;

    for (size_t i = 0; i < r->n_comms; i++) {
        const struct argus_comm_class *c = &m->comm_classes[r->comms[i].comm_class];
        uint32_t seq;

        if ((size_t)c->group != g)
            continue;
        seq = sequence_at(&r->comms[i], row);
        first = seq < first ? seq : first;
        if (c->func == ARGUS_FUNC_REDUCESCATTER && seq < reduced)
            reduced = seq;
    }
    return reduced == ARGUS_NONE ? -1 : (int64_t)reduced - first;
}

/* Neighbours that gather and scatter: shards of weights (data parallel) are gathered for several
 * layers before the first gradients are there, activations (sequence parallel) in turn.  TP where it
 * is neither, OTHER: may be both. */
static enum argus_group_kind kind_of_neighbours(const struct argus_model *m, size_t g)
{
    const struct argus_group *gr = &m->groups[g];
    const struct argus_model_rank *r = NULL;
    int many = 0, few = 0, rows = 0;

    for (uint32_t i = 0; i < gr->size && !r; i++)
        r = gr->members[i] >= 0 ? &m->ranks[gr->members[i]] : NULL;
    if (!r || !(calls_of(m, r, g, ARGUS_FUNC_ALLGATHER) > 0) ||
        !(calls_of(m, r, g, ARGUS_FUNC_REDUCESCATTER) > 0) ||
        calls_of(m, r, g, ARGUS_FUNC_ALLREDUCE) >= REDUCED * calls_of(m, r, g, -1))
        return ARGUS_GROUP_TP;
    for (int row = 0; row < r->n_rows; row++) {
        int64_t before = r->start[row] ? calls_before_reducing(m, r, g, row) : -1;

        rows += before >= 0;
        many += before >= GATHERED;
        few += before >= 0 && before < GATHERED - 1;
    }
    return many && many >= AGREED * rows ? ARGUS_GROUP_DP
           : few && few >= AGREED * rows ? ARGUS_GROUP_TP
                                         : ARGUS_GROUP_OTHER;
}

/* What the groups that are left over have in common. */
struct grid {
    int least, most;             /* strides */
    int world;                   /* 1: a group of all ranks */
    double calls;                /* a step, of the closest */
    enum argus_group_kind stage; /* of groups that are all of their stage */
};

static struct grid survey(const struct argus_model *m)
{
    struct grid grid = {.stage = ARGUS_GROUP_OTHER};
    int stages = 0;

    for (size_t g = 0; g < m->n_groups; g++) {
        const struct argus_group *gr = &m->groups[g];
        int s = argus_group_stride(m, gr);

        if (gr->kind != ARGUS_GROUP_OTHER || gr->size < 2 || gr->per_step <= 0 || gr->pseudo)
            continue;
        if ((int)gr->size == m->world) {
            grid.world = 1;
            continue;
        }
        if (s > 0 && (!grid.least || s < grid.least)) {
            grid.least = s;
            grid.calls = gr->per_step;
        }
        grid.most = s > grid.most ? s : grid.most;
        if (argus_group_is_stage(m, gr)) {
            enum argus_group_kind kind = kind_of_stage(m, g);

            grid.stage = !stages++ || grid.stage == kind ? kind : ARGUS_GROUP_OTHER;
        }
    }
    return grid;
}

static enum argus_group_kind kind_in(const struct argus_model *m, const struct grid *grid,
                                     const struct argus_group *gr)
{
    if (grid->least != 1 || argus_group_stride(m, gr) != 1)
        return ARGUS_GROUP_DP;
    if (grid->most > grid->least)
        return ARGUS_GROUP_TP;
    if (argus_group_is_stage(m, gr))
        return grid->stage;
    return grid->world || gr->nodes <= 1 || grid->calls >= OFTEN ? ARGUS_GROUP_TP : ARGUS_GROUP_DP;
}

/* The groups left over are gradients (DP) or activations (TP): activations go between neighbours,
 * often and with every layer. */
void argus_topology_settle(struct argus_model *m)
{
    struct grid grid = survey(m);
    int smaller = 0;

    for (size_t g = 0; g < m->n_groups; g++) {
        struct argus_group *gr = &m->groups[g];

        if ((int)gr->size >= m->world)
            continue;
        if (gr->kind == ARGUS_GROUP_OTHER && gr->size >= 2) {
            gr->kind = kind_in(m, &grid, gr);
            if (gr->kind == ARGUS_GROUP_TP)
                gr->kind = kind_of_neighbours(m, g);
        }
        smaller |= gr->kind == ARGUS_GROUP_TP || gr->kind == ARGUS_GROUP_DP;
    }
    /* all ranks carry gradients unless fewer do */
    for (size_t g = 0; g < m->n_groups; g++)
        if (m->groups[g].kind == ARGUS_GROUP_OTHER && (int)m->groups[g].size == m->world &&
            m->world > 1)
            m->groups[g].kind = smaller || m->topology.pp > 1 ? ARGUS_GROUP_WORLD : ARGUS_GROUP_DP;
}
