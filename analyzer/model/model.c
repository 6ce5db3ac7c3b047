/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of timelines -> the model: loader processes, merge, accessors. */
#include <config.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/model/digest.h"
#include "analyzer/model/spread.h"
#include "analyzer/stats/stats.h"
#include "analyzer/timeline/timeline_io.h"

#define MAX_PROCESSES 16
#define FILES_PER_PROCESS 8 /* fewer files are not worth a fork */

/* The work list that loader processes share. */
struct queue {
    _Atomic size_t next;
    _Atomic size_t done;
    struct argus_digest digests[];
};

void argus_model_options_init(struct argus_model_options *options)
{
    memset(options, 0, sizeof(*options));
    options->first_step = options->last_step = -1;
}

const char *argus_group_kind_name(enum argus_group_kind kind)
{
    static const char *const names[ARGUS_GROUP_KINDS] = {"group", "world", "tp", "dp",
                                                         "pp",    "ep",    "edp"};

    return (unsigned)kind < ARGUS_GROUP_KINDS ? names[kind] : "group";
}

void argus_model_note(struct argus_model *m, const char *format, ...)
{
    char text[512];
    va_list ap;
    char **notes;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    for (size_t i = 0; i < m->n_notes; i++)
        if (!strcmp(m->notes[i], text))
            return;
    notes = realloc(m->notes, (m->n_notes + 1) * sizeof(*notes));
    if (!notes)
        return;
    m->notes = notes;
    if ((m->notes[m->n_notes] = strdup(text)))
        m->n_notes++;
}

static void load_one(struct queue *q, size_t i, char **paths, argus_arena_t *a)
{
    argus_error_t err = {{0}};
    struct argus_digest *d = &q->digests[i];

    if (!argus_digest_load(paths[i], a, d, &err)) {
        d->done = 1;
    } else {
        memcpy(d->error, err.text, sizeof(d->error));
        d->done = -1;
    }
    atomic_fetch_add(&q->done, 1);
}

static void run_loader(struct queue *q, char **paths, size_t n, argus_arena_t *a,
                       const struct argus_model_options *o)
{
    size_t i;

    while ((i = atomic_fetch_add(&q->next, (size_t)argus_spread_size())) < n) {
        load_one(q, i, paths, a);
        if (o && o->progress)
            o->progress(o->progress_arg, atomic_load(&q->done), n);
    }
}

/* Serial HDF5 is not thread-safe, so loaders are processes; a file that kills its loader costs one rank. */
static void load_all(struct queue *q, char **paths, size_t n, argus_arena_t *a,
                     const struct argus_model_options *o)
{
    long cpus = o->processes > 0 ? o->processes : sysconf(_SC_NPROCESSORS_ONLN);
    size_t mine = n / (size_t)argus_spread_size() / FILES_PER_PROCESS;
    size_t want = mine < (size_t)cpus ? mine : (size_t)cpus;
    pid_t pids[MAX_PROCESSES];
    size_t started = 0;

    if (want > MAX_PROCESSES)
        want = MAX_PROCESSES;
    atomic_store(&q->next, (size_t)argus_spread_rank());
    fflush(NULL);
    for (size_t p = 1; p < want; p++) {
        pid_t pid = fork();

        if (pid < 0)
            break;
        if (pid == 0) {
            argus_arena_child(a);
            run_loader(q, paths, n, a, NULL);
            _exit(0);
        }
        pids[started++] = pid;
    }
    run_loader(q, paths, n, a, o);
    for (size_t p = 0; p < started; p++)
        while (waitpid(pids[p], NULL, 0) < 0 && errno == EINTR)
            ;
    for (size_t i = (size_t)argus_spread_rank(); i < n; i += (size_t)argus_spread_size())
        if (!q->digests[i].done) {
            snprintf(q->digests[i].error, sizeof(q->digests[i].error),
                     "%s: the process that read it died", paths[i]);
            q->digests[i].done = -1;
        }
}

static int by_rank(const void *a, const void *b)
{
    const struct argus_digest *x = *(struct argus_digest *const *)a;
    const struct argus_digest *y = *(struct argus_digest *const *)b;

    if (x->rank.rank != y->rank.rank)
        return x->rank.rank < y->rank.rank ? -1 : 1;
    /* of two files of one rank the fuller one counts */
    if (x->rank.n_rows != y->rank.n_rows)
        return x->rank.n_rows > y->rank.n_rows ? -1 : 1;
    return strcmp(x->rank.path, y->rank.path);
}

/* Good digests in order of rank, doubles and failures as notes. */
static size_t pick_ranks(struct argus_model *m, struct queue *q, size_t n,
                         struct argus_digest **picked)
{
    size_t good = 0, kept = 0, failed = 0;

