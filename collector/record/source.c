/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/source.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector/record/checkpoint.h"

#define CHECKPOINT_NS 2000000000LL
#define CHECKPOINT_SHARE 4 /* ... or when 1/4 of the ring waits to be released */
#define BATCH 4096u
#define POLL_MAX (1u << 18) /* records of one source before the others have their turn */
#define DEAD_IDLE_NS                                                                               \
    1000000000LL /* a process that /proc does not show may be in another namespace */

struct argus_ring_source {
    struct argus_ring ring;
    struct argus_ring_header header;
    argus_stream_t *stream;
    struct argus_stream_stats stats; /* once it is sealed */
    struct argus_record *batch;
    argus_error_t failure; /* of the ring or the timeline; "" none */
    int64_t active_at;     /* when the last record came */
    int dead, broken, unwritable, sealed, told;
    uint64_t discarded; /* read while there was no timeline to write them to, or never read */
    uint64_t mark;      /* position in the ring; see argus_source_mark() */
    int64_t stored_at;  /* the last checkpoint */
    char *name;
    char ring_path[4352];
    char path[4096];
};

/* Takes up what is left of an earlier recorder's work. */
static void resume(argus_source_t *s, const struct argus_stream_options *options,
                   argus_error_t *err)
{
    switch (argus_checkpoint_load(s->ring_path, &s->ring, &s->header, options, &s->stream, s->path,
                                  sizeof(s->path), err)) {
    case ARGUS_CHECKPOINT_SEALED:
        s->sealed = 1;
        break;
    case ARGUS_CHECKPOINT_LOST:
        s->failure = *err;
        s->told = 1; /* by who opens us, from err */
        break;
    default:
        break;
    }
}

argus_source_t *argus_source_open(const char *spool, const char *name,
                                  const struct argus_stream_options *options, argus_error_t *err)
{
    argus_source_t *s = calloc(1, sizeof(*s));

    if (!s) {
        argus_error(err, "%s: no memory", name);
        return NULL;
    }
    s->ring.fd = -1;
    s->name = strdup(name);
    s->batch = malloc(BATCH * sizeof(*s->batch));
    snprintf(s->ring_path, sizeof(s->ring_path), "%s/%s", spool, name);
    if (!s->name || !s->batch) {
        argus_error(err, "%s: no memory", s->ring_path);
        goto error;
    }
    if (argus_ring_open(&s->ring, s->ring_path, err) < 0 ||
        argus_ring_header(&s->ring, &s->header, err) < 0)
        goto error;
    resume(s, options, err);
    return s;
error:
    argus_source_destroy(s);
    return NULL;
}

void argus_source_destroy(argus_source_t *s)
{
    if (!s)
        return;
    argus_stream_abandon(s->stream);
    argus_ring_close(&s->ring);
    free(s->batch);
    free(s->name);
    free(s);
}

/* The start time of a process (field 22 of its stat), 0: there is none. */
static uint64_t start_time(int pid)
{
    char path[64], text[1024], *p;
    unsigned long long start = 0;
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    p = strrchr(text, ')'); /* the name may hold anything */
    if (!p || text[0] == '\0')
        return 0;
    for (int field = 2; field < 22 && p; field++)
        p = strchr(p + 1, ' ');
    if (!p || sscanf(p, "%llu", &start) != 1)
        return 0;
    p = strrchr(text, ')');
    return p[2] == 'Z' || p[2] == 'X' ? 0 : start; /* a zombie writes no more */
}

static int is_dead(argus_source_t *s, int64_t now)
{
    uint64_t start;

    if (s->dead)
        return 1;
    start = start_time(s->header.pid);
    if (start && (!s->header.pid_start || start == s->header.pid_start))
        return 0;
    if (now - s->active_at < DEAD_IDLE_NS)
        return 0;
    s->dead = 1;
    return 1;
}

static void break_off(argus_source_t *s, const argus_error_t *err)
{
    s->broken = 1;
    if (!s->failure.text[0])
        argus_error(&s->failure, "%s: %s", s->name, err->text);
}

