/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kineto (torch.profiler) traces: Chrome's trace events as JSON, plain or
 * gzip'd, one file a rank.  Read as a stream; what is kept of an event is in
 * kineto_event.c.
 */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>

#include "analyzer/import/kineto.h"

#define READ_BYTES (256u << 10)
#define VALUE_MAX (64u << 20) /* a single value longer than this is no trace */
#define DEPTH_MAX 1024        /* nor is what is nested deeper */
#define BASE_MAX (INT64_C(1) << 61)

enum top { TOP_OTHER = 0, TOP_EVENTS, TOP_DISTRIBUTED, TOP_BASE, TOP_DEVICES };

struct parser {
    struct import_trace *t;
    struct kineto_event event;
    int depth;       /* open maps and arrays */
    int event_depth; /* depth inside an event's map: 3, or 2 when the file is an array */
    enum top top;
    int events_seen; /* a list of events was there */
    int failed;      /* out of memory or tables full */
    int deep;        /* nested too deeply */
    int bad_base;    /* "baseTimeNanoseconds" is no time */
    char key[64];    /* of the value that comes next, or of the list that is open */
    size_t quiet;    /* bytes since the last token */
    struct kineto_devices devices;
    struct kineto_groups groups;
};

static int in_event(const struct parser *p)
{
    return p->top == TOP_EVENTS && p->depth >= p->event_depth;
}

/* Depth of the values of an event's "args". */
static int in_args(const struct parser *p)
{
    return p->top == TOP_EVENTS && p->depth > p->event_depth;
}

static int give(struct parser *p, enum kineto_value kind, const char *text, size_t length)
{
    struct kineto_slice value = {kind, text, length};
    int extra = p->depth - p->event_depth;

    p->quiet = 0;
    switch (p->top) {
    case TOP_EVENTS:
        if (extra == 0)
            kineto_event_field(&p->event, p->key, value);
        else if (extra == 1 || extra == 2)
            kineto_event_arg(&p->event, p->key, value);
        break;
    case TOP_DISTRIBUTED:
        if (p->depth == 2)
            kineto_distributed(p->t, p->key, value);
        else
            kineto_group_field(&p->groups, p->depth, p->key, value);
        break;
    case TOP_BASE:
        if (p->depth == 1) {
            p->t->time_base = kineto_integer(value, 0);
            p->bad_base = p->t->time_base < 0 || p->t->time_base > BASE_MAX;
        }
        break;
    case TOP_DEVICES:
        kineto_device_field(&p->devices, p->key, value);
        break;
    default:
        break;
    }
    return !p->failed;
}

static int on_null(void *arg)
{
    return give(arg, KINETO_OTHER, "", 0);
}

static int on_boolean(void *arg, int value)
{
    return give(arg, KINETO_OTHER, value ? "1" : "0", 1);
}

static int on_number(void *arg, const char *text, size_t length)
{
    return give(arg, KINETO_NUMBER, text, length);
}

static int on_string(void *arg, const unsigned char *text, size_t length)
{
    return give(arg, KINETO_STRING, (const char *)text, length);
}

static int on_key(void *arg, const unsigned char *text, size_t length)
{
    struct parser *p = arg;

    p->quiet = 0;
    if (length >= sizeof(p->key) || (p->top == TOP_EVENTS && p->depth > p->event_depth + 1))
        length = 0; /* none of ours is that long, or stands within another argument */
    memcpy(p->key, text, length);
    p->key[length] = '\0';
    if (p->depth == 1)
        p->top = !strcmp(p->key, "traceEvents")           ? TOP_EVENTS
                 : !strcmp(p->key, "distributedInfo")     ? TOP_DISTRIBUTED
                 : !strcmp(p->key, "baseTimeNanoseconds") ? TOP_BASE
                 : !strcmp(p->key, "deviceProperties")    ? TOP_DEVICES
                                                          : TOP_OTHER;
    return 1;
}

static int deeper(struct parser *p)
{
    p->deep = ++p->depth > DEPTH_MAX;
    return p->deep ? -1 : 0;
}

static int on_map_start(void *arg)
{
    struct parser *p = arg;

    p->quiet = 0;
    if (deeper(p) != 0)
        return 0;
    if (p->top == TOP_EVENTS && p->depth == p->event_depth)
        kineto_event_reset(&p->event);
    if (p->top == TOP_DISTRIBUTED && p->depth == 4)
        kineto_group_start(&p->groups);
    if (p->top == TOP_DEVICES && p->depth == 3)
        kineto_device_start(&p->devices);
    return 1;
}

