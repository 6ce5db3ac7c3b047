/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/record/join.h"
#include "collector/record/names.h"
#include "collector/record/reorder.h"
#include "collector/record/tail.h"

#define SILENT_NS 4000000000LL    /* no FLUSH for this long: take what is there ... */
#define SILENT_SLACK 1000000000LL /* ... but for the newest second */
#define QUIET_NS 10000000000LL    /* and for this long: take everything */
#define TAIL_BYTES (512u << 10)
#define COMMS_MAX 1024u
#define MARKS_WAITING 4096u
#define COPY_SIZES_MAX                                                                             \
    256u /* distinct sizes of copies and of a communicator's calls; then by power of two */

struct comm {
    uint64_t hash;
    uint32_t row;
    uint32_t sizes; /* classes made for it */
};

struct argus_stream {
    argus_timeline_writer_t *w;
    argus_summary_t *summary;
    argus_join_t *join;
    struct argus_names names;
    struct argus_reorder reorder;
    struct argus_timeline_info info;
    struct argus_timeline_counters counters;
    struct argus_stream_stats stats;
    struct comm *comms;
    size_t n_comms;
    uint32_t copy_sizes, other_sizes;
    struct argus_mark_row *marks; /* ring of those that wait in the reorder buffer */
    size_t n_marks;
    int64_t flush, previous_flush; /* `start` of the last two FLUSH records */
    int64_t flush_at;              /* when the last one came, CLOCK_MONOTONIC */
    int64_t batch_at;              /* when the last GPU record came */
    struct argus_tail tail;
    argus_error_t failure; /* the first; "": none */
    int failed;
    char *path;
};

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
    s->info.rank = h->rank;
    s->info.world = h->world;
    s->info.local_rank = h->local_rank;
    s->info.pid = h->pid;
}