static void take(argus_source_t *s, size_t n, const struct argus_stream_options *options,
                 argus_name_f name, void *arg, int64_t now)
{
    argus_error_t err = {""};

    if (!s->stream && !s->unwritable) {
        if (argus_ring_header(&s->ring, &s->header, &err) < 0) {
            break_off(s, &err);
            return;
        }
        name(arg, &s->header, s->path, sizeof(s->path));
        s->stream = argus_stream_create(options, s->path, &s->header, &err);
        if (!s->stream) {
            s->unwritable = 1;
            if (!s->failure.text[0])
                s->failure = err;
        }
    }
    if (s->stream) {
        argus_stream_records(s->stream, &s->ring, s->batch, n, now);
        if (!s->stored_at) /* from now on the timeline can be told from an orphan */
            argus_source_checkpoint(s, now, 1, &err);
    } else
        s->discarded += n;
}

size_t argus_source_poll(argus_source_t *s, const struct argus_stream_options *options,
                         argus_name_f name, void *arg, int64_t now)
{
    argus_error_t err = {""};
    uint64_t torn = 0;
    size_t n, total = 0;
    int dead;

    if (s->broken || s->sealed)
        return 0;
    if (!s->active_at)
        s->active_at = now;
    dead = is_dead(s, now);
    do {
        if (argus_ring_read(&s->ring, s->batch, BATCH, dead, &n, &torn, &err) < 0) {
            break_off(s, &err);
            break;
        }
        if (n)
            take(s, n, options, name, arg, now);
        if (s->stream && torn)
            argus_stream_torn(s->stream, torn);
        torn = 0;
        total += n;
        if (!s->broken && s->ring.cursor - s->ring.released >= s->ring.slots / CHECKPOINT_SHARE)
            argus_source_checkpoint(s, now, 1, &err);
    } while (n == BATCH && total < POLL_MAX && !s->broken);
    if (!s->broken && argus_ring_heartbeat(&s->ring, now, &err) < 0)
        break_off(s, &err);
    if (total)
        s->active_at = now;
    return total;
}

int argus_source_checkpoint(argus_source_t *s, int64_t now, int at_once, argus_error_t *err)
{
    int rc = 0;

    if (s->broken || s->sealed || (!at_once && now - s->stored_at < CHECKPOINT_NS))
        return 0;
    s->stored_at = now;
    if (s->ring.cursor == s->ring.released)
        return 0;
    /* Where rows could not be written there is nothing to go on from; where the state cannot be
     * stored the ranks' space in the ring is worth more than it. */
    if (s->stream && !argus_stream_failed(s->stream))
        rc = argus_checkpoint_store(s->ring_path, &s->ring, s->stream, err);
    if (rc < 0 && !s->failure.text[0])
        s->failure = *err;
    if (argus_ring_release(&s->ring, now, err) < 0) {
        break_off(s, err);
        return -1;
    }
    return rc;
}

int argus_source_flush(argus_source_t *s, argus_error_t *err)
{
    struct argus_ring_header h;

    if (!s->stream)
        return 0;
    if (!s->broken && argus_ring_header(&s->ring, &h, NULL) == 0) {
        s->header = h;
        argus_stream_header(s->stream, &h, s->active_at);
    }
    if (argus_stream_flush(s->stream, err) == 0)
        return 0;
    if (!s->failure.text[0])
        s->failure = *err;
    return -1;
}

int argus_source_finished(argus_source_t *s, int64_t now)
{
    if (s->broken || s->sealed)
        return 1;
    return is_dead(s, now) && argus_ring_waiting(&s->ring) == 0;
}

int argus_source_alive(argus_source_t *s, int64_t now)
{
    if (!s->active_at)
        s->active_at = now;
    return !s->broken && !s->sealed && !is_dead(s, now);
}

void argus_source_mark(argus_source_t *s)
{
    if (!s->broken && !s->sealed)
        s->mark = s->ring.cursor + argus_ring_waiting(&s->ring);
}

uint64_t argus_source_behind(const argus_source_t *s)
{
    return s->broken || s->sealed || s->mark <= s->ring.cursor ? 0 : s->mark - s->ring.cursor;
}

static const char *end_of(const argus_source_t *s, int drained)
{
    if (s->header.end == ARGUS_REASON_EXIT || s->header.end == ARGUS_REASON_EXIT_DEADLINE)
        return "exit";
    return drained ? "drained" : "killed";
}

