/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the slow link is.
 *
 * A ring slows down as a whole and hides its slow edge.  A unit (a GPU, a
 * node's way to the network, a pair) is a candidate when it lies on slow paths
 * that hold most of the excess and on no fast path of the same kind.  The
 * smallest kind of unit that has candidates is named; several of them are
 * "one of {...}".
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/locate.h"

static int add_candidate(struct argus_link *l, const char *text)
{
    char **c = realloc(l->candidates, (l->n_candidates + 1) * sizeof(*c));

    if (!c)
        return -1;
    l->candidates = c;
    if (!(c[l->n_candidates] = strdup(text)))
        return -1;
    l->n_candidates++;
    return 0;
}

static int unit_text(const struct argus_model *m, const struct argus_link_unit *u, char *text,
                     size_t size)
{
    switch (u->kind) {
    case ARGUS_UNIT_RANK:
        return snprintf(text, size, "rank%d@%s", m->ranks[u->a].rank,
                        m->nodes[m->ranks[u->a].node]);
    case ARGUS_UNIT_PAIR:
        return snprintf(text, size, "rank%d-rank%d", m->ranks[u->a].rank, m->ranks[u->b].rank);
    case ARGUS_UNIT_NODE_PAIR:
        return snprintf(text, size, "%s-%s", m->nodes[u->a], m->nodes[u->b]);
    default:
        return snprintf(text, size, "%s", m->nodes[u->a]);
    }
}

static int blame_node(const struct argus_model *m, struct argus_evidence *e, int node)
{
    e->whole_nodes = 1;
    for (size_t i = 0; i < m->n_ranks; i++)
        if (m->ranks[i].node == node && argus_evidence_rank(e, (int)i))
            return -1;
    return 0;
}

static int name_unit(const struct argus_link_place *p, struct argus_evidence *e,
                     const struct argus_link_unit *u, size_t n, int all_of_them)
{
    const struct argus_model *m = p->m;
    struct argus_link *l = e->link;
    char text[160];

    if (n > 1 && !all_of_them) {
        for (size_t i = 0; i < n; i++) {
            unit_text(m, &u[i], text, sizeof(text));
            if (add_candidate(l, text))
                return -1;
        }
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        switch (u[i].kind) {
        case ARGUS_UNIT_RANK:
            l->rank = m->ranks[u[i].a].rank;
            free(l->node);
            l->node = strdup(m->nodes[m->ranks[u[i].a].node]);
            if (!l->node || argus_evidence_rank(e, u[i].a))
                return -1;
            break;
        case ARGUS_UNIT_PAIR:
            l->rank = m->ranks[u[i].a].rank;
            l->peer = m->ranks[u[i].b].rank;
            l->node = strdup(m->nodes[m->ranks[u[i].a].node]);
            l->peer_node = strdup(m->nodes[m->ranks[u[i].b].node]);
            if (!l->node || !l->peer_node || argus_evidence_rank(e, u[i].a) ||
                argus_evidence_rank(e, u[i].b))
                return -1;
            break;
        case ARGUS_UNIT_NODE_PAIR:
            l->node = strdup(m->nodes[u[i].a]);
            l->peer_node = strdup(m->nodes[u[i].b]);
            if (!l->node || !l->peer_node || blame_node(m, e, u[i].a) || blame_node(m, e, u[i].b))
                return -1;
            break;
        default:
            free(l->node);
            l->node = strdup(m->nodes[u[i].a]);
            if (!l->node || blame_node(m, e, u[i].a))
                return -1;
        }
    return 0;
}

/* The members of the slow groups, as what it may be. */
static int list_gpus(const struct argus_link_place *p, struct argus_evidence *e)
{
    char text[160];
    int r;

    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];

        for (uint32_t j = 0;
             g->slow && g->inter == p->inter && (r = argus_link_member(p->m, g, j)) != -2; j++) {
            struct argus_link_unit u = {ARGUS_UNIT_RANK, r, -1, 0};

            if (r < 0)
                continue;
            unit_text(p->m, &u, text, sizeof(text));
            if (add_candidate(e->link, text))
                return -1;
        }
    }
    return 0;
}

static const char *scope_of(enum argus_link_unit_kind kind, int inter)
{
    switch (kind) {
    case ARGUS_UNIT_PAIR:
    case ARGUS_UNIT_NODE_PAIR:
        return "pair";
    case ARGUS_UNIT_RANK:
        return inter ? "nic" : "gpu";
    case ARGUS_UNIT_NODE:
        return "node";
    default:
        return "fabric";
    }
}

/* Of several candidates the one that the network proxies point at; it moves to the front of `found`. */
static int ask_proxies(struct argus_link_place *p, enum argus_link_unit_kind *kind, size_t *n,
                       struct argus_hot_edge *hot)
{
    static const enum argus_link_unit_kind kinds[] = {[ARGUS_EDGE_RANK] = ARGUS_UNIT_RANK,
                                                      [ARGUS_EDGE_PAIR] = ARGUS_UNIT_PAIR,
                                                      [ARGUS_EDGE_NODE] = ARGUS_UNIT_NODE,
                                                      [ARGUS_EDGE_NODE_PAIR] =
                                                          ARGUS_UNIT_NODE_PAIR};

    if (argus_link_edges(p->m, p->groups, p->n, p->inter, hot))
        return -1;
    if (hot->unit == ARGUS_EDGE_NONE)
        return 0;
    *kind = kinds[hot->unit];
    *n = 1;
    p->found[0] = (struct argus_link_unit){*kind, hot->a, hot->b, 1};
    return 0;
}

