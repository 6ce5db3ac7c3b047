/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/record/stream_impl.h"

#define SILENT_NS 4000000000LL    /* no FLUSH for this long: take what is there ... */
#define SILENT_SLACK 1000000000LL /* ... but for the newest second */
#define QUIET_NS 10000000000LL    /* and for this long: take everything */
#define TAIL_BYTES (512u << 10)

static void describe(argus_stream_t *s, const struct argus_stream_options *o,
                     const struct argus_ring_header *h)
{
    snprintf(s->info.job, sizeof(s->info.job), "%s", o->job[0] ? o->job : h->job);
    snprintf(s->info.step, sizeof(s->info.step), "%s", o->step[0] ? o->step : h->step);
    snprintf(s->info.node, sizeof(s->info.node), "%s", o->node[0] ? o->node : h->node);
    snprintf(s->info.source, sizeof(s->info.source), "argus");
    snprintf(s->info.mode, sizeof(s->info.mode), "%s", o->mode);
    s->info.window = o->summary.window;
    s->info.restart = o->restart;
    s->info.rank = h->rank > 0 ? h->rank : 0; /* -1: nobody told it which it is */
    s->info.world = h->world > 0 ? h->world : 0;
    s->info.local_rank = h->local_rank;
    s->info.pid = h->pid;
}

/* All but the summary. */
argus_stream_t *argus_stream_begin(const struct argus_stream_options *o, const char *path,
                                   const struct argus_ring_header *h, int replace,
                                   argus_error_t *err)
{
    argus_stream_t *s = calloc(1, sizeof(*s));

    if (!s) {
        argus_error(err, "%s: no memory", path);
        return NULL;
    }
    s->flush = s->previous_flush = INT64_MIN;
    describe(s, o, h);
    s->path = strdup(path);
    s->marks = calloc(ARGUS_STREAM_MARKS, sizeof(*s->marks));
    s->join = argus_join_create();
    if (!s->path || !s->marks || !s->join) {
        argus_error(err, "%s: no memory", path);
        argus_stream_abandon(s);
        return NULL;
    }
    s->w = argus_timeline_create(path, &s->info, replace, err);
    if (!s->w) {
        argus_stream_abandon(s);
        return NULL;
    }
    argus_timeline_set_tap(s->w, argus_tail_tap, &s->tail);
    argus_names_init(&s->names, s->w);
    return s;
}

argus_stream_t *argus_stream_create(const struct argus_stream_options *o, const char *path,
                                    const struct argus_ring_header *h, argus_error_t *err)
{
    argus_stream_t *s = argus_stream_begin(o, path, h, 0, err);

    if (!s)
        return NULL;
    s->summary = argus_summary_create(&o->summary, s->w, err);
    if (!s->summary) {
        argus_stream_abandon(s);
        return NULL;
    }
    argus_stream_header(s, h, 0);
    return s;
}

static void destroy(argus_stream_t *s)
{
    argus_summary_destroy(s->summary);
    argus_join_destroy(s->join);
    argus_names_free(&s->names);
    argus_reorder_free(&s->reorder);
    argus_tail_free(&s->tail);
    free(s->comms);
    free(s->marks);
    free(s->path);
    free(s);
}

void argus_stream_abandon(argus_stream_t *s)
{
    if (!s)
        return;
    argus_timeline_abandon(s->w);
    destroy(s);
}

int argus_stream_failed(const argus_stream_t *s)
{
    return s->failed;
}

/* The first failure is told, all that follow are counted: the ring must be emptied in any case. */
static void fail(argus_stream_t *s, const argus_error_t *err)
{
    s->stats.lost++;
    if (s->failed)
        return;
    s->failed = 1;
    s->failure = *err;
}

static void append(argus_stream_t *s, enum argus_dataset dataset, const void *row)
{
    argus_error_t err = {""};

    if (argus_timeline_append(s->w, dataset, row, 1, &err) < 0)
        fail(s, &err);
}

/* ---- from the reorder buffer to the summary ------------------------------ */

