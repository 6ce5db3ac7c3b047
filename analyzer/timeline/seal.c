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

static int copy_chunks(argus_timeline_writer_t *w, enum argus_dataset which, hid_t to)
{
    const struct tl_table *t = &tl_tables[which];
    const struct tl_set *set = &w->sets[which];
    hsize_t chunk_bytes, offset;
    uint32_t mask;

    for (offset = 0; offset + set->n < set->rows; offset += t->chunk_rows) {
        if (H5Dget_chunk_storage_size(set->dset, &offset, &chunk_bytes) < 0 ||
            chunk_bytes > tl_pack_bound((size_t)t->chunk_rows * t->row_bytes) ||
            H5Dread_chunk(set->dset, H5P_DEFAULT, &offset, &mask, w->packed) < 0 ||
            H5Dwrite_chunk(to, H5P_DEFAULT, mask, &offset, chunk_bytes, w->packed) < 0)
            return -1;
    }
    return 0;
}

static int copy_set(argus_timeline_writer_t *w, enum argus_dataset which, hid_t file)
{
    const struct tl_table *t = &tl_tables[which];
    struct tl_set *set = &w->sets[which];
    uint32_t chunk_rows = t->chunk_rows;
    hsize_t offset = set->rows - set->n;
    uint32_t mask;
    hid_t to;
    int rc = -1;

    if (set->rows && set->rows < chunk_rows)
        chunk_rows = (uint32_t)set->rows;
    to = tl_create_dataset(file, which, set->rows, chunk_rows);
    if (to < 0)
        return -1;
    if (copy_chunks(w, which, to) != 0)
        goto out;
    if (set->n) {
        size_t bytes = (size_t)chunk_rows * t->row_bytes;

        memset(set->buffer + set->n * t->row_bytes, 0, bytes - set->n * t->row_bytes);
        bytes = tl_pack(set->buffer, bytes, t->row_bytes, w->scratch, w->packed, &mask);
        if (H5Dwrite_chunk(to, H5P_DEFAULT, mask, &offset, bytes, w->packed) < 0)
            goto out;
    }
    rc = 0;
out:
    return H5Dclose(to) < 0 ? -1 : rc;
}

static int compact(argus_timeline_writer_t *w, const struct tl_state *state, argus_error_t *err)
{
    hid_t file = tl_create_file(w->temp_path);

    if (file < 0)
        return tl_error(err, w->temp_path, "cannot create");
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
    if (w->useful < COMPACT_ALWAYS || w->wasted * 8 > w->useful)
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
