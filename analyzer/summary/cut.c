/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a locked stream into steps.
 *
 * The border of two steps is recognised at the first token of the later one
 * and then placed in the past: after the last optimizer kernel, else at the
 * longest idle interval, between the two tokens that surround it.  Idle time
 * before the first work of a step is thereby the step's own. */
#include <stdlib.h>

#include "analyzer/summary/summary_impl.h"

/* Tokens without a border after which the pattern is given up. */
#define LOST_PERIODS 4u
#define LOST_TOKENS 64u

static int is_optimizer(const argus_summary_t *s, uint32_t class_id)
{
    return s->briefs[class_id].family == ARGUS_FAMILY_OPTIMIZER &&
           s->briefs[class_id].lane == ARGUS_LANE_COMPUTE;
}

/* End of the last optimizer kernel that starts in [from, to); INT64_MIN: none. */
static int64_t optimizer_end(const argus_summary_t *s, int64_t from, int64_t to)
{
    int64_t end = INT64_MIN;

    for (size_t i = argus_events_before(&s->pending, from); i < s->pending.n; i++) {
        const struct argus_pending *ev = &s->pending.ev[i];

        if (ev->start >= to)
            break;
        if (is_optimizer(s, ev->class_id) && ev->end > end)
            end = ev->end;
    }
    return end;
}

/* Start of the longest idle interval in (from_end, to], given that work started at `from`. */
static int64_t longest_gap(const argus_summary_t *s, int64_t from, int64_t from_end, int64_t to,
                           int64_t *length)
{
    int64_t all_end = from_end, at = from_end, idle = 0;

    for (size_t i = argus_events_before(&s->pending, from); i < s->pending.n; i++) {
        const struct argus_pending *ev = &s->pending.ev[i];

        if (ev->start > to)
            break;
        if (s->briefs[ev->class_id].lane >= ARGUS_LANE_COUNT)
            continue;
        if (ev->start - all_end > idle) {
            idle = ev->start - all_end;
            at = all_end;
        }
        if (ev->end > all_end)
            all_end = ev->end;
    }
    if (length)
        *length = idle;
    return at < to ? at : to;
}

/* How many of the newest tokens in pending, before the one that starts at `before`, are the last of
 * the pattern; *first is the first of them. */
static size_t spelled(const argus_summary_t *s, int64_t before, size_t *first)
{
    const struct lock *lock = &s->lock;
    size_t left = lock->period;

    for (size_t i = argus_events_before(&s->pending, before); i > 0 && left; i--) {
        uint32_t id = s->pending.ev[i - 1].class_id;

        if (!argus_is_token(s, lock, id))
            continue;
        if (argus_token_of(s, lock->level, id) != lock->pattern[left - 1])
            break;
        left--;
        *first = i - 1;
    }
    return lock->period - left;
}

/* Last token, first token, and between them an optimizer kernel if the cut follows one. */
static int looks_like_border(argus_summary_t *s, uint32_t token, int64_t start)
{
    const struct lock *lock = &s->lock;

    if (!lock->position || token != lock->pattern[0] ||
        lock->previous != lock->pattern[lock->period - 1])
        return 0;
    argus_events_sort(&s->pending);
    return !lock->optimizer || optimizer_end(s, lock->previous_start, start) != INT64_MIN;
}

static int is_border(argus_summary_t *s, uint32_t token, int64_t start)
{
    struct lock *lock = &s->lock;
    int looks = looks_like_border(s, token, start);
    size_t first;

    /* Where that is seen once a period it is enough, however many tokens the step has. */
    if (lock->unique)
        return looks;
    if (lock->in_sync && lock->position < lock->period) {
        lock->in_sync = token == lock->pattern[lock->position];
        return 0;
    }
    if (lock->in_sync && looks)
        return 1;
    lock->in_sync = 0;
    return looks && spelled(s, start, &first) == lock->period;
}

/* The job's first step has no border before it.  If the tokens before this border are a step's,
 * all of them or all but what carries over from one step to the next (a reduction of the last
 * step's loss), it begins after what is clearly set-up: a pause of half a step, a collective of the
 * set-up; else with the first event. */
static int64_t first_start(const argus_summary_t *s, int64_t border_token)
{
    const struct argus_pending *ev = s->pending.ev;
    size_t first = 0, before, n = spelled(s, border_token, &first);
    int64_t start, gap, pause;

    for (before = first; n && before > 0; before--) {
        if (argus_is_token(s, &s->lock, ev[before - 1].class_id))
            break;
    }
    if (n < s->lock.period && (!before || 4 * n < 3 * s->lock.period))
        return INT64_MIN;
    start = before ? ev[before - 1].end : ev[0].start;
    gap =
        longest_gap(s, before ? ev[before - 1].start : ev[0].start, start, ev[first].start, &pause);
    if (pause > (border_token - ev[first].start) / 2)
        start = gap + pause; /* the pause is the set-up's, too */
    return start;
}

