/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline writer.
 *
 * Rows are collected in memory and written as whole chunks.  A flush also
 * writes the chunks that are not full yet, so that a crash loses nothing that
 * was flushed; such a chunk is written again later, and under SWMR its old
 * place in the file is lost for good.  Two things keep that small: partial
 * chunks go out at most every PARTIAL_S seconds (rarely once the waste is
 * large), and sealing copies a file that has waste into a compact one.
 */
#include <config.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/timeline/writer.h"

#define PARTIAL_S 2
#define PARTIAL_WASTEFUL_S 20
#define WASTE_FREE (UINT64_C(256) << 10)

static int64_t monotonic_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec;
}

static void string_hash(const char *s, size_t length, uint64_t out[2])
{
    uint64_t a = 0xcbf29ce484222325u ^ length, b = 0x9e3779b97f4a7c15u + length;

    for (size_t i = 0; i < length; i++) {
        a = (a ^ (unsigned char)s[i]) * 0x100000001b3u;
        b = (b + (unsigned char)s[i]) * 0xd6e8feb86659fd93u;
        b ^= b >> 32;
    }
    out[0] = a ? a : 1; /* 0 marks a free slot */
    out[1] = b;
}

static int grow_names(struct tl_names *names)
{
    size_t size = names->size ? names->size * 2 : 256;
    struct tl_name *slots = calloc(size, sizeof(*slots));

    if (!slots)
        return -1;
    for (size_t i = 0; i < names->size; i++) {
        const struct tl_name *old = &names->slots[i];
        size_t at = old->hash[0] & (size - 1);

        if (!old->hash[0])
            continue;
        while (slots[at].hash[0])
            at = (at + 1) & (size - 1);
        slots[at] = *old;
    }
    free(names->slots);
    names->slots = slots;
    names->size = size;
    return 0;
}

uint32_t argus_timeline_add_string(argus_timeline_writer_t *w, const char *s, size_t length)
{
    struct argus_string_row row = {.length = (uint32_t)length};
    struct tl_names *names = &w->names;
    uint64_t hash[2];
    size_t at;

    if (length > UINT32_MAX || names->n >= ARGUS_NONE - 1)
        return ARGUS_NONE;
    if ((names->n + 1) * 4 > names->size * 3 && grow_names(names) != 0)
        return ARGUS_NONE;
    string_hash(s, length, hash);
    for (at = hash[0] & (names->size - 1); names->slots[at].hash[0];
         at = (at + 1) & (names->size - 1)) {
        if (names->slots[at].hash[0] == hash[0] && names->slots[at].hash[1] == hash[1])
            return names->slots[at].id;
    }
    row.offset = w->sets[ARGUS_DS_STRINGS].rows;
    if (tl_writer_append(w, ARGUS_DS_STRINGS, s, length, NULL) != 0 ||
        tl_writer_append(w, ARGUS_DS_STRINGS_INDEX, &row, 1, NULL) != 0)
        return ARGUS_NONE;
    names->slots[at] = (struct tl_name){{hash[0], hash[1]}, (uint32_t)names->n};
    if (w->tap)
        w->tap(w->tap_arg, ARGUS_DS_STRINGS, s, length);
    return (uint32_t)names->n++;
}

/* Writes the chunk in memory of `set`, full or not, at its place. */
static int write_chunk(argus_timeline_writer_t *w, enum argus_dataset which, argus_error_t *err)
{
    const struct tl_table *t = &tl_tables[which];
    struct tl_set *set = &w->sets[which];
    size_t bytes = (size_t)t->live_rows * t->row_bytes;
    hsize_t rows = set->rows, offset = set->rows - set->n;
    size_t n;

    memset(set->buffer + set->n * t->row_bytes, 0, bytes - set->n * t->row_bytes);
    n = tl_pack(set->buffer, bytes, t->row_bytes, set->on_disk, w->scratch, w->packed);
    if (n == 0 || H5Dset_extent(set->dset, &rows) < 0 ||
        H5Dwrite_chunk(set->dset, H5P_DEFAULT, 0, &offset, n, w->packed) < 0) {
        char what[64];

        snprintf(what, sizeof(what), "cannot write dataset \"%s\"", t->name);
        return tl_error(err, w->open_path, what);
    }
    w->wasted += set->on_disk;
    w->useful += n - set->on_disk;
    set->on_disk = n;
    set->dirty = 0;
    w->unflushed = 1;
    if (set->n == t->live_rows) {
        set->n = 0;
        set->on_disk = 0;
    }
    return 0;
}

/* Rows refer to names, communicators and classes: those go out first, so that
 * a torn file has them. */
static int write_names_first(argus_timeline_writer_t *w, argus_error_t *err)
{
    for (int d = ARGUS_DS_STRINGS; d <= ARGUS_DS_CLASSES; d++) {
        if (w->sets[d].dirty && write_chunk(w, d, err) != 0)
            return -1;
    }
    return 0;
}