static void emit(void *arg, const struct argus_item *item)
{
    argus_stream_t *s = arg;
    struct argus_event_row ev = {.start = item->start,
                                 .duration = item->end - item->start,
                                 .class_id = item->class_id,
                                 .stream = item->stream,
                                 .seq = ARGUS_NONE};
    argus_error_t err = {""};
    int rc;

    if (item->type == ARGUS_REC_MARK) {
        rc = argus_summary_mark(s->summary, &s->marks[item->aux % ARGUS_STREAM_MARKS], &err);
    } else {
        if (item->class_id == ARGUS_NONE) {
            const struct argus_name_facts *name = argus_names_at(&s->names, item->aux);

            ev.class_id = argus_stream_comm_class(s, item, name, &ev.seq);
        }
        if (ev.class_id == ARGUS_NONE)
            rc = argus_error(&err, "%s: no room for another class", s->path);
        else
            rc = argus_summary_event(s->summary, &ev, &err);
    }
    if (rc == 0 && s->tail.rows[ARGUS_DS_EVENTS].n > TAIL_BYTES) {
        rc = argus_timeline_flush(s->w, &err); /* a window was kept: it need not be held as well */
        argus_tail_trim(&s->tail, s->w);
    }
    if (rc < 0)
        fail(s, &err);
}

static void hold(argus_stream_t *s, const struct argus_item *item, int64_t now)
{
    s->batch_at = now;
    if (!s->flush_at)
        s->flush_at = now;
    if (argus_reorder_add(&s->reorder, item, emit, s) < 0)
        s->stats.lost++;
}

static void kernel(argus_stream_t *s, struct argus_ring *ring, const struct argus_record *rec,
                   int64_t now)
{
    const struct argus_rec_kernel *k = &rec->u.kernel;
    struct argus_item item = {.start = rec->start,
                              .end = rec->end,
                              .type = rec->type,
                              .stream = k->stream,
                              .graph = k->graph,
                              .graph_node = k->graph_node};
    uint32_t id;

    if (argus_names_kernel(&s->names, k, &item.class_id)) {
        hold(s, &item, now);
        return;
    }
    if (rec->type == ARGUS_REC_GRAPH) {
        item.class_id = argus_stream_graph_class(s, k);
    } else {
        id = argus_names_find(&s->names, ring, k->name);
        if (argus_names_at(&s->names, id)->comm_func != ARGUS_FUNC_NONE) {
            item.class_id = ARGUS_NONE;
            item.aux = id;
        } else {
            item.class_id = argus_stream_kernel_class(s, k, argus_names_at(&s->names, id));
            if (item.class_id == ARGUS_NONE) {
                s->stats.lost++;
                return;
            }
            argus_names_remember(&s->names, k, item.class_id);
        }
    }
    hold(s, &item, now);
}

static void simple(argus_stream_t *s, const struct argus_record *rec, uint32_t class_id,
                   uint32_t stream, int64_t now)
{
    struct argus_item item = {.start = rec->start,
                              .end = rec->end,
                              .type = rec->type,
                              .class_id = class_id,
                              .stream = stream};

    if (class_id == ARGUS_NONE)
        s->stats.lost++;
    else
        hold(s, &item, now);
}

static void mark(argus_stream_t *s, struct argus_ring *ring, const struct argus_record *rec,
                 int64_t now)
{
    const struct argus_rec_mark *m = &rec->u.mark;
    const struct argus_name_facts *name =
        argus_names_at(&s->names, argus_names_find(&s->names, ring, m->name));
    struct argus_item item = {.start = rec->start, .end = rec->end, .type = ARGUS_REC_MARK};
    struct argus_mark_row row = {.start = rec->start,
                                 .end = rec->end,
                                 .name = name->string,
                                 .domain = ARGUS_NONE,
                                 .tid = rec->tid,
                                 .level = (uint16_t)m->level,
                                 .kind = name->mark_kind};

    if (m->domain != ARGUS_NAME_NONE)
        row.domain =
            argus_names_at(&s->names, argus_names_find(&s->names, ring, m->domain))->string;
    item.aux = (uint32_t)s->n_marks;
    s->marks[s->n_marks++ % ARGUS_STREAM_MARKS] = row;
    hold(s, &item, now);
}

static void peer_wait(argus_stream_t *s, const struct argus_record *rec, int64_t now)
{
    const struct argus_rec_peer *p = &rec->u.peer;
    struct argus_class_row row = argus_stream_blank(ARGUS_CLASS_PEER_WAIT);
    struct comm *comm;

    argus_stream_add_comm(s, p->comm, NULL, ARGUS_NONE);
    comm = argus_stream_comm_of(s, p->comm);
    row.comm = comm ? comm->row : ARGUS_NONE;
    row.func = (uint8_t)(p->state > 255 ? 255 : p->state);
    row.peer = p->peer;
    row.name = argus_timeline_add_string(s->w, "proxy wait", strlen("proxy wait"));
    simple(s, rec, argus_summary_class(s->summary, &row), 0, now);
}

