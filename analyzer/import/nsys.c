/* SPDX-License-Identifier: Apache-2.0 */
/* Nsight Systems: the tables of one rank (SQLite exports, schema 3) to its trace. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/nsys.h"
#include "analyzer/summary/summary.h"

#define TIME_MAX (INT64_C(1) << 61)
#define DURATION_MAX (INT64_C(1) << 53)

/* Shared by the readers of one rank's tables. */
struct reader {
    struct nsys_db *db;
    const struct nsys_rank *rank;
    struct import_trace *t;
    int first_of_process; /* takes host calls that belong to no GPU */
};

static int good_times(struct import_trace *t, int64_t start, int64_t end)
{
    if (start >= 0 && start < TIME_MAX && end >= start && end - start <= DURATION_MAX)
        return 1;
    t->invalid++;
    return 0;
}

static uint32_t column_u32(sqlite3_stmt *s, int i)
{
    int64_t v = sqlite3_column_int64(s, i);

    return v < 0 || v > UINT32_MAX ? 0 : (uint32_t)v;
}

static const char *column_text(sqlite3_stmt *s, int i)
{
    const char *text = (const char *)sqlite3_column_text(s, i);

    return text ? text : "";
}

static int full(const struct reader *r, argus_error_t *err)
{
    return argus_error(err, "%s: too many different names or out of memory", r->db->path);
}

static int add(struct reader *r, sqlite3_stmt *s, struct import_op *op, const char *name,
               argus_error_t *err)
{
    int64_t start = sqlite3_column_int64(s, 0), end = sqlite3_column_int64(s, 1);

    if (sqlite3_column_type(s, 0) != SQLITE_INTEGER) /* text, or nothing, reads as 0 */
        start = -1;
    if (!good_times(r->t, start, end))
        return 0;
    op->name = import_string(r->t, name, strlen(name));
    if (op->name == ARGUS_NONE ||
        import_event(r->t, start, end - start, import_op(r->t, op), column_u32(s, 2)) != 0)
        return full(r, err);
    return 0;
}

static int add_kernel(struct reader *r, sqlite3_stmt *s, argus_error_t *err)
{
    struct import_op op = {
        .dtype = ARGUS_DTYPE_UNKNOWN, .stream = column_u32(s, 3), .group = ARGUS_NONE, .peer = -1};
    const char *name = column_text(s, 4);
    int func = argus_kernel_comm_func(name);

    op.kind = func ? ARGUS_CLASS_COMM : ARGUS_CLASS_COMPUTE;
    op.func = (uint8_t)func;
    for (int i = 0; i < 3; i++) {
        op.grid[i] = column_u32(s, 5 + i);
        op.block[i] = column_u32(s, 8 + i);
    }
    return add(r, s, &op, name, err);
}

static int read_kernels(struct reader *r, argus_error_t *err)
{
    const char *table = "CUPTI_ACTIVITY_KIND_KERNEL";
    const char *name = nsys_has(r->db, table, "demangledName") ? "demangledName" : "shortName";
    sqlite3_stmt *s = nsys_prepare(
        r->db, err,
        "SELECT k.start, k.end, %s, k.streamId, n.value, %s, %s, %s, %s, %s, %s FROM %s k LEFT "
        "JOIN StringIds n ON n.id = k.%s WHERE " NSYS_PROCESS " = ?1 AND k.deviceId = ?2",
        nsys_or_zero(r->db, table, "correlationId"), nsys_or_zero(r->db, table, "gridX"),
        nsys_or_zero(r->db, table, "gridY"), nsys_or_zero(r->db, table, "gridZ"),
        nsys_or_zero(r->db, table, "blockX"), nsys_or_zero(r->db, table, "blockY"),
        nsys_or_zero(r->db, table, "blockZ"), table, name, nsys_or_zero(r->db, table, "globalPid"));
    int rc;

    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, r->rank->process);
    sqlite3_bind_int64(s, 2, r->rank->device);
    while ((rc = nsys_step(r->db, s, err)) > 0) {
        if ((rc = add_kernel(r, s, err)) != 0)
            break;
    }
    sqlite3_finalize(s);
    return rc;
}

static const char *copy_name(int64_t kind)
{
    static const char *const names[] = {
        "Memcpy",      "Memcpy HtoD",     "Memcpy DtoH",     "Memcpy HtoA",    "Memcpy AtoH",
        "Memcpy AtoA", "Memcpy AtoD",     "Memcpy DtoA",     "Memcpy DtoD",    "Memcpy HtoH",
        "Memcpy PtoP", "Memcpy UVM HtoD", "Memcpy UVM DtoH", "Memcpy UVM DtoD"};

    return names[kind > 0 && kind < 14 ? kind : 0];
}

