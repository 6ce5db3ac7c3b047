/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsys exports of one job.  Each pair of process and GPU in a file is a rank;
 * ranks are numbered over the files in the order given, in a file by GPU and
 * process, unless files of one rank each say "rank-N" in their names.
 */
#include <config.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/import/nsys.h"

#define RANKS_MAX 65536

struct rank_list {
    struct nsys_rank *ranks;
    size_t n, size;
};

static int list_ranks(struct nsys_db *n, size_t file, struct rank_list *list, argus_error_t *err)
{
    sqlite3_stmt *s = nsys_prepare(n, err,
                                   "SELECT " NSYS_PROCESS ", deviceId FROM "
                                   "CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1, 2 ORDER BY 2, 1",
                                   nsys_or_zero(n, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"));
    size_t before = list->n;
    int rc;

    if (!s)
        return -1;
    while ((rc = nsys_step(n, s, err)) > 0) {
        if (list->n == list->size) {
            size_t more = list->size ? list->size * 2 : 16;
            struct nsys_rank *p =
                more <= RANKS_MAX ? realloc(list->ranks, more * sizeof(*p)) : NULL;

            if (!p) {
                rc = argus_error(err, "%s: more than %zu ranks", n->path, list->n);
                break;
            }
            list->ranks = p;
            list->size = more;
        }
        list->ranks[list->n] = (struct nsys_rank){.file = file,
                                                  .process = sqlite3_column_int64(s, 0),
                                                  .device = sqlite3_column_int64(s, 1),
                                                  .rank = (int)list->n};
        list->n++;
    }
    sqlite3_finalize(s);
    if (rc == 0 && list->n == before)
        rc = argus_error(err, "%s: no GPU kernels in the export", n->path);
    return rc;
}

static int first_of_process(const struct rank_list *list, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (list->ranks[j].file == list->ranks[i].file &&
            list->ranks[j].process == list->ranks[i].process)
            return 0;
    }
    return 1;
}

/* Pass 0 writes what can be matched by itself, pass 1 the rest. */
static int one_rank(struct nsys_db *n, const struct rank_list *list, size_t i, int pass, int world,
                    const struct import_output *out, struct import_state *state,
                    struct import_report *report, argus_error_t *err)
{
    struct import_trace t = {0};
    int rc = nsys_read_rank(n, &list->ranks[i], (int)list->n, first_of_process(list, i), &t, err);

    if (rc == 0 && pass == 0)
        *state = (struct import_state){.rank = t.rank,
                                       .world = t.world,
                                       .first_step = import_first_step(&t),
                                       .unmatched = t.unmatched,
                                       .unmatched_sum = t.unmatched_sum};
    if (rc == 0 && (pass == 1 || !t.unmatched || list->n == 1))
        rc = import_state_write(&t, out, world, state, report, err);
    import_trace_free(&t);
    return rc;
}

static int one_pass(const char *const *files, size_t n, const struct rank_list *list, int pass,
                    const struct import_output *out, import_progress *progress, void *arg,
                    struct import_state *states, struct import_report *report, argus_error_t *err)
{
    int world = pass == 1 && import_states_agree(states, list->n);

    for (size_t f = 0; f < n; f++) {
        struct nsys_db db = {0};
        int rc = 0;

        for (size_t i = 0; i < list->n && rc == 0; i++) {
            if (list->ranks[i].file != f || states[i].written)
                continue;
            if (!db.db)
                rc = nsys_open(&db, files[f], err);
            if (rc == 0)
                rc = one_rank(&db, list, i, pass, world, out, &states[i], report, err);
            if (progress)
                progress(arg, ((double)i + 1) / (double)list->n);
        }
        nsys_close(&db);
        if (rc != 0)
            return -1;
    }
    return 0;
}

static int list_all(const char *const *files, size_t n, struct rank_list *list, argus_error_t *err)
{
    for (size_t f = 0; f < n; f++) {
        struct nsys_db db;
        int rc = nsys_open(&db, files[f], err);

        if (rc == 0)
            rc = list_ranks(&db, f, list, err);
        nsys_close(&db);
        if (rc != 0)
            return -1;
    }
    return 0;
}

/* Files of one rank each that all say whose they are. */
static void ranks_by_name(const char *const *files, size_t n, struct rank_list *list)
{
    if (list->n != n)
        return;
    for (size_t f = 0; f < n; f++) {
        int rank = import_rank_of_name(files[f]);

        if (rank < 0 || list->ranks[f].file != f)
            return;
        for (size_t g = 0; g < f; g++) {
            if (import_rank_of_name(files[g]) == rank)
                return;
        }
    }
    for (size_t f = 0; f < n; f++)
        list->ranks[f].rank = import_rank_of_name(files[f]);
}

int import_nsys(const char *const *files, size_t n, const struct import_output *out,
                import_progress *progress, void *arg, struct import_report *report,
                argus_error_t *err)
{
    struct import_job job = {.source = "nsys", .files = files, .n_files = n};
    struct import_state *states = NULL;
    struct rank_list list = {0};
    int rc = -1;

    memset(report, 0, sizeof(*report));
    report->files = n;
    if (list_all(files, n, &list, err) != 0)
        goto out;
    ranks_by_name(files, n, &list);
    states = calloc(list.n + 1, sizeof(*states));
    if (!states) {
        argus_error(err, "out of memory");
        goto out;
    }
    if (import_prepare(out, err) != 0)
        goto out;
    rc = one_pass(files, n, &list, 0, out, progress, arg, states, report, err);
    if (rc == 0)
        import_states_note(states, list.n, report);
    if (rc == 0)
        rc = one_pass(files, n, &list, 1, out, NULL, NULL, states, report, err);
    job.ranks = job.world = (int)list.n;
    if (rc == 0)
        rc = import_job_write(out, &job, err);
    if (rc != 0)
        import_states_undo(states, list.n, out);
out:
    free(list.ranks);
    free(states);
    return rc;
}
