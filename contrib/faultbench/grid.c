/* SPDX-License-Identifier: Apache-2.0 */
/* Which jobs are made: topology by size by fault by magnitude by seed. */
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/grid.h"

/* Magnitudes: factors, or shares of a step for stalls. */
static const double factors[] = {1.05, 1.10, 1.30, 2.0}, links[] = {1.1, 1.5, 3.0, 10.0},
                    stalls[] = {0.05, 0.10, 0.30}, work[] = {1.3, 2.0};

static void magnitudes(enum fb_fault_kind kind, const double **v, size_t *n)
{
    if (kind == FB_SLOW_NODE_LINK || kind == FB_SLOW_GPU_LINK || kind == FB_SLOW_PCIE) {
        *v = links;
        *n = sizeof(links) / sizeof(links[0]);
    } else if (kind >= FB_HOST_STALL && kind <= FB_ALLOC_STALL) {
        *v = stalls;
        *n = sizeof(stalls) / sizeof(stalls[0]);
    } else if (kind == FB_WORKLOAD || kind == FB_MOE_HOT) {
        *v = work;
        *n = sizeof(work) / sizeof(work[0]);
    } else {
        *v = factors;
        *n = sizeof(factors) / sizeof(factors[0]);
    }
}

static void add(struct fb_grid *g, const struct fb_spec *spec)
{
    if (g->n == g->room) {
        size_t room = g->room ? g->room * 2 : 1024;
        void *v = realloc(g->v, room * sizeof(*g->v));

        if (!v)
            abort();
        g->v = v;
        g->room = room;
    }
    memset(&g->v[g->n], 0, sizeof(*g->v));
    g->v[g->n++].spec = *spec;
}

/* Does the fault make sense in this job? */
static int fits(const struct fb_spec *s)
{
    int nodes = (s->world + s->ranks_per_node - 1) / s->ranks_per_node;

    switch (s->fault.kind) {
    case FB_SLOW_STAGE:
        return s->pp > 1;
    case FB_MOE_HOT:
        return s->style == FB_MOE && s->world >= 4;
    case FB_SLOW_NODE_LINK:
        return nodes > 2; /* with two nodes both share the one link */
    case FB_HOST_ROTATING:
    case FB_WORKLOAD:
        return s->world >= 4;
    case FB_SPLIT:
        return s->dp >= 2 && s->dp % 2 == 0;
    default:
        return 1;
    }
}

static void place(struct fb_spec *s, uint64_t seed)
{
    uint64_t rng = seed * 31u + (uint64_t)s->fault.kind;
    int nodes = (s->world + s->ranks_per_node - 1) / s->ranks_per_node;
    static const int onsets[] = {0, 30, 45};

    s->seed = seed;
    s->fault.rank = (int)(fb_random(&rng) % (uint64_t)s->world);
    s->fault.node = (int)(fb_random(&rng) % (uint64_t)nodes);
    s->fault.stage = (int)(fb_random(&rng) % (uint64_t)s->pp);
    s->fault.onset = onsets[fb_random(&rng) % 3];
    if (s->fault.kind == FB_UNIFORM) {
        /* Small shifts count when they last 50 steps. */
        s->fault.onset = 40;
        s->steps = 120;
    }
    if (s->fault.kind == FB_SPLIT || s->fault.kind == FB_SLOW_STAGE)
        s->fault.onset = 0;
    s->clock_offset_ms = fb_random(&rng) % 2 ? 5.0 : 0.0;
    /* Copies that matter: in some jobs whatever is wrong, in most where it is the copies. */
    s->offload = fb_random(&rng) % 4 >= (s->fault.kind == FB_SLOW_PCIE ? 1 : 3);
}

/* How much of the grid is run at a size: a job of 1,024 ranks costs as much as a thousand small ones. */
static size_t first_magnitude(const struct fb_options *o, int world, size_t n)
{
    return o->full && world > 64 ? n / 2 : 0;
}

static size_t last_magnitude(const struct fb_options *o, int world, size_t n)
{
    return o->full && world > 256 ? n / 2 + 1 : n;
}

static int seeds_at(const struct fb_options *o, int world, int kind)
{
    int seeds = kind == FB_HEALTHY ? o->healthy : o->seeds;
    int fewer = kind != FB_HEALTHY ? 1 : seeds / 16;

    if (!o->full || world <= 32 || seeds == 0 || (world <= 64 && kind != FB_HEALTHY))
        return seeds;
    if (world <= 64)
        fewer = seeds / 3;
    return fewer > 0 ? fewer : 1;
}

static void fill_fault(struct fb_grid *g, const struct fb_options *o, int style, int world,
                       int kind)
{
    const double *m;
    size_t n;

    magnitudes((enum fb_fault_kind)kind, &m, &n);
    if (kind == FB_HEALTHY)
        n = 1;
    for (size_t i = first_magnitude(o, world, n); i < last_magnitude(o, world, n); i++) {
        for (int seed = 0; seed < seeds_at(o, world, kind); seed++) {
            struct fb_spec s;

            fb_defaults(&s, (enum fb_style)style, world);
            if (world > 64)
                s.steps = 60;
            s.fault.kind = (enum fb_fault_kind)kind;
            s.fault.magnitude = m[i];
            if (style == FB_3D && seed % 3 == 2 && s.pp > 1)
                s.chunks = 2;
            if (o->events)
                s.window = 0;
            place(&s, o->first_seed + (uint64_t)seed * 1000003u + (uint64_t)world * 101u +
                          (uint64_t)style);
            if (fits(&s) && (!o->only || s.seed == o->only))
                add(g, &s);
        }
    }
}

void fb_grid_fill(struct fb_grid *g, const struct fb_options *o)
{
    /* Not the largest last: at the end one process would work and the others wait. */
    static const int quick[] = {4, 8, 16}, full[] = {2, 4, 8, 16, 32, 256, 1024, 64};
    const int *worlds = o->world > 0 ? &o->world : o->full ? full : quick;
    size_t n = o->world > 0 ? 1 : o->full ? sizeof(full) / sizeof(full[0]) : 3;

    for (size_t w = 0; w < n; w++) {
        for (int style = 0; style < FB_STYLE_COUNT; style++) {
            for (int kind = 0; kind < FB_FAULT_COUNT; kind++) {
                if ((o->style < 0 || style == o->style) && (o->fault < 0 || kind == o->fault))
                    fill_fault(g, o, style, worlds[w], kind);
            }
        }
    }
}
