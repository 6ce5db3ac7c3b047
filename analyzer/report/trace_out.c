/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/trace_out.h"

/* Length of the UTF-8 sequence at `s`, 0: not one. */
static int sequence(const unsigned char *s)
{
    int n = s[0] < 0x80                            ? 1
            : (s[0] & 0xe0) == 0xc0 && s[0] > 0xc1 ? 2
            : (s[0] & 0xf0) == 0xe0                ? 3
            : (s[0] & 0xf8) == 0xf0 && s[0] < 0xf5 ? 4
                                                   : 0;

    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    /* overlong forms and surrogates */
    if ((n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) ||
        (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))))
        return 0;
    return n;
}

static void put_text(struct trace_out *o, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', o->file);
    while (*s) {
        int n = sequence(s);

        if (n == 0) {
            fputs("\\ufffd", o->file);
            s++;
        } else if (*s == '"' || *s == '\\') {
            fprintf(o->file, "\\%c", *s++);
        } else if (*s < 0x20 || *s == 0x7f) {
            fprintf(o->file, "\\u%04x", *s++);
        } else {
            fwrite(s, 1, (size_t)n, o->file);
            s += n;
        }
    }
    fputc('"', o->file);
}

static void element(struct trace_out *o)
{
    fputs(o->comma ? ",\n" : "\n", o->file);
    o->comma = 1;
}

int trace_begin(struct trace_out *o, FILE *file, size_t processes)
{
    memset(o, 0, sizeof(*o));
    o->file = file;
    o->last_us = calloc(processes + 1, sizeof(*o->last_us));
    if (!o->last_us)
        return -1;
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", file);
    element(o);
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":"
            "\"communicators\"}}",
            TRACE_COMMUNICATORS);
    return 0;
}

int trace_failed(const struct trace_out *o)
{
    return o->failed || ferror(o->file);
}

int trace_end(struct trace_out *o)
{
    fputs("}}\n", o->file);
    if (fflush(o->file) != 0)
        o->failed = 1;
    return trace_failed(o) ? -1 : 0;
}

void trace_free(struct trace_out *o)
{
    free(o->tracks);
    free(o->last_us);
    memset(o, 0, sizeof(*o));
}

static void name_of(struct trace_out *o, const char *what, int pid, int tid, const char *name,
                    int order)
{
    element(o);
    fprintf(o->file,
            "{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what,
            pid, tid);
    put_text(o, name);
    fputs("}}", o->file);
    element(o);
    fprintf(o->file,
            "{\"ph\":\"M\",\"name\":\"%s_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_"
            "index\":%d}}",
            what, pid, tid, order);
}

void trace_process(struct trace_out *o, const struct argus_timeline_info *info, size_t index)
{
    char name[256];

    if (info->node[0])
        snprintf(name, sizeof(name), "rank %d (%s, GPU %d)%s", info->rank, info->node,
                 info->local_rank, info->simulated ? " simulated" : "");
    else
        snprintf(name, sizeof(name), "rank %d%s", info->rank, info->simulated ? " simulated" : "");
    name_of(o, "process", info->rank, 0, name, info->rank);
    o->process = index;
    o->n_tracks = 0;
}

static const char *host_name(uint32_t class_kind)
{
    switch (class_kind) {
    case ARGUS_CLASS_OVERHEAD:
        return "driver overhead";
    case ARGUS_CLASS_SYNC:
        return "synchronisation";
    case ARGUS_CLASS_ALLOC:
        return "allocation";
    case ARGUS_CLASS_PEER_WAIT:
        return "network waits";
    default:
        return "launches";
    }
}

void trace_process_end(struct trace_out *o, int pid)
{
    for (size_t i = 0; i < o->n_tracks; i++) {
        const struct trace_track *t = &o->tracks[i];

        for (int lane = 0; lane < t->lanes; lane++) {
            char name[64];

            if (t->kind == TRACE_STEPS)
                snprintf(name, sizeof(name), "steps");
            else if (t->kind == TRACE_HOST)
                snprintf(name, sizeof(name), "%s", host_name(t->id));
            else
                snprintf(name, sizeof(name), "%s %u", t->kind == TRACE_STREAM ? "stream" : "marks",
                         t->id);
            name_of(o, "thread", pid, (int)i * TRACE_LANES + lane + 1, name,
                    (int)t->kind * 1000 + (int)i * TRACE_LANES + lane);
        }
    }
}