/* Copies (`kind_column` set) and memsets. */
static int read_copies(struct reader *r, const char *table, const char *kind_column,
                       argus_error_t *err)
{
    sqlite3_stmt *s;
    int rc;

    if (!nsys_has(r->db, table, "start"))
        return 0;
    s = nsys_prepare(r->db, err,
                     "SELECT start, end, %s, streamId, %s, %s FROM %s WHERE " NSYS_PROCESS
                     " = ?1 AND deviceId = ?2",
                     nsys_or_zero(r->db, table, "correlationId"),
                     nsys_or_zero(r->db, table, "bytes"),
                     kind_column ? nsys_or_zero(r->db, table, kind_column) : "-1", table,
                     nsys_or_zero(r->db, table, "globalPid"));
    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, r->rank->process);
    sqlite3_bind_int64(s, 2, r->rank->device);
    while ((rc = nsys_step(r->db, s, err)) > 0) {
        int64_t bytes = sqlite3_column_int64(s, 4), kind = sqlite3_column_int64(s, 5);
        struct import_op op = {.kind = ARGUS_CLASS_COPY,
                               .func = kind > 0 && kind < 256 ? (uint8_t)kind : 0,
                               .dtype = ARGUS_DTYPE_UNKNOWN,
                               .stream = column_u32(s, 3),
                               .group = ARGUS_NONE,
                               .peer = -1,
                               .bytes = bytes > 0 ? (uint64_t)bytes : 0};

        if ((rc = add(r, s, &op, kind < 0 ? "Memset" : copy_name(kind), err)) != 0)
            break;
    }
    sqlite3_finalize(s);
    return rc;
}

