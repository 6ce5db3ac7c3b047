/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline reader: datasets, rows, strings. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/timeline/reader.h"

/* deflate's best is 1032:1; a dataset that claims more rows than the file could hold is damaged. */
#define DEFLATE_RATIO_MAX 1040
#define STRING_BYTES_MAX (UINT64_C(256) << 20)
#define STRINGS_MAX (UINT64_C(16) << 20)
#define NARROW_MAX (1 << 30)

static int bad(const argus_timeline_t *t, enum argus_dataset which, argus_error_t *err,
               const char *why)
{
    return argus_error(err, "%s: dataset \"%s\" %s", t->path, tl_tables[which].name, why);
}

void tl_source_close(struct tl_source *set)
{
    if (set->type >= 0)
        H5Tclose(set->type);
    if (set->dset >= 0)
        H5Dclose(set->dset);
    set->type = set->dset = -1;
}

/* Members may stand elsewhere and others may stand between them; each of ours
 * must be there in its own type. */
static int has_members(hid_t type, enum argus_dataset which)
{
    hid_t ours = tl_row_type(which);

    if (H5Tget_class(type) != H5T_COMPOUND)
        return 0;
    for (unsigned i = 0; i < tl_tables[which].n_members; i++) {
        int at = H5Tget_member_index(type, tl_tables[which].members[i].name);
        hid_t a = at < 0 ? -1 : H5Tget_member_type(type, (unsigned)at);
        hid_t b = H5Tget_member_type(ours, i);
        int same = a >= 0 && b >= 0 && H5Tequal(a, b) > 0;

        if (a >= 0)
            H5Tclose(a);
        if (b >= 0)
            H5Tclose(b);
        if (!same)
            return 0;
    }
    return 1;
}

static int check_type(argus_timeline_t *t, enum argus_dataset which, argus_error_t *err)
{
    struct tl_source *set = &t->sets[which];

    set->type = H5Dget_type(set->dset);
    if (set->type < 0)
        return bad(t, which, err, "has no readable type");
    set->row_bytes = tl_tables[which].row_bytes;
    if (H5Tequal(set->type, tl_row_type(which)) > 0) {
        H5Tclose(set->type);
        set->type = -1;
        return 0;
    }
    if (!tl_tables[which].members || !has_members(set->type, which))
        return bad(t, which, err, "has an unexpected row type");
    set->row_bytes = H5Tget_size(set->type);
    if (set->row_bytes == 0 || set->row_bytes > 65536)
        return bad(t, which, err, "has an unexpected row size");
    return 0;
}

static int check_filters(struct tl_source *set, hid_t dcpl)
{
    int n = H5Pget_nfilters(dcpl);

    set->shuffle = set->deflate = -1;
    if (n < 0 || n > 2)
        return -1;
    for (int i = 0; i < n; i++) {
        unsigned flags, config, values[8];
        size_t n_values = 8;
        H5Z_filter_t id =
            H5Pget_filter2(dcpl, (unsigned)i, &flags, &n_values, values, 0, NULL, &config);

        if (id == H5Z_FILTER_SHUFFLE && set->shuffle < 0 && set->deflate < 0)
            set->shuffle = i;
        else if (id == H5Z_FILTER_DEFLATE && set->deflate < 0)
            set->deflate = i;
        else
            return -1;
    }
    return 0;
}

static int check_layout(argus_timeline_t *t, enum argus_dataset which, hid_t dcpl,
                        argus_error_t *err)
{
    struct tl_source *set = &t->sets[which];
    hsize_t chunk;

    if (H5Pget_layout(dcpl) != H5D_CHUNKED || H5Pget_chunk(dcpl, 1, &chunk) != 1)
        return bad(t, which, err, "is not chunked");
    if (chunk == 0 || chunk > TL_CHUNK_BYTES_MAX / set->row_bytes ||
        chunk > TL_CHUNK_BYTES_MAX / tl_tables[which].row_bytes)
        return bad(t, which, err, "has chunks of an unexpected size");
    set->chunk_rows = (uint32_t)chunk;
    if (check_filters(set, dcpl) != 0)
        return bad(t, which, err, "has filters other than shuffle and deflate");
    return 0;
}