static struct trace_track *track_of(struct trace_out *o, enum trace_kind kind, uint32_t id)
{
    for (size_t i = 0; i < o->n_tracks; i++) {
        if (o->tracks[i].kind == kind && o->tracks[i].id == id)
            return &o->tracks[i];
    }
    if (o->n_tracks == o->tracks_size) {
        size_t more = o->tracks_size ? o->tracks_size * 2 : 32;
        struct trace_track *p = realloc(o->tracks, more * sizeof(*p));

        if (!p)
            return NULL;
        o->tracks = p;
        o->tracks_size = more;
    }
    o->tracks[o->n_tracks] = (struct trace_track){.kind = kind, .id = id};
    return &o->tracks[o->n_tracks++];
}

/* A lane where the slice does not cut into another.  Marks of a thread nest: they stay together. */
static int lane_of(struct trace_track *t, const struct trace_slice *s)
{
    int lane = 0;

    while (t->kind != TRACE_MARKS && lane < TRACE_LANES - 1 && lane < t->lanes &&
           t->busy[lane] > s->start + 0.0005)
        lane++;
    if (lane >= t->lanes)
        t->lanes = lane + 1;
    t->busy[lane] = s->start + s->duration;
    return lane;
}

int trace_slice_begin(struct trace_out *o, const struct trace_slice *s)
{
    struct trace_track *t = track_of(o, s->kind, s->id);
    int tid;

    if (!t) {
        o->failed = 1;
        return 0;
    }
    tid = (int)(t - o->tracks) * TRACE_LANES + lane_of(t, s) + 1;
    if (s->kind != TRACE_MARKS && s->start + s->duration > o->last_us[o->process])
        o->last_us[o->process] = s->start + s->duration;
    element(o);
    fprintf(o->file,
            "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":", s->pid, tid,
            s->start, s->duration);
    put_text(o, s->name[0] ? s->name : "(no name)");
    fputs(",\"args\":{", o->file);
    o->args = 0;
    return tid;
}

static void arg(struct trace_out *o, const char *key)
{
    fprintf(o->file, "%s\"%s\":", o->args++ ? "," : "", key);
}

void trace_arg_number(struct trace_out *o, const char *key, double value)
{
    arg(o, key);
    fprintf(o->file, "%.15g", value);
}

void trace_arg_text(struct trace_out *o, const char *key, const char *value)
{
    arg(o, key);
    put_text(o, value);
}

void trace_arg_dims(struct trace_out *o, const char *key, const uint32_t dims[3])
{
    arg(o, key);
    fprintf(o->file, "\"%ux%ux%u\"", dims[0], dims[1], dims[2]);
}

void trace_slice_end(struct trace_out *o)
{
    fputs("}}", o->file);
}

void trace_counter(struct trace_out *o, int pid, const char *name, double us, double value)
{
    element(o);
    fprintf(o->file, "{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":", pid, us);
    put_text(o, name);
    fprintf(o->file, ",\"args\":{\"value\":%.15g}}", value);
}

void trace_arrow(struct trace_out *o, const struct trace_point *from, const struct trace_point *to)
{
    o->flows++;
    element(o);
    fprintf(o->file,
            "{\"ph\":\"s\",\"cat\":\"wait\",\"name\":\"waits for\",\"id\":%" PRIu64
            ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
            o->flows, from->pid, from->tid, from->us);
    element(o);
    fprintf(o->file,
            "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"wait\",\"name\":\"waits for\",\"id\":%" PRIu64
            ",\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
            o->flows, to->pid, to->tid, to->us);
}

void trace_other_begin(struct trace_out *o)
{
    fputs("\n],\"otherData\":{", o->file);
}

void trace_other_number(struct trace_out *o, const char *key, int64_t value)
{
    fprintf(o->file, "%s\n\"%s\":\"%" PRId64 "\"", o->other++ ? "," : "", key, value);
}
