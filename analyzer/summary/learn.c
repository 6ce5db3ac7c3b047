/* SPDX-License-Identifier: Apache-2.0 */
/* Learning how to cut steps: marks that repeat, else the smallest period of
 * one communicator's collectives, else of one stream's kernels.
 *
 * One communicator at a time because only within it (or within a stream) the
 * order of work is the program's; between streams it is a matter of timing. */
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/summary/period.h"
#include "analyzer/summary/summary_impl.h"

/* Without an optimizer kernel in sight a micro-batch cannot be told from a step: see more first. */
#define PATIENCE_NS 20000000000LL
#define PATIENCE_EVENTS (ARGUS_PENDING_MAX / 2)
#define SHORT_PERIOD 3u  /* tokens: below, chance repeats more often ... */
#define SHORT_REPEATS 8u /* ... so that it must repeat this often */
#define COVERED_SHARE 0.5
#define MARKS_MIN 5u
#define MARKS_COVER 0.9
#define MARKS_EQUAL 0.8

struct stream_tokens { /* the tokens of one communicator or stream */
    uint32_t *token;
    uint8_t *optimizer; /* an optimizer kernel starts between this and the next token */
    uint32_t *event;    /* index in pending */
    size_t n;
};

struct candidate {
    struct argus_period period;
    uint32_t key;  /* communicator or stream */
    uint32_t size; /* of the communicator */
    uint64_t hash;
    int64_t span; /* ns of one period */
};

uint32_t argus_token_of(const argus_summary_t *s, enum token_level level, uint32_t class_id)
{
    return level == TOKEN_CLASS ? class_id : s->tokens[level][class_id];
}

static uint32_t key_of(const argus_summary_t *s, enum token_level level, uint32_t class_id)
{
    return level == TOKEN_CLASS ? s->rows[class_id].stream : s->briefs[class_id].comm;
}

int argus_is_token(const argus_summary_t *s, const struct lock *lock, uint32_t class_id)
{
    int lane = lock->level == TOKEN_CLASS ? ARGUS_LANE_COMPUTE : ARGUS_LANE_COMM;

    return s->briefs[class_id].lane == lane && key_of(s, lock->level, class_id) == lock->comm;
}

void argus_lock_reset(struct lock *lock)
{
    free(lock->pattern);
    memset(lock, 0, sizeof(*lock));
    lock->comm = ARGUS_NONE;
    lock->anchor_comm = ARGUS_NONE;
}

static void stream_tokens_free(struct stream_tokens *t)
{
    free(t->token);
    free(t->optimizer);
    free(t->event);
    memset(t, 0, sizeof(*t));
}

static int collect(const argus_summary_t *s, enum token_level level, uint32_t key,
                   struct stream_tokens *t)
{
    struct lock probe = {.level = level, .comm = key};
    size_t n = s->pending.n;

    memset(t, 0, sizeof(*t));
    t->token = malloc((n + 1) * sizeof(*t->token));
    t->optimizer = calloc(n + 1, 1);
    t->event = malloc((n + 1) * sizeof(*t->event));
    if (!t->token || !t->optimizer || !t->event) {
        stream_tokens_free(t);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t id = s->pending.ev[i].class_id;

        if (argus_is_token(s, &probe, id)) {
            t->token[t->n] = argus_token_of(s, level, id);
            t->event[t->n++] = (uint32_t)i;
        }
        if (t->n && s->briefs[id].family == ARGUS_FAMILY_OPTIMIZER &&
            s->briefs[id].lane == ARGUS_LANE_COMPUTE)
            t->optimizer[t->n - 1] = 1;
    }
    return 0;
}

/* Keys (communicators or streams) that have tokens, each once. */
static uint32_t *keys_of(const argus_summary_t *s, enum token_level level, size_t *n_keys)
{
    int lane = level == TOKEN_CLASS ? ARGUS_LANE_COMPUTE : ARGUS_LANE_COMM;
    uint32_t *keys = malloc((s->n_classes + 1) * sizeof(*keys));
    uint8_t *used = calloc(s->n_classes + 1, 1);

    *n_keys = 0;
    if (!keys || !used) {
        free(used);
        free(keys);
        return NULL;
    }
    for (size_t i = 0; i < s->pending.n; i++)
        used[s->pending.ev[i].class_id] = 1;
    for (uint32_t c = 0; c < s->n_classes; c++) {
        size_t k = 0;

        if (!used[c] || s->briefs[c].lane != lane)
            continue;
        while (k < *n_keys && keys[k] != key_of(s, level, c))
            k++;
        if (k == *n_keys)
            keys[(*n_keys)++] = key_of(s, level, c);
    }
    free(used);
    return keys;
}