static int locate(struct argus_link_place *p, struct argus_evidence_list *out)
{
    struct argus_evidence *e;
    enum argus_link_unit_kind kind;
    double total = 0;
    size_t n = 0;
    int all = 0, only_group = 0, everywhere = 0;
    struct argus_hot_edge hot = {.unit = ARGUS_EDGE_NONE};
    char where[320] = "the network";

    for (size_t i = 0; i < p->n; i++)
        if (p->groups[i].slow && p->groups[i].inter == p->inter)
            total += p->excess[i];
    if (!(total > 0))
        return 0;
    if (argus_link_find_units(p, total))
        return -1;
    kind = argus_link_smallest(p, &n);
    if (kind == ARGUS_UNIT_KINDS) {
        n = argus_link_several(p, &kind);
        all = n > 0;
    }
    if (p->inter && n != 1 && !all && ask_proxies(p, &kind, &n, &hot))
        return -1;
    e = argus_evidence_add(out, "link", ARGUS_VERDICT_SLOW_LINK);
    if (!e || !(e->link = calloc(1, sizeof(*e->link))))
        return -1;
    e->link->rank = e->link->peer = ARGUS_UNKNOWN;
    e->outside = 1;
    /* a whole node's only group: any of its GPUs */
    if (kind == ARGUS_UNIT_NODE && !p->inter)
        only_group = n == 1;
    everywhere = p->inter && n > 1 && n == p->m->n_nodes && kind == ARGUS_UNIT_NODE && !all;
    e->link->scope = strdup(only_group ? "gpu" : everywhere ? "fabric" : scope_of(kind, p->inter));
    if (!e->link->scope || name_unit(p, e, p->found, n, all))
        return -1;
    if (only_group && list_gpus(p, e))
        return -1;
    if (n == 1 || all)
        unit_text(p->m, &p->found[0], where, sizeof(where));
    else if (n > 1)
        snprintf(where, sizeof(where), "one of %zu %s", n,
                 kind == ARGUS_UNIT_RANK   ? "GPUs"
                 : kind == ARGUS_UNIT_NODE ? "nodes"
                                           : "pairs");
    if (argus_link_add_excess(p, e) || argus_link_list_classes(p, e) ||
        argus_link_describe(p, e, where))
        return -1;
    if (hot.unit != ARGUS_EDGE_NONE)
        return argus_evidence_line(e, p->m, -1, "send_wait_us", hot.wait / 1e3, hot.others / 1e3,
                                   "us",
                                   "network proxy, wait for the send on the slow edge; peers: on "
                                   "the other edges of the ring");
    return 0;
}

static int split(struct argus_link_place *p, struct argus_evidence_list *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        struct argus_evidence *e;
        int r;

        if (!g->split || g->inter != p->inter)
            continue;
        e = argus_evidence_add(out, "link", ARGUS_VERDICT_SPLIT);
        if (!e)
            return -1;
        e->outside = 1;
        for (uint32_t j = 0; (r = argus_link_member(p->m, g, j)) != -2; j++) {
            float *x = r < 0 ? NULL : argus_evidence_excess(e, p->m, r);

            if (r >= 0 && (!x || argus_evidence_rank(e, r)))
                return -1;
            for (int k = g->shift.first; x && k < g->shift.end && k < p->m->n_steps; k++)
                if (p->m->use[k] && g->actual[k] > g->expected[k])
                    x[k] = g->actual[k] - g->expected[k];
        }
        e->effect = g->shift.ratio - 1;
        e->persistence = g->shift.persistence;
        e->onset = g->shift.onset >= 0 ? g->shift.onset : ARGUS_UNKNOWN;
        e->phase = "communication";
        e->pattern = "persistent";
        if (argus_evidence_line(e, p->m, -1, "link_residual", g->shift.ratio, 1.0, "ratio",
                                p->m->groups[g->group].name))
            return -1;
        argus_evidence_text(e,
                            "transfers in %s take %.2f times as long as in the only other group of "
                            "that shape; nothing in the job tells which is normal",
                            p->m->groups[g->group].name, g->shift.ratio);
    }
    return 0;
}

int argus_link_locate(const struct argus_model *m, struct argus_link_group *groups, size_t n,
                      struct argus_evidence_list *out)
{
    int rc = 0;

    for (int inter = 0; inter < 2 && !rc; inter++) {
        struct argus_link_place p = {.m = m, .groups = groups, .n = n, .inter = inter};

        p.excess = calloc(n + 1, sizeof(double));
        if (!p.excess)
            return -1;
        for (size_t i = 0; i < n; i++) {
            const struct argus_link_group *g = &groups[i];
            int steps = 0;

            for (int k = g->shift.first; g->slow && k < g->shift.end && k < m->n_steps; k++) {
                double d = g->by_past ? (double)g->total[k] - g->shift.base
                                      : (double)(g->actual[k] - g->expected[k]);

                if (!m->use[k] || isnan(d))
                    continue;
                p.excess[i] += d;
                steps++;
            }
            p.excess[i] = steps && p.excess[i] > 0 ? p.excess[i] / steps : 0;
        }
        rc = locate(&p, out);
        if (!rc)
            rc = split(&p, out);
        free(p.found);
        free(p.excess);
    }
    return rc;
}
