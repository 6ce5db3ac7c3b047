/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the slow link is.
 *
 * A ring slows down as a whole and hides its slow edge.  A unit (a GPU, a
 * node's way to the network, a pair) is a candidate when it lies on slow paths
 * that hold most of the excess and on no fast path of the same kind.  The
 * smallest kind of unit that has candidates is named; several of them are
 * "one of {...}".  Paths within the nodes and paths between them are looked at
 * apart, for a network is not what slows NVLink; where both are slow and cross
 * in one GPU, it is that GPU.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/locate.h"

#define ONSET_NEAR 5 /* steps: what began within them began at once */

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
             g->slow && argus_link_in_place(p, g) && (r = argus_link_member(p->m, g, j)) != -2;
             j++) {
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

static void leave(struct argus_link_place *p)
{
    free(p->found);
    free(p->excess);
    p->found = NULL;
    p->excess = NULL;
    p->n_found = 0;
    p->total = 0;
}

/* What the slow paths of the place take too long, and the units that lie on them. */
static int survey(struct argus_link_place *p)
{
    const struct argus_model *m = p->m;

    leave(p);
    p->excess = calloc(p->n + 1, sizeof(double));
    if (!p->excess)
        return -1;
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        int steps = 0;

        if (!g->slow || !argus_link_in_place(p, g))
            continue;
        for (int k = g->shift.first; k < g->shift.end && k < m->n_steps; k++) {
            double d = g->by_past ? (double)g->total[k] - g->shift.base
                                  : (double)(g->actual[k] - g->expected[k]);

            if (!m->use[k] || isnan(d))
                continue;
            p->excess[i] += d;
            steps++;
        }
        p->excess[i] = steps && p->excess[i] > 0 ? p->excess[i] / steps : 0;
        p->total += p->excess[i];
    }
    return p->total > 0 ? argus_link_find_units(p) : 0;
}

/* The `n` first units found are it: all of them, or one of them. */
static int report(struct argus_link_place *p, enum argus_link_unit_kind kind, size_t n, int all,
                  int crossed, const struct argus_hot_edge *hot, struct argus_evidence_list *out)
{
    struct argus_evidence *e = argus_evidence_add(out, "link", ARGUS_VERDICT_SLOW_LINK);
    int only_group, everywhere;
    char where[320] = "the network";

    if (!e || !(e->link = calloc(1, sizeof(*e->link))))
        return -1;
    e->link->rank = e->link->peer = ARGUS_UNKNOWN;
    e->outside = 1;
    /* a whole node's only group: any of its GPUs */
    only_group = n == 1 && kind == ARGUS_UNIT_NODE && !p->inter;
    everywhere = p->inter > 0 && n > 1 && n == p->m->n_nodes && kind == ARGUS_UNIT_NODE && !all;
    e->link->scope = strdup(only_group   ? "gpu"
                            : everywhere ? "fabric"
                                         : scope_of(kind, p->inter > 0));
    if (!e->link->scope || name_unit(p, e, p->found, n, all))
        return -1;
    if (only_group && list_gpus(p, e))
        return -1;
    if (n == 1 || all) {
        int len = unit_text(p->m, &p->found[0], where, sizeof(where));

        if (crossed && len >= 0 && (size_t)len < sizeof(where))
            snprintf(where + len, sizeof(where) - (size_t)len, " (where slow groups cross)");
    } else if (n > 1)
        snprintf(where, sizeof(where), "one of %zu %s", n,
                 kind == ARGUS_UNIT_RANK   ? "GPUs"
                 : kind == ARGUS_UNIT_NODE ? "nodes"
                                           : "pairs");
    if (argus_link_add_excess(p, e) || argus_link_list_classes(p, e) ||
        argus_link_describe(p, e, where))
        return -1;
    if (hot->unit != ARGUS_EDGE_NONE)
        return argus_evidence_line(e, p->m, -1, "send_wait_us", hot->wait / 1e3, hot->others / 1e3,
                                   "us",
                                   "network proxy, wait for the send on the slow edge; peers: on "
                                   "the other edges of the ring");
    return 0;
}

static int locate(struct argus_link_place *p, struct argus_evidence_list *out)
{
    struct argus_hot_edge hot = {.unit = ARGUS_EDGE_NONE};
    enum argus_link_unit_kind kind;
    size_t n = 0;
    int all = 0;

    if (!(p->total > 0))
        return 0;
    kind = argus_link_smallest(p, &n);
    if (kind == ARGUS_UNIT_KINDS) {
        n = argus_link_several(p, &kind);
        all = n > 0;
    }
    if (p->inter && n != 1 && !all && ask_proxies(p, &kind, &n, &hot))
        return -1;
    return report(p, kind, n, all, 0, &hot, out);
}