static int on_map_end(void *arg)
{
    struct parser *p = arg;

    p->quiet = 0;
    if (in_event(p) && !in_args(p) && kineto_event_finish(&p->event, p->t) != 0)
        p->failed = 1;
    if (p->top == TOP_DISTRIBUTED && p->depth == 4 && kineto_group_finish(&p->groups) != 0)
        p->failed = 1;
    p->depth--;
    return !p->failed;
}

static int on_array_start(void *arg)
{
    struct parser *p = arg;

    p->quiet = 0;
    if (deeper(p) != 0)
        return 0;
    if (p->depth == 1) { /* the file is the list of events itself */
        p->top = TOP_EVENTS;
        p->event_depth = 2;
        p->events_seen = 1;
    } else if (p->top == TOP_EVENTS && p->depth == 2) {
        p->events_seen = 1;
    }
    return 1;
}

static int on_array_end(void *arg)
{
    struct parser *p = arg;

    p->quiet = 0;
    p->depth--;
    return 1;
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_map_start,
    .yajl_map_key = on_key,
    .yajl_end_map = on_map_end,
    .yajl_start_array = on_array_start,
    .yajl_end_array = on_array_end,
};

/*
 * Kineto divides by durations of 0 and writes "inf" and "nan", which JSON does
 * not know.  Outside of strings such a word becomes 0 and blanks.
 */
struct tamer {
    int in_string, escaped;
    char before; /* the character before the current word */
};

static int is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void tame_word(unsigned char *word, size_t n)
{
    static const char *const words[] = {"inf", "nan", "infinity"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (n == strlen(words[i]) && !strncasecmp((char *)word, words[i], n)) {
            memset(word, ' ', n);
            word[0] = '0';
        }
    }
}

/* How much of the buffer is done: a word that reaches its end waits for more, unless `last`. */
static size_t tame(struct tamer *t, unsigned char *b, size_t n, int last)
{
    size_t i = 0;

    while (i < n) {
        if (t->in_string) {
            if (t->escaped)
                t->escaped = 0;
            else if (b[i] == '\\')
                t->escaped = 1;
            else if (b[i] == '"')
                t->in_string = 0;
            i++;
        } else if (is_letter(b[i]) && !(t->before >= '0' && t->before <= '9')) {
            size_t end = i;

            while (end < n && end - i < 16 && is_letter(b[end]))
                end++;
            if (end == n && end - i < 16 && !last)
                return i;
            tame_word(b + i, end - i);
            t->before = 'a';
            i = end;
        } else {
            t->in_string = b[i] == '"';
            t->before = (char)b[i++];
        }
    }
    return n;
}

static int json_error(const char *path, yajl_handle json, struct parser *p,
                      const unsigned char *text, size_t length, argus_error_t *err)
{
    unsigned char *said;

    if (p->failed)
        return argus_error(err, "%s: too many different names or out of memory", path);
    if (p->deep)
        return argus_error(err, "%s: nested more than %d deep: not a Kineto trace", path,
                           DEPTH_MAX);
    said = yajl_get_error(json, 0, text, length);
    if (said)
        said[strcspn((char *)said, "\n")] = '\0';
    argus_error(err, "%s: not valid JSON: %s", path, said ? (char *)said : "syntax error");
    if (said)
        yajl_free_error(json, said);
    return -1;
}

static int feed(yajl_handle json, struct parser *p, const char *path, const unsigned char *b,
                size_t n, argus_error_t *err)
{
    p->quiet += n;
    if (yajl_parse(json, b, n) != yajl_status_ok)
        return json_error(path, json, p, b, n, err);
    if (p->quiet > VALUE_MAX)
        return argus_error(err, "%s: a single value is longer than %u MiB", path, VALUE_MAX >> 20);
    return 0;
}

static int finish(yajl_handle json, struct parser *p, const char *path, argus_error_t *err)
{
    if (yajl_complete_parse(json) == yajl_status_ok)
        return 0;
    if (p->failed)
        return json_error(path, json, p, NULL, 0, err);
    return argus_error(err, "%s: the file is truncated: JSON ends too early", path);
}

