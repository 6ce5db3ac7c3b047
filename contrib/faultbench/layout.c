/* SPDX-License-Identifier: Apache-2.0 */
/* Who talks to whom: positions, communicators and channels of a job; its classes of kernels. */
#include <argus/record.h>
#include <argus/timeline.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/internal.h"

static int add_channel(struct fb_layout *l, int group, int func, const int *pair)
{
    struct fb_channel *c;

    if (l->n_channels == l->channels_room) {
        size_t room = l->channels_room ? l->channels_room * 2 : 64;
        void *v = realloc(l->channels, room * sizeof(*c));

        if (!v)
            return -1;
        l->channels = v;
        l->channels_room = room;
    }
    c = &l->channels[l->n_channels];
    memset(c, 0, sizeof(*c));
    c->group = group;
    c->func = func;
    c->n = pair ? 2 : l->r->groups[group].size;
    c->is_pair = pair != NULL;
    if (pair)
        memcpy(c->pair, pair, sizeof(c->pair));
    c->arrival = calloc((size_t)c->n, sizeof(*c->arrival));
    c->stream = calloc((size_t)c->n, sizeof(*c->stream));
    c->cls = calloc((size_t)c->n, sizeof(*c->cls));
    l->n_channels++;
    return c->arrival && c->stream && c->cls ? (int)l->n_channels - 1 : -1;
}

int fb_member(const struct fb_layout *l, const struct fb_channel *c, int i)
{
    return c->is_pair ? c->pair[i] : l->r->groups[c->group].ranks[i];
}

int fb_index(const struct fb_layout *l, const struct fb_channel *c, int rank)
{
    const int *ranks = c->is_pair ? c->pair : l->r->groups[c->group].ranks;

    return (rank - ranks[0]) / (ranks[1] - ranks[0]); /* evenly spaced, all of them */
}

static int add_group(struct fb_layout *l, const char *name, const int *ranks, int size)
{
    struct fb_group *g;
    void *v = realloc(l->r->groups, (l->r->n_groups + 1) * sizeof(*g));

    if (!v)
        return -1;
    l->r->groups = v;
    g = &l->r->groups[l->r->n_groups];
    g->name = name;
    g->size = size;
    g->ranks = malloc((size_t)size * sizeof(int));
    g->hash = l->r->spec.seed * 1000003u + l->r->n_groups + 1;
    g->hash = fb_random(&g->hash);
    l->r->n_groups++;
    if (!g->ranks)
        return -1;
    memcpy(g->ranks, ranks, (size_t)size * sizeof(int));
    return (int)l->r->n_groups - 1;
}

/* Groups of ranks base, base + stride, ... (size of them), for each rank that is the first of one. */
static int add_family(struct fb_layout *l, const char *name, int size, int stride, int *channel)
{
    const struct fb_spec *s = &l->r->spec;
    int *ranks;

    for (int i = 0; i < s->world; i++)
        channel[i] = -1;
    if (size < 2)
        return 0;
    ranks = malloc((size_t)size * sizeof(int));
    if (!ranks)
        return -1;
    for (int base = 0; base < s->world; base++) {
        int group, ch;

        if (base / stride % size != 0 || channel[base] >= 0)
            continue;
        for (int i = 0; i < size; i++)
            ranks[i] = base + i * stride;
        group = add_group(l, name, ranks, size);
        ch = group < 0 ? -1 : add_channel(l, group, 0, NULL);
        if (ch < 0) {
            free(ranks);
            return -1;
        }
        for (int i = 0; i < size; i++)
            channel[ranks[i]] = ch;
    }
    free(ranks);
    return 0;
}

static int add_pairs(struct fb_layout *l)
{
    const struct fb_spec *s = &l->r->spec;
    int stage = s->tp * s->dp;

    for (int i = 0; i < s->world; i++)
        l->ch_fwd[i] = l->ch_bwd[i] = -1;
    if (s->pp < 2)
        return 0;
    for (int i = 0; i < s->world; i++) {
        int last = fb_pp_of(s, i) == s->pp - 1, pair[2] = {i, (i + stage) % s->world}, group;

        if (last && s->chunks < 2)
            continue;
        group = add_group(l, "pp", pair, 2);
        if (group < 0)
            return -1;
        l->ch_fwd[i] = add_channel(l, group, ARGUS_FUNC_SENDRECV, pair);
        pair[0] = pair[1];
        pair[1] = i;
        l->ch_bwd[i] = add_channel(l, group, ARGUS_FUNC_SENDRECV, pair);
        if (l->ch_fwd[i] < 0 || l->ch_bwd[i] < 0)
            return -1;
    }
    return 0;
}

