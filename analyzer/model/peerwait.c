/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/peerwait.h"
#include "analyzer/timeline/timeline_io.h"

#define SEND_WAIT 9 /* NCCL's proxy state: the data are with the network */
#define CLASSES_MAX (1u << 22)
#define ROWS_MAX (1u << 28)

static int group_of(const struct argus_model *m, uint64_t hash)
{
    for (size_t g = 0; g < m->n_groups; g++)
        if (m->groups[g].hash == hash && !m->groups[g].pseudo)
            return (int)g;
    return -1;
}

/* The edge that a class stands for; 0: none that is known. */
static int edge_of(const struct argus_model *m, int rank, const struct argus_class_row *c,
                   const struct argus_comm_row *comms, size_t n_comms, struct argus_send_wait *w)
{
    const struct argus_group *g;
    int group;

    if (c->kind != ARGUS_CLASS_PEER_WAIT || c->func != SEND_WAIT || c->comm >= n_comms)
        return 0;
    if ((group = group_of(m, comms[c->comm].hash)) < 0)
        return 0;
    g = &m->groups[group];
    if (c->peer < 0 || (uint32_t)c->peer >= g->size || g->members[c->peer] < 0 ||
        g->members[c->peer] == rank)
        return 0;
    *w = (struct argus_send_wait){group, rank, g->members[c->peer], 0, 0};
    return 1;
}

static void add_rows(const struct argus_step_comm_row *rows, size_t n, int first, int end,
                     const int *edge, size_t n_classes, struct argus_send_wait *waits)
{
    for (size_t i = 0; i < n; i++) {
        const struct argus_step_comm_row *r = &rows[i];

        if (r->class_id >= n_classes || edge[r->class_id] < 0 || r->step < first ||
            r->step >= end || r->sum < 0)
            continue;
        waits[edge[r->class_id]].sum += (double)r->sum;
        waits[edge[r->class_id]].count += r->count;
    }
}

int argus_model_send_waits(const struct argus_model *m, size_t rank_index, int first, int end,
                           struct argus_send_wait **waits, size_t *n, argus_error_t *err)
{
    const struct argus_model_rank *r = &m->ranks[rank_index];
    struct argus_class_row *classes = NULL;
    argus_timeline_t *t;
    struct argus_comm_row *comms = NULL;
    struct argus_step_comm_row *rows = NULL;
    size_t n_classes = 0, n_comms = 0, n_rows = 0;
    int *edge = NULL, rc = -1;

    *waits = NULL;
    *n = 0;
    if (!r->has_peer_waits)
        return 0;
    if (!(t = argus_timeline_open(r->path, err)))
        return -1;
    if (!(classes = argus_timeline_read_all(t, ARGUS_DS_CLASSES, CLASSES_MAX, &n_classes, err)) ||
        !(comms = argus_timeline_read_all(t, ARGUS_DS_COMMS, CLASSES_MAX, &n_comms, err)))
        goto out;
    edge = malloc((n_classes + 1) * sizeof(*edge));
    *waits = calloc(n_classes + 1, sizeof(**waits));
    if (!edge || !*waits) {
        argus_error(err, "%s: no memory", r->path);
        goto out;
    }
    for (size_t i = 0; i < n_classes; i++) {
        edge[i] = -1;
        if (edge_of(m, (int)rank_index, &classes[i], comms, n_comms, &(*waits)[*n]))
            edge[i] = (int)(*n)++;
    }
    if (*n) {
        rows = argus_timeline_read_all(t, ARGUS_DS_STEP_COMM, ROWS_MAX, &n_rows, err);
        if (!rows)
            goto out;
        add_rows(rows, n_rows, first - r->shift, end - r->shift, edge, n_classes, *waits);
    }
    rc = 0;
out:
    if (rc) {
        free(*waits);
        *waits = NULL;
        *n = 0;
    }
    free(edge);
    free(rows);
    free(comms);
    free(classes);
    argus_timeline_close(t);
    return rc;
}
