/* SPDX-License-Identifier: Apache-2.0 */
/* Rank, world, node: from a launcher's environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simtrain.h"

static int env_int(const char *name, int otherwise)
{
    const char *v = getenv(name);
    char *end;
    long n;

    if (!v || !*v)
        return otherwise;
    n = strtol(v, &end, 10);
    return *end == '\0' && n >= 0 && n < 1 << 20 ? (int)n : otherwise;
}

/* RANK beats the task's number: a launcher below one task may start many. */
static void find_rank(struct identity *self)
{
    static const char *const pairs[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"ARGUS_RANK", "ARGUS_WORLD"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}};

    self->rank = 0;
    self->world = 1;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int rank = env_int(pairs[i][0], -1), world = env_int(pairs[i][1], -1);

        if (rank >= 0 && world > 0) {
            self->rank = rank;
            self->world = world;
            return;
        }
    }
}

static void find_node(struct identity *self, const struct options *o)
{
    static const char *const names[] = {"ARGUS_NODE", "SLURMD_NODENAME"};

    self->local_rank =
        env_int("LOCAL_RANK", env_int("ARGUS_LOCAL_RANK", env_int("SLURM_LOCALID", self->rank)));
    if (o->ranks_per_node > 0) {
        self->local_rank = self->rank % o->ranks_per_node;
        snprintf(self->node, sizeof(self->node), "node%d", self->rank / o->ranks_per_node);
        return;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *v = getenv(names[i]);

        if (v && *v) {
            snprintf(self->node, sizeof(self->node), "%s", v);
            return;
        }
    }
    if (gethostname(self->node, sizeof(self->node)) < 0)
        snprintf(self->node, sizeof(self->node), "localhost");
    self->node[sizeof(self->node) - 1] = '\0';
}

static void find_run(struct identity *self)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    const char *dir = getenv("ARGUS_DIR"), *port = getenv("MASTER_PORT");

    if (getenv("SIMTRAIN_RUN"))
        snprintf(self->run, sizeof(self->run), "run %s", getenv("SIMTRAIN_RUN"));
    else if (port && getenv("RANK"))
        snprintf(self->run, sizeof(self->run), "port %s", port);
    else if (job && step)
        snprintf(self->run, sizeof(self->run), "slurm %s.%s", job, step);
    else if (dir && getenv("ARGUS_RANK"))
        snprintf(self->run, sizeof(self->run), "argus %s %s", dir,
                 getenv("ARGUS_STEP") ? getenv("ARGUS_STEP") : "0");
    else
        snprintf(self->run, sizeof(self->run), "parent %d", (int)getppid());
}

void identity_find(struct identity *self, const struct options *o)
{
    memset(self, 0, sizeof(*self));
    find_rank(self);
    find_node(self, o);
    find_run(self);
}
