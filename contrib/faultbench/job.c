/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults, names and chance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/internal.h"

static const char *const style_names[FB_STYLE_COUNT] = {"ddp", "fsdp", "3d", "moe"};
static const char *const fault_names[FB_FAULT_COUNT] = {
    "healthy",       "slow-gpu",  "slow-memory", "slow-class",    "slow-node-link",
    "slow-gpu-link", "slow-pcie", "host-stall",  "host-periodic", "host-rotating",
    "data-stall",    "jit-stall", "alloc-stall", "slow-stage",    "workload",
    "moe-hot",       "uniform",   "split"};

const char *fb_style_name(enum fb_style style)
{
    return style_names[style];
}

const char *fb_fault_name(enum fb_fault_kind kind)
{
    return fault_names[kind];
}

uint64_t fb_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

double fb_uniform(uint64_t *state)
{
    return (double)(fb_random(state) >> 11) * 0x1.0p-53;
}

double fb_normal(uint64_t *state)
{
    double u = fb_uniform(state), v = fb_uniform(state);

    return sqrt(-2.0 * log(u + 1e-300)) * cos(6.283185307179586 * v);
}

void fb_defaults(struct fb_spec *s, enum fb_style style, int world)
{
    memset(s, 0, sizeof(*s));
    s->style = style;
    s->world = world;
    s->tp = s->pp = s->ep = 1;
    s->ranks_per_node = world >= 32 ? 8 : world >= 8 ? 4 : 2;
    s->steps = 80;
    s->layers = 6;
    s->microbatches = 1;
    s->chunks = 1;
    if (style == FB_3D) {
        s->tp = world >= 256 ? 8 : world >= 16 ? 4 : world >= 4 ? 2 : 1;
        s->pp = world >= 8 ? 2 : 1;
        if (world >= 64)
            s->pp = 4;
        s->microbatches = s->pp > 1 ? 2 * s->pp : 1;
        s->layers = 4;
    } else if (style == FB_MOE) {
        s->ep = world >= 256 ? 8 : world >= 16 ? 4 : 2;
        s->layers = 4;
    }
    s->dp = world / (s->tp * s->pp);
    s->shard = s->dp < 64 ? s->dp : 64;
    s->noise = (struct fb_noise){0.004, 0.01, 0.004, 0.02, 0.2, 0.02};
    s->fault.end = -1;
    s->fault.period = 10;
    s->window = 64;
}

int fb_fault_active(const struct fb_fault *f, int step)
{
    return f->kind != FB_HEALTHY && step >= f->onset && (f->end < 0 || step < f->end);
}

int fb_tp_of(const struct fb_spec *s, int rank)
{
    return rank % s->tp;
}

int fb_dp_of(const struct fb_spec *s, int rank)
{
    return rank / s->tp % s->dp;
}

int fb_pp_of(const struct fb_spec *s, int rank)
{
    return rank / (s->tp * s->dp);
}

int fb_node_of(const struct fb_spec *s, int rank)
{
    return rank / s->ranks_per_node;
}

void fb_result_free(struct fb_result *r)
{
    for (int i = 0; r->events && i < r->spec.world; i++)
        free(r->events[i].v);
    for (size_t i = 0; i < r->n_groups; i++)
        free(r->groups[i].ranks);
    free(r->events);
    free(r->groups);
    free(r->classes);
    free(r->step_start);
    free(r->step_end);
    memset(r, 0, sizeof(*r));
}