static int has_correlation(const struct import_trace *t, uint32_t correlation)
{
    size_t low = 0, high = t->n_events;

    /* Sorted by the caller. */
    while (low < high) {
        size_t middle = (low + high) / 2;

        if (t->events[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->n_events && t->events[low].correlation == correlation;
}

static int by_correlation(const void *a, const void *b)
{
    const struct import_event *x = a, *y = b;

    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

/* Launches, synchronisations, allocations.  A launch belongs to the GPU its kernel ran on. */
static int read_host_calls(struct reader *r, argus_error_t *err)
{
    const char *table = "CUPTI_ACTIVITY_KIND_RUNTIME";
    struct import_trace gpu = *r->t; /* the GPU's events as they are now */
    sqlite3_stmt *s;
    int rc;

    if (!nsys_has(r->db, table, "start") || !nsys_has(r->db, table, "globalTid"))
        return 0;
    s = nsys_prepare(r->db, err,
                     "SELECT c.start, c.end, %s, n.value FROM %s c JOIN StringIds n ON n.id = "
                     "c.nameId WHERE c.globalTid BETWEEN ?1 AND ?1 + 16777215",
                     nsys_or_zero(r->db, table, "correlationId"), table);
    if (!s)
        return -1;
    gpu.events = malloc((gpu.n_events + 1) * sizeof(*gpu.events));
    if (!gpu.events) {
        sqlite3_finalize(s);
        return full(r, err);
    }
    if (gpu.n_events) {
        memcpy(gpu.events, r->t->events, gpu.n_events * sizeof(*gpu.events));
        qsort(gpu.events, gpu.n_events, sizeof(*gpu.events), by_correlation);
    }
    sqlite3_bind_int64(s, 1, r->rank->process);
    while ((rc = nsys_step(r->db, s, err)) > 0) {
        struct import_op op = {.dtype = ARGUS_DTYPE_UNKNOWN, .group = ARGUS_NONE, .peer = -1};
        int func = 0;

        op.kind = (uint8_t)import_host_call(column_text(s, 3), &func);
        op.func = (uint8_t)func;
        if (!op.kind || (op.kind == ARGUS_CLASS_LAUNCH ? !has_correlation(&gpu, column_u32(s, 2))
                                                       : !r->first_of_process))
            continue;
        if ((rc = add(r, s, &op, column_text(s, 3), err)) != 0)
            break;
    }
    sqlite3_finalize(s);
    free(gpu.events);
    return rc;
}

/* nsys numbers CUPTI's overheads on its own. */
static uint8_t overhead_kind(int64_t type)
{
    static const uint8_t kinds[] = {0, 0, 4, 1, 2, 3, 4, 5, 6};

    return type > 0 && type < (int64_t)sizeof(kinds) ? kinds[type] : 0;
}

static int read_overhead(struct reader *r, argus_error_t *err)
{
    const char *table = "CUPTI_ACTIVITY_KIND_OVERHEAD";
    sqlite3_stmt *s;
    int rc;

    if (!r->first_of_process || !nsys_has(r->db, table, "overheadType") ||
        !nsys_has(r->db, table, "globalTid"))
        return 0;
    s = nsys_prepare(r->db, err,
                     "SELECT c.start, c.end, 0, c.overheadType, n.value FROM %s c LEFT JOIN "
                     "StringIds n ON n.id = c.nameId WHERE c.globalTid BETWEEN ?1 AND ?1 + "
                     "16777215",
                     table);
    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, r->rank->process);
    while ((rc = nsys_step(r->db, s, err)) > 0) {
        struct import_op op = {.kind = ARGUS_CLASS_OVERHEAD,
                               .func = overhead_kind(sqlite3_column_int64(s, 3)),
                               .dtype = ARGUS_DTYPE_UNKNOWN,
                               .group = ARGUS_NONE,
                               .peer = -1};

        if ((rc = add(r, s, &op, column_text(s, 4), err)) != 0)
            break;
    }
    sqlite3_finalize(s);
    return rc;
}

/* Ranges of single framework operators carry a running number: each would be a name of its own. */
static int is_operator(const char *name)
{
    return strstr(name, ", op_id = ") || strstr(name, ", seq = ") || !strncmp(name, "nccl", 4);
}

static int read_marks(struct reader *r, argus_error_t *err)
{
    const char *table = "NVTX_EVENTS";
    const char *text = "e.text";
    sqlite3_stmt *s;
    int rc;

    if (!nsys_has(r->db, table, "end") || !nsys_has(r->db, table, "globalTid"))
        return 0;
    if (nsys_has(r->db, table, "textId"))
        text = nsys_has(r->db, table, "text") ? "coalesce(e.text, n.value)" : "n.value";
    /* 59: push and pop, 60: start and end */
    s = nsys_prepare(r->db, err,
                     "SELECT e.start, e.end, e.globalTid, %s FROM %s e LEFT JOIN StringIds n ON "
                     "n.id = %s WHERE e.eventType IN (59, 60) AND e.end IS NOT NULL AND "
                     "e.globalTid BETWEEN ?1 AND ?1 + 16777215",
                     text, table, nsys_has(r->db, table, "textId") ? "e.textId" : "-1");
    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, r->rank->process);
    while ((rc = nsys_step(r->db, s, err)) > 0) {
        struct import_mark mark = {.start = sqlite3_column_int64(s, 0),
                                   .end = sqlite3_column_int64(s, 1),
                                   .domain = ARGUS_NONE,
                                   .tid = (uint32_t)(sqlite3_column_int64(s, 2) & 0xffffff)};
        const char *name = column_text(s, 3);

        if (!*name || is_operator(name) || !good_times(r->t, mark.start, mark.end))
            continue;
        mark.name = import_string(r->t, name, strlen(name));
        if (import_mark(r->t, &mark) != 0) {
            rc = full(r, err);
            break;
        }
    }
    sqlite3_finalize(s);
    return rc;
}

static void read_gpu_name(struct reader *r)
{
    sqlite3_stmt *s;

    if (!nsys_has(r->db, "TARGET_INFO_GPU", "name") || !nsys_has(r->db, "TARGET_INFO_GPU", "id"))
        return;
    s = nsys_prepare(r->db, NULL, "SELECT name FROM TARGET_INFO_GPU WHERE id = ?1");
    if (!s)
        return;
    sqlite3_bind_int64(s, 1, r->rank->device);
    if (nsys_step(r->db, s, NULL) > 0)
        snprintf(r->t->gpu_name, sizeof(r->t->gpu_name), "%s", column_text(s, 0));
    sqlite3_finalize(s);
}

static void read_node(struct reader *r)
{
    sqlite3_stmt *s;

    if (!nsys_has(r->db, "TARGET_INFO_SYSTEM_ENV", "value"))
        return;
    s = nsys_prepare(r->db, NULL,
                     "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'");
    if (s && nsys_step(r->db, s, NULL) > 0)
        snprintf(r->t->node, sizeof(r->t->node), "%s", column_text(s, 0));
    sqlite3_finalize(s);
}

static int read_all(struct reader *r, int world, argus_error_t *err)
{
    if (import_trace_init(r->t, r->db->path, "nsys", err) != 0)
        return -1;
    r->t->rank = r->rank->rank;
    r->t->world = world;
    r->t->local_rank = (int)(r->rank->device & 0xffff);
    r->t->pid = (int)(r->rank->process >> 24 & 0xffffff);
    r->t->time_base = r->db->time_base;
    read_gpu_name(r);
    read_node(r);
    if (read_kernels(r, err) != 0 ||
        read_copies(r, "CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind", err) != 0 ||
        read_copies(r, "CUPTI_ACTIVITY_KIND_MEMSET", NULL, err) != 0 ||
        read_host_calls(r, err) != 0 || read_overhead(r, err) != 0 || read_marks(r, err) != 0 ||
        nsys_join_nccl(r->db, r->rank, r->t, err) != 0)
        return -1;
    if (import_trace_sort(r->t) != 0)
        return full(r, err);
    if (!r->t->kernels)
        return argus_error(err, "%s: no kernel of GPU %lld and process %lld has usable times",
                           r->db->path, (long long)r->rank->device,
                           (long long)(r->rank->process >> 24 & 0xffffff));
    return 0;
}

int nsys_read_rank(struct nsys_db *n, const struct nsys_rank *rank, int world, int first_of_process,
                   struct import_trace *t, argus_error_t *err)
{
    struct reader r = {.db = n, .rank = rank, .t = t, .first_of_process = first_of_process};

    return read_all(&r, world, err);
}
