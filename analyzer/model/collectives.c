/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparable collectives and what of their duration is work and what waiting.
 *
 * The two sides of a send are one class, so that the shorter side is the
 * transfer and the longer one waited.  All-to-alls may carry different bytes
 * on every rank; their size is not part of the class.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include <argus/record.h>

#include "analyzer/model/digest.h"
#include "analyzer/stats/stats.h"

struct key {
    int group;
    uint8_t func, dtype;
    int from, to;
    uint64_t bytes;
};

struct entry {
    struct key key;
    size_t rank; /* index */
    struct argus_digest_comm_class *cc;
};

static int key_cmp(const struct key *a, const struct key *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->func != b->func)
        return a->func < b->func ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->dtype < b->dtype ? -1 : a->dtype > b->dtype;
}

static int entry_cmp(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int d = key_cmp(&x->key, &y->key);

    return d ? d : x->rank < y->rank ? -1 : x->rank > y->rank;
}

static struct key key_of(const struct argus_digest_comm_class *cc, int group, int own)
{
    struct key k = {group, cc->func, cc->dtype, -1, -1, cc->bytes};

    switch (cc->func) {
    case ARGUS_FUNC_SEND:
        k.from = own;
        k.to = cc->peer;
        break;
    case ARGUS_FUNC_RECV:
        k.func = ARGUS_FUNC_SEND;
        k.from = cc->peer;
        k.to = own;
        break;
    case ARGUS_FUNC_SENDRECV:
        if (cc->peer >= 0 && own >= 0) {
            k.from = own < cc->peer ? own : cc->peer;
            k.to = own < cc->peer ? cc->peer : own;
            break;
        }
        k.bytes = 0;
        break;
    case ARGUS_FUNC_ALLTOALL:
    case ARGUS_FUNC_GROUP:
        k.bytes = 0;
        break;
    case ARGUS_FUNC_BROADCAST:
    case ARGUS_FUNC_REDUCE:
        k.from = cc->peer;
        break;
    default:
        break;
    }
    return k;
}

static size_t collect(struct argus_model_build *b, struct entry *entries)
{
    size_t n = 0;

    for (size_t i = 0; i < b->m->n_ranks; i++) {
        struct argus_digest *d = b->digests[i];

        for (size_t c = 0; c < d->n_comm_classes; c++) {
            struct argus_digest_comm_class *cc = &d->comm_classes[c];
            int known = cc->comm >= 0 && d->comms[cc->comm].group >= 0;
            int group = known ? d->comms[cc->comm].group : b->unknown_group;
            int own = known ? d->comms[cc->comm].position : (int)i;

            cc->comm_class = -1;
            if (!cc->data.sum || group < 0)
                continue;
            entries[n++] = (struct entry){key_of(cc, group, own), i, cc};
        }
    }
    return n;
}

int argus_comm_is_pair(const struct argus_comm_class *c)
{
    return c->from >= 0 && c->to >= 0;
}

static int node_of(const struct argus_model *m, const struct argus_group *g, int member)
{
    int r = (uint32_t)member < g->size ? g->members[member] : -1;

    return r >= 0 && (size_t)r < m->n_ranks ? m->ranks[r].node : -1;
}

int argus_comm_crosses_nodes(const struct argus_model *m, const struct argus_comm_class *c)
{
    const struct argus_group *g = &m->groups[c->group];
    int a = argus_comm_is_pair(c) ? node_of(m, g, c->from) : -1;
    int b = argus_comm_is_pair(c) ? node_of(m, g, c->to) : -1;

    return a < 0 || b < 0 ? g->nodes > 1 : a != b;
}

/* Each rank puts sends and receives together in calls as it likes: those of the other side may be
 * other calls. */
static int may_differ(const struct argus_comm_class *c)
{
    return c->func == ARGUS_FUNC_SENDRECV || c->func == ARGUS_FUNC_SEND;
}

/* Do the members call it equally often, with the same sequence numbers?  Pairs count their calls
 * each on its own, so only the number is compared. */
static int lines_up(const struct argus_model *m, const struct argus_comm_class *c,
                    const struct entry *e, size_t n)
{
    size_t good = 0, bad = 0;
    double usual[2];

    for (size_t i = 1; i < n; i++) {
        const struct argus_model_rank *r = &m->ranks[e[i].rank], *ref = &m->ranks[e[0].rank];
        const struct argus_rank_comm *x = &e[i].cc->data, *y = &e[0].cc->data;
        int ok = x->usual_count == y->usual_count;

        if (ok && !argus_comm_is_pair(c) && x->seq_per_step && y->seq_per_step && !x->first_seq &&
            !y->first_seq) {
            int64_t steps = (int64_t)(x->usual_row + r->first_step + r->shift) -
                            (y->usual_row + ref->first_step + ref->shift);

            ok = x->seq_per_step == y->seq_per_step &&
                 (int64_t)x->usual_seq - (int64_t)y->usual_seq == steps * x->seq_per_step;
        }
        good += ok;
        bad += !ok;
    }
    usual[0] = (double)good;
    usual[1] = (double)bad;
    return usual[1] <= 0.1 * (usual[0] + usual[1]);
}

