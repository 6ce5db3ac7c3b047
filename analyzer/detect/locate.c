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

#include "analyzer/detect/link.h"
#include "analyzer/stats/stats.h"

#define EXPLAINS 0.8
#define MAX_CULPRITS 4
#define MAX_CANDIDATES 16

enum unit_kind { UNIT_PAIR, UNIT_RANK, UNIT_NODE_PAIR, UNIT_NODE, UNIT_KINDS };

struct unit {
    enum unit_kind kind;
    int a, b; /* rank indices or nodes */
    double explained;
};

struct place {
    const struct argus_model *m;
    struct argus_link_group *groups;
    size_t n;
    double *excess; /* by path: ns a step */
    int inter;      /* the kind of path looked at */
    struct unit *found;
    size_t n_found;
};

static int member(const struct argus_model *m, const struct argus_link_group *g, uint32_t i)
{
    const struct argus_group *gr = &m->groups[g->group];

    if (!g->pair)
        return i < gr->size ? gr->members[i] : -2;
    if (i >= 2)
        return -2;
    return gr->members[i ? g->to : g->from];
}

/* Does the path use the unit? */
static int uses(const struct argus_model *m, const struct argus_link_group *g, const struct unit *u)
{
    int a = 0, b = 0, r;

    for (uint32_t i = 0; (r = member(m, g, i)) != -2; i++) {
        if (r < 0)
            continue;
        if (u->kind == UNIT_PAIR || u->kind == UNIT_RANK) {
            a |= r == u->a;
            b |= r == u->b;
        } else {
            a |= m->ranks[r].node == u->a;
            b |= m->ranks[r].node == u->b;
        }
    }
    return u->kind == UNIT_RANK || u->kind == UNIT_NODE ? a : a && b;
}

static void consider(struct place *p, struct unit u, double total)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];

        if (g->inter != p->inter || !uses(p->m, g, &u))
            continue;
        if (g->slow)
            u.explained += p->excess[i];
        else if (g->compared)
            return; /* the same way is fast for others */
    }
    u.explained /= total;
    if (u.explained > 0)
        p->found[p->n_found++] = u;
}

static int known(const struct place *p, const struct unit *u)
{
    for (size_t i = 0; i < p->n_found; i++)
        if (p->found[i].kind == u->kind && p->found[i].a == u->a && p->found[i].b == u->b)
            return 1;
    return 0;
}

/* Every unit that lies on a slow path. */
static int find_units(struct place *p, double total)
{
    const struct argus_model *m = p->m;
    size_t room = 4 * m->n_ranks + 2 * p->n + 16;

    p->found = calloc(room, sizeof(*p->found));
    if (!p->found)
        return -1;
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        int r, other;

        if (!g->slow || g->inter != p->inter)
            continue;
        for (uint32_t j = 0; (r = member(m, g, j)) != -2; j++) {
            struct unit rank = {UNIT_RANK, r, -1, 0};
            struct unit node = {UNIT_NODE, r >= 0 ? m->ranks[r].node : -1, -1, 0};

            if (r < 0)
                continue;
            if (!known(p, &rank) && p->n_found < room)
                consider(p, rank, total);
            if (!known(p, &node) && p->n_found < room)
                consider(p, node, total);
        }
        if (!g->pair)
            continue;
        r = member(m, g, 0);
        other = member(m, g, 1);
        if (r >= 0 && other >= 0) {
            struct unit pair = {UNIT_PAIR, r < other ? r : other, r < other ? other : r, 0};
            int x = m->ranks[r].node, y = m->ranks[other].node;
            struct unit nodes = {UNIT_NODE_PAIR, x < y ? x : y, x < y ? y : x, 0};

            if (!known(p, &pair) && p->n_found < room)
                consider(p, pair, total);
            if (p->inter && !known(p, &nodes) && p->n_found < room)
                consider(p, nodes, total);
        }
    }
    return 0;
}

/* Smallest kind with a unit that explains enough; *n of them move to the front of `found`. */
static enum unit_kind smallest(struct place *p, size_t *n)
{
    static const enum unit_kind order[] = {UNIT_PAIR, UNIT_RANK, UNIT_NODE_PAIR, UNIT_NODE};
    enum unit_kind best = UNIT_KINDS;
    size_t least = 0;

