/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of plugstack.conf and of --argus=...: one table, values kept as
 * checked text, so that what is checked here is exactly what step.conf says.
 *
 * A bad item never stops anything: it is reported in one line and the value
 * stays what it was.
 */
#ifndef ARGUS_SPANK_KEYS_H
#define ARGUS_SPANK_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/util/error.h"

enum argus_key {
    ARGUS_KEY_DEFAULT,
    ARGUS_KEY_DIR,
    ARGUS_KEY_SPOOL,
    ARGUS_KEY_COLLECTOR,
    ARGUS_KEY_MODE,
    ARGUS_KEY_SOURCES,
    ARGUS_KEY_LINKS,
    ARGUS_KEY_WINDOW,
    ARGUS_KEY_KEEP_MB,
    ARGUS_KEY_RING_MB,
    ARGUS_KEY_INFO,
    ARGUS_KEY_WARN,
    ARGUS_KEY_CRITICAL,
    ARGUS_KEY_FLOOR_MS,
    ARGUS_KEY_MIN_STEPS,
    ARGUS_KEY_COMMENT,
    ARGUS_KEY_DRAIN_S,
    ARGUS_KEY_DEADLINE_S,
    ARGUS_KEY_SUMMARY,
    ARGUS_KEY_LIVE,
    ARGUS_KEY_COUNT
};

#define ARGUS_KEY_TEXT_MAX 512
#define ARGUS_KEYS_RULES 16

/* only=KIND:LIST and not=KIND:LIST. */
struct argus_rule {
    bool only;
    char kind[12]; /* "partition", "user", "account" */
    char list[256];
};

struct argus_keys {
    char text[ARGUS_KEY_COUNT][ARGUS_KEY_TEXT_MAX];
    struct argus_rule rules[ARGUS_KEYS_RULES];
    unsigned nrules;
};

/* What --argus[=...] asked for. */
struct argus_request {
    bool given;
    bool off;
};

/* Called once for each bad item with one line without LF. */
typedef void argus_keys_say_f(const char *line);

void argus_keys_defaults(struct argus_keys *keys);

/* The arguments of the plugstack.conf line. */
void argus_keys_plugstack(struct argus_keys *keys, int argc, char **argv, argus_keys_say_f *say);

/*
 * The argument of --argus.  NULL, "" and "(null)" mean plain --argus.  Keys
 * that name paths or belong to the site are refused.  `say` may be NULL.
 */
void argus_keys_option(struct argus_keys *keys, struct argus_request *request, const char *argument,
                       argus_keys_say_f *say);

const char *argus_keys_name(enum argus_key key);
const char *argus_keys_text(const struct argus_keys *keys, enum argus_key key);
bool argus_keys_is(const struct argus_keys *keys, enum argus_key key, const char *value);
long argus_keys_int(const struct argus_keys *keys, enum argus_key key);
bool argus_keys_source(const struct argus_keys *keys, const char *source);

/*
 * Do only= and not= let this step in?  On refusal `why` (at least 64 bytes)
 * names the rule.  A NULL name matches no list.
 */
bool argus_keys_allowed(const struct argus_keys *keys, const char *partition, const char *user,
                        const char *account, char *why, size_t size);

#endif /* ARGUS_SPANK_KEYS_H */
