/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that did not listen, and why: from the timelines, and for ranks
 * that have none from what their recorders noted (node-*.json).
 */
#include <config.h>
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/model/digest.h"

#define LINES_MAX 65536u
#define SOURCES 4
#define REASONS 10

static const char *const sources[SOURCES] = {"CUPTI", "NCCL", "NVTX", "stacks"};
static const char *const reasons[REASONS] = {
    [ARGUS_REASON_USER_SET] = "the user had set its variable",
    [ARGUS_REASON_NO_LIBRARY] = "library not found",
    [ARGUS_REASON_REFUSED] = "refused by the driver",
    [ARGUS_REASON_OTHER_CLIENT] = "another profiler took over",
    [ARGUS_REASON_INVALID_TIMES] = "invalid times",
    [ARGUS_REASON_BAD_VERSION] = "version known as bad",
    [ARGUS_REASON_SILENT] = "no records came",
};

static const char *why(uint32_t reason)
{
    return reason < REASONS && reasons[reason] ? reasons[reason] : "no reason given";
}

void argus_model_note_standdowns(struct argus_model *m)
{
    for (int s = 0; s < SOURCES; s++) {
        size_t n[REASONS + 1] = {0};

        for (size_t i = 0; i < m->n_ranks; i++) {
            uint32_t reason = m->ranks[i].counters.standdown[s];

            if (reason && reason != ARGUS_REASON_OFF) /* that was asked for */
                n[reason < REASONS ? reason : REASONS]++;
        }
        for (uint32_t r = 0; r <= REASONS; r++) {
            /* That one is still listened to, with care. */
            const char *what = s == ARGUS_SOURCE_CUPTI && r == ARGUS_REASON_BAD_VERSION
                                   ? "is never switched off"
                                   : "stood down";

            if (n[r])
                argus_model_note(m, "source %s %s on %zu of %zu ranks (%s)", sources[s], what, n[r],
                                 m->n_ranks, why(r));
        }
    }
}

/* ---- ranks without a timeline ---------------------------------------------- */

struct line {
    int rank, source;
    uint32_t reason;
};

struct lines {
    struct line *line;
    size_t n;
};

/* "rank=13 source=cupti reason=user-set code=0": the words of the collector and the plugin. */
static int parse(const char *text, struct line *l)
{
    static const char *const source_words[SOURCES] = {"cupti", "nccl", "nvtx", "stacks"};
    static const char *const words[REASONS] = {
        [ARGUS_REASON_USER_SET] = "user-set",       [ARGUS_REASON_NO_LIBRARY] = "no-library",
        [ARGUS_REASON_REFUSED] = "refused",         [ARGUS_REASON_OTHER_CLIENT] = "other-client",
        [ARGUS_REASON_BAD_VERSION] = "bad-version",
    };
    char source[16], reason[32];

    if (!text ||
        sscanf(text, "rank=%d source=%15[a-z] reason=%31[a-z-]", &l->rank, source, reason) != 3)
        return -1;
    for (l->source = 0; l->source < SOURCES; l->source++) {
        if (!strcmp(source, source_words[l->source]))
            break;
    }
    for (l->reason = REASONS - 1; l->reason > 0; l->reason--) {
        if (words[l->reason] && !strcmp(reason, words[l->reason]))
            break;
    }
    return l->source < SOURCES ? 0 : -1;
}

static void take(const char *path, struct lines *all)
{
    json_error_t jerr;
    json_t *root = argus_model_load_json(path, &jerr), *list, *v;
    size_t i;

    list = json_object_get(root, "standdown");
    json_array_foreach(list, i, v)
    {
        struct line l;

        if (all->n < LINES_MAX && parse(json_string_value(v), &l) == 0)
            all->line[all->n++] = l;
    }
    json_decref(root);
}

static int by_source_reason_rank(const void *a, const void *b)
{
    const struct line *x = a, *y = b;

    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->reason != y->reason)
        return x->reason < y->reason ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int same(const struct line *a, const struct line *b)
{
    return a->source == b->source && a->reason == b->reason;
}

static int has_timeline(const struct argus_model *m, int rank)
{
    for (size_t i = 0; m && i < m->n_ranks; i++) {
        if (m->ranks[i].rank == rank)
            return 1;
    }
    return 0;
}

void argus_standdowns_without_timeline(const char *dir, const struct argus_model *m,
                                       void (*note)(void *arg, const char *text), void *arg)
{
    struct lines all = {.line = calloc(LINES_MAX, sizeof(*all.line))};
    DIR *d = all.line ? opendir(dir) : NULL;
    char path[4096], text[160];
    struct dirent *e;

    while (d && (e = readdir(d))) {
        size_t n = strlen(e->d_name);

        if (!strncmp(e->d_name, "node-", 5) && n > 10 && !strcmp(e->d_name + n - 5, ".json") &&
            snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path))
            take(path, &all);
    }
    if (d)
        closedir(d);
    if (all.n)
        qsort(all.line, all.n, sizeof(*all.line), by_source_reason_rank);
    for (size_t i = 0, next; i < all.n; i = next) {
        size_t ranks = 0;

        for (next = i; next < all.n && same(&all.line[i], &all.line[next]); next++)
            ranks += (next == i || all.line[next].rank != all.line[next - 1].rank) &&
                     !has_timeline(m, all.line[next].rank);
        if (!ranks)
            continue;
        snprintf(text, sizeof(text), "source %s stood down on %zu rank%s without a timeline (%s)",
                 sources[all.line[i].source], ranks, ranks == 1 ? "" : "s",
                 why(all.line[i].reason));
        note(arg, text);
    }
    free(all.line);
}
