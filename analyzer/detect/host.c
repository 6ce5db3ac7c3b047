/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host stalls: the GPU of one rank has nothing to do while others wait for it.
 *
 * A victim waits inside a collective's kernel, so its GPU is not idle; the one
 * that is idle longer than its peers, and longer than it usually is, is the
 * cause.  Idle is what no kernel and no copy fills: copies come first, and long
 * launches or synchronisations are back-pressure, not evidence.  But a copy
 * under way hides a gap: where copies take no longer than usual, what stands
 * alone of them beyond the usual is idle, too.  What the gap
 * is made of tells the kind: at the start of the step = data; with compiling
 * (OVERHEAD records, a class never seen before) = JIT; with cudaMalloc and
 * cudaFree = allocator; else the host.
 *
 * Stalls are kept step by step, so that rare ones are not averaged away.
 * Ranks that stall in the same steps (a node whose input is slow) are one
 * fault: with one of them repaired the others would still be waited for.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"
#include "analyzer/stats/stats.h"

#define FLOOR_NS 1e6     /* smallest stall that counts */
#define FLOOR_SHARE 0.02 /* ... and of the step */
#define SAME_COPIES 1.1  /* longer copies are the reason themselves */
#define CAUSE_SHARE 0.3  /* of the stall: JIT, allocator */
#define DATA_SHARE 0.6
#define HEAD_SHARE 0.02 /* of the step: its beginning */
#define EARLY_SHARE 0.10
#define COPY_TO_DEVICE 1 /* CUpti_ActivityMemcpyKind */
#define SINGLE_SHARE 0.8 /* of the stalled time: one rank is the culprit */
#define PERSISTENT 0.8   /* of the steps since the first */
#define BESIDE 0.6       /* of the longest stall of the step: another one beside it */
#define TOGETHER 0.5     /* of the stalled steps: a rank is one of several that stall together */

enum cause { CAUSE_HOST, CAUSE_DATA, CAUSE_JIT, CAUSE_ALLOC, CAUSES };

struct stall {
    int rank, step;
    enum cause cause;
    int longest; /* of its step */
    double ns;
};

struct scan {
    const struct argus_model *m;
    struct argus_evidence_list *out;
    double typical;      /* step, ns */
    double *base, *head; /* by rank: usual idle */
    double *copy, *busy; /* by rank: usual time in copies that nothing hides, in all of them */
    double *work;
    struct stall *stalls;
    size_t n, room;
};

static double own_median(struct scan *s, size_t i, enum argus_column c)
{
    size_t n = 0;

    for (int k = 0; k < s->m->n_steps; k++) {
        float v = s->m->use[k] ? argus_rank_col(&s->m->ranks[i], c, k) : NAN;

        if (!isnan(v))
            s->work[n++] = (double)v;
    }
    return argus_median_inplace(s->work, n);
}

/* What a rank's GPU is idle anyway: its own median, or its stage's where that is less.  Stages
 * differ (bubbles that no receive bounds), so other stages do not count. */
static int usual(struct scan *s, enum argus_column c, double *base)
{
    const struct argus_model *m = s->m;
    double *x = malloc((m->n_ranks + 1) * sizeof(*x));

    if (!x)
        return -1;
    for (size_t i = 0; i < m->n_ranks; i++)
        base[i] = own_median(s, i, c);
    for (int stage = 0; stage < m->topology.pp || !stage; stage++) {
        size_t n = 0;
        double median;

        for (size_t i = 0; i < m->n_ranks; i++)
            if (m->ranks[i].pp == stage && !isnan(base[i]))
                x[n++] = base[i];
        if (n < 2)
            continue;
        /* of the two in the middle the lower one: an idle GPU is never the reference */
        median = argus_quantile_inplace(x, n, n < 4 ? 0 : (double)((n - 1) / 2) / (double)(n - 1));
        for (size_t i = 0; i < m->n_ranks; i++)
            if (m->ranks[i].pp == stage && base[i] > median)
                base[i] = median;
    }
    free(x);
    return 0;
}

/* Is the gap where a step waits for its batch: at its very beginning, or early and ended by a copy
 * to the GPU? */