static int by_count(const void *a, const void *b)
{
    const size_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Any stream repeats if all its tokens are the same. */
static int one_token(const uint32_t *token, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (token[i] != token[0])
            return 0;
    }
    return 1;
}

/* Without an optimizer as a witness the periods must be alike in what else happens in them: in most
 * of them about as many events as in the median one. */
static int regular(const struct argus_period *p, const struct stream_tokens *t)
{
    size_t n = p->covered / p->period, last = t->n - 1, alike = 0, median;
    size_t *counts, *sorted;

    n -= n && n * p->period >= t->n;
    counts = malloc(2 * n * sizeof(*counts) + 1);
    if (!counts)
        return 0;
    sorted = counts + n;
    for (size_t i = 0; i < n; i++)
        counts[i] = t->event[last - i * p->period] - t->event[last - (i + 1) * p->period];
    memcpy(sorted, counts, n * sizeof(*counts));
    qsort(sorted, n, sizeof(*sorted), by_count);
    median = n ? sorted[n / 2] : 0;
    for (size_t i = 0; i < n; i++)
        alike += counts[i] * 5 >= median * 4 && counts[i] * 4 <= median * 5;
    free(counts);
    return n && alike * 5 >= n * 4;
}

static int plausible(const struct argus_period *p, enum token_level level,
                     const struct stream_tokens *t, int need_optimizer)
{
    size_t n = t->n;

    if (!p->period)
        return 0;
    if (need_optimizer)
        return 1;
    if (level == TOKEN_SHAPE && one_token(t->token + n - p->period, p->period))
        return 0;
    if (p->period < SHORT_PERIOD && p->covered < SHORT_REPEATS * p->period)
        return 0;
    return (double)p->covered >= COVERED_SHARE * (double)n && regular(p, t);
}

/* With optimizers in it every candidate holds whole steps: the shortest is one.  Without, the
 * longest is the likeliest to be more than a layer.  Near ties: the largest communicator. */
static int better(const struct candidate *a, const struct candidate *b, int need_optimizer)
{
    if (!b->period.period)
        return 1;
    if (llabs(a->span - b->span) > (a->span + b->span) / 20)
        return need_optimizer ? a->span < b->span : a->span > b->span;
    if (a->size != b->size)
        return a->size > b->size;
    return a->hash < b->hash;
}

static int consider(const argus_summary_t *s, enum token_level level, uint32_t key,
                    int need_optimizer, struct candidate *best)
{
    struct candidate c = {.key = key};
    struct stream_tokens t;
    int rc = -1;

    if (collect(s, level, key, &t) < 0)
        return -1;
    /* what follows the newest token is not known yet */
    t.n -= need_optimizer && t.n;
    if (argus_period_find(t.token, need_optimizer ? t.optimizer : NULL, t.n, &c.period) < 0)
        goto out;
    rc = 0;
    if (!plausible(&c.period, level, &t, need_optimizer))
        goto out;
    c.span = s->pending.ev[t.event[t.n - 1]].start -
             s->pending.ev[t.event[t.n - 1 - c.period.period]].start;
    if (level != TOKEN_CLASS && key < s->n_comms) {
        c.size = s->comms[key].size;
        c.hash = s->comms[key].hash;
    }
    if (better(&c, best, need_optimizer))
        *best = c;
out:
    stream_tokens_free(&t);
    return rc;
}

/* Longest idle interval of the GPU between two events of pending. */
static int64_t idle_between(const argus_summary_t *s, size_t from, size_t to)
{
    int64_t all_end = s->pending.ev[from].end, idle = 0;

    for (size_t i = from; i <= to; i++) {
        const struct argus_pending *ev = &s->pending.ev[i];

        if (s->briefs[ev->class_id].lane >= ARGUS_LANE_COUNT)
            continue;
        if (ev->start - all_end > idle)
            idle = ev->start - all_end;
        if (ev->end > all_end)
            all_end = ev->end;
    }
    return idle;
}