int tl_writer_append(argus_timeline_writer_t *w, enum argus_dataset which, const void *rows,
                     size_t n, argus_error_t *err)
{
    const struct tl_table *t = &tl_tables[which];
    struct tl_set *set = &w->sets[which];
    const char *from = rows;

    if (n && !set->buffer) {
        set->buffer = malloc((size_t)t->live_rows * t->row_bytes);
        if (!set->buffer)
            return argus_error(err, "%s: out of memory", w->open_path);
    }
    while (n) {
        size_t take = t->live_rows - set->n;

        if (take > n)
            take = n;
        memcpy(set->buffer + set->n * t->row_bytes, from, take * t->row_bytes);
        from += take * t->row_bytes;
        n -= take;
        set->n += take;
        set->rows += take;
        set->dirty = 1;
        if (set->n < t->live_rows)
            break;
        if (which > ARGUS_DS_CLASSES && write_names_first(w, err) != 0)
            return -1;
        if (write_chunk(w, which, err) != 0)
            return -1;
    }
    return 0;
}

int argus_timeline_append(argus_timeline_writer_t *w, enum argus_dataset which, const void *rows,
                          size_t n, argus_error_t *err)
{
    if ((unsigned)which >= ARGUS_DS_COUNT || which <= ARGUS_DS_STRINGS_INDEX)
        return argus_error(err, "%s: rows cannot be appended to dataset %d", w->path, (int)which);
    if (tl_library(err) != 0)
        return -1;
    if (tl_writer_append(w, which, rows, n, err) != 0)
        return -1;
    if (w->tap)
        w->tap(w->tap_arg, which, rows, n);
    return 0;
}

void argus_timeline_set_tap(argus_timeline_writer_t *w, argus_timeline_tap_f tap, void *arg)
{
    w->tap = tap;
    w->tap_arg = arg;
}

uint64_t argus_timeline_durable(const argus_timeline_writer_t *w, enum argus_dataset dataset)
{
    return w->sets[dataset].durable;
}

void argus_timeline_set_counters(argus_timeline_writer_t *w,
                                 const struct argus_timeline_counters *counters)
{
    if (memcmp(&w->counters, counters, sizeof(*counters)) != 0)
        w->counters_dirty = 1;
    w->counters = *counters;
}

void argus_timeline_set_info(argus_timeline_writer_t *w, const struct argus_timeline_info *info)
{
    struct argus_timeline_info next = *info;

    memcpy(next.job, w->info.job, sizeof(next.job));
    memcpy(next.step, w->info.step, sizeof(next.step));
    next.rank = w->info.rank;
    if (memcmp(&w->info, &next, sizeof(next)) != 0)
        w->info_dirty = 1;
    w->info = next;
}

static int write_attributes(argus_timeline_writer_t *w, argus_error_t *err)
{
    if (w->info_dirty &&
        tl_attributes_write(w->file, tl_info_members, tl_n_info_members, &w->info) != 0)
        return tl_error(err, w->open_path, "cannot write attributes");
    if (w->counters_dirty &&
        tl_attributes_write(w->file, tl_counter_members, tl_n_counter_members, &w->counters) != 0)
        return tl_error(err, w->open_path, "cannot write attributes");
    if (w->info_dirty || w->counters_dirty)
        w->unflushed = 1;
    w->info_dirty = w->counters_dirty = 0;
    return 0;
}

int tl_writer_write_all(argus_timeline_writer_t *w, argus_error_t *err)
{
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        if (w->sets[d].dirty && write_chunk(w, d, err) != 0)
            return -1;
    }
    return write_attributes(w, err);
}

int argus_timeline_flush(argus_timeline_writer_t *w, argus_error_t *err)
{
    int64_t now = monotonic_s();
    int64_t every = w->wasted > w->useful + WASTE_FREE ? PARTIAL_WASTEFUL_S : PARTIAL_S;
    hsize_t size = 0;

    if (tl_library(err) != 0)
        return -1;
    if (now - w->partial_at >= every) {
        if (tl_writer_write_all(w, err) != 0)
            return -1;
        w->partial_at = now;
    }
    if (w->unflushed) {
        if (H5Fflush(w->file, H5F_SCOPE_LOCAL) < 0)
            return tl_error(err, w->open_path, "cannot flush");
        tl_superblock_unmark(w->file);
        w->unflushed = 0;
        for (int d = 0; d < ARGUS_DS_COUNT; d++) {
            struct tl_set *set = &w->sets[d];
            uint64_t rows = set->dirty ? set->rows - set->n : set->rows;

            set->durable = rows > set->durable ? rows : set->durable;
        }
        if (H5Fget_filesize(w->file, &size) >= 0)
            w->bytes = size;
    }
    return 0;
}

uint64_t argus_timeline_bytes(const argus_timeline_writer_t *w)
{
    return w->bytes;
}