/* Paths of one kind: when they got slow, and until when. */
struct span {
    int any, onset, recovered;
};

static void add_to_span(struct span *t, const struct argus_link_group *g)
{
    if (!t->any)
        t->onset = t->recovered = ARGUS_UNKNOWN;
    t->any = 1;
    if (g->shift.onset >= 0 && (t->onset < 0 || g->shift.onset < t->onset))
        t->onset = g->shift.onset;
    if (g->shift.recovered > t->recovered)
        t->recovered = g->shift.recovered;
}

static int near(int a, int b)
{
    return (a < 0) == (b < 0) && (a < 0 || abs(a - b) <= ONSET_NEAR);
}

static int at_once(const struct span *a, const struct span *b)
{
    return !a->any || !b->any || (near(a->onset, b->onset) && near(a->recovered, b->recovered));
}

/* Did the ways within the nodes and those between them get slow at once, and those that are one of
 * two with the others? */
static int all_at_once(const struct argus_link_group *groups, size_t n)
{
    struct span place[2] = {{0}}, sure[2] = {{0}};

    for (size_t i = 0; i < n; i++)
        if (groups[i].slow) {
            add_to_span(&place[groups[i].inter], &groups[i]);
            add_to_span(&sure[groups[i].split], &groups[i]);
        }
    return at_once(&place[0], &place[1]) && at_once(&sure[0], &sure[1]);
}

/* Do the network proxies, where they were listened to, say that it is something else? */
static int contradicted(const struct argus_hot_edge *hot, const struct argus_link_unit *u)
{
    if (hot->unit == ARGUS_EDGE_NONE)
        return 0;
    return u->kind == ARGUS_UNIT_RANK ? hot->unit != ARGUS_EDGE_RANK || hot->a != u->a
                                      : hot->unit == ARGUS_EDGE_NODE && hot->a != u->a;
}

/* Slow paths within a node and slow ones between nodes that cross in one GPU, or in one node, and
 * got slow at once: one fault there explains all of them.  So do paths of which one is the slower
 * of two.  Returns 1 if so, and adds it. */
static int crossing(const struct argus_link_place *places, struct argus_evidence_list *out)
{
    struct argus_link_place both = {
        .m = places[0].m, .groups = places[0].groups, .n = places[0].n, .inter = ARGUS_LINK_BOTH};
    struct argus_hot_edge hot;
    struct argus_link_unit unit;
    int rc;

    if (!argus_link_common(&places[0], &places[1], &unit) || !all_at_once(both.groups, both.n))
        return 0;
    if (argus_link_edges(both.m, both.groups, both.n, 1, &hot))
        return -1;
    if (contradicted(&hot, &unit))
        return 0;
    rc = survey(&both);
    if (!rc) {
        both.found[0] = unit;
        rc = report(&both, unit.kind, 1, 0, 1, &hot, out);
    }
    leave(&both);
    return rc ? -1 : 1;
}

static int split(struct argus_link_place *p, struct argus_evidence_list *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        struct argus_evidence *e;
        int r;

        if (!g->split || g->slow || g->inter != p->inter)
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

/* Count the slower of two paths among the slow ones, or not; returns how many there are. */
static size_t count_halves(struct argus_link_group *groups, size_t n, int slow)
{
    size_t halves = 0;

    for (size_t i = 0; i < n; i++)
        if (groups[i].split) {
            groups[i].slow = slow;
            halves++;
        }
    return halves;
}

static int survey_both(struct argus_link_place *places)
{
    return survey(&places[0]) || survey(&places[1]) ? -1 : 0;
}

int argus_link_locate(const struct argus_model *m, struct argus_link_group *groups, size_t n,
                      struct argus_evidence_list *out)
{
    struct argus_link_place places[2];
    int crossed, rc;

    for (int inter = 0; inter < 2; inter++)
        places[inter] = (struct argus_link_place){.m = m, .groups = groups, .n = n, .inter = inter};
    rc = crossed = survey_both(places);
    if (!rc && places[0].total > 0 && places[1].total > 0)
        crossed = crossing(places, out);
    if (!crossed && places[0].total + places[1].total > 0 && count_halves(groups, n, 1)) {
        crossed = survey_both(places) ? -1 : crossing(places, out);
        if (!crossed) {
            count_halves(groups, n, 0);
            crossed = survey_both(places);
        }
    }
    rc = crossed < 0 ? -1 : 0;
    for (int inter = 0; inter < 2 && !rc; inter++)
        rc = (!crossed && locate(&places[inter], out)) || split(&places[inter], out) ? -1 : 0;
    leave(&places[0]);
    leave(&places[1]);
    return rc;
}
