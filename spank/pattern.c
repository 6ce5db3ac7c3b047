/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <string.h>

#include "spank/pattern.h"

static bool printable(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return false;
    }
    return true;
}

static bool has_dotdot(const char *path)
{
    while (*path) {
        size_t n = strcspn(path, "/");

        if (n == 2 && path[0] == '.' && path[1] == '.')
            return true;
        path += n;
        path += *path == '/';
    }
    return false;
}

bool argus_path_sane(const char *path)
{
    return path[0] == '/' && printable(path) && !has_dotdot(path);
}

/* A file name and nothing else. */
static bool component_sane(const char *s)
{
    return *s && printable(s) && !strchr(s, '/') && strcmp(s, ".") && strcmp(s, "..");
}

int argus_pattern_check(const char *pattern, const char *letters, bool relative, argus_error_t *err)
{
    if (pattern[0] != '/' && !(relative && !strncmp(pattern, "%w", 2)))
        return argus_error(err, "must be an absolute path%s", relative ? " or begin with %w" : "");
    if (!printable(pattern))
        return argus_error(err, "has a character that cannot be printed");
    if (has_dotdot(pattern))
        return argus_error(err, "has a component \"..\"");
    for (const char *p = strchr(pattern, '%'); p; p = strchr(p + 2, '%')) {
        if (!p[1] || (p[1] != '%' && !strchr(letters, p[1]))) {
            if (!*letters)
                return argus_error(err, "takes no %% patterns");
            return argus_error(err, "knows no %%%c, only %%%% and %% with one of \"%s\"",
                               p[1] >= ' ' && p[1] <= '~' ? p[1] : '?', letters);
        }
    }
    return 0;
}

static const char *value_of(const struct argus_pattern_facts *facts, char letter)
{
    switch (letter) {
    case 'u':
        return facts->user;
    case 'j':
        return facts->job;
    case 'A':
        return facts->array_job;
    case 'a':
        return facts->array_task;
    case 'w':
        return facts->workdir;
    case 'N':
        return facts->cluster;
    case 'n':
        return facts->node;
    case '%':
        return "%";
    }
    return NULL;
}

int argus_pattern_expand(const char *pattern, const struct argus_pattern_facts *facts, char *out,
                         size_t size, argus_error_t *err)
{
    size_t used = 0;

    for (const char *p = pattern; *p; p++) {
        const char *value = p;
        size_t n = 1;

        if (*p == '%') {
            char letter = *++p;

            value = value_of(facts, letter);
            if (!value)
                return argus_error(err, "%s: no value for %%%c", pattern, letter);
            if (letter == 'w' ? !argus_path_sane(value) : !component_sane(value))
                return argus_error(err, "%s: the value of %%%c is not a plain %s", pattern, letter,
                                   letter == 'w' ? "absolute path" : "name");
            n = strlen(value);
            /* "/" as %w would make "//argus". */
            if (letter == 'w' && n == 1 && p[1] == '/')
                n = 0;
        }
        if (n >= size - used)
            return argus_error(err, "%s: longer than %zu bytes when expanded", pattern, size - 1);
        memcpy(out + used, value, n);
        used += n;
    }
    out[used] = '\0';
    /* Two halves of ".." may have met. */
    if (!argus_path_sane(out))
        return argus_error(err, "%s: not an absolute path without \"..\" when expanded", pattern);
    return 0;
}
