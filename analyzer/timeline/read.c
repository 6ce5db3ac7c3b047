/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline reader: opening, attributes, refreshing. */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/timeline/reader.h"

static int ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && !strcmp(s + n - m, suffix);
}

/* A file whose writer lives, or died, carries flags that let only a SWMR
 * reader in; a sealed one opens plainly.  Neither way writes to the file. */
static hid_t open_file(const char *path)
{
    unsigned flags[2] = {H5F_ACC_RDONLY, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ};
    int first = ends_with(path, ".open");
    hid_t fapl = tl_access(), file, errors;

    if (fapl < 0)
        return fapl;
    file = H5Fopen(path, flags[first], fapl);
    if (file < 0)
        file = H5Fopen(path, flags[!first], fapl);
    errors = H5Eget_current_stack(); /* the next call would clear it */
    H5Pclose(fapl);
    H5Eset_current_stack(errors);
    return file;
}

static int read_attributes(argus_timeline_t *t, argus_error_t *err)
{
    if (tl_attributes_read(t->file, t->path, tl_state_members, tl_n_state_members, 0, &t->state,
                           err) != 0)
        return -1;
    if (strcmp(t->state.format, ARGUS_TIMELINE_FORMAT))
        return argus_error(err, "%s: attribute \"format\" is not \"%s\"", t->path,
                           ARGUS_TIMELINE_FORMAT);
    if (t->state.version != ARGUS_TIMELINE_VERSION)
        return argus_error(err, "%s: attribute \"version\" is %u, this argus reads %d", t->path,
                           t->state.version, ARGUS_TIMELINE_VERSION);
    if (tl_attributes_read(t->file, t->path, tl_info_members, tl_n_info_members, 0, &t->info,
                           err) != 0 ||
        tl_attributes_read(t->file, t->path, tl_counter_members, tl_n_counter_members, 0,
                           &t->counters, err) != 0)
        return -1;
    if (t->info.rank < 0 || t->info.world < 0)
        return argus_error(err, "%s: attribute \"rank\" or \"world\" is negative", t->path);
    /* What is said of a job grows with its ranks: one file must not claim thousands of millions. */
    if (t->info.world > ARGUS_WORLD_MAX)
        return argus_error(err, "%s: attribute \"world\" is %d, a job has at most %d ranks",
                           t->path, t->info.world, ARGUS_WORLD_MAX);
    if (t->info.rank >= ARGUS_WORLD_MAX)
        return argus_error(err, "%s: attribute \"rank\" is %d, a job has at most %d ranks", t->path,
                           t->info.rank, ARGUS_WORLD_MAX);
    return 0;
}

static void close_handles(argus_timeline_t *t)
{
    for (int d = 0; d < ARGUS_DS_COUNT; d++)
        tl_source_close(&t->sets[d]);
    if (t->file >= 0)
        H5Fclose(t->file);
    t->file = -1;
}

static argus_timeline_t *new_handle(const char *path, argus_error_t *err)
{
    argus_timeline_t *t = calloc(1, sizeof(*t));

    if (!t || !(t->path = strdup(path))) {
        free(t);
        argus_error(err, "%s: out of memory", path);
        return NULL;
    }
    t->file = -1;
    for (int d = 0; d < ARGUS_DS_COUNT; d++)
        t->sets[d] = (struct tl_source){.dset = -1, .type = -1};
    return t;
}

/* All but the strings. */
static argus_timeline_t *open_handle(const char *path, argus_error_t *err)
{
    argus_timeline_t *t = new_handle(path, err);

    if (!t)
        return NULL;
    if (stat(path, &t->stat) != 0) {
        argus_error(err, "%s: %s", path, strerror(errno));
        goto error;
    }
    if (!S_ISREG(t->stat.st_mode)) {
        argus_error(err, "%s: not a regular file", path);
        goto error;
    }
    t->file = open_file(path);
    if (t->file < 0) {
        tl_error(err, path, "cannot open as a timeline");
        goto error;
    }
    if (read_attributes(t, err) != 0)
        goto error;
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        if (tl_source_open(t, d, err) != 0)
            goto error;
    }
    return t;
error:
    argus_timeline_close(t);
    return NULL;
}

argus_timeline_t *argus_timeline_open(const char *path, argus_error_t *err)
{
    argus_timeline_t *t;

    if (tl_library(err) != 0)
        return NULL;
    t = open_handle(path, err);
    if (t && tl_strings_load(t, err) != 0) {
        argus_timeline_close(t);
        return NULL;
    }
    return t;
}

void argus_timeline_close(argus_timeline_t *t)
{
    if (!t)
        return;
    tl_library(NULL);
    close_handles(t);
    while (t->heaps) {
        struct tl_heap *next = t->heaps->next;

        free(t->heaps);
        t->heaps = next;
    }
    free(t->strings);
    free(t->packed);
    free(t->scratch);
    free(t->chunk);
    free(t->path);
    free(t);
}

const char *argus_timeline_path(const argus_timeline_t *t)
{
    return t->path;
}

const struct argus_timeline_info *argus_timeline_info(const argus_timeline_t *t)
{
    return &t->info;
}

const struct argus_timeline_counters *argus_timeline_counters(const argus_timeline_t *t)
{
    return &t->counters;
}

int argus_timeline_sealed(const argus_timeline_t *t)
{
    return t->state.sealed != 0;
}

const char *argus_timeline_end(const argus_timeline_t *t)
{
    return t->state.end;
}

size_t argus_timeline_rows(const argus_timeline_t *t, enum argus_dataset dataset)
{
    return (unsigned)dataset < ARGUS_DS_COUNT ? t->sets[dataset].rows : 0;
}

static int same_stat(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The handle moves to what `fresh` opened; strings already handed out stay. */
static int take_over(argus_timeline_t *t, argus_timeline_t *fresh, argus_error_t *err)
{
    argus_timeline_t old = *t;
    int more = fresh->state.sealed != t->state.sealed;

    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        if (fresh->sets[d].rows < t->sets[d].rows)
            return argus_error(err, "%s: dataset \"%s\" has become shorter", t->path,
                               tl_tables[d].name);
        more |= fresh->sets[d].rows > t->sets[d].rows;
    }
    *t = *fresh;
    *fresh = old;
    t->heaps = old.heaps;
    t->strings = old.strings;
    t->n_strings = old.n_strings;
    fresh->heaps = NULL;
    fresh->strings = NULL;
    fresh->n_strings = 0;
    return tl_strings_load(t, err) != 0 ? -1 : more;
}

int argus_timeline_refresh(argus_timeline_t *t, argus_error_t *err)
{
    argus_timeline_t *fresh;
    struct stat now;
    char *path;
    int rc;

    if (tl_library(err) != 0)
        return -1;
    if (t->state.sealed && !ends_with(t->path, ".open"))
        return 0;
    if (stat(t->path, &now) == 0 && same_stat(&now, &t->stat))
        return 0;
    path = strdup(t->path);
    if (!path)
        return argus_error(err, "%s: out of memory", t->path);
    /* Sealed meanwhile? */
    if (stat(path, &now) != 0 && ends_with(path, ".open"))
        path[strlen(path) - strlen(".open")] = '\0';
    fresh = open_handle(path, err);
    free(path);
    if (!fresh)
        return -1;
    rc = take_over(t, fresh, err);
    argus_timeline_close(fresh);
    return rc;
}
