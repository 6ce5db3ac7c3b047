/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the accounting comment, and putting it into a field.  The grammar stands in comment.h. */
#include <config.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/verdict/comment.h"
#include "analyzer/verdict/comment_token.h"

#define LIST_BYTES 48 /* of a list of names: one long host name, or several short ones */

/* A key with its value, and when it goes if the line is too long: 0 never, else the lowest first. */
struct token {
    char text[ARGUS_COMMENT_MAX + 64];
    int expendable;
};

struct line {
    struct token *tokens;
    size_t n;
    int failed;
};

enum { KEEP = 0, DROP_PATTERN, DROP_PHASE, DROP_UNTIL, DROP_ONEOF, DROP_SIMULATED, DROP_DIR };

static void add(struct line *l, int expendable, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(struct line *l, int expendable, const char *format, ...)
{
    struct token *t;
    va_list ap;
    int n;

    if (l->n == ARGUS_COMMENT_TOKENS)
        return;
    t = &l->tokens[l->n];
    va_start(ap, format);
    n = vsnprintf(t->text, sizeof(t->text), format, ap);
    va_end(ap);
    /* A value that does not fit alone cannot fit the line either. */
    if (n < 0 || (size_t)n >= sizeof(t->text))
        return;
    t->expendable = expendable;
    l->n++;
}

/* text as a value; "" when it does not fit.  Control bytes, which no name should have, become '?'. */
static void encode(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;

        c = c < 0x20 || c == 0x7f ? '?' : c;
        if (n + 4 > size) {
            out[0] = '\0';
            return;
        }
        if (argus_comment_plain(c) && c != ',' && c != '+')
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, size - n, "%%%02x", c);
    }
    out[n] = '\0';
}

/* "n1,n3+2": as many names as fit LIST_BYTES (one always), then how many more there are. */
static void add_names(struct line *l, int expendable, const char *key, char *const *names, size_t n)
{
    char list[ARGUS_COMMENT_MAX] = "", name[ARGUS_COMMENT_NAME];
    size_t used = 0, length = 0;

    for (; used < n && used < ARGUS_COMMENT_LIST; used++) {
        encode(names[used], name, sizeof(name));
        if (name[0] == '\0' || (used && length + 1 + strlen(name) > LIST_BYTES))
            break;
        length +=
            (size_t)snprintf(list + length, sizeof(list) - length, "%s%s", used ? "," : "", name);
    }
    if (used == 0)
        return;
    if (used < n)
        add(l, expendable, "%s=%s+%zu", key, list, n - used);
    else
        add(l, expendable, "%s=%s", key, list);
}

static void add_ranks(struct line *l, const struct argus_verdict *v)
{
    char list[ARGUS_COMMENT_MAX] = "";
    size_t n = 0, used = 0, length = 0;

    for (size_t i = 0; i < v->n_culprits; i++)
        n += v->culprits[i].rank >= 0;
    for (size_t i = 0; i < v->n_culprits && used < ARGUS_COMMENT_LIST && length < LIST_BYTES; i++) {
        if (v->culprits[i].rank < 0)
            continue;
        length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%d", used ? "," : "",
                                   v->culprits[i].rank);
        used++;
    }
    if (used && used < n)
        add(l, KEEP, "rank=%s+%zu", list, n - used);
    else if (used)
        add(l, KEEP, "rank=%s", list);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The culprits' nodes, each once; for a link its own node. */
static void add_nodes(struct line *l, const struct argus_verdict *v)
{
    char **names;
    size_t n = 0, distinct = 0;

    if (v->link && v->link->node) {
        add_names(l, KEEP, "node", &v->link->node, 1);
        return;
    }
    names = calloc(v->n_culprits ? v->n_culprits : 1, sizeof(*names));
    if (!names) {
        l->failed = 1;
        return;
    }
    for (size_t i = 0; i < v->n_culprits; i++)
        if (v->culprits[i].node)
            names[n++] = v->culprits[i].node;
    qsort(names, n, sizeof(*names), compare_names);
    for (size_t i = 0; i < n; i++)
        if (distinct == 0 || strcmp(names[distinct - 1], names[i]))
            names[distinct++] = names[i];
    add_names(l, KEEP, "node", names, distinct);
    free(names);
}

static void add_word(struct line *l, int expendable, const char *key, const char *word)
{
    if (word)
        add_names(l, expendable, key, &(char *){(char *)word}, 1);
}

static void add_link(struct line *l, const struct argus_link *link)
{
    add_word(l, KEEP, "link", link->scope);
    add_word(l, KEEP, "peer", link->peer_node);
    add_names(l, DROP_ONEOF, "oneof", link->candidates, link->n_candidates);
}

static void add_amount(struct line *l, const char *key, double x, const char *unit)
{
    if (!isfinite(x) || x < 0 || x > 1e12)
        return;
    /* Three figures, never an exponent. */
    add(l, KEEP, "%s=%.*f%s", key,
        x >= 100             ? 0
        : x >= 10            ? 1
        : x >= 0.1 || x == 0 ? 2
                             : 4,
        x, unit);
}