static void gap(argus_stream_t *s, uint32_t source, uint32_t reason, int64_t start, int64_t end,
                uint64_t count)
{
    struct argus_gap_row row = {
        .start = start, .end = end, .count = count, .source = source, .reason = reason};
    argus_error_t err = {""};

    s->counters.gaps++;
    if (source == ARGUS_SOURCE_CUPTI)
        argus_join_gap(s->join, end);
    if (argus_summary_gap(s->summary, &row, &err) < 0)
        fail(s, &err);
}

static void stack(argus_stream_t *s, struct argus_ring *ring, const struct argus_record *rec)
{
    const struct argus_rec_stack *k = &rec->u.stack;
    struct argus_stack_row row = {.time = rec->start,
                                  .tid = rec->tid ? rec->tid : k->tid,
                                  .state = k->state,
                                  .run_delay_us = k->run_delay_us,
                                  .starved = k->starved,
                                  .step = ARGUS_STEP_NONE};
    argus_error_t err = {""};

    row.folded = argus_names_at(&s->names, argus_names_find(&s->names, ring, k->folded))->string;
    if (argus_summary_stack(s->summary, &row, &err) < 0)
        fail(s, &err);
}

static void comm(argus_stream_t *s, struct argus_ring *ring, const struct argus_record *rec)
{
    const struct argus_rec_comm *c = &rec->u.comm;
    uint32_t name = ARGUS_NONE;

    if (c->name != ARGUS_NAME_NONE)
        name = argus_names_at(&s->names, argus_names_find(&s->names, ring, c->name))->string;
    argus_stream_add_comm(s, c->comm, c, name);
    s->stats.comms++;
}

static void one(argus_stream_t *s, struct argus_ring *ring, const struct argus_record *rec,
                int64_t now)
{
    struct argus_anchor_row anchor;

    switch (rec->type) {
    case ARGUS_REC_KERNEL:
    case ARGUS_REC_GRAPH:
        kernel(s, ring, rec, now);
        break;
    case ARGUS_REC_MEMCPY:
    case ARGUS_REC_MEMSET:
        simple(s, rec, argus_stream_copy_class(s, rec), rec->u.copy.stream, now);
        break;
    case ARGUS_REC_OVERHEAD:
        simple(s, rec,
               argus_stream_host_class(s, ARGUS_CLASS_OVERHEAD, rec->u.host.code, "overhead"), 0,
               now);
        break;
    case ARGUS_REC_SYNC:
        simple(s, rec,
               argus_stream_host_class(s, ARGUS_CLASS_SYNC, rec->u.host.code, "synchronize"), 0,
               now);
        break;
    case ARGUS_REC_API:
        simple(
            s, rec,
            argus_stream_host_class(s, ARGUS_CLASS_ALLOC, rec->u.host.code,
                                    rec->u.host.code == ARGUS_API_FREE ? "cudaFree" : "cudaMalloc"),
            0, now);
        break;
    case ARGUS_REC_PEER_WAIT:
        peer_wait(s, rec, now);
        break;
    case ARGUS_REC_MARK:
        mark(s, ring, rec, now);
        break;
    case ARGUS_REC_COMM:
        comm(s, ring, rec);
        break;
    case ARGUS_REC_OP:
    case ARGUS_REC_OP_DETAIL:
    case ARGUS_REC_LAUNCH:
        if (argus_join_record(s->join, rec) < 0)
            s->stats.lost++;
        break;
    case ARGUS_REC_STACK:
        stack(s, ring, rec);
        break;
    case ARGUS_REC_ANCHOR:
        anchor = (struct argus_anchor_row){.realtime = rec->start,
                                           .monotonic_raw = rec->u.anchor.monotonic_raw,
                                           .cupti = rec->u.anchor.cupti};
        append(s, ARGUS_DS_ANCHORS, &anchor);
        break;
    case ARGUS_REC_GAP:
        gap(s, rec->u.gap.source, rec->u.gap.reason, rec->start, rec->end, rec->u.gap.count);
        break;
    case ARGUS_REC_FLUSH:
        s->previous_flush = s->flush;
        s->flush = rec->start;
        s->flush_at = now;
        if (s->previous_flush != INT64_MIN)
            argus_reorder_advance(&s->reorder, s->previous_flush, emit, s);
        break;
    default:
        s->counters.invalid++;
        break;
    }
}

/* Times that could not be subtracted and summed safely are refused here, once for all.  A gap may
 * be longer than a day; nothing is summed of it. */
static int sane(const struct argus_record *rec)
{
    const int64_t limit = INT64_MAX / 4, day = INT64_C(86400000000000);

    return rec->start >= 0 && rec->end >= rec->start && rec->end < limit &&
           (rec->type == ARGUS_REC_GAP || rec->end - rec->start <= day);
}

