/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spank/keys.h"
#include "spank/pattern.h"

/* Longer arguments of --argus are cut off by an error, not looked at. */
#define OPTION_MAX 1024

struct key_info {
    const char *name;
    const char *value; /* default */
    bool user;         /* may be set through --argus */
    int (*check)(const char *value, argus_error_t *err);
};

static const char *const source_names[] = {"cupti", "nccl", "nvtx", "stacks", NULL};

static bool word_in(const char *const *words, const char *s, size_t n)
{
    for (; *words; words++) {
        if (strlen(*words) == n && !strncmp(*words, s, n))
            return true;
    }
    return false;
}

/* Is the word s[0..n) an item of the comma list? */
static bool list_has(const char *list, const char *s, size_t n)
{
    while (*list) {
        size_t len = strcspn(list, ",");

        if (len == n && !strncmp(list, s, n))
            return true;
        list += len;
        list += *list == ',';
    }
    return false;
}

static int check_words(const char *value, const char *const *words, const char *text,
                       argus_error_t *err)
{
    if (word_in(words, value, strlen(value)))
        return 0;
    return argus_error(err, "must be %s", text);
}

static int check_switch(const char *value, argus_error_t *err)
{
    static const char *const words[] = {"on", "off", NULL};

    return check_words(value, words, "on or off", err);
}

static int check_mode(const char *value, argus_error_t *err)
{
    static const char *const words[] = {"summary", "full", "off", NULL};

    return check_words(value, words, "summary, full or off", err);
}

static int check_comment(const char *value, argus_error_t *err)
{
    static const char *const words[] = {"admin", "system", "comment", "none", NULL};

    return check_words(value, words, "admin, system, comment or none", err);
}

static int check_sources(const char *value, argus_error_t *err)
{
    const char *p = value;

    do {
        size_t n = strcspn(p, ",");

        if (!word_in(source_names, p, n))
            return argus_error(err, "must be a list of cupti, nccl, nvtx, stacks");
        if (p[n] && list_has(p + n + 1, p, n))
            return argus_error(err, "names a source twice");
        p += n;
    } while (*p++ == ',');
    return 0;
}

/* Digits only: no sign, no blanks, no other base. */
static int check_int(const char *value, long min, long max, argus_error_t *err)
{
    size_t n = strspn(value, "0123456789");
    long v;

    if (n && n < 10 && !value[n]) {
        v = strtol(value, NULL, 10);
        if (v >= min && v <= max)
            return 0;
    }
    return argus_error(err, "must be a whole number from %ld to %ld", min, max);
}

/*
 * Decimal numbers are compared in thousandths and parsed here, because
 * strtod() listens to the locale.  -1: not a number.
 */
static long thousandths(const char *value)
{
    size_t whole = strspn(value, "0123456789");
    long v;

    if (!whole || whole > 9)
        return -1;
    v = strtol(value, NULL, 10) * 1000;
    value += whole;
    if (*value == '.') {
        long unit = 100;

        if (!*++value)
            return -1;
        for (; *value >= '0' && *value <= '9'; value++, unit /= 10)
            v += (*value - '0') * unit;
    }
    return *value ? -1 : v;
}

static int check_ratio(const char *value, argus_error_t *err)
{
    long v = thousandths(value);

    if (strlen(value) <= 12 && v >= 1000 && v <= 100000)
        return 0;
    return argus_error(err, "must be a number from 1 to 100");
}

static int check_ms(const char *value, argus_error_t *err)
{
    long v = thousandths(value);

    if (strlen(value) <= 12 && v >= 0 && v <= 3600 * 1000 * 1000L)
        return 0;
    return argus_error(err, "must be a number of milliseconds from 0 to 3600000");
}

static int check_window(const char *value, argus_error_t *err)
{
    return check_int(value, 1, 1000000, err);
}

static int check_keep(const char *value, argus_error_t *err)
{
    return check_int(value, 0, 65536, err);
}

static int check_ring(const char *value, argus_error_t *err)
{
    return check_int(value, 1, 4096, err);
}

