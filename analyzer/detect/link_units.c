/* SPDX-License-Identifier: Apache-2.0 */
/* Units (GPUs, nodes, pairs) that lie on slow paths, and those that explain the excess. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/locate.h"

#define EXPLAINS 0.8
#define MAX_CULPRITS 4

int argus_link_member(const struct argus_model *m, const struct argus_link_group *g, uint32_t i)
{
    const struct argus_group *gr = &m->groups[g->group];

    if (!g->pair)
        return i < gr->size ? gr->members[i] : -2;
    if (i >= 2)
        return -2;
    return gr->members[i ? g->to : g->from];
}

/* Does the path use the unit? */
static int uses(const struct argus_model *m, const struct argus_link_group *g,
                const struct argus_link_unit *u)
{
    int a = 0, b = 0, r;

    for (uint32_t i = 0; (r = argus_link_member(m, g, i)) != -2; i++) {
        if (r < 0)
            continue;
        if (u->kind == ARGUS_UNIT_PAIR || u->kind == ARGUS_UNIT_RANK) {
            a |= r == u->a;
            b |= r == u->b;
        } else {
            a |= m->ranks[r].node == u->a;
            b |= m->ranks[r].node == u->b;
        }
    }
    return u->kind == ARGUS_UNIT_RANK || u->kind == ARGUS_UNIT_NODE ? a : a && b;
}

static void consider(struct argus_link_place *p, struct argus_link_unit u)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];

        if (!argus_link_in_place(p, g) || !uses(p->m, g, &u))
            continue;
        if (g->slow)
            u.explained += p->excess[i];
        else if (g->compared)
            return; /* the same way is fast for others */
    }
    u.explained /= p->total;
    if (u.explained > 0)
        p->found[p->n_found++] = u;
}

static int known(const struct argus_link_place *p, const struct argus_link_unit *u)
{
    for (size_t i = 0; i < p->n_found; i++)
        if (p->found[i].kind == u->kind && p->found[i].a == u->a && p->found[i].b == u->b)
            return 1;
    return 0;
}

/* Every unit that lies on a slow path. */
int argus_link_find_units(struct argus_link_place *p)
{
    const struct argus_model *m = p->m;
    size_t room = 4 * m->n_ranks + 2 * p->n + 16;

    p->found = calloc(room, sizeof(*p->found));
    if (!p->found)
        return -1;
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        int r, other;

        if (!g->slow || !argus_link_in_place(p, g))
            continue;
        for (uint32_t j = 0; (r = argus_link_member(m, g, j)) != -2; j++) {
            struct argus_link_unit rank = {ARGUS_UNIT_RANK, r, -1, 0};
            struct argus_link_unit node = {ARGUS_UNIT_NODE, r >= 0 ? m->ranks[r].node : -1, -1, 0};

            if (r < 0)
                continue;
            if (!known(p, &rank) && p->n_found < room)
                consider(p, rank);
            if (!known(p, &node) && p->n_found < room)
                consider(p, node);
        }
        if (!g->pair)
            continue;
        r = argus_link_member(m, g, 0);
        other = argus_link_member(m, g, 1);
        if (r >= 0 && other >= 0) {
            struct argus_link_unit pair = {ARGUS_UNIT_PAIR, r < other ? r : other,
                                           r < other ? other : r, 0};
            int x = m->ranks[r].node, y = m->ranks[other].node;
            struct argus_link_unit nodes = {ARGUS_UNIT_NODE_PAIR, x < y ? x : y, x < y ? y : x, 0};

            if (!known(p, &pair) && p->n_found < room)
                consider(p, pair);
            if (p->inter && !known(p, &nodes) && p->n_found < room)
                consider(p, nodes);
        }
    }
    return 0;
}

/* Smallest kind with a unit that explains enough; *n of them move to the front of `found`. */
enum argus_link_unit_kind argus_link_smallest(struct argus_link_place *p, size_t *n)
{
    static const enum argus_link_unit_kind order[] = {ARGUS_UNIT_PAIR, ARGUS_UNIT_RANK,
                                                      ARGUS_UNIT_NODE_PAIR, ARGUS_UNIT_NODE};
    enum argus_link_unit_kind best = ARGUS_UNIT_KINDS;
    size_t least = 0;

    for (size_t o = 0; o < 4; o++) {
        size_t count = 0;

        for (size_t i = 0; i < p->n_found; i++)
            count += p->found[i].kind == order[o] && p->found[i].explained >= EXPLAINS;
        /* one node beats "one of four GPUs" on it; fewer candidates say more */
        if (count && (best == ARGUS_UNIT_KINDS || count < least)) {
            best = order[o];
            least = count;
        }
    }
    *n = 0;
    for (size_t i = 0; best != ARGUS_UNIT_KINDS && i < p->n_found; i++)
        if (p->found[i].kind == best && p->found[i].explained >= EXPLAINS) {
            struct argus_link_unit u = p->found[i];

            p->found[i] = p->found[*n];
            p->found[(*n)++] = u;
        }
    return best;
}

/* No single unit: as few as possible that explain enough together. */
size_t argus_link_several(struct argus_link_place *p, enum argus_link_unit_kind *kind)
{
    static const enum argus_link_unit_kind order[] = {ARGUS_UNIT_RANK, ARGUS_UNIT_NODE};
    size_t best = 0;

    for (size_t o = 0; o < 2; o++) {
        struct argus_link_unit chosen[MAX_CULPRITS];
        size_t n = 0;
        double sum = 0;

        while (n < MAX_CULPRITS && sum < EXPLAINS) {
            const struct argus_link_unit *most = NULL;

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

/* Where nothing is slow in a place there is nothing to explain. */
static int enough_of(const struct argus_link_place *p, const struct argus_link_unit *u)
{
    for (size_t i = 0; i < p->n_found; i++)
        if (p->found[i].kind == u->kind && p->found[i].a == u->a &&
            p->found[i].explained >= EXPLAINS)
            return 1;
    return !(p->total > 0);
}

int argus_link_common(const struct argus_link_place *within, const struct argus_link_place *between,
                      struct argus_link_unit *unit)
{
    static const enum argus_link_unit_kind order[] = {ARGUS_UNIT_RANK, ARGUS_UNIT_NODE};
    const struct argus_link_place *p = within->total > 0 ? within : between;
    int both = within->total > 0 && between->total > 0;

    for (int o = 0; o < 1 + both; o++) {
        size_t n = 0;

        for (size_t i = 0; i < p->n_found; i++)
            if (p->found[i].kind == order[o] && enough_of(within, &p->found[i]) &&
                enough_of(between, &p->found[i])) {
                *unit = p->found[i];
                n++;
            }
        if (n)
            return n == 1;
    }
    return 0;
}
