/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a timeline: a plain complete file under its final name.
 *
 * Small files and files with much waste are copied into a compact one (whole
 * chunks go over as they are); large ones are closed where they are.  Either
 * way the final name appears by one rename after the data is on disk.
 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/timeline/writer.h"

#define COMPACT_ALWAYS (UINT64_C(8) << 20) /* below this size copying costs nothing */

/* A chunk of the file that is being sealed, as it is there; its size in *n. */
static int read_packed(argus_timeline_writer_t *w, enum argus_dataset which, hsize_t offset,
                       uint32_t *mask, size_t *n)
{
    const struct tl_table *t = &tl_tables[which];
    hid_t from = w->sets[which].dset;
    hsize_t bytes;

    if (H5Dget_chunk_storage_size(from, &offset, &bytes) < 0 ||
        bytes > tl_pack_bound((size_t)t->live_rows * t->row_bytes) ||
        H5Dread_chunk(from, H5P_DEFAULT, &offset, mask, w->packed) < 0)
        return -1;
    *n = bytes;
    return 0;
}

/* Collects rows into the larger chunks of a sealed file. */
struct sink {
    argus_timeline_writer_t *w;
    const struct tl_table *t;
    hid_t to;
    uint32_t chunk_rows;
    unsigned char *rows;
    size_t n;       /* rows waiting */
    hsize_t offset; /* of the first of them */
};

static int sink_write(struct sink *s)
{
    size_t bytes = (size_t)s->chunk_rows * s->t->row_bytes, used = s->n * s->t->row_bytes;

    if (!s->n)
        return 0;
    memset(s->rows + used, 0, bytes - used);
    bytes = tl_pack(s->rows, bytes, s->t->row_bytes, 0, s->w->scratch, s->w->packed);
    if (bytes == 0 || H5Dwrite_chunk(s->to, H5P_DEFAULT, 0, &s->offset, bytes, s->w->packed) < 0)
        return -1;
    s->offset += s->n;
    s->n = 0;
    return 0;
}

static int sink_put(struct sink *s, const unsigned char *rows, size_t n)
{
    while (n) {
        size_t take = s->chunk_rows - s->n;

        if (take > n)
            take = n;
        memcpy(s->rows + s->n * s->t->row_bytes, rows, take * s->t->row_bytes);
        s->n += take;
        rows += take * s->t->row_bytes;
        n -= take;
        if (s->n == s->chunk_rows && sink_write(s) != 0)
            return -1;
    }
    return 0;
}

static int recode(argus_timeline_writer_t *w, enum argus_dataset which, struct sink *s)
{
    const struct tl_set *set = &w->sets[which];
    size_t bytes = (size_t)s->t->live_rows * s->t->row_bytes, n;
    unsigned char *chunk = malloc(bytes);
    int rc = chunk ? 0 : -1;
    uint32_t mask;

    for (hsize_t offset = 0; rc == 0 && offset + set->n < set->rows; offset += s->t->live_rows) {
        if (read_packed(w, which, offset, &mask, &n) != 0 ||
            tl_unpack(w->packed, n, 0, 1, mask, s->t->row_bytes, w->scratch, chunk, bytes) != 0 ||
            sink_put(s, chunk, s->t->live_rows) != 0)
            rc = -1;
    }
    free(chunk);
    return rc;
}

/* Whole chunks go over as they are where their size stays. */
static int copy_packed(argus_timeline_writer_t *w, enum argus_dataset which, struct sink *s)
{
    const struct tl_set *set = &w->sets[which];
    uint32_t mask;
    size_t n;

    for (; s->offset + set->n < set->rows; s->offset += s->t->live_rows) {
        if (read_packed(w, which, s->offset, &mask, &n) != 0 ||
            H5Dwrite_chunk(s->to, H5P_DEFAULT, mask, &s->offset, n, w->packed) < 0)
            return -1;
    }
    return 0;
}

static int copy_set(argus_timeline_writer_t *w, enum argus_dataset which, hid_t file)
{
    struct tl_set *set = &w->sets[which];
    struct sink s = {.w = w, .t = &tl_tables[which], .chunk_rows = tl_tables[which].chunk_rows};
    int rc = -1;

    if (set->rows && set->rows < s.chunk_rows)
        s.chunk_rows = (uint32_t)set->rows;
    s.to = tl_create_dataset(file, which, set->rows, s.chunk_rows);
    s.rows = malloc((size_t)s.chunk_rows * s.t->row_bytes);
    if (s.to < 0 || !s.rows)
        goto out;
    if (s.chunk_rows == s.t->live_rows ? copy_packed(w, which, &s) != 0 : recode(w, which, &s) != 0)
        goto out;
    if (sink_put(&s, set->buffer, set->n) != 0 || sink_write(&s) != 0)
        goto out;
    rc = 0;
out:
    free(s.rows);
    if (s.to >= 0 && H5Dclose(s.to) < 0)
        rc = -1;
    return rc;
}

