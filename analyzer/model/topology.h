/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of telling what the communicators are for (topology.c puts them in order). */
#ifndef ARGUS_MODEL_TOPOLOGY_H
#define ARGUS_MODEL_TOPOLOGY_H

#include "analyzer/model/digest.h"

/* Distance between the ranks of neighbouring members; 0: not known or uneven. */
int argus_group_stride(const struct argus_model *m, const struct argus_group *g);
/* A stage of a pipeline and nothing less?  Once the stages are known. */
static inline int argus_group_is_stage(const struct argus_model *m, const struct argus_group *g)
{
    return m->topology.pp > 1 && (int)g->size * m->topology.pp == m->world;
}

/* Ranks' shards and expert parallel groups; where a rank is in more than one the largest has them. */
void argus_topology_shards(struct argus_model *m);
/* Groups of no kind or data parallel that are of experts' replicas become EDP.  -1: no memory. */
int argus_topology_expert_data(struct argus_model *m);
/* Groups of no kind become tensor or data parallel or all ranks, or stay as they are: may be both. */
void argus_topology_settle(struct argus_model *m);

#endif /* ARGUS_MODEL_TOPOLOGY_H */