int fb_layout_make(struct fb_layout *l, struct fb_result *r)
{
    const struct fb_spec *s = &r->spec;
    size_t n = (size_t)s->world;
    int shard = s->style == FB_FSDP ? s->shard : s->dp;

    memset(l, 0, sizeof(*l));
    l->r = r;
    l->rng = s->seed ^ 0xa5a5a5a5deadbeefULL;
    l->ch_world = calloc(n, sizeof(int));
    l->ch_tp = calloc(n, sizeof(int));
    l->ch_dp = calloc(n, sizeof(int));
    l->ch_ep = calloc(n, sizeof(int));
    l->ch_replica = calloc(n, sizeof(int));
    l->ch_fwd = calloc(n, sizeof(int));
    l->ch_bwd = calloc(n, sizeof(int));
    l->rank_factor = calloc(n, sizeof(double));
    l->copy_factor = calloc(n, sizeof(double));
    l->class_slot = calloc(FB_CLASS_SLOTS, sizeof(*l->class_slot));
    if (!l->ch_world || !l->ch_tp || !l->ch_dp || !l->ch_ep || !l->ch_replica || !l->ch_fwd ||
        !l->ch_bwd || !l->rank_factor || !l->copy_factor || !l->class_slot)
        return -1;
    if (add_family(l, "world", s->world, 1, l->ch_world) < 0 ||
        add_family(l, "tp", s->tp, 1, l->ch_tp) < 0 ||
        add_family(l, "dp", shard, s->tp, l->ch_dp) < 0 ||
        add_family(l, "replica", s->dp / shard, shard * s->tp, l->ch_replica) < 0 ||
        add_family(l, "ep", s->ep, s->tp, l->ch_ep) < 0 || add_pairs(l) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        l->rank_factor[i] = 1.0 + s->noise.rank * fb_normal(&l->rng);
    for (size_t i = 0; i < n; i++)
        l->copy_factor[i] = 1.0 + s->noise.copy * fb_normal(&l->rng);
    return 0;
}

void fb_layout_free(struct fb_layout *l)
{
    for (size_t i = 0; i < l->n_channels; i++) {
        free(l->channels[i].arrival);
        free(l->channels[i].stream);
        free(l->channels[i].cls);
    }
    free(l->channels);
    free(l->ch_world);
    free(l->ch_tp);
    free(l->ch_dp);
    free(l->ch_ep);
    free(l->ch_replica);
    free(l->ch_fwd);
    free(l->ch_bwd);
    free(l->rank_factor);
    free(l->copy_factor);
    free(l->class_slot);
}

/* ---- classes ---------------------------------------------------------- */

static uint64_t class_hash(const struct fb_class *c)
{
    uint64_t h = (uint64_t)c->kind * 31 + (uint64_t)c->func;

    h = h * 1000003u + (uint64_t)(c->group + 1);
    h = h * 1000003u + (uint64_t)(c->peer + 1);
    h = h * 1000003u + c->bytes;
    h = h * 1000003u + c->grid[0];
    h = h * 1000003u + (uint64_t)(uintptr_t)c->name;
    return fb_random(&h);
}

static int class_equal(const struct fb_class *a, const struct fb_class *b)
{
    return a->kind == b->kind && a->func == b->func && a->group == b->group && a->peer == b->peer &&
           a->bytes == b->bytes && a->grid[0] == b->grid[0] && a->name == b->name;
}

uint32_t fb_class_id(struct fb_layout *l, const struct fb_class *c)
{
    struct fb_result *r = l->r;
    size_t mask = FB_CLASS_SLOTS - 1, i = class_hash(c) & mask;

    for (; l->class_slot[i]; i = (i + 1) & mask) {
        if (class_equal(&r->classes[l->class_slot[i] - 1], c))
            return l->class_slot[i] - 1;
    }
    if (r->n_classes == r->classes_room) {
        size_t room = r->classes_room ? r->classes_room * 2 : 256;
        void *v = realloc(r->classes, room * sizeof(*c));

        if (!v || room > FB_CLASS_SLOTS)
            abort();
        r->classes = v;
        r->classes_room = room;
    }
    r->classes[r->n_classes] = *c;
    l->class_slot[i] = (uint32_t)++r->n_classes;
    return (uint32_t)r->n_classes - 1;
}