/* The token after which a step ends, 0..period-1 counted from the oldest of the last period. */
static size_t cut_position(const argus_summary_t *s, enum token_level level,
                           const struct stream_tokens *t, size_t period, int optimizer)
{
    size_t first = t->n - 3 * period, best = 0;
    int64_t best_value = -1, second = -1, span;
    uint64_t most = 0;

    for (size_t i = 0; i < period; i++) {
        int64_t value = 0;

        for (size_t k = 0; k < 2; k++) {
            size_t a = first + i + k * period, b = a + 1;

            if (optimizer && !t->optimizer[a])
                continue;
            if (optimizer) { /* how long no optimizer kernel follows */
                while (b + 1 < t->n && b < a + period && !t->optimizer[b])
                    b++;
                value += s->pending.ev[t->event[b]].start - s->pending.ev[t->event[a]].end;
            } else {
                value += idle_between(s, t->event[a], t->event[b]);
            }
        }
        if (value > best_value) {
            second = best_value;
            best_value = value;
            best = i;
        } else if (value > second) {
            second = value;
        }
    }
    span =
        s->pending.ev[t->event[t->n - 1]].start - s->pending.ev[t->event[t->n - 1 - period]].start;
    if (optimizer || level == TOKEN_CLASS || best_value > 2 * second || best_value > span / 5)
        return best;
    /* No gap stands out: after the largest reduction, the gradients'. */
    for (size_t i = 0; i < period; i++) {
        const struct argus_class_brief *c = &s->briefs[s->pending.ev[t->event[first + i]].class_id];

        if ((c->func == ARGUS_FUNC_ALLREDUCE || c->func == ARGUS_FUNC_REDUCESCATTER) &&
            c->bytes >= most) {
            most = c->bytes;
            best = i;
        }
    }
    return best;
}

/* The largest communicator that every one of the last 3 periods uses. */
static uint32_t anchor_of(const argus_summary_t *s, const struct stream_tokens *t, size_t period)
{
    uint8_t *used = calloc(s->n_comms + 1, 1);
    uint32_t best = ARGUS_NONE;

    if (!used)
        return ARGUS_NONE;
    for (size_t k = 0; k < 3; k++) {
        size_t from = t->event[t->n - (k + 1) * period];
        size_t to = k ? t->event[t->n - k * period] : s->pending.n;

        for (size_t i = from; i < to; i++) {
            const struct argus_pending *ev = &s->pending.ev[i];
            uint32_t comm = s->briefs[ev->class_id].comm;

            if (s->briefs[ev->class_id].lane == ARGUS_LANE_COMM && comm < s->n_comms &&
                ev->seq != ARGUS_NONE)
                used[comm] |= (uint8_t)(1u << k);
        }
    }
    for (uint32_t c = 0; c < s->n_comms; c++) {
        if (used[c] != 7)
            continue;
        if (best == ARGUS_NONE || s->comms[c].size > s->comms[best].size ||
            (s->comms[c].size == s->comms[best].size && s->comms[c].hash < s->comms[best].hash))
            best = c;
    }
    free(used);
    return best;
}

static int lock_on(argus_summary_t *s, enum token_level level, const struct candidate *c,
                   int need_optimizer, argus_error_t *err)
{
    struct lock *lock = &s->lock;
    size_t period = c->period.period, cut, same = 0;
    struct stream_tokens t;
    uint32_t *pattern;

    if (collect(s, level, c->key, &t) < 0)
        return argus_error(err, "no memory to learn a step of %zu events", s->pending.n);
    t.n -= need_optimizer && t.n;
    pattern = malloc(period * sizeof(*pattern));
    if (!pattern) {
        stream_tokens_free(&t);
        return argus_error(err, "no memory for a period of %zu events", period);
    }
    cut = cut_position(s, level, &t, period, need_optimizer);
    argus_lock_reset(lock);
    lock->mode = LOCK_TOKENS;
    lock->level = level;
    lock->comm = c->key;
    lock->period = period;
    lock->pattern = pattern;
    lock->optimizer = need_optimizer;
    lock->anchor_comm = anchor_of(s, &t, period);
    for (size_t i = 0; i < period; i++)
        pattern[i] = t.token[t.n - 3 * period + (cut + 1 + i) % period];
    for (size_t i = 0; i < period; i++) {
        size_t at = t.n - 3 * period + (cut + 1 + i) % period;

        same += pattern[i] == pattern[period - 1] && pattern[(i + 1) % period] == pattern[0] &&
                (!need_optimizer || t.optimizer[at]);
    }
    lock->unique = same == 1;
    lock->last_tokens = period;
    stream_tokens_free(&t);
    return 1;
}

