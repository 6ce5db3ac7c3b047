/* SPDX-License-Identifier: Apache-2.0 */
/* The timelines of a step directory. */
#include <config.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/timeline/timeline_io.h"

struct entry {
    long rank;
    int open;
    char *path;
};

/* "rank-<digits>.h5" or "rank-<digits>.h5.open"; -1: neither. */
static long rank_of(const char *name, int *open)
{
    char *end;
    long rank;

    if (strncmp(name, "rank-", 5) || name[5] < '0' || name[5] > '9' || strlen(name) > 32)
        return -1;
    rank = strtol(name + 5, &end, 10);
    *open = !strcmp(end, ".h5.open");
    return *open || !strcmp(end, ".h5") ? rank : -1;
}

static int by_rank(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->open - y->open;
}

static int add(struct entry **entries, size_t *n, size_t *size, const char *dir, const char *name,
               long rank, int open)
{
    size_t length = strlen(dir) + strlen(name) + 2;
    char *path;

    if (*n == *size) {
        size_t more = *size ? *size * 2 : 64;
        struct entry *p = realloc(*entries, more * sizeof(*p));

        if (!p)
            return -1;
        *entries = p;
        *size = more;
    }
    path = malloc(length);
    if (!path)
        return -1;
    snprintf(path, length, "%s/%s", dir, name);
    (*entries)[(*n)++] = (struct entry){rank, open, path};
    return 0;
}

int argus_timeline_list(const char *dir, char ***paths, size_t *n, argus_error_t *err)
{
    struct entry *entries = NULL;
    size_t n_entries = 0, size = 0;
    struct dirent *de;
    char **list = NULL;
    DIR *d = opendir(dir);
    int rc = -1;

    *paths = NULL;
    *n = 0;
    if (!d)
        return argus_error(err, "%s: %s", dir, strerror(errno));
    while ((de = readdir(d))) {
        int open = 0;
        long rank = rank_of(de->d_name, &open);

        if (rank >= 0 && add(&entries, &n_entries, &size, dir, de->d_name, rank, open) != 0)
            goto memory;
    }
    list = calloc(n_entries + 1, sizeof(*list));
    if (!list)
        goto memory;
    if (n_entries)
        qsort(entries, n_entries, sizeof(*entries), by_rank);
    /* A writer that died between the rename and the removal leaves both: the sealed one counts. */
    for (size_t i = 0; i < n_entries; i++) {
        if (i && entries[i].open && entries[i].rank == entries[i - 1].rank)
            continue;
        list[(*n)++] = entries[i].path;
        entries[i].path = NULL;
    }
    *paths = list;
    rc = 0;
    goto out;
memory:
    argus_error(err, "%s: out of memory", dir);
out:
    for (size_t i = 0; i < n_entries; i++)
        free(entries[i].path);
    free(entries);
    closedir(d);
    return rc;
}

void argus_timeline_list_free(char **paths, size_t n)
{
    for (size_t i = 0; paths && i < n; i++)
        free(paths[i]);
    free(paths);
}