static void terminate(struct argus_timeline_info *info)
{
    for (size_t i = 0; i < tl_n_info_members; i++) {
        const struct tl_member *m = &tl_info_members[i];

        if (m->type == TL_STR)
            ((char *)info)[m->offset + m->count - 1] = '\0';
    }
}

int tl_writer_create_attributes(hid_t file, const argus_timeline_writer_t *w,
                                const struct tl_state *state)
{
    return tl_attributes_create(file, tl_state_members, tl_n_state_members, state) != 0 ||
                   tl_attributes_create(file, tl_info_members, tl_n_info_members, &w->info) != 0 ||
                   tl_attributes_create(file, tl_counter_members, tl_n_counter_members,
                                        &w->counters) != 0
               ? -1
               : 0;
}

/* The datasets are closed while SWMR starts: what is open then is reopened by
 * HDF5 behind our back. */
static int start_file(argus_timeline_writer_t *w, argus_error_t *err)
{
    struct tl_state state = {.format = ARGUS_TIMELINE_FORMAT, .version = ARGUS_TIMELINE_VERSION};

    w->file = tl_create_file(w->temp_path, 1);
    if (w->file < 0)
        return tl_error(err, w->temp_path, "cannot create");
    if (tl_writer_create_attributes(w->file, w, &state) != 0)
        return tl_error(err, w->temp_path, "cannot write attributes");
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        hid_t dset = tl_create_dataset(w->file, d, 0, tl_tables[d].live_rows);

        if (dset < 0)
            return tl_error(err, w->temp_path, "cannot create datasets");
        H5Dclose(dset);
    }
    if (H5Fstart_swmr_write(w->file) < 0)
        return tl_error(err, w->temp_path, "cannot start SWMR");
    tl_superblock_unmark(w->file);
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        w->sets[d].dset = H5Dopen2(w->file, tl_tables[d].name, H5P_DEFAULT);
        if (w->sets[d].dset < 0)
            return tl_error(err, w->temp_path, "cannot open datasets");
    }
    /* Only now: a ".open" file can always be read. */
    if (rename(w->temp_path, w->open_path) != 0)
        return argus_error(err, "%s: cannot rename: %s", w->temp_path, strerror(errno));
    return 0;
}

void tl_writer_close(argus_timeline_writer_t *w)
{
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        if (w->sets[d].dset >= 0)
            H5Dclose(w->sets[d].dset);
        w->sets[d].dset = -1;
    }
    if (w->file >= 0)
        H5Fclose(w->file);
    w->file = -1;
}

void tl_writer_free(argus_timeline_writer_t *w)
{
    if (!w)
        return;
    tl_writer_close(w);
    for (int d = 0; d < ARGUS_DS_COUNT; d++)
        free(w->sets[d].buffer);
    free(w->names.slots);
    free(w->scratch);
    free(w->packed);
    free(w->path);
    free(w->open_path);
    free(w->temp_path);
    free(w);
}

static char *joined(const char *a, const char *b)
{
    char *s = malloc(strlen(a) + strlen(b) + 1);

    if (s)
        strcat(strcpy(s, a), b);
    return s;
}

argus_timeline_writer_t *argus_timeline_create(const char *path,
                                               const struct argus_timeline_info *info, int replace,
                                               argus_error_t *err)
{
    argus_timeline_writer_t *w;
    size_t largest = 0;

    if (tl_library(err) != 0)
        return NULL;
    w = calloc(1, sizeof(*w));
    if (!w)
        goto memory;
    w->file = -1;
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        size_t bytes = (size_t)tl_tables[d].live_rows * tl_tables[d].row_bytes;

        w->sets[d].dset = -1;
        if (bytes > largest)
            largest = bytes;
    }
    w->scratch = malloc(largest);
    w->packed = malloc(tl_pack_bound(largest));
    w->path = joined(path, "");
    w->open_path = joined(path, ".open");
    w->temp_path = joined(path, ".tmp");
    if (!w->scratch || !w->packed || !w->path || !w->open_path || !w->temp_path)
        goto memory;
    w->info = *info;
    terminate(&w->info);
    if (!replace && (access(w->path, F_OK) == 0 || access(w->open_path, F_OK) == 0)) {
        argus_error(err, "%s: exists already", access(w->path, F_OK) == 0 ? w->path : w->open_path);
        goto error;
    }
    if (start_file(w, err) != 0) {
        unlink(w->temp_path);
        goto error;
    }
    return w;
memory:
    argus_error(err, "%s: out of memory", path);
error:
    tl_writer_free(w);
    return NULL;
}

void argus_timeline_abandon(argus_timeline_writer_t *w)
{
    if (w && tl_library(NULL) == 0 && tl_writer_write_all(w, NULL) == 0)
        H5Fflush(w->file, H5F_SCOPE_LOCAL); /* closing takes the mark off */
    tl_writer_free(w);
}