static int before_data(const struct scan *s, size_t i, int k, double ns)
{
    const struct argus_model_rank *r = &s->m->ranks[i];
    double head = (double)argus_rank_col(r, ARGUS_COL_HEAD_IDLE, k) - s->head[i];
    double gap = (double)argus_rank_col(r, ARGUS_COL_GAP, k);
    double offset = (double)argus_rank_col(r, ARGUS_COL_GAP_OFFSET, k);
    int row = argus_rank_row(r, k);

    /* what a collective ends was work of the host before that collective */
    if (row < 0 || (gap >= DATA_SHARE * ns && r->gap_class[row] >> 8 == ARGUS_CLASS_COMM))
        return 0;
    if (head >= DATA_SHARE * ns)
        return 1;
    if (gap < DATA_SHARE * ns)
        return 0;
    return offset <= HEAD_SHARE * s->typical ||
           (offset <= EARLY_SHARE * s->typical &&
            r->gap_class[row] == (ARGUS_CLASS_COPY << 8 | COPY_TO_DEVICE));
}

static enum cause cause_of(const struct scan *s, size_t i, int k, double ns)
{
    const struct argus_model_rank *r = &s->m->ranks[i];
    double overhead = (double)argus_rank_col(r, ARGUS_COL_OVERHEAD, k);
    double alloc = (double)argus_rank_col(r, ARGUS_COL_ALLOC, k);

    if (overhead >= CAUSE_SHARE * ns)
        return CAUSE_JIT;
    if (alloc >= CAUSE_SHARE * ns)
        return CAUSE_ALLOC;
    if ((double)argus_rank_col(r, ARGUS_COL_NEW_CLASSES, k) > 0 &&
        (double)argus_rank_col(r, ARGUS_COL_GAP, k) >= 0.5 * ns)
        return CAUSE_JIT;
    return before_data(s, i, k, ns) ? CAUSE_DATA : CAUSE_HOST;
}

static int add_stall(struct scan *s, struct stall stall)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct stall *stalls = realloc(s->stalls, room * sizeof(*stalls));

        if (!stalls)
            return -1;
        s->stalls = stalls;
        s->room = room;
    }
    s->stalls[s->n++] = stall;
    return 0;
}

/* Time without work beyond the usual: idle, or hidden only by a copy under way. */
static double without_work(const struct scan *s, size_t i, int k)
{
    const struct argus_model_rank *r = &s->m->ranks[i];
    double idle = (double)argus_rank_col(r, ARGUS_COL_IDLE, k) - s->base[i];
    double alone = (double)argus_rank_col(r, ARGUS_COL_COPY, k) - s->copy[i];
    double busy = (double)argus_rank_col(r, ARGUS_COL_COPY_BUSY, k);

    return alone > 0 && busy <= SAME_COPIES * s->busy[i] ? idle + alone : idle;
}

static int counts(const struct scan *s, double ns, double common)
{
    return ns >= FLOOR_NS && ns >= FLOOR_SHARE * s->typical && (common <= 0 || ns >= 1.5 * common);
}

/* The most stalled rank of every step, if the others do not stall alike in that step, and those
 * that stall about as long beside it. */
static int find_stalls(struct scan *s)
{
    const struct argus_model *m = s->m;
    double *x = malloc((m->n_ranks + 1) * sizeof(*x));
    int rc = x ? 0 : -1;

    for (int k = 0; k < m->n_steps && !rc; k++) {
        double most = 0, common;
        size_t n = 0;
        int who = -1;

        if (!m->use[k])
            continue;
        for (size_t i = 0; i < m->n_ranks; i++) {
            double e = without_work(s, i, k);

            if (isnan(e))
                continue;
            x[n++] = e;
            if (e > most) {
                most = e;
                who = (int)i;
            }
        }
        common = n > 2 ? argus_median_inplace(x, n) : 0;
        if (who < 0 || !counts(s, most, common))
            continue;
        for (size_t i = 0; i < m->n_ranks && !rc; i++) {
            double e = without_work(s, i, k);

            if (e >= BESIDE * most && counts(s, e, common))
                rc =
                    add_stall(s, (struct stall){(int)i, k, cause_of(s, i, k, e), (int)i == who, e});
        }
    }
    free(x);
    return rc;
}

/* Which stalls: of one cause, and of one rank, of the longest of each step, or of all that
 * stall together. */
