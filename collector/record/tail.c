/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/record/tail.h"

#include <stdlib.h>
#include <string.h>

#define COPY_ROWS 4096u

void argus_tail_tap(void *arg, enum argus_dataset dataset, const void *rows, size_t n)
{
    struct argus_tail *t = arg;

    if (dataset == ARGUS_DS_STRINGS) {
        argus_blob_put_u64(&t->rows[dataset], n);
        argus_blob_put(&t->rows[dataset], rows, n);
        t->strings++;
        t->string_bytes += n;
        return;
    }
    argus_blob_put(&t->rows[dataset], rows, n * argus_timeline_row_bytes(dataset));
}

/* A kept window leaves much more room behind than the rows between two of them need. */
#define CAPACITY_KEEP (64u << 10)

static void drop(struct argus_blob *b, size_t bytes)
{
    unsigned char *less;

    /* A blob that failed for want of memory holds less than was put in. */
    if (bytes > b->n)
        bytes = b->n;
    if (bytes == 0)
        return;
    b->n -= bytes;
    memmove(b->data, b->data + bytes, b->n);
    if (b->capacity <= CAPACITY_KEEP || b->n * 4 > b->capacity)
        return;
    less = realloc(b->data, b->n + CAPACITY_KEEP / 2);
    if (less) {
        b->data = less;
        b->capacity = b->n + CAPACITY_KEEP / 2;
    }
}

void argus_tail_trim(struct argus_tail *t, const argus_timeline_writer_t *w)
{
    for (int d = ARGUS_DS_COMMS; d < ARGUS_DS_COUNT; d++) {
        uint64_t durable = argus_timeline_durable(w, (enum argus_dataset)d);

        if (durable <= t->base[d])
            continue;
        drop(&t->rows[d], (durable - t->base[d]) * argus_timeline_row_bytes((enum argus_dataset)d));
        t->base[d] = durable;
    }
    if (argus_timeline_durable(w, ARGUS_DS_STRINGS_INDEX) == t->strings &&
        argus_timeline_durable(w, ARGUS_DS_STRINGS) == t->string_bytes) {
        drop(&t->rows[ARGUS_DS_STRINGS], t->rows[ARGUS_DS_STRINGS].n);
        t->base[ARGUS_DS_STRINGS] = t->strings;
    }
}

void argus_tail_save(const struct argus_tail *t, struct argus_blob *b)
{
    argus_blob_put(b, t->base, sizeof(t->base));
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        argus_blob_put_array(b, t->rows[d].data, t->rows[d].n, 1);
        if (t->rows[d].failed)
            b->failed = 1;
    }
}

static int copy_strings(argus_timeline_writer_t *w, argus_timeline_t *old, uint64_t n,
                        argus_error_t *err)
{
    if (n > argus_timeline_rows(old, ARGUS_DS_STRINGS_INDEX))
        return argus_error(err, "%s: lacks strings that were written", argus_timeline_path(old));
    for (uint64_t i = 0; i < n; i++) {
        const char *s = argus_timeline_string(old, (uint32_t)i);

        if (argus_timeline_add_string(w, s, strlen(s)) != i)
            return argus_error(err, "%s: string %llu cannot be taken over",
                               argus_timeline_path(old), (unsigned long long)i);
    }
    return 0;
}

static int add_strings(argus_timeline_writer_t *w, const unsigned char *data, size_t n)
{
    struct argus_blob b = {.data = (unsigned char *)data, .n = n};

    while (b.at < b.n) {
        uint64_t length = argus_blob_get_u64(&b);

        if (b.failed || length > b.n - b.at ||
            argus_timeline_add_string(w, (const char *)data + b.at, length) == ARGUS_NONE)
            return -1;
        b.at += length;
    }
    return 0;
}

static int copy_rows(argus_timeline_writer_t *w, argus_timeline_t *old, enum argus_dataset d,
                     uint64_t n, argus_error_t *err)
{
    size_t bytes = argus_timeline_row_bytes(d);
    void *rows;
    int rc = -1;

    if (n > argus_timeline_rows(old, d))
        return argus_error(err, "%s: lacks rows of \"%s\" that were written",
                           argus_timeline_path(old), argus_timeline_dataset_name(d));
    rows = malloc(COPY_ROWS * bytes);
    if (!rows)
        return argus_error(err, "%s: no memory", argus_timeline_path(old));
    for (uint64_t at = 0; at < n;) {
        size_t take = n - at < COPY_ROWS ? (size_t)(n - at) : COPY_ROWS;

        if (argus_timeline_read(old, d, at, take, rows, err) < 0 ||
            argus_timeline_append(w, d, rows, take, err) < 0)
            goto out;
        at += take;
    }
    rc = 0;
out:
    free(rows);
    return rc;
}

int argus_tail_restore(struct argus_tail *t, argus_timeline_writer_t *w, argus_timeline_t *old,
                       struct argus_blob *b, argus_error_t *err)
{
    uint64_t base[ARGUS_DS_COUNT];

    argus_blob_get(b, base, sizeof(base));
    for (int d = 0; d < ARGUS_DS_COUNT; d++) {
        enum argus_dataset set = (enum argus_dataset)d;
        size_t n;
        unsigned char *data = argus_blob_get_array(b, 1, SIZE_MAX, 0, &n);
        int rc = 0;

        if (!data)
            return argus_error(err, "the state that a recorder left behind is damaged");
        if (set == ARGUS_DS_STRINGS) {
            rc = copy_strings(w, old, base[d], err);
            if (rc == 0 && add_strings(w, data, n) < 0)
                rc = argus_error(err, "%s: its strings cannot be taken over",
                                 argus_timeline_path(old));
        } else if (set > ARGUS_DS_STRINGS_INDEX) {
            rc = copy_rows(w, old, set, base[d], err);
            if (rc == 0 && n)
                rc = argus_timeline_append(w, set, data, n / argus_timeline_row_bytes(set), err);
        }
        free(data);
        if (rc < 0)
            return -1;
        /* what is in whole chunks by now need not be held as well */
        if (argus_timeline_flush(w, err) < 0)
            return -1;
        argus_tail_trim(t, w);
    }
    return 0;
}

void argus_tail_free(struct argus_tail *t)
{
    for (int d = 0; d < ARGUS_DS_COUNT; d++)
        argus_blob_free(&t->rows[d]);
}