/* The compact copy that there was no room for; the open file stays. */
static void remove_half(const argus_source_t *s)
{
    char path[sizeof(s->path) + 8];

    snprintf(path, sizeof(path), "%s.tmp", s->path);
    unlink(path);
}

int argus_source_seal(argus_source_t *s, int drained, argus_error_t *err)
{
    struct argus_ring_header h;
    int rc = 0;

    if (!s->broken && argus_ring_header(&s->ring, &h, NULL) == 0)
        s->header = h;
    s->discarded += argus_source_behind(s);
    if (s->stream) {
        argus_stream_header(s->stream, &s->header, 0);
        rc = argus_stream_seal(s->stream, end_of(s, drained), &s->stats, err);
        s->stream = NULL;
        if (rc < 0 && !s->failure.text[0])
            s->failure = *err;
        if (rc < 0)
            remove_half(s);
    }
    s->sealed = 1;
    argus_ring_close(&s->ring);
    if (unlink(s->ring_path) < 0 && errno != ENOENT && rc == 0)
        rc = argus_error(&s->failure, "%s: cannot remove: %s", s->ring_path, strerror(errno));
    argus_checkpoint_remove(s->ring_path);
    return rc;
}

/* What is no UTF-8 is no JSON. */
static const char *utf8(const char *text)
{
    json_t *o = json_string(text);
    const char *ok = o ? text : "";

    json_decref(o);
    return ok;
}

json_t *argus_source_json(const argus_source_t *s)
{
    const struct argus_ring_header *h = &s->header;
    struct argus_stream_stats st = s->stats;
    const char *base = strrchr(s->path, '/');
    uint64_t dropped = 0;
    json_t *o;

    if (s->stream)
        argus_stream_stats(s->stream, &st);
    for (int i = 0; i < ARGUS_SOURCE_COUNT; i++)
        dropped += h->dropped[i];
    o = json_pack("{s:s s:i s:i s:i s:s s:s s:i s:I s:I s:I s:I s:I s:I s:I}", "ring",
                  utf8(s->name), "rank", h->rank, "local_rank", h->local_rank, "pid", h->pid, "exe",
                  utf8(h->exe), "file", base ? base + 1 : "", "end", (int)h->end, "records",
                  (json_int_t)st.records, "dropped", (json_int_t)dropped, "torn",
                  (json_int_t)st.torn, "lost", (json_int_t)(st.lost + s->discarded), "unmatched",
                  (json_int_t)st.unmatched, "comms", (json_int_t)st.comms, "steps",
                  (json_int_t)st.steps);
    if (o && s->failure.text[0])
        json_object_set_new(o, "error", json_string(utf8(s->failure.text)));
    return o;
}

const char *argus_source_failure(argus_source_t *s)
{
    if (!s->failure.text[0] || s->told)
        return NULL;
    s->told = 1;
    return s->failure.text;
}

const char *argus_source_name(const argus_source_t *s)
{
    return s->name;
}

void argus_source_refresh(argus_source_t *s)
{
    struct argus_ring_header h;

    if (!s->broken && !s->sealed && argus_ring_header(&s->ring, &h, NULL) == 0)
        s->header = h;
}

const char *argus_source_uuid(const argus_source_t *s)
{
    return s->header.gpu_uuid;
}

int argus_source_rank(const argus_source_t *s)
{
    return s->header.rank;
}

int argus_source_local_rank(const argus_source_t *s)
{
    return s->header.local_rank;
}

argus_stream_t *argus_source_stream(argus_source_t *s)
{
    return s->stream;
}

const char *argus_source_path(const argus_source_t *s)
{
    return s->path;
}

uint64_t argus_source_comms(const argus_source_t *s)
{
    struct argus_stream_stats st = s->stats;

    if (s->stream)
        argus_stream_stats(s->stream, &st);
    return st.comms;
}

uint64_t argus_source_records(const argus_source_t *s)
{
    struct argus_stream_stats st = s->stats;

    if (s->stream)
        argus_stream_stats(s->stream, &st);
    return st.records;
}