enum { LONGEST = -1, ALL = -2 };

static int is_of(const struct stall *t, enum cause cause, int rank)
{
    return t->cause == cause &&
           (rank >= 0 ? t->rank == rank && t->longest : rank == ALL || t->longest);
}

/* The pattern of stalls. */
struct summary {
    size_t n; /* steps */
    double most, median;
    int first, last;
    int period;
    double held; /* share of the used steps since the first */
    const char *pattern;
};

static struct summary summarise(struct scan *s, enum cause cause, int rank)
{
    struct summary u = {.first = -1, .last = -1};
    double *series = calloc((size_t)s->m->n_steps + 1, sizeof(double));
    double early = 0, late = 0;
    size_t used = 0, third, count = 0;

    if (!series)
        return u;
    for (size_t i = 0; i < s->n; i++) {
        const struct stall *t = &s->stalls[i];

        if (is_of(t, cause, rank) && t->ns > series[t->step])
            series[t->step] = t->ns;
    }
    for (int k = 0; k < s->m->n_steps; k++) {
        if (!(series[k] > 0))
            continue;
        if (u.first < 0)
            u.first = k;
        u.last = k;
        u.most = series[k] > u.most ? series[k] : u.most;
        s->work[u.n++] = series[k];
    }
    third = u.n / 3;
    for (size_t i = 0; i < third; i++) {
        early += s->work[i];
        late += s->work[u.n - 1 - i];
    }
    u.median = u.n ? argus_median_inplace(s->work, u.n) : 0;
    for (int k = u.first; k >= 0 && k < s->m->n_steps; k++)
        used += s->m->use[k];
    u.held = used ? (double)u.n / (double)used : 0;
    for (int k = 0; k < s->m->n_steps; k++)
        series[k] += 1; /* a base to be spikes against */
    u.period = (int)argus_spike_period(series, (size_t)s->m->n_steps, 2, &count);
    u.pattern = third >= 2 && late > 1.5 * early ? "growing"
                : u.held >= PERSISTENT           ? "persistent"
                : u.period > 1                   ? "periodic"
                : u.n <= 2                       ? "spike"
                                                 : "episode";
    if (u.n > 2 && u.held < PERSISTENT && !(u.period > 1) && strcmp(u.pattern, "growing"))
        u.pattern = "periodic";
    free(series);
    return u;
}

static const struct {
    enum argus_verdict_kind kind;
    const char *phase, *what, *what_of_several;
} causes[CAUSES] = {
    [CAUSE_HOST] = {ARGUS_VERDICT_HOST_STALL, NULL, "the host gave it nothing to do",
                    "their hosts gave them nothing to do"},
    [CAUSE_DATA] = {ARGUS_VERDICT_DATA_STALL, "data", "its data came late", "their data came late"},
    [CAUSE_JIT] = {ARGUS_VERDICT_JIT_STALL, NULL, "kernels were compiled or loaded",
                   "kernels were compiled or loaded"},
    [CAUSE_ALLOC] = {ARGUS_VERDICT_ALLOCATOR_STALL, NULL, "memory was allocated or freed",
                     "memory was allocated or freed"},
};

static int add_excess(struct scan *s, struct argus_evidence *e, enum cause cause, int rank)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct stall *t = &s->stalls[i];
        float *x;

        if (!is_of(t, cause, rank))
            continue;
        if (!(x = argus_evidence_excess(e, s->m, t->rank)))
            return -1;
        x[t->step] = (float)t->ns;
    }
    return 0;
}

/* Do the members make up all of their nodes? */
static int whole_nodes(const struct argus_model *m, const int *members, size_t n)
{
    size_t on_nodes = 0;

    for (size_t i = 0; i < m->n_ranks; i++)
        for (size_t j = 0; j < n; j++)
            if (m->ranks[i].node == m->ranks[members[j]].node) {
                on_nodes++;
                break;
            }
    return m->n_nodes > 1 && on_nodes == n;
}

