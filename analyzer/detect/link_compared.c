/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways that only their own past was held against.
 *
 * Had they been slow from the first step, and all of them alike, nothing in
 * the data would show it: an `ok` does not speak for them, and a note says so.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/link.h"

#define COMPARED                                                                                   \
    0.1         /* of what a node's ways carry: a few bytes of a loss prove nothing of a link */
#define NAMES 4 /* nodes in a sentence */

struct ways {
    const struct argus_model *m;
    const struct argus_link_shape *all;
    size_t n;
    int inter;
    uint64_t *where;        /* [n_comm_classes] key of the nodes, or GPUs, between which it runs */
    int *members;           /* [n_shapes] */
    char *elsewhere;        /* [n_shapes] 1: it is found between others, too */
    double *bytes, *proven; /* [n_nodes] a step; of which something else carries as much */
};

/* A pair's calls are of two of the communicator's members. */
static int takes_part(const struct argus_comm_class *c, uint32_t member)
{
    return !argus_comm_is_pair(c) || member == (uint32_t)c->from || member == (uint32_t)c->to;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ULL;
    return x ^ (x >> 29);
}

/* Does the class count for the kind of way that is looked at? */
static int counts(const struct ways *w, const struct argus_comm_class *c)
{
    return argus_comm_crosses_nodes(w->m, c) == w->inter && argus_link_regular(w->m, c);
}

/* Nodes of a class, each once: calls `visit`.  Ways within nodes have one. */
static void each_node(struct ways *w, const struct argus_comm_class *c, char *seen,
                      void (*visit)(struct ways *w, int cc, int node))
{
    const struct argus_group *g = &w->m->groups[c->group];
    int cc = (int)(c - w->m->comm_classes);

    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < g->size; i++) {
            int r = takes_part(c, i) ? g->members[i] : -1, node = r < 0 ? -1 : w->m->ranks[r].node;

            if (node >= 0 && !pass && !seen[node])
                visit(w, cc, node);
            if (node >= 0)
                seen[node] = !pass;
        }
}

static void add_key(struct ways *w, int cc, int node)
{
    w->where[cc] += mix((uint64_t)node + 1);
}

static void add_proof(struct ways *w, int cc, int node)
{
    const struct argus_comm_class *c = &w->m->comm_classes[cc];

    w->proven[node] += c->count * (double)c->bytes;
}

static void add_bytes(struct ways *w, int cc, int node)
{
    const struct argus_comm_class *c = &w->m->comm_classes[cc];

    w->bytes[node] += c->count * (double)c->bytes;
}

/* A ring whose ways were held against one another: its proxies said how long each took. */
static int by_edges(const struct argus_model *m, const struct argus_comm_class *c)
{
    const struct argus_group *g = &m->groups[c->group];

    if (argus_comm_is_pair(c) || g->nodes < 3 || g->present > ARGUS_LINK_TIMELINES)
        return 0;
    for (uint32_t i = 0; i < g->size; i++)
        if (g->members[i] < 0 || !m->ranks[g->members[i]].has_peer_waits)
            return 0;
    return 1;
}

/* Keys of the classes; which shapes run in more than one place. */
static void find_places(struct ways *w, char *seen)
{
    const struct argus_model *m = w->m;
    int *first = w->members; /* class + 1 until all are seen */

    for (size_t i = 0; i < w->n; i++) {
        const struct argus_comm_class *c = &m->comm_classes[w->all[i].cc];
        const struct argus_group *g = &m->groups[c->group];
        int shape = w->all[i].shape;

        if (!counts(w, c))
            continue;
        if (w->inter)
            each_node(w, c, seen, add_key);
        for (uint32_t j = 0; !w->inter && j < g->size; j++)
            if (takes_part(c, j))
                w->where[w->all[i].cc] += mix((uint64_t)g->members[j] + 1);
        if (!first[shape])
            first[shape] = w->all[i].cc + 1;
        else if (w->where[first[shape] - 1] != w->where[w->all[i].cc])
            w->elsewhere[shape] = 1;
    }
    memset(w->members, 0, (w->n + 1) * sizeof(*w->members));
    for (size_t i = 0; i < w->n; i++)
        w->members[w->all[i].shape] += counts(w, &m->comm_classes[w->all[i].cc]);
}