static int check_rows(argus_timeline_t *t, enum argus_dataset which, argus_error_t *err)
{
    struct tl_source *set = &t->sets[which];
    hid_t space = H5Dget_space(set->dset);
    uint64_t could;
    hsize_t rows;
    int ok;

    if (space < 0)
        return bad(t, which, err, "has no readable extent");
    ok = H5Sget_simple_extent_type(space) == H5S_SIMPLE && H5Sget_simple_extent_ndims(space) == 1 &&
         H5Sget_simple_extent_dims(space, &rows, NULL) == 1;
    H5Sclose(space);
    if (!ok)
        return bad(t, which, err, "is not one-dimensional");
    could = (uint64_t)t->stat.st_size * DEFLATE_RATIO_MAX / set->row_bytes + set->chunk_rows;
    /* A live file grows after it was measured; what counts there is a sane limit. */
    if (rows > TL_ROWS_MAX || (t->state.sealed && rows > could))
        return bad(t, which, err, "claims more rows than the file can hold");
    set->rows = rows;
    return 0;
}

int tl_source_open(argus_timeline_t *t, enum argus_dataset which, argus_error_t *err)
{
    struct tl_source *set = &t->sets[which];
    H5L_info_t link;
    hid_t dcpl;
    int rc;

    if (H5Lget_info(t->file, tl_tables[which].name, &link, H5P_DEFAULT) < 0)
        return bad(t, which, err, "is missing");
    if (link.type != H5L_TYPE_HARD)
        return bad(t, which, err, "is a link to elsewhere");
    set->dset = H5Dopen2(t->file, tl_tables[which].name, H5P_DEFAULT);
    if (set->dset < 0)
        return bad(t, which, err, "cannot be opened");
    if (check_type(t, which, err) != 0)
        return -1;
    dcpl = H5Dget_create_plist(set->dset);
    if (dcpl < 0)
        return bad(t, which, err, "has no readable layout");
    rc = check_layout(t, which, dcpl, err);
    H5Pclose(dcpl);
    return rc != 0 ? -1 : check_rows(t, which, err);
}

static int reserve(char **buffer, size_t *size, size_t need)
{
    char *p;

    if (*size >= need)
        return 0;
    p = realloc(*buffer, need);
    if (!p)
        return -1;
    *buffer = p;
    *size = need;
    return 0;
}

/* The chunk at row `offset`, as it is in the file but unfiltered, into `out`. */
static int load_chunk(argus_timeline_t *t, enum argus_dataset which, hsize_t offset, void *out,
                      argus_error_t *err)
{
    struct tl_source *set = &t->sets[which];
    size_t bytes = set->chunk_rows * set->row_bytes, bound = tl_pack_bound(bytes);
    hsize_t stored = 0;
    uint32_t mask = 0;

    if (reserve(&t->packed, &t->packed_size, bound) != 0 ||
        reserve(&t->scratch, &t->scratch_size, bytes) != 0)
        return argus_error(err, "%s: out of memory", t->path);
    if (H5Dget_chunk_storage_size(set->dset, &offset, &stored) < 0 || stored == 0 ||
        stored > bound || H5Dread_chunk(set->dset, H5P_DEFAULT, &offset, &mask, t->packed) < 0 ||
        tl_unpack(t->packed, stored, set->shuffle, set->deflate, mask, set->row_bytes, t->scratch,
                  out, bytes) != 0)
        return argus_error(err, "%s: dataset \"%s\" is damaged at row %llu", t->path,
                           tl_tables[which].name, (unsigned long long)offset);
    return 0;
}