static void add_healthy(struct line *l, const struct argus_verdict *v)
{
    if (v->job.ranks > 0)
        add(l, KEEP, "ranks=%d", v->job.ranks);
    add(l, KEEP, "steps=%d", v->job.steps > 0 ? v->job.steps : 0);
    if (isfinite(v->job.step_ms_p50) && v->job.step_ms_p50 >= 0 && v->job.step_ms_p50 < 1e12)
        add(l, KEEP, "step=%.*fms", v->job.step_ms_p50 >= 100 ? 0 : 2, v->job.step_ms_p50);
    if (v->kind == ARGUS_VERDICT_INSUFFICIENT_DATA)
        add_word(l, KEEP, "missing", v->subkind);
}

static void add_fault(struct line *l, const struct argus_verdict *v)
{
    add_ranks(l, v);
    add_nodes(l, v);
    if (v->n_culprits == 1 && v->culprits[0].rank >= 0 && v->culprits[0].local_rank >= 0)
        add(l, KEEP, "gpu=%d", v->culprits[0].local_rank);
    if (v->stage >= 0)
        add(l, KEEP, "stage=%d", v->stage);
    if (v->link)
        add_link(l, v->link);
    add_word(l, DROP_PATTERN, "pattern", v->pattern);
    add_word(l, DROP_PHASE, "phase", v->phase);
    if (isfinite(v->slowdown) && v->slowdown >= 0 && v->slowdown < 1e12)
        add(l, KEEP, "slowdown=%.2f", v->slowdown);
    if (v->onset_step >= 0)
        add(l, KEEP, "since=%d", v->onset_step);
    if (v->recovered_step >= 0)
        add(l, DROP_UNTIL, "until=%d", v->recovered_step);
    add_amount(l, "lost", v->gpu_hours, "gpuh");
    if (v->confidence >= 0 && v->confidence <= 1)
        add(l, KEEP, "conf=%.2f", v->confidence);
}

static void add_dir(struct line *l, const char *dir)
{
    char value[ARGUS_COMMENT_MAX];

    encode(dir, value, sizeof(value));
    if (dir && dir[0] == '/' && value[0])
        add(l, DROP_DIR, "dir=%s", value);
}

/* The least important token goes until the rest fits. */
static char *join(struct line *l)
{
    size_t length, at = 0;
    char *text;

    for (;;) {
        size_t least = l->n;

        length = 0;
        for (size_t i = 0; i < l->n; i++) {
            length += strlen(l->tokens[i].text) + (i > 0);
            if (l->tokens[i].expendable &&
                (least == l->n || l->tokens[i].expendable < l->tokens[least].expendable))
                least = i;
        }
        if (length <= ARGUS_COMMENT_MAX)
            break;
        if (least == l->n)
            least = l->n - 1; /* long names alone: from the end */
        memmove(l->tokens + least, l->tokens + least + 1, (l->n - least - 1) * sizeof(*l->tokens));
        l->n--;
    }
    text = malloc(length + 1);
    for (size_t i = 0; text && i < l->n; i++) {
        size_t n = strlen(l->tokens[i].text);

        if (i)
            text[at++] = ' ';
        memcpy(text + at, l->tokens[i].text, n);
        at += n;
    }
    if (text)
        text[at] = '\0';
    return text;
}

char *argus_comment_format(const struct argus_verdict *v)
{
    struct line l = {.tokens = calloc(ARGUS_COMMENT_TOKENS, sizeof(struct token))};
    char *text = NULL;

    if (!l.tokens)
        return NULL;
    add(&l, KEEP, "%s", ARGUS_COMMENT_TAG);
    add(&l, KEEP, "%s", argus_verdict_kind_name(v->kind));
    if (argus_verdict_is_fail_slow(v->kind)) {
        add(&l, KEEP, "%s", argus_severity_name(v->severity));
        add_fault(&l, v);
    } else {
        add_healthy(&l, v);
    }
    if (v->job.simulated)
        add(&l, DROP_SIMULATED, "simulated=1");
    add_dir(&l, v->job.dir);
    if (!l.failed)
        text = join(&l);
    free(l.tokens);
    return text;
}

char *argus_comment_merge(const char *field, const char *line)
{
    size_t length, at = 0, room = (field ? strlen(field) : 0) + strlen(line) + 2;
    const char *ours;
    char *merged = malloc(room);
    int placed = 0;

    if (!merged)
        return NULL;
    merged[0] = '\0';
    while (field && (ours = argus_comment_find(field, &length))) {
        memcpy(merged + at, field, (size_t)(ours - field));
        at += (size_t)(ours - field);
        field = ours + length;
        if (!placed) {
            memcpy(merged + at, line, strlen(line));
            at += strlen(line);
            placed = 1;
        } else if (at && merged[at - 1] == ' ') {
            at--; /* a second one of ours goes, with its blank */
        }
        merged[at] = '\0';
    }
    if (field) {
        memcpy(merged + at, field, strlen(field) + 1);
        at += strlen(field);
    }
    if (!placed) {
        const char *blank = at && merged[at - 1] != ' ' ? " " : "";

        snprintf(merged + at, room - at, "%s%s", blank, line);
    }
    return merged;
}

char *argus_comment_without(const char *field)
{
    char *rest = strdup(field), *ours;
    size_t length;

    while (rest && (ours = (char *)argus_comment_find(rest, &length))) {
        char *after = ours + length;

        /* One blank goes with it: the one that merging put there, else the one behind. */
        if (ours > rest && ours[-1] == ' ')
            ours--;
        else if (*after == ' ')
            after++;
        memmove(ours, after, strlen(after) + 1);
    }
    return rest;
}