static float count_at(const struct argus_rank_comm *c, int row)
{
    return isnan(c->sum[row]) ? 0 : c->count ? c->count[row] : c->usual_count;
}

/* Work: the shortest call of any rank; ranks that called it a different number of times in that
 * step have lost records and say nothing. */
static int fill_work(struct argus_model *m, struct argus_comm_class *c, struct entry *e, size_t n)
{
    int even = c->bytes > 0 && c->bytes == c->bytes_max;
    double usual[64];
    size_t n_usual = 0;

    c->work = malloc(((size_t)m->n_steps + 1) * sizeof(float));
    c->spread = malloc(((size_t)m->n_steps + 1) * sizeof(float));
    if (!c->work || !c->spread)
        return -1;
    for (size_t i = 0; i < n && n_usual < 64; i++)
        usual[n_usual++] = (double)e[i].cc->data.usual_count;
    c->count = argus_median_inplace(usual, n_usual);
    for (int k = 0; k < m->n_steps; k++) {
        float work = INFINITY, most = 0, count = 0;
        size_t ranks = 0;

        c->work[k] = c->spread[k] = NAN;
        if (!c->matched || n < 2)
            continue;
        for (size_t i = 0; i < n; i++) {
            const struct argus_rank_comm *x = &e[i].cc->data;
            int row = argus_rank_row(&m->ranks[e[i].rank], k);
            float calls = row < 0 ? 0 : count_at(x, row);

            if (!(calls > 0))
                continue;
            if (!ranks)
                count = calls;
            if (calls != count)
                continue;
            ranks++;
            /* messages of unknown or uneven size: the rank that spent least waited least */
            work = fminf(work, even ? x->min[row] : x->sum[row] / calls);
            most = fmaxf(most, x->sum[row] / calls);
        }
        if (ranks >= 2) {
            c->work[k] = work;
            c->spread[k] = most - work;
        }
    }
    return 0;
}

/* Classes of one rank that fall into one (streams, sizes of an all-to-all) become its first. */
static int fold_rank(struct argus_model_build *b, struct entry *e, size_t n)
{
    struct argus_rank_comm *into = &e[0].cc->data;
    size_t rows = (size_t)b->m->ranks[e[0].rank].n_rows;
    float *sum = argus_arena_alloc(b->arena, rows, sizeof(float));
    float *min = argus_arena_alloc(b->arena, rows, sizeof(float));
    float *count = argus_arena_alloc(b->arena, rows, sizeof(float));

    if (!sum || !min || !count)
        return -1;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < n; i++) {
            const struct argus_rank_comm *x = &e[i].cc->data;
            float calls = count_at(x, (int)row);

            if (!(calls > 0))
                continue;
            min[row] = count[row] > 0 ? fminf(min[row], x->min[row]) : x->min[row];
            sum[row] += x->sum[row];
            count[row] += calls;
            if (i && into->usual_row == (int)row)
                into->usual_count += calls;
        }
        if (!(count[row] > 0))
            sum[row] = min[row] = NAN;
    }
    for (size_t i = 1; i < n; i++) {
        into->lead += e[i].cc->data.lead;
        e[i].cc->folded = 1;
        e[i].cc->into = e[0].cc;
        if (e[i].cc->bytes > e[0].cc->bytes_max)
            e[0].cc->bytes_max = e[i].cc->bytes;
        if (e[i].cc->bytes < e[0].cc->bytes)
            e[0].cc->bytes = e[i].cc->bytes;
    }
    into->sum = sum;
    into->min = min;
    into->count = count;
    into->seq_per_step = 0;
    return 0;
}

/* Entries of one class: one a rank from here on. */
static int fold(struct argus_model_build *b, struct entry *e, size_t *n)
{
    size_t kept = 0;

    for (size_t i = 0, j; i < *n; i = j) {
        for (j = i + 1; j < *n && e[j].rank == e[i].rank; j++)
            ;
        if (j - i > 1 && fold_rank(b, &e[i], j - i))
            return -1;
        e[kept++] = e[i];
    }
    *n = kept;
    return 0;
}

static int add_class(struct argus_model *m, struct entry *e, size_t n)
{
    struct argus_comm_class *c = &m->comm_classes[m->n_comm_classes];
    struct argus_group *g = &m->groups[e[0].key.group];

    c->group = e[0].key.group;
    c->func = e[0].key.func;
    c->dtype = e[0].key.dtype;
    c->from = e[0].key.from;
    c->to = e[0].key.to;
    c->ranks = n;
    c->expects = argus_comm_is_pair(c) ? 2 : g->size;
    c->bytes = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        struct argus_digest_comm_class *cc = e[i].cc;

        c->bytes = cc->bytes < c->bytes ? cc->bytes : c->bytes;
        c->bytes_max = cc->bytes > c->bytes_max ? cc->bytes : c->bytes_max;
        c->bytes_max = cc->bytes_max > c->bytes_max ? cc->bytes_max : c->bytes_max;
        cc->comm_class = (int)m->n_comm_classes;
        cc->data.comm_class = (int)m->n_comm_classes;
        cc->data.outgoing = cc->func == ARGUS_FUNC_SEND;
    }
    c->matched = lines_up(m, c, e, n);
    if (!c->matched && may_differ(c))
        argus_model_note(m, "sends and receives that share a call with those to other ranks are "
                            "not compared");
    else if (!c->matched)
        argus_model_note(m,
                         "calls of communicator %s do not line up between its ranks; not compared",
                         g->name ? g->name : "without a name");
    if (fill_work(m, c, e, n))
        return -1;
    g->per_step += c->count * (argus_comm_is_pair(c) ? (double)n / g->size : 1.0);
    g->bytes += c->count * (double)c->bytes;
    m->n_comm_classes++;
    return 0;
}