static int first_border(argus_summary_t *s, int64_t border, int64_t token, argus_error_t *err)
{
    int64_t start = first_start(s, token);
    size_t n = argus_events_before(&s->pending, start == INT64_MIN ? border : start);

    if (argus_step_outside(s, n, err) < 0)
        return -1;
    s->lock.started = 1;
    s->boundary = start == INT64_MIN ? border : start;
    return start == INT64_MIN ? 0 : argus_step_close(s, border, 0, err);
}

/* The step before had another number of tokens than the pattern and than the one before it: an
 * evaluation, a restart, a different number of micro-batches. */
static uint32_t irregular(struct lock *lock)
{
    size_t n = lock->position, usual = lock->period, last = lock->last_tokens;

    lock->last_tokens = n;
    if ((2 * n > 3 * usual || 2 * n < usual) && (2 * n > 3 * last || 2 * n < last))
        return ARGUS_STEP_RELEARNT;
    return 0;
}

static int make_cut(argus_summary_t *s, int64_t start, argus_error_t *err)
{
    struct lock *lock = &s->lock;
    int64_t border = INT64_MIN;
    uint32_t flags;

    argus_events_sort(&s->pending);
    if (lock->optimizer)
        border = optimizer_end(s, lock->previous_start, start);
    if (border == INT64_MIN)
        border = longest_gap(s, lock->previous_start, lock->previous_end, start, NULL);
    if (lock->started) {
        flags = irregular(lock);
        if (argus_step_close(s, border, flags, err) < 0)
            return -1;
    } else if (first_border(s, border, start, err) < 0) {
        return -1;
    }
    lock->in_sync = 1;
    lock->position = 0;
    return 0;
}

/* The pattern is lost: what has happened since the last border waits for a new one. */
static void give_up(argus_summary_t *s)
{
    argus_lock_reset(&s->lock);
    s->relearnt = s->n_steps > 0;
    s->next_try = s->pending.n + 64;
}

int argus_cut_event(argus_summary_t *s, const struct argus_pending *ev, argus_error_t *err)
{
    struct lock *lock = &s->lock;
    uint32_t token;

    if (argus_events_append(&s->pending, ev) < 0)
        return argus_error(err, "no memory for %zu events of a step", s->pending.n + 1);
    if (lock->mode != LOCK_TOKENS || !argus_is_token(s, lock, ev->class_id))
        return 0;
    token = argus_token_of(s, lock->level, ev->class_id);
    if (is_border(s, token, ev->start)) {
        if (make_cut(s, ev->start, err) < 0)
            return -1;
    }
    lock->position++;
    lock->previous = token;
    lock->previous_start = ev->start;
    lock->previous_end = ev->end;
    if (lock->started && lock->position > LOST_PERIODS * lock->period + LOST_TOKENS)
        give_up(s);
    return 0;
}

int argus_cut_mark(argus_summary_t *s, const struct argus_mark_row *mark, argus_error_t *err)
{
    struct lock *lock = &s->lock;

    if (lock->mode != LOCK_MARKS || mark->kind != ARGUS_MARK_STEP)
        return 0;
    if (s->boundary != INT64_MIN && mark->start <= s->boundary)
        return 0;
    argus_events_sort(&s->pending);
    if (lock->started) {
        if (argus_step_close(s, mark->start, ARGUS_STEP_MARKED, err) < 0)
            return -1;
    } else {
        if (argus_step_outside(s, argus_events_before(&s->pending, mark->start), err) < 0)
            return -1;
        s->boundary = mark->start;
        lock->started = 1;
    }
    lock->previous_end = mark->end;
    return 0;
}

int argus_cut_finish(argus_summary_t *s, argus_error_t *err)
{
    struct lock *lock = &s->lock;
    int64_t end = s->newest;
    uint32_t flags = 0;

    if (!lock->started || !s->pending.n)
        return argus_step_outside(s, s->pending.n, err);
    argus_events_sort(&s->pending);
    if (lock->mode == LOCK_MARKS) {
        end = lock->previous_end;
        flags = ARGUS_STEP_MARKED;
    } else if ((lock->in_sync || lock->unique) && lock->position == lock->period) {
        if (lock->optimizer)
            end = optimizer_end(s, lock->previous_start, INT64_MAX);
        if (end == INT64_MIN) {
            end = s->newest;
            flags = ARGUS_STEP_PARTIAL;
        }
    } else {
        flags = ARGUS_STEP_PARTIAL;
    }
    /* the loss of the last step, a barrier before the exit: no part of another step */
    if ((flags & ARGUS_STEP_PARTIAL) && end - s->boundary < s->last_duration / 10)
        end = s->boundary;
    if (end <= s->boundary)
        return argus_step_outside(s, s->pending.n, err);
    if (argus_step_close(s, end + (end == s->newest), flags, err) < 0)
        return -1;
    return argus_step_outside(s, s->pending.n, err);
}