/* All but the summary. */
static argus_stream_t *begin(const struct argus_stream_options *o, const char *path,
                             const struct argus_ring_header *h, int replace, argus_error_t *err)
{
    argus_stream_t *s = calloc(1, sizeof(*s));

    if (!s) {
        argus_error(err, "%s: no memory", path);
        return NULL;
    }
    s->flush = s->previous_flush = INT64_MIN;
    describe(s, o, h);
    s->path = strdup(path);
    s->marks = calloc(MARKS_WAITING, sizeof(*s->marks));
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
    argus_stream_t *s = begin(o, path, h, 0, err);

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

/* ---- classes ------------------------------------------------------------ */

static struct comm *comm_of(argus_stream_t *s, uint64_t hash)
{
    for (size_t i = 0; i < s->n_comms; i++) {
        if (s->comms[i].hash == hash)
            return &s->comms[i];
    }
    return NULL;
}

static void add_comm(argus_stream_t *s, uint64_t hash, const struct argus_rec_comm *c,
                     uint32_t name)
{
    struct argus_comm_row row = {.hash = hash, .name = name, .members = ARGUS_NONE};
    struct comm *p = comm_of(s, hash);

    if (p || s->n_comms == COMMS_MAX)
        return;
    if (c) {
        row.size = c->nranks;
        row.rank = c->rank;
        row.nodes = c->nnodes;
    }
    if (!s->comms && !(s->comms = calloc(COMMS_MAX, sizeof(*s->comms))))
        return;
    p = &s->comms[s->n_comms];
    p->hash = hash;
    p->sizes = 0;
    p->row = argus_summary_comm(s->summary, &row);
    if (p->row != ARGUS_NONE)
        s->n_comms++;
}

static uint64_t power_of_two(uint64_t bytes)
{
    return bytes ? UINT64_C(1) << (63 - __builtin_clzll(bytes)) : 0;
}

/* Every size is a class until there are too many of them. */
static uint32_t sized_class(argus_stream_t *s, struct argus_class_row *row, uint32_t *sizes)
{
    uint32_t id;

    if (*sizes >= COPY_SIZES_MAX) {
        row->bytes = power_of_two(row->bytes);
        row->flags |= ARGUS_CLASS_POOLED;
        return argus_summary_class(s->summary, row);
    }
    id = argus_summary_class(s->summary, row);
    if (id != ARGUS_NONE && id >= s->names.newest_class) {
        s->names.newest_class = id + 1;
        ++*sizes;
    }
    return id;
}

static struct argus_class_row blank(int kind)
{
    return (struct argus_class_row){.kind = (uint8_t)kind,
                                    .dtype = ARGUS_DTYPE_UNKNOWN,
                                    .comm = ARGUS_NONE,
                                    .name = ARGUS_NONE,
                                    .peer = -1};
}

static uint32_t kernel_class(argus_stream_t *s, const struct argus_rec_kernel *k,
                             const struct argus_name_facts *name)
{
    struct argus_class_row row = blank(ARGUS_CLASS_COMPUTE);

    row.family = name->family;
    row.flags = name->phase;
    row.name = name->string;
    row.stream = k->stream;
    row.grid[0] = k->grid_x;
    row.grid[1] = k->grid_y;
    row.grid[2] = k->grid_z;
    row.block[0] = k->block_x;
    row.block[1] = k->block_y;
    row.block[2] = k->block_z;
    return argus_summary_class(s->summary, &row);
}

static uint32_t host_class(argus_stream_t *s, int kind, uint32_t func, const char *name)
{
    struct argus_class_row row = blank(kind);

    row.func = (uint8_t)(func > 255 ? 255 : func);
    row.name = argus_timeline_add_string(s->w, name, strlen(name));
    return argus_summary_class(s->summary, &row);
}

static uint32_t copy_class(argus_stream_t *s, const struct argus_record *rec)
{
    struct argus_class_row row = blank(ARGUS_CLASS_COPY);
    const char *name = rec->type == ARGUS_REC_MEMSET ? "memset" : "memcpy";

    row.func = rec->type == ARGUS_REC_MEMSET ? 0 : rec->u.copy.kind;
    row.bytes = rec->u.copy.bytes;
    row.stream = rec->u.copy.stream;
    row.name = argus_timeline_add_string(s->w, name, strlen(name));
    return sized_class(s, &row, &s->copy_sizes);
}

static uint32_t graph_class(argus_stream_t *s, const struct argus_rec_kernel *k)
{
    struct argus_class_row row = blank(ARGUS_CLASS_GRAPH);
    char name[32];

    row.stream = k->stream;
    snprintf(name, sizeof(name), "graph %u", argus_names_graph(&s->names, k->graph));
    row.name = argus_timeline_add_string(s->w, name, strlen(name));
    return argus_summary_class(s->summary, &row);
}

static uint32_t comm_class(argus_stream_t *s, const struct argus_item *item,
                           const struct argus_name_facts *name, uint32_t *seq)
{
    struct argus_class_row row = blank(ARGUS_CLASS_COMM);
    struct argus_call call;
    struct comm *comm = NULL;

    row.name = name->string;
    row.stream = item->stream;
    row.func = name->comm_func;
    if (!argus_join_kernel(s->join, name->comm_func, item->stream, item->graph, item->graph_node,
                           item->start, &call)) {
        s->stats.unmatched++;
        row.flags = ARGUS_CLASS_UNMATCHED;
        return argus_summary_class(s->summary, &row);
    }
    row.func = call.func;
    row.dtype = call.dtype;
    row.peer = call.peer;
    row.bytes = call.bytes;
    if (call.comm) {
        add_comm(s, call.comm, NULL, ARGUS_NONE);
        comm = comm_of(s, call.comm);
    }
    if (!comm)
        return sized_class(s, &row, &s->other_sizes);
    *seq = call.seq;
    row.comm = comm->row;
    return sized_class(s, &row, &comm->sizes);
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
        rc = argus_summary_mark(s->summary, &s->marks[item->aux % MARKS_WAITING], &err);
    } else {
        if (item->class_id == ARGUS_NONE) {
            const struct argus_name_facts *name = argus_names_at(&s->names, item->aux);

            ev.class_id = comm_class(s, item, name, &ev.seq);
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
        item.class_id = graph_class(s, k);
    } else {
        id = argus_names_find(&s->names, ring, k->name);
        if (argus_names_at(&s->names, id)->comm_func != ARGUS_FUNC_NONE) {
            item.class_id = ARGUS_NONE;
            item.aux = id;
        } else {
            item.class_id = kernel_class(s, k, argus_names_at(&s->names, id));
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
    s->marks[s->n_marks++ % MARKS_WAITING] = row;
    hold(s, &item, now);
}

static void peer_wait(argus_stream_t *s, const struct argus_record *rec, int64_t now)
{
    const struct argus_rec_peer *p = &rec->u.peer;
    struct argus_class_row row = blank(ARGUS_CLASS_PEER_WAIT);
    struct comm *comm;

    add_comm(s, p->comm, NULL, ARGUS_NONE);
    comm = comm_of(s, p->comm);
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
    add_comm(s, c->comm, c, name);
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
        simple(s, rec, copy_class(s, rec), rec->u.copy.stream, now);
        break;
    case ARGUS_REC_OVERHEAD:
        simple(s, rec, host_class(s, ARGUS_CLASS_OVERHEAD, rec->u.host.code, "overhead"), 0, now);
        break;
    case ARGUS_REC_SYNC:
        simple(s, rec, host_class(s, ARGUS_CLASS_SYNC, rec->u.host.code, "synchronize"), 0, now);
        break;
    case ARGUS_REC_API:
        simple(s, rec,
               host_class(s, ARGUS_CLASS_ALLOC, rec->u.host.code,
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
    s->info.world = h->world;
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

/* ---- to go on after a crash ---------------------------------------------- */

#define PLAIN(x)                                                                                   \
    x(s->counters) x(s->stats) x(s->copy_sizes) x(s->other_sizes) x(s->n_marks) x(s->flush)        \
        x(s->previous_flush) x(s->reorder.newest) x(s->reorder.watermark)

void argus_stream_save(argus_stream_t *s, struct argus_blob *b)
{
    size_t marks = s->n_marks < MARKS_WAITING ? s->n_marks : MARKS_WAITING;

    argus_tail_trim(&s->tail, s->w);
    argus_tail_save(&s->tail, b);
#define PUT(member) argus_blob_put(b, &(member), sizeof(member));
    PLAIN(PUT)
#undef PUT
    argus_names_save(&s->names, b);
    argus_blob_put_array(b, s->comms, s->n_comms, sizeof(*s->comms));
    argus_blob_put_array(b, s->marks, marks, sizeof(*s->marks));
    argus_blob_put_array(b, s->reorder.items, s->reorder.n, sizeof(*s->reorder.items));
    argus_join_save(s->join, b);
    argus_summary_save(s->summary, b);
}

static void restore_plain(argus_stream_t *s, struct argus_ring *ring, struct argus_blob *b)
{
    struct argus_mark_row *marks;
    struct comm *comms;
    size_t n;

#define GET(member) argus_blob_get(b, &(member), sizeof(member));
    PLAIN(GET)
#undef GET
    argus_names_restore(&s->names, ring, b);
    comms = argus_blob_get_array(b, sizeof(*comms), COMMS_MAX, COMMS_MAX, &n);
    s->comms = comms;
    s->n_comms = n;
    marks = argus_blob_get_array(b, sizeof(*marks), MARKS_WAITING, 0, &n);
    if (marks)
        memcpy(s->marks, marks, n * sizeof(*marks));
    free(marks);
    s->reorder.items =
        argus_blob_get_array(b, sizeof(*s->reorder.items), SIZE_MAX, 0, &s->reorder.n);
    s->reorder.capacity = s->reorder.n;
    argus_join_restore(s->join, b);
}

argus_stream_t *argus_stream_restore(const struct argus_stream_options *o, const char *path,
                                     const char *old, const struct argus_ring_header *h,
                                     struct argus_ring *ring, struct argus_blob *b,
                                     argus_error_t *err)
{
    argus_timeline_t *t = argus_timeline_open(old, err);
    argus_stream_t *s = NULL;

    if (!t)
        return NULL;
    s = begin(o, path, h, 1, err);
    if (!s)
        goto error;
    if (argus_tail_restore(&s->tail, s->w, t, b, err) < 0)
        goto error;
    restore_plain(s, ring, b);
    s->summary = argus_summary_restore(&o->summary, s->w, b, err);
    if (!s->summary)
        goto error;
    argus_timeline_close(t);
    argus_stream_header(s, h, 0);
    return s;
error:
    argus_timeline_close(t);
    argus_stream_abandon(s);
    return NULL;
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
