/* SPDX-License-Identifier: Apache-2.0 */
/* A stream as bytes, and back: to go on after a crash. */
#include <stdlib.h>
#include <string.h>

#include "collector/record/stream_impl.h"

#define PLAIN(x)                                                                                   \
    x(s->counters) x(s->stats) x(s->copy_sizes) x(s->other_sizes) x(s->n_marks) x(s->flush)        \
        x(s->previous_flush) x(s->reorder.newest) x(s->reorder.watermark)

void argus_stream_save(argus_stream_t *s, struct argus_blob *b)
{
    size_t marks = s->n_marks < ARGUS_STREAM_MARKS ? s->n_marks : ARGUS_STREAM_MARKS;

    argus_tail_trim(&s->tail, s->w);
    argus_tail_save(&s->tail, b);
#define PUT(member) argus_blob_put(b, &(member), sizeof(member));
    PLAIN(PUT)
#undef PUT
    argus_names_save(&s->names, b);
    argus_blob_put_array(b, s->comms, s->n_comms, sizeof(*s->comms));
    argus_blob_put_array(b, s->marks, marks, sizeof(*s->marks));
    argus_blob_put_array(b, s->reorder.items, s->reorder.n, sizeof(*s->reorder.items));
    argus_join_save(s->join, b);
    argus_summary_save(s->summary, b);
}

static void restore_plain(argus_stream_t *s, struct argus_ring *ring, struct argus_blob *b)
{
    struct argus_mark_row *marks;
    struct comm *comms;
    size_t n;

#define GET(member) argus_blob_get(b, &(member), sizeof(member));
    PLAIN(GET)
#undef GET
    argus_names_restore(&s->names, ring, b);
    comms = argus_blob_get_array(b, sizeof(*comms), ARGUS_STREAM_COMMS, ARGUS_STREAM_COMMS, &n);
    s->comms = comms;
    s->n_comms = n;
    marks = argus_blob_get_array(b, sizeof(*marks), ARGUS_STREAM_MARKS, 0, &n);
    if (marks)
        memcpy(s->marks, marks, n * sizeof(*marks));
    free(marks);
    s->reorder.items =
        argus_blob_get_array(b, sizeof(*s->reorder.items), SIZE_MAX, 0, &s->reorder.n);
    s->reorder.capacity = s->reorder.n;
    argus_join_restore(s->join, b);
}

argus_stream_t *argus_stream_restore(const struct argus_stream_options *o, const char *path,
                                     const char *old, const struct argus_ring_header *h,
                                     struct argus_ring *ring, struct argus_blob *b,
                                     argus_error_t *err)
{
    argus_timeline_t *t = argus_timeline_open(old, err);
    argus_stream_t *s = NULL;

    if (!t)
        return NULL;
    s = argus_stream_begin(o, path, h, 1, err);
    if (!s)
        goto error;
    if (argus_tail_restore(&s->tail, s->w, t, b, err) < 0)
        goto error;
    restore_plain(s, ring, b);
    s->summary = argus_summary_restore(&o->summary, s->w, b, err);
    if (!s->summary)
        goto error;
    argus_timeline_close(t);
    argus_stream_header(s, h, 0);
    return s;
error:
    argus_timeline_close(t);
    argus_stream_abandon(s);
    return NULL;
}