/* `n` rows from row `skip` of the chunk at `offset`. */
static int read_from_chunk(argus_timeline_t *t, enum argus_dataset which, hsize_t offset,
                           size_t skip, size_t n, void *rows, argus_error_t *err)
{
    struct tl_source *set = &t->sets[which];
    size_t ours = tl_tables[which].row_bytes;
    size_t widest = ours > set->row_bytes ? ours : set->row_bytes;
    char *from;

    if (set->type < 0 && n == set->chunk_rows)
        return load_chunk(t, which, offset, rows, err);
    if (reserve(&t->chunk, &t->chunk_size, set->chunk_rows * widest) != 0)
        return argus_error(err, "%s: out of memory", t->path);
    if (load_chunk(t, which, offset, t->chunk, err) != 0)
        return -1;
    from = t->chunk + skip * set->row_bytes;
    if (set->type >= 0) {
        memmove(t->chunk, from, n * set->row_bytes);
        from = t->chunk;
        if (reserve(&t->scratch, &t->scratch_size, n * widest) != 0)
            return argus_error(err, "%s: out of memory", t->path);
        memset(t->scratch, 0, n * widest); /* where HDF5 puts members together */
        if (H5Tconvert(set->type, tl_row_type(which), n, from, t->scratch, H5P_DEFAULT) < 0)
            return bad(t, which, err, "cannot be converted");
    }
    memcpy(rows, from, n * ours);
    return 0;
}

/* Nothing that was measured comes near; sums and differences of what is taken do fit. */
static int out_of_range(const struct tl_member *m, const char *at)
{
    int64_t wide;
    int32_t narrow;

    if (m->type == TL_I64) {
        memcpy(&wide, at, sizeof(wide));
        return wide < ARGUS_TIME_MIN || wide > ARGUS_TIME_MAX;
    }
    memcpy(&narrow, at, sizeof(narrow));
    return narrow >= NARROW_MAX || narrow <= -NARROW_MAX;
}

/* Times, durations and numbers of steps are as in the file, which may lie. */
static int check_values(argus_timeline_t *t, enum argus_dataset which, size_t first, size_t n,
                        const char *rows, argus_error_t *err)
{
    const struct tl_table *table = &tl_tables[which];

    for (unsigned i = 0; i < table->n_members; i++) {
        const struct tl_member *m = &table->members[i];

        if (m->type != TL_I64 && m->type != TL_I32)
            continue;
        for (size_t row = 0; row < n; row++) {
            if (out_of_range(m, rows + row * table->row_bytes + m->offset))
                return argus_error(err, "%s: dataset \"%s\": \"%s\" of row %zu is out of range",
                                   t->path, table->name, m->name, first + row);
        }
    }
    return 0;
}

int argus_timeline_read(argus_timeline_t *t, enum argus_dataset which, size_t first, size_t n,
                        void *rows, argus_error_t *err)
{
    struct tl_source *set;
    char *to = rows;

    if ((unsigned)which >= ARGUS_DS_COUNT)
        return argus_error(err, "%s: no dataset %d", t->path, (int)which);
    if (tl_library(err) != 0)
        return -1;
    set = &t->sets[which];
    if (first > set->rows || n > set->rows - first)
        return argus_error(err, "%s: dataset \"%s\" has %llu rows, not %llu", t->path,
                           tl_tables[which].name, (unsigned long long)set->rows,
                           (unsigned long long)first + n);
    while (n) {
        size_t skip = first % set->chunk_rows, take = set->chunk_rows - skip;

        if (take > n)
            take = n;
        if (read_from_chunk(t, which, first - skip, skip, take, to, err) != 0 ||
            check_values(t, which, first, take, to, err) != 0)
            return -1;
        to += take * tl_tables[which].row_bytes;
        first += take;
        n -= take;
    }
    return 0;
}

