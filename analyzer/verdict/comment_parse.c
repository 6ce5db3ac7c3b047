/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the accounting comment.  argus-epilog validates with this, as root,
 * what an unprivileged process handed it: everything that the grammar of
 * comment.h does not allow is refused.
 */
#include <config.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/verdict/comment.h"
#include "analyzer/verdict/comment_token.h"

/* One key: where its value goes. */
struct key {
    const char *name;
    int (*take)(const char *value, size_t length, void *place);
    size_t offset;
};

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole decimal number, no sign, no leading zero; returns the bytes it took, 0: none. */
static size_t whole(const char *s, size_t length, int *out)
{
    long long x = 0;
    size_t i = 0;

    while (i < length && is_digit(s[i]) && x <= INT_MAX)
        x = 10 * x + (s[i++] - '0');
    if (i == 0 || x > INT_MAX || (s[0] == '0' && i > 1))
        return 0;
    *out = (int)x;
    return i;
}

static int take_whole(const char *value, size_t length, void *place)
{
    return whole(value, length, place) == length ? 0 : -1;
}

/* Digits, a point, at most four digits, then the unit. */
static int take_amount(const char *value, size_t length, const char *unit, double *out)
{
    size_t end = 0, unit_length = strlen(unit);
    char digits[32];

    if (length < unit_length || memcmp(value + length - unit_length, unit, unit_length))
        return -1;
    length -= unit_length;
    while (end < length && is_digit(value[end]))
        end++;
    if (end == 0 || end > 13 || (value[0] == '0' && end > 1))
        return -1;
    if (end < length) {
        size_t fraction = length - end - 1;

        if (value[end] != '.' || fraction == 0 || fraction > 4)
            return -1;
        for (size_t i = end + 1; i < length; i++)
            if (!is_digit(value[i]))
                return -1;
    }
    memcpy(digits, value, length);
    digits[length] = '\0';
    *out = strtod(digits, NULL);
    return 0;
}

static int take_number(const char *value, size_t length, void *place)
{
    return take_amount(value, length, "", place);
}

static int take_milliseconds(const char *value, size_t length, void *place)
{
    return take_amount(value, length, "ms", place);
}

static int take_gpu_hours(const char *value, size_t length, void *place)
{
    return take_amount(value, length, "gpuh", place);
}

static int take_confidence(const char *value, size_t length, void *place)
{
    return take_amount(value, length, "", place) < 0 || *(double *)place > 1 ? -1 : 0;
}

static int take_one(const char *value, size_t length, void *place)
{
    *(int *)place = 1;
    return length == 1 && value[0] == '1' ? 0 : -1;
}

