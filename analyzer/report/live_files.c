/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines that grow: what is new in each since the last look. */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/live_files.h"
#include "analyzer/stats/stats.h"

#define WINDOW ARGUS_LIVE_WINDOW
#define RESCAN 5 /* refreshes between two looks for new ranks */

void argus_live_follower_free(struct argus_live_follower *f)
{
    if (!f)
        return;
    argus_timeline_close(f->t);
    free(f->path);
    free(f);
}

/* The base name without ".open": a file that is sealed keeps its follower. */
static int same_rank_file(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);

    n -= n > 5 && !strcmp(a + n - 5, ".open") ? 5 : 0;
    m -= m > 5 && !strcmp(b + m - 5, ".open") ? 5 : 0;
    return n == m && !memcmp(a, b, n);
}

static struct argus_live_follower *find_follower(const argus_live_t *l, const char *path,
                                                 size_t hint)
{
    /* Both lists are in order of rank: the place is nearly always the same. */
    if (hint < l->n && same_rank_file(l->followers[hint]->path, path))
        return l->followers[hint];
    for (size_t i = 0; i < l->n; i++)
        if (same_rank_file(l->followers[i]->path, path))
            return l->followers[i];
    return NULL;
}

static int add_follower(argus_live_t *l, const char *path)
{
    struct argus_live_follower *f = calloc(1, sizeof(*f)), **bigger;

    bigger = f ? realloc(l->followers, sizeof(*bigger) * (l->n + 1)) : NULL;
    if (bigger)
        l->followers = bigger;
    if (!bigger || !(f->path = strdup(path))) {
        free(f);
        return -1;
    }
    l->followers[l->n++] = f;
    return 0;
}

static int rescan(argus_live_t *l, argus_error_t *err)
{
    char **paths = NULL;
    size_t n = 0;
    int rc = 0;

    if (argus_timeline_list(l->dir, &paths, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct argus_live_follower *f = find_follower(l, paths[i], i);

        if (!f) {
            rc = add_follower(l, paths[i]);
        } else if (strcmp(f->path, paths[i])) {
            /* Sealed meanwhile: the same rows under the final name. */
            char *path = strdup(paths[i]);

            if (path) {
                argus_timeline_close(f->t);
                f->t = NULL;
                free(f->path);
                f->path = path;
            }
        }
    }
    argus_timeline_list_free(paths, n);
    return rc ? argus_error(err, "%s: no memory", l->dir) : 0;
}

static double median_of(const struct argus_live_follower *f,
                        int64_t (*get)(const struct argus_step_row *))
{
    double x[WINDOW];

    for (int i = 0; i < f->n; i++)
        x[i] = (double)get(&f->rows[i]);
    return argus_median_inplace(x, (size_t)f->n);
}

static int64_t get_duration(const struct argus_step_row *r)
{
    return r->end - r->start;
}
static int64_t get_compute(const struct argus_step_row *r)
{
    return r->compute;
}
static int64_t get_exposed(const struct argus_step_row *r)
{
    return r->exposed;
}
static int64_t get_idle(const struct argus_step_row *r)
{
    return r->idle;
}
static int64_t get_kernels(const struct argus_step_row *r)
{
    return r->kernels;
}

static void take_rows(struct argus_live_follower *f, const struct argus_step_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].flags & (ARGUS_STEP_WARMUP | ARGUS_STEP_PARTIAL | ARGUS_STEP_GAP) ||
            rows[i].end <= rows[i].start)
            continue;
        if (f->n == WINDOW) {
            memmove(f->rows, f->rows + 1, sizeof(f->rows[0]) * (WINDOW - 1));
            f->n--;
        }
        f->rows[f->n++] = rows[i];
    }
    f->duration = median_of(f, get_duration);
    f->compute = median_of(f, get_compute);
    f->exposed = median_of(f, get_exposed);
    f->idle = median_of(f, get_idle);
    f->kernels = median_of(f, get_kernels);
}

/* A file that cannot be read now may be readable at the next refresh: not an error. */
static void follow(struct argus_live_follower *f)
{
    struct argus_step_row rows[WINDOW];
    size_t n, first;

    if (!f->t) {
        f->t = argus_timeline_open(f->path, NULL);
        if (!f->t)
            return;
        f->sealed = argus_timeline_sealed(f->t);
    } else if (f->sealed || argus_timeline_refresh(f->t, NULL) < 0) {
        return;
    }
    f->info = *argus_timeline_info(f->t);
    f->counters = *argus_timeline_counters(f->t);
    f->known = 1;
    n = argus_timeline_rows(f->t, ARGUS_DS_STEPS);
    if (n <= f->seen)
        return;
    first = n - f->seen > WINDOW ? n - WINDOW : f->seen;
    if (argus_timeline_read(f->t, ARGUS_DS_STEPS, first, n - first, rows, NULL) == 0) {
        take_rows(f, rows, n - first);
        f->seen = n;
    }
}

int argus_live_follow(struct argus_live *l, argus_error_t *err)
{
    if (l->until_rescan-- <= 0) {
        if (rescan(l, err) < 0)
            return -1;
        l->until_rescan = RESCAN;
    }
    for (size_t i = 0; i < l->n; i++) {
        follow(l->followers[i]);
        if (l->close) {
            argus_timeline_close(l->followers[i]->t);
            l->followers[i]->t = NULL;
        }
    }
    return 0;
}