void argus_stream_records(argus_stream_t *s, struct argus_ring *ring,
                          const struct argus_record *records, size_t n, int64_t now)
{
    for (size_t i = 0; i < n; i++) {
        s->stats.records++;
        if (sane(&records[i]))
            one(s, ring, &records[i], now);
        else
            s->counters.invalid++;
    }
}

void argus_stream_torn(argus_stream_t *s, uint64_t n)
{
    s->stats.torn += n;
}

void argus_stream_header(argus_stream_t *s, const struct argus_ring_header *h, int64_t now)
{
    struct argus_timeline_counters *c = &s->counters;
    uint64_t dropped = 0, invalid = 0;

    snprintf(s->info.gpu_uuid, sizeof(s->info.gpu_uuid), "%s", h->gpu_uuid);
    snprintf(s->info.gpu_name, sizeof(s->info.gpu_name), "%s", h->gpu_name);
    snprintf(s->info.gpu_pci, sizeof(s->info.gpu_pci), "%s", h->gpu_pci);
    s->info.world = h->world > 0 ? h->world : 0;
    s->info.local_rank = h->local_rank;
    s->info.driver_version = h->driver_version;
    s->info.cupti_version = h->cupti_version;
    s->info.nccl_version = h->nccl_version;
    s->info.simulated = h->simulated;
    for (int i = 0; i < ARGUS_SOURCE_COUNT; i++) {
        if (h->dropped[i] != c->dropped_source[i])
            argus_join_lossy(s->join);
        c->dropped_source[i] = h->dropped[i];
        c->standdown[i] = h->standdown[i];
        dropped += h->dropped[i];
        invalid += h->invalid[i];
    }
    s->stats.memory = argus_summary_memory(s->summary);
    c->dropped = dropped + s->stats.lost;
    c->torn = s->stats.torn;
    c->late = argus_summary_late(s->summary);
    c->records = s->stats.records;
    if (invalid > s->stats.invalid) {
        c->invalid += invalid - s->stats.invalid;
        s->stats.invalid = invalid;
    }
    argus_timeline_set_info(s->w, &s->info);
    argus_timeline_set_counters(s->w, c);
    if (now && s->flush_at && now - s->flush_at > SILENT_NS && s->reorder.n) {
        if (now - s->batch_at > QUIET_NS)
            argus_reorder_advance(&s->reorder, INT64_MAX, emit, s);
        else
            argus_reorder_advance(&s->reorder, s->reorder.newest - SILENT_SLACK, emit, s);
    }
}

int argus_stream_health(argus_stream_t *s, const char *metric, const char *device, int64_t time,
                        double value)
{
    struct argus_health_row row = {.time = time, .value = value};

    row.metric = argus_timeline_add_string(s->w, metric, strlen(metric));
    row.device = argus_timeline_add_string(s->w, device, strlen(device));
    if (row.metric == ARGUS_NONE || row.device == ARGUS_NONE)
        return -1;
    append(s, ARGUS_DS_HEALTH, &row);
    return 0;
}

static int report(argus_stream_t *s, argus_error_t *err)
{
    if (!s->failed)
        return 0;
    *err = s->failure;
    return -1;
}

int argus_stream_flush(argus_stream_t *s, argus_error_t *err)
{
    argus_error_t e = {""};

    if (argus_summary_flush(s->summary, &e) < 0)
        fail(s, &e);
    argus_tail_trim(&s->tail, s->w);
    return report(s, err);
}

int argus_stream_seal(argus_stream_t *s, const char *end, struct argus_stream_stats *stats,
                      argus_error_t *err)
{
    argus_error_t e = {""};
    int rc;

    argus_reorder_advance(&s->reorder, INT64_MAX, emit, s);
    if (argus_summary_finish(s->summary, &e) < 0)
        fail(s, &e);
    s->counters.late = argus_summary_late(s->summary);
    s->counters.torn = s->stats.torn;
    s->counters.records = s->stats.records;
    argus_timeline_set_counters(s->w, &s->counters);
    argus_stream_stats(s, stats);
    if (argus_timeline_seal(s->w, end, &e) < 0)
        fail(s, &e);
    s->w = NULL;
    stats->lost = s->stats.lost;
    rc = report(s, err);
    destroy(s);
    return rc;
}

void argus_stream_stats(const argus_stream_t *s, struct argus_stream_stats *stats)
{
    *stats = s->stats;
    stats->steps = argus_summary_steps(s->summary);
    stats->memory = argus_summary_memory(s->summary);
}

const char *argus_stream_path(const argus_stream_t *s)
{
    return s->path;
}
