/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: the ranks' records joined by hash. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/digest.h"

struct entry {
    uint64_t hash;
    size_t rank; /* index */
    struct argus_digest_comm *comm;
};

static int entry_cmp(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Our position in "0,4,8,12"; *size: how many there are; -1: not among them. */
static int position_in(const char *members, int rank, uint32_t *size)
{
    int at = -1;
    uint32_t n = 0;

    for (const char *p = members; *p;) {
        char *end;
        long v = strtol(p, &end, 10);

        if (end == p)
            break;
        if (v == rank && at < 0)
            at = (int)n;
        n++;
        p = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            break;
    }
    if (n)
        *size = n;
    return at;
}

static size_t collect(struct argus_model_build *b, struct entry *entries)
{
    size_t n = 0;

    for (size_t i = 0; i < b->m->n_ranks; i++)
        for (size_t c = 0; c < b->digests[i]->n_comms; c++) {
            struct argus_digest_comm *comm = &b->digests[i]->comms[c];
            uint32_t size = comm->row.size;
            int at = position_in(comm->members, b->m->ranks[i].rank, &size);

            comm->position = at >= 0                           ? at
                             : comm->row.rank < comm->row.size ? (int)comm->row.rank
                                                               : -1;
            comm->row.size = size;
            comm->group = -1;
            if (comm->row.hash && size <= 1u << 24)
                entries[n++] = (struct entry){comm->row.hash, i, comm};
        }
    return n;
}

static int add_group(struct argus_model_build *b, struct entry *e, size_t n)
{
    struct argus_model *m = b->m;
    struct argus_group *g = &m->groups[m->n_groups];
    int last_node = -1, known = 1;

    g->hash = e[0].hash;
    for (size_t i = 0; i < n; i++) {
        if (e[i].comm->row.size > g->size)
            g->size = e[i].comm->row.size;
        known &= e[i].comm->position >= 0;
    }
    if (g->size < n || !known)
        g->size = g->size < n ? (uint32_t)n : g->size;
    g->members = malloc(g->size * sizeof(int));
    if (!g->members)
        return -1;
    for (uint32_t i = 0; i < g->size; i++)
        g->members[i] = -1;
    for (size_t i = 0; i < n; i++) {
        int at = known ? e[i].comm->position : (int)i;

        if (at < 0 || (uint32_t)at >= g->size ||
            (g->members[at] >= 0 && g->members[at] != (int)e[i].rank))
            continue;
        g->present += g->members[at] < 0;
        g->members[at] = (int)e[i].rank;
        e[i].comm->position = at;
        e[i].comm->group = (int)m->n_groups;
        if (!g->name && e[i].comm->name[0])
            g->name = strdup(e[i].comm->name);
    }
    for (uint32_t i = 0; i < g->size; i++)
        if (g->members[i] >= 0 && m->ranks[g->members[i]].node != last_node) {
            int seen = 0, node = m->ranks[g->members[i]].node;

            for (uint32_t j = 0; j < i && !seen; j++)
                seen = g->members[j] >= 0 && m->ranks[g->members[j]].node == node;
            g->nodes += !seen;
            last_node = node;
        }
    m->n_groups++;
    return 0;
}

/* Calls whose communicator is not known, on all ranks: one group in order of rank, if it turns out to match. */
static int add_unknown(struct argus_model_build *b)
{
    struct argus_model *m = b->m;
    struct argus_group *g = &m->groups[m->n_groups];
    int any = 0;

    for (size_t i = 0; i < m->n_ranks; i++)
        for (size_t c = 0; c < b->digests[i]->n_comm_classes; c++) {
            const struct argus_digest_comm_class *cc = &b->digests[i]->comm_classes[c];

            any |= cc->data.sum && (cc->comm < 0 || b->digests[i]->comms[cc->comm].group < 0);
        }
    if (!any)
        return 0;
    g->pseudo = 1;
    g->size = (uint32_t)m->n_ranks;
    g->present = m->n_ranks;
    g->nodes = (int)m->n_nodes;
    g->members = malloc(m->n_ranks * sizeof(int));
    if (!g->members)
        return -1;
    for (size_t i = 0; i < m->n_ranks; i++)
        g->members[i] = (int)i;
    b->unknown_group = (int)m->n_groups++;
    return 0;
}

int argus_model_build_groups(struct argus_model_build *b, argus_error_t *err)
{
    struct argus_model *m = b->m;
    struct entry *entries;
    size_t total = 0, n, distinct = 0;
    int rc = -1;

    for (size_t i = 0; i < m->n_ranks; i++)
        total += b->digests[i]->n_comms;
    entries = malloc((total + 1) * sizeof(*entries));
    if (!entries)
        return argus_error(err, "%s: no memory", m->dir);
    n = collect(b, entries);
    if (n)
        qsort(entries, n, sizeof(*entries), entry_cmp);
    for (size_t i = 0; i < n; i++)
        distinct += i == 0 || entries[i].hash != entries[i - 1].hash;
    m->groups = calloc(distinct + 1, sizeof(*m->groups));
    if (!m->groups)
        goto out;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && entries[j].hash == entries[i].hash; j++)
            ;
        if (add_group(b, &entries[i], j - i))
            goto out;
    }
    rc = add_unknown(b);
out:
    if (rc)
        argus_error(err, "%s: no memory", m->dir);
    free(entries);
    return rc;
}