static int compact(argus_timeline_writer_t *w, const struct tl_state *state, argus_error_t *err)
{
    hid_t file = tl_create_file(w->temp_path, 0);

    if (file < 0) {
        tl_error(err, w->temp_path, "cannot create");
        goto error_closed; /* a full disk has room for its name */
    }
    if (tl_writer_create_attributes(file, w, state) != 0) {
        tl_error(err, w->temp_path, "cannot write attributes");
        goto error;
    }
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        if (copy_set(w, d, file) != 0) {
            char what[64];

            snprintf(what, sizeof(what), "cannot write dataset \"%s\"", tl_tables[d].name);
            tl_error(err, w->temp_path, what);
            goto error;
        }
    }
    if (H5Fclose(file) < 0) {
        tl_error(err, w->temp_path, "cannot close");
        goto error_closed;
    }
    return 0;
error:
    H5Fclose(file);
error_closed:
    unlink(w->temp_path);
    return -1;
}

static int seal_in_place(argus_timeline_writer_t *w, const struct tl_state *state,
                         argus_error_t *err)
{
    if (tl_writer_write_all(w, err) != 0)
        return -1;
    if (tl_attributes_write(w->file, tl_state_members, tl_n_state_members, state) != 0)
        return tl_error(err, w->open_path, "cannot write attributes");
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        hid_t dset = w->sets[d].dset;

        w->sets[d].dset = -1;
        if (H5Dclose(dset) < 0)
            return tl_error(err, w->open_path, "cannot close");
    }
    if (H5Fflush(w->file, H5F_SCOPE_LOCAL) < 0)
        return tl_error(err, w->open_path, "cannot flush");
    if (H5Fclose(w->file) < 0)
        return tl_error(err, w->open_path, "cannot close");
    w->file = -1;
    return 0;
}

static int sync_path(const char *path, int flags, argus_error_t *err)
{
    int fd = open(path, flags | O_CLOEXEC);

    if (fd < 0)
        return argus_error(err, "%s: cannot open: %s", path, strerror(errno));
    /* Some file systems cannot sync a directory; EINVAL says so. */
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS) {
        argus_error(err, "%s: cannot sync: %s", path, strerror(errno));
        close(fd);
        return -1;
    }
    close(fd);
    return 0;
}

static int sync_directory_of(const char *path, argus_error_t *err)
{
    char *dir = strdup(path), *slash;
    int rc;

    if (!dir)
        return argus_error(err, "%s: out of memory", path);
    slash = strrchr(dir, '/');
    if (slash == dir)
        slash++;
    if (slash)
        *slash = '\0';
    rc = sync_path(slash ? dir : ".", O_RDONLY | O_DIRECTORY, err);
    free(dir);
    return rc;
}

static int move_into_place(const char *from, const char *to, argus_error_t *err)
{
    if (sync_path(from, O_RDWR, err) != 0)
        return -1;
    if (rename(from, to) != 0)
        return argus_error(err, "%s: cannot rename to %s: %s", from, to, strerror(errno));
    return 0;
}

int argus_timeline_seal(argus_timeline_writer_t *w, const char *end, argus_error_t *err)
{
    struct tl_state state = {
        .format = ARGUS_TIMELINE_FORMAT, .version = ARGUS_TIMELINE_VERSION, .sealed = 1};
    int compacted = 0, rc = -1;

    if (tl_library(err) != 0)
        goto out;
    snprintf(state.end, sizeof(state.end), "%s", end);
    /* Where somebody removed the open file only a copy brings back what it holds. */
    if (w->useful < COMPACT_ALWAYS || w->wasted * 8 > w->useful || access(w->open_path, F_OK) != 0)
        compacted = compact(w, &state, err) == 0;
    /* No room for a second copy: the first one still is a good file. */
    if (!compacted && seal_in_place(w, &state, err) != 0)
        goto out;
    if (compacted)
        tl_writer_close(w);
    rc = move_into_place(compacted ? w->temp_path : w->open_path, w->path, err);
    if (rc == 0 && compacted && unlink(w->open_path) != 0 && errno != ENOENT)
        rc = argus_error(err, "%s: cannot remove: %s", w->open_path, strerror(errno));
    if (rc == 0)
        rc = sync_directory_of(w->path, err);
out:
    tl_writer_free(w);
    return rc;
}
