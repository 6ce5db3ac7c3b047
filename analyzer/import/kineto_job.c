/* SPDX-License-Identifier: Apache-2.0 */
/* What a Kineto trace says of its job: rank, process groups, GPUs. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/kineto.h"

#define GROUPS_MAX 65536

void kineto_distributed(struct import_trace *t, const char *key, struct kineto_slice v)
{
    int64_t value = kineto_integer(v, -1);
    int major, minor, patch;

    if (!strcmp(key, "rank") && value >= 0 && value < ARGUS_WORLD_MAX) {
        t->rank = (int)value;
    } else if (!strcmp(key, "world_size") && value > 0 && value <= ARGUS_WORLD_MAX) {
        t->world = (int)value;
    } else if (!strcmp(key, "nccl_version") && v.length < 32) {
        char text[32];

        memcpy(text, v.text, v.length);
        text[v.length] = '\0';
        if (sscanf(text, "%d.%d.%d", &major, &minor, &patch) == 3 && major >= 0 && major < 1000 &&
            minor >= 0 && minor < 100 && patch >= 0 && patch < 100)
            t->nccl_version = (uint32_t)(major * 10000 + minor * 100 + patch);
    }
}

void kineto_group_start(struct kineto_groups *g)
{
    free(g->open.name.s);
    free(g->open.ranks.s);
    memset(&g->open, 0, sizeof(g->open));
    g->is_open = 1;
}

void kineto_group_field(struct kineto_groups *g, int depth, const char *key, struct kineto_slice v)
{
    if (!g->is_open)
        return;
    if (depth == 4 && !strcmp(key, "pg_name"))
        kineto_text_set(&g->open.name, v);
    else if (depth == 4 && !strcmp(key, "pg_size"))
        g->open.size = kineto_integer(v, 0);
    else if (!strcmp(key, "ranks") && v.kind != KINETO_OTHER)
        (depth == 5 ? kineto_text_add : kineto_text_set)(&g->open.ranks, v);
}

int kineto_group_finish(struct kineto_groups *g)
{
    struct kineto_group *more;

    g->is_open = 0;
    if (!g->open.name.length || !g->open.ranks.length || g->n >= GROUPS_MAX)
        return 0;
    more = realloc(g->list, (g->n + 1) * sizeof(*more));
    if (!more)
        return -1;
    g->list = more;
    g->list[g->n++] = g->open;
    memset(&g->open, 0, sizeof(g->open));
    return 0;
}

/* Events shorten long lists of ranks, and old ones have none. */
int kineto_groups_apply(struct kineto_groups *g, struct import_trace *t)
{
    for (size_t i = 0; i < t->n_groups; i++) {
        struct import_group *group = &t->groups[i];
        const char *members = import_text(t, group->members);

        if (group->name == ARGUS_NONE || (*members && !strstr(members, "...")))
            continue;
        for (size_t j = 0; j < g->n; j++) {
            if (strcmp(g->list[j].name.s, import_text(t, group->name)))
                continue;
            group->members = import_string(t, g->list[j].ranks.s, g->list[j].ranks.length);
            if (group->members == ARGUS_NONE)
                return -1;
            if (!group->size && g->list[j].size > 0 && g->list[j].size <= ARGUS_WORLD_MAX)
                group->size = (uint32_t)g->list[j].size;
            break;
        }
    }
    return 0;
}

void kineto_groups_free(struct kineto_groups *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free(g->list[i].name.s);
        free(g->list[i].ranks.s);
    }
    free(g->list);
    free(g->open.name.s);
    free(g->open.ranks.s);
}

void kineto_device_start(struct kineto_devices *d)
{
    if (d->n < KINETO_DEVICES) {
        d->list[d->n].id = -1;
        d->list[d->n++].name[0] = '\0';
    }
}

void kineto_device_field(struct kineto_devices *d, const char *key, struct kineto_slice v)
{
    if (!d->n)
        return;
    if (!strcmp(key, "id"))
        d->list[d->n - 1].id = kineto_integer(v, -1);
    else if (!strcmp(key, "name"))
        snprintf(d->list[d->n - 1].name, sizeof(d->list[0].name), "%.*s",
                 v.length < 64 ? (int)v.length : 63, v.text);
}

void kineto_devices_apply(const struct kineto_devices *d, struct import_trace *t,
                          const struct kineto_event *counts)
{
    int most = 0;

    for (int i = 1; i < KINETO_DEVICES; i++) {
        if (counts->on_device[i] > counts->on_device[most])
            most = i;
    }
    t->local_rank = most;
    for (size_t i = 0; i < d->n; i++) {
        if (d->list[i].id == most)
            memcpy(t->gpu_name, d->list[i].name, sizeof(t->gpu_name));
    }
}