static int check_steps(const char *value, argus_error_t *err)
{
    return check_int(value, 1, 1000000, err);
}

static int check_drain(const char *value, argus_error_t *err)
{
    return check_int(value, 0, 600, err);
}

static int check_deadline(const char *value, argus_error_t *err)
{
    return check_int(value, 0, 86400, err);
}

static int check_dir(const char *value, argus_error_t *err)
{
    return argus_pattern_check(value, "ujAawN", true, err);
}

static int check_spool(const char *value, argus_error_t *err)
{
    return argus_pattern_check(value, "n", false, err);
}

static int check_collector(const char *value, argus_error_t *err)
{
    return argus_pattern_check(value, "", false, err);
}

static const struct key_info key_table[ARGUS_KEY_COUNT] = {
    [ARGUS_KEY_DEFAULT] = {"default", "off", false, check_switch},
    [ARGUS_KEY_DIR] = {"dir", "%w/argus/%j", false, check_dir},
    [ARGUS_KEY_SPOOL] = {"spool", "/run/argus", false, check_spool},
    [ARGUS_KEY_COLLECTOR] = {"collector", ARGUS_LIBDIR "/argus/libargus-collector.so", false,
                             check_collector},
    [ARGUS_KEY_MODE] = {"mode", "summary", true, check_mode},
    [ARGUS_KEY_SOURCES] = {"sources", "cupti,nccl,nvtx,stacks", true, check_sources},
    [ARGUS_KEY_LINKS] = {"links", "off", true, check_switch},
    [ARGUS_KEY_WINDOW] = {"window", "64", true, check_window},
    [ARGUS_KEY_KEEP_MB] = {"keep_mb", "64", false, check_keep},
    [ARGUS_KEY_RING_MB] = {"ring_mb", "32", false, check_ring},
    [ARGUS_KEY_INFO] = {"info", "1.03", true, check_ratio},
    [ARGUS_KEY_WARN] = {"warn", "1.10", true, check_ratio},
    [ARGUS_KEY_CRITICAL] = {"critical", "1.20", true, check_ratio},
    [ARGUS_KEY_FLOOR_MS] = {"floor_ms", "1", true, check_ms},
    [ARGUS_KEY_MIN_STEPS] = {"min_steps", "20", false, check_steps},
    [ARGUS_KEY_COMMENT] = {"comment", "admin", false, check_comment},
    [ARGUS_KEY_DRAIN_S] = {"drain_s", "10", false, check_drain},
    [ARGUS_KEY_DEADLINE_S] = {"deadline_s", "150", false, check_deadline},
    [ARGUS_KEY_SUMMARY] = {"summary", "off", true, check_switch},
    [ARGUS_KEY_LIVE] = {"live", "off", false, check_switch},
};

/* Text that came from outside, made fit for one line of a log. */
static void printable(char *out, size_t size, const char *in, size_t n)
{
    size_t i;

    for (i = 0; i < n && i + 1 < size; i++)
        out[i] = in[i] >= ' ' && in[i] <= '~' ? in[i] : '?';
    out[i] = '\0';
}

static void say_item(argus_keys_say_f *say, const char *where, const char *item, size_t n,
                     const argus_error_t *err)
{
    char line[sizeof(err->text) + 256];
    char shown[128];

    if (!say)
        return;
    printable(shown, sizeof(shown), item, n);
    snprintf(line, sizeof(line), "argus: %s%s: %s", where, shown, err->text);
    say(line);
}

static int find_key(const char *item, size_t n)
{
    for (int k = 0; k < ARGUS_KEY_COUNT; k++) {
        if (strlen(key_table[k].name) == n && !strncmp(key_table[k].name, item, n))
            return k;
    }
    return -1;
}

static int set_key(struct argus_keys *keys, int k, const char *value, argus_error_t *err)
{
    if (strlen(value) >= ARGUS_KEY_TEXT_MAX)
        return argus_error(err, "is longer than %d bytes", ARGUS_KEY_TEXT_MAX - 1);
    if (key_table[k].check(value, err))
        return -1;
    strcpy(keys->text[k], value);
    return 0;
}

