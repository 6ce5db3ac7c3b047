/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <ctype.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/util/hostlist.h"

/* No range needs more digits, and so many never overflow an unsigned long. */
#define DIGITS_MAX 9

/* One expansion under way. */
struct expansion {
    const char *text; /* the whole list, for messages */
    size_t max;
    struct argus_hostlist *list;
    size_t room; /* entries that list->names has memory for */
    void *seen;  /* tsearch() tree of names */
    char name[ARGUS_HOST_NAME_MAX + 1];
    argus_error_t *err;
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void keep(void *name)
{
    (void)name;
}

static int name_char(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

int argus_host_name_valid(const char *name)
{
    size_t n = 0;

    if (!name || !name[0] || name[0] == '-' || name[0] == '.')
        return 0;
    for (; name[n]; n++) {
        if (n >= ARGUS_HOST_NAME_MAX || !name_char(name[n]))
            return 0;
    }
    return 1;
}

static int bad(struct expansion *x, const char *why)
{
    return argus_error(x->err, "node list \"%.80s\": %s", x->text, why);
}

static int emit(struct expansion *x)
{
    char *copy, **found;

    if (!argus_host_name_valid(x->name))
        return bad(x, "not a node name");
    if (x->list->n >= x->max)
        return bad(x, "too many nodes");
    if (x->list->n == x->room) {
        size_t room = x->room ? 2 * x->room : 16;
        char **grown = realloc(x->list->names, room * sizeof(*grown));

        if (!grown)
            return bad(x, "out of memory");
        x->list->names = grown;
        x->room = room;
    }
    copy = strdup(x->name);
    found = copy ? tsearch(copy, &x->seen, compare) : NULL;
    if (!found) {
        free(copy);
        return bad(x, "out of memory");
    }
    if (*found != copy)
        free(copy);
    else
        x->list->names[x->list->n++] = copy;
    return 0;
}

static int number(const char **p, unsigned long *value, int *digits)
{
    *value = 0;
    for (*digits = 0; isdigit((unsigned char)**p); (*p)++) {
        if (++*digits > DIGITS_MAX)
            return -1;
        *value = 10 * *value + (unsigned long)(**p - '0');
    }
    return *digits ? 0 : -1;
}

/*
 * Expand one item, text[0..end), from `p` on, behind the `used` bytes of
 * x->name.  Brackets make it call itself, at most once for each group.
 */
static int item(struct expansion *x, const char *p, const char *end, size_t used)
{
    const char *close;

    for (; p < end && *p != '['; p++) {
        if (!name_char(*p))
            return bad(x, "not a node name");
        if (used >= ARGUS_HOST_NAME_MAX)
            return bad(x, "a name is too long");
        x->name[used++] = *p;
    }
    x->name[used] = '\0';
    if (p == end)
        return emit(x);
    close = memchr(p, ']', (size_t)(end - p));
    if (!close)
        return bad(x, "']' is missing");
    do {
        unsigned long first, last;
        int width, width_last;

        p++;
        if (number(&p, &first, &width) < 0)
            return bad(x, "not a range");
        last = first;
        width_last = width;
        if (*p == '-') {
            p++;
            if (number(&p, &last, &width_last) < 0 || last < first)
                return bad(x, "not a range");
        }
        if (last - first >= x->max)
            return bad(x, "too many nodes");
        for (unsigned long i = first; i <= last; i++) {
            int n = snprintf(x->name + used, sizeof(x->name) - used, "%0*lu", width, i);

            if (n < 0 || (size_t)n >= sizeof(x->name) - used)
                return bad(x, "a name is too long");
            if (item(x, close + 1, end, used + (size_t)n) < 0)
                return -1;
        }
    } while (p < close && *p == ',');
    if (p != close)
        return bad(x, "not a range");
    return 0;
}

int argus_hostlist_expand(const char *text, size_t max, struct argus_hostlist *list,
                          argus_error_t *err)
{
    struct expansion x = {.text = text, .max = max, .list = list, .err = err};
    const char *p = text;
    int rc = 0;

    list->names = NULL;
    list->n = 0;
    while (rc == 0) {
        const char *end = p;

        /* A comma inside brackets separates ranges, not names. */
        for (int inside = 0; *end && (inside || *end != ','); end++) {
            if (*end == '[')
                inside = 1;
            else if (*end == ']')
                inside = 0;
        }
        rc = item(&x, p, end, 0);
        if (!*end)
            break;
        p = end + 1;
    }
    tdestroy(x.seen, keep);
    if (rc < 0)
        argus_hostlist_clear(list);
    return rc;
}

void argus_hostlist_clear(struct argus_hostlist *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
    list->names = NULL;
    list->n = 0;
}

long argus_hostlist_find(const struct argus_hostlist *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (!strcmp(list->names[i], name))
            return (long)i;
    }
    return -1;
}

int argus_hostlist_add(struct argus_hostlist *list, const char *name)
{
    char **grown;

    if (argus_hostlist_find(list, name) >= 0)
        return 0;
    grown = realloc(list->names, (list->n + 1) * sizeof(*grown));
    if (!grown)
        return -1;
    list->names = grown;
    grown[list->n] = strdup(name);
    if (!grown[list->n])
        return -1;
    list->n++;
    return 0;
}

char *argus_hostlist_join(const struct argus_hostlist *list)
{
    size_t size = 1;
    char *text, *p;

    for (size_t i = 0; i < list->n; i++)
        size += strlen(list->names[i]) + 1;
    p = text = malloc(size);
    if (!text)
        return NULL;
    *p = '\0';
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            *p++ = ',';
        p = stpcpy(p, list->names[i]);
    }
    return text;
}