static int try_tokens(argus_summary_t *s, enum token_level level, int need_optimizer,
                      argus_error_t *err)
{
    struct candidate best = {.period = {0}};
    size_t n_keys;
    uint32_t *keys = keys_of(s, level, &n_keys);

    if (!keys)
        return argus_error(err, "no memory to learn the steps");
    for (size_t i = 0; i < n_keys && i < 64; i++) {
        if (consider(s, level, keys[i], need_optimizer, &best) < 0) {
            free(keys);
            return argus_error(err, "no memory to learn the steps");
        }
    }
    free(keys);
    return best.period.period ? lock_on(s, level, &best, need_optimizer, err) : 0;
}

/* Step marks have begun to come, but are too few yet to judge them. */
static int marks_may_come(const argus_summary_t *s)
{
    size_t n = s->n_marks < ARGUS_MARKS_MAX ? s->n_marks : ARGUS_MARKS_MAX, steps = 0;

    for (size_t i = 0; i < n; i++)
        steps += s->marks[(s->n_marks - n + i) % ARGUS_MARKS_MAX].kind == ARGUS_MARK_STEP;
    return steps > 0 && steps < MARKS_MIN;
}

/* Step marks cut if the GPU's work agrees with them: marks are host times, and a host that runs
 * ahead of the GPU would cut somewhere inside its steps. */
static int try_marks(argus_summary_t *s)
{
    size_t n = s->n_marks < ARGUS_MARKS_MAX ? s->n_marks : ARGUS_MARKS_MAX, n_step = 0, equal = 0;
    size_t *counts = malloc(n * sizeof(*counts) + 1), *sorted = malloc(n * sizeof(*counts) + 1);
    int64_t first = INT64_MAX, last = INT64_MIN, covered = 0, from = INT64_MIN;
    int found = 0;

    if (!counts || !sorted)
        goto out;
    for (size_t i = 0; i < n; i++) {
        const struct argus_mark_row *m = &s->marks[(s->n_marks - n + i) % ARGUS_MARKS_MAX];

        if (m->kind != ARGUS_MARK_STEP)
            continue;
        if (from != INT64_MIN && m->start > from)
            counts[n_step++] =
                argus_events_before(&s->pending, m->start) - argus_events_before(&s->pending, from);
        from = m->start;
        covered += m->end - m->start;
        first = m->start < first ? m->start : first;
        last = m->end > last ? m->end : last;
    }
    if (n_step + 1 < MARKS_MIN || (double)covered < MARKS_COVER * (double)(last - first))
        goto out;
    memcpy(sorted, counts, n_step * sizeof(*counts));
    qsort(sorted, n_step, sizeof(*sorted), by_count);
    for (size_t i = 0; i < n_step; i++) {
        size_t median = sorted[n_step / 2];

        equal += median && counts[i] * 50 >= median * 49 && counts[i] * 50 <= median * 51;
    }
    if ((double)equal < MARKS_EQUAL * (double)n_step)
        goto out;
    argus_lock_reset(&s->lock);
    s->lock.mode = LOCK_MARKS;
    found = 1;
out:
    free(counts);
    free(sorted);
    return found;
}

int argus_learn(argus_summary_t *s, int final, argus_error_t *err)
{
    int need_optimizer = 0, collectives = 0, patient, rc = 0;

    s->next_try = s->pending.n + s->pending.n / 4 + 64;
    if (!s->pending.n)
        return 0;
    for (size_t i = 0; i < s->pending.n; i++) {
        const struct argus_class_brief *c = &s->briefs[s->pending.ev[i].class_id];

        need_optimizer |= c->lane == ARGUS_LANE_COMPUTE && c->family == ARGUS_FAMILY_OPTIMIZER;
        collectives |= c->lane == ARGUS_LANE_COMM;
    }
    argus_events_sort(&s->pending);
    patient = final || s->pending.n >= PATIENCE_EVENTS ||
              s->newest - s->pending.ev[0].start >= PATIENCE_NS;
    if (s->opt.use_marks && s->n_marks && try_marks(s))
        return 1;
    if (s->opt.use_marks && !patient && marks_may_come(s))
        return 0;
    if (need_optimizer) {
        rc = try_tokens(s, TOKEN_EXACT, 1, err);
        if (!rc && patient)
            rc = try_tokens(s, TOKEN_SHAPE, 1, err);
        if (!rc && (patient || !collectives))
            rc = try_tokens(s, TOKEN_CLASS, 1, err);
    }
    if (rc || !patient || (need_optimizer && !final))
        return rc;
    for (int level = TOKEN_EXACT; !rc && level < TOKEN_LEVELS; level++)
        rc = try_tokens(s, (enum token_level)level, 0, err);
    return rc;
}