    for (size_t o = 0; o < 4; o++) {
        size_t count = 0;

        for (size_t i = 0; i < p->n_found; i++)
            count += p->found[i].kind == order[o] && p->found[i].explained >= EXPLAINS;
        /* one node beats "one of four GPUs" on it; fewer candidates say more */
        if (count && (best == UNIT_KINDS || count < least)) {
            best = order[o];
            least = count;
        }
    }
    *n = 0;
    for (size_t i = 0; best != UNIT_KINDS && i < p->n_found; i++)
        if (p->found[i].kind == best && p->found[i].explained >= EXPLAINS) {
            struct unit u = p->found[i];

            p->found[i] = p->found[*n];
            p->found[(*n)++] = u;
        }
    return best;
}

/* No single unit: as few as possible that explain enough together. */
static size_t several(struct place *p, enum unit_kind *kind)
{
    static const enum unit_kind order[] = {UNIT_RANK, UNIT_NODE};
    size_t best = 0;

    for (size_t o = 0; o < 2; o++) {
        struct unit chosen[MAX_CULPRITS];
        size_t n = 0;
        double sum = 0;

        while (n < MAX_CULPRITS && sum < EXPLAINS) {
            const struct unit *most = NULL;

            for (size_t i = 0; i < p->n_found; i++) {
                int taken = p->found[i].kind != order[o];

                for (size_t j = 0; j < n; j++)
                    taken |= p->found[i].a == chosen[j].a;
                if (!taken && (!most || p->found[i].explained > most->explained))
                    most = &p->found[i];
            }
            if (!most || most->explained < 0.1)
                break;
            chosen[n++] = *most;
            sum += most->explained;
        }
        if (sum >= EXPLAINS && (!best || n < best)) {
            best = n;
            *kind = order[o];
            memcpy(p->found, chosen, n * sizeof(*chosen));
            /* `found` is not looked at again when this is the smaller answer */
            if (o == 0)
                break;
        }
    }
    return best;
}

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

