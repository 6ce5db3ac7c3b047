/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow edge of a slow ring, where the network proxy was listened to
 * (`links=on`).
 *
 * All members of a ring take as long as its slowest edge, but only the sender
 * of that edge has its data with the network all the while: its proxy waits
 * for the send, those of the others for their GPU or their peer.  Edges whose
 * wait is as long as the longest are hot.  Two or more hot edges are told by
 * what they have in common: a GPU's way to the network or a node; a single one
 * is a pair.
 */
#include <config.h>
#include <stdlib.h>

#include "analyzer/detect/link.h"
#include "analyzer/model/peerwait.h"
#include "analyzer/stats/stats.h"

#define HOT_SHARE 0.5     /* hot edges are no more than this share of the edges of a ring */
#define UNEVEN_FACTOR 2.0 /* between the edges of a ring that is held against nothing else */
#define UNEVEN_EDGES 3    /* ... which has as many */
#define UNEVEN_SPREAD 1.3 /* ... and but for the hot ones is as even as this */

struct edges {
    struct argus_send_wait *items;
    size_t n, room;
};

static double mean(const struct argus_send_wait *w)
{
    return w->sum / w->count;
}

static int add(struct edges *e, const struct argus_send_wait *w)
{
    if (e->n == e->room) {
        size_t room = e->room ? 2 * e->room : 64;
        struct argus_send_wait *items = realloc(e->items, room * sizeof(*items));

        if (!items)
            return -1;
        e->items = items;
        e->room = room;
    }
    e->items[e->n++] = *w;
    return 0;
}

/* The edges of one ring that its members' proxies saw. */
static int collect(const struct argus_model *m, const struct argus_link_group *g, struct edges *e)
{
    const struct argus_group *gr = &m->groups[g->group];

    for (uint32_t i = 0; i < gr->size; i++) {
        struct argus_send_wait *waits = NULL;
        argus_error_t err;
        size_t n = 0;
        int rc = 0;

        if (gr->members[i] < 0 || argus_model_send_waits(m, (size_t)gr->members[i], g->shift.first,
                                                         g->shift.end, &waits, &n, &err))
            continue; /* it was readable a moment ago: then without */
        for (size_t j = 0; j < n && !rc; j++)
            if (waits[j].group == g->group && waits[j].count > 0)
                rc = add(e, &waits[j]);
        free(waits);
        if (rc)
            return -1;
    }
    return 0;
}

/* Add the hot ones among `all` to `hot`; the rest is what they are held against. */
static int select_hot(double ratio, const struct edges *all, struct edges *hot, double *longest,
                      double *others)
{
    double *cold = malloc((all->n + 1) * sizeof(*cold)), most = 0, limit, usual;
    double factor = 1 + 0.5 * (ratio - 1);
    size_t n = 0;
    int rc = cold ? 0 : -1;

    for (size_t i = 0; i < all->n; i++)
        most = mean(&all->items[i]) > most ? mean(&all->items[i]) : most;
    limit = most / factor;
    for (size_t i = 0; i < all->n && !rc; i++)
        if (mean(&all->items[i]) < limit)
            cold[n++] = mean(&all->items[i]);
    usual = rc ? NAN : argus_median_inplace(cold, n);
    if (n && (double)(all->n - n) <= HOT_SHARE * (double)all->n && most >= factor * usual) {
        for (size_t i = 0; i < all->n && !rc; i++)
            if (mean(&all->items[i]) >= limit)
                rc = add(hot, &all->items[i]);
        *longest = most > *longest ? most : *longest;
        *others = usual;
    }
    free(cold);
    return rc;
}

static int on_edge(const struct argus_model *m, const struct argus_send_wait *w, int unit, int node)
{
    if (node)
        return m->ranks[w->from].node == unit || m->ranks[w->to].node == unit;
    return w->from == unit || w->to == unit;
}

/* What all hot edges have in common: the ranks (or nodes) at either end of the first; -1: nothing, -2: both ends. */
static int common_end(const struct argus_model *m, const struct edges *hot, int node)
{
    int ends[2] = {hot->items[0].from, hot->items[0].to}, found = -1;

    for (int i = 0; i < 2; i++) {
        int unit = node ? m->ranks[ends[i]].node : ends[i];
        size_t on = 0;

        for (size_t j = 0; j < hot->n; j++)
            on += (size_t)on_edge(m, &hot->items[j], unit, node);
        if (on == hot->n)
            found = found == -1 || found == unit ? unit : -2;
    }
    return found;
}

static enum argus_edge_unit name_them(const struct argus_model *m, const struct edges *hot,
                                      struct argus_hot_edge *out)
{
    int unit;

    out->a = hot->items[0].from;
    out->b = hot->items[0].to;
    if (hot->n == 1)
        return ARGUS_EDGE_PAIR;
    if ((unit = common_end(m, hot, 0)) == -2)
        return ARGUS_EDGE_PAIR;
    if (unit >= 0) {
        out->a = unit;
        return ARGUS_EDGE_RANK;
    }
    unit = common_end(m, hot, 1);
    out->a = m->ranks[hot->items[0].from].node;
    out->b = m->ranks[hot->items[0].to].node;
    if (unit == -2)
        return ARGUS_EDGE_NODE_PAIR;
    out->a = unit;
    return unit >= 0 ? ARGUS_EDGE_NODE : ARGUS_EDGE_NONE;
}

double argus_link_uneven_ring(const struct argus_model *m, const struct argus_link_group *g)
{
    struct edges all = {0}, hot = {0};
    struct argus_hot_edge unit;
    double wait = 0, others = 0, worst = 0, ratio = 0;
    int rc;

    rc = collect(m, g, &all);
    if (!rc && all.n >= UNEVEN_EDGES)
        rc = select_hot(UNEVEN_FACTOR, &all, &hot, &wait, &others);
    for (size_t i = 0; i < all.n && !rc; i++)
        if (mean(&all.items[i]) < wait / (1 + 0.5 * (UNEVEN_FACTOR - 1)))
            worst = fmax(worst, mean(&all.items[i]));
    if (!rc && hot.n && all.n - hot.n > 1 && wait >= UNEVEN_FACTOR * others &&
        worst <= UNEVEN_SPREAD * others && name_them(m, &hot, &unit) != ARGUS_EDGE_NONE)
        ratio = wait / others;
    free(all.items);
    free(hot.items);
    return rc ? -1 : ratio;
}

int argus_link_edges(const struct argus_model *m, const struct argus_link_group *groups, size_t n,
                     int inter, struct argus_hot_edge *out)
{
    struct edges hot = {0};
    size_t files = 0;
    int rc = 0;

    *out = (struct argus_hot_edge){.unit = ARGUS_EDGE_NONE};
    for (size_t i = 0; i < n && !rc; i++) {
        const struct argus_link_group *g = &groups[i];
        struct edges all = {0};

        if (!g->slow || g->pair || g->inter != inter)
            continue;
        files += m->groups[g->group].present;
        if (files > ARGUS_LINK_TIMELINES)
            break;
        rc = collect(m, g, &all);
        if (!rc && all.n)
            rc = select_hot(g->shift.ratio, &all, &hot, &out->wait, &out->others);
        free(all.items);
    }
    if (!rc && hot.n)
        out->unit = name_them(m, &hot, out);
    free(hot.items);
    return rc;
}