static int hex(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %xx back to bytes.  A byte that could stand for itself must do so: every name has one spelling.  NUL, line feeds and
 * other control bytes are no part of a name. */
static int decode(const char *s, size_t length, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)s[i];

        if (n + 1 >= size)
            return -1;
        if (c == '%') {
            int high = i + 2 < length ? hex(s[i + 1]) : -1;
            int low = i + 2 < length ? hex(s[i + 2]) : -1;

            if (high < 0 || low < 0)
                return -1;
            c = (unsigned char)(16 * high + low);
            if ((argus_comment_plain(c) && c != ',' && c != '+') || c < 0x20 || c == 0x7f)
                return -1;
            i += 2;
        } else if (!argus_comment_plain(c) || c == ',' || c == '+') {
            return -1;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return n ? 0 : -1;
}

static int take_dir(const char *value, size_t length, void *place)
{
    return value[0] == '/' ? decode(value, length, place, ARGUS_COMMENT_MAX + 1) : -1;
}

static int take_word(const char *value, size_t length, void *place)
{
    return decode(value, length, place, ARGUS_COMMENT_NAME);
}

/* "+12" at the end of a list. */
static int take_more(const char *value, size_t *length, int *more)
{
    size_t plus = *length;

    for (size_t i = 0; i < *length; i++)
        if (value[i] == '+')
            plus = i;
    if (plus == *length)
        return 0;
    if (whole(value + plus + 1, *length - plus - 1, more) != *length - plus - 1 || *more == 0)
        return -1;
    *length = plus;
    return 0;
}

static int take_names(const char *value, size_t length, void *place)
{
    struct argus_comment_names *names = place;

    if (take_more(value, &length, &names->more) < 0)
        return -1;
    for (size_t at = 0; at <= length;) {
        const char *comma = memchr(value + at, ',', length - at);
        size_t end = comma ? (size_t)(comma - value) : length;

        if (names->n == ARGUS_COMMENT_LIST ||
            decode(value + at, end - at, names->name[names->n], ARGUS_COMMENT_NAME) < 0)
            return -1;
        names->n++;
        at = end + 1;
    }
    return 0;
}

static int take_ranks(const char *value, size_t length, void *place)
{
    struct argus_comment *c = place;

    if (take_more(value, &length, &c->more_rank) < 0)
        return -1;
    for (size_t at = 0; at <= length;) {
        const char *comma = memchr(value + at, ',', length - at);
        size_t end = comma ? (size_t)(comma - value) : length;

        if (c->n_rank == ARGUS_COMMENT_LIST || end == at ||
            whole(value + at, end - at, &c->rank[c->n_rank]) != end - at)
            return -1;
        c->n_rank++;
        at = end + 1;
    }
    return 0;
}

#define FIELD(member) offsetof(struct argus_comment, member)
/* In the order in which they stand in a line. */
static const struct key keys[] = {
    {"ranks", take_whole, FIELD(ranks)},
    {"steps", take_whole, FIELD(steps)},
    {"step", take_milliseconds, FIELD(step_ms)},
    {"missing", take_word, FIELD(missing)},
    {"rank", take_ranks, 0},
    {"node", take_names, FIELD(node)},
    {"gpu", take_whole, FIELD(gpu)},
    {"stage", take_whole, FIELD(stage)},
    {"link", take_word, FIELD(link)},
    {"peer", take_names, FIELD(peer)},
    {"oneof", take_names, FIELD(oneof)},
    {"pattern", take_word, FIELD(pattern)},
    {"phase", take_word, FIELD(phase)},
    {"slowdown", take_number, FIELD(slowdown)},
    {"since", take_whole, FIELD(since)},
    {"until", take_whole, FIELD(until)},
    {"lost", take_gpu_hours, FIELD(gpu_hours)},
    {"conf", take_confidence, FIELD(confidence)},
    {"simulated", take_one, FIELD(simulated)},
    {"dir", take_dir, FIELD(dir)},
};
#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static void nothing_known(struct argus_comment *c)
{
    memset(c, 0, sizeof(*c));
    c->ranks = c->steps = c->gpu = c->stage = c->since = c->until = ARGUS_UNKNOWN;
    c->step_ms = c->slowdown = c->gpu_hours = c->confidence = NAN;
}

static size_t token_length(const char *s, size_t length)
{
    size_t n = 0;

    while (n < length && s[n] != ' ')
        n++;
    return n;
}

/* The verdict that the word is, -1: none. */
static int known_word(const char *s, size_t length, int (*from_name)(const char *))
{
    char word[32];

    if (length >= sizeof(word))
        return -1;
    memcpy(word, s, length);
    word[length] = '\0';
    return from_name(word);
}

/* Parses tokens from the start of `s` as far as they are ours; *used: bytes.  Returns 0, or -1 with the reason when not
 * even tag and verdict are there.  `strict`: everything must be ours. */
static int parse(const char *s, size_t length, struct argus_comment *c, size_t *used, int strict,
                 argus_error_t *err)
{
    size_t tag = strlen(ARGUS_COMMENT_TAG), at, n;
    size_t next_key = 0;
    int word;

    nothing_known(c);
    if (length < tag + 2 || memcmp(s, ARGUS_COMMENT_TAG " ", tag + 1))
        return argus_error(err, "comment: does not begin with \"%s \"", ARGUS_COMMENT_TAG);
    at = tag + 1;
    n = token_length(s + at, length - at);
    word = known_word(s + at, n, argus_verdict_kind_from_name);
    if (word < 0)
        return argus_error(err, "comment: no verdict behind \"%s\"", ARGUS_COMMENT_TAG);
    c->kind = (enum argus_verdict_kind)word;
    at += n;
    *used = at;
    if (at < length && argus_verdict_is_fail_slow(c->kind)) {
        n = token_length(s + at + 1, length - at - 1);
        word = known_word(s + at + 1, n, argus_severity_from_name);
        if (word >= 0) {
            c->severity = (enum argus_severity)word;
            *used = at += 1 + n;
        } else if (strict) {
            return argus_error(err, "comment: no severity behind the verdict");
        }
    }
    while (at < length) {
        const char *token = s + at + 1, *equals;
        size_t k = next_key;

        n = token_length(token, length - at - 1);
        equals = memchr(token, '=', n);
        while (equals && k < N_KEYS &&
               (strlen(keys[k].name) != (size_t)(equals - token) ||
                memcmp(keys[k].name, token, (size_t)(equals - token))))
            k++;
        if (!equals || k == N_KEYS) {
            if (strict)
                return argus_error(err, "comment: \"%.*s\" is no key here", (int)(n < 40 ? n : 40),
                                   token);
            return 0;
        }
        if (equals + 1 == token + n || keys[k].take(equals + 1, n - (size_t)(equals + 1 - token),
                                                    (char *)c + keys[k].offset) < 0) {
            if (strict)
                return argus_error(err, "comment: \"%.*s\" has no proper value",
                                   (int)(n < 40 ? n : 40), token);
            return 0;
        }
        next_key = k + 1;
        *used = at += 1 + n;
    }
    return 0;
}

int argus_comment_parse(const char *line, struct argus_comment *out, argus_error_t *err)
{
    size_t length = strnlen(line, ARGUS_COMMENT_MAX + 1), used = 0;

    if (length > ARGUS_COMMENT_MAX)
        return argus_error(err, "comment: longer than %d bytes", ARGUS_COMMENT_MAX);
    for (size_t i = 0; i < length; i++)
        if (line[i] < 0x20 || line[i] > 0x7e)
            return argus_error(err, "comment: byte %zu is not printable", i);
    return parse(line, length, out, &used, 1, err);
}

int argus_comment_validate(const char *line, argus_error_t *err)
{
    struct argus_comment c;

    return argus_comment_parse(line, &c, err);
}

const char *argus_comment_find(const char *field, size_t *length)
{
    struct argus_comment c;
    const char *at = field;

    while ((at = strstr(at, ARGUS_COMMENT_TAG " "))) {
        if ((at == field || at[-1] == ' ') && parse(at, strlen(at), &c, length, 0, NULL) == 0)
            return at;
        at++;
    }
    return NULL;
}