/* "the GPUs of ranks 4,5 (node1)" */
static void name_members(const struct argus_model *m, const int *members, size_t n, int one_node,
                         char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "the GPUs of ranks ");

    for (size_t i = 0; i < n && at < size; i++) {
        if (at + 40 > size) {
            at += (size_t)snprintf(text + at, size - at, ",...");
            break;
        }
        at +=
            (size_t)snprintf(text + at, size - at, "%s%d", i ? "," : "", m->ranks[members[i]].rank);
    }
    if (one_node && m->n_nodes > 1 && at < size)
        snprintf(text + at, size - at, " on %.32s", m->nodes[m->ranks[members[0]].node]);
}

/* `rank` may be LONGEST (ranks that take turns) or ALL (ranks that stall together). */
static int report(struct scan *s, enum cause cause, int rank, const struct summary *u,
                  const int *members, size_t n_members)
{
    const struct argus_model *m = s->m;
    struct argus_evidence *e = argus_evidence_add(s->out, "host", causes[cause].kind);
    char who[160], name[128];
    int one_node = 1;

    if (!e || add_excess(s, e, cause, rank))
        return -1;
    for (size_t i = 0; i < n_members; i++) {
        one_node &= m->ranks[members[i]].node == m->ranks[members[0]].node;
        if (argus_evidence_rank(e, members[i]))
            return -1;
    }
    e->outside = 1;
    e->pattern = rank == LONGEST ? "rotating" : u->pattern;
    e->phase = causes[cause].phase;
    e->onset = u->first;
    e->effect = u->median / s->typical;
    e->persistence = rank != LONGEST && u->held < PERSISTENT ? 0.9 : u->held < 0.8 ? 0.85 : u->held;
    e->whole_nodes = rank == ALL && whole_nodes(m, members, n_members);
    if (rank >= 0)
        snprintf(who, sizeof(who), "the GPU of %s", argus_rank_text(m, rank, name, sizeof(name)));
    else if (rank == ALL)
        name_members(m, members, n_members, one_node, who, sizeof(who));
    else
        snprintf(who, sizeof(who), "one GPU at a time, on %zu ranks%s", n_members,
                 one_node && m->n_nodes > 1 ? " of one node" : "");
    if (rank == LONGEST && one_node && n_members > 1)
        e->subkind = "cpu-contention";
    else if (rank == LONGEST)
        e->subkind = "gc-like";
    argus_evidence_text(
        e,
        "%s stood idle for %.1f ms more than usual (at most %.1f ms) in %zu steps%s "
        "and the others waited: %s",
        who, u->median / 1e6, u->most / 1e6, u->n, u->period > 1 ? ", at a fixed distance" : "",
        rank == ALL ? causes[cause].what_of_several : causes[cause].what);
    if (argus_evidence_line(e, m, rank < 0 ? -1 : rank, "idle_gap_ms", u->median / 1e6,
                            rank >= 0 ? s->base[rank] / 1e6 : 0.0, "ms",
                            "idle beyond the usual, median of the stalled steps") ||
        argus_evidence_line(e, m, rank < 0 ? -1 : rank, "stalled_steps", (double)u->n, NAN, "steps",
                            NULL) ||
        (u->period > 1 && argus_evidence_line(e, m, rank < 0 ? -1 : rank, "period_steps",
                                              (double)u->period, NAN, "steps", NULL)))
        return -1;
    return 0;
}

struct share {
    int rank;
    double sum;
    size_t n;
};