    for (size_t i = 0; i < n; i++) {
        if (q->digests[i].done > 0)
            picked[good++] = &q->digests[i];
        else if (failed++ < 8)
            argus_model_note(m, "not readable: %s", q->digests[i].error);
    }
    if (failed > 8)
        argus_model_note(m, "%zu more timelines are not readable", failed - 8);
    if (good)
        qsort(picked, good, sizeof(*picked), by_rank);
    for (size_t i = 0; i < good; i++) {
        if (kept && picked[kept - 1]->rank.rank == picked[i]->rank.rank) {
            argus_model_note(m, "rank %d has two timelines; %s is not used", picked[i]->rank.rank,
                             picked[i]->rank.path);
            continue;
        }
        picked[kept++] = picked[i];
    }
    return kept;
}

static int node_index(struct argus_model *m, const char *name)
{
    for (size_t i = m->n_nodes; i-- > 0;)
        if (!strcmp(m->nodes[i], name))
            return (int)i;
    m->nodes[m->n_nodes] = strdup(name);
    return m->nodes[m->n_nodes] ? (int)m->n_nodes++ : -1;
}

static int take_ranks(struct argus_model *m, struct argus_digest **picked, size_t n)
{
    m->ranks = calloc(n, sizeof(*m->ranks));
    m->nodes = calloc(n, sizeof(*m->nodes));
    if (!m->ranks || !m->nodes)
        return -1;
    m->n_ranks = n;
    for (size_t i = 0; i < n; i++) {
        struct argus_model_rank *r = &m->ranks[i];
        const struct argus_timeline_counters *c;

        *r = picked[i]->rank;
        c = &r->counters;
        if ((r->node = node_index(m, r->info.node)) < 0)
            return -1;
        if (r->info.world > m->world)
            m->world = r->info.world;
        if (r->rank >= m->world)
            m->world = r->rank + 1;
        m->dropped += c->dropped;
        m->invalid += c->invalid;
        m->gaps += c->gaps;
        m->late += c->late;
        m->torn += c->torn;
        m->simulated |= r->info.simulated != 0;
        if (r->n_windows > m->n_windows)
            m->n_windows = r->n_windows;
        for (int w = 0; w < r->n_windows; w++)
            if (r->window_last[w] - r->window_first[w] >= m->cluster_steps)
                m->cluster_steps = r->window_last[w] - r->window_first[w] + 1;
    }
    return 0;
}

static int find_missing(struct argus_model *m)
{
    size_t at = 0;

    m->ranks_missing = calloc((size_t)m->world + 1, sizeof(int));
    if (!m->ranks_missing)
        return -1;
    for (int r = 0; r < m->world; r++) {
        if (at < m->n_ranks && m->ranks[at].rank == r)
            at++;
        else
            m->ranks_missing[m->n_ranks_missing++] = r;
    }
    return 0;
}

static void note_text(void *arg, const char *text)
{
    argus_model_note(arg, "%s", text);
}

static int build(struct argus_model_build *b, argus_error_t *err)
{
    if (argus_model_build_groups(b, err) || argus_model_build_steps(b, err) ||
        argus_model_build_collectives(b, err) || argus_model_build_topology(b, err) ||
        argus_model_build_kernels(b, err) || argus_model_build_peers(b, err) ||
        argus_model_build_wait(b, err))
        return -1;
    return 0;
}

static int fill(struct argus_model *m, struct queue *q, size_t n, argus_arena_t *arena,
                const struct argus_model_options *options, argus_error_t *err)
{
    struct argus_model_build b = {.m = m, .arena = arena, .options = options, .unknown_group = -1};
    size_t kept;
    int rc = -1;

    b.digests = calloc(n, sizeof(*b.digests));
    if (!b.digests)
        return argus_error(err, "%s: no memory", m->dir);
    kept = pick_ranks(m, q, n, b.digests);
    if (!kept) {
        argus_error(err, "%s: no readable timeline; %s", m->dir,
                    m->n_notes ? m->notes[0] : "no rank-*.h5");
        goto out;
    }
    if (take_ranks(m, b.digests, kept) || find_missing(m)) {
        argus_error(err, "%s: no memory", m->dir);
        goto out;
    }
    m->job = strdup(m->ranks[0].info.job);
    m->step = strdup(m->ranks[0].info.step);
    m->source = strdup(m->ranks[0].info.source);
    argus_model_read_keys(m);
    argus_model_note_standdowns(m);
    if (m->n_ranks_missing)
        argus_standdowns_without_timeline(m->dir, m, note_text, m);
    rc = m->job && m->step && m->source ? build(&b, err) : argus_error(err, "no memory");
out:
    free(b.digests);
    free(b.uses);
    return rc;
}