void *argus_timeline_read_all(argus_timeline_t *t, enum argus_dataset which, size_t limit,
                              size_t *n, argus_error_t *err)
{
    size_t rows = argus_timeline_rows(t, which), row_bytes = argus_timeline_row_bytes(which);
    void *all;

    *n = 0;
    if (row_bytes == 0 || (limit && rows > limit) || rows > SIZE_MAX / 2 / row_bytes) {
        argus_error(err, "%s: dataset \"%s\" has %zu rows, more than the limit of %zu", t->path,
                    argus_timeline_dataset_name(which), rows, limit);
        return NULL;
    }
    all = malloc(rows ? rows * row_bytes : 1);
    if (!all) {
        argus_error(err, "%s: dataset \"%s\": out of memory for %zu rows", t->path,
                    argus_timeline_dataset_name(which), rows);
        return NULL;
    }
    if (argus_timeline_read(t, which, 0, rows, all, err) != 0) {
        free(all);
        return NULL;
    }
    *n = rows;
    return all;
}

/* Copies new strings, terminated, into a heap of their own.  In a file that
 * was cut off, an entry may point at bytes that never came: it reads "". */
static int intern(argus_timeline_t *t, const struct argus_string_row *index, size_t n,
                  const char *bytes, uint64_t from, uint64_t n_bytes, argus_error_t *err)
{
    struct tl_heap *heap = malloc(sizeof(*heap) + n_bytes + n + 1);
    char **strings = realloc(t->strings, (t->n_strings + n) * sizeof(*strings));
    uint64_t used = 0;

    if (strings)
        t->strings = strings;
    if (!heap || !strings) {
        free(heap);
        return argus_error(err, "%s: out of memory", t->path);
    }
    heap->next = t->heaps;
    t->heaps = heap;
    for (size_t i = 0; i < n; i++) {
        uint64_t offset = index[i].offset - from, length = index[i].length;
        int inside = index[i].offset >= from && offset <= n_bytes && length <= n_bytes - offset &&
                     length <= n_bytes - (used - i);

        if (!inside && t->state.sealed)
            return argus_error(err, "%s: dataset \"strings_index\" points outside \"strings\"",
                               t->path);
        if (!inside)
            length = offset = 0;
        t->strings[t->n_strings++] = heap->bytes + used;
        memcpy(heap->bytes + used, bytes + offset, length);
        heap->bytes[used + length] = '\0';
        used += length + 1;
    }
    return 0;
}

int tl_strings_load(argus_timeline_t *t, argus_error_t *err)
{
    uint64_t rows = t->sets[ARGUS_DS_STRINGS_INDEX].rows, n_bytes = t->sets[ARGUS_DS_STRINGS].rows;
    size_t n = rows - t->n_strings;
    struct argus_string_row *index = NULL;
    char *bytes = NULL;
    uint64_t from;
    int rc = -1;

    if (n == 0)
        return 0;
    if (rows > STRINGS_MAX || n_bytes > STRING_BYTES_MAX)
        return argus_error(err, "%s: dataset \"strings\" is larger than this argus reads", t->path);
    index = malloc(n * sizeof(*index));
    if (!index)
        return argus_error(err, "%s: out of memory", t->path);
    if (argus_timeline_read(t, ARGUS_DS_STRINGS_INDEX, t->n_strings, n, index, err) != 0)
        goto out;
    from = index[0].offset < n_bytes ? index[0].offset : n_bytes;
    bytes = malloc(n_bytes - from + 1);
    if (!bytes) {
        argus_error(err, "%s: out of memory", t->path);
        goto out;
    }
    if (argus_timeline_read(t, ARGUS_DS_STRINGS, from, n_bytes - from, bytes, err) != 0)
        goto out;
    rc = intern(t, index, n, bytes, from, n_bytes - from, err);
out:
    free(bytes);
    free(index);
    return rc;
}

const char *argus_timeline_string(argus_timeline_t *t, uint32_t id)
{
    return id < t->n_strings ? t->strings[id] : "";
}