static int share_cmp(const void *a, const void *b)
{
    const struct share *x = a, *y = b;

    if (x->sum != y->sum)
        return x->sum > y->sum ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Ranks that stall in at least half of the stalled steps, if they are several and the longest stalls
 * are theirs: one fault.  1 they were reported. */
static int judge_together(struct scan *s, enum cause cause, int *rc)
{
    const struct argus_model *m = s->m;
    size_t *stalled = calloc(m->n_ranks + 1, sizeof(*stalled)), n = 0, steps = 0;
    int *members = malloc((m->n_ranks + 1) * sizeof(*members));
    double total = 0, theirs = 0;

    *rc = stalled && members ? 0 : -1;
    for (size_t i = 0; i < s->n && !*rc; i++)
        if (s->stalls[i].cause == cause) {
            stalled[s->stalls[i].rank]++;
            steps += (size_t)s->stalls[i].longest;
        }
    for (size_t i = 0; i < m->n_ranks && !*rc; i++)
        if (stalled[i] >= 3 && (double)stalled[i] >= TOGETHER * (double)steps)
            members[n++] = (int)i;
        else
            stalled[i] = 0;
    for (size_t i = 0; i < s->n && !*rc; i++)
        if (s->stalls[i].cause == cause && s->stalls[i].longest) {
            total += s->stalls[i].ns;
            theirs += stalled[s->stalls[i].rank] ? s->stalls[i].ns : 0;
        }
    if (n >= 2 && total > 0 && theirs >= SINGLE_SHARE * total) {
        struct summary u;

        for (size_t i = 0; i < s->n; i++)
            if (s->stalls[i].cause == cause && !stalled[s->stalls[i].rank])
                s->stalls[i].cause = CAUSES; /* of somebody else */
        u = summarise(s, cause, ALL);
        *rc = report(s, cause, ALL, &u, members, n);
    } else {
        n = 0;
    }
    free(stalled);
    free(members);
    return n >= 2;
}

static int judge_cause(struct scan *s, enum cause cause)
{
    const struct argus_model *m = s->m;
    struct share *shares = calloc(m->n_ranks + 1, sizeof(*shares));
    int members[16], rc = 0;
    size_t n = 0, stalls = 0;
    double total = 0;

    if (!shares)
        return -1;
    if (judge_together(s, cause, &rc) || rc)
        goto out;
    for (size_t i = 0; i < m->n_ranks; i++)
        shares[i].rank = (int)i;
    for (size_t i = 0; i < s->n; i++)
        if (is_of(&s->stalls[i], cause, LONGEST)) {
            shares[s->stalls[i].rank].sum += s->stalls[i].ns;
            shares[s->stalls[i].rank].n++;
            total += s->stalls[i].ns;
            stalls++;
        }
    if (!stalls)
        goto out;
    qsort(shares, m->n_ranks, sizeof(*shares), share_cmp);
    if (shares[0].sum >= SINGLE_SHARE * total || m->n_ranks == 1) {
        struct summary u = summarise(s, cause, shares[0].rank);

        rc = report(s, cause, shares[0].rank, &u, &shares[0].rank, 1);
        goto out;
    }
    /* two or three that stall on and on are culprits of their own; many that take turns are one */
    if (shares[0].sum + shares[1].sum + shares[2].sum >= 0.9 * total && stalls >= 6 &&
        shares[0].n >= 3 && m->n_ranks > 4) {
        for (size_t i = 0; i < 3 && !rc; i++)
            if (shares[i].sum >= 0.15 * total) {
                struct summary u = summarise(s, cause, shares[i].rank);

                rc = report(s, cause, shares[i].rank, &u, &shares[i].rank, 1);
            }
        goto out;
    }
    for (size_t i = 0; i < m->n_ranks && n < 16; i++)
        if (shares[i].sum >= 0.02 * total)
            members[n++] = shares[i].rank;
    if (n) {
        struct summary u = summarise(s, cause, LONGEST);

        rc = report(s, cause, LONGEST, &u, members, n);
    }
out:
    free(shares);
    return rc;
}

int argus_detect_host(const struct argus_model *m, struct argus_evidence_list *out)
{
    struct scan s = {.m = m, .out = out};
    int rc = -1;

    s.base = calloc(m->n_ranks + 1, sizeof(double));
    s.head = calloc(m->n_ranks + 1, sizeof(double));
    s.copy = calloc(m->n_ranks + 1, sizeof(double));
    s.busy = calloc(m->n_ranks + 1, sizeof(double));
    s.work = malloc(((size_t)m->n_steps + m->n_ranks + 1) * sizeof(double));
    s.typical = argus_typical_step(m);
    if (!s.base || !s.head || !s.copy || !s.busy || !s.work)
        goto out;
    rc = usual(&s, ARGUS_COL_IDLE, s.base) || usual(&s, ARGUS_COL_HEAD_IDLE, s.head) ||
         usual(&s, ARGUS_COL_COPY, s.copy) || usual(&s, ARGUS_COL_COPY_BUSY, s.busy) ||
         find_stalls(&s);
    for (int c = 0; c < CAUSES && !rc; c++)
        rc = judge_cause(&s, c);
out:
    free(s.base);
    free(s.head);
    free(s.copy);
    free(s.busy);
    free(s.work);
    free(s.stalls);
    return rc ? -1 : 0;
}