static int set_rule(struct argus_keys *keys, bool only, const char *value, argus_error_t *err)
{
    static const char *const kinds[] = {"partition", "user", "account", NULL};
    const char *list = strchr(value, ':');
    struct argus_rule *rule;

    if (!list || !word_in(kinds, value, (size_t)(list - value)) || !list[1])
        return argus_error(err, "must be partition:, user: or account: and a list of names");
    if (keys->nrules == ARGUS_KEYS_RULES)
        return argus_error(err, "more than %d only= and not= rules", ARGUS_KEYS_RULES);
    if (strlen(list + 1) >= sizeof(keys->rules[0].list))
        return argus_error(err, "list is longer than %zu bytes", sizeof(keys->rules[0].list) - 1);
    rule = &keys->rules[keys->nrules++];
    rule->only = only;
    snprintf(rule->kind, sizeof(rule->kind), "%.*s", (int)(list - value), value);
    snprintf(rule->list, sizeof(rule->list), "%s", list + 1);
    return 0;
}

/* info <= warn <= critical, or all three go back to `from`. */
static void check_severities(struct argus_keys *keys, const struct argus_keys *from,
                             const char *where, argus_keys_say_f *say)
{
    static const int k[] = {ARGUS_KEY_INFO, ARGUS_KEY_WARN, ARGUS_KEY_CRITICAL};
    long info = thousandths(keys->text[k[0]]);
    long warn = thousandths(keys->text[k[1]]);
    argus_error_t err;

    if (info <= warn && warn <= thousandths(keys->text[k[2]]))
        return;
    argus_error(&err, "info, warn and critical must not decrease; %s, %s, %s are used",
                from->text[k[0]], from->text[k[1]], from->text[k[2]]);
    say_item(say, where, "", 0, &err);
    for (size_t i = 0; i < sizeof(k) / sizeof(k[0]); i++)
        strcpy(keys->text[k[i]], from->text[k[i]]);
}

void argus_keys_defaults(struct argus_keys *keys)
{
    memset(keys, 0, sizeof(*keys));
    for (int k = 0; k < ARGUS_KEY_COUNT; k++)
        snprintf(keys->text[k], sizeof(keys->text[k]), "%s", key_table[k].value);
}

void argus_keys_plugstack(struct argus_keys *keys, int argc, char **argv, argus_keys_say_f *say)
{
    static const char where[] = "plugstack.conf: ";
    struct argus_keys *start = malloc(sizeof(*start));

    if (start)
        argus_keys_defaults(start);
    for (int i = 0; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        size_t n = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        int k = find_key(argv[i], n);
        argus_error_t err;
        int rc = 0;

        if (!equals)
            rc = argus_error(&err, "is not key=value; ignored");
        else if (n == 4 && !strncmp(argv[i], "only", n))
            rc = set_rule(keys, true, equals + 1, &err);
        else if (n == 3 && !strncmp(argv[i], "not", n))
            rc = set_rule(keys, false, equals + 1, &err);
        else if (k < 0)
            rc = argus_error(&err, "unknown key; ignored");
        else if ((rc = set_key(keys, k, equals + 1, &err))) {
            size_t len = strlen(err.text);

            snprintf(err.text + len, sizeof(err.text) - len, "; %s is used", keys->text[k]);
        }
        if (rc)
            say_item(say, where, argv[i], strlen(argv[i]), &err);
    }
    if (start)
        check_severities(keys, start, where, say);
    free(start);
}