/* Through zlib, which passes plain text on as it is. */
static int parse_stream(gzFile gz, const char *path, yajl_handle json, struct parser *p,
                        double size, import_progress *progress, void *arg, argus_error_t *err)
{
    unsigned char *buffer = malloc(READ_BYTES);
    struct tamer tamer = {.before = ' '};
    size_t held = 0, done;
    int n, rc = -1, code;

    if (!buffer)
        return argus_error(err, "%s: out of memory", path);
    while ((n = gzread(gz, buffer + held, READ_BYTES - (unsigned)held)) > 0) {
        held += (size_t)n;
        done = tame(&tamer, buffer, held, 0);
        if (feed(json, p, path, buffer, done, err) != 0)
            goto out;
        memmove(buffer, buffer + done, held - done);
        held -= done;
        if (progress && size > 0)
            progress(arg, (double)gzoffset(gz) / size);
    }
    if (n < 0) {
        const char *why = gzerror(gz, &code);

        argus_error(err, "%s: %s", path, code == Z_ERRNO ? strerror(errno) : why);
        goto out;
    }
    /* A gzip stream that stops early reads as end of file; the error is there all the same. */
    gzerror(gz, &code);
    if (code == Z_BUF_ERROR) {
        argus_error(err, "%s: the file is truncated", path);
        goto out;
    }
    done = tame(&tamer, buffer, held, 1);
    if (done && feed(json, p, path, buffer, done, err) != 0)
        goto out;
    rc = finish(json, p, path, err);
out:
    free(buffer);
    return rc;
}

static double file_size(const char *path)
{
    FILE *f = fopen(path, "r");
    double size = 0;

    if (f) {
        if (fseek(f, 0, SEEK_END) == 0)
            size = (double)ftell(f);
        fclose(f);
    }
    return size;
}

/* Times of a file count from its base, which may stand behind them. */
static int beyond_time(const struct import_trace *t)
{
    int64_t last = ARGUS_TIME_MAX - t->time_base;

    for (size_t i = 0; i < t->n_events; i++) {
        if (t->events[i].start + t->events[i].duration > last)
            return 1;
    }
    for (size_t i = 0; i < t->n_marks; i++) {
        if (t->marks[i].end > last)
            return 1;
    }
    return 0;
}

int import_kineto_read(const char *path, struct import_trace *t, import_progress *progress,
                       void *arg, argus_error_t *err)
{
    struct parser p = {.t = t, .event_depth = 3};
    yajl_handle json = NULL;
    gzFile gz = NULL;
    int rc = -1;

    if (import_trace_init(t, path, "kineto", err) != 0)
        return -1;
    if (kineto_is_regular(path, err) != 0)
        goto out;
    gz = gzopen(path, "rb");
    if (!gz) {
        argus_error(err, "%s: %s", path, strerror(errno));
        goto out;
    }
    gzbuffer(gz, READ_BYTES);
    json = yajl_alloc(&callbacks, NULL, &p);
    if (!json) {
        argus_error(err, "%s: out of memory", path);
        goto out;
    }
    yajl_config(json, yajl_dont_validate_strings, 1); /* names may be in any encoding */
    if (parse_stream(gz, path, json, &p, file_size(path), progress, arg, err) != 0)
        goto out;
    if (!p.events_seen) {
        argus_error(err, "%s: no \"traceEvents\": not a Kineto trace", path);
        goto out;
    }
    kineto_devices_apply(&p.devices, t, &p.event);
    if (kineto_groups_apply(&p.groups, t) != 0) {
        argus_error(err, "%s: out of memory", path);
        goto out;
    }
    if (import_trace_sort(t) != 0) {
        argus_error(err, "%s: out of memory", path);
        goto out;
    }
    if (p.bad_base || beyond_time(t)) {
        argus_error(err, "%s: \"baseTimeNanoseconds\" is out of range", path);
        goto out;
    }
    if (!t->kernels) {
        if (t->invalid)
            argus_error(err,
                        "%s: no GPU kernels in the trace but for %llu events without usable times",
                        path, (unsigned long long)t->invalid);
        else
            argus_error(err, "%s: no GPU kernels in the trace", path);
        goto out;
    }
    rc = 0;
out:
    kineto_event_free(&p.event);
    kineto_groups_free(&p.groups);
    if (json)
        yajl_free(json);
    if (gz)
        gzclose_r(gz);
    return rc;
}
