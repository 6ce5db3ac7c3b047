/* SPDX-License-Identifier: Apache-2.0 */
/* The whole of a summary as bytes, and back: what a recorder that died has
 * left behind for the one that follows. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/summary/summary_impl.h"

#define STATE_VERSION 1u
#define MANY (1u << 24)

/* Members that are plain values, in one place for both directions. */
#define PLAIN(x)                                                                                   \
    x(s->pooled) x(s->pooled_classes) x(s->next_try) x(s->newest) x(s->marks) x(s->mark_written)   \
        x(s->n_marks) x(s->lock) x(s->relearnt) x(s->boundary) x(s->breakdown.busy_until)          \
            x(s->n_steps) x(s->window_first) x(s->agreed_offset) x(s->durations) x(s->n_durations) \
                x(s->last_duration) x(s->budget) x(s->late) x(s->events)

static void put_events(struct argus_blob *b, const struct event_list *l)
{
    argus_blob_put_array(b, l->ev, l->n, sizeof(*l->ev));
    argus_blob_put_u64(b, l->sorted);
}

static void put_hist(struct argus_blob *b, const struct argus_hist *h)
{
    argus_blob_put_u64(b, h->used);
    for (uint32_t i = 0; i < h->capacity; i++) {
        if (h->bins[i].bin)
            argus_blob_put(b, &h->bins[i], sizeof(h->bins[i]));
    }
}

void argus_summary_save(const argus_summary_t *s, struct argus_blob *b)
{
    argus_blob_put_u64(b, STATE_VERSION);
#define PUT(member) argus_blob_put(b, &(member), sizeof(member));
    PLAIN(PUT)
#undef PUT
    argus_blob_put_array(b, s->lock.pattern, s->lock.pattern ? s->lock.period : 0,
                         sizeof(uint32_t));
    argus_blob_put_array(b, s->comms, s->n_comms, sizeof(*s->comms));
    argus_blob_put_array(b, s->first_seq, s->n_comms, sizeof(*s->first_seq));
    argus_blob_put_array(b, s->rows, s->n_classes, sizeof(*s->rows));
    argus_blob_put_array(b, s->seen, s->n_classes, 1);
    for (uint32_t c = 0; c < s->n_classes; c++)
        put_hist(b, &s->hists[c]);
    put_events(b, &s->pending);
    argus_blob_put_array(b, s->gaps, s->n_gaps, sizeof(*s->gaps));
    argus_blob_put_array(b, s->stacks, s->n_stacks, sizeof(*s->stacks));
    argus_blob_put_u64(b, s->n_flight);
    for (size_t i = 0; i < s->n_flight; i++) {
        argus_blob_put(b, &s->flight[i].row, sizeof(s->flight[i].row));
        put_events(b, &s->flight[i].events);
    }
}

static void get_events(const argus_summary_t *s, struct argus_blob *b, struct event_list *l)
{
    l->ev = argus_blob_get_array(b, sizeof(*l->ev), MANY, 0, &l->n);
    l->capacity = l->n;
    l->sorted = argus_blob_get_u64(b);
    for (size_t i = 0; i < l->n; i++) {
        if (l->ev[i].class_id >= s->n_classes)
            b->failed = 1;
    }
    if (l->sorted > l->n)
        b->failed = 1;
}

static void get_hist(struct argus_blob *b, struct argus_hist *h)
{
    uint64_t n = argus_blob_get_u64(b);

    for (uint64_t i = 0; i < n && !b->failed; i++) {
        struct argus_hist_bin bin;

        argus_blob_get(b, &bin, sizeof(bin));
        if (!bin.bin || argus_hist_put(h, &bin) < 0)
            b->failed = 1;
    }
}

/* Classes come back through the front door, which fills what hangs on them. */
static void get_classes(argus_summary_t *s, struct argus_blob *b)
{
    size_t n, n_seen;
    struct argus_class_row *rows = argus_blob_get_array(b, sizeof(*rows), MANY, 0, &n);
    uint8_t *seen = argus_blob_get_array(b, 1, MANY, 0, &n_seen);

    for (size_t i = 0; i < n && !b->failed; i++) {
        if (n_seen != n || argus_summary_known_class(s, &rows[i]) != i)
            b->failed = 1;
        else
            s->seen[i] = seen[i];
    }
    for (size_t i = 0; i < n && !b->failed; i++)
        get_hist(b, &s->hists[i]);
    free(rows);
    free(seen);
}

static void check(const argus_summary_t *s, struct argus_blob *b)
{
    for (size_t i = 0; i < sizeof(s->pooled) / sizeof(s->pooled[0]); i++) {
        if (s->pooled[i] > s->n_classes)
            b->failed = 1;
    }
    if (s->lock.mode > LOCK_TOKENS || s->lock.level >= TOKEN_LEVELS ||
        (s->lock.mode == LOCK_TOKENS && !s->lock.pattern) || s->budget.routine_stride < 1)
        b->failed = 1;
}

argus_summary_t *argus_summary_restore(const struct argus_summary_options *options,
                                       argus_timeline_writer_t *w, struct argus_blob *b,
                                       argus_error_t *err)
{
    argus_summary_t *s = argus_summary_create(options, w, err);
    size_t n;

    if (!s)
        return NULL;
    if (argus_blob_get_u64(b) != STATE_VERSION)
        b->failed = 1;
#define GET(member) argus_blob_get(b, &(member), sizeof(member));
    PLAIN(GET)
#undef GET
    s->lock.pattern = argus_blob_get_array(b, sizeof(uint32_t), MANY, 0, &n);
    if (s->lock.mode != LOCK_TOKENS) {
        free(s->lock.pattern);
        s->lock.pattern = NULL;
    } else if (n != s->lock.period || !n) {
        b->failed = 1;
    }
    s->comms = argus_blob_get_array(b, sizeof(*s->comms), MANY, 0, &n);
    s->n_comms = s->cap_comms = (uint32_t)n;
    s->first_seq = argus_blob_get_array(b, sizeof(*s->first_seq), MANY, 0, &n);
    if (n != s->n_comms)
        b->failed = 1;
    get_classes(s, b);
    get_events(s, b, &s->pending);
    s->gaps = argus_blob_get_array(b, sizeof(*s->gaps), ARGUS_GAPS_MAX, ARGUS_GAPS_MAX, &s->n_gaps);
    s->stacks = argus_blob_get_array(b, sizeof(*s->stacks), MANY, 0, &s->n_stacks);
    s->cap_stacks = s->n_stacks;
    s->n_flight = argus_blob_get_u64(b);
    if (s->n_flight > ARGUS_FLIGHT_MAX || b->failed) {
        s->n_flight = 0;
        b->failed = 1;
    }
    for (size_t i = 0; i < s->n_flight; i++) {
        argus_blob_get(b, &s->flight[i].row, sizeof(s->flight[i].row));
        get_events(s, b, &s->flight[i].events);
    }
    check(s, b);
    if (b->failed) {
        argus_error(err, "the state that a recorder left behind is damaged");
        argus_summary_destroy(s);
        return NULL;
    }
    return s;
}