/* A rank's own list, in order of class; several digest classes (streams, sizes of an all-to-all)
 * may fall into one class: they are added up. */
static int take_comms(struct argus_model *m, size_t i, struct argus_digest *d)
{
    struct argus_model_rank *r = &m->ranks[i];

    r->comms = calloc(d->n_comm_classes + 1, sizeof(*r->comms));
    if (!r->comms)
        return -1;
    for (size_t c = 0; c < d->n_comm_classes; c++)
        if (d->comm_classes[c].comm_class >= 0 && !d->comm_classes[c].folded)
            r->comms[r->n_comms++] = d->comm_classes[c].data;
    return 0;
}

static void count_uses(struct argus_model_build *b)
{
    for (size_t c = 0; c < b->m->n_comm_classes; c++) {
        const struct argus_comm_class *cc = &b->m->comm_classes[c];

        if (cc->func < ARGUS_FUNC_COUNT)
            b->uses[(size_t)cc->group * ARGUS_FUNC_COUNT + cc->func] +=
                (size_t)(cc->count < 1 ? 1 : cc->count);
    }
}

int argus_model_build_collectives(struct argus_model_build *b, argus_error_t *err)
{
    struct argus_model *m = b->m;
    struct entry *entries;
    size_t total = 0, n, kept, distinct = 0;
    int rc = -1;

    for (size_t i = 0; i < m->n_ranks; i++)
        total += b->digests[i]->n_comm_classes;
    entries = malloc((total + 1) * sizeof(*entries));
    b->uses = calloc((m->n_groups + 1) * ARGUS_FUNC_COUNT, sizeof(*b->uses));
    if (!entries || !b->uses)
        goto out;
    n = collect(b, entries);
    if (n)
        qsort(entries, n, sizeof(*entries), entry_cmp);
    for (size_t i = 0; i < n; i++)
        distinct += i == 0 || key_cmp(&entries[i].key, &entries[i - 1].key);
    m->comm_classes = calloc(distinct + 1, sizeof(*m->comm_classes));
    if (!m->comm_classes)
        goto out;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && !key_cmp(&entries[j].key, &entries[i].key); j++)
            ;
        kept = j - i;
        if (fold(b, &entries[i], &kept) || add_class(m, &entries[i], kept))
            goto out;
    }
    for (size_t i = 0; i < m->n_ranks; i++)
        if (take_comms(m, i, b->digests[i]))
            goto out;
    count_uses(b);
    rc = 0;
out:
    free(entries);
    return rc ? argus_error(err, "%s: no memory", m->dir) : 0;
}

/* Waiting that something else hides delays nobody: only the exposed part counts. */
static int rank_wait(struct argus_model_build *b, size_t i)
{
    struct argus_model *m = b->m;
    struct argus_model_rank *r = &m->ranks[i];
    size_t n = (size_t)r->n_rows;
    float *wait = argus_arena_alloc(b->arena, n, sizeof(float));
    float *local = argus_arena_alloc(b->arena, n, sizeof(float));

    if (!wait || !local)
        return -1;
    for (int row = 0; row < r->n_rows; row++) {
        int k = row + r->first_step + r->shift;
        double w = 0;

        if (!r->start[row] || k < 0 || k >= m->n_steps)
            continue;
        for (size_t c = 0; c < r->n_comms; c++) {
            const struct argus_rank_comm *x = &r->comms[c];
            float work = m->comm_classes[x->comm_class].work[k];
            double d;

            if (isnan(work) || isnan(x->sum[row]))
                continue;
            d = (double)x->sum[row] - (double)count_at(x, row) * (double)work;
            w += d > 0 ? d : 0;
        }
        if (r->col[ARGUS_COL_EXPOSED])
            w = fmin(w, (double)r->col[ARGUS_COL_EXPOSED][row]);
        else
            w = 0;
        wait[row] = (float)w;
        local[row] = r->col[ARGUS_COL_DURATION][row] - (float)w;
    }
    r->col[ARGUS_COL_WAIT] = wait;
    r->col[ARGUS_COL_LOCAL] = local;
    return 0;
}

int argus_model_build_wait(struct argus_model_build *b, argus_error_t *err)
{
    for (size_t i = 0; i < b->m->n_ranks; i++)
        if (rank_wait(b, i))
            return argus_error(err, "%s: no memory", b->m->dir);
    return 0;
}