/* Everything that there is to read, read; NULL on error. */
static struct queue *read_all(struct argus_model *m, char **paths, size_t n, int slot,
                              const struct argus_model_options *options, argus_error_t *err)
{
    struct queue *q = NULL;
    int several = argus_spread_size() > 1;

    m->arena = several ? argus_arena_create_at(argus_spread_rank(), slot) : argus_arena_create();
    if (m->arena)
        q = argus_arena_alloc(m->arena, 1, sizeof(*q) + n * sizeof(q->digests[0]));
    if (argus_spread_agree(!q)) {
        argus_error(err, "%s: no memory", m->dir);
        return NULL;
    }
    load_all(q, paths, n, m->arena, options);
    if (several && argus_spread_collect(m->arena, slot, q->digests, n, err) < 0)
        return NULL;
    return q;
}

struct argus_model *argus_model_load(const char *dir, const struct argus_model_options *options,
                                     argus_error_t *err)
{
    struct argus_model_options defaults;
    struct argus_model *m = NULL;
    struct queue *q;
    char **paths = NULL;
    size_t n = 0;
    int slot;

    argus_model_options_init(&defaults);
    if (!options)
        options = &defaults;
    slot = argus_spread_share(options->slot);
    if (argus_spread_agree(argus_timeline_list(dir, &paths, &n, err) < 0))
        goto error;
    if (argus_spread_agree(argus_spread_share((int)n) != (int)n || !n)) {
        argus_error(err, "%s: %s", dir,
                    n ? "the processes do not see the same timelines"
                      : "no timelines (rank-*.h5) here");
        goto error;
    }
    m = calloc(1, sizeof(*m));
    if (argus_spread_agree(!m || !(m->dir = strdup(dir)))) {
        argus_error(err, "%s: no memory", dir);
        goto error;
    }
    q = read_all(m, paths, n, slot, options, err);
    if (q && argus_spread_rank() > 0)
        err->text[0] = '\0';
    if (!q || argus_spread_rank() > 0 || fill(m, q, n, m->arena, options, err))
        goto error;
    argus_timeline_list_free(paths, n);
    return m;
error:
    argus_timeline_list_free(paths, n);
    argus_model_destroy(m);
    return NULL;
}

void argus_model_destroy(struct argus_model *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n_ranks; i++) {
        free(m->ranks[i].comms);
        free(m->ranks[i].classes);
    }
    for (size_t i = 0; i < m->n_nodes; i++)
        free(m->nodes[i]);
    for (size_t i = 0; i < m->n_groups; i++) {
        free(m->groups[i].name);
        free(m->groups[i].members);
    }
    for (size_t i = 0; i < m->n_comm_classes; i++) {
        free(m->comm_classes[i].work);
        free(m->comm_classes[i].spread);
    }
    for (size_t i = 0; i < m->n_peer_sets; i++)
        free(m->peer_sets[i].ranks);
    for (size_t i = 0; i < m->n_notes; i++)
        free(m->notes[i]);
    free(m->ranks);
    free(m->nodes);
    free(m->use);
    free(m->groups);
    free(m->comm_classes);
    free(m->kernel_classes);
    free(m->peer_sets);
    free(m->ranks_missing);
    free(m->notes);
    free(m->dir);
    free(m->job);
    free(m->step);
    free(m->source);
    argus_arena_destroy(m->arena);
    free(m);
}

int argus_model_find_rank(const struct argus_model *m, int rank)
{
    size_t lo = 0, hi = m->n_ranks;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (m->ranks[mid].rank < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < m->n_ranks && m->ranks[lo].rank == rank ? (int)lo : -1;
}

const struct argus_rank_class *argus_rank_find_class(const struct argus_model_rank *r,
                                                     int kernel_class)
{
    size_t lo = 0, hi = r->n_classes;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (r->classes[mid].kernel_class < kernel_class)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < r->n_classes && r->classes[lo].kernel_class == kernel_class ? &r->classes[lo]
                                                                            : NULL;
}

double argus_model_rank_median(const struct argus_model *m, size_t rank_index, enum argus_column c)
{
    double *x = malloc(((size_t)m->n_steps + 1) * sizeof(*x)), median;
    size_t n = 0;

    if (!x)
        return NAN;
    for (int k = 0; k < m->n_steps; k++) {
        float v = m->use[k] ? argus_rank_col(&m->ranks[rank_index], c, k) : NAN;
        if (!isnan(v))
            x[n++] = (double)v;
    }
    median = argus_median_inplace(x, n);
    free(x);
    return median;
}

double argus_model_step_time(const struct argus_model *m, int k)
{
    double *x = malloc((m->n_ranks + 1) * sizeof(*x)), median;
    size_t n = 0;

    if (!x)
        return NAN;
    for (size_t i = 0; i < m->n_ranks; i++) {
        float v = argus_rank_col(&m->ranks[i], ARGUS_COL_DURATION, k);
        if (!isnan(v))
            x[n++] = (double)v;
    }
    median = argus_median_inplace(x, n);
    free(x);
    return median;
}