static void find_proofs(struct ways *w, char *seen)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct argus_comm_class *c = &w->m->comm_classes[w->all[i].cc];
        int kin = w->members[w->all[i].shape], proof = w->elsewhere[w->all[i].shape];

        if (!counts(w, c))
            continue;
        if (kin < ARGUS_LINK_MIN_SIBLINGS && c->bytes != c->bytes_max)
            proof = 0; /* two of uneven messages are not held against one another */
        else if (kin < ARGUS_LINK_MIN_SIBLINGS && w->inter && by_edges(w->m, c))
            proof = 1;
        each_node(w, c, seen, add_bytes);
        if (proof)
            each_node(w, c, seen, add_proof);
    }
}

static void name_nodes(const struct argus_model *m, const int *nodes, size_t n, char *text,
                       size_t size)
{
    size_t at = 0, shown = n > NAMES ? NAMES - 1 : n;

    *text = '\0';
    for (size_t i = 0; i < shown && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%.60s",
                               !i                             ? ""
                               : i + 1 == shown && n == shown ? " and "
                                                              : ", ",
                               m->nodes[nodes[i]]);
    if (shown < n && at < size)
        snprintf(text + at, size - at, " and %zu more", n - shown);
}

static void write_note(const struct ways *w, int *nodes, char *text, size_t size)
{
    const struct argus_model *m = w->m;
    char names[NAMES * 64 + 32];
    size_t n = 0;

    for (size_t i = 0; i < m->n_nodes; i++)
        if (w->bytes[i] > 0 && w->proven[i] < COMPARED * w->bytes[i])
            nodes[n++] = (int)i;
    name_nodes(m, nodes, n, names, sizeof(names));
    if (n)
        snprintf(text, size,
                 "links %s node%s %s: nothing like them elsewhere to compare with, only their own "
                 "past; if all of them were slow from the first step, it does not show",
                 !w->inter ? "within"
                 : n == 1  ? "out of"
                           : "between",
                 n == 1 ? "" : "s", names);
}

/* Slow ones among them are known to be slow. */
static int blamed(const struct argus_model *m, const struct argus_evidence_list *list, int inter)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t j = 0; j < list->items[i].n_comm_classes; j++)
            if (argus_comm_crosses_nodes(m, &m->comm_classes[list->items[i].comm_classes[j]]) ==
                inter)
                return 1;
    return 0;
}

int argus_links_not_compared(const struct argus_model *m, const struct argus_evidence_list *list,
                             int inter, char *text, size_t size)
{
    struct ways w = {.m = m, .inter = inter};
    struct argus_link_shape *all = NULL;
    char *seen = calloc(m->n_nodes + 1, 1);
    int *nodes = calloc(m->n_nodes + 1, sizeof(*nodes)), n_shapes = 0, rc = -1;

    *text = '\0';
    w.all = all = argus_link_shapes(m, 1, &w.n, &n_shapes);
    w.where = calloc(m->n_comm_classes + 1, sizeof(*w.where));
    w.members = calloc(w.n + 1, sizeof(*w.members));
    w.elsewhere = calloc(w.n + 1, 1);
    w.bytes = calloc(m->n_nodes + 1, sizeof(*w.bytes));
    w.proven = calloc(m->n_nodes + 1, sizeof(*w.proven));
    if (seen && nodes && all && w.where && w.members && w.elsewhere && w.bytes && w.proven) {
        find_places(&w, seen);
        find_proofs(&w, seen);
        if (!blamed(m, list, inter))
            write_note(&w, nodes, text, size);
        rc = 0;
    }
    free(seen);
    free(nodes);
    free(all);
    free(w.where);
    free(w.members);
    free(w.elsewhere);
    free(w.bytes);
    free(w.proven);
    return rc;
}