static int unit_text(const struct argus_model *m, const struct unit *u, char *text, size_t size)
{
    switch (u->kind) {
    case UNIT_RANK:
        return snprintf(text, size, "rank%d@%s", m->ranks[u->a].rank,
                        m->nodes[m->ranks[u->a].node]);
    case UNIT_PAIR:
        return snprintf(text, size, "rank%d-rank%d", m->ranks[u->a].rank, m->ranks[u->b].rank);
    case UNIT_NODE_PAIR:
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

static int name_unit(const struct place *p, struct argus_evidence *e, const struct unit *u,
                     size_t n, int all_of_them)
{
    const struct argus_model *m = p->m;
    struct argus_link *l = e->link;
    char text[160];

    if (n > 1 && !all_of_them) {
        for (size_t i = 0; i < n && i < MAX_CANDIDATES; i++) {
            unit_text(m, &u[i], text, sizeof(text));
            if (add_candidate(l, text))
                return -1;
        }
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        switch (u[i].kind) {
        case UNIT_RANK:
            l->rank = m->ranks[u[i].a].rank;
            free(l->node);
            l->node = strdup(m->nodes[m->ranks[u[i].a].node]);
            if (!l->node || argus_evidence_rank(e, u[i].a))
                return -1;
            break;
        case UNIT_PAIR:
            l->rank = m->ranks[u[i].a].rank;
            l->peer = m->ranks[u[i].b].rank;
            l->node = strdup(m->nodes[m->ranks[u[i].a].node]);
            l->peer_node = strdup(m->nodes[m->ranks[u[i].b].node]);
            if (!l->node || !l->peer_node || argus_evidence_rank(e, u[i].a) ||
                argus_evidence_rank(e, u[i].b))
                return -1;
            break;
        case UNIT_NODE_PAIR:
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
static int list_gpus(const struct place *p, struct argus_evidence *e)
{
    char text[160];
    int r;

    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];

        for (uint32_t j = 0; g->slow && g->inter == p->inter && (r = member(p->m, g, j)) != -2;
             j++) {
            struct unit u = {UNIT_RANK, r, -1, 0};

            if (r < 0 || e->link->n_candidates >= MAX_CANDIDATES)
                continue;
            unit_text(p->m, &u, text, sizeof(text));
            if (add_candidate(e->link, text))
                return -1;
        }
    }
    return 0;
}

static const char *scope_of(enum unit_kind kind, int inter)
{
    switch (kind) {
    case UNIT_PAIR:
    case UNIT_NODE_PAIR:
        return "pair";
    case UNIT_RANK:
        return inter ? "nic" : "gpu";
    case UNIT_NODE:
        return "node";
    default:
        return "fabric";
    }
}

static double own_exposed(const struct argus_model *m, int r, int k)
{
    return (double)(argus_rank_col(&m->ranks[r], ARGUS_COL_EXPOSED, k) -
                    argus_rank_col(&m->ranks[r], ARGUS_COL_WAIT, k));
}

/* Communication of their own that normal steps expose: of ranks without a slow path in that step,
 * else of this rank before the onset. */
static double usual_exposed(const struct place *p, const struct argus_link_group *g, int r, int k,
                            const char *hit, double *work)
{
    const struct argus_model *m = p->m;
    size_t n = 0;

    if (g->by_past) {
        for (int i = 0; i < g->first; i++)
            if (m->use[i] && !isnan(own_exposed(m, r, i)))
                work[n++] = own_exposed(m, r, i);
        return argus_median_inplace(work, n);
    }
    for (size_t i = 0; i < m->n_ranks; i++)
        if (!hit[i] && m->ranks[i].pp == m->ranks[r].pp && !isnan(own_exposed(m, (int)i, k)))
            work[n++] = own_exposed(m, (int)i, k);
    return argus_median_inplace(work, n);
}

/* What the slow path adds to each of its members, as far as nothing hides it. */
static int add_excess(const struct place *p, struct argus_evidence *e)
{
    const struct argus_model *m = p->m;
    char *hit = calloc(m->n_ranks + 1, 1);
    double *work = malloc((m->n_ranks + (size_t)m->n_steps + 1) * sizeof(*work));
    int r, rc = hit && work ? 0 : -1;

    for (size_t i = 0; i < p->n && !rc; i++)
        for (uint32_t j = 0; p->groups[i].slow && p->groups[i].inter == p->inter &&
                             (r = member(m, &p->groups[i], j)) != -2;
             j++)
            if (r >= 0)
                hit[r] = 1;
    for (size_t i = 0; i < p->n && !rc; i++) {
        const struct argus_link_group *g = &p->groups[i];

        if (!g->slow || g->inter != p->inter)
            continue;
        for (uint32_t j = 0; !rc && (r = member(m, g, j)) != -2; j++) {
            float *x = r < 0 ? NULL : argus_evidence_excess(e, m, r);
            double past = g->by_past && x ? usual_exposed(p, g, r, 0, hit, work) : NAN;

            rc = r >= 0 && !x ? -1 : 0;
            for (int k = g->first; x && k < g->end && k < m->n_steps; k++) {
                double d = g->by_past ? (double)g->total[k] - g->base
                                      : (double)(g->actual[k] - g->expected[k]);
                double usual, own;

                if (!m->use[k] || !(d > 0))
                    continue;
                usual = g->by_past ? past : usual_exposed(p, g, r, k, hit, work);
                own = own_exposed(m, r, k) - (isnan(usual) ? 0 : usual);
                x[k] = (float)fmin((double)x[k] + d, own > 0 ? own : 0);
            }
        }
    }
    free(hit);
    free(work);
    return rc;
}

static int list_classes(const struct place *p, struct argus_evidence *e)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        int *c;

        if (!g->slow || g->inter != p->inter)
            continue;
        c = realloc(e->comm_classes, (e->n_comm_classes + g->n_classes) * sizeof(int));
        if (!c)
            return -1;
        e->comm_classes = c;
        memcpy(c + e->n_comm_classes, g->classes, g->n_classes * sizeof(int));
        e->n_comm_classes += g->n_classes;
    }
    return 0;
}

/* Blocks: how far the transfers of a slow path lie from those of a normal one of its shape, against
 * how far its own ranks lie apart. */
static int add_blocks(const struct place *p, struct argus_evidence *e,
                      const struct argus_link_group *g)
{
    const struct argus_model *m = p->m;
    const struct argus_comm_class *c = &m->comm_classes[g->classes[0]], *o = NULL;
    double *x = malloc(3 * ((size_t)m->n_steps + 1) * sizeof(*x)), *y = x + m->n_steps + 1,
           *z = y + m->n_steps + 1;
    size_t nx = 0, ny = 0, nz = 0;
    int rc = x ? 0 : -1;

    for (size_t i = 0; i < p->n && !o && !rc; i++)
        for (size_t j = 0; j < p->groups[i].n_classes && !o; j++) {
            const struct argus_comm_class *k = &m->comm_classes[p->groups[i].classes[j]];

            if (!p->groups[i].slow && p->groups[i].inter == g->inter &&
                p->groups[i].pair == g->pair && k->func == c->func && k->bytes == c->bytes &&
                k->count == c->count)
                o = k;
        }
    for (int k = g->first; o && !rc && k < g->end && k < m->n_steps; k++) {
        if (!m->use[k] || isnan(c->work[k]) || isnan(o->work[k]))
            continue;
        x[nx++] = (double)c->work[k];
        y[ny++] = (double)o->work[k];
        z[nz++] = (double)c->spread[k];
    }
    if (nx && ny)
        rc = argus_evidence_line(e, m, -1, "w1_between_us",
                                 argus_w1_samples(x, NULL, nx, y, NULL, ny) / 1e3,
                                 argus_median_inplace(z, nz) / 1e3, "us",
                                 "transfers against a normal group of the same shape; peers: "
                                 "between the group's own ranks");
    free(x);
    return rc;
}

/* Of the classes of a path the one that carries most, by calls of known size. */
static const struct argus_comm_class *heaviest(const struct place *p,
                                               const struct argus_link_group *g)
{
    const struct argus_comm_class *most = NULL;

    for (size_t i = 0; i < g->n_classes; i++) {
        const struct argus_comm_class *c = &p->m->comm_classes[g->classes[i]];

        if (c->bytes == c->bytes_max &&
            (!most || (double)c->bytes * c->count > (double)most->bytes * most->count))
            most = c;
    }
    return most;
}

/* What the slow transfers carried, as nccl-tests counts it, against the comparison of the residual. */
static int add_bandwidth(const struct place *p, struct argus_evidence *e,
                         const struct argus_link_group *g)
{
    const struct argus_model *m = p->m;
    const struct argus_comm_class *c = heaviest(p, g);
    double *x, rate, alg, bus;
    char note[200];
    size_t n = 0;

    if (!c)
        return 0;
    if (!(x = malloc(((size_t)m->n_steps + 1) * sizeof(*x))))
        return -1;
    for (int k = g->first; k < g->end && k < m->n_steps; k++)
        if (m->use[k] && c->work[k] > 0)
            x[n++] = (double)c->work[k];
    rate = (double)c->bytes / argus_median_inplace(x, n);
    free(x);
    alg = rate * argus_algbw_factor(c->func, m->groups[g->group].size);
    bus = rate * argus_busbw_factor(c->func, m->groups[g->group].size);
    if (!(alg > 0) || !(bus > 0))
        return 0;
    snprintf(note, sizeof(note), "%s, %llu bytes a call, work", m->groups[g->group].name,
             (unsigned long long)c->bytes);
    return argus_evidence_line(e, m, -1, "algbw_gbps", alg, alg * g->ratio, "GB/s", note) ||
                   argus_evidence_line(e, m, -1, "busbw_gbps", bus, bus * g->ratio, "GB/s", note)
               ? -1
               : 0;
}

static int describe(const struct place *p, struct argus_evidence *e, const char *where)
{
    const struct argus_model *m = p->m;
    size_t slow = 0, fast = 0, lines = 0;
    double weight = 0, ratio = 0, held = 0, onset = -1, recovered = -1;
    char name[128] = "";
    int past = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];

        if (g->inter != p->inter)
            continue;
        fast += !g->slow && g->compared;
        if (!g->slow)
            continue;
        slow++;
        past |= g->by_past;
        weight += p->excess[i];
        ratio += p->excess[i] * g->ratio;
        held += p->excess[i] * g->persistence;
        if (g->onset >= 0 && (onset < 0 || g->onset < onset))
            onset = g->onset;
        if (g->recovered > recovered)
            recovered = g->recovered;
        if (lines < 6) {
            const struct argus_comm_class *c = &m->comm_classes[g->classes[0]];
            char note[200];

            snprintf(note, sizeof(note), "%s, %llu bytes, transfer time against %s",
                     m->groups[g->group].name, (unsigned long long)c->bytes,
                     g->by_past ? "its own past" : "groups of the same shape");
            if (argus_evidence_line(e, m, -1, "link_residual", g->ratio, 1.0, "ratio", note))
                return -1;
            if (!lines++) {
                snprintf(name, sizeof(name), "%s", m->groups[g->group].name);
                if (add_bandwidth(p, e, g) || add_blocks(p, e, g))
                    return -1;
            }
        }
    }
    e->link->factor = ratio / weight;
    e->link->communicator = strdup(name);
    e->effect = ratio / weight - 1;
    e->persistence = held / weight;
    e->agreement = past ? 0.8 : 1.0;
    if (onset >= 0)
        e->onset = (int)onset;
    if (recovered >= 0)
        e->recovered = (int)recovered;
    e->pattern = recovered >= 0 ? "episode" : "persistent";
    e->phase = "communication";
    argus_evidence_text(e,
                        "transfers over %s take %.2f times as long as %s: %zu group%s slow, %zu of "
                        "the same kind normal, and no member is late",
                        where, ratio / weight,
                        past ? "before" : "those of groups of the same shape", slow,
                        slow == 1 ? "" : "s", fast);
    return e->link->communicator ? 0 : -1;
}

