/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL calls of an nsys export.  NCCL marks each call with an NVTX range whose
 * payload (where the export has it) names the communicator, the message size
 * and the peer.  A thread's calls up to a launch are what the kernel carries.
 *
 * Payload: as JSON with the labels that NCCL registers, or as the binary
 * structure: communicator (8 bytes), message size (8), peer or root (4); of
 * ncclCommInit*: communicator (8), ranks (4), rank (4).
 */
#include <config.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/nsys.h"

struct call {
    int64_t thread, start;
    uint64_t comm, bytes;
    int32_t peer; /* within the communicator; -1: none */
    uint8_t func;
};

struct comm { /* from the initialisation */
    uint64_t id;
    uint32_t size, rank;
};

struct launch {
    uint32_t correlation;
    uint32_t event; /* of the trace */
    int64_t thread, start;
};

struct joiner {
    struct nsys_db *db;
    const struct nsys_rank *rank;
    struct import_trace *t;
    struct call *calls;
    size_t n_calls, calls_size;
    struct comm *comms;
    size_t n_comms, comms_size;
    struct launch *launches; /* of NCCL kernels */
    size_t n_launches;
};

struct payload {
    uint64_t comm, bytes;
    int64_t peer, ranks, rank;
};

static int64_t json_number(json_t *object, const char *key, int64_t otherwise)
{
    json_t *v = json_object_get(object, key);

    if (json_is_integer(v))
        return (int64_t)json_integer_value(v);
    if (json_is_string(v))
        return (int64_t)strtoull(json_string_value(v), NULL, 0);
    return otherwise;
}

static int payload_of_json(const char *text, struct payload *p)
{
    json_t *root = json_loads(text, 0, NULL);
    json_t *object = root;

    if (json_is_array(root))
        object = json_array_get(root, 0);
    if (!json_is_object(object) || !json_object_get(object, "NCCL communicator ID")) {
        json_decref(root);
        return -1;
    }
    p->comm = (uint64_t)json_number(object, "NCCL communicator ID", 0);
    p->bytes = (uint64_t)json_number(object, "Message size [bytes]", 0);
    p->peer = json_number(object, "Peer rank", json_number(object, "Root", -1));
    p->ranks = json_number(object, "No. of ranks", 0);
    p->rank = json_number(object, "Rank", -1);
    json_decref(root);
    return 0;
}

static int payload_of_bytes(const unsigned char *b, int n, int init, struct payload *p)
{
    uint64_t words[2];
    int32_t numbers[2];

    if (n < 16 || n > 64)
        return -1;
    memcpy(words, b, sizeof(words));
    memcpy(numbers, b + 8, sizeof(numbers));
    *p = (struct payload){.comm = words[0], .peer = -1, .rank = -1};
    if (init) {
        p->ranks = numbers[0];
        p->rank = numbers[1];
        return 0;
    }
    p->bytes = words[1];
    if (n >= 20) {
        memcpy(numbers, b + 16, sizeof(numbers[0]));
        p->peer = numbers[0];
    }
    return 0;
}

static int remember(struct joiner *j, int64_t thread, int64_t start, const char *name,
                    const struct payload *p)
{
    int func = import_func(name + strlen("nccl"));

    if (!strncmp(name, "ncclCommInit", 12)) {
        if (p->ranks <= 0 || p->ranks > 1 << 24 || p->rank < 0 || p->rank >= p->ranks)
            return 0;
        if (import_room((void **)&j->comms, &j->comms_size, j->n_comms, sizeof(*j->comms)) != 0)
            return -1;
        j->comms[j->n_comms++] = (struct comm){p->comm, (uint32_t)p->ranks, (uint32_t)p->rank};
        return 0;
    }
    if (!func || !p->comm)
        return 0;
    if (import_room((void **)&j->calls, &j->calls_size, j->n_calls, sizeof(*j->calls)) != 0)
        return -1;
    j->calls[j->n_calls++] =
        (struct call){.thread = thread,
                      .start = start,
                      .comm = p->comm,
                      .bytes = p->bytes,
                      .peer = p->peer >= 0 && p->peer < 1 << 24 ? (int32_t)p->peer : -1,
                      .func = (uint8_t)func};
    return 0;
}

static int read_calls(struct joiner *j, argus_error_t *err)
{
    int json = nsys_has(j->db, "NVTX_EVENTS", "jsonText");
    int json_id = nsys_has(j->db, "NVTX_EVENTS", "jsonTextId");
    int binary = nsys_has(j->db, "NVTX_EVENTS", "binaryData");
    sqlite3_stmt *s;
    int rc;

    if ((!json && !binary && !json_id) || !nsys_has(j->db, "NVTX_EVENTS", "textId") ||
        !nsys_has(j->db, "NVTX_EVENTS", "globalTid"))
        return 0;
    s = nsys_prepare(
        j->db, err,
        "SELECT e.start, e.globalTid, coalesce(%s, n.value) AS name, %s, %s FROM NVTX_EVENTS e "
        "LEFT JOIN StringIds n ON n.id = e.textId LEFT JOIN StringIds p ON p.id = %s WHERE "
        "e.globalTid BETWEEN ?1 AND ?1 + 16777215 AND name LIKE 'nccl%%'",
        nsys_has(j->db, "NVTX_EVENTS", "text") ? "e.text" : "NULL",
        json ? "coalesce(e.jsonText, p.value)" : "p.value", binary ? "e.binaryData" : "NULL",
        json_id ? "e.jsonTextId" : "NULL");
    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, j->rank->process);
    while ((rc = nsys_step(j->db, s, err)) > 0) {
        const char *name = (const char *)sqlite3_column_text(s, 2);
        const char *text = (const char *)sqlite3_column_text(s, 3);
        const unsigned char *bytes = sqlite3_column_blob(s, 4);
        struct payload p;

        if (!(text && payload_of_json(text, &p) == 0) &&
            !(bytes && payload_of_bytes(bytes, sqlite3_column_bytes(s, 4),
                                        !strncmp(name, "ncclCommInit", 12), &p) == 0))
            continue;
        if (remember(j, sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 0), name, &p) != 0) {
            rc = argus_error(err, "%s: out of memory", j->db->path);
            break;
        }
    }
    sqlite3_finalize(s);
    return rc;
}