/* One item of --argus=...; `*last` is the key of the item before. */
static int set_item(struct argus_keys *keys, struct argus_request *request, const char *item,
                    int *last, argus_error_t *err)
{
    const char *equals = strchr(item, '=');
    int before = *last;
    size_t n;

    *last = -1;
    if (!equals) {
        size_t used = strlen(keys->text[ARGUS_KEY_SOURCES]);

        /* sources=cupti,nccl: the rest of the list arrives as items of its own. */
        if (before == ARGUS_KEY_SOURCES && word_in(source_names, item, strlen(item))) {
            *last = before;
            if (!argus_keys_source(keys, item))
                snprintf(keys->text[ARGUS_KEY_SOURCES] + used, ARGUS_KEY_TEXT_MAX - used, ",%s",
                         item);
            return 0;
        }
        if (!strcmp(item, "on") || !strcmp(item, "off")) {
            request->off = item[1] == 'f';
            return 0;
        }
        if (!strcmp(item, "full"))
            return set_key(keys, ARGUS_KEY_MODE, item, err);
        /* The three lines, not the mode of this name, which is the default anyway. */
        if (!strcmp(item, "summary"))
            return set_key(keys, ARGUS_KEY_SUMMARY, "on", err);
        return argus_error(err, "must be on, off, summary, full or key=value; ignored");
    }
    n = (size_t)(equals - item);
    *last = find_key(item, n);
    if (*last < 0)
        return argus_error(err, "unknown key; ignored");
    if (!key_table[*last].user)
        return argus_error(err, "only plugstack.conf may set this key; ignored");
    if (set_key(keys, *last, equals + 1, err)) {
        size_t len = strlen(err->text);

        snprintf(err->text + len, sizeof(err->text) - len, "; %s is used", keys->text[*last]);
        *last = -1;
        return -1;
    }
    if (*last == ARGUS_KEY_MODE && !strcmp(equals + 1, "off"))
        request->off = true;
    return 0;
}

void argus_keys_option(struct argus_keys *keys, struct argus_request *request, const char *argument,
                       argus_keys_say_f *say)
{
    static const char where[] = "--argus=";
    struct argus_keys *site;
    char item[OPTION_MAX];
    argus_error_t err;
    int last = -1;

    request->given = true;
    request->off = false;
    if (!argument || !*argument || !strcmp(argument, "(null)"))
        return;
    if (strnlen(argument, OPTION_MAX) == OPTION_MAX) {
        argus_error(&err, "is longer than %d bytes; ignored", OPTION_MAX - 1);
        say_item(say, where, argument, 32, &err);
        return;
    }
    site = malloc(sizeof(*site));
    if (site)
        *site = *keys;
    do {
        size_t n = strcspn(argument, ",");

        memcpy(item, argument, n);
        item[n] = '\0';
        if (n && set_item(keys, request, item, &last, &err))
            say_item(say, where, item, n, &err);
        argument += n;
    } while (*argument++ == ',');
    if (site)
        check_severities(keys, site, where, say);
    free(site);
}

const char *argus_keys_name(enum argus_key key)
{
    return key_table[key].name;
}

const char *argus_keys_text(const struct argus_keys *keys, enum argus_key key)
{
    return keys->text[key];
}

bool argus_keys_is(const struct argus_keys *keys, enum argus_key key, const char *value)
{
    return !strcmp(keys->text[key], value);
}

long argus_keys_int(const struct argus_keys *keys, enum argus_key key)
{
    return strtol(keys->text[key], NULL, 10);
}

bool argus_keys_source(const struct argus_keys *keys, const char *source)
{
    return list_has(keys->text[ARGUS_KEY_SOURCES], source, strlen(source));
}

bool argus_keys_allowed(const struct argus_keys *keys, const char *partition, const char *user,
                        const char *account, char *why, size_t size)
{
    for (unsigned i = 0; i < keys->nrules; i++) {
        const struct argus_rule *rule = &keys->rules[i];
        const char *name = account;

        if (!strcmp(rule->kind, "partition"))
            name = partition;
        else if (!strcmp(rule->kind, "user"))
            name = user;
        if ((name && list_has(rule->list, name, strlen(name))) != rule->only) {
            snprintf(why, size, "%s=%s:%s", rule->only ? "only" : "not", rule->kind, rule->list);
            return false;
        }
    }
    return true;
}