/* Of several candidates the one that the network proxies point at; it moves to the front of `found`. */
static int ask_proxies(struct place *p, enum unit_kind *kind, size_t *n, struct argus_hot_edge *hot)
{
    static const enum unit_kind kinds[] = {[ARGUS_EDGE_RANK] = UNIT_RANK,
                                           [ARGUS_EDGE_PAIR] = UNIT_PAIR,
                                           [ARGUS_EDGE_NODE] = UNIT_NODE,
                                           [ARGUS_EDGE_NODE_PAIR] = UNIT_NODE_PAIR};

    if (argus_link_edges(p->m, p->groups, p->n, p->inter, hot))
        return -1;
    if (hot->unit == ARGUS_EDGE_NONE)
        return 0;
    *kind = kinds[hot->unit];
    *n = 1;
    p->found[0] = (struct unit){*kind, hot->a, hot->b, 1};
    return 0;
}

static int locate(struct place *p, struct argus_evidence_list *out)
{
    struct argus_evidence *e;
    enum unit_kind kind;
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
    if (find_units(p, total))
        return -1;
    kind = smallest(p, &n);
    if (kind == UNIT_KINDS) {
        n = several(p, &kind);
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
    if (kind == UNIT_NODE && !p->inter)
        only_group = n == 1;
    everywhere = p->inter && n > 1 && n == p->m->n_nodes && kind == UNIT_NODE && !all;
    e->link->scope = strdup(only_group ? "gpu" : everywhere ? "fabric" : scope_of(kind, p->inter));
    if (!e->link->scope || name_unit(p, e, p->found, n, all))
        return -1;
    if (only_group && list_gpus(p, e))
        return -1;
    if (n == 1 || all)
        unit_text(p->m, &p->found[0], where, sizeof(where));
    else if (n > 1)
        snprintf(where, sizeof(where), "one of %zu %s", n,
                 kind == UNIT_RANK   ? "GPUs"
                 : kind == UNIT_NODE ? "nodes"
                                     : "pairs");
    if (add_excess(p, e) || list_classes(p, e) || describe(p, e, where))
        return -1;
    if (hot.unit != ARGUS_EDGE_NONE)
        return argus_evidence_line(e, p->m, -1, "send_wait_us", hot.wait / 1e3, hot.others / 1e3,
                                   "us",
                                   "network proxy, wait for the send on the slow edge; peers: on "
                                   "the other edges of the ring");
    return 0;
}

static int split(struct place *p, struct argus_evidence_list *out)
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
        for (uint32_t j = 0; (r = member(p->m, g, j)) != -2; j++) {
            float *x = r < 0 ? NULL : argus_evidence_excess(e, p->m, r);

            if (r >= 0 && (!x || argus_evidence_rank(e, r)))
                return -1;
            for (int k = g->first; x && k < g->end && k < p->m->n_steps; k++)
                if (p->m->use[k] && g->actual[k] > g->expected[k])
                    x[k] = g->actual[k] - g->expected[k];
        }
        e->effect = g->ratio - 1;
        e->persistence = g->persistence;
        e->onset = g->onset >= 0 ? g->onset : ARGUS_UNKNOWN;
        e->phase = "communication";
        e->pattern = "persistent";
        if (argus_evidence_line(e, p->m, -1, "link_residual", g->ratio, 1.0, "ratio",
                                p->m->groups[g->group].name))
            return -1;
        argus_evidence_text(e,
                            "transfers in %s take %.2f times as long as in the only other group of "
                            "that shape; nothing in the job tells which is normal",
                            p->m->groups[g->group].name, g->ratio);
    }
    return 0;
}

int argus_link_locate(const struct argus_model *m, struct argus_link_group *groups, size_t n,
                      struct argus_evidence_list *out)
{
    int rc = 0;

    for (int inter = 0; inter < 2 && !rc; inter++) {
        struct place p = {.m = m, .groups = groups, .n = n, .inter = inter};

        p.excess = calloc(n + 1, sizeof(double));
        if (!p.excess)
            return -1;
        for (size_t i = 0; i < n; i++) {
            const struct argus_link_group *g = &groups[i];
            int steps = 0;

            for (int k = g->first; g->slow && k < g->end && k < m->n_steps; k++) {
                double d = g->by_past ? (double)g->total[k] - g->base
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
