/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines of a made-up job, written as the recorder writes them. */
#include <argus/record.h>
#include <argus/timeline.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/summary/summary.h"
#include "analyzer/timeline/timeline_io.h"
#include "contrib/faultbench/internal.h"

static void fill_info(const struct fb_result *r, int rank, struct argus_timeline_info *info)
{
    memset(info, 0, sizeof(*info));
    snprintf(info->job, sizeof(info->job), "fb%llu", (unsigned long long)r->spec.seed);
    snprintf(info->step, sizeof(info->step), "0");
    info->rank = rank;
    info->world = r->spec.world;
    info->local_rank = rank % r->spec.ranks_per_node;
    info->pid = 1000 + rank;
    snprintf(info->node, sizeof(info->node), "n%04d", fb_node_of(&r->spec, rank));
    snprintf(info->gpu_uuid, sizeof(info->gpu_uuid), "GPU-fb-%06d", rank);
    snprintf(info->gpu_name, sizeof(info->gpu_name), "faultbench (no GPU)");
    snprintf(info->source, sizeof(info->source), "faultbench");
    snprintf(info->mode, sizeof(info->mode), r->spec.window ? "summary" : "full");
    info->simulated = 1;
    info->window = r->spec.window;
}

static uint32_t comm_row(const struct fb_result *r, int group, int rank, argus_summary_t *s)
{
    const struct fb_group *g = &r->groups[group];
    struct argus_comm_row row = {
        .hash = g->hash, .name = ARGUS_NONE, .size = (uint32_t)g->size, .members = ARGUS_NONE};

    for (int i = 0; i < g->size; i++) {
        if (g->ranks[i] == rank)
            row.rank = (uint32_t)i;
    }
    return argus_summary_comm(s, &row);
}

static uint32_t class_row(const struct fb_result *r, uint32_t id, int stream, int rank,
                          argus_summary_t *s, argus_timeline_writer_t *w)
{
    const struct fb_class *c = &r->classes[id];
    struct argus_class_row row = {.kind = (uint8_t)c->kind,
                                  .func = (uint8_t)c->func,
                                  .dtype = (uint8_t)c->dtype,
                                  .family = (uint8_t)c->family,
                                  .stream = (uint32_t)stream,
                                  .comm = ARGUS_NONE,
                                  .peer = c->peer,
                                  .bytes = c->bytes};

    row.name = argus_timeline_add_string(w, c->name, strlen(c->name));
    if (c->kind == ARGUS_CLASS_COMPUTE || c->kind == ARGUS_CLASS_COMM) {
        memcpy(row.grid, c->grid, sizeof(row.grid));
        memcpy(row.block, c->block, sizeof(row.block));
    }
    if (c->group >= 0)
        row.comm = comm_row(r, c->group, rank, s);
    return argus_summary_class(s, &row);
}

static int emit_rank(const struct fb_result *r, int rank, const char *path, argus_error_t *err)
{
    const struct fb_rank_events *ev = &r->events[rank];
    struct argus_summary_options opt;
    struct argus_timeline_info info;
    struct argus_timeline_counters counters = {.records = ev->n};
    argus_timeline_writer_t *w = NULL;
    argus_summary_t *s = NULL;
    uint32_t *map = malloc((r->n_classes + 1) * sizeof(*map));
    uint64_t rng = r->spec.seed + 31u * (uint64_t)fb_node_of(&r->spec, rank);
    int64_t shift = (int64_t)((fb_uniform(&rng) - 0.5) * 2e6 * r->spec.clock_offset_ms);
    int rc = -1;

    if (!map)
        return argus_error(err, "%s: no memory", path);
    memset(map, 0xff, (r->n_classes + 1) * sizeof(*map));
    argus_summary_defaults(&opt);
    opt.window = r->spec.window;
    fill_info(r, rank, &info);
    w = argus_timeline_create(path, &info, 1, err);
    if (!w)
        goto out;
    s = argus_summary_create(&opt, w, err);
    if (!s)
        goto out;
    for (size_t i = 0; i < ev->n; i++) {
        const struct fb_event *e = &ev->v[i];
        struct argus_event_row row = {.start = e->start + shift,
                                      .duration = e->duration,
                                      .stream = e->stream,
                                      .step = ARGUS_STEP_NONE,
                                      .seq = e->seq};

        if (map[e->cls] == ARGUS_NONE)
            map[e->cls] = class_row(r, e->cls, e->stream, rank, s, w);
        row.class_id = map[e->cls];
        if (argus_summary_event(s, &row, err) < 0)
            goto out;
    }
    if (argus_summary_finish(s, err) < 0)
        goto out;
    argus_timeline_set_counters(w, &counters);
    rc = argus_timeline_seal(w, "exit", err);
    w = NULL;
out:
    argus_summary_destroy(s);
    if (w)
        argus_timeline_abandon(w);
    free(map);
    return rc;
}

int fb_emit(const struct fb_result *r, const char *dir, char *error, size_t error_size)
{
    argus_error_t err = {""};
    char path[4352];

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return snprintf(error, error_size, "%s: %s", dir, strerror(errno)), -1;
    snprintf(path, sizeof(path), "%s/step-0", dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return snprintf(error, error_size, "%s: %s", path, strerror(errno)), -1;
    for (int i = 0; i < r->spec.world; i++) {
        snprintf(path, sizeof(path), "%s/step-0/" ARGUS_TIMELINE_NAME, dir, i);
        if (emit_rank(r, i, path, &err) < 0)
            return snprintf(error, error_size, "%s", err.text), -1;
    }
    return 0;
}