static int by_correlation(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;

    return x->correlation < y->correlation ? -1 : x->correlation > y->correlation;
}

static int by_thread(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int calls_by_thread(const void *a, const void *b)
{
    const struct call *x = a, *y = b;

    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Where and when each NCCL kernel was launched. */
static int read_launches(struct joiner *j, argus_error_t *err)
{
    sqlite3_stmt *s;
    int rc;

    if (!nsys_has(j->db, "CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"))
        return 0;
    j->launches = calloc(j->t->n_events + 1, sizeof(*j->launches));
    if (!j->launches)
        return argus_error(err, "%s: out of memory", j->db->path);
    for (size_t i = 0; i < j->t->n_events; i++) {
        if (j->t->ops[j->t->events[i].op].kind == ARGUS_CLASS_COMM && j->t->events[i].correlation)
            j->launches[j->n_launches++] =
                (struct launch){.correlation = j->t->events[i].correlation, .event = (uint32_t)i};
    }
    if (!j->n_launches)
        return 0;
    qsort(j->launches, j->n_launches, sizeof(*j->launches), by_correlation);
    s = nsys_prepare(j->db, err,
                     "SELECT correlationId, globalTid, start FROM CUPTI_ACTIVITY_KIND_RUNTIME "
                     "WHERE globalTid BETWEEN ?1 AND ?1 + 16777215");
    if (!s)
        return -1;
    sqlite3_bind_int64(s, 1, j->rank->process);
    while ((rc = nsys_step(j->db, s, err)) > 0) {
        int64_t id = sqlite3_column_int64(s, 0);
        struct launch key = {.correlation = (uint32_t)id}, *found = NULL;

        if (id > 0 && id <= UINT32_MAX)
            found = bsearch(&key, j->launches, j->n_launches, sizeof(key), by_correlation);
        if (found) {
            found->thread = sqlite3_column_int64(s, 1);
            found->start = sqlite3_column_int64(s, 2);
        }
    }
    sqlite3_finalize(s);
    return rc;
}

/* One kernel for several calls: sends and receives together, else the first.  With one peer both
 * sides see the same bytes go to and fro; with several each sees what it sends. */
static struct call merged(const struct call *calls, size_t n)
{
    struct call one = calls[0];
    uint64_t sent = 0, moved = 0;

    if (n == 1)
        return one;
    one.bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (calls[i].comm != one.comm ||
            (calls[i].func != ARGUS_FUNC_SEND && calls[i].func != ARGUS_FUNC_RECV)) {
            one.peer = -1;
            one.func = ARGUS_FUNC_GROUP;
            return one;
        }
        if (calls[i].peer != one.peer)
            one.peer = -1;
        sent += calls[i].func == ARGUS_FUNC_SEND ? calls[i].bytes : 0;
        moved += calls[i].bytes;
    }
    one.bytes = one.peer >= 0 ? moved : sent;
    one.func = ARGUS_FUNC_SENDRECV;
    return one;
}

static uint32_t group_of(struct joiner *j, uint64_t id)
{
    struct import_group g = {.name = ARGUS_NONE, .members = ARGUS_NONE, .rank = -1, .hash = id};

    for (size_t i = 0; i < j->n_comms; i++) {
        if (j->comms[i].id == id) {
            g.size = j->comms[i].size;
            g.rank = (int32_t)j->comms[i].rank;
        }
    }
    return import_group(j->t, &g);
}

static int apply(struct joiner *j, struct import_event *ev, const struct call *call)
{
    struct import_op op = j->t->ops[ev->op];

    op.func = call->func;
    op.bytes = call->bytes;
    op.peer = call->peer;
    op.peer_in_group = 1;
    op.group = group_of(j, call->comm);
    ev->op = import_op(j->t, &op);
    return op.group == ARGUS_NONE || ev->op == ARGUS_NONE ? -1 : 0;
}

static int join(struct joiner *j, argus_error_t *err)
{
    size_t c = 0;

    qsort(j->launches, j->n_launches, sizeof(*j->launches), by_thread);
    qsort(j->calls, j->n_calls, sizeof(*j->calls), calls_by_thread);
    for (size_t i = 0; i < j->n_launches; i++) {
        const struct launch *l = &j->launches[i];
        struct call one;
        size_t from;

        while (c < j->n_calls && j->calls[c].thread < l->thread)
            c++;
        from = c;
        while (c < j->n_calls && j->calls[c].thread == l->thread && j->calls[c].start <= l->start)
            c++;
        if (from == c)
            continue;
        one = merged(&j->calls[from], c - from);
        if (apply(j, &j->t->events[l->event], &one) != 0)
            return argus_error(err, "%s: too many communicators or out of memory", j->db->path);
    }
    return 0;
}

int nsys_join_nccl(struct nsys_db *n, const struct nsys_rank *rank, struct import_trace *t,
                   argus_error_t *err)
{
    struct joiner j = {.db = n, .rank = rank, .t = t};
    int rc = read_calls(&j, err);

    if (rc == 0 && j.n_calls)
        rc = read_launches(&j, err);
    if (rc == 0 && j.n_calls && j.n_launches)
        rc = join(&j, err);
    free(j.calls);
    free(j.comms);
    free(j.launches);
    return rc;
}
