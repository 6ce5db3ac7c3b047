/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence of a slow link: what it costs its members, what it carries, how far it lies off. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/locate.h"
#include "analyzer/stats/stats.h"

static double own_exposed(const struct argus_model *m, int r, int k)
{
    return (double)(argus_rank_col(&m->ranks[r], ARGUS_COL_EXPOSED, k) -
                    argus_rank_col(&m->ranks[r], ARGUS_COL_WAIT, k));
}

/* Communication of their own that normal steps expose: of ranks without a slow path in that step,
 * else of this rank before the onset. */
static double usual_exposed(const struct argus_link_place *p, const struct argus_link_group *g,
                            int r, int k, const char *hit, double *work)
{
    const struct argus_model *m = p->m;
    size_t n = 0;

    if (g->by_past) {
        for (int i = 0; i < g->shift.first; i++)
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
int argus_link_add_excess(const struct argus_link_place *p, struct argus_evidence *e)
{
    const struct argus_model *m = p->m;
    char *hit = calloc(m->n_ranks + 1, 1);
    double *work = malloc((m->n_ranks + (size_t)m->n_steps + 1) * sizeof(*work));
    int r, rc = hit && work ? 0 : -1;

    for (size_t i = 0; i < p->n && !rc; i++)
        for (uint32_t j = 0; p->groups[i].slow && argus_link_in_place(p, &p->groups[i]) &&
                             (r = argus_link_member(m, &p->groups[i], j)) != -2;
             j++)
            if (r >= 0)
                hit[r] = 1;
    for (size_t i = 0; i < p->n && !rc; i++) {
        const struct argus_link_group *g = &p->groups[i];

        if (!g->slow || !argus_link_in_place(p, g))
            continue;
        for (uint32_t j = 0; !rc && (r = argus_link_member(m, g, j)) != -2; j++) {
            float *x = r < 0 ? NULL : argus_evidence_excess(e, m, r);
            double past = g->by_past && x ? usual_exposed(p, g, r, 0, hit, work) : NAN;

            rc = r >= 0 && !x ? -1 : 0;
            for (int k = g->shift.first; x && k < g->shift.end && k < m->n_steps; k++) {
                double d = g->by_past ? (double)g->total[k] - g->shift.base
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

int argus_link_list_classes(const struct argus_link_place *p, struct argus_evidence *e)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];
        int *c;

        if (!g->slow || !argus_link_in_place(p, g))
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
static int add_blocks(const struct argus_link_place *p, struct argus_evidence *e,
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
    for (int k = g->shift.first; o && !rc && k < g->shift.end && k < m->n_steps; k++) {
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
static const struct argus_comm_class *heaviest(const struct argus_link_place *p,
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
static int add_bandwidth(const struct argus_link_place *p, struct argus_evidence *e,
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
    for (int k = g->shift.first; k < g->shift.end && k < m->n_steps; k++)
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
    return argus_evidence_line(e, m, -1, "algbw_gbps", alg, alg * g->shift.ratio, "GB/s", note) ||
                   argus_evidence_line(e, m, -1, "busbw_gbps", bus, bus * g->shift.ratio, "GB/s",
                                       note)
               ? -1
               : 0;
}

int argus_link_describe(const struct argus_link_place *p, struct argus_evidence *e,
                        const char *where)
{
    const struct argus_model *m = p->m;
    size_t slow = 0, fast = 0, lines = 0;
    double weight = 0, ratio = 0, held = 0, onset = -1, recovered = -1;
    char name[128] = "";
    int past = 0, edges = 0, halves = 0;

    for (size_t i = 0; i < p->n; i++) {
        const struct argus_link_group *g = &p->groups[i];

        if (!argus_link_in_place(p, g))
            continue;
        fast += !g->slow && g->compared;
        if (!g->slow)
            continue;
        slow++;
        past |= g->by_past;
        edges |= g->by_edges;
        halves |= g->split;
        weight += p->excess[i];
        ratio += p->excess[i] * g->shift.ratio;
        held += p->excess[i] * g->shift.persistence;
        if (g->shift.onset >= 0 && (onset < 0 || g->shift.onset < onset))
            onset = g->shift.onset;
        if (g->shift.recovered > recovered)
            recovered = g->shift.recovered;
        if (lines < 6) {
            const struct argus_comm_class *c = &m->comm_classes[g->classes[0]];
            char note[200];

            snprintf(note, sizeof(note), "%s, %llu bytes, transfer time against %s",
                     m->groups[g->group].name, (unsigned long long)c->bytes,
                     g->by_past    ? "its own past"
                     : g->by_edges ? "the other ways of its ring, by their network proxies"
                                   : "groups of the same shape");
            if (argus_evidence_line(e, m, -1, "link_residual", g->shift.ratio, 1.0, "ratio", note))
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
    e->agreement = past || halves ? 0.8 : edges ? 0.6 : 1.0;
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
                        past    ? "before"
                        : edges ? "those over the other ways of the ring"
                                : "those of groups of the same shape",
                        slow, slow == 1 ? "" : "s", fast);
    return e->link->communicator ? 0 : -1;
}
